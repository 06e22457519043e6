//! One client thread: prepares chunks of operations while the clock is stopped, and evaluates them between timed
//! sections.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use prony_model::spec::PauseEvery;
use prony_model::throughput::Series;
use prony_model::units::Nanos;
use prony_workload::{Distinct, Schedule};

use super::chunk::{Chunk, Label, MOST_OPERATIONS};
use super::record_set::RecordSet;
use super::sampling::Sampler;
use super::shared::Shared;
use super::source::Source;
use super::timestamps::Samples;
use super::undoing::Undoing;
use crate::timed_loop::{Feed, Op, now, thread_cpu};

/// Chunks grow while they take less than half of this, and shrink while they take more: slow operations must show in
/// the series of throughput, and a duration must end near its end.
const CHUNK_TIME: u64 = 10_000_000;

/// Operations of the first chunk.
const FIRST_CHUNK: usize = 64;

/// Of queries, each of which may take seconds, of a queue, which other clients wait for, and of a duration, at whose end one scan of
/// the whole store may still run, but not 64.
const FIRST_FEW: usize = 1;

/// As [`CHUNK_TIME`], of a background: its last chunk may end so much after the phase.
const BACKGROUND_CHUNK_TIME: u64 = 1_000_000;

/// How often a background that waits, for its next start or for a pause, checks whether the phase has ended.
const POLL: Duration = Duration::from_millis(1);

/// How far ahead of its schedule an open loop prepares operations.
const AHEAD: u64 = 1_000_000;

/// The sections of a client's time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sections {
    pub(super) time: u64,
    pub(super) gap: u64,
    pub(super) gap_cpu: u64,
    began: u64,
    started: u64,
    /// When the client went on after the last gap; later than `started` by its wait for a processor.
    resumed: u64,
}

/// So many starts that are skipped are drawn one by one while the clock runs, which takes about a millisecond. Of the rest, with
/// random gaps as many are counted as are due on average.
const MOST_DRAWN: u64 = 100_000;

/// The operations of an open loop, in the order of their intended starts.
struct Pace {
    schedule: Schedule,
    /// Intended start of the next operation, as an offset from the begin.
    next: u64,
}

impl Pace {
    fn new(mut schedule: Schedule) -> Self {
        let next = schedule.next().as_nanos();
        Self { schedule, next }
    }

    fn take(&mut self) -> u64 {
        std::mem::replace(&mut self.next, self.schedule.next().as_nanos())
    }
}

struct Pauses {
    spec: PauseEvery,
    /// Operations until the next pause.
    left: u64,
    /// A pause comes before the operations just prepared.
    due: bool,
}

/// How a client is driven.
pub(super) struct Rules {
    pub(super) pause: Option<PauseEvery>,
    pub(super) schedule: Option<Schedule>,
    /// Offset from the begin at which no further operation starts.
    pub(super) duration: Option<u64>,
    /// Distinct records are counted, unless the order gives their number: it takes a cache line an operation.
    pub(super) counts_distinct: bool,
    /// There are further clients.
    pub(super) of_several: bool,
    /// They end when the phase does.
    pub(super) is_background: bool,
}

/// One client of a phase.
pub(super) struct Client<'a> {
    pub(super) source: Source<'a>,
    chunk: Chunk,
    next: usize,
    limit: usize,
    pace: Option<Pace>,
    intended: Vec<u64>,
    pauses: Option<Pauses>,
    duration: Option<u64>,
    done: bool,
    of_several: bool,
    is_background: bool,
    shared: &'a Shared<'a>,
    pub(super) sections: Sections,
    pub(super) samples: Samples,
    pub(super) distinct: Option<Distinct>,
    pub(super) series: Series,
    pub(super) stored: u64,
    pub(super) skipped: u64,
    /// Where references are checked: the records of which an operation was not refused.
    pub(super) admitted: Option<RecordSet>,
    pub(super) undoing: Undoing,
}

impl<'a> Client<'a> {
    /// A client whose first chunk is ready.
    pub(super) fn new(source: Source<'a>, rules: Rules, series: Series, shared: &'a Shared<'a>) -> Self {
        let mut client = Self {
            limit: if source.is_queries() || source.is_queued() || rules.is_background || rules.duration.is_some() {
                FIRST_FEW
            } else {
                FIRST_CHUNK
            },
            chunk: source.chunk(),
            admitted: source.admitted(),
            source,
            next: 0,
            pace: rules.schedule.map(Pace::new),
            intended: Vec::new(),
            pauses: rules.pause.map(|spec| Pauses { spec, left: spec.every.max(1), due: false }),
            duration: rules.duration,
            done: false,
            of_several: rules.of_several,
            is_background: rules.is_background,
            shared,
            sections: Sections::default(),
            samples: Samples::default(),
            distinct: rules.counts_distinct.then(Distinct::new),
            series,
            stored: 0,
            skipped: 0,
            undoing: Undoing::default(),
        };
        client.prepare(0);
        client
    }

    /// Starts the clock. The schedule of an open loop starts when the clients are released: a start that was due before this one's
    /// thread ran is late, and not later.
    pub(super) fn begin<T: Sampler>(&mut self, timing: &mut T) {
        let at = now();
        let origin = self.pace.as_ref().map_or(at, |_| at.min(self.shared.released.load(Relaxed)));
        let started = at + (self.enter(origin) - origin);
        let began = if self.pace.is_some() { origin } else { started };
        self.sections = Sections { began, started, resumed: started, ..Sections::default() };
        self.schedule(timing);
        timing.begin(started);
    }

    /// A timed section begins at `at`; returns its begin, which excludes the wait for the lock that clients share.
    fn enter(&self, at: u64) -> u64 {
        if !self.of_several {
            return at;
        }
        let asked = now();
        self.shared.enter(at);
        at + (now() - asked)
    }

    /// Stops the clock for good. An open loop that is bounded by time lasts that time: without the interval after its last start,
    /// its rate would be higher than that of its schedule.
    pub(super) fn finish<T: Sampler>(&mut self, timing: &mut T) {
        let stopped = now();
        self.stop(timing, stopped);
        timing.finish(&mut self.samples);
        self.chunk = Chunk::default();
        let is_open = self.pace.is_some() && self.done && self.shared.stopped().is_none();
        if let Some(duration) = self.duration.filter(|_| is_open) {
            self.sleep_until(self.sections.began + duration);
            self.sections.time = self.sections.time.max(duration);
        }
    }

    /// Adds what another client has counted.
    pub(super) fn merge(&mut self, other: Self) {
        // Time and gap are of all clients together (`Busy`); CPU adds up.
        self.sections.gap_cpu += other.sections.gap_cpu;
        self.samples.merge(other.samples);
        if let (Some(mine), Some(theirs)) = (&mut self.distinct, &other.distinct) {
            mine.merge(theirs);
        }
        self.series.merge(other.series);
        self.stored += other.stored;
        self.skipped += other.skipped;
        if let (Some(mine), Some(theirs)) = (&mut self.admitted, &other.admitted) {
            mine.merge(theirs);
        }
    }

    fn schedule<T: Sampler>(&mut self, timing: &mut T) {
        if self.pace.is_some() {
            let began = self.sections.began;
            self.intended.iter_mut().for_each(|offset| *offset += began);
            timing.schedule(&self.intended);
        }
    }

    /// Ends the timed section and evaluates it.
    fn stop<T: Sampler>(&mut self, timing: &mut T, stopped: u64) {
        timing.end(stopped);
        if self.of_several {
            self.shared.leave(stopped);
        }
        let Sections { began, started, resumed, .. } = self.sections;
        // The schedule of an open loop continues while a chunk is prepared.
        self.sections.time =
            if self.pace.is_some() { stopped - began } else { self.sections.time + (stopped - started) };
        let ran = self.next as u64;
        // Also if no operation ran: the last commit may have had a section of its own.
        timing.collect(&self.chunk, &mut self.samples);
        let closed = self.undoing.close(&self.chunk, self.next, &mut self.series, &mut self.stored);
        if let Some(admitted) = &mut self.admitted {
            self.chunk.admitted(self.next).for_each(|number| admitted.add(number));
        }
        if ran > 0 {
            let span = (started - began, stopped - began);
            self.series.add(span.0, span.1, ran - closed.lost.operations);
            self.stored += self.chunk.bytes_to_store(0..self.next) - closed.lost.bytes;
            self.undoing.add(closed.open, span, self.series.interval());
            self.shared.operations.fetch_add(ran, Relaxed);
            self.adapt(stopped.saturating_sub(resumed));
        }
        self.chunk.clear();
        self.next = 0;
    }

    fn adapt(&mut self, took: u64) {
        let chunk_time = if self.is_background { BACKGROUND_CHUNK_TIME } else { CHUNK_TIME };
        if took > chunk_time {
            self.limit = (self.limit / 2).max(1);
        } else if took < chunk_time / 2 {
            self.limit = (self.limit * 2).min(MOST_OPERATIONS);
        }
    }

    /// Fills the chunk; whether there is anything in it.
    fn prepare(&mut self, offset: u64) -> bool {
        self.intended.clear();
        if self.duration.is_some_and(|end| offset >= end) || self.shared.stopped().is_some() {
            self.skip_rest();
            return false;
        }
        if let Some(pauses) = self.pauses.as_mut().filter(|pauses| pauses.left == 0) {
            (pauses.left, pauses.due) = (pauses.spec.every.max(1), true);
        }
        let most = self.pauses.as_ref().map_or(self.limit, |p| self.limit.min(p.left.try_into().unwrap_or(usize::MAX)));
        while self.chunk.len() < most && !self.chunk.is_full() && !self.source.is_done() && self.admits(offset) {
            let number = self.source.lay_next(&mut self.chunk);
            if let Some(distinct) = &mut self.distinct {
                distinct.add(number);
            }
        }
        if let Some(pauses) = &mut self.pauses {
            pauses.left -= self.chunk.len() as u64;
        }
        self.chunk.len() > 0
    }

    /// In the open loop of a background: sleeps until the next start is near or the phase has ended.
    fn await_next_start(&self) {
        if let Some(pace) = self.pace.as_ref().filter(|_| self.is_background) {
            self.sleep_until(self.sections.began + pace.next.saturating_sub(AHEAD));
        }
    }

    /// Sleeps until an instant of the monotonic clock; in a background no longer than the phase lasts.
    fn sleep_until(&self, instant: u64) {
        loop {
            let left = Duration::from_nanos(instant.saturating_sub(now()));
            if left.is_zero() || (self.is_background && self.shared.stopped().is_some()) {
                return;
            }
            std::thread::sleep(if self.is_background { POLL.min(left) } else { left });
        }
    }

    /// In an open loop: takes the next start of the schedule, if it is close enough and before the end. A background does not
    /// begin to wait for one that is not near, as the phase may end before.
    fn admits(&mut self, offset: u64) -> bool {
        let Some(pace) = &mut self.pace else { return true };
        let first = self.intended.first().copied().or(self.is_background.then_some(offset));
        let near = first.is_none_or(|first| pace.next <= first.max(offset) + AHEAD);
        let due = self.duration.is_none_or(|end| pace.next < end);
        if near && due {
            self.intended.push(pace.take());
        }
        near && due
    }

    /// Counts the operations that were due but will not be started, once.
    fn skip_rest(&mut self) {
        let stopped = self.shared.stopped().filter(|_| self.is_background);
        let end = self.duration.or(stopped.map(|at| at.saturating_sub(self.sections.began)));
        let (Some(pace), Some(end)) = (&mut self.pace, end) else { return };
        let mut skipped = 0;
        while pace.next < end && skipped < MOST_DRAWN {
            pace.take();
            skipped += 1;
        }
        if pace.next < end {
            skipped += 1 + pace.schedule.leave_out(Nanos::from_nanos(end));
            pace.take();
        }
        self.skipped += skipped;
        let label = self.source.label().unwrap_or(Label::NotStarted);
        self.samples.not_started(label, skipped);
    }

    /// A declared pause, inside the timed section.
    fn rest(&self) {
        match &self.pauses {
            Some(pauses) if pauses.spec.time.as_nanos() == 0 => std::thread::yield_now(),
            Some(pauses) => self.sleep_until(now() + pauses.spec.time.as_nanos()),
            None => (),
        }
    }

    /// From one timed section to the next; whether there is a next operation.
    fn turn<T: Sampler>(&mut self, timing: &mut T) -> bool {
        let stopped = now();
        let cpu = thread_cpu();
        self.stop(timing, stopped);
        self.await_next_start();
        let any = self.prepare(now().saturating_sub(self.sections.began));
        self.schedule(timing);
        let used = thread_cpu().saturating_sub(cpu);
        self.sections.gap_cpu += used;
        let resumed = now();
        let started = self.enter(self.ready(stopped + used, resumed));
        self.sections.gap += started - stopped;
        (self.sections.started, self.sections.resumed) = (started, resumed);
        let pause = self.pauses.as_mut().is_some_and(|pauses| std::mem::take(&mut pauses.due));
        if any && pause {
            self.rest();
            timing.begin(now());
        } else {
            timing.begin(started);
        }
        any
    }

    /// When the next timed section begins, of a client that resumed at this instant: as soon as the preparation has had its CPU
    /// time. The kernel takes the processor from a client mostly at the end of a system call, and the only ones of a closed loop may
    /// be those that read this time: the wait is that of the operations. The wait for a document file is not.
    fn ready(&self, prepared: u64, resumed: u64) -> u64 {
        if self.pace.is_some() || self.source.reads_a_file() { resumed } else { resumed.min(prepared) }
    }
}

impl<T: Sampler> Feed<T> for Client<'_> {
    #[inline(always)]
    fn more(&mut self, timing: &mut T) -> bool {
        if self.next < self.chunk.len() {
            return true;
        }
        // Where the end is known the clock continues: what remains to be timed is the commit.
        if self.done || self.source.is_done() {
            return false;
        }
        self.done = !self.turn(timing);
        !self.done
    }

    #[inline(always)]
    fn take(&mut self, at_most: u64) -> Range<usize> {
        let rest = self.chunk.len() - self.next;
        let count = usize::try_from(at_most).map_or(rest, |most| rest.min(most));
        let from = self.next;
        self.next += count;
        from..self.next
    }

    #[inline(always)]
    fn at(&self) -> usize {
        self.next
    }

    #[inline(always)]
    fn rewind(&mut self, to: usize) {
        self.next = to;
    }

    #[inline(always)]
    fn op(&self, index: usize) -> Op<'_> {
        self.chunk.op(index)
    }

    #[inline(always)]
    fn open(&mut self) -> usize {
        self.undoing.open(self.next)
    }

    #[cold]
    fn failed(&mut self, index: usize) {
        self.undoing.failed(index);
    }

    #[cold]
    fn undone(&mut self) {
        self.undoing.undone(self.next);
    }
}
