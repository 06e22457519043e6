//! Pairs the trials of a variant and its baseline by block, and turns them into the observations that comparisons use.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use crate::guard::disturbances::limited_by_generator;
use crate::guard::findings::variant_trials;
use crate::guard::variants::{self, Compared, VariantTrials};
use crate::guard::{Severity, reported_values, run_order, shared_pages, unlike};
use prony_experiment::design::{Blocks, Experiment};
use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::number::{amount, count};
use prony_model::reading::{Reading, Why};
use prony_model::record::TrialRecord;
use prony_model::trial::Label;
use prony_model::units::Unit;
use prony_stats::contrast::{Estimated, UNCORRECTED};
use prony_stats::{Block, Contrast, InterimAnalyses, MIN_BLOCKS, Observation};

use super::{Beside, Pair, Undisturbed};
use prony_results::RunData;

/// A trial's observation of a metric. What the load generator limited shows nothing about the subject (METHOD 6): neither that
/// it does not finish, nor that what follows was not reached because of it.
fn observed(trial: &TrialRecord, metric: &MetricName, figure: &Reading<f64>) -> Observation {
    let is_infinite = || matches!(figure, Reading::Missing(why) if why.is_infinite());
    match (Observation::of(trial.ending.outcome, figure), limited_by_generator(trial)) {
        (Observation::Unfinished, Some(phase)) if phase == metric.phase || !is_infinite() => Observation::Unknown,
        (observation, _) => observation,
    }
}

/// A run's trials by sub-block, variant and label: what is compared ran in one sub-block (METHOD 4.2), and a stratum's
/// baseline runs once, or twice, in each.
pub(super) struct Index<'a> {
    experiment: &'a Experiment,
    /// By number.
    variants: Vec<VariantTrials<'a>>,
    all: &'a [TrialRecord],
    /// Their places in the run.
    trials: HashMap<(u32, u32, usize, Label), usize>,
    blocks: BTreeSet<(u32, u32)>,
    /// Of a baseline and a variant: determined once for all metrics.
    paired: RefCell<HashMap<(usize, usize, Within), Rc<Paired>>>,
    /// Of a metric in every trial: read once for all pairs.
    figures: RefCell<HashMap<MetricName, Rc<[Reading<f64>]>>>,
}

/// What does not depend on the metric in which a pair is compared.
struct Paired {
    blocks: Vec<Pairing>,
    /// Why guards refuse to compare the two.
    refused: Option<String>,
}

/// The trials of one block that a comparison takes, by their places in the run.
#[derive(Clone, Copy)]
struct Pairing {
    baseline: usize,
    baseline2: Option<usize>,
    variant: usize,
}

/// Where the trials of a pair must have run for their block to count.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Within {
    /// In one sub-block: the plan ran the variant beside this baseline.
    SubBlock,
    /// In one block: the plan did not run them beside each other.
    Block,
}

impl Pairing {
    /// The variant, then each label of its baseline.
    fn trials(&self) -> impl Iterator<Item = usize> {
        [Some(self.variant), Some(self.baseline), self.baseline2].into_iter().flatten()
    }
}

/// Guards of two variants in one metric; the first reason not to compare them counts.
const OF_METRIC: [fn(Compared<'_>, &MetricName) -> Option<String>; 7] = [
    unlike::in_metric,
    variants::unequal_offer,
    variants::unequal_cache,
    variants::client_in_one,
    variants::skipped_in_one,
    shared_pages::counted_repeatedly,
    reported_values::not_of_the_phase,
];

/// The interim analyses of the plan for a pair: of the one of the two that runs in fewer blocks.
pub(super) fn analyses(experiment: &Experiment, pair: &Pair) -> InterimAnalyses {
    let (a, b) = (experiment.variants()[pair.variant].blocks, experiment.variants()[pair.baseline].blocks);
    experiment.compare().analyses(Blocks { min: a.min.min(b.min), max: a.max.min(b.max) })
}

impl<'a> Index<'a> {
    pub(super) fn new(data: &'a RunData) -> Self {
        let key = |t: &TrialRecord| (t.trial.block, t.trial.sub_block, t.trial.variant, t.trial.label);
        let experiment = &data.experiment;
        let variants = experiment.variants().iter();
        Self {
            experiment,
            variants: variants.map(|variant| variant_trials(experiment, &data.trials, variant)).collect(),
            all: &data.trials,
            trials: data.trials.iter().enumerate().map(|(at, t)| (key(t), at)).collect(),
            blocks: data.trials.iter().map(|t| (t.trial.block, t.trial.sub_block)).collect(),
            paired: RefCell::default(),
            figures: RefCell::default(),
        }
    }

    /// Reads these metrics of one trial after the other: what the processor has fetched of a trial serves all of them.
    pub(super) fn read(&self, metrics: &[MetricName]) {
        let mut columns = vec![Vec::with_capacity(self.all.len()); metrics.len()];
        for trial in self.all {
            columns.iter_mut().zip(metrics).for_each(|(column, metric)| column.push(trial.figure(metric)));
        }
        let columns = columns.into_iter().map(Rc::from);
        self.figures.borrow_mut().extend(metrics.iter().cloned().zip(columns));
    }

    /// The metric in each trial of the run.
    pub(super) fn figures(&self, metric: &MetricName) -> Rc<[Reading<f64>]> {
        if !self.figures.borrow().contains_key(metric) {
            self.read(std::slice::from_ref(metric));
        }
        self.figures.borrow()[metric].clone()
    }

    /// What guards compare.
    fn both(&self, pair: &Pair) -> Compared<'_> {
        [pair.baseline, pair.variant].map(|number| &self.variants[number])
    }

    fn records(&self, block: &Pairing) -> impl Iterator<Item = &'a TrialRecord> {
        let all = self.all;
        block.trials().map(move |at| &all[at])
    }

    /// The block with these trials, unless several sessions ran them.
    fn of_one_session(&self, block: Pairing) -> Option<Pairing> {
        is_of_one_session(self.records(&block)).then_some(block)
    }

    fn described(&self, pair: &Pair, blocks: &[Pairing]) -> Contrast {
        let figures = self.figures(&pair.metric);
        let observation = |at: usize| {
            let trial = &self.all[at];
            observed(trial, &pair.metric, &figures[at]).within(trial.uncertainty(&pair.metric))
        };
        let block = |block: &Pairing| {
            let all: Vec<Observation> = block.trials().map(observation).collect();
            Block::pair(all[0], &all[1..])
        };
        let both @ [baseline, _] = self.both(pair);
        let resolution = reported_values::apart(both, &pair.metric);
        Contrast {
            resolution,
            stepped: is_stepped(pair.metric.key.metric.unit(), resolution),
            baseline_resolution: reported_values::apart([baseline, baseline], &pair.metric),
            ..Contrast::described(pair.metric.key.metric.better(), blocks.iter().map(block).collect())
        }
    }

    /// The variant against its baseline, with the analyses of the plan, and why they are not compared where they are not.
    pub(super) fn contrast(&self, pair: &Pair, within: Within) -> Contrast {
        let paired = self.paired(pair, within);
        let unequal = || OF_METRIC.into_iter().find_map(|guard| guard(self.both(pair), &pair.metric));
        let lasting = paired.refused.clone().or_else(unequal);
        Contrast {
            analyses: analyses(self.experiment, pair),
            refused_so_far: lasting.is_none(),
            refused: lasting.or_else(|| run_order::matters(self.both(pair), &pair.metric)),
            ..self.described(pair, &paired.blocks)
        }
    }

    fn paired(&self, pair: &Pair, within: Within) -> Rc<Paired> {
        let find = || {
            let blocks = match within {
                Within::SubBlock => self.blocks_of(pair),
                Within::Block => self.anywhere(pair),
            };
            let refused = self.refusal(pair, &blocks);
            Rc::new(Paired { blocks, refused })
        };
        self.paired.borrow_mut().entry((pair.baseline, pair.variant, within)).or_insert_with(find).clone()
    }

    /// The trials that a verdict on the pair rests on.
    pub(super) fn compared(&self, pair: &Pair) -> Vec<&'a TrialRecord> {
        self.paired(pair, Within::SubBlock).blocks.iter().flat_map(|block| self.records(block)).collect()
    }

    /// Why the pair is not compared: a guard refuses a trial of it, or the two beside each other (METHOD 1.5).
    fn refusal(&self, pair: &Pair, blocks: &[Pairing]) -> Option<String> {
        let mut findings = blocks.iter().flat_map(|block| self.records(block)).flat_map(|t| &t.findings);
        let of_trial = findings.find(|f| f.severity == Severity::Refusal).map(|f| f.message.clone());
        let both = self.both(pair);
        of_trial.or_else(|| variants::refusal(&variants::check(both))).or_else(|| unlike::in_all(both))
    }

    /// Ratio and interval at 95 %, uncorrected.
    pub(super) fn beside(&self, pair: Pair, within: Within) -> Beside {
        beside(self.contrast(&pair, within).estimate(UNCORRECTED), pair)
    }

    /// The pair without the blocks in which one of its trials is among these; `None` where that removes no block with a
    /// result.
    pub(super) fn without(&self, pair: &Pair, disturbed: &BTreeSet<u32>) -> Option<Undisturbed> {
        let all = &self.paired(pair, Within::SubBlock).blocks;
        let quiet = |block: &&Pairing| !self.records(block).any(|t| disturbed.contains(&t.trial.position));
        let left: Vec<Pairing> = all.iter().filter(quiet).copied().collect();
        let [all, left] = [all, &left].map(|blocks| self.described(pair, blocks).estimate(UNCORRECTED));
        (left.blocks < all.blocks).then(|| Undisturbed { blocks: left.blocks, of: all.blocks, estimate: left.both() })
    }

    /// The second label of a baseline beside its first, in every sub-block that has both; `pair` names it twice.
    pub(super) fn itself(&self, pair: Pair) -> Beside {
        let trial = |(block, sub): (u32, u32), label| self.trials.get(&(block, sub, pair.baseline, label)).copied();
        let block = |at: &(u32, u32)| {
            let (baseline, variant) = (trial(*at, Label::A)?, trial(*at, Label::A2)?);
            self.of_one_session(Pairing { baseline, baseline2: None, variant })
        };
        let blocks: Vec<Pairing> = self.blocks.iter().filter_map(block).collect();
        let mut found = self.described(&pair, &blocks).estimate(UNCORRECTED);
        // As for the words of an A/A check (`shown_interval`).
        if found.blocks < MIN_BLOCKS {
            let few = Why::TooFew { have: u64::from(found.blocks), need: u64::from(MIN_BLOCKS) };
            found.interval = Reading::Missing(few);
        }
        beside(found, pair)
    }

    /// The blocks in which every trial of the pair has ended, in the order in which they ran (METHOD 4.11). A block
    /// counts once, by the last of its sub-blocks that has both variants, since an interrupted sub-block ran again.
    fn blocks_of(&self, pair: &Pair) -> Vec<Pairing> {
        let beside = self.blocks.iter().filter_map(|at| Some((at.0, self.pairing(pair, *at, *at)?)));
        beside.collect::<BTreeMap<u32, Pairing>>().into_values().collect()
    }

    /// The blocks in which both of the pair have ended, in the order in which they ran, wherever in the block that was.
    fn anywhere(&self, pair: &Pair) -> Vec<Pairing> {
        let numbers: BTreeSet<u32> = self.blocks.iter().map(|(block, _)| *block).collect();
        numbers.into_iter().filter_map(|number| self.in_block(pair, number)).collect()
    }

    /// The pair in one block; in one sub-block where both ran in it, since trials close in time are most alike.
    fn in_block(&self, pair: &Pair, number: u32) -> Option<Pairing> {
        let parts = || self.blocks.range((number, 0)..=(number, u32::MAX));
        let anywhere = || parts().flat_map(|theirs| parts().map(move |ours| (*theirs, *ours)));
        let beside = parts().rev().find_map(|at| self.pairing(pair, *at, *at));
        beside.or_else(|| anywhere().find_map(|(theirs, ours)| self.pairing(pair, theirs, ours)))
    }

    /// The baseline of one sub-block, with each of its labels, and the variant of another; of one session.
    fn pairing(&self, pair: &Pair, theirs: (u32, u32), ours: (u32, u32)) -> Option<Pairing> {
        let trial = |(block, sub): (u32, u32), variant, label| self.trials.get(&(block, sub, variant, label)).copied();
        let twice = self.experiment.compare().twice && self.experiment.variants()[pair.baseline].baseline;
        let baseline2 = trial(theirs, pair.baseline, Label::A2);
        if twice && baseline2.is_none() {
            return None;
        }
        let (baseline, variant) = (trial(theirs, pair.baseline, Label::A)?, trial(ours, pair.variant, Label::A)?);
        self.of_one_session(Pairing { baseline, baseline2, variant })
    }
}

/// Whether values are multiples of a step: whole numbers, or printed with digits that may hide this share of them.
pub(crate) fn is_stepped(unit: Unit, resolution: f64) -> bool {
    resolution > 0.0 || matches!(unit, Unit::Count | Unit::Bytes)
}

/// Whether one session ran all of these trials. Where a resumed run completed an interrupted block, the added trials
/// met the machine in another state.
pub(super) fn is_of_one_session<'a>(trials: impl IntoIterator<Item = &'a TrialRecord>) -> bool {
    let mut sessions = trials.into_iter().map(|trial| trial.conditions.session);
    let first = sessions.next();
    sessions.all(|session| Some(session) == first)
}

fn beside(Estimated { ratio, interval, .. }: Estimated, pair: Pair) -> Beside {
    Beside { pair, ratio, interval }
}

/// What samples of memory may have missed of some trials, where that is more than the margin: beside values that hardly vary,
/// the interval that allows for it is wide.
pub(super) fn missed_by_samples<'t>(trials: &[&'t TrialRecord], metric: &MetricName, margin: f64) -> Option<String> {
    if !matches!((metric.key.metric, metric.key.stat), (Metric::Anon | Metric::Rss, Some(Stat::Max))) {
        return None;
    }
    let missed = |trial: &'t TrialRecord| {
        let more = trial.uncertainty(metric).1;
        (more > margin * figure(trial, metric)?).then_some((more, trial))
    };
    let all: Vec<(f64, &TrialRecord)> = trials.iter().copied().filter_map(missed).collect();
    let (most, trial) = all.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let unseen = MetricName { key: MetricKey::amount(Metric::RssUnseen), ..metric.clone() };
    let of_unseen = figure(trial, &unseen).is_some_and(|unseen| unseen >= *most);
    let why = if of_unseen { " (processes that ended between two samples may have used that)" } else { "" };
    let trials = format!("{} of {}", all.len(), count(trials.len(), "trial"));
    Some(format!("in {trials} samples may have missed up to {}{why}, for which the interval allows", amount(*most)))
}

/// The value of a metric in a trial; `None` where it is missing.
pub fn figure(trial: &TrialRecord, name: &MetricName) -> Option<f64> {
    trial.figure(name).measured().copied()
}

#[cfg(test)]
mod tests {
    use prony_model::finding::Finding;
    use prony_model::outcome::Outcome;
    use prony_model::reading::Why;
    use prony_model::record::Conditions;
    use serde_json::json;

    use super::*;
    use crate::guard::disturbances::BUSY;

    /// A percentile beyond what the load generator could send was said to be infinite because of the server.
    #[test]
    fn trial_that_the_generator_limited_is_unknown_and_not_unfinished() {
        let trial: TrialRecord = serde_json::from_value(json!({
            "trial": { "block": 0, "sub_block": 0, "position": 0, "variant": 0, "label": "a", "seed": 1 },
            "started_unix_ms": 0, "took": 1, "phases": [],
            "ending": { "outcome": Outcome::Saturated, "phase": "open", "after": 1, "evidence": [] },
            "effective": null, "conditions": Conditions::default(), "series": [],
            "sampler_cpu": { "measured": 0 }, "findings": []
        }))
        .unwrap();
        let mut limited = trial.clone();
        limited.findings.push(Finding::of(BUSY, Severity::Warning, String::new(), "").in_phase("open"));
        let infinite = Reading::Missing(Why::Infinite { failed: 2, of: 10 });
        let not_reached = Reading::Missing(Why::NotReached);
        let of = |trial: &TrialRecord, phase: &str, figure: &Reading<f64>| {
            observed(trial, &format!("{phase}.latency.p99").parse().unwrap(), figure)
        };
        assert_eq!(of(&trial, "open", &infinite), Observation::Unfinished);
        assert_eq!(of(&limited, "open", &infinite), Observation::Unknown);
        assert_eq!(of(&limited, "later", &not_reached), Observation::Unknown);
        assert_eq!(of(&limited, "earlier", &infinite), Observation::Unfinished, "its own operations failed");
        assert_eq!(of(&limited, "open", &Reading::Measured(3.0)), Observation::Value(3.0));
    }
}
