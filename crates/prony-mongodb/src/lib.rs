//! The protocol of MongoDB: documents in BSON 1.1, one in each message `OP_MSG`, the login, and the URLs of servers.
//!
//! Nothing here reads or writes a connection.

mod address;
pub mod bson;
mod login;
mod message;

pub use address::{Address, Credentials};
pub use login::{Fault, Login, ask_mechanisms};
pub use message::{Malformed, document, length, message};
