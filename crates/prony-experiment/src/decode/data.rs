//! Reads `[data]` of one variant.

use super::size::{document_length, longest, shortest, size};
use super::view::template;
use super::{View, document};
use crate::grammar;
use crate::node::Node;
use crate::problem::{Problem, Problems};
use crate::validate::via;
use prony_model::catalog::EngineFacts;
use prony_model::spec::{BytesSpec, DataSpec, Generator, KeySpec, Size, ValueSpec};
use prony_model::units::{Bytes, Fraction};

/// The default value of records.
const DEFAULT_VALUE: Bytes = Bytes::from_bytes(100);

/// The records.
pub(crate) fn data(node: &Node, problems: &mut Problems<'_>) -> Option<DataSpec> {
    let view = View::new(Some(node), &grammar::DATA);
    let records = view.whole("records")?;
    let value = match view.get("document") {
        Some(_) => ValueSpec::Document(document::document(&view, problems)?),
        None => ValueSpec::Bytes(bytes_value(&view, problems)?),
    };
    let key = match (view.get("key"), &value) {
        (Some(node), _) => key(node, records, problems)?,
        (None, value) => KeySpec::Template { parts: id_of(value), pad: 0 },
    };
    let data = DataSpec { records, key, value };
    if let Some(message) = too_large(&data) {
        problems.add(Problem::new(view.get("records")?.span.clone(), message).hint("use fewer records"));
    }
    Some(data)
}

/// The text from which keys are made where the file does not say: the document's `id`, if that holds the number.
fn id_of(value: &ValueSpec) -> Vec<String> {
    match value {
        ValueSpec::Document(document) => match document.id() {
            Some(Generator::Template(parts)) if parts.len() > 1 => parts.clone(),
            _ => vec![String::new(), String::new()],
        },
        ValueSpec::Bytes(_) => vec![String::new(), String::new()],
    }
}

fn bytes_value(view: &View<'_>, problems: &mut Problems<'_>) -> Option<BytesSpec> {
    view.needs("encoding", "document", problems);
    match view.get("value") {
        Some(node) => value(node, problems),
        None => {
            let bytes = Size::Fixed(DEFAULT_VALUE);
            Some(BytesSpec { bytes, compressible: Fraction::default(), prefix: Vec::new() })
        }
    }
}

/// The least size of the records exceeds what a file can hold: offsets are 63 bits.
fn too_large(data: &DataSpec) -> Option<String> {
    let key = match &data.key {
        KeySpec::Integer { bytes } => u64::from(*bytes),
        KeySpec::Hashed { bytes, .. } => u64::from(*bytes),
        KeySpec::Template { parts, pad } => parts.iter().map(String::len).sum::<usize>() as u64 + u64::from(*pad),
    };
    let value = match &data.value {
        ValueSpec::Bytes(value) => shortest(&value.bytes).as_bytes(),
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
        let span = view.get("integer").map_or_else(|| node.span.clone(), |integer| integer.span.clone());
        match width {
            4 if records > u64::from(u32::MAX) + 1 => {
                let problem = Problem::new(span, format!("4 bytes cannot number {records} records"));
                problems.add(problem.hint("write `integer = 8`"));
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
        problems.add(Problem::new(view.key_span("hashed"), message).hint(format!("write `hashed = {least}` or more")));
    }
    Some(KeySpec::Hashed { prefix, bytes: whole as u16, hex })
}

fn template_key(node: &Node, pad: u8, problems: &mut Problems<'_>) -> Option<KeySpec> {
    let parts = template(node)?;
    if parts.len() < 2 {
        let problem = Problem::new(node.span.clone(), "every record would have the same key");
        problems.add(via(node, problem.hint("put `{i}`, the record's number, into the text")));
    }
    Some(KeySpec::Template { parts, pad })
}

fn value(node: &Node, problems: &mut Problems<'_>) -> Option<BytesSpec> {
    if node.text().is_some() {
        let bytes = Size::Fixed(Bytes::from_bytes(0));
        return Some(BytesSpec { bytes, compressible: Fraction::default(), prefix: template(node)? });
    }
    let view = View::new(Some(node), &grammar::VALUE);
    Some(BytesSpec {
        bytes: size(view.get("bytes")?, problems)?,
        compressible: view.share("compressible").unwrap_or_default(),
        prefix: view.get("prefix").and_then(template).unwrap_or_default(),
    })
}

/// Values too large for the machine: a value is made whole before it is stored.
pub(crate) fn value_length(node: &Node, data: &DataSpec, memory: Bytes, problems: &mut Problems<'_>) {
    let longest = match &data.value {
        ValueSpec::Bytes(value) => longest(&value.bytes),
        ValueSpec::Document(document) => Bytes::from_bytes(document_length(document).1),
    };
    if longest > memory {
        let value = node.get("value").or_else(|| node.get("document"));
        let span = value.and_then(|value| value.get("bytes")).or(value).unwrap_or(node).span.clone();
        let message = format!("values of {longest} do not fit into memory: the machine has {memory}");
        problems.add(via(node, Problem::new(span, message).hint("use shorter values and more records")));
    }
}

/// Keys too large for the engine.
pub(crate) fn key_length(node: &Node, data: &DataSpec, engine: &str, facts: &EngineFacts, problems: &mut Problems<'_>) {
    let longest = longest_key(data);
    if let Some(most) = facts.max_key.filter(|most| longest > *most) {
        let span = node.get("key").map_or_else(|| node.span.clone(), |key| key.span.clone());
        let problem =
            Problem::new(span, format!("keys of {longest} bytes are too long: `{engine}` allows at most {most} bytes"));
        problems.add(problem.hint("shorten the key, or leave the variant out with `[design] skip`"));
    }
}

/// The length of the longest key.
pub(super) fn longest_key(data: &DataSpec) -> u64 {
    match &data.key {
        KeySpec::Integer { bytes } => u64::from(*bytes),
        KeySpec::Hashed { bytes, .. } => u64::from(*bytes),
        KeySpec::Template { parts, pad } => longest_template(parts, *pad, data.records),
    }
}

/// The length of the longest text of a template.
pub(super) fn longest_template(parts: &[String], pad: u8, records: u64) -> u64 {
    let digits = (records.max(1) - 1).to_string().len().max(usize::from(pad));
    (parts.iter().map(String::len).sum::<usize>() + digits * parts.len().saturating_sub(1)) as u64
}
