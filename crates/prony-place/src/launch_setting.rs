//! The setting in which a program is launched: working directory, environment variables, standard streams.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use prony_experiment::redacted::LEFT_OUT;
use prony_model::program::{BASE_ENV, CommandLine, DIR, InputSpec, OutputTo, ProgramSpec, TMP};
use prony_model::units::Bytes;
use prony_os::Error::{Directory as NotEntered, Exec as NotExecuted};
use prony_os::file_modes::{self, Access};
use prony_os::launch::{Input, LaunchSpec, Output};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use xxhash_rust::xxh3::xxh3_64;

use crate::dependency::PACKAGES;
use crate::error::Error;
use crate::shell_text::takes_values;
use crate::to_end::Repeatable;
use crate::user::User;

/// The path of the marks in the trial's scratch.
const MARKS: &str = "marks";

/// The program of a trial and the directories that it uses.
#[derive(Clone)]
pub struct Setting<'a> {
    /// The program to launch.
    pub program: &'a ProgramSpec,
    /// The trial's scratch directory.
    pub scratch: &'a Path,
    /// Its working directory.
    pub directory: PathBuf,
    /// Its TMPDIR.
    pub tmp: PathBuf,
    /// Further placeholders, with what stands for them in this trial.
    pub values: Vec<(String, OsString)>,
    /// The user that its commands run as; `None` is the one that runs prony.
    pub user: Option<User>,
}

/// The runner's ends of what the program was given.
#[derive(Debug, Default)]
pub struct Ends {
    /// Its standard output, where it is captured.
    pub stdout: Option<File>,
    /// Its messages, where they are captured.
    pub stderr: Option<File>,
    /// Its marks.
    pub marks: Option<File>,
}

impl Ends {
    /// Those that can be read.
    pub fn open(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.stdout, &self.stderr, &self.marks].into_iter().flatten().map(File::as_fd)
    }
}

/// A file to write into, emptied. A FIFO that nobody reads is an error instead of a wait.
fn written_to(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

impl<'a> Setting<'a> {
    /// With a TMPDIR in its scratch.
    pub fn new(program: &'a ProgramSpec, scratch: &'a Path, directory: PathBuf) -> Self {
        Self { program, scratch, directory, tmp: scratch.join("tmp"), values: Vec::new(), user: None }
    }

    /// The launch, and the runner's ends of it.
    ///
    /// # Errors
    /// Where a pipe, a terminal or a file cannot be made or opened, or a shell would misread a value in the text of a command.
    pub fn launch(&self) -> Result<(LaunchSpec, Ends), Error> {
        let mut spec = self.bare()?;
        spec.stdin = self.input()?;
        // Only where marks are read: a step that wrote one would wait for a reader, or make a file in place of the FIFO.
        spec.env.push(("PRONY_MARKS".into(), self.scratch.join(MARKS).into()));
        let mut ends = Ends { marks: Some(self.marks()?), ..Ends::default() };
        match &self.program.output {
            OutputTo::Null => {
                (spec.stdout, spec.stderr) = (Output::Null, Output::Null);
                return Ok((spec, ends));
            }
            OutputTo::Inherit => {
                (spec.stdout, spec.stderr) = streams_of_ours()?;
                return Ok((spec, ends));
            }
            OutputTo::File(path) => {
                let unwritten = |source| Error::Write { what: format!("`{path}`"), source };
                spec.stdout = Output::File(written_to(Path::new(path)).map_err(unwritten)?);
            }
            OutputTo::Capture => {
                let (read, write) = if self.program.pty { terminal()? } else { pipe()? };
                (spec.stdout, ends.stdout) = (Output::File(write.into()), Some(read.into()));
            }
        }
        let (read, write) = pipe()?;
        (spec.stderr, ends.stderr) = (Output::File(write.into()), Some(read.into()));
        Ok((spec, ends))
    }

    /// The launch of another command in the same place, its output captured.
    ///
    /// # Errors
    /// Where its TMPDIR cannot be made, or a shell would misread a value in the text of a command.
    pub(crate) fn beside(&self, line: &CommandLine) -> Result<LaunchSpec, Error> {
        self.takes_values(line)?;
        let mut spec = self.bare()?;
        // Later commands work in the same scratch, which its supervisor would remove.
        spec.scratch.clear();
        self.command(&mut spec, &line.words());
        Ok(spec)
    }

    /// A command in the same place that can be run again and again.
    ///
    /// # Errors
    /// Where its TMPDIR cannot be made, or a shell would misread a value in the text of a command.
    pub fn repeatable(&self, line: &CommandLine) -> Result<Repeatable, Error> {
        let LaunchSpec { command, args, env, directory, .. } = self.beside(line)?;
        Ok(Repeatable { words: [command].into_iter().chain(args).collect(), env, directory })
    }

    fn bare(&self) -> Result<LaunchSpec, Error> {
        // All of them before the first is executed: a build of an hour is not in vain.
        self.program.lines().try_for_each(|line| self.takes_values(line))?;
        let mut spec = LaunchSpec::new("", &self.directory);
        self.command(&mut spec, &self.program.command.words());
        spec.env = self.environment()?;
        spec.scratch = vec![self.scratch.to_path_buf()];
        let bound = || Output::Capture { first: Bytes::from_kib(4), last: Bytes::from_kib(4) };
        (spec.stdout, spec.stderr) = (bound(), bound());
        Ok(spec)
    }

    fn command(&self, spec: &mut LaunchSpec, words: &[String]) {
        let user = self.user.iter().flat_map(User::words);
        let mut words = user.chain(words.iter().map(|word| self.filled(word)));
        spec.command = words.next().unwrap_or_default();
        spec.args = words.collect();
    }

    /// The names of the variables that it has from prony, where prony has them.
    fn inherits(&self) -> impl Iterator<Item = &str> {
        let more = self.program.inherit.iter().map(String::as_str).filter(|name| !BASE_ENV.contains(name));
        let names = BASE_ENV.into_iter().chain(more);
        names.filter(|name| !self.program.env.contains_key(*name))
    }

    /// What stands in the record for the values of these variables, by name: a short digest, by which a guess of the value can be
    /// tested. The kind of the terminal changes no program that prony launches.
    pub fn inherited(&self) -> BTreeMap<String, String> {
        let digest = |value: OsString| format!("{:08x}", xxh3_64(value.as_bytes()) as u32);
        let state = |name: &str| std::env::var_os(name).map_or_else(|| "not set".to_owned(), digest);
        self.inherits().filter(|name| *name != "TERM").map(|name| (name.to_owned(), state(name))).collect()
    }

    /// Its whole environment.
    fn environment(&self) -> Result<Vec<(OsString, OsString)>, Error> {
        let of_ours = |name: &str| Some((OsString::from(name), std::env::var_os(name)?));
        let mut env: Vec<(OsString, OsString)> = self.inherits().filter_map(of_ours).collect();
        env.extend(self.program.env.iter().map(|(name, value)| (name.into(), self.filled(value))));
        self.add_packages(&mut env);
        file_modes::directory(&self.tmp).map_err(Error::setup("make a TMPDIR"))?;
        env.push(("TMPDIR".into(), self.tmp.clone().into()));
        Ok(env)
    }

    /// Placeholders, with what stands for them.
    fn holes(&self) -> impl Iterator<Item = (&str, &OsStr)> {
        let places = [(DIR, self.directory.as_os_str()), (TMP, self.tmp.as_os_str())].into_iter();
        places.chain(self.values.iter().map(|(hole, value)| (hole.as_str(), value.as_os_str())))
    }

    /// Refuses a command in whose text a shell would misread a value.
    ///
    /// # Errors
    /// Where it would.
    pub fn takes_values(&self, line: &CommandLine) -> Result<(), Error> {
        takes_values(line, self.holes())
    }

    /// A text with its placeholders replaced.
    pub fn filled(&self, text: &str) -> OsString {
        let (mut filled, mut rest) = (OsString::new(), text);
        let next = |rest: &str| {
            self.holes().filter_map(|(hole, value)| Some((rest.find(hole)?, hole, value))).min_by_key(|(at, ..)| *at)
        };
        while let Some((at, hole, value)) = next(rest) {
            filled.push(&rest[..at]);
            filled.push(value);
            rest = &rest[at + hole.len()..];
        }
        filled.push(rest);
        filled
    }

    /// The same for the record, which has it only where `commands` are recorded.
    pub fn recorded(&self, text: &str, commands: bool) -> String {
        if commands { self.filled(text).to_string_lossy().into_owned() } else { LEFT_OUT.to_owned() }
    }

    /// The words of a command line for the record, which has them, and their number, only where `commands` are recorded.
    pub fn recorded_words(&self, line: &CommandLine, commands: bool) -> Vec<String> {
        let words = line.words();
        words.iter().take(if commands { usize::MAX } else { 1 }).map(|word| self.recorded(word, commands)).collect()
    }

    /// Packages of the copy itself come before others.
    fn add_packages(&self, env: &mut Vec<(OsString, OsString)>) {
        let packages = self.directory.join(PACKAGES);
        if packages.is_dir() {
            let before = env.iter().position(|(name, _)| name == "PYTHONPATH").map(|at| env.remove(at).1);
            let paths = [packages].into_iter().chain(before.iter().flat_map(std::env::split_paths));
            // Only a path with a colon cannot be joined: the packages are not found then, and the program fails.
            env.push(("PYTHONPATH".into(), std::env::join_paths(paths).unwrap_or_default()));
        }
    }

    /// Opens its input.
    ///
    /// # Errors
    /// Where it cannot be opened or written.
    pub(crate) fn input(&self) -> Result<Input, Error> {
        let path = match &self.program.input {
            InputSpec::Null => return Ok(Input::Null),
            InputSpec::File(path) => PathBuf::from(path),
            InputSpec::Text(text) => {
                let path = self.scratch.join("input");
                fs::write(&path, text).map_err(Error::setup("write the input"))?;
                path
            }
        };
        match open_whole(&path) {
            Ok(file) => Ok(Input::File(file)),
            Err(source) => Err(Error::ReadFile { path, source }),
        }
    }

    /// A FIFO: marks wake the runner, and nothing is written to a disk.
    fn marks(&self) -> Result<File, Error> {
        let path = self.scratch.join(MARKS);
        let doing = "make the FIFO for marks";
        if !path.exists() {
            file_modes::fifo(&path, Access::Write).map_err(Error::setup(doing))?;
        }
        // Opened for both, so that it never ends when a writer closes it.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(open(&path, flags, Mode::empty()).map_err(Error::setup(doing))?.into())
    }
}

/// Opens a file that each variant or trial reads from its beginning to its end.
///
/// # Errors
/// Where it cannot be read, is a directory, or a FIFO: that waits for a writer and can be read only once.
pub fn open_whole(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if kind.is_fifo() {
        return Err(io::Error::other("the file is a FIFO, which can be read only once"));
    }
    File::open(path)
}

/// Why a program could not be executed in its `directory`, where that is known. Without the program's name where `commands` are not
/// recorded.
pub fn why_not_executed(error: &prony_os::Error, commands: bool, directory: Option<&Path>) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let text = match error {
        NotExecuted { program, .. } | NotEntered { program, .. } if !commands => {
            error.to_string().replace(&format!("`{program}`"), "the program")
        }
        _ => error.to_string(),
    };
    let in_directory = match error {
        // Its build may have made it: only now it is known to be there.
        NotExecuted { program, source }
            if commands && source.kind() == io::ErrorKind::NotFound && !program.contains('/') =>
        {
            let is_there = directory.is_some_and(|directory| directory.join(program).is_file());
            is_there.then(|| format!("; it is looked up in PATH: write `./{program}` for the file in its directory"))
        }
        _ => None,
    };
    format!("{text}{cause}{}", in_directory.unwrap_or_default())
}

/// The standard streams of prony, for a program to write to.
#[expect(clippy::disallowed_methods, reason = "nothing is written to them here")]
fn streams_of_ours() -> Result<(Output, Output), Error> {
    let copied = |stream: BorrowedFd<'_>| -> Result<Output, Error> {
        let copy = stream.try_clone_to_owned().map_err(Error::setup("pass prony's own output to the program"))?;
        Ok(Output::File(copy.into()))
    };
    Ok((copied(std::io::stdout().as_fd())?, copied(std::io::stderr().as_fd())?))
}

/// Read and write end.
fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    let failed = Error::setup("make a pipe");
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(&failed)?;
    rustix::io::ioctl_fionbio(&read, true).map_err(&failed)?;
    Ok((read, write))
}

/// Our side of a terminal and the program's; bytes pass as they are.
fn terminal() -> Result<(OwnedFd, OwnedFd), Error> {
    let failed = Error::setup("make a terminal");
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).map_err(&failed)?;
    grantpt(&ours).and_then(|()| unlockpt(&ours)).map_err(&failed)?;
    let name = ptsname(&ours, Vec::new()).map_err(&failed)?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = open(name.as_c_str(), flags, Mode::empty()).map_err(&failed)?;
    let mut settings = tcgetattr(&theirs).map_err(&failed)?;
    settings.make_raw();
    tcsetattr(&theirs, OptionalActions::Now, &settings).map_err(&failed)?;
    rustix::io::ioctl_fionbio(&ours, true).map_err(&failed)?;
    Ok((ours, theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_not_executed_is_named_only_where_commands_are_recorded() {
        let source = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let exec = NotExecuted { program: "./a key".into(), source: source() };
        assert_eq!(why_not_executed(&exec, true, None), format!("cannot execute `./a key`: {}", source()));
        assert_eq!(why_not_executed(&exec, false, None), format!("cannot execute the program: {}", source()));
        let made = NotExecuted { program: "made".into(), source: source() };
        let dir = tempfile::tempdir().unwrap();
        let why = |commands| why_not_executed(&made, commands, Some(dir.path()));
        assert_eq!(why(true), format!("cannot execute `made`: {}", source()));
        fs::write(dir.path().join("made"), "").unwrap();
        assert!(why(true).ends_with("; it is looked up in PATH: write `./made` for the file in its directory"));
        assert!(!why(false).contains("made"));
        let entered = NotEntered { program: "./a key".into(), directory: "/d".into(), source: source() };
        let expected = format!("cannot enter the directory `/d` for the program: {}", source());
        assert_eq!(why_not_executed(&entered, false, None), expected);
    }
}
