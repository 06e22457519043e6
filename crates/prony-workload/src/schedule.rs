//! Computes the arrival schedule of an open loop: when each operation should start.

use super::client_share::Share;
use prony_model::random::{Purpose, Stream, derive};
use prony_model::spec::{Arrivals, RateStep};
use prony_model::units::{Nanos, PerSecond};

/// Intended starts of one client's operations, from the phase's begin, without end and never decreasing.
///
/// Each client takes its share of the starts of the whole schedule (client c of N with a turn each c, c + N, c + 2N ...), whose
/// gaps are equal or, with Poisson arrivals, exponential. So the whole is the same for any number of clients, and a given
/// number of operations keeps its rate to the last. Where the rate changes, it is the same on a clock that counts due
/// operations instead of seconds: the nth start is where the integral of the rate reaches n (the inverse method of Lewis and
/// Shedler, 1976).
#[derive(Clone, Debug)]
pub struct Schedule {
    /// In order; the last has no end.
    pieces: Vec<Piece>,
    /// The piece of the last start.
    piece: usize,
    share: Share,
    nth: u64,
    /// The gaps of all clients, and how many operations are due before the last start.
    poisson: Option<(Stream, f64)>,
}

/// A time in which the rate changes evenly, or not at all.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Nanoseconds from the phase's begin.
    begin: f64,
    /// Operations that are due before it.
    before: f64,
    /// Operations that are due before its end.
    until: f64,
    /// Nanoseconds between two starts over all clients, at its begin.
    gap: f64,
    /// Operations a nanosecond by which the rate rises in each nanosecond.
    rise: f64,
}

impl Piece {
    const fn endless(rate: PerSecond, begin: f64, before: f64) -> Self {
        Self { begin, before, until: f64::INFINITY, gap: 1e9 / rate.get(), rise: 0.0 }
    }

    fn of(step: &RateStep, begin: f64, before: f64) -> Self {
        let rise = (step.to.get() - step.from.get()) / 1e9 / step.time.as_nanos() as f64;
        Self { until: before + step.operations(), rise, ..Self::endless(step.from, begin, before) }
    }

    /// When so many operations are due.
    fn at(&self, due: f64) -> f64 {
        let left = due - self.before;
        let even = left * self.gap;
        if self.rise == 0.0 {
            return self.begin + even;
        }
        // The positive root of rise/2 t^2 + t/gap = left, in the form that loses no digits where the rise is small.
        let root = (1.0 + 2.0 * self.rise * even * self.gap).max(0.0).sqrt();
        self.begin + 2.0 * even / (1.0 + root)
    }

    /// How many operations are due before an instant that lies in it.
    fn due(&self, at: f64) -> f64 {
        let passed = at - self.begin;
        self.before + passed / self.gap + self.rise / 2.0 * passed * passed
    }
}

impl Schedule {
    /// The schedule of one client.
    pub fn new(arrivals: &Arrivals, seed: u64, share: Share) -> Self {
        Self::over(vec![Piece::endless(arrivals.rate, 0.0, 0.0)], arrivals.poisson, seed, share)
    }

    /// The schedule of one client where rates follow one another. The first rate is that of `lead` before them, and the last that of the time
    /// after them.
    pub fn of_steps(steps: &[RateStep], lead: Nanos, poisson: bool, seed: u64, share: Share) -> Self {
        let lead = steps.first().map(|first| RateStep { to: first.from, time: lead, ..*first });
        let (mut begin, mut before, mut pieces) = (Nanos::ZERO, 0.0, Vec::new());
        for step in lead.iter().chain(steps).filter(|step| step.time > Nanos::ZERO) {
            let piece = Piece::of(step, begin.as_nanos() as f64, before);
            (begin, before) = (begin + step.time, piece.until);
            pieces.push(piece);
        }
        pieces.extend(steps.last().map(|last| Piece::endless(last.to, begin.as_nanos() as f64, before)));
        Self::over(pieces, poisson, seed, share)
    }

    fn over(pieces: Vec<Piece>, poisson: bool, seed: u64, share: Share) -> Self {
        let stream = Stream::new(derive(seed, Purpose::Arrival, 0));
        Self { pieces, piece: 0, share, nth: 0, poisson: poisson.then_some((stream, 0.0)) }
    }

    /// The next intended start.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, so there is no `None` to match in the timed loop"
    )]
    #[inline]
    pub fn next(&mut self) -> Nanos {
        let due = match &mut self.poisson {
            None => self.share.nth(self.nth) as f64,
            Some((stream, due)) => {
                let before = self.nth.checked_sub(1).map_or(0, |before| self.share.nth(before) + 1);
                (before..=self.share.nth(self.nth)).for_each(|_| *due -= (1.0 - stream.unit()).ln());
                *due
            }
        };
        self.nth += 1;
        while self.pieces.get(self.piece).is_some_and(|piece| due >= piece.until) {
            self.piece += 1;
        }
        // The last piece has no end. Without any step nothing is ever due.
        let at = self.pieces.get(self.piece).map_or(f64::INFINITY, |piece| piece.at(due));
        Nanos::from_nanos(at.round() as u64)
    }

    /// Leaves out the starts before an instant that are still to come; how many, with random gaps as many as are due on average.
    pub fn leave_out(&mut self, until: Nanos) -> u64 {
        let until = until.as_nanos() as f64;
        let Some(piece) = self.pieces.iter().rfind(|piece| piece.begin <= until) else { return 0 };
        // Where an operation is due at that instant, rounding may put it before.
        let whole = (piece.due(until) * (1.0 - 4.0 * f64::EPSILON)).ceil();
        let own = self.share.count(whole as u64);
        let left_out = own.saturating_sub(self.nth);
        if left_out > 0 {
            self.nth = own;
            if let Some((_, due)) = &mut self.poisson {
                *due = due.max(piece.due(until));
            }
        }
        left_out
    }
}

/// Lag of starts of an open loop up to which its rate counts as sustained.
const HICCUP: Nanos = Nanos::from_millis(10);

/// How far the starts of an open loop lag behind their schedule. Instants are of any one clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lag {
    /// The largest of any start.
    pub largest: Nanos,
    last: Nanos,
    /// The first and the last start by the schedule.
    intended: Option<(Nanos, Nanos)>,
    /// The last start by the schedule, from its first on, that lagged by no more than a hiccup does.
    on_time: Nanos,
}

impl Lag {
    /// An operation was started, which the schedule intended for an instant.
    pub fn started(&mut self, intended: Nanos, now: Nanos) {
        let first = self.intended.map_or(intended, |(first, _)| first);
        (self.intended, self.last) = (Some((first, intended)), now.since(intended));
        self.largest = self.largest.max(self.last);
        if self.last <= HICCUP {
            self.on_time = intended.since(first);
        }
    }

    /// Whether a rate was not sustained: the last start lagged by more than 1 % of the schedule, and so did all of its last
    /// tenth by more than a hiccup; or more than 1 % of what was due was never started. A pause before the last start
    /// delays that too, but not the tenth before.
    pub fn is_saturated(&self, skipped: u64, started: u64) -> bool {
        let time = self.intended.map_or(Nanos::ZERO, |(first, last)| last.since(first));
        let part = |divisor| Nanos::from_nanos(time.as_nanos() / divisor);
        let is_behind = self.last > HICCUP.max(part(100)) && time.since(self.on_time) >= part(10);
        is_behind || leaves_out(skipped, started)
    }
}

/// Whether more than 1 % of what was due was never started.
pub fn leaves_out(skipped: u64, started: u64) -> bool {
    skipped.saturating_mul(100) > skipped.saturating_add(started)
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
    fn clients_share_one_schedule() {
        for poisson in [false, true] {
            let whole = starts(1_000.0, poisson, Share::WHOLE, 300);
            let mut shared: Vec<u64> =
                (0..3).flat_map(|index| starts(1_000.0, poisson, Share::new(index, 3), 100)).collect();
            shared.sort_unstable();
            assert_eq!(shared, whole);
            let by_turns = [0, 1, 2].map(|index| Share::new(index, 3).with_turns(5));
            let starts = by_turns.iter().flat_map(|share| starts(1_000.0, poisson, *share, share.count(300) as usize));
            let mut shared: Vec<u64> = starts.collect();
            shared.sort_unstable();
            assert_eq!(shared, whole, "with 2, 2 and 1 turns");
        }
    }

    /// Gaps fall into ten equally likely classes of the exponential distribution.
    #[test]
    fn poisson_gaps_are_exponential() {
        let mut classes = [0u64; 10];
        for pair in starts(1_000.0, true, Share::WHOLE, 40_000).windows(2) {
            let below = 1.0 - (-((pair[1] - pair[0]) as f64) / 1e6).exp();
            classes[((below * 10.0) as usize).min(9)] += 1;
        }
        let off = deviation(&classes, &[0.1; 10]);
        assert!(off.abs() < 4.0, "{off}");
    }

    fn step(from: f64, to: f64, millis: u64) -> RateStep {
        let rate = |rate| PerSecond::new(rate).unwrap();
        RateStep { from: rate(from), to: rate(to), time: Nanos::from_millis(millis) }
    }

    fn starts_of(steps: &[RateStep], lead: u64, poisson: bool, share: Share, n: usize) -> Vec<u64> {
        let mut schedule = Schedule::of_steps(steps, Nanos::from_millis(lead), poisson, 3, share);
        (0..n).map(|_| schedule.next().as_nanos()).collect()
    }

    #[test]
    fn steps_follow_one_another_and_their_first_and_last_rates_go_on() {
        let steps = [step(4.0, 4.0, 500), step(10.0, 10.0, 200)];
        let millis: Vec<u64> = starts_of(&steps, 250, false, Share::WHOLE, 8).iter().map(|at| at / 1_000_000).collect();
        // One in 250 ms at 4/s, two in 500 ms, two in 200 ms at 10/s, then on and on.
        assert_eq!(millis, [0, 250, 500, 750, 850, 950, 1_050, 1_150]);
        // One step of a constant rate is the constant rate.
        for poisson in [false, true] {
            let one = starts_of(&[step(1_000.0, 1_000.0, 100)], 0, poisson, Share::WHOLE, 500);
            let differ = |(a, b): (&u64, &u64)| a.abs_diff(*b) > 1;
            assert!(!one.iter().zip(&starts(1_000.0, poisson, Share::WHOLE, 500)).any(differ), "{poisson}");
        }
    }

    /// What is left out is what would have come, and what comes then is the same.
    #[test]
    fn starts_that_are_left_out_are_counted_as_they_would_have_come() {
        let steps = [step(100.0, 2_000.0, 300), step(50.0, 50.0, 1_000)];
        let arrivals = Arrivals { rate: PerSecond::new(730.0).unwrap(), poisson: false };
        for share in [Share::WHOLE, Share::new(1, 3), Share::new(0, 2).with_turns(5)] {
            let all = [
                Schedule::new(&arrivals, 3, share),
                Schedule::of_steps(&steps, Nanos::from_millis(10), false, 3, share),
            ];
            for schedule in all {
                for (taken, until) in [(0, 1), (3, 200), (1, 310), (5, 900), (400, 1), (2, 5_000)] {
                    let (mut one, until) = (schedule.clone(), Nanos::from_millis(until));
                    (0..taken).for_each(|_| _ = one.next());
                    let mut other = one.clone();
                    let left_out = one.leave_out(until);
                    let (mut count, mut next) = (0, other.next());
                    while next < until {
                        (count, next) = (count + 1, other.next());
                    }
                    assert_eq!((left_out, one.next()), (count, next), "{share:?} {taken} {until}");
                }
            }
        }
    }

    #[test]
    fn random_starts_that_are_left_out_are_as_many_as_on_average() {
        let arrivals = Arrivals { rate: PerSecond::new(1e9).unwrap(), poisson: true };
        let mut clients = [0, 1, 2].map(|index| Schedule::new(&arrivals, 3, Share::new(index, 3)));
        let second = Nanos::from_secs(1);
        assert_eq!(clients.iter_mut().map(|client| client.leave_out(second)).sum::<u64>(), 1_000_000_000);
        let next: Vec<Nanos> = clients.iter_mut().map(Schedule::next).collect();
        let close = |next: &Nanos| next.as_nanos().abs_diff(second.as_nanos()) < 100;
        assert!(next.iter().all(close), "{next:?}");
    }

    #[test]
    fn ramp_has_the_integral_of_its_rate_as_starts() {
        for (from, to) in [(100.0, 900.0), (900.0, 100.0), (500.0, 500.000_000_1)] {
            let starts = starts_of(&[step(from, to, 2_000)], 0, false, Share::WHOLE, 1_000);
            for (n, at) in starts.iter().enumerate() {
                let t = *at as f64 / 1e9;
                let due = from * t + (to - from) / 4.0 * t * t;
                assert!((due - n as f64).abs() < 1e-5, "{from} {to}: {n} at {t}: {due}");
            }
        }
    }

    #[test]
    fn clients_share_a_ramp() {
        let steps = [step(100.0, 2_000.0, 300), step(50.0, 50.0, 1_000)];
        let whole = starts_of(&steps, 10, false, Share::WHOLE, 300);
        let mut shared: Vec<u64> =
            (0..3).flat_map(|index| starts_of(&steps, 10, false, Share::new(index, 3), 100)).collect();
        shared.sort_unstable();
        assert_eq!(shared, whole);
    }

    /// The numbers of arrivals in steps are Poisson with the steps' operations as means.
    #[test]
    fn poisson_arrivals_follow_the_steps() {
        let steps = [step(1_000.0, 1_000.0, 10_000), step(1_000.0, 5_000.0, 10_000), step(100.0, 100.0, 10_000)];
        let mut counts = [0f64; 3];
        for at in starts_of(&steps, 0, true, Share::WHOLE, 60_000) {
            if let Some(count) = counts.get_mut((at / 10_000_000_000) as usize) {
                *count += 1.0;
            }
        }
        for (count, step) in counts.iter().zip(&steps) {
            let off = (count - step.operations()) / step.operations().sqrt();
            assert!(off.abs() < 4.0, "{counts:?}");
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
        let ms = Nanos::from_millis;
        let saturated = |lag: u64, intended: u64, skipped, started| {
            let mut all = Lag::default();
            all.started(ms(1_000), ms(1_000));
            all.started(ms(1_000 + intended), ms(1_000 + intended + lag));
            all.is_saturated(skipped, started)
        };
        assert!(!saturated(9, 100, 0, 1000) && saturated(11, 100, 0, 1000));
        assert!(!saturated(90, 10_000, 0, 1000) && saturated(110, 10_000, 0, 1000));
        assert!(!saturated(0, 1, 10, 1000) && saturated(0, 1, 11, 1000));
    }

    /// 1000 starts in 10 s, of which each lags by what `lag` gives for its instant, ms.
    #[test]
    fn a_pause_before_the_last_start_is_no_rate_that_is_not_sustained() {
        let saturated = |lag: fn(u64) -> u64| {
            let mut all = Lag::default();
            (0..10_000)
                .step_by(10)
                .for_each(|at| all.started(Nanos::from_millis(at), Nanos::from_millis(at + lag(at))));
            (all.largest.as_nanos() / 1_000_000, all.is_saturated(0, 1_000))
        };
        assert_eq!(saturated(|at| if at > 9_500 { 10_000 - at } else { 0 }), (490, false), "it is being worked off");
        assert_eq!(saturated(|at| if at == 9_990 { 300 } else { 0 }), (300, false));
        assert_eq!(saturated(|at| if (3_000..8_000).contains(&at) { 2_000 } else { 0 }), (2_000, false));
        assert_eq!(saturated(|at| at / 200), (49, false), "half a percent too much");
        assert_eq!(saturated(|at| at / 50), (199, true), "2 % too much");
        assert_eq!(saturated(|at| at.saturating_sub(8_000)), (1_990, true));
    }
}
