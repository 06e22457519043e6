//! Finds phases in which variants that did the same work on the same data gave different answers.

use std::collections::{BTreeMap, BTreeSet};

use prony_analysis::guard::variants::{VariantTrials, answers_differ};
use prony_results::RunData;

use super::variants::by_variant;

/// Phases that gave different answers where variants did the same work on the same data.
pub(crate) fn disagreeing(data: &RunData) -> BTreeSet<String> {
    let mut strata: BTreeMap<usize, Vec<VariantTrials<'_>>> = BTreeMap::new();
    for (variant, trials) in by_variant(&data.trials) {
        let Some(variant) = data.experiment.variants().get(variant) else { continue };
        let of_variant = VariantTrials { name: String::new(), spec: &variant.spec, trials };
        strata.entry(variant.stratum).or_default().push(of_variant);
    }
    let pairs = strata.values().flat_map(|variants| {
        variants.iter().enumerate().flat_map(|(at, one)| variants[at + 1..].iter().map(move |other| (one, other)))
    });
    pairs.flat_map(|(one, other)| answers_differ([one, other])).filter_map(|finding| finding.phase).collect()
}
