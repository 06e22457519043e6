//! The messages between runner and supervisor.

use std::ffi::OsString;

use prony_model::reading::Reading;
use prony_model::record::{Captured, MemoryEvidence, Status};
use prony_model::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::limits::Group;
use crate::sys::process::Step;
use crate::sys::usage::{CpuTime, Usage};

/// A message of the runner.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToSupervisor {
    /// Prepare for subjects, which the runner requests from the spawner itself. The message carries the ends of pipes
    /// from which captured output is read, and descriptors that stay open until the runner has ended.
    Begin { begin: Box<Begin> },
    /// Report when the `nth` subject executes its program.
    ReportExec { nth: u64 },
    /// Send a signal to the process group of the `nth` subject: when this is read it may have ended by itself, and a
    /// later one may run.
    Signal { signal: i32, nth: u64 },
    /// Kill the whole tree, also only that of the `nth`.
    Kill { nth: u64 },
    /// Kill what is left and clean up; exit where another subject could not be supervised like the first.
    Finish,
}

/// A message of the supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromSupervisor {
    /// This process will spawn the subjects; the socket on which it takes requests comes with the message.
    Ready { spawner: i32 },
    /// The group cannot be used.
    NotReady { why: String },
    /// The subject could not be prepared or executed; `None` where its child reported no step that there is.
    Refused { step: Option<Step>, errno: i32 },
    /// The spawner has ended, or the child that it was about to make.
    SpawnerEnded,
    /// The program has been executed, by the candidate of this number; noticed at this instant.
    Running { pid: i32, at: Nanos, released: Nanos, before: Option<Box<(CpuTime, Usage)>>, candidate: Option<u32> },
    /// The subject has ended; `ready` where nothing of it is left and the supervisor waits for another.
    Ended { end: Box<End>, ready: bool },
    /// The tree has ended and everything is cleaned up; `ready` where the supervisor waits for another `Begin`.
    Finished { finished: Finished, ready: bool },
}

/// What a supervisor must prepare for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begin {
    /// Several subjects will come, and start in the group, which only counts. A single one enters its groups itself.
    pub(super) reused: bool,
    /// The group that the supervisor kills and removes at the end.
    pub(super) group: Option<Group>,
    /// The group of another subject, for whose limits memory is watched where there is no `group`.
    pub(super) beside: Option<Group>,
    /// Paths that are removed at the end. They may be any bytes, which JSON has as numbers.
    pub(super) scratch: Vec<OsString>,
    /// How much of standard output and error is stored, where they are captured.
    pub(super) captured: [Option<Bounds>; 2],
}

/// How many of the first and of the last bytes of a captured stream are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bounds {
    pub(super) first: usize,
    pub(super) last: usize,
}

/// What is known of a subject when its own process has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Exit code or signal.
    pub status: Status,
    /// When it was reaped, by `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// Whether the supervisor had killed the tree before, and why.
    pub killed: Option<KilledFor>,
    /// CPU time of the process and of the children it waited for, by `wait4`; missing where processes of the tree still
    /// run. Children of a parent that ignores SIGCHLD are not in it: prefer the control group's value.
    pub cpu: Reading<CpuTime>,
    /// What the kernel counted of the same processes up to their very ends, what they did before the program was
    /// executed included; missing where `cpu` is.
    pub usage: Reading<Usage>,
    /// Processes of the tree that still run, such as daemons.
    pub leftover: u64,
    /// What was observed of memory while the subject ran.
    pub memory: MemoryEvidence,
    /// Standard output, where it was captured.
    pub stdout: Option<Captured>,
    /// Standard error, where it was captured.
    pub stderr: Option<Captured>,
    /// How its supervisor ended, if that was first: the kernel ends the subject with it, and no more is known.
    pub lost: Option<String>,
}

impl End {
    /// The end of a subject whose supervisor ended first.
    pub(super) fn lost(how: String, at: Nanos) -> Self {
        fn missing<T>(how: &str) -> Reading<T> {
            Reading::failed(format!("prony's supervisor process ended first: {how}"))
        }
        let memory = MemoryEvidence {
            limit: None,
            peak: missing(&how),
            oom_kills: missing(&how),
            forks_refused: missing(&how),
            throttled: missing(&how),
            limit_reached: missing(&how),
            host_oom_kills: missing(&how),
        };
        Self {
            status: Status::Signalled(libc::SIGKILL),
            at,
            killed: None,
            cpu: missing(&how),
            usage: missing(&how),
            leftover: 0,
            memory,
            stdout: None,
            stderr: None,
            lost: Some(how),
        }
    }
}

/// Why the supervisor killed a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KilledFor {
    /// The runner asked.
    Asked,
    /// The kernel had killed a process of the control group for lack of memory, so the rest followed.
    OutOfMemory,
}

/// Result of ending the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Processes that were still alive and had to be killed, as far as a supervisor could report that.
    pub killed: u64,
    /// What could not be ended or removed.
    pub problems: Vec<String>,
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn texts_survive_whatever_their_bytes() {
        for bytes in [&b"plain"[..], b"", b"\xff\xfe/x", "\u{e9}\n\"".as_bytes()] {
            let text = OsString::from_vec(bytes.to_vec());
            let line = serde_json::to_string(&text).unwrap();
            assert_eq!(serde_json::from_str::<OsString>(&line).unwrap().into_vec(), bytes);
        }
    }
}
