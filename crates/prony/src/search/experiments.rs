//! A list of experiments that only grows: references to its entries stay valid while others are added.

use std::cell::OnceCell;

use prony_experiment::design::Experiment;

/// The versions of an experiment that grows: each running trial refers to its version.
#[derive(Debug, Default)]
pub struct Experiments {
    first: OnceCell<Box<(Experiment, Experiments)>>,
}

impl Experiments {
    /// Keeps another one for as long as this list exists.
    pub fn put(&self, experiment: Experiment) -> &Experiment {
        let mut end = self;
        while let Some(link) = end.first.get() {
            end = &link.1;
        }
        &end.first.get_or_init(|| Box::new((experiment, Self::default()))).0
    }
}
