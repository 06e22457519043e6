//! Documents: their values, and the generators from which each field is made.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json_values::{Altered, NameOrder};
use crate::key::KeySpec;
use crate::units::{Bytes, Fraction};

/// A value of a document, as JSON and MessagePack know them. Dates are texts after RFC 3339 in UTC, all of one length,
/// so that their order as texts is their order in time.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// No value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number; never a NaN or an infinity.
    Float(f64),
    /// Text.
    Text(String),
    /// Values in order.
    List(Vec<FieldValue>),
    /// Named values, in the order in which they are written.
    Fields(Vec<(Arc<str>, FieldValue)>),
}

impl FieldValue {
    /// The value at a path of field names, such as `["internal", "type"]`.
    pub fn at(&self, path: &[impl AsRef<str>]) -> Option<&Self> {
        path.iter().try_fold(self, |value, name| match value {
            Self::Fields(fields) => {
                fields.iter().find(|(field, _)| field.as_ref() == name.as_ref()).map(|(_, value)| value)
            }
            _ => None,
        })
    }
}

impl Serialize for FieldValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(flag) => serializer.serialize_bool(*flag),
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Fields(fields) => serializer.collect_map(fields.iter().map(|(name, value)| (name.as_ref(), value))),
        }
    }
}

impl<'de> Deserialize<'de> for FieldValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReadValue)
    }
}

struct ReadValue;

impl<'de> Visitor<'de> for ReadValue {
    type Value = FieldValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null, a flag, a number of 64 bits, a text, a list or fields")
    }

    fn visit_unit<E>(self) -> Result<FieldValue, E> {
        Ok(FieldValue::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<FieldValue, E> {
        Ok(FieldValue::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<FieldValue, E> {
        Ok(FieldValue::Int(number))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<FieldValue, E> {
        i64::try_from(number)
            .map(FieldValue::Int)
            .map_err(|_| E::custom(format!("{number} does not fit into 64 signed bits")))
    }

    fn visit_f64<E>(self, number: f64) -> Result<FieldValue, E> {
        Ok(FieldValue::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<FieldValue, E> {
        Ok(FieldValue::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<FieldValue, A::Error> {
        let mut list = Vec::with_capacity(items.size_hint().unwrap_or(0).min(1024));
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(FieldValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<FieldValue, A::Error> {
        let mut fields = Vec::with_capacity(entries.size_hint().unwrap_or(0).min(1024));
        while let Some((name, value)) = entries.next_entry::<String, FieldValue>()? {
            fields.push((name.into(), value));
        }
        Ok(FieldValue::Fields(fields))
    }
}

/// A length in bytes, fixed or drawn per record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Always the same.
    Fixed(Bytes),
    /// Every length from `min` to `max` equally likely.
    Uniform {
        /// Shortest.
        min: Bytes,
        /// Longest.
        max: Bytes,
    },
    /// Zipfian between `min` and `max`, short ones likelier (YCSB's `fieldlengthdistribution=zipfian`).
    Zipfian {
        /// Shortest, the likeliest.
        min: Bytes,
        /// Longest.
        max: Bytes,
    },
    /// Log-normal by median and the standard deviation of the logarithm, cut at `max`.
    LogNormal {
        /// The median.
        median: Bytes,
        /// Standard deviation of ln(length).
        sigma: f64,
        /// Longest.
        max: Bytes,
    },
}

impl Size {
    /// The smallest size that is certain.
    pub const fn least(&self) -> Bytes {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Uniform { min, .. } | Self::Zipfian { min, .. } => *min,
            Self::LogNormal { .. } => Bytes::from_bytes(0),
        }
    }
}

/// Where a field is: the names from the outermost to the innermost, written `internal.type`. Copies share the names: every
/// operation that queries has one of each path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FieldPath(pub Arc<[String]>);

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

impl FromStr for FieldPath {
    type Err = EmptyName;

    fn from_str(text: &str) -> Result<Self, EmptyName> {
        let names: Arc<[String]> = text.split('.').map(str::to_owned).collect();
        if names.iter().any(String::is_empty) { Err(EmptyName) } else { Ok(Self(names)) }
    }
}

/// A path with nothing before, after or between two full stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a field's name is empty")]
pub struct EmptyName;

/// How a record's number becomes a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DocumentSpec {
    /// The fields, in the order in which they are written.
    pub fields: Vec<FieldSpec>,
    /// How a document becomes the bytes that are stored.
    pub encoding: Encoding,
    /// The file whose rows the documents are; `None` where they are made by generators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<DocumentFile>,
}

/// A field of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldSpec {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Generator,
    /// The share of the documents that have the field.
    pub present: Fraction,
}

crate::words! {
    /// How documents are encoded.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Encoding {
        /// MessagePack, fields by name.
        #[default]
        MsgPack = "msgpack", "MessagePack, each field with its name";
        /// JSON without blanks.
        Json = "json", "JSON without blanks; SQLite, PostgreSQL and MongoDB answer queries over it themselves";
    }
}

/// How a record's number becomes a value. All are pure functions of number, seed and, where they are random, version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Generator {
    /// Always the same.
    Constant(FieldValue),
    /// Text with the number in decimal between the parts.
    Template(Vec<String>),
    /// `start + number * step`, modulo 2^64.
    Sequence {
        /// The value of record 0.
        start: i64,
        /// The difference between two records.
        step: i64,
    },
    /// These values in turn: that of record `n` is the one with index `n % length`; not empty.
    Cycle(Vec<FieldValue>),
    /// Every whole number from the first to the second, equally likely.
    Uniform(i64, i64),
    /// Whole numbers from the first to the second, low ones more likely, with YCSB's exponent.
    Zipfian(i64, i64),
    /// Letters and digits without meaning.
    Text {
        /// The length.
        bytes: Size,
        /// The share by which a general compressor shrinks it; at least [`Self::LEAST_COMPRESSIBLE`].
        compressible: Fraction,
    },
    /// Words with a blank between each two, frequent words more likely.
    Words {
        /// How many.
        count: u64,
        /// How many different words there are.
        vocabulary: u64,
    },
    /// A random UUID (version 4 of RFC 9562) as text. An update does not change it.
    Uuid,
    /// A time as text, such as `2021-03-01T12:00:00Z`: every second between these, equally likely.
    Date {
        /// Earliest, in seconds since 1970.
        from: i64,
        /// Latest.
        to: i64,
    },
    /// A list.
    List {
        /// How its items are made.
        of: Box<Generator>,
        /// The least and the largest number of items, and each between them, equally likely.
        items: (u64, u64),
    },
    /// The key of a record of a collection: text, or a number where keys are [`KeySpec::Integer`].
    Reference(Box<ReferenceSpec>),
    /// A list of these, one item each.
    Items(Vec<Generator>),
    /// Nested fields.
    Fields(Vec<FieldSpec>),
    /// What the rows of a file have.
    InFile(InFile),
}

/// A file, as it was when the experiment was checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DocumentFile {
    /// Absolute.
    pub path: String,
    /// How its rows are written.
    pub form: RowForm,
    /// How many documents it has.
    pub rows: u64,
    /// XXH3 (128 bits) of its content, in hexadecimal.
    pub digest: String,
    /// All documents, as JSON without blanks.
    pub json: Bytes,
    /// The longest of them.
    pub longest: Bytes,
    /// A field that no path can name, since there is a full stop in its name, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unnamed: Option<String>,
    /// The order of the names of fields, unless a part is altered.
    #[serde(default, skip_serializing_if = "NameOrder::is_empty")]
    pub names: NameOrder,
    /// A part that does not come back from an engine that stores the values of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altered: Option<Altered>,
}

/// How a file's rows are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowForm {
    /// A JSON object a line.
    Ndjson,
    /// Comma-separated values after RFC 4180, with a line of names; a name such as `internal.type` is that of a nested field.
    Csv(Vec<Column>),
}

/// A column of a file with comma-separated values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// The field.
    pub field: FieldPath,
    /// What all its cells can be read as. A document has no field where the cell is empty.
    pub cells: Cells,
}

/// What all cells of a column that are not empty can be read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cells {
    /// `true` or `false`.
    Flag,
    /// Numbers as JSON writes them: not `007`.
    Number,
    /// Lists as JSON.
    List,
    /// Any text.
    Text,
}

/// What the rows of a file have in a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InFile {
    /// The kinds of its values.
    pub kinds: Kinds,
    /// Bytes of the longest text, or of the longest that a list has; each zero byte counts twice.
    pub longest: u64,
    /// Items of the longest list.
    pub items: u64,
    /// Fields of the values that have fields.
    pub fields: Vec<FieldSpec>,
}

/// To which record a field refers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReferenceSpec {
    /// The name of its collection.
    pub collection: String,
    /// How many records that has: the numbers below are referred to.
    pub records: u64,
    /// How its keys are made; never raw bytes of a hash, which are no text.
    pub key: KeySpec,
    /// Which of the records.
    pub distribution: Distribution,
}

crate::words! {
    /// Which record a field refers to.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Distribution {
        /// Any, equally likely.
        #[default]
        Uniform = "uniform", "any record, all equally likely";
        /// Any, those with low numbers more likely, with YCSB's exponent.
        Zipfian = "zipfian", "any record, those with low numbers more likely, with the exponent 0.99";
        /// Each in turn: record `n` refers to the one with the number `n % records`.
        Cycle = "cycle", "each record in turn";
    }
}

impl Generator {
    /// Every reference in the values, at whatever depth.
    fn add_references<'g>(&'g self, all: &mut Vec<&'g ReferenceSpec>) {
        match self {
            Self::Reference(reference) => all.push(reference),
            Self::List { of, .. } => of.add_references(all),
            Self::Items(items) => items.iter().for_each(|item| item.add_references(all)),
            Self::Fields(fields) => fields.iter().for_each(|field| field.value.add_references(all)),
            _ => {}
        }
    }

    /// Text is made of 64 characters, each of which holds 6 bits of information in 8: an entropy coder shrinks even
    /// random text by a quarter.
    pub const LEAST_COMPRESSIBLE: f64 = 0.25;
}

impl DocumentSpec {
    /// Every field by its path, those that hold fields included.
    pub fn paths(&self) -> Vec<FieldPath> {
        fn add(fields: &[FieldSpec], above: &[String], paths: &mut Vec<FieldPath>) {
            for field in fields {
                let path = [above, std::slice::from_ref(&field.name)].concat();
                paths.push(FieldPath(path.as_slice().into()));
                if let Generator::Fields(inner) | Generator::InFile(InFile { fields: inner, .. }) = &field.value {
                    add(inner, &path, paths);
                }
            }
        }
        let mut paths = Vec::new();
        add(&self.fields, &[], &mut paths);
        paths
    }

    /// What documents may have at a path.
    pub fn kinds(&self, path: &FieldPath) -> Kinds {
        let mut kinds = Kinds::default();
        kinds.add_of(&self.fields, &path.0);
        kinds
    }

    /// Every reference of the documents to records of collections, in the order of the fields.
    pub fn references(&self) -> Vec<FieldReference<'_>> {
        let mut all = Vec::new();
        add_references(&self.fields, &[], true, &mut all);
        all
    }

    /// The generator of the field `id`, from which keys are made.
    pub fn id(&self) -> Option<&Generator> {
        self.fields.iter().find(|field| field.name == "id").map(|field| &field.value)
    }
}

/// A reference of a collection's documents.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldReference<'d> {
    /// The field that is the reference, or the list that holds it.
    pub path: FieldPath,
    /// Where in the field it is.
    pub place: ReferencePlace,
    /// Whether each document is known to have it.
    pub always: bool,
    /// Whether the list has items that are no references to the same collection.
    pub mixed: bool,
    /// To which record it is.
    pub to: &'d ReferenceSpec,
}

/// Where in a field references are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferencePlace {
    /// The field is a reference.
    Field,
    /// Each item of the list is one.
    Items,
    /// The item of the list with this index is one.
    Item(usize),
    /// Inside an item of the list, where no path leads.
    InsideItems,
}

fn add_references<'d>(fields: &'d [FieldSpec], above: &[String], always: bool, all: &mut Vec<FieldReference<'d>>) {
    for field in fields {
        let path = [above, std::slice::from_ref(&field.name)].concat();
        let always = always && field.present.get() >= 1.0;
        let mut add = |generator: &'d Generator, place, always, list: &[Generator]| {
            let mut found = Vec::new();
            generator.add_references(&mut found);
            let (place, always) = match generator {
                Generator::Reference(_) => (place, always),
                _ => (ReferencePlace::InsideItems, false),
            };
            let path = FieldPath(path.as_slice().into());
            all.extend(found.into_iter().map(|to| {
                let same =
                    |item: &Generator| matches!(item, Generator::Reference(one) if one.collection == to.collection);
                FieldReference { path: path.clone(), place, always, mixed: !list.iter().all(same), to }
            }));
        };
        match &field.value {
            Generator::Fields(inner) => add_references(inner, &path, always, all),
            Generator::List { of, items } => add(of, ReferencePlace::Items, always && items.0 > 0, &[]),
            Generator::Items(items) => {
                items.iter().enumerate().for_each(|(at, item)| add(item, ReferencePlace::Item(at), always, items));
            }
            one => add(one, ReferencePlace::Field, always, &[]),
        }
    }
}

/// What documents may have at a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kinds {
    /// Nothing.
    pub missing: bool,
    /// Null.
    pub null: bool,
    /// `true` or `false`.
    pub flag: bool,
    /// A number.
    pub number: bool,
    /// Text.
    pub text: bool,
    /// A list.
    pub list: bool,
    /// Nested fields.
    pub fields: bool,
}

impl Kinds {
    fn add_of(&mut self, fields: &[FieldSpec], path: &[String]) {
        let Some((name, rest)) = path.split_first() else {
            self.fields = true;
            return;
        };
        match fields.iter().find(|field| field.name == *name) {
            Some(field) => {
                self.missing |= field.present.get() < 1.0;
                self.add_made(&field.value, rest);
            }
            None => self.missing = true,
        }
    }

    fn add_made(&mut self, generator: &Generator, path: &[String]) {
        match generator {
            Generator::Fields(inner) => self.add_of(inner, path),
            Generator::InFile(found) if path.is_empty() => self.add(found.kinds),
            Generator::InFile(found) => {
                self.missing |= found.kinds != Kinds { fields: true, ..Kinds::default() };
                self.add_of(&found.fields, path);
            }
            Generator::Constant(value) => self.add_value(value.at(path)),
            Generator::Cycle(values) => values.iter().for_each(|value| self.add_value(value.at(path))),
            _ if !path.is_empty() => self.missing = true,
            Generator::Sequence { .. } | Generator::Uniform(..) | Generator::Zipfian(..) => self.number = true,
            Generator::Reference(reference) if matches!(reference.key, KeySpec::Integer { .. }) => self.number = true,
            Generator::List { .. } | Generator::Items(_) => self.list = true,
            Generator::Template(_)
            | Generator::Text { .. }
            | Generator::Words { .. }
            | Generator::Uuid
            | Generator::Reference(_)
            | Generator::Date { .. } => self.text = true,
        }
    }

    /// Adds what another field may have.
    pub fn add(&mut self, other: Self) {
        let Self { missing, null, flag, number, text, list, fields } = other;
        self.missing |= missing;
        self.null |= null;
        self.flag |= flag;
        self.number |= number;
        self.text |= text;
        self.list |= list;
        self.fields |= fields;
    }

    /// Adds what a value is.
    pub fn add_value(&mut self, value: Option<&FieldValue>) {
        let kind = match value {
            None => &mut self.missing,
            Some(FieldValue::Null) => &mut self.null,
            Some(FieldValue::Bool(_)) => &mut self.flag,
            Some(FieldValue::Int(_) | FieldValue::Float(_)) => &mut self.number,
            Some(FieldValue::Text(_)) => &mut self.text,
            Some(FieldValue::List(_)) => &mut self.list,
            Some(FieldValue::Fields(_)) => &mut self.fields,
        };
        *kind = true;
    }
}

#[cfg(test)]
mod tests;
