//! `prony rm`: deletes runs.

use std::fs;
use std::io::{BufRead, Write};

use prony_model::number::count;
use prony_os::launch::remove_tree;

use super::run_selection::{DatabaseArg, RunChoice};
use crate::error::Error;
use prony_report::screen::{Screen, one_line};
use prony_report::when;
use prony_results::{Database, RunHead, RunId};

/// Delete runs with all their records and saved cuts
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:
  prony rm 3 4")]
pub struct RmArgs {
    /// Numbers of the runs; `-1` is the latest
    #[arg(value_name = "RUN", required = true, allow_negative_numbers = true)]
    pub runs: Vec<RunChoice>,
    /// Where the results are
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Delete without asking
    #[arg(long, short)]
    pub yes: bool,
}

/// Deletes runs; all of them exist, or none is deleted.
///
/// Without `--yes` it asks on `ask` and reads the answer from `answers`, which is `None` where nobody
/// can answer. Says on `ask` what was deleted.
///
/// # Errors
/// Those of the database, [`Error::Os`] where a saved cut cannot be removed, [`Error::Arguments`] where nobody can answer, [`Error::Write`].
pub fn rm(args: &RmArgs, answers: Option<&mut dyn BufRead>, ask: &mut Screen<impl Write>) -> Result<(), Error> {
    let mut database = Database::open(&args.database.database)?;
    let mut runs = args.runs.iter().map(|run| run.find(&database)).collect::<Result<Vec<RunId>, _>>()?;
    runs.sort_unstable();
    runs.dedup();
    let heads = runs.iter().map(|run| database.run(*run)).collect::<Result<Vec<_>, _>>()?;
    runs.iter().try_for_each(|run| database.take_run(*run))?;
    if !args.yes && !agreed(&heads, answers, ask)? {
        return Ok(());
    }
    for head in &heads {
        database.delete_run(head.id)?;
        // It is deleted even if the message cannot be printed.
        let _ = ask.line(&format!("deleted run {}", head.id));
        let cuts = database.cuts_folder(head.id);
        remove_tree(&cuts)?;
        // Other runs may have cuts there.
        let _ = cuts.parent().map(fs::remove_dir);
    }
    Ok(())
}

fn agreed(heads: &[RunHead], answers: Option<&mut dyn BufRead>, ask: &mut Screen<impl Write>) -> Result<bool, Error> {
    let Some(answers) = answers else {
        return Err(Error::arguments(
            "`prony rm` asks before it deletes, and standard input is not a terminal; nothing was deleted",
            "to delete without being asked, add `--yes`",
        ));
    };
    let unwritten = Error::write("the question");
    for head in heads {
        let (id, began, title) = (head.id, when(head.started_unix_ms), one_line(&head.title));
        ask.line(&format!("run {id} of {began}: {title}, {}", count(head.finished, "trial"))).map_err(&unwritten)?;
    }
    ask.text("delete? [y/N] ").and_then(|()| ask.flush()).map_err(unwritten)?;
    let mut answer = String::new();
    answers.read_line(&mut answer).map_err(|source| Error::Read { what: "the answer".to_owned(), source })?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
