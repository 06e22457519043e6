//! Estimates how many bytes the records take.

use prony_model::spec::{
    BytesSpec, CollectionSpec, Distribution, DocumentSpec, Encoding, FieldSpec, FieldValue, Generator, KeySpec, Size,
    ValueSpec,
};
use prony_model::units::Bytes;

/// Bytes of keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DataBytes {
    /// All of them; an expectation where lengths are drawn.
    pub mean: f64,
    /// What a compressor leaves at least.
    pub least: f64,
}

/// Bytes that the value of each record has at least; of values of any length often 0.
pub fn least_value(data: &CollectionSpec) -> u64 {
    match &data.value {
        ValueSpec::Bytes(BytesSpec { bytes, prefix, .. }) => {
            bytes.least().as_bytes().max(prefix.iter().map(|literal| literal.len() as u64).sum())
        }
        ValueSpec::Document(DocumentSpec { file: Some(_), .. }) => 0,
        ValueSpec::Document(document) => least_fields(&document.fields),
    }
}

fn least_fields(fields: &[FieldSpec]) -> u64 {
    let always = fields.iter().filter(|field| field.present.get() >= 1.0);
    always.map(|field| field.name.len() as u64 + least_of(&field.value)).sum()
}

/// Without quotes and punctuation, which depend on the encoding.
fn least_of(generator: &Generator) -> u64 {
    match generator {
        Generator::Constant(FieldValue::Text(text)) => text.len() as u64,
        Generator::Template(parts) => parts.iter().map(|literal| literal.len() as u64).sum(),
        Generator::Text { bytes, .. } => bytes.least().as_bytes(),
        Generator::Uuid => 36,
        Generator::List { of, items: (least, _) } => least.saturating_mul(least_of(of)),
        Generator::Items(items) => items.iter().map(least_of).sum(),
        Generator::Fields(fields) => least_fields(fields),
        _ => 0,
    }
}

/// Bytes of all keys and values of one pass.
pub fn data_bytes(data: &CollectionSpec) -> DataBytes {
    let records = data.records as f64;
    let key = key_bytes(&data.key, data.records);
    let value = match &data.value {
        ValueSpec::Bytes(BytesSpec { bytes, compressible, prefix }) => {
            let prefix = if prefix.is_empty() { 0.0 } else { template_bytes(prefix, mean_digits(data.records, 0)) };
            let mean = mean_size(bytes).max(prefix);
            DataBytes { mean, least: mean * (1.0 - compressible.get()) }
        }
        ValueSpec::Document(DocumentSpec { file: Some(file), .. }) => {
            // MessagePack takes a little less than JSON; what a compressor leaves is not known.
            DataBytes { mean: file.json.as_bytes() as f64 / file.rows as f64, least: 0.0 }
        }
        ValueSpec::Document(document) => {
            fields_bytes(&document.fields, &Document { records: data.records, encoding: document.encoding })
        }
    };
    let remains = match value {
        DataBytes { mean, least } if mean > 0.0 => least / mean,
        _ => 1.0,
    };
    DataBytes { mean: records * (key + value.mean), least: records * (key + value.mean) * remains }
}

/// Mean length of a key.
pub(super) fn key_bytes(key: &KeySpec, records: u64) -> f64 {
    match key {
        KeySpec::Integer { bytes } => f64::from(*bytes),
        KeySpec::Hashed { bytes, .. } => f64::from(*bytes),
        KeySpec::Template { parts, pad } => template_bytes(parts, mean_digits(records, *pad)),
    }
}

/// What the length of a value depends on, besides its generator.
pub(super) struct Document {
    pub(super) records: u64,
    pub(super) encoding: Encoding,
}

impl Document {
    /// What a name or text takes beside its bytes.
    fn quotes(&self, bytes: f64) -> f64 {
        match self.encoding {
            Encoding::Json => 2.0,
            Encoding::MsgPack if bytes < 32.0 => 1.0,
            Encoding::MsgPack if bytes < 256.0 => 2.0,
            Encoding::MsgPack if bytes < 65_536.0 => 3.0,
            Encoding::MsgPack => 5.0,
        }
    }

    /// What a list or table of so many items takes beside them, colons between names and values included.
    fn punctuation(&self, items: f64, named: bool) -> f64 {
        match self.encoding {
            Encoding::Json => 2.0 + (items - 1.0).max(0.0) + if named { items } else { 0.0 },
            Encoding::MsgPack if items < 16.0 => 1.0,
            Encoding::MsgPack => 3.0,
        }
    }

    fn text(&self, bytes: f64) -> f64 {
        bytes + self.quotes(bytes)
    }

    fn number(&self, number: i64) -> f64 {
        match (self.encoding, number) {
            (Encoding::Json, number) => number.to_string().len() as f64,
            (Encoding::MsgPack, -32..=127) => 1.0,
            (Encoding::MsgPack, -128..=255) => 2.0,
            (Encoding::MsgPack, -32_768..=65_535) => 3.0,
            (Encoding::MsgPack, -2_147_483_648..=4_294_967_295) => 5.0,
            (Encoding::MsgPack, _) => 9.0,
        }
    }

    fn constant(&self, value: &FieldValue) -> f64 {
        let is_json = self.encoding == Encoding::Json;
        match value {
            FieldValue::Null | FieldValue::Bool(_) if is_json => 4.5,
            FieldValue::Null | FieldValue::Bool(_) => 1.0,
            FieldValue::Int(number) => self.number(*number),
            FieldValue::Float(number) if is_json => number.to_string().len() as f64,
            FieldValue::Float(_) => 9.0,
            FieldValue::Text(text) => self.text(text.len() as f64),
            FieldValue::List(items) => {
                self.punctuation(items.len() as f64, false) + items.iter().map(|item| self.constant(item)).sum::<f64>()
            }
            FieldValue::Fields(fields) => {
                let inner = |(name, value): &(std::sync::Arc<str>, FieldValue)| {
                    self.text(name.len() as f64) + self.constant(value)
                };
                self.punctuation(fields.len() as f64, true) + fields.iter().map(inner).sum::<f64>()
            }
        }
    }
}

fn fields_bytes(fields: &[FieldSpec], document: &Document) -> DataBytes {
    let count: f64 = fields.iter().map(|field| field.present.get()).sum();
    let mut sum = DataBytes { mean: document.punctuation(count, true), least: 0.0 };
    for field in fields {
        let value = value_bytes(&field.value, document);
        sum.mean += field.present.get() * (document.text(field.name.len() as f64) + value.mean);
        sum.least += field.present.get() * value.least;
    }
    sum
}

/// Names and numbers repeat from document to document: of them a compressor may leave nothing.
pub(super) fn value_bytes(generator: &Generator, document: &Document) -> DataBytes {
    let repeats = |mean: f64| DataBytes { mean, least: 0.0 };
    let random = |mean: f64, share: f64| DataBytes { mean: document.text(mean), least: mean * share };
    match generator {
        Generator::Constant(value) => repeats(document.constant(value)),
        Generator::Template(parts) => repeats(document.text(template_bytes(parts, mean_digits(document.records, 0)))),
        Generator::Sequence { start, step } => {
            let middle = start.saturating_add(step.saturating_mul((document.records / 2) as i64));
            repeats(document.number(middle))
        }
        Generator::Cycle(values) => {
            repeats(values.iter().map(|value| document.constant(value)).sum::<f64>() / values.len().max(1) as f64)
        }
        Generator::Uniform(least, most) => repeats(mean_over((*least, *most), false, |number| document.number(number))),
        Generator::Zipfian(least, most) => repeats(mean_over((*least, *most), true, |number| document.number(number))),
        Generator::Text { bytes, compressible } => random(mean_size(bytes), 1.0 - compressible.get()),
        // Words have two syllables or three.
        Generator::Words { count, .. } => repeats(document.text((*count as f64 * 5.2 - 1.0).max(0.0))),
        // 122 random bits.
        Generator::Uuid => random(36.0, 15.25 / 36.0),
        Generator::Date { .. } => repeats(document.text(20.0)),
        Generator::Reference(to) => {
            let key = |number: i64| match &to.key {
                KeySpec::Integer { .. } => document.number(number),
                KeySpec::Hashed { bytes, .. } => document.text(f64::from(*bytes)),
                KeySpec::Template { parts, pad } => {
                    let digits = number.to_string().len().max(usize::from(*pad));
                    document.text(template_bytes(parts, digits as f64))
                }
            };
            let last = to.records.saturating_sub(1) as i64;
            repeats(mean_over((0, last), to.distribution == Distribution::Zipfian, key))
        }
        Generator::List { of, items: (least, most) } => {
            let (count, item) = ((*least + *most) as f64 / 2.0, value_bytes(of, document));
            DataBytes { mean: document.punctuation(count, false) + count * item.mean, least: count * item.least }
        }
        Generator::Items(items) => items.iter().map(|item| value_bytes(item, document)).fold(
            repeats(document.punctuation(items.len() as f64, false)),
            |sum, item| DataBytes { mean: sum.mean + item.mean, least: sum.least + item.least },
        ),
        Generator::Fields(fields) => fields_bytes(fields, document),
        // The file's size stands for its fields.
        Generator::InFile(_) => DataBytes::default(),
    }
}

/// Mean over random numbers from `least` to `most`. Zipfian ones are nearly uniform on a logarithmic scale: with the digits of the
/// middle, documents were said to take half as much again as they do.
fn mean_over((least, most): (i64, i64), zipfian: bool, bytes: impl Fn(i64) -> f64) -> f64 {
    let count = (i128::from(most) - i128::from(least) + 1) as f64;
    let quantile = |share: f64| {
        let above = if zipfian { count.powf(share) - 1.0 } else { count * share };
        (i128::from(least) + above as i128) as i64
    };
    (0..64).map(|part| bytes(quantile((f64::from(part) + 0.5) / 64.0))).sum::<f64>() / 64.0
}

/// Length of a template whose numbers have so many digits.
fn template_bytes(parts: &[String], digits: f64) -> f64 {
    let literal: usize = parts.iter().map(String::len).sum();
    literal as f64 + digits * (parts.len().saturating_sub(1)) as f64
}

/// Mean number of decimal digits of `0..records`, each at least `pad`.
fn mean_digits(records: u64, pad: u8) -> f64 {
    let mut sum = 0.0;
    let mut from = 0u64;
    for digits in 1..=20u32 {
        let to = 10u64.checked_pow(digits).map_or(records, |power| power.min(records));
        sum += (to - from) as f64 * f64::from(digits.max(u32::from(pad)));
        from = to;
        if to == records {
            break;
        }
    }
    if records == 0 { 0.0 } else { sum / records as f64 }
}

fn mean_size(size: &Size) -> f64 {
    let bytes = |bytes: Bytes| bytes.as_bytes() as f64;
    match size {
        Size::Fixed(fixed) => bytes(*fixed),
        Size::Uniform { min, max } => (bytes(*min) + bytes(*max)) / 2.0,
        Size::Zipfian { min, max } => zipfian_mean(bytes(*min), bytes(*max)),
        Size::LogNormal { median, sigma, max } => log_normal_mean(bytes(*median), *sigma, bytes(*max)),
    }
}

/// Mean of a log-normal length that is cut at `max`, an integral over the normal density. Without the cut a wide one was said to
/// have nearly three times its length.
fn log_normal_mean(median: f64, sigma: f64, max: f64) -> f64 {
    const STEP: f64 = 1.0 / 64.0;
    let part = |z: f64| (median * (sigma * z).exp()).min(max) * (-z * z / 2.0).exp();
    (-512..=512).map(|at| part(f64::from(at) * STEP)).sum::<f64>() * STEP / std::f64::consts::TAU.sqrt()
}

/// Mean of `min - 1 + k` over k = 1..=n with weights k^-0.99, the sums taken as integrals (Euler-Maclaurin, two terms).
fn zipfian_mean(min: f64, max: f64) -> f64 {
    const THETA: f64 = 0.99;
    let n = max - min + 1.0;
    let power_sum = |s: f64| {
        let integral = (n.powf(1.0 - s) - 1.0) / (1.0 - s);
        integral + (1.0 + n.powf(-s)) / 2.0 + s * (1.0 - n.powf(-s - 1.0)) / 12.0
    };
    min - 1.0 + power_sum(THETA - 1.0) / power_sum(THETA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_as_many_bytes_as_its_fixed_parts() {
        let bytes = |n| Size::Fixed(Bytes::from_bytes(n));
        let text = |bytes| Generator::Text { bytes, compressible: Default::default() };
        let field = |name: &str, value, present| FieldSpec {
            name: name.to_owned(),
            value,
            present: prony_model::units::Fraction::new(present).unwrap(),
        };
        let min = Size::Uniform { min: Bytes::from_bytes(7), max: Bytes::from_bytes(9) };
        let fields = vec![
            field("ab", text(bytes(2_100)), 1.0),
            field("c", Generator::List { of: Box::new(text(min)), items: (2, 5) }, 1.0),
            field("sometimes", text(bytes(1_000_000)), 0.9),
            field("n", Generator::Sequence { start: 0, step: 1 }, 1.0),
        ];
        let document = DocumentSpec { fields, encoding: Encoding::Json, file: None };
        let data = CollectionSpec {
            name: None,
            records: 5,
            key: KeySpec::Integer { bytes: 8 },
            value: ValueSpec::Document(document),
        };
        assert_eq!(least_value(&data), 2 + 2_100 + 1 + 14 + 1);
    }

    #[test]
    fn mean_digits_match_counting() {
        for records in [1u64, 2, 9, 10, 11, 99, 100, 101, 12_345] {
            for pad in [0u8, 3] {
                let counted: usize = (0..records).map(|n| n.to_string().len().max(usize::from(pad))).sum();
                assert!((mean_digits(records, pad) - counted as f64 / records as f64).abs() < 1e-9, "{records} {pad}");
            }
        }
        assert_eq!(mean_digits(0, 0), 0.0);
    }

    #[test]
    fn the_zipfian_mean_matches_its_sum() {
        for (min, max) in [(1u64, 1u64), (1, 10), (100, 400), (1000, 40_000)] {
            let weight = |k: u64| (k as f64).powf(-0.99);
            let n = max - min + 1;
            let sum: f64 = (1..=n).map(|k| weight(k) * (min - 1 + k) as f64).sum();
            let expected = sum / (1..=n).map(weight).sum::<f64>();
            let mean = zipfian_mean(min as f64, max as f64);
            assert!((mean / expected - 1.0).abs() < 0.01, "{min}..{max}: {mean} against {expected}");
        }
    }
}
