//! Applies a variant's changes to its own copy of the program's directory; a change without effect is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prony_analysis::guard::{Finding, copies as guard};
use prony_model::catalog::Lack;
use prony_model::number;
use prony_model::program::{Change, CopyOf, Manager, ProgramSpec};
use xxhash_rust::xxh3::xxh3_64;

use crate::copy::{Progress, close};
use crate::dependency::{Run, install, installed, installer};
use crate::error::Error;
use crate::launch_setting::open_whole;
use crate::paths::FROM_FILE;
use crate::startable::{self, Written};
use crate::{digest, revision};

/// The kernel gives files the time of the last clock tick, which is at most this long ago (100 Hz).
const TICK: Duration = Duration::from_millis(10);

/// Makes the program's changes in its directory `copy`, which is `top`, the whole copy, or inside it. Returns what each
/// did, with the hash of the result, and findings for every trial.
///
/// # Errors
/// [`Error::Step`] where one does not apply as declared, or changes nothing; whatever `progress` ends a copy with.
pub(crate) fn apply(
    program: &ProgramSpec,
    top: &Path,
    copy: &Path,
    run: &Run<'_>,
    progress: &mut Progress<'_>,
) -> Result<(Vec<String>, Vec<Finding>), Error> {
    let failed = |message: String| Error::Step { program: program.name.clone(), step: "change", message };
    let (mut done, mut findings, mut versions) = (Vec::new(), Vec::new(), Vec::new());
    // A fresh clone has nothing that was compiled.
    if revision::of(program).is_none() {
        pass_second(&files(program).iter().map(|file| copy.join(file)).collect::<Vec<_>>());
    }
    for change in &program.changes {
        // A build tool must find what a change writes newer than all that was written before.
        std::thread::sleep(TICK);
        let (step, made) = match change {
            Change::Replace { file, find, with, count } => {
                (format!("a change of `{file}`"), replace(copy, file, find, with, *count))
            }
            Change::Patch { file } => (format!("the patch `{file}`"), patch(copy, file, &mut findings, progress)),
            Change::Dependency { name, version, manager } => {
                (format!("the dependency `{name}`"), install(copy, name, version, *manager, run))
            }
            // The copy was made of it.
            Change::Revision { .. } => continue,
        };
        done.push(made.map_err(failed)?);
        close(top, program, &step, progress)?;
        if let Change::Dependency { name, manager, .. } = change {
            versions.push((name, *manager, installed(copy, name, *manager)));
        }
    }
    // With a package, its installer installs those that it requires, in versions of its own choice.
    for (name, manager, version) in versions {
        let now = installed(copy, name, manager);
        if now != version {
            let [version, now] = [version, now].map(|version| version.unwrap_or_else(|| "no version".to_owned()));
            return Err(failed(format!(
                "a later change replaced `{name}` {version} by {now}; name `{name}` after the package that requires it"
            )));
        }
    }
    Ok((done, findings))
}

/// Waits until the second in which one of these files was last written is over: Python takes its bytecode for that of a file which has the
/// same size and was written in the same second.
fn pass_second(files: &[PathBuf]) {
    let second = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let written = |file: &PathBuf| fs::metadata(file).and_then(|about| about.modified()).ok();
    let seconds: BTreeSet<u64> = files.iter().filter_map(written).map(second).collect();
    while seconds.contains(&second(SystemTime::now())) {
        std::thread::sleep(TICK);
    }
}

/// What the changes made in a copy, as it is at a time.
pub(crate) struct Made {
    /// The content of files that `replace` and `patch` changed, where it is text.
    files: BTreeMap<String, String>,
    /// The version of each `dependency`, by its name.
    versions: BTreeMap<String, String>,
}

impl Made {
    /// By the program's changes, in its copy.
    pub(crate) fn of(program: &ProgramSpec, copy: &Path) -> Self {
        let replaced = program.changes.iter().flat_map(replacements);
        let text = |Replacement { file, .. }| Some((read(&inside(copy, &file).ok()?, &file).ok()?, file));
        let files = replaced.filter_map(text).map(|(text, file)| (file, text)).collect();
        let version = |change: &Change| match change {
            Change::Dependency { name, manager, .. } => Some((name.clone(), installed(copy, name, *manager)?)),
            _ => None,
        };
        Self { files, versions: program.changes.iter().filter_map(version).collect() }
    }

    /// Whether `build` left it: else what is measured is not what the variant says. It may write more into a file that was
    /// changed; that a text of a change is no longer there is a finding.
    ///
    /// # Errors
    /// [`Error::Step`] with the first change that was undone.
    pub(crate) fn outlasts_build(&self, program: &ProgramSpec, copy: &Path) -> Result<Vec<Finding>, Error> {
        let after = Self::of(program, copy);
        let undid = |what: &str, how: String| {
            let message = format!(
                "the build undid the change of `{what}`: {how}; change the source from which `{what}` is generated, or \
                 build without generating `{what}` again"
            );
            Error::Step { program: program.name.clone(), step: "build", message }
        };
        let mut rewritten = BTreeSet::new();
        for change in &program.changes {
            for replacement in replacements(change) {
                match replacement.after_build(&self.files, &after.files) {
                    AfterBuild::Undone(how) => return Err(undid(&replacement.file, how)),
                    AfterBuild::Rewritten => drop(rewritten.insert(replacement.file)),
                    AfterBuild::There => {}
                }
            }
            // What a build needs alone, it may remove at its end.
            if let Change::Dependency { name, .. } = change
                && let (Some(before), Some(after)) = (self.versions.get(name), after.versions.get(name))
                && before != after
            {
                return Err(undid(name, format!("its version was {before} and is now {after}")));
            }
        }
        Ok(rewritten.iter().map(|file| guard::build_rewrote_change(file)).collect())
    }
}

/// A text that a change puts in the place of another.
struct Replacement {
    file: String,
    find: String,
    with: String,
}

/// What a build made of a replacement.
enum AfterBuild {
    There,
    /// Neither text is there as before: it may have been formatted.
    Rewritten,
    Undone(String),
}

impl Replacement {
    /// From the texts of files before and after it. A build may remove the file, or write more into it.
    fn after_build(&self, before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> AfterBuild {
        let Some(after) = after.get(&self.file) else { return AfterBuild::There };
        let texts = [before.get(&self.file).map_or("", String::as_str), after];
        // Of two texts one may hold the other, as where a change only adds or removes.
        let count = |text: &str, part: &str| if part.is_empty() { 0 } else { text.matches(part).count() };
        let outside = |part: &str, other: &str| {
            texts.map(|text| count(text, part).saturating_sub(count(text, other) * count(other, part)))
        };
        let (found, replaced) = (outside(&self.find, &self.with), outside(&self.with, &self.find));
        if found[1] > found[0] && (self.with.is_empty() || replaced[1] < replaced[0]) {
            return AfterBuild::Undone(format!(
                "occurrences of `find` changed from {} to {}, occurrences of `with` from {} to {}",
                found[0], found[1], replaced[0], replaced[1]
            ));
        }
        if replaced[1] < replaced[0] { AfterBuild::Rewritten } else { AfterBuild::There }
    }
}

/// The texts that a change replaces: of a patch, the lines of each hunk, where they say what was there.
fn replacements(change: &Change) -> Vec<Replacement> {
    match change {
        Change::Replace { file, find, with, .. } => {
            vec![Replacement { file: file.clone(), find: find.clone(), with: with.clone() }]
        }
        Change::Patch { file } => fs::read_to_string(file).map_or_else(|_| Vec::new(), |text| hunks(&text)),
        Change::Dependency { .. } | Change::Revision { .. } => Vec::new(),
    }
}

/// The files in which the program's `replace` and `patch` change, from its directory.
fn files(program: &ProgramSpec) -> BTreeSet<String> {
    program.changes.iter().flat_map(replacements).map(|replacement| replacement.file).collect()
}

/// The hunks of a patch in the unified format that have lines of the old file.
fn hunks(patch: &str) -> Vec<Replacement> {
    let (mut hunks, mut file, mut lines) = (Vec::new(), None, patch.lines());
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("+++ ") {
            let name = name.split('\t').next().unwrap_or(name);
            file = Some(name.strip_prefix("b/").filter(|_| strips(patch.as_bytes())).unwrap_or(name).to_owned());
        }
        let (Some(mut left), Some(file)) = (line.strip_prefix("@@ -").and_then(sizes), &file) else { continue };
        let (mut find, mut with) = (Vec::new(), Vec::new());
        while left != [0, 0] {
            let Some(line) = lines.next() else { break };
            let (kind, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
            for (side, of, texts) in [(0, "-", &mut find), (1, "+", &mut with)] {
                if kind == of || kind == " " {
                    texts.push(rest);
                    left[side] = left[side].saturating_sub(1);
                }
            }
        }
        if !find.is_empty() {
            hunks.push(Replacement { file: file.clone(), find: find.join("\n"), with: with.join("\n") });
        }
    }
    hunks
}

/// The numbers of lines in a hunk's head behind `@@ -`, in the old file and in the new one: `3,2 +3 @@` has 2 and 1.
fn sizes(head: &str) -> Option<[u64; 2]> {
    let (old, rest) = head.split_once(" +")?;
    let size = |range: &str| range.split_once(',').map_or(Some(1), |(_, lines)| lines.parse().ok());
    Some([size(old)?, size(rest.split_once(" @@")?.0)?])
}

/// Whether the first part of a patch's paths is that of git. A patch of git's that only adds files, or changes modes, has no
/// old file.
fn strips(patch: &[u8]) -> bool {
    // Of an indented patch too, which `patch` accepts. The first head decides: content may look like one.
    let lines: Vec<&[u8]> = patch.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start).collect();
    let of_head = |lines: &[&[u8]]| match lines {
        [git, _] if git.starts_with(b"diff --git ") => Some(git.starts_with(b"diff --git a/")),
        [old, new] if old.starts_with(b"--- ") && new.starts_with(b"+++ ") => {
            Some(old.starts_with(b"--- a/") || new.starts_with(b"+++ b/"))
        }
        _ => None,
    };
    lines.windows(2).find_map(of_head).unwrap_or(false)
}

/// Reasons why a program's changes certainly cannot be made in a copy of its existing directory. Of files that an
/// earlier change makes or writes, other than by `replace`, nothing is known beforehand.
pub fn lacking(program: &ProgramSpec) -> Vec<Lack> {
    let Some(directory) = program.directory.as_deref().map(Path::new) else { return Vec::new() };
    let (mut lacking, mut texts) = (Vec::new(), Some(BTreeMap::new()));
    for change in &program.changes {
        let (key, fault, hint) = match change {
            Change::Revision { of } => {
                texts = None;
                let (fault, hint) = revision::exists(directory, of).err().unzip();
                ("revision", fault, hint.unwrap_or_default())
            }
            Change::Dependency { manager, .. } => {
                texts = None;
                (
                    "dependency",
                    uninstallable(program, directory, *manager),
                    "prony runs the package manager in the copy of the directory",
                )
            }
            Change::Replace { file, find, with, count } => {
                let made = texts.as_mut().map(|texts| {
                    let path = inside(directory, file)?;
                    let text = texts.remove(&path).map_or_else(|| read(&path, file), Ok)?;
                    texts.insert(path, replaced(&text, file, find, with, *count)?);
                    Ok(())
                });
                (
                    "replace",
                    made.and_then(Result::err),
                    "the text of `find` must occur in the file exactly `count` times (default 1)",
                )
            }
            Change::Patch { file } => {
                texts = None;
                (
                    "patch",
                    open_whole(Path::new(file)).err().map(|error| format!("cannot read `{file}`: {error}")),
                    FROM_FILE,
                )
            }
        };
        lacking.extend(fault.map(|message| Lack { section: "change", key, message, hint: hint.to_owned() }));
    }
    if lacking.is_empty() {
        lacking.extend(executes_original(program, directory));
    }
    lacking
}

/// Files of the user's directory `original` of which the program's copy, made of a commit or of the directory as it is, has a different version: those
/// in which its changes put texts, and those that the commit has with other content.
pub(crate) fn changed(program: &ProgramSpec, original: &Path, commit: Option<&str>) -> Vec<PathBuf> {
    let written = files(program).into_iter().map(|file| original.join(file));
    written.chain(commit.into_iter().flat_map(|commit| revision::differing(original, commit))).collect()
}

/// Why a program would execute a file of the user's directory in place of the one of its copy, which is another.
fn executes_original(program: &ProgramSpec, directory: &Path) -> Option<Lack> {
    let command = program.command.words().into_iter().next()?;
    if program.copy == CopyOf::None || program.changes.is_empty() || !command.starts_with('/') {
        return None;
    }
    let (original, file) = (fs::canonicalize(directory).ok()?, fs::canonicalize(&command).ok()?);
    let commit = revision::of(program).and_then(|of| revision::commit(&original, of).ok());
    if !changed(program, &original, commit.as_deref()).contains(&file) {
        return None;
    }
    let message = format!(
        "the command `{command}` is a file of the user's own directory: the variant's copy has another one, which would not be executed"
    );
    let hint = "write it from `directory`, such as `./NAME`, or as `{dir}/NAME`; if all variants should execute this one file, copy it \
        to a place outside of the repository";
    Some(Lack { section: "program", key: "command", message, hint: hint.to_owned() })
}

/// Why no package manager would work in the copy. Of a revision, the directory may have other files.
fn uninstallable(program: &ProgramSpec, directory: &Path, manager: Option<Manager>) -> Option<String> {
    match installer(directory, manager) {
        Ok(command) => {
            startable::missing(program, command, Written::InFile).map(|(message, hint)| format!("{message}: {hint}"))
        }
        Err(why) => revision::of(program).is_none().then_some(why),
    }
}

/// A path of the copy, which it may not leave.
fn inside(copy: &Path, file: &str) -> Result<PathBuf, String> {
    let path = Path::new(file);
    if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("`{file}` is not inside the copy"));
    }
    Ok(copy.join(path))
}

/// The content of a file as text.
fn read(path: &Path, file: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read `{file}`: {error}"))
}

fn replace(copy: &Path, file: &str, find: &str, with: &str, count: u64) -> Result<String, String> {
    let path = inside(copy, file)?;
    let changed = replaced(&read(&path, file)?, file, find, with, count)?;
    write(&path, &changed).map_err(|error| format!("cannot write `{file}`: {error}"))?;
    let times = number::count(count, "time");
    Ok(format!("`{file}`: replaced {times}, hash is now {:016x}", xxh3_64(changed.as_bytes())))
}

/// The text of `file` with the change.
fn replaced(text: &str, file: &str, find: &str, with: &str, count: u64) -> Result<String, String> {
    let found = if find.is_empty() { 0 } else { text.matches(find).count() as u64 };
    if found != count {
        let times = number::count(found, "time");
        return Err(format!("`{file}` contains the text of `find` {times}, not {count}"));
    }
    let changed = text.replace(find, with);
    if changed == text {
        return Err(format!("the replacement leaves `{file}` unchanged"));
    }
    Ok(changed)
}

/// Replaces the file, since it may not be writable; a link is followed to its file.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let path = fs::canonicalize(path)?;
    let mode = fs::metadata(&path)?.permissions();
    fs::remove_file(&path)?;
    fs::write(&path, text)?;
    fs::set_permissions(&path, mode)
}

/// `patch` from the system reads what diff and git write. Where the lines of a hunk are not what it names, it takes the
/// nearest that are, and says so.
fn patch(copy: &Path, file: &str, findings: &mut Vec<Finding>, progress: &mut Progress<'_>) -> Result<String, String> {
    let path = fs::canonicalize(file).map_err(|error| format!("cannot find `{file}`: {error}"))?;
    let text = fs::read(&path).map_err(|error| format!("cannot read `{file}`: {error}"))?;
    let mut digest = || digest::of_tree(copy, progress).map_err(|error| error.text().trim().to_owned());
    let before = digest()?;
    let strip = if strips(&text) { "-p1" } else { "-p0" };
    let output = std::process::Command::new("patch")
        // Else it leaves the old text of a file in whose lines it found an offset, and a program may read that file too.
        .args([strip, "--batch", "--forward", "--fuzz=0", "--no-backup-if-mismatch", "-i"])
        .arg(&path)
        .current_dir(copy)
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| format!("cannot run `patch`: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() {
        return Err(format!("`{file}` does not apply: {said}"));
    }
    let after = digest()?;
    if after == before {
        return Err(format!("`{file}` leaves the copy unchanged"));
    }
    let moved = said.lines().filter(|line| line.starts_with("Hunk #") && line.contains(" succeeded at "));
    let moved = moved.map(|line| line.trim_end_matches('.')).collect::<Vec<_>>().join(", ");
    let applied = format!("`{file}` applied, hash of the copy is now {after:016x}");
    if moved.is_empty() {
        return Ok(applied);
    }
    findings.push(guard::patch_moved(&moved));
    Ok(format!("{applied}: {moved}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::tests::program;

    fn site() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("a.js"), "one two one\n").unwrap();
        top
    }

    fn patch(copy: &Path, file: &str, findings: &mut Vec<Finding>) -> Result<String, String> {
        super::patch(copy, file, findings, &mut |_, _| Ok(()))
    }

    #[test]
    fn a_text_is_replaced_exactly_as_often_as_declared() {
        let site = site();
        let done = replace(site.path(), "a.js", "one", "three", 2).unwrap();
        assert!(done.starts_with("`a.js`: replaced 2 times, hash is now "), "{done}");
        assert_eq!(fs::read_to_string(site.path().join("a.js")).unwrap(), "three two three\n");
        for (file, find, with, count, said) in [
            ("a.js", "two", "2", 2, "`a.js` contains the text of `find` 1 time, not 2"),
            ("a.js", "", "2", 1, "`a.js` contains the text of `find` 0 times, not 1"),
            ("a.js", "two", "two", 1, "the replacement leaves `a.js` unchanged"),
            ("../a.js", "two", "2", 1, "`../a.js` is not inside the copy"),
            ("/etc/passwd", "root", "2", 1, "`/etc/passwd` is not inside the copy"),
        ] {
            assert_eq!(replace(site.path(), file, find, with, count).unwrap_err(), said);
        }
        assert!(replace(site.path(), "b.js", "x", "y", 1).unwrap_err().starts_with("cannot read `b.js`"));
    }

    /// A build tool takes a file that is as old as an artefact for older.
    #[test]
    fn what_a_change_writes_is_newer_than_all_that_was_written_before() {
        let site = site();
        let changes: Vec<String> = (0..5)
            .map(|n| {
                fs::write(site.path().join(format!("{n}.js")), "one").unwrap();
                format!("{{ replace = {{ file = \"{n}.js\", find = \"one\", with = \"two\" }} }}")
            })
            .collect();
        let text = format!("[program.x]\ncommand = \"true\"\ndirectory = \".\"\nchange = [{}]\n", changes.join(", "));
        let program = program(&text);
        let run = |_: &[String]| Err("nothing is run".to_owned());
        assert_eq!(apply(&program, site.path(), site.path(), &run, &mut |_, _| Ok(())).unwrap().0.len(), 5);
        let at = |name: &str| fs::metadata(site.path().join(name)).unwrap().modified().unwrap();
        for (before, after) in
            [("a.js", "0.js"), ("0.js", "1.js"), ("1.js", "2.js"), ("2.js", "3.js"), ("3.js", "4.js")]
        {
            assert!(at(before) < at(after), "{before} {after}");
        }
    }

    /// Python ran the bytecode of the text before, which has the same size: 60 ms in place of 640.
    #[test]
    fn what_a_change_writes_is_of_a_later_second_than_what_was_there() {
        let site = site();
        let file = site.path().join("a.js");
        let head = "[program.x]\ncommand = \"true\"\ndirectory = \".\"\n";
        let change = "change = { replace = { file = \"a.js\", find = \"two\", with = \"six\" } }\n";
        let program = program(&format!("{head}{change}"));
        let second = || {
            let about = fs::metadata(&file).unwrap();
            std::os::unix::fs::MetadataExt::mtime(&about)
        };
        let before = second();
        apply(&program, site.path(), site.path(), &|_| Ok(String::new()), &mut |_, _| Ok(())).unwrap();
        assert!(second() > before);
    }

    /// pip installs what a package requires over what an earlier change installed: the record had the earlier version.
    #[test]
    fn package_that_a_later_one_replaces_is_an_error() {
        let site = site();
        fs::write(site.path().join("requirements.txt"), "").unwrap();
        let packages = site.path().join(crate::dependency::PACKAGES);
        let run = |words: &[String]| {
            let Some((name, version)) = words.last().unwrap().split_once("==") else { return Err("none".to_owned()) };
            fs::create_dir_all(packages.join(format!("{name}-{version}.dist-info"))).unwrap();
            if name == "b" && packages.join("a-1.0.dist-info").exists() {
                fs::rename(packages.join("a-1.0.dist-info"), packages.join("a-2.0.dist-info")).unwrap();
            }
            Ok(String::new())
        };
        let of = |names: &str| {
            let _ = fs::remove_dir_all(&packages);
            let head = "[program.x]\ncommand = \"true\"\ndirectory = \".\"\n";
            let program = program(&format!("{head}change = [{{ dependency = [{names}] }}]\n"));
            apply(&program, site.path(), site.path(), &run, &mut |_, _| Ok(())).map(|(done, _)| done.len())
        };
        let why = of("\"a@1.0\", \"b@1.0\"").unwrap_err().text();
        assert!(why.contains("a later change replaced `a` 1.0 by 2.0; name `a` after the package"), "{why}");
        assert_eq!(of("\"b@1.0\", \"a@1.0\"").unwrap(), 2);
    }

    #[test]
    fn a_patch_applies_once() {
        if std::process::Command::new("patch").arg("--version").output().is_err() {
            return;
        }
        let site = site();
        let file = site.path().parent().unwrap().join(format!("{}.patch", std::process::id()));
        fs::write(&file, "--- a/a.js\n+++ b/a.js\n@@ -1 +1 @@\n-one two one\n+one three one\n").unwrap();
        let name = file.to_str().unwrap();
        assert!(patch(site.path(), name, &mut Vec::new()).unwrap().contains("applied, hash of the copy is now "));
        assert_eq!(fs::read_to_string(site.path().join("a.js")).unwrap(), "one three one\n");
        assert!(patch(site.path(), name, &mut Vec::new()).unwrap_err().contains("does not apply"), "a second time");
        // Without git's prefixes, and indented as a whole; both with lines whose text looks like a head.
        let plain = "--- a.js\n+++ a.js\n@@ -1 +1,3 @@\n-one three one\n+paths of `diff --git a/a.js` begin so: --- a/\n+-- a/b\n+++ b/c\n";
        let indented = "  --- a/a.js\n  +++ b/a.js\n  @@ -1,3 +1,2 @@\n   paths of `diff --git a/a.js` begin so: --- a/\n  --- a/b\n   ++ b/c\n";
        for text in [plain, indented] {
            fs::write(&file, text).unwrap();
            let made = patch(site.path(), name, &mut Vec::new());
            assert!(
                made.as_ref().is_ok_and(|made| made.contains("applied, hash of the copy is now ")),
                "{made:?} {text}"
            );
        }
        // Neither a link nor a mode is in the content of any file.
        let link = "diff --git a/lib b/lib\nnew file mode 120000\n--- /dev/null\n+++ b/lib\n@@ -0,0 +1 @@\n+a.js\n\\ No newline at end of file\n";
        let mode = "diff --git a/a.js b/a.js\nold mode 100644\nnew mode 100755\n";
        for text in [link, mode] {
            fs::write(&file, text).unwrap();
            assert!(
                patch(site.path(), name, &mut Vec::new()).unwrap().contains("applied, hash of the copy is now "),
                "{text}"
            );
        }
        assert_eq!(fs::read_link(site.path().join("lib")).unwrap(), Path::new("a.js"));
        assert_eq!(fs::metadata(site.path().join("a.js")).unwrap().permissions().mode() & 0o777, 0o755);
        fs::remove_file(&file).unwrap();
    }

    /// Builds that restored the lines of a patch, or a text to which a change only adds, were accepted.
    #[test]
    fn text_of_a_change_after_a_build_is_there_rewritten_or_undone() {
        let patch = "--- a/a.js\t2020-01-01\n+++ b/a.js\t2020-01-01\n@@ -1,3 +1,2 @@\n one\n-two\n three\n@@ -7 +6,2 @@\n--- b/x\n+++ b/y\n+z\n";
        let hunk = |at: usize| {
            let Replacement { file, find, with } = hunks(patch).remove(at);
            (file, find, with)
        };
        let texts = |file: &str, find: &str, with: &str| (file.to_owned(), find.to_owned(), with.to_owned());
        assert_eq!(hunk(0), texts("a.js", "one\ntwo\nthree", "one\nthree"));
        assert_eq!((hunk(1), hunks(patch).len()), (texts("a.js", "-- b/x", "++ b/y\nz"), 2));
        let after = |find: &str, with: &str, before: &str, after: Option<&str>| {
            let replacement = Replacement { file: "a".to_owned(), find: find.to_owned(), with: with.to_owned() };
            let file = |text: &str| BTreeMap::from([("a".to_owned(), text.to_owned())]);
            match replacement.after_build(&file(before), &after.map(file).unwrap_or_default()) {
                AfterBuild::There => "there",
                AfterBuild::Rewritten => "rewritten",
                AfterBuild::Undone(_) => "undone",
            }
        };
        assert_eq!(after("one", "two", "two", Some("one")), "undone");
        assert_eq!(after("one", "two", "two", Some("// two\ntwo\n")), "there");
        assert_eq!(after("one", "two", "two", Some("three")), "rewritten");
        assert_eq!(after("one", "two", "two", None), "there");
        assert_eq!(after("one", "one two", "one two", Some("one")), "undone");
        assert_eq!(after("one", "one two", "one two", Some("one two one")), "there");
        assert_eq!(after("one two", "two", "two", Some("one two")), "undone");
        assert_eq!(after("one", "", "", Some("one")), "undone");
    }

    #[test]
    fn patch_at_other_lines_than_it_names_is_a_finding() {
        if std::process::Command::new("patch").arg("--version").output().is_err() {
            return;
        }
        let body = |first: &str| format!("{first}one\ntwo\n{}one\ntwo\n", "#\n".repeat(20));
        let site = tempfile::tempdir().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "--- a/a.js\n+++ b/a.js\n@@ -3,2 +3,2 @@\n-one\n+three\n two\n").unwrap();
        let name = file.path().to_str().unwrap();
        for (first, moved) in [("#\n#\n", None), ("#\n#\n#\n", Some("Hunk #1 succeeded at 4 (offset 1 line)"))] {
            fs::write(site.path().join("a.js"), body(first)).unwrap();
            let mut findings = Vec::new();
            let said = patch(site.path(), name, &mut findings).unwrap();
            let found: Vec<_> = findings.iter().map(|finding| finding.guard.as_str()).collect();
            assert_eq!(found, if moved.is_some() { vec!["patch_moved"] } else { Vec::new() });
            assert_eq!(said.split_once(": ").map(|(_, moved)| moved), moved, "{said}");
            assert!(findings.iter().all(|finding| finding.message.ends_with(moved.unwrap())), "{findings:?}");
            assert_eq!(fs::read_dir(site.path()).unwrap().count(), 1, "a copy of the old text is left");
        }
    }
}
