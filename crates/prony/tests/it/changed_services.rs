//! Tests what is said of services that were changed: beside a run of other ones, and while a run copies them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::bench::Bench;

/// A service that is the script `app`, and a command as a phase.
fn experiment(bench: &Bench, service: &str, run: &str) -> String {
    let app = bench.path("app");
    format!(
        "[compare]\nblocks = 1\n[[service]]\nname = \"s\"\ncommand = [{app:?}]\n{service}\
         [[phase]]\nname = \"p\"\nrun = [\"sh\", \"-c\", {run:?}]\n"
    )
}

fn app(bench: &Bench, text: &str) {
    bench.write("app", format!("#!/bin/sh\n{text}\nexec sleep 1000\n"));
    fs::set_permissions(bench.path("app"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Two runs of different servers had all that is recorded in common.
#[test]
fn another_executable_of_a_service_is_what_differs_between_runs() {
    let bench = Bench::new();
    bench.write("e.toml", experiment(&bench, "", "sleep 0.1"));
    for text in ["# one", "# other"] {
        app(&bench, text);
        let output = bench.prony(&["run", "e.toml", "--quiet"]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let compared = bench.prony(&["compare", "1", "2"]);
    let said = String::from_utf8_lossy(&compared.stdout);
    let expected = format!("`{}` of service `s`: ", bench.path("app").display());
    assert!(said.contains("what ran differs in ") && said.contains(&expected), "{said}");
}

#[test]
fn trial_says_that_the_directory_of_a_service_changed_since_the_run_began() {
    let bench = Bench::new();
    app(&bench, "");
    bench.write("site/file", "one");
    let run = format!("echo two > {}", bench.path("site/file").display());
    let two =
        "directory = \"site\"\n[[service]]\nname = \"t\"\ncommand = [\"sleep\", \"1000\"]\ndirectory = \"site\"\n";
    bench.write("e.toml", format!("[observe]\ncare = \"full\"\n{}", experiment(&bench, two, &run)));
    assert_eq!(bench.prony(&["run", "e.toml", "--quiet"]).status.code(), Some(0));
    let findings = bench.data().trials.remove(0).findings;
    let found: Vec<_> = findings.iter().filter(|finding| finding.guard == "source_changed").collect();
    let [found] = found.as_slice() else { panic!("{findings:?}") };
    assert!(found.message.starts_with("`file` in the program's directory `"), "{}", found.message);
}
