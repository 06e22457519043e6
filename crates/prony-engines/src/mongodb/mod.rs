//! The driver of MongoDB: a server, at the URL of the store.
//!
//! A record is a document of the collection `prony_records` (or one for each of several collections), with the record's key as its
//! `_id` ([`values`]). JSON documents are stored as documents, with indexes of the server, and are queried in its language
//! ([`query`]). Every session is a connection of its own. Each operation is one command and one round trip.
//!
//! Each write is atomic by itself. There are no transactions of several operations: a server that is no replica set has none, and
//! this driver uses none of a replica set. So there are no snapshots either.
//!
//! [`settings`] has what settings amount to, [`database`] how a database becomes a trial's.

mod database;
mod explained;
mod query;
mod session;
mod settings;
mod values;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prony_model::record::effective::NamedSettings;
use prony_model::spec::{DocumentSpec, FieldPath, FieldValue, QuerySpec, StoreSpec};
use prony_servers::mongodb::bson::{self, Value, Writer};
use prony_servers::mongodb::{Address, Connection, Failure};

pub use self::session::{MongodbRead, MongodbSession, MongodbWrite};
use crate::driver::{Capabilities, Description, Driver, EngineError, InForce, Settings, Store, StoreFault, Table};
use crate::failure::{disk_full, failed, refused, unsupported};
use crate::options::Config;
use crate::own_query::{Bound, Command, OwnQuery};
use crate::server;

const ENGINE: &str = "mongodb";

/// The database of a URL that names none.
const DATABASE: &str = "prony";

/// In the trial's directory: the mark of its store.
const MARKER: &str = "mongodb-store";

/// The longest key: before version 4.2 an entry of an index has at most 1024 bytes, and a byte of a key takes up to two.
const MAX_KEY: usize = 500;

/// MongoDB.
pub struct Mongodb;

/// A database of a server.
pub struct MongodbStore {
    address: Address,
    database: String,
    config: Config,
    in_force: InForce,
    /// Each with the name of its collection.
    tables: Vec<(Table, String)>,
    control: Mutex<Connection>,
    /// The file with the mark, once the store is made.
    marker: PathBuf,
    mark: String,
}

impl Driver for Mongodb {
    type Store = MongodbStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: "a server of MongoDB 3.6 or newer".to_owned(),
            library: format!("prony-servers {}", env!("CARGO_PKG_VERSION")),
            capabilities: Capabilities {
                ordered: true,
                persistent: true,
                concurrent_writers: true,
                collects_writes: true,
                own_documents: true,
                compresses: true,
                server: true,
                max_key: Some(MAX_KEY as u64),
                ..Capabilities::default()
            },
            promises: settings::promises(),
            options: Vec::new(),
            idiom: "a document for each record, with the key as the text `_id`; a connection per session; a read by key is `find` \
                    with a limit of 1, a put is `update` with `upsert`, each one round trip; JSON documents are converted to \
                    BSON and back in the client, where a driver converts objects of its language: that is timed too; the \
                    command of a query is built with the operation's values before it is timed; indexes are the server's, with `_id` as \
                    their last field, and queries are `find`, `count` or a pipeline by the server's planner"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        server::check(spec, settings::configure(spec), address, "mongodb://HOST:PORT/DATABASE")
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<MongodbStore, EngineError> {
        let config = settings::configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let address = server::address(ENGINE, spec, address)?;
        let database = address.database.clone().unwrap_or_else(|| DATABASE.to_owned());
        let marker = dir.join(MARKER);
        let (control, mark) = database::connect(&address, &database, &marker)?;
        let (in_force, control) = (config.in_force(NamedSettings::new()), Mutex::new(control));
        Ok(MongodbStore { address, database, config, in_force, tables: Vec::new(), control, marker, mark })
    }

    fn own_query(query: &QuerySpec, document: &DocumentSpec, _: &DocumentSpec, table: &Table) -> Option<OwnQuery> {
        let (query, document, collection) = (query.clone(), document.clone(), query::collection(table));
        let command = Command { query, document, collection, build: query::select };
        Some(OwnQuery { text: String::new(), bound: vec![Bound::Command(Box::new(command))] })
    }
}

fn address(url: &str) -> Result<Address, &'static str> {
    if !url.contains("://") {
        return Err("the URL does not begin with `mongodb://`");
    }
    Address::parse(url)
}

/// Numbers of MongoDB's errors (`error_codes.yml`).
const NAMESPACE_EXISTS: i64 = 48;
const WRITE_CONFLICT: i64 = 112;
const EXCEEDED_MEMORY_LIMIT: i64 = 146;
const DUPLICATE_KEY: i64 = 11000;
const OUT_OF_DISK_SPACE: i64 = 14031;

/// Errors of the connection and of the server as ours.
fn while_(doing: &'static str) -> impl Fn(Failure) -> EngineError {
    move |failure| match &failure {
        // Of two writes that store a record where there is none, one may meet the other's; version 4.2 tries again itself.
        Failure::Server { code: WRITE_CONFLICT | DUPLICATE_KEY, .. } => {
            EngineError::Conflict { engine: ENGINE, doing, source: failure.into() }
        }
        Failure::Server { code: OUT_OF_DISK_SPACE, .. } => disk_full(ENGINE, doing, failure),
        Failure::Server { code: EXCEEDED_MEMORY_LIMIT, .. } => EngineError::OutOfMemory { engine: ENGINE, doing },
        _ => failed(ENGINE, doing, failure),
    }
}

impl MongodbStore {
    fn control(&self) -> MutexGuard<'_, Connection> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the collections and their indexes, where they are not there; the indexes that they really have.
    fn make_collections(&mut self) -> Result<Vec<String>, EngineError> {
        let control = self.control.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut indexes = Vec::new();
        for (table, name) in &self.tables {
            match control.ask(|create| create.text("create", name)) {
                Err(Failure::Server { code: NAMESPACE_EXISTS, .. }) => {}
                made => made.map(drop).map_err(while_("creating a collection"))?,
            }
            for fields in table.indexes() {
                control.ask(|command| create_index(command, name, fields)).map_err(while_("creating an index"))?;
            }
            let reading = while_("reading the indexes");
            let found = control.ask(|list| list.text("listIndexes", name)).map_err(reading)?;
            if let Some(Value::Array(batch)) = bson::at(found, &["cursor", "firstBatch"]) {
                let names = bson::fields(batch).flatten().filter_map(|(_, index)| match index {
                    Value::Document(index) => Some(format!("{name}: {}", bson::text(index, "name")?)),
                    _ => None,
                });
                indexes.extend(names);
            }
        }
        Ok(indexes)
    }

    /// The table of a key, and the key as it is stored there.
    #[inline]
    fn of<'k>(&self, key: &'k [u8]) -> Result<(&Table, &str, &'k [u8]), EngineError> {
        let found = self.tables.iter().find(|(table, _)| table.byte.is_none() || table.byte == key.first().copied());
        let (table, name) =
            found.ok_or_else(|| failed(ENGINE, "looking for a table", "the key is of no collection"))?;
        Ok((table, name, &key[usize::from(table.byte.is_some())..]))
    }
}

fn create_index(command: &mut Writer<'_>, collection: &str, fields: &[FieldPath]) {
    let mut places: Vec<String> = fields.iter().map(|field| query::path(&field.0)).collect();
    let name = places.join(", ");
    // Documents with equal values are in the order of their keys.
    places.push(values::KEY.to_owned());
    command.text("createIndexes", collection);
    command.array("indexes", |indexes| {
        indexes.document("0", |index| {
            index.document("key", |key| places.iter().for_each(|place| key.int32(place, 1)));
            index.text("name", &name);
        });
    });
}

impl Store for MongodbStore {
    type Session<'s> = MongodbSession<'s>;

    fn session(&self) -> Result<MongodbSession<'_>, EngineError> {
        let connection = Connection::open(&self.address, &self.database, &self.mark, None);
        Ok(MongodbSession::new(connection.map_err(while_("opening a session"))?, self))
    }

    fn set_up_tables(&mut self, tables: &[Table], _: bool) -> Result<(), EngineError> {
        let control = self.control.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.in_force.read_back = settings::read_back(control).map_err(while_("reading the server's settings"))?;
        if let Some(what) = settings::unusable(&self.in_force.read_back) {
            return Err(unsupported(ENGINE, what));
        }
        database::claim(control, &self.database, &self.mark, &self.marker)?;
        self.tables = tables.iter().map(|table| (table.clone(), query::collection(table))).collect();
        let indexes = self.make_collections()?;
        self.in_force.read_back.insert("indexes".to_owned(), indexes.into());
        Ok(())
    }

    fn explain(&self, _: &str, bound: &[FieldValue]) -> Result<String, EngineError> {
        let (name, _, write) = query::command(bound);
        let mut control = self.control();
        let explained = match name {
            // The command `explain` takes no pipeline on every version.
            "aggregate" => control.ask(|command| {
                write(command);
                command.flag("explain", true);
            }),
            _ => control.ask(|command| {
                command.document("explain", write);
                command.text("verbosity", "queryPlanner");
            }),
        };
        let explained = explained.map_err(while_("explaining a query"))?;
        Ok(explained::plan(explained).unwrap_or_else(|| "not known".to_owned()))
    }

    fn version(&self) -> Option<String> {
        Some(server::text(&self.in_force.read_back, "version").unwrap_or_default().to_owned())
    }

    fn in_force(&self) -> Result<InForce, EngineError> {
        Ok(self.in_force.clone())
    }

    /// A write that waits for the journal: all writes before it are in it.
    fn persist(&self) -> Result<(), EngineError> {
        let own = database::replace_mark(&mut self.control(), Some(&self.mark), &self.mark);
        if own.map_err(while_("writing the journal"))? { Ok(()) } else { Err(database::replaced(&self.database)) }
    }

    fn confirm(&self) -> Result<(), EngineError> {
        // That the server has ended the other connection says nothing of the database.
        let control = Connection::open(&self.address, &self.database, &self.mark, None);
        let mut control = control.map_err(while_("looking for the store"))?;
        database::verify(&mut control, &self.database, &self.mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_needs_its_scheme_and_a_password() {
        let fault = |url: &str| {
            let spec = StoreSpec { url: Some(url.to_owned()), ..StoreSpec::of(ENGINE) };
            Mongodb::check(&spec).err().map(|faults| (faults[0].option.clone(), faults.len()))
        };
        for url in ["mongodb://127.0.0.1:27017/db", "mongodb://user:password@host/db?authSource=admin"] {
            assert_eq!(fault(url), None);
        }
        for url in ["127.0.0.1:27017", "mongodb://user@host"] {
            assert_eq!(fault(url), Some((Some("url".to_owned()), 1)));
        }
    }
}
