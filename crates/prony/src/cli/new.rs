//! `prony new`: a commented starting file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use super::{Answer, Output};
use crate::error::Error;

/// Where to.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The file to write; must not exist
    #[arg(value_name = "FILE", default_value = "experiment.toml")]
    file: PathBuf,
}

/// Writes the starting file; never over another.
///
/// # Errors
/// Where the file exists or cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let text = prony_experiment::template();
    let write = |path: &PathBuf| OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes());
    write(&arguments.file).map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => Error::Arguments {
            message: format!("`{}` exists already", arguments.file.display()),
            hint: "`prony new` writes over nothing: name another file".to_owned(),
        },
        _ => Error::Write { what: format!("`{}`", arguments.file.display()), source },
    })?;
    let path = arguments.file.display();
    output.print(&format!("wrote `{path}`; `prony check {path}` shows its plan\n"))?;
    Ok(Answer::Yes)
}
