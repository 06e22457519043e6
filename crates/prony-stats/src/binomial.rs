//! Binomial tails and exact intervals for counts.

use super::special::{beta_cdf, beta_quantile, ln_gamma};

/// `P(B <= at_most)` of a binomial variable with `trials` fair tosses.
pub(crate) fn fair_tail(at_most: u32, trials: u32) -> f64 {
    if at_most >= trials {
        return 1.0;
    }
    // 2^-n is a normal number up to here; beyond, the sum would lose its first terms.
    if trials > 1000 {
        return beta_cdf(f64::from(trials - at_most), f64::from(at_most) + 1.0, 0.5);
    }
    let mut term = 0.5f64.powi(trials as i32);
    let mut sum = term;
    for i in 0..at_most {
        term *= f64::from(trials - i) / f64::from(i + 1);
        sum += term;
    }
    sum
}

/// The exact (Clopper-Pearson) interval for a probability, from `successes` of `trials`, at `level` such as 0.95.
///
/// Covers the truth with at least `level`, whatever it is. With no trials it is 0 to 1.
pub fn binomial_interval(successes: u32, trials: u32, level: f64) -> (f64, f64) {
    let tail = 0.5 * (1.0 - level);
    let (k, n) = (f64::from(successes), f64::from(trials));
    let low = if successes == 0 { 0.0 } else { beta_quantile(tail, k, n - k + 1.0) };
    let high = if successes >= trials { 1.0 } else { beta_quantile(1.0 - tail, k + 1.0, n - k) };
    (low, high)
}

/// The p-value of "both have the same share of successes", from successes and trials of each: Fisher's exact test, two-sided
/// by the probabilities of the tables.
pub(crate) fn exact_p((hits, n): (u32, u32), (other_hits, m): (u32, u32)) -> f64 {
    let choose = |n: u32, k: u32| {
        let [n, k, rest] = [n, k, n - k].map(|count| ln_gamma(f64::from(count) + 1.0));
        n - k - rest
    };
    let all = hits + other_hits;
    let log = |hits: u32| choose(n, hits) + choose(m, all - hits) - choose(n + m, all);
    // Tables as probable as this one differ from it by rounding errors.
    let most = log(hits) + 1e-7;
    let tables = all.saturating_sub(m)..=all.min(n);
    tables.map(log).filter(|log| *log <= most).map(f64::exp).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By enumeration of which of all trials succeeded, of those with as many successes.
    #[test]
    fn exact_test_agrees_with_enumeration() {
        for (n, m) in [(3u32, 6u32), (5, 5), (1, 9)] {
            for (hits, other_hits) in (0..=n).flat_map(|hits| (0..=m).map(move |other_hits| (hits, other_hits))) {
                let of_first = |word: &u32| (word & ((1 << n) - 1)).count_ones();
                let words: Vec<u32> =
                    (0..1 << (n + m)).filter(|word: &u32| word.count_ones() == hits + other_hits).collect();
                let count = |hits: u32| words.iter().filter(|word| of_first(word) == hits).count();
                let extreme = (0..=n).map(count).filter(|found| *found <= count(hits)).sum::<usize>();
                let expected = extreme as f64 / words.len() as f64;
                let found = exact_p((hits, n), (other_hits, m));
                assert!((found - expected).abs() < 1e-6, "{hits} of {n}, {other_hits} of {m}: {found}, {expected}");
            }
        }
        assert_eq!(exact_p((0, 0), (5, 5)), 1.0);
    }

    /// By enumeration of all outcomes of `n` tosses.
    fn enumerated(at_most: u32, n: u32) -> f64 {
        let hits = (0u32..1 << n).filter(|word| word.count_ones() <= at_most).count();
        hits as f64 / f64::from(1u32 << n)
    }

    #[test]
    fn fair_tails_agree_with_enumeration() {
        for n in 0..16 {
            for k in 0..=n {
                assert!((fair_tail(k, n) - enumerated(k, n)).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn both_ways_of_computing_a_tail_agree() {
        let direct = fair_tail(480, 1000);
        let beta = beta_cdf(520.0, 481.0, 0.5);
        assert!((direct - beta).abs() < 1e-11, "{direct} {beta}");
        assert!((fair_tail(600, 1200) - 0.5).abs() < 0.02);
    }

    #[test]
    fn exact_intervals_cover_as_promised_by_enumeration() {
        for n in [1u32, 5, 12, 30] {
            let intervals: Vec<_> = (0..=n).map(|k| binomial_interval(k, n, 0.95)).collect();
            for step in 1..100 {
                let p = f64::from(step) / 100.0;
                let mut covered = 0.0;
                let mut choose = 1.0;
                for k in 0..=n {
                    let mass = choose * f64::powi(p, k as i32) * f64::powi(1.0 - p, (n - k) as i32);
                    let (low, high) = intervals[k as usize];
                    covered += if low <= p && p <= high { mass } else { 0.0 };
                    choose *= f64::from(n - k) / f64::from(k + 1);
                }
                assert!(covered >= 0.95 - 1e-9, "n {n}, p {p}: {covered}");
            }
        }
    }

    #[test]
    fn interval_of_zero_hits_is_the_rule_of_three() {
        let (low, high) = binomial_interval(0, 100, 0.95);
        assert_eq!(low, 0.0);
        assert!((high - (1.0 - 0.025f64.powf(0.01))).abs() < 1e-9);
        assert_eq!(binomial_interval(0, 0, 0.95), (0.0, 1.0));
        assert_eq!(binomial_interval(7, 7, 0.95).1, 1.0);
    }
}
