//! What guards that compare variants look at.

use std::collections::BTreeMap;

use prony_model::metric::Metric;
use prony_model::record::{Completion, TrialRecord};
use prony_model::spec::TrialSpec;
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

/// Pairs of trials of the two variants with the same block and the same seed.
pub(super) fn same_work<'a>(a: &VariantTrials<'a>, b: &VariantTrials<'a>) -> Vec<(&'a TrialRecord, &'a TrialRecord)> {
    let work = |t: &TrialRecord| (t.trial.block, t.trial.seed);
    let mut theirs: BTreeMap<(u32, u64), Vec<&'a TrialRecord>> = BTreeMap::new();
    b.trials.iter().for_each(|y| theirs.entry(work(y)).or_default().push(y));
    let pairs = |x: &'a TrialRecord| theirs.get(&work(x)).into_iter().flatten().map(move |y| (x, *y));
    a.trials.iter().flat_map(|x| pairs(x)).collect()
}

/// The median over a variant's trials that completed the phase, of an instance in it, which has no name where it is the phase itself.
pub(super) fn typical(variant: &VariantTrials<'_>, (phase, instance): (&str, &str), metric: Metric) -> Option<f64> {
    let phases = variant.trials.iter().flat_map(|t| &t.phases);
    let complete = phases.filter(|p| p.name == phase && p.completion == Completion::Complete);
    let values: Vec<f64> = complete.filter_map(|p| p.amount_of(instance, metric)).collect();
    Some(summary(&values)?.median)
}
