//! Launches subjects (measured processes): starts one suspended so that observers can attach, releases it, and ends its
//! whole process tree whatever happens.
//!
//! Each subject has a supervisor: this same program started afresh, in a session of its own, which adopts every
//! orphan of the tree. It speaks JSON lines with the runner over a socket, and when the runner's end closes, for
//! whatever reason, it kills the tree, removes the subject's control groups and scratch directories, and exits. When
//! nothing is left of a subject, its supervisor serves a later one.
//!
//! Its spawner starts the subjects, for which the runner asks it directly; the supervisor wakes when a subject has ended, and
//! finds on the page that it shares with the spawner whose end that was.

mod channel;
pub mod classify;
mod exec_strings;
mod handle;
mod idle;
mod last_lines;
mod link;
mod output_capture;
mod process_tree;
mod scratch;
mod spawner;
mod spec;
mod supervise;
mod wire;

pub use crate::sys::process::inherited;
pub use crate::sys::usage::{CpuTime, Usage};
pub use exec_strings::DEFAULT_PATH;
pub use handle::{Launch, Launcher, Process, Reusable, Started};
pub use last_lines::last_lines;
pub use output_capture::Capture;
pub use prony_model::record::{Captured, Status};
pub use scratch::{Scratch, Swept, detach_mounts, remove_tree};
pub use spec::{Input, LaunchSpec, Output};
pub use supervise::{supervise, supervise_stdin};
pub use wire::{End, Finished, KilledFor};
