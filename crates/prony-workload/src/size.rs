//! Generates the random lengths of values.

use super::zipf::Zipfian;
use prony_model::random::{Stream, scale, unit};
use prony_model::spec::Size;

/// YCSB's exponent for lengths of fields.
const THETA: f64 = 0.99;

/// Generates lengths.
#[derive(Clone, Debug)]
pub(super) enum SizeDraw {
    Fixed(usize),
    Uniform { min: u64, count: u64 },
    Zipfian { min: u64, ranks: Zipfian },
    LogNormal { median: f64, sigma: f64, max: f64 },
}

impl SizeDraw {
    pub(super) fn new(size: &Size) -> Self {
        match size {
            Size::Fixed(bytes) => Self::Fixed(bytes.as_bytes() as usize),
            Size::Uniform { min, max } => {
                Self::Uniform { min: min.as_bytes(), count: span(min.as_bytes(), max.as_bytes()) }
            }
            Size::Zipfian { min, max } => {
                Self::Zipfian { min: min.as_bytes(), ranks: Zipfian::new(span(min.as_bytes(), max.as_bytes()), THETA) }
            }
            Size::LogNormal { median, sigma, max } => {
                Self::LogNormal { median: median.as_bytes() as f64, sigma: *sigma, max: max.as_bytes() as f64 }
            }
        }
    }

    /// The length that a random seed gives.
    #[inline]
    pub(super) fn draw(&self, seed: u64) -> usize {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Uniform { min, count } => (min + scale(seed, *count)) as usize,
            Self::Zipfian { min, ranks } => (min + ranks.rank(unit(seed))) as usize,
            Self::LogNormal { median, sigma, max } => {
                let length = median * (sigma * normal(seed)).exp();
                length.min(*max).round() as usize
            }
        }
    }
}

/// How many lengths lie between, both ends included.
fn span(min: u64, max: u64) -> u64 {
    max.saturating_sub(min).saturating_add(1)
}

/// A standard normal number (Box and Muller, 1958).
fn normal(seed: u64) -> f64 {
    let mut stream = Stream::new(seed);
    let radius = (-2.0 * (1.0 - stream.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * stream.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{deviation, gray};
    use prony_model::random::mix;
    use prony_model::units::Bytes;

    fn drawn(size: &Size, n: u64) -> Vec<u64> {
        let draw = SizeDraw::new(size);
        (0..n).map(|number| draw.draw(mix(number)) as u64).collect()
    }

    fn counts(lengths: &[u64], min: u64, max: u64) -> Vec<u64> {
        let mut counts = vec![0; (max - min + 1) as usize];
        lengths.iter().for_each(|length| counts[(length - min) as usize] += 1);
        counts
    }

    #[test]
    fn uniform_lengths_are_equally_likely_ends_included() {
        let size = Size::Uniform { min: Bytes::from_bytes(100), max: Bytes::from_bytes(299) };
        let counts = counts(&drawn(&size, 200_000), 100, 299);
        assert!(counts[0] > 0 && counts[199] > 0);
        assert!(deviation(&counts, &[0.005; 200]).abs() < 4.0);
    }

    #[test]
    fn zipfian_lengths_favour_the_short() {
        let size = Size::Zipfian { min: Bytes::from_bytes(50), max: Bytes::from_bytes(149) };
        let counts = counts(&drawn(&size, 200_000), 50, 149);
        assert!(deviation(&counts, &gray(100, 0.99, 100)).abs() < 4.0);
    }

    #[test]
    fn log_normal_lengths_have_their_quantiles() {
        let size = Size::LogNormal { median: Bytes::from_bytes(1_000), sigma: 0.8, max: Bytes::from_bytes(1_000_000) };
        let mut lengths = drawn(&size, 200_000);
        lengths.sort_unstable();
        // Standard normal quantiles; the standard error of each here is below 0.8 %.
        for (share, z) in [(0.05, -1.644_854), (0.25, -0.674_490), (0.5, 0.0), (0.75, 0.674_490), (0.95, 1.644_854)] {
            let is = lengths[(share * 200_000.0) as usize] as f64;
            let should = 1_000.0 * f64::exp(0.8 * z);
            assert!((is / should - 1.0).abs() < 0.03, "{share}: {is}, not {should}");
        }
        let mean = lengths.iter().sum::<u64>() as f64 / 200_000.0;
        let should = 1_000.0 * f64::exp(0.8 * 0.8 / 2.0);
        assert!((mean / should - 1.0).abs() < 0.02, "mean {mean}, not {should}");
    }

    #[test]
    fn log_normal_lengths_are_cut() {
        let size = Size::LogNormal { median: Bytes::from_bytes(1_000), sigma: 2.0, max: Bytes::from_bytes(1_500) };
        let lengths = drawn(&size, 10_000);
        assert_eq!(lengths.iter().max(), Some(&1_500));
        assert!(lengths.iter().filter(|length| **length == 1_500).count() > 3_000);
    }

    #[test]
    fn a_span_of_one_length_is_that_length() {
        let at = Bytes::from_bytes(7);
        for size in [Size::Fixed(at), Size::Uniform { min: at, max: at }, Size::Zipfian { min: at, max: at }] {
            assert!(drawn(&size, 100).iter().all(|length| *length == 7), "{size:?}");
        }
    }
}
