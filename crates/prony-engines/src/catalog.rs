//! The engines of this build, as the catalogue with which experiment files are checked.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use prony_model::catalog::{EngineCatalog, EngineFacts, StoreFault};
use prony_model::spec::{DocumentFile, Durability, FieldSpec, StoreSpec};
use prony_model::units::Bytes;
use prony_workload::survey;

use crate::registry;

/// The registry as a catalogue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Catalog;

/// Files of documents as they were last read: each variant asks for its own, and a file may be large.
static SURVEYS: Mutex<BTreeMap<PathBuf, (Stamp, Survey)>> = Mutex::new(BTreeMap::new());

/// What is known of such a file.
type Survey = (DocumentFile, Vec<FieldSpec>);

/// Device, inode, size, and the last changes of content and inode: what has the same was not written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp([u64; 3], [(i64, i64); 2]);

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let about = std::fs::metadata(path).ok()?;
        let changes = [(about.mtime(), about.mtime_nsec()), (about.ctime(), about.ctime_nsec())];
        Some(Self([about.dev(), about.ino(), about.size()], changes))
    }
}

impl EngineCatalog for Catalog {
    fn memory(&self) -> Option<Bytes> {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(Bytes::from_kib(total.trim().strip_suffix("kB")?.trim().parse().ok()?))
    }

    fn documents(&self, path: &Path) -> Result<Survey, String> {
        let key = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let stamp = Stamp::of(path);
        let mut known = SURVEYS.lock().unwrap_or_else(PoisonError::into_inner);
        match (known.get(&key), &stamp) {
            (Some((then, found)), Some(now)) if then == now => return Ok(found.clone()),
            _ => {}
        }
        let found = survey(path).map_err(|error| error.to_string())?;
        if let Some(stamp) = stamp {
            known.insert(key, (stamp, found.clone()));
        }
        Ok(found)
    }

    fn engines(&self) -> Vec<String> {
        registry::KNOWN.iter().filter(|known| known.built).map(|known| known.name.to_owned()).collect()
    }

    fn absent(&self) -> Vec<(String, String)> {
        let absent = registry::KNOWN.iter().filter(|known| !known.built);
        absent.filter_map(|known| Some((known.name.to_owned(), known.feature?.to_owned()))).collect()
    }

    fn facts(&self, store: &StoreSpec) -> Option<EngineFacts> {
        let described = registry::describe(&store.engine).ok()?;
        let can = registry::capabilities(store).ok()?;
        let mut classes: Vec<Durability> = described.promises.iter().map(|promise| promise.class).collect();
        // What a class promises may depend on more settings.
        classes.dedup();
        Some(EngineFacts { can, classes })
    }

    fn check(&self, store: &StoreSpec) -> Vec<StoreFault> {
        registry::check(store).err().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::spec::OptionValue;

    #[test]
    fn the_catalogue_is_the_registry() {
        let known: Vec<String> = registry::KNOWN.iter().map(|known| known.name.to_owned()).collect();
        let mut all = Catalog.engines();
        all.extend(Catalog.absent().into_iter().map(|(name, _)| name));
        all.sort();
        let mut sorted = known;
        sorted.sort();
        assert_eq!(all, sorted);
        for engine in Catalog.engines() {
            assert!(!Catalog.facts(&StoreSpec::of(&engine)).unwrap().classes.is_empty(), "{engine} promises something");
        }
    }

    #[test]
    fn an_option_at_fault_is_named() {
        let options = BTreeMap::from([("no_such_option".to_owned(), OptionValue::Bool(true))]);
        let store = StoreSpec { options, ..StoreSpec::of("memory") };
        let faults = Catalog.check(&store);
        assert_eq!(faults[0].option.as_deref(), Some("no_such_option"));
    }
}
