//! The runner's side of a spawner whose supervisor serves several trials.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::spawner::{self, Fds};
use super::texts::Texts;

/// Asks the spawner of a reused supervisor for one subject after another.
#[derive(Debug)]
pub(super) struct SpawnerClient {
    spawner: u32,
    socket: OwnedFd,
    null: OwnedFd,
    launched: u64,
}

impl SpawnerClient {
    /// The process, and the socket on which it is asked.
    pub(super) fn new(spawner: u32, socket: OwnedFd) -> io::Result<Self> {
        let null = File::options().read(true).write(true).open("/dev/null")?.into();
        Ok(Self { spawner, socket, null, launched: 0 })
    }

    /// The process.
    pub(super) const fn spawner(&self) -> u32 {
        self.spawner
    }

    /// How many subjects were asked for.
    pub(super) const fn launched(&self) -> u64 {
        self.launched
    }

    /// Has a subject made that executes its program at once.
    pub(super) fn launch(&mut self, texts: &Texts, fds: &[(Option<OwnedFd>, u8)]) -> io::Result<()> {
        let given = fds.iter().map(|(fd, target)| (fd.as_ref().unwrap_or(&self.null).as_fd(), *target)).collect();
        spawner::launch(&self.socket, texts, &Fds { suspended: None, given })?;
        self.launched += 1;
        Ok(())
    }
}
