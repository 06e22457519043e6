//! The data from which the page's script draws charts.

use std::collections::BTreeMap;

use prony_model::metric::MetricName;
use prony_model::reading::Reading;
use prony_model::record::TrialRecord;
use prony_model::trial::Label;
use prony_model::units::Unit;
use serde::Serialize;

use super::encode::Packed;
use super::profile::{ProfileOf, profiles};
use crate::error::Error;
use crate::plot::chart::{Column, ColumnId, Columns, Section, Series};
use crate::plot::data::effects::{self, Judged};
use crate::plot::data::{
    STEPS, Source, durability, growth, latency, metrics, representatives, samples, series, throughput, timeline,
};
use crate::words::{grouped, place_of};
use prony_analysis::verdicts::{Comparisons, Verdicts, names};

/// Numbers that all timelines of a page may hold together.
const TIMELINE_NUMBERS: usize = 240_000;

/// The whole of it.
#[derive(Serialize)]
pub(super) struct Payload {
    title: String,
    run: i64,
    factors: Vec<Factor>,
    variants: Vec<Variant>,
    trials: Trials,
    metrics: Vec<Figures>,
    /// By the id of the element in which it stands.
    sections: BTreeMap<&'static str, Section>,
    columns: Vec<ColumnOf>,
    profiles: Vec<ProfileOf>,
}

/// Numbers, or the middles of equal steps from 0 on.
#[derive(Serialize)]
#[serde(untagged)]
enum ColumnOf {
    Numbers(Packed),
    Steps { step: f64, count: usize },
}

#[derive(Serialize)]
struct Factor {
    name: String,
    levels: Vec<String>,
    /// Whether several of its levels run.
    varies: bool,
}

#[derive(Serialize)]
struct Variant {
    #[serde(flatten)]
    series: Series,
    levels: Vec<usize>,
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
struct Figures {
    name: String,
    unit: Unit,
    values: Option<ColumnId>,
    /// Why values are missing: the reason and the trials, or nothing where it is all that have none.
    missing: Vec<(String, Option<Vec<usize>>)>,
}

/// Gathers the page's data.
pub(super) fn payload(source: Source<'_>, verdicts: &Verdicts) -> Result<Payload, Error> {
    let names = metrics(&source.data.trials);
    let mut columns = Columns::default();
    let comparisons = Comparisons::in_metrics(source.data, &names);
    let metrics: Vec<Figures> = names.iter().map(|name| figures(&comparisons, &mut columns, name)).collect();
    let measured = names.into_iter().zip(&metrics).filter(|(_, figures)| figures.values.is_some());
    let measured: Vec<MetricName> = measured.map(|(name, _)| name).collect();
    let judged = Judged { source, verdicts, comparisons: &comparisons };
    let sections = sections(judged, &mut columns, &measured)?;
    let column = |column: &Column| match column {
        Column::Numbers(numbers) => ColumnOf::Numbers(Packed::of(numbers.iter().map(|n| Some(*n)))),
        Column::Steps { step, count } => ColumnOf::Steps { step: *step, count: *count },
    };
    Ok(Payload {
        title: source.data.head.title.clone(),
        run: source.data.head.id.0,
        factors: factors(source),
        variants: variants(source),
        trials: trials(&source.data.trials),
        metrics,
        sections: sections.into_iter().filter(|(_, section)| !section.charts.is_empty()).collect(),
        columns: columns.all().iter().map(column).collect(),
        profiles: profiles(source)?,
    })
}

fn sections(
    judged: Judged<'_>,
    columns: &mut Columns,
    names: &[MetricName],
) -> Result<[(&'static str, Section); 7], Error> {
    let source = judged.source;
    let limit = TIMELINE_NUMBERS / (STEPS * timeline::QUANTITIES.len());
    let chosen = representatives(source, limit.max(source.variants().len().min(2 * limit)));
    Ok([
        ("effects", effects::section(judged, columns, names)),
        ("growth", growth::section(source, columns, names)),
        ("durability", durability::section(source, columns)),
        ("timeline", timeline::section(source, columns, &chosen)?),
        ("throughput", throughput::section(source, columns, &chosen)?),
        ("latency", latency::section(source, columns)?),
        ("samples", samples::section(source, columns)?),
    ])
}

fn factors(source: Source<'_>) -> Vec<Factor> {
    let experiment = &source.data.experiment;
    let varying = names::varying(experiment);
    let factor = |(at, factor): (usize, &prony_experiment::design::Factor)| Factor {
        name: factor.name.clone(),
        levels: factor.levels.iter().map(|l| l.label.clone()).collect(),
        varies: varying.contains(&at),
    };
    experiment.factors().iter().enumerate().map(factor).collect()
}

fn variants(source: Source<'_>) -> Vec<Variant> {
    let experiment = &source.data.experiment;
    let all: Vec<usize> = (0..experiment.variants().len()).collect();
    let of = series::of_variants(experiment, &all).into_iter().zip(experiment.variants());
    of.map(|(series, variant)| Variant { series, levels: variant.levels.clone() }).collect()
}

fn trials(trials: &[TrialRecord]) -> Trials {
    let mut outcomes: Vec<String> = Vec::new();
    let outcome = trials.iter().map(|t| place_of(&mut outcomes, t.ending.outcome.to_string())).collect();
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

fn figures(comparisons: &Comparisons<'_>, columns: &mut Columns, name: &MetricName) -> Figures {
    let figures = comparisons.figures(name);
    let reasons = figures.iter().enumerate().filter_map(|(at, reading)| match reading {
        Reading::Measured(_) => None,
        Reading::Missing(why) => Some((why, at)),
    });
    // Different reasons may have one text.
    let mut missing: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (why, trials) in grouped(reasons) {
        missing.entry(why.to_string()).or_default().extend(trials);
    }
    let none = figures.iter().all(|figure| figure.measured().is_none());
    let several = missing.len() > 1;
    let known = figures.iter().map(|figure| figure.measured().copied().unwrap_or(f64::NAN));
    Figures {
        name: name.to_string(),
        unit: name.key.metric.unit(),
        values: if none { None } else { columns.add(known) },
        missing: missing.into_iter().map(|(why, at)| (why, several.then_some(at))).collect(),
    }
}
