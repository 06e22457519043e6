//! Checks before a run that the commands of programs exist: a wrong name is a mistake, not a result.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
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

/// The kernel reads so many bytes of a script's first line.
const LONGEST_FIRST_LINE: usize = 256;

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
    if is_brought(program) { None } else { missing(program, &command, written) }
}

/// Whether its build, its preparation or its changes may create its command.
const fn is_brought(program: &ProgramSpec) -> bool {
    program.build.is_some() || program.prepare.is_some() || !program.changes.is_empty()
}

/// Why a command cannot be executed, by the directory and the PATH of a program, and what to do; `None` if it can.
pub fn missing(program: &ProgramSpec, command: &str, written: Written) -> Option<(String, String)> {
    let directory = program.directory.as_deref().map(Path::new);
    let cannot = |verb: &str, hint: String| Some((format!("cannot {verb} the command `{command}`"), hint));
    if let Some(path) = find(program, directory, command.as_ref()) {
        return cannot("execute", without_interpreter(&path)?);
    }
    if command.contains('/') {
        let path = named(directory, command.as_ref());
        return cannot(if path.is_file() { "execute" } else { "find" }, of_path(&path));
    }
    let here = directory.map(|directory| directory.join(command)).filter(|path| path.is_file());
    cannot("find", hint(command, here.is_some(), written))
}

/// The file that a command is, by the PATH of a program that works in a directory: as with `execvp`, a script whose interpreter does not
/// exist is passed over where a later directory has another file of this name.
pub(crate) fn find(program: &ProgramSpec, directory: Option<&Path>, command: &OsStr) -> Option<PathBuf> {
    if command.as_encoded_bytes().contains(&b'/') {
        return Some(named(directory, command)).filter(|path| is_program(path));
    }
    let entry = |entry: PathBuf| directory.map_or_else(|| entry.clone(), |directory| directory.join(&entry));
    let path = path(program);
    let candidates =
        || std::env::split_paths(&path).map(|dir| entry(dir).join(command)).filter(|path| is_program(path));
    candidates().find(|path| without_interpreter(path).is_none()).or_else(|| candidates().next())
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

/// What is wrong with a script whose interpreter does not exist: the kernel says of the script that there is no such file. The kernel
/// ends the name of the interpreter at a blank or a tab, so that the carriage return of a line of Windows is part of it.
fn without_interpreter(path: &Path) -> Option<String> {
    let mut text = [0; LONGEST_FIRST_LINE];
    let length = File::open(path).and_then(|mut file| file.read(&mut text)).ok()?;
    let line = text[..length].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii_start();
    let interpreter = line.split(|byte| matches!(byte, b' ' | b'\t')).next()?;
    let is_absent = matches!(Path::new(OsStr::from_bytes(interpreter)).try_exists(), Ok(false));
    let name = String::from_utf8_lossy(interpreter);
    // A relative one begins at the directory in which the program works, which may be a copy.
    (name.starts_with('/') && is_absent).then(|| match name.strip_suffix('\r') {
        Some(name) => format!(
            "the first line of `{path}` ends with a carriage return, as on Windows, and `{name}` followed by one is no \
             interpreter: `sed -i 's/\\r$//' {path}`",
            path = path.display()
        ),
        None => {
            format!("`{}` names the interpreter `{name}` in its first line, and there is no such file", path.display())
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// It was refused, although a trial executes the second file.
    #[test]
    fn script_without_its_interpreter_is_passed_over_where_path_has_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name).join("build");
            std::fs::create_dir(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let (first, second) = (write("a", "#!/no/such/python\n"), write("b", "#!/bin/sh\n"));
        let on = |path: &str| {
            let text = format!(
                "[program.x]\ncommand = [\"build\"]\ndirectory = {:?}\nenv = {{ PATH = {path:?} }}\n",
                dir.path()
            );
            crate::tests::program(&text)
        };
        let found = |program: &ProgramSpec| find(program, Some(dir.path()), "build".as_ref());
        for (path, wanted) in [("a:b", &second), ("b:a", &second)] {
            assert_eq!(lacking(&on(path), Written::InFile), None, "{path}");
            assert_eq!(found(&on(path)).as_ref(), Some(wanted), "{path}");
        }
        assert_eq!(found(&on("a")).as_ref(), Some(&first));
        let (_, hint) = lacking(&on("a"), Written::InFile).unwrap();
        assert!(hint.contains("`/no/such/python`"), "{hint}");
    }

    /// The trials of both failed: `cannot execute ./build: No such file or directory`, although it is there.
    #[test]
    fn script_without_its_interpreter_is_refused_with_the_name_that_the_kernel_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("build");
        let said = |text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            let text = format!("[program.x]\ncommand = [\"./build\"]\ndirectory = {:?}\n", dir.path());
            lacking(&crate::tests::program(&text), Written::InFile)
        };
        let (message, hint) = said("#!/no/such/python -u\nprint()\n").unwrap();
        assert_eq!(message, "cannot execute the command `./build`");
        assert!(hint.ends_with("names the interpreter `/no/such/python` in its first line, and there is no such file"));
        let (_, hint) = said("#!/bin/sh\r\necho\r\n").unwrap();
        assert!(hint.contains("ends with a carriage return, as on Windows, and `/bin/sh` followed by one"), "{hint}");
        assert!(hint.contains(r"sed -i 's/\r$//' "), "{hint}");
        for starts in ["#!/bin/sh\n", "#! /bin/sh -e\n", "#!/bin/sh", "#!/bin/sh \r\n", "#!", "\x7fELF", "", "#!sh\n"] {
            assert_eq!(said(starts), None, "{starts:?}");
        }
    }
}
