//! Remarks beside the verdicts, which are not verdicts: metrics without a share above the floor, interactions of
//! factors, growth, knees under load.

use super::floor;
use super::model::Remarks;
use crate::plot::data::{growth, knee};
use prony_analysis::verdicts::Verdicts;
use prony_analysis::verdicts::interactions::{self, Interactions};
use prony_model::number::count;
use prony_results::RunData;

/// At most so many lines of one kind are shown; the others are counted.
const MOST: usize = 8;

/// The remarks on metrics without a share above the floor, on interactions and on growth, where there are any.
pub(super) fn remarks(data: &RunData, verdicts: &Verdicts) -> Vec<Remarks> {
    let found = interactions::of(data, verdicts);
    let mut growths = growths(data);
    if growth::grew(data) {
        growths.note += "; a search chose the values of the factor by the outcomes of their trials, and most values \
            lie near the limit that it found";
    }
    [above_floor(data), interplay(&found), growths, knees(data)]
        .into_iter()
        .filter(|remarks| !remarks.lines.is_empty())
        .collect()
}

/// Those of a brief report: where nothing is compared, and no figures are asked for by name (`is_plain`), how values grow may be
/// the question.
pub(super) fn brief_remarks(data: &RunData, verdicts: &Verdicts, is_plain: bool) -> Vec<Remarks> {
    let is_of_growth = is_plain && verdicts.silent.is_some() && !data.experiment.explores();
    let growths = is_of_growth.then(|| growths(data)).filter(|remarks| !remarks.lines.is_empty());
    growths.into_iter().collect()
}

fn above_floor(data: &RunData) -> Remarks {
    let lines = floor::without(data).iter().map(|line| sentence(line)).collect();
    Remarks { title: "Above the floor", lines: cut(lines), note: sentence(floor::NOT_JUDGED) }
}

fn interplay(found: &Interactions) -> Remarks {
    let lines = found.found.iter().map(|interaction| sentence(&interaction.sentence())).collect();
    Remarks { title: "Interactions", lines: cut(lines), note: sentence(&found.note()) }
}

/// Of the metrics that verdicts rest on, and of the memory that a limit holds down.
fn growths(data: &RunData) -> Remarks {
    let all = growth::of_run(data);
    Remarks {
        title: "Growth",
        lines: cut(all.iter().flat_map(|(metric, growth)| growth.sentences(metric)).collect()),
        note: "Power laws fitted to the trials that have a value, with the 95 % interval of the exponent; no verdict \
            rests on these fits"
            .to_owned(),
    }
}

/// Of goodput against connections or a rate.
fn knees(data: &RunData) -> Remarks {
    let lines = knee::of(data).iter().flat_map(knee::Load::sentences).collect();
    Remarks {
        title: "Load",
        lines: cut(lines),
        note: "Knees by Kneedle on medians; between two levels lie the knees of 95 % of the resamples of the blocks, and one \
            level more on each side; no verdict rests on them"
            .to_owned(),
    }
}

/// With a capital at the front.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn cut(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(MOST);
    if more > 0 {
        lines.truncate(MOST);
        lines.push(format!(
            "not shown here: {} of this kind; see `prony report --format json`, or the charts of the HTML report",
            count(more, "more line")
        ));
    }
    lines
}
