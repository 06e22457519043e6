//! Writes the results of `prony exec` to the files that the `--export-*` options name. Each file is opened before
//! anything runs, so that a file that cannot be written is reported at once and not after hours.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::arguments::ExportArguments;
use super::hyperfine;
use crate::cli::Output;
use crate::cli::report::{self, ReportFormat, What};
use crate::error::Error;
use crate::output_file::{OutputFile, OutputFiles, Present};
use prony_report::Options;
use prony_results::{Database, RunData};

/// A place for results.
pub struct Export {
    /// `None` is standard output.
    file: Option<OutputFile>,
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
pub fn open(arguments: &ExportArguments, files: &mut OutputFiles) -> Result<Vec<Export>, Error> {
    let wanted = [
        (&arguments.export_json, Format::Report(ReportFormat::Json)),
        (&arguments.export_csv, Format::Report(ReportFormat::Csv)),
        (&arguments.export_markdown, Format::Report(ReportFormat::Markdown)),
        (&arguments.export_asciidoc, Format::Report(ReportFormat::Asciidoc)),
        (&arguments.export_orgmode, Format::Report(ReportFormat::Orgmode)),
        (&arguments.export_hyperfine_json, Format::Hyperfine),
    ];
    let open = |(path, format): (&Option<PathBuf>, _)| {
        let named = path.as_ref()?;
        let file = (named != Path::new("-")).then(|| files.open(named, Present::Replaced)).transpose();
        Some(file.map(|file| Export { file, format }))
    };
    wanted.into_iter().filter_map(open).collect()
}

impl Export {
    /// Writes the run's results.
    ///
    /// # Errors
    /// Where they cannot be read or written.
    pub(crate) fn write(self, database: &Database, data: &RunData, output: &mut Output<'_>) -> Result<(), Error> {
        match &self.file {
            None => self.format.write(database, data, &mut output.data()),
            Some(file) => file.write(|out| self.format.write(database, data, out)),
        }
    }
}

impl Format {
    fn write(self, database: &Database, data: &RunData, out: &mut dyn Write) -> Result<(), Error> {
        match self {
            Self::Report(format) => {
                report::write((format, What::Results), &Options::default(), (database, data), out).map(drop)
            }
            Self::Hyperfine => {
                let what = "times for hyperfine";
                let written = serde_json::to_string_pretty(&hyperfine::document(data));
                let text = written.map_err(|source| Error::Json { what, source })?;
                writeln!(out, "{text}").map_err(Error::write(what))
            }
        }
    }
}
