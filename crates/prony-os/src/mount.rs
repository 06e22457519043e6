//! Finds the file system and the mount of a path.

use std::path::{Path, PathBuf};

use prony_model::reading::Reading;
use prony_model::record::Mount;

use crate::why::{parse_with, read_text, why};

/// The file system of `path`.
pub fn of(path: &Path) -> Reading<Mount> {
    match path.canonicalize() {
        Ok(path) => parse_with(read_text("/proc/self/mountinfo"), "`/proc/self/mountinfo`", |text| find(text, &path)),
        Err(error) => Reading::Missing(why(&format!("`{}`", path.display()), &error)),
    }
}

/// The mount of an absolute path: the deepest mount point above it, the last one where several
/// were mounted over each other.
fn find(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mounts = lines(mountinfo).filter(|mount| path.starts_with(&mount.point));
    let Line { point, kind, source, own_options, options, .. } =
        mounts.max_by_key(|mount| mount.point.components().count())?;
    let mut all: Vec<String> = Vec::new();
    for option in own_options.split(',').chain(options.split(',')) {
        if !all.iter().any(|known| known == option) {
            all.push(option.to_owned());
        }
    }
    Some(Mount { point, kind: kind.to_owned(), source, options: all })
}

/// A line of `/proc/self/mountinfo`.
pub(crate) struct Line<'a> {
    /// The directory of the file system that is mounted.
    pub(crate) root: String,
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// The kind of file system.
    pub(crate) kind: &'a str,
    source: String,
    own_options: &'a str,
    /// The options of the file system, separated by commas.
    pub(crate) options: &'a str,
}

/// The mounts of this text, by proc_pid_mountinfo(5): optional fields end at a lone hyphen.
pub(crate) fn lines<'a>(mountinfo: &'a str) -> impl Iterator<Item = Line<'a>> {
    let line = |line: &'a str| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        Some(Line {
            root: unescape(before.next()?),
            point: unescape(before.next()?).into(),
            own_options: before.next()?,
            kind: after.next()?,
            source: unescape(after.next()?),
            options: after.next()?,
        })
    };
    mountinfo.lines().filter_map(line)
}

/// The kernel writes white space and backslashes as three octal digits.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
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
    fn the_real_table_knows_the_root() {
        assert!(of(Path::new("/")).measured().is_some());
        assert!(matches!(of(Path::new("/no such path")), Reading::Missing(_)));
    }
}
