//! Reports of the probes in a program's language runtime, other than metrics.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SettleResult;
use crate::reading::Reading;
use crate::units::{Bytes, Nanos};

/// Threads, probe costs, suspensions and heap-limit deaths of a program whose language runtime was probed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeReport {
    /// Every process of the runtime and every thread with a heap of its own, in the order of their first reports.
    pub threads: Vec<ThreadReport>,
    /// The cost of the probes in all threads, as the probes measured it themselves.
    pub cost: Nanos,
    /// Lines that could not be sent.
    pub lines_lost: u64,
    /// Heap samples that were dropped because there were too many.
    pub samples_dropped: u64,
    /// Every suspension of a thread at the end of a call.
    pub suspensions: Vec<SuspensionReport>,
    /// Phases that were running while `at_end` of another phase suspended the program, with the name of that other
    /// phase.
    pub suspended_inside: BTreeMap<String, String>,
    /// The longest time in each phase without a heap sample.
    pub unread: BTreeMap<String, Nanos>,
    /// Processes and threads that ended at their own heap limit.
    #[serde(rename = "deaths")]
    pub heap_aborts: Vec<HeapAbort>,
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
    /// When its probe first reported, by `CLOCK_MONOTONIC`.
    pub began: Nanos,
    /// When it ended, as far as that is known, by the same clock.
    pub ended: Nanos,
    /// Whether its end was reported.
    pub said_bye: bool,
    /// Heap samples that were kept.
    pub samples: u64,
    /// Heap used by objects at the last sample.
    pub last_heap_used: Option<Bytes>,
    /// The heap's own limit.
    pub heap_limit: Option<Bytes>,
    /// The cost of the probe in this thread.
    pub probe: Option<ProbeCost>,
}

/// The cost of a probe in its thread.
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

crate::words! {
    /// The part of a thread or process in a program.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Role {
        /// The process that was probed first.
        Main = "main";
        /// Any other process.
        Child = "child";
        /// A thread of a process other than its main thread.
        Worker = "worker";
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
    /// How long the thread had run on before the suspension, where it is suspended at a later turn of its event loop.
    pub late: Option<Nanos>,
    /// Time that the forced garbage collection took, if there was one.
    pub collected: Option<Nanos>,
    /// The result of waiting for quiet, if prony waited.
    pub settled: Option<SettleResult>,
    /// Whether the call ended no phase, so that the thread was released at once.
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

crate::words! {
    /// Why a suspended thread continued.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Because {
        /// Commanded to continue.
        Go = "go", "prony commanded it to continue";
        /// Commanded to continue and not to suspend at this call again.
        Release = "release", "prony commanded it to continue and not to suspend again";
        /// Commanded to end its process.
        Stop = "stop", "prony commanded it to stop";
        /// It suspends again at the next turn of its event loop, where a collection frees weakly referenced objects.
        Later = "later", "prony commanded it to continue to the next turn of its event loop";
        /// The runner did not answer within ten seconds.
        Unanswered = "unanswered", "prony did not answer in time";
        /// The runner ended.
        RunnerEnded = "runner_ended", "prony ended";
    }
}

/// A process or thread that ended at its own heap limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HeapDeath")]
pub struct HeapAbort {
    /// The process.
    pub pid: u32,
    /// The runtime's own number of the thread.
    pub thread: u32,
    /// When, by `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// The message of the runtime.
    pub what: String,
    /// Used by objects, live or not collected yet.
    pub used: Reading<Bytes>,
    /// Taken from the system for the heap.
    pub total: Reading<Bytes>,
    /// The heap's own limit.
    pub limit: Reading<Bytes>,
    /// Memory outside the heap that its objects hold.
    pub external: Reading<Bytes>,
}
