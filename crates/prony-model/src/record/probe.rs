//! Reports of the probes inside a program's runtime, other than figures.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SettleResult;
use crate::reading::Reading;
use crate::units::{Bytes, Nanos};

/// Threads, costs, holds and deaths of a program whose runtime was probed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeReport {
    /// Every process of the runtime and every thread with a heap of its own, in the order of their hellos.
    pub threads: Vec<ThreadReport>,
    /// What probes have cost all threads, by their own account.
    pub cost: Nanos,
    /// Lines that could not be sent.
    pub lines_lost: u64,
    /// Figures of heaps that were not kept, for there were too many.
    pub samples_dropped: u64,
    /// Every suspension of a thread at the end of a call.
    pub suspensions: Vec<SuspensionReport>,
    /// Phases that were under way while `at_end` of another one suspended the program, with that other phase.
    pub suspended_inside: BTreeMap<String, String>,
    /// The longest time in each phase for which no heap was read.
    pub unread: BTreeMap<String, Nanos>,
    /// Processes and threads that died by their heap's own limit.
    pub deaths: Vec<HeapDeath>,
}

/// A process of the runtime, or a thread with a heap of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadReport {
    /// The process.
    pub pid: u32,
    /// The runtime's own number of the thread: 0 is the main one.
    pub thread: u32,
    /// Its part in the program.
    pub role: Role,
    /// The process that started this one.
    pub parent: u32,
    /// `node` or `python`.
    pub runtime: String,
    /// Its version.
    pub version: String,
    /// The script that it runs.
    pub script: String,
    /// When it said hello, by `CLOCK_MONOTONIC`.
    pub began: Nanos,
    /// When it ended, as far as that is known, by the same clock.
    pub ended: Nanos,
    /// Whether its end was reported.
    pub said_bye: bool,
    /// Figures of its heap that were kept.
    pub samples: u64,
    /// Used by objects when its heap was read last.
    pub last_heap_used: Option<Bytes>,
    /// The heap's own limit.
    pub heap_limit: Option<Bytes>,
    /// What the probe has cost it.
    pub probe: Option<ProbeCost>,
}

/// What a probe has cost its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeCost {
    /// Time inside the probe, its loading included; for hot functions an estimate.
    pub time: Nanos,
    /// What its loading added to the heap (Node).
    pub heap: Option<Bytes>,
    /// What its loading added to the allocator's blocks (CPython).
    pub blocks: Option<u64>,
    /// Lines that it has sent.
    pub lines: u64,
    /// Lines that could not be sent.
    pub lost: u64,
}

/// The part of a thread or process in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The process that was probed first.
    Main,
    /// Any other process.
    Child,
    /// A thread of a process beside its main one.
    Worker,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Main, Self::Child, Self::Worker];

    /// The name, as instances of figures have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Child => "child",
            Self::Worker => "worker",
        }
    }
}

/// One suspension of one thread at the end of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuspensionReport {
    /// The phase that the call ends.
    pub phase: String,
    /// The process.
    pub pid: u32,
    /// The runtime's own number of the thread.
    pub thread: u32,
    /// When the invocation ended, by `CLOCK_MONOTONIC`.
    pub from: Nanos,
    /// For how long; `None` where the thread never continued.
    pub suspended: Option<Nanos>,
    /// How long the thread had continued before, where it is suspended at a later turn of its event loop.
    pub late: Option<Nanos>,
    /// What the forced collection took, where there was one.
    pub collected: Option<Nanos>,
    /// What the watch for quiet found, where there was one.
    pub settled: Option<SettleResult>,
    /// It ended no phase, and the thread was released at once.
    pub passed: bool,
    /// Why the thread continued; `None` where it never did.
    pub went_on: Option<Because>,
    /// What went wrong.
    pub fault: Option<String>,
}

impl SuspensionReport {
    /// Whether the thread continued without a command.
    pub fn by_itself(&self) -> bool {
        matches!(self.went_on, Some(Because::Unanswered | Because::RunnerEnded))
    }
}

/// Why a suspended thread continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// Commanded to continue.
    Go,
    /// Commanded to continue and not to suspend at this call again.
    Release,
    /// Commanded to end its process.
    Stop,
    /// It suspends again at the next turn of its event loop, where a collection frees weakly referenced objects.
    Later,
    /// The runner did not answer within ten seconds.
    Unanswered,
    /// The runner ended.
    RunnerEnded,
}

impl Because {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Go => "commanded to continue",
            Self::Release => "commanded to continue and not to suspend again",
            Self::Stop => "commanded to stop",
            Self::Unanswered => "the runner did not answer",
            Self::RunnerEnded => "the runner ended",
            Self::Later => "commanded to continue to the next turn of its event loop",
        }
    }
}

/// A process or thread that died by its heap's own limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeapDeath {
    /// The process.
    pub pid: u32,
    /// The runtime's own number of the thread.
    pub thread: u32,
    /// When, by `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// The runtime's words.
    pub what: String,
    /// Used by objects, live or not collected yet.
    pub used: Reading<Bytes>,
    /// Taken from the system for the heap.
    pub total: Reading<Bytes>,
    /// The heap's own limit.
    pub limit: Reading<Bytes>,
    /// Outside the heap, held by its objects.
    pub external: Reading<Bytes>,
}
