//! Guards of operations that were refused because of references between documents. They cost less than those that are done, and
//! what later phases find depends on them. What was refused is read from the records: a specification that checks references
//! may refuse nothing.

use super::variant_trials::{Compared, InPhase, VariantTrials, same_work};
use super::{Finding, Severity, percent, questions, recorded, whose};
use prony_model::metric::{Metric, MetricName};
use prony_model::record::{PhaseRecord, TrialRecord};
use prony_model::spec::{Action, BACKGROUND, PhaseSpec, TrialSpec};

/// By how much the shares of refused operations may differ.
const REFUSED: f64 = 0.01;

/// From this share of refused operations on, the phase measured what refusals cost as well.
const MANY: f64 = 0.1;

/// Why nothing of a phase is compared, where not the same share of its operations was refused; or where an earlier phase that has
/// changed what this one finds refused other operations, or it is not known which, and no `verify` found the same stored.
pub(super) fn unequal([(a, baseline), (b, variant)]: [InPhase<'_>; 2], name: &MetricName) -> Option<String> {
    let mut earlier = before(baseline.spec, a).chain(before(variant.spec, b));
    if let Some(left) = earlier.find(|earlier| left_other([baseline, variant], &earlier.name, &a.name)) {
        return Some(format!(
            "`{}` finds what `{}` has left, where references refused different operations, or it is not known which, and no \
             `verify` phase shows that the same is stored",
            a.name, left.name
        ));
    }
    if matches!(name.key.metric, Metric::Refused | Metric::Errors | Metric::Conflicts) {
        return None;
    }
    ["", BACKGROUND].into_iter().find_map(|instance| {
        let [ours, theirs] = [baseline, variant].map(|of| share(of, &a.name, instance));
        if (ours - theirs).abs() <= REFUSED {
            return None;
        }
        let of_background = if instance.is_empty() { "" } else { "the background of " };
        let (phase, ours, theirs) = (&a.name, part(ours), part(theirs));
        Some(format!(
            "{of_background}`{phase}`: {ours} of the operations of `{baseline}` were refused because of references, but {theirs} of \
             those of `{variant}`"
        ))
    })
}

/// Whether some trials of one block refused different operations in an earlier phase, or it is not known which, unless the same
/// is stored in spite of it and a phase that answers gives the same answer.
fn left_other([baseline, variant]: Compared<'_>, earlier: &str, phase: &str) -> bool {
    same_work([baseline, variant]).into_iter().any(|(ours, theirs)| {
        let stored = || stored_alike((baseline.spec, ours), (variant.spec, theirs), phase);
        let refused_the_same = same(recorded(ours, earlier), recorded(theirs, earlier));
        !(refused_the_same || stored() && answered_alike(ours, theirs, phase))
    })
}

/// Whether two trials gave the same answer in a phase, or it gives none.
fn answered_alike(ours: &TrialRecord, theirs: &TrialRecord, phase: &str) -> bool {
    let answer = |trial| recorded(trial, phase).and_then(|phase| phase.answer.as_ref());
    answer(ours) == answer(theirs) && answer(ours).is_none_or(|answer| answer.comparable)
}

/// Whether a `verify` phase found the same bytes in two trials, and nothing that a phase uses is written between the two phases.
fn stored_alike((a, ours): (&TrialSpec, &TrialRecord), (b, theirs): (&TrialSpec, &TrialRecord), phase: &str) -> bool {
    let found = |trial, verify: &str| recorded(trial, verify)?.answer.as_ref();
    let same = |verify: &&PhaseSpec| {
        let answers = found(ours, &verify.name).zip(found(theirs, &verify.name));
        answers.is_some_and(|(x, y)| x.comparable && x == y)
    };
    let mut verified = a.phases.iter().filter(|phase| matches!(phase.action, Action::Verify)).filter(same);
    verified.any(|verify| [a, b].into_iter().all(|spec| stays_as_verified(spec, &verify.name, phase)))
}

/// Whether a phase finds what a `verify` phase finds: nothing is written between them, nor by the phase itself before the `verify`.
fn stays_as_verified(spec: &TrialSpec, verify: &str, phase: &str) -> bool {
    let place = |name: &str| spec.phases.iter().position(|phase| phase.name == name);
    let Some((verify, at)) = place(verify).zip(place(phase)) else { return false };
    let used = questions::used(spec, &spec.phases[at]);
    let between = if verify < at { verify..at } else { at..verify };
    !spec.phases[between].iter().any(|phase| questions::writes(phase, &used))
}

fn part(share: f64) -> String {
    if share == 0.0 { "none".to_owned() } else { percent(share) }
}

/// The phases before this one that have changed collections which it uses.
fn before<'s>(spec: &'s TrialSpec, phase: &PhaseSpec) -> impl Iterator<Item = &'s PhaseSpec> {
    let used = questions::used(spec, phase);
    let name = phase.name.clone();
    let earlier = spec.phases.iter().take_while(move |earlier| earlier.name != name);
    earlier.filter(move |earlier| questions::writes(earlier, &used))
}

/// The share of the operations of a phase that was refused, of all trials that completed it.
fn share(of: &VariantTrials<'_>, phase: &str, instance: &str) -> f64 {
    let counted = |each: &PhaseRecord| Some((refused(each, instance), each.amount_of(instance, Metric::Operations)?));
    let counts = of.complete(phase).filter_map(counted);
    let (refused, operations) = counts.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if operations > 0.0 { refused / operations } else { 0.0 }
}

fn refused(phase: &PhaseRecord, instance: &str) -> f64 {
    phase.amount_of(instance, Metric::Refused).unwrap_or(0.0)
}

/// Whether the same operations were refused in two trials before a phase, of those that have changed what it finds.
pub(super) fn same_before(
    (a, ours): (&TrialSpec, &TrialRecord),
    (b, theirs): (&TrialSpec, &TrialRecord),
    phase: &str,
) -> bool {
    let planned = [a, b].into_iter().filter_map(|spec| Some(before(spec, questions::named(spec, phase)?)));
    planned.flatten().all(|earlier| same(recorded(ours, &earlier.name), recorded(theirs, &earlier.name)))
}

/// Whether the same operations were refused in a phase of two trials; those of a background depend on speed.
fn same(ours: Option<&PhaseRecord>, theirs: Option<&PhaseRecord>) -> bool {
    let none = |instance| [ours, theirs].into_iter().flatten().all(|phase| refused(phase, instance) == 0.0);
    let (x, y) = (ours.and_then(which), theirs.and_then(which));
    none(BACKGROUND) && (none("") || x.is_some() && x == y)
}

/// A digest of which operations of a phase were refused, where that can be compared.
fn which(phase: &PhaseRecord) -> Option<&str> {
    let answer = phase.answer.as_ref().filter(|answer| answer.comparable)?;
    Some(answer.digest.as_str()).filter(|digest| digest.starts_with(WHICH))
}

/// The begin of a digest of refused operations.
const WHICH: &str = "refused:";

/// Many operations were refused: times and rates are largely those of checks alone.
pub(crate) fn many_refused(phase: &PhaseRecord, instance: &str) -> Option<Finding> {
    let done = phase.amount_of(instance, Metric::Operations)?;
    let refused = refused(phase, instance);
    if done == 0.0 || refused < MANY * done {
        return None;
    }
    let (of, share) = (whose(instance), percent(refused / done));
    let message = format!(
        "{refused:.0} of {done:.0} operations{of} ({share}) were refused because of references: times, rates and latencies \
         include them, and they cost less than those that are done"
    );
    let hint =
        "check whether an earlier phase stores the documents to which these refer, or removes those that refer to them";
    Some(Finding::of("many_refused", Severity::Warning, message, hint).in_phase(&phase.name))
}
