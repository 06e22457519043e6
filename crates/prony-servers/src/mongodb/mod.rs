//! Servers of MongoDB: documents in BSON 1.1, one in each message `OP_MSG`.

mod address;
pub mod bson;
mod connection;
mod login;
mod message;

pub use crate::scram::Fault;
pub use address::{Address, Credentials};
pub use connection::{Connection, Failure};
pub use message::{Malformed, message};
