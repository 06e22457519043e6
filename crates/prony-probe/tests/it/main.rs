//! The probe against real processes, in one binary.

mod host;
mod launch;
mod launch_beside;
mod launch_limits;
mod launch_roles;
mod launch_tree;
mod profile;
mod runtime_node;
mod runtime_python;
mod runtime_stage;
mod sample;
mod sample_sync;
mod settle;
mod subject;
