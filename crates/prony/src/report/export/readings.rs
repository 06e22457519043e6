//! One row for each trial, phase, instance and metric.

use prony_core::reading::Reading;
use prony_core::record::{Completion, PhaseRecord};
use prony_core::units::Unit;

use super::rows::{Field, Rows};
use super::{Trials, unwritten};
use crate::error::Error;
use crate::results::RunData;

/// Writes every reading of a run.
///
/// # Errors
/// [`Error::Write`].
pub fn readings(data: &RunData, rows: &mut dyn Rows) -> Result<(), Error> {
    let trials = Trials::new(data);
    let further =
        ["phase", "action", "timed", "completion", "instance", "metric", "value", "unit", "missing", "last_active"];
    rows.begin(&trials.columns(&further)).map_err(unwritten)?;
    for trial in &data.trials {
        let fields = trials.fields(trial);
        for phase in &trial.phases {
            of_phase(&fields, phase, rows)?;
        }
    }
    rows.end().map_err(unwritten)
}

fn of_phase(fields: &[Field<'_>], phase: &PhaseRecord, rows: &mut dyn Rows) -> Result<(), Error> {
    let mut row = fields.to_vec();
    row.extend([Field::Text(&phase.name), Field::Text(&phase.action), Field::Bool(phase.timed)]);
    row.push(Field::Text(completion(phase.completion)));
    let last_active = phase.last_sign().map_or(Field::None, |sign| Field::Text(sign.name()));
    for (instance, readings) in &phase.readings {
        for (key, reading) in readings {
            let metric = key.0.to_string();
            let missing = if let Reading::Missing(why) = reading { Some(why.to_string()) } else { None };
            let mut row = row.clone();
            row.extend([
                Field::Text(instance),
                Field::Text(&metric),
                reading.measured().map_or(Field::None, |value| Field::Number(*value)),
                Field::Text(unit(key.0.metric.unit())),
                missing.as_deref().map_or(Field::None, Field::Text),
                last_active,
            ]);
            rows.row(&row).map_err(unwritten)?;
        }
    }
    Ok(())
}

/// How far a phase got, as in JSON.
pub(super) const fn completion(completion: Completion) -> &'static str {
    match completion {
        Completion::Complete => "complete",
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
