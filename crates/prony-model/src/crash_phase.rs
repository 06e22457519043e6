//! What crash trials are to do: their phases, the cuts of a plan, and the steps of a cut.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// A phase of crash trials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashSpec {
    /// Its name, unique among the phases.
    pub name: String,
    /// The phase whose writes are repeated.
    pub during: String,
    /// Further collections in which each transaction writes records of the same numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// What is cut off.
    pub cut: CutKind,
    /// How many cuts, each with a store of its own.
    pub cuts: u32,
    /// A cut comes at a random moment of this time, which begins with the first transaction.
    pub within: Nanos,
    /// States of the disk that are made of each power failure; 1 of a process crash, after which there is one.
    pub images: u32,
    /// Whether the new store is not made durable before the first transaction.
    #[serde(default)]
    pub creation: bool,
}

crate::words! {
    /// What a cut ends, and so what survives it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum CutKind {
        /// The process, by SIGKILL: what it has written survives in the page cache.
        Kill = "kill";
        /// The power, on a simulated disk: what was made durable survives, and of what was pending what the image contains.
        PowerCut = "powercut";
    }
}

impl CrashSpec {
    /// The key of its action in the experiment file.
    pub const fn action(&self) -> &'static str {
        self.cut.name()
    }
}

/// A cut of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedCut {
    /// Index into the experiment's variants.
    pub variant: usize,
    /// Index into the crash phases of that variant.
    pub crash: usize,
    /// The number of the cut, from 0.
    pub cut: u32,
    /// Seeds data and order of the operations; equal for a cut of all variants.
    pub seed: u64,
    /// When it comes, from the first transaction on.
    pub moment: Nanos,
}

/// What a process does in a crash trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashStep {
    /// Opens a new store and repeats the writes, until it is ended.
    Write,
    /// Opens the store that was left, and counts what survived.
    Check {
        /// The instant of the cut, by `CLOCK_MONOTONIC`.
        cut: Nanos,
        /// Commits that were acknowledged before it; the next one was under way, and may be there.
        acknowledged: u64,
    },
}
