//! Comparisons, interactions and growth as numbers, for the JSON document.

use std::collections::BTreeMap;

use prony_model::reading::Reading;
use prony_stats::verdict::RatioInterval;
use prony_stats::{Counts, Estimate, Verdict};
use serde::Serialize;
use serde_json::Value;

use crate::plot::data::growth;
use prony_analysis::verdicts::interactions::{self, Interaction};
use prony_analysis::verdicts::left_out::{self, LeftOut};
use prony_analysis::verdicts::{Line, Verdicts, declared};
use prony_results::RunData;

#[derive(Serialize)]
pub(super) struct ComparisonOut {
    metric: String,
    variant: usize,
    baseline: usize,
    verdict: Value,
    words: String,
    sentence: String,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    p_adjusted: Option<f64>,
    smallest_effect: Option<f64>,
    blocks: u32,
    aa: Option<EstimateOut>,
    undisturbed: Option<UndisturbedOut>,
    finished: CountsOut,
    baseline_finished: CountsOut,
    method: String,
    notes: Vec<String>,
}

/// A ratio with its interval; an end that is open is null.
#[derive(Serialize)]
struct EstimateOut {
    ratio: f64,
    low: Option<f64>,
    high: Option<f64>,
}

/// Without the blocks in which a trial was disturbed.
#[derive(Serialize)]
struct UndisturbedOut {
    blocks: u32,
    of: u32,
    estimate: Option<EstimateOut>,
}

/// Trials that finished, of how many, and the exact 95 % interval of the share.
#[derive(Serialize)]
struct CountsOut {
    finished: u32,
    trials: u32,
    share: (f64, f64),
}

/// What one change does where the others are there.
#[derive(Serialize)]
pub(super) struct LeftOutOut {
    metric: String,
    factor: String,
    change: Option<String>,
    at: BTreeMap<String, String>,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    missing: Option<String>,
    verdict: Value,
    effect: String,
    comparison: usize,
}

#[derive(Serialize)]
pub(super) struct InteractionOut {
    metric: String,
    sentence: String,
    factor: String,
    level: String,
    reference: String,
    on: String,
    at: String,
    effects: Vec<EffectOut>,
    from: String,
    to: String,
    change: EstimateOut,
    blocks: u32,
    of_blocks: u32,
    unimodal: bool,
    looked_at: usize,
    looks: usize,
}

#[derive(Serialize)]
struct EffectOut {
    at: String,
    #[serde(flatten)]
    effect: EstimateOut,
}

#[derive(Serialize)]
pub(super) struct GrowthOut {
    metric: String,
    factor: String,
    series: String,
    line: growth::Line,
    ran_out_at: Vec<f64>,
}

/// One for each verdict, in their order.
pub(super) fn comparisons(verdicts: &Verdicts) -> Vec<ComparisonOut> {
    verdicts.lines.iter().map(|line| comparison(line, verdicts.margin)).collect()
}

/// One for each change that was left out, and for all of them.
pub(super) fn left_out(data: &RunData, verdicts: &Verdicts) -> Vec<LeftOutOut> {
    let one = |one: LeftOut<'_>| {
        let c = &one.line.comparison;
        let interval = c.interval.measured().copied();
        LeftOutOut {
            metric: one.line.pair.metric.to_string(),
            effect: one.effect(),
            missing: one.missing(),
            factor: one.factor.to_owned(),
            change: one.change.map(str::to_owned),
            at: one.at.into_iter().map(|(factor, level)| (factor.to_owned(), level.to_owned())).collect(),
            ratio: number(&c.ratio),
            low: interval.and_then(low),
            high: interval.and_then(|i| i.high),
            verdict: name(&c.verdict),
            comparison: one.place,
        }
    };
    left_out::of(&data.experiment, verdicts).into_iter().map(one).collect()
}

/// The verdict's name.
fn name(verdict: &Verdict) -> Value {
    serde_json::to_value(verdict).map_or(Value::Null, |verdict| verdict["verdict"].clone())
}

fn comparison(line: &Line, margin: f64) -> ComparisonOut {
    let c = &line.comparison;
    let interval = c.interval.measured().copied();
    ComparisonOut {
        metric: line.pair.metric.to_string(),
        variant: line.pair.variant,
        baseline: line.pair.baseline,
        verdict: name(&c.verdict),
        words: c.verdict.words(line.pair.metric.key.metric, margin),
        sentence: line.sentence.clone(),
        ratio: number(&c.ratio),
        low: interval.and_then(low),
        high: interval.and_then(|i| i.high),
        p_adjusted: number(&c.p_adjusted),
        smallest_effect: number(&c.smallest_effect),
        blocks: c.blocks,
        aa: c.aa.measured().copied().map(estimate),
        undisturbed: line.undisturbed.as_ref().map(|left| UndisturbedOut {
            blocks: left.blocks,
            of: left.of,
            estimate: left.estimate.measured().copied().map(estimate),
        }),
        finished: counts(c.variant),
        baseline_finished: counts(c.baseline),
        method: c.method.clone(),
        notes: c.notes.clone(),
    }
}

fn number(reading: &Reading<f64>) -> Option<f64> {
    reading.measured().copied().filter(|n| n.is_finite())
}

fn low(interval: RatioInterval) -> Option<f64> {
    Some(interval.low).filter(|low| *low > 0.0)
}

fn estimate(of: Estimate) -> EstimateOut {
    EstimateOut { ratio: of.ratio, low: low(of.interval), high: of.interval.high }
}

fn counts(of: Counts) -> CountsOut {
    CountsOut { finished: of.finished, trials: of.trials, share: of.interval(0.95) }
}

/// All that matter, the strongest first.
pub(super) fn interactions(data: &RunData, verdicts: &Verdicts) -> Vec<InteractionOut> {
    let all = interactions::of(data, verdicts);
    let one = |i: Interaction| InteractionOut {
        metric: i.metric.to_string(),
        sentence: i.sentence(),
        effects: i.effects.into_iter().map(|(at, effect)| EffectOut { at, effect: estimate(effect) }).collect(),
        factor: i.factor,
        level: i.level,
        reference: i.reference,
        on: i.on,
        at: i.at,
        from: i.between.0,
        to: i.between.1,
        change: estimate(i.change),
        blocks: i.blocks,
        of_blocks: i.of,
        unimodal: i.unimodal,
        looked_at: all.looked_at,
        looks: all.looks,
    };
    all.found.into_iter().map(one).collect()
}

/// The fits of the metrics that verdicts rest on and of limited memory, with each numeric factor.
pub(super) fn growths(data: &RunData) -> Vec<GrowthOut> {
    let mut metrics = declared(&data.experiment);
    metrics.extend(growth::memory(data).filter(|memory| !metrics.contains(memory)));
    let factors = growth::factors(&data.experiment);
    let mut out = Vec::new();
    for metric in &metrics {
        for growth in factors.iter().filter_map(|factor| growth::of(data, metric, *factor)) {
            for series in &growth.series {
                out.extend(growth::Line::of(series).map(|line| GrowthOut {
                    metric: metric.to_string(),
                    factor: growth.factor.clone(),
                    series: series.name.clone(),
                    line,
                    ran_out_at: series.ran_out.clone(),
                }));
            }
        }
    }
    out
}
