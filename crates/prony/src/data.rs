//! Writes the records of `[data]` to a file, one per line, while they are generated, so that any number of records
//! needs little memory.

use std::io::{self, Write};

use prony_model::spec::{DataSpec, KeySpec, Size};
use prony_model::units::Bytes;
use prony_workload::Records;
use serde_json::{Map, Value};

/// How a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A JSON object a line.
    Ndjson,
    /// Comma-separated values after RFC 4180, with a line of names.
    Csv,
}

/// What stands in a column: text as it is, other bytes in hexadecimal.
#[derive(Clone, Copy)]
enum Column {
    Text(&'static str),
    Hex(&'static str),
}

impl Column {
    const fn name(self) -> &'static str {
        match self {
            Self::Text(name) | Self::Hex(name) => name,
        }
    }

    fn show(self, bytes: &[u8]) -> String {
        match self {
            Self::Text(_) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Hex(_) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// Writes the first `count` records, and returns how many bytes that were.
///
/// # Errors
/// Those of `out`.
pub fn write(data: &DataSpec, seed: u64, count: u64, form: Form, out: &mut dyn Write) -> io::Result<Bytes> {
    let records = Records::new(data, seed);
    let columns = [key_column(&data.key), value_column(data)];
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut rows = (0..count).map(|number| {
        records.key(number, &mut key);
        records.value(number, 0, &mut value);
        [columns[0].show(&key), columns[1].show(&value)]
    });
    let mut out = Counted { out, bytes: 0 };
    match form {
        Form::Ndjson => rows.try_for_each(|row| out.write_all(json(columns, row).as_bytes()))?,
        Form::Csv => {
            let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(&mut out);
            csv.write_record(columns.map(Column::name))?;
            rows.try_for_each(|row| csv.write_record(row))?;
            csv.flush()?;
        }
    }
    Ok(Bytes::from_bytes(out.bytes))
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
        KeySpec::Template { .. } | KeySpec::Hashed { hex: true, .. } => Column::Text("key"),
        KeySpec::Integer { .. } | KeySpec::Hashed { hex: false, .. } => Column::Hex("key_hex"),
    }
}

/// Values without a length of their own are their prefix: text.
fn value_column(data: &DataSpec) -> Column {
    match data.value.bytes {
        Size::Fixed(bytes) if bytes == Bytes::default() => Column::Text("value"),
        _ => Column::Hex("value_hex"),
    }
}

fn json(columns: [Column; 2], shown: [String; 2]) -> String {
    let entries = columns.iter().zip(shown).map(|(column, text)| (column.name().to_owned(), Value::String(text)));
    format!("{}\n", Value::Object(Map::from_iter(entries)))
}

#[cfg(test)]
mod tests {
    use prony_model::spec::ValueSpec;
    use prony_model::units::Fraction;

    use super::*;

    fn data(key: KeySpec, bytes: u64, prefix: &str) -> DataSpec {
        let prefix: Vec<String> = prefix.split("{i}").map(str::to_owned).collect();
        let value =
            ValueSpec { bytes: Size::Fixed(Bytes::from_bytes(bytes)), compressible: Fraction::default(), prefix };
        DataSpec { records: 3, key, value }
    }

    fn written(data: &DataSpec, form: Form) -> String {
        let mut out = Vec::new();
        let bytes = write(data, 1, 3, form, &mut out).unwrap();
        assert_eq!(bytes.as_bytes(), out.len() as u64);
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
}
