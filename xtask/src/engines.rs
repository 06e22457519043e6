//! `cargo xtask engines`: builds the engines outside the default build and runs the contract suite over each. It
//! installs nothing; it says which system libraries are missing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An engine behind a feature of its own.
struct Engine {
    feature: &'static str,
    needs: &'static [Need],
}

/// A library that an engine wants from the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    /// The start of its file name.
    library: &'static str,
    /// The variable that names its directory to the build.
    variable: &'static str,
    /// What to install.
    package: &'static str,
}

/// It writes the bindings of C libraries.
const LIBCLANG: Need = Need { library: "libclang", variable: "LIBCLANG_PATH", package: "libclang-dev" };
const ROCKSDB: Need = Need { library: "librocksdb.so", variable: "ROCKSDB_LIB_DIR", package: "librocksdb-dev (7.8)" };

const ENGINES: [Engine; 3] = [
    Engine { feature: "libmdbx", needs: &[LIBCLANG] },
    Engine { feature: "sled", needs: &[] },
    Engine { feature: "rocksdb", needs: &[LIBCLANG, ROCKSDB] },
];

impl Need {
    /// Where the library is, if it is anywhere.
    fn found(self, dirs: &[PathBuf]) -> Option<PathBuf> {
        let asked = env::var_os(self.variable).map(PathBuf::from);
        asked.into_iter().chain(dirs.iter().cloned()).find(|dir| contains(dir, self.library))
    }
}

fn contains(dir: &Path, library: &str) -> bool {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).any(|name| is_library(&name, library))
}

/// `libclang-14.so.1` is libclang, `libclang-cpp.so.14` is not.
fn is_library(name: &str, library: &str) -> bool {
    let Some(rest) = name.strip_prefix(library) else { return false };
    let version = rest.split(".so").next().unwrap_or_default();
    library.ends_with(".so") || rest.contains(".so") && version.chars().all(|c| c.is_ascii_digit() || "-.".contains(c))
}

/// The directories in which Debian, Fedora and others keep libraries.
fn library_dirs() -> Vec<PathBuf> {
    let multiarch = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    let mut dirs: Vec<PathBuf> = ["/usr/local/lib", &multiarch, "/usr/lib64", "/usr/lib"].map(PathBuf::from).to_vec();
    let llvm = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    dirs.extend(llvm.filter(|path| path.to_string_lossy().contains("llvm")).map(|path| path.join("lib")));
    dirs
}

/// How an engine's test ended.
enum Ending {
    Passed,
    Failed,
    Lacks(Vec<&'static str>),
}

fn test(root: &Path, engine: &Engine) -> Result<Ending, String> {
    let dirs = library_dirs();
    let lacking: Vec<_> =
        engine.needs.iter().filter(|need| need.found(&dirs).is_none()).map(|need| need.package).collect();
    if !lacking.is_empty() {
        return Ok(Ending::Lacks(lacking));
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["test", "--package", "prony-engines", "--no-default-features"]);
    command.args(["--features", engine.feature]);
    if let Some(dir) = engine.needs.iter().find(|need| **need == ROCKSDB).and_then(|need| need.found(&dirs)) {
        command.env(ROCKSDB.variable, dir);
    }
    let status = command.status().map_err(|error| format!("cannot run `cargo`: {error}"))?;
    Ok(if status.success() { Ending::Passed } else { Ending::Failed })
}

fn chosen(names: &[String]) -> Result<Vec<&'static Engine>, String> {
    if names.is_empty() {
        return Ok(ENGINES.iter().collect());
    }
    let find = |name: &String| ENGINES.iter().find(|engine| engine.feature == name);
    let known: Vec<&str> = ENGINES.iter().map(|engine| engine.feature).collect();
    names
        .iter()
        .map(|name| find(name).ok_or_else(|| format!("no engine `{name}`; there are `{}`", known.join("`, `"))))
        .collect()
}

/// Tests the engines named, or all; says how each ended.
///
/// # Errors
/// A name that is not an engine's, a suite that failed, or a library that is missing.
pub(crate) fn run(root: &Path, names: &[String]) -> Result<String, String> {
    let mut lines = Vec::new();
    let mut good = true;
    for engine in chosen(names)? {
        let ending = test(root, engine)?;
        good &= matches!(ending, Ending::Passed);
        lines.push(match ending {
            Ending::Passed => format!("{:<8} passes the contract", engine.feature),
            Ending::Failed => format!("{:<8} fails", engine.feature),
            Ending::Lacks(what) => {
                format!("{:<8} was not tried\nhint: install {}", engine.feature, what.join(" and "))
            }
        });
    }
    let text = lines.join("\n");
    if good { Ok(text) } else { Err(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_libraries_are_distinguished_from_similar_names() {
        for name in ["libclang.so", "libclang-14.so.1", "libclang.so.14", "libclang-14.so.14.0.6"] {
            assert!(is_library(name, "libclang"), "{name}");
        }
        for name in ["libclang-cpp.so.14", "libclangAST.a", "libclang.a", "librocksdb.so"] {
            assert!(!is_library(name, "libclang"), "{name}");
        }
        assert!(is_library("librocksdb.so.7.8", "librocksdb.so"));
        assert!(!is_library("librocksdb.a", "librocksdb.so"));
    }

    #[test]
    fn engines_are_chosen_by_name() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(chosen(&[]).map(|all| all.len()), Ok(ENGINES.len()));
        assert_eq!(chosen(&names(&["sled", "rocksdb"])).map(|some| some.len()), Ok(2));
        assert!(chosen(&names(&["slad"])).is_err_and(|error| error.contains("`sled`")));
    }

    #[test]
    fn every_feature_outside_the_default_is_tried() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/prony-engines/Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        let default = manifest.lines().find(|line| line.starts_with("default = ")).unwrap();
        let features = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
        let features = features.take_while(|line| !line.starts_with('['));
        let names = features.filter_map(|line| line.split_once(" = [")).map(|(name, _)| name);
        let outside: Vec<&str> =
            names.filter(|name| *name != "default" && !default.contains(&format!("\"{name}\""))).collect();
        let tried: Vec<&str> = ENGINES.iter().map(|engine| engine.feature).collect();
        assert_eq!(outside, tried);
    }
}
