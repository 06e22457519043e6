//! `serverStatus` of MongoDB: one command by `OP_MSG`, whose answer is a document in BSON.
//!
//! The server counts the command of each reading itself. Those of earlier readings and of the login are subtracted, and so is the
//! connection.

use std::collections::BTreeMap;
use std::net::TcpStream;

use prony_model::reading::Why;
use prony_model::service::{MONGODB_ACTIVE, MONGODB_COMMANDS, MONGODB_CONNECTIONS, MONGODB_OPERATIONS};
use prony_mongodb::bson::{self, Writer};
use prony_mongodb::{Address, Credentials, Login};

use crate::http::{answer, connected};
use crate::{LONGEST, Numbers, Source, chosen, without};

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

/// A server at an address, to which one connection stays open.
pub(crate) struct Mongodb {
    /// Where the server is; or what is wrong with the address.
    address: Result<Address, &'static str>,
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
        Self { address: Address::parse(address), names, open: None, connections: 0 }
    }

    /// The answer, and the commands before it on its connection.
    fn status(&mut self) -> Result<(Vec<u8>, u32), String> {
        let address = self.address.as_ref().map_err(|fault| (*fault).to_owned())?;
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let stream = connected(&address.place)?;
                self.connections += 1;
                let open = self.open.insert(Open { stream, commands: 0 });
                address.login.as_ref().map_or(Ok(()), |login| open.log_in(login))?;
                open
            }
        };
        let before = open.commands;
        Ok((open.ask("admin", |command| command.int32("serverStatus", 1))?, before))
    }
}

impl Open {
    fn log_in(&mut self, of: &Credentials) -> Result<(), String> {
        let answer = self.ask("admin", |command| {
            command.int32("isMaster", 1);
            prony_mongodb::ask_mechanisms(of, command);
        })?;
        let mut login = Login::begin(of, &answer)?;
        loop {
            let answer = self.ask(login.source(), |command| login.write(command))?;
            is_ok(&answer).map_err(|why| format!("the login failed: {why}"))?;
            if login.answered(&answer)? {
                return Ok(());
            }
        }
    }

    /// The answer to a command on a database.
    fn ask(&mut self, database: &str, command: impl FnOnce(&mut Writer<'_>)) -> Result<Vec<u8>, String> {
        self.commands += 1;
        let mut message = Vec::new();
        prony_mongodb::message(&mut message, self.commands, database, command);
        answer(&mut self.stream, &message, |answer| Ok(document(answer)?.map(<[u8]>::to_vec)))
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

/// The document of an answer once all of it is there.
fn document(answer: &[u8]) -> Result<Option<&[u8]>, String> {
    let length = prony_mongodb::length(answer).map_err(|error| error.to_string())?;
    match length {
        Some(length) if length > LONGEST => Err(format!("the answer has more than {LONGEST} bytes")),
        Some(length) => {
            let whole = answer.get(..length).map(prony_mongodb::document).transpose();
            whole.map_err(|error| error.to_string())
        }
        None => Ok(None),
    }
}

/// The numbers of an answer, and the number of the server's process.
fn fields(status: &[u8]) -> Result<(BTreeMap<String, f64>, f64), String> {
    is_ok(status).map_err(|why| format!("`serverStatus` failed: {why}"))?;
    let of = |(name, path): &(&str, &[&str])| Some(((*name).to_owned(), bson::number(status, path)?));
    let mut values: BTreeMap<String, f64> = PLACES.iter().filter_map(of).collect();
    let kinds: Option<Vec<f64>> = PLACES[..KINDS].iter().map(|(name, _)| values.get(*name).copied()).collect();
    values.extend(kinds.map(|kinds| (MONGODB_OPERATIONS.to_owned(), kinds.iter().sum())));
    Ok((values, bson::number(status, &["pid"]).unwrap_or_default()))
}

/// The server's reason where it has refused a command.
fn is_ok(answer: &[u8]) -> Result<(), &str> {
    let is_ok = bson::number(answer, &["ok"]) == Some(1.0);
    if is_ok { Ok(()) } else { Err(bson::text(answer, "errmsg").unwrap_or("no reason is given")) }
}

#[cfg(test)]
pub(crate) mod tests {
    use prony_model::service::{MONGODB_GAUGES, MONGODB_TOTALS};
    use prony_mongodb::bson::Writer;

    use super::*;
    /// An answer with this document.
    pub(crate) fn answer(document: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut message = Vec::new();
        prony_mongodb::message(&mut message, 7, "admin", document);
        message
    }

    /// A status with so many operations of each kind and connections.
    pub(crate) fn status(operations: i32, connections: i32) -> impl Fn(&mut Writer<'_>) {
        move |status| {
            status.int32("pid", 5);
            status.document("opcounters", |kinds| {
                PLACES[..KINDS].iter().for_each(|(_, path)| kinds.int32(path[1], operations));
            });
            status.document("connections", |of| of.int32("current", connections));
            status.int32("ok", 1);
        }
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
    fn answers_are_read_when_they_are_whole() {
        let all = answer(status(2, 4));
        for length in 0..all.len() {
            assert_eq!(document(&all[..length]), Ok(None), "{length}");
        }
        let (values, process) = fields(document(&all).unwrap().unwrap()).unwrap();
        assert_eq!(
            (values[MONGODB_OPERATIONS], values["inserts"], values["connections"], process),
            (12.0, 2.0, 4.0, 5.0)
        );
        assert!(!values.contains_key("write_conflicts"), "what the server does not have is missing");
        assert!(document(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        let refused = answer(|refused| refused.int32("ok", 0));
        let refused = fields(document(&refused).unwrap().unwrap());
        assert_eq!(refused.unwrap_err(), "`serverStatus` failed: no reason is given");
    }
}
