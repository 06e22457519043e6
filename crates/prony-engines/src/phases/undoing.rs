//! Removes a failed transaction from a client's counts: operations and bytes of earlier chunks, and those of the
//! current chunk; notes which operations failed. In a timed section this costs two memory writes per transaction; the rest is done between chunks.

use std::ops::Range;

use prony_model::throughput::Series;

use super::chunk::Chunk;
use super::record_set::RecordSet;

/// Operations, and the bytes of keys and values they handed over to be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) operations: u64,
    pub(super) bytes: u64,
}

impl Sum {
    fn of(chunk: &Chunk, range: Range<usize>) -> Self {
        Self { operations: range.len() as u64, bytes: chunk.bytes_to_store(range) }
    }

    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
    }
}

/// What of a chunk does not count, and what of the rest may still be undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) lost: Sum,
    pub(super) open: Sum,
}

/// The most ranges of failed operations that are listed: 1 MB.
const MOST_RANGES: usize = 1 << 16;

/// Which operations of a client failed, by their places among all of the client's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    ranges: Vec<Range<u64>>,
    /// There were more than are listed.
    more: bool,
}

impl Failures {
    fn add(&mut self, range: Range<u64>) {
        let full = self.ranges.len() >= MOST_RANGES;
        match self.ranges.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.end == range.start => last.end = range.end,
            _ if full => self.more = true,
            _ => self.ranges.push(range),
        }
    }

    /// Adds their records, where `next` gives those of all of the client's operations in turn. `None` as in [`Self::places`].
    pub(super) fn add_records(
        &mut self,
        errors: u64,
        mut next: impl FnMut() -> u64,
        records: &mut RecordSet,
    ) -> Option<()> {
        let mut drawn = 0;
        for place in self.places(errors)? {
            // Listed twice: by itself, and with its transaction.
            if place >= drawn {
                let number = (drawn..=place).map(|_| next()).last()?;
                records.add(number);
                drawn = place + 1;
            }
        }
        Some(())
    }

    /// The places, in order; `None` where there are too many to list, or not as many as `errors`.
    fn places(&mut self, errors: u64) -> Option<impl Iterator<Item = u64>> {
        let listed: u64 = self.ranges.iter().map(|range| range.end - range.start).sum();
        self.ranges.sort_by_key(|range| range.start);
        (!self.more && listed == errors).then(|| self.ranges.iter().cloned().flatten())
    }
}

/// The open transaction and the failures of the current chunk.
#[derive(Debug, Default)]
pub(super) struct Undoing {
    /// Index of the transaction's first operation in the chunk; 0 where it began in an earlier one.
    from: Option<usize>,
    /// The open transaction began in this chunk, so that `pending` belongs to one that has ended.
    fresh: bool,
    /// The transaction to which `pending` belongs is undone.
    take_back: bool,
    failed: Vec<Range<usize>>,
    pending: Pending,
    /// Operations of earlier chunks.
    ran: u64,
    /// The place of the first operation of the transaction that was open at the end of the last chunk.
    began: u64,
    failures: Failures,
}

/// What earlier chunks recorded of the open transaction.
#[derive(Debug, Default)]
struct Pending {
    bytes: u64,
    /// Begin and end as offsets from the phase's begin, and operations.
    spans: Vec<(u64, u64, u64)>,
}

impl Pending {
    fn clear(&mut self) {
        self.bytes = 0;
        self.spans.clear();
    }
}

impl Undoing {
    /// A transaction begins with the operation at `next`, which is given back.
    #[inline(always)]
    pub(super) fn open(&mut self, next: usize) -> usize {
        (self.from, self.fresh) = (Some(next), true);
        next
    }

    /// An operation failed by itself.
    pub(super) fn failed(&mut self, index: usize) {
        self.failed.push(index..index + 1);
    }

    /// The transaction opened last is undone; its last operation is before `next`.
    pub(super) fn undone(&mut self, next: usize) {
        if let Some(from) = self.from.take() {
            self.failed.push(from..next);
            self.take_back |= !self.fresh;
        }
    }

    /// Removes what is undone of earlier chunks, and returns what counts of the first `ran` operations of this one.
    pub(super) fn close(&mut self, chunk: &Chunk, ran: usize, series: &mut Series, stored: &mut u64) -> Closed {
        let ran_before = self.ran;
        let place = |index: usize| ran_before + index as u64;
        if self.take_back {
            self.failures.add(self.began..self.ran);
            self.pending.spans.iter().for_each(|(_, to, operations)| series.take_back(*to, *operations));
            *stored -= self.pending.bytes;
        }
        if self.take_back || self.fresh || self.from.is_none() {
            self.pending.clear();
        }
        let mut closed = Closed::default();
        for range in &self.failed {
            closed.lost.add(Sum::of(chunk, range.clone()));
            self.failures.add(place(range.start)..place(range.end));
        }
        if let Some(from) = self.from {
            self.began = if self.fresh { place(from) } else { self.began };
            closed.open = self.open_sum(chunk, from..ran);
            self.from = Some(0);
        }
        self.failed.clear();
        (self.fresh, self.take_back) = (false, false);
        self.ran += ran as u64;
        closed
    }

    /// Which operations of all chunks that are closed failed.
    pub(super) fn take_failures(&mut self) -> Failures {
        std::mem::take(&mut self.failures)
    }

    fn open_sum(&self, chunk: &Chunk, range: Range<usize>) -> Sum {
        if self.failed.is_empty() {
            return Sum::of(chunk, range);
        }
        // An operation that failed by itself inside it is subtracted already.
        let failed = |index: &usize| self.failed.iter().any(|range| range.contains(index));
        let mut sum = Sum::default();
        range.filter(|i| !failed(i)).for_each(|i| sum.add(Sum::of(chunk, i..i + 1)));
        sum
    }

    /// What the open transaction has recorded, between two offsets from the phase's begin. Spans shorter than
    /// `interval` are joined, so that they take no more memory than the series.
    pub(super) fn add(&mut self, open: Sum, (from, to): (u64, u64), interval: u64) {
        if open == Sum::default() {
            return;
        }
        self.pending.bytes += open.bytes;
        match self.pending.spans.last_mut() {
            Some(last) if to - last.0 <= interval => (last.1, last.2) = (to, last.2 + open.operations),
            _ => self.pending.spans.push((from, to, open.operations)),
        }
    }
}

#[cfg(test)]
mod tests {
    use prony_model::throughput::Series;
    use prony_model::units::Nanos;

    use super::*;
    use crate::phases::chunk::{Draft, Label};
    use crate::timed_loop::Kind;

    /// Operations that store ten bytes each.
    fn chunk(operations: u64) -> Chunk {
        let mut chunk = Chunk::default();
        for number in 0..operations {
            chunk.push(Draft { kind: Kind::Put, label: Label::Put, number, rows: 0 }, &[0; 4], &[0; 6]);
        }
        chunk
    }

    /// The counts of a client that runs chunks of ten operations in a millisecond each.
    struct Books {
        undoing: Undoing,
        series: Series,
        stored: u64,
        at: u64,
    }

    impl Books {
        fn new() -> Self {
            Self { undoing: Undoing::default(), series: Series::new(Nanos::from_millis(1)), stored: 0, at: 0 }
        }

        fn end_chunk(&mut self) {
            let closed = self.undoing.close(&chunk(10), 10, &mut self.series, &mut self.stored);
            let (from, to) = (self.at, self.at + 1_000_000);
            self.series.add(from, to, 10 - closed.lost.operations);
            self.stored += 100 - closed.lost.bytes;
            self.undoing.add(closed.open, (from, to), 1_000_000);
            self.at = to;
        }

        fn end(mut self) -> (u64, u64, Vec<u64>) {
            self.undoing.close(&chunk(0), 0, &mut self.series, &mut self.stored);
            let mut failures = self.undoing.take_failures();
            let errors = failures.ranges.iter().map(|range| range.end - range.start).sum();
            let places = failures.places(errors).unwrap().collect();
            (self.series.into_throughput().operations.iter().sum(), self.stored, places)
        }
    }

    #[test]
    fn a_transaction_over_three_chunks_is_taken_back_whole_and_nothing_else() {
        let mut books = Books::new();
        books.undoing.open(0);
        books.undoing.open(7);
        books.end_chunk();
        books.end_chunk();
        books.undoing.undone(4);
        books.undoing.open(4);
        books.end_chunk();
        assert_eq!(books.end(), (7 + 6, 130, (7..24).collect()));
    }

    #[test]
    fn what_is_committed_stays_though_the_next_transaction_fails() {
        let mut books = Books::new();
        books.undoing.open(2);
        books.end_chunk();
        books.undoing.open(5);
        books.undoing.undone(8);
        books.end_chunk();
        assert_eq!(books.end(), (17, 170, vec![15, 16, 17]));
    }

    #[test]
    fn a_commit_that_fails_after_the_last_chunk_takes_back_too() {
        let mut books = Books::new();
        books.undoing.open(3);
        books.end_chunk();
        books.undoing.undone(0);
        assert_eq!(books.end(), (3, 30, (3..10).collect()));
    }

    #[test]
    fn operations_that_fail_by_themselves_are_lost_once() {
        let mut books = Books::new();
        books.undoing.open(0);
        books.undoing.failed(0);
        books.end_chunk();
        assert_eq!((books.stored, books.undoing.pending.bytes), (90, 90));
        books.undoing.undone(10);
        books.end_chunk();
        let (operations, stored, places) = books.end();
        assert_eq!((operations, stored), (0, 0));
        assert_eq!(places, [0].into_iter().chain(0..20).collect::<Vec<_>>());
    }

    #[test]
    fn which_operations_failed_is_not_known_if_too_many_or_uncounted_ones_did() {
        let mut failures = Failures::default();
        (0..MOST_RANGES as u64).for_each(|at| failures.add(2 * at..2 * at + 1));
        let last = 2 * (MOST_RANGES as u64 - 1);
        failures.add(last + 1..last + 2);
        let all = MOST_RANGES as u64 + 1;
        assert_eq!(failures.places(all).map(Iterator::last), Some(Some(last + 1)), "it follows the last one");
        assert!(failures.places(all - 1).is_none(), "one is not among the errors");
        failures.add(last + 9..last + 10);
        assert!(failures.places(all).is_none() && failures.places(all + 1).is_none());
    }

    #[test]
    fn undo_log_is_bounded_by_the_series() {
        let mut undoing = Undoing::default();
        let sum = Sum { operations: 10, bytes: 100 };
        (0..1000).for_each(|i| undoing.add(sum, (i * 1000, i * 1000 + 900), 100_000));
        assert!(undoing.pending.spans.len() <= 11, "{:?}", undoing.pending.spans);
        assert_eq!(undoing.pending.spans.iter().map(|s| s.2).sum::<u64>(), 10_000);
    }
}
