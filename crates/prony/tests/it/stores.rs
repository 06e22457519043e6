//! Where programs keep their data: what a trial's own place is, and what reading it takes.

use std::fs;

use prony_core::metric::Metric;
use prony_core::outcome::Outcome;
use prony_core::record::TrialRecord;

use crate::programs::{Bench, amount, guards, shell};

/// The trials of an experiment with full care: with light care nothing is read of a disk.
fn trials(bench: &Bench, blocks: u32, body: &str) -> Vec<TrialRecord> {
    fs::write(bench.path("full.toml"), format!("[compare]\nblocks = {blocks}\n{body}")).unwrap();
    let output = bench.prony(&["run", "full.toml", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    bench.data().trials
}

#[test]
fn data_in_the_temporary_directory_are_read_and_are_the_trials_own() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let script = "head -c 1000000 /dev/zero > $DATA; sync $DATA; echo one; [ $DATA = $TMPDIR/data ] && exec sleep 2";
    let body = format!(
        "{}directory = \"site\"\ncopy = \"none\"\nenv = {{ DATA = \"{{tmp}}/data\" }}\nstore = \"{{tmp}}/data\"\n\
         [[phase]]\nname = \"one\"\nend = {{ line = \"one\" }}\n\
         [[phase]]\nname = \"quiet\"\nbegin = {{ after = \"one\" }}\nend = {{ settle = {{ quiet = \"300 ms\" }} }}\n",
        shell(script)
    );
    for trial in trials(&bench, 2, &body) {
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
        assert_eq!(amount(&trial, "one", Metric::DiskLength), 1e6);
        assert!(amount(&trial, "quiet", Metric::Cached) > 0.9);
        let (store, env) = (&trial.effective["store"], &trial.effective["env"]);
        assert_eq!((&store["path"], &store["of_the_trial"]), (&env["DATA"], &true.into()));
        assert!(store["path"].as_str().unwrap().ends_with("/tmp/data"), "{store}");
        assert_eq!(guards(&trial), [""; 0], "{:?}", trial.findings);
        let [reading, looks] = ["reading_ns", "looks_ns"].map(|key| store[key].as_u64().unwrap());
        assert!(0 < looks && looks < reading, "looks for quiet are part of what reading it took: {store}");
    }
}

#[test]
fn a_copy_of_its_own_does_not_make_a_place_outside_of_it_the_trials() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    fs::create_dir(bench.path("shared")).unwrap();
    fs::write(bench.path("shared/data"), vec![b'x'; 100_000]).unwrap();
    let body = |store: &str| {
        format!("[program.x]\ncommand = [\"true\"]\ndirectory = \"site\"\ncopy = \"trial\"\nstore = \"{store}\"\n")
    };
    // Scratch is made beside the database.
    let outside = trials(&bench, 1, &body("{dir}/../../shared"));
    assert_eq!(outside[0].effective["store"]["at_begin"]["files"], 1, "{}", outside[0].effective["store"]);
    assert!(guards(&outside[0]).contains(&"store_carried_over"), "{:?}", outside[0].findings);
    fs::rename(bench.path("shared"), bench.path("site/own")).unwrap();
    let inside = trials(&bench, 1, &body("own"));
    assert_eq!(inside[0].effective["store"]["at_begin"]["files"], 1);
    assert!(!guards(&inside[0]).contains(&"store_carried_over"), "{:?}", inside[0].findings);
}
