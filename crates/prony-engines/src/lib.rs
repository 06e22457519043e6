//! Storage engines behind one contract, and the loop that times them.

#![deny(unsafe_code)]

pub mod catalog;
pub mod driver;
mod failure;
#[cfg(feature = "fjall")]
pub mod fjall;
#[cfg(feature = "lmdb")]
pub mod lmdb;
pub mod memory;
mod options;
pub mod phases;
#[cfg(feature = "redb")]
pub mod redb;
pub mod registry;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod timed_loop;
mod versions;
