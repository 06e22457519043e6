//! The probes inside real runtimes, in one binary.

mod node;
mod profile;
mod python;
mod stage;
