//! Determines which store or program a variant measures.

use std::borrow::Cow;

use super::decode::store::merge_use;
use super::grammar;
use super::node::{Entry, Node, RawExperiment, Value};
use super::problem::{Problem, Problems, known_hint};

/// What a variant measures, as written in the file, factors filled in.
pub(crate) enum Chosen {
    /// The store opened like this.
    Store(Node),
    /// A program.
    Program {
        name: String,
        node: Node,
        /// What `[subject]` changes in it.
        change: Option<Node>,
    },
}

/// The file with a name for a program that was written without one, which is a fault: messages then refer to the
/// program's keys, and not to programs with the names of keys.
pub(crate) fn with_names<'r>(raw: &'r RawExperiment, problems: &mut Problems<'_>) -> Cow<'r, RawExperiment> {
    // A program may have the name of a key and be filled in as a whole by a factor; a name `command` is very unlikely.
    let is_whole = |entry: &Entry| entry.key != "command" && entry.node.text().is_some_and(|text| text.contains('{'));
    let is_key = |entry: &Entry| {
        grammar::PROGRAM.field(&entry.key).is_some() && entry.node.table().is_none() && !is_whole(entry)
    };
    let is_unnamed = |program: &Node| program.table().is_some_and(|entries| entries.iter().any(is_key));
    let mut raw = Cow::Borrowed(raw);
    if raw.root.get("program").is_some_and(is_unnamed)
        && let Value::Table(sections) = &mut raw.to_mut().root.value
        && let Some(section) = sections.iter_mut().find(|section| section.key == "program")
    {
        let message = "this program has no name; every program needs one";
        problems.fault(&section.key_span, message, "write `[program.NAME]`");
        let entry = Entry { key: "NAME".to_owned(), ..section.clone() };
        section.node.value = Value::Table(vec![entry]);
    }
    raw
}

/// Chooses by `[subject]`, or takes the only one there is. `fill` fills in the variant's levels; `sound` is the filled
/// and decoded `[subject]`, where it has no fault.
pub(crate) fn choose(
    root: &Node,
    fill: &dyn Fn(&Node, &mut Problems<'_>) -> Node,
    sound: &dyn Fn(Node, &mut Problems<'_>) -> Option<Node>,
    problems: &mut Problems<'_>,
) -> Option<Chosen> {
    let programs = root.table_of("program");
    let store = root.get("store");
    let Some(subject) = root.get("subject") else {
        return match (store, programs) {
            (Some(store), []) => merge_use(&fill(store, problems), ("store", root), problems).map(Chosen::Store),
            (None, [only]) => Some(program(only, None, fill, problems)),
            (None, []) => None,
            _ => {
                let message = "the file has several stores or programs, but does not say which one a variant measures";
                let hint = "add `[subject] use = \"{subject}\"` and a factor `subject` with levels \
                                           such as `{ program = \"NAME\" }`";
                problems.fault(root.span.start..root.span.start, message, hint);
                None
            }
        };
    };
    let subject = sound(merge_use(&named(fill(subject, problems)), ("subject", root), problems)?, problems)?;
    let chosen = of_subject(&subject, root, fill, problems)?;
    if let (Chosen::Store(_), Some(change)) = (&chosen, subject.entry("change")) {
        let message = "`change` changes a program, and this variant measures a store";
        let hint = "vary settings of the store: `store = { ... }`, or remove `change`";
        problems.fault((&subject, change.key_span.clone()), message, hint);
        return None;
    }
    Some(chosen)
}

/// What the filled `[subject]` names, or the only one there is.
fn of_subject(
    subject: &Node,
    root: &Node,
    fill: &dyn Fn(&Node, &mut Problems<'_>) -> Node,
    problems: &mut Problems<'_>,
) -> Option<Chosen> {
    let programs = root.table_of("program");
    match (subject.entry("program"), subject.entry("store")) {
        (Some(wanted), None) => by_name(wanted, programs, subject.get("change"), fill, problems),
        (None, Some(wanted)) => joined(root, &wanted.node, fill, problems).map(Chosen::Store),
        (Some(wanted), Some(_)) => {
            problems.add(Problem::new(&wanted.key_span, "a variant measures a program or a store, not both"));
            None
        }
        (None, None) => match (root.get("store"), programs) {
            (None, [only]) => Some(program(only, subject.get("change"), fill, problems)),
            (Some(store), []) => merge_use(&fill(store, problems), ("store", root), problems).map(Chosen::Store),
            _ => {
                let message = "`[subject]` names neither a program nor a store";
                problems.fault(subject, message, "write `program = \"NAME\"` or `store = { engine = \"...\" }`");
                None
            }
        },
    }
}

/// `use = "NAME"` is short for `use = { program = "NAME" }`.
fn named(mut subject: Node) -> Node {
    let Value::Table(entries) = &mut subject.value else { return subject };
    for entry in entries.iter_mut().filter(|entry| entry.key == "use" && entry.node.text().is_some()) {
        entry.key = "program".to_owned();
    }
    subject
}

fn by_name(
    wanted: &Entry,
    programs: &[Entry],
    change: Option<&Node>,
    fill: &dyn Fn(&Node, &mut Problems<'_>) -> Node,
    problems: &mut Problems<'_>,
) -> Option<Chosen> {
    let name = wanted.node.text()?;
    let Some(found) = programs.iter().find(|entry| entry.key == name) else {
        let hint = known_hint(name, programs.iter().map(|entry| entry.key.as_str()));
        problems.add(Problem::new(&wanted.node, format!("unknown program `{name}`")).maybe_hint(hint));
        return None;
    };
    Some(program(found, change, fill, problems))
}

fn program(
    entry: &Entry,
    change: Option<&Node>,
    fill: &dyn Fn(&Node, &mut Problems<'_>) -> Node,
    problems: &mut Problems<'_>,
) -> Chosen {
    Chosen::Program { name: entry.key.clone(), node: fill(&entry.node, problems), change: change.cloned() }
}

/// `[store]` with the keys that the subject adds.
fn joined(
    root: &Node,
    brought: &Node,
    fill: &dyn Fn(&Node, &mut Problems<'_>) -> Node,
    problems: &mut Problems<'_>,
) -> Option<Node> {
    let Some(store) = root.get("store") else { return Some(brought.clone()) };
    let mut filled = merge_use(&fill(store, problems), ("store", root), problems)?;
    if let Value::Table(entries) = &mut filled.value {
        entries.push(Entry { key: "use".to_owned(), key_span: brought.span.clone(), node: brought.clone() });
    }
    merge_use(&filled, ("store", root), problems)
}
