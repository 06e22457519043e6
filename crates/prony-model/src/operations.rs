//! How the operations of a store's phase are repeated, shared, grouped, timed and mixed.

use serde::{Deserialize, Serialize};

use super::order::{Arrivals, Order};
use crate::units::Nanos;

/// How operations are repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ops {
    /// The name of the collection whose records they work on, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// How many.
    pub amount: Amount,
    /// How they are grouped into transactions.
    pub transaction: Grouping,
    /// Which record each touches.
    pub order: Order,
    /// Processes that share the store, each with its own clients: the trial's worker and further ones; `None` is the
    /// worker alone, whose metrics are not listed apart.
    pub replicas: Option<u32>,
    /// Client threads of each process; each has its own session.
    pub threads: u32,
    /// How the operations are divided among the clients.
    pub share: Sharing,
    /// A pause between groups of operations.
    pub pause: Option<PauseEvery>,
    /// Open loop at this rate over all clients; `None` is closed loop.
    pub rate: Option<Arrivals>,
    /// What is timed beside the phase itself.
    pub sample: Sampling,
    /// Reads touch every cache line of each value (METHOD 2.2).
    pub touch: bool,
    /// What writes do about references between documents.
    #[serde(default, skip_serializing_if = "References::are_ignored")]
    pub references: References,
}

impl Ops {
    /// Clients of all processes together.
    pub const fn clients(&self) -> u32 {
        let processes = match self.replicas {
            Some(replicas) => replicas,
            None => 1,
        };
        processes.saturating_mul(self.threads)
    }
}

crate::words! {
    /// What operations that write documents do about references between them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum References {
        /// Nothing.
        #[default]
        Ignored = "ignore", "nothing is checked";
        /// A document is stored only if those to which it refers are stored, and removed only if none refers to it.
        Checked = "check",
            "a document is stored only if those to which it refers are stored, and removed only if none refers to it";
        /// As checked; whoever stores a document also writes those to which it refers, as they are.
        Locked = "lock", "as `check`, and whoever stores a document also writes those to which it refers, as they are";
    }
}

impl References {
    /// Whether nothing is done.
    pub const fn are_ignored(&self) -> bool {
        matches!(self, Self::Ignored)
    }
}

crate::words! {
    /// How operations are divided among the clients of a phase.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Sharing {
        /// Each has the same number of them, fixed beforehand.
        Equal = "equal", "each client has the same number of operations, fixed beforehand";
        /// Each takes the next one when it is ready for it, so that all end at about the same time.
        Queue = "queue",
            "each client takes the next operations, at most 256 or some milliseconds of work, when it is ready for them, \
            so that all end at about the same time; for `get` and `find` in the orders `record`, `key` and `shuffled`";
    }
}

/// How many operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// One for each record of the data.
    Records,
    /// So many.
    Count(u64),
    /// As many as the time allows; the answer then depends on speed, and the record says so.
    Duration(Nanos),
    /// As many as fit until the phase's own operations have ended; of a background, and only there.
    Background,
}

/// How operations are grouped into transactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// One transaction an operation.
    Each,
    /// So many operations a transaction.
    Batch(u64),
    /// One transaction for the whole phase.
    Single,
    /// One transaction that stays open at the phase's end, until the next `commit` phase.
    Open,
}

/// A pause between groups of operations; counts in `time`, being part of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseEvery {
    /// Operations between two pauses.
    pub every: u64,
    /// How long; zero yields the processor once.
    pub time: Nanos,
}

/// What is timed beside the phase itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Nothing: least cost. Throughput over time is kept per batch.
    None,
    /// Every operation's latency into a histogram.
    Every,
    /// Wall and CPU time of each group of so many operations, all kept.
    Group(u64),
    /// One operation in so many, into a histogram.
    OneIn(u64),
}

/// Reads of ranges in key order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanSpec {
    /// How the scans are repeated; `order` picks the first record of each.
    pub ops: Ops,
    /// Rows a scan; `None` reads to the end from the first key.
    pub length: Option<ScanLength>,
}

/// How many rows a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanLength {
    /// Always the same.
    Fixed(u64),
    /// Uniform from 1 to this (YCSB E).
    UniformTo(u64),
}

/// Operations drawn by weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixSpec {
    /// How they are repeated.
    pub ops: Ops,
    /// Weights, any scale.
    pub weights: MixWeights,
    /// Rows a scan.
    pub scan_length: ScanLength,
}

/// Weights of a mix; at least one is above zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MixWeights {
    /// Reads by key.
    pub read: f64,
    /// Overwrites.
    pub update: f64,
    /// New records, numbered on from the largest so far.
    pub insert: f64,
    /// Ranges.
    pub scan: f64,
    /// A read and an overwrite of one record, in one transaction.
    pub read_modify_write: f64,
    /// Removals.
    pub delete: f64,
}
