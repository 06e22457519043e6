//! Reads runs: the list of all runs, and one run with its trials but without their large parts.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::path::PathBuf;

use prony_model::crash::CutRecord;
use prony_model::metric::MetricKey;
use prony_model::reading::{Reading, Why};
use prony_model::record::{Effective, MetricKeyText, Session, TrialRecord, without_disproved};
use prony_model::trial::PlannedTrial;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::de::DeserializeOwned;

use super::open::Database;
use super::run::{RunData, RunHead, RunId, RunStatus};
use crate::Error;

const HEAD: &str =
    "SELECT id, title, hash, seed, host, limits, version, started_unix_ms, ended_unix_ms, status, planned,
    (SELECT count(*) FROM trials WHERE run = runs.id),
    (SELECT count(*) FROM trials WHERE run = runs.id AND outcome = 'ok'), scratch,
    (SELECT entry ->> '$.search' FROM journal WHERE run = runs.id AND ord = 0)
    FROM runs";

impl Database {
    /// Every run, the oldest first.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn runs(&self) -> Result<Vec<RunHead>, Error> {
        self.read("list the runs", |connection| {
            connection
                .prepare(&format!("{HEAD} ORDER BY id"))?
                .query_map([], head)?
                .map(|head| with_sessions(connection, head?))
                .collect()
        })
    }

    /// One run without its trials.
    ///
    /// # Errors
    /// [`Error::NoRun`], [`Error::Database`].
    pub fn run(&self, run: RunId) -> Result<RunHead, Error> {
        let found = self.read("read a run", |connection| one(connection, run))?;
        found.ok_or_else(|| self.no_run(run))
    }

    pub(super) fn no_run(&self, run: RunId) -> Error {
        Error::NoRun { run: run.to_string(), path: self.path().to_owned() }
    }

    /// A run with its experiment and light trials.
    ///
    /// # Errors
    /// [`Error::NoRun`], [`Error::Database`], [`Error::NoVariant`].
    pub fn load_run(&self, run: RunId) -> Result<RunData, Error> {
        let found = self.read("read a run", |connection| {
            let Some(head) = one(connection, run)? else { return Ok(None) };
            let experiment =
                connection.query_row("SELECT experiment FROM runs WHERE id = ?1", [run.0], |row| json(row, 0))?;
            let (ids, mut trials) = trials(connection, run)?;
            load_readings(connection, run, &mut trials, &phases(connection, run, &ids)?)?;
            without_disproved(&mut trials);
            Ok(Some(RunData { head, experiment, trials, cuts: cuts(connection, run)? }))
        })?;
        let data = found.ok_or_else(|| self.no_run(run))?;
        let variants = data.experiment.variants().len();
        match data.trials.iter().map(|trial| &trial.trial).find(|trial| trial.variant >= variants) {
            Some(PlannedTrial { position, .. }) => {
                Err(Error::NoVariant { run: run.0, position: *position, path: self.path().to_owned() })
            }
            None => Ok(data),
        }
    }

    /// The cuts of a run, by variant, phase and number.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn cuts(&self, run: RunId) -> Result<Vec<CutRecord>, Error> {
        self.read("read cuts", |connection| cuts(connection, run))
    }
}

fn cuts(connection: &Connection, run: RunId) -> rusqlite::Result<Vec<CutRecord>> {
    let mut statement = connection.prepare("SELECT record FROM cuts WHERE run = ?1 ORDER BY variant, phase, cut")?;
    statement.query_map([run.0], |row| json(row, 0))?.collect()
}

fn one(connection: &Connection, run: RunId) -> rusqlite::Result<Option<RunHead>> {
    let found = connection.query_row(&format!("{HEAD} WHERE id = ?1"), [run.0], head).optional()?;
    found.map(|head| with_sessions(connection, head)).transpose()
}

fn with_sessions(connection: &Connection, mut head: RunHead) -> rusqlite::Result<RunHead> {
    let all = "SELECT session, started_unix_ms, host, version FROM sessions WHERE run = ?1 ORDER BY session";
    let session = |row: &Row<'_>| {
        let (session, started_unix_ms) = (row.get(0)?, unsigned(row, 1)?);
        Ok(Session { session, started_unix_ms, host: json(row, 2)?, version: row.get(3)? })
    };
    head.resumed = connection.prepare_cached(all)?.query_map([head.id.0], session)?.collect::<Result<_, _>>()?;
    Ok(head)
}

fn head(row: &Row<'_>) -> rusqlite::Result<RunHead> {
    let status: String = row.get(9)?;
    Ok(RunHead {
        id: RunId(row.get(0)?),
        title: row.get(1)?,
        hash: row.get(2)?,
        seed: unsigned(row, 3)?,
        host: json(row, 4)?,
        limits: json(row, 5)?,
        version: row.get(6)?,
        started_unix_ms: unsigned(row, 7)?,
        ended_unix_ms: row.get::<_, Option<i64>>(8)?.map(|n| n as u64),
        status: RunStatus::named(&status).unwrap_or(RunStatus::Unfinished),
        planned: row.get(10)?,
        finished: row.get(11)?,
        ok: row.get(12)?,
        scratch: row.get::<_, Option<String>>(13)?.map(PathBuf::from),
        search: row.get(14)?,
        resumed: Vec::new(),
    })
}

fn trials(connection: &Connection, run: RunId) -> rusqlite::Result<(Vec<i64>, Vec<TrialRecord>)> {
    let effective = effective(connection, run)?;
    let mut statement =
        connection.prepare("SELECT id, record, effective FROM trials WHERE run = ?1 ORDER BY position")?;
    let rows = statement.query_map([run.0], |row| {
        let effective = effective.get(&row.get(2)?).cloned().flatten();
        Ok((row.get(0)?, TrialRecord { effective, ..json(row, 1)? }))
    })?;
    let rows: Vec<(i64, TrialRecord)> = rows.collect::<rusqlite::Result<_>>()?;
    Ok(rows.into_iter().unzip())
}

fn effective(connection: &Connection, run: RunId) -> rusqlite::Result<BTreeMap<i64, Option<Effective>>> {
    connection
        .prepare("SELECT id, body FROM effective WHERE run = ?1")?
        .query_map([run.0], |row| Ok((row.get(0)?, json(row, 1)?)))?
        .collect()
}

/// The position of each phase: its id -> (trial, phase), in the order of the readings; and its set of missing readings.
type Phases = Vec<(i64, usize, usize, Option<i64>)>;

fn phases(connection: &Connection, run: RunId, ids: &[i64]) -> rusqlite::Result<Phases> {
    let places: BTreeMap<i64, usize> = ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let mut statement = connection.prepare(
        "SELECT p.id, p.trial, p.ord, p.absent
         FROM trials t CROSS JOIN phases p ON p.trial = t.id WHERE t.run = ?1 ORDER BY t.position, p.ord",
    )?;
    let phase = |row: &Row<'_>| {
        let trial = places.get(&row.get(1)?).ok_or_else(|| damaged("a phase belongs to an unknown trial"))?;
        Ok((row.get(0)?, *trial, unsigned(row, 2)? as usize, row.get(3)?))
    };
    statement.query_map([run.0], phase)?.collect()
}

fn load_readings(
    connection: &Connection,
    run: RunId,
    trials: &mut [TrialRecord],
    phases: &Phases,
) -> rusqlite::Result<()> {
    let metrics: Dictionary<MetricKey> = dictionary(connection, "metrics", |name| name.parse())?;
    let reasons: Dictionary<Why> = dictionary(connection, "reasons", |name| serde_json::from_str(name))?;
    let instances: Dictionary<String> =
        dictionary(connection, "instances", |name| Ok::<_, rusqlite::Error>(name.into()))?;
    let names = Names { metrics: &metrics, reasons: &reasons, instances: &instances };
    let absences = absences(connection, run, &names)?;
    let mut statement = connection.prepare(
        "SELECT r.phase, r.instance, r.metric, r.value
         FROM trials t CROSS JOIN phases p ON p.trial = t.id CROSS JOIN readings r ON r.phase = p.id
         WHERE t.run = ?1 ORDER BY t.position, p.ord, r.instance",
    )?;
    let mut rows = statement.query([run.0])?;
    let mut row = rows.next()?;
    for (id, trial, phase, absent) in phases {
        let mut readings: BTreeMap<i64, Vec<(MetricKeyText, Reading<f64>)>> = BTreeMap::new();
        while let Some(measured) = row.filter(|row| row.get(0) == Ok(*id)) {
            let key = *metrics.get(measured.get(2)?).ok_or_else(|| damaged("a reading has an unknown metric"))?;
            let reading = Reading::Measured(measured.get(3)?);
            readings.entry(measured.get(1)?).or_default().push((MetricKeyText(key), reading));
            row = rows.next()?;
        }
        if let Some(absent) = absent {
            let absence =
                absences.get(absent).ok_or_else(|| damaged("a phase has an unknown set of missing readings"))?;
            for (instance, key, why) in absence {
                readings.entry(*instance).or_default().push((*key, Reading::Missing(why.clone())));
            }
        }
        // All of an instance at once: a map is built from sorted keys faster than by inserting them.
        let named = readings.into_iter().map(|(instance, readings)| {
            let name = instances.get(instance).ok_or_else(|| damaged("a reading has an unknown instance"))?;
            Ok((name.clone(), readings.into_iter().collect()))
        });
        let phase = trials[*trial].phases.get_mut(*phase);
        let phase = phase.ok_or_else(|| damaged("the trial has no phase of this number"))?;
        phase.readings = named.collect::<rusqlite::Result<_>>()?;
    }
    if row.is_some() { Err(damaged("readings belong to an unknown phase")) } else { Ok(()) }
}

/// Names by number.
struct Names<'a> {
    metrics: &'a Dictionary<MetricKey>,
    reasons: &'a Dictionary<Why>,
    instances: &'a Dictionary<String>,
}

/// A missing reading of a phase: the number of the instance, the metric, and why.
type Absence = Vec<(i64, MetricKeyText, Why)>;

/// The run's sets of missing readings, by number.
fn absences(connection: &Connection, run: RunId, names: &Names<'_>) -> rusqlite::Result<BTreeMap<i64, Absence>> {
    let named = |(instance, metric, reason): (i64, i64, i64)| {
        let key = *names.metrics.get(metric).ok_or_else(|| damaged("a missing reading has an unknown metric"))?;
        names.instances.get(instance).ok_or_else(|| damaged("a missing reading has an unknown instance"))?;
        let why = names.reasons.get(reason).cloned().ok_or_else(|| damaged("a missing reading has no reason"))?;
        Ok((instance, MetricKeyText(key), why))
    };
    connection
        .prepare("SELECT id, body FROM absences WHERE run = ?1")?
        .query_map([run.0], |row| {
            let body: Vec<(i64, i64, i64)> = json(row, 1)?;
            Ok((row.get(0)?, body.into_iter().map(named).collect::<rusqlite::Result<_>>()?))
        })?
        .collect()
}

/// Names are numbered from 1 without gaps; a table of more of them would not fit into memory.
const MOST_NAMES: usize = 1 << 22;

/// A table of numbered names, by number; the numbers run on from 1.
fn dictionary<T: Clone, E: StdError + Send + Sync + 'static>(
    connection: &Connection,
    table: &str,
    read: impl Fn(&str) -> Result<T, E>,
) -> rusqlite::Result<Dictionary<T>> {
    let mut statement = connection.prepare(&format!("SELECT id, name FROM {table} ORDER BY id"))?;
    let mut rows = statement.query([])?;
    let mut values = Vec::new();
    while let Some(row) = rows.next()? {
        let name = row.get_ref(1)?.as_str()?;
        let value = read(name).map_err(|error| unreadable(1, Type::Text, error))?;
        let at = usize::try_from(row.get::<_, i64>(0)?).ok().filter(|at| *at < MOST_NAMES);
        let at = at.ok_or_else(|| damaged("a name has a number that is never assigned"))?;
        values.resize(at.max(values.len()), None);
        values.push(Some(value));
    }
    Ok(Dictionary(values))
}

/// Values by number. Looked up for each of millions of readings.
struct Dictionary<T>(Vec<Option<T>>);

impl<T> Dictionary<T> {
    fn get(&self, number: i64) -> Option<&T> {
        self.0.get(usize::try_from(number).ok()?)?.as_ref()
    }
}

/// A number whose 64 bits are unsigned.
pub(super) fn unsigned(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(|n| n as u64)
}

/// A column that holds JSON.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(at)?.as_str()?;
    serde_json::from_str(text).map_err(|error| unreadable(at, Type::Text, error))
}

pub(super) fn damaged(what: &str) -> rusqlite::Error {
    unreadable(0, Type::Integer, what)
}

/// A column that does not hold what it must.
pub(super) fn unreadable(at: usize, kind: Type, error: impl Into<Box<dyn StdError + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, kind, error.into())
}
