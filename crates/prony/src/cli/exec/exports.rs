//! The files of `prony exec` for results. Each is open before anything runs: hours later would be late to learn that one
//! cannot be written.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::arguments::ExportArguments;
use super::hyperfine;
use crate::cli::Output;
use crate::cli::choice::{DatabaseArg, RunChoice};
use crate::cli::report::{ReportArgs, ReportFormat, What, report};
use crate::error::Error;
use prony_results::RunData;

/// A place for results.
pub struct Export {
    path: PathBuf,
    /// `None` is standard output.
    file: Option<File>,
    format: Format,
}

/// What is written.
#[derive(Clone, Copy)]
enum Format {
    Report(ReportFormat),
    Hyperfine,
}

/// Opens what was asked for.
///
/// # Errors
/// Where one cannot be written.
pub fn open(arguments: &ExportArguments) -> Result<Vec<Export>, Error> {
    let files = [
        (&arguments.export_json, Format::Report(ReportFormat::Json)),
        (&arguments.export_csv, Format::Report(ReportFormat::Csv)),
        (&arguments.export_markdown, Format::Report(ReportFormat::Markdown)),
        (&arguments.export_asciidoc, Format::Report(ReportFormat::Asciidoc)),
        (&arguments.export_orgmode, Format::Report(ReportFormat::Orgmode)),
        (&arguments.export_hyperfine_json, Format::Hyperfine),
    ];
    let open = |(path, format): (&Option<PathBuf>, _)| {
        let path = path.clone()?;
        if path == Path::new("-") {
            return Some(Ok(Export { path, file: None, format }));
        }
        // What an earlier run wrote stays until there is something to put in its place.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let unwritten = |source| Error::Write { what: format!("`{}`", path.display()), source };
        Some(file.map_err(unwritten).map(|file| Export { path, file: Some(file), format }))
    };
    files.into_iter().filter_map(open).collect()
}

impl Export {
    /// Writes the run's results.
    ///
    /// # Errors
    /// Where they cannot be read or written.
    pub fn write(self, database: &DatabaseArg, data: &RunData, output: &mut Output<'_>) -> Result<(), Error> {
        let Self { path, file, format } = self;
        let Some(file) = file else { return format.write(database, data, &mut output.data()) };
        let unwritten = |source| Error::Write { what: format!("`{}`", path.display()), source };
        let is_file = file.metadata().is_ok_and(|about| about.is_file());
        if is_file {
            file.set_len(0).map_err(unwritten)?;
        }
        let mut out = BufWriter::new(file);
        format.write(database, data, &mut out)?;
        out.flush().map_err(unwritten)
    }
}

impl Format {
    fn write(self, database: &DatabaseArg, data: &RunData, out: &mut dyn Write) -> Result<(), Error> {
        match self {
            Self::Report(format) => {
                let (what, run, database) = (What::Results, RunChoice::Number(data.head.id.0), database.clone());
                report(&ReportArgs { run, database, format, what, output: None, processes: false, html: false }, out)
            }
            Self::Hyperfine => {
                let what = "times for hyperfine";
                let written = serde_json::to_string_pretty(&hyperfine::document(data));
                let text = written.map_err(|source| Error::Json { what, source })?;
                writeln!(out, "{text}").map_err(|source| Error::Write { what: what.to_owned(), source })
            }
        }
    }
}
