//! The machine: what it is, how it fares beside a trial, and what it can do at most.

pub mod canary;
pub mod capability;
pub mod conditions;
pub mod facts;
pub mod limits;
mod memory;
pub mod quiesce;

pub use canary::Canaries;
pub use capability::{Capability, State, capabilities};
pub use conditions::moment;
pub use facts::facts;
pub use limits::machine_limits;
pub use memory::warm_memory;
pub use quiesce::quiesce;
