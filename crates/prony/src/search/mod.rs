//! Searches: trials that are planned by what the earlier ones did. What to try next is decided in
//! `prony_core::search`; here it is run, kept and told.

pub mod grow;
mod prober;
mod shelf;
mod source;
mod words;

pub use prober::{Means, Prober};
pub use shelf::Shelf;
pub use source::Source;
