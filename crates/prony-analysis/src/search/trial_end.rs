//! Classifies a trial's outcome for a search as success, failure or disturbance.

use serde::{Deserialize, Serialize};

use crate::guard::phases_not_observed;
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::record::TrialRecord;

/// What a trial shows about the setting it ran with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialEnd {
    /// It ended well.
    #[serde(rename = "lived")]
    Succeeded,
    /// It failed because of the subject itself: a declared limit, the runtime's heap, an error, a crash, a wrong
    /// answer.
    #[serde(rename = "died")]
    Failed,
    /// Something outside may have ended it: the host ran out of memory, or it was killed for an unknown cause. It shows
    /// nothing about the setting.
    Disturbed,
}

impl TrialEnd {
    /// What a trial shows: what its outcome means, but a trial in which a declared phase never began or never ended is no
    /// success (METHOD 8.1). A program that gives up early with exit code 0 would succeed with any value.
    pub fn of_trial(record: &TrialRecord) -> Option<Self> {
        match Self::of(record.ending.outcome) {
            Some(Self::Succeeded) if phases_not_observed::first(record).is_some() => Some(Self::Failed),
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

#[cfg(test)]
mod tests {
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
}
