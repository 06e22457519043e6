//! Opens or creates the database file and checks its schema.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::{Metadata, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prony_os::file_modes::file_mode;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, Transaction, TransactionBehavior};

use super::names::Names;
use super::run::RunId;
use super::run_lock::RunLock;
use super::schema::{self, Content, Fault, VERSION};
use crate::Error;

/// How long to wait for another process's write.
const BUSY: Duration = Duration::from_secs(60);

/// A file, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The file at a path; `None` where there is none.
    fn of(path: &Path) -> Option<Self> {
        path.metadata().ok().as_ref().map(Self::of_metadata)
    }

    pub(super) fn of_metadata(about: &Metadata) -> Self {
        Self { device: about.dev(), inode: about.ino() }
    }
}

/// A results database.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    /// The path when it was opened, absolute, and the file that was there then, by the number that it was last known by.
    file: PathBuf,
    pub(super) identity: Cell<Option<Identity>>,
    connection: Connection,
    /// Connections that have read the file under other numbers. They are closed after the one above: to close a file takes away
    /// all locks that this process has on it, unless SQLite knows it by its number.
    pub(super) readers: RefCell<Vec<Connection>>,
    /// Commits wait for the disk only if the last one that did is so long ago; zero makes each wait.
    patience: Duration,
    synced: Instant,
    /// There are commits that are not synced to the disk yet.
    unsynced: bool,
    /// Names that were written so far, with their numbers.
    pub(super) names: Names,
    /// The runs of this session.
    pub(super) locks: BTreeMap<RunId, RunLock>,
}

impl Database {
    /// Opens the database at the path, creating it where there is none: for this user only, unless other users were permitted.
    ///
    /// # Errors
    /// [`Error::NotAFile`], [`Error::NotADatabase`], [`Error::OtherSchema`], [`Error::Database`].
    pub fn create(path: &Path) -> Result<Self, Error> {
        // SQLite gives the files beside it the same mode. Where it cannot be made, opening it says why.
        let _ = OpenOptions::new().write(true).create_new(true).mode(file_mode()).open(path);
        Self::open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// Opens the database at the path, which must exist.
    ///
    /// # Errors
    /// As [`Self::create`], and [`Error::NoDatabase`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        if !path.exists() {
            return Err(Error::NoDatabase { path: path.to_owned() });
        }
        Self::open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE).or_else(|error| match &error {
            Error::Database { source, .. } if cannot_write(source) => Self::read_only(path),
            _ => Err(error),
        })
    }

    /// Opens a database that cannot be written, such as one in a folder or on a disk that is read-only. Where nothing
    /// is left in its write-ahead log, only the file is read, as it is; SQLite's own way needs to write beside it.
    fn read_only(path: &Path) -> Result<Self, Error> {
        let file = located(path)?;
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        let logged = std::fs::metadata(log).is_ok_and(|log| log.len() > 0);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = if logged { Connection::open_with_flags(file, flags) } else { read_without_log(&file) };
        opened
            .map_err(Fault::Sql)
            .and_then(|connection| {
                if schema::check(&connection)? == Content::Nothing {
                    return Err(Fault::Foreign);
                }
                connection.set_prepared_statement_cache_capacity(64);
                Ok(Self::of(path, connection))
            })
            .map_err(|fault| refused(path, fault))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the saved cuts of a run are, if one broke a promise: in a folder beside the database.
    pub fn cuts_folder(&self, run: RunId) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push("-cuts");
        self.path.with_file_name(name).join(format!("run-{run}"))
    }

    /// Its path, absolute.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    fn of(path: &Path, connection: Connection) -> Self {
        let file = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self {
            path: path.to_owned(),
            identity: Cell::new(Identity::of(&file)),
            file,
            connection,
            readers: RefCell::default(),
            patience: Duration::ZERO,
            synced: Instant::now(),
            unsynced: false,
            names: Names::default(),
            locks: BTreeMap::new(),
        }
    }

    fn open_with(path: &Path, flags: OpenFlags) -> Result<Self, Error> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(located(path)?, flags)
            .map_err(Fault::Sql)
            .and_then(|mut connection| {
                connection.busy_timeout(BUSY)?;
                let content = schema::check(&connection)?;
                prepare(&connection)?;
                if content == Content::Nothing {
                    schema::create(&mut connection)?;
                }
                Ok(Self::of(path, connection))
            })
            .map_err(|fault| refused(path, fault))
    }

    /// From now on, a commit waits for the disk only if the last commit that waited is at least `span` ago. Every
    /// commit survives the end of this process; a power failure may lose the commits of the last `span`. With zero, the
    /// default, each commit waits.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn sync_every(&mut self, span: Duration) -> Result<(), Error> {
        self.patience = span;
        self.wait_for_the_disk(true)
    }

    /// Waits for the disk now if the next commit, expected after `next`, would otherwise have to wait (see
    /// [`Self::sync_every`]) while a client waits for it. `None` means that it is not known when the next commit comes.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn sync_before(&mut self, next: Option<Duration>) -> Result<(), Error> {
        let late = next.is_none_or(|next| self.synced.elapsed().saturating_add(next) > self.patience);
        if !self.unsynced || !late {
            return Ok(());
        }
        self.wait_for_the_disk(true)?;
        // SQLite waits for the whole log, but only with a commit, and an empty one is none: the number is what it was.
        let same = self.connection.pragma_update(None, "user_version", VERSION);
        self.unsynced = same.is_err();
        same.map_err(|source| self.failed("sync the results to the disk", source))
    }

    fn wait_for_the_disk(&mut self, yes: bool) -> Result<(), Error> {
        if yes {
            self.synced = Instant::now();
        }
        let set = self.connection.pragma_update(None, "synchronous", if yes { "FULL" } else { "NORMAL" });
        set.map_err(|source| self.failed("set how commits are synced to the disk", source))
    }

    /// Reads with the closure, which gets one state of the file even if other processes append meanwhile.
    pub(super) fn read<T>(
        &self,
        doing: &'static str,
        f: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        self.connection
            .unchecked_transaction()
            .and_then(|snapshot| f(&snapshot))
            .map_err(|source| self.failed(doing, source))
    }

    /// Gives the pages of deleted runs back to the file system.
    pub(super) fn shrink(&self) -> Result<(), Error> {
        let vacuum = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare("PRAGMA incremental_vacuum")?;
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        };
        vacuum().map_err(|source| self.failed("return free space to the file system", source))
    }

    /// Writes all of the log into the file that was opened, and waits for the disk; whether that was possible: somebody may be
    /// reading a state before that.
    pub(super) fn empties_log(&self) -> bool {
        let row = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        let written = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], row);
        written.is_ok_and(|(busy, in_log, done)| busy == 0 && in_log == done)
    }

    /// Writes with the closure, in one transaction: all of it or nothing.
    pub(super) fn write<T>(
        &mut self,
        doing: &'static str,
        f: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let waits = self.synced.elapsed() >= self.patience;
        if self.patience > Duration::ZERO {
            self.wait_for_the_disk(waits)?;
        }
        let result =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|transaction| {
                let value = f(&transaction)?;
                transaction.commit()?;
                Ok(value)
            });
        // A write that failed has not changed whether commits are unsynced.
        self.unsynced = if result.is_ok() { !waits } else { self.unsynced };
        result.map_err(|source| self.failed(doing, source))
    }

    pub(super) fn failed(&self, doing: &'static str, source: rusqlite::Error) -> Error {
        Error::Database { path: self.path.clone(), doing, source }
    }
}

/// The database's path as SQLite is given it: absolute, since it takes an empty text, `:memory:` and `file:...` for something
/// else than names of files, whatever the flags say. What is there already must be a regular file.
fn located(path: &Path) -> Result<PathBuf, Error> {
    let not_a_file = |what| Error::NotAFile { path: path.to_owned(), what };
    let file = std::path::absolute(path).map_err(|_| not_a_file("names no file"))?;
    match file.metadata() {
        Ok(about) if about.is_dir() => Err(not_a_file("is a directory")),
        Ok(about) if !about.is_file() => Err(not_a_file("is not a regular file")),
        // Under each name SQLite has another log, and reads and writes without what is in the others.
        Ok(about) if about.nlink() > 1 => {
            Err(not_a_file("has several names (hard links): remove the other names, or copy the file"))
        }
        // Of what cannot be reached, SQLite says why.
        _ => Ok(file),
    }
}

fn cannot_write(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen))
}

/// Reads the file itself at the path, without its log, and as if no process changed it.
pub(super) fn read_without_log(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(immutable(file), flags)
}

/// The path as SQLite's URI for a file that no process changes.
fn immutable(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(byte);
    let encoded = path.as_os_str().as_bytes().iter().map(|byte| match byte {
        byte if plain(byte) => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    format!("file:{}?immutable=1", encoded.collect::<String>())
}

/// Settings of a connection; the first one also lays out an empty file.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(64);
    // Only takes effect in an empty file: deleted runs then give their pages back.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    write_ahead(connection)?;
    // A finished trial must survive a power failure.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)
}

/// Turns on the write-ahead log. SQLite does not wait for other processes here, whatever the busy timeout.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let mut tries = 0;
    loop {
        let result = connection.pragma_update(None, "journal_mode", "WAL");
        match result {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && tries < 200 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

fn refused(path: &Path, fault: Fault) -> Error {
    let path = path.to_owned();
    match fault {
        Fault::Foreign => Error::NotADatabase { path },
        Fault::OtherSchema(found) => Error::OtherSchema { path, found, known: VERSION },
        Fault::Sql(source) if source.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Error::NotADatabase { path }
        }
        Fault::Sql(source) => Error::Database { path, doing: "open the results", source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_keep_their_meaning_as_uris() {
        assert_eq!(immutable(Path::new("/a b/50%?#.db")), "file:/a%20b/50%25%3F%23.db?immutable=1");
    }

    #[test]
    fn names_that_sqlite_takes_for_something_else_are_names_of_files() {
        let folder = tempfile::tempdir().unwrap();
        for name in [":memory:", "file:x.db?mode=memory", "file::memory:"] {
            let here = located(Path::new(name)).unwrap();
            assert!(here.is_absolute() && here.ends_with(name), "{here:?}");
            drop(Database::create(&folder.path().join(name)).unwrap());
            assert!(folder.path().join(name).is_file(), "{name}");
        }
    }

    #[test]
    fn what_is_no_file_is_refused_for_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        for (path, expected) in [
            (folder.path(), "is a directory"),
            (Path::new("/dev/null"), "is not a regular file"),
            (Path::new(""), "names no file"),
        ] {
            for opened in [Database::create(path), Database::read_only(path)] {
                assert!(matches!(&opened, Err(Error::NotAFile { what, .. }) if *what == expected), "{opened:?}");
            }
        }
    }

    #[test]
    fn a_database_with_a_second_name_is_refused_under_both() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["x.db", "hard.db"].map(|name| folder.path().join(name));
        let database = Database::create(&path).unwrap();
        std::fs::hard_link(&path, &other).unwrap();
        for name in [&path, &other] {
            for opened in [Database::open(name), Database::create(name), Database::read_only(name)] {
                assert!(
                    matches!(&opened, Err(Error::NotAFile { what, .. }) if what.contains("hard links")),
                    "{opened:?}"
                );
            }
        }
        assert!(!folder.path().join("hard.db-wal").exists());
        std::fs::remove_file(other).unwrap();
        Database::open(&path).unwrap();
        drop(database);
    }

    #[test]
    fn a_file_is_read_unchanged_and_never_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r\u{e9}sult?.db");
        drop(Database::create(&path).unwrap());
        let mut database = Database::read_only(&path).unwrap();
        assert!(database.runs().unwrap().is_empty());
        let written = database.write("write", |tx| tx.execute("DELETE FROM runs", []));
        assert!(matches!(written, Err(Error::Database { source, .. }) if cannot_write(&source)));
    }

    #[test]
    fn what_lies_in_the_log_is_read_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let writer = Database::create(&path).unwrap();
        writer.connection.execute("CREATE TABLE more (x)", []).unwrap();
        let reader = Database::read_only(&path).unwrap();
        assert!(reader.connection.prepare("SELECT x FROM more").is_ok());
    }

    #[test]
    fn what_no_disk_has_yet_goes_there_before_a_commit_that_may_come_late() {
        let folder = tempfile::tempdir().unwrap();
        let mut database = Database::create(&folder.path().join("late.db")).unwrap();
        let write = |database: &mut Database| database.write("write", |tx| tx.execute("DELETE FROM runs", [])).unwrap();
        let waits = |database: &Database| {
            database.read("ask", |c| c.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0))).unwrap() == 2
        };
        let hour = Duration::from_secs(3600);
        write(&mut database);
        assert!(!database.unsynced, "each commit has waited");
        database.sync_every(hour).unwrap();
        write(&mut database);
        assert!(database.unsynced && !waits(&database));
        database.sync_before(Some(hour / 2)).unwrap();
        assert!(database.unsynced, "the next commit is in time");
        let log = || std::fs::metadata(folder.path().join("late.db-wal")).unwrap().len();
        let before = log();
        database.sync_before(Some(hour)).unwrap();
        assert!(!database.unsynced && waits(&database) && log() > before, "a commit that waited");
        let after = log();
        database.sync_before(None).unwrap();
        assert_eq!(log(), after, "nothing waits for it any more");
        write(&mut database);
        database.sync_before(None).unwrap();
        assert!(!database.unsynced);
    }

    #[test]
    fn a_file_that_is_only_read_has_the_schema_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.db");
        std::fs::write(&path, "").unwrap();
        assert!(matches!(Database::read_only(&path), Err(Error::NotADatabase { .. })));
        let writer = Database::create(&path).unwrap();
        writer.connection.pragma_update(None, "user_version", 1).unwrap();
        drop(writer);
        assert!(matches!(Database::read_only(&path), Err(Error::OtherSchema { found: 1, .. })));
    }
}
