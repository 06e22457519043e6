//! Test support: a folder in which the real binary runs, and queries on the trials that it recorded there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::reading::Reading;
use prony_model::record::{PhaseRecord, ProbeReport, TrialRecord};
use prony_results::{Database, RunData, RunId};

/// A folder with a database of its own.
pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
    /// Whether other users may enter scratch directories.
    pub(crate) shared: bool,
}

pub(crate) const PRONY: &str = env!("CARGO_BIN_EXE_prony");

impl Bench {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), shared: false }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file, and makes the directories that it lies in.
    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), contents).unwrap();
    }

    pub(crate) fn script(&self, name: &str, text: &str) {
        self.write(name, format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The output of the first of some runs that is judged: the guard of the order of trials refuses one of 40 by chance.
    pub(crate) fn judged(&self, arguments: &[&str]) -> Output {
        let mut runs = (0..4).map(|_| self.prony(arguments));
        let is_judged = |output: &Output| {
            let text = String::from_utf8_lossy(&output.stdout);
            !text.split_whitespace().collect::<Vec<_>>().join(" ").contains("a trial leaves behind changes the next")
        };
        runs.find(is_judged).expect("each run was refused")
    }

    pub(crate) fn prony(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The same, to which a test can give variables.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PRONY);
        command.args(args).current_dir(self.dir.path()).env("NO_COLOR", "1");
        command.env("PRONY_CACHE", self.path("cache")).env("PRONY_RUNS", self.path("runs"));
        command.envs(self.shared.then_some(("PRONY_SHARED", "1")));
        command
    }

    /// Begins `prony exec`, which may hang where it should not.
    pub(crate) fn begin(&self, args: &[&str]) -> Child {
        let mut command = Command::new(PRONY);
        command.arg("exec").args(args).current_dir(self.dir.path());
        command.env("PRONY_CACHE", self.path("cache")).env("PRONY_RUNS", self.path("runs"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The data of `prony exec` that is ended where it hangs.
    pub(crate) fn exec_to_its_end(&self, args: &[&str]) -> RunData {
        let mut child = self.begin(args);
        let deadline = Instant::now() + Duration::from_secs(60);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("`prony exec {}` hangs", args.join(" "));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(matches!(status.code(), Some(0 | 1)), "{status}");
        self.data()
    }

    /// Runs the body of an experiment, with light care and one block unless it says more.
    pub(crate) fn run(&self, body: &str) -> RunData {
        let compare = if body.contains("[compare]") { "" } else { "[compare]\nblocks = 1\n" };
        self.write("e.toml", format!("{compare}[observe]\ncare = \"light\"\nhertz = 100\n{body}"));
        let output = self.prony(&["run", "e.toml", "--quiet"]);
        assert_ne!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
        self.data()
    }

    /// The only trial of a run.
    pub(crate) fn trial(&self, body: &str) -> TrialRecord {
        let mut trials = self.run(body).trials;
        assert_eq!(trials.len(), 1);
        trials.remove(0)
    }

    pub(crate) fn data(&self) -> RunData {
        let database = Database::open(&self.path("prony.db")).unwrap();
        let last = database.runs().unwrap().last().unwrap().id;
        database.load_run(RunId(last.0)).unwrap()
    }

    pub(crate) fn exec(&self, args: &[&str]) -> (Output, RunData) {
        let output = self.prony(&[&["exec"], args].concat());
        assert_ne!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
        (output, self.data())
    }
}

/// The version of a runtime's program, or `None`, said aloud; with `PRONY_REQUIRE_ALL=1` it must be there.
pub(crate) fn version(program: &str) -> Option<(u32, u32)> {
    let output = Command::new(program).arg("--version").output().ok().filter(|output| output.status.success());
    if output.is_none() {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "`{program}` is required and missing");
        println!("SKIPPED: `{program}` is not there");
    }
    let text = String::from_utf8(output?.stdout).unwrap();
    let digits = |n: &str| n.chars().take_while(char::is_ascii_digit).collect::<String>();
    let mut numbers =
        text.trim_start_matches(|c: char| !c.is_ascii_digit()).split('.').map(|n| digits(n).parse().unwrap());
    Some((numbers.next().unwrap(), numbers.next().unwrap()))
}

/// A folder with a program's files, which must be as they were afterwards.
pub(crate) struct Site {
    pub(crate) bench: Bench,
    files: Vec<(String, String)>,
}

impl Site {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let bench = Bench::new();
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let site = Self { bench, files };
        for (name, text) in &site.files {
            site.bench.write(&format!("site/{name}"), text);
        }
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.bench.path("site").join(name)
    }

    /// The experiment without its phases; the program works in the directory itself.
    pub(crate) fn program(runtime: &str, command: &str) -> String {
        format!(
            "[program.x]\ncommand = \"{command}\"\nruntime = \"{runtime}\"\ndirectory = \"site\"\ncopy = \"none\"\n\
             env = {{ PYTHONDONTWRITEBYTECODE = 1 }}\n"
        )
    }

    pub(crate) fn trial(&self, runtime: &str, command: &str, phases: &str) -> TrialRecord {
        let trial = self.bench.trial(&format!("{}{phases}", Self::program(runtime, command)));
        let top = fs::read_dir(self.path("")).unwrap().count();
        let expected: std::collections::BTreeSet<&str> =
            self.files.iter().map(|(name, _)| name.split('/').next().unwrap()).collect();
        assert_eq!(top, expected.len(), "nothing was written into the program's directory");
        trial
    }
}

pub(crate) fn shell(script: &str) -> String {
    format!("[program.x]\nshell = true\ncommand = '''{}'''\n", script.replace('{', "{{").replace('}', "}}"))
}

pub(crate) fn reading(trial: &TrialRecord, phase: &str, key: MetricKey) -> Option<f64> {
    let phase = trial.phases.iter().find(|found| found.name == phase).unwrap();
    phase.reading(key)?.measured().copied()
}

pub(crate) fn amount(trial: &TrialRecord, phase: &str, metric: Metric) -> f64 {
    let key = MetricKey::amount(metric);
    reading(trial, phase, key).unwrap_or_else(|| {
        let found = trial.phases.iter().find(|found| found.name == phase);
        panic!("no {}: {:?}", metric.name(), found.and_then(|phase| phase.reading(key)))
    })
}

/// Findings that depend on the machine, on how busy it is and on an optimised build. A test that is about one of them
/// asks for it by its name ([`finding`]).
pub(crate) const MACHINE: [&str; 18] = [
    "coarse_cpu",
    "disk_nearly_full",
    "disturbed_trials",
    "drift",
    "gaps_between_batches",
    "generator_busy",
    "heap_read_rarely",
    "kernel_peak_above_sampled",
    "late_counters",
    "other_run",
    "phase_too_short",
    "replicas_released_apart",
    "shared_processors",
    "store_read_long",
    "swapped",
    "throttled",
    "unsettled",
    "untimed_close",
];

/// All but those that depend on the machine, and the notes on processes with a good part (`processes.rs`) and on what they share.
pub(crate) fn guards(trial: &TrialRecord) -> Vec<&str> {
    let all = trial.findings.iter().map(|finding| finding.guard.as_str());
    all.filter(|guard| !MACHINE.contains(guard) && !["process_share", "shared_pages"].contains(guard)).collect()
}

/// What the first finding of this guard says.
pub(crate) fn finding<'t>(trial: &'t TrialRecord, guard: &str) -> Option<&'t str> {
    trial.findings.iter().find(|finding| finding.guard == guard).map(|finding| finding.message.as_str())
}

pub(crate) fn said(trial: &TrialRecord) -> &str {
    &trial.program().unwrap().output.stdout.first
}

/// What the probes of its runtime reported.
pub(crate) fn probe(trial: &TrialRecord) -> &ProbeReport {
    trial.conditions.probe.as_ref().unwrap()
}

pub(crate) fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// The files of `dir` whose names begin with `.prony-`: scratch directories.
pub(crate) fn scratches(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(".prony-")).collect()
}

/// Waits for a condition; panics after a time that no healthy machine needs.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn phase<'t>(trial: &'t TrialRecord, name: &str) -> &'t PhaseRecord {
    trial.phases.iter().find(|found| found.name == name).unwrap()
}

pub(crate) fn gauge(trial: &TrialRecord, phase: &str, metric: Metric, stat: Stat) -> f64 {
    reading(trial, phase, MetricKey::gauge(metric, stat)).unwrap_or_else(|| panic!("no {}: {trial:?}", metric.name()))
}

/// A figure; `None` where a busy machine let prony notice a boundary of the phase too late for it.
pub(crate) fn unless_late(trial: &TrialRecord, phase_name: &str, key: MetricKey) -> Option<f64> {
    match phase(trial, phase_name).reading(key) {
        Some(Reading::Measured(value)) => Some(*value),
        Some(Reading::Missing(why)) => {
            let why = why.to_string();
            let known = ["may have read its counters up to", "before its begin was noticed"];
            assert!(known.iter().any(|text| why.contains(text)), "{key}: {why}");
            None
        }
        None => panic!("no {key}"),
    }
}

pub(crate) fn why(trial: &TrialRecord, phase_name: &str, key: MetricKey) -> String {
    match phase(trial, phase_name).reading(key) {
        Some(Reading::Missing(why)) => why.to_string(),
        other => panic!("{other:?}"),
    }
}
