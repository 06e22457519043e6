//! A digest (checksum) of the rows that reads returned.

use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

/// An order-independent digest of rows.
///
/// The sum, modulo 2^128, of a hash of each row: XXH3 of the key, and of the value under a seed from the key's hash, so
/// that no bytes can move between key and value unseen. A sum and not an exclusive-or, in which two equal rows would
/// cancel and an answer with every row doubled would equal an empty one.
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

    /// The digest of these rows as those of the collection with this number, counted from 0: so that a row that moves to
    /// another collection shows.
    pub fn numbered(self, collection: u64) -> Self {
        Self { sum: self.sum.wrapping_mul(2 * u128::from(collection) + 1), ..self }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Row = (Vec<u8>, Vec<u8>);

    fn digest<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Digest {
        let mut digest = Digest::new();
        rows.into_iter().for_each(|(key, value)| digest.add(key, value));
        digest
    }

    fn row() -> impl Strategy<Value = Row> {
        (prop::collection::vec(any::<u8>(), 0..20), prop::collection::vec(any::<u8>(), 0..300))
    }

    proptest! {
        #[test]
        fn order_and_clients_make_no_difference(rows in prop::collection::vec(row(), 0..20), at in 0usize..20) {
            let whole = digest(&rows);
            prop_assert_eq!(digest(rows.iter().rev()), whole);
            let (left, right) = rows.split_at(at.min(rows.len()));
            let mut merged = digest(left);
            merged.merge(&digest(right));
            prop_assert_eq!(merged, whole);
            prop_assert_eq!(whole.rows(), rows.len() as u64);
        }

        #[test]
        fn any_other_byte_shows((key, value) in row(), at in 0usize..320, bit in 0u8..8) {
            let mut other = (key.clone(), value.clone());
            let bytes = if at < key.len() { &mut other.0 } else { &mut other.1 };
            let length = bytes.len();
            prop_assume!(length > 0);
            bytes[at % length] ^= 1 << bit;
            prop_assert_ne!(digest([&(key, value)]).hex(), digest([&other]).hex());
        }
    }

    #[test]
    fn bytes_do_not_move_between_key_and_value_or_rows() {
        let row = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        let hex = |rows: &[Row]| digest(rows).hex();
        assert_ne!(hex(&[row("ab", "c")]), hex(&[row("a", "bc")]));
        assert_ne!(hex(&[row("a", "b")]), hex(&[row("b", "a")]));
        assert_ne!(hex(&[row("a", "1"), row("b", "2")]), hex(&[row("a", "2"), row("b", "1")]));
        assert_ne!(hex(&[row("", "")]), hex(&[]));
    }

    #[test]
    fn two_equal_rows_do_not_cancel() {
        let row = (b"k".to_vec(), b"v".to_vec());
        assert_ne!(digest([&row, &row]).hex(), Digest::new().hex());
        assert_eq!(Digest::new().hex(), "0".repeat(32));
    }

    #[test]
    fn every_line_is_touched() {
        let value = vec![1u8; 640];
        assert_eq!(touch(&value), 11);
        for line in (0..640).step_by(64) {
            let mut other = value.clone();
            other[line] = 2;
            assert_ne!(touch(&other), touch(&value), "line at {line}");
        }
        let mut last = value.clone();
        last[639] = 9;
        assert_ne!(touch(&last), touch(&value));
        assert_eq!(touch(&[]), 0);
    }
}
