//! What `judge` says of stores with known faults.

use prony_model::crash::{Fault, FaultKind, Survived};
use prony_model::protocol::ToWorker;
use prony_model::spec::{Action, CrashSpec, CutKind, Grouping, OptionValue, Order};
use prony_model::units::Nanos;

use super::check::{Rows, said_by};
use super::judge::{Commits, Observed, judge};
use super::workload::{State, Workload};
use super::*;
use crate::driver::FIRST_KEY;
use crate::memory::Memory;
use crate::phases::tests::fake;

/// Records of the store.
const RECORDS: u64 = 20;

/// When each commit was acknowledged, and the cut.
const SECOND: u64 = 1_000_000_000;

fn crash_spec() -> CrashSpec {
    CrashSpec {
        name: "crash".to_owned(),
        during: "write".to_owned(),
        also: Vec::new(),
        cut: CutKind::Kill,
        cuts: 1,
        within: Nanos::from_secs(1),
        images: 1,
        creation: false,
    }
}

fn collections() -> Collections {
    let plan = fake::plan(RECORDS, Vec::new());
    Collections::new::<Memory>(&plan, &StoreSpec::of("memory")).unwrap()
}

fn action(name: &str, order: Order, transaction: Grouping) -> Action {
    let ops = prony_model::spec::Ops { transaction, ..fake::ops(order) };
    match name {
        "put" => Action::Put(ops),
        "update" => Action::Update(ops),
        _ => Action::Delete(ops),
    }
}

/// A trial with so many acknowledged commits, and the store with other ones in it.
struct Case {
    collections: Collections,
    action: Action,
    acknowledged: u64,
}

impl Case {
    fn new(name: &str, order: Order, transaction: Grouping, acknowledged: u64) -> Self {
        Self { collections: collections(), action: action(name, order, transaction), acknowledged }
    }

    fn workload(&self) -> Workload<'_> {
        Workload::new(&self.collections.all, &crash_spec(), &self.action, 7).unwrap()
    }

    /// The records after those writes of each transaction that a test keeps, by commit and place in it.
    fn stored(&self, keeps: impl Fn(u64, usize) -> bool) -> Vec<Observed> {
        let mut workload = self.workload();
        let mut states: Vec<State> = workload.states().collect();
        for commit in 0..=self.acknowledged {
            for (at, write) in workload.transaction().iter().enumerate() {
                if keeps(commit, at) {
                    states[write.slot] = write.state;
                }
            }
        }
        states.into_iter().map(Observed::State).collect()
    }

    fn judge(&self, found: &[Observed]) -> prony_model::crash::Survived {
        let instants = (0..self.acknowledged).map(|commit| commit * SECOND).collect();
        let workload = self.workload();
        judge(&Commits::of(self.workload(), instants, self.acknowledged), found, self.acknowledged * SECOND, |slot| {
            workload.named(slot)
        })
    }

    /// Lost, holes, partial, wrong and unacknowledged commits.
    fn counts(&self, keeps: impl Fn(u64, usize) -> bool) -> [u64; 5] {
        let survived = self.judge(&self.stored(keeps));
        [survived.lost, survived.holes, survived.partial, survived.wrong, survived.unacknowledged]
    }
}

/// Every kind of writes, with as many acknowledged commits as make several passes over the records, and one that is short.
fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for name in ["put", "update", "delete"] {
        for transaction in [Grouping::Each, Grouping::Batch(3), Grouping::Single] {
            for order in [Order::Record, Order::Shuffled, Order::Uniform, Order::Zipfian { theta: 0.9 }] {
                for acknowledged in [0, 1, 7, 75] {
                    if name != "put" || matches!(order, Order::Record | Order::Shuffled) {
                        all.push(Case::new(name, order, transaction.clone(), acknowledged));
                    }
                }
            }
        }
    }
    all
}

#[test]
fn store_with_all_acknowledged_commits_has_no_fault() {
    for case in cases() {
        let last = case.acknowledged;
        assert_eq!(case.counts(|commit, _| commit < last), [0, 0, 0, 0, 0], "{:?} {last}", case.action);
        assert_eq!(case.counts(|_, _| true)[..4], [0, 0, 0, 0], "{:?} {last}", case.action);
    }
}

#[test]
fn lost_tail_is_counted_and_is_no_hole() {
    for case in cases().iter().filter(|case| case.acknowledged == 75) {
        for surviving in [0, 1, 40, 74] {
            let found = case.judge(&case.stored(|commit, _| commit < surviving));
            assert_eq!((found.holes, found.partial, found.wrong), (0, 0, 0), "{:?} {surviving}", case.action);
            // A store that is alike after fewer commits and after more is taken to have more, and both are said.
            let (lost, range) = (75 - surviving, found.lost..=found.lost_at_most);
            let deletes = matches!(case.action, Action::Delete(_));
            let as_all_left = deletes && range == (0..=0);
            assert!(as_all_left || range.contains(&lost), "{:?} {surviving} {range:?}", case.action);
            assert!(deletes || range == (lost..=lost), "{:?} {surviving} {range:?}", case.action);
            let oldest = found.oldest_lost.map(|time| time.as_nanos() / SECOND);
            assert!(found.lost == 0 || oldest == Some(found.lost), "{oldest:?}");
        }
    }
}

#[test]
fn missing_commit_before_one_that_is_there_is_a_hole() {
    for name in ["put", "update"] {
        let case = Case::new(name, Order::Record, Grouping::Each, 12);
        assert_eq!(case.counts(|commit, _| commit < 12 && commit != 5), [1, 1, 0, 0, 0], "{name}");
    }
    let case = Case::new("delete", Order::Record, Grouping::Batch(2), 8);
    assert_eq!(case.counts(|commit, _| commit < 8 && commit != 2), [1, 1, 0, 0, 0]);
}

#[test]
fn part_of_a_transaction_is_found_also_of_the_one_under_way() {
    let case = Case::new("update", Order::Shuffled, Grouping::Batch(4), 3);
    let [lost, holes, partial, ..] = case.counts(|commit, at| commit < 3 && (commit, at) != (1, 2));
    assert_eq!((lost, holes, partial), (1, 0, 1));
    let under_way = case.counts(|commit, at| commit < 3 || at < 2);
    assert_eq!(under_way, [0, 0, 1, 0, 0]);
    assert_eq!(case.counts(|_, _| true), [0, 0, 0, 0, 1]);
}

#[test]
fn removed_records_that_fit_several_numbers_of_commits_are_said_to() {
    // Commits 0, 2 and 4 remove all records, 1, 3 and 5 store them again.
    let case = |acknowledged| Case::new("delete", Order::Record, Grouping::Single, acknowledged);
    let lost = |acknowledged: u64, surviving: u64| {
        let case = case(acknowledged);
        let found = case.judge(&case.stored(|commit, _| commit < surviving));
        assert_eq!((found.holes, found.partial, found.wrong), (0, 0, 0));
        (found.lost, found.lost_at_most, found.unacknowledged)
    };
    assert_eq!(lost(5, 5), (0, 0, 0), "what all acknowledged commits left");
    assert_eq!(lost(5, 3), (0, 0, 0), "no read can tell it from that");
    assert_eq!(
        lost(6, 5),
        (0, 5, 1),
        "with commit 6, which removes them again, nothing is lost; after commit 0 five are"
    );
    assert_eq!(lost(6, 4), (2, 2, 0), "a version is that of one commit");
}

#[test]
fn scan_and_reads_by_key_agree_record_by_record() {
    let case = Case::new("update", Order::Record, Grouping::Each, 5);
    let workload = case.workload();
    let found = case.stored(|commit, _| commit < 5);
    let compared = |change: &dyn Fn(&mut Rows)| {
        let mut rows = Rows { records: found.iter().cloned().map(Some).collect(), again: Vec::new(), unknown: 0 };
        change(&mut rows);
        let mut survived = Survived::default();
        rows.compare(&workload, &found, &mut survived);
        (survived.wrong, survived.faults.into_iter().map(|fault| fault.text).collect::<Vec<_>>().join("; "))
    };
    assert_eq!(compared(&|_| ()), (0, String::new()));
    assert_eq!(
        compared(&|rows| (rows.records[3], rows.unknown) = (None, 1)),
        (
            2,
            "a scan returns 1 row with a key that was never written; record 3 is read by its key, and a scan does not return it"
                .to_owned()
        ),
        "as many rows as records"
    );
    // Two rows were one.
    let two = "a scan returns 2 rows with a key that was never written".to_owned();
    assert_eq!(compared(&|rows| rows.unknown = 2), (2, two));
    assert_eq!(compared(&|rows| rows.again.push(4)).1, "a scan returns record 4 twice");
    let other = |rows: &mut Rows| rows.records[2] = Some(Observed::State(State::Version(1)));
    assert_eq!(compared(&other).1, "a scan returns another value of record 2 than its key");
}

#[test]
fn error_of_the_machine_is_not_said_of_the_store() {
    let said = |error| {
        let mut survived = Survived { lost: 3, ..Survived::default() };
        said_by(error, &mut survived, |survived, fault| survived.refuses_writes = Some(fault));
        (survived.lost, survived.refuses_writes, survived.unfinished)
    };
    let full = EngineError::DiskFull { engine: "fake", doing: "committing", source: "full".into() };
    assert_eq!(said(full), (3, None, Some("`fake` found the disk full while committing: full".to_owned())));
    assert!(said(EngineError::OutOfMemory { engine: "fake", doing: "committing" }).2.is_some());
    let wrong = EngineError::WrongData("page 3".to_owned());
    assert_eq!(said(wrong), (3, Some("the stored data are wrong: page 3".to_owned()), None));
}

#[test]
fn what_no_commit_wrote_is_wrong() {
    let case = Case::new("update", Order::Record, Grouping::Each, 5);
    let mut found = case.stored(|commit, _| commit < 5);
    found[2] = Observed::State(State::Version(9));
    found[3] = Observed::State(State::Absent);
    found[4] = Observed::Wrong("record 4 holds nonsense".to_owned());
    let survived = case.judge(&found);
    assert_eq!((survived.wrong, survived.lost), (3, 0));
    let wrong = |text: &str| Fault { kind: FaultKind::Wrong, text: text.to_owned() };
    assert_eq!(survived.faults[0], wrong("record 2 holds version 9, which no commit has left so"));
    assert_eq!(survived.faults[1], wrong("record 3 is missing, which no commit has left so"));
}

#[test]
fn a_value_says_its_record_and_version_and_any_byte_counts() {
    let case = Case::new("put", Order::Record, Grouping::Each, 0);
    let workload = case.workload();
    let mut value = Vec::new();
    workload.value(3, 70_000, &mut value);
    assert_eq!(workload.version(3, &value), Some(70_000));
    assert_eq!(workload.version(4, &value), None, "it belongs to another record");
    assert_eq!(workload.version(3, &value[..11]), None);
    let mut key = Vec::new();
    workload.key(3, &mut key);
    assert!(key.as_slice() >= FIRST_KEY);
}

#[test]
fn instants_outlive_their_writer() {
    let list = Acknowledged::new().unwrap();
    let other = Acknowledged::passed(list.descriptor().unwrap());
    (0..1000).for_each(|commit| other.note(commit, commit << 40 | 5).unwrap());
    drop(other);
    assert_eq!(list.instants().unwrap(), (0..1000u64).map(|commit| commit << 40 | 5).collect::<Vec<_>>());
}

#[test]
fn the_first_commit_that_was_acknowledged_after_the_cut_may_be_there() {
    let case = Case::new("update", Order::Record, Grouping::Each, 9);
    let workload = case.workload();
    let commits = |before| Commits::of(case.workload(), (0..9).collect(), before);
    let judged = |surviving: u64, before| {
        judge(&commits(before), &case.stored(|commit, _| commit < surviving), 100, |slot| workload.named(slot))
    };
    let found = judged(5, 4);
    assert_eq!((found.lost, found.holes, found.unacknowledged, found.wrong), (0, 0, 1, 0));
    assert_eq!(judged(6, 4).wrong, 1, "the next one began after the cut");
    let found = judged(3, 4);
    assert_eq!((found.lost, found.oldest_lost), (1, Some(Nanos::from_nanos(97))));
}

/// An engine in which a write is a transaction of its own was tested with another one around it.
#[test]
fn single_writes_reach_the_engine_as_those_of_the_phase_do() {
    for (transaction, acknowledged) in [(Grouping::Each, 4), (Grouping::Batch(1), 0)] {
        let plan = fake::plan(RECORDS, [action("put", Order::Record, transaction)]);
        // What is not announced as a single write fails at once, and the fifth put fails too.
        let plan = fake::option(plan, "lie", OptionValue::Text("write".to_owned()));
        let mut plan = fake::option(plan, "fail_from", OptionValue::Int(5));
        plan.spec.crashes = vec![CrashSpec { during: plan.spec.phases[0].name.clone(), ..crash_spec() }];
        let plan = CrashPlan { plan, crash: 0, acknowledged: Acknowledged::new().unwrap() };
        let mut script = fake::Script { asks: [ToWorker::Go].into(), ..fake::Script::default() };
        write::write::<fake::Fake<true>>(&mut script, &plan).unwrap_err();
        assert_eq!(plan.acknowledged.instants().unwrap().len(), acknowledged);
    }
}
