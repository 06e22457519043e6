//! Parts of a file, such as those that a write changes and that are not durable yet.

use serde::{Deserialize, Serialize};

/// Ranges of bytes, each from its begin to its end, that do not overlap. Mostly there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ranges {
    first: (u64, u64),
    more: Vec<(u64, u64)>,
}

impl Ranges {
    pub(crate) const fn one(begin: u64, end: u64) -> Self {
        Self { first: (begin, end), more: Vec::new() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        std::iter::once(self.first).chain(self.more.iter().copied()).filter(|(begin, end)| begin < end)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// In bytes.
    pub(crate) fn len(&self) -> u64 {
        self.iter().map(|(begin, end)| end - begin).sum()
    }

    /// What of them lies between two offsets.
    pub(crate) fn within(&self, begin: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        self.iter().map(move |(from, to)| (from.max(begin), to.min(end))).filter(|(from, to)| from < to)
    }

    /// Adds what lies between two offsets.
    pub(crate) fn add(&mut self, begin: u64, end: u64) {
        self.remove(begin, end);
        self.push(begin, end);
    }

    /// Adds what lies between two offsets, which has nothing in common with the other ranges.
    pub(crate) fn push(&mut self, begin: u64, end: u64) {
        match self.more.last_mut().unwrap_or(&mut self.first) {
            last if last.1 == begin => last.1 = end,
            _ => self.more.push((begin, end)),
        }
    }

    /// Removes what lies between two offsets.
    pub(crate) fn remove(&mut self, begin: u64, end: u64) {
        let mut left = self
            .iter()
            .flat_map(|(from, to)| [(from, to.min(begin)), (from.max(end), to)])
            .filter(|(from, to)| from < to)
            .collect::<Vec<_>>()
            .into_iter();
        self.first = left.next().unwrap_or((0, 0));
        self.more = left.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_are_added_are_there_once_and_joined_to_the_last_one() {
        let mut ranges = Ranges::one(0, 0);
        [(20, 30), (30, 40), (0, 10), (5, 25)].into_iter().for_each(|(begin, end)| ranges.add(begin, end));
        assert_eq!(ranges.len(), 40);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(25, 40), (0, 25)]);
    }

    #[test]
    fn removal_leaves_the_parts_on_both_sides() {
        let mut ranges = Ranges::one(10, 100);
        ranges.remove(20, 30);
        ranges.remove(95, 200);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(10, 20), (30, 95)]);
        assert_eq!(ranges.len(), 75);
        assert_eq!(ranges.within(15, 40).collect::<Vec<_>>(), [(15, 20), (30, 40)]);
        ranges.remove(0, 20);
        assert_eq!(ranges, Ranges::one(30, 95));
        ranges.remove(0, 1000);
        assert!(ranges.is_empty());
    }
}
