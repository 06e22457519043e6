//! Whether the effect of one factor depends on the level of another.

use serde::{Deserialize, Serialize};

use super::compare::Estimate;
use super::sign::{Bracket, SignTest};
use super::verdict::RatioInterval;
use prony_model::metric::Better;
use prony_model::reading::{Reading, Why};

/// Two levels of each of two factors in one block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cross {
    /// First level of both.
    pub neither: f64,
    /// Second level of the first factor.
    pub first: f64,
    /// Second level of the second factor.
    pub second: f64,
    /// Second level of both.
    pub both: f64,
}

/// The ratio of ratios `(both / second) / (first / neither)`: 1 where the factors act independently of each other.
/// The interval is the sign test's at error `alpha`; nothing beyond it is claimed, and no verdict rests on it.
///
/// Blocks with a value not above zero are left out; missing with fewer than 2.
pub fn interaction(blocks: &[Cross], alpha: f64) -> Reading<Estimate> {
    let brackets: Vec<Bracket> = blocks.iter().filter_map(contrast).map(|d| Bracket { low: d, high: d }).collect();
    let test = SignTest::new(&brackets);
    match test.estimate() {
        Some(log) if test.blocks() >= 2 => Reading::Measured(Estimate {
            ratio: log.exp(),
            interval: RatioInterval::from_log_cost(test.interval(alpha), Better::Lower),
        }),
        _ => Reading::Missing(Why::TooFew { have: brackets.len() as u64, need: 2 }),
    }
}

fn contrast(block: &Cross) -> Option<f64> {
    let all = [block.neither, block.first, block.second, block.both];
    let usable = all.iter().all(|v| v.is_finite() && *v > 0.0);
    usable.then(|| (block.both / block.second).ln() - (block.first / block.neither).ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(noise: f64, together: f64) -> Cross {
        Cross { neither: 10.0, first: 20.0 * noise, second: 30.0, both: 60.0 * together }
    }

    #[test]
    fn factors_that_multiply_do_not_interact() {
        let blocks: Vec<Cross> = (0..12).map(|i| block(1.0 + 0.01 * f64::from(i % 3 - 1), 1.0)).collect();
        let found = interaction(&blocks, 0.05);
        let estimate = found.measured().unwrap();
        assert!((estimate.ratio - 1.0).abs() < 1e-9);
        assert!(estimate.interval.low < 1.0 && estimate.interval.high.unwrap() > 1.0);
    }

    #[test]
    fn a_level_that_triples_the_others_effect_shows() {
        let blocks: Vec<Cross> = (0..12).map(|i| block(1.0 + 0.01 * f64::from(i % 3 - 1), 3.0)).collect();
        let found = interaction(&blocks, 0.05);
        let estimate = found.measured().unwrap();
        assert!((estimate.ratio - 3.0).abs() < 1e-9 && estimate.interval.low > 2.9);
    }

    #[test]
    fn unusable_blocks_are_left_out() {
        let broken = Cross { neither: 0.0, ..block(1.0, 1.0) };
        assert_eq!(interaction(&[broken; 9], 0.05), Reading::Missing(Why::TooFew { have: 0, need: 2 }));
    }
}
