//! The runner's connection to a supervisor.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::channel::{Channel, Received};
use super::wire::{End, Finished, FromSupervisor, ToSupervisor};
use crate::clock::monotonic;
use crate::error::Error;
use crate::limits::Group;
use crate::sys::process::Step;

/// Supervisors that only have to exit, which may take a while: the runner does not wait for that. They are children of
/// this process, whoever launched them, and stay in its process table until they are reaped.
static LINGERING: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Reaps supervisors of that list that have exited meanwhile.
pub(super) fn reap_lingering() {
    // If it cannot be waited for, it was reaped already.
    LINGERING.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

/// Adds one to that list.
fn linger(process: Child) {
    LINGERING.lock().unwrap_or_else(PoisonError::into_inner).push(process);
}

/// How long a supervisor may be silent before it is checked whether somebody has stopped it.
pub(super) const SILENCE: Duration = Duration::from_secs(1);

/// Continues a child that was stopped, as its subject can stop it; returns whether it was stopped.
fn go_on(child: &Child, ends: WaitIdOptions) -> bool {
    let Some(pid) = Pid::from_raw(child.id().cast_signed()) else { return false };
    let state = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | ends);
    let stopped = matches!(state, Ok(Some(state)) if state.stopped());
    // It is our child and not reaped, so that the pid is still its own.
    stopped && kill_process(pid, Signal::CONT).is_ok()
}

/// Whether a child was stopped and goes on again, since this was asked last. The kernel remembers that of a child until it is
/// waited for, and that it was continued only where it had been stopped.
fn went_on(child: &Child) -> bool {
    let Some(pid) = Pid::from_raw(child.id().cast_signed()) else { return false };
    let state = waitid(WaitId::Pid(pid), WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG);
    matches!(state, Ok(Some(state)) if state.continued())
}

/// Waits until a child has exited, and has it go on meanwhile wherever it is stopped.
fn wait_for(child: &mut Child) -> io::Result<ExitStatus> {
    while go_on(child, WaitIdOptions::EXITED) {}
    child.wait()
}

/// A supervisor at the other end. When this is dropped, it ends the tree, and we wait for its exit.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) channel: Channel,
    /// `None` once nobody waits for it any more.
    process: Option<Child>,
    pub(super) program: String,
    pub(super) directory: PathBuf,
    /// The group of its subject, which it removes.
    pub(super) group: Option<Group>,
    /// It has descriptors open that are slow to close: after the cleanup, nobody waits for its exit.
    pub(super) lingers: bool,
    /// It was stopped from outside, so the times that it reports are too late.
    stopped: bool,
    farewell: Farewell,
}

/// How far a supervisor was asked to finish. It answers once: a second request would wait forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    /// Not yet.
    Unsaid,
    /// It was asked, and needs no further request.
    Said,
    /// It has answered that all is cleaned up, and waits for our end to close.
    Answered,
}

impl Link {
    /// Connects to a supervisor that was just started.
    pub(super) fn new(channel: Channel, process: Child, program: String, group: Option<Group>) -> Self {
        let (directory, farewell) = (PathBuf::new(), Farewell::Unsaid);
        Self { channel, process: Some(process), program, directory, group, lingers: false, stopped: false, farewell }
    }

    /// The supervisor's pid; `None` once nobody waits for it any more.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Ends a supervisor that has no subject, even if it is stopped; its spawner ends with it. It is reaped later.
    pub(super) fn abandon(mut self) {
        let Some(mut process) = self.process.take() else { return };
        // It is our child and not reaped, or has ended.
        let _ = process.kill();
        linger(process);
    }

    /// Forgets that it was stopped and continued: under an earlier subject, or under none.
    pub(super) fn forget_stops(&self) {
        self.process.as_ref().map(went_on);
    }

    pub(super) fn supervisor_ended(&self) -> Error {
        Error::SupervisorEnded { program: self.program.clone() }
    }

    pub(super) fn send(&self, message: &ToSupervisor, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        self.channel.send(message, fds).map_err(|source| self.unsent(source))
    }

    /// The error of a message that could not be sent, to the supervisor or to its spawner.
    pub(super) fn unsent(&self, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.supervisor_ended(),
            _ => Error::Channel { program: self.program.clone(), source },
        }
    }

    pub(super) fn receive(&mut self, deadline: Option<Instant>) -> Result<Option<FromSupervisor>, Error> {
        self.receive_beside(deadline, &[])
    }

    /// The same, but returns early once any of the other descriptors is readable. A supervisor that was stopped counts
    /// as ended: the instants that it reports would be unreliable.
    pub(super) fn receive_beside(
        &mut self,
        deadline: Option<Instant>,
        other_fds: &[BorrowedFd<'_>],
    ) -> Result<Option<FromSupervisor>, Error> {
        loop {
            let silence = Instant::now() + SILENCE;
            let until = deadline.map_or(silence, |deadline| deadline.min(silence));
            match self.channel.receive(Some(until), other_fds) {
                Ok(Received::Message(FromSupervisor::Ended { .. })) if self.process.as_ref().is_some_and(went_on) => {
                    self.stopped = true;
                    return Err(self.supervisor_ended());
                }
                Ok(Received::Message(message)) => return Ok(Some(message)),
                Ok(Received::Nothing) => {}
                Ok(Received::Closed) => return Err(self.supervisor_ended()),
                Err(source) => return Err(Error::Channel { program: self.program.clone(), source }),
            }
            self.stopped |= self.process.as_ref().is_some_and(|process| go_on(process, WaitIdOptions::NOHANG));
            if self.stopped {
                return Err(self.supervisor_ended());
            }
            let now = Instant::now();
            if now < until || deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(None);
            }
        }
    }

    /// The end of a subject whose supervisor has ended, once every process found of its tree is killed.
    pub(super) fn lost(&mut self) -> End {
        self.channel.close();
        let how = match self.process.as_mut().map(wait_for) {
            Some(_) if self.stopped => "stopped by a signal".to_owned(),
            Some(Ok(status)) => status.to_string(),
            Some(Err(error)) => error.to_string(),
            None => "prony no longer waited for the supervisor".to_owned(),
        };
        self.clean_up();
        End::lost(how, monotonic())
    }

    /// Kills and removes what a killed supervisor has left; what cannot be removed now is left to a sweep.
    fn clean_up(&self) {
        if let Some(group) = &self.group {
            group.kill();
            let _ = group.remove();
        }
    }

    /// Asks the supervisor to kill and remove everything; with `true` where it waits for another subject.
    pub(super) fn finish(&mut self) -> Result<(Finished, bool), Error> {
        self.farewell = Farewell::Said;
        self.send(&ToSupervisor::Finish, &[])?;
        loop {
            match self.receive(None)? {
                Some(FromSupervisor::Finished { finished, ready }) => {
                    self.farewell = if ready { Farewell::Unsaid } else { Farewell::Answered };
                    self.group = self.group.take().filter(|_| !ready);
                    return Ok((finished, ready));
                }
                Some(FromSupervisor::Ended { .. }) => {}
                other => return Err(self.unexpected(other)),
            }
        }
    }

    /// The error of a message that arrived where another was expected.
    pub(super) fn unexpected(&self, message: Option<FromSupervisor>) -> Error {
        let program = self.program.clone();
        match message {
            Some(FromSupervisor::SpawnerEnded) => self.supervisor_ended(),
            Some(FromSupervisor::Refused { step, errno }) => {
                let source = io::Error::from_raw_os_error(errno);
                let what = match step {
                    Some(Step::Exec) => return Error::Exec { program, source },
                    Some(Step::Directory) => {
                        return Error::Directory { program, directory: self.directory.clone(), source };
                    }
                    Some(Step::Descriptors) => "descriptors",
                    Some(Step::Clone) => "making a process",
                    Some(Step::Groups) => "entering its control groups",
                    Some(Step::Ready) | None => "an unknown step failed",
                };
                Error::Prepare { program, what: what.to_owned(), source }
            }
            other => Error::Channel {
                program,
                source: io::Error::other(format!("unexpected message of the supervisor: {other:?}")),
            },
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.lingers && self.farewell == Farewell::Unsaid {
            // If the supervisor has ended, the missing answer shows that.
            let _ = self.finish();
        }
        // Before it is waited for, since it waits for this.
        self.channel.close();
        let Some(mut process) = self.process.take() else { return };
        if self.lingers && self.farewell == Farewell::Answered {
            // It only has the descriptors left that it keeps open for us.
            return linger(process);
        }
        // It exits by itself after the tree has ended; if it cannot be waited for, it was reaped already.
        let _ = wait_for(&mut process);
        // Cleanup is left to do only if the supervisor itself was killed.
        self.clean_up();
    }
}
