//! Operations over time, in a series of bounded length.

use crate::record::Throughput;
use crate::units::Nanos;

/// Most intervals of a throughput series; with more, two are merged into one.
const MOST_INTERVALS: usize = 20_000;

/// Operations that ended in each interval since the phase's begin.
#[derive(Clone, Debug)]
pub struct Series {
    interval: u64,
    operations: Vec<u64>,
}

impl Series {
    /// Empty, of intervals of this length, which become longer where there are too many.
    pub fn new(interval: Nanos) -> Self {
        Self { interval: interval.as_nanos().max(1), operations: Vec::new() }
    }

    /// Spreads operations evenly over the span in which they ended, as offsets from the phase's begin.
    ///
    /// Give it small chunks, so that a stall shows as intervals of few operations.
    pub fn add(&mut self, from: u64, to: u64, operations: u64) {
        self.make_room(to);
        let span = to.saturating_sub(from).max(1);
        let mut given = 0;
        let (first, last) = (from / self.interval, to / self.interval);
        for place in first..=last {
            let end = ((place + 1) * self.interval).min(to).saturating_sub(from);
            let so_far = (u128::from(operations) * u128::from(end) / u128::from(span)) as u64;
            let so_far = if place == last { operations } else { so_far };
            self.operations[place as usize] += so_far - given;
            given = so_far;
        }
    }

    /// Removes operations that were added with this end: the last ones before it.
    pub fn take_back(&mut self, to: u64, mut operations: u64) {
        let last = (to / self.interval) as usize + 1;
        let known = last.min(self.operations.len());
        for place in self.operations[..known].iter_mut().rev() {
            let taken = operations.min(*place);
            *place -= taken;
            operations -= taken;
            if operations == 0 {
                break;
            }
        }
    }

    /// Nanoseconds.
    pub fn interval(&self) -> u64 {
        self.interval
    }

    fn make_room(&mut self, at: u64) {
        while at / self.interval >= MOST_INTERVALS as u64 {
            self.coarsen();
        }
        let needed = (at / self.interval) as usize + 1;
        if self.operations.len() < needed {
            self.operations.resize(needed, 0);
        }
    }

    fn coarsen(&mut self) {
        self.operations = self.operations.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.interval *= 2;
    }

    /// Adds another client's series, at the coarser of the two intervals.
    pub fn merge(&mut self, mut other: Self) {
        while self.interval < other.interval {
            self.coarsen();
        }
        while other.interval < self.interval {
            other.coarsen();
        }
        let length = self.operations.len().max(other.operations.len());
        self.operations.resize(length, 0);
        self.operations.iter_mut().zip(&other.operations).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// The series for the record.
    pub fn into_throughput(self) -> Throughput {
        Throughput { interval: Nanos::from_nanos(self.interval), operations: self.operations }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_spread_over_their_span_and_none_is_lost() {
        let mut series = Series::new(Nanos::from_nanos(10));
        series.add(0, 5, 7);
        series.add(5, 35, 30);
        series.add(40, 40, 3);
        let operations = series.into_throughput().operations;
        assert_eq!(operations, [7 + 5, 10, 10, 5, 3]);
    }

    #[test]
    fn a_long_series_stays_bounded_and_keeps_its_sum() {
        let mut series = Series::new(Nanos::from_nanos(10));
        for i in 0..1_000_000u64 {
            series.add(i * 7, i * 7 + 7, 2);
        }
        let throughput = series.into_throughput();
        assert!(throughput.operations.len() <= MOST_INTERVALS);
        assert_eq!(throughput.operations.iter().sum::<u64>(), 2_000_000);
        assert!(throughput.interval.as_nanos() * throughput.operations.len() as u64 >= 7_000_000);
    }

    #[test]
    fn series_of_different_intervals_merge_at_the_coarser() {
        let mut short = Series::new(Nanos::from_nanos(1));
        short.add(0, 3, 4);
        let mut long = Series::new(Nanos::from_nanos(1));
        long.add(0, 30_000, 30_000);
        let interval = long.interval;
        short.merge(long);
        assert_eq!((short.interval, short.operations.iter().sum::<u64>()), (interval, 30_004));
    }
}
