//! Contrasts: weighted combinations of the logarithms of trials' values, one in each block of a run.
//!
//! A verdict, a share above a floor and leave-one-out compare a variant with another: weight 1 and weight -1. An
//! interaction compares two such comparisons: weights 1, -1, -1, 1. Only the weights differ. The value of a block does
//! not depend on how fast the machine was during that block, as long as its weights add up to zero.
//!
//! [`Contrast::estimate`] describes a contrast: one analysis, no correction. [`compare_family`](super::compare_family)
//! decides several together: interim analyses, one error for all, verdicts.

use serde::{Deserialize, Serialize};

use super::interim::InterimAnalyses;
use super::observe::Observation;
use super::sign::{Bracket, Bracketed, SignTest};
use super::verdict::RatioInterval;
use prony_model::metric::Better;
use prony_model::reading::{Reading, Why};

/// The error of intervals on which no verdict rests: they are at 95 %, uncorrected.
pub const UNCORRECTED: f64 = 0.05;

/// What is less than this share of the largest value is an error of its representation.
const SAME: f64 = 1e-9;

/// One block's data for a contrast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Its trials.
    pub trials: Vec<Observation>,
    /// Combinations of the trials, each with one weight for each trial. The value of the block lies between the least
    /// and the greatest of them.
    pub combinations: Vec<Vec<f64>>,
}

/// A contrast of variants in one metric, block by block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// Which end of the metric's scale is better.
    pub better: Better,
    /// The analyses that are planned; none where the contrast is only described.
    pub analyses: InterimAnalyses,
    /// The blocks in the order in which they ran.
    pub blocks: Vec<Block>,
    /// The largest error of a log-ratio that comes from printed digits or from classes of times: at least 0; infinite
    /// where the digits show nothing.
    #[serde(default)]
    pub resolution: f64,
    /// The same for the A/A check, the baseline compared with itself.
    #[serde(default)]
    pub baseline_resolution: f64,
    /// Whether values are multiples of a step: counts, sizes, numbers as a program prints them.
    #[serde(default)]
    pub stepped: bool,
    /// A guard's refusal, where one refuses the comparison.
    pub refused: Option<String>,
    /// Whether that refusal is a statistical one, which may not stand after more blocks.
    #[serde(default)]
    pub refused_so_far: bool,
}

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The ratio.
    pub ratio: f64,
    /// Its interval.
    pub interval: RatioInterval,
}

/// A contrast that is described: one analysis of all its blocks, not corrected.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated {
    /// Blocks in which every trial has a result.
    pub blocks: u32,
    /// The median of the ratios within blocks.
    pub ratio: Reading<f64>,
    /// Its interval; missing with fewer than 2 blocks.
    pub interval: Reading<RatioInterval>,
}

impl Block {
    /// A variant against each trial of its baseline: one or two.
    pub fn pair(variant: Observation, baselines: &[Observation]) -> Self {
        let trials: Vec<Observation> = [&[variant], baselines].concat();
        let weight = |baseline: usize, trial: usize| match trial {
            0 => 1.0,
            _ if trial == baseline => -1.0,
            _ => 0.0,
        };
        let against = |baseline: usize| (0..trials.len()).map(|trial| weight(baseline, trial)).collect();
        Self { combinations: (1..trials.len()).map(against).collect(), trials }
    }

    /// The block's value in logarithms of cost (a rate's is inverted, an unfinished trial is worse than any); `None`
    /// where a trial of it was none. If a value is missing, it may be any: why it is missing may depend on how large it is.
    pub(crate) fn bracket(&self, better: Better) -> Option<Bracketed> {
        if self.trials.iter().any(|trial| trial.is_no_trial()) {
            return None;
        }
        let Some(costs) = self.costs(better) else {
            let [least, most] = [f64::NEG_INFINITY, f64::INFINITY];
            let all = |low, high| Bracket { low, high };
            return Some(Bracketed { least: all(least, least), value: all(least, most), most: all(most, most) });
        };
        let sum = |weights: &[f64], sign: f64, which: usize| -> f64 {
            let terms = weights.iter().zip(&costs).filter(|(weight, _)| sign * **weight > 0.0);
            terms.map(|(weight, logs)| sign * weight * logs[which]).sum()
        };
        let of = |ours: usize, theirs: usize| {
            Bracket::spanning(self.combinations.iter().map(|w| (sum(w, 1.0, ours), sum(w, -1.0, theirs))))
        };
        Some(Bracketed { least: of(0, 2), value: of(1, 1), most: of(2, 0) })
    }

    fn costs(&self, better: Better) -> Option<Vec<[f64; 3]>> {
        self.trials.iter().map(|trial| trial.log_cost(better)).collect()
    }

    /// The bracket where an unfinished trial has no result, so that its block lies on neither side.
    pub(super) fn bracket_of_finished(&self, better: Better) -> Option<Bracketed> {
        let bracket = self.bracket(better)?;
        Some(if self.has_unfinished() { Bracket::of(0.0, &[]).into() } else { bracket })
    }

    /// Whether one of its trials did not finish.
    pub fn has_unfinished(&self) -> bool {
        self.trials.contains(&Observation::Unfinished)
    }

    /// Trials of positive weight: what is compared.
    pub(super) fn variant(&self) -> impl Iterator<Item = Observation> {
        self.weighted(|weight| weight > 0.0)
    }

    /// Trials of negative weight: what it is compared with.
    pub(super) fn baseline(&self) -> impl Iterator<Item = Observation> {
        self.weighted(|weight| weight < 0.0)
    }

    fn weighted(&self, side: fn(f64) -> bool) -> impl Iterator<Item = Observation> {
        let has = move |trial: &usize| self.combinations.iter().any(|weights| side(weights[*trial]));
        (0..self.trials.len()).filter(has).map(|trial| self.trials[trial])
    }

    /// The baseline's second trial against its first (A/A); `None` where it ran once.
    pub(super) fn baseline_twice(&self) -> Option<Self> {
        let mut trials = self.baseline();
        let (first, second) = (trials.next()?, trials.next()?);
        Some(Self::pair(second, &[first]))
    }
}

impl Contrast {
    /// A contrast that is only described.
    pub fn described(better: Better, blocks: Vec<Block>) -> Self {
        Self {
            better,
            analyses: InterimAnalyses::default(),
            blocks,
            resolution: 0.0,
            baseline_resolution: 0.0,
            stepped: false,
            refused: None,
            refused_so_far: false,
        }
    }

    /// The blocks in which every trial has a result.
    pub fn paired(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.costs(self.better).is_some())
    }

    /// Whether every block has a trial that finished but whose value was not measured.
    pub(super) fn is_unmeasured(&self) -> bool {
        !self.blocks.is_empty() && self.blocks.iter().all(|block| block.trials.contains(&Observation::Unmeasured))
    }

    /// The values of all blocks, of which some may be any; none where no block has a result.
    pub(super) fn brackets(&self) -> Vec<Bracketed> {
        if self.paired().next().is_none() {
            return Vec::new();
        }
        self.blocks.iter().filter_map(|block| block.bracket(self.better)).collect()
    }

    /// By how much, as logarithms, steps may move the first of the blocks: what the test says of few blocks assumes a density,
    /// of which values that are multiples of a step are rounded.
    pub(super) fn rounding(&self, blocks: usize) -> f64 {
        if !self.stepped {
            return 0.0;
        }
        let blocks = || self.blocks.iter().filter(|block| block.bracket(self.better).is_some()).take(blocks);
        let values = || blocks().flat_map(|block| &block.trials).filter_map(|trial| trial.value()).filter(|v| *v > 0.0);
        let (least, most) = values().fold((f64::INFINITY, 0.0f64), |(least, most), v| (least.min(v), most.max(v)));
        // Values that are all equal show no step, but whole numbers have one.
        let step = match least < most {
            true => values().fold(0.0, |step, value| common_step(step, value, most * SAME)),
            false => f64::from(u8::from(least.fract() == 0.0)),
        };
        let weights = |all: &Vec<f64>| all.iter().map(|weight| weight.abs()).sum::<f64>();
        let terms = blocks().flat_map(|block| &block.combinations).map(weights).fold(0.0, f64::max);
        // Each is off by at most half a step, downwards by more as a share.
        -terms * (-0.5 * step / least).ln_1p()
    }

    /// Widens an interval of the log-ratio of reported values by the error of their digits.
    pub(super) fn widened(&self, (low, high): (f64, f64)) -> (f64, f64) {
        if self.resolution.is_infinite() {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        (low - self.resolution, high + self.resolution)
    }

    /// The log-ratio nearest to the estimate at which variants may be equal: 0, or at most the error of the printed
    /// digits away from 0.
    pub(super) fn equal(&self, test: &SignTest) -> f64 {
        test.middle().map_or(0.0, |middle| middle.clamp(-self.resolution, self.resolution))
    }

    /// The ratio that a test estimates, and an interval of its log-ratio, both of the metric and not of its cost.
    pub(super) fn figures(&self, test: &SignTest, interval: (f64, f64)) -> (Reading<f64>, Reading<RatioInterval>) {
        let have = u64::from(test.blocks());
        let missing = |need| if have < need { Why::TooFew { have, need } } else { self.no_ratio() };
        let ratio = test.estimate().map(|log| if self.better == Better::Higher { (-log).exp() } else { log.exp() });
        let interval = RatioInterval::with_numbers(interval, self.better).filter(|_| have >= 2);
        (
            ratio.map_or_else(|| Reading::Missing(missing(1)), Reading::Measured),
            interval.map_or_else(|| Reading::Missing(missing(2)), Reading::Measured),
        )
    }

    /// Why blocks have no ratio, or no bound of it: a trial did not finish, or a value is 0 or may be.
    pub(super) fn no_ratio(&self) -> Why {
        let mut trials = self.blocks.iter().flat_map(|block| &block.trials);
        match (self.blocks.iter().any(Block::has_unfinished), trials.any(|trial| trial.may_be_nothing())) {
            (true, _) => Why::NotReached,
            _ if self.paired().count() < self.brackets().len() => {
                Why::Failed("values are missing, and they may be any".into())
            }
            (false, true) => Why::Failed("the error of the values is as large as the values".into()),
            (false, false) => Why::Failed("a value is 0, so that there is no ratio".into()),
        }
    }

    /// Ratio and interval at error `alpha` (two-sided). A trial that did not finish is worse than any that did.
    pub fn estimate(&self, alpha: f64) -> Estimated {
        let brackets = self.brackets();
        let test = SignTest::new(&brackets).rounded(self.rounding(brackets.len()));
        let (ratio, interval) = self.figures(&test, self.widened(test.interval(alpha)));
        let refused = self.refused.as_deref().map(|why| Why::DoesNotCount(why.into()));
        let blocks = self.paired().count() as u32;
        Estimated { blocks, ratio: unless(&refused, ratio), interval: unless(&refused, interval) }
    }
}

impl Estimated {
    /// Ratio and interval; missing where either is.
    pub fn both(&self) -> Reading<Estimate> {
        match (&self.ratio, &self.interval) {
            (Reading::Measured(ratio), Reading::Measured(interval)) => {
                Reading::Measured(Estimate { ratio: *ratio, interval: *interval })
            }
            (_, Reading::Missing(why)) | (Reading::Missing(why), _) => Reading::Missing(why.clone()),
        }
    }
}

/// The largest step of which both are multiples (Euclid), to within an error; 0 is a multiple of any.
fn common_step(mut a: f64, mut b: f64, error: f64) -> f64 {
    while b > error {
        (a, b) = (b, a % b);
    }
    a
}

/// The value of a contrast; if the contrast is refused, the reason instead.
pub(super) fn unless<T>(refused: &Option<Why>, figure: Reading<T>) -> Reading<T> {
    refused.clone().map_or(figure, Reading::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two levels of each of two factors: the first levels of both, then the second level of the first factor, of the
    /// second factor, of both.
    fn cross(values: [f64; 4]) -> Block {
        let trials = values.map(|value| if value > 0.0 { Observation::Value(value) } else { Observation::Unknown });
        Block { trials: trials.to_vec(), combinations: vec![vec![1.0, -1.0, -1.0, 1.0]] }
    }

    fn interaction(together: f64) -> Estimate {
        let noise = |i: u32| 1.0 + 0.01 * f64::from(i % 3) - 0.01;
        let blocks = (0..12).map(|i| cross([10.0, 20.0 * noise(i), 30.0, 60.0 * together])).collect();
        Contrast::described(Better::Lower, blocks).estimate(0.05).both().measured().copied().unwrap()
    }

    #[test]
    fn factors_that_multiply_do_not_interact() {
        let estimate = interaction(1.0);
        assert!((estimate.ratio - 1.0).abs() < 1e-9);
        assert!(estimate.interval.low < 1.0 && estimate.interval.high.unwrap() > 1.0);
    }

    #[test]
    fn interaction_shows_a_level_that_triples_an_effect() {
        let estimate = interaction(3.0);
        assert!((estimate.ratio - 3.0).abs() < 1e-9 && estimate.interval.low > 2.9);
    }

    #[test]
    fn blocks_with_a_trial_that_says_nothing_are_left_out() {
        let blocks = vec![cross([0.0, 20.0, 30.0, 60.0]); 9];
        let estimated = Contrast::described(Better::Lower, blocks).estimate(0.05);
        assert_eq!(estimated.both(), Reading::Missing(Why::TooFew { have: 0, need: 2 }));
        let value = Observation::Value(1.0);
        let broken = Block::pair(value, &[value, Observation::Interrupted]);
        assert_eq!(broken.bracket(Better::Lower), None);
        assert_eq!(broken.baseline_twice().unwrap().bracket(Better::Lower), None);
        assert!(Block::pair(value, &[value]).bracket(Better::Lower).is_some());
    }

    #[test]
    fn pair_is_the_bracket_of_the_variant_against_both_baselines() {
        let [none, some] = [Observation::Unfinished, Observation::Value(2.0)];
        let zero = Observation::Value(0.0);
        for better in [Better::Lower, Better::Higher] {
            for (variant, first, second) in [
                (some, some, Observation::Value(8.0)),
                (some, none, some),
                (none, some, some),
                (none, none, some),
                (zero, zero, some),
            ] {
                let logs = [variant, first, second].map(|one| one.log_cost(better).unwrap()[1]);
                let found = Block::pair(variant, &[first, second]).bracket(better);
                assert_eq!(found, Some(Bracket::of(logs[0], &logs[1..]).into()), "{variant:?} {first:?} {second:?}");
            }
        }
    }

    #[test]
    fn weights_that_share_a_trial_out_give_the_geometric_mean() {
        let trials = [6.0, 2.0, 8.0].map(Observation::Value).to_vec();
        let block = Block { trials, combinations: vec![vec![1.0, -0.5, -0.5]] };
        let Bracket { low, high } = block.bracket(Better::Lower).unwrap().value;
        assert!((low - 1.5f64.ln()).abs() < 1e-12 && low == high);
    }

    #[test]
    fn steps_of_values_round_the_ratios_of_their_blocks() {
        let of = |stepped: bool, values: &[[f64; 3]]| {
            let block = |[v, b, b2]: &[f64; 3]| Block::pair(Observation::Value(*v), &[*b, *b2].map(Observation::Value));
            let blocks: Vec<Block> = values.iter().map(block).collect();
            let all = blocks.len();
            Contrast { stepped, ..Contrast::described(Better::Lower, blocks) }.rounding(all)
        };
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
        near(of(true, &[[11.0, 10.0, 10.0]; 6]), -2.0 * 0.95f64.ln());
        near(of(true, &[[0.011, 0.01, 0.01]; 6]), -2.0 * 0.95f64.ln());
        near(of(true, &[[8_192.0, 40_960.0, 36_864.0]]), -2.0 * 0.75f64.ln());
        near(of(true, &[[10.0, 0.0, 30.0]]), -2.0 * 0.5f64.ln());
        near(of(true, &[[1.000_01e9, 1.000_03e9, 1.000_06e9]]), 1e-5);
        near(of(true, &[[std::f64::consts::PI, 2.0f64.sqrt(), 5f64.ln()]]), 0.0);
        near(of(true, &[[10.0; 3]; 6]), -2.0 * 0.95f64.ln());
        near(of(true, &[[0.5; 3]; 6]), 0.0);
        near(of(true, &[[0.0; 3]; 6]), 0.0);
        near(of(false, &[[11.0, 10.0, 10.0]]), 0.0);
    }

    #[test]
    fn refused_contrast_has_no_figures() {
        let blocks = vec![Block::pair(Observation::Value(2.0), &[Observation::Value(1.0)]); 6];
        let contrast =
            Contrast { refused: Some("the two differ".into()), ..Contrast::described(Better::Lower, blocks) };
        let found = contrast.estimate(0.05);
        assert_eq!(found.both(), Reading::Missing(Why::DoesNotCount("the two differ".into())));
        assert_eq!((found.blocks, found.ratio.measured()), (6, None));
    }

    #[test]
    fn one_block_has_a_ratio_and_no_interval() {
        let block = Block::pair(Observation::Value(2.0), &[Observation::Value(4.0)]);
        let of = |better| Contrast::described(better, vec![block.clone()]).estimate(0.05);
        assert_eq!(of(Better::Lower).ratio, Reading::Measured(0.5));
        assert_eq!(of(Better::Higher).ratio, Reading::Measured(0.5));
        assert_eq!(of(Better::Lower).interval, Reading::Missing(Why::TooFew { have: 1, need: 2 }));
        let none = Contrast::described(Better::Lower, Vec::new()).estimate(0.05);
        assert_eq!(none.ratio, Reading::Missing(Why::TooFew { have: 0, need: 1 }));
    }
}
