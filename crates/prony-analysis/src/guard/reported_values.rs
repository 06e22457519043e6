//! Compares what a program reports about itself with what prony measured.

use std::collections::BTreeMap;

use prony_model::metric::{Metric, MetricKey, MetricName};
use prony_model::number::{effect, percent};
use prony_model::reading::Reading;
use prony_model::record::TrialRecord;
use serde_json::json;

use super::variants::{Compared, VariantTrials};
use super::{Finding, Severity, amount, nanos};
use crate::conclude::is_of_calls;

/// A time that a program reports may exceed the wall time of its phase by this share, since the two clocks are read at
/// different instants.
const EXCESS: f64 = 0.1;

/// Phases that took less wall time than the program reported: the program reported the time of something else, in
/// another unit, or as a sum over threads. Function calls and replicas are excluded: their times do not come from the
/// program's report.
pub(crate) fn too_long(record: &TrialRecord) -> Vec<Finding> {
    let Some(program) = record.program() else { return Vec::new() };
    let watched = record.phases.iter().filter(|phase| phase.action == "observe" && phase.timed);
    let own = watched.filter(|phase| !program.calls.contains_key(&phase.name) && program.replicas.is_none());
    let found = own.filter_map(|phase| {
        let (time, wall) = (amount(phase, Metric::Time)?, amount(phase, Metric::Wall)?);
        // If the lateness of its boundaries is not known, it is not known either that the time is too long.
        let lag = amount(phase, Metric::Lag)?;
        let [reported, took] = [time, wall].map(nanos);
        let message =
            format!("the program reported a `time` of {reported}, but the phase took only {took} of wall time");
        let hint = "compare it with `wall`; name the unit in the pattern, as `time_ms`; if the time is a sum over \
            several threads, report it under another metric name";
        let finding = Finding::of("reported_time_exceeds_wall", Severity::Warning, message, hint).in_phase(&phase.name);
        (time > (wall + lag) * (1.0 + EXCESS)).then(|| finding.with(json!({ "time_ns": time, "wall_ns": wall })))
    });
    found.collect()
}

/// Units of time are at least this far apart. What is not in the reported times, such as the start of a runtime, may hide a smaller difference.
const UNITS_APART: f64 = 30.0;

/// A difference of reported times is examined if it is larger than this share of the phase's wall time.
const VISIBLE: f64 = 0.25;

/// The wall times of the phases must differ by at least this share of the difference of the reported times.
const SHOWN: f64 = 0.5;

/// Why a time that two programs report, or a rate by it, is not compared: their times differ as those in two units, and their phases
/// do not.
pub(crate) fn not_of_the_phase(both @ [baseline, variant]: Compared<'_>, metric: &MetricName) -> Option<String> {
    if !matches!(metric.key.metric, Metric::Time | Metric::Rate) || metric.instance.is_some() {
        return None;
    }
    let named = |metric_of: Metric| MetricName { key: MetricKey::amount(metric_of), ..metric.clone() };
    let [time, wall] = [Metric::Time, Metric::Wall].map(named);
    let each = both.map(|of| {
        let is_reported = of.trials.iter().any(|trial| trial.program().is_some_and(|p| p.digit_error(&time).is_some()));
        let late =
            of.trials.iter().map(|trial| trial.uncertainty(&wall)).map(|(less, more)| less + more).fold(0.0, f64::max);
        is_reported.then_some((of.median(&time)?, of.median(&wall)?, late))
    });
    let [Some((time_a, wall_a, late_a)), Some((time_b, wall_b, late_b))] = each else { return None };
    let (reported, shown) = (time_b - time_a, (wall_b - wall_a) * (time_b - time_a).signum());
    // Sums over threads may exceed the wall time in both, of which `too_long` warns.
    let is_within = time_a <= wall_a * (1.0 + EXCESS) || time_b <= wall_b * (1.0 + EXCESS);
    let is_large = time_a.max(time_b) > UNITS_APART * time_a.min(time_b);
    let is_visible = is_within && is_large && reported.abs() > VISIBLE * wall_a.max(wall_b);
    (is_visible && shown + late_a + late_b < SHOWN * reported.abs()).then(|| {
        let [time_a, wall_a, time_b, wall_b] = [time_a, wall_a, time_b, wall_b].map(nanos);
        format!(
            "`{baseline}` reports a `time` of {time_a} in a phase of {wall_a}, and `{variant}` one of {time_b} in a phase of {wall_b}: \
             the phases do not differ as these times do, which seem to be in two units; name the unit in the pattern, as `time_ms`, \
             or, if each is right, let the phase begin and end with what the program measures"
        )
    })
}

/// The largest difference, as a log-ratio, that two variants may have in a metric although their programs print the
/// same digits, or their calls are counted in the same class (METHOD 4.8). 0 where values are exact.
pub fn apart(both: Compared<'_>, metric: &MetricName) -> f64 {
    let digits = both.map(|trials| digit_error(trials, metric));
    // Of nothing no share can be stated. It differs from what is more than both digits, and from no less.
    if let [Some(one), Some(other)] = digits
        && [(one, other), (other, one)].iter().any(|((a, none), (b, some))| *none == 0.0 && some - b > *a)
    {
        return 0.0;
    }
    let [a, b] = digits.map(share);
    combined([(1.0, a), (-1.0, b)])
}

/// The error of the digits of the values that a variant's program prints, as a share of its typical value; 0 where values
/// are exact.
pub fn hidden(of: &VariantTrials<'_>, metric: &MetricName) -> f64 {
    share(digit_error(of, metric))
}

fn share(digits: Option<(f64, f64)>) -> f64 {
    digits.map_or(0.0, |(error, of)| (error / of).min(1.0))
}

/// The largest rounding error of a weighted sum of logarithms of printed values. Each term is the weight of a value and
/// its rounding error as a share.
pub(crate) fn combined(terms: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let (mut above, mut below) = (0.0f64, 0.0f64);
    for (weight, share) in terms.into_iter().filter(|(weight, _)| *weight != 0.0) {
        let (more, less) = (weight.abs() * share.ln_1p(), -weight.abs() * (-share).ln_1p());
        let (up, down) = if weight > 0.0 { (more, less) } else { (less, more) };
        (above, below) = (above + up, below + down);
    }
    above.max(below)
}

/// How far a metric that a variant's program prints may be off because of its digits, and a typical value. The smallest error of
/// values within a power of ten counts, since a program that omits trailing zeros prints some values with fewer digits than it
/// knows; of these the largest, since one that prints so many significant digits knows more of smaller values.
fn digit_error(of: &VariantTrials<'_>, metric: &MetricName) -> Option<(f64, f64)> {
    if are_counted(of, metric) {
        let shares = of
            .trials
            .iter()
            .filter_map(|trial| Some(trial.program()?.digit_error(metric)? / trial.figure(metric).measured()?));
        let (share, typical) = (shares.reduce(f64::max)?, of.median(metric)?);
        return Some((share * typical, typical));
    }
    let named = |key: MetricKey| MetricName { key, ..metric.clone() };
    let printed = |key: MetricKey| {
        let name = named(key);
        let mut least: BTreeMap<i32, (f64, usize)> = BTreeMap::new();
        for trial in &of.trials {
            let error = trial.program().and_then(|program| program.digit_error(&name));
            if let (Some(error), Reading::Measured(value)) = (error, trial.figure(&name)) {
                let (of_power, count) = least.entry(value.log10().floor() as i32).or_insert((error, 0));
                (*of_power, *count) = (of_power.min(error), *count + 1);
            }
        }
        // A few values may all lack zeros at their end.
        let all: usize = least.values().map(|(_, count)| count).sum();
        let counts = least.values().filter(|(_, count)| 4 * count >= all).map(|(error, _)| *error).reduce(f64::max);
        counts.or_else(|| least.values().map(|(error, _)| *error).reduce(f64::min))
    };
    // A rate that the program does not report itself is as coarse as its time.
    let time = MetricKey::amount(Metric::Time);
    let (key, error) = match printed(metric.key) {
        Some(error) => (metric.key, error),
        None if metric.key.metric == Metric::Rate => (time, printed(time)?),
        None => return None,
    };
    Some((error, of.median(&named(key))?))
}

/// Whether the metric is a percentile of times that a probe counts in classes, each of which is a share of the time.
fn are_counted(of: &VariantTrials<'_>, metric: &MetricName) -> bool {
    let phase = of.spec.phases.iter().find(|phase| phase.name == metric.phase);
    metric.key.metric.percentile().is_some() && phase.is_some_and(is_of_calls)
}

/// A program prints a metric with so few digits, or a probe counts it in classes so wide, that a difference as large as the margin cannot be detected.
pub(crate) fn coarse_digits(both: Compared<'_>, metric: &MetricName, margin: f64) -> Option<Finding> {
    let apart = apart(both, metric);
    let digits = both.into_iter().filter_map(|of| Some((of, digit_error(of, metric)?)));
    let (of, (error, value)) = digits.max_by(|a, b| (a.1.0 / a.1.1).total_cmp(&(b.1.0 / b.1.1)))?;
    if apart < margin.ln_1p() {
        return None;
    }
    let below = if apart.is_finite() { format!(" below {}", effect(apart.exp_m1())) } else { String::new() };
    let share = percent((error / value).min(1.0));
    let (what, hint) = if are_counted(of, metric) {
        let what = format!("calls of `{of}` after the first 1,000 are counted in classes of their times: `{metric}`");
        (what, "compare `time`; classes are narrower if the times of the calls vary less")
    } else {
        let what = format!("`{of}` prints `{metric}` with too few digits: the value");
        (what, "let the program print more digits, or use a smaller unit")
    };
    let message = format!("{what} may be off by {share}, so that differences{below} cannot be detected");
    let found = Finding::of("coarse_digits", Severity::Warning, message, hint).in_phase(&metric.phase);
    Some(found.with(json!({ "metric": metric.to_string(), "digit_error": error, "value": value })))
}

#[cfg(test)]
mod tests {
    use prony_model::outcome::Outcome;
    use prony_model::program::Trigger;
    use prony_model::record::effective::{Replica, Replicas};
    use prony_model::record::{Completion, EffectiveProgram, MetricKeyText};

    use super::super::program::tests::{phase, record, spec};
    use super::*;

    #[test]
    fn reported_time_that_exceeds_its_phase_is_a_warning() {
        let found = |time: f64, wall: f64| {
            let amounts = [(Metric::Time, time), (Metric::Wall, wall), (Metric::Lag, 1e6)];
            let readings =
                amounts.map(|(metric, value)| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(value)));
            let mut trial = record(Outcome::Ok, EffectiveProgram::default());
            trial.phases = vec![phase("run", Completion::Complete)];
            trial.phases[0].readings.insert(String::new(), readings.into());
            too_long(&trial)
        };
        assert_eq!([found(0.9e9, 1e9), found(1.05e9, 1e9)], [vec![], vec![]]);
        let found = found(100e9, 0.16e9);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!(found[0].message.contains("160.00 ms"), "{}", found[0].message);
    }

    /// One program printed milliseconds and the other seconds: that was "1001 times faster".
    #[test]
    fn times_that_differ_more_than_their_phases_are_not_compared() {
        let trial = |time: f64, wall: f64| {
            let printed = BTreeMap::from([(MetricKeyText(MetricKey::amount(Metric::Time)), 1e4)]);
            let resolution = BTreeMap::from([("run".to_owned(), printed)]);
            let mut trial = record(Outcome::Ok, EffectiveProgram { resolution, ..EffectiveProgram::default() });
            trial.phases = vec![phase("run", Completion::Complete)];
            let readings = [(Metric::Time, time), (Metric::Wall, wall), (Metric::TimeLag, 1e5)];
            let readings = readings.map(|(of, value)| (MetricKeyText(MetricKey::amount(of)), Reading::Measured(value)));
            trial.phases[0].readings.insert(String::new(), readings.into());
            trial
        };
        let spec = spec(None, None);
        let found = |a: (f64, f64), b: (f64, f64), metric: &str| {
            let trials = [a, b].map(|(time, wall)| trial(time, wall));
            let of = |at: usize| VariantTrials { name: "ab"[at..=at].into(), spec: &spec, trials: vec![&trials[at]] };
            not_of_the_phase([&of(0), &of(1)], &metric.parse().unwrap())
        };
        let why = found((30e6, 40e6), (30e3, 40e6), "run.time").unwrap();
        assert!(
            why.starts_with("`a` reports a `time` of 30.00 ms in a phase of 40.00 ms, and `b` one of 30.00 us"),
            "{why}"
        );
        assert!(found((30e3, 40e6), (30e6, 40e6), "run.rate").is_some());
        assert!(found((30e6, 40e6), (30e3, 41e6), "run.time").is_some(), "the phase takes longer");
        assert_eq!(found((30e6, 40e6), (30e3, 10e6), "run.time"), None, "the phase is as much shorter");
        assert_eq!(found((5e6, 40e6), (0.1e6, 40e6), "run.time"), None, "noise of the phase may hide it");
        assert_eq!(found((1_000e6, 1_000e6), (500e6, 1_200e6), "run.time"), None, "another runtime starts slowly");
        assert_eq!(found((30e6, 40e6), (30e3, 40e6), "run.wall"), None);
        assert!(found((30e9, 40e6), (30e6, 40e6), "run.time").is_some());
        assert_eq!(found((300e6, 40e6), (80e6, 40e6), "run.time"), None, "sums over threads");
    }

    /// Sleeps of 105 and 140 ms that both print `took 0.1s` were *no difference*.
    #[test]
    fn figures_printed_with_few_digits_say_little_about_differences() {
        let metric = |name: Metric| MetricName { phase: "run".into(), instance: None, key: MetricKey::amount(name) };
        let key = |name: Metric| MetricKeyText(MetricKey::amount(name));
        let trial = |half: f64| {
            let printed = BTreeMap::from([(key(Metric::Time), half)]);
            let resolution = BTreeMap::from([("run".to_owned(), printed)]);
            let mut trial = record(Outcome::Ok, EffectiveProgram { resolution, ..EffectiveProgram::default() });
            trial.phases = vec![phase("run", Completion::Complete)];
            let readings =
                [(key(Metric::Time), Reading::Measured(100e6)), (key(Metric::Wall), Reading::Measured(140e6))];
            trial.phases[0].readings.insert(String::new(), readings.into());
            trial
        };
        let spec = spec(None, None);
        let (coarse, fine) = (trial(50e6), trial(0.5e6));
        let of = |name: &str, trials| VariantTrials { name: name.to_owned(), spec: &spec, trials };
        let (a, b) = (of("a", vec![&coarse]), of("b", vec![&coarse, &fine]));
        let close =
            |log: f64, ratio: f64| assert!((log - ratio.ln()).abs() < 1e-9, "{log} is not the logarithm of {ratio}");
        close(apart([&a, &a], &metric(Metric::Time)), 3.0);
        close(apart([&a, &b], &metric(Metric::Time)), 1.005 / 0.5);
        close(apart([&b, &b], &metric(Metric::Time)), 1.005 / 0.995);
        close(apart([&a, &a], &metric(Metric::Rate)), 3.0);
        close(apart([&a, &a], &metric(Metric::Wall)), 1.0);
        let time = metric(Metric::Time);
        assert_eq!([hidden(&a, &time), hidden(&b, &time), hidden(&a, &metric(Metric::Wall))], [0.5, 0.005, 0.0]);
        let found = coarse_digits([&b, &a], &metric(Metric::Time), 0.03).unwrap();
        assert_eq!((found.guard.as_str(), found.severity), ("coarse_digits", Severity::Warning));
        assert!(
            found.message.starts_with("`a` prints `run.time` with too few digits: the value may be off by 50 %"),
            "{}",
            found.message
        );
        assert_eq!(coarse_digits([&b, &b], &metric(Metric::Time), 0.03), None);
        assert_eq!(coarse_digits([&a, &a], &metric(Metric::Wall), 0.03), None, "prony measured it");
    }

    /// Medians of 16.4 and 17.1 us were *no difference*, since they were in one class; the error was that of the trial with the narrowest
    /// classes.
    #[test]
    fn percentiles_of_counted_calls_are_off_by_the_widest_class_of_any_trial() {
        let key = MetricKeyText(MetricKey::amount(Metric::LatencyP50));
        let trial = |share: f64| {
            let resolution = BTreeMap::from([("c".to_owned(), BTreeMap::from([(key, 16_911.0 * share)]))]);
            let mut trial = record(Outcome::Ok, EffectiveProgram { resolution, ..EffectiveProgram::default() });
            trial.phases = vec![phase("c", Completion::Complete)];
            trial.phases[0].readings.insert(String::new(), [(key, Reading::Measured(16_911.0))].into());
            trial
        };
        let metric = MetricName { phase: "c".into(), instance: None, key: key.0 };
        let spec = spec(Some(Trigger::Call("m.js#f".into())), None);
        let (narrow, wide) = (trial(1.0 / 256.0), trial(1.0 / 32.0));
        let of = |name: &str, trials| VariantTrials { name: name.to_owned(), spec: &spec, trials };
        let (a, b) = (of("a", vec![&narrow, &wide, &narrow]), of("b", vec![&narrow]));
        assert!(apart([&a, &a], &metric) >= 0.05f64.ln_1p());
        assert!(apart([&b, &b], &metric) < 0.01);
        let found = coarse_digits([&a, &b], &metric, 0.03).unwrap();
        assert!(found.message.starts_with("calls of `a` after the first 1,000 are counted"), "{}", found.message);
        assert_eq!(coarse_digits([&b, &b], &metric, 0.03), None);
    }

    /// A value below a power of ten has a digit more, which the others do not have.
    #[test]
    fn digits_of_a_value_are_those_of_its_power_of_ten() {
        let key = MetricKeyText(MetricKey::amount(Metric::Time));
        let trial = |(value, half): (f64, f64)| {
            let resolution = BTreeMap::from([("run".to_owned(), BTreeMap::from([(key, half)]))]);
            let mut trial = record(Outcome::Ok, EffectiveProgram { resolution, ..EffectiveProgram::default() });
            trial.phases = vec![phase("run", Completion::Complete)];
            trial.phases[0].readings.insert(String::new(), [(key, Reading::Measured(value))].into());
            trial
        };
        let metric = MetricName { phase: "run".into(), instance: None, key: MetricKey::amount(Metric::Time) };
        let spec = spec(None, None);
        for (printed, expected) in [
            (vec![(1.0e6, 0.05e6), (0.95e6, 0.005e6), (1.1e6, 0.05e6)], 0.05),
            (vec![(1.0e6, 0.005e6), (1.5e6, 0.05e6), (1.0e6, 0.05e6)], 0.005),
            (
                vec![(1.0e6, 0.005e6), (0.99e6, 0.005e6), (0.98e6, 0.005e6), (0.97e6, 0.005e6), (10.0e6, 0.5e6)],
                0.005 / 0.99,
            ),
        ] {
            let trials: Vec<TrialRecord> = printed.into_iter().map(trial).collect();
            let of = VariantTrials { name: "a".to_owned(), spec: &spec, trials: trials.iter().collect() };
            assert!((hidden(&of, &metric) - expected).abs() < 1e-9, "{}", hidden(&of, &metric));
        }
    }

    /// Replicas of 105 and 140 ms that both print `0.1 s` were *no difference* too.
    #[test]
    fn figures_that_a_replica_printed_with_few_digits_say_little() {
        let key = MetricKeyText(MetricKey::amount(Metric::Time));
        let named = |instance: &str| format!("run.{instance}.time").parse::<MetricName>().unwrap();
        let copy = |instance: &str, half: f64| Replica {
            instance: instance.into(),
            resolution: BTreeMap::from([(key, half)]),
            ..Replica::default()
        };
        let copies = vec![copy("replica.1", 50e6), copy("replica.2", 0.5e6)];
        let replicas = Some(Replicas { phase: "run".into(), copies, ..Replicas::default() });
        let mut trial = record(Outcome::Ok, EffectiveProgram { replicas, ..EffectiveProgram::default() });
        trial.phases = vec![phase("run", Completion::Complete)];
        for instance in ["replica.1", "replica.2", "replicas"] {
            trial.phases[0].readings.insert(instance.into(), [(key, Reading::Measured(100e6))].into());
        }
        let spec = spec(None, None);
        let of = VariantTrials { name: "a".to_owned(), spec: &spec, trials: vec![&trial] };
        let found = |instance: &str| coarse_digits([&of, &of], &named(instance), 0.03).is_some();
        assert_eq!(["replica.1", "replica.2", "replicas"].map(found), [true, false, false]);
        assert_eq!(apart([&of, &of], &named("replicas")), 0.0, "prony measured it");
    }
}
