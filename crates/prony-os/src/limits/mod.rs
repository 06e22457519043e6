//! Limits and measures a whole process tree by control groups of version 1 and 2.
//!
//! A group is one directory in each hierarchy that helps, all of one name, below the group that this process is in.
//! Version 1 has a hierarchy for each controller, version 2 one for all; machines in between mount both, and then
//! version 2 is used where version 1 lacks something. Values of the two are never compared: they count differently.

mod capability;
mod cgroup_v1;
mod cgroup_v2;
mod figures;
mod group;
mod group_files;
mod hierarchy;
mod oom;
mod sweep;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use capability::{Capability, Limit, State, capability};
pub use figures::Figures;
pub use group::{Group, counts_cpu};
pub(crate) use oom::OomWatch;
pub use prony_model::record::MemoryEvidence;
pub use sweep::sweep;

/// The least limit of CPU time, in processors, of this process's group of version 2 and of those above it. Version 1 refuses a group
/// with a greater limit than one above it (`tg_cfs_schedulable_down` in kernel/sched/core.c).
pub(crate) fn least_cpus() -> Option<f64> {
    cgroup_v2::least_cpus(&hierarchy::Hierarchies::read().v2?)
}

/// The directories of the control groups of a process that count CPU time: of version 2, and of version 1.
pub(crate) fn counting_cpu(pid: u32) -> impl Iterator<Item = PathBuf> {
    let hierarchy::Hierarchies { mut v1, v2 } = hierarchy::Hierarchies::of(&pid.to_string());
    v2.into_iter().chain(v1.remove("cpuacct")).filter(|dir| counts_cpu(dir))
}
