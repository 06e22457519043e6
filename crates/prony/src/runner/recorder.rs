//! Profiles one trial: told of it at its launch, before its release and after its end.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use prony_core::profile::Profiler;
use prony_core::reading::{Reading, Why};
use prony_core::units::Nanos;
use prony_probe::profile::perf::Perf;
use prony_probe::profile::{Taken, node};

use crate::error::Error;

/// The profiler of one trial.
#[derive(Debug)]
pub struct Recorder {
    profiler: Profiler,
    interval: Nanos,
    perf: Option<Reading<Perf>>,
    taken: Reading<Taken>,
}

impl Recorder {
    /// To take a sample each interval.
    pub fn new(profiler: Profiler, interval: Nanos) -> Self {
        Self { profiler, interval, perf: None, taken: Reading::Missing(Why::NotReached) }
    }

    /// Makes a program's environment load the profiler, where it needs that.
    ///
    /// # Errors
    /// Where the profiler's files cannot be written.
    pub fn environment(&self, scratch: &Path, env: &mut Vec<(OsString, OsString)>) -> Result<(), Error> {
        if self.profiler == Profiler::V8 {
            node::prepare(&place(scratch), self.interval, env)?;
        }
        Ok(())
    }

    /// Attaches a profiler from outside to what is held.
    pub fn attach(&mut self, pid: u32, scratch: &Path) {
        if self.profiler == Profiler::Perf {
            self.perf = Some(Perf::attach(pid, &place(scratch), self.interval));
        }
    }

    /// Takes what was written, when everything of the trial has ended and before its scratch is removed.
    pub fn collect(&mut self, scratch: &Path) {
        self.taken = match (self.profiler, self.perf.take()) {
            (Profiler::V8, _) => match node::collect(&place(scratch)) {
                Ok(taken) => Reading::Measured(taken),
                Err(error) => Reading::Missing(Why::Failed(error.to_string())),
            },
            (Profiler::Perf, Some(Reading::Measured(perf))) => perf.finish(),
            (Profiler::Perf, Some(Reading::Missing(why))) => Reading::Missing(why),
            (Profiler::Perf, None) => Reading::Missing(Why::NotReached),
        };
    }

    /// What was taken.
    pub fn taken(self) -> Reading<Taken> {
        self.taken
    }
}

fn place(scratch: &Path) -> PathBuf {
    scratch.join("profile")
}
