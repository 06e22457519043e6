//! Reuses supervisor, scratch directory and counters from one trial of a program for the next, with light care (short
//! trials).

use std::cell::{OnceCell, RefCell};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

use prony_experiment::design::Experiment;
use prony_os::Error;
use prony_os::launch::{Launch, Reusable, Scratch};
use prony_os::limits::Group;
use prony_os::sample::{ForeignProcess, GroupFiles, Samplers, SyncCounters, Tracepoints};

/// What one trial leaves for the next, and a thread that samples all of them.
#[derive(Debug, Default)]
pub struct Environments {
    /// What the previous trial left, until it is reused.
    pub left: RefCell<Option<ReusedEnvironment>>,
    /// What the first trial will use, while a thread makes it.
    early: RefCell<Option<JoinHandle<Result<ReusedEnvironment, Error>>>>,
    samplers: OnceCell<Rc<Samplers>>,
}

/// The tracepoints of a run, opened at the first request.
#[derive(Clone, Debug)]
pub struct Tracing(Arc<OnceLock<Tracepoints>>);

impl Tracing {
    /// Those of `experiment`; none where it does not count syncs.
    pub(crate) fn of(experiment: &Experiment) -> Self {
        let tracing = OnceLock::new();
        if !experiment.counts_syncs() {
            tracing.get_or_init(Tracepoints::unused);
        }
        Self(Arc::new(tracing))
    }
}

impl Deref for Tracing {
    type Target = Tracepoints;

    fn deref(&self) -> &Tracepoints {
        self.0.get_or_init(|| Tracepoints::open(true))
    }
}

/// What several trials use, one after another.
#[derive(Debug)]
pub struct ReusedEnvironment {
    /// The observers of its children.
    pub common: Common,
    /// The scratch directory, emptied after each trial.
    pub scratch: Scratch,
    /// The supervisor. Dropped last: it keeps our counters open until they are closed here.
    pub supervisor: Box<dyn Reusable>,
}

/// The observers of the children of a supervisor that is reused.
#[derive(Debug)]
pub struct Common {
    /// The directory in which CPU time is counted.
    pub counting: Option<PathBuf>,
    /// Its files, kept open.
    pub files: Option<Arc<GroupFiles>>,
    /// The process that spawns the children, and is none of them.
    pub foreign: ForeignProcess,
    /// Counts their syncs.
    pub syncs: SyncCounters,
}

impl Environments {
    /// Begins to make what the first trial needs, in parallel with the other preparations.
    pub(crate) fn begin(&self, near: &Path, launcher: &Arc<dyn Launch>, tracing: &Tracing) {
        let (near, launcher, tracing) = (near.to_path_buf(), Arc::clone(launcher), tracing.clone());
        let make = move || ReusedEnvironment::make(&near, &*launcher, &tracing);
        // If no thread can be started, the first trial makes it.
        *self.early.borrow_mut() = Builder::new().name("prony-early".into()).spawn(make).ok();
    }

    /// What the last trial left, or what a thread makes, or a new one.
    ///
    /// # Errors
    /// As [`ReusedEnvironment::make`].
    pub(crate) fn take(
        &self,
        near: &Path,
        launcher: &dyn Launch,
        tracing: &Tracing,
    ) -> Result<ReusedEnvironment, Error> {
        if let Some(left) = self.left.borrow_mut().take() {
            return Ok(left);
        }
        match self.early.borrow_mut().take().map(JoinHandle::join) {
            Some(Ok(made)) => made,
            Some(Err(_)) | None => ReusedEnvironment::make(near, launcher, tracing),
        }
    }

    /// The thread that samples them, started at the first request.
    ///
    /// # Errors
    /// Where the machine refuses it.
    pub(crate) fn samplers(&self) -> io::Result<Rc<Samplers>> {
        if let Some(samplers) = self.samplers.get() {
            return Ok(Rc::clone(samplers));
        }
        let started = Samplers::start()?;
        Ok(Rc::clone(self.samplers.get_or_init(|| Rc::new(started))))
    }
}

impl Drop for Environments {
    fn drop(&mut self) {
        // It was not used: what was made is removed with it.
        drop(self.early.get_mut().take().map(JoinHandle::join));
    }
}

impl ReusedEnvironment {
    /// A supervisor for several trials; its scratch directory is made in `near`.
    ///
    /// # Errors
    /// Where the machine refuses it.
    pub(crate) fn make(near: &Path, launcher: &dyn Launch, tracepoints: &Tracepoints) -> Result<Self, Error> {
        let scratch = Scratch::create(near)?;
        let group = Group::for_counting();
        let counting = group.counting();
        let supervisor = launcher.reusable(Some(group), &tracepoints.open_fds(), Some(scratch.path()))?;
        let foreign = ForeignProcess::new(supervisor.spawner());
        let syncs = tracepoints.follow(supervisor.spawner());
        let files = counting.as_deref().and_then(GroupFiles::open).map(Arc::new);
        Ok(Self { supervisor, common: Common { counting, files, foreign, syncs }, scratch })
    }
}
