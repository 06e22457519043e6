//! Tests failed trials of programs at the command line: the output and the exit code (METHOD 1.3, 4.9, 8.1).

use prony_analysis::verdicts;
use prony_results::{Database, RunId, RunStatus};
use prony_stats::Verdict;
use serde_json::{Value, json};

use crate::bench::Bench;

/// What `prony exec -- sleep SECONDS --vs sh -c SCRIPT` says, and its exit code.
fn against_sleep(seconds: &str, options: &[&str], script: &str) -> (Option<i32>, String) {
    let bench = Bench::new();
    let command = ["--", "sleep", seconds, "--vs", "sh", "-c", script];
    let output = bench.prony(&[&["exec", "--quiet", "--runs", "6"], options, &command].concat());
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn failing_commands_are_neither_faster_nor_slower_at_the_command_line() {
    let cases = [
        ("0.05", &[][..], "kill -SEGV $$", "crashed (signal 11)"),
        ("0.05", &[], "exit 3", "failed (exit code 3)"),
        ("5", &["--time", "30 ms"], "sleep 5", "timed out"),
    ];
    for (seconds, options, script, outcome) in cases {
        // Where time is short the baseline has none either.
        let baseline =
            if options.is_empty() { "6 of 18 trials failed: " } else { "measured: none of the 18 trials succeeded" };
        let (code, said) = against_sleep(seconds, options, script);
        assert!(!said.contains("faster") && !said.contains("slower"), "{said}");
        assert!(said.contains(baseline) && said.contains(outcome), "{said}");
        let verdict = if options.is_empty() {
            " where `sleep 0.05` succeeds in phase `run`: 0 of 6"
        } else {
            "raise the time limit"
        };
        assert!(said.contains(verdict), "{said}");
        assert_eq!(code, Some(1), "{said}");
    }
    let (code, said) = against_sleep("0.05", &[], "kill -9 $$");
    assert!(
        said.contains("6 of 18 trials failed: `sh -c 'kill -9 $$'`: 6 killed, cause unknown")
            && said.contains("can't tell"),
        "{said}"
    );
    assert_eq!(code, Some(1), "{said}");
}

/// It said `-i=5`, with which the trials of the other command failed.
#[test]
fn hint_to_ignore_an_exit_code_names_those_that_are_ignored_already() {
    let bench = Bench::new();
    let command = ["exec", "-q", "-r", "1", "-i=3", "--", "sh", "-c", "exit 3", "--vs", "sh", "-c", "exit 5"];
    let output = bench.prony(&command);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("`-i=3,5`"), "{said}");
}

/// The screen had a verdict on shares of 0, a minimum detectable effect and a table without a value.
#[test]
fn screen_says_that_nothing_was_measured_why_and_what_to_do() {
    let bench = Bench::new();
    let script = |what: &str| format!("echo {what} >&2; exit 3");
    let (first, second) = (script("no such table"), script("no such file"));
    let command = ["-n", "one", "-n", "two", "--", "sh", "-c", &first, "--vs", "sh", "-c", &second];
    let output = bench.prony(&[&["exec", "--quiet", "--runs", "2"], &command[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    // Sentences are broken into lines.
    let words = |text: &[u8]| String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let said = words(&output.stdout);
    for expected in [
        "warning: nothing was measured: none of the 6 trials succeeded hint: run the command by itself to see all that \
         it prints; if exit code 3 is no failure, ignore it with `-i=3`",
        "- `one`, 4 trials: failed (exit code 3) at ",
        ": the process exited with code 3; last lines of output: `no such table`",
        "- `two`, 2 trials: failed (exit code 3) at ",
        "`no such file`",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!said.contains("can't tell") && !said.contains("minimum detectable effect"), "{said}");
    let all = words(&bench.prony(&["show", "--all"]).stdout);
    assert!(all.contains("`trials_failed`: 6 of 6 trials failed") && all.contains("can't tell"), "{all}");

    let body = "[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n[program.x]\nshell = true\ncommand = \"exit 4\"\n";
    bench.write("one.toml", body);
    let said = words(&bench.prony(&["run", "one.toml", "--quiet"]).stdout);
    assert!(said.contains("nothing was measured: the only trial failed hint: "), "{said}");
    assert!(said.contains("ignore it with `success = [0, 4]`") && said.contains("- 1 trial: failed"), "{said}");
    // It printed nothing, and "the output shown is from one trial".
    assert!(said.contains("the reason after the counts is that of one trial") && !said.contains("output"), "{said}");
    // A phase that was completed before has a value.
    let phase = "[[phase]]\nname = \"a\"\nbegin = { line = \"^b\" }\nend = { line = \"^e\" }\n";
    bench.write("part.toml", format!("{}{phase}", body.replace("exit 4", "echo b; echo e; exit 4")));
    let said = words(&bench.prony(&["run", "part.toml", "--quiet"]).stdout);
    assert!(said.contains("1 of 1 trial failed") && !said.contains("nothing was measured"), "{said}");
}

#[test]
fn command_that_fails_in_four_of_six_trials_is_not_faster() {
    let count = Bench::new();
    let file = count.path("count");
    let script = format!(
        "n=$(cat {0} 2>/dev/null || echo 0); echo $((n + 1)) > {0}; [ $n -lt 4 ] && echo refused >&2 && exit 3; exit 0",
        file.display()
    );
    let (code, said) = against_sleep("0.05", &[], &script);
    assert_eq!(code, Some(1), "{said}");
    // Sentences are broken into lines where the command's name lets them be.
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("4 of 18 trials failed: `sh -c 'n=") && !said.contains("faster"), "{said}");
    let failed = "exit 0'`: 4 failed (exit code 3); one of them: the process exited with code 3; last lines of output: `refused`";
    assert!(said.contains(failed), "the cause stands above the tables: {said}");
    assert!(said.contains("2 of 6 trials succeeded (95 % interval of that share: 4 to 78 %)"), "{said}");
    assert!(said.contains("(2 of 6 known)"), "the figures are those of the two that finished: {said}");
}

#[test]
fn gate_at_the_command_line_exits_with_its_answer() {
    let gate = |base: &str, changed: &str| {
        let bench = Bench::new();
        let body = format!(
            "[factors.command]\nbase = {{ run = \"{base}\" }}\nchanged = {{ run = \"{changed}\" }}\n\
             [compare]\nbaseline = {{ command = \"base\" }}\nblocks = 6\n[observe]\ncare = \"light\"\n\
             [program.x]\ncommand = [\"sh\", \"-c\", \"echo time 1.000; {{command.run}}\"]\n\
             [[phase]]\nname = \"run\"\nread = 'time (?<time>[0-9.]+)'\n"
        );
        bench.write("gate.toml", body);
        let output = bench.prony(&["run", "gate.toml", "--quiet", "--fail-if", "run.time slower 5%"]);
        let said = String::from_utf8(output.stdout).unwrap();
        let line = said.lines().find(|line| line.starts_with("gate ")).unwrap_or_default().to_owned();
        (output.status.code(), line.rsplit(": ").next().unwrap_or_default().to_owned())
    };
    let of = |code, word: &str| (Some(code), word.to_owned());
    // The program reports its time itself, so that no load on the machine changes what is compared.
    assert_eq!(gate("true", "true"), of(0, "passes, shown to be not slower by more than 5 %"));
    assert_eq!(gate("true", "kill -SEGV $$"), of(1, "fails"));
    assert_eq!(gate("kill -SEGV $$", "kill -SEGV $$"), of(1, "fails"));
    assert_eq!(gate("kill -SEGV $$", "true"), of(2, "cannot judge"));
    assert_eq!(gate("true", "kill -9 $$"), of(2, "cannot judge"));
}

/// The median of one trial of six stood beside one of six of six without a word.
#[test]
fn compared_runs_count_the_trials_without_a_value() {
    let bench = Bench::new();
    let body = "[compare]\nblocks = 6\n[observe]\ncare = \"light\"\n[program.x]\nshell = true\ndirectory = \".\"\n\
                copy = \"none\"\ncommand = \"echo >> count; test $(wc -l < count) -gt 1 || echo took 2\"\n\
                [[phase]]\nname = \"job\"\nread = 'took (?<latency_p50>\\d+)'\n";
    bench.write("some.toml", body);
    let run = bench.prony(&["run", "some.toml", "--quiet"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let compared = ["compare", "1", "1", "--metric", "job.latency.p50"];
    let said = String::from_utf8(bench.prony(&compared).stdout).unwrap();
    // The cell is wrapped.
    assert!(said.contains("n=1, 5") && said.contains("a value"), "{said}");
}

#[test]
fn compared_runs_show_failed_trials_next_to_figures() {
    let bench = Bench::new();
    let body = "[compare]\nblocks = 6\n[observe]\ncare = \"light\"\n[program.x]\nshell = true\ndirectory = \".\"\n\
                copy = \"none\"\ncommand = \"echo >> count; test $(wc -l < count) -eq 1 || kill -SEGV $$\"\n";
    bench.write("some.toml", body);
    for _ in 0..2 {
        assert_eq!(bench.prony(&["run", "some.toml", "--quiet"]).status.code(), Some(1));
    }
    let again = String::from_utf8(bench.prony(&["compare", "1"]).stdout).unwrap();
    assert!(again.contains("warning: `trials_failed`: ") && again.contains("\n  hint: "), "as `show` says: {again}");
    let compared = ["compare", "1", "2", "--metric", "run.time"];
    let said = String::from_utf8(bench.prony(&compared).stdout).unwrap();
    assert!(said.contains("n=1, 5 crashed (signal 11)"), "{said}");
    assert!(said.contains("6 crashed (signal 11)"), "{said}");
    let output = bench.prony(&[&compared[..], &["--json"]].concat());
    let runs = serde_json::from_slice::<Value>(&output.stdout).unwrap()["figures"][0]["runs"].clone();
    assert!(runs[0]["n"] == 1 && runs[0]["median"].is_number(), "{runs}");
    assert_eq!(runs[0]["outcomes"], json!({ "crashed (signal 11)": 5, "ok": 1 }));
    assert!(runs[1]["n"] == 0 && runs[1]["median"].is_null(), "{runs}");
    assert_eq!(runs[1]["outcomes"], json!({ "crashed (signal 11)": 6 }));
}

#[test]
fn a_resumed_run_refuses_a_summary_that_its_program_writes() {
    let bench = Bench::new();
    let file = bench.path("out.md");
    let body = format!(
        "[compare]\nblocks = 2\n[observe]\ncare = \"light\"\n[program.x]\ncommand = [\"echo\", \"x\"]\n\
         output = {{ file = {file:?} }}\n"
    );
    bench.write("some.toml", body);
    assert_eq!(bench.prony(&["run", "some.toml", "--quiet"]).status.code(), Some(0));
    Database::open(&bench.path("prony.db")).unwrap().end_run(RunId(1), RunStatus::Interrupted, 1).unwrap();
    let output = bench.prony(&["run", "--resume", "1", "--quiet", "--summary", "out.md"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains("this command writes another output to the same file"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(file).unwrap(), "x\n", "nothing is written behind the output");
}

/// It ended on its tables, and nothing said how to go on.
#[test]
fn interrupted_run_names_the_command_that_runs_its_other_trials() {
    let bench = Bench::new();
    bench.exec(&["-q", "-r2", "echo a > b"]);
    let shown = |words: &[&str]| String::from_utf8(bench.prony(words).stdout).unwrap();
    let command = "to run the other trials: `prony run --resume 1`";
    assert!(!shown(&["show"]).contains(command));
    // As if it had been interrupted after its last trial.
    Database::open(&bench.path("prony.db")).unwrap().end_run(RunId(1), RunStatus::Interrupted, 1).unwrap();
    assert!(shown(&["show"]).contains(command), "{}", shown(&["show"]));
    let elsewhere = bench.path("prony.db").display().to_string();
    let said = shown(&["show", "--database", &elsewhere]);
    assert!(said.contains(&format!("`prony run --resume 1 --database {elsewhere}`")), "{said}");
    assert_eq!(bench.prony(&["run", "--resume", "1", "-q"]).status.code(), Some(0));
    assert!(!shown(&["show"]).contains("to run the other trials"));
}

#[test]
fn exit_code_of_a_resumed_run_counts_the_trials_of_all_its_sessions() {
    let bench = Bench::new();
    let body = "[compare]\nblocks = 2\n[observe]\ncare = \"light\"\n[program.x]\nshell = true\ncommand = \"exit 3\"\n";
    bench.write("some.toml", body);
    assert_eq!(bench.prony(&["run", "some.toml", "--quiet"]).status.code(), Some(1));
    // As if it had been interrupted after its last trial.
    let mut database = Database::open(&bench.path("prony.db")).unwrap();
    database.end_run(RunId(1), RunStatus::Interrupted, 1).unwrap();
    drop(database);
    for what in ["its trials failed in the first session", "the run is done"] {
        let output = bench.prony(&["run", "--resume", "1", "--quiet"]);
        assert_eq!(output.status.code(), Some(1), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn program_whose_operations_failed_has_failed_unless_the_file_allows_it() {
    let run = |errors: &str| {
        let bench = Bench::new();
        let say = "echo 'operations 90 errors 10'";
        let body = format!(
            "[factors.n]\na = {{ say = \"echo 'operations 100 errors 0'\" }}\nb = {{ say = \"{say}\" }}\n\
             [compare]\nbaseline = {{ n = \"a\" }}\nblocks = 6\n{errors}\n[observe]\ncare = \"light\"\n\
             [program.x]\ncommand = [\"sh\", \"-c\", \"{{n.say}}\"]\n\
             [[phase]]\nname = \"work\"\nread = 'operations (?<operations>\\d+) errors (?<errors>\\d+)'\n"
        );
        bench.write("ops.toml", body);
        let output = bench.prony(&["run", "ops.toml", "--quiet"]);
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), said, String::from_utf8(output.stderr).unwrap())
    };
    let (code, said, errors) = run("");
    assert_eq!(code, Some(1), "{said}{errors}");
    assert!(said.contains("6 of 18 trials failed: `b`: 6 failed"), "{said}");
    assert!(said.contains("10 of 100 operations of phase `work` failed, and none may fail"), "{said}");
    assert!(said.contains("`n=b` fails (6 failed) where `n=a` succeeds") && !said.contains("faster"), "{said}");
    for allowed in ["errors = 10", "errors = \"10%\""] {
        let (code, said, errors) = run(allowed);
        assert_eq!(code, Some(0), "{said}{errors}");
        assert!(!said.contains("trials failed"), "{said}");
    }
}

#[test]
fn times_of_unequal_numbers_of_operations_are_not_compared_and_rates_are() {
    let bench = Bench::new();
    let say = |operations: u32, seconds: &str| format!("echo 'operations {operations} errors 0'; sleep {seconds}");
    let body = format!(
        "[factors.n]\na = {{ say = \"{}\" }}\nb = {{ say = \"{}\" }}\n\
         [compare]\nbaseline = {{ n = \"a\" }}\nblocks = 6\nmetric = \"work.time\"\nmetrics = [\"work.rate\"]\n\
         [observe]\ncare = \"light\"\n[program.x]\ncommand = [\"sh\", \"-c\", \"{{n.say}}\"]\n\
         [[phase]]\nname = \"work\"\nread = 'operations (?<operations>\\d+) errors (?<errors>\\d+)'\n",
        say(1000, "0.2"),
        say(10, "0.001")
    );
    bench.write("offer.toml", body);
    let output = bench.prony(&["run", "offer.toml", "--quiet"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let unequal =
        "`n=b` is not compared with `n=a` in `work.time`: `a` attempted 1000 operations, but `b` attempted 10";
    assert!(said.contains(unequal), "{said}");
    let data = bench.data();
    let rate = verdicts::of(&data).lines.into_iter().find(|line| line.pair.metric.to_string() == "work.rate").unwrap();
    assert!(!matches!(rate.comparison.verdict, Verdict::Refused { .. }), "{}", rate.sentence);
}

#[test]
fn times_of_a_phase_that_lasts_a_given_time_are_not_compared() {
    let bench = Bench::new();
    let body = "[factors.engine]\na = { name = \"memory\" }\nb = { name = \"memory\" }\n[compare]\n\
                baseline = { engine = \"a\" }\nblocks = 6\n[store]\nengine = \"{engine.name}\"\n[data]\nrecords = 1000\n\
                [observe]\ncare = \"light\"\n\
                [[phase]]\nname = \"load\"\nput = {}\ntimed = false\n[[phase]]\nname = \"read\"\nget = { duration = \"20 ms\" }\n";
    bench.write("given.toml", body);
    let output = bench.prony(&["run", "given.toml", "--quiet"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("`read.rate`"), "{said}");
    let compared = bench.prony(&["compare", "--metric", "read.time"]);
    let said = String::from_utf8(compared.stdout).unwrap();
    assert!(said.contains("`read` lasts a given time: compare its rate or latencies"), "{said}");
}

/// An engine that skipped 70 % of what it was offered took "3 times less CPU time", most of which was the wait for each start.
#[test]
fn times_of_an_open_loop_are_not_compared() {
    let bench = Bench::new();
    let body = "[factors.engine]\na = { name = \"memory\" }\nb = { name = \"memory\" }\n[compare]\n\
                baseline = { engine = \"a\" }\nblocks = 6\n[store]\nengine = \"{engine.name}\"\n[data]\nrecords = 1000\n\
                [observe]\ncare = \"light\"\n[[phase]]\nname = \"write\"\nput = { rate = \"20000/s\" }\n";
    bench.write("open.toml", body);
    let output = bench.prony(&["run", "open.toml", "--quiet"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("`write.latency.p99`"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for metric in ["write.time", "write.cpu.user"] {
        let said = String::from_utf8(bench.prony(&["compare", "--metric", metric]).stdout).unwrap();
        assert!(said.contains("`write` starts its operations on a schedule: compare its latencies"), "{said}");
    }
    let said = String::from_utf8(bench.prony(&["compare", "--metric", "write.rate"]).stdout).unwrap();
    assert!(!said.contains("on a schedule"), "{said}");
}

#[test]
fn condition_that_no_plan_could_judge_is_refused_before_anything_runs() {
    let bench = Bench::new();
    let body = "[factors]\nv = [\"a\", \"b\"]\n[compare]\nbaseline = { v = \"a\" }\nblocks = 5\n\
                [program.x]\ncommand = [\"true\", \"{v}\"]\n[[phase]]\nname = \"run\"\n";
    bench.write("few.toml", body);
    let output = bench.prony(&["run", "few.toml", "--quiet", "--fail-if", "run.time slower 5%"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "error: `--fail-if` cannot judge `run.time`: \
                    the plan has 5 blocks, and a verdict needs at least 6; nothing was run\nhint: ";
    assert!(output.status.code() == Some(2) && said.contains(expected), "{said}");
    // The blocks of a level count where they are fewer.
    bench.write("few.toml", body.replace("blocks = 5", "blocks = { default = 9, v = { b = 5 } }"));
    let output = bench.prony(&["run", "few.toml", "--quiet", "--fail-if", "run.time slower 5%"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains(expected), "{said}");
    bench.write("few.toml", body.replace("blocks = 5", "blocks = 9").replace("baseline = { v = \"a\" }\n", ""));
    let output = bench.prony(&["run", "few.toml", "--quiet", "--fail-if", "run.time slower 5%"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("judge `run.time`: no baseline is declared"), "{said}");
    assert!(!bench.path("prony.db").exists(), "nothing ran");
}

/// What a step before the trial removes is the trial's input, and no concern of what cleans up.
#[test]
fn cleanup_runs_where_the_input_is_missing() {
    let bench = Bench::new();
    let [input, cleaned] = ["in", "cleaned"].map(|name| bench.path(name).display().to_string());
    bench.write("in", "x");
    let body = format!(
        "[program.x]\ncommand = \"true\"\ninput = {{ file = \"{input}\" }}\nprepare = \"rm {input}\"\n\
         cleanup = \"touch {cleaned}\"\n[[phase]]\nname = \"run\"\n"
    );
    bench.write("gone.toml", body);
    let output = bench.prony(&["run", "gone.toml", "--quiet"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("cannot read"), "{said}");
    assert!(bench.path("cleaned").exists(), "{said}");
}

/// With a closed standard output a failed gate was a success, and the summary was not written.
#[test]
fn answer_of_a_command_is_the_same_if_nobody_reads_its_output() {
    let bench = Bench::new();
    let unread = |words: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        bench.command(words).stdout(writer).status().unwrap().code()
    };
    assert_eq!(unread(&["exec", "-r", "1", "--summary", "summary.md", "--", "false"]), Some(1));
    assert!(std::fs::read_to_string(bench.path("summary.md")).unwrap().contains("false"));
    bench.write("e.toml", "[compare]\nblocks = 1\n[program.x]\ncommand = \"false\"\n");
    assert_eq!(unread(&["run", "e.toml", "--json"]), Some(1));
    for printing in [&["show"][..], &["ls"], &["report", "--format", "json"]] {
        assert_eq!(unread(printing), Some(0), "{printing:?}");
    }
}
