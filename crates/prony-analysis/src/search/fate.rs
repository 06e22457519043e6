//! What a trial's end means for a search.

use serde::{Deserialize, Serialize};

use prony_model::outcome::{OutOfMemory, Outcome};

/// What a trial says about the setting it ran with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It ended well.
    Lived,
    /// It did not, and by its own doing: a declared limit, the runtime's heap, an error, a crash, a wrong answer.
    Died,
    /// Something outside may have ended it: the host's memory, a kill of unknown cause. It says nothing.
    Disturbed,
}

impl Fate {
    /// What the outcome means; `None` where the user interrupted the trial, which is no result.
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
        let memory = |by| Fate::of(Outcome::OutOfMemory { by });
        assert_eq!(memory(OutOfMemory::Limit), Some(Fate::Died));
        assert_eq!(memory(OutOfMemory::Runtime), Some(Fate::Died));
        assert_eq!(memory(OutOfMemory::Host), Some(Fate::Disturbed));
        assert_eq!(Fate::of(Outcome::Killed), Some(Fate::Disturbed));
        assert_eq!(Fate::of(Outcome::TimedOut), Some(Fate::Died));
        assert_eq!(Fate::of(Outcome::Ok), Some(Fate::Lived));
        assert_eq!(Fate::of(Outcome::Interrupted), None);
    }
}
