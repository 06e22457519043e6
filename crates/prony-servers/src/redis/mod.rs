//! Servers of Redis and Valkey.

mod address;
mod connection;
mod protocol;

pub use address::Address;
pub use connection::{Connection, Failure, Reply, Value};
pub use protocol::{begin, push, push_word};
