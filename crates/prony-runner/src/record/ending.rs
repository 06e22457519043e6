//! Determines how a trial ended, and in which phase. Pure functions.

use std::path::Path;

use prony_boundaries::limits::Stopped;
use prony_boundaries::phase_state::PhaseState;
use prony_model::outcome::{Ending, OutOfMemory, Outcome};
use prony_model::reading::Reading;
use prony_model::spec::{PhaseSpec, Subject, TrialSpec};
use prony_model::units::{Bytes, Nanos};
use prony_os::launch::classify::{Evidence, classify};
use prony_os::launch::{Captured, Finished, last_lines};
use prony_place::launch_setting::why_not_executed;
use prony_runtime::{ProbeEvent, ProbeLine, Role};
use rustix::process::Signal;

use crate::watched::replicas::{Ran, ReplicaEnd};
use crate::watched::services::Fault;
use crate::watched::{Watched, has_errors};

/// Signals by which a program ends that was asked to end, SIGKILL apart: others are faults of its own.
const ENDED_BY: [i32; 2] = [Signal::TERM.as_raw(), Signal::INT.as_raw()];

/// A program that could not be executed in this directory, named only where `commands` are recorded.
pub(crate) fn not_begun(error: &prony_os::Error, commands: bool, directory: &Path) -> Ending {
    let evidence = vec![why_not_executed(error, commands, Some(directory))];
    Ending { outcome: Outcome::Failed { code: None }, phase: None, after: Nanos::ZERO, evidence }
}

/// The outcome and the evidence for it: the program's, or that of the first of its replicas that failed.
pub fn judge(spec: &TrialSpec, watched: &Watched, finished: &Finished, heap_aborts: &[ProbeLine]) -> Ending {
    let phases = &spec.phases;
    let own = own(spec, watched, finished, heap_aborts);
    if let Some(fault) = watched.services.fault.as_ref().filter(|fault| counts(fault, &own.outcome, watched)) {
        // Its clients may have noticed, and have ended the phase, before its end was known.
        let began = |index: usize| watched.tracker.phases[index].began.filter(|began| *began <= fault.at);
        let last = (0..phases.len()).filter_map(|index| Some((began(index)?, index))).max();
        let (phase, after) = match last {
            Some((began, index)) => (Some(phases[index].name.clone()), fault.at.since(began)),
            None => (None, fault.at.since(watched.released)),
        };
        let evidence = fault.evidence.iter().chain(&finished.problems).cloned().collect();
        return Ending { outcome: fault.outcome, phase, after, evidence };
    }
    let success = success(&spec.subject);
    // What ended all of them at once comes before how each ended.
    let of_all = matches!(own.outcome, Outcome::OutOfMemory { .. } | Outcome::Interrupted | Outcome::TimedOut);
    let first = watched.replicas.all.iter().filter_map(|ran| failure(success, ran)).min_by_key(|failure| failure.at);
    let began = watched.tracker.phases.get(watched.replicas.phase).and_then(|phase| phase.began);
    let place = |at: Nanos| {
        let name = phases.get(watched.replicas.phase).map(|phase| phase.name.clone());
        (name, at.since(began.unwrap_or(at)))
    };
    match first {
        Some(first) if !of_all && (own.outcome.is_ok() || first.at <= watched.ended.at) => {
            let ((phase, after), mut evidence) = (place(first.at), first.shown);
            evidence.extend(finished.problems.iter().cloned());
            Ending { outcome: first.outcome, phase, after, evidence }
        }
        _ if own.outcome.is_ok() => own,
        first => {
            // What ended all of them may have ended replicas first, and a phase with them.
            let (phase, after) = match (&own.phase, &first) {
                (None, Some(first)) => place(first.at),
                _ => (own.phase, own.after),
            };
            let mut evidence = own.evidence;
            evidence.extend(first.into_iter().flat_map(|failure| failure.shown));
            evidence.extend(still_there(&watched.replicas.all));
            Ending { outcome: own.outcome, phase, after, evidence }
        }
    }
}

/// Whether the fault of a service is the outcome. A server may end because its client has ended well: that is none. What failed for a
/// client may be the end of a service that was known later, and memory may have run out long before that was counted.
fn counts(fault: &Fault, own: &Outcome, watched: &Watched) -> bool {
    let early = fault.is_early(Some(watched.needs_until(fault)));
    match own {
        Outcome::Interrupted => false,
        own => {
            early
                || !own.is_ok()
                || has_errors(&watched.tracker)
                || matches!(fault.outcome, Outcome::OutOfMemory { .. })
        }
    }
}

/// How a replica failed.
struct Failure {
    outcome: Outcome,
    at: Nanos,
    shown: Vec<String>,
}

/// How a replica failed by itself, if it did.
fn failure(success: &[i32], ran: &Ran) -> Option<Failure> {
    let who = ran.role();
    let end = match &ran.end {
        ReplicaEnd::Ended(end) => end,
        ReplicaEnd::CutOff(_) => return None,
        ReplicaEnd::NotBegun(why) => {
            let shown = vec![format!("`{who}`: {why}")];
            return Some(Failure { outcome: Outcome::Failed { code: None }, at: ran.released, shown });
        }
    };
    let messages = ran.output.iter().rev().map(Captured::text).collect::<Vec<_>>().join("\n");
    let (outcome, mut shown) = classify(&Evidence { messages, ..Evidence::of(end, None) });
    let outcome =
        if matches!(outcome, Outcome::OutOfMemory { .. }) { outcome } else { allowed(outcome, success, &mut shown) };
    if outcome.is_ok() {
        return None;
    }
    shown.extend(last_lines(&ran.output));
    let shown = shown.into_iter().map(|text| format!("`{who}`: {text}")).collect();
    Some(Failure { outcome, at: end.at, shown })
}

/// Replicas that were running when everything ended.
fn still_there(all: &[Ran]) -> Option<String> {
    let under_way = all.iter().filter(|ran| matches!(ran.end, ReplicaEnd::CutOff(_)));
    let names: Vec<String> = under_way.map(|ran| format!("`{}`", ran.role())).collect();
    (!names.is_empty()).then(|| format!("still running at that time: {}", names.join(", ")))
}

/// How the main role ended.
fn own(spec: &TrialSpec, watched: &Watched, finished: &Finished, heap_aborts: &[ProbeLine]) -> Ending {
    let (outcome, mut shown) = match &watched.worker {
        Some(worker) => worker.outcome(&watched.ended, watched.stopped),
        None => of_program(success(&spec.subject), watched, heap_aborts),
    };
    if outcome.is_ok() {
        return saturated(&spec.phases, watched).unwrap_or_else(|| Ending {
            outcome,
            phase: None,
            after: Nanos::ZERO,
            evidence: finished.problems.clone(),
        });
    }
    shown.extend(last_lines(&watched.output));
    let failed = watched.worker.as_ref().and_then(|worker| worker.end.as_ref());
    shown.extend(failed.and_then(|end| last_lines(&[end.stdout.clone()?, end.stderr.clone()?])));
    // The memory it had reached: the lower bound that an out-of-memory cell shows.
    let memory = &watched.ended.memory;
    shown.extend(memory.limit.map(|limit| format!("memory limit of the process tree: {limit}")));
    if let Reading::Measured(peak) = &memory.peak {
        shown.push(format!("peak of the control group, page cache included: {peak}"));
    }
    shown.extend(finished.problems.iter().cloned());
    let (phase, after) = place(&spec.phases, watched);
    Ending { outcome, phase, after, evidence: shown }
}

/// The outcome of a program, and the evidence for it.
fn of_program(success: &[i32], watched: &Watched, heap_aborts: &[ProbeLine]) -> (Outcome, Vec<String>) {
    // If its output is not captured, the runtime's own report still says why it aborted: as it is written to the output.
    let reported = heap_aborts.iter().filter_map(|abort| match &abort.event {
        ProbeEvent::HeapAbort { what, .. } => Some(format!("FATAL ERROR: {what}")),
        _ => None,
    });
    let texts: Vec<String> = watched.output.iter().rev().map(Captured::text).chain(reported).collect();
    let by_us = watched.stopped.and_then(Stopped::decided);
    let evidence = Evidence { messages: texts.join("\n"), ..Evidence::of(&watched.ended, by_us) };
    let (outcome, mut shown) = classify(&evidence);
    let outcome = match outcome {
        Outcome::OutOfMemory { .. } | Outcome::Interrupted | Outcome::TimedOut => outcome,
        Outcome::Crashed { signal } if !ENDED_BY.contains(&signal) => outcome,
        _ if watched.stopped == Some(Stopped::Asked) => Outcome::Ok,
        outcome => allowed(outcome, success, &mut shown),
    };
    if outcome == (Outcome::OutOfMemory { by: OutOfMemory::Runtime }) {
        shown.extend(heap_aborts.iter().filter_map(|abort| heap_at_abort(abort, watched)));
    }
    (outcome, shown)
}

/// The ending of a trial that ended well, except that a phase did not sustain the requested rate; the first such phase.
fn saturated(phases: &[PhaseSpec], watched: &Watched) -> Option<Ending> {
    let saturated = |tracked: &PhaseState| -> Vec<String> {
        let Some(report) = &tracked.report else { return Vec::new() };
        let beside = report.background.as_ref().is_some_and(|report| report.saturated);
        let own = report.saturated.then_some("the requested rate was not sustained");
        let beside = beside.then_some("the requested rate of the background was not sustained");
        own.into_iter().chain(beside).map(str::to_owned).collect()
    };
    let all = phases.iter().zip(&watched.tracker.phases).map(|(phase, tracked)| (phase, tracked, saturated(tracked)));
    let (phase, tracked, evidence) = all.into_iter().find(|(.., evidence)| !evidence.is_empty())?;
    Some(Ending {
        outcome: Outcome::Saturated,
        phase: Some(phase.name.clone()),
        after: tracked.ended?.since(tracked.began?),
        evidence,
    })
}

/// Exit codes that count as success; a store's worker exits with 0.
fn success(subject: &Subject) -> &[i32] {
    subject.program().map_or(&[0], |program| &program.success)
}

/// An exit code is a failure unless the program's own list allows it; no list allows all.
fn allowed(outcome: Outcome, success: &[i32], shown: &mut Vec<String>) -> Outcome {
    match outcome {
        Outcome::Failed { code: Some(code) } if success.is_empty() || success.contains(&code) => Outcome::Ok,
        Outcome::Ok if !success.is_empty() && !success.contains(&0) => {
            shown.push("exit code 0 is not in `success`".to_owned());
            Outcome::Failed { code: Some(0) }
        }
        other => other,
    }
}

/// The phase that was running, the one that began last if there are several, and for how long.
fn place(phases: &[PhaseSpec], watched: &Watched) -> (Option<String>, Nanos) {
    // Phases that end with the program were running too, though they count as ended.
    let under_way = |index: &usize| {
        let tracked = &watched.tracker.phases[*index];
        tracked.began.is_some() && (tracked.is_open() || tracked.is_overdue || tracked.ends_with_program())
    };
    let last = (0..phases.len()).filter(under_way).max_by_key(|index| watched.tracker.phases[*index].began);
    let began = last.and_then(|index| watched.tracker.phases[index].began).unwrap_or(watched.released);
    (last.map(|index| phases[index].name.clone()), watched.over().0.since(began))
}

/// The sizes of the heap when it was full.
fn heap_at_abort(abort: &ProbeLine, watched: &Watched) -> Option<String> {
    let ProbeEvent::HeapAbort { heap, .. } = &abort.event else { return None };
    let named = |name: &str, reading: &Reading<Bytes>| Some(format!("{name} {}", reading.measured()?));
    let figures = [
        named("used", &heap.used),
        named("total", &heap.total),
        named("limit", &heap.limit),
        named("external", &heap.external),
    ];
    let role = watched.threads.all().iter().rev().find(|thread| thread.source == abort.source).map(|found| found.role);
    let who = match role {
        Some(Role::Main) | None => String::new(),
        Some(role) => format!(" of the {} process {}", role.name(), abort.source.pid),
    };
    let after = abort.at.since(watched.released);
    let figures = figures.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Some(format!("the heap{who} when it was full, {after} after the start: {figures}"))
}

#[cfg(test)]
mod tests;
