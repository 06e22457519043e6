//! What reads answered, in a few bytes.

use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

/// An order-independent digest of rows.
///
/// The sum, modulo 2^128, of a hash of each row: XXH3 of the key, and of the value under a seed from the key's hash,
/// so that no bytes can move between key and value unseen. A sum and not an exclusive-or, in which two equal rows
/// would cancel and an answer with every row doubled would look empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    sum: u128,
    rows: u64,
}

impl Digest {
    /// Of no rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let key = xxh3_128(key);
        let value = xxh3_128_with_seed(value, (key >> 64) as u64);
        self.sum = self.sum.wrapping_add(key.rotate_left(64).wrapping_add(value));
        self.rows += 1;
    }

    /// Adds the rows of another digest, of another client for example.
    pub fn merge(&mut self, other: &Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.rows += other.rows;
    }

    /// How many rows were added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The digest as 32 hexadecimal digits.
    pub fn hex(&self) -> String {
        format!("{:032x}", self.sum)
    }
}

/// Reads one byte of every cache line of a value; the caller hands the sum to `std::hint::black_box`.
#[inline]
pub fn touch(value: &[u8]) -> u64 {
    // The last byte too: a value that begins within a line may end on one line more.
    let last = value.last().copied().map_or(0, u64::from);
    value.iter().step_by(64).fold(last, |sum, byte| sum + u64::from(*byte))
}
