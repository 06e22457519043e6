//! Runs the steps of `action.yml` as GitHub does, in a clone of a small repository, with a server that stands for GitHub's API.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use yaml_rust2::{Yaml, YamlLoader};

use crate::bench::{Bench, PRONY};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn action() -> Yaml {
    YamlLoader::load_from_str(&fs::read_to_string(root().join("action.yml")).unwrap()).unwrap().remove(0)
}

pub(crate) fn steps(action: &Yaml) -> &[Yaml] {
    action["runs"]["steps"].as_vec().unwrap()
}

/// What was sent to the server: the method and the path, and the body.
pub(crate) type Requests = Vec<(String, Value)>;

/// A server with the comments of pull request 5.
pub(crate) struct Api {
    address: String,
    requests: Arc<Mutex<Requests>>,
    pub(crate) comments: Arc<Mutex<Vec<Value>>>,
}

impl Api {
    /// With so many earlier comments; `writable` where the token may write.
    pub(crate) fn new(earlier: usize, writable: bool) -> Self {
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

    pub(crate) fn requests(&self) -> Requests {
        self.requests.lock().unwrap().clone()
    }

    /// The bodies of the comments that the action wrote.
    pub(crate) fn comments(&self) -> Vec<String> {
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
pub(crate) struct Project {
    pub(crate) bench: Bench,
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
    pub(crate) fn new(work: &str, build: &str) -> Self {
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
    pub(crate) fn check_out(&self, revision: &str, depth: u32) {
        let commit = self.git("server", &["rev-parse", revision]);
        let url = format!("file://{}", self.bench.path("server").display());
        _ = fs::remove_dir_all(self.bench.path("clone"));
        self.git("", &["init", "--quiet", "clone"]);
        self.git("clone", &["remote", "add", "origin", &url]);
        self.git("clone", &["fetch", "--quiet", "--no-tags", &format!("--depth={depth}"), "origin", &commit]);
        self.git("clone", &["checkout", "--quiet", "--detach", &commit]);
    }

    pub(crate) fn git(&self, directory: &str, args: &[&str]) -> String {
        let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
        let output = Command::new("git").args(who).args(args).current_dir(self.bench.path(directory)).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git("server", &["add", "."]);
        self.git("server", &["commit", "--quiet", "--allow-empty", "-m", message]);
    }

    /// Runs the action on the pull request.
    pub(crate) fn act(&self, api: &Api, inputs: &[(&str, &str)]) -> Acted {
        let base = self.git("server", &["rev-parse", "main^1"]);
        let event = json!({"pull_request": {
            "number": 5, "title": "$(touch pwned); `touch pwned`", "base": {"sha": base},
            "head": {"ref": "a;touch${IFS}pwned", "sha": self.git("server", &["rev-parse", "change"])},
        }});
        self.act_on(api, inputs, &event)
    }

    pub(crate) fn act_on(&self, api: &Api, inputs: &[(&str, &str)], event: &Value) -> Acted {
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
pub(crate) struct Acted {
    pub(crate) code: i32,
    pub(crate) log: String,
    pub(crate) summary: String,
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
