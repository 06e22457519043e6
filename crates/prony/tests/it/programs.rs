//! Programs through the real binary: what they are given, how their phases are seen, and how they end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};
use prony_model::record::{Completion, ProbeReport, TrialRecord};
use prony_results::{Database, RunData, RunId, RunStatus};

/// A folder with a database of its own.
pub(crate) struct Bench {
    dir: tempfile::TempDir,
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

    fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn prony(&self, args: &[&str]) -> Output {
        Command::new(PRONY)
            .args(args)
            .current_dir(self.dir.path())
            .env("NO_COLOR", "1")
            .env("PRONY_CACHE", self.path("cache"))
            .envs(self.shared.then_some(("PRONY_SHARED", "1")))
            .output()
            .unwrap()
    }

    /// Begins `prony exec`, which may hang where it should not.
    fn begin(&self, args: &[&str]) -> Child {
        let mut command = Command::new(PRONY);
        command.arg("exec").args(args).current_dir(self.dir.path()).env("PRONY_CACHE", self.path("cache"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The data of `prony exec` that is ended where it hangs.
    fn exec_to_its_end(&self, args: &[&str]) -> RunData {
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
        fs::write(self.path("e.toml"), format!("{compare}[observe]\ncare = \"light\"\nhertz = 100\n{body}")).unwrap();
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

pub(crate) fn shell(script: &str) -> String {
    format!("[program.x]\nshell = true\ncommand = '''{}'''\n", script.replace('{', "{{").replace('}', "}}"))
}

pub(crate) fn reading(trial: &TrialRecord, phase: &str, key: MetricKey) -> Option<f64> {
    let phase = trial.phases.iter().find(|found| found.name == phase).unwrap();
    phase.reading(key)?.measured().copied()
}

pub(crate) fn amount(trial: &TrialRecord, phase: &str, metric: Metric) -> f64 {
    reading(trial, phase, MetricKey::amount(metric)).unwrap_or_else(|| panic!("no {}", metric.name()))
}

/// All but those that depend on how busy the machine is, and the note on processes with a good part (`processes.rs`).
pub(crate) fn guards(trial: &TrialRecord) -> Vec<&str> {
    let all = trial.findings.iter().map(|finding| finding.guard.as_str());
    all.filter(|guard| !matches!(*guard, "late_counters" | "heap_read_rarely" | "process_share")).collect()
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
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_program_sees_what_was_declared_and_nothing_else() {
    let bench = Bench::new();
    let body = "[program.x]\ncommand = [\"sh\", \"-c\", \"env | sort; cat; pwd; ls -a\"]\n\
                env = { MINE = \"a {{b}}\" }\ninput = { text = \"typed\\n\" }\n";
    let trial = bench.trial(body);
    let text = said(&trial);
    assert!(text.contains("MINE=a {b}\n") && text.contains("PATH=") && text.contains("typed\n"), "{text}");
    assert!(!text.contains("NO_COLOR") && !text.contains("CARGO"), "{text}");
    assert!(text.contains("/work\n.\n..\n"), "an empty directory of its own: {text}");
    let tmp = text.lines().find_map(|line| line.strip_prefix("TMPDIR=")).unwrap();
    assert!(!Path::new(tmp).exists(), "gone with the trial");
}

#[test]
fn a_directory_is_copied_and_never_touched() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    fs::write(bench.path("site/n"), "0").unwrap();
    let count = "command = \"echo $(($(cat n) + 1)) > n; cat n\"\nshell = true\ndirectory = \"site\"\n";
    let numbers = |data: &RunData| data.trials.iter().map(|trial| said(trial).to_owned()).collect::<Vec<_>>();
    let three = "[compare]\nblocks = 3\n";
    let shared = bench.run(&format!("{three}[program.x]\n{count}"));
    assert_eq!(numbers(&shared), ["1\n", "2\n", "3\n"]);
    let fresh = bench.run(&format!("{three}[program.x]\n{count}copy = \"trial\"\nwarmup = 2\n"));
    assert_eq!(numbers(&fresh), ["1\n"; 3]);
    assert_eq!(fs::read_to_string(bench.path("site/n")).unwrap(), "0");
    let warmed = bench.run(&format!("{three}[program.x]\n{count}warmup = 2\n"));
    assert_eq!(numbers(&warmed), ["3\n", "4\n", "5\n"], "warm-ups ran and are in no record");
    let left: Vec<_> = fs::read_dir(bench.dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".prony-")), "{left:?}");
}

#[test]
fn variants_of_code_are_levels_and_each_step_runs_when_it_should() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    fs::write(bench.path("site/a.sh"), "cat built; echo slow").unwrap();
    let log = bench.path("log");
    let body = format!(
        "[compare]\nblocks = 2\nbaseline = {{ code = \"as-is\" }}\ntwice = false\n[factors.code]\nas-is = {{}}\n\
         fast = {{ replace = {{ file = \"a.sh\", find = \"slow\", with = \"fast\" }} }}\n[program.x]\n\
         command = \"sh a.sh\"\ndirectory = \"site\"\nchange = \"{{code}}\"\n\
         build = \"echo built > built; echo build >> {log}\"\nprepare = \"echo prepare >> {log}\"\n\
         cleanup = [\"sh\", \"-c\", \"echo cleanup >> {log}\"]\n",
        log = log.display()
    );
    let data = bench.run(&body);
    for trial in &data.trials {
        let expected = if trial.trial.variant == 0 { "built\nslow\n" } else { "built\nfast\n" };
        assert_eq!(said(trial), expected);
    }
    let log = fs::read_to_string(log).unwrap();
    let times = |what: &str| log.lines().filter(|line| *line == what).count();
    assert_eq!((times("build"), times("prepare"), times("cleanup")), (2, 4, 2));
    let changed = data.trials.iter().find(|trial| trial.trial.variant == 1).unwrap();
    assert!(changed.program().unwrap().changes[0].starts_with("`a.sh` changed 1 times, now "));
}

#[test]
fn conclude_can_end_what_a_program_leaves_running() {
    let bench = Bench::new();
    let program = "[program.x]\nshell = true\ncommand = \"sleep 100 >&2 & echo $! > pid\"\n\
                   conclude = \"p=$(cat {dir}/pid); kill $p; while kill -0 $p; do sleep 0.01; done\"\ndirectory = \"site\"\n";
    fs::create_dir(bench.path("site")).unwrap();
    // Even where the trial has a copy of its own, what it wrote is still there.
    let own = "copy = \"trial\"\nconclude";
    let warmed = "warmup = 1\nconclude";
    let both = "warmup = 1\ncopy = \"trial\"\nconclude";
    for (key, killed) in [("conclude", 0), ("#conclude", 1), (own, 0), (warmed, 0), (both, 0)] {
        let trial = bench.trial(&program.replace("conclude", key));
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
        assert_eq!(trial.program().unwrap().left_behind, 1, "{key}");
        assert_eq!(trial.conditions.killed_at_the_end, killed, "{key}: by prony");
    }
}

#[test]
fn output_to_a_fifo_that_nobody_reads_is_refused_and_not_waited_for() {
    let bench = Bench::new();
    assert!(Command::new("mkfifo").arg(bench.path("fifo")).status().unwrap().success());
    let body = "[observe]\ncare = \"light\"\n[program.x]\ncommand = \"true\"\noutput = { file = \"fifo\" }\n";
    fs::write(bench.path("e.toml"), body).unwrap();
    let output = bench.prony(&["run", "e.toml"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("fifo`"), "{text}");
}

#[test]
fn a_change_that_does_not_apply_ends_the_run() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    fs::write(bench.path("site/a"), "text\n").unwrap();
    fs::write(bench.path("a.patch"), "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-text\n+other\n").unwrap();
    // Before the run it is not known what the patch leaves of the file.
    let body = "[observe]\ncare = \"light\"\n[program.x]\ncommand = \"true\"\ndirectory = \"site\"\n\
                change = [{ patch = \"a.patch\" }, { replace = { file = \"a\", find = \"text\", with = \"\" } }]\n";
    fs::write(bench.path("e.toml"), body).unwrap();
    let output = bench.prony(&["run", "e.toml"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("change of program `x` failed: `a` contains the text of `find` 0 times, not 1"), "{text}");
}

#[test]
fn lines_and_marks_make_phases() {
    let bench = Bench::new();
    let script = format!(
        "echo loading; sleep 0.05; echo 'loaded 0.25s - 1,000'; {PRONY} mark work begin; \
         head -c 30000000 /dev/zero | cksum; echo 'work end' >> $PRONY_MARKS; sleep 0.05; echo over"
    );
    let phases = "[[phase]]\nname = \"load\"\nbegin = { line = '^loading$' }\nend = { line = '^loaded' }\n\
                  read = '(?<time>[\\d.]+)s - (?<operations>[\\d,]+)'\n[[phase]]\nname = \"work\"\n\
                  [[phase]]\nname = \"never\"\n[[phase]]\nname = \"open\"\nbegin = { line = 'over' }\nend = { line = \"x\" }\n";
    let trial = bench.trial(&format!("{}{phases}", shell(&script)));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let completions: Vec<Completion> = trial.phases.iter().map(|phase| phase.completion).collect();
    assert_eq!(completions, [Completion::Complete, Completion::Complete, Completion::NotReached, Completion::Partial]);
    assert_eq!(amount(&trial, "load", Metric::Time), 0.25e9);
    assert_eq!((amount(&trial, "load", Metric::Operations), amount(&trial, "load", Metric::Rate)), (1000.0, 4000.0));
    // The first line may have been read late, and by no more than that and what the host of a virtual machine let its
    // processor wait, which nothing inside it can see.
    let lag = amount(&trial, "load", Metric::Lag);
    let wall = reading(&trial, "load", MetricKey::amount(Metric::Wall));
    assert!(lag > 0.0 && wall.is_none_or(|wall| wall + lag >= 25e6), "{wall:?} and {lag}");
    // Where they were read late, which is a finding, counters may be the neighbour's.
    if !trial.findings.iter().any(|finding| finding.guard == "late_counters") {
        assert!(amount(&trial, "work", Metric::Cpu) > amount(&trial, "load", Metric::Cpu), "the work is in its phase");
    }
    // Its script writes any time; where the phase has no figure, there is nothing that it exceeds.
    let found: Vec<&str> = guards(&trial).into_iter().filter(|guard| *guard != "reported_time_exceeds_wall").collect();
    assert_eq!(found, ["phase_never_began", "phase_never_ended"]);
}

#[test]
fn phases_that_repeat_are_a_finding_with_how_often() {
    let bench = Bench::new();
    let script = "for i in 1 2 3; do echo begin; sleep 0.05; echo end; done";
    let phases = "[[phase]]\nname = \"work\"\nbegin = { line = '^begin' }\nend = { line = '^end' }\n\
                  [[phase]]\nname = \"all\"\nbegin = { line = '^begin' }\n";
    let trial = bench.trial(&format!("{}{phases}", shell(script)));
    let found: Vec<_> = trial.findings.iter().filter(|finding| finding.guard == "phase_repeated").collect();
    let [finding] = found[..] else { panic!("{:?}", trial.findings) };
    assert_eq!((finding.phase.as_deref(), finding.data["not_counted"].as_u64()), (Some("work"), Some(2)));
    assert!(finding.message.contains("2 times more"), "{}", finding.message);
}

/// Processes that compute until this goes, two for each processor.
struct Busy(Vec<Child>);

impl Busy {
    fn begin() -> Self {
        let processors = std::thread::available_parallelism().unwrap().get();
        let one = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..2 * processors).map(one).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// A program that writes lines or marks without a time, and then the instants before and after each write.
const DATED: &str = "
import os, sys, time
fd = 1 if sys.argv[1] == 'lines' else os.open(os.environ['PRONY_MARKS'], os.O_WRONLY)
times = []
for i in range(20):
    time.sleep(0.01)
    before = time.monotonic_ns()
    os.write(fd, b'n%d begin\\n' % i)
    times += [before, time.monotonic_ns()]
    for _ in range(30000): pass
print('times', *times)
";

#[test]
fn what_is_written_lies_within_the_lag_before_its_boundary_however_busy_the_machine_is() {
    if crate::runtimes::version("python3").is_none() {
        return;
    }
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    fs::write(bench.path("site/dated.py"), DATED).unwrap();
    let busy = Busy::begin();
    for way in ["lines", "marks"] {
        let phase = |i: u32| match way {
            "lines" => format!("[[phase]]\nname = \"p{i}\"\nbegin = {{ line = '^n{i} begin' }}\n"),
            _ => format!("[[phase]]\nname = \"p{i}\"\nbegin = {{ mark = \"n{i}\" }}\n"),
        };
        let phases: String = (0..20).map(phase).collect();
        let program = format!("[program.x]\ncommand = \"python3 dated.py {way}\"\ndirectory = \"site\"\n");
        let trial = bench.trial(&format!("{program}{phases}"));
        let last = said(&trial).lines().last().unwrap().to_owned();
        let times: Vec<u64> = last.split(' ').skip(1).map(|text| text.parse().unwrap()).collect();
        let wrong: Vec<String> = (0..20)
            .filter_map(|i| {
                let begin = trial.phases[i].begin.unwrap().as_nanos();
                let lag = amount(&trial, &format!("p{i}"), Metric::Lag) as u64;
                let (before, after) = (times[2 * i], times[2 * i + 1]);
                let within = before <= begin && begin.saturating_sub(lag) <= after;
                (!within).then(|| format!("{way} {i}: {before} to {after}, read at {begin} and {lag} late at most"))
            })
            .collect();
        // The host of a virtual machine may let a processor wait unseen.
        assert!(wrong.len() <= 2, "{}", wrong.join("\n"));
    }
    drop(busy);
}

#[test]
fn a_mark_of_another_clock_has_the_time_at_which_it_was_read() {
    let bench = Bench::new();
    let mark =
        |boundary: &str, at: u64| format!(r#"echo '{{"mark":"p","boundary":"{boundary}","at":{at}}}' >> $PRONY_MARKS"#);
    let script = format!("{}; sleep 0.05; {}; sleep 0.05", mark("begin", 5), mark("end", u64::MAX / 2));
    let trial = bench.trial(&format!("{}[[phase]]\nname = \"p\"\n", shell(&script)));
    let (wall, lag) = (amount(&trial, "p", Metric::Wall), amount(&trial, "p", Metric::Lag));
    assert!(wall <= trial.took.as_nanos() as f64, "{wall} of {}: not since the machine's start", trial.took);
    assert!(wall > 0.0 && lag > 0.0, "{wall} and {lag}");
    assert_eq!(guards(&trial), ["strange_marks"]);
    assert_eq!(trial.program().unwrap().strange_marks_in_all, 2);
    let marks = trial.program().unwrap().strange_marks.join("\n");
    assert!(marks.contains("before the program began") && marks.contains("in the future"), "{marks}");
}

#[test]
fn what_programs_answer_must_agree() {
    let bench = Bench::new();
    let body = |second: &str, read: &str| {
        format!(
            "[compare]\nblocks = 2\ntwice = false\nbaseline = {{ which = \"one\" }}\n[factors]\nwhich = [\"one\", \"two\"]\n\
             [program.one]\ncommand = \"echo hits 5 digest ab\"\n[program.two]\ncommand = \"echo {second}\"\n\
             [subject]\nprogram = \"{{which}}\"\n[[phase]]\nname = \"run\"\nread = '{read}'\n"
        )
    };
    let pattern = "hits (?<rows>[0-9]+) digest (?<digest>[0-9a-f]+)";
    let shown = |second: &str, read: &str| {
        let data = bench.run(&body(second, read));
        (data, String::from_utf8(bench.prony(&["show"]).stdout).unwrap())
    };
    let (data, text) = shown("hits 5 digest ab", pattern);
    let answer = data.trials[0].phases[0].answer.clone().unwrap();
    assert_eq!((answer.rows, answer.digest.as_str()), (Some(5), "reported:ab"));
    assert!(!text.contains("answered differently"), "{text}");
    let (_, text) = shown("hits 5 digest cd", pattern);
    assert!(text.contains("reported different answers: `ab` and `cd`"), "{text}");
    let (data, text) = shown("hits 5 digest ab", "digest (?<digest>[0-9a-f]+)");
    let answer = data.trials[0].phases[0].answer.clone().unwrap();
    assert_eq!((answer.rows, answer.digest.as_str()), (None, "reported:ab"), "it told no number, and has none");
    assert!(!text.contains("answered differently"), "{text}");
    // What could not be read was no answer, which agreed with any.
    let (data, text) = shown("hits five digest ab", "hits (?<rows>\\S+) digest");
    let unknown = |variant| {
        let mut trials = data.trials.iter().filter(|trial| trial.trial.variant == variant);
        trials.all(|trial| guards(trial).contains(&"rows_unknown"))
    };
    assert_eq!([unknown(0), unknown(1)], [false, true]);
    assert!(
        text.contains("the number of rows is not known, ") && text.contains("the program reported `five`"),
        "{text}"
    );
    let (data, _) = shown("hits 5 digest ab", "hits: (?<rows>[0-9]+)");
    assert_eq!((guards(&data.trials[0]), data.trials[0].phases[0].answer.clone()), (vec!["read_nothing"], None));
}

/// Where a reported time could not be read the wall time took its place, and was judged.
#[test]
fn figure_that_read_names_is_reported_by_the_program_or_missing() {
    let bench = Bench::new();
    let why = |script: &str| {
        let read = "[[phase]]\nname = \"p\"\nread = 'took (?<time>\\S+)( at (?<cpu>\\S+))?'\n";
        let trial = bench.trial(&format!("{}{read}", shell(script)));
        assert!(amount(&trial, "p", Metric::Wall) > 0.0, "what is observed stays");
        let of = |metric| match trial.phases[0].reading(MetricKey::amount(metric)).unwrap() {
            Reading::Missing(why) => why.to_string(),
            Reading::Measured(number) => number.to_string(),
        };
        [Metric::Time, Metric::Cpu].map(of)
    };
    assert_eq!(why("echo took 0.5 at 2"), ["500000000", "2000000000"]);
    let without = "the last line of the phase that matched `read` did not report it";
    assert_eq!(why("echo took 0.5 at 2; echo took 500ms"), ["the program reported `500ms`", without]);
    assert_eq!(why("echo took: 0.5"), ["no line of the phase reported it"; 2]);
}

#[test]
fn a_line_between_two_marks_is_in_their_phase_however_late_prony_reads() {
    let bench = Bench::new();
    let step = |name: &str, n: u32| {
        format!("echo '{name} begin' >> $PRONY_MARKS; echo '{name} {n}'; echo '{name} end' >> $PRONY_MARKS; ")
    };
    let phases: String = ["a", "b", "c"]
        .map(|name| format!("[[phase]]\nname = \"{name}\"\nmark = \"{name}\"\nread = '{name} (?<operations>[0-9]+)'\n"))
        .concat();
    let script = format!("exec 3>>$PRONY_MARKS; {}{}{}", step("a", 1), step("b", 2), step("c", 3));
    let trial = bench.trial(&format!("{}{phases}", shell(&script)));
    assert!(trial.phases.iter().all(|phase| phase.completion == Completion::Complete), "{:?}", guards(&trial));
    for (name, n) in [("a", 1.0), ("b", 2.0), ("c", 3.0)] {
        assert_eq!(amount(&trial, name, Metric::Operations), n, "{name}");
    }
}

#[test]
fn lines_that_several_marked_phases_match_are_a_finding_and_no_figures() {
    let bench = Bench::new();
    let phases = "[[phase]]\nname = \"a\"\nmark = \"a\"\nread = '^a (?<operations>[0-9]+)'\n\
                  [[phase]]\nname = \"all\"\nread = ' (?<rows>[0-9]+)'\n\
                  [[phase]]\nname = \"b\"\nmark = \"b\"\nread = '^b:(?<operations>[0-9]+)'\n";
    let script = "exec 3>>$PRONY_MARKS; echo 'a begin' >&3; echo 'a 1'; echo 'a end' >&3; \
                  echo 'b begin' >&3; echo 'b:2'; echo 'b end' >&3; echo 'c 3'";
    let trial = bench.trial(&format!("{}{phases}", shell(script)));
    assert_eq!(guards(&trial), ["read_by_several"], "{:?}", trial.findings);
    assert!(trial.findings.iter().any(|finding| finding.message.contains("`a`, `all`")), "{:?}", trial.findings);
    for (phase, metric) in [("a", Metric::Operations), ("all", Metric::Rows)] {
        assert_eq!(reading(&trial, phase, MetricKey::amount(metric)), None, "{phase}");
    }
    assert_eq!((amount(&trial, "b", Metric::Operations), trial.phases[1].answer.clone()), (2.0, None));
}

/// The child has ended long before a sample may have seen it; its parent has waited for it, and continues to run.
#[test]
fn a_peak_is_not_that_of_a_child_that_came_and_went() {
    let bench = Bench::new();
    // Memory of its own, and time for samples.
    let work = "s=x; while [ ${#s} -lt 8000000 ]; do s=$s$s; done; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let peak = |script: &str| {
        let trial = bench.trial(&shell(script));
        reading(&trial, "run", MetricKey::gauge(Metric::Rss, Stat::Peak))
    };
    assert!(peak(work).is_some());
    assert_eq!(peak(&format!("/bin/true; {work}")), None);
}

#[test]
fn a_declared_store_has_its_size_and_its_device_flushes() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let script = "sleep 1; mkdir -p data; head -c 1000000 /dev/zero > data/a; echo one; sleep 1; truncate -s 50M data/b; sync data/a";
    let body = format!(
        "{}directory = \"site\"\nstore = \"{{dir}}/data\"\n[[phase]]\nname = \"one\"\nend = {{ line = \"one\" }}\n\
         [[phase]]\nname = \"two\"\nbegin = {{ line = \"one\" }}\n",
        shell(script)
    );
    fs::write(bench.path("full.toml"), format!("[compare]\nblocks = 2\n{body}")).unwrap();
    let output = bench.prony(&["run", "full.toml", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let trials = bench.data().trials;
    let (fresh, later) = (&trials[0], &trials[1]);
    assert_eq!(amount(fresh, "one", Metric::DiskLength), 1e6);
    assert_eq!(amount(fresh, "two", Metric::DiskLength), 1e6 + f64::from(50 << 20));
    let blocks = amount(fresh, "two", Metric::Disk);
    assert!((1e6..10e6).contains(&blocks), "the second file is sparse: {blocks}");
    let absent =
        |trial: &TrialRecord, phase: usize, metric| match trial.phases[phase].reading(MetricKey::amount(metric)) {
            Some(Reading::Missing(why)) => why.to_string(),
            other => panic!("{other:?}"),
        };
    assert!(absent(fresh, 0, Metric::Cached).contains("No such file"), "{}", absent(fresh, 0, Metric::Cached));
    assert!(amount(fresh, "two", Metric::Cached) > 0.9);
    match fresh.phases[1].reading(MetricKey::amount(Metric::Flushes)).unwrap() {
        Reading::Measured(flushes) => assert!(*flushes >= 1.0, "the file was synced"),
        Reading::Missing(why) => assert!(why.to_string().contains("block device"), "{why}"),
    }
    let store = |trial: &TrialRecord| trial.program().unwrap().store.clone();
    assert!(store(fresh).is_some_and(|store| store.at_begin.is_none() && store.found));
    assert_eq!(store(later).unwrap().at_begin.unwrap().files, 2);
    let carried = |trial: &TrialRecord| guards(trial).contains(&"store_carried_over");
    assert_eq!((carried(fresh), carried(later)), (false, true), "both work in the variant's copy");
    let light = bench.trial(&body);
    for metric in [Metric::Disk, Metric::DiskLength, Metric::Cached, Metric::Flushes, Metric::DeviceWritten] {
        assert!(absent(&light, 1, metric).contains("light care"), "{}", absent(&light, 1, metric));
    }
    assert_eq!(store(&light), None);
}

#[test]
fn a_program_is_stopped_where_a_phase_says_so() {
    let bench = Bench::new();
    let body = "[[phase]]\nname = \"start\"\nend = { line = 'ready' }\nthen = \"stop\"\n";
    let trial = bench.trial(&format!("{}{body}", shell("echo ready; sleep 600")));
    assert_eq!((trial.ending.outcome, trial.phases[0].completion), (Outcome::Ok, Completion::Complete));
}

#[test]
fn a_terminal_lets_lines_through_that_a_pipe_holds_back() {
    let bench = Bench::new();
    let body = "[[phase]]\nname = \"start\"\nend = { line = '^tty ready$' }\nthen = \"stop\"\n";
    let script = "test -t 1 && echo tty ready; sleep 600";
    let trial = bench.trial(&format!("[limits]\ntime = \"60 s\"\n{}pty = true\n{body}", shell(script)));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    assert_eq!(said(&trial), "tty ready\n");
}

#[test]
fn a_hanging_program_that_ignores_sigterm_is_timed_out() {
    let bench = Bench::new();
    let trial = bench.trial(&format!(
        "[limits]\ntime = {{ trial = \"300 ms\" }}\n{}",
        shell("trap '' TERM; echo $$; while :; do sleep 1; done")
    ));
    assert_eq!((trial.ending.outcome, trial.ending.phase.as_deref()), (Outcome::TimedOut, Some("run")));
    assert!(trial.ending.after.as_nanos() >= 300_000_000 && !alive(said(&trial)));
    let phase = "[[phase]]\nname = \"a\"\nlimit = \"100 ms\"\nbegin = { line = 'on' }\nend = { line = 'off' }\n";
    let trial = bench.trial(&format!("{}{phase}", shell("trap '' TERM; echo on; sleep 600")));
    assert_eq!((trial.ending.outcome, trial.ending.phase.as_deref()), (Outcome::TimedOut, Some("a")));
    let stop = "[[phase]]\nname = \"a\"\nend = { line = 'on' }\nthen = \"stop\"\n[[phase]]\nname = \"b\"\nlimit = \"1 s\"\n\
                begin = { line = 'on' }\nend = { line = 'off' }\n";
    let trial = bench.trial(&format!("{}{stop}", shell("trap '' TERM; echo on; sleep 600")));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "it had been asked to end: {:?}", trial.ending);
}

#[test]
fn a_flood_is_bounded_and_counted() {
    let bench = Bench::new();
    let trial = bench.trial(&shell("yes 0123456789abcdef | head -c 67108864"));
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec!["output_flooded"]));
    let stdout = &trial.program().unwrap().output.stdout;
    assert_eq!(stdout.total, 67_108_864);
    assert!(stdout.first.len() + stdout.last.len() < 10_000);
}

#[test]
fn closed_output_and_invalid_utf8_are_nothing_special() {
    let bench = Bench::new();
    let trial = bench.trial(&shell("exec 1>&- 2>&-; sleep 0.2; exit 3"));
    assert_eq!(trial.ending.outcome, Outcome::Failed { code: Some(3) });
    assert!(amount(&trial, "run", Metric::Wall) >= 200e6, "it lived on");
    let phase = "[[phase]]\nname = \"a\"\nend = { line = 'b$' }\n";
    let trial = bench.trial(&format!("{}{phase}", shell("printf 'a\\377\\376b\\n'")));
    assert_eq!(trial.phases[0].completion, Completion::Complete);
    assert_eq!(said(&trial), "a\u{fffd}\u{fffd}b\n");
}

#[test]
fn daemons_and_endless_forks_are_ended_with_the_trial() {
    let bench = Bench::new();
    let trial = bench.trial(&shell("setsid sleep 600 >/dev/null 2>&1 & echo $!"));
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec!["left_behind"]));
    assert!(!alive(said(&trial)));
    let forks = "echo $$; f() { sleep 600 & f & sleep 600; }; f";
    let trial = bench.trial(&format!("[limits]\npids = 40\ntime = \"1 s\"\n{}", shell(forks)));
    assert!(matches!(trial.ending.outcome, Outcome::TimedOut | Outcome::Failed { .. }), "{:?}", trial.ending);
    assert!(!alive(said(&trial).lines().next().unwrap()));
}

/// A program that may not start another process goes another way, or fails: its figures are not those of the program.
#[test]
fn a_reached_limit_of_processes_is_a_finding() {
    let bench = Bench::new();
    let many = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.2 & done; wait; true";
    let limited = |pids: u32| bench.trial(&format!("[limits]\npids = {pids}\n{}", shell(many)));
    let trial = limited(8);
    let finding = trial.findings.iter().find(|finding| finding.guard == "processes_refused");
    let finding = finding.unwrap_or_else(|| panic!("{:?} {:?}", trial.findings, trial.conditions.memory));
    assert!(finding.message.contains("refused by `pids = 8`"), "{}", finding.message);
    assert!(!guards(&limited(60)).contains(&"processes_refused"));
}

#[test]
fn program_that_ends_before_observation_is_measured() {
    let bench = Bench::new();
    let (_, data) = bench.exec(&["-r", "3", "--", "true"]);
    for trial in &data.trials {
        assert_eq!(trial.ending.outcome, Outcome::Ok);
        assert!(amount(trial, "run", Metric::Wall) > 0.0 && amount(trial, "run", Metric::Cpu) > 0.0);
        assert!(amount(trial, "run", Metric::MinorFaults) > 10.0);
        let sampled = reading(trial, "run", MetricKey::gauge(Metric::Anon, Stat::Max));
        assert!(sampled.is_none_or(|anon| anon > 0.0), "never a zero, never what was held");
    }
}

#[test]
fn program_outcomes_are_distinguished() {
    let bench = Bench::new();
    let ending = |script: &str| bench.trial(&shell(script)).ending;
    assert_eq!(ending("kill -SEGV $$").outcome, Outcome::Crashed { signal: 11 });
    assert_eq!(ending("kill -KILL $$").outcome, Outcome::Killed);
    let failed = ending("echo why it failed >&2; exit 7");
    assert_eq!(failed.outcome, Outcome::Failed { code: Some(7) });
    assert!(failed.evidence.iter().any(|text| text.contains("its last words: `why it failed`")), "{failed:?}");
    let allowed = bench.trial(&format!("{}success = [7]\n", shell("exit 7")));
    assert_eq!(allowed.ending.outcome, Outcome::Ok);
    let not_zero = bench.trial(&format!("{}success = [7]\n", shell("exit 0")));
    assert_eq!(not_zero.ending.outcome, Outcome::Failed { code: Some(0) });
}

#[test]
fn exec_compares_exports_and_saves_what_repeats_it() {
    let bench = Bench::new();
    let args = ["-r", "2", "-w", "1", "-n", "one", "-n", "two", "--save", "saved.toml", "--export-json", "o.json"];
    let more = ["--export-csv", "o.csv", "--export-markdown", "o.md", "--", "sleep 0.01", "--vs", "sleep", "0.02"];
    let (output, data) = bench.exec(&[&args[..], &more[..]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("6 finished: 6 ok") && text.contains("\none  ") && text.contains("\ntwo  "), "{text}");
    assert!(text.contains("`command=two`"), "a verdict, if only that there are too few blocks: {text}");
    assert_eq!(data.trials.len(), 6, "two blocks of baseline, baseline again, and the other");
    let saved = fs::read_to_string(bench.path("saved.toml")).unwrap();
    assert_eq!(data.experiment.source(), saved);
    for file in ["o.json", "o.csv", "o.md"] {
        assert!(fs::metadata(bench.path(file)).unwrap().len() > 100, "{file}");
    }
    let again = bench.prony(&["run", "saved.toml", "--quiet"]);
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(bench.data().trials.len(), 6);
}

#[test]
fn exec_runs_where_it_was_called_and_names_what_it_cannot_start() {
    let bench = Bench::new();
    bench.script("here.sh", "pwd; test \"$K\" = v; cat");
    fs::write(bench.path("in.txt"), "typed\n").unwrap();
    let (output, data) = bench.exec(&["-r", "1", "--env", "K=v", "--input", "in.txt", "./here.sh"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let here = fs::canonicalize(bench.dir.path()).unwrap();
    assert_eq!(said(&data.trials[0]), format!("{}\ntyped\n", here.display()));
    let absent = bench.prony(&["exec", "--", "no-such-program"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&absent.stderr).contains("cannot find the command `no-such-program`"));
    let failing = bench.prony(&["exec", "-r", "1", "--", "false"]);
    assert_eq!(failing.status.code(), Some(1), "a trial failed");
    let ignored = bench.prony(&["exec", "-r", "1", "-i", "--", "false"]);
    assert_eq!(ignored.status.code(), Some(0));
}

#[test]
fn a_mark_outside_of_prony_does_nothing() {
    let output = Command::new(PRONY).args(["mark", "x", "begin"]).env_remove("PRONY_MARKS").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    let wrong = Command::new(PRONY).args(["mark", "x", "begin", "--to", "/nowhere/at/all"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

/// METHOD 7: children of 300 MB and of 2 MB, in any order; what an empty one takes is the program's own.
#[test]
fn a_large_child_leaves_nothing_to_a_small_one() {
    let bench = Bench::new();
    let program = |name: &str, step: &str| {
        format!("[program.{name}]\ncommand = [\"{PRONY}\", \"fixture\"]\ninput = {{ text = '{step}' }}\n")
    };
    let allocate = |bytes: u64| format!("{{{{\"allocate\":{bytes}}}}}");
    let body = format!(
        "[factors]\nwhich = [\"large\", \"small\", \"empty\"]\n[subject]\nprogram = \"{{which}}\"\n\
         [compare]\nblocks = 3\n{}{}{}",
        program("large", &allocate(300_000_000)),
        program("small", &allocate(2_000_000)),
        program("empty", &allocate(0))
    );
    let data = bench.run(&body);
    let peaks = |variant: usize| -> Vec<f64> {
        let of = data.trials.iter().filter(|trial| trial.trial.variant == variant);
        let peak = |trial: &TrialRecord| reading(trial, "run", MetricKey::gauge(Metric::Rss, Stat::Peak));
        of.map(|trial| peak(trial).unwrap_or_else(|| panic!("no peak: {trial:?}"))).collect()
    };
    let empty = peaks(2).into_iter().fold(f64::MAX, f64::min);
    for (variant, truth) in [(0, 300e6), (1, 2e6)] {
        for peak in peaks(variant) {
            let error = (peak - empty - truth).abs();
            assert!(error <= 0.02 * truth + 2e6, "{truth}: {} above {empty}", peak - empty);
        }
    }
}

#[test]
fn a_trial_whose_supervisor_is_killed_is_a_result_and_the_run_goes_on() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let once = "[ -e done ] && exit 0\ntouch done; sleep 60 & echo $! > left; kill -KILL $PPID; sleep 60";
    // With its own directory a supervisor is kept for the next trial, with a copy for each trial it is not.
    for (copy, ends) in [("variant", [false, true, true]), ("trial", [false; 3])] {
        let body = format!("[compare]\nblocks = 3\n{}directory = \"site\"\ncopy = \"{copy}\"\n", shell(once));
        let data = bench.run(&body);
        let outcomes: Vec<bool> = data.trials.iter().map(|trial| trial.ending.outcome.is_ok()).collect();
        assert_eq!(outcomes, ends, "{copy}");
        assert_eq!(data.head.status, RunStatus::Done);
        let ending = &data.trials[0].ending;
        assert_eq!((ending.outcome, ending.phase.as_deref()), (Outcome::Killed, Some("run")));
        assert!(ending.evidence[0].contains("its supervisor was ended from outside (signal: 9"), "{ending:?}");
        let faults = reading(&data.trials[0], "run", MetricKey::amount(Metric::MinorFaults));
        assert_eq!(faults, None, "what the kernel tells when it is reaped, nobody heard");
    }
}

#[test]
fn spawner_that_is_killed_between_two_trials_is_replaced() {
    let bench = Bench::new();
    // A subject and the spawner that made it have one parent.
    let children = "/proc/$PPID/task/$PPID/children";
    bench.script("tell", &format!("for p in $(cat {children}); do [ $p = $$ ] || echo $p >> nurseries; done"));
    let kill = "n=$(tail -n 1 nurseries 2>/dev/null); [ -z \"$n\" ] || kill -KILL $n 2>/dev/null; true";
    let data = bench.exec_to_its_end(&["-r", "3", "--prepare", kill, "--", "./tell"]);
    let outcomes: Vec<Outcome> = data.trials.iter().map(|trial| trial.ending.outcome).collect();
    assert_eq!((outcomes, data.head.status), (vec![Outcome::Ok; 3], RunStatus::Done));
    let nurseries = fs::read_to_string(bench.path("nurseries")).unwrap();
    let mut nurseries: Vec<&str> = nurseries.lines().collect();
    nurseries.dedup();
    assert_eq!(nurseries.len(), 3, "each trial had another: {nurseries:?}");
    assert_eq!(scratches(bench.dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn the_record_tells_which_file_a_name_was_found_as() {
    let bench = Bench::new();
    bench.script("mine", "true");
    let path = format!("PATH=/nowhere:{}:/usr/bin:/bin", bench.dir.path().display());
    let (_, data) = bench.exec(&["-r", "2", "--env", &path, "--", "mine"]);
    for trial in &data.trials {
        assert_eq!(trial.program().unwrap().executable.as_deref(), bench.path("mine").to_str());
    }
    let whole = bench.trial("[program.x]\ncommand = [\"true\"]\n");
    assert!(whole.program().unwrap().executable.as_ref().unwrap().ends_with("/bin/true"), "held before, too");
}

#[test]
fn syncs_of_a_program_are_counted_where_they_are_asked_for() {
    let bench = Bench::new();
    let program = "[program.x]\ncommand = [\"sh\", \"-c\", \"echo x > $TMPDIR/x; sync $TMPDIR/x\"]\n";
    let count = |body: &str| {
        let trial = bench.trial(&format!("{body}{program}"));
        trial.phases[0].reading(MetricKey::amount(Metric::Fsyncs)).cloned()
    };
    let unasked = Some(Reading::Missing(Why::NotApplicable));
    assert_eq!(count(""), unasked, "counting slows every system call");
    assert_eq!(count("syncs = false\n[[report.table]]\ncolumns = [\"run.fsync\"]\n"), unasked);
    for asked in ["syncs = true\n", "[[report.table]]\ncolumns = [\"run.fsync / 2\"]\n"] {
        let counted = count(asked);
        assert!(
            matches!(counted, Some(Reading::Measured(1.0) | Reading::Missing(Why::NotPermitted(_)))),
            "{counted:?}"
        );
    }
    let stored = bench.trial(&format!("{program}store = \"{{tmp}}\"\n"));
    assert_ne!(stored.phases[0].reading(MetricKey::amount(Metric::Fsyncs)).cloned(), unasked);
}

#[test]
fn a_command_that_is_not_there_is_a_mistake_and_begins_no_run() {
    let bench = Bench::new();
    fs::write(bench.path("text"), "no program").unwrap();
    for (args, said) in [
        (&["no-such-command"][..], "cannot find the command `no-such-command`\nhint: it is in no directory of PATH"),
        (&["text"], "cannot find the command `text`\nhint: write `./text` for the file in its directory"),
        (&["./text"], "`chmod +x "),
    ] {
        let output = bench.prony(&[&["exec", "--"], args].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(said), "{text}");
    }
    assert!(!bench.path("prony.db").exists());
}

#[test]
fn missing_build_output_fails_only_its_variant() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let body = "[factors.which]\ngood = { command = [\"true\"] }\nbad = { command = [\"./made\"] }\n\
                [program.x]\ncommand = \"{which.command}\"\ndirectory = \"site\"\nbuild = [\"true\"]\n";
    let data = bench.run(body);
    let outcomes: Vec<Outcome> = data.trials.iter().map(|trial| trial.ending.outcome).collect();
    assert!(outcomes.contains(&Outcome::Ok) && outcomes.contains(&Outcome::Failed { code: None }), "{outcomes:?}");
    assert_eq!(data.head.status, RunStatus::Done);
    let failed = data.trials.iter().find(|trial| !trial.ending.outcome.is_ok()).unwrap();
    assert!(failed.ending.evidence[0].starts_with("cannot execute `./made`: No such file"), "{:?}", failed.ending);
    assert!(failed.phases.iter().all(|phase| phase.completion == Completion::NotReached));
}

#[test]
fn short_programs_after_one_another_have_figures_of_their_own() {
    let bench = Bench::new();
    bench.script("grow", "echo x >> $TMPDIR/x; cat $TMPDIR/x; ls $TMPDIR | wc -l");
    let (_, data) = bench.exec(&["--runs", "20", "--syncs", "--", "./grow"]);
    assert_eq!(data.trials.len(), 20);
    for trial in &data.trials {
        assert_eq!(said(trial), "x\n1\n", "an empty TMPDIR");
        let wall = amount(trial, "run", Metric::Wall);
        let (cpu, parts) = (amount(trial, "run", Metric::Cpu), [Metric::CpuUser, Metric::CpuSystem]);
        let parts: f64 = parts.into_iter().map(|part| amount(trial, "run", part)).sum();
        assert!(wall > 0.0 && cpu > 0.0, "{wall} {cpu}");
        // The group's count and that of `wait4` are taken apart, to within what switching processes takes.
        assert!((cpu - parts).abs() <= 1e6 + 0.2 * parts, "{cpu} {parts}");
        assert_eq!(amount(trial, "run", Metric::Fsyncs), 0.0);
        assert!(amount(trial, "run", Metric::MinorFaults) > 10.0);
    }
}

#[test]
fn build_runs_once_per_content_and_is_cached_for_the_next_run() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    fs::write(bench.path("site/source"), "one").unwrap();
    let log = bench.path("log");
    let body = format!(
        "[factors]\nn = [1, 2]\n[factors.code]\nas-is = {{}}\nother = {{ replace = {{ file = \"source\", find = \"one\", with = \"two\" }} }}\n\
         [program.x]\ncommand = [\"cat\", \"{{dir}}/made{{n}}\"]\ndirectory = \"site\"\nchange = \"{{code}}\"\n\
         build = \"echo built >> {}; cp source made1; cp source made2\"\n",
        log.display()
    );
    let builds = || fs::read_to_string(&log).unwrap().lines().count();
    let data = bench.run(&body);
    let mut said: Vec<&str> = data.trials.iter().map(said).collect();
    said.sort_unstable();
    assert_eq!((said, builds()), (vec!["one", "one", "two", "two"], 2), "two contents in four variants");
    bench.run(&body);
    assert_eq!(builds(), 2, "kept");
    fs::write(bench.path("site/source"), "one more").unwrap();
    bench.run(&body);
    assert_eq!(builds(), 4);
}

#[test]
fn revisions_of_a_repository_are_levels() {
    let bench = Bench::new();
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
        Command::new("git").args(who).args(args).current_dir(bench.path("site")).output()
    };
    fs::create_dir(bench.path("site")).unwrap();
    if git(&["init", "--quiet"]).is_err() {
        assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
        return;
    }
    for version in ["one", "two"] {
        fs::write(bench.path("site/n"), version).unwrap();
        for args in [&["add", "."][..], &["commit", "--quiet", "-m", version], &["tag", version]] {
            assert!(git(args).unwrap().status.success());
        }
    }
    let body = "[factors.code]\none = { revision = \"one\" }\ntwo = { revision = \"two\" }\n\
                [program.x]\ncommand = [\"cat\", \"n\"]\ndirectory = \"site\"\nchange = \"{code}\"\n";
    fs::write(bench.path("site/n"), "three").unwrap();
    let data = bench.run(body);
    for trial in &data.trials {
        let version = ["one", "two"][trial.trial.variant];
        assert_eq!(said(trial), version);
        let change = &trial.program().unwrap().changes[0];
        assert!(change.starts_with(&format!("revision `{version}` is commit ")), "{change}");
    }
    // The record alone had them.
    let commit = |variant: usize| {
        let trial = data.trials.iter().find(|trial| trial.trial.variant == variant).unwrap();
        format!("{} (1 uncommitted changes of the directory are not in it)", trial.program().unwrap().changes[0])
    };
    let line = format!("Revisions: `one`: {}; `two`: {}.", commit(0), commit(1));
    let words = |text: &[u8]| String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let of_show = |all: &[&str]| words(&bench.prony(&[&["show"], all].concat()).stdout);
    assert!(of_show(&["--all"]).contains(&line), "{line}: {}", of_show(&["--all"]));
    assert!(!of_show(&[]).contains("Revisions: "));
    assert!(bench.prony(&["report", "--output", "page.html"]).status.success());
    let page = words(&fs::read(bench.path("page.html")).unwrap());
    assert!(page.contains("Revisions: ") && page.contains("1 uncommitted changes of the directory are not in it"));
    let output = {
        fs::write(bench.path("bad.toml"), body.replace("\"two\" }", "\"nine\" }")).unwrap();
        bench.prony(&["run", "bad.toml", "--quiet"])
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("has no revision `nine`"), "{text}");
}

/// A link of the program's directory to what lies beside it in the repository leads out of neither the variant's copy nor
/// the trial's.
#[test]
fn revision_of_a_subdirectory_may_link_to_the_rest_of_its_repository() {
    let bench = Bench::new();
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
        Command::new("git").args(who).args(args).current_dir(bench.path("repository")).output()
    };
    for name in ["site", "shared"] {
        fs::create_dir_all(bench.path("repository").join(name)).unwrap();
    }
    if git(&["init", "--quiet"]).is_err() {
        assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
        println!("SKIPPED: `git` is not there");
        return;
    }
    fs::write(bench.path("repository/shared/lib"), "shared").unwrap();
    fs::write(bench.path("repository/site/own"), "one").unwrap();
    std::os::unix::fs::symlink("../shared", bench.path("repository/site/shared")).unwrap();
    for args in [&["add", "."][..], &["commit", "--quiet", "-m", "first"]] {
        assert!(git(args).unwrap().status.success());
    }
    for copy in ["variant", "trial"] {
        let body = format!(
            "[program.x]\ncommand = [\"cat\", \"own\", \"shared/lib\"]\ndirectory = \"repository/site\"\ncopy = \"{copy}\"\n\
             change = {{ revision = \"HEAD\", replace = {{ file = \"own\", find = \"one\", with = \"two \" }} }}\n"
        );
        assert_eq!(said(&bench.trial(&body)), "two shared", "copy = {copy}");
    }
}

#[test]
fn a_daemon_ends_with_each_trial_of_exec_and_hangs_nothing() {
    let bench = Bench::new();
    bench.script("leave", "setsid sleep 600 >/dev/null 2>&1 & echo $!");
    let data = bench.exec_to_its_end(&["-r", "2", "--", "./leave"]);
    assert_eq!(data.head.status, RunStatus::Done);
    assert_eq!(data.trials.len(), 2);
    for trial in &data.trials {
        assert_eq!((trial.ending.outcome, guards(trial)), (Outcome::Ok, vec!["left_behind"]));
        assert!(!alive(said(trial)));
    }
    assert_eq!(scratches(bench.dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_trial_of_exec_that_is_killed_leaves_the_next_its_supervisor() {
    let bench = Bench::new();
    // The parent of a subject is its supervisor.
    bench.script("stay", "trap '' TERM; echo $PPID $$; (while :; do sleep 0.01; done) & while :; do sleep 1; done");
    let data = bench.exec_to_its_end(&["-r", "3", "--time", "300 ms", "--", "./stay"]);
    assert_eq!(data.head.status, RunStatus::Done);
    let said: Vec<(&str, &str)> = data.trials.iter().map(|trial| said(trial).split_once(' ').unwrap()).collect();
    let outcomes: Vec<Outcome> = data.trials.iter().map(|trial| trial.ending.outcome).collect();
    assert_eq!(outcomes, [Outcome::TimedOut; 3]);
    assert!(said.iter().all(|(supervisor, subject)| *supervisor == said[0].0 && !alive(subject)), "{said:?}");
    assert_eq!(scratches(bench.dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_link_in_the_place_of_tmpdir_is_not_followed() {
    let bench = Bench::new();
    fs::create_dir(bench.path("precious")).unwrap();
    fs::write(bench.path("precious/file"), "x").unwrap();
    let there = bench.path("precious");
    let replace = format!("[ -d $TMPDIR ] && [ ! -L $TMPDIR ] && rmdir $TMPDIR && ln -s {} $TMPDIR", there.display());
    bench.script("replace", &format!("{replace}; rm $PRONY_MARKS; echo x > $PRONY_MARKS; ls $TMPDIR"));
    let (_, data) = bench.exec(&["-r", "3", "--", "./replace"]);
    let found: Vec<&str> = data.trials.iter().map(said).collect();
    assert_eq!(found, ["file\n"; 3], "each trial had a directory to replace");
    assert!(there.join("file").exists());
}

#[test]
fn finished_trials_are_saved_before_a_long_trial() {
    let bench = Bench::new();
    bench.script("short", ": > ran");
    // Not short either where it comes first.
    bench.script("long", "[ -e ran ] || exec sleep 0.05\n: > asleep; exec sleep 600");
    let mut prony = bench.begin(&["-r", "3", "./short", "--vs", "./long"]);
    eventually("the long trial", || bench.path("asleep").exists());
    prony.kill().unwrap();
    prony.wait().unwrap();
    let shells = bench.data().trials.iter().filter(|trial| trial.trial.variant == 0).count();
    assert!(shells > 0, "what had ended is not lost with what was under way");
    eventually("all is cleaned up", || scratches(bench.dir.path()).is_empty());
}
