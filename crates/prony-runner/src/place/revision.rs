//! Copies another revision of the repository that holds a program's directory. That repository is only read.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables that would make git use another repository than the given one.
const STRAYING: [&str; 5] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"];

/// The clone that git made.
#[derive(Debug)]
pub struct CheckedOut {
    /// The top of the user's repository.
    pub top: PathBuf,
    /// The directory that stands for the original, from the top of the clone.
    pub inside: PathBuf,
    /// The commit, for the record.
    pub said: String,
}

/// A revision as the user's repository knows it.
struct Found {
    /// The top of the repository.
    top: String,
    /// The original directory, from there.
    prefix: String,
    commit: String,
}

fn find(original: &Path, of: &str) -> Result<Found, String> {
    if of.starts_with('-') {
        return Err(format!("`{of}` is no revision"));
    }
    let top = git(original, &["rev-parse", "--show-toplevel"])?;
    let prefix = git(original, &["rev-parse", "--show-prefix"])?;
    let commit = git(original, &["rev-parse", "--verify", "--quiet", &format!("{of}^{{commit}}")])
        .map_err(|_| format!("the repository `{top}` has no revision `{of}`"))?;
    Ok(Found { top, prefix, commit })
}

/// Whether the repository of a directory has the revision.
///
/// # Errors
/// A sentence: no repository, no such revision.
pub fn exists(original: &Path, of: &str) -> Result<(), String> {
    find(original, of).map(drop)
}

/// Has git make `copy` of the revision: a clone that borrows the repository's objects.
///
/// # Errors
/// A sentence: no repository, no such revision, no such directory in it.
pub fn check_out(original: &Path, of: &str, copy: &Path) -> Result<CheckedOut, String> {
    let Found { top, prefix, commit } = find(original, of)?;
    let quiet = ["-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"];
    let target = copy.to_string_lossy();
    git(
        original,
        &[&quiet[..], &["clone", "--quiet", "--shared", "--no-checkout", "--origin", "origin", "--", &top, &target]]
            .concat(),
    )?;
    git(copy, &[&quiet[..], &["checkout", "--quiet", "--detach", &commit]].concat())?;
    // Otherwise a build could push to the user's repository.
    git(copy, &["remote", "remove", "origin"])?;
    let there = git(copy, &["rev-parse", "HEAD"])?;
    if there != commit {
        return Err(format!("git checked out {there}, not {commit}"));
    }
    if !copy.join(&prefix).is_dir() {
        return Err(format!("revision `{of}` has no directory `{prefix}`"));
    }
    // Without the lock that refreshing the index would take: that file belongs to the user.
    let status = git(original, &["--no-optional-locks", "status", "--porcelain", "--", "."])?;
    let open = match status.lines().count() {
        0 => String::new(),
        n => format!("; {n} uncommitted changes of the directory are not in it"),
    };
    let said = format!("revision `{of}` is commit {commit}{open}");
    Ok(CheckedOut { top: top.into(), inside: prefix.into(), said })
}

fn git(directory: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args(args).env("GIT_TERMINAL_PROMPT", "0");
    STRAYING.iter().for_each(|name| _ = command.env_remove(name));
    let output = command.output().map_err(|error| format!("cannot run `git`: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(said(&output.stdout)) } else { Err(format!("git says: {}", said(&output.stderr))) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A repository with `site/n` in two revisions, and a third that is not committed.
    fn repository() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        let run = |args: &[&str]| {
            let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
            git(top.path(), &[&who[..], args].concat()).unwrap()
        };
        run(&["init", "--quiet"]);
        fs::create_dir(top.path().join("site")).unwrap();
        for n in ["one", "two"] {
            fs::write(top.path().join("site/n"), n).unwrap();
            run(&["add", "."]);
            run(&["commit", "--quiet", "-m", n]);
            run(&["tag", n]);
        }
        fs::write(top.path().join("site/n"), "three").unwrap();
        top
    }

    #[test]
    fn a_revision_is_there_whole_and_the_users_tree_is_as_it_was() {
        if Command::new("git").arg("--version").output().is_err() {
            assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
            return;
        }
        let top = repository();
        let index = fs::read(top.path().join(".git/index")).unwrap();
        let (site, near) = (top.path().join("site"), tempfile::tempdir().unwrap());
        let CheckedOut { inside, said, .. } = check_out(&site, "one", &near.path().join("copy")).unwrap();
        assert_eq!(fs::read_to_string(near.path().join("copy").join(inside).join("n")).unwrap(), "one");
        assert_eq!(git(&near.path().join("copy"), &["remote"]).unwrap(), "", "a push has nowhere to go");
        assert!(
            said.starts_with("revision `one` is commit ")
                && said.ends_with("1 uncommitted changes of the directory are not in it"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(site.join("n")).unwrap(), "three");
        assert_eq!(fs::read(top.path().join(".git/index")).unwrap(), index);
        let fault = |of: &str| check_out(&site, of, &near.path().join("other")).unwrap_err();
        assert!(fault("nine").contains("has no revision `nine`"), "{}", fault("nine"));
        assert_eq!(fault("--all"), "`--all` is no revision");
        let error = check_out(near.path(), "one", &near.path().join("third")).unwrap_err();
        assert!(error.contains("git says"), "{error}");
    }
}
