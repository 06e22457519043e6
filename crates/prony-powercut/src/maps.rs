//! Pages of maps that programs have changed and the kernel has not sent.
//!
//! The server sees a page only when the kernel writes it back, and the kernel does that late: a program that only writes
//! through maps would look safe, since every image would have the state of its last `msync`. So whoever asks for a cut has
//! the pages sent first. `syncfs` does not suffice: on a FUSE file system it does not wait for them any more
//! (`SB_I_NO_DATA_INTEGRITY`). When a map is removed, `fuse_vma_close` writes all dirty pages of its file, whoever has changed
//! them, and waits for them; it sends no `fsync`, so that nothing becomes durable. The server must not do this: it would
//! wait for itself.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use prony_os::SharedMap;

use crate::error::Error;
use crate::points::Point;

/// Directory of all processes.
const PROCESSES: &str = "/proc";

/// Makes the kernel send all dirty pages of the files that processes have mapped, as far as this process may see these maps; how
/// many of them have a file that it may not open.
pub(crate) fn send(point: &Point) -> Result<u64, Error> {
    let mut unsent = 0;
    for path in mapped(point).map_err(Error::file("read", Path::new(PROCESSES)))? {
        let sent = unsent_of(&path, send_pages(&path));
        unsent += sent.map_err(Error::file("have the kernel send pages of maps of", &path))?;
    }
    Ok(unsent)
}

/// Whether a map, `1` or `0`, has pages that could not be sent.
fn unsent_of(path: &Path, sent: io::Result<()>) -> io::Result<u64> {
    let Err(error) = sent else { return Ok(0) };
    match error.kind() {
        // It was removed meanwhile, or its mount is read-only: then no page was changed through it.
        io::ErrorKind::NotFound | io::ErrorKind::ReadOnlyFilesystem => Ok(0),
        // The link needs a capability of the machine (proc_pid_map_files(5)).
        io::ErrorKind::PermissionDenied if path.starts_with(PROCESSES) => Ok(1),
        _ => Err(error),
    }
}

fn send_pages(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    SharedMap::new(&file, 0, 1).map(drop)
}

/// The files of a mount that any process has mapped.
fn mapped(point: &Point) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(PROCESSES)? {
        let entry = entry?;
        if !entry.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        // Processes end, and those of other users cannot be read.
        let maps = fs::read(entry.path().join("maps")).unwrap_or_default();
        let file = |line| file(line, point, &entry.path());
        found.extend(maps.split(|byte| *byte == b'\n').filter_map(file));
    }
    Ok(found)
}

/// The file of a line of `maps`, where it is one of the mount and its pages are shared: addresses, permissions, offset, device,
/// number of the file, path. Where another file or none has this path, since the name was removed or the process sees the mount at
/// another place, it is the process's own link to the file.
fn file(line: &[u8], point: &Point, process: &Path) -> Option<PathBuf> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let (addresses, permissions, device) = (fields.next()?, fields.next()?, fields.nth(1)?);
    let (major, minor) = point.device;
    if permissions.last() != Some(&b's') || device != format!("{major:02x}:{minor:02x}").as_bytes() {
        return None;
    }
    let (ino, path) = (fields.next()?, Path::new(OsStr::from_bytes(fields.next()?.trim_ascii_start())));
    let is_it = |found: Metadata| point.has(found.dev()) && found.ino().to_string().as_bytes() == ino;
    let link = || process.join("map_files").join(OsStr::from_bytes(addresses));
    Some(if fs::metadata(path).is_ok_and(is_it) { path.to_path_buf() } else { link() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was mapped through a bind mount, as in a container, was left out: the images of an unsound store were intact.
    #[test]
    fn shared_maps_of_files_of_the_mount_are_found_wherever_it_is_mounted() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a b");
        fs::write(&path, b"").unwrap();
        let (ino, device) = fs::metadata(&path).map(|found| (found.ino(), found.dev())).unwrap();
        let device @ (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let on = |device: (u32, u32), permissions: &str, ino: u64, path: &Path| {
            let point = Point { path: "/mnt".into(), state: "/var".into(), device };
            let line =
                format!("7f00-7f01 {permissions} 00001000 {major:02x}:{minor:02x} {ino}      {}", path.display());
            file(line.as_bytes(), &point, Path::new("/proc/7"))
        };
        assert_eq!(on(device, "rw-s", ino, &path), Some(path.clone()));
        // What is not written any more may have been.
        assert_eq!(on(device, "r--s", ino, &path), Some(path.clone()));
        let link = Some(PathBuf::from("/proc/7/map_files/7f00-7f01"));
        for elsewhere in [&top.path().join("a b (deleted)"), top.path(), Path::new("/container/a b")] {
            assert_eq!(on(device, "rw-s", ino, elsewhere), link, "{}", elsewhere.display());
        }
        assert_eq!(on(device, "rw-s", ino + 1, &path), link, "another file has the path");
        assert_eq!(on(device, "rw-p", ino, &path), None);
        assert_eq!(on((major, minor + 1), "rw-s", ino, &path), None);
    }

    #[test]
    fn map_that_may_not_be_opened_is_counted_and_a_file_that_may_not_is_an_error() {
        let of = |path: &str, kind: io::ErrorKind| unsent_of(Path::new(path), Err(kind.into())).ok();
        let link = "/proc/7/map_files/7f00-7f01";
        assert_eq!(of(link, io::ErrorKind::PermissionDenied), Some(1));
        assert_eq!(
            [io::ErrorKind::NotFound, io::ErrorKind::ReadOnlyFilesystem].map(|kind| of(link, kind)),
            [Some(0); 2]
        );
        assert_eq!((of("/mnt/a", io::ErrorKind::PermissionDenied), of(link, io::ErrorKind::StorageFull)), (None, None));
    }

    #[test]
    fn file_of_another_file_system_is_not_the_mapped_one() {
        let ino = fs::metadata("/proc/version").unwrap().ino();
        let point = Point { path: "/mnt".into(), state: "/var".into(), device: (0, 0) };
        let of = |line: &str| file(line.as_bytes(), &point, Path::new("/proc/7"));
        let link = Some(PathBuf::from("/proc/7/map_files/7f00-7f01"));
        assert_eq!(of(&format!("7f00-7f01 rw-s 00000000 00:00 {ino} /proc/version")), link);
        for other in ["7f00-7f01 rw-p 00000000 00:00 0 ", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
