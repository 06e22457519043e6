//! prony's pure part: what an experiment is, what a trial leaves, and what may be concluded from it.
//!
//! Nothing here reads a clock, opens a file or starts a process; the same input gives the same
//! output on every machine. The words are those of the glossary in `docs/glossary.md`.

pub mod conclude;
pub mod event;
pub mod experiment;
pub mod finding;
pub mod guard;
pub mod latency;
pub mod metric;
pub mod outcome;
pub mod pace;
pub mod plan;
pub mod processes;
pub mod profile;
pub mod protocol;
mod random;
pub mod reading;
pub mod record;
pub mod search;
pub mod stats;
pub mod units;
pub mod workload;
