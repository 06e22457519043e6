//! Queries over documents in MongoDB's language.
//!
//! Its comparisons are of values of one kind, and of a list they test each item, as prony's do. What differs is written out:
//! null is not equal to a missing field here; both tests of `between` must hold for the same item of a list; a path does not lead
//! through lists; and fields that may be of several kinds, or null and missing, are sorted by the number of their kind first, which
//! needs a pipeline.
//!
//! A query is its command, which is built with the operation's values while the operation is prepared. What is timed writes it as
//! BSON.

use prony_model::query::{Filter, Test};
use prony_model::spec::{DocumentSpec, FieldPath, FieldValue, Kinds, SortKey};
use prony_servers::mongodb::bson::Writer;

use super::database::RECORDS;
use super::values::{self, DOCUMENT, KEY};
use crate::driver::Table;
use crate::own_query::{Command, above};

/// The name of the collection of a table.
pub(super) fn collection(table: &Table) -> String {
    table.name.as_ref().map_or_else(|| RECORDS.to_owned(), |name| format!("{RECORDS}_{name}"))
}

/// The place of a field in what is stored.
pub(super) fn path(field: &[String]) -> String {
    let names = [DOCUMENT].into_iter().chain(field.iter().map(String::as_str));
    names.collect::<Vec<_>>().join(".")
}

fn text(text: impl Into<String>) -> FieldValue {
    FieldValue::Text(text.into())
}

fn fields<const N: usize>(fields: [(&str, FieldValue); N]) -> FieldValue {
    FieldValue::Fields(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn list<const N: usize>(items: [FieldValue; N]) -> FieldValue {
    FieldValue::List(items.into())
}

/// The command that answers a query with this filter.
pub(super) fn select(Command { query, document, collection, .. }: &Command, filter: &Filter<FieldValue>) -> FieldValue {
    let (of, filter) = (text(collection), finds(document, filter));
    let number = |number: u64| FieldValue::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let (skip, limit) = (number(query.skip), query.limit.map(number));
    let plain = |key: &SortKey| {
        let kinds = document.kinds(&key.field);
        only_kind(kinds) && !(kinds.null && kinds.missing) && lists_before(document, &key.field).is_empty()
    };
    if query.count {
        fields([("count", of), ("query", filter)])
    } else if query.sort.iter().all(plain) {
        let order = query.sort.iter().map(|key| (path(&key.field.0), key.descending));
        let mut command = vec![("find", of), ("filter", filter), ("sort", ordered(order)), ("skip", skip)];
        command.extend(limit.map(|limit| ("limit", limit)));
        FieldValue::Fields(command.into_iter().map(|(name, value)| (name.into(), value)).collect())
    } else {
        let (computed, order) = ranked(document, &query.sort);
        let mut pipeline = vec![
            fields([("$match", filter)]),
            fields([("$addFields", computed)]),
            fields([("$sort", ordered(order.into_iter()))]),
            fields([("$skip", skip)]),
        ];
        pipeline.extend(limit.map(|limit| fields([("$limit", limit)])));
        pipeline.push(fields([("$project", fields([(DOCUMENT, FieldValue::Int(1))]))]));
        fields([
            ("aggregate", of),
            ("pipeline", FieldValue::List(pipeline)),
            ("cursor", fields([])),
            ("allowDiskUse", FieldValue::Bool(true)),
        ])
    }
}

/// The name of a command that is bound, its collection, and what writes it.
pub(super) fn command(bound: &[FieldValue]) -> (&str, &str, impl Fn(&mut Writer<'_>)) {
    let fields = if let [FieldValue::Fields(fields)] = bound { fields.as_slice() } else { &[] };
    let (name, of) = match fields.first() {
        Some((name, FieldValue::Text(of))) => (&**name, of.as_str()),
        _ => ("", ""),
    };
    (name, of, move |out| fields.iter().for_each(|(name, value)| values::write(out, name, value)))
}

/// Whether a field has values of one kind beside null, which are sorted as prony does.
const fn only_kind(kinds: Kinds) -> bool {
    !kinds.list && !kinds.fields && (kinds.flag as u8 + kinds.number as u8 + kinds.text as u8) == 1
}

/// An order by these paths, and by the key last: of a path that is named twice the first time counts.
fn ordered(paths: impl Iterator<Item = (String, bool)>) -> FieldValue {
    let mut order: Vec<(std::sync::Arc<str>, FieldValue)> = Vec::new();
    for (path, descending) in paths.chain([(KEY.to_owned(), false)]) {
        if order.iter().all(|(known, _)| **known != *path) {
            order.push((path.as_str().into(), FieldValue::Int(if descending { -1 } else { 1 })));
        }
    }
    FieldValue::Fields(order)
}

/// The places before a field that may be lists, through which MongoDB's paths lead and prony's do not.
fn lists_before(document: &DocumentSpec, field: &FieldPath) -> Vec<String> {
    let may_be_list = |names: &[String]| document.kinds(&FieldPath(names.into())).list;
    (1..field.0.len()).map(|end| &field.0[..end]).filter(|names| may_be_list(names)).map(path).collect()
}

/// What finds the documents that a filter does.
fn finds(document: &DocumentSpec, filter: &Filter<FieldValue>) -> FieldValue {
    let each = |filters: &[Filter<_>]| FieldValue::List(filters.iter().map(|one| finds(document, one)).collect());
    match filter {
        Filter::All(filters) if filters.is_empty() => fields([]),
        Filter::Any(filters) if filters.is_empty() => never(),
        Filter::All(filters) => fields([("$and", each(filters))]),
        Filter::Any(filters) => fields([("$or", each(filters))]),
        Filter::Field(field, test) => {
            let place = path(&field.0);
            let is_list = |place: &String| fields([(place, fields([("$type", text("array"))]))]);
            let lists: Vec<FieldValue> = lists_before(document, field).iter().map(is_list).collect();
            let (tests, one_item) = (Tests::of(test), matches!(test, Test::Between(..) | Test::Prefix(_)));
            let passes = if one_item && document.kinds(field).list {
                let scalar = list([tests.filter(&place, false), fields([("$nor", list([is_list(&place)]))])]);
                fields([("$or", list([tests.filter(&place, true), fields([("$and", scalar)])]))])
            } else {
                tests.filter(&place, false)
            };
            match (lists.is_empty(), test) {
                (true, _) => passes,
                (false, Test::Exists(false)) => {
                    fields([("$or", FieldValue::List(lists.into_iter().chain([passes]).collect()))])
                }
                (false, _) => fields([("$and", list([passes, fields([("$nor", FieldValue::List(lists))])]))]),
            }
        }
    }
}

/// The fields that a pipeline computes to sort by them, and the order: of each field the number of its kind, and its value.
fn ranked(document: &DocumentSpec, sort: &[SortKey]) -> (FieldValue, Vec<(String, bool)>) {
    let (mut computed, mut order) = (Vec::new(), Vec::new());
    for (at, key) in sort.iter().enumerate() {
        let value = text(format!("${}", path(&key.field.0)));
        let mut kind = fields([("$type", value.clone())]);
        for place in lists_before(document, &key.field) {
            let is_list = fields([("$isArray", text(format!("${place}")))]);
            kind = fields([("$cond", list([is_list, text("missing"), kind]))]);
        }
        let is = |kinds: &[&str]| {
            let kinds = FieldValue::List(kinds.iter().map(|kind| text(*kind)).collect());
            fields([("$in", list([kind.clone(), kinds]))])
        };
        let ranks = [&["null"][..], &["bool"], &["int", "long", "double"], &["string"], &["array"], &["object"]];
        let branch = |(kinds, rank): (&&[&str], i64)| fields([("case", is(kinds)), ("then", FieldValue::Int(rank))]);
        let branches = FieldValue::List(ranks.iter().zip(1..).map(branch).collect());
        let rank = fields([("$switch", fields([("branches", branches), ("default", FieldValue::Int(0))]))]);
        let comparable = is(&["bool", "int", "long", "double", "string"]);
        let value = fields([("$cond", list([comparable, value, FieldValue::Null]))]);
        for (name, value) in [(format!("rank{at}"), rank), (format!("value{at}"), value)] {
            computed.push((name.as_str().into(), value));
            order.push((name, key.descending));
        }
    }
    (FieldValue::Fields(computed), order)
}

/// A filter that finds nothing.
fn never() -> FieldValue {
    fields([(KEY, fields([("$in", list([]))]))])
}

/// What tests amount to with the values that are bound.
#[derive(Debug, PartialEq)]
enum Tests {
    /// Nothing passes.
    Never,
    /// Null passes, and what passes these.
    NullOr(Vec<(&'static str, FieldValue)>),
    /// What passes all of these.
    All(Vec<(&'static str, FieldValue)>),
}

impl Tests {
    fn of(test: &Test<FieldValue>) -> Self {
        match test {
            Test::In(values) => Self::any(values),
            Test::Gt(value) => Self::all(&[("$gt", value)]),
            Test::Gte(value) => Self::all(&[("$gte", value)]),
            Test::Lt(value) => Self::all(&[("$lt", value)]),
            Test::Lte(value) => Self::all(&[("$lte", value)]),
            Test::Between(from, to) => Self::all(&[("$gte", from), ("$lte", to)]),
            Test::Prefix(FieldValue::Text(prefix)) => {
                let above = above(prefix).map(|above| ("$lt", text(above)));
                Self::All([("$gte", text(prefix))].into_iter().chain(above).collect())
            }
            Test::Prefix(_) => Self::Never,
            Test::Exists(exists) => Self::All(vec![("$exists", FieldValue::Bool(*exists))]),
        }
    }

    fn all(tests: &[(&'static str, &FieldValue)]) -> Self {
        use FieldValue::{Bool, Float, Int, Null, Text};
        if tests.iter().all(|(_, value)| matches!(value, Bool(_) | Int(_) | Float(_) | Text(_))) {
            return Self::All(tests.iter().map(|(name, value)| (*name, (*value).clone())).collect());
        }
        // Nothing is above or below null, nor null and of another kind.
        let null = tests.iter().all(|(name, value)| matches!((*name, value), ("$gte" | "$lte", Null)));
        if null { Self::NullOr(Vec::new()) } else { Self::Never }
    }

    fn any(values: &[FieldValue]) -> Self {
        let (mut null, mut equal_to) = (false, Vec::new());
        for value in values {
            match value {
                FieldValue::Null => null = true,
                FieldValue::List(_) | FieldValue::Fields(_) => {}
                value => equal_to.push(value.clone()),
            }
        }
        let is_empty = equal_to.is_empty();
        let equal = vec![("$in", FieldValue::List(equal_to))];
        match (null, is_empty) {
            (true, true) => Self::NullOr(Vec::new()),
            (true, false) => Self::NullOr(equal),
            (false, true) => Self::Never,
            (false, false) => Self::All(equal),
        }
    }

    /// The filter for what passes at this place, or has an item there that does.
    fn filter(&self, place: &str, item: bool) -> FieldValue {
        let of = |tests: &[(&'static str, FieldValue)]| {
            let tests = tests.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
            let tests = FieldValue::Fields(tests);
            fields([(place, if item { fields([("$elemMatch", tests)]) } else { tests })])
        };
        let null = || of(&[("$type", text("null"))]);
        match self {
            Self::Never => never(),
            Self::NullOr(tests) if tests.is_empty() => null(),
            Self::NullOr(tests) => fields([("$or", list([null(), of(tests)]))]),
            Self::All(tests) => of(tests),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prony_model::query::{Operand, QuerySpec};
    use prony_model::spec::{Encoding, FieldSpec, Generator};
    use prony_model::units::Fraction;

    use super::*;
    use crate::documents::{Planned, Query};
    use crate::driver::Driver;
    use crate::mongodb::Mongodb;

    /// What is bound in an operation on a document `{"x": .., "y": ..}`, of a field that is a list or none.
    fn bound(value: Generator, test: Test<Operand>, [x, y]: [FieldValue; 2]) -> String {
        let a = FieldSpec { name: "a".to_owned(), value, present: Fraction::ONE };
        let spec = DocumentSpec { fields: vec![a], encoding: Encoding::Json, file: None };
        let query = QuerySpec {
            collection: None,
            filter: Filter::Field("a".parse().unwrap(), test),
            sort: Vec::new(),
            skip: 0,
            limit: None,
            select: Vec::new(),
            count: true,
        };
        let own = Mongodb::own_query(&query, &spec, &spec, &Table::default()).unwrap();
        let planned = Arc::new(Planned::own(query, Encoding::Json, own));
        let command = |_: &str, bound: &[FieldValue]| serde_json::to_string(bound).unwrap();
        let command = Query::new(&planned, &fields([("x", x), ("y", y)])).describe(command);
        let filter = command.strip_prefix(r#"[{"count":"prony_records","query":"#);
        filter.unwrap().strip_suffix("}]").unwrap().to_owned()
    }

    /// The filters were built within the time of each operation.
    #[test]
    fn command_is_bound_with_its_values_in_place() {
        let (one, null, lists) = (FieldValue::Int(1), FieldValue::Null, FieldValue::List(Vec::new()));
        let [x, y] = ["x", "y"].map(|name| Operand::Document(name.parse().unwrap()));
        let scalar = || Generator::Uniform(0, 1);
        let items = || Generator::List { of: Box::new(scalar()), items: (0, 1) };
        let is = |values| bound(scalar(), Test::In(vec![x.clone(), y.clone()]), values);
        let (type_null, nothing) = (r#"{"d.a":{"$type":"null"}}"#, r#"{"_id":{"$in":[]}}"#);
        assert_eq!(is([one.clone(), text("b")]), r#"{"d.a":{"$in":[1,"b"]}}"#);
        assert_eq!(is([one.clone(), null.clone()]), format!(r#"{{"$or":[{type_null},{{"d.a":{{"$in":[1]}}}}]}}"#));
        assert_eq!(is([lists.clone(), null.clone()]), type_null);
        assert_eq!(is([lists.clone(), lists.clone()]), nothing);
        let between = |of, values| bound(of, Test::Between(x.clone(), y.clone()), values);
        let item = |tests: &str| {
            let scalar = r#"{"$nor":[{"d.a":{"$type":"array"}}]}"#;
            format!(r#"{{"$or":[{{"d.a":{{"$elemMatch":{tests}}}}},{{"$and":[{{"d.a":{tests}}},{scalar}]}}]}}"#)
        };
        assert_eq!(between(items(), [one.clone(), text("b")]), item(r#"{"$gte":1,"$lte":"b"}"#));
        assert_eq!(between(items(), [null.clone(), null.clone()]), item(r#"{"$type":"null"}"#));
        assert_eq!(between(scalar(), [null.clone(), null.clone()]), type_null);
        assert_eq!(between(scalar(), [one.clone(), null.clone()]), nothing);
        assert_eq!(between(scalar(), [null.clone(), lists.clone()]), nothing);
        assert_eq!(bound(scalar(), Test::Lt(x.clone()), [null.clone(), null.clone()]), nothing);
        assert_eq!(bound(scalar(), Test::Lte(x.clone()), [null.clone(), null.clone()]), type_null);
        assert_eq!(bound(scalar(), Test::Gt(x.clone()), [lists, null]), nothing);
        assert_eq!(bound(scalar(), Test::Exists(false), [one.clone(), one]), r#"{"d.a":{"$exists":false}}"#);
    }

    #[test]
    fn texts_with_a_beginning_are_a_range() {
        let prefix = |value| {
            let x = Operand::Document("x".parse().unwrap());
            bound(Generator::Uniform(0, 1), Test::Prefix(x), [value, FieldValue::Null])
        };
        assert_eq!(prefix(text("ab")), r#"{"d.a":{"$gte":"ab","$lt":"ac"}}"#);
        assert_eq!(prefix(text("")), r#"{"d.a":{"$gte":""}}"#);
        assert_eq!(prefix(FieldValue::Int(1)), r#"{"_id":{"$in":[]}}"#);
    }
}
