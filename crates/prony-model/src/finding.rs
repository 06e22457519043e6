//! The findings of guards. They are part of the record, and therefore separate from the guards, which read records.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a guard found, kept in the record and printed with the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The guard's name: `gaps_between_batches`, `swapped` ...
    pub guard: String,
    /// How much it matters.
    pub severity: Severity,
    /// The phase it concerns, where it concerns one.
    pub phase: Option<String>,
    /// One sentence, with the values observed.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// The values behind the message.
    pub data: Value,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// The result may mislead.
    Warning,
    /// The comparison is refused.
    Refusal,
}

impl Finding {
    /// A finding about a whole trial or run, without data.
    pub fn of(guard: &str, severity: Severity, message: String, hint: &str) -> Self {
        Self { guard: guard.into(), severity, phase: None, message, hint: hint.into(), data: Value::Null }
    }

    /// The same about one phase.
    pub fn in_phase(self, phase: &str) -> Self {
        Self { phase: Some(phase.to_owned()), ..self }
    }

    /// The same with its data.
    pub fn with(self, data: Value) -> Self {
        Self { data, ..self }
    }
}
