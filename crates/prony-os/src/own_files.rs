//! The regular files that this process has open for writing: a results database with what SQLite has beside it, a journal, a file
//! into which the output goes.
//!
//! None of them is part of a store or of a program's directory. And none may be opened once more: to close any descriptor of a
//! file removes all POSIX locks that the process has on it (fcntl_locking(2)). SQLite does not notice that. Another process then
//! takes the database for unused and deletes its log, and what is written afterwards is lost.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;

/// Files by device and inode, so that each is known by all of its names.
#[derive(Clone, Debug, Default)]
pub struct OwnFiles(BTreeSet<(u64, u64)>);

impl OwnFiles {
    /// Those that are open now; none where `/proc` cannot be read.
    pub fn now() -> Self {
        let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten().map(|entry| entry.path());
        // The mode of the link is that of the descriptor (`tid_fd_update_inode` in fs/proc/fd.c).
        let written = descriptors.filter(|link| link.symlink_metadata().is_ok_and(|about| about.mode() & 0o200 != 0));
        // This follows the link to the file without opening it.
        let files = written.filter_map(|link| fs::metadata(link).ok()).filter(Metadata::is_file);
        Self(files.map(|about| (about.dev(), about.ino())).collect())
    }

    /// Whether a file is one of them.
    pub fn contains(&self, file: &Metadata) -> bool {
        self.0.contains(&(file.dev(), file.ino()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn own_files_are_those_open_for_writing_by_any_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let written = File::create(path("written")).unwrap();
        fs::hard_link(path("written"), path("other name")).unwrap();
        fs::write(path("read"), "x").unwrap();
        let _read = File::open(path("read")).unwrap();
        let is_own = |name: &str| OwnFiles::now().contains(&fs::metadata(path(name)).unwrap());
        assert_eq!(["written", "other name", "read"].map(is_own), [true, true, false]);
        drop(written);
        assert!(!is_own("written"));
    }
}
