//! Whether the results are still in the file at the database's path. SQLite writes to the file that it opened: where that was
//! deleted, replaced or truncated meanwhile, each write succeeds and nobody finds what was written.

use rusqlite::ErrorCode;

use super::open::{Database, Identity};
use super::run::RunId;
use crate::Error;

impl Database {
    /// Checks that the file at the path is the one that is written.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(super) fn must_be_there(&self, run: RunId) -> Result<(), Error> {
        let how = match self.file().metadata() {
            Err(_) => "the file was deleted or moved",
            Ok(about) if Some(Identity::of_metadata(&about)) != self.identity() => "another file was put there",
            Ok(about) if about.len() == 0 => "the file was truncated",
            Ok(_) => return Ok(()),
        };
        Err(self.lost(run, how))
    }

    /// Checks that somebody who opens the path finds the run with all its trials.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(super) fn must_be_readable(&self, run: RunId) -> Result<(), Error> {
        self.must_be_there(run)?;
        let count = |database: &Self| {
            // The end of each record, so that its pages are read.
            let all = "SELECT count(substr(record, -1)) FROM trials WHERE run = ?1";
            database.read("count the trials of a run", |connection| {
                connection.query_row(all, [run.0], |row| row.get::<_, i64>(0))
            })
        };
        let written = count(self)?;
        // What this connection has in memory is no proof of what the file contains.
        let found = Self::open(self.file()).and_then(|reader| count(&reader));
        match found {
            Ok(found) if found == written => Ok(()),
            Ok(_) => Err(self.lost(run, "trials were lost")),
            Err(error) if is_of_content(&error) => Err(self.lost(run, "something else changed the file")),
            Err(error) => Err(error),
        }
    }

    fn lost(&self, run: RunId, how: &'static str) -> Error {
        Error::Lost { run: run.0, path: self.path().to_owned(), how }
    }
}

/// Whether a file cannot be read for what it contains.
fn is_of_content(error: &Error) -> bool {
    match error {
        Error::Database { source, .. } => source.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt),
        Error::NoRun { .. } | Error::NotADatabase { .. } | Error::NoDatabase { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn lost(path: &Path, change: impl FnOnce(&Path)) -> Result<(), Error> {
        let database = Database::create(path).unwrap();
        database.must_be_there(RunId(1)).unwrap();
        change(path);
        database.must_be_there(RunId(1))
    }

    #[test]
    fn database_that_is_no_longer_at_its_path_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| -> PathBuf { folder.path().join(name) };
        assert!(lost(&path("same.db"), |_| ()).is_ok());
        let deleted = lost(&path("deleted.db"), |path| fs::remove_file(path).unwrap());
        assert!(deleted.unwrap_err().to_string().ends_with("the file was deleted or moved during the run"));
        let replaced = lost(&path("replaced.db"), |path| {
            let other = path.with_extension("other");
            fs::copy(path, &other).unwrap();
            fs::rename(other, path).unwrap();
        });
        assert!(replaced.unwrap_err().to_string().ends_with("another file was put there during the run"));
        let truncated = lost(&path("truncated.db"), |path| fs::write(path, "").unwrap());
        assert!(truncated.unwrap_err().to_string().ends_with("the file was truncated during the run"));
    }
}
