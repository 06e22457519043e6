//! A set of records: one bit a record.

/// Records of a collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RecordSet(Vec<u64>);

impl RecordSet {
    /// None of so many records, with the memory for all of them.
    pub(super) fn none_of(records: u64) -> Self {
        Self(vec![0; usize::try_from(records.div_ceil(64)).unwrap_or(usize::MAX)])
    }

    fn place(number: u64) -> (usize, u64) {
        (usize::try_from(number / 64).unwrap_or(usize::MAX), 1 << (number % 64))
    }

    pub(super) fn add(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }

    pub(super) fn remove(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }

    /// Adds it where it is not among them, and removes it where it is; whether it was.
    pub(super) fn toggle(&mut self, number: u64) -> bool {
        let was = self.contains(number);
        if was {
            self.remove(number);
        } else {
            self.add(number);
        }
        was
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds those of another set.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }

    /// How many records are in both of two sets.
    pub(super) fn common(&self, other: &Self) -> u64 {
        self.0.iter().zip(&other.0).map(|(mine, theirs)| u64::from((mine & theirs).count_ones())).sum()
    }

    /// The first record that is in one of two sets alone.
    pub(super) fn first_difference(&self, other: &Self) -> Option<u64> {
        let words = self.0.len().max(other.0.len());
        let word = |set: &Self, at: usize| set.0.get(at).copied().unwrap_or(0);
        let differs = |at: usize| Some(word(self, at) ^ word(other, at)).filter(|bits| *bits != 0);
        (0..words).find_map(|at| Some(at as u64 * 64 + u64::from(differs(at)?.trailing_zeros())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u64]) -> RecordSet {
        let mut set = RecordSet::none_of(130);
        numbers.iter().for_each(|number| set.add(*number));
        set
    }

    #[test]
    fn a_merged_set_has_the_records_of_both() {
        let mut one = set(&[0, 63, 129]);
        one.merge(&set(&[64, 129, 300]));
        let all: Vec<u64> = (0..400).filter(|number| one.contains(*number)).collect();
        assert_eq!(all, [0, 63, 64, 129, 300]);
    }

    #[test]
    fn what_two_sets_have_in_common_is_counted() {
        assert_eq!(set(&[0, 63, 64, 129]).common(&set(&[63, 129, 300])), 2);
        assert_eq!(set(&[300]).common(&RecordSet::default()), 0);
    }

    #[test]
    fn the_first_difference_is_found_beyond_the_shorter_set() {
        assert_eq!(set(&[5, 70]).first_difference(&set(&[5, 70])), None);
        assert_eq!(set(&[5, 70]).first_difference(&set(&[5, 71])), Some(70));
        assert_eq!(set(&[5]).first_difference(&set(&[5, 300])), Some(300));
        assert_eq!(RecordSet::default().first_difference(&set(&[])), None);
    }
}
