//! The processes of a crash trial.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use prony_boundaries::channel::{Channel, Received};
use prony_engines::phases::Acknowledged;
use prony_model::crash::{CrashStep, PlannedCut};
use prony_model::protocol::{FromWorker, ToWorker, VERSION};
use prony_model::record::Status;
use prony_model::spec::TrialSpec;
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::interrupt::Interrupt;
use prony_os::launch::Process;
use prony_os::limits::Group;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::os::fd::AsFd;

use crate::error::Error;
use crate::roles::workers;
use crate::run_context::RunContext;

/// Interrupts and limits are checked at least this often.
const POLL: Nanos = Nanos::from_millis(50);

/// What fails where the list of commits does.
const LIST: &str = "use the list of acknowledged commits";

/// How long a worker that has closed its socket may take to end.
const ENDING: Duration = Duration::from_secs(5);

/// One cut: its store, and the commits that were acknowledged.
pub(super) struct Trial<'t> {
    context: &'t RunContext,
    spec: &'t TrialSpec,
    planned: &'t PlannedCut,
    acknowledged: Acknowledged,
}

impl<'t> Trial<'t> {
    pub(super) fn new(context: &'t RunContext, spec: &'t TrialSpec, planned: &'t PlannedCut) -> Result<Self, Error> {
        let acknowledged = Acknowledged::new().map_err(Error::setup(LIST))?;
        Ok(Self { context, spec, planned, acknowledged })
    }

    /// The instants of the commits that were acknowledged.
    pub(super) fn acknowledged(&self) -> Result<Vec<u64>, Error> {
        self.acknowledged.instants().map_err(Error::setup(LIST))
    }

    /// The limit of time that the variant has.
    pub(super) const fn limit(&self) -> Option<Nanos> {
        self.spec.limits.trial
    }

    /// Launches a worker for a step on the store in a directory.
    pub(super) fn launch(&self, directory: &Path, step: CrashStep) -> Result<Worker<'t>, Error> {
        let shared = (self.acknowledged.descriptor().map_err(Error::setup(LIST))?, Acknowledged::NUMBER);
        let (mut launch, mut channel) = workers::launch(directory, Some(shared))?;
        launch.group = Some(Group::create(&self.spec.limits)?);
        let mut process = self.context.launcher.start(launch)?;
        process.release()?;
        process.started(&[])?;
        channel.send(&ToWorker::Crash {
            version: VERSION,
            spec: Box::new(self.spec.clone()),
            crash: self.planned.crash,
            seed: self.planned.seed,
            dir: directory.to_string_lossy().into_owned(),
            step,
        });
        Ok(Worker { process, channel, interrupt: &self.context.interrupt })
    }
}

/// A worker of a crash trial.
pub(super) struct Worker<'t> {
    process: Box<dyn Process>,
    channel: Channel,
    interrupt: &'t Interrupt,
}

/// What a worker has said, or why it says nothing.
pub(super) enum Heard {
    Message(FromWorker),
    /// It has ended, or speaks no longer.
    Ended(How),
    /// The time is over.
    Late,
    /// The user asked to stop.
    Interrupted,
}

/// How a worker ended, as the end of a sentence.
pub(super) enum How {
    Known(Status),
    Lost(String),
    /// It did not end though it closed its socket, or it sent something else.
    Garbled(String),
}

impl How {
    /// Whether something else than its store may have ended it.
    pub(super) fn is_disturbance(&self, store: &Path) -> bool {
        match self {
            Self::Lost(_) | Self::Garbled(_) => true,
            Self::Known(status) => {
                *status == Status::Signalled(Signal::KILL.as_raw()) || workers::disk_full(*status, store).is_some()
            }
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(Status::Exited(code)) => write!(f, "ended with exit code {code}"),
            Self::Known(Status::Signalled(signal)) => write!(f, "was ended by signal {signal}"),
            Self::Lost(why) => write!(f, "was lost: {why}"),
            Self::Garbled(what) => write!(f, "sent what cannot be read: {what}"),
        }
    }
}

impl Worker<'_> {
    /// Its next message, until a time of the monotonic clock.
    pub(super) fn next(&mut self, until: Nanos) -> Result<Heard, Error> {
        loop {
            match self.channel.receive() {
                Received::Message(message) => return Ok(Heard::Message(*message)),
                Received::Closed => return self.how().map(Heard::Ended),
                Received::Garbled(what) => return Ok(Heard::Ended(How::Garbled(what))),
                Received::Nothing => {}
            }
            let now = monotonic();
            if self.interrupt.asked() {
                return Ok(Heard::Interrupted);
            }
            if now >= until {
                return Ok(Heard::Late);
            }
            let left = until.since(now).min(POLL);
            let time = Timespec { tv_sec: 0, tv_nsec: left.as_nanos() as i64 };
            let mut fds = [PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN)];
            // A signal or an error shows in the next turn.
            let _ = poll(&mut fds, Some(&time));
        }
    }

    /// Lets its writes begin.
    pub(super) fn go(&mut self) {
        self.channel.send(&ToWorker::Go);
    }

    fn how(&mut self) -> Result<How, Error> {
        Ok(match self.process.wait(Some(ENDING))? {
            None => How::Garbled("it closed its socket and did not end".to_owned()),
            Some(end) => end.lost.map_or(How::Known(end.status), How::Lost),
        })
    }

    /// Ends it by SIGKILL, if it has not ended, with all that it has started.
    pub(super) fn end(mut self) -> Result<(), Error> {
        self.process.kill_tree()?;
        self.process.finish()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_its_store_can_have_done_is_said_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let disturbed = |how: How| how.is_disturbance(dir.path());
        assert!(disturbed(How::Lost("no pidfd".to_owned())) && disturbed(How::Garbled("no end".to_owned())));
        let signalled = |signal: Signal| How::Known(Status::Signalled(signal.as_raw()));
        assert!(disturbed(signalled(Signal::KILL)));
        assert!(!disturbed(How::Known(Status::Exited(3))) && !disturbed(signalled(Signal::SEGV)));
        assert!(!disturbed(signalled(Signal::BUS)), "there is room on the disk");
    }
}
