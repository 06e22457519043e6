//! The test whether values of two groups are alike.

use super::special::normal_cdf;

/// From so many values in the smaller group on the normal approximation is used.
pub const MANY: usize = 8;

/// Up to so many values in both groups the exact distribution is computed for a smaller group.
const EXACT: usize = 64;

/// Two-sided p-value of "the values of both groups have one distribution", by their ranks (Mann and Whitney, 1947): the share of all
/// ways to choose the first group that put its ranks as far from the middle; with at least [`MANY`] values in each group, or more than
/// 64 in both, the normal approximation with ties and a correction for continuity. `None` with fewer than 3 values in a group, or a
/// value that is no number.
pub fn rank_sum_p(x: &[f64], y: &[f64]) -> Option<f64> {
    const LEAST: usize = 3;
    let (few, many) = if x.len() <= y.len() { (x, y) } else { (y, x) };
    if few.len() < LEAST || x.iter().chain(y).any(|value| value.is_nan()) {
        return None;
    }
    let mut all: Vec<(f64, bool)> = few.iter().map(|value| (*value, true)).collect();
    all.extend(many.iter().map(|value| (*value, false)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Twice the mean rank of equal values is a whole number.
    let (mut ranks, mut ties) = (Vec::new(), 0.0);
    for equal in all.chunk_by(|a, b| a.0 == b.0) {
        ranks.extend(std::iter::repeat_n(2 * ranks.len() + equal.len() + 1, equal.len()));
        ties += (equal.len() as f64).powi(3) - equal.len() as f64;
    }
    let sum: usize = all.iter().zip(&ranks).filter(|((_, of_few), _)| *of_few).map(|(_, rank)| rank).sum();
    let off = sum.abs_diff(few.len() * (all.len() + 1));
    if few.len() < MANY && all.len() <= EXACT {
        return Some(exact(&ranks, few.len(), off));
    }
    let [n, m, of_all] = [few.len() as f64, many.len() as f64, all.len() as f64];
    let variance = n * m / 12.0 * (of_all + 1.0 - ties / (of_all * (of_all - 1.0)));
    if variance <= 0.0 {
        return Some(1.0);
    }
    let z = (off as f64 / 2.0 - 0.5).max(0.0) / variance.sqrt();
    Some((2.0 * (1.0 - normal_cdf(z))).min(1.0))
}

/// The share of all ways to choose so many of these doubled ranks whose sum is at least as far from the middle.
fn exact(ranks: &[usize], count: usize, off: usize) -> f64 {
    let largest: usize = ranks.iter().rev().take(count).sum();
    // By number of chosen ranks and by their sum, in how many ways.
    let mut ways = vec![vec![0.0; largest + 1]; count + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for chosen in (1..=count).rev() {
            for sum in (*rank..=largest).rev() {
                ways[chosen][sum] += ways[chosen - 1][sum - rank];
            }
        }
    }
    let middle = count * (ranks.len() + 1);
    let as_far = ways[count].iter().enumerate().filter(|(sum, _)| sum.abs_diff(middle) >= off);
    as_far.map(|(_, ways)| ways).sum::<f64>() / ways[count].iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The share of all ways to choose the first group, of equally many values, whose sum of ranks is as far from the middle.
    fn of_all_ways(x: &[f64], y: &[f64]) -> f64 {
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
        assert!((p - 2.0 / 3432.0).abs() < 1e-12, "{p}: two of all ways to choose 7 of 14");
        assert_eq!(rank_sum_p(&[1.0; 9], &[1.0; 9]), Some(1.0));
        assert_eq!(rank_sum_p(&[1.0; 4], &[1.0; 4]), Some(1.0));
        assert_eq!((rank_sum_p(&below[..2], &above), rank_sum_p(&[f64::NAN; 4], &above)), (None, None));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn p_values_are_those_of_all_permutations(x in prop::collection::vec(0..20_u8, 3..10), y in prop::collection::vec(0..25_u8, 3..10)) {
            let [x, y] = [x, y].map(|values| values.into_iter().map(f64::from).collect::<Vec<f64>>());
            let (p, all) = (rank_sum_p(&x, &y).unwrap(), of_all_ways(&x, &y));
            let is_exact = x.len().min(y.len()) < MANY;
            let most = if is_exact { 1e-9 } else if all < 0.2 { 0.02 } else { 0.05 };
            prop_assert!((p - all).abs() <= most, "{p}, by all ways {all}");
            prop_assert!((p - rank_sum_p(&y, &x).unwrap()).abs() < 1e-9);
        }
    }
}
