//! Counts how often something happened in many campaigns.

use std::fmt;

use prony_model::number::percents;

use super::super::binomial::binomial_interval;
use super::super::compare::Comparison;
use super::super::verdict::Verdict;

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Times it happened.
    pub hits: u32,
    /// Times it could have.
    pub of: u32,
}

impl Rate {
    /// One more time that it could have happened.
    pub fn count(&mut self, hit: bool) {
        self.hits += u32::from(hit);
        self.of += 1;
    }

    /// As a share, 0 to 1; 0 where it could never have happened.
    pub fn share(self) -> f64 {
        f64::from(self.hits) / f64::from(self.of.max(1))
    }

    /// The exact (Clopper-Pearson) 95 % interval of the share.
    pub fn bounds(self) -> (f64, f64) {
        binomial_interval(self.hits, self.of, 0.95)
    }
}

impl fmt::Display for Rate {
    /// `3.2 % (2.5 to 4.1)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.bounds();
        let text = |share: f64| percents(share, 1);
        write!(f, "{} % ({} to {})", text(self.share()), text(low), text(high))
    }
}

/// The results of many campaigns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Campaigns {
    /// Campaigns with at least one claim of a difference.
    pub any_difference: Rate,
    /// First comparisons in which a difference was claimed and the variant is the slower.
    pub worse: Rate,
    /// First comparisons judged worse by more than the margin.
    pub beyond_margin: Rate,
    /// Campaigns with at least one claim that the variant is slower by more than the margin, or that it differs by less
    /// or not at all: false where the ratio is the margin's own.
    pub off_margin: Rate,
    /// First comparisons judged no different.
    pub no_difference: Rate,
    /// Blocks used, over all campaigns.
    pub blocks: u64,
}

impl Campaigns {
    /// Mean blocks of a campaign.
    pub fn mean_blocks(&self) -> f64 {
        self.blocks as f64 / f64::from(self.any_difference.of.max(1))
    }

    /// One more campaign; one without a comparison does not count.
    pub(super) fn add(&mut self, found: &[Comparison]) {
        let Some(first) = found.first() else { return };
        self.any_difference.count(found.iter().any(|c| c.verdict.is_difference()));
        self.worse.count(is_slower(first));
        self.beyond_margin.count(first.verdict == Verdict::Worse);
        let off =
            |c: &Comparison| matches!(c.verdict, Verdict::Worse | Verdict::NoDifference | Verdict::DiffersWithinMargin);
        self.off_margin.count(found.iter().any(off));
        self.no_difference.count(first.verdict == Verdict::NoDifference);
        self.blocks += u64::from(first.blocks);
    }
}

/// Whether a difference is claimed and the variant is the slower; it may lie within the margin.
pub(super) fn is_slower(c: &Comparison) -> bool {
    c.verdict.is_difference() && c.ratio.measured().is_none_or(|ratio| *ratio > 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_shown_with_its_exact_bounds() {
        let mut rate = Rate::default();
        (0..100).for_each(|i| rate.count(i % 20 == 0));
        assert_eq!((rate.hits, rate.of, rate.share()), (5, 100, 0.05));
        // Clopper and Pearson for 5 of 100: 0.01643 to 0.11283.
        assert_eq!(rate.to_string(), "5.0 % (1.6 to 11.3)");
        assert_eq!(Rate::default().bounds(), (0.0, 1.0));
    }
}
