//! What prony asks of the operating system: launch, limits, samples, counters, the machine.

pub mod cache;
pub mod clock;
pub mod fixture;
pub mod host;
pub mod mount;
pub mod sample;
pub mod settle;
mod sys;
mod why;
