//! Tests profiles through the real binary: what is sampled, where the profile is stored, and that no result includes
//! it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use prony_analysis::profile::Profile;
use prony_model::profile::{ProfileRecord, Profiler};
use prony_model::reading::{Reading, Why};
use prony_results::{Database, RunData};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::report_page;

/// A folder with a database of its own.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    /// With a file for each name and text.
    fn new(files: &[(&str, &str)]) -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        for (name, text) in files {
            fs::create_dir_all(bench.path(name).parent().unwrap()).unwrap();
            fs::write(bench.path(name), text).unwrap();
        }
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
        command.args(args).current_dir(self.dir.path()).env("NO_COLOR", "1");
        command
    }

    /// Standard output of a command that must succeed.
    fn says(&self, args: &[&str]) -> String {
        said(&self.command(args).output().unwrap())
    }

    fn database(&self) -> Database {
        Database::open(&self.path("prony.db")).unwrap()
    }

    /// The latest run and its profiles.
    fn results(&self) -> (RunData, Vec<ProfileRecord>) {
        let database = self.database();
        let run = database.runs().unwrap().last().unwrap().id;
        (database.load_run(run).unwrap(), database.profiles(run).unwrap())
    }
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Whether Node is there; said aloud where it is not.
fn has_node() -> bool {
    let there = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "`node` is required and missing");
        println!("SKIPPED: `node` is not there");
    }
    there
}

/// Two phases with functions of their own; in the second, one does three times the work of the other: work and not time,
/// which a busy machine takes from the shorter one too. Marks carry their own time, however late they are read.
const HOT: &str = "
const lib = require('./node_modules/busy/index.js');
const fs = require('fs');
const mark = (name, boundary) => process.env.PRONY_MARKS && fs.appendFileSync(process.env.PRONY_MARKS, JSON.stringify({ mark: name, boundary, at: Number(process.hrtime.bigint()) }) + '\\n');
function early() { let x = 0; for (let i = 0; i < 60e6; i++) x += Math.sqrt(i); return x; }
function three() { let x = 0; for (let i = 0; i < 24e6; i++) x += Math.sqrt(i); return x; }
mark('A', 'begin'); early(); mark('A', 'end');
mark('B', 'begin'); for (let i = 0; i < 12; i++) { three(); lib.one(); } mark('B', 'end');
";
const BUSY: &str =
    "exports.one = function one() { let x = 0; for (let i = 0; i < 8e6; i++) x += Math.sqrt(i); return x; };";

const EXPERIMENT: &str = "
[factors]
n = [1, 2]
[compare]
blocks = 2
[observe]
care = \"light\"
profile = \"cpu\"
[program.hot]
command = [\"node\", \"hot.js\", \"-{n}\"]
directory = \".\"
runtime = \"node\"
[[phase]]
name = \"A\"
[[phase]]
name = \"B\"
";

fn hot() -> Bench {
    let bench = Bench::new(&[("hot.js", HOT), ("e.toml", EXPERIMENT)]);
    fs::create_dir_all(bench.path("node_modules/busy")).unwrap();
    fs::write(bench.path("node_modules/busy/index.js"), BUSY).unwrap();
    bench
}

/// How many samples found each function at work in a phase of a variant's profile: each is taken while the thread runs,
/// however long it waited for a processor before.
fn samples(bench: &Bench, variant: usize, phase: &str) -> BTreeMap<String, f64> {
    let (data, records) = bench.results();
    let trial = records[variant].trial.as_ref().unwrap();
    let phase = trial.phases.iter().find(|found| found.name == phase).unwrap();
    let profile = Profile::from_files(&bench.database().profile_files(data.head.id, variant).unwrap()).unwrap();
    let span = phase.begin.unwrap()..phase.end.unwrap();
    let mut counts = BTreeMap::new();
    for sample in profile.samples.iter().filter(|sample| span.contains(&sample.at)) {
        *counts.entry(profile.function_of(sample.frame).name.clone()).or_default() += 1.0;
    }
    counts
}

#[test]
fn hot_functions_are_found_in_their_phases_and_count_in_no_figure() {
    if !has_node() {
        return;
    }
    let bench = hot();
    let plan = bench.says(&["check", "e.toml"]);
    assert!(plan.contains("2 more trials, one of each variant, run under a profiler after the blocks"), "{plan}");
    bench.says(&["run", "e.toml", "--quiet"]);
    let (data, records) = bench.results();
    assert_eq!((data.trials.len(), data.head.planned, data.head.finished, data.head.ok), (4, 4, 4, 4));
    assert_eq!(records.iter().map(|record| record.variant).collect::<Vec<_>>(), [0, 1]);
    assert!(records.iter().all(|record| record.profiler == Profiler::V8 && record.interval.measured().is_some()));
    let counts = samples(&bench, 1, "B");
    let ratio = counts["three"] / counts["one"];
    assert!((1.8..5.0).contains(&ratio), "{ratio}");
    assert!(!counts.contains_key("early"), "it belongs to the other phase");
    let counts = samples(&bench, 1, "A");
    assert!(counts["early"] > 0.5 * counts.values().sum::<f64>() && !counts.contains_key("one"), "{counts:?}");

    let shown = bench.says(&["show"]);
    assert!(shown.ends_with("where the time goes: `prony profile 1`\n"), "{shown}");
    let document: Value = serde_json::from_str(&bench.says(&["report", "--format", "json"])).unwrap();
    let of_variant = |variant: &Value| variant["trials"].as_array().unwrap().len();
    let trials: usize = document["variants"].as_array().unwrap().iter().map(of_variant).sum();
    assert_eq!(trials, 4, "{:.300}", document.to_string());
    let text = bench.says(&["profile", "--variant", "n=2", "--phase", "B"]);
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no `{what}` in {text}"));
    assert!(at("three (hot.js:6)") < at("one (index.js:1)"), "{text}");
    assert!(at("[the program]") < at("[busy]") && text.contains("of the median of 2 trials without it"), "{text}");
    assert!(!text.contains("n=1") && !text.contains("phase A"), "{text}");
    let document = bench.says(&["report"]);
    assert!(
        document.contains("## Where the time goes: n=2") && document.contains("| three (hot.js:6) | the program |"),
        "{document}"
    );
    formats(&bench);
    bench.says(&["rm", "1", "--yes"]);
    assert!(bench.database().profiles(data.head.id).unwrap().is_empty());
    assert!(bench.database().profile_files(data.head.id, 0).unwrap().is_empty());
}

fn formats(bench: &Bench) {
    let folded = bench.says(&["profile", "--variant", "n=1", "--format", "folded"]);
    assert!(folded.lines().any(|line| line.starts_with("A;") && line.contains(";early (hot.js:5) ")), "{folded}");
    let refused = bench.command(&["profile", "--format", "speedscope"]).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && why.contains("--variant 'n=1'"), "{why}");
    bench.says(&["profile", "--variant", "n=1", "--format", "speedscope", "-o", "s.json"]);
    let file: Value = serde_json::from_str(&fs::read_to_string(bench.path("s.json")).unwrap()).unwrap();
    let names: Vec<&str> = file["profiles"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert!(names[0].starts_with("A: hot.js [") && names[1].starts_with("B: hot.js ["), "{names:?}");
    bench.says(&["profile", "--format", "raw", "-o", "raw"]);
    let files: Vec<PathBuf> = fs::read_dir(bench.path("raw")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|path| path.extension().is_some_and(|extension| extension == "cpuprofile")));
    let unknown = bench.command(&["profile", "--phase", "C"]).output().unwrap();
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("`A`, `B`"));
}

#[test]
fn a_resumed_run_makes_the_profiles_that_it_lacks() {
    if !has_node() {
        return;
    }
    let bench = hot();
    bench.says(&["run", "e.toml", "--quiet"]);
    let (before, records) = bench.results();
    let raw = rusqlite::Connection::open(bench.path("prony.db")).unwrap();
    raw.execute_batch(
        "PRAGMA foreign_keys = 1; DELETE FROM profiles WHERE variant = 1; UPDATE runs SET status = 'interrupted'",
    )
    .unwrap();
    drop(raw);
    bench.says(&["run", "--resume", "--quiet"]);
    let (after, again) = bench.results();
    assert_eq!(after.trials, before.trials, "no trial ran again");
    assert_eq!(again[0], records[0], "nor the profile that was there");
    assert!(again.len() == 2 && again[1].trial.is_some() && again[1] != records[1]);
}

#[test]
fn a_command_is_profiled_without_a_file() {
    if !has_node() {
        return;
    }
    let bench = hot();
    let text = bench.says(&["exec", "--profile", "--runtime", "node", "-r", "2", "--", "node", "hot.js"]);
    assert!(text.contains("profile of the only variant") && text.contains("three (hot.js:6)"), "{text}");
    let (data, records) = bench.results();
    assert_eq!((data.trials.len(), records.len()), (2, 1));
}

const STORE: &str = "
[compare]
blocks = 1
[observe]
profile = \"cpu\"
care = \"light\"
[store]
engine = \"memory\"
[data]
records = 100_000
key = \"{i}\"
value = { bytes = 1000 }
[[phase]]
name = \"write\"
put = {}
";

#[test]
fn a_bare_store_is_profiled_by_perf_where_that_is_permitted() {
    let bench = Bench::new(&[("e.toml", STORE)]);
    bench.says(&["run", "e.toml", "--quiet"]);
    let (data, records) = bench.results();
    assert_eq!((data.trials.len(), records.len(), records[0].profiler), (1, 1, Profiler::Perf));
    let text = bench.says(&["profile"]);
    match &records[0].interval {
        Reading::Missing(why) => {
            assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "{why}");
            println!("SKIPPED: {why}");
            assert!(records[0].trial.is_none() && text.contains(&why.to_string()), "{text}");
        }
        Reading::Measured(_) => {
            assert!(text.contains("phase write") && text.contains("[prony"), "{text}");
            let page = report_page::data(&bench.says(&["report", "--html"])).to_string();
            assert!(page.contains("\"calls\":[[-1,"), "the flame graph's calls are in the page");
        }
    }
}

const REPLICAS: &str = "[compare]
blocks = 1
[observe]
care = \"light\"
profile = \"cpu\"
[program.x]
shell = true
command = \"echo ready; exec sleep 600\"
replicas = { count = 2, phase = \"work\", command = \"head -c 300000000 /dev/zero | cksum\" }
[[phase]]
name = \"work\"
begin = { line = \"ready\" }
end = { replicas = \"ended\" }
then = \"stop\"
";

#[test]
fn replicas_are_profiled_with_their_program() {
    let bench = Bench::new(&[("e.toml", REPLICAS)]);
    bench.says(&["run", "e.toml", "--quiet"]);
    let (data, records) = bench.results();
    assert_eq!((data.trials.len(), records.len(), records[0].profiler), (1, 1, Profiler::Perf));
    if let Reading::Missing(why) = &records[0].interval {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "{why}");
        println!("SKIPPED: {why}");
        return;
    }
    let text = bench.says(&["profile"]);
    assert!(text.contains("phase work") && text.contains("cksum"), "{text}");
}

/// A `perf script` that hung: a run with a time limit of 3 s did not end.
#[test]
fn an_interrupt_ends_the_reading_of_samples_and_a_resumed_run_makes_the_profile() {
    let bench = Bench::new(&[("e.toml", STORE), ("bin/perf", "")]);
    let path = std::env::var("PATH").unwrap();
    let stub = format!(
        "#!/bin/sh\n[ \"$1\" != script ] || {{ : > '{}'; exec sleep 3600; }}\nPATH='{path}' exec perf \"$@\"\n",
        bench.path("reads").display()
    );
    fs::write(bench.path("bin/perf"), stub).unwrap();
    fs::set_permissions(bench.path("bin/perf"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = bench.command(&["run", "e.toml", "--quiet"]);
    command.env("PATH", format!("{}:{path}", bench.path("bin").display()));
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !bench.path("reads").exists() {
        if run.try_wait().unwrap().is_some() {
            let why = &bench.results().1[0].interval;
            assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "{why:?}");
            return println!("SKIPPED: {why:?}");
        }
        assert!(Instant::now() < deadline, "`perf script` never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    run.wait().unwrap();
    assert!(bench.results().1.is_empty(), "it is still to be made");
    bench.says(&["run", "--resume", "--quiet"]);
    let (data, records) = bench.results();
    assert!(data.trials.len() == 1 && records[0].interval.measured().is_some(), "{records:?}");
}

#[test]
fn where_perf_is_missing_the_reason_is_in_every_report() {
    let bench = Bench::new(&[("e.toml", STORE)]);
    let nowhere = bench.path("nowhere");
    let output = bench.command(&["run", "e.toml"]).env("PATH", nowhere).output().unwrap();
    said(&output);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(log.contains("[profile 1/1]") && log.contains("`perf` is not installed"), "{log}");
    let (data, records) = bench.results();
    assert_eq!(data.trials.len(), 1);
    assert!(records[0].trial.is_none(), "no trial ran for nothing");
    assert!(matches!(&records[0].interval, Reading::Missing(Why::NotSupported(_))));
    assert!(bench.says(&["profile"]).contains("no profile: not supported"), "{}", bench.says(&["profile"]));
    let page = report_page::data(&bench.says(&["report", "--html"])).to_string();
    assert!(page.contains("`perf` is not installed"), "{page}");
    let refused = bench.command(&["profile", "--format", "folded"]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the profiles have no sample to write"));
}
