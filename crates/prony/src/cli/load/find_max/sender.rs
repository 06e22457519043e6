//! Sends the requests of a search: the steps, and between them probes that say whether the server is at rest.

use std::time::Duration;

use prony_http::{Asked, Bound, Destination, Failure, Load, Loop, Report};
use prony_model::http::ExpectedStatuses;
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::interrupt::Interrupt;

use super::super::{faults, observed};
use crate::error::Error;

/// Requests of a probe of a server at rest, one after another.
const PROBE: u64 = 20;
/// A server is at rest again when it answers a probe in this multiple of the time before the first step ...
const AT_REST: f64 = 2.0;
/// ... or in this much more time, which is not seen in a step.
const MARGIN: f64 = 1e6;
/// The time from one probe to the next, and the longest after probes that failed.
const BETWEEN_PROBES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));
/// How long the search waits for a server to be at rest.
pub(super) const LONGEST_REST: Nanos = Nanos::from_secs(60);
/// How long it waits for a server that refuses connections, which may be started again.
const LONGEST_AWAY: Nanos = Nanos::from_secs(5);

/// What a server does with requests that come one after another.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Probe {
    /// It answers, in this median time, nanoseconds.
    Answered(f64),
    /// It accepts no connection.
    Refused,
    /// Each request failed, most often so.
    Failed(String),
    /// Anything else.
    Other,
}

/// What a server does before a step.
pub(super) enum Rest {
    /// It is at rest, after this time.
    Since(Nanos),
    /// It still works on what an earlier step left.
    Busy,
    /// It accepts no connection.
    Away,
}

/// Sends requests, each with a number of its own over all steps: a server may answer one that it has had in another way.
pub(super) struct Sender<'w> {
    /// A load at any rate.
    asked: &'w Asked,
    quiet: bool,
    interrupt: &'w Interrupt,
    /// The number of the next request.
    first: u64,
    /// Where the server was found.
    destination: Option<Destination>,
}

impl<'w> Sender<'w> {
    pub(super) fn new(asked: &'w Asked, quiet: bool, interrupt: &'w Interrupt) -> Self {
        Self { asked, quiet, interrupt, first: 0, destination: None }
    }

    /// Requests so far.
    #[cfg(test)]
    pub(super) fn sent(&self) -> u64 {
        self.first
    }

    /// Runs one step.
    pub(super) fn load(&mut self, asked: Asked) -> Result<Report, Error> {
        self.run(asked, self.quiet, None)
    }

    /// Runs a load, for so long at most.
    fn run(&mut self, asked: Asked, quiet: bool, within: Option<Nanos>) -> Result<Report, Error> {
        let load = Load::check(Asked { first: self.first, ..asked }).map_err(faults)?;
        // A server that is away later has refused requests, which are counted.
        let destination = match self.destination {
            Some(destination) => destination,
            None => *self.destination.insert(Destination::find(&load)?),
        };
        let report = observed(&load, destination, self.interrupt, quiet, within)?;
        self.first += report.requests + report.warm_up_ok + report.warm_up_failed;
        Ok(report)
    }

    /// Sends requests one after another, up to the first without an answer in time, for so long at most.
    pub(super) fn probe(&mut self, within: Nanos) -> Result<Probe, Error> {
        let asked = Asked {
            pace: Loop::Closed,
            bound: Bound::Requests(PROBE),
            warm_up: Nanos::ZERO,
            connections: 1,
            threads: 1,
            until_timeout: true,
            ..self.asked.clone()
        };
        let report = self.run(asked, true, Some(within))?;
        if let Some(median) = report.latency.p50.measured() {
            return Ok(Probe::Answered(*median));
        }
        let is_refused = report.requests > 0 && report.errors.refused == report.requests;
        let most = most_frequent(&report, &self.asked.expect).filter(|_| report.ok == 0);
        Ok(if is_refused { Probe::Refused } else { most.map_or(Probe::Other, Probe::Failed) })
    }

    /// The most frequent error of the first probe, where each of its requests failed.
    pub(super) fn failing(&self, first: &Probe) -> Option<String> {
        if let Probe::Failed(most) = first { Some(most.clone()).filter(|_| !self.interrupt.asked()) } else { None }
    }

    /// Waits until the server answers probes as it did before the first step: what a step left behind would be in the figures of the
    /// next.
    pub(super) fn settle(&mut self, first: &Probe) -> Result<Rest, Error> {
        let begin = monotonic();
        let Probe::Answered(rest) = *first else { return Ok(Rest::Since(Nanos::ZERO)) };
        let (mut answered, (mut pause, longest)) = (begin, BETWEEN_PROBES);
        loop {
            let probe = self.probe(LONGEST_REST.since(monotonic().since(begin)))?;
            let now = monotonic();
            let passed = now.since(begin);
            let is_at_rest = matches!(probe, Probe::Answered(now) if now <= (rest * AT_REST).max(rest + MARGIN));
            if is_at_rest || self.interrupt.asked() {
                return Ok(Rest::Since(passed));
            }
            if probe != Probe::Refused {
                answered = now;
            }
            if now.since(answered) > LONGEST_AWAY {
                return Ok(Rest::Away);
            }
            if passed > LONGEST_REST {
                return Ok(Rest::Busy);
            }
            // Where it refuses connections, each probe would end at once. One that limits its rate counts the probes too.
            std::thread::sleep(pause);
            if !matches!(probe, Probe::Answered(_) | Probe::Refused) {
                pause = (pause * 2).min(longest);
            }
        }
    }
}

/// What most of the requests that failed ended in, with their number.
pub(super) fn most_frequent(report: &Report, expect: &ExpectedStatuses) -> Option<String> {
    let kinds = Failure::ALL.into_iter().map(|kind| (kind, report.errors.count(kind)));
    let (kind, failed) = kinds.filter(|(_, count)| *count > 0).max_by_key(|(_, count)| *count)?;
    let statuses = report.statuses.iter().filter(|(status, _)| !expect.contains(**status));
    let status = statuses.max_by_key(|(_, count)| **count).filter(|_| kind == Failure::Status);
    Some(match status {
        Some((status, count)) => format!("status {status}: {count}"),
        None => format!("{}: {failed}", kind.text()),
    })
}
