//! What checking an experiment needs beyond its file: the engines of this build, the machine, the options of the
//! command line.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::spec::{DocumentFile, Durability, FieldSpec, StoreSpec, TrialSpec};
use crate::units::{Bytes, Nanos};

/// The engines that experiments can name. Implemented in the crate with the drivers.
pub trait EngineCatalog {
    /// Names of the engines in this build.
    fn engines(&self) -> Vec<String>;

    /// Engines that prony knows but this build does not include, each with the cargo feature that enables it.
    fn absent(&self) -> Vec<(String, String)>;

    /// What the engine of a store can do with its settings; `None` where this build has no such engine.
    fn facts(&self, store: &StoreSpec) -> Option<EngineFacts>;

    /// All faults of the settings with which `store` opens its engine; its options are checked by the driver.
    fn check(&self, store: &StoreSpec) -> Vec<StoreFault>;

    /// A file of documents, and the fields that these have.
    ///
    /// # Errors
    /// What is wrong with the file.
    fn documents(&self, path: &Path) -> Result<(DocumentFile, Vec<FieldSpec>), String> {
        Err(format!("`{}` cannot be read here", path.display()))
    }

    /// The memory of the machine on which the experiment will run, where that is known.
    fn memory(&self) -> Option<Bytes> {
        None
    }
}

/// The surroundings that an experiment's file refers to: directories, commands, free space on the disk. Implemented in
/// a crate that may read them.
pub trait Surroundings {
    /// Everything that trials of this variant need but that does not exist.
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

/// Something that is named in the file but does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The section whose value it is: `program`, `change`, `limits`, `data`; `service` or `phase`, of which there may be several.
    pub section: &'static str,
    /// Its key there.
    pub key: &'static str,
    /// The fault.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// What an engine can do, by default nothing. The planner refuses what it cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Several operations in one atomic transaction.
    pub batches: bool,
    /// A write transaction sees its own writes, so that `get` works inside the transaction.
    pub reads_own_writes: bool,
    /// A write transaction can stay open over several phases.
    pub open_transactions: bool,
    /// A read transaction sees one consistent state from its beginning to its end.
    pub snapshots: bool,
    /// Rows can be read in key order.
    pub ordered: bool,
    /// What is stored survives `close` and `reopen`.
    pub persistent: bool,
    /// All records are in memory, whatever is on the disk too.
    pub in_memory: bool,
    /// Several processes can have one store open. Of no server: the metrics of a phase are the server's, not those of its workers, so
    /// that threads are its clients.
    pub processes: bool,
    /// Several threads make write transactions at the same time.
    pub concurrent_writers: bool,
    /// A commit waits until the read transactions that are open have ended.
    pub commits_wait_for_readers: bool,
    /// The driver or the engine collects the writes of a transaction and carries them out later, at the latest with the commit, so
    /// that the time of one of them is not known.
    pub collects_writes: bool,
    /// `Write::delete` of a driver says whether there was a record; without this it always says so.
    pub reports_removals: bool,
    /// It answers queries over JSON documents itself, and has indexes of its own.
    pub own_documents: bool,
    /// Of these documents it stores the values, and not the text: the driver writes the text again, which needs one order of the
    /// names in all of them.
    pub stores_values: bool,
    /// A write of what a record holds already writes nothing: no page, and where the transaction has no other write, no sync.
    pub skips_equal: bool,
    /// It may store fewer bytes than it is given.
    pub compresses: bool,
    /// It is a server, in processes of its own, at the URL of the store. A trial begins with an empty store there.
    pub server: bool,
    /// Longest key in bytes, where there is a bound.
    pub max_key: Option<u64>,
}

/// What the planner needs to know of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFacts {
    /// What it can do with a store's settings.
    pub can: Capabilities,
    /// The durability classes it offers.
    pub classes: Vec<Durability>,
}

/// Why a store answers no queries over documents, after its engine's name.
pub const NO_QUERIES: &str = "answers no queries over documents here: prony uses no queries of this server, and with prony's own each document and each \
                              entry of an index would take a request";

impl EngineFacts {
    /// Whether queries over documents can be measured: by the engine's own means, or by prony's indexes inside the client's process.
    pub const fn queries(&self) -> bool {
        self.can.own_documents || !self.can.server
    }
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
    /// `--set factor=a,b`: run these levels of the factor; values that the file does not have are added to a factor
    /// written as a list. `--set factor.setting=a,b`: run each level once with each of these values of the setting in
    /// its table.
    pub set: Vec<(String, Vec<String>)>,
    /// `--only factor=a`: run only these of the file's levels.
    pub only: Vec<(String, Vec<String>)>,
    /// `--blocks N`: the number of blocks, instead of that of the file; levels with a smaller number of their own keep
    /// it.
    pub blocks: Option<u32>,
    /// `--budget TIME`: run as many blocks as fit, instead of the file's number; levels with a smaller number of their
    /// own keep it.
    pub budget: Option<Nanos>,
    /// `--seed N`: the seed, instead of that of the file.
    pub seed: Option<u64>,
    /// Factors whose values a search chooses: settings of `[design]` about their levels do not apply.
    pub free: Vec<String>,
    /// Variables that `{env.NAME}` of a program may name. Never stored with the rest: they may contain secrets that no
    /// experiment names, and a reader of stored overrides fills in the variables of that time.
    #[serde(skip)]
    pub variables: BTreeMap<String, String>,
}
