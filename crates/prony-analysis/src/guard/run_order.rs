//! Guards of comparisons that depend on the order of trials: what one leaves behind changes what a later one measures.

use std::collections::{BTreeMap, BTreeSet};

use prony_model::metric::MetricName;
use prony_model::program::CopyOf;
use prony_model::record::TrialRecord;
use prony_model::trial::Label;
use prony_stats::{drift, rank_sum_p, summary};

use super::percent;
use super::variant_trials::VariantTrials;

/// By how much more or less the baseline may have measured at the end of a run than at its begin, if its trials share a directory.
const AGED: f64 = 0.5;

/// A trend of the baseline counts if its p-value is below this.
const TREND: f64 = 0.01;

/// The order counts if its p-value is below this. Each verdict asks twice, and once more for each analysis before the last.
const CHANCE: f64 = 0.003;

/// And if it changes values by more than this.
const LEAST: f64 = 0.02;

/// What is left of a difference must be so many times as large as what the order may have done.
const TIMES: f64 = 4.0;

/// Why the order of trials may have made the difference of two variants in a metric.
pub(super) fn matters(baseline: &VariantTrials<'_>, variant: &VariantTrials<'_>, name: &MetricName) -> Option<String> {
    let values = |of: &VariantTrials<'_>| {
        let measured = |trial: &&TrialRecord| Some((trial.trial.position, trial.figure(name).measured().copied()?));
        of.trials.iter().copied().filter_map(|trial| measured(&trial)).collect::<BTreeMap<u32, f64>>()
    };
    let [ours, theirs] = [baseline, variant].map(values);
    let carried = || carried_over((baseline, &ours), (variant, &theirs), name);
    carried().or_else(|| unsteady((baseline, &ours), (variant, &theirs), name)).or_else(|| aged(baseline, &ours, name))
}

/// The typical of some values.
fn median(values: &[f64]) -> Option<f64> {
    Some(summary(values)?.median)
}

/// The logarithm of how many times the variant has of what the baseline has.
fn claimed(ours: &BTreeMap<u32, f64>, theirs: &BTreeMap<u32, f64>) -> Option<f64> {
    let [ours, theirs] = [ours, theirs].map(|values| median(&values.values().copied().collect::<Vec<f64>>()));
    let claimed = (theirs? / ours?).ln();
    claimed.is_finite().then_some(claimed)
}

/// Trials of one of two variants measure something else after the other variant than after their own. A variant of two mostly runs
/// after the baseline, which runs twice in each block, so that what the baseline leaves behind counts as the variant's.
fn carried_over(
    (baseline, ours): (&VariantTrials<'_>, &BTreeMap<u32, f64>),
    (variant, theirs): (&VariantTrials<'_>, &BTreeMap<u32, f64>),
    name: &MetricName,
) -> Option<String> {
    let claimed = claimed(ours, theirs)?;
    let after =
        |of: &VariantTrials<'_>| of.trials.iter().map(|trial| trial.trial.position + 1).collect::<BTreeSet<u32>>();
    let [after_ours, after_theirs] = [baseline, variant].map(after);
    let kinds = [
        (baseline, ours, &after_ours, variant, &after_theirs),
        (variant, theirs, &after_theirs, baseline, &after_ours),
    ];
    kinds.into_iter().find_map(|(of, values, after_own, other, after_other)| {
        let having = |positions: &BTreeSet<u32>| {
            let chosen = values.iter().filter(|(position, _)| positions.contains(position));
            chosen.map(|(_, value)| *value).collect::<Vec<f64>>()
        };
        let (own, foreign) = (having(after_own), having(after_other));
        if rank_sum_p(&own, &foreign)? > CHANCE {
            return None;
        }
        let change = (median(&foreign)? / median(&own)?).ln();
        let matters = change.is_finite() && change.abs() > LEAST.ln_1p() && TIMES * change.abs() > claimed.abs();
        matters.then(|| {
            format!(
                "`{name}` of `{}` is {:.2} times as much after a trial of `{}` as after one of its own: what a trial leaves behind \
                 (files, caches, data that is not written yet) changes the next. Restore the state before each trial (`prepare`, \
                 `--prepare`), or wait in it until it is quiet",
                of.name,
                change.exp(),
                other.name
            )
        })
    })
}

/// The ratio of the two is another at the end of the run than at its begin, by more than what is claimed. Where each variant
/// changes something for its own later trials, a baseline that runs twice in each block changes sooner.
fn unsteady(
    (baseline, ours): (&VariantTrials<'_>, &BTreeMap<u32, f64>),
    (variant, theirs): (&VariantTrials<'_>, &BTreeMap<u32, f64>),
    name: &MetricName,
) -> Option<String> {
    let logs = |of: &VariantTrials<'_>, values: &BTreeMap<u32, f64>| {
        let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for trial in &of.trials {
            let value = values.get(&trial.trial.position);
            value.into_iter().for_each(|value| blocks.entry(trial.trial.block).or_default().push(value.ln()));
        }
        blocks.into_iter().map(|(block, logs)| (block, logs.iter().sum::<f64>() / logs.len() as f64))
    };
    let theirs_by_block: BTreeMap<u32, f64> = logs(variant, theirs).collect();
    let ratios = logs(baseline, ours).filter_map(|(block, ours)| Some((theirs_by_block.get(&block)? - ours).exp()));
    let found = drift(&ratios.collect::<Vec<f64>>()).filter(|found| found.p <= CHANCE)?;
    let change = found.ratio.ln();
    (change.abs() > LEAST.ln_1p() && change.abs() > claimed(ours, theirs)?.abs()).then(|| {
        format!(
            "the ratio of `{}` to `{}` in `{name}` is {:.2} times as much at the end of the run as at its begin: trials may \
             change something for later ones of their own variant. Restore the state before each \
             trial (`prepare`, `--prepare`), or give each its own copy (`copy = \"trial\"`)",
            variant.name, baseline.name, found.ratio
        )
    })
}

/// What a program keeps in a directory that all trials share changes what later ones measure, and the baseline runs twice as often.
fn aged(baseline: &VariantTrials<'_>, ours: &BTreeMap<u32, f64>, name: &MetricName) -> Option<String> {
    let program = baseline.spec.subject.program()?;
    let ran_twice = baseline.trials.iter().any(|trial| trial.trial.label == Label::A2);
    let restores = program.prepare.is_some() || program.directory.is_some() && program.copy != CopyOf::None;
    if !ran_twice || restores {
        return None;
    }
    let values: Vec<f64> = ours.values().copied().collect();
    let found = drift(&values).filter(|found| found.p <= TREND && found.ratio.ln().abs() > (1.0 + AGED).ln())?;
    let (word, change) = if found.ratio > 1.0 { ("rose", found.ratio - 1.0) } else { ("fell", 1.0 - found.ratio) };
    Some(format!(
        "`{name}` of `{}` {word} by {} over the run. If trials leave something for later ones, the baseline ages twice as fast, since \
         it runs twice in each block: restore the state before each trial (`prepare`), or give each its own copy (`copy = \"trial\"`)",
        baseline.name,
        percent(change)
    ))
}
