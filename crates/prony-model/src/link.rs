//! The worker's end of the connection between runner and worker, whatever the worker hosts.

use std::error::Error;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::protocol::{FromWorker, ToWorker};

/// Why the connection to the runner failed.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The runner's end is closed.
    #[error("the runner has closed the connection")]
    Closed,
    /// The connection is broken, or what was received cannot be read.
    #[error("the connection to the runner is broken")]
    Broken(#[source] Box<dyn Error + Send + Sync>),
}

/// The connection to the runner.
pub trait Link {
    /// The runner's next message; waits for it.
    ///
    /// # Errors
    /// The runner has ended, or the input is no message.
    fn next(&mut self) -> Result<ToWorker, LinkError>;

    /// Sends a message to the runner.
    ///
    /// # Errors
    /// The runner has ended.
    fn send(&mut self, message: FromWorker) -> Result<(), LinkError>;
}

/// The progress of the trial, for a thread that reports it to the runner. Updated once a chunk of operations.
#[derive(Debug)]
pub struct Progress {
    phase: AtomicUsize,
    /// Operations of the phase that have ended; who runs them adds to it.
    pub operations: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Self { phase: AtomicUsize::new(usize::MAX), operations: AtomicU64::new(0) }
    }
}

impl Progress {
    /// The current phase, if any.
    pub fn phase(&self) -> Option<usize> {
        Some(self.phase.load(Relaxed)).filter(|phase| *phase != usize::MAX)
    }

    /// Operations of that phase so far.
    pub fn operations(&self) -> u64 {
        self.operations.load(Relaxed)
    }

    /// A phase begins.
    pub fn begin(&self, phase: usize) {
        self.operations.store(0, Relaxed);
        self.phase.store(phase, Relaxed);
    }

    /// The phase has ended.
    pub fn end(&self) {
        self.phase.store(usize::MAX, Relaxed);
    }
}
