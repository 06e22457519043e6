//! Finds and removes mounts of this file system by their mount points, without touching a file in them: that would wait for
//! a process that may not answer.

use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use prony_os::lock::Lock;
use prony_os::mount::{MountPoint, mounts};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::error::Error;

/// Source of a mount: this prefix and the state directory, in which [`escape`] replaces bytes.
const SOURCE: &str = "prony-powercut:";

/// How long the process that served a mount may take to end. Its keeper kills one that does not answer after
/// [`crate::Settings::patience`], by default 30 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is checked whether it has ended.
const PERIOD: Duration = Duration::from_millis(5);

/// A mount of this file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) path: PathBuf,
    pub(crate) state: PathBuf,
    /// Major and minor number.
    pub(crate) device: (u32, u32),
}

/// The name of the source of a mount with this state directory.
pub(crate) fn source(state: &Path) -> String {
    format!("{SOURCE}{}", escape(state))
}

/// A path as text: in a mount option a comma has a meaning, and a path may be no UTF-8.
fn escape(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let text = |byte: &u8| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02x}") };
    path.as_os_str().as_bytes().iter().map(text).collect()
}

fn unescape(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let code = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(code, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// The absolute path of a mount point, which may be stale: then only its parent can be resolved.
fn absolute(point: &Path) -> Result<PathBuf, Error> {
    let whole = std::path::absolute(point).map_err(Error::file("find", point))?;
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize().map_err(Error::file("find", point))?.join(name)),
        _ => Ok(whole),
    }
}

fn ours(mount: MountPoint) -> Option<Point> {
    let state = unescape(mount.source.strip_prefix(SOURCE)?)?;
    Some(Point { path: mount.point, state, device: mount.device })
}

fn all() -> Result<Vec<MountPoint>, Error> {
    mounts().map_err(Error::file("read", Path::new("/proc/self/mountinfo")))
}

/// All mounts of this file system.
pub(crate) fn points() -> Result<Vec<Point>, Error> {
    Ok(all()?.into_iter().filter_map(ours).collect())
}

/// The file system of this kind that is mounted on `point`, a path that may be a symbolic link.
pub(crate) fn find(point: &Path) -> Result<Point, Error> {
    let path = absolute(point)?;
    let mounts = all()?;
    let at = |path: &Path| mounts.iter().rev().find(|mount| mount.point == path).cloned().and_then(ours);
    // What is no mount point may be a link to one; that one's directory is not opened by this either.
    let linked = || fs::read_link(&path).ok().and_then(|target| absolute(&path.parent()?.join(target)).ok());
    at(&path).or_else(|| at(&linked()?)).ok_or(Error::NotMounted { point: path })
}

impl Point {
    /// Whether a device number is that of this mount.
    pub(crate) fn has(&self, device: u64) -> bool {
        (rustix::fs::major(device), rustix::fs::minor(device)) == self.device
    }

    /// Whether this very mount is still there.
    pub(crate) fn is_mounted(&self) -> bool {
        let same = |mount: MountPoint| ours(mount).is_some_and(|mount| mount == *self);
        all().is_ok_and(|mounts| mounts.into_iter().any(same))
    }

    /// Ends every request that waits for the server, lets all later ones fail, and removes the mount, all without waiting for
    /// the server. What programs wrote and the kernel has not sent is lost, as is everything else in the file system.
    pub(crate) fn end(&self) -> Result<(), Error> {
        if !self.is_mounted() {
            return Ok(());
        }
        let number = self.device.0 << 20 | self.device.1;
        // Only where the control file system of FUSE is mounted; a forced unmount aborts the connection, too.
        let _ = fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1");
        match rustix::mount::unmount(&self.path, UnmountFlags::FORCE | UnmountFlags::DETACH) {
            Ok(()) => Ok(()),
            // Without privileges, the program that mounted it removes it.
            Err(Errno::PERM) => self.end_by_helper(),
            Err(_) if !self.is_mounted() => Ok(()),
            Err(error) => Err(Error::file("unmount", &self.path)(error.into())),
        }
    }

    /// Waits until no process holds the lock of the state directory, which the server has as long as it runs. Where the
    /// directory is missing or cannot be locked, there is nothing to wait for.
    fn wait_for_server(&self, patience: Duration) -> Result<(), Error> {
        let until = Instant::now() + patience;
        while Lock::shared(&self.state).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            if Instant::now() > until {
                return Err(Error::StillServed { point: self.path.clone(), state: self.state.clone() });
            }
            std::thread::sleep(PERIOD);
        }
        Ok(())
    }

    fn end_by_helper(&self) -> Result<(), Error> {
        let mut helper = Command::new("fusermount3");
        helper.args(["-u", "-z", "-q", "--"]).arg(&self.path).stdin(Stdio::null()).stdout(Stdio::null());
        let done = helper.status().map_err(Error::file("unmount with `fusermount3`", &self.path))?;
        match done.success() || !self.is_mounted() {
            true => Ok(()),
            false => Err(Error::file("unmount", &self.path)(Errno::PERM.into())),
        }
    }
}

/// Removes a mount of this file system, also a stale one whose processes were killed, and waits until the process that served it
/// has ended: the state directory can be used again then.
///
/// # Errors
/// [`Error::NotMounted`], or where the kernel refuses; [`Error::StillServed`] where that process does not end within a minute.
pub fn unmount(point: &Path) -> Result<(), Error> {
    let point = find(point)?;
    point.end()?;
    point.wait_for_server(PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_directory_is_found_in_the_source() {
        for path in [&b"/var/tmp/a"[..], b"/a,b c/%25", b"/\xff\xfe/x"] {
            let path = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
            let source = source(&path);
            assert!(!source.contains([',', ' ']), "{source}");
            assert_eq!(unescape(source.strip_prefix(SOURCE).unwrap()), Some(path));
        }
        assert_eq!(unescape("/a%2"), None);
    }

    #[test]
    fn server_that_keeps_the_state_directory_is_an_error_of_unmount() {
        let top = tempfile::tempdir().unwrap();
        let point = Point { path: "/mnt".into(), state: top.path().to_path_buf(), device: (0, 0) };
        let lock = Lock::exclusive(top.path()).unwrap();
        let error = point.wait_for_server(Duration::from_millis(1)).unwrap_err();
        assert!(error.to_string().contains("is removed, but the process that served it still uses"), "{error}");
        assert!(error.hint().unwrap().contains("`powercut-serve`"));
        drop(lock);
        point.wait_for_server(PATIENCE).unwrap();
        let missing = Point { state: top.path().join("missing"), ..point };
        missing.wait_for_server(Duration::ZERO).unwrap();
    }

    #[test]
    fn nothing_is_mounted_on_a_plain_directory() {
        let top = tempfile::tempdir().unwrap();
        assert!(matches!(unmount(top.path()), Err(Error::NotMounted { .. })));
    }
}
