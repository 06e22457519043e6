//! Tests of signs that the machine disturbed a trial, and of other conditions of its machine.

use std::collections::BTreeSet;

use prony_model::record::{Change, MemoryEvidence, ProcessSample, ProcessSeries, ReferenceTimes};
use serde_json::json;

use super::super::disturbances::{STALLED, change, disturbed, disturbed_trials, reference_loops};
use super::*;

fn machine_of(machine: Machine) -> Conditions {
    Conditions { machine: Reading::Measured(machine), ..Conditions::default() }
}

/// A machine whose loop of the processor took so long after the trial.
fn conditions(cpu: u64, steal: Reading<f64>) -> Conditions {
    let reference = |cpu, fsync| ReferenceTimes { cpu: Nanos::from_millis(cpu), memory: Nanos::from_millis(9), fsync };
    let none = Reading::Measured(0.0);
    machine_of(Machine {
        reference_before: reference(20, Reading::Measured(Nanos::from_millis(4))),
        reference_after: reference(cpu, Reading::Missing(Why::NotReached)),
        change: Change { steal, pressure_memory: none, swapped: Reading::Measured(0), ..Change::default() },
        ..Machine::default()
    })
}

#[test]
fn conditions_are_read_as_recorded_and_absence_is_not_zero() {
    let known = conditions(30, Reading::not_supported("x"));
    assert_eq!(reference_loops(&known)[0], ("cpu", 3e7));
    assert_eq!(reference_loops(&known)[2], ("fsync", 4e6));
    let change_of = change(&known).unwrap();
    assert_eq!((change_of.steal.measured(), change_of.swapped.measured()), (None, Some(&0)));
    assert_eq!((change(&Conditions::default()), reference_loops(&Conditions::default())), (None, vec![]));
}

#[test]
fn processes_refused_are_found_only_where_there_were_some() {
    let refused = |forks_refused| {
        let memory = Some(MemoryEvidence { forks_refused, ..MemoryEvidence::default() });
        let conditions = Conditions { memory, ..Conditions::default() };
        trial::processes_refused(&spec("lmdb"), &TrialRecord { conditions, ..calm() })
    };
    let found = refused(Reading::Measured(3)).unwrap();
    assert!(found.message.starts_with("the kernel refused 3 new processes or threads"), "{}", found.message);
    assert_eq!((refused(Reading::Measured(0)), refused(Reading::default())), (None, None));
}

#[test]
fn disturbed_trials_are_marked_with_their_signs() {
    let with = |position, conditions| {
        let mut one = TrialRecord { conditions, ..calm() };
        one.trial.position = position;
        one
    };
    let none = || Reading::Measured(0.0);
    let mut trials: Vec<TrialRecord> = (0..9).map(|i| with(i, conditions(20, none()))).collect();
    assert_eq!(disturbed_trials(&trials.iter().collect::<Vec<_>>()), None);
    trials.push(with(9, conditions(40, Reading::Measured(0.1))));
    let found = disturbed_trials(&trials.iter().collect::<Vec<_>>()).unwrap();
    assert!(found.message.starts_with(
        "the machine disturbed 1 of 10 trials; the first of them is trial 10: the cpu reference workload \
             took 2.00 times"
    ));
    assert!(found.message.contains("10 % of the CPU time went to other virtual machines"), "{}", found.message);
    assert_eq!(found.data[0]["trial"], 10, "counted from 1, as in the message");
    assert_eq!(found.severity, Severity::Note);
    assert_eq!(disturbed(&trials.iter().collect::<Vec<_>>()), BTreeSet::from([9]));
    let few: Vec<&TrialRecord> = trials[6..].iter().collect();
    assert_eq!(disturbed_trials(&few).unwrap().severity, Severity::Warning, "1 of 4");
    trials[2].findings.push(Finding::of(STALLED, Severity::Warning, String::new(), ""));
    assert_eq!(disturbed(&trials.iter().collect::<Vec<_>>()), BTreeSet::from([2, 9]));
    assert_eq!(trial::prony_stopped(Nanos::ZERO), None);
    trials[3].findings.extend(trial::prony_stopped(Nanos::from_millis(2_000)));
    assert_eq!(disturbed(&trials.iter().collect::<Vec<_>>()), BTreeSet::from([2, 3, 9]));
}

#[test]
fn swap_shows_by_process_or_by_machine() {
    let mut own = calm();
    let sample = ProcessSample { swap: Bytes::from_mib(3), ..ProcessSample::default() };
    own.series.push(ProcessSeries { pid: 7, role: "worker".into(), command: "prony".into(), samples: vec![sample] });
    assert!(trial::swapped(&own).unwrap().message.starts_with("up to 3.1 MB of a process's memory was in swap"));
    let mut machine = calm();
    machine.conditions = machine_of(Machine {
        change: Change { swapped: Reading::Measured(12), ..Change::default() },
        ..Machine::default()
    });
    assert_eq!(names(&trial::check(&spec("lmdb"), &machine, Nanos::ZERO)), ["swapped"]);
    assert_eq!(trial::swapped(&calm()), None);
}

#[test]
fn throttling_shows_with_its_cause() {
    let hot = machine_of(Machine {
        change: Change { throttled_thermal: Reading::Measured(3), ..Change::default() },
        ..Machine::default()
    });
    assert!(trial::throttled(&hot).unwrap().message.contains("throttled 3 times by heat and 0 times"));
    assert_eq!(trial::throttled(&Conditions::default()), None);
    // With light care nothing is known of the machine, but what the group of the trial counts.
    let memory = Some(MemoryEvidence { throttled: Reading::Measured(9), ..MemoryEvidence::default() });
    let limited = Conditions { memory, ..Conditions::default() };
    assert_eq!(trial::throttled(&limited).unwrap().data, json!({ "thermal": 0.0, "limit": 9.0 }));
}

#[test]
fn a_disk_is_nearly_full_by_share_or_by_need() {
    let gib = |n: u64| Bytes::from_mib(1024 * n);
    assert!(trial::disk_nearly_full(gib(5), gib(100), gib(1)).is_some());
    assert!(trial::disk_nearly_full(gib(50), gib(100), gib(60)).is_some());
    assert_eq!(trial::disk_nearly_full(gib(50), gib(100), gib(10)), None);
    assert_eq!(trial::disk_nearly_full(gib(9), gib(100), Bytes::from_mib(50)), None, "room for a hundred trials");
}
