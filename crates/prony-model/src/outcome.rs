//! The outcomes of trials. A trial that does not finish is a result too (METHOD 1.3).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Whose memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutOfMemory {
    /// The memory limit that the experiment sets was reached.
    Limit,
    /// The machine ran out of memory.
    Host,
    /// The language runtime reached its own heap limit.
    Runtime,
}

/// How a trial ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Outcome {
    /// Every phase ended as it should.
    Ok,
    /// Memory ran out.
    OutOfMemory {
        /// Whose memory ran out.
        by: OutOfMemory,
    },
    /// A declared time limit was reached.
    TimedOut,
    /// The subject was ended by a signal that prony did not send.
    Crashed {
        /// The signal's number.
        signal: i32,
    },
    /// The subject reported a failure: an exit code or an error.
    Failed {
        /// The exit code, where there is one.
        code: Option<i32>,
    },
    /// The disk was full.
    DiskFull,
    /// Data read back differs from what was written, or from the expected answer.
    WrongAnswer,
    /// An open-loop rate was not sustained.
    Saturated,
    /// The engine or machine does not offer what the trial needs.
    Unsupported,
    /// The subject was ended by SIGKILL, and there is no evidence who sent it or why.
    Killed,
    /// The run was interrupted; the trial is not a result and runs again on resume.
    Interrupted,
}

impl Outcome {
    /// The outcome's name in tables, files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::OutOfMemory { .. } => "out of memory",
            Self::TimedOut => "timed out",
            Self::Crashed { .. } => "crashed",
            Self::Failed { .. } => "failed",
            Self::DiskFull => "disk full",
            Self::WrongAnswer => "wrong answer",
            Self::Saturated => "saturated",
            Self::Unsupported => "unsupported",
            Self::Killed => "killed, cause unknown",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether something other than the subject may have ended the trial, so that its end shows nothing about the
    /// subject: the machine's memory, a kill of unknown cause, the user.
    pub const fn is_disturbance(self) -> bool {
        matches!(self, Self::OutOfMemory { by: OutOfMemory::Host } | Self::Killed | Self::Interrupted)
    }

    /// Whether the subject failed because of itself: it failed, nothing else may have ended it, and engine and machine
    /// support what it needs.
    pub const fn is_own_failure(self) -> bool {
        !self.is_ok() && !self.is_disturbance() && !matches!(self, Self::Unsupported)
    }

    /// Whether every phase ended as it should.
    pub const fn is_ok(self) -> bool {
        matches!(self, Self::Ok)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { by: OutOfMemory::Limit } => f.write_str("out of memory (limit)"),
            Self::OutOfMemory { by: OutOfMemory::Host } => f.write_str("out of memory (host)"),
            Self::OutOfMemory { by: OutOfMemory::Runtime } => f.write_str("out of memory (runtime's heap)"),
            Self::Crashed { signal } => write!(f, "crashed (signal {signal})"),
            Self::Failed { code: Some(code) } => write!(f, "failed (exit code {code})"),
            other => f.write_str(other.name()),
        }
    }
}

/// Outcomes with their numbers, in the order of their first: `30 crashed (signal 11), 2 timed out`.
pub fn counted(outcomes: impl IntoIterator<Item = Outcome>) -> String {
    let mut kinds: Vec<(Outcome, usize)> = Vec::new();
    for outcome in outcomes {
        match kinds.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, count)) => *count += 1,
            None => kinds.push((outcome, 1)),
        }
    }
    kinds.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect::<Vec<_>>().join(", ")
}

/// How a trial ended, with the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ending {
    /// How it ended.
    pub outcome: Outcome,
    /// The phase in which the trial ended, unless it succeeded.
    pub phase: Option<String>,
    /// Time from the start of that phase (of the trial, if no phase had begun) to the end.
    pub after: Nanos,
    /// The evidence: an increase of `oom_kill`, signals, messages, last lines of output.
    pub evidence: Vec<String>,
}
