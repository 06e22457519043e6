//! A run's report on the terminal, whichever command prints it.

use super::{Output, sparklines};
use crate::error::Error;
use crate::search::journal;
use prony_report::{Options, build};
use prony_results::{Database, RunData, RunStatus};

/// The command that runs the other trials of a run that was interrupted or killed; `None` of other runs. `option` is the
/// option by which it finds the results, and `file` the experiment's file, without which a run that recorded no commands
/// cannot be resumed.
///
/// # Errors
/// Those of the database.
pub(super) fn resume(
    database: &Database,
    data: &RunData,
    option: &str,
    file: Option<&str>,
) -> Result<Option<String>, Error> {
    if data.head.status == RunStatus::Done {
        return Ok(None);
    }
    let run = data.head.id;
    if let Some(search) = journal::search_of(database, run)? {
        return Ok(Some(format!("prony tune --resume {search}{option}")));
    }
    let command = journal::asked(database, run)?.map_or("run", |search| search.command());
    let file = match (data.experiment.lacks_commands(), file) {
        (false, _) => String::new(),
        (true, Some(file)) => format!(" {}", shell_words::quote(file)),
        (true, None) => return Ok(None),
    };
    Ok(Some(format!("prony {command}{file} --resume {run}{option}")))
}

/// Prints the report of a run; where `options.programs` is set, with CPU use and memory of each program over time.
///
/// # Errors
/// Those of the database, and of the output.
pub(super) fn print(
    database: &Database,
    data: &RunData,
    options: &Options,
    width: Option<usize>,
    output: &mut Output<'_>,
) -> Result<(), Error> {
    let mut report = build(data, options);
    if options.programs {
        let courses = sparklines::remarks(database, data, width.or(output.width))?;
        report.remarks.extend(Some(courses).filter(|courses| !courses.lines.is_empty()));
    }
    output.report(&report, width)
}
