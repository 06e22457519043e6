//! The supervisor: a process that owns the tree of one subject at a time, ends it and cleans up, even if the runner is
//! killed.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use prony_model::units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, getpid, kill_process_group, set_child_subreaper, set_parent_process_death_signal, setsid,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::pipe::register;

use super::Status;
use super::channel::{Channel, Received};
use super::output_capture::Stream;
use super::process_tree::{self, Children, Leftover};
use super::scratch::remove_tree;
use super::spawner::Spawner;
use super::wire::{Begin, End, Finished, FromSupervisor, KilledFor, ToSupervisor};
use crate::clock::monotonic;
use crate::limits::{Group, OomWatch};
use crate::lock::Lock;
use crate::open_files;
use crate::sys::process::reap;
use crate::sys::usage::{CpuTime, Usage};

/// A tree that resists so long (a process stuck in the kernel) is reported instead of waited for.
const MOST_PATIENCE: Duration = Duration::from_secs(60);

/// A tree that resists so long is ended together with the spawner in its group, all at once where the kernel can.
const MOST_SPARING: Duration = Duration::from_secs(2);

/// The variable with the user's limit of open files, for a supervisor and its subjects.
pub(super) const OPEN_FILES: &str = "PRONY_OPEN_FILES";

/// [`supervise`] on standard input, where [`super::Launcher`] puts the socket.
pub fn supervise_stdin() -> ExitCode {
    io::stdin().as_fd().try_clone_to_owned().map_or(ExitCode::from(2), supervise)
}

/// How often an announced OOM kill is checked for, and for how long.
const ALARM_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
const ALARM_TIME: Duration = Duration::from_secs(2);

/// How often to check whether a subject executes its program where nothing else reports that.
const SPAWN_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000 };

/// How often the count of kills is read where the kernel sends no event.
const WATCH_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Why processes that are still there after this time are not waited for.
fn unending(pids: &[i32], waited: Duration) -> Option<String> {
    // A process that became another user by a set-user-ID program cannot be killed by us, however long we wait.
    if waited >= MOST_SPARING && pids.iter().all(|pid| process_tree::is_out_of_reach(*pid)) {
        return Some(format!("processes {pids:?} run as another user, so prony could not end them; they still run"));
    }
    (waited >= MOST_PATIENCE).then(|| format!("processes {pids:?} cannot be ended"))
}

/// Runs a supervisor on its end of the socket until the runner has finished or ended. Must be called first in a process
/// of its own, which exits with what this returns.
pub fn supervise(socket: OwnedFd) -> ExitCode {
    match Supervisor::new(socket).map(Supervisor::run) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(_) => ExitCode::from(2),
    }
}

/// State of the subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing was launched, or it was refused.
    #[default]
    Idle,
    /// Made; it executes its program at once, or when the runner releases it.
    Made,
    /// Executing its program.
    Running,
    /// Its own process has ended.
    Ended,
    /// Nothing of it is left, and the supervisor waits for another.
    Cleared,
    /// The supervisor is done.
    Over,
}

struct Supervisor {
    channel: Channel,
    /// Readable after a signal.
    wake: UnixStream,
    /// SIGTERM arrived: it asks us to end everything.
    terminate: Arc<AtomicBool>,
    spawner: Spawner,
    children: Children,
    watch: OomWatch,
    subject: Subject,
}

/// What the supervisor knows of one subject, or of several that start in one group.
#[derive(Default)]
struct Subject {
    state: State,
    /// What is sent together with the report of the subject's end.
    unsaid: Option<FromSupervisor>,
    /// Subjects start in the group, one after another.
    reused: bool,
    /// So many of them have ended.
    ended: u64,
    /// The number of the subject whose begin the runner waits for.
    asked: Option<u64>,
    /// The one that was spawned last.
    spawned: Option<Pid>,
    /// Descriptors kept open for the runner because they are slow to close.
    open_fds: Vec<OwnedFd>,
    /// Captured standard output and error.
    streams: [Option<Stream>; 2],
    scratch: Vec<PathBuf>,
    /// Locks on group and directories, so that no sweep removes them while the runner's processes are ended.
    locks: Vec<Lock>,
    group: Option<Group>,
    /// Until when to check for a kill for lack of memory that was announced.
    alarm: Option<Instant>,
    /// How the subject's own process ended, until that is reported.
    status: Option<(Status, Nanos)>,
    killed: Option<KilledFor>,
    /// CPU time of everything reaped: orphans here, other processes by parents whose counters include theirs.
    cpu: CpuTime,
    /// The other counters of the kernel for them.
    usage: Usage,
    finished: Finished,
}

impl Supervisor {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        // This fails where the process leads a session already, which is fine.
        let _ = setsid();
        let _ = rustix::thread::set_name(c"prony-supervise");
        set_child_subreaper(Some(getpid()))?;
        // A subject may have stopped this process. Once the runner has ended, nobody else continues it to clean up.
        set_parent_process_death_signal(Some(Signal::CONT))?;
        // The runner's own is raised. Subjects inherit that of the spawner, which inherits ours.
        if let Some(limit) = std::env::var(OPEN_FILES).ok().and_then(|limit| limit.parse().ok()) {
            open_files::set(limit)?;
        }
        // Before signals are caught: the spawner would inherit that.
        let spawner = Spawner::start()?;
        let (wake, signalled) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        for signal in [SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
            register(signal, signalled.try_clone()?)?;
        }
        let terminate = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGTERM, Arc::clone(&terminate))?;
        let (channel, children, watch) = (Channel::new(socket), Children::open(), OomWatch::new(None));
        Ok(Self { channel, wake, terminate, spawner, children, watch, subject: Subject::default() })
    }

    /// Serves until the end; `true` where everything could be ended and removed.
    fn run(mut self) -> bool {
        while self.subject.state != State::Over {
            if self.wait().is_err() {
                self.finish(false);
                break;
            }
            self.turn();
            if self.subject.state == State::Cleared {
                self.spawner.spawn.clear();
                (self.watch, self.subject) = (OomWatch::new(None), Subject::default());
            }
        }
        self.wait_for_runner();
        self.subject.finished.problems.is_empty()
    }

    /// Until the runner has closed its end: its descriptors are closed by us, since nobody waits for our exit.
    fn wait_for_runner(&mut self) {
        while !self.subject.open_fds.is_empty() {
            let _ = poll(&mut [PollFd::new(&self.channel, PollFlags::IN)], None);
            if !matches!(self.channel.receive_now::<ToSupervisor>(), Ok(Received::Message(_) | Received::Nothing)) {
                return;
            }
        }
    }

    /// Waits until any descriptor is readable.
    fn wait(&self) -> io::Result<()> {
        let sources = [self.channel.as_fd(), self.wake.as_fd()];
        let captured = self.subject.streams.iter().flatten().filter_map(Stream::source);
        let sources = sources.into_iter().chain(self.watch.source()).chain(captured);
        let mut fds: Vec<PollFd<'_>> = sources.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let pause = match self.subject.alarm {
            _ if self.subject.asked.is_some() => Some(SPAWN_PAUSE),
            Some(_) => Some(ALARM_PAUSE),
            None if self.watch.needs_polling() && self.is_alive() => Some(WATCH_PAUSE),
            None => None,
        };
        match poll(&mut fds, pause.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Polls every source once. Which of them woke us does not matter: a poll costs a microsecond.
    fn turn(&mut self) {
        // First, because the subject's end gets the clock's time when it is noticed.
        self.reap_all();
        while matches!(self.wake.read(&mut [0; 256]), Ok(n) if n > 0) {}
        self.subject.streams.iter_mut().flatten().for_each(Stream::drain);
        // A child that ended between the first check and the reading of `wake`.
        self.reap_all();
        self.read_spawn_report();
        self.check_memory();
        self.report_end();
        self.say_unsaid();
        if self.terminate.load(Ordering::Relaxed) {
            return self.finish(false);
        }
        while !matches!(self.subject.state, State::Cleared | State::Over) {
            match self.channel.receive_now() {
                Ok(Received::Message(message)) => self.obey(message),
                Ok(Received::Nothing) => break,
                Ok(Received::Closed) | Err(_) => self.finish(false),
            }
        }
    }

    fn obey(&mut self, message: ToSupervisor) {
        match message {
            ToSupervisor::Begin { begin } => self.begin(*begin),
            ToSupervisor::ReportExec { nth } => {
                // Its end may just have been reported.
                self.subject.asked = Some(nth).filter(|nth| *nth > self.subject.ended);
                self.read_spawn_report();
                self.say_unsaid();
            }
            ToSupervisor::Signal { signal, nth } if !self.is_over(nth) => self.signal(signal),
            ToSupervisor::Kill { nth } if !self.is_over(nth) => self.kill(KilledFor::Asked),
            ToSupervisor::Signal { .. } | ToSupervisor::Kill { .. } => {}
            ToSupervisor::Finish => self.finish(true),
        }
    }

    /// Prepares for subjects. If several will come, the spawner enters the group: what it spawns starts in it, and no
    /// process has to be moved.
    fn begin(&mut self, begin: Begin) {
        let Begin { reused, mut group, beside, scratch, captured } = begin;
        group.iter_mut().for_each(Group::lock);
        self.subject.scratch = scratch.into_iter().map(PathBuf::from).collect();
        self.subject.locks = self.subject.scratch.iter().filter_map(|path| Lock::shared(path).ok()).collect();
        self.watch = OomWatch::new(group.as_ref().or(beside.as_ref()).filter(|_| !reused));
        let entrances = group.as_ref().filter(|_| reused).map(Group::entrances).unwrap_or_default();
        (self.subject.group, self.subject.reused) = (group, reused);
        self.subject.streams =
            captured.map(|bounds| bounds.and_then(|bounds| Some(Stream::new(self.channel.take_fd()?, bounds))));
        self.subject.open_fds = std::iter::from_fn(|| self.channel.take_fd()).collect();
        // Also where there is nothing to enter: one that was killed or stopped since the last subject gives no answer.
        match self.spawner.enter(&entrances) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return self.say(&FromSupervisor::SpawnerEnded);
            }
            Err(error) => return self.say(&FromSupervisor::NotReady { why: error.to_string() }),
        }
        self.spawner.spawn.open();
        let ready = FromSupervisor::Ready { spawner: self.spawner.pid.as_raw_pid() };
        // If the runner has ended, the next turn finds the socket closed.
        let _ = self.channel.send(&ready, &[self.spawner.socket()]);
    }

    /// Signals the subject's process group, while its leader is known to be our child.
    fn signal(&self, signal: i32) {
        if let (Some(pid), Some(signal), true) = (self.subject.spawned, Signal::from_named_raw(signal), self.is_alive())
        {
            // A group that has just ended needs no signal.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Whether nothing is left of the `nth` subject, so that a command for it comes too late.
    const fn is_over(&self, nth: u64) -> bool {
        !matches!(self.subject.state, State::Ended) && nth <= self.subject.ended
    }

    fn is_alive(&self) -> bool {
        matches!(self.subject.state, State::Made | State::Running)
    }

    /// Checks whether the spawner has made a subject that the runner asked it for.
    fn notice(&mut self) {
        if self.subject.state == State::Idle {
            self.subject.spawned = self.spawner.spawn.pid();
            self.subject.state = if self.subject.spawned.is_some() { State::Made } else { State::Idle };
        }
    }

    /// Reports the subject that the runner waits for, once there is something to report.
    fn read_spawn_report(&mut self) {
        if self.subject.asked.is_none() {
            return;
        }
        self.notice();
        if self.spawner.is_stopped() {
            self.spawner.end();
        }
        let (spawn, ended) = (self.spawner.spawn.get(), self.spawner.ended);
        match (self.subject.state, self.spawner.spawn.failed()) {
            (State::Idle, Some((step, errno))) => self.refuse(&FromSupervisor::Refused { step: Some(step), errno }),
            (State::Idle, None) if ended => self.refuse(&FromSupervisor::SpawnerEnded),
            // Its spawner has ended, so that nothing reports that it was executed; it was about to be.
            (State::Made, None) if spawn.is_some_and(|spawn| spawn.executed.is_some() || ended) => {
                self.subject.asked = None;
                self.subject.unsaid = Some(self.runs());
            }
            // A child that failed will be reaped.
            _ => {}
        }
    }

    fn refuse(&mut self, refusal: &FromSupervisor) {
        (self.subject.state, self.subject.spawned, self.subject.asked) = (State::Idle, None, None);
        self.subject.ended += 1;
        self.spawner.spawn.clear();
        self.say(refusal);
    }

    fn runs(&mut self) -> FromSupervisor {
        let pid = self.subject.spawned.map_or(0, Pid::as_raw_pid);
        self.subject.state = State::Running;
        let spawn = self.spawner.spawn.get();
        let at = spawn.and_then(|spawn| spawn.executed).unwrap_or_else(monotonic);
        let released = spawn.map_or(at, |spawn| spawn.at);
        let before = spawn.map(|spawn| Box::new(spawn.before));
        FromSupervisor::Running { pid, at, released, before, candidate: spawn.map(|spawn| spawn.candidate) }
    }

    /// Version 1 kills only one process of a group, which leaves the remaining ones unusable: the rest is killed here.
    fn check_memory(&mut self) {
        if self.watch.take_event() {
            // The event comes just before the kill.
            self.subject.alarm = Some(Instant::now() + ALARM_TIME);
        }
        if (self.subject.alarm.is_some() || self.watch.needs_polling()) && self.is_alive() && self.watch.has_killed() {
            self.subject.alarm = None;
            self.kill(KilledFor::OutOfMemory);
        }
        self.subject.alarm = self.subject.alarm.filter(|until| Instant::now() < *until);
    }

    /// Reaps whatever has ended.
    fn reap_all(&mut self) {
        while let Some(reaped) = reap() {
            let at = monotonic();
            if reaped.pid == self.spawner.pid.as_raw_pid() {
                // Nothing can be launched any more; what is running may end by itself.
                self.spawner.ended = true;
                continue;
            }
            self.subject.cpu.add(&reaped.counts.0);
            self.subject.usage.add(&reaped.counts.1);
            self.notice();
            let ours = self.subject.spawned.is_some_and(|pid| pid.as_raw_pid() == reaped.pid);
            if ours && self.is_alive() {
                let failed = self.spawner.spawn.failed().filter(|_| self.subject.state == State::Made);
                if let Some((step, errno)) = failed {
                    self.refuse(&FromSupervisor::Refused { step: Some(step), errno });
                } else if self.subject.state == State::Made && self.spawner.spawn.get().is_some() {
                    // It executed its program, though the spawner has not reported that yet.
                    self.subject.unsaid = Some(self.runs());
                }
                if self.is_alive() {
                    self.subject.status = Some((reaped.status, at));
                }
            }
        }
    }

    /// Reports how the subject ended, once.
    fn report_end(&mut self) {
        let Some((status, at)) = self.subject.status.take() else { return };
        if let Some(FromSupervisor::Running { at: executed_at, .. }) = &mut self.subject.unsaid {
            // Its end was noticed first; it was executed before that.
            *executed_at = (*executed_at).min(at);
        }
        (self.subject.state, self.subject.asked) = (State::Ended, None);
        self.subject.ended += 1;
        let left = self.left_behind();
        let [stdout, stderr] = self.subject.streams.each_mut().map(|stream| {
            stream.iter_mut().for_each(Stream::drain);
            stream.as_ref().map(Stream::captured)
        });
        let memory = self.watch.evidence(!self.subject.reused || matches!(status, Status::Signalled(libc::SIGKILL)));
        let complete = left.complete();
        let (cpu, usage) = (complete.clone().map(|()| self.subject.cpu), complete.map(|()| self.subject.usage));
        let (killed, leftover) = (self.subject.killed, left.living);
        let end = Box::new(End { status, at, killed, cpu, usage, leftover, memory, stdout, stderr, lost: None });
        // Without descendants nothing of the tree is in the group either.
        let ready = self.subject.reused && !self.spawner.ended && left.is_none();
        if ready {
            self.subject.state = State::Idle;
            (self.subject.spawned, self.subject.killed) = (None, None);
            (self.subject.cpu, self.subject.usage) = (CpuTime::default(), Usage::default());
            self.spawner.spawn.clear();
        }
        let ended = FromSupervisor::Ended { end, ready };
        let all: Vec<&FromSupervisor> = self.subject.unsaid.iter().chain([&ended]).collect();
        // If the runner has ended, the next turn finds the socket closed.
        let _ = self.channel.send_all(&all, &[]);
        self.subject.unsaid = None;
        if ready {
            // What the machine killed until now is no evidence for the next subject, which is made later than this.
            self.watch.begin_anew();
            self.spawner.spawn.open();
        }
    }

    /// State of the tree, once orphans that ended since the last check are reaped and added to the sums.
    fn left_behind(&mut self) -> Leftover {
        if self.children.none_but(self.spawner.pid) {
            return Leftover::NONE;
        }
        let left = Leftover::of(&process_tree::descendants(self.spawner.pid));
        if left.ended > 0 {
            self.reap_all();
            return Leftover::of(&process_tree::descendants(self.spawner.pid));
        }
        left
    }

    /// Kills the tree and reports the subject's end.
    fn kill(&mut self, why: KilledFor) {
        self.notice();
        if self.is_alive() {
            self.subject.killed = self.subject.killed.or(Some(why));
        }
        self.end_tree();
        self.report_end();
    }

    /// Kills until nothing is left except, where subjects are spawned one after another, the spawner.
    fn end_tree(&mut self) {
        let began = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            self.reap_all();
            let pids = self.left();
            if pids.is_empty() {
                return;
            }
            let spares = self.subject.reused && !self.spawner.ended && began.elapsed() < MOST_SPARING;
            match &self.subject.group {
                Some(group) if spares => group.kill_but(self.spawner.pid.as_raw_pid()),
                Some(group) => group.kill(),
                None => {}
            }
            process_tree::kill_all(self.spawner.pid);
            if let Some(problem) = unending(&pids, began.elapsed()) {
                // It may be ended twice: after its deadline and at the end.
                self.subject.finished.problems.retain(|known| *known != problem);
                return self.subject.finished.problems.push(problem);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Processes of the tree and of the group, ended ones that nobody reaped included; not the spawner.
    fn left(&self) -> Vec<i32> {
        let mut pids: Vec<i32> =
            process_tree::descendants(self.spawner.pid).into_iter().map(|place| place.id.pid).collect();
        pids.extend(self.members());
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Processes of the group; not the spawner.
    fn members(&self) -> Vec<i32> {
        let mut pids: Vec<i32> = self.subject.group.iter().flat_map(Group::members).collect();
        pids.retain(|pid| *pid != self.spawner.pid.as_raw_pid());
        pids
    }

    /// Kills what is left, removes what was made, and reports that. If the runner may have `more` subjects, and all of this
    /// one could be ended and removed, the supervisor waits for another: starting one takes longer than a short trial.
    fn finish(&mut self, more: bool) {
        self.subject.finished.killed = process_tree::living(self.spawner.pid).count() as u64;
        // Before the group is killed, which contains the spawner where it is reused.
        if !more || self.subject.reused {
            self.spawner.end();
        }
        self.kill(KilledFor::Asked);
        let group = self.subject.group.iter().map(Group::remove);
        let scratch = self.subject.scratch.iter().map(|path| remove_tree(path));
        let problems = group.chain(scratch).filter_map(Result::err).map(|error| error.to_string());
        self.subject.finished.problems.extend(problems);
        let ready =
            self.subject.state == State::Ended && !self.spawner.ended && self.subject.finished.problems.is_empty();
        self.subject.state = if ready { State::Cleared } else { State::Over };
        self.say(&FromSupervisor::Finished { finished: self.subject.finished.clone(), ready });
    }

    fn say_unsaid(&mut self) {
        if let Some(message) = self.subject.unsaid.take() {
            self.say(&message);
        }
    }

    fn say(&self, message: &FromSupervisor) {
        // If the runner has ended, the next turn finds the socket closed.
        let _ = self.channel.send(message, &[]);
    }
}
