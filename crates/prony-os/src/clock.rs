//! Clocks: the monotonic one that every record uses, the calendar's, and a thread's own CPU time.

use std::time::{SystemTime, UNIX_EPOCH};

use prony_model::units::Nanos;
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// Reads the time and waits: the machine's clock, or a scripted clock in tests.
pub trait Clock {
    /// The current instant of `CLOCK_MONOTONIC`.
    fn now(&self) -> Nanos;

    /// Waits for `span`.
    fn sleep(&self, span: Nanos);
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Nanos {
        monotonic()
    }

    fn sleep(&self, span: Nanos) {
        std::thread::sleep(span.to_duration());
    }
}

/// `CLOCK_MONOTONIC`, shared by all processes of the machine.
pub fn monotonic() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Unix time now, milliseconds.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Nanos {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// The period of the kernel's scheduler tick: the resolution of its coarse clocks.
pub(crate) fn scheduler_tick() -> Nanos {
    nanos(clock_getres(ClockId::MonotonicCoarse))
}

fn nanos(time: Timespec) -> Nanos {
    // These clocks begin at 0 and never run backwards.
    Nanos::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_takes_at_least_its_span_and_no_cpu_to_speak_of() {
        let (began, cpu) = (SystemClock.now(), thread_cpu());
        SystemClock.sleep(Nanos::from_millis(20));
        assert!(SystemClock.now().since(began) >= Nanos::from_millis(20));
        assert!(thread_cpu().since(cpu) < Nanos::from_millis(20));
    }

    #[test]
    fn seconds_and_nanoseconds_are_one_number() {
        assert_eq!(nanos(Timespec { tv_sec: 3, tv_nsec: 7 }), Nanos::from_nanos(3_000_000_007));
    }
}
