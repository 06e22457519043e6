//! What guards that compare variants look at.

use prony_model::record::TrialRecord;
use prony_model::spec::TrialSpec;

/// A variant with its trials, of both labels where it is a baseline.
#[derive(Clone, Debug)]
pub struct VariantTrials<'a> {
    /// Its levels as text.
    pub name: String,
    /// What it does.
    pub spec: &'a TrialSpec,
    /// Its trials, in any order.
    pub trials: Vec<&'a TrialRecord>,
}
