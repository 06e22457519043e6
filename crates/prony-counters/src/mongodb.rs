//! `serverStatus` of MongoDB: one command by `OP_MSG`, whose answer is a document in BSON.
//!
//! The server counts the command of each reading itself. Those of earlier readings are subtracted, and so is the connection.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use prony_model::reading::Why;
use prony_model::service::{MONGODB_ACTIVE, MONGODB_COMMANDS, MONGODB_CONNECTIONS, MONGODB_OPERATIONS};

use crate::bson;
use crate::http::{connected, received};
use crate::{DEADLINE, LONGEST, Numbers, Source, chosen, without};

/// Where each number is in the answer; [`MONGODB_OPERATIONS`] is a sum.
const PLACES: [(&str, &[&str]); 21] = [
    ("inserts", &["opcounters", "insert"]),
    ("queries", &["opcounters", "query"]),
    ("updates", &["opcounters", "update"]),
    ("deletes", &["opcounters", "delete"]),
    ("getmores", &["opcounters", "getmore"]),
    (MONGODB_COMMANDS, &["opcounters", "command"]),
    ("documents_inserted", &["metrics", "document", "inserted"]),
    ("documents_returned", &["metrics", "document", "returned"]),
    ("documents_updated", &["metrics", "document", "updated"]),
    ("documents_deleted", &["metrics", "document", "deleted"]),
    ("write_conflicts", &["metrics", "operation", "writeConflicts"]),
    ("transactions_started", &["transactions", "totalStarted"]),
    ("transactions_committed", &["transactions", "totalCommitted"]),
    ("transactions_aborted", &["transactions", "totalAborted"]),
    ("cache_read_bytes", &["wiredTiger", "cache", "bytes read into cache"]),
    ("cache_written_bytes", &["wiredTiger", "cache", "bytes written from cache"]),
    (MONGODB_CONNECTIONS, &["connections", "current"]),
    (MONGODB_ACTIVE, &["connections", "active"]),
    ("transactions_open", &["transactions", "currentOpen"]),
    ("cache_bytes", &["wiredTiger", "cache", "bytes currently in the cache"]),
    ("cache_dirty_bytes", &["wiredTiger", "cache", "tracked dirty bytes in the cache"]),
];

/// How many of them, from the first one on, are operations.
const KINDS: usize = 6;

/// The opcode of `OP_MSG`, the only one since MongoDB 5.1.
const OP_MSG: u32 = 2013;

/// Bytes before the document: a header of four numbers, the flags, and the kind of the section.
const BEFORE: usize = 21;

/// A server at an address, to which one connection stays open.
pub(crate) struct Mongodb {
    address: String,
    names: Vec<String>,
    open: Option<Open>,
    /// Connections that were made.
    connections: u64,
}

struct Open {
    stream: TcpStream,
    /// Commands that were sent on it.
    commands: u32,
}

impl Mongodb {
    pub(crate) fn new(address: &str, names: Vec<String>) -> Self {
        let address = address.strip_prefix("mongodb://").unwrap_or(address).trim_end_matches('/');
        Self { address: address.to_owned(), names, open: None, connections: 0 }
    }

    /// The answer, and the commands before it on its connection.
    fn status(&mut self) -> Result<(Vec<u8>, u32), String> {
        if self.address.contains(['@', '/']) {
            return Err("a URL with a login, a database or options is not supported: write `HOST:PORT`".to_owned());
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let stream = connected(&self.address)?;
                self.connections += 1;
                self.open.insert(Open { stream, commands: 0 })
            }
        };
        let before = open.commands;
        Ok((open.ask()?, before))
    }
}

impl Open {
    fn ask(&mut self) -> Result<Vec<u8>, String> {
        self.commands += 1;
        self.stream.write_all(&command(self.commands)).map_err(|error| error.to_string())?;
        let until = Instant::now() + DEADLINE;
        let mut answer: Vec<u8> = Vec::new();
        loop {
            if let Some(document) = document(&answer)? {
                return Ok(document.to_vec());
            }
            answer.extend(received(&mut self.stream, until)?.ok_or("the connection was closed before a whole answer")?);
        }
    }
}

impl Source for Mongodb {
    fn read(&mut self) -> Result<Numbers, Why> {
        let read = self.status().and_then(|(document, own)| Ok((fields(&document)?, own)));
        if read.is_err() {
            // What is left of its answer would be taken for the next one.
            self.open = None;
        }
        let ((values, process), own) = read.map_err(|why| Why::Failed(format!("MongoDB: {why}").into()))?;
        let since = format!("process {process} by connection {}", self.connections);
        let mut numbers = chosen(&self.names, &values, &since, "`serverStatus`");
        let own = f64::from(own);
        without(
            &mut numbers,
            &[(MONGODB_OPERATIONS, own), (MONGODB_COMMANDS, own)],
            &[MONGODB_CONNECTIONS, MONGODB_ACTIVE],
        );
        Ok(numbers)
    }
}

/// The command, as the message of this number.
fn command(number: u32) -> Vec<u8> {
    let mut body = vec![0x10];
    body.extend(b"serverStatus\0");
    body.extend(1_u32.to_le_bytes());
    body.push(0x02);
    body.extend(b"$db\0");
    body.extend(6_u32.to_le_bytes());
    body.extend(b"admin\0\0");
    let length = (BEFORE + 4 + body.len()) as u32;
    let mut message = Vec::new();
    for word in [length, number, 0, OP_MSG, 0] {
        message.extend(word.to_le_bytes());
    }
    message.push(0);
    message.extend((4 + body.len() as u32).to_le_bytes());
    message.extend(body);
    message
}

/// The document of an answer once all of it is there.
fn document(answer: &[u8]) -> Result<Option<&[u8]>, String> {
    let word = |at: usize| Some(u32::from_le_bytes(*answer.get(at..)?.first_chunk()?) as usize);
    let (Some(length), Some(opcode)) = (word(0), word(12)) else { return Ok(None) };
    if opcode != OP_MSG as usize || !(BEFORE + 5..=LONGEST).contains(&length) {
        return Err("the answer is not of MongoDB".to_owned());
    }
    let Some(message) = answer.get(..length) else { return Ok(None) };
    // A checksum may follow, which nothing asked for.
    bson::document(&message[BEFORE..]).map(Some).ok_or_else(|| "the answer is not of MongoDB".to_owned())
}

/// The numbers of an answer, and the number of the server's process.
fn fields(status: &[u8]) -> Result<(BTreeMap<String, f64>, f64), String> {
    if bson::number(status, &["ok"]) != Some(1.0) {
        let text = bson::text(status, "errmsg").unwrap_or("no reason is given");
        return Err(format!("`serverStatus` failed: {text}"));
    }
    let of = |(name, path): &(&str, &[&str])| Some(((*name).to_owned(), bson::number(status, path)?));
    let mut values: BTreeMap<String, f64> = PLACES.iter().filter_map(of).collect();
    let kinds: Option<Vec<f64>> = PLACES[..KINDS].iter().map(|(name, _)| values.get(*name).copied()).collect();
    values.extend(kinds.map(|kinds| (MONGODB_OPERATIONS.to_owned(), kinds.iter().sum())));
    Ok((values, bson::number(status, &["pid"]).unwrap_or_default()))
}

#[cfg(test)]
pub(crate) mod tests {
    use prony_model::service::{MONGODB_GAUGES, MONGODB_TOTALS};

    use super::*;
    use crate::bson::tests::{int, nested};

    /// An answer with this document.
    pub(crate) fn answer(document: &[u8]) -> Vec<u8> {
        let mut message: Vec<u8> = Vec::new();
        for word in [(BEFORE + document.len()) as u32, 7, 1, OP_MSG, 0] {
            message.extend(word.to_le_bytes());
        }
        message.push(0);
        message.extend(document);
        message
    }

    /// A status with so many operations of each kind and connections.
    pub(crate) fn status(operations: i32, connections: i32) -> Vec<u8> {
        let kinds: Vec<Vec<u8>> = PLACES[..KINDS].iter().map(|(_, path)| int(path[1], operations)).collect();
        nested(
            "",
            &[
                int("pid", 5),
                nested("opcounters", &kinds),
                nested("connections", &[int("current", connections)]),
                int("ok", 1),
            ],
        )
    }

    #[test]
    fn each_name_has_its_place() {
        let mut known: Vec<&str> = MONGODB_TOTALS.into_iter().chain(MONGODB_GAUGES).collect();
        let mut placed: Vec<&str> = PLACES.iter().map(|(name, _)| *name).chain([MONGODB_OPERATIONS]).collect();
        known.sort_unstable();
        placed.sort_unstable();
        assert_eq!(known, placed);
    }

    #[test]
    fn command_is_a_message_with_one_document() {
        let message = command(3);
        assert_eq!(document(&message).unwrap(), Some(&message[BEFORE..]));
        assert_eq!(bson::number(&message[BEFORE..], &["serverStatus"]), Some(1.0));
        assert_eq!(bson::text(&message[BEFORE..], "$db"), Some("admin"));
    }

    #[test]
    fn answers_are_read_when_they_are_whole() {
        let all = answer(&status(2, 4));
        for length in 0..all.len() {
            assert_eq!(document(&all[..length]), Ok(None), "{length}");
        }
        let (values, process) = fields(document(&all).unwrap().unwrap()).unwrap();
        assert_eq!(
            (values[MONGODB_OPERATIONS], values["inserts"], values["connections"], process),
            (12.0, 2.0, 4.0, 5.0)
        );
        assert!(!values.contains_key("write_conflicts"), "what the server does not have is missing");
        for garbage in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &[0; 40], &answer(&[9, 0, 0, 0, 0])] {
            assert!(document(garbage).is_err(), "{garbage:?}");
        }
        let refused = nested("", &[int("ok", 0), int("code", 13)]);
        assert_eq!(fields(&refused).unwrap_err(), "`serverStatus` failed: no reason is given");
    }
}
