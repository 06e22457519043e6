//! Specifies what to launch (program, arguments, environment, streams), and splits it into the parts that the
//! supervisor and the spawner need.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use prony_model::units::Bytes;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pipe::{PipeFlags, pipe_with};

use super::exec_strings::{Cut, ExecStrings};
use super::wire::Bounds;
use crate::limits::Group;

/// Descriptors that a subject may be given lie below this number.
pub(crate) const TARGETS_END: u8 = 64;

/// A program and everything that it is given: arguments, environment, directory, streams. Nothing is inherited.
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
    /// Its standard output.
    pub stdout: Output,
    /// Its standard error.
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

/// The destination of a subject's output.
#[derive(Debug)]
pub enum Output {
    /// It is discarded.
    Null,
    /// It is written to an open file, without bound.
    File(File),
    /// The first and last bytes are stored in memory and the rest is counted.
    Capture {
        /// How much of the beginning is stored.
        first: Bytes,
        /// How much of the end is stored.
        last: Bytes,
    },
}

/// A launch, split into the parts that the spawner and the supervisor need.
#[derive(Debug)]
pub(super) struct Parts {
    /// What is executed.
    pub(super) texts: ExecStrings,
    /// The subject's descriptors, and the numbers under which it finds them; `None` is nothing.
    pub(super) fds: Vec<(Option<OwnedFd>, u8)>,
    /// Captured standard output and error.
    pub(super) captured: [Option<Reader>; 2],
}

/// The end of a pipe from which captured output is read, and how much of it is stored.
pub(super) type Reader = (OwnedFd, Bounds);

/// The part of a launch that cannot be prepared, and why.
#[derive(Debug)]
pub(super) struct Unprepared(pub(super) String, pub(super) io::Error);

impl From<Cut> for Unprepared {
    fn from(Cut(what): Cut) -> Self {
        Self(what, io::ErrorKind::InvalidInput.into())
    }
}

impl LaunchSpec {
    /// Its parts; its groups and scratch directories are the supervisor's.
    pub(super) fn into_parts(self) -> Result<Parts, Unprepared> {
        let bytes = |text: OsString| text.into_vec();
        let args = self.args.into_iter().map(bytes);
        let env = self.env.into_iter().map(|(name, value)| (bytes(name), bytes(value)));
        let texts = ExecStrings::new(bytes(self.command), args, env, bytes(self.directory.into_os_string()))?;
        let texts = texts.entering(self.group.iter().chain(&self.beside).flat_map(Group::entrances))?;
        check_targets(&self.fds.iter().map(|(_, target)| *target).collect::<Vec<_>>())
            .map_err(|what| Unprepared(what, io::ErrorKind::InvalidInput.into()))?;
        let stdin = match self.stdin {
            Input::Null => None,
            Input::File(file) => Some(file.into()),
        };
        let ((stdout, from_stdout), (stderr, from_stderr)) = (opened(self.stdout)?, opened(self.stderr)?);
        let streams = [(stdin, 0), (stdout, 1), (stderr, 2)];
        let fds = streams.into_iter().chain(self.fds.into_iter().map(|(fd, target)| (Some(fd), target))).collect();
        Ok(Parts { texts, fds, captured: [from_stdout, from_stderr] })
    }
}

/// Where a subject writes; if that is captured, also where it is read and how much of it is stored.
fn opened(output: Output) -> Result<(Option<OwnedFd>, Option<Reader>), Unprepared> {
    match output {
        Output::Null => Ok((None, None)),
        Output::File(file) => Ok((Some(file.into()), None)),
        Output::Capture { first, last } => {
            let failed = |errno: Errno| Unprepared("making a pipe".to_owned(), errno.into());
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
            ioctl_fionbio(&reader, true).map_err(failed)?;
            let bound = |bytes: Bytes| usize::try_from(bytes.as_bytes()).unwrap_or(usize::MAX);
            Ok((Some(writer), Some((reader, Bounds { first: bound(first), last: bound(last) }))))
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
    fn each_stream_has_its_descriptor_and_captured_ones_have_a_reader() {
        let mut spec = LaunchSpec::new("a", "/");
        spec.fds.push((OwnedFd::from(File::open("/dev/null").unwrap()), 9));
        (spec.stdin, spec.stderr) = (Input::File(File::open("/dev/null").unwrap()), Output::Null);
        let Parts { fds, captured, .. } = spec.into_parts().unwrap();
        let found: Vec<(bool, u8)> = fds.iter().map(|(fd, target)| (fd.is_some(), *target)).collect();
        assert_eq!(found, [(true, 0), (true, 1), (false, 2), (true, 9)]);
        let bounds = captured.map(|captured| captured.map(|(_, bounds)| bounds));
        assert_eq!(bounds, [Some(Bounds { first: 32 << 10, last: 32 << 10 }), None]);
    }

    #[test]
    fn descriptor_numbers_are_checked() {
        assert_eq!(check_targets(&[3, 63, 4]), Ok(()));
        assert_eq!(check_targets(&[3, 2]).unwrap_err(), "descriptor number 2 is not in 3 to 63");
        assert_eq!(check_targets(&[64]).unwrap_err(), "descriptor number 64 is not in 3 to 63");
        assert_eq!(check_targets(&[5, 5]).unwrap_err(), "descriptor number 5 is given twice");
    }
}
