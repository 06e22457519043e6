//! Storage engines behind one contract, and the loop that times them.

#![deny(unsafe_code)]

pub mod driver;
pub mod phases;
pub mod timed_loop;
