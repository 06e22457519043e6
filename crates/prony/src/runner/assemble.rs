//! What a phase left, from inside the worker and from outside, as one record. Pure.

use std::collections::BTreeMap;

use prony_analysis::conclude::{Observed, Reached};
use prony_analysis::guard::{Finding, Severity};
use prony_model::latency::Recorder;
use prony_model::metric::{Metric, MetricKey};
use prony_model::protocol::PhaseReport;
use prony_model::reading::{Reading, Why};
use prony_model::record::{Completion, LatencyKind, MetricKeyText, PhaseRecord, SettleResult, Settled};
use prony_model::spec::PhaseSpec;
use prony_model::units::Nanos;

use super::session::Visit;

/// Figures by metric.
pub type Readings = BTreeMap<MetricKeyText, Reading<f64>>;

/// A phase that was never begun.
pub fn not_reached(spec: &PhaseSpec) -> PhaseRecord {
    PhaseRecord {
        name: spec.name.clone(),
        action: spec.action.name().to_owned(),
        timed: spec.timed,
        completion: Completion::NotReached,
        begin: None,
        end: None,
        readings: BTreeMap::new(),
        histograms: Vec::new(),
        groups: None,
        throughput: None,
        answer: None,
        errors: BTreeMap::new(),
    }
}

/// A phase that began: `outside` is what the operating system tells of it.
pub fn begun(spec: &PhaseSpec, visit: &Visit, outside: Readings) -> Observed {
    let (begin, end) = visit.span;
    let mut readings = outside;
    set(&mut readings, Metric::Wall, measured(end.since(begin).as_nanos()));
    let mut record = PhaseRecord { begin: Some(begin), end: Some(end), ..not_reached(spec) };
    let (mut reached, mut disk_full) = (Reached::Begin, 0);
    match visit.report.clone() {
        Some(report) => {
            inside(spec, &report, &mut readings);
            (reached, disk_full) = (Reached::OwnEnd, report.disk_full);
            record.histograms = report.histograms;
            record.groups = report.groups;
            record.throughput = report.throughput;
            record.answer = report.answer;
            record.errors = report.error_texts;
        }
        None if visit.settled.is_some() => reached = Reached::OwnEnd,
        None => {}
    }
    if let Some(resident) = visit.report.as_ref().and_then(|report| report.resident.clone()) {
        set(&mut readings, Metric::Cached, resident);
    }
    record.readings.insert(String::new(), readings);
    if let Some(found) = &visit.settled {
        settled(found, Clone::clone, &mut record.readings);
    }
    Observed { phase: record, reached, disk_full }
}

/// When signs of activity were seen last in a phase that waits for quiet; `from_begin` takes a time of the watch to one from
/// the phase's begin. The quiet is in `wall` alone.
pub fn settled(
    found: &SettleResult,
    from_begin: impl Fn(&Reading<Nanos>) -> Reading<Nanos>,
    readings: &mut BTreeMap<String, Readings>,
) {
    let time = |time: &Reading<Nanos>| from_begin(time).map(|time| time.as_nanos() as f64);
    let whole = readings.entry(String::new()).or_default();
    set(whole, Metric::SettleTime, time(&found.time));
    set(whole, Metric::Time, time(&found.time));
    found.signs.iter().for_each(|(sign, last)| set(whole, sign.metric(), time(last)));
    // Of one role it is that of the tree.
    for (role, last) in found.roles.iter().filter(|_| found.roles.len() > 1) {
        set(readings.entry(role.clone()).or_default(), Metric::SettleCpu, time(last));
    }
}

/// Phases that wait for quiet: how long it must be, and what was found, where the watch came to an end.
pub fn watched<'a>(
    phases: impl Iterator<Item = (&'a PhaseSpec, Option<&'a SettleResult>)>,
) -> BTreeMap<String, Settled> {
    let settled = phases.filter_map(|(phase, result)| {
        let quiet = phase.action.settle()?.quiet;
        Some((phase.name.clone(), Settled { quiet, result: result.cloned() }))
    });
    settled.collect()
}

/// What the worker has to say of a phase beside its figures, as findings.
pub fn notes(spec: &PhaseSpec, visit: &Visit) -> Vec<Finding> {
    let Some(report) = &visit.report else { return Vec::new() };
    let inexact = report.verified.as_ref().filter(|checked| checked.one_of_several + checked.may_be_absent > 0);
    let checked = inexact.map(|checked| {
        format!(
            "{} records were checked exactly, {} against several versions that may be there, {} may rightly be absent",
            checked.exact, checked.one_of_several, checked.may_be_absent
        )
    });
    let finding = |message: String| Finding {
        guard: "note_of_the_worker".to_owned(),
        severity: Severity::Note,
        phase: Some(spec.name.clone()),
        message,
        hint: "nothing to do; know it when reading the figures".to_owned(),
        data: serde_json::Value::Null,
    };
    report.notes.iter().cloned().chain(checked).map(finding).collect()
}

fn inside(spec: &PhaseSpec, report: &PhaseReport, readings: &mut Readings) {
    set(readings, Metric::Time, measured(report.time.as_nanos()));
    set(readings, Metric::Gap, measured(report.gap.as_nanos()));
    set(readings, Metric::GapCpu, measured(report.gap_cpu.as_nanos()));
    if spec.action.ops().is_none() {
        return;
    }
    for (metric, count) in [
        (Metric::Operations, Some(report.operations)),
        (Metric::Errors, Some(report.errors)),
        (Metric::Transactions, Some(report.transactions)),
        (Metric::Rows, report.rows),
        (Metric::Misses, report.misses),
        (Metric::Distinct, report.distinct),
        (Metric::UserBytes, Some(report.user_bytes)),
        (Metric::Lag, report.lag.map(Nanos::as_nanos)),
    ] {
        if let Some(count) = count {
            set(readings, metric, measured(count));
        }
    }
    if report.lag.is_some() {
        set(readings, Metric::Skipped, measured(report.skipped));
    }
    set(readings, Metric::Rate, rate(report));
    latencies(report, readings);
}

fn rate(report: &PhaseReport) -> Reading<f64> {
    if report.time == Nanos::ZERO {
        return Reading::Missing(Why::Failed("the clock did not advance".to_owned()));
    }
    Reading::Measured(report.operations as f64 / report.time.as_secs_f64())
}

/// Percentiles over all operations; in an open loop of the intended latency (METHOD 2.3).
fn latencies(report: &PhaseReport, readings: &mut Readings) {
    let open = report.histograms.iter().any(|h| h.kind == LatencyKind::Intended);
    let kind = if open { LatencyKind::Intended } else { LatencyKind::Service };
    let mut all = Recorder::new();
    let mut kinds = 0;
    for histogram in report.histograms.iter().filter(|h| h.kind == kind) {
        match Recorder::from_record(histogram) {
            Ok(recorder) => all.merge(&recorder),
            Err(error) => {
                let why = Why::Failed(format!("the histogram of `{}`: {error}", histogram.operation));
                all.metrics().iter().for_each(|(metric, _)| set(readings, *metric, Reading::Missing(why.clone())));
                return;
            }
        }
        kinds += 1;
    }
    let nothing = Reading::Missing(Why::NotApplicable);
    for (metric, reading) in all.metrics() {
        set(readings, metric, if kinds > 0 { reading } else { nothing.clone() });
    }
}

/// Operations that a program told, a second; nothing where it told its rate itself.
pub fn rate_of_told(readings: &mut Readings) {
    let of = |metric| readings.get(&MetricKeyText(MetricKey::amount(metric)))?.measured().copied();
    if let (Some(operations), Some(time)) = (of(Metric::Operations), of(Metric::Time).filter(|time| *time > 0.0))
        && of(Metric::Rate).is_none()
    {
        set(readings, Metric::Rate, Reading::Measured(operations * 1e9 / time));
    }
}

/// Sets an amount over the phase.
pub fn set(readings: &mut Readings, metric: Metric, reading: Reading<f64>) {
    readings.insert(MetricKeyText(MetricKey::amount(metric)), reading);
}

fn measured(n: u64) -> Reading<f64> {
    Reading::Measured(n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::protocol::Verified;
    use prony_model::spec::{Action, Amount, Grouping, Ops, Order, Sampling, Sign};
    use prony_os::sample::{Root, Sampler, Settings};

    fn spec() -> PhaseSpec {
        let ops = Ops {
            amount: Amount::Records,
            transaction: Grouping::Each,
            order: Order::Record,
            threads: 1,
            pause: None,
            rate: None,
            sample: Sampling::Every,
            touch: true,
        };
        PhaseSpec { name: "write".to_owned(), timed: true, action: Action::Put(ops), limit: None }
    }

    fn visit(report: Option<PhaseReport>) -> Visit {
        let sampler = Sampler::start(vec![Root::subject(std::process::id(), "worker")], Settings::default()).unwrap();
        let begin = sampler.edge();
        let span = (Nanos::from_secs(10), Nanos::from_secs(13));
        Visit { begin, end: None, span, report, settled: None }
    }

    fn of(record: &PhaseRecord, metric: Metric) -> Option<Reading<f64>> {
        record.reading(MetricKey::amount(metric)).cloned()
    }

    fn report(operations: u64, latencies: &[u64]) -> PhaseReport {
        let mut recorder = Recorder::new();
        latencies.iter().for_each(|n| recorder.record(Nanos::from_nanos(*n)));
        PhaseReport {
            time: Nanos::from_secs(2),
            gap: Nanos::from_secs(1),
            operations,
            histograms: vec![recorder.to_record("put", LatencyKind::Service).unwrap()],
            ..PhaseReport::default()
        }
    }

    #[test]
    fn figures_from_inside_and_from_the_clock_stand_together() {
        let Observed { phase: record, reached, .. } =
            begun(&spec(), &visit(Some(report(1000, &[500; 1000]))), Readings::new());
        assert_eq!(reached, Reached::OwnEnd);
        assert_eq!(of(&record, Metric::Wall), Some(Reading::Measured(3e9)));
        assert_eq!(of(&record, Metric::Time), Some(Reading::Measured(2e9)));
        assert_eq!(of(&record, Metric::Rate), Some(Reading::Measured(500.0)));
        let p50 = of(&record, Metric::LatencyP50).unwrap();
        assert!(p50.measured().is_some_and(|p50| (499.0..=501.0).contains(p50)), "{p50:?}");
        assert!(matches!(of(&record, Metric::LatencyP999), Some(Reading::Missing(Why::TooFew { .. }))));
        assert_eq!(of(&record, Metric::Rows), None, "a phase that reads nothing has no rows, not none of them");
    }

    #[test]
    fn a_phase_that_did_not_end_keeps_its_wall_time_and_claims_no_more() {
        let Observed { phase: record, reached, .. } = begun(&spec(), &visit(None), Readings::new());
        assert_eq!(reached, Reached::Begin);
        assert_eq!(of(&record, Metric::Wall), Some(Reading::Measured(3e9)));
        assert_eq!((of(&record, Metric::Time), of(&record, Metric::Rate)), (None, None));
        let never = not_reached(&spec());
        assert_eq!((never.completion, never.begin, never.readings.len()), (Completion::NotReached, None, 0));
    }

    #[test]
    fn a_rate_over_no_time_is_missing() {
        let still = PhaseReport { time: Nanos::ZERO, ..report(5, &[1]) };
        let record = begun(&spec(), &visit(Some(still)), Readings::new()).phase;
        assert!(matches!(of(&record, Metric::Rate), Some(Reading::Missing(Why::Failed(_)))));
    }

    #[test]
    fn settle_time_is_the_time_of_its_phase_and_each_sign_has_its_own() {
        let found = SettleResult {
            settled: true,
            time: Reading::Measured(Nanos::from_secs(2)),
            signs: [(Sign::Cpu, 2), (Sign::Dirty, 29)]
                .map(|(sign, s)| (sign, Reading::Measured(Nanos::from_secs(s))))
                .into(),
            roles: BTreeMap::from([("worker".to_owned(), Reading::Measured(Nanos::from_secs(2)))]),
            watched: Nanos::from_secs(31),
            step: Nanos::ZERO,
            cpu: Reading::Measured(Nanos::ZERO),
            written: Reading::Missing(Why::NotApplicable),
            blind: Vec::new(),
        };
        let visit = Visit { settled: Some(found), ..visit(None) };
        let Observed { phase: rested, reached, .. } = begun(&spec(), &visit, Readings::new());
        let times = [Metric::Time, Metric::SettleTime, Metric::SettleCpu, Metric::SettleDirty];
        assert_eq!(times.map(|metric| of(&rested, metric)), [2e9, 2e9, 2e9, 29e9].map(|n| Some(Reading::Measured(n))));
        assert_eq!((reached, rested.last_sign()), (Reached::OwnEnd, Some(Sign::Dirty)));
        assert_eq!(rested.readings.len(), 1, "one role is the whole tree");
    }

    #[test]
    fn what_the_worker_notes_becomes_a_finding() {
        let mut told = report(5, &[1]);
        told.notes = vec!["groups were thinned".to_owned()];
        told.verified = Some(Verified { exact: 3, ..Verified::default() });
        assert_eq!(notes(&spec(), &visit(Some(told.clone()))).len(), 1, "an exact check needs no words");
        told.verified = Some(Verified { exact: 3, one_of_several: 2, ..Verified::default() });
        assert_eq!(notes(&spec(), &visit(Some(told))).len(), 2);
    }
}
