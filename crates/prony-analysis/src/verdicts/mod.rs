//! The verdicts of a run: makes comparisons of its trials, tests them together (METHOD 4.4 to 4.9), and words the
//! results as sentences.
//!
//! [`of`] gives the verdicts on the metrics that the experiment declares; [`Comparisons`] gives ratio and interval of
//! any other metric, which is shown without a verdict.

mod detail;
pub mod floor;
pub mod gate;
pub mod interactions;
pub mod left_out;
pub mod names;
mod new_run;
pub mod observe;
mod sentence;

use std::rc::Rc;

use crate::guard::disturbances;
use prony_experiment::design::{Experiment, Variant};
use prony_model::metric::MetricName;
use prony_model::number::count;
use prony_model::outcome::Outcome;
use prony_model::reading::Reading;
use prony_model::record::TrialRecord;
use prony_model::spec::Durability;
use prony_stats::{
    Comparison, Contrast, Estimate, Family, MIN_BLOCKS, RatioInterval, Verdict, compare_family, more_blocks_until,
};

pub use detail::{Detail, Detectable, Explained, Without, detectable, shown_interval, without};
use names::Names;
pub use new_run::NewRun;
pub use observe::figure;
use observe::{Index, Within};
use prony_results::{RunData, RunStatus};
pub use sentence::ratio_texts;

/// The verdicts of a run's comparisons.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdicts {
    /// Differences below this share do not matter.
    pub margin: f64,
    /// The probability of at least one false verdict among all lines.
    pub alpha: f64,
    /// One for each variant and declared metric: the primary metric's first, in the experiment's order.
    pub lines: Vec<Line>,
    /// Why there are no verdicts, if there are none.
    pub silent: Option<String>,
}

/// One comparison with its sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What is compared with what.
    pub pair: Pair,
    /// Its statistics.
    pub comparison: Comparison,
    /// The verdict as a sentence without a full stop; names are in backticks, unescaped.
    pub sentence: String,
    /// The verdict in a few words: `faster`, `succeeds less often`.
    pub words: String,
    /// Its basis: blocks, the minimum detectable effect, the A/A check.
    pub detail: Detail,
    /// The result without disturbed trials, if there were any: no verdict rests on it.
    pub undisturbed: Option<Undisturbed>,
    /// The run that could decide it, where it is not decided.
    pub new_run: Option<NewRun>,
    /// Whether its plan has blocks enough for a verdict.
    pub is_able: bool,
}

/// A comparison without the blocks in which a trial was disturbed (METHOD 4.10).
#[derive(Clone, Debug, PartialEq)]
pub struct Undisturbed {
    /// Blocks without a disturbed trial that have a result.
    pub blocks: u32,
    /// Blocks that have a result, disturbed or not.
    pub of: u32,
    /// Their ratio and its interval, at 95 % and uncorrected, in which a trial that did not finish is worse than any that
    /// did, as in the verdict; missing where too few are left, or in half of them a trial did not finish.
    pub estimate: Reading<Estimate>,
}

/// A variant and its baseline in one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The metric that is compared.
    pub metric: MetricName,
    /// Index of the variant in the experiment.
    pub variant: usize,
    /// Index of the baseline in the experiment.
    pub baseline: usize,
    /// The names of the two.
    pub names: Names,
}

/// Ratio and interval of a metric that was not declared: no verdict rests on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// What is compared with what.
    pub pair: Pair,
    /// The median of the within-block ratios variant / baseline.
    pub ratio: Reading<f64>,
    /// Its interval at 95 %, uncorrected.
    pub interval: Reading<RatioInterval>,
}

impl Verdicts {
    /// Whether every comparison is decided, so that more blocks cannot change any of them. One whose plan has no analysis never
    /// is, however many blocks the others have.
    pub fn are_final(&self) -> bool {
        let mut judged = self.lines.iter().filter(|line| line.is_able).peekable();
        judged.peek().is_some() && judged.all(|line| line.comparison.verdict.is_final())
    }
}

/// The verdicts of a run.
///
/// A run with a time budget has a closing analysis once it has ended, unless all comparisons were decided at an interim
/// analysis and it ended there. A run that was interrupted has none: the user may have interrupted it because of its results.
pub fn of(data: &RunData) -> Verdicts {
    let compare = data.experiment.compare();
    let mut verdicts = Verdicts { margin: compare.margin.get(), alpha: compare.alpha.get(), ..Verdicts::default() };
    let pairs = declared_pairs(&data.experiment);
    if pairs.is_empty() {
        verdicts.silent = Some(silence(&data.experiment));
        return verdicts;
    }
    verdicts.lines = judged(data, pairs.clone(), (verdicts.alpha, verdicts.margin), false);
    // Gates that were not decided let a run go on.
    let went_on = verdicts.lines.iter().any(|line| line.comparison.complete > line.comparison.blocks);
    let ended = compare.budget.is_some() && data.head.status == RunStatus::Done;
    if ended && (went_on || !verdicts.are_final()) {
        verdicts.lines = judged(data, pairs, (verdicts.alpha, verdicts.margin), true);
    }
    verdicts
}

/// The trials of a run, to be compared in any number of metrics without a verdict.
pub struct Comparisons<'a> {
    experiment: &'a Experiment,
    index: Index<'a>,
}

impl<'a> Comparisons<'a> {
    /// Of a run.
    pub fn new(data: &'a RunData) -> Self {
        Self { experiment: &data.experiment, index: Index::new(data) }
    }

    /// The same, to be compared in these metrics: together they are read faster than one by one.
    pub fn in_metrics(data: &'a RunData, metrics: &[MetricName]) -> Self {
        let comparisons = Self::new(data);
        comparisons.index.read(metrics);
        comparisons
    }

    /// The metric in each trial, in the order of the run.
    pub fn figures(&self, metric: &MetricName) -> Rc<[Reading<f64>]> {
        self.index.figures(metric)
    }

    /// Ratio and interval of each variant to its baseline in one metric.
    pub fn beside(&self, metric: &MetricName) -> Vec<Beside> {
        let pairs = pairs_in(self.experiment, metric);
        pairs.into_iter().map(|pair| self.index.beside(pair, Within::SubBlock)).collect()
    }

    /// Ratio and interval of each variant to the one with these levels, `(factor, label)`, and the same levels of all
    /// other factors, in one metric: no verdict rests on it, since the plan did not run them side by side for it.
    pub fn beside_of(&self, metric: &MetricName, baseline: &[(String, String)]) -> Vec<Beside> {
        let pairs = pairs_with(self.experiment, metric, baseline);
        pairs.into_iter().map(|pair| self.index.beside(pair, Within::Block)).collect()
    }

    /// Each baseline's second label beside its first in one metric (A/A), where it runs twice a block and has the metric's
    /// phase: the spread between equal variants. The pair names the baseline twice.
    pub fn itself(&self, metric: &MetricName) -> Vec<Beside> {
        let variants = self.experiment.variants().iter();
        let has = |variant: &Variant| variant.spec.phases.iter().any(|phase| phase.name == metric.phase);
        let baselines = variants.filter(|variant| variant.baseline && has(variant));
        let pair = |id: usize| {
            let names = Names::of(self.experiment, id, id);
            Pair { metric: metric.clone(), variant: id, baseline: id, names }
        };
        let all = baselines.map(|variant| self.index.itself(pair(variant.id)));
        all.filter(|beside| beside.ratio.measured().is_some()).collect()
    }
}

fn pairs_with(experiment: &Experiment, metric: &MetricName, baseline: &[(String, String)]) -> Vec<Pair> {
    let variants = experiment.variants();
    let factor = |name: &str| experiment.factors().iter().position(|factor| factor.name == name);
    let wanted: Vec<(usize, usize)> = baseline
        .iter()
        .filter_map(|(name, label)| {
            let at = factor(name)?;
            Some((at, experiment.factors()[at].levels.iter().position(|level| level.label == *label)?))
        })
        .collect();
    let like = |levels: &[usize]| {
        let mut like = levels.to_vec();
        wanted.iter().for_each(|(at, level)| like[*at] = *level);
        like
    };
    let pair = |variant: usize| {
        let levels = like(&variants[variant].levels);
        let baseline = variants.iter().position(|v| v.levels == levels).filter(|b| *b != variant)?;
        let names = Names::of(experiment, variant, baseline);
        Some(Pair { metric: metric.clone(), variant, baseline, names })
    };
    (0..variants.len()).filter_map(pair).collect()
}

/// The metrics that get verdicts, the primary one first; empty where no phase is timed.
pub fn declared(experiment: &Experiment) -> Vec<MetricName> {
    experiment.compare().figures().into_iter().cloned().collect()
}

/// The number of comparisons in this metric for which the plan has an analysis; without one, no verdict is possible.
///
/// # Errors
/// Why there is none.
pub fn to_be_judged(experiment: &Experiment, metric: &MetricName) -> Result<usize, (String, String)> {
    let pairs = pairs_in(experiment, metric);
    match pairs.iter().filter(|pair| !observe::analyses(experiment, pair).at().is_empty()).count() {
        0 if pairs.is_empty() => {
            Err((silence(experiment), "a verdict needs a `baseline` in `[compare]` of the file".to_owned()))
        }
        0 => {
            let most = pairs.iter().map(|pair| experiment.variants()[pair.variant].blocks.max).max().unwrap_or(0);
            let why = format!("the plan has {}, and a verdict needs at least {MIN_BLOCKS}", count(most, "block"));
            Err((why, format!("`--blocks {MIN_BLOCKS}` or more; noisy values need many more")))
        }
        judged => Ok(judged),
    }
}

fn declared_pairs(experiment: &Experiment) -> Vec<Pair> {
    declared(experiment).iter().flat_map(|metric| pairs_in(experiment, metric)).collect()
}

/// Each variant with the baseline with which it is compared in the metric.
fn pairs_in(experiment: &Experiment, metric: &MetricName) -> Vec<Pair> {
    let pair = |variant: &Variant| {
        let (variant, baseline) = (variant.id, experiment.compared_with(variant, &metric.phase).ok()?.id);
        let names = Names::of(experiment, variant, baseline);
        Some(Pair { metric: metric.clone(), variant, baseline, names })
    };
    experiment.variants().iter().filter(|variant| !variant.baseline).filter_map(pair).collect()
}

fn silence(experiment: &Experiment) -> String {
    let why = if experiment.explores() {
        "a search chose these variants by their own results, which are therefore biased"
    } else if experiment.variants().len() < 2 {
        "there is one variant, and nothing to compare it with"
    } else if experiment.variants().iter().all(|variant| variant.baseline) {
        "there is no variant beside the baseline"
    } else if !experiment.compare().baseline.is_empty() && !experiment.variants().iter().any(|v| v.baseline) {
        "the baseline is not among the variants that run"
    } else if !experiment.variants().iter().any(|v| v.baseline) {
        let factor = experiment.factors().first();
        let level = factor.and_then(|factor| {
            let level = &factor.levels.first()?.label;
            let is_number = level.bytes().all(|byte| byte.is_ascii_digit());
            // A text of JSON is one of TOML.
            let level = if is_number { level.clone() } else { serde_json::to_string(level).ok()? };
            Some(format!("{} = {level}", factor.name))
        });
        let level = level.unwrap_or_else(|| "...".to_owned());
        return format!("no baseline is declared: to compare the variants, write `[compare] baseline = {{ {level} }}`");
    } else {
        "no variant shares the compared phase with its baseline"
    };
    why.to_owned()
}

/// The outcomes of the compared trials that failed in or after the compared phase although they have a value for it.
fn failed(trials: &[&TrialRecord], pair: &Pair) -> sentence::Failed {
    let of = |variant: usize| {
        let trials = trials.iter().filter(|trial| trial.trial.variant == variant);
        let failed = trials.filter(|trial| trial.ending.outcome.is_own_failure());
        failed.filter(|trial| figure(trial, &pair.metric).is_some()).map(|trial| trial.ending.outcome).collect()
    };
    let without = |variant: usize| -> Vec<Outcome> {
        let trials = trials.iter().filter(|trial| trial.trial.variant == variant && !trial.ending.outcome.is_ok());
        trials.filter(|trial| figure(trial, &pair.metric).is_none()).map(|trial| trial.ending.outcome).collect()
    };
    let unfinished = [without(pair.variant), without(pair.baseline)];
    let ended = |outcome: &Outcome| matches!(outcome, Outcome::Failed { .. } | Outcome::Crashed { .. });
    let by_itself = unfinished.iter().any(|side| !side.is_empty()) && unfinished.iter().flatten().all(ended);
    sentence::Failed { variant: of(pair.variant), baseline: of(pair.baseline), by_itself, unfinished }
}

/// `` ; not equal: `store=memory` is `volatile` (a process crash may lose the most recent commits), `store=lmdb` is `strict` ``:
/// below a table it was read after the verdict, if at all (METHOD 5.2).
fn unequal_durability(data: &RunData, pair: &Pair) -> String {
    let weakest = |variant: usize| {
        let trials = data.trials.iter().filter(|trial| trial.trial.variant == variant);
        trials.filter_map(|trial| Some(trial.store()?.durability)).max()
    };
    let (Some(variant), Some(baseline)) = (weakest(pair.variant), weakest(pair.baseline)) else { return String::new() };
    let side = |name: &str, class: Durability| {
        let loss = if class == variant.max(baseline) { format!(" ({})", class.loss()) } else { String::new() };
        format!("`{name}` is `{}`{loss}", class.name())
    };
    if variant == baseline {
        return String::new();
    }
    format!("; not equal: {}, {}", side(&pair.names.variant, variant), side(&pair.names.baseline, baseline))
}

/// The new run whose interval could decide what this run leaves open, asked as by [`more_blocks_until`]. `None` where more
/// blocks would not decide it, or it is not known how many would.
pub fn new_run_until(
    data: &RunData,
    line: &Line,
    decides: impl Fn(&RatioInterval, bool, &Reading<f64>) -> bool,
) -> Option<NewRun> {
    let (index, pairs) = (Index::new(data), declared_pairs(&data.experiment));
    let able: Vec<&Pair> = pairs.iter().filter(|pair| able(data, pair)).collect();
    let member = able.iter().position(|pair| **pair == line.pair)?;
    let ended = data.experiment.compare().budget.is_some() && data.head.status == RunStatus::Done;
    let compare = data.experiment.compare();
    let family = family(&index, able.into_iter(), (compare.alpha.get(), compare.margin.get()), ended);
    let more = more_blocks_until(&family, member, decides)?;
    NewRun::with(more, line.comparison.complete, new_run::time_per_block(&data.trials))
}

/// Whether the plan has blocks enough for a verdict on the pair.
fn able(data: &RunData, pair: &Pair) -> bool {
    observe::analyses(&data.experiment, pair).at().last().is_some_and(|most| *most >= MIN_BLOCKS)
}

fn family<'p>(
    index: &Index<'_>,
    pairs: impl Iterator<Item = &'p Pair>,
    (alpha, margin): (f64, f64),
    ended: bool,
) -> Family {
    let due = |pair: &Pair| {
        let contrast = index.contrast(pair, Within::SubBlock);
        Contrast { analyses: if ended { contrast.analyses.ended() } else { contrast.analyses }, ..contrast }
    };
    Family { alpha, margin, members: pairs.map(due).collect() }
}

/// Pairs that have too few blocks for any verdict do not count in the correction for multiple comparisons of the
/// others.
fn judged(data: &RunData, pairs: Vec<Pair>, (alpha, margin): (f64, f64), ended: bool) -> Vec<Line> {
    let index = Index::new(data);
    let able: Vec<bool> = pairs.iter().map(|pair| able(data, pair)).collect();
    let compared = |wanted: bool| {
        let chosen = pairs.iter().zip(&able).filter(|(_, able)| **able == wanted).map(|(pair, _)| pair);
        compare_family(&family(&index, chosen, (alpha, margin), ended)).into_iter()
    };
    let (mut with, mut without) = (compared(true), compared(false));
    let comparisons: Vec<Comparison> =
        able.iter().filter_map(|able| if *able { with.next() } else { without.next() }).collect();
    let disturbed = disturbances::disturbed(&data.trials.iter().collect::<Vec<_>>());
    let per_block = new_run::time_per_block(&data.trials);
    let line = |((pair, mut comparison), is_able): ((Pair, Comparison), bool)| {
        // What is not compared has no ratio, also without some of its blocks.
        let is_refused = matches!(comparison.verdict, Verdict::Refused { .. });
        let undisturbed = if is_refused { None } else { index.without(&pair, &disturbed) };
        let new_run = NewRun::of(&comparison, per_block);
        let compared = index.compared(&pair);
        let missed = observe::missed_by_samples(&compared, &pair.metric, margin).filter(|_| !is_refused);
        comparison.notes.extend(missed);
        let failed = failed(&compared, &pair);
        let words = sentence::words(&pair, &comparison, &failed, margin);
        let mut sentence = sentence::of(&pair, &comparison, &failed, new_run, (alpha, margin));
        if comparison.verdict.is_difference() || comparison.verdict == Verdict::NoDifference {
            sentence += &unequal_durability(data, &pair);
        }
        let detail = Detail::of(&pair, &comparison, undisturbed.as_ref());
        Line { pair, comparison, sentence, words, detail, undisturbed, new_run, is_able }
    };
    pairs.into_iter().zip(comparisons).zip(able).map(line).collect()
}
