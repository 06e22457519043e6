//! Times in which a thread of the load generator did not run although it was due to: it was stopped (Ctrl-Z), its machine was
//! paused, it had no processor, or waited for a disk. Requests that are due meanwhile start late, and answers that come meanwhile are
//! read late, so that such a time is in figures as if it were the server's.
//!
//! There are two proofs. A wait for events ends at an instant that the thread chose, at most [`TICK`] later: if it returns much
//! later, the thread did not run, whatever the server did. And between two waits, time that is not CPU time of the thread
//! passed while it had something to do. What is counted is what is proved: where an answer ended a wait early, up to [`TICK`] of
//! a stall is not.

use prony_model::units::Nanos;

/// A thread waits for events no longer than this, so that a stall is noticed that begins while it waits.
pub(crate) const TICK: Nanos = Nanos::from_millis(20);
/// Times that are shorter are those of a scheduler with something else to run: they are in `Usage::waited`.
const LEAST: Nanos = Nanos::from_millis(50);
/// How long the CPU time at the last reading of the clock is good for: to read it at each turn would cost a system call.
const FRESH: Nanos = Nanos::from_millis(10);
/// From this share of the window on, stalls are more than a few requests of the slowest hundredth.
const SHARE: f64 = 0.01;
/// A single one that is longer changes at least the longest latencies.
const LONG: Nanos = Nanos::from_millis(100);

/// The stalls of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stalls {
    /// The longest, at least.
    pub(crate) longest: Nanos,
    /// All together, at least; of several threads that of the one with most.
    pub(crate) total: Nanos,
}

impl Stalls {
    fn add(&mut self, time: Nanos) {
        if time >= LEAST {
            self.longest = self.longest.max(time);
            self.total += time;
        }
    }

    /// Those of two threads. They are stopped together more often than one after the other: the sum would count that twice.
    pub(crate) fn with(self, other: Self) -> Self {
        Self { longest: self.longest.max(other.longest), total: self.total.max(other.total) }
    }

    /// Whether figures of a window of this length are to be read with them in mind.
    pub(crate) fn matter(&self, window: Nanos) -> bool {
        self.longest > LONG || self.total.as_secs_f64() > SHARE * window.as_secs_f64()
    }
}

/// Watches one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// Figures begin here.
    since: Nanos,
    /// When the last wait returned.
    woke: Nanos,
    /// CPU time of the thread, and when it was read.
    cpu: (Nanos, Nanos),
    stalls: Stalls,
}

impl Watch {
    /// Watches a thread that is due to begin at an instant, for figures that begin at `since`.
    pub(crate) fn new(begin: Nanos, since: Nanos, cpu: Nanos) -> Self {
        Self { since, woke: begin, cpu: (cpu, begin), stalls: Stalls::default() }
    }

    /// A wait returned that was to end at `due` at the latest; where nothing was to be done, it does not count.
    #[inline]
    pub(crate) fn woke(&mut self, due: Nanos, now: Nanos, had_work: bool) {
        self.woke = now;
        if had_work {
            self.stalls.add(now.since(due.max(self.since)));
        }
    }

    /// A wait begins, and with it ends what was done since the last one.
    #[inline]
    pub(crate) fn waits(&mut self, now: Nanos, cpu: impl FnOnce() -> Nanos) {
        let turn = now.since(self.woke.max(self.since));
        if turn < LEAST && now.since(self.cpu.1) < FRESH {
            return;
        }
        let (before, _) = std::mem::replace(&mut self.cpu, (cpu(), now));
        // The CPU time since that reading, which may be before the turn, is at least that of the turn.
        self.stalls.add(turn.since(self.cpu.0.since(before)));
    }

    /// The stalls so far.
    pub(crate) fn stalls(&self) -> Stalls {
        self.stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn stalls(longest: u64, total: u64) -> Stalls {
        Stalls { longest: ms(longest), total: ms(total) }
    }

    /// Watched from 1 s on, with figures from 2 s on.
    fn watch() -> Watch {
        Watch::new(ms(1_000), ms(2_000), ms(0))
    }

    #[test]
    fn wait_that_returns_long_after_it_was_to_end_is_a_stall() {
        let mut watch = watch();
        watch.woke(ms(3_000), ms(3_049), true);
        assert_eq!(watch.stalls(), Stalls::default(), "that is a scheduler");
        watch.woke(ms(3_100), ms(3_050), true);
        assert_eq!(watch.stalls(), Stalls::default(), "an answer ended it");
        watch.woke(ms(3_100), ms(4_100), true);
        watch.woke(ms(5_000), ms(5_060), true);
        assert_eq!(watch.stalls(), stalls(1_000, 1_060));
        watch.woke(ms(6_000), ms(7_000), false);
        assert_eq!(watch.stalls(), stalls(1_000, 1_060), "there was nothing to do");
    }

    #[test]
    fn time_between_waits_is_a_stall_as_far_as_the_thread_did_not_use_it() {
        let mut watch = watch();
        watch.woke(ms(3_000), ms(3_000), true);
        watch.waits(ms(3_300), || ms(290));
        assert_eq!(watch.stalls(), Stalls::default(), "it made requests");
        watch.woke(ms(3_310), ms(3_310), true);
        watch.waits(ms(3_800), || ms(300));
        assert_eq!(watch.stalls(), stalls(480, 480));
    }

    #[test]
    fn cpu_time_is_read_rarely_where_turns_are_short() {
        let (mut watch, mut reads) = (watch(), 0);
        for now in 3_000..4_000 {
            watch.woke(ms(now), ms(now), true);
            watch.waits(ms(now), || {
                reads += 1;
                ms(now)
            });
        }
        assert_eq!((reads, watch.stalls()), (100, Stalls::default()));
    }

    #[test]
    fn stalls_of_the_warm_up_do_not_count_and_one_across_its_end_counts_in_part() {
        let mut watch = watch();
        watch.woke(ms(1_000), ms(1_900), true);
        assert_eq!(watch.stalls(), Stalls::default());
        watch.woke(ms(1_900), ms(2_300), true);
        assert_eq!(watch.stalls(), stalls(300, 300));
    }

    #[test]
    fn stalls_matter_by_their_share_of_the_window_or_by_their_length() {
        assert!(!stalls(60, 60).matter(ms(10_000)) && !Stalls::default().matter(ms(0)));
        assert!(stalls(60, 120).matter(ms(10_000)));
        assert!(stalls(101, 101).matter(ms(3_600_000)));
        assert_eq!(stalls(100, 200).with(stalls(150, 150)), stalls(150, 200));
    }
}
