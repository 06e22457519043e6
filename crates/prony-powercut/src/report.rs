//! What a cut found and made.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::settings::Policy;

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
    /// What was pending.
    pub pending: Pending,
    /// The images, in order.
    pub images: Vec<Image>,
}
