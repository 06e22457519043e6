//! Zipfian random numbers as YCSB generates them (`core/src/main/java/site/ycsb/generator` in brianfrankcooper/YCSB).

/// Terms summed one by one before the tail is taken from the Euler-Maclaurin formula.
const HEAD: u64 = 64;

/// The sum of `1 / i^theta` for i from 1 to `n`, for `theta` from 0, below 1.
///
/// Small sums are exact to rounding. Of larger ones the first 64 terms are added and the rest taken from the
/// Euler-Maclaurin formula with three correction terms, whose error there is below 1e-15.
pub(crate) fn zeta(n: u64, theta: f64) -> f64 {
    let head: f64 = (1..=n.min(HEAD)).rev().map(|i| (i as f64).powf(-theta)).sum();
    if n <= HEAD { head } else { head + tail(HEAD as f64, n as f64, theta) }
}

/// The sum for i from `m + 1` to `n`.
fn tail(m: f64, n: f64, theta: f64) -> f64 {
    let (t, power) = (theta, 1.0 - theta);
    // (n^power - m^power) / power, without its cancellation where theta is near 1.
    let integral = m.powf(power) * (power * (n / m).ln()).exp_m1() / power;
    let ends = (n.powf(-t) - m.powf(-t)) / 2.0;
    let first = t * (m.powf(-t - 1.0) - n.powf(-t - 1.0)) / 12.0;
    let third = t * (t + 1.0) * (t + 2.0) * (m.powf(-t - 3.0) - n.powf(-t - 3.0)) / 720.0;
    let rising = t * (t + 1.0) * (t + 2.0) * (t + 3.0) * (t + 4.0);
    let fifth = rising * (m.powf(-t - 5.0) - n.powf(-t - 5.0)) / 30_240.0;
    integral + ends + first - third + fifth
}

/// Ranks `0..n`, rank r with a probability near `1 / (r + 1)^theta`.
///
/// The algorithm of Gray, Sundaresan, Englert, Baclawski and Weinberger, "Quickly generating billion-record synthetic
/// databases", SIGMOD 1994, as in YCSB's `ZipfianGenerator`: the first two ranks are exact, all further ones follow the
/// continuous distribution, cut down to whole numbers.
#[derive(Clone, Debug)]
pub(super) struct Zipfian {
    n: u64,
    theta: f64,
    alpha: f64,
    zeta_n: f64,
    eta: f64,
    second: f64,
}

impl Zipfian {
    /// Over `0..n`; the algorithm works for a `theta` from 0 (uniform), below 1 (the experiment has been checked).
    pub(super) fn new(n: u64, theta: f64) -> Self {
        Self::with_zeta(n, theta, zeta(n, theta))
    }

    fn with_zeta(n: u64, theta: f64, zeta_n: f64) -> Self {
        debug_assert!((0.0..1.0).contains(&theta), "the exponent is checked before a plan is made");
        let second = 1.0 + 0.5f64.powf(theta);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - second / zeta_n);
        Self { n, theta, alpha: 1.0 / (1.0 - theta), zeta_n, eta, second }
    }

    /// The same over `0..n` for an `n` that is not smaller; adds the new terms only, where they are few.
    pub(super) fn grow(&mut self, n: u64) {
        if n <= self.n {
            return;
        }
        let zeta_n = if n - self.n <= HEAD {
            (self.n + 1..=n).fold(self.zeta_n, |sum, i| sum + (i as f64).powf(-self.theta))
        } else {
            zeta(n, self.theta)
        };
        *self = Self::with_zeta(n, self.theta, zeta_n);
    }

    /// The rank for a uniform number in [0, 1).
    #[inline]
    pub(super) fn rank(&self, unit: f64) -> u64 {
        let scaled = unit * self.zeta_n;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.second {
            return 1.min(self.n.saturating_sub(1));
        }
        let rank = self.n as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.n.saturating_sub(1))
    }
}

/// Zipfian ranks scattered over the records, as YCSB's `ScrambledZipfianGenerator` does it.
///
/// The rank is drawn from 10,000,000,000, whatever the number of records, hashed by FNV-1a and taken
/// modulo the records, so that a record's share does not depend on their number. (The sum YCSB keeps
/// for theta 0.99, 26.46902820178302, belongs to that range.) The hash has no seed: the same records
/// are popular in every run.
#[derive(Clone, Debug)]
pub(super) struct Scrambled {
    ranks: Zipfian,
    records: u64,
}

/// Ranks that [`Scrambled`] draws from.
pub(super) const SCRAMBLED_RANKS: u64 = 10_000_000_000;

impl Scrambled {
    pub(super) fn new(records: u64, theta: f64) -> Self {
        Self { ranks: Zipfian::new(SCRAMBLED_RANKS, theta), records: records.max(1) }
    }

    #[inline]
    pub(super) fn record(&self, unit: f64) -> u64 {
        fnv(self.ranks.rank(unit)) % self.records
    }
}

/// FNV-1a over the eight bytes of a word, low byte first, without its sign as in YCSB's `Utils.fnvhash64`.
#[inline]
pub(super) fn fnv(word: u64) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = word.to_le_bytes().iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{count, deviation, gray};
    use prony_model::random::Stream;
    use proptest::prelude::*;

    fn exact(n: u64, theta: f64) -> f64 {
        (1..=n).rev().map(|i| (i as f64).powf(-theta)).sum()
    }

    #[test]
    fn zeta_is_the_sum() {
        for theta in [0.0, 0.2, 0.5, 0.99, 0.999_999] {
            for n in [0, 1, 2, 63, 64, 65, 66, 100, 1_000, 65_536, 1_000_000] {
                let (is, should) = (zeta(n, theta), exact(n, theta));
                assert!((is - should).abs() <= 2e-13 * should, "zeta({n}, {theta}) = {is}, not {should}");
            }
        }
    }

    #[test]
    fn zeta_agrees_with_the_constant_of_ycsb() {
        let is = zeta(SCRAMBLED_RANKS, 0.99);
        assert!((is - 26.469_028_201_783_02).abs() < 1e-8, "{is}");
    }

    #[test]
    fn ranks_follow_the_algorithm() {
        for (n, theta) in [(2, 0.5), (3, 0.99), (100, 0.99), (1_000, 0.99), (1_000, 0.5), (100, 0.0)] {
            let zipfian = Zipfian::new(n, theta);
            let mut stream = Stream::new(n);
            let counts = count(n as usize, 400_000, || zipfian.rank(stream.unit()));
            let off = deviation(&counts, &gray(n, theta, n));
            assert!(off.abs() < 4.0, "n {n}, theta {theta}: {off}");
        }
    }

    /// What the continuous part costs: shares of the most popular within 3 points of the true zipfian's.
    #[test]
    fn ranks_are_nearly_zipfian() {
        for n in [100u64, 10_000, 1_000_000] {
            let probabilities = gray(n, 0.99, n);
            let (mut is, mut should, zeta_n) = (0.0, 0.0, exact(n, 0.99));
            for (rank, probability) in probabilities.iter().enumerate() {
                is += probability;
                should += ((rank + 1) as f64).powf(-0.99) / zeta_n;
                assert!((is - should).abs() < 0.03, "n {n}, first {rank}: {is}, not {should}");
            }
        }
    }

    proptest! {
        #[test]
        fn ranks_stay_in_range(n in 1u64..1 << 50, theta in 0.0f64..0.9999, word: u64) {
            let unit = prony_model::random::unit(word);
            prop_assert!(Zipfian::new(n, theta).rank(unit) < n);
            prop_assert!(Zipfian::new(n, theta).rank(1.0 - f64::EPSILON / 2.0) < n);
        }

        #[test]
        fn growing_is_starting_larger(n in 1u64..2_000, more in 0u64..200, steps in 1u64..20, unit in 0.0f64..1.0) {
            let mut grown = Zipfian::new(n, 0.99);
            (0..=steps).for_each(|step| grown.grow(n + more * step / steps));
            let fresh = Zipfian::new(n + more, 0.99);
            prop_assert!((grown.zeta_n - fresh.zeta_n).abs() < 1e-12 * fresh.zeta_n);
            prop_assert_eq!(grown.n, n + more);
            prop_assert!(grown.rank(unit).abs_diff(fresh.rank(unit)) <= 1);
        }
    }

    #[test]
    fn fnv_is_fnv_1a_of_eight_bytes() {
        // The published algorithm over the octets, and the value for eight zero octets.
        let octets = |word: u64| {
            word.to_le_bytes().iter().fold(14_695_981_039_346_656_037u64, |hash, octet| {
                (hash ^ u64::from(*octet)).wrapping_mul(1_099_511_628_211)
            })
        };
        assert_eq!(octets(0), 0xa8c7_f832_281a_39c5);
        for word in [0, 1, 255, 256, u64::MAX, 9_999_999_999] {
            assert_eq!(fnv(word), (octets(word) as i64).unsigned_abs());
        }
    }
}
