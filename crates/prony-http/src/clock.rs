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
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Nanos::from_nanos)
}

#[inline]
fn read_clock(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    // These clocks begin at 0 and never run backwards.
    Nanos::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
