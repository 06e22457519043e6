//! The specification of one variant: subject, data, phases, limits. All factors are filled in.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::crash_phase::{CrashSpec, CutKind};
pub use super::document::{
    Cells, Column, Distribution, DocumentFile, DocumentSpec, Encoding, FieldPath, FieldReference, FieldSpec,
    FieldValue, Generator, InFile, Kinds, ReferencePlace, ReferenceSpec, RowForm, Size,
};
use super::http::{HttpAmount, HttpSpec, is_of_requests};
pub use super::key::KeySpec;
pub use super::limits::Limits;
pub use super::operations::{
    Amount, Grouping, MixSpec, MixWeights, Ops, PauseEvery, References, Sampling, ScanLength, ScanSpec, Sharing,
};
pub use super::order::{Arrivals, Order, RateStep};
use super::program::{CommandLine, ObserveSpec, ProgramSpec};
pub use super::query::{Filter, Operand, QuerySpec, SortKey, Test};
use super::service::{LOAD, ServiceSpec};
pub use super::settle::{SettleSpec, Sign, Signs, not_settled};
use crate::metric::{Metric, MetricKey, MetricName};
use crate::units::{Fraction, Nanos};

/// One variant's whole trial, ready to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialSpec {
    /// What is measured.
    pub subject: Subject,
    /// The services that run beside the phases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceSpec>,
    /// The collections of records that phases work on, each with a name of its own; empty for subjects without data of ours.
    pub data: Vec<CollectionSpec>,
    /// The phases of this variant, in order (`when` has been applied).
    pub phases: Vec<PhaseSpec>,
    /// Limits on the whole process tree and on time.
    pub limits: Limits,
    /// Phases of crash trials, which are no part of the timed trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crashes: Vec<CrashSpec>,
}

impl TrialSpec {
    /// Every command that it runs and measures: the program, where it measures one, and its services.
    pub fn programs(&self) -> impl Iterator<Item = &ProgramSpec> {
        self.subject.program().into_iter().chain(self.services.iter().map(|service| &service.program))
    }

    /// Whether the processes that are measured are those of servers: of services under load, or of the server that a store is.
    /// Those that send them requests have metrics of their own.
    pub fn measures_servers(&self) -> bool {
        match &self.subject {
            Subject::Services => true,
            Subject::Store(store) => store.url.is_some(),
            Subject::Program(_) => false,
        }
    }

    /// Whether the processes of a role are in the metrics of a whole phase, those of instance `""`: where servers are measured,
    /// the processes of services; else those of the program and its replicas, or of the store's worker.
    pub fn measures(&self, role: &str) -> bool {
        self.measures_servers() == self.services.iter().any(|service| service.roles().contains(role))
    }

    /// The collection that operations work on.
    pub fn collection(&self, ops: &Ops) -> Option<&CollectionSpec> {
        self.data.iter().find(|collection| collection.name == ops.collection)
    }
}

/// The role of a store's first worker.
pub const WORKER: &str = "worker";

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// An engine driven by prony's worker.
    Store(StoreSpec),
    /// Any command.
    Program(Box<ProgramSpec>),
    /// The trial's services, under requests of prony's load generator.
    Services,
}

impl Subject {
    /// The store, where it is one.
    pub const fn store(&self) -> Option<&StoreSpec> {
        match self {
            Self::Store(store) => Some(store),
            Self::Program(_) | Self::Services => None,
        }
    }

    /// The role of the first process of a trial: a store's worker, the program by its name, or the load generator.
    pub fn role(&self) -> &str {
        match self {
            Self::Program(program) => &program.name,
            Self::Store(_) => WORKER,
            Self::Services => LOAD,
        }
    }

    /// The program, where it is one.
    pub fn program(&self) -> Option<&ProgramSpec> {
        match self {
            Self::Program(program) => Some(program),
            Self::Store(_) | Self::Services => None,
        }
    }
}

/// An engine and how it is opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreSpec {
    /// The driver's name.
    pub engine: String,
    /// The requested durability class; `None` leaves it to the engine's default or to `options`.
    pub durability: Option<Durability>,
    /// The driver's own options, checked by the driver.
    pub options: BTreeMap<String, OptionValue>,
    /// The indexes of the documents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexSpec>,
    /// Where the server listens, of an engine that is a server. In it placeholders stand for values of services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// An index of the documents of a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexSpec {
    /// The collection's name, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// The fields, in the order in which entries are sorted.
    pub fields: Vec<FieldPath>,
}

impl StoreSpec {
    /// The most indexes that a store can have. With [`CollectionSpec::MOST`] they are below 250: a byte before each key says
    /// which index or collection it belongs to.
    pub const MOST_INDEXES: usize = 64;

    /// The fields of each index of a collection.
    pub fn indexes_of(&self, collection: &CollectionSpec) -> Vec<Vec<FieldPath>> {
        let own = self.indexes.iter().filter(|index| index.collection == collection.name);
        own.map(|index| index.fields.clone()).collect()
    }

    /// The engine of this name with its defaults, without indexes.
    pub fn of(engine: &str) -> Self {
        Self { engine: engine.to_owned(), durability: None, options: BTreeMap::new(), indexes: Vec::new(), url: None }
    }
}

crate::words! {
    /// The name derived from a store's three promises (METHOD 5.2), strongest first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Durability {
        /// A power failure loses no acknowledged commit.
        Strict = "strict", "a power failure loses no acknowledged commit";
        /// A power failure loses at most the last commit.
        Bounded = "bounded", "a power failure loses at most the last commit";
        /// A power failure may lose the most recent commits; those that survive are a prefix of the commit order.
        Relaxed = "relaxed",
            "a power failure may lose the most recent commits; those that survive are a prefix of the commit order";
        /// A process crash may lose the most recent commits.
        Volatile = "volatile", "a process crash may lose the most recent commits";
        /// Anything may be lost, integrity too.
        None = "none", "any data may be lost, and the store may become corrupt";
    }
}

impl Durability {
    /// What may be lost, in words.
    pub const fn loss(self) -> &'static str {
        match self {
            Self::Strict => "a power failure loses no acknowledged commit",
            Self::Bounded => "a power failure loses at most the last commit",
            Self::Relaxed => "a power failure may lose the most recent commits",
            Self::Volatile => "a process crash may lose the most recent commits",
            Self::None => "a power failure may lose any commit and corrupt the store",
        }
    }
}

/// A driver option's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text: a mode's name, or a quantity such as `"1 GiB"`.
    Text(String),
}

/// Records by number: pure functions of record number and seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectionSpec {
    /// Its name; `None` where the file describes the records without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many records `put` writes over one pass; their numbers are `0..records`.
    pub records: u64,
    /// How a number becomes a key.
    pub key: KeySpec,
    /// How a number becomes a value.
    pub value: ValueSpec,
}

impl CollectionSpec {
    /// The most collections that a file can have.
    pub const MOST: usize = 128;

    /// The documents, where its values are documents.
    pub const fn document(&self) -> Option<&DocumentSpec> {
        match &self.value {
            ValueSpec::Document(document) => Some(document),
            ValueSpec::Bytes(_) => None,
        }
    }
}

/// How a record's number becomes its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueSpec {
    /// Bytes without structure.
    Bytes(BytesSpec),
    /// A document with named fields.
    Document(DocumentSpec),
}

/// How a record's number becomes bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BytesSpec {
    /// The length.
    pub bytes: Size,
    /// The share by which a general compressor shrinks it: 0 stays as long, 0.6 leaves 40 %.
    pub compressible: Fraction,
    /// Text at the start of each value, `{i}` replaced by the number; empty for none. Counts in the length; where
    /// the text is longer than the length, the value is the text.
    pub prefix: Vec<String>,
}

/// A named part of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseSpec {
    /// Unique within the trial; no full stop.
    pub name: String,
    /// `false` for set-up, which is not included in results.
    pub timed: bool,
    /// What it does.
    pub action: Action,
    /// Operations that further clients repeat meanwhile, from the phase's begin until its own operations have ended. Only of
    /// a phase that repeats operations; at most one of the two writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<Action>,
    /// Time after which the trial has `timed out`.
    pub limit: Option<Nanos>,
}

/// The instance of the metrics of a phase's background.
pub const BACKGROUND: &str = "background";

impl PhaseSpec {
    /// The action that an instance's metrics are of.
    pub fn action_of(&self, instance: Option<&str>) -> &Action {
        self.background.as_ref().filter(|_| instance == Some(BACKGROUND)).unwrap_or(&self.action)
    }

    /// As [`Action::prescribes`], of an instance's metric.
    pub fn prescribes(&self, instance: Option<&str>, metric: Metric) -> Option<Prescribed> {
        let of_both = |beside: &Action| metric.is_of_process() && (beside.writes() || !metric.is_of_writes());
        if instance.is_none() && self.background.as_ref().is_some_and(of_both) {
            let lasts = self.action.is_bounded_by_time();
            let instead = if lasts { "its rate or latencies" } else { "its time, rate or latencies" };
            return Some(Prescribed { why: "includes what its background does", instead });
        }
        self.action_of(instance).prescribes(metric)
    }

    /// Why a metric of the phase says nothing about speed, as a message, and what to compare instead.
    pub fn is_no_speed(&self, name: &MetricName) -> Option<(String, String)> {
        let instance = name.instance.as_deref();
        let given = self.prescribes(instance, name.key.metric)?;
        // A service has no latencies: its clients do.
        let instance = instance.filter(|instance| *instance == BACKGROUND || is_of_requests(instance));
        let key = MetricKey::amount(Metric::LatencyP50);
        let latency = MetricName { key, instance: instance.map(str::to_owned), ..name.clone() };
        let message = format!("`{name}` does not measure speed: {} {}", self.subject_of(instance), given.why);
        Some((message, format!("{}, such as `{latency}`", given.instead)))
    }

    /// What does the operations that an instance's metrics are of, for a message.
    pub fn subject_of(&self, instance: Option<&str>) -> String {
        match instance {
            Some(BACKGROUND) => format!("the background of `{}`", self.name),
            _ => format!("`{}`", self.name),
        }
    }

    /// Whether it, or its background, may change what is stored.
    pub fn changes_data(&self) -> bool {
        self.actions().any(Action::changes_data)
    }

    /// Its action, and that of its background.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        std::iter::once(&self.action).chain(&self.background)
    }
}

/// Why a metric of a phase says nothing about speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prescribed {
    /// What the phase does, as the end of a sentence.
    pub why: &'static str,
    /// What to compare in its place.
    pub instead: &'static str,
}

/// What a phase does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Inserts records.
    Put(Ops),
    /// Reads records by key.
    Get(Ops),
    /// Overwrites existing records with a new version of their value.
    Update(Ops),
    /// Removes records.
    Delete(Ops),
    /// Reads ranges in key order.
    Scan(ScanSpec),
    /// A cache's `compute`: a get, and where it misses a put.
    Compute(Ops),
    /// Queries over documents.
    Find(FindSpec),
    /// Random mix of operations by weight, as in YCSB.
    Mix(MixSpec),
    /// Commits the transaction left open.
    Commit,
    /// Everything acknowledged so far is on the disk when this ends.
    Persist,
    /// Closes the store: what the engine does in its destructor is timed here.
    Close,
    /// Opens the closed store again; closes it first where it is open.
    Reopen,
    /// Makes the page cache cold for the store's files, and verifies it.
    Evict,
    /// Waits until the store is quiet.
    Settle(SettleSpec),
    /// Reads everything back and compares it with what the generator says.
    Verify,
    /// Does nothing for a time.
    Pause(Nanos),
    /// Sends requests to a server.
    Http(Box<HttpSpec>),
    /// Runs a command beside the services, such as a loader, until it ends.
    Run(RunSpec),
    /// A part of a program, which is watched and not driven.
    Observe(ObserveSpec),
}

/// A command that runs as a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// What is executed; [`crate::service::hole`] stands for what is known in a trial only.
    pub command: CommandLine,
    /// Its working directory.
    pub directory: String,
}

impl Action {
    /// When it counts as quiet, where it waits for that.
    pub const fn settle(&self) -> Option<&SettleSpec> {
        match self {
            Self::Settle(settle) => Some(settle),
            Self::Observe(observe) => observe.settle(),
            _ => None,
        }
    }

    /// How long it takes, where it ends by time.
    pub fn duration(&self) -> Option<Nanos> {
        match self {
            Self::Pause(time) => Some(*time),
            Self::Http(http) => match http.amount {
                HttpAmount::Duration(time) => Some(time),
                HttpAmount::Requests(_) | HttpAmount::Records => None,
            },
            _ => match self.ops()?.amount {
                Amount::Duration(time) => Some(time),
                _ => None,
            },
        }
    }

    /// The action's name as written in the file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Put(_) => "put",
            Self::Get(_) => "get",
            Self::Update(_) => "update",
            Self::Delete(_) => "delete",
            Self::Scan(_) => "scan",
            Self::Compute(_) => "compute",
            Self::Find(_) => "find",
            Self::Mix(_) => "mix",
            Self::Commit => "commit",
            Self::Persist => "persist",
            Self::Close => "close",
            Self::Reopen => "reopen",
            Self::Evict => "evict",
            Self::Settle(_) => "settle",
            Self::Verify => "verify",
            Self::Pause(_) => "pause",
            Self::Http(_) => "http",
            Self::Run(_) => "run",
            Self::Observe(_) => "observe",
        }
    }

    /// How many processes share the store in it.
    pub fn replicas(&self) -> usize {
        self.ops().and_then(|ops| ops.replicas).unwrap_or(1).max(1) as usize
    }

    /// The operations it repeats, for the actions that repeat any.
    pub const fn ops(&self) -> Option<&Ops> {
        match self {
            Self::Put(ops) | Self::Get(ops) | Self::Update(ops) | Self::Delete(ops) | Self::Compute(ops) => Some(ops),
            Self::Scan(scan) => Some(&scan.ops),
            Self::Find(find) => Some(&find.ops),
            Self::Mix(mix) => Some(&mix.ops),
            _ => None,
        }
    }

    /// As [`Self::ops`], to change them.
    pub const fn ops_mut(&mut self) -> Option<&mut Ops> {
        match self {
            Self::Put(ops) | Self::Get(ops) | Self::Update(ops) | Self::Delete(ops) | Self::Compute(ops) => Some(ops),
            Self::Scan(scan) => Some(&mut scan.ops),
            Self::Find(find) => Some(&mut find.ops),
            Self::Mix(mix) => Some(&mut mix.ops),
            _ => None,
        }
    }

    /// Whether its operations write.
    pub fn writes(&self) -> bool {
        match self {
            Self::Put(_) | Self::Update(_) | Self::Delete(_) | Self::Compute(_) => true,
            Self::Mix(mix) => {
                let weights = &mix.weights;
                weights.update + weights.insert + weights.read_modify_write + weights.delete > 0.0
            }
            _ => false,
        }
    }

    /// The requests that it sends, where it sends any.
    pub const fn http(&self) -> Option<&HttpSpec> {
        match self {
            Self::Http(http) => Some(http),
            _ => None,
        }
    }

    /// Whether a schedule says when its operations or requests start.
    pub const fn is_open(&self) -> bool {
        match (self.ops(), self.http()) {
            (Some(Ops { rate, .. }), _) => rate.is_some(),
            (None, Some(HttpSpec { rate, .. })) => rate.is_some(),
            (None, None) => false,
        }
    }

    /// Whether it ends after a time and not after so much work. For the phase of a program it is unknown.
    pub const fn is_bounded_by_time(&self) -> bool {
        matches!(self.ops(), Some(Ops { amount: Amount::Duration(_) | Amount::Background, .. }))
            || matches!(self.http(), Some(HttpSpec { amount: HttpAmount::Duration(_), .. }))
    }

    /// Why a metric says nothing about the subject's speed, because the experiment prescribes it: times of a closed
    /// loop that lasts a given time, and times of an open loop. The CPU time of a worker's open loop includes the wait for each
    /// start; that of services does not.
    pub const fn prescribes(&self, metric: Metric) -> Option<Prescribed> {
        use Metric::{Gap, GapCpu, Time, Wall};
        let is_background = matches!(self.ops(), Some(Ops { amount: Amount::Background, .. }));
        let is_of_waits = metric.is_cpu_time() && self.http().is_none();
        match self.is_open() {
            true if matches!(metric, Time | Wall | Gap | GapCpu) || is_of_waits => {
                Some(Prescribed { why: "starts its operations on a schedule", instead: "its latencies" })
            }
            false if is_background && metric.is_time_of_phase() => {
                Some(Prescribed { why: "ends with the phase's own operations", instead: "its rate or latencies" })
            }
            false if self.is_bounded_by_time() && metric.is_time_of_phase() => {
                Some(Prescribed { why: "lasts a given time", instead: "its rate or latencies" })
            }
            _ => None,
        }
    }

    /// Whether it may change what is stored.
    pub fn changes_data(&self) -> bool {
        self.writes() || matches!(self, Self::Commit | Self::Persist | Self::Close)
    }
}

/// Queries over documents. An operation works on a record, and runs every query with values of that record's document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindSpec {
    /// How the operations are repeated.
    pub ops: Ops,
    /// The queries of an operation, in order; not empty.
    pub queries: Vec<QuerySpec>,
}
