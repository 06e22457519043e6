//! What guards that compare variants look at.

use std::collections::BTreeMap;
use std::fmt;

use prony_model::metric::{Metric, MetricName};
use prony_model::record::{Completion, PhaseRecord, TrialRecord};
use prony_model::spec::{PhaseSpec, TrialSpec};
use prony_stats::summary;

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

/// The baseline and the variant that a guard compares.
pub type Compared<'a> = [&'a VariantTrials<'a>; 2];

/// What a variant does in the phase in which it is compared, and its trials.
pub(super) type InPhase<'a> = (&'a PhaseSpec, &'a VariantTrials<'a>);

impl fmt::Display for VariantTrials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl<'a> VariantTrials<'a> {
    /// The records of a phase that was completed.
    pub(super) fn complete(&self, phase: &str) -> impl Iterator<Item = &'a PhaseRecord> {
        let phases = self.trials.iter().flat_map(|trial| &trial.phases);
        phases.filter(move |found| found.name == phase && found.completion == Completion::Complete)
    }

    /// The median of a metric over the trials that have a value of it.
    pub(super) fn median(&self, name: &MetricName) -> Option<f64> {
        let figures = self.trials.iter().filter_map(|trial| trial.figure(name).measured().copied());
        Some(summary(&figures.collect::<Vec<f64>>())?.median)
    }
}

/// The one of two variants of which this is true, and the other one.
pub(super) fn in_one(
    [baseline, variant]: Compared<'_>,
    is: [bool; 2],
) -> Option<(&VariantTrials<'_>, &VariantTrials<'_>)> {
    match is {
        [true, false] => Some((baseline, variant)),
        [false, true] => Some((variant, baseline)),
        _ => None,
    }
}

/// Pairs of trials of the two variants with the same block and the same seed.
pub(super) fn same_work<'a>([a, b]: [&VariantTrials<'a>; 2]) -> Vec<(&'a TrialRecord, &'a TrialRecord)> {
    let work = |t: &TrialRecord| (t.trial.block, t.trial.seed);
    let mut theirs: BTreeMap<(u32, u64), Vec<&'a TrialRecord>> = BTreeMap::new();
    b.trials.iter().for_each(|y| theirs.entry(work(y)).or_default().push(y));
    let pairs = |x: &'a TrialRecord| theirs.get(&work(x)).into_iter().flatten().map(move |y| (x, *y));
    a.trials.iter().flat_map(|x| pairs(x)).collect()
}

/// The median over a variant's trials that completed the phase, of an instance in it, which has no name where it is the phase itself.
pub(super) fn typical(variant: &VariantTrials<'_>, (phase, instance): (&str, &str), metric: Metric) -> Option<f64> {
    let values: Vec<f64> = variant.complete(phase).filter_map(|p| p.amount_of(instance, metric)).collect();
    Some(summary(&values)?.median)
}
