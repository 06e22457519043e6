//! Turns a run's trials into the observations that comparisons use.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use crate::guard::findings::variant_trials;
use crate::guard::variants::{self, VariantTrials};
use crate::guard::{Severity, reported};
use prony_experiment::design::{Blocks, Experiment};
use prony_model::metric::MetricName;
use prony_model::record::TrialRecord;
use prony_model::trial::Label;
use prony_stats::contrast::UNCORRECTED;
use prony_stats::{Block, Contrast, InterimAnalyses, Observation};

use super::{Beside, Pair, Undisturbed};
use prony_results::RunData;

/// A run's trials by sub-block, variant and label: what is compared ran in one sub-block (METHOD 4.2), and a stratum's
/// baseline runs once, or twice, in each.
pub(super) struct Index<'a> {
    experiment: &'a Experiment,
    all: &'a [TrialRecord],
    trials: HashMap<(u32, u32, usize, Label), &'a TrialRecord>,
    blocks: BTreeSet<(u32, u32)>,
    /// Why guards refuse to compare a baseline and a variant, whatever the metric: determined once.
    refusals: RefCell<HashMap<(usize, usize), Option<String>>>,
}

/// The trials of one block that a comparison takes.
#[derive(Clone, Copy)]
struct Pairing<'a> {
    baseline: &'a TrialRecord,
    baseline2: Option<&'a TrialRecord>,
    variant: &'a TrialRecord,
}

/// Where the trials of a pair must have run for their block to count.
#[derive(Clone, Copy)]
pub(super) enum Within {
    /// In one sub-block: the plan ran the variant beside this baseline.
    SubBlock,
    /// In one block: the plan did not run them beside each other.
    Block,
}

impl<'a> Pairing<'a> {
    fn trials(&self) -> impl Iterator<Item = &'a TrialRecord> {
        [Some(self.variant), Some(self.baseline), self.baseline2].into_iter().flatten()
    }

    fn is_of_one_session(&self) -> bool {
        is_of_one_session(self.trials())
    }

    /// The variant against each label of its baseline.
    fn block(&self, metric: &MetricName) -> Block {
        let all: Vec<Observation> = self.trials().map(|trial| observation(trial, metric)).collect();
        Block::pair(all[0], &all[1..])
    }
}

/// The interim analyses of the plan for a pair: of the one of the two that runs in fewer blocks.
pub(super) fn analyses(experiment: &Experiment, pair: &Pair) -> InterimAnalyses {
    let (a, b) = (experiment.variants()[pair.variant].blocks, experiment.variants()[pair.baseline].blocks);
    experiment.compare().analyses(Blocks { min: a.min.min(b.min), max: a.max.min(b.max) })
}

impl<'a> Index<'a> {
    pub(super) fn new(data: &'a RunData) -> Self {
        let key = |t: &TrialRecord| (t.trial.block, t.trial.sub_block, t.trial.variant, t.trial.label);
        Self {
            experiment: &data.experiment,
            all: &data.trials,
            trials: data.trials.iter().map(|t| (key(t), t)).collect(),
            blocks: data.trials.iter().map(|t| (t.trial.block, t.trial.sub_block)).collect(),
            refusals: RefCell::default(),
        }
    }

    /// The variant against its baseline, with the analyses of the plan, and why they are not compared where they are not.
    pub(super) fn contrast(&self, pair: &Pair, within: Within) -> Contrast {
        let blocks = match within {
            Within::SubBlock => self.blocks_of(pair),
            Within::Block => self.anywhere(pair),
        };
        Contrast {
            analyses: analyses(self.experiment, pair),
            refused: self.refusal(pair, &blocks),
            ..self.described(pair, &blocks)
        }
    }

    fn described(&self, pair: &Pair, blocks: &[Pairing<'_>]) -> Contrast {
        let [baseline, variant] = [pair.baseline, pair.variant].map(|variant| self.variant_trials(variant));
        let blocks = blocks.iter().map(|block| block.block(&pair.metric)).collect();
        Contrast {
            resolution: reported::apart(&baseline, &variant, &pair.metric),
            baseline_resolution: reported::apart(&baseline, &baseline, &pair.metric),
            ..Contrast::described(pair.metric.key.metric.better(), blocks)
        }
    }

    fn variant_trials(&self, variant: usize) -> VariantTrials<'a> {
        variant_trials(self.experiment, self.all, &self.experiment.variants()[variant])
    }

    /// Why the pair is not compared: a guard refuses a trial of it, or the two beside each other (METHOD 1.5).
    fn refusal(&self, pair: &Pair, blocks: &[Pairing<'_>]) -> Option<String> {
        let mut findings = blocks.iter().flat_map(Pairing::trials).flat_map(|t| &t.findings);
        if let Some(refused) = findings.find(|f| f.severity == Severity::Refusal) {
            return Some(refused.message.clone());
        }
        let (baseline, variant) = (self.variant_trials(pair.baseline), self.variant_trials(pair.variant));
        let mut refusals = self.refusals.borrow_mut();
        let refused = refusals
            .entry((pair.baseline, pair.variant))
            .or_insert_with(|| variants::refusal(&variants::check(&baseline, &variant)));
        refused.clone().or_else(|| variants::unequal_offer(&baseline, &variant, &pair.metric))
    }

    /// Ratio and interval at 95 %, uncorrected.
    pub(super) fn beside(&self, pair: Pair, within: Within) -> Beside {
        beside(&self.contrast(&pair, within), pair)
    }

    /// The pair without the blocks in which one of its trials is among these; `None` where that removes no block with a
    /// result.
    pub(super) fn without(&self, pair: &Pair, disturbed: &BTreeSet<u32>) -> Option<Undisturbed> {
        let all = self.blocks_of(pair);
        let quiet = |block: &&Pairing<'a>| !block.trials().any(|t| disturbed.contains(&t.trial.position));
        let left: Vec<Pairing<'_>> = all.iter().filter(quiet).copied().collect();
        let [all, left] = [all, left].map(|blocks| self.described(pair, &blocks).estimate(UNCORRECTED));
        (left.blocks < all.blocks).then(|| Undisturbed { blocks: left.blocks, of: all.blocks, estimate: left.both() })
    }

    /// The second label of a baseline beside its first, in every sub-block that has both; `pair` names it twice.
    pub(super) fn itself(&self, pair: Pair) -> Beside {
        let trial = |(block, sub): (u32, u32), label| self.trials.get(&(block, sub, pair.baseline, label)).copied();
        let block = |at: &(u32, u32)| {
            let block = Pairing { baseline: trial(*at, Label::A)?, baseline2: None, variant: trial(*at, Label::A2)? };
            block.is_of_one_session().then_some(block)
        };
        let blocks: Vec<Pairing<'_>> = self.blocks.iter().filter_map(block).collect();
        beside(&self.described(&pair, &blocks), pair)
    }

    /// The blocks in which every trial of the pair has ended, in the order in which they ran (METHOD 4.11).
    fn blocks_of(&self, pair: &Pair) -> Vec<Pairing<'a>> {
        self.blocks.iter().filter_map(|at| self.pairing(pair, *at, *at)).collect()
    }

    /// The blocks in which both of the pair have ended, in the order in which they ran, wherever in the block that was.
    fn anywhere(&self, pair: &Pair) -> Vec<Pairing<'a>> {
        let numbers: BTreeSet<u32> = self.blocks.iter().map(|(block, _)| *block).collect();
        numbers.into_iter().filter_map(|number| self.in_block(pair, number)).collect()
    }

    /// The pair in one block; in one sub-block where both ran in it, since trials close in time are most alike.
    fn in_block(&self, pair: &Pair, number: u32) -> Option<Pairing<'a>> {
        let parts = || self.blocks.range((number, 0)..=(number, u32::MAX));
        let anywhere = || parts().flat_map(|theirs| parts().map(move |ours| (*theirs, *ours)));
        let beside = parts().find_map(|at| self.pairing(pair, *at, *at));
        beside.or_else(|| anywhere().find_map(|(theirs, ours)| self.pairing(pair, theirs, ours)))
    }

    /// The baseline of one sub-block, with each of its labels, and the variant of another; of one session.
    fn pairing(&self, pair: &Pair, theirs: (u32, u32), ours: (u32, u32)) -> Option<Pairing<'a>> {
        let trial = |(block, sub): (u32, u32), variant, label| self.trials.get(&(block, sub, variant, label)).copied();
        let twice = self.experiment.compare().twice && self.experiment.variants()[pair.baseline].baseline;
        let baseline2 = trial(theirs, pair.baseline, Label::A2);
        if twice && baseline2.is_none() {
            return None;
        }
        let baseline = trial(theirs, pair.baseline, Label::A)?;
        let block = Pairing { baseline, baseline2, variant: trial(ours, pair.variant, Label::A)? };
        block.is_of_one_session().then_some(block)
    }
}

/// Whether one session ran all of these trials: what a resumed run has added to the block in which it was interrupted met
/// the machine in another state.
pub(super) fn is_of_one_session<'a>(trials: impl IntoIterator<Item = &'a TrialRecord>) -> bool {
    let mut sessions = trials.into_iter().map(|trial| trial.conditions.session);
    let first = sessions.next();
    sessions.all(|session| Some(session) == first)
}

fn beside(contrast: &Contrast, pair: Pair) -> Beside {
    let estimated = contrast.estimate(UNCORRECTED);
    Beside { pair, ratio: estimated.ratio, interval: estimated.interval }
}

fn observation(trial: &TrialRecord, metric: &MetricName) -> Observation {
    Observation::of(trial.ending.outcome, &trial.figure(metric))
}

/// The trial's figure, where it has one that counts.
pub fn figure(trial: &TrialRecord, name: &MetricName) -> Option<f64> {
    trial.figure(name).measured().copied()
}
