//! Tests `prony exec` as users of hyperfine call it: hyperfine's own integration tests as far as they apply, and the
//! command lines that prony refuses so that nobody measures something else than was meant.

use std::fs;
use std::process::{Command, Output, Stdio};

use prony_model::metric::Metric;
use prony_model::record::TrialRecord;

use crate::bench::{Bench, PRONY, amount, eventually, said};

fn out(output: &Output) -> String {
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
fn row(text: &str, label: &str) -> Option<usize> {
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
fn closed_standard_output_ends_quietly() {
    for more in [&["echo dummy"][..], &["--export-json=-", "echo dummy"], &["echo dummy", "echo second"]] {
        let bench = Bench::new();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(PRONY);
        command.args(["exec", "-r", "1", "--database"]).arg(bench.path("x.db")).args(more).stdout(writer);
        let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    }
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
fn exit_codes_that_are_named_are_no_failure() {
    let bench = Bench::new();
    let code = |option: &str, code: &str| {
        bench.exec(&["-r", "1", option, "-S", "sh", &format!("exit {code}")]).0.status.code()
    };
    for (option, ends) in [("--ignore-failure=1", "1"), ("-i=1,2,3", "2"), ("-i=1,2,3", "3"), ("-i=1", "0")] {
        assert_eq!(code(option, ends), Some(0), "{option} {ends}");
    }
    assert_eq!(code("--ignore-failure=all-non-zero", "5"), Some(0));
    assert_eq!(code("-i", "5"), Some(0));
    assert_eq!((code("--ignore-failure=1", "2"), code("-i=1,2,3", "4")), (Some(1), Some(1)));
    // Every other trial finds what the one before it has left.
    let by_turns = "if rm left; then exit 5; fi; touch left";
    let (output, _) = bench.exec(&["-r", "4", "-i", "-S", "sh", by_turns, "exit 0"]);
    let said = out(&output);
    // Trials of the baseline beside itself are among them.
    let ignored = format!("Exit codes ignored of `{by_turns}`: 4 of 8 trials ended with exit code 5.\n");
    assert!(said.contains("12 run: 12 ok") && said.contains(&ignored), "{said}");
    assert_eq!(said.matches("ignored").count(), 1, "all trials of the other ended with 0: {said}");
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
fn summary_has_the_order_and_the_unit_that_were_asked_for() {
    let bench = Bench::new();
    let order = |sort: &str, unit: &str| {
        let (output, data) = bench.exec(&["-r", "1", "--sort", sort, "-u", unit, "sleep 0.2", "sleep 0.01"]);
        let text = out(&output);
        let slow_first = row(&text, "sleep 0.2").unwrap() < row(&text, "sleep 0.01").unwrap();
        // Which took longer, on a busy machine too.
        let time = |variant| {
            let of = data.trials.iter().filter(|trial| trial.trial.variant == variant);
            let times: Vec<f64> = of.map(|trial| amount(trial, "run", Metric::Time)).collect();
            prony_stats::summary::median(&times).unwrap()
        };
        (slow_first, time(0) > time(1), text)
    };
    for sort in ["auto", "command", "mean-time"] {
        let (slow_first, slower, text) = order(sort, "millisecond");
        // By the medians, which the table shows; hyperfine has means.
        assert_eq!(slow_first, sort != "mean-time" || !slower, "{sort}: {text}");
    }
    for (unit, least) in
        [("microsecond", "us"), ("millisecond", "ms"), ("second", "s"), ("minute", "min"), ("hour", "h")]
    {
        // Columns of what no sample showed are left out, and one of these may be the last.
        let text = order("auto", unit).2.replace('\n', " \n");
        assert!(text.contains(&format!("time, {least} ")) && text.contains(&format!("cpu, {least} ")), "{text}");
    }
}

#[test]
fn summary_ends_with_one_table_and_names_the_way_to_the_rest() {
    let bench = Bench::new();
    let work = "i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done";
    let (output, _) = bench.exec(&["-r", "6", "-S", "sh", "-n", "busy", "-n", "idle", work, "sleep 0.05"]);
    let text = out(&output);
    let (verdict, heads) = (text.find("`idle`").unwrap(), text.find("time, ").unwrap());
    assert!(verdict < heads, "the table stands below the verdict: {text}");
    let heads = text[heads..].lines().next().unwrap();
    for column in ["cpu, ", "user + system", "rss.", "anon.max, "] {
        assert!(heads.contains(column), "{column}: {text}");
    }
    assert_eq!(text.matches("\n---").count(), 1, "one table: {text}");
    let too_short = "too little CPU time to tell user from system";
    assert_eq!(text.matches(too_short).count(), 1, "of `sleep`: {text}");
    assert!(text.lines().last().unwrap().starts_with("all tables") && text.contains("`prony show 1 --all"), "{text}");

    let (output, _) = bench.exec(&["-r", "1", "--all", "-S", "sh", work]);
    let text = out(&output);
    for more in ["cpu.user", "file.max", "CPU, at most", "anonymous memory, at most"] {
        assert!(text.contains(more), "{more}: {text}");
    }
    assert!(!text.contains("all tables"), "{text}");
    let shown = bench.prony(&["show", "2", "--all"]);
    assert_eq!(out(&shown), text, "one report, whichever command prints it");
}

#[test]
fn one_command_has_a_row_of_its_name_and_no_verdict() {
    let bench = Bench::new();
    for runs in ["1", "3"] {
        let text = out(&bench.exec(&["-r", runs, "-n", "nap", "--syncs", "--", "sleep", "0.03"]).0);
        assert!(row(&text, "nap").is_some() && text.contains("\ncommand "), "{text}");
        assert!(text.contains("fsyncs"), "a column, or why there is none: {text}");
        assert!(!text.to_lowercase().contains("verdict"), "{text}");
    }
}

#[test]
fn a_command_of_several_processes_leaves_the_exact_peak_of_the_first() {
    let bench = Bench::new();
    let several = "sh -c 'sleep 0.2 & sleep 0.2; wait'";
    // Its buffer is above what a process has before it executes a program.
    let one = "dd if=/dev/zero of=/dev/null bs=32M count=20";
    let text = |more: &str| out(&bench.exec(&["-r", "1", "-n", "one", "-n", "two", more, one, several]).0);
    let (brief, all) = (text("--sort=auto"), text("--all"));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    // On a busy machine samples may lie too far apart, so that there is no largest one.
    let is_sparse = |text: &str| {
        ["more than a quarter of the time", "lie too far apart"].iter().any(|why| words(text).contains(why))
    };
    for shown in ["rss.peak, ", "rss.max, "] {
        assert!(brief.contains(shown) || is_sparse(&brief), "{shown}: {brief}");
    }
    for text in [brief, all] {
        assert!(is_sparse(&text) || words(&text).contains("some trials have no `rss.peak`"), "{text}");
    }
}

#[test]
fn failed_command_has_its_reason_once() {
    let bench = Bench::new();
    let text = out(&bench.exec(&["-r", "3", "--", "sh", "-c", "echo oops >&2; exit 3"]).0);
    assert_eq!(text.matches("`oops`").count(), 1, "last lines of output: {text}");
    assert_eq!(text.matches("failed (exit code 3) at").count(), 1, "{text}");
    assert_eq!(text.matches("none of the 3 trials succeeded").count(), 1, "in the headline: {text}");
}

#[test]
fn style_none_prints_only_what_is_exported_to_standard_output() {
    let bench = Bench::new();
    let (output, _) = bench.exec(&["-r", "1", "--style=none", "--export-markdown", "-", "sleep 0.01", "sleep 0.02"]);
    assert!(out(&output).starts_with("# sleep 0.01 and sleep 0.02\n"), "{}", out(&output));
    assert_eq!(err(&output), "");
    let (output, _) = bench.exec(&["-r", "1", "--style=none", "true"]);
    assert_eq!((out(&output), err(&output)), (String::new(), String::new()));
}

/// Markdown had no `rss.peak` and a note on `file.end`, and charts defined the time of a command by commits and open loops.
#[test]
fn exports_of_commands_have_their_peak_and_charts_define_their_time() {
    let bench = Bench::new();
    let commands = ["dd if=/dev/zero of=/dev/null bs=20M count=1", "dd if=/dev/zero of=/dev/null bs=40M count=1"];
    for format in ["markdown", "asciidoc", "orgmode"] {
        let export = format!("--export-{format}");
        let exported = out(&bench.exec(&[&["-r", "2", "--style=none", &export, "-"], &commands[..]].concat()).0);
        assert!(exported.contains("run.rss.peak") && !exported.contains("file.end"), "{exported}");
    }
    let all = prony_report::build(&bench.data(), &prony_report::Options { programs: true, ..Default::default() });
    let peaks = all.tables.iter().flat_map(|table| &table.columns).filter(|column| column.heading == "rss.peak");
    assert_eq!(peaks.count(), 1, "once in the table of all figures");
    let chart = out(&bench.prony(&["plot", "latest", "effects"]));
    assert!(chart.contains("Time from the begin of the phase") && !chart.contains("open loop"), "{chart}");
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

#[test]
fn times_are_exported_as_hyperfine_has_them_and_come_back_without_a_verdict() {
    let bench = Bench::new();
    let exports = ["--export-hyperfine-json", "h.json", "--export-asciidoc", "r.adoc", "--export-orgmode", "r.org"];
    let lists = ["-L", "seconds", "0.01,0.02", "-n", "nap {seconds}", "-n", "no nap"];
    let commands = ["--", "sleep", "{seconds}", "--vs", "sh", "-c", "exit 3 # {seconds}"];
    let words = [&["-r", "2", "-i=3"], &exports[..], &lists[..], &commands[..]].concat();
    let (output, data) = bench.exec(&words);
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    let text = fs::read_to_string(bench.path("h.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let results = json["results"].as_array().unwrap();
    let names: Vec<&str> = results.iter().map(|one| one["command"].as_str().unwrap()).collect();
    assert_eq!(names, ["nap 0.01", "no nap (seconds=0.01)", "nap 0.02", "no nap (seconds=0.02)"]);
    let first = &results[0];
    let times: Vec<f64> = first["times"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
    assert_eq!(times.len(), 4, "the baseline has two trials in each block");
    assert!(times.iter().all(|time| *time > 0.01 && *time < 60.0), "seconds: {times:?}");
    let mean = times.iter().sum::<f64>() / 4.0;
    assert!((first["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert_eq!(
        (&first["exit_codes"], &first["parameters"]["seconds"]),
        (&serde_json::json!([0, 0, 0, 0]), &"0.01".into())
    );
    assert_eq!(results[1]["exit_codes"], serde_json::json!([3, 3]));
    for key in ["stddev", "median", "user", "system", "min", "max"] {
        assert!(first[key].as_f64().is_some(), "{key}: {first}");
    }
    assert_eq!(data.trials.len(), 12);
    assert!(fs::read_to_string(bench.path("r.adoc")).unwrap().contains("\n|===\n"));
    assert!(fs::read_to_string(bench.path("r.org")).unwrap().contains("\n| <l> "));

    let imported = bench.prony(&["import", "h.json"]);
    let text = out(&imported);
    assert_eq!(imported.status.code(), Some(0), "{}", err(&imported));
    assert!(text.contains("nap 0.02") && text.contains("no verdict: ") && !text.contains("faster"), "{text}");
    bench.write("x.json", "{}");
    let wrong = bench.prony(&["import", "x.json"]);
    assert!(
        wrong.status.code() == Some(2) && err(&wrong).contains("`x.json` is not a JSON file of hyperfine"),
        "{}",
        err(&wrong)
    );
}

/// A command that failed in half of its runs came back as one of four runs, all well.
#[test]
fn failed_runs_are_in_the_export_and_come_back() {
    let bench = Bench::new();
    let flaky = "echo >> count; test $(($(wc -l < count) % 2)) -eq 0";
    let names = ["-r", "2", "--export-hyperfine-json", "h.json", "-n", "good", "-n", "flaky", "-n", "bad"];
    bench.exec(&[&names[..], &["--", "true", "--vs", "sh", "-c", flaky, "--vs", "false"]].concat());
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(bench.path("h.json")).unwrap()).unwrap();
    let failed = |command: &str, failed: u32| serde_json::json!({ "command": command, "failed": failed, "runs": 2 });
    assert_eq!(json["failed"], serde_json::json!([failed("flaky", 1), failed("bad", 2)]));
    assert_eq!(json["results"].as_array().unwrap().len(), 2);
    let text = out(&bench.prony(&["import", "h.json"]));
    for said in ["`flaky` failed in 1 of 2 runs; the file has no times", "`bad` failed in 2 of 2 runs"] {
        assert!(text.contains(said), "{text}");
    }
    assert!(!text.contains("`good` failed"), "{text}");
}

#[test]
fn a_condition_decides_the_exit_code() {
    let bench = Bench::new();
    let gated = |commands: [&str; 2]| {
        let output = bench.judged(&[&["exec", "-q", "--fail-if", "run.time slower 5%", "--"][..], &commands].concat());
        (output.status.code(), out(&output).lines().last().unwrap_or_default().to_owned())
    };
    assert_eq!(gated(["sleep 0.001", "sleep 0.1"]), (Some(1), "exit code 1: a gate fails".to_owned()));
    assert_eq!(gated(["sleep 0.1", "sleep 0.001"]), (Some(0), "exit code 0: every gate passes".to_owned()));
}

/// The condition is on a metric that only `--metric` compares, and a pull request is told the same as the terminal.
#[test]
fn further_metrics_are_compared_and_verdicts_are_appended_to_a_file() {
    let bench = Bench::new();
    bench.write("s.md", "before\n");
    let metric =
        ["--metric", "run.cpu", "--fail-if", "run.cpu more CPU time 5%", "--summary", "s.md", "--save", "e.toml"];
    let [few, many] = ["20000", "400000"].map(|n| format!("i=0; while [ $i -lt {n} ]; do i=$((i+1)); done"));
    let output = bench.judged(&[&["exec", "-q", "-S", "sh"][..], &metric, &["--force", &few, &many]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let summary = std::fs::read_to_string(bench.path("s.md")).unwrap();
    assert!(summary.starts_with("before\n## "), "{summary}");
    for said in
        ["| run.time |", "| run.cpu |", "**gate `run.cpu more CPU time 5 %`: fails", "**exit code 1: a gate fails**"]
    {
        assert!(summary.contains(said), "{said}: {summary}");
    }
    assert!(std::fs::read_to_string(bench.path("e.toml")).unwrap().contains("metrics = [\"run.cpu\"]"));
    let unknown = refused(&Bench::new(), &["--metric", "walk.time", "true x", "true y"]);
    assert!(unknown.contains("`--metric`: `walk.time`: unknown phase `walk`"), "{unknown}");
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

/// It caught the signal that `nohup` has it ignore, and ended. A shell without job control has all that it starts in the background
/// ignore Ctrl-C, and an interrupt of a script ended nothing.
#[test]
fn hangup_that_is_ignored_at_the_start_ends_nothing_and_an_interrupt_does() {
    let bench = Bench::new();
    let waits = "touch began; while ! [ -e go ]; do sleep 0.01; done";
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP INT; exec \"$@\"", "sh", PRONY, "exec", "-S", "sh", "-r", "1", waits]);
    command.current_dir(bench.path("")).stdout(Stdio::null()).stderr(Stdio::piped()).stdin(Stdio::null());
    for (signal, expected) in [(rustix::process::Signal::HUP, 0), (rustix::process::Signal::INT, 1)] {
        let child = command.spawn().unwrap();
        eventually("the trial", || bench.path("began").exists());
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        if expected == 0 {
            bench.write("go", "");
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(expected), "{signal:?}: {}", err(&output));
        ["began", "go"].iter().for_each(|name| _ = std::fs::remove_file(bench.path(name)));
    }
}
