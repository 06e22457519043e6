//! The sentences at the top of a report: what ran, when, where and how it ended.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use prony_analysis::crash;
use prony_analysis::guard::{Finding, Severity, findings, run};
use prony_experiment::design::{Experiment, Variant};
use prony_model::number::count;
use prony_model::program::Change;
use prony_model::record::{EffectiveProgram, Status};
use prony_model::units::Nanos;
use serde_json::Value;

use super::machine;
use super::model::FindingLine;
use super::variants::trials_of;
use super::words::{QUOTED, evidence_text, grouped, instant};
use prony_analysis::verdicts::{self, names};
use prony_results::{RunData, RunStatus};

/// The sentences of a brief report: how many trials ended in which way. That trials failed is left to a finding.
pub(super) fn brief(data: &RunData) -> Vec<String> {
    std::iter::once(extent(data)).chain(ignored(data)).collect()
}

/// What ran, when, where and how it went; with the exit codes that programs were allowed to end with.
pub(super) fn preface(data: &RunData, programs: bool) -> Vec<String> {
    let mut lines = vec![extent(data)];
    if programs {
        lines.extend(ignored(data));
    }
    lines.extend(run::failures(&data.experiment, &data.trials).map(|text| format!("{text}.")));
    lines.push(times(data));
    lines.extend(machine::line(machine::first_session(&data.head, &data.trials).1));
    lines.extend(engines(data));
    lines.extend(revisions(data));
    lines.extend(constants(data));
    lines
}

/// Exit codes other than 0 that did not count as failures: `Exit codes ignored of `a`: 3 of 10 trials ended with 1.`
fn ignored(data: &RunData) -> Vec<String> {
    let experiment = &data.experiment;
    let of_variant = |variant: &Variant| {
        let own = || trials_of(data, variant.id);
        let mut codes: BTreeMap<i32, usize> = BTreeMap::new();
        for trial in own().filter(|trial| trial.ending.outcome.is_ok()) {
            if let Some(Status::Exited(code @ (..=-1 | 1..))) = trial.program().and_then(|program| program.status) {
                *codes.entry(code).or_default() += 1;
            }
        }
        let all = count(own().count(), "trial");
        let each: Vec<String> =
            codes.iter().map(|(code, n)| format!("{n} of {all} ended with exit code {code}")).collect();
        let whose = match experiment.variants().len() {
            0 | 1 => String::new(),
            _ => format!(" of `{}`", experiment.labels(variant)),
        };
        (!each.is_empty()).then(|| format!("Exit codes ignored{whose}: {}.", each.join(", ")))
    };
    experiment.variants().iter().filter_map(of_variant).collect()
}

/// What ran of a repository, and what else is to be known of the copies, as far as the record says it: `Revisions:
/// `old`: revision `v1` is commit 3ab; ...`.
fn revisions(data: &RunData) -> Option<String> {
    let experiment = &data.experiment;
    let of_variant = |variant: &Variant| {
        let Change::Revision { .. } = variant.spec.subject.program()?.changes.first()? else { return None };
        let said = trials_of(data, variant.id).filter_map(|trial| {
            let EffectiveProgram { changes, remarks, .. } = trial.program()?;
            let commit = changes.first().filter(|_| experiment.records_commands())?;
            Some(if remarks.is_empty() { commit.clone() } else { format!("{commit} ({})", remarks.join("; ")) })
        });
        let said: Vec<String> = said.collect::<BTreeSet<String>>().into_iter().collect();
        (!said.is_empty()).then(|| format!("`{}`: {}", experiment.labels(variant), said.join(", ")))
    };
    let each: Vec<String> = experiment.variants().iter().filter_map(of_variant).collect();
    (!each.is_empty()).then(|| format!("Revisions: {}.", each.join("; ")))
}

/// `` Run 7: 2 variants in 10 blocks, the baseline `store=lmdb` twice in each, 30 trials planned, 30 run: 28 ok, 2 out of memory. ``
/// A run that stopped early has `18 trials of at most 90`.
fn extent(data: &RunData) -> String {
    let head = &data.head;
    let variants = count(data.experiment.variants().len(), "variant");
    let blocks = data.trials.iter().map(|t| t.trial.block + 1).max().unwrap_or(0);
    let mut outcomes: BTreeMap<(bool, &str), usize> = BTreeMap::new();
    for trial in &data.trials {
        let outcome = trial.ending.outcome;
        *outcomes.entry((!outcome.is_ok(), outcome.name())).or_default() += 1;
    }
    let how = outcomes.iter().map(|((_, name), n)| format!("{n} {name}")).collect::<Vec<_>>().join(", ");
    let how = if how.is_empty() { String::new() } else { format!(": {how}") };
    let twice = match data.experiment.compare().twice.then(|| baseline(&data.experiment)).flatten() {
        Some(baseline) => format!(", {baseline} twice in each"),
        None => String::new(),
    };
    let (planned, finished) = (head.planned, data.trials.len());
    // A run that stopped as planned lacks nothing.
    let trials = if head.status == RunStatus::Done && finished > 0 && finished < planned as usize {
        format!("{} of at most {planned}", count(finished, "trial"))
    } else {
        format!("{} planned, {finished} run", count(planned, "trial"))
    };
    format!("Run {}: {variants} in {}{twice}, {trials}{how}.", head.id, count(blocks, "block"))
}

/// `` the baseline `store=lmdb` ``; without its name where each stratum has its own; `None` where nothing is compared.
fn baseline(experiment: &Experiment) -> Option<String> {
    let mut baselines = experiment.variants().iter().filter(|variant| variant.baseline);
    let first = baselines.next()?;
    let varying = names::varying(experiment);
    Some(match baselines.next() {
        None if !varying.is_empty() => format!("the baseline `{}`", names::levels(experiment, first.id, &varying)),
        _ => "the baseline".to_owned(),
    })
}

fn times(data: &RunData) -> String {
    let head = &data.head;
    let began = format!("Began {}", instant(head.started_unix_ms));
    let end = match (head.status, head.ended_unix_ms) {
        (RunStatus::Done, Some(ended)) => format!("took {}", took(data, ended)),
        (RunStatus::Interrupted, Some(ended)) => format!("interrupted after {}", took(data, ended)),
        _ => "has not ended".to_owned(),
    };
    let (_, _, version) = machine::first_session(head, &data.trials);
    format!("{began}, {end}; prony {version}, seed {}.", head.seed)
}

/// `12 min 3 s in 2 sessions`: the time between sessions, which may be days, is not counted. When a session before the last
/// ended is not recorded: it counts until its last trial ended.
fn took(data: &RunData, ended: u64) -> String {
    let head = &data.head;
    let resumed = head.resumed.iter().map(|session| (session.session, session.started_unix_ms));
    let sessions: Vec<(u32, u64)> = std::iter::once((0, head.started_unix_ms)).chain(resumed).collect();
    let last_trial = |session: u32| {
        let own = data.trials.iter().filter(|trial| trial.conditions.session == session);
        own.map(|trial| trial.started_unix_ms + trial.took.as_nanos() / 1_000_000).max()
    };
    let took = sessions.iter().enumerate().map(|(at, (session, started))| {
        let end = if at + 1 == sessions.len() { Some(ended) } else { last_trial(*session) };
        end.map_or(0, |end| end.saturating_sub(*started))
    });
    let took = Nanos::from_millis(took.sum());
    if sessions.len() == 1 { took.to_string() } else { format!("{took} in {} sessions", sessions.len()) }
}

/// Engines with the versions they gave.
fn engines(data: &RunData) -> Option<String> {
    let engines: BTreeSet<String> = data.trials.iter().filter_map(|t| Some(t.store()?.engine_and_version())).collect();
    let engines: Vec<String> = engines.into_iter().collect();
    (!engines.is_empty()).then(|| format!("Engines: {}.", engines.join(", ")))
}

/// Factors that are the same in every variant.
fn constants(data: &RunData) -> Option<String> {
    let experiment = &data.experiment;
    let first = experiment.variants().first()?;
    let varying = names::varying(experiment);
    let constant = experiment.factors().iter().enumerate().filter(|(at, _)| !varying.contains(at));
    let texts: Vec<String> = constant
        .filter_map(|(at, factor)| Some(format!("{} = {}", factor.name, factor.levels.get(first.levels[at])?.label)))
        .collect();
    (!texts.is_empty()).then(|| format!("The same in all variants: {}.", texts.join(", ")))
}

/// Findings of all trials, each kind once with its trials, the gravest first.
pub(super) fn findings(data: &RunData) -> Vec<FindingLine> {
    let found = data.trials.iter().enumerate().flat_map(|(at, t)| t.findings.iter().map(move |f| (at, f)));
    let found = grouped(found.map(|(at, finding)| (Kind::of(finding), (at, finding))));
    let primary = verdicts::declared(&data.experiment).into_iter().next();
    let done = data.head.status == RunStatus::Done;
    let mut of_run = findings::of_run(&data.experiment, &data.trials, primary.as_ref(), done);
    of_run.extend(crash::broken_promises(&data.experiment, &data.cuts));
    of_run.extend(machine::sessions_differ(&data.head, &data.trials));
    let mut lines: Vec<(Severity, FindingLine)> = gathered(&of_run);
    lines.extend(found.iter().map(|(kind, of)| (kind.severity, line(of, data))));
    // A footnote quotes the evidence of variants that failed in all trials.
    let ok = |variant: usize| trials_of(data, variant).any(|trial| trial.ending.outcome.is_ok());
    let failed = data.trials.iter().filter(|t| !t.ending.outcome.is_ok() && ok(t.trial.variant));
    let why = evidence_text(&failed.collect::<Vec<_>>(), QUOTED);
    let why = why.map(|(_, text)| format!("; one of them: {text}")).unwrap_or_default();
    let of_failures = lines.iter_mut().filter(|(_, line)| line.is_of("trials_failed"));
    of_failures.for_each(|(_, line)| line.text += &why);
    // That trials failed comes before what else may be said of the others.
    lines.sort_by_key(|(severity, line)| (Reverse(*severity), !line.is_of("trials_failed")));
    lines.into_iter().map(|(_, line)| line).collect()
}

/// What findings have in common that one line is for. Of a guard, variants may have different plans for the same query, and
/// notes of the worker may say different things; their numbers may differ.
#[derive(PartialEq)]
struct Kind<'f> {
    guard: &'f str,
    severity: Severity,
    phase: Option<&'f str>,
    plan: Option<&'f Value>,
    note: Option<String>,
}

impl<'f> Kind<'f> {
    fn of(finding: &'f Finding) -> Self {
        let is_note = finding.guard == "note_of_the_worker";
        Self {
            guard: &finding.guard,
            severity: finding.severity,
            phase: finding.phase.as_deref(),
            plan: finding.data.get("plan"),
            note: is_note.then(|| finding.message.replace(|sign: char| sign.is_ascii_digit(), "")),
        }
    }
}

/// One line for each guard and phase: the first finding, and how many say the like of other variants.
fn gathered(findings: &[Finding]) -> Vec<(Severity, FindingLine)> {
    let kinds = grouped(findings.iter().map(|f| ((&f.guard, f.severity, &f.phase), f)));
    kinds.iter().map(|((_, severity, _), of)| (*severity, of_run_line(of[0], of.len() - 1))).collect()
}

fn of_run_line(finding: &Finding, more: usize) -> FindingLine {
    let rest = if more > 0 { format!(" (and {} of this kind)", count(more, "more finding")) } else { String::new() };
    finding_line(finding, &format!(": {}{rest}", finding.message))
}

/// The guard and the phase, then this text.
fn finding_line(finding: &Finding, text: &str) -> FindingLine {
    let phase = finding.phase.as_ref().map(|p| format!(" in `{p}`")).unwrap_or_default();
    let text = format!("`{}`{phase}{text}", finding.guard);
    FindingLine { severity: word(finding.severity), text, hint: finding.hint.clone() }
}

const fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Refusal => "refusal",
    }
}

/// `` `query_plan` in `find`, 3 of 12 trials (those of `index=none`); the first: ... ``
fn line(findings: &[(usize, &Finding)], data: &RunData) -> FindingLine {
    let (trials, finding): (BTreeSet<usize>, _) = (findings.iter().map(|(at, _)| *at).collect(), findings[0].1);
    let n = trials.len();
    let first = if n > 1 { "; the first: " } else { ": " };
    let (all, of) = (count(data.trials.len(), "trial"), variants(&trials, data));
    finding_line(finding, &format!(", {n} of {all}{of}{first}{}", finding.message))
}

/// Of which variants some trials are: ` (all of `engine=lmdb`)`; nothing where they are of every variant.
fn variants(trials: &BTreeSet<usize>, data: &RunData) -> String {
    let variant = |at: usize| data.trials[at].trial.variant;
    let theirs: BTreeSet<usize> = trials.iter().map(|at| variant(*at)).collect();
    let all: BTreeSet<usize> = (0..data.trials.len()).map(variant).collect();
    let varying = names::varying(&data.experiment);
    let names: Vec<String> =
        theirs.iter().map(|id| format!("`{}`", names::levels(&data.experiment, *id, &varying))).collect();
    match names.as_slice() {
        _ if theirs == all || varying.is_empty() => String::new(),
        [one] => format!(" (those of {one})"),
        [before @ .., last] if before.len() < NAMED => format!(" (of {} and {last})", before.join(", ")),
        several => format!(" (of {} of {} variants)", several.len(), all.len()),
    }
}

/// So many variants are named, the others counted.
const NAMED: usize = 3;
