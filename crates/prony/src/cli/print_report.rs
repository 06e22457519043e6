//! A run's report on the terminal, whichever command prints it.

use super::{Output, sparklines};
use crate::error::Error;
use prony_report::{Options, build};
use prony_results::{Database, RunData};

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
