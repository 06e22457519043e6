//! Describes the content of charts; the HTML page and the static pictures are drawn from these descriptions.

pub mod distribution;
pub(crate) mod downsample;
pub mod durability;
pub mod effects;
pub mod growth;
pub mod knee;
pub mod latency;
pub mod numeric;
pub mod samples;
pub mod series;
pub mod throughput;
pub mod timeline;

use std::collections::{BTreeMap, BTreeSet};

use prony_model::metric::{Metric, MetricKey, MetricName};
use prony_model::number;
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};
use prony_model::record::TrialRecord;

use super::chart::{Axis, Choice, Control, Does, Lasting, Said, Scale};
use super::format::Format;
use crate::error::Error;
use crate::variants::{metrics_of, trials_of};
use crate::words::grouped;
use prony_analysis::verdicts::{declared, figure, names};
use prony_results::{Database, Part, RunData};

/// Steps of time: about one for every two pixels of a wide screen.
pub const STEPS: usize = 400;

/// A run, and the database that holds its large parts.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Loads series, groups, histograms and throughput.
    pub database: &'a Database,
    /// The run with its light trials.
    pub data: &'a RunData,
}

impl<'a> Source<'a> {
    /// The trials of a variant, by index in the run.
    pub(crate) fn trials_of(self, variant: usize) -> impl Iterator<Item = usize> + 'a {
        let trials = &self.data.trials;
        (0..trials.len()).filter(move |at| trials[*at].trial.variant == variant)
    }

    /// The trials that have such a part, by index in the run.
    fn trials_with(self, part: Part) -> Result<Vec<usize>, Error> {
        let positions = self.database.positions_with(self.data.head.id, part)?;
        let trials = &self.data.trials;
        Ok((0..trials.len()).filter(|at| positions.contains(&trials[*at].trial.position)).collect())
    }

    /// What a variant is called.
    pub fn name(self, variant: usize) -> String {
        names::variant(&self.data.experiment, variant)
    }

    /// What is said of each variant, while it is shown.
    fn said(self, of: impl Fn(usize) -> Option<String>) -> Vec<Said> {
        self.variants().into_iter().filter_map(|v| Some(Said::of(&[v], of(v)?))).collect()
    }

    /// The variants that have a trial, in the experiment's order.
    pub fn variants(self) -> Vec<usize> {
        let present: BTreeSet<usize> = self.data.trials.iter().map(|t| t.trial.variant).collect();
        present.into_iter().filter(|v| *v < self.data.experiment.variants().len()).collect()
    }
}

/// Whether a metric of a trial's phase counts, by the rule of [`TrialRecord::figure`]. Data kept beside metrics, such
/// as histograms, is shown for the same trials.
fn counts(trial: &TrialRecord, phase: usize, metric: Metric) -> bool {
    let (phase, key) = (trial.phases[phase].name.clone(), MetricKey::amount(metric));
    let figure = trial.figure(&MetricName { phase, instance: None, key });
    !matches!(figure, Reading::Missing(Why::NotReached | Why::DoesNotCount(_)))
}

/// Every metric that some trial has, in the order of phases and metrics.
pub fn metrics(trials: &[TrialRecord]) -> Vec<MetricName> {
    let phases = grouped(trials.iter().flat_map(|t| &t.phases).map(|phase| (phase.name.as_str(), phase)));
    phases.into_iter().flat_map(|(phase, records)| metrics_of(phase, records, |_, _| true)).collect()
}

/// A choice among metrics, by phase: at first the primary one, else a time, else any.
fn metric_control(source: Source<'_>, names: &[&MetricName]) -> Control {
    let primary = primary(source);
    let first = names.iter().position(|name| Some(*name) == primary.as_ref());
    let time = |name: &&MetricName| name.key == MetricKey::amount(Metric::Time);
    let chosen = first.or_else(|| names.iter().position(time)).unwrap_or(0);
    let option = |name: &&MetricName| Choice { group: name.phase.clone(), ..Choice::new(name.to_string()) };
    Control { label: "Metric", does: Does::Select, options: names.iter().map(option).collect(), chosen }
}

/// How many ended in which way other than well: `2 out of memory (limit), 1 timed out`; empty where none did.
fn outcomes(all: impl Iterator<Item = Outcome>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in all.filter(|outcome| !outcome.is_ok()) {
        *counts.entry(outcome.to_string()).or_default() += 1;
    }
    let texts: Vec<String> = counts.iter().map(|(outcome, n)| format!("{n} {outcome}")).collect();
    texts.join(", ")
}

/// How many of some trials have no value of a metric, since they did not end well, or one that is larger than any that was
/// measured: `2 out of memory (limit), 4 infinite`; empty where all have one. Both count as worse than any value
/// (METHOD 1.4, 4.9).
fn unfinished(source: Source<'_>, figures: &[Reading<f64>], trials: impl Iterator<Item = usize>) -> String {
    let mut infinite: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut ended = Vec::new();
    for at in trials {
        match &figures[at] {
            Reading::Measured(_) => {}
            Reading::Missing(why) if why.is_infinite() => *infinite.entry(why.infinite_word()).or_default() += 1,
            Reading::Missing(_) => ended.push(source.data.trials[at].ending.outcome),
        }
    }
    let texts = Some(outcomes(ended.into_iter())).filter(|text| !text.is_empty());
    let texts = texts.into_iter().chain(infinite.iter().map(|(word, n)| format!("{n} {word}")));
    texts.collect::<Vec<_>>().join(", ")
}

/// Sentences on trials that ended well and have no value of a metric although they have its phase, with the first reason.
fn without_value(source: Source<'_>, figures: &[Reading<f64>]) -> Vec<Said> {
    let why = |at: usize| match &figures[at] {
        Reading::Missing(Why::NotReached | Why::NotApplicable) | Reading::Measured(_) => None,
        Reading::Missing(why) => Some(why).filter(|why| !why.is_infinite()),
    };
    source.said(|v| {
        let ended_well = |at: &usize| source.data.trials[*at].ending.outcome.is_ok();
        let reasons: Vec<&Why> = source.trials_of(v).filter(ended_well).filter_map(why).collect();
        let (n, all) = (reasons.len(), number::count(source.trials_of(v).count(), "trial"));
        let first = reasons.first()?;
        Some(format!("Not drawn: {n} of {all} of {}, which have no value: {first}.", source.name(v)))
    })
}

/// Sentences on how long a step of each variant's lines is, from their variants and steps in seconds; one sentence
/// where all are equal.
fn steps(source: Source<'_>, of: impl Iterator<Item = (usize, f64)> + Clone) -> Vec<Said> {
    let variants: BTreeSet<usize> = of.clone().map(|(variant, _)| variant).collect();
    let alike = over_all(of.clone().map(|(_, step)| step));
    let each = |v: usize| (v, over_all(of.clone().filter(|(variant, _)| *variant == v).map(|(_, step)| step)));
    let steps: Vec<(usize, String)> = variants.into_iter().map(each).collect();
    if steps.iter().all(|(_, step)| *step == alike) {
        return vec![Said::always(format!("A step is {alike}."))];
    }
    steps.iter().map(|(v, step)| Said::of(&[*v], format!("A step of {} is {step}.", source.name(*v)))).collect()
}

/// The axis of time for lines of equal steps, from their variants, steps and lengths in seconds.
fn time_axis(lines: impl Iterator<Item = (usize, f64, f64)>) -> Axis {
    let mut known: BTreeMap<usize, Lasting> = BTreeMap::new();
    for (variant, step, length) in lines {
        // The middle of the first step is the first point.
        let of = known.entry(variant).or_insert(Lasting { variant, first: step / 2.0, longest: length });
        of.first = of.first.min(step / 2.0);
        of.longest = of.longest.max(length);
    }
    Axis { format: Format::Seconds, scale: Scale::Times { lines: known.into_values().collect() }, ..Axis::default() }
}

/// The least to the largest of some times in seconds.
fn over_all(seconds: impl Iterator<Item = f64> + Clone) -> String {
    let (low, high) = (seconds.clone().fold(f64::INFINITY, f64::min), seconds.fold(0.0, f64::max));
    let [low, high] = [low, high].map(|value| Format::Seconds.text(value));
    if low == high { low } else { format!("{low} to {high}") }
}

/// Sentences on variants of which not the trial nearest to the median is drawn. `chosen` are the trials that were to be drawn:
/// not all variants have one where they are too many.
fn not_nearest(source: Source<'_>, drawn: &BTreeSet<usize>, chosen: &[usize]) -> Vec<Said> {
    let is_chosen = |v: usize| chosen.iter().any(|at| source.data.trials[*at].trial.variant == v);
    let primary = primary(source);
    let has = |at: usize| primary.as_ref().is_some_and(|name| figure(&source.data.trials[at], name).is_some());
    let of = primary.as_ref().map(|metric| format!(" of {metric}")).unwrap_or_default();
    let most = number::count(chosen.len(), "trial");
    source.said(|v| {
        let name = source.name(v);
        match drawn.contains(&v) {
            true if source.trials_of(v).any(has) => None,
            true => Some(format!(
                "{name} has no value{of}, so that no trial is nearest to the median: its first sampled trial is drawn."
            )),
            false if is_chosen(v) => Some(format!("Not drawn: {name}, whose trial has no samples.")),
            false => Some(format!("Not drawn: {name}, since a page shows at most {most} over time.")),
        }
    })
}

/// How many trials of which variants did not end well.
fn ended(source: Source<'_>) -> Vec<Said> {
    source.said(|v| {
        let of = || trials_of(source.data, v).map(|trial| trial.ending.outcome);
        let (failed, all) = (of().filter(|outcome| !outcome.is_ok()).count(), number::count(of().count(), "trial"));
        let text = || format!("{failed} of {all} of {} did not end well: {}.", source.name(v), outcomes(of()));
        (failed > 0).then(text)
    })
}

/// How many trials of which variants are left out of what is drawn of a phase, since the metric does not count in them.
fn left_out(source: Source<'_>, phase: &str, metric: Metric) -> Vec<Said> {
    let of = |trial: &TrialRecord| trial.phases.iter().position(|of| of.name == phase);
    let excluded = |trial: &&TrialRecord| of(trial).is_some_and(|at| !counts(trial, at, metric));
    source.said(|v| {
        let trials = trials_of(source.data, v);
        let without: Vec<Outcome> = trials.clone().filter(excluded).map(|trial| trial.ending.outcome).collect();
        let ways = Some(outcomes(without.iter().copied())).filter(|ways| !ways.is_empty());
        let ways = ways.map(|ways| format!(": {ways}")).unwrap_or_default();
        let (n, all) = (without.len(), trials.count());
        (n > 0).then(|| format!("{n} of {all} trials of {} are left out{ways}.", source.name(v)))
    })
}

/// That so many values of a variant are not drawn on a logarithmic axis, and what else follows; nothing where there are none.
fn not_above_zero(source: Source<'_>, variant: usize, (values, more): (usize, &str)) -> Option<Said> {
    let (count, name) = (number::count(values, "value"), source.name(variant));
    (values > 0).then(|| Said::of(&[variant], format!("Not drawn, since not above 0: {count} of {name}{more}.")))
}

/// The first of the metrics that get verdicts.
fn primary(source: Source<'_>) -> Option<MetricName> {
    declared(&source.data.experiment).into_iter().next()
}

/// At most `limit` trials that represent their variants, as indices into the run's trials: of each variant in turn the
/// one whose primary metric is nearest to the variant's median, then the next nearest.
pub(crate) fn representatives(source: Source<'_>, limit: usize) -> Vec<usize> {
    let primary = primary(source);
    let mut ranked: Vec<Vec<usize>> =
        source.variants().into_iter().map(|v| by_nearness(source, v, primary.as_ref())).collect();
    let mut chosen = Vec::new();
    for round in 0.. {
        let before = chosen.len();
        chosen.extend(ranked.iter_mut().filter_map(|trials| trials.get(round).copied()));
        if chosen.len() == before || chosen.len() >= limit {
            break;
        }
    }
    chosen.truncate(limit);
    chosen
}

fn by_nearness(source: Source<'_>, variant: usize, primary: Option<&MetricName>) -> Vec<usize> {
    let value = |at: usize| primary.and_then(|name| figure(&source.data.trials[at], name));
    let mut trials: Vec<usize> = source.trials_of(variant).collect();
    let mut values: Vec<f64> = trials.iter().filter_map(|at| value(*at)).collect();
    values.sort_by(f64::total_cmp);
    let Some(median) = values.get(values.len() / 2).copied() else { return trials };
    let distance = |at: &usize| value(*at).map_or(f64::INFINITY, |v| (v - median).abs());
    trials.sort_by(|a, b| distance(a).total_cmp(&distance(b)).then(a.cmp(b)));
    trials
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_logarithmic_where_variants_that_are_drawn_differ_tenfold() {
        let of = |lines: &[(usize, f64, f64)], shown: &[usize]| {
            time_axis(lines.iter().copied()).drawn(|variant| shown.contains(&variant))
        };
        let scale = |lines: &[(usize, f64, f64)]| of(lines, &[0, 1]).1;
        assert_eq!(scale(&[(0, 0.01, 1.0), (1, 0.1, 9.9)]), Scale::Time);
        let apart = [(0, 0.01, 1.0), (1, 0.1, 10.0), (2, 0.1, 500.0)];
        assert_eq!(of(&apart, &[0, 1]), ("logarithmic".to_owned(), Scale::Between { low: 0.005, high: 10.0 }));
        assert_eq!(of(&apart, &[1]), (String::new(), Scale::Time), "the others are of another stratum");
        assert_eq!(scale(&[(0, 0.01, 0.1), (0, 0.01, 5.0), (1, 0.1, 10.0)]), Scale::Time, "a variant's longest counts");
        assert_eq!(scale(&[]), Scale::Time);
    }
}
