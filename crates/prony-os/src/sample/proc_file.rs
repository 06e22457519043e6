//! A file of `/proc` that is kept open and read repeatedly.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::open_files::leaves_room;

/// Kept open while descriptors suffice: reopening costs 1.4 us.
#[derive(Debug)]
pub(crate) struct ProcFile {
    path: PathBuf,
    open: Option<File>,
}

impl ProcFile {
    pub(crate) fn new(path: String) -> Self {
        let path = PathBuf::from(path);
        let open = File::open(&path).ok().filter(leaves_room);
        Self { path, open }
    }

    /// Its bytes; `buffer` is the caller's, so that reading allocates nothing. The files read here are shorter than the
    /// buffer, and the kernel creates their text again at each read from the start.
    pub(crate) fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        buffer.resize(8192, 0);
        let length = match &self.open {
            Some(file) => rustix::io::pread(file, buffer.as_mut_slice(), 0)?,
            None => rustix::io::pread(&File::open(&self.path)?, buffer.as_mut_slice(), 0)?,
        };
        Ok(&buffer[..length])
    }

    /// Its text; a command name need not be UTF-8.
    pub(crate) fn text<'a>(&self, buffer: &'a mut Vec<u8>) -> io::Result<Cow<'a, str>> {
        self.read(buffer).map(lossy)
    }
}

/// Checked first, which takes a fraction of the time where all is ASCII, as it mostly is.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// A directory of `/proc` with files that are too many to be kept open: from it they are found in less time than from the
/// root.
#[derive(Debug)]
pub(crate) struct ProcDirectory {
    path: String,
    open: Option<OwnedFd>,
}

impl ProcDirectory {
    pub(crate) fn new(path: String) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = openat(CWD, &path, flags, Mode::empty()).ok().filter(leaves_room);
        Self { path, open }
    }

    /// The text of a file in it.
    pub(crate) fn text<'a>(&self, name: &str, buffer: &'a mut Vec<u8>) -> io::Result<Cow<'a, str>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = match &self.open {
            Some(directory) => openat(directory, name, flags, Mode::empty())?,
            None => openat(CWD, format!("{}/{name}", self.path), flags, Mode::empty())?,
        };
        ProcFile { path: PathBuf::new(), open: Some(file.into()) }.read(buffer).map(lossy)
    }
}

/// The text of a file that is read once: one read, where the standard library does several with a growing buffer.
pub(crate) fn read_once(path: &str) -> io::Result<String> {
    let closed = ProcFile { path: path.into(), open: None };
    closed.text(&mut Vec::new()).map(Cow::into_owned)
}

/// Whether an error of procfs means that the process or thread has ended.
pub(crate) fn ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_starts_anew() {
        let file = ProcFile::new("/proc/self/statm".into());
        let mut buffer = Vec::new();
        let first = file.read(&mut buffer).unwrap().len();
        assert!(first > 0 && !file.read(&mut buffer).unwrap().is_empty());
    }

    #[test]
    fn files_of_a_directory_are_read_with_and_without_its_descriptor() {
        let mut directory = ProcDirectory::new("/proc/self".into());
        for _ in 0..2 {
            assert!(directory.text("status", &mut Vec::new()).unwrap().starts_with("Name:"));
            assert!(ended(&directory.text("task/0/stat", &mut Vec::new()).unwrap_err()));
            directory.open = None;
        }
    }

    #[test]
    fn without_a_descriptor_it_is_opened_each_time() {
        let closed = ProcFile { path: "/proc/self/statm".into(), open: None };
        assert!(closed.text(&mut Vec::new()).is_ok());
        let missing = ProcFile::new("/proc/no such process/stat".into());
        assert!(ended(&missing.read(&mut Vec::new()).unwrap_err()));
    }
}
