//! Removes command lines from an experiment before it is recorded, if its file sets `record_commands = false`.

use std::borrow::Cow;

use serde_json::Value;

use super::design::{Experiment, Variant};
use prony_model::http::{BodySpec, HttpSpec, Part, RequestKind, Template};
use prony_model::program::{Change, CommandLine, InputSpec, ProgramSpec};
use prony_model::service::{CounterSource, ReadySign, ServiceSpec, holes};
use prony_model::spec::{Action, Subject};

/// The replacement for a text that is not recorded.
pub const LEFT_OUT: &str = "(left out of the record)";

impl Experiment {
    /// Whether command lines, variables and texts of programs are recorded.
    pub const fn records_commands(&self) -> bool {
        self.observe.record_commands
    }

    /// Whether its record does not suffice to run it: of programs, and without their command lines. What a store does is
    /// recorded whole.
    pub fn lacks_commands(&self) -> bool {
        let is_program =
            |variant: &Variant| variant.spec.measures_servers() || variant.spec.subject.program().is_some();
        !self.records_commands() && self.variants.iter().any(is_program)
    }

    /// The experiment as it is recorded: whole, or without command lines, variables, texts that programs and servers are given,
    /// paths, and the file's text. Everything on which measurements and comparisons depend is recorded.
    pub fn recorded(&self) -> Cow<'_, Self> {
        if self.records_commands() {
            return Cow::Borrowed(self);
        }
        let mut recorded = self.clone();
        recorded.source = recorded_source(&self.source);
        for level in recorded.factors.iter_mut().flat_map(|factor| &mut factor.levels) {
            // Labels are recorded, and so are numbers, which order the variants.
            let is_recorded = match &level.value {
                Value::Object(_) | Value::Array(_) => false,
                Value::String(text) => *text == level.label,
                _ => true,
            };
            if !is_recorded {
                level.value = Value::Null;
            }
        }
        for variant in &mut recorded.variants {
            // A resumed run compares where they lead.
            variant.spec.paths_mut().into_iter().for_each(|path| *path = hidden(path));
            if let Subject::Program(program) = &mut variant.spec.subject {
                leave_out(program);
            }
            if let Subject::Store(store) = &mut variant.spec.subject {
                store.url.iter_mut().for_each(|url| LEFT_OUT.clone_into(url));
            }
            variant.spec.services.iter_mut().for_each(leave_out_service);
            for phase in &mut variant.spec.phases {
                match &mut phase.action {
                    Action::Run(run) => run.command = line(),
                    Action::Http(http) => leave_out_requests(http),
                    _ => {}
                }
            }
        }
        Cow::Owned(recorded)
    }

    /// Whether a text is the file of this experiment, as far as the record shows.
    pub fn is_of(&self, text: &str) -> bool {
        self.source == text || self.source == recorded_source(text)
    }

    /// The environment variables that have other values in an experiment of the same file, as far as both use them.
    pub fn changed_variables(&self, recorded: &Self) -> Vec<&str> {
        let changed =
            |(name, now): &(&String, &String)| recorded.environment.get(*name).is_some_and(|then| then != *now);
        let all = self.environment.iter().filter(|_| recorded.is_of(&self.source)).filter(changed);
        all.map(|(name, _)| name.as_str()).collect()
    }
}

/// What is recorded of a file's text, so that it can be recognised.
fn recorded_source(text: &str) -> String {
    format!("# {LEFT_OUT}: a text of {} bytes, {}\n", text.len(), digest(text))
}

/// A hash (FNV-1a) by which texts that are not recorded can be distinguished. Whoever guesses a text can test the guess by it.
pub(crate) fn digest(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// The replacement for a text that is not recorded; different texts have different replacements.
pub fn hidden(text: &str) -> String {
    format!("{LEFT_OUT} {}", digest(text))
}

/// Guards compare the requests of variants, so different texts stay different.
fn leave_out_requests(http: &mut HttpSpec) {
    fn hide(template: &mut Template) {
        for part in &mut template.0 {
            match part {
                Part::Text(text) => *text = hidden(text),
                Part::Number | Part::Saved(_) | Part::Field(_) => {}
            }
        }
    }
    // Every field is named, here too.
    #[rustfmt::skip]
    let HttpSpec {
        server, kinds, other_machines,
        session: _, connections: _, threads: _, processors: _, rate: _, think: _, amount: _, warm_up: _, timeout: _, retry: _,
        order: _, collection: _, writes: _,
    } = http;
    // A placeholder or an address of this machine says which service gets the requests, which guards compare.
    if *other_machines && holes(server).is_empty() {
        *server = hidden(server);
    }
    for kind in kinds {
        let RequestKind { path, headers, body, name: _, weight: _, method: _, expect: _, answer: _, save: _ } = kind;
        hide(path);
        headers.iter_mut().for_each(|(_, value)| hide(value));
        match body {
            Some(BodySpec::Text(text)) => hide(text),
            Some(BodySpec::File { path: _, fill }) => {
                fill.values_mut().for_each(hide);
                *fill = std::mem::take(fill).into_iter().map(|(text, by)| (hidden(&text), by)).collect();
            }
            Some(BodySpec::Document) | None => {}
        }
    }
}

/// The replacement for a command that is not recorded.
fn line() -> CommandLine {
    CommandLine::Words(vec![LEFT_OUT.to_owned()])
}

fn leave_out_service(service: &mut ServiceSpec) {
    leave_out(&mut service.program);
    service.setup.iter_mut().for_each(|setup| *setup = line());
    service.running.iter_mut().for_each(|running| LEFT_OUT.clone_into(&mut running.url));
    match service.counters.as_mut().map(|counters| &mut counters.source) {
        Some(CounterSource::Command(command)) => *command = line(),
        Some(
            CounterSource::Postgresql(text)
            | CounterSource::Redis(text)
            | CounterSource::Mongodb(text)
            | CounterSource::Prometheus(text),
        ) => LEFT_OUT.clone_into(text),
        None => {}
    }
    match &mut service.ready.sign {
        ReadySign::Command(command) => *command = line(),
        ReadySign::Tcp(text) | ReadySign::Http(text) | ReadySign::Line(text) => LEFT_OUT.clone_into(text),
        ReadySign::Port | ReadySign::Started => {}
    }
}

fn leave_out(program: &mut ProgramSpec) {
    let hide = |text: &mut String| LEFT_OUT.clone_into(text);
    // Every field is named, so that a new one is not forgotten.
    #[rustfmt::skip]
    let ProgramSpec {
        command, build, prepare, conclude, cleanup, store, env, input, changes, replicas,
        directory: _, output: _, name: _, copy: _, links: _, inherit: _, pty: _, runtime: _, success: _, warmup: _,
    } = program;
    *command = line();
    [build, prepare, conclude, cleanup].into_iter().flatten().for_each(|step| *step = line());
    store.iter_mut().chain(env.values_mut()).for_each(hide);
    if let Some(replicas) = replicas {
        replicas.env.values_mut().for_each(hide);
        replicas.command = replicas.command.is_some().then(line);
    }
    if let InputSpec::Text(text) = input {
        hide(text);
    }
    for change in changes {
        match change {
            Change::Replace { file, find, with, count: _ } => [file, find, with].into_iter().for_each(hide),
            Change::Dependency { name, version, manager: _ } => [name, version].into_iter().for_each(hide),
            Change::Revision { of } => hide(of),
            Change::Patch { file: _ } => {}
        }
    }
}
