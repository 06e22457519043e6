//! Runs replicas: suspended from the trial's begin, released together when their phase begins, their output read, and
//! ended with the program.

mod memory;

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use prony_analysis::guard::program::Flood;
use prony_boundaries::functions::observed;
use prony_boundaries::observation::{Observation, probed};
use prony_boundaries::probe_reports::Threads;
use prony_boundaries::stream::{Arrived, Line, Streams};
use prony_boundaries::tracker::Tracker;
use prony_model::program::{ObserveSpec, ReplicasSpec, replica_instance};
use prony_model::spec::{Action, PhaseSpec};
use prony_model::units::Nanos;
use prony_os::clock::{monotonic, thread_cpu};
use prony_os::launch::{End, Started, Status};
use prony_os::limits::Group;
use prony_os::sample::{Sampler, Snapshot};
use prony_place::launch_setting::{Ends, Setting};
use regex::Regex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::error::Error;
use crate::recorder::Recorder;
use crate::roles::beside::{Beside, executed};
use crate::roles::probe::{self, Probing};
use crate::run_context::RunContext;
use crate::watched::replicas::{Ran, ReplicaEnd, Replicated, last_end};
use memory::MemoryReadings;

/// Turns in which remaining output is read after an end; a daemon may write without end.
const LAST_TURNS: usize = 256;

/// How long to wait for replicas that end at the same time as the program: a runtime's teardown takes some tens of
/// milliseconds.
const WINDING_UP: Duration = Duration::from_millis(100);

/// The environment of replicas: all that the program itself has.
pub(crate) struct Ground<'a> {
    /// What all trials share.
    pub context: &'a RunContext,
    /// What the program is given.
    pub setting: &'a Setting<'a>,
    /// The program's control group.
    pub group: Option<&'a Group>,
    /// What observes the program.
    pub sampler: &'a Sampler,
    /// Where the trial is profiled.
    pub recorder: Option<&'a Recorder>,
}

/// The replicas of a trial; there may be none.
#[derive(Default)]
pub(crate) struct Replicas {
    /// Index of the phase with which they start.
    phase: usize,
    suspended: Vec<Replica>,
    /// The released replicas.
    begun: Vec<Replica>,
    /// All of them have ended, which was reported.
    over: bool,
    memory: MemoryReadings,
    /// Whether a line was reported since the memory of all was read in one go.
    sum_unread: bool,
}

/// One replica.
struct Replica {
    number: u32,
    /// Whether its command may be recorded.
    commands: bool,
    /// `None` where it could not be executed.
    process: Option<Beside>,
    /// What is known of it since it was released; only the instant, where it could not be executed.
    started: Started,
    end: Option<ReplicaEnd>,
    streams: Streams,
    /// When they were read for the last time: what they have now was not there before.
    read_at: Nanos,
    read: Option<Regex>,
    lines: Tracker,
    threads: Threads,
    probing: Probing,
    /// Indices of snapshots: the last before its begin and the first after its end.
    first: usize,
    until: Option<usize>,
    /// Its memory, read after it had reported something.
    reported: Option<Snapshot>,
    /// It has reported something since.
    unread: bool,
}

impl Replicas {
    /// Has all replicas of a program made and suspended, in its group.
    ///
    /// # Errors
    /// Where one cannot be prepared.
    pub(crate) fn suspend(ground: &Ground<'_>, phases: &[PhaseSpec]) -> Result<Self, Error> {
        let Some(spec) = &ground.setting.program.replicas else { return Ok(Self::default()) };
        // The checker has found it among them.
        let phase = phases.iter().position(|phase| phase.name == spec.phase).unwrap_or_default();
        let of_phase = || phases.get(phase).and_then(observed).and_then(|observe| observe.read.clone());
        let read = spec.read.clone().or_else(of_phase);
        let all = (1..=spec.count).map(|number| suspend(ground, spec, read.as_deref(), number));
        Ok(Self { phase, suspended: all.collect::<Result<_, _>>()?, ..Self::default() })
    }

    /// The processes that are suspended.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.suspended.iter().filter_map(|replica| replica.process.as_ref()?.process.suspended())
    }

    /// What to wait for.
    pub(crate) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.begun.iter().filter(|replica| replica.end.is_none()).flat_map(|replica| {
            replica.process.iter().map(|beside| beside.process.as_fd()).chain(replica.streams.sources())
        })
    }

    /// Releases the replicas if their phase has begun.
    ///
    /// # Errors
    /// Where a supervisor has ended or cannot be understood; a replica that cannot be executed is a result.
    pub(crate) fn begin(&mut self, observation: &Observation<'_>) -> Result<(), Error> {
        if self.suspended.is_empty() || observation.tracker.phases[self.phase].began.is_none() {
            return Ok(());
        }
        self.begun = std::mem::take(&mut self.suspended);
        self.begun
            .iter_mut()
            .filter_map(|replica| replica.process.as_mut())
            .try_for_each(|beside| beside.process.release())?;
        self.begun.iter_mut().try_for_each(|replica| replica.begin(observation))?;
        let released = self.begun.iter().map(|replica| replica.started.released);
        self.memory = MemoryReadings::since(released.min().unwrap_or_default());
        Ok(())
    }

    /// Polls all of them once: their output, and which of them have ended.
    ///
    /// # Errors
    /// As [`Replicas::begin`].
    pub(crate) fn turn(&mut self, observation: &mut Observation<'_>, buffer: &mut [u8]) -> Result<(), Error> {
        self.begin(observation)?;
        if self.over || self.begun.is_empty() {
            return Ok(());
        }
        for replica in self.begun.iter_mut().filter(|replica| replica.is_under_way()) {
            // The end first, so that all of the output exists when an end is found.
            let ended = replica.poll()?;
            replica.take(ended, buffer);
        }
        self.read_memory(observation.sampler);
        self.note_ends(observation);
        Ok(())
    }

    /// prony was busy for so long in this turn: those that run may have waited for that.
    pub(crate) fn note_busy(&mut self, busy: Nanos) {
        let under_way = self.begun.iter_mut().filter(|replica| replica.is_under_way());
        under_way.for_each(|replica| replica.streams.note_busy(busy));
    }

    /// What each has written.
    pub(crate) fn floods(&self) -> impl Iterator<Item = Flood> {
        self.begun.iter().map(|replica| {
            let (written, waited) = replica.streams.flood();
            Flood { who: format!("`{}`", replica.role()), written, waited }
        })
    }

    /// When memory that is due may be read.
    pub(crate) fn next(&self) -> Option<Instant> {
        let due = self.memory_due()?;
        Some(Instant::now() + due.since(monotonic()).to_duration())
    }

    /// When the next reading of memory may be taken, if one is due: of those that have reported something, and once
    /// more of all if something was reported since all were read in one go.
    fn memory_due(&self) -> Option<Nanos> {
        if self.begun.iter().any(Replica::is_unread) {
            return Some(self.memory.due());
        }
        let under_way = self.begun.iter().filter(|replica| replica.is_under_way()).count();
        (self.sum_unread && under_way > 0).then(|| self.memory.all_due(under_way)).flatten()
    }

    /// Reads the memory of those that have reported something, as soon as that takes a small part of the time; and of
    /// all that run, if there is time for that too, so that their sum is known.
    fn read_memory(&mut self, sampler: &Sampler) {
        let now = monotonic();
        self.sum_unread |= self.begun.iter().any(Replica::is_unread);
        if self.memory_due().is_none_or(|due| due > now) {
            return;
        }
        let under_way = self.begun.iter().filter(|replica| replica.is_under_way()).count();
        let whole = self.memory.all_due(under_way).is_some_and(|due| due <= now);
        let read = self.begun.iter().filter(|replica| replica.is_unread() || (whole && replica.is_under_way()));
        let roles: Vec<String> = read.map(Replica::role).collect();
        let before = thread_cpu();
        let snapshot = sampler.partial_snapshot(&roles);
        self.memory.note(&snapshot, thread_cpu().since(before), roles.len());
        self.sum_unread &= roles.len() < under_way;
        for replica in self.begun.iter_mut().filter(|replica| replica.is_unread()) {
            (replica.reported, replica.unread) = (Some(snapshot.clone()), false);
        }
    }

    /// Takes a snapshot if any has ended, and reports the end of the last.
    fn note_ends(&mut self, observation: &mut Observation<'_>) {
        let ended = |replica: &&Replica| replica.end.is_some();
        let snapshot = if self.begun.iter().all(|replica| replica.end.is_some()) {
            self.over = true;
            let ends = self.begun.iter().filter_map(|replica| replica.end()).map(|end| end.at);
            observation.replicas_ended(ends.max().unwrap_or_else(monotonic))
        } else if self.begun.iter().filter(ended).any(|replica| replica.until.is_none()) {
            match observation.snapshot_unless_costly() {
                Some(snapshot) => snapshot,
                None => return,
            }
        } else {
            return;
        };
        for replica in self.begun.iter_mut().filter(|replica| replica.end.is_some()) {
            replica.until.get_or_insert(snapshot);
        }
    }

    /// The program has ended by itself: replicas that are ending too are given a moment before they are killed.
    ///
    /// # Errors
    /// Where a supervisor cannot be understood.
    pub(crate) fn wind_up(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        let until = Instant::now() + WINDING_UP;
        loop {
            for replica in self.begun.iter_mut().filter(|replica| replica.is_under_way()) {
                let ended = replica.poll()?;
                replica.take(ended, buffer);
            }
            let sources: Vec<BorrowedFd<'_>> = self.sources().collect();
            let left = until.saturating_duration_since(Instant::now());
            if sources.is_empty() || left.is_zero() {
                return Ok(());
            }
            let mut fds: Vec<PollFd<'_>> =
                sources.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
            let time = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
            // A signal or an error shows in the next turn.
            let _ = poll(&mut fds, Some(&time));
        }
    }

    /// The program has ended: those that still run are ended too, and what is left of each.
    ///
    /// # Errors
    /// Where a supervisor cannot be understood, or what a runtime left cannot be read.
    pub(crate) fn finish(self, buffer: &mut [u8], sampler: &Sampler) -> Result<Replicated, Error> {
        let MemoryReadings { read: memory, pss, .. } = self.memory;
        let mut replicated = Replicated { phase: self.phase, memory, pss, ..Replicated::default() };
        let mut begun = self.begun;
        for replica in begun.iter_mut().filter(|replica| replica.end.is_none()) {
            replica.cut_off()?;
            replica.take(true, buffer);
        }
        let ends = begun.iter().filter_map(|replica| replica.end.as_ref());
        replicated.ended = last_end(ends).filter(|_| !self.over);
        for mut replica in begun {
            if let Some(beside) = replica.process.take() {
                let name = format!("`{}`", beside.role);
                beside.finish(&name, &mut replicated.finished, sampler)?;
            }
            replicated.all.extend(replica.ran()?);
        }
        Ok(replicated)
    }
}

/// Has one made and suspended.
fn suspend(ground: &Ground<'_>, spec: &ReplicasSpec, read: Option<&str>, number: u32) -> Result<Replica, Error> {
    let (context, outer) = (ground.context, ground.setting);
    let program = outer.program.replica(spec, number);
    let scratch = outer.scratch.join(&program.name);
    fs::create_dir(&scratch).map_err(Error::setup("make a replica's directory"))?;
    // The program and its replicas find each other's temporary files, as processes that know one another expect.
    let setting = Setting { tmp: outer.tmp.clone(), ..Setting::new(&program, &scratch, outer.directory.clone()) };
    let (mut launch, Ends { stdout, stderr, marks }) = setting.launch()?;
    if let Some(recorder) = ground.recorder {
        recorder.environment(&mut launch.env)?;
    }
    let probing = probe::install(&mut launch, &program, &[], &scratch)?;
    let means = (&*context.launcher, &*context.tracepoints);
    let process = Beside::suspend_replica(number, launch, means, ground.group, ground.sampler)?;
    let observe = ObserveSpec { read: read.map(str::to_owned), ..ObserveSpec::WHOLE };
    let phase = PhaseSpec {
        name: program.name.clone(),
        timed: true,
        action: Action::Observe(observe),
        background: None,
        limit: None,
    };
    Ok(Replica {
        number,
        commands: context.experiment.records_commands(),
        process: Some(process),
        started: Started::default(),
        end: None,
        streams: Streams::new([stdout, stderr, marks], read.is_some()),
        read_at: Nanos::ZERO,
        // The checker has compiled it before.
        read: read.and_then(|pattern| Regex::new(pattern).ok()),
        lines: Tracker::new(&[phase]),
        threads: Threads::default(),
        probing,
        first: 0,
        until: None,
        reported: None,
        unread: false,
    })
}

impl Replica {
    fn role(&self) -> String {
        replica_instance(self.number)
    }

    const fn is_under_way(&self) -> bool {
        self.end.is_none()
    }

    /// Whether its memory is to be read: it has reported something, and runs.
    const fn is_unread(&self) -> bool {
        self.is_under_way() && self.unread
    }

    /// Its end, if it had begun and is known.
    fn end(&self) -> Option<&End> {
        self.end.as_ref()?.end()
    }

    /// It was released.
    fn begin(&mut self, observation: &Observation<'_>) -> Result<(), Error> {
        self.first = observation.snapshots.len().saturating_sub(1);
        let Some(mut process) = self.process.take() else { return Ok(()) };
        match executed(process.begin(observation.sampler), self.commands, None)? {
            Ok(started) => (self.started, self.process) = (started, Some(process)),
            Err(why) => {
                self.started.released = monotonic();
                self.end = Some(ReplicaEnd::NotBegun(why));
            }
        }
        self.lines.start(self.started.released);
        Ok(())
    }

    /// Whether it has ended by now.
    fn poll(&mut self) -> Result<bool, Error> {
        let Some(Beside { process, .. }) = &mut self.process else { return Ok(true) };
        let end = process.wait(Some(Duration::ZERO))?;
        self.end = end.map(|end| ReplicaEnd::Ended(Box::new(end)));
        Ok(self.end.is_some())
    }

    /// Reads its streams once: whether a line reported something, and whether there may be more.
    fn read(&mut self, buffer: &mut [u8]) -> (bool, bool) {
        let now = monotonic();
        let Arrived { lines, marks, more } = self.streams.take(buffer, self.read_at);
        // Its marks belong to no phase: only those of the program do.
        for Line { text, .. } in marks {
            match probed(&text) {
                Some(line) => self.threads.take(&line),
                None => self.lines.unknown_mark(&text),
            }
        }
        if !more {
            self.read_at = now;
        }
        (noted(&lines, self.read.as_ref(), &mut self.lines), more)
    }

    /// Reads what it has written; everything that remains if it has `ended`.
    fn take(&mut self, ended: bool, buffer: &mut [u8]) {
        self.unread |= if ended { self.rest(buffer) } else { self.read(buffer).0 };
    }

    /// Reads what remains after its end. A last line without an end is whole then, though a process that was left behind may have the
    /// stream open.
    fn rest(&mut self, buffer: &mut [u8]) -> bool {
        let mut reported = false;
        for _ in 0..LAST_TURNS {
            let (said, more) = self.read(buffer);
            reported |= said;
            if !more {
                reported |= noted(&self.streams.cut_off(), self.read.as_ref(), &mut self.lines);
                break;
            }
        }
        reported
    }

    /// Ends it, unless it has ended by itself since the last check.
    fn cut_off(&mut self) -> Result<(), Error> {
        let Some(Beside { process, .. }) = &mut self.process else { return Ok(()) };
        let end = Box::new(process.kill_tree()?);
        let by_itself = end.killed.is_none() && end.status != Status::Signalled(Signal::KILL.as_raw());
        self.end = Some(if by_itself { ReplicaEnd::Ended(end) } else { ReplicaEnd::CutOff(end) });
        Ok(())
    }

    /// What was observed of it.
    fn ran(self) -> Result<Option<Ran>, Error> {
        let heap_aborts = self.probing.heap_aborts()?;
        let marks = self.lines.unknown_marks;
        let (Some(end), Some(lines)) = (self.end, self.lines.phases.into_iter().next()) else { return Ok(None) };
        Ok(Some(Ran {
            number: self.number,
            pid: self.started.pid,
            released: self.started.released,
            before: self.started.before,
            end,
            first: self.first,
            until: self.until,
            reported: self.reported,
            unread: self.unread,
            lines,
            marks,
            threads: self.threads,
            silent: self.probing.silent(),
            heap_aborts,
            output: self.streams.captured(),
        }))
    }
}

/// Takes lines with the numbers of their streams; whether one reported something.
fn noted(written: &[(usize, Line)], read: Option<&Regex>, lines: &mut Tracker) -> bool {
    written.iter().for_each(|(stream, line)| drop(lines.line(*stream, line)));
    read.is_some_and(|read| written.iter().any(|(_, line)| read.is_match(&line.text)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn last_line_of_a_replica_is_whole_though_another_process_has_the_stream_open() {
        let pattern = r"took (?<time>[\d.]+)";
        let observe = ObserveSpec { read: Some(pattern.to_owned()), ..ObserveSpec::WHOLE };
        let action = Action::Observe(observe);
        let phase = PhaseSpec { name: "replica.1".into(), timed: true, action, background: None, limit: None };
        let (mut lines, read) = (Tracker::new(&[phase]), Regex::new(pattern).unwrap());
        lines.start(Nanos::ZERO);
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"took 3.5").unwrap();
        // One read only: the pipe stays open.
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let mut streams = Streams::new([Some(std::os::fd::OwnedFd::from(reader).into()), None, None], true);
        assert_eq!(streams.take(&mut [0; 64], Nanos::ZERO).lines, []);
        assert!(noted(&streams.cut_off(), Some(&read), &mut lines));
        assert!(!noted(&streams.cut_off(), Some(&read), &mut lines), "once only");
        let reported = lines.phases[0].reported();
        assert_eq!(reported[&"time".parse().unwrap()].measured(), Some(&3.5e9));
        drop(writer);
    }
}
