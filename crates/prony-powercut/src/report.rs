//! What a cut found and made.

use std::path::PathBuf;

use prony_model::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::settings::{MetadataOrder, Policy};

/// Operations that were not durable at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Writes, truncations, changes of attributes and of directories.
    pub operations: u64,
    /// Of these, changes of metadata: directories, attributes, truncations.
    pub metadata: u64,
    /// Bytes of the writes.
    pub bytes: u64,
}

/// What programs asked for since the mount, in numbers of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// `fsync`, `fdatasync` and `msync` of files.
    pub syncs: u64,
    /// `fsync` of directories.
    pub directory_syncs: u64,
    /// Writes with `O_DSYNC`, `O_SYNC` or their flags of one call; a large one arrives as several.
    pub synchronous_writes: u64,
    /// Other writes, and pages of maps that the kernel sent.
    pub writes: u64,
}

/// A file system at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// What is not durable.
    pub pending: Pending,
    /// What makes images less severe than a power failure could be.
    pub limits: Limits,
    /// What programs asked for.
    pub counts: Counts,
}

/// What happened since the mount that makes the images less severe than a power failure could be. Each count that is not zero
/// is a remark that belongs to a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Operations that were made durable early, since the limit of memory or of pending data was reached.
    pub made_durable: u64,
    /// Files, directories and links that were refused with `ENOSPC`, since the limit of memory or of open files was reached.
    pub refused: u64,
    /// Requests that may have been an `msync` of a part of a file, and made all of the file durable: the kernel does not
    /// tell the file system which part, nor that it is no `fdatasync`. Counted are those of files with pending pages of a
    /// map and other pending data: of calls, or pages that the kernel had sent before. An `msync` where no page of a map is
    /// pending cannot be distinguished from `fdatasync`, and is not counted.
    pub parts_as_whole: u64,
    /// Maps, at the last cut, whose files the process that asked for it was not allowed to open: pages that were changed through
    /// them and not sent by the kernel are in no image.
    #[serde(default)]
    pub unsent_maps: u64,
}

/// Why a mount is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Whether another process removed it; otherwise something failed.
    pub was_removed: bool,
    /// In words.
    pub why: String,
}

/// A directory that was made of a cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Where it is.
    pub path: PathBuf,
    /// The policy that it follows.
    pub policy: Policy,
    /// The seed of this image.
    pub seed: u64,
    /// Pending changes of metadata that survived.
    pub metadata: u64,
    /// Bytes of pending writes that survived, in files that can be reached.
    pub bytes: u64,
}

/// A cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutReport {
    /// The instant of the cut, in nanoseconds of `CLOCK_MONOTONIC` of the machine that was cut: as [`crate::Cut::at`].
    pub at: Nanos,
    /// The order of metadata that was simulated.
    pub metadata: MetadataOrder,
    /// What was pending, and what happened before.
    #[serde(flatten)]
    pub status: Status,
    /// The saved cut, of which more images can be made.
    pub saved: PathBuf,
    /// The images, in order.
    pub images: Vec<Image>,
}
