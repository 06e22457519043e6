//! The contract that the driver of every engine (the adapter through which prony uses it) fulfils.
//!
//! Called in this order: [`Driver::describe`] (any time, no store), [`Driver::check`] (plan time),
//! [`Driver::open`], then from each client thread [`Store::session`], then [`Session::read`] and
//! [`Session::write`] any number of times, and last [`Store::close`]. After `close` the same
//! directory can be opened again.
//!
//! Everything per operation is a direct, generic call: the worker picks the engine once per trial.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub use prony_model::catalog::{Capabilities, StoreFault};
use prony_model::record::effective::NamedSettings;
pub use prony_model::record::effective::{InForce, PowerCut, ProcessCrash, Promise};
use prony_model::spec::{DocumentSpec, Durability, FieldPath, FieldValue, OptionValue, QuerySpec, StoreSpec};
use serde::{Deserialize, Serialize};

use crate::own_query::OwnQuery;

/// The smallest key that every engine takes: a scan from here reads everything.
pub const FIRST_KEY: &[u8] = &[0];

/// Whether a scan continues after a row.
pub type Then = std::ops::ControlFlow<()>;

/// A storage engine.
pub trait Driver: 'static {
    /// An open store of this engine.
    type Store: Store;

    /// What the engine is and promises; the version is asked from the engine.
    fn describe() -> Description;

    /// The settings that result from `spec`, or everything that is wrong with it.
    ///
    /// # Errors
    /// An unknown option, a value that does not fit, or a durability class that is not offered.
    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>>;

    /// What it promises with the settings that result from `spec`, if these are right: one of those of its description.
    fn promise(spec: &StoreSpec) -> Option<Promise> {
        let class = Self::check(spec).ok()?.class;
        Self::describe().promises.into_iter().find(|promise| promise.class == class)
    }

    /// What it can do with the settings that result from `spec`.
    fn capabilities(_spec: &StoreSpec) -> Capabilities {
        Self::describe().capabilities
    }

    /// Opens the store in `dir`, which exists; creates it where `dir` is empty. A server is connected to, and nothing else:
    /// [`Store::set_up_tables`] asks it what is needed.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn open(dir: &Path, spec: &StoreSpec) -> Result<Self::Store, EngineError>;

    /// The query of a table's documents in the engine's own language, with [`Capabilities::own_documents`]; it compares with
    /// values of a `page`, the document of an operation's record.
    fn own_query(
        _query: &QuerySpec,
        _document: &DocumentSpec,
        _page: &DocumentSpec,
        _table: &Table,
    ) -> Option<OwnQuery> {
        None
    }
}

/// A collection, for an engine that has a table for each. The calls of the contract name no table: a key begins with the byte
/// of its table, which is not stored, and a scan ends with the table in which it begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The collection's name; `None` where the store has only one.
    pub name: Option<String>,
    /// The byte before each key; `None` where the store has only one collection.
    pub byte: Option<u8>,
    /// Where the values are JSON documents and the engine has [`Capabilities::own_documents`].
    pub documents: Option<Documents>,
    /// Bytes of a record's key and value, on average; 0 where that is not known.
    pub record: u64,
}

/// JSON documents of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Documents {
    /// How they are made.
    pub spec: Arc<DocumentSpec>,
    /// The fields of each index.
    pub indexes: Vec<Vec<FieldPath>>,
}

impl Table {
    /// The fields of each index that the engine is to have.
    pub fn indexes(&self) -> impl Iterator<Item = &[FieldPath]> {
        self.documents.iter().flat_map(|documents| &documents.indexes).map(Vec::as_slice)
    }
}

/// An open store, shared by the client threads.
pub trait Store: Sync + Sized {
    /// A session of one client.
    type Session<'s>: Session
    where
        Self: 's;

    /// A session for one client thread.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn session(&self) -> Result<Self::Session<'_>, EngineError>;

    /// The collections that the store holds: called after the opening. An engine without tables has nothing to do: the byte
    /// before its keys says to which collection a record belongs. Of several processes that share the store only the `first` may
    /// write, also what the engine itself would write.
    ///
    /// Of a server it is called for every store, and not timed: it reads the server's settings, and makes what is at the URL an
    /// empty store at the first opening in the trial's directory.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn set_up_tables(&mut self, _tables: &[Table], _first: bool) -> Result<(), EngineError> {
        Ok(())
    }

    /// What the engine says of the way in which it runs a query in its own language, with what it binds.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn explain(&self, _own_query: &str, _bound: &[FieldValue]) -> Result<String, EngineError> {
        Ok(String::new())
    }

    /// The version that the open store has, of an engine that is a server; `None` where that of the description is it.
    fn version(&self) -> Option<String> {
        None
    }

    /// Pragmas, flags and options in force, read back from the engine where it can be asked.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn in_force(&self) -> Result<InForce, EngineError>;

    /// Everything committed is on the disk when this returns; the memory engine writes its snapshot.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn persist(&self) -> Result<(), EngineError>;

    /// Runs the engine's own check of the whole store, while no session is open; what it finds wrong, nothing where the store
    /// is intact. `None` where the engine has no such check.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn check_integrity(&mut self) -> Result<Option<Vec<String>>, EngineError> {
        Ok(None)
    }

    /// The engine's own counters, by name; may be empty.
    fn counters(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    /// Finds out, outside of what is timed, whether the store is still the one that was opened: others may have taken its place on
    /// a server.
    ///
    /// # Errors
    /// Where it is not, or that cannot be found out.
    fn confirm(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Closes the store, by default by dropping it; what the engine does in its destructor happens before this returns.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn close(self) -> Result<(), EngineError> {
        drop(self);
        Ok(())
    }
}

/// One client's session.
pub trait Session {
    /// A read transaction: one consistent snapshot where the engine offers one.
    type Read<'t>: Read
    where
        Self: 't;
    /// A write transaction.
    type Write<'t>: Write
    where
        Self: 't;

    /// Prepares a query in the engine's own language, so that its first run is like the others.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn prepare(&mut self, _own_query: &str) -> Result<(), EngineError> {
        Ok(())
    }

    /// Begins a read transaction; never takes a writer's lock.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn read(&mut self) -> Result<Self::Read<'_>, EngineError>;

    /// As [`Session::read`], for one `get` or one scan: an engine that reads without a transaction, in one consistent state,
    /// does so.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn read_once(&mut self) -> Result<Self::Read<'_>, EngineError> {
        self.read()
    }

    /// Begins a write transaction.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn write(&mut self) -> Result<Self::Write<'_>, EngineError>;

    /// As [`Session::write`], for one put, append or delete that reads nothing, and whose commit follows: an engine in which a write
    /// is a transaction of its own makes none around it. Where the write fails, nothing is stored.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn write_once(&mut self) -> Result<Self::Write<'_>, EngineError> {
        self.write()
    }
}

/// What can be read, in a read transaction or in a write transaction (which sees its own writes).
pub trait Read: Sized {
    /// Hands the value to `found`, without a copy where the engine can; `false` where there is none.
    ///
    /// # Errors
    /// Whatever the engine says; `Unsupported` in a write transaction without [`Capabilities::reads_own_writes`].
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, EngineError>;

    /// Hands the rows with keys from `from` on, in key order, to `row`, until that breaks off.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError>;

    /// As [`Read::scan`], with a `row` that breaks off after so many rows or before: for an engine that fetches them in advance.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn scan_at_most(
        &mut self,
        from: &[u8],
        _rows: u64,
        row: impl FnMut(&[u8], &[u8]) -> Then,
    ) -> Result<(), EngineError> {
        self.scan(from, row)
    }

    /// Runs a query in the engine's own language, with what it binds: hands keys and values to `row` in their order, or
    /// returns how many there are if the query counts them.
    ///
    /// # Errors
    /// Whatever the engine says; `Unsupported` without [`Capabilities::own_documents`].
    fn select(
        &mut self,
        _own_query: &str,
        _bound: &[FieldValue],
        _row: impl FnMut(&[u8], &[u8]) -> Then,
    ) -> Result<u64, EngineError> {
        Err(EngineError::Unsupported { engine: "the engine", what: "queries".to_owned() })
    }

    /// Ends a read transaction; discards a write transaction. By default it is dropped.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn finish(self) -> Result<(), EngineError> {
        drop(self);
        Ok(())
    }
}

/// What can be written.
pub trait Write: Read {
    /// As [`Read::get`], of what is to be replaced: where transactions run at the same time, a commit of another that replaces it in
    /// between is a conflict.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn get_to_write(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        self.get(key, found)
    }

    /// Stores a value, in place of an older one where there is one.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError>;

    /// Stores a value whose key is above all stored keys; engines with such a path take it.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.put(key, value)
    }

    /// Removes a value; whether there was one, with [`Capabilities::reports_removals`] (else `true`).
    ///
    /// # Errors
    /// Whatever the engine says.
    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError>;

    /// The engine has carried out every write so far when this returns, in a transaction that stays open.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn deliver(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Commits with the durability of the store's settings.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn commit(self) -> Result<(), EngineError>;
}

/// What an engine is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The driver's name, as in `engine = "lmdb"`.
    pub name: String,
    /// As the engine itself reports.
    pub version: String,
    /// The library it is driven through, with its version.
    pub library: String,
    /// What it can do.
    pub capabilities: Capabilities,
    /// The durability classes it offers, with the settings behind each.
    pub promises: Vec<Promise>,
    /// The options it takes.
    pub options: Vec<OptionSpec>,
    /// What idiomatic use this driver makes of it: statement preparation, transactions, append flags.
    pub idiom: String,
}

/// An option a driver takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OptionSpec {
    /// Its name.
    pub name: String,
    /// What values it takes.
    pub kind: OptionKind,
    /// One sentence.
    pub doc: String,
    /// What is used when it is not given, as text.
    pub default: String,
}

/// What values an option takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionKind {
    /// `true` or `false`.
    Bool,
    /// A whole number in this range.
    Int {
        /// Least.
        min: i64,
        /// Greatest.
        max: i64,
    },
    /// An amount of memory or storage, such as `"1 GiB"`.
    Bytes,
    /// One of these words.
    OneOf(Vec<String>),
}

/// The settings that result from a spec on an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The durability class of the settings, whether it was requested or follows from options.
    pub class: Durability,
    /// Each setting in force by name, defaults included.
    pub values: NamedSettings,
}

/// An error of an engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No such driver in this build.
    #[error("no engine `{0}` in this build")]
    Unknown(String),
    /// The engine does not offer it.
    #[error("`{engine}` does not offer {what}")]
    Unsupported {
        /// The driver's name.
        engine: &'static str,
        /// What was requested.
        what: String,
    },
    /// The engine could not get memory.
    #[error("`{engine}` ran out of memory while {doing}")]
    OutOfMemory {
        /// The driver's name.
        engine: &'static str,
        /// What was being done.
        doing: &'static str,
    },
    /// The disk is full.
    #[error("`{engine}` found the disk full while {doing}")]
    DiskFull {
        /// The driver's name.
        engine: &'static str,
        /// What was being done.
        doing: &'static str,
        /// The engine's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another transaction, at the same time, has changed what this one depends on. Of engines with
    /// [`Capabilities::concurrent_writers`].
    #[error("`{engine}` met a conflict with another transaction while {doing}")]
    Conflict {
        /// The driver's name.
        engine: &'static str,
        /// What was being done.
        doing: &'static str,
        /// The engine's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What is stored contradicts itself.
    #[error("the stored data are wrong: {0}")]
    WrongData(String),
    /// The engine's own error.
    #[error("`{engine}` failed while {doing}")]
    Engine {
        /// The driver's name.
        engine: &'static str,
        /// What was being done: `opening the store`, `committing`.
        doing: &'static str,
        /// The engine's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A value that a driver's option cannot take, as a fault.
pub(crate) fn bad_value(option: &str, value: &OptionValue, wanted: &str) -> StoreFault {
    let shown = match value {
        OptionValue::Bool(on) => on.to_string(),
        OptionValue::Int(n) => n.to_string(),
        OptionValue::Float(n) => n.to_string(),
        OptionValue::Text(text) => text.clone(),
    };
    StoreFault {
        option: Some(option.to_owned()),
        message: format!("`{option}` cannot be `{shown}`; it takes {wanted}"),
        hint: None,
    }
}
