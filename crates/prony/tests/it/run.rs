//! Tests `prony run` through the real binary: real processes, real ends of trials.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use prony_experiment::plan;
use prony_model::event::Event;
use prony_model::metric::MetricKey;
use prony_model::outcome::Outcome;
use prony_model::record::{Completion, PhaseRecord};
use prony_model::trial::PlannedTrial;
use prony_results::{Database, RunData, RunId};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A folder with an experiment in it.
struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new(experiment: &str) -> Self {
        // On the file system of the checkout, as a user's results would be; /tmp may be memory.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::write(dir.path().join("x.toml"), experiment).unwrap();
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
        command.args(arguments).current_dir(self.path()).env_clear();
        command
    }

    fn prony(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn run(&self) -> RunData {
        let database = Database::open(&self.path().join("prony.db")).unwrap();
        database.load_run(RunId(1)).unwrap()
    }

    /// What a trial leaves in the folder while it runs.
    fn scratch(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
    }

    /// Processes whose working directory is inside the folder.
    fn processes(&self) -> usize {
        let inside = |entry: std::fs::DirEntry| {
            std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(self.path()))
        };
        std::fs::read_dir("/proc").unwrap().flatten().map(inside).filter(|inside| *inside).count()
    }

    fn wait_until(&self, what: &str, mut reached: impl FnMut(&Self) -> bool) {
        let began = Instant::now();
        while !reached(self) {
            assert!(began.elapsed() < Duration::from_secs(60), "{what} was never reached");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn phase<'a>(run: &'a RunData, trial: usize, name: &str) -> &'a PhaseRecord {
    run.trials[trial].phases.iter().find(|phase| phase.name == name).unwrap()
}

fn figure(phase: &PhaseRecord, metric: &str) -> f64 {
    let key: MetricKey = metric.parse().unwrap();
    let reading = phase.reading(key).unwrap_or_else(|| panic!("no `{metric}`"));
    *reading.measured().unwrap_or_else(|| panic!("`{metric}` is {reading:?}"))
}

const SMALL: &str = r#"
[experiment]
title = "Small"
[factors]
engine = ["memory", "lmdb", "sqlite", "redb", "fjall"]
[compare]
baseline = { engine = "memory" }
blocks = 1
[store]
engine = "{engine}"
[data]
records = 300
key = "k{i}"
value = { bytes = 50 }
[[phase]]
name = "write"
put = { transaction = { batch = 100 } }
[[phase]]
name = "read"
get = { order = "shuffled", count = 600 }
[[phase]]
name = "check"
timed = false
verify = {}
"#;

#[test]
fn unmatched_names_are_refused_and_missed_rate_is_reported() {
    let fast = SMALL
        .replace(r#"["memory", "lmdb", "sqlite", "redb", "fjall"]"#, r#"["memory"]"#)
        // Enough of them that the last starts far behind what a hiccup explains.
        .replace("records = 300", "records = 300_000")
        .replace("put = { transaction = { batch = 100 } }", "put = { rate = 100_000_000 }");
    let bench = Bench::new(&fast);
    let output = bench.prony(&["run", "x.toml", "--blocks", "0"]);
    assert_eq!(output.status.code(), Some(2), "a run of no blocks is no run");
    let output = bench.prony(&["run", "x.toml"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let begun = "run 1: Small: 1 variant, 1 block, 2 trials\n";
    // What killed runs of other tests left may be removed before.
    assert!(text(&output.stderr).contains(begun), "{}", text(&output.stderr));
    let mark = "saturated: the requested rate was not sustained (in 2 of 2 trials)";
    assert!(text(&output.stdout).contains(mark), "{}", text(&output.stdout));
    let output = bench.prony(&["show", "--metric", "nosuch.time"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("hint: the phases of this run: `check`, `read`, `write`"),
        "{}",
        text(&output.stderr)
    );
    let output = bench.prony(&["new", "x.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("`x.toml` exists already\nhint: "), "{}", text(&output.stderr));
}

/// Verdicts as declared, a metric that was not declared, and two runs, as documents for other programs.
#[test]
fn comparisons_are_documents_too() {
    let two = SMALL.replace(r#"["memory", "lmdb", "sqlite", "redb", "fjall"]"#, r#"["memory", "redb"]"#);
    let bench = Bench::new(&two);
    for _ in 0..2 {
        assert_eq!(bench.prony(&["run", "x.toml"]).status.code(), Some(0));
    }
    let document = |arguments: &[&str]| -> serde_json::Value {
        let output = bench.prony(&[&["compare", "--json"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let one = document(&["1", "--metric", "write.time", "--metric", "write.cpu"]);
    let rows = one["comparisons"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{one:#}");
    assert_eq!(rows[0]["variant"], "engine=redb");
    assert!(rows[0]["verdict"].is_string() && rows[0]["ratio"].is_number(), "{one:#}");
    assert!(rows[1]["verdict"].is_null() && rows[1]["sentence"].is_null(), "not declared: {one:#}");
    let both = document(&["1", "2", "--metric", "write.time"]);
    assert!(both["verdict"].is_null() && both["figures"][1]["runs"][1]["median"].is_number(), "{both:#}");
    assert_eq!(both["runs"], serde_json::json!([1, 2]));
}

#[test]
fn every_engine_does_the_same_work_and_gives_the_same_answers() {
    let bench = Bench::new(SMALL);
    let output = bench.prony(&["run", "x.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run = bench.run();
    assert_eq!(run.trials.len(), 6, "five engines, the baseline twice");
    let mut answers = Vec::new();
    for at in 0..run.trials.len() {
        assert_eq!(run.trials[at].ending.outcome, Outcome::Ok, "{:?}", run.trials[at].ending);
        let (write, read) = (phase(&run, at, "write"), phase(&run, at, "read"));
        assert_eq!((figure(write, "operations"), figure(write, "transactions")), (300.0, 3.0));
        assert_eq!((figure(read, "operations"), figure(read, "rows"), figure(read, "distinct")), (600.0, 600.0, 300.0));
        assert!(figure(write, "time") > 0.0 && figure(write, "anon.end") > 0.0);
        assert!(figure(read, "wall") >= figure(read, "time"));
        answers.push(read.answer.clone().unwrap());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.comparable), "{answers:?}");
    assert!(text(&output.stdout).contains("Small"), "the tables come at the end");
    assert!(bench.scratch().is_empty(), "{:?}", bench.scratch());
}

#[test]
fn syncs_are_counted_where_they_may_be() {
    let bench = Bench::new(&SMALL.replace(r#"["memory", "lmdb", "sqlite", "redb", "fjall"]"#, r#"["memory", "redb"]"#));
    assert_eq!(bench.prony(&["run", "x.toml"]).status.code(), Some(0));
    let run = bench.run();
    let redb = (0..3).find(|at| {
        run.trials[*at].store().is_some_and(|store| store.engine == "redb") || run.trials[*at].trial.variant == 1
    });
    let write = phase(&run, redb.unwrap(), "write");
    let reading = write.reading("fdatasync".parse().unwrap()).unwrap();
    match reading.measured() {
        Some(syncs) => assert!((3.0..=6.0).contains(syncs), "three commits of redb: {syncs}"),
        None if std::env::var_os("PRONY_REQUIRE_ALL").is_some() => panic!("{reading:?}"),
        None => println!("SKIPPED: sync calls cannot be counted here: {reading:?}"),
    }
}

#[test]
fn events_are_lines_of_json_in_order() {
    let bench = Bench::new(SMALL);
    let output = bench.prony(&["run", "x.toml", "--json", "--only", "engine=memory,lmdb"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let events: Vec<Event> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let began = events.iter().position(|event| matches!(event, Event::RunBegan { trials: 3, .. }));
    let ends = events.iter().filter(|event| matches!(event, Event::TrialEnded { .. })).count();
    assert!(began.is_some() && ends == 3, "{events:#?}");
    assert!(matches!(events.last(), Some(Event::RunEnded { ok: 3, failed: 0, interrupted: false, .. })));
}

#[test]
fn all_faults_of_a_file_are_listed_with_line_and_column() {
    let bench =
        Bench::new("[store]\nengin = \"lmdb\"\n[data]\nrecords = -5\nkey = \"k{i}\"\nvalue = { bytes = \"1 mile\" }\n");
    let output = bench.prony(&["run", "x.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    for wanted in ["x.toml:2:1", "did you mean `engine`?", "x.toml:4:11", "x.toml:6:19", "nothing was run"] {
        assert!(said.contains(wanted), "`{wanted}` is missing in:\n{said}");
    }
    assert!(!bench.path().join("prony.db").exists(), "nothing is begun");
}

#[test]
fn check_shows_the_plan_and_runs_nothing() {
    let bench = Bench::new(SMALL);
    let output = bench.prony(&["check", "x.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("5 variants"), "{}", text(&output.stdout));
    assert!(!bench.path().join("prony.db").exists());
}

/// Trials of some length, so that there is a middle to be interrupted in.
fn long() -> String {
    format!("{}\n[[phase]]\nname = \"rest\"\npause = \"400 ms\"\n", SMALL.replace("blocks = 1", "blocks = 2"))
}

fn start(bench: &Bench, arguments: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = bench.command(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

/// Reads events until a phase of this name has begun, after so many trials.
fn until_phase(lines: &mut impl BufRead, name: &str, trials: usize) {
    let (mut line, mut ended) = (String::new(), 0);
    loop {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the run ended early");
        match serde_json::from_str(&line).unwrap() {
            Event::TrialEnded { .. } => ended += 1,
            Event::PhaseBegan { phase, .. } if phase == name && ended >= trials => return,
            _ => {}
        }
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

fn goes_on_to_the_end(bench: &Bench, finished_before: usize) {
    let before: Vec<PlannedTrial> = bench.run().trials.iter().map(|record| record.trial).collect();
    assert!(before.len() >= finished_before, "what was done is kept: {before:?}");
    let output = bench.prony(&["run", "--resume"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run = bench.run();
    let trials: Vec<PlannedTrial> = run.trials.iter().map(|record| record.trial).collect();
    assert_eq!(trials, plan::resumed(&run.experiment, &before), "what is left of the plan, once");
    assert!(trials.len() >= 12 && trials[..before.len()] == before, "{trials:?}");
    assert!(run.trials.iter().all(|record| record.ending.outcome.is_ok()));
}

#[test]
fn a_killed_runner_leaves_no_orphan_no_half_trial_and_can_be_resumed() {
    let bench = Bench::new(&long());
    let (mut child, mut lines) = start(&bench, &["run", "x.toml", "--json"]);
    until_phase(&mut lines, "rest", 2);
    bench.wait_until("a trial under way", |bench| bench.processes() > 0 && !bench.scratch().is_empty());
    send(&child, Signal::KILL);
    child.wait().unwrap();
    bench.wait_until("a folder without scratch", |bench| bench.scratch().is_empty());
    bench.wait_until("no process of the trial", |bench| bench.processes() == 0);
    goes_on_to_the_end(&bench, 2);
}

#[test]
fn an_interrupt_ends_cleanly_and_keeps_what_is_done() {
    let bench = Bench::new(&long());
    let (mut child, mut lines) = start(&bench, &["run", "x.toml", "--json"]);
    until_phase(&mut lines, "rest", 1);
    // As `timeout` does, which signals the process and then its group, and a terminal that closes.
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        send(&child, signal);
    }
    let rest: Vec<Event> = lines.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(matches!(rest.last(), Some(Event::RunEnded { interrupted: true, .. })), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(bench.scratch().is_empty() && bench.processes() == 0, "the trial is removed before the runner ends");
    goes_on_to_the_end(&bench, 1);
}

#[test]
fn a_resumed_run_goes_on_where_its_scratch_was() {
    let bench = Bench::new(&long());
    let elsewhere = bench.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let (mut child, mut lines) = start(&bench, &["run", "x.toml", "--json", "--scratch", "elsewhere"]);
    until_phase(&mut lines, "rest", 1);
    bench.wait_until("a store there", |_| std::fs::read_dir(&elsewhere).unwrap().count() > 0);
    send(&child, Signal::INT);
    child.wait().unwrap();
    std::fs::remove_dir_all(&elsewhere).unwrap();
    let output = bench.prony(&["run", "--resume"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("elsewhere"), "{said}");
    std::fs::create_dir(&elsewhere).unwrap();
    goes_on_to_the_end(&bench, 1);
    assert_eq!(bench.run().head.scratch, Some(elsewhere));
}

#[test]
fn a_summary_that_cannot_be_written_is_noticed_before_anything_runs() {
    let bench = Bench::new(SMALL);
    let output = bench.prony(&["run", "x.toml", "--summary", "nowhere/summary.md"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("`nowhere/summary.md`"), "{said}");
    assert!(!bench.path().join("prony.db").exists(), "nothing is begun");
}

#[test]
fn resume_refuses_another_experiment() {
    let bench = Bench::new(&long());
    let (mut child, mut lines) = start(&bench, &["run", "x.toml", "--json"]);
    until_phase(&mut lines, "rest", 0);
    send(&child, Signal::INT);
    drop(lines);
    child.wait().unwrap();
    std::fs::write(bench.path().join("x.toml"), SMALL).unwrap();
    let output = bench.prony(&["run", "x.toml", "--resume"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("is not the experiment of run 1") && said.contains("hint: leave the file out"), "{said}");
}

#[test]
fn hint_of_another_experiment_leaves_out_no_file_that_the_run_needs() {
    let program = "[observe]\nrecord_commands = false\n[compare]\nblocks = 2\n[program.p]\n\
                   command = [\"sh\", \"-c\", \"echo rest; exec sleep 600\"]\n\
                   [[phase]]\nname = \"rest\"\nbegin = { line = \"rest\" }\n";
    let bench = Bench::new(program);
    let (mut child, mut lines) = start(&bench, &["run", "x.toml", "--json"]);
    until_phase(&mut lines, "rest", 0);
    send(&child, Signal::INT);
    drop(lines);
    child.wait().unwrap();
    let said = |arguments: &[&str]| text(&bench.prony(arguments).stderr).to_owned();
    assert!(said(&["run", "--resume"]).contains("hint: name the experiment file"));
    std::fs::write(bench.path().join("x.toml"), SMALL).unwrap();
    let refused = said(&["run", "x.toml", "--resume"]);
    assert!(refused.contains("is not the experiment of run 1") && refused.contains("without --resume"), "{refused}");
    assert!(!refused.contains("leave the file out"), "{refused}");
}

const LIMITED: &str = r#"
[limits]
memory = "96 MiB"
[store]
engine = "memory"
[data]
records = 1_000
key = "k{i}"
value = { bytes = "1 MB" }
[[phase]]
name = "little"
put = { count = 10 }
[[phase]]
name = "much"
put = { count = 1_000 }
[[phase]]
name = "never"
get = {}
"#;

#[test]
fn running_out_of_memory_is_a_result() {
    let bench = Bench::new(LIMITED);
    let output = bench.prony(&["run", "x.toml", "--blocks", "1"]);
    let said = text(&output.stderr);
    if said.contains("cannot be enforced here") {
        assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "{said}");
        println!("SKIPPED: memory cannot be limited here");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "a trial failed: {said}");
    let run = bench.run();
    let ending = &run.trials[0].ending;
    assert!(
        matches!(ending.outcome, Outcome::OutOfMemory { by: prony_model::outcome::OutOfMemory::Limit }),
        "{ending:?}"
    );
    assert_eq!(ending.phase.as_deref(), Some("much"));
    assert!(ending.evidence.iter().any(|line| line.contains("oom_kill")), "{ending:?}");
    assert_eq!(phase(&run, 0, "little").completion, Completion::Complete);
    assert_eq!(figure(phase(&run, 0, "little"), "operations"), 10.0);
    assert_eq!(phase(&run, 0, "much").completion, Completion::Partial);
    assert!(figure(phase(&run, 0, "much"), "wall") > 0.0, "partial times are kept");
    assert_eq!(phase(&run, 0, "never").completion, Completion::NotReached);
    assert!(text(&output.stdout).contains("OOM in much"), "{}", text(&output.stdout));
}

#[test]
fn a_phase_that_takes_too_long_times_out() {
    let hanging = "[store]\nengine = \"memory\"\n[limits]\ntime = { phase = \"300 ms\" }\n[data]\nrecords = 10\nkey = \"k{i}\"\nvalue = { bytes = 10 }\n[[phase]]\nname = \"hang\"\nput = { pause = { every = 1, for = \"10 min\" } }\n";
    let bench = Bench::new(hanging);
    let output = bench.prony(&["run", "x.toml", "--blocks", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let ending = bench.run().trials[0].ending.clone();
    assert_eq!((ending.outcome, ending.phase.as_deref()), (Outcome::TimedOut, Some("hang")));
    assert!(bench.scratch().is_empty() && bench.processes() == 0);
}

#[test]
fn a_store_that_settles_says_when() {
    let settling =
        format!("{}\n[[phase]]\nname = \"settle\"\nsettle = {{ quiet = \"500 ms\", within = \"60 s\" }}\n", SMALL);
    let bench = Bench::new(&settling);
    let output = bench.prony(&["run", "x.toml", "--only", "engine=memory"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run = bench.run();
    let settle = phase(&run, 0, "settle");
    assert_eq!(settle.completion, Completion::Complete);
    assert!(figure(settle, "settle.time") <= figure(settle, "wall"));
    assert_eq!(figure(settle, "time"), figure(settle, "settle.time"), "as of a program");
}
