//! Random writes with checks of references in three collections, on every engine and by hand: the same operations must be
//! refused, and the same documents be stored.

use std::collections::BTreeSet;

use prony_model::protocol::PhaseReport;
use prony_model::spec::{
    Action, Amount, CollectionSpec, Distribution, DocumentSpec, Encoding, FieldSpec, Generator, Grouping, IndexSpec,
    KeySpec, Ops, OptionValue, Order, PhaseSpec, ReferenceSpec, References, ScanSpec, Subject, ValueSpec,
};
use prony_model::units::Fraction;
use prony_workload::{Positions, Records, Share, phase_seed};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use super::fake::{Fake, ops, option, plan, run_on};
use crate::answers::Reads;
use crate::driver::{Driver, Read, Session, Store, Write};
use crate::phases::collections::Collections;
use crate::phases::guarded::Guarded;
use crate::phases::ledger::Done;
use crate::phases::record_set::RecordSet;
use crate::phases::{Plan, dangling};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// One phase.
#[derive(Clone, Copy, Debug)]
struct Step {
    collection: usize,
    kind: Kind,
    references: References,
    count: u64,
    shuffled: bool,
    batch: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Put,
    Update,
    Delete,
}

fn step() -> impl Strategy<Value = Step> {
    let references = prop_oneof![
        1 => Just(References::Ignored),
        4 => Just(References::Checked),
        1 => Just(References::Locked),
    ];
    let kind = prop_oneof![4 => Just(Kind::Put), 1 => Just(Kind::Update), 2 => Just(Kind::Delete)];
    (0..NAMES.len(), kind, references, 1u64..12, any::<bool>(), prop::option::of(2u64..5)).prop_map(
        |(collection, kind, references, count, shuffled, batch)| Step {
            collection,
            kind,
            references,
            count,
            shuffled,
            batch,
        },
    )
}

fn numbered(before: &str) -> KeySpec {
    KeySpec::Template { parts: vec![before.to_owned(), String::new()], pad: 0 }
}

/// `b` refers to `a`, `c` to both of them and to itself: from fields, and from lists of one kind and of several.
fn collections(encoding: Encoding) -> Vec<CollectionSpec> {
    let keys =
        [numbered("a/"), KeySpec::Integer { bytes: 4 }, KeySpec::Hashed { prefix: "c".into(), bytes: 20, hex: true }];
    let records = [6, 8, 10];
    let to = |at: usize, distribution| {
        let (collection, key) = (NAMES[at].to_owned(), keys[at].clone());
        Generator::Reference(Box::new(ReferenceSpec { collection, records: records[at], key, distribution }))
    };
    let field = |name: &str, value, present| FieldSpec {
        name: name.to_owned(),
        value,
        present: Fraction::new(present).unwrap(),
    };
    let many = Generator::List { of: Box::new(to(0, Distribution::Zipfian)), items: (0, 2) };
    let within = Generator::Fields(vec![field("to", to(1, Distribution::Uniform), 0.7)]);
    // `c` has texts as keys as `a` has: which of them an item is shows its place alone.
    let kinds =
        Generator::Items(vec![to(0, Distribution::Uniform), to(2, Distribution::Uniform), to(0, Distribution::Cycle)]);
    let fields = [
        vec![field("n", Generator::Uniform(0, 9), 1.0)],
        vec![field("to", to(0, Distribution::Uniform), 0.9)],
        vec![
            field("in", within, 1.0),
            field("many", many, 1.0),
            field("up", to(2, Distribution::Zipfian), 0.2),
            field("kinds", kinds, 0.3),
        ],
    ];
    let spec = |(at, fields): (usize, Vec<FieldSpec>)| CollectionSpec {
        name: Some(NAMES[at].to_owned()),
        records: records[at],
        key: keys[at].clone(),
        value: ValueSpec::Document(DocumentSpec { fields, encoding, file: None }),
    };
    fields.into_iter().enumerate().map(spec).collect()
}

fn on(collection: usize, order: Order) -> Ops {
    Ops { collection: Some(NAMES[collection].to_owned()), ..ops(order) }
}

/// Each step, and after it a scan of each collection.
fn plan_of(steps: &[Step], encoding: Encoding, indexes: &[(usize, &str)]) -> Plan {
    let mut actions = Vec::new();
    for step in steps {
        let ops = Ops {
            amount: Amount::Count(step.count),
            transaction: step.batch.map_or(Grouping::Each, Grouping::Batch),
            references: step.references,
            ..on(step.collection, order(step))
        };
        actions.push(match step.kind {
            Kind::Put => Action::Put(ops),
            Kind::Update => Action::Update(ops),
            Kind::Delete => Action::Delete(ops),
        });
        let scan = |at| Ops { amount: Amount::Count(1), ..on(at, Order::Record) };
        actions.extend((0..NAMES.len()).map(|at| Action::Scan(ScanSpec { ops: scan(at), length: None })));
    }
    actions.push(Action::Verify);
    let mut plan = plan(1, actions);
    plan.spec.data = collections(encoding);
    if let Subject::Store(store) = &mut plan.spec.subject {
        let index = |(at, field): &(usize, &str)| IndexSpec {
            collection: Some(NAMES[*at].to_owned()),
            fields: vec![field.parse().unwrap()],
        };
        store.indexes = indexes.iter().map(index).collect();
    }
    plan
}

fn order(step: &Step) -> Order {
    if step.shuffled { Order::Shuffled } else { Order::Record }
}

/// What is stored: the version of each record of each collection.
type Stored = Vec<Vec<Option<u32>>>;

struct Model {
    records: Vec<Records>,
    keys: Vec<Vec<Value>>,
    stored: Stored,
    versions: [u32; 3],
    commits: u64,
    /// Each of so many commits fails.
    fails: Option<u64>,
}

impl Model {
    fn new(specs: &[CollectionSpec], seed: u64, fails: Option<u64>) -> Self {
        let records: Vec<Records> = specs.iter().map(|spec| Records::new(spec, seed).unwrap()).collect();
        let key = |spec: &CollectionSpec, records: &Records, number: u64| {
            let mut key = Vec::new();
            records.key(number, &mut key);
            match spec.key {
                KeySpec::Integer { .. } => Value::from(number),
                _ => Value::from(String::from_utf8(key).unwrap()),
            }
        };
        let of = |(spec, records): (&CollectionSpec, &Records)| {
            (0..spec.records).map(|number| key(spec, records, number)).collect::<Vec<_>>()
        };
        let keys = specs.iter().zip(&records).map(of).collect();
        let stored = specs.iter().map(|spec| vec![None; spec.records as usize]).collect();
        Self { records, keys, stored, versions: [0; 3], commits: 0, fails }
    }

    /// The records to which a document refers.
    fn refers_to(&self, collection: usize, number: usize, version: u32) -> BTreeSet<(usize, usize)> {
        let document = self.records[collection].document(number as u64, version).unwrap();
        let document = serde_json::to_value(document).unwrap();
        let of_c = [("/in/to", 1), ("/many", 0), ("/up", 2), ("/kinds/0", 0), ("/kinds/1", 2), ("/kinds/2", 0)];
        let paths: &[(&str, usize)] = [&[][..], &[("/to", 0)], &of_c][collection];
        let mut found = BTreeSet::new();
        for (path, to) in paths {
            let values = match document.pointer(path) {
                Some(Value::Array(items)) => items.clone(),
                value => value.cloned().into_iter().collect(),
            };
            let place = |value: &Value| (*to, self.keys[*to].iter().position(|key| key == value).unwrap());
            found.extend(values.iter().map(place));
        }
        found
    }

    fn is_referred_to(&self, place: (usize, usize)) -> bool {
        let mut all = self.stored.iter().enumerate().flat_map(|(collection, versions)| {
            versions.iter().enumerate().filter_map(move |(number, version)| Some((collection, number, (*version)?)))
        });
        all.any(|(collection, number, version)| self.refers_to(collection, number, version).contains(&place))
    }

    /// Whether an operation is refused; else it is done.
    fn refuses(&mut self, step: &Step, (number, version): (usize, u32)) -> bool {
        let (at, checked) = (step.collection, step.references != References::Ignored);
        let refused = match step.kind {
            Kind::Delete => self.is_referred_to((at, number)),
            _ => self.refers_to(at, number, version).iter().any(|(at, number)| self.stored[*at][*number].is_none()),
        };
        if checked && refused {
            return true;
        }
        self.stored[at][number] = (step.kind != Kind::Delete).then_some(version);
        false
    }

    /// References of stored documents to others that are not stored.
    fn dangling(&self) -> usize {
        let mut count = 0;
        for (collection, versions) in self.stored.iter().enumerate() {
            for (number, version) in versions.iter().enumerate() {
                let to = version.map(|version| self.refers_to(collection, number, version)).unwrap_or_default();
                count += to.iter().filter(|(at, number)| self.stored[*at][*number].is_none()).count();
            }
        }
        count
    }

    /// Which version each operation writes: updates that check no reference write two in turn.
    fn versions_of(&mut self, step: &Step, numbers: &[usize]) -> Vec<(usize, u32)> {
        if step.kind != Kind::Update {
            return numbers.iter().map(|number| (*number, 0)).collect();
        }
        let (first, alternates) = (self.versions[step.collection] + 1, step.references == References::Ignored);
        self.versions[step.collection] = first + 1;
        let before = |at: usize| numbers[..at].iter().filter(|other| **other == numbers[at]).count() as u32;
        let version = |at| first + if alternates { before(at) % 2 } else { 0 };
        (0..numbers.len()).map(|at| (numbers[at], version(at))).collect()
    }

    /// How many operations of a phase are refused, of those whose transactions do not fail.
    fn step(&mut self, step: &Step, seed: u64) -> u64 {
        let records = &self.records[step.collection];
        let mut positions = Positions::new(&order(step), records, seed, Share::WHOLE);
        let numbers: Vec<usize> = (0..step.count).map(|_| positions.next() as usize).collect();
        let writes = self.versions_of(step, &numbers);
        let mut all = 0;
        for transaction in writes.chunks(step.batch.unwrap_or(1) as usize) {
            let before = self.stored.clone();
            let refused = transaction.iter().filter(|write| self.refuses(step, **write)).count() as u64;
            // An operation with a transaction of its own commits nothing if it is refused.
            let commits = step.batch.is_some() || refused == 0;
            self.commits += u64::from(commits);
            if commits && self.fails.is_some_and(|every| self.commits.is_multiple_of(every)) {
                self.stored = before;
            } else {
                all += refused;
            }
        }
        all
    }

    /// Rows and digest of a scan of a collection.
    fn scanned(&self, collection: usize) -> (u64, String) {
        let mut reads = Reads { touch: true, ..Reads::default() };
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for (number, version) in self.stored[collection].iter().enumerate() {
            let Some(version) = version else { continue };
            self.records[collection].key(number as u64, &mut key);
            self.records[collection].value(number as u64, *version, &mut value);
            reads.keyed(&key, &value);
        }
        (reads.rows, format!("lines:{:016x}", reads.digest))
    }
}

fn compared<D: Driver>(steps: &[Step], mut plan: Plan, fails: Option<u64>) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    if D::describe().name != "fake" {
        plan.dir = dir.path().to_owned();
    }
    let (reports, ended) = run_on::<D>(&plan);
    prop_assert!(ended.is_ok(), "{}", ended.unwrap_err().cause);
    let mut model = Model::new(&plan.spec.data, plan.seed, fails);
    let phases: Vec<&PhaseSpec> = plan.spec.phases.iter().collect();
    for (at, step) in steps.iter().enumerate() {
        let at = at * (1 + NAMES.len());
        let refused = model.step(step, phase_seed(plan.seed, &phases[at].name));
        let wanted = (step.references != References::Ignored).then_some(refused);
        prop_assert_eq!(reports[at].refused, wanted, "step {:?}", step);
        for collection in 0..NAMES.len() {
            let scan = &reports[at + 1 + collection];
            let (rows, digest) = model.scanned(collection);
            prop_assert_eq!((scan.rows, &scan.answer.as_ref().unwrap().digest), (Some(rows), &digest));
        }
    }
    let last = reports.last().unwrap();
    let dangling =
        last.dangling.iter().filter_map(|found| found.split_once("no stored document: ")?.1.split(';').next());
    let counted = dangling.map(|count| count.parse().unwrap()).next().unwrap_or(0);
    prop_assert_eq!(counted, model.dangling());
    // It is known which records were changed, whatever the order.
    if fails.is_none() {
        let verified = last.verified.unwrap();
        prop_assert_eq!((verified.exact, verified.one_of_several, verified.may_be_absent), (24, 0, 0));
        prop_assert_eq!(&last.notes, &Vec::<String>::new(), "it is known what had to be refused");
    }
    Ok(())
}

fn checked<D: Driver>(cases: u32, encoding: Encoding, indexes: &'static [(usize, &'static str)], fails: bool) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let strategy = (prop::collection::vec(step(), 1..9), prop::option::of(2u64..6));
    let result = runner.run(&strategy, |(steps, every)| {
        let every = every.filter(|_| fails);
        let mut plan = plan_of(&steps, encoding, indexes);
        if let Some(every) = every {
            plan = option(plan, "fail_commit_every", OptionValue::Int(every as i64));
        }
        compared::<D>(&steps, plan, every)
    });
    result.unwrap_or_else(|error| panic!("{}: {error}", D::describe().name));
}

const INDEXES: &[(usize, &str)] = &[(1, "to"), (2, "in.to"), (2, "many"), (2, "up"), (2, "kinds")];

#[test]
fn references_are_checked_as_by_hand_whatever_fails() {
    checked::<Fake<true>>(300, Encoding::MsgPack, INDEXES, true);
    checked::<Fake<true>>(100, Encoding::Json, &INDEXES[..2], true);
}

#[test]
fn references_are_checked_as_by_hand_on_every_engine() {
    checked::<crate::memory::Memory>(100, Encoding::MsgPack, INDEXES, false);
    #[cfg(feature = "lmdb")]
    checked::<crate::lmdb::Lmdb>(12, Encoding::MsgPack, INDEXES, false);
    #[cfg(feature = "rocksdb")]
    checked::<crate::rocksdb::RocksDb>(12, Encoding::MsgPack, INDEXES, false);
    #[cfg(feature = "redb")]
    checked::<crate::redb::Redb>(12, Encoding::Json, INDEXES, false);
    #[cfg(feature = "sqlite")]
    checked::<crate::sqlite::Sqlite>(20, Encoding::Json, &[(1, "to"), (2, "in.to"), (2, "up")], false);
    #[cfg(feature = "sqlite")]
    checked::<crate::sqlite::Sqlite>(8, Encoding::MsgPack, &[], false);
}

fn noted(collections: &mut Collections, references: References, admitted: &[u64]) {
    let action = Action::Put(Ops { references, ..on(1, Order::Record) });
    let mut records = RecordSet::none_of(8);
    admitted.iter().for_each(|number| records.add(*number));
    let failed = RecordSet::default();
    let checked = references != References::Ignored;
    let admitted = checked.then_some(&records);
    let done = Done {
        action: &action,
        seed: 0,
        counts: &[8],
        inserted: &[0],
        failed: Some(&failed),
        admitted,
        alternates: false,
    };
    if checked {
        collections.note_guarded(Guarded {
            phase: "put".to_owned(),
            collection: 1,
            ops: action.ops().unwrap().clone(),
            deletes: false,
            seed: 0,
            counts: vec![8],
            refused: (0, 0),
            is_only_writer: true,
            before: Vec::new(),
        });
    }
    collections.note(1, &done);
}

#[test]
fn a_reference_to_nothing_is_an_error_where_all_writes_were_checked() {
    let plan = plan_of(&[], Encoding::MsgPack, &[]);
    let Subject::Store(spec) = &plan.spec.subject else { panic!("no store") };
    let mut collections = Collections::new::<Fake<true>>(&plan, spec).unwrap();
    let store = Fake::<true>::open(&plan.dir, spec).unwrap();
    let mut session = store.session().unwrap();
    let own = &collections.all[1];
    let refers = |number: &u64| own.records.document(*number, 0).unwrap().at(&["to"]).is_some();
    let number = (0..8).find(refers).unwrap();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    own.records.key(number, &mut key);
    own.records.value(number, 0, &mut value);
    let mut txn = session.write().unwrap();
    txn.put(&own.space.stored(&key), &value).unwrap();
    let mut plainly = Collections::new::<Fake<true>>(&plan, spec).unwrap();
    noted(&mut plainly, References::Ignored, &[]);
    let note = dangling::check(&mut txn, &plainly, true).unwrap();
    assert!(note.is_some_and(|note| note.ends_with("some phase wrote without a check")), "no phase promised it");
    noted(&mut collections, References::Checked, &[number]);
    let error = dangling::check(&mut txn, &collections, true).unwrap_err().to_string();
    let key = key.escape_ascii();
    let what = format!(
        "references of stored documents that lead to no stored document: 1; the first is of the document `{key}` of `b`"
    );
    assert!(error.contains(&what), "{error}");
    let of_c = Action::Put(on(2, Order::Record));
    let done =
        Done { action: &of_c, seed: 0, counts: &[9], inserted: &[0], failed: None, admitted: None, alternates: false };
    collections.note(2, &done);
    let removed = Action::Delete(on(1, Order::Record));
    collections.note(1, &Done { action: &removed, ..done });
    assert!(dangling::check(&mut txn, &collections, true).is_err(), "that says nothing about references of `b` to `a`");
    noted(&mut collections, References::Ignored, &[]);
    let note = dangling::check(&mut txn, &collections, true).unwrap();
    assert_eq!(note, Some(format!("{what}: some phase wrote without a check")));
    let required = collections.all[1].required(&collections.all[1].records.document(number, 0).unwrap());
    txn.put(&required[0], b"").unwrap();
    assert_eq!(dangling::check(&mut txn, &collections, true).unwrap(), None);
}

#[test]
fn references_of_more_documents_than_are_read_at_a_time_are_all_searched() {
    let mut plan = plan_of(&[], Encoding::MsgPack, &[]);
    plan.spec.data[1].records = 3_000;
    let Subject::Store(spec) = &plan.spec.subject else { panic!("no store") };
    let mut collections = Collections::new::<Fake<true>>(&plan, spec).unwrap();
    noted(&mut collections, References::Ignored, &[]);
    let store = Fake::<true>::open(&plan.dir, spec).unwrap();
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    let own = &collections.all[1];
    let (mut key, mut value, mut required) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..3_000 {
        own.records.key(number, &mut key);
        own.records.value(number, 0, &mut value);
        txn.put(&own.space.stored(&key), &value).unwrap();
        required.extend(own.required(&own.records.document(number, 0).unwrap()));
    }
    let found = required.iter().filter(|key| txn.get(key, |_| ()).unwrap()).count();
    let missing = required.len() - found;
    assert!(missing > 1_100, "{missing} of {}", required.len());
    for ordered in [true, false] {
        let note = dangling::check(&mut txn, &collections, ordered).unwrap().unwrap();
        assert!(note.contains(&format!("no stored document: {missing};")), "{note}");
    }
}

/// Stores schools, of which some are missing, and checks those who refer to them, with so many threads.
fn enrolled(threads: u32, collection: usize, options: &[(&str, OptionValue)]) -> (Vec<PhaseReport>, Option<String>) {
    let some = |at| Action::Put(Ops { amount: Amount::Count(4), ..on(at, Order::Record) });
    let checked = Ops { references: References::Checked, threads, ..on(collection, Order::Record) };
    let mut plan = plan_of(&[], Encoding::MsgPack, INDEXES);
    let phases = [some(0), some(1), Action::Put(checked), Action::Verify];
    plan.spec.phases = super::fake::plan(1, phases).spec.phases;
    for (name, value) in options {
        plan = option(plan, name, value.clone());
    }
    let (reports, ended) = run_on::<Fake<true>>(&plan);
    (reports, ended.err().map(|error| error.cause.to_string()))
}

#[test]
fn a_store_that_hides_a_referred_document_refuses_too_much() {
    let (reports, error) = enrolled(1, 1, &[]);
    assert_eq!((error, &reports[3].notes), (None, &Vec::new()));
    let refused = reports[2].refused.unwrap();
    assert!(refused > 0 && refused < 8, "{refused}");
    let (_, error) = enrolled(1, 1, &[("lie", OptionValue::Text("hide".to_owned()))]);
    let error = error.unwrap();
    let refused = prony_model::number::count(refused, "operation");
    let wanted = format!("`phase 2`: the references require {refused} to be refused, but the engine refused ");
    assert!(error.contains(&wanted) && error.contains("; the first difference is at record "), "{error}");
}

#[test]
fn what_several_threads_had_to_refuse_is_known_unless_it_depends_on_their_order() {
    let (reports, error) = enrolled(3, 1, &[]);
    assert_eq!((error, &reports[3].notes), (None, &Vec::new()));
    let (_, error) = enrolled(3, 1, &[("lie", OptionValue::Text("hide".to_owned()))]);
    assert!(error.is_some_and(|error| error.contains("the references require ")));
    let (reports, error) = enrolled(3, 2, &[]);
    let note = "the refused operations of `phase 2` were not checked against the references: the order of several threads is not \
                known, and documents refer to their own collection";
    assert_eq!((error, reports[3].notes.as_slice()), (None, &[note.to_owned()][..]));
}

#[test]
fn what_had_to_be_refused_is_not_known_after_failures() {
    let every = [("fail_every", OptionValue::Int(3))];
    let (reports, error) = enrolled(1, 1, &every);
    assert!(reports[2].errors > 0 && error.is_none(), "{error:?}");
    let notes = reports[3].notes.join("; ");
    assert!(notes.contains("were not checked against the references: some operations failed"), "{notes}");
}
