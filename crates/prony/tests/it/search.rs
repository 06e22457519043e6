//! Tests searches through the real binary: the values that are tried, the result, and what is stored.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use prony_model::record::TrialRecord;
use prony_model::units::Nanos;
use prony_results::{Database, RunData, RunId, RunStatus};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

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

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
        command.args(arguments).current_dir(self.dir.path()).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("EDGE", "20").env("TOKEN", SECRET);
        command
    }

    /// What the environment holds and no experiment asks for is in no file that a search leaves behind.
    fn assert_no_secret_recorded(&self) {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.dir.path()).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                let bytes = std::fs::read(entry.path()).unwrap();
                assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()), "{:?}", entry.path());
                names.push(entry.file_name().into_string().unwrap());
            }
        }
        for name in ["prony.db", "j.jsonl"] {
            assert!(names.iter().any(|known| known == name), "{names:?}");
        }
        let runs = Database::open(&self.path("prony.db")).unwrap().runs().unwrap();
        let journals = runs.iter().flat_map(|head| self.journal(head.id.0));
        assert!(journals.map(|entry| entry.to_string()).all(|entry| !entry.contains(SECRET)));
    }

    fn prony(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        parts(&self.command(arguments).output().unwrap())
    }

    fn run(&self, number: i64) -> RunData {
        Database::open(&self.path("prony.db")).unwrap().load_run(RunId(number)).unwrap()
    }

    fn journal(&self, number: i64) -> Vec<Value> {
        Database::open(&self.path("prony.db")).unwrap().journal(RunId(number)).unwrap()
    }
}

/// A variable of every command's environment.
const SECRET: &str = "c0ffee-that-nobody-asked-for";

fn parts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Fails above an edge that the other factor sets.
const GROWING: &str = r#"
[experiment]
title = "Edge"
[observe]
care = "light"
[factors]
n = [1]
[factors.kind]
narrow = { edge = 37 }
wide = { edge = 700 }
[program.x]
shell = true
command = "test {n} -le {kind.edge}"
"#;

#[test]
fn each_combination_grows_to_its_own_limit() {
    let bench = Bench::new(GROWING);
    let (code, said, errors) =
        bench.prony(&["grow", "x.toml", "--raise", "n=1..100_000", "--resolution", "1%", "--journal", "j.jsonl"]);
    assert_eq!(code, Some(0), "{errors}");
    let row = |kind: &str| said.lines().find(|line| line.starts_with(kind)).unwrap().to_owned();
    for (kind, largest, next) in [("kind=narrow", " 37 ", " 38 "), ("kind=wide", "", "")] {
        assert!(row(kind).contains(largest) && row(kind).contains(next), "{said}");
        assert!(row(kind).contains("failed (exit code 1) at"), "{said}");
    }
    let run = bench.run(1);
    assert_eq!((run.head.status, run.head.title.as_str()), (RunStatus::Done, "Edge: how far `n` grows"));
    assert_eq!(run.head.search.as_deref(), Some("grow"));
    assert_eq!((run.head.planned, run.head.finished as usize), (run.head.finished, run.trials.len()));
    let numbers: Vec<f64> = run.experiment.factors()[0].levels.iter().filter_map(|level| level.number).collect();
    assert!(numbers.is_sorted() && numbers.contains(&37.0) && numbers.contains(&38.0), "{numbers:?}");
    // Each trial ran what the stored experiment says of its variant.
    for trial in &run.trials {
        let variant = &run.experiment.variants()[trial.trial.variant];
        let (n, kind) = (run.experiment.level_of(variant, 0), run.experiment.level_of(variant, 1));
        let limit = kind.value["edge"].as_f64().unwrap();
        assert_eq!(trial.ending.outcome.is_ok(), n.number.unwrap() <= limit, "{} {}", n.label, kind.label);
    }
    let journal = bench.journal(1);
    assert_eq!(lines(&bench.path("j.jsonl")), journal, "the file says what the database keeps");
    assert_eq!(journal[0]["search"], "grow");
    assert_eq!(journal.iter().filter(|entry| entry["trial"].is_number()).count(), run.trials.len());
    let wide = journal.iter().filter_map(|entry| entry["grown"].as_object()).nth(1).unwrap();
    let (largest, next) = (wide["lives"]["value"].as_f64().unwrap(), wide["dies"]["value"].as_f64().unwrap());
    assert!(largest <= 700.0 && 700.0 < next && next <= largest * 1.01, "{largest} {next}");
    let (code, shown, _) = bench.prony(&["show"]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("a search chose these variants"), "{shown}");
    assert!(shown.contains(&row("kind=narrow")), "what was concluded is shown again: {shown}");
    assert!(bench.prony(&["ls"]).1.contains("how far `n` grows"));
}

/// A phase of which no line is read.
const DEAF: &str = r#"
[factors]
n = [1]
[program.x]
command = ["echo", "{n}"]
[[phase]]
name = "deaf"
read = '^nothing (?<time_ms>\d+)'
"#;

#[test]
fn warning_is_printed_once_with_its_first_trial() {
    for care in ["", "[observe]\ncare = \"light\"\n"] {
        let bench = Bench::new(&format!("{care}{DEAF}"));
        let (code, said, errors) = bench.prony(&["grow", "x.toml", "--raise", "n=1..2", "--confirm", "1"]);
        assert_eq!(code, Some(0), "{errors}");
        assert!(said.contains("every value that was tried succeeds") && bench.run(1).trials.len() > 1, "{said}");
        assert_eq!(errors.matches("warning: `read_nothing` in `deaf`: ").count(), 1, "{errors}");
    }
}

/// Above 50 the program does nothing and ends well: that was a success.
#[test]
fn a_value_whose_phase_never_begins_is_no_success() {
    let bench = Bench::new(
        "[observe]\ncare = \"light\"\n[factors]\nn = [1]\n[program.x]\nshell = true\n\
         command = 'if test {n} -le 50; then echo begin; sleep 0.01; echo end; fi'\n\
         [[phase]]\nname = \"go\"\nbegin = { line = '^begin' }\nend = { line = '^end' }\n",
    );
    let (code, said, errors) = bench.prony(&["grow", "x.toml", "--raise", "n=10..100", "--resolution", "1%"]);
    assert_eq!(code, Some(0), "{said}{errors}");
    let row = said.lines().find(|line| line.starts_with("n ")).unwrap();
    assert!(row.contains(" 50 ") && row.contains(" 51 ") && row.contains("phase go never began"), "{said}");
    assert!(
        said.contains("51 is no success although the program ended well: phase `go`: phase never began: "),
        "{said}"
    );
    assert_eq!(errors.matches("warning: `phase_never_began` in `go`: ").count(), 1, "with light care too: {errors}");
    let ends: Vec<Value> = bench.journal(1).into_iter().filter(|entry| entry["trial"].is_number()).collect();
    let value = |entry: &Value| entry["value"].as_str().unwrap().parse::<f64>().unwrap();
    assert!(ends.iter().all(|entry| (entry["end"] == "lived") == (value(entry) <= 50.0)), "{ends:?}");
    // At the first value it is a fault of the file, or of the range.
    let (code, said, _) = bench.prony(&["grow", "x.toml", "--raise", "n=60..100"]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("no value succeeds: 60 fails already") && said.contains("60 is no success although"),
        "{said}"
    );
}

#[test]
fn a_search_where_no_value_succeeds_is_answered_with_no() {
    let bench = Bench::new(GROWING);
    let (code, said, _) = bench.prony(&["grow", "x.toml", "--raise", "n=40..100", "--only", "kind=narrow"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("no value succeeds: 40 fails already"), "{said}");
    let (code, said, _) = bench.prony(&["grow", "x.toml", "--raise", "n=40..100", "--only", "kind=wide"]);
    assert_eq!(code, Some(0));
    assert!(said.contains("every value that was tried succeeds, up to "), "{said}");
}

#[test]
fn commands_that_a_search_names_find_its_database() {
    let bench = Bench::new(GROWING);
    let grow = ["grow", "x.toml", "--raise", "n=1..2", "--only", "kind=wide", "--confirm", "1", "-q"];
    let (_, said, errors) = bench.prony(&[&grow[..], &["--database", "other.db"]].concat());
    assert!(said.contains("every trial: `prony show 1 --database other.db`"), "{said}{errors}");
    std::fs::write(bench.path("x.toml"), answering("d=ok; o=5")).unwrap();
    let (_, said, errors) = bench.prony(&[&OF_SIZE[..], &["--database", "other.db", "--max-trials", "9"]].concat());
    for run in ["2", "3"] {
        assert!(said.contains(&format!(": `prony show {run} --database other.db`")), "{said}{errors}");
    }
    assert!(said.contains("\nthe best `size` is 1, an end of its range: a better value may lie beyond it\n"), "{said}");
}

#[test]
fn a_search_without_an_end_needs_a_limit() {
    let bench = Bench::new(GROWING);
    for (range, wanted) in [
        ("n=1..", "no limit of memory or time"),
        ("n=0..9", "must start above 0"),
        ("m=1..9", "`m` is not a factor"),
        ("kind.edge=1..9", "`kind` has 2 levels"),
    ] {
        let (code, _, errors) = bench.prony(&["grow", "x.toml", "--raise", range]);
        assert_eq!(code, Some(2), "{range}");
        assert!(errors.contains(wanted) && errors.contains("hint: "), "{errors}");
    }
    assert!(!bench.path("prony.db").exists(), "all of it is known before anything runs");
}

#[test]
fn output_of_a_program_is_not_written_over_what_the_search_reads_or_writes() {
    let body = |file: &str| {
        format!(
            "[observe]\ncare = \"light\"\n[factors]\nn = [1]\n[program.x]\ncommand = [\"echo\", \"{{n}}\"]\n\
             output = {{ file = \"{file}\" }}\n"
        )
    };
    let grow = ["grow", "x.toml", "--raise", "n=1..3", "-q", "--journal", "j.jsonl"];
    let tune = ["tune", "x.toml", "--minimize", "run.time", "--over", "n=1..3", "--journal", "j.jsonl"];
    for (file, why) in [
        ("x.toml", "this command reads that file"),
        ("prony.db", "that file belongs to the results database"),
        ("j.jsonl", "this command writes another output to the same file"),
    ] {
        let bench = Bench::new(&body(file));
        for search in [&grow[..], &tune] {
            let (code, said, errors) = bench.prony(search);
            assert!(code == Some(2) && errors.contains(&format!("{file}`: {why}")), "{code:?} {said}{errors}");
            assert_eq!(std::fs::read_to_string(bench.path("x.toml")).unwrap(), body(file));
        }
    }
    let bench = Bench::new(&body("x{n}"));
    std::fs::hard_link(bench.path("x.toml"), bench.path("x2")).unwrap();
    let (code, said, errors) = bench.prony(&grow);
    assert!(code == Some(2) && errors.contains("x2`: this command reads that file"), "{code:?} {said}{errors}");
    std::fs::remove_file(bench.path("x2")).unwrap();
    let (code, said, errors) = bench.prony(&["grow", "x.toml", "--raise", "n=1..3", "-q", "--journal", "k.jsonl"]);
    assert_eq!(code, Some(0), "{said}{errors}");
    assert_eq!(std::fs::read_to_string(bench.path("x3")).unwrap(), "3\n");
}

#[test]
fn a_key_grows_at_one_level_of_its_factor() {
    let bench = Bench::new(GROWING);
    let (code, _, errors) = bench.prony(&["grow", "x.toml", "--raise", "kind.edge=1..9"]);
    assert!(code == Some(2) && errors.contains("`--only kind=narrow`"), "{errors}");
    let (code, said, errors) = bench.prony(&["grow", "x.toml", "--raise", "kind.edge=1..9", "--only", "kind=wide"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("every value that was tried succeeds, up to "), "{said}");
    let run = bench.run(1);
    let values = |trial: &TrialRecord| {
        let variant = &run.experiment.variants()[trial.trial.variant];
        run.experiment.level_of(variant, 1).value["edge"].as_f64().unwrap()
    };
    assert_eq!(run.trials.iter().map(values).collect::<Vec<_>>(), [1.0, 2.0, 4.0, 8.0, 9.0, 9.0, 9.0]);
}

#[test]
fn growing_under_a_memory_limit_finds_the_largest_value_that_fits() {
    let bench = Bench::new(
        "[limits]\nmemory = \"96 MiB\"\n[factors]\nrecords = [10]\n[store]\nengine = \"memory\"\n[observe]\ncare = \"light\"\n\
         [data]\nrecords = \"{records}\"\nkey = \"k{i}\"\nvalue = { bytes = \"1 MB\" }\n[[phase]]\nname = \"fill\"\nput = {}\n",
    );
    let (code, said, errors) =
        bench.prony(&["grow", "x.toml", "--raise", "records=10..", "--resolution", "20%", "--confirm", "1"]);
    if errors.contains("cannot be enforced here") {
        assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "{errors}");
        println!("SKIPPED: memory cannot be limited here");
        return;
    }
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("OOM in fill at") && said.contains(">= "), "{said}");
    let grown = bench.journal(1).into_iter().find_map(|entry| entry["grown"].as_object().cloned()).unwrap();
    let (largest, next) = (grown["lives"]["value"].as_f64().unwrap(), grown["dies"]["value"].as_f64().unwrap());
    let run = bench.run(1);
    let of = |trial: &&TrialRecord| {
        let level = run.experiment.level_of(&run.experiment.variants()[trial.trial.variant], 0);
        trial.ending.outcome.is_ok() && level.number == Some(largest)
    };
    let (fill, row) = ("fill.time".parse().unwrap(), said.lines().find(|line| line.starts_with("records ")).unwrap());
    let times = run.trials.iter().filter(of).map(|trial| *trial.figure(&fill).measured().unwrap());
    let longest = prony_model::number::time(Nanos::from_nanos(times.reduce(f64::max).unwrap() as u64));
    assert!(row.contains(&format!(" fill {longest}, ")), "of the phase, and not of the whole trial: {said}");
    // A record of 1 MB needs at least that, and prony's worker a few MB beside.
    assert!((40.0..=100.7).contains(&largest) && next <= 101.0 * 1.2, "{largest} {next}");
}

#[test]
fn an_interrupted_search_goes_on_where_it_was() {
    interrupted_and_resumed("");
}

#[test]
fn an_interrupted_search_goes_on_with_commands_that_are_not_recorded() {
    interrupted_and_resumed("record_commands = false\n");
}

fn interrupted_and_resumed(observe: &str) {
    let bench = Bench::new("");
    let at = |name: &str| bench.path(name).display().to_string();
    std::fs::write(
        bench.path("x.toml"),
        format!(
            "[observe]\ncare = \"light\"\n{observe}[factors]\nn = [1]\n[program.x]\nshell = true\n\
             command = 'if test {{n}} -eq 8 -a ! -e {go}; then echo > {reached}; read x < {fifo}; fi; test {{n}} -le {{env.EDGE}}'\n",
            go = at("go"),
            reached = at("reached"),
            fifo = at("fifo")
        ),
    )
    .unwrap();
    assert!(Command::new("mkfifo").arg(bench.path("fifo")).status().unwrap().success());
    let mut child =
        bench.command(&["grow", "x.toml", "--raise", "n=1..100", "-q", "--journal", "first.jsonl"]).spawn().unwrap();
    while !bench.path("reached").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before the trial that waits");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!((bench.run(1).head.status, bench.run(1).trials.len()), (RunStatus::Interrupted, 3));
    let listed = bench.prony(&["ls"]).1;
    assert!(listed.contains(" 3 ") && !listed.contains(" of "), "{listed}");
    std::fs::write(bench.path("go"), "").unwrap();
    let (code, _, errors) = bench.prony(&["run", "--resume", "1"]);
    assert!(code == Some(2) && errors.contains("hint: to resume this search: `prony grow --resume 1`"), "{errors}");
    let (code, said, errors) = bench.prony(&["grow", "--resume", "--journal", "j.jsonl"]);
    assert_eq!(code, Some(0), "{errors}");
    let row = said.lines().find(|line| line.starts_with("n ")).unwrap();
    assert!(row.contains(" 20 ") && row.contains(" 21 "), "{said}");
    let run = bench.run(1);
    assert_eq!(run.head.status, RunStatus::Done);
    let positions: Vec<u32> = run.trials.iter().map(|trial| trial.trial.position).collect();
    assert_eq!(positions, (0..positions.len() as u32).collect::<Vec<_>>(), "no trial twice, none lost");
    assert_eq!(lines(&bench.path("j.jsonl")), bench.journal(1), "the journal has each entry once");
    let (code, _, errors) = bench.prony(&["grow", "--resume"]);
    assert!(code == Some(2) && errors.contains("no interrupted search"), "{errors}");
    // The file is known again however often the run goes on.
    let mut database = Database::open(&bench.path("prony.db")).unwrap();
    database.end_run(RunId(1), RunStatus::Interrupted, 1).unwrap();
    drop(database);
    let (code, _, errors) = bench.prony(&["grow", "--resume", "--journal", "x.toml"]);
    assert!(
        code == Some(2) && errors.contains("`x.toml`: this command reads that file"),
        "only its own journal is written again"
    );
    let (code, again, errors) = bench.prony(&["grow", "--resume", "--journal", "j.jsonl"]);
    assert_eq!((code, &again), (Some(0), &said), "{errors}");
    assert_eq!(bench.run(1).trials, run.trials, "nothing was left to run");
    std::fs::write(bench.path("x.toml"), GROWING).unwrap();
    let mut database = Database::open(&bench.path("prony.db")).unwrap();
    database.end_run(RunId(1), RunStatus::Interrupted, 1).unwrap();
    drop(database);
    let (code, _, errors) = bench.prony(&["grow", "--resume"]);
    assert!(code == Some(2) && errors.contains("`x.toml` has changed since run 1 began"), "{errors}");
    bench.assert_no_secret_recorded();
}

/// A subject that reports its own time and memory: a bowl in the batch with its bottom at 300, and a slope in the
/// pause. Its memory grows with the batch, so that a bound may bite before the bottom.
const BOWL: &str = r#"
[experiment]
title = "Bowl"
[observe]
care = "light"
[factors]
size = [1, 2]
[factors.chunking]
large = { batch = 10_000, pause = "0 ms" }
small = { batch = 50, pause = "9 ms" }
[compare]
baseline = { chunking = "large", size = 1 }
margin = "3%"
[program.x]
shell = true
command = '''awk -v b={chunking.batch} -v p='{chunking.pause}' -v s={size} 'BEGIN {{ off = log(b / 300);
  print s * 100 * exp(0.15 * off * off) * (1 + p / 20), b / 2 }}' '''
[[phase]]
name = "work"
read = '(?<time_ms>[\d.]+) (?<disk_mb>[\d.]+)'
"#;

const OVER: [&str; 4] = ["--over", "chunking.batch=10..10000,log", "chunking.pause=0..10", "-q"];

#[test]
fn the_winner_keeps_the_bound_and_is_judged_by_fresh_blocks() {
    let bench = Bench::new(BOWL);
    let bound = "work.disk < 100 MB";
    let arguments =
        ["tune", "x.toml", "--minimize", "work.time", "--subject-to", bound, "--confirm", "6", "--journal", "j.jsonl"];
    let (code, said, errors) = bench.prony(&[&arguments[..], &OVER].concat());
    assert_eq!(code, Some(0), "{said}{errors}");
    let winner = said.lines().find_map(|line| line.strip_prefix("winner: ")).unwrap();
    let batch: f64 =
        winner.strip_prefix("chunking.batch=").and_then(|rest| rest.split(',').next()).unwrap().parse().unwrap();
    assert!(
        (120.0..200.0).contains(&batch) && winner.ends_with("chunking.pause=0 ms"),
        "the bound lies at 200: {winner}"
    );
    assert!(said.contains("default: chunking.batch=10000, chunking.pause=0 ms"), "{said}");
    assert!(said.contains("times faster than") && said.contains("holds: in 6 of 6 fresh trials"), "{said}");
    assert!(said.contains("the default setting breaks a constraint") && said.contains("biased"), "{said}");

    let search = bench.run(1);
    assert!(search.experiment.explores() && search.head.status == RunStatus::Done);
    assert!(search.trials.len() <= 200, "{}", search.trials.len());
    let blocks: std::collections::BTreeSet<u32> = search.trials.iter().map(|trial| trial.trial.block).collect();
    for block in &blocks {
        let of_block = search.trials.iter().filter(|trial| trial.trial.block == *block);
        let variants: Vec<usize> = of_block.map(|trial| trial.trial.variant).collect();
        assert_eq!(variants.iter().filter(|variant| **variant == 0).count(), 1, "the default is in each block");
    }
    let journal = bench.journal(1);
    assert_eq!(journal.iter().filter(|entry| entry["trial"].is_number()).count(), search.trials.len());
    assert_eq!(journal.iter().filter(|entry| entry["decision"].is_object()).count(), blocks.len());
    assert_eq!(journal.last().unwrap()["confirmation"], 2);
    assert_eq!(lines(&bench.path("j.jsonl")), journal);

    let fresh = bench.run(2);
    assert_eq!((search.head.search.as_deref(), fresh.head.search), (Some("tune"), None));
    assert!(!fresh.experiment.explores() && fresh.head.seed != search.head.seed, "other data than it was chosen by");
    assert_eq!(
        (fresh.experiment.variants().len(), fresh.trials.len()),
        (2, 18),
        "the default twice in each of 6 blocks"
    );
    let (_, shown, _) = bench.prony(&["show"]);
    assert!(shown.contains("times faster than"), "{shown}");
    let (_, shown, _) = bench.prony(&["show", "1"]);
    assert!(shown.contains("a search chose these variants"), "{shown}");
    let (tables, concluded) = shown.split_once("winner: ").unwrap();
    assert!(!tables.contains("times faster") && concluded.contains("holds: in 6 of 6"), "{shown}");
}

#[test]
fn an_interrupted_race_ends_as_it_would_have() {
    let bench = Bench::new("");
    let at = |name: &str| bench.path(name).display().to_string();
    let wait = format!(
        "test {{chunking.batch}} -ne 100 -o -e {} || {{{{ echo > {}; read x < {}; }}}}; awk",
        at("go"),
        at("reached"),
        at("fifo")
    );
    let unrecorded = "care = \"light\"\nrecord_commands = false";
    std::fs::write(bench.path("x.toml"), BOWL.replace("awk", &wait).replace("care = \"light\"", unrecorded)).unwrap();
    assert!(Command::new("mkfifo").arg(bench.path("fifo")).status().unwrap().success());
    let arguments =
        [&["tune", "x.toml", "--minimize", "work.time", "--max-trials", "60", "--confirm", "6"], &OVER[..]].concat();
    let mut child = bench.command(&arguments).spawn().unwrap();
    while !bench.path("reached").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before the trial that waits");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(bench.run(1).head.status, RunStatus::Interrupted);
    std::fs::write(bench.path("go"), "").unwrap();
    let (code, said, errors) = bench.prony(&["tune", "--resume", "-q", "--journal", "j.jsonl"]);
    assert_eq!(code, Some(0), "{errors}");
    let (code, whole, errors) = bench.prony(&arguments);
    assert_eq!(code, Some(0), "{errors}");
    let first = |text: &str| text.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(first(&said), first(&whole), "the winner of a search in one go");
    let order = |trials: &[TrialRecord]| {
        trials.iter().map(|t| (t.trial.block, t.trial.variant, t.trial.seed)).collect::<Vec<_>>()
    };
    let (resumed, whole) = (bench.run(1).trials, bench.run(3).trials);
    let split = resumed.partition_point(|trial| trial.conditions.session == 0);
    let again = resumed[split].trial.block;
    let before = resumed.partition_point(|trial| trial.trial.block < again);
    assert!(before < split, "it was interrupted within a block");
    let without = [&resumed[..before], &resumed[split..]].concat();
    assert_eq!(order(&without), order(&whole), "the interrupted block runs again whole, and nothing else differs");
    let trials = |run| bench.journal(run).into_iter().filter(|entry| entry["trial"].is_number()).count();
    assert_eq!([trials(1), trials(3)], [resumed.len(), whole.len()]);
    let file = lines(&bench.path("j.jsonl"));
    let unpaired = file.iter().filter(|entry| entry["result"] == "not paired").count();
    assert_eq!(unpaired, split - before, "in the file as in the database");
    bench.assert_no_secret_recorded();
}

#[test]
fn a_search_that_finds_nothing_says_why() {
    let bench = Bench::new(BOWL);
    let tune = |more: &[&str]| bench.prony(&[&["tune", "x.toml", "--minimize", "work.time"], more, &OVER].concat());
    let (code, said, _) = tune(&["--subject-to", "work.disk < 1 MB"]);
    assert!(
        code == Some(1) && said.contains("no setting is feasible: of those that were tried, 16 broke a constraint"),
        "{said}"
    );
    let (code, said, _) = tune(&["--subject-to", "work.heap.used < 1 MB"]);
    assert!(
        code == Some(1) && said.contains("16 had no readings") && said.contains("`work.heap.used < 1 MB`: "),
        "{said}"
    );
    let (code, said, _) = tune(&["--max-trials", "3"]);
    assert!(
        code == Some(1) && said.starts_with("no setting was tried: one block has 16 trials, and `--max-trials` "),
        "{said}"
    );
    assert!(said.contains("hint: write `--max-trials 16` or more"), "{said}");
}

#[test]
fn a_setting_that_reaches_zero_is_said_first_and_is_not_unread() {
    // Below a size of 4 nothing is left; above it grows. Six trials of a size in a row report six values.
    let bench = Bench::new(
        "[observe]\ncare = \"light\"\n[factors]\nsize = [9]\n[program.x]\nshell = true\n\
         command = 'echo >> count.{size}; n=$(wc -l < count.{size}); if test {size} -lt 4; then echo 0; \
         else echo $(( {size} * 100 + n % 6 * 2 )); fi'\n\
         [[phase]]\nname = \"work\"\nread = '(?<disk_b>\\d+)'\n",
    );
    let file = std::fs::read_to_string(bench.path("x.toml")).unwrap();
    let count = bench.path("count.").display().to_string();
    std::fs::write(bench.path("x.toml"), file.replace("count.", &count)).unwrap();
    let arguments = ["tune", "x.toml", "--minimize", "work.disk", "--over", "size=1..9", "--confirm", "6", "-q"];
    let (_, said, errors) = bench.prony(&arguments);
    let first = said.lines().next().unwrap_or_default();
    assert!(first.contains(" settings reached 0 in `work.disk`: no value is better"), "{said}{errors}");
    assert!(first.ends_with("the first: size=1"), "{said}");
    assert!(said.contains("winner: size=4") && !said.contains("no reading"), "{said}");
    assert!(said.contains("in fresh blocks: `work.disk` 405 B, the default 905 B (medians)"), "{said}");
}

/// A program that takes 100 ms for each unit of size, and whose answer or work depends on a shell expression `{when}` of `x`.
fn answering(when: &str) -> String {
    format!(
        "[observe]\ncare = \"light\"\n[factors]\nsize = [9]\n[program.x]\nshell = true\n\
         command = 'x={{size}}; {when}; echo $(( x * 100 )) $d $o'\n\
         [[phase]]\nname = \"work\"\nread = '(?<time_ms>\\d+) (?<digest>\\w+) (?<operations>\\d+)'\n"
    )
}

const OF_SIZE: [&str; 9] = ["tune", "x.toml", "--minimize", "work.time", "--over", "size=1..9", "--confirm", "6", "-q"];

#[test]
fn settings_with_other_answers_or_other_work_win_nothing() {
    for (differs, why) in [
        (
            "d=ok; o=5; if test $x -lt 4; then d=bad; fi",
            "`size=9` and `size=1` reported different answers: `ok` and `bad`",
        ),
        ("d=ok; o=5; if test $x -lt 4; then o=1; fi", "`size=9` attempted 5 operations, but `size=1` attempted 1"),
    ] {
        let bench = Bench::new(&answering(differs));
        let (code, said, errors) = bench.prony(&OF_SIZE);
        assert_eq!(code, Some(0), "{said}{errors}");
        assert!(
            said.starts_with("winner: size=4\ndefault: size=9\nleft out, since their answers or work differ"),
            "{said}"
        );
        assert!(said.contains(&format!(": 3 settings; the first: size=1 ({why})")), "{said}");
        let entries = bench.journal(1).into_iter().filter(|entry| entry["left_out"].is_number());
        assert!(entries.map(|entry| entry["setting"]["size"].clone()).eq(["1", "2", "3"]), "{:?}", bench.journal(1));
        assert!(bench.prony(&["show", "1"]).1.contains(why), "it is shown again");
    }
    let bench = Bench::new(&answering("o=5; d=$x"));
    let (code, said, errors) = bench.prony(&OF_SIZE);
    assert_eq!(code, Some(1), "{said}{errors}");
    assert!(
        said.starts_with("no winner: no other setting that was tried can be compared with the default\n"),
        "{said}"
    );
    assert!(said.contains("reported different answers: `9` and `") && !said.contains("winner: size"), "{said}");
}

/// The answers agree in the search: eight trials, and the default again.
#[test]
fn a_setting_whose_comparison_the_fresh_blocks_refuse_is_no_winner() {
    let count = "echo >> FILE; n=$(wc -l < FILE); o=5; d=ok; if test $n -gt 9 -a $x -lt 9; then d=bad; fi";
    let bench = Bench::new("");
    let text = answering(&count.replace("FILE", &bench.path("count").display().to_string()));
    std::fs::write(bench.path("x.toml"), text).unwrap();
    let (code, said, errors) = bench.prony(&[&OF_SIZE[..], &["--max-trials", "9"]].concat());
    assert_eq!(code, Some(1), "{said}{errors}");
    assert!(
        said.starts_with("no winner: `size=9` and `size=1` reported different answers: `ok` and `bad`\n"),
        "{said}"
    );
    assert!(said.contains("\nbest in the search: size=1\n") && !said.contains("(medians)"), "{said}");
}

/// A search over the sizes of a program, whose first session ends before its fourth trial: its preparation fails.
fn stopped(script: &str, search: &[&str]) -> Bench {
    stopped_with("command = [\"sh\", \"run.sh\", \"{size}\"]\ndirectory = \"site\"", script, search)
}

/// The same with these keys of the program; `DIR` is the folder of the experiment.
fn stopped_with(program: &str, script: &str, search: &[&str]) -> Bench {
    let bench = Bench::new("");
    std::fs::create_dir(bench.path("site")).unwrap();
    std::fs::write(bench.path("site/run.sh"), format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(bench.path("site/run.sh"), Permissions::from_mode(0o755)).unwrap();
    let log = bench.path("prepared").display().to_string();
    let program = program.replace("DIR", &bench.dir.path().display().to_string());
    let text = format!(
        "[observe]\ncare = \"light\"\n[factors]\nsize = [9]\n[program.x]\n{program}\n\
         prepare = \"echo >> {log}; test $(wc -l < {log}) -ne 4\"\n\
         [[phase]]\nname = \"work\"\nread = '(?<time_ms>\\d+)'\n"
    );
    std::fs::write(bench.path("x.toml"), text).unwrap();
    let (code, said, errors) = bench.prony(search);
    assert_eq!((code, bench.run(1).trials.len()), (Some(2), 3), "{said}{errors}");
    bench
}

/// No value that is tried after the change was tried before it.
#[test]
fn a_search_whose_executable_changed_between_sessions_finds_nothing() {
    let script = "echo $(( $1 * 100 )); test $1 -le 20";
    for changes in [true, false] {
        let grow = ["grow", "x.toml", "--raise", "size=1..100", "-q"];
        let bench = stopped_with("command = [\"DIR/site/run.sh\", \"{size}\"]", script, &grow);
        if changes {
            std::fs::write(bench.path("site/run.sh"), format!("#!/bin/sh\n{}\n", script.replace("20", "50"))).unwrap();
        }
        let (code, said, errors) = bench.prony(&["grow", "--resume", "-q"]);
        assert_eq!(code, Some(i32::from(changes)), "{said}{errors}");
        assert_eq!(said.starts_with("no limit: `sources_differ`: not all trials"), changes, "{said}");
        assert_eq!(bench.run(1).trials.len() == 4, changes, "{said}");
    }
}

#[test]
fn a_search_whose_program_changed_between_sessions_finds_nothing() {
    let grow: &[&str] = &["grow", "x.toml", "--raise", "size=1..100", "-q"];
    for (what, kind, search) in [("limit", "grow", grow), ("winner", "tune", &OF_SIZE)] {
        let script = "echo $(( $1 * 100 )); test $1 -le 20";
        let bench = stopped(script, search);
        std::fs::write(bench.path("site/run.sh"), script.replace("20", "50")).unwrap();
        let (code, said, errors) = bench.prony(&[kind, "--resume", "-q"]);
        assert_eq!((code, bench.run(1).trials.len()), (Some(1), 4), "{said}{errors}");
        let first =
            format!("no {what}: `sources_differ`: not all trials of a variant ran the same program or engine: the");
        assert!(said.starts_with(&first) && said.contains("\nhint: ") && !said.contains(" 20 "), "{said}");
        assert!(!said.contains("\nwinner: ") && bench.prony(&["show", "1"]).1.contains(&first), "{said}");
        let (code, _, errors) = bench.prony(&[kind, "--resume"]);
        assert!(code == Some(2) && errors.contains("no interrupted search"), "it cannot be completed: {errors}");
        // Nothing else stops it.
        let bench = stopped(script, search);
        let (code, said, errors) = bench.prony(&[kind, "--resume", "-q"]);
        assert_eq!(code, Some(0), "{said}{errors}");
        assert!(said.contains(if kind == "grow" { " 20 " } else { "winner: size=1\n" }), "{said}");
    }
}

#[test]
fn what_a_resumed_search_would_ignore_is_refused() {
    let script = "echo $(( $1 * 100 )); test $1 -le 20";
    let grow: &[&str] = &["grow", "x.toml", "--raise", "size=1..100", "-q"];
    let of_grow: &[&str] = &["--raise", "size=1..9", "--resolution", "1%", "--confirm", "1", "--set", "size=2"];
    let of_tune: &[&str] =
        &["--minimize", "work.wall", "--subject-to", "work.time < 1 ms", "--over", "size=2..3", "--max-trials", "9"];
    let named =
        ["`--raise`, `--resolution`, `--confirm`, `--set`", "`--minimize`, `--subject-to`, `--over`, `--max-trials`"];
    for (kind, search, given, named) in [("grow", grow, of_grow, named[0]), ("tune", &OF_SIZE, of_tune, named[1])] {
        let bench = stopped(script, search);
        for file in [&[][..], &["x.toml"]] {
            let (code, _, errors) = bench.prony(&[&[kind], file, &["--resume", "1"], given].concat());
            let expected = format!("error: a search is resumed as it was started, without {named}\nhint: ");
            assert!(code == Some(2) && errors.contains(&expected), "{errors}");
        }
        std::fs::write(bench.path("y.toml"), GROWING).unwrap();
        let (code, _, errors) = bench.prony(&[kind, "y.toml", "--resume"]);
        assert!(
            code == Some(2) && errors.contains("error: `y.toml` is not the experiment of run 1\nhint: "),
            "{errors}"
        );
        assert_eq!(bench.run(1).trials.len(), 3, "nothing ran");
        let (code, said, errors) = bench.prony(&[kind, "x.toml", "--resume", "1", "-q"]);
        assert_eq!(code, Some(0), "its own file: {said}{errors}");
    }
}

/// `prony run --resume` completed the fresh blocks without looking at the constraints, and the search had no end.
#[test]
fn a_search_that_was_killed_in_its_fresh_blocks_is_resumed_with_its_constraints() {
    let bench = Bench::new("");
    let at = |name: &str| bench.path(name).display().to_string();
    // Seven trials make the block of the search; from the eighth fresh trial on, the winner needs more disk.
    std::fs::write(
        bench.path("x.toml"),
        format!(
            "[observe]\ncare = \"light\"\n[factors]\nsize = [9]\n[program.x]\nshell = true\n\
             command = 'echo >> {count}; n=$(wc -l < {count}); if test $n -eq 14 -a ! -e {go}; then echo > {reached}; read x < {fifo}; fi; \
             d=5; if test $n -gt 14 -a {{size}} -lt 9; then d=500; fi; echo $(( {{size}} * 100 )) $d'\n\
             [[phase]]\nname = \"work\"\nread = '(?<time_ms>\\d+) (?<disk_mb>\\d+)'\n",
            count = at("count"),
            go = at("go"),
            reached = at("reached"),
            fifo = at("fifo")
        ),
    )
    .unwrap();
    assert!(Command::new("mkfifo").arg(bench.path("fifo")).status().unwrap().success());
    let bound = ["--max-trials", "9", "--subject-to", "work.disk < 100 MB"];
    let mut child = bench.command(&[&OF_SIZE[..], &bound].concat()).spawn().unwrap();
    while !bench.path("reached").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before the trial that waits");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let heads = [1, 2].map(|run| bench.run(run)).map(|run| (run.head.status, run.trials.len()));
    assert_eq!(heads, [(RunStatus::Unfinished, 7), (RunStatus::Unfinished, 6)]);
    std::fs::write(bench.path("go"), "").unwrap();
    let (code, _, errors) = bench.prony(&["run", "--resume"]);
    assert!(code == Some(2) && errors.contains("no interrupted run in"), "{errors}");
    let (code, _, errors) = bench.prony(&["run", "--resume", "2"]);
    assert!(code == Some(2) && errors.contains("hint: to resume this search: `prony tune --resume 1`"), "{errors}");
    assert!(bench.prony(&["show", "2"]).1.contains("`prony tune --resume 1`"), "{}", bench.prony(&["show", "2"]).1);
    let (code, said, errors) = bench.prony(&["tune", "--resume", "-q", "--journal", "j.jsonl"]);
    assert_eq!(code, Some(1), "{said}{errors}");
    assert!(said.contains("winner: size=1\n") && said.contains("`work.disk < 100 MB` DOES NOT HOLD: in "), "{said}");
    let runs = Database::open(&bench.path("prony.db")).unwrap().runs().unwrap();
    assert!(runs.len() == 2 && runs.iter().all(|head| head.status == RunStatus::Done), "{runs:?}");
    let fresh = bench.run(2).trials.iter().filter(|trial| trial.conditions.session == 1).count();
    assert_eq!((fresh, bench.run(1).trials.len()), (12, 7), "the fresh blocks go on, and nothing is searched again");
    let journal = bench.journal(1);
    let [.., begun, end] = journal.as_slice() else { panic!("{journal:?}") };
    assert_eq!((&begun["confirming"], &end["confirmation"]), (&2.into(), &2.into()));
    assert_eq!(lines(&bench.path("j.jsonl")), journal);
    assert!(bench.prony(&["show", "1"]).1.contains("DOES NOT HOLD"));
}

/// Without command lines in its record a program cannot be run again; a store has none.
#[test]
fn fresh_blocks_of_a_store_go_on_without_command_lines() {
    let bench = Bench::new(
        "[observe]\ncare = \"light\"\nrecord_commands = false\n[factors]\nn = [200]\n[store]\nengine = \"memory\"\n\
         [data]\nrecords = 1_000\nvalue = { bytes = 10 }\n[[phase]]\nname = \"work\"\nput = { count = \"{n}\" }\n",
    );
    let arguments = ["tune", "x.toml", "--minimize", "work.operations", "--over", "n=10..200", "--confirm", "6", "-q"];
    let (_, said, errors) = bench.prony(&arguments);
    assert!(said.contains("winner: n=10\n"), "{said}{errors}");
    let whole = bench.run(2);
    let connection = rusqlite::Connection::open(bench.path("prony.db")).unwrap();
    let cut = "PRAGMA foreign_keys = ON; DELETE FROM trials WHERE run = 2 AND position >= 9";
    connection.execute_batch(cut).unwrap();
    drop(connection);
    let mut database = Database::open(&bench.path("prony.db")).unwrap();
    database.end_run(RunId(2), RunStatus::Interrupted, 1).unwrap();
    drop(database);
    assert_eq!(bench.run(2).trials.len(), 9);
    let (code, _, errors) = bench.prony(&["run", "--resume", "2", "-q"]);
    assert_eq!(code, Some(0), "{errors}");
    let again = bench.run(2);
    assert_eq!((again.head.status, again.trials.len()), (RunStatus::Done, whole.trials.len()));
    let operations = |run: &RunData| {
        let name = "work.operations".parse().unwrap();
        run.trials.iter().map(|trial| (trial.trial, trial.figure(&name))).collect::<Vec<_>>()
    };
    assert_eq!(operations(&again), operations(&whole));
}

#[test]
fn the_default_is_returned_where_nothing_is_better() {
    let bench = Bench::new(BOWL);
    let best = ["--default", "chunking.batch=300", "--default", "chunking.pause=0 ms"];
    let (code, said, errors) =
        bench.prony(&[&["tune", "x.toml", "--minimize", "work.time"], &best[..], &OVER].concat());
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("the default is kept") && said.contains("chunking.batch=300, chunking.pause=0 ms"), "{said}");
    assert_eq!(Database::open(&bench.path("prony.db")).unwrap().runs().unwrap().len(), 1, "nothing to confirm");
}

#[test]
fn the_levels_of_a_factor_are_replaced_whatever_the_design_says_of_them() {
    let bench = Bench::new(&BOWL.replace("[compare]", "[[design.grid]]\nsize = 2\nchunking = \"small\"\n[compare]"));
    let arguments = ["tune", "x.toml", "--minimize", "work.time", "--over", "size=3..9", "--only", "size=2", "-q"];
    let (code, said, errors) = bench.prony(&arguments);
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("the default is kept: no setting was found to be better than size=2"), "{said}");
    let (code, said, errors) = bench.prony(&[&arguments[..], &["--default", "size=8", "--confirm", "6"]].concat());
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("winner: size=3\ndefault: size=8\n") && said.contains("times faster than"), "{said}");
}

#[test]
fn search_mistakes_are_reported_before_any_trial() {
    let bench = Bench::new(BOWL);
    let cases: [(&[&str], &str); 10] = [
        (&["--over", "size=1..9"], "no metric to minimize or maximize is given"),
        (&["--maximize", "work.time", "--over", "size=1..9"], "a lower value is better"),
        (&["--minimize", "wrok.time", "--over", "size=1..9"], "has no phase `wrok`"),
        (&["--minimize", "work.time", "--over", "size=1.."], "has no end"),
        (&["--minimize", "work.time", "--over", "sise=1..9"], "`sise` is not a factor"),
        (&["--minimize", "work.time", "--over", "size=1..9", "size=2..3"], "varies `size` twice"),
        (&["--minimize", "work.time", "--over", "chunking.pause=0..1 s"], "is not in the unit"),
        (
            &["--minimize", "work.time", "--over", "size=1..9", "--default", "pause=1"],
            "`--default pause` names a factor that no `--over` varies",
        ),
        (
            &["--minimize", "work.time", "--over", "size=1..9", "--subject-to", "work.disk < 3 s"],
            "not a unit of memory",
        ),
        (
            &["--minimize", "work.time", "--over", "size=1..9", "--subject-to", "work.disk < 100"],
            "`100` has no unit of memory or storage\nhint: known: B, kB, MB",
        ),
    ];
    for (arguments, wanted) in cases {
        let (code, _, errors) = bench.prony(&[&["tune", "x.toml"], arguments].concat());
        assert!(code == Some(2) && errors.contains(wanted), "{arguments:?}: {errors}");
    }
    assert!(!bench.path("prony.db").exists());
    std::fs::write(bench.path("x.toml"), BOWL.replace(", size = 1", "")).unwrap();
    let (code, _, errors) = bench.prony(&[&["tune", "x.toml", "--minimize", "work.time"], &OVER[..]].concat());
    assert!(code == Some(2) && errors.contains("`--only size=1`"), "{errors}");
}

#[test]
fn a_cleanup_that_fails_ends_no_search_early() {
    let bench = Bench::new(&GROWING.replace("shell = true", "shell = true\ncleanup = \"exit 7\""));
    let (code, said, errors) = bench.prony(&["grow", "x.toml", "--raise", "n=1..100", "-q"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("cleanup of program") && errors.contains("the finished trials are saved"), "{errors}");
    assert!(said.contains(" 37 ") && bench.run(1).head.status == RunStatus::Done, "{said}");

    let bench = Bench::new(&BOWL.replace("shell = true", "shell = true\ncleanup = \"exit 7\""));
    let arguments = ["tune", "x.toml", "--minimize", "work.time", "--max-trials", "60", "--confirm", "6"];
    let (code, said, errors) = bench.prony(&[&arguments[..], &OVER].concat());
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("cleanup of program") && errors.contains("the finished trials are saved"), "{errors}");
    assert!(said.contains("winner: ") && said.contains("times faster than"), "{said}");
    assert_eq!([1, 2].map(|run| bench.run(run).head.status), [RunStatus::Done, RunStatus::Done]);
}
