//! Reads a file of documents once, and describes what its rows have.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use prony_model::json_values::NameOrder;
use prony_model::observed::Observed;
use prony_model::spec::{
    Cells, Column, DocumentFile, FieldPath, FieldSpec, FieldValue, Generator, InFile, Kinds, RowForm,
};
use prony_model::units::{Bytes, Fraction};

use serde::de::IgnoredAny;

use super::pass::{Raw, RowsError, pass};
use super::rows::of_cells;

/// The most fields that the documents of a file may have together: names that are data, such as user names, are no fields.
const MOST_FIELDS: usize = 1_000;

/// The most objects in one another: what is noted of each is four levels of JSON in a stored plan, which is read to 128.
const DEEPEST: usize = 25;

/// Describes a file of documents: what stands in its rows, and which fields the documents have.
///
/// # Errors
/// Where it cannot be read, or a row of it is no document.
pub fn survey(path: &Path) -> Result<(DocumentFile, Vec<FieldSpec>), RowsError> {
    let absolute = path.canonicalize().map_err(|error| RowsError::read(path, error))?;
    let text = absolute.to_str().ok_or_else(|| RowsError::file(path, "has a name that is not UTF-8"))?.to_owned();
    let is_csv = match path.extension().and_then(|extension| extension.to_str()) {
        Some("ndjson" | "jsonl") => false,
        Some("csv") => true,
        _ => {
            return Err(RowsError::file(
                path,
                "is neither `.ndjson`, `.jsonl` nor `.csv`: its name says how rows are written",
            ));
        }
    };
    let columns = if is_csv { Some(columns(path)?) } else { None };
    let mut found = Found::default();
    let passed = pass(path, is_csv, &mut |raw| {
        let document = match (raw, &columns) {
            (Raw::Line(line), _) => {
                let document = serde_json::from_slice(line);
                match numbers(line).find(|number| !is_exact(number)) {
                    Some(number) if is_json(line) => return Err(too_large(number)),
                    _ => document.map_err(|error| of_json(&error, line))?,
                }
            }
            (Raw::Cells(cells), columns) => {
                of_cells(columns.as_deref().unwrap_or_default(), cells).ok_or("was changed while it was read")?
            }
        };
        found.add(&document)
    })?;
    if passed.rows == 0 {
        return Err(RowsError::file(path, "has no documents"));
    }
    if depth(&found.documents) > DEEPEST {
        return Err(RowsError::file(path, format!("has more than {DEEPEST} objects in one another")));
    }
    let fields = specs(&found.documents, passed.rows);
    let unnamed = unnamed(&found.documents);
    let form = columns.map_or(RowForm::Ndjson, RowForm::Csv);
    let (json, longest) = (Bytes::from_bytes(found.json), Bytes::from_bytes(found.longest));
    let (names, altered) = match found.observed.finish() {
        Ok(names) => (names, None),
        Err(altered) => (NameOrder::default(), Some(altered)),
    };
    let (rows, digest) = (passed.rows, passed.digest);
    Ok((DocumentFile { path: text, form, rows, digest, json, longest, unnamed, names, altered }, fields))
}

/// The numbers of a line of JSON.
fn numbers(line: &[u8]) -> impl Iterator<Item = &str> {
    let (mut rest, mut in_text) = (line, false);
    std::iter::from_fn(move || {
        while let Some((byte, after)) = rest.split_first() {
            match byte {
                b'"' => (in_text, rest) = (!in_text, after),
                b'\\' if in_text => rest = after.get(1..).unwrap_or_default(),
                b'-' | b'0'..=b'9' if !in_text => {
                    let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                    let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                    let (number, behind) = rest.split_at(length);
                    rest = behind;
                    return std::str::from_utf8(number).ok();
                }
                _ => rest = after,
            }
        }
        None
    })
}

/// Whether a document can have this number: a whole one of 64 bits, or one that a float is near.
fn is_exact(number: &str) -> bool {
    if number.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) {
        return number.parse::<i64>().is_ok();
    }
    number.parse().is_ok_and(f64::is_finite)
}

/// Whether a line is JSON, whatever its numbers are.
fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

fn too_large(number: &str) -> String {
    let number = brief(number);
    format!(
        "has the number `{number}`: whole numbers must fit into 64 bits with a sign, and others below 1.8e308; write it as a text"
    )
}

/// What is wrong with a line. The reader counts lines and columns within it, without the blanks around.
fn of_json(error: &serde_json::Error, line: &[u8]) -> String {
    let text = error.to_string();
    let said = text.rsplit_once(" at line ").map_or(text.as_str(), |(said, _)| said);
    match error.column() {
        0 => format!("is not valid JSON: {said}"),
        byte => format!("is not valid JSON: {said} at byte {byte} of the line\n{}", excerpt(line, byte)),
    }
}

/// Characters of a line that are shown before and after the place of a fault.
const BESIDE: (usize, usize) = (40, 40);

/// The line with a mark below a byte of it, from 1: `  | {"a": x}` and `  |       ^`.
fn excerpt(line: &[u8], byte: usize) -> String {
    let (before, from) = line.split_at(byte.saturating_sub(1).min(line.len()));
    // What acts on a terminal is escaped where it is printed, which would move the mark.
    let shown = |part: &[u8]| -> Vec<char> {
        String::from_utf8_lossy(part).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    };
    let (before, from) = (shown(before), shown(from));
    let cut = |is_cut: bool| if is_cut { "..." } else { "" };
    let skipped = before.len().saturating_sub(BESIDE.0);
    let head: String = cut(skipped > 0).chars().chain(before[skipped..].iter().copied()).collect();
    let tail: String = from.iter().take(BESIDE.1).collect();
    let margin = " ".repeat(head.chars().count());
    format!("  | {head}{tail}{}\n  | {margin}^", cut(from.len() > BESIDE.1))
}

/// What documents have.
#[derive(Default)]
struct Found {
    documents: Fields,
    /// How many different fields there are.
    count: usize,
    json: u64,
    longest: u64,
    /// Whether an engine that stores the values of JSON can give the documents back.
    observed: Observed,
}

impl Found {
    fn add(&mut self, document: &FieldValue) -> Result<(), String> {
        let FieldValue::Fields(fields) = document else { return Err("is no object with fields".to_owned()) };
        twice(document)?;
        let length = length(document);
        self.json += length;
        self.longest = self.longest.max(length);
        self.observed.add(document);
        self.documents.add(fields, &mut self.count)
    }
}

/// Bytes as JSON without blanks.
fn length(document: &FieldValue) -> u64 {
    struct Count(u64);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Values were read from JSON or made of its kinds, and nothing that counts can fail.
    let _ = serde_json::to_writer(&mut count, document);
    count.0
}

/// Fields by name, in the order in which they were found.
#[derive(Default)]
struct Fields {
    order: Vec<Arc<str>>,
    by_name: BTreeMap<Arc<str>, Field>,
}

/// A field.
#[derive(Default)]
struct Field {
    /// In how many documents it is.
    present: u64,
    kinds: Kinds,
    /// How many of its values have fields.
    objects: u64,
    longest: u64,
    items: u64,
    inner: Fields,
}

impl Fields {
    /// Adds those of a document; `count` is of all fields so far.
    fn add(&mut self, fields: &[(Arc<str>, FieldValue)], count: &mut usize) -> Result<(), String> {
        for (name, value) in fields {
            let field = match self.by_name.get_mut(name) {
                Some(known) => known,
                None if *count == MOST_FIELDS => {
                    return Err(format!(
                        "has the field `{}`, one more than {MOST_FIELDS} different fields",
                        brief(name)
                    ));
                }
                None => {
                    *count += 1;
                    self.order.push(Arc::clone(name));
                    self.by_name.entry(Arc::clone(name)).or_default()
                }
            };
            field.add(value, count)?;
        }
        Ok(())
    }
}

/// Refuses two fields of one name in one object.
fn twice(value: &FieldValue) -> Result<(), String> {
    match value {
        FieldValue::List(items) => items.iter().try_for_each(twice),
        FieldValue::Fields(fields) => {
            let mut names: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
            names.sort_unstable();
            match names.windows(2).find(|two| two[0] == two[1]) {
                Some(two) => Err(format!("has the field `{}` twice", brief(two[0]))),
                None => fields.iter().try_for_each(|(_, value)| twice(value)),
            }
        }
        _ => Ok(()),
    }
}

/// A name for a message: a long one is cut.
fn brief(name: &str) -> String {
    match name.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

impl Field {
    fn add(&mut self, value: &FieldValue, count: &mut usize) -> Result<(), String> {
        self.present += 1;
        self.kinds.add_value(Some(value));
        self.longest = self.longest.max(longest(value));
        match value {
            FieldValue::List(items) => self.items = self.items.max(items.len() as u64),
            FieldValue::Fields(fields) => {
                self.objects += 1;
                self.inner.add(fields, count)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Bytes of the longest text in a value, or in the items of a list; each zero byte counts twice.
fn longest(value: &FieldValue) -> u64 {
    match value {
        FieldValue::Text(text) => (text.len() + text.bytes().filter(|byte| *byte == 0).count()) as u64,
        FieldValue::List(items) => items.iter().map(longest).max().unwrap_or(0),
        _ => 0,
    }
}

/// How many objects lie in one another; the document itself is none of them.
fn depth(fields: &Fields) -> usize {
    let of_fields = |field: &Field| if field.objects == 0 { 0 } else { 1 + depth(&field.inner) };
    fields.by_name.values().map(of_fields).max().unwrap_or(0)
}

/// Whether a path can name the field: full stops separate the names of nested fields.
fn is_named(name: &str) -> bool {
    !name.is_empty() && !name.contains('.')
}

/// The first field that no path can name.
fn unnamed(fields: &Fields) -> Option<String> {
    let own = fields.order.iter().find(|name| !is_named(name));
    own.map(|name| brief(name)).or_else(|| fields.by_name.values().find_map(|field| unnamed(&field.inner)))
}

/// The fields that `of` values have; not those whose names have full stops, which paths cannot name.
fn specs(fields: &Fields, of: u64) -> Vec<FieldSpec> {
    let named = fields.order.iter().filter(|name| is_named(name));
    let spec = |name: &Arc<str>| {
        let field = fields.by_name.get(name)?;
        let fields = specs(&field.inner, field.objects);
        let (kinds, longest, items) = (field.kinds, field.longest, field.items);
        let present = Fraction::new(field.present as f64 / of as f64).unwrap_or(Fraction::ONE);
        Some(FieldSpec {
            name: name.to_string(),
            value: Generator::InFile(InFile { kinds, longest, items, fields }),
            present,
        })
    };
    named.filter_map(spec).collect()
}

/// The columns of a file, and what all cells of each can be read as.
fn columns(path: &Path) -> Result<Vec<Column>, RowsError> {
    let mut possible: Vec<Option<Cells>> = Vec::new();
    let passed = pass(path, true, &mut |raw| {
        if let Raw::Cells(cells) = raw {
            possible.resize(cells.len(), None);
            for (possible, cell) in possible.iter_mut().zip(*cells).filter(|(_, cell)| !cell.is_empty()) {
                let kind = kind(cell);
                *possible = Some(possible.map_or(kind, |known| if known == kind { kind } else { Cells::Text }));
            }
        }
        Ok(())
    })?;
    possible.resize(passed.header.len(), None);
    if let Some(other) = passed.header.get(0).filter(|name| passed.header.len() == 1 && name.contains([';', '\t'])) {
        let fault = format!("has one column, `{}`: values must be separated by commas", brief(other));
        return Err(RowsError::file(path, fault));
    }
    let mut columns: Vec<Column> = Vec::new();
    for (name, cells) in passed.header.iter().zip(possible) {
        let fault = |fault: &str| RowsError::file(path, format!("has a column `{}`, {fault}", brief(name)));
        let field: FieldPath = name.parse().map_err(|_| fault("which is no name of a field"))?;
        let inside = |other: &Column| other.field.0.starts_with(&field.0) || field.0.starts_with(&other.field.0);
        if columns.iter().any(inside) {
            return Err(fault("and another column for the same field, or for one inside it"));
        }
        columns.push(Column { field, cells: cells.unwrap_or(Cells::Text) });
    }
    Ok(columns)
}

/// What a cell can be read as. Blanks around it are part of a text.
fn kind(cell: &str) -> Cells {
    if cell.trim() != cell {
        return Cells::Text;
    }
    match serde_json::from_str(cell) {
        Ok(FieldValue::Bool(_)) => Cells::Flag,
        // A whole number beyond 64 bits would lose digits.
        Ok(FieldValue::Float(_)) if cell.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) => Cells::Text,
        Ok(FieldValue::Int(_) | FieldValue::Float(_)) => Cells::Number,
        Ok(FieldValue::List(_)) if numbers(cell.as_bytes()).all(is_exact) => Cells::List,
        _ => Cells::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::json_values::Part;

    fn surveyed(name: &str, content: &str) -> Result<(DocumentFile, Vec<FieldSpec>), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let at = folder.path().to_str().unwrap();
        survey(&path).map_err(|error| error.to_string().replace(at, "").replace("`/", "`"))
    }

    fn fault(name: &str, content: &str) -> String {
        surveyed(name, content).unwrap_err()
    }

    #[test]
    fn fields_have_what_some_document_has() {
        let text = "{\"a\":{\"b\":1}}\n{\"a\":null,\"c\":[\"long\\u0000\",\"x\"]}\n{\"a\":{},\"d.e\":1}\n{}\n";
        let (about, fields) = surveyed("x.ndjson", text).unwrap();
        assert_eq!((about.rows, about.json.as_bytes(), about.longest.as_bytes()), (4, 64, 33));
        let [a, c] = fields.as_slice() else { panic!("{fields:?}") };
        assert_eq!((a.name.as_str(), a.present.get(), c.name.as_str(), c.present.get()), ("a", 0.75, "c", 0.25));
        let Generator::InFile(a) = &a.value else { panic!() };
        assert_eq!(a.kinds, Kinds { null: true, fields: true, ..Kinds::default() });
        assert_eq!((a.fields[0].name.as_str(), a.fields[0].present.get()), ("b", 0.5));
        let Generator::InFile(c) = &c.value else { panic!() };
        assert_eq!((c.longest, c.items), (6, 2));
        assert_eq!(about.unnamed.as_deref(), Some("d.e"));
        assert_eq!(
            about.altered.map(|altered| (altered.field, altered.part)),
            Some((vec!["c".to_owned()], Part::Text))
        );
        let (about, _) = surveyed("x.ndjson", "{\"d.e\":1,\"a\":[{\"c\":2,\"b\":3}]}\n{\"f\":0,\"a\":1}\n").unwrap();
        assert_eq!(serde_json::to_string(&about.names).unwrap(), r#"[["d.e",[]],["f",[]],["a",[["c",[]],["b",[]]]]]"#);
        assert_eq!(about.altered, None);
    }

    #[test]
    fn faults_name_the_line() {
        assert_eq!(fault("x.ndjson", "{}\n\n[1]\n"), "line 3 of `x.ndjson` is no object with fields");
        let text = fault("x.ndjson", "{}\n{\"a\":}\n");
        let marked = "\n  | {\"a\":}\n  |      ^";
        let said = "line 2 of `x.ndjson` is not valid JSON: expected value at byte 6 of the line";
        assert_eq!(text, format!("{said}{marked}"));
        let long = format!("{{\"{}\": é x{}", "a".repeat(60), "b".repeat(60));
        let text = fault("x.ndjson", &long);
        let [_, line, mark] = text.lines().collect::<Vec<_>>().try_into().unwrap();
        let place = line.chars().nth(mark.chars().count() - 1);
        assert!(line.contains("| ...aaa") && line.ends_with("bbb...") && place == Some('é'), "{text}");
        assert_eq!(fault("x.ndjson", "{\"l\":[{\"x\":1,\"x\":2}]}"), "line 1 of `x.ndjson` has the field `x` twice");
        assert_eq!(fault("x.jsonl", "{\"a\":1,\"a\":2}\n"), "line 1 of `x.jsonl` has the field `a` twice");
        assert_eq!(fault("x.csv", "a,b\n1,2\n3\n"), "line 3 of `x.csv` has 1 cells, but the first line has 2 names");
        assert_eq!(
            fault("x.csv", "a,b\r\n1,2\r\n\r\n\n3\r\n"),
            "line 5 of `x.csv` has 1 cells, but the first line has 2 names"
        );
        assert_eq!(fault("x.csv", "a,b\n1,\"x\n2,y\n"), "line 2 of `x.csv` has a quote that is never closed");
        // It was `cannot read`, without a line, where the first part that is read of a file has it.
        let text = "has text between a closing quote and the next comma";
        assert_eq!(fault("x.csv", "a,b\n1,\"x\"y\n"), format!("line 2 of `x.csv` {text}"));
        assert_eq!(fault("x.csv", "a;b\n1;2\n"), "`x.csv` has one column, `a;b`: values must be separated by commas");
        assert_eq!(
            fault("x.csv", "a,a.b\n1,2\n"),
            "`x.csv` has a column `a.b`, and another column for the same field, or for one inside it"
        );
        assert_eq!(fault("x.csv", "a,\n1,2\n"), "`x.csv` has a column ``, which is no name of a field");
        assert_eq!(fault("x.csv", "a,b\n"), "`x.csv` has no documents");
        assert_eq!(fault("x.ndjson", "\n"), "`x.ndjson` has no documents");
        let names: Vec<String> = (0..500).map(|n| format!("\"k{n}\":{n}")).collect();
        let names = names.join(",");
        assert_eq!(
            fault("x.ndjson", &format!("{{\"a\":{{{names}}}}}\n{{{names}}}\n")),
            "line 2 of `x.ndjson` has the field `k499`, one more than 1000 different fields"
        );
        assert!(fault("x.txt", "{}\n").contains("its name says how rows are written"));
    }

    /// 2^64 - 1 was "not valid JSON", and 2^64 became a float.
    #[test]
    fn numbers_that_no_document_can_have_are_refused() {
        for number in
            ["18446744073709551615", "18446744073709551616", "-9223372036854775809", "9223372036854775808", "1e400"]
        {
            let text = fault("x.ndjson", &format!("{{}}\n{{\"a\":[\"\\\"1e999\",{number}]}}\n"));
            let said = format!("line 2 of `x.ndjson` has the number `{number}`: ");
            assert!(text.starts_with(&said), "{text}");
        }
        let good = "{\"a\":[9223372036854775807,-9223372036854775808,-0,1.8e308E,\"18446744073709551616\"]}\n";
        assert!(surveyed("x.ndjson", &good.replace("1.8e308E", "1.7e308")).is_ok());
        assert!(fault("x.ndjson", good).contains("is not valid JSON"));
    }

    /// A document of 30 passed the check, and the plan could not be read again.
    #[test]
    fn documents_that_are_nested_too_deep_are_refused() {
        let nested = |objects| format!("{}1{}\n", "{\"a\":".repeat(objects), "}".repeat(objects));
        assert!(surveyed("x.ndjson", &nested(DEEPEST + 1)).is_ok());
        assert_eq!(fault("x.ndjson", &nested(DEEPEST + 2)), "`x.ndjson` has more than 25 objects in one another");
    }

    #[test]
    fn a_folder_is_no_file_of_documents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.ndjson");
        std::fs::create_dir(&path).unwrap();
        let error = survey(&path).unwrap_err().to_string();
        assert!(error.contains("is not a regular file"), "{error}");
        assert!(matches!(survey(&folder.path().join("none.csv")), Err(RowsError::Read { .. })));
    }

    #[test]
    fn cells_are_read_as_what_the_whole_column_is() {
        let text = "n,flag,mixed,blank,huge,empty,list,huge_list\n\
            1,true,1,1,1,,[],[1]\n\
            -2.5e3,false,x, 2,99999999999999999999,,\"[1,2.5]\",[99999999999999999999]\n";
        let (about, _) = surveyed("x.csv", text).unwrap();
        let RowForm::Csv(columns) = about.form else { panic!() };
        let cells: Vec<Cells> = columns.iter().map(|column| column.cells).collect();
        let text = [Cells::Text; 4];
        assert_eq!(cells[..6], [[Cells::Number, Cells::Flag].as_slice(), &text].concat());
        assert_eq!(cells[6..], [Cells::List, Cells::Text], "digits would be lost");
    }
}
