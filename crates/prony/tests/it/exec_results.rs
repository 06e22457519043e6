//! Tests what `prony exec` reports of the commands that it has run: its summary, exports, verdicts and exit code.

use std::fs;
use std::process::{Command, Stdio};

use prony_model::metric::Metric;

use crate::bench::{Bench, PRONY, amount, eventually};
use crate::exec_lines::{err, out, refused, row};

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
