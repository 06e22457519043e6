//! When the requests of one thread are due. Instants are of `CLOCK_MONOTONIC`.

use prony_model::http::{RateSteps, RequestRate};
use prony_model::units::Nanos;
use prony_workload::{Schedule, Share};

use crate::asked::{Asked, Bound, Loop};
use crate::kinds::Draw;
use crate::steps::Ends;

/// One request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Its number over all threads.
    pub(crate) number: u64,
    /// When it should start: in a closed loop, when it starts.
    pub(crate) intended: Nanos,
    /// When it started, before a connection was opened for it.
    pub(crate) started: Nanos,
    /// Whether it is in the figures: not of the warm-up.
    pub(crate) measured: bool,
    /// The number of its step of the schedule, from 0.
    pub(crate) step: u32,
    /// The place of its kind in the mix, from 0.
    pub(crate) kind: u32,
}

/// The requests of one thread that did not start yet.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    share: Share,
    first: u64,
    /// Requests that were taken; where they are of sessions, sessions that were begun.
    nth: u64,
    /// Sessions that may begin; of requests that are of none their bound is `left`.
    sessions: u64,
    begin: Nanos,
    warm_up_end: Nanos,
    /// None starts at this instant or later.
    end: Nanos,
    /// Requests in the figures that may still start.
    left: u64,
    draw: Draw,
    open: Option<Open>,
}

#[derive(Clone, Debug)]
struct Open {
    schedule: Schedule,
    /// The intended start of the next request.
    next: Nanos,
    steps: Ends,
}

impl Pace {
    /// A thread's share of what is asked for, from `begin` on.
    pub(crate) fn new(asked: &Asked, share: Share, draw: Draw, begin: Nanos) -> Self {
        let warm_up_end = begin + asked.warm_up;
        let session = draw.session();
        let (end, left, sessions) = match asked.bound {
            Bound::Requests(requests) if session > 1 => {
                let sessions = share.count(requests / session);
                (Nanos::from_nanos(u64::MAX), sessions * session, sessions)
            }
            Bound::Requests(requests) => (Nanos::from_nanos(u64::MAX), share.count(requests), u64::MAX),
            Bound::Duration(duration) => (warm_up_end + duration, u64::MAX, u64::MAX),
        };
        let open = match &asked.pace {
            Loop::Closed => None,
            Loop::Open(arrivals) => {
                let mut schedule = match arrivals {
                    RequestRate::Constant(arrivals) => Schedule::new(arrivals, asked.seed, share),
                    RequestRate::Steps(RateSteps { steps, poisson }) => {
                        Schedule::of_steps(steps, asked.warm_up, *poisson, asked.seed, share)
                    }
                };
                let next = begin + schedule.next();
                Some(Open { schedule, next, steps: Ends::new(arrivals.steps(), warm_up_end) })
            }
        };
        Self { share, first: asked.first, nth: 0, sessions, begin, warm_up_end, end, left, draw, open }
    }

    /// When the load begins.
    pub(crate) fn begin(&self) -> Nanos {
        self.begin
    }

    /// When the warm-up ends.
    pub(crate) fn warm_up_end(&self) -> Nanos {
        self.warm_up_end
    }

    /// When the schedule of an open loop has its next request, whether that is still of the load or not.
    pub(crate) fn scheduled(&self) -> Option<Nanos> {
        self.open.as_ref().map(|open| open.next)
    }

    /// When the last request may start; far in the future where their number bounds them.
    pub(crate) fn end(&self) -> Nanos {
        self.end
    }

    /// The intended start of the next request, which may be in the past; `None` where there is none.
    pub(crate) fn next(&self, now: Nanos) -> Option<Nanos> {
        let next = self.open.as_ref().map_or(now.max(self.begin), |open| open.next);
        (next < self.end && self.left > 0).then_some(next)
    }

    /// Whether another session may begin.
    #[inline]
    pub(crate) fn may_begin(&self) -> bool {
        self.nth < self.sessions
    }

    /// Takes the next request if it is due now: the one with a number that a session goes on with, or else the first of the next
    /// session.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos, next: Option<u64>) -> Option<Request> {
        let intended = self.next(now).filter(|next| *next <= now)?;
        let number = next.unwrap_or_else(|| {
            let nth = self.share.nth(self.nth);
            self.nth += 1;
            self.first + nth * self.draw.session()
        });
        let mut step = 0;
        if let Some(open) = &mut self.open {
            step = open.steps.at(intended);
            open.next = self.begin + open.schedule.next();
        }
        let measured = intended >= self.warm_up_end;
        if measured {
            self.left -= 1;
        }
        Some(Request { number, intended, started: now, measured, step, kind: self.draw.of(number) })
    }

    /// Leaves out the requests that are due before an instant, in a time in which the rate changes evenly at most: one of them that is due
    /// in the middle, and how many; `None` where there are none.
    pub(crate) fn leave_out(&mut self, until: Nanos, now: Nanos) -> Option<(Request, u64)> {
        let first = self.next(now).filter(|next| *next < until)?;
        let open = self.open.as_mut()?;
        let count = (1 + open.schedule.leave_out(until.since(self.begin))).min(self.left);
        open.next = self.begin + open.schedule.next();
        let intended = Nanos::from_nanos(first.as_nanos().midpoint(until.as_nanos()));
        let measured = intended >= self.warm_up_end;
        if measured {
            self.left -= count;
        }
        let step = open.steps.at(intended);
        Some((Request { intended, started: now, measured, step, ..Request::default() }, count))
    }

    /// Of so many requests, how many are of each kind, as shares of all.
    pub(crate) fn divide(&self, count: u64) -> impl Iterator<Item = (u32, u64)> {
        self.draw.divide(count)
    }

    /// Lets no further request become due.
    pub(crate) fn stop(&mut self, now: Nanos) {
        self.end = self.end.min(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::spec::Arrivals;
    use prony_model::units::PerSecond;

    const BEGIN: Nanos = Nanos::from_secs(100);

    fn at(millis: u64) -> Nanos {
        BEGIN + Nanos::from_millis(millis)
    }

    fn open(rate: f64, bound: Bound, warm_up: Nanos) -> Asked {
        let arrivals = Arrivals { rate: PerSecond::new(rate).unwrap(), poisson: false };
        let pace = Loop::Open(RequestRate::Constant(arrivals));
        Asked { pace, bound, warm_up, ..Asked::of("http://a") }
    }

    #[test]
    fn open_loop_follows_its_schedule_and_not_the_clock() {
        let asked = open(100.0, Bound::Duration(Nanos::from_millis(50)), Nanos::from_millis(20));
        let mut pace = Pace::new(&asked, Share::WHOLE, Draw::default(), BEGIN);
        assert_eq!(pace.take(BEGIN - Nanos::from_nanos(1), None), None);
        // All of it is late.
        let taken: Vec<Request> = std::iter::from_fn(|| pace.take(at(1_000), None)).collect();
        let expected: Vec<Request> = (0..7u64)
            .map(|n| Request {
                number: n,
                intended: at(10 * n),
                started: at(1_000),
                measured: n >= 2,
                ..Request::default()
            })
            .collect();
        assert_eq!(taken, expected);
        assert_eq!(pace.next(at(1_000)), None);
    }

    #[test]
    fn threads_share_numbers_and_starts() {
        for bound in [Bound::Requests(7), Bound::Duration(Nanos::from_millis(70))] {
            let asked = open(100.0, bound, Nanos::ZERO);
            let mut all: Vec<Request> = (0..3)
                .flat_map(|index| {
                    let mut pace = Pace::new(&asked, Share::new(index, 3), Draw::default(), BEGIN);
                    std::iter::from_fn(move || pace.take(at(1_000), None)).collect::<Vec<_>>()
                })
                .collect();
            all.sort_unstable_by_key(|request| request.number);
            let numbers: Vec<(u64, Nanos)> = all.iter().map(|request| (request.number, request.intended)).collect();
            assert_eq!(numbers, (0..7).map(|n| (n, at(10 * n))).collect::<Vec<_>>());
        }
    }

    #[test]
    fn closed_loop_is_due_until_its_bound() {
        let asked = Asked { bound: Bound::Requests(2), warm_up: Nanos::from_millis(10), ..Asked::of("http://a") };
        let mut pace = Pace::new(&asked, Share::WHOLE, Draw::default(), BEGIN);
        assert_eq!(pace.next(Nanos::ZERO), Some(BEGIN));
        let measured: Vec<bool> = [0, 9, 10, 11].iter().map(|ms| pace.take(at(*ms), None).unwrap().measured).collect();
        assert_eq!((measured, pace.take(at(12), None)), (vec![false, false, true, true], None));
        let asked = Asked { bound: Bound::Duration(Nanos::from_millis(10)), ..Asked::of("http://a") };
        let mut pace = Pace::new(&asked, Share::WHOLE, Draw::default(), BEGIN);
        assert!(pace.take(at(9), None).is_some() && pace.take(at(10), None).is_none());
    }

    #[test]
    fn stop_leaves_only_what_was_due_before() {
        let asked = open(100.0, Bound::Requests(1_000), Nanos::ZERO);
        let mut pace = Pace::new(&asked, Share::WHOLE, Draw::default(), BEGIN);
        pace.stop(at(25));
        assert_eq!(std::iter::from_fn(|| pace.take(at(9_999), None)).count(), 3);
    }
}
