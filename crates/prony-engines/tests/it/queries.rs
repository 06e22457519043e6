//! Random queries over random documents, on an engine and by hand: every answer must be the same. The evaluation by hand
//! works on JSON and shares no code with the one that is tested.

use std::cmp::Ordering;
use std::sync::Arc;

use prony_engines::answers::Reads;
use prony_engines::documents::{Planned, Query, run};
use prony_engines::driver::{Documents, Driver, Read, Session, Store, Table, Write};
use prony_model::spec::{
    DocumentSpec, Encoding, FieldPath, FieldSpec, FieldValue, Filter, Generator, Operand, QuerySpec, SortKey, Test,
};
use prony_model::units::Fraction;
use prony_workload::encode;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::contract::{fast, open, scratch};
use crate::indexes::index_fields;

/// Few values, so that tests often meet them.
fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (-2i64..3).prop_map(|number| json!(number)),
        1 => (-6i64..6).prop_map(|half| json!(half as f64 / 2.0 + 0.25)),
        3 => "[ab]{0,2}".prop_map(|text| json!(text)),
        2 => any::<bool>().prop_map(|flag| json!(flag)),
        1 => Just(Value::Null),
    ]
}

fn field_value(lists: bool) -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => scalar(),
        3 * u32::from(lists) => prop::collection::vec(scalar(), 0..4).prop_map(Value::Array),
    ]
}

pub(crate) fn document(lists: bool) -> impl Strategy<Value = Value> {
    let field = || prop::option::weighted(0.8, field_value(lists));
    (field(), field(), field()).prop_map(|(a, b, c)| {
        let mut document = json!({ "i\"'\\n": {} });
        for (name, value) in [("a", a), ("b", b)] {
            if let Some(value) = value {
                document[name] = value;
            }
        }
        if let Some(value) = c {
            document["i\"'\\n"]["c"] = value;
        }
        document
    })
}

fn path() -> impl Strategy<Value = FieldPath> {
    prop::sample::select(vec!["a", "b", "i\"'\\n.c", "i\"'\\n", "none"]).prop_map(|text| text.parse().unwrap())
}

pub(crate) fn typed(value: Value) -> FieldValue {
    serde_json::from_value(value).unwrap()
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![scalar().prop_map(|value| Operand::Constant(typed(value))), path().prop_map(Operand::Document)]
}

fn test() -> impl Strategy<Value = Test<Operand>> {
    prop_oneof![
        prop::collection::vec(operand(), 0..3).prop_map(Test::In),
        operand().prop_map(Test::Gt),
        operand().prop_map(Test::Gte),
        operand().prop_map(Test::Lt),
        operand().prop_map(Test::Lte),
        (operand(), operand()).prop_map(|(from, to)| Test::Between(from, to)),
        operand().prop_map(Test::Prefix),
        any::<bool>().prop_map(Test::Exists),
    ]
}

fn filter() -> impl Strategy<Value = Filter<Operand>> {
    let one = (path(), test()).prop_map(|(path, test)| Filter::Field(path, test));
    one.prop_recursive(2, 8, 3, |inner| {
        let several = prop::collection::vec(inner, 0..3);
        prop_oneof![several.clone().prop_map(Filter::All), several.prop_map(Filter::Any)]
    })
}

pub(crate) fn query() -> impl Strategy<Value = QuerySpec> {
    let sort = (path(), any::<bool>()).prop_map(|(field, descending)| SortKey { field, descending });
    let few = prop_oneof![3 => 0u64..4, 1 => 0u64..200];
    (filter(), prop::collection::vec(sort, 0..3), few.clone(), prop::option::of(few), any::<bool>()).prop_map(
        |(filter, sort, skip, limit, count)| {
            let count = count && sort.is_empty() && skip == 0 && limit.is_none();
            QuerySpec {
                collection: None,
                filter,
                sort,
                skip,
                limit: limit.map(|limit| limit + 1),
                select: Vec::new(),
                count,
            }
        },
    )
}

/// A query whose tests and sort are likely to fit an index: several tests of the same few fields, in any order.
pub(crate) fn query_of_an_index() -> impl Strategy<Value = QuerySpec> {
    let field =
        || prop::sample::select(vec!["a", "b", "i\"'\\n.c"]).prop_map(|text| text.parse::<FieldPath>().unwrap());
    let number = || (-3i64..4).prop_map(|number| Operand::Constant(FieldValue::Int(number)));
    let one = prop_oneof![
        2 => scalar().prop_map(|value| Test::In(vec![Operand::Constant(typed(value))])),
        1 => prop::sample::select(vec![Test::In, |two: Vec<Operand>| Test::Gte(two[0].clone())])
            .prop_map(|test| test(vec![Operand::Constant(FieldValue::Null)])),
        2 => prop::collection::vec(number(), 1..4).prop_map(Test::In),
        2 => number().prop_map(Test::Gte),
        2 => number().prop_map(Test::Lt),
        1 => test(),
    ];
    let tests = prop::collection::vec((field(), one).prop_map(|(field, test)| Filter::Field(field, test)), 0..4);
    let sort = (field(), prop::bool::weighted(0.1)).prop_map(|(field, descending)| SortKey { field, descending });
    (tests, prop::collection::vec(sort, 0..3), 0u64..3, prop::option::weighted(0.7, 1u64..6)).prop_map(
        |(tests, sort, skip, limit)| QuerySpec {
            collection: None,
            filter: Filter::All(tests),
            sort,
            skip,
            limit,
            select: Vec::new(),
            count: false,
        },
    )
}

fn at<'v>(document: &'v Value, path: &FieldPath) -> Option<&'v Value> {
    path.0.iter().try_fold(document, |value, name| value.get(name))
}

/// By conversion to floats, which is exact for the numbers of these tests.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn fits(filter: &Filter<Operand>, document: &Value, page: &Value) -> bool {
    let (path, test) = match filter {
        Filter::All(filters) => return filters.iter().all(|filter| fits(filter, document, page)),
        Filter::Any(filters) => return filters.iter().any(|filter| fits(filter, document, page)),
        Filter::Field(path, test) => (path, test),
    };
    let known = |operand: &Operand| match operand {
        Operand::Constant(value) => Some(serde_json::to_value(value).unwrap()),
        Operand::Document(path) => at(page, path).cloned(),
    };
    let passes = |value: &Value| {
        let is = |operand: &Operand, wanted: fn(Ordering) -> bool| {
            known(operand).and_then(|other| order(value, &other)).is_some_and(wanted)
        };
        match test {
            Test::In(operands) => operands.iter().any(|operand| is(operand, Ordering::is_eq)),
            Test::Gt(operand) => is(operand, Ordering::is_gt),
            Test::Gte(operand) => is(operand, Ordering::is_ge),
            Test::Lt(operand) => is(operand, Ordering::is_lt),
            Test::Lte(operand) => is(operand, Ordering::is_le),
            Test::Between(from, to) => is(from, Ordering::is_ge) && is(to, Ordering::is_le),
            Test::Prefix(operand) => match (value.as_str(), known(operand)) {
                (Some(text), Some(Value::String(prefix))) => text.starts_with(&prefix),
                _ => false,
            },
            Test::Exists(_) => true,
        }
    };
    match (at(document, path), test) {
        (value, Test::Exists(exists)) => value.is_some() == *exists,
        (None, _) => false,
        (Some(Value::Array(items)), _) => items.iter().any(passes),
        (Some(value), _) => passes(value),
    }
}

fn rank(value: Option<&Value>) -> u8 {
    match value {
        None => 0,
        Some(Value::Null) => 1,
        Some(Value::Bool(_)) => 2,
        Some(Value::Number(_)) => 3,
        Some(Value::String(_)) => 4,
        Some(Value::Array(_)) => 5,
        Some(Value::Object(_)) => 6,
    }
}

/// The numbers of the documents, whose keys are in their order.
pub(crate) fn by_hand(query: &QuerySpec, documents: &[Value], page: &Value) -> Vec<usize> {
    let mut found: Vec<usize> = (0..documents.len()).filter(|n| fits(&query.filter, &documents[*n], page)).collect();
    found.sort_by(|x, y| {
        for key in &query.sort {
            let (a, b) = (at(&documents[*x], &key.field), at(&documents[*y], &key.field));
            let within = || a.zip(b).and_then(|(a, b)| order(a, b)).unwrap_or(Ordering::Equal);
            let order = rank(a).cmp(&rank(b)).then_with(within);
            if order.is_ne() {
                return if key.descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    });
    let rows = found.into_iter().skip(query.skip as usize);
    rows.take(query.limit.map_or(usize::MAX, |limit| limit as usize)).collect()
}

pub(crate) fn key(number: usize) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

pub(crate) fn encoded(document: &Value, encoding: Encoding) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(encoding, &typed(document.clone()), &mut bytes);
    bytes
}

fn written<S: Store>(store: &S, documents: &[Value], encoding: Encoding) {
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    for (number, document) in documents.iter().enumerate() {
        txn.put(&key(number), &encoded(document, encoding)).unwrap();
    }
    txn.commit().unwrap();
}

/// The rows of an answer, with their documents.
pub(crate) fn answer<S: Session>(
    session: &mut S,
    planned: Planned,
    page: &Value,
    skip: u64,
    reads: &mut Reads,
) -> (u64, Vec<(Vec<u8>, Value)>) {
    let query = Query::new(&Arc::new(planned), &typed(page.clone()));
    let mut rows = Vec::new();
    let mut txn = session.read().unwrap();
    let matched = run(&mut txn, &query, reads, |row| {
        assert_eq!(row.position, rows.len() as u64 + skip);
        rows.push((row.key.to_vec(), serde_json::to_value(row.document).unwrap()));
    })
    .unwrap();
    txn.finish().unwrap();
    (matched, rows)
}

pub(crate) fn queries_find_what_a_search_by_hand_finds<D: Driver>() {
    if !D::describe().capabilities.ordered {
        return;
    }
    let strategy = (prop::collection::vec(document(true), 1..90), prop::collection::vec(query(), 1..12), any::<bool>());
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    let result = runner.run(&strategy, |(documents, queries, json)| {
        let encoding = if json { Encoding::Json } else { Encoding::MsgPack };
        let dir = scratch();
        let store = open::<D>(&dir, &fast::<D>());
        written(&store, &documents, encoding);
        let mut session = store.session().unwrap();
        for (number, spec) in queries.into_iter().enumerate() {
            let page = &documents[number % documents.len()];
            let expected = by_hand(&spec, &documents, page);
            let mut reads = Reads::default();
            let planned = Planned::new(spec.clone(), encoding, None);
            let (matched, rows) = answer(&mut session, planned, page, spec.skip, &mut reads);
            if spec.count {
                prop_assert_eq!((matched, rows.len()), (expected.len() as u64, 0));
                continue;
            }
            let expected: Vec<_> = expected.into_iter().map(|n| (key(n).to_vec(), documents[n].clone())).collect();
            prop_assert_eq!(rows, expected, "{:?}", spec);
            prop_assert!(reads.examined <= documents.len() as u64);
        }
        drop(session);
        store.close().unwrap();
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// What a field may have: one kind, or anything.
#[derive(Clone, Copy, Debug)]
enum Has {
    Anything,
    NumberOrNull,
    Number,
    Text,
    Flag,
}

impl Has {
    fn value(self) -> BoxedStrategy<Value> {
        match self {
            Self::Anything => field_value(true).boxed(),
            Self::NumberOrNull => prop_oneof![(-1i64..2).prop_map(|n| json!(n)), Just(Value::Null)].boxed(),
            Self::Number => prop_oneof![(-2i64..3).prop_map(|n| json!(n)), Just(json!(0.5))].boxed(),
            Self::Text => "[ab]{0,2}".prop_map(|text| json!(text)).boxed(),
            Self::Flag => any::<bool>().prop_map(|flag| json!(flag)).boxed(),
        }
    }

    fn generator(self) -> Generator {
        match self {
            Self::Anything => {
                Generator::Cycle([json!(null), json!(true), json!(1), json!("a"), json!([1])].map(typed).to_vec())
            }
            Self::NumberOrNull => Generator::Cycle(vec![FieldValue::Int(1), FieldValue::Null]),
            Self::Number => Generator::Uniform(-2, 2),
            Self::Text => Generator::Template(vec!["a".to_owned()]),
            Self::Flag => Generator::Constant(FieldValue::Bool(true)),
        }
    }
}

fn has() -> impl Strategy<Value = Has> {
    prop::sample::select(vec![Has::Anything, Has::NumberOrNull, Has::Number, Has::Text, Has::Flag])
}

/// Documents whose fields `a`, `b` and `in.c` have such values.
fn documents_of(has: [Has; 3]) -> (DocumentSpec, impl Strategy<Value = Vec<Value>>) {
    let field = |name: &str, value| FieldSpec { name: name.to_owned(), value, present: Fraction::new(0.8).unwrap() };
    let inner = Generator::Fields(vec![field("c", has[2].generator())]);
    let fields = vec![field("a", has[0].generator()), field("b", has[1].generator()), field("i\"'\\n", inner)];
    let value = |at: usize| prop::option::weighted(0.8, has[at].value());
    let document = (value(0), value(1), value(2)).prop_map(|(a, b, c)| {
        let mut document = json!({ "i\"'\\n": {} });
        for (field, value) in [("a", a), ("b", b)] {
            value.into_iter().for_each(|value| document[field] = value);
        }
        c.into_iter().for_each(|value| document["i\"'\\n"]["c"] = value);
        document
    });
    (DocumentSpec { fields, encoding: Encoding::Json, file: None }, prop::collection::vec(document, 1..60))
}

/// An engine that answers queries itself answers as a search by hand, with indexes of its own and without.
pub(crate) fn an_engines_own_queries_find_what_a_search_by_hand_finds<D: Driver>() {
    if !D::describe().capabilities.own_documents {
        return;
    }
    let data = [has(), has(), has()].prop_flat_map(|has| {
        let (spec, documents) = documents_of(has);
        (Just(spec), documents)
    });
    let queries = prop::collection::vec(prop_oneof![query(), query_of_an_index()], 1..24);
    let strategy = (data, prop::option::of(index_fields()), queries);
    // Of a server, each case begins with new collections.
    let cases = if D::describe().capabilities.server { 60 } else { 400 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&strategy, |((spec, documents), fields, queries)| {
        let dir = scratch();
        let mut store = open::<D>(&dir, &fast::<D>());
        let single = |fields: &Vec<FieldPath>| fields.iter().all(|field| !spec.kinds(field).list);
        let fields: Vec<Vec<FieldPath>> = fields.unwrap_or_default().into_iter().filter(single).collect();
        let described = Documents { spec: Arc::new(spec.clone()), indexes: fields };
        let table = Table { documents: Some(described), ..Table::default() };
        store.set_up_tables(std::slice::from_ref(&table), true).unwrap();
        written(&store, &documents, Encoding::Json);
        let mut session = store.session().unwrap();
        for (number, query) in queries.into_iter().enumerate() {
            let page = &documents[number % documents.len()];
            let expected = by_hand(&query, &documents, page);
            let own = D::own_query(&query, &spec, &spec, &table).unwrap();
            let text = own.text.clone();
            let planned = Planned::own(query.clone(), Encoding::Json, own);
            let values = Query::new(&Arc::new(planned.clone()), &typed(page.clone()));
            prop_assert!(!values.describe(|text, bound| store.explain(text, bound).unwrap()).is_empty());
            let (matched, rows) = answer(&mut session, planned, page, query.skip, &mut Reads::default());
            if query.count {
                prop_assert_eq!((matched, rows.len()), (expected.len() as u64, 0), "{} {:?}", text, query);
                continue;
            }
            let expected: Vec<_> = expected.into_iter().map(|n| (key(n).to_vec(), documents[n].clone())).collect();
            prop_assert_eq!(rows, expected, "{} {:?}", text, query);
        }
        drop(session);
        store.close().unwrap();
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

pub(crate) fn a_limit_without_a_sort_ends_the_search<D: Driver>() {
    if !D::describe().capabilities.ordered {
        return;
    }
    let documents: Vec<Value> = (0..5_000).map(|n| json!({ "n": n })).collect();
    let dir = scratch();
    let store = open::<D>(&dir, &fast::<D>());
    written(&store, &documents, Encoding::MsgPack);
    let filter = Filter::Field("n".parse().unwrap(), Test::Gte(Operand::Constant(FieldValue::Int(100))));
    let spec = QuerySpec {
        collection: None,
        filter,
        sort: Vec::new(),
        skip: 0,
        limit: Some(10),
        select: Vec::new(),
        count: false,
    };
    let query = Query::new(&Arc::new(Planned::new(spec, Encoding::MsgPack, None)), &FieldValue::Null);
    let mut session = store.session().unwrap();
    let (mut txn, mut reads, mut rows) = (session.read().unwrap(), Reads::default(), 0);
    run(&mut txn, &query, &mut reads, |_| rows += 1).unwrap();
    assert_eq!((rows, reads.examined), (10, 110));
}

pub(crate) fn a_value_that_is_no_document_is_an_error<D: Driver>() {
    if !D::describe().capabilities.ordered {
        return;
    }
    let dir = scratch();
    let store = open::<D>(&dir, &fast::<D>());
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    txn.put(b"k", b"{").unwrap();
    txn.commit().unwrap();
    let spec = QuerySpec {
        collection: None,
        filter: Filter::All(Vec::new()),
        sort: Vec::new(),
        skip: 0,
        limit: None,
        select: Vec::new(),
        count: true,
    };
    let query = Query::new(&Arc::new(Planned::new(spec, Encoding::Json, None)), &FieldValue::Null);
    let mut txn = session.read().unwrap();
    let error = run(&mut txn, &query, &mut Reads::default(), |_| ()).unwrap_err();
    assert!(error.to_string().contains("a value is no document"), "{error}");
}
