//! Storage engines behind one contract, and the loop that times them.

pub mod answers;
pub mod catalog;
mod clock;
pub mod documents;
pub mod driver;
pub mod failure;
#[cfg(feature = "fjall")]
pub mod fjall;
#[cfg(feature = "lmdb")]
pub mod lmdb;
#[cfg(feature = "libmdbx")]
pub mod mdbx;
pub mod memory;
#[cfg(feature = "mongodb")]
pub mod mongodb;
mod options;
pub mod own_query;
pub mod phases;
#[cfg(feature = "postgres")]
pub mod postgresql;
#[cfg(feature = "redb")]
pub mod redb;
#[cfg(feature = "redis")]
pub mod redis;
pub mod registry;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
pub mod room;
#[cfg(any(feature = "mongodb", feature = "postgres", feature = "redis"))]
mod server;
#[cfg(feature = "sled")]
pub mod sled;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod timed_loop;
