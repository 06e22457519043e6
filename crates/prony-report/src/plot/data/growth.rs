//! The chart of growth: a metric against a numeric factor, on log axes, with fitted power laws.

use std::collections::BTreeSet;

use prony_experiment::design::Experiment;
use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::number::{about, thousands};
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::Reading;
use prony_model::units::Bytes;
use prony_stats::growth::{FARTHEST, Reach};
use prony_stats::summary::median;
use prony_stats::{Growth as Fit, growth};
use schemars::JsonSchema;
use serde::Serialize;

use super::knee::{self, Load};
use super::numeric::{factors, number as level_of, series};
use super::{Source, metric_control, not_above_zero, unfinished, without_value};
use crate::plot::chart::{
    Axis, COLOURS, Chart, Choice, Columns, Control, Does, Kind, Mark, Of, Row, Said, Scale, Section, Series as Named,
    Stroke, Style, Table, When,
};
use crate::plot::format::Format;
use crate::words::{grouped, once};
use prony_analysis::verdicts::{declared, figure};
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
    /// Its variants, by index.
    pub variants: Vec<usize>,
    /// The factor's value, the index of the trial, and its value of the metric where log axes can show it.
    pub points: Vec<(f64, usize, Option<f64>)>,
    /// Trials without a value: these are not in the fit.
    pub without: usize,
    /// Trials whose value is not above 0: where there are any, there is no fit.
    pub zeros: usize,
    /// The power law through the points, where there are three levels.
    pub fit: Option<Fit>,
    /// The memory limit in bytes, where the metric is the memory that it limits and all variants have the same limit.
    pub limit: Option<f64>,
    /// Where the fit would meet that limit: an extrapolation.
    pub reach: Option<Reach>,
    /// Values of the factor, rising, at which a trial reached its own memory limit; the host's does not count.
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
    /// Trials of the series without a value, which are not in the fit.
    pub without: usize,
    /// The limit on memory, bytes.
    pub limit: Option<f64>,
    /// Where the fit would reach the limit: an extrapolation.
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

/// The growth of a metric with a factor. `None` where fewer than two levels of the factor have trials, or where a
/// search chose the factor's values by the metric itself; a search by `grow` chooses them by how trials ended.
pub fn of(data: &RunData, metric: &MetricName, factor: usize) -> Option<Growth> {
    if data.experiment.explores() && !grew(data) {
        return None;
    }
    let experiment = &data.experiment;
    let all: Vec<Series> = series(experiment, factor)
        .into_iter()
        .map(|(name, variants)| one(data, metric, factor, name, variants))
        .filter(|series| series.points.iter().any(|p| p.2.is_some()))
        .collect();
    let mut xs: Vec<f64> = all.iter().flat_map(|s| &s.points).map(|p| p.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    (xs.len() >= 2).then(|| Growth { factor: experiment.factors()[factor].name.clone(), series: all })
}

/// The growth of the metrics that verdicts rest on and of the memory that a limit holds down, with each numeric factor.
pub(crate) fn of_run(data: &RunData) -> Vec<(MetricName, Growth)> {
    let metrics = once(declared(&data.experiment).into_iter().chain(memory(data)));
    let factors = factors(&data.experiment);
    let all = metrics.iter().flat_map(|metric| factors.iter().map(move |factor| (metric, *factor)));
    all.filter_map(|(metric, factor)| Some((metric.clone(), of(data, metric, factor)?))).collect()
}

/// Whether `grow` chose the values.
pub(crate) fn grew(data: &RunData) -> bool {
    data.head.search.as_deref() == Some("grow")
}

/// The metric that a memory limit concerns: anonymous memory, in the timed phase in which a trial had most of it.
/// `None` where no variant has a memory limit or no trial has the metric.
pub fn memory(data: &RunData) -> Option<MetricName> {
    let limited = data.experiment.variants().iter().any(|v| v.spec.limits.memory.is_some());
    let key = MetricKey::gauge(Metric::Anon, Stat::Max);
    let phases = data.trials.iter().flat_map(|t| &t.phases).filter(|p| p.timed);
    let most = phases.filter_map(|p| Some((p, *p.reading(key)?.measured()?))).max_by(|a, b| a.1.total_cmp(&b.1));
    most.filter(|_| limited).map(|(phase, _)| MetricName { phase: phase.name.clone(), instance: None, key })
}

/// The memory limit that all these variants have, in bytes, if the metric is anonymous memory. Resident memory includes
/// mapped pages, which the kernel reclaims before memory runs out.
fn limit(experiment: &Experiment, metric: &MetricName, variants: &[usize]) -> Option<f64> {
    let mut limits = variants.iter().map(|v| experiment.variants()[*v].spec.limits.memory);
    let first = limits.next()??;
    let speaks = metric.key == MetricKey::gauge(Metric::Anon, Stat::Max) && limits.all(|limit| limit == Some(first));
    speaks.then_some(first.as_bytes() as f64)
}

fn one(data: &RunData, metric: &MetricName, factor: usize, name: String, variants: Vec<usize>) -> Series {
    let experiment = &data.experiment;
    let mut points = Vec::new();
    for variant in &variants {
        let Some(x) = level_of(experiment, factor, *variant) else { continue };
        for (at, trial) in data.trials.iter().enumerate().filter(|(_, t)| t.trial.variant == *variant) {
            points.push((x, at, figure(trial, metric)));
        }
    }
    let measured: Vec<(f64, f64)> = points.iter().filter_map(|(x, _, y)| Some((*x, (*y)?))).collect();
    // Refused where a value is not above 0: a law fitted to the others would be of those that are.
    let fit = growth(&measured).measured().copied();
    let zeros = measured.iter().filter(|(_, y)| *y <= 0.0).count();
    let without = points.len() - measured.len();
    let limit = limit(experiment, metric, &variants);
    let reach = fit.zip(limit).and_then(|(fit, limit)| fit.reach(&measured, limit).measured().copied());
    let out = |at: usize| {
        matches!(data.trials[at].ending.outcome, Outcome::OutOfMemory { by: OutOfMemory::Limit | OutOfMemory::Runtime })
    };
    let mut ran_out: Vec<f64> = points.iter().filter(|(_, at, y)| y.is_none() && out(*at)).map(|p| p.0).collect();
    ran_out.sort_by(f64::total_cmp);
    ran_out.dedup();
    points.iter_mut().for_each(|point| point.2 = point.2.filter(|y| *y > 0.0));
    Series { name, variants, points, without, zeros, fit, limit, reach, ran_out }
}

/// Charts of the growth of each of these metrics with each numeric factor. The metric of the memory limit is shown
/// below whichever metric is chosen.
pub fn section(source: Source<'_>, columns: &mut Columns, metrics: &[MetricName]) -> Section {
    let data = source.data;
    let factors = factors(&data.experiment);
    let (memory, loads) = (memory(data), knee::of(data));
    let (mut names, mut charts, mut last) = (Vec::new(), Vec::new(), Vec::new());
    // The places of the two controls.
    let (figure, against) = (0, 1);
    for metric in metrics {
        let growths = factors.iter().enumerate().filter_map(|(at, f)| Some((at, *f, of(data, metric, *f)?)));
        let found: Vec<Chart> = growths
            .map(|(at, f, growth)| Chart {
                when: vec![When(against, at, at)],
                ..chart(source, columns, metric, (f, &growth), &loads)
            })
            .collect();
        let nth = names.len();
        if !found.is_empty() {
            names.push(metric);
        }
        if memory.as_ref() == Some(metric) {
            last = found;
        } else {
            charts.extend(found.into_iter().map(|mut chart| {
                chart.when.push(When(figure, nth, nth));
                chart
            }));
        }
    }
    charts.extend(last);
    let options = factors.iter().map(|f| Choice::new(&data.experiment.factors()[*f].name)).collect();
    let against_control = Control { label: "Against", does: Does::Select, options, chosen: 0 };
    let series = factors.iter().enumerate().flat_map(|(at, f)| {
        named(source, *f).into_iter().map(move |series| Named { when: vec![When(against, at, at)], ..series })
    });
    Section {
        controls: vec![metric_control(source, &names), against_control],
        series: series.collect(),
        legend: true,
        charts,
    }
}

/// The series of a factor as they are called and drawn: the first in the colour of text, where there are several. Where
/// colours come again, symbols differ: no line here has a dash of its own.
fn named(source: Source<'_>, factor: usize) -> Vec<Named> {
    let experiment = &source.data.experiment;
    let all = series(experiment, factor);
    let several = all.len() > 1;
    let named = |(at, (name, variants)): (usize, (String, Vec<usize>))| {
        let rank = if several { at.checked_sub(1) } else { Some(0) };
        let again = rank.map_or(0, |rank| rank / COLOURS);
        Named {
            name: if name.is_empty() { source.data.head.title.clone() } else { name },
            style: Style { colour: rank.map(|rank| rank % COLOURS), dash: 0, symbol: at + again },
            baseline: variants.iter().all(|v| experiment.variants()[*v].baseline),
            variants,
            when: Vec::new(),
        }
    };
    all.into_iter().enumerate().map(named).collect()
}

/// A variant's trials at its value of the factor.
struct Level {
    variant: usize,
    x: f64,
    /// How many trials have a value.
    trials: usize,
    /// How many of these are not above 0.
    zeros: usize,
    /// The median of all values, infinite ones included.
    median: Option<f64>,
    /// What did not finish.
    ended: String,
}

impl Level {
    /// The median, where a logarithmic axis has a place for it.
    fn drawn(&self) -> Option<f64> {
        self.median.filter(|median| *median > 0.0 && median.is_finite())
    }
}

/// Every variant's level, by series and value.
fn levels(source: Source<'_>, factor: usize, figures: &[Reading<f64>]) -> Vec<Level> {
    let level = |variant: usize| {
        let x = level_of(&source.data.experiment, factor, variant)?;
        let ordered: Vec<f64> = source.trials_of(variant).filter_map(|at| figures[at].ordered()).collect();
        let zeros = ordered.iter().filter(|y| **y <= 0.0).count();
        let trials = source.trials_of(variant).filter(|at| figures[*at].measured().is_some()).count();
        let ended = unfinished(source, figures, source.trials_of(variant));
        Some(Level { variant, x, trials, zeros, median: median(&ordered), ended })
    };
    let of_series = |(_, variants): (String, Vec<usize>)| {
        let mut levels: Vec<Level> = variants.into_iter().filter_map(level).collect();
        levels.sort_by(|a, b| a.x.total_cmp(&b.x));
        levels
    };
    series(&source.data.experiment, factor).into_iter().flat_map(of_series).collect()
}

fn chart(
    source: Source<'_>,
    columns: &mut Columns,
    metric: &MetricName,
    (factor, growth): (usize, &Growth),
    loads: &[Load],
) -> Chart {
    let is_shown = |load: &&Load| load.metric == *metric && load.factor == growth.factor;
    let knees: Vec<&Load> = loads.iter().filter(is_shown).collect();
    let experiment = &source.data.experiment;
    let figures: Vec<Reading<f64>> = source.data.trials.iter().map(|trial| trial.figure(metric)).collect();
    let levels = levels(source, factor, &figures);
    let unit = Format::from(metric.key.metric.unit());
    let x_of = |variant| level_of(experiment, factor, variant).unwrap_or(f64::NAN);
    let mut marks = limits(columns, growth, &levels);
    marks.extend(growth.series.iter().flat_map(|series| fitted(columns, series)));
    let medians: Vec<(&Level, f64)> = levels.iter().filter_map(|level| Some((level, level.drawn()?))).collect();
    marks.push(Mark {
        of: Of::Each(medians.iter().map(|(level, _)| level.variant).collect()),
        x: columns.add(medians.iter().map(|(level, _)| level.x)),
        y: columns.add(medians.iter().map(|(_, median)| *median)),
        stroke: Stroke::Solid,
        ..Mark::default()
    });
    marks.push(Mark {
        kind: Kind::Dots,
        of: Of::Trials,
        x: columns.add(source.data.trials.iter().map(|t| x_of(t.trial.variant))),
        y: columns.add(figures.iter().map(|y| y.measured().copied().unwrap_or(f64::NAN))),
        tip: format!("{} {{x}}\n{{y}}", growth.factor),
        ..Mark::default()
    });
    let ended = || levels.iter().filter(|level| !level.ended.is_empty());
    marks.extend(knees.iter().filter_map(|load| at_knee(columns, load)));
    marks.push(Mark {
        kind: Kind::Ends,
        of: Of::Each(ended().map(|level| level.variant).collect()),
        x: columns.add(ended().map(|level| level.x)),
        text: ended().map(|level| level.ended.clone()).collect(),
        ..Mark::default()
    });
    let log = |label: &str, format| Axis { label: label.to_owned(), format, scale: Scale::Log, ..Axis::default() };
    Chart {
        title: format!("{metric} against {}", growth.factor),
        phase: metric.phase.clone(),
        caption: [caption(source, growth, metric, &levels, &knees), without_value(source, &figures)].concat(),
        x: log(&growth.factor, Format::Count),
        y: log("", unit),
        height: 0.5,
        marks,
        table: table(growth, metric, &levels),
        ..Chart::default()
    }
}

/// A ring around the knee of goodput.
fn at_knee(columns: &mut Columns, load: &Load) -> Option<Mark> {
    let knee = load.knee.as_ref().ok()?;
    let (x, y) = (columns.add([knee.x]), columns.add([knee.y]));
    let (of, text) = (Of::Together(load.variants.clone()), vec!["knee".to_owned()]);
    Some(Mark { kind: Kind::Rings, of, x, y, text, ..Mark::default() })
}

/// The fitted line dashed over what was measured, and dotted on to where it would meet the limit.
fn fitted(columns: &mut Columns, series: &Series) -> Vec<Mark> {
    let Some(fit) = &series.fit else { return Vec::new() };
    let of = || Of::Together(series.variants.clone());
    let low = series.points.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let mut line = |from: (f64, f64), to: (f64, f64), stroke| Mark {
        of: of(),
        x: columns.add([from.0, to.0]),
        y: columns.add([from.1, to.1]),
        stroke,
        ..Mark::default()
    };
    let last = (fit.largest, fit.at(fit.largest));
    let mut marks = vec![line((low, fit.at(low)), last, Stroke::Fit)];
    if let Some((reach, limit)) = series.reach.zip(series.limit) {
        // What is extrapolated is not the line where the growth bends.
        let from = if fit.bends { (fit.largest, fit.last) } else { last };
        marks.push(line(from, (reach.x, limit), Stroke::Beyond));
        let text = vec!["extrapolated".to_owned()];
        let (x, y) = (columns.add([reach.x]), columns.add([limit]));
        marks.push(Mark { kind: Kind::Rings, of: of(), x, y, text, ..Mark::default() });
    }
    marks
}

/// The limits on memory that a fit meets or that ended trials.
fn limits(columns: &mut Columns, growth: &Growth, levels: &[Level]) -> Vec<Mark> {
    let ended = |series: &Series| levels.iter().any(|l| !l.ended.is_empty() && series.variants.contains(&l.variant));
    let met = growth.series.iter().filter(|s| s.fit.is_some() && (s.reach.is_some() || ended(s)));
    let found = grouped(met.filter_map(|series| Some((series.limit?, &series.variants))));
    let mark = |(limit, variants): (f64, Vec<&Vec<usize>>)| Mark {
        kind: Kind::Limits,
        of: Of::Together(variants.into_iter().flatten().copied().collect()),
        y: columns.add([limit]),
        text: vec![format!("limit {}", Format::Bytes.text(limit))],
        ..Mark::default()
    };
    found.into_iter().map(mark).collect()
}

fn caption(source: Source<'_>, growth: &Growth, metric: &MetricName, levels: &[Level], knees: &[&Load]) -> Vec<Said> {
    let of = |has: &dyn Fn(&Level) -> bool| levels.iter().filter(|l| has(l)).map(|l| l.variant).collect::<Vec<_>>();
    let mut said =
        vec![Said::always("Both axes are logarithmic. Lines join medians; dashes are the fitted power law.")];
    let ended = of(&|level| !level.ended.is_empty());
    if !ended.is_empty() {
        said.push(Said::of(&ended, "Crosses at the top are trials that did not finish."));
    }
    let zeros = |level: &Level| not_above_zero(source, level.variant, (level.zeros, "; no power law is fitted"));
    said.extend(levels.iter().filter_map(zeros));
    for series in &growth.series {
        if let Some(text) = growth.sentence(metric, series) {
            said.push(Said::of(&series.variants, text.replace('`', "") + "."));
        }
    }
    for load in knees {
        let sentences = load.sentences().into_iter();
        said.extend(sentences.map(|text| Said::of(&load.variants, text.replace('`', "") + ".")));
    }
    let reached: Vec<usize> =
        growth.series.iter().filter(|s| s.reach.is_some()).flat_map(|s| &s.variants).copied().collect();
    if !reached.is_empty() {
        said.push(Said::of(&reached, "The dotted line extrapolates beyond what was measured."));
    }
    said
}

fn table(growth: &Growth, metric: &MetricName, levels: &[Level]) -> Table {
    let heads = ["Series", &growth.factor, "Median", "Trials", "Did not finish"];
    let unit = Format::from(metric.key.metric.unit());
    let text = |median: f64| if median.is_infinite() { "infinite".to_owned() } else { unit.text(median) };
    let row = |level: &Level| {
        let cells = [
            level.x.to_string(),
            level.median.map_or_else(|| "-".to_owned(), text),
            level.trials.to_string(),
            if level.ended.is_empty() { "0".to_owned() } else { level.ended.clone() },
        ];
        Row::of(level.variant, cells)
    };
    let shown = |level: &&Level| level.median.is_some() || !level.ended.is_empty();
    Table::new(heads, levels.iter().filter(shown).map(row))
}

impl Growth {
    /// How each series grows, as sentences without a full stop, for series that have a fit or whose values not above 0
    /// prevent one; names are in backticks.
    pub fn sentences(&self, metric: &MetricName) -> Vec<String> {
        self.series.iter().filter_map(|series| self.sentence(metric, series)).collect()
    }

    fn sentence(&self, metric: &MetricName, series: &Series) -> Option<String> {
        let of = if series.name.is_empty() { String::new() } else { format!(" of `{}`", series.name) };
        let Some(fit) = series.fit else {
            let trials = series.points.len();
            let why = format!("in {} of {trials} trials the value is not above 0", series.zeros);
            let several = series.levels() >= 3 && series.zeros > 0;
            return several.then(|| format!("`{metric}`{of} has no fitted power law in `{}`: {why}", self.factor));
        };
        let (low, high) = fit.interval;
        let mut text = format!(
            "`{metric}`{of} grows as `{}` to the power of {:.2} ({low:.2} to {high:.2})",
            self.factor, fit.slope
        );
        if fit.bends && (fit.last_slope - fit.slope).abs() > 0.05 {
            text += &format!(", but of {:.2} between the two largest levels: not a power law", fit.last_slope);
        }
        if let Some((more, apart)) = series.last_increase() {
            // Of times and bytes no part of one is shown; no step is longer than the one that was measured.
            let step = 10f64.powf((10.0 / more).log10().ceil().max(0.0)).min(apart);
            let more =
                Format::from(metric.key.metric.unit()).text(step * more).replace('\u{a0}', " ").replace('\u{b5}', "u");
            let step = thousands(&step.to_string());
            text += &format!(
                "; each further {step} of `{}` added about {more} between the two largest levels",
                self.factor
            );
        }
        if let Some(words) = series.reach_words(&self.factor) {
            text += &format!("; {words}");
        }
        if let [first, ..] = series.ran_out.as_slice() {
            text += &format!("; trials did run out of memory at {}", thousands(&first.to_string()));
        }
        if series.without > 0 {
            let trials = series.points.len();
            text += &format!("; left out, since they have no value: {} of {trials} trials", series.without);
        }
        Some(text)
    }
}

impl Series {
    /// Different values of the factor.
    fn levels(&self) -> usize {
        self.points.iter().map(|(x, ..)| x.to_bits()).collect::<BTreeSet<u64>>().len()
    }

    /// What each further 1 of the factor added between the medians of the two largest levels, in the metric's unit, and how far
    /// apart these are: beside a constant part, proportional growth has an exponent below 1. `None` where it is not shown to grow.
    fn last_increase(&self) -> Option<(f64, f64)> {
        self.fit.filter(|fit| fit.interval.0 > 0.0 && fit.last_slope > 0.0)?;
        let mut points: Vec<(f64, f64)> = self.points.iter().filter_map(|(x, _, y)| Some((*x, (*y)?))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let level = |of: &[(f64, f64)]| Some((of[0].0, median(&of.iter().map(|point| point.1).collect::<Vec<_>>())?));
        let mut levels = points.chunk_by(|a, b| a.0 == b.0).rev().map(level);
        let ((x, y), (x_before, y_before)) = (levels.next()??, levels.next()??);
        Some(((y - y_before) / (x - x_before), x - x_before)).filter(|(more, _)| *more > 0.0)
    }

    /// Where the fit would meet the limit, in words that say that nothing of it was measured.
    pub fn reach_words(&self, factor: &str) -> Option<String> {
        let (reach, limit) = (self.reach?, self.limit?);
        let high = reach.high.map_or_else(|| format!("beyond {FARTHEST} times the largest value measured"), about);
        Some(format!(
            "extrapolated, not measured: it would reach the memory limit of {} at about {} `{factor}` ({} to {high}), \
             {} times the largest value measured",
            Bytes::from_bytes(limit as u64),
            about(reach.x),
            about(reach.low),
            about(reach.beyond),
        ))
    }
}
