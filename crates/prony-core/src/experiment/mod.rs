//! The experiment: the file as written -> the experiment that can run.
//!
//! [`parse`] reads the text, [`check`] finds every fault and makes an [`Experiment`](design::Experiment).
//! [`spec`] holds what one variant does, with every factor filled in; [`design`] holds what is
//! compared and how often. Both are plain data: they travel to the worker and into the results
//! database as JSON.

mod catalog;
mod check;
mod combine;
mod decode;
pub mod design;
mod factors;
mod grammar;
mod node;
mod placeholder;
mod problem;
mod sequence;
mod shape;
pub mod spec;
mod substitute;
mod validate;
mod variant;

pub use catalog::{EngineCatalog, EngineFacts, Overrides, StoreFault};
pub use check::check;
pub use node::{RawExperiment, parse};
pub use problem::{Label, Problem, render};

#[cfg(test)]
pub(crate) mod tests;
