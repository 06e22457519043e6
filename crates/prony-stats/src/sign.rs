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
    /// How far the log-ratios may lie from those for which that is assumed.
    rounding: f64,
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
        Self { least, value, most, law, unimodal: true, rounding: 0.0 }
    }

    /// As [`Self::new`], by the counts only: no p-value or interval rests on an assumption of unimodality. So the test
    /// keeps its level where elapsed time, which depends on the values, decided how many blocks there are.
    pub(crate) fn by_counts<B: Copy + Into<Bracketed>>(brackets: &[B]) -> Self {
        Self::new(brackets).of_counts()
    }

    /// The same by the counts only.
    pub(crate) fn of_counts(self) -> Self {
        Self { unimodal: false, ..self }
    }

    /// The same of log-ratios that are rounded by at most so much, which is at least 0: it is those before that are unimodal.
    pub(crate) fn rounded(self, rounding: f64) -> Self {
        Self { rounding, ..self }
    }

    /// Whether few blocks may rest on the assumption of unimodality.
    pub(crate) const fn is_unimodal(&self) -> bool {
        self.unimodal
    }

    /// The test as it would be of as many blocks as the law has, distributed as these are; whether it may assume unimodality.
    pub(crate) fn projected(&self, law: Law, unimodal: bool) -> Self {
        let [least, value, most] =
            [&self.least, &self.value, &self.most].map(|ends| ends.projected(law.blocks().into()));
        Self { least, value, most, law, unimodal, rounding: self.rounding }
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
            true => beyond_the_range((gap() - self.rounding).max(0.0), self.unrounded(), n),
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
        Self { least, value, most, law: self.law.clone(), ..*self }
    }

    /// How far the blocks reach at most.
    pub(crate) fn range(&self) -> f64 {
        match (self.least.lows.first(), self.most.highs.last()) {
            (Some(low), Some(high)) => high - low,
            _ => 0.0,
        }
    }

    /// The same before they were rounded.
    fn unrounded(&self) -> f64 {
        self.range() + 2.0 * self.rounding
    }

    /// The greatest value below which everything is rejected.
    ///
    /// The tail never falls as `theta` rises, `above` falls and `below` rises, so one pass over the places where
    /// the counts change finds it.
    fn lower(&self, alpha: f64) -> f64 {
        let (n, Ends { lows, highs }) = (self.blocks(), &self.least);
        if self.law.tail(n, 0) > 0.5 * alpha {
            let bounded = self.unimodal && n >= 2 && self.range().is_finite();
            let gap = gap_needed(n, alpha) * self.unrounded() + self.rounding;
            return if bounded { lows[0] - gap } else { f64::NEG_INFINITY };
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
mod tests;
