//! `serverStatus` of MongoDB: one command by `OP_MSG`, whose answer is a document in BSON.
//!
//! The server counts the command of each reading itself. Those of earlier readings, of the greeting and of the login are subtracted,
//! and so is the connection.

use std::collections::BTreeMap;

use prony_model::reading::Why;
use prony_model::service::{MONGODB_ACTIVE, MONGODB_COMMANDS, MONGODB_CONNECTIONS, MONGODB_OPERATIONS};
use prony_servers::mongodb::{Address, Connection, Failure, bson};

use crate::{LIMIT, Numbers, READER, Source, chosen, no_answer, no_connection, without};

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
    address: String,
    names: Vec<String>,
    open: Option<Connection>,
    /// Connections that were made.
    connections: u64,
}

impl Mongodb {
    pub(crate) fn new(address: &str, names: Vec<String>) -> Self {
        Self { address: address.to_owned(), names, open: None, connections: 0 }
    }

    /// The numbers, the number of the server's process, and the commands before this one on its connection.
    fn status(&mut self) -> Result<(BTreeMap<String, f64>, f64, u32), String> {
        let open = match &mut self.open {
            Some(open) => {
                open.begin_reading();
                open
            }
            None => {
                let address = Address::parse(&self.address)?;
                self.connections += 1;
                let open = Connection::open(&address, "admin", READER, Some(LIMIT));
                self.open.insert(open.map_err(|failure| no_connection(reason(failure, "the login")))?)
            }
        };
        let before = open.commands();
        let status = open.ask_admin(|command| command.int32("serverStatus", 1));
        let (values, process) = fields(status.map_err(|failure| reason(failure, "`serverStatus`"))?);
        Ok((values, process, before))
    }
}

/// Why there is no answer; `what` was asked for.
fn reason(failure: Failure, what: &str) -> String {
    match failure {
        Failure::Io(error) => no_answer(&error),
        Failure::Server { text, .. } => format!("{what} failed: {text}"),
        failure => failure.to_string(),
    }
}

impl Source for Mongodb {
    fn read(&mut self) -> Result<Numbers, Why> {
        let read = self.status();
        if read.is_err() {
            // What is left of its answer would be taken for the next one.
            self.open = None;
        }
        let (values, process, own) = read.map_err(|why| Why::Failed(format!("MongoDB: {why}").into()))?;
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

/// The numbers of an answer, and the number of the server's process.
fn fields(status: &[u8]) -> (BTreeMap<String, f64>, f64) {
    let of = |(name, path): &(&str, &[&str])| Some(((*name).to_owned(), bson::number(status, path)?));
    let mut values: BTreeMap<String, f64> = PLACES.iter().filter_map(of).collect();
    let kinds: Option<Vec<f64>> = PLACES[..KINDS].iter().map(|(name, _)| values.get(*name).copied()).collect();
    values.extend(kinds.map(|kinds| (MONGODB_OPERATIONS.to_owned(), kinds.iter().sum())));
    (values, bson::number(status, &["pid"]).unwrap_or_default())
}

#[cfg(test)]
pub(crate) mod tests {
    use prony_model::service::{MONGODB_GAUGES, MONGODB_TOTALS};
    use prony_servers::mongodb::bson::Writer;
    use prony_servers::mongodb::message;

    use super::*;

    /// An answer with this document.
    pub(crate) fn answer(document: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        message(&mut out, 7, "admin", document);
        out
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
    fn numbers_of_an_answer_are_found() {
        let mut status_document = Vec::new();
        bson::write(&mut status_document, status(2, 4));
        let (values, process) = fields(&status_document);
        assert_eq!(
            (values[MONGODB_OPERATIONS], values["inserts"], values["connections"], process),
            (12.0, 2.0, 4.0, 5.0)
        );
        assert!(!values.contains_key("write_conflicts"), "what the server does not have is missing");
    }

    #[test]
    fn refusal_is_a_reason() {
        let refused = Failure::Server { code: 0, text: "no reason is given".to_owned() };
        assert_eq!(reason(refused, "`serverStatus`"), "`serverStatus` failed: no reason is given");
    }
}
