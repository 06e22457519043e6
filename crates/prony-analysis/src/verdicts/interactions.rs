//! Finds interactions: the effect of one factor depends on the level of another factor. They are shown beside the
//! verdicts and are not verdicts.

mod cells;
mod corners;

use std::collections::BTreeMap;

use crate::guard::Severity;
use crate::guard::findings::variant_trials;
use crate::guard::variants::{self, VariantTrials};
use prony_model::metric::MetricName;
use prony_model::number::{count, percent_with};
use prony_model::reading::Reading;
use prony_model::record::TrialRecord;
use prony_stats::sign::gap_needed;
use prony_stats::verdict::RatioInterval;
use prony_stats::{Contrast, Estimate, MIN_BLOCKS, Verdict};

use super::sentence::ratio_texts;
use super::{Verdicts, declared};
use cells::Cells;
use corners::{Roles, contexts, roles};
use prony_results::RunData;

/// The pairs of effects that were compared, and where they differ by more than the margin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interactions {
    /// The interactions, the strongest first; empty where none is larger than the margin, or where only one factor
    /// varies.
    pub found: Vec<Interaction>,
    /// Pairs of effects that were compared; the intervals of [`Interaction::change`] are corrected for so many.
    pub examined: usize,
    /// The joint confidence of all these intervals, provided that the run was analysed only once.
    pub confidence: f64,
    /// The number of analyses of the verdicts after which the run could have stopped early because of a result.
    pub analyses: usize,
}

/// The effect of one factor at several levels of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Interaction {
    /// The metric.
    pub metric: MetricName,
    /// The factor whose effect depends, by name.
    pub factor: String,
    /// Its level that is set beside `reference`, by label.
    pub level: String,
    /// The baseline's level of it, or its first.
    pub reference: String,
    /// The factor on whose level it depends.
    pub on: String,
    /// Levels of all other factors that vary; empty where none does.
    pub at: String,
    /// The effect at each level of `on`: label, and `level` as a multiple of `reference`, at 95 % each.
    pub effects: Vec<(String, Estimate)>,
    /// The two levels of `on` whose effects are furthest apart: from, to.
    pub between: (String, String),
    /// The effect at the second level as a multiple of the effect at the first.
    pub change: Estimate,
    /// Blocks in which all four variants have a value: the change is estimated from these.
    pub blocks: u32,
    /// Blocks in which any of the four ran.
    pub of: u32,
    /// Whether the interval of the change assumes unimodal noise, which is needed with few blocks.
    pub unimodal: bool,
}

/// More levels than this are not listed in a sentence.
const LISTED: usize = 4;

impl Interaction {
    /// As a sentence without a full stop; names are in backticks, unescaped.
    pub fn sentence(&self) -> String {
        let at = if self.at.is_empty() { String::new() } else { format!(" at `{}`", self.at) };
        let listed =
            |label: &String| self.effects.len() <= LISTED || [&self.between.0, &self.between.1].contains(&label);
        let effects = self.effects.iter().filter(|(label, _)| listed(label));
        let effects: Vec<String> =
            effects.map(|(label, effect)| format!("{} at `{}={label}`", times(*effect), self.on)).collect();
        let Self { factor, level, reference, on, metric, .. } = self;
        let (change, interval) = texts(self.change);
        format!(
            "the effect of `{factor}` depends on `{on}` in `{metric}`{at}: compared with `{reference}`, `{level}` is \
             {}; from `{}` to `{}` this effect changes by a factor of {change} ({interval}{}; {})",
            effects.join(", "),
            self.between.0,
            self.between.1,
            if self.unimodal { ", assuming unimodal noise" } else { "" },
            self.basis(),
        )
    }

    /// `12 blocks`, `9 of 12 blocks, those in which all four variants have a value`
    fn basis(&self) -> String {
        let Self { blocks, of, .. } = self;
        let all = count(*of, "block");
        if blocks == of {
            return all;
        }
        format!("{blocks} of {all}, those in which all four variants have a value")
    }
}

impl Interactions {
    /// How reliable their intervals are, as a sentence without a full stop.
    pub fn note(&self) -> String {
        let pairs = if self.examined == 1 { "the one pair".to_owned() } else { format!("all {} pairs", self.examined) };
        let (verb, analyses) = match self.analyses {
            0 | 1 => ("hold", String::new()),
            n => ("would hold for a single analysis", format!(" (this run had up to {n} interim analyses)")),
        };
        format!(
            "interactions are exploratory and are not verdicts: they are not declared and not part of the correction \
             for multiple comparisons; the intervals of the changes {verb} jointly with probability {} over {pairs} of \
             effects examined{analyses}; the interval of each single effect holds with 95 %",
            percent_with(self.confidence, 0)
        )
    }
}

fn times(effect: Estimate) -> String {
    let (ratio, interval) = texts(effect);
    format!("{ratio} times ({interval})")
}

fn texts(effect: Estimate) -> (String, String) {
    let (ratio, interval) = ratio_texts(effect.ratio, Some(effect.interval));
    (ratio, interval.unwrap_or_default())
}

/// A pair of effects to be compared.
struct Candidate<'a> {
    metric: &'a MetricName,
    cells: usize,
    roles: Roles,
    /// A variant for each level of both, as [`contexts`] orders them.
    corners: [usize; 4],
    contrast: Contrast,
}

/// The interactions in the metrics that verdicts rest on. Variants whose comparison is refused are left out.
pub fn of(data: &RunData, verdicts: &Verdicts) -> Interactions {
    let confidence = 1.0 - verdicts.alpha;
    if data.experiment.explores() {
        // A search repeats what did well: its values are biased, and differently at each level.
        return Interactions { confidence, analyses: analyses(data, verdicts), ..Interactions::default() };
    }
    let metrics = declared(&data.experiment);
    let cells: Vec<Cells<'_>> = metrics.iter().map(|m| Cells::of(data, m, &refused(verdicts, m))).collect();
    let candidates = candidates(data, &metrics, &cells);
    let examined = candidates.len();
    let error = verdicts.alpha / examined.max(1) as f64;
    let mut found = Vec::new();
    for candidate in candidates {
        if let Reading::Measured(change) = candidate.contrast.estimate(error).both()
            && beyond(change, verdicts.margin)
        {
            found.push((candidate, change));
        }
    }
    let described = |(c, change): (Candidate<'_>, Estimate)| interaction(data, &cells[c.cells], &c, (change, error));
    let found = strongest(found).into_iter().map(described).collect();
    Interactions { found, examined, confidence, analyses: analyses(data, verdicts) }
}

/// The most interim analyses of any comparison; where there is none, nothing ends a run but its plan.
fn analyses(data: &RunData, verdicts: &Verdicts) -> usize {
    let analyses = verdicts.lines.iter().map(|line| {
        let (planned, blocks) = (super::observe::analyses(&data.experiment, &line.pair), line.comparison.blocks);
        // A time budget has more than it will ever reach, and the closing one.
        if planned.is_timed() { planned.reached(blocks).count() + 1 } else { planned.at().len() }
    });
    analyses.max().unwrap_or_default().max(1)
}

/// Variants whose comparison in the metric is refused.
fn refused(verdicts: &Verdicts, metric: &MetricName) -> Vec<usize> {
    let lines = verdicts.lines.iter().filter(|line| line.pair.metric == *metric);
    lines.filter(|l| matches!(l.comparison.verdict, Verdict::Refused { .. })).map(|l| l.pair.variant).collect()
}

/// Whether guards of answers and durability let these variants be compared, each with each that differs from it in one factor,
/// whether or not a verdict compares them: no baseline needs to be declared, and two may be baselines. That one does more work is no
/// reason, since levels of a factor may be amounts of work.
fn are_comparable(corners: [usize; 4], variants: &[VariantTrials<'_>], known: &mut Known) -> bool {
    let is_refused = |trial: &&TrialRecord| trial.findings.iter().any(|found| found.severity == Severity::Refusal);
    let one_is_refused = corners.iter().any(|corner| variants[*corner].trials.iter().any(is_refused));
    !one_is_refused
        && [(0, 1), (0, 2), (1, 3), (2, 3)].into_iter().all(|(a, b)| {
            let (a, b) = (corners[a].min(corners[b]), corners[a].max(corners[b]));
            let refuses = || variants::refusal(&variants::check([&variants[a], &variants[b]])).is_some();
            !*known.entry((a, b)).or_insert_with(refuses)
        })
}

/// Whether guards refuse to compare two variants.
type Known = BTreeMap<(usize, usize), bool>;

/// Every pair of effects with enough blocks.
fn candidates<'a>(data: &RunData, metrics: &'a [MetricName], cells: &[Cells<'_>]) -> Vec<Candidate<'a>> {
    let of = |variant| variant_trials(&data.experiment, &data.trials, variant);
    let variants: Vec<VariantTrials<'_>> = data.experiment.variants().iter().map(of).collect();
    let (mut candidates, mut known) = (Vec::new(), Known::new());
    for roles in roles(&data.experiment) {
        for corners in contexts(&data.experiment, roles) {
            if !are_comparable(corners, &variants, &mut known) {
                continue;
            }
            for (at, (metric, of_metric)) in metrics.iter().zip(cells).enumerate() {
                let contrast = of_metric.cross(corners, roles.relative);
                if contrast.blocks.len() >= MIN_BLOCKS as usize {
                    candidates.push(Candidate { metric, cells: at, roles, corners, contrast });
                }
            }
        }
    }
    candidates
}

/// Whether the interval excludes 1 and the estimate lies beyond the margin.
fn beyond(change: Estimate, margin: f64) -> bool {
    let RatioInterval { low, high } = change.interval;
    let excludes = low > 1.0 || high.is_some_and(|high| high < 1.0);
    excludes && change.ratio.ln().abs() > margin.ln_1p()
}

/// Of each effect the greatest change, the greatest of all first.
fn strongest(mut found: Vec<(Candidate<'_>, Estimate)>) -> Vec<(Candidate<'_>, Estimate)> {
    found.sort_by(|a, b| b.1.ratio.ln().abs().total_cmp(&a.1.ratio.ln().abs()));
    let mut chosen: Vec<(Candidate<'_>, Estimate)> = Vec::new();
    for (candidate, change) in found {
        // The reference level of `on` is the same in all of one effect: so are the first two corners.
        let same = |(k, _): &(Candidate<'_>, Estimate)| {
            (k.cells, k.roles, &k.corners[..2]) == (candidate.cells, candidate.roles, &candidate.corners[..2])
        };
        if !chosen.iter().any(same) {
            chosen.push((candidate, change));
        }
    }
    chosen
}

/// With the change, and the error at which its interval is.
fn interaction(
    data: &RunData,
    cells: &Cells<'_>,
    candidate: &Candidate<'_>,
    (change, error): (Estimate, f64),
) -> Interaction {
    let experiment = &data.experiment;
    let Candidate { roles, corners, .. } = candidate;
    let blocks = candidate.contrast.blocks.len() as u32;
    let label = |variant: usize, factor: usize| {
        let factor_of = &experiment.factors()[factor];
        factor_of.levels[experiment.variants()[variant].levels[factor]].label.clone()
    };
    let (of, on) = (roles.of, roles.on);
    let pairs = corners::pairs(experiment, *roles, corners[0], corners[1]);
    let effects = pairs.into_iter().filter_map(|(reference, variant)| {
        Some((label(variant, on), cells.effect(variant, reference, roles.relative)?))
    });
    Interaction {
        metric: candidate.metric.clone(),
        factor: experiment.factors()[of].name.clone(),
        level: label(corners[1], of),
        reference: label(corners[0], of),
        on: experiment.factors()[on].name.clone(),
        at: corners::other_levels(experiment, *roles, corners[0]),
        effects: effects.collect(),
        between: (label(corners[0], on), label(corners[2], on)),
        change,
        blocks,
        of: cells.ran(*corners),
        unimodal: gap_needed(blocks, error) > 0.0,
    }
}
