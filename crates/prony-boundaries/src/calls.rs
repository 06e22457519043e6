//! The invocations of a function that is a phase: how many ran, when, and how long they took. Does no I/O.

use std::collections::BTreeMap;

use prony_model::latency::Recorder;
use prony_model::metric::{Metric, MetricKey};
use prony_model::reading::Reading;
use prony_model::record::MetricKeyText;
use prony_model::units::Nanos;
use prony_runtime::{ProbeEvent, ProbeLine, Source, Tallied};

use crate::suspensions::Suspensions;

/// The known invocations of a function.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// How many invocations are running since an instant, for each thread that called the function.
    open: BTreeMap<Source, (Nanos, u64)>,
    /// Since when any invocation was running.
    since: Nanos,
    /// The times in which at least one invocation was running, up to `since`.
    inside: Vec<(Nanos, Nanos)>,
    /// Sum of the times of the invocations that were reported one by one.
    took: Nanos,
    /// Whether two invocations that were reported one by one ever ran at once, nested or in different threads.
    overlapped: bool,
    single: Recorder,
    /// Invocations that were only counted by the probe, with the instant of the count: each of a thread replaces the one
    /// before.
    counted: BTreeMap<Source, (Nanos, Tallied)>,
}

impl Calls {
    /// Whether any invocation is running.
    pub fn is_open(&self) -> bool {
        self.open.values().any(|(_, open)| *open > 0)
    }

    /// Whether any invocation is running of a thread of which `runs` says that its process has not ended.
    pub fn is_open_where(&self, runs: impl Fn(Source) -> bool) -> bool {
        self.open.iter().any(|(source, (_, open))| *open > 0 && runs(*source))
    }

    /// Whether any invocation is known to have been running at an instant.
    pub fn was_open(&self, at: Nanos) -> bool {
        let still = self.is_open() && self.since < at;
        still || self.inside.iter().any(|(from, to)| *from < at && at < *to)
    }

    /// An invocation begins in a thread that had `open` running.
    pub fn begin(&mut self, source: Source, at: Nanos, open: u64) {
        self.overlapped |= self.is_open();
        self.set_open(source, at, open.saturating_add(1));
    }

    /// An invocation ends in a thread that has `open` more running. It counts even where none is known to be running there: a later end
    /// of another thread of Python may have come first. A forked copy of a process reports no ends of its parent's invocations.
    pub fn end(&mut self, source: Source, at: Nanos, open: u64, ok: bool, took: Nanos) {
        self.set_open(source, at, open);
        self.took += took;
        if ok { self.single.record(took) } else { self.single.record_failed() }
    }

    /// Several invocations were counted up to now.
    pub fn counted(&mut self, line: &ProbeLine) {
        let ProbeEvent::Calls(tallied) = &line.event else { return };
        self.set_open(line.source, line.at, tallied.open);
        let before = self.counted.get(&line.source).map(|(before, _)| *before);
        if before.is_none_or(|before| before <= line.at) {
            self.counted.insert(line.source, (line.at, tallied.clone()));
        }
    }

    /// In a thread `open` invocations are running from an instant on. Threads of Python are one here, and may write their
    /// lines in another order than that of the instants: the latest instant counts.
    fn set_open(&mut self, source: Source, at: Nanos, open: u64) {
        let was_open = self.is_open();
        let (latest, _) = self.open.get(&source).copied().unwrap_or_default();
        if latest <= at {
            self.open.insert(source, (at, open));
        }
        match (was_open, self.is_open()) {
            (false, true) => self.since = at,
            (true, false) => self.inside.push((self.since, at)),
            _ => {}
        }
    }

    /// The time of each invocation that ended, failed invocations separately.
    pub fn recorder(&self) -> Recorder {
        let mut all = self.single.clone();
        all.record_many_failed(self.sum(|tallied| tallied.failed));
        for tallied in self.tallied() {
            let mut classes: Vec<_> = tallied.buckets().filter(|(.., count)| *count > 0).collect();
            // Of the longest the time is known.
            if let Some((.., count)) = classes.last_mut() {
                *count -= 1;
                all.record_many(tallied.max, 1);
            }
            for (from, to, count) in classes {
                all.record_many(Nanos::from_nanos(from.as_nanos().midpoint(to.as_nanos())).min(tallied.max), count);
            }
        }
        all
    }

    /// How far each percentile of these times may be off where some were only counted: half a class, in nanoseconds.
    pub fn resolution(&self) -> BTreeMap<MetricKeyText, f64> {
        let Some(sub) = self.tallied().map(|tallied| tallied.sub.max(1)).min() else { return BTreeMap::new() };
        let error = |(metric, reading): (Metric, Reading<f64>)| {
            metric.percentile()?;
            Some((MetricKeyText(MetricKey::amount(metric)), reading.measured()? / (2.0 * f64::from(sub))))
        };
        self.recorder().metrics(Metric::LATENCY).into_iter().filter_map(error).collect()
    }

    /// The counts of the threads in which invocations ended.
    fn tallied(&self) -> impl Iterator<Item = &Tallied> {
        self.counted.values().map(|(_, tallied)| tallied).filter(|tallied| tallied.count > 0)
    }

    /// The sum of a count over the threads.
    fn sum(&self, of: fn(&Tallied) -> u64) -> u64 {
        self.tallied().map(of).fold(0, u64::saturating_add)
    }

    /// The sum of the times of the invocations that were only counted.
    pub fn counted_time(&self) -> Nanos {
        self.tallied().fold(Nanos::ZERO, |sum, one| sum + one.total)
    }

    /// Time in which at least one invocation was running, until `end`, without suspensions of the program; the probe's
    /// own work in between is left out where invocations ran one after another. It is missing where several ran at once, and some
    /// while another thread was suspended: `shared` are suspensions of one thread in which others continued.
    pub fn time(&self, end: Nanos, (suspended, shared): (&Suspensions, &Suspensions)) -> Reading<Nanos> {
        let parts = self.inside.iter().copied().filter(|_| self.overlapped);
        let open = self.is_open().then_some((self.since, end));
        if parts.chain(open).any(|(from, to)| shared.between(from, to) > Nanos::ZERO) {
            return Reading::not_supported(
                "one thread or process of the program was suspended while calls of others ran: this time can be neither left out nor \
                 counted",
            );
        }
        let running = |(from, to): (Nanos, Nanos)| to.since(from).since(suspended.between(from, to));
        let open = open.map_or(Nanos::ZERO, running);
        let (count, counted) = (self.sum(|tallied| tallied.count), self.counted_time());
        if let Some(why) = self.uncountable().filter(|_| count > 0) {
            return Reading::not_supported(format!(
                "{count} calls were counted and not reported one by one, and {why}: the sum of their times, {counted}, may be too \
                 high"
            ));
        }
        let single = match self.overlapped {
            true => self.inside.iter().copied().map(running).fold(Nanos::ZERO, |sum, part| sum + part),
            false => self.took,
        };
        Reading::Measured(single + counted + open)
    }

    /// Why invocations that were counted may have run at the same time as others; `None` where they did not.
    fn uncountable(&self) -> Option<&'static str> {
        if self.counted.values().any(|(_, tallied)| tallied.overlapped) {
            return Some("some of them ran at the same time as other calls");
        }
        (self.open.len() > 1).then_some("other threads or processes called the function too")
    }
}

#[cfg(test)]
mod tests {
    use prony_model::latency;
    use prony_model::reading::Why;

    use super::*;
    use crate::probe_reports::tests::line;

    fn time(calls: &Calls, end: Nanos) -> Reading<Nanos> {
        calls.time(end, (&Suspensions::default(), &Suspensions::default()))
    }

    const A: Source = Source { pid: 1, thread: 0 };
    const B: Source = Source { pid: 1, thread: 1 };

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    /// After the kill of a process in a call, no other one was suspended at the end of its calls.
    #[test]
    fn calls_of_processes_that_have_ended_go_on_no_more() {
        let mut calls = Calls::default();
        let killed = Source { pid: 9, thread: 0 };
        calls.begin(killed, ms(0), 0);
        calls.begin(A, ms(1), 0);
        let is_open = |calls: &Calls| calls.is_open_where(|source| source.pid != killed.pid);
        assert!(is_open(&calls));
        calls.end(A, ms(2), 0, true, ms(1));
        assert_eq!((is_open(&calls), calls.is_open()), (false, true));
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
        assert_eq!(calls.time(ms(99), (&suspended, &Suspensions::default())), Reading::Measured(ms(30)));
    }

    /// A worker's call of 1.5 s was 0.5 s, since the main thread was suspended for 1 s meanwhile.
    #[test]
    fn concurrent_calls_have_no_time_where_one_ran_while_another_thread_was_suspended() {
        let shared = Suspensions::new(vec![(ms(20), ms(30))]);
        let time = |calls: &Calls| calls.time(ms(99), (&shared, &shared));
        let mut calls = Calls::default();
        calls.begin(A, ms(0), 0);
        calls.end(A, ms(15), 0, true, ms(15));
        calls.begin(B, ms(16), 0);
        assert_eq!(time(&calls).measured(), None, "it is still open");
        calls.end(B, ms(40), 0, true, ms(24));
        assert_eq!(time(&calls), Reading::Measured(ms(39)), "each thread measures its own calls");
        let mut calls = Calls::default();
        calls.begin(A, ms(0), 0);
        calls.begin(B, ms(10), 0);
        calls.end(A, ms(20), 0, true, ms(20));
        calls.end(B, ms(40), 0, true, ms(30));
        assert!(matches!(time(&calls), Reading::Missing(Why::NotSupported(_))));
    }

    #[test]
    fn one_that_never_ends_counts_up_to_the_end() {
        let mut calls = Calls::default();
        calls.begin(A, ms(10), 0);
        assert_eq!((time(&calls, ms(14)), calls.is_open()), (Reading::Measured(ms(4)), true));
    }

    fn hot(thread: u32, at: u64, count: u64) -> ProbeLine {
        let rest = format!(
            r#""probe":"calls","call":"p","open":0,"overlapped":false,"last":{at}000000,"count":{count},"failed":2,"total":{},"min":900,"max":1100,"sub":16,"classes":[[144,1],[160,{}]]"#,
            count * 1_000,
            count - 3
        );
        line(1, thread, at, &rest)
    }

    /// Of calls of which several ran at once, and `open` still do.
    fn concurrent(at: u64, count: u64, open: u64) -> ProbeLine {
        let mut line = hot(0, at, count);
        let ProbeEvent::Calls(tallied) = &mut line.event else { panic!("a line of a hot function") };
        (tallied.open, tallied.overlapped) = (open, true);
        line
    }

    fn why(calls: &Calls) -> String {
        let Reading::Missing(Why::NotSupported(why)) = time(calls, ms(9)) else { panic!("{:?}", time(calls, ms(9))) };
        why.to_string()
    }

    #[test]
    fn counted_invocations_join_the_single_ones() {
        let mut calls = Calls::default();
        calls.begin(A, ms(0), 0);
        calls.end(A, ms(1), 0, true, ms(1));
        calls.counted(&hot(0, 1_000, 10));
        calls.counted(&hot(0, 2_000, 20));
        assert_eq!(time(&calls, ms(9)), Reading::Measured(ms(1) + Nanos::from_nanos(20_000)));
        let recorder = calls.recorder();
        assert_eq!((recorder.succeeded(), recorder.failed()), (19, 2));
        calls.counted(&hot(1, 2_000, 4));
        assert!(why(&calls).contains("other threads or processes called the function too"), "{}", why(&calls));
    }

    /// Only the calls that are reported one by one show whether they overlap: 500 calls of 1 s, made at once after 1,000 that
    /// were made one after another, were 504 s in a trial of 2.35 s.
    #[test]
    fn counted_invocations_that_may_have_run_at_once_have_no_time() {
        let mut calls = Calls::default();
        calls.begin(A, ms(0), 0);
        calls.end(A, ms(1), 0, true, ms(1));
        calls.counted(&concurrent(1_000, 500, 0));
        assert!(why(&calls).contains("some of them ran at the same time"), "{}", why(&calls));
        let mut calls = Calls::default();
        calls.counted(&hot(0, 1_000, 500));
        calls.begin(B, ms(500), 0);
        calls.end(B, ms(501), 0, true, ms(1));
        assert!(why(&calls).contains("other threads or processes called the function too"), "{}", why(&calls));
    }

    /// Ten threads of Python that made 200 calls never ended in 2 of 20 trials: the last two ends came in the wrong order. The end that
    /// came last was then dropped, and there was one call less.
    #[test]
    fn invocations_end_where_lines_of_threads_are_out_of_order() {
        let mut calls = Calls::default();
        calls.begin(A, ms(0), 0);
        calls.begin(A, ms(1), 1);
        calls.end(A, ms(11), 0, true, ms(10));
        calls.end(A, ms(10), 1, true, ms(10));
        assert_eq!((calls.is_open(), time(&calls, ms(99))), (false, Reading::Measured(ms(11))));
        assert_eq!((calls.recorder().succeeded(), calls.recorder().failed()), (2, 0));
        calls.counted(&concurrent(30, 6, 0));
        calls.counted(&concurrent(20, 5, 1));
        assert_eq!((calls.is_open(), calls.sum(|tallied| tallied.count)), (false, 6));
    }

    #[test]
    fn counted_invocations_one_after_another_add_to_the_union_of_single_ones() {
        let mut calls = Calls::default();
        calls.begin(A, ms(0), 0);
        calls.begin(A, ms(1), 1);
        calls.end(A, ms(3), 1, true, ms(2));
        calls.end(A, ms(10), 0, true, ms(10));
        calls.counted(&hot(0, 1_000, 20));
        assert_eq!(time(&calls, ms(9)), Reading::Measured(ms(10) + Nanos::from_nanos(20_000)));
    }

    /// The last single end has those among `open` that are only counted: 1,500 calls by a pool of 10 never ended, though all
    /// had returned.
    #[test]
    fn counted_invocations_end_with_their_own_lines() {
        let mut calls = Calls::default();
        calls.begin(A, ms(0), 0);
        calls.end(A, ms(10), 9, true, ms(10));
        calls.counted(&concurrent(20, 4, 9));
        assert!(calls.is_open());
        calls.counted(&concurrent(50, 13, 0));
        assert!(!calls.is_open() && calls.was_open(ms(30)) && !calls.was_open(ms(60)));
        calls.counted(&concurrent(90, 20, 1));
        assert!(calls.is_open(), "one had not returned when the thread ended");
    }

    /// Of a call of 33.60 ms the maximum was 34.64 ms, the middle of its class.
    #[test]
    fn longest_of_counted_invocations_is_exact_and_percentiles_are_within_half_a_class() {
        let mut calls = Calls::default();
        calls.begin(A, ms(0), 0);
        calls.end(A, ms(1), 0, true, ms(1));
        assert!(calls.resolution().is_empty(), "each was reported");
        for (thread, max) in [(0, 33_600_000_u64), (1, 20_000_000)] {
            let mut line = hot(thread, 1_000, 5_000);
            let ProbeEvent::Calls(tallied) = &mut line.event else { panic!("a line of a hot function") };
            let last = max.ilog2() * 16;
            (tallied.max, tallied.classes) = (Nanos::from_nanos(max), vec![vec![229, 5_000], vec![u64::from(last), 1]]);
            tallied.failed = 0;
            calls.counted(&line);
        }
        let figures = calls.recorder().metrics(Metric::LATENCY);
        let of = |wanted| *figures.iter().find(|(metric, _)| *metric == wanted).unwrap().1.measured().unwrap();
        assert!((of(Metric::LatencyP50) / 22_016.0 - 1.0).abs() < 0.001, "the middle of a class");
        assert!((of(Metric::LatencyMax) / 33_600_000.0 - 1.0).abs() < 0.001);
        let expected =
            [Metric::LatencyP50, Metric::LatencyP90, Metric::LatencyP95, Metric::LatencyP99, Metric::LatencyP999]
                .map(|metric| (MetricKeyText(MetricKey::amount(metric)), of(metric) / 32.0));
        assert_eq!(calls.resolution(), expected.into());
    }

    /// Of 20,000 calls 96 % took 20 us, and 4 % failed after 1 ms: as the fastest were taken for those that had failed, the 95th
    /// percentile was 1 ms.
    #[test]
    fn slow_failures_are_no_times_of_calls_that_returned() {
        let mut line = hot(0, 1_000, 1_000);
        let ProbeEvent::Calls(tallied) = &mut line.event else { panic!("a line of a hot function") };
        (tallied.failed, tallied.sub, tallied.classes) = (40, 128, vec![vec![1820, 960]]);
        tallied.max = Nanos::from_nanos(20_001);
        let mut calls = Calls::default();
        calls.counted(&line);
        let recorder = calls.recorder();
        assert_eq!((recorder.succeeded(), recorder.failed()), (960, 40));
        let at = |q| latency::percentile(&recorder, q);
        assert!(at(0.95).measured().is_some_and(|p95| (p95 / 20_000.0 - 1.0).abs() < 0.01), "{:?}", at(0.95));
        assert!(matches!(at(0.99), Reading::Missing(Why::Infinite { .. })), "{:?}", at(0.99));
    }

    /// Programs write to the channel too, and a line of theirs may look like one of a probe.
    #[test]
    fn counts_beyond_64_bits_stay_at_the_most() {
        let mut calls = Calls::default();
        for thread in [0, 1] {
            let mut most = hot(thread, 1, 10);
            let ProbeEvent::Calls(tallied) = &mut most.event else { panic!("a line of a hot function") };
            (tallied.count, tallied.failed) = (u64::MAX, u64::MAX);
            tallied.classes = vec![vec![u64::MAX, u64::MAX, 1], vec![u64::MAX, 1], vec![]];
            calls.counted(&most);
        }
        let recorder = calls.recorder();
        assert_eq!((recorder.succeeded(), recorder.failed()), (1 << 48, u64::MAX), "as many as a recorder takes");
        assert_eq!(calls.sum(|tallied| tallied.count), u64::MAX);
    }
}
