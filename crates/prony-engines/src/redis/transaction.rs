//! A write transaction: what it writes is collected, and sent with its commit in one round trip, or before when there is much.
//!
//! Writes of one kind after each other are one command of as many keys, which takes the server two thirds of the time of a
//! command for each of them. A transaction that is one command needs no more: the server runs one after the other. Others are
//! between `MULTI` and `EXEC`; the server queues their commands until `EXEC`.

use prony_servers::redis::{Connection, Failure, Reply, begin, push, push_word};

use super::{ENGINE, database, while_};
use crate::driver::{EngineError, Read, Then, Write};
use crate::failure::{OWN_WRITES, failed, unsupported};

/// Bytes of writes that are collected before they are sent.
const COLLECTED: usize = 256 << 10;

/// Writes of one transaction.
pub struct RedisWrite<'t> {
    connection: &'t mut Connection,
    /// The writes of one kind that were added last.
    run: Run,
    /// Commands before these that were added and not sent.
    commands: usize,
    /// `MULTI` was sent, and no end.
    open: bool,
    failed: bool,
}

/// Writes of one kind.
#[derive(Clone, Copy)]
struct Run {
    kind: Kind,
    writes: usize,
    /// Where its command begins: with the head of a single write.
    at: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Put,
    Delete,
}

impl Kind {
    /// The beginning of the command for a single write.
    const fn single(self) -> &'static [u8] {
        match self {
            Self::Put => b"*3\r\n$3\r\nSET\r\n",
            Self::Delete => b"*2\r\n$3\r\nDEL\r\n",
        }
    }

    /// The beginning of the command for several.
    fn several(self, writes: usize) -> Vec<u8> {
        let (name, words): (&[u8], usize) = match self {
            Self::Put => (b"MSET", 2),
            Self::Delete => (b"DEL", 1),
        };
        let mut head = Vec::new();
        begin(&mut head, 1 + words * writes);
        push_word(&mut head, name);
        head
    }
}

impl<'t> RedisWrite<'t> {
    #[inline]
    pub(super) const fn begin(connection: &'t mut Connection) -> Self {
        let run = Run { kind: Kind::Put, writes: 0, at: 0 };
        Self { connection, run, commands: 0, open: false, failed: false }
    }

    /// Adds a write of these words.
    #[inline]
    fn write(&mut self, (kind, doing): (Kind, &'static str), words: &[&[u8]]) -> Result<(), EngineError> {
        if words[0] == database::KEY {
            return Err(failed(ENGINE, doing, "the key `prony_store` is prony's own mark: no record may have it"));
        }
        let bytes: usize = words.iter().map(|word| word.len()).sum();
        let waiting = self.connection.out().len();
        // The first write waits for the commit, however long it is: it may be the only one.
        if waiting > 0 && waiting + bytes > COLLECTED {
            self.queue().map_err(while_(doing))?;
        }
        if self.run.kind != kind || self.run.writes == 0 {
            self.end_run();
            let out = self.connection.out();
            self.run = Run { kind, writes: 0, at: out.len() };
            out.extend_from_slice(kind.single());
        }
        let out = self.connection.out();
        words.iter().for_each(|word| push_word(out, word));
        self.run.writes += 1;
        Ok(())
    }

    /// Makes a command of the writes that were added last.
    fn end_run(&mut self) {
        let Run { kind, writes, at } = self.run;
        if writes > 1 {
            self.connection.out().splice(at..at + kind.single().len(), kind.several(writes));
        }
        self.commands += usize::from(writes > 0);
        self.run.writes = 0;
    }

    /// Puts `MULTI` before what was added unless it was sent; how many answers there will be so far.
    fn answers(&mut self) -> usize {
        let mut answers = std::mem::take(&mut self.commands);
        if !std::mem::replace(&mut self.open, true) {
            let mut multi = Vec::new();
            push(&mut multi, &[b"MULTI"]);
            self.connection.out().splice(..0, multi);
            answers += 1;
        }
        answers
    }

    /// Sends what was added, which the server queues.
    fn queue(&mut self) -> Result<(), Failure> {
        self.end_run();
        let answers = self.answers();
        let queued = self.connection.send().and_then(|()| self.connection.replies(answers));
        self.failed |= queued.is_err();
        queued
    }

    /// Sends the rest and the end.
    fn execute(&mut self) -> Result<(), Failure> {
        let answers = self.answers();
        self.open = false;
        self.connection.add(&[b"EXEC"]);
        self.connection.send()?;
        let queued = self.connection.replies(answers);
        if matches!(queued, Err(Failure::Io(_) | Failure::Protocol(_))) {
            return queued;
        }
        // Where a command was not queued, the answer to the end is an error that says no more.
        match self.connection.reply() {
            Ok(Reply::Array(Some(items))) => queued.and(self.connection.replies(items)),
            Ok(_) => queued.and(Err(Failure::Protocol("no answers of a transaction"))),
            Err(error) => queued.and(Err(error)),
        }
    }

    /// Discards what was added, and on the server what was queued.
    fn roll_back(&mut self) -> Result<(), Failure> {
        self.connection.out().clear();
        (self.run.writes, self.commands) = (0, 0);
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        self.connection.add(&[b"DISCARD"]);
        self.connection.send()?;
        self.connection.replies(1)
    }
}

impl Drop for RedisWrite<'_> {
    fn drop(&mut self) {
        // No caller is left to report an error to; after one of the connection nothing more is sent on it.
        let _ = self.roll_back();
    }
}

impl Read for RedisWrite<'_> {
    fn get(&mut self, _: &[u8], _: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        Err(unsupported(ENGINE, OWN_WRITES))
    }

    fn scan(&mut self, _: &[u8], _: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        Err(unsupported(ENGINE, OWN_WRITES))
    }

    fn finish(mut self) -> Result<(), EngineError> {
        self.roll_back().map_err(while_("discarding a transaction"))
    }
}

impl Write for RedisWrite<'_> {
    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.write((Kind::Put, "storing a value"), &[key, value])
    }

    #[inline]
    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        self.write((Kind::Delete, "removing a value"), &[key]).map(|()| true)
    }

    #[inline]
    fn commit(mut self) -> Result<(), EngineError> {
        if self.failed {
            self.roll_back().map_err(while_("discarding a transaction"))?;
            return Err(failed(ENGINE, "committing", "the transaction has failed before"));
        }
        self.end_run();
        let ended = match (self.commands, self.open) {
            (0, false) => Ok(()),
            (1, false) => {
                self.commands = 0;
                self.connection.send().and_then(|()| self.connection.replies(1))
            }
            _ => self.execute(),
        };
        ended.map_err(while_("committing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_of_several_writes_begins_as_that_of_a_single_one() {
        let of = |words: &[&[u8]]| {
            let mut out = Vec::new();
            push(&mut out, words);
            out
        };
        assert!(of(&[b"SET", b"k", b"v"]).starts_with(Kind::Put.single()));
        assert!(of(&[b"DEL", b"k"]).starts_with(Kind::Delete.single()));
        assert!(of(&[b"MSET", b"k", b"v", b"k", b"v"]).starts_with(&Kind::Put.several(2)));
        assert!(of(&[b"DEL", b"k", b"k", b"k"]).starts_with(&Kind::Delete.several(3)));
    }
}
