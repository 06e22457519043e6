//! Tests of the probes inside real runtimes, in one binary.

mod environment;
mod node;
mod profile;
mod python;
