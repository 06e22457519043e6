//! The counters that a control group reports for its whole process tree.

use prony_model::reading::{Reading, Why};
use prony_model::units::{Bytes, Nanos};

/// The version of control groups. The versions count differently and are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// One hierarchy a controller.
    V1,
    /// One hierarchy for all.
    V2,
}

/// Values of a group's whole tree, cumulative.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Most memory ever charged, page cache included; exact.
    pub peak: Reading<Bytes>,
    /// How often the group's own limit left no memory to reclaim; version 2 only.
    pub limit_hits: Reading<u64>,
    /// CPU time of everything that ever ran in the group.
    pub cpu: Reading<Nanos>,
    /// Forks refused for the limit of processes.
    pub forks_refused: Reading<u64>,
    /// How often the tree was stopped because it had used up its limit on CPU time.
    pub throttled: Reading<u64>,
}

impl Figures {
    /// All values, missing for one reason.
    pub(super) fn missing(why: &Why) -> Self {
        let count = || Reading::Missing(why.clone());
        let (peak, cpu) = (Reading::Missing(why.clone()), Reading::Missing(why.clone()));
        Self { peak, limit_hits: count(), cpu, forks_refused: count(), throttled: count() }
    }
}
