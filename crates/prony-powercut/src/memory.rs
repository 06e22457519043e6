//! What is counted of the server's memory beside pending operations and their data.

use std::ffi::OsStr;

use prony_model::units::Bytes;

use crate::log::Seq;

/// Memory of a name in the current or durable map of a directory, in bytes: it is in three tables.
pub(crate) fn entry_weight(name: &OsStr) -> u64 {
    400 + 3 * name.len() as u64
}

/// What is counted beside the log and its data.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) limit: u64,
    /// Files, directories and entries, in bytes.
    pub(crate) tables: u64,
    /// Data of operations up to this one were moved to the file where they were in memory.
    pub(crate) spilled: Seq,
}

impl Room {
    pub(crate) const fn new(limit: Bytes, tables: u64) -> Self {
        Self { limit: limit.as_bytes(), tables, spilled: 0 }
    }
}
