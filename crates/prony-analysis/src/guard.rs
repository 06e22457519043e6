//! Guards: each checks the validity of data and returns a finding. A guard may refuse a comparison, never delete data.
//!
//! [`trial`] checks one trial, [`variants`] a variant beside its stratum's baseline, [`run`] at a whole run; [`gather`](findings::gather) asks all of them.

use prony_model::metric::{Metric, MetricKey};
use prony_model::number::percent_with;
use prony_model::record::PhaseRecord;

pub use prony_model::finding::{Finding, Severity};

pub mod copies;
pub mod disturbances;
pub mod findings;
pub mod probe;
pub mod processes;
pub mod program;
pub mod replicas;
pub mod reported;
pub mod run;
#[cfg(test)]
mod tests;
pub mod trial;
pub mod unseen;
pub mod variants;

/// The value of an amount over the phase.
fn amount(phase: &PhaseRecord, metric: Metric) -> Option<f64> {
    phase.reading(MetricKey::amount(metric))?.measured().copied()
}

/// `12 %`, `0.3 %`.
fn percent(share: f64) -> String {
    percent_with(share, usize::from(100.0 * share.abs() < 10.0))
}
