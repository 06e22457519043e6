//! Tables of the share of each variant's time above its floor: one for each metric with verdicts that is time or CPU
//! time, and why other metrics have none.

use prony_experiment::design::{Expr, Statistic};
use prony_model::metric::MetricName;
use prony_model::number::{self, percents};
use prony_model::reading::{Reading, Why};
use prony_model::record::TrialRecord;
use prony_model::units::Unit;

use super::cell_value::Summary;
use super::cells::{Source, medians};
use super::model::{Align, Cell, Column, Figure, Row, Table};
use super::notes::Notes;
use super::variants::{factor_names, labels, trials_of};
use super::words::{ended, place_of};
use prony_analysis::verdicts::floor::{self, Above, NoShare, Share, ShareInterval};
use prony_analysis::verdicts::names::varying;
use prony_analysis::verdicts::{Pair, declared};
use prony_results::RunData;

/// The note on how reliable a share above a floor is.
pub(super) const NOT_JUDGED: &str = "shares above the floor are not verdicts: they are not tested and not part of the \
    correction for multiple comparisons; each interval is at 95 %, uncorrected";

/// A variant above its floor with the trials of both.
pub(super) struct Line<'a> {
    /// What is known of the two.
    pub(super) above: Above,
    own: Vec<&'a TrialRecord>,
    floor: Vec<&'a TrialRecord>,
}

impl<'a> Line<'a> {
    /// Medians of the variant and of the floor, in the metric's unit; `None` where one is not finite.
    pub(super) fn figures(&self) -> [Option<f64>; 2] {
        let median = |trials: &[&'a TrialRecord]| self.summary(trials).value(Statistic::Median);
        [&self.own, &self.floor].map(|trials| median(trials).filter(|median| median.is_finite()))
    }

    /// Why there is no share; `None` where there is one.
    pub(super) fn missing(&self) -> Option<String> {
        Some(match self.above.share.as_ref().err()? {
            NoShare::Refused(why) => format!("not compared with the floor: {why}"),
            NoShare::NotPaired => "no block has a trial of the variant and one of the floor".to_owned(),
            NoShare::Nothing => self.nothing(),
        })
    }

    fn nothing(&self) -> String {
        let (own, floor) = (self.summary(&self.own), self.summary(&self.floor));
        let names = &self.above.pair.names;
        let summaries = || [(&names.variant, &own), (&names.baseline, &floor)];
        let unfinished = summaries().into_iter().filter(|(_, summary)| !summary.ended.is_empty());
        let failed_of = |(name, summary): (&String, &Summary<'_>)| format!("`{name}`: {}", ended(&summary.ended));
        let unfinished: Vec<String> = unfinished.map(failed_of).collect();
        let unmeasured = summaries().into_iter().find_map(|(name, summary)| {
            let why = summary.infinite.first().or(summary.missing.first())?;
            Some((name, why))
        });
        match (unfinished.as_slice(), unmeasured) {
            ([], Some((name, why))) => format!("`{name}` has no value: {why}"),
            ([], None) => "a value of 0 has no share".to_owned(),
            (unfinished, _) => format!("at least half of the trials did not finish: {}", unfinished.join("; ")),
        }
    }

    /// The variant and its floor give different durability guarantees: a difference in time may be the price of safety
    /// (METHOD 5.2).
    fn promises_differ(&self) -> Option<String> {
        let class = |trials: &[&'a TrialRecord]| trials.iter().find_map(|t| Some(t.store()?.durability.name()));
        let (own, floor) = (class(&self.own)?, class(&self.floor)?);
        (own != floor)
            .then(|| format!("the variant is {own} and the floor {floor}: their durability guarantees differ"))
    }

    fn summary(&self, trials: &[&'a TrialRecord]) -> Summary<'a> {
        Summary::of(&Expr::Metric(self.above.pair.metric.clone()), trials)
    }
}

/// Every variant above its floor in one metric.
pub(super) fn lines<'a>(data: &'a RunData, metric: &MetricName) -> Vec<Line<'a>> {
    if floor::not_spent(metric.key.metric).is_some() {
        return Vec::new();
    }
    let trials = |variant: usize| trials_of(data, variant).collect();
    let line = |above: Above| Line { own: trials(above.pair.variant), floor: trials(above.pair.baseline), above };
    floor::of(data, metric).into_iter().map(line).collect()
}

/// One table for each judged metric that is time or CPU time; none where the file names no floor.
pub(super) fn tables(data: &RunData) -> Vec<Table> {
    let of_metric = |metric: MetricName| {
        let lines = lines(data, &metric);
        (!lines.is_empty()).then(|| table(data, &metric, &lines))
    };
    declared(&data.experiment).into_iter().filter_map(of_metric).collect()
}

/// Why judged metrics have no table, a line each; empty where each has one or the file names no floor.
pub(super) fn without(data: &RunData) -> Vec<String> {
    let experiment = &data.experiment;
    let mut lines: Vec<String> = Vec::new();
    if experiment.compare().floor.is_empty() || experiment.explores() {
        return lines;
    }
    for metric in declared(experiment) {
        let why = match floor::not_spent(metric.key.metric) {
            Some(why) => format!("`{metric}` is not compared with the floor: {why}"),
            None if !self::lines(data, &metric).is_empty() => continue,
            None if floor::lacks(experiment, &metric) => lacking(&metric),
            None => format!("the floor, `{}`, is not among the variants that run", floor::name(experiment)),
        };
        place_of(&mut lines, why);
    }
    lines
}

/// What holds for a whole table of the metric.
pub(super) fn notes(data: &RunData, metric: &MetricName) -> Vec<String> {
    let mut notes = vec![NOT_JUDGED.to_owned()];
    notes.extend(floor::nowhere(&data.experiment));
    if floor::lacks(&data.experiment, metric) {
        notes.push(lacking(metric));
    }
    notes
}

fn lacking(metric: &MetricName) -> String {
    format!("some variants have the phase `{}`, but their floor does not", metric.phase)
}

fn table(data: &RunData, metric: &MetricName, lines: &[Line<'_>]) -> Table {
    let mut notes = Notes::default();
    let pairs = || lines.iter().map(|line| &line.above.pair);
    let own = pairs().map(|pair| Source::of_variant(data, pair.variant)).collect();
    let floors = pairs().map(|pair| Source::of_variant(data, pair.baseline)).collect();
    let [(own, unit), (floors, _)] = medians(metric.clone(), [own, floors], &mut notes);
    let shares: Vec<Cell> = lines.iter().map(|line| share_cell(line, &mut notes)).collect();
    self::notes(data, metric).into_iter().for_each(|note| notes.general(note));
    let cells = own.into_iter().zip(floors).zip(shares).map(|((own, floor), share)| vec![own, floor, share]);
    let experiment = &data.experiment;
    let factors = varying(experiment);
    let row = |(pair, cells): (&Pair, Vec<Cell>)| Row { labels: labels(experiment, pair.variant, &factors), cells };
    Table {
        title: Some(format!("Above the floor: {metric}")),
        caption: format!(
            "Medians of the trials, with the smallest and the largest value in square brackets. The floor of a variant \
             is `{}` at the same levels of all other factors. The share above the floor is 1 - floor / variant within \
             a block; shown is its median over the blocks, with its interval in parentheses.",
            floor::name(experiment)
        ),
        labels: factor_names(experiment, &factors),
        columns: [("the variant", unit), ("the floor", unit), ("above the floor", "%")]
            .map(|(heading, unit)| Column::new(heading, unit, Align::Right))
            .into(),
        rows: pairs().zip(cells).map(row).collect(),
        notes: notes.finish(),
    }
}

fn share_cell(line: &Line<'_>, notes: &mut Notes) -> Cell {
    let Above { share, blocks, unfinished, .. } = &line.above;
    let missing = line.missing();
    let mut marks: Vec<usize> = missing.iter().map(|why| notes.mark(why)).collect();
    let Ok(share) = share else {
        let figure = Figure { unit: Some(Unit::Ratio), missing, ..Figure::default() };
        return Cell { figures: vec![figure], ..Cell::none(marks) };
    };
    if share.is_below() {
        marks.push(notes.mark("the variant takes less than its floor, so that the floor is not a lower bound here"));
    }
    marks.extend(line.promises_differ().map(|text| notes.mark(text)));
    if *unfinished {
        marks.push(notes.mark("a trial that did not finish counts as longer than any trial that did"));
    }
    let interval = share.interval.measured().copied();
    if interval.is_none() {
        marks.push(notes.mark(no_interval(share, *blocks)));
    }
    Cell {
        spread: interval.map(|interval| format!("({})", interval_text(interval))).unwrap_or_default(),
        marks,
        figures: vec![Figure {
            value: Some(share.middle),
            low: interval.and_then(|interval| interval.low),
            high: interval.and_then(|interval| interval.high),
            unit: Some(Unit::Ratio),
            trials: *blocks as usize,
            ..Figure::default()
        }],
        ..Cell::of(percents(share.middle, 1))
    }
}

/// Why a share has no interval.
fn no_interval(share: &Share, blocks: u32) -> String {
    match &share.interval {
        Reading::Missing(Why::TooFew { need, .. }) => {
            format!("only {blocks} of the {need} blocks that an interval needs")
        }
        _ => "too few blocks for an interval with a finite end".to_owned(),
    }
}

/// `58.3 to 65.0`, `at most 65.0`, `58.3 or more`.
fn interval_text(interval: ShareInterval) -> String {
    let text = |share| percents(share, 1);
    number::interval(interval.low.map(text), interval.high.map(text), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_say_where_they_are_open() {
        let text = |low, high| interval_text(ShareInterval { low, high });
        assert_eq!(text(Some(0.583), Some(0.65)), "58.3 to 65.0");
        assert_eq!(text(Some(-1.0), Some(-0.25)), "-100.0 to -25.0");
        assert_eq!([text(None, Some(0.65)), text(Some(0.583), None)], ["at most 65.0", "58.3 or more"]);
    }
}
