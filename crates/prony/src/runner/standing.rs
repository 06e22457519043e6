//! What trials of programs leave to one another with light care.

use std::cell::{OnceCell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use prony_probe::launch::{Kept, Scratch};
use prony_probe::sample::{GroupFiles, Samplers, Stranger, SyncCounters};

use crate::error::Error;

/// What one trial leaves for the next, and a thread that samples them all.
#[derive(Debug, Default)]
pub struct Stages {
    /// Where nothing of the last tree was left.
    pub left: RefCell<Option<Standing>>,
    samplers: OnceCell<Rc<Samplers>>,
}

/// What several trials share, one after another.
#[derive(Debug)]
pub struct Standing {
    /// The supervisor.
    pub kept: Kept,
    /// What is attached to it.
    pub common: Common,
    /// An emptied directory.
    pub scratch: Scratch,
}

/// What observes all of them.
#[derive(Debug)]
pub struct Common {
    /// Where CPU time is counted.
    pub counting: Option<PathBuf>,
    /// Its files, open.
    pub files: Option<Arc<GroupFiles>>,
    /// The nursery, which lives in that group.
    pub stranger: Stranger,
    /// Counters of the nursery and of all that is born from it.
    pub syncs: SyncCounters,
}

impl Stages {
    /// The thread that samples.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn samplers(&self) -> Result<Rc<Samplers>, Error> {
        if let Some(samplers) = self.samplers.get() {
            return Ok(Rc::clone(samplers));
        }
        let started = Samplers::start().map_err(|source| Error::Setup { doing: "start the sampler", source })?;
        Ok(Rc::clone(self.samplers.get_or_init(|| Rc::new(started))))
    }
}
