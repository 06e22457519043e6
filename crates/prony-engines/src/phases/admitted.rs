//! The records that a phase has changed, where references are checked: one bit a record.

/// Records of which at least one operation was not refused.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Admitted(Vec<u64>);

impl Admitted {
    /// None of so many records.
    pub(super) fn none_of(records: u64) -> Self {
        Self(vec![0; usize::try_from(records.div_ceil(64)).unwrap_or(usize::MAX)])
    }

    fn place(number: u64) -> (usize, u64) {
        ((number / 64) as usize, 1 << (number % 64))
    }

    pub(super) fn add(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.0.get_mut(word).into_iter().for_each(|word| *word |= bit);
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds those of another client.
    pub(super) fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admitted_records_are_those_of_all_clients() {
        let (mut one, mut other) = (Admitted::none_of(130), Admitted::none_of(130));
        [0, 63, 129].into_iter().for_each(|number| one.add(number));
        [64, 129].into_iter().for_each(|number| other.add(number));
        one.merge(&other);
        let all: Vec<u64> = (0..200).filter(|number| one.contains(*number)).collect();
        assert_eq!(all, [0, 63, 64, 129]);
    }
}
