//! When the operations of an open loop are meant to start.

use super::Share;
use super::random::{Purpose, Stream, derive};
use crate::experiment::spec::Arrivals;
use crate::units::Nanos;

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
