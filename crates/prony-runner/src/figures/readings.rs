//! Computes readings in the record of a phase, and replaces readings by the reason why they are missing.

use std::collections::BTreeMap;

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::reading::{Reading, Why};
use prony_model::record::{MetricKeyText, PhaseRecord, SettleResult, Settled};
use prony_model::spec::PhaseSpec;
use prony_model::units::{Bytes, Nanos};

/// Readings by metric.
pub(crate) type Readings = BTreeMap<MetricKeyText, Reading<f64>>;

/// Why there is no peak: a process inherits the peak of the one that launched it (METHOD 3.1).
pub(crate) fn hidden(before: Bytes) -> Why {
    let why = format!(
        "the kernel's peak of a program is at least the {before} of the process that launched it, and the program's own was not above"
    );
    Why::NotSupported(why.into())
}

/// The record of a phase that never began.
pub(crate) fn not_reached(spec: &PhaseSpec) -> PhaseRecord {
    PhaseRecord {
        name: spec.name.clone(),
        action: spec.action.name().to_owned(),
        timed: spec.timed,
        ..PhaseRecord::default()
    }
}

/// When signs of activity were last observed in a phase that waits for quiet; `from_begin` takes a time of the watch to
/// one from the phase's begin. The quiet time is only in `wall`.
pub(crate) fn settled(
    found: &SettleResult,
    from_begin: impl Fn(&Reading<Nanos>) -> Reading<Nanos>,
    readings: &mut BTreeMap<String, Readings>,
) {
    let time = |time: &Reading<Nanos>| from_begin(time).map(|time| time.as_nanos() as f64);
    let whole = readings.entry(String::new()).or_default();
    set(whole, Metric::SettleTime, time(&found.time));
    set(whole, Metric::Time, time(&found.time));
    found.signs.iter().for_each(|(sign, last)| set(whole, sign.metric(), time(last)));
    // Activity of one role is activity of the tree.
    for (role, last) in found.roles.iter().filter(|_| found.roles.len() > 1) {
        set(readings.entry(role.clone()).or_default(), Metric::SettleCpu, time(last));
    }
}

/// Phases that wait for quiet: how long it must be, and what was found, where the watch came to an end.
pub(crate) fn watched<'a>(
    phases: impl Iterator<Item = (&'a PhaseSpec, Option<&'a SettleResult>)>,
) -> BTreeMap<String, Settled> {
    let settled = phases.filter_map(|(phase, result)| {
        let quiet = phase.action.settle()?.quiet;
        Some((phase.name.clone(), Settled { quiet, result: result.cloned() }))
    });
    settled.collect()
}

/// Operations that a program reported, a second, unless it reported its rate itself; missing where one of the two is.
pub(crate) fn rate_of_reported(readings: &mut Readings) {
    let of = |metric| readings.get(&MetricKeyText(MetricKey::amount(metric)));
    let known = of(Metric::Rate);
    let (has_rate, has_reason) = (known.is_some_and(|rate| rate.measured().is_some()), known.is_some());
    if let (Some(operations), Some(time), false) = (of(Metric::Operations), of(Metric::Time), has_rate) {
        let rate = match (operations, time) {
            (Reading::Measured(_), Reading::Measured(0.0)) => {
                Reading::failed("the operations took a time of 0, so they have no rate")
            }
            (operations, time) => operations.clone().and(time.clone(), |operations, time| operations * 1e9 / time),
        };
        // A reason that is known already is more precise.
        if rate.measured().is_some() || !has_reason {
            set(readings, Metric::Rate, rate);
        }
    }
}

/// Mean over time of values at instants, in order, which change evenly between these; the last one where no time passes.
pub(super) fn mean_over_time(course: &[(Nanos, f64)]) -> Option<f64> {
    let (first, last) = (course.first()?, course.last()?);
    let time = |from: Nanos, to: Nanos| to.since(from).as_nanos() as f64;
    let length = time(first.0, last.0);
    let area: f64 = course.windows(2).map(|pair| time(pair[0].0, pair[1].0) * (pair[0].1 + pair[1].1) / 2.0).sum();
    Some(if length > 0.0 { area / length } else { last.1 })
}

/// A time as a reading.
pub(super) fn nanos(time: Nanos) -> Reading<f64> {
    Reading::Measured(time.as_nanos() as f64)
}

/// Completes the metrics of replicas together, whose time is that from the first begin to the last end.
pub(super) fn as_one(readings: &mut Readings, pss: Reading<f64>, makespan: &Reading<f64>) {
    readings.insert(MetricKeyText(MetricKey::gauge(Metric::Pss, Stat::Max)), pss);
    [Metric::Wall, Metric::Time].into_iter().for_each(|metric| set(readings, metric, makespan.clone()));
    rate_of_reported(readings);
}

/// Sets an amount over the phase.
pub fn set(readings: &mut Readings, metric: Metric, reading: Reading<f64>) {
    readings.insert(MetricKeyText(MetricKey::amount(metric)), reading);
}

/// Makes these metrics missing for a reason, where they are present.
pub(crate) fn take_away(readings: &mut Readings, metrics: impl IntoIterator<Item = Metric>, why: &Why) {
    for metric in metrics {
        let reading = readings.get_mut(&MetricKeyText(MetricKey::amount(metric)));
        if let Some(reading) = reading.filter(|reading| reading.measured().is_some()) {
            *reading = Reading::Missing(why.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use prony_model::spec::{Action, SettleSpec};

    use super::*;

    #[test]
    fn phases_that_wait_for_quiet_have_their_results_in_the_record() {
        let phase =
            |name: &str, action| PhaseSpec { name: name.into(), timed: true, action, background: None, limit: None };
        let settle = SettleSpec { quiet: Nanos::from_millis(500), ..SettleSpec::default() };
        let phases =
            [phase("rest", Action::Settle(settle)), phase("cut", Action::Settle(settle)), phase("x", Action::Verify)];
        let result = SettleResult { watched: Nanos::from_millis(700), ..SettleResult::default() };
        let found = watched(phases.iter().zip([Some(&result), None, None]));
        let expected = [("cut", None), ("rest", Some(result.clone()))];
        let quiet = settle.quiet;
        assert_eq!(found, expected.map(|(name, result)| (name.to_owned(), Settled { quiet, result })).into());
    }
}
