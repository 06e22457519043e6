//! Packages that Node would load from the user's working tree for every revision: it searches `node_modules` in each folder above the
//! copy, and copies are made in the repository itself.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use prony_model::program::{ProgramSpec, Runtime};
use serde_json::Value;

use crate::named_paths::pieces;
use crate::revision;

const MODULES: &str = "node_modules";

const MANIFEST: &str = "package.json";

/// Files that say which versions are installed.
const LOCKS: [&str; 5] = ["bun.lock", "npm-shrinkwrap.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock"];

/// Tables of a manifest that name packages.
const TABLES: [&str; 4] = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];

/// Programs that load packages so, or start programs that do.
const LOADERS: [&str; 8] = ["bun", "node", "nodejs", "npm", "npx", "pnpm", "tsx", "yarn"];

/// What the copy `directory` below `top`, of a commit of the repository `tree`, would load from the working tree although the commit has
/// another: the `node_modules` there, and a package of the repository to which it links, or the file that says what is installed in it.
pub(crate) fn of_the_tree(
    program: &ProgramSpec,
    (top, directory): (&Path, &Path),
    tree: &Path,
    commit: &str,
) -> Option<(PathBuf, PathBuf)> {
    let is_loader =
        |word: String| Path::new(&word).file_name().is_some_and(|name| LOADERS.iter().any(|own| name == *own));
    let folders = || directory.ancestors().take_while(|folder| folder.starts_with(top));
    let has_manifest = folders().any(|folder| folder.join(MANIFEST).is_file());
    let is_installed = folders().any(|folder| folder.join(MODULES).is_dir());
    if is_installed || !has_manifest || !(program.runtime == Some(Runtime::Node) || pieces(program).any(is_loader)) {
        return None;
    }
    let mut above =
        top.ancestors().skip(1).take_while(|folder| folder.starts_with(tree)).map(|folder| folder.join(MODULES));
    let modules = above.find(|modules| modules.is_dir())?;
    let folder = modules.parent()?;
    let changed = revision::differing(tree, commit);
    let locks = LOCKS.map(|name| folder.join(name));
    let own =
        linked(&modules, tree).into_iter().chain(locks).find(|path| changed.iter().any(|file| file.starts_with(path)));
    let manifest = folder.join(MANIFEST);
    let copied = top.join(folder.strip_prefix(tree).ok()?).join(MANIFEST);
    let other = own.or_else(|| (packages(&manifest)? != packages(&copied)?).then_some(manifest))?;
    Some((modules, other.strip_prefix(tree).ok()?.to_path_buf()))
}

/// The packages of a repository to which its `node_modules` link, as those of a workspace.
fn linked(modules: &Path, tree: &Path) -> BTreeSet<PathBuf> {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_scope = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('@'));
    let (scopes, mut packages): (Vec<PathBuf>, Vec<PathBuf>) = entries(modules).partition(|path| is_scope(path));
    packages.extend(scopes.iter().flat_map(|scope| entries(scope)));
    let is_own = |path: &PathBuf| {
        path.strip_prefix(tree).is_ok_and(|path| path.components().all(|part| part.as_os_str() != OsStr::new(MODULES)))
    };
    let targets = packages.iter().filter(|path| path.is_symlink()).filter_map(|path| fs::canonicalize(path).ok());
    targets.filter(is_own).collect()
}

/// What a manifest says of packages.
fn packages(manifest: &Path) -> Option<[Option<Value>; 4]> {
    let about: Value = serde_json::from_str(&fs::read_to_string(manifest).ok()?).ok()?;
    Some(TABLES.map(|table| about.get(table).cloned()))
}
