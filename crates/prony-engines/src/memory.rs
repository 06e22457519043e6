//! The driver of the engine `memory`: a sorted map on the process's own heap. It is the oracle of the contract suite,
//! and the baseline with which data stores are compared.
//!
//! Readers share a lock on the map, which gives each of them one snapshot. A write transaction keeps its changes in a
//! map of its own, sees them, and moves them over in one go when it commits: until then it delays no reader, and
//! discarding it costs nothing. One write transaction runs at a time. A commit waits for read transactions that are
//! open.
//!
//! Nothing reaches the disk until [`Store::persist`] writes a snapshot (to a new file, synced, then
//! renamed over the old one). Opening a directory with a snapshot loads it; closing does not write
//! one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use prony_model::record::effective::NamedSettings;
use prony_model::spec::{Durability, StoreSpec};

use crate::driver::{
    Capabilities, Description, Driver, EngineError, InForce, Promise, Read, Session, Settings, Store, StoreFault, Then,
    Write,
};
use crate::failure::{failed, refused};
use crate::options::{self, Config, promise};

const ENGINE: &str = "memory";
const FILE: &str = "snapshot";
const MAGIC: &[u8; 8] = b"prony\0\0\x01";

type Map = BTreeMap<Box<[u8]>, Box<[u8]>>;
type Changes = BTreeMap<Box<[u8]>, Option<Box<[u8]>>>;

/// The process's own heap as an engine.
pub struct Memory;

/// A map on the heap.
pub struct MemoryStore {
    map: RwLock<Map>,
    writer: Mutex<()>,
    dir: PathBuf,
}

/// A client of a map on the heap.
pub struct MemorySession<'s> {
    store: &'s MemoryStore,
}

/// A shared lock on the map.
pub struct MemoryRead<'t> {
    map: RwLockReadGuard<'t, Map>,
}

/// Changes that have not been committed.
pub struct MemoryWrite<'t> {
    store: &'t MemoryStore,
    changes: Changes,
    _writer: MutexGuard<'t, ()>,
}

fn promises() -> Vec<Promise> {
    vec![promise(Durability::Volatile, "on the heap; `persist` writes a snapshot", true)]
}

fn configure(spec: &StoreSpec) -> Result<Config, Vec<StoreFault>> {
    options::configure(spec, &[], &promises(), |_, _, _| ())
}

impl Driver for Memory {
    type Store = MemoryStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            library: "std::collections::BTreeMap".to_owned(),
            capabilities: Capabilities {
                batches: true,
                reads_own_writes: true,
                open_transactions: true,
                snapshots: true,
                ordered: true,
                in_memory: true,
                commits_wait_for_readers: true,
                collects_writes: true,
                reports_removals: true,
                ..Capabilities::default()
            },
            promises: promises(),
            options: Vec::new(),
            idiom: "a sorted map; readers share a lock; a write transaction keeps its changes apart until it commits; \
                    values read in place"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        configure(spec).map(Config::settings)
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<MemoryStore, EngineError> {
        configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let map = load(&dir.join(FILE)).map_err(|error| failed(ENGINE, "loading the snapshot", error))?;
        Ok(MemoryStore { map: RwLock::new(map), writer: Mutex::new(()), dir: dir.to_owned() })
    }
}

impl MemoryStore {
    /// A panic in another thread leaves the map consistent: changes are moved to it between two operations only.
    fn shared(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    type Session<'s> = MemorySession<'s>;

    fn session(&self) -> Result<MemorySession<'_>, EngineError> {
        Ok(MemorySession { store: self })
    }

    fn in_force(&self) -> Result<InForce, EngineError> {
        let (read_back, as_set) = (NamedSettings::new(), NamedSettings::new());
        Ok(InForce { durability: Durability::Volatile, read_back, as_set })
    }

    fn persist(&self) -> Result<(), EngineError> {
        save(&self.shared(), &self.dir).map_err(|error| failed(ENGINE, "writing the snapshot", error))
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        BTreeMap::from([("entries".to_owned(), self.shared().len() as f64)])
    }
}

impl<'s> Session for MemorySession<'s> {
    type Read<'t>
        = MemoryRead<'t>
    where
        Self: 't;
    type Write<'t>
        = MemoryWrite<'t>
    where
        Self: 't;

    fn read(&mut self) -> Result<MemoryRead<'_>, EngineError> {
        Ok(MemoryRead { map: self.store.shared() })
    }

    fn write(&mut self) -> Result<MemoryWrite<'_>, EngineError> {
        let writer = self.store.writer.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(MemoryWrite { store: self.store, changes: Changes::new(), _writer: writer })
    }
}

fn from_on(from: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(from), Bound::Unbounded)
}

impl Read for MemoryRead<'_> {
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        Ok(self.map.get(key).map(|value| found(value)).is_some())
    }

    fn scan(&mut self, from: &[u8], mut row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        let _ = self.map.range::<[u8], _>(from_on(from)).try_for_each(|(key, value)| row(key, value));
        Ok(())
    }
}

impl Read for MemoryWrite<'_> {
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        match self.changes.get(key) {
            Some(changed) => Ok(changed.as_ref().map(|value| found(value)).is_some()),
            None => Ok(self.store.shared().get(key).map(|value| found(value)).is_some()),
        }
    }

    fn scan(&mut self, from: &[u8], mut row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        let map = self.store.shared();
        let mut stored = map.range::<[u8], _>(from_on(from)).peekable();
        let mut changed = self.changes.range::<[u8], _>(from_on(from)).peekable();
        loop {
            let change_is_next = match (stored.peek(), changed.peek()) {
                (None, None) => break,
                (Some((stored, _)), Some((changed, _))) => changed <= stored,
                (stored, _) => stored.is_none(),
            };
            let (key, value) = if change_is_next {
                let Some((key, value)) = changed.next() else { break };
                let _ = stored.next_if(|(stored, _)| *stored == key);
                let Some(value) = value else { continue };
                (key, value)
            } else {
                let Some(entry) = stored.next() else { break };
                entry
            };
            if row(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Write for MemoryWrite<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.changes.insert(key.into(), Some(value.into()));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        let stored = self.store.shared().contains_key(key);
        match self.changes.entry(key.into()) {
            Entry::Occupied(mut changed) => Ok(changed.insert(None).is_some()),
            Entry::Vacant(unchanged) if stored => {
                unchanged.insert(None);
                Ok(true)
            }
            Entry::Vacant(_) => Ok(false),
        }
    }

    fn commit(self) -> Result<(), EngineError> {
        let mut map = self.store.map.write().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in self.changes {
            match value {
                Some(value) => drop(map.insert(key, value)),
                None => drop(map.remove(&key)),
            }
        }
        Ok(())
    }
}

/// Writes lengths and bytes of each record; the count comes first, so that a truncated file is detected.
fn save(map: &Map, dir: &Path) -> io::Result<()> {
    let fresh = dir.join("snapshot.new");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&fresh)?);
    out.write_all(MAGIC)?;
    out.write_all(&(map.len() as u64).to_le_bytes())?;
    for (key, value) in map {
        for bytes in [key, value] {
            out.write_all(&(bytes.len() as u64).to_le_bytes())?;
            out.write_all(bytes)?;
        }
    }
    out.into_inner()?.sync_data()?;
    std::fs::rename(fresh, dir.join(FILE))?;
    File::open(dir)?.sync_all()
}

fn load(path: &Path) -> io::Result<Map> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    let mut from = BufReader::with_capacity(1 << 20, file);
    let mut magic = [0; 8];
    from.read_exact(&mut magic)?;
    if &magic != MAGIC {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a snapshot of this version"));
    }
    let count = load_number(&mut from)?;
    (0..count).map(|_| Ok((load_bytes(&mut from, length)?, load_bytes(&mut from, length)?))).collect()
}

fn load_number(from: &mut impl io::Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn load_bytes(from: &mut impl io::Read, at_most: u64) -> io::Result<Box<[u8]>> {
    let length = load_number(from)?;
    if length > at_most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a record longer than the snapshot"));
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    from.read_exact(&mut bytes)?;
    Ok(bytes.into())
}
