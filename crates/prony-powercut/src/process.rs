//! What the two processes of a mount have in common.
//!
//! A mount has three processes. Its **owner** is a program that uses this crate. The owner starts the **keeper**, which
//! starts the **server**. Only the server answers the kernel. It runs no code of the owner, and neither opens nor maps a file
//! of the mount: a process that serves its own page faults can wait for itself for ever, since a fault holds the lock of the
//! address space while it waits for the server, whose next allocation needs that lock; and whatever reads that process's
//! command line, such as `ps`, then waits as well. The kernel's thread that writes dirty pages waits for the server in any
//! case, so that nothing may stop it:
//!
//! | what ends or stops | who acts | what happens |
//! |---|---|---|
//! | the owner, in any way | keeper | its input ends: it aborts the connection and removes the mount |
//! | the server ends | kernel, keeper | the kernel aborts the connection, the keeper removes the mount |
//! | the server does not answer, or its requests make no progress | keeper | it aborts the connection, removes the mount, kills the server |
//! | the keeper ends | server | it gets SIGKILL by `PR_SET_PDEATHSIG`; the owner removes the mount |
//! | all of them are killed at once | kernel | it aborts the connection; the mount is stale, `prony doctor --repair` removes it |
//!
//! In each case no request waits any longer, since a connection that is aborted fails them all.

use std::ffi::{CStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Resource, Rlimit, configure_io_flusher_behavior, getppid, getrlimit, setrlimit};
use rustix::thread::set_name;
use serde::{Deserialize, Serialize};

/// First argument of the process that watches.
pub const KEEP: &str = "powercut-keep";
/// First argument of the process that serves.
pub const SERVE: &str = "powercut-serve";

/// What both processes are started with.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// The process that started this one.
    parent: Option<Pid>,
    pub(crate) point: PathBuf,
    pub(crate) state: PathBuf,
}

impl Arguments {
    /// Those of this process; None where somebody else started it.
    pub(crate) fn read() -> Option<Self> {
        let mut arguments = std::env::args_os().skip(2);
        let parent = Pid::from_raw(arguments.next()?.to_str()?.parse().ok()?);
        Some(Self { parent, point: arguments.next()?.into(), state: arguments.next()?.into() })
    }

    /// Whether the process that started this one is there.
    pub(crate) fn has_parent(&self) -> bool {
        getppid() == self.parent
    }
}

/// Starts a process of a mount. The first line of its input is a JSON object, and its input ends with this process. It is not
/// in the group of this process, so that Ctrl-C does not end it.
pub(crate) fn start(program: &Path, word: &str, point: &Path, state: &Path) -> io::Result<Child> {
    let id = OsString::from(std::process::id().to_string());
    Command::new(program)
        .arg(word)
        .args([id.as_os_str(), point.as_os_str(), state.as_os_str()])
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
}

/// Waits until a process ends, for some time at most; whether it has ended.
pub(crate) fn ends_within(process: &mut Child, time: Duration) -> bool {
    let until = Instant::now() + time;
    while matches!(process.try_wait(), Ok(None)) {
        if Instant::now() >= until {
            return false;
        }
        sleep(Duration::from_millis(2));
    }
    true
}

/// The first line that a process of a mount writes.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Started {
    /// With the number of the process that serves.
    Mounted {
        server: u32,
    },
    /// FUSE is missing or may not be used.
    NoMount {
        why: String,
        hint: String,
    },
    Refused {
        message: String,
        hint: Option<String>,
    },
}

/// Writes one line of JSON to the process that started this one.
#[expect(clippy::disallowed_methods, reason = "a protocol between processes, which nobody reads")]
pub(crate) fn send_to_parent(what: &impl Serialize) -> io::Result<()> {
    send(io::stdout().lock(), what)
}

/// Writes one line of JSON.
pub(crate) fn send(mut to: impl Write, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Which of some inputs can be read, or have ended, once one can or the time is over.
pub(crate) fn readable<const N: usize>(inputs: [&dyn std::os::fd::AsFd; N], time: Duration) -> io::Result<[bool; N]> {
    let mut all = inputs.map(|input| PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN));
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut all, Some(&time)) {
        Ok(_) => Ok(all.each_ref().map(|input| !input.revents().is_empty())),
        Err(rustix::io::Errno::INTR) => Ok([false; N]),
        Err(error) => Err(error.into()),
    }
}

/// Reads a line that must come within some time; None where it does not or the input ends before.
pub(crate) fn read_line(input: &(impl std::os::fd::AsFd + ?Sized), time: Duration) -> io::Result<Option<Vec<u8>>> {
    let until = Instant::now() + time;
    let mut line = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut byte = [0];
        let [is_ready] = readable([&input.as_fd()], left)?;
        if is_ready {
            match rustix::io::read(input, &mut byte)? {
                0 => return Ok(None),
                _ if byte == *b"\n" => return Ok(Some(line)),
                _ => line.push(byte[0]),
            }
        } else if left.is_zero() {
            return Ok(None);
        }
    }
}

/// Lets this process work while memory is short, as far as its user may: the kernel does not write dirty pages to a FUSE
/// file system in order to find memory for the process that serves it, nor end this process for memory. Its own limits
/// are raised as far as they can be, with `CAP_SYS_RESOURCE` also the maximum of open files. (Its pages need not be locked
/// in memory: none of them lies on the mount.) `name` is its name in lists of processes, of 15 bytes at most: it was started by
/// a path that says nothing.
pub(crate) fn protect(name: &CStr) {
    let _ = set_name(name);
    let _ = configure_io_flusher_behavior(true);
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    // Each content of a file is a descriptor as long as the file exists.
    let most = std::fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|most| most.trim().parse().ok());
    if let Some(most) = most {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) });
    }
    for resource in [Resource::Nofile, Resource::As, Resource::Data, Resource::Fsize, Resource::Cpu] {
        let Rlimit { maximum, .. } = getrlimit(resource);
        let _ = setrlimit(resource, Rlimit { current: maximum, maximum });
    }
}
