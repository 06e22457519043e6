//! What every trial of a run shares: the launcher, the tracepoints kept open, where scratch goes.

use std::path::{Path, PathBuf};

use prony_core::experiment::design::Experiment;
use prony_core::reading::Reading;
use prony_core::units::Nanos;
use prony_probe::launch::Launcher;
use prony_probe::sample::Tracepoints;

use super::interrupt::Interrupt;

/// What every trial of a run shares.
pub struct Lab<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Starts supervisors.
    pub launcher: Launcher,
    /// One event of each tracepoint stays open as long as this lives: closing the last costs 150 ms.
    pub tracepoints: Tracepoints,
    /// Where scratch directories are made: on the file system of the results.
    pub near: PathBuf,
    /// Whether the user asked to stop.
    pub interrupt: Interrupt,
    /// What prony measured of itself: the cost of reading the clock.
    pub clock_cost: Reading<Nanos>,
}

impl<'a> Lab<'a> {
    /// A lab that works in `near`.
    pub fn new(experiment: &'a Experiment, near: &Path, interrupt: Interrupt) -> Self {
        Self {
            experiment,
            launcher: Launcher::this_program(["supervise"]),
            tracepoints: Tracepoints::open(true),
            near: near.to_path_buf(),
            interrupt,
            clock_cost: prony_probe::host::clock_cost(),
        }
    }
}
