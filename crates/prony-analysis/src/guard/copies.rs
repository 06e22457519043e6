//! Guards that check how the copy of a program's directory was made and built.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::{Finding, Severity};

/// Paths of a program's directory that have changed since the run began: later copies have other content, or the
/// program has written there.
pub fn source_changed(directory: &Path, paths: &[&Path]) -> Option<Finding> {
    let (first, more) = (paths.first()?, paths.len() - 1);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let message = format!(
        "`{}`{more} in the program's directory `{}` changed since the run began",
        first.display(),
        directory.display()
    );
    let hint = "leave the directory alone while a run is under way; where the program itself writes there, by a path of its \
                own, let it write to its copy (`{dir}`)";
    let finding = Finding::of("source_changed", Severity::Warning, message, hint);
    let named: Vec<_> = paths.iter().take(20).map(|path| path.to_string_lossy()).collect();
    Some(finding.with(json!({ "directory": directory.to_string_lossy(), "paths": named, "all": paths.len() })))
}

/// `build` left the copy as it was, which was `changed` for the variant or not: what it writes elsewhere is of no variant.
pub fn build_changed_nothing(changed: bool) -> Finding {
    let message = "`build` changed nothing in the copy".to_owned();
    let hint = "if it writes elsewhere, have it write below `{dir}`: all variants write to the same place there, and what the \
                last of them built is measured in each; if there was nothing to do, leave `build` out";
    // What is up to date needs no build; what was changed does.
    let severity = if changed { Severity::Warning } else { Severity::Note };
    Finding::of("build_changed_nothing", severity, message, hint)
}

/// `build` wrote a file that was changed for the variant in another way than the change did.
pub fn build_rewrote_change(file: &str) -> Finding {
    let message = format!("`build` wrote `{file}` anew: a text that a change put there is no longer there");
    let hint = "make sure that what it wrote is still what the variant is to be, as where it formats files; else change what it \
                makes the file of";
    Finding::of("build_rewrote_change", Severity::Warning, message, hint)
}

/// A revision lacks so many submodules that the user's own tree has.
pub fn submodules_empty(count: usize) -> Finding {
    let message = format!("{count} submodules of the revision are empty in its copy, and are not in the repository");
    let hint = "have `build` fill them with `git submodule update --init`, which needs a whole URL in `.gitmodules` since the \
                copy has no remote; or copy the directory, without `revision`";
    Finding::of("submodules_empty", Severity::Warning, message, hint).with(json!({ "count": count }))
}

/// A patch was applied at other lines than it names: `moved` says which, as `patch` does.
pub fn patch_moved(moved: &str) -> Finding {
    let message = format!("a patch was applied at other lines than it names: {moved}");
    let hint = "make the patch anew of the directory as it is: where its lines are there more than once, it may have changed \
                others than those it was made for";
    Finding::of("patch_moved", Severity::Warning, message, hint)
}

/// What the variant runs was built before the run, so long ago, where that is known.
pub fn build_reused(age: Option<Duration>) -> Finding {
    let ago = match age.map(|age| age.as_secs()) {
        None => "before".to_owned(),
        Some(seconds @ ..120) => format!("{seconds} s before"),
        Some(seconds @ ..7_200) => format!("{} min before", seconds / 60),
        Some(seconds @ ..172_800) => format!("{} h before", seconds / 3_600),
        Some(seconds) => format!("{} days before", seconds / 86_400),
    };
    let message = format!("its build was made {ago}, of the same content by the same command");
    let hint = "`PRONY_CACHE=off` builds again: what a build depends on besides, as the rest of a toolchain, may be another now";
    Finding::of("build_reused", Severity::Note, message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_changed_names_the_first_path_and_counts_the_rest() {
        let found = |paths: &[&str]| {
            let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
            source_changed(Path::new("/home/site"), &paths).map(|finding| finding.message)
        };
        assert_eq!(found(&[]), None);
        let one = "`a.js` in the program's directory `/home/site` changed since the run began";
        assert_eq!(found(&["a.js"]).as_deref(), Some(one));
        assert_eq!(found(&["a.js", "b", "c"]), Some(one.replace("`a.js`", "`a.js` and 2 more")));
    }
}
