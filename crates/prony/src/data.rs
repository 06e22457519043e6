//! Writes the records of `[data]` to a file, one per line, while they are generated, so that any number of records
//! needs little memory.

use std::io::{self, Write};

use prony_model::spec::{
    BytesSpec, CollectionSpec, DocumentSpec, FieldSpec, FieldValue, Generator, KeySpec, Kinds, Size, ValueSpec,
};
use prony_model::units::Bytes;
use prony_workload::Records;
use serde_json::{Map, Value};

/// How a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// One JSON object per line: the document, or key and value
    Ndjson,
    /// Comma-separated values with a header line
    // After RFC 4180.
    Csv,
}

/// A column's name, and how bytes are shown in it.
type Column = (&'static str, fn(&[u8]) -> String);

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the first `count` records of a collection, and returns how many bytes and records that were. Records with documents are
/// their documents. With a `label`, each line of JSON says of which collection the record is.
///
/// # Errors
/// Those of `out`.
pub fn write(
    data: &CollectionSpec,
    seed: u64,
    count: u64,
    (form, label): (Form, Option<&str>),
    out: &mut dyn Write,
) -> io::Result<(Bytes, u64)> {
    let records = Records::new(data, seed).map_err(io::Error::other)?;
    // Rows of a file do not go on beyond its end, as generated records do.
    let is_file = data.document().is_some_and(|document| document.file.is_some());
    let count = if is_file { count.min(data.records) } else { count };
    let mut out = Counted { out, bytes: 0 };
    match &data.value {
        ValueSpec::Document(spec) => {
            let documents = (0..count).filter_map(|n| records.document(n, 0));
            write_documents(spec, documents, (form, label), &mut out)?;
        }
        ValueSpec::Bytes(value) => {
            let ((key_name, show_key), (value_name, show_value)) = (key_column(&data.key), value_column(value));
            let (names, mut key, mut bytes) = ([key_name, value_name], Vec::new(), Vec::new());
            let mut rows = (0..count).map(|number| {
                records.key(number, &mut key);
                records.value(number, 0, &mut bytes);
                [show_key(&key), show_value(&bytes)]
            });
            match form {
                Form::Ndjson => rows.try_for_each(|row| out.write_all(json(names, row, label).as_bytes()))?,
                Form::Csv => write_csv(names, rows, &mut out)?,
            }
        }
    }
    Ok((Bytes::from_bytes(out.bytes), count))
}

/// A document with the name of its collection.
#[derive(serde::Serialize)]
struct Labelled<'l> {
    collection: &'l str,
    document: FieldValue,
}

/// Fields inside fields are columns with names such as `internal.type`; lists are written as JSON.
fn write_documents(
    spec: &DocumentSpec,
    mut documents: impl Iterator<Item = FieldValue>,
    (form, label): (Form, Option<&str>),
    out: &mut Counted<'_>,
) -> io::Result<()> {
    match form {
        Form::Ndjson => documents.try_for_each(|document| {
            match label {
                Some(collection) => serde_json::to_writer(&mut *out, &Labelled { collection, document })?,
                None => serde_json::to_writer(&mut *out, &document)?,
            }
            out.write_all(b"\n")
        }),
        Form::Csv => {
            let mut paths = Vec::new();
            leaves(&spec.fields, &[], &mut paths).map_err(io::Error::other)?;
            if let Some(unnamed) = spec.file.as_ref().and_then(|file| file.unnamed.as_ref()) {
                let fault = format!("no column can have the name of the field `{unnamed}`: write NDJSON");
                return Err(io::Error::other(fault));
            }
            let mut ambiguous = None;
            let cells = |document: FieldValue| {
                ambiguous = without_cell(&document);
                ambiguous.is_none().then(|| paths.iter().map(|path| cell(document.at(path))).collect::<Vec<_>>())
            };
            write_csv(paths.iter().map(|path| path.join(".")), documents.map_while(cells), out)?;
            match ambiguous {
                None => Ok(()),
                Some((field, what)) => Err(io::Error::other(format!(
                    "the field `{field}` {what} in some document, and an empty cell means that it is missing: write NDJSON"
                ))),
            }
        }
    }
}

/// The first field of a document whose value no cell can show, and what that is.
fn without_cell(document: &FieldValue) -> Option<(String, &'static str)> {
    let FieldValue::Fields(fields) = document else { return None };
    fields.iter().find_map(|(name, value)| {
        let what = match value {
            FieldValue::Null => "is null",
            FieldValue::Text(text) if text.is_empty() => "is an empty text",
            FieldValue::Fields(inner) if inner.is_empty() => "has no fields",
            inner => return without_cell(inner).map(|(field, what)| (format!("{name}.{field}"), what)),
        };
        Some((name.to_string(), what))
    })
}

/// The columns of documents, or why they have none: a field that is sometimes a value and sometimes has fields.
fn leaves<'s>(fields: &'s [FieldSpec], above: &[&'s str], paths: &mut Vec<Vec<&'s str>>) -> Result<(), String> {
    for field in fields {
        let path = [above, &[field.name.as_str()]].concat();
        match &field.value {
            Generator::Fields(inner) => leaves(inner, &path, paths)?,
            Generator::InFile(found) if found.kinds == (Kinds { fields: true, ..Kinds::default() }) => {
                leaves(&found.fields, &path, paths)?;
            }
            Generator::InFile(found) if found.kinds.fields => {
                return Err(format!("the field `{}` has fields in some documents only: write NDJSON", path.join(".")));
            }
            _ => paths.push(path),
        }
    }
    Ok(())
}

/// A field that the document does not have is an empty cell.
fn cell(value: Option<&FieldValue>) -> String {
    match value {
        None => String::new(),
        Some(FieldValue::Text(text)) => text.clone(),
        Some(value) => serde_json::to_string(value).unwrap_or_default(),
    }
}

fn write_csv<R: IntoIterator<Item = String>>(
    names: impl IntoIterator<Item = impl AsRef<[u8]>>,
    mut rows: impl Iterator<Item = R>,
    out: &mut Counted<'_>,
) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
    csv.write_record(names)?;
    rows.try_for_each(|row| csv.write_record(row))?;
    csv.flush()
}

/// Counts what is written.
struct Counted<'w> {
    out: &'w mut dyn Write,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn key_column(key: &KeySpec) -> Column {
    match key {
        KeySpec::Template { .. } | KeySpec::Hashed { hex: true, .. } => ("key", text),
        KeySpec::Integer { .. } | KeySpec::Hashed { hex: false, .. } => ("key_hex", hexadecimal),
    }
}

/// Values without a length of their own are their prefix: text.
fn value_column(value: &BytesSpec) -> Column {
    match value.bytes {
        Size::Fixed(bytes) if bytes == Bytes::default() => ("value", text),
        _ => ("value_hex", hexadecimal),
    }
}

fn json(names: [&str; 2], shown: [String; 2], label: Option<&str>) -> String {
    let label = label.map(|collection| ("collection", collection.to_owned()));
    let entries = label.into_iter().chain(names.into_iter().zip(shown));
    let entries = entries.map(|(name, text)| (name.to_owned(), Value::String(text)));
    format!("{}\n", Value::Object(Map::from_iter(entries)))
}

#[cfg(test)]
mod tests {
    use prony_engines::documents::{Entries, Indexes};
    use prony_experiment::plan::{data_bytes, index_bytes};
    use prony_model::document::FieldPath;
    use prony_model::spec::{Distribution, Encoding, ReferenceSpec};
    use prony_model::units::Fraction;

    use super::*;

    fn data(key: KeySpec, bytes: u64, prefix: &str) -> CollectionSpec {
        let prefix: Vec<String> = prefix.split("{i}").map(str::to_owned).collect();
        let value = ValueSpec::Bytes(BytesSpec {
            bytes: Size::Fixed(Bytes::from_bytes(bytes)),
            compressible: Fraction::default(),
            prefix,
        });
        CollectionSpec { name: None, records: 3, key, value }
    }

    fn written(data: &CollectionSpec, form: Form) -> String {
        let mut out = Vec::new();
        let (bytes, records) = write(data, 1, 3, (form, None), &mut out).unwrap();
        assert_eq!((bytes.as_bytes(), records), (out.len() as u64, 3));
        String::from_utf8(out).unwrap()
    }

    fn numbered(before: &str) -> KeySpec {
        KeySpec::Template { parts: vec![before.to_owned(), String::new()], pad: 0 }
    }

    #[test]
    fn text_is_written_as_text() {
        let data = data(numbered("k\""), 0, "v,{i}");
        assert_eq!(written(&data, Form::Ndjson).lines().next(), Some(r#"{"key":"k\"0","value":"v,0"}"#));
        assert_eq!(
            written(&data, Form::Csv),
            "key,value\r\n\"k\"\"0\",\"v,0\"\r\n\"k\"\"1\",\"v,1\"\r\n\"k\"\"2\",\"v,2\"\r\n"
        );
    }

    #[test]
    fn other_bytes_are_written_in_hexadecimal() {
        let data = data(KeySpec::Integer { bytes: 4 }, 5, "");
        let text = written(&data, Form::Csv);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "key_hex,value_hex");
        assert_eq!((lines.len(), &lines[2][..9], lines[2].len()), (4, "00000001,", 19));
        assert_ne!(lines[1][9..], lines[2][9..]);
    }

    fn documents(fields: Vec<(&str, Generator)>, encoding: Encoding) -> CollectionSpec {
        let field =
            |(name, value): (&str, Generator)| FieldSpec { name: name.to_owned(), value, present: Fraction::ONE };
        let fields = fields.into_iter().map(field).collect();
        let key = numbered("");
        CollectionSpec {
            name: None,
            records: 3_000,
            key,
            value: ValueSpec::Document(DocumentSpec { fields, encoding, file: None }),
        }
    }

    fn reference(key: KeySpec) -> Generator {
        let (collection, distribution) = ("other".to_owned(), Distribution::Uniform);
        Generator::Reference(Box::new(ReferenceSpec { collection, records: 50_000, key, distribution }))
    }

    fn nested(encoding: Encoding) -> CollectionSpec {
        let inner = FieldSpec {
            name: "type".to_owned(),
            value: Generator::Constant(FieldValue::Text("a,b".to_owned())),
            present: Fraction::ONE,
        };
        documents(
            vec![
                ("step", Generator::Sequence { start: 0, step: 1 }),
                ("internal", Generator::Fields(vec![inner])),
                ("list", Generator::Items(vec![Generator::Template(vec!["x".to_owned(), String::new()])])),
            ],
            encoding,
        )
    }

    #[test]
    fn documents_are_one_line_each() {
        let text = written(&nested(Encoding::MsgPack), Form::Ndjson);
        assert_eq!(text.lines().nth(1), Some(r#"{"step":1,"internal":{"type":"a,b"},"list":["x1"]}"#));
    }

    /// An empty text and a missing field were the same cell, so that the file had other rows.
    #[test]
    fn empty_texts_are_refused_where_an_empty_cell_means_a_missing_field() {
        let empty = || Generator::Cycle(vec![FieldValue::Text("x".to_owned()), FieldValue::Text(String::new())]);
        let data = documents(
            vec![(
                "a",
                Generator::Fields(vec![FieldSpec { name: "b".to_owned(), value: empty(), present: Fraction::ONE }]),
            )],
            Encoding::Json,
        );
        let mut out = Vec::new();
        let error = write(&data, 1, 3, (Form::Csv, None), &mut out).unwrap_err().to_string();
        assert!(error.starts_with("the field `a.b` is an empty text"), "{error}");
        assert!(written(&data, Form::Ndjson).contains(r#"{"a":{"b":""}}"#));
    }

    /// The one was the word `null`, which is read as a text, and the other was in no column.
    #[test]
    fn nulls_and_objects_without_fields_are_refused_as_empty_texts_are() {
        let sometimes =
            FieldSpec { name: "b".to_owned(), value: Generator::Uuid, present: Fraction::new(0.0).unwrap() };
        let null = Generator::Cycle(vec![FieldValue::Int(1), FieldValue::Null]);
        for (value, said) in [(null, "`a` is null"), (Generator::Fields(vec![sometimes]), "`a` has no fields")] {
            let data = documents(vec![("n", Generator::Constant(FieldValue::Int(1))), ("a", value)], Encoding::Json);
            let error = write(&data, 1, 3, (Form::Csv, None), &mut Vec::new()).unwrap_err().to_string();
            assert!(error.contains(said) && error.ends_with("write NDJSON"), "{error}");
        }
    }

    #[test]
    fn documents_have_a_column_for_each_inner_field() {
        let text = written(&nested(Encoding::Json), Form::Csv);
        assert_eq!(text.lines().next(), Some("step,internal.type,list"));
        assert_eq!(text.lines().nth(2), Some(r#"1,"a,b","[""x1""]""#));
    }

    #[test]
    fn sizes_of_documents_are_expected_as_they_are() {
        for encoding in [Encoding::MsgPack, Encoding::Json] {
            let random = documents(
                vec![
                    ("id", Generator::Uuid),
                    ("number", Generator::Uniform(-1_000_000, 9_000_000)),
                    ("words", Generator::Words { count: 7, vocabulary: 10_000 }),
                    (
                        "text",
                        Generator::Text {
                            bytes: Size::Uniform { min: Bytes::from_bytes(10), max: Bytes::from_bytes(600) },
                            compressible: Fraction::new(0.6).unwrap(),
                        },
                    ),
                    ("text key", reference(numbered("/of the other/"))),
                    ("number", reference(KeySpec::Integer { bytes: 4 })),
                    ("list", Generator::List { of: Box::new(Generator::Uniform(200, 250)), items: (0, 9) }),
                ],
                encoding,
            );
            for data in [random, nested(encoding)] {
                is_expected(&data);
                let expected = data_bytes(&data);
                assert!((0.0..expected.mean).contains(&expected.least));
            }
        }
    }

    /// Whether keys and values have as many bytes as is expected.
    fn is_expected(data: &CollectionSpec) {
        let records = Records::new(data, 1).unwrap();
        let (mut value, mut key, mut sum) = (Vec::new(), Vec::new(), 0);
        for number in 0..data.records {
            records.value(number, 0, &mut value);
            records.key(number, &mut key);
            sum += value.len() + key.len();
        }
        let error = data_bytes(data).mean / sum as f64 - 1.0;
        assert!(error.abs() < 0.05, "{:?}: {error:+.3} of {sum}", data.value);
    }

    /// Log-normal values of which many are cut were said to take at least 2.5 times what they take, and documents of zipfian numbers
    /// half as much again, for which experiments were refused.
    #[test]
    fn sizes_of_cut_lengths_and_zipfian_numbers_are_expected_as_they_are() {
        let size = Size::LogNormal { median: Bytes::from_bytes(100), sigma: 3.0, max: Bytes::from_bytes(100_000) };
        let text = Generator::Text { bytes: size.clone(), compressible: Fraction::new(0.6).unwrap() };
        let zipfian = |most| Generator::Zipfian(0, most);
        let list = Generator::List { of: Box::new(zipfian(1_000_000)), items: (0, 9) };
        let numbers = ["a", "b", "c", "d"].map(|name| (name, zipfian(1_000_000_000))).into_iter().chain([("e", list)]);
        let numbers: Vec<(&str, Generator)> = numbers.collect();
        let to = |key| match reference(key) {
            Generator::Reference(to) => Generator::Reference(Box::new(ReferenceSpec {
                records: 1_000_000_000,
                distribution: Distribution::Zipfian,
                ..*to
            })),
            other => other,
        };
        let references = vec![("a", to(KeySpec::Integer { bytes: 4 })), ("b", to(numbered("k")))];
        for encoding in [Encoding::MsgPack, Encoding::Json] {
            for fields in [vec![("text", text.clone())], numbers.clone(), references.clone()] {
                is_expected(&CollectionSpec { records: 20_000, ..documents(fields, encoding) });
            }
        }
        let value = ValueSpec::Bytes(BytesSpec { bytes: size, compressible: Fraction::default(), prefix: Vec::new() });
        is_expected(&CollectionSpec { records: 20_000, value, ..documents(Vec::new(), Encoding::Json) });
    }

    #[test]
    fn sizes_of_entries_are_expected_as_they_are() {
        let numbers = Generator::List { of: Box::new(Generator::Uniform(0, 1 << 40)), items: (0, 4) };
        let words = Generator::List { of: Box::new(Generator::Words { count: 2, vocabulary: 90 }), items: (2, 3) };
        let mut data = documents(
            vec![
                ("id", Generator::Uuid),
                ("step", Generator::Sequence { start: 0, step: 1 }),
                ("isOdd", Generator::Cycle(vec![FieldValue::Bool(true), FieldValue::Null])),
                ("to", reference(numbered("/of the other/"))),
                ("numbers", numbers),
                ("words", words),
                ("sometimes", Generator::Date { from: 0, to: 1 << 30 }),
            ],
            Encoding::Json,
        );
        let ValueSpec::Document(spec) = &mut data.value else { panic!("no documents") };
        spec.fields[6].present = Fraction::new(0.3).unwrap();
        let document = spec.clone();
        let all = [&["step"][..], &["isOdd", "step"], &["to"], &["numbers", "words"], &["sometimes", "id"], &["none"]];
        let records = Records::new(&data, 1).unwrap();
        for fields in all {
            let fields: Vec<FieldPath> = fields.iter().map(|field| field.parse().unwrap()).collect();
            let one = [fields];
            let indexes = Indexes::new(&one, Encoding::Json, |path| document.kinds(path).list);
            let (mut key, mut sum) = (Vec::new(), 0);
            for number in 0..data.records {
                let mut entries = Entries::default();
                records.key(number, &mut key);
                indexes.push_entries(&records.document(number, 0).unwrap(), &key, &mut entries);
                let mut rest = entries.part(0..entries.bytes());
                while let Some((length, after)) = rest.split_first_chunk() {
                    let length = u32::from_le_bytes(*length) as usize;
                    (sum, rest) = (sum + length, &after[length..]);
                }
            }
            let error = index_bytes(&data, &one).mean / sum as f64 - 1.0;
            assert!(error.abs() < 0.05, "{one:?}: {error:+.3} of {sum}");
        }
    }
}
