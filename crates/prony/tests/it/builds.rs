//! Tests variants of a program's code: copies of its directory, changes, builds and revisions.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use prony_model::outcome::Outcome;
use prony_model::record::Completion;
use prony_results::{RunData, RunStatus};

use crate::bench::{Bench, said};

#[test]
fn a_directory_is_copied_and_never_touched() {
    let bench = Bench::new();
    bench.write("site/n", "0");
    let count = "command = \"echo $(($(cat n) + 1)) > n; cat n\"\nshell = true\ndirectory = \"site\"\n";
    let numbers = |data: &RunData| data.trials.iter().map(|trial| said(trial).to_owned()).collect::<Vec<_>>();
    let three = "[compare]\nblocks = 3\n";
    let shared = bench.run(&format!("{three}[program.x]\n{count}"));
    assert_eq!(numbers(&shared), ["1\n", "2\n", "3\n"]);
    let fresh = bench.run(&format!("{three}[program.x]\n{count}copy = \"trial\"\nwarmup = 2\n"));
    assert_eq!(numbers(&fresh), ["1\n"; 3]);
    assert_eq!(fs::read_to_string(bench.path("site/n")).unwrap(), "0");
    let warmed = bench.run(&format!("{three}[program.x]\n{count}warmup = 2\n"));
    assert_eq!(numbers(&warmed), ["3\n", "4\n", "5\n"], "warm-ups ran and are in no record");
    let left: Vec<_> = fs::read_dir(bench.dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".prony-")), "{left:?}");
}

#[test]
fn variants_of_code_are_levels_and_each_step_runs_when_it_should() {
    let bench = Bench::new();
    bench.write("site/a.sh", "cat built; echo slow");
    let log = bench.path("log");
    let body = format!(
        "[compare]\nblocks = 2\nbaseline = {{ code = \"as-is\" }}\ntwice = false\n[factors.code]\nas-is = {{}}\n\
         fast = {{ replace = {{ file = \"a.sh\", find = \"slow\", with = \"fast\" }} }}\n[program.x]\n\
         command = \"sh a.sh\"\ndirectory = \"site\"\nchange = \"{{code}}\"\n\
         build = \"echo built > built; echo build >> {log}\"\nprepare = \"echo prepare >> {log}\"\n\
         cleanup = [\"sh\", \"-c\", \"echo cleanup >> {log}\"]\n",
        log = log.display()
    );
    let data = bench.run(&body);
    for trial in &data.trials {
        let expected = if trial.trial.variant == 0 { "built\nslow\n" } else { "built\nfast\n" };
        assert_eq!(said(trial), expected);
    }
    let log = fs::read_to_string(log).unwrap();
    let times = |what: &str| log.lines().filter(|line| *line == what).count();
    assert_eq!((times("build"), times("prepare"), times("cleanup")), (2, 4, 2));
    let changed = data.trials.iter().find(|trial| trial.trial.variant == 1).unwrap();
    assert!(changed.program().unwrap().changes[0].starts_with("`a.sh`: replaced 1 time, hash is now "));
}

#[test]
fn a_change_that_does_not_apply_ends_the_run() {
    let bench = Bench::new();
    bench.write("site/a", "text\n");
    bench.write("a.patch", "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-text\n+other\n");
    // Before the run it is not known what the patch leaves of the file.
    let body = "[observe]\ncare = \"light\"\n[program.x]\ncommand = \"true\"\ndirectory = \"site\"\n\
                change = [{ patch = \"a.patch\" }, { replace = { file = \"a\", find = \"text\", with = \"\" } }]\n";
    bench.write("e.toml", body);
    let output = bench.prony(&["run", "e.toml"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("change of program `x` failed: `a` contains the text of `find` 0 times, not 1"), "{text}");
}

#[test]
fn missing_build_output_fails_only_its_variant() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let body = "[factors.which]\ngood = { command = [\"true\"] }\nbad = { command = [\"./made\"] }\n\
                [program.x]\ncommand = \"{which.command}\"\ndirectory = \"site\"\nbuild = [\"true\"]\n";
    let data = bench.run(body);
    let outcomes: Vec<Outcome> = data.trials.iter().map(|trial| trial.ending.outcome).collect();
    assert!(outcomes.contains(&Outcome::Ok) && outcomes.contains(&Outcome::Failed { code: None }), "{outcomes:?}");
    assert_eq!(data.head.status, RunStatus::Done);
    let failed = data.trials.iter().find(|trial| !trial.ending.outcome.is_ok()).unwrap();
    assert!(failed.ending.evidence[0].starts_with("cannot execute `./made`: No such file"), "{:?}", failed.ending);
    assert!(failed.phases.iter().all(|phase| phase.completion == Completion::NotReached));
}

/// The hint was to run the command by itself, which said nothing of the file that `make` had made.
#[test]
fn built_program_without_a_slash_is_said_to_be_in_its_directory() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let body = "[program.x]\ncommand = [\"made\"]\ndirectory = \"site\"\nbuild = [\"touch\", \"made\"]\n";
    let data = bench.run(body);
    let failed = &data.trials[0];
    assert_eq!(failed.ending.outcome, Outcome::Failed { code: None });
    let expected = "cannot execute `made`: No such file or directory (os error 2); it is looked up in PATH: write `./made` for the file in \
                    its directory";
    assert_eq!(failed.ending.evidence, [expected]);
    let shown = bench.prony(&["show"]);
    let shown = String::from_utf8_lossy(&shown.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("remove the cause that is named below") && shown.contains("`./made`"), "{shown}");
    assert!(!shown.contains("by itself") && !shown.contains("at 0 us"), "{shown}");
}

#[test]
fn build_runs_once_per_content_and_is_cached_for_the_next_run() {
    let bench = Bench::new();
    bench.write("site/source", "one");
    let log = bench.path("log");
    let body = format!(
        "[factors]\nn = [1, 2]\n[factors.code]\nas-is = {{}}\nother = {{ replace = {{ file = \"source\", find = \"one\", with = \"two\" }} }}\n\
         [program.x]\ncommand = [\"cat\", \"{{dir}}/made{{n}}\"]\ndirectory = \"site\"\nchange = \"{{code}}\"\n\
         build = \"echo built >> {}; cp source made1; cp source made2\"\n",
        log.display()
    );
    let builds = || fs::read_to_string(&log).unwrap().lines().count();
    let data = bench.run(&body);
    let mut said: Vec<&str> = data.trials.iter().map(said).collect();
    said.sort_unstable();
    assert_eq!((said, builds()), (vec!["one", "one", "two", "two"], 2), "two contents in four variants");
    bench.run(&body);
    assert_eq!(builds(), 2, "kept");
    bench.write("site/source", "one more");
    bench.run(&body);
    assert_eq!(builds(), 4);
}

/// The compiler may be another one since then, and no key of a build has one that a script calls.
#[test]
fn build_from_before_the_run_beside_a_new_one_is_a_warning_of_the_comparison() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    bench.write("site/source", "one");
    let levels = |changed: &str| {
        let body = format!(
            "[factors.code]\nas-is = {{}}\nchanged = {{ replace = {{ file = \"source\", find = \"one\", with = \"{changed}\" }} }}\n\
             [compare]\nbaseline = {{ code = \"as-is\" }}\nblocks = 1\n[observe]\ncare = \"light\"\n[program.x]\n\
             command = [\"cat\", \"made\"]\ndirectory = \"site\"\nbuild = [\"cp\", \"source\", \"made\"]\nchange = \"{{code}}\"\n"
        );
        bench.write("cached.toml", body);
        let output = bench.command(&["run", "cached.toml"]).env("PRONY_CACHE", bench.path("cache")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let data = bench.data();
        let found = prony_analysis::guard::findings::of_run(&data.experiment, &data.trials, None, true);
        found.into_iter().find(|finding| finding.guard == "build_reused_in_one").map(|finding| finding.message)
    };
    assert_eq!(levels("two"), None, "both are new");
    assert_eq!(levels("two"), None, "both are old");
    let message = levels("three").unwrap();
    assert!(message.starts_with("`as-is` ran a cached build from before the run, and `changed` one"), "{message}");
}

/// Both variants ran the script that was built last, and in the next run, from the cache, nothing was installed again.
#[test]
fn build_that_installs_what_the_command_names_is_a_finding_in_every_run() {
    let bench = Bench::new();
    bench.write("site/prog", "echo one");
    fs::create_dir(bench.path("out")).unwrap();
    let out = bench.path("out/prog").display().to_string();
    let body = format!(
        "[factors.code]\nas-is = {{}}\nchanged = {{ replace = {{ file = \"prog\", find = \"one\", with = \"two\" }} }}\n\
         [compare]\nbaseline = {{ code = \"as-is\" }}\nblocks = 1\n[program.x]\ncommand = [\"sh\", \"{out}\"]\ndirectory = \"site\"\n\
         build = \"cp prog {out} && echo built > built\"\nchange = \"{{code}}\"\n"
    );
    for run in [1, 2] {
        let data = bench.run(&body);
        let found = data.trials.iter().flat_map(|trial| &trial.findings);
        assert!(found.into_iter().any(|finding| finding.guard == "build_wrote_outside"), "run {run}");
        let reused = data.trials.iter().flat_map(|trial| &trial.findings).any(|found| found.guard == "build_reused");
        assert!(!reused, "run {run}");
    }
}

/// The second copy of a baseline was the first one's build: both used the state of the first, which aged twice as fast as that of the
/// variant, and identical code took 36 % less time. From the cache of an earlier run, such paths led nowhere.
#[test]
fn build_that_names_its_own_path_is_made_anew_in_each_copy() {
    let bench = Bench::new();
    bench.write("site/a", "one");
    let body = "[factors.code]\nas-is = {}\nchanged = { replace = { file = \"a\", find = \"one\", with = \"two\" } }\n\
                [compare]\nbaseline = { code = \"as-is\" }\nblocks = 2\n[program.x]\nshell = true\ncommand = 'test \"$(cat p)\" = \"$PWD\"'\n\
                directory = \"site\"\nbuild = \"echo $PWD > p\"\nchange = \"{code}\"\n";
    for run in [1, 2] {
        let data = bench.run(body);
        assert_eq!(data.trials.len(), 6);
        assert!(data.trials.iter().all(|trial| trial.ending.outcome == Outcome::Ok), "run {run}");
    }
}

/// Begins a repository, and returns what runs `git` there; `None`, said aloud, where there is no `git`.
fn repository(path: PathBuf) -> Option<impl Fn(&[&str])> {
    let git = move |args: &[&str]| {
        let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
        Command::new("git").args(who).args(args).current_dir(&path).output()
    };
    if git(&["init", "--quiet"]).is_err() {
        assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
        println!("SKIPPED: `git` is not there");
        return None;
    }
    Some(move |args: &[&str]| assert!(git(args).unwrap().status.success()))
}

#[test]
fn revisions_of_a_repository_are_levels() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let Some(git) = repository(bench.path("site")) else { return };
    for version in ["one", "two"] {
        bench.write("site/n", version);
        for args in [&["add", "."][..], &["commit", "--quiet", "-m", version], &["tag", version]] {
            git(args);
        }
    }
    let body = "[factors.code]\none = { revision = \"one\" }\ntwo = { revision = \"two\" }\n\
                [program.x]\ncommand = [\"cat\", \"n\"]\ndirectory = \"site\"\nchange = \"{code}\"\n";
    bench.write("site/n", "three");
    let data = bench.run(body);
    for trial in &data.trials {
        let version = ["one", "two"][trial.trial.variant];
        assert_eq!(said(trial), version);
        let change = &trial.program().unwrap().changes[0];
        assert!(change.starts_with(&format!("revision `{version}` is commit ")), "{change}");
    }
    // The tag `two` is the commit that is checked out, and the edited file is not in it.
    let is_warned = |data: &RunData, guard: &str, variant: usize| {
        let mut own = data.trials.iter().filter(|trial| trial.trial.variant == variant);
        own.any(|trial| trial.findings.iter().any(|finding| finding.guard == guard))
    };
    assert_eq!([0, 1].map(|variant| is_warned(&data, "uncommitted_left_out", variant)), [false, true]);
    let shown =
        String::from_utf8_lossy(&bench.prony(&["show"]).stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        shown.contains("checked out: the uncommitted changes of 1 file in the repository are not measured"),
        "{shown}"
    );
    // The record alone had them.
    let commit = |variant: usize| {
        let trial = data.trials.iter().find(|trial| trial.trial.variant == variant).unwrap();
        format!("{} (not part of it: uncommitted changes of 1 tracked file)", trial.program().unwrap().changes[0])
    };
    let line = format!("Revisions: `one`: {}; `two`: {}.", commit(0), commit(1));
    let words = |text: &[u8]| String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let of_show = |all: &[&str]| words(&bench.prony(&[&["show"], all].concat()).stdout);
    assert!(of_show(&["--all"]).contains(&line), "{line}: {}", of_show(&["--all"]));
    assert!(!of_show(&[]).contains("Revisions: "));
    let written = bench.prony(&["report", "--output", "page.md"]);
    assert!(written.status.success() && written.stdout.is_empty());
    assert_eq!(String::from_utf8_lossy(&written.stderr), "wrote `page.md`\n");
    let page = words(&fs::read(bench.path("page.md")).unwrap());
    assert!(page.contains("Revisions: ") && page.contains("not part of it: uncommitted changes of 1 tracked file"));
    bench.write("site/untracked", "x");
    let beside = bench.run(&body.replace("two = { revision = \"two\" }", "two = {}"));
    assert_eq!([0, 1].map(|variant| is_warned(&beside, "working_tree_copied", variant)), [false, true]);
    let messages = beside.trials.iter().flat_map(|trial| &trial.findings).map(|finding| finding.message.as_str());
    let message = "the variant is the directory as it is and no revision, with files as no commit has them: 1 tracked file, 1 untracked file";
    assert!(messages.into_iter().any(|found| found == message));
    let output = {
        bench.write("bad.toml", body.replace("\"two\" }", "\"nine\" }"));
        bench.prony(&["run", "bad.toml", "--quiet"])
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("has no revision `nine`"), "{text}");
}

/// A link of the program's directory to what lies beside it in the repository leads out of neither the variant's copy nor
/// the trial's.
#[test]
fn revision_of_a_subdirectory_may_link_to_the_rest_of_its_repository() {
    let bench = Bench::new();
    for name in ["site", "shared"] {
        fs::create_dir_all(bench.path("repository").join(name)).unwrap();
    }
    let Some(git) = repository(bench.path("repository")) else { return };
    bench.write("repository/shared/lib", "shared");
    bench.write("repository/site/own", "one");
    std::os::unix::fs::symlink("../shared", bench.path("repository/site/shared")).unwrap();
    for args in [&["add", "."][..], &["commit", "--quiet", "-m", "first"]] {
        git(args);
    }
    for copy in ["variant", "trial"] {
        let body = format!(
            "[program.x]\ncommand = [\"cat\", \"own\", \"shared/lib\"]\ndirectory = \"repository/site\"\ncopy = \"{copy}\"\n\
             change = {{ revision = \"HEAD\", replace = {{ file = \"own\", find = \"one\", with = \"two \" }} }}\n"
        );
        assert_eq!(said(&bench.trial(&body)), "two shared", "copy = {copy}");
        // What lies beside the directory is in the copy as it was committed: a change there was not counted.
        bench.write("repository/shared/lib", "edited");
        let trial = bench.trial(&body);
        assert_eq!(said(&trial), "two shared");
        assert!(trial.findings.iter().any(|finding| finding.guard == "uncommitted_left_out"), "{:?}", trial.findings);
        bench.write("repository/shared/lib", "shared");
    }
}
