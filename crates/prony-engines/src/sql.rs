//! Queries over documents in SQL, in the dialects of engines that answer them.
//!
//! A field with values of one kind is an expression of SQL, the same in queries and indexes, so that the engine uses an index where
//! it can; a value of another kind is bound as NULL, which passes no test. Of a field that may have several kinds, or lists, every
//! item is tested with its kind.

use std::marker::PhantomData;

use prony_model::query::{Filter, Operand, QuerySpec, Test};
use prony_model::spec::{DocumentSpec, FieldPath, FieldValue, Kinds};

use crate::driver::Table;
use crate::own_query::{Bound, Kind, OwnQuery};

/// How an engine writes what its SQL has of its own.
pub(crate) trait Dialect: Sized {
    /// The engine's names of the kinds of JSON, each with its place in a sort; 0 is that of a missing field.
    const KINDS: &'static [(&'static str, u8)];

    /// The name of a table.
    fn table(table: &Table) -> String;

    /// The value of a field whose values have only this kind beside null. JSON's null is NULL, as is what is missing.
    fn value(field: &FieldPath, kind: Kind, kinds: Kinds) -> String;

    /// What is NULL only where a document does not have the field.
    fn presence(field: &FieldPath) -> String;

    /// The engine's name of the kind of a field's value.
    fn kind(field: &FieldPath) -> String;

    /// The place of what is bound, from number 1, with the type of SQL that it has.
    fn place(number: usize, bound: &Bound) -> String;

    /// A test for equality with one of these; there may be none.
    fn is_one_of(value: &str, each: &[String]) -> String;

    /// A test of a text's beginning, of an expression with which this would be compared.
    fn begins(select: &mut Select<'_, Self>, value: &str, operand: &Operand, compared: &Bound) -> String;

    /// A test for equality of a field that may have several kinds, where the dialect has one that needs not test the kinds.
    fn equal(_select: &mut Select<'_, Self>, _field: &FieldPath, _test: &Test<Operand>) -> Option<String> {
        None
    }

    /// What stands for an item of the field: the value itself where it is no list.
    fn item(field: &FieldPath, kinds: Kinds) -> String;

    /// Whether some item passes a test.
    fn some_item(field: &FieldPath, kinds: Kinds, passes: &str) -> String;

    /// A test of an item with one operand, which has its kind; null passes where it is `equal` to null.
    fn compared(
        select: &mut Select<'_, Self>,
        item: &str,
        test: &Test<Operand>,
        operand: &Operand,
        equal: bool,
    ) -> String;

    /// A test of the beginning of an item.
    fn item_begins(select: &mut Select<'_, Self>, item: &str, operand: &Operand) -> String;

    /// By what values of one kind are sorted, where a field has several.
    fn within_kinds(field: &FieldPath) -> Vec<String>;

    /// An expression by which rows are sorted: NULL comes first, and last where it descends.
    fn sorted(expression: String, descending: bool) -> String;

    /// Which of the sorted rows are returned.
    fn part(skip: u64, limit: Option<u64>) -> String;
}

/// The statement that answers a query over such documents in a table, with values of a page.
pub(crate) fn select<D: Dialect>(
    query: &QuerySpec,
    document: &DocumentSpec,
    page: &DocumentSpec,
    table: &Table,
) -> OwnQuery {
    let mut select = Select::<D> { document, page, bound: Vec::new(), dialect: PhantomData };
    let table = D::table(table);
    let filter = select.filter(&query.filter);
    let text = if query.count {
        format!("SELECT count(*) FROM {table} WHERE {filter}")
    } else {
        let mut order: Vec<String> = Vec::new();
        for key in &query.sort {
            let each = select.sorted(&key.field).into_iter();
            order.extend(each.map(|expression| D::sorted(expression, key.descending)));
        }
        order.push("k".to_owned());
        let (order, part) = (order.join(", "), D::part(query.skip, query.limit));
        format!("SELECT k, v FROM {table} WHERE {filter} ORDER BY {order}{part}")
    };
    OwnQuery { text, bound: select.bound }
}

/// The only kind of value that a field has beside null, where there is one.
pub(crate) const fn only_kind(kinds: Kinds) -> Option<Kind> {
    match kinds {
        Kinds { list: true, .. } | Kinds { fields: true, .. } => None,
        Kinds { flag: true, number: false, text: false, .. } => Some(Kind::Flag),
        Kinds { flag: false, number: true, text: false, .. } => Some(Kind::Number),
        Kinds { flag: false, number: false, text: true, .. } => Some(Kind::Text),
        _ => None,
    }
}

/// The place of a kind in a sort.
pub(crate) fn rank<D: Dialect>(kind: &str) -> String {
    let places: Vec<String> = D::KINDS.iter().map(|(name, place)| format!("WHEN '{name}' THEN {place}")).collect();
    format!("CASE {kind} {} ELSE 0 END", places.join(" "))
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

/// A statement that is written.
pub(crate) struct Select<'d, D> {
    document: &'d DocumentSpec,
    page: &'d DocumentSpec,
    bound: Vec<Bound>,
    dialect: PhantomData<D>,
}

impl<D: Dialect> Select<'_, D> {
    /// Binds a value; its place.
    pub(crate) fn bind(&mut self, bound: Bound) -> String {
        self.bound.push(bound);
        D::place(self.bound.len(), &self.bound[self.bound.len() - 1])
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
                let kinds = self.kinds(field);
                // Of JSON's null, SQL's value is NULL too.
                let found = only_kind(kinds).filter(|_| !kinds.null).map(|kind| D::value(field, kind, kinds));
                let found = found.unwrap_or_else(|| D::presence(field));
                format!("{found} IS {}NULL", if *exists { "NOT " } else { "" })
            }
            Filter::Field(field, test) => {
                let kinds = self.kinds(field);
                match only_kind(kinds) {
                    Some(kind) if !self.finds_null(field, test) => {
                        self.test(&D::value(field, kind, kinds), test, &|operand| Bound::Of(operand.clone(), kind))
                    }
                    _ => D::equal(self, field, test).unwrap_or_else(|| self.any_item(field, test)),
                }
            }
        }
    }

    /// What documents may have in a field.
    pub(crate) fn kinds(&self, field: &FieldPath) -> Kinds {
        self.document.kinds(field)
    }

    /// What an operand may be.
    pub(crate) fn operand_kinds(&self, operand: &Operand) -> Kinds {
        match operand {
            Operand::Constant(value) => {
                let mut kinds = Kinds::default();
                kinds.add_value(Some(value));
                kinds
            }
            Operand::Document(path) => self.page.kinds(path),
        }
    }

    /// Whether null may pass a test: SQL's NULL passes none.
    fn finds_null(&self, field: &FieldPath, test: &Test<Operand>) -> bool {
        let may_be_null = |operand: &&Operand| match operand {
            Operand::Constant(value) => *value == FieldValue::Null,
            Operand::Document(path) => self.page.kinds(path).null,
        };
        self.kinds(field).null && test.operands().iter().any(may_be_null)
    }

    /// A test of an expression; `of` says how operands are bound.
    pub(crate) fn test(&mut self, value: &str, test: &Test<Operand>, of: &dyn Fn(&Operand) -> Bound) -> String {
        let mut compared = |operator: &str, operand: &Operand| format!("{value} {operator} {}", self.bind(of(operand)));
        match test {
            Test::In(operands) => {
                let each: Vec<String> = operands.iter().map(|operand| self.bind(of(operand))).collect();
                D::is_one_of(value, &each)
            }
            Test::Gt(operand) => compared(">", operand),
            Test::Gte(operand) => compared(">=", operand),
            Test::Lt(operand) => compared("<", operand),
            Test::Lte(operand) => compared("<=", operand),
            Test::Between(from, to) => format!("({} AND {})", compared(">=", from), compared("<=", to)),
            Test::Prefix(operand) => D::begins(self, value, operand, &of(operand)),
            Test::Exists(_) => "true".to_owned(),
        }
    }

    /// A test of a field that may be a list, or of several kinds: one item must pass it, of the operand's kind.
    fn any_item(&mut self, field: &FieldPath, test: &Test<Operand>) -> String {
        let kinds = self.kinds(field);
        let item = D::item(field, kinds);
        let mut one = |test: &Test<Operand>, operand: &Operand, equal| D::compared(self, &item, test, operand, equal);
        let passes = match test {
            Test::In(operands) => {
                let each = operands.iter().map(|operand| one(&Test::In(vec![operand.clone()]), operand, true));
                let each: Vec<String> = each.collect();
                if each.is_empty() { "false".to_owned() } else { nested(&each, " OR ") }
            }
            Test::Between(from, to) => {
                let (low, high) = (one(&Test::Gte(from.clone()), from, true), one(&Test::Lte(to.clone()), to, true));
                format!("{low} AND {high}")
            }
            Test::Gte(operand) | Test::Lte(operand) => one(test, operand, true),
            Test::Gt(operand) | Test::Lt(operand) => one(test, operand, false),
            Test::Prefix(operand) => D::item_begins(self, &item, operand),
            Test::Exists(_) => "true".to_owned(),
        };
        D::some_item(field, kinds, &passes)
    }

    /// The expressions by which a field is sorted.
    fn sorted(&self, field: &FieldPath) -> Vec<String> {
        let kinds = self.kinds(field);
        match only_kind(kinds) {
            Some(kind) if !(kinds.null && kinds.missing) => vec![D::value(field, kind, kinds)],
            _ => {
                let within = D::within_kinds(field).into_iter();
                [rank::<D>(&D::kind(field))].into_iter().chain(within).collect()
            }
        }
    }
}
