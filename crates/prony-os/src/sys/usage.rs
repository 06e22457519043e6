//! What the kernel counts of processes, by `getrusage` and `wait4`.

use prony_model::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// What the kernel counted of ended processes and of the children they waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Page faults without disk.
    pub minor_faults: u64,
    /// Page faults with disk.
    pub major_faults: u64,
    /// Bytes read from the block layer.
    pub read: Bytes,
    /// Bytes handed to the block layer.
    pub written: Bytes,
    /// Context switches by waiting.
    pub switches_voluntary: u64,
    /// Context switches by preemption.
    pub switches_forced: u64,
    /// Largest resident memory of one process among them since its peak was last reset (`clear_refs`); exact, but
    /// never below the memory of the suspended process before its program was executed: compare with that.
    pub peak: Bytes,
}

/// CPU time in user mode and in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In user mode.
    pub user: Nanos,
    /// In the kernel.
    pub system: Nanos,
}

impl CpuTime {
    /// Adds that of other processes.
    pub(crate) fn add(&mut self, other: &Self) {
        self.user += other.user;
        self.system += other.system;
    }
}

impl Usage {
    /// Adds that of other processes.
    pub(crate) fn add(&mut self, other: &Self) {
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.read = self.read + other.read;
        self.written = self.written + other.written;
        self.switches_voluntary += other.switches_voluntary;
        self.switches_forced += other.switches_forced;
        self.peak = self.peak.max(other.peak);
    }
}

/// The counts of the kernel's own structure. It has blocks of 512 bytes and memory in KiB.
pub(super) fn counts(usage: &libc::rusage) -> (CpuTime, Usage) {
    let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
    let time = |time: libc::timeval| Nanos::from_secs(count(time.tv_sec)) + Nanos::from_micros(count(time.tv_usec));
    let blocks = |n| Bytes::from_bytes(512 * count(n));
    let counts = Usage {
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        read: blocks(usage.ru_inblock),
        written: blocks(usage.ru_oublock),
        switches_voluntary: count(usage.ru_nvcsw),
        switches_forced: count(usage.ru_nivcsw),
        peak: Bytes::from_kib(count(usage.ru_maxrss)),
    };
    (CpuTime { user: time(usage.ru_utime), system: time(usage.ru_stime) }, counts)
}
