//! Tests of the guard of programs that keep work for later trials.

use super::super::first_trial::check;
use super::*;

/// The spec of a program in a directory of which a copy is made for each `copy`.
fn in_copy(copy: &str) -> TrialSpec {
    let text = format!("[program.x]\ncommand = \"make\"\ndirectory = \".\"\ncopy = \"{copy}\"\n");
    let raw = prony_experiment::parse(&text, "x.toml").unwrap();
    prony_experiment::check(&raw, &Engines, &Default::default()).unwrap().variants()[0].spec.clone()
}

/// A trial whose phase took so many milliseconds, of which so many of user time. Where it is short, the two kinds of CPU time are not told apart.
fn took((wall, cpu): (f64, f64), block: u32, position: u32) -> TrialRecord {
    let metric = if cpu < 25.0 { Metric::Cpu } else { Metric::CpuUser };
    let readings = [(Metric::Wall, wall * 1e6), (metric, cpu * 1e6)];
    let mut trial = record(vec![PhaseRecord { timed: true, ..phase("run", &readings) }]);
    (trial.trial.block, trial.trial.position) = (block, position);
    trial
}

/// What is found of trials with these times, of which so many are in each block.
fn found(copy: &str, times: &[(f64, f64)], in_block: u32) -> Vec<Finding> {
    let spec = in_copy(copy);
    let trials: Vec<TrialRecord> =
        times.iter().zip(0..).map(|(times, position)| took(*times, position / in_block, position)).collect();
    check(&[VariantTrials { name: "code=base".to_owned(), spec: &spec, trials: trials.iter().collect() }])
}

/// In a gate of a pull request, each trial but the first of each revision built nothing, and the gate passed.
#[test]
fn first_trial_that_took_far_longer_is_reported() {
    let (all, nothing) = ((900.0, 800.0), (30.0, 20.0));
    for copy in ["variant", "none"] {
        let one = &found(copy, &[all, nothing, nothing, nothing], 1)[0];
        assert_eq!((one.guard.as_str(), one.phase.as_deref()), ("first_trial_slower", Some("run")));
        assert!(one.message.contains("(`code=base`: 30 times the time and 40 times the user time)"), "{}", one.message);
    }
    assert_eq!(found("trial", &[all, nothing, nothing, nothing], 1), []);
    // A baseline alternates between two copies.
    let [a, b] = [[all; 2], [nothing; 2]];
    assert_eq!(found("variant", &[a, b, b, b].concat(), 2).len(), 1);
    assert_eq!(found("variant", &[[all, nothing], b, b, b].concat(), 2), [], "the second copy shows none of it");
    assert_eq!(found("variant", &[a, b, b].concat(), 2), [], "too few");
}

#[test]
fn first_trial_that_read_cold_files_or_met_noise_is_not_reported() {
    let later = [(30.0, 20.0); 4];
    let after = |first: (f64, f64)| found("none", &[&[first], &later[..]].concat(), 1);
    assert_eq!(after((900.0, 25.0)), [], "it read the disk");
    assert_eq!(after((80.0, 60.0)), [], "less than three times");
    let short = found("none", &[(40.0, 12.0), (4.0, 2.0), (4.0, 2.0), (4.0, 2.0)], 1);
    assert_eq!(short, [], "loading a program takes some milliseconds");
    let noisy = [(900.0, 800.0), (30.0, 20.0), (850.0, 790.0), (30.0, 20.0), (30.0, 20.0), (40.0, 20.0)];
    assert_eq!(found("none", &noisy, 1), [], "a later one took as long");
}
