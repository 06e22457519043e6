//! What can go wrong while a report is made; every variant names its noun and keeps its source.

use std::io;

use prony_model::latency::LatencyError;
use prony_results::RunId;

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
    /// A stored latency histogram is damaged.
    #[error(transparent)]
    Latency(#[from] LatencyError),
    /// A run has nothing to draw for a figure.
    #[error("run {run} has nothing for the figure `{figure}`{of}")]
    NoFigure {
        /// The run.
        run: RunId,
        /// The figure's name.
        figure: &'static str,
        /// What of it was asked, as the end of a sentence; empty where all of it was.
        of: String,
    },
}

impl Error {
    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Results(error) => error.hint(),
            Self::NoFigure { run, .. } => Some(format!("`prony plot {run}` lists what it offers")),
            _ => None,
        }
    }
}
