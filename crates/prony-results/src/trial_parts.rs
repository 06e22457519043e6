//! Loads the large parts of a trial (series, groups, histograms, throughput), one trial at a time.

use std::collections::BTreeSet;

use prony_model::record::{Groups, HistogramRecord, ProcessSeries, Throughput, TrialRecord};
use prony_model::units::Nanos;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};

use super::codec::{unpack, unpack_samples};
use super::open::Database;
use super::read::{damaged, json, unreadable, unsigned};
use super::run::RunId;
use crate::Error;

/// A heavy part that the trials of most runs do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// [`Database::load_groups`].
    Groups,
    /// [`Database::load_histograms`].
    Histograms,
}

impl Database {
    /// Positions of the trials of a run that have such a part.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn positions_with(&self, run: RunId, part: Part) -> Result<BTreeSet<u32>, Error> {
        let table = match part {
            Part::Groups => "groups",
            Part::Histograms => "histograms",
        };
        self.read("read trials", |connection| {
            connection
                .prepare(&format!(
                    "SELECT t.position FROM trials t CROSS JOIN phases p ON p.trial = t.id
                     CROSS JOIN {table} h ON h.phase = p.id WHERE t.run = ?1"
                ))?
                .query_map([run.0], |row| row.get(0))?
                .collect()
        })
    }

    /// The samples of each process of a trial.
    ///
    /// # Errors
    /// [`Error::NoTrial`], [`Error::Database`] (also where the samples are damaged).
    pub fn load_series(&self, run: RunId, position: u32) -> Result<Vec<ProcessSeries>, Error> {
        let sql = "SELECT pid, role, command, samples FROM series WHERE trial = ?1 ORDER BY ord";
        self.of_trial(run, position, sql, |row| {
            let samples =
                unpack_samples(row.get_ref(3)?.as_blob()?).map_err(|error| unreadable(3, Type::Blob, error))?;
            Ok(ProcessSeries { pid: row.get(0)?, role: row.get(1)?, command: row.get(2)?, samples })
        })
    }

    /// Groups of operations of a trial, with the index of their phase.
    ///
    /// # Errors
    /// As [`Self::load_series`].
    pub fn load_groups(&self, run: RunId, position: u32) -> Result<Vec<(usize, Groups)>, Error> {
        let sql = "SELECT p.ord, g.operations, g.wall, g.cpu FROM phases p JOIN groups g ON g.phase = p.id
                   WHERE p.trial = ?1 ORDER BY p.ord";
        self.of_trial(run, position, sql, |row| {
            let groups = Groups { operations: unsigned(row, 1)?, wall: numbers(row, 2)?, cpu: numbers(row, 3)? };
            Ok((unsigned(row, 0)? as usize, groups))
        })
    }

    /// Latency histograms of a trial, with the index of their phase.
    ///
    /// # Errors
    /// As [`Self::load_series`].
    pub fn load_histograms(&self, run: RunId, position: u32) -> Result<Vec<(usize, HistogramRecord)>, Error> {
        let sql = "SELECT p.ord, h.operation, h.kind, h.failed, h.v2 FROM phases p JOIN histograms h ON h.phase = p.id
                   WHERE p.trial = ?1 ORDER BY p.ord, h.ord";
        self.of_trial(run, position, sql, |row| {
            let (operation, kind, failed, v2) = (row.get(1)?, json(row, 2)?, unsigned(row, 3)?, row.get(4)?);
            Ok((unsigned(row, 0)? as usize, HistogramRecord { operation, kind, v2, failed }))
        })
    }

    /// Throughput over time of a trial, with the index of its phase.
    ///
    /// # Errors
    /// As [`Self::load_series`].
    pub fn load_throughput(&self, run: RunId, position: u32) -> Result<Vec<(usize, Throughput)>, Error> {
        let sql = "SELECT ord, throughput_interval, throughput FROM phases
                   WHERE trial = ?1 AND throughput IS NOT NULL ORDER BY ord";
        self.of_trial(run, position, sql, |row| {
            let interval = Nanos::from_nanos(unsigned(row, 1)?);
            Ok((unsigned(row, 0)? as usize, Throughput { interval, operations: numbers(row, 2)? }))
        })
    }

    /// Puts back into a light trial everything it lacks.
    ///
    /// # Errors
    /// As [`Self::load_series`].
    pub fn complete(&self, run: RunId, trial: &mut TrialRecord) -> Result<(), Error> {
        let position = trial.trial.position;
        trial.series = self.load_series(run, position)?;
        let no_phase = || self.failed("read a trial", damaged("the trial has no phase of this number"));
        for (phase, groups) in self.load_groups(run, position)? {
            trial.phases.get_mut(phase).ok_or_else(no_phase)?.groups = Some(groups);
        }
        for (phase, throughput) in self.load_throughput(run, position)? {
            trial.phases.get_mut(phase).ok_or_else(no_phase)?.throughput = Some(throughput);
        }
        trial.phases.iter_mut().for_each(|phase| phase.histograms.clear());
        for (phase, histogram) in self.load_histograms(run, position)? {
            trial.phases.get_mut(phase).ok_or_else(no_phase)?.histograms.push(histogram);
        }
        Ok(())
    }

    /// The rows of a query that takes the trial's number.
    fn of_trial<T>(
        &self,
        run: RunId,
        position: u32,
        sql: &str,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Error> {
        let found = self.read("read a trial", |connection| {
            let trial: Option<i64> = connection
                .prepare_cached("SELECT id FROM trials WHERE run = ?1 AND position = ?2")?
                .query_row(params![run.0, position], |row| row.get(0))
                .optional()?;
            trial.map(|trial| connection.prepare_cached(sql)?.query_map([trial], row)?.collect()).transpose()
        })?;
        found.ok_or(Error::NoTrial { run: run.0, position })
    }
}

fn numbers(row: &Row<'_>, at: usize) -> rusqlite::Result<Vec<u64>> {
    unpack(row.get_ref(at)?.as_blob()?).map_err(|error| unreadable(at, Type::Blob, error))
}
