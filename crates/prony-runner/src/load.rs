//! Loads and checks an experiment file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use prony_engines::catalog::Catalog;
use prony_experiment::Problem;
use prony_experiment::design::Experiment;
use prony_model::catalog::{Overrides, Surroundings};
use prony_place::call_matches;
use prony_place::paths::{absolute, utf8};

use crate::error::Error;

/// Bytes of the longest experiment file; a longer one is something else, such as `/dev/zero`.
const LONGEST: u64 = 4 << 20;

/// Reads and checks the file, and whether its calls are of one function each; all its faults at once.
///
/// # Errors
/// Where it cannot be read, or has faults.
pub fn experiment(file: &Path, overrides: &Overrides, surroundings: &dyn Surroundings) -> Result<Experiment, Error> {
    let (text, name) = read(file)?;
    let experiment = self::text(text, &name, overrides, surroundings)?;
    match call_matches::problems(&experiment) {
        problems if problems.is_empty() => Ok(experiment),
        problems => Err(Error::Experiment { file: name, text: experiment.source().to_owned(), problems }),
    }
}

/// The experiment with absolute paths, as it is run and recorded: in another folder, from which the run may be resumed, relative
/// paths lead elsewhere.
///
/// # Errors
/// Where a path is no text, or the current directory does not exist any more.
pub fn with_absolute_paths(experiment: Experiment) -> Result<Experiment, Error> {
    Ok(experiment.with_paths(absolute)?)
}

/// The file's text, and its name.
///
/// # Errors
/// If the file cannot be read, is not text, or is too long.
pub fn read(file: &Path) -> Result<(String, String), Error> {
    let unread = |source| Error::ReadFile { path: file.to_path_buf(), source };
    let name = utf8(file)?.to_owned();
    let mut bytes = Vec::new();
    File::open(file).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes)).map_err(unread)?;
    if bytes.len() as u64 > LONGEST {
        let message = format!("the file is longer than {} MiB, too long for an experiment", LONGEST >> 20);
        return Err(unread(io::Error::new(io::ErrorKind::InvalidData, message)));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok((text, name)),
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            // What is valid is the same in both texts, so the offset is too.
            let at = error.utf8_error().valid_up_to();
            let problems = prony_experiment::not_utf8(&text, at);
            Err(Error::Experiment { file: name, text, problems })
        }
    }
}

/// Warnings about what is valid in the file but probably unintended: each a text with its place, and what to do.
pub fn warnings(experiment: &Experiment, file: &Path) -> Vec<(String, Option<String>)> {
    let text = |problem: &Problem| {
        format!("warning: {}:{}:{}: {}", file.display(), problem.line, problem.column, problem.message)
    };
    let is_beside = |word: &str| file.parent().unwrap_or(Path::new("")).join(word).is_file();
    prony_experiment::warnings(experiment, &is_beside)
        .into_iter()
        .map(|problem| (text(&problem), problem.hint))
        .collect()
}

/// Checks a text as if it were the file of this name; all its faults at once.
///
/// # Errors
/// Where it has faults.
pub fn text(
    text: String,
    name: &str,
    overrides: &Overrides,
    surroundings: &dyn Surroundings,
) -> Result<Experiment, Error> {
    let name = name.to_owned();
    prony_experiment::parse(&text, &name)
        .and_then(|raw| prony_experiment::check_in(&raw, &Catalog, surroundings, overrides))
        .map_err(|problems| Error::Experiment { file: name, text, problems })
}
