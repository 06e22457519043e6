//! The machine: facts about it, its state before and after a trial, and its own limits.

pub mod capability;
pub mod conditions;
pub mod facts;
pub mod limits;
mod memory;
pub mod quiesce;
pub mod reference_workload;

pub use capability::{Capability, State, capabilities};
pub use conditions::moment;
pub use facts::facts;
pub use limits::machine_limits;
pub use memory::warm_memory;
pub use quiesce::{quiesce, sync_file_system};
pub use reference_workload::ReferenceWorkload;
