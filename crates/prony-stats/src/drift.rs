//! Checks on values in the order of time: drift and autocorrelation.

use serde::{Deserialize, Serialize};

use super::slopes::score_and_median;
use super::special::normal_cdf;

/// Up to here Kendall's distribution is computed exactly; beyond, by its normal approximation.
const EXACT_KENDALL: usize = 100;

/// A monotone trend over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// The last value as a multiple of the first along the fitted line: 1.2 is a rise of 20 %.
    pub ratio: f64,
    /// Kendall's rank correlation with time, -1 to 1.
    pub tau: f64,
    /// Two-sided p-value of "no trend", for independent values; autocorrelation makes it too small.
    pub p: f64,
}

/// The trend of positive values in the order of time: Kendall's test (Mann, 1945) and the median of all pairwise
/// slopes of the logarithm (Theil and Sen). `None` with fewer than 4 values or one that is not above zero.
pub fn drift(values: &[f64]) -> Option<Drift> {
    if values.len() < 4 || values.iter().any(|v| !v.is_finite() || *v <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let (score, slope) = score_and_median(&logs);
    let pairs = logs.len() * (logs.len() - 1) / 2;
    Some(Drift {
        ratio: (slope * (logs.len() - 1) as f64).exp(),
        tau: score as f64 / pairs as f64,
        p: kendall_p(score, logs.len()),
    })
}

/// `P(|S| >= |score|)` over all orders of `n` distinct values.
fn kendall_p(score: i64, n: usize) -> f64 {
    let pairs = n * (n - 1) / 2;
    if n > EXACT_KENDALL {
        let n = n as f64;
        let sd = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
        let z = (score.unsigned_abs() as f64 - 1.0).max(0.0) / sd;
        return 2.0 * (1.0 - normal_cdf(z));
    }
    // Inversions beyond this many are as far from the middle as the score.
    let concordant = (pairs as i64 + score.abs()) / 2;
    let law = inversions(n);
    let tail: f64 = law[concordant as usize..].iter().sum();
    (2.0 * tail).min(1.0)
}

/// The distribution of the number of inversions of a random order of `n` values.
fn inversions(n: usize) -> Vec<f64> {
    let mut law = vec![1.0];
    for size in 2..=n {
        // The new value comes before 0 to size - 1 of the earlier ones, each equally likely: a moving average.
        let mut next = vec![0.0; law.len() + size - 1];
        for (i, mass) in law.iter().enumerate() {
            for slot in &mut next[i..i + size] {
                *slot += mass / size as f64;
            }
        }
        law = next;
    }
    law
}

/// The correlation of each value with the next, -1 to 1; `None` with fewer than 4 values or no spread.
///
/// Beyond `2 / sqrt(n)` it is unlikely to be chance.
pub fn autocorrelation(values: &[f64]) -> Option<f64> {
    if values.len() < 4 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let all: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let next: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    (all > 0.0 && all.is_finite()).then(|| next / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permutations(n: usize) -> Vec<Vec<usize>> {
        if n == 0 {
            return vec![Vec::new()];
        }
        let mut all = Vec::new();
        for shorter in permutations(n - 1) {
            for place in 0..n {
                let mut longer = shorter.clone();
                longer.insert(place, n - 1);
                all.push(longer);
            }
        }
        all
    }

    fn score(order: &[usize]) -> i64 {
        let pairs = (0..order.len()).flat_map(|i| (i + 1..order.len()).map(move |j| (i, j)));
        pairs.map(|(i, j)| if order[j] > order[i] { 1 } else { -1 }).sum()
    }

    #[test]
    fn kendall_agrees_with_enumeration() {
        for n in 2..8 {
            let all = permutations(n);
            for observed in &all {
                let s = score(observed);
                let extreme = all.iter().filter(|o| score(o).abs() >= s.abs()).count();
                let expected = extreme as f64 / all.len() as f64;
                assert!((kendall_p(s, n) - expected).abs() < 1e-12, "n {n}, score {s}");
            }
        }
    }

    #[test]
    fn the_normal_approximation_takes_over_smoothly() {
        let n = EXACT_KENDALL;
        for s in [100, 500, 1000] {
            let exact = kendall_p(s, n);
            let (m, sd) = (n as f64, ((n * (n - 1) * (2 * n + 5)) as f64 / 18.0).sqrt());
            let normal = 2.0 * (1.0 - normal_cdf((s as f64 - 1.0) / sd));
            assert!((exact - normal).abs() < 0.002, "{m} {s}: {exact} {normal}");
        }
    }

    #[test]
    fn a_trend_is_found_and_noise_is_not() {
        let rising: Vec<f64> = (0..20).map(|i| 100.0 * 1.01f64.powi(i)).collect();
        let found = drift(&rising).unwrap();
        assert!((found.ratio - 1.01f64.powi(19)).abs() < 1e-9 && found.tau == 1.0 && found.p < 1e-9);
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert!((drift(&falling).unwrap().ratio * found.ratio - 1.0).abs() < 1e-9);
        let seesaw: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i % 2)).collect();
        assert!(drift(&seesaw).unwrap().p > 0.2);
        assert_eq!(drift(&[1.0, 2.0, 3.0]), None);
        assert_eq!(drift(&[1.0, 2.0, 0.0, 3.0]), None);
    }

    #[test]
    fn autocorrelation_distinguishes_persistence_from_alternation() {
        let slow: Vec<f64> = (0..200).map(|i| (f64::from(i) / 20.0).sin()).collect();
        assert!(autocorrelation(&slow).unwrap() > 0.9);
        let seesaw: Vec<f64> = (0..200).map(|i| f64::from(i % 2)).collect();
        assert!(autocorrelation(&seesaw).unwrap() < -0.9);
        assert_eq!(autocorrelation(&[1.0; 10]), None);
        assert_eq!(autocorrelation(&[1.0, 2.0]), None);
    }
}
