//! Checks before a run that the commands of programs exist: a wrong name is a mistake, not a result.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use prony_experiment::design::Experiment;
use prony_model::program::ProgramSpec;
use prony_os::launch::DEFAULT_PATH;

use crate::error::Error;

/// Where the user wrote a command, whose words the hint uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// In an experiment file.
    InFile,
    /// On the command line of `prony exec`.
    AsOptions,
}

/// Searches for the command of each program, unless a step before its trials may create it.
///
/// # Errors
/// [`Error::Refused`] with the first that is not there.
pub fn startable(experiment: &Experiment, written: Written) -> Result<(), Error> {
    let mut checked = BTreeSet::new();
    for program in experiment.variants().iter().flat_map(|variant| variant.spec.programs()) {
        if checked.insert((program.command.words().into_iter().next(), program.env.get("PATH"), &program.directory))
            && let Some((message, hint)) = lacking(program, written)
        {
            return Err(Error::Refused { message, hint });
        }
    }
    Ok(())
}

/// The message where a program's command does not exist, and a hint; `None` where it exists, or may still be created.
pub fn lacking(program: &ProgramSpec, written: Written) -> Option<(String, String)> {
    // A placeholder that is filled in a trial only.
    let known = |word: &String| !word.contains('\0');
    let command = program.command.words().into_iter().next().filter(known)?;
    let hint = if is_brought(program) { None } else { missing(program, &command, written) };
    let is_there =
        || command.contains('/') && named(program.directory.as_deref().map(Path::new), command.as_ref()).is_file();
    let verb = if is_there() { "execute" } else { "find" };
    hint.map(|hint| (format!("cannot {verb} the command `{command}`"), hint))
}

/// Whether its build, its preparation or its changes may create its command.
const fn is_brought(program: &ProgramSpec) -> bool {
    program.build.is_some() || program.prepare.is_some() || !program.changes.is_empty()
}

/// What to do about a missing command, by the directory and the PATH of a program; `None` if the command exists.
pub fn missing(program: &ProgramSpec, command: &str, written: Written) -> Option<String> {
    let directory = program.directory.as_deref().map(Path::new);
    if find(program, directory, command.as_ref()).is_some() {
        return None;
    }
    if command.contains('/') {
        return Some(of_path(&named(directory, command.as_ref())));
    }
    let here = directory.map(|directory| directory.join(command)).filter(|path| path.is_file());
    Some(hint(command, here.is_some(), written))
}

/// The file that a command is, by the PATH of a program that works in a directory.
pub(crate) fn find(program: &ProgramSpec, directory: Option<&Path>, command: &OsStr) -> Option<PathBuf> {
    if command.as_encoded_bytes().contains(&b'/') {
        return Some(named(directory, command)).filter(|path| is_program(path));
    }
    let entry = |entry: PathBuf| directory.map_or_else(|| entry.clone(), |directory| directory.join(&entry));
    std::env::split_paths(&path(program)).map(|dir| entry(dir).join(command)).find(|path| is_program(path))
}

/// The PATH of a program.
pub(crate) fn path(program: &ProgramSpec) -> OsString {
    let path = program.env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
    path.unwrap_or_else(|| DEFAULT_PATH.into())
}

fn named(directory: Option<&Path>, command: &OsStr) -> PathBuf {
    let path = directory.unwrap_or(Path::new("/nowhere")).join(command);
    // Without the `.` of `./command` in its midst.
    path.components().collect()
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

fn of_path(path: &Path) -> String {
    if path.is_file() {
        return format!("`{0}` is not executable: run `chmod +x {0}`", path.display());
    }
    let what = if path.is_dir() { "the command is a directory, not a file:" } else { "there is no file" };
    format!("{what} `{}`", path.display())
}

fn hint(command: &str, here: bool, written: Written) -> String {
    let (set, shell) = match written {
        Written::InFile => ("`env`".to_owned(), "`shell = true`"),
        Written::AsOptions => (format!("`--env '{command}'`"), "`-S sh`"),
    };
    if here {
        format!("write `./{command}` to run the file in the program's directory")
    } else if command.contains('=') {
        format!("set a variable by {set}, or let a shell read the command: {shell}")
    } else {
        format!("no directory of PATH contains the command; shell builtins need {shell}")
    }
}
