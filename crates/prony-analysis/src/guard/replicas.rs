//! Guards that check the replicas of a program, or on a store, in one trial: whether they ran to their end, reported metrics, left
//! processes behind, and started together.

use serde_json::json;

use super::{Finding, Severity, amount, percent, recorded};
use prony_model::metric::Metric;
use prony_model::record::TrialRecord;
use prony_model::record::effective::{Replica, ReplicaEnd};
use prony_model::units::Nanos;

/// Replicas must all be released within this share of their makespan.
const APART: f64 = 0.05;

/// Every guard of replicas; finds nothing where there are none.
pub fn check(record: &TrialRecord) -> Vec<Finding> {
    let Some(replicas) = record.program().and_then(|program| program.replicas.as_ref()) else { return Vec::new() };
    let (phase, copies) = (replicas.phase.as_str(), replicas.copies.as_slice());
    let mut findings = Vec::new();
    findings.extend(cut_off(record, copies));
    findings.extend(without_report(copies));
    findings.extend(left_behind(copies));
    findings.extend(released_apart(record, phase, replicas.released_within));
    findings.into_iter().map(|finding| finding.in_phase(phase)).collect()
}

/// The names of the replicas for which a condition holds.
fn names(copies: &[Replica], is: impl Fn(&Replica) -> bool) -> Option<String> {
    let named = copies.iter().filter(|copy| is(copy));
    let names: Vec<String> = named.map(|copy| format!("`{}`", copy.instance)).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Replicas were still running when the program ended, and prony killed them.
pub(crate) fn cut_off(record: &TrialRecord, copies: &[Replica]) -> Option<Finding> {
    let names = names(copies, |copy| copy.end == ReplicaEnd::CutOff).filter(|_| record.ending.outcome.is_ok())?;
    let message = format!("the program ended while replicas were still running, and prony killed them: {names}");
    let hint = "let the program wait for its replicas, and end the phase with `end = { replicas = \"ended\" }`";
    Some(Finding::of("replicas_cut_off", Severity::Warning, message, hint))
}

/// No output line of a replica matched `read`.
pub(crate) fn without_report(copies: &[Replica]) -> Option<Finding> {
    let names = names(copies, |copy| copy.end == ReplicaEnd::Ended && copy.heard_nothing)?;
    let message = format!("no output line of {names} matched `read`: the metrics that `read` names are missing");
    let hint = "compare the pattern with the output of the replicas, which is in the record";
    Some(Finding::of("replicas_told_nothing", Severity::Warning, message, hint))
}

/// Processes of replicas continued to run after the replicas' main processes.
pub(crate) fn left_behind(copies: &[Replica]) -> Option<Finding> {
    let names = names(copies, |copy| copy.left_behind.is_some_and(|left| left > 0))?;
    let message = format!("processes were still running after {names} had ended; prony killed them");
    let hint = "what these processes did after that is not included in the measurements of any replica";
    Some(Finding::of("replicas_left_behind", Severity::Warning, message, hint))
}

/// Replicas were released so far apart in time that the first ran alone for a considerable part of the makespan.
pub fn released_apart(record: &TrialRecord, phase: &str, within: Option<Nanos>) -> Option<Finding> {
    let (apart, makespan) = (within?, amount(recorded(record, phase)?, Metric::Makespan)?);
    let within = apart.as_nanos() as f64;
    if within <= APART * makespan {
        return None;
    }
    let message = format!(
        "the first and the last replica began {apart} apart, {} of the makespan (the time until all have \
         ended)",
        percent(within / makespan)
    );
    let hint = "give the replicas more work, or run fewer of them per processor";
    let found = Finding::of("replicas_released_apart", Severity::Note, message, hint);
    Some(found.with(json!({ "within_ns": within, "makespan_ns": makespan })))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use prony_model::metric::MetricKey;
    use prony_model::outcome::{Ending, Outcome};
    use prony_model::reading::Reading;
    use prony_model::record::effective::Replicas;
    use prony_model::record::{Completion, Conditions, Effective, EffectiveProgram, MetricKeyText, PhaseRecord};
    use prony_model::trial::{Label, PlannedTrial};

    fn record(outcome: Outcome, makespan: f64, replicas: Option<Replicas>) -> TrialRecord {
        let readings = [(MetricKeyText(MetricKey::amount(Metric::Makespan)), Reading::Measured(makespan))];
        let phase = PhaseRecord {
            name: "queries".into(),
            action: "observe".into(),
            timed: true,
            completion: Completion::Complete,
            begin: None,
            end: None,
            readings: BTreeMap::from([(String::new(), readings.into())]),
            histograms: vec![],
            groups: None,
            throughput: None,
            answer: None,
            errors: BTreeMap::new(),
        };
        TrialRecord {
            trial: PlannedTrial { block: 0, sub_block: 0, position: 0, variant: 0, label: Label::A, seed: 1 },
            started_unix_ms: 0,
            took: Nanos::from_secs(1),
            ending: Ending { outcome, phase: None, after: Nanos::ZERO, evidence: vec![] },
            phases: vec![phase],
            effective: Some(Effective::Program(Arc::new(EffectiveProgram { replicas, ..Default::default() }))),
            conditions: Conditions::default(),
            series: vec![],
            sampler_cpu: Reading::Measured(Nanos::ZERO),
            findings: vec![],
        }
    }

    fn found(outcome: Outcome, makespan: f64, within: u64, copies: &[Replica]) -> Vec<(String, String)> {
        let released_within = Some(Nanos::from_nanos(within));
        let replicas =
            Replicas { phase: "queries".into(), released_within, copies: copies.to_vec(), ..Replicas::default() };
        let findings = check(&record(outcome, makespan, Some(replicas)));
        assert!(findings.iter().all(|finding| finding.phase.as_deref() == Some("queries")));
        findings.into_iter().map(|finding| (finding.guard, finding.message)).collect()
    }

    fn copy(number: u32, end: ReplicaEnd, heard_nothing: bool, left: u64) -> Replica {
        let instance = format!("replica.{number}");
        Replica { instance, end, heard_nothing, left_behind: Some(left), ..Replica::default() }
    }

    #[test]
    fn what_is_as_it_should_be_is_no_finding() {
        let copies = [copy(1, ReplicaEnd::Ended, false, 0), copy(2, ReplicaEnd::Ended, false, 0)];
        assert_eq!(found(Outcome::Ok, 1e9, 1_000_000, &copies), []);
        assert_eq!(check(&record(Outcome::Ok, 1e9, None)), []);
    }

    #[test]
    fn those_that_were_ended_with_the_program_are_named() {
        let copies = [
            copy(1, ReplicaEnd::Ended, false, 0),
            copy(2, ReplicaEnd::CutOff, true, 0),
            copy(3, ReplicaEnd::CutOff, true, 0),
        ];
        let all = found(Outcome::Ok, 1e9, 0, &copies);
        assert_eq!(all.len(), 1, "one that was ended early had no time to report: {all:?}");
        assert!(all[0].0 == "replicas_cut_off" && all[0].1.ends_with("`replica.2`, `replica.3`"), "{all:?}");
        assert_eq!(found(Outcome::TimedOut, 1e9, 0, &copies), [], "the outcome says so already");
    }

    #[test]
    fn silent_leftover_and_late_replicas_are_reported() {
        let copies = [copy(1, ReplicaEnd::Ended, true, 0), copy(2, ReplicaEnd::Ended, false, 3)];
        let all = found(Outcome::Ok, 100e6, 6_000_000, &copies);
        let guards: Vec<&str> = all.iter().map(|(guard, _)| guard.as_str()).collect();
        assert_eq!(guards, ["replicas_told_nothing", "replicas_left_behind", "replicas_released_apart"]);
        assert!(all[0].1.contains("`replica.1`") && all[1].1.contains("`replica.2`"), "{all:?}");
        assert!(all[2].1.contains("6.00 ms apart"), "{all:?}");
        assert_eq!(found(Outcome::Ok, 200e6, 6_000_000, &[]), [], "3 % of it");
    }
}
