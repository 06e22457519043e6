//! Connections that rest between an answer and their next request, as users do who read what they got.
//!
//! The times are exponential, as in the interactive systems of queueing theory: equal ones would let connections send in step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use prony_model::random::{Purpose, Stream, derive};
use prony_model::units::Nanos;

/// The connections of a thread that rest.
#[derive(Debug)]
pub(crate) struct Thinking {
    mean: Nanos,
    times: Stream,
    resting: BinaryHeap<Reverse<(Nanos, u32)>>,
}

impl Thinking {
    /// With times of this mean; those of each thread are its own.
    pub(crate) fn new(mean: Nanos, seed: u64, thread: u32) -> Self {
        let times = Stream::new(derive(seed, Purpose::Think, thread.into()));
        Self { mean, times, resting: BinaryHeap::new() }
    }

    /// Whether connections rest at all.
    pub(crate) fn is_on(&self) -> bool {
        self.mean > Nanos::ZERO
    }

    /// A connection rests from now on.
    pub(crate) fn rest(&mut self, slot: u32, now: Nanos) {
        // Above 0, so that the logarithm is finite.
        let drawn = 1.0 - self.times.unit();
        let time = Nanos::from_nanos((-drawn.ln() * self.mean.as_nanos() as f64) as u64);
        self.resting.push(Reverse((now + time, slot)));
    }

    /// When the next one has rested.
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.resting.peek().map(|Reverse((until, _))| *until)
    }

    /// Takes one that has rested.
    pub(crate) fn next(&mut self, now: Nanos) -> Option<u32> {
        self.due().filter(|until| *until <= now)?;
        self.resting.pop().map(|Reverse((_, slot))| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_rest_for_exponential_times_and_come_back_in_their_order() {
        const CONNECTIONS: u32 = 20_000;
        let (mean, now) = (Nanos::from_millis(10), Nanos::from_secs(5));
        let mut thinking = Thinking::new(mean, 7, 0);
        (0..CONNECTIONS).for_each(|slot| thinking.rest(slot, now));
        assert_eq!(thinking.next(now.since(Nanos::from_nanos(1))), None);
        let (mut times, mut slots) = (Vec::new(), Vec::new());
        while let Some(due) = thinking.due() {
            times.push(due.since(now).as_secs_f64() / mean.as_secs_f64());
            slots.extend(thinking.next(due));
        }
        assert!(times.is_sorted());
        slots.sort_unstable();
        assert_eq!(slots, (0..CONNECTIONS).collect::<Vec<_>>());
        // Mean and standard deviation of 1, within five standard errors; the seed is fixed.
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let deviation = (times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64).sqrt();
        assert!((mean - 1.0).abs() < 0.04 && (deviation - 1.0).abs() < 0.08, "{mean} {deviation}");
        let mut other = Thinking::new(Nanos::from_millis(10), 7, 1);
        other.rest(0, now);
        assert!(other.due().map(|due| due.since(now).as_secs_f64() / 0.01) != Some(times[0]), "another thread");
    }
}
