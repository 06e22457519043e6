//! Data of experiments as files: generated record by record, so that memory is bounded whatever their size.

mod osm_change;
mod records;

pub use osm_change::OsmChange;
pub use records::{Form, write as write_records};

use prony_core::units::Bytes;

/// How much is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many elements or records.
    Count(u64),
    /// Whole elements until the file has at least so many bytes.
    Bytes(Bytes),
}

impl Amount {
    /// Whether there is enough: `count` are written, and the file would end at `bytes`.
    fn reached(self, count: u64, bytes: u64) -> bool {
        match self {
            Self::Count(wanted) => count >= wanted,
            Self::Bytes(wanted) => bytes >= wanted.as_bytes(),
        }
    }
}
