//! What a program's command and variables name in the user's own directory although its copy has something else there: it is the same
//! for every variant, whatever their revisions and changes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use prony_model::catalog::Lack;
use prony_model::program::{CopyOf, ProgramSpec};

use crate::build_cache::shell_words;
use crate::{digest, revision};

/// The words of a program's command and of the values of its variables, as a shell might read them, and the parts of lists.
pub(crate) fn pieces(program: &ProgramSpec) -> impl Iterator<Item = String> {
    let texts = program.command.words().into_iter().chain(program.env.values().cloned());
    texts.flat_map(|text| {
        let parts = shell_words(&text).flat_map(|word| word.split([':', ','])).map(str::to_owned);
        // A whole text may have blanks.
        parts.chain([text.clone()]).collect::<Vec<_>>()
    })
}

/// The absolute paths among them, also behind an option (`-I/path`). Nothing needs to be there.
pub(crate) fn named(program: &ProgramSpec) -> BTreeSet<PathBuf> {
    let path = |part: String| {
        let from = part.find('/').filter(|at| *at == 0 || part.starts_with('-'))?;
        // A placeholder, which has a zero byte, leads into the copy.
        (!part.contains('\0')).then(|| PathBuf::from(&part[from..]))
    };
    pieces(program).filter_map(path).collect()
}

/// Files of the user's directory `original` of which the program's copy has others: those that its changes write (`files`), and those
/// that its commit has with other content. What only the user's directory has is not among them.
pub(crate) fn changed(files: &BTreeSet<String>, original: &Path, commit: Option<&str>) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = files.iter().map(|file| original.join(file)).collect();
    if let Some(commit) = commit {
        // Without the lock that refreshing the index would take, and whatever the user's configuration says.
        let ask =
            ["--no-optional-locks", "diff", "--name-only", "-z", "--no-relative", "--no-ext-diff", "--no-renames"];
        let output = revision::git(original, &[&ask[..], &["--diff-filter=a", commit, "--"]].concat());
        let top = revision::git(original, &["rev-parse", "--show-toplevel"]);
        if let (Ok(output), Ok(top)) = (output, top) {
            files.extend(output.split('\0').filter(|name| !name.is_empty()).map(|name| Path::new(&top).join(name)));
        }
    }
    files
}

/// What the command and the variables name in the user's directory, which the copy, made of a commit or of the directory as it was, has
/// with other content: such a file, a directory with one, or a file that `build` made in the copy too. `files` are those that changes
/// write; `tops` are the top of what was copied, and that of the copy.
pub(crate) fn shadowed(
    program: &ProgramSpec,
    files: &BTreeSet<String>,
    original: &Path,
    commit: Option<&str>,
    tops: (&Path, &Path),
) -> Vec<PathBuf> {
    let inside = |path: PathBuf| fs::canonicalize(path).ok().filter(|path| path.starts_with(tops.0));
    let named: BTreeSet<PathBuf> = named(program).into_iter().filter_map(inside).collect();
    if named.is_empty() {
        return Vec::new();
    }
    let changed = changed(files, original, commit);
    let content = |path: &Path| {
        let about = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        digest::of_file(path, &about).ok()
    };
    let is_built = |path: &Path| {
        let copied = path.strip_prefix(tops.0).ok().and_then(|inside| content(&tops.1.join(inside)));
        copied.zip(content(path)).is_some_and(|(copied, own)| copied != own)
    };
    let is_other = |path: &PathBuf| changed.iter().any(|file| file.starts_with(path)) || is_built(path);
    named.into_iter().filter(is_other).collect()
}

/// Why a program would execute a file of the user's directory in place of the one of its copy, which is another; `files` are those that
/// its changes write.
pub(crate) fn executes_original(program: &ProgramSpec, files: &BTreeSet<String>, directory: &Path) -> Option<Lack> {
    let command = program.command.words().into_iter().next()?;
    if program.copy == CopyOf::None || program.changes.is_empty() || !command.starts_with('/') {
        return None;
    }
    let (original, file) = (fs::canonicalize(directory).ok()?, fs::canonicalize(&command).ok()?);
    let commit = revision::of(program).and_then(|of| revision::commit(&original, of).ok());
    if !changed(files, &original, commit.as_deref()).contains(&file) {
        return None;
    }
    let message = format!(
        "the command `{command}` is a file of the user's own directory: the variant's copy has another one, which would not be executed"
    );
    let hint = "write it from `directory`, such as `./NAME`, or as `{dir}/NAME`; if all variants should execute this one file, copy it \
        to a place outside of the repository";
    Some(Lack { section: "program", key: "command", message, hint: hint.to_owned() })
}
