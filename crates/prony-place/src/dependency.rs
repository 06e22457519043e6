//! Installs the package versions that a variant's `dependency` changes name.

use std::fs;
use std::path::Path;

use prony_model::program::Manager;

/// Where pip installs packages, relative to the copy; it comes first in the program's `PYTHONPATH`.
pub(crate) const PACKAGES: &str = ".prony-packages";

const NPM: &str = "npm";
const PYTHON: &str = "python3";

/// Runs a command in the copy and returns its output, or a sentence that says what failed.
pub(crate) type Run<'a> = dyn Fn(&[String]) -> Result<String, String> + 'a;

/// Installs a package in the copy; what came of it, with the version that is there now.
///
/// # Errors
/// A sentence: no package manager, an installation that fails, a version that was installed before.
pub(crate) fn install(
    copy: &Path,
    name: &str,
    version: &str,
    manager: Option<Manager>,
    run: &Run<'_>,
) -> Result<String, String> {
    let manager = manager.or_else(|| manager_of(copy)).ok_or_else(|| format!("the copy has {NO_MANIFEST}"))?;
    let before = match manager {
        Manager::Npm => npm(copy, name, version, run)?,
        Manager::Pip => pip(name, version, run)?,
    };
    let after =
        installed(copy, name, Some(manager)).ok_or_else(|| format!("{} did not install `{name}`", manager.name()))?;
    if before.as_ref() == Some(&after) {
        return Err(format!("`{name}` already has version {after}, so the change has no effect"));
    }
    let before = before.unwrap_or_else(|| "not installed".to_owned());
    Ok(format!("`{name}` installed by {}: version {after}, previously {before}", manager.name()))
}

const NO_MANIFEST: &str =
    "no `package.json`, `pyproject.toml`, `setup.py` or `requirements.txt`: set `manager` explicitly";

/// The command that would install a package in a copy of the directory.
///
/// # Errors
/// A sentence: nothing says which.
pub(crate) fn installer(directory: &Path, manager: Option<Manager>) -> Result<&'static str, String> {
    match manager.or_else(|| manager_of(directory)) {
        Some(Manager::Npm) => Ok(NPM),
        Some(Manager::Pip) => Ok(PYTHON),
        None => Err(format!("`{}` has {NO_MANIFEST}", directory.display())),
    }
}

fn manager_of(copy: &Path) -> Option<Manager> {
    let has = |names: &[&str]| names.iter().any(|name| copy.join(name).is_file());
    let python = || has(&["pyproject.toml", "setup.py", "requirements.txt"]).then_some(Manager::Pip);
    has(&["package.json"]).then_some(Manager::Npm).or_else(python)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The version of a package that was installed in the copy, as what is there says.
pub(crate) fn installed(copy: &Path, name: &str, manager: Option<Manager>) -> Option<String> {
    match manager.or_else(|| manager_of(copy))? {
        Manager::Npm => {
            let text = fs::read_to_string(copy.join("node_modules").join(name).join("package.json")).ok()?;
            let about: serde_json::Value = serde_json::from_str(&text).ok()?;
            Some(about.get("version")?.as_str()?.to_owned())
        }
        Manager::Pip => distribution(&copy.join(PACKAGES), name),
    }
}

/// Installs it; the version that was there before.
fn npm(copy: &Path, name: &str, version: &str, run: &Run<'_>) -> Result<Option<String>, String> {
    let before = installed(copy, name, Some(Manager::Npm));
    let package = format!("{name}@{version}");
    run(&words(&[NPM, "install", "--save-exact", "--no-audit", "--no-fund", "--", &package]))?;
    Ok(before)
}

/// Installs it; the version that the program would have found before, wherever it is.
fn pip(name: &str, version: &str, run: &Run<'_>) -> Result<Option<String>, String> {
    let asked = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))";
    // A package that is not installed has no version.
    let before = run(&words(&[PYTHON, "-c", asked, name])).ok().map(|text| text.trim().to_owned());
    let package = format!("{name}=={version}");
    let quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--upgrade", "--target", PACKAGES];
    run(&[words(&[PYTHON, "-m", "pip", "install"]), words(&quiet), words(&["--", &package])].concat())?;
    Ok(before)
}

/// The version of a package as its directory of metadata says: `NAME-VERSION.dist-info`.
fn distribution(packages: &Path, name: &str) -> Option<String> {
    let plain = |name: &str| name.to_lowercase().replace(['-', '.'], "_");
    fs::read_dir(packages).ok()?.flatten().find_map(|entry| {
        let file = entry.file_name();
        let (found, version) = file.to_str()?.strip_suffix(".dist-info")?.rsplit_once('-')?;
        (plain(found) == plain(name)).then(|| version.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A fake npm that writes what it is asked for.
    fn fake_npm(copy: &Path, words: &[String]) -> String {
        let (name, version) = words.last().unwrap().rsplit_once('@').unwrap();
        let home = copy.join("node_modules").join(name);
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("package.json"), format!("{{\"version\":\"{version}\"}}")).unwrap();
        String::new()
    }

    #[test]
    fn installed_version_is_reported_and_must_differ() {
        let copy = tempfile::tempdir().unwrap();
        fs::write(copy.path().join("package.json"), "{}").unwrap();
        let npm = |words: &[String]| Ok(fake_npm(copy.path(), words));
        let install = |version: &str| install(copy.path(), "@a/b", version, None, &npm);
        assert_eq!(install("1.2.3").unwrap(), "`@a/b` installed by npm: version 1.2.3, previously not installed");
        assert_eq!(install("1.3.0").unwrap(), "`@a/b` installed by npm: version 1.3.0, previously 1.2.3");
        assert_eq!(install("1.3.0").unwrap_err(), "`@a/b` already has version 1.3.0, so the change has no effect");
    }

    #[test]
    fn pip_installs_into_the_copy_and_its_metadata_is_read() {
        let copy = tempfile::tempdir().unwrap();
        fs::write(copy.path().join("requirements.txt"), "").unwrap();
        let said = RefCell::new(Vec::new());
        let python = |words: &[String]| {
            said.borrow_mut().push(words.join(" "));
            let metadata = copy.path().join(PACKAGES).join("My_Package-2.0.dist-info");
            if words[1] == "-m" {
                fs::create_dir_all(metadata).unwrap()
            }
            if words[1] == "-c" { Err("no such package".to_owned()) } else { Ok(String::new()) }
        };
        let done = install(copy.path(), "my-package", "2.0", None, &python).unwrap();
        assert_eq!(done, "`my-package` installed by pip: version 2.0, previously not installed");
        assert!(said.borrow()[1].ends_with("--target .prony-packages -- my-package==2.0"), "{said:?}");
    }

    #[test]
    fn what_cannot_be_installed_says_why() {
        let copy = tempfile::tempdir().unwrap();
        let nobody = |_: &[String]| Ok(String::new());
        assert!(install(copy.path(), "a", "1", None, &nobody).unwrap_err().contains("set `manager` explicitly"));
        let refused = |_: &[String]| Err("E404".to_owned());
        assert_eq!(install(copy.path(), "a", "1", Some(Manager::Npm), &refused).unwrap_err(), "E404");
        assert_eq!(install(copy.path(), "a", "1", Some(Manager::Npm), &nobody).unwrap_err(), "npm did not install `a`");
    }
}
