//! One trial of the plan: its block, position, variant and seed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One trial of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct PlannedTrial {
    /// The number of the block, from 0.
    pub block: u32,
    /// The part of the block, from 0: a baseline and at most five variants of one stratum, or a whole block where
    /// nothing is compared. A variant is paired with the baseline of its own sub-block. A sub-block that was
    /// interrupted runs again under another number.
    pub sub_block: u32,
    /// The position within the whole plan, from 0; unique within a run.
    pub position: u32,
    /// Index into the experiment's variants.
    pub variant: usize,
    /// Which of the two labels of a baseline; `A` for everything else.
    pub label: Label,
    /// Seeds data and operation order. Equal for all trials of one block, so that they do the same work.
    pub seed: u64,
}

/// The two labels of a baseline that runs twice a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// The baseline, and every other variant.
    A,
    /// The baseline again.
    A2,
}
