//! Timing inside a timed section. Timestamps are stored in plain arrays while the clock runs; histograms and series are
//! filled from them between two chunks.

use prony_model::random::Stream;
use prony_model::record::LatencyKind;
use prony_model::units::Nanos;
use prony_workload::Lag;

use super::chunk::{Chunk, Label};
use super::series::GroupSeries;
use super::timestamps::{End, FAILED, NONE, Samples, Timestamps, room_for_ends};
use crate::timed_loop::{Timing, Untimed, now};

/// A [`Timing`] whose timestamps are collected while the clock is stopped.
pub(super) trait Sampler: Timing {
    /// Collects the timestamps of a finished chunk.
    fn collect(&mut self, _chunk: &Chunk, _samples: &mut Samples) {}
    /// Receives the intended starts of the next chunk's operations, as instants of the monotonic clock.
    fn schedule(&mut self, _intended: &[u64]) {}
    /// How far starts lag behind their schedule, in an open loop.
    fn lag(&self) -> Option<Lag> {
        None
    }
    /// The phase has ended.
    fn finish(&mut self, _samples: &mut Samples) {}
}

impl Sampler for Untimed {}

/// Every operation. The end of one is the start of the next, so that it costs one reading of the clock an operation;
/// what lies between two (the begin of a shared transaction, the end of a shared read transaction) counts with the
/// later one. The commit of a shared transaction is recorded by itself.
pub(super) struct Every {
    last: u64,
    timestamps: Timestamps,
    ends: Vec<End>,
}

impl Every {
    /// `buffers` where operations succeed only with their transaction.
    pub(super) fn new(buffers: bool) -> Self {
        Self { last: 0, timestamps: Timestamps::new(LatencyKind::Service, buffers), ends: room_for_ends() }
    }
}

impl Timing for Every {
    #[inline(always)]
    fn begin(&mut self, now: u64) {
        self.last = now;
    }

    #[inline(always)]
    fn after(&mut self, index: usize, succeeded: bool) {
        let at = now();
        self.timestamps.of[index] = if succeeded { at - self.last } else { FAILED };
        self.last = at;
    }

    #[inline(always)]
    fn committed(&mut self, next: usize, succeeded: bool) {
        let at = now();
        let commit = if succeeded { at - self.last } else { FAILED };
        self.ends.push(End { next, committed: succeeded, commit });
        self.last = at;
    }

    #[cold]
    fn discarded(&mut self, next: usize) {
        self.ends.push(End { next, committed: false, commit: NONE });
    }
}

impl Sampler for Every {
    fn collect(&mut self, chunk: &Chunk, samples: &mut Samples) {
        self.timestamps.collect(chunk, &self.ends, samples);
        self.ends.drain(..).for_each(|end| samples.latency(Label::Commit, LatencyKind::Service, end.commit));
    }

    fn finish(&mut self, samples: &mut Samples) {
        self.timestamps.decide(true, samples);
    }
}

/// How many places are drawn ahead, after each chunk anew; a chunk with more of them uses them again.
const DRAWN: usize = 1024;

/// One operation in so many; the clock is read before and after it. Which one of them is drawn: at a fixed distance each could
/// be the first of a shared transaction.
pub(super) struct OneIn {
    every: u64,
    places: Stream,
    /// Drawn outside of what is timed; the next one to use.
    drawn: [u64; DRAWN],
    next: usize,
    /// Operations that are left of so many, and how many are left after the one to time.
    left: u64,
    after: u64,
    started: Option<u64>,
    timestamps: Timestamps,
    ends: Vec<End>,
}

impl OneIn {
    /// `buffers` where operations succeed only with their transaction.
    pub(super) fn new(every: u64, places: Stream, buffers: bool) -> Self {
        let timestamps = Timestamps::new(LatencyKind::Service, buffers);
        let (drawn, ends) = ([0; DRAWN], room_for_ends());
        let mut all = Self { every, places, drawn, next: 0, left: 0, after: 0, started: None, timestamps, ends };
        all.draw();
        all
    }

    fn draw(&mut self) {
        self.drawn.fill_with(|| self.places.below(self.every));
    }
}

impl Timing for OneIn {
    #[inline(always)]
    fn before(&mut self, _index: usize) {
        if self.left == 0 {
            self.left = self.every;
            self.after = self.drawn[self.next % DRAWN];
            self.next += 1;
        }
        self.left -= 1;
        if self.left == self.after {
            self.started = Some(now());
        }
    }

    #[inline(always)]
    fn after(&mut self, index: usize, succeeded: bool) {
        if let Some(started) = self.started.take() {
            self.timestamps.of[index] = if succeeded { now() - started } else { FAILED };
        }
    }

    #[inline(always)]
    fn committed(&mut self, next: usize, succeeded: bool) {
        self.ends.push(End { next, committed: succeeded, commit: NONE });
    }

    #[cold]
    fn discarded(&mut self, next: usize) {
        self.committed(next, false);
    }
}

impl Sampler for OneIn {
    fn collect(&mut self, chunk: &Chunk, samples: &mut Samples) {
        self.timestamps.collect(chunk, &self.ends, samples);
        self.ends.clear();
        self.draw();
    }

    fn finish(&mut self, samples: &mut Samples) {
        self.timestamps.decide(true, samples);
    }
}

/// Wall and CPU time of groups of operations, commits and transaction begins included, pauses and gaps left out.
pub(super) struct Grouped {
    size: u64,
    inside: u64,
    cpu: Option<fn() -> u64>,
    since: (u64, Option<u64>),
    sum: (u64, Option<u64>),
    closed: Vec<(u64, Option<u64>)>,
}

impl Grouped {
    /// `cpu` reads the CPU time; `None` where it would not be that of the engine.
    pub(super) fn new(size: u64, cpu: Option<fn() -> u64>) -> Self {
        Self { size, inside: 0, cpu, since: (0, None), sum: (0, None), closed: Vec::new() }
    }

    fn instants(&self, now: u64) -> (u64, Option<u64>) {
        (now, self.cpu.map(|read| read()))
    }

    fn add_up(&mut self, now: u64) {
        let instants = self.instants(now);
        self.sum.0 += instants.0.saturating_sub(self.since.0);
        let used = instants.1.zip(self.since.1).map(|(now, since)| now.saturating_sub(since));
        self.sum.1 = used.map(|used| self.sum.1.unwrap_or_default() + used);
        self.since = instants;
    }

    fn close(&mut self) {
        self.closed.push(self.sum);
        self.sum = (0, None);
        self.inside = 0;
    }

    fn record(&mut self, samples: &mut Samples) {
        let groups = samples.groups.get_or_insert_with(|| GroupSeries::new(self.size));
        self.closed.drain(..).for_each(|(wall, cpu)| groups.add(wall, cpu));
    }
}

impl Timing for Grouped {
    fn begin(&mut self, now: u64) {
        self.since = self.instants(now);
    }

    #[inline(always)]
    fn open(&mut self, _index: usize) {
        if self.inside == self.size {
            self.add_up(now());
            self.close();
        }
    }

    // The boundary is before the next operation, so that a commit belongs to the group it commits.
    #[inline(always)]
    fn before(&mut self, index: usize) {
        self.open(index);
        self.inside += 1;
    }

    fn end(&mut self, now: u64) {
        self.add_up(now);
    }
}

impl Sampler for Grouped {
    fn collect(&mut self, _chunk: &Chunk, samples: &mut Samples) {
        self.record(samples);
    }

    fn finish(&mut self, samples: &mut Samples) {
        if self.inside == self.size {
            self.close();
        }
        self.record(samples);
    }
}

/// An open loop: each operation waits for its intended start; both the intended and the actual latency are recorded
/// (METHOD 2.3). In a shared transaction an operation's latency ends when the engine has taken it, and the commit is
/// recorded by itself.
pub(super) struct Paced {
    intended: Vec<u64>,
    started: Option<u64>,
    last: u64,
    from_intended: Timestamps,
    from_actual: Timestamps,
    ends: Vec<End>,
    lag: Lag,
}

impl Paced {
    /// `buffers` where operations succeed only with their transaction.
    pub(super) fn new(buffers: bool) -> Self {
        Self {
            intended: Vec::new(),
            started: None,
            last: 0,
            from_intended: Timestamps::new(LatencyKind::Intended, buffers),
            from_actual: Timestamps::new(LatencyKind::Actual, buffers),
            ends: room_for_ends(),
            lag: Lag::default(),
        }
    }

    fn start(&mut self, index: usize) -> u64 {
        let started = wait_until(self.intended[index]);
        self.lag.started(Nanos::from_nanos(self.intended[index]), Nanos::from_nanos(started));
        started
    }
}

impl Timing for Paced {
    fn begin(&mut self, now: u64) {
        self.last = now;
    }

    fn open(&mut self, index: usize) {
        self.started = Some(self.start(index));
    }

    fn before(&mut self, index: usize) {
        if self.started.is_none() {
            self.started = Some(self.start(index));
        }
    }

    fn after(&mut self, index: usize, succeeded: bool) {
        let at = now();
        let started = self.started.take().unwrap_or(at);
        let stamp = |from: u64| if succeeded { at.saturating_sub(from) } else { FAILED };
        self.from_intended.of[index] = stamp(self.intended[index]);
        self.from_actual.of[index] = stamp(started);
        self.last = at;
    }

    fn committed(&mut self, next: usize, succeeded: bool) {
        let at = now();
        let commit = if succeeded { at - self.last } else { FAILED };
        self.ends.push(End { next, committed: succeeded, commit });
        self.last = at;
    }

    fn discarded(&mut self, next: usize) {
        self.ends.push(End { next, committed: false, commit: NONE });
    }
}

impl Sampler for Paced {
    fn collect(&mut self, chunk: &Chunk, samples: &mut Samples) {
        self.from_intended.collect(chunk, &self.ends, samples);
        self.from_actual.collect(chunk, &self.ends, samples);
        self.ends.drain(..).for_each(|end| samples.latency(Label::Commit, LatencyKind::Actual, end.commit));
    }

    fn schedule(&mut self, intended: &[u64]) {
        self.intended.clear();
        self.intended.extend_from_slice(intended);
    }

    fn lag(&self) -> Option<Lag> {
        Some(self.lag)
    }

    fn finish(&mut self, samples: &mut Samples) {
        self.from_intended.decide(true, samples);
        self.from_actual.decide(true, samples);
    }
}

/// How long before an intended start sleeping is replaced by spinning: the kernel wakes a thread up to 50 us late by
/// its timer slack, and a sleeping processor needs time to wake. The spin is CPU time of the load, not of the engine.
const SPIN: u64 = 100_000;

/// Waits for an instant of the monotonic clock; returns the first instant read that is not before it.
fn wait_until(instant: u64) -> u64 {
    loop {
        let at = now();
        if at >= instant {
            return at;
        }
        match (instant - at).checked_sub(SPIN) {
            Some(early) if early > 0 => std::thread::sleep(std::time::Duration::from_nanos(early)),
            _ => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::chunk::Draft;
    use crate::timed_loop::{Kind, process_cpu, thread_cpu};

    fn chunk(operations: u64) -> Chunk {
        let mut chunk = Chunk::default();
        for number in 0..operations {
            let draft = Draft { kind: Kind::Put, label: Label::Put, number, rows: 0 };
            chunk.push(draft, &[], &[]);
        }
        chunk
    }

    fn drive(sampler: &mut impl Sampler, samples: &mut Samples, chunks: &[u64]) {
        for operations in chunks {
            sampler.begin(now());
            for index in 0..*operations as usize {
                sampler.before(index);
                sampler.after(index, true);
            }
            sampler.end(now());
            sampler.collect(&chunk(*operations), samples);
        }
        sampler.finish(samples);
    }

    #[test]
    fn groups_span_chunks_and_an_incomplete_one_is_left_out() {
        let mut samples = Samples::default();
        drive(&mut Grouped::new(10, Some(process_cpu)), &mut samples, &[7, 7, 7, 9]);
        let groups = samples.groups.unwrap().into_groups();
        assert_eq!((groups.wall.len(), groups.cpu.len()), (3, 3));
        let mut samples = Samples::default();
        drive(&mut Grouped::new(10, Some(thread_cpu)), &mut samples, &[9]);
        assert_eq!(samples.groups.unwrap().into_groups().wall.len(), 0);
    }

    #[test]
    fn time_between_two_chunks_is_in_no_group() {
        let mut grouped = Grouped::new(2, None);
        grouped.begin(1_000_000);
        grouped.before(0);
        grouped.end(1_000_700);
        grouped.begin(5_000_000);
        grouped.before(1);
        grouped.end(5_000_030);
        let mut samples = Samples::default();
        grouped.finish(&mut samples);
        assert_eq!(samples.groups.unwrap().into_groups().wall, [730]);
    }

    /// The operations that [`OneIn`] times, of so many in chunks of 6.
    fn stamped(every: u64, chunks: usize) -> Vec<usize> {
        let mut sampler = OneIn::new(every, Stream::new(7), false);
        let mut stamped = Vec::new();
        for start in (0..chunks).map(|chunk| chunk * 6) {
            for index in 0..6 {
                sampler.before(index);
                sampler.after(index, true);
            }
            stamped.extend((0..6).filter(|i| sampler.timestamps.of[*i] != NONE).map(|i| start + i));
            sampler.collect(&chunk(6), &mut Samples::default());
        }
        stamped
    }

    #[test]
    fn one_in_so_many_is_one_of_each_so_many_across_chunks() {
        let windows: Vec<usize> = stamped(4, 20).iter().map(|at| at / 4).collect();
        assert_eq!(windows, (0..30).collect::<Vec<_>>());
        assert_eq!(stamped(1, 2), (0..12).collect::<Vec<_>>());
    }

    #[test]
    fn one_in_so_many_is_each_operation_of_a_transaction_as_often() {
        let mut counts = [0; 4];
        stamped(4, 2_000).iter().for_each(|at| counts[at % 4] += 1);
        assert!(counts.iter().all(|count| (600..900).contains(count)), "{counts:?}");
    }

    #[test]
    fn an_open_loop_never_starts_early_and_measures_from_the_intended_start() {
        let mut sampler = Paced::new(false);
        let start = now();
        let intended: Vec<u64> = (0..5).map(|i| start + i * 200_000).collect();
        sampler.schedule(&intended);
        sampler.begin(start);
        for (index, intended) in intended.iter().enumerate() {
            sampler.before(index);
            assert!(now() >= *intended);
            sampler.after(index, true);
            assert!(sampler.from_intended.of[index] >= sampler.from_actual.of[index]);
        }
    }

    #[test]
    fn a_late_start_counts_in_the_intended_latency_only() {
        let mut sampler = Paced::new(false);
        let start = now();
        sampler.schedule(&[start - 5_000_000]);
        sampler.before(0);
        sampler.after(0, true);
        assert!(sampler.from_intended.of[0] >= 5_000_000);
        assert!(sampler.from_actual.of[0] < sampler.from_intended.of[0]);
        assert!(sampler.lag.largest >= Nanos::from_nanos(5_000_000));
    }

    #[test]
    fn every_operation_and_every_failure_is_recorded_once() {
        let mut sampler = Every::new(false);
        sampler.begin(now());
        sampler.after(0, true);
        sampler.after(1, false);
        sampler.committed(2, true);
        let mut samples = Samples::default();
        sampler.collect(&chunk(2), &mut samples);
        sampler.collect(&chunk(2), &mut samples);
        let records = samples.histograms().unwrap();
        let names: Vec<_> = records.iter().map(|r| (r.operation.as_str(), r.failed)).collect();
        assert_eq!(names, [("put", 1), ("commit", 0)]);
    }
}
