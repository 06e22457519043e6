//! What the threads of a load leave behind.

use prony_model::units::Nanos;
use prony_workload::leaves_out;

use crate::clock::{monotonic, processor_wait, thread_cpu};
use crate::saved::Found;
use crate::stalls::Stalls;
use crate::step_tally::Part;
use crate::tally::{Failure, Tally};

/// What a thread used between the end of the warm-up and the end of its window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) wall: Nanos,
    pub(crate) cpu: Nanos,
    /// Time without a processor though it was ready to run; `None` where the kernel does not count it.
    pub(crate) waited: Option<Nanos>,
}

/// Readings of a thread's own clocks.
#[derive(Clone, Copy)]
pub(crate) struct Clocks {
    wall: Nanos,
    cpu: Nanos,
    waited: Option<Nanos>,
}

impl Clocks {
    pub(crate) fn read() -> Self {
        Self { wall: monotonic(), cpu: thread_cpu(), waited: processor_wait() }
    }

    pub(crate) fn since(self, earlier: Self) -> Usage {
        let waited = self.waited.zip(earlier.waited).map(|(now, then)| now.since(then));
        Usage { wall: self.wall.since(earlier.wall), cpu: self.cpu.since(earlier.cpu), waited }
    }
}

/// A load that was run.
pub(crate) struct Ran {
    pub(crate) tally: Tally,
    /// The values that answers gave.
    pub(crate) found: Found,
    /// CPU time and waiting time of all threads, and the longest wall time.
    pub(crate) usage: Usage,
    /// Times in which threads did not run though they were due to.
    pub(crate) stalls: Stalls,
    /// Time in which requests of the figures started; in a load bounded by requests up to its last answer.
    pub(crate) window: Nanos,
    pub(crate) interrupted: bool,
    /// When the first request was due.
    pub(crate) begin: Nanos,
    pub(crate) processors: usize,
}

impl Ran {
    /// Whether the rate of an open loop was not sustained.
    pub(crate) fn is_saturated(&self) -> bool {
        let tally = &self.tally;
        let not_started = tally.failures.get(&Failure::NotStarted).copied().unwrap_or_default();
        let started = tally.ok + tally.failed_requests() - not_started;
        tally.open.as_ref().is_some_and(|open| open.backlog.grows_anywhere())
            || leaves_out(not_started, started)
            || tally.steps.iter().flat_map(|steps| &steps.all).any(Part::leaves_out)
    }

    /// Whether that of a step was not.
    pub(crate) fn is_step_saturated(&self, number: usize, step: &Part) -> bool {
        step.leaves_out() || self.tally.open.as_ref().is_some_and(|open| open.backlog.grows(number))
    }
}
