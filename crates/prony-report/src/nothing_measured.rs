//! What a brief report says in place of tables where no trial has a value: how the trials ended, and what to do next.

use std::collections::BTreeSet;

use prony_experiment::design::Experiment;
use prony_model::number::count;
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::record::{Completion, TrialRecord};
use prony_results::RunData;

use super::model::{FindingLine, Remarks};
use super::variants::by_variant;
use super::words::{ended, evidence_text};

/// At most so many variants are listed; the others are counted.
const LISTED: usize = 8;

/// What a shell exits with where there is no program of the name.
const NOT_FOUND: i32 = 127;

/// What a shell exits with where a signal ended its program: 128 and the signal's number.
const OF_SIGNALS: std::ops::RangeInclusive<i32> = 129..=192;

/// The headline with what to do, and how the trials of each variant ended; `None` where a phase of a trial has a value, or
/// nothing has run. `commands` are the names of variants, where commands are compared; `warned` says that a warning about
/// them stands above.
pub(super) fn nothing_measured(data: &RunData, commands: &[String], warned: bool) -> Option<(FindingLine, Remarks)> {
    let RunData { experiment, trials, .. } = data;
    if trials.is_empty() || trials.iter().any(has_value) {
        return None;
    }
    let of_variants = by_variant(trials);
    let of_variants = experiment.variants().iter().filter_map(|variant| Some((variant, of_variants.get(&variant.id)?)));
    let mut lines: Vec<String> = of_variants
        .map(|(variant, own)| {
            let name = commands.get(variant.id).cloned().unwrap_or_else(|| experiment.labels(variant));
            line(&name, own)
        })
        .collect();
    let more = lines.len().saturating_sub(LISTED);
    lines.truncate(LISTED);
    lines.extend((more > 0).then(|| format!("and {}", count(more, "more variant"))));
    let text = match trials.len() {
        1 => "nothing was measured: the only trial failed".to_owned(),
        n => format!("nothing was measured: none of the {n} trials succeeded"),
    };
    let step = next_step(experiment, trials, !commands.is_empty());
    let hint = if warned { "see the warning above".to_owned() } else { step };
    let of = if experiment.variants().len() > 1 { " of each variant" } else { "" };
    // Not all evidence is output: a signal, or a limit.
    let note = format!("the reason after the counts is that of one trial{of}");
    let finding = FindingLine { severity: "warning", text, hint };
    Some((finding, Remarks { title: "How the trials ended", lines, note }))
}

/// Evidence is all that such a report has: it is quoted up to so many characters.
const WHOLE: usize = 2_000;

/// Whether some metric of the trial may count.
fn has_value(trial: &TrialRecord) -> bool {
    let none = [Completion::NotReached, Completion::Partial, Completion::AfterFailure];
    trial.ending.outcome.is_ok() || trial.phases.iter().any(|phase| !none.contains(&phase.completion))
}

fn line(name: &str, trials: &[&TrialRecord]) -> String {
    let why = evidence_text(trials, WHOLE).map(|(_, text)| format!(": {text}")).unwrap_or_default();
    // A single variant of a file has no name.
    let name = if name.is_empty() { String::new() } else { format!("`{name}`, ") };
    format!("{name}{}: {}{why}", count(trials.len(), "trial"), ended(trials))
}

/// Whether the failure of a trial is that of a service, on which no key of the program has an effect: the evidence begins with its name.
fn is_of_service(trial: &TrialRecord) -> bool {
    trial.ending.evidence.first().is_some_and(|text| text.starts_with("service `"))
}

/// Whether the command of a trial could not be executed.
fn was_not_executed(trial: &TrialRecord) -> bool {
    trial.ending.evidence.first().is_some_and(|text| text.starts_with("cannot execute"))
}

/// The exit code with which a program failed.
fn code_to_ignore(trials: &[TrialRecord]) -> Option<i32> {
    trials.iter().filter(|trial| !is_of_service(trial)).find_map(|trial| match trial.ending.outcome {
        Outcome::Failed { code } => code.filter(|code| *code != NOT_FOUND && !OF_SIGNALS.contains(code)),
        _ => None,
    })
}

/// What to do about an exit code with which a trial of a program failed; `typed` where options of `prony exec` stand for keys of a
/// file.
pub(super) fn to_ignore(experiment: &Experiment, trials: &[TrialRecord], typed: bool) -> Option<String> {
    let is_program = experiment.variants().iter().all(|variant| variant.spec.subject.program().is_some());
    code_to_ignore(trials).filter(|_| is_program).map(|code| {
        // Those that are ignored already would count as failures again.
        let programs = experiment.variants().iter().filter_map(|variant| variant.spec.subject.program());
        let all: BTreeSet<i32> = programs.flat_map(|program| program.success.iter().copied()).chain([code]).collect();
        let codes: Vec<String> = all.into_iter().filter(|code| *code != 0).map(|code| code.to_string()).collect();
        let ignored =
            if typed { format!("-i={}", codes.join(",")) } else { format!("success = [0, {}]", codes.join(", ")) };
        format!("if exit code {code} is no failure, ignore it with `{ignored}`")
    })
}

/// What to do about the first trial's outcome; `typed` where options of `prony exec` stand for keys of a file.
fn next_step(experiment: &Experiment, trials: &[TrialRecord], typed: bool) -> String {
    let by_itself = "run the command by itself to see all that it prints";
    let either = |option: &str, key: &str| format!("`{}`", if typed { option } else { key });
    let is_program = experiment.variants().iter().all(|variant| variant.spec.subject.program().is_some())
        && !trials.first().is_some_and(is_of_service);
    match trials.first().map(|trial| trial.ending.outcome) {
        Some(Outcome::Failed { code: Some(NOT_FOUND) }) if is_program => {
            "exit code 127 is that of a shell that finds no program: see what it printed, and check `PATH`".to_owned()
        }
        Some(Outcome::Failed { code: Some(_) }) if is_program => {
            let ignored = to_ignore(experiment, trials, typed).map(|ignored| format!("; {ignored}"));
            format!("{by_itself}{}", ignored.unwrap_or_default())
        }
        // It never ran: by itself it would print nothing either.
        Some(Outcome::Failed { code: None }) if trials.first().is_some_and(was_not_executed) => {
            "remove the cause that is named below".to_owned()
        }
        Some(Outcome::TimedOut) => {
            format!("raise the time limit, {}, or shorten the work", either("--time", "[limits] time"))
        }
        Some(Outcome::OutOfMemory { by: OutOfMemory::Limit }) => {
            format!("raise the memory limit, {}, or reduce the work", either("--memory", "[limits] memory"))
        }
        _ if is_program => by_itself.to_owned(),
        _ => "remove the cause that is named below".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use prony_model::outcome::Ending;
    use prony_model::record::Conditions;
    use prony_model::units::Nanos;
    use serde_json::json;

    use super::*;

    fn failed(evidence: &str) -> TrialRecord {
        let trial = serde_json::from_value(json!({
            "trial": { "block": 0, "sub_block": 0, "position": 0, "variant": 0, "label": "a", "seed": 1 },
            "started_unix_ms": 0, "took": 1, "ending": { "outcome": Outcome::Ok, "phase": null, "after": 1, "evidence": [] },
            "phases": [], "effective": null, "conditions": Conditions::default(), "series": [],
            "sampler_cpu": { "measured": 0 }, "findings": []
        }));
        let trial: TrialRecord = trial.unwrap();
        let outcome = Outcome::Failed { code: Some(3) };
        TrialRecord { ending: Ending { outcome, evidence: vec![evidence.to_owned()], ..trial.ending.clone() }, ..trial }
    }

    /// It was `failed (exit code 3) at 0 us`, whatever had been waited for.
    #[test]
    fn trial_that_did_not_begin_has_no_time() {
        let mut trial = failed("service `db` was not ready within 2.000 s");
        assert!(line("", &[&trial]).starts_with("1 trial: failed (exit code 3) at "), "{}", line("", &[&trial]));
        trial.ending.after = Nanos::ZERO;
        assert_eq!(line("", &[&trial]), "1 trial: failed (exit code 3): service `db` was not ready within 2.000 s");
    }

    #[test]
    fn exit_code_of_a_service_is_not_ignored_by_a_key_of_the_program() {
        let of_service = failed("service `db` ended before the trial did");
        let of_program = failed("the process exited with code 3");
        assert_eq!(code_to_ignore(std::slice::from_ref(&of_service)), None);
        assert_eq!(code_to_ignore(&[of_service, of_program]), Some(3));
        let mut crashed = failed("the process exited with code 139");
        crashed.ending.outcome = Outcome::Failed { code: Some(139) };
        assert_eq!(code_to_ignore(&[crashed]), None, "a segmentation fault below a shell");
    }
}
