//! Stores and reads the profiles of a run's variants, separately from the trials of the run.

use std::collections::BTreeSet;

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use prony_model::profile::{Format, ProfileFile, ProfileRecord};
use rusqlite::types::Type;
use rusqlite::{Row, params};

use super::names::json as json_of;
use super::open::Database;
use super::read::{json, unreadable};
use super::run::RunId;
use crate::Error;

/// Profiles are written once and may be large.
const EFFORT: u8 = 6;

/// Bytes of the largest record or file; data that inflates to more is damaged.
const LARGEST: usize = 1 << 30;

impl Database {
    /// Stores the profile of a variant with its files: all of it, or on any error nothing.
    ///
    /// # Errors
    /// [`Error::Database`], also where the variant has one already.
    pub fn append_profile(&mut self, run: RunId, record: &ProfileRecord, files: &[ProfileFile]) -> Result<(), Error> {
        self.write("store a profile", |tx| {
            let text = json_of(record)?;
            let record = params![run.0, record.variant as i64, compress_to_vec(text.as_bytes(), EFFORT)];
            let profile =
                tx.prepare_cached("INSERT INTO profiles (run, variant, record) VALUES (?1, ?2, ?3)")?.insert(record)?;
            let mut insert = tx.prepare_cached(
                "INSERT INTO profile_files (profile, ord, name, format, size, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            for (ord, file) in files.iter().enumerate() {
                let format = json_of(&file.format)?;
                let body = compress_to_vec(&file.body, EFFORT);
                insert.execute(params![profile, ord as i64, file.name, format, file.body.len() as i64, body])?;
            }
            Ok(())
        })
    }

    /// The variants that have a profile, or the reason why there is none.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn profiled_variants(&self, run: RunId) -> Result<BTreeSet<usize>, Error> {
        self.read("read profiles", |connection| {
            let mut statement = connection.prepare("SELECT variant FROM profiles WHERE run = ?1")?;
            statement.query_map([run.0], |row| row.get::<_, i64>(0).map(|variant| variant as usize))?.collect()
        })
    }

    /// The profiles of a run without their files, by variant.
    ///
    /// # Errors
    /// [`Error::Database`], also where one is damaged.
    pub fn profiles(&self, run: RunId) -> Result<Vec<ProfileRecord>, Error> {
        self.read("read profiles", |connection| {
            let mut statement = connection.prepare("SELECT record FROM profiles WHERE run = ?1 ORDER BY variant")?;
            let record = |row: &Row<'_>| {
                serde_json::from_slice(&inflated(row, 0)?).map_err(|error| unreadable(0, Type::Blob, error))
            };
            statement.query_map([run.0], record)?.collect()
        })
    }

    /// The files of a variant's profile, as the profiler wrote them.
    ///
    /// # Errors
    /// [`Error::Database`], also where one is damaged.
    pub fn profile_files(&self, run: RunId, variant: usize) -> Result<Vec<ProfileFile>, Error> {
        self.read("read a profile", |connection| {
            let mut statement = connection.prepare(
                "SELECT f.name, f.format, f.body FROM profiles p JOIN profile_files f ON f.profile = p.id
                 WHERE p.run = ?1 AND p.variant = ?2 ORDER BY f.ord",
            )?;
            let file = |row: &Row<'_>| {
                let format: Format = json(row, 1)?;
                Ok(ProfileFile { name: row.get(0)?, format, body: inflated(row, 2)? })
            };
            statement.query_map(params![run.0, variant as i64], file)?.collect()
        })
    }
}

fn inflated(row: &Row<'_>, at: usize) -> rusqlite::Result<Vec<u8>> {
    let blob = row.get_ref(at)?.as_blob()?;
    decompress_to_vec_with_limit(blob, LARGEST)
        .map_err(|_| unreadable(at, Type::Blob, "a compressed column is damaged"))
}
