//! Reads `[data]` of one variant.

use super::View;
use super::view::{bytes, template};
use crate::grammar;
use crate::node::Node;
use crate::problem::{Problem, Problems};
use crate::validate::via;
use prony_model::catalog::EngineFacts;
use prony_model::spec::{DataSpec, KeySpec, Size, ValueSpec};
use prony_model::units::{Bytes, Fraction};

/// The default value of records.
const DEFAULT_VALUE: Bytes = Bytes::from_bytes(100);

/// The records.
pub(crate) fn data(node: &Node, problems: &mut Problems<'_>) -> Option<DataSpec> {
    let view = View::new(Some(node), &grammar::DATA);
    let records = view.whole("records")?;
    let key = match view.get("key") {
        Some(node) => key(node, records, problems)?,
        None => KeySpec::Template { parts: vec![String::new(), String::new()], pad: 0 },
    };
    let value = match view.get("value") {
        Some(node) => value(node, problems)?,
        None => ValueSpec { bytes: Size::Fixed(DEFAULT_VALUE), compressible: Fraction::default(), prefix: Vec::new() },
    };
    let data = DataSpec { records, key, value };
    if let Some(message) = too_large(&data) {
        problems.add(Problem::new(view.get("records")?.span.clone(), message).hint("use fewer records"));
    }
    Some(data)
}

/// The least size of the records exceeds what a file can hold: offsets are 63 bits.
fn too_large(data: &DataSpec) -> Option<String> {
    let key = match &data.key {
        KeySpec::Integer { bytes } => u64::from(*bytes),
        KeySpec::Hashed { bytes, .. } => u64::from(*bytes),
        KeySpec::Template { parts, pad } => parts.iter().map(String::len).sum::<usize>() as u64 + u64::from(*pad),
    };
    let value = match data.value.bytes {
        Size::Fixed(bytes) | Size::Uniform { min: bytes, .. } | Size::Zipfian { min: bytes, .. } => bytes.as_bytes(),
        Size::LogNormal { .. } => 0,
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
    foreign(&view, "pad", "template", problems);
    foreign(&view, "prefix", "hashed", problems);
    foreign(&view, "hex", "hashed", problems);
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

/// A key of the table that belongs to another generator.
fn foreign(view: &View<'_>, key: &str, owner: &str, problems: &mut Problems<'_>) {
    if view.get(key).is_some() && view.get(owner).is_none() {
        problems.add(Problem::new(view.key_span(key), format!("`{key}` needs the key `{owner}`, which is missing")));
    }
}

fn template_key(node: &Node, pad: u8, problems: &mut Problems<'_>) -> Option<KeySpec> {
    let parts = template(node)?;
    if parts.len() < 2 {
        let problem = Problem::new(node.span.clone(), "every record would have the same key");
        problems.add(via(node, problem.hint("put `{i}`, the record's number, into the text")));
    }
    Some(KeySpec::Template { parts, pad })
}

fn value(node: &Node, problems: &mut Problems<'_>) -> Option<ValueSpec> {
    if node.text().is_some() {
        let bytes = Size::Fixed(Bytes::from_bytes(0));
        return Some(ValueSpec { bytes, compressible: Fraction::default(), prefix: template(node)? });
    }
    let view = View::new(Some(node), &grammar::VALUE);
    Some(ValueSpec {
        bytes: size(view.get("bytes")?, problems)?,
        compressible: view.share("compressible").unwrap_or_default(),
        prefix: view.get("prefix").and_then(template).unwrap_or_default(),
    })
}

fn size(node: &Node, problems: &mut Problems<'_>) -> Option<Size> {
    if let Some(fixed) = bytes(node) {
        return Some(Size::Fixed(fixed));
    }
    let view = View::new(Some(node), &grammar::BYTES_TABLE);
    let mut range = |key: &str| {
        let list = view.get(key)?;
        let ends: Vec<Bytes> = list.list()?.iter().filter_map(bytes).collect();
        let [min, max] = <[Bytes; 2]>::try_from(ends).ok()?;
        if min > max {
            problems.add(Problem::new(list.span.clone(), format!("the first length of `{key}` must be the shortest")));
        }
        Some((min, max))
    };
    if let Some((min, max)) = range("uniform") {
        return Some(Size::Uniform { min, max });
    }
    if let Some((min, max)) = range("zipfian") {
        return Some(Size::Zipfian { min, max });
    }
    let log_normal = View::new(Some(view.get("lognormal")?), &grammar::LOG_NORMAL);
    let (median, sigma, max) = (log_normal.bytes("median")?, log_normal.number("sigma")?, log_normal.bytes("max")?);
    if median > max {
        problems.add(Problem::new(log_normal.span(), "`median` is above `max`"));
    }
    Some(Size::LogNormal { median, sigma, max })
}

/// Values too large for the machine: a value is made whole before it is stored.
pub(crate) fn value_length(node: &Node, data: &DataSpec, memory: Bytes, problems: &mut Problems<'_>) {
    let longest = match data.value.bytes {
        Size::Fixed(bytes) => bytes,
        Size::Uniform { max, .. } | Size::Zipfian { max, .. } | Size::LogNormal { max, .. } => max,
    };
    if longest > memory {
        let value = node.get("value");
        let span = value.and_then(|value| value.get("bytes")).or(value).unwrap_or(node).span.clone();
        let message = format!("values of {longest} do not fit into memory: the machine has {memory}");
        problems.add(via(node, Problem::new(span, message).hint("use shorter values and more records")));
    }
}

/// Keys too large for the engine.
pub(crate) fn key_length(node: &Node, data: &DataSpec, engine: &str, facts: &EngineFacts, problems: &mut Problems<'_>) {
    let longest = match &data.key {
        KeySpec::Integer { bytes } => u64::from(*bytes),
        KeySpec::Hashed { bytes, .. } => u64::from(*bytes),
        KeySpec::Template { parts, pad } => {
            let digits = (data.records.max(1) - 1).to_string().len().max(usize::from(*pad));
            (parts.iter().map(String::len).sum::<usize>() + digits * (parts.len() - 1)) as u64
        }
    };
    if let Some(most) = facts.max_key.filter(|most| longest > *most) {
        let span = node.get("key").map_or_else(|| node.span.clone(), |key| key.span.clone());
        let problem =
            Problem::new(span, format!("keys of {longest} bytes are too long: `{engine}` allows at most {most} bytes"));
        problems.add(problem.hint("shorten the key, or leave the variant out with `[design] skip`"));
    }
}
