//! The account of a thread's requests: each is counted once, by what it ended in.

use std::collections::BTreeMap;

use prony_model::latency::Recorder;
use prony_model::units::Nanos;

use crate::load::STATUSES;
use crate::pace::Request;

/// What a request that is no success ended in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// A whole answer with a status that is not expected.
    Status,
    /// The server did not accept the connection.
    Refused,
    /// The connection was reset, or broke in another way.
    Reset,
    /// The server closed the connection before a whole answer.
    Closed,
    /// The bytes that came are no answer.
    Malformed,
    /// There was no whole answer within the timeout.
    Timeout,
    /// TLS failed: a certificate that is not accepted, no common version.
    Tls,
    /// This machine had no socket or port for the connection.
    NoSocket,
    /// It was under way when the load was ended.
    Unfinished,
    /// Open loop: no connection was free within the timeout, or before the load was ended.
    NotStarted,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Status,
        Self::Refused,
        Self::Reset,
        Self::Closed,
        Self::Malformed,
        Self::Timeout,
        Self::Tls,
        Self::NoSocket,
        Self::Unfinished,
        Self::NotStarted,
    ];
}

/// Different causes that are counted apart.
const MOST_CAUSES: usize = 32;
/// Bytes of a cause that are kept.
const LONGEST_CAUSE: usize = 200;

/// What one request took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) sent: usize,
    pub(crate) received: u64,
    pub(crate) first_byte: Option<Nanos>,
    pub(crate) opened_in: Option<Nanos>,
}

/// Times that only an open loop has.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfOpen {
    /// From the real start.
    pub(crate) actual: Recorder,
    /// From the intended to the real start.
    pub(crate) lag: Recorder,
    /// Lag and intended start of the last request that started or was given up.
    pub(crate) last: Option<(Nanos, Nanos)>,
}

/// Requests of the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WarmUp {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
}

/// The account of a thread, or of all.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) ok: u64,
    /// Successes whose answer came within the window, of requests of the warm-up too.
    pub(crate) ok_in_window: u64,
    pub(crate) failures: BTreeMap<Failure, u64>,
    /// Whole answers by status.
    pub(crate) statuses: Vec<u64>,
    pub(crate) causes: BTreeMap<(Failure, String), u64>,
    /// From the start in a closed loop, from the intended start in an open one.
    pub(crate) latency: Recorder,
    pub(crate) open: Option<OfOpen>,
    /// From the real start to the first byte of the answer.
    pub(crate) first_byte: Recorder,
    pub(crate) connect: Recorder,
    /// Requests of which bytes were sent.
    pub(crate) sent_requests: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) warm_up: WarmUp,
    /// When the last measured request ended, whatever it ended in.
    pub(crate) last_end: Option<Nanos>,
}

impl Tally {
    pub(crate) fn new(is_open: bool) -> Self {
        Self {
            ok: 0,
            ok_in_window: 0,
            failures: BTreeMap::new(),
            statuses: vec![0; STATUSES],
            causes: BTreeMap::new(),
            latency: Recorder::new(),
            open: is_open.then(OfOpen::default),
            first_byte: Recorder::new(),
            connect: Recorder::new(),
            sent_requests: 0,
            sent_bytes: 0,
            received_bytes: 0,
            warm_up: WarmUp::default(),
            last_end: None,
        }
    }

    /// A measured request ended.
    #[inline]
    pub(crate) fn ended(&mut self, request: &Request, now: Nanos) {
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
        self.ok_in_window += u64::from(is_expected && (window.0..=window.1).contains(&now));
        if !request.measured {
            self.warm_up.ok += u64::from(is_expected);
            self.warm_up.failed += u64::from(!is_expected);
            return;
        }
        self.exchanged(exchange);
        self.started(request);
        self.statuses[usize::from(status) % STATUSES] += 1;
        if !is_expected {
            return self.count(Failure::Status);
        }
        self.ok += 1;
        self.latency.record(now.since(request.intended));
        if let Some(open) = &mut self.open {
            open.actual.record(now.since(request.started));
        }
        if let Some(first) = exchange.first_byte {
            self.first_byte.record(first.since(request.started));
        }
    }

    /// A request that started ended without a whole answer.
    pub(crate) fn failed(&mut self, request: &Request, exchange: &Exchange, failure: Failure, cause: String) {
        if !request.measured {
            self.warm_up.failed += 1;
            return;
        }
        self.exchanged(exchange);
        self.started(request);
        self.count(failure);
        if !cause.is_empty() {
            self.cause(failure, cause, 1);
        }
    }

    /// A request was given up before it started.
    pub(crate) fn not_started(&mut self, request: &Request) {
        if !request.measured {
            self.warm_up.failed += 1;
            return;
        }
        *self.failures.entry(Failure::NotStarted).or_default() += 1;
        self.latency.record_failed();
        if let Some(open) = &mut self.open {
            open.lag.record_failed();
            open.actual.record_failed();
        }
        self.lagged(request);
    }

    fn exchanged(&mut self, exchange: &Exchange) {
        self.sent_requests += u64::from(exchange.sent > 0);
        self.sent_bytes += exchange.sent as u64;
        self.received_bytes += exchange.received;
        if let Some(time) = exchange.opened_in {
            self.connect.record(time);
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
        if open.last.is_none_or(|(_, intended)| intended < request.intended) {
            open.last = Some((request.started.since(request.intended), request.intended));
        }
    }

    /// Counts a failure of a request that started; its latency is infinite.
    fn count(&mut self, failure: Failure) {
        *self.failures.entry(failure).or_default() += 1;
        self.latency.record_failed();
        self.first_byte.record_failed();
        if let Some(open) = &mut self.open {
            open.actual.record_failed();
        }
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
        self.ok_in_window += other.ok_in_window;
        other.failures.into_iter().for_each(|(failure, count)| *self.failures.entry(failure).or_default() += count);
        self.statuses.iter_mut().zip(&other.statuses).for_each(|(mine, theirs)| *mine += theirs);
        other.causes.into_iter().for_each(|((failure, cause), count)| self.cause(failure, cause, count));
        self.latency.merge(&other.latency);
        self.first_byte.merge(&other.first_byte);
        self.connect.merge(&other.connect);
        if let (Some(mine), Some(theirs)) = (&mut self.open, &other.open) {
            mine.actual.merge(&theirs.actual);
            mine.lag.merge(&theirs.lag);
            mine.last = [mine.last, theirs.last].into_iter().flatten().max_by_key(|(_, intended)| *intended);
        }
        self.sent_requests += other.sent_requests;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.warm_up.ok += other.warm_up.ok;
        self.warm_up.failed += other.warm_up.failed;
        self.last_end = self.last_end.max(other.last_end);
    }

    /// Requests that failed.
    pub(crate) fn failed_requests(&self) -> u64 {
        self.failures.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(measured: bool, late: u64) -> Request {
        let intended = Nanos::from_secs(1);
        Request { number: 0, intended, started: intended + Nanos::from_millis(late), measured }
    }

    #[test]
    fn causes_are_counted_apart_up_to_a_bound() {
        let mut tally = Tally::new(false);
        for number in 0..100 {
            let cause = format!("{number}{}", "\u{e4}".repeat(500));
            tally.failed(&request(true, 0), &Exchange::default(), Failure::Tls, cause);
        }
        assert!(tally.causes.len() <= MOST_CAUSES + 1, "{}", tally.causes.len());
        assert!(tally.causes.keys().all(|(_, cause)| cause.len() <= LONGEST_CAUSE));
        assert_eq!((tally.causes.values().sum::<u64>(), tally.failed_requests()), (100, 100));
    }

    #[test]
    fn merged_tallies_are_one_over_all_requests() {
        let (mut one, mut other, mut both) = (Tally::new(true), Tally::new(true), Tally::new(true));
        let end = Nanos::from_secs(2);
        let answered = |tally: &mut Tally, late, status, now| {
            tally.answered(
                &request(true, late),
                &Exchange::default(),
                status,
                status == 200,
                (now, (Nanos::from_secs(1), end)),
            );
        };
        for tally in [&mut one, &mut both] {
            answered(tally, 1, 200, Nanos::from_millis(1_500));
            answered(tally, 2, 500, Nanos::from_millis(1_600));
            tally.not_started(&request(true, 900));
        }
        for tally in [&mut other, &mut both] {
            answered(tally, 3, 200, Nanos::from_millis(2_500));
            tally.failed(&request(true, 4), &Exchange::default(), Failure::Reset, "reset".to_owned());
            tally.failed(&request(false, 4), &Exchange::default(), Failure::Reset, "reset".to_owned());
        }
        one.merge(other);
        assert_eq!((one.ok, one.ok_in_window, one.failed_requests()), (2, 1, 3));
        assert_eq!(one.warm_up, WarmUp { ok: 0, failed: 1 });
        assert_eq!((one.ok, &one.failures, &one.statuses), (both.ok, &both.failures, &both.statuses));
        assert_eq!((&one.latency, &one.causes, one.last_end), (&both.latency, &both.causes, both.last_end));
        let (one, both) = (one.open.unwrap(), both.open.unwrap());
        assert_eq!((one.actual, one.lag), (both.actual, both.lag));
    }
}
