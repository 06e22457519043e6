//! Checks the sources (`cargo xtask check`), tests the engines outside the default build (`cargo xtask engines`), and
//! checks that tests notice a guard that is switched off (`cargo xtask mutants`).
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the binary speaks")]

mod cycles;
mod engines;
mod layers;
mod manifests;
mod mutants;
mod names;
mod sizes;
mod source;
mod unsafety;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check      layers between crates, cycles between sibling modules, chains of imports, sizes of files, lints of crates,
             unsafe code, banned words in identifiers and file names
  engines    builds and tests the engines outside the default build; or only those named
  mutants    switches each guard and each correction of figures off, one after another, and requires that a unit test
             fails; or only those in files whose path contains one of the texts given";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = root();
    let outcome = match arguments.first().map(String::as_str) {
        Some("check") => check(&root),
        Some("mutants") => mutants::run(&root, &arguments[1..]),
        Some("engines") => engines::run(&root, &arguments[1..]),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's root: the folder above this crate.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn check(root: &Path) -> Result<String, String> {
    let files = source::rust_files(root).map_err(|e| format!("cannot read the sources: {e}"))?;
    let texts = source::texts(root).map_err(|e| format!("cannot read the sources: {e}"))?;
    let mut faults = layers::check(root)?;
    faults.extend(cycles::check(&files));
    faults.extend(sizes::check(&files));
    faults.extend(manifests::check(root)?);
    faults.extend(unsafety::check(&texts));
    faults.extend(words::check(&texts));
    if faults.is_empty() {
        Ok(format!(
            "{} files: no fault in layers, module cycles, chains of imports, sizes, lints, unsafe code and words",
            files.len()
        ))
    } else {
        Err(faults.join("\n"))
    }
}
