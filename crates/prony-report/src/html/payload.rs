//! The data that the page's script draws from.

use std::collections::BTreeMap;

use prony_model::metric::{Better, Metric, MetricName};
use prony_model::reading::{Reading, Why};
use prony_model::record::TrialRecord;
use prony_model::trial::Label;
use prony_model::units::Unit;
use serde::Serialize;

use super::pack::Packed;
use super::profile::{ProfileOf, profiles};
use crate::error::Error;
use crate::plot::data::effects::{Effects, effects};
use crate::plot::data::latency::{self, Curve};
use crate::plot::data::samples::{Samples, samples};
use crate::plot::data::throughput::throughput;
use crate::plot::data::timeline::{QUANTITIES, Span, Timeline, timeline};
use crate::plot::data::{Source, growth, metrics, representatives};
use prony_analysis::verdicts::{Comparisons, Verdicts, declared, names};

/// Numbers that all timelines of a page may hold together.
const TIMELINE_NUMBERS: usize = 240_000;
/// Steps of a timeline: about one for every two pixels of a wide screen.
const STEPS: usize = 400;

/// The whole of it.
#[derive(Serialize)]
pub(super) struct Payload {
    title: String,
    run: i64,
    margin: f64,
    factors: Vec<Factor>,
    variants: Vec<Variant>,
    trials: Trials,
    /// Names of the metrics that verdicts rest on, the primary one first.
    declared: Vec<String>,
    metrics: Vec<Column>,
    growth: Vec<GrowthOf>,
    /// The figure that the limit on memory speaks of, by name.
    limited: Option<String>,
    timelines: Timelines,
    throughput: Vec<ThroughputOf>,
    latency: Latency,
    samples: Vec<Samples>,
    profiles: Vec<ProfileOf>,
}

#[derive(Serialize)]
struct Factor {
    name: String,
    levels: Vec<String>,
    /// The levels as numbers, where every one is above zero.
    numbers: Option<Vec<f64>>,
    /// Whether several of its levels run.
    varies: bool,
}

#[derive(Serialize)]
struct Variant {
    name: String,
    levels: Vec<usize>,
    baseline: bool,
    stratum: usize,
}

/// The trials, a column each.
#[derive(Serialize)]
struct Trials {
    position: Vec<u32>,
    block: Vec<u32>,
    sub_block: Vec<u32>,
    variant: Vec<usize>,
    /// 1 for the baseline's second label.
    second: Vec<u8>,
    /// Index into `outcomes`.
    outcome: Vec<usize>,
    outcomes: Vec<String>,
    /// The phase in which it ended, unless it ended well.
    phase: Vec<Option<String>>,
    /// Seconds from that phase's start to the end.
    after: Packed,
    seed: Vec<String>,
    started: Vec<u64>,
}

/// One metric over all trials.
#[derive(Serialize)]
struct Column {
    name: String,
    unit: Unit,
    better: Better,
    doc: &'static str,
    values: Option<Packed>,
    /// Why values are missing: the reason and the trials, or nothing where it is all of them.
    missing: Vec<(String, Option<Vec<usize>>)>,
    effects: Option<Effects>,
}

/// The fits of one metric with one factor, by series.
#[derive(Serialize)]
struct GrowthOf {
    /// Index of the factor.
    factor: usize,
    /// Each series: name and variants.
    series: Vec<(String, Vec<usize>)>,
    /// By metric: the fit of each series, in order, where there is any.
    fits: BTreeMap<String, Vec<Option<growth::Line>>>,
}

#[derive(Serialize)]
struct Timelines {
    quantities: Vec<(&'static str, &'static str, &'static str)>,
    trials: Vec<TimelineOf>,
    /// Trials that are not among them.
    left_out: usize,
}

#[derive(Serialize)]
struct TimelineOf {
    trial: usize,
    step: f64,
    samples: usize,
    phases: Vec<Span>,
    values: Vec<Option<Packed>>,
}

#[derive(Serialize)]
struct ThroughputOf {
    trial: usize,
    phase: String,
    step: f64,
    rates: Packed,
}

#[derive(Serialize)]
struct Latency {
    shares: Vec<f64>,
    curves: Vec<Curve>,
}

/// Gathers the page's data.
pub(super) fn payload(source: Source<'_>, verdicts: &Verdicts) -> Result<Payload, Error> {
    let experiment = &source.data.experiment;
    let declared = declared(experiment);
    let names = metrics(&source.data.trials);
    let limit = TIMELINE_NUMBERS / (STEPS * QUANTITIES.len());
    let chosen = representatives(source, declared.first(), limit.max(source.variants().len().min(2 * limit)));
    let throughput = throughput(source, &chosen, STEPS)?;
    let comparisons = Comparisons::new(source.data);
    Ok(Payload {
        title: source.data.head.title.clone(),
        run: source.data.head.id.0,
        margin: verdicts.margin,
        factors: factors(source),
        variants: variants(source),
        trials: trials(&source.data.trials),
        declared: declared.iter().map(ToString::to_string).collect(),
        metrics: names.iter().map(|name| column(source, verdicts, &comparisons, name)).collect(),
        growth: growths(source, &names),
        limited: growth::memory(source.data).map(|name| name.to_string()),
        timelines: timelines(source, &chosen)?,
        throughput: throughput
            .into_iter()
            .map(|t| ThroughputOf { trial: t.trial, phase: t.phase, step: t.step, rates: packed(&t.rates) })
            .collect(),
        latency: Latency { shares: latency::shares(), curves: latency::curves(source)? },
        samples: samples(source)?,
        profiles: profiles(source)?,
    })
}

fn packed(values: &[f64]) -> Packed {
    Packed::of(values.iter().map(|v| Some(*v)))
}

fn factors(source: Source<'_>) -> Vec<Factor> {
    let experiment = &source.data.experiment;
    let varying = names::varying(experiment);
    let numeric = growth::factors(experiment);
    let factor = |(at, factor): (usize, &prony_experiment::design::Factor)| Factor {
        name: factor.name.clone(),
        levels: factor.levels.iter().map(|l| l.label.clone()).collect(),
        numbers: numeric.contains(&at).then(|| factor.levels.iter().filter_map(|l| l.number).collect()),
        varies: varying.contains(&at),
    };
    experiment.factors().iter().enumerate().map(factor).collect()
}

fn variants(source: Source<'_>) -> Vec<Variant> {
    let experiment = &source.data.experiment;
    let variant = |v: &prony_experiment::design::Variant| Variant {
        name: names::variant(experiment, v.id),
        levels: v.levels.clone(),
        baseline: v.baseline,
        stratum: v.stratum,
    };
    experiment.variants().iter().map(variant).collect()
}

fn trials(trials: &[TrialRecord]) -> Trials {
    let mut outcomes: Vec<String> = Vec::new();
    let outcome = trials.iter().map(|t| {
        let text = t.ending.outcome.to_string();
        outcomes.iter().position(|o| *o == text).unwrap_or_else(|| {
            outcomes.push(text);
            outcomes.len() - 1
        })
    });
    let outcome = outcome.collect();
    Trials {
        position: trials.iter().map(|t| t.trial.position).collect(),
        block: trials.iter().map(|t| t.trial.block).collect(),
        sub_block: trials.iter().map(|t| t.trial.sub_block).collect(),
        variant: trials.iter().map(|t| t.trial.variant).collect(),
        second: trials.iter().map(|t| u8::from(t.trial.label == Label::A2)).collect(),
        outcome,
        outcomes,
        phase: trials.iter().map(|t| t.ending.phase.clone()).collect(),
        after: Packed::of(trials.iter().map(|t| Some(t.ending.after.as_secs_f64()))),
        // As text: scripts count to 2^53 only.
        seed: trials.iter().map(|t| t.trial.seed.to_string()).collect(),
        started: trials.iter().map(|t| t.started_unix_ms).collect(),
    }
}

fn column(source: Source<'_>, verdicts: &Verdicts, comparisons: &Comparisons<'_>, name: &MetricName) -> Column {
    let mut reasons: Vec<(Why, Vec<usize>)> = Vec::new();
    let mut values = Vec::with_capacity(source.data.trials.len());
    for (at, trial) in source.data.trials.iter().enumerate() {
        let reading = trial.figure(name);
        values.push(reading.measured().copied());
        if let Reading::Missing(why) = reading {
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, trials)) => trials.push(at),
                None => reasons.push((why, vec![at])),
            }
        }
    }
    let mut missing: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (why, trials) in reasons {
        missing.entry(why.to_string()).or_default().extend(trials);
    }
    let none = values.iter().all(Option::is_none);
    let single = missing.len() == 1;
    let metric: Metric = name.key.metric;
    Column {
        name: name.to_string(),
        unit: metric.unit(),
        better: metric.better(),
        doc: metric.doc(),
        values: (!none).then(|| Packed::of(values)),
        missing: missing.into_iter().map(|(why, at)| (why, (!(none && single)).then_some(at))).collect(),
        effects: if none { None } else { effects(source, verdicts, comparisons, name) },
    }
}

fn growths(source: Source<'_>, names: &[MetricName]) -> Vec<GrowthOf> {
    let experiment = &source.data.experiment;
    let of_factor = |factor: usize| {
        let series = growth::series(experiment, factor);
        let fits = names.iter().filter_map(|name| {
            let growth = growth::of(source.data, name, factor)?;
            let fit = |name: &str| growth.series.iter().find(|s| s.name == name).and_then(growth::Line::of);
            let lines: Vec<_> = series.iter().map(|(name, _)| fit(name)).collect();
            Some((name.to_string(), lines))
        });
        GrowthOf { factor, fits: fits.collect(), series }
    };
    growth::factors(experiment).into_iter().map(of_factor).collect()
}

fn timelines(source: Source<'_>, chosen: &[usize]) -> Result<Timelines, Error> {
    let mut trials = Vec::new();
    for at in chosen {
        trials.extend(timeline(source, *at, STEPS)?.map(of_timeline));
    }
    let left_out = source.data.trials.len() - chosen.len();
    Ok(Timelines { quantities: QUANTITIES.to_vec(), trials, left_out })
}

fn of_timeline(timeline: Timeline) -> TimelineOf {
    let column = |values: Vec<Option<f64>>| values.iter().any(Option::is_some).then(|| Packed::of(values));
    TimelineOf {
        trial: timeline.trial,
        step: timeline.step,
        samples: timeline.samples,
        phases: timeline.phases,
        values: timeline.values.into_iter().map(column).collect(),
    }
}
