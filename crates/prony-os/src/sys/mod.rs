//! The only unsafe code: one file for each family of system calls, a few lines for each call.
#![allow(unsafe_code)]

pub(crate) mod c_library;
pub(crate) mod cache;
pub(crate) mod cpu_clock;
pub(crate) mod map;
pub(crate) mod memory;
pub(crate) mod perf;
pub(crate) mod process;
pub(crate) mod usage;
