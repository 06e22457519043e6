//! What `prony grow` and `prony tune` have in common: their options, and how a search is opened.

use std::path::PathBuf;

use super::listen;
use super::run::{none_given, observer, variables};
use super::run_selection::{DatabaseArg, RunChoice, SharedArg};
use crate::error::Error;
use crate::output_file::{OutputFiles, Present};
use crate::search::Means;
use crate::search::journal::{self, Wanted};
use prony_place::output_targets::Protected;
use prony_results::{Database, RunId, RunStatus};
use prony_runner::preflight::Here;
use prony_runner::{load, scratch};

/// What every search takes.
#[derive(Debug, clap::Args)]
pub(crate) struct SearchArguments {
    /// Resume an interrupted search: the latest, or the run with this number (`-2`: the one before the latest run)
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest", allow_negative_numbers = true)]
    pub resume: Option<RunChoice>,
    /// Write every trial and every decision to this file, one JSON object per line
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
    /// Starts the search that `asked` describes, or resumes the interrupted search that `--resume` names. Beside `--resume`
    /// none of the `options` may be given, and `file` only if it is the file of that search.
    ///
    /// # Errors
    /// Where there is none to go on with, what was asked is at fault, or the search fails.
    pub(crate) fn open<T: Wanted, F>(
        &self,
        (file, options): (Option<&PathBuf>, &[(&'static str, bool)]),
        asked: impl FnOnce() -> Result<T, Error>,
        search: impl FnOnce(T, Option<RunId>, Means<'_>) -> Result<F, Error>,
    ) -> Result<F, Error> {
        self.shared.apply();
        let interrupt = listen()?;
        let (mut wanted, resumed) = match self.resume {
            Some(which) => {
                none_given("search", "as it was started", options)?;
                interrupted(&self.database, which, file)?
            }
            None => (asked()?, None),
        };
        let mut observer = observer(self.quiet);
        let database = &self.database.database;
        let near = scratch::folder(self.scratch.as_deref(), database);
        // Before the results are made: nothing is to be left where scratch cannot be.
        Here::new(&near, Protected::default())?;
        let over = if self.is_journal_of(resumed)? { Present::Replaced } else { Present::Refused("name another file") };
        let mut files = OutputFiles::of(Some(database), [wanted.subject().0]);
        let journal = self.journal.as_ref().map(|path| files.open(path, over)).transpose()?;
        let (journal, files, observer) = (journal.as_ref(), &mut files, &mut *observer);
        search(
            wanted,
            resumed,
            Means { database, option: &self.database.option(), near: &near, interrupt, journal, files, observer },
        )
    }

    /// Whether the file for the journal begins as that of the run which goes on: then all that is in it is written again.
    fn is_journal_of(&self, resumed: Option<RunId>) -> Result<bool, Error> {
        let path = self.journal.as_ref().filter(|path| path.is_file());
        let (Some(path), Some(run)) = (path, resumed) else { return Ok(false) };
        let first = std::fs::read_to_string(path).ok();
        let first = first.as_deref().and_then(|text| serde_json::from_str(text.lines().next()?).ok());
        let asked = journal::asked(&Database::open(&self.database.database)?, run)?;
        Ok(first.is_some() && first == asked)
    }
}

/// The file of a search that goes on with no other.
///
/// # Errors
/// Where none is named.
pub(crate) fn named(file: Option<&PathBuf>) -> Result<PathBuf, Error> {
    let none = || Error::arguments("no experiment file is given", "write the name of the file after the command");
    file.cloned().ok_or_else(none)
}

/// The search that was asked for, or the latest that is not done, and its settings; with the variables of now, since
/// none are kept.
fn interrupted<T: Wanted>(
    database: &DatabaseArg,
    which: RunChoice,
    file: Option<&PathBuf>,
) -> Result<(T, Option<RunId>), Error> {
    let database = Database::open(&database.database)?;
    let (mut wanted, kind) = (None, T::COMMAND);
    let which = which.to_resume(&database)?;
    for head in database.runs()? {
        let asked = which.map_or(head.status != RunStatus::Done, |which| head.id == which);
        let found = if asked { journal::asked(&database, head.id)?.and_then(T::of) } else { None };
        if let Some(found) = found {
            wanted = Some((head.id, head.status, found));
        }
    }
    let none = || {
        Error::arguments(
            format!("no interrupted search by `prony {kind}` in `{}`", database.path().display()),
            format!("to start a new search: `prony {kind} FILE ...`; to list the runs: `prony ls`"),
        )
    };
    let (run, status, mut wanted) = wanted.ok_or_else(none)?;
    if status == RunStatus::Done {
        return Err(none());
    }
    if let Some(file) = file {
        let (text, _) = load::read(file)?;
        if !database.load_run(run)?.experiment.is_of(&text) {
            return Err(Error::arguments(
                format!("`{}` is not the experiment of run {run}", file.display()),
                "leave the file out to resume the search with its own, or start a new search without --resume",
            ));
        }
    }
    wanted.subject().1.variables = variables();
    Ok((wanted, Some(run)))
}
