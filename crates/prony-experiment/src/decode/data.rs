//! Reads `[data]` of one variant.

use super::View;
use super::document::{self, Files, Known};
use super::size::{document_length, longest, size};
use super::view::template;
use crate::grammar;
use crate::node::{Entry, Node};
use crate::problem::{Problem, Problems};
use prony_model::catalog::EngineFacts;
use prony_model::number;
use prony_model::spec::{BytesSpec, CollectionSpec, Generator, KeySpec, Size, ValueSpec};
use prony_model::units::{Bytes, Fraction};

/// The default value of records.
const DEFAULT_VALUE: Bytes = Bytes::from_bytes(100);

/// The collections.
pub(crate) fn data(node: &Node, files: &Files<'_>, problems: &mut Problems<'_>) -> Option<Vec<CollectionSpec>> {
    let view = View::new(Some(node), &grammar::DATA);
    let Some(several) = view.get("collection").and_then(Node::table) else {
        let known = Known { sound: Vec::new(), faulty: Vec::new() };
        return Some(vec![collection(None, &view, (files, Some(&known)), problems)?]);
    };
    for entry in node.table().unwrap_or_default().iter().filter(|entry| entry.key != "collection") {
        let message = format!("`{}` stands beside `collection`, but belongs to one collection", entry.key);
        problems.fault(&entry.key_span, message, "write it in each `[data.collection.NAME]`");
    }
    names(several, view.span(), problems);
    let each = |entry: &Entry, known: Option<&Known>, problems: &mut Problems<'_>| {
        let view = View::new(Some(&entry.node), &grammar::COLLECTION);
        collection(Some(entry.key.clone()), &view, (files, known), problems)
    };
    let mut known = Known { sound: Vec::new(), faulty: Vec::new() };
    for entry in several {
        // What is wrong is reported below, where references are read too.
        match each(entry, None, &mut Problems::new("")) {
            Some(sound) => known.sound.push(sound),
            None => known.faulty.push(entry.key.clone()),
        }
    }
    let all: Vec<_> = several.iter().map(|entry| each(entry, Some(&known), problems)).collect();
    // None at all is a fault that is reported already: phases are not to be asked which one they work on.
    all.into_iter().collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
}

/// Names of collections are names of tables in SQL, where letters of either case are the same.
fn names(several: &[Entry], span: std::ops::Range<usize>, problems: &mut Problems<'_>) {
    if several.is_empty() {
        problems.fault(&span, "`collection` is empty", "write `[data.collection.NAME]`");
    }
    if several.len() > CollectionSpec::MOST {
        let message = format!("{} collections are too many: there can be {}", several.len(), CollectionSpec::MOST);
        problems.add(Problem::new(span, message));
    }
    for (at, Entry { key, key_span, .. }) in several.iter().enumerate() {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if key.is_empty() || !key.chars().all(plain) {
            let message = format!("`{key}` is not a valid name of a collection");
            problems.fault(key_span, message, "use letters without accents, digits, `-` and `_`");
        }
        if let Some(other) = several[..at].iter().find(|other| other.key.eq_ignore_ascii_case(key)) {
            let message = format!("`{key}` and `{}` are the same name in SQL", other.key);
            problems.fault(key_span, message, "choose names that differ in more than their case");
        }
    }
}

/// Each collection, with the table in which it is written.
pub(crate) fn places<'n, 'd>(
    node: &'n Node,
    data: &'d [CollectionSpec],
) -> impl Iterator<Item = (&'n Node, &'d CollectionSpec)> {
    let place = |name: &String| node.get("collection")?.get(name);
    data.iter().map(move |collection| (collection.name.as_ref().and_then(place).unwrap_or(node), collection))
}

/// One collection; `view` is the table in which it is written.
fn collection(
    name: Option<String>,
    view: &View<'_>,
    (files, known): (&Files<'_>, Option<&Known>),
    problems: &mut Problems<'_>,
) -> Option<CollectionSpec> {
    let value = match view.get("document").or(view.get("file")) {
        Some(_) => ValueSpec::Document(document::document(view, files, known, problems)?),
        None => ValueSpec::Bytes(bytes_value(view, problems)?),
    };
    let records = records(view, &value, problems)?;
    prefix_fits(view, &value, records, problems);
    let key = match (view.get("key"), &value) {
        (Some(node), _) => key(node, records, problems)?,
        (None, value) => KeySpec::Template { parts: id_of(value), pad: 0 },
    };
    let data = CollectionSpec { name, records, key, value };
    let beyond = || data.document()?.fields.iter().find_map(|field| beyond_the_last(&field.value, records));
    if let Some(message) = too_large(&data).or_else(beyond) {
        problems.fault(&view.get("records")?.span, message, "use fewer records");
    }
    Some(data)
}

/// How many records there are: at most the rows of a file.
fn records(view: &View<'_>, value: &ValueSpec, problems: &mut Problems<'_>) -> Option<u64> {
    let file = match value {
        ValueSpec::Document(document) => document.file.as_ref(),
        ValueSpec::Bytes(_) => None,
    };
    match (view.whole("records"), file) {
        (Some(records), Some(file)) if records > file.rows => {
            let message = format!("`records` is {records}, but the file has {}", number::count(file.rows, "row"));
            let hint = "leave `records` out: then every row is a record";
            problems.fault(&view.get("records")?.span, message, hint);
            None
        }
        (Some(records), _) => Some(records),
        (None, Some(file)) => Some(file.rows),
        (None, None) => None,
    }
}

/// The text from which keys are made where the file does not say: the document's `id`, if that holds the number.
fn id_of(value: &ValueSpec) -> Vec<String> {
    if let ValueSpec::Document(document) = value
        && let Some(Generator::Template(parts)) = document.id()
        && parts.len() > 1
    {
        return parts.clone();
    }
    vec![String::new(), String::new()]
}

fn bytes_value(view: &View<'_>, problems: &mut Problems<'_>) -> Option<BytesSpec> {
    if view.get("encoding").is_some() {
        let message = "`encoding` needs one of `document`, `file`, which are missing";
        problems.add(Problem::new(view.key_span("encoding"), message));
    }
    match view.get("value") {
        Some(node) => value(node, problems),
        None => {
            let bytes = Size::Fixed(DEFAULT_VALUE);
            Some(BytesSpec { bytes, compressible: Fraction::default(), prefix: Vec::new() })
        }
    }
}

/// The least size of the records exceeds what a file can hold: offsets are 63 bits.
fn too_large(data: &CollectionSpec) -> Option<String> {
    let key = match &data.key {
        KeySpec::Integer { bytes } => u64::from(*bytes),
        KeySpec::Hashed { bytes, .. } => u64::from(*bytes),
        KeySpec::Template { parts, pad } => parts.iter().map(String::len).sum::<usize>() as u64 + u64::from(*pad),
    };
    let value = match &data.value {
        ValueSpec::Bytes(value) => value.bytes.least().as_bytes(),
        ValueSpec::Document(document) => document_length(document).0,
    };
    let each = key.saturating_add(value).max(1);
    let all = u128::from(data.records) * u128::from(each);
    (all > i64::MAX as u128).then(|| {
        let exabytes = all as f64 / 1e18;
        format!(
            "{} records of {each} bytes or more take {exabytes:.1} EB, but a file can have at most 9.2 EB",
            data.records
        )
    })
}

/// A `sequence` whose last number is beyond those of 64 bits: it would go on at their other end.
fn beyond_the_last(generator: &Generator, records: u64) -> Option<String> {
    match generator {
        Generator::Sequence { start, step } => {
            let last = i128::from(*start) + i128::from(*step) * i128::from(records.saturating_sub(1));
            (last > i128::from(i64::MAX)).then(|| {
                format!("{records} numbers of a `sequence` from {start} in steps of {step} go beyond {}", i64::MAX)
            })
        }
        Generator::List { of, .. } => beyond_the_last(of, records),
        Generator::Items(items) => items.iter().find_map(|item| beyond_the_last(item, records)),
        Generator::Fields(fields) => fields.iter().find_map(|field| beyond_the_last(&field.value, records)),
        _ => None,
    }
}

fn key(node: &Node, records: u64, problems: &mut Problems<'_>) -> Option<KeySpec> {
    if node.text().is_some() {
        return template_key(node, 0, problems);
    }
    let view = View::new(Some(node), &grammar::KEY);
    view.needs("pad", "template", problems);
    view.needs("prefix", "hashed", problems);
    view.needs("hex", "hashed", problems);
    if let Some(text) = view.get("template") {
        return template_key(text, view.whole("pad").unwrap_or(0) as u8, problems);
    }
    if let Some(width) = view.whole("integer") {
        let span = node.span_of("integer");
        match width {
            4 if records > u64::from(u32::MAX) + 1 => {
                problems.fault(span, format!("4 bytes cannot number {records} records"), "write `integer = 8`");
            }
            4 | 8 => {}
            _ => problems.add(Problem::new(span, format!("`integer` cannot be `{width}`")).hint("expected 4 or 8")),
        }
        return Some(KeySpec::Integer { bytes: width as u8 });
    }
    let whole = view.whole("hashed")?;
    let prefix = view.text("prefix").unwrap_or_default();
    let hex = view.flag("hex").unwrap_or(false);
    let least = prefix.len() as u64 + if hex { 16 } else { 8 };
    if whole < least {
        let message = format!("a hashed key of {whole} bytes is too short: prefix and 8 bytes of hash take {least}");
        problems.fault(view.key_span("hashed"), message, format!("write `hashed = {least}` or more"));
    }
    Some(KeySpec::Hashed { prefix, bytes: whole as u16, hex })
}

fn template_key(node: &Node, pad: u8, problems: &mut Problems<'_>) -> Option<KeySpec> {
    let parts = template(node)?;
    if parts.len() < 2 {
        problems.fault(node, "every record would have the same key", "put `{i}`, the record's number, into the text");
    }
    Some(KeySpec::Template { parts, pad })
}

fn value(node: &Node, problems: &mut Problems<'_>) -> Option<BytesSpec> {
    if node.text().is_some() {
        let bytes = Size::Fixed(Bytes::from_bytes(0));
        return Some(BytesSpec { bytes, compressible: Fraction::default(), prefix: template(node)? });
    }
    let view = View::new(Some(node), &grammar::VALUE);
    let bytes = size(view.get("bytes")?, problems)?;
    let prefix = view.get("prefix").and_then(template).unwrap_or_default();
    Some(BytesSpec { bytes, compressible: view.share("compressible").unwrap_or_default(), prefix })
}

/// A prefix that is longer than the values of which it is a part: they would have its length. The number of the last record is the
/// longest.
fn prefix_fits(view: &View<'_>, value: &ValueSpec, records: u64, problems: &mut Problems<'_>) {
    let (Some(at), ValueSpec::Bytes(BytesSpec { bytes, prefix, .. })) =
        (view.get("value").and_then(|value| value.get("prefix")), value)
    else {
        return;
    };
    let written = longest_template(prefix, 0, records);
    if written > longest(bytes).as_bytes() {
        let message = format!("a prefix of {written} bytes does not fit into values of {}", longest(bytes));
        problems.fault(at, message, "write a larger `bytes`: the prefix is part of it");
    }
}

/// Values too large for the machine: a value is made whole before it is stored.
pub(crate) fn value_length(node: &Node, data: &CollectionSpec, memory: Bytes, problems: &mut Problems<'_>) {
    let longest = match &data.value {
        ValueSpec::Bytes(value) => longest(&value.bytes),
        ValueSpec::Document(document) => Bytes::from_bytes(document_length(document).1),
    };
    if longest > memory {
        let value = node.get("value").or_else(|| node.get("document"));
        let span = value.and_then(|value| value.get("bytes")).or(value).unwrap_or(node).span.clone();
        let message = format!("values of {longest} do not fit into memory: the machine has {memory}");
        problems.fault((node, span), message, "use shorter values and more records");
    }
}

/// Keys too large for the engine; `before` says whether a byte is stored before each.
pub(crate) fn key_length(
    node: &Node,
    data: &CollectionSpec,
    before: bool,
    (engine, facts): (&str, &EngineFacts),
    problems: &mut Problems<'_>,
) {
    let longest = longest_key(&data.key, data.records);
    if let Some(most) = facts.can.max_key.filter(|most| longest + u64::from(before) > *most) {
        let one = if before { ", one of which says to what a key belongs" } else { "" };
        let message = format!("keys of {longest} bytes are too long: `{engine}` allows at most {most} bytes{one}");
        problems.fault(node.span_of("key"), message, "shorten the key, or leave the variant out with `[design] skip`");
    }
}

/// The length of the longest key.
pub(super) fn longest_key(key: &KeySpec, records: u64) -> u64 {
    match key {
        KeySpec::Integer { bytes } => u64::from(*bytes),
        KeySpec::Hashed { bytes, .. } => u64::from(*bytes),
        KeySpec::Template { parts, pad } => longest_template(parts, *pad, records),
    }
}

/// The length of the longest text of a template.
pub(super) fn longest_template(parts: &[String], pad: u8, records: u64) -> u64 {
    let digits = (records.max(1) - 1).to_string().len().max(usize::from(pad));
    (parts.iter().map(String::len).sum::<usize>() + digits * parts.len().saturating_sub(1)) as u64
}
