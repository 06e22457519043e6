//! What the threads of a load leave behind.

use prony_model::units::Nanos;

use crate::tally::Tally;

/// What a thread used between the end of the warm-up and the end of its window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) wall: Nanos,
    pub(crate) cpu: Nanos,
    /// Time without a processor though it was ready to run; `None` where the kernel does not count it.
    pub(crate) waited: Option<Nanos>,
}

/// A load that was run.
pub(crate) struct Ran {
    pub(crate) tally: Tally,
    /// CPU time and waiting time of all threads, and the longest wall time.
    pub(crate) usage: Usage,
    /// Time in which requests of the figures started; in a load bounded by requests up to its last answer.
    pub(crate) window: Nanos,
    pub(crate) interrupted: bool,
    /// When the first request was due.
    pub(crate) begin: Nanos,
    pub(crate) processors: usize,
}
