//! How a record's number becomes its value.
//!
//! A value is cut into units of about 512 bytes. Each begins with random bytes of its own and goes on by repeating
//! them, so that a compressor finds the repetition within the unit, and nothing to share between units, versions or
//! records. The random part is the share that is to remain, less the three bytes or so that deflate spends on each
//! back-reference of up to 258 bytes.

use super::random::{Purpose, Stream, derive, mix};
use super::size::SizeDraw;
use super::text::Text;
use crate::experiment::spec::ValueSpec;

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
    pub(super) fn new(spec: &ValueSpec, seed: u64) -> Self {
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

    #[inline]
    fn length(&self, number: u64, start: u64) -> usize {
        self.size.draw(mix(!start)).max(self.prefix.len(number))
    }

    pub(super) fn len(&self, number: u64, version: u32) -> usize {
        self.length(number, self.start(number, version))
    }

    /// Replaces `out` by the value.
    pub(super) fn write(&self, number: u64, version: u32, out: &mut Vec<u8>) {
        let start = self.start(number, version);
        let length = self.length(number, start);
        out.clear();
        self.prefix.write(number, out);
        let from = out.len();
        out.resize(length, 0);
        self.fill(&mut out[from..], Stream::new(start));
    }

    fn fill(&self, out: &mut [u8], mut stream: Stream) {
        if self.remains >= 1.0 {
            return stream.fill(out);
        }
        let mut units = out.len().div_ceil(UNIT);
        let mut rest = out;
        while units > 0 {
            let (unit, after) = rest.split_at_mut(rest.len() / units);
            let random = random_part(unit.len(), self.remains);
            stream.fill(&mut unit[..random]);
            repeat(unit, random);
            (rest, units) = (after, units - 1);
        }
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
