//! The driver of sled 0.34, a log-structured B-tree on a lock-free page cache.
//!
//! The default tree of one `Db`. A write transaction is a `Batch`, which sled applies atomically; a batch of one
//! operation goes in by `insert` or `remove`, as sled intends for single operations. sled's own transactions are
//! closures that it may run again, and cannot be held open, so there is none here that reads its own writes. Reads see
//! one operation or batch at a time, not one snapshot.
//!
//! Durability, from `iobuf.rs` and `flusher.rs`: on Linux a flush writes the log's buffer and then
//! calls `sync_file_range`, which empties no device cache and writes no metadata; `sync_all` follows
//! once per `flush_every`. So a commit that is flushed survives the process (relaxed, not strict);
//! without, up to `flush_every` of commits stay in the process (volatile).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ::sled::{Batch, Db, Mode, Tree};
use prony_model::record::effective::NamedSettings;
use prony_model::spec::{Durability, StoreSpec};

use crate::driver::{
    Capabilities, Description, Driver, EngineError, InForce, OptionKind, OptionSpec, Promise, Read, Session, Settings,
    Store, StoreFault, Then, Write,
};
use crate::failure::{OWN_WRITES, failed, refused, unsupported};
use crate::options::{self, Config, one_of, option, promise};

const ENGINE: &str = "sled";

/// sled.
pub struct Sled;

/// A sled database.
pub struct SledStore {
    db: Db,
    dir: PathBuf,
    config: Config,
}

/// A client of a sled database.
pub struct SledSession<'s> {
    store: &'s SledStore,
}

/// Reads of the present state.
pub struct SledRead<'t> {
    tree: &'t Tree,
}

/// Operations to apply together.
pub struct SledWrite<'t> {
    store: &'t SledStore,
    pending: Pending,
}

enum Pending {
    Nothing,
    One(Vec<u8>, Option<Vec<u8>>),
    Many(Batch),
}

fn option_specs() -> Vec<OptionSpec> {
    let period = OptionKind::Int { min: 1, max: 3_600_000 };
    vec![
        option("cache", OptionKind::Bytes, "1 GiB", "size of the page cache (cache_capacity)"),
        option("flush_every", period, "500", "milliseconds between background flushes (flush_every_ms)"),
        option(
            "mode",
            one_of(&["low_space", "high_throughput"]),
            "low_space",
            "whether sled saves space or favours throughput (mode)",
        ),
    ]
}

fn promises() -> Vec<Promise> {
    vec![
        promise(Durability::Relaxed, "flush with each commit: sync_file_range, and sync_all each flush_every", false),
        promise(Durability::Volatile, "flush_every in the background", true),
    ]
}

fn configure(spec: &StoreSpec) -> Result<Config, Vec<StoreFault>> {
    options::configure(spec, &option_specs(), &promises(), |options, class, faults| {
        // sled panics on less.
        if options.bytes("cache") < 256 {
            faults.push(options::out_of_range("cache", "`cache` must be at least 256 bytes".to_owned()));
        }
        options.set("flush", if class == Durability::Relaxed { "each commit" } else { "in the background" });
    })
}

impl Driver for Sled {
    type Store = SledStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: env!("PRONY_VERSION_SLED").to_owned(),
            library: format!("sled {}", env!("PRONY_VERSION_SLED")),
            capabilities: Capabilities {
                batches: true,
                ordered: true,
                persistent: true,
                concurrent_writers: true,
                collects_writes: true,
                compresses: true,
                ..Capabilities::default()
            },
            promises: promises(),
            options: option_specs(),
            idiom: "the default tree; single operations by insert and remove, several as one Batch; reads of the \
                    current state, without a snapshot"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        configure(spec).map(Config::settings)
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<SledStore, EngineError> {
        let config = configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let options = &config.options;
        let small = options.word("mode") == "low_space";
        let opened = ::sled::Config::new()
            .path(dir)
            .cache_capacity(options.bytes("cache"))
            .flush_every_ms(u64::try_from(options.int("flush_every")).ok())
            .mode(if small { Mode::LowSpace } else { Mode::HighThroughput })
            .open();
        Ok(SledStore { db: opened.map_err(while_("opening the store"))?, dir: dir.to_owned(), config })
    }
}

fn while_(doing: &'static str) -> impl Fn(::sled::Error) -> EngineError {
    move |error| match error {
        ::sled::Error::Io(error) => failed(ENGINE, doing, error),
        error => failed(ENGINE, doing, error),
    }
}

impl Store for SledStore {
    type Session<'s> = SledSession<'s>;

    fn session(&self) -> Result<SledSession<'_>, EngineError> {
        Ok(SledSession { store: self })
    }

    /// sled does not report how it was opened.
    fn in_force(&self) -> Result<InForce, EngineError> {
        Ok(self.config.in_force(NamedSettings::new()))
    }

    fn persist(&self) -> Result<(), EngineError> {
        self.db.flush().map_err(while_("flushing"))?;
        sync_tree(&self.dir).map_err(|error| failed(ENGINE, "syncing the files", error))
    }

    fn close(self) -> Result<(), EngineError> {
        self.db.flush().map_err(while_("flushing")).map(drop)
    }
}

impl Session for SledSession<'_> {
    type Read<'t>
        = SledRead<'t>
    where
        Self: 't;
    type Write<'t>
        = SledWrite<'t>
    where
        Self: 't;

    fn read(&mut self) -> Result<SledRead<'_>, EngineError> {
        Ok(SledRead { tree: &self.store.db })
    }

    fn write(&mut self) -> Result<SledWrite<'_>, EngineError> {
        Ok(SledWrite { store: self.store, pending: Pending::Nothing })
    }
}

impl Read for SledRead<'_> {
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        let value = self.tree.get(key).map_err(while_("reading a value"))?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], mut row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        for entry in self.tree.range(from..) {
            let (key, value) = entry.map_err(while_("scanning"))?;
            if row(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Read for SledWrite<'_> {
    fn get(&mut self, _: &[u8], _: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        Err(unsupported(ENGINE, OWN_WRITES))
    }

    fn scan(&mut self, _: &[u8], _: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        Err(unsupported(ENGINE, OWN_WRITES))
    }
}

/// Syncs every file below `dir`, and the directories that name them.
fn sync_tree(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            match File::open(entry.path()) {
                Ok(file) => file.sync_all()?,
                // Engines remove files in the background.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    File::open(dir)?.sync_all()
}

fn add(batch: &mut Batch, key: &[u8], value: Option<&[u8]>) {
    match value {
        Some(value) => batch.insert(key, value),
        None => batch.remove(key),
    }
}

impl Pending {
    fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        match self {
            Self::Nothing => *self = Self::One(key.to_vec(), value.map(<[u8]>::to_vec)),
            Self::One(first, with) => {
                let mut batch = Batch::default();
                add(&mut batch, first, with.as_deref());
                add(&mut batch, key, value);
                *self = Self::Many(batch);
            }
            Self::Many(batch) => add(batch, key, value),
        }
    }

    fn apply(self, tree: &Tree) -> ::sled::Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::One(key, Some(value)) => tree.insert(key, value).map(drop),
            Self::One(key, None) => tree.remove(key).map(drop),
            Self::Many(batch) => tree.apply_batch(batch),
        }
    }
}

impl Write for SledWrite<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.pending.push(key, Some(value));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        self.pending.push(key, None);
        Ok(true)
    }

    fn commit(self) -> Result<(), EngineError> {
        self.pending.apply(&self.store.db).map_err(while_("committing"))?;
        if self.store.config.class == Durability::Relaxed {
            self.store.db.flush().map_err(while_("flushing a commit"))?;
        }
        Ok(())
    }
}
