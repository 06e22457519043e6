//! Which phases of a program are under way, from its lines and marks. Pure: instants come from outside.

use std::collections::BTreeMap;

use prony_core::experiment::program::{DIGEST_GROUP, ObserveSpec, Trigger, group_meaning};
use prony_core::experiment::spec::{Action, PhaseSpec};
use prony_core::metric::MetricKey;
use prony_core::units::Nanos;
use prony_probe::runtime::{ProbeEvent, ProbeLine};
use regex::Regex;

use super::calls::Calls;
use super::marks::{Edge, Mark};

/// Something that a program did.
#[derive(Clone, Copy, Debug)]
pub enum Happened<'a> {
    /// It wrote a line.
    Line(&'a str),
    /// It made a mark.
    Mark(&'a Mark),
    /// The last of its replicas ended.
    ReplicasEnded,
}

/// One phase, as far as it has come.
#[derive(Clone, Debug)]
pub struct Tracked {
    begin: Option<Event>,
    end: Option<Event>,
    read: Option<Regex>,
    stop: bool,
    /// A mark has begun it since lines were last read: those that come next may be older.
    fresh: bool,
    /// When it began.
    pub began: Option<Nanos>,
    /// When it ended.
    pub ended: Option<Nanos>,
    /// What its lines told.
    pub told: BTreeMap<MetricKey, f64>,
    /// The digest of its answer that its lines told.
    pub digest: Option<String>,
    /// How late its begin or end may have been noticed, at most.
    pub lag: Nanos,
    /// The invocations that it consists of, where it is a function; begin and end are those of the first and the last.
    pub calls: Option<Calls>,
}

#[derive(Clone, Debug)]
enum Event {
    Line(Regex),
    Mark(String),
    /// What a probe tells: no line or mark can be it.
    Call,
    /// The end of the last replica.
    Replicas,
}

impl Event {
    fn of(trigger: &Trigger) -> Self {
        match trigger {
            Trigger::Line(pattern) => compiled(pattern).map_or_else(|| Self::Mark(String::new()), Self::Line),
            Trigger::Mark(name) => Self::Mark(name.clone()),
            Trigger::Call(_) => Self::Call,
            Trigger::Replicas => Self::Replicas,
        }
    }

    fn is(&self, happened: Happened<'_>, edge: Edge) -> bool {
        match (self, happened) {
            (Self::Line(pattern), Happened::Line(line)) => pattern.is_match(line),
            (Self::Mark(name), Happened::Mark(mark)) => mark.edge == edge && mark.name == *name,
            (Self::Replicas, Happened::ReplicasEnded) => true,
            _ => false,
        }
    }
}

/// The checker has compiled every pattern before.
fn compiled(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

impl Tracked {
    fn new(observe: &ObserveSpec) -> Self {
        Self {
            begin: observe.begin.as_ref().map(Event::of),
            end: observe.end.as_ref().map(Event::of),
            read: observe.read.as_deref().and_then(compiled),
            stop: observe.stop,
            fresh: false,
            began: None,
            ended: None,
            told: BTreeMap::new(),
            digest: None,
            lag: Nanos::ZERO,
            calls: observe.call().map(|_| Calls::default()),
        }
    }

    /// Whether it is under way.
    pub fn is_open(&self) -> bool {
        match &self.calls {
            Some(calls) => calls.is_open(),
            None => self.began.is_some() && self.ended.is_none(),
        }
    }

    /// Whether it began and ended.
    pub fn is_complete(&self) -> bool {
        self.ended.is_some() && !self.is_open()
    }

    /// Hears of an invocation of its function, `lag` after it happened.
    pub fn called(&mut self, line: &ProbeLine, lag: Nanos) -> Called {
        let Some(calls) = &mut self.calls else { return Called::Nothing };
        match &line.event {
            ProbeEvent::Begin { open, .. } => {
                let (first, idle) = (self.began.is_none(), !calls.is_open());
                calls.begin(line.source, line.at, *open);
                if first {
                    (self.began, self.lag) = (Some(line.at), self.lag.max(lag));
                }
                if first {
                    Called::First
                } else if idle {
                    Called::Again
                } else {
                    Called::Nothing
                }
            }
            ProbeEvent::End { open, ok, took, .. } => {
                calls.end(line.source, line.at, *open, *ok, *took);
                self.ended = self.ended.max(Some(line.at));
                if calls.is_open() { Called::Nothing } else { Called::Ended }
            }
            ProbeEvent::Calls(_) => {
                // Such a line comes at an end, or later: not more than since the line before it.
                self.lag = self.lag.max(calls.counted(line));
                self.ended = self.ended.max(Some(line.at));
                if calls.is_open() { Called::Nothing } else { Called::Ended }
            }
            _ => Called::Nothing,
        }
    }

    /// Whether the program's own end is its end.
    pub const fn ends_with_program(&self) -> bool {
        self.end.is_none()
    }

    /// Whether lines were to be read and none of them matched.
    pub fn heard_nothing(&self) -> bool {
        self.read.is_some() && self.told.is_empty() && self.digest.is_none()
    }

    /// Reads a line; whether it matched.
    fn listen(&mut self, line: &str) -> bool {
        let Some(captures) = self.read.as_ref().and_then(|read| Some((read, read.captures(line)?))) else {
            return false;
        };
        let (read, captures) = captures;
        for name in read.capture_names().flatten() {
            let Some(text) = captures.name(name).map(|text| text.as_str()) else { continue };
            if name == DIGEST_GROUP {
                self.digest = Some(text.to_owned());
            }
            let number = text.replace([',', '_'], "").parse::<f64>().ok();
            if let (Some(number), Some(meaning)) = (number, group_meaning(name)) {
                self.told.insert(meaning.key, number * meaning.scale);
            }
        }
        true
    }
}

/// What an invocation changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// The phase has begun.
    First,
    /// One is under way again.
    Again,
    /// None is under way any more.
    Ended,
    /// Nothing.
    Nothing,
}

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
    pub const fn is_none(&self) -> bool {
        self.began.is_empty() && self.ended.is_empty()
    }
}

/// All phases of a trial.
#[derive(Clone, Debug)]
pub struct Tracker {
    /// In the experiment's order.
    pub phases: Vec<Tracked>,
    /// Marks that belong to no phase or are not what they should be, the first few.
    pub strange: Vec<String>,
    /// How many there were.
    pub strangers: u64,
}

/// Strange marks that are kept.
const MOST_STRANGE: usize = 20;

impl Tracker {
    /// Nothing has begun.
    pub fn new(specs: &[PhaseSpec]) -> Self {
        let observe = |spec: &PhaseSpec| match &spec.action {
            Action::Observe(observe) => Tracked::new(observe),
            _ => Tracked::new(&ObserveSpec::WHOLE),
        };
        Self { phases: specs.iter().map(observe).collect(), strange: Vec::new(), strangers: 0 }
    }

    /// Whether any phase looks at lines.
    pub fn listens(&self) -> bool {
        let line = |event: &Option<Event>| matches!(event, Some(Event::Line(_)));
        self.phases.iter().any(|phase| line(&phase.begin) || line(&phase.end) || phase.read.is_some())
    }

    /// The program begins.
    pub fn start(&mut self, at: Nanos) -> Change {
        let mut change = Change::default();
        for (index, phase) in self.phases.iter_mut().enumerate().filter(|(_, phase)| phase.begin.is_none()) {
            phase.began = Some(at);
            change.began.push(index);
        }
        change
    }

    /// Something happened at an instant, which may be known later by `lag` at most.
    pub fn happened(&mut self, happened: Happened<'_>, at: Nanos, lag: Nanos) -> Change {
        let mut change = Change::default();
        let (mut known, mut heard) = (false, false);
        for (index, phase) in self.phases.iter_mut().enumerate() {
            let ends = phase.end.as_ref().is_some_and(|end| end.is(happened, Edge::End));
            let begins = phase.begin.as_ref().is_some_and(|begin| begin.is(happened, Edge::Begin));
            let was_open = phase.is_open();
            if begins && phase.began.is_none() {
                (phase.began, phase.lag, known) = (Some(at), phase.lag.max(lag), true);
                phase.fresh = matches!(happened, Happened::Mark(_));
                change.began.push(index);
            }
            if let (Happened::Line(line), true) = (happened, phase.is_open() && !phase.fresh) {
                heard |= phase.listen(line);
            }
            if ends && was_open {
                (phase.ended, phase.lag, known) = (Some(at), phase.lag.max(lag), true);
                change.ended.push(index);
                change.stop |= phase.stop;
            }
        }
        if let (Happened::Line(line), false) = (happened, heard) {
            self.first_words(line);
        }
        if let (Happened::Mark(mark), false) = (happened, known) {
            self.stranger(&format!("{} {}", mark.name, mark.edge.name()));
        }
        change
    }

    /// A line for phases that have just begun: read only where one of them alone understands it, for else nobody knows
    /// whose it is.
    fn first_words(&mut self, line: &str) {
        let understands = |phase: &&mut Tracked| {
            phase.fresh && phase.is_open() && phase.read.as_ref().is_some_and(|read| read.is_match(line))
        };
        let mut listeners = self.phases.iter_mut().filter(understands);
        if let (Some(only), None) = (listeners.next(), listeners.next()) {
            only.listen(line);
        }
    }

    /// The lines that were written before the marks of this turn have been read.
    pub fn lines_read(&mut self) {
        self.phases.iter_mut().for_each(|phase| phase.fresh = false);
    }

    /// A mark that means nothing here.
    pub fn stranger(&mut self, text: &str) {
        self.strangers += 1;
        if self.strange.len() < MOST_STRANGE {
            self.strange.push(text.chars().take(200).collect());
        }
    }

    /// The program has ended by itself or was stopped: phases without an end of their own end with it.
    pub fn finish(&mut self, at: Nanos) -> Change {
        let mut change = Change::default();
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
mod tests {
    use super::super::threads::tests::line as line_of;
    use super::*;

    fn line(pattern: &str) -> Option<Trigger> {
        Some(Trigger::Line(pattern.into()))
    }

    fn mark(name: &str) -> Option<Trigger> {
        Some(Trigger::Mark(name.into()))
    }

    fn phase(begin: Option<Trigger>, end: Option<Trigger>, read: Option<&str>, stop: bool) -> PhaseSpec {
        let observe = ObserveSpec { begin, end, read: read.map(str::to_owned), stop, at_end: None };
        PhaseSpec { name: "p".into(), timed: true, action: Action::Observe(observe), limit: None }
    }

    fn at(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn say(tracker: &mut Tracker, text: &str, when: u64) -> (Vec<usize>, Vec<usize>, bool) {
        let change = tracker.happened(Happened::Line(text), at(when), at(1));
        (change.began, change.ended, change.stop)
    }

    #[test]
    fn one_line_ends_a_phase_and_begins_the_next() {
        let mut tracker = Tracker::new(&[
            phase(None, line("^source done"), None, false),
            phase(line("^source done"), line("^queries done"), None, true),
        ]);
        assert!(tracker.listens());
        assert_eq!(tracker.start(at(0)).began, [0]);
        assert_eq!(say(&mut tracker, "noise", 5), (vec![], vec![], false));
        assert_eq!(say(&mut tracker, "source done in 3", 10), (vec![1], vec![0], false));
        assert_eq!(say(&mut tracker, "source done in 3", 11), (vec![], vec![], false), "once only");
        assert_eq!(say(&mut tracker, "queries done", 20), (vec![], vec![1], true));
        assert_eq!((tracker.phases[1].began, tracker.phases[1].ended), (Some(at(10)), Some(at(20))));
        assert_eq!(tracker.phases[1].lag, at(1));
    }

    #[test]
    fn the_same_line_twice_is_a_begin_and_an_end() {
        let mut tracker = Tracker::new(&[phase(line("tick"), line("tick"), None, false)]);
        assert_eq!(say(&mut tracker, "tick", 1), (vec![0], vec![], false));
        assert_eq!(say(&mut tracker, "tick", 2), (vec![], vec![0], false));
    }

    #[test]
    fn what_is_read_is_the_last_line_of_the_phase() {
        let read = r"(?<time>[\d.]+)s - (?<operations>[\d,]+)";
        let mut tracker = Tracker::new(&[phase(line("go"), line("end"), Some(read), false)]);
        say(&mut tracker, "9.9s - 9", 0);
        assert!(tracker.phases[0].told.is_empty(), "it had not begun");
        say(&mut tracker, "go 0.5s - 1", 1);
        say(&mut tracker, "end 1.5s - 2,000", 2);
        say(&mut tracker, "7s - 7", 3);
        let told: Vec<(String, f64)> = tracker.phases[0].told.iter().map(|(key, n)| (key.to_string(), *n)).collect();
        assert_eq!(told, [("time".to_owned(), 1.5e9), ("operations".to_owned(), 2000.0)]);
    }

    #[test]
    fn marks_begin_and_end_and_strangers_are_kept() {
        let mut tracker =
            Tracker::new(&[phase(mark("load"), mark("load"), None, false), phase(None, None, None, false)]);
        assert!(!tracker.listens());
        tracker.start(at(0));
        let mut make = |text: &str, when| {
            let mark = Mark::parse(text).unwrap();
            tracker.happened(Happened::Mark(&mark), at(when), Nanos::ZERO)
        };
        assert!(make("load end", 1).is_none(), "it had not begun");
        assert_eq!(make("load begin", 2).began, [0]);
        assert_eq!(make("load end", 3).ended, [0]);
        assert!(make("laod begin", 4).is_none());
        assert_eq!(tracker.finish(at(9)).ended, [1]);
        assert_eq!(tracker.strange, ["load end", "laod begin"]);
    }

    /// Lines and marks come by two ways: a line that is read just after a mark may have been written before it.
    #[test]
    fn a_line_that_another_phase_understands_is_not_the_new_ones() {
        let read = Some(r"t (?<time>[\d.]+)");
        let mut tracker =
            Tracker::new(&[phase(mark("a"), mark("a"), read, false), phase(mark("b"), mark("b"), read, false)]);
        let mark = |tracker: &mut Tracker, text: &str| {
            tracker.happened(Happened::Mark(&Mark::parse(text).unwrap()), at(1), Nanos::ZERO);
        };
        let time = |tracker: &Tracker, phase: usize| tracker.phases[phase].told.values().next().copied();
        mark(&mut tracker, "a begin");
        tracker.lines_read();
        mark(&mut tracker, "b begin");
        say(&mut tracker, "t 5", 2);
        assert_eq!((time(&tracker, 0), time(&tracker, 1)), (Some(5e9), None), "said before b began, for all one knows");
        mark(&mut tracker, "a end");
        say(&mut tracker, "t 6", 3);
        assert_eq!((time(&tracker, 0), time(&tracker, 1)), (Some(5e9), Some(6e9)), "nobody else would have it");
        tracker.lines_read();
        say(&mut tracker, "t 7", 3);
        assert_eq!(time(&tracker, 1), Some(7e9));
        let mut both =
            Tracker::new(&[phase(self::mark("a"), None, read, false), phase(self::mark("b"), None, read, false)]);
        mark(&mut both, "a begin");
        mark(&mut both, "b begin");
        say(&mut both, "t 5", 2);
        assert_eq!((time(&both, 0), time(&both, 1)), (None, None), "nobody knows whose it is");
    }

    #[test]
    fn strangers_are_counted_beyond_those_that_are_kept() {
        let mut tracker = Tracker::new(&[]);
        (0..50).for_each(|n| tracker.stranger(&format!("mark {n}")));
        assert_eq!((tracker.strange.len(), tracker.strangers), (MOST_STRANGE, 50));
    }

    #[test]
    fn a_function_is_under_way_as_often_as_it_is_called() {
        let call = Some(Trigger::Call("a.js#f".into()));
        let mut tracker = Tracker::new(&[phase(call.clone(), call, None, false)]);
        assert!(!tracker.listens() && tracker.start(at(0)).is_none());
        let begin = |when, open| line_of(1, 0, when, &format!(r#""probe":"begin","call":"p","n":1,"open":{open}"#));
        let end = |when, open| {
            line_of(1, 0, when, &format!(r#""probe":"end","call":"p","n":1,"open":{open},"ok":true,"took":5"#))
        };
        let phase = &mut tracker.phases[0];
        let lines = [begin(5, 0), begin(6, 1), end(7, 1), end(8, 0), begin(20, 0), end(30, 0)];
        let changes: Vec<Called> = lines.iter().map(|line| phase.called(line, at(1))).collect();
        use Called::{Again, Ended, First, Nothing};
        assert_eq!(changes, [First, Nothing, Nothing, Ended, Again, Ended]);
        assert_eq!((phase.began, phase.ended, phase.is_complete()), (Some(at(5)), Some(at(30)), true));
        phase.called(&begin(40, 0), at(1));
        assert!(phase.is_open() && !phase.is_complete());
        assert!(tracker.finish(at(50)).is_none(), "it ends with no program");
    }

    #[test]
    fn the_end_of_the_last_replica_ends_a_phase_and_begins_another() {
        let replicas = || Some(Trigger::Replicas);
        let mut tracker =
            Tracker::new(&[phase(line("ready"), replicas(), None, true), phase(replicas(), None, None, false)]);
        tracker.start(at(0));
        say(&mut tracker, "ready", 1);
        let change = tracker.happened(Happened::ReplicasEnded, at(9), at(2));
        assert_eq!((change.ended, change.began, change.stop), (vec![0], vec![1], true));
        assert_eq!((tracker.phases[0].ended, tracker.phases[0].lag), (Some(at(9)), at(2)));
        assert_eq!(tracker.strange, Vec::<String>::new(), "it is no mark");
    }

    #[test]
    fn a_phase_that_waits_for_its_end_stays_open_when_the_program_ends() {
        let mut tracker = Tracker::new(&[phase(None, mark("never"), None, false)]);
        tracker.start(at(0));
        assert!(tracker.finish(at(5)).is_none() && tracker.phases[0].is_open());
    }
}
