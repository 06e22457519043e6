//! Tests phases with a background through the real binary, on every engine of the default build.

use prony_model::metric::{Metric, MetricKey};
use prony_model::outcome::Outcome;
use prony_model::record::{MetricKeyText, TrialRecord};

use crate::bench::{Bench, amount, guards};

/// Updates beside readers, then reads beside a writer. The pauses give the background time on a busy machine.
const TOGETHER: &str = r#"
[factors]
engine = ["lmdb", "sqlite", "redb", "fjall", "memory"]
[store]
engine = "{engine}"
[data]
records = 2_000
key     = "{i}"
value   = { bytes = 200 }
[[phase]]
name = "write"
put  = { transaction = { batch = 1_000 } }
[[phase]]
name       = "update"
update     = { transaction = { batch = 100 }, pause = { every = 100, for = "2 ms" } }
background = { get = { order = "uniform", threads = 2 } }
[[phase]]
name       = "read"
get        = { pause = { every = 100, for = "2 ms" } }
background = { update = { order = "uniform", transaction = { batch = 10 } } }
[[phase]]
name   = "check"
verify = {}
"#;

#[track_caller]
fn of_background(trial: &TrialRecord, phase: &str, metric: Metric) -> f64 {
    let phase = trial.phases.iter().find(|one| one.name == phase).unwrap();
    let reading = phase.readings["background"].get(&MetricKeyText(MetricKey::amount(metric)));
    *reading.unwrap_or_else(|| panic!("no {metric:?}")).measured().unwrap()
}

#[test]
fn background_runs_beside_the_phase_on_every_engine() {
    let bench = Bench::new();
    let data = bench.run(TOGETHER);
    assert_eq!(data.trials.len(), 5);
    for trial in &data.trials {
        assert!(trial.ending.outcome.is_ok(), "{:?}", trial.ending);
        let mut found = guards(trial);
        found.retain(|guard| !["note_of_the_worker", "background_apart"].contains(guard));
        assert_eq!(found, [""; 0]);
        assert_eq!(
            (amount(trial, "update", Metric::Operations), amount(trial, "read", Metric::Rows)),
            (2000.0, 2000.0)
        );
        for phase in ["update", "read"] {
            assert!(of_background(trial, phase, Metric::Operations) > 0.0, "{phase}");
            assert_eq!(of_background(trial, phase, Metric::Errors), 0.0);
        }
        assert_eq!(of_background(trial, "update", Metric::Misses), 0.0);
        assert!(!trial.phases[2].answer.as_ref().unwrap().comparable);
    }
    let tables = String::from_utf8(bench.prony(&["show", "--all"]).stdout).unwrap();
    assert!(tables.contains("background.rate, /s") && tables.contains("background.latency.p99"), "{tables}");
}

/// How much a store takes on the disk after updates beside a reader with this transaction.
fn disk_beside(bench: &Bench, engine: &str, transaction: &str) -> f64 {
    let text = TOGETHER.replace("[\"lmdb\", \"sqlite\", \"redb\", \"fjall\", \"memory\"]", &format!("[\"{engine}\"]"));
    let readers = format!("get = {{ order = \"uniform\", transaction = \"{transaction}\" }}");
    let text = text.replace("get = { order = \"uniform\", threads = 2 }", &readers);
    let data = bench.run(&text.replace("for = \"2 ms\"", "for = \"20 ms\""));
    assert!(data.trials[0].ending.outcome.is_ok(), "{:?}", data.trials[0].ending);
    amount(&data.trials[0], "update", Metric::Disk)
}

#[test]
fn reader_with_an_old_snapshot_lets_the_store_grow() {
    let bench = Bench::new();
    // Each of the 20 commits copies pages, which later commits use again unless a reader may need them.
    let (renewed, old) = (disk_beside(&bench, "lmdb", "each"), disk_beside(&bench, "lmdb", "single"));
    assert!(old > 1.5 * renewed, "{old} beside an old snapshot, {renewed} beside new ones");
}

#[test]
fn background_that_cannot_keep_its_rate_saturates_the_trial() {
    let bench = Bench::new();
    let text = TOGETHER.replace("[\"lmdb\", \"sqlite\", \"redb\", \"fjall\", \"memory\"]", "[\"sqlite\"]");
    let text = text.replace("for = \"2 ms\"", "for = \"20 ms\"");
    let data = bench.run(&text.replace("order = \"uniform\", threads = 2", "rate = \"50000000/s\""));
    let ending = &data.trials[0].ending;
    assert_eq!((ending.outcome, ending.phase.as_deref()), (Outcome::Saturated, Some("update")));
    assert_eq!(ending.evidence, ["the requested rate of the background was not sustained"]);
}
