//! What prony can measure on this machine, what it cannot, and how to permit it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use prony_model::reading::Reading;
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::launch::Scratch;
pub use crate::limits::State;
use crate::profile::perf;
use crate::sample::device::Device;
use crate::sample::snapshot::pressure;
use crate::sample::{Tracepoints, processor_wait};
use crate::why::{read_text, reading};

const OWNER: &str = "run as root, or as the user who owns the processes";
const TRACING: &str =
    "run as root, with tracefs mounted at /sys/kernel/tracing, or give the binary CAP_PERFMON and CAP_DAC_READ_SEARCH";
const SCHED_INFO: &str = "a kernel with CONFIG_SCHEDSTATS, or boot it with `delayacct`";
const PAGE_MONITOR: &str = "a kernel with CONFIG_PROC_PAGE_MONITOR";
const CHILDREN: &str = "a kernel with CONFIG_PROC_CHILDREN; without it the tree is still found, at more cost";
const PERF: &str =
    "install `perf` (Debian: `apt install linux-perf`), and run as root or set kernel.perf_event_paranoid to 1 or less";
const DISK: &str = "a directory on a disk, and Linux 5.5 or later";

/// A source that prony would like to read, or an action that it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// Its name: `sync calls`, `pressure` ...
    pub name: String,
    /// What it is used for.
    pub purpose: String,
    /// Whether it is available.
    pub state: State,
    /// What to do where it is not.
    pub allow: String,
}

/// What the probe can observe and do by itself; control groups are listed by whoever makes them.
/// `directory` is where trials run. Trying `clear_refs` resets this process's own peak.
pub fn capabilities(tracepoints: &Tracepoints, directory: &Path) -> Vec<Capability> {
    let pressure = pressure();
    let all = pressure.cpu.and(pressure.io, |_, _| ()).and(pressure.memory, |(), _| ());
    let own = |path: &str| State::from(read_text(path));
    let device = Device::of(directory).and_then(|device| device.read());
    let table: [(&str, &str, State, &str); 10] = [
        (
            "sync calls",
            "counts of fsync, fdatasync, msync, sync_file_range, sync and syncfs",
            tracepoints.usable().into(),
            TRACING,
        ),
        ("pressure", "shares of time waited for CPU, I/O, memory", all.into(), "boot the kernel with psi=1"),
        ("proportional memory", "sums over processes that share pages", own("/proc/self/smaps_rollup"), OWNER),
        ("bytes read and written", "I/O of each process", own("/proc/self/io"), OWNER),
        ("time waiting for a CPU", "run delay of each thread", processor_wait().into(), SCHED_INFO),
        ("exact memory peaks", "the kernel's RSS peak of each phase", clear_refs().into(), PAGE_MONITOR),
        ("children lists", "finding the process tree fast", own("/proc/thread-self/children"), CHILDREN),
        ("dirty pages of files", "whether a store has settled", dirty_pages().into(), "Linux 6.5 or later (cachestat)"),
        ("device counters", "flushes and bytes of the disk", device.into(), DISK),
        ("perf", "profiles of native code", profiles(directory), PERF),
    ];
    let capability = |(name, purpose, state, allow): (&str, &str, State, &str)| Capability {
        name: name.to_owned(),
        purpose: purpose.to_owned(),
        state,
        allow: allow.to_owned(),
    };
    table.into_iter().map(capability).collect()
}

fn clear_refs() -> Reading<()> {
    reading("`/proc/self/clear_refs`", fs::write("/proc/self/clear_refs", "5"))
}

fn dirty_pages() -> Reading<u64> {
    let found = own_file().and_then(|file| cache::resident_file(&file));
    reading("a file of ours", found).and_then(|found| found.dirty)
}

/// The kernel reports dirty pages only to a file's owner, and our program may have another: a file in memory.
fn own_file() -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("prony", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(b"dirty")?;
    Ok(file)
}

fn profiles(directory: &Path) -> State {
    match Scratch::create(directory) {
        Ok(scratch) => perf::usable(scratch.path()).into(),
        Err(error) => State::No(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::reading::Why;

    #[test]
    fn a_missing_reading_says_why_it_cannot_be_had() {
        let missing: Reading<()> = Reading::Missing(Why::NotPermitted("perf_event_open: EACCES".into()));
        assert_eq!(State::from(missing), State::No("not permitted: perf_event_open: EACCES".into()));
        assert_eq!(State::from(Reading::Measured(7)), State::Yes);
    }

    #[test]
    fn the_file_that_dirty_pages_are_asked_of_is_ours() {
        use std::os::unix::fs::MetadataExt;
        let file = own_file().unwrap();
        assert_eq!(file.metadata().unwrap().uid(), rustix::process::geteuid().as_raw());
        assert!(cache::resident_file(&file).unwrap().pages > 0);
    }

    #[test]
    fn every_capability_says_what_for_and_how_to_allow_it() {
        let all = capabilities(&Tracepoints::open(false), Path::new("/proc"));
        assert!(all.iter().all(|one| !one.purpose.is_empty() && !one.allow.is_empty()));
        let device = all.iter().find(|one| one.name == "device counters").unwrap();
        assert!(matches!(device.state, State::No(_)), "procfs has no disk");
    }
}
