//! The driver of PostgreSQL: a server, at the URL of the store.
//!
//! One table `prony_records(k bytea PRIMARY KEY, v bytea)` in the first schema of the session's search path. A trial begins with
//! a new one: that of an earlier trial is dropped. Every session is a connection of its own, with its statements prepared once.
//! Writes are collected and sent with the commit, or with the next read of the transaction, or when there are many. What is
//! sent as a whole needs no `BEGIN` and `COMMIT`: statements that are sent together are one transaction ("pipelining" in the
//! chapter on the protocol). So a transaction that only writes is one round trip, and a read of one record is a single statement.
//! In other read transactions `BEGIN` is sent with the first statement, and the end without waiting for its answer.
//!
//! [`settings`] holds the options and what settings of the server amount to, [`connection`] the protocol.

mod address;
mod connection;
mod settings;

use std::fs;
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

/// In the trial's directory: the comment on its table.
const MARKER: &str = "postgresql-tables";

/// The table.
const TABLE: &str = "prony_records";

/// The comment on a table that prony has made, before what distinguishes it from others.
const COMMENT: &str = "of a trial of prony: ";

/// The advisory lock of whoever has a table in a schema.
const LOCK: &str = "hashtext('prony'), hashtext(current_schema())";

/// How long the sessions of an earlier trial may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest key: an entry of a B-tree has at most 2704 bytes (`BTMaxItemSize`), of which 8 are its head and 4 the length.
const MAX_KEY: usize = 2692;

/// Writes that are collected before they are sent.
const COLLECTED: usize = 256 << 10;

/// The most rows that are fetched at once: two to this power.
const PAGE: usize = 10;

/// The statements of scans, from a key on and after a key, with a bound of two to the power of their place: a statement without
/// a bound would be planned as if all rows were read, and one with its bound as a parameter would be planned for each run.
const SCANS: [[&str; PAGE + 1]; 2] = [
    ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10"],
    ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "n10"],
];

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
                in_memory: false,
                // The metrics of a phase are the server's, not those of its workers: threads are its clients.
                processes: false,
                concurrent_writers: true,
                commits_wait_for_readers: false,
                collects_writes: true,
                reports_removals: false,
                own_documents: false,
                compresses: true,
                server: true,
                max_key: Some(MAX_KEY as u64),
            },
            promises: settings::promises(),
            options: settings::option_specs(),
            idiom: "one table with a primary key of bytea; a connection per session, its statements prepared once; the writes of \
                    a transaction are sent together in one round trip (pipelining), reads in one each; a single read or \
                    write is one statement without BEGIN and COMMIT; an upsert for puts; scans fetch as many rows as are \
                    read, at most 1024 at once; no separate path for appends"
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
        make_table(&mut control, &dir.join(MARKER))?;
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

/// Makes the table, in place of that of an earlier trial if this is the first opening in the trial's directory; `marker` has the
/// comment on the table, which no other table has. As long as the connection lives, nobody else makes one here.
fn make_table(control: &mut Connection, marker: &Path) -> Result<(), EngineError> {
    let making = while_("making the table");
    let of_this_trial = fs::read_to_string(marker).ok();
    let kind = if of_this_trial.is_some() { "_shared" } else { "" };
    await_lock(control, kind)?;
    // In this schema: the name alone would be looked for in all of the search path.
    let found = format!(
        "SELECT format('%I.{TABLE}', current_schema()), coalesce(obj_description(found, 'pg_class'), ''), found IS NULL \
         FROM (SELECT to_regclass(format('%I.{TABLE}', current_schema())) AS found) AS here"
    );
    let found = control.query(&found).map_err(&making)?.concat();
    let [Some(table), Some(comment), Some(absent)] = found.as_slice() else {
        return Err(failed(ENGINE, "making the table", "the search path has no schema that exists"));
    };
    if let Some(own) = of_this_trial {
        let what = "the table of this trial was replaced, by another run of prony at the same database and schema";
        return if own == *comment { Ok(()) } else { Err(failed(ENGINE, "opening the store", what)) };
    }
    if absent == "f" && !comment.starts_with(COMMENT) {
        let what = format!("there is a table `{table}` that prony did not make: use another schema or database");
        return Err(failed(ENGINE, "opening the store", what));
    }
    let tag = control.query("SELECT gen_random_uuid()").map_err(&making)?.concat();
    let comment = format!("{COMMENT}{}", tag.into_iter().flatten().collect::<String>());
    let create = format!(
        "DROP TABLE IF EXISTS {table}; CREATE TABLE {table}(k bytea NOT NULL PRIMARY KEY, v bytea NOT NULL); \
         ALTER TABLE {table} ALTER k SET STORAGE PLAIN; COMMENT ON TABLE {table} IS '{comment}'"
    );
    control.query(&create).map_err(&making)?;
    fs::write(marker, comment).map_err(|error| failed(ENGINE, "opening the store", error))?;
    // Without a moment in which nobody has the lock.
    await_lock(control, "_shared")?;
    control.query(&format!("SELECT pg_advisory_unlock({LOCK})")).map(drop).map_err(&making)
}

/// Takes a lock of the schema, when the sessions of an earlier trial have ended.
fn await_lock(control: &mut Connection, kind: &str) -> Result<(), EngineError> {
    let until = Instant::now() + PATIENCE;
    let lock = format!("SELECT pg_try_advisory_lock{kind}({LOCK})");
    while control.query(&lock).map_err(while_("making the table"))?.concat() != [Some("t".to_owned())] {
        if Instant::now() >= until {
            let what = "another run uses the table of prony in this schema".to_owned();
            return Err(failed(ENGINE, "opening the store", what));
        }
        thread::sleep(Duration::from_millis(20));
    }
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
            let (level, implicit) = settings::isolation(&self.config);
            let implicit = format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {implicit}");
            connection.query(&implicit)?;
            for (names, above) in SCANS.iter().zip([">=", ">"]) {
                for (name, power) in names.iter().zip(0..) {
                    let limit = 1 << power;
                    let scan = format!("SELECT k, v FROM {TABLE} WHERE k {above} $1 ORDER BY k LIMIT {limit}");
                    connection.prepare(name, &scan);
                }
            }
            for (name, sql) in [
                (BEGIN_READ, format!("BEGIN ISOLATION LEVEL {level} READ ONLY")),
                (BEGIN_WRITE, format!("BEGIN ISOLATION LEVEL {level}")),
                (COMMIT, "COMMIT".to_owned()),
                (ROLLBACK, "ROLLBACK".to_owned()),
                (GET, format!("SELECT v FROM {TABLE} WHERE k = $1")),
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
const PUT: &str = "p";
const DELETE: &str = "d";

impl PostgresqlSession<'_> {
    fn transaction(&mut self, kind: Kind) -> PostgresqlTransaction<'_> {
        let (connection, store) = (&mut self.connection, self.store);
        PostgresqlTransaction { connection, store, kind, open: false, failed: false }
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
        Ok(self.transaction(Kind::Reads))
    }

    fn read_once(&mut self) -> Result<PostgresqlTransaction<'_>, EngineError> {
        Ok(self.transaction(Kind::Once))
    }

    fn write(&mut self) -> Result<PostgresqlTransaction<'_>, EngineError> {
        Ok(self.transaction(Kind::Writes))
    }
}

impl PostgresqlTransaction<'_> {
    /// Sends what was added, and reads the answers; the transaction stays open.
    fn exchange(&mut self, doing: &'static str, row: impl FnMut(&[u8])) -> Result<(), EngineError> {
        let begin = if self.kind == Kind::Writes { BEGIN_WRITE } else { BEGIN_READ };
        if self.kind != Kind::Once && !std::mem::replace(&mut self.open, true) {
            self.connection.run_first(begin);
        }
        let answered = self.connection.exchange(row);
        self.failed |= answered.is_err();
        answered.map(drop).map_err(while_(doing))
    }

    /// Adds a write; many are sent before the commit.
    fn write(&mut self, doing: &'static str, statement: &str, values: &[&[u8]]) -> Result<(), EngineError> {
        self.connection.run(statement, values);
        if self.connection.waiting() > COLLECTED { self.exchange(doing, |_| ()) } else { Ok(()) }
    }

    /// Ends it with its commit.
    fn end(&mut self) -> Result<(), EngineError> {
        if self.open {
            self.connection.run(COMMIT, &[]);
        } else if self.connection.waiting() == 0 {
            return Ok(());
        }
        let answered = self.connection.exchange(|_| ());
        match answered.map_err(while_("committing")) {
            Ok(answered) => {
                self.open = false;
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
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        self.connection.run(ROLLBACK, &[]);
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
        let mut there = false;
        // What fails may be a write that is sent with it.
        let doing = if self.connection.waiting() > 0 {
            "sending the writes so far and reading a value"
        } else {
            "reading a value"
        };
        self.connection.run(GET, &[key]);
        self.exchange(doing, |row| {
            if let Some(Some(value)) = columns(row).next() {
                there = true;
                found(value);
            }
        })?;
        Ok(there)
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
        let (mut from, mut left, mut scans) = (from.to_vec(), rows, &SCANS[0]);
        if left > 1 << PAGE && self.kind == Kind::Once {
            // Its parts see one state.
            self.kind = Kind::Reads;
        }
        while left > 0 {
            let page = left.min(1 << PAGE);
            let (mut fetched, mut over) = (0, false);
            let power = page.next_power_of_two().trailing_zeros() as usize;
            self.connection.run_for_rows(scans[power], &[from.as_slice()], page as u32);
            let mut last = Vec::new();
            self.exchange("scanning", |found| {
                let mut columns = columns(found);
                if let (false, Some(Some(key)), Some(Some(value))) = (over, columns.next(), columns.next()) {
                    fetched += 1;
                    over = row(key, value).is_break();
                    if fetched == page {
                        key.clone_into(&mut last);
                    }
                }
            })?;
            if over || fetched < page {
                return Ok(());
            }
            (left, from, scans) = (left - page, last, &SCANS[1]);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), EngineError> {
        if self.kind == Kind::Writes || self.failed {
            return self.roll_back();
        }
        if settings::may_be_refused(&self.store.config) {
            return self.end();
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

    fn deliver(&mut self) -> Result<(), EngineError> {
        if self.connection.waiting() == 0 { Ok(()) } else { self.exchange("sending the writes so far", |_| ()) }
    }

    fn commit(mut self) -> Result<(), EngineError> {
        if self.failed {
            self.roll_back()?;
            return Err(failed_before());
        }
        self.end()
    }
}
