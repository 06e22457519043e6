//! Searches (`prony grow`, `prony tune`): the results of earlier trials decide which trial runs next.
//! `prony_analysis::search` decides what to try; this module runs the trials and stores them.

pub(crate) mod constraints;
mod default_setting;
pub mod found;
mod fresh;
pub mod grow;
mod grow_text;
pub mod journal;
mod source;
mod trial_runner;
pub mod tune;
mod tune_text;

pub use source::Source;
pub use trial_runner::{Means, TrialRunner};
