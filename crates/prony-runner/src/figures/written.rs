//! Removes numbers of bytes written that may be far too large. Pure functions.
//!
//! The kernel counts a page as written when it becomes dirty, and counts the whole folio of the page: with the large folios of
//! many file systems up to 2 MiB where 4 KiB are overwritten. Its counts of dirty pages have the same error, and there is no other
//! account of single processes. So a number counts only if the device confirms it: the device wrote as much in the phase and little
//! more, and little was dirty at its begin that it could have written instead. What other processes write meanwhile is part of
//! what the device writes, and confirms nothing. By chance it may be as much as the count has too much: where the device wrote
//! less in another trial, the count has that error in all ([`without_disproved`](prony_model::record::without_disproved)).

use prony_analysis::conclude::Observed;
use prony_boundaries::phase_state::PhaseState;
use prony_model::metric::{Metric, MetricKey};
use prony_model::reading::{Reading, Why};
use prony_model::record::{MORE_THAN_DEVICE, PhaseRecord};
use prony_model::units::Bytes;
use prony_os::sample::Snapshot;
use prony_os::write_unit::is_coarse;

use crate::figures::readings::take_away;
use crate::watched::Watched;
use crate::watched::replicas::{Ran, Replicated};

/// By what share a number may exceed what the device wrote: counters are read one after the other.
const SLACK: f64 = 0.01;

/// Which share of what the device wrote may have been dirty at the begin of the phase. A number is too large by at most about
/// this share.
const DIRTY: f64 = 0.1;

/// By what share the device may have written more than the number: the journal of the file system.
const MORE: f64 = 0.25;

/// Phases without the bytes written that the device does not confirm, where the kernel counts whole folios. `unit` is what it
/// counts for one page; asked only where a number is in doubt.
pub(crate) fn checked(
    mut observed: Vec<Observed>,
    watched: &Watched,
    unit: impl Fn() -> Reading<Bytes>,
) -> Vec<Observed> {
    for (index, (one, begin)) in observed.iter_mut().zip(&watched.begin).enumerate() {
        let begin = begin.and_then(|begin| watched.snapshots.get(begin));
        let reported = reported(watched, index);
        let Some(doubt) = doubt(&one.phase, &reported, begin) else { continue };
        let unit = unit();
        if !is_coarse(&unit) {
            continue;
        }
        let unit = unit.measured().copied().unwrap_or_default();
        let why = format!(
            "the kernel counts up to {unit} as written where one page of a file is overwritten (a large folio): {doubt}"
        );
        let why = Why::NotSupported(why.into());
        let counted = one.phase.readings.iter_mut().filter(|(instance, _)| !reported.contains(*instance));
        counted.for_each(|(_, readings)| take_away(readings, [Metric::Written], &why));
    }
    observed
}

/// The instances of a phase whose bytes written are what the program or a replica prints: the kernel did not count them.
fn reported(watched: &Watched, index: usize) -> Vec<String> {
    let names = |lines: &PhaseState| lines.reported().contains_key(&MetricKey::amount(Metric::Written));
    let (own, Replicated { phase, all, .. }) = (&watched.tracker.phases[index], &watched.replicas);
    let started = if *phase == index { all.as_slice() } else { &[] };
    let of_program = names(own) && !started.iter().any(|ran| own.is_reported_by(&ran.lines));
    let of_replicas = started.iter().filter(|ran| names(&ran.lines)).map(Ran::role);
    of_replicas.chain(of_program.then(String::new)).collect()
}

/// Why the largest number of bytes written in a phase that the kernel counted may be too large.
fn doubt(phase: &PhaseRecord, reported: &[String], begin: Option<&Snapshot>) -> Option<String> {
    let counted = phase.readings.keys().filter(|instance| !reported.contains(*instance));
    let written = counted.filter_map(|instance| phase.amount_of(instance, Metric::Written));
    let largest = written.fold(0.0, f64::max);
    if largest == 0.0 {
        return None;
    }
    let amount = |bytes: f64| Bytes::from_bytes(bytes as u64);
    let counted = format!("it counted {}", amount(largest));
    let perhaps = |why: String| Some(format!("{counted}, and {why}"));
    let device = match phase.reading(MetricKey::amount(Metric::DeviceWritten)) {
        Some(Reading::Measured(device)) => *device,
        Some(Reading::Missing(why)) => return perhaps(format!("what the device wrote is not known: {why}")),
        None => return perhaps("what the device wrote is not known".to_owned()),
    };
    let Some(dirty) = begin.and_then(|begin| begin.unwritten.measured()) else {
        return perhaps("how many pages were dirty before the phase is not known".to_owned());
    };
    if largest > device * (1.0 + SLACK) {
        return Some(format!("{counted}{MORE_THAN_DEVICE}{} in the phase", amount(device)));
    }
    let dirty = dirty.as_bytes() as f64;
    if dirty > DIRTY * device {
        let (device, dirty) = (amount(device), amount(dirty));
        return perhaps(format!(
            "the device wrote {device} in the phase, of which up to {dirty} was already dirty when the phase began"
        ));
    }
    if device > largest * (1.0 + MORE) {
        return perhaps(format!(
            "other processes may have written most of the {} that the device wrote",
            amount(device)
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::figures::replicas::tests::{heard, ran};
    use crate::figures::span::tests::{snapshot, watched};
    use prony_analysis::conclude::Reached;
    use prony_model::record::{Completion, MetricKeyText};
    use prony_model::units::Nanos;

    /// A phase in which the tree and a replica wrote these bytes, and the device `device`, with so many dirty before.
    fn phase(written: [f64; 2], device: Option<f64>, dirty: Option<u64>, unit: u64) -> [Reading<f64>; 2] {
        phase_of((PhaseState::default(), vec![]), written, device, dirty, unit)
    }

    /// The same of a program and replicas that wrote lines.
    fn phase_of(
        (lines, replicas): (PhaseState, Vec<Ran>),
        written: [f64; 2],
        device: Option<f64>,
        dirty: Option<u64>,
        unit: u64,
    ) -> [Reading<f64>; 2] {
        let key = |metric| MetricKeyText(MetricKey::amount(metric));
        let mut whole = BTreeMap::from([(key(Metric::Written), Reading::Measured(written[0]))]);
        let device = device.map_or(Reading::Missing(Why::NotApplicable), Reading::Measured);
        whole.insert(key(Metric::DeviceWritten), device);
        let replica = BTreeMap::from([(key(Metric::Written), Reading::Measured(written[1]))]);
        let record = PhaseRecord {
            name: "write".into(),
            action: "put".into(),
            timed: true,
            completion: Completion::Complete,
            begin: Some(Nanos::ZERO),
            end: Some(Nanos::from_secs(1)),
            readings: BTreeMap::from([(String::new(), whole), ("replica.1".into(), replica)]),
            ..PhaseRecord::default()
        };
        let mut begin = snapshot(1000, 0, &[7]);
        begin.unwritten =
            dirty.map_or(Reading::Missing(Why::NotApplicable), |n| Reading::Measured(Bytes::from_bytes(n)));
        let mut watched = watched(vec![snapshot(0, 0, &[7]), begin, snapshot(2000, 0, &[])], vec![]);
        watched.begin = vec![Some(1)];
        watched.tracker.phases = vec![lines];
        watched.replicas.all = replicas;
        let unit = || Reading::Measured(Bytes::from_bytes(unit));
        let found = checked(vec![Observed::new(record, Reached::OwnEnd)], &watched, unit).remove(0).phase.readings;
        ["", "replica.1"].map(|instance| found[instance][&key(Metric::Written)].clone())
    }

    #[test]
    fn bytes_that_the_device_does_not_confirm_are_missing_where_folios_are_large() {
        let (page, folio) = (rustix::param::page_size() as u64, 2 << 20);
        let stays = |found: &[Reading<f64>; 2]| found.iter().all(|reading| reading.measured().is_some());
        assert!(stays(&phase([100e6, 40e6], Some(99.5e6), Some(9_000_000), folio)), "read one after the other");
        assert!(stays(&phase([100e6, 40e6], Some(50e6), Some(40_000_000), page)), "a file system may compress");
        assert!(stays(&phase([0.0, 0.0], None, None, folio)));
        let text = |found: [Reading<f64>; 2]| match found {
            [Reading::Missing(why), Reading::Missing(_)] => {
                why.to_string().split(": ").last().unwrap_or_default().to_owned()
            }
            other => panic!("{other:?}"),
        };
        let of = |written, device, dirty| text(phase(written, device, dirty, folio));
        assert_eq!(
            of([100e6, 40e6], Some(90e6), Some(0)),
            "it counted 100.0 MB, but the device wrote only 90.0 MB in the phase"
        );
        assert_eq!(
            of([20e6, 40e6], Some(30e6), Some(0)),
            "it counted 40.0 MB, but the device wrote only 30.0 MB in the phase"
        );
        assert_eq!(
            of([20e6, 0.0], Some(30e6), Some(4_000_000)),
            "it counted 20.0 MB, and the device wrote 30.0 MB in the phase, of which up to 4.0 MB was already dirty when the phase began"
        );
        let unknown = of([20e6, 0.0], Some(30e6), None);
        assert_eq!(unknown, "it counted 20.0 MB, and how many pages were dirty before the phase is not known");
        assert!(phase([20e6, 0.0], None, Some(0), folio)[0].measured().is_none());
        // Of 71 MB, 6 were written: another process wrote the rest meanwhile, and the number remained.
        let beside = of([70e6, 0.0], Some(108e6), Some(0));
        assert_eq!(
            beside,
            "it counted 70.0 MB, and other processes may have written most of the 108.0 MB that the device wrote"
        );
        assert!(stays(&phase([100e6, 0.0], Some(124e6), Some(0), folio)), "the journal of the file system");
    }

    /// 5 MB that a program printed were missing, since `the kernel counted` them and the device wrote nothing.
    #[test]
    fn bytes_that_a_program_prints_need_no_device() {
        let lines = || heard(r"bytes (?<written>\S+)", 1000, &["bytes 5000000"]);
        let found = |replicas| phase_of((lines(), replicas), [5e6, 4e6], Some(0.0), Some(0), 2 << 20);
        let [own, replica] = found(vec![]);
        assert_eq!(own, Reading::Measured(5e6));
        assert!(format!("{replica:?}").contains("it counted 4.0 MB, but the device wrote only 0 B"), "{replica:?}");
        let printing = Ran { lines: lines(), ..ran(1, (1000, 2000), 5, &[]) };
        assert_eq!(found(vec![printing]), [Reading::Measured(5e6), Reading::Measured(4e6)]);
    }
}
