//! Exports one row for each sample of each process.

use prony_model::record::{ProcessSample, ProcessSeries, TrialRecord};
use prony_model::units::{Bytes, Nanos};

use super::rows::{Field, Rows};
use super::{Trials, unwritten};
use crate::error::Error;
use prony_results::{Database, RunData};

/// What a sample says in a column.
type Take = fn(&ProcessSample) -> Field<'static>;

/// The columns after those of the trial and of the process. Counters are cumulative since the process began.
const COLUMNS: [(&str, Take); 16] = [
    ("cpu_user_ns", |sample| time(sample.cpu_user)),
    ("cpu_system_ns", |sample| time(sample.cpu_system)),
    ("on_cpu_ns", |sample| sample.on_cpu.map_or(Field::None, time)),
    ("cpu_wait_ns", |sample| sample.cpu_wait.map_or(Field::None, time)),
    ("anon_bytes", |sample| bytes(sample.anon)),
    ("file_bytes", |sample| bytes(sample.file)),
    ("shared_bytes", |sample| bytes(sample.shared)),
    ("vsz_bytes", |sample| bytes(sample.vsz)),
    ("swap_bytes", |sample| bytes(sample.swap)),
    ("threads", |sample| Field::Whole(sample.threads.into())),
    ("read_bytes", |sample| sample.read.map_or(Field::None, bytes)),
    ("written_bytes", |sample| sample.written.map_or(Field::None, bytes)),
    ("minor_faults", |sample| Field::Whole(sample.minor_faults)),
    ("major_faults", |sample| Field::Whole(sample.major_faults)),
    ("switches_voluntary", |sample| Field::Whole(sample.switches_voluntary)),
    ("switches_forced", |sample| Field::Whole(sample.switches_forced)),
];

const fn time(time: Nanos) -> Field<'static> {
    Field::Whole(time.as_nanos())
}

const fn bytes(bytes: Bytes) -> Field<'static> {
    Field::Whole(bytes.as_bytes())
}

/// Writes every sample of a run, a trial in memory at a time. `at_ns` runs from the trial's first
/// sample or phase.
///
/// # Errors
/// [`Error::Write`], and those of the database.
pub fn series(database: &Database, data: &RunData, rows: &mut dyn Rows) -> Result<(), Error> {
    let trials = Trials::new(data);
    let further = ["pid", "role", "command", "phase", "at_ns"].into_iter().chain(COLUMNS.map(|(name, _)| name));
    rows.begin(&trials.columns(&further.collect::<Vec<_>>())).map_err(unwritten)?;
    for trial in &data.trials {
        let all = database.load_series(data.head.id, trial.trial.position)?;
        let start = start(trial, &all);
        for process in &all {
            let mut head = trials.fields(trial);
            head.extend([Field::Whole(process.pid.into()), Field::Text(&process.role), Field::Text(&process.command)]);
            for sample in &process.samples {
                let phases = phases(trial, sample.at);
                let mut row = head.clone();
                row.push(if phases.is_empty() { Field::None } else { Field::Text(&phases) });
                row.push(time(sample.at.since(start)));
                row.extend(COLUMNS.iter().map(|(_, take)| take(sample)));
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

/// The phases into which an instant falls, in their order, such as `run;work` where one encloses the other; empty between
/// phases.
fn phases(trial: &TrialRecord, at: Nanos) -> String {
    let falls = |begin: Option<Nanos>, end: Option<Nanos>| begin.is_some_and(|b| b <= at) && end.is_none_or(|e| at < e);
    let names = trial.phases.iter().filter(|p| falls(p.begin, p.end)).map(|p| p.name.as_str());
    names.collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A sample was in the first phase of the file only, and a phase within another had none.
    #[test]
    fn instant_is_in_every_phase_that_lasts() {
        let phase = |name: &str, begin: Value, end: Value| {
            json!({
                "name": name, "action": "observe", "timed": true, "completion": "complete", "begin": begin, "end": end,
                "readings": {}, "histograms": [], "groups": null, "throughput": null, "answer": null, "errors": {}
            })
        };
        let trial: TrialRecord = serde_json::from_value(json!({
            "trial": { "block": 0, "sub_block": 0, "position": 0, "variant": 0, "label": "a", "seed": 1 },
            "started_unix_ms": 0, "took": 1, "ending": { "outcome": prony_model::outcome::Outcome::Ok, "phase": null, "after": 1, "evidence": [] },
            "phases": [phase("run", json!(10), json!(90)), phase("work", json!(20), json!(30)), phase("no", json!(null), json!(null))],
            "effective": null, "conditions": prony_model::record::Conditions::default(), "series": [],
            "sampler_cpu": { "measured": 0 }, "findings": []
        }))
        .unwrap();
        let of = |at| phases(&trial, Nanos::from_nanos(at));
        assert_eq!([of(5), of(10), of(25), of(30), of(90)], ["", "run", "run;work", "run", ""]);
    }
}
