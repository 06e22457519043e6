//! Reads `[store] indexes`, and checks them against documents and engine.

use super::data::{longest_key, longest_template};
use super::find::field;
use super::size::longest;
use crate::node::Node;
use crate::problem::{Problem, Problems, known_hint};
use crate::validate::via;
use prony_model::catalog::EngineFacts;
use prony_model::spec::{DataSpec, Encoding, FieldPath, FieldSpec, FieldValue, Generator, StoreSpec, ValueSpec};

/// The fields of each index.
pub(super) fn indexes(node: Option<&Node>, problems: &mut Problems<'_>) -> Vec<Vec<FieldPath>> {
    let mut all: Vec<Vec<FieldPath>> = Vec::new();
    let Some((node, list)) = node.and_then(|node| Some((node, node.list()?))) else { return all };
    if list.len() > StoreSpec::MOST_INDEXES {
        let message = format!("{} indexes are too many: a store has at most {}", list.len(), StoreSpec::MOST_INDEXES);
        refuse(node, message, problems);
    }
    for one in list {
        let names = one.list().unwrap_or_default();
        let fields: Vec<FieldPath> = names.iter().filter_map(|name| Some(field(name, false, problems)?.0)).collect();
        let twice = fields.iter().enumerate().any(|(at, field)| fields[..at].contains(field));
        let fault = match () {
            () if names.is_empty() => Some("an index needs a field"),
            () if twice => Some("the index has a field twice"),
            () if all.contains(&fields) => Some("the store has this index already"),
            () => None,
        };
        fault.into_iter().for_each(|message| refuse(one, message, problems));
        all.push(fields);
    }
    all
}

/// Indexes that the engine or the data do not allow.
pub(crate) fn fit(
    node: &Node,
    store: &StoreSpec,
    facts: &EngineFacts,
    data: Option<&DataSpec>,
    problems: &mut Problems<'_>,
) {
    let (Some(node), false) = (node.get("indexes"), store.indexes.is_empty()) else { return };
    if !facts.ordered {
        let message = format!("`{}` does not keep keys in order, so it cannot have indexes", store.engine);
        let problem = Problem::new(node.span.clone(), message);
        problems.add(via(node, problem.hint("leave the variant out with `[design] skip`")));
        return;
    }
    let Some(data) = data else { return };
    let ValueSpec::Document(document) = &data.value else {
        let message = "indexes need documents, but the values of `[data]` are bytes without fields";
        let problem = Problem::new(node.span.clone(), message);
        problems.add(via(node, problem.hint("write `[data.document]` with fields instead of `value`")));
        return;
    };
    if facts.own_documents && document.encoding != Encoding::Json {
        let message = format!("`{}` can index documents only if they are encoded as JSON", store.engine);
        problems
            .add(via(node, Problem::new(node.span.clone(), message).hint("write `encoding = \"json\"` in `[data]`")));
        return;
    }
    let known = document.paths();
    for (fields, at) in store.indexes.iter().zip(node.list().unwrap_or_default()) {
        for field in fields.iter().filter(|field| !known.contains(field)) {
            problems.add(via(at, unknown(field, &known, at.span.clone())));
        }
        for field in fields.iter().filter(|field| facts.own_documents && document.kinds(field).list) {
            let message =
                format!("`{}` has one entry per document in an index, and `{field}` may be a list", store.engine);
            let problem = Problem::new(at.span.clone(), message);
            problems.add(via(at, problem.hint("leave the index or the variant out")));
        }
        let widest = Widest { records: data.records };
        let (mut entry, mut entries) = (1 + longest_key(data), 1u64);
        for (bytes, items) in fields.iter().map(|field| widest.at(&document.fields, &field.0)) {
            (entry, entries) = (entry.saturating_add(bytes), entries.saturating_mul(items));
        }
        if entries > MOST_ENTRIES {
            let message =
                format!("a document may have {entries} entries in this index: at most {MOST_ENTRIES} are allowed");
            let problem = Problem::new(at.span.clone(), message);
            problems.add(via(at, problem.hint("index one list alone, or make the lists shorter with `items`")));
        }
        if let Some(most) = facts.max_key.filter(|most| entry > *most) {
            let message = format!(
                "entries of this index have up to {entry} bytes, with the document's key: `{}` allows at most {most} bytes",
                store.engine
            );
            let problem = Problem::new(at.span.clone(), message);
            problems.add(via(
                at,
                problem.hint("index a shorter field, shorten the texts, or leave the variant out with `[design] skip`"),
            ));
        }
    }
}

/// A field that no document has.
pub(crate) fn unknown(field: &FieldPath, known: &[FieldPath], span: std::ops::Range<usize>) -> Problem {
    let names: Vec<String> = known.iter().map(FieldPath::to_string).collect();
    let hint = known_hint(&field.to_string(), names.iter().map(String::as_str));
    Problem::new(span, format!("the documents of `[data.document]` have no field `{field}`")).maybe_hint(hint)
}

fn refuse(node: &Node, message: impl Into<String>, problems: &mut Problems<'_>) {
    problems.add(via(node, Problem::new(node.span.clone(), message.into())));
}

/// The most entries that a document may have in an index: prony encodes them together.
const MOST_ENTRIES: u64 = 1_000;

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
            Generator::List { of, items: (_, most) } => (self.made(of).0, (*most).max(1)),
            Generator::Items(items) => (widest(items.iter().map(|item| self.made(item))).0, items.len().max(1) as u64),
            Generator::Fields(_) => (1, 1),
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
