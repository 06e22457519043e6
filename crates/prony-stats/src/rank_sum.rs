//! The test whether values of two groups are alike.

use super::special::normal_cdf;

/// Two-sided p-value of "the values of both groups have one distribution", by their ranks (Mann and Whitney, 1947): the normal
/// approximation with ties and a correction for continuity. `None` with fewer than 6 values in a group, for which it is too coarse, or
/// a value that is no number.
pub fn rank_sum_p(x: &[f64], y: &[f64]) -> Option<f64> {
    const LEAST: usize = 6;
    if x.len() < LEAST || y.len() < LEAST || x.iter().chain(y).any(|value| value.is_nan()) {
        return None;
    }
    let mut all: Vec<(f64, bool)> = x.iter().map(|value| (*value, true)).collect();
    all.extend(y.iter().map(|value| (*value, false)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut ranks, mut ties, mut first) = (0.0, 0.0, 0);
    for equal in all.chunk_by(|a, b| a.0 == b.0) {
        let count = equal.len() as f64;
        let rank = first as f64 + (count + 1.0) / 2.0;
        ranks += rank * equal.iter().filter(|(_, of_x)| *of_x).count() as f64;
        ties += count.powi(3) - count;
        first += equal.len();
    }
    let [n, m, of_all] = [x.len() as f64, y.len() as f64, all.len() as f64];
    let off = (ranks - n * (n + 1.0) / 2.0 - n * m / 2.0).abs();
    let variance = n * m / 12.0 * (of_all + 1.0 - ties / (of_all * (of_all - 1.0)));
    if variance <= 0.0 {
        return Some(1.0);
    }
    let z = (off - 0.5).max(0.0) / variance.sqrt();
    Some((2.0 * (1.0 - normal_cdf(z))).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The share of all ways to choose the first group, of equally many values, whose sum of ranks is as far from the middle.
    fn exact(x: &[f64], y: &[f64]) -> f64 {
        let all: Vec<f64> = x.iter().chain(y).copied().collect();
        let rank = |value: f64| {
            let below = all.iter().filter(|other| **other < value).count() as f64;
            below + (all.iter().filter(|other| **other == value).count() as f64 + 1.0) / 2.0
        };
        let ranks: Vec<f64> = all.iter().map(|value| rank(*value)).collect();
        let middle = x.len() as f64 * (all.len() as f64 + 1.0) / 2.0;
        let off = |chosen: u32| {
            let sum: f64 = (0..all.len()).filter(|at| chosen >> at & 1 == 1).map(|at| ranks[at]).sum();
            (sum - middle).abs()
        };
        let ours = off((1 << x.len()) - 1) - 1e-9;
        let ways = (0..1_u32 << all.len()).filter(|chosen| chosen.count_ones() as usize == x.len());
        let [as_far, every] =
            ways.fold([0.0, 0.0], |[far, every], chosen| [far + f64::from(u8::from(off(chosen) >= ours)), every + 1.0]);
        as_far / every
    }

    #[test]
    fn groups_that_are_apart_have_small_p_values() {
        let [below, above]: [Vec<f64>; 2] = [0, 10].map(|from| (from..from + 7).map(f64::from).collect());
        let p = rank_sum_p(&below, &above).unwrap();
        assert!(p < 0.003, "{p}");
        assert_eq!(rank_sum_p(&[1.0; 9], &[1.0; 9]), Some(1.0));
        assert_eq!(rank_sum_p(&below[..5], &above), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn p_values_are_those_of_all_permutations(x in prop::collection::vec(0..20_u8, 6..8), y in prop::collection::vec(0..25_u8, 6..8)) {
            let [x, y] = [x, y].map(|values| values.into_iter().map(f64::from).collect::<Vec<f64>>());
            let (p, exact) = (rank_sum_p(&x, &y).unwrap(), exact(&x, &y));
            prop_assert!((p - exact).abs() <= if exact < 0.2 { 0.02 } else { 0.05 }, "{p}, exactly {exact}");
            prop_assert!((p - rank_sum_p(&y, &x).unwrap()).abs() < 1e-9);
        }
    }
}
