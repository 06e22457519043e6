//! Errors of a results database.

use std::io;
use std::path::PathBuf;

use prony_model::units::Bytes;
use prony_os::file_size;
use rusqlite::ffi;

/// An error of a results database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no results database at the path.
    #[error("no results database at `{}`", .path.display())]
    NoDatabase {
        /// The database's path.
        path: PathBuf,
    },
    /// No file can be at the path, or what exists there is none.
    #[error("no results database at `{}`: the path {what}", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What is wrong with it, as `is a directory`.
        what: &'static str,
    },
    /// The file is something else: another database, or none.
    #[error("`{}` is not a results database of prony", .path.display())]
    NotADatabase {
        /// The file's path.
        path: PathBuf,
    },
    /// An earlier or later prony wrote it.
    #[error("`{}` has schema version {found}; this version of prony reads and writes only {known}", .path.display())]
    OtherSchema {
        /// The database's path.
        path: PathBuf,
        /// The file's schema.
        found: i64,
        /// The schema of this prony.
        known: i64,
    },
    /// SQLite refused.
    #[error("cannot {doing} in `{}`", .path.display())]
    Database {
        /// The database's path.
        path: PathBuf,
        /// What was attempted.
        doing: &'static str,
        /// SQLite's message.
        source: rusqlite::Error,
    },
    /// Something has deleted, replaced or changed the file during the run.
    #[error("the results of run {run} are not in `{}`: {how} during the run", .path.display())]
    Lost {
        /// The run's number.
        run: i64,
        /// The database's path.
        path: PathBuf,
        /// What happened.
        how: &'static str,
    },
    /// The database contains no run at all.
    #[error("no runs in `{}`", .path.display())]
    NoRuns {
        /// The database's path.
        path: PathBuf,
    },
    /// The run is not in the database.
    #[error("no run `{run}` in `{}`", .path.display())]
    NoRun {
        /// The run as asked for.
        run: String,
        /// The database's path.
        path: PathBuf,
    },
    /// Another session works on the run, or that is not known.
    #[error("run {run} in `{}` {}", .path.display(), if .source.is_some() { "cannot be locked" } else { "is running in another process" })]
    RunIsLive {
        /// The run's number.
        run: i64,
        /// The database's path.
        path: PathBuf,
        /// What the system says, where it is not known whether another session works on the run.
        source: Option<io::Error>,
    },
    /// The trial is not in the run.
    #[error("no trial at position {position} in run {run}")]
    NoTrial {
        /// The run's number.
        run: i64,
        /// The trial's position in the plan.
        position: u32,
    },
    /// Something has changed the trials, or the experiment.
    #[error("the trial at position {position} in run {run} belongs to no variant: `{}` is damaged", .path.display())]
    NoVariant {
        /// The run's number.
        run: i64,
        /// The trial's position in the plan.
        position: u32,
        /// The database's path.
        path: PathBuf,
    },
    /// A trial is never rewritten.
    #[error("run {run} already holds a trial at position {position}")]
    TrialExists {
        /// The run's number.
        run: i64,
        /// The trial's position in the plan.
        position: u32,
    },
    /// An experiment cannot be stored.
    #[error("cannot write the experiment as JSON")]
    Experiment(#[from] serde_json::Error),
}

impl Error {
    /// What the user can do about the error, if anything.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoDatabase { .. } => "`prony run FILE` creates a database; `--database PATH` names another path",
            Self::NotAFile { .. } => "name a file: `--database PATH`",
            Self::NotADatabase { .. } => "the file was not changed; `--database PATH` names another path",
            Self::Lost { .. } => {
                "run it again, and leave its database, `-wal` and `-shm` alone meanwhile; `prony ls` shows runs that are in progress"
            }
            Self::NoRuns { .. } => "`prony run FILE` adds a run",
            Self::OtherSchema { .. } => {
                "use the version of prony that wrote the file, or name another file with `--database PATH`"
            }
            Self::RunIsLive { source: None, .. } => "wait until the run ends, or interrupt it with Ctrl+C first",
            Self::RunIsLive { .. } => {
                "only a user who may write to the database's directory can delete or resume a run"
            }
            Self::NoRun { .. } => "`prony ls` lists the runs",
            Self::Database { source, .. } => {
                let limit = file_size::limit();
                return database_hint(code(source, limit.is_some())?, limit);
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// What SQLite refused by. It has a code for a full disk where a page cannot be written, and none of its own where the index of
/// the log (`-shm`), which even readers need, cannot be extended; a limit of file sizes has the same effect.
fn code(source: &rusqlite::Error, is_limited: bool) -> Option<rusqlite::ErrorCode> {
    let is_index = source.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_SHMSIZE);
    if is_index && !is_limited { Some(rusqlite::ErrorCode::DiskFull) } else { source.sqlite_error_code() }
}

/// What to do where SQLite refused, and files may have so many bytes.
fn database_hint(code: rusqlite::ErrorCode, limit: Option<u64>) -> Option<String> {
    use rusqlite::ErrorCode;
    match code {
        ErrorCode::DiskFull => {
            Some("free space on its disk; finished trials are saved: `--resume` continues the run or search".to_owned())
        }
        // SQLite has no code for `EFBIG`.
        ErrorCode::SystemIoFailure => limit.map(|limit| {
            format!(
                "files may have {} at most here: raise the limit (`ulimit -f unlimited`); finished trials are saved: `--resume` continues \
                 the run or search",
                Bytes::from_bytes(limit)
            )
        }),
        ErrorCode::ReadOnly | ErrorCode::CannotOpen => Some(
            "the folder of the database must exist and be writable, even for reading: copy the file into such a folder"
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: i32) -> Error {
        Error::Database { path: "p.db".into(), doing: "store a trial", source: failure(code) }
    }

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_full_disk_and_a_read_only_folder_say_what_to_do() {
        let says = |code, text: &str| refused(code).hint().is_some_and(|hint| hint.starts_with(text));
        assert!(says(13, "free space on its disk; finished trials are saved"));
        assert!(says(1544, "the folder of the database must exist and be writable"));
        let hint = |limit| database_hint(rusqlite::ErrorCode::SystemIoFailure, limit);
        assert!(hint(Some(4_000_000)).unwrap().starts_with("files may have 4.0 MB at most here: raise the limit"));
        assert_eq!(hint(None), None);
        // On a full disk `prony ls` and `prony exec` ended with `disk I/O error: Error code 4874`, and no hint.
        let index = failure(ffi::SQLITE_IOERR_SHMSIZE);
        assert_eq!(code(&index, false), Some(rusqlite::ErrorCode::DiskFull));
        assert_eq!(code(&index, true), Some(rusqlite::ErrorCode::SystemIoFailure));
        assert_eq!(code(&failure(ffi::SQLITE_IOERR), false), Some(rusqlite::ErrorCode::SystemIoFailure));
        assert!(says(14, "the folder of the database must exist and be writable"));
    }
}
