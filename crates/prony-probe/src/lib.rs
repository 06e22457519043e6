//! What prony asks of the operating system. The only crate with unsafe code, all of it in `sys`.
#![deny(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

pub mod error;
pub mod launch;
pub mod limits;
mod owner;
#[allow(unsafe_code)]
mod sys;

pub use error::Error;
