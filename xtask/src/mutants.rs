//! `cargo xtask mutants`: switches each guard and each correction of figures off, one after another, and runs the unit
//! tests of its crate. If none fails, no test checks that function.
//!
//! A copy of the crates is compiled once, in which each function asks at its begin whether it is switched off. The
//! functions are those of the files that `.cargo/mutants.toml` lists for `cargo mutants`, which compiles a crate for each
//! mutant and so also tries changes of operators.

mod find;

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use find::{Mutant, instrument};

/// The crates with guards or corrections.
const CRATES: [&str; 4] = ["prony-analysis", "prony-boundaries", "prony-os", "prony-runner"];

/// The variable with the number of the mutant.
const CHOSEN: &str = "PRONY_MUTANT";

/// A test run that takes longer than so many times that without a mutant hangs: it notices the mutant.
const PATIENCE: u32 = 10;

/// Mutants that no test has to notice: the value is as good, or the function only chooses words.
const ACCEPTED: &str = include_str!("mutants/accepted.txt");

/// The line of a manifest with the crate's version, and that of its copy. Otherwise cargo, which goes by version and path
/// inside the workspace, would use the copy's artifacts where the crate itself is built later. The crates ask each other for
/// their version, which this one is too.
const VERSION: &str = "\nversion.workspace = true\n";
const COPIED_VERSION: &str = concat!("\nversion = \"", env!("CARGO_PKG_VERSION"), "+mutants\"\n");

/// Appended to each crate.
const SWITCH: &str = r#"
/// Whether this mutant was chosen.
#[doc(hidden)]
pub fn mutant(number: usize) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| std::env::var("PRONY_MUTANT").ok()?.parse().ok()) == Some(number)
}
"#;

/// Tries all mutants, or those whose file contains one of these texts.
pub(crate) fn run(root: &Path, only: &[String]) -> Result<String, String> {
    let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let copy = root.join("target/mutants");
    let globs = examined(&fs::read_to_string(root.join(".cargo/mutants.toml")).map_err(failed("mutants.toml"))?);
    workspace(root, &copy).map_err(failed("cannot copy the workspace"))?;
    let mut mutants = Vec::new();
    for package in CRATES {
        package_copy(root, &copy, package, &globs, &mut mutants).map_err(failed("cannot copy a crate"))?;
    }
    let is_asked = |file: &str| only.is_empty() || only.iter().any(|part| file.contains(part));
    let chosen_of = |package: &&str| {
        let folder = format!("crates/{package}/");
        let is_chosen = |file: &str| file.starts_with(&folder) && is_asked(file);
        mutants.iter().enumerate().filter(|(_, (file, _))| is_chosen(file)).collect::<Vec<_>>()
    };
    let chosen: Vec<_> = CRATES.iter().map(|package| (*package, chosen_of(package))).collect();
    let chosen: Vec<_> = chosen.into_iter().filter(|(_, mutants)| !mutants.is_empty()).collect();
    let packages: Vec<&str> = chosen.iter().map(|(package, _)| *package).collect();
    let programs = if packages.is_empty() { Vec::new() } else { compile(root, &copy, &packages)? };
    let (mut survivors, mut count) = (Vec::new(), 0);
    for ((package, mutants), tests) in chosen.iter().zip(&programs) {
        count += mutants.len();
        survivors.extend(survive(tests, &copy.join("crates").join(package), mutants)?);
    }
    report(&survivors, count)
}

/// The mutants with which all of these tests succeed.
fn survive(
    tests: &Path,
    directory: &Path,
    mutants: &[(usize, &(String, Mutant))],
) -> Result<Vec<(String, Mutant)>, String> {
    let failed = |error: io::Error| format!("cannot run the tests: {error}");
    let began = Instant::now();
    if !start(tests, directory, None, "").and_then(|mut tests| tests.wait()).map_err(failed)?.success() {
        return Err(format!("tests fail without a mutant: {}", directory.display()));
    }
    let most = began.elapsed() * PATIENCE + Duration::from_secs(10);
    let (next, survivors) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let try_each = || {
        while let Some((number, mutant)) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let passes = |tests_of| passes(start(tests, directory, Some(*number), tests_of)?, most);
            if passes(module(&mutant.0))? && passes("")? {
                println!("survives: {}", line(mutant));
                survivors.lock().unwrap_or_else(PoisonError::into_inner).push((*mutant).clone());
            }
        }
        io::Result::Ok(())
    };
    // Each test run has one thread.
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(try_each)).collect();
        threads.into_iter().try_for_each(|each| each.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
    })
    .map_err(failed)?;
    Ok(survivors.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The files of the list `examine_globs`, up to an asterisk.
fn examined(text: &str) -> Vec<String> {
    let list = text.split_once("examine_globs").map_or("", |(_, rest)| rest.split(']').next().unwrap_or_default());
    list.split('"').skip(1).step_by(2).map(|glob| glob.split('*').next().unwrap_or_default().to_owned()).collect()
}

/// A folder with links to all files of the workspace but those of [`CRATES`].
fn workspace(root: &Path, copy: &Path) -> io::Result<()> {
    match fs::remove_dir_all(copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(copy.join("crates"))?,
    }
    let link = |from: &Path, to: &Path, without: &[&str]| {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            if !without.iter().any(|name| entry.file_name() == *name) {
                symlink(entry.path(), to.join(entry.file_name()))?;
            }
        }
        io::Result::Ok(())
    };
    link(root, copy, &["target", "crates", ".git", "Cargo.lock"])?;
    // With the versions of the copies it becomes another.
    fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock"))?;
    link(&root.join("crates"), &copy.join("crates"), &CRATES)
}

/// A copy of a crate, and its mutants, each with its file: their numbers go on where those of other crates end, since a
/// crate's tests run the mutated copies of the crates that it uses too.
fn package_copy(
    root: &Path,
    copy: &Path,
    package: &str,
    globs: &[String],
    mutants: &mut Vec<(String, Mutant)>,
) -> io::Result<()> {
    let folder = root.join("crates").join(package);
    let mut open = vec![folder];
    while let Some(path) = open.pop() {
        let name = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
        if path.is_dir() {
            fs::create_dir_all(copy.join(&name))?;
            let mut inside = fs::read_dir(&path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
            inside.sort();
            open.extend(inside);
            continue;
        }
        let shown = name.to_string_lossy().into_owned();
        let is_test = name.components().any(|part| part.as_os_str() == "tests") || shown.ends_with("tests.rs");
        if !is_test && shown.ends_with(".rs") && globs.iter().any(|glob| shown.starts_with(glob)) {
            let (found, text) = instrument(&fs::read_to_string(&path)?, mutants.len());
            mutants.extend(found.into_iter().map(|mutant| (shown.clone(), mutant)));
            fs::write(copy.join(&name), text)?;
        } else if shown.ends_with("src/lib.rs") {
            fs::write(copy.join(&name), fs::read_to_string(&path)? + SWITCH)?;
        } else if shown.ends_with("Cargo.toml") {
            fs::write(copy.join(&name), fs::read_to_string(&path)?.replace(VERSION, COPIED_VERSION))?;
        } else {
            fs::copy(&path, copy.join(&name))?;
        }
    }
    Ok(())
}

/// The programs with the unit tests of these crates. They are compiled together: features of dependencies are those that all
/// of them need, so that no dependency is compiled for each.
fn compile(root: &Path, copy: &Path, packages: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--no-run", "--lib", "--message-format", "json"]).current_dir(copy);
    cargo.args(packages.iter().flat_map(|package| ["-p", package]));
    cargo.env("CARGO_TARGET_DIR", root.join("target")).stderr(Stdio::inherit());
    let output = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the mutants do not compile".to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    packages
        .iter()
        .map(|package| program(&text, package).ok_or_else(|| format!("no unit tests of `{package}`")))
        .collect()
}

/// The program with the unit tests of a crate, by cargo's messages.
fn program(messages: &str, package: &str) -> Option<PathBuf> {
    let begin = format!("{}-", package.replace('-', "_"));
    let executable = |line: &str| Some(PathBuf::from(line.split_once("\"executable\":\"")?.1.split('"').next()?));
    let is_its = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begin));
    messages.lines().filter_map(executable).find(is_its)
}

/// What the names of unit tests begin with that are in the same module of the crate as this file. They are run first: most
/// mutants are noticed by them, and all tests of a crate take twenty times as long.
fn module(file: &str) -> &str {
    let path = file.split_once("/src/").map_or("", |(_, path)| path);
    path.split(['/', '.']).next().unwrap_or_default()
}

/// Starts the unit tests whose name contains a text, with a mutant; they end at the first that fails, without the time that
/// its backtrace would take. Released compilers accept the option `--fail-fast` with that variable only.
fn start(tests: &Path, directory: &Path, mutant: Option<usize>, names: &str) -> io::Result<Child> {
    let mut command = Command::new(tests);
    command
        .args([names, "-Z", "unstable-options", "--fail-fast"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUST_BACKTRACE", "0");
    command.current_dir(directory).env("CARGO_MANIFEST_DIR", directory).env("INSTA_UPDATE", "no");
    command.env("RUST_TEST_THREADS", "1");
    command.envs(mutant.map(|number| (CHOSEN, number.to_string())));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// Whether tests succeed in time; those that hang are ended.
fn passes(mut tests: Child, most: Duration) -> io::Result<bool> {
    let until = Instant::now() + most;
    loop {
        if let Some(status) = tests.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() > until {
            tests.kill()?;
            tests.wait()?;
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A mutant as it is accepted: file, function, value.
fn line((file, mutant): &(String, Mutant)) -> String {
    format!("{file} {} {}", mutant.name, mutant.value).trim_end().to_owned()
}

/// Fails where a mutant survives that is not accepted, and where there is none.
fn report(survivors: &[(String, Mutant)], count: usize) -> Result<String, String> {
    if count == 0 {
        return Err("no function was switched off: `.cargo/mutants.toml` lists the files that are examined".to_owned());
    }
    let accepted = |text: &str| ACCEPTED.lines().any(|line| line.split(" # ").next() == Some(text));
    let (known, new): (Vec<_>, Vec<_>) = survivors.iter().partition(|survivor| accepted(&line(survivor)));
    if new.is_empty() {
        return Ok(format!("{count} mutants: tests notice all but {}, which are accepted", known.len()));
    }
    let new: Vec<String> = new.iter().map(|one| format!("{} (line {})", line(one), one.1.line)).collect();
    Err(format!("no test fails where these functions return a constant:\n{}", new.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(name: &str) -> (String, Mutant) {
        ("x.rs".to_owned(), Mutant { line: 3, name: name.to_owned(), value: "None".to_owned() })
    }

    #[test]
    fn survivor_fails_the_check() {
        assert!(report(&[], 9).is_ok() && report(&[], 0).is_err());
        assert!(report(&[mutant("guard")], 9).unwrap_err().contains("x.rs guard None (line 3)"));
    }

    #[test]
    fn program_of_a_crate_is_the_one_with_its_name() {
        let messages = "{\"executable\":null}\n{\"executable\":\"/t/prony_os-1f\",\"x\":1}\n{\"executable\":\"/t/prony_runner-2\"}";
        assert_eq!(program(messages, "prony-runner"), Some(PathBuf::from("/t/prony_runner-2")));
        assert_eq!(program(messages, "prony"), None);
    }

    #[test]
    fn tests_near_a_file_are_those_of_its_outer_module() {
        assert_eq!(module("crates/prony-runner/src/figures/span.rs"), "figures");
        assert_eq!(module("crates/prony-analysis/src/conclude.rs"), "conclude");
    }

    #[test]
    fn examined_files_are_those_of_the_list() {
        let text = "# a list\nexamine_globs = [\n  \"a/b.rs\",\n  \"a/c/**/*.rs\",\n]\nadditional = [\"--lib\"]\n";
        assert_eq!(examined(text), ["a/b.rs", "a/c/"]);
    }

    #[test]
    fn every_accepted_mutant_has_a_reason_and_exists() {
        let root = crate::root();
        for line in ACCEPTED.lines() {
            let (what, why) = line.split_once(" # ").expect("a reason");
            let mut words = what.split(' ');
            let file = fs::read_to_string(root.join(words.next().expect("a file"))).expect("the file exists");
            let name = words.next().expect("a function");
            assert!(file.contains(&format!("fn {name}")) && !why.is_empty(), "{line}");
        }
    }
}
