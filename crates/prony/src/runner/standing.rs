//! What a trial of a program leaves for the next one, with light care.

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use prony_probe::launch::{Kept, Launcher, Scratch};
use prony_probe::limits::Group;
use prony_probe::sample::{GroupFiles, Samplers, Stranger, SyncCounters, Tracepoints};

use crate::error::Error;

/// What one trial leaves for the next, and a thread that samples them all.
#[derive(Debug, Default)]
pub struct Stages {
    /// What the trial before left, until it is taken over.
    pub left: RefCell<Option<Standing>>,
    samplers: OnceCell<Rc<Samplers>>,
}

/// What several trials share, one after another.
#[derive(Debug)]
pub struct Standing {
    /// What observes its children.
    pub common: Common,
    /// The scratch directory, emptied after each trial.
    pub scratch: Scratch,
    /// The supervisor. Last: counters are closed before it goes, which holds them open for us.
    pub kept: Kept,
}

/// What observes the children of a supervisor that is kept.
#[derive(Debug)]
pub struct Common {
    /// Where CPU time is counted.
    pub counting: Option<PathBuf>,
    /// Its files, kept open.
    pub files: Option<Arc<GroupFiles>>,
    /// The process that children are born from, which is no part of them.
    pub stranger: Stranger,
    /// Counts their syncs.
    pub syncs: SyncCounters,
}

impl Stages {
    /// The thread that samples them, started when first asked for.
    ///
    /// # Errors
    /// Where the machine refuses it.
    pub fn samplers(&self) -> Result<Rc<Samplers>, Error> {
        if let Some(samplers) = self.samplers.get() {
            return Ok(Rc::clone(samplers));
        }
        let started = Samplers::start().map_err(|source| Error::Setup { doing: "start the sampler", source })?;
        Ok(Rc::clone(self.samplers.get_or_init(|| Rc::new(started))))
    }
}

impl Standing {
    /// A supervisor for several trials; `near` is where its scratch directory goes.
    ///
    /// # Errors
    /// Where the machine refuses it.
    pub fn make(near: &Path, launcher: &Launcher, tracepoints: &Tracepoints) -> Result<Self, Error> {
        let scratch = Scratch::create(near)?;
        let group = Group::for_counting();
        let counting = counting(&group);
        let kept = launcher.keep(Some(group), &tracepoints.held(), Some(scratch.path()))?;
        let stranger = Stranger::new(kept.nursery());
        let syncs = tracepoints.follow(kept.nursery());
        let files = counting.as_deref().and_then(GroupFiles::open).map(Arc::new);
        Ok(Self { kept, common: Common { counting, files, stranger, syncs }, scratch })
    }
}

/// The directory of a group in which CPU time is counted.
pub(super) fn counting(group: &Group) -> Option<PathBuf> {
    group.directories().into_iter().find(|dir| counts_cpu(dir)).map(Path::to_path_buf)
}

/// Whether a control group's directory counts CPU time: children whose parent never waits are in no other count.
pub(super) fn counts_cpu(dir: &Path) -> bool {
    dir.join("cpuacct.usage").exists() || dir.join("cpu.stat").exists()
}
