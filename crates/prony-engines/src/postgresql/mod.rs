//! The driver of PostgreSQL: a server, at the URL of the store.
//!
//! One table `prony_records(k bytea PRIMARY KEY, v bytea)` in the first schema of the session's search path. A trial begins with
//! new tables: those of an earlier one are dropped. Every session is a connection of its own, with its statements prepared once.
//! `BEGIN` is sent with the first statement of a transaction. Writes are collected and sent with the commit, or with the next
//! read of the transaction, or when there are many: one round trip for a transaction that only writes. The end of a read
//! transaction is sent without waiting for its answer, so that a read of one record is one round trip too.
//!
//! [`settings`] holds the options and what settings of the server amount to, [`connection`] the protocol.

mod address;
mod connection;
mod settings;

use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prony_model::record::effective::NamedSettings;
use prony_model::spec::{Durability, StoreSpec};

use self::address::Address;
use self::connection::{Connection, Failure, columns};
use crate::driver::{
    Capabilities, Description, Driver, EngineError, InForce, OptionFault, Read, Session, Settings, Store, Then, Write,
};
use crate::failure::{disk_full, failed, refused};
use crate::options::Config;
use crate::versions;

const ENGINE: &str = "postgresql";

/// In the trial's directory: its tables have been made.
const MARKER: &str = "postgresql-tables";

/// The table.
const TABLE: &str = "prony_records";

/// The advisory lock of whoever has tables in a schema.
const LOCK: &str = "hashtext('prony'), hashtext(current_schema())";

/// How long the sessions of an earlier trial may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest key: an entry of a B-tree has at most 2704 bytes (`BTMaxItemSize`), of which 8 are its head and 4 the length.
const MAX_KEY: usize = 2692;

/// Writes that are collected before they are sent.
const COLLECTED: usize = 256 << 10;

/// How many rows are asked for at first, and then at once. A statement without a bound may be planned as if all rows were read.
const PAGES: [usize; 2] = [100, 1000];

/// PostgreSQL.
pub struct Postgresql;

/// A database of a PostgreSQL server.
pub struct PostgresqlStore {
    address: Address,
    config: Config,
    in_force: InForce,
    version: String,
    control: Mutex<Connection>,
}

/// A connection with its statements.
pub struct PostgresqlSession<'s> {
    connection: Connection,
    store: &'s PostgresqlStore,
}

/// A transaction of one connection, of either kind.
pub struct PostgresqlTransaction<'t> {
    connection: &'t mut Connection,
    store: &'t PostgresqlStore,
    /// The statement that begins it.
    begin: &'static str,
    begun: bool,
    /// Something of it was sent and its end was not.
    open: bool,
    failed: bool,
}

impl Driver for Postgresql {
    type Store = PostgresqlStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: "a server, by version 3.0 of its protocol".to_owned(),
            library: versions::library("postgres-protocol"),
            capabilities: Capabilities {
                batches: true,
                reads_own_writes: true,
                open_transactions: true,
                snapshots: true,
                ordered: true,
                persistent: true,
                // The metrics of a phase are the server's, not those of its workers: threads are its clients.
                processes: false,
                concurrent_writers: true,
                commits_wait_for_readers: false,
                own_documents: false,
                compresses: true,
                server: true,
                max_key: Some(MAX_KEY as u64),
            },
            promises: settings::promises(),
            options: settings::option_specs(),
            idiom: "one table with a primary key of bytea; a connection per session, its statements prepared once; writes of \
                    a transaction are sent with its commit in one round trip (pipelining), reads in one each; an upsert \
                    for puts; scans in pages of 100 and 1000 rows by key; no separate path for appends"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<OptionFault>> {
        let mut faults = Vec::new();
        if let Some(message) = spec.url.as_deref().and_then(|url| Address::parse(url).err()) {
            faults.push(OptionFault {
                option: Some("url".to_owned()),
                message,
                hint: Some("write `url = \"postgresql://USER@HOST:PORT/DATABASE\"`".to_owned()),
            });
        }
        match settings::configure(spec) {
            Ok(config) if faults.is_empty() => Ok(config.settings()),
            configured => Err(faults.into_iter().chain(configured.err().unwrap_or_default()).collect()),
        }
    }

    fn capabilities(spec: &StoreSpec) -> Capabilities {
        let can = Self::describe().capabilities;
        let snapshots = settings::configure(spec).is_ok_and(|config| settings::has_snapshots(&config));
        Capabilities { snapshots, ..can }
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<PostgresqlStore, EngineError> {
        let config = settings::configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let no_url = || failed(ENGINE, "opening the store", "the store has no `url`");
        let address = Address::parse(spec.url.as_deref().ok_or_else(no_url)?);
        let address = address.map_err(|fault| failed(ENGINE, "reading the URL", fault))?;
        let opening = while_("opening the store");
        let mut control = connect(&address, &config).map_err(&opening)?;
        let read_back = read_back(&mut control).map_err(&opening)?;
        fits(&config, &read_back)?;
        make_tables(&mut control, &dir.join(MARKER))?;
        let version = match read_back.get("server_version") {
            Some(prony_model::record::effective::Setting::Text(version)) => version.clone(),
            _ => String::new(),
        };
        let in_force = config.in_force(read_back);
        Ok(PostgresqlStore { address, config, in_force, version, control: Mutex::new(control) })
    }
}

fn connect(address: &Address, config: &Config) -> Result<Connection, Failure> {
    let mut connection = Connection::open(address)?;
    connection.query(&format!("SET synchronous_commit = {}", settings::synchronous_commit(config.class)))?;
    Ok(connection)
}

/// What the server reports of its settings.
fn read_back(control: &mut Connection) -> Result<NamedSettings, Failure> {
    let names = settings::READ_BACK.map(|name| format!("'{name}'")).join(", ");
    let rows =
        control.query(&format!("SELECT name, current_setting(name) FROM pg_settings WHERE name IN ({names})"))?;
    let pair = |row: Vec<Option<String>>| {
        let [name, value] = <[_; 2]>::try_from(row).ok()?;
        Some((name?, value?.into()))
    };
    Ok(rows.into_iter().filter_map(pair).collect())
}

/// The class is that of the server's settings: no other is taken for it.
fn fits(config: &Config, read_back: &NamedSettings) -> Result<(), EngineError> {
    let found = settings::class(read_back);
    if found == Some(config.class) {
        return Ok(());
    }
    let shown = ["fsync", "full_page_writes", "synchronous_commit"].map(|name| match read_back.get(name) {
        Some(prony_model::record::effective::Setting::Text(value)) => format!("{name} = {value}"),
        _ => format!("{name} is not known"),
    });
    let advice = match config.class {
        Durability::None => "start it with `-c fsync=off`",
        _ => "start it with `-c fsync=on -c full_page_writes=on`",
    };
    let what = format!("durability `{}`: the server has {} (hint: {advice})", config.class.name(), shown.join(", "));
    Err(EngineError::Unsupported { engine: ENGINE, what })
}

/// Makes the table, in place of those of an earlier trial if this is the first opening in the trial's directory. Nobody else may
/// have tables there at the same time.
fn make_tables(control: &mut Connection, marker: &Path) -> Result<(), EngineError> {
    let making = while_("making the table");
    if !marker.exists() {
        let until = Instant::now() + PATIENCE;
        let locked = format!("SELECT pg_try_advisory_lock({LOCK})");
        while control.query(&locked).map_err(&making)?.concat() != [Some("t".to_owned())] {
            if Instant::now() >= until {
                let what = "another run uses the tables of prony in this schema".to_owned();
                return Err(failed(ENGINE, "opening the store", what));
            }
            thread::sleep(Duration::from_millis(20));
        }
        let earlier = format!(
            "SELECT format('DROP TABLE %I.%I CASCADE', schemaname, tablename) FROM pg_tables \
             WHERE schemaname = current_schema() AND tablename LIKE '{}%'",
            TABLE.replace('_', "\\_")
        );
        for statement in control.query(&earlier).map_err(&making)?.into_iter().flatten().flatten() {
            control.query(&statement).map_err(&making)?;
        }
        let create = format!(
            "CREATE TABLE {TABLE}(k bytea NOT NULL PRIMARY KEY, v bytea NOT NULL); \
             ALTER TABLE {TABLE} ALTER k SET STORAGE PLAIN"
        );
        control.query(&create).map_err(&making)?;
        control.query(&format!("SELECT pg_advisory_unlock({LOCK})")).map_err(&making)?;
        File::create(marker).map_err(|error| failed(ENGINE, "opening the store", error))?;
    }
    control.query(&format!("SELECT pg_advisory_lock_shared({LOCK})")).map_err(&making)?;
    Ok(())
}

/// Errors of the connection and of the server as ours.
fn while_(doing: &'static str) -> impl Fn(Failure) -> EngineError {
    move |failure| {
        let code = if let Failure::Server { code, .. } = &failure { code.clone() } else { String::new() };
        match code.as_str() {
            // serialization_failure, deadlock_detected
            "40001" | "40P01" => EngineError::Conflict { engine: ENGINE, doing, source: failure.into() },
            // disk_full, out_of_memory
            "53100" => disk_full(ENGINE, doing, failure),
            "53200" => EngineError::OutOfMemory { engine: ENGINE, doing },
            _ => failed(ENGINE, doing, failure),
        }
    }
}

impl PostgresqlStore {
    fn control(&self) -> MutexGuard<'_, Connection> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for PostgresqlStore {
    type Session<'s> = PostgresqlSession<'s>;

    fn session(&self) -> Result<PostgresqlSession<'_>, EngineError> {
        let open = || {
            let mut connection = connect(&self.address, &self.config)?;
            let level = settings::isolation(&self.config);
            for (name, sql) in [
                (BEGIN_READ, format!("BEGIN ISOLATION LEVEL {level} READ ONLY")),
                (BEGIN_WRITE, format!("BEGIN ISOLATION LEVEL {level}")),
                (COMMIT, "COMMIT".to_owned()),
                (ROLLBACK, "ROLLBACK".to_owned()),
                (GET, format!("SELECT v FROM {TABLE} WHERE k = $1")),
                (SCAN[0], format!("SELECT k, v FROM {TABLE} WHERE k >= $1 ORDER BY k LIMIT {}", PAGES[0])),
                (SCAN[1], format!("SELECT k, v FROM {TABLE} WHERE k > $1 ORDER BY k LIMIT {}", PAGES[1])),
                (PUT, format!("INSERT INTO {TABLE}(k, v) VALUES($1, $2) ON CONFLICT(k) DO UPDATE SET v = excluded.v")),
                (DELETE, format!("DELETE FROM {TABLE} WHERE k = $1")),
            ] {
                connection.prepare(name, &sql);
            }
            connection.exchange(|_| ())?;
            Ok(connection)
        };
        let connection = open().map_err(while_("opening a session"))?;
        Ok(PostgresqlSession { connection, store: self })
    }

    fn version(&self) -> Option<String> {
        Some(self.version.clone())
    }

    fn in_force(&self) -> Result<InForce, EngineError> {
        Ok(self.in_force.clone())
    }

    /// A commit that waits for the disk: the log up to it is written, and so are all commits before it. A commit without a record
    /// of its own would not wait (`RecordTransactionCommit`).
    fn persist(&self) -> Result<(), EngineError> {
        if self.config.class == Durability::None {
            let what = "`persist` on a server that does not wait for the disk".to_owned();
            return Err(EngineError::Unsupported { engine: ENGINE, what });
        }
        let flush =
            "BEGIN; SET LOCAL synchronous_commit = on; SELECT pg_logical_emit_message(true, 'prony', ''); COMMIT";
        self.control().query(flush).map(drop).map_err(while_("writing the log"))
    }

    fn close(self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Names of the prepared statements.
const BEGIN_READ: &str = "r";
const BEGIN_WRITE: &str = "w";
const COMMIT: &str = "c";
const ROLLBACK: &str = "x";
const GET: &str = "g";
const SCAN: [&str; 2] = ["s", "n"];
const PUT: &str = "p";
const DELETE: &str = "d";

impl PostgresqlSession<'_> {
    fn transaction(&mut self, begin: &'static str) -> PostgresqlTransaction<'_> {
        let (connection, store) = (&mut self.connection, self.store);
        PostgresqlTransaction { connection, store, begin, begun: false, open: false, failed: false }
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

    fn read(&mut self) -> Result<PostgresqlTransaction<'_>, EngineError> {
        Ok(self.transaction(BEGIN_READ))
    }

    fn write(&mut self) -> Result<PostgresqlTransaction<'_>, EngineError> {
        Ok(self.transaction(BEGIN_WRITE))
    }
}

impl PostgresqlTransaction<'_> {
    /// Adds a statement, after the begin of the transaction where it is the first.
    fn add(&mut self, statement: &str, values: &[&[u8]]) {
        if !self.begun {
            self.connection.run(self.begin, &[]);
            self.begun = true;
        }
        self.connection.run(statement, values);
    }

    /// Sends what was added, and reads the answers.
    fn exchange(&mut self, doing: &'static str, row: impl FnMut(&[u8])) -> Result<(), EngineError> {
        self.open = true;
        let answered = self.connection.exchange(row);
        self.failed |= answered.is_err();
        answered.map(drop).map_err(while_(doing))
    }

    /// Adds a write; many are sent before the commit.
    fn write(&mut self, doing: &'static str, statement: &str, values: &[&[u8]]) -> Result<(), EngineError> {
        self.add(statement, values);
        if self.connection.waiting() > COLLECTED { self.exchange(doing, |_| ()) } else { Ok(()) }
    }

    /// Discards what was added, and on the server what was sent.
    fn roll_back(&mut self) -> Result<(), EngineError> {
        self.connection.discard();
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        self.connection.run(ROLLBACK, &[]);
        self.connection.exchange(|_| ()).map(drop).map_err(while_("discarding a transaction"))
    }
}

impl Drop for PostgresqlTransaction<'_> {
    fn drop(&mut self) {
        // No caller is left to report an error to; the next `BEGIN` would report a transaction that is still open.
        let _ = self.roll_back();
    }
}

impl Read for PostgresqlTransaction<'_> {
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        let mut there = false;
        self.add(GET, &[key]);
        self.exchange("reading a value", |row| {
            if let Some(Some(value)) = columns(row).next() {
                there = true;
                found(value);
            }
        })?;
        Ok(there)
    }

    fn scan(&mut self, from: &[u8], mut row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        let (mut from, mut page) = (from.to_vec(), 0);
        loop {
            let (mut rows, mut over) = (0, false);
            self.add(SCAN[page], &[from.as_slice()]);
            self.exchange("scanning", |found| {
                let mut columns = columns(found);
                if let (false, Some(Some(key)), Some(Some(value))) = (over, columns.next(), columns.next()) {
                    rows += 1;
                    over = row(key, value).is_break();
                    if rows == PAGES[page] {
                        key.clone_into(&mut from);
                    }
                }
            })?;
            if over || rows < PAGES[page] {
                return Ok(());
            }
            page = 1;
        }
    }

    fn finish(mut self) -> Result<(), EngineError> {
        if self.begin == BEGIN_WRITE || self.failed || settings::may_be_refused(&self.store.config) {
            return self.roll_back();
        }
        if std::mem::take(&mut self.open) {
            self.connection.run(COMMIT, &[]);
            self.connection.exchange_later().map_err(while_("ending a transaction"))?;
        }
        Ok(())
    }
}

impl Write for PostgresqlTransaction<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        if key.len() > MAX_KEY {
            return Err(failed(ENGINE, "storing a value", format!("a key has at most {MAX_KEY} bytes")));
        }
        self.write("storing a value", PUT, &[key, value])
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        self.write("removing a value", DELETE, &[key]).map(|()| true)
    }

    fn commit(mut self) -> Result<(), EngineError> {
        let refused = || failed(ENGINE, "committing", "the transaction has failed before");
        if self.failed {
            self.roll_back()?;
            return Err(refused());
        }
        if !self.begun {
            return Ok(());
        }
        self.connection.run(COMMIT, &[]);
        self.open = true;
        let answered = self.connection.exchange(|_| ());
        match answered.map_err(while_("committing")) {
            Ok(answered) if answered.rolled_back => {
                self.open = false;
                Err(refused())
            }
            Ok(_) => {
                self.open = false;
                Ok(())
            }
            // The server has skipped the commit, or refused it; its error is what counts.
            Err(error) => {
                let _ = self.roll_back();
                Err(error)
            }
        }
    }
}
