//! The account of a thread's requests: each is counted once, by what it ended in.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use prony_model::latency::Recorder;
use prony_model::spec::RateStep;
use prony_model::throughput::Series;
use prony_model::units::Nanos;
use prony_workload::Distinct;

use crate::answer_check::Read;
use crate::backlog::Backlog;
use crate::failure::Failure;
use crate::outgoing::About;
use crate::pace::Request;
use crate::step_tally::{Part, Steps};
use crate::text::Variation;
use crate::variety::Variety;

/// Statuses have three digits.
pub(crate) const STATUSES: usize = 1_000;
/// Different causes that are counted apart.
const MOST_CAUSES: usize = 32;
/// Bytes of a cause that are kept.
const LONGEST_CAUSE: usize = 200;

/// Times that only an open loop has.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfOpen {
    /// From the real start, of requests that started.
    pub(crate) actual: Recorder,
    /// From the intended to the real start.
    pub(crate) lag: Recorder,
    /// The largest lag of a request that started or was given up.
    pub(crate) worst: Nanos,
    /// When a connection was free last after all had been in use.
    full_until: Option<Nanos>,
    /// Requests that were due while all connections were in use.
    pub(crate) waited: u64,
    /// Requests that are under way, of the warm-up too.
    pub(crate) backlog: Backlog,
}

impl OfOpen {
    /// Whether a request was due while all connections were in use, which they still are or not.
    #[inline]
    fn waits(&self, request: &Request, is_full: bool) -> bool {
        is_full || self.full_until.is_some_and(|until| request.intended <= until)
    }

    /// Adds the account of another thread.
    fn merge(&mut self, other: &Self) {
        self.actual.merge(&other.actual);
        self.lag.merge(&other.lag);
        self.worst = self.worst.max(other.worst);
        self.waited += other.waited;
        self.backlog.merge(&other.backlog);
    }
}

/// Requests of the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WarmUp {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
}

/// What is counted of a load's requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) is_open: bool,
    /// Of an open loop: how long its schedule has each rate.
    pub(crate) sections: Vec<Nanos>,
    /// The steps of the schedule, where the rate changes.
    pub(crate) steps: Vec<RateStep>,
    /// Interval of the throughput series, where there is one.
    pub(crate) throughput: Option<Nanos>,
    /// The kinds of requests of a mix; 0 where all are of one kind.
    pub(crate) kinds: usize,
    pub(crate) paths: Variation,
    /// `None` where requests have no body.
    pub(crate) bodies: Option<Variation>,
    /// Whether requests work on records or saved values, several on the same.
    pub(crate) has_places: bool,
}

/// What one request took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) about: About,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Bytes of bodies that were sent and received.
    pub(crate) bodies: u64,
    pub(crate) first_byte: Option<Nanos>,
    pub(crate) opened_in: Option<Nanos>,
    /// Whether the connection was still to be opened.
    pub(crate) is_opening: bool,
    /// Whether bytes of the request were sent in an earlier attempt.
    pub(crate) was_sent: bool,
    /// Whether the whole answer came before all of the request was sent.
    pub(crate) is_cut: bool,
}

/// The account of a thread, or of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) ok: u64,
    /// Expected answers, to requests of the warm-up too: in a closed loop each by the share of its time that lies in the
    /// window, from `counted_since` on; in an open one those that came within it.
    pub(crate) answers: f64,
    pub(crate) failures: BTreeMap<Failure, u64>,
    /// Whole answers that requests ended with, by status.
    pub(crate) statuses: Vec<u64>,
    /// Those of them that were not expected of the request.
    pub(crate) unexpected: BTreeMap<u16, u64>,
    /// Attempts that were repeated, by what they ended in.
    pub(crate) repeated: BTreeMap<Failure, u64>,
    /// Whole answers to attempts that were repeated, by status.
    pub(crate) repeated_statuses: BTreeMap<u16, u64>,
    pub(crate) causes: BTreeMap<(Failure, String), u64>,
    /// From the start in a closed loop, from the intended start in an open one.
    pub(crate) latency: Recorder,
    pub(crate) open: Option<OfOpen>,
    pub(crate) steps: Option<Steps>,
    /// Of each kind of a mix.
    pub(crate) kinds: Vec<Part>,
    /// From the real start to the first byte of the answer.
    pub(crate) first_byte: Recorder,
    pub(crate) connect: Recorder,
    /// Requests of which bytes were sent.
    pub(crate) sent_requests: u64,
    /// Requests, or attempts of them, whose whole answer came before all of them was sent.
    pub(crate) cut: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    /// Bytes of bodies that were sent and received, of requests that were answered as expected.
    pub(crate) body_bytes: u64,
    /// Different paths that were sent.
    pub(crate) paths: Variety,
    /// Different bodies that were sent.
    pub(crate) bodies: Option<Variety>,
    /// Different records or saved values that requests worked on.
    pub(crate) places: Option<Distinct>,
    /// Expected answers over time.
    pub(crate) series: Option<Series>,
    /// Connections that were made, those of the warm-up too.
    pub(crate) connections: u64,
    /// Connections on which more came after the last answer.
    pub(crate) surplus: u64,
    /// Time in which requests were made or answers read, while other requests were under way or, in a closed loop, could not start.
    pub(crate) making: Nanos,
    /// What was read of the bodies of expected answers.
    pub(crate) read: Read,
    /// The end of the warm-up.
    since: Nanos,
    /// Connections that had an expected answer, in a closed loop that ends at a time.
    first_answers: usize,
    /// Since when `answers` count: of all threads the last.
    counted_since: Nanos,
    pub(crate) warm_up: WarmUp,
    /// When the last measured request ended, whatever it ended in.
    pub(crate) last_end: Option<Nanos>,
    /// From the real start of a request to its answer, the longest time, of the warm-up too.
    pub(crate) longest: Nanos,
}

impl Tally {
    /// Of no requests yet. `since` is the end of the warm-up.
    pub(crate) fn new(shape: &Shape, since: Nanos) -> Self {
        let variety = |variation| Variety::new(variation, !shape.has_places);
        let of_open = || OfOpen { backlog: Backlog::new(&shape.sections, since), ..OfOpen::default() };
        Self {
            statuses: vec![0; STATUSES],
            open: shape.is_open.then(of_open),
            steps: Steps::new(&shape.steps, since),
            kinds: vec![Part::default(); shape.kinds],
            paths: variety(shape.paths),
            bodies: shape.bodies.map(variety),
            places: shape.has_places.then(Distinct::new),
            series: shape.throughput.map(Series::new),
            since,
            counted_since: since,
            ..Self::default()
        }
    }

    /// The same with all instants later by this time: it is made before the load has a begin.
    pub(crate) fn later(mut self, by: Nanos) -> Self {
        let backlog = self.open.iter_mut().flat_map(|open| &mut open.backlog.bounds);
        let steps = self.steps.iter_mut().flat_map(|steps| [&mut steps.begin].into_iter().chain(&mut steps.ends));
        let own = [&mut self.since, &mut self.counted_since];
        own.into_iter().chain(backlog).chain(steps).for_each(|instant| *instant += by);
        self
    }

    /// A connection is free at an instant, up to which all were in use.
    #[inline]
    pub(crate) fn was_full(&mut self, until: Nanos) {
        self.open.iter_mut().for_each(|open| open.full_until = Some(until));
    }

    /// A request is taken from the schedule, to be started.
    #[inline]
    pub(crate) fn taken(&mut self, request: &Request) {
        if let Some(open) = self.open.as_mut().filter(|_| request.measured) {
            open.waited += u64::from(open.waits(request, false));
        }
    }

    /// A request ended.
    #[inline]
    pub(crate) fn ended(&mut self, request: &Request, now: Nanos) {
        self.all_ended(1, request, now);
    }

    fn all_ended(&mut self, count: u64, request: &Request, now: Nanos) {
        if let Some(open) = &mut self.open {
            open.backlog.ended(count, request.intended, now);
        }
        if request.measured {
            self.last_end = self.last_end.max(Some(now));
        }
    }

    /// A request got a whole answer at an instant; `window` is the measured time.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        request: &Request,
        exchange: &Exchange,
        status: u16,
        is_expected: bool,
        (now, window): (Nanos, (Nanos, Nanos)),
    ) {
        self.connections += u64::from(exchange.opened_in.is_some());
        self.longest = self.longest.max(now.since(request.started));
        if is_expected {
            let share = match self.open {
                None => share_within((self.counted_since, window.1), (request.started, now)),
                Some(_) => f64::from(u8::from((window.0..=window.1).contains(&now))),
            };
            self.answers += share;
            self.kinds.get_mut(request.kind as usize).into_iter().for_each(|kind| kind.answers += share);
            self.steps.iter_mut().for_each(|steps| steps.answered(now));
        }
        if !request.measured {
            self.warm_up.ok += u64::from(is_expected);
            self.warm_up.failed += u64::from(!is_expected);
            return;
        }
        self.exchanged(exchange);
        self.started(request);
        self.statuses[usize::from(status) % STATUSES] += 1;
        if !is_expected {
            *self.unexpected.entry(status).or_default() += 1;
            return self.count(request, Failure::Status);
        }
        self.ok += 1;
        self.body_bytes += exchange.bodies;
        if let Some(series) = &mut self.series {
            let at = now.since(self.since).as_nanos();
            series.add(at, at, 1);
        }
        self.latency.record(now.since(request.intended));
        self.parts(request).for_each(|part| part.ok(request, now));
        if let Some(open) = &mut self.open {
            open.actual.record(now.since(request.started));
        }
        if let Some(first) = exchange.first_byte {
            self.first_byte.record(first.since(request.started));
        }
    }

    /// In a closed loop that ends at a time, one of so many connections got its first expected answer: answers count from then on,
    /// unless it is one of the last few, which weigh little and may have waited for long.
    ///
    /// All first requests begin together, and each has waited for others since then, while the last requests are under way at an
    /// end that does not depend on them. Were each counted by a share at the end and whole at the begin, the rate would be too large
    /// by half a request of each connection: 55/s of one worker that answers 50/s, with 100 connections and 10 s.
    pub(crate) fn first_answered(&mut self, connections: usize, now: Nanos) {
        self.first_answers += 1;
        if self.first_answers <= connections - (connections + 10) / 20 {
            self.counted_since = self.since.max(now);
            self.answers_mut().for_each(|answers| *answers = 0.0);
        }
    }

    /// The thread has ended, and its load with `end`: the answers become those of the whole window, at the rate since they count.
    pub(crate) fn close(&mut self, end: Nanos) {
        let [whole, counted] = [self.since, self.counted_since].map(|begin| end.since(begin).as_secs_f64());
        self.answers_mut().filter(|_| counted > 0.0).for_each(|answers| *answers *= whole / counted);
    }

    fn answers_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        [&mut self.answers].into_iter().chain(self.kinds.iter_mut().map(|kind| &mut kind.answers))
    }

    /// How much of the window answers do not count, of the thread for which that is longest.
    pub(crate) fn uncounted(&self) -> Nanos {
        self.counted_since.since(self.since)
    }

    /// Something was read of the answer to a request.
    pub(crate) fn read(&mut self, request: &Request, read: Read) {
        if request.measured {
            self.read.add(read);
            if let Some(kind) = self.kinds.get_mut(request.kind as usize) {
                kind.rows = kind.rows.saturating_add(read.rows);
            }
        }
    }

    /// A request got an expected answer, and fails all the same.
    pub(crate) fn answered_in_vain(&mut self, request: &Request, status: u16) {
        self.statuses[usize::from(status) % STATUSES] += u64::from(request.measured);
    }

    /// A request that started ended without an answer that serves.
    pub(crate) fn failed(&mut self, request: &Request, exchange: &Exchange, failure: Failure, cause: String) {
        self.connections += u64::from(exchange.opened_in.is_some());
        if !request.measured {
            self.warm_up.failed += 1;
            return;
        }
        self.exchanged(exchange);
        self.started(request);
        self.count(request, failure);
        if !cause.is_empty() {
            self.cause(failure, cause, 1);
        }
    }

    /// An attempt ended, by an answer with a status or without an answer, and is repeated. Its request has not ended.
    pub(crate) fn repeated(&mut self, request: &Request, exchange: &Exchange, end: Result<u16, Failure>) {
        self.connections += u64::from(exchange.opened_in.is_some());
        if !request.measured {
            return;
        }
        self.exchanged(exchange);
        let failure = end.err().unwrap_or(Failure::Status);
        if let Ok(status) = end {
            *self.repeated_statuses.entry(status).or_default() += 1;
        }
        *self.repeated.entry(failure).or_default() += 1;
    }

    /// So many requests as this one, which is due in the middle of them, were given up before they started; `is_full`: all connections are
    /// in use.
    pub(crate) fn given_up(&mut self, count: u64, request: &Request, is_full: bool, now: Nanos) {
        self.all_ended(count, request, now);
        if !request.measured {
            self.warm_up.failed += count;
            return;
        }
        *self.failures.entry(Failure::NotStarted).or_default() += count;
        self.latency.record_many_failed(count);
        self.parts(request).for_each(|part| part.failed(count, false));
        if let Some(open) = &mut self.open {
            // It has no real start, so that no latency from there counts it.
            open.lag.record_many_failed(count);
            open.waited += if open.waits(request, is_full) { count } else { 0 };
        }
        self.lagged(request);
    }

    /// When the rate of the schedule or the third of its time may change.
    pub(crate) fn bounds(&self) -> Vec<Nanos> {
        self.open.as_ref().map_or_else(Vec::new, |open| open.backlog.bounds().to_vec())
    }

    fn exchanged(&mut self, exchange: &Exchange) {
        if exchange.sent > 0 && !exchange.was_sent {
            let About { number, place, path, body, has_body, .. } = exchange.about;
            self.sent_requests += 1;
            self.paths.add(number, path);
            if let Some(bodies) = self.bodies.as_mut().filter(|_| has_body) {
                bodies.add(number, body);
            }
            if let Some(places) = &mut self.places {
                places.add(place);
            }
        }
        self.cut += u64::from(exchange.is_cut);
        self.sent_bytes += exchange.sent;
        self.received_bytes += exchange.received;
        if let Some(time) = exchange.opened_in {
            self.connect.record(time);
        } else if exchange.is_opening {
            // A connection that was never open took infinitely long, as a request does that fails.
            self.connect.record_failed();
        }
    }

    fn started(&mut self, request: &Request) {
        self.lagged(request);
        if let Some(open) = &mut self.open {
            open.lag.record(request.started.since(request.intended));
        }
    }

    fn lagged(&mut self, request: &Request) {
        let Some(open) = &mut self.open else { return };
        open.worst = open.worst.max(request.started.since(request.intended));
    }

    /// Counts a failure of a request that started; its latency is infinite.
    fn count(&mut self, request: &Request, failure: Failure) {
        self.parts(request).for_each(|part| part.failed(1, true));
        *self.failures.entry(failure).or_default() += 1;
        self.latency.record_failed();
        self.first_byte.record_failed();
        if let Some(open) = &mut self.open {
            open.actual.record_failed();
        }
    }

    /// The step of a request and its kind, where there are some.
    #[inline]
    fn parts(&mut self, request: &Request) -> impl Iterator<Item = &mut Part> {
        let step = self.steps.as_mut().map(|steps| steps.of(request));
        step.into_iter().chain(self.kinds.get_mut(request.kind as usize))
    }

    fn cause(&mut self, failure: Failure, mut cause: String, count: u64) {
        if cause.len() > LONGEST_CAUSE {
            let end = (0..=LONGEST_CAUSE).rfind(|end| cause.is_char_boundary(*end)).unwrap_or(0);
            cause.truncate(end);
        }
        let is_known = self.causes.contains_key(&(failure, cause.clone()));
        if !is_known && self.causes.len() >= MOST_CAUSES {
            cause = "other causes".to_owned();
        }
        *self.causes.entry((failure, cause)).or_default() += count;
    }

    /// Adds the account of another thread.
    pub(crate) fn merge(&mut self, other: Self) {
        self.ok += other.ok;
        self.answers += other.answers;
        add(&mut self.failures, other.failures);
        self.statuses.iter_mut().zip(&other.statuses).for_each(|(mine, theirs)| *mine += theirs);
        add(&mut self.unexpected, other.unexpected);
        add(&mut self.repeated, other.repeated);
        add(&mut self.repeated_statuses, other.repeated_statuses);
        other.causes.into_iter().for_each(|((failure, cause), count)| self.cause(failure, cause, count));
        self.latency.merge(&other.latency);
        self.first_byte.merge(&other.first_byte);
        self.connect.merge(&other.connect);
        self.open.iter_mut().zip(&other.open).for_each(|(mine, theirs)| mine.merge(theirs));
        self.steps.iter_mut().zip(&other.steps).for_each(|(mine, theirs)| mine.merge(theirs));
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(mine, theirs)| mine.merge(theirs));
        self.sent_requests += other.sent_requests;
        self.cut += other.cut;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.body_bytes += other.body_bytes;
        self.paths.merge(&other.paths);
        self.bodies.iter_mut().zip(&other.bodies).for_each(|(mine, theirs)| mine.merge(theirs));
        self.places.iter_mut().zip(&other.places).for_each(|(mine, theirs)| mine.merge(theirs));
        self.series.iter_mut().zip(other.series).for_each(|(mine, theirs)| mine.merge(theirs));
        self.connections += other.connections;
        self.surplus += other.surplus;
        self.making += other.making;
        self.read.add(other.read);
        self.warm_up.ok += other.warm_up.ok;
        self.warm_up.failed += other.warm_up.failed;
        self.last_end = self.last_end.max(other.last_end);
        self.counted_since = self.counted_since.max(other.counted_since);
        self.longest = self.longest.max(other.longest);
    }

    /// Requests that failed.
    pub(crate) fn failed_requests(&self) -> u64 {
        self.failures.values().sum()
    }
}

/// Adds counts to others.
fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, more: BTreeMap<K, u64>) {
    more.into_iter().for_each(|(key, count)| *counts.entry(key).or_default() += count);
}

/// The share of a request's time that lies in the window. A count of the answers that come within it would leave out what
/// was done of the others, and one of all answers would not know how much time to divide by: where one request is slow at the
/// end, the others are not. In an open loop requests may wait for others without end: nothing was done of them in that time.
#[inline]
fn share_within((begin, end): (Nanos, Nanos), (started, answered): (Nanos, Nanos)) -> f64 {
    if begin <= started && answered <= end {
        return 1.0;
    }
    let within = answered.min(end).since(started.max(begin));
    within.as_secs_f64() / answered.since(started).as_secs_f64().max(f64::MIN_POSITIVE)
}
