//! Decides which phases of a program are running, from its lines and marks. Does no I/O: the caller passes all
//! instants.

use prony_model::spec::PhaseSpec;
use prony_model::units::Nanos;
use prony_runtime::{ProbeEvent, ProbeLine};

use crate::functions::{Part, observed};
use crate::marks::{Boundary, Mark};
use crate::order::Written;
use crate::phase_state::{Event, Happened, PhaseState};
use crate::stream::Line;

/// What an event changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Phases that began, by index.
    pub began: Vec<usize>,
    /// Phases that ended, by index.
    pub ended: Vec<usize>,
    /// The program is to be ended here.
    pub stop: bool,
}

impl Change {
    /// Whether nothing changed.
    pub(crate) const fn is_none(&self) -> bool {
        self.began.is_empty() && self.ended.is_empty()
    }
}

/// All phases of a trial.
#[derive(Clone, Debug)]
pub struct Tracker {
    /// In the experiment's order.
    pub phases: Vec<PhaseState>,
    /// Marks that belong to no phase or are malformed, the first few.
    pub strange: Vec<String>,
    /// How many there were.
    pub unknown_marks: u64,
}

/// How many of these marks are stored.
const MOST_STRANGE: usize = 20;

impl Tracker {
    /// Nothing has begun.
    pub fn new(specs: &[PhaseSpec]) -> Self {
        let tracked = |spec| observed(spec).map_or_else(PhaseState::led, |observe| PhaseState::new(observe, specs));
        Self { phases: specs.iter().map(tracked).collect(), strange: Vec::new(), unknown_marks: 0 }
    }

    /// Whether any phase reads lines.
    pub fn listens(&self) -> bool {
        let line = |event: &Option<Event>| matches!(event, Some(Event::Line(_)));
        self.phases.iter().any(|phase| line(&phase.begin) || line(&phase.end) || phase.read.is_some())
    }

    /// The program begins.
    pub fn start(&mut self, at: Nanos) -> Change {
        let mut change = Change::default();
        for (index, phase) in self.phases.iter_mut().enumerate().filter(|(_, phase)| phase.begin.is_none()) {
            phase.note_begin(at, Nanos::ZERO);
            change.began.push(index);
        }
        change
    }

    /// A line of stdout, 0, or stderr, 1. If what had been read of it earlier begins or ends a phase, it may have done so then.
    pub fn line(&mut self, stream: usize, line: &Line) -> Change {
        let Line { text, early, earliest, at } = line;
        let bounds = |text: &str| self.phases.iter().any(|phase| phase.is_bounded_by(text));
        let early = early.as_ref().filter(|(text, _)| bounds(text)).map_or(*earliest, |(_, earliest)| *earliest);
        let written = Written { stream, earliest: early.min(*earliest), at: *at };
        self.happened_at(Happened::Line(text), written)
    }

    /// Something happened at an instant, or up to `lag` earlier.
    pub fn happened(&mut self, happened: Happened<'_>, at: Nanos, lag: Nanos) -> Change {
        self.happened_at(happened, Written { stream: 0, earliest: at.since(lag), at })
    }

    fn happened_at(&mut self, happened: Happened<'_>, written: Written) -> Change {
        let (at, lag) = (written.at, written.at.since(written.earliest));
        let mut change = Change::default();
        let mut known = false;
        let listening = if let Happened::Line(line) = happened { self.listening(line) } else { Vec::new() };
        for (index, phase) in self.phases.iter_mut().enumerate() {
            let ends = phase.end.as_ref().is_some_and(|end| end.is(happened, Boundary::End));
            let begins = phase.begin.as_ref().is_some_and(|begin| begin.is(happened, Boundary::Begin));
            let was_open = phase.is_open();
            if begins && phase.began.is_none() {
                phase.note_begin(at, lag);
                known = true;
                change.began.push(index);
            } else if (begins || ends) && !(ends && was_open) {
                // An end before the begin is that of nothing.
                known |= phase.began.is_some();
                phase.repeat(begins, ends);
            }
            if let (Happened::Line(line), true) = (happened, listening.contains(&index))
                && phase.can_contain(at.since(lag))
            {
                phase.listen(line, written);
            }
            if ends && was_open {
                phase.note_end(at, lag);
                known = true;
                change.ended.push(index);
                change.stop |= phase.stop;
            }
        }
        self.follow(&mut change);
        if matches!(happened, Happened::Line(_)) {
            for (index, phase) in self.phases.iter_mut().enumerate() {
                let bounded = change.began.contains(&index) || change.ended.contains(&index);
                phase.order(written, bounded, listening.contains(&index));
            }
        }
        if let (Happened::Mark(mark), false) = (happened, known) {
            self.unknown_mark(&format!("{} {}", mark.name, mark.boundary.name()));
        }
        change
    }

    /// Handles an invocation of the function that begins or ends a phase. What follows at its end is not decided here,
    /// since the program may be suspended there.
    pub fn invoked(&mut self, index: usize, part: Part, line: &ProbeLine) -> Change {
        let mut change = Change::default();
        let phase = &mut self.phases[index];
        match part {
            Part::Begin if phase.began.is_none() && matches!(line.event, ProbeEvent::Begin { .. }) => {
                phase.note_begin(line.at, Nanos::ZERO);
                change.began.push(index);
            }
            Part::End if phase.returned(line) => {
                phase.note_end(line.at, Nanos::ZERO);
                change.ended.push(index);
                self.follow(&mut change);
            }
            _ => {}
        }
        change
    }

    /// The runner begins a phase.
    pub fn lead(&mut self, index: usize, at: Nanos) -> Change {
        self.phases[index].note_begin(at, Nanos::ZERO);
        Change { began: vec![index], ..Change::default() }
    }

    /// A phase ended at a known instant: the watch for quiet is over, or its worker reported.
    pub fn ended(&mut self, index: usize, at: Nanos) -> Change {
        let phase = &mut self.phases[index];
        phase.note_end(at, Nanos::ZERO);
        let mut change = Change { ended: vec![index], stop: phase.stop, ..Change::default() };
        self.follow(&mut change);
        change
    }

    /// Phases that begin because those that just ended have.
    pub fn follow(&mut self, change: &mut Change) {
        for before in change.ended.clone() {
            let (Some(at), lag) = (self.phases[before].ended, self.phases[before].lag) else { continue };
            for (index, phase) in self.phases.iter_mut().enumerate() {
                let follows = matches!(phase.begin, Some(Event::After(of)) if of == before);
                if follows && phase.began.is_none() {
                    phase.note_begin(at, lag);
                    change.began.push(index);
                }
            }
        }
    }

    /// Before which instant a mark cannot have been made: it ends a phase that had not begun.
    pub(crate) fn not_before(&self, mark: &Mark) -> Option<Nanos> {
        let ends = |phase: &&PhaseState| {
            phase.is_open() && phase.end.as_ref().is_some_and(|end| end.is(Happened::Mark(mark), Boundary::End))
        };
        self.phases.iter().filter(ends).map(|phase| phase.not_before).max()
    }

    /// The phases whose `read` matches a line. If marks or calls begin or end one of several such phases, it is not
    /// known in which of them the line was written, and none of them reads it or any other line.
    fn listening(&mut self, line: &str) -> Vec<usize> {
        let all = self.phases.iter().enumerate();
        let listening: Vec<usize> = all.filter(|(_, phase)| phase.understands(line)).map(|(index, _)| index).collect();
        if listening.len() < 2 || listening.iter().all(|index| !self.phases[*index].marked) {
            return listening;
        }
        listening.into_iter().for_each(|index| self.phases[index].confuse());
        Vec::new()
    }

    /// A mark that belongs to no phase here.
    pub fn unknown_mark(&mut self, text: &str) {
        self.unknown_marks += 1;
        if self.strange.len() < MOST_STRANGE {
            self.strange.push(text.chars().take(200).collect());
        }
    }

    /// The program has ended by itself or was stopped: phases without an end of their own end with it. Before them end those
    /// that end with `replicas`, where the end of the last of these was not reported before.
    pub fn finish(&mut self, at: Nanos, replicas: Option<Nanos>) -> Change {
        let ended = replicas.map(|ended| self.happened(Happened::ReplicasEnded, ended, Nanos::ZERO));
        let mut change = ended.unwrap_or_default();
        for (index, phase) in self.phases.iter_mut().enumerate() {
            if phase.is_open() && phase.ends_with_program() {
                phase.ended = Some(at);
                change.ended.push(index);
            }
        }
        change
    }
}

#[cfg(test)]
mod tests;
