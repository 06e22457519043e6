//! Errors while a report is made; each names what failed and keeps its source.

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
    /// A run has no data for a chart, or only zeros.
    #[error("run {run} has nothing to draw for the chart `{figure}`{of}")]
    NoFigure {
        /// The run.
        run: RunId,
        /// The chart's name.
        figure: &'static str,
        /// The metric that was requested, as the end of a sentence; empty where none was.
        of: String,
    },
}

impl Error {
    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Results(error) => error.hint(),
            Self::NoFigure { run, .. } => Some(format!("`prony plot {run}` lists the charts that this run offers")),
            _ => None,
        }
    }
}
