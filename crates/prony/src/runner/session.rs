//! A worker from its launch to its end: the runner leads, one phase at a time.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use prony_model::event::Event;
use prony_model::protocol::{Failure, FromWorker, PhaseReport, ToWorker, VERSION};
use prony_model::reading::Reading;
use prony_model::record::EffectiveStore;
use prony_model::spec::{Action, Amount, PhaseSpec, SettleSpec, TrialSpec};
use prony_model::trial::PlannedTrial;
use prony_model::units::Nanos;
use prony_os::clock::{SystemClock, monotonic};
use prony_os::launch::{End, Finished, Input, LaunchSpec, Running, Scratch};
use prony_os::limits::Group;
use prony_os::sample::{Root, Sampled, Sampler, Settings, Snapshot};
use prony_os::settle::{self, SettleResult, TreeProbe};

use super::channel::{Channel, Received};
use super::lab::Lab;
use super::observer::Observer;
use super::recorder::Recorder;
use super::reused::counts_cpu;
use crate::error::Error;

/// How often a wait looks whether the user asked to stop.
const LOOK: Duration = Duration::from_millis(100);

/// How long a worker may take to close its store and be gone, where no `close` phase and no limit says otherwise.
const FAREWELL: Duration = Duration::from_secs(60);

/// What one phase left, as far as it got.
pub struct Visit {
    /// Everything known at its begin.
    pub begin: Snapshot,
    /// Everything known at its end; of the trial's end where it did not end.
    pub end: Option<Snapshot>,
    /// When the worker began and ended it, by the shared clock.
    pub span: (Nanos, Nanos),
    /// What the worker tells, where it got to the end.
    pub report: Option<PhaseReport>,
    /// What the watch found, in a `settle` phase.
    pub settled: Option<SettleResult>,
}

/// Why a trial ended before its last phase did.
#[derive(Debug)]
pub enum Stop {
    /// A declared time ran out.
    Deadline,
    /// The user asked.
    Interrupted,
    /// The worker is gone, or its socket is.
    Gone,
    /// The worker says what failed.
    Failed {
        /// What kind of end.
        failure: Failure,
        /// Its message.
        message: String,
    },
    /// What the worker said is not of the protocol.
    Garbled(String),
}

/// A worker under observation.
pub struct Session<'a> {
    lab: &'a Lab<'a>,
    spec: &'a TrialSpec,
    position: u32,
    scratch: Scratch,
    channel: Channel,
    running: Running,
    sampler: Sampler,
    deadline: Option<Instant>,
    recorder: Option<&'a mut Recorder>,
    /// Engine, version and settings as the worker reports them; `None` before it does.
    pub effective: Option<Box<EffectiveStore>>,
    /// The phases that began, in order.
    pub visits: Vec<Visit>,
}

/// What is left when the worker is gone and its tree with it.
pub struct Closed {
    /// The phases that began, in order.
    pub visits: Vec<Visit>,
    /// Engine, version and settings as the worker reported them; `None` where it did not.
    pub effective: Option<Box<EffectiveStore>>,
    /// Everything sampled.
    pub sampled: Sampled,
    /// How the worker ended.
    pub end: End,
    /// What ending the tree took.
    pub finished: Finished,
    /// It was told to close its store and end, and had not by the end of our patience.
    pub lingered: bool,
}

impl<'a> Session<'a> {
    /// Starts a worker: held, observed, released, planned, and its store open; or what stopped it.
    ///
    /// # Errors
    /// Where the machine refuses what every trial needs.
    pub fn launch(
        lab: &'a Lab<'a>,
        spec: &'a TrialSpec,
        trial: &PlannedTrial,
        mut recorder: Option<&'a mut Recorder>,
    ) -> Result<Self, Error> {
        let scratch = Scratch::create(&lab.near)?;
        let group = Group::create(&spec.limits)?;
        let counting = group.directories().into_iter().find(|dir| counts_cpu(dir)).map(Path::to_path_buf);
        let (ours, theirs) = UnixStream::pair().map_err(setup("make a socket"))?;
        let held = lab.launcher.start(worker_spec(theirs.into(), scratch.path(), group))?;
        let settings = Settings {
            hertz: lab.experiment.observe().hertz,
            group: counting,
            store: Reading::Measured(scratch.path().to_path_buf()),
            device: Reading::Measured(scratch.path().to_path_buf()),
            ..Settings::default()
        };
        let sampler =
            Sampler::start(vec![Root::subject(held.pid(), "worker")], settings).map_err(setup("start the sampler"))?;
        sampler.count_syncs("worker", lab.tracepoints.follow(held.pid()));
        if let Some(recorder) = &mut recorder {
            recorder.attach(&[held.pid()]);
        }
        let running = held.release()?;
        let deadline = spec.limits.trial.map(|limit| Instant::now() + limit.to_duration());
        let mut channel = Channel::new(ours);
        let plan = ToWorker::Plan {
            version: VERSION,
            spec: Box::new(spec.clone()),
            seed: trial.seed,
            dir: scratch.path().to_string_lossy().into_owned(),
            throughput: lab.experiment.observe().throughput,
        };
        channel.send(&plan);
        let position = trial.position;
        let (effective, visits) = (None, Vec::new());
        Ok(Self { lab, spec, position, scratch, channel, running, sampler, deadline, recorder, effective, visits })
    }

    /// Where the store is.
    pub fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// The worker's pid.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Waits until the store is open.
    ///
    /// # Errors
    /// What stopped it.
    pub fn ready(&mut self) -> Result<(), Stop> {
        match self.wait(self.deadline, &mut |_| {})? {
            FromWorker::Ready { version: VERSION, effective, .. } => {
                self.effective = Some(effective);
                Ok(())
            }
            FromWorker::Ready { version, .. } => {
                Err(Stop::Garbled(format!("the worker speaks version {version} of the protocol, this prony {VERSION}")))
            }
            other => Err(Stop::Garbled(format!("the worker said {other:?} before it was ready"))),
        }
    }

    /// Runs one phase.
    ///
    /// # Errors
    /// What stopped it; the visit is kept as far as it got.
    pub fn phase(&mut self, index: usize, observer: &mut dyn Observer) -> Result<(), Stop> {
        let spec = self.spec;
        let phase = &spec.phases[index];
        let (position, name) = (self.position, phase.name.clone());
        observer.event(&Event::PhaseBegan { position, phase: name.clone() });
        let begin = self.sampler.edge();
        let now = monotonic();
        self.visits.push(Visit { begin, end: None, span: (now, now), report: None, settled: None });
        let outcome = match &phase.action {
            Action::Settle(settle) => self.settle(settle, phase),
            _ => self.drive(index, phase, observer),
        };
        let end = self.sampler.edge();
        let Some(visit) = self.visits.last_mut() else { return outcome };
        visit.end = Some(end);
        if outcome.is_err() {
            visit.span.1 = monotonic();
        }
        if outcome.is_ok() {
            let time = visit.report.as_ref().map_or(visit.span.1.since(visit.span.0), |report| report.time);
            observer.event(&Event::PhaseEnded { position, phase: name, time });
        }
        outcome
    }

    fn drive(&mut self, index: usize, phase: &PhaseSpec, observer: &mut dyn Observer) -> Result<(), Stop> {
        let deadline = self.phase_deadline(phase);
        let total = total_operations(self.spec, phase);
        let (position, name) = (self.position, phase.name.clone());
        self.channel.send(&ToWorker::Phase { index });
        loop {
            let mut progress = |operations| {
                observer.event(&Event::Progress { position, phase: name.clone(), operations, total });
            };
            match self.wait(deadline, &mut progress)? {
                FromWorker::Began { at, .. } => self.visit(|visit| visit.span = (at, at)),
                FromWorker::Ended { at, report, .. } => {
                    if let Some(effective) = &report.effective {
                        self.effective = Some(Box::new(effective.clone()));
                    }
                    self.visit(|visit| {
                        visit.span.1 = at;
                        visit.report = Some(*report);
                    });
                    return Ok(());
                }
                other => return Err(Stop::Garbled(format!("the worker said {other:?} during a phase"))),
            }
        }
    }

    fn visit(&mut self, change: impl FnOnce(&mut Visit)) {
        if let Some(visit) = self.visits.last_mut() {
            change(visit);
        }
    }

    fn settle(&mut self, settle: &SettleSpec, phase: &PhaseSpec) -> Result<(), Stop> {
        let deadline = self.phase_deadline(phase);
        let mut probe = TreeProbe::new(&self.sampler, Some(self.dir().to_path_buf()));
        let mut why = None;
        let stop = || {
            why = self.asked_to_stop(deadline);
            why.is_some()
        };
        match settle::watch(&mut probe, settle, &SystemClock, stop) {
            Some(settled) => {
                self.visit(|visit| {
                    visit.span.1 = monotonic();
                    visit.settled = Some(settled);
                });
                Ok(())
            }
            None => Err(why.unwrap_or(Stop::Interrupted)),
        }
    }

    fn asked_to_stop(&self, deadline: Option<Instant>) -> Option<Stop> {
        if self.lab.interrupt.asked() {
            return Some(Stop::Interrupted);
        }
        deadline.is_some_and(|deadline| Instant::now() >= deadline).then_some(Stop::Deadline)
    }

    fn phase_deadline(&self, phase: &PhaseSpec) -> Option<Instant> {
        let limit = phase.limit.or(self.spec.limits.phase).map(|limit| Instant::now() + limit.to_duration());
        [limit, self.deadline].into_iter().flatten().min()
    }

    /// Waits for a word other than progress; looks now and then whether the user asked to stop.
    fn wait(&mut self, deadline: Option<Instant>, progress: &mut dyn FnMut(u64)) -> Result<FromWorker, Stop> {
        loop {
            if let Some(stop) = self.asked_to_stop(deadline) {
                return Err(stop);
            }
            let now = Instant::now();
            let look = deadline.map_or(now + LOOK, |deadline| deadline.min(now + LOOK));
            match self.channel.receive(look) {
                Received::Nothing => {}
                Received::Closed => return Err(Stop::Gone),
                Received::Garbled(what) => return Err(Stop::Garbled(what)),
                Received::Message(message) => match *message {
                    FromWorker::Progress { operations, .. } => progress(operations),
                    FromWorker::Failed { failure, message, .. } => return Err(Stop::Failed { failure, message }),
                    other => return Ok(other),
                },
            }
        }
    }

    /// Ends the worker, kindly where all went well, and its whole tree in any case.
    ///
    /// # Errors
    /// Where the supervisor cannot be spoken with.
    pub fn close(mut self, kindly: bool) -> Result<Closed, Error> {
        if kindly {
            self.channel.send(&ToWorker::Stop);
        }
        let farewell = if kindly { FAREWELL } else { Duration::from_millis(500) };
        let (end, killed) = match self.running.wait(Some(farewell))? {
            Some(end) => (end, false),
            None => (self.running.kill_tree()?, true),
        };
        let sampled = self.sampler.finish();
        let finished = self.running.finish()?;
        if let Some(recorder) = &mut self.recorder {
            recorder.collect();
        }
        self.scratch.remove()?;
        let lingered = kindly && killed;
        Ok(Closed { visits: self.visits, effective: self.effective, sampled, end, finished, lingered })
    }
}

fn worker_spec(socket: OwnedFd, dir: &Path, group: Group) -> LaunchSpec {
    // The supervisor is this same binary, so its own image is the worker's too, even if the file has been replaced.
    let mut spec = LaunchSpec::new("/proc/self/exe", dir);
    spec.args = vec!["worker".into()];
    // The socket is its standard input: a descriptor that safe code can take over.
    spec.stdin = Input::File(File::from(socket));
    spec.group = Some(group);
    spec.scratch = vec![dir.to_path_buf()];
    spec
}

fn setup(doing: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Setup { doing, source }
}

/// How many operations a phase will do, where that is known beforehand.
fn total_operations(spec: &TrialSpec, phase: &PhaseSpec) -> Option<u64> {
    match phase.action.ops()?.amount {
        Amount::Records => spec.data.as_ref().map(|data| data.records),
        Amount::Count(count) => Some(count),
        Amount::Duration(_) => None,
    }
}
