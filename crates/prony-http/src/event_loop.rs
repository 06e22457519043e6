//! The loop of one thread: starts requests that are due on connections that are free, goes on with those whose sockets
//! have events, ends those whose time is over, and accounts for each.
//!
//! A closed loop is the same loop as an open one with a request due whenever a connection is free. A request that has one attempt
//! ends `timeout` after its intended start at the latest, whether it was started or not; so the loop ends at most that long
//! after the last request was due. Each further attempt (`retry.rs`) takes at most its wait and the timeout. A request keeps its
//! connection while it waits for an attempt.

use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

use prony_model::units::Nanos;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::capture::find_all;
use crate::checked_load::Load;
use crate::clock::{monotonic, thread_cpu};
use crate::connection::{BUFFER, Connection, End, Wire};
use crate::control::{Control, Counts, Progress};
use crate::destination::Destination;
use crate::error::Error;
use crate::failure::Failure;
use crate::kinds::Kind;
use crate::pace::{Pace, Request};
use crate::request::Template;
use crate::retry::{self, Ended, Waiting};
use crate::saved::Found;
use crate::session::{At, Session};
use crate::source::Source;
use crate::stalls::{Stalls, TICK, Watch};
use crate::tally::{Exchange, Tally};
use crate::thinking::Thinking;
use crate::tls::Tls;
use crate::usage::{Clocks, Meter, Usage};

/// Events that are taken at once.
const MOST_EVENTS: usize = 256;
/// Requests whose time is over are looked for at least so often.
const LONGEST_BETWEEN_SCANS: Nanos = Nanos::from_millis(100);
/// How long requests have that run when the load is ended.
const GRACE: Nanos = Nanos::from_secs(1);

/// What a thread needs to run.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) load: &'a Load,
    pub(crate) destination: Destination,
    pub(crate) tls: Option<&'a Tls>,
    pub(crate) control: &'a Control,
    /// The number of the thread, from 0.
    pub(crate) index: u32,
    pub(crate) connections: u32,
}

/// The account of a thread.
pub(crate) struct Done {
    pub(crate) tally: Tally,
    /// The values that its answers gave.
    pub(crate) found: Found,
    /// Its connections, open or not.
    pub(crate) connections: Vec<Connection>,
    /// In all sections of the load, and in each.
    pub(crate) usages: (Usage, Vec<Usage>),
    pub(crate) stalls: Stalls,
    /// When the load was ended from outside.
    pub(crate) stopped: Option<Nanos>,
    /// Open loop: when the first request is due that is not of the load any more.
    pub(crate) scheduled: Option<Nanos>,
}

/// How many connections are opened at most before the loop looks at those that are open.
const MOST_OPENED: usize = 16;

/// How many requests are given up at most before the loop goes on.
const MOST_GIVEN_UP: usize = 4_096;

/// One thread's loop.
pub(crate) struct EventLoop<'a> {
    job: Job<'a>,
    counts: Option<&'a Counts>,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// Connections without a request; the one that had one last is used first.
    free: Vec<u32>,
    waiting: Waiting,
    thinking: Thinking,
    pace: Pace,
    source: Source<'a>,
    tally: Tally,
    found: Found,
    buffer: Vec<u8>,
    progress: Progress,
    next_scan: Nanos,
    /// Connections that this turn of the loop has opened.
    opened: usize,
    watch: Watch,
    stopped: Option<Nanos>,
}

impl<'a> EventLoop<'a> {
    /// A loop of `job` over the requests of `pace` and `source`, with an account whose warm-up ended at zero.
    pub(crate) fn new(job: Job<'a>, pace: Pace, (source, tally): (Source<'a>, Tally)) -> Result<Self, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|errno| Error::Setup { doing: "create an epoll instance", source: errno.into() })?;
        let processors = &job.load.asked().processors;
        if !processors.is_empty() {
            let unconfined = |source| Error::Setup { doing: "confine a thread to its processors", source };
            let mut set = CpuSet::new();
            let numbers = processors.iter().map(|number| *number as usize);
            numbers.filter(|number| *number < CpuSet::MAX_CPU).for_each(|number| set.set(number));
            sched_setaffinity(None, &set).map_err(|errno| unconfined(errno.into()))?;
        }
        // Otherwise the kernel wakes a thread up to 50 us late, to combine timers. A kernel that refuses costs precision
        // that the lag shows.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Ok(Self {
            counts: job.control.of_thread(job.index),
            epoll,
            connections: (0..job.connections).map(|_| Connection::default()).collect(),
            free: (0..job.connections).rev().collect(),
            waiting: Waiting::default(),
            thinking: Thinking::new(job.load.asked().think, job.load.asked().seed, job.index),
            source,
            tally: tally.later(pace.warm_up_end()),
            found: Found::default(),
            watch: Watch::new(pace.begin(), pace.warm_up_end(), thread_cpu()),
            pace,
            buffer: vec![0; BUFFER],
            progress: Progress::default(),
            next_scan: Nanos::ZERO,
            opened: 0,
            stopped: None,
            job,
        })
    }

    /// Runs until each request has ended.
    pub(crate) fn run(mut self) -> Result<Done, Error> {
        let mut events = Vec::with_capacity(MOST_EVENTS);
        let mut meter = Meter::new(self.job.load.section_begins(self.pace.warm_up_end()));
        if self.thinking.is_on() {
            // They do not all begin at once.
            std::mem::take(&mut self.free).into_iter().for_each(|slot| self.thinking.rest(slot, self.pace.begin()));
        }
        self.woke(self.pace.begin());
        loop {
            let now = monotonic();
            meter.at(now, Clocks::read);
            self.obey(now);
            self.opened = 0;
            self.dispatch(now);
            self.scan(now);
            self.publish();
            let more = self.pace.next(now).is_some();
            if !more {
                meter.end(Clocks::read);
            }
            if !more && self.progress.running == 0 {
                break;
            }
            // In a closed loop answers may be there already: a request is made when it starts.
            let now = if more && self.job.load.is_open() { self.make(monotonic(), None) } else { now };
            let due = self.wait(now, &mut events)?;
            self.woke(due);
            for event in events.drain(..) {
                self.proceed(event);
            }
        }
        self.tally.close(self.pace.end());
        Ok(Done {
            tally: self.tally,
            found: self.found,
            connections: self.connections,
            usages: meter.usages(),
            stalls: self.watch.stalls(),
            stopped: self.stopped,
            scheduled: self.pace.scheduled(),
        })
    }

    /// Ends the load where it was asked for.
    fn obey(&mut self, now: Nanos) {
        if self.stopped.is_none() && self.job.control.is_stopped() {
            self.stopped = Some(now);
            self.pace.stop(now);
            while let Some((slot, ended)) = self.waiting.next(None) {
                self.conclude(slot, ended, (now, now));
            }
        }
    }

    /// Starts requests that are due, as long as there are connections for them.
    #[inline]
    fn dispatch(&mut self, mut now: Nanos) {
        while let Some((slot, ended)) = self.waiting.next(Some(now)) {
            self.repeat(slot, &ended, now);
        }
        while let Some(slot) = self.thinking.next(now) {
            self.free.push(slot);
        }
        // A server that refuses connections at once frees them at once, so that this could go on without end.
        for _ in 0..self.connections.len() {
            self.give_up(now);
            if self.pace.next(now).is_none_or(|next| next > now) {
                return;
            }
            let Some(slot) =
                self.free.pop_if(|slot| self.opened < MOST_OPENED || self.connections[*slot as usize].is_open())
            else {
                return;
            };
            let next = self.connections[slot as usize].session.next.map(|at| at.request);
            if next.is_none() && !self.pace.may_begin() {
                // The last sessions are those of other connections.
                continue;
            }
            // In a closed loop the request starts when it was made; in an open one that is late, which counts.
            now = self.make(now, Some(slot));
            let Some(request) = self.pace.take(now, next) else {
                self.free.push(slot);
                return;
            };
            self.progress.running += 1;
            self.tally.taken(&request);
            let wire = wire(&self.job, &self.epoll);
            let connection = &mut self.connections[slot as usize];
            let ended = connection.begin(wire, slot, (request, &mut self.source), &mut self.buffer);
            let opens = connection.is_opening();
            self.account(slot, ended);
            if opens {
                // To open one takes tens of microseconds, which are no time of the server's: neither of the next request nor
                // of the connections that are open meanwhile.
                now = monotonic();
                self.opened += 1;
            }
        }
    }

    /// Makes the next request, of the session of a connection where one is given, if it was not made before; the time then.
    #[inline]
    fn make(&mut self, now: Nanos, slot: Option<u32>) -> Nanos {
        let of_none = Session::default();
        let session = slot.map_or(&of_none, |slot| &self.connections[slot as usize].session);
        if !self.source.prepare(session) {
            return now;
        }
        let then = monotonic();
        self.delayed(0, now, then);
        then
    }

    /// Accounts for a time in which requests were made or answers read: those that more than `most` other requests may have got
    /// are read later, and in a closed loop the next request starts later.
    #[inline]
    fn delayed(&mut self, most: u64, from: Nanos, to: Nanos) {
        // Of the time between the warm-up and the last start, of which the CPU time is counted too.
        let counts = from >= self.pace.warm_up_end() && self.pace.next(from).is_some();
        if counts && (self.progress.running > most || !self.job.load.is_open()) {
            self.tally.making += to.since(from);
        }
    }

    /// Gives up requests that could not be started in time.
    #[inline]
    fn give_up(&mut self, now: Nanos) {
        // Not without end: a rate that no generator reaches must leave time to see that the load is to stop.
        for _ in 0..MOST_GIVEN_UP {
            if self.pace.next(now).is_none_or(|next| self.deadline(next) > now) {
                return;
            }
            let Some(request) = self.pace.take(now, None) else { return };
            self.source.skip();
            self.tally.given_up(1, &request, self.free.is_empty(), now);
            self.progress.failed += 1;
        }
        self.give_up_rest(now);
    }

    /// Gives up the rest of the schedule, if none of it can start any more, without a look at each request: at a rate that no generator
    /// reaches that would take minutes.
    #[cold]
    fn give_up_rest(&mut self, now: Nanos) {
        let end = self.pace.end();
        if self.deadline(end) > now {
            return;
        }
        for until in self.tally.bounds().into_iter().chain([end]) {
            let Some((request, count)) = self.pace.leave_out(until.min(end), now) else { continue };
            for (kind, count) in self.pace.divide(count) {
                self.tally.given_up(count, &Request { kind, ..request }, self.free.is_empty(), now);
            }
            self.progress.failed += count;
        }
    }

    /// When an attempt ends at the latest whose timeout counts from an instant.
    fn deadline(&self, since: Nanos) -> Nanos {
        let deadline = since + self.job.load.timeout();
        self.stopped.map_or(deadline, |stopped| deadline.min(stopped + GRACE))
    }

    /// Ends requests whose time is over. An answer that comes after its deadline and before this is found out counts as
    /// late in [`EventLoop::account`].
    fn scan(&mut self, now: Nanos) {
        if now < self.next_scan {
            return;
        }
        let step = Nanos::from_nanos(self.job.load.timeout().as_nanos() / 64).max(Nanos::from_millis(1));
        self.next_scan = now + step.min(LONGEST_BETWEEN_SCANS);
        for slot in 0..self.connections.len() {
            let connection = &self.connections[slot];
            if connection.has_request() && self.deadline(connection.since) <= now {
                self.account(slot as u32, Some(self.late(connection.since, now)));
            }
        }
    }

    /// What an attempt ends in whose time is over.
    fn late(&self, since: Nanos, now: Nanos) -> End {
        let is_timeout = since + self.job.load.timeout() <= now;
        End::Failed(if is_timeout { Failure::Timeout } else { Failure::Unfinished }, String::new())
    }

    /// The thread runs again after a wait that was to end at an instant.
    fn woke(&mut self, due: Nanos) {
        let now = monotonic();
        let had_work = self.progress.running > 0 || self.pace.next(now).is_some_and(|next| next <= now);
        self.watch.woke(due, now, had_work);
    }

    /// Waits for events of sockets, until the next request is due or something else is to be done; when it was to end at the latest.
    fn wait(&mut self, now: Nanos, events: &mut Vec<epoll::Event>) -> Result<Nanos, Error> {
        let mut until = self.next_scan.min(now + TICK);
        let mut is_start = false;
        if let Some(next) = self.waiting.due() {
            (is_start, until) = (next <= until, until.min(next));
        }
        if let Some(next) = self.thinking.due() {
            (is_start, until) = (is_start || next <= until, until.min(next));
        }
        if let Some(next) = self.pace.next(now) {
            is_start |= !self.free.is_empty() && next <= until;
            until = until.min(if self.free.is_empty() { self.deadline(next) } else { next });
        }
        let left = until.since(now);
        // In a closed loop requests were started since.
        let begin = monotonic();
        self.watch.waits(begin, thread_cpu);
        let due = begin + left;
        if is_start && left > Nanos::ZERO {
            // epoll's own timeout is in milliseconds before Linux 5.11: most starts would be late by half of one.
            let mut epoll = [PollFd::new(&self.epoll, PollFlags::IN)];
            match poll(&mut epoll, Some(&timespec(left))) {
                Ok(0) | Err(Errno::INTR) => return Ok(due),
                ready => ready.map_err(unwaited)?,
            };
        }
        let left = if is_start { Nanos::ZERO } else { left };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timespec(left))) {
            Ok(_) | Err(Errno::INTR) => Ok(due),
            Err(errno) => Err(unwaited(errno)),
        }
    }

    /// Goes on with the connection of an event.
    #[inline]
    fn proceed(&mut self, event: epoll::Event) {
        let data = event.data.u64();
        let (slot, generation) = (data as u32, (data >> 32) as u32);
        let connection = &mut self.connections[slot as usize];
        // An event of a socket that was closed since.
        if connection.generation() != generation {
            return;
        }
        let wire = wire(&self.job, &self.epoll);
        let ended = connection.proceed(wire, slot, event.flags, &mut self.buffer);
        if let Some(now) = self.account(slot, ended) {
            self.dispatch(now);
        }
    }

    /// Begins another attempt of the request of a connection.
    fn repeat(&mut self, slot: u32, ended: &Ended, now: Nanos) {
        let wire = wire(&self.job, &self.epoll);
        let connection = &mut self.connections[slot as usize];
        let end = match ended.end {
            End::Answered(status) => Ok(status),
            End::Failed(failure, _) => Err(failure),
        };
        self.tally.repeated(&connection.request, &ended.exchange, end);
        let ended = connection.again(wire, slot, (now, &mut self.source), &mut self.buffer);
        self.account(slot, ended);
    }

    /// Accounts for the attempt of a connection, if it has ended. If that ends its request, the connection is free; when that was.
    fn account(&mut self, slot: u32, ended: Option<End>) -> Option<Nanos> {
        let mut ended = ended?;
        let wire = wire(&self.job, &self.epoll);
        let connection = &mut self.connections[slot as usize];
        let request = connection.request;
        let exchange = Exchange {
            about: connection.outgoing.about,
            sent: connection.outgoing.sent(),
            received: connection.received,
            bodies: connection.outgoing.sent_of_body() + connection.answer.length(),
            first_byte: connection.first_byte,
            opened_in: connection.opened_in,
            is_opening: connection.is_opening(),
            was_sent: connection.was_sent,
            is_cut: matches!(ended, End::Answered(_)) && connection.is_cut(wire),
        };
        let now = monotonic();
        connection.finish(matches!(ended, End::Answered(_)), now);
        let (since, attempts) = (connection.since, connection.attempts);
        if self.deadline(since) <= now {
            ended = self.late(since, now);
        }
        if let Some(retry) =
            self.job.load.asked().retry.as_ref().filter(|retry| retry::repeats(retry, &ended, attempts))
            && self.stopped.is_none()
        {
            self.waiting.add(now + retry.wait, slot, Ended { exchange, end: ended });
            return None;
        }
        // The next request starts when the answer was read: the time that takes is no latency of it.
        let mut free_at = now;
        if let End::Answered(status) = ended
            && exchange.about.wanted.is_any()
            && self.job.load.expects(&request, status)
        {
            let read = self.read(slot, now);
            free_at = monotonic();
            self.delayed(1, now, free_at);
            if let Err((failure, why)) = read {
                self.tally.answered_in_vain(&request, status);
                ended = End::Failed(failure, why);
            }
        }
        self.conclude(slot, Ended { exchange, end: ended }, (now, free_at));
        Some(free_at)
    }

    /// Accounts for the request of a connection by what its last attempt ended in, and when; the connection is free a little later.
    fn conclude(&mut self, slot: u32, Ended { exchange, end }: Ended, (now, free_at): (Nanos, Nanos)) {
        let request = self.connections[slot as usize].request;
        let is_ok = matches!(end, End::Answered(status) if self.job.load.expects(&request, status));
        self.record(&request, &exchange, end, now);
        // Connections that think do not begin together.
        let is_counted = self.job.load.is_closed_for_a_time() && !self.thinking.is_on();
        if is_counted && is_ok && !std::mem::replace(&mut self.connections[slot as usize].has_answered, true) {
            self.tally.first_answered(self.connections.len(), now);
        }
        self.progress.running -= 1;
        self.go_on(slot, &request, is_ok, free_at);
        if self.thinking.is_on() {
            self.thinking.rest(slot, free_at);
        } else {
            if self.free.is_empty() {
                self.tally.was_full(free_at);
            }
            self.free.push(slot);
        }
    }

    /// Goes on with the session of a connection after one of its requests. Where that failed, the others are not sent.
    fn go_on(&mut self, slot: u32, request: &Request, is_ok: bool, now: Nanos) {
        let of_session = self.job.load.content().kinds.session();
        if of_session == 1 {
            return;
        }
        let nth = request.number % of_session;
        let Connection { session, outgoing, .. } = &mut self.connections[slot as usize];
        session.next = None;
        if nth + 1 == of_session {
            return;
        }
        if is_ok {
            session.next = Some(At { request: request.number + 1, place: outgoing.about.place });
            return;
        }
        for number in (request.number + 1..).take((of_session - nth - 1) as usize) {
            let Some(request) = self.pace.take(now, Some(number)) else { return };
            self.tally.ended(&request, now);
            self.tally.failed(&request, &Exchange::default(), Failure::NotSent, String::new());
            self.progress.failed += 1;
        }
    }

    /// Reads what is wanted of an expected answer, and saves what later requests use, or says why that cannot be.
    fn read(&mut self, slot: u32, now: Nanos) -> Result<(), (Failure, String)> {
        let load = self.job.load;
        let Connection { request, outgoing, answer, session, .. } = &mut self.connections[slot as usize];
        let kinds = &load.content().kinds;
        let (Kind { answer_check, captures, .. }, of_session) = (kinds.kind(request.number), kinds.session());
        let read = answer_check.as_ref().map(|check| check.read(request.number, &answer.extract));
        let read = read.transpose().map_err(|why| (Failure::Wrong, why))?;
        let values = find_all(captures, &answer.extract).map_err(|why| (Failure::NotSaved, why))?;
        if !self.found.has_room(&values, load.asked().threads) {
            return Err((Failure::NotSaved, "the values of earlier answers take all of 1 GiB".to_owned()));
        }
        let numbers = (request.number, outgoing.about.number);
        for (capture, value) in captures.iter().zip(values) {
            if of_session > 1 {
                session.save(capture.of_session, &value, &capture.server);
            }
            self.found.add(&capture.name, capture.each, numbers, now, value);
        }
        if let Some(read) = read {
            self.tally.read(request, read);
        }
        Ok(())
    }

    fn record(&mut self, request: &Request, exchange: &Exchange, ended: End, now: Nanos) {
        self.tally.ended(request, now);
        match ended {
            End::Answered(status) => {
                let is_expected = self.job.load.expects(request, status);
                self.tally.answered(
                    request,
                    exchange,
                    status,
                    is_expected,
                    (now, (self.pace.warm_up_end(), self.pace.end())),
                );
                self.progress.ok += u64::from(is_expected);
                self.progress.failed += u64::from(!is_expected);
            }
            End::Failed(failure, cause) => {
                if failure == Failure::Timeout && self.job.load.asked().until_timeout {
                    self.pace.stop(now);
                }
                self.tally.failed(request, exchange, failure, cause);
                self.progress.failed += 1;
            }
        }
    }

    fn publish(&self) {
        if let Some(counts) = self.counts {
            counts.publish(self.progress);
        }
    }
}

fn wire<'a>(job: &Job<'a>, epoll: &'a OwnedFd) -> Wire<'a> {
    let load = job.load;
    Wire {
        same: load.content().kinds.same().and_then(Template::same),
        address: job.destination.address(),
        tls: job.tls,
        epoll: epoll.as_fd(),
    }
}

fn timespec(time: Nanos) -> Timespec {
    let nanos = time.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

fn unwaited(errno: Errno) -> Error {
    Error::Setup { doing: "wait for events of sockets", source: errno.into() }
}
