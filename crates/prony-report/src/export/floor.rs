//! Shares above the floor as numbers, for the JSON document.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::floor::{Line, lines, notes, without};
use crate::words::place_of;
use prony_analysis::verdicts::declared;
use prony_analysis::verdicts::floor::Share;
use prony_results::RunData;

/// The floor (the same work on the bare engine), and the share of each variant's time above it. Not a verdict, and not
/// part of the correction for multiple comparisons.
#[derive(Serialize, JsonSchema)]
pub(super) struct FloorOut<'a> {
    /// Level by factor, as `[compare] floor` names them.
    levels: &'a BTreeMap<String, String>,
    /// The variants with a floor, each with its share.
    above: Vec<AboveOut>,
    /// Notes: how reliable the shares are, where no floor runs, and which metrics with verdicts have no share.
    notes: Vec<String>,
}

/// One variant compared with its floor in one metric that gets verdicts. The floor has the same levels of every other
/// factor.
#[derive(Serialize, JsonSchema)]
struct AboveOut {
    /// The metric.
    metric: String,
    /// Number of the variant.
    variant: usize,
    /// Number of the variant that is its floor.
    floor: usize,
    /// The median of the variant's trials, in nanoseconds.
    figure: Option<f64>,
    /// The median of the floor's trials, in nanoseconds.
    floor_figure: Option<f64>,
    /// 1 - floor / variant, of the median of the within-block ratios; below 0 where the variant takes less than its floor.
    share: Option<f64>,
    /// The lower end of the share's 95 % interval, uncorrected; null where the interval is open or there is none.
    low: Option<f64>,
    /// The upper end of that interval; null likewise.
    high: Option<f64>,
    /// Whether the variant takes less than its floor, so that the floor is not a lower bound.
    below_floor: bool,
    /// Blocks with a result for both.
    blocks: u32,
    /// Why there is no share.
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
        if !lines.is_empty() {
            notes(data, &metric).into_iter().for_each(|note| _ = place_of(&mut out.notes, note));
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
