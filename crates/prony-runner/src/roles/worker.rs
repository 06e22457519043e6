//! The engine worker of a store, as a source of boundaries: the runner commands it to run one phase after another.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use prony_boundaries::channel::{Channel, Received};
use prony_boundaries::observation::Observation;
use prony_engines::failure::has_no_room;
use prony_model::protocol::{Failure, FromWorker, ToWorker, VERSION};
use prony_model::spec::{Amount, PhaseSpec, TrialSpec};
use prony_model::trial::PlannedTrial;
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::launch::{Input, LaunchSpec, Status};
use rustix::param::page_size;
use rustix::process::Signal;

use crate::error::Error;
use crate::run_context::RunContext;
use crate::watched::report::{Fault, Report};

/// How long a worker may take to close its store and end, if no `close` phase limits it.
const CLOSING: Duration = Duration::from_secs(60);

/// How long a worker that failed may take to end by itself, so that its own exit status is known.
const FAILING: Duration = Duration::from_millis(500);

/// Messages that are read in one go: however much a worker writes, limits and interrupts are checked in between.
const MESSAGES: usize = 256;

/// A worker under way.
pub(crate) struct Worker<'a> {
    spec: &'a TrialSpec,
    channel: Channel,
    /// What it is to open and run.
    plan: ToWorker,
    /// The phase that begins next.
    next: usize,
    /// Nothing more is read from it: its end of the socket is closed, or what it wrote is a fault.
    closed: bool,
    /// There may be more to read than was read in one go.
    more: bool,
    /// Until when it is to have ended.
    until: Option<Instant>,
    /// State of the worker beside its phases.
    pub report: Report,
}

impl<'a> Worker<'a> {
    /// The launch of a worker whose store is made in `directory`, and the runner's end of its socket.
    ///
    /// # Errors
    /// Where no socket can be made.
    pub(crate) fn prepare(
        context: &RunContext<'_>,
        trial: &PlannedTrial,
        spec: &'a TrialSpec,
        directory: &Path,
    ) -> Result<(LaunchSpec, Self), Error> {
        let failed = |source| Error::Setup { doing: "make a socket", source };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        // The supervisor is this same binary, so its own image is the worker's too, even if the file has been replaced.
        let mut launch = LaunchSpec::new("/proc/self/exe", directory);
        launch.args = vec!["worker".into()];
        // The socket is its standard input: a descriptor that safe code can take over.
        launch.stdin = Input::File(File::from(OwnedFd::from(theirs)));
        launch.scratch = vec![directory.to_path_buf()];
        let plan = ToWorker::Plan {
            version: VERSION,
            spec: Box::new(spec.clone()),
            seed: trial.seed,
            dir: directory.to_string_lossy().into_owned(),
            throughput: context.experiment.observe().throughput,
        };
        let channel = Channel::new(ours);
        let worker =
            Self { spec, channel, plan, next: 0, closed: false, more: false, until: None, report: Report::default() };
        Ok((launch, worker))
    }

    /// Sends it the plan: it opens its store from here on.
    pub(crate) fn plan(&mut self) {
        self.channel.send(&self.plan);
    }

    /// The descriptor to wait for; nothing once nothing more is read from it.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        (!self.closed).then(|| self.channel.as_fd())
    }

    /// Whether there may be more to read at once.
    pub(crate) const fn has_more(&self) -> bool {
        self.more && !self.closed
    }

    /// Reads nothing more from the worker: the trial is over, and what the worker writes later is not part of it.
    pub(crate) const fn leave(&mut self) {
        self.closed = true;
    }

    /// Until when it must have ended, if it is to end.
    pub(crate) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Whether it was asked to close its store and end.
    pub(crate) const fn is_stopping(&self) -> bool {
        self.report.asked_to_stop.is_some()
    }

    /// Reads what it has written, and sends the next commands.
    pub(crate) fn turn(&mut self, observation: &mut Observation<'_>) {
        self.more = true;
        for _ in 0..MESSAGES {
            if self.closed {
                break;
            }
            match self.channel.receive() {
                Received::Nothing => {
                    self.more = false;
                    break;
                }
                Received::Closed if self.is_stopping() => self.leave(),
                Received::Closed => self.fail(Fault::Closed),
                Received::Garbled(what) => self.failed(Fault::Garbled(what), observation),
                Received::Message(message) => self.heard(*message, observation),
            }
        }
        self.lead(observation);
    }

    /// The worker has failed and may still run: what it does from here on is not part of the phase.
    fn failed(&mut self, fault: Fault, observation: &mut Observation<'_>) {
        observation.cut();
        self.fail(fault);
    }

    /// Nothing after the first fault counts.
    fn fail(&mut self, fault: Fault) {
        self.leave();
        self.report.fault = Some(fault);
        self.until.get_or_insert(Instant::now() + FAILING);
    }

    /// What is known of it in the end, while its store is still there.
    pub(crate) fn ended(mut self, status: Status) -> Report {
        if let (ToWorker::Plan { dir, .. }, None | Some(Fault::Closed)) = (&self.plan, &self.report.fault) {
            self.report.fault = disk_full(status, Path::new(dir)).or(self.report.fault);
        }
        self.report
    }

    fn heard(&mut self, message: FromWorker, observation: &mut Observation<'_>) {
        let running = self.next.checked_sub(1).filter(|index| observation.tracker.phases[*index].is_open());
        // A phase that waits for quiet ends without the worker.
        let asked = running.filter(|index| self.spec.phases[*index].action.settle().is_none());
        match message {
            FromWorker::Failed { failure, message, .. } => self.failed(Fault::Failed { failure, message }, observation),
            FromWorker::Ready { version: VERSION, effective, .. } if self.report.effective.is_none() => {
                self.report.effective = Some(effective);
            }
            FromWorker::Ready { version, .. } if version != VERSION => {
                let why =
                    format!("the worker uses version {version} of the protocol, and this prony uses version {VERSION}");
                self.failed(Fault::Garbled(why), observation);
            }
            FromWorker::Progress { index, operations } if asked == Some(index) => {
                observation.progress(index, operations, total_operations(self.spec, &self.spec.phases[index]));
            }
            // One more of a phase that has ended.
            FromWorker::Progress { .. } => {}
            FromWorker::Began { index, at } if asked == Some(index) => {
                observation.tracker.phases[index].note_begin(at, Nanos::ZERO);
            }
            FromWorker::Ended { index, at, report } if asked == Some(index) => {
                if let Some(effective) = &report.effective {
                    self.report.effective = Some(Box::new(effective.clone()));
                }
                observation.reported(index, at, report);
            }
            other => {
                let phase = running
                    .map_or_else(|| "no phase".to_owned(), |index| format!("phase `{}`", self.spec.phases[index].name));
                self.failed(Fault::Garbled(format!("the worker sent {other:?} in {phase}")), observation);
            }
        }
    }

    /// Begins the next phase if none is running, or ends the worker if there is none. A phase that waits for quiet ends
    /// without the worker, which is idle meanwhile.
    pub(crate) fn lead(&mut self, observation: &mut Observation<'_>) {
        let open = self.next.checked_sub(1).is_some_and(|index| observation.tracker.phases[index].is_open());
        if self.report.effective.is_none() || self.report.fault.is_some() || self.is_stopping() || open {
            return;
        }
        let index = self.next;
        let Some(phase) = self.spec.phases.get(index) else {
            self.report.asked_to_stop = Some(monotonic());
            self.until = Some(Instant::now() + CLOSING);
            self.channel.send(&ToWorker::Stop);
            return;
        };
        self.next += 1;
        observation.lead(index);
        if phase.action.settle().is_none() {
            self.channel.send(&ToWorker::Phase { index });
        }
    }
}

/// Of a store that writes through a map of its file, as LMDB does with `write_map`, a full disk refuses no call: the kernel
/// ends the worker by SIGBUS. A map that reaches beyond its file ends it by the same signal, so that the disk counts as full
/// only if there is no room for another page.
fn disk_full(status: Status, directory: &Path) -> Option<Fault> {
    let is_bus = matches!(status, Status::Signalled(signal) if signal == Signal::BUS.as_raw());
    let message = "the worker was ended by signal 7 (SIGBUS) when it wrote to its memory-mapped store, whose file \
                   system is full (hint: free space there)";
    let fault = || Fault::Failed { failure: Failure::DiskFull, message: message.to_owned() };
    (is_bus && has_no_room(directory, page_size() as u64)).then(fault)
}

/// How many operations a phase will do, where that is known beforehand.
fn total_operations(spec: &TrialSpec, phase: &PhaseSpec) -> Option<u64> {
    match phase.action.ops()?.amount {
        Amount::Records => spec.data.as_ref().map(|data| data.records),
        Amount::Count(count) => Some(count),
        Amount::Duration(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{BufRead, BufReader, Write};

    use prony_model::event::Log;
    use prony_model::protocol::PhaseReport;
    use prony_model::record::EffectiveStore;
    use prony_model::spec::{Action, Durability, Limits, SettleSpec, StoreSpec, Subject};
    use prony_os::sample::{Root, Sampler, Settings};

    use super::*;
    use crate::figures::span::tests::ms;

    #[test]
    fn signal_of_a_map_is_no_full_disk_where_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let bus = Status::Signalled(Signal::BUS.as_raw());
        assert!(disk_full(bus, dir.path()).is_none() && disk_full(bus, &dir.path().join("absent")).is_none());
    }

    /// A trial of these phases under a scripted worker, whose end of the socket is given to `script` beside what turns the
    /// runner's loop once.
    fn scripted(
        actions: &[Action],
        script: impl FnOnce(&mut Worker<'_>, &mut Observation<'_>, &mut UnixStream),
    ) -> (Report, usize) {
        let store = StoreSpec::of("memory");
        let phase = |(at, action): (usize, &Action)| PhaseSpec {
            name: format!("p{at}"),
            timed: true,
            action: action.clone(),
            limit: None,
        };
        let phases = actions.iter().enumerate().map(phase).collect();
        let spec = TrialSpec { subject: Subject::Store(store), data: None, phases, limits: Limits::default() };
        let sampler = Sampler::start(vec![Root::subject(std::process::id(), "worker")], Settings::default()).unwrap();
        let mut log = Log::default();
        let mut observation = Observation::new(&spec, &sampler, "/nowhere".into(), 0, &mut log);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (channel, report) = (Channel::new(ours), Report::default());
        let mut worker = Worker {
            spec: &spec,
            channel,
            plan: ToWorker::Stop,
            next: 0,
            closed: false,
            more: false,
            until: None,
            report,
        };
        script(&mut worker, &mut observation, &mut theirs);
        (worker.report, observation.snapshots.len())
    }

    fn say(to: &mut UnixStream, message: &FromWorker) {
        writeln!(to, "{}", serde_json::to_string(message).unwrap()).unwrap();
    }

    fn ready() -> FromWorker {
        let effective = EffectiveStore {
            engine: "memory".into(),
            version: "1".into(),
            library: "l".into(),
            durability: Durability::None,
            promise: None,
            settings: BTreeMap::new(),
            in_force: None,
            idiom: String::new(),
        };
        FromWorker::Ready { version: VERSION, effective: Box::new(effective), open: Nanos::ZERO }
    }

    fn ended(index: usize, at: u64) -> FromWorker {
        FromWorker::Ended { index, at: ms(at), report: Box::new(PhaseReport { time: ms(1), ..PhaseReport::default() }) }
    }

    #[test]
    fn worker_is_led_from_phase_to_phase_to_its_end() {
        let (report, snapshots) = scripted(&[Action::Close, Action::Close], |worker, observation, theirs| {
            worker.turn(observation);
            assert!(observation.tracker.phases[0].began.is_none(), "it is not ready");
            say(theirs, &ready());
            worker.turn(observation);
            say(theirs, &FromWorker::Began { index: 0, at: ms(10) });
            say(theirs, &ended(0, 30));
            worker.turn(observation);
            let [first, second] = &observation.tracker.phases[..] else { panic!() };
            assert_eq!((first.began, first.ended), (Some(ms(10)), Some(ms(30))));
            assert!(first.report.is_some() && second.began.is_some() && second.ended.is_none());
            assert_eq!(observation.end[0], observation.begin[1], "one snapshot between two phases");
            assert!(!worker.is_stopping());
            say(theirs, &ended(1, 50));
            worker.turn(observation);
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            worker.turn(observation);
            assert!(worker.source().is_none() && !worker.has_more(), "nobody waits for a closed socket");
            let sent = BufReader::new(theirs).lines().take(3).map(|line| line.unwrap()).collect::<Vec<_>>();
            assert_eq!(sent.iter().map(|line| line.contains("stop")).collect::<Vec<_>>(), [false, false, true]);
        });
        assert!(report.asked_to_stop.is_some() && report.fault.is_none() && report.effective.is_some());
        assert_eq!(snapshots, 4, "suspended, begin of the first phase, between both, end of the second");
    }

    #[test]
    fn worker_that_floods_leaves_the_runner_time_for_its_limits() {
        scripted(&[Action::Close], |worker, observation, theirs| {
            say(theirs, &ready());
            worker.turn(observation);
            // In one write: a socket takes few small ones.
            let line = serde_json::to_string(&FromWorker::Progress { index: 0, operations: 5 }).unwrap() + "\n";
            theirs.write_all(line.repeat(MESSAGES + 10).as_bytes()).unwrap();
            worker.turn(observation);
            assert!(worker.has_more(), "lines that were read and not taken wake nobody");
            worker.turn(observation);
            assert!(!worker.has_more());
        });
    }

    #[test]
    fn worker_that_breaks_the_protocol_is_read_no_further() {
        let settle = Action::Settle(SettleSpec { quiet: Nanos::from_secs(600), ..SettleSpec::default() });
        for (action, said) in [
            (Action::Close, r#"{"did":"nonsense"}"#.to_owned()),
            (Action::Close, serde_json::to_string(&ended(7, 30)).unwrap()),
            (settle, serde_json::to_string(&ended(0, 30)).unwrap()),
        ] {
            let (report, _) = scripted(&[action], |worker, observation, theirs| {
                say(theirs, &ready());
                worker.turn(observation);
                writeln!(theirs, "{said}").unwrap();
                say(theirs, &ended(0, 40));
                worker.turn(observation);
                assert!(
                    observation.tracker.phases[0].ended.is_none() && observation.cut.is_some(),
                    "what follows a fault does not count"
                );
                assert!(worker.source().is_none() && worker.until().is_some());
            });
            assert!(matches!(report.fault, Some(Fault::Garbled(_))), "{said}: {:?}", report.fault);
        }
    }

    #[test]
    fn worker_that_closes_its_socket_early_is_a_fault() {
        let (report, _) = scripted(&[Action::Close], |worker, observation, theirs| {
            say(theirs, &ready());
            theirs.shutdown(std::net::Shutdown::Both).unwrap();
            worker.turn(observation);
            assert!(observation.tracker.phases[0].ended.is_none());
        });
        assert_eq!(report.fault, Some(Fault::Closed));
    }
}
