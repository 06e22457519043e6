//! The runner's side of its talk with a supervisor.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::channel::{Channel, Received};
use super::wire::{End, Finished, FromSupervisor, Refusal, ToSupervisor};
use crate::clock::monotonic;
use crate::error::Error;
use crate::limits::Group;

/// Supervisors that have nothing left to do but exit, which may take them a while: nobody waits for that. They are children
/// of this process, whoever launched them, and stay in its table of processes until they are reaped.
static LINGERING: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Reaps supervisors that were left to themselves and have exited meanwhile.
pub(super) fn reap_lingering() {
    // One that cannot be waited for was reaped already.
    LINGERING.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

/// How long a supervisor may be silent before it is checked whether somebody has stopped it.
pub(super) const SILENCE: Duration = Duration::from_secs(1);

/// Has a child go on that was stopped, as its subject can; whether it was.
fn go_on(child: &Child, ends: WaitIdOptions) -> bool {
    let Some(pid) = Pid::from_raw(child.id().cast_signed()) else { return false };
    let state = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | ends);
    let stopped = matches!(state, Ok(Some(state)) if state.stopped());
    // It is our child and not reaped: the number is its own.
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

/// A supervisor at the other end. When this goes, the supervisor ends the tree, and is waited for.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) channel: Channel,
    /// Until it is left to itself.
    process: Option<Child>,
    pub(super) program: String,
    pub(super) directory: PathBuf,
    group: Option<Group>,
    /// It holds open what is dear to close: when all is cleaned up, nobody waits for its exit.
    pub(super) lingers: bool,
    /// It was stopped from outside, and what it tells of times is too late.
    stopped: bool,
    farewell: Farewell,
}

/// How far a supervisor was told to finish. It answers once: who asks again would wait for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    /// Not yet.
    Unsaid,
    /// It was told, and there is nothing more to tell it.
    Said,
    /// It has answered that all is cleaned up, and waits for our end to close.
    Answered,
}

impl Link {
    /// To a supervisor that was just started.
    pub(super) fn new(channel: Channel, process: Child, program: String, group: Option<Group>) -> Self {
        let (directory, farewell) = (PathBuf::new(), Farewell::Unsaid);
        Self { channel, process: Some(process), program, directory, group, lingers: false, stopped: false, farewell }
    }

    pub(super) fn supervisor_ended(&self) -> Error {
        Error::SupervisorEnded { program: self.program.clone() }
    }

    pub(super) fn send(&self, message: &ToSupervisor, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        self.channel.send(message, fds).map_err(|source| self.unsent(source))
    }

    /// The error that a message stands for that could not be sent, to the supervisor or to its spawner.
    pub(super) fn unsent(&self, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.supervisor_ended(),
            _ => Error::Channel { program: self.program.clone(), source },
        }
    }

    pub(super) fn receive(&mut self, deadline: Option<Instant>) -> Result<Option<FromSupervisor>, Error> {
        self.receive_beside(deadline, &[])
    }

    /// The same, and waits no longer once there is something to read from any of the others. A supervisor that was stopped
    /// is as good as ended: nobody knows when what it tells of has happened.
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

    /// The end of a subject whose supervisor is gone, once everything that can be found of its tree is ended.
    pub(super) fn lost(&mut self) -> End {
        self.channel.close();
        let how = match self.process.as_mut().map(wait_for) {
            Some(_) if self.stopped => "stopped by a signal".to_owned(),
            Some(Ok(status)) => status.to_string(),
            Some(Err(error)) => error.to_string(),
            None => "it was left to itself".to_owned(),
        };
        self.clean_up();
        End::lost(how, monotonic())
    }

    /// Ends and removes what a supervisor that was killed has left; what cannot be done now, a sweep will do.
    fn clean_up(&self) {
        if let Some(group) = &self.group {
            group.kill();
            let _ = group.remove();
        }
    }

    /// Has everything ended and removed.
    pub(super) fn finish(&mut self) -> Result<Finished, Error> {
        self.farewell = Farewell::Said;
        self.send(&ToSupervisor::Finish, &[])?;
        loop {
            match self.receive(None)? {
                Some(FromSupervisor::Finished { finished }) => {
                    self.farewell = Farewell::Answered;
                    return Ok(finished);
                }
                Some(FromSupervisor::Ended { .. }) => {}
                other => return Err(self.unexpected(other)),
            }
        }
    }

    /// The error that a message stands for where another was expected.
    pub(super) fn unexpected(&self, message: Option<FromSupervisor>) -> Error {
        let program = self.program.clone();
        match message {
            Some(FromSupervisor::Refused { refusal, errno }) => {
                let source = io::Error::from_raw_os_error(errno);
                match refusal {
                    Refusal::Exec => Error::Exec { program, source },
                    Refusal::Directory => Error::Directory { program, directory: self.directory.clone(), source },
                    Refusal::Spawner => self.supervisor_ended(),
                    Refusal::Other(what) => Error::Prepare { program, what, source },
                }
            }
            other => Error::Channel { program, source: io::Error::other(format!("it said {other:?} out of turn")) },
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.lingers && self.farewell == Farewell::Unsaid {
            // A supervisor that is gone shows in what was not answered.
            let _ = self.finish();
        }
        // Before it is waited for, as it waits for this.
        self.channel.close();
        let Some(mut process) = self.process.take() else { return };
        if self.lingers && self.farewell == Farewell::Answered {
            // Nothing is left but what it holds open for us.
            LINGERING.lock().unwrap_or_else(PoisonError::into_inner).push(process);
            return;
        }
        // It exits by itself once the tree is gone; a process that cannot be waited for was waited for already.
        let _ = wait_for(&mut process);
        // Nothing is left to do unless the supervisor itself was killed.
        self.clean_up();
    }
}
