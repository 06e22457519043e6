use prony_boundaries::tracker::Tracker;
use prony_model::protocol::PhaseReport;
use prony_model::spec::{Action, Limits, StoreSpec};
use prony_os::launch::{End, Status};
use prony_runtime::Source;

use super::*;
use crate::figures::replicas::tests::{cut_off, ran};
use crate::figures::span::tests::{ms, snapshot, watched};
use crate::figures::tests::lines::{heap, hello, threads};
use crate::watched::report::Report;
use crate::watched::services::Fault;

/// A trial of 900 ms whose main process exited with this code.
fn exited(code: i32) -> Watched {
    let mut watched = watched(vec![snapshot(0, 0, &[7]), snapshot(900, 0, &[])], vec![]);
    watched.ended.status = Status::Exited(code);
    watched
}

/// How it ended, with one phase that began at 100 ms and took 300 ms.
fn judged(watched: &mut Watched, report: Option<PhaseReport>, heap_aborts: &[ProbeLine]) -> Ending {
    let phase = PhaseSpec { name: "read".into(), timed: true, action: Action::Verify, background: None, limit: None };
    watched.tracker = Tracker::new(std::slice::from_ref(&phase));
    watched.tracker.lead(0, ms(100));
    watched.tracker.ended(0, ms(400));
    watched.tracker.phases[0].report = report.map(Box::new);
    let subject = Subject::Store(StoreSpec::of("memory"));
    let spec = TrialSpec {
        subject,
        services: Vec::new(),
        data: Vec::new(),
        phases: vec![phase],
        limits: Limits::default(),
        crashes: Vec::new(),
    };
    judge(&spec, watched, &Finished::default(), heap_aborts)
}

fn with_status(mut ran: Ran, status: Status) -> Ran {
    if let ReplicaEnd::Ended(end) = ran.end {
        ran.end = ReplicaEnd::Ended(Box::new(End { status, ..*end }));
    }
    ran
}

fn captured(text: &str) -> Captured {
    Captured { first: text.to_owned(), ..Captured::default() }
}

#[test]
fn failure_of_a_replica_is_that_of_the_trial() {
    let mut one = exited(0);
    one.replicas.all = vec![ran(1, (120, 300), 5, &[]), with_status(ran(2, (120, 350), 5, &[]), Status::Exited(3))];
    one.replicas.all[1].output[1] = captured("reading\nError: no such key\n");
    let ending = judged(&mut one, None, &[]);
    assert_eq!(ending.outcome, Outcome::Failed { code: Some(3) });
    assert_eq!((ending.phase.as_deref(), ending.after), (Some("read"), ms(250)));
    let expected = [
        "`replica.2`: the process exited with code 3",
        "`replica.2`: last lines of output: `reading`; `Error: no such key`",
    ];
    assert_eq!(ending.evidence, expected);
    one.replicas.all[1].end = ReplicaEnd::NotBegun("no such file".into());
    let ending = judged(&mut one, None, &[]);
    assert_eq!(
        (ending.outcome, ending.evidence),
        (Outcome::Failed { code: None }, vec!["`replica.2`: no such file".to_owned()])
    );
}

#[test]
fn replicas_that_a_failed_program_left_running_are_named() {
    let mut one = exited(1);
    one.replicas.all = vec![ran(1, (120, 300), 5, &[]), cut_off(ran(2, (120, 900), 5, &[]))];
    let ending = judged(&mut one, None, &[]);
    assert_eq!(ending.outcome, Outcome::Failed { code: Some(1) });
    assert_eq!(ending.evidence.last().map(String::as_str), Some("still running at that time: `replica.2`"));
}

#[test]
fn unsustained_rate_of_a_phase_or_its_background_is_the_outcome() {
    let mut one = exited(0);
    one.worker = Some(Report { asked_to_stop: Some(ms(800)), ..Report::default() });
    let beside = PhaseReport { saturated: true, ..PhaseReport::default() };
    for (report, of) in [
        (beside.clone(), "the requested rate was"),
        (
            PhaseReport { background: Some(Box::new(beside)), ..PhaseReport::default() },
            "the requested rate of the background was",
        ),
    ] {
        let ending = judged(&mut one, Some(report), &[]);
        assert_eq!((ending.outcome, ending.phase.as_deref()), (Outcome::Saturated, Some("read")));
        assert_eq!((ending.after, ending.evidence), (ms(300), vec![format!("{of} not sustained")]));
    }
    assert_eq!(judged(&mut one, Some(PhaseReport::default()), &[]).outcome, Outcome::Ok);
}

#[test]
fn full_heap_of_a_runtime_has_its_sizes_as_evidence() {
    let line = heap(8, 0, 600, "sample", 1_000);
    let ProbeEvent::Heap { heap: figures, .. } = line.event else { panic!("no heap") };
    let what = "Allocation failed - JavaScript heap out of memory".to_owned();
    let source = Source { pid: 8, thread: 0 };
    let abort = ProbeLine { at: ms(600), source, event: ProbeEvent::HeapAbort { heap: figures, what } };
    let mut one = exited(134);
    // A child of the program.
    one.threads = threads(&[hello(7, 0, 10), hello(8, 0, 20)]);
    let ending = judged(&mut one, None, &[abort]);
    assert_eq!(ending.outcome, Outcome::OutOfMemory { by: OutOfMemory::Runtime });
    let shown = ending.evidence.join("; ");
    assert!(shown.contains("the heap of the child process 8 when it was full, 600"), "{shown}");
    assert!(shown.contains("used 1.00 kB, total 2.00 kB"), "{shown}");
}

#[test]
fn program_that_crashes_after_it_was_asked_to_end_has_crashed() {
    let outcome = |status| {
        let mut one = exited(0);
        (one.ended.status, one.stopped) = (status, Some(Stopped::Asked));
        judged(&mut one, None, &[]).outcome
    };
    for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
        assert_eq!(outcome(Status::Signalled(signal.as_raw())), Outcome::Ok, "{signal:?}");
    }
    assert_eq!(outcome(Status::Exited(3)), Outcome::Ok);
    let fault = Signal::SEGV.as_raw();
    assert_eq!(outcome(Status::Signalled(fault)), Outcome::Crashed { signal: fault });
}

/// The outcome where a service ended at an instant, in ms.
fn with_fault(mut one: Watched, at: u64, outcome: Outcome) -> Outcome {
    one.services.fault = Some(Fault { at: ms(at), outcome, ..Fault::ended_elsewhere("db") });
    judged(&mut one, None, &[]).outcome
}

#[test]
fn service_that_ends_because_its_program_ended_well_is_no_failure() {
    let quiet = Outcome::Failed { code: Some(0) };
    assert_eq!(with_fault(exited(0), 740, quiet), quiet);
    assert_eq!(with_fault(exited(0), 760, quiet), Outcome::Ok, "a program closes its connections before it has ended");
    let crash = Outcome::Crashed { signal: 11 };
    assert_eq!(with_fault(exited(0), 899, crash), crash);
    assert_eq!(with_fault(exited(0), 901, crash), Outcome::Ok);
    // Its client noticed its end before prony did.
    assert_eq!(with_fault(exited(5), 901, quiet), quiet);
    // When memory ran out is not known.
    let oom = Outcome::OutOfMemory { by: OutOfMemory::Limit };
    assert_eq!(with_fault(exited(0), 901, oom), oom);
}

#[test]
fn service_is_needed_until_replicas_have_ended_and_the_worker_is_asked_to() {
    let fault = Outcome::Failed { code: Some(3) };
    let beside = || {
        let mut one = exited(0);
        one.replicas.all = vec![ran(1, (120, 950), 5, &[])];
        one
    };
    assert_eq!(with_fault(beside(), 940, fault), fault);
    assert_eq!(with_fault(beside(), 951, fault), Outcome::Ok);
    let worker = || {
        let worker = Some(Report { asked_to_stop: Some(ms(800)), ..Report::default() });
        Watched { worker, ..exited(0) }
    };
    for fault in [fault, Outcome::Failed { code: Some(0) }] {
        assert_eq!(with_fault(worker(), 799, fault), fault);
        assert_eq!(with_fault(worker(), 801, fault), Outcome::Ok);
    }
    // Its last request had failed, though prony knew of its end only later.
    let mut one = worker();
    one.services.fault = Some(Fault { at: ms(801), outcome: fault, ..Fault::ended_elsewhere("db") });
    let report = PhaseReport { errors: 1, ..PhaseReport::default() };
    assert_eq!(judged(&mut one, Some(report), &[]).outcome, fault);
}
