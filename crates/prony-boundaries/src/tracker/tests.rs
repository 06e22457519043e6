//! Tests of how sources of boundaries begin and end phases.

use prony_model::program::{ObserveSpec, Trigger};
use prony_model::spec::Action;

use super::*;
use crate::phase_state::{Called, Ending};
use crate::probe_reports::tests::line as line_of;
use prony_model::reading::Reading;

fn line(pattern: &str) -> Option<Trigger> {
    Some(Trigger::Line(pattern.into()))
}

fn mark(name: &str) -> Option<Trigger> {
    Some(Trigger::Mark(name.into()))
}

fn phase(begin: Option<Trigger>, end: Option<Trigger>, read: Option<&str>, stop: bool) -> PhaseSpec {
    let observe = ObserveSpec { begin, end, read: read.map(str::to_owned), stop, at_end: None };
    PhaseSpec { name: "p".into(), timed: true, action: Action::Observe(observe), background: None, limit: None }
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
fn lines_that_would_begin_a_phase_again_are_counted() {
    let mut tracker = Tracker::new(&[
        phase(line("^go"), line("^done"), None, false),
        phase(line("tick"), line("tick"), None, false),
        phase(line("^go"), None, None, false),
        phase(None, line("^done"), None, false),
        phase(line("^tick"), line("^go"), None, false),
    ]);
    tracker.start(at(0));
    let lines = ["done", "go", "tick", "done", "tick", "go", "done", "tick", "go", "go", "tick", "tick", "done"];
    lines.into_iter().zip(1..).for_each(|(text, when)| drop(say(&mut tracker, text, when)));
    let repeats: Vec<u64> = tracker.phases.iter().map(|phase| phase.repeats).collect();
    assert_eq!(repeats, [2, 2, 0, 0, 3], "ticks begin and end in turn; one begins inside, and ends after it");
    assert_eq!((tracker.phases[0].began, tracker.phases[0].ended), (Some(at(2)), Some(at(4))));
}

#[test]
fn what_is_read_is_the_last_line_of_the_phase() {
    let read = r"(?<time>[\d.]+)s - (?<operations>[\d,]+)";
    let mut tracker = Tracker::new(&[phase(line("go"), line("end"), Some(read), false)]);
    say(&mut tracker, "9.9s - 9", 0);
    assert!(tracker.phases[0].heard_nothing(), "it had not begun");
    say(&mut tracker, "go 0.5s - 1", 1);
    say(&mut tracker, "end 1.5s - 2,000", 2);
    say(&mut tracker, "7s - 7", 3);
    let reported: Vec<(String, f64)> =
        tracker.phases[0].reported().iter().map(|(key, n)| (key.to_string(), *n.measured().unwrap())).collect();
    assert_eq!(reported, [("time".to_owned(), 1.5e9), ("operations".to_owned(), 2000.0)]);
}

#[test]
fn reported_values_below_zero_or_beyond_every_number_and_times_of_zero_are_missing() {
    let read = r"(?<time_ms>\S+) ms, (?<operations>\S+) done";
    let mut tracker = Tracker::new(&[phase(line("go"), line("end"), Some(read), false)]);
    say(&mut tracker, "go", 1);
    for (number, text) in ["-5", "1e400", "NaN", "-inf", "0.00"].into_iter().enumerate() {
        say(&mut tracker, &format!("{text} ms, -10 done"), 2 + number as u64);
        let reported = tracker.phases[0].reported();
        let why = |key: &str| Reading::failed(format!("the program reported the invalid value `{key}`"));
        assert_eq!(reported[&"time".parse().unwrap()], why(text));
        assert_eq!(reported[&"operations".parse().unwrap()], why("-10"));
    }
}

fn written(text: &str, early: Option<(&str, u64)>, (earliest, read): (u64, u64)) -> Line {
    let early = early.map(|(text, earliest)| (text.to_owned(), at(earliest)));
    Line { text: text.to_owned(), early, earliest: at(earliest), at: at(read) }
}

/// What is read of stdout is handled before what is read of stderr in the same turn.
#[test]
fn values_are_missing_if_the_order_of_lines_of_two_streams_is_not_known() {
    let read = r"(?<operations>\d+) done|(?<errors>\d+) failed";
    let specs = [phase(line("^go"), line("^end"), Some(read), false), phase(line("^end"), None, Some(read), false)];
    let values = |lines: &[(usize, &str, (u64, u64))]| {
        let mut tracker = Tracker::new(&specs);
        lines.iter().for_each(|(stream, text, when)| drop(tracker.line(*stream, &written(text, None, *when))));
        [0, 1].map(|index: usize| {
            let reported = tracker.phases[index].reported();
            let of = |key: &str| reported[&key.parse().unwrap()].measured().copied();
            (of("operations"), of("errors"), tracker.phases[index].unordered)
        })
    };
    let begun = [(0, "go", (0, 1)), (1, "900 done", (5, 6)), (1, "0 failed", (5, 6))];
    let and = |lines: &[(usize, &'static str, (u64, u64))]| values(&[&begun, lines].concat());
    let (known, none, unknown) = ((Some(900.0), Some(0.0), false), (None, None, false), (None, None, true));
    assert_eq!(and(&[(0, "end", (7, 8)), (1, "noise", (7, 8))]), [known, none]);
    assert_eq!(and(&[(0, "end", (7, 8)), (1, "1000 done", (7, 8))]), [unknown, unknown], "of which phase?");
    assert_eq!(and(&[(0, "end", (5, 7))]), [unknown, unknown], "the line that was handled before may be later");
    assert_eq!(and(&[(0, "end", (7, 8)), (1, "7 done", (8, 9))]), [known, (Some(7.0), None, false)]);
    assert_eq!(and(&[(0, "1000 done", (5, 7))])[0], unknown, "which is the last?");
    assert_eq!(and(&[(0, "1000 done", (6, 7))])[0], (Some(1000.0), Some(0.0), false));
    let kinds = values(&[(0, "go", (0, 1)), (0, "900 done", (5, 6)), (1, "7 failed", (5, 6))]);
    assert_eq!(kinds[0], (Some(900.0), Some(7.0), false), "neither replaces the other");
}

/// A program that writes `loading... `, works, and then `done`, begins a phase by the first and ends another by the second.
#[test]
fn boundary_may_be_as_early_as_the_part_of_its_line_that_shows_it() {
    let line_of = written("loading... done", Some(("loading... ", 2)), (90, 91));
    let mut tracker = Tracker::new(&[phase(None, line("done$"), None, false)]);
    tracker.start(at(0));
    tracker.line(0, &line_of);
    assert_eq!((tracker.phases[0].ended, tracker.phases[0].lag), (Some(at(91)), at(1)));
    let mut tracker = Tracker::new(&[phase(line("^loading"), None, None, false)]);
    tracker.line(0, &line_of);
    assert_eq!((tracker.phases[0].began, tracker.phases[0].lag), (Some(at(91)), at(89)));
}

#[test]
fn marks_bound_phases_and_unknown_marks_are_recorded() {
    let mut tracker = Tracker::new(&[phase(mark("load"), mark("load"), None, false), phase(None, None, None, false)]);
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
    assert_eq!(tracker.finish(at(9), None).ended, [1]);
    assert_eq!(tracker.strange, ["load end", "laod begin"]);
}

#[test]
fn marks_that_would_begin_a_phase_again_are_counted() {
    let mut tracker = Tracker::new(&[phase(mark("w"), mark("w"), None, false)]);
    for (text, when) in ["w begin", "w end", "w begin", "w end", "w begin", "w end"].into_iter().zip(1..) {
        marked(&mut tracker, text, when);
    }
    assert_eq!((tracker.phases[0].repeats, tracker.unknown_marks), (2, 0));
    assert_eq!((tracker.phases[0].began, tracker.phases[0].ended), (Some(at(1)), Some(at(2))));
}

fn marked(tracker: &mut Tracker, text: &str, when: u64) {
    tracker.happened(Happened::Mark(&Mark::parse(text).unwrap()), at(when), at(1));
}

fn time(tracker: &Tracker, phase: usize) -> Option<f64> {
    tracker.phases[phase].reported().values().next()?.measured().copied()
}

/// Lines and marks arrive on two channels: the mark that ends a phase may be read before its last line.
#[test]
fn a_marked_phase_reads_lines_that_may_have_been_written_inside() {
    let mut tracker = Tracker::new(&[phase(mark("a"), mark("a"), Some(r"t (?<time>[\d.]+)"), false)]);
    say(&mut tracker, "t 4", 1);
    assert_eq!(time(&tracker, 0), None, "its begin is read before lines that are younger");
    marked(&mut tracker, "a begin", 2);
    say(&mut tracker, "t 5", 3);
    marked(&mut tracker, "a end", 5);
    say(&mut tracker, "t 6", 6);
    assert_eq!(time(&tracker, 0), Some(6e9), "it was not there at 5 ms");
    say(&mut tracker, "t 7", 8);
    assert_eq!(time(&tracker, 0), Some(6e9), "it was written after the end");
}

#[test]
fn a_line_that_several_phases_match_is_read_by_none_of_them() {
    let read = Some(r"t (?<time>[\d.]+)");
    let mut tracker = Tracker::new(&[
        phase(mark("a"), mark("a"), read, false),
        phase(mark("b"), None, Some("t 5"), false),
        phase(mark("c"), None, Some(r"other (?<time>[\d.]+)"), false),
    ]);
    ["a", "c"].into_iter().for_each(|name| marked(&mut tracker, &format!("{name} begin"), 1));
    say(&mut tracker, "t 6", 2);
    assert_eq!(time(&tracker, 0), Some(6e9));
    ["t 5", "t 7", "other 8"].into_iter().for_each(|line| drop(say(&mut tracker, line, 3)));
    let ambiguous: Vec<bool> = tracker.phases.iter().map(|phase| phase.ambiguous).collect();
    assert_eq!(ambiguous, [true, true, false], "whether or not the other phase is under way");
    assert_eq!((time(&tracker, 0), time(&tracker, 2)), (None, Some(8e9)));
    assert!(!tracker.phases[0].heard_nothing());
}

/// Each such line was matched with the patterns again, to know its order, and gave the phases a second fault.
#[test]
fn line_that_several_phases_match_has_no_order() {
    let read = Some(r"t (?<time>[\d.]+)");
    let mut tracker = Tracker::new(&[phase(mark("a"), line("^end"), read, false), phase(mark("b"), None, read, false)]);
    ["a", "b"].into_iter().for_each(|name| marked(&mut tracker, &format!("{name} begin"), 1));
    tracker.line(0, &written("t 5", None, (4, 6)));
    tracker.line(1, &written("end", None, (5, 7)));
    let faults: Vec<(bool, bool)> = tracker.phases.iter().map(|phase| (phase.ambiguous, phase.unordered)).collect();
    assert_eq!(faults, [(true, false), (true, false)]);
}

#[test]
fn phases_between_lines_may_read_the_same_lines() {
    let read = Some(r"t (?<time>[\d.]+)");
    let mut tracker =
        Tracker::new(&[phase(line("one"), line("two"), read, false), phase(line("two"), line("three"), read, false)]);
    for (when, text) in ["one t 1", "t 2", "two t 3", "t 4", "three"].into_iter().enumerate() {
        say(&mut tracker, text, when as u64);
    }
    assert_eq!((time(&tracker, 0), time(&tracker, 1)), (Some(3e9), Some(4e9)));
}

#[test]
fn a_line_ends_a_phase_that_a_mark_or_a_call_begins() {
    let mut tracker = Tracker::new(&[
        phase(mark("a"), line("^done"), Some(r"done (?<operations>\d+)"), true),
        phase(single("f"), line("^done"), None, false),
    ]);
    assert_eq!(say(&mut tracker, "done 4", 1), (vec![], vec![], false), "neither has begun");
    marked(&mut tracker, "a begin", 2);
    tracker.invoked(1, Part::Begin, &of_call("begin", 3, 0));
    assert_eq!(say(&mut tracker, "done 5", 4), (vec![], vec![0, 1], true));
    assert_eq!((time(&tracker, 0), tracker.phases[0].lag), (Some(5.0), at(1)));
}

#[test]
fn unknown_marks_are_counted_beyond_those_recorded() {
    let mut tracker = Tracker::new(&[]);
    (0..50).for_each(|n| tracker.unknown_mark(&format!("mark {n}")));
    assert_eq!((tracker.strange.len(), tracker.unknown_marks), (MOST_STRANGE, 50));
}

#[test]
fn a_function_is_under_way_as_often_as_it_is_called() {
    let call = Some(Trigger::Call("a.js#f".into()));
    let after = Some(Trigger::After("p".into()));
    let mut tracker = Tracker::new(&[phase(call.clone(), call, None, false), phase(after, mark("x"), None, false)]);
    assert!(!tracker.listens() && tracker.start(at(0)).is_none());
    let begin = |when, open| line_of(1, 0, when, &format!(r#""probe":"begin","call":"p","n":1,"open":{open}"#));
    let end = |when, open| {
        line_of(1, 0, when, &format!(r#""probe":"end","call":"p","n":1,"open":{open},"ok":true,"took":5"#))
    };
    let phase = &mut tracker.phases[0];
    let lines = [begin(5, 0), begin(6, 1), end(7, 1), end(8, 0), begin(20, 0), end(30, 0)];
    let changes: Vec<Called> = lines.iter().map(|line| phase.called(line)).collect();
    use Called::{Again, Ended, First, Nothing};
    assert_eq!(changes, [First, Nothing, Nothing, Ended, Again, Ended]);
    assert_eq!((phase.began, phase.ended, phase.is_complete()), (Some(at(5)), Some(at(30)), true));
    phase.called(&begin(40, 0));
    assert!(phase.is_open() && !phase.is_complete());
    let mut change = Change { ended: vec![0], ..Change::default() };
    tracker.follow(&mut change);
    assert_eq!((change.began, tracker.phases[1].began), (vec![1], Some(at(30))), "where none was under way");
    let mut again = Change { ended: vec![0], ..Change::default() };
    tracker.follow(&mut again);
    assert_eq!(again.began, [0; 0], "once only");
    assert!(tracker.finish(at(50), None).is_none(), "it ends with no program");
}

fn single(name: &str) -> Option<Trigger> {
    Some(Trigger::Invocation(name.into()))
}

/// An invocation of the function that begins or ends a phase, while so many others are running.
fn of_call(event: &str, when: u64, open: u64) -> ProbeLine {
    let end = if event == "end" { r#","ok":true,"took":5"# } else { "" };
    line_of(1, 0, when, &format!(r#""probe":"{event}","call":"p/x","n":1,"open":{open}{end}"#))
}

#[test]
fn the_first_begin_and_the_first_end_after_it_are_a_phase() {
    let mut tracker = Tracker::new(&[phase(single("f"), single("g"), None, true)]);
    let mut heard = |part, event: &str, when| {
        let change = tracker.invoked(0, part, &of_call(event, when, 0));
        (change.began.len(), change.ended.len(), change.stop)
    };
    assert_eq!(heard(Part::End, "end", 3), (0, 0, false), "it had not begun");
    assert_eq!(heard(Part::Begin, "begin", 5), (1, 0, false));
    assert_eq!(heard(Part::Begin, "begin", 6), (0, 0, false), "the first one's");
    assert_eq!(heard(Part::End, "begin", 7), (0, 0, false));
    assert_eq!(heard(Part::End, "end", 9), (0, 1, false), "the caller stops it where it is suspended");
    assert_eq!(heard(Part::End, "end", 11), (0, 0, false), "once only");
    let tracked = &tracker.phases[0];
    assert_eq!((tracked.began, tracked.ended, tracked.lag), (Some(at(5)), Some(at(9)), at(0)), "the probe's own times");
    assert_eq!(tracked.ending, Ending { called: true, early: true, counted: false });
}

/// A thread is suspended only where it is outside of the function.
#[test]
fn suspension_ends_the_phase_at_the_outermost_invocation() {
    let mut tracker = Tracker::new(&[phase(single("f"), single("g"), None, true)]);
    tracker.invoked(0, Part::Begin, &of_call("begin", 5, 0));
    assert!(tracker.invoked(0, Part::End, &of_call("end", 7, 1)).is_none());
    assert_eq!(tracker.invoked(0, Part::End, &of_call("end", 8, 0)).ended, [0]);
    assert!(!tracker.phases[0].ending.early);
}

#[test]
fn a_line_may_be_older_than_a_report_of_a_probe() {
    let mut tracker = Tracker::new(&[phase(line("go"), single("g"), None, false)]);
    tracker.happened(Happened::Line("go"), at(20), at(6));
    assert!(tracker.invoked(0, Part::End, &of_call("end", 13, 0)).is_none(), "before it can have been written");
    assert_eq!(tracker.invoked(0, Part::End, &of_call("end", 15, 1)).ended, [0]);
    assert_eq!((tracker.phases[0].ended, tracker.phases[0].lag), (Some(at(20)), at(6)), "the line's");
}

#[test]
fn a_phase_begins_where_another_ends() {
    let after = || Some(Trigger::After("p".into()));
    let settle =
        Some(Trigger::Settle(prony_model::spec::SettleSpec { quiet: at(5), within: at(50), ..Default::default() }));
    let mut settling = phase(after(), settle, None, true);
    settling.name = "settle".into();
    let mut last = phase(Some(Trigger::After("settle".into())), None, None, false);
    last.name = "last".into();
    let mut tracker = Tracker::new(&[phase(mark("load"), mark("load"), None, false), settling, last]);
    tracker.happened(Happened::Mark(&Mark::parse("load begin").unwrap()), at(1), Nanos::ZERO);
    let change = tracker.happened(Happened::Mark(&Mark::parse("load end").unwrap()), at(3), at(2));
    assert_eq!((change.ended, change.began, tracker.phases[1].began), (vec![0], vec![1], Some(at(3))));
    assert_eq!(tracker.phases[1].lag, at(2), "as late as its cause");
    let change = tracker.ended(1, at(30));
    assert_eq!((change.ended, change.began, change.stop), (vec![1], vec![2], true));
    assert_eq!(tracker.finish(at(40), None).ended, [2]);
}

#[test]
fn a_mark_cannot_end_what_had_not_begun() {
    let mut tracker =
        Tracker::new(&[phase(mark("a"), mark("a"), None, false), phase(mark("b"), mark("a"), None, false)]);
    let end = Mark::parse("a end").unwrap();
    assert_eq!(tracker.not_before(&end), None);
    let begin = Mark { at: Some(at(10)), ..Mark::parse("a begin").unwrap() };
    tracker.happened(Happened::Mark(&begin), at(10), at(0));
    assert_eq!(tracker.not_before(&end), Some(at(10)));
    tracker.happened(Happened::Mark(&Mark::parse("b begin").unwrap()), at(15), at(3));
    assert_eq!(tracker.not_before(&end), Some(at(12)), "a mark without its time may be older than its reading");
    assert_eq!(tracker.not_before(&Mark::parse("a begin").unwrap()), None);
    tracker.happened(Happened::Mark(&end), at(20), at(1));
    assert_eq!(tracker.not_before(&end), None, "there is nothing left to end");
}

#[test]
fn the_end_of_the_last_replica_ends_a_phase_and_begins_another() {
    let replicas = || Some(Trigger::Replicas);
    let mut tracker =
        Tracker::new(&[phase(line("ready"), replicas(), None, true), phase(replicas(), None, None, false)]);
    tracker.start(at(0));
    say(&mut tracker, "ready", 1);
    let change = tracker.happened(Happened::ReplicasEnded, at(9), at(0));
    assert_eq!((change.ended, change.began, change.stop), (vec![0], vec![1], true));
    assert_eq!((tracker.phases[0].ended, tracker.phases[0].lag), (Some(at(9)), at(1)), "its line's");
    assert_eq!(tracker.strange, Vec::<String>::new(), "it is no mark");
}

#[test]
fn replicas_that_end_beside_the_program_end_their_phase_first() {
    let phases = [
        phase(line("ready"), Some(Trigger::Replicas), None, false),
        phase(Some(Trigger::After("p".into())), None, None, false),
    ];
    let finished = |replicas| {
        let mut tracker = Tracker::new(&phases);
        say(&mut tracker, "ready", 1);
        let change = tracker.finish(at(9), replicas);
        (change.began, change.ended, tracker)
    };
    let (began, ended, tracker) = finished(Some(at(8)));
    assert_eq!((began, ended), (vec![1], vec![0, 1]));
    assert_eq!((tracker.phases[0].ended, tracker.phases[0].lag), (Some(at(8)), at(1)));
    assert_eq!((tracker.phases[1].began, tracker.phases[1].ended), (Some(at(8)), Some(at(9))));
    let (began, ended, tracker) = finished(None);
    assert_eq!((began, ended, tracker.phases[0].is_open()), (vec![], vec![], true), "one of them was cut off");
}

#[test]
fn a_phase_that_waits_for_its_end_stays_open_when_the_program_ends() {
    let mut tracker = Tracker::new(&[phase(None, mark("never"), None, false)]);
    tracker.start(at(0));
    assert!(tracker.finish(at(5), None).is_none() && tracker.phases[0].is_open());
}
