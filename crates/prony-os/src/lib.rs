//! prony's access to the operating system: launch, limits, samples, counters, facts about the machine.
//!
//! The only crate with unsafe code of its own, all of it in `sys`.

pub mod attached;
pub mod cache;
pub mod clock;
pub mod error;
pub mod file_modes;
pub mod file_size;
pub mod fixture;
pub mod host;
pub mod interrupt;
pub mod launch;
pub mod limits;
pub mod lock;
pub mod mount;
mod open_files;
pub mod own_files;
mod owner;
pub mod processors;
pub mod profile;
pub mod runs;
pub mod sample;
pub mod settle;
pub mod sync_calls;
mod sys;
mod why;
pub mod write_unit;

pub use error::Error;
/// Flags of `open` and of the writes that a file system is sent; `rustix` gives the first one the value of the second.
pub use libc::{O_DSYNC, O_SYNC};
pub use sys::map::SharedMap;
