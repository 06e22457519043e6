//! Fuzz targets: each takes any bytes, gives them to one of prony's readers, and panics where a promise is broken.
//!
//! They are called from two places. `fuzz/run` runs them under libFuzzer, guided by coverage, for as long as is asked;
//! `tests/mutated_seeds.rs` gives them mutated seeds for some seconds in every `cargo test`.

mod answers;
mod database;
mod documents;
mod experiment;
mod probe;
mod queries;
#[allow(dead_code, clippy::unwrap_used, reason = "made for prony's own tests, which use all of it")]
#[path = "../../crates/prony/tests/it/records.rs"]
mod records;
#[allow(dead_code, clippy::unwrap_used, reason = "made for prony's own tests, which use all of it")]
#[path = "../../crates/prony/tests/it/synthetic.rs"]
mod synthetic;
mod worker;

use std::path::{Path, PathBuf};
use std::{fs, io};

/// A reader of prony that takes what others wrote.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name; `fuzz-` and this name are that of its program.
    pub name: &'static str,
    /// Takes any bytes; panics where a promise is broken.
    pub run: fn(&[u8]),
    /// Inputs to begin with, each of them valid or nearly so.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// The text of an experiment file, up to its plan.
pub const EXPERIMENT: Target = Target { name: "experiment", run: experiment::run, seeds: experiment::seeds };

/// Messages between the runner and a store's worker.
pub const WORKER: Target = Target { name: "worker", run: worker::run, seeds: worker::seeds };

/// Lines that probes and programs write.
pub const PROBE: Target = Target { name: "probe", run: probe::run, seeds: probe::seeds };

/// Columns of the results database.
pub const DATABASE: Target = Target { name: "database", run: database::run, seeds: database::seeds };

/// Documents, indexes and a query over them.
pub const QUERIES: Target = Target { name: "queries", run: queries::run, seeds: queries::seeds };

/// Files of documents.
pub const DOCUMENTS: Target = Target { name: "documents", run: documents::run, seeds: documents::seeds };

/// Answers of servers to the load generator.
pub const ANSWERS: Target = Target { name: "answers", run: answers::run, seeds: answers::seeds };

/// Every target.
pub const TARGETS: [Target; 7] = [EXPERIMENT, WORKER, PROBE, DATABASE, QUERIES, DOCUMENTS, ANSWERS];

impl Target {
    /// Writes each seed to a file of its own.
    ///
    /// # Errors
    /// Where the folder or a file cannot be written.
    pub fn write_seeds(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut seeds = (self.seeds)().into_iter().enumerate();
        seeds.try_for_each(|(number, seed)| fs::write(folder.join(format!("seed-{number:03}")), seed))
    }
}

/// What the programs of libFuzzer are made of.
#[cfg(feature = "libfuzzer")]
#[doc(hidden)]
pub use libfuzzer_sys::fuzz_target;

/// Writes the seeds of a target to the folder that `PRONY_FUZZ_SEEDS` names, before libFuzzer reads its corpus there.
#[cfg(feature = "libfuzzer")]
#[doc(hidden)]
pub fn write_seeds_if_asked(target: &Target) {
    if let Some(folder) = std::env::var_os("PRONY_FUZZ_SEEDS") {
        target.write_seeds(folder.as_ref()).expect("the folder of the seeds can be written");
    }
}

/// The program of a target.
#[cfg(feature = "libfuzzer")]
#[macro_export]
macro_rules! libfuzzer {
    ($target:expr) => {
        $crate::fuzz_target!(init: $crate::write_seeds_if_asked(&$target), |data: &[u8]| ($target.run)(data));
    };
}

/// A folder of the repository.
fn repository(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)
}

/// The contents of every file below a folder whose name ends in `extension`, in the order of their paths.
fn files(folder: &Path, extension: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .into_iter()
        .flat_map(|path| match path.extension() {
            _ if path.is_dir() => files(&path, extension),
            Some(found) if found == extension => fs::read(path).into_iter().collect(),
            _ => Vec::new(),
        })
        .collect()
}
