//! The state of one phase of a program. Does no I/O: the caller passes all instants.

use std::collections::BTreeMap;

use prony_model::metric::{Metric, MetricKey};
use prony_model::program::{DIGEST_GROUP, ObserveSpec, Trigger, group_meaning};
use prony_model::protocol::PhaseReport;
use prony_model::reading::Reading;
use prony_model::spec::PhaseSpec;
use prony_model::units::Nanos;
use prony_runtime::{ProbeEvent, ProbeLine};
use regex::Regex;

use crate::calls::Calls;
use crate::marks::{Boundary, Mark};
use crate::order::{Order, Written};
use crate::reported::Lines;

/// An event of a program.
#[derive(Clone, Copy, Debug)]
pub enum Happened<'a> {
    /// It wrote a line.
    Line(&'a str),
    /// It made a mark.
    Mark(&'a Mark),
    /// The last of its replicas ended.
    ReplicasEnded,
}

/// The state of one phase.
#[derive(Clone, Debug, Default)]
pub struct PhaseState {
    /// What begins the phase; `None` is the program's own begin.
    pub(super) begin: Option<Event>,
    /// What ends the phase; `None` is the program's own end.
    pub(super) end: Option<Event>,
    /// Pattern of the values in its lines.
    pub(super) read: Option<Regex>,
    /// The program is to be ended when the phase ends.
    pub(super) stop: bool,
    suspends: bool,
    /// A mark or a call begins or ends it, which come by another way than lines.
    pub(super) marked: bool,
    /// A line matched its `read` and that of another phase, so its lines report no metrics.
    pub ambiguous: bool,
    /// Lines of stdout and stderr of which the order is not known decide what it reads, so its lines report no metrics.
    pub unordered: bool,
    order: Order,
    /// How often its lines would have begun it again after its end, or have ended what they had begun inside.
    pub repeats: u64,
    /// The line that ends the last of these repeats is still to come.
    repeating: bool,
    /// Lines inside it, or inside a repeat, that would have begun it.
    inside: u64,
    /// When it began.
    pub began: Option<Nanos>,
    /// When it ended.
    pub ended: Option<Nanos>,
    /// What its lines reported.
    pub lines: Lines,
    /// How much earlier than noted its begin or its end may have been, at most.
    pub lag: Nanos,
    /// How much earlier than noted its end may have been, at most.
    pub(super) end_lag: Nanos,
    /// Whether the runner begins it and the worker, or quiet, ends it: both know the instants.
    pub led: bool,
    /// Metrics that the worker measured itself, once the phase has ended; of several workers, their joint ones.
    pub report: Option<Box<PhaseReport>>,
    /// What each worker did and measured, where several share the store, in their order.
    pub parts: Vec<WorkerPart>,
    /// The invocations that it consists of, where it is a function; begin and end are those of the first and the last.
    pub calls: Option<Calls>,
    /// Invocations that were only counted have used up its limit.
    pub is_overdue: bool,
    /// State of the function that ends it, if one does.
    pub ending: Ending,
    /// The earliest instant at which it may have begun: a line is older than its reading.
    pub(super) not_before: Nanos,
}

/// State of the function of which one invocation is to end a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// It was called.
    pub called: bool,
    /// Invocations of it ended before the phase began.
    pub early: bool,
    /// Some of its invocations were counted and not reported one by one.
    pub counted: bool,
}

/// The part of a phase that one of several workers did.
#[derive(Clone, Debug)]
pub struct WorkerPart {
    /// When its first timed section began.
    pub began: Nanos,
    /// When its last one ended.
    pub ended: Nanos,
    /// What its worker measured.
    pub report: Box<PhaseReport>,
}

impl WorkerPart {
    /// From the first begin to the last end.
    pub fn makespan(parts: &[Self]) -> Nanos {
        let began = parts.iter().map(|part| part.began).min().unwrap_or_default();
        parts.iter().map(|part| part.ended).max().unwrap_or_default().since(began)
    }
}

/// What begins or ends a phase.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A line that matches.
    Line(Regex),
    /// A mark of this name.
    Mark(String),
    /// The end of another phase, by its index.
    After(usize),
    /// The end of the last replica.
    Replicas,
    /// What a probe, a watch or a worker reports: no line or mark can match it.
    Reported,
}

impl Event {
    fn of(trigger: &Trigger, specs: &[PhaseSpec]) -> Self {
        match trigger {
            Trigger::Line(pattern) => compiled(pattern).map_or_else(|| Self::Mark(String::new()), Self::Line),
            Trigger::Mark(name) => Self::Mark(name.clone()),
            // The checker has found it already.
            Trigger::After(name) => {
                specs.iter().position(|spec| spec.name == *name).map_or(Self::Reported, Self::After)
            }
            Trigger::Replicas => Self::Replicas,
            Trigger::Call(_) | Trigger::Invocation(_) | Trigger::Settle(_) => Self::Reported,
        }
    }

    /// Whether an event is this, for a begin or for an end.
    pub(super) fn is(&self, happened: Happened<'_>, boundary: Boundary) -> bool {
        match (self, happened) {
            (Self::Line(pattern), Happened::Line(line)) => pattern.is_match(line),
            (Self::Mark(name), Happened::Mark(mark)) => mark.boundary == boundary && mark.name == *name,
            (Self::Replicas, Happened::ReplicasEnded) => true,
            _ => false,
        }
    }
}

/// The checker has compiled every pattern already.
fn compiled(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

impl PhaseState {
    /// A phase that has not begun; `specs` are all phases.
    pub(super) fn new(observe: &ObserveSpec, specs: &[PhaseSpec]) -> Self {
        let event = |trigger: &Option<Trigger>| trigger.as_ref().map(|trigger| Event::of(trigger, specs));
        Self {
            begin: event(&observe.begin),
            end: event(&observe.end),
            read: observe.read.as_deref().and_then(compiled),
            stop: observe.stop,
            suspends: observe.suspends(),
            marked: observe.is_marked(),
            calls: observe.call().map(|_| Calls::default()),
            ..Self::default()
        }
    }

    /// A phase that the runner leads; it has not begun.
    pub(super) fn led() -> Self {
        let reported = Some(Event::Reported);
        Self { led: true, begin: reported.clone(), end: reported, ..Self::new(&ObserveSpec::WHOLE, &[]) }
    }

    /// It begins at an instant that may be `lag` earlier.
    pub fn note_begin(&mut self, at: Nanos, lag: Nanos) {
        (self.began, self.not_before) = (Some(at), at.since(lag));
        self.lag = self.lag.max(lag);
    }

    /// It ends at an instant that may be `lag` earlier; where its begin was noticed later than that, with it.
    pub(super) fn note_end(&mut self, at: Nanos, lag: Nanos) {
        (self.ended, self.lag, self.end_lag) = (self.began.max(Some(at)), self.lag.max(lag), lag);
    }

    /// The least that a phase took which seems to have taken `took`: its end may have been earlier.
    pub fn least(&self, took: Nanos) -> Nanos {
        took.since(self.end_lag)
    }

    /// A line matches its begin or its end, or both, and has neither begun nor ended it. What begins and ends inside it is
    /// contained in it.
    pub(super) fn repeat(&mut self, begins: bool, ends: bool) {
        match (begins, ends) {
            (_, true) if self.repeating => self.repeating = false,
            (true, _) if self.repeating || self.is_open() => self.inside += 1,
            (true, _) => (self.repeats, self.repeating) = (self.repeats + 1, true),
            (false, true) if self.inside > 0 => (self.repeats, self.inside) = (self.repeats + 1, self.inside - 1),
            _ => {}
        }
    }

    /// Handles an invocation of the function that ends it; returns whether this one does.
    pub(super) fn returned(&mut self, line: &ProbeLine) -> bool {
        match line.event {
            ProbeEvent::Begin { .. } => self.ending.called = true,
            ProbeEvent::Calls(ref tallied) => self.ending.counted |= tallied.count > 0,
            ProbeEvent::End { open, .. } => {
                let inside = self.is_open() && line.at >= self.not_before;
                self.ending.early |= self.ended.is_none() && !inside;
                // A thread is suspended where no invocation of the function is running in it any more.
                return inside && (open == 0 || !self.suspends);
            }
            _ => {}
        }
        false
    }

    /// Whether a line that did not exist before an instant, and is read now, may have been written inside it. An end
    /// other than a line may be read before the last of the phase's lines.
    pub(super) fn can_contain(&self, earliest: Nanos) -> bool {
        let ended = self.ended.filter(|_| !matches!(self.end, Some(Event::Line(_))));
        self.is_open() || ended.is_some_and(|ended| earliest <= ended)
    }

    /// Whether its `read` matches a line.
    pub(super) fn understands(&self, line: &str) -> bool {
        self.read.as_ref().is_some_and(|read| read.is_match(line))
    }

    /// A line matched its `read` and that of another phase: it is not known to which it belongs.
    pub(super) fn confuse(&mut self) {
        self.ambiguous = true;
        self.lines.clear();
    }

    /// The metrics that the phase's `read` names, as its lines reported them; metrics observed in another way are not
    /// included.
    pub fn reported(&self) -> BTreeMap<MetricKey, Reading<f64>> {
        let why = if self.ambiguous {
            "a line matched the `read` of this phase and the `read` of another phase"
        } else if self.unordered {
            "it is not known in which order lines of stdout and stderr were written: write all to one stream (`2>&1`)"
        } else if self.lines.is_empty() {
            "no line of the phase reported this metric"
        } else {
            "the last line of the phase that matched `read` did not report this metric"
        };
        let unread = || Reading::failed(why);
        let keys = self.names().filter_map(|name| group_meaning(name).map(|meaning| meaning.key));
        keys.map(|key| (key, self.lines.reading(key).cloned().unwrap_or_else(unread))).collect()
    }

    /// The groups of its `read`.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.read.iter().flat_map(|read| read.capture_names().flatten())
    }

    /// Whether its `read` is to find the answer of the phase, or a part of it.
    pub fn reads_answer(&self) -> bool {
        self.names().any(|name| [DIGEST_GROUP, Metric::Rows.name()].contains(&name))
    }

    /// Whether the pattern that it shares with a replica was meant for that: only the replica wrote such lines.
    pub fn is_reported_by(&self, replica: &Self) -> bool {
        let pattern = |of: &Self| of.read.as_ref().map(|read| read.as_str().to_owned());
        self.heard_nothing() && pattern(self) == pattern(replica) && !replica.heard_nothing()
    }

    /// Whether it is running.
    pub fn is_open(&self) -> bool {
        match &self.calls {
            Some(calls) => calls.is_open(),
            None => self.began.is_some() && self.ended.is_none(),
        }
    }

    /// Whether it was running at an instant, as far as is known: its end may be earlier than noted.
    pub fn was_open(&self, at: Nanos) -> bool {
        match &self.calls {
            Some(calls) => calls.was_open(at),
            None => {
                let ended = self.ended.is_some_and(|ended| ended.since(self.lag) <= at);
                self.began.is_some_and(|began| began < at) && !ended
            }
        }
    }

    /// Whether it began and ended.
    pub fn is_complete(&self) -> bool {
        self.ended.is_some() && !self.is_open()
    }

    /// Handles an invocation of its function.
    pub fn called(&mut self, line: &ProbeLine) -> Called {
        let Some(calls) = &mut self.calls else { return Called::Nothing };
        match &line.event {
            ProbeEvent::Begin { open, .. } => {
                let (first, idle) = (self.began.is_none(), !calls.is_open());
                calls.begin(line.source, line.at, *open);
                if first {
                    self.began = Some(line.at);
                    Called::First
                } else if idle {
                    Called::Again
                } else {
                    Called::Nothing
                }
            }
            ProbeEvent::End { open, ok, took, .. } => {
                // An end whose line came late ends nothing: the later ones had been read.
                let idle = !calls.is_open();
                calls.end(line.source, line.at, *open, *ok, *took);
                self.ended = self.ended.max(Some(line.at));
                if idle || calls.is_open() { Called::Nothing } else { Called::Ended }
            }
            ProbeEvent::Calls(tallied) => {
                let idle = !calls.is_open();
                calls.counted(line);
                // They are reported later than they end, often only when the program does.
                self.ended = self.ended.max((tallied.count > 0).then_some(tallied.last));
                match (idle, calls.is_open()) {
                    (_, false) => Called::Ended,
                    (true, true) => Called::Again,
                    (false, true) => Called::Nothing,
                }
            }
            _ => Called::Nothing,
        }
    }

    /// Whether the program's own end is its end.
    pub const fn ends_with_program(&self) -> bool {
        self.end.is_none()
    }

    /// Whether its end is that of the subject, so that only the trial's outcome shows whether it was reached: the end
    /// of the program, of its replicas, or of all calls of a function, after which another might have come.
    pub const fn ends_with_subject(&self) -> bool {
        self.calls.is_some() || matches!(self.end, None | Some(Event::Replicas))
    }

    /// Whether lines should have been read and none of them matched.
    pub fn heard_nothing(&self) -> bool {
        self.read.is_some() && self.lines.is_empty() && !self.is_confused()
    }

    /// Whether what its lines reported does not count.
    const fn is_confused(&self) -> bool {
        self.ambiguous || self.unordered
    }

    /// Reads a line.
    pub(super) fn listen(&mut self, line: &str, written: Written) {
        let Some(read) = self.read.as_ref().filter(|_| !self.is_confused()) else { return };
        let Some(captures) = read.captures(line) else { return };
        if self.lines.add(read, &captures, line, written) {
            self.disorder();
        }
    }

    /// A line `bounded` it, or its `read` matches that line.
    pub(super) fn order(&mut self, written: Written, bounded: bool, read: bool) {
        if self.order.note(written, bounded, read) {
            self.disorder();
        }
    }

    /// The order of lines that decide what it reads is not known.
    fn disorder(&mut self) {
        self.unordered = true;
        self.lines.clear();
    }

    /// Whether a text is enough to begin or to end it.
    pub(super) fn is_bounded_by(&self, text: &str) -> bool {
        let is = |event: &Option<Event>| matches!(event, Some(Event::Line(pattern)) if pattern.is_match(text));
        is(&self.begin) || is(&self.end)
    }
}

/// What an invocation changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// The phase has begun.
    First,
    /// An invocation is running again.
    Again,
    /// None is running any more.
    Ended,
    /// Nothing.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe_reports::tests::line;

    fn counted(at: u64, count: u64, open: u64) -> ProbeLine {
        reported(at, at, count, open)
    }

    /// Of invocations of which the last one ended before the report.
    fn reported(at: u64, last: u64, count: u64, open: u64) -> ProbeLine {
        let rest = format!(
            r#""probe":"calls","call":"p","open":{open},"overlapped":true,"last":{last}000000,"count":{count},"failed":0,"total":9,"min":1,"max":5,"sub":1,"classes":[]"#
        );
        line(1, 0, at, &rest)
    }

    #[test]
    fn counted_invocations_end_the_phase_and_reopen_it() {
        let mut phase = PhaseState { calls: Some(Calls::default()), ..PhaseState::default() };
        let begin = line(1, 0, 5, r#""probe":"begin","call":"p","n":1,"open":0"#);
        let end = line(1, 0, 9, r#""probe":"end","call":"p","n":1,"open":2,"ok":true,"took":5"#);
        let lines = [begin, end, counted(10, 1, 1), counted(20, 2, 0), counted(40, 2, 1), counted(50, 3, 0)];
        let changes: Vec<Called> = lines.iter().map(|line| phase.called(line)).collect();
        use Called::{Again, Ended, First, Nothing};
        assert_eq!(changes, [First, Nothing, Nothing, Ended, Again, Ended]);
        assert_eq!((phase.ended, phase.is_complete()), (Some(Nanos::from_millis(50)), true));
        phase.called(&counted(60, 3, 1));
        assert!(!phase.is_complete(), "one had not returned when the program ended");
    }

    /// 20,000 calls within 0.13 s were a phase of 3.2 s, since the rest of the program reported them at its exit.
    #[test]
    fn phase_of_counted_invocations_ends_with_the_last_of_them_whenever_that_is_reported() {
        let mut phase = PhaseState { calls: Some(Calls::default()), ..PhaseState::default() };
        let begin = line(1, 0, 5, r#""probe":"begin","call":"p","n":1,"open":0"#);
        let end = line(1, 0, 9, r#""probe":"end","call":"p","n":1,"open":0,"ok":true,"took":5"#);
        for line in [begin, end, counted(10, 1, 0), reported(3_000, 130, 19_000, 0)] {
            phase.called(&line);
        }
        assert_eq!((phase.ended, phase.lag, phase.is_complete()), (Some(Nanos::from_millis(130)), Nanos::ZERO, true));
    }

    /// Threads of Python write their lines in another order than that of the ends.
    #[test]
    fn end_that_is_read_after_a_later_one_ends_the_phase_once() {
        let mut phase = PhaseState { calls: Some(Calls::default()), ..PhaseState::default() };
        let begin = |at, open| line(1, 0, at, &format!(r#""probe":"begin","call":"p","n":1,"open":{open}"#));
        let end =
            |at, open| line(1, 0, at, &format!(r#""probe":"end","call":"p","n":1,"open":{open},"ok":true,"took":5"#));
        let changes = [begin(0, 0), begin(1, 1), end(11, 0), end(10, 1)].map(|line| phase.called(&line));
        assert_eq!(changes, [Called::First, Called::Nothing, Called::Ended, Called::Nothing]);
        assert_eq!((phase.ended, phase.is_complete()), (Some(Nanos::from_millis(11)), true));
    }

    /// Where the end of an invocation was counted, that is why none ended the phase; where it never came, it is not.
    #[test]
    fn counted_invocation_that_has_not_ended_is_no_counted_end() {
        let mut phase = PhaseState::default();
        assert!(!phase.returned(&counted(10, 0, 1)) && !phase.ending.counted);
        assert!(!phase.returned(&counted(20, 1, 0)) && phase.ending.counted);
        assert!(!phase.returned(&counted(30, 0, 1)) && phase.ending.counted, "of another thread");
    }
}
