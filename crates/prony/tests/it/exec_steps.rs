//! Tests what surrounds the commands of `prony exec`: steps, warm-up runs, input, output and TMPDIR.

use std::process::Command;

use crate::bench::{Bench, PRONY};
use crate::exec::{err, refused};

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
