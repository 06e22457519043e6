//! Finds the file system and the mount of a path.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use prony_model::reading::Reading;
use prony_model::record::Mount;

use crate::why::{parse_file, reading};

/// The list of mounts.
pub(crate) const TABLE: &str = "/proc/self/mountinfo";

/// The file system of `path`.
pub fn of(path: &Path) -> Reading<Mount> {
    let found = reading(&format!("`{}`", path.display()), path.canonicalize());
    found.and_then(|path| parse_file(TABLE, |text| find(text, &path)))
}

/// The mount of an absolute path: the deepest mount point above it, the last one where several
/// were mounted over each other.
fn find(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mounts = parse(mountinfo.as_bytes()).filter(|mount| path.starts_with(&mount.point));
    let MountPoint { point, kind, source, own_options, options, .. } =
        mounts.max_by_key(|mount| mount.point.components().count())?;
    let mut all: Vec<String> = Vec::new();
    for option in own_options.split(',').chain(options.split(',')) {
        if !all.iter().any(|known| known == option) {
            all.push(option.to_owned());
        }
    }
    Some(Mount { point, kind, source, options: all })
}

/// A file system that is mounted somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountPoint {
    /// Where it is mounted.
    pub point: PathBuf,
    /// The kind of file system.
    pub kind: String,
    /// Its source: a device, or a name that whoever mounted it gave.
    pub source: String,
    /// Major and minor number of its device, as `stat` shows it for its files.
    pub device: (u32, u32),
    /// The directory of the file system that is mounted.
    pub(crate) root: PathBuf,
    /// The options of the mount, separated by commas.
    pub(crate) own_options: String,
    /// The options of the file system, separated by commas.
    pub(crate) options: String,
}

/// All mounts; of those on the same mount point the last one hides the earlier ones. No mount point is opened: one of a FUSE
/// file system may be stale, or its process may not answer.
///
/// # Errors
/// Where `/proc/self/mountinfo` cannot be read.
pub fn mounts() -> std::io::Result<Vec<MountPoint>> {
    Ok(parse(&std::fs::read(TABLE)?).collect())
}

/// The mounts of this text, by proc_pid_mountinfo(5). A mount point is any sequence of bytes.
pub(crate) fn parse(mountinfo: &[u8]) -> impl Iterator<Item = MountPoint> {
    mountinfo.split(|byte| *byte == b'\n').filter_map(mount_point)
}

fn mount_point(line: &[u8]) -> Option<MountPoint> {
    let mut fields = line.split(|byte| *byte == b' ');
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescape(field)));
    let device = text(fields.nth(2)?);
    let (major, minor) = device.split_once(':')?;
    let (root, point, own_options) = (path(fields.next()?), path(fields.next()?), text(fields.next()?));
    // Optional fields end at a lone hyphen.
    fields.find(|field| *field == b"-")?;
    Some(MountPoint {
        point,
        kind: text(fields.next()?),
        source: text(&unescape(fields.next()?)),
        device: (major.parse().ok()?, minor.parse().ok()?),
        root,
        own_options,
        options: text(fields.next()?),
    })
}

/// The kernel writes white space and backslashes as a backslash and three octal digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,errors=remount-ro
30 27 0:27 / /mnt/a\\040b rw,nosuid shared:7 master:2 - tmpfs tmpfs rw,size=24k
31 27 8:1 / /mnt rw,noatime - xfs /dev/sda1 rw,attr2
32 27 8:2 / /mnt rw,noatime - btrfs /dev/sdb1 rw,ssd
";

    fn kind(path: &str) -> String {
        find(INFO, Path::new(path)).unwrap().kind
    }

    #[test]
    fn the_deepest_and_last_mount_contains_a_path() {
        assert_eq!(kind("/home/user"), "ext4");
        assert_eq!(kind("/mnt/a b/store"), "tmpfs");
        assert_eq!(kind("/mnt/abc"), "btrfs");
        assert_eq!(kind("/mntx"), "ext4", "a mount point is a whole component");
    }

    #[test]
    fn mount_options_of_both_kinds_are_listed_once() {
        let mount = find(INFO, Path::new("/x")).unwrap();
        assert_eq!(mount.options, ["rw", "relatime", "discard", "errors=remount-ro"]);
        assert_eq!((mount.source.as_str(), mount.is_in_memory()), ("/dev/vda", false));
        assert!(find(INFO, Path::new("/mnt/a b")).unwrap().is_in_memory());
    }

    #[test]
    fn mount_point_is_any_sequence_of_bytes() {
        let line = b"41 27 0:53 / /mnt/\xff\\134\\040 rw shared:7 - fuse prony-powercut:/a\\040b rw";
        let found = mount_point(line).unwrap();
        assert_eq!(found.point.as_os_str().as_encoded_bytes(), b"/mnt/\xff\\ ");
        assert_eq!((found.kind.as_str(), found.device), ("fuse", (0, 53)));
        assert_eq!(found.source, "prony-powercut:/a b");
        assert_eq!(mount_point(b""), None);
    }

    #[test]
    fn the_real_table_knows_the_root() {
        assert!(of(Path::new("/")).measured().is_some());
        assert!(matches!(of(Path::new("/no such path")), Reading::Missing(_)));
    }
}
