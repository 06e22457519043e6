//! Tests collections that refer to each other through the real binary: `experiments/references.toml` with less data and one
//! more engine.

use std::path::Path;

use prony_model::metric::Metric;
use prony_model::record::TrialRecord;

use crate::bench::{Bench, amount};

fn experiment() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/references.toml");
    let mut text = std::fs::read_to_string(file).unwrap();
    for (from, to) in [
        ("[\"lmdb\",", "[\"redb\", \"lmdb\","),
        ("blocks   = 6", "blocks   = 1"),
        ("records  = 500", "records  = 40"),
        ("records  = 3_000", "records  = 200"),
        ("count = 1_000", "count = 70"),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    text
}

fn digests(trial: &TrialRecord) -> Vec<(&str, &str)> {
    let answers = trial.phases.iter().filter_map(|phase| Some((phase.name.as_str(), phase.answer.as_ref()?)));
    answers.map(|(name, answer)| (name, answer.digest.as_str())).collect()
}

#[test]
fn engines_refuse_the_same_operations_and_store_the_same_documents() {
    let data = Bench::new().run(&experiment());
    // The baseline of each engine runs twice.
    assert_eq!(data.trials.len(), 4 * 4);
    let level = |trial: &TrialRecord| data.experiment.variants()[trial.trial.variant].levels[1];
    for trial in &data.trials {
        let of = |phase, metric| amount(trial, phase, metric);
        let alike = data.trials.iter().find(|other| level(other) == level(trial)).unwrap();
        assert_eq!(digests(trial), digests(alike));
        let refused = of("remove schools", Metric::Refused);
        assert!(refused > 0.0 && refused < 40.0, "{refused}");
        assert_eq!(of("remove schools", Metric::Operations), 40.0);
        assert_eq!(of("remove schools", Metric::Conflicts), 0.0);
        assert_eq!(of("students of a school", Metric::Rows), 200.0, "each student is in one school");
        let verified = trial.phases.last().and_then(|phase| phase.answer.as_ref()?.rows);
        assert_eq!(verified, Some(200 + refused as u64), "the schools that were not removed");
        if level(trial) > 0 {
            assert_eq!(of("enrol", Metric::Refused) + of("change school", Metric::Refused), 0.0);
            let doubt = trial.findings.iter().find(|finding| finding.message.contains("may legitimately"));
            assert_eq!(doubt, None, "the records that were changed are known");
        }
    }
}

/// Loads of which most was refused were "50.8 times faster".
#[test]
fn loads_of_which_other_shares_were_refused_are_not_compared() {
    let bench = Bench::new();
    let half = experiment().replace("transaction = { batch = 1_000 } }", "count = 20 }").replace("\"lock\"]", "]");
    bench.write("experiment.toml", half.replace("[\"redb\", \"lmdb\", \"sqlite\", \"memory\"]", "[\"memory\"]"));
    let output = bench.prony(&["run", "experiment.toml"]);
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let why = "`enrol`: none of the operations of `memory, ignore` were refused because of references, but";
    let said: Vec<&str> = said.split_whitespace().collect();
    let said = said.join(" ");
    assert!(said.contains(why) && !said.contains("faster"), "{said}");
    assert!(said.contains("cpu, ms anon.max, MB refused"), "{said}");
}
