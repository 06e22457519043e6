//! Observations of a subject's process tree and files: its end, its output, its memory limit, leftovers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reading::Reading;
use crate::spec::Sign;
use crate::units::{Bytes, Nanos};

/// How a subject's own process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
}

/// What was kept of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Captured {
    /// The beginning; bytes that are no UTF-8 are replaced.
    pub first: String,
    /// The end, where the stream was longer than what `first` holds.
    pub last: String,
    /// Bytes between the two that were not kept.
    pub omitted: u64,
    /// Bytes in all.
    pub total: u64,
}

impl Captured {
    /// Beginning and end as one text, with a line that counts what lies between.
    pub fn text(&self) -> String {
        match self.omitted {
            0 => format!("{}{}", self.first, self.last),
            n => format!("{}\n[... {n} bytes not kept ...]\n{}", self.first, self.last),
        }
    }
}

/// What was seen of memory over a subject's life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryEvidence {
    /// The limit on the tree.
    pub limit: Option<Bytes>,
    /// Most memory charged to the tree.
    pub peak: Reading<Bytes>,
    /// Processes of the tree that the kernel killed for lack of memory, whoever lacked it.
    pub oom_kills: Reading<u64>,
    /// Whether the tree had come to its own limit.
    pub limit_reached: Reading<bool>,
    /// Processes and threads that the tree was refused for its limit on them.
    pub forks_refused: Reading<u64>,
    /// Processes elsewhere on the machine that the kernel killed for lack of memory meanwhile.
    pub host_oom_kills: Reading<u64>,
}

/// Size of a store's files; both figures, since a preallocated file is longer than its blocks (METHOD 1.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskUsage {
    /// Sum of the files' lengths.
    pub length: Bytes,
    /// Blocks allocated to them.
    pub blocks: Bytes,
    /// Regular files.
    pub files: u64,
}

/// What a watch for quiet found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettleResult {
    /// Whether it became quiet within the cap.
    pub settled: bool,
    /// From the begin of the watch to the last activity above its thresholds, of the signs that count; missing where it did
    /// not settle.
    pub time: Reading<Nanos>,
    /// The same of each sign.
    pub signs: BTreeMap<Sign, Reading<Nanos>>,
    /// The same of the CPU time of each role.
    pub roles: BTreeMap<String, Reading<Nanos>>,
    /// How long was watched.
    pub watched: Nanos,
    /// The longest time between two polls: the last activity may have been earlier by as much.
    pub step: Nanos,
    /// CPU time used since the begin.
    pub cpu: Reading<Nanos>,
    /// Bytes written since the begin.
    pub written: Reading<Bytes>,
    /// Signs that are there and could not be seen, and why: quiet means quiet without them.
    pub blind: Vec<String>,
}
