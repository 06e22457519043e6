//! The acknowledged commits of a crash trial, each with its instant: a file in memory that outlives the process which writes
//! to it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

/// Bytes of an instant.
const INSTANT: u64 = 8;

/// The instants at which commits were acknowledged, by `CLOCK_MONOTONIC`, in the order of the commits.
///
/// The file lies in memory and not in the directory of the store, so that no cut of the disk loses it, and each instant is
/// written by one system call, which a signal that ends the process does not split.
#[derive(Debug)]
pub struct Acknowledged(File);

impl Acknowledged {
    /// The number under which a worker finds the descriptor.
    pub const NUMBER: u8 = 3;

    /// An empty list.
    ///
    /// # Errors
    /// Where the kernel makes no file.
    pub fn new() -> io::Result<Self> {
        Ok(Self(memfd_create("acknowledged", MemfdFlags::CLOEXEC)?.into()))
    }

    /// The list of another process, whose descriptor this is.
    pub fn passed(descriptor: OwnedFd) -> Self {
        Self(descriptor.into())
    }

    /// Another descriptor of this list, to pass on.
    ///
    /// # Errors
    /// Where this process has too many descriptors.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }

    /// Notes that a commit was acknowledged at this instant.
    ///
    /// # Errors
    /// Where the file cannot grow.
    pub fn note(&self, commit: u64, at: u64) -> io::Result<()> {
        self.0.write_all_at(&at.to_le_bytes(), commit * INSTANT)
    }

    /// The instants of all commits, in nanoseconds.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn instants(&self) -> io::Result<Vec<u64>> {
        let length = self.0.metadata()?.len() / INSTANT * INSTANT;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        self.0.read_exact_at(&mut bytes, 0)?;
        let instant = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        Ok(bytes.chunks_exact(INSTANT as usize).map(instant).collect())
    }
}
