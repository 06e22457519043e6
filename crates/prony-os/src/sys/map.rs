//! Maps of files, and of memory that processes share.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// Mapped memory, until this is dropped. It is handed out as an address only, since other processes may change it.
#[derive(Debug)]
pub(super) struct Mapping {
    address: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes of a file from `offset`, a multiple of the size of a page, or of memory that begins as zeros.
    ///
    /// # Errors
    /// What `mmap` says.
    pub(super) fn new(file: Option<&File>, offset: libc::off_t, len: usize, access: libc::c_int) -> io::Result<Self> {
        let (kind, descriptor) = file.map_or((libc::MAP_ANONYMOUS, -1), |file| (0, file.as_raw_fd()));
        // SAFETY: the kernel chooses the address, so that no other memory is replaced.
        let address = unsafe { libc::mmap(ptr::null_mut(), len, access, libc::MAP_SHARED | kind, descriptor, offset) };
        match NonNull::new(address.cast::<u8>()) {
            Some(mapped) if address != libc::MAP_FAILED => Ok(Self { address: mapped, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Its first byte.
    pub(super) const fn start(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// Its length in bytes.
    pub(super) const fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; nothing uses it any more.
        unsafe { libc::munmap(self.start().cast(), self.len) };
    }
}

/// A part of a file in memory: what is written there is in the file, and the other way round. Only for files that nobody
/// truncates meanwhile: touching a page behind the end of a file raises SIGBUS.
#[derive(Debug)]
pub struct SharedMap(Mapping);

impl SharedMap {
    /// Maps `len` bytes of `file` from `offset`, a multiple of the size of a page.
    ///
    /// # Errors
    /// What `mmap` says.
    pub fn new(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        Mapping::new(Some(file), offset, len, libc::PROT_READ | libc::PROT_WRITE).map(Self)
    }

    /// Copies from the map.
    ///
    /// # Panics
    /// Where the range is not within the map.
    pub fn read(&self, at: usize, data: &mut [u8]) {
        assert!(at.checked_add(data.len()).is_some_and(|end| end <= self.0.len()), "outside of the map");
        // SAFETY: the range is within the map, which no Rust value borrows.
        unsafe { ptr::copy_nonoverlapping(self.0.start().add(at), data.as_mut_ptr(), data.len()) };
    }

    /// Copies into the map.
    ///
    /// # Panics
    /// As [`Self::read`].
    pub fn write(&mut self, at: usize, data: &[u8]) {
        assert!(at.checked_add(data.len()).is_some_and(|end| end <= self.0.len()), "outside of the map");
        // SAFETY: the range is within the map, which no Rust value borrows.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), self.0.start().add(at), data.len()) };
    }

    /// Writes dirty pages to the file and makes them durable.
    ///
    /// # Errors
    /// What `msync` says.
    pub fn sync(&self) -> io::Result<()> {
        // SAFETY: the range is the whole map.
        match unsafe { libc::msync(self.0.start().cast(), self.0.len(), libc::MS_SYNC) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn map_and_file_show_the_same_bytes() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10_000).unwrap();
        file.write_all_at(b"file", 5000).unwrap();
        let mut map = SharedMap::new(&file, 4096, 5904).unwrap();
        let mut data = [0; 4];
        map.read(904, &mut data);
        assert_eq!(&data, b"file");
        map.write(5900, b"map!");
        map.sync().unwrap();
        file.read_exact_at(&mut data, 9996).unwrap();
        assert_eq!(&data, b"map!");
        assert!(SharedMap::new(&file, 1, 10).is_err());
    }

    #[test]
    #[should_panic(expected = "outside of the map")]
    fn access_outside_of_the_map_panics() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        SharedMap::new(&file, 0, 4096).unwrap().read(4090, &mut [0; 7]);
    }
}
