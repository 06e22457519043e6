//! The clocks of the timed loop.

use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in nanoseconds.
#[inline(always)]
pub fn now() -> u64 {
    read_clock(ClockId::Monotonic)
}

/// CPU time of the calling thread, user and system, in nanoseconds. A system call: used only between chunks.
pub(crate) fn thread_cpu() -> u64 {
    read_clock(ClockId::ThreadCPUTime)
}

/// CPU time of the whole process, user and system, in nanoseconds. A system call.
pub fn process_cpu() -> u64 {
    read_clock(ClockId::ProcessCPUTime)
}

#[inline(always)]
fn read_clock(clock: ClockId) -> u64 {
    let at = clock_gettime(clock);
    (at.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(at.tv_nsec as u64)
}
