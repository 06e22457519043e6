//! What to launch.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use prony_model::units::Bytes;

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
