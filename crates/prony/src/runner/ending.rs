//! How a trial ended, from what the worker said, what the supervisor saw and what the runner decided.

use prony_core::experiment::spec::TrialSpec;
use prony_core::outcome::{Ending, OutOfMemory, Outcome};
use prony_core::protocol::Failure;
use prony_core::reading::Reading;
use prony_core::units::Nanos;
use prony_probe::launch::classify::{EndedByUs, Evidence, classify};

use super::session::{Closed, Stop};

/// How the trial ended; `after` counts from the begin of the phase it ended in.
pub fn judge(spec: &TrialSpec, stop: Option<&Stop>, closed: &Closed, after: Nanos) -> Ending {
    let saturated = closed.visits.iter().position(|visit| visit.report.as_ref().is_some_and(|report| report.saturated));
    let (outcome, evidence) = match stop {
        Some(stop) => stopped(stop, closed),
        None => classify(&Evidence::of(&closed.end, None)),
    };
    if outcome.is_ok() {
        return match saturated {
            Some(index) => saturation(spec, closed, index),
            None => Ending { outcome, phase: None, after: Nanos::ZERO, evidence: problems(closed) },
        };
    }
    let reached = closed.visits.len().checked_sub(1).and_then(|index| spec.phases.get(index));
    let mut evidence = evidence;
    evidence.extend(memory(closed));
    evidence.extend(problems(closed));
    Ending { outcome, phase: reached.map(|phase| phase.name.clone()), after, evidence }
}

fn stopped(stop: &Stop, closed: &Closed) -> (Outcome, Vec<String>) {
    let seen = |by_us| classify(&Evidence::of(&closed.end, by_us));
    match stop {
        Stop::Deadline => seen(Some(EndedByUs::TimedOut)),
        Stop::Interrupted => seen(Some(EndedByUs::Interrupted)),
        Stop::Gone => match seen(None) {
            // An exit with 0 in the middle of a trial is no success.
            (Outcome::Ok, mut shown) => {
                shown.push("the worker ended before its last phase".to_owned());
                (Outcome::Failed { code: Some(0) }, shown)
            }
            other => other,
        },
        Stop::Garbled(what) => (Outcome::Failed { code: None }, vec![format!("the worker broke the protocol: {what}")]),
        Stop::Failed { failure, message } => {
            let outcome = match failure {
                Failure::Failed => Outcome::Failed { code: None },
                Failure::Unsupported => Outcome::Unsupported,
                Failure::WrongAnswer => Outcome::WrongAnswer,
                Failure::Saturated => Outcome::Saturated,
                Failure::OutOfMemory => Outcome::OutOfMemory { by: OutOfMemory::Host },
            };
            (outcome, vec![message.clone()])
        }
    }
}

fn saturation(spec: &TrialSpec, closed: &Closed, index: usize) -> Ending {
    let visit = &closed.visits[index];
    Ending {
        outcome: Outcome::Saturated,
        phase: spec.phases.get(index).map(|phase| phase.name.clone()),
        after: visit.span.1.since(visit.span.0),
        evidence: vec!["the asked rate was not sustained".to_owned()],
    }
}

/// What memory had come to: the lower bound that an out-of-memory cell shows.
fn memory(closed: &Closed) -> Vec<String> {
    let limit = closed.end.memory.limit.map(|limit| format!("memory limit of the tree: {limit}"));
    let peak = match &closed.end.memory.peak {
        Reading::Measured(peak) => Some(format!("peak of the control group, page cache included: {peak}")),
        Reading::Missing(_) => None,
    };
    limit.into_iter().chain(peak).collect()
}

fn problems(closed: &Closed) -> Vec<String> {
    closed.finished.problems.clone()
}
