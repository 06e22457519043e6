//! Metrics of workers that share a phase: how far apart their ends were, and the metrics of each. Pure functions.

use std::collections::{BTreeMap, BTreeSet};

use prony_boundaries::phase_state::WorkerPart;
use prony_model::metric::{Metric, MetricKey};
use prony_model::program::{REPLICAS, replica_instance};
use prony_model::record::{MetricKeyText, ProcessSeries};
use prony_model::spec::{Action, WORKER};
use prony_os::sample::{Snapshot, phase_readings};

use crate::figures::readings::{Readings, as_one, nanos, set};
use crate::figures::report::inside;
use crate::watched::replicas::LargestPss;

/// The metrics of each worker that shares a phase, and under `replicas` those of all: the phase's own, but as with replicas
/// of a program their time is the makespan. `snapshots` are those from the phase's begin to its end; the `whole` gets how far
/// apart the ends were. Nothing where the phase is not shared.
pub(crate) fn instances(
    action: &Action,
    parts: &[WorkerPart],
    snapshots: &[Snapshot],
    series: &[ProcessSeries],
    whole: &mut Readings,
) -> BTreeMap<String, Readings> {
    let (mut found, mut roles) = (BTreeMap::new(), BTreeSet::new());
    let ([begin, ..], [.., end], false) = (snapshots, snapshots, parts.is_empty()) else { return found };
    let (makespan, ends) = (nanos(WorkerPart::makespan(parts)), parts.iter().map(|part| part.ended));
    set(whole, Metric::Makespan, makespan.clone());
    set(whole, Metric::Skew, nanos(ends.clone().max().unwrap_or_default().since(ends.min().unwrap_or_default())));
    for (part, number) in parts.iter().zip(1..) {
        let instance = replica_instance(number);
        // The first runs the other phases too, and has the role of the store's worker.
        let role = if number == 1 { WORKER } else { instance.as_str() };
        let mut readings = phase_readings(begin, end, series, role);
        inside(action, &part.report, &mut readings);
        set(&mut readings, Metric::Wall, nanos(part.ended.since(part.began)));
        roles.insert(role.to_owned());
        found.insert(instance, readings);
    }
    let mut together = whole.clone();
    together.remove(&MetricKeyText(MetricKey::amount(Metric::Rate)));
    as_one(&mut together, LargestPss::default().with(snapshots, &roles, parts.len()), &makespan);
    found.insert(REPLICAS.to_owned(), together);
    found
}

#[cfg(test)]
mod tests {
    use prony_model::protocol::PhaseReport;

    use super::*;
    use crate::figures::span::tests::{ms, snapshot};

    /// A part from and to these milliseconds, with so many in timed sections.
    fn part(began: u64, ended: u64, time: u64) -> WorkerPart {
        let report = PhaseReport { time: ms(time), operations: 1, ..PhaseReport::default() };
        WorkerPart { began: ms(began), ended: ms(ended), report: Box::new(report) }
    }

    #[test]
    fn each_worker_has_metrics_of_its_own_and_all_have_those_of_the_phase() {
        let (parts, mut whole) = ([part(10, 40, 20), part(15, 45, 14)], Readings::new());
        let snapshots = [snapshot(0, 0, &[7]), snapshot(50, 5, &[7])];
        let found = instances(&Action::Reopen, &parts, &snapshots, &[], &mut whole);
        let of = |readings: &Readings, metric| {
            readings.get(&MetricKeyText(MetricKey::amount(metric))).unwrap().measured().copied().unwrap() / 1e6
        };
        assert_eq!((of(&whole, Metric::Makespan), of(&whole, Metric::Skew)), (35.0, 5.0));
        assert_eq!(found.keys().collect::<Vec<_>>(), ["replica.1", "replica.2", "replicas"]);
        assert_eq!((of(&found["replica.1"], Metric::Time), of(&found["replica.2"], Metric::Wall)), (20.0, 30.0));
        assert_eq!((of(&found["replicas"], Metric::Makespan), of(&found["replicas"], Metric::Time)), (35.0, 35.0));
        assert!(instances(&Action::Reopen, &[], &snapshots, &[], &mut whole).is_empty());
    }
}
