//! `prony new`: writes a new experiment file, from a commented template or from commands.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser};
use prony_experiment::{shell_syntax, templates};

use super::{Answer, Output, exec, say};
use crate::error::Error;
use crate::output_file::{OutputFiles, Present};

/// Where to, and what for.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prony new --for program
  prony new sort.toml --from \"-S sh 'sort a | uniq' 'sort -u a'\"")]
pub struct Arguments {
    /// File to write; a file with content is never overwritten
    #[arg(value_name = "FILE", default_value = "experiment.toml")]
    file: PathBuf,
    /// What the experiment measures
    #[arg(long = "for", value_name = "KIND", value_enum, default_value_t)]
    kind: Kind,
    /// Write the file that `prony exec --save` writes for these commands and options, but do not run the commands:
    /// `--from 'node a.js --vs node b.js'` or `--from "-S sh 'sort a | uniq'"`
    #[arg(long, value_name = "WORDS", conflicts_with = "kind", allow_hyphen_values = true)]
    from: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Storage engines, driven by prony
    #[default]
    Store,
    /// Programs: any commands
    Program,
    /// Servers under HTTP load
    Services,
    /// Two revisions of the git repository in which the file lies
    Branches,
}

impl Kind {
    const fn text(self) -> &'static str {
        match self {
            Self::Store => templates::STORE,
            Self::Program => templates::PROGRAM,
            Self::Services => templates::SERVICES,
            Self::Branches => templates::BRANCHES,
        }
    }
}

/// The words of `--from`, read as those behind `prony exec`.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    exec: exec::Arguments,
}

/// Writes the starting file; never over another.
///
/// # Errors
/// Where the file exists or cannot be written, and where the commands are at fault.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let mut files = OutputFiles::default();
    let text = match &arguments.from {
        Some(words) => from(words, &mut files)?,
        None if arguments.kind == Kind::Branches => {
            make_folder(&arguments.file)?;
            let folder = folder_of(&arguments.file);
            let up = up_to_repository(folder);
            if up.is_none() {
                say(&format!(
                    "warning: `{}` is in no git repository, and the experiment compares revisions of one\n\
                     hint: set `directory` in the file to a folder of the repository\n",
                    folder.canonicalize().unwrap_or_default().display()
                ));
            }
            branches(up.unwrap_or(0))
        }
        None => arguments.kind.text().to_owned(),
    };
    make_folder(&arguments.file)?;
    let file = files.open(
        &arguments.file,
        Present::Refused("name another file; `prony new` does not overwrite files, and this one was not changed"),
    )?;
    file.write_bytes(text.as_bytes())?;
    let path = arguments.file.display();
    output.print(&format!("wrote `{path}`; `prony check {path}` shows its plan\n"))?;
    Ok(Answer::Yes)
}

/// The folder of a file.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Makes the folder of a file, as `bench` of `bench/prony.toml` for the first experiment of a repository. Of a path with more
/// missing folders, opening the file says which: it may be a typing error.
fn make_folder(file: &Path) -> Result<(), Error> {
    let folder = folder_of(file);
    match std::fs::create_dir(folder) {
        Err(error) if !matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
            Err(Error::write_file(folder)(error))
        }
        _ => Ok(()),
    }
}

/// How many folders above this one the top of its repository is; `None` where it is in none.
fn up_to_repository(folder: &Path) -> Option<usize> {
    folder.canonicalize().ok()?.ancestors().position(|folder| folder.join(".git").exists())
}

/// The template for branches, whose `directory` is the top of the repository in which the file lies: the folder of the file is
/// often new, so that no revision has it.
fn branches(up: usize) -> String {
    let top = if up == 0 { ".".to_owned() } else { vec![".."; up].join("/") };
    templates::BRANCHES.replace("directory = \".\"", &format!("directory = \"{top}\""))
}

/// The file of the commands in `line`.
fn from(line: &str, files: &mut OutputFiles) -> Result<String, Error> {
    if let Some(syntax) = shell_syntax(line) {
        return Err(Error::arguments(
            format!("the command of `--from` does not run in a shell: {syntax}"),
            "quote the command and name its shell: `--from \"-S sh 'sort a | uniq'\"`",
        ));
    }
    let words =
        shell_words::split(line).map_err(|error| Error::arguments(format!("`--from`: {error}"), "close each quote"))?;
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let fault = |error: clap::Error| {
        let text = error.to_string();
        let message: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        let message = message.join(" ");
        Error::arguments(
            format!("`--from`: {}", message.trim_start_matches("error: ")),
            "`--from` takes the options of `prony exec`; `prony exec --help` lists them",
        )
    };
    let matches = Line::command().try_get_matches_from(&words).map_err(fault)?;
    if let Some(option) = of_results(&matches) {
        return Err(Error::arguments(
            format!("`--from`: `{option}` has no effect on an experiment file"),
            "leave the option out; after `prony run FILE`, `prony report --format json` writes the results",
        ));
    }
    let line = Line::from_arg_matches(&matches).map_err(fault)?;
    let (_, experiment) = exec::experiment(&line.exec, &words)?;
    files.claim_of_programs(experiment.variants())?;
    Ok(experiment.source().to_owned())
}

/// The first option that was typed and is in no experiment file: what is shown or written, and where.
fn of_results(matches: &ArgMatches) -> Option<String> {
    let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let is_of_results = |argument: &Arg| {
        matches!(argument.get_help_heading(), Some("Report" | "Files"))
            || matches!(argument.get_id().as_str(), "database" | "shared")
    };
    let command = Line::command();
    let mut typed = command.get_arguments().filter(|argument| is_typed(argument.get_id().as_str()));
    Some(format!("--{}", typed.find(|argument| is_of_results(argument))?.get_long()?))
}
