//! Tests which commands `prony exec` reads from its command line, and what it refuses so that nothing else is measured than meant.

use std::fs;
use std::process::Output;

use crate::bench::{Bench, said};

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What is said of a line that is refused before anything runs.
pub(crate) fn refused(bench: &Bench, args: &[&str]) -> String {
    let output = bench.prony(&[&["exec"], args].concat());
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
    assert!(!bench.path("prony.db").exists(), "{args:?}: nothing was begun");
    err(&output)
}

/// The line of a table's row.
pub(crate) fn row(text: &str, label: &str) -> Option<usize> {
    text.lines().position(|line| line.strip_prefix(label).is_some_and(|rest| rest.starts_with("  ")))
}

/// The words of each variant's command.
fn commands(bench: &Bench) -> Vec<String> {
    let data = bench.data();
    let programs = data.experiment.variants().iter().filter_map(|variant| variant.spec.subject.program());
    programs.map(|program| program.command.words().join(" ")).collect()
}

#[test]
fn options_behind_the_command_run_nothing() {
    let bench = Bench::new();
    let text = refused(&bench, &["--vs", "sleep", "0.06", "--export-markdown", "x.md"]);
    assert!(text.starts_with("error: `--vs` needs a command before it and one after it\nhint: "), "{text}");
    let text = refused(&bench, &["sleep", "0.06", "--vs", "sleep", "0.06", "--export-markdown", "x.md"]);
    assert!(
        text.contains("`--export-markdown` comes after a command; options of prony come before the first one"),
        "{text}"
    );
    assert!(text.contains("hint: write `prony exec --export-markdown ...`"), "{text}");
    let text = refused(&bench, &["--exprot-json", "x", "true"]);
    assert_eq!(
        text,
        "error: unknown option `--exprot-json`\nhint: did you mean `--export-json`? `--help` lists the options\n"
    );
    for (option, value, what) in [
        ("--runs <N>", "x", "write a whole number, such as 3"),
        ("--warmup <N>", "1.5", "write a whole number, such as 3"),
        ("--pids <N>", "99999999999999999999", "write a smaller number; `--help` describes the option"),
        ("--pids <N>", "4294967296", "write a whole number from 1 to 4194304"),
        ("--warmup <N>", "10001", "write a whole number from 0 to 10000"),
        ("--cpus <N>", "two", "write a number, such as 0.5"),
        ("--runs <N>", "0", "write a whole number from 1 to 10000"),
        ("--min-runs <N>", "0", "write a whole number from 1 to 10000"),
        ("--max-runs <N>", "0", "write a whole number from 1 to 10000"),
        ("--sort <METHOD>", "mean", "did you mean `mean-time`? possible values: auto, command, mean-time"),
    ] {
        let text = refused(&bench, &[option.split(' ').next().unwrap(), value, "true"]);
        assert_eq!(text, format!("error: invalid value `{value}` for `{option}`\nhint: {what}\n"));
    }
    let text = err(&bench.prony(&["exec", "/tmp"]));
    assert!(text.ends_with("hint: the command is a directory, not a file: `/tmp`\n"), "{text}");
    let (output, data) = bench.exec(&["-r", "1", "--", "echo", "-n", "-r"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(said(&data.trials[0]), "-r", "behind `--` they are the command's");
}

#[test]
fn commands_in_quotes_and_words_up_to_vs_are_the_same() {
    let bench = Bench::new();
    bench.exec(&["-r", "1", "sleep 0.01", "sleep 0.02", "true"]);
    assert_eq!(commands(&bench), ["sleep 0.01", "sleep 0.02", "true"]);
    bench.exec(&["-r", "1", "sleep", "0.01", "--vs", "sleep 0.02", "--vs", "true"]);
    assert_eq!(commands(&bench), ["sleep 0.01", "sleep 0.02", "true"]);
}

#[test]
fn words_that_may_be_commands_each_are_said_to_be_one_command() {
    let bench = Bench::new();
    let noted = |args: &[&str]| {
        let (output, _) = bench.exec(&[&["-r", "1"], args].concat());
        let text = err(&output);
        assert_eq!(text.contains("measured as one command"), text.contains("hint: `prony exec "), "{text}");
        text.lines().find_map(|line| line.strip_prefix("hint: `prony exec ").map(str::to_owned))
    };
    let hint = |words: &str| {
        let rest = "compares several commands; to measure one command without this note, write `--` before it";
        Some(format!("{words}` {rest}"))
    };
    assert_eq!(noted(&["true", "false"]), hint("true --vs false"));
    assert_eq!(noted(&["true", "sleep 0.01"]), hint("true --vs sleep 0.01"));
    assert_eq!(noted(&["true", "1", "sleep 0.01"]), hint("true 1 --vs sleep 0.01"));
    assert_eq!(noted(&["sh", "-ec", "sleep 0.01"]), None);
    for one in [&["true"][..], &["--", "true", "false"], &["true", "--vs", "true", "false"], &["echo", "hi", "cat"]] {
        assert_eq!(noted(one), None, "{one:?}");
    }
    assert_eq!(noted(&["true 1", "false"]), None, "a blank in the first makes each of them a command");
}

#[test]
fn texts_for_a_shell_without_one_are_warned_about() {
    let bench = Bench::new();
    let (output, data) = bench.exec(&["-r", "1", "echo hi > f"]);
    assert!(
        err(&output).contains("warning: `echo hi > f` does not run in a shell: the program gets `>`"),
        "{}",
        err(&output)
    );
    assert!(err(&output).contains("hint: to run the commands in a shell: `prony exec -S sh"), "{}", err(&output));
    let report = out(&output);
    let (warning, heads) = (report.find("warning: `echo hi > f` does not run"), report.find("time, "));
    assert!(warning.is_some() && warning < heads, "again with the results, which scroll the first away: {report}");
    assert_eq!(said(&data.trials[0]), "hi > f\n");
    for args in
        [&["-r", "1", "-S", "sh", "echo hi > f"][..], &["-r", "1", "echo 'a > b'"], &["-r", "1", "--", "echo", ">"]]
    {
        let (output, _) = bench.exec(args);
        assert!(!err(&output).contains("does not run in a shell"), "{}", err(&output));
    }
    assert_eq!(fs::read_to_string(bench.path("f")).unwrap(), "hi\n");
    let file = "[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n[program.x]\ncommand = \"echo a | cat\"\n";
    bench.write("e.toml", file);
    let warning = "warning: e.toml:6:11: this command does not run in a shell: the program gets `|` as an argument\nhint: add `shell = true`";
    let checked = bench.prony(&["check", "e.toml"]);
    assert!(checked.status.success() && out(&checked).contains(warning), "{}", out(&checked));
    let run = bench.prony(&["run", "e.toml", "--quiet"]);
    assert!(run.status.success() && err(&run).contains(warning), "{}", err(&run));
    bench.write("e.toml", format!("{file}shell = true\n"));
    assert!(!out(&bench.prony(&["check", "e.toml"])).contains("warning"));
}

#[test]
fn shells_are_named_with_their_arguments() {
    let bench = Bench::new();
    let shown = |args: &[&str]| out(&bench.exec(&[&["-r", "1", "-n", "x", "--show-output"], args].concat()).0);
    assert!(shown(&["--shell=none", "echo 'hello world' argument2"]).contains("hello world argument2\n"));
    let custom = shown(&["--shell", "echo 'custom_shell' '--shell-arg'", "echo benchmark"]);
    assert!(custom.contains("custom_shell --shell-arg -c echo benchmark\n"), "{custom}");
    assert!(shown(&["-S", "bash", "echo $BASH_VERSION"]).contains('.'));
    assert!(shown(&["-S", "default", "echo $((40 + 2))"]).contains("42\n"));
    let missing = bench.prony(&["exec", "-S", "--", "true"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(err(&missing).contains("a value is required for '--shell <SHELL>'"), "{}", err(&missing));
}

#[test]
fn commands_that_are_not_there_or_fail_say_so() {
    let absent = "some-nonexisting-program-b5d9574198b7e4b12a71fa4747c0a577";
    let bench = Bench::new();
    let unfound = refused(&bench, &["-r", "1", "--export-json", "r.json", "--save", "s.toml", absent]);
    assert!(unfound.contains(&format!("cannot find the command `{absent}`")), "{unfound}");
    assert!(!bench.path("r.json").exists() && !bench.path("s.toml").exists(), "no file is made");
    let (by_shell, _) = bench.exec(&["-r", "1", "-S", "sh", absent]);
    assert!(
        by_shell.status.code() == Some(1) && out(&by_shell).contains("failed (exit code 127)"),
        "{}",
        out(&by_shell)
    );
    assert!(out(&by_shell).contains("hint: exit code 127 is that of a shell that finds no program"));
    let note = "`--env NAME` or `--env-all` passes others on";
    assert!(out(&by_shell).contains(note), "{}", out(&by_shell));
    let (with_all, _) = bench.exec(&["-r", "1", "--env-all", "-S", "sh", absent]);
    assert!(!out(&with_all).contains(note));
    let (fails, _) = bench.exec(&["-r", "1", "false"]);
    assert!(fails.status.code() == Some(1) && !out(&fails).contains(note), "{}", out(&fails));
    for option in ["--setup", "--prepare", "--cleanup"] {
        let output = bench.prony(&["exec", "-r", "1", option, absent, "echo test"]);
        assert_eq!(output.status.code(), Some(2), "{option}: {}", err(&output));
        let text = format!("error: `{option}` of `echo test` failed: exit code 127");
        assert!(err(&output).contains(&text), "{option}: {}", err(&output));
    }
}

/// They named lines and keys of a file that the user had not written.
#[test]
fn faults_are_said_in_words_of_the_options() {
    let bench = Bench::new();
    for (args, expected) in [
        (&["--memory", "x", "true"][..], "error: `--memory`: `x` does not begin with a number\nhint: "),
        (&["--cpus=-1", "--time=0", "true"], "error: `--cpus` cannot be `-1`\nhint: "),
        (&["--cpus=-1", "--time=0", "true"], "error: `--time`: "),
        (&["--save", "s.toml", "--time=0", "true"], "error: `--time`: "),
        (&["--env", "=1", "true"], "error: `--env`: `` is not a valid name of a variable\n"),
        (&["--reference", "echo 'a", "true"], "error: the command `echo 'a` ends inside a quote\nhint: "),
        (&[""], "error: a command is empty\nhint: "),
        (
            &["export"],
            "error: cannot find the command `export`\nhint: no directory of PATH contains the command; shell \
                       builtins need `-S sh`\n",
        ),
        (&["A=1 true"], "hint: set a variable by `--env 'A=1'`, or let a shell read the command: `-S sh`\n"),
        (&["-i", "1,2", "true"], "hint: write exit codes to ignore behind `=`, without a blank: `-i=1,2`\n"),
        (&["-r", "3"], "error: no command to measure\nhint: to measure a command: `prony exec 'sleep 0.1'`; "),
    ] {
        let said = refused(&bench, args);
        let of_a_file = ["-->", ".toml", "has 1 problem", "shell = true", "program `"];
        assert!(said.contains(expected) && !of_a_file.iter().any(|word| said.contains(word)), "{args:?}: {said}");
    }
}

/// A misspelt name was accepted in silence: the commands ran without the variable.
#[test]
fn variable_to_pass_on_that_is_not_set_is_named() {
    let bench = Bench::new();
    let output = bench.prony(&["exec", "-r", "1", "--env", "NOT_SET_HERE", "--env", "PATH", "true"]);
    let said = err(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("warning: `--env NOT_SET_HERE`: the variable is not set here"), "{said}");
    assert!(!said.contains("`--env PATH`"), "{said}");
}

#[test]
fn parameters_make_variants_that_are_compared_with_the_first_or_the_reference() {
    let bench = Bench::new();
    let scan = ["--parameter-scan", "time", "30", "45", "--parameter-step-size", "5"];
    let (output, data) = bench.exec(&[&["-r", "1"], &scan[..], &["echo {time}"]].concat());
    assert_eq!(commands(&bench), ["echo 30", "echo 35", "echo 40", "echo 45"]);
    assert!(out(&output).starts_with("echo {time}\n") && row(&out(&output), "35").is_some(), "{}", out(&output));
    assert_eq!(data.trials.len(), 5, "the baseline has two trials in a block");
    let reference = ["-r", "1", "--reference=echo 25", "--export-hyperfine-json", "h.json"];
    let (output, _) = bench.exec(&[&reference, &scan[..], &["echo {time}"]].concat());
    let text = out(&output);
    assert!(row(&text, "echo 25") < row(&text, "echo 30") && row(&text, "echo 45").is_some(), "{text}");
    assert!(row(&text, "echo 25").is_some(), "the reference has no value: {text}");
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(bench.path("h.json")).unwrap()).unwrap();
    let parameters = |at: usize| json["results"][at]["parameters"].clone();
    assert_eq!((parameters(0), parameters(1)), (serde_json::Value::Null, serde_json::json!({ "time": "30" })));
    assert_eq!(commands(&bench), ["echo 25", "echo 30", "echo 35", "echo 40", "echo 45"]);
    bench.exec(&["-r", "1", "-L", "a", "x,y", "-L", "b", "1,2", "-p", "echo {b}", "echo", "{a}"]);
    assert_eq!(commands(&bench), ["echo x", "echo x", "echo y", "echo y"]);
    let unused = bench.prony(&["exec", "-r", "1", "-L", "branch", "master,feature", "echo test"]);
    assert!(unused.status.code() == Some(2) && err(&unused).contains("`branch` is not used"), "{}", err(&unused));
}

#[test]
fn reference_is_the_baseline_under_its_name() {
    let bench = Bench::new();
    let reference = ["--reference=sleep 0.02", "--reference-name=refabc123"];
    let (output, data) = bench.exec(&[&["-r", "1"], &reference[..], &["sleep 0.01", "sleep 0.03"]].concat());
    let text = out(&output);
    assert!(text.starts_with("refabc123 and sleep 0.01") && row(&text, "refabc123").is_some(), "{text}");
    assert_eq!(data.experiment.compare().baseline["command"], "refabc123");
}

#[test]
fn conditions_that_nothing_could_decide_are_refused_with_what_to_write() {
    let bench = Bench::new();
    for (args, hint) in [
        (
            &["run.wall slower 5%", "true x", "true y"][..],
            "hint: commands are compared in `run.time`; `--metric run.wall` compares them",
        ),
        (&["run.time slower 5%", "true x"], "hint: a condition needs a second command: `A --vs B`\n"),
        (&["run.time faster 5%", "true x", "true y"], "hint: write `run.time slower 5%`\n"),
    ] {
        let text = refused(&bench, &[&["--fail-if"], args].concat());
        assert!(text.contains(hint), "{text}");
    }
}
