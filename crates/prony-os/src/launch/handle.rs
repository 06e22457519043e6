//! The runner's handle to a process: starts it suspended, releases it, waits for it, ends it.

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use prony_model::units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

use super::channel::Channel;
use super::exec_strings::ExecStrings;
use super::idle::Idle;
use super::link::{Link, SILENCE, reap_lingering};
use super::spawner::{self, Fds};
use super::spec::{LaunchSpec, Parts, Reader, Unprepared};
use super::supervise::OPEN_FILES;
use super::wire::{Begin, Bounds, End, Finished, FromSupervisor, ToSupervisor};
use crate::error::Error;
use crate::limits::Group;
use crate::open_files;
use crate::sample::Supervisor;
use crate::sys::process::{REPORT_LENGTH, parse_report};
use crate::sys::usage::{CpuTime, Usage};
use crate::why::kernel_text;

/// How long a subject that executes its program at once and writes nothing is not polled: a short one has ended by
/// then, and no process was woken while it ran.
const UNWATCHED: Duration = Duration::from_millis(1);

/// A supervisor serves no other process after one whose texts have more bytes. Its spawner keeps the memory that they
/// needed, which the kernel includes in the peak of each later process. This much is less than the kernel's count may be
/// off ([`prony_model::record::PEAK_SLACK`]).
const SMALL_PLAN: usize = 64 << 10;

/// Launches processes. Everything that a run starts is started by an implementation of this.
pub trait Launch: Debug + Send + Sync {
    /// A process that is suspended before it executes its program: limits and counters can be attached to it.
    ///
    /// # Errors
    /// When it cannot be prepared, or no supervisor can be started for it.
    fn start(&self, spec: LaunchSpec) -> Result<Box<dyn Process>, Error>;

    /// A supervisor that launches one process after another into a group that only counts: so the cost of a supervisor,
    /// and the larger one of a group, occurs once. Each process's tree is ended as always.
    ///
    /// Descriptors that are slow to close stay `open` there until this process has closed them, so that closing them
    /// does not delay it: after its cleanup, such a supervisor is not waited for. It removes `scratch` at the end.
    ///
    /// # Errors
    /// When no supervisor can be started or the group takes none.
    fn reusable(
        &self,
        group: Option<Group>,
        open: &[BorrowedFd<'_>],
        scratch: Option<&Path>,
    ) -> Result<Box<dyn Reusable>, Error>;
}

/// A supervisor that waits for another process to launch. When dropped it ends, and removes its group and scratch.
pub trait Reusable: Debug + Send {
    /// The process that spawns the others, in their group: counters attached to it count all of them.
    fn spawner(&self) -> u32;

    /// A process that is made when it is released, and executes its program at once: all that observes it is attached
    /// already to the spawner. Group and scratch directory are the supervisor's own, and streams are files or nothing.
    ///
    /// # Errors
    /// When it cannot be prepared.
    fn start(self: Box<Self>, spec: LaunchSpec) -> Result<Box<dyn Process>, Error>;
}

/// A process with the tree below it: suspended, under way, or ended and not yet cleaned up. It ends with its whole tree when
/// this is dropped, or this program ends in whatever way.
///
/// Its descriptor is readable when [`Process::wait`] has a result, for polling beside other sources.
pub trait Process: Debug + Send + AsFd {
    /// Its number while it is suspended; `None` where it is made when it is released.
    fn suspended(&self) -> Option<u32>;

    /// The process that becomes the parent of orphans of its tree, where there is one.
    fn supervisor(&self) -> Option<Supervisor> {
        None
    }

    /// Lets it execute its program. Several are released as close together as can be by releasing each before the first of
    /// them is waited for.
    ///
    /// # Errors
    /// As [`Process::started`].
    fn release(&mut self) -> Result<(), Error>;

    /// Waits until it executes its program, once it was released. `ends` are the read ends of its output: this returns
    /// as soon as one is readable, since a process that has filled a pipe stops until it is read.
    ///
    /// # Errors
    /// [`Error::Exec`] with the program's name when it cannot be executed, [`Error::Directory`] when its directory cannot be
    /// entered; [`Error::SupervisorEnded`] where its spawner was ended before it began. A supervisor that was ended is an
    /// end of the process.
    fn started(&mut self, ends: &[BorrowedFd<'_>]) -> Result<Started, Error>;

    /// Waits until the process itself has ended: forever without a timeout, not at all with a zero one. `None` when the time
    /// was over first; the same end again when asked again.
    ///
    /// If its supervisor was killed, the end says so: the process was killed with it.
    ///
    /// # Errors
    /// When the supervisor cannot be understood.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<End>, Error>;

    /// Sends a signal to its process group; nothing where it has ended.
    ///
    /// # Errors
    /// [`Error::Signal`] for a number that names no signal; or when the supervisor has ended.
    fn signal(&self, signal: i32) -> Result<(), Error>;

    /// Kills the whole tree, whatever it ignores, and returns how the process itself ended.
    ///
    /// # Errors
    /// When the supervisor has ended, or the process cannot be ended.
    fn kill_tree(&mut self) -> Result<End, Error>;

    /// Ends what is left of the tree. A reusable supervisor is returned where nothing was left; any other removes its
    /// group and directories, and ends or serves a later process. If it was killed, nothing is left to do, and scratch
    /// directories are left to their owner; if that was after the process's end, which remains as reported, it is a
    /// problem.
    ///
    /// # Errors
    /// When the supervisor cannot be understood, or has ended while nothing is known of the process's end.
    fn finish(self: Box<Self>) -> Result<(Finished, Option<Box<dyn Reusable>>), Error>;
}

/// What is known of a process when it executes its program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Started {
    /// Its number.
    pub pid: u32,
    /// The file that it executes, a relative path from its directory: what a name was found as. `None` where it never began.
    pub executable: Option<PathBuf>,
    /// When it began to execute its program, as it reported itself; what executing takes comes after. By `CLOCK_MONOTONIC`.
    pub released: Nanos,
    /// When its program was observed to be executed, by the same clock.
    pub executed: Nanos,
    /// What the kernel had counted of it when it began to execute its program: the work of preparing it, and memory that was
    /// not its own. `None` where it never began.
    pub before: Option<(CpuTime, Usage)>,
}

/// Starts each process below a supervisor of its own: a program, and arguments that make it call
/// [`super::supervise_stdin`]. A supervisor whose process has ended with its whole tree, and whose group and directories
/// are removed, serves a later process: starting one takes longer than a short trial.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    idle: Idle,
}

impl Launcher {
    /// This very program, though its file be replaced meanwhile, with these arguments (`supervise`).
    pub fn this_program(args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { program: "/proc/self/exe".into(), args, env: Vec::new(), idle: Idle::default() }
    }

    /// The same with a variable added to the supervisor's environment; the subject does not see it.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        Self { idle: Idle::default(), ..self }
    }

    /// A supervisor that is ready for subjects, and its spawner.
    fn connect(&self, program: String, begin: Begin, fds: &[BorrowedFd<'_>]) -> Result<(Link, SpawnerClient), Error> {
        reap_lingering();
        let group = begin.group.clone();
        let begin = ToSupervisor::Begin { begin: Box::new(begin) };
        while let Some(mut link) = self.idle.take() {
            link.program.clone_from(&program);
            match self.begin(&mut link, &begin, fds, Some(Instant::now() + SILENCE)) {
                Ok(client) => {
                    link.group = group;
                    return Ok((link, client));
                }
                // It may have been killed or stopped since. If the reason is another, a new supervisor fails alike.
                Err(_) => link.abandon(),
            }
        }
        let mut link = self.supervisor(program, group)?;
        let client = self.begin(&mut link, &begin, fds, None)?;
        Ok((link, client))
    }

    /// Has a supervisor prepare for subjects until the deadline; its spawner.
    fn begin(
        &self,
        link: &mut Link,
        begin: &ToSupervisor,
        fds: &[BorrowedFd<'_>],
        deadline: Option<Instant>,
    ) -> Result<SpawnerClient, Error> {
        link.send(begin, fds)?;
        match link.receive(deadline)? {
            Some(FromSupervisor::Ready { spawner }) => {
                let socket = link.channel.take_fd().ok_or_else(|| self.failed(io::ErrorKind::NotFound.into()))?;
                SpawnerClient::new(spawner.unsigned_abs(), socket).map_err(|source| self.failed(source))
            }
            Some(FromSupervisor::NotReady { why }) => Err(self.failed(io::Error::other(why))),
            None => Err(link.supervisor_ended()),
            other => Err(link.unexpected(other)),
        }
    }

    /// A new supervisor.
    fn supervisor(&self, subject: String, group: Option<Group>) -> Result<Link, Error> {
        let start = || {
            let (ours, theirs) = Channel::pair()?;
            let mut command = Command::new(&self.program);
            command.args(&self.args).stdin(Stdio::from(theirs)).stdout(Stdio::null());
            command.envs(self.env.iter().map(|(name, value)| (name, value)));
            command.envs(open_files::of_user().map(|limit| (OPEN_FILES, limit.to_string())));
            Ok((Channel::new(ours), command.spawn()?))
        };
        let (channel, process) = start().map_err(|source| self.failed(source))?;
        Ok(Link::new(channel, process, subject, group))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Supervisor { program: self.program.clone(), source }
    }
}

impl Launch for Launcher {
    fn start(&self, spec: LaunchSpec) -> Result<Box<dyn Process>, Error> {
        let (program, directory) = (spec.command.to_string_lossy().into_owned(), spec.directory.clone());
        let (group, beside) = (spec.group.clone(), spec.beside.clone());
        let scratch = spec.scratch.iter().map(OsString::from).collect();
        let Parts { texts, fds, captured } = spec.into_parts().map_err(|why| prepare(&program, why))?;
        let begin = Begin { reused: false, group, beside, scratch, captured: bounds(&captured) };
        let readers: Vec<BorrowedFd<'_>> = captured.iter().flatten().map(|(reader, _)| reader.as_fd()).collect();
        let (mut link, mut client) = self.connect(program, begin, &readers)?;
        link.directory = directory;
        let way = suspend(&mut link, &mut client, &texts, fds)?;
        Ok(Box::new(Supervised { link, client, texts, way, end: None, ready: false, idle: self.idle.clone() }))
    }

    fn reusable(
        &self,
        group: Option<Group>,
        open: &[BorrowedFd<'_>],
        scratch: Option<&Path>,
    ) -> Result<Box<dyn Reusable>, Error> {
        let scratch = scratch.into_iter().map(OsString::from).collect();
        let begin = Begin { reused: true, group, beside: None, scratch, captured: [None, None] };
        let (mut link, client) = self.connect("a subject".to_owned(), begin, open)?;
        link.lingers = !open.is_empty();
        Ok(Box::new(Reused { link, client }))
    }
}

fn prepare(program: &str, Unprepared(what, source): Unprepared) -> Error {
    Error::Prepare { program: program.to_owned(), what, source }
}

fn bounds(captured: &[Option<Reader>; 2]) -> [Option<Bounds>; 2] {
    captured.each_ref().map(|captured| captured.as_ref().map(|(_, bounds)| *bounds))
}

/// Whether there is something to read, or its end.
fn is_readable(file: &File) -> bool {
    matches!(poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&Timespec::default())), Ok(1..))
}

/// Has a subject made that waits to be released.
fn suspend(
    link: &mut Link,
    client: &mut SpawnerClient,
    texts: &ExecStrings,
    fds: Vec<(Option<OwnedFd>, u8)>,
) -> Result<Way, Error> {
    let piped = |errno: Errno| prepare(&link.program, Unprepared("making a pipe".to_owned(), errno.into()));
    let (wait, release) = pipe_with(PipeFlags::CLOEXEC).map_err(piped)?;
    let (reader, report) = pipe_with(PipeFlags::CLOEXEC).map_err(piped)?;
    let asked = client.launch(texts, &fds, Some((wait.as_fd(), report.as_fd())));
    asked.map_err(|source| link.unsent(source))?;
    // Only the subject has them now: when no process can write a report any more, the pipe ends.
    drop((wait, report, fds));
    let mut reader = File::from(reader);
    while !is_readable(&reader) {
        match link.receive_beside(Some(Instant::now() + SILENCE), &[reader.as_fd()])? {
            None if client.is_stopped() => return Err(link.supervisor_ended()),
            None => {}
            // It was killed on its way. Another may be made elsewhere.
            Some(FromSupervisor::Ended { .. }) => return Err(link.supervisor_ended()),
            other => return Err(link.unexpected(other)),
        }
    }
    let mut message = [0; REPORT_LENGTH];
    if reader.read_exact(&mut message).is_err() {
        return Err(link.supervisor_ended());
    }
    match parse_report(message) {
        Ok(pid) => Ok(Way::Suspended { pid: pid.as_raw_pid().unsigned_abs(), release: Some(release) }),
        Err((step, errno)) => Err(link.unexpected(Some(FromSupervisor::Refused { step, errno }))),
    }
}

/// Asks the spawner of a supervisor for one subject after another.
#[derive(Debug)]
struct SpawnerClient {
    spawner: u32,
    socket: OwnedFd,
    null: OwnedFd,
    /// How many subjects were requested.
    launched: u64,
}

impl SpawnerClient {
    /// The process, and the socket on which it is asked.
    fn new(spawner: u32, socket: OwnedFd) -> io::Result<Self> {
        let null = File::options().read(true).write(true).open("/dev/null")?.into();
        Ok(Self { spawner, socket, null, launched: 0 })
    }

    /// Whether it has been stopped. The supervisor, its parent, checks this only while it has to report a subject.
    fn is_stopped(&self) -> bool {
        let stat = kernel_text(format!("/proc/{}/stat", self.spawner)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
    }

    /// Has a subject made, which executes its program at once where it has no pipes on which it waits and reports.
    fn launch(
        &mut self,
        texts: &ExecStrings,
        fds: &[(Option<OwnedFd>, u8)],
        suspended: Option<(BorrowedFd<'_>, BorrowedFd<'_>)>,
    ) -> io::Result<()> {
        let given = fds.iter().map(|(fd, target)| (fd.as_ref().unwrap_or(&self.null).as_fd(), *target)).collect();
        spawner::launch(&self.socket, texts, &Fds { suspended, given })?;
        self.launched += 1;
        Ok(())
    }
}

/// A supervisor that waits for another subject.
#[derive(Debug)]
struct Reused {
    link: Link,
    client: SpawnerClient,
}

impl Reusable for Reused {
    fn spawner(&self) -> u32 {
        self.client.spawner
    }

    fn start(self: Box<Self>, spec: LaunchSpec) -> Result<Box<dyn Process>, Error> {
        let Self { mut link, client } = *self;
        link.program = spec.command.to_string_lossy().into_owned();
        link.directory.clone_from(&spec.directory);
        let Parts { texts, fds, captured } = spec.into_parts().map_err(|why| prepare(&link.program, why))?;
        if captured.iter().any(Option::is_some) {
            let what = "output can be captured only of a process that is launched suspended".to_owned();
            return Err(prepare(&link.program, Unprepared(what, io::ErrorKind::InvalidInput.into())));
        }
        Ok(Box::new(Supervised {
            link,
            client,
            texts,
            way: Way::AtOnce(fds),
            end: None,
            ready: false,
            idle: Idle::default(),
        }))
    }
}

/// How a process gets to execute its program.
#[derive(Debug)]
enum Way {
    /// It was made, and waits to be released.
    Suspended {
        pid: u32,
        /// Where one byte releases it; `None` once that was written.
        release: Option<OwnedFd>,
    },
    /// It is made when it is released, with these descriptors.
    AtOnce(Vec<(Option<OwnedFd>, u8)>),
}

/// A process below a supervisor.
#[derive(Debug)]
struct Supervised {
    link: Link,
    client: SpawnerClient,
    texts: ExecStrings,
    way: Way,
    end: Option<End>,
    /// The supervisor waits for another subject.
    ready: bool,
    /// Where the supervisor waits for another subject after the cleanup.
    idle: Idle,
}

impl Supervised {
    /// Sends a message that an ended supervisor does not need: the wait for the process's end notices that.
    fn send(&self, message: &ToSupervisor) -> Result<(), Error> {
        match self.link.send(message, &[]) {
            Err(Error::SupervisorEnded { .. }) => Ok(()),
            sent => sent,
        }
    }

    /// What the supervisor answers when the program is to be executed.
    fn first_answer(&mut self, ends: &[BorrowedFd<'_>]) -> Result<Option<FromSupervisor>, Error> {
        if let Way::AtOnce(fds) = &mut self.way {
            let first = self.link.receive_beside(Some(Instant::now() + UNWATCHED), ends);
            // They hold the other ends of the process's output. They are open until here: otherwise a process that
            // closes its own, as every process does when it ends, would wake us.
            fds.clear();
            if !matches!(first, Ok(None)) {
                return first;
            }
        }
        // If the supervisor has ended, its answer shows that.
        let _ = self.link.send(&ToSupervisor::ReportExec { nth: self.client.launched }, &[]);
        self.link.receive(None)
    }
}

impl Process for Supervised {
    fn suspended(&self) -> Option<u32> {
        match &self.way {
            Way::Suspended { pid, .. } => Some(*pid),
            Way::AtOnce(_) => None,
        }
    }

    fn supervisor(&self) -> Option<Supervisor> {
        Some(Supervisor { pid: self.link.pid()?, spawner: self.client.spawner })
    }

    fn release(&mut self) -> Result<(), Error> {
        self.link.forget_stops();
        match &mut self.way {
            Way::AtOnce(fds) => self.client.launch(&self.texts, fds, None).map_err(|source| self.link.unsent(source)),
            Way::Suspended { release, .. } => {
                // A supervisor that was killed meanwhile has closed its end; the wait for its end shows that.
                let _ = release.take().map(|release| write(&release, &[1]));
                Ok(())
            }
        }
    }

    fn started(&mut self, ends: &[BorrowedFd<'_>]) -> Result<Started, Error> {
        let answer = match self.first_answer(ends) {
            Err(Error::SupervisorEnded { .. }) => {
                Some(FromSupervisor::Ended { end: Box::new(self.link.lost()), ready: false })
            }
            answer => answer?,
        };
        match answer {
            Some(FromSupervisor::Running { pid, at, released, before, candidate }) => {
                let executable = candidate.and_then(|candidate| self.texts.candidate(candidate));
                let (executable, before) = (executable.map(Path::to_path_buf), before.map(|before| *before));
                Ok(Started { pid: pid.unsigned_abs(), executable, released, executed: at, before })
            }
            // It was killed before it could begin.
            Some(FromSupervisor::Ended { end, ready }) => {
                let (pid, at) = (self.suspended().unwrap_or_default(), end.at);
                (self.end, self.ready) = (Some(*end), ready);
                Ok(Started { pid, released: at, executed: at, ..Started::default() })
            }
            other => Err(self.link.unexpected(other)),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<End>, Error> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        while self.end.is_none() {
            match self.link.receive(deadline) {
                Ok(Some(FromSupervisor::Ended { end, ready })) => (self.end, self.ready) = (Some(*end), ready),
                Ok(Some(other)) => return Err(self.link.unexpected(Some(other))),
                Ok(None) => return Ok(None),
                Err(Error::SupervisorEnded { .. }) => self.end = Some(self.link.lost()),
                Err(error) => return Err(error),
            }
        }
        Ok(self.end.clone())
    }

    fn signal(&self, signal: i32) -> Result<(), Error> {
        Signal::from_named_raw(signal).ok_or(Error::Signal { signal })?;
        self.send(&ToSupervisor::Signal { signal, nth: self.client.launched })
    }

    fn kill_tree(&mut self) -> Result<End, Error> {
        self.send(&ToSupervisor::Kill { nth: self.client.launched })?;
        self.wait(None)?.ok_or_else(|| self.link.supervisor_ended())
    }

    fn finish(self: Box<Self>) -> Result<(Finished, Option<Box<dyn Reusable>>), Error> {
        let Self { mut link, client, texts, end, ready, idle, .. } = *self;
        if ready {
            return Ok((Finished::default(), Some(Box::new(Reused { link, client }))));
        }
        if end.as_ref().is_some_and(|end| end.lost.is_some()) {
            return Ok((Finished::default(), None));
        }
        match link.finish() {
            Err(Error::SupervisorEnded { .. }) if end.is_some() => {
                let how = link.lost().lost.unwrap_or_default();
                let problem = format!(
                    "prony's supervisor process was ended from outside after the measured process had ended ({how})"
                );
                Ok((Finished { killed: 0, problems: vec![problem] }, None))
            }
            Ok((finished, ready)) => {
                if ready && texts.size() <= SMALL_PLAN {
                    idle.put(link);
                }
                Ok((finished, None))
            }
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Supervised {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.channel.as_fd()
    }
}

#[cfg(test)]
#[allow(clippy::exit, reason = "a process in a role ends with it")]
mod tests;
