//! Exports one row for each sample of each process.

use prony_model::record::{ProcessSample, ProcessSeries, TrialRecord};
use prony_model::units::{Bytes, Nanos};

use super::rows::{Field, Rows};
use super::{Trials, unwritten};
use crate::error::Error;
use prony_results::{Database, RunData};

/// The columns after those of the trial. Counters are cumulative since the process began.
const COLUMNS: [&str; 21] = [
    "pid",
    "role",
    "command",
    "phase",
    "at_ns",
    "cpu_user_ns",
    "cpu_system_ns",
    "on_cpu_ns",
    "cpu_wait_ns",
    "anon_bytes",
    "file_bytes",
    "shared_bytes",
    "vsz_bytes",
    "swap_bytes",
    "threads",
    "read_bytes",
    "written_bytes",
    "minor_faults",
    "major_faults",
    "switches_voluntary",
    "switches_forced",
];

/// Writes every sample of a run, a trial in memory at a time. `at_ns` runs from the trial's first
/// sample or phase.
///
/// # Errors
/// [`Error::Write`], and those of the database.
pub fn series(database: &Database, data: &RunData, rows: &mut dyn Rows) -> Result<(), Error> {
    let trials = Trials::new(data);
    rows.begin(&trials.columns(&COLUMNS)).map_err(unwritten)?;
    for trial in &data.trials {
        let all = database.load_series(data.head.id, trial.trial.position)?;
        let start = start(trial, &all);
        for process in &all {
            let mut row = trials.fields(trial);
            row.extend([Field::Whole(process.pid.into()), Field::Text(&process.role), Field::Text(&process.command)]);
            let fixed = row.len();
            for sample in &process.samples {
                row.truncate(fixed);
                row.push(phase(trial, sample.at).map_or(Field::None, Field::Text));
                row.extend(fields(sample, start));
                rows.row(&row).map_err(unwritten)?;
            }
        }
    }
    rows.end().map_err(unwritten)
}

fn start(trial: &TrialRecord, all: &[ProcessSeries]) -> Nanos {
    let samples = all.iter().filter_map(|p| p.samples.first()).map(|s| s.at);
    samples.chain(trial.phases.iter().filter_map(|p| p.begin)).min().unwrap_or_default()
}

/// The phase an instant falls into; between two phases there is none.
fn phase(trial: &TrialRecord, at: Nanos) -> Option<&str> {
    let falls = |begin: Option<Nanos>, end: Option<Nanos>| begin.is_some_and(|b| b <= at) && end.is_none_or(|e| at < e);
    trial.phases.iter().find(|p| falls(p.begin, p.end)).map(|p| p.name.as_str())
}

fn fields(sample: &ProcessSample, start: Nanos) -> [Field<'static>; 17] {
    let time = |t: Nanos| Field::Whole(t.as_nanos());
    let bytes = |b: Bytes| Field::Whole(b.as_bytes());
    [
        time(sample.at.since(start)),
        time(sample.cpu_user),
        time(sample.cpu_system),
        sample.on_cpu.map_or(Field::None, time),
        sample.cpu_wait.map_or(Field::None, time),
        bytes(sample.anon),
        bytes(sample.file),
        bytes(sample.shared),
        bytes(sample.vsz),
        bytes(sample.swap),
        Field::Whole(sample.threads.into()),
        sample.read.map_or(Field::None, bytes),
        sample.written.map_or(Field::None, bytes),
        Field::Whole(sample.minor_faults),
        Field::Whole(sample.major_faults),
        Field::Whole(sample.switches_voluntary),
        Field::Whole(sample.switches_forced),
    ]
}
