//! Reads `find`: queries over documents.

use super::View;
use super::ops::ops;
use super::view::unescaped;
use crate::calendar::in_utc;
use crate::grammar;
use crate::node::{Node, Value};
use crate::placeholder::{Part, split};
use crate::problem::{Problem, Problems};
use crate::validate::is_test;
use prony_model::spec::{FieldPath, FieldValue, Filter, FindSpec, Operand, QuerySpec, SortKey, Test};

/// The queries and how they are repeated.
pub(super) fn find(node: &Node, problems: &mut Problems<'_>) -> Option<FindSpec> {
    let ops = ops("find", node, &grammar::FIND, problems)?;
    let place = node.get("query")?;
    let queries: Vec<QuerySpec> = match place.list() {
        Some(list) => list.iter().map(|one| query(one, problems)).collect::<Option<_>>()?,
        None => vec![query(place, problems)?],
    };
    if queries.is_empty() {
        problems.add(Problem::new(place, "`query` is empty: the operations would do nothing"));
    }
    Some(FindSpec { ops, queries })
}

fn query(node: &Node, problems: &mut Problems<'_>) -> Option<QuerySpec> {
    let view = View::new(Some(node), &grammar::QUERY);
    let count = view.flag("count").unwrap_or(false);
    for key in ["sort", "skip", "limit", "select"].into_iter().filter(|key| count && view.get(key).is_some()) {
        problems.fault(view.key_span(key), format!("`{key}` has no effect on `count`"), "leave one of the two out");
    }
    let paths = |key: &str, problems: &mut Problems<'_>| -> Option<Vec<(FieldPath, bool)>> {
        view.list_of(key).iter().map(|one| field(one, key == "sort", problems)).collect()
    };
    Some(QuerySpec {
        collection: view.text("collection"),
        filter: match view.get("where") {
            Some(node) => fields(&[], node, problems)?,
            None => Filter::All(Vec::new()),
        },
        sort: paths("sort", problems)?.into_iter().map(|(field, descending)| SortKey { field, descending }).collect(),
        skip: view.whole("skip").unwrap_or(0),
        limit: view.whole("limit"),
        select: paths("select", problems)?.into_iter().map(|(field, _)| field).collect(),
        count,
    })
}

/// A field's path, and whether `-` stands before it, where that has a meaning.
pub(super) fn field(node: &Node, signed: bool, problems: &mut Problems<'_>) -> Option<(FieldPath, bool)> {
    let text = unescaped(node)?;
    let (descending, name) = match text.strip_prefix('-') {
        Some(name) if signed => (true, name),
        _ => (false, text.as_str()),
    };
    match name.parse() {
        Ok(path) => Some((path, descending)),
        Err(error) => {
            let message = format!("`{text}` names no field: {error}");
            problems.fault(node, message, "write names with full stops between them, as `internal.type`");
            None
        }
    }
}

/// What stands at a path: fields inside, tests of the field, or a value that it must equal.
fn filter(path: &[String], node: &Node, problems: &mut Problems<'_>) -> Option<Filter<Operand>> {
    let here = || FieldPath(path.into());
    let Some(entries) = node.table() else {
        return Some(Filter::Field(here(), Test::In(vec![operand(node, problems)?])));
    };
    if !is_test(node, &grammar::TEST) {
        return fields(path, node, problems);
    }
    let mut all = Vec::new();
    for entry in entries {
        all.push(Filter::Field(here(), test(&entry.key, &entry.node, problems)?));
    }
    Some(one_or_all(all))
}

/// The fields at a path, and what they must be.
fn fields(path: &[String], node: &Node, problems: &mut Problems<'_>) -> Option<Filter<Operand>> {
    let entries = node.table()?;
    if entries.is_empty() && !path.is_empty() {
        problems.add(Problem::new(node, format!("`{}` has no test", path.join("."))));
    }
    let mut all = Vec::new();
    for entry in entries {
        let several = |problems: &mut Problems<'_>| -> Option<Vec<Filter<Operand>>> {
            let list = entry.node.list()?;
            not_empty(&entry.key, &entry.node, list.len(), problems);
            list.iter().map(|one| fields(path, one, problems)).collect()
        };
        all.push(match entry.key.as_str() {
            "and" => Filter::All(several(problems)?),
            "or" => Filter::Any(several(problems)?),
            name => {
                let inner: Vec<String> = path.iter().cloned().chain(name.split('.').map(str::to_owned)).collect();
                if inner.iter().any(String::is_empty) {
                    let message = format!("`{name}` names no field: a field's name is empty");
                    problems.add(Problem::new((node, entry.key_span.clone()), message));
                    return None;
                }
                filter(&inner, &entry.node, problems)?
            }
        });
    }
    Some(one_or_all(all))
}

fn not_empty(key: &str, node: &Node, length: usize, problems: &mut Problems<'_>) {
    if length == 0 {
        problems.add(Problem::new(node, format!("`{key}` is empty, so no document fits")));
    }
}

fn one_or_all(mut all: Vec<Filter<Operand>>) -> Filter<Operand> {
    if all.len() == 1 { all.remove(0) } else { Filter::All(all) }
}

fn test(key: &str, node: &Node, problems: &mut Problems<'_>) -> Option<Test<Operand>> {
    let list = |problems: &mut Problems<'_>| -> Option<Vec<Operand>> {
        node.list()?.iter().map(|one| operand(one, problems)).collect()
    };
    Some(match key {
        "in" => {
            let values = list(problems)?;
            not_empty(key, node, values.len(), problems);
            Test::In(values)
        }
        "between" => {
            let [from, to] = <[Operand; 2]>::try_from(list(problems)?).ok()?;
            Test::Between(from, to)
        }
        "exists" => Test::Exists(matches!(node.value, Value::Flag(true))),
        "eq" => Test::In(vec![operand(node, problems)?]),
        "gt" => Test::Gt(operand(node, problems)?),
        "gte" => Test::Gte(operand(node, problems)?),
        "lt" => Test::Lt(operand(node, problems)?),
        "lte" => Test::Lte(operand(node, problems)?),
        _ => Test::Prefix(operand(node, problems)?),
    })
}

fn operand(node: &Node, problems: &mut Problems<'_>) -> Option<Operand> {
    Some(Operand::Constant(match &node.value {
        Value::Flag(flag) => FieldValue::Bool(*flag),
        Value::Whole(number) => FieldValue::Int(*number),
        Value::Number(number) => FieldValue::Float(*number),
        Value::Date(date) => match in_utc(date) {
            Some(text) => FieldValue::Text(text),
            None => {
                problems.add(Problem::new(
                    node,
                    format!("`{date}` is not a time in whole seconds from the year 0 to 9999-12-30"),
                ));
                return None;
            }
        },
        Value::Text(text) => return of_text(node, text, problems),
        Value::List(_) | Value::Table(_) => return None,
    }))
}

/// `{doc.FIELD}` alone is the field's value, with its kind; any other text is itself.
fn of_text(node: &Node, text: &str, problems: &mut Problems<'_>) -> Option<Operand> {
    let parts = split(text).ok()?;
    let of_document = |part: &Part| matches!(part, Part::Hole(name, _) if name.starts_with("doc."));
    match parts.as_slice() {
        [Part::Hole(name, _)] => match name.strip_prefix("doc.")?.parse() {
            Ok(path) => Some(Operand::Document(path)),
            Err(error) => {
                problems.add(Problem::new(node, format!("`{{{name}}}` names no field: {error}")));
                None
            }
        },
        parts if parts.iter().any(of_document) => {
            problems.add(Problem::new(node, "`{doc.FIELD}` must be the whole text, without other characters"));
            None
        }
        _ => unescaped(node).map(|text| Operand::Constant(FieldValue::Text(text))),
    }
}
