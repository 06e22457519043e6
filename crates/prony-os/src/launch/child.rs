//! A subject from fork to exec, as its supervisor sees it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use super::Captured;
use super::capture::Capture;
use super::spawner::{Fds, Spawner};
use super::texts::{Cut, Texts};
use super::wire::{Refusal, Text, WireSpec, WireStream};
use crate::limits::Group;
use crate::sys::process::{REPORT_LENGTH, Step};

/// Buffers of a captured stream taken in one go, so that a flood does not starve the rest.
const ROUNDS: usize = 32;

/// A subject on its way or under way.
#[derive(Debug)]
pub(super) struct Child {
    /// Its process id, once it is ready.
    pub(super) pid: Option<Pid>,
    release: Option<OwnedFd>,
    report: Option<File>,
    /// Captured standard output and error.
    streams: [Option<Stream>; 2],
}

/// A captured stream and what was kept of it.
#[derive(Debug)]
struct Stream {
    source: Option<File>,
    capture: Capture,
}

/// What the report pipe says of a child.
#[derive(Debug)]
pub(super) enum Report {
    /// Nothing yet, or nothing more.
    Silent,
    /// The child waits to be released.
    Ready(Pid),
    /// The pipe closed: the program was executed, or the child is gone.
    Closed,
    /// It could not be prepared or executed.
    Failed(Refusal, i32),
}

/// Why a subject could not be forked, and the errno.
#[derive(Debug)]
pub(super) struct Unprepared(pub(super) Refusal, pub(super) i32);

impl Unprepared {
    fn other(what: &str, errno: i32) -> Self {
        Self(Refusal::Other(what.to_owned()), errno)
    }

    /// What the spawner was not asked for: one that is gone is no fault of what was to be launched.
    fn unasked(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self(Refusal::Spawner, libc::ESRCH),
            _ => Self::other("ask the spawner", error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }
}

fn unprepared(what: &str) -> impl FnOnce(Errno) -> Unprepared {
    move |errno| Unprepared::other(what, errno.raw_os_error())
}

impl Child {
    /// Has the subject made, to be held when it is ready.
    pub(super) fn make(spec: WireSpec, mut fds: VecDeque<OwnedFd>, spawner: &Spawner) -> Result<Self, Unprepared> {
        let (wait, release) = cloexec_pipe()?;
        let (report_reader, report) = cloexec_pipe()?;
        set_nonblocking(&report_reader)?;
        let mut arranged = Vec::new();
        let mut streams = [None, None];
        for (target, stream) in (0..3u8).zip(spec.streams) {
            let (fd, source) = open_stream(stream, &mut fds)?;
            arranged.push((fd, target));
            if target > 0 {
                streams[usize::from(target) - 1] = source;
            }
        }
        for target in &spec.targets {
            arranged.push((next_fd(&mut fds)?, *target));
        }
        let given = arranged.iter().map(|(fd, target)| (fd.as_fd(), *target)).collect();
        let asked = spawner.suspend(&texts(spec)?, &Fds { suspended: Some((wait.as_fd(), report.as_fd())), given });
        asked.map_err(|error| Unprepared::unasked(&error))?;
        Ok(Self { pid: None, release: Some(release), report: Some(File::from(report_reader)), streams })
    }

    /// Lets it execute its program; `false` where that was done before.
    pub(super) fn release(&mut self) -> bool {
        // A child that was killed meanwhile has closed its end: it will be reaped.
        self.release.take().is_some_and(|release| write(&release, &[1]).is_ok())
    }

    /// What has become of its preparation.
    pub(super) fn read_report(&mut self) -> Report {
        let Some(report) = &mut self.report else { return Report::Silent };
        let mut message = [0; REPORT_LENGTH];
        match report.read(&mut message) {
            Ok(REPORT_LENGTH) => {
                let number = i32::from_ne_bytes([message[1], message[2], message[3], message[4]]);
                match (Step::from_byte(message[0]), Pid::from_raw(number)) {
                    (Some(Step::Ready), Some(pid)) => Report::Ready(pid),
                    (step, _) => Report::Failed(refusal(step), number),
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Report::Silent
            }
            _ => {
                self.report = None;
                Report::Closed
            }
        }
    }

    /// Takes in what the captured streams hold now.
    pub(super) fn drain(&mut self) {
        for stream in self.streams.iter_mut().flatten() {
            if let Some(source) = &mut stream.source
                && !stream.capture.drain(source, ROUNDS)
            {
                stream.source = None;
            }
        }
    }

    /// What was kept of standard output and error.
    pub(super) fn captured(&self) -> [Option<Captured>; 2] {
        self.streams.each_ref().map(|stream| stream.as_ref().map(|stream| stream.capture.captured()))
    }

    /// What to watch for something to read.
    pub(super) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let streams = self.streams.iter().flatten().filter_map(|stream| stream.source.as_ref());
        self.report.iter().chain(streams).map(AsFd::as_fd)
    }
}

/// What a step that failed amounts to.
pub(super) fn refusal(step: Option<Step>) -> Refusal {
    match step {
        Some(Step::Exec) => Refusal::Exec,
        Some(Step::Directory) => Refusal::Directory,
        Some(Step::Descriptors) => Refusal::Other("descriptors".into()),
        Some(Step::Clone) => Refusal::Other("make a process".into()),
        Some(Step::Groups) => Refusal::Other("enter its control groups".into()),
        Some(Step::Ready) | None => Refusal::Other("an unknown step".into()),
    }
}

fn cloexec_pipe() -> Result<(OwnedFd, OwnedFd), Unprepared> {
    pipe_with(PipeFlags::CLOEXEC).map_err(unprepared("make a pipe"))
}

fn next_fd(fds: &mut VecDeque<OwnedFd>) -> Result<OwnedFd, Unprepared> {
    fds.pop_front().ok_or_else(|| Unprepared::other("a descriptor did not arrive", libc::EBADF))
}

/// The descriptor for the subject, and where its bytes are read if they are captured.
fn open_stream(stream: WireStream, fds: &mut VecDeque<OwnedFd>) -> Result<(OwnedFd, Option<Stream>), Unprepared> {
    match stream {
        WireStream::Fd => Ok((next_fd(fds)?, None)),
        WireStream::Null => {
            let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
            Ok((null.map_err(unprepared("open `/dev/null`"))?, None))
        }
        WireStream::Capture { first, last } => {
            let (reader, writer) = cloexec_pipe()?;
            set_nonblocking(&reader)?;
            let stream = Stream { source: Some(File::from(reader)), capture: Capture::new(first, last) };
            Ok((writer, Some(stream)))
        }
    }
}

fn set_nonblocking(fd: &OwnedFd) -> Result<(), Unprepared> {
    rustix::io::ioctl_fionbio(fd, true).map_err(unprepared("make a pipe non-blocking"))
}

/// Every text that exec needs.
fn texts(spec: WireSpec) -> Result<Texts, Unprepared> {
    let args = spec.args.into_iter().map(Text::into_bytes);
    let env = spec.env.into_iter().map(|(name, value)| (name.into_bytes(), value.into_bytes()));
    let entrances = spec.group.iter().chain(&spec.beside).flat_map(Group::entrances);
    let texts = Texts::new(spec.command.into_bytes(), args, env, spec.directory.into_bytes());
    texts.and_then(|texts| texts.entering(entrances)).map_err(|Cut(what)| Unprepared::other(&what, libc::EINVAL))
}
