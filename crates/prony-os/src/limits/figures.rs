//! The counters and sizes that a control group reports for its whole process tree.

use std::collections::BTreeMap;

use prony_model::reading::{Reading, Why};
use prony_model::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The version of control groups that a value comes from. The versions count differently and are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// One hierarchy a controller.
    V1,
    /// One hierarchy for all.
    V2,
}

impl Version {
    /// The prefix of names: `cgroup1` or `cgroup2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "cgroup1",
            Self::V2 => "cgroup2",
        }
    }
}

/// Values of a group's whole tree, cumulative or at this instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Where the memory values come from.
    pub memory_from: Option<Version>,
    /// Memory charged now, page cache included.
    pub usage: Reading<Bytes>,
    /// Most memory ever charged, page cache included; exact.
    pub peak: Reading<Bytes>,
    /// Anonymous memory.
    pub anon: Reading<Bytes>,
    /// Page cache, shared memory included, whether mapped or not.
    pub file: Reading<Bytes>,
    /// Shared memory and tmpfs.
    pub shmem: Reading<Bytes>,
    /// Page cache that is mapped.
    pub mapped: Reading<Bytes>,
    /// Swapped out.
    pub swap: Reading<Bytes>,
    /// OOM kills: processes of the group that the kernel killed because the group or the machine ran out of memory.
    pub oom_kills: Reading<u64>,
    /// How often the group's own limit left no memory to reclaim; version 2 only.
    pub limit_hits: Reading<u64>,
    /// Where the CPU values come from.
    pub cpu_from: Option<Version>,
    /// CPU time of everything that ever ran in the group.
    pub cpu: Reading<Nanos>,
    /// Its part in user mode.
    pub cpu_user: Reading<Nanos>,
    /// Its part in the kernel.
    pub cpu_system: Reading<Nanos>,
    /// Time for which the CPU limit throttled the group.
    pub throttled: Reading<Nanos>,
    /// Where the values of block devices come from.
    pub io_from: Option<Version>,
    /// Bytes read from block devices.
    pub read: Reading<Bytes>,
    /// Bytes written to block devices; version 1 does not count writes that pass through the page cache.
    pub written: Reading<Bytes>,
    /// Forks refused for the limit of processes.
    pub forks_refused: Reading<u64>,
}

impl Figures {
    /// All values, missing for one reason.
    pub(super) fn missing(why: &Why) -> Self {
        let bytes = || Reading::Missing(why.clone());
        let nanos = || Reading::Missing(why.clone());
        let count = || Reading::Missing(why.clone());
        Self {
            memory_from: None,
            usage: bytes(),
            peak: bytes(),
            anon: bytes(),
            file: bytes(),
            shmem: bytes(),
            mapped: bytes(),
            swap: bytes(),
            oom_kills: count(),
            limit_hits: count(),
            cpu_from: None,
            cpu: nanos(),
            cpu_user: nanos(),
            cpu_system: nanos(),
            throttled: nanos(),
            io_from: None,
            read: bytes(),
            written: bytes(),
            forks_refused: count(),
        }
    }

    /// Every value under a name that shows its origin: `cgroup1.memory.peak`, in bytes, nanoseconds or counts.
    pub fn named(&self) -> BTreeMap<String, Reading<u64>> {
        let bytes = |reading: &Reading<Bytes>| reading.clone().map(Bytes::as_bytes);
        let nanos = |reading: &Reading<Nanos>| reading.clone().map(Nanos::as_nanos);
        let figures = [
            (self.memory_from, "memory.usage", bytes(&self.usage)),
            (self.memory_from, "memory.peak", bytes(&self.peak)),
            (self.memory_from, "memory.anon", bytes(&self.anon)),
            (self.memory_from, "memory.file", bytes(&self.file)),
            (self.memory_from, "memory.shmem", bytes(&self.shmem)),
            (self.memory_from, "memory.mapped", bytes(&self.mapped)),
            (self.memory_from, "memory.swap", bytes(&self.swap)),
            (self.memory_from, "memory.oom_kills", self.oom_kills.clone()),
            (self.memory_from, "memory.limit_hits", self.limit_hits.clone()),
            (self.cpu_from, "cpu", nanos(&self.cpu)),
            (self.cpu_from, "cpu.user", nanos(&self.cpu_user)),
            (self.cpu_from, "cpu.system", nanos(&self.cpu_system)),
            (self.cpu_from, "cpu.throttled", nanos(&self.throttled)),
            (self.io_from, "io.read", bytes(&self.read)),
            (self.io_from, "io.written", bytes(&self.written)),
            (self.io_from, "pids.refused", self.forks_refused.clone()),
        ];
        let name = |from: Option<Version>, name: &str| format!("{}.{name}", from.map_or("cgroup", Version::name));
        figures.into_iter().map(|(from, what, reading)| (name(from, what), reading)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_the_version_and_missing_stays_missing() {
        let mut figures = Figures::missing(&Why::NotApplicable);
        figures.memory_from = Some(Version::V1);
        figures.peak = Reading::Measured(Bytes::from_bytes(7));
        let named = figures.named();
        assert_eq!(named.len(), 16);
        assert_eq!(named["cgroup1.memory.peak"], Reading::Measured(7));
        assert_eq!(named["cgroup1.memory.anon"], Reading::Missing(Why::NotApplicable));
        assert_eq!(named["cgroup.cpu"], Reading::Missing(Why::NotApplicable));
    }
}
