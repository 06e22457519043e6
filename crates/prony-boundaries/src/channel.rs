//! The runner's end of the socket to a worker: JSON lines, read without blocking.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use prony_model::protocol::{FromWorker, ToWorker};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// A longer message is an error of the worker: groups of 2,000,000 pairs take about 60 MB.
const LONGEST: usize = 256 << 20;

/// A message, or why there is none.
#[derive(Debug)]
pub enum Received {
    /// A message.
    Message(Box<FromWorker>),
    /// No message has arrived yet.
    Nothing,
    /// The worker's end is closed: it exited, or closed it.
    Closed,
    /// What was read is not a message of the protocol.
    Garbled(String),
}

/// The runner's end.
pub struct Channel {
    stream: UnixStream,
    pending: Vec<u8>,
    /// How much of `pending` has been searched for a line's end.
    searched: usize,
}

impl Channel {
    /// Over this socket.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, pending: Vec::new(), searched: 0 }
    }

    /// Sends one message; `false` where the worker's end is closed.
    pub fn send(&mut self, message: &ToWorker) -> bool {
        let Ok(mut line) = serde_json::to_vec(message) else { return false };
        line.push(b'\n');
        self.stream.write_all(&line).is_ok()
    }

    /// The next message, where one is there.
    pub fn receive(&mut self) -> Received {
        loop {
            if let Some(line) = self.take_line() {
                return match serde_json::from_slice(&line) {
                    Ok(message) => Received::Message(Box::new(message)),
                    Err(error) => Received::Garbled(error.to_string()),
                };
            }
            if self.pending.len() > LONGEST {
                return Received::Garbled(format!("a message of more than {LONGEST} bytes"));
            }
            if let Some(received) = self.fill() {
                return received;
            }
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let Some(at) = self.pending[self.searched..].iter().position(|b| *b == b'\n') else {
            self.searched = self.pending.len();
            return None;
        };
        let rest = self.pending.split_off(self.searched + at + 1);
        let mut line = std::mem::replace(&mut self.pending, rest);
        line.pop();
        self.searched = 0;
        Some(line)
    }

    /// Reads once; `Some` where there is no more to read now.
    fn fill(&mut self) -> Option<Received> {
        let mut chunk = [0; 65536];
        match recv(&self.stream, &mut chunk[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Some(Received::Closed),
            Ok((n, _)) => {
                self.pending.extend_from_slice(&chunk[..n]);
                None
            }
            Err(Errno::AGAIN) => Some(Received::Nothing),
            Err(Errno::INTR) => None,
            Err(_) => Some(Received::Closed),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(operations: u64) -> FromWorker {
        FromWorker::Progress { index: 1, operations }
    }

    #[test]
    fn lines_come_out_whole_however_they_went_in() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut channel = Channel::new(ours);
        let mut text = serde_json::to_vec(&progress(1)).unwrap();
        text.push(b'\n');
        text.extend(serde_json::to_vec(&progress(2)).unwrap());
        let (head, tail) = text.split_at(9);
        theirs.write_all(head).unwrap();
        theirs.write_all(tail).unwrap();
        assert!(matches!(channel.receive(), Received::Message(m) if *m == progress(1)));
        assert!(matches!(channel.receive(), Received::Nothing));
        theirs.write_all(b"\n").unwrap();
        assert!(matches!(channel.receive(), Received::Message(m) if *m == progress(2)));
        drop(theirs);
        assert!(matches!(channel.receive(), Received::Closed));
    }

    #[test]
    fn what_is_not_the_protocol_is_named() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut channel = Channel::new(ours);
        theirs.write_all(b"hello\n").unwrap();
        assert!(matches!(channel.receive(), Received::Garbled(_)));
    }

    #[test]
    fn sending_to_a_closed_worker_says_so() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(!Channel::new(ours).send(&ToWorker::Phase { index: 0 }));
    }
}
