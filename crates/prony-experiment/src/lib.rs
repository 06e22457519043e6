//! Turns an experiment file into a checked experiment that can run.
//!
//! [`parse`] reads the text, [`check`] finds every fault and makes an [`Experiment`](design::Experiment). [`spec`]
//! holds what one variant does, with every factor filled in; [`design`] holds what is compared and how often. Both are
//! plain data: they are sent to the worker and stored in the results database as JSON.

mod calendar;
mod check;
mod combine;
mod command_text;
mod count_syncs;
mod decode;
pub mod design;
mod environment;
mod examples;
pub mod expr;
mod factors;
mod floor;
mod grammar;
mod never_matches;
mod node;
mod placeholder;
pub mod plan;
mod problem;
pub mod redacted;
mod reference;
mod schema;
mod search_experiments;
mod sequence;
pub mod services;
mod shape;
mod shell_syntax;
mod specification;
mod subject;
mod substitute;
mod validate;
mod variant;
mod warnings;

pub use check::{check, check_in};
pub use node::{RawExperiment, not_utf8, parse};
pub use placeholder::NAMESPACES;
pub use problem::{Label, Problem, render};
pub use reference::{metrics as metrics_reference, reference};
pub use schema::schema;
pub use shell_syntax::{ShellSyntax, shell_syntax};
pub use warnings::warnings;

/// Commented example files, which pass [`check`] where the engines `lmdb` and `sqlite` are built in.
pub mod templates {
    /// Two engines, driven by prony.
    pub const STORE: &str = include_str!("templates/store.toml");
    /// Two programs that every machine has.
    pub const PROGRAM: &str = include_str!("templates/program.toml");
    /// A server under load from one and from several connections.
    pub const SERVICES: &str = include_str!("templates/services.toml");
    /// Two revisions of the git repository in which the file lies.
    pub const BRANCHES: &str = include_str!("templates/branches.toml");
}

#[cfg(test)]
pub(crate) mod tests;
