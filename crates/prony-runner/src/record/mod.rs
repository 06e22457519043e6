//! Builds the record of a trial from what was observed: how it ended, what ran, what probes reported.

pub mod effective_settings;
pub mod ending;
pub(crate) mod probes;
