//! Classifies a trial's outcome for a search as success, failure or disturbance.

use serde::{Deserialize, Serialize};

use prony_model::outcome::{OutOfMemory, Outcome};

/// What a trial shows about the setting it ran with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialEnd {
    /// It ended well.
    Lived,
    /// It failed because of the subject itself: a declared limit, the runtime's heap, an error, a crash, a wrong
    /// answer.
    Died,
    /// Something outside may have ended it: the host ran out of memory, or it was killed for an unknown cause. It shows
    /// nothing about the setting.
    Disturbed,
}

impl TrialEnd {
    /// What the outcome means; `None` where the user interrupted the trial, which is not a result.
    pub const fn of(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::Ok => Some(Self::Lived),
            Outcome::Interrupted => None,
            Outcome::Killed | Outcome::OutOfMemory { by: OutOfMemory::Host } => Some(Self::Disturbed),
            Outcome::OutOfMemory { by: OutOfMemory::Limit | OutOfMemory::Runtime }
            | Outcome::TimedOut
            | Outcome::Crashed { .. }
            | Outcome::Failed { .. }
            | Outcome::DiskFull
            | Outcome::WrongAnswer
            | Outcome::Saturated
            | Outcome::Unsupported => Some(Self::Died),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_subject_did_itself_is_its_death() {
        let memory = |by| TrialEnd::of(Outcome::OutOfMemory { by });
        assert_eq!(memory(OutOfMemory::Limit), Some(TrialEnd::Died));
        assert_eq!(memory(OutOfMemory::Runtime), Some(TrialEnd::Died));
        assert_eq!(memory(OutOfMemory::Host), Some(TrialEnd::Disturbed));
        assert_eq!(TrialEnd::of(Outcome::Killed), Some(TrialEnd::Disturbed));
        assert_eq!(TrialEnd::of(Outcome::TimedOut), Some(TrialEnd::Died));
        assert_eq!(TrialEnd::of(Outcome::Ok), Some(TrialEnd::Lived));
        assert_eq!(TrialEnd::of(Outcome::Interrupted), None);
    }
}
