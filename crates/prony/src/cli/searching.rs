//! What `prony grow` and `prony tune` have in common: their options, and how a search is opened.

use std::path::PathBuf;

use prony_model::catalog::Overrides;
use serde::de::DeserializeOwned;

use super::choice::{DatabaseArg, SharedArg};
use super::run::{observer, variables};
use crate::error::Error;
use crate::search::Means;
use prony_results::{Database, RunId, RunStatus};
use prony_runner::interrupt::Interrupt;
use prony_runner::scratch;

/// What every search takes.
#[derive(Debug, clap::Args)]
pub struct SearchArguments {
    /// Go on with an interrupted search: the latest, or the run with this number
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "0")]
    pub resume: Option<i64>,
    /// Write every trial and every decision to this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Where stores are put while they are measured; default: the folder of the database
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Print only warnings while running
    #[arg(long, short)]
    pub quiet: bool,
    /// Where the results are
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Who may see what it makes
    #[command(flatten)]
    pub shared: SharedArg,
}

impl SearchArguments {
    /// Does the search that was `asked` for, or goes on with the one that was interrupted. `kind` is the command.
    ///
    /// # Errors
    /// Where there is none to go on with, what was asked is at fault, or the search fails.
    pub fn open<T: DeserializeOwned + AsMut<Overrides>, F>(
        &self,
        kind: &str,
        asked: impl FnOnce() -> Result<T, Error>,
        search: impl FnOnce(T, Option<RunId>, Means<'_>) -> Result<F, Error>,
    ) -> Result<F, Error> {
        self.shared.apply();
        let interrupt = Interrupt::listen().map_err(|source| Error::Setup { doing: "listen for signals", source })?;
        let (wanted, resumed) = match self.resume {
            Some(which) => interrupted(&self.database, which, kind)?,
            None => (asked()?, None),
        };
        let mut observer = observer(self.quiet);
        let database = &self.database.database;
        let near = scratch(self.scratch.as_deref(), database);
        let journal = self.journal.as_deref();
        search(wanted, resumed, Means { database, near: &near, interrupt, journal, observer: &mut *observer })
    }
}

/// The file of a search that goes on with no other.
///
/// # Errors
/// Where none is named.
pub fn named(file: Option<&PathBuf>) -> Result<PathBuf, Error> {
    let none = || Error::Arguments { message: "no experiment".to_owned(), hint: "name its file".to_owned() };
    file.cloned().ok_or_else(none)
}

/// The search that was asked for, or the latest that is not done, and its settings; with the variables of now, since
/// none are kept.
fn interrupted<T: DeserializeOwned + AsMut<Overrides>>(
    database: &DatabaseArg,
    which: i64,
    kind: &str,
) -> Result<(T, Option<RunId>), Error> {
    let database = Database::open(&database.database)?;
    let mut wanted = None;
    for head in database.runs()? {
        let asked = if which > 0 { head.id.0 == which } else { head.status != RunStatus::Done };
        let first = if asked { database.journal(head.id)?.into_iter().next() } else { None };
        if let Some(first) = first.filter(|first| first["search"] == kind) {
            wanted = Some((head.id, head.status, first["wanted"].clone()));
        }
    }
    let none = || Error::Arguments {
        message: format!("no interrupted search by `prony {kind}` in `{}`", database.path().display()),
        hint: format!("`prony {kind} FILE ...` begins a new one; `prony ls` lists the runs"),
    };
    let (run, status, settings) = wanted.ok_or_else(none)?;
    if status == RunStatus::Done {
        return Err(none());
    }
    let broken = |source| Error::Json { what: "the search's settings", source };
    let mut wanted: T = serde_json::from_value(settings).map_err(broken)?;
    wanted.as_mut().variables = variables();
    Ok((wanted, Some(run)))
}
