//! Integration tests of the crate, in one binary.

mod launch;
mod launch_limits;
mod launch_roles;
mod launch_tree;
