//! Tests time budgets through the real binary: prony says first which verdicts a budget suffices for, keeps the budget,
//! and includes everything that takes time in its estimates.

use std::path::Path;
use std::process::{Command, Output};

use prony_model::event::Event;
use prony_model::record::Spent;
use prony_model::units::Nanos;
use prony_results::{Database, RunData, RunId, RunStatus};
use tempfile::TempDir;

use crate::bench::Bench;

/// Two equal programs that take half a second each, in blocks of three trials.
const SLOW: &str = r#"
[factors.command]
one = "a"
two = "b"
[subject]
program = "{command}"
[compare]
baseline = { command = "one" }
[observe]
care = "light"
[program.a]
command = ["sleep", "0.5"]
[program.b]
command = ["sleep", "0.5"]
"#;

/// One program that takes no time, and what is done before it a third of a second.
const PREPARED: &str = r#"
[compare]
blocks = 5
[observe]
care = "light"
[program.a]
command = ["true"]
directory = "."
copy = "none"
prepare = ["sleep", "0.3"]
"#;

fn folder(experiment: &str) -> TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(dir.path().join("x.toml"), experiment).unwrap();
    dir
}

fn prony(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
    command.args(arguments).current_dir(dir).env_clear();
    if let Ok(path) = std::env::var("PATH") {
        command.env("PATH", path);
    }
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn events(output: &Output) -> Vec<Event> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn run(dir: &Path) -> RunData {
    Database::open(&dir.join("prony.db")).unwrap().load_run(RunId(1)).unwrap()
}

fn seconds(time: Nanos) -> f64 {
    time.as_secs_f64()
}

#[test]
fn what_a_budget_does_not_suffice_for_is_said_before_the_first_trial_and_corrected_after_a_block() {
    let dir = folder(SLOW);
    let output = prony(dir.path(), &["run", "x.toml", "--json", "--budget", "1s"]);
    let events = events(&output);
    let first = events.iter().position(|e| matches!(e, Event::TrialBegan { .. })).unwrap();
    let notices = |events: &[Event]| -> String {
        let notice = |e: &Event| match e {
            Event::Notice { text, hint } => Some(format!("{text}\n{}\n", hint.clone().unwrap_or_default())),
            _ => None,
        };
        events.iter().filter_map(notice).collect()
    };
    let (before, after) = (notices(&events[..first]), notices(&events[first..]));
    assert!(
        before.contains("is not known before the first block; a verdict needs at least 6 blocks of 3 trials each"),
        "{before}"
    );
    assert!(after.contains("the budget of 1 s suffices for about 1 block of"), "{after}");
    assert!(after.contains("too few for any verdict, which needs at least 6 blocks:"), "{after}");
    assert!(after.contains("--budget "), "{after}");
    // The first block runs whatever it takes, and a second would take as long.
    let run = run(dir.path());
    assert_eq!((run.trials.len(), run.head.planned, run.head.status), (3, 3, RunStatus::Done));
    assert!(after.contains("stopped after 1 block: no further block fits into the time budget"), "{after}");

    // With a run to go by, it is known before.
    let again = said(&prony(dir.path(), &["run", "x.toml", "--budget", "1s"]));
    let (before, _) = again.split_once("as many blocks as fit into 1 s").unwrap();
    assert!(
        before.contains("is shorter than one block of") && before.contains("estimated from 3 trials of earlier runs"),
        "{again}"
    );
    assert!(before.contains("too few for any verdict"), "{again}");
}

#[test]
fn a_budget_is_met_within_one_block_by_commands_too() {
    let dir = folder(SLOW);
    let command = ["exec", "--budget", "3s", "--database", "x.db", "--", "sleep", "0.1", "--vs", "sleep", "0.1"];
    let output = prony(dir.path(), &command);
    assert!(matches!(output.status.code(), Some(0)), "{}", said(&output));
    let run = Database::open(&dir.path().join("x.db")).unwrap().load_run(RunId(1)).unwrap();
    let spent = |t: &prony_model::record::TrialRecord| Spent::of(&t.conditions, t.took);
    let blocks: Vec<f64> = run
        .trials
        .chunk_by(|a, b| a.trial.block == b.trial.block)
        .map(|block| block.iter().map(|t| seconds(spent(t).time)).sum())
        .collect();
    let longest = blocks.iter().copied().fold(0.0, f64::max);
    let all = blocks.iter().sum::<f64>() + run.trials.iter().map(|t| seconds(spent(t).once)).sum::<f64>();
    assert_eq!(run.trials.len() % 3, 0, "whole blocks only");
    // The first block runs even if setting up the run has taken the whole budget.
    assert!(blocks.len() == 1 || all < 3.0 + longest, "{all} s, the longest block {longest} s");
    let ended_by = ["all comparisons were decided", "no further block fits into the time budget"];
    assert!(ended_by.iter().any(|text| said(&output).contains(text)), "{}", said(&output));
    assert!(run.trials.iter().all(|t| spent(t).time >= t.took), "what belongs to a trial is part of its time");
}

#[test]
fn a_budget_of_nothing_is_refused_by_file_and_command_line() {
    let dir = folder(SLOW);
    let over = ["--over", "n=1..2", "--minimize", "run.time"];
    for (line, more) in [("run", &[][..]), ("check", &[]), ("tune", &over), ("exec", &["--", "true"])] {
        let words = if line == "exec" { vec![line, "--budget", "0s"] } else { vec![line, "x.toml", "--budget", "0s"] };
        let output = prony(dir.path(), &[&words[..], more].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("budget"), "{}", said(&output));
    }
    assert!(!dir.path().join("prony.db").exists(), "nothing was run");
}

#[test]
fn check_says_what_a_budget_buys() {
    let dir = folder(SLOW);
    let check = |budget: &str| said(&prony(dir.path(), &["check", "x.toml", "--budget", budget]));
    let unknown = check("90s");
    assert!(unknown.contains("how many blocks fit into the budget of 90 s is not known"), "{unknown}");
    assert!(
        unknown.contains("if a trial, its preparation and waits included, takes at most 5 s on average"),
        "{unknown}"
    );
    assert!(!dir.path().join("prony.db").exists() && !unknown.contains("`cleanup`"), "{unknown}");
    let cleaned = folder(&SLOW.replace("[program.a]", "[program.a]\ncleanup = \"sleep 3\""));
    let more = said(&prony(cleaned.path(), &["check", "x.toml", "--budget", "90s"]));
    assert!(
        more.contains(
            "is not known before the first block; the time of `cleanup` is not included in the budget; a verdict"
        ),
        "{more}"
    );

    assert!(prony(dir.path(), &["run", "x.toml", "--blocks", "1"]).status.success());
    let little = check("2s");
    // On a busy machine a block takes longer than the budget.
    assert!(
        ["suffices for about 1 block of", "is shorter than one block of"].iter().any(|text| little.contains(text)),
        "{little}"
    );
    assert!(little.contains("too few for any verdict"), "{little}");
    assert!(little.contains("hint: `--budget "), "{little}");
    let much = check("10h");
    assert!(much.contains("; a verdict needs at least 6 blocks:") && !much.contains("too few"), "{much}");
    assert!(
        much.contains("minimum detectable effect:") && much.contains("a verdict needs at least 6 blocks"),
        "{much}"
    );
}

#[test]
fn estimates_include_work_outside_the_trials() {
    let dir = folder(PREPARED);
    let first = said(&prony(dir.path(), &["check", "x.toml"]));
    assert!(first.contains("its preparation and its build take is not known before the first trial"), "{first}");
    assert!(!first.contains("about"), "{first}");
    let output = prony(dir.path(), &["run", "x.toml", "--json"]);
    let events = events(&output);
    let left = |e: &Event| match e {
        Event::TrialEnded { done, left, .. } => Some((*done, left.unwrap())),
        _ => None,
    };
    let left: Vec<(u32, Nanos)> = events.iter().filter_map(left).collect();
    assert_eq!(left.len(), 5);
    // A busy machine takes longer, never less.
    for (done, left) in left {
        assert!(seconds(left) >= 0.3 * f64::from(5 - done) && (done < 5 || left == Nanos::ZERO), "{left} after {done}");
    }
    let check = said(&prony(dir.path(), &["check", "x.toml", "--blocks", "50"]));
    let known = check.lines().find(|line| line.contains("estimated from 5 trials of earlier runs")).unwrap_or_default();
    let about: f64 = known.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{check}"));
    let expected = if known.contains(" min") { about * 60.0 } else { about };
    let took: f64 = run(dir.path()).trials.iter().map(|t| seconds(Spent::of(&t.conditions, t.took).time)).sum();
    assert!(expected >= 15.0 && expected / (took * 10.0) < 1.5 && took * 10.0 / expected < 1.5, "{check}{took}");
}

/// A run ended with its comparison decided and its gate open, and the gate passed a change that more blocks would have refused.
#[test]
fn run_goes_on_until_its_gates_are_decided() {
    let bench = Bench::new();
    // After six blocks `b` is slower by 4 % to 30 %, later by 20 %.
    bench.write(
        "times.sh",
        "[ $1 = a ] && { echo time 1000; exit; }\n\
         echo x >> \"$2\"\n\
         n=$(wc -l < \"$2\")\n\
         set -- 1040 1250 1080 1200 1120 1300\n\
         [ $n -le 6 ] && shift $((n - 1)) || set -- 1200\n\
         echo time $1\n",
    );
    let [script, count] = ["times.sh", "count"].map(|name| bench.path(name).display().to_string());
    bench.write(
        "x.toml",
        format!(
            "[factors]\ns = [\"a\", \"b\"]\n[compare]\nbaseline = {{ s = \"a\" }}\nblocks = {{ min = 6, max = 60 }}\n\
             [observe]\ncare = \"light\"\n[program.x]\ncommand = [\"sh\", {script:?}, \"{{s}}\", {count:?}]\n\
             [[phase]]\nname = \"run\"\nread = 'time (?<time_us>[0-9.]+)'\n"
        ),
    );
    let run = |gate: &[&str]| {
        let _ = std::fs::remove_file(bench.path("count"));
        let output = bench.prony(&[&["run", "x.toml"], gate].concat());
        let said = [&output.stderr[..], &output.stdout[..]].map(String::from_utf8_lossy).concat();
        (output.status.code(), said.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (code, without) = run(&[]);
    let stopped = |said: &str, what: &str| {
        let end = format!(" blocks: all comparisons{what} were decided");
        let (before, _) = said.split_once(&end).unwrap_or_else(|| panic!("{said}"));
        before.rsplit(' ').next().unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(code, Some(0));
    let early = stopped(&without, "");
    let (code, said) = run(&["--fail-if", "run.time slower 12%"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(stopped(&said, " and conditions of `--fail-if`") > early, "{said}");
    let (code, said) = run(&["--fail-if", "run.time slower 35%"]);
    assert!(code == Some(0) && said.contains("every gate passes"), "{said}");
    assert_eq!(stopped(&said, " and conditions of `--fail-if`"), early, "{said}");
}
