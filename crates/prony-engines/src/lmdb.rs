//! The driver of LMDB, through the `heed` crate.
//!
//! One unnamed database of byte keys and byte values. A read transaction is one LMDB read
//! transaction, of which a thread has one at a time, in a slot of the reader table that it keeps until it
//! ends: under `MDB_NOTLS` each would search a slot under a mutex that all processes share
//! (`mdb_txn_renew0`). A write transaction is one LMDB write transaction, and LMDB lets one at a time
//! run. Values are handed out from the map, without a copy.
//!
//! Durability, from `lmdb.h`: without flags a commit returns after data pages and meta page are on
//! the disk (strict); `MDB_NOMETASYNC` leaves the meta page to the next commit, so that a power
//! failure loses the last one (bounded); under `MDB_NOSYNC`, and under `MDB_WRITEMAP` with `MDB_MAPASYNC`,
//! the system may write pages in any order, and a power failure may leave a broken tree (none).
//! `MDB_NOSYNC` includes what `MDB_NOMETASYNC` leaves out.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, MdbError, PutFlags, RoTxn, RwTxn, WithTls};
use prony_model::record::effective::named;
use prony_model::spec::{Durability, StoreSpec};

use crate::driver::{
    Capabilities, Description, Driver, EngineError, InForce, OptionKind, OptionSpec, Promise, Read, Session, Settings,
    Store, StoreFault, Then, Write,
};
use crate::failure::{advised, failed, failed_writing, is_input_output, refused};
use crate::options::{self, Config, Options, option, promise};

const ENGINE: &str = "lmdb";
const MAX_KEY: u64 = 511;
const PAGE: u64 = 4096;

/// Lightning Memory-Mapped Database.
pub struct Lmdb;

/// An LMDB environment.
pub struct LmdbStore {
    env: Env<WithTls>,
    db: Database<Bytes, Bytes>,
    append: bool,
}

/// A client of an LMDB environment.
pub struct LmdbSession<'s> {
    store: &'s LmdbStore,
}

/// An LMDB read transaction.
pub struct LmdbRead<'t> {
    txn: RoTxn<'t, WithTls>,
    db: Database<Bytes, Bytes>,
}

/// An LMDB write transaction.
pub struct LmdbWrite<'t> {
    txn: RwTxn<'t>,
    store: &'t LmdbStore,
}

/// Options that are flags of the environment.
const FLAGS: [(&str, EnvFlags, &str); 6] = [
    ("no_sync", EnvFlags::NO_SYNC, "commits do not sync (MDB_NOSYNC); durability class `none`"),
    ("no_meta_sync", EnvFlags::NO_META_SYNC, "commits do not sync the meta page (MDB_NOMETASYNC)"),
    (
        "write_map",
        EnvFlags::WRITE_MAP,
        "writes through the memory map (MDB_WRITEMAP); the file gets the map's length, sparse",
    ),
    (
        "map_async",
        EnvFlags::MAP_ASYNC,
        "with `write_map`, commits do not wait for the sync (MDB_MAPASYNC); durability class `none`",
    ),
    ("no_read_ahead", EnvFlags::NO_READ_AHEAD, "no read-ahead on the map (MDB_NORDAHEAD)"),
    ("no_mem_init", EnvFlags::NO_MEM_INIT, "pages are not zeroed before they are written (MDB_NOMEMINIT)"),
];

fn option_specs() -> Vec<OptionSpec> {
    let mut specs: Vec<_> =
        FLAGS.iter().map(|(name, _, doc)| option(name, OptionKind::Bool, "set by the durability class", doc)).collect();
    for spec in specs.iter_mut().skip(2) {
        "false".clone_into(&mut spec.default);
    }
    specs.push(option("map_size", OptionKind::Bytes, "64 GiB", "size of the map: address space, not memory or disk"));
    let readers = OptionKind::Int { min: 1, max: 65_536 };
    specs.push(option("max_readers", readers, "126", "maximum number of threads with a read transaction, over all processes: clients, and one more thread of each worker"));
    specs.push(option("append", OptionKind::Bool, "false", "puts in key order go to the last page (MDB_APPEND)"));
    specs
}

fn promises() -> Vec<Promise> {
    vec![
        promise(Durability::Strict, "no flags: data and meta page synced by each commit", true),
        promise(Durability::Bounded, "MDB_NOMETASYNC", false),
        promise(Durability::None, "MDB_NOSYNC, or MDB_WRITEMAP with MDB_MAPASYNC", false),
    ]
}

/// The durability class of a set of flags.
fn class_of(flags: EnvFlags) -> Durability {
    if flags.intersects(EnvFlags::NO_SYNC | EnvFlags::MAP_ASYNC) {
        Durability::None
    } else if flags.contains(EnvFlags::NO_META_SYNC) {
        Durability::Bounded
    } else {
        Durability::Strict
    }
}

fn flags_of(class: Durability) -> EnvFlags {
    match class {
        Durability::None => EnvFlags::NO_SYNC,
        Durability::Bounded => EnvFlags::NO_META_SYNC,
        _ => EnvFlags::empty(),
    }
}

fn names_of(flags: EnvFlags) -> Vec<&'static str> {
    FLAGS.iter().filter(|(_, flag, _)| flags.contains(*flag)).map(|(name, ..)| *name).collect()
}

fn configure(spec: &StoreSpec) -> Result<Config, Vec<StoreFault>> {
    let (mut options, mut faults) = options::read(spec, &option_specs());
    let mut flags = EnvFlags::empty();
    match options::class(spec, &promises()) {
        Ok(class) => flags = flags_of(class),
        Err(fault) => faults.push(fault),
    }
    // A requested class and a flag that weakens it contradict each other; found below.
    for (name, flag, _) in FLAGS {
        if options.is_given(name) {
            flags.set(flag, options.flag(name));
        }
        options.set(name, flags.contains(flag));
    }
    if flags.contains(EnvFlags::MAP_ASYNC) && !flags.contains(EnvFlags::WRITE_MAP) {
        faults.push(options::out_of_range("map_async", "`map_async` has no effect without `write_map`".to_owned()));
    }
    let map_size = options.bytes("map_size").next_multiple_of(PAGE);
    if map_size < 256 * PAGE || usize::try_from(map_size).is_err() {
        faults.push(options::out_of_range("map_size", "`map_size` must be at least 1 MiB".to_owned()));
    }
    options.set("map_size", map_size);
    faults.extend(options::contradiction(spec, class_of(flags)).filter(|_| faults.is_empty()));
    if faults.is_empty() { Ok(Config { class: class_of(flags), options }) } else { Err(faults) }
}

impl Driver for Lmdb {
    type Store = LmdbStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: heed::lmdb_version().string.to_owned(),
            library: format!("heed {}", env!("PRONY_VERSION_HEED")),
            capabilities: Capabilities {
                batches: true,
                reads_own_writes: true,
                open_transactions: true,
                snapshots: true,
                ordered: true,
                persistent: true,
                processes: true,
                reports_removals: true,
                max_key: Some(MAX_KEY),
                ..Capabilities::default()
            },
            promises: promises(),
            options: option_specs(),
            idiom:
                "one unnamed database; one LMDB transaction for each transaction of the workload; values read in the \
                    memory map without a copy; each thread keeps its slot in the reader table (no MDB_NOTLS); MDB_APPEND where `append` is on and keys come in order"
                    .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        configure(spec).map(Config::settings)
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<LmdbStore, EngineError> {
        let config = configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let env = open_env(dir, &config.options).map_err(while_("opening the store"))?;
        let db = create_database(&env).map_err(while_writing(&env, "creating the database"))?;
        Ok(LmdbStore { env, db, append: config.options.flag("append") })
    }
}

#[allow(unsafe_code)]
fn open_env(dir: &Path, asked: &Options) -> heed::Result<Env<WithTls>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(usize::try_from(asked.bytes("map_size")).unwrap_or(usize::MAX));
    options.max_readers(u32::try_from(asked.int("max_readers")).unwrap_or(u32::MAX));
    let flags = FLAGS.iter().filter(|(name, ..)| asked.flag(name)).map(|(_, flag, _)| *flag).collect();
    // SAFETY: the directory is the trial's own, so that nothing but LMDB changes the mapped file while it is open,
    // and every process that opens it does so through LMDB's lock file. Of the flags that heed counts as unsafe,
    // NO_SYNC and NO_META_SYNC risk what is on the disk after a power failure, not memory, and NO_LOCK is not offered.
    unsafe { options.flags(flags).open(dir) }
}

fn create_database(env: &Env<WithTls>) -> heed::Result<Database<Bytes, Bytes>> {
    let reader = env.read_txn()?;
    if let Some(db) = env.open_database(&reader, None)? {
        // Committed, so that the handle outlives the transaction.
        reader.commit()?;
        return Ok(db);
    }
    drop(reader);
    let mut writer = env.write_txn()?;
    let db = env.create_database(&mut writer, None)?;
    writer.commit()?;
    Ok(db)
}

fn while_(doing: &'static str) -> impl Fn(heed::Error) -> EngineError {
    move |error| {
        let hint = match &error {
            heed::Error::Mdb(MdbError::MapFull) => "raise the option `map_size`",
            heed::Error::Mdb(MdbError::ReadersFull) => "raise the option `max_readers`",
            heed::Error::Mdb(MdbError::KeyExist) => "`append` needs keys in ascending order",
            heed::Error::Mdb(MdbError::BadValSize) => "LMDB's keys have 1 to 511 bytes",
            _ => "",
        };
        match error {
            heed::Error::Io(error) => failed(ENGINE, doing, error),
            error if hint.is_empty() => failed(ENGINE, doing, error),
            error => failed(ENGINE, doing, advised(error, hint)),
        }
    }
}

/// [`while_`], where pages are written: at the commit, and before it when a transaction has too many to keep in memory.
fn while_writing(env: &Env<WithTls>, doing: &'static str) -> impl Fn(heed::Error) -> EngineError {
    move |error| match error {
        heed::Error::Io(error) => {
            let may_be = is_input_output(&error);
            failed_writing(ENGINE, doing, error, (may_be, env.path()))
        }
        error => while_(doing)(error),
    }
}

impl Store for LmdbStore {
    type Session<'s> = LmdbSession<'s>;

    fn session(&self) -> Result<LmdbSession<'_>, EngineError> {
        Ok(LmdbSession { store: self })
    }

    fn in_force(&self) -> Result<InForce, EngineError> {
        let flags = EnvFlags::from_bits_truncate(self.env.get_flags().map_err(while_("reading the flags"))?);
        let (info, stat) = (self.env.info(), self.env.stat());
        let read_back = named([
            ("flags", names_of(flags).into()),
            ("map_size", info.map_size.into()),
            ("max_readers", info.maximum_number_of_readers.into()),
            ("page_size", stat.page_size.into()),
            ("max_key", self.env.max_key_size().into()),
        ]);
        let as_set = named([("append", self.append.into())]);
        Ok(InForce { durability: class_of(flags), read_back, as_set })
    }

    fn persist(&self) -> Result<(), EngineError> {
        self.env.force_sync().map_err(while_writing(&self.env, "syncing"))
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        let (info, stat) = (self.env.info(), self.env.stat());
        let counters = [
            ("depth", stat.depth as usize),
            ("branch_pages", stat.branch_pages),
            ("leaf_pages", stat.leaf_pages),
            ("overflow_pages", stat.overflow_pages),
            ("entries", stat.entries),
            ("last_page", info.last_page_number),
            ("last_transaction", info.last_txn_id),
        ];
        counters.into_iter().map(|(name, n)| (name.to_owned(), n as f64)).collect()
    }

    fn close(self) -> Result<(), EngineError> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

impl Session for LmdbSession<'_> {
    type Read<'t>
        = LmdbRead<'t>
    where
        Self: 't;
    type Write<'t>
        = LmdbWrite<'t>
    where
        Self: 't;

    fn read(&mut self) -> Result<LmdbRead<'_>, EngineError> {
        let txn = self.store.env.read_txn().map_err(while_("beginning a read transaction"))?;
        Ok(LmdbRead { txn, db: self.store.db })
    }

    fn write(&mut self) -> Result<LmdbWrite<'_>, EngineError> {
        let txn = self.store.env.write_txn().map_err(while_("beginning a write transaction"))?;
        Ok(LmdbWrite { txn, store: self.store })
    }
}

fn get_in(db: Database<Bytes, Bytes>, txn: &RoTxn, key: &[u8], mut found: impl FnMut(&[u8])) -> heed::Result<bool> {
    Ok(db.get(txn, key)?.map(&mut found).is_some())
}

fn scan_in(
    db: Database<Bytes, Bytes>,
    txn: &RoTxn,
    from: &[u8],
    mut row: impl FnMut(&[u8], &[u8]) -> Then,
) -> heed::Result<()> {
    for entry in db.range(txn, &(Bound::Included(from), Bound::Unbounded))? {
        let (key, value) = entry?;
        if row(key, value).is_break() {
            break;
        }
    }
    Ok(())
}

impl Read for LmdbRead<'_> {
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        get_in(self.db, &self.txn, key, found).map_err(while_("reading a value"))
    }

    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        scan_in(self.db, &self.txn, from, row).map_err(while_("scanning"))
    }
}

impl Read for LmdbWrite<'_> {
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        get_in(self.store.db, &self.txn, key, found).map_err(while_("reading a value"))
    }

    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        scan_in(self.store.db, &self.txn, from, row).map_err(while_("scanning"))
    }
}

impl Write for LmdbWrite<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.store.db.put(&mut self.txn, key, value).map_err(while_writing(&self.store.env, "storing a value"))
    }

    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let flags = if self.store.append { PutFlags::APPEND } else { PutFlags::empty() };
        self.store
            .db
            .put_with_flags(&mut self.txn, flags, key, value)
            .map_err(while_writing(&self.store.env, "appending a value"))
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        self.store.db.delete(&mut self.txn, key).map_err(while_writing(&self.store.env, "removing a value"))
    }

    fn commit(self) -> Result<(), EngineError> {
        self.txn.commit().map_err(while_writing(&self.store.env, "committing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each read transaction searched its slot under a mutex that all processes share.
    #[test]
    fn threads_keep_their_slot_in_the_reader_table() {
        let dir = tempfile::tempdir().unwrap();
        let store = Lmdb::open(dir.path(), &StoreSpec::of(ENGINE)).unwrap();
        let no_tls = 0x20_0000;
        assert_eq!(store.env.get_flags().unwrap() & no_tls, 0);
        store.close().unwrap();
    }
}
