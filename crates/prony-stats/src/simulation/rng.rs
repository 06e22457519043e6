//! The order of a simulated campaign: seeded, the same on every machine.

use prony_model::random::Stream;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(Stream);

impl Rng {
    /// From a seed.
    pub const fn new(seed: u64) -> Self {
        Self(Stream::new(seed))
    }

    /// Uniform in `0..n`, which is not empty; `n` is small beside 2^64, so that the bias is far below what a
    /// simulation can detect.
    pub fn below(&mut self, n: usize) -> usize {
        (self.0.word() % n as u64) as usize
    }

    /// The numbers `0..n` in random order.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_about_equally_likely() {
        let mut rng = Rng::new(1);
        let mut counts = std::collections::BTreeMap::<Vec<usize>, u32>::new();
        for _ in 0..6000 {
            *counts.entry(rng.order(3)).or_default() += 1;
        }
        assert_eq!(counts.len(), 6);
        // Five standard deviations of a binomial of 6000 with 1/6.
        assert!(counts.values().all(|n| n.abs_diff(1000) < 145), "{counts:?}");
    }
}
