//! Stores and reads the cuts of crash trials, separately from the trials of the run.

use std::path::PathBuf;

use prony_model::crash::CutRecord;
use rusqlite::params;

use super::names::json as json_of;
use super::open::Database;
use super::read::cuts;
use super::run::RunId;
use crate::Error;

impl Database {
    /// Where the saved cuts of a run are, if one broke a promise: in a folder beside the database.
    pub fn cuts_folder(&self, run: RunId) -> PathBuf {
        let mut name = self.path().file_name().unwrap_or_default().to_owned();
        name.push("-cuts");
        self.path().with_file_name(name).join(format!("run-{run}"))
    }

    /// Stores a cut, in the place of one with its number: all of it, or on any error nothing.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn append_cut(&mut self, run: RunId, record: &CutRecord) -> Result<(), Error> {
        self.write("store a cut", |tx| {
            let sql = "INSERT OR REPLACE INTO cuts (run, variant, phase, cut, record) VALUES (?1, ?2, ?3, ?4, ?5)";
            let values = params![run.0, record.variant as i64, record.phase, record.cut, json_of(record)?];
            tx.prepare_cached(sql)?.insert(values).map(drop)
        })
    }

    /// The cuts of a run, by variant, phase and number.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn cuts(&self, run: RunId) -> Result<Vec<CutRecord>, Error> {
        self.read("read cuts", |connection| cuts(connection, run))
    }
}
