//! Counts the system calls that request durability (`fsync`, `fdatasync`, `msync` with `MS_SYNC`, `sync_file_range`, `sync`,
//! `syncfs`), by a kernel tracepoint on the entry of each.
//!
//! A counter follows a suspended process across exec and into every thread and process that it starts
//! later; reading it sums the live ones and the ended ones. Blind spots, to be named beside the
//! value: writes with `O_SYNC`, `O_DSYNC` or `RWF_DSYNC`, io_uring, and Linux AIO (`IOCB_CMD_FSYNC`, `IOCB_CMD_FDSYNC`) make no such
//! system call, and calls of 32-bit programs on a 64-bit kernel pass no tracepoint (`ARCH_TRACE_IGNORE_COMPAT_SYSCALLS` in
//! kernel/trace/trace_syscalls.c); device flushes (`super::device`) are shown beside the counts.

use std::ffi::CStr;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prony_model::reading::{Reading, Why};
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};

use super::tree;
use crate::sys::perf::Counter;
use crate::why::{parse_file, reading, why};

/// `MS_SYNC` of `msync`, whose other flags sync nothing: `MS_ASYNC` has had no effect since Linux 2.6.19 (msync(2)).
const SYNCS: &CStr = c"flags & 4";
const _: () = assert!(libc::MS_SYNC == 4);

/// The calls, each with a filter of those that count.
const CALLS: [(&str, Option<&CStr>); 6] = [
    ("fsync", None),
    ("fdatasync", None),
    ("msync", Some(SYNCS)),
    ("sync_file_range", None),
    ("sync", None),
    ("syncfs", None),
];
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const ALLOW: &str = "run as root, or give the binary CAP_PERFMON (and CAP_DAC_READ_SEARCH for tracefs) and mount tracefs at /sys/kernel/tracing";

/// How often each call was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncCounts {
    /// Calls of `fsync`.
    pub fsync: Reading<u64>,
    /// Calls of `fdatasync`.
    pub fdatasync: Reading<u64>,
    /// Calls of `msync` with `MS_SYNC`.
    pub msync: Reading<u64>,
    /// Calls of `sync_file_range`.
    pub sync_file_range: Reading<u64>,
    /// Calls of `sync`.
    pub sync: Reading<u64>,
    /// Calls of `syncfs`.
    pub syncfs: Reading<u64>,
}

impl SyncCounts {
    fn from_array([fsync, fdatasync, msync, sync_file_range, sync, syncfs]: [Reading<u64>; 6]) -> Self {
        Self { fsync, fdatasync, msync, sync_file_range, sync, syncfs }
    }

    fn as_array(&self) -> [&Reading<u64>; 6] {
        [&self.fsync, &self.fdatasync, &self.msync, &self.sync_file_range, &self.sync, &self.syncfs]
    }

    fn combine(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let (a, b) = (self.as_array(), other.as_array());
        Self::from_array(std::array::from_fn(|call| a[call].clone().and(b[call].clone(), &f)))
    }

    /// Both together.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        self.combine(other, u64::saturating_add)
    }

    /// Calls since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        self.combine(earlier, u64::saturating_sub)
    }

    /// All kinds added.
    pub fn total(&self) -> Reading<u64> {
        let all = self.as_array().into_iter().cloned();
        all.fold(Reading::Measured(0), |sum, one| sum.and(one, u64::saturating_add))
    }
}

/// The tracepoints of the calls, which stay registered: closing the last counter of a tracepoint costs 150 ms, so
/// a runner closes this only at its end.
#[derive(Debug)]
pub struct Tracepoints {
    ids: [Reading<u64>; 6],
    /// One idle counter of each, which keeps it registered.
    open_fds: Vec<Counter>,
}

impl Tracepoints {
    /// Finds them. Where tracefs is absent and `may_mount` is set, tries to mount it (which is visible to the whole
    /// machine, as any mount at `/sys/kernel/tracing`).
    pub fn open(may_mount: bool) -> Self {
        let ids = match tracefs(may_mount) {
            Ok(place) => CALLS.map(|(call, _)| tracepoint(&place, call)),
            Err(why) => CALLS.map(|_| Reading::Missing(why.clone())),
        };
        let mut open_fds = Vec::new();
        let mut register = |id| {
            let counter = opened(Counter::open(id));
            counter.map(|counter| {
                open_fds.push(counter);
                id
            })
        };
        let ids = ids.map(|id| id.and_then(&mut register));
        Self { ids, open_fds }
    }

    /// None: nothing is counted, and no system call is slowed.
    pub fn unused() -> Self {
        Self { ids: CALLS.map(|_| Reading::Missing(Why::NotApplicable)), open_fds: Vec::new() }
    }

    /// What keeps them registered: a process with copies of these pays the cost of closing the last.
    pub fn open_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.open_fds.iter().map(AsFd::as_fd).collect()
    }

    /// Whether calls can be counted, or why not: the reason of the first that cannot.
    pub fn usable(&self) -> Reading<()> {
        let all = self.ids.iter().cloned().reduce(|a, b| a.and(b, |id, _| id));
        all.map_or(Reading::Missing(Why::NotApplicable), |reading| reading.map(|_| ()))
    }

    /// Counts from now on the calls of process `pid`, of all its present threads, and of everything
    /// these start. Attach while the process is suspended before exec, or what it started earlier is missed.
    pub fn follow(&self, pid: u32) -> SyncCounters {
        self.follow_all(&[pid])
    }

    /// The same of several processes.
    pub fn follow_all(&self, pids: &[u32]) -> SyncCounters {
        let threads = |pid: &u32| match tree::threads(*pid) {
            none if none.is_empty() => vec![*pid],
            some => some,
        };
        let threads: Vec<u32> = pids.iter().flat_map(threads).collect();
        SyncCounters {
            counters: Arc::new(std::array::from_fn(|call| follow_all(self.ids[call].clone(), CALLS[call].1, &threads))),
        }
    }
}

fn follow_all(id: Reading<u64>, filter: Option<&CStr>, threads: &[u32]) -> Reading<Vec<Counter>> {
    id.and_then(|id| opened(threads.iter().map(|tid| Counter::follow(id, *tid, filter)).collect()))
}

/// The counters of one process and what it started; closed with the last of its clones.
#[derive(Clone, Debug)]
pub struct SyncCounters {
    counters: Arc<[Reading<Vec<Counter>>; 6]>,
}

impl SyncCounters {
    /// Calls so far; the processes may have ended.
    pub fn read(&self) -> SyncCounts {
        let sum = |counters: &Vec<Counter>| reading("perf counter", counters.iter().map(Counter::read).sum());
        SyncCounts::from_array(self.counters.each_ref().map(|call| match call {
            Reading::Measured(counters) => sum(counters),
            Reading::Missing(why) => Reading::Missing(why.clone()),
        }))
    }
}

/// Counters, or why the kernel refuses them.
fn opened<T>(counters: std::io::Result<T>) -> Reading<T> {
    counters.map_or_else(|error| Reading::Missing(refused(&error)), Reading::Measured)
}

fn refused(error: &std::io::Error) -> Why {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match why("perf_event_open", error) {
        Why::NotPermitted(text) => {
            Why::NotPermitted(format!("{text} (perf_event_paranoid is {}); {ALLOW}", paranoid.trim()).into())
        }
        other => other,
    }
}

fn tracepoint(place: &Path, call: &str) -> Reading<u64> {
    parse_file(place.join(format!("events/syscalls/sys_enter_{call}/id")), |text| text.trim().parse().ok())
}

/// Where tracefs is mounted.
fn tracefs(may_mount: bool) -> Result<PathBuf, Why> {
    let find = || PLACES.iter().map(PathBuf::from).find(|place| place.join("events/syscalls").is_dir());
    if let Some(place) = find() {
        return Ok(place);
    }
    if let Err(error) = fs::read_dir(PLACES[0])
        && error.kind() == std::io::ErrorKind::PermissionDenied
    {
        return Err(Why::NotPermitted(format!("`{}` may not be read; {ALLOW}", PLACES[0]).into()));
    }
    if !may_mount {
        return Err(Why::NotSupported(
            format!("tracefs is not mounted; as root: mount -t tracefs tracefs {}", PLACES[0]).into(),
        ));
    }
    match mount("tracefs", PLACES[0], "tracefs", MountFlags::empty(), None) {
        Ok(()) => find().ok_or_else(|| Why::NotSupported("the kernel has no system call tracepoints".into())),
        Err(error) => Err(why(&format!("mounting tracefs at `{}`", PLACES[0]), &error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_a_missing_kind_makes_the_total_missing() {
        let counts = SyncCounts::from_array([5, 4, 3, 2, 20, 10].map(Reading::Measured));
        let before = SyncCounts::from_array([1; 6].map(Reading::Measured));
        assert_eq!(counts.total(), Reading::Measured(44));
        assert_eq!(counts.since(&before).total(), Reading::Measured(38));
        assert_eq!(counts.plus(&before).total(), Reading::Measured(50));
        let refused = Reading::Missing(Why::NotPermitted("perf".into()));
        let partly = SyncCounts { msync: refused.clone(), ..counts };
        assert_eq!(partly.total(), refused);
        assert_eq!(partly.since(&before).fsync, Reading::Measured(4));
    }
}
