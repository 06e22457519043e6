//! Creates the tables, and checks the schema version in the file's header. Files of any other version are refused.

use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::Path;

use prony_os::own_files::OwnFiles;
use rusqlite::{Connection, TransactionBehavior};

const TABLES: &str = include_str!("schema.sql");

/// The schema of the tables and of the JSON in them: it rises with each change of either.
pub const VERSION: i64 = 18;

/// `pron`, in the header of each of our files.
const APPLICATION_ID: i64 = 0x7072_6f6e;

/// Bytes of an SQLite file's header up to the application id, which is their end.
const HEADER: usize = 72;

/// The least page of SQLite: its files are that long, or a multiple of it.
const PAGE: u64 = 512;

/// Why a file cannot be used.
#[derive(Debug)]
pub(super) enum Fault {
    /// It belongs to another program.
    Foreign,
    /// It has another schema.
    OtherSchema(i64),
    /// SQLite refused.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// The content of a file that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing yet.
    Nothing,
    /// The tables.
    Tables,
}

/// The content of the file; changes nothing.
pub(super) fn check(connection: &Connection) -> Result<Content, Fault> {
    // One state of the file: another process may be making its tables right now.
    let snapshot = connection.unchecked_transaction()?;
    content(&snapshot)
}

/// Makes the tables where there are none; several processes may try at once.
pub(super) fn create(connection: &mut Connection) -> Result<(), Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have created them while this one waited.
    if content(&transaction)? == Content::Nothing {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
        // Into the file itself, so that its header says whose it is.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    Ok(())
}

/// Whether a file is a results database, of whichever schema and run, by its header. `own` are files that this process writes:
/// such a database is not opened, which would remove the locks of SQLite on it, and so is not recognized. Links are not followed.
pub fn is_results(file: &Path, own: &OwnFiles) -> bool {
    let mut header = [0; HEADER];
    // Few files are read for it.
    let may_be = |about: &Metadata| about.is_file() && about.len() >= PAGE && about.len().is_multiple_of(PAGE);
    file.symlink_metadata().is_ok_and(|about| may_be(&about) && !own.contains(&about))
        && File::open(file).and_then(|file| file.read_exact_at(&mut header, 0)).is_ok()
        && header.starts_with(b"SQLite format 3\0")
        && header.ends_with(&(APPLICATION_ID as u32).to_be_bytes())
}

fn content(connection: &Connection) -> Result<Content, Fault> {
    let version = pragma(connection, "user_version")?;
    match (pragma(connection, "application_id")? == APPLICATION_ID, version) {
        (true, VERSION) => Ok(Content::Tables),
        (true, other) => Err(Fault::OtherSchema(other)),
        (false, 0) if is_empty(connection)? => Ok(Content::Nothing),
        (false, _) => Err(Fault::Foreign),
    }
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_made_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        assert_eq!(check(&connection).unwrap(), Content::Nothing);
        create(&mut connection).unwrap();
        create(&mut connection).unwrap();
        assert_eq!(check(&connection).unwrap(), Content::Tables);
    }

    #[test]
    fn files_of_another_schema_or_program_are_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        create(&mut connection).unwrap();
        for other in [VERSION - 1, VERSION + 1] {
            connection.pragma_update(None, "user_version", other).unwrap();
            assert!(matches!(check(&connection), Err(Fault::OtherSchema(found)) if found == other));
            assert!(matches!(create(&mut connection), Err(Fault::OtherSchema(found)) if found == other));
        }
        let mut foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("CREATE TABLE a (x INTEGER)").unwrap();
        assert!(matches!(create(&mut foreign), Err(Fault::Foreign)));
        assert_eq!(pragma(&foreign, "application_id").unwrap(), 0);
    }
}
