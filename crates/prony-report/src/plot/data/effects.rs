//! Every trial as a dot with the interval beside it, ordered by effect.

use std::collections::BTreeMap;

use prony_model::metric::MetricName;
use prony_model::trial::Label;
use prony_stats::{Comparison, median_interval, summary};
use serde::Serialize;

use super::Source;
use prony_analysis::verdicts::{self, Beside, Comparisons, Verdicts, figure, names};

/// The intervals of one metric, one row a variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effects {
    /// Whether rows are ratios to a baseline; otherwise they are in the metric's unit.
    pub relative: bool,
    /// Whether verdicts rest on it.
    pub declared: bool,
    /// In the experiment's order, after the baselines beside themselves.
    pub rows: Vec<Row>,
}

/// One variant's interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Index of the variant.
    pub variant: usize,
    /// Index of its baseline, where rows are ratios.
    pub baseline: Option<usize>,
    /// Whether it is a baseline beside itself (A/A): its second label divided by its first.
    pub itself: bool,
    /// The estimate: the median of within-block ratios, or the median.
    pub center: Option<f64>,
    /// Lower end of the interval; `None` where it is open or unknown.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The verdict in a few words, where there is one.
    pub words: Option<String>,
    /// The baseline's second label beside its first: ratio, low, high.
    pub aa: Option<[Option<f64>; 3]>,
}

/// Rows of ratios where any variant has a baseline, else of medians; nothing where no trial has the figure.
pub fn effects(
    source: Source<'_>,
    verdicts: &Verdicts,
    comparisons: &Comparisons<'_>,
    metric: &MetricName,
) -> Option<Effects> {
    let declared: Vec<&verdicts::Line> = verdicts.lines.iter().filter(|l| l.pair.metric == *metric).collect();
    let rows: Vec<Row> = if declared.is_empty() {
        comparisons.beside(metric).into_iter().map(beside).collect()
    } else {
        declared.iter().map(|line| judged(line.pair.variant, line.pair.baseline, metric, line, verdicts)).collect()
    };
    if rows.iter().any(|row| row.center.is_some()) || !declared.is_empty() {
        let itself = comparisons.itself(metric).into_iter().map(itself);
        let rows = itself.chain(rows).collect();
        return Some(Effects { relative: true, declared: !declared.is_empty(), rows });
    }
    let rows: Vec<Row> = source.variants().into_iter().map(|v| median(source, metric, v)).collect();
    rows.iter().any(|row| row.center.is_some()).then_some(Effects { relative: false, declared: false, rows })
}

fn judged(variant: usize, baseline: usize, metric: &MetricName, line: &verdicts::Line, all: &Verdicts) -> Row {
    let Comparison { ratio, interval, verdict, aa, .. } = &line.comparison;
    let interval = interval.measured();
    Row {
        variant,
        baseline: Some(baseline),
        center: ratio.measured().copied(),
        low: interval.map(|i| i.low).filter(|low| *low > 0.0),
        high: interval.and_then(|i| i.high),
        words: Some(verdict.words(metric.key.metric, all.margin)),
        itself: false,
        aa: aa.measured().map(|e| [Some(e.ratio), Some(e.interval.low).filter(|l| *l > 0.0), e.interval.high]),
    }
}

fn beside(beside: Beside) -> Row {
    let interval = beside.interval.measured();
    Row {
        variant: beside.pair.variant,
        baseline: Some(beside.pair.baseline),
        center: beside.ratio.measured().copied().filter(|r| r.is_finite()),
        low: interval.map(|i| i.low).filter(|low| *low > 0.0),
        high: interval.and_then(|i| i.high),
        ..Row::default()
    }
}

fn itself(of: Beside) -> Row {
    Row { itself: true, words: Some("the baseline beside itself (A/A)".to_owned()), ..beside(of) }
}

fn median(source: Source<'_>, metric: &MetricName, variant: usize) -> Row {
    let values: Vec<f64> = values(source, metric, variant);
    let interval = median_interval(&values, 0.95);
    Row {
        variant,
        center: summary(&values).map(|s| s.median),
        low: interval.measured().map(|i| i.0),
        high: interval.measured().map(|i| i.1),
        ..Row::default()
    }
}

/// The figures of a variant's trials that have one.
pub fn values(source: Source<'_>, metric: &MetricName, variant: usize) -> Vec<f64> {
    source.trials_of(variant).filter_map(|at| figure(&source.data.trials[at], metric)).collect()
}

/// A trial's figure beside those of its sub-block's baseline: divided by their geometric mean.
pub fn ratios(source: Source<'_>, metric: &MetricName, variant: usize, baseline: usize) -> Vec<f64> {
    if variant == baseline {
        return against_itself(source, metric, baseline);
    }
    let trials = &source.data.trials;
    let place = |at: usize| (trials[at].trial.block, trials[at].trial.sub_block);
    let in_block = |block: (u32, u32)| {
        let of_block = source.trials_of(baseline).filter(|at| place(*at) == block);
        let logs: Vec<f64> = of_block.filter_map(|at| figure(&trials[at], metric)).map(f64::ln).collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    };
    let ratio = |at: usize| Some(figure(&trials[at], metric)? / in_block(place(at))?);
    source.trials_of(variant).filter_map(ratio).filter(|r| r.is_finite() && *r > 0.0).collect()
}

/// The figure of a baseline's second label divided by that of its first, in each sub-block.
fn against_itself(source: Source<'_>, metric: &MetricName, baseline: usize) -> Vec<f64> {
    let trials = &source.data.trials;
    let place = |at: usize| (trials[at].trial.block, trials[at].trial.sub_block);
    let first: BTreeMap<(u32, u32), f64> = source
        .trials_of(baseline)
        .filter(|at| trials[*at].trial.label == Label::A)
        .filter_map(|at| Some((place(at), figure(&trials[at], metric)?)))
        .collect();
    let seconds = source.trials_of(baseline).filter(|at| trials[*at].trial.label == Label::A2);
    let ratio = |at: usize| Some(figure(&trials[at], metric)? / first.get(&place(at))?);
    seconds.filter_map(ratio).filter(|r| r.is_finite() && *r > 0.0).collect()
}

/// Trials of a variant that ended before they had the figure.
pub fn unfinished(source: Source<'_>, metric: &MetricName, variant: usize) -> usize {
    let missing = |at: &usize| {
        let trial = &source.data.trials[*at];
        !trial.ending.outcome.is_ok() && figure(trial, metric).is_none()
    };
    source.trials_of(variant).filter(missing).count()
}

/// How a row is called.
pub fn name(source: Source<'_>, variant: usize) -> String {
    names::variant(&source.data.experiment, variant)
}
