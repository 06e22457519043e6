//! Counts events of the kernel, by `perf_event_open` on tracepoints.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

const TYPE_TRACEPOINT: u32 = 2;
const FLAG_DISABLED: u64 = 1;
const FLAG_INHERIT: u64 = 1 << 1;
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
    /// Counts tracepoint `id` in thread `tid` from now on, across exec, and in whatever it starts.
    ///
    /// # Errors
    /// Of `perf_event_open`: `EACCES` or `EPERM` where it is not permitted, `ESRCH`, `ENOENT`.
    pub(crate) fn follow(id: u64, tid: u32) -> io::Result<Self> {
        let tid = libc::pid_t::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        open(id, tid, FLAG_INHERIT)
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
