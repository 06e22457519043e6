//! Looks up the trials of variants, the records of phases, and the labels of levels.

use std::collections::{BTreeMap, BTreeSet};

use prony_experiment::design::Experiment;
use prony_model::metric::{MetricKey, MetricName};
use prony_model::reading::Reading;
use prony_model::record::{PhaseRecord, TrialRecord};
use prony_results::RunData;

use super::model::Label;

/// The trials of a variant.
pub(crate) fn trials_of(data: &RunData, variant: usize) -> impl Iterator<Item = &TrialRecord> + Clone {
    data.trials.iter().filter(move |trial| trial.trial.variant == variant)
}

/// The trials of each variant that has any.
pub(crate) fn by_variant(trials: &[TrialRecord]) -> BTreeMap<usize, Vec<&TrialRecord>> {
    let mut all: BTreeMap<usize, Vec<&TrialRecord>> = BTreeMap::new();
    trials.iter().for_each(|trial| all.entry(trial.trial.variant).or_default().push(trial));
    all
}

/// The records of a phase in these trials.
pub(crate) fn records_of<'t>(
    trials: impl IntoIterator<Item = &'t TrialRecord>,
    phase: &str,
) -> impl Iterator<Item = &'t PhaseRecord> {
    trials.into_iter().flat_map(|trial| &trial.phases).filter(move |record| record.name == phase)
}

/// The metrics of whose readings in these records some are wanted, by instance.
pub(crate) fn metrics_of<'r>(
    phase: &str,
    records: impl IntoIterator<Item = &'r PhaseRecord>,
    is_wanted: impl Fn(&str, &Reading<f64>) -> bool,
) -> Vec<MetricName> {
    let mut keys: BTreeSet<(&str, MetricKey)> = BTreeSet::new();
    for (instance, readings) in records.into_iter().flat_map(|record| &record.readings) {
        let wanted = readings.iter().filter(|(_, reading)| is_wanted(instance, reading));
        keys.extend(wanted.map(|(key, _)| (instance.as_str(), key.0)));
    }
    let name = |(instance, key): (&str, MetricKey)| MetricName {
        phase: phase.to_owned(),
        instance: (!instance.is_empty()).then(|| instance.to_owned()),
        key,
    };
    keys.into_iter().map(name).collect()
}

/// The names of some factors, as headings of labels.
pub(super) fn factor_names(experiment: &Experiment, factors: &[usize]) -> Vec<String> {
    factors.iter().map(|factor| experiment.factors()[*factor].name.clone()).collect()
}

/// A variant by its levels of these factors.
pub(super) fn labels(experiment: &Experiment, variant: usize, factors: &[usize]) -> Vec<Label> {
    let levels = &experiment.variants()[variant].levels;
    factors.iter().map(|factor| Label::new(&experiment.factors()[*factor].levels[levels[*factor]].label)).collect()
}
