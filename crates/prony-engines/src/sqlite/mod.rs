//! The driver of SQLite (bundled), through the `rusqlite` crate.
//!
//! One table `records(k BLOB PRIMARY KEY, v BLOB)` for each collection: `WITHOUT ROWID` where records are short, else a rowid
//! table, whose rows spill to pages of their own much later ([`settings::has_rowid`]). Every session is a connection of its
//! own with its statements prepared once; a connection is kept for the sessions of later phases, with its page cache. A read
//! transaction is `BEGIN DEFERRED`, a write transaction `BEGIN IMMEDIATE`, so that a read never takes the writer's lock and a write
//! never has to wait in its middle. A single read or write is a statement without `BEGIN`, a transaction of its own.
//! Values are handed out from the page, without a copy where they fit one.
//!
//! SQLite's busy handler polls: it sleeps up to 100 ms between two attempts to get the write lock, however soon that is free.
//! Threads of one process therefore wait for each other at a mutex before they ask SQLite; other processes poll.
//!
//! [`settings`] holds the options and what journal and synchronous amount to.

mod query;
pub mod settings;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prony_model::spec::{DocumentSpec, FieldValue, QuerySpec, StoreSpec};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, Rows, Statement, params, params_from_iter};
use self_cell::self_cell;

use crate::driver::{
    Capabilities, Description, Driver, EngineError, InForce, Promise, Read, Session, Settings, Store, StoreFault,
    Table, Then, Write,
};
use crate::failure::{disk_full, failed, refused, unsupported};
use crate::options::Config;
use crate::own_query::OwnQuery;
use crate::sql;

const ENGINE: &str = "sqlite";
const FILE: &str = "store.sqlite";
const PATIENCE: Duration = Duration::from_secs(120);

/// Queries that a connection keeps prepared; a phase with more of them prepares them again and again.
const PREPARED: usize = 1024;

/// The plan of a query where nothing can be asked.
const NOT_KNOWN: &str = "not known: the only connection is in use";

/// Analyses every table that it has not, or that has changed since, in bounded time, as SQLite advises before a close.
const OPTIMIZE: &str = "PRAGMA optimize = 0x10012";

/// SQLite.
pub struct Sqlite;

/// An SQLite database.
pub struct SqliteStore {
    /// Connections that no session has. Under `locking_mode = exclusive` there is only one.
    idle: Mutex<Vec<Connection>>,
    /// Held by the write transaction that runs.
    writer: Mutex<()>,
    config: Config,
    tables: Vec<Table>,
    /// At the close it collects statistics of documents, which are written to the database.
    analyses: bool,
    path: PathBuf,
    /// Open as long as any connection is: closing a file drops every POSIX lock that the process holds on it.
    file: File,
}

/// A connection with its statements.
pub struct SqliteSession<'s> {
    prepared: Option<Prepared>,
    store: &'s SqliteStore,
}

/// A transaction of one connection, of either kind.
pub struct SqliteTransaction<'t> {
    prepared: &'t mut Prepared,
    /// `BEGIN` was run; without it each statement is a transaction of its own.
    open: bool,
    _writer: Option<MutexGuard<'t, ()>>,
}

/// The statements on a table.
struct OfTable<'c> {
    /// The byte before its keys, where there are several tables.
    byte: Option<u8>,
    /// Values are JSON, and stored as text: SQLite's functions take a BLOB for its own binary JSON.
    text: bool,
    get: Statement<'c>,
    scan: Statement<'c>,
    put: Statement<'c>,
    delete: Statement<'c>,
}

struct Statements<'c> {
    tables: Vec<OfTable<'c>>,
    begin_read: Statement<'c>,
    begin_write: Statement<'c>,
    commit: Statement<'c>,
    rollback: Statement<'c>,
}

self_cell!(
    struct Prepared {
        owner: Connection,
        #[not_covariant]
        dependent: Statements,
    }
);

impl Driver for Sqlite {
    type Store = SqliteStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: rusqlite::version().to_owned(),
            library: format!("rusqlite {}", env!("PRONY_VERSION_RUSQLITE")),
            capabilities: Capabilities {
                batches: true,
                reads_own_writes: true,
                open_transactions: true,
                snapshots: true,
                ordered: true,
                persistent: true,
                processes: true,
                reports_removals: true,
                own_documents: true,
                skips_equal: true,
                ..Capabilities::default()
            },
            promises: settings::promises(),
            options: settings::option_specs(),
            idiom: "a table for each collection, WITHOUT ROWID where records are shorter than a twentieth of a page; a connection \
                    per client, kept with its page cache, its statements prepared once; one read, put or delete is a statement \
                    without BEGIN, several are BEGIN DEFERRED or, with writes, BEGIN IMMEDIATE; writers of one process wait at \
                    a mutex, not in SQLite's busy handler, which sleeps up to 100 ms; an upsert for puts; no separate path for \
                    appends; JSON documents as text, indexes of expressions, queries in SQL by SQLite's planner, with \
                    statistics from PRAGMA optimize at the close"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        settings::configure(spec).map(Config::settings)
    }

    fn capabilities(spec: &StoreSpec) -> Capabilities {
        let can = Self::describe().capabilities;
        let Ok(config) = settings::configure(spec) else { return can };
        // Only a write-ahead log leaves the pages in place that readers read.
        Capabilities {
            processes: !settings::is_exclusive(&config),
            commits_wait_for_readers: !settings::has_log(&config),
            ..can
        }
    }

    fn promise(spec: &StoreSpec) -> Option<Promise> {
        settings::promise_of(&settings::configure(spec).ok()?)
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<SqliteStore, EngineError> {
        let config = settings::configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let path = dir.join(FILE);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| failed(ENGINE, "opening the store", error))?;
        let first = connect(&path, &config).map_err(while_("opening the store"))?;
        let (idle, writer) = (Mutex::new(vec![first]), Mutex::new(()));
        Ok(SqliteStore { idle, writer, config, tables: Vec::new(), analyses: false, path, file })
    }

    fn own_query(query: &QuerySpec, document: &DocumentSpec, page: &DocumentSpec, table: &Table) -> Option<OwnQuery> {
        Some(sql::select::<query::Sqlite>(query, document, page, table))
    }
}

/// A connection is used by one thread at a time, so that SQLite's mutex in each call would cost and not protect.
fn connect(path: &Path, config: &Config) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(PREPARED);
    settings::apply(config, &connection)?;
    Ok(connection)
}

/// SQLite's errors as ours.
fn while_(doing: &'static str) -> impl Fn(rusqlite::Error) -> EngineError {
    move |error| match error.sqlite_error_code() {
        Some(ErrorCode::OutOfMemory) => EngineError::OutOfMemory { engine: ENGINE, doing },
        Some(ErrorCode::DiskFull) => disk_full(ENGINE, doing, error),
        _ => failed(ENGINE, doing, error),
    }
}

impl<'c> OfTable<'c> {
    fn prepare(connection: &'c Connection, table: &Table) -> rusqlite::Result<Self> {
        let name = query::name(table);
        let prepare = |sql: &str| connection.prepare(&sql.replace("records", &name));
        Ok(Self {
            byte: table.byte,
            text: table.documents.is_some(),
            get: prepare("SELECT v FROM records WHERE k = ?1")?,
            scan: prepare("SELECT k, v FROM records WHERE k >= ?1 ORDER BY k")?,
            put: prepare("INSERT INTO records(k, v) VALUES(?1, ?2) ON CONFLICT(k) DO UPDATE SET v = excluded.v")?,
            delete: prepare("DELETE FROM records WHERE k = ?1")?,
        })
    }
}

impl<'c> Statements<'c> {
    fn prepare(connection: &'c Connection, tables: &[Table]) -> rusqlite::Result<Self> {
        let prepare = |sql| connection.prepare(sql);
        Ok(Self {
            tables: tables.iter().map(|table| OfTable::prepare(connection, table)).collect::<Result<_, _>>()?,
            begin_read: prepare("BEGIN DEFERRED")?,
            begin_write: prepare("BEGIN IMMEDIATE")?,
            commit: prepare("COMMIT")?,
            rollback: prepare("ROLLBACK")?,
        })
    }

    /// The table of a key, and the key as it is stored there.
    fn of<'k>(&mut self, key: &'k [u8]) -> Option<(&mut OfTable<'c>, &'k [u8])> {
        let table = self.tables.iter_mut().find(|table| table.byte.is_none() || table.byte == key.first().copied())?;
        let before = usize::from(table.byte.is_some());
        Some((table, &key[before..]))
    }
}

impl SqliteStore {
    /// The connections that no session has; a panic leaves the list whole.
    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that was used before, with its page cache, or a new one.
    fn lend(&self) -> Result<Connection, EngineError> {
        match self.idle().pop() {
            Some(connection) => Ok(connection),
            None if settings::is_exclusive(&self.config) => {
                Err(unsupported(ENGINE, "a second session under `locking_mode = exclusive`"))
            }
            None => connect(&self.path, &self.config).map_err(while_("opening a connection")),
        }
    }

    /// Uses a connection outside of sessions.
    fn on_connection<T>(
        &self,
        doing: &'static str,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, EngineError> {
        let connection = self.lend()?;
        let done = act(&connection).map_err(while_(doing));
        self.idle().push(connection);
        done
    }

    fn has_documents(&self) -> bool {
        self.tables.iter().any(|table| table.documents.is_some())
    }

    /// The file beside the database with this ending, synced where there is one.
    fn sync_beside(&self, ending: &str) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        match File::open(name) {
            Ok(file) => file.sync_all(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The indexes or tables that the database has, in SQL, without those of SQLite itself, such as of statistics.
fn stored(connection: &Connection, what: &str) -> rusqlite::Result<Vec<String>> {
    let own = "SELECT sql FROM sqlite_schema WHERE type = ?1 AND sql IS NOT NULL AND name NOT GLOB 'sqlite_*'";
    let mut statement = connection.prepare(own)?;
    statement.query_map([what], |row| row.get(0))?.collect()
}

/// What SQLite's planner says of a query.
fn steps(connection: &Connection, text: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}"))?;
    let count = statement.parameter_count();
    statement.query_map(params_from_iter(vec![0; count]), |row| row.get("detail"))?.collect()
}

/// A value as SQLite takes it; flags are 1 and 0.
fn to_sql(value: &FieldValue) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value {
        FieldValue::Bool(flag) => ValueRef::Integer((*flag).into()),
        FieldValue::Int(number) => ValueRef::Integer(*number),
        FieldValue::Float(number) => ValueRef::Real(*number),
        FieldValue::Text(text) => ValueRef::Text(text.as_bytes()),
        FieldValue::Null | FieldValue::List(_) | FieldValue::Fields(_) => ValueRef::Null,
    })
}

impl Store for SqliteStore {
    type Session<'s> = SqliteSession<'s>;

    fn session(&self) -> Result<SqliteSession<'_>, EngineError> {
        let prepared = Prepared::try_new(self.lend()?, |connection| Statements::prepare(connection, &self.tables));
        let prepared = prepared.map_err(while_("preparing the statements"))?;
        Ok(SqliteSession { prepared: Some(prepared), store: self })
    }

    fn set_up_tables(&mut self, tables: &[Table], first: bool) -> Result<(), EngineError> {
        self.tables = tables.to_vec();
        self.analyses = first && self.has_documents();
        for table in tables {
            let create = query::table(table, settings::has_rowid(&self.config, table));
            self.on_connection("creating a table", |connection| connection.execute_batch(&create))?;
            for (number, fields) in table.indexes().enumerate() {
                let create = query::index(table, number, fields);
                self.on_connection("creating an index", |connection| connection.execute_batch(&create))?;
            }
        }
        Ok(())
    }

    fn explain(&self, own_query: &str, _: &[FieldValue]) -> Result<String, EngineError> {
        match self.on_connection("explaining a query", |connection| steps(connection, own_query)) {
            Ok(steps) => Ok(steps.join(", ")),
            // Under `locking_mode = exclusive` the only connection may be lent.
            Err(EngineError::Unsupported { .. }) => Ok(NOT_KNOWN.to_owned()),
            Err(error) => Err(error),
        }
    }

    /// `PRAGMA integrity_check`, which returns one row `ok`, or a row for each fault.
    fn check_integrity(&mut self) -> Result<Option<Vec<String>>, EngineError> {
        let rows = self.on_connection("checking the integrity", |connection| -> rusqlite::Result<Vec<String>> {
            connection.prepare("PRAGMA integrity_check")?.query_map([], |row| row.get(0))?.collect()
        })?;
        Ok(Some(rows.into_iter().filter(|row| row != "ok").collect()))
    }

    fn in_force(&self) -> Result<InForce, EngineError> {
        self.on_connection("reading the settings", |connection| {
            let mut in_force = settings::in_force(connection)?;
            let mut tables = stored(connection, "table")?;
            let table = if tables.len() == 1 { tables.remove(0).into() } else { tables.into() };
            in_force.read_back.insert("table".to_owned(), table);
            if self.has_documents() {
                in_force.read_back.insert("indexes".to_owned(), stored(connection, "index")?.into());
            }
            Ok(in_force)
        })
    }

    /// Syncs the log or journal, the database and their directory; does not checkpoint the log.
    fn persist(&self) -> Result<(), EngineError> {
        let sync = || {
            self.sync_beside("-wal")?;
            self.sync_beside("-journal")?;
            self.file.sync_all()?;
            self.path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
        };
        sync().map_err(|error: io::Error| failed(ENGINE, "syncing the files", error))
    }

    /// Of documents, collects the statistics that SQLite's planner uses after the next opening. The last connection to close
    /// checkpoints the log into the database and removes the log.
    fn close(self) -> Result<(), EngineError> {
        if self.analyses {
            self.on_connection("analysing the tables", |connection| connection.execute_batch(OPTIMIZE))?;
        }
        let idle = self.idle.into_inner().unwrap_or_else(PoisonError::into_inner);
        idle.into_iter()
            .try_for_each(|connection| connection.close().map_err(|(_, error)| while_("closing the store")(error)))
    }
}

impl Drop for SqliteSession<'_> {
    fn drop(&mut self) {
        self.store.idle().extend(self.prepared.take().map(Prepared::into_owner));
    }
}

impl SqliteSession<'_> {
    fn transaction(&mut self, writes: bool, several: bool) -> Result<SqliteTransaction<'_>, EngineError> {
        let prepared = self.prepared.as_mut().ok_or_else(|| unsupported(ENGINE, "a session that is closed"))?;
        let writer = writes.then(|| self.store.writer.lock().unwrap_or_else(PoisonError::into_inner));
        if several {
            let begun = prepared.with_dependent_mut(|_, statements| match writes {
                true => statements.begin_write.execute([]),
                false => statements.begin_read.execute([]),
            });
            begun.map_err(while_("beginning a transaction"))?;
        }
        Ok(SqliteTransaction { prepared, open: several, _writer: writer })
    }
}

impl Session for SqliteSession<'_> {
    type Read<'t>
        = SqliteTransaction<'t>
    where
        Self: 't;
    type Write<'t>
        = SqliteTransaction<'t>
    where
        Self: 't;

    fn prepare(&mut self, own_query: &str) -> Result<(), EngineError> {
        let Some(prepared) = &self.prepared else { return Ok(()) };
        prepared.borrow_owner().prepare_cached(own_query).map(drop).map_err(while_("preparing a query"))
    }

    fn read(&mut self) -> Result<SqliteTransaction<'_>, EngineError> {
        self.transaction(false, true)
    }

    fn read_once(&mut self) -> Result<SqliteTransaction<'_>, EngineError> {
        self.transaction(false, false)
    }

    fn write(&mut self) -> Result<SqliteTransaction<'_>, EngineError> {
        self.transaction(true, true)
    }

    fn write_once(&mut self) -> Result<SqliteTransaction<'_>, EngineError> {
        self.transaction(true, false)
    }
}

impl SqliteTransaction<'_> {
    fn with<T>(
        &mut self,
        doing: &'static str,
        act: impl FnOnce(&mut Statements<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, EngineError> {
        self.prepared.with_dependent_mut(|_, statements| act(statements)).map_err(while_(doing))
    }
}

impl Drop for SqliteTransaction<'_> {
    fn drop(&mut self) {
        if self.open {
            // No caller is left to report an error to; the next `BEGIN` would report a transaction that is still open.
            let _ = self.with("discarding a transaction", |statements| statements.rollback.execute([]));
        }
    }
}

fn scan_rows(mut rows: Rows<'_>, mut row: impl FnMut(&[u8], &[u8]) -> Then) -> rusqlite::Result<()> {
    while let Some(found) = rows.next()? {
        if row(found.get_ref(0)?.as_blob()?, found.get_ref(1)?.as_bytes()?).is_break() {
            break;
        }
    }
    Ok(())
}

/// Rows of a query, or what it counts.
fn select_rows(
    mut statement: CachedStatement<'_>,
    bound: &[FieldValue],
    mut row: impl FnMut(&[u8], &[u8]) -> Then,
) -> rusqlite::Result<u64> {
    let bound = params_from_iter(bound.iter().map(to_sql));
    if statement.column_count() == 1 {
        return statement.query_row(bound, |found| found.get::<_, i64>(0)).map(i64::unsigned_abs);
    }
    let mut rows = 0;
    scan_rows(statement.query(bound)?, |key, value| {
        rows += 1;
        row(key, value)
    })?;
    Ok(rows)
}

impl Read for SqliteTransaction<'_> {
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        self.with("reading a value", |statements| {
            let Some((table, key)) = statements.of(key) else { return Ok(false) };
            let mut rows = table.get.query(params![key])?;
            let Some(row) = rows.next()? else { return Ok(false) };
            found(row.get_ref(0)?.as_bytes()?);
            Ok(true)
        })
    }

    fn scan(&mut self, from: &[u8], mut row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        self.with("scanning", |statements| {
            let Some((table, from)) = statements.of(from) else { return Ok(()) };
            let rows = table.scan.query(params![from])?;
            let Some(byte) = table.byte else { return scan_rows(rows, row) };
            let mut whole = vec![byte];
            scan_rows(rows, |key, value| {
                whole.truncate(1);
                whole.extend_from_slice(key);
                row(&whole, value)
            })
        })
    }

    fn select(
        &mut self,
        own_query: &str,
        bound: &[FieldValue],
        row: impl FnMut(&[u8], &[u8]) -> Then,
    ) -> Result<u64, EngineError> {
        let statement = self.prepared.borrow_owner().prepare_cached(own_query);
        statement.and_then(|statement| select_rows(statement, bound, row)).map_err(while_("answering a query"))
    }

    fn finish(mut self) -> Result<(), EngineError> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        self.with("ending a transaction", |statements| statements.rollback.execute([])).map(drop)
    }
}

impl Write for SqliteTransaction<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.with("storing a value", |statements| {
            let Some((table, key)) = statements.of(key) else { return Err(rusqlite::Error::InvalidQuery) };
            let value = if table.text { ValueRef::Text(value) } else { ValueRef::Blob(value) };
            table.put.execute(params![key, ToSqlOutput::Borrowed(value)]).map(drop)
        })
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        self.with("removing a value", |statements| {
            let Some((table, key)) = statements.of(key) else { return Ok(false) };
            table.delete.execute(params![key]).map(|rows| rows > 0)
        })
    }

    fn commit(mut self) -> Result<(), EngineError> {
        if self.open {
            self.with("committing", |statements| statements.commit.execute([]))?;
            self.open = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
