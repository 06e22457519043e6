//! Reads `[program.NAME]` and its phases, of one variant.

use std::collections::BTreeMap;
use std::path::Path;

use super::View;
use super::pattern::pattern;
use super::phase::{name, settle};
use super::trigger::{Frame, call, trigger};
use super::view::{line, named, texts, unescaped, whole, word};
use crate::grammar;
use crate::node::{Node, Value};
use crate::problem::{At, Problem, Problems};
use crate::shape::TableShape;
use prony_model::program::{
    AtEndSpec, Change, CommandLine, CopyOf, DIGEST_GROUP, InputSpec, ObserveSpec, OutputTo, OutwardLinks, ProgramSpec,
    ReplicasSpec, Trigger, WHOLE, Weak, group_meaning, package,
};
use prony_model::spec::{Action, PhaseSpec};
use prony_model::units::Nanos;

/// A program whose form was checked. Relative paths start from `file`, the experiment's; `changes` are applied after
/// its own.
pub(crate) fn program(
    name: &str,
    node: &Node,
    changes: Option<&Node>,
    file: &str,
    problems: &mut Problems<'_>,
) -> Option<ProgramSpec> {
    let view = View::new(Some(node), &grammar::PROGRAM);
    let place = Place { file };
    let mut spec = ProgramSpec {
        name: name.to_owned(),
        // A server that runs already has none.
        command: match view.get("command") {
            Some(node) => command(node, view.get("shell"), problems)?,
            None => CommandLine::Words(Vec::new()),
        },
        directory: view.text("directory").map(|path| place.resolve(&path)),
        copy: view.word("copy").unwrap_or_default(),
        links: view.word("links").unwrap_or_default(),
        store: store(&view, problems),
        env: view.get("env").map(env).unwrap_or_default(),
        inherit: texts(view.get("inherit")),
        input: view.get("input").map_or(Some(InputSpec::Null), |node| place.input(node))?,
        output: view.get("output").map_or(Some(OutputTo::Capture), |node| place.output(node))?,
        pty: view.flag("pty").unwrap_or(false),
        runtime: view.word("runtime"),
        success: success(view.get("success"), problems),
        build: view.get("build").and_then(line),
        prepare: view.get("prepare").and_then(line),
        conclude: view.get("conclude").and_then(line),
        cleanup: view.get("cleanup").and_then(line),
        warmup: view.whole("warmup").map_or(0, |n| n as u32),
        changes: Vec::new(),
        replicas: view.get("replicas").and_then(|node| replicas(node, view.get("shell"), problems)),
    };
    no_nul(node, problems);
    changes.into_iter().for_each(|node| no_nul(node, problems));
    for node in view.get("change").into_iter().chain(changes).flat_map(Node::items) {
        place.change(node, &mut spec, problems);
        names_of_variables(View::new(Some(node), &grammar::CHANGE).get("env"), None, problems);
    }
    // It makes the copy to which the other changes apply.
    spec.changes.sort_by_key(|change| !matches!(change, Change::Revision { .. }));
    if let [Change::Revision { of: first }, Change::Revision { of: second }, ..] = spec.changes.as_slice() {
        let message = format!("program `{name}` has two revisions, `{first}` and `{second}`");
        problems.fault(&node.span, message, "name one `revision` in each variant");
    }
    names_of_variables(view.get("env"), view.get("inherit"), problems);
    let copied = spec.directory.is_some() && spec.copy != CopyOf::None;
    if !spec.changes.is_empty() && !copied {
        let message = format!("program `{name}` has no copy that could be changed");
        problems.fault(&node.span, message, "set its `directory`, and remove `copy = \"none\"`");
    }
    for key in ["build", "copy", "links"] {
        if spec.directory.is_none() && view.get(key).is_some() {
            let message = format!("program `{name}` has no `directory`, so that `{key}` has no effect");
            problems.fault(view.key_span(key), message, format!("set its `directory`, or remove `{key}`"));
        }
    }
    let writes =
        [("change", !spec.changes.is_empty()), ("build", spec.build.is_some()), ("prepare", spec.prepare.is_some())];
    if let (OutwardLinks::Keep, Some((step, _))) = (spec.links, writes.iter().find(|(_, is_there)| *is_there)) {
        let message = format!("through a link that is kept, `{step}` could change files outside the copy");
        problems.fault(view.key_span("links"), message, format!("write `links = \"copy\"`, or remove `{step}`"));
    }
    check_output(&spec, &view, problems);
    Some(spec)
}

/// Faults of `output` beside `pty` and `replicas`.
fn check_output(spec: &ProgramSpec, view: &View<'_>, problems: &mut Problems<'_>) {
    if spec.output != OutputTo::Capture && spec.pty {
        problems.fault(view.key_span("pty"), "`pty` works only with captured output", "remove `pty` or `output`");
    }
    if matches!(spec.output, OutputTo::File(_)) && spec.replicas.is_some() {
        let message =
            format!("program `{}` and its replicas would write over each other's output in one file", spec.name);
        problems.fault(view.key_span("output"), message, "remove `output`, or write `output = \"null\"`");
    }
}

/// The path of its data as written: only a trial knows the directory it works in.
fn store(view: &View<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let path = view.text("store")?;
    if path.is_empty() {
        let hint = "write where the program keeps its data, as `store = \"{dir}/data\"`";
        problems.fault(view.key_span("store"), "`store` is empty and names no file or directory", hint);
    }
    Some(path)
}

/// Exit codes; none for any, which is written as a word.
fn success(node: Option<&Node>, problems: &mut Problems<'_>) -> Vec<i32> {
    let Some(node) = node else { return vec![0] };
    if node.list().is_some_and(<[Node]>::is_empty) {
        let message = "`success` is empty, so every run would fail";
        problems.fault(node, message, "name exit codes, or write `\"any\"` for every exit code");
    }
    node.list().unwrap_or_default().iter().filter_map(whole).map(|n| n as i32).collect()
}

fn env(node: &Node) -> BTreeMap<String, String> {
    node.table().unwrap_or_default().iter().map(|entry| (entry.key.clone(), word(&entry.node))).collect()
}

fn command(node: &Node, shell: Option<&Node>, problems: &mut Problems<'_>) -> Option<CommandLine> {
    let shell = match shell {
        Some(Node { value: Value::Flag(flag), .. }) => flag.then(|| "sh".to_owned()),
        Some(node) if node.text().is_none() => {
            let message = format!("`shell` cannot be `{}`", node.label());
            problems.fault(&node.span, message, "write `true`, `false`, or the shell's name");
            return None;
        }
        Some(node) => unescaped(node),
        None => None,
    };
    let mut fault = |message: &str, hint: &str| {
        problems.fault(node, message, hint);
        None
    };
    match (node.list(), shell) {
        (Some(_), Some(_)) => {
            fault("with `shell`, `command` must be one text, not a list", "write `command` as one text")
        }
        (None, Some(shell)) => Some(CommandLine::Shell { shell, script: unescaped(node)? }),
        (Some(_), None) if texts(Some(node)).first().is_none_or(String::is_empty) => {
            fault("`command` is empty", "write program and arguments, such as `[\"node\", \"build.js\"]`")
        }
        (Some(_), None) => Some(CommandLine::Words(texts(Some(node)))),
        (None, None) => match shell_words::split(&unescaped(node)?) {
            Err(_) => fault("`command` ends inside a quote", "close the quote, or write the command as a list"),
            Ok(words) if words.is_empty() => fault("`command` is empty", "name a program"),
            Ok(words) => Some(CommandLine::Words(words)),
        },
    }
}

/// Keys whose texts never become a name, an argument or a variable.
const DATA_KEYS: [&str; 4] = ["text", "find", "with", "read"];

/// Whether there is a NUL other than those that mark what a trial fills in.
fn has_nul(text: &str) -> bool {
    // Placeholders of what only a trial knows are a word between two of them.
    let mut parts = text.split('\0');
    let outer = parts.next();
    let inner: Vec<&str> = parts.collect();
    let is_placeholder =
        |part: &str| ["dir", "tmp", "instance", "port", "data"].contains(&part) || part.starts_with("service.");
    outer.is_some() && !(inner.len().is_multiple_of(2) && inner.iter().step_by(2).all(|part| is_placeholder(part)))
}

/// The system takes no argument, variable or path with a NUL in it.
fn no_nul(node: &Node, problems: &mut Problems<'_>) {
    match &node.value {
        Value::Text(text) if has_nul(text) => {
            problems.fault(node, "a text of a program cannot contain the character NUL", "remove `\\u0000`");
        }
        Value::List(items) => items.iter().for_each(|item| no_nul(item, problems)),
        Value::Table(entries) => {
            let given = entries.iter().filter(|entry| !DATA_KEYS.contains(&entry.key.as_str()));
            given.for_each(|entry| no_nul(&entry.node, problems));
        }
        _ => {}
    }
}

/// Faults of the names in `env` and `inherit`, each where it is written.
fn names_of_variables(env: Option<&Node>, inherit: Option<&Node>, problems: &mut Problems<'_>) {
    for entry in env.and_then(Node::table).unwrap_or_default() {
        name_of_variable(&entry.key, &entry.key_span, problems);
    }
    for node in inherit.into_iter().flat_map(Node::items) {
        name_of_variable(&word(node), node, problems);
    }
}

fn name_of_variable(name: &str, at: impl At + Copy, problems: &mut Problems<'_>) {
    if name.is_empty() || name.contains(['=', '\0']) {
        problems.add(Problem::new(at, format!("`{name}` is not a valid name of a variable")));
    }
    if name.starts_with("PRONY_") || name == "TMPDIR" {
        problems.fault(at, format!("the variable `{name}` is set by prony"), "choose another name");
    }
}

/// Further copies of the program; `None` where their number is 0. `shell` is the program's.
fn replicas(node: &Node, shell: Option<&Node>, problems: &mut Problems<'_>) -> Option<ReplicasSpec> {
    let view = View::new(Some(node), &grammar::REPLICAS);
    if let Some(node) = view.get("read") {
        reading_pattern(node, problems);
    }
    let spec = ReplicasSpec {
        count: view.whole("count")? as u32,
        phase: view.text("phase")?,
        env: view.get("env").map(env).unwrap_or_default(),
        command: view.get("command").and_then(|node| command(node, shell, problems)),
        read: view.plain("read").map(str::to_owned),
    };
    names_of_variables(view.get("env"), None, problems);
    (spec.count > 0).then_some(spec)
}

/// Where relative paths start.
pub(crate) struct Place<'f> {
    pub(crate) file: &'f str,
}

impl Place<'_> {
    pub(crate) fn resolve(&self, path: &str) -> String {
        let folder = Path::new(self.file).parent().unwrap_or(Path::new(""));
        folder.join(path).to_string_lossy().into_owned()
    }

    fn input(&self, node: &Node) -> Option<InputSpec> {
        match node.table() {
            None => Some(InputSpec::File(self.resolve(&unescaped(node)?))),
            Some(_) => {
                let view = View::new(Some(node), &grammar::INPUT);
                let file = view.text("file").map(|path| InputSpec::File(self.resolve(&path)));
                file.or_else(|| view.text("text").map(InputSpec::Text))
            }
        }
    }

    fn output(&self, node: &Node) -> Option<OutputTo> {
        if node.table().is_none() {
            return Some(named(node).unwrap_or(OutputTo::Capture));
        }
        View::new(Some(node), &grammar::OUTPUT).text("file").map(|path| OutputTo::File(self.resolve(&path)))
    }

    fn change(&self, node: &Node, spec: &mut ProgramSpec, problems: &mut Problems<'_>) {
        let view = View::new(Some(node), &grammar::CHANGE);
        if alters_nothing(&view, spec) {
            let message = "this change alters nothing";
            problems.fault(node, message, "write another change, or `{}` for the program as it is");
        }
        spec.env.extend(view.get("env").map(env).unwrap_or_default());
        spec.changes.extend(view.text("revision").map(|of| Change::Revision { of }));
        let manager = view.word("manager");
        for node in view.get("dependency").into_iter().flat_map(Node::items) {
            let Some(text) = unescaped(node) else { continue };
            match package(&text) {
                Some((name, version)) => {
                    let (name, version) = (name.to_owned(), version.to_owned());
                    spec.changes.push(Change::Dependency { name, version, manager });
                }
                None => {
                    problems.fault(node, format!("`{text}` is not a package with a version"), "write `name@version`");
                }
            }
        }
        for node in view.get("replace").into_iter().flat_map(Node::items) {
            let view = View::new(Some(node), &grammar::REPLACE);
            let (Some(file), Some(find), Some(with)) = (view.text("file"), view.plain("find"), view.plain("with"))
            else {
                continue;
            };
            let count = view.whole("count").unwrap_or(1);
            let mut fault = |key: &str, message: &str, hint: &str| {
                let at = view.get(key).unwrap_or(node);
                problems.fault(at, message, hint);
            };
            if find.is_empty() {
                fault("find", "`find` is empty", "write the text to replace");
            } else if find == with {
                fault("with", "`with` is the same text as `find`, so nothing changes", "write another text");
            }
            spec.changes.push(Change::Replace { file, find: find.to_owned(), with: with.to_owned(), count });
        }
        let patches = texts(view.get("patch"));
        spec.changes.extend(patches.iter().map(|file| Change::Patch { file: self.resolve(file) }));
    }
}

/// Whether a change that is not empty sets only variables that the program has already, or names a manager without a dependency.
fn alters_nothing(view: &View<'_>, spec: &ProgramSpec) -> bool {
    let has = |key: &&str| view.get(key).is_some();
    let variables = view.get("env").map(env).unwrap_or_default();
    // One of several levels may be the program's own.
    let is_filled = |node: &Node| {
        node.via.is_none() && node.table().is_some_and(|all| all.iter().any(|one| one.node.via.is_some()))
    };
    if view.get("env").is_some_and(is_filled) {
        return false;
    }
    ["env", "manager"].iter().any(has)
        && !["revision", "dependency", "replace", "patch"].iter().any(has)
        && variables.iter().all(|(name, value)| spec.env.get(name) == Some(value))
}

/// Whether a phase as written says how it is observed.
pub(crate) fn is_observed(node: &Node) -> bool {
    let has = |key: &str| node.entry(key).is_some();
    grammar::observed_keys().any(has) || !grammar::PHASE.actions().into_iter().any(has)
}

/// The phase of a program without phases of its own.
pub(crate) fn whole_program(limit: Option<Nanos>) -> PhaseSpec {
    PhaseSpec {
        name: WHOLE.to_owned(),
        timed: true,
        action: Action::Observe(ObserveSpec::WHOLE),
        background: None,
        limit,
    }
}

/// An observed phase whose form was checked.
pub(crate) fn phase(node: &Node, frame: &Frame, problems: &mut Problems<'_>) -> Option<PhaseSpec> {
    let view = View::new(Some(node), &grammar::PROGRAM_PHASE);
    let name = name(node, problems)?;
    one_way(node, problems);
    let frame = &Frame { limit: view.time("limit").or(frame.limit), ..*frame };
    let bound = |key: &str, shape: &'static TableShape, problems: &mut Problems<'_>| {
        view.get(key).and_then(|node| trigger(node, shape, frame, problems))
    };
    let (begin, end) = (bound("begin", &grammar::BEGIN, problems), bound("end", &grammar::END, problems));
    let has_bound = ["begin", "end", "mark", "read", "call"].iter().any(|key| node.entry(key).is_some());
    let mark = view.text("mark").or_else(|| (!has_bound).then(|| name.clone())).map(Trigger::Mark);
    let both = view.text("call").map(Trigger::Call).or(mark);
    if let Some(node) = view.get("call") {
        call(node, frame.runtime, problems);
    }
    let read = view.plain("read").map(str::to_owned);
    if let Some(node) = view.get("read") {
        reading_pattern(node, problems);
    }
    let stop = view.plain("then") == Some("stop");
    let observe = ObserveSpec {
        begin: begin.or_else(|| both.clone()),
        end: end.or(both),
        read,
        stop,
        at_end: view.get("at_end").map(|node| at_end(node, stop, problems)),
    };
    if observe.stop && observe.end.is_none() {
        let message = "the phase ends with the program, so there is nothing to stop";
        problems.fault(view.key_span("then"), message, "give the phase an `end`, or remove `then`");
    }
    if let Some(background) =
        node.entry("background").filter(|_| !grammar::PHASE.actions().iter().any(|key| node.get(key).is_some()))
    {
        let message = "only a phase with operations on a store has a `background`";
        problems.fault(&background.key_span, message, "remove `background`");
    }
    Some(PhaseSpec {
        name,
        timed: view.flag("timed").unwrap_or(true),
        action: Action::Observe(observe),
        background: None,
        limit: frame.limit,
    })
}

/// The bounds of a phase are given in one way only.
fn one_way(node: &Node, problems: &mut Problems<'_>) {
    let bound = node.entry("begin").or(node.entry("end"));
    if let (Some(mark), true) = (node.entry("mark"), bound.is_some()) {
        let message = "`mark` sets begin and end of the phase, so `begin` and `end` cannot be set too";
        problems.fault(&mark.key_span, message, "write `begin = { mark = \"NAME\" }`");
    }
    let other = bound.or(node.entry("mark"));
    if let (Some(call), Some(other)) = (node.entry("call"), other) {
        let message = format!("`call` sets begin and end of the phase, so `{}` cannot be set too", other.key);
        problems.fault(&call.key_span, message, "write `begin = { call = \"...\" }` and an `end`, or make two phases");
    }
    let line = node.get("begin").and_then(|begin| begin.entry("line"));
    let mark = node.get("end").and_then(|end| end.entry("mark"));
    if let (Some(_), Some(mark)) = (line, mark) {
        let message = "the phase begins with a line and ends with a mark, but their order is not known: they arrive \
                       by different channels";
        let hint = "begin the phase with a mark too, `begin = { mark = \"NAME\" }`, or end it with a line";
        problems.fault((&mark.node, mark.key_span.clone()), message, hint);
    }
    let called = node.entry("call").or_else(|| node.get("end")?.entry("call"));
    if let (Some(at_end), None) = (node.entry("at_end"), called) {
        let message = "`at_end` needs a `call`, at whose end it suspends the program";
        problems.fault(&at_end.key_span, message, "add `call = \"FILE#EXPORT\"` to the phase, or remove `at_end`");
    }
}

fn at_end(node: &Node, stop: bool, problems: &mut Problems<'_>) -> AtEndSpec {
    let view = View::new(Some(node), &grammar::AT_END);
    if view.get("wait").is_some() && view.get("settle").is_some() {
        let message = "`wait` and `settle` exclude each other";
        problems.fault((node, view.key_span("wait")), message, "remove one of the two keys");
    }
    let (collect, wait) = (view.flag("collect").unwrap_or(false), view.time("wait"));
    // A program that does not continue cannot notice cleared references.
    let weak = view.word("weak").unwrap_or(if stop { Weak::Clear } else { Weak::Turn });
    if view.get("weak").is_some() && !collect {
        let message = "`weak` applies to a forced garbage collection, but none is forced";
        problems.fault((node, view.key_span("weak")), message, "add `collect = true`, or remove `weak`");
    }
    // The time in which a program is suspended counts for no limit of a phase.
    AtEndSpec { collect, weak, wait, settle: view.get("settle").map(|node| settle(node, None, problems)) }
}

fn reading_pattern(node: &Node, problems: &mut Problems<'_>) {
    let Some(regex) = pattern(node, problems) else { return };
    let groups: Vec<&str> = regex.capture_names().flatten().collect();
    if groups.is_empty() {
        let message = "the pattern has no named group, so nothing is read";
        problems.fault(&node.span, message, "name a group after the metric that is read: `(?<time>[0-9.]+)s`");
    }
    for group in groups.into_iter().filter(|group| *group != DIGEST_GROUP && group_meaning(group).is_none()) {
        let hint = "name the group after a metric, with underscores, then a unit: `time_ms`, `operations`, `heap_used_mb`; \
             or `digest`";
        problems.fault(&node.span, format!("the group `{group}` names no metric"), hint);
    }
}
