//! Finds phases in which variants that did the same work on the same data gave different answers.

use std::collections::{BTreeMap, BTreeSet};

use prony_analysis::guard::variants::{VariantTrials, answers_differ};
use prony_experiment::design::Variant;
use prony_model::record::TrialRecord;
use prony_results::RunData;

/// Phases that gave different answers where variants did the same work on the same data.
pub(super) fn disagreeing(data: &RunData, trials: &BTreeMap<usize, Vec<&TrialRecord>>) -> BTreeSet<String> {
    let mut alike: BTreeMap<String, Vec<VariantTrials<'_>>> = BTreeMap::new();
    for (variant, trials) in trials {
        let Some(variant) = data.experiment.variants().get(*variant) else { continue };
        let of_variant = VariantTrials { name: String::new(), spec: &variant.spec, trials: trials.clone() };
        alike.entry(work(variant)).or_default().push(of_variant);
    }
    let pairs = alike.values().filter_map(|variants| variants.split_first());
    let found = pairs.flat_map(|(first, rest)| rest.iter().flat_map(|other| answers_differ(first, other)));
    found.filter_map(|finding| finding.phase).collect()
}

/// A key that is equal for variants whose reads should return the same answers.
fn work(variant: &Variant) -> String {
    let phases = variant.spec.phases.iter().map(|phase| {
        let ops = phase.action.ops().map(|ops| (&ops.collection, ops.amount, ops.order));
        (&phase.name, phase.action.name(), ops)
    });
    format!("{:?}", (variant.stratum, &variant.spec.data, phases.collect::<Vec<_>>()))
}
