//! How a figure grows with a numeric factor, on log axes.

use std::collections::{BTreeMap, BTreeSet};

use prony_experiment::design::Experiment;
use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::units::Bytes;
use prony_stats::growth::{FARTHEST, Reach};
use prony_stats::{Growth as Fit, growth};
use schemars::JsonSchema;
use serde::Serialize;

use prony_analysis::verdicts::{figure, names};
use prony_results::RunData;

/// The growth of one metric with one factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// The factor's name.
    pub factor: String,
    /// Variants that are alike in every other factor.
    pub series: Vec<Series>,
}

/// Variants that differ in the numeric factor only.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Levels of the other factors that vary; empty where none does.
    pub name: String,
    /// The factor's value and the index of the trial, with its figure where it has one that log axes can show.
    pub points: Vec<(f64, usize, Option<f64>)>,
    /// Trials without a figure: these are in no fit.
    pub without: usize,
    /// Trials whose figure is not above 0: where there are any, there is no fit.
    pub zeros: usize,
    /// The power law through the points, where there are three levels.
    pub fit: Option<Fit>,
    /// The limit on memory, bytes, where the figure is what it holds down and all variants have the same.
    pub limit: Option<f64>,
    /// Where the fit would meet that limit: an extrapolation.
    pub reach: Option<Reach>,
    /// Values of the factor at which a trial ran out of the memory that it was allowed, rising: what the host lacked says
    /// nothing of the subject.
    pub ran_out: Vec<f64>,
}

/// A fit as the page draws it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Line {
    /// Exponent.
    pub slope: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
    /// `y` at `x = 1`.
    pub scale: f64,
    /// Exponent between the two largest levels.
    pub last: f64,
    /// Trials of the series.
    pub trials: usize,
    /// Those of them without a figure, which are not in the fit.
    pub without: usize,
    /// The limit on memory, bytes.
    pub limit: Option<f64>,
    /// Where the fit would meet it: an extrapolation.
    pub reach: Option<Reach>,
}

impl Line {
    /// Of a series that has a fit.
    pub fn of(series: &Series) -> Option<Self> {
        let Series { limit, reach, without, .. } = *series;
        let Fit { slope, interval, scale, last_slope, .. } = series.fit?;
        // Levels close together have slopes so steep that the line at 1 is no number.
        if !scale.is_normal() {
            return None;
        }
        Some(Self { slope, interval, scale, last: last_slope, trials: series.points.len(), without, limit, reach })
    }
}

/// The factors against which growth can be drawn: numbers above zero, with two levels among the variants.
pub fn factors(experiment: &Experiment) -> Vec<usize> {
    let positive = |f: &usize| {
        let factor = &experiment.factors()[*f];
        factor.is_numeric() && factor.levels.iter().all(|l| l.number.is_some_and(|n| n > 0.0))
    };
    names::varying(experiment).into_iter().filter(positive).collect()
}

/// Variants alike in all but one factor, in the experiment's order: the name and the variants' indices.
pub fn series(experiment: &Experiment, factor: usize) -> Vec<(String, Vec<usize>)> {
    let other_factors: Vec<usize> = names::varying(experiment).into_iter().filter(|f| *f != factor).collect();
    let mut order: Vec<(String, Vec<usize>)> = Vec::new();
    let mut places: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    for (id, variant) in experiment.variants().iter().enumerate() {
        let key: Vec<usize> = other_factors.iter().map(|f| variant.levels[*f]).collect();
        let place = *places.entry(key).or_insert(order.len());
        if place == order.len() {
            order.push((names::levels(experiment, id, &other_factors), Vec::new()));
        }
        order[place].1.push(id);
    }
    order
}

/// The growth of a metric with a factor; `None` where fewer than two of its levels have a figure or an end, and where a
/// search chose the values by the figures themselves: one by `grow` chose by how trials ended.
pub fn of(data: &RunData, metric: &MetricName, factor: usize) -> Option<Growth> {
    if data.experiment.explores() && !grew(data) {
        return None;
    }
    let experiment = &data.experiment;
    let all: Vec<Series> = series(experiment, factor)
        .into_iter()
        .map(|(name, variants)| one(data, metric, factor, name, &variants))
        .filter(|series| series.points.iter().any(|p| p.2.is_some()))
        .collect();
    let mut xs: Vec<f64> = all.iter().flat_map(|s| &s.points).map(|p| p.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    (xs.len() >= 2).then(|| Growth { factor: experiment.factors()[factor].name.clone(), series: all })
}

/// Whether `grow` chose the values.
pub fn grew(data: &RunData) -> bool {
    data.head.search.as_deref() == Some("grow")
}

/// The anonymous memory that the limit on memory speaks of: of the timed phase in which a trial had most of it.
/// `None` where no variant has such a limit or no trial the figure.
pub fn memory(data: &RunData) -> Option<MetricName> {
    let limited = data.experiment.variants().iter().any(|v| v.spec.limits.memory.is_some());
    let key = MetricKey::gauge(Metric::Anon, Stat::Max);
    let phases = data.trials.iter().flat_map(|t| &t.phases).filter(|p| p.timed);
    let most = phases.filter_map(|p| Some((p, *p.reading(key)?.measured()?))).max_by(|a, b| a.1.total_cmp(&b.1));
    most.filter(|_| limited).map(|(phase, _)| MetricName { phase: phase.name.clone(), instance: None, key })
}

/// The limit on memory that all these variants have, bytes, for a figure that it holds down: anonymous memory. What is
/// mapped counts in resident memory, and the kernel takes it back before it says that memory has run out.
fn limit(experiment: &Experiment, metric: &MetricName, variants: &[usize]) -> Option<f64> {
    let mut limits = variants.iter().map(|v| experiment.variants()[*v].spec.limits.memory);
    let first = limits.next()??;
    let speaks = metric.key == MetricKey::gauge(Metric::Anon, Stat::Max) && limits.all(|limit| limit == Some(first));
    speaks.then_some(first.as_bytes() as f64)
}

fn one(data: &RunData, metric: &MetricName, factor: usize, name: String, variants: &[usize]) -> Series {
    let experiment = &data.experiment;
    let number = |v: usize| experiment.factors()[factor].levels[experiment.variants()[v].levels[factor]].number;
    let mut points = Vec::new();
    for variant in variants {
        let Some(x) = number(*variant) else { continue };
        for (at, trial) in data.trials.iter().enumerate().filter(|(_, t)| t.trial.variant == *variant) {
            points.push((x, at, figure(trial, metric)));
        }
    }
    let measured: Vec<(f64, f64)> = points.iter().filter_map(|(x, _, y)| Some((*x, (*y)?))).collect();
    // Refused where a figure is not above 0: a law fitted to the others would be of those that are.
    let fit = growth(&measured).measured().copied();
    let zeros = measured.iter().filter(|(_, y)| *y <= 0.0).count();
    let without = points.len() - measured.len();
    let limit = limit(experiment, metric, variants);
    let reach = fit.zip(limit).and_then(|(fit, limit)| fit.reach(limit).measured().copied());
    let out = |at: usize| {
        matches!(data.trials[at].ending.outcome, Outcome::OutOfMemory { by: OutOfMemory::Limit | OutOfMemory::Runtime })
    };
    let mut ran_out: Vec<f64> = points.iter().filter(|(_, at, y)| y.is_none() && out(*at)).map(|p| p.0).collect();
    ran_out.sort_by(f64::total_cmp);
    ran_out.dedup();
    points.iter_mut().for_each(|point| point.2 = point.2.filter(|y| *y > 0.0));
    Series { name, points, without, zeros, fit, limit, reach, ran_out }
}

impl Growth {
    /// How each series that has a fit grows, as sentences without a full stop, and where figures that are not above 0
    /// forbid one; names stand in backticks.
    pub fn sentences(&self, metric: &MetricName) -> Vec<String> {
        self.series.iter().filter_map(|series| self.sentence(metric, series)).collect()
    }

    fn sentence(&self, metric: &MetricName, series: &Series) -> Option<String> {
        let of = if series.name.is_empty() { String::new() } else { format!(" of `{}`", series.name) };
        let Some(fit) = series.fit else {
            let trials = series.points.len();
            let why = format!("in {} of {trials} trials the figure is not above 0", series.zeros);
            let several = series.levels() >= 3 && series.zeros > 0;
            return several.then(|| format!("`{metric}`{of} has no power law with `{}`: {why}", self.factor));
        };
        let (low, high) = fit.interval;
        let mut text = format!(
            "`{metric}`{of} grows as `{}` to the power of {:.2} ({low:.2} to {high:.2})",
            self.factor, fit.slope
        );
        if !(low..=high).contains(&fit.last_slope) && (fit.last_slope - fit.slope).abs() > 0.05 {
            text += &format!(", and of {:.2} between the two largest levels: no power law", fit.last_slope);
        }
        if let Some(words) = series.reach_words(&self.factor) {
            text += &format!("; {words}");
        }
        if let [first, ..] = series.ran_out.as_slice() {
            text += &format!("; at {} it did run out of memory", about(*first));
        }
        if series.without > 0 {
            let trials = series.points.len();
            text += &format!("; left out for want of a figure: {} of {trials} trials", series.without);
        }
        Some(text)
    }
}

impl Series {
    /// Different values of the factor.
    fn levels(&self) -> usize {
        self.points.iter().map(|(x, ..)| x.to_bits()).collect::<BTreeSet<u64>>().len()
    }

    /// Where the fit would meet the limit, in words that say that nothing of it was measured.
    pub fn reach_words(&self, factor: &str) -> Option<String> {
        let (reach, limit) = (self.reach?, self.limit?);
        let high = reach.high.map_or_else(|| format!("beyond {FARTHEST} times the largest measured"), about);
        Some(format!(
            "extrapolated, not measured: it would meet the limit of {} at about {} `{factor}` ({} to {high}), {} times \
             the largest measured",
            Bytes::from_bytes(limit as u64),
            about(reach.x),
            about(reach.low),
            about(reach.beyond),
        ))
    }
}

/// Two significant digits, thousands apart: `38,000,000`, `3.8`.
fn about(value: f64) -> String {
    let step = 10f64.powf(value.log10().floor() - 1.0);
    let rounded = (value / step).round() * step;
    if rounded < 10.0 {
        return format!("{rounded:.1}");
    }
    let digits = format!("{rounded:.0}");
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extrapolated_numbers_have_two_digits() {
        let texts: Vec<String> = [3.84, 9.97, 38.4, 149.0, 38_412_345.0].map(about).into();
        assert_eq!(texts, ["3.8", "10", "38", "150", "38,000,000"]);
    }
}
