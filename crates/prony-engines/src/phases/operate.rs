//! Runs a phase that repeats operations: starts its clients together, and adds up their reports.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, RwLock};

use prony_model::latency::COMMIT;
use prony_model::number::percent_with;
use prony_model::protocol::{PhaseReport, QueriesFound};
use prony_model::random::{Purpose, Stream, derive};
use prony_model::record::Answer;
use prony_model::spec::{Action, Amount, FieldValue, Grouping, MixSpec, Ops, Order, Sampling, Sharing};
use prony_model::units::Nanos;
use prony_workload::{Distinct, Schedule, Share, phase_seed};

use super::client::{Client, Rules};
use super::collections::Collection;
use super::equals::Equals;
use super::explained::{self, Explained};
use super::guarded::Guarded;
use super::ledger::Done;
use super::queue::Queue;
use super::record_set::RecordSet;
use super::sampling::{Every, Grouped, OneIn, Paced, Sampler};
use super::series::{GroupSeries, Series};
use super::shared::Shared;
use super::source::{Data, Source};
use super::stop::Stop;
use super::undoing::Failures;
use super::ways::{InSession, Way};
use crate::documents::Planned;
use crate::driver::{Capabilities, EngineError, Session, Store};
use crate::timed_loop::{Tally, Untimed, now, process_cpu, thread_cpu};

/// The note on an open loop's CPU time, a part of which the engine does not use.
const SPUN: &str = "open loop: `cpu` includes busy waiting before each intended start, up to 0.1 ms per operation, \
                    so it is more than the engine's CPU time";

/// Why operations have no latency.
const COLLECTED: &str =
    "the writes of a transaction are collected and carried out together, so that the time of one is not known";

/// A phase of operations.
pub(super) struct Job<'a> {
    pub(super) phase: &'a str,
    pub(super) action: &'a Action,
    pub(super) ops: &'a Ops,
    pub(super) collection: &'a Collection,
    /// The index of the collection.
    pub(super) at: usize,
    /// Nothing is stored whose key is above those of the collection.
    pub(super) appends: bool,
    /// The phase's queries.
    pub(super) queries: &'a [Arc<Planned>],
    /// Seeds orders and schedules.
    pub(super) seed: u64,
    pub(super) throughput: Nanos,
    /// What the engine can do.
    pub(super) capabilities: Capabilities,
    pub(super) engine: &'a str,
    pub(super) shared: &'a Shared<'a>,
    /// Nothing beside the phase writes.
    pub(super) is_only_writer: bool,
    /// Which of the workers that share the store this is, from 1 on.
    pub(super) replica: u32,
    /// Where the operations are divided as in a queue.
    pub(super) queue: Option<&'a Queue>,
}

/// Stops the other clients where this one panics.
pub(super) struct StopOnPanic<'a>(pub(super) &'a Shared<'a>);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

/// A client that has ended, with what it has counted.
struct End<'c> {
    client: Client<'c>,
    tally: Tally,
    lag: Option<Nanos>,
    saturated: bool,
}

impl Job<'_> {
    /// Runs the phase in transactions of its own. `began` is called once, when every client is ready, just before they
    /// start.
    pub(super) fn run<S: Store>(&self, store: &S, began: &mut dyn FnMut() -> Result<(), Stop>) -> Result<Ended, Stop> {
        self.check()?;
        let way = |session| InSession {
            session,
            grouping: self.ops.transaction.clone(),
            writes: self.action.writes(),
            own_reads: self.capabilities.reads_own_writes,
        };
        let mut explained = Vec::new();
        let plan = self.plan(|own_query, bound| {
            let one = Explained::ask(store, own_query, bound);
            let said = one.said();
            explained.push(one);
            said
        });
        let mut ended = if self.ops.threads <= 1 {
            self.run_in(&mut way(self.session(store)?), began)?
        } else {
            self.sum(self.run_threads(store, way, began)?)?
        };
        ended.report.plan = plan;
        // An engine in this process plans no query again meanwhile.
        ended.explained = if self.capabilities.server { explained } else { Vec::new() };
        Ok(ended)
    }

    /// The queries that operations run: those of the phase, or those for what refers to a document that is removed.
    fn asked(&self) -> impl Iterator<Item = &Arc<Planned>> {
        let removes = self.is_guarded() && matches!(self.action, Action::Delete(_));
        self.queries.iter().chain(self.collection.referrers.iter().filter(move |_| removes))
    }

    /// Whether references are checked.
    fn is_guarded(&self) -> bool {
        !self.ops.references.are_ignored()
    }

    /// A session with these queries prepared.
    fn session<'s, S: Store>(&self, store: &'s S) -> Result<S::Session<'s>, EngineError> {
        let mut session = store.session()?;
        let mut texts = self.asked().filter_map(|query| query.own_text());
        texts.try_for_each(|text| session.prepare(text))?;
        Ok(session)
    }

    /// Runs the phase with one client in a given way.
    pub(super) fn run_in(
        &self,
        way: &mut impl Way,
        began: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Ended, Stop> {
        self.check()?;
        let client = self.client(0)?;
        began()?;
        self.shared.release(now());
        let mut ended = self.sum(vec![self.sampled(way, 0, client)?])?;
        ended.report.plan = self.plan(|_, _| "not known: the transaction was open".to_owned());
        Ok(ended)
    }

    fn run_threads<'s, S: Store, W: Way>(
        &self,
        store: &'s S,
        way: impl Fn(S::Session<'s>) -> W + Sync,
        began: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Vec<End<'_>>, Stop> {
        let of = self.ops.threads;
        // Clients report that they are ready, and wait at the gate until its lock is dropped.
        let (ready, all_ready) = channel();
        let gate = RwLock::new(());
        let prepare = |index| {
            let session = self.session(store)?;
            Ok::<_, Stop>((way(session), self.client(index)?))
        };
        let one = |index, ready: Sender<()>| {
            // After a panic the other clients must neither wait at the gate, nor run to their end.
            let stop = StopOnPanic(self.shared);
            let prepared = catch_unwind(AssertUnwindSafe(|| prepare(index)));
            drop(ready);
            drop(gate.read());
            let prepared = prepared.unwrap_or_else(|panic| resume_unwind(panic));
            let end = prepared.and_then(|(mut way, client)| Ok(self.sampled(&mut way, index, client)?));
            if end.is_err() {
                stop.0.stop();
            }
            end
        };
        std::thread::scope(|scope| {
            let one = &one;
            let closed = gate.write();
            let start = |index| {
                let ready = ready.clone();
                let client = std::thread::Builder::new().spawn_scoped(scope, move || one(index, ready));
                client.map_err(|source| Stop::Client { number: index + 1, of, source })
            };
            let clients: Result<Vec<_>, Stop> = (0..of).map(start).collect();
            drop(ready);
            // Nothing is sent: it ends when the last client has dropped its end.
            let _ = all_ready.recv();
            let announced = if clients.is_ok() { began() } else { Ok(()) };
            if announced.is_err() || clients.is_err() {
                self.shared.stop();
            }
            self.shared.release(now());
            drop(closed);
            let ends: Vec<_> = clients?.into_iter().map(|client| client.join()).collect();
            announced?;
            // A panic of an engine in a client's thread ends the trial, like one in the worker's own thread.
            ends.into_iter().map(|end| end.unwrap_or_else(|panic| resume_unwind(panic))).collect()
        })
    }

    fn check(&self) -> Result<(), Stop> {
        let unsupported = |what: String| Err(Stop::Unsupported { engine: self.engine.to_owned(), what });
        if self.ops.rate.is_some() && matches!(self.ops.sample, Sampling::Group(_)) {
            return unsupported(
                "timing by groups of operations in an open loop, where a group would include waiting".to_owned(),
            );
        }
        let reads = matches!(self.action, Action::Compute(_)) || matches!(self.action, Action::Mix(m) if mix_reads(m));
        if self.is_shared_write() && reads && !self.capabilities.reads_own_writes {
            return unsupported(format!(
                "`{}` in shared transactions: its write transactions do not see their own writes",
                self.action.name()
            ));
        }
        Ok(())
    }

    /// Whether write transactions have several operations.
    fn is_shared_write(&self) -> bool {
        self.ops.transaction != Grouping::Each && self.action.writes()
    }

    /// Whether a pass visits each record of a client's share once.
    pub(super) fn visits_each(&self) -> bool {
        let passes = matches!(self.ops.order, Order::Record | Order::Key | Order::Shuffled);
        passes && !matches!(self.action, Action::Scan(_) | Action::Find(_) | Action::Mix(_))
    }

    /// Whether updates write two versions of a record in turn, so that each changes what is stored: some engines write nothing where it
    /// stays the same. Only where one client alone writes a record does it follow from the seed which version is the last. No queue, no
    /// other worker and no background writes beside these clients: the experiment's check refuses that.
    pub(super) fn alternates(&self) -> bool {
        // Where they outnumber the records, those without a share visit records of others.
        let clients = self.part(0).of;
        let divides = self.visits_each() && u64::from(clients) <= self.collection.records.count();
        self.renews() && (clients == 1 || divides) && !self.is_guarded()
    }

    /// Whether there are updates.
    pub(super) fn renews(&self) -> bool {
        match self.action {
            Action::Update(_) => true,
            Action::Mix(mix) => mix.weights.update + mix.weights.read_modify_write > 0.0,
            _ => false,
        }
    }

    /// The part of the operations that a client of this worker has among those of all workers.
    pub(super) fn part(&self, client: u32) -> Share {
        let threads = self.ops.threads.max(1);
        Share::new((self.replica.max(1) - 1) * threads + client, self.ops.replicas.unwrap_or(1) * threads)
    }

    /// Number of distinct records touched, where the order gives it.
    fn distinct_by_order(&self, counts: &[u64]) -> Option<u64> {
        let records = self.collection.records.count();
        if self.ops.share == Sharing::Queue {
            // Beyond one pass it depends on which client was given which place.
            let repeats = matches!(self.ops.amount, Amount::Count(count) if count > records);
            return (self.visits_each() && !repeats).then(|| counts.iter().sum());
        }
        let visited = counts.iter().zip(0..).map(|(count, client)| self.part(client).count(records).min(*count));
        self.visits_each().then(|| visited.sum())
    }

    fn client(&self, number: u32) -> Result<Client<'_>, Stop> {
        let source = self.source(number, self.queue).ok_or(Stop::NoOperations)?;
        let share = self.part(number);
        let rules = Rules {
            pause: self.ops.pause,
            schedule: self.ops.rate.map(|rate| Schedule::new(&rate, self.seed, share)),
            duration: match self.ops.amount {
                Amount::Duration(time) => Some(time.as_nanos()),
                Amount::Records | Amount::Count(_) | Amount::Background => None,
            },
            counts_distinct: !self.visits_each() && !matches!(self.action, Action::Scan(_) | Action::Find(_)),
            is_background: self.ops.amount == Amount::Background,
            of_several: share.of > 1 || self.ops.replicas.is_some() || self.shared.either.is_some(),
        };
        Ok(Client::new(source, rules, Series::new(self.throughput), self.shared))
    }

    /// Selects what is timed, once; inside, every call is direct.
    fn sampled<'c>(&self, way: &mut impl Way, number: u32, client: Client<'c>) -> Result<End<'c>, EngineError> {
        // In a transaction that stays open over phases, an operation counts once the engine has accepted it.
        let shared = matches!(self.ops.transaction, Grouping::Batch(_) | Grouping::Single);
        let buffers = shared && self.action.writes();
        let places = || {
            let seed = phase_seed(self.seed, "sample");
            Stream::new(derive(seed, Purpose::Choice, u64::from(self.part(number).index)))
        };
        match (self.ops.rate, self.ops.sample) {
            (Some(_), _) => self.driven(way, client, Paced::new(buffers)),
            (None, Sampling::None) => self.driven(way, client, Untimed),
            (None, Sampling::Every) => self.driven(way, client, Every::new(buffers)),
            (None, Sampling::OneIn(every)) => self.driven(way, client, OneIn::new(every.max(1), places(), buffers)),
            (None, Sampling::Group(size)) => self.driven(way, client, Grouped::new(size.max(1), self.group_cpu())),
        }
    }

    /// The clock of the CPU time of groups: of the process, threads of the engine included, if it has no further clients; else of
    /// the client's thread. A server has its CPU time in other processes.
    fn group_cpu(&self) -> Option<fn() -> u64> {
        let only_client = self.ops.threads <= 1 && self.shared.either.is_none();
        let clock: fn() -> u64 = if only_client { process_cpu } else { thread_cpu };
        (!self.capabilities.server).then_some(clock)
    }

    fn driven<'c, T: Sampler>(
        &self,
        way: &mut impl Way,
        mut client: Client<'c>,
        mut timing: T,
    ) -> Result<End<'c>, EngineError> {
        let mut tally = Tally::default();
        tally.reads.touch = self.ops.touch;
        tally.reads.before_keys = self.collection.space.before().len();
        client.begin(&mut timing);
        let driven = way.drive(&mut client, &mut timing, &mut tally);
        client.finish(&mut timing);
        driven?;
        let lag = timing.lag();
        let saturated = lag.is_some_and(|lag| lag.is_saturated(client.skipped, client.source.drawn));
        Ok(End { client, tally, lag: lag.map(|lag| lag.largest), saturated })
    }

    fn sum(&self, mut ends: Vec<End<'_>>) -> Result<Ended, Stop> {
        let counts: Vec<u64> = ends.iter().map(|end| end.client.source.drawn).collect();
        let inserted = ends.iter().map(|end| end.client.source.inserted()).collect();
        let encoded = ends.iter().filter_map(|end| end.client.source.encoded).reduce(|sum, time| sum + time);
        let equals = ends.iter_mut().filter_map(|end| end.client.source.equals.take()).reduce(Equals::merged);
        let mut failures: Vec<(Failures, u64)> =
            ends.iter_mut().map(|end| (end.client.undoing.take_failures(), end.tally.errors)).collect();
        let mut ends = ends.into_iter();
        let mut all = ends.next().ok_or(Stop::NoOperations)?;
        ends.for_each(|end| all.merge(end));
        if counts.len() > 1 {
            (all.client.sections.time, all.client.sections.gap) = self.time_and_gap();
        }
        let (failed, admitted) = (self.failed_records(&mut failures), all.client.admitted.take());
        let (failures, refused, refusals) = (all.tally.errors, all.tally.reads.refused, all.tally.reads.digest);
        let guarded = self.guarded(&counts, (refused, refusals));
        let unchanged = equals.map(|equals| self.unchanged(&equals, counts.iter().sum(), (failures, refused)));
        let distinct = self.distinct_by_order(&counts);
        let distinct = distinct.or(all.client.distinct.as_ref().map(Distinct::count));
        let nanos = |(from, until)| (Nanos::from_nanos(from), Nanos::from_nanos(until));
        let sections = self.shared.busy.sections().into_iter().map(nanos).collect();
        let span = self.ops.replicas.and_then(|_| self.shared.busy.whole());
        let span = span.map(|(from, until)| nanos((from, until.max(from + self.least()))));
        let report = PhaseReport { distinct, unchanged, span, sections, ..self.report(all, encoded)? };
        let (at, seed, alternates) = (self.at, self.seed, self.alternates());
        Ok(Ended { report, at, seed, counts, inserted, failed, admitted, alternates, guarded, explained: Vec::new() })
    }

    /// What is needed to check refused operations against the references; `None` where they were not checked.
    fn guarded(&self, counts: &[u64], refused: (u64, u64)) -> Option<Guarded> {
        let operations = counts.iter().any(|count| *count > 0);
        (self.is_guarded() && operations).then(|| Guarded {
            phase: self.phase.to_owned(),
            collection: self.at,
            ops: self.ops.clone(),
            deletes: matches!(self.action, Action::Delete(_)),
            seed: self.seed,
            counts: counts.to_vec(),
            refused,
            is_only_writer: self.is_only_writer,
            before: Vec::new(),
        })
    }

    /// The records of the operations that failed, of each client; `None` where it is not known which.
    fn failed_records(&self, failures: &mut [(Failures, u64)]) -> Option<RecordSet> {
        let mut records = RecordSet::default();
        for ((failures, errors), client) in failures.iter_mut().zip(0..) {
            if *errors > 0 {
                // The numbers of all operations follow from the seed.
                let mut source = self.source(client, None)?;
                failures.add_records(*errors, || source.next_number(), &mut records)?;
            }
        }
        Some(records)
    }

    /// The operations of a client.
    fn source<'q>(&'q self, client: u32, queue: Option<&'q Queue>) -> Option<Source<'q>> {
        let Self { collection, appends, queries, .. } = *self;
        let data = Data { collection, appends, queries, queue, alternates: self.alternates() };
        Some(Source::new(self.action, &data, self.seed, self.part(client))?.counting(self.equals()))
    }

    /// How the queries of the phase's first operation read, where there is a choice.
    fn plan(&self, mut explain: impl FnMut(&str, &[FieldValue]) -> String) -> Option<String> {
        if !self.asked().any(|query| query.has_choice()) {
            return None;
        }
        let mut source = self.source(0, None).filter(|source| !source.is_done())?;
        let mut chunk = source.chunk();
        source.lay_next(&mut chunk);
        let first = chunk.op(0);
        let queries = first.queries.iter().chain(first.guard.map(|guard| guard.absent).unwrap_or_default());
        explained::text(&queries.map(|query| query.describe(&mut explain)).collect::<Vec<_>>())
    }

    /// Several clients. The schedule of an open loop continues in the gaps, and to the end of its time.
    fn time_and_gap(&self) -> (u64, u64) {
        let (time, gap) = self.shared.busy.time_and_gap();
        if self.ops.rate.is_some() { ((time + gap).max(self.least()), gap) } else { (time, gap) }
    }

    /// How long an open loop lasts at least, in nanoseconds.
    fn least(&self) -> u64 {
        match self.ops.amount {
            Amount::Duration(time) if self.ops.rate.is_some() && self.shared.stopped().is_none() => time.as_nanos(),
            _ => 0,
        }
    }

    fn report(
        &self,
        End { client: mut all, tally, lag, saturated }: End<'_>,
        encoded: Option<u64>,
    ) -> Result<PhaseReport, Stop> {
        let reads = tally.reads;
        let read = reads_data(self.action);
        let queries = matches!(self.action, Action::Find(_));
        let indexed = self.collection.indexes.is_some();
        let asks = self.asked().next().is_some();
        let decodes = asks || (self.action.writes() && indexed);
        let own = self.asked().any(|query| query.own_text().is_some());
        let removes = matches!(self.action, Action::Delete(_));
        let mut histograms = all.samples.histograms()?;
        // What is left are the commits.
        let is_timed = !histograms.is_empty() || all.samples.groups.is_some();
        let collects = self.capabilities.collects_writes && self.is_shared_write() && is_timed;
        histograms.retain(|one| !collects || one.operation == COMMIT);
        let races = self.ops.threads > 1 && self.action.writes();
        let answer = Answer {
            rows: read.then_some(reads.rows),
            digest: format!("{}:{:016x}", digested(self.action, reads.touch), reads.digest),
            comparable: !self.action.is_bounded_by_time() && !races && tally.errors == 0,
        };
        let one_in = all.samples.groups.as_ref().map_or(1, GroupSeries::one_in);
        let thinned = (one_in > 1).then(|| format!("too many groups to record: one in {one_in} is recorded"));
        let estimated = all.distinct.as_ref().map_or(0.0, Distinct::relative_error);
        // Of several processes the estimates cannot be joined.
        let estimated = (estimated > 0.0 && self.action.replicas() == 1).then(|| {
            format!("distinct records are estimated, with a standard error of {}", percent_with(estimated, 1))
        });
        let spun = (self.ops.rate.is_some() && !self.capabilities.server).then(|| SPUN.to_owned());
        let notes = thinned.into_iter().chain(estimated).chain(spun).collect();
        Ok(PhaseReport {
            time: Nanos::from_nanos(all.sections.time),
            gap: Some(Nanos::from_nanos(all.sections.gap)),
            gap_cpu: Nanos::from_nanos(all.sections.gap_cpu),
            decode: decodes.then(|| Nanos::from_nanos(reads.decode)),
            // Of those that an engine examines itself only the rows are decoded here.
            examined: (decodes && !own).then_some(reads.examined),
            entries: self.asked().any(|query| query.is_indexed()).then_some(reads.entries),
            entries_written: (self.action.writes() && indexed).then_some(reads.changed),
            encode: encoded.map(Nanos::from_nanos),
            refused: self.is_guarded().then_some(reads.refused),
            conflicts: self.action.writes().then_some(tally.conflicts),
            operations: tally.operations,
            errors: tally.errors,
            transactions: tally.transactions,
            rows: read.then_some(reads.rows),
            queries: queries.then_some(QueriesFound { asked: self.queries.len() as u32, found: reads.found }),
            // Those of a mix are its reads': whether its removals found something not every engine reports.
            misses: match removes {
                true => self.capabilities.reports_removals.then_some(reads.vain_removals),
                false => (read && !queries).then_some(reads.misses),
            },
            user_bytes: all.stored + reads.bytes,
            skipped: all.skipped,
            lag,
            histograms,
            no_latency: collects.then(|| COLLECTED.to_owned()),
            groups: all.samples.groups.filter(|_| !collects).map(GroupSeries::into_groups),
            throughput: Some(all.series.into_throughput()),
            answer: (read || self.is_guarded()).then_some(answer),
            disk_full: tally.disk_full,
            error_texts: tally.texts,
            saturated,
            notes,
            ..PhaseReport::default()
        })
    }
}

/// The result of a phase of operations.
pub(super) struct Ended {
    pub(super) report: PhaseReport,
    /// The index of the collection.
    pub(super) at: usize,
    seed: u64,
    counts: Vec<u64>,
    inserted: Vec<u64>,
    failed: Option<RecordSet>,
    admitted: Option<RecordSet>,
    alternates: bool,
    pub(super) guarded: Option<Guarded>,
    /// Of a server, the queries of the first operation.
    pub(super) explained: Vec<Explained>,
}

impl Ended {
    /// What the ledger notes.
    pub(super) fn done<'a>(&'a self, action: &'a Action) -> Done<'a> {
        let Self { counts, inserted, failed, admitted, alternates, .. } = self;
        let (failed, admitted) = (failed.as_ref(), admitted.as_ref());
        Done { action, seed: self.seed, counts, inserted, failed, admitted, alternates: *alternates }
    }
}

impl End<'_> {
    fn merge(&mut self, other: Self) {
        self.client.merge(other.client);
        self.tally.merge(other.tally);
        self.lag = self.lag.max(other.lag);
        self.saturated |= other.saturated;
    }
}

/// What of each row is in the digest.
fn digested(action: &Action, touch: bool) -> &'static str {
    match action {
        Action::Find(_) => "selected",
        // These have an answer only where references are checked: which of them were refused.
        Action::Put(_) | Action::Update(_) | Action::Delete(_) => "refused",
        _ if touch => "lines",
        _ => "lengths",
    }
}

fn mix_reads(mix: &MixSpec) -> bool {
    mix.weights.read + mix.weights.scan + mix.weights.read_modify_write > 0.0
}

fn reads_data(action: &Action) -> bool {
    match action {
        Action::Mix(mix) => mix_reads(mix),
        Action::Get(_) | Action::Scan(_) | Action::Find(_) | Action::Compute(_) => true,
        _ => false,
    }
}
