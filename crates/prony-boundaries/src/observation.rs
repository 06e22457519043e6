//! Collects what is observed of a running program: its phases, the snapshots at their boundaries, the reports of its
//! probes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use prony_model::event::{Event, Observer};
use prony_model::program::ObserveSpec;
use prony_model::protocol::PhaseReport;
use prony_model::spec::TrialSpec;
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::sample::{Sampler, Snapshot};
use prony_os::settle::{Activity, Probe, TreeProbe};
use prony_runtime::{Because, ProbeEvent, ProbeLine, Source, parse};

use crate::calls::Calls;
use crate::functions::{Functions, Part, observed};
use crate::limits::Deadlines;
use crate::marks::{self, Known, Mark};
use crate::phase_state::{Called, Happened, PhaseState};
use crate::probe_reports::Threads;
use crate::settling::Settling;
use crate::stream::Line;
use crate::suspending::{Suspension, SuspensionControl};
use crate::tracker::{Change, Tracker};

/// Snapshots at the ends of a function that is called often take at most this part of the time.
const SNAPSHOTS_SHARE: u64 = 20;

/// A program that should end at the end of a call gets a signal if it has not ended after this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was observed of a program so far.
pub struct Observation<'a> {
    spec: &'a TrialSpec,
    /// The observer of the program.
    pub sampler: &'a Sampler,
    observer: &'a mut dyn Observer,
    position: u32,
    /// Its phases.
    pub tracker: Tracker,
    /// Every snapshot, in order.
    pub snapshots: Vec<Snapshot>,
    /// Index of the snapshot at which each phase began.
    pub begin: Vec<Option<usize>>,
    /// Index of the snapshot at which each phase ended.
    pub end: Vec<Option<usize>>,
    /// Reports of its probes.
    pub threads: Threads,
    /// Threads that are suspended.
    pub suspensions: SuspensionControl,
    /// Phases that end when the tree is quiet.
    pub settling: Settling,
    /// How long their polls of the program's data took while it ran.
    pub polls_took: Nanos,
    /// When the program was released.
    pub released: Nanos,
    /// When a trial whose worker sends no more was cut short, and the index of the snapshot then.
    pub cut: Option<(Nanos, usize)>,
    /// The program is to be ended.
    pub stop: bool,
    /// The program was commanded to end itself.
    pub asked_to_stop: bool,
    /// The path of the program's data, where that is declared and read.
    store: Option<PathBuf>,
    functions: Functions,
    deadlines: Deadlines,
    /// Ends of invocations at which a suspension will follow: phase, instant, snapshot.
    returned: BTreeMap<Source, (usize, Nanos, usize)>,
    stop_at: Option<Instant>,
    /// The first poll of the phase of this index, which waits for quiet, from the end of the phase before it.
    first_poll: Option<(usize, Nanos, Activity)>,
}

impl<'a> Observation<'a> {
    /// The program is suspended and has not run since.
    pub fn new(
        spec: &'a TrialSpec,
        sampler: &'a Sampler,
        commands: PathBuf,
        position: u32,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let phases = spec.phases.len();
        Self {
            spec,
            sampler,
            observer,
            position,
            tracker: Tracker::new(&spec.phases),
            snapshots: vec![sampler.snapshot()],
            begin: vec![None; phases],
            end: vec![None; phases],
            threads: Threads::default(),
            suspensions: SuspensionControl::new(commands),
            settling: Settling::default(),
            polls_took: Nanos::ZERO,
            released: Nanos::ZERO,
            cut: None,
            stop: false,
            asked_to_stop: false,
            store: sampler.store(),
            functions: Functions::of(&spec.phases),
            deadlines: Deadlines::new(phases),
            returned: BTreeMap::new(),
            stop_at: None,
            first_poll: None,
        }
    }

    fn apply(&mut self, change: &Change) {
        self.stop |= change.stop;
        if !change.is_none() {
            self.snapshot();
            self.note(change);
        }
    }

    /// The runner begins a phase: everything is read before the worker gets its command. `changed` says whether workers
    /// began or ended since the phase before.
    pub fn lead(&mut self, index: usize, changed: bool) {
        // The worker waits between the end of one phase and the begin of the next: what is expensive to read is read once for both.
        let fresh = !changed && index > 0 && self.end[index - 1] == self.snapshots.len().checked_sub(1);
        if !fresh {
            self.sampler.wait_for_sleep();
            self.snapshot();
        }
        // Servers, and threads of the engine, may have worked meanwhile: that is of no phase, but of one that waits for its end.
        if !(fresh && self.settles(index)) {
            self.counters_again();
        }
        let change = self.tracker.lead(index, monotonic());
        self.note(&change);
    }

    /// Whether the phase of this index waits for quiet.
    fn settles(&self, index: usize) -> bool {
        self.spec.phases.get(index).is_some_and(|phase| phase.action.settle().is_some())
    }

    /// A snapshot with what is expensive to read of the last one.
    fn counters_again(&mut self) {
        let mut counters = self.sampler.cheap_snapshot();
        if let Some(expensive) = self.snapshots.last() {
            counters = counters.with_expensive_of(expensive);
        }
        self.snapshots.push(counters);
    }

    /// Everything is prepared for a phase that the runner leads, whose workers wait to be released: its counters are those from now on.
    pub fn prepared(&mut self, index: usize) {
        self.sampler.wait_for_sleep();
        self.counters_again();
        self.begin[index] = self.snapshots.len().checked_sub(1);
    }

    /// The requests that a phase begins with and does not measure were sent: its counters are those from now on.
    pub fn warmed_up(&mut self, index: usize) {
        self.snapshots.push(self.sampler.cheap_snapshot());
        self.begin[index] = self.snapshots.len().checked_sub(1);
    }

    /// A phase ended at an instant, with what the worker measured from inside.
    pub fn reported(&mut self, index: usize, at: Nanos, report: Box<PhaseReport>) {
        self.tracker.phases[index].report = Some(report);
        let change = self.tracker.ended(index, at);
        // Reading everything takes long where there are many processes, which may become quiet meanwhile. The store is read with
        // the snapshot.
        if self.settles(index + 1) {
            self.first_poll = Some((index + 1, monotonic(), TreeProbe::new(self.sampler, None).poll()));
        }
        self.sampler.wait_for_sleep();
        self.apply(&change);
    }

    /// So many operations of a phase are done.
    pub fn progress(&mut self, index: usize, operations: u64, total: Option<u64>) {
        let phase = self.spec.phases[index].name.clone();
        self.observer.event(&Event::Progress { position: self.position, phase, operations, total });
    }

    /// Ends the trial here: reads everything once more, since what happens later is not part of the trial.
    pub fn cut(&mut self) {
        if self.cut.is_none() {
            self.cut = Some((monotonic(), self.snapshot()));
        }
    }

    /// What is watched for quiet.
    fn tree(&self) -> TreeProbe<'a> {
        TreeProbe::new(self.sampler, self.store.clone())
    }

    /// Reads everything now; returns the index of the snapshot.
    fn snapshot(&mut self) -> usize {
        self.snapshots.push(self.sampler.snapshot());
        self.snapshots.len() - 1
    }

    /// Whether another snapshot now would take too much of the time.
    fn is_dear(&self) -> bool {
        let last = self.snapshots.last();
        last.is_some_and(|snapshot| {
            monotonic().since(snapshot.at).as_nanos() < SNAPSHOTS_SHARE * snapshot.took.as_nanos()
        })
    }

    /// Reads everything now, for a replica, unless that would take too much of the time; the index of the snapshot.
    pub fn snapshot_unless_costly(&mut self) -> Option<usize> {
        (!self.is_dear()).then(|| self.snapshot())
    }

    /// The last replica ended at an instant; the index of the snapshot that follows.
    pub fn replicas_ended(&mut self, at: Nanos) -> usize {
        let snapshots = self.snapshots.len();
        let change = self.tracker.happened(Happened::ReplicasEnded, at, Nanos::ZERO);
        self.apply(&change);
        if self.snapshots.len() > snapshots { snapshots } else { self.snapshot() }
    }

    /// Notes that phases began or ended at the last snapshot.
    pub fn note(&mut self, change: &Change) {
        let snapshot = self.snapshots.len().checked_sub(1);
        for index in &change.ended {
            self.end[*index] = snapshot;
            self.deadlines.end(*index);
            self.say_ended(*index);
        }
        for index in &change.began {
            let phase = &self.spec.phases[*index];
            self.begin[*index] = snapshot;
            // A phase that waits for quiet ends by itself, no later than its limit.
            let limit = phase.limit.filter(|_| phase.action.settle().is_none());
            self.deadlines.begin(*index, limit, self.suspensions.running(monotonic()));
            if let Some(settle) = phase.action.settle() {
                let mut tree = self.tree();
                let first = self.first_poll.take_if(|(of, ..)| of == index);
                let first = first.zip(self.snapshots.last()).map(|((_, at, poll), read)| match self.store {
                    Some(_) => (at, poll.with_store(read.disk.clone(), read.unwritten.clone())),
                    None => (at, poll),
                });
                let first = first.unwrap_or_else(|| (monotonic(), tree.poll()));
                self.settling.begin(*index, *settle, first);
                self.polls_took += tree.store_took;
            }
            self.observer.event(&Event::PhaseBegan { position: self.position, phase: phase.name.clone() });
        }
    }

    fn say_ended(&mut self, index: usize) {
        let tracked = &self.tracker.phases[index];
        let took = || tracked.ended.unwrap_or_default().since(tracked.began.unwrap_or_default());
        let time = tracked.report.as_ref().map_or_else(took, |report| report.time);
        let phase = self.spec.phases[index].name.clone();
        self.observer.event(&Event::PhaseEnded { position: self.position, phase, time });
    }

    /// A line of stdout, 0, or stderr, 1.
    pub fn line(&mut self, stream: usize, line: &Line) {
        let change = self.tracker.line(stream, line);
        self.apply(&change);
    }

    /// A line of the channel of marks that did not exist at `earliest`, and had been `read` at an instant.
    pub fn mark(&mut self, text: &str, earliest: Nanos, read: Nanos) {
        if let Some(line) = probed(text) {
            return self.probe(&line, (line.at.max(earliest).min(read), read));
        }
        let Some(mark) = Mark::parse(text) else { return self.tracker.unknown_mark(text) };
        let begun = self.tracker.not_before(&mark);
        let (at, lag, strange) = marks::made(mark.at, Known { released: self.released, begun, earliest, read });
        if let Some(why) = strange {
            self.tracker.unknown_mark(&format!("{text} (its `at` is {why})"));
        }
        let change = self.tracker.happened(Happened::Mark(&mark), at, lag);
        self.apply(&change);
    }

    /// A line of a probe, which was written at the one instant and read at the other. The clock of the program may be that of another
    /// time namespace.
    fn probe(&mut self, line: &ProbeLine, when: (Nanos, Nanos)) {
        self.threads.take(line);
        match &line.event {
            ProbeEvent::Begin { call, .. } | ProbeEvent::End { call, .. } => self.called(call, line, when),
            ProbeEvent::Calls(tallied) => self.called(&tallied.call, line, when),
            ProbeEvent::Suspended { suspension, later: true, .. } => self.suspended_again(*suspension, line),
            ProbeEvent::Suspended { call, suspension, .. } => self.suspended(call, *suspension, line),
            _ => self.heard(line),
        }
    }

    fn called(&mut self, id: &str, line: &ProbeLine, (at, read): (Nanos, Nanos)) {
        let Some((index, part)) = self.functions.find(id) else { return };
        if part != Part::Whole {
            let change = self.tracker.invoked(index, part, line);
            self.apply(&change);
            if change.ended.contains(&index) {
                self.returns(index, line);
            }
            return;
        }
        let phase = &mut self.tracker.phases[index];
        let counted = |phase: &PhaseState| phase.calls.as_ref().map_or(Nanos::ZERO, Calls::counted_time);
        let before = counted(phase);
        let called = phase.called(line);
        let took = counted(phase).since(before);
        if took > Nanos::ZERO {
            phase.is_overdue |= self.deadlines.spend(index, took, self.suspensions.running(at));
        }
        match called {
            Called::First => {
                self.snapshot();
                self.note(&Change { began: vec![index], ..Change::default() });
            }
            Called::Again => self.deadlines.go_on(index, self.suspensions.running(read)),
            Called::Ended => self.ended(index, line, at),
            Called::Nothing => {}
        }
    }

    /// No invocation is running now.
    fn ended(&mut self, index: usize, line: &ProbeLine, at: Nanos) {
        self.tracker.phases[index].is_overdue |= self.deadlines.pause(index, self.suspensions.running(at));
        if self.suspends_after(index, line) || self.end[index].is_none() || !self.is_dear() {
            let first = self.end[index].is_none();
            self.end[index] = Some(self.snapshot());
            if first {
                let mut change = Change { ended: vec![index], ..Change::default() };
                self.tracker.follow(&mut change);
                self.note(&Change { ended: Vec::new(), ..change });
            }
        }
        self.returns(index, line);
    }

    /// Whether the program is suspended after this line.
    fn suspends_after(&self, index: usize, line: &ProbeLine) -> bool {
        let suspends = observed(&self.spec.phases[index]).is_some_and(ObserveSpec::suspends);
        suspends && matches!(line.event, ProbeEvent::End { .. })
    }

    /// An invocation that ends a phase has returned, and the program may be suspended there, or end.
    fn returns(&mut self, index: usize, line: &ProbeLine) {
        if let (true, Some(snapshot)) = (self.suspends_after(index, line), self.end[index]) {
            self.returned.insert(line.source, (index, line.at, snapshot));
        }
        if observed(&self.spec.phases[index]).is_some_and(|observe| observe.stop) {
            self.stop_at = Some(Instant::now() + PATIENCE);
        }
    }

    /// A thread is suspended at the end of a call.
    fn suspended(&mut self, id: &str, number: u64, line: &ProbeLine) {
        let Some((phase, part)) = self.functions.find(id) else { return };
        let known = self.returned.remove(&line.source).filter(|(of, ..)| *of == phase);
        let tracked = &self.tracker.phases[phase];
        // Invocations of the same function may go on in other threads and processes: the phase has not ended. A process that was killed
        // in one of them reports no end of it.
        let is_running = |source: Source| source.pid == line.source.pid || runs(source.pid);
        let goes_on = tracked.calls.as_ref().is_some_and(|calls| calls.is_open_where(is_running));
        if known.is_none() && (part == Part::End || tracked.is_open() && goes_on) {
            let (last, again) = (self.snapshots.len() - 1, !tracked.is_complete());
            return self.suspensions.pass(line, number, phase, last, again);
        }
        let (_, ended, snapshot) = known.unwrap_or_else(|| (phase, line.at, self.snapshot()));
        let observe = observed(&self.spec.phases[phase]);
        let plan = observe.and_then(|observe| observe.at_end.clone()).unwrap_or_default();
        let stop = observe.is_some_and(|observe| observe.stop);
        self.stop_at = None;
        let suspension = Suspension::new(phase, line.source, ended, line.at, snapshot);
        self.suspensions.begin(number, suspension, (plan, stop), &mut self.tree());
    }

    /// A thread is suspended at a turn of its event loop that follows such an end.
    fn suspended_again(&mut self, number: u64, line: &ProbeLine) {
        let snapshot = self.snapshot();
        self.suspensions.again(line, number, snapshot, &mut self.tree());
    }

    fn heard(&mut self, line: &ProbeLine) {
        let mut tree = self.tree();
        let (sampler, snapshots) = (self.sampler, &mut self.snapshots);
        let mut snapshot = || {
            snapshots.push(sampler.snapshot());
            snapshots.len() - 1
        };
        self.suspensions.heard(line, &mut tree, &mut snapshot);
        if matches!(line.event, ProbeEvent::Resumed { because: Because::Stop }) {
            (self.asked_to_stop, self.stop_at) = (true, Some(Instant::now() + PATIENCE));
        }
    }

    /// Does what is due by now.
    pub fn due(&mut self) {
        self.suspensions.due(&mut self.tree());
        self.suspensions.bury(&runs, monotonic());
        let (mut tree, suspended) = (self.tree(), self.suspensions.any());
        let settled = self.settling.due(suspended, &mut tree);
        // Readings of a program that does not run disturb nothing.
        self.polls_took += if suspended { Nanos::ZERO } else { tree.store_took };
        for index in settled {
            let change = self.tracker.ended(index, monotonic());
            self.apply(&change);
        }
        self.stop |= self.stop_at.is_some_and(|at| Instant::now() >= at);
    }

    /// When the next action is due.
    pub fn next(&self) -> Option<Instant> {
        let of_stop = self.stop_at.filter(|_| !self.stop);
        self.suspensions.next().into_iter().chain(self.settling.next()).chain(of_stop).min()
    }

    /// When the first phase must be over; none while the program is suspended, since that time belongs to no phase.
    pub fn deadline(&self) -> Option<Instant> {
        if self.suspensions.any() {
            return None;
        }
        let left = self.deadlines.first()?.since(self.suspensions.running(monotonic()));
        Some(Instant::now() + left.to_duration())
    }

    /// The program has ended; `replicas` is when the last of its replicas did, where all of them ended by themselves.
    /// Phases that end with the replicas, like those that end with the program, have the trial's last snapshot.
    pub fn finish(&mut self, at: Nanos, replicas: Option<Nanos>) {
        let change = self.tracker.finish(at, replicas);
        self.snapshot();
        self.note(&change);
        for index in 0..self.tracker.phases.len() {
            let tracked = &self.tracker.phases[index];
            if tracked.calls.is_some() && tracked.is_complete() {
                self.say_ended(index);
            }
        }
    }
}

/// Whether a process exists and has not ended.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok().and_then(|stat| prony_os::sample::parse::stat(&stat));
    stat.is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// A line of a probe.
pub fn probed(text: &str) -> Option<ProbeLine> {
    if text.contains("\"probe\":") { parse(text).ok() } else { None }
}
