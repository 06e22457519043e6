//! Comparisons, interactions and growth as numbers, for the JSON document.

use std::collections::BTreeMap;

use prony_model::reading::Reading;
use prony_model::units::Nanos;
use prony_stats::verdict::RatioInterval;
use prony_stats::{Counts, Estimate, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

use crate::plot::data::{growth, knee};
use prony_analysis::verdicts::interactions::{self, Interaction};
use prony_analysis::verdicts::left_out::{self, LeftOut};
use prony_analysis::verdicts::{Line, Verdicts, shown_interval};
use prony_results::RunData;
use prony_stats::knee::{Knee, NoKnee, Overload};

/// A verdict with its statistics. `verdict` is its name: `better` is less of a time, memory or other cost, and more of a rate; of
/// a metric of which neither less nor more is better, it is less, and `words` say which of both it is. `more_blocks` of
/// `cant_tell` is a forecast: a run that is done does not go on, and `new_run` is the run that could decide it, where one could.
#[derive(Serialize, JsonSchema)]
pub(super) struct ComparisonOut<'a> {
    /// The metric that is compared.
    metric: String,
    /// Number of the variant.
    variant: usize,
    /// Number of its baseline.
    baseline: usize,
    #[serde(flatten)]
    verdict: &'a Verdict,
    /// The verdict in the report's words.
    words: String,
    /// The verdict as a sentence.
    sentence: String,
    /// The median of the within-block ratios variant / baseline.
    ratio: Option<f64>,
    /// The lower end of the ratio's interval, corrected for interim analyses and multiple comparisons; null where it is
    /// open.
    low: Option<f64>,
    /// The upper end.
    high: Option<f64>,
    /// The p-value, corrected for interim analyses and multiple comparisons.
    p_adjusted: Option<f64>,
    /// The minimum detectable effect: the smallest that four of five runs would find, as a share.
    smallest_effect: Option<f64>,
    /// Blocks with a result for both.
    blocks: u32,
    /// The A/A check: the ratio of the baseline's second label to its first, with its 95 % interval, uncorrected.
    aa: Option<EstimateOut>,
    /// The result without the blocks in which a trial was disturbed, with its 95 % interval, uncorrected; null where
    /// none was disturbed.
    undisturbed: Option<UndisturbedOut>,
    /// The new run that could decide it, if all its blocks came out like those of this run; null where the verdict is
    /// another, or the number of blocks is not known.
    new_run: Option<NewRunOut>,
    /// The variant's trials that finished.
    finished: CountsOut,
    /// The baseline's trials that finished.
    baseline_finished: CountsOut,
    /// The test and its correction.
    method: String,
    /// Further notes on the comparison.
    notes: Vec<String>,
}

/// A ratio with its interval; an end that is open is null, and so are both ends of an A/A check and of a result without
/// disturbed blocks that rest on fewer blocks than a verdict needs.
#[derive(Serialize, JsonSchema)]
struct EstimateOut {
    /// The ratio.
    ratio: f64,
    /// The lower end.
    low: Option<f64>,
    /// The upper end.
    high: Option<f64>,
}

/// The result without the blocks in which a trial was disturbed.
#[derive(Serialize, JsonSchema)]
struct UndisturbedOut {
    /// Blocks that are left.
    blocks: u32,
    /// Of this number of blocks.
    of: u32,
    /// The ratio; null where too few blocks are left.
    estimate: Option<EstimateOut>,
}

/// A run that could decide a comparison.
#[derive(Serialize, JsonSchema)]
struct NewRunOut {
    /// All its blocks.
    blocks: u32,
    /// How long they would take, in nanoseconds, at the time per block of this run.
    takes: Option<u64>,
    /// How much longer that is than the blocks of this run took, in nanoseconds.
    longer: Option<u64>,
}

/// Trials that finished, of how many, and the exact 95 % interval of the share.
#[derive(Serialize, JsonSchema)]
struct CountsOut {
    /// Trials that finished.
    finished: u32,
    /// Trials.
    trials: u32,
    /// The exact 95 % interval of the share that finishes.
    share: (f64, f64),
}

/// The effect of one change when the others are applied: a verdict of `[design] leave_one_out` against all changes.
#[derive(Serialize, JsonSchema)]
pub(super) struct LeftOutOut<'a> {
    /// The metric that is compared.
    metric: String,
    /// The factor whose levels are the changes.
    factor: String,
    /// The change that was left out; null where all changes were.
    change: Option<String>,
    /// Levels of the other factors that vary.
    at: BTreeMap<String, String>,
    /// The ratio of the remaining changes to all changes.
    ratio: Option<f64>,
    /// The lower end of its interval.
    low: Option<f64>,
    /// The upper end.
    high: Option<f64>,
    /// Why there is no ratio.
    missing: Option<String>,
    #[serde(flatten)]
    verdict: &'a Verdict,
    /// The effect of the change in words, as the verdict implies it.
    effect: String,
    /// Index into `comparisons`.
    comparison: usize,
}

/// An interaction: the effect of one factor depends on the level of another by more than the margin. Not a verdict.
#[derive(Serialize, JsonSchema)]
pub(super) struct InteractionOut {
    /// The metric.
    metric: String,
    /// In words.
    sentence: String,
    /// The factor whose effect depends.
    factor: String,
    /// Its level.
    level: String,
    /// The level with which `level` is compared.
    reference: String,
    /// The factor on whose level it depends.
    on: String,
    /// Levels of the other factors.
    at: String,
    /// The effect at each level of `on`, each with its 95 % interval, uncorrected.
    effects: Vec<EffectOut>,
    /// The level of `on` at which the change starts.
    from: String,
    /// The level of `on` at which the change ends.
    to: String,
    /// The effect at `to` as a multiple of the effect at `from`; its interval is corrected for all pairs examined.
    change: EstimateOut,
    /// Blocks in which all four variants have a value.
    blocks: u32,
    /// Of this number of blocks.
    of_blocks: u32,
    /// Whether the interval of the change assumes unimodal noise, which is needed with few blocks.
    unimodal: bool,
    /// Pairs of effects examined.
    #[serde(rename = "looked_at")]
    examined: usize,
    /// The most interim analyses of any comparison.
    analyses: usize,
}

/// The effect of a factor at one level of another.
#[derive(Serialize, JsonSchema)]
struct EffectOut {
    /// The level of the other factor.
    at: String,
    #[serde(flatten)]
    effect: EstimateOut,
}

/// A power law fitted to all trials. Not a verdict.
#[derive(Serialize, JsonSchema)]
pub(super) struct GrowthOut {
    /// The metric.
    metric: String,
    /// The factor with which the metric grows.
    factor: String,
    /// Levels of the other factors.
    series: String,
    /// The fit.
    line: growth::Line,
    /// Values of the factor at which a trial ran out of memory.
    ran_out_at: Vec<f64>,
}

/// One for each verdict, in their order.
pub(super) fn comparisons(verdicts: &Verdicts) -> Vec<ComparisonOut<'_>> {
    verdicts.lines.iter().map(comparison).collect()
}

/// One for each change that was left out, and for all of them.
pub(super) fn left_out<'a>(data: &'a RunData, verdicts: &'a Verdicts) -> Vec<LeftOutOut<'a>> {
    let one = |one: LeftOut<'a>| {
        let c = &one.line.comparison;
        let (low, high) = ends(c.interval.measured().copied());
        LeftOutOut {
            metric: one.line.pair.metric.to_string(),
            effect: one.effect(),
            missing: one.missing(),
            factor: one.factor.to_owned(),
            change: one.change.map(str::to_owned),
            at: one.at.into_iter().map(|(factor, level)| (factor.to_owned(), level.to_owned())).collect(),
            ratio: number(&c.ratio),
            low,
            high,
            verdict: &c.verdict,
            comparison: one.place,
        }
    };
    left_out::of(&data.experiment, verdicts).into_iter().map(one).collect()
}

fn comparison(line: &Line) -> ComparisonOut<'_> {
    let c = &line.comparison;
    let (low, high) = ends(c.interval.measured().copied());
    ComparisonOut {
        metric: line.pair.metric.to_string(),
        variant: line.pair.variant,
        baseline: line.pair.baseline,
        verdict: &c.verdict,
        words: line.words.clone(),
        sentence: line.sentence.clone(),
        ratio: number(&c.ratio),
        low,
        high,
        p_adjusted: number(&c.p_adjusted),
        smallest_effect: number(&c.smallest_effect),
        blocks: c.blocks,
        aa: c.aa.measured().map(|found| checked(found, c.complete)),
        undisturbed: line.undisturbed.as_ref().map(|left| UndisturbedOut {
            blocks: left.blocks,
            of: left.of,
            estimate: left.estimate.measured().map(|found| checked(found, left.blocks)),
        }),
        new_run: line.new_run.map(|run| NewRunOut {
            blocks: run.blocks,
            takes: run.takes.map(Nanos::as_nanos),
            longer: run.longer.map(Nanos::as_nanos),
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

/// The lower and the upper end of an interval, without those that are open.
fn ends(interval: Option<RatioInterval>) -> (Option<f64>, Option<f64>) {
    (interval.map(|interval| interval.low).filter(|low| *low > 0.0), interval.and_then(|interval| interval.high))
}

fn estimate(ratio: f64, interval: Option<RatioInterval>) -> EstimateOut {
    let (low, high) = ends(interval);
    EstimateOut { ratio, low, high }
}

/// An estimate that rests on so many blocks, with its interval where that is shown.
fn checked(of: &Estimate, blocks: u32) -> EstimateOut {
    estimate(of.ratio, shown_interval(of, blocks))
}

fn counts(of: Counts) -> CountsOut {
    CountsOut { finished: of.finished, trials: of.trials, share: of.interval(0.95) }
}

/// All that matter, the strongest first.
pub(super) fn interactions(data: &RunData, verdicts: &Verdicts) -> Vec<InteractionOut> {
    let all = interactions::of(data, verdicts);
    let estimate = |of: Estimate| estimate(of.ratio, Some(of.interval));
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
        examined: all.examined,
        analyses: all.analyses,
    };
    all.found.into_iter().map(one).collect()
}

/// Goodput against connections or a rate. Not a verdict.
#[derive(Serialize, JsonSchema)]
pub(super) struct LoadOut {
    /// The metric: goodput of a phase.
    metric: String,
    /// The factor that sets connections or a rate.
    factor: String,
    /// Levels of the other factors.
    series: String,
    /// The knee; null where there is none.
    knee: Option<Knee>,
    /// Why there is no knee.
    no_knee: Option<NoKnee>,
    /// What rises where goodput falls: the metric of a service.
    work: Option<String>,
    /// Where goodput falls while work for each success rises; null where it does not.
    overload: Option<Overload>,
}

/// Goodput of each phase of requests against each factor that sets its connections or its rate.
pub(super) fn loads(data: &RunData) -> Vec<LoadOut> {
    let one = |load: knee::Load| LoadOut {
        metric: load.metric.to_string(),
        factor: load.factor,
        series: load.name,
        knee: load.knee.ok(),
        no_knee: load.knee.err(),
        work: load.overload.as_ref().map(|(metric, _)| metric.to_string()),
        overload: load.overload.map(|(_, overload)| overload),
    };
    knee::of(data).into_iter().map(one).collect()
}

/// The fits of the metrics that verdicts rest on and of limited memory, with each numeric factor.
pub(super) fn growths(data: &RunData) -> Vec<GrowthOut> {
    let mut out = Vec::new();
    for (metric, growth) in growth::of_run(data) {
        for series in growth.series {
            out.extend(growth::Line::of(&series).map(|line| GrowthOut {
                metric: metric.to_string(),
                factor: growth.factor.clone(),
                series: series.name,
                line,
                ran_out_at: series.ran_out,
            }));
        }
    }
    out
}
