//! `prony schema`: prints the JSON Schema of the experiment file, or that of exported results.

use super::{Answer, Output};
use crate::error::Error;
use prony_report::export::document;

/// Nothing to say.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prony schema > experiment.schema.json
  prony schema --reference")]
pub struct Arguments {
    /// Print the reference in Markdown instead of the schema
    #[arg(long)]
    reference: bool,
    /// Print the schema of what `prony report --format json` writes
    #[arg(long, conflicts_with = "reference")]
    results: bool,
}

/// Prints the schema.
///
/// # Errors
/// Where the output cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let text = match (arguments.reference, arguments.results) {
        (true, _) => format!("{}\n{}", prony_experiment::reference(), prony_experiment::metrics_reference()),
        (false, true) => format!("{:#}", document::schema()),
        (false, false) => format!("{:#}", prony_experiment::schema()),
    };
    output.print_data(&format!("{text}\n"))?;
    Ok(Answer::Yes)
}
