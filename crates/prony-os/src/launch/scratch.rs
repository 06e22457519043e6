//! The directory of one trial, on the file system of the results, removed after the trial.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, chmod, openat};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};

use crate::error::Error;
use crate::file_modes::own_directory;
use crate::lock::{Lock, abandoned};
use crate::mount::{MountPoint, mounts};
use crate::owner::{ProcessId, is_name};

/// A directory that is removed when this value is dropped. If the runner is killed, a supervisor that knows the
/// directory removes it; if both are killed, [`Scratch::sweep`] does.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// While this lock is taken, no sweep removes the directory.
    _lock: Option<Lock>,
}

/// Result of a sweep.
#[derive(Debug, Default)]
pub struct Swept {
    /// Directories that were removed.
    pub removed: Vec<PathBuf>,
    /// Why the remaining ones were not removed: a process may still write into them.
    pub left: Vec<Error>,
}

impl Scratch {
    /// Makes a new directory inside `near`, which must exist and be on the file system that is to be measured.
    ///
    /// # Errors
    /// When the directory cannot be made or locked.
    pub fn create(near: &Path) -> Result<Self, Error> {
        let near = fs::canonicalize(near).map_err(Error::file("find", near))?;
        let path = near.join(format!(".{}", ProcessId::current().next_name()));
        let lock = Lock::of_new(&path, &|path| own_directory(path)).map_err(Error::file("create", &path))?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with its content.
    ///
    /// # Errors
    /// When something in it cannot be removed.
    pub fn remove(self) -> Result<(), Error> {
        remove_tree(&self.path)
    }

    /// Removes the directories inside `near` that nobody has locked. Those of other users, which may not be removed,
    /// are left without an error.
    ///
    /// # Errors
    /// When `near` cannot be read.
    pub fn sweep(near: &Path) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        let entries = fs::read_dir(near).map_err(Error::file("read", near))?.flatten();
        let named = entries.filter(|entry| Self::is_name(&entry.file_name())).map(|entry| entry.path());
        // The lock is released after the removal.
        for (path, _lock) in abandoned(named.collect(), |path| Lock::exclusive(path).ok()) {
            match remove_tree(&path) {
                Ok(()) => swept.removed.push(path),
                Err(error) if error.is_denied() && !is_ours(&path) => {}
                Err(error) => swept.left.push(error),
            }
        }
        Ok(swept)
    }

    /// Whether a name is one of a scratch directory's, of this or another run.
    pub fn is_name(name: &OsStr) -> bool {
        name.to_str().and_then(|name| name.strip_prefix('.')).is_some_and(is_name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If it cannot be removed now, a later sweep reports that.
        let _ = remove_tree(&self.path);
    }
}

fn is_ours(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|about| about.uid() == rustix::process::geteuid().as_raw())
}

/// Removes a directory that prony has made, with its content; one that is already removed is no error. Directories
/// without write permission, such as a cache of Go modules, get it first and are removed too. What was mounted in it stays.
///
/// # Errors
/// When something in it cannot be removed.
pub fn remove_tree(path: &Path) -> Result<(), Error> {
    detach_mounts(path)?;
    let removed = match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            make_writable(CWD, path.as_os_str());
            fs::remove_dir_all(path)
        }
        removed => removed,
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Detaches what is mounted at a directory or below. A subject that was killed may have left a bind mount of the user's files
/// there, and whoever removes what is in the directory would remove those.
///
/// # Errors
/// Where the mounts cannot be listed, or one of them cannot be detached: then nothing may be removed.
pub fn detach_mounts(path: &Path) -> Result<(), Error> {
    // Mount points have no links in their paths; what the last name itself is a link to is not removed.
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let Ok(parent) = fs::canonicalize(parent) else { return Ok(()) };
    let all = mounts().map_err(Error::file("list the mounts below", path))?;
    let points = mounted_below(&parent.join(name), all);
    // What is detached below a shared mount is detached below all its peers too: of a bind mount of /dev, the machine's own /dev/pts
    // (mount_namespaces(7)). `REC` reaches what another mount at the same point hides.
    for point in &points {
        match mount_change(point, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(Error::file("separate from its peers the mount at", point)(errno.into())),
        }
    }
    for point in points {
        // At once for the paths, and later for processes that still use it.
        match unmount(&point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            // Its directory was removed.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(Error::file("detach the mount at", point)(errno.into())),
        }
    }
    Ok(())
}

/// The mount points at a directory and below, each before what contains it, and of several on one point the last one first.
fn mounted_below(directory: &Path, mounts: Vec<MountPoint>) -> Vec<PathBuf> {
    let mut points: Vec<PathBuf> =
        mounts.into_iter().rev().map(|mount| mount.point).filter(|point| point.starts_with(directory)).collect();
    points.sort_by_key(|point| Reverse(point.components().count()));
    points
}

/// Gives its owner all rights on a directory and on those in it. No link is followed, since a process that is left of a
/// subject may put one anywhere at any time. Where the right cannot be given, the removal that follows says so.
fn make_writable(parent: impl AsFd, name: &OsStr) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(directory) = openat(parent, name, flags, Mode::empty()) else { return };
    // Under this name the mode is that of the opened directory, and no right on it is needed.
    let itself = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let _ = chmod(&itself, Mode::RWXU);
    for entry in fs::read_dir(&itself).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&directory, &entry.file_name());
        }
    }
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
        assert_eq!(mode & 0o7777, 0o700, "only its user has access");
        fs::create_dir(a.path().join("store")).unwrap();
        fs::write(a.path().join("store/data"), "x").unwrap();
        let (first, second) = (a.path().to_owned(), b.path().to_owned());
        drop(a);
        b.remove().unwrap();
        assert!(!first.exists() && !second.exists() && near.path().exists());
    }

    #[test]
    fn sweep_goes_by_the_lock_and_not_by_the_process_number() {
        let near = tempfile::tempdir().unwrap();
        let mine = Scratch::create(near.path()).unwrap();
        let make = |owner: ProcessId| {
            let path = near.path().join(format!(".{}", owner.next_name()));
            fs::create_dir(&path).unwrap();
            path
        };
        // A process in another PID namespace: the number may be that of a live process or of none, and proves nothing.
        let (left, in_use) = (make(ProcessId::current()), make(ProcessId { pid: i32::MAX, start: 1 }));
        fs::create_dir(near.path().join("results")).unwrap();
        let _lock = Lock::shared(&in_use).unwrap();
        assert_eq!(Scratch::sweep(near.path()).unwrap().removed, std::slice::from_ref(&left));
        assert!(!left.exists() && in_use.exists() && near.path().join("results").exists() && mine.path().exists());
    }

    #[test]
    fn mounts_are_detached_from_the_inside_and_from_the_top() {
        let device = (0, 1);
        let mount = |point: &str| MountPoint { point: point.into(), device, ..MountPoint::default() };
        let points = ["/", "/a/s", "/a/s/x", "/a/s/x/y", "/a/st", "/a/s/z"].map(mount);
        let found = mounted_below(Path::new("/a/s"), points.into());
        assert_eq!(found, ["/a/s/x/y", "/a/s/z", "/a/s/x", "/a/s"].map(PathBuf::from));
    }

    /// A subject that was killed left a bind mount, and the user's files in it were removed with the scratch directory.
    #[test]
    fn removal_leaves_what_is_mounted_below() {
        let near = tempfile::tempdir().unwrap();
        let path = |name: &str| near.path().join(name);
        fs::create_dir_all(path("scratch/below/mounted")).unwrap();
        fs::create_dir(path("user")).unwrap();
        fs::write(path("user/file"), "x").unwrap();
        if let Err(error) = rustix::mount::mount_bind(path("user"), path("scratch/below/mounted")) {
            return eprintln!("SKIPPED: this user cannot mount: {error}");
        }
        assert!(path("scratch/below/mounted/file").exists());
        std::os::unix::fs::symlink(path("scratch"), path("link")).unwrap();
        detach_mounts(&path("link")).unwrap();
        assert!(path("scratch/below/mounted/file").exists(), "a link is removed without what it leads to");
        remove_tree(&path("scratch")).unwrap();
        assert!(path("user/file").exists() && !path("scratch").exists());
    }

    /// Detaching a recursive bind mount of /dev detached /dev/pts of the machine too.
    #[test]
    fn removal_leaves_what_is_mounted_elsewhere_too() {
        use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
        let near = tempfile::tempdir().unwrap();
        let path = |name: &str| near.path().join(name);
        ["scratch/below", "shared"].into_iter().for_each(|name| fs::create_dir_all(path(name)).unwrap());
        let tmpfs = |at: &str| mount("none", path(at), "tmpfs", MountFlags::empty(), None);
        if let Err(error) = tmpfs("shared") {
            return eprintln!("SKIPPED: this user cannot mount: {error}");
        }
        mount_change(path("shared"), MountPropagationFlags::SHARED).unwrap();
        fs::create_dir(path("shared/inner")).unwrap();
        // Two at one point, as below /proc of most machines.
        for name in ["hidden", "file"] {
            tmpfs("shared/inner").unwrap();
            fs::write(path("shared/inner").join(name), "x").unwrap();
        }
        mount_bind_recursive(path("shared"), path("scratch/below")).unwrap();
        let was_there = path("scratch/below/inner/file").exists();
        let removed = remove_tree(&path("scratch"));
        let mut is_there = path("shared/inner/file").exists();
        _ = unmount(path("shared/inner"), UnmountFlags::DETACH);
        is_there &= path("shared/inner/hidden").exists();
        for at in ["shared/inner", "shared"] {
            _ = unmount(path(at), UnmountFlags::DETACH);
        }
        removed.unwrap();
        assert!(was_there && is_there && !path("scratch").exists());
    }

    #[test]
    fn a_missing_place_is_named() {
        let error = Scratch::create(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(error.to_string(), "cannot find `/nowhere/at/all`");
    }
}
