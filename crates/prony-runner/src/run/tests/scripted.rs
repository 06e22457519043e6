//! A launcher that starts no process: a script says for each launch how the process begins, writes and ends.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prony_model::reading::Reading;
use prony_model::record::MemoryEvidence;
use prony_model::units::{Bytes, Nanos};
use prony_os::Error;
use prony_os::clock::monotonic;
use prony_os::launch::{
    Captured, CpuTime, End, Finished, KilledFor, Launch, LaunchSpec, Output, Process, Reusable, Started, Status, Usage,
};
use prony_os::limits::Group;
use rustix::process::Signal;

/// A pid that no process has: above the kernel's greatest.
const NOBODY: u32 = 5_000_000;

/// A process that runs until it is ended is waited for a few times only: its limits are short.
const MOST_WAITS: u32 = 50;

/// What prevents a process from beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its supervisor is killed before it is prepared.
    LostBefore,
    /// Its supervisor is killed while it is suspended.
    LostSuspended,
    /// Its program does not exist.
    NotExecuted,
    /// Its directory does not exist.
    NotEntered,
}

/// The script of one process.
#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) fault: Option<Fault>,
    /// From its begin to its end.
    pub(super) time: Nanos,
    /// Whether it ends by itself.
    pub(super) ends: bool,
    /// That it has ended is known only when it is to be killed.
    pub(super) unnoticed: bool,
    /// How it ends by itself; signals end it by themselves.
    pub(super) status: Status,
    /// Written to its standard output and to its standard error before it ends.
    pub(super) output: [String; 2],
    pub(super) memory: MemoryEvidence,
    /// How its supervisor ended, where that is its end.
    pub(super) lost: Option<&'static str>,
    /// Processes of its tree that continue to run.
    pub(super) leftover: u64,
}

impl Default for Act {
    fn default() -> Self {
        let memory = MemoryEvidence {
            limit: None,
            peak: Reading::Measured(Bytes::from_mib(1)),
            oom_kills: Reading::Measured(0),
            limit_reached: Reading::Measured(false),
            forks_refused: Reading::Measured(0),
            throttled: Reading::Measured(0),
            host_oom_kills: Reading::Measured(0),
        };
        Self {
            fault: None,
            time: Nanos::from_millis(100),
            ends: true,
            unnoticed: false,
            status: Status::Exited(0),
            output: [String::new(), String::new()],
            memory,
            lost: None,
            leftover: 0,
        }
    }
}

impl Act {
    /// It takes so many milliseconds.
    pub(super) fn takes(millis: u64) -> Self {
        Self { time: Nanos::from_millis(millis), ..Self::default() }
    }

    /// It ends like this.
    pub(super) fn ends_by(status: Status) -> Self {
        Self { status, ..Self::default() }
    }

    /// It does not begin.
    pub(super) fn fails(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }

    /// It writes this to its standard output.
    pub(super) fn writes(text: &str) -> Self {
        Self { output: [text.to_owned(), String::new()], ..Self::default() }
    }

    /// It runs until it is ended.
    pub(super) fn endless(self) -> Self {
        Self { ends: false, ..self }
    }
}

/// The requests to a scripted launcher.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// The words of each command, in the order of their launches.
    pub(super) commands: Vec<String>,
    /// Supervisors that were started for several processes.
    pub(super) reusable: u32,
}

type Script = dyn Fn(usize, &str) -> Act + Send + Sync;

/// Starts processes by a script, which is given how many were started before, and the words of the command.
#[derive(Clone)]
pub(super) struct Scripted {
    script: Arc<Script>,
    asked: Arc<Mutex<Asked>>,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.asked.fmt(f)
    }
}

impl Scripted {
    pub(super) fn new(script: impl Fn(usize, &str) -> Act + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), asked: Arc::default() }
    }

    /// All requests so far.
    pub(super) fn asked(&self) -> Asked {
        self.asked.lock().unwrap().clone()
    }

    fn prepare(&self, spec: LaunchSpec, reusable: Option<ScriptedSupervisor>) -> Result<Box<dyn Process>, Error> {
        let command = spec.command.to_string_lossy().into_owned();
        let words =
            [&command].into_iter().cloned().chain(spec.args.iter().map(|arg| arg.to_string_lossy().into_owned()));
        let words = words.collect::<Vec<_>>().join(" ");
        let mut asked = self.asked.lock().unwrap();
        let act = (self.script)(asked.commands.len(), &words);
        asked.commands.push(words);
        if act.fault == Some(Fault::LostBefore) {
            return Err(Error::SupervisorEnded { program: command });
        }
        let (readable, writer) = io::pipe().unwrap();
        Ok(Box::new(ScriptedProcess {
            command,
            act,
            spec,
            reusable,
            readable,
            writer: RefCell::new(Some(writer)),
            signalled: Cell::new(None),
            waits: 0,
            end: None,
        }))
    }
}

impl Launch for Scripted {
    fn start(&self, spec: LaunchSpec) -> Result<Box<dyn Process>, Error> {
        self.prepare(spec, None)
    }

    fn reusable(
        &self,
        group: Option<Group>,
        _: &[BorrowedFd<'_>],
        scratch: Option<&Path>,
    ) -> Result<Box<dyn Reusable>, Error> {
        self.asked.lock().unwrap().reusable += 1;
        let scratch = scratch.map(Path::to_path_buf);
        Ok(Box::new(ScriptedSupervisor { launcher: self.clone(), _owned: Owned { group, scratch } }))
    }
}

/// What a supervisor removes when it ends.
#[derive(Debug)]
struct Owned {
    group: Option<Group>,
    scratch: Option<PathBuf>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.group.iter().for_each(|group| group.remove().unwrap());
        let _ = self.scratch.iter().try_for_each(std::fs::remove_dir_all);
    }
}

#[derive(Debug)]
struct ScriptedSupervisor {
    launcher: Scripted,
    _owned: Owned,
}

impl Reusable for ScriptedSupervisor {
    fn spawner(&self) -> u32 {
        NOBODY
    }

    fn start(self: Box<Self>, spec: LaunchSpec) -> Result<Box<dyn Process>, Error> {
        self.launcher.clone().prepare(spec, Some(*self))
    }
}

#[derive(Debug)]
struct ScriptedProcess {
    command: String,
    act: Act,
    spec: LaunchSpec,
    reusable: Option<ScriptedSupervisor>,
    /// Readable once it has ended.
    readable: PipeReader,
    writer: RefCell<Option<PipeWriter>>,
    signalled: Cell<Option<i32>>,
    /// How often it was waited for without success.
    waits: u32,
    end: Option<End>,
}

impl ScriptedProcess {
    fn over(&mut self, status: Status, at: Nanos, killed: Option<KilledFor>) {
        self.writer.take();
        let used = CpuTime { user: Nanos::from_millis(3), system: Nanos::from_millis(1) };
        let captured = |output: &Output, text: &String| {
            let all = Captured { first: text.clone(), total: text.len() as u64, ..Captured::default() };
            matches!(output, Output::Capture { .. }).then_some(all)
        };
        let [stdout, stderr] = &self.act.output;
        self.end = Some(End {
            status,
            at,
            killed,
            cpu: Reading::Measured(used),
            usage: Reading::Measured(Usage { peak: Bytes::from_mib(2), ..Usage::default() }),
            leftover: self.act.leftover,
            memory: self.act.memory.clone(),
            stdout: captured(&self.spec.stdout, stdout),
            stderr: captured(&self.spec.stderr, stderr),
            lost: self.act.lost.map(str::to_owned),
        });
    }
}

impl Process for ScriptedProcess {
    fn suspended(&self) -> Option<u32> {
        self.reusable.is_none().then_some(NOBODY)
    }

    fn release(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn started(&mut self, _: &[BorrowedFd<'_>]) -> Result<Started, Error> {
        let (program, source) = (self.command.clone(), io::Error::from(io::ErrorKind::NotFound));
        match self.act.fault {
            None => {}
            Some(Fault::LostBefore | Fault::LostSuspended) => return Err(Error::SupervisorEnded { program }),
            Some(Fault::NotExecuted) => return Err(Error::Exec { program, source }),
            Some(Fault::NotEntered) => {
                return Err(Error::Directory { program, directory: self.spec.directory.clone(), source });
            }
        }
        let now = monotonic();
        let write = |output: &mut Output, text: &str| {
            if let Output::File(file) = std::mem::replace(output, Output::Null) {
                let mut file: File = file;
                file.write_all(text.as_bytes()).unwrap();
            }
        };
        write(&mut self.spec.stdout, &self.act.output[0]);
        write(&mut self.spec.stderr, &self.act.output[1]);
        if self.act.ends {
            self.over(self.act.status, now + self.act.time, None);
        }
        let before = Some((CpuTime::default(), Usage { peak: Bytes::from_kib(100), ..Usage::default() }));
        Ok(Started { pid: NOBODY, executable: None, released: now, executed: now, before })
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<End>, Error> {
        self.waits += u32::from(self.end.is_none() || self.act.unnoticed);
        assert!(timeout.is_some() && self.waits < MOST_WAITS, "nothing ends `{}`", self.command);
        if let (None, Some(signal)) = (&self.end, self.signalled.take()) {
            self.over(Status::Signalled(signal), monotonic(), None);
        }
        Ok(self.end.clone().filter(|_| !self.act.unnoticed))
    }

    fn signal(&self, signal: i32) -> Result<(), Error> {
        self.signalled.set(Some(signal));
        self.writer.take();
        Ok(())
    }

    fn kill_tree(&mut self) -> Result<End, Error> {
        if self.end.is_none() {
            self.over(Status::Signalled(Signal::KILL.as_raw()), monotonic(), Some(KilledFor::Asked));
        }
        Ok(self.end.clone().unwrap())
    }

    fn finish(mut self: Box<Self>) -> Result<(Finished, Option<Box<dyn Reusable>>), Error> {
        let leftover = self.act.leftover;
        let reusable = self.reusable.take().filter(|_| leftover == 0);
        if reusable.is_none() {
            self.spec.group.iter().for_each(|group| group.remove().unwrap());
        }
        let reusable = reusable.map(|supervisor| Box::new(supervisor) as Box<dyn Reusable>);
        Ok((Finished { killed: leftover, problems: Vec::new() }, reusable))
    }
}

impl AsFd for ScriptedProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}
