//! The driver of PostgreSQL: a server, at the URL of the store.
//!
//! One table `prony_records(k bytea PRIMARY KEY, v bytea)` in the first schema of the session's search path, or one for each of
//! several collections ([`tables`]). A trial begins with new ones: those of an earlier trial are dropped. JSON documents are stored as
//! `jsonb`, with indexes of expressions, and are queried in SQL ([`query`]); their text is written again from what the server has of
//! their values ([`json_text`]). Every session is a connection of its own, with its statements prepared once ([`session`]).
//! Writes are collected and sent with the commit, or with the next read of the transaction, or when there are many. What is
//! sent as a whole needs no `BEGIN` and `COMMIT`: statements that are sent together are one transaction ("pipelining" in the
//! chapter on the protocol). So a transaction that only writes is one round trip, and a read of one record is a single statement.
//! In other read transactions `BEGIN` is sent with the first statement, and the end without waiting for its answer.
//!
//! [`settings`] holds the options and what settings of the server amount to.

mod explained;
mod json_text;
mod query;
mod session;
mod settings;
mod tables;
mod values;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prony_model::record::effective::NamedSettings;
use prony_model::spec::{DocumentSpec, Durability, FieldValue, QuerySpec, StoreSpec};
use prony_servers::postgresql::{Address, Connection, Failure};

pub use self::session::{PostgresqlSession, PostgresqlTransaction};
use self::tables::OfTable;
use crate::driver::{Capabilities, Description, Driver, EngineError, InForce, Settings, Store, StoreFault, Table};
use crate::failure::{disk_full, failed, refused, unsupported};
use crate::options::Config;
use crate::own_query::OwnQuery;
use crate::{server, sql};

const ENGINE: &str = "postgresql";

/// In the trial's directory: the comment on its tables.
const MARKER: &str = "postgresql-tables";

/// The longest key: an entry of a B-tree has at most 2704 bytes (`BTMaxItemSize`), of which 8 are its head and 4 the length.
const MAX_KEY: usize = 2692;

/// PostgreSQL.
pub struct Postgresql;

/// A database of a PostgreSQL server.
pub struct PostgresqlStore {
    address: Address,
    config: Config,
    in_force: InForce,
    control: Mutex<Connection>,
    tables: Vec<OfTable>,
    /// The file with the comment on the tables of this trial.
    marker: PathBuf,
}

impl Driver for Postgresql {
    type Store = PostgresqlStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: "a server, by version 3.0 of its protocol".to_owned(),
            library: format!("prony-servers {}", env!("CARGO_PKG_VERSION")),
            capabilities: Capabilities {
                batches: true,
                reads_own_writes: true,
                open_transactions: true,
                snapshots: true,
                ordered: true,
                persistent: true,
                concurrent_writers: true,
                collects_writes: true,
                own_documents: true,
                stores_values: true,
                compresses: true,
                server: true,
                max_key: Some(MAX_KEY as u64),
                ..Capabilities::default()
            },
            promises: settings::promises(),
            options: settings::option_specs(),
            idiom: "one table with a primary key of bytea; a connection per session, its statements prepared once; the writes of \
                    a transaction are sent together in one round trip (pipelining), reads in one each; a single read or \
                    write is one statement without BEGIN and COMMIT; an upsert for puts; scans fetch as many rows as are \
                    read, at most 1024 at once; no separate path for appends; JSON documents as jsonb, whose text is \
                    written again in the client with the names in their order, where a driver parses it into objects of its \
                    language: that is timed too; indexes are B-trees of expressions with the key as their last column, and \
                    queries are prepared statements, planned once (plan_cache_mode = force_generic_plan)"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        server::check(spec, settings::configure(spec), Address::parse, "postgresql://USER@HOST:PORT/DATABASE")
    }

    fn capabilities(spec: &StoreSpec) -> Capabilities {
        let can = Self::describe().capabilities;
        let snapshots = settings::configure(spec).is_ok_and(|config| settings::has_snapshots(&config));
        Capabilities { snapshots, ..can }
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<PostgresqlStore, EngineError> {
        let config = settings::configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let address = server::address(ENGINE, spec, Address::parse)?;
        let control = Mutex::new(connect(&address, &config).map_err(while_("opening the store"))?);
        let in_force = config.in_force(NamedSettings::new());
        Ok(PostgresqlStore { address, config, in_force, control, tables: Vec::new(), marker: dir.join(MARKER) })
    }

    fn own_query(query: &QuerySpec, document: &DocumentSpec, page: &DocumentSpec, table: &Table) -> Option<OwnQuery> {
        Some(sql::select::<query::Postgresql>(query, document, page, table))
    }
}

fn connect(address: &Address, config: &Config) -> Result<Connection, Failure> {
    let mut connection = Connection::open(address, "prony", None)?;
    // The server does not end sessions that have nothing to do for a while, with whose end their locks end too. Before version 14
    // there is no such setting.
    let stay = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'";
    let commit = settings::synchronous_commit(config.class);
    connection.set_up(&format!("SET synchronous_commit = {commit}; {stay}"))?;
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
    let advice = match config.class {
        Durability::None => "start it with `-c fsync=off`",
        _ => "start it with `-c fsync=on -c full_page_writes=on`",
    };
    let names = ["fsync", "full_page_writes", "synchronous_commit"];
    Err(unsupported(ENGINE, server::misfit(config, read_back, names, advice)))
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

    /// The table of a key, and the key as it is stored there.
    #[inline]
    fn of<'k>(&self, key: &'k [u8]) -> Option<(&OfTable, &'k [u8])> {
        let table = self.tables.iter().find(|table| table.byte.is_none() || table.byte == key.first().copied())?;
        Some((table, &key[usize::from(table.byte.is_some())..]))
    }
}

impl Store for PostgresqlStore {
    type Session<'s> = PostgresqlSession<'s>;

    fn session(&self) -> Result<PostgresqlSession<'_>, EngineError> {
        let connection = connect(&self.address, &self.config).map_err(while_("opening a session"))?;
        PostgresqlSession::new(connection, self)
    }

    fn set_up_tables(&mut self, tables: &[Table], first: bool) -> Result<(), EngineError> {
        let control = self.control.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.in_force.read_back = read_back(control).map_err(while_("opening the store"))?;
        fits(&self.config, &self.in_force.read_back)?;
        let comment = tables::claim(control, &self.marker)?;
        if first {
            tables::make(control, tables, &comment)?;
        }
        if tables.iter().any(|table| table.documents.is_some()) {
            settings::compares_texts_by_bytes(&self.in_force.read_back)?;
            let indexes = tables::indexes(control, tables).map_err(while_("reading the indexes"))?;
            self.in_force.read_back.insert("indexes".to_owned(), indexes.into());
        }
        let numbered = tables.iter().enumerate().map(|(number, table)| OfTable::new(number, table));
        self.tables = numbered.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn explain(&self, own_query: &str, _: &[FieldValue]) -> Result<String, EngineError> {
        let plan = explained::plan(&mut self.control(), own_query).map_err(while_("explaining a query"))?;
        Ok(plan.unwrap_or_else(|| "not known".to_owned()))
    }

    fn version(&self) -> Option<String> {
        Some(server::text(&self.in_force.read_back, "server_version").unwrap_or_default().to_owned())
    }

    fn in_force(&self) -> Result<InForce, EngineError> {
        Ok(self.in_force.clone())
    }

    /// A commit that waits for the disk: the log up to it is written, and so are all commits before it. A commit without a record
    /// of its own would not wait (`RecordTransactionCommit`).
    fn persist(&self) -> Result<(), EngineError> {
        if self.config.class == Durability::None {
            return Err(unsupported(ENGINE, "`persist` on a server that does not wait for the disk"));
        }
        let flush =
            "BEGIN; SET LOCAL synchronous_commit = on; SELECT pg_logical_emit_message(true, 'prony', ''); COMMIT";
        self.control().query(flush).map(drop).map_err(while_("writing the log"))
    }

    /// While the session that made the tables has its lock, no other run has taken them.
    fn confirm(&self) -> Result<(), EngineError> {
        tables::confirm(&mut self.control())
    }
}
