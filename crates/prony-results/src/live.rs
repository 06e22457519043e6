//! Which runs are under way: the session of a run holds a lock on a file beside the database, `NAME-run-N`. The kernel
//! releases it however the session ends; a file that a killed session left says nothing, and goes with the next session.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use prony_os::lock::Lock;
use prony_os::shared::file_mode;

use super::run::RunId;

/// What follows the database's name, before the run's number.
pub const SUFFIX: &str = "-run-";

/// The lock of a run's session.
#[derive(Debug)]
pub(super) struct Live {
    path: PathBuf,
    _lock: Lock,
}

impl Live {
    /// Locks a run; [`ErrorKind::WouldBlock`] where another session has it.
    pub(super) fn lock(database: &Path, run: RunId) -> io::Result<Self> {
        let mut path = fs::canonicalize(database)?.into_os_string();
        path.push(format!("{SUFFIX}{run}"));
        let path = PathBuf::from(path);
        loop {
            OpenOptions::new().create(true).append(true).mode(file_mode()).open(&path)?;
            match Lock::exclusive(&path) {
                // A session has just ended and removed its file.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                locked => return Ok(Self { _lock: locked?, path }),
            }
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // While it is locked: a process that opens it now finds that it was removed.
        let _ = fs::remove_file(&self.path);
    }
}
