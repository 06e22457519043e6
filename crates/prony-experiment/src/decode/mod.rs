//! Turns the checked tree of an experiment file into plain data.

mod cell;
pub(crate) mod collections;
pub(crate) mod compare;
pub(crate) mod counters;
pub(crate) mod crash;
pub(crate) mod data;
pub(crate) mod document;
pub(crate) mod find;
mod http;
pub(crate) mod indexes;
pub(crate) mod instance;
pub(crate) mod never_measured;
pub(crate) mod ops;
pub(crate) mod order;
mod pattern;
pub(crate) mod phase;
pub(crate) mod program;
pub(crate) mod references;
pub(crate) mod report;
pub(crate) mod service;
mod size;
pub(crate) mod store;
pub(crate) mod trigger;
pub(crate) mod values;
mod view;

pub(crate) use view::View;
