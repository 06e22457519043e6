//! The experiment: the file as written -> the experiment that can run.
//!
//! [`spec`] holds what one variant does, checked and with every factor filled in; [`design`] holds
//! what is compared and how often. Both are plain data: they travel to the worker and into the
//! results database as JSON.

pub mod design;
pub mod spec;
