//! Finds the trials during which the machine was disturbed, from the state of the machine in their records (METHOD
//! 4.10).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Finding, Severity, percent};
use prony_model::number;
use prony_model::reading::Reading;
use prony_model::record::{Conditions, ReferenceTimes, TrialRecord};
use prony_model::units::Nanos;
use prony_stats::summary;

/// A trial is marked where a reference workload beside it took more than this multiple of the run's median.
const SLOWER: f64 = 1.25;

/// Share of the CPU time given to other virtual machines (steal time) above which a trial is marked.
const STEAL: f64 = 0.02;

/// Share of the time in which tasks waited for memory above which a trial is marked.
const MEMORY_PRESSURE: f64 = 0.01;

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

/// Measurements from a record's `conditions`; `None` where one was not made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Disturbances {
    /// Time of each reference workload by name in nanoseconds: the longer of the two, before and after the trial.
    pub reference_loops: Vec<(String, f64)>,
    /// Share of the CPU time given to other virtual machines (steal time).
    pub steal: Option<f64>,
    /// Share of the time in which some task waited for memory.
    pub pressure_memory: Option<f64>,
    /// Pages swapped in and out.
    pub swapped: Option<f64>,
    /// Thermal throttling events.
    pub throttled_thermal: Option<f64>,
    /// Throttling events by a limit on CPU time.
    pub throttled_limit: Option<f64>,
}

impl Disturbances {
    /// From a trial's conditions; what is not there is `None`.
    pub(crate) fn of(conditions: &Conditions) -> Self {
        let count = |reading: &Reading<u64>| reading.measured().map(|count| *count as f64);
        let throttled_limit = conditions.memory.as_ref().and_then(|evidence| count(&evidence.throttled));
        let Reading::Measured(machine) = &conditions.machine else {
            return Self { throttled_limit, ..Self::default() };
        };
        let times = |(name, took): (&str, Took)| {
            let slower = took(&machine.reference_before).max(took(&machine.reference_after))?;
            Some((name.to_owned(), slower.as_nanos() as f64))
        };
        let share = |reading: &Reading<f64>| reading.measured().copied();
        let change = &machine.change;
        Self {
            reference_loops: REFERENCE_LOOPS.into_iter().filter_map(times).collect(),
            steal: share(&change.steal),
            pressure_memory: share(&change.pressure_memory),
            swapped: count(&change.swapped),
            throttled_thermal: count(&change.throttled_thermal),
            throttled_limit,
        }
    }
}

/// Why a trial counts as disturbed, in words; empty where it does not. `usual` is the run's median time of each
/// reference workload.
fn signs(disturbances: &Disturbances, usual: &[(String, f64)]) -> Vec<String> {
    let slow = |(name, took): &(String, f64)| {
        let (_, median) = usual.iter().find(|(other, _)| other == name)?;
        (*took > SLOWER * median)
            .then(|| format!("the {name} reference workload took {:.2} times as long as usual", took / median))
    };
    let mut signs: Vec<String> = disturbances.reference_loops.iter().filter_map(slow).collect();
    let share = |value: Option<f64>, most: f64, what: &str| {
        value.filter(|v| *v > most).map(|v| format!("{} of the {what}", percent(v)))
    };
    signs.extend(share(disturbances.steal, STEAL, "CPU time went to other virtual machines (steal)"));
    signs.extend(share(disturbances.pressure_memory, MEMORY_PRESSURE, "time some task waited for memory"));
    signs.extend(disturbances.swapped.filter(|n| *n > 0.0).map(|n| format!("{} swapped", number::count(n, "page"))));
    signs.extend(
        disturbances
            .throttled_thermal
            .filter(|n| *n > 0.0)
            .map(|n| format!("throttled {} by heat", number::count(n, "time"))),
    );
    signs
}

/// The disturbed trials by position in the plan, each with the reasons.
fn marked(trials: &[&TrialRecord]) -> Vec<(u32, Vec<String>)> {
    let all_disturbances: Vec<Disturbances> = trials.iter().map(|t| Disturbances::of(&t.conditions)).collect();
    let usual = usual(&all_disturbances);
    let stalled = |trial: &TrialRecord| {
        let found = trial.findings.iter().find(|finding| finding.guard == STALLED)?;
        Some(format!("in `{}` the load generator did not run for a while", found.phase.as_deref().unwrap_or_default()))
    };
    let paused = |trial: &TrialRecord| {
        let found = trial.findings.iter().any(|finding| finding.guard == PAUSED);
        found.then(|| "prony itself did not run for a while".to_owned())
    };
    let signed = trials.iter().zip(&all_disturbances).map(|(trial, disturbances)| {
        let found = stalled(trial).into_iter().chain(paused(trial));
        (trial.trial.position, signs(disturbances, &usual).into_iter().chain(found).collect::<Vec<String>>())
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
fn usual(all_disturbances: &[Disturbances]) -> Vec<(String, f64)> {
    let median = |name: &str| {
        let all = all_disturbances.iter().flat_map(|w| &w.reference_loops).filter(|(other, _)| other == name);
        let took: Vec<f64> = all.map(|(_, took)| *took).collect();
        Some((name.to_owned(), summary(&took)?.median))
    };
    REFERENCE_LOOPS.into_iter().filter_map(|(name, _)| median(name)).collect()
}
