//! All observations of a trial from its release to its end; its metrics and its record are derived from them.

pub(crate) mod replicas;
pub(crate) mod report;
pub(crate) mod services;

use std::collections::BTreeMap;
use std::path::PathBuf;

use prony_analysis::guard::program::Flood;
use prony_boundaries::limits::Stopped;
use prony_boundaries::probe_reports::Threads;
use prony_boundaries::settling::Settled;
use prony_boundaries::suspending::Suspension;
use prony_boundaries::suspensions::Suspensions;
use prony_boundaries::tracker::Tracker;
use prony_model::units::Nanos;
use prony_os::launch::{Captured, End};
use prony_os::sample::Snapshot;

use crate::watched::replicas::Replicated;
use crate::watched::report::Report;
use crate::watched::services::{Fault, Served};

/// What was observed of a trial's main role.
pub struct Watched {
    /// Its phases.
    pub tracker: Tracker,
    /// Every snapshot, in order; the first while it was suspended, the last after its end.
    pub snapshots: Vec<Snapshot>,
    /// Index of the snapshot at which each phase began.
    pub begin: Vec<Option<usize>>,
    /// Index of the snapshot at which each phase ended.
    pub end: Vec<Option<usize>>,
    /// When it was released.
    pub released: Nanos,
    /// When prony found that its program was being executed.
    pub executed: Nanos,
    /// The file that was executed, where that is known.
    pub executable: Option<PathBuf>,
    /// How it ended.
    pub ended: End,
    /// Whether prony ended it.
    pub stopped: Option<Stopped>,
    /// Standard output and error.
    pub output: [Captured; 2],
    /// What probes reported.
    pub threads: Threads,
    /// When threads were suspended.
    pub suspensions: Vec<Suspension>,
    /// Further copies of the program that were started.
    pub replicas: Replicated,
    /// The trial's services.
    pub services: Served,
    /// What a store's worker reported beside its phases; `None` of any other subject.
    pub worker: Option<Report>,
    /// When a store's trial was cut short while its worker was there, and the index of the snapshot then.
    pub cut: Option<(Nanos, usize)>,
    /// What was found in phases that end when the tree is quiet, by the phase's index.
    pub settled: BTreeMap<usize, Settled>,
    /// How long the polls of the program's data took for those.
    pub polls_took: Nanos,
    /// For how long prony itself was stopped meanwhile.
    pub paused: Nanos,
    /// What the program, its replicas and services wrote, and for how long they may have waited until prony had read it.
    pub floods: Vec<Flood>,
}

/// Whether operations failed in a phase.
pub(crate) fn has_errors(tracker: &Tracker) -> bool {
    tracker.phases.iter().filter_map(|phase| phase.report.as_ref()).any(|report| report.errors > 0)
}

impl Watched {
    /// When it was over, and the index of the snapshot then: when it was cut short, else when the main process ended.
    pub(crate) fn over(&self) -> (Nanos, usize) {
        self.cut.unwrap_or((self.ended.at, self.snapshots.len() - 1))
    }

    /// When nothing needed a service any more that had such a fault: the worker was asked to end, or the program and its replicas were
    /// about to end.
    pub(crate) fn needs_until(&self, fault: &Fault) -> Nanos {
        let asked = self.worker.as_ref().and_then(|worker| worker.asked_to_stop);
        let replicas = self.replicas.all.iter().filter_map(|ran| ran.end()).map(|end| end.at);
        asked.unwrap_or_else(|| replicas.fold(self.ended.at, Nanos::max).since(fault.grace()))
    }

    /// When the program was suspended, by those of its suspensions of which `which` is true. A thread that was released at once
    /// because its function's calls went on in others suspended nothing of their time.
    pub(crate) fn suspended_times(&self, which: impl Fn(&Suspension) -> bool) -> Suspensions {
        let beside = |one: &Suspension| one.passed && self.tracker.phases[one.phase].calls.is_some();
        let all = self.suspensions.iter().filter(|suspension| which(suspension) && !beside(suspension));
        Suspensions::new(all.map(|suspension| (suspension.from, self.suspension_ended(suspension))).collect())
    }

    /// When a suspension ended: as the thread reported, else when its thread or the program ended.
    pub(crate) fn suspension_ended(&self, suspension: &Suspension) -> Nanos {
        let thread = self.threads.all().iter().rev().find(|thread| thread.source == suspension.source);
        suspension.until.or(thread.map(|thread| thread.ended)).unwrap_or(self.ended.at)
    }
}
