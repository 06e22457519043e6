//! Test support: the chi-square statistic for tests of distributions, and the set of keys for tests of keys and orders.

use prony_model::spec::KeySpec;

use crate::Records;
use crate::key::hash_bits;
use crate::zipf::zeta;

/// How far observed counts lie from probabilities (which sum to 1), as a standard normal deviate: the chi-square
/// statistic by the cube-root approximation of Wilson and Hilferty (1931). Cells expected below 5 are pooled.
pub(super) fn deviation(observed: &[u64], probabilities: &[f64]) -> f64 {
    assert_eq!(observed.len(), probabilities.len());
    let total: u64 = observed.iter().sum();
    let sum: f64 = probabilities.iter().sum();
    assert!((sum - 1.0).abs() < 1e-6, "probabilities sum to {sum}");
    let (mut chi, mut cells) = (0.0, 0.0);
    let (mut counted, mut expected) = (0.0, 0.0);
    for (count, probability) in observed.iter().zip(probabilities) {
        counted += *count as f64;
        expected += probability * total as f64;
        if expected >= 5.0 {
            chi += (counted - expected).powi(2) / expected;
            cells += 1.0;
            (counted, expected) = (0.0, 0.0);
        }
    }
    let freedom: f64 = cells - 1.0;
    let spread = 2.0 / (9.0 * freedom);
    ((chi / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}

/// Counts of draws from `0..n`.
pub(super) fn count(n: usize, draws: usize, mut draw: impl FnMut() -> u64) -> Vec<u64> {
    let mut counts = vec![0; n];
    for _ in 0..draws {
        counts[draw() as usize] += 1;
    }
    counts
}

/// Probabilities of the first ranks under the algorithm of `Zipfian`: the first two exact, all further ones from the
/// inverse of its continuous part.
pub(super) fn gray(n: u64, theta: f64, ranks: u64) -> Vec<f64> {
    let exact = |n: u64| (1..=n).map(|i| (i as f64).powf(-theta)).sum::<f64>();
    let zeta_n = if n <= 10_000_000 { exact(n) } else { zeta(n, theta) };
    let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - exact(2) / zeta_n);
    let below = |rank: u64| ((rank as f64 / n as f64).powf(1.0 - theta) - 1.0 + eta) / eta;
    let probability = |rank| match rank {
        0 => 1.0 / zeta_n,
        1 => 0.5f64.powf(theta) / zeta_n,
        _ => below(rank + 1) - below(rank),
    };
    (0..ranks).map(probability).collect()
}

/// How many numbers, from 0, have keys of their own; `None` where all 64-bit numbers have.
///
/// A template without a gap for the number has one key only.
pub(super) fn key_capacity(spec: &KeySpec) -> Option<u64> {
    match spec {
        KeySpec::Template { parts, .. } => (parts.len() < 2).then_some(1),
        KeySpec::Integer { bytes } => 1u64.checked_shl(8 * u32::from(*bytes)),
        KeySpec::Hashed { prefix, bytes, hex } => 1u64.checked_shl(hash_bits(prefix.len(), *bytes, *hex)),
    }
}

/// The key of a record.
pub(super) fn key(records: &Records, number: u64) -> Vec<u8> {
    let mut key = Vec::new();
    records.key(number, &mut key);
    key
}

#[test]
fn the_deviate_distinguishes_fair_from_loaded() {
    let fair = [0.25; 4];
    // Chi-square 2 of 3 is the quantile 0.4276, 11.22 is 0.9894: normal deviates -0.18 and 2.30.
    assert!((deviation(&[110, 100, 90, 100], &fair) + 0.18).abs() < 0.05);
    assert!((deviation(&[129, 90, 90, 91], &fair) - 2.30).abs() < 0.05);
    assert!(deviation(&[100, 100, 100, 100], &fair) < -2.0);
    assert!(deviation(&[160, 80, 80, 80], &fair) > 5.0);
}
