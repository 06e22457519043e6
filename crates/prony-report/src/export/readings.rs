//! Exports one row for each trial, phase, instance and metric.

use std::borrow::Cow;

use prony_model::metric::MetricKey;
use prony_model::reading::{Reading, Why};
use prony_model::record::{Completion, PhaseRecord, TrialRecord};
use prony_model::units::Unit;

use super::rows::{Field, Rows};
use super::{Trials, unwritten};
use crate::error::Error;
use prony_results::RunData;

/// Writes every reading of a run.
///
/// # Errors
/// [`Error::Write`].
pub fn readings(data: &RunData, rows: &mut dyn Rows) -> Result<(), Error> {
    let trials = Trials::new(data);
    let further = [
        "phase",
        "action",
        "timed",
        "completion",
        "instance",
        "metric",
        "value",
        "unit",
        "missing",
        "partial",
        "last_active",
    ];
    rows.begin(&trials.columns(&further)).map_err(unwritten)?;
    for trial in &data.trials {
        let fields = trials.fields(trial);
        for phase in &trial.phases {
            of_phase(&fields, trial, phase, rows)?;
        }
    }
    rows.end().map_err(unwritten)
}

fn of_phase(fields: &[Field<'_>], trial: &TrialRecord, phase: &PhaseRecord, rows: &mut dyn Rows) -> Result<(), Error> {
    let mut row = fields.to_vec();
    row.extend([Field::Text(&phase.name), Field::Text(&phase.action), Field::Bool(phase.timed)]);
    row.push(Field::Text(completion(phase.completion)));
    let last_active = phase.last_sign().map_or(Field::None, |sign| Field::Text(sign.name()));
    for (instance, readings) in &phase.readings {
        for (key, reading) in readings {
            let metric = key.0.to_string();
            let Exported { value, missing, partial } = exported(trial, phase, key.0, reading);
            let missing = missing.map(|why| why.to_string());
            let number = |value: Option<f64>| value.map_or(Field::None, Field::Number);
            let mut row = row.clone();
            row.extend([
                Field::Text(instance),
                Field::Text(&metric),
                number(value),
                Field::Text(unit(key.0.metric.unit())),
                missing.as_deref().map_or(Field::None, Field::Text),
                number(partial),
                last_active,
            ]);
            rows.row(&row).map_err(unwritten)?;
        }
    }
    Ok(())
}

/// A reading as it is exported: a value that counts, or why there is none.
pub(super) struct Exported<'r> {
    pub(super) value: Option<f64>,
    pub(super) missing: Option<Cow<'r, Why>>,
    /// What was measured of a phase that was not completed, or of a trial whose answer is wrong.
    pub(super) partial: Option<f64>,
}

pub(super) fn exported<'r>(
    trial: &TrialRecord,
    phase: &PhaseRecord,
    key: MetricKey,
    reading: &'r Reading<f64>,
) -> Exported<'r> {
    match (reading, trial.excluded(phase, key.metric)) {
        (Reading::Measured(value), None) => Exported { value: Some(*value), missing: None, partial: None },
        (Reading::Measured(partial), Some(why)) => {
            Exported { value: None, missing: Some(Cow::Owned(why)), partial: Some(*partial) }
        }
        // Why it was not measured says more than that it would not count.
        (Reading::Missing(why), _) => Exported { value: None, missing: Some(Cow::Borrowed(why)), partial: None },
    }
}

/// How far a phase got, as in JSON.
pub(super) const fn completion(completion: Completion) -> &'static str {
    match completion {
        Completion::Complete => "complete",
        Completion::Failed => "failed",
        Completion::Uncounted => "uncounted",
        Completion::AfterFailure => "after_failure",
        Completion::Partial => "partial",
        Completion::NotReached => "not_reached",
    }
}

/// A unit, as in JSON.
pub(super) const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanos => "nanos",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
        Unit::PerSecond => "per_second",
        Unit::Ratio => "ratio",
    }
}
