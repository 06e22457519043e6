//! The worker: a process that hosts one store, or the load generator. The worker reads one plan, runs each phase when the runner requests it,
//! and reports what it measured. It is a separate process so that its memory is that of the store and not of the
//! runner.

mod socket;

use std::any::Any;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use prony_engines::phases::{Acknowledged, CrashPlan, Machine, Plan, Queue};
use prony_engines::registry;
use prony_http::Trial;
use prony_model::crash::{CrashStep, CutKind};
use prony_model::link::{Link, LinkError, Progress};
use prony_model::protocol::{Failure, FromWorker, ToWorker, VERSION};
use prony_model::reading::{Reading, Why};
use prony_model::spec::Subject;
use prony_model::units::{Bytes, Nanos};
use prony_os::sample::parse;
use prony_os::{cache, sync_calls};

use socket::{Socket, report_progress};

/// Runs a worker over this socket until the runner stops it: exit code 0. If the trial failed, the exit code is 1 if
/// the failure was reported to the runner, and 2 if it could not be reported.
///
/// `shared` is the descriptor of the queue that it shares with other workers, or of the list of acknowledged commits of a
/// crash trial, where there is one.
pub fn main(socket: OwnedFd, shared: Option<OwnedFd>) -> ExitCode {
    let served = Socket::new(UnixStream::from(socket)).and_then(|mut line| serve(&mut line, shared));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(Unserved::Reported) => ExitCode::from(1),
        Err(Unserved::Link(_)) => ExitCode::from(2),
    }
}

/// Why a worker ends before it is commanded to.
#[derive(Debug, thiserror::Error)]
enum Unserved {
    /// The trial failed; the runner knows.
    #[error("the trial failed")]
    Reported,
    /// The runner cannot be reached.
    #[error(transparent)]
    Link(#[from] LinkError),
}

fn serve(line: &mut Socket, shared: Option<OwnedFd>) -> Result<(), Unserved> {
    let plan = match line.next()? {
        ToWorker::Plan { version: VERSION, spec, seed, dir, replica, throughput } => {
            let queue = shared.map(|descriptor| Arc::new(Queue::passed(descriptor)));
            Plan { spec: *spec, seed, dir: PathBuf::from(dir), replica, queue, throughput }
        }
        ToWorker::Crash { version: VERSION, spec, crash, seed, dir, step } => {
            let Some(descriptor) = shared else {
                return fail(line, failed(None, "a crash trial has no list of acknowledged commits".to_owned()));
            };
            let (dir, throughput) = (PathBuf::from(dir), Nanos::ZERO);
            let plan = Plan { spec: *spec, seed, dir, replica: 1, queue: None, throughput };
            let plan = CrashPlan { plan, crash, acknowledged: Acknowledged::passed(descriptor) };
            return crashing(line, &plan, step).map_or(Ok(()), |message| fail(line, message));
        }
        ToWorker::Plan { version, .. } | ToWorker::Crash { version, .. } => {
            let message = format!("the runner speaks version {version} of the protocol, this worker version {VERSION}");
            return fail(line, failed(None, message));
        }
        ToWorker::Stop => return Ok(()),
        ToWorker::Phase { .. } | ToWorker::Go => {
            return fail(line, failed(None, "the runner sent a phase before the plan".to_owned()));
        }
    };
    let progress = Progress::default();
    let (sender, progress) = (line.sender(), &progress);
    match report_progress(&sender, progress, || hosted(line, &plan, progress)) {
        None => Ok(()),
        Some(message) => fail(line, message),
    }
}

/// Does a step of a crash trial; returns the message for the runner if it failed.
fn crashing(line: &mut Socket, plan: &CrashPlan, step: CrashStep) -> Option<FromWorker> {
    let Subject::Store(store) = &plan.plan.spec.subject else {
        return Some(failed(None, "a crash trial needs a store".to_owned()));
    };
    let cut = plan.plan.spec.crashes.get(plan.crash).map(|crash| crash.cut);
    if let (CrashStep::Write, Some(CutKind::PowerCut)) = (&step, cut)
        && let Err(error) = sync_calls::forbid()
    {
        let message = format!("calls of `sync` by the engine cannot be noticed here: {error}");
        return Some(FromWorker::Failed { index: None, failure: Failure::Unsupported, message });
    }
    caught(|| None, || registry::crash(&store.engine, line, &ThisMachine, plan, step).err().map(|e| e.to_message()))
}

/// Runs the trial; returns the message for the runner if the trial failed.
fn hosted(line: &mut Socket, plan: &Plan, progress: &Progress) -> Option<FromWorker> {
    let hosted = || match &plan.spec.subject {
        Subject::Store(store) => {
            let ended = registry::host(&store.engine, line, &ThisMachine, plan, progress);
            ended.err().map(|error| error.to_message())
        }
        Subject::Services => {
            let trial = Trial { spec: &plan.spec, seed: plan.seed, throughput: plan.throughput };
            prony_http::host(line, trial, progress).err().map(|error| error.to_message())
        }
        Subject::Program(_) => Some(failed(None, "a program needs no worker".to_owned())),
    };
    caught(|| progress.phase(), hosted)
}

/// Does work that returns a message if it failed. A panic ends the trial, and is reported to the runner like any other failure.
fn caught(phase: impl Fn() -> Option<usize>, work: impl FnOnce() -> Option<FromWorker>) -> Option<FromWorker> {
    let ended = catch_unwind(AssertUnwindSafe(work));
    ended.unwrap_or_else(|panic| Some(failed(phase(), format!("panicked: {}", panic_text(panic.as_ref())))))
}

struct ThisMachine;

impl Machine for ThisMachine {
    fn evict(&self, dir: &Path) -> Reading<f64> {
        match cache::evict(dir) {
            // A store without pages has no share of them in memory, not even none.
            Reading::Measured(found) => found.share().map_or(Reading::Missing(Why::NotApplicable), Reading::Measured),
            Reading::Missing(why) => Reading::Missing(why),
        }
    }

    fn bytes(&self) -> Reading<(Bytes, Bytes)> {
        match std::fs::read_to_string("/proc/self/io") {
            Ok(text) => parse::io(&text).map_or(Reading::failed("`/proc/self/io` cannot be read"), Reading::Measured),
            Err(error) => Reading::failed(error.to_string()),
        }
    }
}

fn fail(line: &mut Socket, message: FromWorker) -> Result<(), Unserved> {
    line.send(message)?;
    Err(Unserved::Reported)
}

fn failed(index: Option<usize>, message: String) -> FromWorker {
    FromWorker::Failed { index, failure: Failure::Failed, message }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::thread::JoinHandle;

    use serde_json::{Value, json};

    use super::*;

    /// The runner's end, and a worker on a thread.
    struct Runner {
        stream: BufReader<UnixStream>,
        worker: JoinHandle<ExitCode>,
        dir: tempfile::TempDir,
    }

    impl Runner {
        fn new() -> Self {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let worker = std::thread::spawn(move || main(OwnedFd::from(theirs), None));
            Self { stream: BufReader::new(ours), worker, dir: tempfile::tempdir().unwrap() }
        }

        fn say(&mut self, message: &Value) {
            writeln!(self.stream.get_mut(), "{message}").unwrap();
        }

        /// The next message that is not of progress.
        fn hear(&mut self) -> Option<FromWorker> {
            loop {
                let mut text = String::new();
                if self.stream.read_line(&mut text).unwrap() == 0 {
                    return None;
                }
                match serde_json::from_str(&text).unwrap() {
                    FromWorker::Progress { .. } => (),
                    message => return Some(message),
                }
            }
        }

        fn plan(&self, engine: &str, version: u32) -> Value {
            let ops = json!({
                "amount": "records", "transaction": { "batch": 10 }, "order": "shuffled", "replicas": null, "threads": 1, "share": "equal", "pause": null,
                "rate": null, "sample": "every", "touch": true,
            });
            let phase =
                |name: &str, action: Value| json!({ "name": name, "timed": true, "action": action, "limit": null });
            json!({
                "do": "plan", "version": version, "seed": 5, "dir": self.dir.path(), "replica": 1, "throughput": 1_000_000,
                "spec": {
                    "subject": { "store": { "engine": engine, "durability": null, "options": {} } },
                    "data": [{
                        "records": 500,
                        "key": { "integer": { "bytes": 8 } },
                        "value": { "bytes": { "bytes": { "fixed": 50 }, "compressible": 0.0, "prefix": [] } },
                    }],
                    "phases": [phase("write", json!({ "put": ops })), phase("check", json!("verify"))],
                    "limits": { "memory": null, "cpus": null, "pids": null, "trial": null, "phase": null },
                },
            })
        }

        fn code(self) -> ExitCode {
            drop(self.stream);
            self.worker.join().unwrap()
        }
    }

    fn failure(message: Option<FromWorker>) -> (Failure, String) {
        match message {
            Some(FromWorker::Failed { failure, message, .. }) => (failure, message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_store_without_pages_has_no_share_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(ThisMachine.evict(dir.path()), Reading::Missing(Why::NotApplicable));
    }

    #[test]
    fn worker_executes_commands_and_stops() {
        let mut runner = Runner::new();
        runner.say(&runner.plan("memory", VERSION));
        let Some(FromWorker::Ready { effective, .. }) = runner.hear() else { panic!("not ready") };
        assert_eq!(effective.unwrap().engine, "memory");
        for index in 0..2 {
            runner.say(&json!({ "do": "phase", "index": index }));
            assert!(matches!(runner.hear(), Some(FromWorker::Prepared { index: i }) if i == index));
            runner.say(&json!({ "do": "go" }));
            assert!(matches!(runner.hear(), Some(FromWorker::Began { index: i, .. }) if i == index));
            let Some(FromWorker::Ended { report, .. }) = runner.hear() else { panic!("not ended") };
            assert_eq!((report.operations, report.errors), (500, 0));
        }
        runner.say(&json!({ "do": "stop" }));
        assert_eq!(runner.hear(), None);
        assert_eq!(runner.code(), ExitCode::SUCCESS);
    }

    #[test]
    fn worker_hosts_the_load_of_services() {
        let mut runner = Runner::new();
        let mut plan = runner.plan("memory", VERSION);
        plan["spec"]["subject"] = json!("services");
        let phase = |action: Value| json!({ "name": "pause", "timed": true, "action": action, "limit": null });
        plan["spec"]["phases"] = json!([phase(json!({ "pause": 1_000 })), phase(json!("verify"))]);
        runner.say(&plan);
        assert!(matches!(runner.hear(), Some(FromWorker::Ready { effective: None, .. })));
        runner.say(&json!({ "do": "phase", "index": 0 }));
        assert!(matches!(runner.hear(), Some(FromWorker::Began { index: 0, .. })));
        assert!(matches!(runner.hear(), Some(FromWorker::Ended { index: 0, .. })));
        runner.say(&json!({ "do": "phase", "index": 1 }));
        let (_, message) = failure(runner.hear());
        assert!(message.contains("`verify`"), "{message}");
        assert_eq!(runner.code(), ExitCode::from(1));
    }

    #[test]
    fn a_worker_refuses_another_protocol_and_an_unknown_engine() {
        for (engine, version, text) in [("memory", VERSION + 1, "version"), ("nonesuch", VERSION, "`nonesuch`")] {
            let mut runner = Runner::new();
            runner.say(&runner.plan(engine, version));
            let (_, message) = failure(runner.hear());
            assert!(message.contains(text), "{message}");
            assert_eq!(runner.code(), ExitCode::from(1));
        }
    }

    #[test]
    fn worker_ends_when_its_runner_ends() {
        let runner = Runner::new();
        assert_eq!(runner.code(), ExitCode::from(2));
        let mut runner = Runner::new();
        runner.say(&json!("gibberish"));
        assert_eq!(runner.code(), ExitCode::from(2));
    }

    #[test]
    fn panic_text_is_reported() {
        let panic = catch_unwind(|| panic!("page {} is torn", 7)).unwrap_err();
        assert_eq!(panic_text(panic.as_ref()), "page 7 is torn");
        let panic = catch_unwind(|| panic!("plain")).unwrap_err();
        assert_eq!(panic_text(panic.as_ref()), "plain");
    }
}
