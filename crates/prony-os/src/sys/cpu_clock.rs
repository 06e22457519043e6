//! The CPU clock of another process.

use std::io;

use prony_model::units::Nanos;

/// The largest pid that any kernel gives out (PID_MAX_LIMIT).
const PID_MAX: u32 = 4 << 20;

/// CPU time of all threads of process `pid`, ended threads included, to the nanosecond.
///
/// The kernel answers until the process is reaped, so that also a zombie's total can be read.
///
/// # Errors
/// `ESRCH` where there is no such process.
pub(crate) fn process_cpu(pid: u32) -> io::Result<Nanos> {
    // Zero would mean ourselves, and a number above the kernel's limit would lose bits in the encoding.
    if pid == 0 || pid > PID_MAX {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let pid = pid as libc::pid_t;
    // The kernel's encoding (include/linux/posix-timers.h): the inverted pid, then CPUCLOCK_SCHED = 2.
    let clock = ((!pid) << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec for the duration of the call.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        // The C library reports an unknown clock as EINVAL; for this encoding that means: no such process.
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(Nanos::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_clock_counts_ended_threads_and_agrees_with_the_kernels() {
        let used = std::thread::spawn(|| crate::fixture::burst(Nanos::from_millis(20))).join().unwrap();
        let by_pid = process_cpu(std::process::id()).unwrap();
        let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let own = own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64;
        assert!(by_pid >= used && by_pid.as_nanos() <= own, "{used} {by_pid} {own}");
    }

    #[test]
    fn nobodys_clock_cannot_be_read() {
        for pid in [0, PID_MAX, u32::MAX / 4, u32::MAX] {
            assert_eq!(process_cpu(pid).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        }
    }
}
