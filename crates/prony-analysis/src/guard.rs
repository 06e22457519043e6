//! Guards: each checks one condition that limits the validity of results, and returns a finding where it holds. A guard
//! may refuse a comparison; it never deletes data.
//!
//! [`trial`] checks one trial, [`variants`] compares a variant with its stratum's baseline, [`run`] checks a whole run;
//! [`findings`] collects those of the latter two.

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::number::percent_with;
use prony_model::record::{PhaseRecord, TrialRecord};
use prony_model::spec::BACKGROUND;
use prony_model::units::{Bytes, Nanos};

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
    phase.amount_of("", metric)
}

/// The value of a gauge in the phase.
fn gauge(phase: &PhaseRecord, metric: Metric, stat: Stat) -> Option<f64> {
    phase.reading(MetricKey::gauge(metric, stat))?.measured().copied()
}

/// What a trial recorded of a phase.
fn recorded<'t>(trial: &'t TrialRecord, phase: &str) -> Option<&'t PhaseRecord> {
    trial.phases.iter().find(|each| each.name == phase)
}

/// After the operations of an instance, in a message.
fn whose(instance: &str) -> &'static str {
    if instance == BACKGROUND { " of the background" } else { "" }
}

/// Whether an instance is a role, one of its instances, or a role in one.
fn is_part_of(instance: &str, role: &str) -> bool {
    instance.strip_prefix(role).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A reading of bytes as it is shown.
fn bytes(reading: f64) -> Bytes {
    Bytes::from_bytes(reading as u64)
}

/// A reading of nanoseconds as it is shown.
fn nanos(reading: f64) -> Nanos {
    Nanos::from_nanos(reading as u64)
}

/// `12 %`, `0.3 %`.
fn percent(share: f64) -> String {
    percent_with(share, usize::from(100.0 * share.abs() < 10.0))
}
