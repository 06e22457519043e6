//! Searches: trials that are planned by what the earlier ones did. What to try next is decided in
//! `prony_analysis::search`; here it is run, kept and told.

mod base;
pub mod found;
pub mod grow;
pub mod kept;
mod prober;
mod shelf;
mod source;
pub mod tune;
mod words;
mod words_tune;

pub use prober::{Means, Prober};
pub use shelf::Shelf;
pub use source::Source;
