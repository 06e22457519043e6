//! LevelDB in pure Rust, through `rusty-leveldb`.
//!
//! The library serves one caller at a time: even `get` needs the database exclusively. So a read
//! transaction holds the database until it ends, which makes it one snapshot, and a write
//! transaction is a `WriteBatch` that takes the database when it commits. There is no transaction
//! that reads its own writes.
//!
//! Durability, from `log.rs`, `disk_env.rs` and `db_impl.rs`: what the library calls a sync empties
//! its buffer into the system; no file is ever synced, and a log is removed while the table made of
//! it may not be on the disk. So a commit survives the process where `flush` is on, and nothing is
//! promised of a power cut (none).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prony_core::experiment::spec::{Durability, StoreSpec};
use rusty_leveldb::{CompressorId, DB, LdbIterator, Options, Status, WriteBatch, compressor};
use serde_json::{Value, json};

use crate::driver::{
    Capabilities, Description, Driver, EngineError, OptionFault, OptionKind, OptionSpec, Promise, Read, Session,
    Settings, Store, Write,
};
use crate::failure::{failed, refused};
use crate::files::sync_tree;
use crate::options::{self, one_of, option, promise};
use crate::versions;

const ENGINE: &str = "leveldb";

/// LevelDB.
pub struct LevelDb;

/// A LevelDB database.
pub struct LevelDbStore {
    db: Mutex<DB>,
    dir: PathBuf,
    config: Config,
}

/// A client of a LevelDB database.
pub struct LevelDbSession<'s> {
    store: &'s LevelDbStore,
}

/// The database, held.
pub struct LevelDbRead<'t> {
    db: MutexGuard<'t, DB>,
}

/// Operations to apply together.
pub struct LevelDbWrite<'t> {
    store: &'t LevelDbStore,
    batch: WriteBatch,
}

#[derive(Clone, Copy)]
struct Config {
    flush: bool,
    write_buffer: u64,
    cache: u64,
    block_size: u64,
    snappy: bool,
}

fn option_specs() -> Vec<OptionSpec> {
    vec![
        option("flush", OptionKind::Bool, "true", "each commit empties the log's buffer into the system (sync)"),
        option("write_buffer", OptionKind::Bytes, "4 MiB", "size at which a memtable is flushed (write_buffer_size)"),
        option("cache", OptionKind::Bytes, "4 MiB", "block cache (block_cache_capacity_bytes)"),
        option("block_size", OptionKind::Bytes, "4 KiB", "data block (block_size)"),
        option("compression", one_of(&["none", "snappy"]), "none", "of data blocks (compressor)"),
    ]
}

fn promises() -> Vec<Promise> {
    vec![promise(Durability::None, "nothing is ever synced", true)]
}

fn configure(spec: &StoreSpec) -> Result<Config, Vec<OptionFault>> {
    let (given, mut faults) = options::read(spec, &option_specs());
    faults.extend(options::class(spec, &promises()).err());
    let config = Config {
        flush: given.flag("flush").unwrap_or(true),
        write_buffer: given.bytes("write_buffer").unwrap_or(4 << 20),
        cache: given.bytes("cache").unwrap_or(4 << 20),
        block_size: given.bytes("block_size").unwrap_or(4 << 10),
        snappy: given.word("compression") == Some("snappy"),
    };
    // The library panics on a cache that holds no block.
    if config.block_size == 0 || config.cache < config.block_size {
        let message = "`block_size` must be above zero and at most `cache`".to_owned();
        faults.push(options::out_of_range("block_size", message));
    }
    if faults.is_empty() { Ok(config) } else { Err(faults) }
}

impl Config {
    fn values(self) -> BTreeMap<String, Value> {
        let values = [
            ("flush", json!(self.flush)),
            ("write_buffer", json!(self.write_buffer)),
            ("cache", json!(self.cache)),
            ("block_size", json!(self.block_size)),
            ("compression", json!(if self.snappy { "snappy" } else { "none" })),
        ];
        values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn options(self) -> Options {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let compressor = if self.snappy { compressor::SnappyCompressor::ID } else { compressor::NoneCompressor::ID };
        Options {
            write_buffer_size: size(self.write_buffer),
            block_cache_capacity_bytes: size(self.cache),
            block_size: size(self.block_size),
            compressor,
            ..Options::default()
        }
    }
}

impl Driver for LevelDb {
    type Store = LevelDbStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: versions::version("rusty-leveldb").to_owned(),
            library: versions::library("rusty-leveldb"),
            capabilities: Capabilities {
                batches: true,
                reads_own_writes: false,
                open_transactions: false,
                snapshots: true,
                ordered: true,
                persistent: true,
                processes: false,
                concurrent_writers: false,
                max_key: None,
            },
            promises: promises(),
            options: option_specs(),
            idiom: "one caller at a time, as the library demands; operations of a transaction as one WriteBatch"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<OptionFault>> {
        configure(spec).map(|config| Settings { class: Durability::None, values: config.values() })
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<LevelDbStore, EngineError> {
        let config = configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let db = DB::open(dir, config.options()).map_err(while_("opening the store"))?;
        Ok(LevelDbStore { db: Mutex::new(db), dir: dir.to_owned(), config })
    }
}

fn while_(doing: &'static str) -> impl Fn(Status) -> EngineError {
    move |error| failed(ENGINE, doing, error)
}

fn own_writes() -> EngineError {
    EngineError::Unsupported { engine: ENGINE, what: "reads in a write transaction".to_owned() }
}

impl LevelDbStore {
    fn hold(&self) -> MutexGuard<'_, DB> {
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for LevelDbStore {
    type Session<'s> = LevelDbSession<'s>;

    fn session(&self) -> Result<LevelDbSession<'_>, EngineError> {
        Ok(LevelDbSession { store: self })
    }

    /// The library tells nothing of how it was opened.
    fn in_force(&self) -> Result<Value, EngineError> {
        Ok(json!({ "durability": Durability::None.name(), "as_set": self.config.values() }))
    }

    fn persist(&self) -> Result<(), EngineError> {
        let mut db = self.hold();
        db.flush().map_err(while_("flushing"))?;
        sync_tree(&self.dir).map_err(|error| failed(ENGINE, "syncing the files", error))
    }

    fn close(self) -> Result<(), EngineError> {
        let mut db = self.db.into_inner().unwrap_or_else(PoisonError::into_inner);
        db.close().map_err(while_("closing the store"))
    }
}

impl Session for LevelDbSession<'_> {
    type Read<'t>
        = LevelDbRead<'t>
    where
        Self: 't;
    type Write<'t>
        = LevelDbWrite<'t>
    where
        Self: 't;

    fn read(&mut self) -> Result<LevelDbRead<'_>, EngineError> {
        Ok(LevelDbRead { db: self.store.hold() })
    }

    fn write(&mut self) -> Result<LevelDbWrite<'_>, EngineError> {
        Ok(LevelDbWrite { store: self.store, batch: WriteBatch::default() })
    }
}

impl Read for LevelDbRead<'_> {
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        // Not `get`, which takes an error for a missing key.
        let snapshot = self.db.get_snapshot();
        let value = self.db.get_at(&snapshot, key).map_err(while_("reading a value"))?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: u64, mut row: impl FnMut(&[u8], &[u8])) -> Result<u64, EngineError> {
        let mut rows = self.db.new_iter().map_err(while_("scanning"))?;
        let mut count = 0;
        rows.seek(from);
        while count < limit {
            let Some((key, value)) = rows.current() else { break };
            row(&key, &value);
            count += 1;
            if !rows.advance() {
                break;
            }
        }
        Ok(count)
    }

    fn finish(self) -> Result<(), EngineError> {
        Ok(())
    }
}

impl Read for LevelDbWrite<'_> {
    fn get(&mut self, _: &[u8], _: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        Err(own_writes())
    }

    fn scan(&mut self, _: &[u8], _: u64, _: impl FnMut(&[u8], &[u8])) -> Result<u64, EngineError> {
        Err(own_writes())
    }

    fn finish(self) -> Result<(), EngineError> {
        Ok(())
    }
}

impl Write for LevelDbWrite<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.batch.put(key, value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        self.batch.delete(key);
        Ok(true)
    }

    fn commit(self) -> Result<(), EngineError> {
        self.store.hold().write(self.batch, self.store.config.flush).map_err(while_("committing"))
    }
}
