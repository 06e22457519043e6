//! Checks that each `call` of a program's phases (a function to be timed) matches one function only: of several, the
//! first one loaded would be timed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use prony_experiment::Problem;
use prony_experiment::design::Experiment;
use prony_model::program::{ProgramSpec, Trigger};
use prony_model::spec::{Action, PhaseSpec};
use prony_runtime::Runtime;

use crate::error::Error;
use crate::revision;

/// The functions of a phase.
fn calls(phase: &PhaseSpec) -> impl Iterator<Item = &str> {
    let observe = if let Action::Observe(observe) = &phase.action { Some(observe) } else { None };
    let triggers = observe.into_iter().flat_map(|observe| [&observe.begin, &observe.end]).flatten();
    triggers.filter_map(|trigger| match trigger {
        Trigger::Call(call) | Trigger::Invocation(call) => Some(call.as_str()),
        _ => None,
    })
}

/// Checks that each `call` of a program matches a function of at most one file below its directory.
///
/// # Errors
/// [`Error::AmbiguousCall`] with the first that matches several.
pub(crate) fn unambiguous(program: &ProgramSpec, phases: &[PhaseSpec], directory: &Path) -> Result<(), Error> {
    let Some(runtime) = program.runtime else { return Ok(()) };
    let calls: Vec<(&str, &str)> =
        phases.iter().flat_map(|phase| calls(phase).map(|call| (phase.name.as_str(), call))).collect();
    let texts: Vec<&str> = calls.iter().map(|(_, call)| *call).collect();
    let found = prony_runtime::matches(runtime, &texts, directory);
    match calls.iter().zip(&found).find(|(_, files)| files.len() > 1) {
        Some(((phase, call), files)) => Err(ambiguous(program, phase, call, files, directory)),
        None => Ok(()),
    }
}

/// The error of a `call` that matches functions of several files.
pub fn ambiguous(program: &ProgramSpec, phase: &str, call: &str, files: &BTreeSet<PathBuf>, directory: &Path) -> Error {
    let runtime = program.runtime.unwrap_or(Runtime::Node);
    let names = prony_runtime::names(runtime, call, files, directory);
    let hint = match runtime {
        Runtime::Node => {
            // A package that lies in several places, or another with the end of its path, would be refused again.
            let fits = |package: &str| names.iter().filter(|name| name.ends_with(&format!("/{package}"))).count();
            let mut packages = names.iter().filter_map(|name| Some(name.rsplit_once("/node_modules/")?.1));
            let packaged = packages.find(|package| fits(package) == 1);
            let package = packaged.map(|name| format!(", or its package: `{name}`")).unwrap_or_default();
            let first = names.first().map_or("", String::as_str);
            format!("write the whole path of one file from the program's directory: `{first}`{package}")
        }
        Runtime::Python => {
            "modules of the same name were loaded from several files: give each module its own name".to_owned()
        }
    };
    Error::AmbiguousCall { phase: phase.to_owned(), call: call.to_owned(), names, hint }
}

/// Each `call` of an experiment that matches several files of a program's directory as it is now, with its place in the
/// experiment file. Copies that changes and builds alter are examined when they have been made.
pub fn problems(experiment: &Experiment) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut examined = Vec::new();
    for variant in experiment.variants() {
        let Some(program) = variant.spec.subject.program() else { continue };
        let Some(directory) = program.directory.as_deref().filter(|_| revision::of(program).is_none()) else {
            continue;
        };
        let calls: Vec<String> = variant.spec.phases.iter().flat_map(calls).map(str::to_owned).collect();
        let key = (directory.to_owned(), calls);
        if examined.contains(&key) {
            continue;
        }
        examined.push(key);
        if let Err(error) = unambiguous(program, &variant.spec.phases, Path::new(directory)) {
            let problem = problem(&error, experiment.source());
            problems.extend((!problems.contains(&problem)).then_some(problem));
        }
    }
    problems
}

/// At the first place where the call is written as a value; a call made by a factor has none.
fn problem(error: &Error, source: &str) -> Problem {
    let call = if let Error::AmbiguousCall { call, .. } = error { call.as_str() } else { "" };
    let is_value = |start: &usize| {
        let in_quotes =
            source[..*start].ends_with(['"', '\'']) && source[*start + call.len()..].starts_with(['"', '\'']);
        in_quotes && !source[..*start].lines().last().is_some_and(|line| line.trim_start().starts_with('#'))
    };
    let place = source.match_indices(call).map(|(start, _)| start).find(is_value);
    let (start, length) = place.map_or((0, 0), |start| (start, call.len()));
    let before = &source[..start];
    Problem {
        message: error.to_string(),
        span: start..start + length,
        line: before.matches('\n').count() + 1,
        column: before.chars().rev().take_while(|c| *c != '\n').count() + 1,
        hint: error.hint(),
        labels: Vec::new(),
        note: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was said at the first place of the text, in a comment.
    #[test]
    fn an_ambiguous_call_is_reported_where_it_is_a_value() {
        let error = Error::AmbiguousCall {
            phase: "p".to_owned(),
            call: "a.js#f".to_owned(),
            names: Vec::new(),
            hint: String::new(),
        };
        let at = |source: &str| {
            let found = problem(&error, source);
            (found.line, found.column, source[found.span].to_owned())
        };
        let call = || "a.js#f".to_owned();
        assert_eq!(at("# times a.js#f, as \"a.js#f\"\ntitle = \"of a.js#f\"\ncall = 'a.js#f'\n"), (3, 9, call()));
        assert_eq!(at("call = \"{function}\"\n"), (1, 1, String::new()));
    }
}
