//! Makes the texts of one column from trials: summarises the trials of each cell, chooses one unit for all cells, and
//! writes the text.

use prony_experiment::design::{CellPart, Experiment, Expr, Statistic};
use prony_experiment::expr::dimension;
use prony_model::format::Scale;
use prony_model::metric::MetricName;
use prony_model::number;
use prony_model::reading::Why;
use prony_model::record::TrialRecord;
use prony_model::units::{Dimension, Unit};

use super::cell_value::{Summary, in_phase};
use super::model::{Align, Cell, Column, Figure};
use super::notes::Notes;
use super::variants::trials_of;
use super::words::{ended, evidence, once, short};
use prony_results::RunData;

/// The trials from which one cell is made.
#[derive(Clone, Debug, Default)]
pub(super) struct Source<'a> {
    /// The finished trials of its variant.
    pub(super) trials: Vec<&'a TrialRecord>,
    /// The number of trials planned.
    pub(super) planned: usize,
    /// Whether the row has the variant at all (`skip`, `grid`).
    pub(super) exists: bool,
    /// The row's phase, where rows are phases: it takes the place of empty phase names.
    pub(super) phase: Option<String>,
}

impl<'a> Source<'a> {
    /// All trials of a variant.
    pub(super) fn of_variant(data: &'a RunData, variant: usize) -> Self {
        let planned = planned(&data.experiment, variant);
        Self { trials: trials_of(data, variant).collect(), planned, exists: true, phase: None }
    }
}

/// What a column's cells say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<'a> {
    /// Literal text and expressions in turn.
    pub(super) parts: &'a [CellPart],
    /// The statistic that makes one value of several trials.
    pub(super) statistic: Statistic,
    /// Whether to omit the smallest and the largest value, and an outcome that the row has named already.
    pub(super) short: bool,
}

/// A column's cells with what they have in common.
#[derive(Debug)]
pub(super) struct Filled {
    /// A cell a row.
    pub(super) cells: Vec<Cell>,
    /// The unit of all cells; empty where the texts state it or there is none.
    pub(super) unit: &'static str,
}

/// What a row has said already, so that no cell says it again.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    outcome: bool,
    /// How many trials ended before they had a value, where a cell gave the number of the others.
    ended: Option<usize>,
    count: bool,
}

/// Trials that a variant has at least when the run is done.
pub(super) fn planned(experiment: &Experiment, variant: usize) -> usize {
    let variant = &experiment.variants()[variant];
    let labels = if variant.baseline && experiment.compare().twice { 2 } else { 1 };
    // How many blocks a time budget holds is known when it has ended.
    let blocks = if experiment.compare().budget.is_some() { 1 } else { variant.blocks.min };
    blocks as usize * labels
}

/// Fills one column; `said` has an entry a row and is carried from column to column.
pub(super) fn fill(
    plan: &Plan<'_>,
    scales: &[Scale],
    sources: &[Source<'_>],
    said: &mut [Said],
    notes: &mut Notes,
) -> Filled {
    let cell = |(source, said): (&Source<'_>, &mut Said)| {
        let summaries = &summaries(plan.parts, source);
        let has_outcome = said.outcome;
        let mut cell = Writer { plan, scales, summaries }.cell(source, said, notes);
        if plan.short {
            cell.spread.clear();
            if cell.outcome && has_outcome && summaries.iter().all(|summary| summary.at_least.is_none()) {
                cell = Cell::none([]);
            }
        }
        cell.figures = numbers(plan, summaries);
        cell
    };
    let cells = sources.iter().zip(said).map(cell).collect();
    let unit = scales.first().filter(|_| is_single(plan.parts)).map_or("", |scale| scale.name);
    Filled { cells, unit }
}

/// Columns of the medians of a metric, in one unit, which is given with each.
pub(super) fn medians<const N: usize>(
    metric: MetricName,
    columns: [Vec<Source<'_>>; N],
    notes: &mut Notes,
) -> [(Vec<Cell>, &'static str); N] {
    let parts = [CellPart::Figure { expr: Expr::Metric(metric), format: None }];
    let plan = Plan { parts: &parts, statistic: Statistic::Median, short: false };
    let scales = scales(&plan, &columns.concat(), None);
    columns.map(|sources| {
        let filled = fill(&plan, &scales, &sources, &mut vec![Said::default(); sources.len()], notes);
        (filled.cells, filled.unit)
    })
}

/// One unit for each value in the text, chosen over all rows, including those of sibling tables. Times are in the unit
/// `time`, if it is given and the text has no format of its own.
pub(super) fn scales(plan: &Plan<'_>, sources: &[Source<'_>], time: Option<&str>) -> Vec<Scale> {
    let rows: Vec<Vec<Summary<'_>>> = sources.iter().map(|source| summaries(plan.parts, source)).collect();
    expressions(plan.parts)
        .enumerate()
        .map(|(at, (expr, format))| {
            // The parts of a short cell, such as user and system time, are read together.
            let of_row = |row: &'_ Vec<Summary<'_>>| {
                let parts = if plan.short { row.as_slice() } else { &row[at..=at] };
                parts
                    .iter()
                    .flat_map(|one| one.value(plan.statistic).into_iter().chain(one.at_least))
                    .filter(|number| number.is_finite())
                    .collect::<Vec<_>>()
            };
            let mut numbers: Vec<f64> = rows.iter().flat_map(of_row).collect();
            // What stands in brackets beside zeros: 15 ms were `<1` of a second.
            if numbers.iter().all(|number| *number == 0.0) {
                let all = rows.iter().flat_map(|row| &row[at].numbers);
                numbers.extend(all.filter(|number| number.is_finite()));
            }
            let dimension = dimension(expr).ok();
            let in_unit = time.filter(|_| format.is_none() && dimension == Some(Dimension::Unit(Unit::Nanos)));
            in_unit
                .and_then(|unit| Scale::of_times(unit, &numbers))
                .unwrap_or_else(|| Scale::choose(dimension, format, &numbers))
        })
        .collect()
}

/// A column of values that were given as numbers, such as those of another tool's file: in one unit, each with the least and
/// the greatest where they are known, in as many digits as these leave.
pub fn given(heading: &str, unit: Unit, figures: &[Figure]) -> (Column, Vec<Cell>) {
    let numbers: Vec<f64> = figures.iter().filter_map(|figure| figure.value).collect();
    let scale = Scale::choose(Some(Dimension::Unit(unit)), None, &numbers);
    let cell = |figure: &Figure| {
        let cell = match (figure.value, figure.low.zip(figure.high).filter(|(low, high)| low < high)) {
            (None, _) => Cell::none([]),
            (Some(value), None) => Cell::of(scale.print(value)),
            (Some(value), Some((low, high))) => {
                let scale = scale.within(value, high - low);
                let spread = format!("[{}..{}]", scale.print(low), scale.print(high));
                Cell { spread, ..Cell::of(scale.print(value)) }
            }
        };
        Cell { figures: vec![figure.clone()], ..cell }
    };
    (Column::new(heading, scale.name, Align::Right), figures.iter().map(cell).collect())
}

/// Whether the cells hold one value and no text, so that the unit can be in the heading.
fn is_single(parts: &[CellPart]) -> bool {
    matches!(parts, [CellPart::Figure { .. }])
}

fn expressions(parts: &[CellPart]) -> impl Iterator<Item = (&Expr, Option<&str>)> {
    parts.iter().filter_map(|part| match part {
        CellPart::Figure { expr, format } => Some((expr, format.as_deref())),
        CellPart::Text(_) => None,
    })
}

fn summaries<'a>(parts: &[CellPart], source: &Source<'a>) -> Vec<Summary<'a>> {
    let one = |expr: &Expr| match &source.phase {
        Some(phase) => Summary::of(&in_phase(expr, phase), &source.trials),
        None => Summary::of(expr, &source.trials),
    };
    expressions(parts).map(|(expr, _)| one(expr)).collect()
}

fn numbers(plan: &Plan<'_>, summaries: &[Summary<'_>]) -> Vec<Figure> {
    expressions(plan.parts)
        .zip(summaries)
        .map(|((expr, _), summary)| Figure {
            value: summary.value(plan.statistic),
            low: summary.low(),
            high: summary.high(),
            unit: dimension(expr).ok().map(Dimension::unit),
            trials: summary.numbers.len(),
            infinite: summary.infinite.len(),
            ended: summary.ended.len(),
            missing: summary.infinite.first().or(summary.missing.first()).map(Why::to_string),
        })
        .collect()
}

/// Writes one cell.
struct Writer<'a> {
    plan: &'a Plan<'a>,
    scales: &'a [Scale],
    summaries: &'a [Summary<'a>],
}

impl Writer<'_> {
    fn cell(&self, source: &Source<'_>, said: &mut Said, notes: &mut Notes) -> Cell {
        let mut cell = Cell::default();
        if !source.exists {
            return cell;
        }
        if source.trials.is_empty() {
            return Cell::of("not run");
        }
        let mut figures = self.summaries.iter().zip(self.scales);
        for part in self.plan.parts {
            match part {
                CellPart::Text(text) => cell.main += text,
                CellPart::Figure { format, .. } => {
                    let Some((summary, scale)) = figures.next() else { continue };
                    let mut scale = self.digits(summary, scale);
                    // The unit is in the heading or, of a part with a format, in the text around the number.
                    if is_single(self.plan.parts) || format.is_some() {
                        scale.name = "";
                    }
                    self.figure(summary, &scale, &mut cell, said, notes);
                }
            }
        }
        self.spread(&mut cell);
        self.count(source, &mut cell, said);
        cell
    }

    fn figure(&self, summary: &Summary<'_>, scale: &Scale, cell: &mut Cell, said: &mut Said, notes: &mut Notes) {
        let trials = summary.numbers.len() + summary.missing.len() + summary.ended.len();
        match summary.value(self.plan.statistic) {
            Some(value) if value.is_infinite() => {
                let (word, trials) = (summary.print(scale, value), summary.numbers.len());
                cell.main += &format!("{word} ({} of {trials})", summary.infinite.len());
            }
            Some(value) => cell.main += &with_unit(scale, value),
            // The end of some trials is not that of the trials which have no value for another reason.
            None if !summary.ended.is_empty() && (summary.missing.is_empty() || summary.at_least.is_some()) => {
                self.outcome(summary, scale, cell, said, notes);
            }
            None => cell.main.push('-'),
        }
        if !cell.outcome && !summary.ended.is_empty() {
            let (n, all) = (summary.ended.len(), number::count(trials, "trial"));
            let without = ended(&summary.ended);
            cell.marks.push(notes.mark(format!("{n} of {all} of this row ended without a value: {without}")));
        }
        if !summary.failed.is_empty() {
            let (n, all) = (summary.failed.len(), number::count(summary.numbers.len(), "trial"));
            let said = evidence(&summary.failed).unwrap_or_else(|| ended(&summary.failed));
            cell.marks.push(notes.mark(format!("{said} (in {n} of {all})")));
        }
        if let Some(why) = summary.infinite.first() {
            let (n, all) = (summary.infinite.len(), number::count(summary.numbers.len(), "trial"));
            cell.marks.push(notes.mark(format!("{why} (in {n} of {all})")));
        }
        // The reason that says most: that the metric is not applicable explains no other trial.
        let says_more = summary.missing.iter().find(|why| **why != Why::NotApplicable);
        match says_more.or(summary.missing.first()) {
            None => {}
            Some(Why::NotApplicable) if summary.numbers.is_empty() => {}
            Some(why) if summary.numbers.len() + summary.ended.len() == 0 => {
                cell.marks.push(notes.mark(why.to_string()));
            }
            Some(why) => {
                let all = number::count(trials, "trial");
                cell.marks.push(notes.mark(format!("missing in {} of {all}: {why}", summary.missing.len())));
            }
        }
        cell.marks.dedup();
    }

    /// The first cell of a row gives the whole outcome; the others give a lower bound, or its name, where all trials have one.
    fn outcome(&self, summary: &Summary<'_>, scale: &Scale, cell: &mut Cell, said: &mut Said, notes: &mut Notes) {
        cell.outcome = true;
        let outcomes = once(summary.ended.iter().map(|t| t.ending.outcome));
        cell.main += &match (summary.at_least, outcomes.as_slice()) {
            (Some(least), _) => format!(">= {}", with_unit(scale, least)),
            (None, [outcome]) if said.outcome => short(*outcome),
            (None, _) if said.outcome => ended(&summary.ended),
            (None, _) => {
                said.outcome = true;
                cell.marks.extend(evidence(&summary.ended).map(|text| notes.mark(text)));
                ended(&summary.ended)
            }
        };
    }

    /// The scale with as many digits as the trials agree in, for a median the middle half of them.
    fn digits(&self, summary: &Summary<'_>, scale: &Scale) -> Scale {
        // The other statistics follow an outlier.
        let distance = match self.plan.statistic {
            Statistic::Median => summary.quartile_distance(),
            Statistic::Mean | Statistic::Min | Statistic::Max => {
                summary.high().zip(summary.low()).map(|(high, low)| high - low)
            }
        };
        match (summary.value(self.plan.statistic), distance) {
            (Some(value), Some(distance)) if value.is_finite() && distance.is_finite() => scale.within(value, distance),
            _ => *scale,
        }
    }

    /// Appends the smallest and the largest value of the cell's first metric.
    fn spread(&self, cell: &mut Cell) {
        let (Some(summary), Some(scale)) = (self.summaries.first(), self.scales.first()) else { return };
        let middle = matches!(self.plan.statistic, Statistic::Median | Statistic::Mean);
        if let (Some(low), Some(high), true) = (summary.low(), summary.high(), middle)
            && low < high
        {
            let scale = self.digits(summary, scale);
            cell.spread = format!("[{}..{}]", summary.print(&scale, low), summary.print(&scale, high));
        }
    }

    fn count(&self, source: &Source<'_>, cell: &mut Cell, said: &mut Said) {
        let finished = source.trials.len();
        let ended = self.summaries.iter().map(|s| s.ended.len()).max().unwrap_or(0);
        // The footnote is repeated in the further cells of the row, the count only where it is another than that of the cell before.
        if !cell.outcome && said.ended.unwrap_or(0) != ended {
            said.ended = Some(ended);
            let known = self.summaries.iter().map(|s| s.numbers.len()).min().unwrap_or(0);
            cell.count = format!("({known} of {finished} known)");
        }
        if finished < source.planned && !said.count {
            said.count = true;
            let partial = format!("n={finished} of {}", source.planned);
            cell.count = if cell.count.is_empty() { partial } else { format!("{} {partial}", cell.count) };
        }
    }
}

/// The number with the unit of the scale, if it has one.
fn with_unit(scale: &Scale, number: f64) -> String {
    let number = scale.print(number);
    if scale.name.is_empty() { number } else { format!("{number} {}", scale.name) }
}

#[cfg(test)]
mod tests {
    use prony_model::outcome::Outcome;
    use serde_json::json;

    use super::*;
    use crate::cell_value::tests::trial;

    /// A trial that was given these outcomes of its phases `one` and `two`: `complete`, `partial` or `not_reached`.
    fn of_two(outcome: Outcome, completions: [&str; 2]) -> TrialRecord {
        let phase = |(name, completion): (&str, &str)| {
            json!({
                "name": name, "action": "put", "timed": true, "completion": completion, "begin": 0, "end": 1,
                "readings": { "": { "time": { "measured": 1e9 } } }, "histograms": [],
                "groups": null, "throughput": null, "answer": null, "errors": {}
            })
        };
        trial(outcome, &["one", "two"].into_iter().zip(completions).map(phase).collect())
    }

    /// The cells of one row: the time of `one`, and that of `two`.
    fn row(trials: &[TrialRecord]) -> [Cell; 2] {
        let (mut said, mut notes) = ([Said::default()], Notes::default());
        let source = Source { trials: trials.iter().collect(), planned: trials.len(), exists: true, phase: None };
        ["one.time", "two.time"].map(|metric| {
            let parts = [CellPart::Figure { expr: Expr::Metric(metric.parse().unwrap()), format: None }];
            let plan = Plan { parts: &parts, statistic: Statistic::Median, short: false };
            let scales = scales(&plan, std::slice::from_ref(&source), None);
            fill(&plan, &scales, std::slice::from_ref(&source), &mut said, &mut notes).cells.remove(0)
        })
    }

    /// The second cell said `timed out` where three of six trials had failed with an exit code.
    #[test]
    fn no_outcome_of_some_trials_is_that_of_all() {
        let late = || of_two(Outcome::TimedOut, ["partial", "not_reached"]);
        let failed = || of_two(Outcome::Failed { code: Some(5) }, ["partial", "not_reached"]);
        let both = "1 x timed out, 2 x failed (exit code 5)";
        assert_eq!(row(&[late(), failed(), failed()]).map(|cell| cell.main), [both; 2]);
        let [first, second] = row(&[late(), late()]).map(|cell| cell.main);
        assert_eq!((first.starts_with("timed out at "), second.as_str()), (true, "timed out"), "{first}");
    }

    /// Of six trials that ended well and had no value, and two that failed, the cell was `failed (exit code 5) at ...`.
    #[test]
    fn end_of_some_trials_is_not_that_of_trials_without_a_value() {
        let reading = |why: Option<&str>| {
            let time = why.map_or_else(|| json!({ "measured": 1e9 }), |why| json!({ "missing": { "failed": why } }));
            let phase = json!({
                "name": "one", "action": "put", "timed": true, "completion": "complete", "begin": 0, "end": 1,
                "readings": { "": { "time": time } }, "histograms": [],
                "groups": null, "throughput": null, "answer": null, "errors": {}
            });
            trial(Outcome::Ok, &json!([phase]))
        };
        let failed = || of_two(Outcome::Failed { code: Some(5) }, ["partial", "not_reached"]);
        let cell = |trials: &[TrialRecord]| {
            let (mut notes, source) = (Notes::default(), Source::default());
            let source = Source { trials: trials.iter().collect(), planned: trials.len(), exists: true, ..source };
            let [cells, _] = medians("one.time".parse().unwrap(), [vec![source.clone()], vec![source]], &mut notes);
            let texts: Vec<String> = notes.finish().into_iter().map(|note| note.text).collect();
            (cells.0[0].main.clone(), texts)
        };
        let without = || reading(Some("no samples"));
        let (main, notes) = cell(&[without(), without(), without(), failed(), failed()]);
        assert_eq!((main.as_str(), notes.len(), notes[1].as_str()), ("-", 2, "missing in 3 of 5 trials: no samples"));
        let of_ends = "2 of 5 trials of this row ended without a value: failed (exit code 5)";
        assert!(notes[0].starts_with(of_ends), "{notes:?}");
        let (main, notes) = cell(&[reading(None), failed()]);
        assert_eq!((main.as_str(), notes.len()), ("1.00", 1), "{notes:?}");
    }

    /// `(2 of 3 known)` of the first cell was read as that of the whole row, of whose second phase only one trial had an end.
    #[test]
    fn count_of_trials_with_a_value_is_repeated_where_it_is_another() {
        let ok = || of_two(Outcome::Ok, ["complete"; 2]);
        let [first, second] = [["partial", "not_reached"], ["complete", "partial"]]
            .map(|completions| of_two(Outcome::TimedOut, completions));
        let counts = |trials: &[TrialRecord]| row(trials).map(|cell| cell.count);
        assert_eq!(counts(&[ok(), first.clone(), second]), ["(2 of 3 known)", "(1 of 3 known)"]);
        assert_eq!(counts(&[ok(), ok(), first]), ["(2 of 3 known)", ""]);
        let other = of_two(Outcome::TimedOut, ["partial", "complete"]);
        assert_eq!(counts(&[ok(), ok(), other]), ["(2 of 3 known)", "(3 of 3 known)"]);
    }

    /// It was `(2 of 3 ok)` where no trial was ok, and where a trial that was had no value.
    #[test]
    fn trials_with_a_value_are_not_called_ok() {
        let late = |completions| of_two(Outcome::TimedOut, completions);
        let reached = || late(["complete", "partial"]);
        let counts = |trials: &[TrialRecord]| row(trials).map(|cell| cell.count);
        let without = of_two(Outcome::Ok, ["partial", "complete"]);
        assert_eq!(counts(&[reached(), reached(), late(["partial", "not_reached"])])[0], "(2 of 3 known)");
        assert_eq!(counts(&[reached(), without, late(["partial", "not_reached"])])[0], "(1 of 3 known)");
    }
}
