//! Copies another revision of the repository that holds a program's directory. That repository is only read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use prony_model::program::{Change, ProgramSpec};

/// Variables that would make git use another repository than the given one.
const STRAYING: [&str; 5] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"];

/// Begin of an error that git itself reports.
const GIT_REPORTS: &str = "git reports: ";

/// The revision of which a program has a copy; `None` where it has another copy, or none.
pub(crate) fn of(program: &ProgramSpec) -> Option<&str> {
    if let Some(Change::Revision { of }) = program.changes.first() { Some(of) } else { None }
}

/// The clone that git made.
#[derive(Debug)]
pub(crate) struct CheckedOut {
    /// The top of the user's repository.
    pub(crate) top: PathBuf,
    /// The directory that stands for the original, from the top of the clone.
    pub(crate) inside: PathBuf,
    /// The commit, for the record.
    pub(crate) said: String,
    /// The commit itself.
    pub(crate) commit: String,
    /// Directories of submodules that the user's tree has, from the top of the clone, where they are empty.
    pub(crate) submodules: Vec<PathBuf>,
}

/// A revision as the user's repository knows it.
struct Found {
    /// The top of the repository.
    top: String,
    /// The original directory, from there.
    prefix: String,
    commit: String,
}

/// With the error comes what to do about it.
fn find(original: &Path, of: &str) -> Result<Found, (String, &'static str)> {
    let hinted = |message| (message, "name a commit, branch or tag of the repository");
    if of.starts_with('-') {
        return Err(hinted(format!("`{of}` is not a valid revision")));
    }
    let top = git(original, &["rev-parse", "--show-toplevel"]).map_err(|said| {
        let hint = "`directory` starts at the folder of the experiment file: write the path from there to a folder of the \
                    repository, or put the file into the repository";
        // What git says of it is in the user's language.
        if said.starts_with(GIT_REPORTS) && is_outside(original) {
            return (format!("`{}` is in no git repository, so that there is no revision `{of}`", original.display()), hint);
        }
        (said, hint)
    })?;
    let prefix = git(original, &["rev-parse", "--show-prefix"]).map_err(hinted)?;
    let commit = git(original, &["rev-parse", "--verify", "--quiet", &format!("{of}^{{commit}}")])
        .map_err(|_| hinted(format!("the repository `{top}` has no revision `{of}`")))?;
    unambiguous(original, of).map_err(hinted)?;
    Ok(Found { top, prefix, commit })
}

/// Whether neither a directory nor one above it is a repository.
fn is_outside(directory: &Path) -> bool {
    let whole = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    !whole.ancestors().any(|above| above.join(".git").exists())
}

/// Where a tag and a branch have one name, git takes the tag, and says so where nobody reads it.
fn unambiguous(original: &Path, of: &str) -> Result<(), String> {
    let found = ["refs/heads", "refs/tags", "refs/remotes"].into_iter().filter_map(|kind| {
        let name = format!("{kind}/{of}");
        let commit = git(original, &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]).ok()?;
        Some((name, commit))
    });
    let found: Vec<_> = found.collect();
    if found.iter().all(|(_, commit)| *commit == found[0].1) {
        return Ok(());
    }
    let each: Vec<_> = found.iter().map(|(name, commit)| format!("`{name}` (commit {commit})")).collect();
    Err(format!("`{of}` is ambiguous: write {}", each.join(" or ")))
}

/// Whether the repository of a directory has the revision, and the revision the directory.
///
/// # Errors
/// A sentence, and what to do: no repository, no such revision, no such directory in it.
pub(crate) fn exists(original: &Path, of: &str) -> Result<(), (String, &'static str)> {
    let Found { top, prefix, commit } = find(original, of)?;
    if let Some(link) = diverted(original, Path::new(&top), &commit) {
        let hint = "name the folder to which it leads, which each revision must have: the link of the working tree would decide for all \
                    revisions";
        let said = format!(
            "`directory` leads through the symbolic link `{}`, in place of which revision `{of}` has something else",
            link.display()
        );
        return Err((said, hint));
    }
    // Whether it is a directory, and no file, the checkout says.
    git(original, &["cat-file", "-e", &format!("{commit}:{}", prefix.trim_end_matches('/'))]).map(drop).map_err(|_| {
        let hint = "`directory` starts at the folder of the experiment file: write the path from there to a folder that each \
                    revision has, such as `..`";
        (no_directory(of, &prefix), hint)
    })
}

/// A symbolic link of the repository through which a directory leads, as it is written, and in place of which the commit has something
/// else. What the commit has nothing of is the user's own.
fn diverted(original: &Path, top: &Path, commit: &str) -> Option<PathBuf> {
    let whole = std::path::absolute(original).ok()?;
    let is_other = |link: &Path| {
        let place = fs::canonicalize(link.parent()?).ok()?.join(link.file_name()?);
        let inside = place.strip_prefix(top).ok()?.to_str()?;
        let entry = git(original, &["ls-tree", "-z", "--full-tree", commit, "--", inside]).ok()?;
        let target = || git(original, &["cat-file", "blob", &format!("{commit}:{inside}")]).ok().map(PathBuf::from);
        let is_same = entry.starts_with("120000 ") && target() == fs::read_link(link).ok();
        (!entry.is_empty() && !is_same).then(|| PathBuf::from(inside))
    };
    whole.ancestors().filter(|path| path.is_symlink()).find_map(is_other)
}

fn no_directory(of: &str, prefix: &str) -> String {
    format!("revision `{of}` has no directory `{prefix}`")
}

/// The commit that a revision is now.
///
/// # Errors
/// A sentence: no repository, no such revision.
pub(crate) fn commit(original: &Path, of: &str) -> Result<String, String> {
    find(original, of).map(|found| found.commit).map_err(|(message, _)| message)
}

/// The files of the repository of a directory that a commit has with other content than the working tree, or that this lacks. What only
/// the working tree has is not among them.
pub(crate) fn differing(directory: &Path, commit: &str) -> Vec<PathBuf> {
    // Without the lock that refreshing the index would take, and whatever the user's configuration says.
    let options =
        ["--no-optional-locks", "diff", "--name-only", "-z", "--no-relative", "--no-ext-diff", "--no-renames"];
    let output = git(directory, &[&options[..], &["--diff-filter=a", commit, "--"]].concat()).unwrap_or_default();
    let top = git(directory, &["rev-parse", "--show-toplevel"]).unwrap_or_default();
    output.split('\0').filter(|name| !name.is_empty()).map(|name| Path::new(&top).join(name)).collect()
}

/// Has git make `copy` of the commit that the revision was when the run began: a clone that borrows the repository's objects.
///
/// # Errors
/// A sentence: no repository, no such commit, no such directory in it.
pub(crate) fn check_out(original: &Path, of: &str, commit: &str, copy: &Path) -> Result<CheckedOut, String> {
    let Found { top, prefix, commit } = find(original, commit).map_err(|(message, _)| message)?;
    let quiet = ["-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"];
    let target = copy.to_string_lossy();
    let conversions = conversions(original);
    let conversions: Vec<&str> = conversions.iter().map(String::as_str).collect();
    let clone = ["clone", "--quiet", "--shared", "--no-checkout", "--origin", "origin"];
    git(original, &[&quiet[..], &clone, &conversions, &["--", &top, &target]].concat())?;
    borrow(copy, &commit)?;
    attributes(original, copy)?;
    git(copy, &[&quiet[..], &["checkout", "--quiet", "--detach", &commit]].concat())?;
    // Otherwise a build could push to the user's repository.
    git(copy, &["remote", "remove", "origin"])?;
    let there = git(copy, &["rev-parse", "HEAD"])?;
    if there != commit {
        return Err(format!("git checked out {there}, not {commit}"));
    }
    if !copy.join(&prefix).is_dir() {
        return Err(no_directory(of, &prefix));
    }
    let said = format!("revision `{of}` is commit {commit}");
    let submodules = submodules(original, Path::new(&top), &commit)?;
    Ok(CheckedOut { top: top.into(), inside: prefix.into(), said, commit, submodules })
}

/// Gets the commit where the clone lacks it. A clone of a shallow repository borrows nothing: it has the commits of branches
/// and tags only, and in continuous integration the commit of the base is often on neither.
fn borrow(copy: &Path, commit: &str) -> Result<(), String> {
    if git(copy, &["cat-file", "-e", &format!("{commit}^{{commit}}")]).is_ok() {
        return Ok(());
    }
    let any = "--upload-pack=git -c uploadpack.allowAnySHA1InWant=true upload-pack";
    git(copy, &["fetch", "--quiet", "--no-tags", "--update-shallow", any, "origin", commit]).map(drop)
}

/// Options by which a clone converts files at a checkout as the user's repository does: filters and ends of lines may be in
/// the configuration of that alone.
fn conversions(original: &Path) -> Vec<String> {
    let keys = r"^(filter\..*|core\.(autocrlf|eol|attributesfile))$";
    // It fails where there are none.
    let found = git(original, &["config", "-z", "--get-regexp", keys]).unwrap_or_default();
    let entries = found.split('\0').filter_map(|entry| entry.split_once('\n'));
    entries.map(|(key, value)| format!("--config={key}={value}")).collect()
}

/// Gives a clone the attributes that are in no commit of the user's repository, which name the files that are converted.
fn attributes(original: &Path, copy: &Path) -> Result<(), String> {
    // That of the main repository, where the directory is in a linked working tree.
    let theirs = original.join(git(original, &["rev-parse", "--git-path", "info/attributes"])?);
    let info = copy.join(".git/info");
    if !theirs.is_file() {
        return Ok(());
    }
    let copied = fs::create_dir_all(&info).and_then(|()| fs::copy(&theirs, info.join("attributes")));
    copied.map(drop).map_err(|error| format!("cannot copy `{}`: {error}", theirs.display()))
}

/// The commit of a copy, which its build may write into what it makes, and what its index says of its submodules: their paths,
/// and the commits that `git submodule update` checks out. Empty where it is no repository.
pub(crate) fn commits(copy: &Path) -> String {
    // Otherwise git would find a repository around the copy.
    if !copy.join(".git").exists() {
        return String::new();
    }
    let head = git(copy, &["rev-parse", "--verify", "--quiet", "HEAD"]).unwrap_or_default();
    let listed = git(copy, &["ls-files", "--stage", "-z"]).unwrap_or_default();
    listed.split_inclusive('\0').filter(|entry| entry.starts_with("160000 ")).fold(head, |all, entry| all + entry)
}

/// Submodules of a commit that the user's tree has.
fn submodules(original: &Path, top: &Path, commit: &str) -> Result<Vec<PathBuf>, String> {
    let listed = git(original, &["ls-tree", "-r", "-z", "--full-tree", commit])?;
    let of_modules = listed.split('\0').filter_map(|entry| entry.strip_prefix("160000 ")?.split_once('\t'));
    let paths = of_modules.map(|(_, path)| PathBuf::from(path));
    Ok(paths.filter(|path| !is_empty(&top.join(path))).collect())
}

/// Whether nothing is in a directory, or it is not there.
pub(crate) fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none())
}

/// What git prints in a directory, without space around it.
pub(crate) fn git(directory: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args(args).env("GIT_TERMINAL_PROMPT", "0");
    STRAYING.iter().for_each(|name| _ = command.env_remove(name));
    let output = command.output().map_err(|error| format!("cannot run `git`: {error}"))?;
    if output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        // Names of directories may begin and end with blanks.
        Ok(said.strip_suffix('\n').unwrap_or(&said).to_owned())
    } else {
        Err(format!("{GIT_REPORTS}{}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_out(original: &Path, of: &str, copy: &Path) -> Result<CheckedOut, String> {
        super::check_out(original, of, &commit(original, of)?, copy)
    }

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
    fn a_name_of_a_tag_and_of_a_branch_is_refused_where_they_are_different_commits() {
        if Command::new("git").arg("--version").output().is_err() {
            assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
            return;
        }
        let top = repository();
        let commits = ["one", "two"].map(|of| git(top.path(), &["rev-parse", of]).unwrap());
        let refs = [("heads/two", 0), ("heads/one", 0), ("heads/away/three", 0), ("remotes/away/three", 1)];
        for (name, n) in refs {
            git(top.path(), &["update-ref", &format!("refs/{name}"), &commits[n]]).unwrap();
        }
        for (name, other) in [("two", "refs/tags/two"), ("away/three", "refs/remotes/away/three")] {
            let said = format!(
                "`{name}` is ambiguous: write `refs/heads/{name}` (commit {}) or `{other}` (commit {})",
                commits[0], commits[1]
            );
            assert_eq!(exists(top.path(), name).unwrap_err().0, said);
        }
        assert!(exists(top.path(), "two~0").unwrap_err().0.contains("`refs/tags/two~0`"));
        for of in ["one", "refs/heads/two", "refs/tags/two", "heads/two", "HEAD", &commits[0]] {
            exists(top.path(), of).unwrap();
        }
        let later = top.path().join("site/later");
        fs::create_dir(&later).unwrap();
        let (message, hint) = exists(&later, "two~0").unwrap_err();
        assert!(message.contains("ambiguous") && hint.contains("name a commit"), "{message}");
        let (message, hint) = exists(&later, "HEAD").unwrap_err();
        assert_eq!(message, "revision `HEAD` has no directory `site/later/`");
        assert!(hint.contains("`directory` starts at the folder of the experiment file"), "{hint}");
    }

    /// The working tree's link decided for both: a variant that was 15 times slower made no difference.
    #[test]
    fn directory_behind_a_link_that_differs_between_revisions_is_refused() {
        if Command::new("git").arg("--version").output().is_err() {
            assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
            return;
        }
        let top = repository();
        let run = |args: &[&str]| {
            let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
            git(top.path(), &[&who[..], args].concat()).unwrap()
        };
        fs::create_dir_all(top.path().join("releases/v2")).unwrap();
        fs::write(top.path().join("releases/v2/n"), "v2").unwrap();
        let link = top.path().join("current");
        for target in ["site", "releases/v2"] {
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(target, &link).unwrap();
            run(&["add", "."]);
            run(&["commit", "--quiet", "-m", target]);
        }
        exists(&link, "HEAD").unwrap();
        let (said, hint) = exists(&link, "HEAD~1").unwrap_err();
        assert!(
            said.contains("symbolic link `current`, in place of which revision `HEAD~1` has something else"),
            "{said}"
        );
        assert!(hint.starts_with("name the folder"), "{hint}");
        exists(&top.path().join("site"), "HEAD~1").unwrap();
        // Links of the user's own, in the repository and outside of it.
        let outside = tempfile::tempdir().unwrap();
        for own in [top.path().join("mine"), outside.path().join("mine")] {
            std::os::unix::fs::symlink(top.path().join("site"), &own).unwrap();
            exists(&own, "HEAD~1").unwrap();
        }
    }

    /// Of `site` and ` site` the first was measured for both.
    #[test]
    fn names_with_blanks_are_those_of_their_directories() {
        if Command::new("git").arg("--version").output().is_err() {
            assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
            return;
        }
        let (top, near) = (repository(), tempfile::tempdir().unwrap());
        fs::create_dir(top.path().join(" site")).unwrap();
        fs::write(top.path().join(" site/n"), "blank").unwrap();
        let run = |args: &[&str]| {
            let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
            git(top.path(), &[&who[..], args].concat()).unwrap()
        };
        run(&["add", "."]);
        run(&["commit", "--quiet", "-m", "blank"]);
        let copy = near.path().join("copy");
        let out = check_out(&top.path().join(" site"), "HEAD", &copy).unwrap();
        assert_eq!(fs::read_to_string(copy.join(&out.inside).join("n")).unwrap(), "blank");
        let before = commits(&copy);
        run(&["commit", "--quiet", "--allow-empty", "-m", "empty"]);
        let copy = near.path().join("again");
        check_out(&top.path().join(" site"), "HEAD", &copy).unwrap();
        assert_ne!(commits(&copy), before, "a build may write the commit into what it makes");
    }

    #[test]
    fn commits_of_a_shallow_repository_that_no_branch_has_are_checked_out() {
        if Command::new("git").arg("--version").output().is_err() {
            assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
            return;
        }
        let (top, near) = (repository(), tempfile::tempdir().unwrap());
        let (shallow, copy) = (near.path().join("shallow"), near.path().join("copy"));
        let url = format!("file://{}", top.path().display());
        git(near.path(), &["clone", "--quiet", "--no-tags", "--depth=1", &url, "shallow"]).unwrap();
        git(top.path(), &["config", "uploadpack.allowAnySHA1InWant", "true"]).unwrap();
        let one = git(top.path(), &["rev-parse", "one"]).unwrap();
        git(&shallow, &["fetch", "--quiet", "--no-tags", "--depth=1", "origin", &one]).unwrap();
        let out = check_out(&shallow.join("site"), &one, &copy).unwrap();
        assert_eq!(fs::read_to_string(copy.join(&out.inside).join("n")).unwrap(), "one");
    }

    #[test]
    fn filters_of_the_users_repository_convert_the_files_of_a_revision() {
        if Command::new("git").arg("--version").output().is_err() {
            assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
            return;
        }
        let (top, near) = (repository(), tempfile::tempdir().unwrap());
        let run = |args: &[&str]| {
            let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
            git(top.path(), &[&who[..], args].concat()).unwrap()
        };
        run(&["config", "filter.x.clean", "sed s/slow=1/fast=1/"]);
        run(&["config", "filter.x.smudge", "sed s/fast=1/slow=1/"]);
        run(&["config", "core.eol", "crlf"]);
        fs::write(top.path().join(".gitattributes"), "*.txt text\n").unwrap();
        // In no commit, and not taken over by a clone.
        fs::write(top.path().join(".git/info/attributes"), "*.sh filter=x\n").unwrap();
        fs::write(top.path().join("site/a.sh"), "slow=1").unwrap();
        fs::write(top.path().join("site/a.txt"), "line\n").unwrap();
        run(&["add", "."]);
        run(&["commit", "--quiet", "-m", "filtered"]);
        let copy = near.path().join("copy");
        check_out(top.path(), "HEAD", &copy).unwrap();
        assert_eq!(fs::read_to_string(copy.join("site/a.sh")).unwrap(), "slow=1");
        assert_eq!(fs::read_to_string(copy.join("site/a.txt")).unwrap(), "line\r\n");
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
        assert!(said.starts_with("revision `one` is commit "), "{said}");
        assert_eq!(fs::read_to_string(site.join("n")).unwrap(), "three");
        assert_eq!(fs::read(top.path().join(".git/index")).unwrap(), index);
        let fault = |of: &str| check_out(&site, of, &near.path().join("other")).unwrap_err();
        assert!(fault("nine").contains("has no revision `nine`"), "{}", fault("nine"));
        assert_eq!(fault("--all"), "`--all` is not a valid revision");
        let error = check_out(near.path(), "one", &near.path().join("third")).unwrap_err();
        assert!(error.ends_with("is in no git repository, so that there is no revision `one`"), "{error}");
        assert!(exists(near.path(), "one").unwrap_err().1.contains("put the file into the repository"));
    }
}
