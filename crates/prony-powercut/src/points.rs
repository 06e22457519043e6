//! Finds and removes mounts of this file system by their mount points.

use std::path::{Path, PathBuf};

use prony_os::mount::mounts;
use rustix::mount::UnmountFlags;

use crate::error::Error;

/// Source of a mount: this prefix and the state directory.
pub(crate) const SOURCE: &str = "prony-powercut:";

/// The absolute path of a mount point, which may be stale: then only its parent can be resolved.
fn absolute(point: &Path) -> Result<PathBuf, Error> {
    let whole = std::path::absolute(point).map_err(Error::file("find", point))?;
    match (whole.canonicalize(), whole.parent(), whole.file_name()) {
        (Ok(path), ..) => Ok(path),
        (Err(_), Some(parent), Some(name)) => Ok(parent.canonicalize().map_err(Error::file("find", point))?.join(name)),
        (Err(error), ..) => Err(Error::file("find", point)(error)),
    }
}

/// The mount point and the state directory of a file system of this kind that is mounted on `point`.
pub(crate) fn find(point: &Path) -> Result<(PathBuf, PathBuf), Error> {
    let point = absolute(point)?;
    let all = mounts().map_err(Error::file("read", Path::new("/proc/self/mountinfo")))?;
    // The last one on a mount point hides the others.
    let ours = all.into_iter().rev().find(|mount| mount.point == point);
    match ours.as_ref().and_then(|mount| mount.source.strip_prefix(SOURCE)) {
        Some(state) => Ok((point, PathBuf::from(state))),
        None => Err(Error::NotMounted { point }),
    }
}

/// Removes a mount at once; programs that use it lose it when its process ends.
pub(crate) fn detach(point: &Path) -> Result<(), Error> {
    let done = rustix::mount::unmount(point, UnmountFlags::DETACH);
    done.map_err(|error| Error::file("unmount", point)(error.into()))
}

/// Removes a mount of [`crate::Mounted`], also a stale one whose process was killed. A process that still serves it then ends.
///
/// # Errors
/// [`Error::NotMounted`], or where the kernel refuses.
pub fn unmount(point: &Path) -> Result<(), Error> {
    detach(&find(point)?.0)
}
