//! The parts of the `prony` binary, as a library so that tests can reach them.

pub mod budget;
pub mod calibrate;
pub mod cli;
pub mod data;
pub mod error;
pub mod estimate;
pub mod load;
pub mod paths;
pub mod plot;
pub mod profiles;
pub mod report;
pub mod runner;
pub mod screen;
pub mod search;
pub mod surroundings;
pub mod worker;
