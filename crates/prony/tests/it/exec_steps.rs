//! Tests what surrounds the commands of `prony exec`: steps, warm-up runs, input, output, variables and TMPDIR.

use std::fs;
use std::process::Command;

use prony_model::record::TrialRecord;

use crate::bench::{Bench, PRONY, said};
use crate::exec_lines::{err, out, refused};

/// Steps had the FIFO for marks, which nobody read: they waited for ever, or made a file in its place.
#[test]
fn steps_have_no_marks_and_failed_warm_ups_are_said() {
    let bench = Bench::new();
    let mark = format!("{PRONY} mark x begin");
    let unset = "test -z \"$PRONY_MARKS\"";
    let script = "echo ran >> warm; test $(wc -l < warm) -gt 2";
    let args = ["-r", "2", "-w", "2", "-s", &mark, "-p", &mark, "-C", unset, "-c", &mark, "--", "sh", "-c", script];
    let (output, data) = bench.exec(&args);
    assert_eq!((output.status.code(), data.trials.len()), (Some(0), 2), "{}", err(&output));
    let text = err(&output);
    let failed = format!("`--warmup` of `sh -c '{script}'` failed: exit code 1");
    assert_eq!(text.matches(&failed).count(), 2, "{text}");
}

/// They were found after `--setup`, which may have taken an hour.
#[test]
fn what_no_trial_could_read_or_write_is_found_before_setup() {
    let bench = Bench::new();
    for (option, what) in [("--output", "cannot write `"), ("--input", "cannot read `")] {
        let text = refused(&bench, &["-s", "touch made", option, "/proc", "true", "--vs", "false"]);
        assert!(text.contains(what) && text.matches("error: ").count() == 1, "{text}");
        assert!(!text.contains("experiment file"), "{text}");
    }
    assert!(!bench.path("made").exists());
    let exec = |folder: &str| {
        let line = ["exec", "-r", "1", "true"];
        Command::new(PRONY).args(line).current_dir(bench.path("")).env("TMPDIR", folder).output().unwrap()
    };
    assert_eq!(exec("").status.code(), Some(0), "as if it were not set");
    let text = err(&exec("/nowhere"));
    assert!(text.contains("`/nowhere`, to which TMPDIR is set, is not a directory\nhint: set TMPDIR"), "{text}");
}

/// A `--setup` that fails in its second step left what its first had started.
#[test]
fn cleanup_follows_a_setup_that_fails() {
    let bench = Bench::new();
    let output = bench.prony(&["exec", "-r", "1", "-s", "touch started; false", "-c", "rm started", "true"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(!bench.path("started").exists());
}

/// It ended the run, and the figures of the trial before it were lost.
#[test]
fn conclude_that_fails_is_a_finding_and_keeps_the_figures() {
    let bench = Bench::new();
    let (output, data) = bench.exec(&["-r", "2", "--conclude", "echo stuck; exit 7", "echo test"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(
        out(&output).contains(
            "`conclude_failed`, 2 of 2 trials; the first: conclude of program `a` failed: exit code 7: stuck"
        ),
        "{}",
        out(&output)
    );
    assert!(data.trials.len() == 2 && data.trials.iter().all(|trial| trial.ending.outcome.is_ok()));
    assert!(data.trials.iter().all(|trial| trial.findings.iter().any(|found| found.guard == "conclude_failed")));
}

#[test]
fn output_goes_where_it_is_sent_and_input_comes_from_a_file() {
    let bench = Bench::new();
    let (output, _) = bench.exec(&["-r", "2", "--command-name=dummy", "--show-output", "echo 4fd47015"]);
    assert_eq!(out(&output).matches("4fd47015").count(), 2, "{}", out(&output));
    bench.write("in.txt", "This text is part of a file\n");
    let words = ["--output", "./a.txt", "--output", "pipe", "--output=null", "--input=in.txt"];
    let (output, data) = bench.exec(&[&["-r", "2"], &words[..], &["--", "cat", "--vs", "cat", "--vs", "cat"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    assert_eq!(fs::read_to_string(bench.path("a.txt")).unwrap(), "This text is part of a file\n", "of the last trial");
    let stored: Vec<(usize, &str)> = data.trials.iter().map(|trial| (trial.trial.variant, said(trial))).collect();
    assert!(stored.iter().all(|(variant, text)| (*variant == 1) == text.contains("This text")), "{stored:?}");
    let missing = bench.prony(&["exec", "--input=nowhere.txt", "cat"]);
    assert!(
        missing.status.code() == Some(2) && err(&missing).contains("cannot read `nowhere.txt`"),
        "{}",
        err(&missing)
    );
    assert_eq!(bench.prony(&["exec", "-r", "1", "--input", "null", "cat"]).status.code(), Some(0));
}

#[test]
fn steps_run_as_often_as_they_should() {
    let bench = Bench::new();
    let step = |what: &str| format!("echo {what} >> log");
    let [setup, prepare, conclude, cleanup] = ["setup", "prepare", "conclude", "cleanup"].map(step);
    let steps = ["-s", &setup, "-p", &prepare, "-C", &conclude, "-c", &cleanup];
    bench.exec(&[&["-r", "2", "-w", "1", "-S", "sh"], &steps[..], &["echo trial >> log"]].concat());
    let log = fs::read_to_string(bench.path("log")).unwrap();
    let three = "prepare trial conclude ".repeat(3);
    assert_eq!(
        log.split_whitespace().collect::<Vec<_>>().join(" "),
        format!("setup {three}cleanup"),
        "one is a warm-up"
    );
}

#[test]
fn every_variable_is_there_with_env_all() {
    let bench = Bench::new();
    let printed = |option: &[&str]| {
        let (_, data) = bench.exec(&[&["-r", "1"], option, &["--", "env"]].concat());
        said(&data.trials[0] as &TrialRecord).to_owned()
    };
    // `NO_COLOR` is set for every command of the bench.
    assert!(!printed(&[]).contains("NO_COLOR="));
    assert!(printed(&["--env-all"]).contains("NO_COLOR=1\n"));
    let set = printed(&["--env-all", "--env", "NO_COLOR=2"]);
    assert!(set.contains("NO_COLOR=2\n") && !set.contains("NO_COLOR=1\n"), "{set}");
    assert!(!printed(&["--env-all"]).contains("PRONY_CACHE="), "what prony itself reads is not handed over");
}

/// Both branches were measured with the one that the last setup had checked out, and got a verdict.
#[test]
fn setups_that_overwrite_each_other_are_refused() {
    let bench = Bench::new();
    bench.write("main", "");
    let output = bench.prony(&["exec", "-L", "x", "1,2", "--setup", "echo {x} > main", "-r", "6", "cat main"]);
    let text = err(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(fs::read_to_string(bench.path("main")).unwrap(), "", "nothing was run");
    assert!(text.contains("execute the same command in the same directory") && text.contains("hint: "), "{text}");
    // All setups run before the first trial: the second one changes what the first command reads.
    let args = ["-L", "x", "1,2", "--setup", "echo {x} > main; echo {x} >> log", "-r", "6", "tail -n {x} main"];
    let output = bench.prony(&[&["exec"], &args[..]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("main`, which the command of `x=1` names"), "{}", err(&output));
    assert_eq!(fs::read_to_string(bench.path("log")).unwrap(), "1\n2\n");
    assert!(bench.data().trials.is_empty());
    // Each of these writes a file of its own.
    let args = ["-L", "x", "1,2", "--setup", "echo {x} > of-{x}; echo {x} >> log", "-r", "6", "cat of-{x}"];
    let (output, data) = bench.exec(&args);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(data.trials.iter().all(|trial| said(trial) == format!("{}\n", trial.trial.variant + 1)));
    // The same line for all commands runs for each of them, as with hyperfine.
    let (output, _) = bench.exec(&["--setup", "date +%N > main", "-r", "2", "cat main", "wc main"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}
