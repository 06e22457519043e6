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
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use prony_os::SharedMap;

use crate::error::Error;
use crate::points::Point;

/// Directory of all processes.
const PROCESSES: &str = "/proc";

/// Makes the kernel send all dirty pages of the files that processes have mapped, as far as this process may see these maps.
pub(crate) fn send(point: &Point) -> Result<(), Error> {
    for path in mapped(point).map_err(Error::file("read", Path::new(PROCESSES)))? {
        match send_pages(&path) {
            // It was removed meanwhile, or others than root may not use the link.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && path.starts_with(PROCESSES) => {}
            sent => sent.map_err(Error::file("have the kernel send pages of maps of", &path))?,
        }
    }
    Ok(())
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
/// number of the file, path. Where the name by which it was mapped was removed, there may be another one: then it is the
/// process's own link to the file.
fn file(line: &[u8], point: &Point, process: &Path) -> Option<PathBuf> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let (addresses, permissions, device) = (fields.next()?, fields.next()?, fields.nth(1)?);
    let (major, minor) = point.device;
    if permissions.last() != Some(&b's') || device != format!("{major:02x}:{minor:02x}").as_bytes() {
        return None;
    }
    let path = Path::new(OsStr::from_bytes(fields.nth(1)?.trim_ascii_start()));
    let is_removed = path.as_os_str().as_bytes().ends_with(b" (deleted)") && !path.exists();
    let link = || process.join("map_files").join(OsStr::from_bytes(addresses));
    path.starts_with(&point.path).then(|| if is_removed { link() } else { path.to_path_buf() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_maps_of_files_of_the_mount_are_found() {
        let point = Point { path: "/mnt".into(), state: "/var".into(), device: (0, 47) };
        let of = |line: &str| file(line.as_bytes(), &point, Path::new("/proc/7"));
        let found = Some(PathBuf::from("/mnt/a b"));
        assert_eq!(of("7f00-7f01 rw-s 00000000 00:2f 12                         /mnt/a b"), found);
        // What is not written any more may have been.
        assert_eq!(of("7f00-7f01 r--s 00001000 00:2f 12                         /mnt/a b"), found);
        let removed = of("7f00-7f01 rw-s 00000000 00:2f 12                         /mnt/a b (deleted)");
        assert_eq!(removed, Some(PathBuf::from("/proc/7/map_files/7f00-7f01")));
        for other in [
            "7f00-7f01 rw-p 00000000 00:2f 12                         /mnt/a b",
            "7f00-7f01 rw-s 00000000 00:2e 12                         /mnt/a b",
            "7f00-7f01 rw-s 00000000 00:2f 12                         /other/a b",
            "7f00-7f01 rw-p 00000000 00:00 0 ",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
