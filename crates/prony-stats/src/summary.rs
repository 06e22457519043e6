//! Summarises the values of several trials: median, spread, and an interval that assumes only independence.

use serde::{Deserialize, Serialize};

use super::binomial::fair_tail;
use prony_model::reading::{Reading, Why};

/// Summary of the values of a set of trials, in their own unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many values.
    pub n: u32,
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// Lower quartile (linear between neighbours, R's type 7).
    pub q1: f64,
    /// Upper quartile.
    pub q3: f64,
    /// Median absolute deviation from the median, unscaled.
    pub mad: f64,
    /// Sample standard deviation (divisor n - 1); 0 for one value.
    pub sd: f64,
}

/// Summarises finite values; `None` where there are none or one is not finite.
pub fn summary(values: &[f64]) -> Option<Summary> {
    if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let sorted = sorted(values);
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let median = quantile(&sorted, 0.5);
    let deviations: Vec<f64> = values.iter().map(|v| (v - median).abs()).collect();
    Some(Summary {
        n: values.len() as u32,
        median,
        mean,
        min: sorted[0],
        max: sorted[sorted.len() - 1],
        q1: quantile(&sorted, 0.25),
        q3: quantile(&sorted, 0.75),
        mad: quantile(&self::sorted(&deviations), 0.5),
        sd: if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 },
    })
}

/// The interval for the median from order statistics, at `level` such as 0.95: holds whatever the distribution.
///
/// Missing with fewer values than `2^(1 - n) <= 1 - level` takes: 6 at 95 %.
pub fn median_interval(values: &[f64], level: f64) -> Reading<(f64, f64)> {
    let n = values.len() as u32;
    let tail = 0.5 * (1.0 - level);
    if fair_tail(0, n) > tail {
        let need = (1..).find(|n| fair_tail(0, *n) <= tail).unwrap_or(u32::MAX);
        return Reading::Missing(Why::TooFew { have: n.into(), need: need.into() });
    }
    let cut = (0..n).take_while(|k| fair_tail(*k, n) <= tail).count() - 1;
    let sorted = sorted(values);
    Reading::Measured((sorted[cut], sorted[sorted.len() - 1 - cut]))
}

/// The `share`-quantile of sorted values, linear between neighbours. The slice is not empty.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (left, part) = (place.floor() as usize, place.fract());
    let right = (left + 1).min(sorted.len() - 1);
    // Of two equal infinities the difference is no number.
    if part == 0.0 || sorted[left] == sorted[right] {
        return sorted[left];
    }
    sorted[left] + part * (sorted[right] - sorted[left])
}

/// The middle of any values, infinite ones included; `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() { None } else { Some(quantile(&sorted(values), 0.5)) }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_known_set() {
        let s = summary(&[4.0, 1.0, 2.0, 3.0, 10.0]).unwrap();
        assert_eq!((s.n, s.median, s.mean, s.min, s.max), (5, 3.0, 4.0, 1.0, 10.0));
        assert_eq!((s.q1, s.q3, s.mad), (2.0, 4.0, 1.0));
        assert!((s.sd - 12.5f64.sqrt()).abs() < 1e-12);
        assert_eq!(summary(&[7.0]).unwrap().sd, 0.0);
        assert_eq!(summary(&[1.0, 2.0]).unwrap().median, 1.5);
    }

    #[test]
    fn nothing_and_not_a_number_have_no_summary() {
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[1.0, f64::NAN]), None);
        assert_eq!(summary(&[f64::INFINITY]), None);
        assert_eq!((median(&[]), median(&[4.0, 1.0, 2.0, 3.0])), (None, Some(2.5)));
    }

    #[test]
    fn the_median_interval_needs_six_at_95_percent() {
        let five = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(median_interval(&five, 0.95), Reading::Missing(Why::TooFew { have: 5, need: 6 }));
        let six = [6.0, 1.0, 2.0, 5.0, 3.0, 4.0];
        assert_eq!(median_interval(&six, 0.95), Reading::Measured((1.0, 6.0)));
        assert_eq!(median_interval(&[], 0.95), Reading::Missing(Why::TooFew { have: 0, need: 6 }));
    }

    /// The ranks of the interval against the binomial, enumerated over all arrangements above and below the median.
    #[test]
    fn the_median_interval_covers_as_promised_by_enumeration() {
        for n in [6u32, 9, 12, 15] {
            let values: Vec<f64> = (0..n).map(f64::from).collect();
            let Reading::Measured((low, high)) = median_interval(&values, 0.95) else { panic!("enough values") };
            let (low, high) = (low as u32, high as u32);
            // With `below` values under the true median, it lies between ranks `below - 1` and `below`.
            let covered = (0u32..1 << n).filter(|word| (low + 1..=high).contains(&word.count_ones())).count();
            assert!(covered as f64 / f64::from(1u32 << n) >= 0.95);
            let tighter = (0u32..1 << n).filter(|word| (low + 2..high).contains(&word.count_ones())).count();
            assert!((tighter as f64) / f64::from(1u32 << n) < 0.95, "wider than needed at {n}");
        }
    }
}
