//! The driver of fjall 3, an LSM tree.
//!
//! One keyspace in a `SingleWriterTxDatabase`: fjall's database type whose write transactions are
//! real ones. They see their own writes, can be discarded, and run one at a time; read transactions
//! are snapshots. fjall's plain database would let threads insert side by side and skips the
//! transaction's own memtable, but has no transaction in which a read sees a write, which a cache's
//! `compute` needs; every other engine here is measured with its transactions too.
//!
//! Durability, from fjall's `PersistMode`: a commit that syncs the journal is on the disk when it
//! returns (strict); `Buffer` hands it to the system (relaxed: the journal is written in commit
//! order, and recovery stops at the first broken batch); with `manual_journal_persist` it stays in
//! the process's buffer of 8 KiB (volatile). Each new journal is preallocated as a sparse file of
//! 64 MiB: compare blocks, not lengths.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ::fjall::config::{BlockSizePolicy, CompressionPolicy};
use ::fjall::{
    CompressionType, KeyspaceCreateOptions, KvSeparationOptions, PersistMode, Readable, SingleWriterTxDatabase,
    SingleWriterTxKeyspace, SingleWriterWriteTx, Snapshot,
};
use prony_model::record::effective::named;
use prony_model::spec::{Durability, StoreSpec};

use crate::driver::{
    Capabilities, Description, Driver, EngineError, InForce, OptionKind, OptionSpec, Promise, Read, Session, Settings,
    Store, StoreFault, Then, Write,
};
use crate::failure::{failed, failed_writing, refused};
use crate::options::{self, Config, Options, one_of, option, promise};

const ENGINE: &str = "fjall";
const KEYSPACE: &str = "records";
/// fjall stores a key's length in 16 bits and panics on a longer one.
const MAX_KEY: usize = 65_535;
const LEAST_JOURNAL: u64 = 64 << 20;

/// fjall.
pub struct Fjall;

/// A fjall database.
pub struct FjallStore {
    // Before the database, so that it is dropped before it.
    keyspace: SingleWriterTxKeyspace,
    db: SingleWriterTxDatabase,
    persist: Option<PersistMode>,
    config: Config,
    dir: PathBuf,
}

/// A client of a fjall database.
pub struct FjallSession<'s> {
    store: &'s FjallStore,
}

/// A fjall snapshot; for one operation it is opened where that needs one.
pub struct FjallRead<'t> {
    snapshot: Option<Snapshot>,
    store: &'t FjallStore,
}

/// A fjall write transaction.
pub struct FjallWrite<'t> {
    txn: SingleWriterWriteTx<'t>,
    store: &'t FjallStore,
}

fn option_specs() -> Vec<OptionSpec> {
    let workers = OptionKind::Int { min: 1, max: 64 };
    let compression =
        "compression of data blocks and of journal entries above 4 KiB; usual: lz4 below the first levels";
    vec![
        option("sync", one_of(&["data", "all"]), "data", "sync call of a strict commit: fdatasync or fsync"),
        option("cache", OptionKind::Bytes, "32 MiB", "size of the block cache (cache_size)"),
        option("memtable", OptionKind::Bytes, "64 MiB", "size at which a memtable is flushed (max_memtable_size)"),
        option(
            "journal",
            OptionKind::Bytes,
            "512 MiB",
            "bound on the size of all journals, at least 64 MiB (max_journaling_size)",
        ),
        option("block_size", OptionKind::Bytes, "4 KiB", "size of a data block, 1 KiB to 1 MiB; for a new store only"),
        option("workers", workers, "cores, at most 4", "threads that flush and compact (worker_threads)"),
        option("compression", one_of(&["usual", "none", "lz4"]), "usual", compression),
        option("separate_values", OptionKind::Bool, "false", "stores large values in separate files (kv_separation)"),
    ]
}

fn promises() -> Vec<Promise> {
    vec![
        promise(Durability::Strict, "PersistMode::SyncData (or SyncAll) with each commit", false),
        promise(Durability::Relaxed, "PersistMode::Buffer with each commit", true),
        promise(Durability::Volatile, "manual_journal_persist: commits stay in the journal's buffer", false),
    ]
}

fn configure(spec: &StoreSpec) -> Result<Config, Vec<StoreFault>> {
    options::configure(spec, &option_specs(), &promises(), |options, class, faults| {
        if options.is_given("sync") && class != Durability::Strict {
            faults.push(options::out_of_range("sync", format!("`sync` has no effect under `{}`", class.name())));
        }
        if options.bytes("journal") < LEAST_JOURNAL {
            faults.push(options::out_of_range("journal", "`journal` must be at least 64 MiB".to_owned()));
        }
        if !(1 << 10..=1 << 20).contains(&options.bytes("block_size")) {
            faults.push(options::out_of_range("block_size", "`block_size` must be 1 KiB to 1 MiB".to_owned()));
        }
        let persist = persist_mode(class, options.word("sync")).map(|mode| format!("{mode:?}"));
        options.set("persist", persist.unwrap_or_else(|| "manual".to_owned()));
    })
}

/// How a commit is synced, `sync` says by which call.
fn persist_mode(class: Durability, sync: &str) -> Option<PersistMode> {
    match class {
        Durability::Strict if sync == "all" => Some(PersistMode::SyncAll),
        Durability::Strict => Some(PersistMode::SyncData),
        Durability::Volatile => None,
        _ => Some(PersistMode::Buffer),
    }
}

fn open_database(Config { class, options }: &Config, dir: &Path) -> ::fjall::Result<SingleWriterTxDatabase> {
    let mut builder = SingleWriterTxDatabase::builder(dir)
        .cache_size(options.bytes("cache"))
        .max_journaling_size(options.bytes("journal"))
        .manual_journal_persist(*class == Durability::Volatile);
    if options.is_given("workers") {
        builder = builder.worker_threads(usize::try_from(options.int("workers")).unwrap_or(1));
    }
    match options.word("compression") {
        "none" => builder.journal_compression(CompressionType::None),
        "lz4" => builder.journal_compression(CompressionType::Lz4),
        _ => builder,
    }
    .open()
}

fn keyspace_options(options: &Options) -> KeyspaceCreateOptions {
    let block = u32::try_from(options.bytes("block_size")).unwrap_or(4 << 10);
    let separate = options.flag("separate_values").then(KvSeparationOptions::default);
    let made = KeyspaceCreateOptions::default()
        .max_memtable_size(options.bytes("memtable"))
        .data_block_size_policy(BlockSizePolicy::all(block))
        .with_kv_separation(separate);
    match options.word("compression") {
        "none" => made.data_block_compression_policy(CompressionPolicy::disabled()),
        "lz4" => made.data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4)),
        _ => made,
    }
}

impl Driver for Fjall {
    type Store = FjallStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: env!("PRONY_VERSION_FJALL").to_owned(),
            library: format!("fjall {}", env!("PRONY_VERSION_FJALL")),
            capabilities: Capabilities {
                batches: true,
                reads_own_writes: true,
                open_transactions: true,
                snapshots: true,
                ordered: true,
                persistent: true,
                collects_writes: true,
                compresses: true,
                max_key: Some(MAX_KEY as u64),
                ..Capabilities::default()
            },
            promises: promises(),
            options: option_specs(),
            idiom: "one keyspace of a SingleWriterTxDatabase: real transactions, one writer at a time; several reads \
                    and scans from snapshots, a single read of the newest state without one; removals do not check whether the key exists; no separate path for appends"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        configure(spec).map(Config::settings)
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<FjallStore, EngineError> {
        let config = configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let db = open_database(&config, dir).map_err(while_("opening the store"))?;
        let keyspace =
            db.keyspace(KEYSPACE, || keyspace_options(&config.options)).map_err(while_("opening the keyspace"))?;
        let persist = persist_mode(config.class, config.options.word("sync"));
        Ok(FjallStore { keyspace, db, persist, config, dir: dir.to_owned() })
    }
}

fn while_(doing: &'static str) -> impl Fn(::fjall::Error) -> EngineError {
    move |error| failed(ENGINE, doing, error)
}

/// [`while_`], where fjall writes: after a thread of its own had failed, such as at a flush, everything fails as `Poisoned`.
fn while_writing(dir: &Path, doing: &'static str) -> impl Fn(::fjall::Error) -> EngineError {
    move |error| {
        let may_be = matches!(error, ::fjall::Error::Poisoned);
        failed_writing(ENGINE, doing, error, (may_be, dir))
    }
}

fn check_key(key: &[u8]) -> Result<(), EngineError> {
    match key.len() {
        0..=MAX_KEY => Ok(()),
        length => Err(failed(ENGINE, "storing a value", format!("the key has {length} bytes, at most {MAX_KEY} fit"))),
    }
}

impl Store for FjallStore {
    type Session<'s> = FjallSession<'s>;

    fn session(&self) -> Result<FjallSession<'_>, EngineError> {
        Ok(FjallSession { store: self })
    }

    /// fjall reports the size of its cache and whether values are stored separately; the rest is as it was opened.
    fn in_force(&self) -> Result<InForce, EngineError> {
        let read_back = named([
            ("cache_capacity", self.db.inner().cache_capacity().into()),
            ("separate_values", self.keyspace.inner().is_kv_separated().into()),
        ]);
        Ok(self.config.in_force(read_back))
    }

    fn persist(&self) -> Result<(), EngineError> {
        self.db.persist(PersistMode::SyncAll).map_err(while_writing(&self.dir, "syncing the journal"))
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        let (db, keyspace) = (self.db.inner(), self.keyspace.inner());
        let counters = [
            ("write_buffer_bytes", db.write_buffer_size() as f64),
            ("cache_bytes", db.cache_size() as f64),
            ("journals", db.journal_count() as f64),
            ("outstanding_flushes", db.outstanding_flushes() as f64),
            ("active_compactions", db.active_compactions() as f64),
            ("compactions", db.compactions_completed() as f64),
            ("compacting_seconds", db.time_compacting().as_secs_f64()),
            ("tables", keyspace.table_count() as f64),
            ("tables_in_level_0", keyspace.l0_table_count() as f64),
            ("sealed_memtables", keyspace.sealed_memtable_count() as f64),
        ];
        counters.into_iter().map(|(name, n)| (name.to_owned(), n)).collect()
    }

    /// Writes the rest of the journal's buffer to the system and ends fjall's threads.
    fn close(self) -> Result<(), EngineError> {
        self.db.persist(PersistMode::Buffer).map_err(while_writing(&self.dir, "writing the journal"))
    }
}

impl Session for FjallSession<'_> {
    type Read<'t>
        = FjallRead<'t>
    where
        Self: 't;
    type Write<'t>
        = FjallWrite<'t>
    where
        Self: 't;

    fn read(&mut self) -> Result<FjallRead<'_>, EngineError> {
        Ok(FjallRead { snapshot: Some(self.store.db.read_tx()), store: self.store })
    }

    /// Opening and closing a snapshot takes locks (`SnapshotTracker`), which one `get` does not need.
    fn read_once(&mut self) -> Result<FjallRead<'_>, EngineError> {
        Ok(FjallRead { snapshot: None, store: self.store })
    }

    fn write(&mut self) -> Result<FjallWrite<'_>, EngineError> {
        let txn = self.store.db.write_tx().durability(self.store.persist);
        Ok(FjallWrite { txn, store: self.store })
    }
}

fn get_in(
    from: &impl Readable,
    keyspace: &SingleWriterTxKeyspace,
    key: &[u8],
    mut found: impl FnMut(&[u8]),
) -> Result<bool, EngineError> {
    let value = from.get(keyspace, key).map_err(while_("reading a value"))?;
    Ok(value.map(|value| found(&value)).is_some())
}

fn scan_in(
    over: &impl Readable,
    keyspace: &SingleWriterTxKeyspace,
    from: &[u8],
    mut row: impl FnMut(&[u8], &[u8]) -> Then,
) -> Result<(), EngineError> {
    for guard in over.range::<&[u8], _>(keyspace, from..) {
        let (key, value) = guard.into_inner().map_err(while_("scanning"))?;
        if row(&key, &value).is_break() {
            break;
        }
    }
    Ok(())
}

impl Read for FjallRead<'_> {
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        let Some(snapshot) = &self.snapshot else {
            let value = self.store.keyspace.get(key).map_err(while_("reading a value"))?;
            return Ok(value.map(|value| found(&value)).is_some());
        };
        get_in(snapshot, &self.store.keyspace, key, found)
    }

    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        // A range of the keyspace would see transactions whose commit is under way.
        let snapshot = self.snapshot.get_or_insert_with(|| self.store.db.read_tx());
        scan_in(snapshot, &self.store.keyspace, from, row)
    }
}

impl Read for FjallWrite<'_> {
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        get_in(&self.txn, &self.store.keyspace, key, found)
    }

    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        scan_in(&self.txn, &self.store.keyspace, from, row)
    }
}

impl Write for FjallWrite<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        check_key(key)?;
        self.txn.insert(&self.store.keyspace, key, value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        check_key(key)?;
        self.txn.remove(&self.store.keyspace, key);
        Ok(true)
    }

    fn commit(self) -> Result<(), EngineError> {
        let dir = &self.store.dir;
        self.txn.commit().map_err(while_writing(dir, "committing"))
    }
}
