//! SQL of SQLite: documents are JSON, and indexes are of expressions.
//!
//! A field is `v ->> path`. SQL compares values of different kinds, and JSON's `true` is its 1: a value of a kind that a field never
//! has is bound as NULL. For a field that may have several kinds, or lists, SQLite has no index.

use prony_model::query::{Operand, Test};
use prony_model::spec::{FieldPath, Kinds};

use crate::driver::Table;
use crate::own_query::{Bound, Kind};
use crate::sql::{Dialect, Select, rank};

/// SQLite's SQL.
pub(super) struct Sqlite;

/// The name of a table as SQL. A collection's name has no other characters than letters, digits, `-` and `_`.
pub(super) fn name(table: &Table) -> String {
    table.name.as_ref().map_or_else(|| "records".to_owned(), |name| format!("\"records_{name}\""))
}

/// The statement that creates an index of these fields.
pub(super) fn index(table: &Table, number: usize, fields: &[FieldPath]) -> String {
    let fields: Vec<String> = fields.iter().map(value).collect();
    let of = table.name.as_ref().map(|name| format!("{name}_")).unwrap_or_default();
    format!("CREATE INDEX IF NOT EXISTS \"index_{of}{}\" ON {}({}, k)", number + 1, name(table), fields.join(", "))
}

/// The statement that creates a table of keys and values.
pub(super) fn table(table: &Table, rowid: bool) -> String {
    let kind = if rowid { "" } else { " WITHOUT ROWID" };
    format!("CREATE TABLE IF NOT EXISTS {}(k BLOB NOT NULL PRIMARY KEY, v BLOB NOT NULL){kind}", name(table))
}

/// The path of a field as a text of SQL.
fn path(field: &FieldPath) -> String {
    let quoted = |name: &String| name.replace('\\', "\\\\").replace('"', "\\\"").replace('\'', "''");
    let names: Vec<String> = field.0.iter().map(|name| format!(".\"{}\"", quoted(name))).collect();
    format!("'${}'", names.concat())
}

fn value(field: &FieldPath) -> String {
    format!("v ->> {}", path(field))
}

impl Dialect for Sqlite {
    const KINDS: &'static [(&'static str, u8)] = &[
        ("null", 1),
        ("true", 2),
        ("false", 2),
        ("integer", 3),
        ("real", 3),
        ("text", 4),
        ("array", 5),
        ("object", 6),
    ];

    fn table(table: &Table) -> String {
        name(table)
    }

    fn value(field: &FieldPath, _: Kind, _: Kinds) -> String {
        value(field)
    }

    fn presence(field: &FieldPath) -> String {
        Self::kind(field)
    }

    fn kind(field: &FieldPath) -> String {
        format!("json_type(v, {})", path(field))
    }

    fn place(number: usize, _: &Bound) -> String {
        format!("?{number}")
    }

    fn is_one_of(value: &str, each: &[String]) -> String {
        format!("{value} IN ({})", each.join(", "))
    }

    /// Above all texts with this beginning, and below all others that are above it: no text has the byte 0xFF.
    fn begins(select: &mut Select<'_, Self>, value: &str, operand: &Operand, _: &Bound) -> String {
        let text = select.bind(Bound::Of(operand.clone(), Kind::Text));
        format!("({value} >= {text} AND {value} < {text} || CAST(x'FF' AS TEXT))")
    }

    fn item(_: &FieldPath, _: Kinds) -> String {
        "item".to_owned()
    }

    /// The members of an object are no items.
    fn some_item(field: &FieldPath, _: Kinds, passes: &str) -> String {
        let path = path(field);
        format!(
            "(json_type(v, {path}) <> 'object' AND EXISTS (SELECT 1 FROM json_each(v, {path}) AS item WHERE {passes}))"
        )
    }

    fn compared(
        select: &mut Select<'_, Self>,
        item: &str,
        test: &Test<Operand>,
        operand: &Operand,
        equal: bool,
    ) -> String {
        let rank = rank::<Self>(&format!("{item}.type"));
        let kind = select.bind(Bound::Rank(operand.clone()));
        let test = select.test(&format!("{item}.value"), test, &|operand| Bound::Any(operand.clone()));
        // Null is equal to null, which SQL denies.
        let null = if equal { format!(" OR {kind} = 1") } else { String::new() };
        format!("({rank} = {kind} AND ({test}{null}))")
    }

    fn item_begins(select: &mut Select<'_, Self>, item: &str, operand: &Operand) -> String {
        let any = Bound::Any(operand.clone());
        format!("{item}.type = 'text' AND {}", Self::begins(select, &format!("{item}.value"), operand, &any))
    }

    fn within_kinds(field: &FieldPath) -> Vec<String> {
        let (kind, value) = (Self::kind(field), value(field));
        vec![format!("CASE WHEN {kind} IN ('array', 'object') THEN NULL ELSE {value} END")]
    }

    fn sorted(expression: String, descending: bool) -> String {
        expression + if descending { " DESC" } else { "" }
    }

    /// Without a limit SQLite takes -1.
    fn part(skip: u64, limit: Option<u64>) -> String {
        let limit = limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        format!(" LIMIT {limit} OFFSET {skip}")
    }
}
