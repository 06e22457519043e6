//! Guards: each checks one condition that limits the validity of results, and returns a finding where it holds. A guard
//! may refuse a comparison; it never deletes data.
//!
//! [`trial`] checks one trial, [`variants`] compares a variant with its stratum's baseline, [`run`] checks a whole run;
//! [`findings`] collects those of the latter two.

use prony_model::metric::{Metric, MetricKey};
use prony_model::number::percent_with;
use prony_model::record::PhaseRecord;

pub use prony_model::finding::{Finding, Severity};

pub mod background;
mod beyond_records;
mod clients;
pub mod copies;
pub mod disturbances;
pub mod findings;
mod first_trial;
mod fitted;
mod heap;
mod idle_services;
pub mod phases_not_observed;
pub mod probe;
pub mod processes;
pub mod program;
mod questions;
mod reads;
mod refusals;
pub mod replicas;
pub mod reported_values;
pub mod requests;
pub mod run;
pub(crate) mod run_order;
pub(crate) mod shared_pages;
mod statuses;
mod stored;
#[cfg(test)]
mod tests;
pub mod trial;
pub(crate) mod unlike;
mod used_services;
mod variant_trials;
pub mod variants;

/// The finding that a phase which was declared cold was not.
const NOT_COLD: &str = "cache_not_as_declared";

/// Share of a store's pages that may be in the page cache although it was declared cold.
const STILL_CACHED: f64 = 0.01;

/// The value of an amount over the phase.
fn amount(phase: &PhaseRecord, metric: Metric) -> Option<f64> {
    phase.reading(MetricKey::amount(metric))?.measured().copied()
}

/// `12 %`, `0.3 %`.
fn percent(share: f64) -> String {
    percent_with(share, usize::from(100.0 * share.abs() < 10.0))
}
