//! A guard that checks whether data of a program's store are in its heap as well.

use serde_json::json;

use super::{Finding, Severity, amount};
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::record::{PhaseRecord, TrialRecord};
use prony_model::spec::{Action, PhaseSpec, TrialSpec};
use prony_model::units::Bytes;

/// Stores below this size are not judged: the files of a runtime itself may be mapped with up to 50 MB.
const SMALLEST: Bytes = Bytes::from_mib(100);

/// Share of the store's size that both the heap and the mapped files must have.
const SHARE: f64 = 0.5;

/// After a forced collection a heap is about as large as the store that the program has mapped: the same data may be in memory
/// twice. Without a collection the heap may hold garbage, and objects that only weak references still reach.
pub(crate) fn beside_map(spec: &TrialSpec, record: &TrialRecord) -> Vec<Finding> {
    let collected = |phase: &&PhaseRecord| spec.phases.iter().any(|one| one.name == phase.name && collects(one));
    record.phases.iter().filter(collected).filter_map(of_phase).collect()
}

fn collects(phase: &PhaseSpec) -> bool {
    matches!(&phase.action, Action::Observe(observe) if observe.at_end.as_ref().is_some_and(|at_end| at_end.collect))
}

fn of_phase(phase: &PhaseRecord) -> Option<Finding> {
    let at_end = |metric| phase.reading(MetricKey::gauge(metric, Stat::End))?.measured().copied();
    let (heap, file, disk) = (at_end(Metric::HeapUsed)?, at_end(Metric::File)?, amount(phase, Metric::Disk)?);
    if disk < SMALLEST.as_bytes() as f64 || heap.min(file) < SHARE * disk {
        return None;
    }
    let shown = |bytes: f64| Bytes::from_bytes(bytes as u64);
    let message = format!(
        "after a forced collection the heap uses {}, and {} of files are mapped, beside a store of {}: the same data may be in \
         memory twice",
        shown(heap),
        shown(file),
        shown(disk)
    );
    let hint = "compare `heap.used.end` with the data that the program means to cache; the kernel can reclaim mapped pages, not \
                the heap";
    let found = Finding::of("heap_beside_map", Severity::Note, message, hint).in_phase(&phase.name);
    Some(found.with(json!({ "heap": heap, "file": file, "disk": disk })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::program::tests::spec;
    use prony_model::program::AtEndSpec;
    use prony_model::reading::Reading;
    use prony_model::record::MetricKeyText;

    fn found(heap: f64, file: f64, disk: f64, collect: bool) -> Vec<Finding> {
        let (mut spec, mut record) = (spec(None, None), crate::guard::tests::calm());
        let Action::Observe(observe) = &mut spec.phases[0].action else { panic!("not of a program") };
        observe.at_end = Some(AtEndSpec { collect, ..AtEndSpec::default() });
        let phase = &mut record.phases[0];
        phase.name.clone_from(&spec.phases[0].name);
        let keys = [MetricKey::gauge(Metric::HeapUsed, Stat::End), MetricKey::gauge(Metric::File, Stat::End)];
        let keys = keys.into_iter().chain([MetricKey::amount(Metric::Disk)]);
        let readings = keys.zip([heap, file, disk]).map(|(key, mb)| (MetricKeyText(key), Reading::Measured(mb * 1e6)));
        phase.readings.insert(String::new(), readings.collect());
        beside_map(&spec, &record)
    }

    #[test]
    fn heap_as_large_as_the_mapped_store_is_noted_after_a_collection() {
        let both = found(180.0, 190.0, 200.0, true);
        assert_eq!(
            both[0].message,
            "after a forced collection the heap uses 180.0 MB, and 190.0 MB of files are mapped, beside a store of 200.0 MB: \
             the same data may be in memory twice"
        );
        for (heap, file, disk, collect) in [
            (180.0, 190.0, 200.0, false),
            (8.0, 190.0, 200.0, true),
            (180.0, 45.0, 200.0, true),
            (60.0, 60.0, 90.0, true),
        ] {
            assert_eq!(found(heap, file, disk, collect), [], "{heap} {file} {disk} {collect}");
        }
    }
}
