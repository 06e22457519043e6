//! Starts fixtures (test programs whose true values are known) and observes them in the same way as any subject.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prony_boundaries::settling::Settling;
use prony_experiment::plan;
use prony_model::catalog::{Anywhere, Overrides};
use prony_model::event::Log;
use prony_model::metric::MetricKey;
use prony_model::reading::Reading;
use prony_model::record::{MetricKeyText, ProcessSeries, TrialRecord};
use prony_model::spec::{Limits, SettleSpec};
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::fixture::{Done, Said, Step};
use prony_os::interrupt::Interrupt;
use prony_os::launch::{Input, Launch, LaunchSpec, Launcher, Output, Process, Scratch};
use prony_os::limits::Group;
use prony_os::sample::{Readings, Root, Sampler, Settings, Snapshot, Tracepoints};
use prony_os::settle::{Probe, SettleResult, TreeProbe};

use crate::error::Error;
use prony_runner::run_context::RunContext;
use prony_runner::{load, trial};

/// The role of every process of a fixture.
const ROLE: &str = "fixture";

/// A fixture that is silent for so long is stuck.
const SILENCE: Duration = Duration::from_secs(120);

/// How long a fixture may take to end after its input was closed.
const FAREWELL: Duration = Duration::from_secs(60);

/// What all fixtures share.
#[derive(Debug)]
pub struct Bench {
    /// Starts supervisors.
    pub launcher: Launcher,
    /// Sync calls are counted as far as the machine permits.
    pub tracepoints: Tracepoints,
    /// Where scratch directories are made.
    pub near: PathBuf,
    /// Wall times, in nanoseconds, of the same short work done over and over, where a fixture has recorded them.
    pub noise: OnceCell<Vec<f64>>,
}

impl Bench {
    /// Fixtures that put their files below `near`.
    pub fn new(near: &Path) -> Self {
        let launcher = Launcher::this_program(["supervise"]);
        Self { launcher, tracepoints: Tracepoints::open(true), near: near.to_path_buf(), noise: OnceCell::new() }
    }

    /// Starts so many fixtures, all observed by one sampler since before their first instruction, and waits until
    /// they are ready. The scratch directory is removed when the first of them is done with.
    ///
    /// # Errors
    /// Where the machine refuses what every subject needs.
    pub fn observe(&self, count: usize, scratch: &Scratch) -> Result<Observed, Error> {
        let groups: Vec<Group> = (0..count).map(|_| Group::create(&Limits::default())).collect::<Result<_, _>>()?;
        let counting = match &groups[..] {
            [group] => group.counting(),
            _ => None,
        };
        let settings = Settings { group: counting, ..Settings::default() };
        let sampler = Sampler::start(Vec::new(), settings).map_err(Error::setup("start the sampler"))?;
        let mut observed = Observed { sampler, children: Vec::new() };
        for group in groups {
            let child = self.child(&observed.sampler, scratch.path(), group)?;
            observed.children.push(child);
        }
        for child in &mut observed.children {
            child.ready()?;
        }
        Ok(observed)
    }

    /// Runs the one trial of an experiment, of which `text` is the file; `None` where it has no trial.
    ///
    /// # Errors
    /// Where the machine refuses what every trial needs.
    pub(super) fn trial(&self, name: &str, text: String) -> Result<Option<TrialRecord>, Error> {
        let experiment = load::text(text, name, &Overrides::default(), &Anywhere)?;
        let mut log = Log::default();
        let context = RunContext::new(experiment, &self.near, &[], Interrupt::default(), &mut log)?;
        let plan = plan::plan(&context.experiment);
        Ok(plan.first().map(|planned| trial::run(&context, planned, &mut log)).transpose()?)
    }

    fn child(&self, sampler: &Sampler, dir: &Path, group: Group) -> Result<Child, Error> {
        let (ours, theirs) = UnixStream::pair().map_err(Error::setup("make a socket"))?;
        ours.set_read_timeout(Some(SILENCE)).map_err(Error::setup("make a socket"))?;
        let mut process = self.launcher.start(spec(theirs, dir, group).map_err(Error::setup("make a socket"))?)?;
        if let Some(pid) = process.suspended() {
            sampler.watch(Root::subject(pid, ROLE));
            sampler.count_syncs(ROLE, self.tracepoints.follow(pid));
        }
        process.release()?;
        process.started(&[])?;
        Ok(Child { process, said: BufReader::new(ours) })
    }
}

/// What was read of a phase under this key.
pub(super) fn reading(readings: &Readings, key: MetricKey) -> Reading<f64> {
    readings.get(&MetricKeyText(key)).cloned().unwrap_or_else(no_reading)
}

/// A phase has no reading where it was to have one.
pub(super) fn no_reading() -> Reading<f64> {
    Reading::failed("the phase has no such reading")
}

fn spec(socket: UnixStream, dir: &Path, group: Group) -> io::Result<LaunchSpec> {
    let output: OwnedFd = socket.try_clone()?.into();
    let mut spec = LaunchSpec::new("/proc/self/exe", dir);
    spec.args = vec!["fixture".into()];
    spec.stdin = Input::File(File::from(OwnedFd::from(socket)));
    spec.stdout = Output::File(File::from(output));
    spec.group = Some(group);
    spec.scratch = vec![dir.to_path_buf()];
    Ok(spec)
}

/// One fixture's process.
#[derive(Debug)]
struct Child {
    process: Box<dyn Process>,
    said: BufReader<UnixStream>,
}

impl Child {
    fn ready(&mut self) -> Result<(), Error> {
        match self.hear()? {
            Said::Ready => Ok(()),
            other => Err(out_of_turn(&other)),
        }
    }

    fn send(&mut self, step: &Step) -> Result<(), Error> {
        let line = serde_json::to_string(step).map_err(|source| Error::Json { what: "a step", source })?;
        writeln!(self.said.get_mut(), "{line}").map_err(Error::setup("send a step to a fixture"))
    }

    fn done(&mut self) -> Result<Done, Error> {
        match self.hear()? {
            Said::Done(done) => Ok(done),
            other => Err(out_of_turn(&other)),
        }
    }

    fn hear(&mut self) -> Result<Said, Error> {
        let mut line = String::new();
        let read = self.said.read_line(&mut line).and_then(|length| match length {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the fixture ended")),
            _ => Ok(serde_json::from_str(&line)?),
        });
        read.map_err(Error::setup("read the result of a fixture"))
    }
}

fn out_of_turn(said: &Said) -> Error {
    Error::setup("run a fixture")(io::Error::other(format!("unexpected message {said:?}")))
}

/// Fixtures under observation. Killed when dropped.
#[derive(Debug)]
pub struct Observed {
    sampler: Sampler,
    children: Vec<Child>,
}

/// A burst of work as the watch saw it.
#[derive(Debug)]
pub struct Watched {
    /// When the watch began, by the shared clock.
    pub began: Nanos,
    /// What it found.
    pub result: SettleResult,
    /// What the fixture itself says of the step.
    pub truth: Done,
}

impl Observed {
    /// Reads everything now.
    pub fn snapshot(&self) -> Snapshot {
        self.sampler.snapshot()
    }

    /// Has every fixture do the step, all at once, and waits until all have.
    ///
    /// # Errors
    /// Where one cannot.
    pub fn step(&mut self, step: &Step) -> Result<Vec<Done>, Error> {
        self.children.iter_mut().try_for_each(|child| child.send(step))?;
        self.children.iter_mut().map(Child::done).collect()
    }

    /// Begins to watch, has the one fixture do the step after the first poll, and watches it and the store until both are
    /// quiet.
    ///
    /// # Errors
    /// Where it cannot do the step.
    pub fn settle(&mut self, step: &Step, store: &Path, spec: &SettleSpec) -> Result<Watched, Error> {
        let Self { sampler, children } = self;
        let [child] = &mut children[..] else {
            return Err(Error::setup("watch fixtures")(io::Error::other("only one fixture can be watched at a time")));
        };
        let mut tree = TreeProbe::new(sampler, Some(store.to_path_buf()));
        let mut settling = Settling::default();
        settling.begin(0, *spec, (monotonic(), tree.poll()));
        child.send(step)?;
        while let Some(next) = settling.next() {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            settling.due(false, &mut tree);
        }
        let settled = settling.over.remove(&0);
        let settled =
            settled.ok_or_else(|| Error::setup("watch fixtures")(io::Error::other("the watch found nothing")))?;
        Ok(Watched { began: settled.began, result: settled.result, truth: child.done()? })
    }

    /// Lets all end, and hands over what was sampled.
    ///
    /// # Errors
    /// Where one cannot be ended.
    pub fn end(self) -> Result<Vec<ProcessSeries>, Error> {
        for Child { mut process, said } in self.children {
            // It ends when there are no more steps.
            drop(said);
            if process.wait(Some(FAREWELL))?.is_none() {
                process.kill_tree()?;
            }
            process.finish()?;
        }
        Ok(self.sampler.finish().series)
    }
}
