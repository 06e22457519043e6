//! For tests: an in-memory store that fails and lies on demand, a runner that follows a script, and small plans.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prony_model::link::{Link, LinkError, Progress};
use prony_model::protocol::{FromWorker, PhaseReport, ToWorker};
use prony_model::reading::Reading;
use prony_model::record::effective::NamedSettings;
use prony_model::spec::{
    Action, Amount, BytesSpec, CollectionSpec, Durability, FieldValue, Grouping, KeySpec, Limits, Ops, OptionValue,
    Order, PhaseSpec, References, Sampling, Sharing, Size, StoreSpec, Subject, TrialSpec, ValueSpec,
};
use prony_model::units::{Bytes, Fraction, Nanos};
use prony_workload::Records;

use crate::driver::{
    Capabilities, Description, Driver, EngineError, InForce, Read, Session, Settings, Store, StoreFault, Then, Write,
};
use crate::phases::{HostError, Machine, Plan, host};
use crate::timed_loop::now;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// `FULL`: ordered, reads its own writes, transactions may stay open, removals are reported. Else none of it, and writes are
/// collected.
pub(in crate::phases) struct Fake<const FULL: bool>;

/// What `persist` does to the rows, and which puts, commits and reads fail: the options `lie`, `fail_every`, `fail_from`,
/// `fail_commit_every`, `fail_read_every`.
#[derive(Default)]
struct State {
    rows: Rows,
    puts: u64,
    commits: u64,
    /// Reads by key and scans.
    reads: u64,
    /// Transactions that were announced as those of one operation.
    once: u64,
    /// Commits of what was stored already, of transactions of one operation.
    equal: u64,
    /// How often queries were planned again.
    plans: u64,
    /// How often the engine was asked for a plan.
    explained: u64,
    /// The rows at the first `persist`.
    earlier: Option<Rows>,
}

pub(in crate::phases) struct FakeStore {
    dir: PathBuf,
    state: Mutex<State>,
    lie: Option<String>,
    fail_every: Option<u64>,
    fail_from: Option<u64>,
    fail_commit_every: Option<u64>,
    fail_read_every: Option<u64>,
}

impl FakeStore {
    /// A read has returned what it found, and fails where that is due.
    fn was_read(&self) -> Result<(), EngineError> {
        let mut state = self.state();
        state.reads += 1;
        let is_due = self.fail_read_every.is_some_and(|every| state.reads.is_multiple_of(every));
        if is_due { Err(refused()) } else { Ok(()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused() -> EngineError {
    EngineError::Engine { engine: "fake", doing: "storing a value", source: "the disk is full".into() }
}

static STORES: AtomicU64 = AtomicU64::new(0);

/// Rows of closed stores, by directory, so that `reopen` finds them.
static CLOSED: Mutex<BTreeMap<PathBuf, Rows>> = Mutex::new(BTreeMap::new());

impl<const FULL: bool> Driver for Fake<FULL> {
    type Store = FakeStore;

    fn describe() -> Description {
        let capabilities = Capabilities {
            batches: true,
            reads_own_writes: FULL,
            open_transactions: FULL,
            snapshots: true,
            ordered: FULL,
            persistent: true,
            in_memory: false,
            processes: false,
            concurrent_writers: false,
            commits_wait_for_readers: false,
            collects_writes: !FULL,
            reports_removals: FULL,
            own_documents: false,
            stores_values: false,
            skips_equal: FULL,
            compresses: false,
            server: false,
            max_key: None,
        };
        let text = |text: &str| text.to_owned();
        Description {
            name: text("fake"),
            version: text("1"),
            library: text("none"),
            capabilities,
            promises: Vec::new(),
            options: Vec::new(),
            idiom: String::new(),
        }
    }

    fn check(_spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        Ok(Settings { class: Durability::Volatile, values: BTreeMap::new() })
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<FakeStore, EngineError> {
        let number = |name: &str| match spec.options.get(name) {
            Some(OptionValue::Int(n)) => Some(*n as u64),
            _ => None,
        };
        let lie = match spec.options.get("lie") {
            Some(OptionValue::Text(lie)) => Some(lie.clone()),
            _ => None,
        };
        let rows = CLOSED.lock().unwrap().remove(dir).unwrap_or_default();
        let state = Mutex::new(State { rows, ..State::default() });
        Ok(FakeStore {
            dir: dir.to_owned(),
            state,
            lie,
            fail_every: number("fail_every"),
            fail_from: number("fail_from"),
            fail_commit_every: number("fail_commit_every"),
            fail_read_every: number("fail_read_every"),
        })
    }
}

impl Store for FakeStore {
    type Session<'s> = FakeSession<'s>;

    fn session(&self) -> Result<FakeSession<'_>, EngineError> {
        assert!(self.lie.as_deref() != Some("session"), "the fake engine panics");
        Ok(FakeSession(self))
    }

    fn explain(&self, own_query: &str, bound: &[FieldValue]) -> Result<String, EngineError> {
        let mut state = self.state();
        state.explained += 1;
        state.plans += u64::from(self.lie.as_deref() == Some("replan"));
        Ok(format!("{own_query} {} of {bound:?}", state.plans))
    }

    fn in_force(&self) -> Result<InForce, EngineError> {
        let (read_back, as_set) = (NamedSettings::new(), NamedSettings::new());
        Ok(InForce { durability: Durability::Volatile, read_back, as_set })
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        let state = self.state();
        let counts = [("once", state.once), ("equal", state.equal), ("explained", state.explained)];
        counts.map(|(name, count)| (name.to_owned(), count as f64)).into()
    }

    fn persist(&self) -> Result<(), EngineError> {
        let mut state = self.state();
        let key = state.rows.keys().nth(3).cloned();
        match (self.lie.as_deref(), key) {
            (Some("wrong"), Some(key)) => {
                state.rows.get_mut(&key).unwrap()[1] ^= 1;
            }
            (Some("short"), Some(key)) => {
                state.rows.get_mut(&key).unwrap().pop();
            }
            (Some("missing"), Some(key)) => {
                state.rows.remove(&key);
            }
            (Some("moved"), Some(key)) => {
                let value = state.rows.remove(&key).unwrap();
                state.rows.insert([&key[..], &[0]].concat(), value);
            }
            (Some("emptied"), _) => state.rows.clear(),
            (Some("undone"), _) => match state.earlier.take() {
                None => state.earlier = Some(state.rows.clone()),
                Some(earlier) => state.rows = earlier,
            },
            (Some("extra"), _) => {
                state.rows.insert(b"unknown".to_vec(), vec![1]);
            }
            _ => (),
        }
        Ok(())
    }

    fn close(self) -> Result<(), EngineError> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        CLOSED.lock().unwrap().insert(self.dir, state.rows);
        Ok(())
    }
}

pub(in crate::phases) struct FakeSession<'s>(&'s FakeStore);

impl Session for FakeSession<'_> {
    type Read<'t>
        = FakeTxn<'t>
    where
        Self: 't;
    type Write<'t>
        = FakeTxn<'t>
    where
        Self: 't;

    fn read(&mut self) -> Result<FakeTxn<'_>, EngineError> {
        Ok(FakeTxn { store: self.0, writes: None })
    }

    fn read_once(&mut self) -> Result<FakeTxn<'_>, EngineError> {
        self.0.state().once += 1;
        self.read()
    }

    fn write_once(&mut self) -> Result<FakeTxn<'_>, EngineError> {
        self.0.state().once += 1;
        Ok(FakeTxn { store: self.0, writes: Some(BTreeMap::new()) })
    }

    fn write(&mut self) -> Result<FakeTxn<'_>, EngineError> {
        if self.0.lie.as_deref() == Some("write") {
            return Err(refused());
        }
        Ok(FakeTxn { store: self.0, writes: Some(BTreeMap::new()) })
    }
}

/// Writes are stored separately until the commit.
pub(in crate::phases) struct FakeTxn<'t> {
    store: &'t FakeStore,
    writes: Option<BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
}

impl Read for FakeTxn<'_> {
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        let own = self.writes.as_ref().and_then(|writes| writes.get(key));
        let state = self.store.state();
        if self.writes.is_some() && self.store.lie.as_deref() == Some("hide") {
            return Ok(false);
        }
        let value = own.map_or_else(|| state.rows.get(key), Option::as_ref);
        value.inspect(|value| found(value));
        let is_there = value.is_some();
        drop(state);
        self.store.was_read().map(|()| is_there)
    }

    fn scan(&mut self, from: &[u8], mut row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        let mut rows = self.store.state().rows.clone();
        for (key, value) in self.writes.iter().flatten() {
            match value {
                Some(value) => rows.insert(key.clone(), value.clone()),
                None => rows.remove(key),
            };
        }
        let _ = rows.range(from.to_vec()..).try_for_each(|(key, value)| row(key, value));
        self.store.was_read()
    }

    fn select(&mut self, _: &str, _: &[FieldValue], _: impl FnMut(&[u8], &[u8]) -> Then) -> Result<u64, EngineError> {
        Ok(0)
    }

    fn finish(self) -> Result<(), EngineError> {
        Ok(())
    }
}

impl FakeTxn<'_> {
    fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        if let Some(writes) = &mut self.writes {
            writes.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        }
    }
}

impl Write for FakeTxn<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let mut state = self.store.state();
        state.puts += 1;
        assert!(self.store.lie.as_deref() != Some("put") || state.puts < 500, "the fake engine panics");
        let due = self.store.fail_every.is_some_and(|every| state.puts.is_multiple_of(every));
        if due || self.store.fail_from.is_some_and(|from| state.puts >= from) {
            return Err(refused());
        }
        drop(state);
        self.write(key, Some(value));
        Ok(())
    }

    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let last = self.writes.iter().flatten().next_back().map(|(key, _)| key.clone());
        assert!(last.is_none_or(|last| last.as_slice() < key), "appended out of order");
        let stored = self.store.state().rows.keys().next_back().cloned();
        assert!(stored.is_none_or(|stored| stored.as_slice() < key), "appended below what is stored");
        self.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        let there = self.get(key, |_| ())?;
        self.write(key, None);
        Ok(there)
    }

    fn deliver(&mut self) -> Result<(), EngineError> {
        if self.store.lie.as_deref() == Some("deliver") { Err(refused()) } else { Ok(()) }
    }

    fn commit(self) -> Result<(), EngineError> {
        let mut state = self.store.state();
        state.commits += 1;
        if self.store.fail_commit_every.is_some_and(|every| state.commits.is_multiple_of(every)) {
            return Err(refused());
        }
        for (key, value) in self.writes.into_iter().flatten() {
            match value {
                Some(value) => {
                    state.equal += u64::from(state.rows.get(&key) == Some(&value));
                    state.rows.insert(key, value)
                }
                None => state.rows.remove(&key),
            };
        }
        Ok(())
    }
}

pub(super) fn data(records: u64) -> CollectionSpec {
    CollectionSpec {
        name: None,
        records,
        key: KeySpec::Integer { bytes: 8 },
        value: ValueSpec::Bytes(BytesSpec {
            bytes: Size::Uniform { min: Bytes::from_bytes(10), max: Bytes::from_bytes(300) },
            compressible: Fraction::default(),
            prefix: Vec::new(),
        }),
    }
}

pub(in crate::phases) fn records(count: u64) -> Records {
    Records::new(&data(count), 7).unwrap()
}

/// One pass over the records, each in a transaction of its own.
pub(in crate::phases) fn ops(order: Order) -> Ops {
    Ops {
        amount: Amount::Records,
        transaction: Grouping::Each,
        order,
        replicas: None,
        threads: 1,
        share: Sharing::Equal,
        pause: None,
        rate: None,
        sample: Sampling::None,
        touch: true,
        collection: None,
        references: References::Ignored,
    }
}

/// A plan over so many records whose phases are named by their place.
pub(in crate::phases) fn plan(records: u64, actions: impl IntoIterator<Item = Action>) -> Plan {
    let phase = |(at, action): (usize, Action)| PhaseSpec {
        name: format!("phase {at}"),
        timed: true,
        action,
        background: None,
        limit: None,
    };
    let store = StoreSpec::of("fake");
    Plan {
        replica: 1,
        queue: None,
        spec: TrialSpec {
            services: Vec::new(),
            subject: Subject::Store(store),
            data: vec![data(records)],
            phases: actions.into_iter().enumerate().map(phase).collect(),
            limits: Limits::default(),
            crashes: Vec::new(),
        },
        seed: 7,
        dir: PathBuf::from(format!("store {}", STORES.fetch_add(1, Relaxed))),
        throughput: Nanos::from_millis(100),
    }
}

pub(in crate::phases) fn option(mut plan: Plan, name: &str, value: OptionValue) -> Plan {
    let Subject::Store(store) = &mut plan.spec.subject else { return plan };
    store.options.insert(name.to_owned(), value);
    plan
}

/// A runner that asks for every phase in order and then stops.
#[derive(Default)]
pub(in crate::phases) struct Script {
    pub(in crate::phases) asks: VecDeque<ToWorker>,
    pub(in crate::phases) sent: Vec<FromWorker>,
    /// It does not release a phase that is prepared.
    pub(in crate::phases) retains: bool,
}

impl Link for Script {
    fn next(&mut self) -> Result<ToWorker, LinkError> {
        self.asks.pop_front().ok_or(LinkError::Closed)
    }

    fn send(&mut self, message: FromWorker) -> Result<(), LinkError> {
        if !self.retains && matches!(message, FromWorker::Prepared { .. }) {
            self.asks.push_front(ToWorker::Go);
        }
        self.sent.push(message);
        Ok(())
    }
}

pub(super) struct Still;

impl Machine for Still {
    fn evict(&self, _dir: &Path) -> Reading<f64> {
        Reading::Measured(0.0)
    }

    fn bytes(&self) -> Reading<(Bytes, Bytes)> {
        Reading::not_supported("nothing is read here")
    }
}

/// A machine on which evicting takes a while.
#[derive(Default)]
pub(super) struct Slow {
    /// How long it took.
    pub(super) evicted: Cell<Nanos>,
}

impl Machine for Slow {
    fn evict(&self, dir: &Path) -> Reading<f64> {
        let began = now();
        std::thread::sleep(Duration::from_millis(20));
        self.evicted.set(Nanos::from_nanos(now() - began));
        Still.evict(dir)
    }

    fn bytes(&self) -> Reading<(Bytes, Bytes)> {
        Still.bytes()
    }
}

/// Runs every phase of a plan; the reports, and how it ended.
pub(super) fn run<const FULL: bool>(plan: &Plan) -> (Vec<PhaseReport>, Result<(), HostError>) {
    run_on::<Fake<FULL>>(plan)
}

/// The same on another engine.
pub(super) fn run_on<D: Driver>(plan: &Plan) -> (Vec<PhaseReport>, Result<(), HostError>) {
    run_by(plan, host::<D>)
}

/// The same where `host` hosts the store.
pub(super) fn run_by(
    plan: &Plan,
    host: impl FnOnce(&mut dyn Link, &dyn Machine, &Plan, &Progress) -> Result<(), HostError>,
) -> (Vec<PhaseReport>, Result<(), HostError>) {
    let asks = (0..plan.spec.phases.len()).map(|index| ToWorker::Phase { index }).chain([ToWorker::Stop]).collect();
    let mut script = Script { asks, ..Script::default() };
    let ended = host(&mut script, &Still, plan, &Progress::default());
    let reports = script.sent.into_iter().filter_map(|message| match message {
        FromWorker::Ended { report, .. } => Some(*report),
        _ => None,
    });
    (reports.collect(), ended)
}

/// Runs every phase of a plan, which must succeed.
pub(super) fn reports(plan: &Plan) -> Vec<PhaseReport> {
    let (reports, ended) = run::<true>(plan);
    ended.unwrap();
    reports
}
