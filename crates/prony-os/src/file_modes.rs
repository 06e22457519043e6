//! Sets the modes of files and directories that processes of different users share. A measured process may become
//! another user, and must still be able to use its TMPDIR and prony's channels, whatever prony's umask.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Whether files that this process makes are open to other users; set once, when the command line has been read.
static OPEN: AtomicBool = AtomicBool::new(false);

/// From now on other users may enter scratch directories and read results, as requested on the command line.
pub fn open_to_other_users() {
    OPEN.store(true, Ordering::Relaxed);
}

/// The mode of a file or directory for this user only, or the one that is open to other users.
fn mode(private: u32, open: u32) -> u32 {
    if OPEN.load(Ordering::Relaxed) { open } else { private }
}

/// The mode of a file of results, before the umask: other users may at most read it.
pub fn file_mode() -> u32 {
    mode(0o600, 0o644)
}

/// Makes a directory of prony's own, which other users may enter only if that was requested. What lies in it may be
/// open to all, since no other user can reach it.
///
/// # Errors
/// Where it cannot be made.
pub(crate) fn own_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(mode(0o700, 0o777)).create(path)
}

/// Makes a directory in which everybody may make files and remove only his own. An existing one is not changed: what a
/// subject has put in its place is not ours.
///
/// # Errors
/// Where it cannot be made.
pub fn directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o1777)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// What users other than the maker of a FIFO may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Write what is read here.
    Write,
    /// Read what is written here.
    Read,
}

/// Makes a FIFO that everybody may use in one direction.
///
/// # Errors
/// Where it cannot be made, or there is something by its name.
pub fn fifo(path: &Path, access: Access) -> io::Result<()> {
    let mode = match access {
        Access::Write => 0o622,
        Access::Read => 0o644,
    };
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn shared_files_grant_other_users_only_their_direction() {
        let top = tempfile::tempdir().unwrap();
        let (dir, marks, commands) = (top.path().join("tmp"), top.path().join("marks"), top.path().join("commands"));
        directory(&dir).unwrap();
        fifo(&marks, Access::Write).unwrap();
        fifo(&commands, Access::Read).unwrap();
        assert_eq!([&dir, &marks, &commands].map(|path| mode(path)), [0o1777, 0o622, 0o644]);
        assert_eq!(fifo(&marks, Access::Write).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn what_is_there_already_keeps_its_rights() {
        let top = tempfile::tempdir().unwrap();
        let (theirs, link) = (top.path().join("theirs"), top.path().join("link"));
        fs::create_dir(&theirs).unwrap();
        fs::set_permissions(&theirs, Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&theirs, &link).unwrap();
        directory(&link).unwrap();
        assert_eq!(mode(&theirs), 0o700);
        assert!(directory(&top.path().join("no/where")).is_err());
    }
}
