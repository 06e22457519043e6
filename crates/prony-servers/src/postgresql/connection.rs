//! A blocking connection to a PostgreSQL server, in version 3.0 of its protocol.
//!
//! Messages to the server are collected and sent together: what [`Connection::exchange`] sends is one round trip, however many
//! statements it has (the protocol's pipelining). After an error the server skips everything up to the `Sync` at its end.
//! Rows are handed out from the buffer into which they were received, without a copy.

use std::io;
use std::ops::Range;

use super::address::{Address, Host};
use crate::scram::{self, Conversation, SHA_256};
use crate::wire::{Limit, Wire};

/// Rounds of hashing that a server may ask for at the login; those of PostgreSQL are 4,096 until `scram_iterations` says other.
const ROUNDS: std::ops::RangeInclusive<u32> = 1..=10_000_000;

/// A message is not longer: PostgreSQL's own bound of a value is 1 GB.
const LONGEST: usize = 1 << 30;

/// Why something was not answered.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The connection.
    #[error("the connection to the server failed")]
    Io(#[from] io::Error),
    /// The server's own error.
    #[error("{message} (SQLSTATE {code})")]
    Server {
        /// Its five characters.
        code: String,
        /// Its text.
        message: String,
    },
    /// A login that prony cannot do.
    #[error("{0}")]
    Login(&'static str),
    /// What the server sent is not understood.
    #[error("the server sent what is not understood: {0}")]
    Protocol(&'static str),
    /// A pooler answers in its place.
    #[error(
        "a connection pooler answers there, in whose sessions settings may be lost (hint: name the server itself in `url`)"
    )]
    Pooler,
}

/// What is bound to a parameter of a statement.
pub trait Bind {
    /// Writes its length and its bytes, in the binary form of its type.
    fn write(self, out: &mut Vec<u8>);
}

/// Of `bytea` or `text`.
impl Bind for &[u8] {
    #[inline]
    fn write(self, out: &mut Vec<u8>) {
        out.extend((self.len() as u32).to_be_bytes());
        out.extend(self);
    }
}

/// A connection.
pub struct Connection {
    /// Of which `out` has messages that were not sent.
    wire: Wire,
    /// Exchanges whose answers were not read.
    unread: usize,
    /// The number of the server's process, as it was given at the login.
    backend: Option<u32>,
}

/// How an exchange was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// A transaction was rolled back, also where it was to be committed.
    pub rolled_back: bool,
}

impl Connection {
    /// Connects and logs in, under the `name` by which the server shows the session.
    ///
    /// # Errors
    /// Where the server cannot be reached or refuses it.
    pub fn open(address: &Address, name: &str, limit: Option<Limit>) -> Result<Self, Failure> {
        let wire = match &address.host {
            Host::Tcp(name, port) => Wire::tcp((name.as_str(), *port), limit)?,
            Host::Unix(path) => Wire::unix(path, limit)?,
        };
        let mut open = Self { wire, unread: 0, backend: None };
        open.log_in(address, name)?;
        Ok(open)
    }

    fn log_in(&mut self, address: &Address, name: &str) -> Result<(), Failure> {
        let own = [("user", address.user.as_str()), ("database", &address.database), ("application_name", name)];
        let options = address.options.as_deref().map(|options| ("options", options));
        let mut body = vec![0, 3, 0, 0];
        for (name, value) in own.into_iter().chain([("client_encoding", "UTF8")]).chain(options) {
            [name, value].into_iter().for_each(|text| cstr(&mut body, text));
        }
        body.push(0);
        self.wire.out.extend((body.len() as u32 + 4).to_be_bytes());
        self.wire.out.extend(body);
        self.wire.send()?;
        let mut proof = None;
        loop {
            let (tag, body) = self.receive()?;
            let body = self.wire.at(body).to_vec();
            match (tag, body.split_first_chunk()) {
                (b'E', _) => return Err(error(&body)),
                (b'Z', _) if proof.is_some() => {
                    return Err(Failure::Login("the server did not prove that it knows the password"));
                }
                (b'Z', _) => return Ok(()),
                (b'R', Some((kind, rest))) => {
                    self.authenticate(address, u32::from_be_bytes(*kind), rest, &mut proof)?
                }
                (b'R', None) => return Err(Failure::Protocol("a message of an impossible length")),
                (b'K', _) => self.backend = body.first_chunk().map(|number| u32::from_be_bytes(*number)),
                // Parameters, notices.
                _ => {}
            }
        }
    }

    /// Answers one of the server's messages of this kind on the authentication; `login` is one whose proof the server owes.
    fn authenticate(
        &mut self,
        address: &Address,
        kind: u32,
        message: &[u8],
        login: &mut Option<Conversation>,
    ) -> Result<(), Failure> {
        let password =
            || address.password.as_deref().ok_or(Failure::Login("the server asks for a password, and none is given"));
        let begun = Failure::Protocol("an answer to no authentication");
        match kind {
            0 => {}
            3 => {
                let password = password()?;
                self.message(b'p', |out| cstr(out, password));
            }
            5 => {
                let hash = hashed(&address.user, password()?, message);
                self.message(b'p', |out| cstr(out, &hash));
            }
            10 => {
                // The server takes the user's name from the begin of the connection, and ignores the one in this login.
                let begun = Conversation::begin(&SHA_256, "", scram::normalised(password()?), ROUNDS);
                let begun = login.insert(begun.map_err(Failure::Login)?);
                let first = begun.first();
                self.message(b'p', |out| {
                    cstr(out, SHA_256.name);
                    out.extend((first.len() as u32).to_be_bytes());
                    out.extend(first.as_bytes());
                });
            }
            11 => {
                let proof = login.as_mut().ok_or(begun)?.prove(message).map_err(Failure::Login)?;
                self.message(b'p', |out| out.extend(proof.as_bytes()));
            }
            12 => login.take().ok_or(begun)?.check(message).map_err(Failure::Login)?,
            _ => return Err(Failure::Login("the server asks for an authentication that prony does not have")),
        }
        Ok(self.wire.send()?)
    }

    /// Makes settings of the session, which end with the connection.
    ///
    /// # Errors
    /// Those of the server, and that a pooler is in its place: it logs clients in itself, with a number of its own, and may run
    /// each transaction in another session of the server, which does not have the settings.
    pub fn set_up(&mut self, settings: &str) -> Result<(), Failure> {
        let answered = self.query(&format!("{settings}; SELECT pg_backend_pid()"))?;
        let backend = answered.last().and_then(|row| row.first()?.as_ref()?.parse().ok());
        if backend.is_some() && backend == self.backend { Ok(()) } else { Err(Failure::Pooler) }
    }

    /// Adds a message.
    fn message(&mut self, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.wire.out.push(tag);
        let from = self.wire.out.len();
        self.wire.out.extend([0; 4]);
        body(&mut self.wire.out);
        let length = (self.wire.out.len() - from) as u32;
        self.wire.out[from..from + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Adds the preparation of a statement under a name.
    pub fn prepare(&mut self, name: &str, sql: &str) {
        self.message(b'P', |out| {
            [name, sql].into_iter().for_each(|text| cstr(out, text));
            // Types of parameters follow from the statement.
            out.extend([0, 0]);
        });
    }

    /// Adds a run of a prepared statement; all values are in binary form.
    pub fn run<V: Bind + Copy>(&mut self, name: &str, values: &[V]) {
        self.run_with(name, values.iter().copied(), 0);
    }

    /// Adds a run of a prepared statement before everything that was added and not sent.
    pub fn run_first(&mut self, name: &str) {
        let waiting = self.wire.out.len();
        self.run::<&[u8]>(name, &[]);
        self.wire.out.rotate_left(waiting);
    }

    /// As [`Connection::run`], for at most so many rows, or all with 0; the server knows no more than 65,535 values.
    pub fn run_with(&mut self, name: &str, values: impl ExactSizeIterator<Item = impl Bind>, rows: u32) {
        self.message(b'B', |out| {
            ["", name].into_iter().for_each(|text| cstr(out, text));
            out.extend([0, 1, 0, 1]);
            out.extend((values.len() as u16).to_be_bytes());
            values.for_each(|value| value.write(out));
            out.extend([0, 1, 0, 1]);
        });
        // The unnamed portal.
        self.message(b'E', |out| {
            out.push(0);
            out.extend(rows.to_be_bytes());
        });
    }

    /// Whether the connection has failed.
    pub const fn is_broken(&self) -> bool {
        self.wire.is_broken()
    }

    /// How many bytes were added and not sent.
    pub const fn waiting(&self) -> usize {
        self.wire.out.len()
    }

    /// Removes what was added and not sent.
    pub fn discard(&mut self) {
        self.wire.out.clear();
    }

    /// Sends everything that was added, and reads the answers: rows go to `row`.
    ///
    /// # Errors
    /// The first error of the server, which has skipped all that follows.
    pub fn exchange(&mut self, row: impl FnMut(&[u8])) -> Result<Answered, Failure> {
        self.message(b'S', |_| {});
        self.finish(row)
    }

    /// Sends everything that was added; the answers are read before those of the next exchange, and an error in them is that
    /// exchange's.
    ///
    /// # Errors
    /// Where the connection fails.
    pub fn exchange_later(&mut self) -> Result<(), Failure> {
        self.message(b'S', |_| {});
        self.wire.send()?;
        self.unread += 1;
        Ok(())
    }

    /// Gives the next answers together all the time that a reading may take, where that is limited.
    pub fn begin_reading(&mut self) {
        self.wire.begin_reading();
    }

    /// Runs statements without values, whose rows are text.
    ///
    /// # Errors
    /// The server's first error.
    pub fn query(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failure> {
        self.wire.begin_answer();
        self.message(b'Q', |out| cstr(out, sql));
        let mut rows = Vec::new();
        self.finish(|row| {
            let text = |value: Option<&[u8]>| value.map(|value| String::from_utf8_lossy(value).into_owned());
            rows.push(columns(row).map(text).collect());
        })?;
        Ok(rows)
    }

    fn finish(&mut self, mut row: impl FnMut(&[u8])) -> Result<Answered, Failure> {
        self.wire.send()?;
        let mut first = None;
        while self.unread > 0 {
            let earlier = self.answers(|_| {});
            first = first.or(earlier.err());
            self.unread -= 1;
        }
        let own = self.answers(&mut row);
        first.map_or(own, Err)
    }

    /// Reads the answers of one exchange.
    fn answers(&mut self, mut row: impl FnMut(&[u8])) -> Result<Answered, Failure> {
        let (mut answered, mut failed) = (Answered::default(), None);
        loop {
            let (tag, body) = match self.receive() {
                Ok(received) => received,
                // A server that ends says so first.
                Err(error) => return Err(failed.unwrap_or(error)),
            };
            let body = self.wire.at(body);
            match tag {
                b'D' => row(body.get(2..).unwrap_or_default()),
                b'E' => failed = failed.or_else(|| Some(error(body))),
                b'C' => answered.rolled_back |= body == b"ROLLBACK\0",
                b'Z' => return failed.map_or(Ok(answered), Err),
                b'G' | b'H' | b'W' => {
                    self.wire.break_off();
                    return Err(Failure::Protocol("it copies, which nobody asked for"));
                }
                // What was parsed and bound, descriptions, notices, parameters.
                _ => {}
            }
        }
    }

    /// The next message: its tag, and where its body is.
    fn receive(&mut self) -> Result<(u8, Range<usize>), Failure> {
        self.wire.fill(5)?;
        let head = self.wire.received();
        let (tag, length) = (head[0], u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize);
        if !(4..=LONGEST).contains(&length) {
            self.wire.break_off();
            return Err(Failure::Protocol("a message of an impossible length"));
        }
        self.wire.fill(1 + length)?;
        let message = self.wire.take(1 + length);
        Ok((tag, message.start + 5..message.end))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The server ends the session also where this does not reach it.
        self.wire.out.clear();
        self.message(b'X', |_| {});
        let _ = self.wire.send();
    }
}

/// The columns of a row; `None` for NULL.
pub fn columns(mut row: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        let (head, rest) = row.split_first_chunk::<4>()?;
        let length = i32::from_be_bytes(*head);
        let Ok(length) = usize::try_from(length) else {
            row = rest;
            return Some(None);
        };
        let (value, rest) = rest.split_at_checked(length)?;
        row = rest;
        Some(Some(value))
    })
}

/// The answer to a request for a password with this salt.
fn hashed(user: &str, password: &str, salt: &[u8]) -> String {
    let stored = format!("{:x}", md5::compute([password.as_bytes(), user.as_bytes()].concat()));
    format!("md5{:x}", md5::compute([stored.as_bytes(), salt].concat()))
}

fn cstr(out: &mut Vec<u8>, text: &str) {
    // The protocol cannot carry a zero byte, and no text of ours has one.
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

/// The server's error.
fn error(body: &[u8]) -> Failure {
    let fields = body.split(|byte| *byte == 0).filter_map(|field| Some((*field.first()?, field.get(1..)?)));
    let (mut code, mut message) = (String::new(), String::new());
    for (kind, text) in fields {
        let text = || String::from_utf8_lossy(text).into_owned();
        match kind {
            b'C' => code = text(),
            b'M' => message = text(),
            _ => {}
        }
    }
    Failure::Server { code, message }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    /// A connection to what answers so.
    fn opened(answers: [Vec<u8>; 2]) -> Result<Connection, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                let _ = stream.read(&mut [0; 1_000]);
                let _ = stream.write_all(&answer);
            }
        });
        Connection::open(&Address::parse(&format!("postgresql://a:p@127.0.0.1:{port}/b")).unwrap(), "test", None)
    }

    /// A connection to what logs clients in as the process 7, and answers statements in the process of this number.
    fn answered_by(process: &'static str) -> Connection {
        let row = [&[0, 1][..], &(process.len() as u32).to_be_bytes(), process.as_bytes()].concat();
        let login = [message(b'R', &[0; 4]), message(b'K', &[0, 0, 0, 7, 1, 2, 3, 4]), message(b'Z', b"I")];
        let answer = [message(b'D', &row), message(b'C', b"SELECT 1\0"), message(b'Z', b"I")];
        opened([login.concat(), answer.concat()]).unwrap()
    }

    /// Of a pooler that gives each transaction a session, some were without `synchronous_commit` and isolation level.
    #[test]
    fn pooler_is_known_by_the_number_of_the_process() {
        assert!(answered_by("7").set_up("SET a = 1").is_ok());
        for other in ["8", "x"] {
            assert!(matches!(answered_by(other).set_up("SET a = 1"), Err(Failure::Pooler)), "{other}");
        }
    }

    #[test]
    fn password_is_hashed_with_the_salt() {
        let hash = hashed("md5_user", "password", &[0x2a, 0x3d, 0x8f, 0xe0]);
        assert_eq!(hash, "md562af4dd09bbb41884907a838a3233294");
    }

    /// What answers in the server's place may know only the user's name.
    #[test]
    fn server_that_logs_in_without_its_proof_is_refused() {
        let said = [message(b'R', &[0, 0, 0, 10]), message(b'R', &[0; 4]), message(b'Z', b"I")];
        let Err(Failure::Login(why)) = opened([said.concat(), Vec::new()]) else { panic!("it is not refused") };
        assert_eq!(why, "the server did not prove that it knows the password");
    }

    #[test]
    fn columns_of_rows_are_read_and_truncated_rows_end() {
        let row = [0, 0, 0, 2, b'a', b'b', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        let found: Vec<Option<&[u8]>> = columns(&row).collect();
        assert_eq!(found, [Some(&b"ab"[..]), None, Some(&b""[..])]);
        for length in 0..row.len() {
            assert!(columns(&row[..length]).count() <= 3);
        }
    }

    #[test]
    fn error_of_the_server_has_its_code_and_text() {
        let failure = error(b"SERROR\0C40001\0Mcould not serialize\0\0");
        assert_eq!(failure.to_string(), "could not serialize (SQLSTATE 40001)");
        assert_eq!(error(b"").to_string(), " (SQLSTATE )");
    }
}
