//! Guards of comparisons that depend on the order of trials: what one leaves behind changes what a later one measures.

use std::collections::{BTreeMap, BTreeSet};

use prony_model::metric::MetricName;
use prony_model::number;
use prony_model::program::CopyOf;
use prony_model::record::TrialRecord;
use prony_model::trial::Label;
use prony_stats::rank_sum::MANY;
use prony_stats::{Drift, drift, rank_sum_p, summary};

use super::percent;
use super::variant_trials::{Compared, VariantTrials};

/// By how much more or less the baseline may have measured at the end of a run than at its begin, if its trials share a directory.
const AGED: f64 = 0.5;

/// A trend of the baseline counts if its p-value is below this.
const TREND: f64 = 0.01;

/// What changes by more than this share of the baseline's change, as logarithms, changes as it does.
const ALIKE: f64 = 0.75;

/// Of two equal programs the one that ran twice as often differs from the other by about a quarter of its own change, as logarithms. What
/// differs by less than this share of it, though both changed alike, met a machine that changed.
const LITTLE: f64 = 0.125;

/// Of two equal programs that change with each run of their own, the ratio changes by half of the baseline's change, as logarithms, and
/// against it; where the machine changed, not at all. The middle of the two tells them apart.
const OWN_RUNS: f64 = 0.25;

/// And they differ by a quarter of it; noise halves that or doubles it.
const OF_OWN_RUNS: std::ops::RangeInclusive<f64> = LITTLE..=0.5;

/// The order counts if its p-value is below this. Each verdict asks twice, and once more for each analysis before the last.
const CHANCE: f64 = 0.003;

/// The same with few trials, which reach no smaller value, however far apart they are.
const CHANCE_OF_FEW: f64 = 0.02;

/// And if it changes values by more than this.
const LEAST: f64 = 0.02;

/// What is left of a difference must be so many times as large as what the order may have done.
const TIMES: f64 = 4.0;

/// Both labels of a baseline.
const EACH: [Label; 2] = [Label::A, Label::A2];

/// When a trial ran: the session of its run, and its place there.
type Place = (u32, u32);

/// Values of a metric by when their trials ran.
type Values = BTreeMap<Place, f64>;

/// A variant and its values.
type Measured<'a> = (&'a VariantTrials<'a>, Values);

/// Why the order of trials may have made the difference of two variants in a metric.
pub(crate) fn matters(both: Compared<'_>, name: &MetricName) -> Option<String> {
    let [ours, theirs] = both.map(|of| {
        let measured = |trial: &&TrialRecord| Some((place(trial), trial.figure(name).measured().copied()?));
        (of, of.trials.iter().filter_map(measured).collect::<Values>())
    });
    let both = [&ours, &theirs];
    carried_over(both, name)
        .or_else(|| unsteady(both, name))
        .or_else(|| with_own_runs(both, name))
        .or_else(|| aged(both, name))
}

fn place(trial: &TrialRecord) -> Place {
    (trial.conditions.session, trial.trial.position)
}

/// The typical of some values.
fn median<'v>(values: impl IntoIterator<Item = &'v f64>) -> Option<f64> {
    Some(summary(&values.into_iter().copied().collect::<Vec<f64>>())?.median)
}

/// The logarithm of how many times the first is of the second, infinite where one of them is zero; `None` where both are.
fn times(first: f64, second: f64) -> Option<f64> {
    let log = (first / second).ln();
    (!log.is_nan()).then_some(log)
}

/// The logarithm of how many times the variant has of what the baseline has.
fn claimed(ours: &Values, theirs: &Values) -> Option<f64> {
    times(median(theirs.values())?, median(ours.values())?)
}

/// What can be done where trials change what later ones measure.
fn remedy(of: &VariantTrials<'_>) -> &'static str {
    match of.spec.subject.program() {
        Some(_) => {
            "restore the state before each trial (`prepare`, `--prepare`), or wait in it until the machine is quiet"
        }
        None => {
            "each trial has a store and servers of its own, but not the page cache, what is not written yet, and servers that ran \
             before: end the trial with a `settle` phase, begin it with `evict`, or empty such servers in `prepare`"
        }
    }
}

/// Trials of one of two variants measure something else after the other variant than after their own. A variant of two mostly runs
/// after the baseline, which runs twice in each block, so that what the baseline leaves behind counts as the variant's.
fn carried_over([ours, theirs]: [&Measured<'_>; 2], name: &MetricName) -> Option<String> {
    let claimed = claimed(&ours.1, &theirs.1)?;
    [(ours, theirs), (theirs, ours)].into_iter().find_map(|((of, values), (other, _))| {
        let places = |of: &VariantTrials<'_>| of.trials.iter().copied().map(place).collect::<BTreeSet<Place>>();
        let after = |before: &BTreeSet<Place>| {
            let follows = |(session, position): &Place| {
                position.checked_sub(1).is_some_and(|earlier| before.contains(&(*session, earlier)))
            };
            values.iter().filter(|(place, _)| follows(place)).map(|(_, value)| *value).collect::<Vec<f64>>()
        };
        let (own, foreign) = (after(&places(of)), after(&places(other)));
        let chance = if own.len().min(foreign.len()) < MANY { CHANCE_OF_FEW } else { CHANCE };
        let p = rank_sum_p(&own, &foreign).filter(|p| *p <= chance)?;
        let (typical, after_other) = (median(&own)?, median(&foreign)?);
        let change = times(after_other, typical)?.abs();
        let matters = change > LEAST.ln_1p() && (change.is_infinite() || TIMES * change > claimed.abs());
        matters.then(|| {
            let [typical, after_other] = [typical, after_other].map(|of| number::quantity(of, name.key.metric.unit()));
            let (trials, own) = (number::count(foreign.len() as f64, "trial"), own.len());
            format!(
                "`{name}` of `{of}` is {after_other} in {trials} after one of `{other}`, and {typical} in {own} after one of its own \
                 (p = {}): what a trial leaves behind changes the next; {}",
                number::short(p),
                remedy(of)
            )
        })
    })
}

/// The ratios of a variant to these labels of its baseline, in the order of the run, paired as verdicts pair trials: of one sub-block and
/// one session; where the plan ran the two apart, of one block. `None` where there is none.
fn ratios([(baseline, ours), (variant, theirs)]: [&Measured<'_>; 2], labels: &[Label]) -> Option<Vec<f64>> {
    let paired = |with_part: bool| {
        let logs = |of: &VariantTrials<'_>, values: &Values, labels: &[Label]| {
            let mut blocks: BTreeMap<(u32, u32, u32), Vec<f64>> = BTreeMap::new();
            for trial in of.trials.iter().filter(|trial| labels.contains(&trial.trial.label)) {
                let Some(value) = values.get(&place(trial)).filter(|value| **value > 0.0) else { continue };
                let part = if with_part { trial.trial.sub_block } else { 0 };
                blocks.entry((trial.trial.block, trial.conditions.session, part)).or_default().push(value.ln());
            }
            blocks.into_iter().map(|(block, logs)| (block, logs.iter().sum::<f64>() / logs.len() as f64))
        };
        let of_variant: BTreeMap<_, f64> = logs(variant, theirs, &EACH).collect();
        let ratios =
            logs(baseline, ours, labels).filter_map(|(block, ours)| Some((of_variant.get(&block)? - ours).exp()));
        Some(ratios.collect::<Vec<f64>>()).filter(|ratios| !ratios.is_empty())
    };
    paired(true).or_else(|| paired(false))
}

/// The trend of all values.
fn over_the_run(values: &Values) -> Option<Drift> {
    drift(&values.values().copied().collect::<Vec<f64>>())
}

/// The ratio of the two is another at the end of the run than at its begin, by more than what is claimed. Where each variant
/// changes something for its own later trials, a baseline that runs twice in each block changes sooner.
fn unsteady(both: [&Measured<'_>; 2], name: &MetricName) -> Option<String> {
    let [(baseline, ours), (variant, theirs)] = both;
    let found = drift(&ratios(both, &EACH)?).filter(|found| found.p <= CHANCE)?;
    // Where most noise is upwards, the mean of two trials lies above one, and by less when the machine becomes quiet: of equal programs that
    // ratio rises. Each label alone has the variant's noise. A label that did not run shows nothing.
    let shown_by = |label: Label| {
        let ratios = ratios(both, &[label])?;
        Some(drift(&ratios).is_some_and(|one| one.p <= CHANCE && one.tau * found.tau > 0.0))
    };
    if EACH.into_iter().filter_map(shown_by).any(|changes| !changes) {
        return None;
    }
    let change = found.ratio.ln();
    (change.abs() > LEAST.ln_1p() && change.abs() > claimed(ours, theirs)?.abs()).then(|| {
        format!(
            "the ratio of `{variant}` to `{baseline}` in `{name}` is {:.2} times as much at the end of the run as at its begin: trials \
             may change something for later ones of their own variant; {}",
            found.ratio,
            remedy(variant)
        )
    })
}

/// The two differ, and drift apart, as equal programs do that change with each run of their own, of which a baseline that runs twice in
/// each block has twice as many. A ratio is seldom exact enough to show its own trend, but that of the baseline, which shows sooner, says
/// how large it would be. With each label by itself: the mean of two trials is not distributed as one trial.
fn with_own_runs(both: [&Measured<'_>; 2], name: &MetricName) -> Option<String> {
    let [(baseline, ours), (variant, _)] = both;
    let found = over_the_run(ours).filter(|found| found.p <= TREND && found.ratio.ln().abs() > LEAST.ln_1p())?;
    let of_label = |label: Label| {
        let ratios = ratios(both, &[label])?;
        Some([drift(&ratios)?.ratio, median(&ratios)?].map(|ratio| -ratio.ln() / found.ratio.ln()))
    };
    let ([change, differ], [again_change, again_differ]) = (of_label(Label::A)?, of_label(Label::A2)?);
    let is_explained =
        (change + again_change) / 2.0 > OWN_RUNS && OF_OWN_RUNS.contains(&((differ + again_differ) / 2.0));
    is_explained.then(|| {
        format!(
            "`{name}` of `{baseline}` {} over the run, that of `{variant}` changed less, and the two differ as equal programs would that \
             change with each run of their own, since the baseline runs twice in each block: this cannot be told from a difference; {}",
            changed(found.ratio),
            remedy(variant)
        )
    })
}

/// What a program keeps in a directory that all trials share changes what later ones measure, and the baseline runs twice as often. That
/// makes no difference that is larger than the whole change.
fn aged([(baseline, ours), (_, theirs)]: [&Measured<'_>; 2], name: &MetricName) -> Option<String> {
    let program = baseline.spec.subject.program()?;
    let ran_twice = baseline.trials.iter().any(|trial| trial.trial.label == Label::A2);
    let restores = program.prepare.is_some() || program.directory.is_some() && program.copy != CopyOf::None;
    if !ran_twice || restores {
        return None;
    }
    let found = over_the_run(ours).filter(|found| found.p <= TREND && found.ratio.ln().abs() > (1.0 + AGED).ln())?;
    let claimed = claimed(ours, theirs)?.abs() / found.ratio.ln().abs();
    let alike = over_the_run(theirs).is_some_and(|other| other.ratio.ln() / found.ratio.ln() > ALIKE);
    if claimed > 1.0 || (alike && claimed < LITTLE) {
        return None;
    }
    Some(format!(
        "`{name}` of `{baseline}` {} over the run. If trials leave something for later ones, the baseline ages twice as fast, \
         since it runs twice in each block: restore the state before each trial (`prepare`), or give each its own copy \
         (`copy = \"trial\"`)",
        changed(found.ratio)
    ))
}

/// That something rose or fell to so many times of what it was.
fn changed(ratio: f64) -> String {
    if ratio > 1.0 { format!("rose by {}", percent(ratio - 1.0)) } else { format!("fell by {}", percent(1.0 - ratio)) }
}
