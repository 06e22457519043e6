//! The driver of redb, a B-tree store.
//!
//! One table of byte keys and byte values, opened once per transaction: a read transaction is one
//! redb read transaction, a write transaction one redb write transaction, of which one at a time
//! runs. Values are handed out from redb's page cache, without a copy.
//!
//! Durability, from redb's `Durability`: an `Immediate` commit is on the disk when it returns
//! (strict); a commit with `None` stays in the process until the next immediate one, so that even
//! a process crash loses it (volatile). What remains is always the state after some commit.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ::redb::{
    Builder, Database, Durability as Commit, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, Table,
    TableDefinition, TableError, WriteTransaction,
};
use prony_model::record::effective::named;
use prony_model::spec::{Durability, StoreSpec};
use self_cell::self_cell;

use crate::driver::{
    Capabilities, Description, Driver, EngineError, InForce, OptionKind, OptionSpec, Promise, Read, Session, Settings,
    Store, StoreFault, Then, Write,
};
use crate::failure::{failed, failed_writing, refused};
use crate::options::{self, Config, option, promise};

const ENGINE: &str = "redb";
const FILE: &str = "store.redb";
const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("records");

type Bytes = &'static [u8];
type WriteTable<'t> = Table<'t, Bytes, Bytes>;

/// redb.
pub struct Redb;

/// A redb database.
pub struct RedbStore {
    db: Database,
    two_phase: bool,
    quick_repair: bool,
    config: Config,
    page_size: u32,
    dir: PathBuf,
}

/// A client of a redb database.
pub struct RedbSession<'s> {
    store: &'s RedbStore,
}

/// A redb read transaction with its table open.
pub struct RedbRead {
    table: ReadOnlyTable<Bytes, Bytes>,
    _txn: ReadTransaction,
}

self_cell!(
    struct OpenTable {
        owner: WriteTransaction,
        #[not_covariant]
        dependent: WriteTable,
    }
);

/// A redb write transaction with its table open.
pub struct RedbWrite(OpenTable);

fn option_specs() -> Vec<OptionSpec> {
    let two_phase = "each commit syncs twice, as a protection against forged checksums (set_two_phase_commit)";
    vec![
        option("cache", OptionKind::Bytes, "1 GiB", "size of the page cache (set_cache_size)"),
        option("two_phase_commit", OptionKind::Bool, "false", two_phase),
        option(
            "quick_repair",
            OptionKind::Bool,
            "false",
            "commits also store data that makes recovery fast (set_quick_repair)",
        ),
    ]
}

fn promises() -> Vec<Promise> {
    vec![
        promise(Durability::Strict, "Durability::Immediate", true),
        promise(Durability::Volatile, "Durability::None", false),
    ]
}

fn configure(spec: &StoreSpec) -> Result<Config, Vec<StoreFault>> {
    options::configure(spec, &option_specs(), &promises(), |options, class, _| {
        options.set("commit", if class == Durability::Strict { "immediate" } else { "none" });
    })
}

impl Driver for Redb {
    type Store = RedbStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: env!("PRONY_VERSION_REDB").to_owned(),
            library: format!("redb {}", env!("PRONY_VERSION_REDB")),
            capabilities: Capabilities {
                batches: true,
                reads_own_writes: true,
                open_transactions: true,
                snapshots: true,
                ordered: true,
                persistent: true,
                reports_removals: true,
                ..Capabilities::default()
            },
            promises: promises(),
            options: option_specs(),
            idiom: "one table, opened once per transaction; values read in the page cache without a copy; no separate \
                    path for appends"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        configure(spec).map(Config::settings)
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<RedbStore, EngineError> {
        let config = configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let mut builder = Builder::new();
        builder.set_cache_size(usize::try_from(config.options.bytes("cache")).unwrap_or(usize::MAX));
        let db = builder.create(dir.join(FILE)).map_err(while_("opening the store"))?;
        let [two_phase, quick_repair] = ["two_phase_commit", "quick_repair"].map(|name| config.options.flag(name));
        let page_size = page_size(&dir.join(FILE)).map_err(|error| failed(ENGINE, "reading the page size", error))?;
        let store = RedbStore { db, two_phase, quick_repair, config, page_size, dir: dir.to_owned() };
        if !store.has_table()? {
            // The first commit is immediate in every class, so that the empty store itself is durable.
            store.begin(Commit::Immediate)?.commit()?;
        }
        Ok(store)
    }
}

/// redb's many error types, all of which turn into its one.
fn while_<E: Into<::redb::Error>>(doing: &'static str) -> impl Fn(E) -> EngineError {
    move |error| match error.into() {
        ::redb::Error::Io(error) => failed(ENGINE, doing, error),
        error => failed(ENGINE, doing, error),
    }
}

/// The page size in the header of a store's file, which redb's `docs/design.md` describes.
fn page_size(file: &Path) -> std::io::Result<u32> {
    let mut size = [0; 4];
    File::open(file)?.read_exact_at(&mut size, 12)?;
    Ok(u32::from_le_bytes(size))
}

impl RedbStore {
    fn has_table(&self) -> Result<bool, EngineError> {
        let txn = self.db.begin_read().map_err(while_("beginning a read transaction"))?;
        match txn.open_table(TABLE) {
            Ok(_) => Ok(true),
            Err(TableError::TableDoesNotExist(_)) => Ok(false),
            Err(error) => Err(while_("opening the table")(error)),
        }
    }

    fn begin(&self, commit: Commit) -> Result<RedbWrite, EngineError> {
        let doing = "beginning a write transaction";
        let mut txn = self.db.begin_write().map_err(|error| match ::redb::Error::from(error) {
            // What was wrong first is said once, in whichever transaction met it.
            error @ ::redb::Error::PreviousIo => failed_writing(ENGINE, doing, error, (true, &self.dir)),
            error => while_(doing)(error),
        })?;
        txn.set_durability(commit).map_err(while_("setting the durability"))?;
        txn.set_two_phase_commit(self.two_phase);
        txn.set_quick_repair(self.quick_repair);
        let open = OpenTable::try_new(txn, |txn| txn.open_table(TABLE));
        open.map(RedbWrite).map_err(while_("opening the table"))
    }
}

impl Store for RedbStore {
    type Session<'s> = RedbSession<'s>;

    fn session(&self) -> Result<RedbSession<'_>, EngineError> {
        Ok(RedbSession { store: self })
    }

    /// redb does not report how it was opened. Its statistics have the page size, but they read every page of the store: after an
    /// `evict` the store was in the page cache again.
    fn in_force(&self) -> Result<InForce, EngineError> {
        Ok(self.config.in_force(named([("page_size", self.page_size.into())])))
    }

    fn persist(&self) -> Result<(), EngineError> {
        self.begin(Commit::Immediate)?.commit()
    }

    /// `Database::check_integrity`, which repairs what it can.
    fn check_integrity(&mut self) -> Result<Option<Vec<String>>, EngineError> {
        let intact = self.db.check_integrity().map_err(while_("checking the integrity"))?;
        Ok(Some(if intact { Vec::new() } else { vec!["check_integrity had to repair the database".to_owned()] }))
    }
}

impl Session for RedbSession<'_> {
    type Read<'t>
        = RedbRead
    where
        Self: 't;
    type Write<'t>
        = RedbWrite
    where
        Self: 't;

    fn read(&mut self) -> Result<RedbRead, EngineError> {
        let txn = self.store.db.begin_read().map_err(while_("beginning a read transaction"))?;
        let table = txn.open_table(TABLE).map_err(while_("opening the table"))?;
        Ok(RedbRead { table, _txn: txn })
    }

    fn write(&mut self) -> Result<RedbWrite, EngineError> {
        let strict = self.store.config.class == Durability::Strict;
        self.store.begin(if strict { Commit::Immediate } else { Commit::None })
    }
}

type Scanned = Result<(), ::redb::StorageError>;

fn get_in(
    table: &impl ReadableTable<Bytes, Bytes>,
    key: &[u8],
    mut found: impl FnMut(&[u8]),
) -> Result<bool, ::redb::StorageError> {
    Ok(table.get(key)?.map(|value| found(value.value())).is_some())
}

fn scan_in(
    table: &impl ReadableTable<Bytes, Bytes>,
    from: &[u8],
    mut row: impl FnMut(&[u8], &[u8]) -> Then,
) -> Scanned {
    for entry in table.range::<&[u8]>(from..)? {
        let (key, value) = entry?;
        if row(key.value(), value.value()).is_break() {
            break;
        }
    }
    Ok(())
}

impl Read for RedbRead {
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        get_in(&self.table, key, found).map_err(while_("reading a value"))
    }

    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        scan_in(&self.table, from, row).map_err(while_("scanning"))
    }
}

impl Read for RedbWrite {
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        self.0.with_dependent(|_, table| get_in(table, key, found)).map_err(while_("reading a value"))
    }

    fn scan(&mut self, from: &[u8], row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        self.0.with_dependent(|_, table| scan_in(table, from, row)).map_err(while_("scanning"))
    }

    fn finish(self) -> Result<(), EngineError> {
        self.0.into_owner().abort().map_err(while_("discarding a transaction"))
    }
}

impl Write for RedbWrite {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let put = |table: &mut WriteTable<'_>| table.insert(key, value).map(drop);
        self.0.with_dependent_mut(|_, table| put(table)).map_err(while_("storing a value"))
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        let delete = |table: &mut WriteTable<'_>| table.remove(key).map(|old| old.is_some());
        self.0.with_dependent_mut(|_, table| delete(table)).map_err(while_("removing a value"))
    }

    fn commit(self) -> Result<(), EngineError> {
        self.0.into_owner().commit().map_err(while_("committing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that this thread has read or written by system calls.
    fn bytes(which: &str) -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        text.lines().find_map(|line| line.strip_prefix(which)?.parse().ok()).unwrap()
    }

    #[test]
    fn opening_a_store_that_exists_writes_no_commit_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let spec = StoreSpec::of(ENGINE);
        Redb::open(dir.path(), &spec).unwrap().close().unwrap();
        let written = |open_and_close: &dyn Fn()| {
            let before = bytes("wchar: ");
            open_and_close();
            bytes("wchar: ") - before
        };
        let by_redb = written(&|| drop(Builder::new().create(dir.path().join(FILE)).unwrap()));
        assert_eq!(written(&|| Redb::open(dir.path(), &spec).unwrap().close().unwrap()), by_redb);
    }

    #[test]
    fn settings_in_force_are_read_without_the_pages_of_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let options = [("cache".to_owned(), prony_model::spec::OptionValue::Text("1 kB".to_owned()))].into();
        let spec = StoreSpec { durability: Some(Durability::Volatile), options, ..StoreSpec::of(ENGINE) };
        let store = Redb::open(dir.path(), &spec).unwrap();
        let mut write = store.begin(Commit::Immediate).unwrap();
        (0..10_000u32).for_each(|n| write.put(&n.to_be_bytes(), &[7; 100]).unwrap());
        write.commit().unwrap();
        let before = bytes("rchar: ");
        store.in_force().unwrap();
        let read = bytes("rchar: ") - before;
        assert!(read < 100_000, "{read}");
        let txn = store.db.begin_write().unwrap();
        assert_eq!(txn.stats().unwrap().page_size(), store.page_size as usize);
        txn.abort().unwrap();
        assert!(bytes("rchar: ") - before > 1_000_000, "the statistics read the whole store");
    }
}
