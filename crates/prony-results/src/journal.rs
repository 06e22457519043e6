//! Stores the runs of searches: an experiment to which variants are added one at a time, and the journal of the search.

use prony_experiment::design::Experiment;
use rusqlite::params;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::names::json as text;
use super::open::Database;
use super::read::json;
use super::run::RunId;
use super::write::{insert_variant, replace_experiment};
use crate::Error;

impl Database {
    /// Replaces the experiment of a run in progress: the variants known so far must be the first of the new one.
    ///
    /// # Errors
    /// [`Error::NoRun`], [`Error::Database`].
    pub fn extend_run(&mut self, run: RunId, experiment: &Experiment, planned: u32) -> Result<(), Error> {
        let changed = self.write("add variants to a run", |tx| {
            let known: i64 = tx.query_row("SELECT count(*) FROM variants WHERE run = ?1", [run.0], |row| row.get(0))?;
            let new = experiment.variants().iter().skip(usize::try_from(known).unwrap_or(usize::MAX));
            let changed = replace_experiment(tx, run, experiment, planned)?;
            new.clone().filter(|_| changed > 0).try_for_each(|v| insert_variant(tx, run, experiment, v))?;
            Ok(changed)
        })?;
        self.must_have_run(run, changed)
    }

    /// Appends an entry to a run's journal.
    ///
    /// # Errors
    /// [`Error::Database`], also where there is no such run.
    pub fn append_journal<T: Serialize>(&mut self, run: RunId, entry: &T) -> Result<(), Error> {
        self.write("write the journal", |tx| {
            let sql = "INSERT INTO journal (run, ord, entry)
                       VALUES (?1, (SELECT coalesce(max(ord) + 1, 0) FROM journal WHERE run = ?1), ?2)";
            tx.prepare_cached(sql)?.insert(params![run.0, text(entry)?]).map(drop)
        })
    }

    /// A run's journal, in order; empty for runs that are no searches.
    ///
    /// # Errors
    /// [`Error::Database`], also where an entry is no `T`.
    pub fn journal<T: DeserializeOwned>(&self, run: RunId) -> Result<Vec<T>, Error> {
        self.read("read the journal", |connection| {
            connection
                .prepare("SELECT entry FROM journal WHERE run = ?1 ORDER BY ord")?
                .query_map([run.0], |row| json(row, 0))?
                .collect()
        })
    }
}
