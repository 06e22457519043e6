//! The experiment: the file as written -> the experiment that can run.
//!
//! [`parse`] reads the text, [`check`] finds every fault and makes an [`Experiment`](design::Experiment).
//! [`spec`] holds what one variant does, with every factor filled in; [`design`] holds what is
//! compared and how often. Both are plain data: they travel to the worker and into the results
//! database as JSON.

mod check;
mod combine;
mod count_syncs;
mod decode;
mod derived;
pub mod design;
pub mod expr;
mod factors;
mod floor;
pub mod format;
mod grammar;
pub mod left_out;
mod node;
mod outside;
mod placeholder;
pub mod plan;
mod problem;
mod reference;
mod schema;
mod sequence;
mod shape;
mod shell_syntax;
mod subject;
mod substitute;
mod validate;
mod variant;
mod warnings;

pub use check::{check, check_in};
pub use node::{RawExperiment, not_utf8, parse};
pub use problem::{Label, Problem, render};
pub use reference::reference;
pub use schema::schema;
pub use shell_syntax::shell_syntax;
pub use warnings::warnings;

/// A commented file to begin with, which passes [`check`] where the engines `memory` and `lmdb` are built in.
pub fn template() -> &'static str {
    include_str!("template.toml")
}

#[cfg(test)]
pub(crate) mod tests;
