//! Reads `[store]` and `[limits]` of one variant.

use std::collections::BTreeMap;

use super::View;
use super::indexes::indexes;
use super::view::{bytes, time, unescaped};
use crate::grammar;
use crate::node::{Entry, Node, Value};
use crate::problem::{Problem, Problems, known_hint, quoted};
use prony_model::catalog::{EngineCatalog, EngineFacts};
use prony_model::spec::{Durability, Limits, OptionValue, StoreSpec};
use prony_model::spelling::nearest;
use prony_model::units::Bytes;

/// Moves the keys of `use = { ... }` into the table `[owner]` of the file `root` beside it; `None` where `use` has a fault.
pub(crate) fn merge_use(store: &Node, (owner, root): (&str, &Node), problems: &mut Problems<'_>) -> Option<Node> {
    let (Some(level), Some(entries)) = (store.entry("use"), store.table()) else { return Some(store.clone()) };
    let Some(brought) = level.node.table() else {
        // What names a factor was replaced by its level before.
        let hole = level.node.text().filter(|text| text.starts_with('{') && text.ends_with('}'));
        let message = match hole {
            Some(hole) => format!("`{hole}` names no factor of `[factors]`"),
            None => format!("`use` cannot be {}", level.node.kind()),
        };
        let factors = root.table_of("factors").iter().map(|factor| factor.key.as_str());
        let near = hole.and_then(|hole| nearest(hole.trim_matches(['{', '}']), factors));
        let hint = near.map_or_else(
            || format!("write a table with keys of `[{owner}]`, or `\"{{NAME}}\"` for the levels of the factor NAME"),
            |near| format!("did you mean `{{{near}}}`?"),
        );
        problems.fault(&level.node, message, hint);
        return None;
    };
    let mut merged = without_use(store, entries);
    let Value::Table(own) = &mut merged.value else { return Some(merged) };
    for entry in brought {
        match own.iter().find(|other| other.key == entry.key) {
            None => own.push(entry.clone()),
            Some(other) => {
                let message = format!("`{}` is set here and in the table of `use`", entry.key);
                let problem = Problem::new(other.key_span.clone(), message);
                problems.add(problem.label(&entry.key_span, "set by `use`"));
            }
        }
    }
    Some(merged)
}

fn without_use(store: &Node, entries: &[Entry]) -> Node {
    let rest = entries.iter().filter(|entry| entry.key != "use").cloned().collect();
    Node { value: Value::Table(rest), ..store.clone() }
}

/// The store, and the capabilities of its engine; everything that the engine does not support is a problem.
pub(crate) fn store(
    node: &Node,
    engines: &dyn EngineCatalog,
    problems: &mut Problems<'_>,
) -> Option<(StoreSpec, EngineFacts)> {
    let view = View::new(Some(node), &grammar::STORE);
    let Some(engine_node) = view.get("engine") else {
        problems.fault(node, "`store` needs the key `engine`", "name of the engine, such as `lmdb`");
        return None;
    };
    let engine = unescaped(engine_node)?;
    let durability: Option<Durability> = view.word("durability");
    let options: BTreeMap<String, OptionValue> =
        view.table_of("options").iter().filter_map(|entry| Some((entry.key.clone(), option(&entry.node)?))).collect();
    let indexes = indexes(view.get("indexes"), problems);
    let url = view.text("url");
    let spec = StoreSpec { engine, durability, options, indexes, url };
    let Some(facts) = engines.facts(&spec) else {
        problems.add(unknown_engine(engine_node, &spec.engine, engines));
        return None;
    };
    let lacks_url = match (facts.can.server, view.get("url")) {
        (true, None) => {
            Some((engine_node, "is a server, and the store has no `url`", "add `url`, such as that of a `[[service]]`"))
        }
        (false, Some(url)) => Some((url, "is no server, so that its store has no `url`", "remove `url`")),
        _ => None,
    };
    if let Some((node, what, hint)) = lacks_url {
        problems.fault(node, format!("`{}` {what}", spec.engine), hint);
    }
    match durability.filter(|class| !facts.classes.contains(class)) {
        Some(class) => problems.add(not_offered(view.get("durability").unwrap_or(node), &spec.engine, class, &facts)),
        None => settings(&view, node, &spec, engines, problems),
    }
    Some((spec, facts))
}

fn unknown_engine(node: &Node, engine: &str, engines: &dyn EngineCatalog) -> Problem {
    if let Some((_, feature)) = engines.absent().into_iter().find(|(name, _)| name == engine) {
        let problem = Problem::new(node, format!("engine `{engine}` is not in this build"));
        return problem.hint(format!("build prony with `--features {feature}`"));
    }
    let names = engines.engines();
    let hint = known_hint(engine, names.iter().map(String::as_str));
    Problem::new(node, format!("unknown engine `{engine}`")).maybe_hint(hint)
}

fn not_offered(at: &Node, engine: &str, class: Durability, facts: &EngineFacts) -> Problem {
    let offered: Vec<&str> = facts.classes.iter().map(|class| class.name()).collect();
    let message = format!("`{engine}` does not offer durability `{}`; it offers {}", class.name(), quoted(&offered));
    Problem::new(at, message)
        .hint("choose a class that the engine offers, or leave the variant out with `[design] skip`")
}

fn settings(view: &View<'_>, node: &Node, spec: &StoreSpec, engines: &dyn EngineCatalog, problems: &mut Problems<'_>) {
    // Values of services are known in a trial only.
    let url = spec
        .url
        .as_deref()
        .map(|url| url.split('\0').enumerate().map(|(at, part)| if at % 2 == 1 { "1" } else { part }).collect());
    for fault in engines.check(&StoreSpec { url, ..spec.clone() }) {
        let options = view.get("options");
        let of_url = |name: &String| node.entry(name).filter(|_| name == "url");
        let entry =
            fault.option.as_ref().and_then(|name| options.and_then(|all| all.entry(name)).or_else(|| of_url(name)));
        let place = entry.map(|entry| entry.key_span.start..entry.node.span.end);
        let place = place.or_else(|| Some(view.get("durability")?.span.clone()));
        let span = place.or_else(|| Some(view.get("engine")?.span.clone())).unwrap_or_else(|| node.span.clone());
        let owner = entry.map_or(node, |entry| &entry.node);
        problems.add(Problem::new((owner, span), fault.message).maybe_hint(fault.hint));
    }
}

fn option(node: &Node) -> Option<OptionValue> {
    match node.value {
        Value::Flag(flag) => Some(OptionValue::Bool(flag)),
        Value::Whole(n) => Some(OptionValue::Int(n)),
        Value::Number(x) => Some(OptionValue::Float(x)),
        _ => unescaped(node).map(OptionValue::Text),
    }
}

/// No process starts in less memory: measured with the smallest program there is, `true`.
pub(crate) const LEAST_OF_A_PROGRAM: Bytes = Bytes::from_bytes(256_000);

/// No process that runs a store starts in less memory.
pub(crate) const LEAST_OF_A_STORE: Bytes = Bytes::from_bytes(1_000_000);

/// A limit on memory in which nothing can start: its trials would show nothing about the subject.
pub(crate) fn enough_memory(limit: Option<&Node>, least: Bytes, subject: &str, problems: &mut Problems<'_>) {
    let Some((node, limit)) = limit.and_then(|node| Some((node, bytes(node)?))) else { return };
    if limit < least {
        let message = format!("`memory` is {limit}, but a {subject} needs at least {least} to start");
        problems.fault(node, message, "raise the limit: most programs need several MB");
    }
}

/// `[limits]`.
pub(crate) fn limits(node: Option<&Node>) -> Limits {
    let view = View::new(node, &grammar::LIMITS);
    let of_phase = view.get("time").filter(|time| time.table().is_some());
    let times = View::new(of_phase, &grammar::TIME_LIMITS);
    Limits {
        memory: view.bytes("memory"),
        cpus: view.number("cpus"),
        pids: view.whole("pids"),
        trial: view.get("time").and_then(time).or_else(|| times.time("trial")),
        phase: times.time("phase"),
    }
}
