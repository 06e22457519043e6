//! Computes the median slope between all pairs of values in order without computing every slope: `n (n - 1) / 2` is 50
//! million for 10,000 trials.
//!
//! The slope from value `i` to a later value `j` is below `s` where `values[j] - s * j < values[i] - s * i`. So the
//! number of slopes below `s` is the number of inversions of the values from which the line of slope `s` is taken away,
//! and sorting counts those (Cole, Salowe, Steiger and Szemerédi, 1989, select by it). Bisection encloses the median
//! between two slopes with few pairs between them; these are made and sorted. What is enclosed is widened by more than
//! the rounding of the lines, so that the result is the float that sorting all slopes gives.

use super::summary::quantile;

/// Enclosed slopes for each value at which bisection stops.
const FEW: u64 = 4;

/// Kendall's score, which is the number of pairs that rise less the number of those that fall; and the middle of the slopes
/// of all pairs, or the mean of the two middle ones. There are two values or more, all finite.
pub(crate) fn score_and_median(values: &[f64]) -> (i64, f64) {
    let pairs = (values.len() * (values.len() - 1) / 2) as u64;
    let negated: Vec<f64> = values.iter().map(|v| -v).collect();
    let (falling, rising) = (below(values, 0.0), below(&negated, 0.0));
    let middle = ((pairs - 1) / 2, pairs / 2);
    let level = falling <= middle.0 && middle.1 < pairs - rising;
    (rising as i64 - falling as i64, if level { 0.0 } else { median(values, pairs, middle) })
}

/// The mean of the slopes of these two ranks.
fn median(values: &[f64], pairs: u64, middle: (u64, u64)) -> f64 {
    let margin = rounding(values);
    let (low, high) = enclose(values, pairs, middle, margin);
    let (low, high) = (low - margin, high + margin);
    let before = below(values, low);
    let mut slopes = between(values, low, high);
    slopes.sort_by(f64::total_cmp);
    quantile(&slopes[(middle.0 - before) as usize..=(middle.1 - before) as usize], 0.5)
}

/// Two slopes between which those of both ranks lie, by the rounded lines.
fn enclose(values: &[f64], pairs: u64, middle: (u64, u64), margin: f64) -> (f64, f64) {
    let steepest = steepest(values) + margin;
    let few = FEW * values.len() as u64;
    let (mut low, mut high) = ((-steepest, 0), (steepest, pairs));
    while high.1 - low.1 > few {
        let slope = low.0 + (high.0 - low.0) / 2.0;
        let count = below(values, slope);
        if slope <= low.0 || slope >= high.0 || (middle.0 < count && count <= middle.1) {
            break;
        }
        let side = if count <= middle.0 { &mut low } else { &mut high };
        *side = (slope, count);
    }
    (low.0, high.0)
}

/// More than what rounding moves a pair across a slope.
fn rounding(values: &[f64]) -> f64 {
    let largest = values.iter().fold(0.0, |largest: f64, v| largest.max(v.abs()));
    8.0 * (f64::EPSILON * (largest + steepest(values) * values.len() as f64)).max(f64::MIN_POSITIVE)
}

/// No pair is steeper than the steepest of neighbours.
fn steepest(values: &[f64]) -> f64 {
    values.windows(2).fold(0.0, |steepest, pair| (pair[1] - pair[0]).abs().max(steepest))
}

/// How many pairs have a slope below this one.
fn below(values: &[f64], slope: f64) -> u64 {
    inversions(&mut levelled(values, slope), &mut Vec::with_capacity(values.len()))
}

/// The values less a line of this slope.
fn levelled(values: &[f64], slope: f64) -> Vec<f64> {
    values.iter().enumerate().map(|(at, value)| value - slope * at as f64).collect()
}

/// Pairs of which the later value is the smaller one. Sorts the values.
fn inversions(values: &mut [f64], merged: &mut Vec<f64>) -> u64 {
    if values.len() < 2 {
        return 0;
    }
    let (left, right) = values.split_at_mut(values.len() / 2);
    let mut count = inversions(left, merged) + inversions(right, merged);
    merged.clear();
    let (mut l, mut r) = (0, 0);
    while l < left.len() && r < right.len() {
        if right[r] < left[l] {
            count += (left.len() - l) as u64;
            merged.push(right[r]);
            r += 1;
        } else {
            merged.push(left[l]);
            l += 1;
        }
    }
    merged.extend_from_slice(&left[l..]);
    merged.extend_from_slice(&right[r..]);
    values.copy_from_slice(merged);
    count
}

/// The slopes from `low` up to `high`: the pairs that stand in one order less the line of the one, and in the other order
/// less that of the other. Sorting by insertion exchanges each of them once.
fn between(values: &[f64], low: f64, high: f64) -> Vec<f64> {
    let (at_low, at_high) = (levelled(values, low), levelled(values, high));
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| at_low[*a].total_cmp(&at_low[*b]));
    let precedes = |a: usize, b: usize| at_high[a] < at_high[b] || (at_high[a] == at_high[b] && a < b);
    let mut slopes = Vec::new();
    for end in 1..order.len() {
        let mut at = end;
        while at > 0 && precedes(order[at], order[at - 1]) {
            let (i, j) = (order[at].min(order[at - 1]), order[at].max(order[at - 1]));
            slopes.push((values[j] - values[i]) / (j - i) as f64);
            order.swap(at, at - 1);
            at -= 1;
        }
    }
    slopes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::summary::median;

    /// The same result by making every pair.
    fn every_pair(values: &[f64]) -> (i64, f64) {
        let pairs = (0..values.len()).flat_map(|i| (i + 1..values.len()).map(move |j| (i, j)));
        let slopes: Vec<f64> = pairs.map(|(i, j)| (values[j] - values[i]) / (j - i) as f64).collect();
        let score = slopes.iter().map(|s| i64::from(*s > 0.0) - i64::from(*s < 0.0)).sum();
        (score, median(&slopes).unwrap())
    }

    fn same(values: &[f64]) -> Result<(), TestCaseError> {
        prop_assert_eq!(score_and_median(values), every_pair(values));
        Ok(())
    }

    proptest! {
        #[test]
        fn score_and_median_are_those_of_every_pair(values in prop::collection::vec(-30.0f64..30.0, 2..200)) {
            same(&values)?;
        }

        #[test]
        fn score_and_median_of_equal_values_are_those_of_every_pair(
            values in prop::collection::vec(1u32..6, 2..200),
            scale in prop::sample::select(vec![1.0, 1e-12, 1e9]),
        ) {
            same(&values.iter().map(|v| f64::from(*v) * scale).collect::<Vec<_>>())?;
            same(&values.iter().map(|v| f64::from(*v).ln()).collect::<Vec<_>>())?;
        }

        #[test]
        fn score_and_median_of_a_trend_with_noise_are_those_of_every_pair(
            noise in prop::collection::vec(0.0f64..1e-3, 300..600),
            trend in -1e-4f64..1e-4,
        ) {
            same(&noise.iter().enumerate().map(|(at, noise)| 14.0 + trend * at as f64 + noise).collect::<Vec<_>>())?;
        }
    }

    #[test]
    fn slopes_of_a_line_are_all_the_same() {
        let rising: Vec<f64> = (0..500).map(|i| 3.0 + 0.25 * f64::from(i)).collect();
        assert_eq!(score_and_median(&rising), (500 * 499 / 2, 0.25));
        assert_eq!(score_and_median(&[7.0; 500]), (0, 0.0));
        assert_eq!(score_and_median(&[0.0; 9]), (0, 0.0));
    }
}
