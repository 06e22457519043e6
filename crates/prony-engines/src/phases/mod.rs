//! Runs the phases of a trial in the worker.
//!
//! The runner leads: the worker opens the store, reports that, and then runs one phase at a time on command. Operations
//! run in `operate`, by the loop in [`crate::timed_loop`]; `ledger` knows what they must have left, and `verify` reads
//! it back.
//!
//! While a transaction is open over several phases, they run in a loop of their own inside its scope: reads join the
//! transaction whatever grouping they ask for, and a phase that writes must ask for `open` too.

mod background;
mod chunk;
mod client;
mod collections;
mod crash;
mod dangling;
mod equals;
mod explained;
mod guarded;
mod ledger;
mod operate;
mod queue;
mod record_set;
mod refusals;
mod sampling;
mod series;
mod shared;
mod source;
mod stop;
#[cfg(test)]
mod tests;
mod timestamps;
mod touched;
mod unchanged;
mod undoing;
mod verify;
mod ways;
mod worker_loop;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prony_model::reading::Reading;
use prony_model::spec::TrialSpec;
use prony_model::units::{Bytes, Nanos};

pub use crash::Acknowledged;
pub(crate) use crash::crash;
pub use queue::Queue;
pub use stop::{HostError, Stop};
pub(crate) use worker_loop::host;

/// What a phase needs of the operating system beyond the standard library.
pub trait Machine {
    /// Evicts the files under `dir`, none of which is open, from the page cache; returns the share of their pages that
    /// is resident afterwards, or why that is not known.
    fn evict(&self, dir: &Path) -> Reading<f64>;

    /// Bytes that this process has read from and written to the block layer so far.
    fn bytes(&self) -> Reading<(Bytes, Bytes)>;
}

/// The trial to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The whole trial.
    pub spec: TrialSpec,
    /// Seeds data and operation order.
    pub seed: u64,
    /// The directory of the store; empty where this is the first worker.
    pub dir: PathBuf,
    /// Which of the workers that share the store this is, from 1 on.
    pub replica: u32,
    /// Where operations are divided as in a queue: the queue of all workers.
    pub queue: Option<Arc<Queue>>,
    /// Interval of the throughput series.
    pub throughput: Nanos,
}

/// A crash trial.
#[derive(Debug)]
pub struct CrashPlan {
    /// The variant, the seed and the directory of the store.
    pub plan: Plan,
    /// Index into the variant's crash phases.
    pub crash: usize,
    /// The commits that were acknowledged.
    pub acknowledged: Acknowledged,
}
