//! Limits on what a trial, or one of its services, may use.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Nanos};

/// Limits on a trial's process tree; `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of the whole tree, page cache included, swap off.
    pub memory: Option<Bytes>,
    /// Processors' worth of CPU time.
    pub cpus: Option<f64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Time of the whole trial.
    pub trial: Option<Nanos>,
    /// Time of each phase.
    pub phase: Option<Nanos>,
}
