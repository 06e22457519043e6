//! Hosts the load of a trial: runs its phases of requests when the runner requests them, and reports each.
//!
//! A phase begins at the end of its warm-up and ends when each of its requests has ended. Everything that can be prepared is
//! prepared before: files are read through, records made, certificates loaded.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use prony_model::error::chain;
use prony_model::http::HttpSpec;
use prony_model::latency::LatencyError;
use prony_model::link::{Link, LinkError, Progress};
use prony_model::protocol::{Failure, FromWorker, PhaseReport, ToWorker, VERSION};
use prony_model::spec::{Action, PhaseSpec};
use prony_model::units::Nanos;

use crate::checked_load::Load;
use crate::clock::monotonic;
use crate::control::Control;
use crate::destination::Destination;
use crate::error::{Error, Fault};
use crate::linger::Lingering;
use crate::of_trial::{self, Trial};
use crate::phase_report;
use crate::ran::Ran;
use crate::remark::Remark;
use crate::run::Start;
use crate::saved::Saved;

/// How often the progress is updated, which another thread reports.
const REFRESH: Nanos = Nanos::from_millis(50);

/// The reason for the end of a trial.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The connection to the runner failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A phase has requests that cannot be sent.
    #[error("{}", listed(.0))]
    Faults(Vec<Fault>),
    /// The load could not be run.
    #[error(transparent)]
    Load(#[from] Error),
    /// A histogram cannot be encoded.
    #[error(transparent)]
    Latency(#[from] LatencyError),
    /// The runner requested what the plan does not have.
    #[error("the runner requested {0}, which is not in the plan")]
    Protocol(String),
}

fn listed(faults: &[Fault]) -> String {
    faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; ")
}

/// A trial that ended before its plan.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct HostError {
    /// The phase under way, where there was one.
    pub phase: Option<usize>,
    /// What ended it.
    #[source]
    pub cause: Stop,
}

impl HostError {
    /// The message to the runner.
    pub fn to_message(&self) -> FromWorker {
        FromWorker::Failed { index: self.phase, failure: Failure::Failed, message: chain(&self.cause) }
    }
}

/// Runs the requested phases until the runner sends `stop`.
///
/// # Errors
/// Whatever ends the trial before its plan; the caller reports it to the runner ([`HostError::to_message`]).
pub fn host(link: &mut dyn Link, trial: Trial<'_>, progress: &Progress) -> Result<(), HostError> {
    let mut host = Host { link, trial, progress, saved: Saved::new() };
    host.run().map_err(|cause| HostError { phase: progress.phase(), cause })
}

struct Host<'h> {
    link: &'h mut dyn Link,
    trial: Trial<'h>,
    progress: &'h Progress,
    /// The values of answers so far.
    saved: Saved,
}

impl<'h> Host<'h> {
    fn run(&mut self) -> Result<(), Stop> {
        self.link.send(FromWorker::Ready { version: VERSION, effective: None, open: Nanos::ZERO })?;
        while let Some(index) = self.next_phase()? {
            let (report, lingering) = self.phase(index)?;
            let at = monotonic();
            self.progress.end();
            self.link.send(FromWorker::Ended { index, at, report: Box::new(report) })?;
            if let Some(lingering) = lingering {
                let connections = lingering.surplus();
                let surplus = (connections > 0).then(|| Remark::Surplus { connections }.to_string());
                self.link.send(FromWorker::Lingered { index, surplus })?;
            }
        }
        Ok(())
    }

    fn next_phase(&mut self) -> Result<Option<usize>, Stop> {
        match self.link.next()? {
            ToWorker::Phase { index } if index < self.trial.spec.phases.len() => {
                self.progress.begin(index);
                Ok(Some(index))
            }
            ToWorker::Phase { index } => Err(Stop::Protocol(format!("phase {index}"))),
            ToWorker::Stop => Ok(None),
            ToWorker::Plan { .. } | ToWorker::Crash { .. } => Err(Stop::Protocol("a second plan".to_owned())),
            ToWorker::Go => Err(Stop::Protocol("`go`, which only workers of a store wait for".to_owned())),
        }
    }

    /// Runs a phase; of a load with its open connections.
    fn phase(&mut self, index: usize) -> Result<(PhaseReport, Option<Lingering>), Stop> {
        let phase: &'h PhaseSpec = &self.trial.spec.phases[index];
        match &phase.action {
            Action::Http(spec) => {
                let (report, lingering) = self.load(index, phase, spec)?;
                Ok((report, Some(lingering)))
            }
            Action::Pause(time) => {
                let began = monotonic();
                self.began(index, began)?;
                thread::sleep(time.to_duration());
                Ok((PhaseReport { time: monotonic().since(began), ..PhaseReport::default() }, None))
            }
            other => {
                let what = format!("`{}` in phase `{}` of a load generator", other.name(), phase.name);
                Err(Stop::Protocol(what))
            }
        }
    }

    fn load(&mut self, index: usize, phase: &PhaseSpec, spec: &HttpSpec) -> Result<(PhaseReport, Lingering), Stop> {
        let load = of_trial::load(self.trial, phase, spec, &self.saved).map_err(Stop::Faults)?;
        let start = Start::new(&load, Destination::find(&load)?)?;
        let ran = self.observed(index, &load, start)?;
        let report = phase_report::of(&load, &ran)?;
        let captures = load.content().kinds.all().iter().flat_map(|kind| &kind.captures);
        let names: BTreeSet<&str> = captures.map(|capture| capture.name.as_str()).collect();
        ran.found.replace(names.into_iter(), &mut self.saved);
        Ok((report, ran.lingering))
    }

    /// Runs a load on threads of its own, while this one announces its begin and notes its progress.
    fn observed(&mut self, index: usize, load: &Load, start: Start<'_>) -> Result<Ran, Stop> {
        let control = Control::new(load.asked().threads);
        let (send, receive) = channel();
        thread::scope(|scope| {
            let begin = Start::soon();
            let (control, run) = (&control, move |control| start.run(begin, control));
            scope.spawn(move || {
                // Where nobody receives it, the trial has ended.
                let _ = send.send(run(control));
            });
            let ran = self.watch(index, begin + load.asked().warm_up, control, &receive);
            // Where the runner cannot be reached, nobody wants the rest.
            ran.inspect_err(|_| control.stop())
        })
    }

    fn watch(
        &mut self,
        index: usize,
        begin: Nanos,
        control: &Control,
        ended: &Receiver<Result<Ran, Error>>,
    ) -> Result<Ran, Stop> {
        let mut before = None;
        loop {
            let now = monotonic();
            if before.is_none() && now >= begin {
                before = Some(control.progress().ended());
                self.began(index, begin)?;
            }
            if let Some(before) = before {
                self.progress.operations.store(control.progress().ended().saturating_sub(before), Relaxed);
            }
            let wait = if before.is_none() { begin.since(now).min(REFRESH) } else { REFRESH };
            match ended.recv_timeout(Duration::from_nanos(wait.as_nanos())) {
                Ok(ran) => {
                    let ran = ran?;
                    if before.is_none() {
                        self.began(index, begin)?;
                    }
                    return Ok(ran);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Panic.into()),
            }
        }
    }

    fn began(&mut self, index: usize, at: Nanos) -> Result<(), Stop> {
        Ok(self.link.send(FromWorker::Began { index, at })?)
    }
}
