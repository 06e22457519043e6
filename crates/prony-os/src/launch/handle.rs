//! The runner's side: start a subject held, release it, wait for it, end it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use prony_model::units::Nanos;
use rustix::process::Signal;

use super::channel::Channel;
use super::client::SpawnerClient;
use super::lingering;
use super::link::Link;
use super::spec::LaunchSpec;
use super::texts::Texts;
use super::wire::{CpuTime, End, Finished, FromSupervisor, Text, ToSupervisor, Usage};
use crate::error::Error;
use crate::limits::Group;

/// How long a subject that executes its program at once, and writes nothing, is left to itself: a short one has ended by
/// then, and nobody was woken beside it.
const UNWATCHED: Duration = Duration::from_millis(1);

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
    pub fn start(&self, spec: LaunchSpec) -> Result<Suspended, Error> {
        let mut link = self.connect(spec.command.to_string_lossy().into_owned(), spec.group.clone())?;
        link.directory.clone_from(&spec.directory);
        let unprepared = |what| prepare(&link, what);
        // A text that cannot be one of C's is refused where the subject is made.
        let texts = spec.texts().ok();
        let (wire, fds) = spec.into_wire().map_err(unprepared)?;
        let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        link.send(&ToSupervisor::Start { spec: Box::new(wire) }, &borrowed)?;
        match link.receive(None)? {
            Some(FromSupervisor::Suspended { pid }) => Ok(Suspended { link, pid: pid.unsigned_abs(), texts }),
            other => Err(link.unexpected(other)),
        }
    }

    /// A supervisor that will launch one subject after another into a group that only counts: what a fresh one for
    /// each costs, and a group for each costs far more, is paid once. Each subject's tree is ended as always.
    ///
    /// Descriptors that are dear to close are held `open` there until this process has closed them, so that it need not
    /// wait: when all is cleaned up, such a supervisor is not waited for. It removes `scratch` at the end.
    ///
    /// # Errors
    /// When no supervisor can be started or the group takes none.
    pub fn keep(
        &self,
        group: Option<Group>,
        open: &[BorrowedFd<'_>],
        scratch: Option<&Path>,
    ) -> Result<ReusableSupervisor, Error> {
        let failed = |source| Error::Supervisor { program: self.program.clone(), source };
        let mut link = self.connect("a subject".to_owned(), group.clone())?;
        link.lingers = !open.is_empty();
        link.send(&ToSupervisor::Keep { group, scratch: scratch.into_iter().map(Text::new).collect() }, open)?;
        match link.receive(None)? {
            Some(FromSupervisor::Reusable { spawner }) => {
                let socket = link.channel.take_fd().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
                let client = SpawnerClient::new(spawner.unsigned_abs(), socket).map_err(failed)?;
                Ok(ReusableSupervisor { link, client })
            }
            Some(FromSupervisor::NotReusable { why }) => Err(failed(io::Error::other(why))),
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
        Ok(Link::new(Channel::new(ours), process, program, group))
    }
}

fn prepare(link: &Link, what: String) -> Error {
    Error::Prepare { program: link.program.clone(), what, source: io::ErrorKind::InvalidInput.into() }
}

/// A supervisor that waits for another subject.
#[derive(Debug)]
pub struct ReusableSupervisor {
    link: Link,
    client: SpawnerClient,
}

impl ReusableSupervisor {
    /// The process that spawns the subjects, in their group: counters attached to it count them all.
    pub const fn spawner(&self) -> u32 {
        self.client.spawner()
    }

    /// Has a subject made and execute its program at once: all that observes it is attached already to where it is born.
    /// The group and the scratch directory of a kept supervisor's subjects are its own, and their streams are files or
    /// nothing. `ends` are ours of what it writes: once there is something to read, who is to read it is kept no longer, as
    /// a subject that fills a pipe stands still until then.
    ///
    /// # Errors
    /// As [`Launcher::start`] and [`Suspended::release`]; the supervisor is gone then.
    pub fn launch(mut self, spec: LaunchSpec, ends: &[BorrowedFd<'_>]) -> Result<Running, Error> {
        self.link.program = spec.command.to_string_lossy().into_owned();
        self.link.directory.clone_from(&spec.directory);
        let texts = spec.texts().map_err(|what| prepare(&self.link, what))?;
        let fds = spec.into_fds().map_err(|what| prepare(&self.link, what))?;
        self.client.launch(&texts, &fds).map_err(|source| self.link.unsent(source))?;
        let first = self.link.receive_beside(Some(Instant::now() + UNWATCHED), ends);
        // They hold the other ends of what is read of the subject. Until here, or a subject that closes its own, as all do
        // when they end, would wake us.
        drop(fds);
        let first = match first {
            Ok(None) => {
                // A supervisor that is gone shows in what it says.
                let _ = self.link.send(&ToSupervisor::Tell { nth: self.client.launched() }, &[]);
                self.link.receive(None)
            }
            said => said,
        };
        Running::new(self.link, 0, first, Some(texts), Some(self.client))
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
pub struct Suspended {
    link: Link,
    pid: u32,
    texts: Option<Texts>,
}

impl Suspended {
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
        self.running()
    }

    /// Lets several programs begin, as close together as can be, and waits until each is executed. As [`Suspended::release`]
    /// of each.
    pub fn release_all(all: Vec<Self>) -> Vec<Result<Running, Error>> {
        all.iter().for_each(Self::let_go);
        all.into_iter().map(Self::running).collect()
    }

    fn let_go(&self) {
        // A supervisor that is gone shows in what it says.
        let _ = self.link.send(&ToSupervisor::Release, &[]);
    }

    fn running(mut self) -> Result<Running, Error> {
        let said = self.link.receive(None);
        Running::new(self.link, self.pid, said, self.texts, None)
    }
}

/// A subject under way, or ended and not yet cleaned up.
#[derive(Debug)]
pub struct Running {
    link: Link,
    pid: u32,
    client: Option<SpawnerClient>,
    executable: Option<PathBuf>,
    before: Option<(CpuTime, Usage)>,
    since: Nanos,
    released: Nanos,
    end: Option<End>,
    /// The supervisor waits for another subject.
    ready: bool,
}

impl Running {
    /// From what a supervisor says when the program is to be executed.
    fn new(
        mut link: Link,
        suspended: u32,
        said: Result<Option<FromSupervisor>, Error>,
        texts: Option<Texts>,
        client: Option<SpawnerClient>,
    ) -> Result<Self, Error> {
        let said = match said {
            Err(Error::SupervisorEnded { .. }) => {
                Some(FromSupervisor::Ended { end: Box::new(link.lost()), ready: false })
            }
            said => said?,
        };
        let (since, released) = (Nanos::ZERO, Nanos::ZERO);
        let (executable, before, end, ready) = (None, None, None, false);
        let running = |link| Self { link, pid: suspended, client, executable, before, since, released, end, ready };
        match said {
            Some(FromSupervisor::Running { pid, at, released, before, candidate }) => {
                let executable = texts.and_then(|texts| Some(texts.candidate(candidate?)?.to_owned()));
                let (pid, before) = (pid.unsigned_abs(), before.map(|before| *before));
                Ok(Self { pid, executable, since: at, released, before, ..running(link) })
            }
            // It was killed before it could begin.
            Some(FromSupervisor::Ended { end, ready }) => {
                Ok(Self { since: end.at, released: end.at, end: Some(*end), ready, ..running(link) })
            }
            other => Err(link.unexpected(other)),
        }
    }

    /// The subject's own process.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// The file that it executes, a relative path from its directory: what a name was found as. `None` where it never began.
    pub fn executable(&self) -> Option<&Path> {
        self.executable.as_deref()
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
                Err(Error::SupervisorEnded { .. }) => self.end = Some(self.link.lost()),
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
        self.tell(&ToSupervisor::Signal { signal, nth: self.nth() })
    }

    /// Kills the whole tree, whatever it ignores, and returns how the subject's own process ended.
    ///
    /// # Errors
    /// When the supervisor is gone, or the subject cannot be ended.
    pub fn kill_tree(&mut self) -> Result<End, Error> {
        self.tell(&ToSupervisor::Kill { nth: self.nth() })?;
        self.wait(None)?.ok_or_else(|| self.link.supervisor_ended())
    }

    /// Which of a kept supervisor's subjects it is: what is said of it must not reach the next.
    fn nth(&self) -> Option<u64> {
        self.client.as_ref().map(SpawnerClient::launched)
    }

    /// Says something that a supervisor who is gone need not hear: that shows when the end is waited for.
    fn tell(&self, message: &ToSupervisor) -> Result<(), Error> {
        match self.link.send(message, &[]) {
            Err(Error::SupervisorEnded { .. }) => Ok(()),
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
    /// was killed leaves nothing to do, and scratch directories to their owner; where that was after the subject's end,
    /// which stands as it was told, it is a problem.
    ///
    /// # Errors
    /// When the supervisor cannot be understood, or is gone while nothing is known of the subject's end.
    pub fn finish(mut self) -> Result<Finished, Error> {
        if self.end.as_ref().is_some_and(|end| end.lost.is_some()) {
            return Ok(Finished::default());
        }
        match self.link.finish() {
            Err(Error::SupervisorEnded { .. }) if self.end.is_some() => {
                let how = self.link.lost().lost.unwrap_or_default();
                let problem = format!("its supervisor was ended from outside after it had ended ({how})");
                Ok(Finished { killed: 0, problems: vec![problem] })
            }
            finished => finished,
        }
    }

    /// The kept supervisor, for another subject, where nothing of this one is left; else what is left is ended, and the
    /// supervisor with it.
    ///
    /// # Errors
    /// When the supervisor is gone.
    pub fn next(self) -> Result<(Finished, Option<ReusableSupervisor>), Error> {
        match self {
            Self { link, client: Some(client), ready: true, .. } => {
                Ok((Finished::default(), Some(ReusableSupervisor { link, client })))
            }
            other => other.finish().map(|finished| (finished, None)),
        }
    }
}

/// Readable when [`Running::wait`] has something to say, for polling beside other sources.
impl AsFd for Running {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.channel.as_fd()
    }
}

#[cfg(test)]
#[allow(clippy::exit, reason = "a process in a role ends with it")]
mod tests {
    use rustix::process::{Pid, kill_process};

    use super::super::supervise_stdin;
    use super::*;

    const ROLE: &str = "PRONY_TEST_SUPERVISOR";

    /// This binary again, where a launcher asks for it.
    #[test]
    fn supervisor() {
        if std::env::var_os(ROLE).is_some() {
            std::process::exit(i32::from(supervise_stdin() != std::process::ExitCode::SUCCESS));
        }
    }

    /// Waits for a condition; panics after a time that no healthy machine needs.
    fn eventually(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < deadline, "never came: {what}");
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// What it amounts to where a subject is to be held by a supervisor whose spawner is killed: before it is asked, or
    /// before it reads what it was asked.
    fn suspended_without_spawner(asked: bool) -> Error {
        let args = ["--exact", "launch::handle::tests::supervisor", "--nocapture", "--test-threads=1"];
        let launcher = Launcher::this_program(args).env(ROLE, "");
        let mut link = launcher.connect("subject".to_owned(), None).unwrap();
        link.send(&ToSupervisor::Keep { group: None, scratch: Vec::new() }, &[]).unwrap();
        let Some(FromSupervisor::Reusable { spawner }) = link.receive(None).unwrap() else { panic!("no spawner") };
        let signal = |signal| kill_process(Pid::from_raw(spawner).unwrap(), signal).unwrap();
        let ask = |link: &Link| {
            let (spec, _) = LaunchSpec::new("/bin/true", "/").into_wire().unwrap();
            link.send(&ToSupervisor::Start { spec: Box::new(spec) }, &[]).unwrap();
        };
        if asked {
            let status = std::fs::read_to_string(format!("/proc/{spawner}/status")).unwrap();
            let supervisor = status.lines().find_map(|line| line.strip_prefix("PPid:\t")).unwrap().to_owned();
            let open = || std::fs::read_dir(format!("/proc/{supervisor}/fd")).unwrap().count();
            let before = open();
            signal(Signal::STOP);
            ask(&link);
            eventually("pipes for the subject", || open() > before);
            signal(Signal::KILL);
        } else {
            signal(Signal::KILL);
            eventually("the spawner is gone", || !Path::new(&format!("/proc/{spawner}")).exists());
            ask(&link);
        }
        let said = link.receive(Some(Instant::now() + Duration::from_secs(60))).unwrap();
        assert!(said.is_some(), "hangs");
        link.unexpected(said)
    }

    #[test]
    fn spawner_that_has_ended_is_no_fault_of_the_subject() {
        for asked in [false, true] {
            let error = suspended_without_spawner(asked);
            assert!(matches!(error, Error::SupervisorEnded { .. }), "{asked}: {error:?}");
        }
    }
}
