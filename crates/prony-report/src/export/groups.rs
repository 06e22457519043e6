//! Exports one row for each timed group of operations.

use super::readings::completion;
use super::rows::{Field, Rows};
use super::{Trials, unwritten};
use crate::error::Error;
use prony_results::{Database, RunData};

/// Writes wall and CPU time of every group of operations of a run, a trial in memory at a time.
///
/// # Errors
/// [`Error::Write`], and those of the database.
pub fn groups(database: &Database, data: &RunData, rows: &mut dyn Rows) -> Result<(), Error> {
    let trials = Trials::new(data);
    rows.begin(&trials.columns(&["phase", "completion", "group", "operations", "wall_ns", "cpu_ns"]))
        .map_err(unwritten)?;
    for trial in &data.trials {
        for (phase, groups) in database.load_groups(data.head.id, trial.trial.position)? {
            let mut row = trials.fields(trial);
            let phase = trial.phases.get(phase);
            row.push(phase.map_or(Field::None, |p| Field::Text(&p.name)));
            row.push(phase.map_or(Field::None, |p| Field::Text(completion(p.completion))));
            let fixed = row.len();
            for (at, wall) in groups.wall.iter().enumerate() {
                let cpu = groups.cpu.get(at).map_or(Field::None, |n| Field::Whole(*n));
                row.truncate(fixed);
                row.extend([Field::Whole(at as u64), Field::Whole(groups.operations), Field::Whole(*wall), cpu]);
                rows.row(&row).map_err(unwritten)?;
            }
        }
    }
    rows.end().map_err(unwritten)
}
