//! The driver of RocksDB (the system's library), through the `rocksdb` crate.
//!
//! The default column family of an `OptimisticTransactionDB`: RocksDB's database type whose
//! transactions see their own writes without a lock per key; a commit that meets a newer write to
//! one of the keys that it has put, or read to put, fails with `Resource busy`, and that error is the operation's. Several reads come from a
//! snapshot, a single one from the newest state; a single write goes to the database itself. Values are handed out from
//! the block cache, without a copy (`get_pinned`).
//!
//! Durability, from RocksDB's write options: `sync` puts the write-ahead log on the disk with each
//! commit (strict); without it the log is the system's (relaxed: recovery stops at the first broken
//! record, `kPointInTimeRecovery`); `disableWAL` leaves a commit in the memtable until it is flushed
//! (volatile).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ::rocksdb::{
    BlockBasedOptions, Cache, DBAccess, DBCompressionType, DBPinnableSlice, DBRawIteratorWithThreadMode, Error,
    ErrorKind, OptimisticTransactionDB, OptimisticTransactionOptions, Options, SnapshotWithThreadMode, Transaction,
    WriteOptions,
};
use prony_model::record::effective::NamedSettings;
use prony_model::spec::{Durability, StoreSpec};

use crate::driver::{
    Capabilities, Description, Driver, EngineError, InForce, OptionKind, OptionSpec, Promise, Read, Session, Settings,
    Store, StoreFault, Then, Write,
};
use crate::failure::{failed, refused};
use crate::options::{self, Config, one_of, option, promise};

const ENGINE: &str = "rocksdb";
const COMPRESSIONS: [(&str, DBCompressionType); 4] = [
    ("snappy", DBCompressionType::Snappy),
    ("none", DBCompressionType::None),
    ("lz4", DBCompressionType::Lz4),
    ("zstd", DBCompressionType::Zstd),
];
/// The options that are read back from the file in which RocksDB notes its options.
const NOTED: [&str; 10] = [
    "rocksdb_version",
    "use_fsync",
    "write_buffer_size",
    // Memtables that are kept to find conflicts, which is memory: optimistic transactions set it.
    "max_write_buffer_size_to_maintain",
    "block_size",
    "compression",
    "max_background_jobs",
    "wal_recovery_mode",
    "use_direct_reads",
    "filter_policy",
];

/// RocksDB.
pub struct RocksDb;

/// A RocksDB database.
pub struct RocksDbStore {
    db: OptimisticTransactionDB,
    dir: PathBuf,
    config: Config,
    /// Last, so that it outlives the database, whose block cache it is.
    _cache: Option<Cache>,
}

/// A client of a RocksDB database.
pub struct RocksDbSession<'s> {
    store: &'s RocksDbStore,
    commit: WriteOptions,
}

/// What is read from.
pub enum RocksDbRead<'t> {
    /// A snapshot.
    Snapshot(SnapshotWithThreadMode<'t, OptimisticTransactionDB>),
    /// The newest state, for one operation.
    Newest(&'t OptimisticTransactionDB),
}

/// What writes go to.
pub enum RocksDbWrite<'t> {
    /// A transaction.
    Transaction(Transaction<'t, OptimisticTransactionDB>),
    /// The database, for one operation.
    Once(&'t RocksDbSession<'t>),
}

fn option_specs() -> Vec<OptionSpec> {
    let compressions = COMPRESSIONS.map(|(name, _)| name);
    let bits = OptionKind::Int { min: 0, max: 64 };
    let jobs = OptionKind::Int { min: 1, max: 64 };
    vec![
        option("write_buffer", OptionKind::Bytes, "64 MiB", "size at which a memtable is flushed (write_buffer_size)"),
        option("cache", OptionKind::Bytes, "8 MiB", "size of the block cache"),
        option("block_size", OptionKind::Bytes, "4 KiB", "size of a data block"),
        option("compression", one_of(&compressions), "snappy", "compression of data blocks"),
        option("bloom_bits", bits, "0", "bits per key of a Bloom filter; 0 for none"),
        option("jobs", jobs, "2", "threads that flush and compact (max_background_jobs)"),
        option("direct_reads", OptionKind::Bool, "false", "reads bypass the page cache (use_direct_reads)"),
    ]
}

fn promises() -> Vec<Promise> {
    vec![
        promise(Durability::Strict, "WriteOptions::sync", false),
        promise(Durability::Relaxed, "write-ahead log without sync", true),
        promise(Durability::Volatile, "WriteOptions::disableWAL", false),
    ]
}

fn configure(spec: &StoreSpec) -> Result<Config, Vec<StoreFault>> {
    options::configure(spec, &option_specs(), &promises(), |options, class, faults| {
        if !(1 << 10..=1 << 30).contains(&options.bytes("block_size")) {
            faults.push(options::out_of_range("block_size", "`block_size` must be 1 KiB to 1 GiB".to_owned()));
        }
        if options.bytes("write_buffer") < 64 << 10 {
            faults.push(options::out_of_range("write_buffer", "`write_buffer` must be at least 64 KiB".to_owned()));
        }
        let log = match class {
            Durability::Strict => "sync",
            Durability::Volatile => "disabled",
            _ => "no sync",
        };
        options.set("log", log);
    })
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn database_options(given: &options::Options, cache: Option<&Cache>) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_size(size(given.bytes("block_size")));
    if let Some(cache) = cache {
        table.set_block_cache(cache);
    }
    let bloom_bits = given.int("bloom_bits");
    if bloom_bits > 0 {
        table.set_bloom_filter(bloom_bits as f64, false);
    }
    let compression = COMPRESSIONS.iter().find(|(name, _)| *name == given.word("compression"));
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_size(size(given.bytes("write_buffer")));
    options.set_compression_type(compression.map_or(DBCompressionType::Snappy, |(_, compression)| *compression));
    options.set_max_background_jobs(i32::try_from(given.int("jobs")).unwrap_or(i32::MAX));
    options.set_use_direct_reads(given.flag("direct_reads"));
    options
}

fn commit_options(class: Durability) -> WriteOptions {
    let mut options = WriteOptions::new();
    options.set_sync(class == Durability::Strict);
    options.disable_wal(class == Durability::Volatile);
    options
}

impl Driver for RocksDb {
    type Store = RocksDbStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: env!("PRONY_VERSION_LIBROCKSDB").to_owned(),
            library: format!("rocksdb {}", env!("PRONY_VERSION_ROCKSDB")),
            capabilities: Capabilities {
                batches: true,
                reads_own_writes: true,
                open_transactions: true,
                snapshots: true,
                ordered: true,
                persistent: true,
                concurrent_writers: true,
                collects_writes: true,
                compresses: true,
                ..Capabilities::default()
            },
            promises: promises(),
            options: option_specs(),
            idiom: "the default column family of an OptimisticTransactionDB: conflicting commits fail as busy; what is to be replaced \
                    is read by `GetForUpdate`; one \
                    read or write without a snapshot or transaction, several reads from a snapshot; values read without a \
                    copy; removals do not check whether the key exists"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        configure(spec).map(Config::settings)
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<RocksDbStore, EngineError> {
        let config = configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let cache = config.options.is_given("cache").then(|| Cache::new_lru_cache(size(config.options.bytes("cache"))));
        let cache = cache.transpose();
        let cache = cache.map_err(while_("allocating the block cache"))?;
        let db = OptimisticTransactionDB::open(&database_options(&config.options, cache.as_ref()), dir);
        Ok(RocksDbStore { db: db.map_err(while_("opening the store"))?, dir: dir.to_owned(), config, _cache: cache })
    }
}

fn while_(doing: &'static str) -> impl Fn(Error) -> EngineError {
    move |error| {
        let hint = match error.kind() {
            // What optimistic transactions report at the commit; `TryAgain`: the memtables do not reach far enough back to tell.
            ErrorKind::Busy | ErrorKind::TryAgain => {
                return EngineError::Conflict { engine: ENGINE, doing, source: error.into_string().into() };
            }
            ErrorKind::IOError if error.as_ref().contains("No space left") => " (hint: free space on the file system)",
            _ => "",
        };
        failed(ENGINE, doing, format!("{}{hint}", error.into_string()))
    }
}

/// The newest of the files in which RocksDB notes its options.
fn noted_options(dir: &Path) -> Option<String> {
    let names = fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_noted = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("OPTIONS-"));
    fs::read_to_string(names.filter(is_noted).max()?).ok()
}

impl Store for RocksDbStore {
    type Session<'s> = RocksDbSession<'s>;

    fn session(&self) -> Result<RocksDbSession<'_>, EngineError> {
        Ok(RocksDbSession { store: self, commit: commit_options(self.config.class) })
    }

    /// Read back from RocksDB's own note of its options; write options are given with each write.
    fn in_force(&self) -> Result<InForce, EngineError> {
        let mut read_back = NamedSettings::new();
        for line in noted_options(&self.dir).unwrap_or_default().lines() {
            let Some((name, value)) = line.trim().split_once('=') else { continue };
            if NOTED.contains(&name) {
                read_back.entry(name.to_owned()).or_insert_with(|| value.into());
            }
        }
        Ok(self.config.in_force(read_back))
    }

    fn persist(&self) -> Result<(), EngineError> {
        match self.config.class {
            Durability::Volatile => self.db.flush().map_err(while_("flushing the memtables")),
            _ => self.db.flush_wal(true).map_err(while_("syncing the log")),
        }
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        let properties = [
            "rocksdb.cur-size-all-mem-tables",
            "rocksdb.block-cache-usage",
            "rocksdb.estimate-pending-compaction-bytes",
            "rocksdb.num-running-compactions",
            "rocksdb.num-running-flushes",
            "rocksdb.actual-delayed-write-rate",
            "rocksdb.is-write-stopped",
            "rocksdb.total-sst-files-size",
        ];
        let value = |name: &str| self.db.property_int_value(name).ok().flatten();
        properties.iter().filter_map(|name| Some(((*name).to_owned(), value(name)? as f64))).collect()
    }
}

impl Session for RocksDbSession<'_> {
    type Read<'t>
        = RocksDbRead<'t>
    where
        Self: 't;
    type Write<'t>
        = RocksDbWrite<'t>
    where
        Self: 't;

    fn read(&mut self) -> Result<RocksDbRead<'_>, EngineError> {
        Ok(RocksDbRead::Snapshot(self.store.db.snapshot()))
    }

    /// A snapshot takes the database's mutex when it is made and when it is released. An iterator sees one state without it.
    fn read_once(&mut self) -> Result<RocksDbRead<'_>, EngineError> {
        Ok(RocksDbRead::Newest(&self.store.db))
    }

    fn write(&mut self) -> Result<RocksDbWrite<'_>, EngineError> {
        let txn = self.store.db.transaction_opt(&self.commit, &OptimisticTransactionOptions::default());
        Ok(RocksDbWrite::Transaction(txn))
    }

    fn write_once(&mut self) -> Result<RocksDbWrite<'_>, EngineError> {
        Ok(RocksDbWrite::Once(self))
    }
}

fn scan_in<D: DBAccess>(
    mut rows: DBRawIteratorWithThreadMode<'_, D>,
    from: &[u8],
    mut row: impl FnMut(&[u8], &[u8]) -> Then,
) -> Result<(), EngineError> {
    rows.seek(from);
    while let Some((key, value)) = rows.item() {
        if row(key, value).is_break() {
            break;
        }
        rows.next();
    }
    rows.status().map_err(while_("scanning"))
}

fn get_in(
    value: Result<Option<DBPinnableSlice<'_>>, Error>,
    mut found: impl FnMut(&[u8]),
) -> Result<bool, EngineError> {
    Ok(value.map_err(while_("reading a value"))?.map(|value| found(&value)).is_some())
}

impl Read for RocksDbRead<'_> {
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        match self {
            Self::Snapshot(snapshot) => get_in(snapshot.get_pinned(key), found),
            Self::Newest(db) => get_in(db.get_pinned(key), found),
        }
    }

    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        match self {
            Self::Snapshot(snapshot) => scan_in(snapshot.raw_iterator(), from, row),
            Self::Newest(db) => scan_in(db.raw_iterator(), from, row),
        }
    }
}

impl Read for RocksDbWrite<'_> {
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        match self {
            Self::Transaction(txn) => get_in(txn.get_pinned(key), found),
            Self::Once(session) => get_in(session.store.db.get_pinned(key), found),
        }
    }

    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        match self {
            Self::Transaction(txn) => scan_in(txn.raw_iterator(), from, row),
            Self::Once(session) => scan_in(session.store.db.raw_iterator(), from, row),
        }
    }

    fn finish(self) -> Result<(), EngineError> {
        match self {
            Self::Transaction(txn) => txn.rollback().map_err(while_("discarding a transaction")),
            Self::Once(_) => Ok(()),
        }
    }
}

impl Write for RocksDbWrite<'_> {
    fn get_to_write(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        match self {
            // RocksDB checks at the commit whether the key has changed since it was put, or since this.
            Self::Transaction(txn) => get_in(txn.get_pinned_for_update(key, true), found),
            Self::Once(_) => self.get(key, found),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let put = match self {
            Self::Transaction(txn) => txn.put(key, value),
            Self::Once(session) => session.store.db.put_opt(key, value, &session.commit),
        };
        put.map_err(while_("storing a value"))
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        let deleted = match self {
            Self::Transaction(txn) => txn.delete(key),
            Self::Once(session) => session.store.db.delete_opt(key, &session.commit),
        };
        deleted.map_err(while_("removing a value")).map(|()| true)
    }

    fn commit(self) -> Result<(), EngineError> {
        match self {
            Self::Transaction(txn) => txn.commit().map_err(while_("committing")),
            Self::Once(_) => Ok(()),
        }
    }
}
