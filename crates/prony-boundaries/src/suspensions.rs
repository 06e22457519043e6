//! The times in which a program was suspended, and a clock that stops during these times. Pure functions.

use prony_model::units::Nanos;

/// Spans in order, those that overlap or touch as one.
pub fn merged<T: Copy + Ord>(mut spans: Vec<(T, T)>) -> Vec<(T, T)> {
    spans.sort_unstable();
    let mut merged: Vec<(T, T)> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Times without overlap, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspensions(Vec<(Nanos, Nanos)>);

impl Suspensions {
    /// From suspensions of any threads, in any order.
    pub fn new(suspensions: Vec<(Nanos, Nanos)>) -> Self {
        Self(merged(suspensions))
    }

    /// How long it was suspended between two instants.
    pub fn between(&self, begin: Nanos, end: Nanos) -> Nanos {
        let inside = |(from, to): &(Nanos, Nanos)| (*to).min(end).since((*from).max(begin));
        Nanos::from_nanos(self.0.iter().map(|interval| inside(interval).as_nanos()).sum())
    }

    /// The parts of a time in which it was not suspended, in order.
    pub fn outside(&self, begin: Nanos, end: Nanos) -> Vec<(Nanos, Nanos)> {
        let mut parts = Vec::new();
        let mut from = begin;
        for (suspended, until) in self.0.iter().filter(|(suspended, until)| *suspended < end && begin < *until) {
            parts.extend((from < *suspended).then_some((from, *suspended)));
            from = *until;
        }
        parts.extend((from < end).then_some((from, end)));
        parts
    }

    /// An instant by a clock that stops while the program is suspended.
    pub fn running(&self, at: Nanos) -> Nanos {
        at.since(self.between(Nanos::ZERO, at))
    }

    /// The first instant at which that clock shows so much.
    pub fn instant(&self, running: Nanos) -> Nanos {
        let mut instant = running;
        for (from, to) in &self.0 {
            if *from >= instant {
                break;
            }
            instant += to.since(*from);
        }
        instant
    }

    /// Whether it was suspended at an instant, its begin and end excluded.
    pub fn at(&self, at: Nanos) -> bool {
        self.0.iter().any(|(from, to)| *from < at && at < *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn running_clock_excludes_suspensions() {
        let suspended = Suspensions::new(vec![(ms(50), ms(60)), (ms(10), ms(20)), (ms(15), ms(30))]);
        assert_eq!((suspended.between(ms(0), ms(100)), suspended.between(ms(12), ms(55))), (ms(30), ms(23)));
        let at = [5, 10, 25, 30, 40, 100].map(|n| suspended.running(ms(n)));
        assert_eq!(at, [5, 10, 10, 10, 20, 70].map(ms));
        assert_eq!([10, 11, 30, 59].map(|n| suspended.at(ms(n))), [false, true, false, true]);
        assert_eq!(Suspensions::default().running(ms(7)), ms(7));
    }

    #[test]
    fn outside_intervals_exclude_suspensions() {
        let suspended = Suspensions::new(vec![(ms(10), ms(30)), (ms(50), ms(60))]);
        let outside =
            |begin, end| suspended.outside(ms(begin), ms(end)).into_iter().map(|(a, b)| b.since(a)).collect::<Vec<_>>();
        assert_eq!(outside(0, 100), [10, 20, 40].map(ms));
        assert_eq!(suspended.outside(ms(20), ms(55)), [(ms(30), ms(50))]);
        assert_eq!((outside(10, 30), outside(35, 40)), (vec![], vec![ms(5)]));
    }

    #[test]
    fn an_instant_is_found_by_the_clock_that_stops_in_suspensions() {
        let suspended = Suspensions::new(vec![(ms(10), ms(30)), (ms(50), ms(60))]);
        assert_eq!([5, 10, 11, 30, 31, 70].map(|n| suspended.instant(ms(n))), [5, 10, 31, 50, 61, 100].map(ms));
        assert!((0..200).all(|n| suspended.running(suspended.instant(ms(n))) == ms(n)));
    }

    #[test]
    fn what_lies_apart_has_no_part() {
        let suspended = Suspensions::new(vec![(ms(50), ms(60))]);
        assert_eq!((suspended.between(ms(0), ms(40)), suspended.between(ms(70), ms(90))), (Nanos::ZERO, Nanos::ZERO));
    }
}
