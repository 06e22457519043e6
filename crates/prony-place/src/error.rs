//! Errors of preparing directories and of running programs in them. Each error names its object and keeps its source.

use std::io;
use std::path::{Path, PathBuf};

use prony_model::error::message;
use prony_model::number::{count, first_few};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused what a step beside the trials needs.
    #[error(transparent)]
    Os(#[from] prony_os::Error),
    /// A file or directory that an experiment names cannot be read.
    #[error("cannot read `{}`", .path.display())]
    ReadFile {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A program's output, or scratch, cannot be written.
    #[error("cannot write {what}")]
    Write {
        /// What was to be written: a file's name, `into` a folder's.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// What a program is launched with could not be made: a directory, a pipe, a terminal.
    #[error("cannot {doing}")]
    Setup {
        /// What was attempted.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A service cannot run as the user that its file names.
    #[error("no service can run as user `{name}`: `/etc/passwd` has no such user")]
    NoUser {
        /// The user.
        name: String,
    },
    /// The user of a service cannot reach its data.
    #[error("no service can run here as user `{name}`, who may not enter `{}`", .directory.display())]
    ShutOut {
        /// The user.
        name: String,
        /// The directory above the data.
        directory: PathBuf,
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
    #[error(
        "symbolic link `{}` leads out of {}, to `{}`{}",
        .link.display(), tree(.of.as_ref(), .directory), .to.display(), more_links(*.more)
    )]
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
    #[error("the function `{call}` of phase `{phase}` matches {} files: {}", .names.len(), listed(.names))]
    AmbiguousCall {
        /// The phase.
        phase: String,
        /// The call, as written.
        call: String,
        /// Each function that the call matches, written so that only this function matches, if possible.
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
    /// The run is refused: it is impossible on this machine or with this file.
    #[error("{message}")]
    Refused {
        /// What cannot be done.
        message: String,
        /// What to do.
        hint: String,
    },
}

impl Error {
    /// What to do about this error, if anything.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Os(error) => return error.hint(),
            Self::Refused { hint, .. } | Self::AmbiguousCall { hint, .. } => hint,
            Self::LinkOut { directory, to, .. } if directory.starts_with(to) => {
                "the link leads to a folder that contains the directory itself and cannot be copied into it: remove \
                 the link"
            }
            Self::LinkOut { of: None, .. } => {
                "`links = \"copy\"` in the program's table copies the targets of such links, `links = \"keep\"` \
                 keeps the links; or replace the link"
            }
            Self::LinkOut { of: Some(_), .. } => {
                "`links = \"copy\"` in the program's table copies the targets of such links; or replace the link"
            }
            Self::ShutOut { .. } => "run prony in a directory that other users may enter, such as one below `/var/tmp`",
            Self::Copy { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free space on the file system of scratch, or put scratch elsewhere with `--scratch DIR`"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// The whole message: cause chain, hint; ends with a newline.
    pub fn text(&self) -> String {
        message(self, self.hint())
    }

    /// A run that is refused: what cannot be done, and what to do.
    pub fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { message: message.into(), hint: hint.into() }
    }

    /// What could not be made for a launch, for `map_err`.
    pub(crate) fn setup<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> Self {
        move |error| Self::Setup { doing, source: error.into() }
    }

    /// A file or directory that cannot be copied, for `map_err`.
    pub(crate) fn copying(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Copy { path, source }
    }
}

fn tree(of: Option<&String>, directory: &Path) -> String {
    of.cloned().unwrap_or_else(|| format!("the directory `{}`", directory.display()))
}

fn more_links(more: usize) -> String {
    if more == 0 { String::new() } else { format!("; {} out of it", count(more, "more link")) }
}

/// Names that are listed; further ones are counted.
const MOST_NAMES: usize = 20;

/// The first names of a list, and how many more there are.
fn listed(names: &[String]) -> String {
    let named = names.iter().map(|name| format!("`{name}`")).collect();
    first_few(named, MOST_NAMES, (", ", " and "), "other file")
}
