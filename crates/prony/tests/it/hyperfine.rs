//! The tests of hyperfine's repository (`tests/integration_tests.rs`, `tests/execution_order_tests.rs`) that `exec_lines.rs`,
//! `exec_steps.rs` and `exec_results.rs` do not have, rewritten for `prony exec`. `docs/hyperfine.md` lists what is meant
//! differently: commands alternate, the reference runs twice in each block, the number of runs does not follow from their time,
//! `--conclude` may fail.

use std::fs;
use std::process::Output;

use crate::bench::Bench;

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the commands and steps wrote, in their order; each text is written by one `echo`.
fn written(options: &[&str], commands: &[&str]) -> Vec<String> {
    let bench = Bench::new();
    let echo = |text: &&str| if text.starts_with('-') { (*text).to_owned() } else { format!("echo {text} >> log") };
    let words: Vec<String> = options.iter().chain(commands).map(echo).collect();
    let words: Vec<&str> = ["-S", "sh"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let (output, _) = bench.exec(&words);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    fs::read_to_string(bench.path("log")).unwrap().lines().map(str::to_owned).collect()
}

fn times(log: &[String], text: &str) -> usize {
    log.iter().filter(|line| *line == text).count()
}

#[test]
fn commands_run_as_often_as_asked_and_the_first_twice_as_often() {
    for (runs, expected) in [("-r1", [2, 1]), ("-r2", [4, 2])] {
        let log = written(&[runs], &["command 1", "command 2"]);
        assert_eq!(["command 1", "command 2"].map(|text| times(&log, text)), expected, "{log:?}");
    }
    assert_eq!(written(&["-r1"], &["only one"]), ["only one"]);
}

#[test]
fn warmups_precede_the_trials_of_their_command_and_have_its_steps() {
    let log = written(&["-w2", "-r1", "--prepare", "prepare"], &["command 1", "command 2"]);
    for pair in log.chunks(2) {
        assert!(pair[0] == "prepare" && pair[1].starts_with("command"), "{log:?}");
    }
    assert_eq!(["command 1", "command 2"].map(|text| times(&log, text)), [4, 3], "{log:?}");
    let runs: Vec<&String> = log.iter().skip(1).step_by(2).collect();
    for command in ["command 1", "command 2"] {
        let first = runs.iter().position(|run| *run == command).unwrap();
        assert!(runs[first..first + 3].iter().all(|run| *run == command), "2 warm-ups and a trial: {log:?}");
    }
}

#[test]
fn setup_of_each_command_runs_once_before_it_and_cleanup_at_the_end() {
    let steps = ["--setup", "setup 1", "--setup", "setup 2", "--cleanup", "cleanup", "-r2", "-w1"];
    let log = written(&steps, &["command 1", "command 2"]);
    let at = |text: &str| log.iter().position(|line| line == text).unwrap();
    for n in ["1", "2"] {
        let [setup, command] = ["setup", "command"].map(|what| format!("{what} {n}"));
        assert!(times(&log, &setup) == 1 && at(&setup) < at(&command), "{log:?}");
    }
    assert_eq!(log[..2], ["setup 1", "setup 2"], "of a file that both write, the last one holds for both commands");
    assert_eq!((times(&log, "cleanup"), &log[log.len() - 2..]), (2, &["cleanup", "cleanup"].map(str::to_owned)[..]));
    let shared = written(&["-r2", "--setup", "setup"], &["command 1", "command 2"]);
    assert_eq!(times(&shared, "setup"), 2, "one setup is that of each command: {shared:?}");
}

#[test]
fn every_combination_of_parameters_runs() {
    let bench = Bench::new();
    let lists = ["-r1", "-S", "sh", "-L", "number", "1,2,3", "-L", "letter", "a,b"];
    bench.exec(&[&lists[..], &["echo {number} {letter} >> log"]].concat());
    let log = fs::read_to_string(bench.path("log")).unwrap();
    let mut combinations: Vec<&str> = log.lines().collect();
    combinations.sort_unstable();
    assert_eq!(combinations, ["1 a", "1 a", "1 b", "2 a", "2 b", "3 a", "3 b"], "the first is the baseline");
}

#[test]
fn steps_are_given_once_or_for_each_command_with_the_reference() {
    let bench = Bench::new();
    let code = |words: &[&str]| {
        let output = bench.prony(&[&["exec", "-r1"], words].concat());
        (output.status.code(), err(&output))
    };
    for option in ["--prepare=echo a", "--conclude=echo a", "--setup=echo a", "--cleanup=echo a"] {
        let name = option.split('=').next().unwrap();
        assert_eq!(code(&[option, option, "echo a", "echo b"]).0, Some(0), "{option}");
        let reference = "--reference=echo ref";
        assert_eq!(code(&[option, option, option, reference, "echo a", "echo b"]).0, Some(0), "{option}");
        for (words, n) in
            [([option, option, "echo a", "echo b", "echo c"], 3), ([option, option, reference, "echo a", "echo b"], 3)]
        {
            let (code, text) = code(&words);
            let expected = format!("error: `{name}` is given 2 times for {n} commands\nhint: ");
            assert!(code == Some(2) && text.contains(&expected), "{words:?}: {text}");
        }
    }
}

#[test]
fn names_and_parameters_that_are_too_many_are_refused() {
    let bench = Bench::new();
    let text = |words: &[&str]| err(&bench.prony(&[&["exec"], words].concat()));
    assert!(text(&["--command-name=a", "--command-name=b", "echo a"]).starts_with("error: 2 names for 1 command\n"));
    let twice = text(&["-L", "x", "1,2,3", "--parameter-list", "x", "a,b,c", "echo {x}"]);
    assert!(twice.starts_with("error: the parameter `x` is given twice\n"), "{twice}");
    assert!(!bench.path("prony.db").exists());
}

#[test]
fn bounds_of_runs_of_one_still_perform_one_run() {
    let bench = Bench::new();
    for (options, trials) in [(&["-m1", "-M1", "-w0"][..], 1), (&["-m1", "-w0"], 10)] {
        let (output, data) = bench.exec(&[options, &["sleep 0.01"]].concat());
        assert_eq!((output.status.code(), data.trials.len()), (Some(0), trials), "{options:?}");
    }
}

/// hyperfine ends at the first failure, and writes what it has.
#[test]
fn export_contains_the_commands_that_succeed_where_one_fails() {
    let bench = Bench::new();
    let (output, _) = bench.exec(&["-r1", "--export-markdown", "r.md", "true", "--vs", "false"]);
    assert_eq!(output.status.code(), Some(1));
    let text = fs::read_to_string(bench.path("r.md")).unwrap();
    assert!(text.contains("| true | ") && text.contains("failed (exit code 1)"), "{text}");
}
