//! The state of a store's worker apart from its phases, and its outcome. Pure functions.

use std::collections::BTreeMap;

use prony_boundaries::limits::Stopped;
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::program::replica_instance;
use prony_model::protocol::Failure;
use prony_model::reading::Reading;
use prony_model::record::EffectiveStore;
use prony_model::units::Nanos;
use prony_os::launch::classify::{EndedByUs, Evidence, classify};
use prony_os::launch::{CpuTime, End, Finished, Usage};

/// Why a worker did not reach the end of its last phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its end of the socket is closed.
    Closed,
    /// It reported what failed.
    Failed {
        /// What kind of failure.
        failure: Failure,
        /// Its message.
        message: String,
    },
    /// What it wrote is not of the protocol.
    Garbled(String),
    /// It did not close the store in time, before the next phase.
    Late,
    /// The command of a phase did not end well.
    Command {
        /// How it ended.
        outcome: Outcome,
        /// The evidence: exit code, signal, last lines of output.
        evidence: Vec<String>,
    },
}

impl Fault {
    /// The command of a phase failed before it began, or its supervisor did.
    pub(crate) fn of_command(why: String) -> Self {
        Self::Command { outcome: Outcome::Failed { code: None }, evidence: vec![format!("the command: {why}")] }
    }
}

/// The role of the command of a phase in samples and snapshots. No service has such a name.
pub(crate) const COMMAND: &str = "load.command";

/// The command of a phase, as observed.
#[derive(Clone, Debug)]
pub struct Commanded {
    /// When it began to execute its program.
    pub released: Nanos,
    /// What the kernel had counted of its process then.
    pub before: Option<(CpuTime, Usage)>,
    /// How its own process ended.
    pub end: Box<End>,
}

/// The state of a worker beside its phases.
#[derive(Debug, Default)]
pub struct Report {
    /// Engine, version and settings as it reported them; `None` before it did.
    pub effective: Option<Box<EffectiveStore>>,
    /// Why it did not complete its phases.
    pub fault: Option<Fault>,
    /// When it was asked to close the store and end: all phases were complete.
    pub asked_to_stop: Option<Nanos>,
    /// The worker that has the fault, where it is not the first or several run the phase.
    pub failed_replica: Option<u32>,
    /// How that one ended, unless it is the first.
    pub end: Option<End>,
    /// What ending the further workers took.
    pub finished: Finished,
    /// The commands that have run, by the index of their phase.
    pub commands: BTreeMap<usize, Commanded>,
}

impl Report {
    /// How the workers ended, and the evidence; `end` is that of the first, and `stopped` why the runner ended it, if it
    /// did.
    pub(crate) fn outcome(&self, end: &End, stopped: Option<Stopped>) -> (Outcome, Vec<String>) {
        // The first did not fail: it was ended because a further one had failed. Where it ended too, what ended all of them
        // is its end as well.
        let own = self.end.as_ref().filter(|_| stopped == Some(Stopped::Overdue));
        let (outcome, shown) = self.outcome_of(own.unwrap_or(end), stopped);
        // Of the first `end` is its own, unless it is that of all.
        let is_own =
            |number: &u32| own.is_some() || self.fault != Some(Fault::Closed) || (*number == 1 && stopped.is_none());
        let Some(number) = self.failed_replica.filter(is_own) else { return (outcome, shown) };
        let who = replica_instance(number);
        (outcome, shown.into_iter().map(|text| format!("`{who}`: {text}")).collect())
    }

    fn outcome_of(&self, end: &End, stopped: Option<Stopped>) -> (Outcome, Vec<String>) {
        let classified = |by_us| classify(&Evidence::of(end, by_us));
        match (&self.fault, stopped.and_then(Stopped::decided)) {
            (None, None) if self.asked_to_stop.is_some() && stopped == Some(Stopped::Overdue) => {
                // No kill of unknown cause.
                let (outcome, mut shown) = classified(Some(EndedByUs::TimedOut));
                let late = "all phases were completed, but closing the store took too long; a `close` phase measures that time";
                shown.push(late.to_owned());
                (outcome, shown)
            }
            (None, None) if self.asked_to_stop.is_some() => classified(None),
            (None | Some(Fault::Closed), Some(by_us)) => classified(Some(by_us)),
            (None | Some(Fault::Closed), None) => match classified(None) {
                // An exit with 0 before the last phase is no success.
                (Outcome::Ok, mut shown) => {
                    shown.push("the worker exited before prony asked it to".to_owned());
                    (Outcome::Failed { code: Some(0) }, shown)
                }
                other => other,
            },
            (Some(Fault::Late), _) => {
                let shown = "it did not close the store and exit in time when the next phase was due".to_owned();
                (Outcome::TimedOut, vec![shown])
            }
            (Some(Fault::Garbled(what)), _) => {
                (Outcome::Failed { code: None }, vec![format!("the worker violated the protocol: {what}")])
            }
            (Some(Fault::Command { outcome, evidence }), _) => (*outcome, evidence.clone()),
            (Some(Fault::Failed { failure, message }), _) => (failed(*failure, end), vec![message.clone()]),
        }
    }
}

fn failed(failure: Failure, end: &End) -> Outcome {
    match failure {
        Failure::Failed | Failure::OfProny => Outcome::Failed { code: None },
        Failure::Unsupported => Outcome::Unsupported,
        Failure::WrongAnswer => Outcome::WrongAnswer,
        Failure::Saturated => Outcome::Saturated,
        Failure::DiskFull => Outcome::DiskFull,
        // Which limit it was needs evidence: a refused allocation does not show it.
        Failure::OutOfMemory => match end.memory.limit_reached {
            Reading::Measured(true) => Outcome::OutOfMemory { by: OutOfMemory::Limit },
            _ => Outcome::Failed { code: None },
        },
    }
}

#[cfg(test)]
mod tests {
    use prony_os::launch::Status;

    use super::*;
    use crate::figures::span::tests::{snapshot, watched};

    /// The outcome of a worker that was asked to stop, or not, and ended with this status.
    fn outcome(asked: bool, status: Status, stopped: Option<Stopped>) -> (Outcome, String) {
        let end = End { status, ..watched(vec![snapshot(0, 0, &[7])], vec![]).ended };
        let report = Report { asked_to_stop: asked.then_some(Nanos::ZERO), ..Report::default() };
        let (outcome, shown) = report.outcome(&end, stopped);
        (outcome, shown.join("; "))
    }

    #[test]
    fn worker_that_closes_for_too_long_is_not_killed_for_an_unknown_cause() {
        let (killed, shown) = outcome(true, Status::Signalled(9), Some(Stopped::Overdue));
        assert_eq!(killed, Outcome::TimedOut);
        assert!(shown.contains("closing the store took too long"), "{shown}");
        assert_eq!(outcome(true, Status::Signalled(9), None).0, Outcome::Killed);
        assert_eq!(outcome(true, Status::Exited(0), None).0, Outcome::Ok);
    }

    #[test]
    fn worker_that_exits_with_0_before_its_last_phase_failed() {
        let (exited, shown) = outcome(false, Status::Exited(0), None);
        assert_eq!(exited, Outcome::Failed { code: Some(0) });
        assert!(shown.contains("before prony asked it to"), "{shown}");
        assert_eq!(outcome(false, Status::Exited(0), Some(Stopped::Deadline)).0, Outcome::TimedOut);
        assert_eq!(outcome(false, Status::Signalled(9), Some(Stopped::Interrupted)).0, Outcome::Interrupted);
    }

    #[test]
    fn what_a_worker_reports_goes_before_how_it_ended() {
        let end = watched(vec![snapshot(0, 0, &[7])], vec![]).ended;
        let of = |fault| Report { fault: Some(fault), ..Report::default() }.outcome(&end, Some(Stopped::Overdue));
        let failed = |failure| of(Fault::Failed { failure, message: "m".into() });
        assert_eq!(failed(Failure::DiskFull), (Outcome::DiskFull, vec!["m".to_owned()]));
        assert_eq!(failed(Failure::OutOfMemory).0, Outcome::Failed { code: None }, "no limit was reached");
        assert_eq!(of(Fault::Garbled("x".into())).0, Outcome::Failed { code: None });
    }
}
