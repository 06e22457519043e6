//! What a phase left, from inside the worker and from outside, as one record. Pure.

use std::collections::BTreeMap;

use prony_core::experiment::spec::PhaseSpec;
use prony_core::latency::Recorder;
use prony_core::metric::{Metric, MetricKey};
use prony_core::protocol::PhaseReport;
use prony_core::reading::{Reading, Why};
use prony_core::record::{Completion, LatencyKind, MetricKeyText, PhaseRecord};
use prony_core::units::Nanos;

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
pub fn begun(spec: &PhaseSpec, visit: &Visit, outside: Readings) -> PhaseRecord {
    let (begin, end) = visit.span;
    let mut readings = outside;
    set(&mut readings, Metric::Wall, measured(end.since(begin).as_nanos()));
    let mut record = PhaseRecord { begin: Some(begin), end: Some(end), ..not_reached(spec) };
    match visit.report.clone() {
        Some(report) => {
            inside(spec, &report, &mut readings);
            record.completion = Completion::Complete;
            record.histograms = report.histograms;
            record.groups = report.groups;
            record.throughput = report.throughput;
            record.answer = report.answer;
            record.errors = report.error_texts;
        }
        None if visit.settled.is_some() => record.completion = Completion::Complete,
        None => record.completion = Completion::Partial,
    }
    if let Some(settled) = &visit.settled {
        set(&mut readings, Metric::SettleTime, settled.time.clone().map(|time| time.as_nanos() as f64));
    }
    record.readings.insert(String::new(), readings);
    record
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

/// Sets an amount over the phase.
pub fn set(readings: &mut Readings, metric: Metric, reading: Reading<f64>) {
    readings.insert(MetricKeyText(MetricKey::amount(metric)), reading);
}

fn measured(n: u64) -> Reading<f64> {
    Reading::Measured(n as f64)
}
