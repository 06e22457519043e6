//! Captures output in bounded memory: stores the first and last bytes and counts the bytes between.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use prony_model::record::Captured;

use super::wire::Bounds;

/// Buffers of a captured stream read in one go, so that a fast writer does not starve the other streams.
const ROUNDS: usize = 32;

/// A stream under capture.
#[derive(Debug)]
pub struct Capture {
    first: Vec<u8>,
    first_bound: usize,
    last: VecDeque<u8>,
    last_bound: usize,
    total: u64,
}

impl Capture {
    /// Stores so many bytes of the beginning and of the end.
    pub fn new(first: usize, last: usize) -> Self {
        Self { first: Vec::new(), first_bound: first, last: VecDeque::new(), last_bound: last, total: 0 }
    }

    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = (self.first_bound - self.first.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.first.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.last_bound)..];
        let excess = (self.last.len() + rest.len()).saturating_sub(self.last_bound);
        self.last.drain(..excess);
        self.last.extend(rest);
    }

    /// Reads what a non-blocking stream has now, at most `rounds` buffers; `false` at its end.
    pub(super) fn drain(&mut self, stream: &mut impl Read, rounds: usize) -> bool {
        let mut buffer = [0; 65_536];
        for _ in 0..rounds {
            match stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => self.push(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// What was stored so far.
    pub fn captured(&self) -> Captured {
        let last: Vec<u8> = self.last.iter().copied().collect();
        Captured {
            first: String::from_utf8_lossy(&self.first).into_owned(),
            last: String::from_utf8_lossy(&last).into_owned(),
            omitted: self.total - (self.first.len() + self.last.len()) as u64,
            total: self.total,
            too_long: 0,
        }
    }
}

/// A captured stream and what was stored of it.
#[derive(Debug)]
pub(super) struct Stream {
    /// Until its end.
    source: Option<File>,
    capture: Capture,
}

impl Stream {
    /// Reads from this non-blocking end of a pipe.
    pub(super) fn new(source: OwnedFd, bounds: Bounds) -> Self {
        Self { source: Some(File::from(source)), capture: Capture::new(bounds.first, bounds.last) }
    }

    /// Reads what the pipe has now.
    pub(super) fn drain(&mut self) {
        if let Some(source) = &mut self.source
            && !self.capture.drain(source, ROUNDS)
        {
            self.source = None;
        }
    }

    /// What was stored so far.
    pub(super) fn captured(&self) -> Captured {
        self.capture.captured()
    }

    /// The descriptor to poll.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.source.as_ref().map(AsFd::as_fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(pieces: &[&str]) -> Captured {
        let mut capture = Capture::new(4, 3);
        for piece in pieces {
            capture.push(piece.as_bytes());
        }
        capture.captured()
    }

    fn expected(first: &str, last: &str, omitted: u64) -> Captured {
        let total = (first.len() + last.len()) as u64 + omitted;
        Captured { first: first.into(), last: last.into(), omitted, total, too_long: 0 }
    }

    #[test]
    fn short_streams_are_captured_completely() {
        assert_eq!(capture(&[]), expected("", "", 0));
        assert_eq!(capture(&["ab", "cd"]), expected("abcd", "", 0));
        assert_eq!(capture(&["abcdefg"]).text(), "abcdefg");
    }

    #[test]
    fn long_streams_keep_both_ends_however_they_are_cut() {
        let stream = "abcdefghijklmnop";
        for cut in 0..stream.len() {
            let (a, b) = stream.split_at(cut);
            assert_eq!(capture(&[a, b]), expected("abcd", "nop", 9), "cut at {cut}");
        }
        assert_eq!(capture(&[stream]).text(), "abcd\n[... 9 bytes not kept ...]\nnop");
    }

    #[test]
    fn a_stream_ends_and_a_failing_one_ends_too() {
        let mut capture = Capture::new(2, 2);
        assert!(!capture.drain(&mut &b"xyz"[..], 10));
        assert!(capture.drain(&mut &b"123"[..], 1));
        assert_eq!(capture.captured().total, 6);
    }
}
