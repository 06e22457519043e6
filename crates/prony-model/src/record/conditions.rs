//! The conditions of a trial, and observations that are no figures.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Machine, MemoryEvidence, ProbeReport, SettleResult};
use crate::reading::Reading;
use crate::units::Nanos;

/// Reference workloads, pressure, steal, load before and after (METHOD 4.10), and what else was seen beside a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// The session of the run in which it ran: 0, and one more each time that the run was resumed.
    pub session: u32,
    /// The machine before and after; missing with light care.
    pub machine: Reading<Machine>,
    /// What was seen of memory; `None` where the subject could not be executed.
    pub memory: Option<MemoryEvidence>,
    /// Phases that wait for quiet, by name.
    pub settled: BTreeMap<String, Settled>,
    /// From a program's release to its own first instruction; `None` for a store, and where it could not be executed.
    pub executed_after: Option<Nanos>,
    /// Processes that were still alive at the end and had to be killed.
    pub killed_at_the_end: u64,
    /// What the probes of a program's runtime reported; `None` where none was to be loaded.
    pub probe: Option<ProbeReport>,
    /// What the trial took of the run's time; `None` where it was run apart from one.
    pub spent: Option<Spent>,
}

/// A phase that waits for quiet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settled {
    /// How long it must be quiet.
    pub quiet: Nanos,
    /// What was found; `None` where the watch did not come to an end.
    pub result: Option<SettleResult>,
}

/// What a trial took with all that belongs to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    /// In all, without what was done once.
    pub time: Nanos,
    /// What was done once: for the run before its first trial, for the variant before its first.
    pub once: Nanos,
}

impl Spent {
    /// As the conditions of a trial have it; where they have none, the trial itself, which took so long.
    pub fn of(conditions: &Conditions, took: Nanos) -> Self {
        conditions.spent.unwrap_or(Self { time: took, once: Nanos::ZERO })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spent_time_is_that_of_the_trial_where_none_was_recorded() {
        let (spent, took) = (Spent { time: Nanos::from_secs(9), once: Nanos::from_secs(40) }, Nanos::from_secs(2));
        let spent_of = |spent| Spent::of(&Conditions { spent, ..Conditions::default() }, took);
        assert_eq!(spent_of(None), Spent { time: took, once: Nanos::ZERO });
        assert_eq!(spent_of(Some(spent)), spent);
    }
}
