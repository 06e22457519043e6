//! Each check of validity: data in, finding out. A guard may refuse a comparison, never delete data.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a guard found, kept in the record and printed with the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The guard's name: `gaps_between_batches`, `swapped` ...
    pub guard: String,
    /// How much it matters.
    pub severity: Severity,
    /// The phase it concerns, where it concerns one.
    pub phase: Option<String>,
    /// One sentence, with figures.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// The figures behind it.
    pub data: Value,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// The figure may mislead.
    Warning,
    /// The comparison is refused.
    Refusal,
}
