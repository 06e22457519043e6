//! What lies above the floor, as numbers, for the JSON document.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::report::floor::{Line, lines, notes, without};
use prony_analysis::verdicts::declared;
use prony_analysis::verdicts::floor::Share;
use prony_results::RunData;

/// The floor, and each variant above it.
#[derive(Serialize)]
pub(super) struct FloorOut<'a> {
    levels: &'a BTreeMap<String, String>,
    above: Vec<AboveOut>,
    notes: Vec<String>,
}

/// One variant in one metric; the floor is a variant too.
#[derive(Serialize)]
struct AboveOut {
    metric: String,
    variant: usize,
    floor: usize,
    figure: Option<f64>,
    floor_figure: Option<f64>,
    share: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    below_floor: bool,
    blocks: u32,
    missing: Option<String>,
}

/// `None` where the experiment names no floor.
pub(super) fn floor(data: &RunData) -> Option<FloorOut<'_>> {
    let levels = &data.experiment.compare().floor;
    if levels.is_empty() {
        return None;
    }
    let mut out = FloorOut { levels, above: Vec::new(), notes: Vec::new() };
    for metric in declared(&data.experiment) {
        let lines = lines(data, &metric);
        let said = if lines.is_empty() { Vec::new() } else { notes(data, &metric) };
        for note in said {
            if !out.notes.contains(&note) {
                out.notes.push(note);
            }
        }
        out.above.extend(lines.iter().map(above));
    }
    out.notes.extend(without(data));
    Some(out)
}

fn above(line: &Line<'_>) -> AboveOut {
    let pair = &line.above.pair;
    let [figure, floor_figure] = line.figures();
    let share = line.above.share.as_ref().ok();
    let interval = share.and_then(|share| share.interval.measured().copied());
    AboveOut {
        metric: pair.metric.to_string(),
        variant: pair.variant,
        floor: pair.baseline,
        figure,
        floor_figure,
        share: share.map(|share| share.middle),
        low: interval.and_then(|interval| interval.low),
        high: interval.and_then(|interval| interval.high),
        below_floor: share.is_some_and(Share::is_below),
        blocks: line.above.blocks,
        missing: line.missing(),
    }
}
