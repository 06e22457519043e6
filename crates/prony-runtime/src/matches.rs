//! Lists the files that a `call` (a function to be timed) may match, as far as that is known before the program runs.
//!
//! `FILE#EXPORT` with the end of a path fits every file whose path ends so. Which of several files a program loads
//! first is chance, so that such a call is a fault. Files that are made while the program runs, or lie elsewhere, are
//! reported by the probe when they are loaded.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Runtime;
use prony_os::launch::Scratch;

/// The most directories that are listed: a link may lead to the top of the file system.
const MOST: usize = 100_000;

/// Endings that Node's modules have.
const ENDINGS: [&str; 9] = [".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".jsx", ".tsx", ".mtsx"];

/// The end of a path that a call names, and its function; `None` where it names exactly one file, or a package, which
/// the runtime resolves to one.
fn end_of_path(runtime: Runtime, call: &str) -> Option<(&str, &str)> {
    let (file, function) = call.rsplit_once('#').filter(|_| runtime == Runtime::Node)?;
    let exact = ["./", "../", "/"].iter().any(|begin| file.starts_with(begin));
    (!exact && ENDINGS.iter().any(|ending| file.ends_with(ending))).then_some((file, function))
}

/// The files below a directory that each call matches, by their real paths: a file reached by several links counts
/// once. Directories that cannot be read, scratch of other runs, and what lies beyond the first [`MOST`] directories
/// are left out.
pub fn matches(runtime: Runtime, calls: &[&str], directory: &Path) -> Vec<BTreeSet<PathBuf>> {
    let mut found = vec![BTreeSet::new(); calls.len()];
    let ends: Vec<Option<&str>> = calls.iter().map(|call| end_of_path(runtime, call).map(|(file, _)| file)).collect();
    if ends.iter().all(Option::is_none) {
        return found;
    }
    let root = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let (mut ahead, mut met) = (vec![root.clone()], BTreeSet::new());
    // Of the targets of links, only those on their file system: not `/proc`.
    let device = |path: &Path| fs::metadata(path).map(|about| about.dev()).ok();
    let mut devices = BTreeSet::from_iter(device(&root));
    while let Some(directory) = ahead.pop() {
        let Ok(about) = fs::metadata(&directory) else { continue };
        if met.len() >= MOST || !devices.contains(&about.dev()) || !met.insert((about.dev(), about.ino())) {
            continue;
        }
        for (found, end) in found.iter_mut().zip(&ends) {
            // A link may stand for any part of the end.
            let file = end.and_then(|end| fs::canonicalize(directory.join(end)).ok()).filter(|file| file.is_file());
            found.extend(file);
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if Scratch::is_name(&entry.file_name()) {
                // It holds copies of the program.
            } else if kind.is_dir() {
                ahead.push(entry.path());
            } else if kind.is_symlink() {
                // Files below the program's directory are listed under their own names.
                let target = fs::canonicalize(entry.path()).ok().filter(|target| target.is_dir());
                let kernel = |target: &PathBuf| ["/proc", "/sys", "/dev"].iter().any(|top| target.starts_with(top));
                let outside = target.filter(|target| !target.starts_with(&root) && !kernel(target));
                devices.extend(outside.as_deref().and_then(device));
                ahead.extend(outside);
            }
        }
    }
    found
}

/// For a call that matches several files, a name for each file that matches this file only, from the program's
/// directory.
pub fn names(runtime: Runtime, call: &str, files: &BTreeSet<PathBuf>, directory: &Path) -> Vec<String> {
    let root = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let sign = runtime.call_form().0;
    let function = call.rsplit_once(sign).map_or("", |(_, function)| function);
    let name = |file: &PathBuf| match (runtime, file.strip_prefix(&root)) {
        (Runtime::Node, Ok(inside)) => format!("./{}{sign}{function}", inside.display()),
        (Runtime::Node, Err(_)) => format!("{}{sign}{function}", file.display()),
        (Runtime::Python, _) => file.display().to_string(),
    };
    files.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        for file in files {
            let path = top.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        top
    }

    fn names_of(call: &str, top: &Path) -> Vec<String> {
        let found = matches(Runtime::Node, &[call], top);
        names(Runtime::Node, call, &found[0], top)
    }

    #[test]
    fn the_end_of_a_path_fits_every_file_that_ends_so() {
        let files = ["site.js", "node_modules/a/site.js", "node_modules/b/lib/site.js", "my-site.js", "site.js.map"];
        let top = tree(&files);
        let all = ["./node_modules/a/site.js#f", "./node_modules/b/lib/site.js#f", "./site.js#f"];
        assert_eq!(names_of("site.js#f", top.path()), all);
        assert_eq!(names_of("a/site.js#f", top.path()), all[..1]);
        assert_eq!(names_of("none.js#f", top.path()), [""; 0]);
    }

    #[test]
    fn copies_in_scratch_and_circles_of_links_are_no_further_files() {
        let top = tree(&["site.js", ".prony-run-1-2-3/copy/site.js"]);
        let outside = tree(&["lib/site.js"]);
        for (target, link) in [(outside.path(), "out"), (Path::new("/proc"), "proc")] {
            symlink(target, top.path().join(link)).unwrap();
        }
        symlink(outside.path(), outside.path().join("lib/again")).unwrap();
        symlink(outside.path().join("lib"), top.path().join("lib")).unwrap();
        let outer = fs::canonicalize(outside.path()).unwrap();
        // By their real paths, of which each part is drawn at random.
        let found = BTreeSet::from_iter(names_of("site.js#f", top.path()));
        assert_eq!(found, BTreeSet::from(["./site.js#f".to_owned(), format!("{}/lib/site.js#f", outer.display())]));
    }

    #[test]
    fn a_whole_path_a_package_and_a_module_of_python_are_not_searched_for() {
        let top = tree(&["site.js", "a/site.js", "work.py", "a/work.py", "lib/index.js"]);
        for call in ["./site.js#f", "/site.js#f", "../site.js#f", "lib#f"] {
            assert_eq!(names_of(call, top.path()), [""; 0], "{call}");
        }
        assert!(matches(Runtime::Python, &["work:f"], top.path())[0].is_empty());
    }

    #[test]
    fn what_several_links_lead_to_is_one_file() {
        let top = tree(&["packages/x/site.js", "app/empty"]);
        let link = |to: &str, name: &str| symlink(to, top.path().join(name)).unwrap();
        fs::create_dir(top.path().join("node_modules")).unwrap();
        link("../packages/x", "node_modules/plugin");
        link("packages/x/site.js", "site.js");
        link("..", "packages/up");
        assert_eq!(names_of("site.js#f", top.path()), ["./packages/x/site.js#f"]);
        assert_eq!(names_of("plugin/site.js#f", top.path()), ["./packages/x/site.js#f"], "by the link's name");
    }

    #[test]
    fn linked_directories_elsewhere_count_too() {
        let (top, elsewhere) = (tree(&["lib/site.js"]), tree(&["deep/lib/site.js"]));
        symlink(elsewhere.path(), top.path().join("linked")).unwrap();
        symlink(elsewhere.path(), top.path().join("again")).unwrap();
        symlink(top.path(), elsewhere.path().join("back")).unwrap();
        let outside = fs::canonicalize(elsewhere.path().join("deep/lib/site.js")).unwrap();
        let mut both = vec!["./lib/site.js#f".to_owned(), format!("{}#f", outside.display())];
        both.sort();
        let mut found = names_of("lib/site.js#f", top.path());
        found.sort();
        assert_eq!(found, both);
    }
}
