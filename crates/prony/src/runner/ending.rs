//! How a trial ended, from what the worker said, what the supervisor saw and what the runner decided.

use prony_model::outcome::{Ending, OutOfMemory, Outcome};
use prony_model::protocol::Failure;
use prony_model::reading::Reading;
use prony_model::spec::TrialSpec;
use prony_model::units::Nanos;
use prony_os::launch::classify::{EndedByUs, Evidence, classify};

use super::session::{Closed, Stop};

/// How the trial ended; `after` counts from the begin of the phase it ended in.
pub fn judge(spec: &TrialSpec, stop: Option<&Stop>, closed: &Closed, after: Nanos) -> Ending {
    let saturated = closed.visits.iter().position(|visit| visit.report.as_ref().is_some_and(|report| report.saturated));
    let (outcome, evidence) = match stop {
        Some(stop) => stopped(stop, closed),
        None if closed.lingered => lingered(closed),
        None => classify(&Evidence::of(&closed.end, None)),
    };
    if outcome.is_ok() {
        return match saturated {
            Some(index) => saturation(spec, closed, index),
            None => Ending { outcome, phase: None, after: Nanos::ZERO, evidence: problems(closed) },
        };
    }
    let last = closed.visits.len().checked_sub(1).filter(|_| !closed.lingered);
    let reached = last.and_then(|index| spec.phases.get(index));
    let mut evidence = evidence;
    evidence.extend(memory(closed));
    evidence.extend(problems(closed));
    Ending { outcome, phase: reached.map(|phase| phase.name.clone()), after, evidence }
}

/// Every phase was completed, and the store was still closing when our patience ended: no kill of unknown cause.
fn lingered(closed: &Closed) -> (Outcome, Vec<String>) {
    let (outcome, mut shown) = classify(&Evidence::of(&closed.end, Some(EndedByUs::TimedOut)));
    shown.push("every phase was completed; closing the store took too long: a `close` phase would time it".to_owned());
    (outcome, shown)
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
                Failure::DiskFull => Outcome::DiskFull,
                // Whose limit it was needs evidence; an allocation that an engine was refused is not ours to guess at.
                Failure::OutOfMemory => match closed.end.memory.limit_reached {
                    Reading::Measured(true) => Outcome::OutOfMemory { by: OutOfMemory::Limit },
                    _ => Outcome::Failed { code: None },
                },
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prony_model::reading::Why;
    use prony_model::spec::{Limits, StoreSpec, Subject};
    use prony_os::launch::{End, Finished, KilledFor, Status};
    use prony_os::limits::MemoryEvidence;
    use prony_os::sample::Sampled;

    use super::*;

    fn closed(status: Status, lingered: bool) -> Closed {
        let memory = MemoryEvidence {
            limit: None,
            peak: Reading::Missing(Why::NotApplicable),
            oom_kills: Reading::Measured(0),
            forks_refused: Reading::Measured(0),
            limit_reached: Reading::Missing(Why::NotApplicable),
            host_oom_kills: Reading::Measured(0),
        };
        let end = End {
            status,
            at: Nanos::ZERO,
            killed: lingered.then_some(KilledFor::Asked),
            cpu: Reading::Missing(Why::NotApplicable),
            usage: Reading::Missing(Why::NotApplicable),
            leftover: 0,
            memory,
            stdout: None,
            stderr: None,
            lost: None,
        };
        let cpu = Reading::Measured(Nanos::ZERO);
        let sampled = Sampled { series: Vec::new(), cpu, rounds: 0, missed: 0, stride: 1 };
        let finished = Finished { killed: 0, problems: Vec::new() };
        Closed { visits: Vec::new(), effective: None, sampled, end, finished, lingered }
    }

    fn judged(closed: &Closed) -> Ending {
        let store = StoreSpec { engine: "memory".into(), durability: None, options: BTreeMap::new() };
        let subject = Subject::Store(store);
        let spec = TrialSpec { subject, data: None, phases: Vec::new(), limits: Limits::default() };
        judge(&spec, None, closed, Nanos::ZERO)
    }

    #[test]
    fn a_store_that_we_did_not_wait_for_was_not_killed_for_an_unknown_cause() {
        let ending = judged(&closed(Status::Signalled(9), true));
        assert_eq!((ending.outcome, ending.phase), (Outcome::TimedOut, None));
        assert!(ending.evidence.iter().any(|text| text.contains("closing the store took too long")));
        assert_eq!(judged(&closed(Status::Signalled(9), false)).outcome, Outcome::Killed);
        assert_eq!(judged(&closed(Status::Exited(0), false)).outcome, Outcome::Ok);
    }
}
