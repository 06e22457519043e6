//! Reports phases that never began or never ended although the program succeeded, and why. If the program failed, only
//! phases that waited for a function which was never called are reported.

use serde_json::{Value, json};

use super::{Finding, Severity, questions, recorded};
use prony_model::outcome::Outcome;
use prony_model::program::{ObserveSpec, Trigger};
use prony_model::record::effective::{Call, ReplicaEnd};
use prony_model::record::{Completion, PhaseRecord, TrialRecord};
use prony_model::spec::{Action, PhaseSpec, TrialSpec};
use prony_model::units::Nanos;

/// In the data of a finding: the phase lasted until prony stopped the program.
const STOPPED: &str = "stopped";

/// The reason, which is the end of the message, and a hint.
type Said = (String, &'static str);

/// Phases that never began or never ended although the program succeeded. A function that was never called is reported
/// even if the program failed, since a wrong function name can be the cause.
pub fn check(spec: &TrialSpec, record: &TrialRecord) -> Vec<Finding> {
    let never_called = |phase: &PhaseRecord| call(record, phase).is_some_and(|call| call.never.is_some());
    let reported = |phase: &&PhaseRecord| match record.ending.outcome {
        Outcome::Ok => true,
        Outcome::Interrupted => false,
        _ => never_called(phase),
    };
    let of_program = record.phases.iter().filter(|phase| phase.action == "observe").filter(reported);
    let finding = |phase: &PhaseRecord, what: &str, (why, hint): Said| {
        let message = format!("phase never {what}: {why}");
        Finding::of(&format!("phase_never_{what}"), Severity::Warning, message, hint).in_phase(&phase.name)
    };
    let found = of_program.filter_map(|phase| match phase.completion {
        Completion::Complete | Completion::Failed | Completion::Uncounted | Completion::AfterFailure => None,
        Completion::Partial => {
            let found = finding(phase, "ended", never_ended(spec, record, phase));
            Some(if ends_with_the_program(spec, phase) { found.with(json!({ STOPPED: true })) } else { found })
        }
        Completion::NotReached => Some(finding(phase, "began", never_began(spec, record, phase))),
    });
    found.collect()
}

/// The first phase of a trial that ended well which never began or never ended: the trial did not do what the file declares
/// (METHOD 8.1). That prony stops the program before the end of a phase is what the file declares.
pub fn first(record: &TrialRecord) -> Option<&Finding> {
    let is_of_phase =
        |finding: &&Finding| finding.guard.starts_with("phase_never_") && finding.data[STOPPED] != Value::Bool(true);
    record.findings.iter().find(is_of_phase).filter(|_| record.ending.outcome.is_ok())
}

/// Whether a phase lasts until the program has ended, before which prony has stopped it.
fn ends_with_the_program(spec: &TrialSpec, phase: &PhaseRecord) -> bool {
    observed(spec, phase).is_some_and(|observe| observe.end.is_none())
}

/// How the boundaries of a phase are observed; `None` where they are not.
pub(super) fn observed<'a>(spec: &'a TrialSpec, phase: &PhaseRecord) -> Option<&'a ObserveSpec> {
    match &questions::named(spec, &phase.name)?.action {
        Action::Observe(observe) => Some(observe),
        _ => None,
    }
}

fn never_began(spec: &TrialSpec, record: &TrialRecord, phase: &PhaseRecord) -> Said {
    match observed(spec, phase).and_then(|observe| observe.begin.as_ref()) {
        Some(Trigger::After(before)) => came_after(record, before),
        Some(Trigger::Replicas) => replicas(record, None),
        begin => unseen(record, phase, begin, "began"),
    }
}

fn never_ended(spec: &TrialSpec, record: &TrialRecord, phase: &PhaseRecord) -> Said {
    match observed(spec, phase).and_then(|observe| observe.end.as_ref()) {
        Some(Trigger::Replicas) => replicas(record, phase.begin),
        Some(Trigger::Settle(settle)) => restless(settle.quiet),
        None if ends_with_the_program(spec, phase) => stopped(spec),
        end => unseen(record, phase, end, "ended"),
    }
}

/// The phase was to end with the program, which prony stopped.
fn stopped(spec: &TrialSpec) -> Said {
    let stops = |phase: &&PhaseSpec| matches!(&phase.action, Action::Observe(observe) if observe.stop);
    let by = spec.phases.iter().find(stops).map_or("", |phase| phase.name.as_str());
    (
        format!("prony stopped the program when phase `{by}` had ended, before the program ended by itself"),
        "end the phase with an output line, a mark or a call that comes before the stop, or remove `then = \"stop\"`",
    )
}

/// The phase begins where another phase ends.
fn came_after(record: &TrialRecord, before: &str) -> Said {
    let how = match recorded(record, before).map(|phase| phase.completion) {
        Some(Completion::Partial) => "never ended",
        Some(Completion::NotReached) | None => "never began",
        Some(_) => "ended when the program did",
    };
    let hint = "find out why that phase did not end: this phase begins only after it";
    (format!("this phase begins after phase `{before}`, which {how}"), hint)
}

/// The message for a phase that should have begun or ended at the end of the last replica.
fn replicas(record: &TrialRecord, began: Option<Nanos>) -> Said {
    let replicas = record.program().and_then(|program| program.replicas.as_ref());
    let (phase, copies) =
        replicas.map_or(("", &[][..]), |replicas| (replicas.phase.as_str(), replicas.copies.as_slice()));
    let cut_off = copies.iter().filter(|copy| copy.end == ReplicaEnd::CutOff);
    let at_work: Vec<&str> = cut_off.map(|copy| copy.instance.as_str()).collect();
    let last = copies.iter().filter_map(|copy| copy.ended).max();
    if copies.is_empty() {
        let why = format!("no replica was started, because the phase that starts them, `{phase}`, never began");
        return (why, "find out why that phase did not begin");
    }
    if !at_work.is_empty() {
        let why = format!("replicas were running when the program ended: `{}`", at_work.join("`, `"));
        return (why, "let the program wait until all replicas have ended");
    }
    if began.zip(last).is_some_and(|(began, last)| began >= last) {
        let why = "all replicas had ended before this phase began".to_owned();
        return (why, "begin this phase earlier, or end it with an output line, a mark or the end of the program");
    }
    ("the last replica ended when the program did".to_owned(), "let the program run until all replicas have ended")
}

/// The program ended while prony waited for it to become quiet.
fn restless(quiet: Nanos) -> Said {
    (
        format!("the program ended before it had been quiet for {quiet}"),
        "set a shorter `quiet`, or remove `end`, so that the phase ends with the program",
    )
}

/// A function was not called, or did not return, or no mark was made, or no line matched.
fn unseen(record: &TrialRecord, phase: &PhaseRecord, trigger: Option<&Trigger>, what: &str) -> Said {
    let Some(Call { call: function, missed, never, .. }) = call(record, phase) else {
        return match trigger {
            Some(Trigger::Mark(name)) => {
                let mark = if what == "began" { "begin" } else { "end" };
                (
                    format!("the program did not run `prony mark {name} {mark}`"),
                    "let the program make the marks, or set `begin`, `end` or `read` to patterns of output lines that \
                     show the phase",
                )
            }
            Some(Trigger::Line(pattern)) => (
                format!(
                    "no output line matched `{pattern}` while prony waited for it, so that phase `{}` never {what}",
                    phase.name
                ),
                "compare the pattern with the program's output, which is in the record",
            ),
            _ => (
                format!("no event in the program {what} phase `{}`", phase.name),
                "compare the phase with what the program does; the program's output is in the record",
            ),
        };
    };
    match (missed, never) {
        // Invocations of the function that should have ended the phase did end, but none of them matched.
        (Some(why), _) => {
            (why.clone(), "compare the begin and the end of the phase with the order of events in the program")
        }
        (None, Some(why)) => (
            format!("the program did not call the function `{function}`: {why}"),
            "compare the file and the name of the function with the program's; calls from within the function's own \
             module are not observed",
        ),
        (None, None) => (
            format!("a call of `{function}` had not returned when the program ended"),
            "a call never returns if its promise never settles or its process was killed",
        ),
    }
}

/// The function whose call a phase waited for, if any.
fn call<'r>(record: &'r TrialRecord, phase: &PhaseRecord) -> Option<&'r Call> {
    record.program()?.calls.get(&phase.name)
}

#[cfg(test)]
mod tests {
    use super::super::program::tests::{record, spec};
    use super::*;
    use prony_model::outcome::Outcome;
    use prony_model::record::EffectiveProgram;
    use prony_model::record::effective::{Replica, Replicas};
    use prony_model::spec::SettleSpec;

    fn line() -> Option<Trigger> {
        Some(Trigger::Line("x".into()))
    }

    /// A program with functions that phases waited for, each with why it was never called.
    fn calls(calls: &[(&str, &str, Option<&str>)]) -> EffectiveProgram {
        let call = |(phase, call, never): &(&str, &str, Option<&str>)| {
            let (call, never) = ((*call).to_owned(), never.map(str::to_owned));
            ((*phase).to_owned(), Call { call, never, ..Call::default() })
        };
        EffectiveProgram { calls: calls.iter().map(call).collect(), ..EffectiveProgram::default() }
    }

    const NOT_LOADED: Option<&str> = Some("no module of this name was loaded");

    /// The findings on `b`, which never ended, and on `c`, which never began.
    fn said(spec: &TrialSpec, effective: EffectiveProgram) -> [String; 2] {
        let found = check(spec, &record(Outcome::Ok, effective));
        let named: Vec<_> = found.iter().map(|one| (one.guard.as_str(), one.phase.as_deref())).collect();
        assert_eq!(named, [("phase_never_ended", Some("b")), ("phase_never_began", Some("c"))]);
        found.into_iter().map(|one| one.message).collect::<Vec<_>>().try_into().unwrap()
    }

    #[test]
    fn what_never_came_is_found_only_where_the_program_ended_well() {
        let spec = spec(line(), line());
        let said = said(&spec, EffectiveProgram::default());
        assert_eq!(
            said[0],
            "phase never ended: no output line matched `x` while prony waited for it, so that phase \
            `b` never ended"
        );
        assert_eq!(check(&spec, &record(Outcome::TimedOut, EffectiveProgram::default())), []);
        let mut trial = record(Outcome::Ok, EffectiveProgram::default());
        assert_eq!(first(&trial), None);
        trial.findings = check(&spec, &trial);
        assert_eq!(first(&trial).map(|finding| finding.guard.as_str()), Some("phase_never_ended"));
        trial.ending.outcome = Outcome::TimedOut;
        assert_eq!(first(&trial), None, "the outcome says what the trial is");
    }

    #[test]
    fn phase_that_was_to_end_with_the_program_is_named_with_the_phase_that_stops_it() {
        let mut spec = spec(None, line());
        let Action::Observe(observe) = &mut spec.phases[0].action else { panic!("{spec:?}") };
        observe.stop = true;
        let Action::Observe(observe) = &mut spec.phases[1].action else { panic!("{spec:?}") };
        observe.end = None;
        let expected =
            "phase never ended: prony stopped the program when phase `a` had ended, before the program ended by itself";
        assert_eq!(said(&spec, EffectiveProgram::default())[0], expected);
        let mut trial = record(Outcome::Ok, EffectiveProgram::default());
        trial.findings = check(&spec, &trial);
        assert_eq!(first(&trial).map(|finding| finding.guard.as_str()), Some("phase_never_began"), "the file stops it");
    }

    #[test]
    fn marks_that_a_program_did_not_make_are_named() {
        let mark = |name: &str| Some(Trigger::Mark(name.into()));
        let [ended, began] = said(&spec(mark("load"), mark("b")), EffectiveProgram::default());
        assert_eq!(ended, "phase never ended: the program did not run `prony mark b end`");
        assert_eq!(began, "phase never began: the program did not run `prony mark load begin`");
    }

    #[test]
    fn a_function_that_was_never_called_is_found_however_the_program_ended() {
        let spec = spec(line(), line());
        let never = || calls(&[("c", "a.js#f", NOT_LOADED), ("b", "a.js#g", None)]);
        for outcome in [Outcome::TimedOut, Outcome::Failed { code: Some(1) }, Outcome::Killed] {
            let found = check(&spec, &record(outcome, never()));
            let said: Vec<_> = found.iter().map(|one| (one.phase.as_deref(), one.message.as_str())).collect();
            let why =
                "phase never began: the program did not call the function `a.js#f`: no module of this name was loaded";
            assert_eq!(said, [(Some("c"), why)], "{outcome}");
        }
        assert_eq!(check(&spec, &record(Outcome::Interrupted, never())), []);
    }

    #[test]
    fn a_phase_that_follows_one_that_never_ended_says_so() {
        let after =
            |name: &str| said(&spec(Some(Trigger::After(name.into())), line()), EffectiveProgram::default())[1].clone();
        assert_eq!(after("b"), "phase never began: this phase begins after phase `b`, which never ended");
        assert_eq!(after("c"), "phase never began: this phase begins after phase `c`, which never began");
        assert_eq!(
            after("a"),
            "phase never began: this phase begins after phase `a`, which ended when the program did"
        );
    }

    #[test]
    fn a_phase_that_waited_for_replicas_says_what_became_of_them() {
        let spec = spec(Some(Trigger::Replicas), Some(Trigger::Replicas));
        let with = |copies: &[&Replica], began: u64| {
            let copies = copies.iter().map(|copy| (*copy).clone()).collect();
            let replicas = Some(Replicas { phase: "q".into(), copies, ..Replicas::default() });
            let mut record = record(Outcome::Ok, EffectiveProgram { replicas, ..EffectiveProgram::default() });
            record.phases[1].begin = Some(Nanos::from_nanos(began));
            let found = check(&spec, &record);
            [0, 1].map(|at| found[at].message.split_once(": ").unwrap().1.to_owned())
        };
        let none = "no replica was started, because the phase that starts them, `q`, never began";
        assert_eq!(with(&[], 0), [none, none]);
        let copy = |name: &str, end, ended| Replica {
            instance: name.to_owned(),
            end,
            ended: Some(Nanos::from_nanos(ended)),
            ..Replica::default()
        };
        let (ended, cut_off) = (copy("replica.1", ReplicaEnd::Ended, 7), copy("replica.2", ReplicaEnd::CutOff, 9));
        let at_work = "replicas were running when the program ended: `replica.2`";
        assert_eq!(with(&[&ended, &cut_off], 8), [at_work, at_work]);
        let last = "the last replica ended when the program did";
        assert_eq!(with(&[&ended], 8), ["all replicas had ended before this phase began", last]);
        assert_eq!(with(&[&ended], 6), [last, last]);
    }

    #[test]
    fn missing_function_has_a_reason() {
        let never = calls(&[("c", "a.js#f", NOT_LOADED), ("b", "a.js#g", None)]);
        assert_eq!(
            said(&spec(line(), line()), never),
            [
                "phase never ended: a call of `a.js#g` had not returned when the program ended",
                "phase never began: the program did not call the function `a.js#f`: no module of this name was loaded",
            ]
        );
        let why = "no call of `a.js#g` returned after the phase had begun; some calls returned before";
        let mut early = calls(&[("b", "a.js#g", None)]);
        early.calls.get_mut("b").unwrap().missed = Some(why.to_owned());
        assert_eq!(said(&spec(line(), line()), early)[0], format!("phase never ended: {why}"));
    }

    #[test]
    fn a_program_that_ended_before_it_was_quiet_says_so() {
        let settle = SettleSpec { quiet: Nanos::from_secs(5), ..SettleSpec::default() };
        let never = calls(&[("c", "a.js#g", NOT_LOADED)]);
        let said = said(&spec(line(), Some(Trigger::Settle(settle))), never);
        assert!(said[0].ends_with(&format!("before it had been quiet for {}", Nanos::from_secs(5))), "{}", said[0]);
        assert!(said[1].contains("the program did not call the function `a.js#g`"), "{}", said[1]);
    }
}
