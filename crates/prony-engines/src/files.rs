//! Syncing a store's files for engines that do not do it themselves.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Syncs every file below `dir`, and the directories that name them.
///
/// Not for engines that hold POSIX record locks: closing a file drops the process's locks on it.
pub(crate) fn sync_tree(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            match File::open(entry.path()) {
                Ok(file) => file.sync_all()?,
                // Engines remove files in the background.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    File::open(dir)?.sync_all()
}
