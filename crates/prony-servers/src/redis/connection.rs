//! A blocking connection to a server of Redis or Valkey.
//!
//! Commands are collected and sent together; each has one answer, in their order. A value is handed out from the buffer into
//! which it was received, without a copy.

use std::io;
use std::ops::Range;

use super::Address;
use super::protocol::{self, Head, Malformed};
use crate::wire::{Limit, Wire};

/// Why something was not answered.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The connection.
    #[error("the connection to the server failed")]
    Io(#[from] io::Error),
    /// The server's own error.
    #[error("{0}")]
    Server(String),
    /// What the server sent is not understood.
    #[error("the server sent what is not understood: {0}")]
    Protocol(&'static str),
}

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Self {
        Self::Protocol("it is not the protocol of Redis")
    }
}

/// An answer, or the head of one with items.
pub enum Reply {
    /// A line such as `OK`.
    Text,
    /// A number.
    Integer(i64),
    /// Where the value is in [`Connection::bytes`] until the next answer is read; `None` where there is none.
    Bulk(Option<Range<usize>>),
    /// So many answers follow; `None` for a transaction that was not carried out.
    Array(Option<usize>),
}

/// An answer with all its items.
#[derive(Debug, PartialEq, Eq)]
pub enum Value {
    /// A value that is not there.
    None,
    /// A line such as `OK`.
    Done,
    /// A number.
    Integer(i64),
    /// A byte string.
    Text(String),
    /// An array.
    List(Vec<Value>),
}

impl Value {
    /// The text, where it is one.
    pub fn text(self) -> Option<String> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// A connection.
pub struct Connection {
    wire: Wire,
}

/// Arrays that answers of commands in use have in each other, and a few more.
const MOST_NESTED: u32 = 8;

impl Connection {
    /// Connects, logs in and chooses the database.
    ///
    /// # Errors
    /// Where the server cannot be reached or refuses it.
    pub fn open(address: &Address, limit: Option<Limit>) -> Result<Self, Failure> {
        let wire = Wire::tcp(address.place.as_str(), limit)?;
        let mut open = Self { wire };
        if !address.login.is_empty() {
            let login = address.login.iter().map(String::as_bytes);
            open.ask(&[b"AUTH".as_slice()].into_iter().chain(login).collect::<Vec<_>>())?;
        }
        if address.database > 0 {
            open.ask(&[b"SELECT", address.database.to_string().as_bytes()])?;
        }
        Ok(open)
    }

    /// Adds a command: its name and its arguments.
    #[inline]
    pub fn add(&mut self, words: &[&[u8]]) {
        protocol::push(&mut self.wire.out, words);
    }

    /// What was added and not sent.
    #[inline]
    pub const fn out(&mut self) -> &mut Vec<u8> {
        &mut self.wire.out
    }

    /// Sends what was added.
    ///
    /// # Errors
    /// Where the connection fails.
    #[inline]
    pub fn send(&mut self) -> Result<(), Failure> {
        Ok(self.wire.send()?)
    }

    /// The next answer.
    ///
    /// # Errors
    /// The server's error, after which the next answer can be read; those of the connection, after which none can.
    #[inline]
    pub fn reply(&mut self) -> Result<Reply, Failure> {
        let reply = self.received();
        if let Err(Failure::Protocol(_)) = &reply {
            self.wire.break_off();
        }
        reply
    }

    fn received(&mut self) -> Result<Reply, Failure> {
        let (head, length) = loop {
            match protocol::head(self.wire.received())? {
                Some(head) => break head,
                None => self.wire.fill(self.wire.received().len() + 1)?,
            }
        };
        if let Head::Bulk(Some(bytes)) = head {
            self.wire.fill(length + bytes + 2)?;
            let all = self.wire.take(length + bytes + 2);
            if self.wire.at(all.end - 2..all.end) != b"\r\n" {
                return Err(Failure::Protocol("a value does not end where it has to"));
            }
            return Ok(Reply::Bulk(Some(all.start + length..all.end - 2)));
        }
        let line = self.wire.take(length);
        match head {
            Head::Text(_) => Ok(Reply::Text),
            Head::Error(text) => Err(Failure::Server(String::from_utf8_lossy(&self.wire.at(line)[text]).into_owned())),
            Head::Integer(number) => Ok(Reply::Integer(number)),
            Head::Bulk(_) => Ok(Reply::Bulk(None)),
            Head::Array(items) => Ok(Reply::Array(items)),
        }
    }

    /// The bytes of the last answer.
    #[inline]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.wire.at(range)
    }

    /// Gives the next answers together all the time that a reading may take, where that is limited.
    pub fn begin_reading(&mut self) {
        self.wire.begin_reading();
    }

    /// How many bytes were sent and received.
    pub const fn traffic(&self) -> [u64; 2] {
        self.wire.traffic()
    }

    /// Sends one command and reads all of its answer.
    ///
    /// # Errors
    /// The server's, and those of the connection.
    pub fn ask(&mut self, words: &[&[u8]]) -> Result<Value, Failure> {
        self.wire.begin_answer();
        self.add(words);
        self.send()?;
        self.value(MOST_NESTED)
    }

    /// The next answer with its items, arrays in so many others at most.
    fn value(&mut self, most: u32) -> Result<Value, Failure> {
        Ok(match self.reply()? {
            Reply::Text => Value::Done,
            Reply::Integer(number) => Value::Integer(number),
            Reply::Bulk(None) | Reply::Array(None) => Value::None,
            Reply::Bulk(Some(range)) => Value::Text(String::from_utf8_lossy(self.bytes(range)).into_owned()),
            Reply::Array(Some(_)) if most == 0 => {
                self.wire.break_off();
                return Err(Failure::Protocol("an answer has too many arrays in each other"));
            }
            Reply::Array(Some(items)) => {
                let mut list = Vec::new();
                for _ in 0..items {
                    list.push(self.value(most - 1)?);
                }
                Value::List(list)
            }
        })
    }

    /// Reads so many answers of commands that answer with a text or a number.
    ///
    /// # Errors
    /// The first error, once all of them were read.
    pub fn replies(&mut self, count: usize) -> Result<(), Failure> {
        let mut first = Ok(());
        for _ in 0..count {
            match self.reply() {
                Ok(Reply::Text | Reply::Integer(_)) => {}
                Ok(_) => {
                    // An array's items would be taken for the next answers.
                    self.wire.break_off();
                    return first
                        .and(Err(Failure::Protocol("a write is answered by something else than a text or a number")));
                }
                Err(error @ Failure::Server(_)) => first = first.and(Err(error)),
                // What the server said before explains it.
                Err(error) => return first.and(Err(error)),
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A connection to a server that answers the first bytes that it receives with these, a few at a time, and ends.
    fn answered(answer: &'static [u8]) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 100]);
            for part in answer.chunks(3) {
                let _ = stream.write_all(part);
                thread::yield_now();
            }
        });
        let mut open = Connection::open(&Address::parse(&address).unwrap(), None).unwrap();
        open.add(&[b"PING"]);
        open.send().unwrap();
        open
    }

    #[test]
    fn answers_are_read_with_their_items() {
        let mut open = answered(b"*4\r\n$3\r\na\r\n\r\n:7\r\n*0\r\n$-1\r\n*-1\r\n+OK\r\n");
        let all = vec![Value::Text("a\r\n".into()), Value::Integer(7), Value::List(vec![]), Value::None];
        assert_eq!(open.value(2).unwrap(), Value::List(all));
        assert!(matches!(open.reply(), Ok(Reply::Array(None))));
        assert!(matches!(open.reply(), Ok(Reply::Text)));
        assert!(matches!(open.reply(), Err(Failure::Io(_))));
    }

    #[test]
    fn arrays_in_arrays_without_end_are_refused() {
        let mut open = answered(b"*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n");
        assert!(matches!(open.value(3), Err(Failure::Protocol(_))));
        assert!(open.send().is_err(), "what follows is no answer of another command");
    }

    #[test]
    fn first_error_of_several_is_found_and_all_are_read() {
        let mut open = answered(b"+OK\r\n-OOM no\r\n-EXECABORT no\r\n:1\r\n");
        assert!(matches!(open.replies(3), Err(Failure::Server(text)) if text == "OOM no"));
        assert!(matches!(open.reply(), Ok(Reply::Integer(1))));
    }

    #[test]
    fn connection_is_not_used_after_what_is_not_understood() {
        for answer in [&b"HTTP/1.1 400\r\n+OK\r\n"[..], b"$2\r\nabc\r\n+OK\r\n"] {
            let mut open = answered(answer);
            assert!(matches!(open.reply(), Err(Failure::Protocol(_))));
            open.add(&[b"PING"]);
            assert!(matches!(open.send(), Err(Failure::Io(_))), "the next answer would be that of another command");
        }
    }
}
