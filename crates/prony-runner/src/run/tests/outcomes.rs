//! Tests how trials end, by scripted ends of their processes.

use prony_model::event::Log;
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::Reading;
use prony_model::record::{Completion, MemoryEvidence, TrialRecord};
use prony_model::units::{Bytes, Nanos};
use prony_os::launch::Status;
use rustix::process::Signal;

use super::Bench;
use super::scripted::{Act, Fault, Scripted};
use crate::run_context::RunContext;
use crate::trial;

const KILLED: Status = Status::Signalled(Signal::KILL.as_raw());

/// One trial of a program with these keys and phases.
fn trial_of(program: &str, act: Act) -> TrialRecord {
    let bench = Bench::new("blocks = 1", program);
    let launcher = std::sync::Arc::new(Scripted::new(move |_, _| act.clone()));
    let (near, mut log) = (bench.directory.path(), Log::default());
    let context =
        RunContext::launching(launcher, bench.experiment.clone(), near, &[], bench.interrupt.clone(), &mut log)
            .unwrap();
    trial::run(&context, &bench.plan()[0], &mut log).unwrap()
}

fn outcome(act: Act) -> (Outcome, String) {
    let ending = trial_of("", act).ending;
    (ending.outcome, ending.evidence.join("; "))
}

fn evidence() -> MemoryEvidence {
    MemoryEvidence { limit: Some(Bytes::from_mib(64)), ..Act::default().memory }
}

#[test]
fn exit_codes_and_signals_are_outcomes() {
    assert_eq!(outcome(Act::default()).0, Outcome::Ok);
    assert_eq!(outcome(Act::ends_by(Status::Exited(3))).0, Outcome::Failed { code: Some(3) });
    let segv = Signal::SEGV.as_raw();
    assert_eq!(outcome(Act::ends_by(Status::Signalled(segv))).0, Outcome::Crashed { signal: segv });
    let (killed, shown) = outcome(Act::ends_by(KILLED));
    assert_eq!(killed, Outcome::Killed, "{shown}");
    let allowed = trial_of("success = [3]", Act::ends_by(Status::Exited(3)));
    assert_eq!(allowed.ending.outcome, Outcome::Ok);
    assert_eq!(trial_of("success = [3]", Act::default()).ending.outcome, Outcome::Failed { code: Some(0) });
}

#[test]
fn kill_is_out_of_memory_only_where_the_kernel_counted_one() {
    let of = |memory: MemoryEvidence| outcome(Act { memory, ..Act::ends_by(KILLED) });
    let one = || Reading::Measured(1);
    let limit = MemoryEvidence { oom_kills: one(), limit_reached: Reading::Measured(true), ..evidence() };
    let (outcome_of_limit, shown) = of(limit);
    assert_eq!(outcome_of_limit, Outcome::OutOfMemory { by: OutOfMemory::Limit });
    assert!(
        shown.contains(&format!(
            "peak memory of the process tree: {}; its limit: {}",
            Bytes::from_mib(1),
            Bytes::from_mib(64)
        )),
        "{shown}"
    );
    let host = Outcome::OutOfMemory { by: OutOfMemory::Host };
    assert_eq!(of(MemoryEvidence { oom_kills: one(), ..evidence() }).0, host, "the limit was not reached");
    let elsewhere = MemoryEvidence { host_oom_kills: one(), ..evidence() };
    assert_eq!(of(elsewhere).0, Outcome::Killed, "of a process outside of the tree");
    assert_eq!(of(evidence()).0, Outcome::Killed);
}

#[test]
fn heap_limit_of_a_runtime_is_read_from_its_messages() {
    let message = "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory";
    let act =
        Act { output: [String::new(), message.to_owned()], ..Act::ends_by(Status::Signalled(Signal::ABORT.as_raw())) };
    assert_eq!(outcome(act).0, Outcome::OutOfMemory { by: OutOfMemory::Runtime });
    let survived = Act { output: [String::new(), message.to_owned()], ..Act::default() };
    assert_eq!(outcome(survived).0, Outcome::Ok);
}

#[test]
fn program_that_cannot_be_executed_is_an_outcome_without_phases() {
    for (fault, text) in [(Fault::NotExecuted, "cannot execute"), (Fault::NotEntered, "cannot enter the directory")] {
        let record = trial_of("", Act::fails(fault));
        assert_eq!(record.ending.outcome, Outcome::Failed { code: None });
        assert!(record.ending.evidence[0].contains(text), "{:?}", record.ending.evidence);
        assert!(
            record.phases.iter().all(|phase| phase.completion == Completion::NotReached) && !record.phases.is_empty()
        );
    }
}

#[test]
fn supervisor_that_ends_after_the_begin_is_no_retry_but_an_outcome() {
    let (killed, shown) = outcome(Act { lost: Some("signal: 9 (SIGKILL)"), ..Act::ends_by(KILLED) });
    assert_eq!(killed, Outcome::Killed);
    assert!(shown.contains("supervisor process was ended from outside (signal: 9 (SIGKILL))"), "{shown}");
}

#[test]
fn limits_of_the_trial_and_of_a_phase_end_the_program() {
    let of_trial = trial_of("[limits]\ntime = \"10 ms\"", Act::default().endless());
    assert_eq!(of_trial.ending.outcome, Outcome::TimedOut);
    let phase = "[[phase]]\nname = \"load\"\nbegin = { line = '^begin' }\nend = { line = '^end' }\nlimit = \"10 ms\"";
    let of_phase = trial_of(phase, Act::writes("begin\n").endless());
    assert_eq!((of_phase.ending.outcome, of_phase.ending.phase.as_deref()), (Outcome::TimedOut, Some("load")));
    let in_time = trial_of(phase, Act::writes("begin\nend\n"));
    assert_eq!((in_time.ending.outcome, in_time.phases[0].completion), (Outcome::Ok, Completion::Complete));
}

/// A runner that was busy until after the limit finds both then; or it finds the end only when it kills what is left. What counts is
/// when the program ended.
#[test]
fn program_that_ended_by_itself_before_its_limit_did_not_reach_it() {
    let limit = "[limits]\ntime = \"1 ns\"";
    let at_once = || Act { time: Nanos::ZERO, ..Act::default() };
    assert_eq!(trial_of(limit, at_once()).ending.outcome, Outcome::Ok);
    let fails = Act { time: Nanos::ZERO, ..Act::ends_by(Status::Exited(3)) };
    assert_eq!(trial_of(limit, fails).ending.outcome, Outcome::Failed { code: Some(3) });
    assert_eq!(trial_of(limit, Act { unnoticed: true, ..at_once() }).ending.outcome, Outcome::Ok);
    assert_eq!(trial_of(limit, Act::default()).ending.outcome, Outcome::TimedOut, "it ended 100 ms later");
    assert_eq!(trial_of(limit, Act { unnoticed: true, ..Act::default() }).ending.outcome, Outcome::TimedOut);
    let phase = "[[phase]]\nname = \"load\"\nbegin = { line = '^begin' }\nend = { line = '^end' }\nlimit = \"1 us\"";
    let record = trial_of(phase, Act::writes("begin\n").endless());
    assert_eq!(record.ending.outcome, Outcome::TimedOut, "nothing else came");
}

#[test]
fn lines_begin_and_end_phases_until_the_program_is_stopped() {
    let phases = "[[phase]]\nname = \"load\"\nbegin = { line = '^begin' }\nend = { line = '^loaded' }\nthen = \"stop\"\n\
                  [[phase]]\nname = \"never\"\nbegin = { line = '^more' }\nend = { line = '^less' }";
    let record = trial_of(phases, Act::writes("begin\nloaded\n").endless());
    let completed: Vec<_> = record.phases.iter().map(|phase| phase.completion).collect();
    assert_eq!(record.ending.outcome, Outcome::Ok, "{:?}", record.ending);
    assert_eq!(completed, [Completion::Complete, Completion::NotReached]);
}

#[test]
fn interrupt_goes_before_how_the_program_ended() {
    let bench = Bench::new("blocks = 1", "");
    let (asks, mut log) = (bench.interrupt.clone(), Log::default());
    let launcher = std::sync::Arc::new(Scripted::new(move |_, _| {
        asks.ask();
        Act::ends_by(Status::Exited(3))
    }));
    let context = RunContext::launching(
        launcher,
        bench.experiment.clone(),
        bench.directory.path(),
        &[],
        bench.interrupt.clone(),
        &mut log,
    )
    .unwrap();
    assert_eq!(trial::run(&context, &bench.plan()[0], &mut log).unwrap().ending.outcome, Outcome::Interrupted);
}

#[test]
fn time_is_that_from_begin_to_end_and_processes_that_run_on_are_ended() {
    let record = trial_of("", Act { leftover: 2, time: Nanos::from_millis(1234), ..Act::default() });
    assert_eq!(super::phase_times(&record)[0].1, Nanos::from_millis(1234));
    assert_eq!(record.conditions.killed_at_the_end, 2);
}
