//! Computes a record's document from its number, and encodes documents.

use std::sync::Arc;

use super::key::{Keys, seed_of};
use super::numbered_text::Text;
use super::rows::{Rows, RowsError};
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
    encoding: Encoding,
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

    pub(super) fn encoding(&self) -> Encoding {
        self.encoding
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
mod tests {
    use super::*;
    use crate::Records;
    use crate::tests::{deviation, gray};
    use prony_model::spec::{CollectionSpec, Size, ValueSpec};
    use prony_model::units::{Bytes, Fraction};
    use proptest::prelude::*;

    fn field(name: &str, value: Generator) -> FieldSpec {
        FieldSpec { name: name.to_owned(), value, present: Fraction::new(1.0).unwrap() }
    }

    fn document(fields: Vec<FieldSpec>) -> Documents {
        Documents::new(&DocumentSpec { fields, encoding: Encoding::Json, file: None }, 7, 3).unwrap()
    }

    fn json(documents: &Documents, number: u64) -> String {
        let mut out = Vec::new();
        documents.encode(&documents.document(number, 0), &mut out);
        String::from_utf8(out).unwrap()
    }

    fn text_of(bytes: u64, compressible: f64) -> Generator {
        Generator::Text {
            bytes: Size::Fixed(Bytes::from_bytes(bytes)),
            compressible: Fraction::new(compressible).unwrap(),
        }
    }

    #[test]
    fn fields_are_written_in_order_and_nested() {
        let documents = document(vec![
            field("id", Generator::Template(vec!["/path/".into(), "/".into()])),
            field("step", Generator::Sequence { start: 0, step: 1 }),
            field("isOdd", Generator::Cycle(vec![FieldValue::Bool(false), FieldValue::Bool(true)])),
            field(
                "internal",
                Generator::Fields(vec![field("type", Generator::Constant(FieldValue::Text("Test".into())))]),
            ),
            field("tags", Generator::Items(vec![Generator::Template(vec!["t".into(), "".into()])])),
        ]);
        assert_eq!(
            json(&documents, 3),
            r#"{"id":"/path/3/","step":3,"isOdd":true,"internal":{"type":"Test"},"tags":["t3"]}"#
        );
    }

    fn reference(key: KeySpec, records: u64, distribution: Distribution) -> Generator {
        Generator::Reference(Box::new(ReferenceSpec { collection: "others".to_owned(), records, key, distribution }))
    }

    fn any_key() -> impl Strategy<Value = KeySpec> {
        prop_oneof![
            (0u8..4).prop_map(|pad| KeySpec::Template { parts: vec!["ü/".into(), String::new()], pad }),
            Just(KeySpec::Integer { bytes: 4 }),
            (20u16..40).prop_map(|bytes| KeySpec::Hashed { prefix: "k".into(), bytes, hex: true }),
        ]
    }

    fn any_distribution() -> impl Strategy<Value = Distribution> {
        prop::sample::select(vec![Distribution::Uniform, Distribution::Zipfian, Distribution::Cycle])
    }

    proptest! {
        /// The keys of the collection that is referred to, as a store of this seed has them.
        #[test]
        fn references_are_keys_of_the_other_collection(
            key in any_key(), records in 1u64..50, distribution in any_distribution(), seed: u64,
        ) {
            let value = ValueSpec::Document(DocumentSpec {
                fields: vec![field("to", reference(key.clone(), records, distribution))],
                encoding: Encoding::Json,
                file: None,
            });
            let of = |name: &str, value: ValueSpec, key: KeySpec| {
                let spec = CollectionSpec { name: Some(name.to_owned()), records, key, value };
                Records::new(&spec, seed).unwrap()
            };
            let target = of("others", value.clone(), key.clone());
            let own = of("own", value, KeySpec::Integer { bytes: 8 });
            let mut bytes = Vec::new();
            let keys: Vec<FieldValue> = (0..records).map(|number| {
                target.key(number, &mut bytes);
                match key {
                    KeySpec::Integer { .. } => FieldValue::Int(number as i64),
                    _ => FieldValue::Text(String::from_utf8(bytes.clone()).unwrap()),
                }
            }).collect();
            for number in 0..3 * records {
                let document = own.document(number, 0).unwrap();
                let to = document.at(&["to"]).unwrap();
                prop_assert!(keys.contains(to), "{to:?}");
                prop_assert_eq!(&own.document(number, 0).unwrap(), &document);
                if distribution == Distribution::Cycle {
                    prop_assert_eq!(to, &keys[(number % records) as usize]);
                    let updated = own.document(number, 5).unwrap();
                    prop_assert_eq!(updated.at(&["to"]), Some(to));
                }
            }
        }
    }

    #[test]
    fn numbers_of_references_are_those_in_the_document_in_every_place() {
        let to = |distribution| reference(KeySpec::Integer { bytes: 8 }, 1000, distribution);
        let mut sometimes = field("b", Generator::Fields(vec![field("c", to(Distribution::Zipfian))]));
        sometimes.present = Fraction::new(0.5).unwrap();
        let documents = document(vec![
            field("a", to(Distribution::Uniform)),
            sometimes,
            field("d", Generator::List { of: Box::new(to(Distribution::Uniform)), items: (0, 4) }),
            field("e", Generator::Items(vec![to(Distribution::Cycle), Generator::Uuid, to(Distribution::Uniform)])),
        ]);
        fn numbers(value: &FieldValue, all: &mut Vec<u64>) {
            match value {
                FieldValue::Int(number) => all.push(*number as u64),
                FieldValue::List(items) => items.iter().for_each(|item| numbers(item, all)),
                FieldValue::Fields(fields) => fields.iter().for_each(|(_, value)| numbers(value, all)),
                _ => {}
            }
        }
        for (number, version) in (0..200).flat_map(|number| [(number, 0), (number, 3)]) {
            let (mut wanted, mut found) = (Vec::new(), Vec::new());
            numbers(&documents.document(number, version), &mut wanted);
            documents.references(number, version, &mut |collection, to| {
                assert_eq!(collection, "others");
                found.push(to);
            });
            assert_eq!(found, wanted, "record {number}, version {version}");
        }
    }

    #[test]
    fn references_follow_their_distribution() {
        const RECORDS: u64 = 10;
        let counts = |distribution, version| {
            let key = KeySpec::Integer { bytes: 8 };
            let documents = document(vec![field("to", reference(key, RECORDS, distribution))]);
            let mut counts = vec![0u64; RECORDS as usize];
            for number in 0..10_000 {
                let document = documents.document(number, version);
                let Some(FieldValue::Int(to)) = document.at(&["to"]) else { panic!("{document:?}") };
                counts[*to as usize] += 1;
            }
            counts
        };
        let uniform = counts(Distribution::Uniform, 0);
        assert!(deviation(&uniform, &[0.1; 10]).abs() < 4.0, "{uniform:?}");
        assert_ne!(uniform, counts(Distribution::Uniform, 1), "an update refers to another record");
        let zipfian = counts(Distribution::Zipfian, 0);
        assert!(deviation(&zipfian, &gray(RECORDS, THETA, RECORDS)).abs() < 4.0, "{zipfian:?}");
        assert_eq!(counts(Distribution::Cycle, 0), [1000; 10]);
    }

    fn any_generator() -> impl Strategy<Value = Generator> {
        let plain = prop_oneof![
            Just(Generator::Constant(FieldValue::Null)),
            Just(Generator::Constant(FieldValue::Float(-0.25))),
            Just(Generator::Template(vec!["ü".into(), "\"".into()])),
            (any::<i64>(), any::<i64>()).prop_map(|(start, step)| Generator::Sequence { start, step }),
            Just(Generator::Cycle(vec![FieldValue::Bool(true), FieldValue::Int(i64::MIN)])),
            (any::<i64>(), any::<i64>()).prop_map(|(a, b)| Generator::Uniform(a.min(b), a.max(b))),
            (-9i64..9, 0i64..999).prop_map(|(a, b)| Generator::Zipfian(a, a + b)),
            (0u64..300).prop_map(|bytes| text_of(bytes, 0.5)),
            (0u64..6, 1u64..9_999).prop_map(|(count, vocabulary)| Generator::Words { count, vocabulary }),
            Just(Generator::Uuid),
            (any_key(), 1u64..99, any_distribution()).prop_map(|(key, records, distribution)| reference(
                key,
                records,
                distribution
            )),
            (-1_000_000i64..1_000_000).prop_map(|from| Generator::Date { from, to: from + 86_400 }),
        ];
        plain.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                (inner.clone(), 0u64..3, 0u64..3)
                    .prop_map(|(of, least, more)| Generator::List { of: Box::new(of), items: (least, least + more) }),
                prop::collection::vec(inner.clone(), 0..3).prop_map(Generator::Items),
                prop::collection::vec((inner, 0.0f64..=1.0), 0..3).prop_map(|fields| {
                    let field = |(index, (value, present)): (usize, (Generator, f64))| FieldSpec {
                        name: format!("f{index}"),
                        value,
                        present: Fraction::new(present).unwrap(),
                    };
                    Generator::Fields(fields.into_iter().enumerate().map(field).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn part_of_a_document_has_the_wanted_fields_of_the_whole(
            values in prop::collection::vec(any_generator(), 1..4), wanted in 0usize..4, number: u64, version: u32,
        ) {
            let names = ["a", "b", "c"];
            let documents = document(names.iter().zip(values).map(|(name, value)| field(name, value)).collect());
            let name = names.get(wanted).copied();
            let FieldValue::Fields(mut whole) = documents.document(number, version) else { unreachable!() };
            whole.retain(|(field, _)| Some(&**field) == name);
            let part = documents.part(number, version, |field| Some(field) == name);
            prop_assert_eq!(part, FieldValue::Fields(whole));
        }

        #[test]
        fn documents_are_functions_of_number_and_version_and_survive_encoding(
            value in any_generator(), number: u64, version: u32,
        ) {
            let documents = document(vec![field("x", value)]);
            let made = documents.document(number, version);
            prop_assert_eq!(&documents.clone().document(number, version), &made);
            for encoding in [Encoding::MsgPack, Encoding::Json] {
                let mut bytes = Vec::new();
                encode(encoding, &made, &mut bytes);
                prop_assert_eq!(&decode(encoding, &bytes).unwrap(), &made);
            }
        }

        #[test]
        fn uniform_and_zipfian_numbers_lie_between_their_ends(number: u64, a: i64, b: i64, c in -99i64..99, n in 0i64..99) {
            let documents = document(vec![
                field("u", Generator::Uniform(a.min(b), a.max(b))),
                field("z", Generator::Zipfian(c, c + n)),
            ]);
            let made = documents.document(number, 0);
            let number = |name: &str| match made.at(&[name]) {
                Some(FieldValue::Int(number)) => *number,
                other => panic!("{other:?}"),
            };
            prop_assert!((a.min(b)..=a.max(b)).contains(&number("u")));
            prop_assert!((c..=c + n).contains(&number("z")));
        }
    }

    #[test]
    fn an_update_renews_random_fields_and_keeps_what_identifies() {
        let documents = document(vec![field("id", Generator::Uuid), field("text", text_of(100, 0.5))]);
        let (old, new) = (documents.document(5, 0), documents.document(5, 1));
        assert_eq!(old.at(&["id"]), new.at(&["id"]));
        assert_ne!(old.at(&["text"]), new.at(&["text"]));
        assert_ne!(old.at(&["id"]), documents.document(6, 0).at(&["id"]));
    }

    #[test]
    fn another_field_does_not_change_those_before_it() {
        let (text, uuid) = (field("text", text_of(50, 0.5)), field("id", Generator::Uuid));
        let one = document(vec![text.clone()]).document(9, 0);
        let two = document(vec![text, uuid]).document(9, 0);
        assert_eq!(one.at(&["text"]), two.at(&["text"]));
    }

    #[test]
    fn texts_compress_by_their_declared_share() {
        for share in [0.25, 0.4, 0.6, 0.9] {
            let documents = document(vec![field("text", text_of(4_000, share))]);
            let all: Vec<u8> = (0..200)
                .flat_map(|number| match documents.document(number, 0).at(&["text"]) {
                    Some(FieldValue::Text(text)) => text.clone().into_bytes(),
                    other => panic!("{other:?}"),
                })
                .collect();
            let left = miniz_oxide::deflate::compress_to_vec(&all, 6).len() as f64 / all.len() as f64;
            assert!((1.0 - left - share).abs() <= 0.03, "shrinks by {:.4}, not {share}", 1.0 - left);
        }
    }

    #[test]
    fn uuids_have_their_version_and_are_distinct() {
        let mut all: Vec<String> = (0..1_000).map(|n| uuid(Stream::new(mix(n)))).collect();
        for one in &all {
            assert_eq!((one.len(), &one[14..15]), (36, "4"), "{one}");
            assert!("89ab".contains(&one[19..20]), "{one}");
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1_000);
    }

    #[test]
    fn different_numbers_are_different_words() {
        let mut all: Vec<String> = (0..20_000).map(|n| written(|out| word(n, out))).collect();
        assert!(all.iter().all(|word| word.len() >= 4));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 20_000);
    }

    #[test]
    fn dates_have_one_length_and_the_order_of_time() {
        let seconds = [-62_135_596_800, -1, 0, 951_782_400, 253_402_207_200];
        let dates = seconds.map(date);
        assert_eq!(dates[3], "2000-02-29T00:00:00Z");
        assert!(dates.is_sorted() && dates.iter().all(|date| date.len() == 20), "{dates:?}");
    }

    #[test]
    fn a_field_is_present_in_its_share_of_the_documents() {
        let mut some = field("x", Generator::Constant(FieldValue::Null));
        some.present = Fraction::new(0.3).unwrap();
        let documents = document(vec![some]);
        let present = (0..10_000).filter(|n| documents.document(*n, 0).at(&["x"]).is_some()).count();
        // Five standard deviations of a binomial count.
        assert!((2_770..=3_230).contains(&present), "{present}");
    }
}
