//! The results database: one SQLite file. No other crate uses SQL.
//!
//! A trial is appended in one transaction when it has ended and is never rewritten. Several
//! processes may write to one file. Every table and chart is computed from this file.

mod codec;
mod error;
mod journal;
mod names;
mod open;
mod profiles;
mod read;
mod replaced_file;
mod run;
mod run_lock;
mod schema;
mod trial_parts;
mod write;

pub use error::Error;
pub use open::Database;
pub use run::{RunData, RunHead, RunId, RunStart, RunStatus};
pub use run_lock::is_file_of;
pub use schema::{VERSION as SCHEMA_VERSION, is_results};
pub use trial_parts::Part;
