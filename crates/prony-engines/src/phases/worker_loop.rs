//! The worker's loop: executes the commands of the runner.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use prony_model::link::{Link, Progress};
use prony_model::protocol::{FromWorker, PhaseReport, ToWorker, VERSION};
use prony_model::record::EffectiveStore;
use prony_model::spec::{Action, BACKGROUND, Grouping, Ops, PhaseSpec, Sharing, StoreSpec, Subject};
use prony_model::units::Nanos;
use prony_workload::phase_seed;

use super::background;
use super::collections::{Collections, Queries};
use super::explained::{self, Explained};
use super::operate::{Ended, Job};
use super::shared::{Busy, Shared};
use super::stop::{HostError, Stop};
use super::ways::InTransaction;
use super::{Machine, Plan, verify};
use crate::driver::{Description, Driver, EngineError, InForce, Read, Session, Store, Table, Write};
use crate::timed_loop::now;

/// Hosts a store of the engine `D`: opens it, reports that, and runs the requested phases until the runner sends
/// `stop`.
///
/// # Errors
/// Whatever ends the trial before its plan; the caller reports it to the runner ([`HostError::to_message`]).
pub(crate) fn host<D: Driver>(
    link: &mut dyn Link,
    machine: &dyn Machine,
    plan: &Plan,
    progress: &Progress,
) -> Result<(), HostError> {
    let Subject::Store(store) = &plan.spec.subject else {
        let phase = "the first phase".to_owned();
        return Err(Stop::Order { phase, why: "a worker hosts stores only" }.into());
    };
    let engine = D::describe();
    let collections = Collections::new::<D>(plan, store).map_err(Stop::from)?;
    let queries = collections.queries::<D>(plan);
    let host = Host { link, machine, plan, progress, engine, store, collections, queries, explained: Vec::new() };
    host.run::<D>().map_err(|cause| HostError { phase: progress.phase(), cause })
}

/// Opens a store, and the time that this takes: with the tables of an embedded engine, for which it may read its file first, and
/// without prony's own work on a server.
pub(super) fn opened<D: Driver>(
    dir: &Path,
    spec: &StoreSpec,
    tables: &[Table],
    first: bool,
) -> Result<(D::Store, Nanos), EngineError> {
    let server = D::describe().capabilities.server;
    let began = now();
    let mut store = D::open(dir, spec)?;
    let connected = now();
    if server || !tables.is_empty() {
        store.set_up_tables(tables, first)?;
    }
    let until = if server { connected } else { now() };
    Ok((store, Nanos::from_nanos(until - began)))
}

/// Engine, settings and promise; what the engine reports as in force (METHOD 1.6).
pub(super) fn effective<D: Driver>(
    spec: &StoreSpec,
    store: Option<&D::Store>,
    collections: &Collections,
) -> Result<EffectiveStore, Stop> {
    let engine = D::describe();
    let settings = D::check(spec).map_err(|faults| {
        let what = faults.into_iter().map(|fault| fault.message).collect::<Vec<_>>().join("; ");
        Stop::Unsupported { engine: engine.name.clone(), what }
    })?;
    Ok(EffectiveStore {
        promise: D::promise(spec),
        engine: engine.name,
        version: store.and_then(Store::version).unwrap_or(engine.version),
        library: engine.library,
        durability: settings.class,
        settings: settings.values,
        in_force: store.map(|store| in_force(store, collections)).transpose()?,
        idiom: engine.idiom,
        services: Vec::new(),
    })
}

fn in_force<S: Store>(store: &S, collections: &Collections) -> Result<InForce, EngineError> {
    let mut in_force = store.in_force()?;
    let indexes: Vec<String> = collections.all.iter().flat_map(|collection| collection.index_names()).collect();
    if !indexes.is_empty() {
        in_force.as_set.insert("indexes".to_owned(), indexes.into());
    }
    Ok(in_force)
}

/// The note on what evicting adds to the counters of the phase.
const EVICTED: &str = "prony's own work of evicting (`fsync` of each file of the store, and dropping its pages) is not in `time`, but in `wall`, \
                       CPU time, `fsyncs` and the bytes written";

/// The note on what opening a store on a server adds to the counters of the phase.
const SET_UP: &str = "prony's own requests for the server's settings and for what it has of the trial, with one small write on some servers, are not \
                      in `time`, but in `wall`, CPU time, `fsyncs` and the bytes written";

struct Host<'h> {
    link: &'h mut dyn Link,
    machine: &'h dyn Machine,
    plan: &'h Plan,
    progress: &'h Progress,
    engine: Description,
    store: &'h StoreSpec,
    collections: Collections,
    /// Of each phase.
    queries: Vec<Queries>,
    /// Of the phase that ended last, with its index: the plans of its own queries, and those of its background (`true`).
    explained: Vec<(usize, bool, Vec<Explained>)>,
}

/// An engine's own counters.
type Counters = BTreeMap<String, f64>;

/// Whether the runner has sent `stop`.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    GoOn,
    Stop,
}

impl<'h> Host<'h> {
    fn run<D: Driver>(mut self) -> Result<(), Stop> {
        let (store, open) = opened::<D>(&self.plan.dir, self.store, &self.collections.tables, self.plan.replica == 1)?;
        let mut store = Some(store);
        let effective = Box::new(self.effective::<D>(store.as_ref())?);
        self.link.send(FromWorker::Ready { version: VERSION, effective: Some(effective), open })?;
        loop {
            let next = self.next_phase()?;
            self.plan_again(store.as_ref())?;
            let Some(index) = next else { break };
            if self.phase::<D>(&mut store, index)? == Next::Stop {
                break;
            }
        }
        if let Some(store) = store {
            store.confirm()?;
            store.close()?;
        }
        Ok(())
    }

    fn next_phase(&mut self) -> Result<Option<usize>, Stop> {
        match self.link.next()? {
            ToWorker::Phase { index } if index < self.plan.spec.phases.len() => {
                self.progress.begin(index);
                Ok(Some(index))
            }
            ToWorker::Phase { index } => Err(Stop::Protocol(format!("phase {index}"))),
            ToWorker::Stop => Ok(None),
            ToWorker::Plan { .. } | ToWorker::Crash { .. } => Err(Stop::Protocol("a second plan".to_owned())),
            ToWorker::Go => Err(Stop::Protocol("`go` outside a phase".to_owned())),
        }
    }

    /// Asks for the plans of the last phase again: a server that collects statistics meanwhile, as by the `ANALYZE` of an autovacuum, plans
    /// again. The counters of that phase are read by now, and those of the next one are read when it is prepared.
    fn plan_again(&mut self, store: Option<&impl Store>) -> Result<(), Stop> {
        for (index, background, explained) in std::mem::take(&mut self.explained) {
            if let Some(plan) = store.and_then(|store| explained::changed(store, &explained)) {
                self.link.send(FromWorker::Planned { index, background, plan })?;
            }
        }
        Ok(())
    }

    fn spec(&self, index: usize) -> &'h PhaseSpec {
        &self.plan.spec.phases[index]
    }

    fn effective<D: Driver>(&self, store: Option<&D::Store>) -> Result<EffectiveStore, Stop> {
        effective::<D>(self.store, store, &self.collections)
    }

    fn phase<D: Driver>(&mut self, store: &mut Option<D::Store>, index: usize) -> Result<Next, Stop> {
        let spec = self.spec(index);
        match &spec.action {
            Action::Close => {
                let open = store.take().ok_or_else(|| closed(spec))?;
                open.confirm()?;
                let report = self.clocked(index, || Ok(open.close()?))?;
                self.ended(index, report, Counters::new())?;
            }
            Action::Reopen | Action::Evict => {
                let was_open = store.take();
                let (open, report) = self.reopen::<D>(index, was_open)?;
                let counters = store.insert(open).counters();
                self.ended(index, report, counters)?;
            }
            Action::Pause(_) | Action::Settle(_) | Action::Commit => self.idle(index)?,
            _ => return self.open_phase(store.as_ref().ok_or_else(|| closed(spec))?, index),
        }
        Ok(Next::GoOn)
    }

    /// Phases that need the store open.
    fn open_phase<S: Store>(&mut self, store: &S, index: usize) -> Result<Next, Stop> {
        let action = &self.spec(index).action;
        let report = match action.ops() {
            Some(ops) if ops.transaction == Grouping::Open && action.writes() => {
                return self.transaction(store, index, ops);
            }
            Some(ops) => self.operations(store, index, ops, |job, began| job.run(store, began))?,
            None if matches!(action, Action::Verify) => {
                let mut session = store.session()?;
                let mut txn = session.read()?;
                let report = self.verify(index, &mut txn)?;
                txn.finish()?;
                report
            }
            None => self.clocked(index, || Ok(store.persist()?))?,
        };
        self.ended(index, report, store.counters())?;
        Ok(Next::GoOn)
    }

    /// Phases that need nothing of the store.
    fn idle(&mut self, index: usize) -> Result<(), Stop> {
        let (pause, note) = match &self.spec(index).action {
            Action::Pause(time) => (*time, None),
            Action::Settle(_) => (Nanos::ZERO, Some("settling is watched by the runner")),
            _ => (Nanos::ZERO, Some("no transaction was open: there was nothing to commit")),
        };
        let mut report = self.clocked(index, || {
            if pause > Nanos::ZERO {
                std::thread::sleep(pause.to_duration());
            }
            Ok(())
        })?;
        report.notes.extend(note.map(str::to_owned));
        self.ended(index, report, Counters::new())
    }

    /// Closes the store if it is open, evicts it if requested, and opens it. Closing and opening are the phase's time, so that
    /// work in an engine's destructor is timed; writing files to the disk and evicting them is prony's own work, and so is all that
    /// it asks a server beside connecting.
    fn reopen<D: Driver>(&mut self, index: usize, was_open: Option<D::Store>) -> Result<(D::Store, PhaseReport), Stop> {
        let evicts = matches!(self.spec(index).action, Action::Evict);
        let closes = was_open.is_some();
        began(self.link, index)?;
        let started = now();
        was_open.map_or(Ok(()), Store::close)?;
        let closing = Nanos::from_nanos(now() - started);
        let resident = evicts.then(|| self.machine.evict(&self.plan.dir));
        let (store, opening) =
            opened::<D>(&self.plan.dir, self.store, &self.collections.tables, self.plan.replica == 1)?;
        let mut report = PhaseReport { time: closing + opening, resident, ..PhaseReport::default() };
        if evicts {
            report.notes.push(EVICTED.to_owned());
        } else if closes {
            report.notes.push("the store was open, so the time includes closing it".to_owned());
        }
        if self.engine.capabilities.server {
            report.notes.push(SET_UP.to_owned());
        }
        report.effective = Some(self.effective::<D>(Some(&store))?);
        Ok((store, report))
    }

    fn operations<S: Store>(
        &mut self,
        store: &S,
        index: usize,
        ops: &Ops,
        run: impl FnOnce(&Job<'_>, &mut dyn FnMut() -> Result<(), Stop>) -> Result<Ended, Stop>,
    ) -> Result<PhaseReport, Stop> {
        let spec = self.spec(index);
        let at = self.collections.of(ops).ok_or(Stop::NoData)?;
        if self.engine.capabilities.skips_equal {
            self.draw_again(spec);
        }
        let none = [Vec::new(), Vec::new()];
        let [queries, background_queries] = self.queries.get(index).unwrap_or(&none);
        if ops.share == Sharing::Queue && self.plan.queue.is_none() {
            return Err(Stop::Protocol("a phase with a queue, without a queue".to_owned()));
        }
        let (link, either, aside) = (&mut *self.link, Busy::default(), AtomicU64::new(0));
        let either = spec.background.as_ref().map(|_| &either);
        let shared = Shared::new(&self.progress.operations, ops.replicas.is_some()).beside(either);
        let job = Job {
            phase: &spec.name,
            action: &spec.action,
            ops,
            collection: &self.collections.all[at],
            at,
            appends: self.collections.is_empty_from(at),
            queries,
            seed: phase_seed(self.plan.seed, &spec.name),
            throughput: self.plan.throughput,
            capabilities: self.engine.capabilities,
            engine: &self.engine.name,
            shared: &shared,
            is_only_writer: !spec.background.as_ref().is_some_and(Action::writes),
            replica: self.plan.replica,
            queue: self.plan.queue.as_deref().filter(|_| ops.share == Sharing::Queue),
        };
        let mut began = || began(link, index);
        let Some((action, ops)) = spec.background.as_ref().and_then(|action| Some((action, action.ops()?))) else {
            let ended = run(&job, &mut began)?;
            return Ok(self.note((index, false), &spec.action, ended));
        };
        let at = self.collections.of(ops).ok_or(Stop::NoData)?;
        let beside = Job {
            action,
            ops,
            collection: &self.collections.all[at],
            at,
            queries: background_queries,
            // No phase has this name.
            seed: phase_seed(self.plan.seed, &format!("{}.{BACKGROUND}", spec.name)),
            shared: &Shared::new(&aside, false).beside(either),
            is_only_writer: !spec.action.writes(),
            queue: None,
            ..job
        };
        let (ended, done) = background::run(store, (&job, &beside), |began| run(&job, began), &mut began)?;
        // Only one of the two writes.
        let report = self.note((index, false), &spec.action, ended);
        self.note((index, true), action, done);
        Ok(report)
    }

    /// Draws what earlier phases wrote again, where a phase writes to the same: how many of its writes change nothing is counted.
    fn draw_again(&mut self, spec: &PhaseSpec) {
        for ops in spec.actions().filter(|action| action.writes()).filter_map(Action::ops) {
            if let Some(at) = self.collections.of(ops) {
                let collection = &mut self.collections.all[at];
                collection.ledger.draw_again(&collection.records);
            }
        }
    }

    /// Notes what a phase, or its background (`true`), has done; its report.
    fn note(&mut self, (index, background): (usize, bool), action: &Action, mut ended: Ended) -> PhaseReport {
        self.explained.push((index, background, std::mem::take(&mut ended.explained)));
        ended.guarded.take().into_iter().for_each(|guarded| self.collections.note_guarded(guarded));
        self.collections.note(ended.at, &ended.done(action));
        ended.report
    }

    /// Phases inside a transaction that stays open, until one commits it.
    fn transaction<S: Store>(&mut self, store: &S, first: usize, ops: &Ops) -> Result<Next, Stop> {
        if !self.engine.capabilities.open_transactions {
            let what = "a write transaction that stays open over several phases".to_owned();
            return Err(Stop::Unsupported { engine: self.engine.name.clone(), what });
        }
        let mut session = store.session()?;
        let mut open = InTransaction::new(&mut session);
        let report = self.operations(store, first, ops, |job, began| job.run_in(&mut open, began))?;
        self.ended(first, report, store.counters())?;
        while let Some(index) = self.next_phase()? {
            if matches!(self.spec(index).action, Action::Commit) {
                return self.commit(store, index, open);
            }
            self.phase_within(store, index, &mut open)?;
        }
        open.into_txn().map_or(Ok(()), Read::finish)?;
        Ok(Next::Stop)
    }

    fn commit<S: Store>(
        &mut self,
        store: &S,
        index: usize,
        open: InTransaction<'_, S::Session<'_>>,
    ) -> Result<Next, Stop> {
        let mut report = self.clocked(index, || Ok(open.into_txn().map_or(Ok(()), Write::commit)?))?;
        report.transactions = 1;
        self.ended(index, report, store.counters())?;
        Ok(Next::GoOn)
    }

    fn phase_within<'s, S: Store>(
        &mut self,
        store: &'s S,
        index: usize,
        open: &mut InTransaction<'_, S::Session<'s>>,
    ) -> Result<(), Stop> {
        let spec = self.spec(index);
        let refuse = |why| Err(Stop::Order { phase: spec.name.clone(), why });
        let report = match (&spec.action, spec.action.ops()) {
            (Action::Pause(_) | Action::Settle(_), _) => return self.idle(index),
            (_, Some(ops)) if ops.threads > 1 => return refuse("several clients cannot share an open transaction"),
            (action, Some(ops)) if action.writes() && ops.transaction != Grouping::Open => {
                return refuse(
                    "the phase writes in new transactions while one is open; `commit` the open transaction first",
                );
            }
            (_, Some(ops)) => self.operations(store, index, ops, |job, began| job.run_in(open, began))?,
            (Action::Verify, None) => match open.txn()? {
                Some(txn) => self.verify(index, txn)?,
                None => return refuse("no transaction is open"),
            },
            _ => return refuse("a transaction is open; `commit` it first"),
        };
        self.ended(index, report, store.counters())
    }

    fn verify(&mut self, index: usize, txn: &mut impl Read) -> Result<PhaseReport, Stop> {
        self.collections.draw_again();
        began(self.link, index)?;
        let ordered = self.engine.capabilities.ordered;
        let started = now();
        let found = verify::verify(txn, &self.collections, ordered, &self.progress.operations)?;
        Ok(PhaseReport { time: Nanos::from_nanos(now() - started), ..found })
    }

    /// A phase of one operation.
    fn clocked(&mut self, index: usize, work: impl FnOnce() -> Result<(), Stop>) -> Result<PhaseReport, Stop> {
        began(self.link, index)?;
        let started = now();
        work()?;
        Ok(PhaseReport { time: Nanos::from_nanos(now() - started), ..PhaseReport::default() })
    }

    fn ended(&mut self, index: usize, mut report: PhaseReport, counters: Counters) -> Result<(), Stop> {
        let at = Nanos::from_nanos(now());
        report.engine_counters = counters;
        self.progress.end();
        Ok(self.link.send(FromWorker::Ended { index, at, report: Box::new(report) })?)
    }
}

/// Begins a phase for which everything is prepared, as soon as the other workers that share it are prepared too and the runner has
/// read its counters: preparing is not the phase's work.
fn began(link: &mut dyn Link, index: usize) -> Result<(), Stop> {
    link.send(FromWorker::Prepared { index })?;
    match link.next()? {
        ToWorker::Go => Ok(link.send(FromWorker::Began { index, at: Nanos::from_nanos(now()) })?),
        other => Err(Stop::Protocol(format!("{other:?} where `go` was due"))),
    }
}

fn closed(spec: &PhaseSpec) -> Stop {
    Stop::Order { phase: spec.name.clone(), why: "the store is closed; `reopen` it first" }
}
