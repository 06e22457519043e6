//! Guards of phases that work on what earlier ones have stored, of which other amounts may be there in two variants.

use super::reads::WORK;
use super::variant_trials::{Compared, InPhase, VariantTrials, same_work, typical};
use super::{amount, questions, recorded, statuses};
use prony_model::http::HttpSpec;
use prony_model::metric::{Metric, MetricName};
use prony_model::record::TrialRecord;
use prony_model::spec::{BACKGROUND, PhaseSpec};
use prony_model::units::Unit;

/// By which share amounts of records may differ that were stored or removed for a given time. The size of the store is as large as they
/// are: for it they may differ by no more than [`WORK`].
const AMOUNT: f64 = 0.10;

/// Why a metric is not compared of a phase that works on other amounts. Where the two variants were to store other amounts, times
/// are not compared either, but memory and other amounts are: their difference is what the file asks for.
pub(super) fn unequal([(phase, baseline), (_, variant)]: [InPhase<'_>; 2], name: &MetricName) -> Option<String> {
    let (metric, both) = (name.key.metric, [baseline, variant]);
    if statuses::is_of_ends(metric) {
        return None;
    }
    let is_of_speed = matches!(metric.unit(), Unit::Nanos | Unit::PerSecond);
    let counts = |earlier: &&PhaseSpec| is_of_speed || asks_for_as_much(earlier, variant);
    // Of the phase itself, its rate and its latencies say how fast it was.
    let is_of_itself = is_of_speed || metric == Metric::OperationsPerOk;
    let mut by_speed = questions::stored_by_speed(baseline.spec, phase)
        .filter(|found| found.name != phase.name || !is_of_itself)
        .filter(counts);
    let earlier = baseline.spec.phases.iter().take_while(|earlier| earlier.name != phase.name);
    let requested: Vec<&PhaseSpec> = earlier.filter(|earlier| leaves_for(earlier, phase)).collect();
    let answered = |earlier: &&PhaseSpec| {
        let theirs = questions::named(variant.spec, &earlier.name)?;
        statuses::differ([(earlier, baseline), (theirs, variant)])
    };
    by_speed
        .find_map(|earlier| other_operations(earlier, both, if metric == Metric::Disk { WORK } else { AMOUNT }))
        .or_else(|| {
            let mut planned = requested.iter().copied().filter(counts);
            planned.find_map(|earlier| other_requests(earlier, both))
        })
        .or_else(|| requested.iter().find_map(answered).map(|why| format!("{why}: other amounts may be stored")))
}

/// Whether the variant is to do as many operations in this phase of the baseline.
fn asks_for_as_much(earlier: &PhaseSpec, variant: &VariantTrials<'_>) -> bool {
    let amounts =
        |phase: &PhaseSpec| (phase.action.ops().map(|ops| ops.amount), phase.action.http().map(|http| http.amount));
    questions::named(variant.spec, &earlier.name).is_none_or(|theirs| amounts(earlier) == amounts(theirs))
}

/// Whether the requests of an earlier phase leave something for this one: what the server stores, or the values that it uses.
fn leaves_for(earlier: &PhaseSpec, phase: &PhaseSpec) -> bool {
    let saves = |http: &HttpSpec| http.kinds.iter().any(|kind| !kind.save.is_empty());
    let uses_saved = phase.action.http().is_some_and(HttpSpec::uses_saved);
    earlier.action.http().is_some_and(|http| http.may_write() || uses_saved && saves(http))
}

/// As many operations as fitted into a given time, or into that of the phase beside them.
fn other_operations(earlier: &PhaseSpec, both: Compared<'_>, most: f64) -> Option<String> {
    ["", BACKGROUND].into_iter().find_map(|instance| {
        let done = |of| typical(of, (&earlier.name, instance), Metric::Operations);
        let [baseline, variant] = both;
        let (ours, theirs) = done(baseline).zip(done(variant))?;
        ((ours - theirs).abs() > most * ours.max(theirs)).then(|| {
            let subject = earlier.subject_of(Some(instance));
            format!(
                "{subject} did as many operations as fitted, {ours:.0} in `{baseline}` but {theirs:.0} in `{variant}`: other amounts \
                 are stored"
            )
        })
    })
}

/// Not as many requests succeeded in a block, or not as many were repeated, which the server may have stored before.
fn other_requests(earlier: &PhaseSpec, both @ [baseline, variant]: Compared<'_>) -> Option<String> {
    if earlier.action.http().is_some_and(HttpSpec::warms_up) {
        let text = "how much the warm-up of `{}` stored is not known: warm up in a phase with `requests`";
        return Some(text.replace("{}", &earlier.name));
    }
    if earlier.action.is_bounded_by_time() {
        // As many as fitted: `other_operations`.
        return None;
    }
    let done = |trial: &TrialRecord| {
        let found = recorded(trial, &earlier.name)?;
        Some((amount(found, Metric::Operations)?, amount(found, Metric::Retries).unwrap_or(0.0)))
    };
    let mut pairs = same_work(both).into_iter();
    let (ours, theirs) = pairs.find_map(|(ours, theirs)| done(ours).zip(done(theirs)).filter(|(a, b)| a != b))?;
    let (what, ours, theirs) =
        if ours.0 == theirs.0 { ("were repeated", ours.1, theirs.1) } else { ("succeeded", ours.0, theirs.0) };
    Some(format!(
        "{ours} requests of `{}` {what} in `{baseline}`, but {theirs} in `{variant}`: other amounts may be stored",
        earlier.name
    ))
}
