//! Reads the streams of a program in bounded memory, and splits them into lines if boundaries depend on lines.

use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};

use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::launch::{Capture, Captured};

/// Bytes of beginning and end that are stored.
const CAPTURED: usize = 4 << 10;

/// No pattern is searched for in a longer line: what is cut off might belong to what it finds.
const LONGEST_LINE: usize = 1 << 20;

/// Buffers read in one go, so that a fast writer on one stream does not starve the other streams.
const ROUNDS: usize = 8;

/// So many bytes in one turn may have filled a pipe: it has 16 pages (pipe(7)), of which each is half empty where no further write
/// fits. It is also all that a turn reads of a terminal, which passes on 4,095 bytes at once (N_TTY_BUF_SIZE less one).
const MAY_FILL: usize = ROUNDS * 4095;

/// The streams of a program: standard output and error, and its marks.
pub struct Streams {
    output: [Stream; 2],
    marks: Stream,
    waited: Nanos,
}

/// What was read from the streams of a program in one turn.
pub struct Arrived {
    /// Lines of stdout, 0, and of stderr, 1.
    pub lines: Vec<(usize, Line)>,
    /// Lines of the channel of marks, read after those: a mark that existed when a line was written is among them.
    pub marks: Vec<Line>,
    /// Whether there may be more.
    pub more: bool,
}

impl Streams {
    /// From the runner's ends; `listens` if lines of the output matter.
    pub fn new([stdout, stderr, marks]: [Option<File>; 3], listens: bool) -> Self {
        let output = [stdout, stderr].map(|source| Stream::new(source, listens));
        Self { output, marks: Stream::new(marks, true), waited: Nanos::ZERO }
    }

    /// What to wait for.
    pub fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let all = self.output.iter().chain([&self.marks]);
        all.filter_map(|stream| stream.source.as_ref()).map(File::as_fd)
    }

    /// Reads what is there, none of which was there at `earliest`.
    pub fn take(&mut self, buffer: &mut [u8], earliest: Nanos) -> Arrived {
        let mut all = Arrived { lines: Vec::new(), marks: Vec::new(), more: false };
        for (number, stream) in self.output.iter_mut().enumerate() {
            all.more |= stream.take(buffer, earliest, &mut |line| all.lines.push((number, line)));
        }
        all.more |= self.marks.take(buffer, earliest, &mut |line| all.marks.push(line));
        all
    }

    /// prony was busy for so long in a turn in which it has read these streams: where one of them was full, what writes to it waited.
    pub fn note_busy(&mut self, busy: Nanos) {
        if self.output.iter().any(|stream| stream.taken >= MAY_FILL) {
            self.waited += busy;
        }
    }

    /// How much was written, and for how long, at most, that waited until it was read.
    pub fn flood(&self) -> ([u64; 2], Nanos) {
        (self.captured().map(|captured| captured.total), self.waited)
    }

    /// The last lines of the output, where these have no end: nothing more is read, though another process may have a stream open.
    pub fn cut_off(&mut self) -> Vec<(usize, Line)> {
        let mut lines = Vec::new();
        for (number, stream) in self.output.iter_mut().enumerate() {
            stream.end(&mut |line| lines.push((number, line)));
        }
        lines
    }

    /// The stored bytes of the output.
    pub fn captured(&self) -> [Captured; 2] {
        self.output.each_ref().map(Stream::captured)
    }
}

/// A stream under way.
pub struct Stream {
    source: Option<File>,
    capture: Capture,
    /// Bytes that were read in the last turn.
    taken: usize,
    pending: Vec<u8>,
    /// How many of the pending bytes had been read in turns before this one, and before which instant none of them was there.
    early: (usize, Nanos),
    /// When the last byte had been read.
    last: Nanos,
    /// Whether a carriage return ended a line, so that a newline behind it ends no other.
    returned: bool,
    /// Whether the line is longer than what is pending.
    cut: bool,
    /// Lines that were too long.
    too_long: u64,
    lines: bool,
}

/// A line that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Without its end; bytes that are no UTF-8 as `\xHH`.
    pub text: String,
    /// Where a part of it had been read in a turn before: that part, and an instant at which it was not there.
    pub early: Option<(String, Nanos)>,
    /// An instant at which the rest of it was not there.
    pub earliest: Nanos,
    /// When its end had been read; where it has none, its last byte.
    pub at: Nanos,
}

impl Stream {
    /// From a non-blocking source; `lines` if its lines matter.
    pub fn new(source: Option<File>, lines: bool) -> Self {
        Self {
            source,
            capture: Capture::new(CAPTURED, CAPTURED),
            taken: 0,
            pending: Vec::new(),
            early: (0, Nanos::ZERO),
            last: Nanos::ZERO,
            returned: false,
            cut: false,
            too_long: 0,
            lines,
        }
    }

    /// Reads what is there, none of which was there at `earliest`, and hands over each line that it completes and that is not too
    /// long; whether there may be more.
    pub fn take(&mut self, buffer: &mut [u8], earliest: Nanos, line: &mut dyn FnMut(Line)) -> bool {
        (self.early.0, self.taken) = (self.pending.len(), 0);
        for _ in 0..ROUNDS {
            let Some(source) = &mut self.source else { return false };
            let read = source.read(buffer);
            match read {
                Ok(0) => self.end(line),
                Ok(n) => self.push(&buffer[..n], (earliest, monotonic()), line),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A terminal whose other side is closed returns EIO.
                Err(_) => self.end(line),
            }
        }
        true
    }

    /// Programs that show their progress in one line write it again after a carriage return, which ends a line here too.
    fn push(&mut self, bytes: &[u8], (earliest, at): (Nanos, Nanos), line: &mut dyn FnMut(Line)) {
        self.capture.push(bytes);
        self.taken += bytes.len();
        self.last = at;
        if !self.lines {
            return;
        }
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.keep(&rest[..end], earliest);
            let returns = rest[end] == b'\r';
            let is_empty = self.pending.is_empty();
            if !is_empty || (!returns && !self.returned) {
                self.hand_over(earliest, line);
            }
            self.returned = returns && (self.returned || !is_empty);
            rest = &rest[end + 1..];
        }
        self.keep(rest, earliest);
    }

    fn keep(&mut self, bytes: &[u8], earliest: Nanos) {
        if self.pending.is_empty() {
            self.early = (0, earliest);
        }
        let room = LONGEST_LINE.saturating_sub(self.pending.len()).min(bytes.len());
        self.pending.extend_from_slice(&bytes[..room]);
        self.cut |= room < bytes.len();
    }

    fn hand_over(&mut self, earliest: Nanos, line: &mut dyn FnMut(Line)) {
        if std::mem::take(&mut self.cut) {
            self.too_long += 1;
        } else {
            let early = self.pending.get(..self.early.0).filter(|early| !early.is_empty());
            let early = early.map(|early| (escaped(early).into_owned(), self.early.1));
            line(Line { text: escaped(&self.pending).into_owned(), early, earliest, at: self.last });
        }
        self.pending.clear();
        self.early.0 = 0;
    }

    /// Hands over a line without an end.
    fn end(&mut self, line: &mut dyn FnMut(Line)) {
        self.source = None;
        if !self.pending.is_empty() {
            // Any of it may have been read in a turn before.
            self.hand_over(self.early.1, line);
        }
    }

    /// The stored bytes.
    pub fn captured(&self) -> Captured {
        Captured { too_long: self.too_long, ..self.capture.captured() }
    }
}

/// Bytes as text, in which other bytes are other text: answers are compared by it.
fn escaped(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.into();
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text += chunk.valid();
        chunk.invalid().iter().for_each(|byte| text += &format!("\\x{byte:02x}"));
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(pieces: &[&[u8]]) -> (Vec<String>, Captured) {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut stream = Stream::new(Some(File::from(std::os::fd::OwnedFd::from(reader))), true);
        let mut lines = Vec::new();
        let mut buffer = [0; 16];
        for piece in pieces {
            writer.write_all(piece).unwrap();
        }
        drop(writer);
        while stream.source.is_some() {
            stream.take(&mut buffer, Nanos::ZERO, &mut |line| lines.push(line.text));
        }
        (lines, stream.captured())
    }

    #[test]
    fn lines_come_out_whole_and_the_last_needs_no_end() {
        let pieces: [&[u8]; 2] = [b"first line that is long\r\nsec", b"ond\n\nthird"];
        let (lines, captured) = read(&pieces);
        assert_eq!(lines, ["first line that is long", "second", "", "third"]);
        assert_eq!(captured.total, pieces.concat().len() as u64);
    }

    #[test]
    fn last_line_is_whole_though_another_process_has_the_stream_open() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let mut stream = Stream::new(Some(File::from(std::os::fd::OwnedFd::from(reader))), true);
        writer.write_all(b"took 3.0\ntook 1.5").unwrap();
        let mut lines = Vec::new();
        let line = &mut |line: Line| lines.push(line.text);
        assert!(!stream.take(&mut [0; 64], Nanos::ZERO, line));
        stream.end(line);
        stream.end(line);
        assert_eq!(lines, ["took 3.0", "took 1.5"]);
    }

    #[test]
    fn carriage_returns_end_lines() {
        let progress = b"\relapsed 0.1 s\relapsed 0.2 s\r\n\r\n\n\r\rtook 1 s\r\r\nlast";
        let lines = ["elapsed 0.1 s", "elapsed 0.2 s", "", "", "took 1 s", "last"];
        assert_eq!(read(&[progress]).0, lines);
        for split in 1..progress.len() {
            let mut stream = Stream::new(None, true);
            let mut found = Vec::new();
            let (before, after) = progress.split_at(split);
            for part in [before, after] {
                stream.push(part, (Nanos::ZERO, Nanos::ZERO), &mut |line| found.push(line.text));
            }
            stream.end(&mut |line| found.push(line.text));
            assert_eq!(found, lines, "{split}");
        }
    }

    /// A program writes `loading... `, works, and ends the line; or ends without an end of its line.
    #[test]
    fn text_that_was_read_before_the_rest_of_its_line_has_its_own_time() {
        let ms = Nanos::from_millis;
        let (reader, mut writer) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let mut stream = Stream::new(Some(File::from(std::os::fd::OwnedFd::from(reader))), true);
        let mut lines = Vec::new();
        let mut take = |text: &str, earliest| {
            writer.write_all(text.as_bytes()).unwrap();
            stream.take(&mut [0; 64], ms(earliest), &mut |line| lines.push(line));
            monotonic()
        };
        take("loading... ", 1);
        take("done", 3);
        take(" in 2 s\n", 5);
        let before = take("ready", 7);
        let text = |text: &str| text.to_owned();
        assert_eq!(
            lines[0],
            Line {
                text: text("loading... done in 2 s"),
                early: Some((text("loading... done"), ms(1))),
                earliest: ms(5),
                at: lines[0].at
            }
        );
        let mut last = Vec::new();
        stream.end(&mut |line| last.push(line));
        assert!(last[0].at <= before && last[0].earliest == ms(7), "{last:?}");
        assert_eq!((last[0].text.as_str(), &last[0].early), ("ready", &None));
    }

    #[test]
    fn invalid_utf8_is_escaped_and_lines_that_are_too_long_are_counted() {
        assert_eq!(read(&[b"a\xff\xfeb\n"]).0, ["a\\xff\\xfeb"]);
        let mut stream = Stream::new(None, true);
        let mut lines = Vec::new();
        let longest = vec![b'x'; LONGEST_LINE];
        for part in [longest.as_slice(), b"yyy\nz\n", longest.as_slice(), b"\n"] {
            stream.push(part, (Nanos::ZERO, Nanos::ZERO), &mut |line| lines.push(line.text.len()));
        }
        assert_eq!(lines, [1, LONGEST_LINE]);
        assert!(stream.captured().omitted > 0);
        assert_eq!(stream.captured().too_long, 1);
    }
}
