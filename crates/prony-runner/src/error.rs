//! Errors of preparing a run and of running its trials. Each error names its object and keeps its source.

use std::io;
use std::path::{Path, PathBuf};

use prony_experiment::{Problem, render};
use prony_model::error::message;
use prony_model::number::count;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The results database.
    #[error(transparent)]
    Results(#[from] prony_results::Error),
    /// The directory in which a program works, or a step beside its trials.
    #[error(transparent)]
    Place(prony_place::Error),
    /// An experiment file cannot be read.
    #[error("cannot read `{}`", .path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An experiment file has faults.
    #[error("`{file}` has {}; nothing was run", count(.problems.len(), "problem"))]
    Experiment {
        /// The file, as named.
        file: String,
        /// Its text.
        text: String,
        /// All faults.
        problems: Vec<Problem>,
    },
    /// The operating system refused what every trial needs.
    #[error(transparent)]
    Os(#[from] prony_os::Error),
    /// A probe inside a runtime could not be prepared.
    #[error(transparent)]
    Runtime(#[from] prony_runtime::Error),
    /// What a trial needs could not be made: a socket, a thread, a directory.
    #[error("cannot {doing}")]
    Setup {
        /// What was attempted.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A service ended because another process uses the port that was free a moment before.
    #[error("a service ended at each attempt because its port was in use")]
    PortInUse,
    /// All trials are done and stored, but a step after the last one failed.
    #[error("{message}; the finished trials are saved")]
    CleanUp {
        /// Which step of which program failed, and how.
        message: String,
    },
    /// The run is refused: it is impossible on this machine or with this file.
    #[error("{message}")]
    Refused {
        /// What cannot be done.
        message: String,
        /// What to do.
        hint: String,
    },
}

impl From<prony_place::Error> for Error {
    /// An error of the operating system stays one, whether a step beside a trial meets it or the trial itself.
    fn from(error: prony_place::Error) -> Self {
        match error {
            prony_place::Error::Os(error) => Self::Os(error),
            error => Self::Place(error),
        }
    }
}

impl Error {
    /// What cannot be done beside what `doing` names, by the system's error.
    pub(crate) fn setup(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Setup { doing, source }
    }

    /// What to do about this error, if anything.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Results(error) => error.hint(),
            Self::Place(error) => error.hint(),
            Self::Os(error) => error.hint(),
            Self::Refused { hint, .. } => Some(hint.clone()),
            Self::ReadFile { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("`prony new FILE` writes a new experiment file".to_owned())
            }
            // A program where a file of prony's was meant.
            Self::Experiment { file, .. } if !file.ends_with(".toml") && Path::new(file).is_file() => {
                Some("an experiment file is TOML; to measure a program: `prony exec COMMAND`".to_owned())
            }
            _ => None,
        }
    }

    /// The whole message: excerpts of a file with faults, cause chain, hint; ends with a newline.
    pub fn text(&self) -> String {
        self.excerpts() + &message(self, self.hint())
    }

    fn excerpts(&self) -> String {
        let Self::Experiment { file, text: source, problems } = self else { return String::new() };
        let mut text: String =
            problems.iter().take(SHOWN).map(|problem| format!("{}\n", render(problem, file, source))).collect();
        if problems.len() > SHOWN {
            text += &format!("and {}\n\n", count(problems.len() - SHOWN, "more problem"));
        }
        text
    }
}

/// How many problems of a file are shown at most; the others are shown once these are fixed.
const SHOWN: usize = 20;
