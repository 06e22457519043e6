//! The reasons why a trial ends in the worker before its plan does.

use prony_model::latency::LatencyError;
use prony_model::link::LinkError;
use prony_model::protocol::{Failure, FromWorker};
use prony_workload::RowsError;

use crate::driver::EngineError;
use crate::timed_loop::chain;

/// The reason for the end of a trial.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The engine does not offer it.
    #[error("`{engine}` does not offer {what}")]
    Unsupported {
        /// The driver's name.
        engine: String,
        /// What was requested.
        what: String,
    },
    /// Operations beside these failed, and report that themselves.
    #[error("the operations beside these have failed")]
    OtherFailed,
    /// Data read back differ from what was written.
    #[error("{0}")]
    WrongAnswer(String),
    /// The connection to the runner failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The system could not start a further thread.
    #[error("client {number} of {of} could not be started")]
    Client {
        /// The number of the client, from 1.
        number: u32,
        /// How many clients were requested.
        of: u32,
        /// The system's error.
        source: std::io::Error,
    },
    /// The list of acknowledged commits cannot be written or read.
    #[error("the list of acknowledged commits cannot be used")]
    Acknowledged {
        /// The system's error.
        source: std::io::Error,
    },
    /// A file of documents cannot be read, or was changed.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// A histogram cannot be encoded.
    #[error(transparent)]
    Latency(#[from] LatencyError),
    /// The plan has phases that are impossible in this order.
    #[error("`{phase}` cannot run: {why}")]
    Order {
        /// The phase.
        phase: String,
        /// The obstacle.
        why: &'static str,
    },
    /// The experiment describes no records.
    #[error("the phases have operations, but no `[data]` describes their records")]
    NoData,
    /// An action that repeats no operations was asked to repeat some.
    #[error("there are no operations to repeat")]
    NoOperations,
    /// The runner requested a phase that the plan does not have, or sent a second plan.
    #[error("the runner requested {0}, which is not in the plan")]
    Protocol(String),
}

/// A trial that ended before its plan.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct HostError {
    /// The phase under way, where there was one.
    pub phase: Option<usize>,
    /// What ended it.
    #[source]
    pub cause: Stop,
}

impl From<Stop> for HostError {
    /// Outside of the phases.
    fn from(cause: Stop) -> Self {
        Self { phase: None, cause }
    }
}

impl HostError {
    /// The message to the runner.
    pub fn to_message(&self) -> FromWorker {
        FromWorker::Failed { index: self.phase, failure: self.cause.failure(), message: chain(&self.cause) }
    }
}

impl Stop {
    /// The kind of end.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Engine(EngineError::Unsupported { .. } | EngineError::Unknown(_)) | Self::Unsupported { .. } => {
                Failure::Unsupported
            }
            Self::Engine(EngineError::OutOfMemory { .. }) => Failure::OutOfMemory,
            Self::Engine(EngineError::DiskFull { .. }) => Failure::DiskFull,
            Self::WrongAnswer(_) | Self::Engine(EngineError::WrongData(_)) => Failure::WrongAnswer,
            Self::Engine(_) | Self::OtherFailed | Self::Rows(_) | Self::Order { .. } => Failure::Failed,
            _ => Failure::OfProny,
        }
    }
}
