//! Timestamps of operations, stored until their result is known: an operation of a shared transaction has succeeded
//! when that is committed, and failed where it is not (METHOD 1.4). While the clock runs they are left in plain arrays;
//! they go into histograms between two chunks.

use prony_model::latency::{LatencyError, Recorder};
use prony_model::record::{HistogramRecord, LatencyKind};
use prony_model::units::Nanos;

use super::chunk::{Chunk, Label, MOST_OPERATIONS};
use super::series::GroupSeries;

/// A stamp of an operation that failed.
pub(super) const FAILED: u64 = u64::MAX;
/// A stamp that was not taken.
pub(super) const NONE: u64 = u64::MAX - 1;

/// Most timestamps of an open transaction that are stored one by one, 16 kB; more are stored as a histogram.
const FEW: usize = 1024;

/// The histograms of a client.
#[derive(Default)]
pub(super) struct Samples {
    recorders: Vec<(Label, LatencyKind, Recorder)>,
    pub(super) groups: Option<GroupSeries>,
}

impl Samples {
    fn recorder(&mut self, label: Label, kind: LatencyKind) -> &mut Recorder {
        let place = self.recorders.iter().position(|(l, k, _)| (*l, *k) == (label, kind));
        let place = place.unwrap_or_else(|| {
            self.recorders.push((label, kind, Recorder::new()));
            self.recorders.len() - 1
        });
        &mut self.recorders[place].2
    }

    pub(super) fn latency(&mut self, label: Label, kind: LatencyKind, stamp: u64) {
        match stamp {
            NONE => (),
            FAILED => self.recorder(label, kind).record_failed(),
            nanos => self.recorder(label, kind).record(Nanos::from_nanos(nanos)),
        }
    }

    /// Counts operations that were due and never started: infinitely slow, or an engine that stalls until the end of its phase
    /// would have the latencies of the time before (METHOD 1.4).
    pub(super) fn not_started(&mut self, label: Label, count: u64) {
        if count > 0 {
            self.recorder(label, LatencyKind::Intended).record_many_failed(count);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (label, kind, recorder) in other.recorders {
            self.recorder(label, kind).merge(&recorder);
        }
        match (&mut self.groups, other.groups) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine @ None, theirs) => *mine = theirs,
            (Some(_), None) => (),
        }
    }

    /// In the order of the labels.
    pub(super) fn histograms(&mut self) -> Result<Vec<HistogramRecord>, LatencyError> {
        self.recorders.sort_by_key(|(label, ..)| *label);
        self.recorders.iter().map(|(label, kind, recorder)| recorder.to_record(label.name(), *kind)).collect()
    }
}

/// The end of a shared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Its last operation is before this index of the chunk.
    pub(super) next: usize,
    /// Whether it was committed.
    pub(super) committed: bool,
    /// The stamp of the commit; [`NONE`] where it was discarded before or commits are not stamped.
    pub(super) commit: u64,
}

/// Room for the ends of a chunk's transactions: each has an operation, but for one that began in an earlier chunk.
pub(super) fn room_for_ends() -> Vec<End> {
    Vec::with_capacity(MOST_OPERATIONS + 1)
}

/// The timestamps of one kind, of a chunk and of the transaction that is open.
pub(super) struct Timestamps {
    kind: LatencyKind,
    /// One for each operation of the chunk.
    pub(super) of: Vec<u64>,
    /// Whether operations succeed only with their transaction.
    buffers: bool,
    few: Vec<(Label, u64)>,
    many: Samples,
}

impl Timestamps {
    pub(super) fn new(kind: LatencyKind, buffers: bool) -> Self {
        let few = Vec::with_capacity(if buffers { FEW } else { 0 });
        Self { kind, of: vec![NONE; MOST_OPERATIONS], buffers, few, many: Samples::default() }
    }

    /// Records the operations of the chunk whose result is known, and stores the rest.
    pub(super) fn collect(&mut self, chunk: &Chunk, ends: &[End], samples: &mut Samples) {
        let mut from = 0;
        for end in ends {
            self.decide(end.committed, samples);
            for index in from..end.next {
                let stamp = std::mem::replace(&mut self.of[index], NONE);
                let stamp = if end.committed || stamp == NONE { stamp } else { FAILED };
                samples.latency(chunk.label(index), self.kind, stamp);
            }
            from = end.next;
        }
        for index in from..chunk.len() {
            let stamp = std::mem::replace(&mut self.of[index], NONE);
            if self.buffers {
                self.buffer(chunk.label(index), stamp);
            } else {
                samples.latency(chunk.label(index), self.kind, stamp);
            }
        }
    }

    fn buffer(&mut self, label: Label, stamp: u64) {
        if stamp == NONE {
            return;
        }
        if self.few.len() == FEW {
            self.spill();
        }
        self.few.push((label, stamp));
    }

    fn spill(&mut self) {
        self.few.drain(..).for_each(|(label, stamp)| self.many.latency(label, self.kind, stamp));
    }

    /// The stored operations have succeeded as recorded, or failed as a whole.
    pub(super) fn decide(&mut self, committed: bool, samples: &mut Samples) {
        for (label, stamp) in self.few.drain(..) {
            samples.latency(label, self.kind, if committed { stamp } else { FAILED });
        }
        for (label, _, buffered) in self.many.recorders.drain(..) {
            let recorder = samples.recorder(label, self.kind);
            if committed {
                recorder.merge(&buffered);
            } else {
                recorder.record_many_failed(buffered.succeeded() + buffered.failed());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::chunk::Draft;
    use crate::timed_loop::Kind;

    fn chunk(operations: u64) -> Chunk {
        let mut chunk = Chunk::default();
        for number in 0..operations {
            let label = if number % 2 == 0 { Label::Put } else { Label::Delete };
            chunk.push(Draft { kind: Kind::Put, label, number, rows: 0 }, &[], &[]);
        }
        chunk
    }

    /// Operations of each label that succeeded and failed.
    fn counts(samples: &Samples) -> Vec<(&'static str, u64, u64)> {
        let of = |(label, _, one): &(Label, LatencyKind, Recorder)| (label.name(), one.succeeded(), one.failed());
        samples.recorders.iter().map(of).collect()
    }

    fn end(next: usize, committed: bool) -> End {
        End { next, committed, commit: NONE }
    }

    fn fill(timestamps: &mut Timestamps, operations: usize) {
        timestamps.of[..operations].iter_mut().for_each(|stamp| *stamp = 500);
    }

    #[test]
    fn each_transaction_of_a_chunk_counts_as_it_ended() {
        let (mut timestamps, mut samples) = (Timestamps::new(LatencyKind::Service, true), Samples::default());
        fill(&mut timestamps, 10);
        timestamps.collect(&chunk(10), &[end(4, true), end(8, false)], &mut samples);
        assert_eq!(counts(&samples), [("put", 2, 2), ("delete", 2, 2)], "two are not decided yet");
        timestamps.collect(&chunk(0), &[end(0, true)], &mut samples);
        assert_eq!(counts(&samples), [("put", 3, 2), ("delete", 3, 2)]);
    }

    #[test]
    fn a_transaction_over_chunks_fails_whole_however_long_it_is() {
        for chunks in [2, 10, 40] {
            let (mut timestamps, mut samples) = (Timestamps::new(LatencyKind::Service, true), Samples::default());
            for _ in 0..chunks {
                fill(&mut timestamps, 200);
                timestamps.collect(&chunk(200), &[], &mut samples);
            }
            assert_eq!(counts(&samples), []);
            timestamps.of[0] = FAILED;
            timestamps.collect(&chunk(1), &[end(1, false)], &mut samples);
            assert_eq!(counts(&samples), [("put", 0, chunks * 100 + 1), ("delete", 0, chunks * 100)]);
        }
    }

    #[test]
    fn a_long_transaction_that_is_committed_keeps_its_latencies() {
        let (mut timestamps, mut samples) = (Timestamps::new(LatencyKind::Service, true), Samples::default());
        for _ in 0..20 {
            fill(&mut timestamps, 200);
            timestamps.of[3] = FAILED;
            timestamps.of[5] = NONE;
            timestamps.collect(&chunk(200), &[], &mut samples);
        }
        timestamps.decide(true, &mut samples);
        assert_eq!(counts(&samples), [("put", 2000, 0), ("delete", 1960, 20)]);
    }

    #[test]
    fn timestamps_are_not_buffered_without_shared_transactions() {
        let (mut timestamps, mut samples) = (Timestamps::new(LatencyKind::Service, false), Samples::default());
        fill(&mut timestamps, 2);
        timestamps.collect(&chunk(2), &[], &mut samples);
        assert_eq!(counts(&samples), [("put", 1, 0), ("delete", 1, 0)]);
    }
}
