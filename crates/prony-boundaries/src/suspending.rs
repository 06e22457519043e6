//! Suspends threads of a program at the end of a function call: which commands they get, and when.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use prony_model::program::{AtEndSpec, Weak};
use prony_model::record::probe::SuspensionReport;
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::settle::{Probe, SettleResult, Watch};
use prony_runtime::{Because, Occasion, ProbeEvent, ProbeLine, Source, SuspendedThread, SuspensionCommand};

use crate::suspensions::Suspensions;

/// The program is suspended at most so often at the ends of one phase's function; later calls are not suspended.
pub const MOST_SUSPENSIONS: usize = 100;

/// Why memory of a phase was not read where a call that ends another phase returned before the collection.
const OVERTAKEN: &str = "a call that ends another phase returned later in the same turn of the event loop, and \
                         memory is read only after the last such call";

/// One suspension of one thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Suspension {
    /// Index of the phase.
    pub phase: usize,
    /// The suspended thread.
    pub source: Source,
    /// When the invocation ended: time from here on is not counted.
    pub from: Nanos,
    /// When it stopped.
    pub stopped: Nanos,
    /// When its memory was read.
    pub read: Option<Nanos>,
    /// When it continued; `None` where it never did.
    pub until: Option<Nanos>,
    /// Index of the snapshot at the invocation's end.
    pub end: usize,
    /// Index of the snapshot at its begin: that at the invocation's end, except for a later begin.
    pub snapshot: usize,
    /// Index of the snapshot after the requested actions.
    pub after_actions: Option<usize>,
    /// It ends no phase, and was released at once: its function ends a phase elsewhere.
    pub passed: bool,
    /// The thread continued, to be collected at the next turn of its event loop.
    pub put_off: bool,
    /// How long it had continued by then, where this is that turn.
    pub late: Option<Nanos>,
    /// How long the forced garbage collection took, if one was requested.
    pub collected: Option<Nanos>,
    settled: Option<SettleResult>,
    because: Option<Because>,
    fault: Option<String>,
}

impl Suspension {
    /// It begins.
    pub fn new(phase: usize, source: Source, from: Nanos, stopped: Nanos, snapshot: usize) -> Self {
        Self { phase, source, from, stopped, end: snapshot, snapshot, ..Self::default() }
    }

    /// Why its memory was not read; `None` where it was.
    pub fn unread(&self) -> Option<String> {
        let ended = || self.because.map_or("the program ended before memory was read", Because::meaning).to_owned();
        self.read.is_none().then(|| self.fault.clone().unwrap_or_else(ended))
    }

    /// For the record.
    pub fn report(&self, phase: &str) -> SuspensionReport {
        SuspensionReport {
            phase: phase.to_owned(),
            pid: self.source.pid,
            thread: self.source.thread,
            from: self.from,
            suspended: self.until.map(|until| until.since(self.from)),
            late: self.late,
            collected: self.collected,
            settled: self.settled.clone(),
            passed: self.passed,
            went_on: self.because,
            fault: self.fault.clone(),
        }
    }
}

/// What a suspended thread is waiting for.
enum Step {
    Collecting,
    Waiting(Instant),
    Settling(Box<Watch>, Instant),
    Reading,
    Leaving,
}

struct Active {
    index: usize,
    thread: SuspendedThread,
    plan: AtEndSpec,
    stop: bool,
    step: Step,
    /// Its process had ended at the last check.
    vanished: bool,
}

/// All suspensions of a trial.
pub struct SuspensionControl {
    dir: PathBuf,
    active: BTreeMap<Source, Active>,
    /// Suspensions after which a collection is still to come, by their index, and what is to be done then.
    put_off: BTreeMap<Source, (usize, AtEndSpec, bool)>,
    /// Suspensions, past and present.
    pub all: Vec<Suspension>,
    /// The times of past suspensions.
    over: Suspensions,
}

impl SuspensionControl {
    /// Threads wait in `dir`.
    pub(crate) fn new(dir: PathBuf) -> Self {
        let (active, put_off) = (BTreeMap::new(), BTreeMap::new());
        Self { dir, active, put_off, all: Vec::new(), over: Suspensions::default() }
    }

    /// An instant by a clock that stops while any thread is suspended, as far as suspensions are known by then.
    pub(crate) fn running(&self, at: Nanos) -> Nanos {
        let since = self.active.values().map(|active| self.all[active.index].from).min();
        self.over.running(since.map_or(at, |since| since.min(at)))
    }

    /// A suspension has ended.
    fn count(&mut self) {
        let over = self.all.iter().filter_map(|suspension| Some((suspension.from, suspension.until?)));
        self.over = Suspensions::new(over.collect());
    }

    /// Whether any thread is suspended.
    pub(crate) fn any(&self) -> bool {
        !self.active.is_empty()
    }

    /// When an action is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        let due = |active: &Active| match &active.step {
            Step::Waiting(until) => Some(*until),
            Step::Settling(_, next) => Some(*next),
            _ => None,
        };
        self.active.values().filter_map(due).min()
    }

    /// A thread is suspended: it gets an answer and its first command, by the experiment's `plan` for the end of an invocation, and by
    /// whether the program is to `stop` there.
    pub(crate) fn begin(
        &mut self,
        number: u64,
        suspension: Suspension,
        (plan, stop): (AtEndSpec, bool),
        probe: &mut impl Probe,
    ) {
        let source = suspension.source;
        if self.answer(number, suspension, plan, stop) {
            self.collect(source, probe);
        }
    }

    /// A thread is suspended at the turn of its event loop to which a collection was put off; `snapshot` was read just
    /// now. What it did since the invocation's end belongs to no suspension.
    pub(crate) fn again(&mut self, line: &ProbeLine, number: u64, snapshot: usize, probe: &mut impl Probe) {
        let Some((before, plan, stop)) = self.put_off.remove(&line.source) else { return };
        let before = &mut self.all[before];
        before.fault = None;
        let late = line.at.since(before.until.unwrap_or(before.from));
        let suspension = Suspension::new(before.phase, line.source, line.at, before.stopped, snapshot);
        let suspension = Suspension { end: before.end, late: Some(late), ..suspension };
        self.begin(number, suspension, (AtEndSpec { weak: Weak::Clear, ..plan }, stop), probe);
    }

    /// A thread is suspended at the end of an invocation that ends no phase: it is released at once, to be suspended
    /// there `again` or not. `snapshot` is the last one.
    pub(crate) fn pass(&mut self, line: &ProbeLine, number: u64, phase: usize, snapshot: usize, again: bool) {
        let suspension = Suspension::new(phase, line.source, line.at, line.at, snapshot);
        let suspension = Suspension { after_actions: Some(snapshot), passed: true, ..suspension };
        if self.answer(number, suspension, AtEndSpec::default(), false) {
            self.send(line.source, if again { SuspensionCommand::Go } else { SuspensionCommand::Release });
        }
    }

    /// Answers a suspended thread; whether that was possible.
    fn answer(&mut self, number: u64, mut suspension: Suspension, plan: AtEndSpec, stop: bool) -> bool {
        let (source, index) = (suspension.source, self.all.len());
        let answered = match SuspendedThread::answer(&self.dir, source, number) {
            Ok(thread) => {
                self.active.insert(source, Active { index, thread, plan, stop, step: Step::Leaving, vanished: false });
                true
            }
            // It continues by itself ten seconds later, and reports that.
            Err(error) => {
                suspension.fault = Some(error.to_string());
                false
            }
        };
        self.all.push(suspension);
        answered
    }

    fn collect(&mut self, source: Source, probe: &mut impl Probe) {
        let Some(active) = self.active.get_mut(&source) else { return };
        if !active.plan.collect {
            return self.wait(source, probe);
        }
        active.step = Step::Collecting;
        let now = active.plan.weak == Weak::Clear;
        self.send(source, if now { SuspensionCommand::Collect } else { SuspensionCommand::CollectLater });
    }

    /// A thread continues to the next turn of its event loop.
    fn put_off(&mut self, source: Source, plan: AtEndSpec, stop: bool) {
        let Some(index) = self.all.iter().rposition(|suspension| suspension.source == source) else { return };
        let suspension = &mut self.all[index];
        (suspension.put_off, suspension.after_actions) = (true, Some(suspension.snapshot));
        let ended = "the program ended before the next turn of its event loop, so no garbage was collected";
        suspension.fault = Some(ended.to_owned());
        if let Some((before, ..)) = self.put_off.insert(source, (index, plan, stop)) {
            // Of invocations that end within one turn only the last one's memory is read.
            let another = self.all[before].phase != self.all[index].phase;
            self.all[before].fault = another.then(|| OVERTAKEN.to_owned());
        }
    }

    fn wait(&mut self, source: Source, probe: &mut impl Probe) {
        let Some(active) = self.active.get_mut(&source) else { return };
        if let Some(settle) = active.plan.settle {
            let watch = Watch::begin(settle, monotonic(), probe.poll());
            let next = Instant::now() + watch.interval().to_duration();
            active.step = Step::Settling(Box::new(watch), next);
        } else if let Some(wait) = active.plan.wait {
            active.step = Step::Waiting(Instant::now() + wait.to_duration());
        } else {
            self.read(source);
        }
    }

    fn read(&mut self, source: Source) {
        if let Some(active) = self.active.get_mut(&source) {
            active.step = Step::Reading;
        }
        self.send(source, SuspensionCommand::Read);
    }

    /// Does what is due.
    pub(crate) fn due(&mut self, probe: &mut impl Probe) {
        let now = Instant::now();
        let mut over = Vec::new();
        for (source, active) in &mut self.active {
            match &mut active.step {
                Step::Waiting(until) if *until <= now => over.push(*source),
                Step::Settling(watch, next) if *next <= now => {
                    *next = now + watch.interval().to_duration();
                    if let Some(result) = watch.poll(monotonic(), probe.poll()) {
                        self.all[active.index].settled = Some(result);
                        over.push(*source);
                    }
                }
                _ => {}
            }
        }
        over.into_iter().for_each(|source| self.read(source));
    }

    /// Ends the suspensions of processes that have ended; `runs` tests a process. Lines from before its end are read first:
    /// it must have ended in two successive checks.
    pub(crate) fn bury(&mut self, runs: &dyn Fn(u32) -> bool, now: Nanos) {
        let mut vanished = Vec::new();
        for (source, active) in &mut self.active {
            let before = std::mem::replace(&mut active.vanished, !runs(source.pid));
            vanished.extend((before && active.vanished).then_some(*source));
        }
        vanished.into_iter().for_each(|source| self.ended(source, now));
    }

    /// A suspended thread has ended.
    fn ended(&mut self, source: Source, at: Nanos) {
        let Some(active) = self.active.remove(&source) else { return };
        let suspension = &mut self.all[active.index];
        suspension.until = Some(at);
        suspension.fault = Some("the process or thread ended while prony had suspended it".to_owned());
        self.count();
    }

    /// Handles an answer of a suspended thread. `snapshot` reads memory, once the thread has read its heap.
    pub(crate) fn heard(&mut self, line: &ProbeLine, probe: &mut impl Probe, snapshot: &mut dyn FnMut() -> usize) {
        if let ProbeEvent::Resumed { because } = line.event {
            let active = self.active.remove(&line.source);
            let last = self
                .all
                .iter_mut()
                .rev()
                .find(|suspension| suspension.source == line.source && suspension.until.is_none());
            if let Some(suspension) = last {
                (suspension.until, suspension.because) = (Some(line.at), Some(because));
                self.count();
            }
            if let (Because::Later, Some(active)) = (because, active) {
                self.put_off(line.source, active.plan, active.stop);
            }
            return;
        }
        if matches!(line.event, ProbeEvent::Bye {}) {
            self.ended(line.source, line.at);
            return;
        }
        let Some(active) = self.active.get_mut(&line.source) else { return };
        let suspension = &mut self.all[active.index];
        match (&active.step, &line.event) {
            (Step::Collecting, ProbeEvent::Collected { took, .. }) => {
                suspension.collected = Some(*took);
                self.wait(line.source, probe);
            }
            (Step::Reading, ProbeEvent::Heap { why: Occasion::Read, .. }) => {
                (suspension.read, suspension.after_actions) = (Some(line.at), Some(snapshot()));
                active.step = Step::Leaving;
                let phase = suspension.phase;
                let suspended = self
                    .all
                    .iter()
                    .filter(|suspension| suspension.phase == phase && !suspension.passed && !suspension.put_off)
                    .count();
                let command = match active.stop {
                    true => SuspensionCommand::Stop,
                    false if suspended < MOST_SUSPENSIONS => SuspensionCommand::Go,
                    false => SuspensionCommand::Release,
                };
                self.send(line.source, command);
            }
            _ => {}
        }
    }

    fn send(&mut self, source: Source, command: SuspensionCommand) {
        let Some(active) = self.active.get_mut(&source) else { return };
        if let Err(error) = active.thread.send(command) {
            self.all[active.index].fault = Some(error.to_string());
            // After its release it continues by itself and reports that.
            self.active.remove(&source);
        }
    }
}

#[cfg(test)]
mod tests;
