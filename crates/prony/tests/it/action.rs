//! Tests the GitHub Action: runs the steps of `action.yml` one by one as GitHub does, in a clone of a small repository, with
//! a server that stands for GitHub's API.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use yaml_rust2::{Yaml, YamlLoader};

use crate::bench::{Bench, PRONY, version};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn action() -> Yaml {
    YamlLoader::load_from_str(&fs::read_to_string(root().join("action.yml")).unwrap()).unwrap().remove(0)
}

fn steps(action: &Yaml) -> &[Yaml] {
    action["runs"]["steps"].as_vec().unwrap()
}

/// The tools of the scripts.
fn has_tools() -> bool {
    ["git", "jq", "curl"].into_iter().all(|tool| version(tool).is_some())
}

/// What was sent to the server: the method and the path, and the body.
type Requests = Vec<(String, Value)>;

/// A server with the comments of pull request 5.
struct Api {
    address: String,
    requests: Arc<Mutex<Requests>>,
    comments: Arc<Mutex<Vec<Value>>>,
}

impl Api {
    /// With so many earlier comments; `writable` where the token may write.
    fn new(earlier: usize, writable: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let comments = (0..earlier).map(|id| json!({"id": id, "body": format!("comment {id}"), "html_url": "u"}));
        let api = Self { address, requests: Arc::default(), comments: Arc::new(Mutex::new(comments.collect())) };
        let (requests, comments) = (Arc::clone(&api.requests), Arc::clone(&api.comments));
        // It ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &requests, &mut comments.lock().unwrap(), writable);
            }
        });
        api
    }

    fn requests(&self) -> Requests {
        self.requests.lock().unwrap().clone()
    }

    /// The bodies of the comments that the action wrote.
    fn comments(&self) -> Vec<String> {
        let comments = self.comments.lock().unwrap();
        let bodies = comments.iter().map(|comment| comment["body"].as_str().unwrap().to_owned());
        bodies.filter(|body| body.starts_with("<!-- prony: ")).collect()
    }
}

fn answer(mut stream: TcpStream, requests: &Mutex<Requests>, comments: &mut Vec<Value>, writable: bool) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut lines, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_owned();
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = text.parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (method, path) = lines[0].trim_end_matches(" HTTP/1.1").split_once(' ').unwrap();
    assert!(lines.iter().any(|line| line == "Authorization: Bearer the-token"), "{lines:?}");
    let text = body["body"].as_str().unwrap_or_default().to_owned();
    let (status, answer) = match (method, path.split_once('?').unwrap_or((path, ""))) {
        ("GET", ("/repos/o/r/issues/5/comments", query)) => {
            let page: usize = query.rsplit('=').next().unwrap().parse().unwrap();
            (200, comments.iter().skip(100 * (page - 1)).take(100).cloned().collect())
        }
        ("POST" | "PATCH", _) if !writable => (403, json!({"message": "Resource not accessible by integration"})),
        ("POST", ("/repos/o/r/issues/5/comments", _)) => {
            comments.push(json!({"id": comments.len(), "body": text, "html_url": "http://x/new"}));
            (201, comments.last().unwrap().clone())
        }
        ("PATCH", (path, _)) => {
            let id: usize = path.strip_prefix("/repos/o/r/issues/comments/").unwrap().parse().unwrap();
            comments[id]["body"] = json!(text);
            (200, comments[id].clone())
        }
        _ => (404, json!({})),
    };
    requests.lock().unwrap().push((format!("{method} {path}"), body));
    let answer = answer.to_string();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", answer.len());
    stream.write_all((head + &answer).as_bytes()).unwrap();
}

/// A repository on the server of which a runner has a shallow clone.
struct Project {
    bench: Bench,
}

/// Reads the time of a trial from what the program prints, so that verdicts do not depend on the machine.
const EXPERIMENT: &str = r#"
[experiment]
title = "Base and head"
[factors.code]
base = { revision = "{env.PRONY_BASE}" }
head = { revision = "{env.PRONY_HEAD}" }
[compare]
baseline = { code = "base" }
margin   = "5%"
blocks   = 6
[observe]
care = "light"
[program.work]
directory = ".."
change    = "{code}"
build     = ["sh", "build.sh"]
command   = ["sh", "work.sh"]
env       = { COUNTER = "{env.COUNTER}" }
[[phase]]
name = "run"
read = 'time (?<time_us>[0-9.]+)'
"#;

impl Project {
    /// `main`, and pull request 5 with this program and build.
    fn new(work: &str, build: &str) -> Self {
        let project = Self { bench: Bench::new() };
        project.git("", &["init", "--quiet", "--initial-branch=main", "server"]);
        project.bench.write("server/bench/prony.toml", EXPERIMENT);
        project.bench.write("server/work.sh", "echo time 100.0\n");
        project.bench.write("server/build.sh", "touch built\n");
        project.commit("base");
        project.git("server", &["checkout", "--quiet", "-b", "change"]);
        project.bench.write("server/work.sh", work);
        project.bench.write("server/build.sh", build);
        project.commit("head");
        // What else is on the target branch by now is no part of the pull request.
        project.git("server", &["checkout", "--quiet", "main"]);
        project.bench.write("server/other", "");
        project.commit("later");
        project.git("server", &["merge", "--quiet", "--no-ff", "-m", "Merge", "change"]);
        // As on GitHub, where any commit can be fetched.
        project.git("server", &["config", "uploadpack.allowAnySHA1InWant", "true"]);
        project.check_out("HEAD", 1);
        project
    }

    /// A clone with so many commits, as `actions/checkout` makes it.
    fn check_out(&self, revision: &str, depth: u32) {
        let commit = self.git("server", &["rev-parse", revision]);
        let url = format!("file://{}", self.bench.path("server").display());
        _ = fs::remove_dir_all(self.bench.path("clone"));
        self.git("", &["init", "--quiet", "clone"]);
        self.git("clone", &["remote", "add", "origin", &url]);
        self.git("clone", &["fetch", "--quiet", "--no-tags", &format!("--depth={depth}"), "origin", &commit]);
        self.git("clone", &["checkout", "--quiet", "--detach", &commit]);
    }

    fn git(&self, directory: &str, args: &[&str]) -> String {
        let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
        let output = Command::new("git").args(who).args(args).current_dir(self.bench.path(directory)).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, message: &str) {
        self.git("server", &["add", "."]);
        self.git("server", &["commit", "--quiet", "--allow-empty", "-m", message]);
    }

    /// Runs the action on the pull request.
    fn act(&self, api: &Api, inputs: &[(&str, &str)]) -> Acted {
        let base = self.git("server", &["rev-parse", "main^1"]);
        let event = json!({"pull_request": {
            "number": 5, "title": "$(touch pwned); `touch pwned`", "base": {"sha": base},
            "head": {"ref": "a;touch${IFS}pwned", "sha": self.git("server", &["rev-parse", "change"])},
        }});
        self.act_on(api, inputs, &event)
    }

    fn act_on(&self, api: &Api, inputs: &[(&str, &str)], event: &Value) -> Acted {
        for folder in ["temp", "home", "steps"] {
            fs::create_dir_all(self.bench.path(folder)).unwrap();
        }
        self.bench.write("event.json", event.to_string());
        self.bench.write("summary.md", "");
        let action = action();
        let known = action["inputs"].as_hash().unwrap();
        let mut values: BTreeMap<&str, String> = known
            .iter()
            .map(|(name, input)| (name.as_str().unwrap(), input["default"].as_str().unwrap().to_owned()))
            .collect();
        for (name, value) in inputs.iter().copied().chain([("prony", PRONY)]) {
            values.insert(known.keys().find_map(|key| key.as_str().filter(|key| *key == name)).unwrap(), value.into());
        }
        let event = if event["before"].is_null() { "pull_request" } else { "push" };
        let runner = Runner { project: self, api, event, inputs: values, outputs: RefCell::default() };
        let (mut code, mut log) = (0, String::new());
        for (at, step) in steps(&action).iter().enumerate() {
            if runner.is_due(step) {
                let (status, text) = runner.run(at, step);
                log += &text;
                code = status;
            }
            if code != 0 {
                break;
            }
        }
        assert!(!self.bench.path("clone/pwned").exists() && !self.bench.path("pwned").exists(), "{log}");
        let summary = fs::read_to_string(self.bench.path("summary.md")).unwrap();
        Acted { code, log, summary }
    }
}

/// What the job shows.
struct Acted {
    code: i32,
    log: String,
    summary: String,
}

/// What GitHub's runner does with the steps of a composite action.
struct Runner<'a> {
    project: &'a Project,
    api: &'a Api,
    event: &'a str,
    inputs: BTreeMap<&'a str, String>,
    outputs: RefCell<BTreeMap<(String, String), String>>,
}

impl Runner<'_> {
    /// The value of what stands between the braces of an expression.
    fn value(&self, expression: &str) -> String {
        let parts: Vec<&str> = expression.trim().split('.').collect();
        match parts.as_slice() {
            ["inputs", name] => self.text(&self.inputs[name]),
            ["github", "token"] => "the-token".to_owned(),
            ["steps", step, "outputs", name] => {
                self.outputs.borrow().get(&((*step).to_owned(), (*name).to_owned())).cloned().unwrap_or_default()
            }
            _ => panic!("`{expression}` is not known here"),
        }
    }

    /// The text with its expressions replaced.
    fn text(&self, text: &str) -> String {
        let Some((before, rest)) = text.split_once("${{") else { return text.to_owned() };
        let (expression, after) = rest.split_once("}}").unwrap();
        format!("{before}{}{}", self.value(expression), self.text(after))
    }

    fn is_due(&self, step: &Yaml) -> bool {
        let Some(condition) = step["if"].as_str() else { return true };
        let (left, right) = condition.split_once("= ").unwrap();
        let (value, right) = (self.value(left.trim_end_matches(['!', '=', ' '])), right.trim_matches('\''));
        if left.ends_with('!') { value != right } else { value == right }
    }

    fn run(&self, at: usize, step: &Yaml) -> (i32, String) {
        let bench = &self.project.bench;
        let output = bench.path(&format!("steps/{at}"));
        fs::write(&output, "").unwrap();
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"].as_str().unwrap()]);
        command.current_dir(bench.path("clone")).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        for (name, path) in [
            ("HOME", "home"),
            ("RUNNER_TEMP", "temp"),
            ("GITHUB_STEP_SUMMARY", "summary.md"),
            ("GITHUB_EVENT_PATH", "event.json"),
            ("PRONY_CACHE", "cache"),
            ("COUNTER", "counter"),
        ] {
            command.env(name, bench.path(path));
        }
        command.env("GITHUB_ACTION_PATH", root()).env("GITHUB_OUTPUT", &output).env("PRONY_RUNS", "off");
        command.env("GITHUB_SHA", self.project.git("clone", &["rev-parse", "HEAD"]));
        command.env("GITHUB_REPOSITORY", "o/r").env("GITHUB_API_URL", &self.api.address).env("GITHUB_RUN_ID", "7");
        command.env("GITHUB_WORKFLOW", "CI --> x").env("GITHUB_JOB", "bench").env("GITHUB_EVENT_NAME", self.event);
        for (name, value) in step["env"].as_hash().into_iter().flatten() {
            command.env(name.as_str().unwrap(), self.text(value.as_str().unwrap()));
        }
        let done = command.output().unwrap();
        let id = step["id"].as_str().unwrap_or_default();
        for line in fs::read_to_string(&output).unwrap().lines() {
            let (name, value) = line.split_once('=').unwrap();
            self.outputs.borrow_mut().insert((id.to_owned(), name.to_owned()), value.to_owned());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code().unwrap(), text(&done.stdout) + &text(&done.stderr))
    }
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
