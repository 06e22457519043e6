//! The command line: one file a command. Commands write to what they are given and never exit.

pub mod choice;
pub mod ls;
pub mod report;
pub mod rm;
pub mod show;
