//! Other methods to judge: those of other tools on sequential runs, and those that were tried inside blocks.

use prony_stats::simulation::Rng;
use prony_stats::special::{normal_cdf, t_two_sided};

use crate::noise::median;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 400;

fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0))
}

/// Welch's t-test, two-sided p.
pub fn welch(a: &[f64], b: &[f64]) -> f64 {
    let ((ma, va), (mb, vb)) = (moments(a), moments(b));
    let (ea, eb) = (va / a.len() as f64, vb / b.len() as f64);
    let df = (ea + eb).powi(2) / (ea.powi(2) / (a.len() as f64 - 1.0) + eb.powi(2) / (b.len() as f64 - 1.0));
    t_two_sided((ma - mb) / (ea + eb).sqrt(), df)
}

/// Mann and Whitney's test by its normal approximation with continuity correction, two-sided p.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let score = |x: f64, y: f64| {
        if x > y {
            1.0
        } else if x == y {
            0.5
        } else {
            0.0
        }
    };
    let u: f64 = a.iter().flat_map(|x| b.iter().map(move |y| score(*x, *y))).sum();
    let (n, m) = (a.len() as f64, b.len() as f64);
    let z = ((u - 0.5 * n * m).abs() - 0.5).max(0.0) / (n * m * (n + m + 1.0) / 12.0).sqrt();
    2.0 * (1.0 - normal_cdf(z))
}

/// Whether the 95 % percentile bootstrap interval of the ratio of means excludes 1.
pub fn bootstrap_differs(a: &[f64], b: &[f64], rng: &mut Rng) -> bool {
    let mut mean = |values: &[f64]| (0..values.len()).map(|_| values[rng.below(values.len())]).sum::<f64>();
    let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| mean(a) / mean(b)).collect();
    ratios.sort_by(f64::total_cmp);
    let tail = RESAMPLES / 40;
    ratios[tail] > 1.0 || ratios[RESAMPLES - 1 - tail] < 1.0
}

/// Whether the medians differ by more than 1 %: a gate without a test.
pub fn gate(a: &[f64], b: &[f64]) -> bool {
    (median(a) / median(b)).ln().abs() > 1.01f64.ln()
}

/// Student's t on the log-ratios, two-sided p.
pub fn t_test(differences: &[f64]) -> f64 {
    let (mean, variance) = moments(differences);
    let n = differences.len() as f64;
    t_two_sided(mean / (variance / n).sqrt(), n - 1.0)
}

/// Wilcoxon's signed-rank test, exact for distinct values, two-sided p.
pub fn signed_rank(differences: &[f64]) -> f64 {
    let mut order: Vec<&f64> = differences.iter().collect();
    order.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let n = order.len();
    let positive: usize = order.iter().enumerate().filter(|(_, d)| ***d > 0.0).map(|(i, _)| i + 1).sum();
    let most = n * (n + 1) / 2;
    let mut law = vec![0.0; most + 1];
    law[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..=most).rev() {
            law[sum] = 0.5 * (law[sum] + if sum >= rank { law[sum - rank] } else { 0.0 });
        }
    }
    let tail: f64 = law[..=positive.min(most - positive)].iter().sum();
    (2.0 * tail).min(1.0)
}

/// The within-block permutation of {baseline, baseline', variant} on ranks: `above - below`, each block 1/3 above, 1/3
/// below, exact where the variants are identical. Two-sided p.
pub fn permutation(blocks: usize, above: usize, below: usize) -> f64 {
    let mut law = vec![1.0];
    for _ in 0..blocks {
        let mut next = vec![0.0; law.len() + 2];
        for (i, mass) in law.iter().enumerate() {
            for slot in &mut next[i..i + 3] {
                *slot += mass / 3.0;
            }
        }
        law = next;
    }
    let tail: f64 = law[blocks + above.abs_diff(below)..].iter().sum();
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn permutation_agrees_with_enumeration() {
        let n = 6u32;
        for (above, below) in [(6usize, 0usize), (4, 1), (3, 3), (0, 5)] {
            let score = |word: u32| (0..n).map(|b| i64::from(word / 3u32.pow(b) % 3) - 1).sum::<i64>();
            let bound = above.abs_diff(below) as i64;
            let hits = (0..3u32.pow(n)).filter(|w| score(*w).abs() >= bound).count();
            close(
                permutation(n as usize, above, below),
                (hits as f64 / 729.0).min(1.0).max(if bound == 0 { 1.0 } else { 0.0 }),
            );
        }
        close(permutation(6, 6, 0), 2.0 / 729.0);
    }

    #[test]
    fn signed_rank_agrees_with_enumeration() {
        let d = [0.3, -0.1, 0.7, 1.1, -0.2, 0.9, 1.3];
        let ranks = [3, 1, 4, 6, 2, 5, 7];
        let observed: i64 = ranks.iter().zip(d).map(|(r, d)| if d > 0.0 { *r } else { -*r }).sum();
        let sum = |word: u32| -> i64 { (0..7).map(|i| if word >> i & 1 == 1 { i + 1 } else { -(i + 1) }).sum() };
        let hits = (0u32..128).filter(|w| sum(*w).abs() >= observed.abs()).count();
        close(signed_rank(&d), hits as f64 / 128.0);
        close(signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 2f64.powi(-5));
    }

    #[test]
    fn welch_agrees_with_the_textbook() {
        // Equal sizes and variances: the pooled t with n + m - 2 degrees of freedom.
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0]);
        let t = 2.0 / (2.0 * (5.0 / 3.0) / 4.0f64).sqrt();
        close(welch(&a, &b), t_two_sided(t, 6.0));
    }

    #[test]
    fn mann_whitney_counts_pairs() {
        let p = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
        let z: f64 = (12.5 - 0.5) / (25.0f64 * 11.0 / 12.0).sqrt();
        close(p, 2.0 * (1.0 - normal_cdf(z)));
        close(mann_whitney(&[1.0, 2.0], &[1.0, 2.0]), 1.0);
    }

    #[test]
    fn clear_difference_is_found_by_every_test() {
        let a: Vec<f64> = (0..10).map(|i| 100.0 + f64::from(i)).collect();
        let b: Vec<f64> = a.iter().map(|v| v * 2.0).collect();
        assert!(welch(&a, &b) < 1e-6 && mann_whitney(&a, &b) < 1e-3 && gate(&a, &b));
        assert!(bootstrap_differs(&a, &b, &mut Rng::new(1)) && !gate(&a, &a));
        assert!(!bootstrap_differs(&a, &a, &mut Rng::new(1)));
    }
}
