//! Says errors of the experiment that `prony exec` makes of its options in words of the command line: the user has not seen
//! the file, nor the names that its programs have.

use prony_experiment::Problem;
use prony_model::event::{Event, Observer};
use toml::de::{DeTable, DeValue};

use super::experiment_file::{Typed, program};
use crate::error::Error;
use prony_place::paths::FROM_FILE;

/// So many faults are shown at most.
const SHOWN: usize = 20;

/// Steps beside the trials, as errors name them, and their options.
const STEPS: [(&str, &str); 5] = [
    ("build", "--setup"),
    ("prepare", "--prepare"),
    ("conclude", "--conclude"),
    ("cleanup", "--cleanup"),
    ("a warm-up run", "--warmup"),
];

/// An observer that says notices in words of the options.
pub(super) struct Worded<'t, O> {
    pub(super) observer: O,
    pub(super) typed: &'t Typed,
}

impl<O: Observer> Observer for Worded<'_, O> {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Notice { text, hint } => {
                self.observer.event(&Event::Notice { text: steps(self.typed, text.clone()), hint: hint.clone() });
            }
            event => self.observer.event(event),
        }
    }
}

/// An error of checking the experiment or of running it, in words of the options of which it was made.
pub(super) fn of_options(error: impl Into<Error>, typed: &Typed) -> Error {
    let error = error.into();
    let before = error.text();
    let text = match &error {
        Error::Runner(prony_runner::Error::Experiment { text, problems, .. }) => {
            let mut faults: Vec<String> = problems.iter().map(|problem| fault(typed, text, problem)).collect();
            // An option such as `--output` is one of every program.
            faults.dedup();
            faults.into_iter().take(SHOWN).collect()
        }
        _ => steps(typed, before.clone()),
    };
    if text == before { error } else { Error::Worded { text } }
}

/// The text with `--setup` of `make` in place of the build of program `a`.
fn steps(typed: &Typed, mut text: String) -> String {
    for (at, label) in typed.labels().iter().enumerate() {
        for (step, option) in STEPS {
            let named = format!("{step} of program `{}` failed", program(at));
            text = text.replace(&named, &format!("`{option}` of `{label}` failed"));
        }
    }
    text
}

/// A fault of the file as one of the option from which its place in the file comes.
fn fault(typed: &Typed, text: &str, problem: &Problem) -> String {
    let path = DeTable::parse(text).ok().and_then(|table| path_to(table.get_ref(), problem.span.start));
    let path: Vec<&str> = path.iter().flatten().map(String::as_str).collect();
    let (key, name) = match path.as_slice() {
        ["factors", name, ..] if problem.message.contains("is not used") => {
            return format!(
                "error: the parameter `{name}` is not used in any command\n\
                 hint: write `{{{name}}}` where its value belongs, or leave the parameter out\n"
            );
        }
        ["factors", ..] => ("factors", "--parameter-list".to_owned()),
        ["program", name, "command", ..] => ("command", label(typed, name)),
        ["program", _, "env", ..] => ("env", "--env".to_owned()),
        ["program", _, key, ..] | [_, key, ..] => (*key, option(key)),
        _ => ("", String::new()),
    };
    let named = problem.message.replacen(&format!("`{key}`"), &format!("`{name}`"), 1);
    let is_named = name.is_empty() || named.contains(&format!("`{name}`"));
    let message = if is_named { named } else { format!("`{name}`: {named}") };
    let hint = problem
        .hint
        .as_ref()
        .filter(|hint| *hint != FROM_FILE)
        .map(|hint| format!("hint: {hint}\n"))
        .unwrap_or_default();
    format!("error: {message}\n{hint}")
}

/// The option that is written under this key.
fn option(key: &str) -> String {
    match key {
        "build" => "--setup".to_owned(),
        "blocks" => "--runs".to_owned(),
        "metrics" => "--metric".to_owned(),
        "success" => "--ignore-failure".to_owned(),
        "inherit" => "--env".to_owned(),
        key => format!("--{key}"),
    }
}

/// The command of a program's table.
fn label(typed: &Typed, name: &str) -> String {
    let label = typed.labels().into_iter().enumerate().find(|(at, _)| program(*at) == name);
    label.map_or_else(|| name.to_owned(), |(_, label)| label)
}

/// The keys that lead to what stands at an offset of a file.
fn path_to(table: &DeTable<'_>, at: usize) -> Option<Vec<String>> {
    table.iter().find_map(|(key, value)| {
        let inside = match value.get_ref() {
            DeValue::Table(table) => path_to(table, at),
            _ => None,
        };
        let here = key.span().contains(&at) || value.span().contains(&at);
        let below = inside.or_else(|| here.then(Vec::new))?;
        Some([vec![key.get_ref().to_string()], below].concat())
    })
}
