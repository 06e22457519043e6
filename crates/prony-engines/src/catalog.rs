//! The engines of this build, as the catalogue with which experiment files are checked.

use prony_model::catalog::{EngineCatalog, EngineFacts, StoreFault};
use prony_model::spec::StoreSpec;
use prony_model::units::Bytes;

use crate::registry;

/// The registry as a catalogue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Catalog;

impl EngineCatalog for Catalog {
    fn memory(&self) -> Option<Bytes> {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(Bytes::from_kib(total.trim().strip_suffix("kB")?.trim().parse().ok()?))
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
        Some(EngineFacts {
            batches: can.batches,
            reads_own_writes: can.reads_own_writes,
            open_transactions: can.open_transactions,
            ordered: can.ordered,
            persistent: can.persistent,
            processes: can.processes,
            concurrent_writers: can.concurrent_writers,
            commits_wait_for_readers: can.commits_wait_for_readers,
            own_documents: can.own_documents,
            max_key: can.max_key,
            classes: described.promises.iter().map(|promise| promise.class).collect(),
        })
    }

    fn check(&self, store: &StoreSpec) -> Vec<StoreFault> {
        let faults = registry::check(store).err().unwrap_or_default();
        let fault = |fault: crate::driver::OptionFault| StoreFault {
            option: fault.option,
            message: fault.message,
            hint: fault.hint,
        };
        faults.into_iter().map(fault).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
