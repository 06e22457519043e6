//! Estimates how many bytes the entries of indexes take.

use prony_model::spec::{CollectionSpec, Encoding, FieldPath, FieldSpec, FieldValue, Generator, KeySpec};

use super::data_size::{DataBytes, Document, key_bytes, value_bytes};

/// Bytes of the entries that the documents of a collection have in indexes of these fields, as prony stores them in the key space
/// of an engine: a byte, the encoded value of each field, and the document's key. An engine's own indexes take about as much.
/// What is left at least is without a compressor, but if the items of each list are equal, which have one entry then.
pub fn index_bytes(data: &CollectionSpec, indexes: &[Vec<FieldPath>]) -> DataBytes {
    let Some(document) = data.document() else { return DataBytes::default() };
    let key = key_bytes(&data.key, data.records);
    let of = |fields: &Vec<FieldPath>| {
        let values = fields.iter().map(|path| Entry::of(&document.fields, &path.0, data.records));
        let all = values.fold(Entry { count: 1.0, bytes: 0.0 }, Entry::and);
        let one = data.records as f64 * (1.0 + all.bytes + key);
        DataBytes { mean: all.count * one, least: one.min(all.count * one) }
    };
    indexes.iter().map(of).fold(DataBytes::default(), |sum, index| DataBytes {
        mean: sum.mean + index.mean,
        least: sum.least + index.least,
    })
}

/// The entries of one field, or of several: how many a document has, and the bytes of the values in one of them.
#[derive(Clone, Copy)]
struct Entry {
    count: f64,
    bytes: f64,
}

/// A value that the document does not have, a null, an empty list, nested fields.
const BARE: Entry = Entry { count: 1.0, bytes: 1.0 };

impl Entry {
    fn one(bytes: f64) -> Self {
        Self { count: 1.0, bytes }
    }

    /// Those of two lists are one for each pair of items.
    fn and(self, other: Self) -> Self {
        Self { count: self.count * other.count, bytes: self.bytes + other.bytes }
    }

    /// Of a part of the documents these, of the rest a value that they do not have.
    fn of_share(self, share: f64) -> Self {
        let rest = 1.0 - share;
        let count = share * self.count + rest * BARE.count;
        Self { count, bytes: (share * self.count * self.bytes + rest * BARE.count * BARE.bytes) / count }
    }

    fn of(fields: &[FieldSpec], path: &[String], records: u64) -> Self {
        let Some((name, rest)) = path.split_first() else { return BARE };
        let Some(field) = fields.iter().find(|field| field.name == *name) else { return BARE };
        let value = match (&field.value, rest) {
            (Generator::Fields(inner), [_, ..]) => Self::of(inner, rest, records),
            (_, [_, ..]) => BARE,
            (value, []) => Self::of_value(value, records),
        };
        value.of_share(field.present.get())
    }

    fn of_value(value: &Generator, records: u64) -> Self {
        match value {
            Generator::Constant(value) => Self::one(constant(value)),
            Generator::Cycle(values) => {
                Self::one(values.iter().map(constant).sum::<f64>() / values.len().max(1) as f64)
            }
            Generator::Sequence { .. } | Generator::Uniform(..) | Generator::Zipfian(..) => Self::one(NUMBER),
            Generator::Reference(to) if matches!(to.key, KeySpec::Integer { .. }) => Self::one(NUMBER),
            Generator::List { of, items: (least, most) } => {
                let items = (*least + *most) as f64 / 2.0;
                let empty = if *least == 0 { 1.0 / (*most as f64 + 1.0) } else { 0.0 };
                let count = items + empty;
                let item = Self::of_value(of, records).bytes;
                Self { count, bytes: (items * item + (count - items) * BARE.bytes) / count }
            }
            Generator::Items(items) if !items.is_empty() => {
                let count = items.len() as f64;
                Self { count, bytes: items.iter().map(|item| Self::of_value(item, records).bytes).sum::<f64>() / count }
            }
            Generator::Items(_) | Generator::Fields(_) | Generator::InFile(_) => BARE,
            Generator::Template(_)
            | Generator::Text { .. }
            | Generator::Words { .. }
            | Generator::Uuid
            | Generator::Date { .. }
            | Generator::Reference(_) => {
                // Two quotes in JSON.
                let text = value_bytes(value, &Document { records, encoding: Encoding::Json }).mean - 2.0;
                Self::one(BESIDE_TEXT + text)
            }
        }
    }
}

/// Bytes of a number, with its kind.
const NUMBER: f64 = 11.0;

/// Bytes of a text beside its own.
const BESIDE_TEXT: f64 = 3.0;

fn constant(value: &FieldValue) -> f64 {
    match value {
        FieldValue::Bool(_) => 2.0,
        FieldValue::Int(_) | FieldValue::Float(_) => NUMBER,
        FieldValue::Text(text) => BESIDE_TEXT + text.len() as f64,
        FieldValue::Null | FieldValue::List(_) | FieldValue::Fields(_) => BARE.bytes,
    }
}
