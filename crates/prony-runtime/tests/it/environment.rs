//! A test program of a runtime: its files, its probe, and the probe's reports.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on must say where")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use prony_model::units::Nanos;
use prony_runtime::{
    CallSpec, DETAIL, Prepared, ProbeEvent, ProbeLine, ProbeSpec, Runtime, Source, SuspendedThread, SuspensionCommand,
    Tallied, parse, prepare,
};

/// Waits for a condition; panics after a time that no healthy machine needs.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "never came: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// The program of a runtime and its version, or `None`, which is printed; with `PRONY_REQUIRE_ALL=1` it must exist.
pub(crate) fn program(runtime: Runtime) -> Option<(PathBuf, (u32, u32))> {
    let (name, ask) = match runtime {
        Runtime::Node => ("node", ["-p", "process.execPath + ' ' + process.versions.node"]),
        Runtime::Python => ("python3", ["-c", "import sys; print(sys.executable, '%d.%d' % sys.version_info[:2])"]),
    };
    let answer = Command::new(name).args(ask).output().ok().filter(|out| out.status.success());
    if answer.is_none() {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "`{name}` is required and missing");
        eprintln!("SKIPPED: `{name}` is not there");
    }
    let text = String::from_utf8(answer?.stdout).unwrap();
    let (path, version) = text.trim().rsplit_once(' ').unwrap();
    let mut numbers = version.split('.').map(|n| n.parse().unwrap());
    Some((path.into(), (numbers.next().unwrap(), numbers.next().unwrap())))
}

/// A directory with a program in it.
pub(crate) struct Environment {
    dir: tempfile::TempDir,
    program: PathBuf,
    pub(crate) version: (u32, u32),
    pub(crate) env: BTreeMap<OsString, OsString>,
    pub(crate) prepared: Prepared,
    files: Vec<String>,
}

/// A call that is not suspended, under its own text as its name.
pub(crate) fn call(text: &str) -> CallSpec {
    CallSpec { id: text.into(), call: text.into(), suspend_at_end: false }
}

/// A call that is suspended.
pub(crate) fn suspended_at(text: &str) -> CallSpec {
    CallSpec { suspend_at_end: true, ..call(text) }
}

impl Environment {
    /// `None` where the runtime is missing.
    pub(crate) fn new(runtime: Runtime, calls: &[CallSpec], files: &[(&str, &str)]) -> Option<Self> {
        Self::with(runtime, calls, files, BTreeMap::new(), DETAIL)
    }

    /// The same with an environment of the user's, and another number of invocations reported one by one.
    pub(crate) fn with(
        runtime: Runtime,
        calls: &[CallSpec],
        files: &[(&str, &str)],
        mut env: BTreeMap<OsString, OsString>,
        detail: u32,
    ) -> Option<Self> {
        let (program, version) = program(runtime)?;
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        // Before version 12 Node reads no quotes in NODE_OPTIONS, so that no path with a blank can stand there.
        let name = if runtime == Runtime::Node && version.0 < 12 { "probe" } else { "a probe" };
        let (app, marks, probe, commands) =
            (root.join("app"), root.join("marks"), root.join(name), root.join("commands"));
        for (name, text) in files {
            let path = app.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(&marks, "").unwrap();
        env.insert("PATH".into(), std::env::var_os("PATH").unwrap());
        env.insert("PYTHONDONTWRITEBYTECODE".into(), "1".into());
        let spec = ProbeSpec { calls, dir: &probe, marks: &marks, commands: &commands, directory: &app, detail };
        let prepared = prepare(runtime, &spec, &mut env).unwrap();
        let mut environment = Self { dir, program, version, env, prepared, files: Vec::new() };
        environment.files = environment.listing();
        Some(environment)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn listing(&self) -> Vec<String> {
        fn walk(dir: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                found.push(entry.path().display().to_string());
                if entry.path().is_dir() {
                    walk(&entry.path(), found);
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.path("app"), &mut found);
        found.sort();
        found
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(self.path("app")).env_clear().envs(&self.env).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end, whatever that is.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the program, which must succeed, and returns what it printed; its directory must be as it was.
    pub(crate) fn succeed(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{stderr}");
        assert_eq!(stderr, "", "nothing of the probe's is visible");
        assert_eq!(self.listing(), self.files);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// All reports of probes so far.
    pub(crate) fn lines(&self) -> Vec<ProbeLine> {
        let text = fs::read_to_string(self.path("marks")).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| parse(line).unwrap()).collect()
    }

    pub(crate) fn events(&self) -> Vec<ProbeEvent> {
        self.lines().into_iter().map(|line| line.event).collect()
    }

    pub(crate) fn totals(&self, call: &str) -> Totals {
        let (mut single, mut counted) = (Vec::new(), BTreeMap::new());
        for line in self.lines() {
            match line.event {
                ProbeEvent::End { call: ended, took, .. } if ended == call => single.push(took),
                ProbeEvent::Calls(tallied) if tallied.call == call => drop(counted.insert(line.source, tallied)),
                _ => {}
            }
        }
        let counted: Vec<Tallied> = counted.into_values().collect();
        let of = |part: fn(&Tallied) -> u64| counted.iter().map(part).sum();
        Totals { single, aggregated: of(|tallied| tallied.count), failed: of(|tallied| tallied.failed), counted }
    }

    /// The counts of a call, in the order of their instants, each with it.
    pub(crate) fn counted(&self, call: &str) -> Vec<(Nanos, Tallied)> {
        let of_call = |line: ProbeLine| match line.event {
            ProbeEvent::Calls(tallied) if tallied.call == call => Some((line.at, tallied)),
            _ => None,
        };
        let mut counted: Vec<_> = self.lines().into_iter().filter_map(of_call).collect();
        counted.sort_by_key(|(at, _)| *at);
        counted
    }

    /// Waits for the `n`-th event that is wanted.
    pub(crate) fn wait<T>(&self, n: usize, what: &str, wanted: impl Fn(&ProbeLine) -> Option<T>) -> T {
        let mut found = None;
        eventually(what, || {
            found = self.lines().iter().filter_map(&wanted).nth(n);
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until a thread is suspended for the `n`-th time, and answers it.
    pub(crate) fn thread(&self, n: usize) -> SuspendedThread {
        let (source, suspension) = self.wait(n, "suspended", |line| match line.event {
            ProbeEvent::Suspended { suspension, .. } => Some((line.source, suspension)),
            _ => None,
        });
        SuspendedThread::answer(&self.path("commands"), source, suspension).unwrap()
    }

    /// Sends a command to a thread that is suspended for the `n`-th time.
    pub(crate) fn send(&self, n: usize, command: SuspensionCommand) -> SuspendedThread {
        let mut thread = self.thread(n);
        thread.send(command).unwrap();
        thread
    }
}

/// All invocations of one call that ended.
pub(crate) struct Totals {
    /// How long each that was reported took.
    pub(crate) single: Vec<Nanos>,
    /// How many were only counted.
    pub(crate) aggregated: u64,
    /// How many of these failed.
    pub(crate) failed: u64,
    /// The last counts of each thread.
    pub(crate) counted: Vec<Tallied>,
}

impl Totals {
    pub(crate) fn count(&self) -> u64 {
        self.single.len() as u64 + self.aggregated
    }

    /// Of those that were reported.
    pub(crate) fn min(&self) -> Nanos {
        self.single.iter().copied().min().unwrap_or_default()
    }

    /// That the classes of the calls that were only counted tell their times within 1 %, which must take microseconds each.
    pub(crate) fn assert_fine_classes(&self) {
        let sum = |of: fn(&(Nanos, Nanos, u64)) -> u64| self.buckets().iter().map(of).sum::<u64>();
        let (least, most) =
            (sum(|(from, _, count)| from.as_nanos() * count), sum(|(_, to, count)| to.as_nanos() * count));
        let total: u64 = self.counted.iter().map(|tallied| tallied.total.as_nanos()).sum();
        assert!(least <= total + self.aggregated && total <= most, "{total} of {least} to {most}");
        assert!((most - least) * 100 < total, "{total} of {least} to {most}");
    }

    /// That so many were only counted, of which so many failed, and that the classes, the shortest and the longest are those of the
    /// calls that returned.
    pub(crate) fn assert_no_failed_call_is_classed(&self, (counted, failed): (u64, u64)) {
        assert_eq!((self.aggregated, self.failed), (counted, failed));
        let buckets = self.buckets();
        assert_eq!(buckets.iter().map(|(.., count)| count).sum::<u64>(), counted - failed);
        // Parts of a nanosecond are rounded.
        let ns = Nanos::from_nanos(1);
        let of_class = |time: Nanos| buckets.iter().any(|(from, to, _)| *from <= time + ns && time <= *to + ns);
        assert!(of_class(self.counted[0].min) && of_class(self.counted[0].max), "{:?}", self.counted);
    }

    /// The counts by the times that belong to them.
    pub(crate) fn buckets(&self) -> Vec<(Nanos, Nanos, u64)> {
        self.counted.iter().flat_map(Tallied::buckets).collect()
    }
}

/// The senders of a `hello`.
pub(crate) fn hellos(lines: &[ProbeLine]) -> Vec<Source> {
    lines.iter().filter(|line| matches!(line.event, ProbeEvent::Hello(_))).map(|line| line.source).collect()
}

/// `open`, `ok` of each end of a call, in order.
pub(crate) fn ends(events: &[ProbeEvent], wanted: &str) -> Vec<(u64, bool)> {
    let end = |event: &ProbeEvent| match event {
        ProbeEvent::End { call, open, ok, .. } if call == wanted => Some((*open, *ok)),
        _ => None,
    };
    events.iter().filter_map(end).collect()
}

/// The files in which a call was found, from the program's directory.
pub(crate) fn found(events: &[ProbeEvent], wanted: &str) -> Vec<String> {
    let inside = |file: &str| file.rsplit_once("/app/").map_or(file, |(_, inside)| inside).to_owned();
    let found = |event: &ProbeEvent| match event {
        ProbeEvent::Found { call, file } if call == wanted => Some(inside(file)),
        _ => None,
    };
    events.iter().filter_map(found).collect()
}

/// Whether the last line of each thread is an orderly end.
pub(crate) fn all_said_bye(lines: &[ProbeLine]) -> bool {
    let mut last = BTreeMap::new();
    for line in lines {
        last.insert(line.source, &line.event);
    }
    last.values().all(|event| matches!(event, ProbeEvent::Bye {}))
}
