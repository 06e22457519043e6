//! Runs trials in one way for every subject, and runs of blocks: order, stopping, resume. Prints nothing.

pub(crate) mod before_after;
pub mod budget;
pub mod campaign;
pub mod error;
pub mod estimate;
pub mod figures;
pub mod lab;
pub mod load;
pub mod record;
pub(crate) mod recorder;
mod reused;
pub(crate) mod roles;
pub mod run;
pub(crate) mod run_time;
pub mod scratch;
pub mod surroundings;
pub mod trial;
pub mod warned;
pub(crate) mod watch;
pub(crate) mod watched;

pub use error::Error;
