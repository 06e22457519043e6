//! Counts how many different paths or bodies were sent.

use std::collections::HashSet;

use prony_workload::Distinct;

use crate::text::Variation;

/// Hashes that are kept; with more, their number is estimated.
const MOST_HASHES: usize = 1 << 20;

/// Texts of requests, by what is known of how they differ.
#[derive(Clone, Debug)]
pub(crate) enum Variety {
    /// All are the same; whether there was one.
    Same(bool),
    /// They differ as the numbers of their requests do, each of which there is once.
    Each(u64),
    /// They differ as numbers do.
    Numbers(Distinct),
    /// They differ as hashes of 64 bits do.
    Hashes(HashSet<u64>),
    /// The same, of more than are kept.
    Many(Distinct),
}

impl Default for Variety {
    fn default() -> Self {
        Self::Same(false)
    }
}

impl Variety {
    /// None yet. Each number comes once if `numbers_are_unique`.
    pub(crate) fn new(variation: Variation, numbers_are_unique: bool) -> Self {
        match variation {
            Variation::Same => Self::Same(false),
            Variation::ByNumber if numbers_are_unique => Self::Each(0),
            Variation::ByNumber => Self::Numbers(Distinct::new()),
            Variation::Any => Self::Hashes(HashSet::new()),
        }
    }

    /// Adds the text of a request, by its number and its hash.
    #[inline]
    pub(crate) fn add(&mut self, number: u64, hash: u64) {
        match self {
            Self::Same(any) => *any = true,
            Self::Each(count) => *count += 1,
            Self::Numbers(numbers) => numbers.add(number),
            Self::Many(hashes) => hashes.add(hash),
            Self::Hashes(hashes) => {
                hashes.insert(hash);
                self.bound();
            }
        }
    }

    /// Adds what another has counted of the same load.
    pub(crate) fn merge(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Same(mine), Self::Same(theirs)) => *mine |= theirs,
            (Self::Each(mine), Self::Each(theirs)) => *mine += theirs,
            (Self::Numbers(mine), Self::Numbers(theirs)) | (Self::Many(mine), Self::Many(theirs)) => mine.merge(theirs),
            (Self::Hashes(mine), Self::Hashes(theirs)) => mine.extend(theirs),
            (Self::Many(mine), Self::Hashes(theirs)) => theirs.iter().for_each(|hash| mine.add(*hash)),
            (Self::Hashes(mine), Self::Many(theirs)) => {
                let mut all = theirs.clone();
                mine.iter().for_each(|hash| all.add(*hash));
                *self = Self::Many(all);
            }
            (mine, theirs) => debug_assert!(false, "{mine:?} and {theirs:?} are of different loads"),
        }
        self.bound();
    }

    fn bound(&mut self) {
        if let Self::Hashes(hashes) = self
            && hashes.len() > MOST_HASHES
        {
            let mut all = Distinct::new();
            hashes.iter().for_each(|hash| all.add(*hash));
            *self = Self::Many(all);
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Same(any) => u64::from(*any),
            Self::Each(count) => *count,
            Self::Numbers(distinct) | Self::Many(distinct) => distinct.count(),
            Self::Hashes(hashes) => hashes.len() as u64,
        }
    }

    /// The standard error of the count, as a share of it.
    pub(crate) fn relative_error(&self) -> f64 {
        match self {
            Self::Numbers(distinct) | Self::Many(distinct) => distinct.relative_error(),
            Self::Same(_) | Self::Each(_) | Self::Hashes(_) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(variation: Variation, unique: bool, texts: impl Iterator<Item = (u64, u64)>) -> Variety {
        let mut variety = Variety::new(variation, unique);
        texts.for_each(|(number, hash)| variety.add(number, hash));
        variety
    }

    #[test]
    fn texts_are_counted_by_what_is_known_of_them() {
        let texts = || (0..1_000u64).map(|n| (n % 10, prony_model::random::mix(n % 7)));
        for (variation, unique, expected) in [
            (Variation::Same, true, 1),
            (Variation::ByNumber, true, 1_000),
            (Variation::ByNumber, false, 10),
            (Variation::Any, false, 7),
        ] {
            let mut one = counted(variation, unique, texts().take(500));
            one.merge(&counted(variation, unique, texts().skip(500)));
            assert_eq!((one.count(), one.relative_error()), (expected, 0.0), "{variation:?}");
            assert_eq!(Variety::new(variation, unique).count(), 0);
        }
    }

    #[test]
    fn many_hashes_are_estimated() {
        let hashes = |range: std::ops::Range<u64>| range.map(|n| (0, prony_model::random::mix(n)));
        let few = || counted(Variation::Any, false, hashes(0..1_000));
        let many = || counted(Variation::Any, false, hashes(0..1_500_000));
        let (mut first, mut second) = (few(), many());
        first.merge(&many());
        second.merge(&few());
        for all in [first, second, many()] {
            assert!(matches!(all, Variety::Many(_)) && all.relative_error() > 0.0);
            let off = all.count() as f64 / 1_500_000.0 - 1.0;
            assert!(off.abs() < 4.0 * all.relative_error(), "{off}");
        }
    }
}
