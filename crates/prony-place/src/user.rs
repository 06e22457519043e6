//! The user that a service's commands run as where prony runs as root: some servers refuse root.
//!
//! A command is executed by `setpriv` of util-linux, which becomes the user and then executes it in its own place: the process
//! is the same, and nothing runs beside it.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Gid, Uid, chown};
use rustix::process::geteuid;

use crate::error::Error;

/// The users of this machine.
const USERS: &str = "/etc/passwd";

/// Whether all users may enter a directory.
const ENTERED_BY_ALL: u32 = 0o001;

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
        let failed =
            |errno: rustix::io::Errno| Error::Setup { doing: "give a directory to a user", source: errno.into() };
        chown(directory, Some(uid), Some(gid)).map_err(failed)
    }

    /// Lets users enter a directory of prony's own, without reading what is in it; whether this user can enter all above it.
    ///
    /// # Errors
    /// Where a directory above cannot be entered.
    pub fn let_in(&self, directory: &Path) -> Result<(), Error> {
        let failed = |source| Error::Setup { doing: "let a user enter a directory", source };
        let mode = fs::metadata(directory).map_err(failed)?.mode();
        fs::set_permissions(directory, Permissions::from_mode(mode | 0o111)).map_err(failed)?;
        for above in directory.ancestors().skip(1) {
            let about = fs::metadata(above).map_err(failed)?;
            let enters = about.mode() & ENTERED_BY_ALL != 0 || about.uid() == self.uid;
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
}
