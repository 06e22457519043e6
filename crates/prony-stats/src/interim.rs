//! Plans the interim analyses after which a run may stop: they are fixed in advance, each with its share of the error
//! (METHOD 4.7).
//!
//! The shares add up to one, and the intervals of all interim analyses and all comparisons hold jointly with the
//! promised probability. Therefore an interim analysis may be used for any decision: to stop on a difference, to stop
//! because an interval has become narrow enough, or to continue.

use serde::{Deserialize, Serialize};

use super::sign::gap_needed;

/// No verdict before so many complete blocks.
pub const MIN_BLOCKS: u32 = 6;

/// Each interim analysis but the first comes at about so many times the blocks of the one before.
const STEP: f64 = 1.7;

/// The share of the error that the closing analysis of a run with a time budget has; its interim analyses share the
/// other half.
pub const CLOSING: f64 = 0.5;

/// The interim analyses of a run, in rising order.
///
/// A run with a time budget ends after a number of blocks that is not known beforehand. Its interim analyses lie at
/// block counts that depend on nothing, with shares that depend on nothing; where its time ends there is one closing
/// analysis of all its blocks, whose share is reserved for it. `docs/verdicts.md` has the argument for why the end may
/// depend on durations, also where duration is the metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterimAnalyses {
    at: Vec<u32>,
    /// The closing analysis of a run with a time budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    closing: Option<Closing>,
}

/// The closing analysis of a run with a time budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Closing {
    /// The time has not ended: its share is reserved.
    Ahead,
    /// The time has ended.
    Due,
}

impl InterimAnalyses {
    /// Interim analyses for a run of `min` to `max` blocks: the last at `max`, each before it at about 1/1.7 of the next, the
    /// first at `min` or 6, whichever is more. Where `max` is less than 1.3 times that, it is the only one: blocks that run must
    /// count. Empty where `max` is below 6: then there is no verdict.
    pub fn new(min: u32, max: u32) -> Self {
        let first = min.max(MIN_BLOCKS);
        let mut at = Vec::new();
        let mut next = max;
        while f64::from(next) > f64::from(first) * 1.3 {
            at.push(next);
            next = (f64::from(next) / STEP).round() as u32;
        }
        if max >= MIN_BLOCKS {
            at.push(if at.is_empty() { max } else { first });
        }
        at.reverse();
        Self { at, closing: None }
    }

    /// Interim analyses of a run with a time budget: the first at `min` or 6 blocks, whichever is more, each further one
    /// at about 1.7 times as many, as long as they are fewer than `max`, at which such a run ends in any case. Their
    /// shares are `1/4, 1/12, 1/24 ...`, 1/2 in all; the closing analysis has the other half.
    pub fn timed(min: u32, max: u32) -> Self {
        let next = |at: &u32| Some((f64::from(*at) * STEP).round() as u32);
        let rising = std::iter::successors(Some(min.max(MIN_BLOCKS)), next);
        let at = rising.take_while(|at| *at <= max && (*at < max || *at == min.max(MIN_BLOCKS))).collect();
        Self { at, closing: (max >= MIN_BLOCKS).then_some(Closing::Ahead) }
    }

    /// The same when the time has ended: the closing analysis is due. Nothing changes where there is none.
    #[must_use]
    pub fn ended(self) -> Self {
        Self { closing: self.closing.map(|_| Closing::Due), ..self }
    }

    /// Whether a time budget ends the run.
    pub const fn is_timed(&self) -> bool {
        self.closing.is_some()
    }

    /// The share of the closing analysis, where it is due.
    pub fn closing(&self) -> Option<f64> {
        (self.closing == Some(Closing::Due)).then_some(CLOSING)
    }

    /// The blocks at which the run is analysed, in rising order.
    pub fn at(&self) -> &[u32] {
        &self.at
    }

    /// The share of the error spent at interim analysis `index`: in proportion to its blocks, so that most is left for
    /// the last; with a time budget, where the last is not known, a series that sums up to the half beside the closing
    /// one's.
    pub fn share(&self, index: usize) -> f64 {
        if self.closing.is_some() {
            return (1.0 - CLOSING) / ((index + 1) * (index + 2)) as f64;
        }
        let all: u32 = self.at.iter().sum();
        f64::from(self.at[index]) / f64::from(all)
    }

    /// The interim analyses reached with `blocks` complete blocks, with their shares.
    pub fn reached(&self, blocks: u32) -> impl Iterator<Item = (u32, f64)> + '_ {
        (0..self.at.len()).map(|i| (self.at[i], self.share(i))).take_while(move |(at, _)| *at <= blocks)
    }

    /// The first interim analysis at or after `blocks`, with its share; the last where there is none.
    pub(crate) fn at_or_after(&self, blocks: u32) -> Option<(u32, f64)> {
        let index = self.at.iter().position(|at| *at >= blocks).or(self.at.len().checked_sub(1))?;
        Some((self.at[index], self.share(index)))
    }
}

/// The number of blocks before a verdict can be expected in a family of `comparisons`, at family-wise error `alpha`:
/// the first interim analysis at which a difference must exceed the noise by no more than the noise's own range; or,
/// with a time budget, the smallest number of blocks for which the closing analysis can give a verdict.
///
/// `None` where no interim analysis of the plan reaches that.
pub fn blocks_before_any_verdict(comparisons: usize, alpha: f64, analyses: &InterimAnalyses) -> Option<u32> {
    let each = alpha / comparisons.max(1) as f64;
    let first = (0..analyses.at.len()).find(|i| gap_needed(analyses.at[*i], each * analyses.share(*i)) <= 1.0);
    let closing = analyses.closing.map(|_| blocks_by_counts(each * CLOSING).max(MIN_BLOCKS));
    first.map(|i| analyses.at[i]).into_iter().chain(closing).min()
}

/// The fewest blocks whose counts by themselves can reject at a two-sided error: the least `n` with `2^(1 - n) <= alpha`.
pub(super) fn blocks_by_counts(alpha: f64) -> u32 {
    (1.0 - alpha.log2() - 1e-9).ceil().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn interim_analyses_of_the_default_plans() {
        assert_eq!(InterimAnalyses::new(6, 30).at(), [6, 11, 18, 30]);
        assert_eq!(InterimAnalyses::new(10, 10).at(), [10]);
        // Otherwise blocks would run that count in no analysis.
        assert_eq!((InterimAnalyses::new(6, 7).at(), InterimAnalyses::new(20, 26).at()), (&[7][..], &[26][..]));
        assert_eq!(InterimAnalyses::new(1, 5).at(), [0u32; 0]);
        assert_eq!(InterimAnalyses::new(2, 6).at(), [6]);
    }

    #[test]
    fn timed_interim_analyses_need_no_estimate_and_leave_half_of_the_error() {
        let analyses = InterimAnalyses::timed(6, 10_000);
        assert_eq!(analyses.at()[..6], [6, 10, 17, 29, 49, 83]);
        assert!(analyses.at().iter().all(|at| *at < 10_000));
        let spent: f64 = analyses.reached(10_000).map(|(_, share)| share).sum();
        assert!(spent < 0.5 && spent > 0.45, "{spent}");
        assert_eq!((analyses.closing(), analyses.clone().ended().closing()), (None, Some(0.5)));
        assert_eq!(analyses.at(), analyses.clone().ended().at());
        // A plan without a budget has none, whatever ends it.
        assert_eq!(InterimAnalyses::new(6, 30).ended(), InterimAnalyses::new(6, 30));
        assert_eq!(
            (InterimAnalyses::timed(6, 6).at(), InterimAnalyses::timed(20, 100).at()),
            (&[6][..], &[20, 34, 58, 99][..])
        );
        assert_eq!(InterimAnalyses::timed(1, 3).ended().closing(), None);
    }

    #[test]
    fn a_time_budget_needs_no_more_blocks_than_its_closing_analysis() {
        let blocks = |k| blocks_before_any_verdict(k, 0.05, &InterimAnalyses::timed(6, 10_000));
        assert_eq!((blocks(1), blocks(20)), (Some(6), Some(10)));
        assert_eq!(blocks(100_000), Some(17));
        // Where the first interim analysis is asked to be late, time may end before it: 2^-6 <= 0.025.
        assert_eq!(blocks_before_any_verdict(1, 0.05, &InterimAnalyses::timed(20, 10_000)), Some(7));
        assert_eq!((blocks_by_counts(0.03125), blocks_by_counts(0.031), blocks_by_counts(1.0)), (6, 7, 1));
    }

    #[test]
    fn a_larger_family_needs_more_blocks() {
        let blocks = |k| blocks_before_any_verdict(k, 0.05, &InterimAnalyses::new(6, 30));
        assert_eq!(blocks(1), Some(6));
        assert_eq!(blocks(20), Some(11));
        assert_eq!(blocks_before_any_verdict(1_000_000, 0.05, &InterimAnalyses::new(6, 6)), None);
        assert_eq!(blocks_before_any_verdict(1, 0.05, &InterimAnalyses::new(1, 3)), None);
    }

    proptest! {
        #[test]
        fn interim_analyses_rise_to_the_maximum_and_spend_the_error_once(min in 1u32..60, more in 0u32..200) {
            let max = min + more;
            let analyses = InterimAnalyses::new(min, max);
            if max < MIN_BLOCKS {
                prop_assert!(analyses.at().is_empty());
                return Ok(());
            }
            prop_assert!(analyses.at().windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(analyses.at()[0] >= min.max(MIN_BLOCKS).min(max));
            prop_assert_eq!(*analyses.at().last().unwrap(), max);
            let spent: f64 = analyses.reached(max).map(|(_, share)| share).sum();
            prop_assert!((spent - 1.0).abs() < 1e-12);
            prop_assert!(analyses.reached(analyses.at()[0] - 1).next().is_none());
        }
    }
}
