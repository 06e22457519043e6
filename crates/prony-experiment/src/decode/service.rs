//! Reads `[[service]]` of one variant.

use super::View;
use super::counters::counters;
use super::pattern::pattern;
use super::program::{Place, program};
use super::store::limits;
use super::view::{line, texts, unescaped};
use crate::grammar;
use crate::node::{Entry, Node};
use crate::problem::{Problem, Problems};
use crate::validate::via;
use prony_model::program::{REPLICAS, ROLES};
use prony_model::service::{ALL, DataSpec, LOAD, PORT, ReadySign, ReadySpec, ServiceSpec, SetUp};
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
        let problem = Problem::new(place.span.clone(), format!("`{name}` is not a valid name of a service"));
        problems.add(via(place, problem.hint("use letters, digits, `-` and `_`")));
    } else if is_reserved(&name) {
        let message = format!("a service cannot be named `{name}`: metrics have an instance of this name already");
        problems.add(via(place, Problem::new(place.span.clone(), message).hint("give it another name")));
    }
    let program = program(&name, node, None, file, problems)?;
    let asks_port = program.command.words().iter().chain(program.env.values()).any(|text| text.contains(PORT));
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
        data: view.get("data").and_then(|node| {
            let from = View::new(Some(node), &grammar::INITIAL_DATA).text("from")?;
            Some(DataSpec { from: Place { file }.resolve(&from) })
        }),
        program,
    })
}

fn set_up(data: Option<&Node>, problems: &mut Problems<'_>) -> SetUp {
    let view = View::new(data, &grammar::INITIAL_DATA);
    if let Some(data) = data
        && data.table().is_some_and(<[Entry]>::is_empty)
    {
        let problem = Problem::new(data.span.clone(), "`data` says nothing of what `{data}` holds");
        problems.add(via(data, problem.hint("write `from` or `setup`, or remove `data`")));
    }
    match view.text("setup").as_deref() {
        Some("once") => SetUp::Once,
        _ => SetUp::Each,
    }
}

/// Whether metrics have instances of this name already.
fn is_reserved(name: &str) -> bool {
    ROLES.contains(&name)
        || [WORKER, "replica", REPLICAS, LOAD, ALL, "program", "kind", "step", BACKGROUND].contains(&name)
}

fn ready(node: Option<&Node>, asks_port: bool, problems: &mut Problems<'_>) -> Option<ReadySpec> {
    let view = View::new(node, &grammar::READY);
    let signs: Vec<&Entry> =
        node.and_then(Node::table).into_iter().flatten().filter(|entry| entry.key != "within").collect();
    if let [_, second, ..] = signs.as_slice() {
        let message = format!("`ready` has one sign, and `{}` is a second one", second.key);
        problems.add(Problem::new(second.key_span.clone(), message).hint("remove one of them"));
    }
    let sign = match signs.first() {
        None if asks_port => ReadySign::Port,
        None => ReadySign::Started,
        Some(entry) => match entry.key.as_str() {
            "http" => {
                let path = unescaped(&entry.node)?;
                if !path.starts_with('/') || !asks_port {
                    let hint = "write a path such as `/`, and `{port}` in `command` or `env` of the service";
                    let message = "`http` needs a path that begins with `/`, and a service that listens on `{port}`";
                    problems.add(Problem::new(entry.key_span.clone(), message).hint(hint));
                }
                ReadySign::Http(path)
            }
            "tcp" => ReadySign::Tcp(unescaped(&entry.node)?),
            "line" => {
                pattern(&entry.node, problems)?;
                ReadySign::Line(entry.node.text()?.to_owned())
            }
            _ => ReadySign::Command(line(&entry.node)?),
        },
    };
    Some(ReadySpec { sign, within: view.time("within").unwrap_or(WITHIN) })
}
