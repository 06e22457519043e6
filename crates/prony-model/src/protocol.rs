//! Runner <-> worker: the messages, as JSON lines on an inherited socket. Instants are `CLOCK_MONOTONIC`, which all
//! processes of a machine share.
//!
//! The runner leads: it sends [`ToWorker::Plan`] once, then one [`ToWorker::Phase`] at a time, so that it can reset
//! peaks and read counters while the worker waits between two phases.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::crash::{CrashStep, Survived};
use crate::reading::Reading;
use crate::record::{Answer, EffectiveStore, Groups, HistogramRecord, Throughput};
use crate::spec::TrialSpec;
use crate::units::{Bytes, Nanos};

/// The version both sides must agree on.
pub const VERSION: u32 = 1;

/// Messages from the runner to the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum ToWorker {
    /// What to host; sent once.
    Plan {
        /// [`VERSION`] of the runner.
        version: u32,
        /// The whole trial.
        spec: Box<TrialSpec>,
        /// Seeds data and operation order.
        seed: u64,
        /// A directory on the file system of the results, empty when the first worker opens its store there.
        dir: String,
        /// Which of the workers that share the store it is, from 1 on.
        replica: u32,
        /// Interval of the throughput series.
        throughput: Nanos,
    },
    /// What to do in a crash trial; sent once, instead of a plan.
    Crash {
        /// [`VERSION`] of the runner.
        version: u32,
        /// The whole variant.
        spec: Box<TrialSpec>,
        /// Index into the spec's crash phases.
        crash: usize,
        /// Seeds data and operation order.
        seed: u64,
        /// The directory of the store.
        dir: String,
        /// Whether to write, or to check what was left.
        step: CrashStep,
    },
    /// Run the phase with this index.
    Phase {
        /// Index into the spec's phases.
        index: usize,
    },
    /// Begin the phase, for which all workers that share it are prepared, or the writes of a crash trial.
    Go,
    /// Close the store, if open, and exit with 0.
    Stop,
}

/// Messages from the worker to the runner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "did")]
pub enum FromWorker {
    /// The store is open.
    Ready {
        /// [`VERSION`] of the worker.
        version: u32,
        /// Engine, version, promises, settings read back; `None` of a load generator, which has no store.
        effective: Option<Box<EffectiveStore>>,
        /// Time that opening the store took.
        open: Nanos,
    },
    /// Everything is ready for a phase of a store: it begins at [`ToWorker::Go`], when all workers that share it are ready and its
    /// counters are read.
    Prepared {
        /// Which.
        index: usize,
    },
    /// A phase begins now.
    Began {
        /// Which.
        index: usize,
        /// When.
        at: Nanos,
    },
    /// The writes of a crash trial begin now.
    Writing {
        /// When.
        at: Nanos,
    },
    /// What of the commits of a crash trial has survived.
    Survived {
        /// What was found.
        survived: Box<Survived>,
    },
    /// Operations so far; about ten a second, from a thread that is not timed.
    Progress {
        /// Which phase.
        index: usize,
        /// Operations so far.
        operations: u64,
    },
    /// A phase ended.
    Ended {
        /// Which.
        index: usize,
        /// When.
        at: Nanos,
        /// What it measured from inside.
        report: Box<PhaseReport>,
    },
    /// A server runs the queries of a phase that has ended in another way than at its begin: sent when the next phase is asked for, or
    /// the end, since to ask a server is no work of a phase.
    Planned {
        /// Which phase.
        index: usize,
        /// Whether these are the queries of its background.
        background: bool,
        /// The plans at the begin and after it, in place of [`PhaseReport::plan`].
        plan: String,
    },
    /// The connections of a load, which were kept open for a while after its phase, are closed.
    Lingered {
        /// Which phase.
        index: usize,
        /// That more came on them than answers; `None` where it did not.
        surplus: Option<String>,
    },
    /// The subject failed; the trial ends.
    Failed {
        /// The phase, where one was under way.
        index: Option<usize>,
        /// What kind of end.
        failure: Failure,
        /// The message, causes joined by `: `.
        message: String,
    },
}

/// The kind of failure that the worker reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The engine reported an error.
    Failed,
    /// The engine does not offer it.
    Unsupported,
    /// Data read back is not what was written.
    WrongAnswer,
    /// An open-loop rate was not sustained.
    Saturated,
    /// The subject reported that it could not allocate memory.
    OutOfMemory,
    /// The disk was full.
    DiskFull,
    /// Prony itself failed, which says nothing about the engine.
    OfProny,
}

/// What the worker measured in a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Time inside timed sections; with several clients, the time in which at least one is inside; for an open loop,
    /// whose schedule never pauses, from its begin to its end.
    pub time: Nanos,
    /// The begin of the first timed section and the end of the last; only of a phase with `replicas`.
    pub span: Option<(Nanos, Nanos)>,
    /// When clients were inside timed sections, in order; only of a phase with `replicas`, and empty where there are more
    /// than can be listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<(Nanos, Nanos)>,
    /// Wall time outside timed sections, of all clients; `None` where it is not known.
    pub gap: Option<Nanos>,
    /// CPU time (user and system) that the client threads spent outside timed sections, so that it can be distinguished
    /// from the engine's; the engine's own threads are not in it, also where they work meanwhile.
    pub gap_cpu: Nanos,
    /// Time in which documents were encoded, added up over the clients: outside timed sections. `None` where no document
    /// was written.
    pub encode: Option<Nanos>,
    /// Time in which queries decoded documents, and writes those that they replaced, whose entries in the indexes they
    /// encoded; added up over the clients, inside timed sections. `None` where none was decoded.
    pub decode: Option<Nanos>,
    /// Documents that were decoded; `None` where nothing is queried and no index changed.
    pub examined: Option<u64>,
    /// Entries of indexes that queries read; `None` where nothing is queried or the store has no index.
    pub entries: Option<u64>,
    /// Entries of indexes that were stored or removed; `None` where nothing is written or the store has no index.
    pub entries_written: Option<u64>,
    /// Writes that stored what the record held already, on an engine that then writes nothing; `None` on other engines and
    /// where nothing is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchanged: Option<Unchanged>,
    /// Operations that were refused because of references between documents, which are among those that succeeded; `None`
    /// where none are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// Transactions that failed because of another one at the same time, as the driver counted them; `None` where nothing is
    /// written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<u64>,
    /// Operations that succeeded.
    pub operations: u64,
    /// Operations that failed.
    pub errors: u64,
    /// How often the engine said that the disk is full.
    pub disk_full: u64,
    /// Transactions committed, or read transactions ended.
    pub transactions: u64,
    /// Rows that reads returned; `None` where nothing is read.
    pub rows: Option<u64>,
    /// Which queries have found something; `None` where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<QueriesFound>,
    /// Reads and removals that found nothing; `None` where nothing is read, or the engine does not report what it removes.
    pub misses: Option<u64>,
    /// Distinct records touched, exact up to a bound, else estimated.
    pub distinct: Option<u64>,
    /// Bytes of keys and values handed to or taken from the engine.
    pub user_bytes: u64,
    /// Open-loop operations never started.
    pub skipped: u64,
    /// Largest lag behind the schedule; `None` in a closed loop.
    pub lag: Option<Nanos>,
    /// Why operations have no latencies, where they were to be timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_latency: Option<String>,
    /// Latencies.
    pub histograms: Vec<HistogramRecord>,
    /// Groups of operations.
    pub groups: Option<Groups>,
    /// Operations over time.
    pub throughput: Option<Throughput>,
    /// What reads answered.
    pub answer: Option<Answer>,
    /// Error texts with counts, the first few kinds.
    pub error_texts: BTreeMap<String, u64>,
    /// Settings that changed since `Ready` (after `reopen`).
    pub effective: Option<EffectiveStore>,
    /// The engine's own counters after the phase, by name.
    pub engine_counters: BTreeMap<String, f64>,
    /// Bytes of the store by the engine's own account, where it keeps one.
    pub engine_size: Option<Bytes>,
    /// Whether an open-loop rate was not sustained: starts lagged at the end by more than 1 % of the schedule (and by
    /// more than 10 ms), or more than 1 % of the operations due were never started.
    pub saturated: bool,
    /// Share of the store's pages in the page cache after an `evict`.
    pub resident: Option<Reading<f64>>,
    /// What a `verify` could check.
    pub verified: Option<Verified>,
    /// How the queries read, where the store has indexes.
    pub plan: Option<String>,
    /// What the phase's background measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<Box<PhaseReport>>,
    /// Time in which clients of both the phase and its background were in timed sections; only of a background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Nanos>,
    /// For how long operations went on after those of the phase had ended; only of a background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<Nanos>,
    /// What a load generator counted of its requests; `None` of every other phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestsReport>,
    /// What a reader should know of this phase.
    pub notes: Vec<String>,
    /// References of stored documents that lead to no stored document, where some phase wrote without a check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dangling: Option<String>,
}

/// What a load generator counted of its requests after the warm-up. Each request is one operation of its phase: it succeeded,
/// failed, or was never started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestsReport {
    /// Expected answers a second.
    pub rate: Reading<f64>,
    /// Answers by status, expected or not.
    #[serde(deserialize_with = "by_number")]
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without a whole answer in time.
    pub timeouts: u64,
    /// Requests that were under way when the phase ended, and so have no answer.
    pub unfinished: u64,
    /// Different bodies that were sent; `None` where requests have none.
    pub bodies: Option<u64>,
    /// Different paths that were asked for.
    pub paths: u64,
    /// Bytes that were sent and received, without those of TLS.
    pub bytes: (Bytes, Bytes),
    /// Connections that were made, those of the warm-up included.
    pub connections: u64,
    /// Times to open connections; one that was never open is infinitely slow.
    pub connect: Option<HistogramRecord>,
    /// From the real start of a request to the first byte of its answer.
    pub first_byte: Option<HistogramRecord>,
    /// Open loop: requests that were due while all connections were in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_for_connection: Option<u64>,
    /// Attempts that were repeated; `None` where none is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// That the load generator, not the server, may have been the limit; `None` where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<String>,
    /// That the load generator did not run for a while, which is in latencies; `None` where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled: Option<String>,
    /// Whether connections are still open, so that [`FromWorker::Lingered`] follows.
    #[serde(default)]
    pub lingers: bool,
    /// That more came on connections after their last answers; `None` where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surplus: Option<String>,
    /// What was counted of parts of the requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<RequestsPart>,
}

/// What a load generator counted of some of its requests, such as those that were due in one step of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestsPart {
    /// The instance under which its metrics are named.
    pub name: String,
    /// Requests that were answered as expected.
    pub ok: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests that were never started.
    pub skipped: u64,
    /// Rows of the answers, of a kind whose rows are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Expected answers a second.
    pub rate: Reading<f64>,
    /// Latencies as those of all requests.
    pub latency: HistogramRecord,
}

/// Numbers as keys are texts in JSON. Inside a tagged message serde has read them as texts before it knows that they are to be
/// numbers, which it refuses.
fn by_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u16, u64>, D::Error> {
    let texts = BTreeMap::<String, u64>::deserialize(deserializer)?;
    texts.into_iter().map(|(key, count)| Ok((key.parse().map_err(D::Error::custom)?, count))).collect()
}

/// How many writes stored what the record held already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unchanged {
    /// So many.
    Known(u64),
    /// Some may have; why it is not known how many.
    NotKnown(String),
}

/// Which of a phase's queries have found a document in some operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueriesFound {
    /// How many queries an operation runs.
    pub asked: u32,
    /// A bit for each of the first 64: whether it has found something.
    pub found: u64,
}

impl QueriesFound {
    /// Adds what other clients have found.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { found: self.found | other.found, ..self }
    }

    /// The numbers of those that have found nothing, from 1 on.
    pub fn without(self) -> impl Iterator<Item = u32> {
        (0..self.asked.min(64)).filter(move |at| self.found >> at & 1 == 0).map(|at| at + 1)
    }
}

impl Verified {
    /// Adds what was checked of other records.
    pub fn add(&mut self, other: Self) {
        self.exact += other.exact;
        self.one_of_several += other.one_of_several;
        self.may_be_absent += other.may_be_absent;
    }
}

/// What a `verify` has checked; every count is of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Contained exactly what the operations so far leave there: one version, or nothing.
    pub exact: u64,
    /// Contained one of several versions that random updates may have left; each is checked byte by byte against them.
    pub one_of_several: u64,
    /// Random or time-bounded writes may or may not have left them there; checked where they are there.
    pub may_be_absent: u64,
    /// Whether rows that were never written would have been found; only engines with ordered keys can list their rows.
    pub extra_rows: bool,
}
