//! The two images of a file's contents, each a sparse file without a name in the state directory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::progress;
use crate::ranges::Ranges;
use crate::settings::Unit;

const PAGE: u64 = Unit::Page.bytes();

/// Makes files that have no name, so that nothing of them is left however the process ends.
#[derive(Debug)]
pub(crate) struct Nameless {
    directory: PathBuf,
    next: AtomicU64,
}

impl Nameless {
    pub(crate) fn within(directory: &Path) -> Self {
        Self { directory: directory.to_path_buf(), next: AtomicU64::new(0) }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn create(&self) -> io::Result<File> {
        let path = self.directory.join(format!("file-{}", self.next.fetch_add(1, Ordering::Relaxed)));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }
}

/// Descriptors that no file gets: those of the server itself, of requests of other processes, and of a cut.
const RESERVE: u64 = 64;

/// How many files there may be: each of their two contents is a descriptor as long as the file exists.
pub(crate) fn most_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).saturating_sub(RESERVE) / 2
}

/// A sparse file and its size.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    file: Arc<File>,
    size: u64,
}

impl Contents {
    pub(crate) fn new(file: File) -> Self {
        Self { file: Arc::new(file), size: 0 }
    }

    /// The contents that a file has.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), size })
    }

    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Blocks of 512 bytes that are allocated.
    pub(crate) fn blocks(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.blocks())
    }

    /// Up to `len` bytes: fewer where the file ends before.
    pub(crate) fn read(&self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let len = len.min(self.size.saturating_sub(offset));
        let mut data = vec![0; len as usize];
        self.file.read_exact_at(&mut data, offset)?;
        Ok(data)
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)?;
        self.size = self.size.max(offset + data.len() as u64);
        Ok(())
    }

    /// Makes a hole; the size stays.
    pub(crate) fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let len = len.min(self.size.saturating_sub(offset));
        if len > 0 {
            fallocate(&*self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)?;
        }
        Ok(())
    }

    pub(crate) fn resize(&mut self, size: u64) -> io::Result<()> {
        self.file.set_len(size)?;
        self.size = size;
        Ok(())
    }

    /// Whether all pages of a range are allocated. Asked for the next hole, tmpfs looks at each page up to it: with that, a rename
    /// over a file of 100,000 pages, all overwritten, took 196 s (`bench/powercut` measures one over 20,000).
    pub(crate) fn is_allocated(&self, offset: u64, len: u64) -> bool {
        let mut pages = offset / PAGE..(offset + len).div_ceil(PAGE);
        pages.all(|page| self.seek(SeekFrom::Data(page * PAGE)).is_ok_and(|data| data == page * PAGE))
    }

    /// The next data or hole, as `lseek` finds it.
    pub(crate) fn seek(&self, to: SeekFrom) -> Result<u64, Errno> {
        seek(&*self.file, to)
    }

    /// The parts between two offsets that are no holes.
    pub(crate) fn data_within(&self, begin: u64, end: u64) -> io::Result<Ranges> {
        let mut found = Ranges::one(begin, begin);
        let mut at = begin;
        while at < end {
            let data = match self.seek(SeekFrom::Data(at)) {
                Ok(data) if data < end => data,
                Ok(_) | Err(Errno::NXIO) => break,
                Err(error) => return Err(error.into()),
            };
            at = self.seek(SeekFrom::Hole(data))?;
            found.push(data, at.min(end));
        }
        Ok(found)
    }

    /// Copies the contents into a new file, holes as holes.
    pub(crate) fn copy_to(&self, path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(self.size)?;
        let mut at = 0;
        loop {
            let data = match seek(&*self.file, SeekFrom::Data(at)) {
                Ok(data) => data,
                // There are no more data.
                Err(Errno::NXIO) => return Ok(Self { file: Arc::new(file), size: self.size }),
                Err(error) => return Err(error.into()),
            };
            at = seek(&*self.file, SeekFrom::Hole(data))?;
            copy_range(&self.file, &file, data, at)?;
        }
    }
}

fn copy_range(from: &File, to: &File, begin: u64, end: u64) -> io::Result<()> {
    let (mut at, mut there) = (begin, begin);
    while at < end {
        let len = (end - at).min(1 << 20) as usize;
        progress::step();
        match copy_file_range(from, Some(&mut at), to, Some(&mut there), len) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            // Between different file systems some kernels copy nothing.
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let mut data = vec![0; len];
                from.read_exact_at(&mut data, at)?;
                to.write_all_at(&data, at)?;
                at += len as u64;
                there = at;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_allocated_where_all_its_pages_are() {
        let top = tempfile::tempdir().unwrap();
        let mut contents = Contents::new(Nameless::within(top.path()).create().unwrap());
        contents.resize(5 * PAGE).unwrap();
        contents.write(0, &[1; 2 * PAGE as usize]).unwrap();
        contents.write(3 * PAGE, &[1; PAGE as usize]).unwrap();
        for (offset, len) in [(0, 2 * PAGE), (100, 2 * PAGE - 100), (PAGE, 1), (3 * PAGE + 5, 10)] {
            assert!(contents.is_allocated(offset, len), "{offset} {len}");
        }
        for (offset, len) in [(0, 2 * PAGE + 1), (100, 2 * PAGE), (2 * PAGE, 1), (3 * PAGE, PAGE + 1), (9 * PAGE, 1)] {
            assert!(!contents.is_allocated(offset, len), "{offset} {len}");
        }
    }

    /// At the end of a file there are no data to be found: with `--quota`, a write that fitted into the last page was refused.
    #[test]
    fn rest_of_the_last_page_is_allocated() {
        let top = tempfile::tempdir().unwrap();
        let mut contents = Contents::new(Nameless::within(top.path()).create().unwrap());
        contents.write(0, &[1; PAGE as usize + 100]).unwrap();
        assert!(contents.is_allocated(PAGE + 100, 1000));
        assert!(!contents.is_allocated(PAGE + 100, PAGE));
    }

    #[test]
    fn copy_keeps_holes_and_data() {
        let top = tempfile::tempdir().unwrap();
        let mut contents = Contents::new(Nameless::within(top.path()).create().unwrap());
        contents.resize(1 << 40).unwrap();
        contents.write(1 << 30, b"data").unwrap();
        contents.write((1 << 40) - 2, b"end!").unwrap();
        let copy = contents.copy_to(&top.path().join("copy")).unwrap();
        assert_eq!(copy.size(), (1 << 40) + 2);
        assert_eq!(copy.read(1 << 30, 4).unwrap(), b"data");
        assert_eq!(copy.read((1 << 40) - 2, 100).unwrap(), b"end!");
        assert!(copy.blocks() < 1000, "{}", copy.blocks());
        let names: Vec<_> = std::fs::read_dir(top.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["copy"]);
    }
}
