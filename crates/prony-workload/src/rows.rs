//! Reads the rows of a file of documents, by number, in bounded memory.
//!
//! A file is passed over once, which computes its digest and notes where about each 64 KiB of it begin; the block of a row is
//! then read when a row of it is asked for. Nothing is mapped, so that the file's pages do not count as memory of the process.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, TryLockError};

use prony_model::spec::{Cells, Column, DocumentFile, FieldValue, RowForm};
use xxhash_rust::xxh3::Xxh3Default;

/// Bytes of a block: one `pread` costs little more than the copy.
const BLOCK: u64 = 64 << 10;

/// Bytes of the longest row; a longer one is a file of another kind.
const LONGEST_ROW: u64 = 256 << 20;

/// U+FEFF, which some programs write at the beginning of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why a file's rows are no documents.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// It cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A row of it.
    #[error("line {line} of `{path}` {fault}")]
    Row {
        /// The file.
        path: String,
        /// From 1.
        line: u64,
        /// What is wrong with it.
        fault: String,
    },
    /// The file as a whole.
    #[error("`{path}` {fault}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        fault: String,
    },
}

impl RowsError {
    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.display().to_string(), source }
    }

    pub(super) fn file(path: &Path, fault: impl Into<String>) -> Self {
        Self::File { path: path.display().to_string(), fault: fault.into() }
    }

    fn row(path: &Path, line: u64, fault: impl Into<String>) -> Self {
        Self::Row { path: path.display().to_string(), line, fault: fault.into() }
    }
}

/// A row as it is in the file.
#[derive(Debug)]
pub(super) enum Raw<'r> {
    /// A line of JSON.
    Line(&'r [u8]),
    /// The cells of a row.
    Cells(&'r csv::StringRecord),
}

/// What one pass over a file finds.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) rows: u64,
    pub(super) digest: String,
    /// The names of the columns, where it has any.
    pub(super) header: csv::StringRecord,
    blocks: Vec<Block>,
}

/// Where a part of the file begins, and its first row.
#[derive(Clone, Copy, Debug)]
struct Block {
    offset: u64,
    row: u64,
}

/// Passes over a file once, and shows each row; what `see` finds wrong is reported with the row's line.
pub(super) fn pass(
    path: &Path,
    is_csv: bool,
    see: &mut dyn FnMut(&Raw<'_>) -> Result<(), String>,
) -> Result<Passed, RowsError> {
    let read = |error| RowsError::read(path, error);
    // Before it is opened, which waits for a writer where it is a FIFO.
    if !fs::metadata(path).map_err(read)?.is_file() {
        return Err(RowsError::file(path, "is not a regular file, so its rows cannot be read more than once"));
    }
    let file = File::open(path).map_err(read)?;
    let bytes = Hashed { file, hash: Xxh3Default::new() };
    if is_csv { pass_cells(path, bytes, see) } else { pass_lines(path, bytes, see) }
}

/// Computes the digest of what is read.
struct Hashed {
    file: File,
    hash: Xxh3Default,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}

impl Hashed {
    fn digest(&self) -> String {
        format!("{:032x}", self.hash.digest128())
    }
}

/// Where blocks begin.
#[derive(Default)]
struct Blocks(Vec<Block>);

impl Blocks {
    fn note(&mut self, offset: u64, row: u64) {
        if self.0.last().is_none_or(|last| offset >= last.offset + BLOCK) {
            self.0.push(Block { offset, row });
        }
    }
}

fn pass_lines(
    path: &Path,
    bytes: Hashed,
    see: &mut dyn FnMut(&Raw<'_>) -> Result<(), String>,
) -> Result<Passed, RowsError> {
    let mut reader = BufReader::with_capacity(1 << 20, bytes);
    let (mut blocks, mut line) = (Blocks::default(), Vec::new());
    let (mut offset, mut number, mut rows) = (0, 0, 0);
    loop {
        line.clear();
        let read = reader.by_ref().take(LONGEST_ROW).read_until(b'\n', &mut line);
        let read = read.map_err(|error| RowsError::read(path, error))? as u64;
        if read == 0 {
            break;
        }
        number += 1;
        if read == LONGEST_ROW {
            return Err(RowsError::row(path, number, format!("is longer than {} MiB", LONGEST_ROW >> 20)));
        }
        if let Some(text) = content(&line, offset) {
            blocks.note(offset, rows);
            see(&Raw::Line(text)).map_err(|fault| RowsError::row(path, number, fault))?;
            rows += 1;
        }
        offset += read;
    }
    let digest = reader.get_ref().digest();
    Ok(Passed { rows, digest, header: csv::StringRecord::new(), blocks: blocks.0 })
}

/// A line without the byte order mark of the file's first; `None` where it is blank.
fn content(line: &[u8], offset: u64) -> Option<&[u8]> {
    let line = if offset == 0 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
    Some(line.trim_ascii()).filter(|line| !line.is_empty())
}

fn pass_cells(
    path: &Path,
    bytes: Hashed,
    see: &mut dyn FnMut(&Raw<'_>) -> Result<(), String>,
) -> Result<Passed, RowsError> {
    let fault = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        match error.into_kind() {
            csv::ErrorKind::Io(error) => RowsError::read(path, error),
            csv::ErrorKind::Utf8 { .. } => RowsError::row(path, line, "is not UTF-8"),
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                RowsError::row(path, line, format!("has {len} cells, but the first line has {expected_len} names"))
            }
            other => RowsError::row(path, line, format!("cannot be read: {other:?}")),
        }
    };
    let mut reader = csv::ReaderBuilder::new().buffer_capacity(1 << 20).from_reader(bytes);
    let header = reader.headers().map_err(fault)?.clone();
    let (mut blocks, mut rows, mut record) = (Blocks::default(), 0, csv::StringRecord::new());
    while reader.read_record(&mut record).map_err(fault)? {
        let place = record.position().map_or((0, 0), |place| (place.byte(), place.line()));
        blocks.note(place.0, rows);
        see(&Raw::Cells(&record)).map_err(|fault| RowsError::row(path, place.1, fault))?;
        rows += 1;
    }
    // What follows the last row is part of the digest too.
    let mut bytes = reader.into_inner();
    io::copy(&mut bytes, &mut io::sink()).map_err(|error| RowsError::read(path, error))?;
    Ok(Passed { rows, digest: bytes.digest(), header, blocks: blocks.0 })
}

/// The rows of a file.
#[derive(Debug)]
pub(super) struct Rows {
    file: Arc<File>,
    about: Arc<DocumentFile>,
    blocks: Arc<[Block]>,
    /// The block that was read last. A thread that finds it in use reads the block for itself.
    last: Mutex<Option<Loaded>>,
}

/// A block in memory.
#[derive(Debug)]
struct Loaded {
    block: usize,
    bytes: Vec<u8>,
    lines: Vec<Range<usize>>,
    cells: Vec<csv::StringRecord>,
}

impl Clone for Rows {
    fn clone(&self) -> Self {
        let Self { file, about, blocks, .. } = self;
        Self { file: Arc::clone(file), about: Arc::clone(about), blocks: Arc::clone(blocks), last: Mutex::default() }
    }
}

impl Rows {
    /// Opens the file of a specification.
    ///
    /// # Errors
    /// Where it cannot be read, or its content is another than the specification's.
    pub(super) fn open(about: &DocumentFile) -> Result<Self, RowsError> {
        let path = Path::new(&about.path);
        let passed = pass(path, matches!(about.form, RowForm::Csv(_)), &mut |_| Ok(()))?;
        if (passed.rows, &passed.digest) != (about.rows, &about.digest) {
            return Err(RowsError::file(path, "was changed after the experiment was checked"));
        }
        let file = File::open(path).map_err(|error| RowsError::read(path, error))?;
        let blocks = passed.blocks.into();
        Ok(Self { file: Arc::new(file), about: Arc::new(about.clone()), blocks, last: Mutex::default() })
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.about.rows
    }

    /// The document of a row, whose number is below [`Self::count`].
    ///
    /// # Panics
    /// Where the file was changed since it was opened.
    pub(super) fn document(&self, row: u64) -> FieldValue {
        let document = match self.last.try_lock() {
            Ok(mut last) => self.within(&mut last, row),
            Err(TryLockError::Poisoned(last)) => self.within(&mut last.into_inner(), row),
            Err(TryLockError::WouldBlock) => self.within(&mut None, row),
        };
        document.unwrap_or_else(|| panic!("`{}` was changed while it was read", self.about.path))
    }

    fn within(&self, last: &mut Option<Loaded>, row: u64) -> Option<FieldValue> {
        let block = self.blocks.partition_point(|block| block.row <= row).checked_sub(1)?;
        if last.as_ref().is_none_or(|last| last.block != block) {
            let bytes = last.take().map(|last| last.bytes).unwrap_or_default();
            *last = Some(self.read(block, bytes).ok()?);
        }
        let found = last.as_ref()?;
        let at = (row - self.blocks[block].row) as usize;
        match &self.about.form {
            RowForm::Ndjson => serde_json::from_slice(&found.bytes[found.lines.get(at)?.clone()]).ok(),
            RowForm::Csv(columns) => of_cells(columns, found.cells.get(at)?),
        }
    }

    fn read(&self, block: usize, mut bytes: Vec<u8>) -> io::Result<Loaded> {
        let from = self.blocks[block].offset;
        let to = match self.blocks.get(block + 1) {
            Some(next) => next.offset,
            None => self.file.metadata()?.len(),
        };
        bytes.resize(to.saturating_sub(from) as usize, 0);
        self.file.read_exact_at(&mut bytes, from)?;
        let (mut lines, mut cells) = (Vec::new(), Vec::new());
        match &self.about.form {
            RowForm::Ndjson => lines = lines_of(&bytes, from),
            RowForm::Csv(_) => {
                // A blank line first, since the reader takes a byte order mark for one only at the very beginning.
                let block = b"\n".chain(bytes.as_slice());
                let reader = csv::ReaderBuilder::new().has_headers(false).from_reader(block);
                cells = reader.into_records().collect::<Result<_, _>>()?;
            }
        }
        Ok(Loaded { block, bytes, lines, cells })
    }
}

/// Where the lines are that are not blank.
fn lines_of(bytes: &[u8], offset: u64) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut begin = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if let Some(text) = content(line, offset + begin as u64) {
            let at = text.as_ptr().addr() - bytes.as_ptr().addr();
            lines.push(at..at + text.len());
        }
        begin += line.len();
    }
    lines
}

/// The document of a row of cells; `None` where a cell is not what its column has.
pub(super) fn of_cells(columns: &[Column], cells: &csv::StringRecord) -> Option<FieldValue> {
    let mut fields = Vec::new();
    for (column, cell) in columns.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
        let value = match column.cells {
            Cells::Text => FieldValue::Text(cell.to_owned()),
            Cells::Flag | Cells::Number | Cells::List => serde_json::from_str(cell).ok()?,
        };
        put(&mut fields, &column.field.0, value);
    }
    Some(FieldValue::Fields(fields))
}

/// Puts a value at a path, where nothing else is.
fn put(fields: &mut Vec<(Arc<str>, FieldValue)>, path: &[String], value: FieldValue) {
    let Some((name, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        fields.push((name.as_str().into(), value));
        return;
    }
    let at = fields.iter().position(|(field, _)| **field == **name).unwrap_or_else(|| {
        fields.push((name.as_str().into(), FieldValue::Fields(Vec::new())));
        fields.len() - 1
    });
    if let FieldValue::Fields(inner) = &mut fields[at].1 {
        put(inner, rest, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey;
    use proptest::prelude::*;
    use std::path::PathBuf;

    fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        (folder, path)
    }

    /// All documents of a file, each as JSON.
    fn documents(name: &str, content: &[u8]) -> Vec<String> {
        let (_folder, path) = file(name, content);
        let rows = Rows::open(&survey(&path).unwrap().0).unwrap();
        (0..rows.count()).map(|row| serde_json::to_string(&rows.document(row)).unwrap()).collect()
    }

    #[test]
    fn lines_are_documents_but_for_blank_ones() {
        let text = "\u{feff}{\"a\": 1}\r\n\n  {\"a\": {\"b\": [null, true, 1.5]}}  \n \n{\"a\":\"ü\"}";
        assert_eq!(
            documents("x.ndjson", text.as_bytes()),
            [r#"{"a":1}"#, r#"{"a":{"b":[null,true,1.5]}}"#, r#"{"a":"ü"}"#]
        );
    }

    #[test]
    fn cells_are_nested_by_name_and_missing_where_they_are_empty() {
        let text = "id,in.type,in.n,on,list,zip\r\n\"a\n\"\"b\"\"\",T,1,true,\"[1,2]\",007\r\n,,2.5,false,[],8\r\n";
        assert_eq!(
            documents("x.csv", text.as_bytes()),
            [
                r#"{"id":"a\n\"b\"","in":{"type":"T","n":1},"on":true,"list":[1,2],"zip":"007"}"#,
                r#"{"in":{"n":2.5},"on":false,"list":[],"zip":"8"}"#
            ]
        );
    }

    /// A row that began with U+FEFF lost it, or was none, where its block began with it.
    #[test]
    fn a_byte_order_mark_is_one_only_at_the_beginning() {
        let text = "\u{feff}a,b\n\u{feff},1\n\u{feff}x,2\n";
        assert_eq!(
            documents("x.csv", text.as_bytes()),
            ["{\"a\":\"\u{feff}\",\"b\":1}", "{\"a\":\"\u{feff}x\",\"b\":2}"]
        );
    }

    #[test]
    fn a_file_that_was_changed_is_refused() {
        let (_folder, path) = file("x.ndjson", b"{\"a\":1}\n{\"a\":2}\n");
        let about = survey(&path).unwrap().0;
        fs::write(&path, b"{\"a\":1}\n{\"a\":3}\n").unwrap();
        let error = Rows::open(&about).unwrap_err().to_string();
        assert!(error.ends_with("was changed after the experiment was checked"), "{error}");
        fs::remove_file(&path).unwrap();
        assert!(matches!(Rows::open(&about), Err(RowsError::Read { .. })));
    }

    #[test]
    fn only_a_part_of_the_file_is_in_memory() {
        let line = |n: usize| format!("{{\"n\":{n},\"text\":\"{}\"}}\n", "x".repeat(n % 3_000));
        let text: String = (0..2_000).map(line).collect();
        let (_folder, path) = file("x.jsonl", text.as_bytes());
        let rows = Rows::open(&survey(&path).unwrap().0).unwrap();
        for row in [1_999, 0, 1_000, 1_001, 3] {
            assert_eq!(rows.document(row).at(&["n"]), Some(&FieldValue::Int(row as i64)));
            let bytes = rows.last.lock().unwrap().as_ref().unwrap().bytes.len() as u64;
            assert!(bytes <= BLOCK + 3_100, "{bytes} of {}", text.len());
        }
    }

    fn value() -> impl Strategy<Value = FieldValue> {
        let leaf = prop_oneof![
            Just(FieldValue::Null),
            any::<bool>().prop_map(FieldValue::Bool),
            any::<i64>().prop_map(FieldValue::Int),
            ".{0,40}".prop_map(FieldValue::Text),
        ];
        leaf.prop_recursive(2, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(FieldValue::List),
                prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(named),
            ]
        })
    }

    fn named(fields: std::collections::BTreeMap<String, FieldValue>) -> FieldValue {
        FieldValue::Fields(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    proptest! {
        /// In any order, and from several threads at once.
        #[test]
        fn rows_are_what_was_written(
            all in prop::collection::vec(prop::collection::btree_map("[a-f]", value(), 0..5).prop_map(named), 1..60),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
            padding in 0usize..5_000,
        ) {
            let line = |document: &FieldValue| {
                format!("{}{}\n", serde_json::to_string(document).unwrap(), " ".repeat(padding))
            };
            let text: String = all.iter().map(line).collect();
            let (_folder, path) = file("x.ndjson", text.as_bytes());
            let (about, fields) = survey(&path).unwrap();
            prop_assert_eq!(about.rows, all.len() as u64);
            let rows = Rows::open(&about).unwrap();
            let right = |row: usize| rows.document(row as u64) == all[row];
            std::thread::scope(|scope| {
                let halves = picks.chunks(picks.len().max(2) / 2);
                let half = |part: &'_ [prop::sample::Index]| part.iter().all(|pick| right(pick.index(all.len())));
                let threads: Vec<_> = halves.map(|part| scope.spawn(move || half(part))).collect();
                threads.into_iter().all(|thread| thread.join().unwrap()).then_some(()).ok_or(())
            }).map_err(|()| TestCaseError::fail("a row differs"))?;
            // What the survey says of each field holds for each document.
            for field in &fields {
                let path = prony_model::spec::FieldPath([field.name.clone()].as_slice().into());
                let of = prony_model::spec::DocumentSpec {
                    fields: fields.clone(), encoding: Default::default(), file: Some(about.clone()),
                };
                let mut found = prony_model::spec::Kinds::default();
                all.iter().for_each(|document| found.add_value(document.at(&[&field.name])));
                prop_assert_eq!(of.kinds(&path), found);
            }
        }
    }
}
