//! `prony data`: writes the records that an experiment generates to a file.

use std::io::{self, Write};
use std::path::PathBuf;

use prony_experiment::design::Experiment;
use prony_experiment::plan::plan;
use prony_model::catalog::Anywhere;
use prony_model::number;
use prony_model::spec::DataSpec;

use super::run::OverrideArguments;
use super::{Answer, Output, say};
use crate::data::{self, Form};
use crate::error::Error;
use crate::output_file::{OutputFiles, Present};
use prony_runner::load;

/// What is written, and where to.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prony data experiment.toml --records 3
  prony data experiment.toml --to csv --output records.csv")]
pub struct Arguments {
    /// Experiment file; the records are those that its `[data]` generates for the first block
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The file's format
    #[arg(long, value_enum, default_value = "ndjson")]
    to: Format,
    /// Number of records to write; default: all
    #[arg(long, value_name = "N", value_parser = count)]
    records: Option<u64>,
    #[command(flatten)]
    overrides: OverrideArguments,
    /// File to write; default: standard output
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
}

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// One JSON object per line: the document, or key and value
    Ndjson,
    /// Comma-separated values with a header line
    Csv,
}

fn count(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| "write a whole number, such as 100_000".to_owned())
}

/// Writes the data; says on standard error what the file holds.
///
/// # Errors
/// Where the file has problems, the options do not go together, or the output cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let experiment = load::experiment(&arguments.file, &arguments.overrides.read()?, &Anywhere)?;
    let (data, seed) = only_data(&experiment)?;
    let written = match &arguments.output {
        None => arguments.write(data, seed, &mut output.data()),
        Some(path) => OutputFiles::of(None, [&arguments.file])
            .open(path, Present::Replaced)?
            .write(|out| arguments.write(data, seed, out)),
    };
    written.map(|()| Answer::Yes)
}

impl Arguments {
    fn write(&self, data: &DataSpec, seed: u64, out: &mut dyn Write) -> Result<(), Error> {
        let form = match self.to {
            Format::Ndjson => Form::Ndjson,
            Format::Csv => Form::Csv,
        };
        let count = self.records.unwrap_or(data.records);
        let bytes = data::write(data, seed, count, form, out).map_err(|e| self.failed(e))?;
        say(&format!("{bytes}: {}\n", number::count(count, "record")));
        Ok(())
    }

    fn failed(&self, source: io::Error) -> Error {
        let what = self.output.as_ref().map_or("the output".to_owned(), |path| format!("`{}`", path.display()));
        Error::Write { what, source }
    }
}

fn refuse<T>(message: &str, hint: &str) -> Result<T, Error> {
    Err(Error::Arguments { message: message.to_owned(), hint: hint.to_owned() })
}

/// The one specification of data that all variants share, and the seed of the first block.
fn only_data(experiment: &Experiment) -> Result<(&DataSpec, u64), Error> {
    let mut different: Vec<&DataSpec> = Vec::new();
    for data in experiment.variants().iter().filter_map(|variant| variant.spec.data.as_ref()) {
        if !different.contains(&data) {
            different.push(data);
        }
    }
    let seed = plan(experiment).first().map(|trial| trial.seed);
    match (different[..].first(), different.len(), seed) {
        (Some(data), 1, Some(seed)) => Ok((data, seed)),
        (None, ..) | (.., None) => refuse(
            "the experiment has no `[data]`",
            "`prony data` writes only records that prony generates from `[data]`",
        ),
        (_, n, _) => {
            let message = format!("the variants have {n} different sets of records");
            refuse(&message, "choose one set with `--only factor=level`")
        }
    }
}
