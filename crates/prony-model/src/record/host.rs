//! Facts about the machine of a run, and its measured limits.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reading::Reading;
use crate::units::{Bytes, Nanos, PerSecond};

/// Facts about the machine, the directory in which trials run, and what prony's binary runs on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// Its name.
    pub host: Reading<String>,
    /// The kernel's release.
    pub kernel: Reading<String>,
    /// `x86_64`, `aarch64` ...
    pub architecture: String,
    /// The C library of prony's binary, in which the engines run: `glibc 2.36`, `musl, linked statically`.
    pub libc: Reading<String>,
    /// What prony's binary and the engines in it allocate memory with: `malloc of libc.so.6`.
    pub allocator: Reading<String>,
    /// The processor.
    pub processor: Processor,
    /// Memory.
    pub memory: Reading<Bytes>,
    /// Swap; zero where there is none.
    pub swap: Reading<Bytes>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Reading<String>,
    /// The kernel's clock source.
    pub clock_source: Reading<String>,
    /// `none`, or the hypervisor's name, or `some` where only its presence is known.
    pub virtualisation: Reading<String>,
    /// Versions of control groups with controllers: `v1`, `v2`, `v1 and v2`.
    pub cgroups: Reading<String>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Reading<i64>,
    /// `kernel.randomize_va_space`: 0 is off.
    pub address_randomisation: Reading<i64>,
    /// The directory's file system.
    pub file_system: Reading<Mount>,
    /// The disks under it.
    pub disks: Vec<Disk>,
}

/// A session of a run that was resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Its number: the run began in session 0.
    pub session: u32,
    /// Unix time, milliseconds.
    pub started_unix_ms: u64,
    /// Facts about the machine.
    pub host: Facts,
    /// The version of prony.
    pub version: String,
}

/// The processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Processor {
    /// Its model.
    pub model: Reading<String>,
    /// Processors that the kernel runs on.
    pub logical: Reading<u64>,
    /// Cores.
    pub cores: Reading<u64>,
    /// Whether two threads share a core (simultaneous multithreading).
    pub smt: Reading<bool>,
    /// How frequencies are chosen: `performance`, `powersave`, `schedutil` ...
    pub governor: Reading<String>,
    /// Frequency of the first processor now, megahertz.
    pub megahertz: Reading<f64>,
}

/// A disk and how the kernel drives it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// How far the kernel reads ahead; much of a random read's cost on a mapped store.
    pub read_ahead: Reading<Bytes>,
    /// The I/O scheduler in use.
    pub scheduler: Reading<String>,
    /// Whether it is a rotating disk.
    pub rotational: Reading<bool>,
    /// `write back` where a flush is needed for durability, `write through` where it is not.
    pub write_cache: Reading<String>,
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mount {
    /// Where it is mounted.
    pub point: PathBuf,
    /// `ext4`, `xfs`, `tmpfs` ...
    pub kind: String,
    /// The device or other source, as the kernel names it.
    pub source: String,
    /// Options of the mount and of the file system, each once.
    pub options: Vec<String>,
}

impl Mount {
    /// Whether the file system is in memory, so that fsync costs nothing and its files count as memory (METHOD 5.4).
    pub fn is_in_memory(&self) -> bool {
        matches!(self.kind.as_str(), "tmpfs" | "ramfs" | "devtmpfs")
    }
}

/// The machine's limits, measured one after another on one thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineLimits {
    /// Time to read the monotonic clock once.
    pub clock_cost: Nanos,
    /// Smallest step between two readings of it.
    pub clock_step: Nanos,
    /// How late a sleep of one millisecond ends, median of ten.
    pub timer_lag: Reading<Nanos>,
    /// Time of a write of 4 KiB with fdatasync, one at a time.
    pub fsync: Reading<Spread>,
    /// Bytes per second written sequentially through the page cache, the final fsync included.
    pub sequential_write: Reading<PerSecond>,
    /// Reads of 4 KiB per second from the device, at random offsets, one at a time.
    pub random_read: Reading<PerSecond>,
    /// How the random reads bypassed the page cache.
    pub random_read_by: String,
    /// Bytes per second copied within memory that was touched before.
    pub memory_copy: Reading<PerSecond>,
    /// Bytes per second read from memory that was touched before.
    pub memory_read: Reading<PerSecond>,
    /// Time of the first access to a page of 4 KiB.
    pub first_touch: Nanos,
}

/// A distribution of latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Smallest.
    pub min: Nanos,
    /// Median.
    pub p50: Nanos,
    /// 90th percentile.
    pub p90: Nanos,
    /// Largest.
    pub max: Nanos,
    /// How many.
    pub count: u64,
}

impl Spread {
    /// Of latencies in any order; percentiles by nearest rank.
    pub fn of(mut all: Vec<Nanos>) -> Option<Self> {
        all.sort_unstable();
        let (min, max) = (*all.first()?, *all.last()?);
        let rank = |share: usize| all[(all.len() * share).div_ceil(100).max(1) - 1];
        Some(Self { min, p50: rank(50), p90: rank(90), max, count: all.len() as u64 })
    }
}
