//! From a file to an experiment that can run.

use std::path::Path;

use prony_core::experiment::design::Experiment;
use prony_core::experiment::{self, Overrides};
use prony_engines::catalog::Catalog;

use crate::error::Error;
use crate::runner::place::named;

/// Reads and checks the file, and whether its calls are of one function each; all its faults at once.
///
/// # Errors
/// Where it cannot be read, or has faults.
pub fn experiment(file: &Path, overrides: &Overrides) -> Result<Experiment, Error> {
    let text = std::fs::read_to_string(file).map_err(|source| Error::ReadFile { path: file.to_path_buf(), source })?;
    let name = file.display().to_string();
    let experiment = self::text(text, &name, overrides)?;
    match named::problems(&experiment) {
        problems if problems.is_empty() => Ok(experiment),
        problems => Err(Error::Experiment { file: name, text: experiment.source().to_owned(), problems }),
    }
}

/// Checks a text as if it were the file of this name; all its faults at once.
///
/// # Errors
/// Where it has faults.
pub fn text(text: String, name: &str, overrides: &Overrides) -> Result<Experiment, Error> {
    let name = name.to_owned();
    experiment::parse(&text, &name)
        .and_then(|raw| experiment::check(&raw, &Catalog, overrides))
        .map_err(|problems| Error::Experiment { file: name, text, problems })
}
