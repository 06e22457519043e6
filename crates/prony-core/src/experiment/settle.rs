//! When a process tree counts as quiet.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Fraction, Nanos};

/// When a process tree and its store count as quiet (METHOD 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettleSpec {
    /// CPU, writes, size and dirty pages must stay under the thresholds for so long.
    pub quiet: Nanos,
    /// After so long the finding is `not settled`.
    pub within: Nanos,
    /// CPU of the tree, as a share of one core, below which it is quiet.
    pub cpu: Fraction,
    /// Bytes written per second, growth and dirty pages of the store below which it is quiet.
    pub bytes: Bytes,
}
