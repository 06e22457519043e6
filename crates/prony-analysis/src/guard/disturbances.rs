//! Finds the trials during which the machine was disturbed, from the state of the machine in their records (METHOD
//! 4.10).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Finding, Severity, percent};
use prony_model::metric::Metric;
use prony_model::number;
use prony_model::outcome::Outcome;
use prony_model::reading::Reading;
use prony_model::record::{Change, Conditions, PhaseRecord, ReferenceTimes, TrialRecord};
use prony_model::units::Nanos;
use prony_stats::summary;

/// A trial is marked where a reference workload beside it took more than this multiple of the run's median.
const SLOWER: f64 = 1.25;

/// Share of the CPU time given to other virtual machines (steal time) above which a trial is marked.
const STEAL: f64 = 0.02;

/// Share of the time in which tasks waited for memory above which a trial is marked.
const MEMORY_PRESSURE: f64 = 0.01;

/// The finding that the load generator of a trial, not the subject, may have been the limit.
pub const BUSY: &str = "generator_busy";

/// The finding that the load generator of a trial did not run for a while.
pub const STALLED: &str = "generator_stalled";

/// The finding that prony itself did not run for a while.
pub(crate) const PAUSED: &str = "prony_stopped";

/// The time that one of the reference workloads took.
type Took = fn(&ReferenceTimes) -> Option<Nanos>;

/// The reference workloads by name, each with what it took.
const REFERENCE_LOOPS: [(&str, Took); 3] = [
    ("cpu", |times| Some(times.cpu)),
    ("memory", |times| Some(times.memory)),
    ("fsync", |times| times.fsync.measured().copied()),
];

/// Whether a finding is that the load generator may have been the limit of a phase, or did not run for a while in it.
pub fn is_generator(finding: &Finding, phase: &str) -> bool {
    [BUSY, STALLED].contains(&finding.guard.as_str()) && finding.phase.as_deref() == Some(phase)
}

/// The phase in which requests were not answered in time, and in which the load generator may have been the limit (METHOD 6): such
/// an end of a trial shows nothing about the subject.
pub fn limited_by_generator(trial: &TrialRecord) -> Option<&str> {
    let name = trial.ending.phase.as_deref()?;
    let is_late = || trial.phases.iter().any(|phase| phase.name == name && failed_in_time_only(phase));
    let ended = match trial.ending.outcome {
        Outcome::Saturated => true,
        // The same rate, where requests end by their timeout before the wait is long.
        Outcome::Failed { code: None } => is_late(),
        _ => false,
    };
    (ended && trial.findings.iter().any(|finding| is_generator(finding, name))).then_some(name)
}

/// Whether requests of an open loop were not started in time, and others failed by their timeout only.
fn failed_in_time_only(phase: &PhaseRecord) -> bool {
    let of = |metric| phase.amount_of("", metric);
    let errors = of(Metric::Errors);
    of(Metric::Skipped).is_some_and(|skipped| skipped > 0.0) && errors.is_some() && errors == of(Metric::Timeouts)
}

/// What changed on the machine during a trial; `None` where that was not observed.
pub(super) fn change(conditions: &Conditions) -> Option<&Change> {
    Some(&conditions.machine.measured()?.change)
}

/// A number of events during a trial; 0 where it is not known.
pub(super) fn events(count: Option<&Reading<u64>>) -> f64 {
    count.and_then(Reading::measured).map_or(0.0, |count| *count as f64)
}

/// The time of each reference workload by name in nanoseconds: the longer of the two, before and after the trial.
pub(super) fn reference_loops(conditions: &Conditions) -> Vec<(&'static str, f64)> {
    let Reading::Measured(machine) = &conditions.machine else { return Vec::new() };
    let slower = |took: Took| took(&machine.reference_before).max(took(&machine.reference_after));
    let times = |(name, took): (&'static str, Took)| Some((name, slower(took)?.as_nanos() as f64));
    REFERENCE_LOOPS.into_iter().filter_map(times).collect()
}

/// Why a trial counts as disturbed, in words; empty where it does not. `usual` is the run's median time of each
/// reference workload.
fn signs(conditions: &Conditions, usual: &[(&str, f64)]) -> Vec<String> {
    let slow = |(name, took): (&str, f64)| {
        let (_, median) = usual.iter().find(|(other, _)| *other == name)?;
        (took > SLOWER * median)
            .then(|| format!("the {name} reference workload took {:.2} times as long as usual", took / median))
    };
    let mut signs: Vec<String> = reference_loops(conditions).into_iter().filter_map(slow).collect();
    let Some(change) = change(conditions) else { return signs };
    let share = |value: &Reading<f64>, most: f64, what: &str| {
        value.measured().filter(|v| **v > most).map(|v| format!("{} of the {what}", percent(*v)))
    };
    signs.extend(share(&change.steal, STEAL, "CPU time went to other virtual machines (steal)"));
    signs.extend(share(&change.pressure_memory, MEMORY_PRESSURE, "time some task waited for memory"));
    let [swapped, throttled] = [&change.swapped, &change.throttled_thermal].map(|count| events(Some(count)));
    signs.extend((swapped > 0.0).then(|| format!("{} swapped", number::count(swapped, "page"))));
    signs.extend((throttled > 0.0).then(|| format!("throttled {} by heat", number::count(throttled, "time"))));
    signs
}

/// The disturbed trials by position in the plan, each with the reasons.
fn marked(trials: &[&TrialRecord]) -> Vec<(u32, Vec<String>)> {
    let usual = usual(trials);
    let stalled = |trial: &TrialRecord| {
        let found = trial.findings.iter().find(|finding| finding.guard == STALLED)?;
        Some(format!("in `{}` the load generator did not run for a while", found.phase.as_deref().unwrap_or_default()))
    };
    let paused = |trial: &TrialRecord| {
        let found = trial.findings.iter().any(|finding| finding.guard == PAUSED);
        found.then(|| "prony itself did not run for a while".to_owned())
    };
    let signed = trials.iter().map(|trial| {
        let found = stalled(trial).into_iter().chain(paused(trial));
        (trial.trial.position, signs(&trial.conditions, &usual).into_iter().chain(found).collect::<Vec<String>>())
    });
    signed.filter(|(_, signs)| !signs.is_empty()).collect()
}

/// Positions of the trials that are marked as disturbed.
pub(crate) fn disturbed(trials: &[&TrialRecord]) -> BTreeSet<u32> {
    marked(trials).into_iter().map(|(position, _)| position).collect()
}

/// Trials during which the machine was disturbed. They are marked and kept: the verdict uses all trials.
pub(crate) fn disturbed_trials(trials: &[&TrialRecord]) -> Option<Finding> {
    let marked = marked(trials);
    let (first, why) = marked.first()?;
    let message = format!(
        "the machine disturbed {} of {}; the first of them is trial {}: {}",
        marked.len(),
        number::count(trials.len(), "trial"),
        first + 1,
        why.join(", ")
    );
    let hint = "where enough blocks have no disturbed trial, a verdict also states their ratio; if that says something else, or \
        too few are left, repeat the run on a quieter machine";
    let data: Vec<Value> =
        marked.iter().map(|(position, signs)| json!({ "trial": position + 1, "signs": signs })).collect();
    // On a shared machine single trials are disturbed in nearly every run; where many are, that is the run's main result.
    let many = marked.len() * 4 >= trials.len();
    let severity = if many { Severity::Warning } else { Severity::Note };
    Some(Finding::of("disturbed_trials", severity, message, hint).with(json!(data)))
}

/// The median of each reference workload over a run.
fn usual(trials: &[&TrialRecord]) -> Vec<(&'static str, f64)> {
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, took) in trials.iter().flat_map(|trial| reference_loops(&trial.conditions)) {
        all.entry(name).or_default().push(took);
    }
    all.into_iter().filter_map(|(name, took)| Some((name, summary(&took)?.median))).collect()
}
