//! Computes a record's document from its number, and encodes documents.

use std::sync::Arc;

use super::key::{Keys, seed_of};
use super::numbered_text::Text;
use super::pass::RowsError;
use super::rows::Rows;
use super::size::SizeDraw;
use super::value::fill_to_share;
use super::zipf::Zipfian;
use prony_model::random::{GOLDEN, Purpose, Stream, derive, mix, unit};
use prony_model::spec::{
    Distribution, DocumentSpec, Encoding, FieldSpec, FieldValue, Generator, KeySpec, ReferenceSpec,
};

/// YCSB's exponent.
const THETA: f64 = 0.99;
/// The characters of generated text: none needs an escape in JSON.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .";
const CONSONANTS: &[u8; 16] = b"bcdfghjklmnprstv";
const VOWELS: &[u8; 4] = b"aeio";

/// Documents of one experiment and seed.
#[derive(Clone, Debug)]
pub(super) struct Documents {
    seed: u64,
    fields: Vec<Field>,
    /// The documents of a file, instead of those made from `fields`.
    rows: Option<Rows>,
    pub(super) encoding: Encoding,
}

impl Documents {
    /// Documents of a collection, from its seed and that of the trial, from which the seeds of other collections follow.
    ///
    /// # Errors
    /// Those of a file.
    pub(super) fn new(spec: &DocumentSpec, seed: u64, of_trial: u64) -> Result<Self, RowsError> {
        let rows = spec.file.as_ref().map(Rows::open).transpose()?;
        let fields = if rows.is_some() { Vec::new() } else { fields(&spec.fields, of_trial) };
        Ok(Self { seed: derive(seed, Purpose::Value, 0), fields, rows, encoding: spec.encoding })
    }

    /// Whether they are read from a file.
    pub(super) fn are_of_a_file(&self) -> bool {
        self.rows.is_some()
    }

    /// A version of a record's document: 0 as first written, 1, 2 ... as updated.
    pub(super) fn document(&self, number: u64, version: u32) -> FieldValue {
        self.part(number, version, |_| true)
    }

    /// Those fields of it, outside all others, whose names are wanted.
    pub(super) fn part(&self, number: u64, version: u32, wanted: impl Fn(&str) -> bool) -> FieldValue {
        if let Some(rows) = &self.rows {
            let mut document = rows.document(row(number, version, rows.count()));
            if let FieldValue::Fields(fields) = &mut document {
                fields.retain(|(name, _)| wanted(name));
            }
            return document;
        }
        FieldValue::Fields(self.draw(number, version).fields(&self.fields, wanted))
    }

    /// Hands the collection and the number of each record to which a version of a record's document refers to `found`.
    pub(super) fn references(&self, number: u64, version: u32, found: &mut impl FnMut(&str, u64)) {
        self.draw(number, version).references_of_fields(&self.fields, found);
    }

    fn draw(&self, number: u64, version: u32) -> Draw {
        let first = mix(self.seed ^ number);
        Draw { number, first, seed: mix(first ^ u64::from(version) << 32) }
    }

    /// Replaces `out` by the bytes of a document.
    pub(super) fn encode(&self, document: &FieldValue, out: &mut Vec<u8>) {
        out.clear();
        encode(self.encoding, document, out);
    }
}

/// The row of a file that is a version of a record's document. Numbers beyond the rows, of inserts, repeat them; an update
/// stores another row, the same distance away for all records.
fn row(number: u64, version: u32, rows: u64) -> u64 {
    let further = match version {
        0 => 0,
        version if rows > 1 => 1 + mix(u64::from(version)) % (rows - 1),
        _ => 0,
    };
    (number % rows + further) % rows
}

/// Appends the bytes that are stored for a document.
pub fn encode(encoding: Encoding, document: &FieldValue, out: &mut Vec<u8>) {
    match encoding {
        Encoding::MsgPack => rmp_serde::encode::write(out, document).expect("documents of these values can be encoded"),
        Encoding::Json => serde_json::to_writer(out, document).expect("documents of these values can be encoded"),
    }
}

/// Reads a document.
///
/// # Errors
/// Bytes that are no document of this encoding.
pub fn decode(encoding: Encoding, bytes: &[u8]) -> Result<FieldValue, Box<dyn std::error::Error + Send + Sync>> {
    Ok(match encoding {
        Encoding::MsgPack => rmp_serde::from_slice(bytes)?,
        Encoding::Json => serde_json::from_slice(bytes)?,
    })
}

/// A field, ready to be generated.
#[derive(Clone, Debug)]
struct Field {
    name: Arc<str>,
    value: Made,
    present: f64,
}

fn fields(specs: &[FieldSpec], of_trial: u64) -> Vec<Field> {
    let field = |spec: &FieldSpec| Field {
        name: spec.name.as_str().into(),
        value: Made::new(&spec.value, of_trial),
        present: spec.present.get(),
    };
    specs.iter().map(field).collect()
}

/// A generator with its tables.
#[derive(Clone, Debug)]
enum Made {
    Constant(FieldValue),
    Template(Text),
    Sequence { start: i64, step: i64 },
    Cycle(Vec<FieldValue>),
    Uniform { least: i64, span: u64 },
    Zipfian { least: i64, ranks: Zipfian },
    Text { size: SizeDraw, remains: f64 },
    Words { count: u64, ranks: Zipfian },
    Uuid,
    Date { from: i64, span: u64 },
    List { of: Box<Made>, least: u64, span: u64 },
    Reference(Box<Reference>),
    Items(Vec<Made>),
    Fields(Vec<Field>),
}

impl Made {
    fn new(spec: &Generator, of_trial: u64) -> Self {
        match spec {
            Generator::Constant(value) => Self::Constant(value.clone()),
            Generator::Template(parts) => Self::Template(Text::new(parts, 0)),
            Generator::Sequence { start, step } => Self::Sequence { start: *start, step: *step },
            Generator::Cycle(values) => Self::Cycle(values.clone()),
            Generator::Uniform(least, most) => Self::Uniform { least: *least, span: span(*least, *most) },
            Generator::Zipfian(least, most) => {
                Self::Zipfian { least: *least, ranks: Zipfian::new(span(*least, *most), THETA) }
            }
            Generator::Text { bytes, compressible } => {
                let least = 1.0 - Generator::LEAST_COMPRESSIBLE;
                Self::Text { size: SizeDraw::new(bytes), remains: ((1.0 - compressible.get()) / least).min(1.0) }
            }
            Generator::Words { count, vocabulary } => {
                Self::Words { count: *count, ranks: Zipfian::new(*vocabulary, THETA) }
            }
            Generator::Uuid => Self::Uuid,
            Generator::Date { from, to } => Self::Date { from: *from, span: span(*from, *to) },
            Generator::List { of, items: (least, most) } => {
                Self::List { of: Box::new(Self::new(of, of_trial)), least: *least, span: most - least + 1 }
            }
            Generator::Reference(reference) => Self::Reference(Box::new(Reference::new(reference, of_trial))),
            Generator::Items(items) => Self::Items(items.iter().map(|item| Self::new(item, of_trial)).collect()),
            Generator::Fields(specs) => Self::Fields(fields(specs, of_trial)),
            // Of a file's rows, which are read and not made.
            Generator::InFile(_) => Self::Constant(FieldValue::Null),
        }
    }
}

/// Keys of another collection, and which of them documents have.
#[derive(Clone, Debug)]
struct Reference {
    collection: String,
    keys: Keys,
    /// Keys are numbers.
    is_number: bool,
    pick: Pick,
}

#[derive(Clone, Debug)]
enum Pick {
    Uniform(u64),
    Zipfian(Zipfian),
    Cycle(u64),
}

impl Reference {
    fn new(spec: &ReferenceSpec, of_trial: u64) -> Self {
        Self {
            collection: spec.collection.clone(),
            keys: Keys::new(&spec.key, seed_of(Some(&spec.collection), of_trial)),
            is_number: matches!(spec.key, KeySpec::Integer { .. }),
            pick: match spec.distribution {
                Distribution::Uniform => Pick::Uniform(spec.records),
                Distribution::Zipfian => Pick::Zipfian(Zipfian::new(spec.records, THETA)),
                Distribution::Cycle => Pick::Cycle(spec.records),
            },
        }
    }

    /// The number of the record to which the record with this number refers.
    fn to(&self, number: u64, mut stream: Stream) -> u64 {
        match &self.pick {
            Pick::Uniform(records) => stream.below(*records),
            Pick::Zipfian(ranks) => ranks.rank(stream.unit()),
            Pick::Cycle(records) => number % records,
        }
    }

    /// Its key.
    fn value(&self, number: u64, stream: Stream) -> FieldValue {
        let to = self.to(number, stream);
        match self.is_number {
            true => FieldValue::Int(to as i64),
            false => FieldValue::Text(written(|out| self.keys.write(to, out))),
        }
    }
}

/// How many whole numbers lie between, both ends included.
fn span(least: i64, most: i64) -> u64 {
    most.abs_diff(least).saturating_add(1)
}

/// The random state of one value: each value inside it has a state of its own, so that a field keeps its values when
/// another field is added after it or changes its generator.
#[derive(Clone, Copy)]
struct Draw {
    number: u64,
    /// The same for all versions of a record.
    first: u64,
    seed: u64,
}

impl Draw {
    /// The state of the value with this index inside.
    fn inner(self, index: usize) -> Self {
        let step = (index as u64 + 1).wrapping_mul(GOLDEN);
        Self { first: mix(self.first.wrapping_add(step)), seed: mix(self.seed.wrapping_add(step)), ..self }
    }

    fn fields(self, fields: &[Field], wanted: impl Fn(&str) -> bool) -> Vec<(Arc<str>, FieldValue)> {
        let made = |(index, field): (usize, &Field)| {
            let inner = self.present(index, field)?;
            Some((Arc::clone(&field.name), inner.value(&field.value)))
        };
        fields.iter().enumerate().filter(|(_, field)| wanted(&field.name)).filter_map(made).collect()
    }

    /// The state of a field's value, if the document has the field.
    fn present(self, index: usize, field: &Field) -> Option<Self> {
        let inner = self.inner(index);
        // An update changes neither whether a field is there nor what identifies the document.
        let present = field.present >= 1.0 || unit(mix(!inner.first)) < field.present;
        present.then_some(inner)
    }

    fn references_of_fields(self, fields: &[Field], found: &mut impl FnMut(&str, u64)) {
        for (index, field) in fields.iter().enumerate() {
            if let Some(inner) = self.present(index, field) {
                inner.references(&field.value, found);
            }
        }
    }

    /// The records to which a value refers, and those inside it.
    fn references(self, made: &Made, found: &mut impl FnMut(&str, u64)) {
        match made {
            Made::Reference(reference) => {
                found(&reference.collection, reference.to(self.number, Stream::new(self.seed)));
            }
            Made::List { of, least, span } => {
                let items = least + Stream::new(self.seed).below(*span);
                (0..items as usize).for_each(|index| self.inner(index).references(of, found));
            }
            Made::Items(items) => {
                items.iter().enumerate().for_each(|(index, item)| self.inner(index).references(item, found));
            }
            Made::Fields(fields) => self.references_of_fields(fields, found),
            _ => {}
        }
    }

    fn value(self, made: &Made) -> FieldValue {
        let mut stream = Stream::new(self.seed);
        match made {
            Made::Constant(value) => value.clone(),
            Made::Template(text) => FieldValue::Text(written(|out| text.write(self.number, out))),
            Made::Sequence { start, step } => {
                FieldValue::Int(start.wrapping_add((self.number as i64).wrapping_mul(*step)))
            }
            Made::Cycle(values) => values[(self.number % values.len() as u64) as usize].clone(),
            Made::Uniform { least, span } => FieldValue::Int(least.wrapping_add(stream.below(*span) as i64)),
            Made::Zipfian { least, ranks } => FieldValue::Int(least.wrapping_add(ranks.rank(stream.unit()) as i64)),
            Made::Text { size, remains } => FieldValue::Text(text(size.draw(stream.word()), *remains, stream)),
            Made::Words { count, ranks } => FieldValue::Text(words(*count, ranks, stream)),
            Made::Uuid => FieldValue::Text(uuid(Stream::new(self.first))),
            Made::Date { from, span } => FieldValue::Text(date(from.wrapping_add(stream.below(*span) as i64))),
            Made::List { of, least, span } => {
                let items = least + stream.below(*span);
                FieldValue::List((0..items as usize).map(|index| self.inner(index).value(of)).collect())
            }
            Made::Reference(reference) => reference.value(self.number, stream),
            Made::Items(items) => {
                let item = |(index, item): (usize, &Made)| self.inner(index).value(item);
                FieldValue::List(items.iter().enumerate().map(item).collect())
            }
            Made::Fields(fields) => FieldValue::Fields(self.fields(fields, |_| true)),
        }
    }
}

/// A text from what writes ASCII or UTF-8.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).expect("generators write UTF-8")
}

/// Text of a length of which a compressor leaves a share: that of bytes, with each byte turned into one of 64 characters.
fn text(length: usize, remains: f64, stream: Stream) -> String {
    written(|out| {
        out.resize(length, 0);
        fill_to_share(out, remains, stream);
        out.iter_mut().for_each(|byte| *byte = ALPHABET[usize::from(*byte & 63)]);
    })
}

fn words(count: u64, ranks: &Zipfian, mut stream: Stream) -> String {
    written(|out| {
        for index in 0..count {
            if index > 0 {
                out.push(b' ');
            }
            word(ranks.rank(stream.unit()), out);
        }
    })
}

/// A word of its own for each number: syllables of a consonant and a vowel, two at least. Beyond the words of `n`
/// syllables, numbers continue with those of `n + 1`.
fn word(mut number: u64, out: &mut Vec<u8>) {
    syllable(number % 64, out);
    number /= 64;
    loop {
        syllable(number % 64, out);
        number /= 64;
        if number == 0 {
            return;
        }
        number -= 1;
    }
}

fn syllable(digit: u64, out: &mut Vec<u8>) {
    out.push(CONSONANTS[(digit / 4) as usize % 16]);
    out.push(VOWELS[(digit % 4) as usize]);
}

/// RFC 9562, section 5.4: 122 random bits, the version in the 13th digit, the variant in the 17th.
fn uuid(mut stream: Stream) -> String {
    let high = stream.word() & 0xffff_ffff_ffff_0fff | 0x4000;
    let low = stream.word() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
}

/// Seconds since 1970 as RFC 3339 in UTC. The experiment's check keeps them between the years 0 and 9999.
fn date(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| String::new(), |at| at.to_string())
}

#[cfg(test)]
mod tests;
