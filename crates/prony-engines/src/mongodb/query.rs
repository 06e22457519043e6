//! Queries over documents in MongoDB's language.
//!
//! Its comparisons are of values of one kind, and of a list they test each item, as prony's do. What differs is written out:
//! null is not equal to a missing field here; both tests of `between` must hold for the same item of a list; a path does not lead
//! through lists; and fields that may be of several kinds, or null and missing, are sorted by the number of their kind first, which
//! needs a pipeline.
//!
//! The text of a query is its command as JSON, in which `{"$bound": 0}` stands for the first value that an operation binds, and
//! `{"$prefix": ...}` for the range of texts that begin so. It is read once ([`Template`]), and each operation writes the command
//! with its values.

use prony_model::query::{Filter, Operand, QuerySpec, Test};
use prony_model::spec::{DocumentSpec, FieldPath, FieldValue, Kinds, SortKey};
use prony_servers::mongodb::bson::Writer;

use super::database::RECORDS;
use super::values::{self, DOCUMENT, KEY};
use crate::driver::Table;
use crate::own_query::{Bound, OwnQuery, above};

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

/// The command that answers a query over such documents in a table.
pub(super) fn select(query: &QuerySpec, document: &DocumentSpec, table: &Table) -> OwnQuery {
    let mut select = Select { document, bound: Vec::new() };
    let (of, filter) = (text(collection(table)), select.filter(&query.filter));
    let number = |number: u64| FieldValue::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let (skip, limit) = (number(query.skip), query.limit.map(number));
    let plain = |key: &SortKey| {
        let kinds = document.kinds(&key.field);
        only_kind(kinds) && !(kinds.null && kinds.missing) && lists_before(document, &key.field).is_empty()
    };
    let command = if query.count {
        fields([("count", of), ("query", filter)])
    } else if query.sort.iter().all(plain) {
        let order = query.sort.iter().map(|key| (path(&key.field.0), key.descending));
        let mut command = vec![("find", of), ("filter", filter), ("sort", ordered(order)), ("skip", skip)];
        command.extend(limit.map(|limit| ("limit", limit)));
        FieldValue::Fields(command.into_iter().map(|(name, value)| (name.into(), value)).collect())
    } else {
        let (computed, order) = select.ranked(&query.sort);
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
    };
    let command = serde_json::to_string(&command).expect("a value of JSON can be written into memory");
    OwnQuery { text: command, bound: select.bound }
}

/// The name of the command in the text of a query.
pub(super) fn command_name(own_query: &str) -> &str {
    own_query.split('"').nth(1).unwrap_or_default()
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

struct Select<'d> {
    document: &'d DocumentSpec,
    bound: Vec<Bound>,
}

impl Select<'_> {
    fn bind(&mut self, operand: &Operand) -> FieldValue {
        self.bound.push(Bound::Whole(operand.clone()));
        fields([(BOUND, FieldValue::Int(self.bound.len() as i64 - 1))])
    }

    fn filter(&mut self, filter: &Filter<Operand>) -> FieldValue {
        match filter {
            Filter::All(filters) if filters.is_empty() => fields([]),
            Filter::Any(filters) if filters.is_empty() => never(),
            Filter::All(filters) => fields([("$and", self.each(filters))]),
            Filter::Any(filters) => fields([("$or", self.each(filters))]),
            Filter::Field(field, test) => {
                let place = path(&field.0);
                let is_list = |place: &String| fields([(place, fields([("$type", text("array"))]))]);
                let lists: Vec<FieldValue> = lists_before(self.document, field).iter().map(is_list).collect();
                let passes = match test {
                    Test::Exists(exists) => fields([(&place, fields([("$exists", FieldValue::Bool(*exists))]))]),
                    test => self.test(&place, field, test),
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

    fn each(&mut self, filters: &[Filter<Operand>]) -> FieldValue {
        FieldValue::List(filters.iter().map(|filter| self.filter(filter)).collect())
    }

    fn test(&mut self, place: &str, field: &FieldPath, test: &Test<Operand>) -> FieldValue {
        let tests = match test {
            Test::In(operands) => {
                let each = operands.iter().map(|operand| self.bind(operand)).collect();
                fields([("$in", FieldValue::List(each))])
            }
            Test::Gt(operand) => fields([("$gt", self.bind(operand))]),
            Test::Gte(operand) => fields([("$gte", self.bind(operand))]),
            Test::Lt(operand) => fields([("$lt", self.bind(operand))]),
            Test::Lte(operand) => fields([("$lte", self.bind(operand))]),
            Test::Between(from, to) => fields([("$gte", self.bind(from)), ("$lte", self.bind(to))]),
            Test::Prefix(operand) => fields([(PREFIX, self.bind(operand))]),
            Test::Exists(_) => fields([]),
        };
        let one_item = matches!(test, Test::Between(..) | Test::Prefix(_)) && self.document.kinds(field).list;
        if !one_item {
            return fields([(place, tests)]);
        }
        let is_list = fields([(place, fields([("$type", text("array"))]))]);
        let scalar = list([fields([(place, tests.clone())]), fields([("$nor", list([is_list]))])]);
        fields([("$or", list([fields([(place, fields([("$elemMatch", tests)]))]), fields([("$and", scalar)])]))])
    }

    /// The fields that a pipeline computes to sort by them, and the order: of each field the number of its kind, and its value.
    fn ranked(&self, sort: &[SortKey]) -> (FieldValue, Vec<(String, bool)>) {
        let (mut computed, mut order) = (Vec::new(), Vec::new());
        for (at, key) in sort.iter().enumerate() {
            let value = text(format!("${}", path(&key.field.0)));
            let mut kind = fields([("$type", value.clone())]);
            for place in lists_before(self.document, &key.field) {
                let is_list = fields([("$isArray", text(format!("${place}")))]);
                kind = fields([("$cond", list([is_list, text("missing"), kind]))]);
            }
            let is = |kinds: &[&str]| {
                let kinds = FieldValue::List(kinds.iter().map(|kind| text(*kind)).collect());
                fields([("$in", list([kind.clone(), kinds]))])
            };
            let ranks = [&["null"][..], &["bool"], &["int", "long", "double"], &["string"], &["array"], &["object"]];
            let branch =
                |(kinds, rank): (&&[&str], i64)| fields([("case", is(kinds)), ("then", FieldValue::Int(rank))]);
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
}

/// A filter that finds nothing.
fn never() -> FieldValue {
    fields([(KEY, fields([("$in", list([]))]))])
}

/// Stands for a value that an operation binds.
const BOUND: &str = "$bound";

/// Stands for the range of texts that begin with another one.
const PREFIX: &str = "$prefix";

/// A command with places for what an operation binds.
#[derive(Debug)]
pub(super) enum Template {
    /// Without such a place.
    Constant(FieldValue),
    Fields(Vec<(String, Template)>),
    List(Vec<Template>),
    /// Tests of the value at a place, with the numbers of what is bound; whether it is an item of a list.
    Test {
        place: String,
        tests: Vec<(String, Vec<usize>)>,
        item: bool,
    },
}

impl Template {
    /// Reads the text of a query.
    ///
    /// # Errors
    /// A text that is no JSON.
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text).map(Self::of)
    }

    fn of(value: FieldValue) -> Self {
        match value {
            FieldValue::List(items) => Self::List(items.into_iter().map(Self::of).collect()),
            FieldValue::Fields(fields) => match tests(&fields) {
                Some((place, tests, item)) => Self::Test { place, tests, item },
                None => {
                    Self::Fields(fields.into_iter().map(|(name, value)| (name.to_string(), Self::of(value))).collect())
                }
            },
            value => Self::Constant(value),
        }
    }

    /// Writes the command with what is bound.
    pub(super) fn write(&self, out: &mut Writer<'_>, bound: &[FieldValue]) {
        if let Self::Fields(fields) = self {
            fields.iter().for_each(|(name, value)| value.write_as(name, out, bound));
        }
    }

    fn write_as(&self, name: &str, out: &mut Writer<'_>, bound: &[FieldValue]) {
        match self {
            Self::Constant(value) => values::write(out, name, value),
            Self::Fields(_) => out.document(name, |out| self.write(out, bound)),
            Self::List(items) => out.array(name, |out| {
                items.iter().enumerate().for_each(|(at, item)| item.write_as(&at.to_string(), out, bound));
            }),
            Self::Test { place, tests, item } => {
                let tests = Tests::of(tests, bound);
                values::write(out, name, &tests.filter(place, *item));
            }
        }
    }
}

/// The tests that fields are, if they are tests with something bound.
#[expect(clippy::type_complexity, reason = "the parts of one variant")]
fn tests(fields: &[(std::sync::Arc<str>, FieldValue)]) -> Option<(String, Vec<(String, Vec<usize>)>, bool)> {
    let [(place, FieldValue::Fields(tests))] = fields else { return None };
    if let [(name, FieldValue::Fields(inner))] = tests.as_slice()
        && **name == *"$elemMatch"
    {
        return Some((place.to_string(), operators(inner)?, true));
    }
    Some((place.to_string(), operators(tests)?, false))
}

fn operators(tests: &[(std::sync::Arc<str>, FieldValue)]) -> Option<Vec<(String, Vec<usize>)>> {
    fn number(value: &FieldValue) -> Option<usize> {
        match value {
            FieldValue::Fields(fields) => match fields.as_slice() {
                [(name, FieldValue::Int(number))] if **name == *BOUND => usize::try_from(*number).ok(),
                _ => None,
            },
            _ => None,
        }
    }
    let one = |(name, value): &(std::sync::Arc<str>, FieldValue)| {
        let bound = match value {
            FieldValue::List(items) if **name == *"$in" => items.iter().map(number).collect::<Option<_>>()?,
            value => vec![number(value)?],
        };
        Some((name.to_string(), bound))
    };
    if tests.is_empty() { None } else { tests.iter().map(one).collect() }
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
    fn of(tests: &[(String, Vec<usize>)], bound: &[FieldValue]) -> Self {
        let value = |number: &usize| bound.get(*number).unwrap_or(&FieldValue::Null);
        let (mut all, mut nulls) = (Vec::new(), 0);
        for (name, numbers) in tests {
            if name == "$in" {
                return Self::any(numbers.iter().map(value));
            }
            let [number] = numbers.as_slice() else { return Self::Never };
            match (name.as_str(), value(number)) {
                (_, FieldValue::List(_) | FieldValue::Fields(_)) => return Self::Never,
                ("$gte" | "$lte", FieldValue::Null) => nulls += 1,
                (PREFIX, FieldValue::Text(prefix)) => {
                    all.push(("$gte", text(prefix)));
                    all.extend(above(prefix).map(|above| ("$lt", text(above))));
                }
                (PREFIX, _) | (_, FieldValue::Null) => return Self::Never,
                ("$gt", other) => all.push(("$gt", other.clone())),
                ("$gte", other) => all.push(("$gte", other.clone())),
                ("$lt", other) => all.push(("$lt", other.clone())),
                (_, other) => all.push(("$lte", other.clone())),
            }
        }
        match (nulls, all.is_empty()) {
            (0, _) => Self::All(all),
            (_, true) => Self::NullOr(Vec::new()),
            // Nothing is null and of another kind.
            _ => Self::Never,
        }
    }

    fn any<'v>(values: impl Iterator<Item = &'v FieldValue>) -> Self {
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
    fn filter(self, place: &str, item: bool) -> FieldValue {
        let of = |tests: Vec<(&'static str, FieldValue)>| {
            let tests = FieldValue::Fields(tests.into_iter().map(|(name, value)| (name.into(), value)).collect());
            fields([(place, if item { fields([("$elemMatch", tests)]) } else { tests })])
        };
        let null = || vec![("$type", text("null"))];
        match self {
            Self::Never => never(),
            Self::NullOr(tests) if tests.is_empty() => of(null()),
            Self::NullOr(tests) => fields([("$or", list([of(null()), of(tests)]))]),
            Self::All(tests) => of(tests),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(tests: &str, bound: &[FieldValue]) -> String {
        let template = Template::read(&format!(r#"{{"find":"c","filter":{tests}}}"#)).unwrap();
        let mut out = Vec::new();
        prony_servers::mongodb::bson::write(&mut out, |out| template.write(out, bound));
        let mut json = Vec::new();
        values::push_json(&out, &mut json).unwrap();
        let json = String::from_utf8(json).unwrap();
        json.strip_prefix(r#"{"find":"c","filter":"#).unwrap().strip_suffix('}').unwrap().to_owned()
    }

    #[test]
    fn null_is_a_test_of_its_own_and_lists_are_equal_to_nothing() {
        let (one, null, lists) = (FieldValue::Int(1), FieldValue::Null, FieldValue::List(Vec::new()));
        let is = r#"{"d.a":{"$in":[{"$bound":0},{"$bound":1}]}}"#;
        let type_null = r#"{"d.a":{"$type":"null"}}"#;
        let nothing = r#"{"_id":{"$in":[]}}"#;
        assert_eq!(filter(is, &[one.clone(), text("b")]), r#"{"d.a":{"$in":[1,"b"]}}"#);
        assert_eq!(
            filter(is, &[one.clone(), null.clone()]),
            format!(r#"{{"$or":[{type_null},{{"d.a":{{"$in":[1]}}}}]}}"#)
        );
        assert_eq!(filter(is, &[lists.clone(), null.clone()]), type_null);
        assert_eq!(filter(is, &[lists.clone(), lists.clone()]), nothing);
        let between = r#"{"d.a":{"$elemMatch":{"$gte":{"$bound":0},"$lte":{"$bound":1}}}}"#;
        assert_eq!(filter(between, &[one.clone(), text("b")]), r#"{"d.a":{"$elemMatch":{"$gte":1,"$lte":"b"}}}"#);
        assert_eq!(filter(between, &[null.clone(), null.clone()]), r#"{"d.a":{"$elemMatch":{"$type":"null"}}}"#);
        assert_eq!(filter(between, &[one, null.clone()]), nothing);
        assert_eq!(filter(r#"{"d.a":{"$lt":{"$bound":0}}}"#, &[null]), nothing);
        assert_eq!(
            filter(r#"{"$and":[{"d.a":{"$gt":{"$bound":0}}},{}]}"#, &[lists]),
            format!(r#"{{"$and":[{nothing},{{}}]}}"#)
        );
    }

    #[test]
    fn texts_with_a_beginning_are_a_range() {
        let prefix = r#"{"d.a":{"$prefix":{"$bound":0}}}"#;
        assert_eq!(filter(prefix, &[text("ab")]), r#"{"d.a":{"$gte":"ab","$lt":"ac"}}"#);
        assert_eq!(filter(prefix, &[text("")]), r#"{"d.a":{"$gte":""}}"#);
        assert_eq!(filter(prefix, &[FieldValue::Int(1)]), r#"{"_id":{"$in":[]}}"#);
    }
}
