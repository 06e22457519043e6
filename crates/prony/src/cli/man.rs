//! `prony man`: writes manual pages, made from the definitions of the commands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap::builder::Resettable;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

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

/// What every command exits with.
const EXIT_STATUS: &str = "\
Exit status:
  0  success
  1  finished with a negative result: a trial or a check failed, or a condition of `--fail-if` is met
  2  the command could not be executed, or what was asked cannot be judged";

/// Writes a page for each command.
///
/// # Errors
/// Where the folder cannot be made or a page cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let folder = arguments.folder.display();
    let unwritten = Error::write(format!("the manual pages in `{folder}`"));
    fs::create_dir_all(&arguments.folder).map_err(&unwritten)?;
    let mut command = super::definitions();
    command.build();
    pages(&command, &arguments.folder).map_err(unwritten)?;
    output.print(&format!("wrote a page for each command into `{folder}`\n"))?;
    Ok(Answer::Yes)
}

/// The page of a command, and those of its commands.
fn pages(command: &Command, folder: &Path) -> io::Result<()> {
    command.get_subcommands().filter(|one| !one.is_hide_set()).try_for_each(|one| pages(one, folder))?;
    let after_help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.clone().after_help(Resettable::Reset));
    let mut page = Vec::new();
    man.render(&mut page)?;
    sections(&format!("{EXIT_STATUS}\n\n{after_help}")).to_writer(&mut page)?;
    fs::write(folder.join(man.get_filename()), page)
}

/// The parts of a help text, each below a line such as `Examples:`, as sections of a page; what has no such line is a note.
fn sections(help: &str) -> Roff {
    let mut roff = Roff::new();
    for part in help.split("\n\n").map(str::trim_end).filter(|part| !part.is_empty()) {
        let (title, lines) = match part.split_once('\n') {
            Some((title, lines)) if title.ends_with(':') => (title.trim_end_matches(':'), lines),
            _ => ("Notes", part),
        };
        let title = if title == "Example" { "Examples" } else { title };
        roff.control("SH", [title.to_uppercase().as_str()]).control("nf", []);
        for line in lines.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff
}
