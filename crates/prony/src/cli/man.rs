//! `prony man`: writes manual pages, made from the definitions of the commands.

use std::fs;
use std::path::PathBuf;

use super::{Answer, Output};
use crate::error::Error;

/// Where to.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  prony man ~/.local/share/man/man1                       # then `man prony-run`")]
pub struct Arguments {
    /// Folder for `prony.1`, `prony-run.1` and one page for each other command; existing pages are overwritten
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes a page for each command.
///
/// # Errors
/// Where the folder cannot be made or a page cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let folder = arguments.folder.display();
    let unwritten = |source| Error::Write { what: format!("the manual pages in `{folder}`"), source };
    fs::create_dir_all(&arguments.folder).map_err(unwritten)?;
    clap_mangen::generate_to(super::definitions(), &arguments.folder).map_err(unwritten)?;
    output.print(&format!("wrote a page for each command into `{folder}`\n"))?;
    Ok(Answer::Yes)
}
