//! The CPU clock of another process.

use std::io;

use prony_core::units::Nanos;

/// CPU time of all threads of process `pid`, ended threads included, to the nanosecond.
///
/// The kernel answers until the process is reaped, so that also a zombie's total can be read.
///
/// # Errors
/// `ESRCH` where there is no such process.
pub(crate) fn process_cpu(pid: u32) -> io::Result<Nanos> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
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
