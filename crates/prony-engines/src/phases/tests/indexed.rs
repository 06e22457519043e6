//! Tests phases over documents that have indexes, on the store of `fake`.

use std::collections::BTreeSet;

use prony_model::protocol::PhaseReport;
use prony_model::spec::{
    Action, Amount, DocumentSpec, Encoding, FieldPath, FieldSpec, FieldValue, Filter, FindSpec, Generator, Grouping,
    IndexSpec, KeySpec, MixSpec, MixWeights, Operand, Ops, OptionValue, Order, QuerySpec, ScanLength, ScanSpec,
    SortKey, Subject, Test, ValueSpec,
};
use prony_model::units::Fraction;

use super::fake::{ops, option, plan, reports, run};
use crate::phases::Plan;

pub(super) const N: u64 = 600;

pub(super) fn path(text: &str) -> FieldPath {
    text.parse().unwrap()
}

/// Documents whose fields change with each update, one of them a list.
pub(super) fn documents(mut plan: Plan, indexes: &[&[&str]]) -> Plan {
    let field = |name: &str, value| FieldSpec { name: name.to_owned(), value, present: Fraction::new(0.9).unwrap() };
    let tags = Generator::List { of: Box::new(Generator::Uniform(0, 9)), items: (0, 3) };
    let fields = vec![
        field("n", Generator::Uniform(0, 50)),
        field("even", Generator::Cycle(vec![FieldValue::Bool(true), FieldValue::Bool(false)])),
        field("tags", tags),
    ];
    let data = &mut plan.spec.data[0];
    data.key = KeySpec::Template { parts: vec!["/".to_owned(), "/".to_owned()], pad: 0 };
    data.value = ValueSpec::Document(DocumentSpec { fields, encoding: Encoding::MsgPack, file: None });
    if let Subject::Store(store) = &mut plan.spec.subject {
        let index =
            |fields: &&[&str]| IndexSpec { collection: None, fields: fields.iter().map(|field| path(field)).collect() };
        store.indexes = indexes.iter().map(index).collect();
    }
    plan
}

pub(super) fn queries() -> Action {
    let spec = |filter: Vec<(&str, Test<Operand>)>, sort: &[&str], limit| QuerySpec {
        collection: None,
        filter: Filter::All(filter.into_iter().map(|(field, test)| Filter::Field(path(field), test)).collect()),
        sort: sort.iter().map(|field| SortKey { field: path(field), descending: false }).collect(),
        skip: 0,
        limit,
        select: Vec::new(),
        count: false,
    };
    let of = |field: &str| Operand::Document(path(field));
    let queries = vec![
        spec(vec![("n", Test::In(vec![of("n")]))], &[], None),
        spec(vec![("even", Test::In(vec![of("even")])), ("n", Test::Gte(of("n")))], &["n"], Some(5)),
        spec(vec![("tags", Test::In(vec![Operand::Constant(FieldValue::Int(3))]))], &["even"], None),
    ];
    Action::Find(FindSpec { ops: Ops { amount: Amount::Count(40), ..ops(Order::Shuffled) }, queries })
}

const INDEXES: [&[&[&str]]; 4] = [&[], &[&["n"]], &[&["even", "n"], &["tags"]], &[&["tags", "n"], &["n", "even"]]];

fn actions() -> [Action; 8] {
    let weights = MixWeights { read: 2.0, update: 2.0, insert: 2.0, scan: 1.0, delete: 1.0, read_modify_write: 1.0 };
    let mix = MixSpec { ops: ops(Order::Uniform), weights, scan_length: ScanLength::UniformTo(10) };
    let some = Ops { amount: Amount::Count(N / 3), ..ops(Order::Record) };
    let all = Ops { amount: Amount::Count(1), ..ops(Order::Record) };
    [
        Action::Put(Ops { transaction: Grouping::Batch(50), ..ops(Order::Key) }),
        queries(),
        Action::Update(ops(Order::Shuffled)),
        Action::Delete(some.clone()),
        Action::Compute(some),
        Action::Mix(mix),
        queries(),
        Action::Scan(ScanSpec { ops: all, length: None }),
    ]
}

#[test]
fn indexes_change_no_answer_and_stay_right_through_every_kind_of_write() {
    let mut answers: BTreeSet<Vec<String>> = BTreeSet::new();
    for indexes in INDEXES {
        let plan = documents(plan(N, actions().into_iter().chain([Action::Verify])), indexes);
        let reports = reports(&plan);
        answers.insert(reports.iter().filter_map(|report| Some(report.answer.as_ref()?.digest.clone())).collect());
        let [put, found, updated, ..] = reports.as_slice() else { panic!("{}", reports.len()) };
        let sizes: Vec<u64> = reports.iter().map(|report| report.user_bytes).collect();
        assert!(sizes[0] > N * 5 && put.examined.is_none_or(|examined| examined == 0), "{sizes:?}");
        if indexes.is_empty() {
            assert_eq!((found.examined, found.entries, updated.examined), (Some(3 * 40 * N), None, None));
        } else {
            assert!(found.entries.unwrap() > 0 && found.examined.unwrap() < 3 * 40 * N);
            assert_eq!(updated.examined, Some(N), "each update reads the document that it replaces");
            assert!(updated.decode.unwrap() <= updated.time);
            let [written, changed] = [put, updated].map(|report| report.entries_written.unwrap());
            assert!(written >= N && changed > 0 && changed <= 2 * written + 6 * N, "{written} and {changed}");
        }
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers.first().unwrap().len(), 6, "two finds, a compute, a mix, a scan and the check");
}

#[test]
fn a_failed_write_leaves_no_entry() {
    for (fault, every, size) in [("fail_every", 7, 1), ("fail_every", 41, 3), ("fail_commit_every", 3, 10)] {
        let transaction = if size == 1 { Grouping::Each } else { Grouping::Batch(size) };
        let with = Ops { transaction, ..ops(Order::Record) };
        let actions = [Action::Put(with.clone()), Action::Update(with), Action::Verify];
        let plan = option(documents(plan(N, actions), INDEXES[2]), fault, OptionValue::Int(every));
        let [put, update, verified] = <[PhaseReport; 3]>::try_from(reports(&plan)).unwrap();
        for report in [&put, &update] {
            assert!(report.errors > N / 10 && report.operations > N / 10, "{fault}: {} failed", report.errors);
            assert!(report.entries_written.unwrap() >= report.operations, "{fault}");
        }
        assert!(update.examined.unwrap() <= update.operations, "what failed is not counted");
        assert!(verified.rows.unwrap() < N, "{fault}");
    }
}

#[test]
fn an_entry_that_is_lost_or_left_over_is_a_wrong_answer() {
    for lie in ["missing", "extra", "moved"] {
        let plan = documents(plan(N, [actions()[0].clone(), Action::Persist, Action::Verify]), INDEXES[2]);
        let (_, ended) = run::<true>(&option(plan, "lie", OptionValue::Text(lie.to_owned())));
        let message = ended.unwrap_err().cause.to_string();
        let fault =
            if lie == "extra" { "key `unknown` is stored, but was never written" } else { "the indexes do not match" };
        assert!(message.contains(fault), "{lie}: {message}");
    }
}

/// Only the rows of all queries together were counted, so that one without any was invisible.
#[test]
fn queries_that_find_nothing_are_known_by_their_numbers() {
    for counts in [false, true] {
        let Action::Find(mut find) = queries() else { panic!("no queries") };
        let never = Filter::Field(path("n"), Test::Prefix(Operand::Constant(FieldValue::Text("a".to_owned()))));
        find.queries.insert(
            1,
            QuerySpec { filter: never, count: counts, sort: Vec::new(), limit: None, ..find.queries[0].clone() },
        );
        for threads in [1, 3] {
            let ops = Ops { threads, ..find.ops.clone() };
            let find = Action::Find(FindSpec { ops, queries: find.queries.clone() });
            let found = reports(&documents(plan(N, [actions()[0].clone(), find]), INDEXES[1]))[1].queries.unwrap();
            assert_eq!((found.asked, found.without().collect::<Vec<_>>()), (4, vec![2]), "{counts} {threads}");
        }
    }
}

#[test]
fn the_record_says_how_each_query_reads() {
    let plans = |indexes: &[&[&str]]| -> Vec<String> {
        let plan = documents(plan(N, [actions()[0].clone(), queries()]), indexes);
        reports(&plan)[1].plan.iter().flat_map(|plan| plan.split("; ").map(str::to_owned)).collect()
    };
    assert!(plans(&[]).is_empty());
    let one = [
        "plan of query 1: index `n`: equality of the first field, rows in its order",
        "plan of query 2: index `n`: a range of the first field, rows in its order",
        "plan of query 3: all documents",
    ];
    assert_eq!(plans(&[&["n"]]), one);
    let two = [
        "plan of query 1: all documents",
        "plan of query 2: index `even, n`: equality of the first field and a range of the next, rows in its order",
        "plan of query 3: index `tags, even`: equality of the first field, rows in its order",
    ];
    assert_eq!(plans(&[&["even", "n"], &["tags", "even"]]), two);
}
