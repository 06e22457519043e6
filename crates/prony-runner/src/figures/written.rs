//! Removes numbers of bytes written that are too large. Pure functions.
//!
//! The kernel counts a page as written when it becomes dirty, and counts the whole folio of the page: with the large folios of
//! many file systems up to 2 MiB where 4 KiB are overwritten. No other account of single processes exists. But what became dirty
//! in a phase was written by the device in it, or is dirty at its end: of the store, or of the machine where it is not known
//! which files a program writes. A number above that sum is not true; a lower one is at most the rest of the sum, which other
//! processes may have written, too large.

use prony_analysis::conclude::Observed;
use prony_model::metric::{Metric, MetricKey};
use prony_model::reading::{Reading, Why};
use prony_model::record::MetricKeyText;
use prony_model::units::Bytes;
use prony_os::host::is_coarse;

use crate::watched::Watched;

/// Phases without the bytes written that the kernel counted too many of. `unit` is what it counts for one page; asked only
/// where a number is in doubt.
pub(crate) fn checked(
    mut observed: Vec<Observed>,
    watched: &Watched,
    unit: impl Fn() -> Reading<Bytes>,
) -> Vec<Observed> {
    let written = MetricKeyText(MetricKey::amount(Metric::Written));
    for (one, end) in observed.iter_mut().zip(&watched.end) {
        let snapshot = end.map_or(watched.snapshots.last(), |end| watched.snapshots.get(end));
        let dirty = snapshot.and_then(|snapshot| snapshot.unwritten.measured());
        let device = one.phase.reading(MetricKey::amount(Metric::DeviceWritten)).and_then(Reading::measured);
        let most = device.zip(dirty).map(|(device, dirty)| device + dirty.as_bytes() as f64);
        let values = one.phase.readings.values().filter_map(|readings| readings.get(&written)?.measured());
        let largest = values.copied().fold(0.0, f64::max);
        if largest <= most.unwrap_or(0.0) {
            continue;
        }
        let unit = unit();
        if !is_coarse(&unit) {
            continue;
        }
        let why = too_many(largest, most, unit.measured().copied().unwrap_or_default());
        for readings in one.phase.readings.values_mut() {
            if let Some(reading) = readings.get_mut(&written).filter(|reading| reading.measured().is_some()) {
                *reading = Reading::Missing(why.clone());
            }
        }
    }
    observed
}

fn too_many(counted: f64, most: Option<f64>, unit: Bytes) -> Why {
    let amount = |bytes: f64| Bytes::from_bytes(bytes as u64);
    let than = match most {
        Some(most) => format!("{} were written to the device or remained in memory", amount(most)),
        None => "it is not known how much the device wrote".to_owned(),
    };
    let why = format!(
        "the kernel counts up to {unit} where one page of a file is overwritten (a large folio): it counted {}, but {than}",
        amount(counted)
    );
    Why::NotSupported(why.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::figures::span::tests::{snapshot, watched};
    use prony_analysis::conclude::Reached;
    use prony_model::record::{Completion, PhaseRecord};
    use prony_model::units::Nanos;

    /// A phase with these bytes written by the tree, by a replica and by the device, and so many dirty at the end.
    fn phase(written: [f64; 2], device: Option<f64>, dirty: Option<u64>, unit: u64) -> [Reading<f64>; 2] {
        let key = |metric| MetricKeyText(MetricKey::amount(metric));
        let mut whole = BTreeMap::from([(key(Metric::Written), Reading::Measured(written[0]))]);
        whole.extend(device.map(|device| (key(Metric::DeviceWritten), Reading::Measured(device))));
        let replica = BTreeMap::from([(key(Metric::Written), Reading::Measured(written[1]))]);
        let record = PhaseRecord {
            name: "write".into(),
            action: "put".into(),
            timed: true,
            completion: Completion::Complete,
            begin: Some(Nanos::ZERO),
            end: Some(Nanos::from_secs(1)),
            readings: BTreeMap::from([(String::new(), whole), ("replica.1".into(), replica)]),
            histograms: Vec::new(),
            groups: None,
            throughput: None,
            answer: None,
            errors: BTreeMap::new(),
        };
        let mut end = snapshot(1000, 0, &[7]);
        end.unwritten = dirty.map_or(Reading::Missing(Why::NotApplicable), |n| Reading::Measured(Bytes::from_bytes(n)));
        let mut watched = watched(vec![snapshot(0, 0, &[7]), end, snapshot(2000, 0, &[])], vec![]);
        watched.end = vec![Some(1)];
        let unit = || Reading::Measured(Bytes::from_bytes(unit));
        let found = checked(vec![Observed::new(record, Reached::OwnEnd)], &watched, unit).remove(0).phase.readings;
        ["", "replica.1"].map(|instance| found[instance][&key(Metric::Written)].clone())
    }

    #[test]
    fn bytes_that_no_device_wrote_are_missing_where_folios_are_large() {
        let (page, folio) = (rustix::param::page_size() as u64, 2 << 20);
        let stays = |found: &[Reading<f64>; 2]| found.iter().all(|reading| reading.measured().is_some());
        assert!(stays(&phase([100e6, 40e6], Some(60e6), Some(40_000_000), folio)), "the rest is dirty");
        assert!(stays(&phase([100e6, 40e6], Some(50e6), Some(40_000_000), page)), "a file system may compress");
        assert!(stays(&phase([0.0, 0.0], None, None, folio)));
        for found in [
            phase([100e6, 40e6], Some(50e6), Some(40_000_000), folio),
            phase([100e6, 40e6], None, Some(40_000_000), folio),
            phase([20e6, 40e6], Some(30e6), Some(0), folio),
        ] {
            assert!(found.iter().all(|reading| reading.measured().is_none()), "{found:?}");
        }
        let [Reading::Missing(why), _] = phase([100e6, 40e6], Some(50e6), Some(0), folio) else { panic!("measured") };
        let said = "the kernel counts up to 2.1 MB where one page of a file is overwritten (a large folio): it counted 100.0 MB, \
                    but 50.0 MB were written to the device or remained in memory";
        assert!(why.to_string().ends_with(said), "{why}");
    }
}
