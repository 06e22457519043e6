//! Collects the findings of guards about a whole run, for its report.

use std::collections::{BTreeMap, BTreeSet};

use super::variants::{self, VariantTrials};
use super::{Finding, clients, disturbances, first_trial, reported_values, run};
use prony_experiment::design::{Experiment, Variant};
use prony_experiment::plan::outline;
use prony_model::metric::MetricName;
use prony_model::record::TrialRecord;
use prony_stats::{MIN_BLOCKS, blocks_before_any_verdict};

/// The findings of guards that need more than one trial: disturbed trials, differences between a variant and its
/// stratum's baseline, drift, too few blocks. `done` says whether the run has ended.
pub fn of_run(
    experiment: &Experiment,
    trials: &[TrialRecord],
    primary: Option<&MetricName>,
    done: bool,
) -> Vec<Finding> {
    let mut found: Vec<Finding> = run::trials_failed(experiment, trials).into_iter().collect();
    found.extend(run::uncompared(experiment));
    found.extend(disturbances::disturbed_trials(&trials.iter().collect::<Vec<_>>()));
    for (variant, baseline) in pairs(experiment) {
        let both = [baseline, variant].map(|one| variant_trials(experiment, trials, one));
        let both = both.each_ref();
        found.extend(variants::check(both));
        let margin = experiment.compare().margin.get();
        found.extend(primary.and_then(|metric| reported_values::coarse_digits(both, metric, margin)));
        let compared = primary.into_iter().chain(&experiment.compare().metrics);
        found.extend(compared.filter_map(|metric| clients::gaps_differ(both, metric, margin)));
    }
    let variants = experiment.variants().iter().map(|one| variant_trials(experiment, trials, one));
    found.extend(first_trial::check(&variants.collect::<Vec<_>>()));
    found.extend(of_baselines(experiment, trials, primary, done));
    found.extend(run::answers_unchecked(experiment, trials));
    found.extend(run::sources_differ(experiment, trials));
    found
}

/// Drift of each stratum's baseline, and too few blocks; equal findings of several strata are reported once.
fn of_baselines(
    experiment: &Experiment,
    trials: &[TrialRecord],
    primary: Option<&MetricName>,
    done: bool,
) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    let (alpha, family) = (experiment.compare().alpha.get(), outline(experiment).family as usize);
    for baseline in experiment.variants().iter().filter(|v| v.baseline) {
        let mut own: Vec<&TrialRecord> = trials.iter().filter(|t| t.trial.variant == baseline.id).collect();
        own.sort_by_key(|t| t.trial.position);
        let analyses = experiment.compare().analyses(baseline.blocks);
        let needed = blocks_before_any_verdict(family, alpha, &analyses).unwrap_or(MIN_BLOCKS);
        let most = baseline.blocks.max;
        let few = complete_blocks(experiment, trials, baseline)
            .and_then(|complete| run::too_few_blocks(complete, most, &analyses, needed, done));
        found.extend(few.filter(|finding| !found.contains(finding)));
        let values = |metric| own.iter().filter_map(|t| t.figure(metric).measured().copied()).collect::<Vec<f64>>();
        let drift = primary.and_then(|metric| run::drifting(&values(metric), experiment.compare().margin.get()));
        found.extend(
            drift.map(|f| Finding { message: format!("`{}`: {}", experiment.labels(baseline), f.message), ..f }),
        );
    }
    found
}

/// Number of blocks in which a variant of this stratum can be paired, because it ran in one sub-block with each label
/// of the baseline: the largest number of any variant. `None` where the stratum has no other variant.
fn complete_blocks(experiment: &Experiment, trials: &[TrialRecord], baseline: &Variant) -> Option<u32> {
    pairs(experiment).find(|(_, of)| of.id == baseline.id)?;
    let place = |t: &TrialRecord| (t.trial.block, t.trial.sub_block);
    let mut labels: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let own = trials.iter().filter(|t| t.trial.variant == baseline.id);
    own.for_each(|t| *labels.entry(place(t)).or_default() += 1);
    labels.retain(|_, ran| *ran == 1 + u32::from(experiment.compare().twice));
    let mut blocks: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for trial in trials.iter().filter(|t| labels.contains_key(&place(t))) {
        blocks.entry(trial.trial.variant).or_default().insert(trial.trial.block);
    }
    blocks.remove(&baseline.id);
    Some(blocks.values().map(BTreeSet::len).max().unwrap_or(0) as u32)
}

/// Each variant with its stratum's baseline.
fn pairs(experiment: &Experiment) -> impl Iterator<Item = (&Variant, &Variant)> {
    experiment.variants().iter().filter(|v| !v.baseline).filter_map(|v| Some((v, experiment.baseline_of(v)?)))
}

/// A variant with its trials of a run.
pub fn variant_trials<'a>(
    experiment: &'a Experiment,
    trials: &'a [TrialRecord],
    variant: &'a Variant,
) -> VariantTrials<'a> {
    let own = trials.iter().filter(|t| t.trial.variant == variant.id).collect();
    VariantTrials { name: experiment.labels(variant), spec: &variant.spec, trials: own }
}

#[cfg(test)]
pub(super) mod tests;
