//! Reads the rows of a file of documents, by number, in bounded memory.
//!
//! A file is passed over once, which computes its digest and notes where blocks of it begin; the block of a row is then read
//! when the row is asked for. Nothing is mapped, so that the file's pages do not count as memory of the process.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, TryLockError};

use prony_model::spec::{Cells, Column, DocumentFile, FieldValue, RowForm};

use super::pass::{Block, Passed, RowsError, content, pass};

/// A block that is longer than this is not kept: a single row may have many megabytes.
const LARGE: usize = 1 << 20;

/// The rows of a file.
#[derive(Debug)]
pub(super) struct Rows {
    file: Arc<File>,
    changed: Changed,
    about: Arc<DocumentFile>,
    blocks: Arc<[Block]>,
    /// The block that was read last. A thread that finds it in use reads the block for itself.
    last: Mutex<Option<Loaded>>,
}

/// Bytes of a file, and when its content was changed last.
type Changed = (u64, i64, i64);

fn changed(file: &File) -> io::Result<Changed> {
    let about = file.metadata()?;
    Ok((about.len(), about.mtime(), about.mtime_nsec()))
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
        let (file, about, blocks) = (Arc::clone(&self.file), Arc::clone(&self.about), Arc::clone(&self.blocks));
        Self { file, changed: self.changed, about, blocks, last: Mutex::default() }
    }
}

impl Rows {
    /// Opens the file of a specification.
    ///
    /// # Errors
    /// Where it cannot be read, or its content is another than the specification's.
    pub(super) fn open(about: &DocumentFile) -> Result<Self, RowsError> {
        let path = Path::new(&about.path);
        let Passed { rows, digest, file, blocks, .. } =
            pass(path, matches!(about.form, RowForm::Csv(_)), &mut |_| Ok(()))?;
        if (rows, &digest) != (about.rows, &about.digest) {
            return Err(RowsError::file(path, "was changed after the experiment was checked"));
        }
        let changed = changed(&file).map_err(|error| RowsError::read(path, error))?;
        let (file, about, blocks) = (Arc::new(file), Arc::new(about.clone()), blocks.into());
        Ok(Self { file, changed, about, blocks, last: Mutex::default() })
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.about.rows
    }

    /// The document of a row, whose number is below [`Self::count`].
    ///
    /// # Panics
    /// Where the file cannot be read any more, or was changed since it was opened.
    pub(super) fn document(&self, row: u64) -> FieldValue {
        let document = match self.last.try_lock() {
            Ok(mut last) => self.within(&mut last, row),
            Err(TryLockError::Poisoned(last)) => self.within(&mut last.into_inner(), row),
            Err(TryLockError::WouldBlock) => self.within(&mut None, row),
        };
        document.unwrap_or_else(|fault| panic!("cannot read row {row} of `{}`: {fault}", self.about.path))
    }

    fn within(&self, last: &mut Option<Loaded>, row: u64) -> Result<FieldValue, String> {
        let other = || "it was changed while it was read".to_owned();
        let block = self.blocks.partition_point(|block| block.row <= row).checked_sub(1).ok_or_else(other)?;
        if last.as_ref().is_none_or(|last| last.block != block) {
            let bytes = last.take().map(|last| last.bytes).unwrap_or_default();
            if changed(&self.file).map_err(|error| error.to_string())? != self.changed {
                return Err(other());
            }
            *last = Some(self.read(block, bytes).map_err(|error| error.to_string())?);
        }
        let found = last.as_ref().ok_or_else(other)?;
        let at = (row - self.blocks[block].row) as usize;
        let document = match &self.about.form {
            RowForm::Ndjson => {
                found.lines.get(at).and_then(|line| serde_json::from_slice(&found.bytes[line.clone()]).ok())
            }
            RowForm::Csv(columns) => found.cells.get(at).and_then(|cells| of_cells(columns, cells)),
        };
        if found.bytes.len() > LARGE {
            *last = None;
        }
        document.ok_or_else(other)
    }

    fn read(&self, block: usize, mut bytes: Vec<u8>) -> io::Result<Loaded> {
        let from = self.blocks[block].offset;
        let to = self.blocks.get(block + 1).map_or(self.changed.0, |next| next.offset);
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
    use crate::pass::LEAST_BLOCK;
    use crate::survey;
    use proptest::prelude::*;
    use std::fs;
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
    fn a_block_with_a_long_row_is_dropped() {
        let text = format!("{{\"n\":0}}\n{{\"n\":1,\"text\":\"{}\"}}\n{{\"n\":2}}\n", "x".repeat(2 * LARGE));
        let (_folder, path) = file("x.ndjson", text.as_bytes());
        let rows = Rows::open(&survey(&path).unwrap().0).unwrap();
        for row in [0, 1, 2, 1] {
            assert_eq!(rows.document(row).at(&["n"]), Some(&FieldValue::Int(row as i64)));
            let bytes = rows.last.lock().unwrap().as_ref().map_or(0, |last| last.bytes.capacity());
            assert!(bytes <= LARGE, "{bytes} bytes after row {row}");
        }
    }

    /// Quoted line breaks, blank lines and both kinds of line end, at the borders of blocks too.
    #[test]
    fn cells_of_many_blocks_are_what_was_written() {
        let row = |n: usize| {
            let end = if n.is_multiple_of(3) { "\r\n" } else { "\n" };
            format!("{n},\"line {n}\n,\"\"{}\"{end}{}", "q".repeat(n % 97), if n.is_multiple_of(5) { end } else { "" })
        };
        let text = format!("n,text\r\n{}", (0..3_000).map(row).collect::<String>());
        let (_folder, path) = file("x.csv", text.as_bytes());
        let rows = Rows::open(&survey(&path).unwrap().0).unwrap();
        assert_eq!((rows.count(), rows.blocks.len() > 20), (3_000, true));
        for n in (0..3_000).rev().chain([7, 2_999, 0]) {
            let text = format!("line {n}\n,\"{}", "q".repeat(n % 97));
            let fields = [("n", FieldValue::Int(n as i64)), ("text", FieldValue::Text(text))];
            let expected = fields.map(|(name, value)| (name.into(), value)).to_vec();
            assert_eq!(rows.document(n as u64), FieldValue::Fields(expected));
        }
    }

    #[test]
    fn a_change_while_rows_are_read_ends_it() {
        let text = "{\"a\":1}\n".repeat(2_000);
        let (_folder, path) = file("x.ndjson", text.as_bytes());
        let rows = Rows::open(&survey(&path).unwrap().0).unwrap();
        rows.document(0);
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        fs::write(&path, text.replace('1', "2")).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        let read = std::panic::catch_unwind(|| rows.document(1_999));
        let said = read.unwrap_err().downcast::<String>().unwrap();
        assert!(said.ends_with("it was changed while it was read"), "{said}");
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
            assert!(bytes <= LEAST_BLOCK + 3_100, "{bytes} of {}", text.len());
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
