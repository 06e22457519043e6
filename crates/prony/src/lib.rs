//! The parts of the `prony` binary, as a library so that tests can reach them.

pub mod calibrate;
pub mod cli;
pub mod data;
pub mod error;
pub(crate) mod json_lines;
pub(crate) mod output_file;
pub mod progress;
pub mod search;
pub mod worker;
