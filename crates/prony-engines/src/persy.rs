//! persy, single file, transactional.
//!
//! Values are records of one segment; an index leads from key to record, which is how persy is
//! meant to be used: a value kept in the index itself is rewritten with its whole node, and may
//! have 512 KiB at most. So a put is a look-up in the index and then an insert or an update. A read
//! transaction is a persy snapshot, a write transaction a persy transaction. Several may run at
//! once; where they meet, the last one wins.
//!
//! A persy snapshot is not called one here: taken while another thread commits, it shows some of
//! that commit and not all (persy 1.8.1, found by the contract suite with three readers beside a
//! writer; a commit's snapshot is numbered in its prepare half, before the commit is applied).
//!
//! Durability, from `tx_impl.rs` and `recover_impl.rs`: the prepare half of a commit syncs the file
//! (`fdatasync`, or `fsync` where it grew), and opening commits whatever was prepared (strict). There
//! is no other class without persy's optional background thread.

use std::collections::BTreeMap;
use std::ops::RangeFrom;
use std::path::Path;

use ::persy::{ByteVec, Config as Settled, Persy as Db, PersyId, Snapshot, Transaction, TransactionConfig, ValueMode};
use prony_core::experiment::spec::{Durability, StoreSpec};
use serde_json::{Value, json};

use crate::driver::{
    Capabilities, Description, Driver, EngineError, OptionFault, OptionKind, OptionSpec, Promise, Read, Session,
    Settings, Store, Write,
};
use crate::failure::{failed, refused};
use crate::options::{self, option, promise};
use crate::versions;

const ENGINE: &str = "persy";
const FILE: &str = "store.persy";
const SEGMENT: &str = "records";
const INDEX: &str = "keys";
const MAX_KEY: u64 = 512 << 10;

/// persy.
pub struct Persy;

/// A persy file.
pub struct PersyStore {
    db: Db,
    cache: u64,
}

/// A client of a persy file.
pub struct PersySession<'s> {
    store: &'s PersyStore,
}

/// A persy snapshot.
pub struct PersyRead(Snapshot);

/// A persy transaction.
pub struct PersyWrite(Transaction);

fn option_specs() -> Vec<OptionSpec> {
    vec![option("cache", OptionKind::Bytes, "32 MiB", "page cache (cache_size)")]
}

fn promises() -> Vec<Promise> {
    vec![promise(Durability::Strict, "prepare syncs the file; opening commits what was prepared", true)]
}

fn configure(spec: &StoreSpec) -> Result<(Durability, u64), Vec<OptionFault>> {
    let (given, mut faults) = options::read(spec, &option_specs());
    let class = options::class(spec, &promises());
    faults.extend(class.as_ref().err().cloned());
    match class {
        Ok(class) if faults.is_empty() => Ok((class, given.bytes("cache").unwrap_or(32 << 20))),
        _ => Err(faults),
    }
}

fn values(cache: u64) -> BTreeMap<String, Value> {
    BTreeMap::from([("cache".to_owned(), json!(cache))])
}

impl Driver for Persy {
    type Store = PersyStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: versions::version("persy").to_owned(),
            library: versions::library("persy"),
            capabilities: Capabilities {
                batches: true,
                reads_own_writes: true,
                open_transactions: true,
                snapshots: false,
                ordered: true,
                persistent: true,
                processes: false,
                concurrent_writers: true,
                max_key: Some(MAX_KEY),
            },
            promises: promises(),
            options: option_specs(),
            idiom: "values as records of a segment, an index from key to record; a put looks the key up first; reads \
                    from snapshots; where write transactions meet, the last one wins"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<OptionFault>> {
        configure(spec).map(|(class, cache)| Settings { class, values: values(cache) })
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<PersyStore, EngineError> {
        let (_, cache) = configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let mut settled = Settled::new();
        settled.change_cache_size(cache);
        let db = Db::open_or_create_with(dir.join(FILE), settled, |db| {
            let mut txn = db.begin()?;
            txn.create_segment(SEGMENT)?;
            txn.create_index::<ByteVec, PersyId>(INDEX, ValueMode::Replace)?;
            txn.prepare()?.commit()?;
            Ok(())
        });
        Ok(PersyStore { db: db.map_err(while_("opening the store"))?, cache })
    }
}

fn while_<E: std::error::Error + Send + Sync + 'static>(doing: &'static str) -> impl Fn(E) -> EngineError {
    move |error| failed(ENGINE, doing, error)
}

fn from_on(from: &[u8]) -> RangeFrom<ByteVec> {
    ByteVec::from(from)..
}

impl Store for PersyStore {
    type Session<'s> = PersySession<'s>;

    fn session(&self) -> Result<PersySession<'_>, EngineError> {
        Ok(PersySession { store: self })
    }

    /// persy tells nothing of how it was opened.
    fn in_force(&self) -> Result<Value, EngineError> {
        Ok(json!({ "durability": Durability::Strict.name(), "as_set": values(self.cache) }))
    }

    /// Every commit has synced the file already.
    fn persist(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn close(self) -> Result<(), EngineError> {
        drop(self.db);
        Ok(())
    }
}

impl Session for PersySession<'_> {
    type Read<'t>
        = PersyRead
    where
        Self: 't;
    type Write<'t>
        = PersyWrite
    where
        Self: 't;

    fn read(&mut self) -> Result<PersyRead, EngineError> {
        self.store.db.snapshot().map(PersyRead).map_err(while_("taking a snapshot"))
    }

    fn write(&mut self) -> Result<PersyWrite, EngineError> {
        let begun = self.store.db.begin_with(TransactionConfig::new());
        begun.map(PersyWrite).map_err(while_("beginning a transaction"))
    }
}

impl Read for PersyRead {
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        let key = ByteVec::from(key);
        let at = self.0.one::<ByteVec, PersyId>(INDEX, &key).map_err(while_("looking a key up"))?;
        let Some(at) = at else { return Ok(false) };
        let value = self.0.read(SEGMENT, &at).map_err(while_("reading a value"))?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: u64, mut row: impl FnMut(&[u8], &[u8])) -> Result<u64, EngineError> {
        let entries = self.0.range::<ByteVec, PersyId, _>(INDEX, from_on(from)).map_err(while_("scanning"))?;
        let mut rows = 0;
        for (key, at) in entries.take(usize::try_from(limit).unwrap_or(usize::MAX)) {
            for at in at {
                let value = self.0.read(SEGMENT, &at).map_err(while_("reading a value"))?;
                if let Some(value) = value {
                    row(&key, &value);
                    rows += 1;
                }
            }
        }
        Ok(rows)
    }

    fn finish(self) -> Result<(), EngineError> {
        Ok(())
    }
}

impl PersyWrite {
    fn find(&mut self, key: &ByteVec) -> Result<Option<PersyId>, EngineError> {
        self.0.one::<ByteVec, PersyId>(INDEX, key).map_err(while_("looking a key up"))
    }
}

impl Read for PersyWrite {
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        let Some(at) = self.find(&ByteVec::from(key))? else { return Ok(false) };
        let value = self.0.read(SEGMENT, &at).map_err(while_("reading a value"))?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: u64, mut row: impl FnMut(&[u8], &[u8])) -> Result<u64, EngineError> {
        let mut rows = 0;
        let entries = self.0.range::<ByteVec, PersyId, _>(INDEX, from_on(from));
        let mut entries = entries.map_err(while_("scanning"))?;
        while rows < limit {
            let Some((key, at, txn)) = entries.next_tx() else { break };
            for at in at {
                let value = txn.read(SEGMENT, &at).map_err(while_("reading a value"))?;
                if let Some(value) = value {
                    row(&key, &value);
                    rows += 1;
                }
            }
        }
        Ok(rows)
    }

    fn finish(self) -> Result<(), EngineError> {
        self.0.rollback().map_err(while_("discarding a transaction"))
    }
}

impl Write for PersyWrite {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let key = ByteVec::from(key);
        match self.find(&key)? {
            Some(at) => self.0.update(SEGMENT, &at, value).map_err(while_("updating a record")),
            None => {
                let at = self.0.insert(SEGMENT, value).map_err(while_("inserting a record"))?;
                self.0.put(INDEX, key, at).map_err(while_("indexing a record"))
            }
        }
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        let key = ByteVec::from(key);
        let Some(at) = self.find(&key)? else { return Ok(false) };
        self.0.delete(SEGMENT, &at).map_err(while_("removing a record"))?;
        self.0.remove::<ByteVec, PersyId>(INDEX, key, None).map_err(while_("removing a key"))?;
        Ok(true)
    }

    fn commit(self) -> Result<(), EngineError> {
        let prepared = self.0.prepare().map_err(while_("preparing a commit"))?;
        prepared.commit().map_err(while_("committing"))
    }
}
