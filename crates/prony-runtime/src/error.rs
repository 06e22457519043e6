//! Errors of preparing the probe of a language runtime, and of reading its reports.

use std::io;
use std::path::PathBuf;

/// Why a probe cannot be prepared or understood.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    /// The function to be timed is not named in the form that its runtime needs.
    #[error("`{call}` does not name a function in the form `{form}`")]
    Call {
        /// As written.
        call: String,
        /// The expected form.
        form: &'static str,
    },
    /// A path that cannot be passed to a probe.
    #[error(
        "`{path}` cannot be passed to a language runtime: it must be absolute, UTF-8, in one line and, for Python, \
         without `:`"
    )]
    ProbePath {
        /// The path.
        path: PathBuf,
    },
    /// A line of the channel of marks that is not a probe's.
    #[error("`{line}` is not a line of a probe")]
    ProbeLine {
        /// Its beginning.
        line: String,
        /// The cause.
        source: serde_json::Error,
    },
}

impl Error {
    /// A file error, for `map_err`.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}
