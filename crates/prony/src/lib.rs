//! The parts of the `prony` binary, as a library so that tests can reach them.

pub mod error;
pub mod results;
pub mod verdicts;
