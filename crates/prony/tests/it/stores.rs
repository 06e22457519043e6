//! Tests where programs keep their data: which place belongs to a trial, and what reading its size costs.

use std::fs;

use prony_model::metric::{Metric, MetricKey};
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};
use prony_model::record::TrialRecord;
use prony_model::spec::Sign;
use prony_model::units::Nanos;

use crate::bench::{Bench, amount, guards, shell, unless_late};

/// The trials of an experiment with full care: with light care nothing is read of a disk.
fn trials(bench: &Bench, blocks: u32, body: &str) -> Vec<TrialRecord> {
    bench.write("full.toml", format!("[compare]\nblocks = {blocks}\n{body}"));
    let output = bench.prony(&["run", "full.toml", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    bench.data().trials
}

#[test]
fn data_in_the_temporary_directory_are_read_and_are_the_trials_own() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    // A phase that is not much longer than its end may have been read late has no figures.
    let script =
        "sleep 1; head -c 1000000 /dev/zero > $DATA; sync $DATA; echo one; [ $DATA = $TMPDIR/data ] && exec sleep 600";
    let body = format!(
        "{}directory = \"site\"\ncopy = \"none\"\nenv = {{ DATA = \"{{tmp}}/data\" }}\nstore = \"{{tmp}}/data\"\n\
         [[phase]]\nname = \"one\"\nend = {{ line = \"one\" }}\n\
         [[phase]]\nname = \"quiet\"\nbegin = {{ after = \"one\" }}\nend = {{ settle = {{ quiet = \"300 ms\" }} }}\nthen = \"stop\"\n",
        shell(script)
    );
    for trial in trials(&bench, 2, &body) {
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
        assert_eq!(amount(&trial, "one", Metric::DiskLength), 1e6);
        let cached = unless_late(&trial, "quiet", MetricKey::amount(Metric::Cached));
        assert!(cached.is_none_or(|share| share > 0.9), "{cached:?}");
        let program = trial.program().unwrap();
        let store = program.store.as_ref().unwrap();
        assert_eq!((store.path.to_str(), store.of_the_trial), (Some(program.env["DATA"].as_str()), true));
        assert!(store.path.ends_with("tmp/data"), "{store:?}");
        assert_eq!(guards(&trial), [""; 0], "{:?}", trial.findings);
        assert!(
            Nanos::ZERO < store.settling && store.settling < store.reading,
            "polls for quiet are part of what reading it took: {store:?}"
        );
    }
}

/// The program is quiet when it has written its data; the pages are written to the disk 1.5 s later.
#[test]
fn settle_time_is_of_the_processes_and_dirty_pages_are_reported_separately() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let script = "head -c 8000000 /dev/zero > $DATA; echo one; sleep 1.5; sync $DATA; exec sleep 600";
    let settle = |keys: &str| {
        let body = format!(
            "{}directory = \"site\"\ncopy = \"none\"\nenv = {{ DATA = \"{{tmp}}/data\" }}\nstore = \"{{tmp}}/data\"\n\
             [[phase]]\nname = \"quiet\"\nbegin = {{ line = \"one\" }}\n\
             end = {{ settle = {{ quiet = \"300 ms\", {keys} }} }}\nthen = \"stop\"\n",
            shell(script)
        );
        trials(&bench, 1, &body).remove(0)
    };
    // The kernel may write the pages at any time, as soon as anyone on this machine syncs: that trial shows nothing.
    let is_early = |trial: &TrialRecord| {
        let of =
            |metric| trial.phases[0].reading(MetricKey::amount(metric)).and_then(|found| found.measured().copied());
        of(Metric::SettleTime).zip(of(Metric::SettleDirty)).is_some_and(|(time, dirty)| dirty <= time)
    };
    let mut usual = settle("");
    for _ in 0..5 {
        if is_early(&usual) {
            usual = settle("");
        }
    }
    let record = &usual.phases[0];
    if let Some(Reading::Missing(why @ Why::NotSupported(_))) = record.reading(MetricKey::amount(Metric::SettleDirty)) {
        assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "{why}");
        eprintln!("skipped: {why}");
        return;
    }
    let [time, dirty] = [Metric::SettleTime, Metric::SettleDirty].map(|metric| amount(&usual, "quiet", metric));
    assert!(time < dirty, "the processes were quiet after {time} ns, the pages written after {dirty}");
    assert_eq!((amount(&usual, "quiet", Metric::Time), record.last_sign()), (time, Some(Sign::Dirty)));
    let shown = String::from_utf8(bench.prony(&["show"]).stdout).unwrap();
    assert!(shown.contains("last active: dirty pages of the store (`settle.time.dirty`)"), "{shown}");
    let csv = String::from_utf8(bench.prony(&["report", "--format", "csv"]).stdout).unwrap();
    assert!(csv.lines().nth(1).is_some_and(|line| line.ends_with(",dirty")), "{csv}");
    let counted = settle("of = [\"cpu\", \"dirty\"]");
    let [time, dirty] = [Metric::SettleTime, Metric::SettleDirty].map(|metric| amount(&counted, "quiet", metric));
    assert!(time >= dirty && dirty > 0.0, "what `of` names counts: {time}, {dirty}");
    // Others on the machine may have the file system synced meanwhile, and these pages with it.
    let waits_for_nobody = || {
        let brief = settle("beside = []");
        brief.phases[0].reading(MetricKey::amount(Metric::SettleDirty)).unwrap().measured().is_none()
    };
    assert!((0..8).any(|_| waits_for_nobody()), "it does not wait for the kernel");
}

#[test]
fn a_copy_of_its_own_does_not_make_a_place_outside_of_it_the_trials() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    bench.write("shared/data", vec![b'x'; 100_000]);
    let body = |store: &str| {
        format!("[program.x]\ncommand = [\"true\"]\ndirectory = \"site\"\ncopy = \"trial\"\nstore = \"{store}\"\n")
    };
    // Scratch is made beside the database.
    let outside = trials(&bench, 1, &body("{dir}/../../shared"));
    let files = |trial: &TrialRecord| trial.program().unwrap().store.as_ref().unwrap().at_begin.unwrap().files;
    assert_eq!(files(&outside[0]), 1);
    assert!(guards(&outside[0]).contains(&"store_carried_over"), "{:?}", outside[0].findings);
    fs::rename(bench.path("shared"), bench.path("site/own")).unwrap();
    let inside = trials(&bench, 1, &body("own"));
    assert_eq!(files(&inside[0]), 1);
    assert!(!guards(&inside[0]).contains(&"store_carried_over"), "{:?}", inside[0].findings);
}
