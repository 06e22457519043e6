//! Runs trials in one way for every subject, and runs of blocks: order, stopping, resume. Prints nothing.

pub(crate) mod before_after;
pub mod budget;
pub mod campaign;
mod enforceable;
pub mod error;
pub mod estimate;
pub mod figures;
pub mod initial_data;
pub mod load;
pub mod new_warnings;
pub mod preflight;
pub mod record;
pub(crate) mod recorder;
mod reused;
pub(crate) mod roles;
pub mod run;
pub mod run_context;
pub(crate) mod run_duration;
pub mod scratch;
pub mod trial;
pub(crate) mod watch;
pub(crate) mod watched;

pub use error::Error;
