//! The numbers that services counted themselves, as they were read between the phases of a trial and inside them.

use std::collections::BTreeMap;

use prony_counters::Number;
use prony_model::reading::{Reading, Why};
use prony_model::service::CountersSpec;
use prony_model::units::Nanos;

/// Numbers by name, each of which may be missing.
pub type Values = BTreeMap<String, Reading<Number>>;

/// What was read of one instance of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    /// What was to be read.
    pub spec: CountersSpec,
    /// Before the first phase and after each, as far as the trial came.
    pub between: Vec<Between>,
}

/// What was read between two phases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Between {
    /// At the end of the phase before, with all that it did.
    pub end: Values,
    /// When the phase after could begin. It is later where something was waited for, so that what happened meanwhile is of no
    /// phase.
    pub begin: Values,
    /// Inside the phase before, at these instants.
    pub samples: Vec<(Nanos, Values)>,
}

/// No numbers of these names, for the same reason.
pub fn missing<'n>(names: impl Iterator<Item = &'n String>, why: &Why) -> Values {
    names.map(|name| (name.clone(), Reading::Missing(why.clone()))).collect()
}
