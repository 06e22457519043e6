//! Sessions, and what is read and written in them.

use std::collections::HashMap;

use prony_model::spec::FieldValue;
use prony_servers::postgresql::{Connection, columns};

use super::json_text::{Names, Writer};
use super::tables::{OfTable, PAGE};
use super::values::{JSONB, Value};
use super::{ENGINE, MAX_KEY, PostgresqlStore, settings, while_};
use crate::driver::{EngineError, Read, Session, Then, Write};
use crate::failure::{failed, unsupported};

/// Writes that are collected before they are sent.
const COLLECTED: usize = 256 << 10;

/// A connection with its statements.
pub struct PostgresqlSession<'s> {
    connection: Connection,
    store: &'s PostgresqlStore,
    own: Own,
}

/// What a session has for documents and tables.
#[derive(Default)]
struct Own {
    queries: Queries,
    writer: Writer,
    /// A key with the byte of its table.
    key: Vec<u8>,
}

/// Queries that are prepared.
#[derive(Default)]
struct Queries {
    /// Their places by their texts.
    places: HashMap<String, usize>,
    all: Vec<Prepared>,
}

/// A query that is prepared.
struct Prepared {
    name: String,
    /// The number of the table that it reads.
    table: usize,
    is_count: bool,
}

/// A transaction of one connection, of either kind.
pub struct PostgresqlTransaction<'t> {
    connection: &'t mut Connection,
    store: &'t PostgresqlStore,
    own: &'t mut Own,
    state: State,
}

/// How far a transaction is.
struct State {
    kind: Kind,
    /// Its begin was sent and its end was not.
    open: bool,
    failed: bool,
}

/// What a transaction is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Reads that see one state.
    Reads,
    /// One `get` or one scan.
    Once,
    Writes,
}

/// Names of the prepared statements that are on no table.
const BEGIN_READ: &str = "r";
const BEGIN_WRITE: &str = "w";
const COMMIT: &str = "c";
const ROLLBACK: &str = "x";

/// A stored value that prony has not written.
fn foreign(doing: &'static str) -> EngineError {
    failed(ENGINE, doing, "a document is not one that prony stores")
}

fn no_table() -> EngineError {
    failed(ENGINE, "looking for a table", "the key is of no collection")
}

/// A value as it was stored: that of a document is the text of its `jsonb`.
#[inline]
fn stored<'v>(names: Option<&Names>, writer: &'v mut Writer, value: &'v [u8]) -> Option<&'v [u8]> {
    match names {
        None => Some(value),
        Some(names) => writer.document(names, value.strip_prefix(&[JSONB])?),
    }
}

impl<'s> PostgresqlSession<'s> {
    /// A session on a new connection, with its statements prepared.
    pub(super) fn new(mut connection: Connection, store: &'s PostgresqlStore) -> Result<Self, EngineError> {
        let opening = while_("opening a session");
        let (level, implicit) = settings::isolation(&store.config);
        let mut set = format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {implicit}");
        if store.tables.iter().any(|table| table.names.is_some()) {
            // Queries are planned once, and not for each run: so a query has the plan that the record names.
            set += "; SET plan_cache_mode = force_generic_plan";
        }
        connection.query(&set).map_err(&opening)?;
        store.tables.iter().for_each(|table| table.prepare(&mut connection));
        for (name, sql) in [
            (BEGIN_READ, format!("BEGIN ISOLATION LEVEL {level} READ ONLY")),
            (BEGIN_WRITE, format!("BEGIN ISOLATION LEVEL {level}")),
            (COMMIT, "COMMIT".to_owned()),
            (ROLLBACK, "ROLLBACK".to_owned()),
        ] {
            connection.prepare(name, &sql);
        }
        connection.exchange(|_| ()).map_err(opening)?;
        Ok(Self { connection, store, own: Own::default() })
    }

    fn transaction(&mut self, kind: Kind) -> PostgresqlTransaction<'_> {
        let Self { connection, store, own } = self;
        PostgresqlTransaction { connection, store, own, state: State { kind, open: false, failed: false } }
    }
}

impl Queries {
    /// A prepared query on one of these tables. One that was not prepared is prepared with what is sent next.
    #[inline]
    fn of(
        &mut self,
        own_query: &str,
        tables: &[OfTable],
        connection: &mut Connection,
    ) -> Result<&Prepared, EngineError> {
        let place = match self.places.get(own_query) {
            Some(place) => *place,
            None => self.prepare(own_query, tables, connection)?,
        };
        Ok(&self.all[place])
    }

    fn prepare(
        &mut self,
        own_query: &str,
        tables: &[OfTable],
        connection: &mut Connection,
    ) -> Result<usize, EngineError> {
        let (what, rest) = own_query.split_once(" FROM ").ok_or_else(no_table)?;
        let is_read = |table: &OfTable| rest.split(" WHERE ").next() == Some(table.table.as_str());
        let table = tables.iter().position(is_read).ok_or_else(no_table)?;
        let (place, is_count) = (self.all.len(), what == "SELECT count(*)");
        let name = format!("q{place}");
        connection.prepare(&name, own_query);
        self.places.insert(own_query.to_owned(), place);
        self.all.push(Prepared { name, table, is_count });
        Ok(place)
    }
}

impl Session for PostgresqlSession<'_> {
    type Read<'t>
        = PostgresqlTransaction<'t>
    where
        Self: 't;
    type Write<'t>
        = PostgresqlTransaction<'t>
    where
        Self: 't;

    fn prepare(&mut self, own_query: &str) -> Result<(), EngineError> {
        self.own.queries.of(own_query, &self.store.tables, &mut self.connection)?;
        self.connection.exchange(|_| ()).map(drop).map_err(while_("preparing a query"))
    }

    fn read(&mut self) -> Result<PostgresqlTransaction<'_>, EngineError> {
        Ok(self.transaction(Kind::Reads))
    }

    fn read_once(&mut self) -> Result<PostgresqlTransaction<'_>, EngineError> {
        Ok(self.transaction(Kind::Once))
    }

    fn write(&mut self) -> Result<PostgresqlTransaction<'_>, EngineError> {
        Ok(self.transaction(Kind::Writes))
    }
}

impl State {
    /// Sends what was added, and reads the answers; the transaction stays open.
    fn exchange(
        &mut self,
        connection: &mut Connection,
        doing: &'static str,
        row: impl FnMut(&[u8]),
    ) -> Result<(), EngineError> {
        let begin = if self.kind == Kind::Writes { BEGIN_WRITE } else { BEGIN_READ };
        if self.kind != Kind::Once && !std::mem::replace(&mut self.open, true) {
            connection.run_first(begin);
        }
        let answered = connection.exchange(row);
        self.failed |= answered.is_err();
        answered.map(drop).map_err(while_(doing))
    }
}

impl PostgresqlTransaction<'_> {
    /// Adds a write; many are sent before the commit.
    #[inline]
    fn write(&mut self, doing: &'static str, statement: &str, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.connection.run(statement, values);
        if self.connection.waiting() > COLLECTED {
            return self.state.exchange(self.connection, doing, |_| ());
        }
        Ok(())
    }

    /// Ends it with its commit.
    fn end(&mut self) -> Result<(), EngineError> {
        if self.state.open {
            self.connection.run::<Value<'_>>(COMMIT, &[]);
        } else if self.connection.waiting() == 0 {
            return Ok(());
        }
        let answered = self.connection.exchange(|_| ());
        match answered.map_err(while_("committing")) {
            Ok(answered) => {
                self.state.open = false;
                if answered.rolled_back { Err(failed_before()) } else { Ok(()) }
            }
            // The server has skipped the commit, or refused it; its error is what counts.
            Err(error) => {
                let _ = self.roll_back();
                Err(error)
            }
        }
    }

    /// Discards what was added, and on the server what was sent.
    fn roll_back(&mut self) -> Result<(), EngineError> {
        self.connection.discard();
        if !std::mem::take(&mut self.state.open) {
            return Ok(());
        }
        self.connection.run::<Value<'_>>(ROLLBACK, &[]);
        self.connection.exchange(|_| ()).map(drop).map_err(while_("discarding a transaction"))
    }
}

fn failed_before() -> EngineError {
    failed(ENGINE, "committing", "the transaction has failed before")
}

impl Drop for PostgresqlTransaction<'_> {
    fn drop(&mut self) {
        // No caller is left to report an error to; the next `BEGIN` would report a transaction that is still open.
        let _ = self.roll_back();
    }
}

impl Read for PostgresqlTransaction<'_> {
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        let Some((table, key)) = self.store.of(key) else { return Ok(false) };
        let (mut there, mut read) = (false, true);
        // What fails may be a write that is sent with it.
        let doing = if self.connection.waiting() > 0 {
            "sending the writes so far and reading a value"
        } else {
            "reading a value"
        };
        self.connection.run(&table.get, &[Value::Bytes(key)]);
        let writer = &mut self.own.writer;
        self.state.exchange(self.connection, doing, |row| {
            if let Some(Some(value)) = columns(row).next() {
                there = true;
                match stored(table.names.as_ref(), writer, value) {
                    Some(value) => found(value),
                    None => read = false,
                }
            }
        })?;
        if read { Ok(there) } else { Err(foreign(doing)) }
    }

    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        self.scan_at_most(from, u64::MAX, row)
    }

    fn scan_at_most(
        &mut self,
        from: &[u8],
        rows: u64,
        mut row: impl FnMut(&[u8], &[u8]) -> Then,
    ) -> Result<(), EngineError> {
        let Some((table, from)) = self.store.of(from) else { return Ok(()) };
        let (mut from, mut left, mut scans) = (from.to_vec(), rows, &table.scans[0]);
        if left > 1 << PAGE && self.state.kind == Kind::Once {
            // Its parts see one state.
            self.state.kind = Kind::Reads;
        }
        while left > 0 {
            let page = left.min(1 << PAGE);
            let (mut fetched, mut over, mut read) = (0, false, true);
            let power = page.next_power_of_two().trailing_zeros() as usize;
            self.connection.run_with(&scans[power], [Value::Bytes(&from)].into_iter(), page as u32);
            let mut last = Vec::new();
            let Own { writer, key: whole, .. } = &mut *self.own;
            self.state.exchange(self.connection, "scanning", |found| {
                let mut columns = columns(found);
                if let (false, Some(Some(key)), Some(Some(value))) = (over, columns.next(), columns.next()) {
                    let Some(value) = stored(table.names.as_ref(), writer, value) else {
                        (over, read) = (true, false);
                        return;
                    };
                    fetched += 1;
                    over = row(with_byte(table.byte, key, whole), value).is_break();
                    if fetched == page {
                        key.clone_into(&mut last);
                    }
                }
            })?;
            if !read {
                return Err(foreign("scanning"));
            }
            if over || fetched < page {
                return Ok(());
            }
            (left, from, scans) = (left - page, last, &table.scans[1]);
        }
        Ok(())
    }

    fn select(
        &mut self,
        own_query: &str,
        bound: &[FieldValue],
        mut row: impl FnMut(&[u8], &[u8]) -> Then,
    ) -> Result<u64, EngineError> {
        let doing = "answering a query";
        check(bound)?;
        let Own { queries, writer, .. } = &mut *self.own;
        let query = queries.of(own_query, &self.store.tables, self.connection)?;
        self.connection.run_with(&query.name, bound.iter().map(Value::Field), 0);
        let names = self.store.tables[query.table].names.as_ref();
        let (mut count, mut over, mut read) = (0, false, true);
        self.state.exchange(self.connection, doing, |found| {
            let mut columns = columns(found);
            let first = columns.next().flatten();
            if query.is_count {
                let number = first.and_then(|number| Some(u64::from_be_bytes(number.try_into().ok()?)));
                (count, read) = (number.unwrap_or_default(), number.is_some());
            } else if let (false, Some(key), Some(Some(value))) = (over, first, columns.next()) {
                match stored(names, writer, value) {
                    Some(value) => {
                        count += 1;
                        over = row(key, value).is_break();
                    }
                    None => (over, read) = (true, false),
                }
            }
        })?;
        if read { Ok(count) } else { Err(foreign(doing)) }
    }

    fn finish(mut self) -> Result<(), EngineError> {
        if self.state.kind == Kind::Writes || self.state.failed {
            return self.roll_back();
        }
        if settings::may_be_refused(&self.store.config) {
            return self.end();
        }
        if std::mem::take(&mut self.state.open) {
            self.connection.run::<Value<'_>>(COMMIT, &[]);
            self.connection.exchange_later().map_err(while_("ending a transaction"))?;
        }
        Ok(())
    }
}

impl Write for PostgresqlTransaction<'_> {
    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let (table, key) = self.store.of(key).ok_or_else(no_table)?;
        if key.len() > MAX_KEY {
            return Err(failed(ENGINE, "storing a value", format!("a key has at most {MAX_KEY} bytes")));
        }
        let value = if table.names.is_some() { Value::Json(value) } else { Value::Bytes(value) };
        self.write("storing a value", &table.put, &[Value::Bytes(key), value])
    }

    #[inline]
    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        let (table, key) = self.store.of(key).ok_or_else(no_table)?;
        self.write("removing a value", &table.delete, &[Value::Bytes(key)]).map(|()| true)
    }

    fn deliver(&mut self) -> Result<(), EngineError> {
        if self.connection.waiting() == 0 {
            return Ok(());
        }
        self.state.exchange(self.connection, "sending the writes so far", |_| ())
    }

    fn commit(mut self) -> Result<(), EngineError> {
        if self.state.failed {
            self.roll_back()?;
            return Err(failed_before());
        }
        self.end()
    }
}

/// A key as the contract has it: with the byte of its table, where there are several.
#[inline]
fn with_byte<'k>(byte: Option<u8>, key: &'k [u8], whole: &'k mut Vec<u8>) -> &'k [u8] {
    let Some(byte) = byte else { return key };
    whole.clear();
    whole.push(byte);
    whole.extend_from_slice(key);
    whole
}

/// Refuses what no text of PostgreSQL has, before it is sent.
fn check(bound: &[FieldValue]) -> Result<(), EngineError> {
    let has_zero = |value: &FieldValue| matches!(value, FieldValue::Text(text) if text.contains('\0'));
    if bound.iter().any(has_zero) {
        return Err(unsupported(ENGINE, "a comparison with a text that has U+0000"));
    }
    Ok(())
}
