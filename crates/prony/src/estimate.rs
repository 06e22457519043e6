//! How long an experiment will take: from trials that ran before, else by a crude model that says so.

use std::fmt;
use std::path::Path;

use prony_core::experiment::design::Experiment;
use prony_core::experiment::spec::{Action, Amount, Durability, Grouping, Ops, PhaseSpec, TrialSpec};
use prony_core::plan::Outline;
use prony_core::units::Nanos;
use prony_engines::registry;

use crate::results::Database;

/// What a trial costs beside its phases: two processes, canaries, quiet between trials.
const AROUND: Nanos = Nanos::from_millis(250);
/// A phase of which nothing else is known.
const BRIEF: Nanos = Nanos::from_millis(20);
/// A commit that waits for the disk.
const SYNC: Nanos = Nanos::from_micros(1_500);
/// An operation in memory.
const OPERATION: Nanos = Nanos::from_micros(2);
/// Bytes a second through an engine to the disk.
const BYTES_PER_SECOND: f64 = 200e6;

/// How long, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// For the fewest trials.
    pub least: Nanos,
    /// For the most trials.
    pub most: Nanos,
    /// Trials of earlier runs that it rests on; 0 for the crude model alone.
    pub from: usize,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = (span(self.least), span(self.most));
        let range = if least == most { most } else { format!("{least} to {most}") };
        match self.from {
            0 => write!(f, "about {range}, by a crude model: expect a factor of 5 either way"),
            n => write!(f, "about {range}, by {n} trials of earlier runs"),
        }
    }
}

fn span(time: Nanos) -> String {
    match time.as_secs_f64() {
        s if s < 90.0 => format!("{} s", s.ceil()),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The time of the whole plan.
pub fn of(experiment: &Experiment, outline: &Outline, database: &Path) -> Estimate {
    let seen = earlier(experiment, database).unwrap_or_default();
    let mut estimate = Estimate { least: Nanos::ZERO, most: Nanos::ZERO, from: 0 };
    for (variant, planned) in experiment.variants().iter().zip(&outline.variants) {
        let known = seen.iter().find(|(spec, _, _)| *spec == variant.spec);
        let one = known.map_or_else(|| crude(&variant.spec, planned.data_bytes), |(_, mean, _)| *mean);
        estimate.from += known.map_or(0, |(_, _, trials)| *trials);
        let share = f64::from(planned.blocks.min.max(1)) / f64::from(planned.blocks.max.max(1));
        let most = one.as_nanos().saturating_mul(u64::from(planned.trials));
        let profiled = if outline.profiles > 0 { one } else { Nanos::ZERO };
        estimate.most += Nanos::from_nanos(most) + profiled;
        estimate.least += Nanos::from_nanos((most as f64 * share) as u64) + profiled;
    }
    estimate
}

/// Mean time of a trial and number of trials, for each spec that ran before; none where there is no database.
fn earlier(experiment: &Experiment, database: &Path) -> Option<Vec<(TrialSpec, Nanos, usize)>> {
    if !database.exists() {
        return None;
    }
    let database = Database::open(database).ok()?;
    let heads = database.runs().ok()?;
    let head = heads.iter().rev().find(|head| head.title == experiment.title() && head.finished > 0)?;
    let run = database.load_run(head.id).ok()?;
    let of_variant = |id: usize| {
        let took: Vec<u64> = run
            .trials
            .iter()
            .filter(|t| t.trial.variant == id && t.ending.outcome.is_ok())
            .map(|t| t.took.as_nanos())
            .collect();
        (!took.is_empty()).then(|| (Nanos::from_nanos(took.iter().sum::<u64>() / took.len() as u64), took.len()))
    };
    let variants = run.experiment.variants().iter();
    Some(variants.filter_map(|v| of_variant(v.id).map(|(mean, trials)| (v.spec.clone(), mean, trials))).collect())
}

fn crude(spec: &TrialSpec, data_bytes: f64) -> Nanos {
    let class = spec.subject.store().and_then(|store| Some(registry::check(store).ok()?.class));
    let synced = matches!(class, Some(Durability::Strict | Durability::Bounded));
    let records = spec.data.as_ref().map_or(0, |data| data.records);
    let per_record = if records > 0 { data_bytes / records as f64 } else { 0.0 };
    let phases = spec.phases.iter().map(|phase| crude_phase(phase, records, per_record, synced));
    phases.fold(AROUND, |sum, time| sum + time)
}

fn crude_phase(phase: &PhaseSpec, records: u64, per_record: f64, synced: bool) -> Nanos {
    match &phase.action {
        Action::Pause(time) => *time,
        Action::Settle(settle) => settle.quiet,
        Action::Observe(observe) => BRIEF + observe.settle().map_or(Nanos::ZERO, |settle| settle.quiet),
        Action::Verify => crude_bytes(records as f64 * per_record),
        action => {
            action.ops().map_or(BRIEF, |ops| crude_ops(ops, records, per_record, synced && action.changes_data()))
        }
    }
}

fn crude_ops(ops: &Ops, records: u64, per_record: f64, synced: bool) -> Nanos {
    let count = match ops.amount {
        Amount::Records => records,
        Amount::Count(count) => count,
        Amount::Duration(time) => return time,
    };
    let commits = match ops.transaction {
        Grouping::Each => count,
        Grouping::Batch(size) => count.div_ceil(size.max(1)),
        Grouping::Single | Grouping::Open => 1,
    };
    let pauses = ops.pause.map_or(0, |pause| (count / pause.every.max(1)).saturating_mul(pause.time.as_nanos()));
    let syncs = if synced { commits.saturating_mul(SYNC.as_nanos()) } else { 0 };
    let work = count.saturating_mul(OPERATION.as_nanos());
    Nanos::from_nanos(pauses.saturating_add(syncs).saturating_add(work)) + crude_bytes(count as f64 * per_record)
}

fn crude_bytes(bytes: f64) -> Nanos {
    Nanos::from_nanos((bytes / BYTES_PER_SECOND * 1e9) as u64)
}
