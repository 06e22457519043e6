//! Reads `[store] indexes`, and checks them against documents and engine.

use super::collections;
use super::data::{longest_key, longest_template};
use super::find::field;
use super::size::longest;
use crate::node::{Entry, Node};
use crate::problem::{Problem, Problems};
use prony_model::catalog::{EngineFacts, NO_QUERIES};
use prony_model::spec::{
    CollectionSpec, Encoding, FieldPath, FieldSpec, FieldValue, Generator, IndexSpec, KeySpec, StoreSpec,
};

/// Each index as it is written, with the name of its collection where the file says it.
fn written(node: &Node) -> Vec<(Option<&Entry>, &Node)> {
    match node.table() {
        Some(entries) => entries
            .iter()
            .flat_map(|entry| entry.node.list().unwrap_or_default().iter().map(move |one| (Some(entry), one)))
            .collect(),
        None => node.list().unwrap_or_default().iter().map(|one| (None, one)).collect(),
    }
}

/// The indexes.
pub(super) fn indexes(node: Option<&Node>, problems: &mut Problems<'_>) -> Vec<IndexSpec> {
    let mut all: Vec<IndexSpec> = Vec::new();
    let Some(node) = node else { return all };
    let list = written(node);
    if list.len() > StoreSpec::MOST_INDEXES {
        let message = format!("{} indexes are too many: a store has at most {}", list.len(), StoreSpec::MOST_INDEXES);
        refuse(node, message, problems);
    }
    for (collection, one) in list {
        let names = one.list().unwrap_or_default();
        let fields: Vec<FieldPath> = names.iter().filter_map(|name| Some(field(name, false, problems)?.0)).collect();
        let twice = fields.iter().enumerate().any(|(at, field)| fields[..at].contains(field));
        let index = IndexSpec { collection: collection.map(|entry| entry.key.clone()), fields };
        let fault = match () {
            () if names.is_empty() => Some("an index needs a field"),
            () if twice => Some("the index has a field twice"),
            () if all.contains(&index) => Some("the store has this index already"),
            () => None,
        };
        fault.into_iter().for_each(|message| refuse(one, message, problems));
        all.push(index);
    }
    all
}

/// Finds the collection of each index, and refuses those that the engine or the data do not allow.
pub(crate) fn fit(
    node: &Node,
    store: &mut StoreSpec,
    facts: &EngineFacts,
    data: Option<&[CollectionSpec]>,
    problems: &mut Problems<'_>,
) {
    let (Some(node), false) = (node.get("indexes"), store.indexes.is_empty()) else { return };
    if !facts.can.ordered {
        let message = format!("`{}` does not keep keys in order, so it cannot have indexes", store.engine);
        problems.fault(node, message, "leave the variant out with `[design] skip`");
        return;
    }
    let Some(data) = data else { return };
    let places = written(node);
    for ((entry, _), index) in places.iter().zip(&mut store.indexes) {
        if entry.is_none() && data.len() != 1 {
            let hint = "write a table with the indexes of each collection: `indexes = { NAME = [[\"FIELD\"]] }`";
            return problems.fault(node, SEVERAL, hint);
        }
        let at = (node, entry.map_or(&node.span, |entry| &entry.key_span).clone());
        let name = entry.map(|entry| entry.key.as_str());
        let Some(collection) = collections::found(name, data, at, problems) else { return };
        index.collection.clone_from(&collection.name);
    }
    for collection in data {
        let own: Vec<(&Node, &[FieldPath])> = places
            .iter()
            .zip(&store.indexes)
            .filter(|(_, index)| index.collection == collection.name)
            .map(|((_, at), index)| (*at, index.fields.as_slice()))
            .collect();
        if !own.is_empty() {
            of_collection(node, collection, &own, (&store.engine, facts), problems);
        }
    }
}

/// Where indexes of several collections are one list.
const SEVERAL: &str = "the file has several collections, and this does not say of which the indexes are";

/// Refuses indexes of a collection that the engine or the documents do not allow.
fn of_collection(
    node: &Node,
    data: &CollectionSpec,
    indexes: &[(&Node, &[FieldPath])],
    (engine, facts): (&str, &EngineFacts),
    problems: &mut Problems<'_>,
) {
    let of = collections::described(data);
    let Some(document) = data.document() else {
        let hint = format!("write `{}` with fields instead of `value`", collections::section(data, "document"));
        problems.fault(node, format!("indexes need documents, but the values of {of} are bytes without fields"), hint);
        return;
    };
    if !facts.queries() {
        problems.fault(node, format!("`{engine}` {NO_QUERIES}"), "leave the indexes or the variant out");
        return;
    }
    if facts.can.own_documents && document.encoding != Encoding::Json {
        let message = format!("`{engine}` can index documents only if they are encoded as JSON");
        problems.fault(node, message, format!("write `encoding = \"json\"` in {of}"));
        return;
    }
    let known = document.paths();
    for &(at, fields) in indexes {
        for field in fields.iter().filter(|field| !known.contains(field)) {
            problems.add(collections::unknown(field, data, &known, at));
        }
        // Of `a.b`, `a` too.
        let leads =
            |field: &FieldPath| (1..=field.0.len()).map(|end| FieldPath(field.0[..end].into())).collect::<Vec<_>>();
        let lists = fields.iter().flat_map(leads).filter(|field| facts.can.own_documents && document.kinds(field).list);
        for field in lists {
            let message = format!("`{engine}` has one entry per document in an index, and `{field}` may be a list");
            problems.fault(at, message, "leave the index or the variant out");
        }
        let widest = Widest { records: data.records };
        let (mut entry, mut entries) = (1 + longest_key(&data.key, data.records), 1u64);
        if facts.can.stores_values {
            entry += OWN_HEAD + OWN_VALUE * (fields.len() as u64 + 1);
        }
        for (bytes, items) in fields.iter().map(|field| widest.at(&document.fields, &field.0)) {
            (entry, entries) = (entry.saturating_add(bytes), entries.saturating_mul(items));
        }
        if entries > MOST_ENTRIES {
            let message =
                format!("a document may have {entries} entries in this index: at most {MOST_ENTRIES} are allowed");
            problems.fault(at, message, "index one list alone, or make the lists shorter with `items`");
        }
        if let Some(most) = facts.can.max_key.filter(|most| entry > *most) {
            let message = format!(
                "entries of this index have up to {entry} bytes, with the document's key: `{engine}` allows at most {most} bytes"
            );
            let hint = "index a shorter field, shorten the texts, or leave the variant out with `[design] skip`";
            problems.fault(at, message, hint);
        }
    }
}

fn refuse(node: &Node, message: impl Into<String>, problems: &mut Problems<'_>) {
    problems.add(Problem::new(node, message.into()));
}

/// The most entries that a document may have in an index: prony encodes them together.
const MOST_ENTRIES: u64 = 1_000;

/// The head of an entry with a field for what is missing, in PostgreSQL.
const OWN_HEAD: u64 = 16;

/// What a value has there at most beyond its bytes in an entry of prony's: lengths, alignment, and the digits of a number.
const OWN_VALUE: u64 = 24;

/// Kind and number.
const NUMBER: u64 = 11;

/// Kind and end of a text.
const TEXT: u64 = 3;

/// The greatest length in bytes of a field's value in an entry, and the most items that it has.
struct Widest {
    records: u64,
}

impl Widest {
    fn at(&self, fields: &[FieldSpec], path: &[String]) -> (u64, u64) {
        let field = path.split_first().and_then(|(name, rest)| Some((fields.iter().find(|f| f.name == *name)?, rest)));
        match field.map(|(field, rest)| (&field.value, rest)) {
            Some((Generator::Fields(inner), rest)) => self.at(inner, rest),
            Some((Generator::InFile(found), rest)) if !rest.is_empty() => self.at(&found.fields, rest),
            Some((Generator::Constant(value), rest)) => of_value(value.at(rest)),
            Some((Generator::Cycle(values), rest)) => widest(values.iter().map(|value| of_value(value.at(rest)))),
            Some((generator, _)) => self.made(generator),
            None => (1, 1),
        }
    }

    fn made(&self, generator: &Generator) -> (u64, u64) {
        let text = |bytes: u64| (bytes.saturating_add(TEXT), 1);
        match generator {
            Generator::Constant(value) => of_value(Some(value)),
            Generator::Cycle(values) => widest(values.iter().map(|value| of_value(Some(value)))),
            Generator::Template(parts) => {
                text(longest_template(parts, 0, self.records) + parts.iter().map(|part| zeros(part)).sum::<u64>())
            }
            Generator::Sequence { .. } | Generator::Uniform(..) | Generator::Zipfian(..) => (NUMBER, 1),
            Generator::Text { bytes, .. } => text(longest(bytes).as_bytes()),
            Generator::Words { count, .. } => text(count.saturating_mul(11)),
            Generator::Uuid => text(36),
            Generator::Date { .. } => text(20),
            Generator::Reference(to) if matches!(to.key, KeySpec::Integer { .. }) => (NUMBER, 1),
            Generator::Reference(to) => text(longest_key(&to.key, to.records)),
            Generator::List { of, items: (_, most) } => (self.made(of).0, (*most).max(1)),
            Generator::Items(items) => (widest(items.iter().map(|item| self.made(item))).0, items.len().max(1) as u64),
            Generator::Fields(_) => (1, 1),
            Generator::InFile(found) => (NUMBER.max(found.longest.saturating_add(TEXT)), found.items.max(1)),
        }
    }
}

fn widest(each: impl Iterator<Item = (u64, u64)>) -> (u64, u64) {
    each.fold((1, 1), |(bytes, items), (b, i)| (bytes.max(b), items.max(i)))
}

fn of_value(value: Option<&FieldValue>) -> (u64, u64) {
    match value {
        Some(FieldValue::Int(_) | FieldValue::Float(_)) => (NUMBER, 1),
        Some(FieldValue::Text(text)) => (text.len() as u64 + zeros(text) + TEXT, 1),
        Some(FieldValue::List(items)) => {
            (widest(items.iter().map(|item| of_value(Some(item)))).0, items.len().max(1) as u64)
        }
        _ => (2, 1),
    }
}

/// Bytes that take two in an entry.
fn zeros(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == 0).count() as u64
}
