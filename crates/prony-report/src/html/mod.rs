//! Writes a run's report as one self-contained HTML page: verdicts, tables and findings are plain HTML; an embedded
//! script draws the charts from embedded data. The page needs no network, and its content security policy allows none.

mod encode;
mod page;
mod payload;
mod profile;
mod sections;
mod text;

use std::io::Write;

use super::assemble::answer;
use super::{Options, build};
use crate::error::Error;
use crate::plot::data::Source;
use prony_results::{Database, RunData};

/// Writes a run's page.
///
/// # Errors
/// Those of the database, [`Error::Latency`], [`Error::Json`], [`Error::Write`].
pub fn write(database: &Database, data: &RunData, options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let source = Source { database, data };
    let report = build(data, &Options { folded: true, ..options.clone() });
    let payload = payload::payload(source, &report.verdicts)?;
    let json = serde_json::to_string(&payload).map_err(|source| Error::Json { what: "the page's data", source })?;
    let page = page::page(data, &report, &answer(data), &json);
    out.write_all(page.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|source| Error::Write { what: "the page".to_owned(), source })
}
