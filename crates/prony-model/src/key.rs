//! How the keys of records are made.

use serde::{Deserialize, Serialize};

/// How a record's number becomes its key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeySpec {
    /// Text with the number in decimal at each `{i}`; `pad` digits at least.
    Template {
        /// The text before, between and after the numbers; the number stands between the parts.
        parts: Vec<String>,
        /// Least digits, filled with zeros; 0 for none.
        pad: u8,
    },
    /// The number as a big-endian integer, so that key order is record order.
    Integer {
        /// 4 or 8.
        bytes: u8,
    },
    /// A prefix and the hash of number and seed, cut or stretched to `bytes` in all (prefix included); unordered,
    /// and distinct for every number below 2^64 where at least 8 bytes of hash remain.
    Hashed {
        /// Put before the hash.
        prefix: String,
        /// Whole length; at least the prefix and 8.
        bytes: u16,
        /// Lower-case hexadecimal (two characters a byte of hash) instead of raw bytes.
        hex: bool,
    },
}
