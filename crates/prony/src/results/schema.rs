//! The tables, as numbered migrations: a file of any earlier schema becomes one of the newest.

use rusqlite::{Connection, TransactionBehavior};

/// Schema `n` is what the first `n` of these make. Never edit one that was released; add another.
const MIGRATIONS: &[&str] = &[
    include_str!("schema1.sql"),
    include_str!("schema2.sql"),
    include_str!("schema3.sql"),
    include_str!("schema4.sql"),
    include_str!("schema5.sql"),
];

/// The newest schema.
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// `pron`, in the header of each of our files.
const APPLICATION_ID: i64 = 0x7072_6f6e;

/// Why a file cannot be brought to the newest schema.
#[derive(Debug)]
pub(super) enum Fault {
    /// It belongs to another program.
    Foreign,
    /// A later prony wrote it.
    Newer(i64),
    /// An earlier prony wrote it, and it cannot be written.
    Older(i64),
    /// SQLite refused.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// Whether the file is ours and of a schema that is known here; changes nothing.
pub(super) fn check(connection: &Connection) -> Result<(), Fault> {
    // One state of the file: another process may be making its tables right now.
    let snapshot = connection.unchecked_transaction()?;
    standing(&snapshot, MIGRATIONS.len()).map(|_| ())
}

/// Whether the file is ours and of the newest schema: what is only read cannot be brought to it.
pub(super) fn newest(connection: &Connection) -> Result<(), Fault> {
    match standing(connection, MIGRATIONS.len())? {
        found if found == MIGRATIONS.len() => Ok(()),
        found => Err(Fault::Older(found as i64)),
    }
}

/// Brings a file to the newest schema; several processes may try at once.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), Fault> {
    migrate_by(connection, MIGRATIONS)
}

fn migrate_by(connection: &mut Connection, migrations: &[&str]) -> Result<(), Fault> {
    let known = migrations.len() as i64;
    if pragma(connection, "user_version")? == known && pragma(connection, "application_id")? == APPLICATION_ID {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated it while this one waited.
    let found = standing(&transaction, migrations.len())?;
    for migration in &migrations[found..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

/// How many of the migrations the file has.
fn standing(connection: &Connection, known: usize) -> Result<usize, Fault> {
    let version = pragma(connection, "user_version")?;
    let ours = pragma(connection, "application_id")? == APPLICATION_ID;
    if !ours && (version != 0 || !is_empty(connection)?) {
        return Err(Fault::Foreign);
    }
    match usize::try_from(version) {
        Ok(found) if found <= known => Ok(found),
        _ => Err(Fault::Newer(version)),
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

    const ONE: &str = "CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (7);";
    const TWO: &str = "ALTER TABLE a ADD COLUMN y INTEGER; UPDATE a SET y = x + 1;";

    #[test]
    fn an_old_file_gets_only_what_it_lacks() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_by(&mut connection, &[ONE]).unwrap();
        migrate_by(&mut connection, &[ONE, TWO]).unwrap();
        migrate_by(&mut connection, &[ONE, TWO]).unwrap();
        let row = connection.query_row("SELECT x, y FROM a", [], |r| Ok((r.get::<_, i64>(0)?, r.get::<_, i64>(1)?)));
        assert_eq!(row.unwrap(), (7, 8));
        assert_eq!(pragma(&connection, "user_version").unwrap(), 2);
    }

    #[test]
    fn a_migration_that_fails_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_by(&mut connection, &[ONE]).unwrap();
        let result = migrate_by(&mut connection, &[ONE, TWO, "INSERT INTO nowhere VALUES (1)"]);
        assert!(matches!(result, Err(Fault::Sql(_))));
        assert_eq!(pragma(&connection, "user_version").unwrap(), 1);
        assert!(connection.prepare("SELECT y FROM a").is_err());
    }

    #[test]
    fn newer_and_foreign_files_are_told_apart() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_by(&mut connection, &[ONE, TWO]).unwrap();
        assert!(matches!(migrate_by(&mut connection, &[ONE]), Err(Fault::Newer(2))));
        let mut foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch(ONE).unwrap();
        assert!(matches!(migrate_by(&mut foreign, &[ONE]), Err(Fault::Foreign)));
        assert_eq!(pragma(&foreign, "application_id").unwrap(), 0);
    }
}
