//! Edits of a variant's own copy of the program's directory; one that changes nothing is an error.

use std::fs;
use std::path::{Component, Path, PathBuf};

use prony_model::program::{Change, ProgramSpec};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::place::copy::outward_link;
use crate::place::dependency::{Run, install};

/// Makes the program's changes in its directory `copy`, which is `top`, the whole copy, or inside it; what each did, with the
/// hash of what came out.
///
/// # Errors
/// [`Error::Step`] where one does not apply as declared, or changes nothing.
pub fn apply(program: &ProgramSpec, top: &Path, copy: &Path, run: &Run<'_>) -> Result<Vec<String>, Error> {
    let failed = |message: String| Error::Step { program: program.name.clone(), step: "change", message };
    let one = |change: &Change| match change {
        Change::Replace { file, find, with, count } => replace(copy, file, find, with, *count),
        Change::Patch { file } => patch(copy, file),
        Change::Dependency { name, version, manager } => install(copy, name, version, *manager, run),
        // The copy was made of it.
        Change::Revision { .. } => Ok(String::new()),
    };
    // Each writes into the copy, and those before it may have linked something of the user's into it.
    let safe = |change: &Change| match outward_link(top)? {
        Some(link) => Err(failed(format!("`{}` leads out of the copy", link.display()))),
        None => one(change).map_err(failed),
    };
    let made = |change: &&Change| !matches!(change, Change::Revision { .. });
    program.changes.iter().filter(made).map(safe).collect()
}

/// A path of the copy, which it may not leave.
fn inside(copy: &Path, file: &str) -> Result<PathBuf, String> {
    let path = Path::new(file);
    if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("`{file}` is not inside the copy"));
    }
    Ok(copy.join(path))
}

fn replace(copy: &Path, file: &str, find: &str, with: &str, count: u64) -> Result<String, String> {
    let path = inside(copy, file)?;
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read `{file}`: {error}"))?;
    let found = if find.is_empty() { 0 } else { text.matches(find).count() as u64 };
    if found != count {
        return Err(format!("`{file}` contains the text of `find` {found} times, not {count}"));
    }
    let changed = text.replace(find, with);
    if changed == text {
        return Err(format!("`{file}` is the same afterwards"));
    }
    write(&path, &changed).map_err(|error| format!("cannot write `{file}`: {error}"))?;
    Ok(format!("`{file}` changed {count} times, now {:016x}", xxh3_64(changed.as_bytes())))
}

/// Written anew, since it may not be writable; where it is a link, the file that it leads to.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let path = fs::canonicalize(path)?;
    let mode = fs::metadata(&path)?.permissions();
    fs::remove_file(&path)?;
    fs::write(&path, text)?;
    fs::set_permissions(&path, mode)
}

/// `patch` from the system reads what diff and git write.
fn patch(copy: &Path, file: &str) -> Result<String, String> {
    let path = fs::canonicalize(file).map_err(|error| format!("cannot find `{file}`: {error}"))?;
    let text = fs::read(&path).map_err(|error| format!("cannot read `{file}`: {error}"))?;
    let before = contents(copy);
    let strip = if text.windows(6).any(|part| part == b"--- a/") { "-p1" } else { "-p0" };
    let output = std::process::Command::new("patch")
        .args([strip, "--batch", "--forward", "--fuzz=0", "-i"])
        .arg(&path)
        .current_dir(copy)
        .output()
        .map_err(|error| format!("cannot run `patch`: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        return Err(format!("`{file}` does not apply: {said}"));
    }
    let after = contents(copy);
    if after == before {
        return Err(format!("`{file}` changes nothing"));
    }
    Ok(format!("`{file}` applied, the copy is now {after:016x}"))
}

/// A hash over every path, size and time of change below: what a patch writes gets a new time.
fn contents(copy: &Path) -> u64 {
    let mut all = Vec::new();
    let mut open = vec![copy.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                open.push(entry.path());
            } else if about.is_file() {
                let size = about.len();
                let bytes = if size <= 1 << 20 { fs::read(entry.path()).unwrap_or_default() } else { Vec::new() };
                all.push((entry.path(), size, xxh3_64(&bytes)));
            }
        }
    }
    all.sort();
    xxh3_64(format!("{all:?}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("a.js"), "one two one\n").unwrap();
        top
    }

    #[test]
    fn a_text_is_replaced_exactly_as_often_as_declared() {
        let site = site();
        let done = replace(site.path(), "a.js", "one", "three", 2).unwrap();
        assert!(done.starts_with("`a.js` changed 2 times, now "), "{done}");
        assert_eq!(fs::read_to_string(site.path().join("a.js")).unwrap(), "three two three\n");
        for (file, find, with, count, said) in [
            ("a.js", "two", "2", 2, "`a.js` contains the text of `find` 1 times, not 2"),
            ("a.js", "", "2", 1, "`a.js` contains the text of `find` 0 times, not 1"),
            ("a.js", "two", "two", 1, "`a.js` is the same afterwards"),
            ("../a.js", "two", "2", 1, "`../a.js` is not inside the copy"),
            ("/etc/passwd", "root", "2", 1, "`/etc/passwd` is not inside the copy"),
        ] {
            assert_eq!(replace(site.path(), file, find, with, count).unwrap_err(), said);
        }
        assert!(replace(site.path(), "b.js", "x", "y", 1).unwrap_err().starts_with("cannot read `b.js`"));
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
        assert!(patch(site.path(), name).unwrap().contains("applied, the copy is now "));
        assert_eq!(fs::read_to_string(site.path().join("a.js")).unwrap(), "one three one\n");
        assert!(patch(site.path(), name).unwrap_err().contains("does not apply"), "a second time");
        fs::remove_file(&file).unwrap();
    }
}
