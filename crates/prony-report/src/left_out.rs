//! The tables of leave-one-out effects: one for each metric that gets verdicts, with a row for each change.

use prony_experiment::design::Experiment;
use prony_model::metric::{Better, MetricName};
use prony_model::units::Unit;

use super::model::{Align, Cell, Column, Figure, Label, Row, Table};
use super::notes::Notes;
use super::words::once;
use prony_analysis::verdicts::left_out::{self, LeftOut, times};
use prony_analysis::verdicts::{Verdicts, ratio_texts};

/// The label in place of a change's name where all changes were left out.
const EVERYTHING: &str = "all of them";

/// One table for each metric that is judged; none where nothing was left out.
pub(super) fn tables(experiment: &Experiment, verdicts: &Verdicts) -> Vec<Table> {
    let mut all = left_out::of(experiment, verdicts);
    // What belongs together stands together: one setting of the other factors after another.
    all.sort_by_key(|one| (experiment.variants()[one.line.pair.variant].stratum, one.line.pair.variant));
    let of_metric = |metric: &MetricName| {
        let rows: Vec<&LeftOut<'_>> = all.iter().filter(|one| one.line.pair.metric == *metric).collect();
        (!rows.is_empty()).then(|| table(metric, &rows))
    };
    once(verdicts.lines.iter().map(|line| &line.pair.metric)).into_iter().filter_map(of_metric).collect()
}

fn table(metric: &MetricName, rows: &[&LeftOut<'_>]) -> Table {
    let mut notes = Notes::default();
    let other_levels = rows.first().map(|row| row.at.as_slice()).unwrap_or_default();
    Table {
        title: Some(format!("The effect of each change when all others are applied: {metric}")),
        caption: caption(metric),
        labels: other_levels.iter().map(|(factor, _)| *factor).chain(["change"]).map(str::to_owned).collect(),
        columns: vec![
            Column::new("without it", times(metric.key.metric), Align::Right),
            Column::new("without it", "", Align::Left),
            Column::new("so it", "", Align::Left),
        ],
        rows: rows.iter().map(|one| row(one, &mut notes)).collect(),
        notes: notes.finish(),
    }
}

/// How the ratios are to be read.
fn caption(metric: &MetricName) -> String {
    let (side, words) = match metric.key.metric.better() {
        Better::Lower => ("Above 1 `all` does better", "so the change helps"),
        Better::Higher => ("Below 1 `all` does better", "so the change helps"),
        Better::Neither => ("Above 1 `all` has less", "so the change lowers the value"),
    };
    format!(
        "Each row leaves one change out and compares the rest with `all` of them together; the interval is in \
         parentheses. {side}, {words}. These are the verdicts above, in another order."
    )
}

fn row(one: &LeftOut<'_>, notes: &mut Notes) -> Row {
    let labels = one.at.iter().map(|(_, level)| *level).chain([one.change.unwrap_or(EVERYTHING)]);
    let cells = vec![ratio_cell(one, notes), Cell::of(&one.line.words), Cell::of(one.effect())];
    Row { labels: labels.map(Label::new).collect(), cells }
}

fn ratio_cell(one: &LeftOut<'_>, notes: &mut Notes) -> Cell {
    let comparison = &one.line.comparison;
    let interval = comparison.interval.measured().copied();
    let missing = one.missing();
    let value = comparison.ratio.measured().copied();
    let texts = value.map(|value| ratio_texts(value, interval));
    let (main, spread) = texts.unwrap_or_else(|| ("-".to_owned(), None));
    let counts = comparison.variant;
    Cell {
        main,
        marks: missing.iter().map(|why| notes.mark(why)).collect(),
        spread: spread.map(|interval| format!("({interval})")).unwrap_or_default(),
        figures: vec![Figure {
            value,
            low: interval.map(|interval| interval.low).filter(|low| *low > 0.0),
            high: interval.and_then(|interval| interval.high),
            unit: Some(Unit::Ratio),
            trials: counts.finished as usize,
            infinite: 0,
            ended: counts.trials.saturating_sub(counts.finished) as usize,
            missing,
        }],
        ..Cell::default()
    }
}
