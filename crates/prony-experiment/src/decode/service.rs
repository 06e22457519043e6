//! Reads `[[service]]` of one variant.

use super::View;
use super::counters::counters;
use super::pattern::pattern;
use super::program::{Place, program};
use super::store::limits;
use super::view::{line, texts, unescaped};
use crate::grammar;
use crate::node::{Entry, Node};
use crate::problem::Problems;
use prony_model::program::{REPLICAS, ROLES};
use prony_model::service::{
    ALL, DataSpec, LOAD, Observed, PORT, ReadySign, ReadySpec, RunningSpec, ServiceSpec, SetUp,
};
use prony_model::spec::{BACKGROUND, WORKER};
use prony_model::units::Nanos;

/// How long a service may take to get ready.
const WITHIN: Nanos = Nanos::from_secs(30);

/// A service whose form was checked.
pub(crate) fn service(node: &Node, file: &str, problems: &mut Problems<'_>) -> Option<ServiceSpec> {
    let view = View::new(Some(node), &grammar::SERVICE);
    let place = view.get("name")?;
    let name = unescaped(place)?;
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    if !plain || name.chars().all(|c| c.is_ascii_digit()) {
        problems.fault(place, format!("`{name}` is not a valid name of a service"), "use letters, digits, `-` and `_`");
    } else if is_reserved(&name) {
        let message = format!("a service cannot be named `{name}`: metrics have an instance of this name already");
        problems.fault(place, message, "give it another name");
    }
    let running = running(&view, node, file, problems)?;
    let program = program(&name, node, None, file, problems)?;
    let asks_port =
        running.is_some() || program.command.words().iter().chain(program.env.values()).any(|text| text.contains(PORT));
    Some(ServiceSpec {
        ready: ready(view.get("ready"), asks_port, problems)?,
        count: view.whole("count").unwrap_or(1) as u32,
        after: texts(view.get("after")),
        set_up: set_up(view.get("data"), problems),
        setup: view.get("setup").and_then(line),
        limits: limits(view.get("limits")),
        processors: view.numbers("processors"),
        counters: view.get("counters").and_then(|node| counters(node, problems)),
        user: view.text("user"),
        running,
        data: view.get("data").and_then(|node| {
            let from = View::new(Some(node), &grammar::INITIAL_DATA).text("from")?;
            Some(DataSpec { from: Place { file }.resolve(&from) })
        }),
        program,
    })
}

/// Keys of what prony starts.
const OF_STARTED: [&str; 10] =
    ["count", "data", "limits", "processors", "user", "output", "shell", "runtime", "build", "change"];

/// The server that runs already, where the service is one; `None` where its keys are faulty.
fn running(view: &View<'_>, node: &Node, file: &str, problems: &mut Problems<'_>) -> Option<Option<RunningSpec>> {
    let Some(place) = view.get("url") else {
        if let Some(entry) = node.entry("observe") {
            let hint = "remove `observe`; or write `url` in place of `command` for a server that runs already";
            problems.fault(&entry.key_span, "prony observes what it starts", hint);
        }
        return Some(None);
    };
    let url = view.text("url")?;
    let authority = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).unwrap_or_default();
    let port = authority.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let Some((_, port)) = port.filter(|(host, _)| ["127.0.0.1", "localhost"].contains(host)) else {
        let message = format!("`{url}` is no server of this machine that can be observed");
        problems.fault(place, message, "write it as `http://127.0.0.1:8080`, without a path");
        return None;
    };
    for entry in OF_STARTED.iter().filter_map(|key| node.entry(key)) {
        let message = format!("`{}` has no effect on a server that runs already", entry.key);
        problems.fault(&entry.key_span, message, "remove the key, or let prony start the server");
    }
    let Some(observe) = view.get("observe") else {
        let message = "which processes are those of this server is not said";
        problems.fault(place, message, "write `observe = { pid_file = \"...\" }`, or `pid`, `cgroup` or `container`");
        return None;
    };
    let table = View::new(Some(observe), &grammar::OBSERVED);
    let resolve = |path: String| Place { file }.resolve(&path);
    let processes = table
        .whole("pid")
        .map(|pid| Observed::Pid(pid as u32))
        .or_else(|| table.text("pid_file").map(resolve).map(Observed::PidFile))
        .or_else(|| table.text("cgroup").map(resolve).map(Observed::Cgroup))
        .or_else(|| table.text("container").map(Observed::Container))?;
    can_be_asked(view, &url, problems);
    Some(Some(RunningSpec { url, port, processes }))
}

/// Faults of the sign that a server is ready which runs already: prony reads none of its output, and asks without TLS.
fn can_be_asked(view: &View<'_>, url: &str, problems: &mut Problems<'_>) {
    let Some(ready) = view.get("ready") else { return };
    for (key, has_effect, why) in [
        ("line", false, "prony does not read the output of a server that runs already"),
        ("http", !url.starts_with("https:"), "prony asks without TLS, which this server expects"),
    ] {
        if let Some(entry) = ready.entry(key).filter(|_| !has_effect) {
            let hint = "use `tcp` or `command`, or leave `ready` out: the server is ready when it accepts connections";
            problems.fault(&entry.key_span, why, hint);
        }
    }
}

fn set_up(data: Option<&Node>, problems: &mut Problems<'_>) -> SetUp {
    let view = View::new(data, &grammar::INITIAL_DATA);
    if let Some(data) = data
        && data.table().is_some_and(<[Entry]>::is_empty)
    {
        let hint = "write `from = \"DIRECTORY\"` or `setup = \"once\"`, or remove `data`";
        problems.fault(data, "`data` is empty: it needs `from` or `setup`", hint);
    }
    view.word("setup").unwrap_or_default()
}

/// Whether metrics have instances of this name already.
fn is_reserved(name: &str) -> bool {
    ROLES.contains(&name)
        || [WORKER, "replica", REPLICAS, LOAD, ALL, "program", "process", "kind", "step", BACKGROUND].contains(&name)
}

fn ready(node: Option<&Node>, asks_port: bool, problems: &mut Problems<'_>) -> Option<ReadySpec> {
    let view = View::new(node, &grammar::READY);
    let signs: Vec<&Entry> =
        node.and_then(Node::table).into_iter().flatten().filter(|entry| entry.key != "within").collect();
    if let [_, second, ..] = signs.as_slice() {
        let message = format!("`ready` has one sign, and `{}` is a second one", second.key);
        problems.fault(&second.key_span, message, "remove one of them");
    }
    let sign = match signs.first() {
        None if asks_port => ReadySign::Port,
        None => ReadySign::Started,
        Some(entry) => match entry.key.as_str() {
            "http" => {
                let path = unescaped(&entry.node)?;
                if !path.starts_with('/') {
                    let message = format!("`http` is not a path: `{path}`");
                    problems.fault(&entry.node, message, "write a path that begins with `/`");
                }
                if !asks_port {
                    let message = "`http` needs `{port}` in `command` or `env` of the service";
                    problems.fault(&entry.key_span, message, "add `{port}`, for example `\"--port={port}\"`");
                }
                ReadySign::Http(path)
            }
            "tcp" => {
                let address = unescaped(&entry.node)?;
                if !address.contains(':') {
                    let message = "`tcp` needs a host and a port";
                    problems.fault(&entry.node.span, message, "write `tcp = \"127.0.0.1:{port}\"`");
                }
                ReadySign::Tcp(address)
            }
            "line" => {
                pattern(&entry.node, problems)?;
                ReadySign::Line(entry.node.text()?.to_owned())
            }
            _ => ReadySign::Command(line(&entry.node)?),
        },
    };
    Some(ReadySpec { sign, within: view.time("within").unwrap_or(WITHIN) })
}
