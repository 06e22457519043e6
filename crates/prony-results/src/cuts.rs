//! Stores and reads the cuts of crash trials, separately from the trials of the run.

use std::collections::BTreeSet;

use prony_model::crash::CutRecord;
use rusqlite::params;

use super::names::json as json_of;
use super::open::Database;
use super::run::RunId;
use crate::Error;

impl Database {
    /// Stores a cut: all of it, or on any error nothing.
    ///
    /// # Errors
    /// [`Error::Database`], also where the run has this cut already.
    pub fn append_cut(&mut self, run: RunId, record: &CutRecord) -> Result<(), Error> {
        self.write("store a cut", |tx| {
            tx.prepare_cached("INSERT INTO cuts (run, variant, phase, cut, record) VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute(params![run.0, record.variant as i64, record.phase, record.cut, json_of(record)?])
                .map(|_| ())
        })
    }

    /// Variant, phase and number of each cut that is stored.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn stored_cuts(&self, run: RunId) -> Result<BTreeSet<(usize, String, u32)>, Error> {
        self.read("read cuts", |connection| {
            let mut statement = connection.prepare("SELECT variant, phase, cut FROM cuts WHERE run = ?1")?;
            let cut = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)? as usize, row.get(1)?, row.get(2)?));
            statement.query_map([run.0], cut)?.collect()
        })
    }
}
