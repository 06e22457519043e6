//! SQL of PostgreSQL: documents are `jsonb`, and indexes are of expressions.
//!
//! A field is `v -> 'in' ->> 'name'`: names of fields are followed, and unlike with `#>>` no numbers of items. Its value is cast to
//! the type of its only kind, and texts are compared by their bytes (`COLLATE "C"`), whatever the database does. Of a field that may
//! have several kinds, `CASE` decides on the kind before the value is cast: conditions that are joined by `AND` are evaluated in any
//! order. All values are bound as texts, which are cast to their types.

use prony_model::query::{Operand, Test};
use prony_model::spec::{FieldPath, Kinds};

use crate::driver::{Documents, Table};
use crate::own_query::{Bound, Kind};
use crate::sql::{Dialect, Select, only_kind};

/// PostgreSQL's SQL.
pub(super) struct Postgresql;

/// The first table, and the beginning of the names of the others.
pub(super) const TABLE: &str = "prony_records";

/// The most bytes of a name (`NAMEDATALEN` - 1). What is longer is cut, silently.
const LONGEST_NAME: usize = 63;

/// Bytes that are left for the number of an index.
const NUMBER: usize = 4;

/// The name of a table, which is not quoted. That of a collection has no other characters than letters, digits, `-` and `_`: a
/// name that is cut has `~` and the table's byte.
pub(super) fn name(table: &Table) -> String {
    let Some(name) = &table.name else { return TABLE.to_owned() };
    let whole = format!("{TABLE}_{name}");
    if whole.len() + NUMBER <= LONGEST_NAME {
        return whole;
    }
    let end = format!("~{}", table.byte.unwrap_or_default());
    format!("{}{end}", &whole[..LONGEST_NAME - NUMBER - end.len()])
}

/// The name of an index, or of the key's constraint, with which no table's can collide: they share a name space.
pub(super) fn index_name(table: &str, number: impl std::fmt::Display) -> String {
    format!("{table}#{number}")
}

/// A name as SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// The statement that creates an index of these fields. Documents without a field come first, as in a sort.
pub(super) fn index(table: &Table, documents: &Documents, number: usize, fields: &[FieldPath]) -> String {
    let column = |field: &FieldPath| {
        let kinds = documents.spec.kinds(field);
        let value = match only_kind(kinds) {
            Some(kind) => Postgresql::value(field, kind, kinds),
            None => scalar(field, kinds),
        };
        format!("({value}) NULLS FIRST")
    };
    let columns: Vec<String> = fields.iter().map(column).collect();
    let (name, columns) = (name(table), columns.join(", "));
    let index = quoted(&index_name(&name, number + 1));
    format!("CREATE INDEX IF NOT EXISTS {index} ON {}({columns}, k)", quoted(&name))
}

/// A text as SQL, whatever `standard_conforming_strings` is.
fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

/// The value of a field; the last operator gives it as `jsonb` or as text.
fn at(field: &FieldPath, last: &str) -> String {
    let end = field.0.len() - 1;
    let step =
        |(number, name): (usize, &String)| format!(" {} {}", if number == end { last } else { "->" }, literal(name));
    format!("v{}", field.0.iter().enumerate().map(step).collect::<String>())
}

/// The value of a field as `jsonb`.
fn json(field: &FieldPath) -> String {
    format!("({})", at(field, "->"))
}

/// The value of a field that has several kinds and is no list, as `jsonb`. Nested fields, which are equal to nothing, are NULL: an
/// entry of an index has no room for them.
fn scalar(field: &FieldPath, kinds: Kinds) -> String {
    let value = json(field);
    if kinds.fields { format!("(CASE WHEN jsonb_typeof({value}) <> 'object' THEN {value} END)") } else { value }
}

/// The text of a value that is one.
fn text(value: &str) -> String {
    format!("({value} #>> '{{}}') COLLATE \"C\"")
}

impl Dialect for Postgresql {
    const KINDS: &'static [(&'static str, u8)] =
        &[("null", 1), ("boolean", 2), ("number", 3), ("string", 4), ("array", 5), ("object", 6)];

    fn table(table: &Table) -> String {
        quoted(&name(table))
    }

    /// A cast from `jsonb` needs no text between, but fails on its null.
    fn value(field: &FieldPath, kind: Kind, kinds: Kinds) -> String {
        let value = |last| at(field, last);
        let last = if kinds.null { "->>" } else { "->" };
        match kind {
            Kind::Flag => format!("({})::boolean", value(last)),
            Kind::Number => format!("({})::numeric", value(last)),
            Kind::Text => format!("({}) COLLATE \"C\"", value("->>")),
        }
    }

    fn presence(field: &FieldPath) -> String {
        json(field)
    }

    fn kind(field: &FieldPath) -> String {
        format!("jsonb_typeof({})", json(field))
    }

    fn place(number: usize, bound: &Bound) -> String {
        let cast = match bound {
            Bound::Of(_, Kind::Flag) => "::boolean",
            Bound::Of(_, Kind::Number) => "::numeric",
            Bound::Json(_) => "::jsonb",
            _ => "",
        };
        format!("${number}::text{cast}")
    }

    fn is_one_of(value: &str, each: &[String]) -> String {
        match each {
            [] => "false".to_owned(),
            [only] => format!("{value} = {only}"),
            each => format!("{value} IN ({})", each.join(", ")),
        }
    }

    fn begins(select: &mut Select<'_, Self>, value: &str, operand: &Operand, compared: &Bound) -> String {
        // SQL has no such comparison of another type.
        if !matches!(compared, Bound::Of(_, Kind::Text)) {
            return "false".to_owned();
        }
        let from = select.bind(Bound::Of(operand.clone(), Kind::Text));
        let below = select.bind(Bound::Above(operand.clone()));
        format!("({value} >= {from} AND {value} < {below})")
    }

    /// Two values of `jsonb` that are no lists and have no fields are equal as those of documents are.
    fn equal(select: &mut Select<'_, Self>, field: &FieldPath, test: &Test<Operand>) -> Option<String> {
        let kinds = select.kinds(field);
        let Test::In(operands) = test else { return None };
        if kinds.list {
            return None;
        }
        let each: Vec<String> = operands.iter().map(|operand| select.bind(Bound::Json(operand.clone()))).collect();
        Some(Self::is_one_of(&scalar(field, kinds), &each))
    }

    fn item(field: &FieldPath, kinds: Kinds) -> String {
        if kinds.list { "item.value".to_owned() } else { json(field) }
    }

    fn some_item(field: &FieldPath, kinds: Kinds, passes: &str) -> String {
        if !kinds.list {
            return format!("({passes})");
        }
        let value = json(field);
        let items = format!(
            "CASE WHEN jsonb_typeof({value}) = 'array' THEN {value} WHEN {value} IS NOT NULL THEN jsonb_build_array({value}) END"
        );
        format!("EXISTS (SELECT FROM jsonb_array_elements({items}) AS item(value) WHERE {passes})")
    }

    fn compared(
        select: &mut Select<'_, Self>,
        item: &str,
        test: &Test<Operand>,
        operand: &Operand,
        equal: bool,
    ) -> String {
        let kinds = select.operand_kinds(operand);
        let mut cases = String::new();
        for (may_be, name, kind, value) in [
            (kinds.flag, "boolean", Kind::Flag, format!("({item})::boolean")),
            (kinds.number, "number", Kind::Number, format!("({item})::numeric")),
            (kinds.text, "string", Kind::Text, text(item)),
        ] {
            if may_be {
                let test = select.test(&value, test, &|operand| Bound::Of(operand.clone(), kind));
                cases += &format!(" WHEN '{name}' THEN {test}");
            }
        }
        if kinds.null && equal {
            let rank = select.bind(Bound::Rank(operand.clone()));
            cases += &format!(" WHEN 'null' THEN {rank} = '1'");
        }
        // Without such a case there would be no `CASE`.
        if cases.is_empty() { "false".to_owned() } else { format!("CASE jsonb_typeof({item}){cases} END") }
    }

    fn item_begins(select: &mut Select<'_, Self>, item: &str, operand: &Operand) -> String {
        let begin = select.bind(Bound::Of(operand.clone(), Kind::Text));
        format!("CASE jsonb_typeof({item}) WHEN 'string' THEN starts_with({item} #>> '{{}}', {begin}) END")
    }

    fn within_kinds(field: &FieldPath) -> Vec<String> {
        let (value, kind) = (json(field), Self::kind(field));
        let flag = format!("({value})::boolean::integer");
        vec![
            format!("CASE {kind} WHEN 'boolean' THEN {flag} WHEN 'number' THEN ({value})::numeric END"),
            format!("CASE {kind} WHEN 'string' THEN {} END", text(&value)),
        ]
    }

    fn sorted(expression: String, descending: bool) -> String {
        expression + if descending { " DESC NULLS LAST" } else { " NULLS FIRST" }
    }

    fn part(skip: u64, limit: Option<u64>) -> String {
        // A `bigint` of SQL.
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let limit = limit.map(|limit| format!(" LIMIT {}", number(limit))).unwrap_or_default();
        let skip = if skip > 0 { format!(" OFFSET {}", number(skip)) } else { String::new() };
        limit + &skip
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prony_model::query::{Filter, QuerySpec};
    use prony_model::spec::{DocumentSpec, Encoding, FieldSpec, FieldValue, Generator, SortKey};
    use prony_model::units::Fraction;

    use super::*;
    use crate::sql::select;

    fn path(text: &str) -> FieldPath {
        text.parse().unwrap()
    }

    /// `n` is a number, `in.t` a text or null, `any` of several kinds or a list, `some` of several kinds.
    fn document() -> DocumentSpec {
        let field = |name: &str, value| FieldSpec { name: name.to_owned(), value, present: Fraction::ONE };
        let text = || FieldValue::Text("a".to_owned());
        let fields = vec![
            field("n", Generator::Uniform(0, 9)),
            field("in", Generator::Fields(vec![field("t", Generator::Cycle(vec![text(), FieldValue::Null]))])),
            field("any", Generator::Cycle(vec![text(), FieldValue::List(Vec::new())])),
            field("some", Generator::Cycle(vec![text(), FieldValue::Int(1), FieldValue::Fields(Vec::new())])),
        ];
        DocumentSpec { fields, encoding: Encoding::Json, file: None }
    }

    fn sql(filter: Filter<Operand>, sort: &[(&str, bool)], limit: Option<u64>) -> (String, usize) {
        let key = |(field, descending): &(&str, bool)| SortKey { field: path(field), descending: *descending };
        let (sort, select_all) = (sort.iter().map(key).collect(), Vec::new());
        let query = QuerySpec { collection: None, filter, sort, skip: 0, limit, select: select_all, count: false };
        let own = select::<Postgresql>(&query, &document(), &document(), &Table::default());
        (own.text, own.bound.len())
    }

    fn of(field: &str, test: Test<Operand>) -> (String, usize) {
        let (text, bound) = sql(Filter::Field(path(field), test), &[], None);
        let rest = text.strip_prefix("SELECT k, v FROM \"prony_records\" WHERE ").unwrap();
        (rest.strip_suffix(" ORDER BY k").unwrap().to_owned(), bound)
    }

    fn constant(value: FieldValue) -> Operand {
        Operand::Constant(value)
    }

    #[test]
    fn field_with_one_kind_is_the_expression_of_its_index() {
        let documents = Documents { spec: Arc::new(document()), indexes: Vec::new() };
        let fields = [path("n"), path("in.t"), path("some")];
        let some = "(CASE WHEN jsonb_typeof((v -> 'some')) <> 'object' THEN (v -> 'some') END)";
        assert_eq!(
            index(&Table::default(), &documents, 0, &fields),
            format!(
                "CREATE INDEX IF NOT EXISTS \"prony_records#1\" ON \"prony_records\"(((v -> 'n')::numeric) NULLS FIRST, \
                 ((v -> 'in' ->> 't') COLLATE \"C\") NULLS FIRST, ({some}) NULLS FIRST, k)"
            )
        );
        let one = || constant(FieldValue::Int(1));
        assert_eq!(of("n", Test::In(vec![one()])), ("(v -> 'n')::numeric = $1::text::numeric".to_owned(), 1));
        assert_eq!(
            of("n", Test::Between(one(), one())),
            ("((v -> 'n')::numeric >= $1::text::numeric AND (v -> 'n')::numeric <= $2::text::numeric)".to_owned(), 2)
        );
        let text = "(v -> 'in' ->> 't') COLLATE \"C\"";
        assert_eq!(
            of("in.t", Test::Prefix(constant(FieldValue::Text("a".to_owned())))),
            (format!("({text} >= $1::text AND {text} < $2::text)"), 2)
        );
        assert_eq!(
            of("some", Test::In(vec![one(), one()])),
            (format!("{some} IN ($1::text::jsonb, $2::text::jsonb)"), 2)
        );
        assert_eq!(of("some", Test::In(Vec::new())), ("false".to_owned(), 0));
        assert_eq!(of("n", Test::Prefix(one())), ("false".to_owned(), 0));
    }

    #[test]
    fn kind_is_decided_before_a_value_is_cast() {
        let (one, null) = (|| constant(FieldValue::Int(1)), || constant(FieldValue::Null));
        assert_eq!(
            of("some", Test::Gt(one())).0,
            "(CASE jsonb_typeof((v -> 'some')) WHEN 'number' THEN ((v -> 'some'))::numeric > $1::text::numeric END)"
        );
        assert_eq!(of("some", Test::Gt(null())), ("(false)".to_owned(), 0));
        assert_eq!(
            of("some", Test::Gte(null())).0,
            "(CASE jsonb_typeof((v -> 'some')) WHEN 'null' THEN $1::text = '1' END)"
        );
        let items = "jsonb_array_elements(CASE WHEN jsonb_typeof((v -> 'any')) = 'array' THEN (v -> 'any') \
                     WHEN (v -> 'any') IS NOT NULL THEN jsonb_build_array((v -> 'any')) END) AS item(value)";
        assert_eq!(
            of("any", Test::In(vec![constant(FieldValue::Bool(true))])).0,
            format!(
                "EXISTS (SELECT FROM {items} WHERE CASE jsonb_typeof(item.value) WHEN 'boolean' THEN (item.value)::boolean = \
                 $1::text::boolean END)"
            )
        );
        assert_eq!(of("any", Test::Exists(false)).0, "(v -> 'any') IS NULL");
    }

    #[test]
    fn rows_are_sorted_with_missing_fields_first() {
        let all = || Filter::All(Vec::new());
        assert_eq!(
            sql(all(), &[("n", true), ("in.t", false)], Some(9)).0,
            "SELECT k, v FROM \"prony_records\" WHERE true ORDER BY (v -> 'n')::numeric DESC NULLS LAST, \
             (v -> 'in' ->> 't') COLLATE \"C\" NULLS FIRST, k LIMIT 9"
        );
        let (several, _) = sql(all(), &[("some", false)], None);
        assert!(several.contains("ORDER BY CASE jsonb_typeof((v -> 'some')) WHEN 'null' THEN 1 WHEN 'boolean' THEN 2"));
        assert!(several.ends_with("THEN ((v -> 'some') #>> '{}') COLLATE \"C\" END NULLS FIRST, k"), "{several}");
    }

    #[test]
    fn names_are_quoted_and_long_ones_are_cut() {
        assert_eq!(at(&path("it's.a\\b"), "->"), r"v -> 'it''s' -> E'a\\b'");
        let table = |length: usize| Table { name: Some("c".repeat(length)), byte: Some(200), ..Table::default() };
        assert_eq!(name(&table(45)), format!("{TABLE}_{}", "c".repeat(45)));
        let cut = name(&table(46));
        assert_eq!((cut.len(), cut.ends_with("c~200")), (59, true));
    }
}
