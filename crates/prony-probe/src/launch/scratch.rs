//! A directory for one trial, on the file system of the results, that does not outlive it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::Error;
use crate::owner::ProcessId;
use crate::shared::own_directory;

/// A directory that is removed when this value goes. A supervisor that was told of it removes it when the runner is
/// killed, and [`Scratch::sweep`] when both were.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Locked as long as the owner lives, so that a sweep in another process namespace sees that it is in use.
    _lock: File,
}

impl Scratch {
    /// Makes a new directory inside `near`, which must exist and be on the file system that is to be measured.
    ///
    /// # Errors
    /// When the directory cannot be made or locked.
    pub fn create(near: &Path) -> Result<Self, Error> {
        let near = fs::canonicalize(near).map_err(Error::file("find", near))?;
        let path = near.join(format!(".{}", ProcessId::current().next_name()));
        own_directory(&path).map_err(Error::file("create", &path))?;
        let lock = File::open(&path).map_err(Error::file("open", &path))?;
        flock(&lock, FlockOperation::NonBlockingLockShared).map_err(|e| Error::file("lock", &path)(e.into()))?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with all it holds.
    ///
    /// # Errors
    /// When something in it cannot be removed.
    pub fn remove(self) -> Result<(), Error> {
        remove_tree(&self.path)
    }

    /// Removes the directories inside `near` whose runner and supervisor were killed; returns their paths. Those of
    /// other users, which may not be removed, are left.
    ///
    /// # Errors
    /// When `near` cannot be read, or a stale directory cannot be removed for another reason.
    pub fn sweep(near: &Path) -> Result<Vec<PathBuf>, Error> {
        let mut removed = Vec::new();
        for entry in fs::read_dir(near).map_err(Error::file("read", near))?.flatten() {
            let path = entry.path();
            if is_stale(&path) {
                match remove_tree(&path) {
                    Ok(()) => removed.push(path),
                    Err(error) if error.is_denied() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(removed)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Where it cannot be removed now, a later sweep says so.
        let _ = remove_tree(&self.path);
    }
}

/// Removes a directory and all it holds; one that is gone already is no error.
pub(super) fn remove_tree(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file("remove", path)(error)),
        _ => Ok(()),
    }
}

fn is_stale(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix('.'));
    let Some(owner) = name.and_then(ProcessId::of_name) else { return false };
    if owner.is_alive() {
        return false;
    }
    let Ok(directory) = File::open(path) else { return false };
    flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_goes_with_its_value() {
        let near = tempfile::tempdir().unwrap();
        let (a, b) = (Scratch::create(near.path()).unwrap(), Scratch::create(near.path()).unwrap());
        assert_ne!(a.path(), b.path());
        let mode = std::os::unix::fs::PermissionsExt::mode(&a.path().metadata().unwrap().permissions());
        assert_eq!(mode & 0o7777, 0o700, "it is its user's alone");
        fs::create_dir(a.path().join("store")).unwrap();
        fs::write(a.path().join("store/data"), "x").unwrap();
        let (first, second) = (a.path().to_owned(), b.path().to_owned());
        drop(a);
        b.remove().unwrap();
        assert!(!first.exists() && !second.exists() && near.path().exists());
    }

    #[test]
    fn a_sweep_takes_only_what_nobody_owns() {
        let near = tempfile::tempdir().unwrap();
        let mine = Scratch::create(near.path()).unwrap();
        let dead = ProcessId { start: ProcessId::current().start + 1, ..ProcessId::current() };
        let make = |name: &str| {
            let path = near.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let stale = make(&format!(".{}", dead.next_name()));
        let in_use = make(&format!(".{}", dead.next_name()));
        let stranger = make("results");
        let lock = File::open(&in_use).unwrap();
        flock(&lock, FlockOperation::LockShared).unwrap();
        assert_eq!(Scratch::sweep(near.path()).unwrap(), std::slice::from_ref(&stale));
        assert!(!stale.exists() && in_use.exists() && stranger.exists() && mine.path().exists());
    }

    #[test]
    fn a_missing_place_is_named() {
        let error = Scratch::create(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(error.to_string(), "cannot find `/nowhere/at/all`");
    }
}
