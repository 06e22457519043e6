//! When a run may stop: looks fixed in advance, each with its share of the error (METHOD 4.7).
//!
//! The shares add up to one, and the intervals of all looks and all comparisons hold together with
//! the promised probability. So it is paid for in advance whatever a look is used for: to stop on a
//! difference, to stop because an interval has become narrow enough, or to go on.

use serde::{Deserialize, Serialize};

use super::sign::gap_needed;

/// No verdict before so many complete blocks.
pub const MIN_BLOCKS: u32 = 6;

/// Each look but the first comes at about so many times the blocks of the one before.
const STEP: f64 = 1.7;

/// The looks of a run, in rising order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looks {
    at: Vec<u32>,
}

impl Looks {
    /// Looks for a run of `min` to `max` blocks: the last at `max`, each before it at about 1/1.7 of the next, the
    /// first at `min` or 6, whichever is more. Empty where `max` is below 6: then there is no verdict.
    pub fn new(min: u32, max: u32) -> Self {
        let first = min.max(MIN_BLOCKS);
        let mut at = Vec::new();
        let mut next = max;
        while f64::from(next) > f64::from(first) * 1.3 {
            at.push(next);
            next = (f64::from(next) / STEP).round() as u32;
        }
        if max >= MIN_BLOCKS {
            at.push(first.min(max));
        }
        at.reverse();
        Self { at }
    }

    /// The blocks at which the run is looked at, in rising order.
    pub fn at(&self) -> &[u32] {
        &self.at
    }

    /// The share of the error spent at look `index`: in proportion to its blocks, so that most is left for the last.
    pub fn share(&self, index: usize) -> f64 {
        let all: u32 = self.at.iter().sum();
        f64::from(self.at[index]) / f64::from(all)
    }

    /// The looks reached with `blocks` complete blocks, with their shares.
    pub fn reached(&self, blocks: u32) -> impl Iterator<Item = (u32, f64)> + '_ {
        (0..self.at.len()).map(|i| (self.at[i], self.share(i))).take_while(move |(at, _)| *at <= blocks)
    }

    /// The first look at or after `blocks`, with its share; the last where there is none.
    pub fn at_or_after(&self, blocks: u32) -> Option<(u32, f64)> {
        let index = self.at.iter().position(|at| *at >= blocks).or(self.at.len().checked_sub(1))?;
        Some((self.at[index], self.share(index)))
    }
}

/// The blocks before a verdict can be expected in a family of `comparisons`, at family-wise error `alpha`: the first
/// look at which a difference has to stand clear of the noise by no more than the noise's own range.
///
/// `None` where no look of the plan reaches that.
pub fn blocks_before_any_verdict(comparisons: usize, alpha: f64, looks: &Looks) -> Option<u32> {
    let per_comparison = alpha / comparisons.max(1) as f64;
    (0..looks.at.len()).find(|i| gap_needed(looks.at[*i], per_comparison * looks.share(*i)) <= 1.0).map(|i| looks.at[i])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn looks_of_the_default_plans() {
        assert_eq!(Looks::new(6, 30).at(), [6, 11, 18, 30]);
        assert_eq!(Looks::new(10, 10).at(), [10]);
        assert_eq!(Looks::new(6, 7).at(), [6]);
        assert_eq!(Looks::new(1, 5).at(), [0u32; 0]);
        assert_eq!(Looks::new(2, 6).at(), [6]);
    }

    #[test]
    fn a_larger_family_needs_more_blocks() {
        let blocks = |k| blocks_before_any_verdict(k, 0.05, &Looks::new(6, 30));
        assert_eq!(blocks(1), Some(6));
        assert_eq!(blocks(20), Some(11));
        assert_eq!(blocks_before_any_verdict(1_000_000, 0.05, &Looks::new(6, 6)), None);
        assert_eq!(blocks_before_any_verdict(1, 0.05, &Looks::new(1, 3)), None);
    }

    proptest! {
        #[test]
        fn looks_rise_end_at_the_most_and_spend_the_error_once(min in 1u32..60, more in 0u32..200) {
            let max = min + more;
            let looks = Looks::new(min, max);
            if max < MIN_BLOCKS {
                prop_assert!(looks.at().is_empty());
                return Ok(());
            }
            prop_assert!(looks.at().windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(looks.at()[0] >= min.max(MIN_BLOCKS).min(max));
            prop_assert!(*looks.at().last().unwrap() <= max);
            let spent: f64 = looks.reached(max).map(|(_, share)| share).sum();
            prop_assert!((spent - 1.0).abs() < 1e-12);
            prop_assert!(looks.reached(looks.at()[0] - 1).next().is_none());
        }
    }
}
