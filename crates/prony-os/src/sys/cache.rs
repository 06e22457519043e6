//! The page cache of a file: `cachestat`, and `mincore` over a map where the kernel is older than 6.5.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// The system call's number, the same on every architecture; the C library has no wrapper yet.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat`: pages of a range in each state.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheStat {
    pub(crate) cached: u64,
    pub(crate) dirty: u64,
    pub(crate) writeback: u64,
    pub(crate) evicted: u64,
    pub(crate) recently_evicted: u64,
}

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// States of the pages of a whole file.
///
/// # Errors
/// `ENOSYS` before Linux 6.5; `EPERM` on files that the user may neither write nor owns.
pub(crate) fn cachestat(file: &File) -> io::Result<CacheStat> {
    let range = Range { offset: 0, length: 0 };
    let mut stat = CacheStat::default();
    // SAFETY: both structures have the kernel's layout and live through the call; flags must be 0.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &range, &mut stat, 0) };
    if result == 0 { Ok(stat) } else { Err(io::Error::last_os_error()) }
}

/// A shared, readable map of a whole file. Its bytes are handed out by copy only, one at a time,
/// since another process may change or cut the file.
#[derive(Debug)]
pub(crate) struct Map {
    start: NonNull<libc::c_void>,
    length: usize,
}

impl Map {
    /// Maps the whole of `file`.
    ///
    /// # Errors
    /// Of `fstat` and `mmap`; `EINVAL` for an empty file.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        // SAFETY: the kernel picks an unused address; no existing memory is touched.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Self { start, length })
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The byte at `at`, read through the map. Faults with SIGBUS where another process has cut the file.
    ///
    /// # Panics
    /// Where `at` is outside the map, as an index of a slice does.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        assert!(at < self.length, "byte {at} of a map of {} bytes", self.length);
        // SAFETY: `at` lies inside the mapped range, which stays mapped as long as `self`.
        unsafe { self.start.as_ptr().cast::<u8>().add(at).read_volatile() }
    }

    /// How many pages of the file are in memory.
    ///
    /// # Errors
    /// Of `mincore`.
    pub(crate) fn resident_pages(&self, page: usize) -> io::Result<u64> {
        let mut states = vec![0u8; self.length.div_ceil(page)];
        // SAFETY: the range is the one mapped and `states` has one byte for each of its pages.
        if unsafe { libc::mincore(self.start.as_ptr(), self.length, states.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(states.iter().filter(|state| **state & 1 == 1).count() as u64)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; no reference into it exists, since bytes are copied out.
        unsafe { libc::munmap(self.start.as_ptr(), self.length) };
    }
}
