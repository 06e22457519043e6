//! The conditions under which a trial ran, and observations about it that are not metrics.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Machine, MemoryEvidence, ProbeReport, SettleResult};
use crate::reading::Reading;
use crate::units::Nanos;

/// The conditions of a trial: reference workloads, pressure, steal time and load before and after it (METHOD 4.10), and
/// further observations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// The session of the run in which the trial ran: 0 at first, and one more each time the run was resumed.
    pub session: u32,
    /// The machine before and after; missing with light care.
    pub machine: Reading<Machine>,
    /// Memory limit, peak and OOM kills; `None` where the subject could not be executed.
    pub memory: Option<MemoryEvidence>,
    /// Phases that wait for quiet, by name.
    pub settled: BTreeMap<String, Settled>,
    /// Time from a program's release to its own first instruction; `None` for a store, and where it could not be
    /// executed.
    pub executed_after: Option<Nanos>,
    /// Processes that were still alive at the end and had to be killed.
    pub killed_at_the_end: u64,
    /// What the probes in a program's language runtime reported; `None` where no probe was requested.
    pub probe: Option<ProbeReport>,
    /// How much of the run's time the trial took, overhead included; `None` where the trial was not part of a run.
    pub spent: Option<Spent>,
}

/// A phase that waits for quiet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settled {
    /// For how long it must be quiet.
    pub quiet: Nanos,
    /// The result; `None` where waiting for quiet did not end.
    pub result: Option<SettleResult>,
}

/// The time that a trial took, overhead included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    /// All its time, except steps that are done only once.
    pub time: Nanos,
    /// Time of steps that are done only once: for the run before its first trial, or for the variant before its first
    /// trial.
    pub once: Nanos,
}

impl Spent {
    /// The time as recorded in a trial's conditions; where it is not recorded, the trial's own time.
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
