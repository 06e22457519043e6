//! What the checker needs from outside of the file: the engines of this build, the machine, the command line's options.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::spec::{Durability, StoreSpec, TrialSpec};
use crate::units::{Bytes, Nanos};

/// The engines that experiments can name. Implemented in the crate with the drivers.
pub trait EngineCatalog {
    /// Names of the engines in this build.
    fn engines(&self) -> Vec<String>;

    /// Engines that prony knows but this build does not include, each with the cargo feature that enables it.
    fn absent(&self) -> Vec<(String, String)>;

    /// What an engine of this build can do; `None` where there is no such engine.
    fn facts(&self, engine: &str) -> Option<EngineFacts>;

    /// All faults of the settings with which `store` opens its engine; its options are checked by the driver.
    fn check(&self, store: &StoreSpec) -> Vec<StoreFault>;

    /// The memory of the machine on which the experiment will run, where that is known.
    fn memory(&self) -> Option<Bytes> {
        None
    }
}

/// What lies outside of a file: directories, commands, room on the disk. Implemented where these may be read.
pub trait Surroundings {
    /// All that trials of this variant need and that does not exist.
    fn lacking(&self, spec: &TrialSpec) -> Vec<Lack>;
}

/// An implementation that checks nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anywhere;

impl Surroundings for Anywhere {
    fn lacking(&self, _: &TrialSpec) -> Vec<Lack> {
        Vec::new()
    }
}

/// Something that a value of the file names and that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The section whose value it is: `program`, `change`, `limits`, `data`.
    pub section: &'static str,
    /// Its key there.
    pub key: &'static str,
    /// The fault.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// The capabilities of an engine, as far as the planner needs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFacts {
    /// Several operations in one atomic transaction.
    pub batches: bool,
    /// A write transaction sees its own writes.
    pub reads_own_writes: bool,
    /// A write transaction can stay open over several phases.
    pub open_transactions: bool,
    /// Rows can be read in key order.
    pub ordered: bool,
    /// What is stored survives `close` and `reopen`.
    pub persistent: bool,
    /// Several processes can have one store open.
    pub processes: bool,
    /// Longest key in bytes, where there is a bound.
    pub max_key: Option<u64>,
    /// The durability classes it offers.
    pub classes: Vec<Durability>,
}

/// A fault of a store's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFault {
    /// The option at fault; `None` where it is the durability class or the engine.
    pub option: Option<String>,
    /// The fault.
    pub message: String,
    /// What to do, if there is advice.
    pub hint: Option<String>,
}

/// What the command line changes in an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// `--set factor=a,b`: the factor's levels; values that the file does not have join a factor written as a list.
    /// `--set factor.key=a,b`: each level that runs, once with each value of this key of its table.
    pub set: Vec<(String, Vec<String>)>,
    /// `--only factor=a`: of the file's levels, only these.
    pub only: Vec<(String, Vec<String>)>,
    /// `--blocks N`: so many blocks instead of the file's; levels with fewer of their own keep them.
    pub blocks: Option<u32>,
    /// `--budget TIME`: as many blocks as it holds instead of the file's; levels with fewer of their own keep them.
    pub budget: Option<Nanos>,
    /// `--seed N`: instead of the file's.
    pub seed: Option<u64>,
    /// Factors whose values a search determines: what `[design]` says of their levels does not apply.
    pub free: Vec<String>,
    /// Variables that `{env.NAME}` of a program may name. Never stored with the rest: they may contain secrets that no
    /// experiment names, and a reader of stored overrides fills in the variables of that time.
    #[serde(skip)]
    pub variables: BTreeMap<String, String>,
}
