//! Sessions, and what is read and written in them.

use prony_model::spec::{Encoding, FieldValue};
use prony_servers::mongodb::Connection;
use prony_servers::mongodb::bson::{self, Value, Writer};
use prony_workload::decode;

use super::query::command;
use super::{ENGINE, MAX_KEY, MongodbStore, settings, values, while_};
use crate::documents::no_document;
use crate::driver::{EngineError, Read, Session, Then, Write};
use crate::failure::{OWN_WRITES, failed, unsupported};

/// Writes and their bytes that are collected before they are sent.
const COLLECTED: (usize, usize) = (1_000, 1 << 20);

/// A connection.
pub struct MongodbSession<'s> {
    connection: Connection,
    store: &'s MongodbStore,
    /// The key of the command that is written.
    key: String,
    /// What was read last.
    row: Row,
}

/// A record in the form in which it is handed out.
#[derive(Default)]
struct Row {
    key: Vec<u8>,
    json: Vec<u8>,
}

/// Reads of the present state.
pub struct MongodbRead<'t, 's>(&'t mut MongodbSession<'s>);

/// Writes that are collected, and sent at the commit or when there are many.
pub struct MongodbWrite<'t, 's> {
    session: &'t mut MongodbSession<'s>,
    failed: bool,
}

/// A stored document that prony has not written.
fn foreign(doing: &'static str) -> EngineError {
    failed(ENGINE, doing, "a document is not one that prony stores")
}

impl<'s> Session for MongodbSession<'s> {
    type Read<'t>
        = MongodbRead<'t, 's>
    where
        Self: 't;
    type Write<'t>
        = MongodbWrite<'t, 's>
    where
        Self: 't;

    fn read(&mut self) -> Result<MongodbRead<'_, 's>, EngineError> {
        Ok(MongodbRead(self))
    }

    fn write(&mut self) -> Result<MongodbWrite<'_, 's>, EngineError> {
        Ok(MongodbWrite { session: self, failed: false })
    }
}

impl<'s> MongodbSession<'s> {
    pub(super) fn new(connection: Connection, store: &'s MongodbStore) -> Self {
        Self { connection, store, key: String::new(), row: Row::default() }
    }

    /// Sends a command that was added, and hands the rows of its answer and of those that continue it to `row`. The keys begin
    /// with the byte of a table.
    fn rows(
        &mut self,
        table: (&str, Option<u8>),
        doing: &'static str,
        mut row: impl FnMut(&[u8], &[u8]) -> Then,
    ) -> Result<u64, EngineError> {
        let mut given = 0;
        loop {
            let Self { connection, row: found, .. } = self;
            connection.send().map_err(while_(doing))?;
            let answer = connection.answer().map_err(while_(doing))?;
            let (mut cursor, mut over) = (0, false);
            if let Some(Value::Document(of)) = bson::at(answer, &["cursor"]) {
                for field in bson::fields(of) {
                    match field.map_err(|error| failed(ENGINE, doing, error))? {
                        ("id", Value::Int(id)) => cursor = id,
                        ("firstBatch" | "nextBatch", Value::Array(batch)) => {
                            for document in bson::fields(batch) {
                                let (_, Value::Document(document)) =
                                    document.map_err(|error| failed(ENGINE, doing, error))?
                                else {
                                    return Err(foreign(doing));
                                };
                                let value = found.of(document, table.1).ok_or_else(|| foreign(doing))?;
                                given += 1;
                                if row(&found.key, value.unwrap_or(&found.json)).is_break() {
                                    over = true;
                                    break;
                                }
                            }
                        }
                        _ => {}
                    }
                }
            }
            if cursor == 0 {
                return Ok(given);
            }
            if over {
                connection.add(|command| {
                    command.text("killCursors", table.0);
                    command.array("cursors", |cursors| cursors.int64("0", cursor));
                });
                return connection.exchange().map(|()| given).map_err(while_(doing));
            }
            connection.add(|command| {
                command.int64("getMore", cursor);
                command.text("collection", table.0);
            });
        }
    }
}

impl Row {
    /// Reads key and value of a stored document; the value, where it is not JSON, which is in `json`.
    #[inline]
    fn of<'d>(&mut self, document: &'d [u8], byte: Option<u8>) -> Option<Option<&'d [u8]>> {
        let mut value = None;
        for field in bson::fields(document) {
            match field.ok()? {
                (values::KEY, Value::Text(key)) => {
                    values::key_bytes(key, &mut self.key)?;
                    if let Some(byte) = byte {
                        self.key.insert(0, byte);
                    }
                }
                (values::BYTES, Value::Binary(bytes)) => value = Some(Some(bytes)),
                (values::DOCUMENT, Value::Document(document)) => {
                    self.json.clear();
                    values::push_json(document, &mut self.json).ok()?;
                    value = Some(None);
                }
                _ => {}
            }
        }
        value
    }
}

impl Read for MongodbRead<'_, '_> {
    #[inline]
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        let session = &mut *self.0;
        let (_, name, key) = session.store.of(key)?;
        values::key_text(key, &mut session.key);
        session.connection.add(|command| {
            command.text("find", name);
            command.document("filter", |filter| filter.text(values::KEY, &session.key));
            command.int32("limit", 1);
            command.flag("singleBatch", true);
        });
        let rows = session.rows((name, None), "reading a value", |_, value| {
            found(value);
            Then::Continue(())
        })?;
        Ok(rows > 0)
    }

    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        self.scan_at_most(from, u64::MAX, row)
    }

    fn scan_at_most(
        &mut self,
        from: &[u8],
        rows: u64,
        row: impl FnMut(&[u8], &[u8]) -> Then,
    ) -> Result<(), EngineError> {
        let session = &mut *self.0;
        let (table, name, key) = session.store.of(from)?;
        values::key_text(key, &mut session.key);
        session.connection.add(|command| {
            command.text("find", name);
            command.document("filter", |filter| {
                filter.document(values::KEY, |key| key.text("$gte", &session.key));
            });
            command.document("sort", |sort| sort.int32(values::KEY, 1));
            if let Ok(rows) = i64::try_from(rows).map(|rows| rows.max(1)) {
                command.int64("limit", rows);
            }
        });
        session.rows((name, table.byte), "scanning", row).map(drop)
    }

    fn select(
        &mut self,
        _: &str,
        bound: &[FieldValue],
        row: impl FnMut(&[u8], &[u8]) -> Then,
    ) -> Result<u64, EngineError> {
        let (name, collection, write) = command(bound);
        let (connection, doing) = (&mut self.0.connection, "running a query");
        if name == "count" {
            let answer = connection.ask(write).map_err(while_(doing))?;
            let count = bson::number(answer, &["n"]);
            return count.map(|count| count as u64).ok_or_else(|| foreign(doing));
        }
        connection.add(write);
        self.0.rows((collection, None), doing, row)
    }
}

impl MongodbWrite<'_, '_> {
    /// Adds a write on the collection of a key; many are sent before the commit.
    #[inline]
    fn add(
        &mut self,
        key: &[u8],
        doing: &'static str,
        write: impl FnOnce(&mut Writer<'_>, &str, &str),
    ) -> Result<(), EngineError> {
        let session = &mut *self.session;
        let (_, name, key) = session.store.of(key)?;
        if key.len() > MAX_KEY {
            return Err(failed(ENGINE, doing, format!("a key has at most {MAX_KEY} bytes")));
        }
        values::key_text(key, &mut session.key);
        let class = session.store.config.class;
        session.connection.add(|command| {
            write(command, name, &session.key);
            settings::write_concern(class, command);
        });
        let (writes, bytes) = COLLECTED;
        if session.connection.waiting() >= writes || session.connection.bytes() >= bytes {
            return self.exchange(doing);
        }
        Ok(())
    }

    fn exchange(&mut self, doing: &'static str) -> Result<(), EngineError> {
        let done = self.session.connection.exchange();
        self.failed |= done.is_err();
        done.map_err(while_(doing))
    }
}

impl Drop for MongodbWrite<'_, '_> {
    fn drop(&mut self) {
        self.session.connection.discard();
    }
}

impl Read for MongodbWrite<'_, '_> {
    fn get(&mut self, _: &[u8], _: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        Err(unsupported(ENGINE, OWN_WRITES))
    }

    fn scan(&mut self, _: &[u8], _: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        Err(unsupported(ENGINE, OWN_WRITES))
    }
}

impl Write for MongodbWrite<'_, '_> {
    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let document = match self.session.store.of(key)?.0.documents {
            Some(_) => Some(decode(Encoding::Json, value).map_err(|error| no_document(&*error))?),
            None => None,
        };
        if document.as_ref().is_some_and(|document| !values::can_be_stored(document)) {
            return Err(failed(ENGINE, "storing a value", "the name of a field has a NUL, which BSON ends it with"));
        }
        self.add(key, "storing a value", |command, collection, key| {
            command.text("update", collection);
            command.array("updates", |updates| {
                updates.document("0", |update| {
                    update.document("q", |query| query.text(values::KEY, key));
                    update.document("u", |stored| match &document {
                        Some(document) => values::write(stored, values::DOCUMENT, document),
                        None => stored.binary(values::BYTES, value),
                    });
                    update.flag("upsert", true);
                });
            });
        })
    }

    #[inline]
    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        self.add(key, "removing a value", |command, collection, key| {
            command.text("delete", collection);
            command.array("deletes", |deletes| {
                deletes.document("0", |delete| {
                    delete.document("q", |query| query.text(values::KEY, key));
                    delete.int32("limit", 1);
                });
            });
        })?;
        Ok(true)
    }

    fn deliver(&mut self) -> Result<(), EngineError> {
        self.exchange("sending the writes so far")
    }

    #[inline]
    fn commit(mut self) -> Result<(), EngineError> {
        if self.failed {
            return Err(failed(ENGINE, "committing", "the transaction has failed before"));
        }
        if self.session.connection.waiting() == 0 { Ok(()) } else { self.exchange("committing") }
    }
}
