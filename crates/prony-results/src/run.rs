//! A run as it is stored in the database and read from it.

use std::fmt;
use std::path::{Path, PathBuf};

use prony_experiment::design::Experiment;
use prony_model::crash::CutRecord;
use prony_model::reading::Reading;
use prony_model::record::{Facts, MachineLimits, Session, TrialRecord};

/// A run's number in its database; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What is known when a run begins.
#[derive(Clone, Copy, Debug)]
pub struct RunStart<'a> {
    /// The checked experiment.
    pub experiment: &'a Experiment,
    /// The seed of the plan.
    pub seed: u64,
    /// Facts about the machine.
    pub host: &'a Facts,
    /// What the machine can do at most: timer, fsync, disk, memory.
    pub limits: &'a Reading<MachineLimits>,
    /// Version of prony.
    pub version: &'a str,
    /// Unix time, milliseconds.
    pub started_unix_ms: u64,
    /// Trials planned at first; interim analyses may add some.
    pub planned: u32,
    /// The folder requested for scratch; `None` for beside the database.
    pub scratch: Option<&'a Path>,
}

prony_model::words! {
    /// The state of a run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RunStatus {
        /// It is in progress, or its process was killed.
        Unfinished = "unfinished";
        /// Every planned trial is stored.
        Done = "done";
        /// It was interrupted and can be resumed.
        Interrupted = "interrupted";
    }
}

/// A run without its trials.
#[derive(Clone, Debug, PartialEq)]
pub struct RunHead {
    /// Its number.
    pub id: RunId,
    /// The experiment's title.
    pub title: String,
    /// Digest of the checked experiment, its text included: equal for runs that may be resumed as one.
    pub hash: String,
    /// The seed of the plan.
    pub seed: u64,
    /// Facts about the machine.
    pub host: Facts,
    /// What the machine can do at most.
    pub limits: Reading<MachineLimits>,
    /// Version of prony that began it.
    pub version: String,
    /// Unix time, milliseconds.
    pub started_unix_ms: u64,
    /// Unix time, milliseconds; `None` while unfinished.
    pub ended_unix_ms: Option<u64>,
    /// Its state.
    pub status: RunStatus,
    /// Trials planned.
    pub planned: u32,
    /// Trials that have ended and are in the database.
    pub finished: u32,
    /// Of these, the ones that ended well.
    pub ok: u32,
    /// The folder requested for scratch; `None` for beside the database.
    pub scratch: Option<PathBuf>,
    /// Which search chose its variants as it went: `grow`, `tune`; `None` for a run of a plan.
    pub search: Option<String>,
    /// The sessions after its first.
    pub resumed: Vec<Session>,
}

/// A run with its experiment and trials. The trials are light: without series, groups, histograms
/// and throughput, which are loaded one trial at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct RunData {
    /// The run.
    pub head: RunHead,
    /// The experiment as it was checked.
    pub experiment: Experiment,
    /// Its finished trials, by position in the plan.
    pub trials: Vec<TrialRecord>,
    /// The cuts of its crash trials, by variant, phase and number.
    pub cuts: Vec<CutRecord>,
}
