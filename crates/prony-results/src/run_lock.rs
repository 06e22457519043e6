//! Shows which runs are in progress: the session of a run locks a file beside the database, `NAME-run-N`. The kernel
//! releases the lock however the session ends; a file without a lock means nothing, and the next session removes it.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use prony_os::file_modes::file_mode;
use prony_os::lock::Lock;

use super::run::RunId;

/// The suffix after the database's name, before the run's number.
const SUFFIX: &str = "-run-";

/// Whether a path is the database's, or that of a file which SQLite or the session of a run has beside it: `-wal`,
/// `-shm`, `-journal`, `-run-N`. The paths are compared as they are written.
pub fn is_file_of(database: &Path, path: &Path) -> bool {
    let name = |path: &Path| path.file_name().map(|name| name.as_encoded_bytes().to_owned());
    let (Some(own), Some(name)) = (name(database), name(path)) else { return false };
    let is_suffix = |rest: &[u8]| {
        let run = rest.strip_prefix(SUFFIX.as_bytes());
        ["", "-wal", "-shm", "-journal"].iter().any(|suffix| suffix.as_bytes() == rest)
            || run.is_some_and(|run| run.iter().all(u8::is_ascii_digit))
    };
    database.parent() == path.parent() && name.strip_prefix(own.as_slice()).is_some_and(is_suffix)
}

/// The lock of a run's session.
#[derive(Debug)]
pub(super) struct RunLock {
    path: PathBuf,
    _lock: Lock,
}

impl RunLock {
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

impl Drop for RunLock {
    fn drop(&mut self) {
        // While it is locked: a process that opens it now notices that it was removed.
        let _ = fs::remove_file(&self.path);
    }
}
