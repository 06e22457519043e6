//! Metrics that a store's worker measured itself; those of each worker and of all together, where several share a phase. Pure
//! functions.

use std::collections::{BTreeMap, BTreeSet};

use prony_boundaries::phase_state::WorkerPart;
use prony_model::latency::{COMMIT, Recorder};
use prony_model::metric::{Metric, MetricKey};
use prony_model::open_name::OpenName;
use prony_model::program::{REPLICAS, replica_instance};
use prony_model::protocol::{PhaseReport, RequestsPart, RequestsReport};
use prony_model::reading::{Reading, Why};
use prony_model::record::{HistogramRecord, LatencyKind, MetricKeyText, ProcessSeries};
use prony_model::spec::{Action, BACKGROUND, PhaseSpec, WORKER};
use prony_model::units::Nanos;
use prony_os::sample::{Snapshot, phase_readings};

use crate::figures::readings::{Readings, as_one, nanos, set};
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

/// The metrics of a phase's background.
pub(crate) fn of_background(spec: &PhaseSpec, report: &PhaseReport) -> Option<(String, Readings)> {
    let (action, report) = (spec.background.as_ref()?, report.background.as_ref()?);
    let mut readings = Readings::new();
    inside(action, report, &mut readings);
    Some((BACKGROUND.to_owned(), readings))
}

/// Metrics that the worker measured itself.
pub(crate) fn inside(action: &Action, report: &PhaseReport, readings: &mut Readings) {
    if let Some(resident) = &report.resident {
        set(readings, Metric::Cached, resident.clone());
    }
    set(readings, Metric::Time, measured(report.time.as_nanos()));
    // A phase of one operation has no gap.
    let repeats = action.ops().is_some() || action.http().is_some();
    let gap = report.gap.or((!repeats).then_some(Nanos::ZERO));
    let not_known = || Reading::failed("the timed sections were too many to be listed");
    set(readings, Metric::Gap, gap.map_or_else(not_known, |gap| measured(gap.as_nanos())));
    set(readings, Metric::GapCpu, measured(report.gap_cpu.as_nanos()));
    if !repeats {
        if matches!(action, Action::Commit) {
            set(readings, Metric::Transactions, measured(report.transactions));
        }
        return;
    }
    let counts = [
        (Metric::Operations, Some(report.operations)),
        (Metric::Errors, Some(report.errors)),
        (Metric::Refused, report.refused),
        (Metric::Conflicts, report.conflicts),
        (Metric::Transactions, Some(report.transactions)),
        (Metric::Rows, report.rows),
        (Metric::Misses, report.misses),
        (Metric::Distinct, report.distinct),
        (Metric::UserBytes, Some(report.user_bytes)),
        (Metric::Decode, report.decode.map(Nanos::as_nanos)),
        (Metric::Examined, report.examined),
        (Metric::Entries, report.entries),
        (Metric::EntriesWritten, report.entries_written),
        (Metric::Encode, report.encode.map(Nanos::as_nanos)),
        (Metric::Lag, report.lag.map(Nanos::as_nanos)),
        (Metric::Skipped, report.lag.map(|_| report.skipped)),
    ];
    set_known(readings, counts);
    report.requests.iter().for_each(|requests| of_requests(report.operations, requests, readings));
    set(readings, Metric::Rate, rate(report));
    latencies(report, readings);
}

/// What only requests have.
fn of_requests(ok: u64, requests: &RequestsReport, readings: &mut Readings) {
    let counts = [
        (Metric::Ok, Some(ok)),
        (Metric::Timeouts, Some(requests.timeouts)),
        (Metric::Unfinished, Some(requests.unfinished)),
        (Metric::SentDistinct, Some(requests.bodies.unwrap_or(requests.paths))),
        (Metric::Retries, requests.retries),
        (Metric::WaitedForConnection, requests.waited_for_connection),
    ];
    set_known(readings, counts);
    percentiles(requests.connect.iter(), Metric::CONNECT, readings);
    percentiles(requests.first_byte.iter(), Metric::FIRST_BYTE, readings);
    for (status, count) in &requests.statuses {
        // Servers may answer with numbers that are no statuses.
        if let Some(name) = OpenName::status(*status) {
            set(readings, Metric::Open(name), measured(*count));
        }
    }
}

/// The metrics of parts of a phase's requests.
pub(crate) fn of_parts(report: &PhaseReport) -> BTreeMap<String, Readings> {
    let part = |part: &RequestsPart| {
        let mut readings = Readings::new();
        let counts = [
            (Metric::Ok, Some(part.ok)),
            (Metric::Operations, Some(part.ok)),
            (Metric::Errors, Some(part.errors)),
            (Metric::Skipped, Some(part.skipped)),
            (Metric::Rows, part.rows),
        ];
        set_known(&mut readings, counts);
        set(&mut readings, Metric::Rate, part.rate.clone());
        percentiles([&part.latency].into_iter(), Metric::LATENCY, &mut readings);
        (part.name.clone(), readings)
    };
    report.requests.iter().flat_map(|requests| &requests.parts).map(part).collect()
}

/// Of requests as the load generator counts them: one that is slow at the end takes time in which the others have ended.
fn rate(report: &PhaseReport) -> Reading<f64> {
    if let Some(requests) = &report.requests {
        return requests.rate.clone();
    }
    if report.time == Nanos::ZERO {
        return Reading::failed("the clock did not advance");
    }
    Reading::Measured(report.operations as f64 / report.time.as_secs_f64())
}

/// Percentiles over all operations; in an open loop of the intended latency (METHOD 2.3). Commits of shared transactions,
/// which are timed too, are none of them: `operations` and `errors` do not count them.
fn latencies(report: &PhaseReport, readings: &mut Readings) {
    let open = report.histograms.iter().any(|h| h.kind == LatencyKind::Intended);
    let kind = if open { LatencyKind::Intended } else { LatencyKind::Service };
    let operations = report.histograms.iter().filter(|h| h.kind == kind && h.operation != COMMIT);
    percentiles(operations, Metric::LATENCY, readings);
    let reason = report.no_latency.as_deref().map(Reading::not_supported);
    reason.iter().for_each(|reason| Metric::LATENCY.iter().for_each(|metric| set(readings, *metric, reason.clone())));
}

/// Percentiles over the operations of all these histograms.
fn percentiles<'h, const N: usize>(
    histograms: impl Iterator<Item = &'h HistogramRecord>,
    metrics: [Metric; N],
    readings: &mut Readings,
) {
    let mut all = Recorder::new();
    let mut kinds = 0;
    for histogram in histograms {
        match Recorder::from_record(histogram) {
            Ok(recorder) => all.merge(&recorder),
            Err(error) => {
                let why = Why::Failed(format!("the histogram of `{}`: {error}", histogram.operation).into());
                metrics.iter().for_each(|metric| set(readings, *metric, Reading::Missing(why.clone())));
                return;
            }
        }
        kinds += 1;
    }
    let nothing = Reading::Missing(Why::NotApplicable);
    for (metric, reading) in all.metrics(metrics) {
        set(readings, metric, if kinds > 0 { reading } else { nothing.clone() });
    }
}

/// Sets the counts that are known.
fn set_known<const N: usize>(readings: &mut Readings, counts: [(Metric, Option<u64>); N]) {
    let known = counts.into_iter().filter_map(|(metric, count)| Some((metric, count?)));
    known.for_each(|(metric, count)| set(readings, metric, measured(count)));
}

fn measured(n: u64) -> Reading<f64> {
    Reading::Measured(n as f64)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn commit_of_an_open_transaction_is_counted() {
        let of = |action: &Action, transactions| {
            let mut readings = Readings::new();
            inside(action, &PhaseReport { transactions, ..PhaseReport::default() }, &mut readings);
            readings.get(&MetricKeyText(MetricKey::amount(Metric::Transactions))).map(|one| one.measured().copied())
        };
        assert_eq!([of(&Action::Commit, 1), of(&Action::Commit, 0)], [Some(Some(1.0)), Some(Some(0.0))]);
        assert_eq!(of(&Action::Reopen, 0), None);
    }

    #[test]
    fn parts_of_requests_have_metrics_of_their_own() {
        let mut latency = Recorder::new();
        (0..30).for_each(|_| latency.record(ms(5)));
        latency.record_failed();
        let part = RequestsPart {
            name: "step.2".to_owned(),
            ok: 30,
            errors: 1,
            skipped: 0,
            rows: None,
            rate: Reading::Measured(15.0),
            latency: latency.to_record("request", LatencyKind::Intended).unwrap(),
        };
        let requests = RequestsReport {
            parts: vec![part],
            retries: Some(4),
            waited_for_connection: Some(3),
            ..RequestsReport::default()
        };
        let mut readings = Readings::new();
        of_requests(30, &requests, &mut readings);
        let counted = |metric| readings[&MetricKeyText(MetricKey::amount(metric))].measured().copied();
        assert_eq!([Metric::Retries, Metric::WaitedForConnection].map(counted), [Some(4.0), Some(3.0)]);
        let found = of_parts(&PhaseReport { requests: Some(requests), ..PhaseReport::default() });
        let of = |metric| found["step.2"][&MetricKeyText(MetricKey::amount(metric))].clone();
        let counts =
            [Metric::Ok, Metric::Errors, Metric::Skipped, Metric::Rate].map(|metric| of(metric).measured().copied());
        assert_eq!(counts, [Some(30.0), Some(1.0), Some(0.0), Some(15.0)]);
        assert!((of(Metric::LatencyP50).measured().unwrap() / 5e6 - 1.0).abs() < 0.01);
        assert!(matches!(of(Metric::LatencyP99), Reading::Missing(Why::TooFew { .. })));
        assert!(of_parts(&PhaseReport::default()).is_empty());
    }

    #[test]
    fn requests_are_counted_by_what_they_ended_in() {
        let mut opened = Recorder::new();
        opened.record(ms(1000));
        let requests = RequestsReport {
            statuses: [(200, 7), (503, 2), (42, 1)].into(),
            timeouts: 3,
            unfinished: 1,
            bodies: None,
            paths: 5,
            connect: Some(opened.to_record("request", LatencyKind::Actual).unwrap()),
            ..RequestsReport::default()
        };
        let mut readings = Readings::new();
        of_requests(7, &requests, &mut readings);
        let of =
            |metric| readings.get(&MetricKeyText(MetricKey::amount(metric))).and_then(|one| one.measured().copied());
        let counts = [Metric::Ok, Metric::Timeouts, Metric::Unfinished, Metric::SentDistinct].map(of);
        assert_eq!(counts, [Some(7.0), Some(3.0), Some(1.0), Some(5.0)], "paths, where requests have no bodies");
        assert!((of(Metric::ConnectMax).unwrap() / 1e9 - 1.0).abs() < 0.01);
        assert_eq!((of(Metric::ConnectP50), of(Metric::FirstByteMax)), (None, None), "one connection is too few");
        let status = |number| of(Metric::Open(OpenName::status(number).unwrap()));
        assert_eq!((status(200), status(503)), (Some(7.0), Some(2.0)));
        let mut readings = Readings::new();
        of_requests(7, &RequestsReport { bodies: Some(4), ..requests }, &mut readings);
        let distinct = &readings[&MetricKeyText(MetricKey::amount(Metric::SentDistinct))];
        assert_eq!(distinct.measured(), Some(&4.0));
    }
}
