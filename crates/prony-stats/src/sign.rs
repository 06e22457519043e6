//! The exact sign test against both baselines of a block, its estimate and its interval.
//!
//! In a block the variant may lie above both baselines, below both, or between them. Where
//! `P(variant > baseline) = 1/2`, that is, where the median of the within-block log-ratio is 0,
//! `P(above both) - P(below both) = E[F^2] - E[(1 - F)^2] = E[2F - 1] = 0` whatever the variants' spread
//! and skew: so, of the blocks that lie outside, the number above is binomial with 1/2 (see [`Law`]). Shifting the
//! variant by `theta` gives the interval, and the value that balances the two counts the estimate
//! (the principle of Hodges and Lehmann, 1963): the median of all within-block log-ratios.
//!
//! With few blocks the binomial cannot go below `2^(1 - n)`. For smaller p-values the test uses one
//! assumption: the log-ratio is unimodal about its median. Then all `n` lie on one side of the truth
//! at a distance of at least `c` times their own range with probability at most `(2 (1 + c))^(1 - n)`
//! (equality for the uniform distribution).

use super::p_values::Law;

/// The result of one block: the variant's least and greatest log-ratio to its baselines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// Against the worst baseline; minus infinity where a baseline did not finish and the variant did.
    pub low: f64,
    /// Against the best baseline; infinity where the variant did not finish.
    pub high: f64,
}

impl Bracket {
    /// From logarithms of cost; `+inf` did not finish, `-inf` is a cost of zero. Without a baseline there is no result.
    pub fn of(variant: f64, baselines: &[f64]) -> Self {
        Self::spanning(baselines.iter().map(|baseline| (variant, *baseline)))
    }

    /// From several differences, each of two logarithms of cost as in [`Self::of`]: the least and the greatest.
    pub(super) fn spanning(differences: impl Iterator<Item = (f64, f64)>) -> Self {
        let each = differences.map(|(variant, baseline)| Self::between(variant, baseline));
        let all = each.reduce(|a, b| Self { low: a.low.min(b.low), high: a.high.max(b.high) });
        all.unwrap_or(Self { low: f64::NEG_INFINITY, high: f64::INFINITY })
    }

    fn between(variant: f64, baseline: f64) -> Self {
        if variant == baseline {
            // Of two that did not finish neither is known to be worse; two zeros are equal.
            let unknown = if variant == f64::INFINITY { f64::INFINITY } else { 0.0 };
            return Self { low: -unknown, high: unknown };
        }
        Self { low: variant - baseline, high: variant - baseline }
    }
}

/// A block's bracket where values are known to within an error. What is claimed of the variant rests on the end that says
/// least for it: that an error widens one side only must not move the balance of the counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracketed {
    /// With the variant at its least and its baselines at their most.
    pub least: Bracket,
    /// As measured.
    pub value: Bracket,
    /// With the variant at its most and its baselines at their least.
    pub most: Bracket,
}

impl From<Bracket> for Bracketed {
    /// Of values without an error.
    fn from(value: Bracket) -> Self {
        Self { least: value, value, most: value }
    }
}

/// The ends of all blocks' brackets, each sorted.
#[derive(Clone, Debug, PartialEq)]
struct Ends {
    lows: Vec<f64>,
    highs: Vec<f64>,
}

impl Ends {
    fn of(brackets: impl Iterator<Item = Bracket>) -> Self {
        let (mut lows, mut highs): (Vec<f64>, Vec<f64>) = brackets.map(|bracket| (bracket.low, bracket.high)).unzip();
        lows.sort_by(f64::total_cmp);
        highs.sort_by(f64::total_cmp);
        Self { lows, highs }
    }

    /// Blocks above and below `theta`.
    fn counts(&self, theta: f64) -> (u32, u32) {
        let above = self.lows.len() - self.lows.partition_point(|low| *low <= theta);
        let below = self.highs.partition_point(|high| *high < theta);
        (above as u32, below as u32)
    }

    /// Blocks above `theta`, and those below it or at it: what speaks against the claim that the variant lies above.
    fn above(&self, theta: f64) -> (u32, u32) {
        let at_or_below = self.highs.partition_point(|high| *high <= theta);
        (self.counts(theta).0, at_or_below as u32)
    }

    fn mirrored(&self) -> Self {
        let flip = |values: &[f64]| values.iter().rev().map(|v| -v).collect();
        Self { lows: flip(&self.highs), highs: flip(&self.lows) }
    }

    /// Of so many blocks, distributed as these are.
    fn projected(&self, blocks: u64) -> Self {
        let of = self.lows.len() as u64;
        // The quantiles at the middle of each of so many equal parts.
        let spread = |values: &[f64]| (0..blocks).map(|i| values[((2 * i + 1) * of / (2 * blocks)) as usize]).collect();
        Self { lows: spread(&self.lows), highs: spread(&self.highs) }
    }
}

/// The sign test on the brackets of a number of blocks.
#[derive(Clone, Debug)]
pub struct SignTest {
    /// What claims that the variant lies above rest on.
    least: Ends,
    value: Ends,
    /// What claims that the variant lies below rest on.
    most: Ends,
    law: Law,
    /// Whether few blocks may rest on the assumption of unimodality.
    unimodal: bool,
}

impl SignTest {
    /// From one bracket a block, in any order; the number of blocks outside is taken as given.
    pub fn new<B: Copy + Into<Bracketed>>(brackets: &[B]) -> Self {
        Self::with_law(brackets, Law::conditional(brackets.len() as u32))
    }

    /// From one bracket a block, in any order, and the law for so many blocks.
    pub(crate) fn with_law<B: Copy + Into<Bracketed>>(brackets: &[B], law: Law) -> Self {
        let ends = |pick: fn(Bracketed) -> Bracket| Ends::of(brackets.iter().map(|bracket| pick((*bracket).into())));
        let [least, value, most] = [ends(|all| all.least), ends(|all| all.value), ends(|all| all.most)];
        Self { least, value, most, law, unimodal: true }
    }

    /// As [`Self::new`], by the counts only: no p-value or interval rests on an assumption of unimodality. So the test
    /// keeps its level where elapsed time, which depends on the values, decided how many blocks there are.
    pub(crate) fn by_counts<B: Copy + Into<Bracketed>>(brackets: &[B]) -> Self {
        Self { unimodal: false, ..Self::new(brackets) }
    }

    /// The test as it would be of as many blocks as the law has, distributed as these are.
    pub(crate) fn projected(&self, law: Law) -> Self {
        let [least, value, most] =
            [&self.least, &self.value, &self.most].map(|ends| ends.projected(law.blocks().into()));
        Self { least, value, most, law, unimodal: true }
    }

    /// Blocks.
    pub fn blocks(&self) -> u32 {
        self.value.lows.len() as u32
    }

    /// The log-ratio at which as many blocks lie above as below, by the values as measured; `None` without blocks or where
    /// half of them have no finite value.
    pub fn estimate(&self) -> Option<f64> {
        self.middle().filter(|value| value.is_finite())
    }

    /// As [`Self::estimate`], infinite where half of the blocks are, all on one side.
    pub(crate) fn middle(&self) -> Option<f64> {
        let mut all: Vec<f64> = self.value.lows.iter().chain(&self.value.highs).copied().collect();
        all.sort_by(f64::total_cmp);
        let middle = all.len().checked_sub(1)? / 2;
        let value = 0.5 * (all[middle] + all[middle + 1]);
        (!value.is_nan()).then_some(value)
    }

    /// Blocks above and below `theta`, by the values as measured.
    pub fn counts(&self, theta: f64) -> (u32, u32) {
        self.value.counts(theta)
    }

    /// One-sided p-values of "the median log-ratio is `theta`": against one above it, and against one below it. What the
    /// true values would give is never larger, since the tail falls as the counted values rise. Blocks at `theta` itself, as
    /// values that repeat give, speak against both: otherwise a few others would show a difference where most show none.
    fn tails(&self, theta: f64) -> (f64, f64) {
        let ((above, not_above), (below, not_below)) = (self.least.above(theta), self.most.mirrored().above(-theta));
        let n = self.blocks();
        let beyond = |all: bool, gap: &dyn Fn() -> f64| match all && n >= 2 && self.unimodal {
            true => beyond_the_range(gap(), self.range(), n),
            false => 1.0,
        };
        (
            self.law.tail(above, not_above) * beyond(above == n, &|| self.least.lows[0] - theta),
            self.law.tail(below, not_below) * beyond(below == n, &|| theta - self.most.highs[n as usize - 1]),
        )
    }

    /// Two-sided p-value of "the median log-ratio is `theta`".
    pub fn p(&self, theta: f64) -> f64 {
        let (above, below) = self.tails(theta);
        (2.0 * above.min(below)).min(1.0)
    }

    /// On which side of `theta` the median lies by [`Self::p`]: 1 above, -1 below, 0 where neither is likelier.
    pub(crate) fn side(&self, theta: f64) -> f64 {
        let (above, below) = self.tails(theta);
        if above == below { 0.0 } else { (below - above).signum() }
    }

    /// The interval at error `alpha` (two-sided), with the assumption of unimodality where `n` is too small for the
    /// binomial by itself. Ends may be infinite.
    pub fn interval(&self, alpha: f64) -> (f64, f64) {
        (self.lower(alpha), -self.mirrored().lower(alpha))
    }

    fn mirrored(&self) -> Self {
        let [least, value, most] = [&self.most, &self.value, &self.least].map(Ends::mirrored);
        Self { least, value, most, law: self.law.clone(), unimodal: self.unimodal }
    }

    /// How far the blocks reach at most.
    pub(crate) fn range(&self) -> f64 {
        match (self.least.lows.first(), self.most.highs.last()) {
            (Some(low), Some(high)) => high - low,
            _ => 0.0,
        }
    }

    /// The greatest value below which everything is rejected.
    ///
    /// The tail never falls as `theta` rises, `above` falls and `below` rises, so one pass over the places where
    /// the counts change finds it.
    fn lower(&self, alpha: f64) -> f64 {
        let (n, Ends { lows, highs }) = (self.blocks(), &self.least);
        if self.law.tail(n, 0) > 0.5 * alpha {
            let bounded = self.unimodal && n >= 2 && self.range().is_finite();
            return if bounded { lows[0] - gap_needed(n, alpha) * self.range() } else { f64::NEG_INFINITY };
        }
        let (mut passed_low, mut passed_high) = (0, 0);
        loop {
            let next = match (lows.get(passed_low), highs.get(passed_high)) {
                (Some(low), Some(high)) => low.min(*high),
                (_, Some(high)) => *high,
                _ => return f64::INFINITY,
            };
            passed_low += lows[passed_low..].iter().take_while(|low| **low <= next).count();
            passed_high += highs[passed_high..].iter().take_while(|high| **high <= next).count();
            let (above, below) = (n - passed_low as u32, passed_high as u32);
            if self.law.tail(above, below) > 0.5 * alpha {
                return next;
            }
        }
    }
}

/// How much less likely than "all on one side" it is that all also lie `gap` away, for a unimodal log-ratio.
fn beyond_the_range(gap: f64, range: f64, n: u32) -> f64 {
    // Where a trial did not finish there is no range, and nothing lies beyond it.
    if !range.is_finite() {
        return 1.0;
    }
    let share = if range > 0.0 { range / (range + gap) } else { 0.0 };
    share.powi(n as i32 - 1)
}

/// The distance beyond the extremes, in ranges, that error `alpha` takes with `n` blocks; 0 where the binomial suffices.
pub fn gap_needed(n: u32, alpha: f64) -> f64 {
    if n < 2 {
        return f64::INFINITY;
    }
    (0.5 * alpha.powf(-1.0 / f64::from(n - 1)) - 1.0).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::binomial::fair_tail;
    use super::super::simulation::Rng;
    use super::*;
    use crate::time_budget::Budget;
    use prony_model::units::Nanos;
    use proptest::prelude::*;

    fn test_of(pairs: &[(f64, f64)]) -> SignTest {
        SignTest::new(&pairs.iter().map(|(low, high)| Bracket { low: *low, high: *high }).collect::<Vec<_>>())
    }

    fn by_counts(pairs: &[(f64, f64)]) -> SignTest {
        SignTest { unimodal: false, ..test_of(pairs) }
    }

    /// Every assignment of three values to variant, baseline and baseline in each block: the law of identical variants.
    #[test]
    fn identical_variants_are_rejected_no_more_than_promised_by_enumeration() {
        let n = 8u32;
        // The three values are 0, 1 and 2.5, so that the variants are skewed.
        let bracket = |rank: u32| match rank {
            0 => (-2.5, -1.0),
            1 => (-1.5, 1.0),
            _ => (1.5, 2.5),
        };
        let law = Law::tabulated(n);
        for alpha in [0.05, 0.02, 0.01] {
            let rejects = |word: &u32| {
                let pairs: Vec<_> = (0..n).map(|block| bracket(word / 3u32.pow(block) % 3)).collect();
                let (above, below) = test_of(&pairs).counts(0.0);
                2.0 * law.tail(above.max(below), above.min(below)) <= alpha
            };
            let rejected = (0..3u32.pow(n)).filter(rejects).count();
            let rate = rejected as f64 / f64::from(3u32.pow(n));
            assert!(rate <= alpha && rate > 0.2 * alpha, "{alpha}: {rate}");
        }
    }

    /// All sequences of blocks above and below, where those above take other times than those below, so that how many
    /// fit into a budget depends on what is tested. The level holds for any such times, drawn or fixed.
    #[test]
    fn a_time_budget_keeps_the_level_though_signs_decide_how_many_blocks_it_allows() {
        let most = 14usize;
        let mut rng = Rng::new(11);
        let mut draw = |of: u64| (0..most).map(|_| 1 + rng.below(of as usize) as u64).collect::<Vec<u64>>();
        let mut settings = vec![(vec![100; most], vec![1; most]), (vec![1; most], vec![9; most])];
        settings.extend((0..20).map(|i| (draw(1 + 3 * i), draw(30))));
        for (above, below) in &settings {
            for share in [0.3, 0.5, 0.8] {
                let all: u64 = above.iter().chain(below).sum();
                let ps = ps_within(all as f64 / 2.0 * share, above, below);
                for alpha in [0.2, 0.05, 0.025, 0.01] {
                    let rejected = ps.iter().filter(|p| **p <= alpha).count() as f64 / ps.len() as f64;
                    assert!(rejected <= alpha + 1e-12, "{above:?} {below:?}, {share}: {rejected} at {alpha}");
                }
            }
        }
    }

    /// The p-value at the end of a budget for each sequence of blocks above and below, all equally likely; `above` and
    /// `below` are the times of the first, second ... of either kind.
    fn ps_within(time: f64, above: &[u64], below: &[u64]) -> Vec<f64> {
        let p = |word: u32| {
            let (mut budget, mut clock) = (Budget::new(Nanos::from_nanos(time as u64)), Nanos::ZERO);
            let mut taken = [0usize; 2];
            for block in 0..above.len() {
                if !budget.allows_another(clock, 0.0) {
                    break;
                }
                let side = (word >> block & 1) as usize;
                let took = Nanos::from_nanos([below, above][side][taken[side]]);
                (clock, taken[side]) = (clock + took, taken[side] + 1);
                budget.block(took);
            }
            let pairs: Vec<(f64, f64)> =
                [(-2.0, -1.0), (1.0, 2.0)].iter().zip(taken).flat_map(|(p, n)| vec![*p; n]).collect();
            let brackets = pairs.iter().map(|(low, high)| Bracket { low: *low, high: *high });
            SignTest::by_counts(&brackets.collect::<Vec<_>>()).p(0.0)
        };
        (0..1u32 << above.len()).map(p).collect()
    }

    #[test]
    fn by_counts_no_gap_beyond_the_range_counts() {
        let pairs = [(1.0, 1.1), (1.2, 1.3), (1.0, 1.05), (1.1, 1.2), (1.05, 1.3), (1.2, 1.25)];
        let brackets: Vec<Bracket> = pairs.iter().map(|(low, high)| Bracket { low: *low, high: *high }).collect();
        let (counts, unimodal) = (SignTest::by_counts(&brackets), test_of(&pairs));
        assert!((counts.p(0.0) - 2f64.powi(-5)).abs() < 1e-12);
        assert!(unimodal.p(0.0) < 1e-3);
        assert_eq!(counts.interval(0.01), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(counts.interval(0.05), (1.0, 1.3));
        assert!(unimodal.interval(0.01).0 > 0.0);
    }

    /// Identical variants, of which the baseline's values may be far larger than measured, as its threads ran on when they were
    /// read and the variant's slept. That no block can lie above any more is no sign that the variant lies below.
    #[test]
    fn an_error_of_one_variant_is_no_difference() {
        let ranks = [(-2.0, -1.0), (-1.0, 1.0), (1.0, 2.0)];
        let bracketed = |n: usize| {
            let (low, high) = ranks[n % 3];
            let (value, lower) = (Bracket { low, high }, Bracket { low: low - 9.0, high: high - 9.0 });
            Bracketed { least: lower, value, most: value }
        };
        for blocks in [12, 30] {
            let test = SignTest::new(&(0..blocks).map(bracketed).collect::<Vec<_>>());
            let (low, high) = test.interval(0.05);
            assert!(test.p(0.0) > 0.9 && low < 0.0 && high > 0.0, "{} in {low} to {high}", test.p(0.0));
            assert_eq!(test.estimate(), Some(0.0));
        }
    }

    #[test]
    fn variants_of_unequal_spread_keep_the_level_where_permuting_labels_would_not() {
        // A variant that is far above or far below two close baselines, each with 1/2.
        let n = 6u32;
        let (mut permuted, mut signed) = (0u32, 0u32);
        for word in 0..1u32 << n {
            let above = word.count_ones();
            let extreme = above == 0 || above == n;
            // Of 3^6 assignments of labels, the most extreme two give the permutation test p = 0.0027.
            permuted += u32::from(extreme && 2.0 * 3f64.powi(-(n as i32)) <= 0.01);
            let pairs: Vec<_> = (0..n).map(|b| if word >> b & 1 == 1 { (9.0, 10.0) } else { (-10.0, -9.0) }).collect();
            signed += u32::from(by_counts(&pairs).interval(0.01).0 > 0.0);
        }
        let rate = |hits: u32| f64::from(hits) / f64::from(1u32 << n);
        assert!(rate(permuted) > 0.03, "the trap: {}", rate(permuted));
        assert_eq!(signed, 0);
    }

    #[test]
    fn the_interval_is_what_the_test_does_not_reject() {
        let pairs = [
            (-0.3, 0.1),
            (0.2, 0.4),
            (0.1, 0.15),
            (-0.6, -0.5),
            (0.3, 0.9),
            (0.0, 0.2),
            (0.25, 0.3),
            (0.4, 0.5),
            (0.1, 0.3),
            (-0.1, 0.0),
            (0.2, 0.8),
        ];
        let test = test_of(&pairs);
        for alpha in [0.5, 0.1, 0.05, 0.01, 0.002] {
            let (low, high) = test.interval(alpha);
            for step in -400..400 {
                let theta = f64::from(step) / 200.0 + 0.000_1;
                let inside = low <= theta && theta <= high;
                let (above, below) = test.counts(theta);
                let rejected = fair_tail(below, above + below).min(fair_tail(above, above + below)) <= 0.5 * alpha;
                if fair_tail(0, 11) <= 0.5 * alpha {
                    assert_eq!(inside, !rejected, "alpha {alpha}, theta {theta}");
                }
            }
        }
    }

    #[test]
    fn the_estimate_balances_the_counts() {
        let test = test_of(&[(1.0, 2.0), (3.0, 5.0), (-1.0, 4.0)]);
        assert_eq!(test.estimate(), Some(2.5));
        let (above, below) = test.counts(2.5);
        assert_eq!(above, below);
        assert_eq!(test_of(&[]).estimate(), None);
        assert_eq!(test_of(&[(f64::NEG_INFINITY, f64::INFINITY)]).estimate(), None);
    }

    /// The bound `(2 (1 + c))^(1 - n)` is met by the uniform distribution: by integration over the largest value.
    #[test]
    fn the_gap_is_exact_for_uniform_noise() {
        for n in [4u32, 6, 9] {
            for alpha in [0.01, 0.001] {
                let c = gap_needed(n, alpha);
                if c == 0.0 {
                    continue;
                }
                // All on one side, and the least at least c ranges from 0: min >= max c / (1 + c).
                let q = c / (1.0 + c);
                let steps = 20_000;
                let density = |m: f64| f64::from(n) * (m * (1.0 - q)).powi(n as i32 - 1);
                let area: f64 = (0..steps).map(|i| density((f64::from(i) + 0.5) / f64::from(steps))).sum();
                let probability = 2.0 * 0.5f64.powi(n as i32) * area / f64::from(steps);
                assert!((probability / alpha - 1.0).abs() < 1e-6, "n {n}: {probability}");
            }
        }
    }

    #[test]
    fn few_blocks_need_a_gap_and_enough_blocks_none() {
        assert_eq!(gap_needed(6, 0.05), 0.0);
        assert!(gap_needed(6, 0.0025) > 0.6 && gap_needed(6, 0.0025) < 0.7);
        assert_eq!(gap_needed(10, 0.0025), 0.0);
        assert_eq!(gap_needed(1, 0.05), f64::INFINITY);
        let tenfold: Vec<_> = [2.25, 2.3, 2.28, 2.31, 2.35, 2.27].iter().map(|d| (d - 0.02, d + 0.02)).collect();
        assert!(test_of(&tenfold).interval(1e-4).0 > 1.0);
        assert_eq!(by_counts(&tenfold).interval(1e-4).0, f64::NEG_INFINITY);
    }

    #[test]
    fn censored_values_pair_as_worse_than_any() {
        let inf = f64::INFINITY;
        assert_eq!(Bracket::of(inf, &[1.0, 2.0]), Bracket { low: inf, high: inf });
        assert_eq!(Bracket::of(1.0, &[inf, inf]), Bracket { low: -inf, high: -inf });
        assert_eq!(Bracket::of(1.0, &[inf, 3.0]), Bracket { low: -inf, high: -2.0 });
        assert_eq!(Bracket::of(inf, &[inf, 3.0]), Bracket { low: -inf, high: inf });
        assert_eq!(Bracket::of(1.0, &[]), Bracket { low: -inf, high: inf });
        assert_eq!(Bracket::of(-inf, &[-inf, -inf]), Bracket { low: 0.0, high: 0.0 });
    }

    #[test]
    fn what_never_finishes_lies_beyond_no_range() {
        let (inf, alpha) = (f64::INFINITY, 0.001);
        let never = test_of(&[(inf, inf); 6]);
        assert_eq!(never.p(0.0), 2f64.powi(-5));
        assert_eq!(never.interval(alpha).0, f64::NEG_INFINITY);
        let once = test_of(&[(1.0, 1.1), (1.0, 1.2), (1.1, 1.2), (1.0, 1.3), (1.0, inf), (1.2, 1.3)]);
        assert_eq!((once.p(0.0), once.interval(alpha).0), (2f64.powi(-5), f64::NEG_INFINITY));
    }

    #[test]
    fn equal_values_everywhere_give_a_point() {
        let same = test_of(&[(0.0, 0.0); 8]);
        assert_eq!(same.interval(0.05), (0.0, 0.0));
        assert_eq!((same.p(0.0), same.estimate()), (1.0, Some(0.0)));
        assert_eq!(test_of(&[(0.5, 0.5); 6]).p(0.0), 0.0);
    }

    fn log_cost() -> impl Strategy<Value = f64> {
        prop_oneof![9 => -3.0..3.0f64, 1 => Just(f64::INFINITY)]
    }

    /// The least, the measured, the greatest and the true logarithm of a cost.
    type Uncertain = [f64; 4];

    fn uncertain() -> impl Strategy<Value = Uncertain> {
        let error = || prop_oneof![Just(0.0), 0.0..2.0f64];
        (log_cost(), error(), error(), 0.0..=1.0f64).prop_map(|(value, less, more, truth)| {
            if value.is_infinite() {
                return [value; 4];
            }
            [value - less, value, value + more, value - less + truth * (less + more)]
        })
    }

    fn block() -> impl Strategy<Value = (f64, f64, f64)> {
        (log_cost(), log_cost(), log_cost())
    }

    fn brackets(blocks: &[(f64, f64, f64)]) -> Vec<Bracket> {
        blocks.iter().map(|(v, b, b2)| Bracket::of(*v, &[*b, *b2])).collect()
    }

    proptest! {
        /// Whatever the true values are within their bounds, they would have rejected what the test rejects.
        #[test]
        fn an_error_of_values_only_weakens_claims(
            blocks in prop::collection::vec((uncertain(), uncertain(), uncertain()), 2..14), alpha in 0.0005..0.2f64,
        ) {
            let bracket = |(v, b, b2): &(Uncertain, Uncertain, Uncertain), ours: usize, theirs: usize| {
                Bracket::of(v[ours], &[b[theirs], b2[theirs]])
            };
            let truth: Vec<Bracket> = blocks.iter().map(|block| bracket(block, 3, 3)).collect();
            let known: Vec<Bracketed> = (blocks.iter())
                .map(|block| Bracketed { least: bracket(block, 0, 2), value: bracket(block, 1, 1), most: bracket(block, 2, 0) })
                .collect();
            let law = || Law::tabulated(blocks.len() as u32);
            for (exact, bounded) in [
                (SignTest::new(&truth), SignTest::new(&known)),
                (SignTest::by_counts(&truth), SignTest::by_counts(&known)),
                (SignTest::with_law(&truth, law()), SignTest::with_law(&known, law())),
            ] {
                prop_assert!(bounded.p(0.0) >= exact.p(0.0) * (1.0 - 1e-9));
                let (inner, outer) = (exact.interval(alpha), bounded.interval(alpha));
                prop_assert!(outer.0 <= inner.0 && outer.1 >= inner.1);
            }
        }

        #[test]
        fn p_and_interval_agree(blocks in prop::collection::vec(block(), 2..20), alpha in 0.0005..0.2f64) {
            let test = SignTest::new(&brackets(&blocks));
            let (low, high) = test.interval(alpha);
            prop_assert!(low <= high);
            let excluded = low > 0.0 || high < 0.0;
            prop_assert_eq!(excluded, test.p(0.0) <= alpha * (1.0 + 1e-12), "p {} of {}", test.p(0.0), alpha);
        }

        /// Of values that repeat, many lie exactly at 0.
        #[test]
        fn p_and_interval_agree_on_values_that_repeat(
            values in prop::collection::vec((0..3u32, 0..3u32, 0..3u32), 2..30), alpha in 0.0005..0.2f64,
        ) {
            let of = |(variant, one, other): &(u32, u32, u32)| Bracket::of((*variant).into(), &[(*one).into(), (*other).into()]);
            let test = SignTest::by_counts(&values.iter().map(of).collect::<Vec<_>>());
            let (low, high) = test.interval(alpha);
            let excluded = low > 0.0 || high < 0.0;
            prop_assert_eq!(excluded, test.p(0.0) <= alpha * (1.0 + 1e-12), "p {} of {}, {} to {}", test.p(0.0), alpha, low, high);
        }

        #[test]
        fn swapping_the_variants_mirrors_everything(pairs in prop::collection::vec((-3.0..3.0f64, 0.0..2.0f64), 2..20)) {
            let forth: Vec<_> = pairs.iter().map(|(low, width)| (*low, low + width)).collect();
            let back: Vec<_> = forth.iter().map(|(low, high)| (-high, -low)).collect();
            let (forth, back) = (test_of(&forth), test_of(&back));
            let (f, b) = (forth.interval(0.05), back.interval(0.05));
            prop_assert!((f.0 + b.1).abs() < 1e-9 && (f.1 + b.0).abs() < 1e-9);
            prop_assert_eq!(forth.p(0.0), back.p(0.0));
            prop_assert!((forth.estimate().unwrap() + back.estimate().unwrap()).abs() < 1e-9);
        }

        #[test]
        fn shifting_the_variant_shifts_estimate_and_interval(
            pairs in prop::collection::vec((-3.0..3.0f64, 0.0..2.0f64), 2..20), by in -5.0..5.0f64,
        ) {
            let still: Vec<_> = pairs.iter().map(|(low, width)| (*low, low + width)).collect();
            let moved: Vec<_> = still.iter().map(|(low, high)| (low + by, high + by)).collect();
            let (still, moved) = (test_of(&still), test_of(&moved));
            let (s, m) = (still.interval(0.02), moved.interval(0.02));
            prop_assert!((m.0 - s.0 - by).abs() < 1e-9 && (m.1 - s.1 - by).abs() < 1e-9);
            prop_assert!((moved.estimate().unwrap() - still.estimate().unwrap() - by).abs() < 1e-9);
        }

        #[test]
        fn variant_that_stops_finishing_never_ranks_better(
            blocks in prop::collection::vec(block(), 2..20), which in 0usize..20, alpha in 0.001..0.2f64,
        ) {
            let before = SignTest::by_counts(&brackets(&blocks));
            let mut worse = blocks.clone();
            let place = which % worse.len();
            worse[place].0 = f64::INFINITY;
            let after = SignTest::by_counts(&brackets(&worse));
            prop_assert!(after.interval(alpha).1 >= before.interval(alpha).1);
            let (above, below) = before.counts(0.0);
            let (above_after, below_after) = after.counts(0.0);
            prop_assert!(below_after <= below, "{above} {above_after}");
        }

        #[test]
        fn the_stricter_level_has_the_wider_interval(blocks in prop::collection::vec(block(), 2..20), alpha in 0.001..0.1f64) {
            let test = SignTest::new(&brackets(&blocks));
            let (wide, narrow) = (test.interval(alpha / 3.0), test.interval(alpha));
            prop_assert!(wide.0 <= narrow.0 && wide.1 >= narrow.1);
        }
    }
}
