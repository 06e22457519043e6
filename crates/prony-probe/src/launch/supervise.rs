//! The supervisor: a process of its own that holds one subject and outlives nothing.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use prony_core::reading::{Reading, Why};
use prony_core::units::{Bytes, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process_group, set_child_subreaper, setsid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::pipe::register;

use super::channel::{Channel, Received};
use super::child::{Child, Report, Unprepared};
use super::scratch::remove_tree;
use super::tree;
use super::wire::{
    CpuTime, End, Finished, FromSupervisor, KilledFor, Refusal, Status, Text, ToSupervisor, Usage, WireSpec,
};
use crate::clock::monotonic;
use crate::error::Error;
use crate::limits::{Group, OomWatch};
use crate::sys::process::{Ended, Reaped, reap};

/// A tree that resists so long (a process stuck in the kernel) is reported instead of waited for.
const MOST_PATIENCE: Duration = Duration::from_secs(60);

/// [`supervise`] on standard input, where [`super::Launcher`] puts the socket.
pub fn supervise_stdin() -> ExitCode {
    io::stdin().as_fd().try_clone_to_owned().map_or(ExitCode::from(2), supervise)
}

/// How often a promised kill is looked for, and how long.
const ALARM_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
const ALARM_TIME: Duration = Duration::from_secs(2);

/// How often the count of kills is read where the kernel announces none.
const WATCH_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Runs a supervisor on its end of the socket until the runner is done or gone. To be called first thing in a
/// process of its own, which exits with what this returns.
pub fn supervise(socket: OwnedFd) -> ExitCode {
    match Supervisor::new(socket).map(Supervisor::run) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(_) => ExitCode::from(2),
    }
}

/// How far the subject has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing was launched, or it was refused.
    Idle,
    /// Forked and waiting.
    Held,
    /// Allowed to execute its program.
    Released,
    /// Executing its program.
    Running,
    /// Its own process has ended.
    Ended,
    /// The supervisor is done.
    Over,
}

struct Supervisor {
    channel: Channel,
    /// Readable after a signal.
    wake: UnixStream,
    /// SIGTERM came: somebody wants this over.
    terminate: Arc<AtomicBool>,
    stage: Stage,
    child: Option<Child>,
    scratch: Vec<PathBuf>,
    group: Option<Group>,
    watch: OomWatch,
    /// Until when a kill for lack of memory, once announced, is looked for.
    alarm: Option<Instant>,
    /// How the subject's own process ended, until that is told.
    status: Option<(Status, Nanos)>,
    killed: Option<KilledFor>,
    /// CPU time of everything reaped: orphans come here, others to parents whose figure holds theirs.
    cpu: CpuTime,
    /// What else the kernel counted of them.
    usage: Usage,
    /// When the subject was allowed to execute its program.
    released: Nanos,
    finished: Finished,
}

impl Supervisor {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        // Fails where it leads a session already, which is as well.
        let _ = setsid();
        let _ = rustix::thread::set_name(c"prony-supervise");
        set_child_subreaper(Some(getpid()))?;
        let (wake, signalled) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        for signal in [SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
            register(signal, signalled.try_clone()?)?;
        }
        let terminate = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGTERM, Arc::clone(&terminate))?;
        Ok(Self {
            channel: Channel::new(socket),
            wake,
            terminate,
            stage: Stage::Idle,
            child: None,
            scratch: Vec::new(),
            group: None,
            watch: OomWatch::new(None),
            alarm: None,
            status: None,
            killed: None,
            cpu: CpuTime::default(),
            usage: Usage::default(),
            released: Nanos::ZERO,
            finished: Finished::default(),
        })
    }

    /// Serves until the end; `true` where everything could be ended and removed.
    fn run(mut self) -> bool {
        while self.stage != Stage::Over {
            if self.wait().is_err() {
                self.finish();
                break;
            }
            self.turn();
        }
        self.finished.problems.is_empty()
    }

    /// Waits until anything can be read.
    fn wait(&self) -> io::Result<()> {
        let sources = [self.channel.as_fd(), self.wake.as_fd()];
        let sources = sources.into_iter().chain(self.watch.source()).chain(self.child.iter().flat_map(Child::sources));
        let mut fds: Vec<PollFd<'_>> = sources.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let pause = match self.alarm {
            Some(_) => Some(ALARM_PAUSE),
            None if self.watch.needs_polling() && self.is_alive() => Some(WATCH_PAUSE),
            None => None,
        };
        match poll(&mut fds, pause.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks at everything once. Which of the sources woke us does not matter: looking costs a microsecond.
    fn turn(&mut self) {
        while matches!(self.wake.read(&mut [0; 256]), Ok(n) if n > 0) {}
        if let Some(child) = &mut self.child {
            child.drain();
        }
        self.look_at_report();
        self.reap_all();
        self.look_at_memory();
        self.tell_end();
        if self.terminate.load(Ordering::Relaxed) {
            return self.finish();
        }
        while self.stage != Stage::Over {
            match self.channel.receive_now() {
                Ok(Received::Message(message)) => self.obey(message),
                Ok(Received::Nothing) => break,
                Ok(Received::Closed) | Err(_) => self.finish(),
            }
        }
    }

    fn obey(&mut self, message: ToSupervisor) {
        match message {
            ToSupervisor::Start { spec } => self.start(*spec),
            ToSupervisor::Release => {
                self.released = monotonic();
                if self.stage == Stage::Held && self.child.as_mut().is_some_and(Child::release) {
                    self.stage = Stage::Released;
                }
            }
            ToSupervisor::Signal { signal } => self.signal(signal),
            ToSupervisor::Kill => self.kill(KilledFor::Asked),
            ToSupervisor::Finish => self.finish(),
        }
    }

    fn start(&mut self, spec: WireSpec) {
        self.scratch.extend(spec.scratch.iter().cloned().map(Text::into_path));
        self.group.clone_from(&spec.group);
        self.watch = OomWatch::new(self.group.as_ref());
        let fds: VecDeque<OwnedFd> = std::iter::from_fn(|| self.channel.take_fd()).collect();
        match Child::fork(spec, fds).and_then(|child| self.enter_group(child)) {
            Ok(child) => {
                self.stage = Stage::Held;
                self.say(&FromSupervisor::Held { pid: child.pid.as_raw_nonzero().get() });
                self.child = Some(child);
            }
            Err(Unprepared(what, errno)) => {
                self.say(&FromSupervisor::Refused { refusal: Refusal::Other(what), errno });
            }
        }
    }

    fn enter_group(&self, child: Child) -> Result<Child, Unprepared> {
        let pid = child.pid.as_raw_nonzero().get().unsigned_abs();
        match self.group.as_ref().map_or(Ok(()), |group| group.enter(pid)) {
            Ok(()) => Ok(child),
            // Dropping the child drops its release: it exits.
            Err(error) => Err(Unprepared(error.to_string(), errno_of(&error))),
        }
    }

    /// Signals the subject's process group, while its leader is known to be ours.
    fn signal(&self, signal: i32) {
        if let (Some(child), Some(signal), true) = (&self.child, Signal::from_named_raw(signal), self.is_alive()) {
            // A group that has just ended needs no signal.
            let _ = kill_process_group(child.pid, signal);
        }
    }

    fn is_alive(&self) -> bool {
        matches!(self.stage, Stage::Held | Stage::Released | Stage::Running)
    }

    fn look_at_report(&mut self) {
        let Some(child) = &mut self.child else { return };
        match child.read_report() {
            Report::Silent => {}
            Report::Closed if self.stage == Stage::Released => {
                self.stage = Stage::Running;
                self.say(&FromSupervisor::Running { at: monotonic(), released: self.released });
            }
            Report::Closed => {}
            Report::Failed(refusal, errno) => {
                self.stage = Stage::Idle;
                self.say(&FromSupervisor::Refused { refusal, errno });
            }
        }
    }

    /// Version 1 kills one process of a group and leaves the others crippled: the rest follows here.
    fn look_at_memory(&mut self) {
        if self.watch.take_event() {
            // The event comes just before the kill.
            self.alarm = Some(Instant::now() + ALARM_TIME);
        }
        if (self.alarm.is_some() || self.watch.needs_polling()) && self.is_alive() && self.watch.has_killed() {
            self.alarm = None;
            self.kill(KilledFor::OutOfMemory);
        }
        self.alarm = self.alarm.filter(|until| Instant::now() < *until);
    }

    /// Reaps whatever has ended.
    fn reap_all(&mut self) {
        while let Some(reaped) = reap() {
            self.cpu.user += reaped.user;
            self.cpu.system += reaped.system;
            self.usage.add(&reaped);
            let ours = self.child.as_ref().is_some_and(|child| child.pid.as_raw_nonzero().get() == reaped.pid);
            if ours && self.is_alive() {
                // The report of a failed exec was written before the exit that we have just seen.
                self.look_at_report();
                if self.is_alive() {
                    self.status = Some((status(reaped.status), monotonic()));
                }
            }
        }
    }

    /// Tells how the subject ended, once.
    fn tell_end(&mut self) {
        let Some((status, at)) = self.status.take() else { return };
        self.stage = Stage::Ended;
        let leftover = tree::living().count() as u64;
        let Some(child) = &mut self.child else { return };
        child.drain();
        let [stdout, stderr] = child.captured();
        let memory = self.watch.evidence();
        let complete = match leftover {
            0 => Reading::Measured(()),
            n => Reading::Missing(Why::NotSupported(format!("{n} processes of the tree live on"))),
        };
        let (cpu, usage) = (complete.clone().map(|()| self.cpu), complete.map(|()| self.usage));
        let end = Box::new(End { status, at, killed: self.killed, cpu, usage, leftover, memory, stdout, stderr });
        self.say(&FromSupervisor::Ended { end });
    }

    /// Kills the tree and tells the subject's end.
    fn kill(&mut self, why: KilledFor) {
        if self.is_alive() {
            self.killed = self.killed.or(Some(why));
        }
        self.end_tree();
        self.tell_end();
    }

    /// Kills until nothing is left.
    fn end_tree(&mut self) {
        let deadline = Instant::now() + MOST_PATIENCE;
        let mut pause = Duration::from_micros(200);
        loop {
            self.reap_all();
            let pids = self.left();
            if pids.is_empty() {
                return;
            }
            if let Some(group) = &self.group {
                group.kill();
            }
            tree::kill_all();
            if Instant::now() >= deadline {
                return self.finished.problems.push(format!("processes {pids:?} cannot be ended"));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Processes of the tree and of the group, ended ones that nobody reaped included.
    fn left(&self) -> Vec<i32> {
        let mut pids: Vec<i32> = tree::descendants().into_iter().map(|place| place.id.pid).collect();
        pids.extend(self.group.iter().flat_map(Group::members));
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Kills what is left, removes what was made, and says so.
    fn finish(&mut self) {
        self.finished.killed = tree::living().count() as u64;
        self.kill(KilledFor::Asked);
        let group = self.group.iter().map(Group::remove);
        let scratch = self.scratch.iter().map(|path| remove_tree(path));
        let problems = group.chain(scratch).filter_map(Result::err).map(|error| error.to_string());
        self.finished.problems.extend(problems);
        self.stage = Stage::Over;
        self.say(&FromSupervisor::Finished { finished: self.finished.clone() });
    }

    fn say(&self, message: &FromSupervisor) {
        // A runner that is gone shows as the end of the socket in the next turn.
        let _ = self.channel.send(message, &[]);
    }
}

fn errno_of(error: &Error) -> i32 {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.and_then(io::Error::raw_os_error).unwrap_or(libc::EIO)
}

impl Usage {
    fn add(&mut self, reaped: &Reaped) {
        self.minor_faults += reaped.minor_faults;
        self.major_faults += reaped.major_faults;
        self.read = self.read + Bytes::from_bytes(512 * reaped.blocks_read);
        self.written = self.written + Bytes::from_bytes(512 * reaped.blocks_written);
        self.switches_voluntary += reaped.switches_voluntary;
        self.switches_forced += reaped.switches_forced;
        self.peak = self.peak.max(Bytes::from_kib(reaped.max_rss));
    }
}

const fn status(ended: Ended) -> Status {
    match ended {
        Ended::Exited(code) => Status::Exited(code),
        Ended::Signalled(signal) => Status::Signalled(signal),
    }
}
