//! Searches (`prony grow`, `prony tune`): the results of earlier trials decide which trial runs next.
//! `prony_analysis::search` decides what to try; this module runs the trials and stores them.

mod base;
pub(crate) mod constraints;
mod experiments;
pub mod found;
pub mod grow;
mod grow_text;
pub mod journal;
mod prober;
mod source;
pub mod tune;
mod tune_text;

pub use experiments::Experiments;
pub use prober::{Means, Prober};
pub use source::Source;
