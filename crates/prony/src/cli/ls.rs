//! `prony ls`: lists the runs in a database.

use super::Output;
use super::run_selection::DatabaseArg;
use crate::error::Error;
use prony_report::when;
use prony_results::{Database, RunHead, RunStatus};

/// List the runs
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:
  prony ls --database results.db")]
pub struct LsArgs {
    /// Where the results are
    #[command(flatten)]
    pub database: DatabaseArg,
}

/// Lists the runs, the oldest first.
///
/// # Errors
/// Those of the database, and [`Error::Write`].
pub fn ls(args: &LsArgs, output: &mut Output<'_>) -> Result<(), Error> {
    let database = Database::open(&args.database.database)?;
    let runs = database.runs()?;
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    output.table(&["run", "began", "trials", "status", "title"], &rows)
}

fn row(head: &RunHead) -> Vec<String> {
    let failed = head.finished - head.ok;
    // A search plans one trial after the other.
    let is_all = head.finished == head.planned || head.search.is_some();
    let trials = match (is_all, failed) {
        (true, 0) => head.finished.to_string(),
        (true, failed) => format!("{} ({failed} not ok)", head.finished),
        (false, 0) => format!("{} of {}", head.finished, head.planned),
        (false, failed) => format!("{} of {} ({failed} not ok)", head.finished, head.planned),
    };
    let status = match head.status {
        RunStatus::Unfinished => "unfinished: running, or killed",
        other => other.name(),
    };
    vec![head.id.to_string(), when(head.started_unix_ms), trials, status.to_owned(), head.title.clone()]
}
