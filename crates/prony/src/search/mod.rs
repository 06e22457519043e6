//! Searches: trials that are planned by what the earlier ones did. What to try next is decided in
//! `prony_analysis::search`; here it is run, recorded and printed.

mod base;
pub mod constraints;
mod experiments;
pub mod found;
pub mod grow;
mod grow_text;
mod prober;
mod source;
pub mod tune;
mod tune_text;

pub use experiments::Experiments;
pub use prober::{Means, Prober};
pub use source::Source;
