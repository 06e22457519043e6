//! What to launch, and the same as a supervisor or a spawner is asked for it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use prony_model::units::Bytes;

use super::texts::{Cut, Texts};
use super::wire::{Text, WireSpec, WireStream};
use crate::limits::Group;

/// Descriptors that a subject may be given lie below this number.
pub(crate) const TARGETS_END: u8 = 64;

/// A program, and everything it will see of the world. Nothing is inherited.
#[derive(Debug)]
pub struct LaunchSpec {
    /// The program: a path (relative ones from `directory`), or a name looked up in `PATH` of `env`.
    pub command: OsString,
    /// Its arguments, without its own name.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Where it reads from.
    pub stdin: Input,
    /// Where its output goes.
    pub stdout: Output,
    /// Where its messages go.
    pub stderr: Output,
    /// More descriptors, each with the number (3 to 63) under which the subject finds it.
    pub fds: Vec<(OwnedFd, u8)>,
    /// The control group that the subject starts in; the supervisor kills and removes it at the end.
    pub group: Option<Group>,
    /// The control group of another subject, which it enters too, for its limits and its end. That one's supervisor
    /// kills and removes it; this subject's supervisor only ends its own tree.
    pub beside: Option<Group>,
    /// Directories that the supervisor removes when the subject is done with.
    pub scratch: Vec<PathBuf>,
}

impl LaunchSpec {
    /// A program without arguments or environment; input null, output and messages captured, 32 KiB of the first
    /// and as much of the last bytes of each.
    pub fn new(command: impl Into<OsString>, directory: impl Into<PathBuf>) -> Self {
        let capture = || Output::Capture { first: Bytes::from_kib(32), last: Bytes::from_kib(32) };
        Self {
            command: command.into(),
            args: Vec::new(),
            env: Vec::new(),
            directory: directory.into(),
            stdin: Input::Null,
            stdout: capture(),
            stderr: capture(),
            fds: Vec::new(),
            group: None,
            beside: None,
            scratch: Vec::new(),
        }
    }
}

/// What a subject reads from.
#[derive(Debug)]
pub enum Input {
    /// Nothing.
    Null,
    /// An open file.
    File(File),
}

/// What becomes of a subject's output.
#[derive(Debug)]
pub enum Output {
    /// It is thrown away.
    Null,
    /// It goes to an open file, without bound.
    File(File),
    /// The first and last bytes are kept in memory and the rest is counted.
    Capture {
        /// How much of the beginning is kept.
        first: Bytes,
        /// How much of the end is kept.
        last: Bytes,
    },
}

impl LaunchSpec {
    /// What is executed, in C's form; the text says what cannot.
    pub(super) fn texts(&self) -> Result<Texts, String> {
        let bytes = |text: &OsStr| text.as_bytes().to_vec();
        let args = self.args.iter().map(|arg| bytes(arg));
        let env = self.env.iter().map(|(name, value)| (bytes(name), bytes(value)));
        Texts::new(bytes(&self.command), args, env, bytes(self.directory.as_os_str())).map_err(|Cut(what)| what)
    }

    /// The descriptors of a subject that nobody reads for, and the numbers under which it finds them; `None` is nothing.
    pub(super) fn into_fds(self) -> Result<Vec<(Option<OwnedFd>, u8)>, String> {
        let stdin = match self.stdin {
            Input::Null => None,
            Input::File(file) => Some(file.into()),
        };
        let output = |output: Output| match output {
            Output::Null => Ok(None),
            Output::File(file) => Ok(Some(file.into())),
            Output::Capture { .. } => Err("its output can only be captured where it is suspended".to_owned()),
        };
        check_targets(&self.fds.iter().map(|(_, target)| *target).collect::<Vec<_>>())?;
        let streams = [(stdin, 0), (output(self.stdout)?, 1), (output(self.stderr)?, 2)];
        Ok(streams.into_iter().chain(self.fds.into_iter().map(|(fd, target)| (Some(fd), target))).collect())
    }

    /// As it travels, and the descriptors that go beside it; the text says what cannot.
    pub(super) fn into_wire(self) -> Result<(WireSpec, Vec<OwnedFd>), String> {
        let mut fds = Vec::new();
        let stdin = match self.stdin {
            Input::Null => WireStream::Null,
            Input::File(file) => {
                fds.push(file.into());
                WireStream::Fd
            }
        };
        let streams = [stdin, wire_output(self.stdout, &mut fds), wire_output(self.stderr, &mut fds)];
        let targets: Vec<u8> = self.fds.iter().map(|(_, target)| *target).collect();
        check_targets(&targets)?;
        fds.extend(self.fds.into_iter().map(|(fd, _)| fd));
        let wire = WireSpec {
            command: Text::new(self.command),
            args: self.args.into_iter().map(Text::new).collect(),
            env: self.env.into_iter().map(|(name, value)| (Text::new(name), Text::new(value))).collect(),
            directory: Text::new(self.directory),
            streams,
            targets,
            group: self.group,
            beside: self.beside,
            scratch: self.scratch.into_iter().map(Text::new).collect(),
        };
        Ok((wire, fds))
    }
}

fn wire_output(output: Output, fds: &mut Vec<OwnedFd>) -> WireStream {
    match output {
        Output::Null => WireStream::Null,
        Output::File(file) => {
            fds.push(file.into());
            WireStream::Fd
        }
        Output::Capture { first, last } => {
            let bound = |bytes: Bytes| usize::try_from(bytes.as_bytes()).unwrap_or(usize::MAX);
            WireStream::Capture { first: bound(first), last: bound(last) }
        }
    }
}

fn check_targets(targets: &[u8]) -> Result<(), String> {
    for (at, target) in targets.iter().enumerate() {
        if !(3..TARGETS_END).contains(target) {
            return Err(format!("descriptor number {target} is not in 3 to {}", TARGETS_END - 1));
        }
        if targets[..at].contains(target) {
            return Err(format!("descriptor number {target} is given twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reads_for_cannot_be_captured() {
        let mut spec = LaunchSpec::new("a", "/");
        spec.fds.push((OwnedFd::from(File::open("/dev/null").unwrap()), 9));
        (spec.stdout, spec.stderr) = (Output::File(File::open("/dev/null").unwrap()), Output::Null);
        let fds = spec.into_fds().unwrap();
        let found: Vec<(bool, u8)> = fds.iter().map(|(fd, target)| (fd.is_some(), *target)).collect();
        assert_eq!(found, [(false, 0), (true, 1), (false, 2), (true, 9)]);
        assert!(LaunchSpec::new("a", "/").into_fds().unwrap_err().contains("where it is suspended"));
    }

    #[test]
    fn descriptor_numbers_are_checked() {
        assert_eq!(check_targets(&[3, 63, 4]), Ok(()));
        assert_eq!(check_targets(&[3, 2]).unwrap_err(), "descriptor number 2 is not in 3 to 63");
        assert_eq!(check_targets(&[64]).unwrap_err(), "descriptor number 64 is not in 3 to 63");
        assert_eq!(check_targets(&[5, 5]).unwrap_err(), "descriptor number 5 is given twice");
    }
}
