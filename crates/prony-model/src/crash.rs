//! Crash trials: a phase's writes are repeated until a cut, and a fresh process counts what has survived.
//!
//! They are planned beside the timed trials and stored separately: no figure, comparison or chart of trials includes one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::crash_phase::{CrashSpec, CrashStep, CutKind, PlannedCut};
use crate::reading::Reading;
use crate::record::EffectiveStore;
use crate::spec::Durability;
use crate::units::{Bytes, Nanos};

/// A cut, and what a fresh process found after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CutRecord {
    /// Index of the variant.
    pub variant: usize,
    /// The name of the crash phase.
    pub phase: String,
    /// The number of the cut, from 0.
    pub cut: u32,
    /// What was ended.
    pub kind: CutKind,
    /// Seeds data and order of the operations.
    pub seed: u64,
    /// When the cut was planned, from the first transaction on.
    pub moment: Nanos,
    /// The store's settings and what its driver promises; `None` where it was never open.
    pub effective: Option<EffectiveStore>,
    /// What was cut, or why nothing was.
    pub ending: CutEnding,
    /// From launch to clean-up.
    pub took: Nanos,
}

/// How a cut went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CutEnding {
    /// The cut came while the writes went on.
    Cut {
        /// Commits that were acknowledged before it.
        acknowledged: u64,
        /// From the first transaction to the cut.
        after: Nanos,
        /// What was found in each state in which the store may be after it; after a process crash there is one.
        images: Vec<ImageRecord>,
        /// Why the images may be less severe than a power failure; empty where nothing is known of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        remarks: Vec<String>,
        /// Where the cut is saved, of which the images can be made again. A cut that broke no promise is not kept.
        #[serde(default)]
        saved: Reading<String>,
    },
    /// The engine or machine does not offer what the trial needs.
    Unsupported {
        /// What is missing.
        why: String,
    },
    /// The writes ended before the cut.
    Failed {
        /// The error.
        message: String,
    },
}

/// A state in which the store may be after a cut, and what was found in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageRecord {
    /// Its number, from 0.
    pub image: u32,
    /// What of the pending writes it contains.
    pub contains: String,
    /// What a fresh process found.
    pub found: Found,
}

/// What a fresh process found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// Every record was read.
    Survived(Box<Survived>),
    /// The store does not open, or the process that opened it was ended by a signal other than SIGKILL.
    DoesNotOpen {
        /// The error.
        message: String,
    },
    /// The store opens, and reading its records fails.
    Unreadable {
        /// The error.
        message: String,
    },
    /// The check itself failed, which says nothing about the store.
    Unchecked {
        /// Why.
        why: String,
    },
}

/// What of the commits was found in a store that opens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Survived {
    /// Time that opening the store took, recovery included.
    pub open: Nanos,
    /// Bytes that the process read from the block layer while it opened the store; what the page cache held is not in it.
    pub read: Reading<Bytes>,
    /// Bytes of pages that it made dirty while it opened the store, those of mapped files not included.
    pub written: Reading<Bytes>,
    /// Acknowledged commits that are missing.
    pub lost: u64,
    /// How long before the cut the oldest of them was acknowledged; `None` where none is missing.
    pub oldest_lost: Option<Nanos>,
    /// Missing commits of which a later one is there.
    pub holes: u64,
    /// Commits of which a part is there and a part is missing.
    pub partial: u64,
    /// Records with a content that no commit has written, or that no record of the workload is.
    pub wrong: u64,
    /// The first faults of each kind.
    pub faults: Vec<Fault>,
    /// Acknowledged commits that are missing if the smallest number of commits counts that fits what was found as well. It differs
    /// from `lost` where the store holds the same after several numbers of commits, and not what all acknowledged ones left.
    pub lost_at_most: u64,
    /// Commits that are there though they were not acknowledged, which is no fault.
    pub unacknowledged: u64,
    /// What the engine's own check says: nothing where it finds the store intact; `None` where the engine has no check.
    pub integrity: Option<Vec<String>>,
    /// Why the store takes no further commit; `None` where it does.
    pub refuses_writes: Option<String>,
    /// Why its own check or the further commit came to no end, which says nothing about the store; what else was found counts
    /// where it breaks a promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
}

impl Found {
    /// Why not all was checked, which says nothing about the store; `None` where all was.
    pub fn unchecked(&self) -> Option<&str> {
        match self {
            Self::Unchecked { why } => Some(why),
            Self::Survived(survived) => survived.unfinished.as_deref(),
            Self::DoesNotOpen { .. } | Self::Unreadable { .. } => None,
        }
    }
}

/// A fault of a store that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// What kind it is of.
    pub kind: FaultKind,
    /// In words.
    pub text: String,
}

/// A kind of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A content that no commit has written.
    Wrong,
    /// A part of a transaction.
    Partial,
    /// A missing commit of which a later one is there.
    Hole,
}

/// What the cuts of a crash phase of one variant show.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CrashSummary {
    /// Index of the variant.
    pub variant: usize,
    /// The name of the crash phase.
    pub phase: String,
    /// The phase whose writes were repeated.
    pub during: String,
    /// What was ended.
    pub kind: CutKind,
    /// The settings' durability class; `None` where the store was never open.
    pub durability: Option<Durability>,
    /// What that class promises about these cuts, in words.
    pub promise: Option<String>,
    /// Cuts that count: an acknowledged commit could be lost, and every state of the store was checked, or one broke the promise.
    pub cuts: u32,
    /// Cuts planned.
    pub planned: u32,
    /// Why cuts that are stored do not count, with the number of each reason; `None` where all count.
    pub uncounted: Option<String>,
    /// States of the store that were checked after these cuts.
    pub images: u32,
    /// Acknowledged commits before a cut.
    pub acknowledged: Option<Spread>,
    /// Acknowledged commits that are missing in a store that can be read.
    pub lost: Option<Spread>,
    /// How long before the cut the oldest of them was acknowledged, in nanoseconds; 0 where none is missing.
    pub lost_time: Option<Spread>,
    /// Images with a missing commit of which a later one is there.
    pub with_holes: u32,
    /// Images with a part of a transaction.
    pub with_partial: u32,
    /// Images that do not open, cannot be read, hold wrong values, fail the engine's own check or take no further commit.
    pub corrupt: u32,
    /// Those of them that do not open or cannot be read; they are in no number of lost commits.
    pub unreadable: u32,
    /// Time that opening the store took, in nanoseconds.
    pub open: Option<Spread>,
    /// Bytes of pages that the process that opened it made dirty meanwhile.
    pub open_written: Option<Spread>,
    /// Why the images may be less severe than a power failure.
    pub remarks: Vec<String>,
    /// Whether the promise held.
    pub verdict: CrashVerdict,
}

/// The smallest value, the median and the largest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// The smallest value.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The largest value.
    pub most: f64,
}

/// Whether the promise of a store held.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum CrashVerdict {
    /// No cut broke it.
    Unbroken {
        /// With confidence 95 %, the probability that a cut breaks it is below this (Clopper and Pearson, one-sided). Cuts
        /// count, and not the images of a cut, which depend on each other.
        below: f64,
    },
    /// At least one cut broke it.
    Broken {
        /// Cuts that broke it.
        broken: u32,
        /// The cut that shows it with the fewest commits.
        smallest: Reproduction,
    },
    /// The settings promise nothing about such cuts.
    NothingPromised,
    /// The engine or machine does not offer what the trials need.
    Unsupported {
        /// What is missing.
        why: String,
    },
    /// No cut could be made and checked.
    Unknown {
        /// Why.
        why: String,
    },
}

/// A cut that broke a promise.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Reproduction {
    /// The number of the cut, from 0.
    pub cut: u32,
    /// The number of its image, from 0.
    pub image: u32,
    /// Commits that were acknowledged before the cut.
    pub acknowledged: u64,
    /// What is wrong.
    pub what: String,
    /// The seed of the cut.
    pub seed: u64,
    /// Where the cut is saved.
    pub saved: Reading<String>,
}
