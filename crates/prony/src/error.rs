//! Errors of the command line. Each variant says what could not be done and keeps the underlying error.

use std::io;
use std::path::{Path, PathBuf};

use prony_model::error::message;
use prony_results::RunId;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A run or what it needs.
    #[error(transparent)]
    Runner(#[from] prony_runner::Error),
    /// The directory or the command of a program.
    #[error(transparent)]
    Place(#[from] prony_place::Error),
    /// A report.
    #[error(transparent)]
    Report(#[from] prony_report::Error),
    /// The results database.
    #[error(transparent)]
    Results(#[from] prony_results::Error),
    /// The operating system refused what every trial needs.
    #[error(transparent)]
    Os(#[from] prony_os::Error),
    /// A simulated power failure.
    #[error(transparent)]
    Powercut(#[from] prony_powercut::Error),
    /// Output could not be written.
    #[error("cannot write {what}")]
    Write {
        /// What was being written: `the tables`, a file's name ...
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// Input could not be read.
    #[error("cannot read {what}")]
    Read {
        /// What was being read.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// Output could not be turned into JSON.
    #[error("cannot write {what} as JSON")]
    Json {
        /// What was being written.
        what: &'static str,
        /// The cause.
        source: serde_json::Error,
    },
    /// What a trial needs could not be made: a socket, a thread, a signal handler.
    #[error("cannot {doing}")]
    Setup {
        /// What was attempted.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// A page was written, and no browser shows it.
    #[error("cannot show `{}` in a browser", .path.display())]
    Open {
        /// The page.
        path: PathBuf,
        /// What the system says, or how the command ended.
        source: io::Error,
    },
    /// Errors of what was made of the options of a command, in words of these options.
    #[error("{text}")]
    Worded {
        /// The whole message, as [`Error::text`] gives it.
        text: String,
    },
    /// Arguments that do not go together.
    #[error("{message}")]
    Arguments {
        /// What does not go together.
        message: String,
        /// What to do.
        hint: String,
    },
}

impl Error {
    /// Arguments that do not go together, and what to do.
    pub(crate) fn arguments(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Arguments { message: message.into(), hint: hint.into() }
    }

    /// Takes what the system says about a file that could not be written.
    pub(crate) fn write_file(path: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self::Write { what: format!("`{}`", path.display()), source }
    }

    /// Takes what the system says about output that could not be written.
    pub(crate) fn write(what: impl Into<String>) -> impl Fn(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Write { what: what.clone(), source }
    }

    /// Takes what the system says about a file that could not be read.
    pub(crate) fn read_file(path: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self::Read { what: format!("`{}`", path.display()), source }
    }

    /// Takes what the system says about something that could not be made.
    pub(crate) fn setup(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Setup { doing, source }
    }

    /// What a file names by `{env.NAME}` must be as it was when a run began that is resumed.
    ///
    /// # Errors
    /// Where one of these variables has another value.
    pub(crate) fn if_changed(variables: &[&str], run: RunId, what: &str) -> Result<(), Self> {
        let Some(first) = variables.first() else { return Ok(()) };
        Err(Self::arguments(
            format!("the environment variable `{first}`, which the file uses, has changed since run {run} began"),
            format!("set it to the value that it had, or start a new {what} without --resume"),
        ))
    }

    /// What an experiment's file does not allow, if that is the error: its first fault.
    pub(crate) fn first_problem(&self) -> Option<String> {
        let Self::Runner(prony_runner::Error::Experiment { problems, .. }) = self else { return None };
        Some(problems.first()?.message.clone())
    }

    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Runner(error) => error.hint(),
            Self::Place(error) => error.hint(),
            Self::Report(error) => error.hint(),
            Self::Results(error) => error.hint(),
            Self::Powercut(error) => error.hint(),
            Self::Arguments { hint, .. } => Some(hint.clone()),
            Self::Open { .. } => {
                Some("the page was written: open the file in a browser, or install `xdg-utils`".to_owned())
            }
            _ => None,
        }
    }

    /// The whole message: excerpts of a file with faults, cause chain, hint; ends with a newline.
    pub fn text(&self) -> String {
        match self {
            Self::Runner(error) => error.text(),
            Self::Worded { text } => text.clone(),
            _ => message(self, self.hint()),
        }
    }

    /// Whether the reader of prony's output closed the pipe, which is not a failure (exit code 0).
    pub fn is_broken_pipe(&self) -> bool {
        let (Self::Write { source, .. } | Self::Report(prony_report::Error::Write { source, .. })) = self else {
            return false;
        };
        source.kind() == io::ErrorKind::BrokenPipe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_lost_its_supervisor_can_go_on() {
        let ended = prony_runner::Error::from(prony_os::Error::SupervisorEnded { program: "x".to_owned() });
        let text = Error::from(ended).text();
        assert!(text.contains("prony run --resume"), "{text}");
    }
}
