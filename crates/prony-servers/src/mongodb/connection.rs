//! A blocking connection to a server of MongoDB.
//!
//! Commands are collected and sent together; each has one answer, in their order. An answer is read where it was received,
//! without a copy.

use std::io;
use std::ops::Range;

use super::Address;
use super::bson::{self, Value, Writer};
use super::login::{Login, ask_mechanisms};
use super::message::{self, Malformed};
use crate::scram::Fault;
use crate::wire::{Limit, Wire};

/// Why something was not answered.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The connection.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// Bytes that are no answer.
    #[error("{0}")]
    Protocol(#[from] Malformed),
    /// The login, for a reason that the server does not give.
    #[error("{0}")]
    Login(Fault),
    /// The server's error.
    #[error("{text} (error {code})")]
    Server {
        /// Its number.
        code: i64,
        /// Its text.
        text: String,
    },
}

/// A connection.
pub struct Connection {
    wire: Wire,
    database: String,
    /// Commands that were added.
    commands: u32,
    /// Commands that were added and not answered.
    unanswered: usize,
}

impl Connection {
    /// Connects, gives the server the `name` of the program under which its list of operations shows it, and logs in.
    ///
    /// # Errors
    /// Where the server cannot be reached or refuses it.
    pub fn open(address: &Address, database: &str, name: &str, limit: Option<Limit>) -> Result<Self, Failure> {
        let wire = Wire::tcp(address.place.as_str(), limit)?;
        let mut open = Self { wire, database: database.to_owned(), commands: 0, unanswered: 0 };
        let login = address.login.as_ref();
        let answer = open.ask(|command| {
            command.int32("isMaster", 1);
            login.into_iter().for_each(|login| ask_mechanisms(login, command));
            command.document("client", |client| {
                client.document("application", |application| application.text("name", name));
                client.document("driver", |driver| {
                    driver.text("name", "prony-servers");
                    driver.text("version", env!("CARGO_PKG_VERSION"));
                });
                client.document("os", |os| os.text("type", "Linux"));
            });
        })?;
        if let Some(login) = login {
            let login = Login::begin(login, answer).map_err(Failure::Login)?;
            open.log_in(login)?;
        }
        Ok(open)
    }

    fn log_in(&mut self, mut login: Login) -> Result<(), Failure> {
        loop {
            let source = login.source().to_owned();
            let answer = self.ask_on(&source, |command| login.write(command))?;
            if login.answered(answer).map_err(Failure::Login)? {
                return Ok(());
            }
        }
    }

    /// Adds a command on the database.
    #[inline]
    pub fn add(&mut self, command: impl FnOnce(&mut Writer<'_>)) {
        self.commands = self.commands.wrapping_add(1);
        message::message(&mut self.wire.out, self.commands, &self.database, command);
        self.unanswered += 1;
    }

    /// Gives the next answers together all the time that a reading may take, where that is limited.
    pub fn begin_reading(&mut self) {
        self.wire.begin_reading();
    }

    /// Sends one command on the database `admin`, which those about the whole server need; its answer.
    ///
    /// # Errors
    /// The server's, and those of the connection.
    pub fn ask_admin(&mut self, command: impl FnOnce(&mut Writer<'_>)) -> Result<&[u8], Failure> {
        self.ask_on("admin", command)
    }

    fn ask_on(&mut self, database: &str, command: impl FnOnce(&mut Writer<'_>)) -> Result<&[u8], Failure> {
        self.commands = self.commands.wrapping_add(1);
        message::message(&mut self.wire.out, self.commands, database, command);
        self.unanswered += 1;
        self.wire.begin_answer();
        self.send()?;
        self.answer()
    }

    /// How many commands were added, those of the login among them.
    pub const fn commands(&self) -> u32 {
        self.commands
    }

    /// How many commands were added and not answered.
    pub const fn waiting(&self) -> usize {
        self.unanswered
    }

    /// Bytes that were added and not sent.
    pub fn bytes(&self) -> usize {
        self.wire.out.len()
    }

    /// Removes the commands that were added and not sent.
    pub fn discard(&mut self) {
        self.wire.out.clear();
        self.unanswered = 0;
    }

    /// Sends what was added.
    ///
    /// # Errors
    /// Where the connection fails.
    #[inline]
    pub fn send(&mut self) -> Result<(), Failure> {
        let sent = self.wire.send();
        if sent.is_err() {
            self.unanswered = 0;
        }
        Ok(sent?)
    }

    /// The next answer.
    ///
    /// # Errors
    /// The server's error, after which the next answer can be read; those of the connection, after which none can.
    #[inline]
    pub fn answer(&mut self) -> Result<&[u8], Failure> {
        self.unanswered = self.unanswered.saturating_sub(1);
        let range = self.received().inspect_err(|_| self.wire.break_off())?;
        let document = message::document(self.wire.at(range))?;
        match fault(document) {
            None => Ok(document),
            Some((code, text)) => Err(Failure::Server { code, text: text.to_owned() }),
        }
    }

    /// The next message, which has a document.
    fn received(&mut self) -> Result<Range<usize>, Failure> {
        let length = loop {
            match message::length(self.wire.received())? {
                Some(length) => break length,
                None => self.wire.fill(self.wire.received().len() + 1)?,
            }
        };
        self.wire.fill(length)?;
        let message = self.wire.take(length);
        message::document(self.wire.at(message.clone()))?;
        Ok(message)
    }

    /// Sends one command; its answer.
    ///
    /// # Errors
    /// The server's, and those of the connection.
    #[inline]
    pub fn ask(&mut self, command: impl FnOnce(&mut Writer<'_>)) -> Result<&[u8], Failure> {
        self.add(command);
        self.send()?;
        self.answer()
    }

    /// Sends what was added, and reads all answers.
    ///
    /// # Errors
    /// The first error, once all answers were read.
    #[inline]
    pub fn exchange(&mut self) -> Result<(), Failure> {
        self.send()?;
        let mut first = Ok(());
        while self.unanswered > 0 {
            match self.answer().map(drop) {
                Ok(()) => {}
                Err(error @ Failure::Server { .. }) => first = first.and(Err(error)),
                // What the server said before explains it.
                Err(error) => return first.and(Err(error)),
            }
        }
        first
    }
}

/// The number and the text of an error: of the command, of its first write that failed, or of what it had to wait for.
#[inline]
fn fault(document: &[u8]) -> Option<(i64, &str)> {
    let of = |error| {
        let code = bson::number(error, &["code"]).unwrap_or_default() as i64;
        (code, bson::text(error, "errmsg").unwrap_or("no reason is given"))
    };
    let mut is_ok = false;
    for field in bson::fields(document) {
        match field {
            Ok(("ok", Value::Double(1.0) | Value::Int(1) | Value::Bool(true))) => is_ok = true,
            Ok(("writeErrors", Value::Array(errors))) => {
                if let Some(Ok((_, Value::Document(error)))) = bson::fields(errors).next() {
                    return Some(of(error));
                }
            }
            Ok(("writeConcernError", Value::Document(error))) => return Some(of(error)),
            Ok(_) => {}
            Err(_) => return Some((0, "the answer is no document")),
        }
    }
    (!is_ok).then(|| of(document))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn message(fields: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        message::message(&mut out, 1, "d", fields);
        out
    }

    /// A connection to a server that answers the first command with `ok`, and the next bytes with these, a few at a time.
    fn answered(answer: Vec<u8>) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in [message(|ok| ok.double("ok", 1.0)), answer] {
                let _ = stream.read(&mut [0; 1_000]);
                for part in answer.chunks(7) {
                    let _ = stream.write_all(part);
                    thread::yield_now();
                }
            }
        });
        Connection::open(&Address { place, login: None, database: None }, "d", "test", None).unwrap()
    }

    #[test]
    fn first_error_of_several_is_found_and_all_are_read() {
        let ok = message(|ok| ok.int32("ok", 1));
        let error = |code: i32| {
            message(|fields| {
                fields.array("writeErrors", |errors| {
                    errors.document("0", |error| {
                        error.int32("code", code);
                        error.text("errmsg", "no");
                    });
                });
                fields.int32("ok", 1);
            })
        };
        let refused = message(|fields| fields.int32("ok", 0));
        let mut open = answered([ok, error(7), error(8), refused].concat());
        (0..3).for_each(|_| open.add(|command| command.int32("ping", 1)));
        assert!(matches!(open.exchange(), Err(Failure::Server { code: 7, text }) if text == "no"));
        assert!(matches!(open.answer(), Err(Failure::Server { text, .. }) if text == "no reason is given"));
    }

    #[test]
    fn what_a_write_had_to_wait_for_is_an_error_too() {
        let waited = message(|fields| {
            fields.document("writeConcernError", |error| error.int32("code", 64));
            fields.int32("ok", 1);
        });
        let mut open = answered(waited);
        assert!(matches!(open.ask(|command| command.int32("ping", 1)), Err(Failure::Server { code: 64, .. })));
    }

    #[test]
    fn connection_is_not_used_after_what_is_not_understood() {
        let mut open = answered(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
        assert!(matches!(open.ask(|command| command.int32("ping", 1)), Err(Failure::Protocol(_))));
        open.add(|command| command.int32("ping", 1));
        assert!(matches!(open.send(), Err(Failure::Io(_))), "the next answer would be that of another command");
        assert_eq!((open.waiting(), open.bytes()), (0, 0));
    }
}
