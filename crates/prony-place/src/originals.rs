//! What a program's command and variables name in the user's own directory although its copy has something else there: it is the same
//! for every variant, whatever their revisions and changes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use prony_model::program::ProgramSpec;

use crate::digest;
use crate::named_paths::named;

/// What the command and the variables name in the user's directory, which the copy, made of a commit or of the directory as it was, has
/// with other content: a file that was changed, a directory with one, or a file that `build` made in the copy too. `tops` are the top of
/// what was copied, and that of the copy.
pub(crate) fn shadowed(
    program: &ProgramSpec,
    tops: (&Path, &Path),
    changed: impl FnOnce() -> Vec<PathBuf>,
) -> Vec<PathBuf> {
    let inside = |path: PathBuf| fs::canonicalize(path).ok().filter(|path| path.starts_with(tops.0));
    let named: BTreeSet<PathBuf> = named(program).into_iter().filter_map(inside).collect();
    if named.is_empty() {
        return Vec::new();
    }
    let changed = changed();
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
