//! Types that all other crates share: quantities, metrics, readings and outcomes; what a trial is to do ([`spec`],
//! [`program`]), messages between runner and worker ([`protocol`]), and a trial's record ([`record`]).
//!
//! Nothing here reads a clock, opens a file or starts a process; the same input gives the same output on every machine.
//! The words are those of the glossary in `docs/glossary.md`.

pub mod catalog;
pub mod crash;
pub mod crash_phase;
pub mod document;
pub mod error;
pub mod event;
pub mod finding;
pub mod format;
pub mod http;
pub mod json_values;
mod key;
pub mod latency;
mod limits;
pub mod link;
pub mod metric;
pub mod number;
pub mod observed;
pub mod open_name;
mod operations;
mod order;
pub mod outcome;
mod paths;
pub mod processes;
pub mod profile;
pub mod program;
pub mod protocol;
pub mod query;
pub mod random;
pub mod reading;
pub mod record;
pub mod service;
mod settle;
pub mod spec;
pub mod spelling;
pub mod throughput;
pub mod trial;
pub mod units;
mod words;
