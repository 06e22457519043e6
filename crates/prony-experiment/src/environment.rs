//! Placeholders in programs and services for values from outside of the file: `{env.NAME}`, `{dir}`, `{tmp}`, `{instance}`,
//! `{port}`, `{data}`, `{service.NAME.port}`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use super::command_text::{self, Blanks, note_readers};
use super::node::{Entry, Node, RawExperiment, Reader, Value};
use super::placeholder::{replace, span_in, split};
use super::problem::{Problem, Problems};
use super::substitute::PLAIN;
use prony_model::program::{DIR, INSTANCE, TMP};
use prony_model::service::{DATA, OfService, PORT, hole};

/// Keys of a program in whose texts its working directory and its TMPDIR are replaced.
const WITH_DIR: [&str; 7] = ["command", "env", "store", "build", "prepare", "conclude", "cleanup"];

/// Keys of a service in whose texts values of instances of services are replaced too.
const WITH_SERVICES: [&str; 6] = ["command", "env", "prepare", "ready", "setup", "counters"];

/// Keys of a program in whose texts values of services are replaced too.
const BESIDE_SERVICES: [&str; 3] = ["command", "env", "prepare"];

/// Keys of replicas in whose texts these and `{instance}` are replaced.
const WITH_INSTANCE: [&str; 2] = ["command", "env"];

/// Values for texts of programs, and the place of a text. The variables are prony's own: their values are part of the
/// checked experiment, and so of its record.
#[derive(Clone, Copy)]
pub(crate) struct EnvironmentValues<'a> {
    variables: &'a BTreeMap<String, String>,
    used: &'a RefCell<BTreeMap<String, String>>,
    file: &'a str,
    dir: bool,
    instance: bool,
    service: bool,
}

fn entries(node: &mut Node) -> &mut [Entry] {
    match &mut node.value {
        Value::Table(entries) => entries,
        _ => &mut [],
    }
}

impl<'a> EnvironmentValues<'a> {
    /// For the texts of a file; `used` will have the variables whose values texts contain.
    pub(crate) fn new(
        variables: &'a BTreeMap<String, String>,
        used: &'a RefCell<BTreeMap<String, String>>,
        file: &'a str,
    ) -> Self {
        Self { variables, used, file, dir: false, instance: false, service: false }
    }

    /// Fills `{env.NAME}` into the texts of programs, and marks the places of `{dir}`, `{tmp}` and `{instance}`, which
    /// are known in a trial only. Texts from levels of factors are filled once the levels are known.
    pub(crate) fn fill(self, raw: &RawExperiment, problems: &mut Problems<'_>) -> RawExperiment {
        let mut filled = raw.clone();
        for section in entries(&mut filled.root) {
            match section.key.as_str() {
                "program" => {
                    entries(&mut section.node).iter_mut().for_each(|entry| self.program(&mut entry.node, problems));
                }
                "subject" => self.subject(&mut section.node, problems),
                "store" => self.store(&mut section.node, problems),
                "service" => {
                    let Value::List(services) = &mut section.node.value else { continue };
                    services.iter_mut().for_each(|service| self.service(service, problems));
                }
                "phase" => {
                    let Value::List(phases) = &mut section.node.value else { continue };
                    phases.iter_mut().for_each(|phase| self.phase(phase, problems));
                }
                _ => {}
            }
        }
        filled
    }

    /// The same in the command that a phase runs.
    pub(crate) fn phase(self, node: &mut Node, problems: &mut Problems<'_>) {
        note_readers(node);
        for key in entries(node).iter_mut().filter(|key| key.key == "run") {
            Self { service: true, ..self }.node(&mut key.node, problems);
        }
    }

    /// The same in the URL of a store.
    pub(crate) fn store(self, node: &mut Node, problems: &mut Problems<'_>) {
        for key in entries(node).iter_mut().filter(|key| key.key == "url") {
            Self { service: true, ..self }.node(&mut key.node, problems);
        }
    }

    /// The same in one program.
    pub(crate) fn program(self, node: &mut Node, problems: &mut Problems<'_>) {
        note_readers(node);
        for key in entries(node) {
            match key.key.as_str() {
                "replicas" => self.replicas(&mut key.node, problems),
                "change" => self.change(&mut key.node, problems),
                name => {
                    let with = self.with_places(WITH_DIR.contains(&name), false);
                    Self { service: BESIDE_SERVICES.contains(&name), ..with }.node(&mut key.node, problems);
                }
            }
        }
    }

    /// The same in one service.
    pub(crate) fn service(self, node: &mut Node, problems: &mut Problems<'_>) {
        note_readers(node);
        for key in entries(node) {
            let name = key.key.as_str();
            let with = self.with_places(WITH_DIR.contains(&name) || WITH_SERVICES.contains(&name), false);
            match name {
                "change" => self.change(&mut key.node, problems),
                _ if WITH_SERVICES.contains(&name) => {
                    let with = Self { service: true, instance: true, ..with };
                    match (name, &key.node.value) {
                        ("ready", Value::Table(_)) => with.except(&PLAIN, &mut key.node, problems),
                        _ => with.node(&mut key.node, problems),
                    }
                }
                _ => with.node(&mut key.node, problems),
            }
        }
    }

    /// The same in what `[subject]` changes in a program.
    pub(crate) fn subject(self, node: &mut Node, problems: &mut Problems<'_>) {
        for key in entries(node).iter_mut().filter(|key| key.key == "change") {
            self.change(&mut key.node, problems);
        }
    }

    /// The same in all of a table but these keys.
    fn except(self, keys: &[&str], table: &mut Node, problems: &mut Problems<'_>) {
        let included = entries(table).iter_mut().filter(|key| !keys.contains(&key.key.as_str()));
        included.for_each(|key| self.node(&mut key.node, problems));
    }

    fn replicas(self, node: &mut Node, problems: &mut Problems<'_>) {
        for key in entries(node).iter_mut().filter(|key| key.key != "read") {
            let with_instance = WITH_INSTANCE.contains(&key.key.as_str());
            let with = self.with_places(with_instance, with_instance);
            Self { service: with_instance, ..with }.node(&mut key.node, problems);
        }
    }

    fn change(self, node: &mut Node, problems: &mut Problems<'_>) {
        match &mut node.value {
            Value::List(items) => items.iter_mut().for_each(|item| self.change(item, problems)),
            Value::Table(keys) => {
                for key in keys {
                    let is_env = key.key == "env";
                    let with = Self { service: is_env, ..self.with_places(is_env, false) };
                    match &mut key.node.value {
                        Value::List(all) if key.key == "replace" => {
                            all.iter_mut().for_each(|one| with.except(&PLAIN, one, problems));
                        }
                        Value::Table(_) if key.key == "replace" => with.except(&PLAIN, &mut key.node, problems),
                        _ => with.node(&mut key.node, problems),
                    }
                }
            }
            _ => self.node(node, problems),
        }
    }

    const fn with_places(self, dir: bool, instance: bool) -> Self {
        Self { dir, instance, ..self }
    }

    fn node(&self, node: &mut Node, problems: &mut Problems<'_>) {
        match &mut node.value {
            Value::Text(_) => self.text(node, problems),
            Value::List(items) => items.iter_mut().for_each(|item| self.node(item, problems)),
            Value::Table(entries) => entries.iter_mut().for_each(|entry| self.node(&mut entry.node, problems)),
            _ => {}
        }
    }

    fn text(&self, node: &mut Node, problems: &mut Problems<'_>) {
        // The validator, which reads the text as it is written, reports faults of the braces.
        let Some(text) = node.text().filter(|text| split(text).is_ok()) else { return };
        let of_service = |name: &str| matches!(name, "port" | "data") || name.starts_with("service.");
        let value = |name: &str, at: &Range<usize>| {
            match name {
            "dir" if self.dir => Some(DIR.to_owned()),
            "tmp" if self.dir => Some(TMP.to_owned()),
            "instance" if self.instance => Some(INSTANCE.to_owned()),
            _ if self.service && of_service(name) => Some(of_services(name).unwrap_or_else(|| {
                let hint = "write `{service.NAME.port}`, `.url` or `.data`; of the second of several instances `{service.NAME.2.port}`";
                problems.fault(span_in(node, self.file, at), format!("`{{{name}}}` names no value of a service"), hint);
                String::new()
            })),
            _ => name.strip_prefix("env.").map(|name| self.variable(name, node, at, problems)),
        }
        };
        let filled = match node.reader {
            Some(Reader::Words) => command_text::replace(text, Blanks::Belong, value),
            _ => replace(text, value),
        };
        if filled != text {
            *node = Node { value: Value::Text(filled), digits: None, ..node.clone() };
        }
    }

    /// The value of a variable of prony's own, braces escaped; nothing where it has none, which is reported.
    fn variable(&self, name: &str, node: &Node, at: &Range<usize>, problems: &mut Problems<'_>) -> String {
        if let Some(value) = self.variables.get(name) {
            self.used.borrow_mut().insert(name.to_owned(), value.clone());
            return value.replace('{', "{{").replace('}', "}}");
        }
        let message = format!("the environment variable `{name}` is not set");
        let problem = Problem::new(span_in(node, self.file, at), message);
        let hint = format!("set the variable for prony: `{name}=... prony ...`");
        problems.add_unfilled(node.span.clone(), problem.hint(hint));
        String::new()
    }
}

/// What marks the place of a value of a service; `None` where the name is of none.
fn of_services(name: &str) -> Option<String> {
    match name {
        "port" => return Some(PORT.to_owned()),
        "data" => return Some(DATA.to_owned()),
        _ => {}
    }
    let (service, value) = name.strip_prefix("service.")?.rsplit_once('.')?;
    let value = OfService::named(value)?;
    let (service, number) = match service.rsplit_once('.') {
        Some((service, number)) => (service, number.parse().ok().filter(|number| *number > 0)?),
        None => (service, 1),
    };
    Some(hole(service, number, value))
}
