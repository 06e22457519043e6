//! Servers of PostgreSQL.

mod address;
mod connection;

pub use address::Address;
pub use connection::{Answered, Bind, Connection, Failure, columns};
