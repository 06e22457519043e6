//! The protocol of MongoDB: documents in BSON 1.1, one in each message `OP_MSG`, and the URLs of servers.
//!
//! Nothing here reads or writes a connection.

mod address;
pub mod bson;
mod message;

pub use address::Address;
pub use message::{Malformed, document, length, message};
