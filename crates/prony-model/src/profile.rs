//! The record of a profile: the result of an extra trial under a profiler. It is stored separately from the trials of
//! the run.

use serde::{Deserialize, Serialize};

use crate::reading::Reading;
use crate::record::TrialRecord;
use crate::units::Nanos;

crate::words! {
    /// Who took the samples: its name in reports, and the meaning of its time: V8 samples by wall time, `perf` by
    /// processor time. To V8 a thread that is blocked in a synchronous call (`execFileSync`, `Atomics.wait`) runs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Profiler {
        /// V8's own profiler, in every thread of every Node process.
        V8 = "V8's own profiler",
            "time of threads that run JavaScript, including waits for a processor and in synchronous calls, idle time excluded";
        /// `perf record` on the whole process tree.
        Perf = "perf", "CPU time";
    }
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// V8's, as JSON.
    CpuProfile,
    /// The text of `perf script`.
    PerfScript,
}

/// A file as its profiler wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileFile {
    /// Its name.
    pub name: String,
    /// Its format.
    pub format: Format,
    /// Its content.
    pub body: Vec<u8>,
}

/// The profile of one variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileRecord {
    /// Index of the variant.
    pub variant: usize,
    /// Who took the samples: its name in reports, and the meaning of its time. V8 samples by wall time, `perf` by processor time.
    pub profiler: Profiler,
    /// The requested time from one sample to the next, or why there is no profile.
    pub interval: Reading<Nanos>,
    /// The extra trial with all its measurements, which count in no result; `None` where profiling is not possible.
    pub trial: Option<TrialRecord>,
    /// What is missing in the profile, and why.
    pub notes: Vec<String>,
}
