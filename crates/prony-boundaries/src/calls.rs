//! The invocations of a function that is a phase: how many ran, when, and how long they took. Does no I/O.

use std::collections::BTreeMap;

use prony_model::latency::Recorder;
use prony_model::reading::{Reading, Why};
use prony_model::units::Nanos;
use prony_runtime::{CallTotals, ProbeEvent, ProbeLine, Source, Tallies};

use crate::suspensions::Suspensions;

/// The known invocations of a function.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// How many invocations are running, by thread.
    open: BTreeMap<Source, u64>,
    /// Since when any invocation was running.
    since: Nanos,
    /// The times in which at least one invocation was running, up to `since`.
    inside: Vec<(Nanos, Nanos)>,
    /// Sum of the times of the invocations that were reported one by one.
    took: Nanos,
    /// Whether two invocations ever ran at once, nested or in different threads.
    overlapped: bool,
    single: Recorder,
    /// Invocations that were only counted by the probe.
    hot: Tallies,
    hot_threads: BTreeMap<Source, Nanos>,
}

impl Calls {
    /// How many invocations are running.
    fn under_way(&self) -> u64 {
        self.open.values().fold(0, |sum, open| sum.saturating_add(*open))
    }

    /// Whether any invocation is running.
    pub fn is_open(&self) -> bool {
        self.under_way() > 0
    }

    /// Whether any invocation that was reported one by one was running at an instant.
    pub fn was_open(&self, at: Nanos) -> bool {
        let still = self.is_open() && self.since < at;
        still || self.inside.iter().any(|(from, to)| *from < at && at < *to)
    }

    /// An invocation begins in a thread that had `open` running.
    pub fn begin(&mut self, source: Source, at: Nanos, open: u64) {
        if self.is_open() {
            self.overlapped = true;
        } else {
            self.since = at;
        }
        self.open.insert(source, open.saturating_add(1));
    }

    /// An invocation ends in a thread that has `open` more running.
    pub fn end(&mut self, source: Source, at: Nanos, open: u64, ok: bool, took: Nanos) {
        let was_open = self.is_open();
        self.open.insert(source, open);
        if was_open && !self.is_open() {
            self.inside.push((self.since, at));
        }
        self.took += took;
        if ok { self.single.record(took) } else { self.single.record_failed() }
    }

    /// Several invocations were counted up to now. Returns how long ago the same thread had reported before.
    pub fn counted(&mut self, line: &ProbeLine) -> Nanos {
        if let ProbeEvent::Calls(_) = &line.event {
            self.hot.take(line);
        }
        let before = self.hot_threads.insert(line.source, line.at);
        before.map_or(Nanos::ZERO, |before| line.at.since(before))
    }

    /// The time of each invocation that ended, failed invocations separately.
    pub fn recorder(&self, call: &str) -> Recorder {
        let mut all = self.single.clone();
        let CallTotals { failed, buckets, .. } = self.hot.of(call);
        all.record_many_failed(failed);
        // Which of them failed is not known: the fastest are taken, as failures often take less time.
        let mut to_leave_out = failed;
        for bucket in buckets {
            let left_out = to_leave_out.min(bucket.count);
            to_leave_out -= left_out;
            let middle = Nanos::from_nanos(bucket.from.as_nanos().midpoint(bucket.to.as_nanos()));
            all.record_many(middle, bucket.count - left_out);
        }
        all
    }

    /// Time in which at least one invocation was running, until `end`, without suspensions of the program; the probe's
    /// own work in between is left out where invocations ran one after another.
    pub fn time(&self, call: &str, end: Nanos, suspended: &Suspensions) -> Reading<Nanos> {
        let running = |(from, to): (Nanos, Nanos)| to.since(from).since(suspended.between(from, to));
        let open = if self.is_open() { running((self.since, end)) } else { Nanos::ZERO };
        let counted = self.hot.of(call);
        if !self.overlapped && self.hot_threads.len() <= 1 {
            return Reading::Measured(self.took + counted.total + open);
        }
        if counted.count == 0 {
            return Reading::Measured(self.inside.iter().copied().map(running).fold(open, |sum, part| sum + part));
        }
        Reading::Missing(Why::NotSupported(format!(
            "{} calls were only counted while others ran at the same time, so the sum of their times, {}, is too high",
            counted.count,
            self.took + counted.total
        ).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe_reports::tests::line;

    fn time(calls: &Calls, end: Nanos) -> Reading<Nanos> {
        calls.time("p", end, &Suspensions::default())
    }

    const A: Source = Source { pid: 1, thread: 0 };
    const B: Source = Source { pid: 1, thread: 1 };

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn one_after_another_the_time_is_the_sum() {
        let mut calls = Calls::default();
        calls.begin(A, ms(0), 0);
        assert!(calls.is_open());
        calls.end(A, ms(11), 0, true, ms(10));
        calls.begin(B, ms(50), 0);
        calls.end(B, ms(71), 0, false, ms(20));
        assert!(!calls.is_open());
        assert_eq!(time(&calls, ms(99)), Reading::Measured(ms(30)), "without the probe's own time");
        let recorder = calls.recorder("p");
        assert_eq!((recorder.succeeded(), recorder.failed()), (1, 1));
    }

    #[test]
    fn side_by_side_and_inside_one_another_time_counts_once() {
        let mut calls = Calls::default();
        calls.begin(A, ms(0), 0);
        calls.begin(A, ms(1), 1);
        calls.end(A, ms(3), 1, true, ms(2));
        calls.begin(B, ms(5), 0);
        calls.end(A, ms(10), 0, true, ms(10));
        calls.end(B, ms(15), 0, true, ms(10));
        assert_eq!(time(&calls, ms(99)), Reading::Measured(ms(15)));
    }

    /// A suspension at the end of another function may come while these are under way.
    #[test]
    fn concurrent_call_time_excludes_suspensions() {
        let mut calls = Calls::default();
        calls.begin(A, ms(0), 0);
        calls.begin(A, ms(5), 1);
        calls.end(A, ms(40), 1, true, ms(15));
        calls.end(A, ms(50), 0, true, ms(30));
        let suspended = Suspensions::new(vec![(ms(10), ms(30)), (ms(60), ms(70))]);
        assert_eq!(calls.time("p", ms(99), &suspended), Reading::Measured(ms(30)));
    }

    #[test]
    fn one_that_never_ends_counts_up_to_the_end() {
        let mut calls = Calls::default();
        calls.begin(A, ms(10), 0);
        assert_eq!((time(&calls, ms(14)), calls.is_open()), (Reading::Measured(ms(4)), true));
    }

    fn hot(thread: u32, at: u64, count: u64) -> ProbeLine {
        let rest = format!(
            r#""probe":"calls","call":"p","count":{count},"failed":2,"total":{},"min":900,"max":1100,"sub":16,"classes":[[144,3],[160,{}]]"#,
            count * 1_000,
            count - 3
        );
        line(1, thread, at, &rest)
    }

    #[test]
    fn counted_invocations_join_the_single_ones() {
        let mut calls = Calls::default();
        calls.begin(A, ms(0), 0);
        calls.end(A, ms(1), 0, true, ms(1));
        assert_eq!(calls.counted(&hot(0, 1_000, 10)), Nanos::ZERO);
        assert_eq!(calls.counted(&hot(0, 2_000, 20)), ms(1_000));
        assert_eq!(time(&calls, ms(9)), Reading::Measured(ms(1) + Nanos::from_nanos(20_000)));
        let recorder = calls.recorder("p");
        assert_eq!((recorder.succeeded(), recorder.failed()), (19, 2));
        calls.counted(&hot(1, 2_000, 4));
        assert!(matches!(time(&calls, ms(9)), Reading::Missing(Why::NotSupported(_))), "two threads counted");
    }
}
