//! Tests searches through the real binary: the values that are tried, the result, and what is stored.

mod resumed;
mod tune;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use prony_experiment::design::Blocks;
use prony_model::record::TrialRecord;
use prony_model::units::Nanos;
use prony_results::{Database, RunData, RunId, RunStatus};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

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

/// A program that takes 100 ms for each unit of size, and whose answer or work depends on a shell expression `{when}` of `x`.
fn answering(when: &str) -> String {
    format!(
        "[observe]\ncare = \"light\"\n[factors]\nsize = [9]\n[program.x]\nshell = true\n\
         command = 'x={{size}}; {when}; echo $(( x * 100 )) $d $o'\n\
         [[phase]]\nname = \"work\"\nread = '(?<time_ms>\\d+) (?<digest>\\w+) (?<operations>\\d+)'\n"
    )
}

const OF_SIZE: [&str; 9] = ["tune", "x.toml", "--minimize", "work.time", "--over", "size=1..9", "--confirm", "6", "-q"];

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
    let (largest, next) =
        (wide["largest_success"]["value"].as_f64().unwrap(), wide["smallest_failure"]["value"].as_f64().unwrap());
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
    assert!(ends.iter().all(|entry| (entry["end"] == "succeeded") == (value(entry) <= 50.0)), "{ends:?}");
    // At the first value it is a fault of the file, or of the range.
    let (code, said, _) = bench.prony(&["grow", "x.toml", "--raise", "n=60..100"]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("no value succeeds: 60 fails already") && said.contains("60 is no success although"),
        "{said}"
    );
}

/// Above 50 the program does not say how many operations failed: that was a success.
#[test]
fn a_value_whose_work_is_not_known_is_no_success() {
    let bench = Bench::new(
        "[observe]\ncare = \"light\"\n[factors]\nn = [1]\n[program.x]\nshell = true\n\
         command = 'if test {n} -le 50; then echo 5 ok, 0 failed; else echo 5 ok, 1k failed; fi'\n\
         [[phase]]\nname = \"go\"\nread = '(?<operations>\\d+) ok, (?<errors>\\w+) failed'\n",
    );
    let (code, said, errors) = bench.prony(&["grow", "x.toml", "--raise", "n=10..100", "--resolution", "1%"]);
    assert_eq!(code, Some(0), "{said}{errors}");
    let row = said.lines().find(|line| line.starts_with("n ")).unwrap();
    assert!(row.contains(" 50 ") && row.contains(" 51 ") && row.contains("phase go has unknown work"), "{said}");
    let note = "51 is no success although the program ended well: phase `go`: `errors` of the phase is unknown: ";
    assert!(said.contains(note) && said.contains("; compare `read` with the program's output"), "{said}");
}

/// The row looked like that of a limit that was confirmed, and the exit code was 0.
#[test]
fn a_search_that_disturbances_end_says_how_often_each_side_was_tried_and_ends_with_1() {
    let bench = Bench::new("");
    // A kill of unknown cause, of 6 from its second trial on.
    let count = bench.path("count").display().to_string();
    let command = format!(
        "test {{n}} -le 6 || exit 1; test {{n}} -lt 6 && exit; echo >> {count}; \
         test $(wc -l < {count}) -lt 2 || kill -KILL $$"
    );
    let text =
        format!("[observe]\ncare = \"light\"\n[factors]\nn = [1]\n[program.x]\nshell = true\ncommand = '{command}'\n");
    std::fs::write(bench.path("x.toml"), text).unwrap();
    let (code, said, errors) = bench.prony(&["grow", "x.toml", "--raise", "n=3..100", "--resolution", "20%"]);
    assert_eq!(code, Some(1), "{said}{errors}");
    let note = "the search stopped at this value before `--confirm 3` confirmed the limit (6 succeeded in 1 trial, 7 failed \
                in 1 trial)";
    assert!(said.contains("repeated trials of 6 were ended from outside") && said.contains(note), "{said}");
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
        ("n=1k..9k", "`n` is `1` in the file, which is not in the unit of `n=1 k..9 k`"),
    ] {
        let (code, _, errors) = bench.prony(&["grow", "x.toml", "--raise", range]);
        assert_eq!(code, Some(2), "{range}");
        assert!(errors.contains(wanted) && errors.contains("hint: "), "{errors}");
    }
    let scratch = ["grow", "x.toml", "--raise", "n=1..9", "--only", "kind=wide", "--scratch", "none"];
    let (code, _, errors) = bench.prony(&scratch);
    assert!(code == Some(2) && errors.contains("folder `none` does not exist\nhint: create the folder"), "{errors}");
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
    let (largest, next) =
        (grown["largest_success"]["value"].as_f64().unwrap(), grown["smallest_failure"]["value"].as_f64().unwrap());
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

/// Each `cleanup` was skipped, and the run was neither done nor interrupted.
#[test]
fn an_error_that_ends_a_search_leaves_it_to_be_resumed() {
    let steps =
        "shell = true\ndirectory = \".\"\ncopy = \"none\"\nprepare = \"test {n} -lt 4\"\ncleanup = \"touch cleaned\"";
    let bench = Bench::new(&GROWING.replace("shell = true", steps));
    let (code, _, errors) = bench.prony(&["grow", "x.toml", "--raise", "n=1..100"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("2 finished trials saved") && errors.contains("`prony grow --resume 1`"), "{errors}");
    assert!(bench.path("cleaned").exists() && bench.run(1).head.status == RunStatus::Interrupted, "{errors}");
}

/// Its trials were said to be saved, with a command that resumes it.
#[test]
fn a_search_whose_database_is_deleted_says_nothing_of_saved_trials() {
    let bench = Bench::new("");
    let database = bench.path("prony.db").display().to_string();
    let command = format!("test {{n}} -lt 4 || rm -f {database} {database}-wal {database}-shm");
    let text =
        format!("[observe]\ncare = \"light\"\n[factors]\nn = [1]\n[program.x]\nshell = true\ncommand = '{command}'\n");
    std::fs::write(bench.path("x.toml"), text).unwrap();
    let (code, said, errors) = bench.prony(&["grow", "x.toml", "--raise", "n=1..100"]);
    assert!(code == Some(2) && errors.contains("the file was deleted or moved during the run"), "{said}{errors}");
    assert!(!errors.contains("saved") && !errors.contains("--resume"), "{errors}");
}

/// The default was said to be kept although nothing was compared with it.
#[test]
fn settings_that_were_ended_from_outside_leave_no_winner() {
    let bench = Bench::new(&answering("test $x = 9 || kill -9 $$; d=a; o=1"));
    let (code, said, errors) = bench.prony(&OF_SIZE);
    assert_eq!(code, Some(1), "{said}{errors}");
    assert!(said.contains("no winner: no other setting that was tried can be compared with the default"), "{said}");
}

#[test]
fn a_setting_of_the_command_line_is_that_of_a_search() {
    let bench = Bench::new(BOWL);
    let over = [
        "tune",
        "x.toml",
        "--minimize",
        "work.time",
        "--over",
        "size=1..2",
        "--confirm",
        "6",
        "--max-trials",
        "8",
        "-q",
    ];
    let (code, said, errors) = bench.prony(&[&over[..], &["--set", "chunking.pause=5 ms"]].concat());
    assert_eq!(code, Some(0), "{said}{errors}");
    assert!(bench.run(1).experiment.variants().iter().all(|variant| variant.levels.len() == 2), "{said}");
}

/// The option had no effect in a search, and `tune` ran as many blocks as `--confirm` said.
#[test]
fn number_of_blocks_is_refused_where_it_has_no_effect() {
    let bench = Bench::new(BOWL);
    for command in [&["grow", "x.toml", "--raise", "size=1..9"][..], &["data", "x.toml"]] {
        let (code, _, errors) = bench.prony(&[command, &["--blocks", "9"]].concat());
        assert!(code == Some(2) && errors.contains("unknown option `--blocks`"), "{errors}");
    }
    let tune = ["tune", "x.toml", "--minimize", "work.time", "--over", "size=1..9", "--blocks"];
    let (code, _, errors) = bench.prony(&[&tune[..], &["5"]].concat());
    assert!(code == Some(2) && errors.contains("a verdict needs at least 6 blocks"), "{errors}");
    let (code, _, errors) = bench.prony(&[&tune[..], &["6", "--confirm", "7"]].concat());
    assert!(code == Some(2) && errors.contains("cannot be used multiple times"), "it is another name of it: {errors}");
}
