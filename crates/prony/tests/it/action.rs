//! Tests the GitHub Action: the comment, the exit code and the scripts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::action_runner::{Api, Project, action, root, steps};
use crate::bench::{Bench, version};

/// The tools of the scripts.
fn has_tools() -> bool {
    ["git", "jq", "curl"].into_iter().all(|tool| version(tool).is_some())
}

const GATE: [(&str, &str); 2] = [("experiment", "bench/prony.toml"), ("fail-if", "run.time slower 5%")];

#[test]
fn slower_head_fails_after_its_comment() {
    if !has_tools() {
        return;
    }
    let (project, api) = (Project::new("echo time 125.0\n", "touch built\n"), Api::new(0, true));
    let acted = project.act(&api, &GATE);
    assert_eq!(acted.code, 1, "{}", acted.log);
    let comments = api.comments();
    assert_eq!(comments.len(), 1, "{:?}", api.requests());
    let lines: Vec<&str> = comments[0].lines().collect();
    assert_eq!(lines[0], "<!-- prony: CI --- x / bench / bench/prony.toml -->");
    assert_eq!(lines[1], "## Base and head");
    assert_eq!(
        lines[5],
        "| code=head | code=base | run.time | **slower** | 1.25 (1.25 to 1.25) | 125.00 us | 100.00 us |"
    );
    let gate = "**gate `run.time slower 5 %`: fails**";
    assert!(lines.contains(&gate) && lines.contains(&"**exit code 1: a gate fails**"), "{}", comments[0]);
    assert!(comments[0].contains("[The job that measured this](https://github.com/o/r/actions/runs/7)"));
    assert!(acted.summary.contains(gate) && acted.log.contains("wrote a comment: http://x/new"), "{}", acted.log);
    let base = project.git("server", &["rev-parse", "main^1"]);
    assert!(comments[0].contains(&format!("base: `{base}`")), "the head was compared with another commit");
}

#[test]
fn equal_head_passes_and_a_second_run_updates_the_comment() {
    if !has_tools() {
        return;
    }
    // The comment is on the second page.
    let (project, api) = (Project::new("echo time 100.01\n", "touch built\n"), Api::new(130, true));
    let acted = project.act(&api, &GATE);
    assert_eq!(acted.code, 0, "{}", acted.log);
    assert!(api.comments()[0].contains("**no difference**"), "{}", api.comments()[0]);
    api.comments.lock().unwrap()[130]["body"] = json!(api.comments()[0].replace("no difference", "old"));
    let acted = project.act(&api, &GATE);
    assert!(acted.code == 0 && acted.log.contains("updated the comment: http://x/new"), "{}", acted.log);
    assert!(api.comments().len() == 1 && api.comments()[0].contains("**no difference**"));
    let made: Vec<String> = api.requests().into_iter().map(|(line, _)| line).collect();
    let page = |n| format!("GET /repos/o/r/issues/5/comments?per_page=100&page={n}");
    let post = "POST /repos/o/r/issues/5/comments".to_owned();
    let patch = "PATCH /repos/o/r/issues/comments/130".to_owned();
    assert_eq!(made, [page(1), page(2), post, page(1), page(2), patch]);
    // Another key is another comment.
    project.act(&api, &[GATE[0], GATE[1], ("comment-key", "$(touch pwned) --> other")]);
    assert_eq!(api.comments().len(), 2);
    assert!(api.comments()[1].starts_with("<!-- prony: --touch pwned- --- other -->\n"), "{}", api.comments()[1]);
}

/// A program of which every third trial takes a fifth longer.
const NOISY: &str = "n=$(cat \"$COUNTER\" 2>/dev/null || echo 0)\necho $((n + 1)) >\"$COUNTER\"\n\
                     set -- 99.8 100.3 120.0 99.7 100.4 121.0\nshift $((n % 6))\necho time $1\n";

#[test]
fn undecided_head_shows_how_many_minutes_would_decide() {
    if !has_tools() {
        return;
    }
    let (project, api) = (Project::new(NOISY, "touch built\n"), Api::new(0, true));
    let acted = project.act(&api, &GATE);
    assert_eq!(acted.code, 0, "{}", acted.log);
    let comment = &api.comments()[0];
    let row = comment.lines().find(|line| line.starts_with("| code=head")).unwrap();
    assert!(row.contains("**can't tell: a new run of about ") && row.contains(" more than this run) could**"), "{row}");
    assert!(comment.contains("\n**gate `run.time slower 5 %`: can't tell**\n"), "{comment}");
    let hint = comment.lines().find(|line| line.starts_with("- hint: ")).unwrap();
    assert!(hint.starts_with("- hint: let the gate allow more: "), "no blocks show 5 % in this noise: {hint}");
    let acted = project.act(&api, &[GATE[0], GATE[1], ("fail-unsure", "true")]);
    assert_eq!(acted.code, 1, "{}", acted.log);
}

#[test]
fn head_that_cannot_be_built_is_named() {
    if !has_tools() {
        return;
    }
    let (project, api) =
        (Project::new("echo time 100.0\n", "echo 'no <b>compiler</b>' >&2\nexit 3\n"), Api::new(0, true));
    let acted = project.act(&api, &GATE);
    assert_eq!(acted.code, 2, "{}", acted.log);
    let comment = &api.comments()[0];
    let head = project.git("clone", &["rev-parse", "HEAD"]);
    let message =
        format!("    error: build of program `work` failed: revision `{head}`, exit code 3: no <b>compiler</b>");
    assert!(comment.contains("\n## The pull request could not be measured\n"), "{comment}");
    assert!(comment.lines().any(|line| line == message), "{comment}");
    assert!(acted.summary.contains(&message) && comment.contains(&format!("head: `{head}`")), "{}", acted.summary);
}

#[test]
fn token_that_may_not_comment_fails_nothing() {
    if !has_tools() {
        return;
    }
    let (project, api) = (Project::new("echo time 100.0\n", "touch built\n"), Api::new(0, false));
    let acted = project.act(&api, &GATE);
    assert_eq!(acted.code, 0, "{}", acted.log);
    assert!(acted.log.contains("as in a pull request from a fork"), "{}", acted.log);
    assert!(acted.summary.contains("**no difference**"), "{}", acted.summary);
    // Where nothing is to be commented, nothing is asked.
    let quiet = Api::new(0, true);
    assert_eq!(project.act(&quiet, &[GATE[0], ("comment", "false")]).code, 0);
    let base = project.git("server", &["rev-parse", "main^1"]);
    let acted = project.act_on(&quiet, &[GATE[0], ("base", &base)], &json!({}));
    assert!(acted.code == 0 && acted.log.contains("There is no pull request to comment on"), "{}", acted.log);
    // Nor after a push, which is compared with the commit before it.
    let acted = project.act_on(&quiet, &[GATE[0]], &json!({"before": base}));
    assert!(acted.code == 0 && acted.log.contains(&format!("base {base}\n")), "{}", acted.log);
    let acted = project.act_on(&quiet, &[GATE[0]], &json!({"before": "0".repeat(40)}));
    assert!(acted.code == 2 && acted.log.contains("the push made a new branch"), "{}", acted.log);
    let acted = project.act_on(&quiet, &[GATE[0]], &json!({"before": "1".repeat(40)}));
    assert!(acted.code == 2 && acted.log.contains("Give `fetch-depth: 0` to `actions/checkout`"), "{}", acted.log);
    assert!(quiet.requests().is_empty());
}

#[test]
fn base_of_a_head_that_is_checked_out_itself_is_where_it_left_the_target() {
    if !has_tools() {
        return;
    }
    let (project, api) = (Project::new("echo time 125.0\n", "touch built\n"), Api::new(0, true));
    project.check_out("change", 1);
    let acted = project.act(&api, &GATE);
    let base = project.git("server", &["rev-parse", "change^1"]);
    assert!(acted.code == 1 && acted.log.contains(&format!("base {base}\n")), "{}", acted.log);
}

/// On `pull_request_target` a commit of the target branch is checked out. If that was a merge of another pull request, its two
/// parents were compared, and a verdict on something else stood beside this one.
#[test]
fn commit_of_the_target_branch_is_not_compared_with_another_one() {
    if !has_tools() {
        return;
    }
    let (project, api) = (Project::new("echo time 125.0\n", "touch built\n"), Api::new(0, true));
    let [base, merge] = ["main^1", "main"].map(|of| project.git("server", &["rev-parse", of]));
    project.git("server", &["checkout", "--quiet", "-b", "another", &base]);
    project.commit("another");
    let head = project.git("server", &["rev-parse", "another"]);
    let event = json!({"pull_request": {"number": 5, "base": {"sha": merge}, "head": {"ref": "another", "sha": head}}});
    for revision in ["main", "main^1"] {
        project.check_out(revision, 1);
        let acted = project.act_on(&api, &GATE, &event);
        let said = "neither the pull request's head nor its merge into the target branch";
        assert!(acted.code == 2 && acted.log.contains(said), "{revision}: {}", acted.log);
    }
}

/// The whole command is in a variable, so that none of its signs has a meaning before the shell reads it.
#[test]
fn command_is_measured_without_an_experiment() {
    if !has_tools() {
        return;
    }
    let (project, api) = (Project::new("echo time 125.0\n", "touch built\n"), Api::new(0, true));
    let command = r#"test -e built && sh work.sh | awk '{print "\"{code}\"", $1}' && echo '''$((1 + 1))'''"#;
    let acted = project.act(&api, &[("command", command), ("build", "sh build.sh"), ("blocks", "6")]);
    assert_eq!(acted.code, 0, "{}", acted.log);
    let comment = &api.comments()[0];
    assert!(
        comment.contains("| code=head | code=base | run.time | ") && comment.contains(" | run.cpu | "),
        "{comment}"
    );
    assert!(comment.contains("18 trials planned, 18 run: 18 ok."), "{comment}");
}

/// A command that kept its work did nothing from its second trial on, one that read a variable of its own read the action's,
/// and each comment had the warning of a build that did nothing.
#[test]
fn command_without_a_build_runs_each_time_in_a_copy_of_its_own_and_without_variables_of_the_action() {
    if !has_tools() {
        return;
    }
    let (project, api) = (Project::new("echo time 125.0\n", "touch built\n"), Api::new(0, true));
    let command = r#"test ! -e kept && touch kept && test -z "$BUILD$COMMAND$ACTION_BUILD$ACTION_COMMAND""#;
    let acted = project.act(&api, &[("command", command), ("blocks", "6")]);
    assert_eq!(acted.code, 0, "{}", acted.log);
    let comment = &api.comments()[0];
    assert!(comment.contains("18 trials planned, 18 run: 18 ok."), "{comment}");
    assert!(!comment.contains("changed nothing in the copy"), "{comment}");
    // A later job builds again, whatever an earlier one left.
    assert!(!project.bench.path("cache").exists());
}

#[test]
fn wrong_inputs_say_what_to_do() {
    if !has_tools() {
        return;
    }
    let (project, api) = (Project::new("echo time 100.0\n", "touch built\n"), Api::new(0, true));
    let file = ("experiment", "bench/prony.toml");
    for (inputs, said) in [
        (&[][..], "nothing to measure: give the input `experiment` or `command`"),
        (&[("experiment", "x.toml")], "the experiment file does not exist: x.toml"),
        (&[file, ("command", "true")], "the inputs `command` and `build` have no effect with `experiment`"),
        (&[file, ("base", "$(touch pwned)")], "`base` cannot be fetched: $(touch pwned)"),
        (&[file, ("base", "--upload-pack=touch pwned")], "`base` is not a revision: --upload-pack=touch pwned"),
        (&[file, ("base", "HEAD")], "base and head are the same commit: "),
    ] {
        let acted = project.act(&api, inputs);
        assert!(acted.code == 2 && acted.log.contains(&format!("::error::{said}")), "{}", acted.log);
    }
    assert!(api.requests().is_empty());
    let acted = project.act(&api, &[file, ("fail-if", "run.time slower 5%; touch pwned")]);
    assert!(acted.code == 2 && api.comments()[0].contains("\n    error: invalid value "), "{:?}", api.comments());
}

/// A report that GitHub would refuse for its length is cut at its folded part.
#[test]
fn long_reports_lose_their_folded_part() {
    let bench = Bench::new();
    bench.write("report.md", format!("first\n<details>\n{}\n</details>\nlast\n", "x".repeat(70_000)));
    let shorten = |most: &str| {
        let mut command = Command::new(root().join("action/shorten.sh"));
        let output = command.args([most, "report.md"]).current_dir(bench.path("")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(shorten("80000"), fs::read_to_string(bench.path("report.md")).unwrap());
    let short = shorten("60000");
    assert!(short.starts_with("first\nlast\n") && short.contains("too long") && !short.contains("details"), "{short}");
    // Longer than what a pipe holds: what writes into it is ended when its reader has enough.
    bench.write("report.md", "y\n".repeat(1 << 20));
    let short = shorten("60000");
    assert!(short.starts_with("y\ny\n") && short.contains("too long") && short.len() < 60_000, "{}", short.len());
}

/// What stands in `run` itself is a text of the shell: a value put there by `${{ }}` would be a part of the program.
#[test]
fn no_value_from_outside_is_part_of_a_script() {
    let (action, mut used) = (action(), Vec::new());
    for step in steps(&action) {
        if let Some(cache) = step["uses"].as_str() {
            assert_eq!(cache, "actions/cache@v4");
            continue;
        }
        let run = step["run"].as_str().unwrap();
        let script = run.strip_prefix("\"$GITHUB_ACTION_PATH/action/").and_then(|rest| rest.strip_suffix('"')).unwrap();
        used.push(script.to_owned());
    }
    let mut there: Vec<String> = Vec::new();
    for file in fs::read_dir(root().join("action")).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if name.ends_with(".sh") {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o111, 0o111, "{name}");
            there.push(name);
        }
    }
    // The reports of both a summary and a comment are cut by it.
    used.push("shorten.sh".to_owned());
    used.sort_unstable();
    there.sort_unstable();
    assert_eq!(used, there);
}

#[test]
fn shellcheck_finds_nothing_in_the_scripts() {
    if version("shellcheck").is_none() {
        return;
    }
    let scripts = fs::read_dir(root().join("action")).unwrap().map(|file| file.unwrap().path());
    let scripts: Vec<PathBuf> = scripts.filter(|path| path.extension().is_some_and(|e| e == "sh")).collect();
    let output = Command::new("shellcheck").args(&scripts).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
