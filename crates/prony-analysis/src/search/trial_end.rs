//! Classifies a trial's outcome for a search as success, failure or disturbance.

use serde::{Deserialize, Serialize};

use crate::guard::disturbances::limited_by_generator;
use crate::guard::phases_not_observed;
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::record::{Completion, PhaseRecord, TrialRecord};

/// What a trial shows about the setting it ran with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialEnd {
    /// It ended well.
    Succeeded,
    /// It failed because of the subject itself: a declared limit, the runtime's heap, an error, a crash, a wrong
    /// answer.
    Failed,
    /// It shows nothing about the setting: something outside may have ended it (the host ran out of memory, or it was killed for
    /// an unknown cause), or the load generator may have been the limit.
    Disturbed,
}

impl TrialEnd {
    /// What a trial shows: what its outcome means, but a trial in which a declared phase never began or never ended
    /// (METHOD 8.1), or of which it is not known whether it did its work (METHOD 8.2), is no success. A program that gives
    /// up early with exit code 0 would succeed with any value. A rate that the load generator may not have reached is no failure.
    pub fn of_trial(record: &TrialRecord) -> Option<Self> {
        let is_incomplete = || phases_not_observed::first(record).is_some() || uncounted(record).is_some();
        match Self::of(record.ending.outcome) {
            Some(Self::Succeeded) if is_incomplete() => Some(Self::Failed),
            Some(Self::Failed) if limited_by_generator(record).is_some() => Some(Self::Disturbed),
            end => end,
        }
    }

    /// What the outcome means; `None` where the user interrupted the trial, which is not a result.
    const fn of(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::Ok => Some(Self::Succeeded),
            Outcome::Interrupted => None,
            Outcome::Killed | Outcome::OutOfMemory { by: OutOfMemory::Host } => Some(Self::Disturbed),
            Outcome::OutOfMemory { by: OutOfMemory::Limit | OutOfMemory::Runtime }
            | Outcome::TimedOut
            | Outcome::Crashed { .. }
            | Outcome::Failed { .. }
            | Outcome::DiskFull
            | Outcome::WrongAnswer
            | Outcome::Saturated
            | Outcome::Unsupported => Some(Self::Failed),
        }
    }
}

/// The first phase of a trial that ended well whose output did not say how many operations succeeded or failed, although
/// it should have.
pub fn uncounted(record: &TrialRecord) -> Option<&PhaseRecord> {
    let mut phases = record.phases.iter().filter(|_| record.ending.outcome.is_ok());
    phases.find(|phase| phase.completion == Completion::Uncounted)
}

#[cfg(test)]
mod tests {
    use prony_model::finding::{Finding, Severity};
    use prony_model::record::Conditions;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_the_subject_did_itself_is_a_failure() {
        let memory = |by| TrialEnd::of(Outcome::OutOfMemory { by });
        assert_eq!(memory(OutOfMemory::Limit), Some(TrialEnd::Failed));
        assert_eq!(memory(OutOfMemory::Runtime), Some(TrialEnd::Failed));
        assert_eq!(memory(OutOfMemory::Host), Some(TrialEnd::Disturbed));
        assert_eq!(TrialEnd::of(Outcome::Killed), Some(TrialEnd::Disturbed));
        assert_eq!(TrialEnd::of(Outcome::TimedOut), Some(TrialEnd::Failed));
        assert_eq!(TrialEnd::of(Outcome::Ok), Some(TrialEnd::Succeeded));
        assert_eq!(TrialEnd::of(Outcome::Interrupted), None);
    }

    #[test]
    fn trial_whose_work_is_not_known_is_no_success() {
        let trial = |outcome: Outcome, completion: Completion| -> TrialRecord {
            serde_json::from_value(json!({
                "trial": { "block": 0, "sub_block": 0, "position": 0, "variant": 0, "label": "a", "seed": 1 },
                "started_unix_ms": 0, "took": 1, "ending": { "outcome": outcome, "phase": null, "after": 1, "evidence": [] },
                "phases": [{
                    "name": "work", "action": "observe", "timed": true, "completion": completion, "begin": 0, "end": 1,
                    "readings": {}, "histograms": [], "groups": null, "throughput": null, "answer": null, "errors": {}
                }],
                "effective": null, "conditions": Conditions::default(), "series": [],
                "sampler_cpu": { "measured": 0 }, "findings": []
            }))
            .unwrap()
        };
        let shows = |outcome, completion| {
            let trial = trial(outcome, completion);
            (TrialEnd::of_trial(&trial), uncounted(&trial).is_some())
        };
        assert_eq!(shows(Outcome::Ok, Completion::Complete), (Some(TrialEnd::Succeeded), false));
        assert_eq!(shows(Outcome::Ok, Completion::Uncounted), (Some(TrialEnd::Failed), true));
        assert_eq!(shows(Outcome::Killed, Completion::Uncounted), (Some(TrialEnd::Disturbed), false));
    }

    /// A rate of 16000/s at which the load generator was the limit was the smallest value that fails.
    #[test]
    fn rate_that_the_generator_may_not_have_reached_is_no_failure() {
        let shows = |outcome: Outcome, [errors, timeouts, skipped]: [f64; 3], finding: &str, phase: &str| {
            let mut trial: TrialRecord = serde_json::from_value(json!({
                "trial": { "block": 0, "sub_block": 0, "position": 0, "variant": 0, "label": "a", "seed": 1 },
                "started_unix_ms": 0, "took": 1, "ending": { "outcome": outcome, "phase": "open", "after": 1, "evidence": [] },
                "phases": [{
                    "name": "open", "action": "http", "timed": true, "completion": "complete", "begin": 0, "end": 1,
                    "readings": { "": {
                        "errors": { "measured": errors }, "timeouts": { "measured": timeouts },
                        "skipped": { "measured": skipped },
                    } },
                    "histograms": [], "groups": null, "throughput": null, "answer": null, "errors": {}
                }],
                "effective": null, "conditions": Conditions::default(), "series": [],
                "sampler_cpu": { "measured": 0 }, "findings": []
            }))
            .unwrap();
            trial.findings.push(Finding::of(finding, Severity::Warning, String::new(), "").in_phase(phase));
            TrialEnd::of_trial(&trial).unwrap()
        };
        let (saturated, failed, none) = (Outcome::Saturated, Outcome::Failed { code: None }, [0.0; 3]);
        for finding in ["generator_busy", "generator_stalled"] {
            assert_eq!(shows(saturated, none, finding, "open"), TrialEnd::Disturbed, "{finding}");
            assert_eq!(shows(saturated, none, finding, "other"), TrialEnd::Failed, "of another phase");
            assert_eq!(shows(failed, [2.0, 2.0, 7.0], finding, "open"), TrialEnd::Disturbed, "late requests only");
            assert_eq!(shows(failed, [3.0, 2.0, 7.0], finding, "open"), TrialEnd::Failed, "another error");
            assert_eq!(shows(failed, [2.0, 2.0, 0.0], finding, "open"), TrialEnd::Failed, "all started");
            assert_eq!(shows(Outcome::WrongAnswer, none, finding, "open"), TrialEnd::Failed);
        }
        assert_eq!(shows(saturated, none, "connections_in_use", "open"), TrialEnd::Failed);
    }
}
