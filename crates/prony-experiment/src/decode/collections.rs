//! Finds the collections that phases and indexes name.

use std::ops::Range;

use super::phase::Placed;
use crate::grammar;
use crate::node::{Entry, Node};
use crate::problem::{At, Problem, Problems, known_hint};
use prony_model::spec::{Action, CollectionSpec, DocumentSpec, FieldPath};

/// A table of the file that describes a collection: `[data]`, or `[data.collection.NAME]`, or a table in it.
pub(super) fn section(collection: &CollectionSpec, table: &str) -> String {
    let of = collection.name.as_ref().map(|name| format!(".collection.{name}")).unwrap_or_default();
    let inner = if table.is_empty() { String::new() } else { format!(".{table}") };
    format!("[data{of}{inner}]")
}

/// The table that describes a collection, in quotes.
pub(super) fn described(collection: &CollectionSpec) -> String {
    format!("`{}`", section(collection, ""))
}

/// The collection with this name, or without a name the only one; where there is none, that is a fault of what asks for it.
pub(crate) fn found<'d>(
    name: Option<&str>,
    data: &'d [CollectionSpec],
    at: impl At,
    problems: &mut Problems<'_>,
) -> Option<&'d CollectionSpec> {
    let found = match (name, data) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(name), _) => data.iter().find(|collection| collection.name.as_deref() == Some(name)),
    };
    if found.is_some() {
        return found;
    }
    let names: Vec<String> = data.iter().filter_map(|collection| collection.name.clone()).collect();
    problems.add(match name {
        None => Problem::new(at, "the file has several collections, and `collection` is missing here")
            .hint(format!("write `collection = \"{}\"`", names.first().map_or("NAME", String::as_str))),
        Some(name) if names.is_empty() => {
            let message = format!("there is no collection `{name}`: the records of `[data]` have no name");
            Problem::new(at, message).hint("leave `collection` out, or write `[data.collection.NAME]`")
        }
        Some(name) => {
            let hint = known_hint(name, names.iter().map(String::as_str));
            Problem::new(at, format!("unknown collection `{name}`")).maybe_hint(hint)
        }
    });
    None
}

/// A field that no document has.
pub(crate) fn unknown(field: &FieldPath, data: &CollectionSpec, known: &[FieldPath], at: impl At) -> Problem {
    let names: Vec<String> = known.iter().map(FieldPath::to_string).collect();
    let hint = known_hint(&field.to_string(), names.iter().map(String::as_str));
    let file = data.document().and_then(|document| document.file.as_ref());
    let section = section(data, if file.is_some() { "" } else { "document" });
    let problem = Problem::new(at, format!("the documents of `{section}` have no field `{field}`"));
    match file.and_then(|file| file.unnamed.as_ref()).filter(|unnamed| **unnamed == field.to_string()) {
        Some(_) => {
            problem.hint("a field with a full stop in its name cannot be named: it separates names of nested fields")
        }
        None => problem.maybe_hint(hint),
    }
}

/// Finds the collections of the phases' operations and queries.
pub(crate) fn settle(phases: &mut [Placed], data: &[CollectionSpec], problems: &mut Problems<'_>) {
    for placed in phases {
        for (action, written) in placed.actions_mut() {
            let Some(ops) = action.ops_mut() else { continue };
            let at = written.place("collection");
            let Some(collection) = found(ops.collection.as_deref(), data, at, problems) else { continue };
            ops.collection.clone_from(&collection.name);
            queries(action, written, data, problems);
        }
    }
}

/// Queries are over documents, and name fields that these have: any other field finds nothing.
fn queries(action: &mut Action, written: &Entry, data: &[CollectionSpec], problems: &mut Problems<'_>) {
    let Action::Find(find) = action else { return };
    let places = written.node.get("query").map(Node::items).unwrap_or_default();
    let page = data.iter().find(|collection| collection.name == find.ops.collection);
    for (number, query) in find.queries.iter_mut().enumerate() {
        let queried = match query.collection.as_deref() {
            None => page,
            named => found(named, data, places[number].span_of("collection"), problems),
        };
        let (Some(page), Some(queried)) = (page, queried) else { return };
        query.collection.clone_from(&queried.name);
        let compared = query.compared();
        let page = Some((page, compared)).filter(|(_, compared)| !compared.is_empty());
        for (collection, fields) in std::iter::once((queried, query.fields())).chain(page) {
            let Some(document) = collection.document() else {
                return problems.add(no_documents(collection, written.place("collection")));
            };
            let known = document.paths();
            let at = places[number].span_of("where");
            for field in fields.into_iter().filter(|field| !known.contains(field)) {
                let test = unknown_test(field, document, at.clone());
                problems.add(test.unwrap_or_else(|| unknown(field, collection, &known, at.clone())));
            }
        }
    }
}

/// What was written as a test, of a field that has no fields inside.
fn unknown_test(field: &FieldPath, document: &DocumentSpec, at: Range<usize>) -> Option<Problem> {
    let (name, above) = field.0.split_last()?;
    let above = FieldPath(above.into());
    let kinds = document.kinds(&above);
    if above.0.is_empty() || kinds.fields || !document.paths().contains(&above) {
        return None;
    }
    let tests = known_hint(name, grammar::TEST.all().map(|test| test.name));
    Some(Problem::new(at, format!("unknown test `{name}` of the field `{above}`")).maybe_hint(tests))
}

fn no_documents(collection: &CollectionSpec, at: Range<usize>) -> Problem {
    let message =
        format!("`find` needs documents, but the values of {} are bytes without fields", described(collection));
    Problem::new(at, message)
        .hint(format!("write `{}` with fields instead of `value`", section(collection, "document")))
}
