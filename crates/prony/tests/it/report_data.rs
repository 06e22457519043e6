//! Tests the commands that read a database: what they write, what they refuse.

use std::io::{self, Cursor, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Parser;
use prony::cli::Output;
use prony::cli::ls::{LsArgs, ls};
use prony::cli::report::{ReportArgs, report};
use prony::cli::rm::{RmArgs, rm};
use prony::cli::run_selection::DatabaseArg;
use prony::cli::show::{ShowArgs, show};
use prony::error::Error;
use prony_model::outcome::Outcome;
use prony_report::screen::Screen;
use prony_results::{Database, RunStatus};
use serde_json::{Value, json};

use crate::json_document::{column, obeys_the_schema};
use crate::records;
use crate::synthetic::{NOON, every_figure, experiment, full_trial, phase, start, texts, trial};

#[derive(Parser)]
enum Command {
    Show(ShowArgs),
    Report(ReportArgs),
    Ls(LsArgs),
    Rm(RmArgs),
}

struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    /// Two runs: a whole one of every part of a record, and an interrupted one.
    fn new() -> Self {
        let fixture = Self { dir: tempfile::tempdir().unwrap() };
        let mut database = Database::create(&fixture.path()).unwrap();
        let host = records::host();
        let one =
            experiment("First, \"quoted\"", &[texts("engine", &["a", "b"])], &[("write", true), ("read", true)], 2);
        let run = database.begin_run(&start(&one, &host, 4)).unwrap();
        (0..4).for_each(|position| database.append_trial(run, &full_trial(position)).unwrap());
        database.end_run(run, RunStatus::Done, NOON + 9000).unwrap();
        let two = experiment("Second", &[], &[("write", true)], 3);
        let run = database.begin_run(&start(&two, &host, 3)).unwrap();
        let mut failed = trial(0, 0, 0);
        failed.ending.outcome = Outcome::Crashed { signal: 11 };
        failed.phases = vec![phase("write", &[])];
        failed.phases[0].readings.insert(String::new(), every_figure(1));
        database.append_trial(run, &failed).unwrap();
        database.end_run(run, RunStatus::Interrupted, NOON + 9000).unwrap();
        fixture
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("prony.db")
    }

    fn try_run(&self, line: &str, answers: Option<&str>) -> Result<String, Error> {
        let path = self.path();
        let words = line.split_whitespace().chain(["--database", path.to_str().unwrap()]);
        let mut out = Vec::new();
        match Command::try_parse_from(["prony"].into_iter().chain(words)).unwrap() {
            Command::Show(args) => show(&args, &mut Output::new(&mut out, false, None, false))?,
            Command::Report(args) => drop(report(&args, &mut out)?),
            Command::Ls(args) => ls(&args, &mut Output::new(&mut out, false, None, false))?,
            Command::Rm(args) => {
                let mut answers = answers.map(|text| Cursor::new(text.to_owned()));
                rm(&args, answers.as_mut().map(|a| a as &mut dyn io::BufRead), &mut Screen::new(&mut out, false))?;
            }
        }
        Ok(String::from_utf8(out).unwrap())
    }

    fn run(&self, line: &str) -> String {
        self.try_run(line, None).unwrap()
    }
}

#[test]
fn runs_are_listed_with_how_they_went() {
    insta::assert_snapshot!("ls", Fixture::new().run("ls"));
}

#[test]
fn a_run_is_chosen_by_number_or_from_the_end() {
    let fixture = Fixture::new();
    for (line, title) in [
        ("show", "Second"),
        ("show -1", "Second"),
        ("show -2", "First"),
        ("show 1", "First"),
        ("show latest", "Second"),
    ] {
        assert!(fixture.run(line).starts_with(title), "{line}");
    }
    for line in ["show 9", "show -3"] {
        let error = fixture.try_run(line, None).unwrap_err();
        assert!(
            matches!(error, Error::Results(prony_results::Error::NoRun { .. })) && error.hint().is_some(),
            "{line}: {error}"
        );
    }
}

#[test]
fn metrics_on_the_command_line_are_checked_by_the_grammar() {
    let fixture = Fixture::new();
    assert!(fixture.run("show 1 --metric write.time --metric write.rss.peak").contains("rss.peak"));
    let parse = |line: &str| Command::try_parse_from(["prony", "show"].into_iter().chain(line.split(' '))).map(|_| ());
    let error = parse("--metric write.tiem").unwrap_err().to_string();
    assert!(error.contains("did you mean `write.time`?"), "{error}");
    assert!(parse("--metric write.time --all-metrics").is_err());
}

#[test]
fn csv_has_a_row_for_each_reading() {
    let csv = Fixture::new().run("report 1 --format csv");
    let mut lines = csv.lines();
    assert_eq!(
        lines.next().unwrap(),
        "run,block,position,variant,label,factor.engine,outcome,phase,action,timed,completion,instance,metric,value,unit,missing,partial,last_active"
    );
    assert_eq!(lines.next().unwrap(), "1,1,1,0,a2,a,ok,write,put,true,complete,,time,1500000000,nanos,,,");
    assert_eq!(csv.lines().filter(|l| l.contains(",fsyncs,,count,not permitted: no tracefs")).count(), 4);
    assert_eq!(csv.lines().count(), 1 + 4 * 5);
}

#[test]
fn groups_and_series_are_rows_too() {
    let fixture = Fixture::new();
    let samples = fixture.run("report 1 --format csv --what samples");
    assert_eq!(samples.lines().count(), 1 + 4 * 3);
    let heads =
        "run,block,position,variant,label,factor.engine,outcome,phase,completion,group,operations,wall_ns,cpu_ns";
    assert_eq!(samples.lines().next().unwrap(), heads);
    assert_eq!(samples.lines().nth(1).unwrap(), "1,1,1,0,a2,a,ok,write,complete,0,10,5,18446744073709551615");
    let series: Value = serde_json::from_str(&fixture.run("report 1 --format json --what series")).unwrap();
    let series = series.as_array().unwrap();
    assert_eq!(series.len(), 4 * 43);
    assert_eq!(series[0]["at_ns"], json!(series[0]["at_ns"].as_u64().unwrap()));
    assert_eq!(series.iter().filter(|s| s["phase"] == "write" && s["position"] == 0).count(), 10);
    assert!(series.iter().any(|s| s["cpu_wait_ns"].is_null()) && series.iter().any(|s| s["cpu_wait_ns"].is_u64()));
}

#[test]
fn the_json_document_obeys_its_schema() {
    let fixture = Fixture::new();
    for line in ["report 1 --format json", "report 2 --format json", "report 1 --format json --what everything"] {
        obeys_the_schema(&serde_json::from_str(&fixture.run(line)).unwrap());
    }
    let document: Value = serde_json::from_str(&fixture.run("report 1 --format json")).unwrap();
    assert_eq!(column(&document, 1, ["write", "", "time"])["values"], json!([1.5e9, 1.5e9]));
    assert_eq!(document["variants"][1]["trials"][1]["trial"]["position"], json!(3));
    assert_eq!(document["tables"][0]["rows"][0]["cells"][0]["figures"][0]["trials"], json!(2));
}

#[test]
fn everything_of_a_run_has_samples_and_histograms_and_is_no_table() {
    let fixture = Fixture::new();
    let samples = |what: &str| {
        let document: Value = serde_json::from_str(&fixture.run(&format!("report 1 --format json{what}"))).unwrap();
        let trial = &document["variants"][0]["trials"][0];
        [&trial["series"], &trial["phases"][0]["histograms"]].map(|all| all.as_array().unwrap().len())
    };
    assert_eq!((samples(""), samples(" --what everything")), ([0, 0], [2, 1]));
    let file = fixture.dir.path().join("everything.csv");
    let line = format!("report 1 --format csv --what everything -o {}", file.display());
    let error = fixture.try_run(&line, None).unwrap_err();
    assert!(error.hint().unwrap().contains("--format json"));
    assert!(!file.exists());
}

#[test]
fn report_is_written_to_the_named_file() {
    let fixture = Fixture::new();
    let file = fixture.dir.path().join("report.md");
    let shown = fixture.run(&format!("report 1 -o {}", file.display()));
    assert_eq!(shown, "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), fixture.run("report 1"));
    let error = fixture.try_run("report 1 -o /nowhere/at/all.md", None).unwrap_err();
    assert_eq!(error.to_string(), "cannot write `/nowhere/at/all.md`: there is no folder `/nowhere/at`");
}

#[test]
fn ending_of_the_output_is_its_format_unless_another_is_stated() {
    let fixture = Fixture::new();
    let begins = |words: &str, name: &str| {
        let file = fixture.dir.path().join(name);
        fixture.run(&format!("report 2 {words} -o {}", file.display()));
        std::fs::read_to_string(file).unwrap().chars().take(2).collect::<String>()
    };
    let all = ["a.html", "a.HTM", "a.md", "a.adoc", "a.org", "a.json", "a.txt", "a"].map(|name| begins("", name));
    assert_eq!(all, ["<!", "<!", "# ", "= ", "#+", "{\n", "# ", "# "]);
    assert_eq!(begins("--format json", "b.html"), "{\n");
    assert!(fixture.run("report 2").starts_with("# "));
}

/// Opens the page of run 2 by a script in the place of `xdg-open`.
fn opened(fixture: &Fixture, script: &str, words: &[&str]) -> std::process::Output {
    let bin = fixture.dir.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("xdg-open"), script).unwrap();
    std::fs::set_permissions(bin.join("xdg-open"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_prony"));
    command.args(["report", "2", "--open", "--database"]).arg(fixture.path()).args(words);
    command.current_dir(fixture.dir.path()).env("PATH", bin).output().unwrap()
}

#[test]
fn a_page_is_written_beside_the_database_and_shown_by_the_browser() {
    let fixture = Fixture::new();
    let script = "#!/bin/sh\nprintf '%s' \"$1\" > shown\n";
    let shown = || PathBuf::from(std::fs::read_to_string(fixture.dir.path().join("shown")).unwrap());
    for (words, name) in [(&[][..], "prony-page-2.html"), (&["-o", "./-x.html"], "-x.html")] {
        let output = opened(&fixture, script, words);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && said.starts_with("wrote `") && said.ends_with(&format!("{name}`\n")),
            "{said}"
        );
        assert_eq!(shown(), fixture.dir.path().canonicalize().unwrap().join(name));
        assert!(std::fs::read_to_string(shown()).unwrap().starts_with("<!doctype html>"));
    }
    let output = opened(&fixture, "#!/bin/sh\nexit 3\n", &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("prony-page-2.html` in a browser") && said.contains("exit status: 3") && said.contains("hint: "),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(Command::try_parse_from(["prony", "report", "--open", "--format", "csv"]).is_err());
}

/// Without a desktop, `xdg-open` becomes the browser, and prony waited for its end.
#[test]
fn report_does_not_wait_for_a_browser_in_the_foreground() {
    let fixture = Fixture::new();
    let output = opened(&fixture, "#!/bin/sh\necho $$ > pid\nexec /bin/sleep 1000\n", &[]);
    let pid = std::fs::read_to_string(fixture.dir.path().join("pid")).unwrap();
    let runs_on = crate::bench::alive(&pid);
    std::process::Command::new("kill").arg(pid.trim()).status().unwrap();
    assert!(output.status.success() && runs_on, "{output:?}");
}

#[test]
fn hint_for_more_of_a_run_names_its_database_and_quotes_its_phase() {
    let fixture = Fixture { dir: tempfile::Builder::new().prefix("of me").tempdir().unwrap() };
    let mut database = Database::create(&fixture.path()).unwrap();
    let experiment = experiment("Third", &[], &[("write", true), ("read all", true)], 1);
    let run = database.begin_run(&start(&experiment, &records::host(), 1)).unwrap();
    let mut one = trial(0, 0, 0);
    one.phases = vec![phase("write", &[]), phase("read all", &[])];
    database.append_trial(run, &one).unwrap();
    database.end_run(run, RunStatus::Done, NOON).unwrap();
    let shown = fixture.run("show --width 400");
    let hint = format!(
        "`prony show 1 --all --database '{}'`; less than all, in place of `--all`: `--phase 'read all'` (measured and not compared)",
        fixture.path().display()
    );
    assert!(shown.contains(&hint), "{shown}");
    let choice = |path: &str| DatabaseArg { database: PathBuf::from(path) };
    assert_eq!((choice("prony.db").option(), choice("x.db").option().as_str()), (String::new(), " --database x.db"));
}

#[test]
fn what_does_not_go_together_is_refused_with_a_hint() {
    let error = Fixture::new().try_run("report --what series", None).unwrap_err();
    assert!(error.hint().unwrap().contains("--format csv"));
    let empty = Fixture { dir: tempfile::tempdir().unwrap() };
    let error = empty.try_run("show", None).unwrap_err();
    assert!(matches!(error, Error::Results(prony_results::Error::NoDatabase { .. })) && !empty.path().exists());
    drop(Database::create(&empty.path()).unwrap());
    assert!(matches!(empty.try_run("show", None).unwrap_err(), Error::Results(prony_results::Error::NoRuns { .. })));
}

#[test]
fn rm_asks_before_it_deletes() {
    let fixture = Fixture::new();
    let count = |fixture: &Fixture| Database::open(&fixture.path()).unwrap().runs().unwrap().len();
    for no in ["n\n", "", "\n"] {
        let asked = fixture.try_run("rm 1", Some(no)).unwrap();
        assert!(asked.contains("First, \"quoted\", 4 trials") && asked.ends_with("delete? [y/N] "), "{asked}");
        assert_eq!(count(&fixture), 2);
    }
    assert!(matches!(fixture.try_run("rm 1", None), Err(Error::Arguments { .. })));
    assert!(matches!(fixture.try_run("rm 1 9 --yes", None), Err(Error::Results(prony_results::Error::NoRun { .. }))));
    assert_eq!(count(&fixture), 2);
    assert!(fixture.try_run("rm 1", Some("y\n")).unwrap().ends_with("deleted run 1\n"));
    assert_eq!(fixture.run("rm -1 2 --yes"), "deleted run 2\n");
    assert_eq!(count(&fixture), 0);
}

/// A reader that goes away after a few bytes.
struct BrokenPipe(usize);

impl Write for BrokenPipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn broken_pipe_is_distinguished_from_other_errors() {
    let fixture = Fixture::new();
    let path = fixture.path();
    let database = path.to_str().unwrap();
    let broken = |result: Result<(), Error>| assert!(result.unwrap_err().is_broken_pipe());
    for (format, what) in [("csv", "results"), ("json", "results"), ("json", "series"), ("markdown", "results")] {
        let line = ["prony", "report", "1", "--format", format, "--what", what, "--database", database];
        let Command::Report(args) = Command::try_parse_from(line).unwrap() else { unreachable!() };
        broken(report(&args, &mut BrokenPipe(20)).map(drop));
    }
    let Command::Show(args) = Command::try_parse_from(["prony", "show", "--database", database]).unwrap() else {
        unreachable!()
    };
    broken(show(&args, &mut Output::new(&mut BrokenPipe(20), false, None, false)));
    assert!(!Error::from(prony_results::Error::NoRuns { path: Path::new("x").to_owned() }).is_broken_pipe());
}
