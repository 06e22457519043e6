//! `prony schema`: the JSON Schema of the experiment file.

use super::{Answer, Output};
use crate::error::Error;

/// Nothing to say.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print the reference in Markdown instead of the schema
    #[arg(long)]
    reference: bool,
}

/// Prints the schema.
///
/// # Errors
/// Where the output cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let text = if arguments.reference {
        prony_core::experiment::reference()
    } else {
        format!("{:#}", prony_core::experiment::schema())
    };
    output.print(&format!("{text}\n"))?;
    Ok(Answer::Yes)
}
