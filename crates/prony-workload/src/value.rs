//! Computes the bytes of a record's value from its number.
//!
//! A value is cut into units of about 512 bytes. Each begins with random bytes of its own and continues by repeating
//! them, so that a compressor finds the repetition within the unit, and nothing to share between units, versions or
//! records. The random part is the share that is to remain, less the three bytes or so that deflate spends on each
//! back-reference of up to 258 bytes.

use super::numbered_text::Text;
use super::size::SizeDraw;
use prony_model::random::{Purpose, Stream, derive, mix};
use prony_model::spec::BytesSpec;

/// About how many bytes repeat themselves together: small against a page of 4096 bytes and every window.
const UNIT: usize = 512;
/// The longest back-reference of deflate.
const REFERENCE: usize = 258;
/// About what one costs in deflate, LZ4 and Zstandard.
const REFERENCE_COST: usize = 3;

/// Values of one experiment and seed.
#[derive(Clone, Debug)]
pub(super) struct Values {
    seed: u64,
    size: SizeDraw,
    remains: f64,
    prefix: Text,
}

impl Values {
    pub(super) fn new(spec: &BytesSpec, seed: u64) -> Self {
        Self {
            seed: derive(seed, Purpose::Value, 0),
            size: SizeDraw::new(&spec.bytes),
            remains: 1.0 - spec.compressible.get(),
            prefix: Text::new(&spec.prefix, 0),
        }
    }

    /// The seed of one version of one value.
    #[inline]
    fn start(&self, number: u64, version: u32) -> u64 {
        mix(mix(self.seed ^ number) ^ u64::from(version) << 32)
    }

    /// Replaces `out` by the value.
    pub(super) fn write(&self, number: u64, version: u32, out: &mut Vec<u8>) {
        let start = self.start(number, version);
        let length = self.size.draw(mix(!start)).max(self.prefix.len(number));
        out.clear();
        self.prefix.write(number, out);
        let from = out.len();
        out.resize(length, 0);
        fill_to_share(&mut out[from..], self.remains, Stream::new(start));
    }
}

/// Fills with random bytes that a compressor shrinks to a share `remains`, from 0 to 1.
pub(super) fn fill_to_share(out: &mut [u8], remains: f64, mut stream: Stream) {
    if remains >= 1.0 {
        return stream.fill(out);
    }
    let mut units = out.len().div_ceil(UNIT);
    let mut rest = out;
    while units > 0 {
        let (unit, after) = rest.split_at_mut(rest.len() / units);
        let random = random_part(unit.len(), remains);
        stream.fill(&mut unit[..random]);
        repeat(unit, random);
        (rest, units) = (after, units - 1);
    }
}

/// How many bytes of a unit are random, so that it compresses to the share that is to remain.
fn random_part(unit: usize, remains: f64) -> usize {
    let whole = (unit as f64 * remains).round() as usize;
    let references = (unit - whole).div_ceil(REFERENCE);
    whole.saturating_sub(REFERENCE_COST * references).max(1).min(unit)
}

/// Fills the rest by repeating the first bytes.
fn repeat(unit: &mut [u8], period: usize) {
    let mut filled = period;
    while filled < unit.len() {
        let more = filled.min(unit.len() - filled);
        unit.copy_within(..more, filled);
        filled += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::spec::Size;
    use prony_model::units::{Bytes, Fraction};
    use proptest::prelude::*;

    fn values(bytes: u64, compressible: f64) -> Values {
        values_with(Size::Fixed(Bytes::from_bytes(bytes)), compressible, &[])
    }

    fn values_with(bytes: Size, compressible: f64, prefix: &[&str]) -> Values {
        let prefix = prefix.iter().map(|part| (*part).to_owned()).collect();
        Values::new(&BytesSpec { bytes, compressible: Fraction::new(compressible).unwrap(), prefix }, 17)
    }

    fn value(values: &Values, number: u64, version: u32) -> Vec<u8> {
        let mut out = vec![1, 2, 3];
        values.write(number, version, &mut out);
        out
    }

    /// The share by which deflate shrinks bytes.
    fn shrinks(bytes: &[u8]) -> f64 {
        1.0 - miniz_oxide::deflate::compress_to_vec(bytes, 6).len() as f64 / bytes.len() as f64
    }

    /// Values one after the other, as in a page or file.
    fn concatenated(values: &Values, count: u64) -> Vec<u8> {
        (0..count).flat_map(|number| value(values, number, 0)).collect()
    }

    fn assert_shrinks(bytes: &[u8], share: f64, tolerance: f64, what: &str) {
        let is = shrinks(bytes);
        assert!((is - share).abs() <= tolerance, "{what}: shrinks by {is:.4}, not {share}");
    }

    #[test]
    fn values_shrink_by_their_share_together() {
        for share in [0.0, 0.3, 0.6, 0.9] {
            assert_shrinks(&concatenated(&values(128, share), 1_000), share, 0.03, "1000 of 128 B");
            assert_shrinks(&concatenated(&values(1_000, share), 1_000), share, 0.02, "1000 of 1 kB");
            assert_shrinks(&concatenated(&values(4_000, share), 1_000), share, 0.02, "1000 of 4 kB");
            assert_shrinks(&concatenated(&values(40_000, share), 50), share, 0.02, "50 of 40 kB");
        }
    }

    #[test]
    fn values_compress_by_their_declared_share() {
        for share in [0.0, 0.3, 0.6, 0.9] {
            for number in 0..20 {
                // A single small value pays for the code tables.
                assert_shrinks(&value(&values(4_000, share), number, 0), share, 0.04, "4 kB");
                assert_shrinks(&value(&values(40_000, share), number, 0), share, 0.02, "40 kB");
            }
        }
    }

    #[test]
    fn pages_that_cut_values_shrink_as_much() {
        let bytes = concatenated(&values(40_000, 0.6), 20);
        for page in bytes.chunks_exact(4_096).step_by(7) {
            // A page pays for its code tables and for the units cut at its ends.
            assert_shrinks(page, 0.6, 0.08, "a page");
        }
    }

    #[test]
    fn versions_of_a_value_share_nothing() {
        for share in [0.0, 0.6] {
            let values = values(1_000, share);
            let bytes: Vec<u8> = (0..500).flat_map(|version| value(&values, 3, version)).collect();
            assert_shrinks(&bytes, share, 0.02, "500 versions");
        }
    }

    #[test]
    fn what_repeats_is_not_zeros() {
        let bytes = concatenated(&values(4_000, 0.9), 200);
        for wanted in 0..=255u8 {
            let share = bytes.iter().filter(|byte| **byte == wanted).count() as f64 / bytes.len() as f64;
            assert!((0.002..0.008).contains(&share), "{wanted} is {share} of all bytes");
        }
    }

    proptest! {
        #[test]
        fn a_value_is_a_function_of_number_and_version(
            bytes in 0u64..3_000, share in 0.0f64..=1.0, number: u64, version: u32,
        ) {
            let values = values(bytes, share);
            let once = value(&values, number, version);
            prop_assert_eq!(once.len() as u64, bytes);
            prop_assert_eq!(&value(&values.clone(), number, version), &once);
            if bytes >= 64 && share <= 0.5 {
                prop_assert_ne!(&value(&values, number.wrapping_add(1), version), &once);
                prop_assert_ne!(&value(&values, number, version.wrapping_add(1)), &once);
            }
        }

        #[test]
        fn drawn_lengths_lie_between_their_ends(number: u64, version: u32) {
            let size = Size::Uniform { min: Bytes::from_bytes(1), max: Bytes::from_bytes(900) };
            let values = values_with(size, 0.3, &["n", ""]);
            prop_assert!((1..=900).contains(&value(&values, number, version).len()));
        }
    }

    #[test]
    fn a_prefix_counts_in_the_length() {
        let values = values_with(Size::Fixed(Bytes::from_bytes(16)), 0.0, &["id=", ";"]);
        let short = value(&values, 42, 0);
        assert_eq!((&short[..6], short.len()), (b"id=42;".as_slice(), 16));
        assert_eq!(value(&values, 123_456_789_012_345, 0), b"id=123456789012345;");
    }

    #[test]
    fn seeds_give_values_of_their_own() {
        let spec = BytesSpec {
            bytes: Size::Fixed(Bytes::from_bytes(100)),
            compressible: Fraction::default(),
            prefix: Vec::new(),
        };
        assert_ne!(value(&Values::new(&spec, 1), 0, 0), value(&Values::new(&spec, 2), 0, 0));
    }
}
