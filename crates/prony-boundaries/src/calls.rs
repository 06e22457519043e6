//! The invocations of a function that is a phase: how many ran, when, and how long they took. Does no I/O.

use std::collections::BTreeMap;

use prony_model::latency::Recorder;
use prony_model::reading::Reading;
use prony_model::units::Nanos;
use prony_runtime::{ProbeEvent, ProbeLine, Source, Tallied};

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
    /// Invocations that were only counted by the probe, with the instant of the count: each of a thread replaces the one
    /// before.
    counted: BTreeMap<Source, (Nanos, Tallied)>,
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
        let ProbeEvent::Calls(tallied) = &line.event else { return Nanos::ZERO };
        let before = self.counted.insert(line.source, (line.at, tallied.clone()));
        before.map_or(Nanos::ZERO, |(before, _)| line.at.since(before))
    }

    /// The time of each invocation that ended, failed invocations separately.
    pub fn recorder(&self) -> Recorder {
        let mut all = self.single.clone();
        let failed = self.sum(|tallied| tallied.failed);
        all.record_many_failed(failed);
        let mut buckets: BTreeMap<(Nanos, Nanos), u64> = BTreeMap::new();
        for (from, to, count) in self.tallied().flat_map(Tallied::buckets) {
            let bucket = buckets.entry((from, to)).or_default();
            *bucket = bucket.saturating_add(count);
        }
        // Which of them failed is not known: the fastest are taken, as failures often take less time.
        let mut to_leave_out = failed;
        for ((from, to), count) in buckets {
            let left_out = to_leave_out.min(count);
            to_leave_out -= left_out;
            all.record_many(Nanos::from_nanos(from.as_nanos().midpoint(to.as_nanos())), count - left_out);
        }
        all
    }

    /// The counts of the threads in which invocations ended.
    fn tallied(&self) -> impl Iterator<Item = &Tallied> {
        self.counted.values().map(|(_, tallied)| tallied).filter(|tallied| tallied.count > 0)
    }

    /// The sum of a count over the threads.
    fn sum(&self, of: fn(&Tallied) -> u64) -> u64 {
        self.tallied().map(of).fold(0, u64::saturating_add)
    }

    /// Time in which at least one invocation was running, until `end`, without suspensions of the program; the probe's
    /// own work in between is left out where invocations ran one after another.
    pub fn time(&self, end: Nanos, suspended: &Suspensions) -> Reading<Nanos> {
        let running = |(from, to): (Nanos, Nanos)| to.since(from).since(suspended.between(from, to));
        let open = if self.is_open() { running((self.since, end)) } else { Nanos::ZERO };
        let (count, took) =
            (self.sum(|tallied| tallied.count), self.tallied().fold(self.took, |sum, one| sum + one.total));
        if !self.overlapped && self.counted.len() <= 1 {
            return Reading::Measured(took + open);
        }
        if count == 0 {
            return Reading::Measured(self.inside.iter().copied().map(running).fold(open, |sum, part| sum + part));
        }
        Reading::not_supported(format!(
            "{count} calls were only counted while others ran at the same time, so the sum of their times, {took}, is too high"
        ))
    }
}

#[cfg(test)]
mod tests {
    use prony_model::reading::Why;

    use super::*;
    use crate::probe_reports::tests::line;

    fn time(calls: &Calls, end: Nanos) -> Reading<Nanos> {
        calls.time(end, &Suspensions::default())
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
        let recorder = calls.recorder();
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
        assert_eq!(calls.time(ms(99), &suspended), Reading::Measured(ms(30)));
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
        let recorder = calls.recorder();
        assert_eq!((recorder.succeeded(), recorder.failed()), (19, 2));
        calls.counted(&hot(1, 2_000, 4));
        assert!(matches!(time(&calls, ms(9)), Reading::Missing(Why::NotSupported(_))), "two threads counted");
    }

    /// Programs write to the channel too, and a line of theirs may look like one of a probe.
    #[test]
    fn counts_beyond_64_bits_stay_at_the_most() {
        let mut calls = Calls::default();
        for thread in [0, 1] {
            let mut most = hot(thread, 1, 10);
            let ProbeEvent::Calls(tallied) = &mut most.event else { panic!("a line of a hot function") };
            (tallied.count, tallied.failed) = (u64::MAX, u64::MAX);
            tallied.classes = vec![(u32::MAX, u64::MAX), (u32::MAX, 1)];
            calls.counted(&most);
        }
        let recorder = calls.recorder();
        assert_eq!((recorder.succeeded(), recorder.failed()), (0, u64::MAX), "the fastest are the failed ones");
        assert_eq!(calls.sum(|tallied| tallied.count), u64::MAX);
    }
}
