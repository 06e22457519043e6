//! The clocks of the load generator.

use prony_model::units::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC`.
#[inline]
pub(crate) fn monotonic() -> Nanos {
    read_clock(ClockId::Monotonic)
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Nanos {
    read_clock(ClockId::ThreadCPUTime)
}

/// How long the calling thread was ready to run and had no processor; `None` where the kernel does not count it.
///
/// The second number of `schedstat` (Documentation/scheduler/sched-stats.rst), in nanoseconds.
pub(crate) fn processor_wait() -> Option<Nanos> {
    waited(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// The third number is how often the thread was put on a processor, as one that reads this was. Where that is 0, the kernel counts
/// nothing (`proc_pid_schedstat` in fs/proc/base.c).
fn waited(schedstat: &str) -> Option<Nanos> {
    let mut numbers = schedstat.split_ascii_whitespace().skip(1).map(|number| number.parse().ok());
    let (waited, runs): (u64, u64) = (numbers.next()??, numbers.next()??);
    (runs > 0).then(|| Nanos::from_nanos(waited))
}

#[inline]
fn read_clock(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    // These clocks begin at 0 and never run backwards.
    Nanos::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was taken for a thread that never waited.
    #[test]
    fn kernel_that_counts_no_waiting_is_noticed() {
        assert_eq!(["64786 41072 2\n", "9 0 1\n"].map(waited), [41_072, 0].map(|time| Some(Nanos::from_nanos(time))));
        assert_eq!(["0 0 0\n", "1 2\n", ""].map(waited), [None; 3]);
    }
}
