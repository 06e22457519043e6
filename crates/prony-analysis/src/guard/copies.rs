//! Guards that check how the copy of a program's directory was made and built.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::variant_trials::{Compared, VariantTrials, in_one};
use super::{Finding, Severity};
use prony_model::program::CopyOf;

/// Paths in a program's directory changed after the run began, so that later trials may run copies with other content.
/// The program itself may have written there.
pub fn source_changed(directory: &Path, paths: &[&Path]) -> Option<Finding> {
    let (first, more) = (paths.first()?, paths.len() - 1);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let message = format!(
        "`{}`{more} in the program's directory `{}` changed after the run began, so that later trials may run a \
         different copy",
        first.display(),
        directory.display()
    );
    let hint = "do not edit the directory while a run is in progress; if the program itself writes there through an \
        absolute path, let it write to its copy (`{dir}`)";
    let finding = Finding::of("source_changed", Severity::Warning, message, hint);
    let named: Vec<_> = paths.iter().take(20).map(|path| path.to_string_lossy()).collect();
    Some(finding.with(json!({ "directory": directory.to_string_lossy(), "paths": named, "all": paths.len() })))
}

/// `build` changed no file in the copy. `changed` says whether the copy was changed for the variant before. What
/// `build` writes outside the copy belongs to no single variant.
pub fn build_changed_nothing(changed: bool) -> Finding {
    let message = "`build` changed nothing in the copy".to_owned();
    let hint = "if `build` writes elsewhere, have it write below `{dir}`: otherwise all variants share one place, and \
        each measures what the last variant built; if there was nothing to build, leave `build` out";
    // What is up to date needs no build; what was changed does.
    let severity = if changed { Severity::Warning } else { Severity::Note };
    Finding::of("build_changed_nothing", severity, message, hint)
}

/// `build` left at a path outside of its copy, which the command names or the program's language searches, something else than the build
/// of other code did before.
pub fn build_wrote_outside(path: &Path) -> Finding {
    let message = format!(
        "`build` wrote `{}` outside of its copy, as the build of another variant did before: trials that use it run what was built last",
        path.display()
    );
    let hint = "have `build` write into its copy (`{dir}`); packages of Python into `.prony-packages` there, which comes first in \
        PYTHONPATH: `pip install --target .prony-packages .`";
    Finding::of("build_wrote_outside", Severity::Warning, message, hint).with(json!({ "path": path.to_string_lossy() }))
}

/// `build` overwrote a file that had been changed for the variant.
pub fn build_rewrote_change(file: &str) -> Finding {
    let message = format!("`build` overwrote `{file}`: the text that a change of this variant put there is missing");
    let hint = "make sure that the change still takes effect, as where `build` only formats the file; otherwise change \
        the source from which `build` makes the file";
    Finding::of("build_rewrote_change", Severity::Warning, message, hint)
}

/// So many submodules are filled in the user's own working tree and empty in the copy of a revision.
pub fn submodules_empty(count: usize) -> Finding {
    let message =
        format!("{count} submodules are empty in the copy of the revision: their content is not in the repository");
    let hint = "have `build` fill them with `git submodule update --init`, which needs absolute URLs in `.gitmodules` \
        since the copy has no remote; or copy the directory as it is, without `revision`";
    Finding::of("submodules_empty", Severity::Warning, message, hint).with(json!({ "count": count }))
}

/// A revision is the commit that is checked out, and so many files that git tracks differ from it in the user's own working tree.
pub fn uncommitted_left_out(files: usize) -> Finding {
    let what = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
    let message = format!(
        "the revision is the commit that is checked out: the uncommitted changes of {what} in the repository are not measured"
    );
    let hint = "commit the changes; or add a level without `revision`, such as `edited = {}`: it copies the directory as it is";
    Finding::of("uncommitted_left_out", Severity::Warning, message, hint).with(json!({ "files": files }))
}

/// A copy of the directory as it is, with what no commit has: `counts` of files. Other variants are revisions. With `severity` it is a
/// note where `build` may make the same files in these.
pub fn working_tree_copied(counts: &str, severity: Severity) -> Finding {
    let message =
        format!("the variant is the directory as it is and no revision, with files as no commit has them: {counts}");
    let hint = "if this is not what you want to compare with revisions, name a `revision` in this level; otherwise commit \
        the changes to measure the same again later, and let `build` make in each copy what git ignores";
    Finding::of("working_tree_copied", severity, message, hint)
}

/// The copy of a revision has no packages of Node, and above it are those of the user's working tree, where `other` is not that of the
/// revision: a package of the repository, or what says which versions are installed.
pub fn packages_of_the_tree(modules: &Path, other: &Path) -> Finding {
    let message = format!(
        "the copy of the revision has no `node_modules`, so that Node would load packages from `{}` of the working tree: `{}` there is not that \
         of the revision",
        modules.display(),
        other.display()
    );
    let hint = "let `build` install the packages in the copy, as `npm ci` does, or make copies outside of the repository: `--scratch DIR`";
    Finding::of("packages_of_the_tree", Severity::Warning, message, hint)
}

/// A variant and its baseline are revisions with different names, of one commit, and differ by nothing else.
pub fn same_commit(variant: &str, baseline: &str) -> Finding {
    let message =
        format!("`{variant}` and its baseline `{baseline}` are one commit under two names: they are the same code");
    let hint = "name another revision in one of them; for an A/A comparison write the same name in both";
    Finding::of("same_commit", Severity::Warning, message, hint)
}

/// The command or a variable names paths in the user's own directory, which differ in the copy.
pub fn names_the_original(paths: &[PathBuf]) -> Option<Finding> {
    let (first, more) = (paths.first()?, paths.len() - 1);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let message = format!(
        "the command or a variable of the program names `{}`{more} in the user's own directory: the variant's copy has another one, \
         which is not used there",
        first.display()
    );
    let hint = "write the path from `directory`, or begin it with `{dir}`; if all variants should use this one, copy it to a place \
        outside of the repository";
    let named: Vec<_> = paths.iter().take(20).map(|path| path.to_string_lossy()).collect();
    Some(Finding::of("names_the_original", Severity::Warning, message, hint).with(json!({ "paths": named })))
}

/// A patch was applied at line numbers other than those it states; `moved` is the message of `patch`.
pub fn patch_moved(moved: &str) -> Finding {
    let message = format!("a patch was applied at line numbers other than those it states: {moved}");
    let hint = "regenerate the patch against the current state of the directory: where its lines match in more than \
        one place, it may have been applied at the wrong place";
    Finding::of("patch_moved", Severity::Warning, message, hint)
}

/// The finding that a build is from before the run.
const BUILD_REUSED: &str = "build_reused";

/// The variant ran a cached build from before the run. `age` is how long ago it was made, where that is known.
pub fn build_reused(age: Option<Duration>) -> Finding {
    let ago = match age.map(|age| age.as_secs()) {
        None => "before".to_owned(),
        Some(seconds @ ..120) => format!("{seconds} s before"),
        Some(seconds @ ..7_200) => format!("{} min before", seconds / 60),
        Some(seconds @ ..172_800) => format!("{} h before", seconds / 3_600),
        Some(seconds) => format!("{} days before", seconds / 86_400),
    };
    let message = format!("the variant ran a cached build: it was made {ago}, from the same files by the same command");
    let hint = "set `PRONY_CACHE=off` to build again: anything else that the build depends on, such as the toolchain, \
        may have changed since";
    Finding::of(BUILD_REUSED, Severity::Note, message, hint)
}

/// Of two compared variants, one ran a cached build from before the run, and the other one that this run made: tools that no
/// command names may have changed in between, and the key of a build contains only those that it names.
pub(crate) fn build_reused_in_one(both: Compared<'_>) -> Option<Finding> {
    let builds = |of: &VariantTrials<'_>| of.spec.programs().any(|p| p.build.is_some() && p.copy != CopyOf::None);
    if !both.into_iter().all(builds) {
        return None;
    }
    // A resumed run finds what its earlier sessions built.
    let sessions = |of: &VariantTrials<'_>| {
        let mut reused: BTreeMap<u32, BTreeSet<bool>> = BTreeMap::new();
        for trial in &of.trials {
            let found = trial.findings.iter().any(|finding| finding.guard == BUILD_REUSED);
            reused.entry(trial.conditions.session).or_default().insert(found);
        }
        reused
    };
    let [ours, theirs] = both.map(sessions);
    let (old, new) = ours.iter().find_map(|(session, ours)| {
        let theirs = theirs.get(session)?;
        in_one(both, [ours, theirs].map(|reused| reused.contains(&true)))
    })?;
    let message = format!(
        "`{old}` ran a cached build from before the run, and `{new}` one that this run made: if a compiler or another tool that the \
         command of `build` does not name has changed in between, the two differ by it"
    );
    let hint = "run again with `PRONY_CACHE=off`: both are built then, by the same tools";
    Some(Finding::of("build_reused_in_one", Severity::Warning, message, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_of_the_users_paths_is_named_and_all_are_data() {
        assert_eq!(names_the_original(&[]), None);
        let found = names_the_original(&["/a", "/b"].map(PathBuf::from)).unwrap();
        assert!(found.message.contains("names `/a` and 1 more in the user's own directory"), "{}", found.message);
        assert_eq!(found.data["paths"], json!(["/a", "/b"]));
    }

    #[test]
    fn source_changed_names_the_first_path_and_counts_the_rest() {
        let found = |paths: &[&str]| {
            let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
            source_changed(Path::new("/home/site"), &paths).map(|finding| finding.message)
        };
        assert_eq!(found(&[]), None);
        let one = "`a.js` in the program's directory `/home/site` changed after the run began, so that later trials \
            may run a different copy";
        assert_eq!(found(&["a.js"]).as_deref(), Some(one));
        assert_eq!(found(&["a.js", "b", "c"]), Some(one.replace("`a.js`", "`a.js` and 2 more")));
    }
}
