//! The chart of effects: every trial as a dot, with the interval of each variant, ordered by effect.

use std::collections::{BTreeMap, BTreeSet};

use prony_model::metric::{Better, Metric, MetricName};
use prony_model::number;
use prony_model::reading::{Reading, Why};
use prony_model::record::TrialRecord;
use prony_model::trial::Label;
use prony_stats::{Comparison, RatioInterval, median_interval, summary};

use super::{Source, metric_control, not_above_zero, unfinished, without_value};
use crate::plot::chart::{
    Axis, Chart, Choice, Columns, Control, Does, Kind, Lane, Mark, Of, Over, Row as TableRow, Said, Scale, Section,
    Table,
};
use crate::plot::format::Format;
use prony_analysis::verdicts::{self, Beside, Comparisons, Pair, Verdicts, shown_interval};

/// If values differ by more than this factor, the axis is logarithmic.
const FAR: f64 = 30.0;
/// Height of a lane in pixels, and where in it dots, what did not finish, and intervals stand.
const LANE: f64 = 54.0;
const DOTS: f64 = 0.48;
const INTERVALS: f64 = 0.8;

/// The intervals of one metric, one row a variant.
struct Effects {
    /// Whether rows are ratios to a baseline; otherwise they are in the metric's unit.
    relative: bool,
    /// Whether verdicts rest on it.
    declared: bool,
    /// The rows in the experiment's order, after those of the A/A checks.
    rows: Vec<Row>,
}

/// One variant's interval.
#[derive(Default)]
struct Row {
    variant: usize,
    /// Index of its baseline, where rows are ratios.
    baseline: Option<usize>,
    /// Whether the comparison is refused: its trials are not divided by those of the baseline.
    refused: bool,
    /// Whether it is an A/A check: the baseline's second label divided by its first.
    itself: bool,
    /// The estimate: the median of within-block ratios, or the median.
    center: Option<f64>,
    /// Whether there is an interval.
    has_interval: bool,
    /// Lower end of the interval; `None` where it is open or unknown.
    low: Option<f64>,
    /// Upper end.
    high: Option<f64>,
    /// The verdict in a few words, where there is one.
    words: Option<String>,
    /// The A/A check, the baseline's second label divided by its first, with its interval where that is shown.
    aa: Option<(f64, Option<RatioInterval>)>,
}

/// The data from which effects are taken.
#[derive(Clone, Copy)]
pub struct Judged<'a> {
    /// The run.
    pub source: Source<'a>,
    /// What verdicts say.
    pub verdicts: &'a Verdicts,
    /// Ratios without a verdict.
    pub comparisons: &'a Comparisons<'a>,
}

/// A chart of each of these metrics that some trial has and that is not 0 in all of them.
pub fn section(of: Judged<'_>, columns: &mut Columns, metrics: &[MetricName]) -> Section {
    let charts = metrics.iter().filter_map(|metric| Some((metric, chart(of, columns, metric)?)));
    let (names, charts): (Vec<&MetricName>, Vec<Chart>) = charts.unzip();
    let orders = ["by effect", "as in the experiment"].map(Choice::new).to_vec();
    let mut section = Section::default();
    section.select(metric_control(of.source, &names), charts);
    section.control(Control { label: "Order", does: Does::Order, options: orders, chosen: 0 });
    section
}

/// The chart of a metric's trials and intervals; `None` where no trial has the metric, or its value is 0 in all of them.
fn chart(of: Judged<'_>, columns: &mut Columns, metric: &MetricName) -> Option<Chart> {
    let source = of.source;
    let readings = of.comparisons.figures(metric);
    let figures: Vec<Option<f64>> = readings.iter().map(|reading| reading.measured().copied()).collect();
    // A chart in which everything lies at zero says less than the word.
    if figures.iter().all(|value| value.is_none_or(|value| value == 0.0)) {
        return None;
    }
    let effects = effects(of, metric, &readings)?;
    let Effects { relative, rows, .. } = &effects;
    let unit = Format::from(metric.key.metric.unit());
    let format = if *relative { Format::Times } else { unit };
    let lanes = lanes(source, rows);
    let dots = dots(source, columns, &effects, (&figures, unit), &lanes);
    let values = columns.across(&dots);
    let is_drawn = |x: f64| x.is_finite() && (x > 0.0 || !relative);
    let counted =
        |row: usize| lanes.iter().zip(&values).filter(|(lane, x)| **lane == Some(row) && is_drawn(**x)).count();
    let unfinished: Vec<String> =
        rows.iter().map(|row| unfinished(source, &readings, source.trials_of(row.variant))).collect();
    let counts: Vec<usize> = (0..rows.len()).map(counted).collect();
    let mut marks = if *relative { references(columns, of.verdicts.margin) } else { Vec::new() };
    marks.push(dots);
    marks.extend(intervals(columns, rows, &unfinished));
    // A logarithmic axis has no place for 0.
    let is_log = *relative || far(&values) && !values.iter().any(|value| *value <= 0.0);
    let scale = if is_log { Scale::Log } else { Scale::Amount };
    let mut caption = vec![Said::always(caption(source, &effects, metric))];
    caption.extend(without_value(source, &readings));
    if *relative {
        caption.extend(zeros(source, &figures));
        caption.extend(without_baseline(source, &figures, rows, &lanes));
    }
    let label = if *relative { "times the baseline" } else { "" }.to_owned();
    Some(Chart {
        title: if *relative { format!("{metric} relative to the baseline") } else { metric.to_string() },
        phase: metric.phase.clone(),
        caption,
        x: Axis { label, format, scale, ..Axis::default() },
        y: Axis { scale: Scale::Lanes { lanes: headings(rows) }, ..Axis::default() },
        height: LANE,
        marks,
        table: table(source, &effects, format, &counts, &unfinished),
        ..Chart::default()
    })
}

/// Rows of ratios where any variant has a baseline, else of medians; `None` where no trial has the metric.
fn effects(of: Judged<'_>, metric: &MetricName, figures: &[Reading<f64>]) -> Option<Effects> {
    let declared: Vec<&verdicts::Line> = of.verdicts.lines.iter().filter(|l| l.pair.metric == *metric).collect();
    let rows: Vec<Row> = if declared.is_empty() {
        of.comparisons.beside(metric).into_iter().map(beside).collect()
    } else {
        declared.iter().map(|line| judged(line)).collect()
    };
    if rows.iter().any(|row| row.center.is_some()) || !declared.is_empty() {
        let itself = of.comparisons.itself(metric).into_iter().map(itself);
        let rows = itself.chain(rows).collect();
        return Some(Effects { relative: true, declared: !declared.is_empty(), rows });
    }
    let rows: Vec<Row> = of.source.variants().into_iter().map(|v| median(of.source, figures, v)).collect();
    let is_any = figures.iter().any(|figure| figure.measured().is_some());
    is_any.then_some(Effects { relative: false, declared: false, rows })
}

fn judged(line: &verdicts::Line) -> Row {
    let Comparison { ratio, interval, aa, complete, .. } = &line.comparison;
    Row {
        words: Some(line.words.clone()),
        aa: aa.measured().map(|found| (found.ratio, shown_interval(found, *complete))),
        ..compared(&line.pair, ratio, interval)
    }
}

fn beside(beside: Beside) -> Row {
    let row = compared(&beside.pair, &beside.ratio, &beside.interval);
    Row { center: row.center.filter(|ratio| ratio.is_finite()), ..row }
}

fn compared(pair: &Pair, ratio: &Reading<f64>, interval: &Reading<RatioInterval>) -> Row {
    let interval = interval.measured();
    Row {
        variant: pair.variant,
        baseline: Some(pair.baseline),
        center: ratio.measured().copied(),
        has_interval: interval.is_some(),
        low: interval.map(|i| i.low).filter(|low| *low > 0.0),
        high: interval.and_then(|i| i.high),
        // The reason of a missing ratio says whether the two are compared at all.
        refused: matches!(ratio, Reading::Missing(Why::DoesNotCount(_))),
        ..Row::default()
    }
}

fn itself(of: Beside) -> Row {
    Row { itself: true, words: Some("A/A check".to_owned()), ..beside(of) }
}

fn median(source: Source<'_>, figures: &[Reading<f64>], variant: usize) -> Row {
    let values: Vec<f64> = source.trials_of(variant).filter_map(|at| figures[at].ordered()).collect();
    let interval = median_interval(&values, 0.95);
    // An end among infinite values is open, and a median among them has no place on an axis.
    let finite = |value: f64| Some(value).filter(|value| value.is_finite());
    Row {
        variant,
        center: summary::median(&values).and_then(finite),
        has_interval: interval.measured().is_some(),
        low: interval.measured().and_then(|i| finite(i.0)),
        high: interval.measured().and_then(|i| finite(i.1)),
        ..Row::default()
    }
}

/// The row in which each trial is a dot: that of its variant, or that of the A/A check for the baseline's second label.
fn lanes(source: Source<'_>, rows: &[Row]) -> Vec<Option<usize>> {
    let places: BTreeMap<(usize, bool), usize> =
        rows.iter().enumerate().map(|(at, row)| ((row.variant, row.itself), at)).collect();
    let lane = |trial: &TrialRecord| {
        let second = trial.trial.label == Label::A2;
        let itself = places.get(&(trial.trial.variant, true)).filter(|_| second);
        itself.or_else(|| places.get(&(trial.trial.variant, false))).copied()
    };
    source.data.trials.iter().map(lane).collect()
}

/// A dot for every trial: its value, divided by that of its baseline where rows are ratios.
fn dots(
    source: Source<'_>,
    columns: &mut Columns,
    effects: &Effects,
    (figures, unit): (&[Option<f64>], Format),
    lanes: &[Option<usize>],
) -> Mark {
    let over = effects.relative.then(|| over(source, columns, figures, &effects.rows, lanes));
    // Five heights in turn by block, so that equal trials do not hide each other.
    let turn = |at: usize| 0.065 * (f64::from(source.data.trials[at].trial.block % 5) - 2.0);
    let place = |(at, lane): (usize, &Option<usize>)| lane.map_or(f64::NAN, |lane| lane as f64 + DOTS + turn(at));
    let x = columns.add(figures.iter().map(|value| value.unwrap_or(f64::NAN)));
    Mark {
        kind: Kind::Dots,
        of: Of::Trials,
        x,
        over,
        y: columns.add(lanes.iter().enumerate().map(place)),
        z: over.and(x),
        z_format: over.map(|_| unit),
        tip: if effects.relative { "{x} the baseline ({z})" } else { "{x}" }.to_owned(),
        ..Mark::default()
    }
}

/// The divisors of values: the geometric mean of the baseline's values in the same sub-block, over both labels; for an
/// A/A check the value of the first label. A refused comparison has none.
fn over(
    source: Source<'_>,
    columns: &mut Columns,
    figures: &[Option<f64>],
    rows: &[Row],
    lanes: &[Option<usize>],
) -> Over {
    let trials = &source.data.trials;
    let sub_block = |at: usize| (trials[at].trial.block, trials[at].trial.sub_block);
    let key = |at: usize| {
        let row = lanes[at].map(|row| &rows[row]).filter(|row| !row.refused)?;
        Some((row.baseline?, row.itself, sub_block(at)))
    };
    let keys: BTreeSet<_> = (0..trials.len()).filter_map(key).collect();
    let places: BTreeMap<_, usize> = keys.into_iter().zip(0..).collect();
    let mut logs = vec![Vec::new(); places.len()];
    for (at, trial) in trials.iter().enumerate() {
        let Some(log) = figures[at].map(f64::ln) else { continue };
        for itself in [false, true] {
            let place = places.get(&(trial.trial.variant, itself, sub_block(at)));
            if let Some(place) = place.filter(|_| !(itself && trial.trial.label == Label::A2)) {
                logs[*place].push(log);
            }
        }
    }
    let mean = |logs: &Vec<f64>| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    let group = |at: usize| key(at).and_then(|key| places.get(&key)).map_or(f64::NAN, |place| *place as f64);
    Over { groups: columns.add((0..trials.len()).map(group)), numbers: columns.add(logs.iter().map(mean)) }
}

/// The margin, and the baseline itself.
fn references(columns: &mut Columns, margin: f64) -> Vec<Mark> {
    let (low, high) = (columns.add([1.0 / (1.0 + margin)]), columns.add([1.0 + margin]));
    let band = Mark { kind: Kind::Bands, x: low, x2: high, ..Mark::default() };
    vec![band, Mark { kind: Kind::Rules, x: columns.add([1.0]), ..Mark::default() }]
}

fn intervals(columns: &mut Columns, rows: &[Row], unfinished: &[String]) -> [Mark; 2] {
    let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
    let ended = || (0..rows.len()).filter(|at| !unfinished[*at].is_empty());
    [
        Mark {
            kind: Kind::Intervals,
            of: Of::Each(rows.iter().map(|row| row.variant).collect()),
            x: columns.add(rows.iter().map(|row| known(row.low))),
            x2: columns.add(rows.iter().map(|row| known(row.high))),
            z: columns.add(rows.iter().map(|row| known(row.center))),
            y: columns.add((0..rows.len()).map(|at| at as f64 + INTERVALS)),
            ..Mark::default()
        },
        Mark {
            kind: Kind::Ends,
            of: Of::Each(ended().map(|at| rows[at].variant).collect()),
            y: columns.add(ended().map(|at| at as f64 + DOTS)),
            text: ended().map(|at| unfinished[at].clone()).collect(),
            ..Mark::default()
        },
    ]
}

/// Sentences on values that have no place on an axis of ratios. No value is divided by one of 0: such a baseline is named
/// too, since the trials beside it are not drawn either.
fn zeros(source: Source<'_>, figures: &[Option<f64>]) -> Vec<Said> {
    let zeros = |v: usize| source.trials_of(v).filter(|at| figures[*at].is_some_and(|value| value <= 0.0)).count();
    let experiment = &source.data.experiment;
    let said = |v: usize| {
        let beside = if experiment.variants()[v].baseline { ", nor the trials that are divided by them" } else { "" };
        not_above_zero(source, v, (zeros(v), beside))
    };
    source.variants().into_iter().filter_map(said).collect()
}

/// Sentences on trials that have a value, and no baseline's value in their sub-block to be divided by. The second label of
/// an A/A check is not counted: its row is of pairs.
fn without_baseline(source: Source<'_>, figures: &[Option<f64>], rows: &[Row], lanes: &[Option<usize>]) -> Vec<Said> {
    let trials = &source.data.trials;
    let place = |variant: usize, at: usize| (variant, trials[at].trial.block, trials[at].trial.sub_block);
    let known: BTreeSet<_> =
        (0..trials.len()).filter(|at| figures[*at].is_some()).map(|at| place(trials[at].trial.variant, at)).collect();
    let is_without = |at: &usize| {
        let row = lanes[*at].map(|row| &rows[row]).filter(|row| !row.refused && !row.itself);
        // Values that are not above 0 have a sentence of their own.
        let baseline = row.and_then(|row| row.baseline).filter(|_| figures[*at].is_some_and(|value| value > 0.0));
        baseline.is_some_and(|baseline| !known.contains(&place(baseline, *at)))
    };
    source.said(|v| {
        let without = source.trials_of(v).filter(is_without).count();
        let (trials, name) = (number::count(without, "trial"), source.name(v));
        let blocks = if without == 1 { "sub-block" } else { "sub-blocks" };
        (without > 0).then(|| format!("Not drawn: {trials} of {name}, in whose {blocks} no baseline has a value."))
    })
}

fn far(values: &[f64]) -> bool {
    let above = || values.iter().copied().filter(|v| *v > 0.0);
    above().fold(0.0, f64::max) > FAR * above().fold(f64::INFINITY, f64::min)
}

fn headings(rows: &[Row]) -> Vec<Lane> {
    let rank = |row: &Row| row.center.map(|center| center as f32);
    let words = |row: &Row| row.words.clone().unwrap_or_default();
    // What equal variants look like stands below the effects.
    let lane = |row: &Row| Lane { words: words(row), variant: row.variant, rank: rank(row), last: row.itself };
    rows.iter().map(lane).collect()
}

/// What is said of the time of programs: its definition is also that of stores and of loads.
const TIME_OF_PROGRAMS: &str = "Time from the begin of the phase to its end: of a whole program from its start to its end, of a function \
                                the time in which at least one call runs, or what the program reports itself";

fn caption(source: Source<'_>, effects: &Effects, metric: &MetricName) -> String {
    let mut variants = source.data.experiment.variants().iter();
    let are_programs = variants.all(|variant| variant.spec.subject.program().is_some());
    let doc = metric.key.metric.doc();
    let of = match metric.key.metric {
        Metric::Time if are_programs => TIME_OF_PROGRAMS,
        _ => doc.split_once("; of a program").map_or(doc, |(of_operations, _)| of_operations),
    };
    let (dot, bar) = match (effects.relative, effects.declared) {
        (true, true) => (RATIO, "the bar is the interval that the verdict rests on"),
        (true, false) => {
            (RATIO, "the bar is the 95 % interval of the median ratio, uncorrected: no verdict rests on it")
        }
        (false, _) => ("Each dot is a trial", "the bar is the 95 % interval of the median (six trials or more)"),
    };
    let better = match metric.key.metric.better() {
        Better::Neither => "",
        Better::Lower => " Less is better.",
        Better::Higher => " More is better.",
    };
    let itself = if effects.rows.iter().any(|row| row.itself) { ITSELF } else { "" };
    format!("{of}. {dot}; {bar}.{better}{itself}")
}

const RATIO: &str =
    "Each dot is a trial's value divided by that of its sub-block's baseline (the geometric mean of both labels)";
const ITSELF: &str = " The A/A check shows what equal variants look like: the baseline's second trial of each sub-block \
                      divided by its first; its bar is a 95 % interval, uncorrected.";

fn table(source: Source<'_>, effects: &Effects, format: Format, counts: &[usize], unfinished: &[String]) -> Table {
    let figure = if effects.relative { "Ratio" } else { "Median" };
    let heads = ["Variant", "Baseline", figure, "Interval", "Trials drawn", "Did not finish", "Verdict", "A/A check"];
    // Without verdicts the last two say nothing.
    let columns = if effects.declared { heads.len() } else { heads.len() - 2 };
    let row = |(at, row): (usize, &Row)| {
        let ends = |i: RatioInterval| format.interval(Some(i.low).filter(|low| *low > 0.0), i.high);
        let interval = |i: Option<RatioInterval>| i.map(|i| format!(" ({}, 95 %)", ends(i))).unwrap_or_default();
        let aa = row.aa.map(|(ratio, i)| format.text(ratio) + &interval(i));
        let baseline = row.baseline.map(|base| if row.itself { "itself".to_owned() } else { source.name(base) });
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let cells = [
            or_none(baseline),
            or_none(row.center.map(|center| format.text(center))),
            or_none(row.has_interval.then(|| format.interval(row.low, row.high))),
            counts[at].to_string(),
            if unfinished[at].is_empty() { "0".to_owned() } else { unfinished[at].clone() },
            or_none(row.words.clone()),
            or_none(aa),
        ];
        TableRow::of(row.variant, cells.into_iter().take(columns - 1))
    };
    Table::new(heads[..columns].to_vec(), effects.rows.iter().enumerate().map(row))
}
