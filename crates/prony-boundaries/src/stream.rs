//! Reads an output stream of a program in bounded memory, and splits it into lines if boundaries depend on lines.

use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, Read};

use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::launch::{Capture, Captured};

/// Bytes of beginning and end that are stored.
const CAPTURED: usize = 4 << 10;

/// No pattern is searched for in a longer line: what is cut off might belong to what it finds.
const LONGEST_LINE: usize = 1 << 20;

/// Buffers read in one go, so that a fast writer on one stream does not starve the other streams.
const ROUNDS: usize = 8;

/// A stream under way.
pub struct Stream {
    source: Option<File>,
    capture: Capture,
    pending: Vec<u8>,
    /// Whether the line is longer than what is pending.
    cut: bool,
    /// Lines that were too long.
    too_long: u64,
    lines: bool,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Everything there is now.
    Empty,
    /// There may be more.
    More,
}

impl Stream {
    /// From a non-blocking source; `lines` if its lines matter.
    pub fn new(source: Option<File>, lines: bool) -> Self {
        Self { source, capture: Capture::new(CAPTURED, CAPTURED), pending: Vec::new(), cut: false, too_long: 0, lines }
    }

    /// The descriptor to wait for, until the stream ends.
    pub const fn source(&self) -> Option<&File> {
        self.source.as_ref()
    }

    /// Reads what is there, and hands over each line that it completes and that is not too long, bytes that are no UTF-8 as `\xHH`,
    /// with the instant at which its end had been read.
    pub fn take(&mut self, buffer: &mut [u8], line: &mut dyn FnMut(&str, Nanos)) -> Taken {
        for _ in 0..ROUNDS {
            let Some(source) = &mut self.source else { return Taken::Empty };
            let read = source.read(buffer);
            let at = monotonic();
            let line = &mut |text: &str| line(text, at);
            match read {
                Ok(0) => self.end(line),
                Ok(n) => self.push(&buffer[..n], line),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Taken::Empty,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A terminal whose other side is closed returns EIO.
                Err(_) => self.end(line),
            }
        }
        Taken::More
    }

    fn push(&mut self, bytes: &[u8], line: &mut dyn FnMut(&str)) {
        self.capture.push(bytes);
        if !self.lines {
            return;
        }
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.keep(&rest[..end]);
            self.hand_over(line);
            rest = &rest[end + 1..];
        }
        self.keep(rest);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = LONGEST_LINE.saturating_sub(self.pending.len()).min(bytes.len());
        self.pending.extend_from_slice(&bytes[..room]);
        self.cut |= room < bytes.len();
    }

    fn hand_over(&mut self, line: &mut dyn FnMut(&str)) {
        if std::mem::take(&mut self.cut) {
            self.too_long += 1;
        } else {
            line(escaped(&self.pending).trim_end_matches('\r'));
        }
        self.pending.clear();
    }

    fn end(&mut self, line: &mut dyn FnMut(&str)) {
        self.source = None;
        if !self.pending.is_empty() {
            self.hand_over(line);
        }
    }

    /// Hands over a line without an end: nothing more is read, though another process may have the stream open.
    pub fn cut_off(&mut self, line: &mut dyn FnMut(&str, Nanos)) {
        let at = monotonic();
        self.end(&mut |text| line(text, at));
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
        while stream.source().is_some() {
            stream.take(&mut buffer, &mut |line, _| lines.push(line.to_owned()));
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
        let line = &mut |line: &str, _| lines.push(line.to_owned());
        assert_eq!(stream.take(&mut [0; 64], line), Taken::Empty);
        stream.cut_off(line);
        stream.cut_off(line);
        assert_eq!(lines, ["took 3.0", "took 1.5"]);
    }

    #[test]
    fn invalid_utf8_is_escaped_and_lines_that_are_too_long_are_counted() {
        assert_eq!(read(&[b"a\xff\xfeb\n"]).0, ["a\\xff\\xfeb"]);
        let mut stream = Stream::new(None, true);
        let mut lines = Vec::new();
        stream.push(&vec![b'x'; LONGEST_LINE], &mut |line| lines.push(line.len()));
        stream.push(b"yyy\nz\n", &mut |line| lines.push(line.len()));
        stream.push(&vec![b'x'; LONGEST_LINE], &mut |line| lines.push(line.len()));
        stream.push(b"\n", &mut |line| lines.push(line.len()));
        assert_eq!(lines, [1, LONGEST_LINE]);
        assert!(stream.captured().omitted > 0);
        assert_eq!(stream.captured().too_long, 1);
    }
}
