//! Lengths of values.

use super::random::{Stream, scale, unit};
use super::zipf::Zipfian;
use crate::experiment::spec::Size;

/// YCSB's exponent for lengths of fields.
const THETA: f64 = 0.99;

/// Draws lengths.
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
