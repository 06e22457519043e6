//! Locks that show whether the owner of a control group, a scratch directory or a run in a database still runs.
//!
//! A pid does not suffice: it means nothing in another PID namespace that shares the file system or the control groups,
//! and it is reused. A lock (`flock`) on the resource itself is visible to every process that can reach it, and the
//! kernel releases it when the last descriptor is closed, however its holder ends. Control groups of version 1 and 2
//! take such locks on their directories. Descriptors are closed on exec, so that no subject holds a lock.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

/// How long [`Lock::of_new`] tries again while a sweep removes what was just made.
const MOST_PATIENCE: Duration = Duration::from_secs(2);

/// A lock on a file or directory, released when this value is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// A new resource is locked an instant later: a sweep checks again after this time before it removes one.
const MAKING: Duration = Duration::from_millis(50);

/// The resources that nobody uses, each with the lock that `lock` takes on it.
pub(crate) fn abandoned<T, L>(mut things: Vec<T>, lock: impl Fn(&T) -> Option<L>) -> impl Iterator<Item = (T, L)> {
    things.retain(|thing| lock(thing).is_some());
    if !things.is_empty() {
        std::thread::sleep(MAKING);
    }
    things.into_iter().filter_map(move |thing| lock(&thing).map(|locks| (thing, locks)))
}

impl Lock {
    /// A lock that several processes may hold at once, such as a runner and its supervisor: the resource is in use.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] where another process has an exclusive lock, [`ErrorKind::NotFound`] where it was removed, or whatever the
    /// file system says that takes no locks.
    pub fn shared(path: &Path) -> io::Result<Self> {
        Self::take(path, FlockOperation::NonBlockingLockShared)
    }

    /// An exclusive lock: no other process uses the resource. Where this fails, for whatever reason, the thing must be taken
    /// to be in use.
    ///
    /// # Errors
    /// As [`Self::shared`].
    pub fn exclusive(path: &Path) -> io::Result<Self> {
        Self::take(path, FlockOperation::NonBlockingLockExclusive)
    }

    fn take(path: &Path, operation: FlockOperation) -> io::Result<Self> {
        // Whoever may write beside the resource can put a FIFO in its place: opening that would wait forever.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(open(path, flags, Mode::empty())?);
        let kind = file.metadata()?.file_type();
        if !kind.is_file() && !kind.is_dir() {
            return Err(ErrorKind::InvalidInput.into());
        }
        flock(&file, operation)?;
        // Its last holder may have removed it between the opening and the lock, and a new one may be in its place.
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
    /// Where it cannot be made, [`ErrorKind::AlreadyExists`] where it was there before; where it cannot be locked for
    /// another reason than that the file system takes no locks: a sweep would then take it for abandoned, and it is removed.
    pub(crate) fn of_new(path: &Path, make: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<Option<Self>> {
        make(path)?;
        let until = Instant::now() + MOST_PATIENCE;
        loop {
            match Self::shared(path) {
                Ok(lock) => return Ok(Some(lock)),
                Err(error) if takes_no_locks(&error) => return Ok(None),
                Err(error) if !is_of_a_sweep(&error) || Instant::now() > until => {
                    let _ = fs::remove_dir(path).or_else(|_| fs::remove_file(path));
                    return Err(error);
                }
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            match make(path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
    }
}

/// Whether an error says that the file system has no locks.
fn takes_no_locks(error: &io::Error) -> bool {
    const NONE: [Errno; 4] = [Errno::NOTSUP, Errno::NOSYS, Errno::NOLCK, Errno::INVAL];
    Errno::from_io_error(error).is_some_and(|errno| NONE.contains(&errno))
}

/// Whether a sweep that runs now makes a lock fail.
fn is_of_a_sweep(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotFound)
}

/// Takes a lock in a test: children that other tests fork have copies of our descriptors for an instant.
#[cfg(test)]
pub(crate) fn soon<T>(mut lock: impl FnMut() -> io::Result<T>) -> T {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_on_a_fifo_or_a_link_is_refused_at_once() {
        let top = tempfile::tempdir().unwrap();
        let (fifo, link) = (top.path().join("fifo"), top.path().join("link"));
        crate::file_modes::fifo(&fifo, crate::file_modes::Access::Write).unwrap();
        std::os::unix::fs::symlink(top.path(), &link).unwrap();
        assert_eq!(Lock::exclusive(&fifo).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(Lock::shared(&link).is_err());
    }

    #[test]
    fn what_cannot_be_locked_for_want_of_means_is_removed_and_an_error() {
        for (errno, none) in
            [(Errno::NOTSUP, true), (Errno::NOLCK, true), (Errno::MFILE, false), (Errno::ACCESS, false)]
        {
            assert_eq!(takes_no_locks(&errno.into()), none, "{errno}");
        }
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("x");
        let make = |path: &Path| crate::file_modes::fifo(path, crate::file_modes::Access::Write);
        assert_eq!(Lock::of_new(&path, &make).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(!path.exists());
    }

    #[test]
    fn shared_locks_exclude_an_exclusive_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (Lock::shared(dir.path()).unwrap(), Lock::shared(dir.path()).unwrap());
        drop(a);
        assert_eq!(Lock::exclusive(dir.path()).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(b);
        let exclusive = soon(|| Lock::exclusive(dir.path()));
        assert_eq!(Lock::shared(dir.path()).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(exclusive);
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
    fn a_process_that_is_started_has_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::shared(dir.path()).unwrap();
        let mut child = std::process::Command::new("sleep").arg("3600").spawn().unwrap();
        let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().flatten();
        let open_locks = open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|path| path == dir.path())).count();
        child.kill().unwrap();
        child.wait().unwrap();
        drop(lock);
        assert_eq!(open_locks, 0);
    }
}
