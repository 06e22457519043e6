//! `prony mark`: marks the begin or the end of a phase from a measured program's shell script.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use prony_os::clock::monotonic;

use crate::error::Error;
use prony_boundaries::marks::{Boundary, line};

/// What is marked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  prony mark load begin; ./load; prony mark load end")]
pub struct Arguments {
    /// Name of the mark: the name of a phase of the experiment, or the value of its `mark` key
    #[arg(value_name = "NAME")]
    name: String,
    /// Which end of the phase
    #[arg(value_enum)]
    boundary: Which,
    /// File or FIFO for marks; prony sets PRONY_MARKS for the programs that it runs, and if neither is given, nothing
    /// is marked
    #[arg(long, value_name = "FILE", env = "PRONY_MARKS")]
    to: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Which {
    /// The phase begins
    Begin,
    /// The phase ends
    End,
}

/// Writes the mark in one write. Outside of prony it does nothing, so that a program's script also works
/// without prony.
///
/// # Errors
/// Where the file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let at = monotonic();
    let Some(path) = &arguments.to else { return Ok(()) };
    let boundary = match arguments.boundary {
        Which::Begin => Boundary::Begin,
        Which::End => Boundary::End,
    };
    let text = line(&arguments.name, boundary, at, std::process::id());
    let written = OpenOptions::new().append(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(Error::write(format!("a mark to `{}`", path.display())))
}
