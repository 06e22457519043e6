//! What is noted of a phase that checked references.

use prony_model::spec::Ops;

/// A phase that checked references, or the background of one.
pub(super) struct Guarded {
    pub(super) phase: String,
    /// The index of the collection of its operations.
    pub(super) collection: usize,
    pub(super) ops: Ops,
    pub(super) deletes: bool,
    /// Seeds the order.
    pub(super) seed: u64,
    /// Operations of each client.
    pub(super) counts: Vec<u64>,
    /// How many of them were refused, and the digest of these.
    pub(super) refused: (u64, u64),
    /// Nothing else was written meanwhile.
    pub(super) is_only_writer: bool,
    /// Of each collection: how many layers its ledger had before.
    pub(super) before: Vec<usize>,
}
