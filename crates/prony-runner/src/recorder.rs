//! Runs the CPU profiler of one trial: called at the trial's launch, before its release and after its end.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use prony_model::event::Observer;
use prony_model::profile::Profiler;
use prony_model::reading::{Reading, Why};
use prony_model::units::Nanos;
use prony_os::interrupt::Interrupt;
use prony_os::launch::Scratch;
use prony_os::profile::Taken;
use prony_os::profile::perf::Perf;
use prony_runtime::profile as node;

use crate::error::Error;
use crate::scratch::discard;

/// The profiler of one trial.
#[derive(Debug)]
pub struct Recorder {
    profiler: Profiler,
    interval: Nanos,
    /// Its own scratch: the subject's is removed with the subject.
    scratch: Scratch,
    perf: Option<Reading<Perf>>,
    taken: Reading<Taken>,
}

impl Recorder {
    /// Takes a sample each interval; scratch is made in `near`.
    ///
    /// # Errors
    /// Where no scratch directory can be made.
    pub(crate) fn new(profiler: Profiler, interval: Nanos, near: &Path) -> Result<Self, Error> {
        let (scratch, taken) = (Scratch::create(near)?, Reading::Missing(Why::NotReached));
        Ok(Self { profiler, interval, scratch, perf: None, taken })
    }

    /// Makes a program's environment load the profiler, where it needs that.
    ///
    /// # Errors
    /// Where the profiler's files cannot be written.
    pub(crate) fn environment(&self, env: &mut Vec<(OsString, OsString)>) -> Result<(), Error> {
        if self.profiler == Profiler::V8 {
            node::prepare(&self.place(), self.interval, env)?;
        }
        Ok(())
    }

    /// Attaches a profiler from outside to the suspended process.
    pub(crate) fn attach(&mut self, pids: &[u32]) {
        if self.profiler == Profiler::Perf {
            self.perf = Some(Perf::attach(pids, &self.place(), self.interval));
        }
    }

    /// Collects what was written, when everything of the trial has ended.
    pub(crate) fn collect(&mut self, interrupt: &Interrupt) {
        self.taken = match (self.profiler, self.perf.take()) {
            (Profiler::V8, _) => match node::collect(&self.place()) {
                Ok(taken) => Reading::Measured(taken),
                Err(error) => Reading::failed(error.to_string()),
            },
            (Profiler::Perf, Some(Reading::Measured(perf))) => perf.finish(interrupt),
            (Profiler::Perf, Some(Reading::Missing(why))) => Reading::Missing(why),
            (Profiler::Perf, None) => Reading::Missing(Why::NotReached),
        };
    }

    /// The collected profile.
    pub(crate) fn taken(self, observer: &mut dyn Observer) -> Reading<Taken> {
        discard(self.scratch, observer);
        self.taken
    }

    fn place(&self) -> PathBuf {
        self.scratch.path().join("profile")
    }
}
