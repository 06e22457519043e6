//! What was seen of a program so far: its phases, the edges at which they began and ended, and what its probes said.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use prony_core::event::Event;
use prony_core::experiment::spec::TrialSpec;
use prony_core::units::Nanos;
use prony_probe::clock::monotonic;
use prony_probe::runtime::{Because, Line, ProbeEvent, ProbeLine, Source, parse};
use prony_probe::sample::{Edge, Sampler};
use prony_probe::settle::TreeProbe;

use super::holds::{Asked, Hold, Holds};
use super::marks::{self, Mark};
use super::probe::{Probing, observed};
use super::threads::Threads;
use super::tracker::{Called, Change, Happened, Tracker};
use crate::runner::observer::Observer;

/// Edges at the ends of a function that is called often take at most this part of the time.
const EDGES_SHARE: u64 = 20;

/// A program that ends at the end of a call is asked by a signal where it has not done so after this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was seen of a program so far.
pub struct Seen<'a> {
    spec: &'a TrialSpec,
    /// What observes the program.
    pub sampler: &'a Sampler,
    observer: &'a mut dyn Observer,
    position: u32,
    /// Its phases.
    pub tracker: Tracker,
    /// Every edge, in order.
    pub edges: Vec<Edge>,
    /// Index of the edge at which each phase began.
    pub begin: Vec<Option<usize>>,
    /// Index of the edge at which each phase ended.
    pub end: Vec<Option<usize>>,
    /// What its probes said.
    pub threads: Threads,
    /// Threads that are held.
    pub holds: Holds,
    /// When the program was released.
    pub released: Nanos,
    /// The program is to be ended.
    pub stop: bool,
    /// The program was told to end itself.
    pub told_to_stop: bool,
    deadlines: Vec<Option<Instant>>,
    /// What was left of a phase's time when its function had returned.
    left: Vec<Option<Duration>>,
    /// Ends of invocations at which a hold will follow: phase, instant, edge.
    returned: BTreeMap<Source, (usize, Nanos, usize)>,
    stop_at: Option<Instant>,
}

impl<'a> Seen<'a> {
    /// The program is held and has done nothing.
    pub fn new(
        spec: &'a TrialSpec,
        sampler: &'a Sampler,
        probing: &Probing,
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
            edges: vec![sampler.edge()],
            begin: vec![None; phases],
            end: vec![None; phases],
            threads: Threads::default(),
            holds: Holds::new(probing.hold.clone()),
            released: Nanos::ZERO,
            stop: false,
            told_to_stop: false,
            deadlines: vec![None; phases],
            left: vec![None; phases],
            returned: BTreeMap::new(),
            stop_at: None,
        }
    }

    fn apply(&mut self, change: &Change) {
        self.stop |= change.stop;
        if !change.is_none() {
            self.edge();
            self.note(change);
        }
    }

    /// Reads everything now; the index of the edge.
    fn edge(&mut self) -> usize {
        self.edges.push(self.sampler.edge());
        self.edges.len() - 1
    }

    /// Whether another edge now would take too much of the time.
    fn is_dear(&self) -> bool {
        let last = self.edges.last();
        last.is_some_and(|edge| monotonic().since(edge.at).as_nanos() < EDGES_SHARE * edge.took.as_nanos())
    }

    /// Reads everything now, for a replica; the index of the edge.
    pub fn look(&mut self) -> usize {
        self.edge()
    }

    /// The same, unless it would take too much of the time.
    pub fn look_unless_dear(&mut self) -> Option<usize> {
        (!self.is_dear()).then(|| self.edge())
    }

    /// The last replica ended at an instant; the index of the edge that follows.
    pub fn replicas_ended(&mut self, at: Nanos) -> usize {
        let edges = self.edges.len();
        let change = self.tracker.happened(Happened::ReplicasEnded, at, monotonic().since(at));
        self.apply(&change);
        if self.edges.len() > edges { edges } else { self.edge() }
    }

    /// Notes that phases began or ended at the last edge.
    pub fn note(&mut self, change: &Change) {
        let edge = self.edges.len().checked_sub(1);
        for index in &change.ended {
            (self.end[*index], self.deadlines[*index]) = (edge, None);
            self.say_ended(*index);
        }
        for index in &change.began {
            self.begin[*index] = edge;
            self.deadlines[*index] = self.spec.phases[*index].limit.map(|limit| Instant::now() + limit.to_duration());
            let phase = self.spec.phases[*index].name.clone();
            self.observer.event(&Event::PhaseBegan { position: self.position, phase });
        }
    }

    fn say_ended(&mut self, index: usize) {
        let tracked = &self.tracker.phases[index];
        let time = tracked.ended.unwrap_or_default().since(tracked.began.unwrap_or_default());
        let phase = self.spec.phases[index].name.clone();
        self.observer.event(&Event::PhaseEnded { position: self.position, phase, time });
    }

    /// A line of output that was not there at `earliest`.
    pub fn line(&mut self, text: &str, earliest: Nanos) {
        let at = monotonic();
        let change = self.tracker.happened(Happened::Line(text), at, at.since(earliest));
        self.apply(&change);
    }

    /// A line of the channel of marks that was not there at `earliest`.
    pub fn mark(&mut self, text: &str, earliest: Nanos) {
        let now = monotonic();
        if let Some(line) = probed(text) {
            return self.probe(&line, now);
        }
        let Some(mark) = Mark::parse(text) else { return self.tracker.stranger(text) };
        let (at, lag, strange) = marks::made(mark.at, self.released, earliest, now);
        if let Some(why) = strange {
            self.tracker.stranger(&format!("{text} (its `at` is {why})"));
        }
        let change = self.tracker.happened(Happened::Mark(&mark), at, lag);
        self.apply(&change);
    }

    fn probe(&mut self, line: &ProbeLine, now: Nanos) {
        self.threads.take(line);
        match &line.event {
            ProbeEvent::Begin { call, .. } | ProbeEvent::End { call, .. } => self.called(call, line, now),
            ProbeEvent::Calls(tallied) => self.called(&tallied.call, line, now),
            ProbeEvent::Held { call, hold, .. } => self.held(call, *hold, line),
            _ => self.heard(line),
        }
    }

    /// The phase that is a function, by its name.
    fn phase(&self, name: &str) -> Option<usize> {
        let is = |index: &usize| self.spec.phases[*index].name == name && self.tracker.phases[*index].calls.is_some();
        (0..self.spec.phases.len()).find(is)
    }

    fn called(&mut self, call: &str, line: &ProbeLine, now: Nanos) {
        let Some(index) = self.phase(call) else { return };
        match self.tracker.phases[index].called(line, now.since(line.at)) {
            Called::First => {
                self.edge();
                self.note(&Change { began: vec![index], ..Change::default() });
            }
            Called::Again => self.deadlines[index] = self.left[index].map(|left| Instant::now() + left),
            Called::Ended => self.ended(index, line),
            Called::Nothing => {}
        }
    }

    /// No invocation is under way any more, for now.
    fn ended(&mut self, index: usize, line: &ProbeLine) {
        if let Some(deadline) = self.deadlines[index].take() {
            self.left[index] = Some(deadline.saturating_duration_since(Instant::now()));
        }
        let observe = observed(&self.spec.phases[index]);
        let holds = observe.is_some_and(|observe| observe.holds()) && matches!(line.event, ProbeEvent::End { .. });
        if holds || self.end[index].is_none() || !self.is_dear() {
            self.end[index] = Some(self.edge());
        }
        if let (true, Some(edge)) = (holds, self.end[index]) {
            self.returned.insert(line.source, (index, line.at, edge));
        }
        if observe.is_some_and(|observe| observe.stop) {
            self.stop_at = Some(Instant::now() + PATIENCE);
        }
    }

    /// A thread stands still at the end of a call.
    fn held(&mut self, call: &str, number: u64, line: &ProbeLine) {
        let known = self.returned.remove(&line.source);
        let Some((phase, ended, edge)) = known.or_else(|| Some((self.phase(call)?, line.at, self.edge()))) else {
            return;
        };
        let observe = observed(&self.spec.phases[phase]);
        let plan = observe.and_then(|observe| observe.at_end.clone()).unwrap_or_default();
        let stop = observe.is_some_and(|observe| observe.stop);
        self.stop_at = None;
        let asked = Asked { phase, ended, edge, plan, stop };
        self.holds.begin(line, number, asked, &mut TreeProbe { sampler: self.sampler, store: None });
    }

    fn heard(&mut self, line: &ProbeLine) {
        let (sampler, edges) = (self.sampler, &mut self.edges);
        let mut edge = || {
            edges.push(sampler.edge());
            edges.len() - 1
        };
        self.holds.heard(line, &mut TreeProbe { sampler, store: None }, &mut edge);
        let because = match line.event {
            ProbeEvent::Resumed { because } => Some(because),
            ProbeEvent::Bye {} => None,
            _ => return,
        };
        if because == Some(Because::Stop) {
            (self.told_to_stop, self.stop_at) = (true, Some(Instant::now() + PATIENCE));
        }
        let last = self.holds.all.iter().rev().find(|hold| hold.source == line.source);
        // A thread that takes its leave may have been let go long before.
        let over = last.filter(|hold| because.is_some() || hold.until == Some(line.at));
        let Some(held) = over.and_then(Hold::length) else { return };
        self.put_off(held);
    }

    /// Time in which the program was held counts for no phase's limit.
    fn put_off(&mut self, held: Nanos) {
        self.deadlines.iter_mut().flatten().for_each(|deadline| *deadline += held.to_duration());
    }

    /// Does what is due by now.
    pub fn due(&mut self) {
        self.holds.due(&mut TreeProbe { sampler: self.sampler, store: None });
        for held in self.holds.bury(&runs, monotonic()) {
            self.put_off(held);
        }
        self.stop |= self.stop_at.is_some_and(|at| Instant::now() >= at);
    }

    /// When something will be due.
    pub fn next(&self) -> Option<Instant> {
        self.holds.next().into_iter().chain(self.stop_at.filter(|_| !self.stop)).min()
    }

    /// When the first phase must be over; none while the program is held, which is in no phase's time.
    pub fn deadline(&self) -> Option<Instant> {
        if self.holds.any() { None } else { self.deadlines.iter().flatten().min().copied() }
    }

    /// The program has ended.
    pub fn finish(&mut self, at: Nanos) {
        let change = self.tracker.finish(at);
        self.edge();
        self.note(&change);
        for index in 0..self.tracker.phases.len() {
            let tracked = &self.tracker.phases[index];
            if tracked.calls.is_some() && tracked.is_complete() {
                self.say_ended(index);
            }
        }
    }
}

/// Whether a process is there and has not ended.
fn runs(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}

/// A line of a probe.
pub fn probed(text: &str) -> Option<ProbeLine> {
    match text.contains("\"probe\":").then(|| parse(text)) {
        Some(Ok(Line::Probe(line))) => Some(line),
        _ => None,
    }
}
