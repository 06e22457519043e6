//! What can go wrong in the binary; every variant names its noun and keeps its source.

use std::io;
use std::path::PathBuf;

use prony_core::experiment::{Problem, render};
use prony_core::latency::LatencyError;
use prony_core::metric::MetricError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no results database at the path.
    #[error("no results database at `{}`", .path.display())]
    NoDatabase {
        /// The database's path.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("`{}` is not a results database of prony", .path.display())]
    NotADatabase {
        /// The file's path.
        path: PathBuf,
        /// What SQLite says, where it cannot read the file at all.
        source: Option<rusqlite::Error>,
    },
    /// An earlier or later prony wrote it.
    #[error("`{}` has schema {found}; this prony reads and writes schema {known} only", .path.display())]
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
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The database holds no run at all.
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
    /// Another session works on the run, or that cannot be told.
    #[error("run {run} in `{}` {}", .path.display(), if .source.is_some() { "cannot be locked" } else { "is under way in another process" })]
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
    /// A trial is never rewritten.
    #[error("run {run} already holds a trial at position {position}")]
    TrialExists {
        /// The run's number.
        run: i64,
        /// The trial's position in the plan.
        position: u32,
    },
    /// Output could not be written.
    #[error("cannot write {what}")]
    Write {
        /// What was being written: `the tables`, a file's name ...
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// Input could not be read.
    #[error("cannot read {what}")]
    Read {
        /// What was being read.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// Output could not be turned into JSON.
    #[error("cannot write {what} as JSON")]
    Json {
        /// What was being written.
        what: &'static str,
        /// The cause.
        source: serde_json::Error,
    },
    /// A stored latency histogram is damaged.
    #[error(transparent)]
    Latency(#[from] LatencyError),
    /// A metric's name on the command line is wrong.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// An experiment file cannot be read.
    #[error("cannot read `{}`", .path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// An experiment file has faults.
    #[error("`{file}` has {} problem{}; nothing was run", .problems.len(), if .problems.len() == 1 { "" } else { "s" })]
    Experiment {
        /// The file, as named.
        file: String,
        /// Its text.
        text: String,
        /// All of them.
        problems: Vec<Problem>,
    },
    /// The operating system refused what every trial needs.
    #[error(transparent)]
    Probe(#[from] prony_probe::Error),
    /// What a trial needs could not be made: a socket, a thread, a signal handler.
    #[error("cannot {doing}")]
    Setup {
        /// What was attempted.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// Something that a program needs beside its trials did not work.
    #[error("{step} of program `{program}` failed: {message}")]
    Step {
        /// The program's name.
        program: String,
        /// `build`, `prepare`, `cleanup`, `change`.
        step: &'static str,
        /// What happened.
        message: String,
    },
    /// A symbolic link leads out of a directory that is to be copied: what writes through it in the copy would change
    /// what is the user's.
    #[error("`{}` leads out of the directory `{}`, to `{}`{}", .link.display(), .directory.display(), .to.display(), others(*.more))]
    LinkOut {
        /// The link.
        link: PathBuf,
        /// The directory.
        directory: PathBuf,
        /// What it leads to.
        to: PathBuf,
        /// How many more links lead out.
        more: usize,
    },
    /// A function to be timed is in several files.
    #[error("the call `{call}` of phase `{phase}` fits {} files: {}", .names.len(), listed(.names))]
    AmbiguousCall {
        /// The phase.
        phase: String,
        /// The call, as written.
        call: String,
        /// Each of those that it fits, so as to name it alone where that can be.
        names: Vec<String>,
        /// What to do.
        hint: String,
    },
    /// A program's directory could not be copied.
    #[error("cannot copy `{}`", .path.display())]
    Copy {
        /// The file or directory at fault.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// All trials are done and kept, and what was to be done after the last was not.
    #[error("{message}; the trials are done and kept")]
    CleanUp {
        /// Which step of which program failed, and how.
        message: String,
    },
    /// Arguments that do not go together.
    #[error("{message}")]
    Arguments {
        /// What does not go together.
        message: String,
        /// What to do.
        hint: String,
    },
}

impl Error {
    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoDatabase { .. } => {
                Some("`prony run FILE` makes one; `--database PATH` names one elsewhere".to_owned())
            }
            Self::NoRuns { .. } => Some("`prony run FILE` adds one".to_owned()),
            Self::OtherSchema { .. } => {
                Some("keep it for the prony that wrote it, and name another file with `--database PATH`".to_owned())
            }
            Self::RunIsLive { source: None, .. } => Some("wait for its end, or interrupt it (Ctrl+C) first".to_owned()),
            Self::RunIsLive { .. } => {
                Some("only who may write beside the database can delete or resume a run".to_owned())
            }
            Self::NoRun { .. } => Some("`prony ls` lists the runs".to_owned()),
            Self::LinkOut { directory, to, .. } if directory.starts_with(to) => Some(
                "it leads to what holds the directory itself, which cannot be copied in its place: remove it"
                    .to_owned(),
            ),
            Self::LinkOut { .. } => Some(
                "`links = \"copy\"` in the program's table copies what such links lead to, `links = \"keep\"` keeps them; or \
                 replace the link"
                    .to_owned(),
            ),
            Self::Arguments { hint, .. } | Self::AmbiguousCall { hint, .. } => Some(hint.clone()),
            Self::Database { source, .. } => database_hint(source.sqlite_error_code()?),
            Self::Probe(prony_probe::Error::SupervisorGone { .. }) => Some(GO_ON.to_owned()),
            _ => None,
        }
    }

    /// The whole message: cause chain, excerpts, hint; ends with a newline.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Self::Experiment { file, text: source, problems } = self {
            problems.iter().take(SHOWN).for_each(|problem| text += &format!("{}\n", render(problem, file, source)));
            if problems.len() > SHOWN {
                text += &format!("and {} more problems\n\n", problems.len() - SHOWN);
            }
        }
        text += &format!("error: {self}");
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text.push('\n');
        if let Some(hint) = self.hint() {
            text += &format!("hint: {hint}\n");
        }
        text
    }

    /// Whether the reader of our output went away, which is no failure (exit code 0).
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

fn others(more: usize) -> String {
    if more == 0 { String::new() } else { format!("; {more} more lead out, too") }
}

/// Problems of a file that are shown: who has mended these will see the others.
const SHOWN: usize = 20;

/// Names that are listed; of more it is said how many.
const MOST_NAMES: usize = 20;

/// The first names of a list, and how many more there are.
pub(crate) fn listed(names: &[String]) -> String {
    let first: Vec<String> = names.iter().take(MOST_NAMES).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(MOST_NAMES) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

const GO_ON: &str = "finished trials are kept: `prony run --resume` goes on";

fn database_hint(code: rusqlite::ErrorCode) -> Option<String> {
    use rusqlite::ErrorCode;
    match code {
        ErrorCode::DiskFull => Some(format!("free space beside it; {GO_ON}")),
        ErrorCode::ReadOnly | ErrorCode::CannotOpen => {
            Some("its folder must exist and be writable, also to read: copy it into such a folder".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: i32) -> Error {
        let source = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        Error::Database { path: "p.db".into(), doing: "keep a trial", source }
    }

    #[test]
    fn a_full_disk_and_a_read_only_folder_say_what_to_do() {
        assert!(refused(13).text().contains("\nhint: free space beside it; finished trials are kept"));
        assert!(refused(1544).text().contains("\nhint: its folder must exist and be writable"));
        assert!(refused(14).text().contains("\nhint: its folder must exist and be writable"));
    }

    #[test]
    fn a_run_that_lost_its_supervisor_can_go_on() {
        let gone = Error::from(prony_probe::Error::SupervisorGone { program: "x".to_owned() });
        assert!(gone.text().contains("prony run --resume"), "{}", gone.text());
    }
}
