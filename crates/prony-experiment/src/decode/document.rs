//! Reads `document` of `[data]`.

use std::path::Path;

use super::program::Place;
use super::size::size;
use super::view::{template, unescaped};
use super::{View, collections};
use crate::calendar::seconds;
use crate::grammar;
use crate::node::{Entry, Node, Value};
use crate::problem::{Problem, Problems};
use crate::validate::is_generator;
use prony_model::catalog::EngineCatalog;
use prony_model::spec::{
    CollectionSpec, DocumentFile, DocumentSpec, Encoding, FieldSpec, FieldValue, Generator, KeySpec, ReferenceSpec,
};
use prony_model::units::Fraction;

/// How many different words there are where the file does not say.
const VOCABULARY: u64 = 10_000;

/// Values within each other, at most: the results are JSON, which is read to 128 levels, and each value takes up to three.
const DEEPEST: usize = 30;

/// The documents, made by generators or from a file; `view` is the table of a collection.
pub(super) fn document(
    view: &View<'_>,
    files: &Files<'_>,
    known: Option<&Known>,
    problems: &mut Problems<'_>,
) -> Option<DocumentSpec> {
    let kinds = ["value", "document", "file"];
    let mut kinds = kinds.into_iter().filter(|key| view.get(key).is_some());
    if let (Some(first), Some(second)) = (kinds.next(), kinds.next()) {
        let message = format!("`data` takes one of `{first}` and `{second}`, not both");
        let problem = Problem::new(view.key_span(second), message);
        problems.add(problem.label(&view.key_span(first), format!("`{first}` stands")));
    }
    let encoding = view.plain("encoding").and_then(Encoding::named).unwrap_or_default();
    if let Some(node) = view.get("file") {
        let (file, fields) = files.documents(node, problems)?;
        return Some(DocumentSpec { fields, encoding, file: Some(file) });
    }
    let node = view.get("document")?;
    if depth(node) > DEEPEST {
        let message = format!("values of the documents are nested more than {DEEPEST} deep");
        problems.fault(&node.span, message, "nest fewer tables and lists");
        return None;
    }
    let fields = fields(node, known, problems)?;
    if fields.is_empty() {
        problems.fault(&node.span, "the documents have no fields", "write `name = value` in it");
    }
    Some(DocumentSpec { fields, encoding, file: None })
}

/// Files of documents that an experiment names.
pub(crate) struct Files<'c> {
    /// What reads them.
    pub(crate) catalog: &'c dyn EngineCatalog,
    /// The experiment's file, at which paths begin.
    pub(crate) file: &'c str,
}

impl Files<'_> {
    fn documents(&self, node: &Node, problems: &mut Problems<'_>) -> Option<(DocumentFile, Vec<FieldSpec>)> {
        let path = Place { file: self.file }.resolve(&unescaped(node)?);
        match self.catalog.documents(Path::new(&path)) {
            Ok(found) => Some(found),
            Err(message) => {
                problems.add(Problem::new(node, message));
                None
            }
        }
    }
}

/// How many tables and lists are within each other.
fn depth(node: &Node) -> usize {
    let of_fields = node.table().unwrap_or_default().iter().map(|entry| &entry.node);
    let of_items = if let Value::List(items) = &node.value { items.iter() } else { [].iter() };
    of_fields.chain(of_items).map(|inner| 1 + depth(inner)).max().unwrap_or(0)
}

fn fields(node: &Node, known: Option<&Known>, problems: &mut Problems<'_>) -> Option<Vec<FieldSpec>> {
    let mut all = Vec::new();
    for Entry { key, key_span, node } in node.table()? {
        if key.is_empty() || key.contains('.') {
            let hint = "use a name without full stops; they separate the names of nested fields";
            problems.fault(key_span, format!("`{key}` cannot be the name of a field"), hint);
        }
        let generator = (node.table().is_some() && is_generator(node, &grammar::GENERATOR))
            .then(|| View::new(Some(node), &grammar::GENERATOR));
        let present = generator.and_then(|view| view.share("present"));
        all.push(FieldSpec {
            name: key.clone(),
            value: value(node, known, problems)?,
            present: present.unwrap_or(Fraction::ONE),
        });
    }
    Some(all)
}

fn value(node: &Node, known: Option<&Known>, problems: &mut Problems<'_>) -> Option<Generator> {
    match &node.value {
        Value::Text(_) => template(node).map(text),
        Value::List(items) => {
            items.iter().map(|one| item(one, known, problems)).collect::<Option<_>>().map(Generator::Items)
        }
        Value::Table(_) if is_generator(node, &grammar::GENERATOR) => {
            generator(&View::new(Some(node), &grammar::GENERATOR), known, problems)
        }
        Value::Table(_) => fields(node, known, problems).map(Generator::Fields),
        _ => constant(node).map(Generator::Constant),
    }
}

/// An item of a list, which is always there.
fn item(node: &Node, known: Option<&Known>, problems: &mut Problems<'_>) -> Option<Generator> {
    if let Some(entry) = node.entry("present").filter(|_| is_generator(node, &grammar::GENERATOR)) {
        let message = "`present` has no effect on an item of a list";
        problems.fault((node, entry.key_span.clone()), message, "write the number of items as `items = [LEAST, MOST]`");
    }
    value(node, known, problems)
}

/// A text without a number is a constant.
fn text(parts: Vec<String>) -> Generator {
    match <[String; 1]>::try_from(parts) {
        Ok([text]) => Generator::Constant(FieldValue::Text(text)),
        Err(parts) => Generator::Template(parts),
    }
}

fn constant(node: &Node) -> Option<FieldValue> {
    match &node.value {
        Value::Flag(flag) => Some(FieldValue::Bool(*flag)),
        Value::Whole(number) => Some(FieldValue::Int(*number)),
        Value::Number(number) => Some(FieldValue::Float(*number)),
        Value::Text(_) => unescaped(node).map(FieldValue::Text),
        Value::Date(_) | Value::List(_) | Value::Table(_) => None,
    }
}

const OWNERS: [(&str, &str); 5] = [
    ("step", "sequence"),
    ("compressible", "text"),
    ("vocabulary", "words"),
    ("items", "list"),
    ("distribution", "reference"),
];

fn generator(view: &View<'_>, known: Option<&Known>, problems: &mut Problems<'_>) -> Option<Generator> {
    for (key, owner) in OWNERS {
        view.needs(key, owner, problems);
    }
    let (action, node) = grammar::GENERATOR.actions().into_iter().find_map(|key| Some((key, view.get(key)?)))?;
    Some(match action {
        "sequence" => {
            Generator::Sequence { start: integer(node)?, step: view.get("step").and_then(integer).unwrap_or(1) }
        }
        "cycle" => Generator::Cycle(cycle(node, problems)?),
        "uniform" => pair(node, action, integer, problems).map(|(least, most)| Generator::Uniform(least, most))?,
        "zipfian" => pair(node, action, integer, problems).map(|(least, most)| Generator::Zipfian(least, most))?,
        "text" => random_text(view, node, problems)?,
        "words" => {
            Generator::Words { count: view.whole("words")?, vocabulary: view.whole("vocabulary").unwrap_or(VOCABULARY) }
        }
        "date" => pair(node, action, date, problems).map(|(from, to)| Generator::Date { from, to })?,
        "list" => list(view, node, known, problems)?,
        "reference" => reference(view, node, known, problems)?,
        "fields" => Generator::Fields(fields(node, known, problems)?),
        "template" => text(template(node)?),
        "constant" => Generator::Constant(constant(node)?),
        _ => Generator::Uuid,
    })
}

fn cycle(node: &Node, problems: &mut Problems<'_>) -> Option<Vec<FieldValue>> {
    let values: Vec<FieldValue> = node.list()?.iter().filter_map(constant).collect();
    if values.is_empty() {
        problems.add(Problem::new(node, "`cycle` has no values"));
        return None;
    }
    Some(values)
}

fn random_text(view: &View<'_>, node: &Node, problems: &mut Problems<'_>) -> Option<Generator> {
    let least = Fraction::new(Generator::LEAST_COMPRESSIBLE)?;
    let compressible = view.share("compressible").unwrap_or(least);
    if compressible.get() < least.get() {
        let percent = least.get() * 100.0;
        let message = format!("`compressible` of a text cannot be below {percent} %: its characters have 6 bits in 8");
        let hint = "use `value = { bytes = ..., compressible = ... }` for bytes that do not compress";
        problems.fault(view.key_span("compressible"), message, hint);
    }
    Some(Generator::Text { bytes: size(node, problems)?, compressible })
}

/// The collections to which documents may refer.
pub(super) struct Known {
    /// Those without faults, but for references in their documents.
    pub(super) sound: Vec<CollectionSpec>,
    /// The names of the others, whose faults are reported where they are.
    pub(super) faulty: Vec<String>,
}

/// A reference; any value where the collections are not known yet.
fn reference(view: &View<'_>, node: &Node, known: Option<&Known>, problems: &mut Problems<'_>) -> Option<Generator> {
    let Some(known) = known else { return Some(Generator::Constant(FieldValue::Null)) };
    let name = unescaped(node)?;
    if known.faulty.contains(&name) {
        return None;
    }
    let to = collections::found(Some(&name), &known.sound, node, problems)?;
    if matches!(to.key, KeySpec::Hashed { hex: false, .. }) {
        let message = format!("the keys of `{name}` are bytes, which are no text");
        problems.fault(node, message, "write `hex = true` in its `key`");
    }
    let distribution = view.word("distribution").unwrap_or_default();
    let (records, key) = (to.records, to.key.clone());
    Some(Generator::Reference(Box::new(ReferenceSpec { collection: name, records, key, distribution })))
}

fn list(view: &View<'_>, node: &Node, known: Option<&Known>, problems: &mut Problems<'_>) -> Option<Generator> {
    let of = Box::new(item(node, known, problems)?);
    let items = match view.get("items") {
        None => (1, 1),
        Some(items) => match items.list() {
            Some(_) => {
                let (least, most) = pair(items, "items", integer, problems)?;
                (least as u64, most as u64)
            }
            None => view.whole("items").map(|count| (count, count))?,
        },
    };
    Some(Generator::List { of, items })
}

/// Two ends, the first not above the second.
fn pair(
    node: &Node,
    key: &str,
    read: impl Fn(&Node) -> Option<i64>,
    problems: &mut Problems<'_>,
) -> Option<(i64, i64)> {
    let ends: Vec<i64> = node.list()?.iter().filter_map(read).collect();
    let [first, second] = <[i64; 2]>::try_from(ends).ok()?;
    if first > second {
        problems.add(Problem::new(node, format!("the first value of `{key}` must be the lowest")));
        return None;
    }
    Some((first, second))
}

fn integer(node: &Node) -> Option<i64> {
    match node.value {
        Value::Whole(number) => Some(number),
        _ => None,
    }
}

fn date(node: &Node) -> Option<i64> {
    match &node.value {
        Value::Date(text) | Value::Text(text) => seconds(text),
        _ => None,
    }
}
