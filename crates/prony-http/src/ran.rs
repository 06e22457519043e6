//! What the threads of a load leave behind.

use prony_model::units::Nanos;
use prony_workload::leaves_out;

use crate::checked_load::Load;
use crate::failure::Failure;
use crate::linger::Lingering;
use crate::saved::Found;
use crate::stalls::Stalls;
use crate::step_tally::Part;
use crate::tally::Tally;
use crate::usage::Usage;

/// With fewer requests than this due at one rate, only an overload by more than 8 % is found (the rule of thirds in `backlog`).
pub const LEAST_DUE: u64 = 100;

/// A load that was run.
pub(crate) struct Ran {
    pub(crate) tally: Tally,
    /// The values that answers gave.
    pub(crate) found: Found,
    /// What all threads used between the end of the warm-up and the start of the last request.
    pub(crate) usage: Usage,
    /// What they used in each step of the schedule.
    pub(crate) usage_of_steps: Vec<Usage>,
    /// Its open connections.
    pub(crate) lingering: Lingering,
    /// Times in which threads did not run though they were due to.
    pub(crate) stalls: Stalls,
    /// Time in which requests of the figures started; in a load bounded by requests up to its last answer, in
    /// an open loop at least the time of its schedule.
    pub(crate) window: Nanos,
    pub(crate) interrupted: bool,
    /// When the first request was due.
    pub(crate) begin: Nanos,
    pub(crate) processors: usize,
}

impl Ran {
    /// From when the first request was due to the end of the last one.
    pub(crate) fn took(&self) -> Nanos {
        self.tally.last_end.map_or(self.window, |end| end.since(self.begin))
    }

    /// Whether the rate of an open loop was not sustained.
    pub(crate) fn is_saturated(&self) -> bool {
        let tally = &self.tally;
        let not_started = tally.failures.get(&Failure::NotStarted).copied().unwrap_or_default();
        let started = tally.ok + tally.failed_requests() - not_started;
        tally.open.as_ref().is_some_and(|open| open.backlog.grows_anywhere())
            || leaves_out(not_started, started)
            || tally.steps.iter().flat_map(|steps| &steps.all).any(Part::leaves_out)
    }

    /// Whether the rate of an open loop was sustained, where enough requests were due to tell.
    pub(crate) fn is_sustained(&self, load: &Load) -> bool {
        let due = self.tally.ok + self.tally.failed_requests();
        !self.is_saturated() && due >= LEAST_DUE * load.steps().len().max(1) as u64
    }

    /// Whether that of a step was not.
    pub(crate) fn is_step_saturated(&self, number: usize, step: &Part) -> bool {
        step.leaves_out() || self.tally.open.as_ref().is_some_and(|open| open.backlog.grows(number))
    }
}
