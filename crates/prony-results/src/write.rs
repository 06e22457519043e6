//! Writes a run: its beginning, each finished trial, the cuts of crash trials, its end.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use prony_experiment::design::{Experiment, Factor, Variant};
use prony_model::crash::CutRecord;
use prony_model::reading::{Reading, Why};
use prony_model::record::{Conditions, Facts, HistogramRecord, PhaseRecord, ProcessSeries, TrialRecord};
use rusqlite::{Connection, Transaction, params};
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_128;

use super::codec::{pack, pack_samples};
use super::names::{Names, intern, json};
use super::open::Database;
use super::run::{RunId, RunStart, RunStatus};
use super::run_lock::RunLock;
use crate::Error;

impl Database {
    /// Begins a run, which is this session's then.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn begin_run(&mut self, start: &RunStart<'_>) -> Result<RunId, Error> {
        let path = self.path().to_owned();
        let sql = "INSERT INTO runs (title, source, experiment, hash, seed, host, limits, version, started_unix_ms,
                                     status, planned, scratch)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let (run, lock) = self.write("start a run", |tx| {
            let recorded = start.experiment.recorded();
            let experiment = json(recorded.as_ref())?;
            // What cannot be read again would cost the whole run.
            serde_json::from_str::<Experiment>(&experiment)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
            let run = RunId(tx.prepare_cached(sql)?.insert(params![
                start.experiment.title(),
                recorded.source(),
                experiment,
                hash(&experiment),
                start.seed as i64,
                json(start.host)?,
                json(start.limits)?,
                start.version,
                start.started_unix_ms as i64,
                RunStatus::Unfinished.name(),
                start.planned,
                start.scratch.map(|path| path.to_string_lossy().into_owned()),
            ])?);
            recorded.variants().iter().try_for_each(|v| insert_variant(tx, run, &recorded, v))?;
            // Before other processes can find it.
            let locked = RunLock::lock(&path, run);
            Ok((run, locked.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?))
        })?;
        self.locks.insert(run, lock);
        Ok(run)
    }

    /// Takes a run for this session, until [`Database::end_run`] or until this is dropped: no other resumes or deletes
    /// it.
    ///
    /// # Errors
    /// [`Error::RunIsLive`] where another session has it, or where that is not known.
    pub fn take_run(&mut self, run: RunId) -> Result<(), Error> {
        if self.locks.contains_key(&run) {
            return Ok(());
        }
        let lock = RunLock::lock(self.path(), run).map_err(|source| {
            let (run, path) = (run.0, self.path().to_owned());
            let source = Some(source).filter(|error| error.kind() != ErrorKind::WouldBlock);
            Error::RunIsLive { run, path, source }
        })?;
        self.locks.insert(run, lock);
        Ok(())
    }

    /// Takes a run up again, with a newly planned number of trials; also after interim analyses that add blocks.
    ///
    /// # Errors
    /// [`Error::NoRun`], [`Error::RunIsLive`], [`Error::Database`].
    pub fn reopen_run(&mut self, run: RunId, planned: u32) -> Result<(), Error> {
        self.take_run(run)?;
        let changed = self.write("resume a run", |tx| {
            tx.execute(
                "UPDATE runs SET status = ?2, ended_unix_ms = NULL, planned = ?3 WHERE id = ?1",
                params![run.0, RunStatus::Unfinished.name(), planned],
            )
        })?;
        self.must_have_run(run, changed)
    }

    /// Begins a session of a run that is taken up again; its number.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn begin_session(
        &mut self,
        run: RunId,
        host: &Facts,
        version: &str,
        started_unix_ms: u64,
    ) -> Result<u32, Error> {
        self.write("start a session", |tx| {
            let next = "SELECT coalesce(max(session), 0) + 1 FROM sessions WHERE run = ?1";
            let session = tx.query_row(next, [run.0], |row| row.get(0))?;
            tx.execute(
                "INSERT INTO sessions (run, session, started_unix_ms, host, version) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![run.0, session, started_unix_ms as i64, json(host)?, version],
            )?;
            Ok(session)
        })
    }

    /// Ends a run, and checks that it is in the file at the database's path.
    ///
    /// # Errors
    /// [`Error::NoRun`], [`Error::Database`], [`Error::Lost`].
    pub fn end_run(&mut self, run: RunId, status: RunStatus, ended_unix_ms: u64) -> Result<(), Error> {
        let changed = self.write("end a run", |tx| {
            tx.execute(
                "UPDATE runs SET status = ?2, ended_unix_ms = ?3 WHERE id = ?1",
                params![run.0, status.name(), ended_unix_ms as i64],
            )
        })?;
        self.locks.remove(&run);
        self.must_have_run(run, changed)?;
        self.must_be_readable(run)
    }

    /// Stores a finished trial: all of it, or on any error nothing.
    ///
    /// # Errors
    /// [`Error::TrialExists`], [`Error::NoRun`], [`Error::Database`] (also where the disk is full).
    pub fn append_trial(&mut self, run: RunId, record: &TrialRecord) -> Result<(), Error> {
        self.append_trials(run, std::slice::from_ref(record))
    }

    /// Stores finished trials: all of them, or on any error none.
    ///
    /// # Errors
    /// As [`Database::append_trial`], and [`Error::Lost`]: a run whose database was deleted measures for nothing.
    pub fn append_trials(&mut self, run: RunId, records: &[TrialRecord]) -> Result<(), Error> {
        // If nothing is stored, the numbers of new names are not stored either.
        let mut names = std::mem::take(&mut self.names);
        let no_run = self.no_run(run);
        let refused = self.write("store a trial", |tx| {
            for TrialRecord { trial, .. } in records {
                match exist(tx, run, trial.position)? {
                    (false, _) => return Ok(Some(no_run)),
                    (true, true) => return Ok(Some(Error::TrialExists { run: run.0, position: trial.position })),
                    (true, false) => {}
                }
            }
            records.iter().try_for_each(|record| insert_record(tx, run, record, &mut names))?;
            Ok(None)
        })?;
        self.names = names;
        refused.map_or_else(|| self.must_be_there(run), Err)
    }

    /// Stores a cut of a crash trial, in the place of one with its number: all of it, or on any error nothing.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn append_cut(&mut self, run: RunId, record: &CutRecord) -> Result<(), Error> {
        self.write("store a cut", |tx| {
            let sql = "INSERT OR REPLACE INTO cuts (run, variant, phase, cut, record) VALUES (?1, ?2, ?3, ?4, ?5)";
            let values = params![run.0, record.variant as i64, record.phase, record.cut, json(record)?];
            tx.prepare_cached(sql)?.insert(values).map(drop)
        })
    }

    /// Deletes a run with everything in it, and frees the space.
    ///
    /// # Errors
    /// [`Error::NoRun`], [`Error::RunIsLive`], [`Error::Database`].
    pub fn delete_run(&mut self, run: RunId) -> Result<(), Error> {
        self.take_run(run)?;
        let changed = self.write("delete a run", |tx| tx.execute("DELETE FROM runs WHERE id = ?1", [run.0]))?;
        self.locks.remove(&run);
        self.must_have_run(run, changed)?;
        self.shrink()
    }

    pub(super) fn must_have_run(&self, run: RunId, changed: usize) -> Result<(), Error> {
        if changed > 0 { Ok(()) } else { Err(self.no_run(run)) }
    }
}

/// Whether there is such a run, and whether it has a trial at this position.
fn exist(tx: &Connection, run: RunId, position: u32) -> rusqlite::Result<(bool, bool)> {
    let sql = "SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?1),
                      EXISTS (SELECT 1 FROM trials WHERE run = ?1 AND position = ?2)";
    tx.prepare_cached(sql)?.query_row(params![run.0, position], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Replaces the experiment of a run that grows; how many runs that changed.
pub(super) fn replace_experiment(
    tx: &Transaction<'_>,
    run: RunId,
    experiment: &Experiment,
    planned: u32,
) -> rusqlite::Result<usize> {
    let text = json(experiment.recorded().as_ref())?;
    tx.execute(
        "UPDATE runs SET title = ?2, experiment = ?3, hash = ?4, planned = ?5 WHERE id = ?1",
        params![run.0, experiment.title(), text, hash(&text), planned],
    )
}

pub(super) fn insert_variant(
    tx: &Transaction<'_>,
    run: RunId,
    experiment: &Experiment,
    variant: &Variant,
) -> rusqlite::Result<()> {
    let levels = experiment.factors().iter().zip(&variant.levels);
    let label = |(factor, level): (&Factor, &usize)| {
        Some((factor.name.clone(), factor.levels.get(*level)?.label.as_str().into()))
    };
    let levels: Map<String, Value> = levels.filter_map(label).collect();
    let sql = "INSERT INTO variants (run, variant, levels, stratum, baseline) VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = params![run.0, variant.id as i64, json(&levels)?, variant.stratum as i64, variant.baseline];
    tx.prepare_cached(sql)?.insert(values).map(drop)
}

fn insert_record(tx: &Transaction<'_>, run: RunId, record: &TrialRecord, names: &mut Names) -> rusqlite::Result<()> {
    let effective = intern(tx, "effective", run, &json(&record.effective)?)?;
    let sql = "INSERT INTO trials (run, position, block, variant, outcome, effective, record)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let trial = tx.prepare_cached(sql)?.insert(params![
        run.0,
        record.trial.position,
        record.trial.block,
        record.trial.variant as i64,
        record.ending.outcome.name(),
        effective,
        json(&light(record))?,
    ])?;
    for (ord, phase) in record.phases.iter().enumerate() {
        let (measured, missing) = sorted(tx, phase, names)?;
        let absent = if missing.is_empty() { None } else { Some(intern(tx, "absences", run, &json(&missing)?)?) };
        let id = insert_phase(tx, trial, ord, phase, absent)?;
        insert_readings(tx, id, &measured)?;
    }
    record.series.iter().enumerate().try_for_each(|(ord, series)| insert_series(tx, trial, ord, series))
}

/// A record without what has tables of its own.
fn light(record: &TrialRecord) -> TrialRecord<(), &Conditions> {
    // Every field is named, so that a new one cannot be left out.
    let phase = |phase: &PhaseRecord| PhaseRecord {
        name: phase.name.clone(),
        action: phase.action.clone(),
        timed: phase.timed,
        completion: phase.completion,
        begin: phase.begin,
        end: phase.end,
        readings: BTreeMap::new(),
        histograms: Vec::new(),
        groups: None,
        throughput: None,
        answer: phase.answer.clone(),
        errors: phase.errors.clone(),
    };
    TrialRecord {
        trial: record.trial,
        started_unix_ms: record.started_unix_ms,
        took: record.took,
        ending: record.ending.clone(),
        phases: record.phases.iter().map(phase).collect(),
        effective: (),
        conditions: &record.conditions,
        series: Vec::new(),
        sampler_cpu: record.sampler_cpu.clone(),
        findings: record.findings.clone(),
    }
}

fn insert_phase(
    tx: &Transaction<'_>,
    trial: i64,
    ord: usize,
    phase: &PhaseRecord,
    absent: Option<i64>,
) -> rusqlite::Result<i64> {
    let sql = "INSERT INTO phases (trial, ord, name, throughput_interval, throughput, absent)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let interval = phase.throughput.as_ref().map(|of| of.interval.as_nanos() as i64);
    let throughput = phase.throughput.as_ref().map(|of| pack(&of.operations));
    let values = params![trial, ord as i64, phase.name, interval, throughput, absent];
    let id = tx.prepare_cached(sql)?.insert(values)?;
    phase.histograms.iter().enumerate().try_for_each(|(ord, histogram)| insert_histogram(tx, id, ord, histogram))?;
    if let Some(groups) = &phase.groups {
        tx.prepare_cached("INSERT INTO groups (phase, operations, wall, cpu) VALUES (?1, ?2, ?3, ?4)")?
            .insert(params![id, groups.operations as i64, pack(&groups.wall), pack(&groups.cpu)])?;
    }
    Ok(id)
}

fn insert_histogram(tx: &Transaction<'_>, phase: i64, ord: usize, histogram: &HistogramRecord) -> rusqlite::Result<()> {
    let HistogramRecord { operation, kind, v2, failed } = histogram;
    tx.prepare_cached(
        "INSERT INTO histograms (phase, ord, operation, kind, failed, v2) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .insert(params![phase, ord as i64, operation, json(kind)?, *failed as i64, v2])
    .map(drop)
}

/// What was measured, by the numbers of instance and metric.
type Measured = Vec<(i64, i64, f64)>;

/// What is missing, by the numbers of instance, metric and reason.
type Absent = Vec<(i64, i64, i64)>;

/// A phase's readings: those that were measured, and those that are missing.
fn sorted(tx: &Transaction<'_>, phase: &PhaseRecord, names: &mut Names) -> rusqlite::Result<(Measured, Absent)> {
    let (mut measured, mut absent) = (Vec::new(), Vec::new());
    for (instance, readings) in &phase.readings {
        let instance = names.instance(tx, instance)?;
        for (key, reading) in readings {
            let metric = names.metric(tx, *key)?;
            match reading {
                Reading::Measured(value) if value.is_finite() => measured.push((instance, metric, *value)),
                // SQLite has no NaN; a value that is NaN was not measured.
                Reading::Measured(_) => {
                    absent.push((instance, metric, names.reason(tx, &Why::Failed("not a number".into()))?));
                }
                Reading::Missing(why) => absent.push((instance, metric, names.reason(tx, why)?)),
            }
        }
    }
    Ok((measured, absent))
}

fn insert_readings(tx: &Transaction<'_>, phase: i64, measured: &Measured) -> rusqlite::Result<()> {
    let mut insert =
        tx.prepare_cached("INSERT INTO readings (phase, instance, metric, value) VALUES (?1, ?2, ?3, ?4)")?;
    measured
        .iter()
        .try_for_each(|(instance, metric, value)| insert.execute(params![phase, instance, metric, value]).map(drop))
}

fn insert_series(tx: &Transaction<'_>, trial: i64, ord: usize, series: &ProcessSeries) -> rusqlite::Result<()> {
    tx.prepare_cached("INSERT INTO series (trial, ord, pid, role, command, samples) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .insert(params![trial, ord as i64, series.pid, series.role, series.command, pack_samples(&series.samples)])
        .map(drop)
}

/// The digest by which a run and an experiment are known to be the same (`RunHead::hash`).
fn hash(experiment: &str) -> String {
    format!("{:032x}", xxh3_128(experiment.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::record::Conditions;
    use serde_json::json;

    fn experiment() -> Experiment {
        let share = 0.05;
        let blocks = json!({"min": 1, "max": 1});
        serde_json::from_value(json!({
            "title": "t", "question": null, "source": "", "seed": 1, "factors": [], "variants": [], "tables": [],
            "compare": {"baseline": {}, "floor": {}, "primary": null, "metrics": [], "margin": share, "alpha": share,
                        "blocks": blocks, "twice": false, "errors": {"count": 0}},
            "observe": {"hertz": 10, "throughput": 100, "care": "full", "record_commands": true},
            "explores": false,
        }))
        .unwrap()
    }

    fn record(position: u32, evidence: &str) -> TrialRecord {
        serde_json::from_value(json!({
            "trial": {"block": 0, "sub_block": 0, "position": position, "variant": 0, "label": "a", "seed": 1},
            "started_unix_ms": 1, "took": 1, "effective": null, "conditions": Conditions::default(), "series": [], "findings": [],
            "ending": {"outcome": {"kind": "ok"}, "phase": null, "after": 1, "evidence": [evidence]},
            "sampler_cpu": {"measured": 1},
            "phases": [{"name": "write", "action": "put", "timed": true, "completion": "complete", "begin": 1, "end": 2,
                        "readings": {"": {"time": {"measured": 1.0}}}, "histograms": [], "groups": null,
                        "throughput": null, "answer": null, "errors": {evidence: 1}}],
        }))
        .unwrap()
    }

    #[test]
    fn a_full_disk_keeps_nothing_half_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut database = Database::create(&dir.path().join("prony.db")).unwrap();
        let experiment = experiment();
        let (host, limits) = (Facts::default(), Reading::default());
        let start = RunStart {
            experiment: &experiment,
            seed: 1,
            host: &host,
            limits: &limits,
            version: "0",
            started_unix_ms: 1,
            planned: 2,
            scratch: None,
        };
        let run = database.begin_run(&start).unwrap();
        database.append_trial(run, &record(0, "small")).unwrap();
        let large = record(1, &"x".repeat(1 << 20));
        let limit = |database: &Database, pages: u32| {
            let set = format!("PRAGMA max_page_count = {pages}");
            database.read("limit pages", |c| c.query_row(&set, [], |r| r.get::<_, i64>(0))).unwrap()
        };
        assert_eq!(limit(&database, 100), 100);
        let error = database.append_trial(run, &large).unwrap_err();
        assert!(matches!(&error, Error::Database { source, .. } if source.to_string().contains("full")), "{error:?}");
        assert_eq!(database.run(run).unwrap().finished, 1);
        limit(&database, 1 << 20);
        database.append_trial(run, &large).unwrap();
        assert_eq!(database.run(run).unwrap().finished, 2);
    }
}
