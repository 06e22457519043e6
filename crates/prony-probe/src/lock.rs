//! Locks by which the owner of a thing is known: a control group, a scratch directory, a run in a results database.
//!
//! A process number means nothing to a process in another PID namespace that shares the file system or the control
//! groups, and is used again. A lock (`flock`) on the thing itself is seen by every process that can reach the thing, and
//! the kernel releases it when the last descriptor is closed, however its holder ends. Control groups of version 1 and 2
//! take such locks on their directories. Descriptors are closed on exec, so that no subject holds a lock.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// How long [`Lock::of_new`] tries again while a sweep removes what was just made.
const MOST_PATIENCE: Duration = Duration::from_secs(2);

/// A lock on a file or directory, held until this value goes.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// A lock that several may hold at once, such as a runner and its supervisor: the thing is in use.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] where another holds it alone, [`ErrorKind::NotFound`] where it is gone, or whatever the
    /// file system says that takes no locks.
    pub fn shared(path: &Path) -> io::Result<Self> {
        Self::take(path, FlockOperation::NonBlockingLockShared)
    }

    /// A lock that is held alone: nobody uses the thing. Where this fails, for whatever reason, the thing must be taken
    /// to be in use.
    ///
    /// # Errors
    /// As [`Self::shared`].
    pub fn exclusive(path: &Path) -> io::Result<Self> {
        Self::take(path, FlockOperation::NonBlockingLockExclusive)
    }

    fn take(path: &Path, operation: FlockOperation) -> io::Result<Self> {
        let file = File::open(path)?;
        flock(&file, operation)?;
        // Its holder before may have removed it between the opening and the lock, and another may be in its place.
        let (ours, there) = (file.metadata()?, path.symlink_metadata()?);
        if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
            Ok(Self { _file: file })
        } else {
            Err(ErrorKind::NotFound.into())
        }
    }

    /// Makes a directory that is locked; `make` makes it. A sweep may find it before it is locked, and removes it: then it
    /// is made again. `None` where the file system takes no locks.
    ///
    /// # Errors
    /// Where it cannot be made, [`ErrorKind::AlreadyExists`] where it was there before.
    pub fn of_new(path: &Path, make: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<Option<Self>> {
        make(path)?;
        let until = Instant::now() + MOST_PATIENCE;
        loop {
            match Self::shared(path) {
                Ok(lock) => return Ok(Some(lock)),
                Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotFound) => return Ok(None),
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            match make(path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Children that other tests fork hold copies of our descriptors for an instant.
    fn soon<T>(mut lock: impl FnMut() -> io::Result<T>) -> T {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            match lock() {
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                locked => return locked.unwrap(),
            }
        }
    }

    #[test]
    fn shared_locks_keep_others_from_holding_it_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (Lock::shared(dir.path()).unwrap(), Lock::shared(dir.path()).unwrap());
        drop(a);
        assert_eq!(Lock::exclusive(dir.path()).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(b);
        let alone = soon(|| Lock::exclusive(dir.path()));
        assert_eq!(Lock::shared(dir.path()).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(alone);
        soon(|| Lock::shared(dir.path()));
    }

    #[test]
    fn what_a_sweep_removes_before_it_is_locked_is_made_again() {
        let top = tempfile::tempdir().unwrap();
        let (path, made) = (top.path().join("x"), std::cell::Cell::new(0));
        let make = |path: &Path| {
            made.set(made.get() + 1);
            fs::create_dir(path)?;
            if made.get() == 1 { fs::remove_dir(path) } else { Ok(()) }
        };
        let lock = Lock::of_new(&path, &make).unwrap();
        assert!(lock.is_some() && made.get() == 2 && path.is_dir());
        assert_eq!(Lock::of_new(&path, &make).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_process_that_is_started_holds_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::shared(dir.path()).unwrap();
        let mut child = std::process::Command::new("sleep").arg("3600").spawn().unwrap();
        let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().flatten();
        let held = open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|path| path == dir.path())).count();
        child.kill().unwrap();
        child.wait().unwrap();
        drop(lock);
        assert_eq!(held, 0);
    }
}
