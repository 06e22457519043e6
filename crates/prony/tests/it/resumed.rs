//! Tests runs of several sessions, and comparisons of two stored runs: values of different things are never shown as
//! values of one thing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use prony_analysis::guard::findings::of_run;
use prony_model::reading::Reading;
use prony_results::{Database, RunId};
use serde_json::{Value, json};

use crate::bench::Bench;

/// Writes an experiment whose first session ends before its fourth trial: its preparation fails.
fn stops(bench: &Bench, blocks: u32, more: &str) {
    let log = bench.path("prepared");
    let text = format!(
        "[factors]\nv = [\"a\", \"b\"]\n[compare]\nbaseline = {{ v = \"a\" }}\nblocks = {blocks}\ntwice = false\n\
         [observe]\ncare = \"light\"\n[program.x]\n\
         prepare = \"echo >> {log}; test $(wc -l < {log}) -ne 4\"\n{more}",
        log = log.display()
    );
    bench.write("e.toml", text);
    let output = bench.prony(&["run", "e.toml", "--quiet"]);
    assert_eq!((output.status.code(), bench.data().trials.len()), (Some(2), 3), "{}", said(&output));
}

/// The default number of blocks is the least that a verdict needs: none of them may be missing.
#[test]
fn a_run_that_was_interrupted_within_a_block_still_gets_its_verdict() {
    let bench = Bench::new();
    stops(&bench, 6, "command = [\"sh\", \"-c\", \"[ {v} = a ] || sleep 0.2\"]\n");
    let output = bench.prony(&["run", "--resume", "--quiet"]);
    let text = said(&output);
    assert!(output.status.code() == Some(0) && text.contains("times as long as `v=a` in `run.time`"), "{text}");
    assert!(!text.contains("too_few_blocks") && bench.data().trials.len() == 13, "{text}");
    let places: Vec<(u32, u32)> = bench.data().trials.iter().map(|t| (t.trial.block, t.trial.sub_block)).collect();
    assert_eq!(places[..6], [(0, 0), (0, 0), (1, 0), (1, 1), (1, 1), (2, 0)]);
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn app(bench: &Bench, text: &str) {
    bench.write("app", format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(bench.path("app"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_resumed_run_says_what_else_it_ran_than_before() {
    for edited in [None, Some("site/run.sh"), Some("app"), Some("input")] {
        let bench = Bench::new();
        bench.write("site/run.sh", "cat");
        bench.write("input", "one");
        app(&bench, "exec sh run.sh");
        let (command, input) = (bench.path("app"), bench.path("input"));
        stops(&bench, 3, &format!("command = [{command:?}, \"{{v}}\"]\ndirectory = \"site\"\ninput = {input:?}\n"));
        let what = match edited {
            None => None,
            Some("app") => {
                app(&bench, "exec sh run.sh #");
                Some(format!("`{}` of `a`, `b` (2 different states)", command.display()))
            }
            Some(file) => {
                fs::write(bench.path(file), "cat # otherwise").unwrap();
                let name = if file == "input" { "`" } else { "the directory `" };
                let path = if file == "input" { input } else { bench.path("site") };
                Some(format!("{name}{}` of `a`, `b` (2 different states)", path.display()))
            }
        };
        let output = bench.prony(&["run", "--resume", "--quiet"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let data = bench.data();
        let found = of_run(&data.experiment, &data.trials, None, true);
        let found = found.into_iter().find(|finding| finding.guard == "sources_differ").map(|finding| finding.message);
        assert_eq!(
            found,
            what.map(|what| format!("not all trials of a variant ran the same program or engine: {what}"))
        );
        assert!(!said(&output).contains("sessions_differ"), "the same machine and prony: {}", said(&output));
        assert_eq!(said(&output).contains("sources_differ"), edited.is_some(), "in the tables: {}", said(&output));
    }
}

#[test]
fn sessions_on_another_machine_or_of_another_prony_are_named() {
    let bench = Bench::new();
    stops(&bench, 3, "command = [\"true\", \"{v}\"]\n");
    let database = rusqlite::Connection::open(bench.path("prony.db")).unwrap();
    let kernel = bench.data().head.host.kernel.measured().unwrap().clone();
    let before = "UPDATE runs SET version = '0.0.9', host = replace(host, ?1, '1.2.3')";
    assert_eq!(database.execute(before, [&kernel]).unwrap(), 1);
    drop(database);
    let output = bench.prony(&["run", "--resume", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let data = bench.data();
    let sessions: Vec<u32> = data.trials.iter().map(|trial| trial.conditions.session).collect();
    assert_eq!(sessions, [0, 0, 0, 1, 1, 1, 1], "the second block runs again");
    let [second] = data.head.resumed.as_slice() else { panic!("{:?}", data.head.resumed) };
    assert_eq!((second.session, second.host.kernel.measured()), (1, Some(&kernel)));
    let database = rusqlite::Connection::open(bench.path("prony.db")).unwrap();
    let idle = "INSERT INTO sessions (run, session, started_unix_ms, host, version) \
                SELECT run, 2, started_unix_ms, host, '0.0.8' FROM sessions";
    assert_eq!(database.execute(idle, []).unwrap(), 1);
    drop(database);
    let report = bench.prony(&["report", "--format", "markdown"]);
    let expected = format!(
        "the machine, its settings, prony's version or the environment were not the same in all sessions of this resumed run: \
         kernel 1.2.3, in session 1 {kernel}; prony 0.0.9, in session 1 {}",
        env!("CARGO_PKG_VERSION")
    );
    let text = said(&report).replace('\\', "");
    assert!(said(&output).contains("sessions_differ") && text.contains(&expected), "{text}");
    assert!(!text.contains("0.0.8"), "a session without trials: {text}");
    assert_eq!(bench.prony(&["run", "e.toml", "--quiet"]).status.code(), Some(0));
    let compared = said(&bench.prony(&["compare", "1", "2"]));
    assert!(
        compared.contains("only in run 1: kernel: 1.2.3") && !compared.contains("only in run 2: kernel"),
        "{compared}"
    );
    let document: Value = serde_json::from_slice(&bench.prony(&["report", "1", "--format", "json"]).stdout).unwrap();
    assert_eq!(document["run"]["resumed"][0]["host"]["kernel"], document_reading(&kernel));
}

/// A measured text in JSON.
fn document_reading(text: &str) -> Value {
    serde_json::to_value(Reading::Measured(text.to_owned())).unwrap()
}

#[test]
fn options_that_a_resumed_run_would_ignore_are_refused() {
    let bench = Bench::new();
    stops(&bench, 3, "command = [\"true\", \"{v}\"]\n");
    let options = ["--blocks", "2", "--only", "v=a", "--seed", "7", "--set", "v=q"];
    let output = bench.prony(&[&["run", "--resume", "-q"][..], &options].concat());
    let expected =
        "error: a run is resumed with its recorded experiment, without `--set`, `--only`, `--blocks`, `--seed`\nhint: ";
    assert!(output.status.code() == Some(2) && said(&output).contains(expected), "{}", said(&output));
    let gate = ["--fail-if", "run.anon.max more memory 5%"];
    for run in [&["run", "e.toml", "-q"][..], &["run", "--resume", "1", "-q"]] {
        let output = bench.prony(&[run, &gate].concat());
        let expected = "there is no verdict on `run.anon.max`";
        assert!(output.status.code() == Some(2) && said(&output).contains(expected), "{}", said(&output));
    }
    assert_eq!(bench.data().trials.len(), 3, "nothing ran");
    assert_eq!(bench.prony(&["run", "--resume", "-q"]).status.code(), Some(0));
    let output = bench.prony(&[&["run", "--resume", "1", "-q"][..], &gate].concat());
    assert!(said(&output).contains("there is no verdict on"), "where it is done too: {}", said(&output));
}

/// Two different variants stood in one row, since each run named its own by the one factor that varied in it.
#[test]
fn variants_of_two_runs_are_one_only_if_all_their_factors_agree() {
    let bench = Bench::new();
    let body = "[factors]\nn = [1, 2]\nm = [1, 2]\n[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n\
                [program.p]\ncommand = [\"true\", \"{n}\", \"{m}\"]\n[[phase]]\nname = \"r\"\n";
    bench.write("p.toml", body);
    for only in ["m=1", "n=1"] {
        let output = bench.prony(&["run", "p.toml", "-q", "--only", only]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    let document = bench.prony(&["compare", "1", "2", "--metric", "r.time", "--json"]).stdout;
    let document: Value = serde_json::from_slice(&document).unwrap();
    let rows = document["figures"].as_array().unwrap().iter();
    let rows: Vec<(&str, [bool; 2])> =
        rows.map(|row| (row["variant"].as_str().unwrap(), [0, 1].map(|run| !row["runs"][run].is_null()))).collect();
    // Factors in the order of their names.
    let expected = [("m=1, n=1", [true, true]), ("m=1, n=2", [true, false]), ("m=2, n=1", [false, true])];
    assert_eq!(rows, expected, "{document:#}");
}

#[test]
fn compared_runs_whose_answers_or_sources_differ_say_so() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let answers = |text: &str| bench.write("site/run.sh", format!("echo {text}"));
    let body = "[factors]\nv = [\"a\", \"b\"]\n[compare]\nbaseline = { v = \"a\" }\nblocks = 2\n[observe]\ncare = \"light\"\n\
                [program.p]\ncommand = \"sh run.sh {v}\"\ndirectory = \"site\"\n[[phase]]\nname = \"r\"\n\
                read = 't=(?<time_ms>\\d+) rows=(?<rows>\\d+)'\n";
    bench.write("p.toml", body);
    let run = |more: &[&str]| {
        let output = bench.prony(&[&["run", "p.toml", "-q"][..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    };
    let compare = |a: &str, b: &str| said(&bench.prony(&["compare", a, b]));
    answers("t=9 rows=100");
    run(&[]);
    run(&[]);
    let same = compare("1", "2");
    assert!(same.contains("9.00 ms") && same.contains("are the same in both"), "{same}");
    answers("t=2 rows=7 d=other");
    run(&[]);
    let differ = compare("1", "3");
    for expected in [
        "answers differ: 100 rows in `r`",
        "answers differ: 7 rows in `r`",
        "what ran differs in `v=a`, `v=b`: the directory",
    ] {
        assert!(differ.contains(expected), "{expected}: {differ}");
    }
    assert!(!differ.contains(" ms ") && !differ.contains("the same in both"), "{differ}");
    let document = bench.prony(&["compare", "1", "3", "--json"]).stdout;
    let figures = serde_json::from_slice::<Value>(&document).unwrap()["figures"][0].clone();
    assert_eq!((&figures["runs"][0]["median"], &figures["answers_differ"][0]["phase"]), (&Value::Null, &json!("r")));
    run(&["--set", "v=a,c"]);
    let other = compare("3", "4");
    for expected in ["the experiment differs", "only in run 3: factor v: a, b", "only in run 4: factor v: a, c"] {
        assert!(other.contains(expected), "{expected}: {other}");
    }
    let row =
        |name: &str| other.lines().find(|line| line.contains(&format!(" {name} "))).unwrap_or_default().to_owned();
    assert_eq!(row("v=b").matches("no such variant").count(), 1, "{other}");
    assert_eq!(row("v=c").matches("no such variant").count(), 1, "of the second run alone: {other}");
    run(&["--only", "v=b"]);
    let part = compare("3", "5");
    assert!(part.lines().any(|line| line.contains(" v=b ") && !line.contains("no such variant")), "{part}");
}

/// Programs have PATH, LANG and others from prony, of which only the names were recorded.
#[test]
fn variables_with_other_values_in_another_session_or_run_are_named() {
    let bench = Bench::new();
    let more = "command = [\"true\", \"{v}\"]\ninherit = [\"TEST_A\", \"TEST_B\"]\n";
    stops(&bench, 3, more);
    let with = |words: &[&str]| {
        let mut command = bench.command(words);
        let output = command.envs([("TEST_A", "TOPSECRET"), ("TZ", "Asia/Tokyo"), ("TERM", "other")]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        said(&output)
    };
    let resumed = with(&["run", "--resume", "--quiet"]);
    let resumed = resumed.split_whitespace().collect::<Vec<_>>().join(" ");
    let named = |name: &str| format!("environment variable {name} has another value in session 1");
    for (name, is_named) in [("TEST_A", true), ("TZ", true), ("TEST_B", false), ("TERM", false), ("PATH", false)] {
        assert_eq!(resumed.contains(&named(name)), is_named, "{name}: {resumed}");
    }
    let recorded = format!("{:?}", bench.data().trials);
    assert!(recorded.contains("TEST_B") && !recorded.contains("TOPSECRET") && !recorded.contains("Tokyo"));
    assert_eq!(bench.prony(&["run", "e.toml", "--quiet"]).status.code(), Some(0));
    with(&["run", "e.toml", "--quiet"]);
    let compared = said(&bench.prony(&["compare", "2", "3"]));
    assert!(
        compared.contains("environment variable `TEST_A` (digest of its value): not set in run 2, ")
            && !compared.contains("TEST_B"),
        "{compared}"
    );
}

/// Relative paths were recorded as typed, so that blocks of one run came from two folders, with a verdict and without a word.
#[test]
fn a_run_is_resumed_with_the_paths_of_the_folder_where_it_began() {
    for recorded in [true, false] {
        let bench = Bench::new();
        let (ran, prepared) = (bench.path("ran").display().to_string(), bench.path("prepared").display().to_string());
        for folder in ["a", "b"] {
            bench.write(&format!("{folder}/site/run.sh"), format!("echo {folder} >> {ran}\n"));
            let text = format!(
                "[compare]\nblocks = 4\n[observe]\ncare = \"light\"\nrecord_commands = {recorded}\n[program.x]\n\
                 command = [\"sh\", \"run.sh\"]\ndirectory = \"site\"\n\
                 prepare = \"echo >> {prepared}; test $(wc -l < {prepared}) -ne 3\"\n"
            );
            bench.write(&format!("{folder}/e.toml"), text);
        }
        let prony =
            |folder: &str, words: &[&str]| bench.command(words).current_dir(bench.path(folder)).output().unwrap();
        assert_eq!(prony("a", &["run", "e.toml", "-q"]).status.code(), Some(2), "the third preparation fails");
        let of_b = prony("b", &["run", "e.toml", "--resume", "1", "--database", "../a/prony.db", "-q"]);
        let text = said(&of_b);
        assert!(of_b.status.code() == Some(2) && text.contains("`e.toml` is not the experiment of run 1"), "{text}");
        let file: &[&str] = if recorded { &[] } else { &["../a/e.toml"] };
        let resumed = [&["run"], file, &["--resume", "1", "--database", "../a/prony.db", "-q"]].concat();
        let resumed = prony("b", &resumed);
        assert_eq!(resumed.status.code(), Some(0), "{}", said(&resumed));
        assert_eq!(fs::read_to_string(bench.path("ran")).unwrap(), "a\n".repeat(4));
    }
}

#[test]
fn a_run_to_resume_is_counted_back_from_the_latest_as_elsewhere() {
    let bench = Bench::new();
    stops(&bench, 3, "command = [\"true\", \"{v}\"]\n");
    assert_eq!(bench.prony(&["run", "e.toml", "--quiet"]).status.code(), Some(0));
    let latest = said(&bench.prony(&["run", "--resume=-1", "--quiet"]));
    assert!(latest.contains("run 2 is done: nothing was run"), "{latest}");
    let none = bench.prony(&["run", "--resume=-3"]);
    assert!(none.status.code() == Some(2) && said(&none).contains("no run `-3`"), "{}", said(&none));
    // Nothing of a run is read before it is known that no other session adds to it.
    let mut database = Database::open(&bench.path("prony.db")).unwrap();
    database.take_run(RunId(1)).unwrap();
    let taken = bench.prony(&["run", "--resume", "-2", "--fail-if", "run.wall slower 5%"]);
    assert!(
        taken.status.code() == Some(2) && said(&taken).contains("is running in another process"),
        "{}",
        said(&taken)
    );
    drop(database);
    let before = bench.prony(&["run", "--resume", "-2", "--quiet"]);
    assert_eq!(before.status.code(), Some(0), "{}", said(&before));
    assert_eq!(Database::open(&bench.path("prony.db")).unwrap().load_run(RunId(1)).unwrap().trials.len(), 7);
}
