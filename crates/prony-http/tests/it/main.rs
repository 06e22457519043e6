//! The integration tests of this crate, in one binary.

#![allow(clippy::unwrap_used, reason = "helpers of tests may do what tests may")]

mod answers;
mod encrypted;
mod exchanges;
mod faults;
mod host;
mod mixes;
mod open_loop;
mod retries;
mod server;
mod sessions;
mod uploads;
mod values;
