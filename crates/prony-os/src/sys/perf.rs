//! Counts events of the kernel, by `perf_event_open` on tracepoints.

use std::ffi::{CStr, c_char};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::ioctl::{Opcode, opcode};

const TYPE_TRACEPOINT: u32 = 2;
const FLAG_DISABLED: u64 = 1;
const FLAG_INHERIT: u64 = 1 << 1;
/// `PERF_EVENT_IOC_ENABLE` and `PERF_EVENT_IOC_SET_FILTER`.
const ENABLE: Opcode = opcode::none(b'$', 0);
const SET_FILTER: Opcode = opcode::write::<*const c_char>(b'$', 6);
const OPEN_CLOEXEC: libc::c_ulong = 1 << 3;

/// `struct perf_event_attr` in its first published size, which every kernel accepts.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// A counter of one tracepoint in one thread and in all threads and processes that it starts later.
#[derive(Debug)]
pub(crate) struct Counter {
    file: File,
}

impl Counter {
    /// Counts tracepoint `id` in thread `tid` from now on, across exec, and in whatever it starts: all its events, or those that
    /// a filter on its fields accepts (Documentation/trace/events.rst).
    ///
    /// # Errors
    /// Of `perf_event_open`: `EACCES` or `EPERM` where it is not permitted, `ESRCH`, `ENOENT`; of `ioctl`.
    pub(crate) fn follow(id: u64, tid: u32, filter: Option<&CStr>) -> io::Result<Self> {
        let tid = libc::pid_t::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        let Some(filter) = filter else { return open(id, tid, FLAG_INHERIT) };
        // It counts nothing before it has its filter.
        let counter = open(id, tid, FLAG_INHERIT | FLAG_DISABLED)?;
        counter.control(SET_FILTER, filter.as_ptr())?;
        counter.control(ENABLE, ptr::null())?;
        Ok(counter)
    }

    fn control(&self, what: Opcode, text: *const c_char) -> io::Result<()> {
        // SAFETY: the descriptor is that of a counter, for which both calls are defined; the kernel only reads the text.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), what as libc::Ioctl, text) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Keeps tracepoint `id` registered without counting: closing a tracepoint's last counter costs 150 ms.
    ///
    /// # Errors
    /// As [`Self::follow`].
    pub(crate) fn open(id: u64) -> io::Result<Self> {
        open(id, 0, FLAG_DISABLED)
    }

    /// The count so far: of the thread followed and of everything it started, alive or ended.
    ///
    /// # Errors
    /// Of `read`; an unexpected end where the kernel put the counter into its error state.
    pub(crate) fn read(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        (&self.file).read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}

impl AsFd for Counter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn open(id: u64, tid: libc::pid_t, flags: u64) -> io::Result<Counter> {
    let attributes = Attributes {
        kind: TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: id,
        flags,
        ..Attributes::default()
    };
    // SAFETY: the structure has the layout and the size that it states, and outlives the call; the kernel only reads it.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &attributes, tid, -1, -1, OPEN_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor and nothing else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) };
    Ok(Counter { file: File::from(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `msync(MS_ASYNC)` was counted, which syncs nothing.
    #[test]
    fn filter_decides_which_calls_are_counted() {
        let id = std::fs::read_to_string("/sys/kernel/tracing/events/syscalls/sys_enter_msync/id");
        let tid = rustix::thread::gettid().as_raw_pid().cast_unsigned();
        let follow = |filter| Counter::follow(id.as_ref().ok()?.trim().parse().unwrap(), tid, filter).ok();
        let (Some(filtered), Some(all)) = (follow(Some(c"flags & 4")), follow(None)) else {
            assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "tracepoints are required");
            eprintln!("SKIPPED: a filter of a tracepoint");
            return;
        };
        for flags in [libc::MS_ASYNC, libc::MS_SYNC, libc::MS_ASYNC, 0] {
            // SAFETY: no page is concerned.
            assert_eq!(unsafe { libc::msync(ptr::null_mut(), 0, flags) }, 0);
        }
        assert_eq!((filtered.read().unwrap(), all.read().unwrap()), (1, 4));
        let wrong = Counter::follow(id.unwrap().trim().parse().unwrap(), tid, Some(c"nothing == 1"));
        assert_eq!(wrong.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
