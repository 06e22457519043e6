//! A body that is a file in which texts are replaced. It is read through once before the load, to count the texts and so to
//! know the length of each body, and again while each body is sent: memory does not depend on its size.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use regex::bytes::Regex;

use crate::text::{Piece, Text, Values, Variation};

/// Bytes that are read at once.
const PORTION: usize = 128 << 10;

/// A file up to this size is read into memory.
pub(crate) const SMALL: u64 = 1 << 20;

/// A text in the file, and what replaces it.
#[derive(Clone, Debug)]
struct Fill {
    find: Vec<u8>,
    with: Text,
    /// How often the text is in the file.
    count: u64,
}

/// A file as a body.
#[derive(Clone, Debug)]
pub(crate) struct FileBody {
    path: PathBuf,
    /// When it was written to before it was read through.
    modified: SystemTime,
    /// Bytes of the file that are sent as they are.
    plain: u64,
    fills: Vec<Fill>,
    search: Option<Search>,
}

/// Finds texts: the first one first, and of several that begin at the same byte the longest.
#[derive(Clone, Debug)]
struct Search {
    regex: Regex,
    longest: usize,
}

impl Search {
    /// Of these texts, none of which is empty; the longest first.
    fn new(fills: &[Fill]) -> Option<Self> {
        let longest = fills.iter().map(|fill| fill.find.len()).max()?;
        // Alternatives are tried in this order.
        let text = |fill: &Fill| fill.find.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
        let pattern = fills.iter().map(text).collect::<Vec<_>>().join("|");
        let regex = Regex::new(&format!("(?s-u:{pattern})"));
        Some(Self { regex: regex.expect("bytes in hexadecimal are a pattern"), longest })
    }
}

/// A part of a file.
enum Found<'w> {
    Plain(&'w [u8]),
    /// A text that is replaced, by its place.
    Fill(usize),
}

/// A file that is read, with what was read and not given yet.
#[derive(Debug)]
struct Window {
    file: File,
    bytes: Vec<u8>,
    is_at_end: bool,
}

impl Window {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, bytes: Vec::new(), is_at_end: false })
    }

    /// Reads a portion and gives the parts of what can be decided; whether there may be more.
    fn advance(&mut self, body: &FileBody, mut give: impl FnMut(Found<'_>)) -> io::Result<bool> {
        if self.is_at_end {
            return Ok(false);
        }
        let read = (&self.file).take(PORTION as u64).read_to_end(&mut self.bytes)?;
        self.is_at_end = read < PORTION;
        let Some(search) = &body.search else {
            give(Found::Plain(&self.bytes));
            self.bytes.clear();
            return Ok(!self.is_at_end);
        };
        // A text that begins later may continue beyond what was read.
        let limit = match self.is_at_end {
            true => self.bytes.len(),
            false => (self.bytes.len() + 1).saturating_sub(search.longest),
        };
        let mut at = 0;
        while let Some(found) = search.regex.find_at(&self.bytes, at).filter(|found| found.start() < limit) {
            give(Found::Plain(&self.bytes[at..found.start()]));
            let place = body.fills.iter().position(|fill| fill.find == found.as_bytes());
            give(place.map_or(Found::Plain(found.as_bytes()), Found::Fill));
            at = found.end();
        }
        if at < limit {
            give(Found::Plain(&self.bytes[at..limit]));
            at = limit;
        }
        self.bytes.drain(..at);
        Ok(!self.is_at_end)
    }
}

impl FileBody {
    /// Reads the file through. No text to replace is empty.
    pub(crate) fn scan(path: &Path, fills: Vec<(Vec<u8>, Text)>) -> io::Result<Self> {
        let mut fills: Vec<Fill> = fills.into_iter().map(|(find, with)| Fill { find, with, count: 0 }).collect();
        fills.sort_by_key(|fill| std::cmp::Reverse(fill.find.len()));
        let mut window = Window::open(path)?;
        let (path, modified) = (path.to_owned(), window.file.metadata()?.modified()?);
        let mut body = Self { path, modified, plain: 0, search: Search::new(&fills), fills };
        let (mut plain, mut counts) = (0, vec![0; body.fills.len()]);
        let mut count = |found: Found<'_>| match found {
            Found::Plain(bytes) => plain += bytes.len() as u64,
            Found::Fill(place) => counts[place] += 1,
        };
        while window.advance(&body, &mut count)? {}
        body.plain = plain;
        body.fills.iter_mut().zip(counts).for_each(|(fill, count)| fill.count = count);
        Ok(body)
    }

    /// The texts to replace that the file does not contain.
    pub(crate) fn absent(&self) -> impl Iterator<Item = &[u8]> {
        self.fills.iter().filter(|fill| fill.count == 0).map(|fill| fill.find.as_slice())
    }

    /// What replaces the texts that the file contains.
    pub(crate) fn withs(&self) -> impl Iterator<Item = &Text> {
        self.fills.iter().filter(|fill| fill.count > 0).map(|fill| &fill.with)
    }

    /// Bytes of the file.
    pub(crate) fn size(&self) -> u64 {
        self.plain + self.fills.iter().map(|fill| fill.count * fill.find.len() as u64).sum::<u64>()
    }

    /// How bodies of two requests differ.
    pub(crate) fn variation(&self) -> Variation {
        let used = self.fills.iter().filter(|fill| fill.count > 0);
        used.map(|fill| fill.with.variation()).max().unwrap_or_default()
    }

    /// The whole body as a text in memory.
    pub(crate) fn to_text(&self) -> io::Result<Text> {
        let (mut pieces, mut window) = (Vec::<Piece>::new(), Window::open(&self.path)?);
        let mut add = |found: Found<'_>| match (found, pieces.last_mut()) {
            (Found::Plain(bytes), Some(Piece::Bytes(last))) => last.extend_from_slice(bytes),
            (Found::Plain(bytes), _) => pieces.push(Piece::Bytes(bytes.to_vec())),
            (Found::Fill(place), _) => pieces.extend_from_slice(self.fills[place].with.pieces()),
        };
        while window.advance(self, &mut add)? {}
        Ok(Text::new(pieces))
    }

    /// Begins to read a body with these values; its length is known before. `out` becomes what the texts are replaced by, one
    /// after the other, which differs where the bodies differ.
    pub(crate) fn open(self: &Arc<Self>, values: &Values<'_>, out: &mut Vec<u8>) -> io::Result<Reading> {
        out.clear();
        let mut ends = Vec::with_capacity(self.fills.len());
        for fill in &self.fills {
            if fill.count > 0 {
                fill.with.write(values, out);
            }
            ends.push(out.len());
            // So that no two texts can be taken for others.
            out.push(0);
        }
        let filled: Vec<Vec<u8>> =
            ends.iter().scan(0, |from, end| Some(out[std::mem::replace(from, end + 1)..*end].to_vec())).collect();
        let fills = self.fills.iter().zip(&filled).map(|(fill, with)| fill.count * with.len() as u64);
        let left = self.plain + fills.sum::<u64>();
        let window = Window::open(&self.path)?;
        // One of the same length may contain the texts in other places, or others.
        if window.file.metadata()?.modified()? != self.modified {
            return Err(changed());
        }
        Ok(Reading { body: Arc::clone(self), window, filled, left })
    }
}

/// A body that is read.
#[derive(Debug)]
pub(crate) struct Reading {
    body: Arc<FileBody>,
    window: Window,
    /// What replaces each text.
    filled: Vec<Vec<u8>>,
    /// Bytes that are still to come.
    left: u64,
}

impl Reading {
    /// Bytes that are still to come: in the beginning the length of the body.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Replaces `out` by the next bytes; it is empty at the end only.
    ///
    /// # Errors
    /// Where the file cannot be read, and where it is not what it was when its length was computed.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let Self { body, window, filled, left } = self;
        out.clear();
        let mut more = true;
        while out.is_empty() && more {
            more = window.advance(body, |found| match found {
                Found::Plain(bytes) => out.extend_from_slice(bytes),
                Found::Fill(place) => out.extend_from_slice(&filled[place]),
            })?;
        }
        let after = left.checked_sub(out.len() as u64).filter(|after| *after == 0 || !out.is_empty());
        *left = after.ok_or_else(changed)?;
        Ok(())
    }
}

fn changed() -> io::Error {
    io::Error::other("the file has changed since the load was prepared")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(number: u64) -> Values<'static> {
        Values { number, lists: &[], entry: 0, session: &[], document: None }
    }

    fn read(body: &Arc<FileBody>, number: u64) -> io::Result<(u64, Vec<u8>)> {
        let (mut all, mut out) = (Vec::new(), Vec::new());
        let mut reading = body.open(&values(number), &mut out)?;
        let length = reading.left();
        loop {
            reading.next(&mut out)?;
            if out.is_empty() {
                return Ok((length, all));
            }
            all.extend_from_slice(&out);
        }
    }

    /// The same by a plain search from left to right.
    fn replaced(bytes: &[u8], fills: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let (mut out, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let longest =
                fills.iter().filter(|(find, _)| bytes[at..].starts_with(find)).max_by_key(|(find, _)| find.len());
            match longest {
                Some((find, with)) => {
                    out.extend_from_slice(with);
                    at += find.len();
                }
                None => {
                    out.push(bytes[at]);
                    at += 1;
                }
            }
        }
        out
    }

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn body_is_the_file_with_texts_replaced_whatever_the_portions(
            bytes in prop::collection::vec(prop::sample::select(b"abAB\xff".to_vec()), 0..300),
            repeat in 1usize..3_000,
            finds in prop::collection::btree_set(prop::collection::vec(prop::sample::select(b"abA".to_vec()), 1..5), 0..4),
            number in 0u64..2_000,
        ) {
            // Several portions, at the borders of which texts begin, in some of the cases.
            let bytes = bytes.repeat(repeat);
            let file = file(&bytes);
            let withs = [b"".as_slice(), b"{i}", b"x{i}y"];
            let fills: Vec<(Vec<u8>, Text)> =
                finds.iter().cloned().zip(withs.iter().cycle().map(|with| Text::numbered(with))).collect();
            let body = Arc::new(FileBody::scan(file.path(), fills.clone()).unwrap());
            let plain: Vec<(Vec<u8>, Vec<u8>)> = fills
                .iter()
                .map(|(find, with)| {
                    let mut out = Vec::new();
                    with.write(&values(number), &mut out);
                    (find.clone(), out)
                })
                .collect();
            let expected = replaced(&bytes, &plain);
            let (length, all) = read(&body, number).unwrap();
            prop_assert!(all == expected && length == expected.len() as u64, "{} {}", length, expected.len());
            prop_assert_eq!(body.size(), bytes.len() as u64);
            let mut text = Vec::new();
            body.to_text().unwrap().write(&values(number), &mut text);
            prop_assert!(text == expected);
        }
    }

    #[test]
    fn file_that_changes_is_no_body() {
        for changed in [b"ab".as_slice(), b"abcde", b""] {
            let file = file(b"abcd");
            let body = Arc::new(FileBody::scan(file.path(), Vec::new()).unwrap());
            std::fs::write(file.path(), changed).unwrap();
            assert!(read(&body, 0).unwrap_err().to_string().contains("has changed"), "{changed:?}");
        }
    }

    #[test]
    fn file_of_the_same_length_that_was_written_since_is_no_body() {
        let file = file(b"abcd");
        let body = Arc::new(FileBody::scan(file.path(), Vec::new()).unwrap());
        assert_eq!(read(&body, 0).unwrap(), (4, b"abcd".to_vec()));
        std::fs::write(file.path(), b"abce").unwrap();
        // Two times of writing may be the same where the file system's clock is coarse.
        let later = body.modified + std::time::Duration::from_secs(1);
        File::options().write(true).open(file.path()).unwrap().set_modified(later).unwrap();
        assert!(read(&body, 0).unwrap_err().to_string().contains("has changed"));
    }

    #[test]
    fn texts_that_are_not_in_the_file_are_named() {
        let file = file(b"<a>X</a>");
        let fills = vec![(b"X".to_vec(), Text::numbered(b"1")), (b"Y".to_vec(), Text::numbered(b"{i}"))];
        let body = FileBody::scan(file.path(), fills).unwrap();
        assert_eq!(body.absent().collect::<Vec<_>>(), [b"Y"]);
        assert_eq!(body.variation(), Variation::Same);
    }
}
