//! Computes the arrival schedule of an open loop: when each operation should start.

use super::client_share::Share;
use prony_model::random::{Purpose, Stream, derive};
use prony_model::spec::Arrivals;
use prony_model::units::Nanos;

/// Intended starts of one client's operations, from the phase's begin, without end and never decreasing.
///
/// At a constant rate, client c of N takes the starts c, c + N, c + 2N ... of the whole schedule. With Poisson
/// arrivals each client has gaps of its own at its share of the rate: together they are Poisson at the whole rate.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Nanoseconds between two starts over all clients.
    gap: f64,
    share: Share,
    nth: u64,
    poisson: Option<(Stream, f64)>,
}

impl Schedule {
    /// The schedule of one client.
    pub fn new(arrivals: &Arrivals, seed: u64, share: Share) -> Self {
        let stream = Stream::new(derive(seed, Purpose::Arrival, u64::from(share.index)));
        Self { gap: 1e9 / arrivals.rate.get(), share, nth: 0, poisson: arrivals.poisson.then_some((stream, 0.0)) }
    }

    /// The next intended start.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, so there is no `None` to match in the timed loop"
    )]
    #[inline]
    pub fn next(&mut self) -> Nanos {
        let at = match &mut self.poisson {
            None => self.share.nth(self.nth) as f64 * self.gap,
            Some((stream, at)) => {
                *at -= (1.0 - stream.unit()).ln() * self.gap * f64::from(self.share.of.max(1));
                *at
            }
        };
        self.nth += 1;
        Nanos::from_nanos(at.round() as u64)
    }
}

/// Lag at the end of an open loop below which its rate does not count as not sustained.
const HICCUP: Nanos = Nanos::from_millis(10);

/// Whether a rate was not sustained: the last start lagged by more than 1 % of the schedule, or more than 1 % of what
/// was due was never started. `last_intended` is the last start by the schedule, from its begin.
pub fn is_saturated(last_lag: Nanos, last_intended: Nanos, skipped: u64, started: u64) -> bool {
    let hundredth = Nanos::from_nanos(last_intended.as_nanos() / 100);
    last_lag > HICCUP.max(hundredth) || skipped.saturating_mul(100) > skipped.saturating_add(started)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::deviation;
    use prony_model::units::PerSecond;

    fn starts(rate: f64, poisson: bool, share: Share, n: usize) -> Vec<u64> {
        let arrivals = Arrivals { rate: PerSecond::new(rate).unwrap(), poisson };
        let mut schedule = Schedule::new(&arrivals, 3, share);
        (0..n).map(|_| schedule.next().as_nanos()).collect()
    }

    #[test]
    fn a_constant_rate_has_equal_gaps() {
        assert_eq!(starts(4.0, false, Share::WHOLE, 4), [0, 250_000_000, 500_000_000, 750_000_000]);
        // No drift: the last of a million starts is where it should be to the nanosecond.
        assert_eq!(starts(3.0, false, Share::WHOLE, 1_000_000)[999_999], 333_333_000_000_000);
    }

    #[test]
    fn clients_share_a_constant_rate() {
        let whole = starts(1_000.0, false, Share::WHOLE, 300);
        let mut shared: Vec<u64> =
            (0..3).flat_map(|index| starts(1_000.0, false, Share { index, of: 3 }, 100)).collect();
        shared.sort_unstable();
        assert_eq!(shared, whole);
    }

    /// Gaps of all clients together fall into ten equally likely classes of the exponential distribution.
    #[test]
    fn poisson_gaps_are_exponential_over_all_clients() {
        for of in [1, 4] {
            let n = 40_000 / of as usize;
            let clients: Vec<Vec<u64>> = (0..of).map(|index| starts(1_000.0, true, Share { index, of }, n)).collect();
            // Up to the end of the first client's starts, all clients are still sending.
            let end = clients.iter().filter_map(|starts| starts.last()).min().copied().unwrap();
            let mut all: Vec<u64> = clients.concat().into_iter().filter(|at| *at <= end).collect();
            all.sort_unstable();
            let mut classes = [0u64; 10];
            for pair in all.windows(2) {
                let below = 1.0 - (-((pair[1] - pair[0]) as f64) / 1e6).exp();
                classes[((below * 10.0) as usize).min(9)] += 1;
            }
            let off = deviation(&classes, &[0.1; 10]);
            assert!(off.abs() < 4.0, "{of} clients: {off}");
        }
    }

    #[test]
    fn poisson_starts_never_go_back_and_keep_the_rate() {
        let starts = starts(1_000.0, true, Share::WHOLE, 100_000);
        assert!(starts.is_sorted());
        let rate = 100_000.0 / (starts[99_999] as f64 / 1e9);
        assert!((rate / 1_000.0 - 1.0).abs() < 0.015, "{rate}");
    }

    #[test]
    fn a_rate_is_saturated_by_lag_or_by_what_was_never_started() {
        let saturated = |lag, intended, skipped, started| {
            is_saturated(Nanos::from_millis(lag), Nanos::from_millis(intended), skipped, started)
        };
        assert!(!saturated(9, 100, 0, 1000) && saturated(11, 100, 0, 1000));
        assert!(!saturated(90, 10_000, 0, 1000) && saturated(110, 10_000, 0, 1000));
        assert!(!saturated(0, 1, 10, 1000) && saturated(0, 1, 11, 1000));
    }
}
