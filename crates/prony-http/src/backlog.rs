//! Whether an open loop falls behind: whether requests wait longer and longer from their intended start to their end.
//!
//! That some requests start late, or are under way at the end, says nothing: a hiccup delays those of a moment, and a slow
//! server that sustains a rate has as many under way as its latency times the rate. So each time of one rate is divided into
//! thirds, and the time that requests spend under way in a third is divided by the number of those due in it, which is their
//! mean wait (Little's law). The first answers take a while to come, which lengthens the wait of the second third at most; a
//! pause lengthens that of one or, while what it left is worked off, of two, but leaves no more under way at the end. Only a
//! backlog that grows all the time makes each third wait longer than the one before, and ends with more requests under way than
//! the last third began with. It does so at whatever place requests wait: before a connection is free, or in the server.
//!
//! An overload that begins in the last third makes that one wait longer only, as a pause in it does. How those that are under way
//! at the end are answered then tells the two apart: after the first of them the others come as fast as the server can, which
//! after a pause is faster than they were due, of a slow server as fast, and of an overloaded one slower.

use prony_model::units::Nanos;

/// Parts of a section.
const PARTS: usize = 3;
/// A growth up to this is one of a scheduler.
const HICCUP: f64 = 0.010;
/// The share of its time by which a wait may grow from one third to the next: a rate is exceeded by as much.
const SHARE: f64 = 0.01;
/// More than this share of the time is no chance, however few requests there are.
const NO_CHANCE: f64 = 1.0 / 3.0;
/// The multiple of chance by which the wait of the last third alone must be longer, and of the time in which as many requests are due
/// that those under way at its end must take, for an overload that begins in it. With these, simulated servers that sustain the rate
/// (equal, exponential, log-normal latencies, and mixtures in which one in 50 takes 400 times as long) are called saturated no
/// more often than by the rule of three thirds.
const LATE: (f64, f64) = (3.0, 1.25);
/// Fewer requests than this say nothing of how fast they are answered.
const LEAST_LEFT: u64 = 10;

/// What is counted of a third.
#[derive(Clone, Copy, Debug, Default)]
struct Third {
    /// Requests that were due in it.
    due: u64,
    /// Seconds that requests were under way in it, from their intended start on.
    under_way: f64,
    /// Requests that were under way at its end.
    left: u64,
    /// Seconds that these were under way after it.
    after: f64,
    /// When the first of them ended.
    first: Option<Nanos>,
}

impl Third {
    /// The mean wait, seconds; `None` where nothing was due.
    fn wait(self) -> Option<f64> {
        (self.due > 0).then(|| self.under_way / self.due as f64)
    }

    /// So many requests that were under way at its end ended.
    fn left(&mut self, count: u64, end: Nanos, now: Nanos) {
        self.left += count;
        self.after += now.since(end).as_secs_f64() * count as f64;
        self.first = Some(self.first.map_or(now, |first| first.min(now)));
    }

    /// Whether those left at its end were answered slower, from the first of them on, than as many are due: requests that end
    /// evenly over a time do so after half of it on average.
    fn is_answered_slowly(&self, (begin, end): (Nanos, Nanos)) -> bool {
        let Some(first) = self.first.filter(|_| self.left >= LEAST_LEFT) else { return false };
        let mean = self.after / self.left as f64 - first.since(end).as_secs_f64();
        let due = (self.left - 1) as f64 * end.since(begin).as_secs_f64() / self.due as f64;
        mean > LATE.1 * due / 2.0
    }

    fn merge(&mut self, other: &Self) {
        self.due += other.due;
        self.under_way += other.under_way;
        self.left += other.left;
        self.after += other.after;
        self.first = self.first.into_iter().chain(other.first).min();
    }
}

/// The requests that are under way, over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backlog {
    /// Where the thirds begin, and the end of the last.
    pub(crate) bounds: Vec<Nanos>,
    thirds: Vec<Third>,
}

impl Backlog {
    /// Of sections of these lengths, one after the other from `begin` on, each of one rate or of one that changes evenly.
    pub(crate) fn new(sections: &[Nanos], begin: Nanos) -> Self {
        let (mut end, mut bounds) = (begin, vec![begin]);
        for section in sections {
            let third = Nanos::from_nanos(section.as_nanos() / PARTS as u64);
            bounds.extend([end + third, end + third + third, end + *section]);
            end += *section;
        }
        Self { thirds: vec![Third::default(); sections.len() * PARTS], bounds }
    }

    /// When the rate or the third may change.
    pub(crate) fn bounds(&self) -> &[Nanos] {
        &self.bounds
    }

    /// So many requests ended, whatever they ended in.
    #[inline]
    pub(crate) fn ended(&mut self, count: u64, intended: Nanos, now: Nanos) {
        let begun = self.bounds.partition_point(|bound| *bound <= intended);
        if let Some(third) = begun.checked_sub(1).and_then(|third| self.thirds.get_mut(third)) {
            third.due += count;
        }
        let first = begun.saturating_sub(1).min(self.thirds.len());
        let spans = self.bounds[first..].windows(2).zip(&mut self.thirds[first..]);
        for (bounds, third) in spans.take_while(|(bounds, _)| bounds[0] < now) {
            third.under_way += now.min(bounds[1]).since(intended.max(bounds[0])).as_secs_f64() * count as f64;
            if now > bounds[1] {
                third.left(count, bounds[1], now);
            }
        }
    }

    /// Adds the account of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.thirds.iter_mut().zip(&other.thirds).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    /// Whether the backlog grows in a section: all the time, or from some instant in its last third on.
    pub(crate) fn grows(&self, section: usize) -> bool {
        let from = section * PARTS;
        let (Some(thirds), Some(bounds)) = (self.thirds.get(from..from + PARTS), self.bounds.get(from..=from + PARTS))
        else {
            return false;
        };
        let ([first, before, last], [_, middle, begin, end]) = (thirds, bounds) else { return false };
        let has_grown = last.left.saturating_sub(before.left) as f64 > SHARE * last.due as f64;
        let [of_middle, of_last] = [(middle, begin), (begin, end)].map(|(from, to)| to.since(*from).as_secs_f64());
        let all_the_time = is_longer((first, before), of_middle, 1.0) && is_longer((before, last), of_last, 1.0);
        has_grown
            && (all_the_time || is_longer((before, last), of_last, LATE.0) && last.is_answered_slowly((*begin, *end)))
    }

    /// Whether it does so in any section.
    pub(crate) fn grows_anywhere(&self) -> bool {
        (0..self.thirds.len() / PARTS).any(|section| self.grows(section))
    }
}

/// Whether the wait in a third of this length is longer than in the one before, by more than chance often explains. The number
/// of requests under way, averaged over a third, varies by about its share of one over the square root of those due in it, where
/// they end independently of each other; twice that of the mean of both thirds, `chances` times, is allowed. But an overload lengthens the wait by
/// its share of the third's length whatever it was before, so that no more is allowed than of a wait as long as the third.
fn is_longer((before, after): (&Third, &Third), length: f64, chances: f64) -> bool {
    let (Some(earlier), Some(later)) = (before.wait(), after.wait()) else { return false };
    let chance = chances * (earlier + later).min(2.0 * length) / (after.due as f64).sqrt();
    later - earlier > HICCUP.max(SHARE * length) + chance.min(NO_CHANCE * length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Nanos = Nanos::from_secs(100);

    fn at(seconds: f64) -> Nanos {
        BEGIN + Nanos::from_nanos((seconds * 1e9).round() as u64)
    }

    /// Requests at constant gaps over a time, each of which ends at the instant that `end` gives for its number and intended
    /// start.
    fn grows(requests: u64, time: f64, mut end: impl FnMut(u64, f64) -> f64) -> bool {
        let mut backlog = Backlog::new(&[Nanos::from_nanos((time * 1e9) as u64)], BEGIN);
        for number in 0..requests {
            let due = number as f64 * time / requests as f64;
            backlog.ended(1, at(due), at(end(number, due)));
        }
        backlog.grows(0) && backlog.grows_anywhere()
    }

    /// A server that answers one request after another, each in the time that `takes` gives for the instant it begins.
    fn one_at_a_time(mut takes: impl FnMut(f64) -> f64) -> impl FnMut(u64, f64) -> f64 {
        let mut free = 0.0f64;
        move |_, due| {
            let begin = free.max(due);
            free = begin + takes(begin);
            free
        }
    }

    /// At 1900 a second a server with a capacity of 1000 answered all requests within their timeout, most of them after the step.
    #[test]
    fn rate_of_which_the_backlog_grows_is_not_sustained() {
        assert!(grows(19_000, 10.0, one_at_a_time(|_| 0.001)));
        assert!(grows(10_500, 10.0, one_at_a_time(|_| 0.001)), "5 % too much");
        // 48 a second: 70 a second for 4 s were called sustained, and 54 a second for 10 s the largest rate.
        assert!(grows(280, 4.0, one_at_a_time(|_| 0.0208)));
        assert!(grows(540, 10.0, one_at_a_time(|_| 0.021)));
        assert!(grows(500, 10.0, one_at_a_time(|_| 0.021)), "5 % too much");
        assert!(grows(30, 30.0, one_at_a_time(|_| 2.0)), "few requests, and half of them too much");
        assert!(grows(200, 1.0, one_at_a_time(|_| 0.0075)), "half more than a server can, for a second");
    }

    /// Ten connections of four threads, of which some have two: these threads fall behind, and the others do not. Which of them
    /// has the last request says nothing.
    #[test]
    fn rate_that_some_threads_do_not_sustain_is_not_sustained_whoever_has_the_last_request() {
        for requests in [4_340, 4_345] {
            let mut threads = [3, 3, 2, 2].map(|connections| vec![0.0f64; connections]);
            let end = |number: u64, due: f64| {
                let connections = &mut threads[number as usize % 4];
                connections.sort_by(f64::total_cmp);
                connections[0] = connections[0].max(due) + 0.01;
                connections[0]
            };
            assert!(grows(requests, 5.0, end), "{requests}");
        }
    }

    #[test]
    fn rate_that_is_sustained_is_so_whatever_its_latency_and_its_pauses() {
        let pauses = |pauses: [f64; 2], length: f64| {
            one_at_a_time(move |begin| {
                let pause = pauses.iter().find(|from| (**from..**from + length).contains(&begin));
                pause.map_or(0.0005, |from| from + length - begin)
            })
        };
        assert!(!grows(9_500, 10.0, |_, due| due + 0.001), "as many answers as requests");
        assert!(!grows(9_500, 10.0, |_, due| due + 1.0), "each answer takes a second");
        assert!(!grows(9_500, 10.0, |_, due| due + 3.0), "each answer takes nearly a third");
        assert!(!grows(9_500, 10.0, pauses([9.0, 9.0], 1.0)), "a pause at the end");
        assert!(!grows(9_500, 10.0, pauses([4.5, 9.5], 0.5)), "a pause in the middle and one at the end");
        for tenths in 41..60 {
            let at = f64::from(tenths) / 10.0;
            let full = |begin| if (at..at + 1.0).contains(&begin) { at + 1.0 - begin } else { 0.001 };
            assert!(
                !grows(9_000, 10.0, one_at_a_time(full)),
                "a pause at {at} s, most of which the last third works off"
            );
        }
        let mut noise = [0.30, 0.42, 0.38, 0.52, 0.47, 0.60].into_iter().cycle();
        let risen = |_, due: f64| due + noise.next().unwrap_or(0.0) * [0.9, 1.0, 1.1][((due / 3.34) as usize).min(2)];
        assert!(!grows(60, 10.0, risen), "waits of few requests that rise within what chance explains");
        assert!(!grows(100, 1.0, |number, due| due + if number == 99 { 0.05 } else { 0.001 }), "a hiccup at the last");
        assert!(!grows(100, 10.0, |number, due| due + [0.1, 0.7, 0.4, 0.9, 0.2][number as usize % 5]), "chance");
        assert!(!grows(0, 10.0, |_, due| due), "nothing was due");
        assert!(!Backlog::new(&[], BEGIN).grows(0) && !Backlog::default().grows_anywhere());
    }

    /// The numbers of docs/load.md.
    #[test]
    fn overload_that_is_found_is_smaller_with_more_requests() {
        for (requests, found) in [(20, 0.57), (50, 0.43), (100, 0.08), (200, 0.03)] {
            let of =
                |overload: f64| grows(requests, 10.0, one_at_a_time(|_| (1.0 + overload) * 10.0 / requests as f64));
            assert!(of(found) && of(2.0 * found) && !of(found - 0.01), "{requests}");
        }
    }

    /// With a capacity of half of the rate from 7 s of 10 on, a third of the answers came after the end, and the rate was called sustained.
    #[test]
    fn rate_that_is_not_sustained_from_the_last_third_on_is_found() {
        let since = |begin: f64, takes: f64| one_at_a_time(move |now| if now < begin { 0.0003 } else { takes });
        for begin in [6.7, 7.0, 8.0] {
            assert!(grows(10_000, 10.0, since(begin, 0.002)), "half of the rate from {begin} s on");
            assert!(grows(10_000, 10.0, since(begin, 0.0015)), "two thirds of it from {begin} s on");
        }
        assert!(grows(200, 10.0, one_at_a_time(|now| if now < 7.0 { 0.015 } else { 0.1 })), "few requests");
        let threads = || {
            let mut one = [since(7.0, 0.008), since(7.0, 0.008), since(7.0, 0.008), since(7.0, 0.008)];
            move |number: u64, due: f64| one[number as usize % 4](number, due)
        };
        assert!(grows(10_000, 10.0, threads()), "of four connections");
    }

    #[test]
    fn pauses_and_slower_answers_in_the_last_third_are_no_overload() {
        let paused = |from: f64, length: f64, takes: f64| {
            one_at_a_time(move |now| if (from..from + length).contains(&now) { from + length - now } else { takes })
        };
        for (from, length) in [(9.0, 1.0), (8.5, 1.5), (9.5, 1.0), (9.0, 3.0), (7.0, 2.0)] {
            assert!(!grows(9_000, 10.0, paused(from, length, 0.0005)), "a pause of {length} s at {from} s");
            assert!(!grows(9_000, 10.0, paused(from, length, 0.001)), "the same with 90 % of the capacity");
        }
        for slower in [0.1, 0.5, 2.0] {
            let answer = |_, due: f64| due + if due < 7.0 { 0.01 } else { slower };
            assert!(!grows(9_000, 10.0, answer), "each answer takes {slower} s from then on");
        }
        assert!(
            !grows(9_000, 10.0, |_, due| due + if due < 9.0 { 0.01 } else { 10.0 }),
            "from then on none comes in time"
        );
    }

    /// A ramp has more and more requests under way with a server that sustains it.
    #[test]
    fn waits_and_not_numbers_are_compared() {
        let mut backlog = Backlog::new(&[Nanos::from_secs(30)], BEGIN);
        // 10 to 310 a second, so that 10 t + 5 t^2 are due by then.
        for number in 0..4_800 {
            let due = (1.0 + f64::from(number) / 5.0).sqrt() - 1.0;
            backlog.ended(1, at(due), at(due + 0.5));
        }
        assert!(!backlog.grows(0));
    }

    #[test]
    fn sections_are_judged_apart_and_threads_together() {
        let sections = [Nanos::from_secs(3), Nanos::from_secs(6)];
        let (mut one, mut other) = (Backlog::new(&sections, BEGIN), Backlog::new(&sections, BEGIN));
        // Of the warm-up: it is no request of the first section, but waits in it.
        one.ended(1, BEGIN.since(Nanos::from_secs(1)), at(0.5));
        assert_eq!((one.thirds[0].due, one.thirds[0].under_way), (0, 0.5));
        let mut server = one_at_a_time(|_| 0.0125);
        for number in 0..300u64 {
            let due = number as f64 / 100.0;
            let thread = if number % 2 == 0 { &mut one } else { &mut other };
            thread.ended(1, at(due), at(server(number, due)));
        }
        // The backlog of 0.75 s is worked off in the second section.
        for number in 0..60u64 {
            let due = 3.0 + number as f64 / 10.0;
            other.ended(1, at(due), at(server(number, due)));
        }
        one.merge(&other);
        assert_eq!((one.grows(0), one.grows(1), one.grows_anywhere()), (true, false, true));
    }
}
