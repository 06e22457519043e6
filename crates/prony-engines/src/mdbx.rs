//! The driver of libmdbx, through the `libmdbx` crate.
//!
//! The main table of one environment, opened once per transaction. A read transaction is one MDBX
//! read transaction (`MDBX_NOTLS`); a write transaction is one MDBX write transaction. The crate
//! begins and ends write transactions on a thread of its own, and while one runs polls every
//! quarter of a second for the next; so writers wait here on a lock in front of it. Values are
//! handed out from the map, without a copy.
//!
//! Durability, from `mdbx.h`: `MDBX_SYNC_DURABLE` (strict); `MDBX_NOMETASYNC`, where a power failure may
//! undo the last commit (bounded); `MDBX_SAFE_NOSYNC`, where it rolls back to the last steady one
//! (relaxed); `MDBX_UTTERLY_NOSYNC`, where it may leave a broken tree (none). Under
//! `MDBX_SAFE_NOSYNC` pages of the last steady commit are not used again, and MDBX makes a new steady
//! commit before it lets the file grow: a small file that grows in small steps is synced more often
//! than under `MDBX_SYNC_DURABLE` (193 times in 100 commits of one row to an empty store, counted
//! with strace). `min_size` and `growth_step` decide that.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libmdbx::{
    Database, DatabaseOptions, Error, Mode, NoWriteMap, RO, RW, ReadWriteOptions, SyncMode, Table, Transaction,
    TransactionKind, WriteFlags,
};
use prony_model::record::effective::named;
use prony_model::spec::{Durability, StoreSpec};
use self_cell::self_cell;

use crate::driver::{
    Capabilities, Description, Driver, EngineError, InForce, OptionKind, OptionSpec, Promise, Read, Session, Settings,
    Store, StoreFault, Then, Write,
};
use crate::failure::{advised, failed, refused};
use crate::options::{self, Config, option, promise};

const ENGINE: &str = "libmdbx";
const PAGE: u64 = 4096;
/// `mdbx_env_get_maxkeysize` for pages of 4 KiB.
const MAX_KEY: usize = 2022;

type ReadTxn<'t> = Transaction<'t, RO, NoWriteMap>;
type WriteTxn<'t> = Transaction<'t, RW, NoWriteMap>;

/// libmdbx.
pub struct Mdbx;

/// An MDBX environment.
pub struct MdbxStore {
    /// Its end syncs what the class left unsynced.
    db: Database<NoWriteMap>,
    writer: Mutex<()>,
    append: bool,
    config: Config,
}

/// A client of an MDBX environment.
pub struct MdbxSession<'s> {
    store: &'s MdbxStore,
}

self_cell!(
    struct OpenRead<'t> {
        owner: ReadTxn<'t>,
        #[not_covariant]
        dependent: Table,
    }
);

self_cell!(
    struct OpenWrite<'t> {
        owner: WriteTxn<'t>,
        #[not_covariant]
        dependent: Table,
    }
);

/// An MDBX read transaction with its table open.
pub struct MdbxRead<'t>(OpenRead<'t>);

/// An MDBX write transaction with its table open.
pub struct MdbxWrite<'t> {
    open: OpenWrite<'t>,
    append: bool,
    // Last, so that the transaction has ended before the next writer begins.
    _turn: MutexGuard<'t, ()>,
}

fn option_specs() -> Vec<OptionSpec> {
    let lifo = "freed pages are used again last in, first out (MDBX_LIFORECLAIM)";
    vec![
        option("max_size", OptionKind::Bytes, "64 GiB", "upper bound of the map: address space, not memory or disk"),
        option("min_size", OptionKind::Bytes, "MDBX's default", "lower bound of the file, allocated at once"),
        option("growth_step", OptionKind::Bytes, "MDBX's default", "step by which the file grows"),
        option("no_read_ahead", OptionKind::Bool, "false", "no read-ahead on the map (MDBX_NORDAHEAD)"),
        option("no_mem_init", OptionKind::Bool, "false", "pages are not zeroed before they are written"),
        option("coalesce", OptionKind::Bool, "false", "freed pages are coalesced (MDBX_COALESCE)"),
        option("lifo_reclaim", OptionKind::Bool, "false", lifo),
        option("append", OptionKind::Bool, "false", "puts in key order go to the last page (MDBX_APPEND)"),
    ]
}

fn promises() -> Vec<Promise> {
    vec![
        promise(Durability::Strict, "MDBX_SYNC_DURABLE", true),
        promise(Durability::Bounded, "MDBX_NOMETASYNC", false),
        promise(Durability::Relaxed, "MDBX_SAFE_NOSYNC", false),
        promise(Durability::None, "MDBX_UTTERLY_NOSYNC", false),
    ]
}

fn configure(spec: &StoreSpec) -> Result<Config, Vec<StoreFault>> {
    options::configure(spec, &option_specs(), &promises(), |options, class, faults| {
        for name in ["max_size", "min_size", "growth_step"] {
            if let size @ 1.. = options.bytes(name) {
                options.set(name, size.next_multiple_of(PAGE));
            }
        }
        let max_size = options.bytes("max_size");
        if options.bytes("min_size") > max_size {
            faults.push(options::out_of_range("min_size", "`min_size` must be at most `max_size`".to_owned()));
        }
        if options.is_given("growth_step") && options.bytes("growth_step") == 0 {
            faults.push(options::out_of_range("growth_step", "`growth_step` must be above zero".to_owned()));
        }
        if max_size < 1 << 20 || isize::try_from(max_size).is_err() {
            faults.push(options::out_of_range("max_size", "`max_size` must be at least 1 MiB".to_owned()));
        }
        options.set("sync_mode", format!("{:?}", sync_mode(class)));
    })
}

fn sync_mode(class: Durability) -> SyncMode {
    match class {
        Durability::Bounded => SyncMode::NoMetaSync,
        Durability::Relaxed => SyncMode::SafeNoSync,
        Durability::None => SyncMode::UtterlyNoSync,
        Durability::Strict | Durability::Volatile => SyncMode::Durable,
    }
}

fn database_options(Config { class, options }: &Config) -> DatabaseOptions {
    let given = |name| Some(options.bytes(name)).filter(|_| options.is_given(name));
    let size = |bytes: Option<u64>| bytes.and_then(|bytes| isize::try_from(bytes).ok());
    let mode = ReadWriteOptions {
        sync_mode: sync_mode(*class),
        max_size: size(Some(options.bytes("max_size"))),
        min_size: size(given("min_size")),
        growth_step: size(given("growth_step")),
        ..ReadWriteOptions::default()
    };
    DatabaseOptions {
        mode: Mode::ReadWrite(mode),
        no_rdahead: options.flag("no_read_ahead"),
        no_meminit: options.flag("no_mem_init"),
        coalesce: options.flag("coalesce"),
        liforeclaim: options.flag("lifo_reclaim"),
        ..DatabaseOptions::default()
    }
}

impl Driver for Mdbx {
    type Store = MdbxStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: env!("PRONY_VERSION_MDBX_SYS").to_owned(),
            library: format!("libmdbx {}", env!("PRONY_VERSION_LIBMDBX")),
            capabilities: Capabilities {
                batches: true,
                reads_own_writes: true,
                open_transactions: true,
                snapshots: true,
                ordered: true,
                persistent: true,
                processes: true,
                reports_removals: true,
                skips_equal: true,
                max_key: Some(MAX_KEY as u64),
                ..Capabilities::default()
            },
            promises: promises(),
            options: option_specs(),
            idiom: "the main table, opened once per transaction; values read in the memory map without a copy; the \
                    crate begins and ends write transactions on a separate thread; MDBX_APPEND where `append` is on \
                    and keys come in order"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        configure(spec).map(Config::settings)
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<MdbxStore, EngineError> {
        let config = configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let db = Database::open_with_options(dir, database_options(&config)).map_err(while_("opening the store"))?;
        Ok(MdbxStore { db, writer: Mutex::new(()), append: config.options.flag("append"), config })
    }
}

fn while_(doing: &'static str) -> impl Fn(Error) -> EngineError {
    move |error| match error {
        // Positive numbers are the system's.
        Error::Other(code) if code > 0 => failed(ENGINE, doing, std::io::Error::from_raw_os_error(code)),
        Error::MapFull => failed(ENGINE, doing, advised(error, "raise the option `max_size`")),
        error => failed(ENGINE, doing, error),
    }
}

impl Store for MdbxStore {
    type Session<'s> = MdbxSession<'s>;

    fn session(&self) -> Result<MdbxSession<'_>, EngineError> {
        Ok(MdbxSession { store: self })
    }

    /// The crate reads back sizes, but no flags.
    fn in_force(&self) -> Result<InForce, EngineError> {
        let info = self.db.info().map_err(while_("reading the environment"))?;
        let stat = self.db.stat().map_err(while_("reading the environment"))?;
        let read_back = named([
            ("map_size", info.map_size().into()),
            ("max_readers", info.max_readers().into()),
            ("page_size", stat.page_size().into()),
        ]);
        Ok(self.config.in_force(read_back))
    }

    fn persist(&self) -> Result<(), EngineError> {
        self.db.sync(true).map(drop).map_err(while_("syncing"))
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        let (Ok(stat), Ok(info)) = (self.db.stat(), self.db.info()) else { return BTreeMap::new() };
        let counters = [
            ("depth", stat.depth() as usize),
            ("branch_pages", stat.branch_pages()),
            ("leaf_pages", stat.leaf_pages()),
            ("overflow_pages", stat.overflow_pages()),
            ("entries", stat.entries()),
            ("last_page", info.last_pgno()),
            ("last_transaction", info.last_txnid()),
        ];
        counters.into_iter().map(|(name, n)| (name.to_owned(), n as f64)).collect()
    }
}

impl Session for MdbxSession<'_> {
    type Read<'t>
        = MdbxRead<'t>
    where
        Self: 't;
    type Write<'t>
        = MdbxWrite<'t>
    where
        Self: 't;

    fn read(&mut self) -> Result<MdbxRead<'_>, EngineError> {
        let txn = self.store.db.begin_ro_txn().map_err(while_("beginning a read transaction"))?;
        OpenRead::try_new(txn, |txn| txn.open_table(None)).map(MdbxRead).map_err(while_("opening the table"))
    }

    fn write(&mut self) -> Result<MdbxWrite<'_>, EngineError> {
        let turn = self.store.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let txn = self.store.db.begin_rw_txn().map_err(while_("beginning a write transaction"))?;
        let open = OpenWrite::try_new(txn, |txn| txn.open_table(None)).map_err(while_("opening the table"))?;
        Ok(MdbxWrite { open, append: self.store.append, _turn: turn })
    }
}

fn get_in<'t, K: TransactionKind>(
    txn: &'t Transaction<'_, K, NoWriteMap>,
    table: &Table<'t>,
    key: &[u8],
    mut found: impl FnMut(&[u8]),
) -> libmdbx::Result<bool> {
    let value = txn.get::<Cow<'t, [u8]>>(table, key)?;
    Ok(value.map(|value| found(&value)).is_some())
}

fn scan_in<'t, K: TransactionKind>(
    txn: &'t Transaction<'_, K, NoWriteMap>,
    table: &Table<'t>,
    from: &[u8],
    mut row: impl FnMut(&[u8], &[u8]) -> Then,
) -> libmdbx::Result<()> {
    let mut cursor = txn.cursor(table)?;
    for entry in cursor.iter_from::<Cow<'t, [u8]>, Cow<'t, [u8]>>(from) {
        let (key, value) = entry?;
        if row(&key, &value).is_break() {
            break;
        }
    }
    Ok(())
}

impl Read for MdbxRead<'_> {
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        self.0.with_dependent(|txn, table| get_in(txn, table, key, found)).map_err(while_("reading a value"))
    }

    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        self.0.with_dependent(|txn, table| scan_in(txn, table, from, row)).map_err(while_("scanning"))
    }
}

impl Read for MdbxWrite<'_> {
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        self.open.with_dependent(|txn, table| get_in(txn, table, key, found)).map_err(while_("reading a value"))
    }

    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        self.open.with_dependent(|txn, table| scan_in(txn, table, from, row)).map_err(while_("scanning"))
    }
}

impl MdbxWrite<'_> {
    fn store(&mut self, key: &[u8], value: &[u8], flags: WriteFlags) -> Result<(), EngineError> {
        // MDBX built with assertions aborts the process at a key that is too long.
        if key.len() > MAX_KEY {
            let what = format!("the key has {} bytes, at most {MAX_KEY} fit", key.len());
            return Err(failed(ENGINE, "storing a value", what));
        }
        self.open.with_dependent(|txn, table| txn.put(table, key, value, flags)).map_err(while_("storing a value"))
    }
}

impl Write for MdbxWrite<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.store(key, value, WriteFlags::empty())
    }

    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let flags = if self.append { WriteFlags::APPEND } else { WriteFlags::empty() };
        self.store(key, value, flags)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        self.open.with_dependent(|txn, table| txn.del(table, key, None)).map_err(while_("removing a value"))
    }

    fn commit(self) -> Result<(), EngineError> {
        self.open.into_owner().commit().map(drop).map_err(while_("committing"))
    }
}
