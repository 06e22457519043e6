//! Bijections of `0..n` that are computed, not stored.
//!
//! A generalised Feistel network over Z_a x Z_b with a b >= n, and cycle walking for what lies above
//! n (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). Since a b exceeds n
//! by less than a, walking is rare.

use prony_model::random::{Stream, mix, scale};

const ROUNDS: usize = 6;

/// A bijection of `0..a * b`.
#[derive(Clone, Debug)]
pub(super) struct Feistel {
    a: u64,
    b: u64,
    keys: [u64; ROUNDS],
}

impl Feistel {
    fn new(a: u64, b: u64, seed: u64) -> Self {
        let mut stream = Stream::new(seed);
        Self { a, b, keys: std::array::from_fn(|_| stream.word()) }
    }

    /// Over `0..2^bits`, `bits` even and at most 62.
    pub(super) fn of_bits(bits: u32, seed: u64) -> Self {
        Self::new(1 << (bits / 2), 1 << (bits / 2), seed)
    }

    #[inline]
    pub(super) fn forward(&self, x: u64) -> u64 {
        let (mut l, mut r) = (x / self.b, x % self.b);
        for pair in self.keys.chunks_exact(2) {
            l = plus(l, scale(mix(r ^ pair[0]), self.a), self.a);
            r = plus(r, scale(mix(l ^ pair[1]), self.b), self.b);
        }
        l * self.b + r
    }

    #[inline]
    pub(super) fn backward(&self, x: u64) -> u64 {
        let (mut l, mut r) = (x / self.b, x % self.b);
        for pair in self.keys.rchunks_exact(2) {
            r = plus(r, self.b - scale(mix(l ^ pair[1]), self.b), self.b);
            l = plus(l, self.a - scale(mix(r ^ pair[0]), self.a), self.a);
        }
        l * self.b + r
    }
}

/// `x + y` modulo `n`, for `x < n` and `y <= n`.
#[inline]
const fn plus(x: u64, y: u64, n: u64) -> u64 {
    let sum = x + y;
    if sum >= n { sum - n } else { sum }
}

/// A seeded random order of `0..n`.
#[derive(Clone, Debug)]
pub(super) struct Shuffle {
    n: u64,
    network: Feistel,
}

impl Shuffle {
    /// For `n` below 2^62.
    pub(super) fn new(n: u64, seed: u64) -> Self {
        let a = n.isqrt().max(1);
        Self { n, network: Feistel::new(a, n.div_ceil(a).max(1), seed) }
    }

    /// The record at a position below `n`.
    #[inline]
    pub(super) fn at(&self, position: u64) -> u64 {
        let mut x = self.network.forward(position);
        // Ends: the walk follows a cycle that holds `position`, which is below n.
        while x >= self.n {
            x = self.network.forward(x);
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shuffled(n: u64, seed: u64) -> Vec<u64> {
        let shuffle = Shuffle::new(n, seed);
        (0..n).map(|i| shuffle.at(i)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_number_comes_once(n in 1u64..5_000, seed: u64) {
            let mut all = shuffled(n, seed);
            all.sort_unstable();
            prop_assert_eq!(all, (0..n).collect::<Vec<_>>());
        }

        #[test]
        fn permutation_of_a_large_range_stays_inside_and_is_distinct(n in 1u64 << 33..1 << 61, seed: u64) {
            let shuffle = Shuffle::new(n, seed);
            let mut some: Vec<u64> = (n - 500..n).map(|i| shuffle.at(i)).collect();
            prop_assert!(some.iter().all(|x| *x < n));
            some.sort_unstable();
            some.dedup();
            prop_assert_eq!(some.len(), 500);
        }

        #[test]
        fn the_network_can_be_undone(bits in 0u32..=31, x: u64, seed: u64) {
            let network = Feistel::of_bits(2 * bits, seed);
            let x = x & ((1 << (2 * bits)) - 1);
            prop_assert_eq!(network.backward(network.forward(x)), x);
        }
    }

    #[test]
    fn every_small_range_is_a_permutation() {
        for n in 0..300 {
            let mut all = shuffled(n, n ^ 0x5eed);
            all.sort_unstable();
            assert_eq!(all, (0..n).collect::<Vec<_>>());
        }
    }

    /// Spearman's correlation of position and record is normal with variance 1 / (n - 1) without order.
    #[test]
    fn position_and_record_do_not_correlate() {
        for (n, seed) in [(100u64, 1), (1_000, 2), (10_007, 3), (65_536, 4), (100_000, 5)] {
            let mean = (n - 1) as f64 / 2.0;
            let all = shuffled(n, seed);
            let cross: f64 = all.iter().enumerate().map(|(i, x)| (i as f64 - mean) * (*x as f64 - mean)).sum();
            let rho = cross / (n as f64 * (n as f64 * n as f64 - 1.0) / 12.0);
            assert!(rho.abs() < 4.0 / (n as f64 - 1.0).sqrt(), "n {n}: rho {rho}");
        }
    }

    /// Successive differences modulo n are uniform without order: 64 classes, chi-square below its 99.99 % point.
    #[test]
    fn successive_differences_are_spread_evenly() {
        for (n, seed) in [(4_096u64, 1), (10_000, 2), (65_536, 3), (99_991, 4)] {
            let all = shuffled(n, seed);
            let mut classes = [0u64; 64];
            for pair in all.windows(2) {
                let difference = (pair[1] + n - pair[0]) % n;
                classes[(u128::from(difference) * 64 / u128::from(n)) as usize] += 1;
            }
            let expected = (n - 1) as f64 / 64.0;
            let chi: f64 = classes.iter().map(|c| (*c as f64 - expected).powi(2) / expected).sum();
            assert!(chi < 113.5, "n {n}: chi-square {chi} of 63");
        }
    }

    #[test]
    fn seeds_give_orders_of_their_own() {
        let same = shuffled(1_000, 1).iter().zip(shuffled(1_000, 2)).filter(|(a, b)| **a == *b).count();
        assert!(same < 10, "{same} of 1000 at the same place");
    }
}
