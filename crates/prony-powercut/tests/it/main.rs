//! The integration tests of this crate, in one binary: all of them mount the file system.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "helpers of tests may do what tests may")]

mod append_log;
mod calls;
mod engines;
mod guard;
mod instants;
mod memory;
mod mounted;
mod oracle;
mod postgresql;
mod redis;
