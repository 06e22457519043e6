//! CPU profiles of one trial: V8's own profiler inside Node, and `perf` on a process tree.
//!
//! Both leave files as their profilers write them ([`ProfileFile`]); what they say is read by `prony_analysis::profile`.

pub mod perf;

use prony_model::profile::ProfileFile;

/// Result of a profiler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Its files.
    pub files: Vec<ProfileFile>,
    /// What is missing in them, and why.
    pub notes: Vec<String>,
}
