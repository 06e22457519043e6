//! What the kernel counted, in the words of the wire.

use prony_model::units::Bytes;
use rustix::process::Pid;

use super::Status;
use super::wire::{CpuTime, Usage};
use crate::sys::process::{Counts, Ended};

impl CpuTime {
    pub(super) fn add(&mut self, other: &Self) {
        self.user += other.user;
        self.system += other.system;
    }
}

impl From<Counts> for CpuTime {
    fn from(counts: Counts) -> Self {
        Self { user: counts.user, system: counts.system }
    }
}

impl Usage {
    pub(super) fn add(&mut self, other: &Self) {
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.read = self.read + other.read;
        self.written = self.written + other.written;
        self.switches_voluntary += other.switches_voluntary;
        self.switches_forced += other.switches_forced;
        self.peak = self.peak.max(other.peak);
    }
}

impl From<Counts> for Usage {
    fn from(counts: Counts) -> Self {
        Self {
            minor_faults: counts.minor_faults,
            major_faults: counts.major_faults,
            read: Bytes::from_bytes(512 * counts.blocks_read),
            written: Bytes::from_bytes(512 * counts.blocks_written),
            switches_voluntary: counts.switches_voluntary,
            switches_forced: counts.switches_forced,
            peak: Bytes::from_kib(counts.max_rss),
        }
    }
}

pub(super) fn number(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

pub(super) const fn status(ended: Ended) -> Status {
    match ended {
        Ended::Exited(code) => Status::Exited(code),
        Ended::Signalled(signal) => Status::Signalled(signal),
    }
}
