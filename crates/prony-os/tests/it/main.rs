//! Tests of launching, limits and sampling on real processes, in one binary.

mod host;
mod launch;
mod launch_beside;
mod launch_idle;
mod launch_limits;
mod launch_roles;
mod launch_tree;
mod open_files;
mod sample;
mod sample_sync;
mod settle;
mod subject;
