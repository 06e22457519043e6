//! Errors while a run is prepared and its trials run; every variant names what it is about and keeps its source.

use std::io;
use std::path::{Path, PathBuf};

use prony_experiment::{Problem, render};
use prony_model::error::message;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The results database.
    #[error(transparent)]
    Results(#[from] prony_results::Error),
    /// Output could not be written.
    #[error("cannot write {what}")]
    Write {
        /// What was being written: `the tables`, a file's name ...
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// An experiment file cannot be read.
    #[error("cannot read `{}`", .path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An experiment file has faults.
    #[error("`{file}` has {} problem{}; nothing was run", .problems.len(), if .problems.len() == 1 { "" } else { "s" })]
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
    /// What a trial needs could not be made: a socket, a thread, a signal handler.
    #[error("cannot {doing}")]
    Setup {
        /// What was attempted.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A step that a program needs beside its trials failed.
    #[error("{step} of program `{program}` failed: {message}")]
    Step {
        /// The program's name.
        program: String,
        /// `build`, `prepare`, `conclude`, `cleanup`, `change`.
        step: &'static str,
        /// What happened.
        message: String,
    },
    /// A symbolic link leads out of a directory that is to be copied, or out of a copy: a write through it would change
    /// the user's own files.
    #[error("`{}` leads out of {}, to `{}`{}", .link.display(), tree(.of.as_ref(), .directory), .to.display(), more_links(*.more))]
    LinkOut {
        /// The link.
        link: PathBuf,
        /// The directory.
        directory: PathBuf,
        /// What this directory is, where it is not the program's directory itself.
        of: Option<String>,
        /// What it leads to.
        to: PathBuf,
        /// How many more links lead out.
        more: usize,
    },
    /// A function to be timed is in several files.
    #[error("the call `{call}` of phase `{phase}` fits {} files: {}", .names.len(), listed(.names))]
    AmbiguousCall {
        /// The phase.
        phase: String,
        /// The call, as written.
        call: String,
        /// Each function that it fits, written so that only that one fits, if possible.
        names: Vec<String>,
        /// What to do.
        hint: String,
    },
    /// A program's directory could not be copied.
    #[error("cannot copy `{}`", .path.display())]
    Copy {
        /// The file or directory at fault.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// All trials are done and stored, but a step after the last one failed.
    #[error("{message}; the finished trials are saved")]
    CleanUp {
        /// Which step of which program failed, and how.
        message: String,
    },
    /// The request cannot be fulfilled on this machine or with this file.
    #[error("{message}")]
    Refused {
        /// What cannot be done.
        message: String,
        /// What to do.
        hint: String,
    },
}

impl Error {
    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Results(error) => error.hint(),
            Self::LinkOut { directory, to, .. } if directory.starts_with(to) => Some(
                "it leads to what holds the directory itself, which cannot be copied in its place: remove it"
                    .to_owned(),
            ),
            Self::LinkOut { of: None, .. } => Some(
                "`links = \"copy\"` in the program's table copies what such links lead to, `links = \"keep\"` keeps them; or \
                 replace the link"
                    .to_owned(),
            ),
            Self::LinkOut { of: Some(_), .. } => {
                Some("`links = \"copy\"` in the program's table copies what such links lead to; or replace the link".to_owned())
            }
            Self::Refused { hint, .. } | Self::AmbiguousCall { hint, .. } => Some(hint.clone()),
            Self::Os(prony_os::Error::SupervisorEnded { .. }) => Some(GO_ON.to_owned()),
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
            text += &format!("and {} more problems\n\n", problems.len() - SHOWN);
        }
        text
    }
}

fn tree(of: Option<&String>, directory: &Path) -> String {
    of.cloned().unwrap_or_else(|| format!("the directory `{}`", directory.display()))
}

fn more_links(more: usize) -> String {
    if more == 0 { String::new() } else { format!("; {more} more lead out, too") }
}

/// Problems of a file that are shown: further ones follow when these are fixed.
const SHOWN: usize = 20;

/// Names that are listed; further ones are counted.
const MOST_NAMES: usize = 20;

/// The first names of a list, and how many more there are.
pub(crate) fn listed(names: &[String]) -> String {
    let first: Vec<String> = names.iter().take(MOST_NAMES).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(MOST_NAMES) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

const GO_ON: &str = "finished trials are saved: `prony run --resume` continues";
