//! Decides whether a filter finds a document.

use std::cmp::Ordering;

use prony_model::query::{Filter, Test};
use prony_model::spec::FieldValue;

use super::compare::within_kind;

/// Whether the filter finds the document.
pub(super) fn finds(filter: &Filter<FieldValue>, document: &FieldValue) -> bool {
    match filter {
        Filter::All(filters) => filters.iter().all(|filter| finds(filter, document)),
        Filter::Any(filters) => filters.iter().any(|filter| finds(filter, document)),
        Filter::Field(path, test) => match (document.at(&path.0), test) {
            (value, Test::Exists(exists)) => value.is_some() == *exists,
            (None, _) => false,
            (Some(FieldValue::List(items)), test) => items.iter().any(|item| passes(test, item)),
            (Some(value), test) => passes(test, value),
        },
    }
}

fn passes(test: &Test<FieldValue>, value: &FieldValue) -> bool {
    let is = |other: &FieldValue, wanted: fn(Ordering) -> bool| within_kind(value, other).is_some_and(wanted);
    match test {
        Test::In(values) => values.iter().any(|other| is(other, Ordering::is_eq)),
        Test::Gt(other) => is(other, Ordering::is_gt),
        Test::Gte(other) => is(other, Ordering::is_ge),
        Test::Lt(other) => is(other, Ordering::is_lt),
        Test::Lte(other) => is(other, Ordering::is_le),
        Test::Between(from, to) => is(from, Ordering::is_ge) && is(to, Ordering::is_le),
        Test::Prefix(FieldValue::Text(prefix)) => {
            matches!(value, FieldValue::Text(text) if text.starts_with(prefix.as_str()))
        }
        Test::Prefix(_) => false,
        Test::Exists(exists) => *exists,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(json: &str) -> FieldValue {
        serde_json::from_str(json).unwrap()
    }

    fn field(path: &str, test: Test<FieldValue>) -> Filter<FieldValue> {
        Filter::Field(path.parse().unwrap(), test)
    }

    #[test]
    fn tests_compare_values_of_one_kind() {
        let text = |text: &str| FieldValue::Text(text.to_owned());
        let one = document(r#"{"n":5,"t":"abc","f":true,"z":null,"in":{"x":1.5},"list":[1,"b"],"ends":[0,5]}"#);
        let found = [
            field("n", Test::In(vec![FieldValue::Int(4), FieldValue::Float(5.0)])),
            field("n", Test::Gte(FieldValue::Int(5))),
            field("in.x", Test::Lt(FieldValue::Int(2))),
            field("t", Test::Prefix(text("ab"))),
            field("z", Test::In(vec![FieldValue::Null])),
            field("list", Test::In(vec![text("b")])),
            field("list", Test::Exists(true)),
            field("none", Test::Exists(false)),
            field("n", Test::Between(FieldValue::Int(5), FieldValue::Float(5.5))),
            Filter::Any(vec![field("none", Test::Gt(FieldValue::Null)), Filter::All(Vec::new())]),
        ];
        for filter in &found {
            assert!(finds(filter, &one), "{filter:?}");
        }
        let not = [
            field("n", Test::Gt(text("4"))),
            field("n", Test::Lt(text("6"))),
            field("f", Test::In(vec![FieldValue::Int(1)])),
            field("none", Test::In(vec![FieldValue::Null])),
            field("in", Test::Gte(FieldValue::Null)),
            field("list", Test::Gt(FieldValue::Int(1))),
            field("n", Test::Prefix(FieldValue::Int(5))),
            field("ends", Test::Between(FieldValue::Int(1), FieldValue::Int(3))),
            Filter::Any(Vec::new()),
        ];
        for filter in &not {
            assert!(!finds(filter, &one), "{filter:?}");
        }
    }
}
