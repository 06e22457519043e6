//! Queries over documents in SQL: documents are JSON, and indexes are of expressions.
//!
//! A field is `v ->> path`, the same expression in queries and indexes, so that SQLite uses an index where it can. SQL
//! compares values of different kinds, and JSON's `true` is its 1: a value of a kind that a field never has is bound as
//! NULL, which passes no test. Of a field that may have several kinds, or lists, every item is tested with its kind, for which
//! SQLite has no index.

use prony_model::query::{Filter, Operand, QuerySpec, Test};
use prony_model::spec::{DocumentSpec, FieldPath, FieldValue, Kinds};

use crate::driver::Table;
use crate::own_query::{Bound, Kind, OwnQuery};

/// The name of a table as SQL. A collection's name has no other characters than letters, digits, `-` and `_`.
pub(super) fn name(table: &Table) -> String {
    table.name.as_ref().map_or_else(|| "records".to_owned(), |name| format!("\"records_{name}\""))
}

/// The statement that answers a query over such documents in a table, with values of a page.
pub(super) fn select(query: &QuerySpec, document: &DocumentSpec, page: &DocumentSpec, table: &Table) -> OwnQuery {
    let mut select = Select { document, page, bound: Vec::new() };
    let table = name(table);
    let filter = select.filter(&query.filter);
    let text = if query.count {
        format!("SELECT count(*) FROM {table} WHERE {filter}")
    } else {
        let mut order: Vec<String> = Vec::new();
        for key in &query.sort {
            let direction = if key.descending { " DESC" } else { "" };
            order.extend(select.sorted(&key.field).into_iter().map(|expression| expression + direction));
        }
        order.push("k".to_owned());
        // Without a limit SQLite takes -1.
        let limit = query.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let order = order.join(", ");
        format!("SELECT k, v FROM {table} WHERE {filter} ORDER BY {order} LIMIT {limit} OFFSET {}", query.skip)
    };
    OwnQuery { text, bound: select.bound }
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

/// The kinds of JSON by number, as far as they have an order; 0 where the field is missing.
fn rank(kind: &str) -> String {
    format!(
        "CASE {kind} WHEN 'null' THEN 1 WHEN 'true' THEN 2 WHEN 'false' THEN 2 WHEN 'integer' THEN 3 WHEN 'real' THEN 3 \
         WHEN 'text' THEN 4 WHEN 'array' THEN 5 WHEN 'object' THEN 6 ELSE 0 END"
    )
}

/// The only kind of value that a field has beside null, where there is one.
fn only_kind(kinds: Kinds) -> Option<Kind> {
    match kinds {
        Kinds { list: true, .. } | Kinds { fields: true, .. } => None,
        Kinds { flag: true, number: false, text: false, .. } => Some(Kind::Flag),
        Kinds { flag: false, number: true, text: false, .. } => Some(Kind::Number),
        Kinds { flag: false, number: false, text: true, .. } => Some(Kind::Text),
        _ => None,
    }
}

/// Joins expressions in a balanced tree: SQLite allows a depth of 1000.
fn nested(expressions: &[String], by: &str) -> String {
    match expressions {
        [only] => only.clone(),
        several => {
            let (left, right) = several.split_at(several.len() / 2);
            format!("({}{by}{})", nested(left, by), nested(right, by))
        }
    }
}

struct Select<'d> {
    document: &'d DocumentSpec,
    page: &'d DocumentSpec,
    bound: Vec<Bound>,
}

impl Select<'_> {
    fn bind(&mut self, bound: Bound) -> String {
        self.bound.push(bound);
        format!("?{}", self.bound.len())
    }

    fn filter(&mut self, filter: &Filter<Operand>) -> String {
        let mut joined = |filters: &[Filter<Operand>], by: &str, none: &str| {
            let each: Vec<String> = filters.iter().map(|filter| self.filter(filter)).collect();
            if each.is_empty() { none.to_owned() } else { nested(&each, by) }
        };
        match filter {
            Filter::All(filters) => joined(filters, " AND ", "true"),
            Filter::Any(filters) => joined(filters, " OR ", "false"),
            Filter::Field(field, Test::Exists(exists)) => {
                let kinds = self.document.kinds(field);
                // Of JSON's null, SQL's value is NULL too.
                let found = only_kind(kinds).filter(|_| !kinds.null).map(|_| value(field));
                let found = found.unwrap_or_else(|| format!("json_type(v, {})", path(field)));
                format!("{found} IS {}NULL", if *exists { "NOT " } else { "" })
            }
            Filter::Field(field, test) => match only_kind(self.document.kinds(field)) {
                Some(kind) if !self.finds_null(field, test) => {
                    self.test(&value(field), test, &|operand| Bound::Of(operand.clone(), kind))
                }
                _ => self.any_item(field, test),
            },
        }
    }

    /// Whether null may pass a test: SQL's NULL passes none.
    fn finds_null(&self, field: &FieldPath, test: &Test<Operand>) -> bool {
        let may_be_null = |operand: &&Operand| match operand {
            Operand::Constant(value) => *value == FieldValue::Null,
            Operand::Document(path) => self.page.kinds(path).null,
        };
        self.document.kinds(field).null && test.operands().iter().any(may_be_null)
    }

    /// A test of an expression; `of` says how operands are bound.
    fn test(&mut self, value: &str, test: &Test<Operand>, of: &dyn Fn(&Operand) -> Bound) -> String {
        let mut compared = |operator: &str, operand: &Operand| format!("{value} {operator} {}", self.bind(of(operand)));
        match test {
            Test::In(operands) => {
                let each: Vec<String> = operands.iter().map(|operand| self.bind(of(operand))).collect();
                format!("{value} IN ({})", each.join(", "))
            }
            Test::Gt(operand) => compared(">", operand),
            Test::Gte(operand) => compared(">=", operand),
            Test::Lt(operand) => compared("<", operand),
            Test::Lte(operand) => compared("<=", operand),
            Test::Between(from, to) => format!("({} AND {})", compared(">=", from), compared("<=", to)),
            // Above all texts with this beginning, and below all others that are above it: no text has the byte 0xFF.
            Test::Prefix(operand) => {
                let text = self.bind(Bound::Of(operand.clone(), Kind::Text));
                format!("({value} >= {text} AND {value} < {text} || CAST(x'FF' AS TEXT))")
            }
            Test::Exists(_) => "true".to_owned(),
        }
    }

    /// A test of a field that may be a list, or of several kinds: one item must pass it, of the operand's kind.
    fn any_item(&mut self, field: &FieldPath, test: &Test<Operand>) -> String {
        let rank = rank("item.type");
        let mut one = |test: Test<Operand>, operand: &Operand, equal: bool| {
            let kind = self.bind(Bound::Rank(operand.clone()));
            let test = self.test("item.value", &test, &|operand| Bound::Any(operand.clone()));
            // Null is equal to null, which SQL denies.
            let null = if equal { format!(" OR {kind} = 1") } else { String::new() };
            format!("({rank} = {kind} AND ({test}{null}))")
        };
        let passes = match test {
            Test::In(operands) => {
                let each = operands.iter().map(|operand| one(Test::In(vec![operand.clone()]), operand, true));
                let each: Vec<String> = each.collect();
                if each.is_empty() { "false".to_owned() } else { nested(&each, " OR ") }
            }
            Test::Between(from, to) => {
                let (low, high) = (one(Test::Gte(from.clone()), from, true), one(Test::Lte(to.clone()), to, true));
                format!("{low} AND {high}")
            }
            Test::Gte(operand) | Test::Lte(operand) => one(test.clone(), operand, true),
            Test::Gt(operand) | Test::Lt(operand) => one(test.clone(), operand, false),
            Test::Prefix(_) => format!(
                "item.type = 'text' AND {}",
                self.test("item.value", test, &|operand| Bound::Any(operand.clone()))
            ),
            Test::Exists(_) => "true".to_owned(),
        };
        let path = path(field);
        // The members of an object are no items.
        format!(
            "(json_type(v, {path}) <> 'object' AND EXISTS (SELECT 1 FROM json_each(v, {path}) AS item WHERE {passes}))"
        )
    }

    /// The expressions by which a field is sorted.
    fn sorted(&self, field: &FieldPath) -> Vec<String> {
        let (value, kinds) = (value(field), self.document.kinds(field));
        if only_kind(kinds).is_some() && !(kinds.null && kinds.missing) {
            return vec![value];
        }
        let kind = format!("json_type(v, {})", path(field));
        vec![rank(&kind), format!("CASE WHEN {kind} IN ('array', 'object') THEN NULL ELSE {value} END")]
    }
}
