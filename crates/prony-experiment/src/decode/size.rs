//! Reads the lengths of values.

use super::View;
use super::view::bytes;
use crate::grammar;
use crate::node::Node;
use crate::problem::{Problem, Problems};
use prony_model::spec::{DocumentSpec, FieldSpec, Generator, Size};
use prony_model::units::Bytes;

/// A length, fixed or random.
pub(super) fn size(node: &Node, problems: &mut Problems<'_>) -> Option<Size> {
    if let Some(fixed) = bytes(node) {
        return Some(Size::Fixed(fixed));
    }
    let view = View::new(Some(node), &grammar::BYTES_TABLE);
    let mut range = |key: &str| {
        let list = view.get(key)?;
        let ends: Vec<Bytes> = list.list()?.iter().filter_map(bytes).collect();
        let [min, max] = <[Bytes; 2]>::try_from(ends).ok()?;
        if min > max {
            problems.add(Problem::new(&list.span, format!("the first length of `{key}` must be the shortest")));
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

/// The greatest length.
pub(super) fn longest(size: &Size) -> Bytes {
    match size {
        Size::Fixed(bytes) => *bytes,
        Size::Uniform { max, .. } | Size::Zipfian { max, .. } | Size::LogNormal { max, .. } => *max,
    }
}

/// The least and the greatest length of a document's texts, without names and numbers; saturating.
pub(super) fn document_length(document: &DocumentSpec) -> (u64, u64) {
    match &document.file {
        Some(file) => (0, file.longest.as_bytes()),
        None => of_fields(&document.fields),
    }
}

fn of_fields(fields: &[FieldSpec]) -> (u64, u64) {
    let each = fields.iter().map(|field| {
        let (least, most) = length(&field.value);
        if field.present.get() < 1.0 { (0, most) } else { (least, most) }
    });
    sum(each)
}

fn sum(each: impl Iterator<Item = (u64, u64)>) -> (u64, u64) {
    each.fold((0, 0), |(least, most), (a, b)| (u64::saturating_add(least, a), u64::saturating_add(most, b)))
}

fn length(generator: &Generator) -> (u64, u64) {
    match generator {
        Generator::Text { bytes, .. } => (bytes.least().as_bytes(), longest(bytes).as_bytes()),
        // Two syllables of two letters at least, five at most, and blanks.
        Generator::Words { count, .. } => (count.saturating_mul(5).saturating_sub(1), count.saturating_mul(11)),
        Generator::List { of, items: (fewest, most) } => {
            let (short, long) = length(of);
            (short.saturating_mul(*fewest), long.saturating_add(1).saturating_mul(*most))
        }
        Generator::Items(items) => sum(items.iter().map(length)),
        Generator::Fields(fields) => of_fields(fields),
        _ => (0, 0),
    }
}
