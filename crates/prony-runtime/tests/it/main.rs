//! Tests of the probes inside real runtimes, in one binary.

mod environment;
mod node_calls;
mod node_processes;
mod profile;
mod python_calls;
mod python_processes;
