//! The power of a comparison: the smallest effect that it can find, and the number of blocks that an effect needs.

use super::sign::gap_needed;
use super::special::normal_quantile;

/// The probability with which the smallest effect is found.
pub const POWER: f64 = 0.8;

/// The minimum detectable effect, as a share (0.12 is 12 %): a comparison would have found it with probability 0.8.
///
/// From its own interval: `half_width` is the longer side of the interval of the log-ratio at error `alpha`, from
/// `blocks`. The estimate scatters too, so the effect must exceed the half-width by `z(0.8) / z(1 - alpha / 2)` of
/// it; and the half-width of few blocks is itself uncertain, which `caution` covers. `docs/verdicts.md` has the
/// measured detection rates.
pub fn smallest_effect(half_width: f64, alpha: f64, blocks: u32) -> f64 {
    (half_width * reach(alpha, blocks)).exp_m1()
}

fn reach(alpha: f64, blocks: u32) -> f64 {
    (1.0 + normal_quantile(POWER) / normal_quantile(1.0 - 0.5 * alpha)) * caution(blocks)
}

/// Chosen by the benchmark on recorded noise.
fn caution(blocks: u32) -> f64 {
    1.1 + 1.5 / f64::from(blocks)
}

/// The least number of blocks above `low`, up to `most`, that is enough: doubled until it is, then halved between.
pub(crate) fn least_blocks(low: u32, most: u32, mut enough: impl FnMut(u32) -> bool) -> Option<u32> {
    let (mut low, mut high) = (low, (low + 1).min(most));
    while !enough(high) {
        if high >= most {
            return None;
        }
        low = high;
        high = high.saturating_mul(2).min(most);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

/// The effect that so many blocks find with probability 0.8 at an error `alpha` of this comparison and this analysis,
/// for roughly normal noise; `spread` is the standard deviation of the logarithm of one trial within a block.
pub fn effect_of_blocks(blocks: u32, spread: f64, alpha: f64) -> f64 {
    smallest_effect(expected_half_width(blocks, spread, alpha), alpha, blocks)
}

/// For normal noise: the slope of `P(above both) - P(below both)` at 0 is `1 / (spread sqrt(pi))`, its variance 2/3.
fn expected_half_width(n: u32, spread: f64, alpha: f64) -> f64 {
    let n_f = f64::from(n);
    let gap = gap_needed(n, alpha);
    if gap > 0.0 {
        // Half the range of n differences with variance 1.5 spread^2, and the gap beyond it.
        let half_range = spread * 1.5f64.sqrt() * normal_quantile(1.0 - 0.5 / n_f);
        return half_range * (1.0 + 2.0 * gap);
    }
    // Counts come in steps, which cost most where there are few.
    let steps = 1.0 + 2.0 / n_f;
    steps * normal_quantile(1.0 - 0.5 * alpha) * spread * (std::f64::consts::PI * 2.0 / 3.0 / n_f).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::binomial::binomial_interval;
    use super::super::p_values::Law;
    use super::super::sign::{Bracket, SignTest};
    use super::*;
    use crate::MIN_BLOCKS;

    /// The least number of blocks with which an effect (0.05 is 5 %) is found with probability 0.8 in a family of
    /// `comparisons` at family-wise error `alpha`; `None` above 100,000 blocks.
    fn blocks_for_effect(effect: f64, spread: f64, comparisons: usize, alpha: f64) -> Option<u32> {
        let each = alpha / comparisons as f64;
        least_blocks(MIN_BLOCKS - 1, 100_000, |n| effect_of_blocks(n, spread, each) <= effect)
    }

    #[test]
    fn wider_intervals_and_stricter_levels_see_less() {
        let base = smallest_effect(0.1, 0.05, 10);
        assert!(base > 0.1f64.exp_m1());
        assert!(smallest_effect(0.2, 0.05, 10) > base);
        assert!(smallest_effect(0.1, 0.05, 6) > base);
    }

    #[test]
    fn blocks_needed_fall_with_the_effect_and_rise_with_noise_and_family() {
        let blocks = |effect, spread, k| blocks_for_effect(effect, spread, k, 0.05).unwrap();
        assert!(blocks(0.05, 0.05, 1) > blocks(0.10, 0.05, 1));
        assert!(blocks(0.05, 0.10, 1) > blocks(0.05, 0.05, 1));
        assert!(blocks(0.05, 0.05, 20) > blocks(0.05, 0.05, 1));
        assert_eq!(blocks(9.0, 0.01, 1), 6);
        assert_eq!(blocks_for_effect(1e-6, 1.0, 1, 0.05), None);
    }

    #[test]
    fn least_number_of_blocks_is_found_wherever_it_lies() {
        for least in [32, 33, 124, 136, 199, 200] {
            assert_eq!(least_blocks(31, 200, |blocks| blocks >= least), Some(least));
        }
        assert_eq!(least_blocks(31, 200, |_| false), None);
        assert_eq!(
            (least_blocks(110, 220, |blocks| blocks >= 112), least_blocks(200, 200, |_| true)),
            (Some(112), Some(200))
        );
    }

    #[test]
    fn blocks_for_an_effect_is_the_least_that_is_enough() {
        let n = blocks_for_effect(0.05, 0.05, 5, 0.05).unwrap();
        let detected = |n| effect_of_blocks(n, 0.05, 0.01);
        assert!(detected(n) <= 0.05 && detected(n - 1) > 0.05);
    }

    /// Normal noise from a fixed seed, by the sum of twelve uniform numbers.
    fn noise(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            let mut uniform = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 11) as f64 / (1u64 << 53) as f64
            };
            (0..12).map(|_| uniform()).sum::<f64>() - 6.0
        }
    }

    /// Brackets of `n` blocks with a variant slower by `effect` (ln) and normal noise of this spread.
    fn campaign(n: u32, spread: f64, effect: f64, noise: &mut impl FnMut() -> f64) -> Vec<Bracket> {
        (0..n).map(|_| Bracket::of(effect + spread * noise(), &[spread * noise(), spread * noise()])).collect()
    }

    #[test]
    fn the_expected_half_width_is_that_of_normal_noise() {
        for (n, alpha) in [(6, 0.01), (12, 0.05), (30, 0.05), (30, 0.0025), (60, 0.01)] {
            let mut noise = noise(5);
            let half = |_| {
                let test = SignTest::with_law(&campaign(n, 0.05, 0.0, &mut noise), Law::tabulated(n));
                let (low, high) = test.interval(alpha);
                0.5 * (high - low)
            };
            let mean = (0..400).map(half).sum::<f64>() / 400.0;
            let expected = expected_half_width(n, 0.05, alpha);
            assert!((0.75..1.35).contains(&(mean / expected)), "{n} blocks at {alpha}: {mean} of {expected}");
        }
    }

    #[test]
    fn the_planned_blocks_see_the_effect_they_were_planned_for() {
        for (effect, comparisons) in [(0.05, 1), (0.10, 1), (0.10, 20)] {
            let n = blocks_for_effect(effect, 0.05, comparisons, 0.05).unwrap();
            let mut noise = noise(9);
            let level = 0.05 / comparisons as f64;
            let detected = |_: &u32| {
                let brackets = campaign(n, 0.05, f64::ln_1p(effect), &mut noise);
                SignTest::with_law(&brackets, Law::tabulated(n)).interval(level).0 > 0.0
            };
            let hits = (0..300).filter(detected).count() as u32;
            let (low, _) = binomial_interval(hits, 300, 0.95);
            assert!(low >= 0.75, "{effect} in a family of {comparisons}: {n} blocks saw {hits} of 300");
        }
    }
}
