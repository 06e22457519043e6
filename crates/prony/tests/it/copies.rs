//! Tests that prony does not change the user's files: directories with links of all kinds, other runs, the results
//! database.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use prony_model::finding::Severity;
use prony_model::record::TrialRecord;
use prony_results::{Database, RunId};

use crate::bench::{PRONY, eventually, finding, guards, said};

/// A folder with a program's directory `site` and something of the user's beside it, `shared`.
struct Home {
    dir: tempfile::TempDir,
}

/// Waits for a file that the test makes.
const WAITS: &str =
    "[program.x]\nshell = true\ncommand = 'while ! [ -e ../../go ] && ! [ -e go ]; do sleep 0.01; done; echo done'\n";

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["site", "shared"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("a.js"), "one\n").unwrap();
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.dir.path()).env("NO_COLOR", "1").stdin(Stdio::null());
        command.env("PRONY_CACHE", "off").env("PRONY_RUNS", self.path("runs"));
        command
    }

    fn prony(&self, args: &[&str]) -> Output {
        self.command(&[&[PRONY], args].concat()).output().unwrap()
    }

    /// An experiment of one block and light care, unless its body says more.
    fn experiment(&self, name: &str, body: &str) {
        let care = if body.contains("care") { "" } else { "[observe]\ncare = \"light\"\n" };
        fs::write(self.path(name), format!("[compare]\nblocks = 1\n{care}{body}")).unwrap();
    }

    fn run(&self, body: &str) -> (Output, String) {
        self.experiment("e.toml", body);
        let output = self.prony(&["run", "e.toml"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, said)
    }

    fn trials(&self, database: &str, run: i64) -> Vec<TrialRecord> {
        Database::open(&self.path(database)).unwrap().load_run(RunId(run)).unwrap().trials
    }

    /// Begins `prony run FILE` with a database of its own, and waits until its program runs.
    fn begin(&self, file: &str, database: &str) -> Child {
        let mut command = self.command(&[PRONY, "run", file, "--database", database, "--json"]);
        let events = fs::File::create(self.path("events")).unwrap();
        let child = command.stdout(events).stderr(Stdio::null()).spawn().unwrap();
        eventually("a phase", || self.read("events").contains("phase_began"));
        child
    }
}

#[test]
fn a_link_that_leads_out_of_the_directory_refuses_the_run_with_its_name() {
    let home = Home::new();
    let change = "[program.x]\ncommand = \"cat lib/a.js\"\ndirectory = \"site\"\n\
                  change = { replace = { file = \"lib/a.js\", find = \"one\", with = \"two\" } }\n";
    for target in [PathBuf::from("../shared"), home.path("shared")] {
        symlink(&target, home.path("site/lib")).unwrap();
        let (output, said) = home.run(change);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let (link, to) = (home.path("site/lib"), home.path("shared"));
        let named = format!(
            "symbolic link `{}` leads out of the directory `{}`, to `{}`",
            link.display(),
            home.path("site").display(),
            to.display()
        );
        assert!(said.contains(&named) && said.contains("\nhint: `links = \"copy\"`"), "{said}");
        assert_eq!(home.read("shared/a.js"), "one\n");
        fs::remove_file(link).unwrap();
    }
    assert!(!home.path("prony.db").exists(), "nothing was begun");
}

#[test]
fn links_copy_copies_targets_and_changes_only_the_copy() {
    let home = Home::new();
    symlink("../shared", home.path("site/lib")).unwrap();
    symlink(home.path("site/a.js"), home.path("shared/back.js")).unwrap();
    symlink("a.js", home.path("site/near.js")).unwrap();
    let body = "[program.x]\nshell = true\ncommand = 'cat lib/a.js lib/back.js near.js; echo >> lib/a.js'\n\
                directory = \"site\"\nlinks = \"copy\"\nbuild = \"echo built >> lib/a.js\"\nprepare = \"echo ready >> lib/back.js\"\n\
                change = { replace = [{ file = \"lib/a.js\", find = \"one\", with = \"two\" }, \
                { file = \"near.js\", find = \"one\", with = \"three\" }] }\n";
    let (output, said_by_prony) = home.run(body);
    assert_eq!(output.status.code(), Some(0), "{said_by_prony}");
    let trials = home.trials("prony.db", 1);
    assert_eq!(said(&trials[0]), "two\nbuilt\nthree\nready\nthree\nready\n");
    assert_eq!([home.read("shared/a.js"), home.read("site/a.js")], ["one\n", "one\n"]);
    assert!(!guards(&trials[0]).contains(&"source_changed"), "{:?}", trials[0].findings);
}

/// Copies had the times at which they were made: artefacts that were older than their sources were up to date there.
#[test]
fn build_in_a_copy_finds_out_of_date_what_is_out_of_date_in_the_directory() {
    let home = Home::new();
    home.experiment(
        "e.toml",
        "[factors.code]\nas-is = {}\nchanged = { replace = { file = \"a.js\", find = \"two\", with = \"three\" } }\n\
         [program.x]\ncommand = \"cat made\"\ndirectory = \"site\"\nbuild = [\"make\", \"-s\", \"made\"]\nchange = \"{code}\"\n",
    );
    fs::write(home.path("site/Makefile"), "made: a.js\n\tcp a.js made\n").unwrap();
    let cache = home.path("cache");
    for (seconds, as_is) in [(2_000, "old\n"), (1_000, "two\n")] {
        for (name, text, seconds) in [("a.js", "two\n", 1_500), ("made", "old\n", seconds)] {
            fs::write(home.path("site").join(name), text).unwrap();
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            fs::File::open(home.path("site").join(name)).unwrap().set_modified(at).unwrap();
        }
        let output = home.command(&[PRONY, "run", "e.toml"]).env("PRONY_CACHE", &cache).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let run = if seconds == 2_000 { 1 } else { 2 };
        let mut trials = home.trials("prony.db", run);
        trials.sort_by_key(|trial| trial.trial.variant);
        assert_eq!([said(&trials[0]), said(&trials[1])], [as_is, "three\n"], "of the same content, at {seconds} s");
        assert!(!guards(&trials[1]).contains(&"build_reused"), "{:?}", trials[1].findings);
    }
    let output = home.command(&[PRONY, "run", "e.toml"]).env("PRONY_CACHE", &cache).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let trials = home.trials("prony.db", 3);
    assert!(trials.iter().all(|trial| guards(trial).contains(&"build_reused")), "the same again");
}

/// The record said that the change was made, and the program without it was measured.
#[test]
fn build_that_undoes_a_change_ends_the_run() {
    let home = Home::new();
    let replace = "change = { replace = { file = \"a.js\", find = \"one\", with = \"two\" } }";
    let npm = format!(
        "change = {{ dependency = \"dep@2.0.0\" }}\nenv = {{ PATH = \"{}:/usr/bin:/bin\" }}",
        home.path("bin").display()
    );
    fs::write(home.path("site/package.json"), "{}").unwrap();
    fs::create_dir(home.path("bin")).unwrap();
    fs::write(
        home.path("bin/npm"),
        "#!/bin/sh\nmkdir -p node_modules/dep\necho '{\"version\":\"2.0.0\"}' > node_modules/dep/package.json\n",
    )
    .unwrap();
    fs::set_permissions(home.path("bin/npm"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let of_text =
        "build of program `x` failed: the build undid the change of `a.js`: occurrences of `find` changed from 0 to ";
    fs::write(home.path("a.patch"), "--- a/a.js\n+++ b/a.js\n@@ -1 +1 @@\n-one\n+two\n").unwrap();
    for (change, build, said_then) in [
        (
            "change = { patch = \"a.patch\" }",
            "echo one > a.js",
            format!("{of_text}1, occurrences of `with` from 1 to 0; "),
        ),
        (replace, "echo one > a.js", format!("{of_text}1, occurrences of `with` from 1 to 0; change the source from")),
        (
            &npm,
            "sed -i s/2.0.0/1.0.0/ node_modules/dep/package.json",
            "the build undid the change of `dep`: its version was 2.0.0 and is now 1.0.0".to_owned(),
        ),
    ] {
        let (output, text) = home.run(&format!(
            "[program.x]\nshell = true\ncommand = \"true\"\ndirectory = \"site\"\nbuild = \"{build}\"\n{change}\n"
        ));
        assert_eq!(output.status.code(), Some(2), "{build}: {text}");
        assert!(text.contains(&said_then), "{build}: {text}");
    }
    // What was needed by the build alone may be removed, and the file that was changed be made into another.
    for (change, build) in [(replace, "mv a.js b.js"), (&npm, "rm -r node_modules")] {
        let (output, text) = home.run(&format!(
            "[program.x]\nshell = true\ncommand = \"true\"\ndirectory = \"site\"\nbuild = \"{build}\"\n{change}\n"
        ));
        assert_eq!(output.status.code(), Some(0), "{build}: {text}");
    }
    let (output, text) = home.run(&format!(
        "[program.x]\nshell = true\ncommand = \"cat a.js\"\ndirectory = \"site\"\nbuild = \"echo more >> a.js\"\n{replace}\n"
    ));
    assert_eq!(output.status.code(), Some(0), "{text}");
    let rewrites = |build: &str| {
        let (output, text) = home.run(&format!(
            "[program.x]\nshell = true\ncommand = \"true\"\ndirectory = \"site\"\nbuild = \"{build}\"\n{replace}\n"
        ));
        assert_eq!(output.status.code(), Some(0), "{text}");
        let runs = Database::open(&home.path("prony.db")).unwrap().runs().unwrap();
        let trials = home.trials("prony.db", runs.iter().map(|run| run.id.0).max().unwrap());
        guards(&trials[0]).contains(&"build_rewrote_change")
    };
    // A third text was neither found nor said.
    assert_eq!(["echo more >> a.js", "echo three > a.js"].map(rewrites), [false, true]);
}

/// All variants write there, so that each trial measures what was built last; from the cache, what another run built.
#[test]
fn build_that_writes_outside_of_its_copy_is_a_finding_and_is_done_again_in_each_run() {
    let home = Home::new();
    let out = home.path("shared/out").display().to_string();
    home.experiment(
        "e.toml",
        &format!(
            "[factors.code]\nas-is = {{}}\nchanged = {{ replace = {{ file = \"a.js\", find = \"one\", with = \"two\" }} }}\n\
             [program.x]\nshell = true\ncommand = \"true\"\ndirectory = \"site\"\nbuild = \"cat a.js >> {out}\"\nchange = \"{{code}}\"\n"
        ),
    );
    for run in [1, 2] {
        let output = home.command(&[PRONY, "run", "e.toml"]).env("PRONY_CACHE", home.path("cache")).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(home.read("shared/out").lines().count(), 2 * run, "run {run}");
    }
    for trial in home.trials("prony.db", 2) {
        let found = trial.findings.iter().find(|finding| finding.guard == "build_changed_nothing").unwrap();
        let severity = if trial.trial.variant == 0 { Severity::Note } else { Severity::Warning };
        assert_eq!(found.severity, severity, "variant {}", trial.trial.variant);
    }
}

#[test]
fn revision_without_a_submodule_of_the_users_tree_is_a_finding_unless_build_fills_it() {
    let home = Home::new();
    let git = |at: &str, args: &[&str]| {
        let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
        let at = home.path(at);
        let words =
            [&["git", "-C", at.to_str().unwrap()], &who[..], &["-c", "protocol.file.allow=always"], args].concat();
        let output = home.command(&words).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !git(".", &["--version"]) {
        assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
        return;
    }
    for repository in ["shared", "site"] {
        assert!(git(repository, &["init", "--quiet"]) && git(repository, &["add", "."]));
        assert!(git(repository, &["commit", "--quiet", "-m", "first"]));
    }
    assert!(git("site", &["submodule", "--quiet", "add", home.path("shared").to_str().unwrap(), "lib"]));
    assert!(git("site", &["commit", "--quiet", "-m", "second"]));
    for (build, missed) in [("true", true), ("echo filled > lib/a.js", false)] {
        let (output, text) = home.run(&format!(
            "[program.x]\nshell = true\ncommand = \"true\"\ndirectory = \"site\"\nbuild = \"{build}\"\n\
             change = {{ revision = \"HEAD\" }}\n"
        ));
        assert_eq!(output.status.code(), Some(0), "{text}");
        let trials = home.trials("prony.db", if missed { 1 } else { 2 });
        assert_eq!(guards(&trials[0]).contains(&"submodules_empty"), missed, "{build}: {:?}", trials[0].findings);
        let changes = &trials[0].program().unwrap().changes;
        assert_eq!(changes.iter().any(|text| text == "submodule `lib` is empty"), missed, "{changes:?}");
    }
    // Two revisions that differ in the submodule's commit only had one build.
    fs::write(home.path("site/lib/a.js"), "two\n").unwrap();
    assert!(git("site/lib", &["commit", "--quiet", "--all", "-m", "next"]));
    assert!(git("site/lib", &["push", "--quiet", "origin", "HEAD:refs/heads/next"]));
    assert!(git("site", &["commit", "--quiet", "--all", "-m", "third"]));
    home.experiment(
        "e.toml",
        "[factors.code]\nbase = { revision = \"HEAD~1\" }\nhead = { revision = \"HEAD\" }\n\
         [program.x]\ncommand = \"cat lib/a.js\"\ndirectory = \"site\"\nchange = \"{code}\"\n\
         build = \"git -c protocol.file.allow=always submodule --quiet update --init\"\n",
    );
    let output = home.command(&[PRONY, "run", "e.toml"]).env("PRONY_CACHE", home.path("cache")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut trials = home.trials("prony.db", 3);
    trials.sort_by_key(|trial| trial.trial.variant);
    assert_eq!(trials.iter().map(said).collect::<Vec<_>>(), ["one\n", "two\n"]);
}

/// What was made of links that steps themselves made was not examined: the next step wrote through them into what is the
/// user's, and the cache of builds carried them to later runs.
#[test]
fn links_that_steps_make_refuse_the_run_or_are_copied_before_the_next_step_writes() {
    let home = Home::new();
    let shared = home.path("shared").display().to_string();
    let link = format!(
        "diff --git a/lib b/lib\nnew file mode 120000\n--- /dev/null\n+++ b/lib\n@@ -0,0 +1 @@\n+{shared}\n\\ No newline at end of file\n"
    );
    let text = "--- a/a.js\n+++ b/a.js\n@@ -1 +1 @@\n-one\n+two\n";
    fs::write(home.path("both.patch"), format!("{text}{link}")).unwrap();
    let writes = "echo built >> lib/a.js";
    let steps = [
        (format!("change = {{ patch = \"both.patch\" }}\nbuild = \"{writes}\"\n"), "the patch `", "one\nbuilt\n"),
        (format!("change = {{ patch = \"both.patch\" }}\nprepare = \"{writes}\"\n"), "the patch `", "one\nbuilt\n"),
        (format!("build = \"ln -s {shared} lib\"\nprepare = \"{writes}\"\n"), "`build`", "one\nbuilt\n"),
        (format!("build = \"ln -s {shared} lib\"\n"), "`build`", "one\n"),
        (format!("prepare = \"ln -s {shared} lib\"\n"), "`prepare`", "one\n"),
        (format!("prepare = \"ln -s {shared} lib\"\ncopy = \"trial\"\n"), "`prepare`", "one\n"),
    ];
    for (body, step, copied) in steps {
        let body = format!(
            "[program.x]\nshell = true\ncommand = 'cat lib/a.js; echo >> lib/a.js'\ndirectory = \"site\"\n{body}"
        );
        let (output, text) = home.run(&body);
        assert_eq!(output.status.code(), Some(2), "{body}{text}");
        let named = format!("`lib` leads out of the copy into which {step}");
        assert!(text.contains(&named) && text.contains(&format!("of program `x` wrote, to `{shared}`\n")), "{text}");
        assert!(text.contains("\nhint: `links = \"copy\"`") && !text.contains("keep"), "{text}");
        assert_eq!(home.read("shared/a.js"), "one\n", "{body}");
        let (output, text) = home.run(&format!("{body}links = \"copy\"\n"));
        assert_eq!(output.status.code(), Some(0), "{body}{text}");
        let (run, text) = (Database::open(&home.path("prony.db")).unwrap().runs().unwrap(), &text);
        let trials = home.trials("prony.db", run.iter().map(|run| run.id.0).max().unwrap());
        assert_eq!((said(&trials[0]), home.read("shared/a.js").as_str()), (copied, "one\n"), "{body}{text}");
    }
}

/// Trials of a variant share its copy, and `prepare` wrote through a link that the program had made there before.
#[test]
fn links_that_a_trial_leaves_refuse_the_run_before_the_next_prepare_writes() {
    let home = Home::new();
    let shared = home.path("shared").display().to_string();
    let body = format!(
        "[compare]\nblocks = 2\n[observe]\ncare = \"light\"\n[program.x]\nshell = true\ndirectory = \"site\"\n\
         command = 'ln -sfn {shared} lib'\nprepare = '[ ! -e lib ] || echo written >> lib/a.js'\n"
    );
    fs::write(home.path("e.toml"), body).unwrap();
    let output = home.prony(&["run", "e.toml"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("`lib` leads out of the copy into which an earlier trial of program `x` wrote"), "{text}");
    assert_eq!(home.read("shared/a.js"), "one\n");
}

#[test]
fn links_in_a_build_that_was_made_before_refuse_the_run_too() {
    let home = Home::new();
    let build = format!("build = \"ln -s {} lib\"\n", home.path("shared").display());
    let body = format!("[program.x]\ncommand = \"true\"\ndirectory = \"site\"\nprepare = \"touch lib/new\"\n{build}");
    let cached = |links: &str| {
        home.experiment("e.toml", &format!("{body}{links}"));
        home.command(&[PRONY, "run", "e.toml"]).env("PRONY_CACHE", home.path("cache")).output().unwrap()
    };
    for _ in 0..2 {
        assert_eq!(cached("links = \"copy\"\n").status.code(), Some(0));
    }
    let entry = fs::read_dir(home.path("cache/builds")).unwrap().next().unwrap().unwrap().path();
    assert!(entry.join("lib").symlink_metadata().unwrap().is_dir(), "what is kept has no such link");
    fs::remove_dir_all(entry.join("lib")).unwrap();
    symlink(home.path("shared"), entry.join("lib")).unwrap();
    let output = cached("");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("`lib` leads out of the copy into which `build` (reused from the build cache) of"), "{text}");
    assert!(!home.path("shared/new").exists());
}

/// It was named by its path in a clone that no longer existed.
#[test]
fn a_link_that_leads_out_of_a_revision_is_named_in_the_repository() {
    let home = Home::new();
    if home.command(&["git", "--version"]).output().is_err() {
        assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
        return;
    }
    let git = |words: &[&str]| {
        let who = ["git", "-C", "site", "-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
        assert!(home.command(&[&who, words].concat()).status().unwrap().success(), "{words:?}");
    };
    symlink("../shared", home.path("site/lib")).unwrap();
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "one"]);
    git(&["tag", "one"]);
    let (output, said) =
        home.run("[program.x]\ncommand = \"cat a.js\"\ndirectory = \"site\"\nchange = { revision = \"one\" }\n");
    assert_eq!(output.status.code(), Some(2), "{said}");
    let site = fs::canonicalize(home.path("site")).unwrap();
    let named = format!("`{0}/lib` leads out of revision `one` of `{0}`, to `../shared`\n", site.display());
    assert!(said.contains(&named), "{said}");
}

#[test]
fn a_trial_says_that_the_programs_directory_changed_since_the_run_began() {
    let home = Home::new();
    let body = format!(
        "[observe]\ncare = \"full\"\n[program.x]\nshell = true\ncommand = 'echo x >> {0}/a.js; : > {0}/new'\ndirectory = \"site\"\n",
        home.path("site").display()
    );
    let (output, text) = home.run(&body);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let trials = home.trials("prony.db", 1);
    let found = trials[0].findings.iter().find(|finding| finding.guard == "source_changed").unwrap();
    assert!(found.message.starts_with("`a.js` and 1 more in the program's directory `"), "{}", found.message);
    assert!(text.contains("warning: `source_changed`"), "{text}");
}

#[test]
fn copies_exclude_files_of_prony() {
    let home = Home::new();
    fs::write(home.path("prony.dbx"), "mine").unwrap();
    let body = "[program.x]\nshell = true\ncommand = 'ls -A | sort; ls -A site'\ndirectory = \".\"\n";
    let (output, text) = home.run(body);
    assert_eq!(output.status.code(), Some(0), "{text}");
    // Not `prony.db`, `prony.db-wal`, `prony.db-shm`, `prony.db-run-1` and scratch directories.
    assert_eq!(said(&home.trials("prony.db", 1)[0]), "e.toml\nprony.dbx\nruns\nshared\nsite\na.js\n");
    let left: Vec<_> = fs::read_dir(home.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("-run-")), "{left:?}");
}

#[test]
fn rm_and_resume_of_a_live_run_are_refused_and_a_killed_one_resumes() {
    let home = Home::new();
    home.experiment("e.toml", WAITS);
    let mut child = home.begin("e.toml", "prony.db");
    for words in [&["rm", "1", "--yes"][..], &["run", "--resume", "1"], &["run", "--resume"]] {
        let output = home.prony(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("run 1 in `prony.db` is running in another process\nhint: "), "{words:?}: {said}");
    }
    // No descriptor of a subject or supervisor holds the lock.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(home.path("prony.db-run-1").exists(), "nobody removed it");
    fs::write(home.path("go"), "").unwrap();
    let output = home.prony(&["run", "--resume", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!home.path("prony.db-run-1").exists());
    assert_eq!(home.trials("prony.db", 1).len(), 1);
    assert_eq!(home.prony(&["rm", "1", "--yes"]).status.code(), Some(0));
}

#[test]
fn two_runs_at_once_are_a_finding_in_both() {
    let home = Home::new();
    home.experiment("first.toml", WAITS);
    let mut first = home.begin("first.toml", "first.db");
    let (output, text) = home.run("[program.x]\ncommand = \"true\"\n");
    assert_eq!(output.status.code(), Some(0), "{text}");
    fs::write(home.path("go"), "").unwrap();
    assert!(first.wait().unwrap().success());
    for (database, what) in [("prony.db", "another run of prony was in progress"), ("first.db", "another run of prony")]
    {
        let trials = home.trials(database, 1);
        let found = finding(&trials[0], "other_run");
        assert!(found.is_some_and(|message| message.starts_with(what)), "{database}: {:?}", trials[0].findings);
    }
    let (_, text) = home.run("[program.x]\ncommand = \"true\"\n");
    assert_eq!(finding(&home.trials("prony.db", 2)[0], "other_run"), None, "{text}");
}

/// Whether a prony can be started as the first process of a PID namespace, and limit memory.
fn can_share_groups(home: &Home) -> bool {
    let inside = home.command(&["unshare", "--pid", "--fork", "--mount-proc", "true"]).output();
    let limits = prony_os::limits::capability();
    let problem = match (inside, limits.memory) {
        (Ok(output), prony_os::limits::State::Yes) if output.status.success() => return true,
        (Ok(output), limits) => format!("{} {limits:?}", String::from_utf8_lossy(&output.stderr)),
        (Err(error), _) => format!("`unshare`: {error}"),
    };
    assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "{problem}");
    println!("SKIPPED: two PID namespaces: {problem}");
    false
}

#[test]
fn run_in_another_pid_namespace_spares_groups_and_scratch_of_a_live_run() {
    let home = Home::new();
    if !can_share_groups(&home) {
        return;
    }
    let limited = format!("[limits]\nmemory = \"256 MiB\"\n{WAITS}");
    home.experiment("first.toml", &limited);
    let mut first = home.begin("first.toml", "first.db");
    home.experiment("second.toml", "[limits]\nmemory = \"256 MiB\"\n[program.x]\ncommand = \"true\"\n");
    let inside = [
        &["unshare", "--pid", "--fork", "--mount-proc", PRONY, "run", "second.toml"][..],
        &["--database", "second.db"],
    ];
    let second = home.command(&inside.concat()).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(0), "{said}");
    fs::write(home.path("go"), "").unwrap();
    assert!(first.wait().unwrap().success(), "{said}");
    for database in ["first.db", "second.db"] {
        let trials = home.trials(database, 1);
        assert!(trials[0].ending.outcome.is_ok(), "{database}: {:?}", trials[0].ending);
        assert!(finding(&trials[0], "other_run").is_some(), "{database}: {:?}", trials[0].findings);
    }
}
