//! A guard that checks whether data of a program's store may be in its heap as well.

use serde_json::json;

use super::{Finding, Severity, amount, bytes, gauge};
use prony_model::metric::{Metric, Stat};
use prony_model::record::{PhaseRecord, TrialRecord};
use prony_model::spec::{Action, PhaseSpec, TrialSpec};

/// Stores below this size in bytes are not judged: the heap of a runtime itself may be as large.
const SMALLEST: f64 = 100e6;

/// Share of the store's size that both the heap and the store's pages in the page cache must have.
const SHARE: f64 = 0.5;

/// After a forced collection a heap is about as large as what the page cache has of the program's store: the same data may be in
/// memory twice. Without a collection the heap may hold garbage, and objects that only weak references still reach.
pub(crate) fn beside_cache(spec: &TrialSpec, record: &TrialRecord) -> Vec<Finding> {
    let collected = |phase: &&PhaseRecord| spec.phases.iter().any(|one| one.name == phase.name && collects(one));
    record.phases.iter().filter(collected).filter_map(of_phase).collect()
}

fn collects(phase: &PhaseSpec) -> bool {
    matches!(&phase.action, Action::Observe(observe) if observe.at_end.as_ref().is_some_and(|at_end| at_end.collect))
}

fn of_phase(phase: &PhaseRecord) -> Option<Finding> {
    // Buffers of Node, for instance, are outside of its heap.
    let heap = gauge(phase, Metric::HeapUsed, Stat::End)? + gauge(phase, Metric::External, Stat::End).unwrap_or(0.0);
    let (cached, disk) = (amount(phase, Metric::CachedBytes)?, amount(phase, Metric::Disk)?);
    if disk < SMALLEST || heap.min(cached) < SHARE * disk {
        return None;
    }
    let message = format!(
        "after a forced collection the heap uses {}, `external` included, and the page cache has {} of a store of {}: the same \
         data may be in memory twice",
        bytes(heap),
        bytes(cached),
        bytes(disk)
    );
    let hint = "compare the heap with the data that the program means to keep; the kernel can reclaim pages of the store, not \
                the heap";
    let found = Finding::of("heap_beside_cache", Severity::Note, message, hint).in_phase(&phase.name);
    Some(found.with(json!({ "heap": heap, "cached": cached, "disk": disk })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::program::tests::spec;
    use prony_model::metric::MetricKey;
    use prony_model::program::AtEndSpec;
    use prony_model::reading::Reading;
    use prony_model::record::MetricKeyText;

    /// Sizes in MB: heap, external, page cache, disk.
    fn found(sizes: [f64; 4], collect: bool) -> Vec<Finding> {
        let (mut spec, mut record) = (spec(None, None), crate::guard::tests::calm());
        let Action::Observe(observe) = &mut spec.phases[0].action else { panic!("not of a program") };
        observe.at_end = Some(AtEndSpec { collect, ..AtEndSpec::default() });
        let phase = &mut record.phases[0];
        phase.name.clone_from(&spec.phases[0].name);
        let gauges = [Metric::HeapUsed, Metric::External].map(|metric| MetricKey::gauge(metric, Stat::End));
        let keys = gauges.into_iter().chain([Metric::CachedBytes, Metric::Disk].map(MetricKey::amount));
        let readings = keys.zip(sizes).map(|(key, mb)| (MetricKeyText(key), Reading::Measured(mb * 1e6)));
        phase.readings.insert(String::new(), readings.collect());
        beside_cache(&spec, &record)
    }

    #[test]
    fn heap_as_large_as_the_cached_store_is_noted_after_a_collection() {
        assert_eq!(
            found([60.0, 120.0, 190.0, 200.0], true)[0].message,
            "after a forced collection the heap uses 180.0 MB, `external` included, and the page cache has 190.0 MB of a store of \
             200.0 MB: the same data may be in memory twice"
        );
        assert_eq!(found([60.0, 120.0, 190.0, 200.0], false), []);
        for sizes in [[8.0, 2.0, 190.0, 200.0], [180.0, 0.0, 45.0, 200.0], [60.0, 0.0, 60.0, 90.0]] {
            assert_eq!(found(sizes, true), [], "{sizes:?}");
        }
    }
}
