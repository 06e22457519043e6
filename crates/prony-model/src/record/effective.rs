//! The effective settings of a trial: for a store those that its engine reports, for a program what was requested and
//! observed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Captured, DiskUsage, MetricKeyText, Status};
use crate::metric::MetricName;
use crate::program::{CopyOf, Runtime};
use crate::spec::Durability;
use crate::units::{Bytes, Nanos};

/// For a store: engine, version, settings read back from the engine, durability (METHOD 1.6). For a program: command,
/// directory and output.
// Shared, since all trials of a variant have the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "subject")]
pub enum Effective {
    /// A store.
    Store(Arc<EffectiveStore>),
    /// A program.
    Program(Arc<EffectiveProgram>),
    /// The services of a trial.
    Services(Arc<EffectiveServices>),
}

impl Effective {
    /// The store.
    pub fn store(&self) -> Option<&EffectiveStore> {
        match self {
            Self::Store(store) => Some(store),
            Self::Program(_) | Self::Services(_) => None,
        }
    }

    /// The program.
    pub fn program(&self) -> Option<&EffectiveProgram> {
        match self {
            Self::Store(_) | Self::Services(_) => None,
            Self::Program(program) => Some(program),
        }
    }

    /// Processes that the command of each phase left running, where it left any.
    pub fn left_by_commands(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = match self {
            Self::Services(all) => Some(&all.left_behind),
            Self::Store(_) | Self::Program(_) => None,
        };
        all.into_iter().flatten().map(|(phase, left)| (phase.as_str(), *left))
    }

    /// The program and the services.
    pub fn programs(&self) -> impl Iterator<Item = &EffectiveProgram> {
        self.program().into_iter().chain(self.services())
    }

    /// The services, measured or beside what is measured.
    pub fn services(&self) -> &[EffectiveProgram] {
        match self {
            Self::Store(store) => &store.services,
            Self::Program(program) => &program.services,
            Self::Services(all) => &all.services,
        }
    }
}

/// What ran beside the phases of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EffectiveServices {
    /// The first instance of each service, in the order in which they were started.
    pub services: Vec<EffectiveProgram>,
    /// Processes of the command of a phase that continued to run when its own had ended, by the phase's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_behind: BTreeMap<String, u64>,
}

/// An engine and its effective settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EffectiveStore {
    /// The driver's name.
    pub engine: String,
    /// As the engine itself reports it.
    pub version: String,
    /// The library it is driven through, with its version.
    pub library: String,
    /// The durability class that the settings amount to.
    pub durability: Durability,
    /// The guarantees from which that class follows.
    pub promise: Option<Promise>,
    /// Each setting by name, defaults included.
    pub settings: NamedSettings,
    /// The settings that the engine reports; `None` where the store was not open.
    pub in_force: Option<InForce>,
    /// How the driver uses the engine.
    pub idiom: String,
    /// The first instance of each service beside it, in the order in which they were started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<EffectiveProgram>,
}

impl EffectiveStore {
    /// `lmdb 0.9.33`.
    pub fn engine_and_version(&self) -> String {
        format!("{} {}", self.engine, self.version)
    }
}

/// Effective settings, as the engine reports them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InForce {
    /// The durability class that they amount to.
    pub durability: Durability,
    /// Settings read back from the engine, under the engine's own names.
    pub read_back: NamedSettings,
    /// Settings that the engine does not report, as prony set them.
    pub as_set: NamedSettings,
}

/// Settings of an engine by name; engines differ in what they have.
pub type NamedSettings = BTreeMap<String, Setting>;

/// The value of an engine's setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Setting {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
}

impl From<bool> for Setting {
    fn from(on: bool) -> Self {
        Self::Bool(on)
    }
}

impl From<i64> for Setting {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u64> for Setting {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or_else(|_| Self::Text(number.to_string()), Self::Int)
    }
}

impl From<&str> for Setting {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u32> for Setting {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<usize> for Setting {
    fn from(number: usize) -> Self {
        (number as u64).into()
    }
}

impl From<String> for Setting {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<String>> From<Vec<T>> for Setting {
    fn from(texts: Vec<T>) -> Self {
        Self::Texts(texts.into_iter().map(Into::into).collect())
    }
}

/// Settings by name.
pub fn named<const N: usize>(settings: [(&str, Setting); N]) -> NamedSettings {
    settings.into_iter().map(|(name, setting)| (name.to_owned(), setting)).collect()
}

/// A durability class and its basis: three guarantees, and the class name derived from them (METHOD 5.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Promise {
    /// The name.
    pub class: Durability,
    /// After a process crash.
    pub process_crash: ProcessCrash,
    /// After a power failure.
    pub power_cut: PowerCut,
    /// Whether the store stays intact after a power failure.
    pub integrity: bool,
    /// The settings behind it, as the engine names them.
    pub settings: String,
    /// Whether it is the driver's default.
    pub default: bool,
}

/// Which acknowledged commits a process crash may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessCrash {
    /// Nothing.
    Keeps,
    /// The most recent commits.
    LosesTail,
    /// Everything: the store may be damaged.
    Anything,
}

/// Which acknowledged commits a power failure may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PowerCut {
    /// Nothing.
    Nothing,
    /// At most the last commit.
    LastCommit,
    /// The most recent commits; those that survive are a prefix of the commit order.
    Tail,
    /// Anything.
    Anything,
}

/// The end of the state of a file of which not all was read, but its time.
pub const BY_TIME: &str = " by time";

/// A program, its directory, and observations about it other than metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EffectiveProgram {
    /// Its name.
    pub program: String,
    /// The words of its command line.
    pub command: Vec<String>,
    /// Whether a shell interprets the command line.
    pub shell: bool,
    /// Where it worked.
    pub directory: PathBuf,
    /// Whether each variant, each trial or none had its own copy of the directory.
    pub copy: CopyOf,
    /// What the changes to the copy did: the same wherever the copy is.
    pub changes: Vec<String>,
    /// Further remarks on the copy.
    pub remarks: Vec<String>,
    /// The state of its executable and of its input file, if they lie outside the copy, under the names that the
    /// experiment uses: a digest of the content, or for a large file its size and time of change.
    pub files: BTreeMap<String, String>,
    /// The directory that was copied; `None` where the program works in the directory itself.
    pub source: Option<Source>,
    /// What its data directory was a copy of, where it is a service that began with data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<CopiedData>,
    /// Variables of its environment that the experiment sets.
    pub env: BTreeMap<String, String>,
    /// Variables that it inherits from prony.
    pub inherit: Vec<String>,
    /// A short digest of the value of each inherited variable, by name (those of `inherit`, and PATH, HOME and others, but not
    /// TERM); `not set` if prony does not have it. A guess of a value can be tested by it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inherited: BTreeMap<String, String>,
    /// Its runtime.
    pub runtime: Option<Runtime>,
    /// Whether its output is a terminal.
    pub pty: bool,
    /// The file that was executed, where that is known and recorded.
    pub executable: Option<String>,
    /// Of a service: whether one of its processes listens on its port, and of several instances one of each; `None` where that is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listens: Option<bool>,
    /// How its process ended; `None` where it could not be executed.
    pub status: Option<Status>,
    /// What it wrote.
    pub output: Output,
    /// Processes that continued to run when its own had ended.
    pub left_behind: u64,
    /// The first few marks that name no phase or could not be parsed.
    pub strange_marks: Vec<String>,
    /// How many there were.
    pub strange_marks_in_all: u64,
    /// Phases that ended well but of which no line matched `read`.
    pub heard_nothing: Vec<String>,
    /// Phases whose lines matched the `read` of others too.
    pub read_by_several: Vec<String>,
    /// Phases whose metrics from `read` are missing because the order of lines of stdout and stderr is not known, by name: whether the
    /// answer, `rows` or `digest`, is among what is missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unordered: BTreeMap<String, bool>,
    /// Half a unit of the last printed digit of each metric that a phase's lines report, and half a class of percentiles of calls
    /// that were only counted, in the metric's unit: the value may be off by this much. Counts are exact.
    #[serde(default, deserialize_with = "finite", skip_serializing_if = "BTreeMap::is_empty")]
    pub resolution: BTreeMap<String, BTreeMap<MetricKeyText, f64>>,
    /// How often lines of output would have begun a phase again, by the name of the phase.
    pub repeated: BTreeMap<String, u64>,
    /// Phases that are calls of a function, or that begin or end with one, by name.
    pub calls: BTreeMap<String, Call>,
    /// Where it stores its data; `None` where its data are not read.
    pub store: Option<ProgramStore>,
    /// Its replicas; `None` where it has none.
    pub replicas: Option<Replicas>,
    /// The first instance of each service beside it, in the order in which they were started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<EffectiveProgram>,
}

impl EffectiveProgram {
    /// How far a value may be off because of its printed digits or its class of times, in its metric's unit; `None` where it is exact.
    pub fn digit_error(&self, name: &MetricName) -> Option<f64> {
        let printed = match &name.instance {
            None => self.resolution.get(&name.phase)?,
            Some(instance) => {
                let replicas = self.replicas.as_ref().filter(|replicas| replicas.phase == name.phase)?;
                &replicas.copies.iter().find(|copy| copy.instance == *instance)?.resolution
            }
        };
        printed.get(&MetricKeyText(name.key)).copied()
    }
}

/// Without `null`, which JSON has for infinity: earlier versions recorded that of a program that printed `1e308`.
fn finite<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, BTreeMap<MetricKeyText, f64>>, D::Error> {
    let all = BTreeMap::<String, BTreeMap<MetricKeyText, Option<f64>>>::deserialize(deserializer)?;
    let finite = |of: BTreeMap<_, Option<f64>>| of.into_iter().filter_map(|(key, half)| Some((key, half?))).collect();
    Ok(all.into_iter().map(|(phase, of)| (phase, finite(of))).collect())
}

/// What a copy was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// The directory.
    pub directory: PathBuf,
    /// A digest of names, sizes and times in it; `None` where another revision of it was copied.
    pub state: Option<String>,
}

/// What the data directories of a service's instances were copies of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopiedData {
    /// The directory.
    pub directory: PathBuf,
    /// A digest of the names, sizes, modes and times in it, as it was before and after the copy.
    pub state: String,
    /// How many files it held.
    pub files: u64,
    /// The lengths of these files, added up.
    pub bytes: Bytes,
}

/// What a process wrote, beginning and end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// To its standard output.
    pub stdout: Captured,
    /// To its standard error.
    pub stderr: Captured,
}

impl From<&[Captured; 2]> for Output {
    fn from([stdout, stderr]: &[Captured; 2]) -> Self {
        Self { stdout: stdout.clone(), stderr: stderr.clone() }
    }
}

/// The function that a phase waited for last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// The function, as the experiment names it.
    pub call: String,
    /// The file in which it was found.
    pub file: Option<String>,
    /// Why it was never called, where it was not.
    pub never: Option<String>,
    /// Why none of its invocations ended the phase, where none did.
    pub missed: Option<String>,
    /// Why its calls do not measure its work: they returned something that does the work later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred: Option<String>,
}

/// Where a program stores its data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramStore {
    /// The path.
    pub path: PathBuf,
    /// Whether it is in a directory that is created for the trial.
    pub of_the_trial: bool,
    /// What was there when the program began; `None` where nothing was.
    pub at_begin: Option<DiskUsage>,
    /// Whether anything was there at the begin or the end of any phase.
    pub found: bool,
    /// Time that reading its size took while the program ran.
    pub reading: Nanos,
    /// The part of that time in which a phase waited for quiet.
    pub settling: Nanos,
}

/// Further copies of a program that start together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replicas {
    /// How many were requested.
    pub count: u32,
    /// The phase with which they start.
    pub phase: String,
    /// Time from the first release to the last; `None` where none was released.
    pub released_within: Option<Nanos>,
    /// How often the memory of replicas was read because they had reported something, and how long that took.
    pub memory_read: MemoryRead,
    /// The replicas in order; none where the phase never began.
    pub copies: Vec<Replica>,
}

/// Readings of memory between begin and end of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryRead {
    /// How many there were.
    pub times: u64,
    /// How long all of them took.
    pub took: Nanos,
}

/// One replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replica {
    /// The instance in the names of its metrics.
    pub instance: String,
    /// Its process; `None` where it could not be executed.
    pub pid: Option<u32>,
    /// The words of its command line.
    pub command: Vec<String>,
    /// Variables of its environment that differ from the program's.
    pub env: BTreeMap<String, String>,
    /// How it ended.
    pub end: ReplicaEnd,
    /// Why it could not be started; `None` where it was started.
    pub why: Option<String>,
    /// How its process ended.
    pub status: Option<Status>,
    /// When it began to execute its program, by `CLOCK_MONOTONIC`.
    pub released: Nanos,
    /// When it ended, by the same clock.
    pub ended: Option<Nanos>,
    /// Processes that continued to run when its own had ended.
    pub left_behind: Option<u64>,
    /// None of its lines matched `read`.
    pub heard_nothing: bool,
    /// The digest of its answer, as its lines reported it.
    pub digest: Option<String>,
    /// Half a unit of the last printed digit of each metric that its lines report, as for a program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolution: BTreeMap<MetricKeyText, f64>,
    /// Marks that it made, which belong to no phase.
    pub marks: u64,
    /// What it wrote.
    pub output: Output,
}

/// How a replica ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaEnd {
    /// It could not be executed.
    #[default]
    NotBegun,
    /// It ended by itself.
    Ended,
    /// It was killed when the program ended.
    CutOff,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolution_that_was_infinite_is_read_as_unknown() {
        let program = EffectiveProgram::default();
        let mut json = serde_json::to_value(&program).unwrap();
        assert_eq!(serde_json::from_value::<EffectiveProgram>(json.clone()).unwrap(), program, "one without any");
        json["resolution"] = serde_json::json!({ "work": { "time": null, "rate": 0.5 } });
        let read: EffectiveProgram = serde_json::from_value(json).unwrap();
        let rate = (MetricKeyText("rate".parse().unwrap()), 0.5);
        assert_eq!(read.resolution, BTreeMap::from([("work".to_owned(), BTreeMap::from([rate]))]));
    }
}
