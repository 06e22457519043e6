//! What the user's working tree has that no commit has, without the files of prony itself.

use std::path::{Path, PathBuf};

use prony_model::number::count;
use prony_os::launch::Scratch;
use prony_os::own_files::OwnFiles;
use prony_results::{is_file_of, is_results};

use crate::revision::git;

/// The working tree in a directory of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Uncommitted {
    /// The commit that is checked out; empty where there is none yet.
    pub(crate) head: String,
    /// Files that git tracks and that differ from this commit.
    pub(crate) tracked: usize,
    /// Files, and folders of nothing else, that git does not track and does not ignore.
    pub(crate) untracked: usize,
    /// The same of what git ignores.
    pub(crate) ignored: usize,
}

impl Uncommitted {
    /// Of a directory; `own` are databases and journals of prony.
    ///
    /// # Errors
    /// What git says, as where there is no repository.
    pub(crate) fn of(directory: &Path, own: &[PathBuf]) -> Result<Self, String> {
        let top = PathBuf::from(git(directory, &["rev-parse", "--show-toplevel"])?);
        // Without the lock that refreshing the index would take: that file belongs to the user.
        let ask = ["--no-optional-locks", "status", "--porcelain=v2", "--branch", "-z"];
        // Whatever the user's configuration leaves out of `git status`.
        let all = ["--untracked-files=normal", "--ignored=traditional", "--ignore-submodules=none", "--", "."];
        let said = git(directory, &[&ask[..], &all].concat())?;
        let (mut head, mut tracked, mut untracked, mut ignored) = (String::new(), 0, Vec::new(), Vec::new());
        let mut entries = said.split('\0');
        while let Some(entry) = entries.next() {
            match entry.split_once(' ') {
                Some(("#", line)) => head.push_str(line.strip_prefix("branch.oid ").unwrap_or_default()),
                Some(("1" | "u", _)) => tracked += 1,
                Some(("2", _)) => {
                    // The former name of the file follows.
                    entries.next();
                    tracked += 1;
                }
                Some(("?", path)) => untracked.push(top.join(path)),
                // Python makes these anew of its sources.
                Some(("!", path)) if path.ends_with("__pycache__/") => {}
                Some(("!", path)) => ignored.push(top.join(path)),
                _ => {}
            }
        }
        let written = OwnFiles::now();
        let databases = untracked.iter().chain(&ignored).filter(|path| is_results(path, &written));
        let own: Vec<PathBuf> = databases.chain(own).cloned().collect();
        let foreign = |paths: &[PathBuf]| paths.iter().filter(|path| !is_own(path, &own, &written)).count();
        Ok(Self { head, tracked, untracked: foreign(&untracked), ignored: foreign(&ignored) })
    }

    /// How many files of each kind: `1 tracked file, 2 untracked files`; `None` where there are none. Ignored ones count for what has
    /// them and no commit beside it.
    pub(crate) fn counts(&self, with_ignored: bool) -> Option<String> {
        let ignored = if with_ignored { self.ignored } else { 0 };
        let kinds = [(self.tracked, "tracked file"), (self.untracked, "untracked file"), (ignored, "ignored file")];
        let each: Vec<String> = kinds.into_iter().filter(|(n, _)| *n > 0).map(|(n, kind)| count(n, kind)).collect();
        (!each.is_empty()).then(|| each.join(", "))
    }
}

/// Whether something is prony's own: a scratch directory, a database or what lies beside it, what this process writes, or a folder
/// of such files only.
fn is_own(path: &Path, own: &[PathBuf], written: &OwnFiles) -> bool {
    // Of what is ignored, files may be named and not their folder.
    let is_in_own =
        |folder: &Path| folder.file_name().is_some_and(Scratch::is_name) || own.iter().any(|own| is_cuts(own, folder));
    if path.ancestors().any(is_in_own) || own.iter().any(|own| is_file_of(own, path)) {
        return true;
    }
    let Ok(about) = path.symlink_metadata() else { return false };
    if !about.is_dir() {
        return written.contains(&about) || is_results(path, written);
    }
    let Ok(entries) = std::fs::read_dir(path) else { return false };
    entries.flatten().all(|entry| is_own(&entry.path(), own, written))
}

/// Whether a path is that of the saved cuts beside a database.
fn is_cuts(database: &Path, path: &Path) -> bool {
    let mut cuts = database.as_os_str().to_owned();
    cuts.push("-cuts");
    path == Path::new(&cuts)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// Whether this process has POSIX locks on a file.
    fn locked(file: &Path) -> bool {
        let (inode, me) = (format!(":{} ", fs::metadata(file).unwrap().ino()), format!(" {} ", std::process::id()));
        let locks = fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|lock| lock.contains(" POSIX ") && lock.contains(&inode) && lock.contains(&me))
    }

    #[test]
    fn files_of_prony_are_no_changes_of_the_working_tree() {
        if std::process::Command::new("git").arg("--version").output().is_err() {
            assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
            return;
        }
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        let run = |args: &[&str]| {
            let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
            git(&top, &[&who[..], args].concat()).unwrap()
        };
        run(&["init", "--quiet"]);
        for name in ["a", "b", "c", "d"] {
            fs::write(top.join(name), format!("the content of {name}, which is long enough\n")).unwrap();
        }
        run(&["add", "."]);
        run(&["commit", "--quiet", "-m", "all"]);
        let database = top.join("results/own.db");
        let found = || Uncommitted::of(&top, std::slice::from_ref(&database)).unwrap();
        let clean = Uncommitted { head: run(&["rev-parse", "HEAD"]), tracked: 0, untracked: 0, ignored: 0 };
        assert_eq!((found(), found().counts(true)), (clean.clone(), None));
        for directory in [".prony-run-1-2-3", "results", "results/own.db-cuts"] {
            fs::create_dir(top.join(directory)).unwrap();
            fs::write(top.join(directory).join("own.db"), "x").unwrap();
        }
        for name in ["own.db-wal", "own.db-shm"] {
            fs::write(top.join("results").join(name), "x").unwrap();
        }
        drop(prony_results::Database::create(&top.join("other.db")).unwrap());
        assert_eq!(found(), clean);
        // Whatever the user's own `git status` shows.
        run(&["config", "status.showUntrackedFiles", "no"]);
        fs::write(top.join("e"), "x").unwrap();
        assert_eq!(found().untracked, 1);
        fs::remove_file(top.join("e")).unwrap();
        // That of this run, open here, by any name. Its locks were removed, so that another prony deleted its log.
        let live = prony_results::Database::create(&top.join("live.db")).unwrap();
        fs::hard_link(top.join("live.db"), top.join("another name")).unwrap();
        let locks = || ["live.db", "live.db-shm"].map(|name| locked(&top.join(name)));
        assert!(locks().iter().all(|locked| *locked), "SQLite locks what it has open");
        assert_eq!((found(), locks()), (clean.clone(), [true; 2]));
        drop(live);
        fs::remove_file(top.join("another name")).unwrap();
        fs::write(top.join("results/mine"), "x").unwrap();
        fs::write(top.join(" mine"), "x").unwrap();
        assert_eq!(found().counts(true).as_deref(), Some("2 untracked files"));
        fs::write(top.join("a"), "changed").unwrap();
        run(&["mv", "b", "e"]);
        fs::remove_file(top.join("c")).unwrap();
        // A cache made the working tree faster, and was in no count; the results of prony are often ignored too.
        fs::write(top.join(".git/info/exclude"), "cache.bin\n*.db\n").unwrap();
        fs::write(top.join("cache.bin"), "x").unwrap();
        let all = Uncommitted { tracked: 3, untracked: 2, ignored: 1, ..clean };
        let said = "3 tracked files, 2 untracked files";
        assert_eq!((found(), found().counts(false).as_deref()), (all, Some(said)));
        assert_eq!(found().counts(true), Some(format!("{said}, 1 ignored file")));
    }
}
