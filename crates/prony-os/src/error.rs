//! Errors of launching and limiting processes, and of files.

use std::io;
use std::path::PathBuf;

/// Why the operating system did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The supervisor process could not be started.
    #[error("cannot start the supervisor `{program}`")]
    Supervisor {
        /// The program that was to supervise.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The supervisor ended without an answer; its tree was killed as far as it could be found.
    #[error("the supervisor of `{program}` ended unexpectedly")]
    SupervisorEnded {
        /// The subject's program.
        program: String,
    },
    /// A message to or from the supervisor failed.
    #[error("the connection to the process that supervises `{program}` failed")]
    Channel {
        /// The subject's program.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// The subject's program could not be executed.
    #[error("cannot execute `{program}`")]
    Exec {
        /// The program as given.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// The subject's working directory could not be entered.
    #[error("cannot enter the directory `{directory}` for `{program}`")]
    Directory {
        /// The program as given.
        program: String,
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The subject could not be prepared for a reason that has no variant of its own.
    #[error("cannot prepare `{program}`: {what}")]
    Prepare {
        /// The program as given.
        program: String,
        /// What failed.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// A number that names no signal.
    #[error("{signal} is not the number of a signal that can be sent")]
    Signal {
        /// The number.
        signal: i32,
    },
    /// A requested limit cannot be enforced on this machine, so the experiment must not run as if it were.
    #[error("cannot limit {limit} of a process tree: {why}\nhint: {hint}")]
    Limit {
        /// `memory`, `cpus` or `pids`.
        limit: &'static str,
        /// The feature that this machine lacks.
        why: String,
        /// How to allow it.
        hint: &'static str,
    },
    /// A file or directory could not be used.
    #[error("cannot {action} `{path}`")]
    File {
        /// What was tried: `create`, `read` ...
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Error {
    /// What to do about this error, if anything beyond what the message says.
    pub fn hint(&self) -> Option<String> {
        let goes_on = "finished trials are saved: `prony run --resume` continues the run";
        matches!(self, Self::SupervisorEnded { .. }).then(|| goes_on.to_owned())
    }

    /// Whether it is a file that this user may not touch.
    pub(crate) fn is_denied(&self) -> bool {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        matches!(self, Self::File { source, .. } if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem))
    }

    /// A file error, for `map_err`.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}
