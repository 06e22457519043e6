//! How a figure grows with a numeric factor, on log axes.

use std::collections::BTreeMap;

use prony_core::experiment::design::Experiment;
use prony_core::metric::MetricName;
use prony_core::stats::{Growth as Fit, growth};
use serde::Serialize;

use super::Source;
use crate::verdicts::{figure, names};

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
    /// The factor's value and the index of the trial, with its figure where it has one.
    pub points: Vec<(f64, usize, Option<f64>)>,
    /// The power law through the points, where there are three levels.
    pub fit: Option<Fit>,
}

/// A fit as the page draws it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Exponent.
    pub slope: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
    /// `y` at `x = 1`.
    pub scale: f64,
    /// Exponent between the two largest levels.
    pub last: f64,
}

impl From<Fit> for Line {
    fn from(fit: Fit) -> Self {
        Self { slope: fit.slope, interval: fit.interval, scale: fit.scale, last: fit.last_slope }
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
    let others: Vec<usize> = names::varying(experiment).into_iter().filter(|f| *f != factor).collect();
    let mut order: Vec<(String, Vec<usize>)> = Vec::new();
    let mut places: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    for (id, variant) in experiment.variants().iter().enumerate() {
        let key: Vec<usize> = others.iter().map(|f| variant.levels[*f]).collect();
        let place = *places.entry(key).or_insert(order.len());
        if place == order.len() {
            order.push((names::levels(experiment, id, &others), Vec::new()));
        }
        order[place].1.push(id);
    }
    order
}

/// The growth of a metric with a factor; `None` where fewer than two of its levels have a figure or an end.
pub fn of(source: Source<'_>, metric: &MetricName, factor: usize) -> Option<Growth> {
    let experiment = &source.data.experiment;
    let all: Vec<Series> = series(experiment, factor)
        .into_iter()
        .map(|(name, variants)| one(source, metric, factor, name, &variants))
        .filter(|series| series.points.iter().any(|p| p.2.is_some()))
        .collect();
    let mut xs: Vec<f64> = all.iter().flat_map(|s| &s.points).map(|p| p.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    (xs.len() >= 2).then(|| Growth { factor: experiment.factors()[factor].name.clone(), series: all })
}

fn one(source: Source<'_>, metric: &MetricName, factor: usize, name: String, variants: &[usize]) -> Series {
    let experiment = &source.data.experiment;
    let number = |v: usize| experiment.factors()[factor].levels[experiment.variants()[v].levels[factor]].number;
    let mut points = Vec::new();
    for variant in variants {
        let Some(x) = number(*variant) else { continue };
        for at in source.trials_of(*variant) {
            points.push((x, at, figure(&source.data.trials[at], metric).filter(|y| *y > 0.0)));
        }
    }
    let finished: Vec<(f64, f64)> = points.iter().filter_map(|(x, _, y)| Some((*x, (*y)?))).collect();
    Series { name, points, fit: growth(&finished).measured().copied() }
}
