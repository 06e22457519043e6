//! The directories in which programs work: copied, changed, built and reused. The user's own files are never changed.

mod build_cache;
pub mod change;
mod copy;
mod dependency;
mod digest;
pub mod error;
pub mod files;
mod links;
pub mod named;
pub mod paths;
pub mod place;
pub mod protected;
mod revision;
pub mod setting;
pub mod sources;
pub mod startable;
#[cfg(test)]
mod tests;

pub use error::Error;
