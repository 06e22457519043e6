//! The runner's side: start a subject held, release it, wait for it, end it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use prony_core::units::{Bytes, Nanos};
use rustix::process::Signal;

use super::channel::{Channel, Received};
use super::lingering;
use super::spec::{Input, LaunchSpec, Output, TARGETS_END};
use super::wire::{CpuTime, End, Finished, FromSupervisor, Refusal, Text, ToSupervisor, Usage, WireSpec, WireStream};
use crate::clock::monotonic;
use crate::error::Error;
use crate::limits::Group;

/// How supervisors are started: the program, and arguments that make it call [`super::supervise_stdin`].
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl Launcher {
    /// This very program, though its file be replaced meanwhile, with these arguments (`supervise`).
    pub fn this_program(args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { program: "/proc/self/exe".into(), args, env: Vec::new() }
    }

    /// The same with a variable added to the supervisor's environment; the subject does not see it.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Forks the subject under a new supervisor, held before its program is executed. The subject dies, with its
    /// whole tree, when the handle goes or this process ends in whatever way.
    ///
    /// # Errors
    /// When no supervisor can be started or it cannot prepare the subject.
    pub fn start(&self, spec: LaunchSpec) -> Result<Held, Error> {
        let link = self.connect(spec.command.to_string_lossy().into_owned(), spec.group.clone())?;
        link.hold(spec)
    }

    /// A supervisor that will launch one subject after another into a group that only counts: what a fresh one for
    /// each costs, and a group for each costs far more, is paid once. Each subject's tree is ended as always.
    ///
    /// Descriptors that are dear to close are held `open` there until this process has closed them, so that it need not
    /// wait: when all is cleaned up, such a supervisor is not waited for.
    ///
    /// # Errors
    /// When no supervisor can be started or the group takes none.
    pub fn keep(&self, group: Option<Group>, open: &[BorrowedFd<'_>]) -> Result<Kept, Error> {
        let mut link = self.connect("a subject".to_owned(), group.clone())?;
        link.lingers = !open.is_empty();
        link.send(&ToSupervisor::Keep { group }, open)?;
        match link.receive(None)? {
            Some(FromSupervisor::Kept { nursery }) => Ok(Kept { link, nursery: nursery.unsigned_abs() }),
            Some(FromSupervisor::NotKept { why }) => {
                Err(Error::Supervisor { program: self.program.clone(), source: io::Error::other(why) })
            }
            other => Err(link.unexpected(other)),
        }
    }

    fn connect(&self, program: String, group: Option<Group>) -> Result<Link, Error> {
        lingering::reap();
        let failed = |source| Error::Supervisor { program: self.program.clone(), source };
        let (ours, theirs) = Channel::pair().map_err(failed)?;
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::from(theirs)).stdout(Stdio::null());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        let process = command.spawn().map_err(failed)?;
        let (channel, directory, farewell) = (Channel::new(ours), PathBuf::new(), Farewell::Unsaid);
        Ok(Link { channel, process: Some(process), program, directory, group, lingers: false, farewell })
    }
}

/// A supervisor at the other end. When this goes, the supervisor ends the tree, and is waited for.
#[derive(Debug)]
struct Link {
    channel: Channel,
    /// Until it is left to itself.
    process: Option<std::process::Child>,
    program: String,
    directory: PathBuf,
    group: Option<Group>,
    /// It holds open what is dear to close: when all is cleaned up, nobody waits for its exit.
    lingers: bool,
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
    /// Has a subject made and held.
    fn hold(mut self, spec: LaunchSpec) -> Result<Held, Error> {
        self.start(spec, false)?;
        match self.receive(None)? {
            Some(FromSupervisor::Held { pid }) => Ok(Held { link: self, pid: pid.unsigned_abs() }),
            other => Err(self.unexpected(other)),
        }
    }

    fn start(&mut self, spec: LaunchSpec, at_once: bool) -> Result<(), Error> {
        self.program = spec.command.to_string_lossy().into_owned();
        self.directory.clone_from(&spec.directory);
        let (wire, fds) = spec.into_wire().map_err(|what| Error::Prepare {
            program: self.program.clone(),
            what,
            source: io::ErrorKind::InvalidInput.into(),
        })?;
        let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        self.send(&ToSupervisor::Start { spec: Box::new(wire), at_once }, &borrowed)
    }

    fn gone(&self) -> Error {
        Error::SupervisorGone { program: self.program.clone() }
    }

    fn send(&self, message: &ToSupervisor, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        self.channel.send(message, fds).map_err(|source| match source.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.gone(),
            _ => Error::Channel { program: self.program.clone(), source },
        })
    }

    fn receive(&mut self, deadline: Option<Instant>) -> Result<Option<FromSupervisor>, Error> {
        match self.channel.receive(deadline) {
            Ok(Received::Message(message)) => Ok(Some(message)),
            Ok(Received::Nothing) => Ok(None),
            Ok(Received::Closed) => Err(self.gone()),
            Err(source) => Err(Error::Channel { program: self.program.clone(), source }),
        }
    }

    /// The end of a subject whose supervisor is gone, once everything that can be found of its tree is ended.
    fn lost(&mut self) -> End {
        self.channel.close();
        let how = match self.process.as_mut().map(std::process::Child::wait) {
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

    /// Waits until the program is executed.
    fn run(mut self, held: u32, nursery: Option<u32>) -> Result<Running, Error> {
        let said = match self.receive(None) {
            Err(Error::SupervisorGone { .. }) => {
                Some(FromSupervisor::Ended { end: Box::new(self.lost()), ready: false })
            }
            said => said?,
        };
        let (since, released) = (Nanos::ZERO, Nanos::ZERO);
        let running =
            |link| Running { link, pid: held, nursery, before: None, since, released, end: None, ready: false };
        match said {
            Some(FromSupervisor::Running { pid, at, released, before }) => {
                let (pid, before) = (pid.unsigned_abs(), before.map(|before| *before));
                Ok(Running { pid, since: at, released, before, ..running(self) })
            }
            // It was killed before it could begin.
            Some(FromSupervisor::Ended { end, ready }) => {
                Ok(Running { since: end.at, released: end.at, end: Some(*end), ready, ..running(self) })
            }
            other => Err(self.unexpected(other)),
        }
    }

    fn finish(&mut self) -> Result<Finished, Error> {
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
    fn unexpected(&self, message: Option<FromSupervisor>) -> Error {
        let program = self.program.clone();
        match message {
            Some(FromSupervisor::Refused { refusal, errno }) => {
                let source = io::Error::from_raw_os_error(errno);
                match refusal {
                    Refusal::Exec => Error::Exec { program, source },
                    Refusal::Directory => Error::Directory { program, directory: self.directory.clone(), source },
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
            return lingering::leave(process);
        }
        // It exits by itself once the tree is gone; a process that cannot be waited for was waited for already.
        let _ = process.wait();
        // Nothing is left to do unless the supervisor itself was killed.
        self.clean_up();
    }
}

/// A supervisor that waits for another subject.
#[derive(Debug)]
pub struct Kept {
    link: Link,
    nursery: u32,
}

impl Kept {
    /// The process from which subjects are born, in their group: counters attached to it count them all.
    pub const fn nursery(&self) -> u32 {
        self.nursery
    }

    /// Has a subject made and execute its program at once: all that observes it is attached already to where it is born.
    /// The group of a kept supervisor's subjects is its own.
    ///
    /// # Errors
    /// As [`Launcher::start`] and [`Held::release`]; the supervisor is gone then.
    pub fn launch(mut self, spec: LaunchSpec) -> Result<Running, Error> {
        self.link.start(spec, true)?;
        self.link.run(0, Some(self.nursery))
    }

    /// Ends the supervisor and removes what it was told to remove.
    ///
    /// # Errors
    /// When the supervisor is gone.
    pub fn finish(mut self) -> Result<Finished, Error> {
        self.link.finish()
    }
}

/// A subject before its first instruction: limits and counters can be attached to its process.
#[derive(Debug)]
pub struct Held {
    link: Link,
    pid: u32,
}

impl Held {
    /// The process that will execute the program.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the program begin, and waits until it is executed.
    ///
    /// # Errors
    /// [`Error::Exec`] with the program's name when it cannot be executed, [`Error::Directory`] when its directory
    /// cannot be entered.
    pub fn release(self) -> Result<Running, Error> {
        self.let_go();
        self.link.run(self.pid, None)
    }

    /// Lets several programs begin, as close together as can be, and waits until each is executed. As [`Held::release`]
    /// of each.
    pub fn release_all(all: Vec<Self>) -> Vec<Result<Running, Error>> {
        all.iter().for_each(Self::let_go);
        all.into_iter().map(|held| held.link.run(held.pid, None)).collect()
    }

    fn let_go(&self) {
        // A supervisor that is gone shows in what it says.
        let _ = self.link.send(&ToSupervisor::Release, &[]);
    }
}

/// A subject under way, or ended and not yet cleaned up.
#[derive(Debug)]
pub struct Running {
    link: Link,
    pid: u32,
    nursery: Option<u32>,
    before: Option<(CpuTime, Usage)>,
    since: Nanos,
    released: Nanos,
    end: Option<End>,
    /// The supervisor waits for another subject.
    ready: bool,
}

impl Running {
    /// The subject's own process.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// When its program was seen to be executed, by `CLOCK_MONOTONIC`.
    pub const fn since(&self) -> Nanos {
        self.since
    }

    /// When it began to execute its program, told by itself; what executing takes comes after.
    pub const fn released(&self) -> Nanos {
        self.released
    }

    /// What the kernel had counted of the subject's process when it began to execute its program: the work of preparing
    /// it, and memory that was not its own. `None` where it never began.
    pub const fn before(&self) -> Option<&(CpuTime, Usage)> {
        self.before.as_ref()
    }

    /// Waits until the subject's own process has ended: forever without a timeout, not at all with a zero one.
    /// `None` when the time was over first; the same end again when asked again.
    ///
    /// Where the supervisor was killed, the end says so: the subject went with it.
    ///
    /// # Errors
    /// When the supervisor cannot be understood.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<End>, Error> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        while self.end.is_none() {
            match self.link.receive(deadline) {
                Ok(Some(FromSupervisor::Ended { end, ready })) => (self.end, self.ready) = (Some(*end), ready),
                Ok(Some(other)) => return Err(self.link.unexpected(Some(other))),
                Ok(None) => return Ok(None),
                Err(Error::SupervisorGone { .. }) => self.end = Some(self.link.lost()),
                Err(error) => return Err(error),
            }
        }
        Ok(self.end.clone())
    }

    /// Sends a signal to the subject's process group; nothing where the subject has ended.
    ///
    /// # Errors
    /// [`Error::Signal`] for a number that names no signal; or when the supervisor is gone.
    pub fn signal(&self, signal: i32) -> Result<(), Error> {
        Signal::from_named_raw(signal).ok_or(Error::Signal { signal })?;
        self.tell(&ToSupervisor::Signal { signal })
    }

    /// Kills the whole tree, whatever it ignores, and returns how the subject's own process ended.
    ///
    /// # Errors
    /// When the supervisor is gone, or the subject cannot be ended.
    pub fn kill_tree(&mut self) -> Result<End, Error> {
        self.tell(&ToSupervisor::Kill)?;
        self.wait(None)?.ok_or_else(|| self.link.gone())
    }

    /// Says something that a supervisor who is gone need not hear: that shows when the end is waited for.
    fn tell(&self, message: &ToSupervisor) -> Result<(), Error> {
        match self.link.send(message, &[]) {
            Err(Error::SupervisorGone { .. }) => Ok(()),
            said => said,
        }
    }

    /// Asks the subject to end by SIGTERM and kills the tree when the grace is over.
    ///
    /// # Errors
    /// As [`Running::kill_tree`].
    pub fn terminate(&mut self, grace: Duration) -> Result<End, Error> {
        self.signal(libc::SIGTERM)?;
        match self.wait(Some(grace))? {
            Some(end) => Ok(end),
            None => self.kill_tree(),
        }
    }

    /// Ends what is left of the tree, removes what the supervisor was told to remove, and ends the supervisor. One that
    /// was killed leaves nothing to do, and scratch directories to their owner.
    ///
    /// # Errors
    /// When the supervisor cannot be understood, or is gone without the subject's end having told so.
    pub fn finish(mut self) -> Result<Finished, Error> {
        if self.end.as_ref().is_some_and(|end| end.lost.is_some()) {
            return Ok(Finished::default());
        }
        self.link.finish()
    }

    /// The kept supervisor, for another subject, where nothing of this one is left; else what is left is ended, and the
    /// supervisor with it.
    ///
    /// # Errors
    /// When the supervisor is gone.
    pub fn next(self) -> Result<(Finished, Option<Kept>), Error> {
        match self.nursery.filter(|_| self.ready) {
            Some(nursery) => Ok((Finished::default(), Some(Kept { link: self.link, nursery }))),
            None => self.finish().map(|finished| (finished, None)),
        }
    }
}

/// Readable when [`Running::wait`] has something to say, for polling beside other sources.
impl AsFd for Running {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.channel.as_fd()
    }
}

impl LaunchSpec {
    /// As it travels, and the descriptors that go beside it; the text says what cannot.
    fn into_wire(self) -> Result<(WireSpec, Vec<OwnedFd>), String> {
        let mut fds = Vec::new();
        let stdin = match self.stdin {
            Input::Null => WireStream::Null,
            Input::File(file) => {
                fds.push(file.into());
                WireStream::Fd
            }
        };
        let streams = [stdin, wire_output(self.stdout, &mut fds), wire_output(self.stderr, &mut fds)];
        let targets: Vec<u8> = self.fds.iter().map(|(_, target)| *target).collect();
        check_targets(&targets)?;
        fds.extend(self.fds.into_iter().map(|(fd, _)| fd));
        let wire = WireSpec {
            command: Text::new(self.command),
            args: self.args.into_iter().map(Text::new).collect(),
            env: self.env.into_iter().map(|(name, value)| (Text::new(name), Text::new(value))).collect(),
            directory: Text::new(self.directory),
            streams,
            targets,
            group: self.group,
            beside: self.beside,
            scratch: self.scratch.into_iter().map(Text::new).collect(),
        };
        Ok((wire, fds))
    }
}

fn wire_output(output: Output, fds: &mut Vec<OwnedFd>) -> WireStream {
    match output {
        Output::Null => WireStream::Null,
        Output::File(file) => {
            fds.push(file.into());
            WireStream::Fd
        }
        Output::Capture { first, last } => {
            let bound = |bytes: Bytes| usize::try_from(bytes.as_bytes()).unwrap_or(usize::MAX);
            WireStream::Capture { first: bound(first), last: bound(last) }
        }
    }
}

fn check_targets(targets: &[u8]) -> Result<(), String> {
    for (at, target) in targets.iter().enumerate() {
        if !(3..TARGETS_END).contains(target) {
            return Err(format!("descriptor number {target} is not in 3 to {}", TARGETS_END - 1));
        }
        if targets[..at].contains(target) {
            return Err(format!("descriptor number {target} is given twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_numbers_are_checked() {
        assert_eq!(check_targets(&[3, 63, 4]), Ok(()));
        assert_eq!(check_targets(&[3, 2]).unwrap_err(), "descriptor number 2 is not in 3 to 63");
        assert_eq!(check_targets(&[64]).unwrap_err(), "descriptor number 64 is not in 3 to 63");
        assert_eq!(check_targets(&[5, 5]).unwrap_err(), "descriptor number 5 is given twice");
    }
}
