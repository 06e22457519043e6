//! `prony data`: writes the records that an experiment generates to a file.

use std::io::Write;
use std::path::PathBuf;

use prony_experiment::design::Experiment;
use prony_experiment::plan::plan;
use prony_model::catalog::Anywhere;
use prony_model::number;
use prony_model::spec::CollectionSpec;
use prony_model::units::Bytes;

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
    to: Form,
    /// Number of records to write, of each collection; default: all
    #[arg(long, value_name = "N", value_parser = count)]
    records: Option<u64>,
    /// Collection to write, where `[data]` has several; default: all, each line of JSON with the name of its collection
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    #[command(flatten)]
    overrides: OverrideArguments,
    /// File to write; default: standard output
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
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
    let chosen = arguments.chosen(data)?;
    let written = match &arguments.output {
        None => arguments.write(&chosen, seed, &mut output.data()),
        Some(path) => {
            let mut files = OutputFiles::of(None, [&arguments.file]);
            files.claim_of_programs(experiment.variants())?;
            files.open(path, Present::Replaced)?.write(|out| arguments.write(&chosen, seed, out))
        }
    };
    written.map(|()| Answer::Yes)
}

impl Arguments {
    /// The collections to write.
    fn chosen<'d>(&self, data: &'d [CollectionSpec]) -> Result<Vec<&'d CollectionSpec>, Error> {
        let wanted = |collection: &&CollectionSpec| self.collection.is_none() || collection.name == self.collection;
        let chosen: Vec<&CollectionSpec> = data.iter().filter(wanted).collect();
        let names: Vec<String> = data.iter().filter_map(|collection| collection.name.clone()).collect();
        let known = names.join("`, `");
        Err(match &self.collection {
            Some(name) if names.is_empty() => Error::arguments(
                format!("there is no collection `{name}`: the records have no name"),
                "leave `--collection` out",
            ),
            Some(name) if chosen.is_empty() => {
                Error::arguments(format!("unknown collection `{name}`"), format!("known: `{known}`"))
            }
            None if chosen.len() > 1 && self.to == Form::Csv => Error::arguments(
                format!("the records of {} collections have different columns", chosen.len()),
                format!("choose one with `--collection`: `{known}`"),
            ),
            _ => return Ok(chosen),
        })
    }

    fn write(&self, chosen: &[&CollectionSpec], seed: u64, out: &mut dyn Write) -> Result<(), Error> {
        let (mut bytes, mut all) = (0u64, 0u64);
        for collection in chosen {
            let label = collection.name.as_deref().filter(|_| chosen.len() > 1);
            let count = self.records.unwrap_or(collection.records);
            let written = data::write(collection, seed, count, (self.to, label), out);
            let what = || self.output.as_ref().map_or("the output".to_owned(), |path| format!("`{}`", path.display()));
            let (written, records) = written.map_err(|source| Error::Write { what: what(), source })?;
            (bytes, all) = (written.as_bytes().saturating_add(bytes), records.saturating_add(all));
        }
        say(&format!("{}: {}\n", Bytes::from_bytes(bytes), number::count(all, "record")));
        Ok(())
    }
}

/// The collections that all variants share, and the seed of the first block.
fn only_data(experiment: &Experiment) -> Result<(&[CollectionSpec], u64), Error> {
    let mut different: Vec<&[CollectionSpec]> = Vec::new();
    for data in experiment.variants().iter().map(|variant| variant.spec.data.as_slice()).filter(|data| !data.is_empty())
    {
        if !different.contains(&data) {
            different.push(data);
        }
    }
    let seed = plan(experiment).first().map(|trial| trial.seed);
    match (different.as_slice(), seed) {
        ([data], Some(seed)) => Ok((data, seed)),
        ([], _) | (_, None) => Err(Error::arguments(
            "the experiment has no `[data]`",
            "`prony data` writes only records that prony generates from `[data]`",
        )),
        (several, Some(_)) => Err(Error::arguments(
            format!("the variants have {} different sets of records", several.len()),
            "choose one set with `--only factor=level`",
        )),
    }
}
