//! What the threads of a load used: CPU time, and the time in which they had no processor.

use prony_model::reading::{Reading, Why};
use prony_model::units::Nanos;

use crate::clock::{monotonic, processor_wait, thread_cpu};

/// What a thread used in a time, or all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Of all threads the longest.
    pub(crate) wall: Nanos,
    pub(crate) cpu: Nanos,
    /// Time without a processor though it was ready to run; `None` where the kernel does not count it.
    pub(crate) waited: Option<Nanos>,
    /// CPU time and waiting time of the thread with the most of both.
    pub(crate) busiest: (Nanos, Nanos),
}

impl Usage {
    /// Of no thread yet.
    pub(crate) const NONE: Self =
        Self { wall: Nanos::ZERO, cpu: Nanos::ZERO, waited: Some(Nanos::ZERO), busiest: (Nanos::ZERO, Nanos::ZERO) };

    /// Of two threads at the same time.
    pub(crate) fn with(self, other: Self) -> Self {
        let waited = self.waited.zip(other.waited).map(|(one, other)| one + other);
        let busiest = [self.busiest, other.busiest].into_iter().max_by_key(|(cpu, waited)| *cpu + *waited);
        Self {
            wall: self.wall.max(other.wall),
            cpu: self.cpu + other.cpu,
            waited,
            busiest: busiest.unwrap_or_default(),
        }
    }

    /// CPU time as a share of that of the processors that so many threads can use at once.
    pub(crate) fn share(&self, threads: u32, processors: usize) -> Reading<f64> {
        self.share_of(self.cpu, u64::from(threads).min(processors as u64))
    }

    /// The share of their time in which the threads waited for a processor.
    pub(crate) fn waited_share(&self, threads: u32) -> Reading<f64> {
        let not_counted = || Reading::not_supported("the kernel does not count it (`CONFIG_SCHED_INFO`)");
        self.waited.map_or_else(not_counted, |waited| self.share_of(waited, threads.into()))
    }

    /// The shares of its time for which the busiest thread ran and waited for a processor: another may have fewer connections.
    pub(crate) fn of_busiest(&self) -> (f64, f64) {
        let (cpu, waited) = self.busiest;
        let of = |time| self.share_of(time, 1).measured().copied().unwrap_or_default();
        (of(cpu), of(waited))
    }

    fn share_of(&self, time: Nanos, several: u64) -> Reading<f64> {
        match self.wall.as_secs_f64() * several as f64 {
            all if all > 0.0 => Reading::Measured(time.as_secs_f64() / all),
            _ => Reading::Missing(Why::NotReached),
        }
    }
}

/// Readings of a thread's own clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    wall: Nanos,
    cpu: Nanos,
    waited: Option<Nanos>,
}

impl Clocks {
    pub(crate) fn read() -> Self {
        Self { wall: monotonic(), cpu: thread_cpu(), waited: processor_wait() }
    }

    fn since(self, earlier: Self) -> Usage {
        let waited = self.waited.zip(earlier.waited).map(|(now, then)| now.since(then));
        let cpu = self.cpu.since(earlier.cpu);
        Usage { wall: self.wall.since(earlier.wall), cpu, waited, busiest: (cpu, waited.unwrap_or_default()) }
    }
}

/// Reads the clocks of a thread where a section of the load begins, and at the end of the last.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// When sections begin.
    begins: Vec<Nanos>,
    /// At the begin of each section that was reached.
    readings: Vec<Clocks>,
    end: Option<Clocks>,
}

impl Meter {
    /// For sections that begin at these instants.
    pub(crate) fn new(begins: Vec<Nanos>) -> Self {
        Self { begins, readings: Vec::new(), end: None }
    }

    /// Reads the clocks where a section has begun.
    #[inline]
    pub(crate) fn at(&mut self, now: Nanos, read: impl FnOnce() -> Clocks) {
        let reached = self.begins[self.readings.len()..].iter().take_while(|begin| **begin <= now).count();
        if reached > 0 && self.end.is_none() {
            self.readings.extend(std::iter::repeat_n(read(), reached));
        }
    }

    /// Nothing more begins.
    #[inline]
    pub(crate) fn end(&mut self, read: impl FnOnce() -> Clocks) {
        if self.end.is_none() && !self.readings.is_empty() {
            self.end = Some(read());
        }
    }

    /// What was used in all sections together, and in each that was reached.
    pub(crate) fn usages(&self) -> (Usage, Vec<Usage>) {
        let Some((first, end)) = self.readings.first().zip(self.end) else { return (Usage::default(), Vec::new()) };
        let ends = self.readings.iter().skip(1).copied().chain([end]);
        (end.since(*first), self.readings.iter().zip(ends).map(|(begin, end)| end.since(*begin)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    const fn usage(wall: u64, cpu: u64, waited: u64) -> Usage {
        Usage { wall: ms(wall), cpu: ms(cpu), waited: Some(ms(waited)), busiest: (ms(cpu), ms(waited)) }
    }

    #[test]
    fn usage_of_each_section_is_that_between_its_bounds() {
        let mut meter = Meter::new(vec![ms(1_000), ms(2_000), ms(3_000), ms(9_000)]);
        let clocks = |wall, cpu| move || Clocks { wall: ms(wall), cpu: ms(cpu), waited: Some(ms(cpu / 10)) };
        meter.end(clocks(500, 0));
        for (now, cpu) in [(999, 40), (1_000, 50), (1_500, 60), (3_100, 1_050), (3_200, 1_060)] {
            meter.at(ms(now), clocks(now, cpu));
        }
        meter.end(clocks(4_000, 1_100));
        meter.end(clocks(5_000, 9_000));
        meter.at(ms(9_000), clocks(9_000, 9_999));
        let (all, sections) = meter.usages();
        // The second began and ended while the thread did not run.
        assert_eq!(sections, [usage(2_100, 1_000, 100), usage(0, 0, 0), usage(900, 50, 5)]);
        assert_eq!(all, usage(3_000, 1_050, 105));
        assert_eq!(Meter::new(vec![ms(1)]).usages(), (Usage::default(), Vec::new()));
    }

    /// Sixteen threads on two processors, each of which waited 40 % of its time: they were said to wait for 320 %.
    #[test]
    fn waiting_is_a_share_of_the_time_of_the_threads_and_cpu_time_of_that_of_the_processors() {
        let all = (0..16).fold(Usage::NONE, |all, _| all.with(usage(1_000, 100, 400)));
        assert_eq!(all.share(16, 2), Reading::Measured(0.8));
        assert_eq!(all.waited_share(16), Reading::Measured(0.4));
        assert_eq!(all.with(usage(1_000, 900, 50)).of_busiest(), (0.9, 0.05));
        assert_eq!(all.share(1, 2), Reading::Measured(1.6), "one thread uses one processor");
        let uncounted = all.with(Usage { waited: None, ..usage(1_000, 100, 0) });
        assert!(matches!(uncounted.waited_share(17), Reading::Missing(Why::NotSupported(_))));
        assert_eq!(Usage::NONE.share(1, 1), Reading::Missing(Why::NotReached));
    }
}
