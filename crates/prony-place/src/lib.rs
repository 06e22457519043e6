//! The directories in which programs work: copied, changed, built and reused. The user's own files are never changed.

mod build_cache;
pub mod call_matches;
pub mod change;
mod copy;
pub mod data;
mod dependency;
mod digest;
pub mod error;
pub mod external_files;
pub mod launch_setting;
mod links;
mod named_paths;
mod node_packages;
mod originals;
pub mod output_targets;
mod outside;
mod own_path;
pub mod paths;
pub mod place;
pub mod places;
mod revision;
mod shared_builds;
pub mod shell_text;
pub mod sources;
pub mod startable;
#[cfg(test)]
mod tests;
pub mod to_end;
mod uncommitted;
pub mod user;

pub use copy::{Progress, copy_tree};
pub use error::Error;
