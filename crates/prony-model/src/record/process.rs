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

/// The recorded part of an output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Captured {
    /// The beginning; bytes that are not UTF-8 are replaced.
    pub first: String,
    /// The end, where the stream was longer than what `first` holds.
    pub last: String,
    /// Bytes between the two that were not kept.
    pub omitted: u64,
    /// Bytes in all.
    pub total: u64,
    /// Lines that were too long to be searched for patterns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub too_long: u64,
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
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

/// Evidence about the memory of a subject, and about its other limits, over its whole run time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryEvidence {
    /// The limit on the tree.
    pub limit: Option<Bytes>,
    /// The largest amount of memory charged to the process tree.
    pub peak: Reading<Bytes>,
    /// OOM kills in the process tree, whether its limit or the whole machine ran out of memory.
    pub oom_kills: Reading<u64>,
    /// Whether the process tree reached its own memory limit.
    pub limit_reached: Reading<bool>,
    /// New processes and threads that were refused because of the limit on them.
    pub forks_refused: Reading<u64>,
    /// How often the process tree was stopped because it had used up its limit on CPU time; missing where it has none.
    pub throttled: Reading<u64>,
    /// OOM kills elsewhere on the machine in the meantime.
    pub host_oom_kills: Reading<u64>,
}

/// Size of a store's files: both length and blocks, since a preallocated file is longer than its blocks (METHOD 1.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskUsage {
    /// Sum of the files' lengths.
    pub length: Bytes,
    /// Blocks allocated to them.
    pub blocks: Bytes,
    /// Regular files.
    pub files: u64,
}

/// The result of waiting for quiet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettleResult {
    /// Whether it became quiet within the time limit.
    pub settled: bool,
    /// Time from the begin of the wait to the last activity above the thresholds, for the signs that count; missing
    /// where it did not become quiet.
    pub time: Reading<Nanos>,
    /// The same time for each sign.
    pub signs: BTreeMap<Sign, Reading<Nanos>>,
    /// The same time for the CPU time of each role.
    pub roles: BTreeMap<String, Reading<Nanos>>,
    /// How long prony waited.
    pub watched: Nanos,
    /// The longest time between two polls: the last activity may have been earlier by this much.
    pub step: Nanos,
    /// CPU time used since the begin.
    pub cpu: Reading<Nanos>,
    /// Bytes written since the begin.
    pub written: Reading<Bytes>,
    /// Signs that should have been watched but could not be measured, and why: quiet was judged without them.
    pub blind: Vec<String>,
}
