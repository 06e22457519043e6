//! A launch on its way: as it is told to a supervisor, or to a spawner.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use prony_model::units::Bytes;

use super::spec::{Input, LaunchSpec, Output, TARGETS_END};
use super::texts::{Cut, Texts};
use super::wire::{Text, WireSpec, WireStream};

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
            Output::Capture { .. } => Err("its output can only be captured where it is held".to_owned()),
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
    use std::fs::File;

    use super::*;

    #[test]
    fn what_nobody_reads_for_cannot_be_captured() {
        let mut spec = LaunchSpec::new("a", "/");
        spec.fds.push((OwnedFd::from(File::open("/dev/null").unwrap()), 9));
        (spec.stdout, spec.stderr) = (Output::File(File::open("/dev/null").unwrap()), Output::Null);
        let fds = spec.into_fds().unwrap();
        let found: Vec<(bool, u8)> = fds.iter().map(|(fd, target)| (fd.is_some(), *target)).collect();
        assert_eq!(found, [(false, 0), (true, 1), (false, 2), (true, 9)]);
        assert!(LaunchSpec::new("a", "/").into_fds().unwrap_err().contains("where it is held"));
    }

    #[test]
    fn descriptor_numbers_are_checked() {
        assert_eq!(check_targets(&[3, 63, 4]), Ok(()));
        assert_eq!(check_targets(&[3, 2]).unwrap_err(), "descriptor number 2 is not in 3 to 63");
        assert_eq!(check_targets(&[64]).unwrap_err(), "descriptor number 64 is not in 3 to 63");
        assert_eq!(check_targets(&[5, 5]).unwrap_err(), "descriptor number 5 is given twice");
    }
}
