//! Tests V8's profiler and `perf` on real processes.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on must say where")]

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use prony_analysis::profile::{Profile, Times};
use prony_model::reading::Reading;
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::interrupt::Interrupt;
use prony_os::profile::Taken;
use prony_os::profile::perf::{Perf, usable};
use prony_runtime::Runtime;
use prony_runtime::profile as node;

use crate::environment::{Environment, program};

/// Work and not time, which a busy machine may take away whole.
const BURN: &str =
    "function burn(millions) { let x = 0; for (let i = 0; i < millions * 1e6; i++) x += Math.sqrt(i); return x; }\n";

/// Prints that a test cannot run here; where everything is required, that is a failure.
fn skipped(what: &str, why: &dyn std::fmt::Display) {
    assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "{what}: {why}");
    eprintln!("SKIPPED: {what}: {why}");
}

/// Starts Node with a script under the profiler; its output is a pipe. `None` where there is no Node.
fn node(dir: &Path, script: &str) -> Option<Child> {
    let (path, _) = program(Runtime::Node)?;
    std::fs::write(dir.join("main.js"), format!("{BURN}{script}")).unwrap();
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    node::prepare(&dir.join("profile"), Nanos::from_micros(500), &mut env).unwrap();
    let mut command = Command::new(path);
    command.arg("main.js").current_dir(dir).envs(env).stdin(Stdio::piped()).stdout(Stdio::piped());
    Some(command.spawn().unwrap())
}

fn taken(dir: &Path) -> (Taken, Profile) {
    let taken = node::collect(&dir.join("profile")).unwrap();
    let profile = Profile::from_files(&taken.files).unwrap();
    (taken, profile)
}

fn own(profile: &Profile, times: &Times, name: &str) -> f64 {
    let of = times.functions.iter().filter(|share| profile.functions[share.of].name == name);
    of.map(|share| share.own.as_secs_f64()).sum()
}

#[test]
fn hot_functions_of_node_are_found_with_their_shares_and_instants() {
    let dir = tempfile::tempdir().unwrap();
    // The functions call nothing, so that their time is their own; they do work, whose share no busy machine changes.
    let hot = |name: &str, millions: u32| {
        format!(
            "function {name}() {{ let x = 0; for (let i = 0; i < {millions}e6; i++) x += Math.sqrt(i); return x; }}\n"
        )
    };
    let script = format!("{}{}for (let i = 0; i < 12; i++) {{ three(); one(); }}", hot("three", 24), hot("one", 8));
    let begin = monotonic();
    let Some(mut child) = node(dir.path(), &script) else { return };
    assert!(child.wait().unwrap().success());
    let end = monotonic();
    let (taken, profile) = taken(dir.path());
    assert_eq!((taken.files.len(), taken.notes), (1, vec![]));
    let times = profile.during(None).times();
    // Compared by samples: each is taken while the thread runs, however long it waited for a processor before.
    let count =
        |name: &str| profile.samples.iter().filter(|sample| profile.function_of(sample.frame).name == name).count();
    let (three, one) = (count("three"), count("one"));
    assert!((one * 9 / 5..one * 5).contains(&three), "{three} and {one}");
    assert!(three + one > profile.samples.len() / 2, "{three} and {one} of {}", profile.samples.len());
    assert_eq!(profile.packages[times.packages[0].of], "the program");
    let inside = profile.samples.iter().filter(|sample| begin <= sample.at && sample.at <= end).count();
    assert_eq!(inside, profile.samples.len(), "V8's clock is ours");
    assert!(profile.uncertainty < end.since(begin), "{}", profile.uncertainty);
}

#[test]
fn workers_and_signals_leave_their_profiles_and_change_no_ending() {
    let dir = tempfile::tempdir().unwrap();
    let script = "
        const { Worker, isMainThread } = require('worker_threads');
        if (isMainThread) { new Worker(__filename).on('message', () => console.log('up')); setInterval(() => {}, 1000); }
        else { burn(20); require('worker_threads').parentPort.postMessage(0); setInterval(() => {}, 1000); }";
    if program(Runtime::Node).is_some_and(|(_, version)| version < (15, 4)) {
        eprintln!("SKIPPED: Node before 15.4 cannot ask workers for their profiles");
        return;
    }
    let Some(mut child) = node(dir.path(), script) else { return };
    wait_for_a_line(&mut child);
    signal(&child);
    assert_eq!(child.wait().unwrap().signal(), Some(15), "as it would have ended without");
    let (taken, profile) = taken(dir.path());
    assert_eq!(taken.notes, Vec::<String>::new());
    let mut threads: Vec<u32> = profile.threads.iter().map(|thread| thread.tid).collect();
    threads.sort_unstable();
    assert_eq!(threads, [0, 1]);
    assert!(profile.threads.iter().all(|thread| thread.pid == child.id()));
}

#[test]
fn a_program_that_listens_for_the_signal_decides_itself() {
    let dir = tempfile::tempdir().unwrap();
    let script = "
        process.on('SIGTERM', () => { burn(20); process.exit(process.listenerCount('SIGTERM') === 1 ? 3 : 4); });
        setInterval(() => {}, 1000); console.log('up');";
    let Some(mut child) = node(dir.path(), script) else { return };
    wait_for_a_line(&mut child);
    signal(&child);
    assert_eq!(child.wait().unwrap().code(), Some(3), "it sees no listener but its own");
    let (taken, profile) = taken(dir.path());
    assert!(taken.files.len() == 2 && taken.notes.is_empty(), "a piece before and one after the signal");
    let times = profile.during(None).times();
    assert!(own(&profile, &times, "burn") > 0.0, "what it did after the signal is there");
}

#[test]
fn exits_without_an_event_leave_a_profile_and_kills_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut child) = node(dir.path(), "burn(20); process.reallyExit(5);") else { return };
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert_eq!(taken(dir.path()).0.files.len(), 1);
    let dir = tempfile::tempdir().unwrap();
    let Some(mut child) = node(dir.path(), "burn(20); process.kill(process.pid, 'SIGKILL');") else { return };
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let (taken, _) = taken(dir.path());
    assert!(taken.files.is_empty() && taken.notes[0].contains("before it could write its profile"), "{taken:?}");
}

/// A child that burned 1.5 s was in no profile, for its environment was its own.
#[test]
fn children_and_workers_with_an_environment_of_their_own_are_profiled() {
    let main = "
        const { Worker, isMainThread } = require('worker_threads');
        function heavyWorker() { burn(20); }
        if (isMainThread) {
          const spawn = () => require('child_process').spawn(process.execPath, ['child.js'], { env: { A: '1' } });
          new Worker(__filename, { env: { A: '1' } }).on('exit', spawn);
        } else { heavyWorker(); }";
    let child = format!("{BURN}(function heavyChild() {{ burn(20); }})();");
    let files = [("main.js", format!("{BURN}{main}")), ("child.js", child)];
    let Some((taken, profile)) = probed(&files.each_ref().map(|(name, text)| (*name, text.as_str())), "main.js") else {
        return;
    };
    assert_eq!((profile.threads.len(), &taken.notes), (3, &vec![]), "{:?}", profile.threads);
    let names: Vec<&str> = profile.functions.iter().map(|function| function.name.as_str()).collect();
    assert!(names.contains(&"heavyChild") && names.contains(&"heavyWorker"), "{names:?}");
}

/// `terminate()` waited half a second for a worker that had no profile to write: 95 % of the profile were that wait.
#[test]
fn workers_without_a_profile_are_not_waited_for() {
    // What an ES module imports, the probe does not see: the worker runs without the profiler.
    let main = "
        import { Worker } from 'worker_threads';
        const worker = new Worker(new URL('./worker.mjs', import.meta.url), { env: { A: '1' } });
        worker.on('message', () => worker.terminate());";
    let worker = "import { parentPort } from 'worker_threads'; parentPort.postMessage(0); setInterval(() => {}, 1000);";
    let Some((_, profile)) = probed(&[("main.mjs", main), ("worker.mjs", worker)], "main.mjs") else { return };
    assert_eq!(profile.threads.len(), 1, "{:?}", profile.threads);
    let asked = profile.samples.iter().filter(|sample| profile.function_of(sample.frame).name == "ask").count();
    assert!(asked < 100, "of 1,000 in half a second: {asked}");
}

/// Runs a program of Node with the probe and the profiler to its good end; `None` where there is no Node that reports workers.
fn probed(files: &[(&str, &str)], main: &str) -> Option<(Taken, Profile)> {
    let mut environment = Environment::new(Runtime::Node, &[], files)?;
    if environment.version < (16, 2) {
        eprintln!("SKIPPED: Node before 16.2 does not report workers");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut env: Vec<(OsString, OsString)> = std::mem::take(&mut environment.env).into_iter().collect();
    node::prepare(&dir.path().join("profile"), Nanos::from_micros(500), &mut env).unwrap();
    environment.env = env.into_iter().collect();
    environment.succeed(&[main]);
    Some(taken(dir.path()))
}

fn wait_for_a_line(child: &mut Child) {
    use std::io::BufRead;
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
}

fn signal(child: &Child) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::TERM).unwrap();
}

/// `perf` attached to a shell that waits for a line; `None`, which is printed, where it is not permitted.
fn attached(dir: &Path, script: &str) -> Option<(Child, Perf)> {
    let mut command = Command::new("sh");
    let mut child = command
        .args(["-c", &format!("read go; {script}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    match Perf::attach(&[child.id()], &dir.join("at work"), Nanos::from_millis(1)) {
        Reading::Measured(perf) => Some((child, perf)),
        Reading::Missing(why) => {
            skipped("perf", &why);
            child.kill().unwrap();
            child.wait().unwrap();
            None
        }
    }
}

const COUNT: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";

#[test]
fn perf_samples_a_suspended_process_and_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut child, perf)) = attached(dir.path(), &format!("{COUNT}; sh -c '{COUNT}'; :")) else { return };
    let begin = monotonic();
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    assert!(child.wait().unwrap().success());
    let end = monotonic();
    let Reading::Measured(taken) = perf.finish(&Interrupt::default()) else { panic!("no profile") };
    let profile = Profile::from_files(&taken.files).unwrap();
    assert!(profile.threads.len() >= 2 && profile.threads.iter().any(|t| t.pid == child.id()), "{:?}", profile.threads);
    assert!(profile.samples.iter().all(|sample| begin <= sample.at && sample.at <= end), "one clock");
    let selection = profile.during(None);
    assert!(selection.samples > 10 && selection.busy <= end.since(begin) + end.since(begin), "{}", selection.samples);
    assert!(profile.functions.iter().any(|function| function.file.ends_with("sh")), "the shell's own code");
}

/// With `--perf-basic-prof` V8 names its machine code in `/tmp/perf-PID.map`.
#[test]
fn perf_names_functions_of_javascript_by_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let hot = "function inner(n) { let s = 0; for (let i = 0; i < n; i += 1) s += Math.sqrt(i) % 7; return s; }\n\
               for (let k = 0; k < 300; k += 1) inner(100000);\n";
    std::fs::write(dir.path().join("hot.js"), hot).unwrap();
    if !Command::new("node").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return skipped("node", &prony_model::reading::Why::NotSupported("`node` is not there".into()));
    }
    // V8 writes a log beside the map into the directory in which it works.
    let script = format!("cd '{}' && node --perf-basic-prof ./hot.js", dir.path().display());
    let Some((mut child, perf)) = attached(dir.path(), &script) else { return };
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    assert!(child.wait().unwrap().success());
    let Reading::Measured(taken) = perf.finish(&Interrupt::default()) else { panic!("no profile") };
    let profile = Profile::from_files(&taken.files).unwrap();
    let inner: Vec<_> = profile.functions.iter().filter(|function| function.name == "inner").collect();
    let [inner] = inner.as_slice() else { panic!("{inner:?}") };
    assert!(inner.file.ends_with("/hot.js") && inner.line == Some(1), "{inner:?}");
    assert_eq!(profile.packages[inner.package], "the program");
}

#[test]
fn perf_ends_where_the_process_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut child, perf)) = attached(dir.path(), "sleep 100") else { return };
    assert!(matches!(perf.finish(&Interrupt::default()), Reading::Measured(_)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(usable(dir.path()), Reading::Measured(())));
    assert!(!dir.path().join("perf").exists(), "nothing is left behind");
}

#[test]
fn perf_says_why_it_cannot_attach() {
    let dir = tempfile::tempdir().unwrap();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    match Perf::attach(&[ended.id()], &dir.path().join("gone"), Nanos::from_millis(1)) {
        Reading::Measured(_) => panic!("attached to nothing"),
        Reading::Missing(why) => assert!(why.to_string().contains("perf"), "{why}"),
    }
}
