//! Computes the values of table cells: an expression over one trial, and a statistic over several trials.

use prony_experiment::design::{Expr, Statistic};
use prony_experiment::expr;
use prony_model::format::Scale;
use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::outcome::{Ending, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::{Completion, MetricKeyText, PhaseRecord, TrialRecord};

/// What an expression gives in one trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A number in the expression's unit.
    Number(f64),
    /// The trial ended before it had this value; a peak that was sampled until then is a lower bound.
    Ended {
        /// Lower bound, for largest and peak values.
        at_least: Option<f64>,
    },
    /// It is larger than any number that was measured ([`Why::is_infinite`]).
    Infinite(Why),
    /// It was not measured.
    Missing(Why),
}

/// The name of an amount of a whole phase.
pub(super) fn amount_of(phase: &str, metric: Metric) -> MetricName {
    MetricName { phase: phase.to_owned(), instance: None, key: MetricKey::amount(metric) }
}

/// What an expression gives in one trial.
pub(super) fn evaluate(expr: &Expr, trial: &TrialRecord) -> Value {
    // A value that the trial never reached decides, whatever else is missing.
    let (mut ended, mut infinite) = (None, None);
    let reading = expr::evaluate(expr, &mut |name| match metric(name, trial) {
        Value::Number(number) => Reading::Measured(number),
        Value::Infinite(why) => {
            infinite = Some(why);
            Reading::Measured(f64::INFINITY)
        }
        Value::Missing(why) => Reading::Missing(why),
        Value::Ended { at_least } => {
            ended = ended.or(Some(at_least));
            Reading::Missing(Why::NotReached)
        }
    });
    match (ended, reading, infinite) {
        // The lower bound of a sum or quotient cannot be derived from one of its parts.
        (Some(at_least), ..) => Value::Ended { at_least: at_least.filter(|_| matches!(expr, Expr::Metric(_))) },
        (None, Reading::Measured(f64::INFINITY), Some(why)) => Value::Infinite(why),
        // A quotient or difference of two, or one that is subtracted or a divisor.
        (None, Reading::Measured(_), Some(why)) => Value::Missing(why),
        (None, Reading::Measured(number), None) => Value::Number(number),
        (None, Reading::Missing(why), _) => Value::Missing(why),
    }
}

fn metric(name: &MetricName, trial: &TrialRecord) -> Value {
    let why = match trial.figure(name) {
        Reading::Measured(number) => return Value::Number(number),
        Reading::Missing(why) => why,
    };
    let Some(phase) = trial.phases.iter().find(|p| p.name == name.phase) else { return Value::Missing(why) };
    match phase.completion {
        _ if trial.ending.outcome == Outcome::WrongAnswer => Value::Ended { at_least: None },
        // The program ended well without what ends the phase: there is no failure that a cell could show.
        Completion::NotReached | Completion::Partial if trial.ending.outcome.is_ok() => Value::Missing(why),
        Completion::Partial => {
            let readings = phase.readings.get(name.instance.as_deref().unwrap_or_default());
            Value::Ended { at_least: bound(name.key, readings.and_then(|r| r.get(&MetricKeyText(name.key)))) }
        }
        Completion::NotReached | Completion::AfterFailure => Value::Ended { at_least: None },
        Completion::Failed if !phase.completion.counts(name.key.metric) => Value::Ended { at_least: None },
        Completion::Complete | Completion::Failed | Completion::Uncounted if why.is_infinite() => Value::Infinite(why),
        Completion::Complete | Completion::Failed | Completion::Uncounted => Value::Missing(why),
    }
}

/// Only what can but grow has a lower bound in a phase that did not end.
fn bound(key: MetricKey, reading: Option<&Reading<f64>>) -> Option<f64> {
    matches!(key.stat, Some(Stat::Max | Stat::Peak)).then(|| reading?.measured().copied())?
}

/// The expression with the phase where it names none.
pub(super) fn in_phase(expr: &Expr, phase: &str) -> Expr {
    match expr {
        Expr::Metric(name) if name.phase.is_empty() => {
            Expr::Metric(MetricName { phase: phase.to_owned(), ..name.clone() })
        }
        Expr::Metric(_) | Expr::Number(_) => expr.clone(),
        Expr::Binary(left, operator, right) => {
            Expr::Binary(Box::new(in_phase(left, phase)), *operator, Box::new(in_phase(right, phase)))
        }
    }
}

/// One value over the trials of a cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary<'a> {
    /// The numbers, in order of size; infinity for each of `infinite`.
    pub(super) numbers: Vec<f64>,
    /// Why values are larger than any number that was measured.
    pub(super) infinite: Vec<Why>,
    /// The trials that ended before they had a number.
    pub(super) ended: Vec<&'a TrialRecord>,
    /// The largest lower bound that these trials leave.
    pub(super) at_least: Option<f64>,
    /// Why the other trials have no number.
    pub(super) missing: Vec<Why>,
    /// The trials that have a number although they failed in the same phase: `saturated`.
    pub(super) failed: Vec<&'a TrialRecord>,
}

impl<'a> Summary<'a> {
    /// Of the expression over the trials.
    pub(super) fn of(expr: &Expr, trials: &[&'a TrialRecord]) -> Self {
        let mut summary = Self::default();
        for trial in trials {
            match evaluate(expr, trial) {
                Value::Number(number) => {
                    summary.numbers.push(number);
                    if !trial.ending.outcome.is_ok() && ended_in(expr, &trial.ending) {
                        summary.failed.push(trial);
                    }
                }
                Value::Infinite(why) => {
                    summary.numbers.push(f64::INFINITY);
                    summary.infinite.push(why);
                }
                Value::Missing(why) => summary.missing.push(why),
                Value::Ended { at_least } => {
                    summary.ended.push(trial);
                    summary.at_least = summary.at_least.into_iter().chain(at_least).reduce(f64::max);
                }
            }
        }
        summary.numbers.sort_by(f64::total_cmp);
        summary
    }

    /// The statistic; `None` without numbers.
    pub(super) fn value(&self, statistic: Statistic) -> Option<f64> {
        let n = self.numbers.len();
        let (low, high) = (self.low()?, self.high()?);
        Some(match statistic {
            Statistic::Median => (self.numbers[(n - 1) / 2] + self.numbers[n / 2]) / 2.0,
            Statistic::Mean => self.numbers.iter().sum::<f64>() / n as f64,
            Statistic::Min => low,
            Statistic::Max => high,
        })
    }

    /// How far the middle half of the numbers reaches: between the quartiles.
    pub(super) fn quartile_distance(&self) -> Option<f64> {
        let quarter = self.numbers.len() / 4;
        Some(self.numbers.iter().rev().nth(quarter)? - self.numbers.get(quarter)?)
    }

    /// A number by this scale, or the word for one that is infinite.
    pub(super) fn print(&self, scale: &Scale, number: f64) -> String {
        let word = self.infinite.first().filter(|_| number.is_infinite()).map(Why::infinite_word);
        word.map_or_else(|| scale.print(number), str::to_owned)
    }

    /// The least number.
    pub(super) fn low(&self) -> Option<f64> {
        self.numbers.first().copied()
    }

    /// The greatest number.
    pub(super) fn high(&self) -> Option<f64> {
        self.numbers.last().copied()
    }
}

/// The largest memory measured in the phase in which a trial ended, in bytes: a lower bound of what the trial needs.
pub fn least_memory(trial: &TrialRecord) -> Option<f64> {
    // The control group's own peak is exact; what was sampled of the process is below it.
    if let Some(peak) = trial.conditions.memory.as_ref().and_then(|memory| memory.peak.measured()) {
        return Some(peak.as_bytes() as f64);
    }
    let phase = ending_phase(&trial.ending, &trial.phases)?;
    let keys =
        [(Metric::Rss, Stat::Peak), (Metric::Rss, Stat::Max), (Metric::Anon, Stat::Peak), (Metric::Anon, Stat::Max)];
    keys.iter().find_map(|(metric, stat)| phase.reading(MetricKey::gauge(*metric, *stat))?.measured().copied())
}

fn ended_in(expr: &Expr, ending: &Ending) -> bool {
    match expr {
        Expr::Metric(name) => ending.phase.as_ref() == Some(&name.phase),
        Expr::Number(_) => false,
        Expr::Binary(left, _, right) => ended_in(left, ending) || ended_in(right, ending),
    }
}

fn ending_phase<'a>(ending: &Ending, phases: &'a [PhaseRecord]) -> Option<&'a PhaseRecord> {
    let name = ending.phase.as_ref()?;
    phases.iter().find(|p| p.name == *name)
}

#[cfg(test)]
pub(crate) mod tests {
    use prony_model::record::Conditions;
    use serde_json::{Value as Json, json};

    use super::*;

    pub(crate) fn trial(outcome: Outcome, phases: &Json) -> TrialRecord {
        serde_json::from_value(json!({
            "trial": { "block": 0, "sub_block": 0, "position": 0, "variant": 0, "label": "a", "seed": 1 },
            "started_unix_ms": 0, "took": 1, "ending": { "outcome": outcome, "phase": null, "after": 1, "evidence": [] },
            "phases": phases, "effective": null, "conditions": Conditions::default(), "series": [],
            "sampler_cpu": { "measured": 0 },
            "findings": []
        }))
        .unwrap()
    }

    /// Four of six trials whose percentile fell among failed operations had the median of the other two.
    #[test]
    fn infinite_values_count_as_larger_than_any_in_median_and_range() {
        let of = |reading: Json| {
            trial(
                Outcome::Ok,
                &json!([{
                    "name": "run", "action": "http", "timed": true, "completion": "complete", "begin": 0, "end": 1,
                    "readings": { "": { "latency.p99": reading } }, "histograms": [],
                    "groups": null, "throughput": null, "answer": null, "errors": {}
                }]),
            )
        };
        let infinite = || of(json!({ "missing": { "infinite": { "failed": 20, "of": 1500 } } }));
        let trials: Vec<TrialRecord> = [50.0, 99.9].map(|ms| of(json!({ "measured": ms }))).into_iter().collect();
        let all = |n: usize| trials.iter().cloned().chain((0..n).map(|_| infinite())).collect::<Vec<_>>();
        let summary = |expr: &Expr, n: usize| {
            let all = all(n);
            let summary = Summary::of(expr, &all.iter().collect::<Vec<_>>());
            (
                summary.value(Statistic::Median),
                summary.low(),
                summary.high(),
                summary.infinite.len(),
                summary.missing.len(),
            )
        };
        let metric = Expr::Metric("run.latency.p99".parse().unwrap());
        assert_eq!(summary(&metric, 4), (Some(f64::INFINITY), Some(50.0), Some(f64::INFINITY), 4, 0));
        assert_eq!(summary(&metric, 1), (Some(99.9), Some(50.0), Some(f64::INFINITY), 1, 0));
        let twice =
            Expr::Binary(Box::new(metric.clone()), prony_experiment::design::Operator::Mul, Expr::Number(2.0).into());
        assert_eq!(summary(&twice, 4).0, Some(f64::INFINITY));
        let ratio = Expr::Binary(Box::new(metric.clone()), prony_experiment::design::Operator::Div, metric.into());
        assert_eq!(
            summary(&ratio, 4),
            (Some(1.0), Some(1.0), Some(1.0), 0, 4),
            "of two infinite values nothing is known"
        );
    }

    #[test]
    fn a_reason_is_that_of_its_own_trial() {
        let unread = json!([{
            "name": "run", "action": "observe", "timed": true, "completion": "complete", "begin": 0, "end": 1,
            "readings": { "": { "cpu": { "missing": { "failed": "it was not read" } } } }, "histograms": [],
            "groups": null, "throughput": null, "answer": null, "errors": {}
        }]);
        let not_reached = json!([{
            "name": "run", "action": "observe", "timed": true, "completion": "not_reached", "begin": 0, "end": 1,
            "readings": {}, "histograms": [],
            "groups": null, "throughput": null, "answer": null, "errors": {}
        }]);
        let (none, well) = (trial(Outcome::TimedOut, &not_reached), trial(Outcome::Ok, &unread));
        let summary = Summary::of(&Expr::Metric("run.cpu".parse().unwrap()), &[&none, &well]);
        assert!(summary.numbers.is_empty());
        assert_eq!(summary.missing.iter().map(Why::to_string).collect::<Vec<_>>(), ["it was not read"]);
        assert_eq!(summary.ended.len(), 1, "the one that timed out");
    }
}
