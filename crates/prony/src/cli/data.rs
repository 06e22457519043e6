//! `prony data`: the data of an experiment, or of the options, as a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use prony_core::experiment::Anywhere;
use prony_core::experiment::design::Experiment;
use prony_core::experiment::spec::DataSpec;
use prony_core::plan::plan;
use prony_core::units::{Bytes, parse_bytes};
use prony_core::workload::MapData;

use super::run::OverrideArguments;
use super::{Answer, Output, say};
use crate::data::{Amount, Form, OsmChange, write_records};
use crate::error::Error;
use crate::load;

/// What is written, and where to.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The experiment whose `[data]` is written, as its first block has it; none for a map
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The file's format
    #[arg(long, value_enum)]
    to: Format,
    /// So many elements or records
    #[arg(long, visible_alias = "records", value_name = "N", conflicts_with = "bytes", value_parser = count)]
    elements: Option<u64>,
    /// As many whole elements of a map as take at least so much, such as 18MB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes: Option<Bytes>,
    /// The changeset that the elements of a map name; any text
    #[arg(long, value_name = "TEXT")]
    changeset: Option<String>,
    #[command(flatten)]
    overrides: OverrideArguments,
    /// File to write; standard output unless told
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
}

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Keys and values of `[data]`, a JSON object a line
    Ndjson,
    /// Keys and values of `[data]`, comma-separated, with a line of names
    Csv,
    /// Nodes, ways and relations of a made-up street map, as osmChange XML
    Osmchange,
}

fn count(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| "a whole number, such as 100_000".to_owned())
}

fn size(text: &str) -> Result<Bytes, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

/// Writes the data; says on standard error what the file holds.
///
/// # Errors
/// Where the file has problems, the options do not go together, or the output cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    match &arguments.output {
        None => arguments.write(&mut output.data())?,
        Some(path) => {
            let failed = |source| Error::Write { what: format!("`{}`", path.display()), source };
            let mut file = BufWriter::new(File::create(path).map_err(failed)?);
            arguments.write(&mut file)?;
            file.flush().map_err(failed)?;
        }
    };
    Ok(Answer::Yes)
}

impl Arguments {
    fn write(&self, out: &mut dyn Write) -> Result<(), Error> {
        match self.to {
            Format::Osmchange => self.map(out),
            Format::Ndjson => self.records(Form::Ndjson, out),
            Format::Csv => self.records(Form::Csv, out),
        }
    }

    fn map(&self, out: &mut dyn Write) -> Result<(), Error> {
        if self.file.is_some() || !self.overrides.only_a_seed() {
            return refuse("a map is made from `--seed` alone", "take the file and `--set`, `--only`, `--blocks` out");
        }
        let amount = match (self.elements, self.bytes) {
            (Some(count), _) => Amount::Count(count),
            (None, Some(bytes)) => Amount::Bytes(bytes),
            (None, None) => {
                return refuse("a map has no size of its own", "add `--bytes 18MB` or `--elements 100_000`");
            }
        };
        let seed = self.overrides.read()?.seed.unwrap_or(0);
        let changeset = self.changeset.clone().unwrap_or_else(|| "1".to_owned());
        let written =
            OsmChange { map: MapData::new(seed), changeset, amount }.write(out).map_err(|e| self.failed(e))?;
        let [nodes, ways, relations] = written.elements;
        let (total, bytes) = (nodes + ways + relations, written.bytes);
        say(&format!("{bytes}: {total} elements, of which {nodes} nodes, {ways} ways, {relations} relations\n"));
        Ok(())
    }

    fn records(&self, form: Form, out: &mut dyn Write) -> Result<(), Error> {
        if self.bytes.is_some() || self.changeset.is_some() {
            return refuse("`--bytes` and `--changeset` are for maps", "`--records N` writes the first N records");
        }
        let Some(file) = &self.file else {
            return refuse("records are those of an experiment", "name its file: `prony data FILE --to ndjson`");
        };
        let experiment = load::experiment(file, &self.overrides.read()?, &Anywhere)?;
        let (data, seed) = only_data(&experiment)?;
        let count = self.elements.unwrap_or(data.records);
        let bytes = write_records(data, seed, count, form, out).map_err(|e| self.failed(e))?;
        say(&format!("{bytes}: {count} records\n"));
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
        (None, ..) | (.., None) => refuse("the experiment has no `[data]`", "only records of ours can be written"),
        (_, n, _) => {
            let message = format!("the variants have {n} different sets of records");
            refuse(&message, "choose one with `--only factor=level`")
        }
    }
}
