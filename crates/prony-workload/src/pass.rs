//! Passes over a file of documents once: shows each row, computes the digest, and notes where blocks of the file begin.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3Default;

use super::quotes::{BYTE_ORDER_MARK, LONGEST_ROW, Quotes};

/// Bytes of the smallest block: a row is found by reading the block from its begin.
pub(super) const LEAST_BLOCK: u64 = 4 << 10;

/// Most blocks of a file: their places take a megabyte.
const MOST_BLOCKS: u64 = 1 << 16;

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
    pub(super) file: File,
    pub(super) blocks: Vec<Block>,
}

/// Where a part of the file begins, and its first row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) offset: u64,
    pub(super) row: u64,
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
    let blocks = Blocks::of(file.metadata().map_err(read)?.len());
    let bytes = Hashed { file, hash: Xxh3Default::new(), quotes: is_csv.then(Quotes::default) };
    if is_csv { pass_cells(path, bytes, blocks, see) } else { pass_lines(path, bytes, blocks, see) }
}

/// Computes the digest of what is read.
struct Hashed {
    file: File,
    hash: Xxh3Default,
    /// Where quotes are checked, those.
    quotes: Option<Quotes>,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hash.update(&buffer[..read]);
        if let Some(quotes) = &mut self.quotes {
            quotes.take(&buffer[..read]);
            if quotes.fault().is_some() {
                return Err(io::Error::other("a fault of quotes"));
            }
        }
        Ok(read)
    }
}

impl Hashed {
    fn digest(&self) -> String {
        format!("{:032x}", self.hash.digest128())
    }
}

/// Where blocks begin.
struct Blocks {
    length: u64,
    begun: Vec<Block>,
}

impl Blocks {
    /// Those of a file with so many bytes.
    fn of(bytes: u64) -> Self {
        Self { length: LEAST_BLOCK.max(bytes / MOST_BLOCKS), begun: Vec::new() }
    }

    fn note(&mut self, offset: u64, row: u64) {
        if self.begun.last().is_none_or(|last| offset >= last.offset + self.length) {
            self.begun.push(Block { offset, row });
        }
    }
}

fn pass_lines(
    path: &Path,
    bytes: Hashed,
    mut blocks: Blocks,
    see: &mut dyn FnMut(&Raw<'_>) -> Result<(), String>,
) -> Result<Passed, RowsError> {
    let mut reader = BufReader::with_capacity(1 << 20, bytes);
    let mut line = Vec::new();
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
            return Err(RowsError::row(path, number, too_long()));
        }
        if let Some(text) = content(&line, offset) {
            blocks.note(offset, rows);
            see(&Raw::Line(text)).map_err(|fault| RowsError::row(path, number, fault))?;
            rows += 1;
        }
        offset += read;
    }
    let bytes = reader.into_inner();
    let (digest, header) = (bytes.digest(), csv::StringRecord::new());
    Ok(Passed { rows, digest, header, file: bytes.file, blocks: blocks.begun })
}

/// What is wrong with a row that is too long.
fn too_long() -> String {
    format!("is longer than {} MiB", LONGEST_ROW >> 20)
}

/// A line without the byte order mark of the file's first; `None` where it is blank.
pub(super) fn content(line: &[u8], offset: u64) -> Option<&[u8]> {
    let line = if offset == 0 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
    Some(line.trim_ascii()).filter(|line| !line.is_empty())
}

fn pass_cells(
    path: &Path,
    bytes: Hashed,
    mut blocks: Blocks,
    see: &mut dyn FnMut(&Raw<'_>) -> Result<(), String>,
) -> Result<Passed, RowsError> {
    let mut reader = csv::ReaderBuilder::new().buffer_capacity(1 << 20).from_reader(bytes);
    // A quote that is not closed makes one row of all that follows: it is the fault, and not what comes of it.
    let why = |bytes: &Hashed, error| match bytes.quotes.as_ref().and_then(Quotes::fault) {
        Some((line, fault)) => RowsError::row(path, line, fault),
        None => of_csv(path, error),
    };
    let header = reader.headers().cloned();
    let header = header.map_err(|error| why(reader.get_ref(), error))?;
    let (mut rows, mut record) = (0, csv::StringRecord::new());
    loop {
        let more = reader.read_record(&mut record);
        if !more.map_err(|error| why(reader.get_ref(), error))? {
            break;
        }
        let offset = record.position().map_or(0, csv::Position::byte);
        blocks.note(offset, rows);
        see(&Raw::Cells(&record)).map_err(|fault| RowsError::row(path, line_of(path, offset), fault))?;
        rows += 1;
    }
    // What follows the last row is part of the digest too.
    let mut bytes = reader.into_inner();
    io::copy(&mut bytes, &mut io::sink()).map_err(|error| RowsError::read(path, error))?;
    Ok(Passed { rows, digest: bytes.digest(), header, file: bytes.file, blocks: blocks.begun })
}

fn of_csv(path: &Path, error: csv::Error) -> RowsError {
    let line = error.position().map_or(1, |place| line_of(path, place.byte()));
    match error.into_kind() {
        csv::ErrorKind::Io(error) => RowsError::read(path, error),
        csv::ErrorKind::Utf8 { .. } => RowsError::row(path, line, "is not UTF-8"),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            RowsError::row(path, line, format!("has {len} cells, but the first line has {expected_len} names"))
        }
        other => RowsError::row(path, line, format!("cannot be read: {other:?}")),
    }
}

/// The line on which the row begins that is at, or after the blank lines at, an offset. The reader's own count of lines leaves out
/// blank ones. For a message, so that it may read the file again.
fn line_of(path: &Path, offset: u64) -> u64 {
    let Ok(file) = File::open(path) else { return 1 };
    let (mut line, mut at) = (1, 0);
    for byte in BufReader::new(file).bytes().map_while(Result::ok) {
        if at >= offset && byte != b'\n' && byte != b'\r' {
            break;
        }
        line += u64::from(byte == b'\n');
        at += 1;
    }
    line
}
