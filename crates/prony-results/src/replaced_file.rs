//! Detects that the database file was deleted, replaced or truncated during a run. SQLite writes to the file that it opened: each
//! write succeeds, and the data is lost.
//!
//! Another number of the file (its inode) is a sign of that and no proof: some file systems (sshfs and others of FUSE, 9p, CIFS
//! with `noserverino`) make numbers up, and may forget them. So what the file at the path contains decides.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::thread::sleep;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::open::{Database, Identity, read_without_log};
use super::run::RunId;
use crate::Error;

/// How often a file that seems to lack something is read again: meanwhile another process may write to it, or hold back what is
/// to be written.
const TRIES: usize = 4;

/// How long after the last time.
const AGAIN: Duration = Duration::from_millis(50);

/// A file that had so many numbers and still contains everything is not known by them. From then on it is read at the end only.
const NUMBERS: usize = 16;

impl Database {
    /// Checks that the file at the path is the one that is written.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(super) fn must_be_there(&self, run: RunId) -> Result<(), Error> {
        let how = match self.file().metadata() {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                "the file was deleted or moved"
            }
            Ok(about) if self.is_another(&about) && self.contains(run) == Some(false) => "another file was put there",
            Ok(about) if about.len() == 0 => "the file was truncated",
            // Where it cannot be reached now, nothing is known of it.
            Ok(_) | Err(_) => return Ok(()),
        };
        Err(self.lost(run, how))
    }

    /// Checks that somebody who opens the path finds the run with all its trials.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(super) fn must_be_readable(&self, run: RunId) -> Result<(), Error> {
        self.must_be_there(run)?;
        if !self.readers.borrow().is_empty() {
            match self.contains(run) {
                Some(true) => return Ok(()),
                Some(false) => return Err(self.lost(run, "another file was put there")),
                None => {}
            }
        }
        let count = |database: &Self| Ok(database.state_of(run)?.0);
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

    /// Whether the file has another number than the one that was opened, where that says anything.
    fn is_another(&self, about: &Metadata) -> bool {
        self.identity.get() != Some(Identity::of_metadata(about)) && self.readers.borrow().len() < NUMBERS
    }

    /// Whether the file at the path, which has another number, contains all that was written of the run; `None` where that
    /// cannot be determined now.
    fn contains(&self, run: RunId) -> Option<bool> {
        let number = self.file().metadata().ok().as_ref().map(Identity::of_metadata);
        let mut contains = None;
        for tried in 0..TRIES {
            if tried > 0 {
                sleep(AGAIN);
            }
            contains = self.contains_now(run);
            if contains == Some(true) {
                self.identity.set(number);
                break;
            }
        }
        contains
    }

    fn contains_now(&self, run: RunId) -> Option<bool> {
        let written = self.state_of(run).ok()?;
        // What lies in the log is found by the log's own path, whatever file is beside it. So it is written into the file first,
        // and the file is read without it.
        if !self.empties_log() {
            return None;
        }
        let reader = read_without_log(self.file()).ok()?;
        let found = state(&reader, run);
        self.readers.borrow_mut().push(reader);
        match found {
            Ok(found) => Some(found == written),
            Err(error) => match error.sqlite_error_code() {
                // Without a code it is one of the query: there are no such tables.
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt | ErrorCode::Unknown) => Some(false),
                _ => None,
            },
        }
    }

    fn state_of(&self, run: RunId) -> Result<(i64, Option<String>), Error> {
        self.read("count the trials of a run", |connection| state(connection, run))
    }

    fn lost(&self, run: RunId, how: &'static str) -> Error {
        Error::Lost { run: run.0, path: self.path().to_owned(), how }
    }
}

/// How many trials the run has, and what is last written of it: its end.
fn state(connection: &Connection, run: RunId) -> rusqlite::Result<(i64, Option<String>)> {
    // The end of each record, so that its pages are read.
    let all = "SELECT (SELECT count(substr(record, -1)) FROM trials WHERE run = ?1),
                      (SELECT status || coalesce(ended_unix_ms, '') FROM runs WHERE id = ?1)";
    connection.query_row(all, [run.0], |row| Ok((row.get(0)?, row.get(1)?)))
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

    use tempfile::TempDir;

    use super::*;

    const RUN: RunId = RunId(1);

    /// A database in a folder of its own, with a run that has a trial.
    fn database() -> (TempDir, PathBuf, Database) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let mut database = Database::create(&path).unwrap();
        let run = "INSERT INTO runs (title, source, experiment, hash, seed, host, limits, version, started_unix_ms, status, planned)
                   VALUES ('', '', '', '', 0, '', '', '', 0, 'unfinished', 9)";
        let effective = "INSERT INTO effective (run, hash, body) VALUES (1, 0, '')";
        database.write("begin a run", |tx| tx.execute(run, []).and_then(|_| tx.execute(effective, []))).unwrap();
        add(&mut database);
        (folder, path, database)
    }

    fn add(database: &mut Database) {
        let trial = "INSERT INTO trials (run, position, block, variant, outcome, effective, record)
                     SELECT 1, count(*), 0, 0, 'ok', 1, '{}' FROM trials";
        database.write("store a trial", |tx| tx.execute(trial, [])).unwrap();
    }

    /// As on a file system that makes up numbers and has forgotten this one.
    fn forget_number(database: &Database) {
        let other = Identity::of_metadata(&fs::metadata("/").unwrap());
        database.identity.set(Some(other));
    }

    /// How a run is lost whose file is changed before a trial is stored.
    fn lost(change: impl FnOnce(&Path)) -> String {
        let (_folder, path, mut database) = database();
        database.must_be_there(RUN).unwrap();
        database.must_be_readable(RUN).unwrap();
        change(&path);
        add(&mut database);
        let [soon, at_the_end] = [database.must_be_there(RUN), database.must_be_readable(RUN)];
        let said = soon.unwrap_err().to_string();
        assert_eq!(at_the_end.unwrap_err().to_string(), said);
        said
    }

    #[test]
    fn database_that_is_no_longer_at_its_path_is_lost() {
        let deleted = "the file was deleted or moved during the run";
        assert!(lost(|path| fs::remove_file(path).unwrap()).ends_with(deleted));
        assert!(lost(|path| fs::rename(path, path.with_extension("moved")).unwrap()).ends_with(deleted));
        assert!(lost(|path| fs::write(path, "").unwrap()).ends_with("the file was truncated during the run"));
        let replaced = |make: &dyn Fn(&Path, &Path)| {
            lost(|path| {
                let other = path.with_extension("other");
                make(path, &other);
                fs::rename(other, path).unwrap();
            })
        };
        for how in [
            // Beside the log of the file in whose place it is.
            replaced(&|path, other| assert!(fs::copy(path, other).unwrap() > 0)),
            replaced(&|_, other| drop(Database::create(other).unwrap())),
            replaced(&|_, other| fs::write(other, "anything").unwrap()),
            replaced(&|_, other| fs::write(other, "").unwrap()),
        ] {
            assert!(how.ends_with("another file was put there during the run"), "{how}");
        }
    }

    #[test]
    fn file_with_another_number_is_there_as_long_as_it_contains_all_trials() {
        let (_folder, path, mut database) = database();
        let number = database.identity.get();
        for _ in 0..2 * NUMBERS {
            forget_number(&database);
            add(&mut database);
            database.must_be_there(RUN).unwrap();
        }
        assert_eq!(database.readers.borrow().len(), NUMBERS, "they are looked at so often");
        database.must_be_readable(RUN).unwrap();
        assert_eq!(database.identity.get(), number, "known from then on");
        let end = |database: &mut Database| {
            database.write("end a run", |tx| tx.execute("UPDATE runs SET status = 'done'", [])).unwrap()
        };
        // Even a copy with all trials is found at the end, since it lacks that.
        let other = path.with_extension("other");
        fs::copy(&path, &other).unwrap();
        fs::rename(other, &path).unwrap();
        end(&mut database);
        let lost = database.must_be_readable(RUN).unwrap_err().to_string();
        assert!(lost.ends_with("another file was put there during the run"), "{lost}");
    }

    /// It holds back what would have to be written into the file, so that nothing is known of it.
    #[test]
    fn file_is_not_said_to_be_lost_while_somebody_reads_it() {
        let (_folder, path, mut database) = database();
        let reader = Database::open(&path).unwrap();
        let check = |snapshot: &Connection| {
            state(snapshot, RUN)?;
            forget_number(&database);
            add(&mut database);
            database.must_be_there(RUN).unwrap();
            database.must_be_readable(RUN).unwrap();
            assert!(database.readers.borrow().is_empty(), "the file was not read alone");
            Ok(())
        };
        reader.read("hold a snapshot", check).unwrap();
        database.must_be_there(RUN).unwrap();
        assert_eq!(database.readers.borrow().len(), 1);
    }
}
