//! The page cache of a file: `cachestat`, and `mincore` over a map where the kernel is older than 6.5.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::map::Mapping;

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

/// A file mapped for reading, as embedded stores map theirs. Its bytes are handed out by copy only, one at a time,
/// since another process may change or cut the file.
#[derive(Debug)]
pub struct MappedFile(Mapping);

impl MappedFile {
    /// Maps the whole file; none of it is in memory on its account yet.
    ///
    /// # Errors
    /// Where it cannot be opened or mapped, an empty file among these.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(&File::open(path)?)
    }

    /// Maps the whole of `file`.
    ///
    /// # Errors
    /// Of `fstat` and `mmap`; `EINVAL` for an empty file.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        Mapping::new(Some(file), 0, length, libc::PROT_READ).map(Self)
    }

    /// Reads one byte of every page, so that all of it counts as resident file pages of this process, and
    /// returns the bytes' sum. Faults with SIGBUS where another process has cut the file.
    pub fn read_all(&self) -> u64 {
        let start = self.0.start();
        // SAFETY: each place is inside the mapped range, which stays mapped as long as `self`.
        let byte = |at| unsafe { start.add(at).read_volatile() };
        (0..self.0.len()).step_by(rustix::param::page_size()).map(|at| u64::from(byte(at))).sum()
    }

    /// How many pages of the file are in memory.
    ///
    /// # Errors
    /// Of `mincore`.
    pub(crate) fn resident_pages(&self, page: usize) -> io::Result<u64> {
        let mut states = vec![0u8; self.0.len().div_ceil(page)];
        // SAFETY: the range is the one mapped and `states` has one byte for each of its pages.
        if unsafe { libc::mincore(self.0.start().cast(), self.0.len(), states.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(states.iter().filter(|state| **state & 1 == 1).count() as u64)
    }
}
