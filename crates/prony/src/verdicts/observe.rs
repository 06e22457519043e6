//! A run's trials as the observations that comparisons take.

use std::collections::{BTreeSet, HashMap};

use prony_analysis::guard::gather::arm;
use prony_analysis::guard::{Severity, arms};
use prony_experiment::design::{Blocks, Experiment};
use prony_model::metric::{Better, MetricName};
use prony_model::reading::{Reading, Why};
use prony_model::record::TrialRecord;
use prony_model::trial::Label;
use prony_stats::sign::{Bracket, SignTest};
use prony_stats::{BlockValues, Looks, Observation, Pairing, RatioInterval, uncorrected};

use super::{Beside, Pair, Undisturbed};
use prony_results::RunData;

/// Two trials of a block further apart than this, in milliseconds, ran in two sessions: the run was interrupted between
/// them and resumed. What lies between two trials of one session (a sync, canaries) takes seconds.
const APART: u64 = 600_000;

/// Error of an interval that no verdict rests on.
const BESIDE: f64 = 0.05;

/// A run's trials by sub-block, variant and label: what is compared ran in one sub-block (METHOD 4.2), and a stratum's
/// baseline runs once, or twice, in each.
pub(super) struct Index<'a> {
    experiment: &'a Experiment,
    all: &'a [TrialRecord],
    by_block: HashMap<(u32, u32), Vec<&'a TrialRecord>>,
    trials: HashMap<(u32, u32, usize, Label), &'a TrialRecord>,
    blocks: BTreeSet<(u32, u32)>,
}

/// The trials of one block that a comparison takes.
struct Block<'a> {
    baseline: &'a TrialRecord,
    baseline2: Option<&'a TrialRecord>,
    variant: &'a TrialRecord,
}

/// The looks of the plan for a pair: of the one of the two that runs in fewer blocks.
pub(super) fn looks(experiment: &Experiment, pair: &Pair) -> Looks {
    let (a, b) = (experiment.variants()[pair.variant].blocks, experiment.variants()[pair.baseline].blocks);
    experiment.compare().looks(Blocks { min: a.min.min(b.min), max: a.max.min(b.max) })
}

impl<'a> Index<'a> {
    pub(super) fn new(data: &'a RunData) -> Self {
        let key = |t: &TrialRecord| (t.trial.block, t.trial.sub_block, t.trial.variant, t.trial.label);
        let mut by_block: HashMap<(u32, u32), Vec<&TrialRecord>> = HashMap::new();
        data.trials.iter().for_each(|t| by_block.entry((t.trial.block, t.trial.sub_block)).or_default().push(t));
        Self {
            experiment: &data.experiment,
            all: &data.trials,
            by_block,
            trials: data.trials.iter().map(|t| (key(t), t)).collect(),
            blocks: data.trials.iter().map(|t| (t.trial.block, t.trial.sub_block)).collect(),
        }
    }

    pub(super) fn pairing(&self, pair: &Pair) -> Pairing {
        let blocks = self.blocks_of(pair);
        Pairing {
            label: format!("{} {}", pair.names.variant, pair.metric),
            better: pair.metric.key.metric.better(),
            looks: looks(self.experiment, pair),
            refused: refusal(self.experiment, self.all, pair, &blocks),
            blocks: blocks.iter().map(|block| values(block, &pair.metric)).collect(),
        }
    }

    pub(super) fn beside(&self, pair: Pair) -> Beside {
        let blocks = self.blocks_of(&pair);
        self.unless_refused(pair, &blocks)
    }

    /// As [`Self::beside`] for a pair that the plan did not put into one sub-block: anywhere in one block.
    pub(super) fn beside_in_block(&self, pair: Pair) -> Beside {
        let blocks = self.anywhere(&pair);
        self.unless_refused(pair, &blocks)
    }

    fn unless_refused(&self, pair: Pair, blocks: &[Block<'_>]) -> Beside {
        match refusal(self.experiment, self.all, &pair, blocks) {
            None => beside(pair, blocks),
            Some(why) => {
                let why = Why::DoesNotCount(why);
                Beside { pair, ratio: Reading::Missing(why.clone()), interval: Reading::Missing(why) }
            }
        }
    }

    /// As [`Self::beside_in_block`], with what the blocks hold, and why the two are not compared where they are not.
    pub(super) fn above(&self, pair: Pair) -> (Beside, Vec<BlockValues>, Option<String>) {
        let blocks = self.anywhere(&pair);
        let held = blocks.iter().map(|block| values(block, &pair.metric)).collect();
        let refused = refusal(self.experiment, self.all, &pair, &blocks);
        (beside(pair, &blocks), held, refused)
    }

    /// The pair without the blocks in which one of its trials is among these; `None` where no block that says something
    /// is lost by that.
    pub(super) fn without(&self, pair: &Pair, disturbed: &BTreeSet<u32>) -> Option<Undisturbed> {
        let blocks = self.blocks_of(pair);
        let quiet = |block: &&Block<'_>| {
            let mut ours = [Some(block.variant), Some(block.baseline), block.baseline2].into_iter().flatten();
            !ours.any(|t| disturbed.contains(&t.trial.position))
        };
        let better = pair.metric.key.metric.better();
        let all: Vec<BlockValues> = blocks.iter().map(|block| values(block, &pair.metric)).collect();
        let left: Vec<BlockValues> = blocks.iter().filter(quiet).map(|block| values(block, &pair.metric)).collect();
        let ((of, _), (blocks, estimate)) = (uncorrected(&all, better), uncorrected(&left, better));
        (blocks < of).then_some(Undisturbed { blocks, of, estimate })
    }

    /// The second label of a baseline beside its first, in every sub-block that has both; `pair` names it twice.
    pub(super) fn itself(&self, pair: Pair) -> Beside {
        let trial = |(block, sub): (u32, u32), label| self.trials.get(&(block, sub, pair.baseline, label)).copied();
        let block = |at: &(u32, u32)| {
            let block = Block { baseline: trial(*at, Label::A)?, baseline2: None, variant: trial(*at, Label::A2)? };
            self.in_one_go(&[*at], &block).then_some(block)
        };
        let blocks: Vec<Block<'_>> = self.blocks.iter().filter_map(block).collect();
        beside(pair, &blocks)
    }

    /// The blocks in which every trial of the pair has ended, in the order in which they ran (METHOD 4.11).
    fn blocks_of(&self, pair: &Pair) -> Vec<Block<'a>> {
        let twice = self.experiment.compare().twice;
        let block = |(block_number, sub): &(u32, u32)| {
            let trial = |variant, label| self.trials.get(&(*block_number, *sub, variant, label)).copied();
            let baseline2 = trial(pair.baseline, Label::A2);
            if twice && baseline2.is_none() {
                return None;
            }
            let (baseline, variant) = (trial(pair.baseline, Label::A)?, trial(pair.variant, Label::A)?);
            let block = Block { baseline, baseline2, variant };
            self.in_one_go(&[(*block_number, *sub)], &block).then_some(block)
        };
        self.blocks.iter().filter_map(block).collect()
    }

    /// The blocks in which both of the pair have ended, in the order in which they ran, wherever in the block that was.
    fn anywhere(&self, pair: &Pair) -> Vec<Block<'a>> {
        let numbers: BTreeSet<u32> = self.blocks.iter().map(|(block, _)| *block).collect();
        numbers.into_iter().filter_map(|number| self.in_block(pair, number)).collect()
    }

    /// The pair in one block; in one sub-block where both ran in it, since what ran close together pairs best.
    fn in_block(&self, pair: &Pair, number: u32) -> Option<Block<'a>> {
        let parts: Vec<(u32, u32)> = self.blocks.range((number, 0)..=(number, u32::MAX)).copied().collect();
        let trial = |(block, sub): (u32, u32), variant, label| self.trials.get(&(block, sub, variant, label)).copied();
        let has = |at: &(u32, u32), variant| trial(*at, variant, Label::A).is_some();
        let shared = parts.iter().copied().find(|at| has(at, pair.baseline) && has(at, pair.variant));
        let place = |variant| shared.or_else(|| parts.iter().copied().find(|at| has(at, variant)));
        let (theirs, ours) = (place(pair.baseline)?, place(pair.variant)?);
        let baseline2 = trial(theirs, pair.baseline, Label::A2);
        let twice = self.experiment.compare().twice && self.experiment.variants()[pair.baseline].baseline;
        if twice && baseline2.is_none() {
            return None;
        }
        let (baseline, variant) = (trial(theirs, pair.baseline, Label::A)?, trial(ours, pair.variant, Label::A)?);
        let block = Block { baseline, baseline2, variant };
        self.in_one_go(&parts, &block).then_some(block)
    }

    /// Whether no long time lies between the trials of a block: what a resumed run has added to the block in which it
    /// was interrupted met another machine.
    fn in_one_go(&self, parts: &[(u32, u32)], block: &Block<'_>) -> bool {
        let ours = [Some(block.baseline), block.baseline2, Some(block.variant)].into_iter().flatten();
        let positions: BTreeSet<u32> = ours.map(|t| t.trial.position).collect();
        let (Some(first), Some(last)) = (positions.first(), positions.last()) else { return true };
        let ran = parts.iter().filter_map(|part| self.by_block.get(part)).flatten().copied();
        let between = ran.filter(|t| (*first..=*last).contains(&t.trial.position));
        in_one_go(&between.collect::<Vec<_>>())
    }
}

/// Whether no two of these trials that ran one after the other are so far apart that the run was interrupted between.
pub(super) fn in_one_go(trials: &[&TrialRecord]) -> bool {
    let span = |t: &&TrialRecord| (t.started_unix_ms, t.started_unix_ms + t.took.as_nanos() / 1_000_000);
    let mut times: Vec<(u64, u64)> = trials.iter().map(span).collect();
    times.sort_unstable();
    times.windows(2).all(|pair| pair[1].0.saturating_sub(pair[0].1) <= APART)
}

/// Ratio and interval over these blocks, at 95 % and uncorrected; a trial that did not finish counts as in verdicts, as
/// worse than any that did.
fn beside(pair: Pair, blocks: &[Block<'_>]) -> Beside {
    let better = pair.metric.key.metric.better();
    let brackets: Vec<Bracket> = blocks.iter().filter_map(|b| values(b, &pair.metric).bracket(better)).collect();
    let test = SignTest::new(&brackets);
    let have = u64::from(test.blocks());
    let ratio = test.estimate().map(|log| if better == Better::Higher { (-log).exp() } else { log.exp() });
    let few = |need| if have < need { Why::TooFew { have, need } } else { Why::NotReached };
    Beside {
        pair,
        ratio: ratio.map_or_else(|| Reading::Missing(few(1)), Reading::Measured),
        interval: match have {
            2.. => RatioInterval::reading(test.interval(BESIDE), better),
            _ => Reading::Missing(few(2)),
        },
    }
}

fn values(block: &Block<'_>, metric: &MetricName) -> BlockValues {
    let of = |trial: &TrialRecord| Observation::of(trial.ending.outcome, &trial.figure(metric));
    BlockValues { baseline: of(block.baseline), baseline2: block.baseline2.map(of), variant: of(block.variant) }
}

/// The trial's figure, where it has one that counts.
pub fn figure(trial: &TrialRecord, name: &MetricName) -> Option<f64> {
    trial.figure(name).measured().copied()
}

/// Why the pair is not compared: a guard refuses a trial of it, or the two beside each other (METHOD 1.5).
fn refusal(experiment: &Experiment, trials: &[TrialRecord], pair: &Pair, blocks: &[Block<'_>]) -> Option<String> {
    let ours = || blocks.iter().flat_map(|b| [Some(b.variant), Some(b.baseline), b.baseline2]).flatten();
    let refused = ours().flat_map(|t| &t.findings).find(|f| f.severity == Severity::Refusal);
    let arm = |variant: usize| arm(experiment, trials, &experiment.variants()[variant]);
    let (baseline, variant) = (arm(pair.baseline), arm(pair.variant));
    refused
        .map(|finding| finding.message.clone())
        .or_else(|| arms::refusal(&arms::check(&baseline, &variant)))
        .or_else(|| arms::unequal_offer(&baseline, &variant, &pair.metric))
}
