//! The runner's side of a nursery whose supervisor is kept.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::nursery::{self, Fds};
use super::texts::Texts;

/// Where a kept supervisor's subjects are born, one after another.
#[derive(Debug)]
pub(super) struct Cradle {
    nursery: u32,
    socket: OwnedFd,
    null: OwnedFd,
    launched: u64,
}

impl Cradle {
    /// The process, and the socket on which it is asked.
    pub(super) fn new(nursery: u32, socket: OwnedFd) -> io::Result<Self> {
        let null = File::options().read(true).write(true).open("/dev/null")?.into();
        Ok(Self { nursery, socket, null, launched: 0 })
    }

    /// The process.
    pub(super) const fn nursery(&self) -> u32 {
        self.nursery
    }

    /// How many subjects were asked for.
    pub(super) const fn launched(&self) -> u64 {
        self.launched
    }

    /// Has a subject made that executes its program at once.
    pub(super) fn launch(&mut self, texts: &Texts, fds: &[(Option<OwnedFd>, u8)]) -> io::Result<()> {
        let given = fds.iter().map(|(fd, target)| (fd.as_ref().unwrap_or(&self.null).as_fd(), *target)).collect();
        nursery::launch(&self.socket, texts, &Fds { held: None, given })?;
        self.launched += 1;
        Ok(())
    }
}
