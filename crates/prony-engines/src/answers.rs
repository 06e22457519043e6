//! Counts and hashes the rows that reads return, inside timed sections: METHOD 2.2 requires to touch each cache line of them. Key
//! and value together take some nanoseconds a row, which matters only for scans of stores in memory (METHOD 2.1).

/// What reads returned. The digest is a sum over rows, so that order, threads and transactions do not matter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reads {
    /// Whether each cache line of a value is read.
    pub touch: bool,
    /// Rows returned.
    pub rows: u64,
    /// Reads by key that found nothing.
    pub misses: u64,
    /// Removals that found nothing, of an engine that reports them.
    pub vain_removals: u64,
    /// Bytes of keys and values returned, and of those that `compute` stored.
    pub bytes: u64,
    /// Bytes before each key that are no part of it: of documents that share the key space with their indexes.
    pub before_keys: usize,
    /// Entries of indexes that queries read.
    pub entries: u64,
    /// Entries of indexes that were stored or removed.
    pub changed: u64,
    /// Documents that were decoded, by queries or to find the entries of what a write replaces.
    pub examined: u64,
    /// Which queries of an operation have found a document so far: a bit for each of the first 64.
    pub found: u64,
    /// Operations that were refused because of references.
    pub refused: u64,
    /// Nanoseconds in which they were decoded, and the entries of those that are replaced encoded.
    pub decode: u64,
    /// Sum over the rows of a hash of number (or key, in scans), length and, where touched, [`fold`] of the value.
    pub digest: u64,
}

impl Reads {
    /// A row whose record's number is known.
    #[inline(always)]
    pub fn numbered(&mut self, number: u64, key: usize, value: &[u8]) {
        self.row(mix(number), key - self.before_keys, value);
    }

    /// A row with its key.
    #[inline(always)]
    pub(crate) fn keyed(&mut self, key: &[u8], value: &[u8]) {
        let key = &key[self.before_keys..];
        self.row(fold_key(key), key.len(), value);
    }

    /// A row that `compute` stores where it found none.
    #[inline(always)]
    pub fn stored(&mut self, key: &[u8], value: &[u8]) {
        self.bytes += (key.len() - self.before_keys + value.len()) as u64;
    }

    /// A document that was decoded in this time, in nanoseconds.
    #[inline(always)]
    pub(crate) fn decoded(&mut self, nanos: u64) {
        self.examined += 1;
        self.decode += nanos;
    }

    /// An operation on this record was refused: that is an answer, but no row.
    #[inline(always)]
    pub(crate) fn refuse(&mut self, number: u64) {
        self.refused += 1;
        self.digest = self.digest.wrapping_add(mix(mix(number) ^ ODD));
    }

    /// A row of a query's answer; `bytes` is what the engine returned for it, and `content` a hash of what was selected.
    #[inline(always)]
    pub(crate) fn selected(&mut self, identity: u64, bytes: usize, content: u64) {
        self.rows += 1;
        self.bytes += bytes as u64;
        self.digest = self.digest.wrapping_add(mix(identity ^ content.rotate_left(23)));
    }

    #[inline(always)]
    fn row(&mut self, identity: u64, key: usize, value: &[u8]) {
        let content = if self.touch { fold(value) } else { value.len() as u64 };
        self.selected(identity, key + value.len(), content);
    }

    /// The counts that a read by key or a scan adds to: fewer than all, whose copy for each operation would take time that is measured.
    #[inline(always)]
    pub(crate) fn rows_so_far(&self) -> [u64; 4] {
        [self.rows, self.misses, self.bytes, self.digest]
    }

    /// Undoes what was added to these counts since: what an operation read before it failed is no answer.
    #[cold]
    pub(crate) fn back_to(&mut self, [rows, misses, bytes, digest]: [u64; 4]) {
        (self.rows, self.misses, self.bytes, self.digest) = (rows, misses, bytes, digest);
    }

    /// Adds what another client has read.
    pub(crate) fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        self.misses += other.misses;
        self.vain_removals += other.vain_removals;
        self.bytes += other.bytes;
        self.entries += other.entries;
        self.changed += other.changed;
        self.refused += other.refused;
        self.found |= other.found;
        self.examined += other.examined;
        self.decode += other.decode;
        self.digest = self.digest.wrapping_add(other.digest);
    }
}

const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Reads eight bytes of each cache line of a value (METHOD 2.2) and folds them, with the length, into 64 bits.
///
/// Four lanes, so that the multiplications of a long value do not wait for each other. Eight bytes in 64 are enough
/// to notice another version or another record; every byte is compared by a `verify` phase.
#[inline(always)]
pub fn fold(value: &[u8]) -> u64 {
    let mut lanes = [of_length(value), ODD, !ODD, ODD.rotate_left(32)];
    let mut blocks = value.chunks_exact(256);
    for block in &mut blocks {
        for (lane, line) in lanes.iter_mut().zip(block.chunks_exact(64)) {
            *lane = (*lane ^ word(line)).wrapping_mul(ODD).rotate_left(29);
        }
    }
    for (lane, line) in lanes.iter_mut().zip(blocks.remainder().chunks(64)) {
        *lane = (*lane ^ word(line)).wrapping_mul(ODD).rotate_left(29);
    }
    // A value that begins within a line may end on one line more.
    lanes[0] ^= value.last().copied().map_or(0, u64::from) << 56;
    lanes[0] ^ lanes[1].rotate_left(17) ^ lanes[2].rotate_left(31) ^ lanes[3].rotate_left(47)
}

/// A start that depends on the length, spread over all bits: a length must not cancel against a byte.
#[inline(always)]
fn of_length(bytes: &[u8]) -> u64 {
    (bytes.len() as u64 + 1).wrapping_mul(ODD)
}

#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// MurmurHash3's finaliser: every bit of the input changes half of the output's.
#[inline(always)]
fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    x ^= x >> 33;
    x = x.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    x ^ x >> 33
}

/// A hash of a key, for sums over keys.
#[inline(always)]
pub(crate) fn hash_key(key: &[u8]) -> u64 {
    mix(fold_key(key))
}

/// Every byte of a key, folded into 64 bits; [`mix`] makes a hash of it.
#[inline(always)]
fn fold_key(key: &[u8]) -> u64 {
    key.chunks(8).fold(of_length(key), |fold, part| (fold ^ word(part)).wrapping_mul(ODD).rotate_left(29))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_cache_line_and_the_length_count_in_a_fold() {
        for length in [1, 7, 8, 63, 64, 65, 255, 256, 257, 1000, 40_000] {
            let value = vec![7u8; length];
            let mut digests = HashSet::from([fold(&value), fold(&vec![7; length + 1]), fold(&vec![7; length - 1])]);
            assert_eq!(digests.len(), 3, "{length}");
            for line in (0..length).step_by(64).chain([length - 1]) {
                let mut other = value.clone();
                other[line] ^= 1;
                digests.insert(fold(&other));
            }
            let last_is_a_lines_first = (length - 1).is_multiple_of(64);
            assert_eq!(digests.len(), 3 + length.div_ceil(64) + usize::from(!last_is_a_lines_first), "{length}");
        }
    }

    #[test]
    fn lines_that_change_places_change_the_fold() {
        let value: Vec<u8> = (0..=255).cycle().take(1024).map(|n: u8| n / 64).collect();
        let mut other = value.clone();
        other.rotate_left(64);
        assert_ne!(fold(&value), fold(&other));
    }

    #[test]
    fn a_digest_depends_on_the_rows_and_not_on_their_order_or_client() {
        let rows: Vec<(u64, Vec<u8>)> = (0..100).map(|n| (n, vec![n as u8; n as usize])).collect();
        let digest = |rows: &mut dyn Iterator<Item = &(u64, Vec<u8>)>| {
            let mut reads = Reads { touch: true, ..Reads::default() };
            rows.for_each(|(number, value)| reads.numbered(*number, 8, value));
            reads
        };
        let all = digest(&mut rows.iter());
        assert_eq!(all.digest, digest(&mut rows.iter().rev()).digest);
        let mut merged = digest(&mut rows.iter().step_by(2));
        merged.merge(digest(&mut rows.iter().skip(1).step_by(2)));
        assert_eq!((merged.digest, merged.rows, merged.bytes), (all.digest, 100, all.bytes));
        assert_ne!(all.digest, digest(&mut rows.iter().skip(1)).digest);
        assert_ne!(all.digest, digest(&mut rows.iter().chain(&rows[3..4])).digest, "a row twice");
        let mut swapped = rows.clone();
        (swapped[3].1, swapped[4].1) = (rows[4].1.clone(), rows[3].1.clone());
        assert_ne!(all.digest, digest(&mut swapped.iter()).digest, "values of each other's keys");
    }

    #[test]
    fn keys_are_hashed_whole() {
        let keys: [&[u8]; 7] = [b"", b"a", b"b", b"a\0", b"\0a", b"12345678", b"123456789"];
        let hashes: HashSet<u64> = keys.into_iter().map(hash_key).collect();
        assert_eq!(hashes.len(), keys.len());
    }
}
