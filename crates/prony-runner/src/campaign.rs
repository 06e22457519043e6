//! A run in progress: its plan, the database for its trials, and when each trial is stored there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use prony_analysis::verdicts::gate::Gate;
use prony_experiment::design::Experiment;
use prony_model::record::TrialRecord;
use prony_model::trial::PlannedTrial;
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_results::{Database, RunId};

use crate::error::Error;
use crate::new_warnings::NewWarnings;

/// Trials that are shorter are stored several at once where care is light.
const SHORT: Nanos = Nanos::from_millis(5);

/// A finished short trial is stored after this time at the latest, unless a later trial takes longer than those of its
/// variant did.
const GATHERED: Duration = Duration::from_millis(20);

/// A run in the database and the rest of its plan.
pub struct Campaign<'a> {
    /// The database for finished trials.
    pub database: &'a mut Database,
    /// The run's number there.
    pub run: RunId,
    /// The whole plan.
    pub plan: &'a [PlannedTrial],
    /// Finished trials: the first of the plan.
    pub(crate) done: u32,
    /// When the run began, by the monotonic clock: its time includes what precedes the first trial.
    pub(crate) began: Nanos,
    /// The number of this session, of a run that is resumed.
    pub(crate) session: u32,
    /// Conditions that are to be decided before the run ends early.
    pub(crate) gates: &'a [Gate],
    pub(crate) gathered: Gathered,
    /// The warnings that were printed.
    pub(crate) new_warnings: NewWarnings,
}

/// Short trials that wait to be stored together, which costs a fraction of storing each by itself.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    records: Vec<TrialRecord>,
    since: Option<Instant>,
    /// How long the last trial of each variant took, where care is light.
    last: BTreeMap<usize, Nanos>,
}

impl<'a> Campaign<'a> {
    /// A run of which earlier sessions finished the first `done` trials of the plan.
    pub fn new(database: &'a mut Database, run: RunId, plan: &'a [PlannedTrial], done: usize) -> Self {
        let (began, gathered, new_warnings) = (monotonic(), Gathered::default(), NewWarnings::default());
        Self { database, run, plan, done: count(done), began, session: 0, gates: &[], gathered, new_warnings }
    }

    /// Stores the short trials that wait to be stored, before a trial that may take long: they must not be lost if that
    /// trial or the machine fails.
    pub(crate) fn expect(&mut self, trial: &PlannedTrial) -> Result<(), Error> {
        let last = self.gathered.last.get(&trial.variant).copied();
        if last.is_some_and(|last| last < SHORT) {
            return Ok(());
        }
        self.keep_gathered()?;
        // Before a trial has ended there is nothing to lose.
        if self.done == 0 { Ok(()) } else { Ok(self.database.sync_before(last.map(Nanos::to_duration))?) }
    }

    /// Stores a finished trial, at once or together with those that follow within milliseconds.
    pub(crate) fn keep(&mut self, record: TrialRecord, light: bool) -> Result<(), Error> {
        let (short, variant) = (light && record.took < SHORT, record.trial.variant);
        if light {
            self.gathered.last.insert(variant, record.took);
        }
        self.gathered.records.push(record);
        let since = *self.gathered.since.get_or_insert_with(Instant::now);
        if short && since.elapsed() < GATHERED { Ok(()) } else { self.keep_gathered() }
    }

    /// Stores the trials that wait to be stored.
    pub(crate) fn keep_gathered(&mut self) -> Result<(), Error> {
        self.gathered.since = None;
        let records = std::mem::take(&mut self.gathered.records);
        if records.is_empty() { Ok(()) } else { Ok(self.database.append_trials(self.run, &records)?) }
    }
}

/// Trials that are certain to be part of the run: all of the plan, or, with a time budget, those of the first block. At
/// the run's end, those that ran.
pub fn planned(experiment: &Experiment, plan: &[PlannedTrial], done: usize) -> u32 {
    match experiment.compare().budget {
        Some(_) => count(done.max(plan.iter().take_while(|trial| trial.block == 0).count())),
        None => count(plan.len()),
    }
}

pub(crate) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
