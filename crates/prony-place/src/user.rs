//! The user that a service's commands run as where prony runs as root: some servers refuse root.
//!
//! A command is executed by `setpriv` of util-linux, which becomes the user and then executes it in its own place: the process
//! is the same, and nothing runs beside it.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Gid, Uid, chown, chownat};
use rustix::process::geteuid;

use crate::error::Error;

/// The users of this machine.
const USERS: &str = "/etc/passwd";

/// Whether all users may enter a directory.
const ENTERED_BY_ALL: u32 = 0o001;

/// Whether its group may.
const ENTERED_BY_GROUP: u32 = 0o010;

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    uid: u32,
    gid: u32,
}

impl User {
    /// The user of this name; `None` where prony does not run as root, and so cannot become another user.
    ///
    /// # Errors
    /// Where there is no such user.
    pub fn named(name: &str) -> Result<Option<Self>, Error> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let text = fs::read_to_string(USERS).map_err(|source| Error::ReadFile { path: USERS.into(), source })?;
        let unknown = || Error::NoUser { name: name.to_owned() };
        Self::of(&text, name).ok_or_else(unknown).map(Some)
    }

    /// The user of this name in the text of the file of users.
    fn of(text: &str, name: &str) -> Option<Self> {
        let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let fields = lines.find(|fields| fields.first() == Some(&name))?;
        Some(Self { name: name.to_owned(), uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
    }

    /// The words that precede those of a command.
    pub fn words(&self) -> [OsString; 5] {
        let ids = [format!("--reuid={}", self.uid), format!("--regid={}", self.gid)];
        let [uid, gid] = ids.map(OsString::from);
        ["setpriv".into(), uid, gid, "--init-groups".into(), "--".into()]
    }

    /// Gives the user a directory of prony's own, which nobody else uses.
    ///
    /// # Errors
    /// Where the system refuses it.
    pub fn own(&self, directory: &Path) -> Result<(), Error> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        chown(directory, Some(uid), Some(gid)).map_err(Error::setup("give a directory to a user"))
    }

    /// Gives the user a directory of prony's own with everything in it; of a link the link itself, not what it leads to.
    ///
    /// # Errors
    /// Where the system refuses it.
    pub fn own_tree(&self, directory: &Path) -> Result<(), Error> {
        let failed = Error::setup::<io::Error>("give the copy of a service's data to a user");
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let mut open = vec![directory.to_path_buf()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(&directory).map_err(&failed)? {
                let entry = entry.map_err(&failed)?;
                chownat(CWD, entry.path(), Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(|errno| failed(errno.into()))?;
                if entry.file_type().map_err(&failed)?.is_dir() {
                    open.push(entry.path());
                }
            }
        }
        self.own(directory)
    }

    /// Lets the user enter a directory of prony's own, without listing or changing what is in it; whether the user can enter
    /// all above it. What lies in the directory may be open to all, so that only the user's group is let in. All users are
    /// where the group of another one has been let in before: a directory has one group.
    ///
    /// # Errors
    /// Where a directory above cannot be entered.
    pub fn let_in(&self, directory: &Path) -> Result<(), Error> {
        let failed = Error::setup::<io::Error>("let a user enter a directory");
        let about = fs::metadata(directory).map_err(&failed)?;
        let (mode, gid) = (about.mode(), Gid::from_raw(self.gid));
        if mode & (ENTERED_BY_ALL | ENTERED_BY_GROUP) == 0 {
            chown(directory, None, Some(gid)).map_err(|errno| failed(errno.into()))?;
            fs::set_permissions(directory, Permissions::from_mode(mode | ENTERED_BY_GROUP)).map_err(&failed)?;
        } else if mode & ENTERED_BY_ALL == 0 && about.gid() != self.gid {
            fs::set_permissions(directory, Permissions::from_mode(mode | ENTERED_BY_ALL)).map_err(&failed)?;
        }
        for above in directory.ancestors().skip(1) {
            let about = fs::metadata(above).map_err(&failed)?;
            let by_group = about.mode() & ENTERED_BY_GROUP != 0 && about.gid() == self.gid;
            let enters = about.mode() & ENTERED_BY_ALL != 0 || by_group || about.uid() == self.uid;
            if !enters {
                return Err(Error::ShutOut { name: self.name.clone(), directory: above.to_path_buf() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_the_numbers_of_their_line() {
        let text =
            "root:x:0:0::/root:/bin/sh\nnobodyelse:x:5:6::/:\nnobody:x:65534:65533:nobody:/:/bin/false\nbad:x:y:z\n";
        let user = User::of(text, "nobody").unwrap();
        assert_eq!((user.uid, user.gid), (65_534, 65_533));
        let words = user.words().map(|word| word.into_string().unwrap());
        assert_eq!(words.join(" "), "setpriv --reuid=65534 --regid=65533 --init-groups --");
        assert_eq!((User::of(text, "bad"), User::of(text, "absent")), (None, None));
    }

    #[test]
    fn only_the_group_of_a_user_is_let_in() {
        let top = tempfile::tempdir().unwrap();
        let inside = top.path().join("inside");
        fs::create_dir(&inside).unwrap();
        for directory in [top.path(), &inside] {
            fs::set_permissions(directory, Permissions::from_mode(0o700)).unwrap();
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let of_group = |gid| User { name: "service".to_owned(), uid: u32::MAX - 1, gid };
        let gid = fs::metadata(&inside).unwrap().gid();
        let shut_out = of_group(gid).let_in(&inside).unwrap_err();
        assert!(matches!(shut_out, Error::ShutOut { directory, .. } if directory == top.path()));
        for _ in 0..2 {
            [top.path(), &inside].into_iter().for_each(|directory| of_group(gid).let_in(directory).unwrap());
            assert_eq!([top.path(), &inside].map(mode), [0o710, 0o710]);
        }
        of_group(gid + 1).let_in(top.path()).unwrap();
        assert_eq!(mode(top.path()), 0o711, "two groups");
    }
}
