//! Whether operations found as much in two variants.

use super::variant_trials::{InPhase, VariantTrials};
use super::{percent, questions};
use prony_model::http::{HttpSpec, kind_of};
use prony_model::metric::{Metric, MetricName};
use prony_model::number;
use prony_model::record::PhaseRecord;
use prony_model::spec::Action;
use prony_model::units::{Nanos, Unit};

/// Work per operation may differ by this share before it is reported.
pub(super) const WORK: f64 = 0.01;

/// More than this share is no chance, however few operations there are.
const LARGEST_NOISE: f64 = 0.5;

/// By how much the shares of reads that found no record may differ.
const MISSES: f64 = 0.01;

/// By how much the shares of puts may differ that replaced a record of the same phase; how many did is estimated where they are drawn.
const REPLACED: f64 = 0.05;

/// By which share the rows of a scan or a query may differ, as lengths of scans are drawn at random; those of answers to requests,
/// where other requests were sent, by as much more than [`WORK`] at most.
const ROWS: f64 = 0.10;

/// By how many bytes answers may differ in the mean, whatever share of them that is: an identifier has other digits. Those to requests
/// with bodies, whose lengths are counted together, may say more of the same.
const FEW_BYTES: [f64; 2] = [16.0, 64.0];

/// From so many bytes on an answer of less than half of them is no other way to say the same.
const SOME_BYTES: f64 = 8.0;

/// Why times of operations are not compared that did other work.
pub(super) fn unequal(both: [InPhase<'_>; 2], name: &MetricName) -> Option<String> {
    unequal_rows(both, name).or_else(|| unequal_replacements(both, name)).or_else(|| unequal_lengths(both, name))
}

/// Of puts that last a given time, those of a faster engine come to the end of the records, and from there on replace what they have
/// stored themselves.
fn unequal_replacements([(a, baseline), (b, variant)]: [InPhase<'_>; 2], name: &MetricName) -> Option<String> {
    let instance = name.instance.as_deref();
    let Action::Put(puts) = a.action_of(instance) else { return None };
    let all_replace = |all: &VariantTrials<'_>| questions::has_all(all.spec, &name.phase, &puts.collection);
    let by_time = [a, b].iter().any(|phase| phase.action_of(instance).is_bounded_by_time());
    if !by_time || !is_timed(name) || all_replace(baseline) && all_replace(variant) {
        return None;
    }
    let replaced = |all| {
        let (distinct, _) = per_operation(all, (&name.phase, instance), Metric::Distinct)?;
        Some((1.0 - distinct).max(0.0))
    };
    let (ours, theirs) = (replaced(baseline)?, replaced(variant)?);
    ((ours - theirs).abs() > REPLACED).then(|| {
        let [subject, ours, theirs] = [a.subject_of(instance), percent(ours), percent(theirs)];
        format!(
            "{subject}: {ours} of the operations of `{baseline}` replaced a record that the phase had stored before, but {theirs} of \
             those of `{variant}`: bound them by `count`"
        )
    })
}

/// The answers to the same requests had other lengths, and the file does not say what a right answer is: one of the servers may answer
/// with a part, with nothing or with an error's text.
fn unequal_lengths([(a, baseline), (b, variant)]: [InPhase<'_>; 2], name: &MetricName) -> Option<String> {
    let (asked, other) = (a.action.http()?, b.action.http()?);
    let unchecked = |http: &HttpSpec| {
        http.kinds.iter().any(|kind| kind.answer.is_none() && !kind.method.eq_ignore_ascii_case("HEAD"))
    };
    let same = questions::same_mix(a, b)
        && baseline.spec.data == variant.spec.data
        && asked.kinds.iter().zip(&other.kinds).all(|(x, y)| x.sends_as(y));
    if !same || !is_timed(name) || !(unchecked(asked) || unchecked(other)) {
        return None;
    }
    let of = |all, metric| per_operation(all, (&name.phase, None), metric);
    let ((ours, x), (theirs, y)) = (of(baseline, Metric::UserBytes)?, of(variant, Metric::UserBytes)?);
    let (difference, longer, by_chance) = ((ours - theirs).abs(), ours.max(theirs), noise(x, y));
    let sends = asked.kinds.iter().any(|kind| kind.body.is_some());
    // Both sent the same bodies, so that what differs is what they received.
    let least = if sends { 0.0 } else { ROWS };
    let is_part = !sends && longer >= SOME_BYTES && difference > (0.5 + by_chance) * longer;
    (is_part || difference > FEW_BYTES[usize::from(sends)].max((least + by_chance) * longer)).then(|| {
        let [ours, theirs] = [ours, theirs].map(|bytes| number::quantity(bytes, Unit::Bytes));
        let what = if sends { "the bodies of a request and its answer have" } else { "the body of an answer has" };
        format!(
            "{what} {ours} in `{baseline}`, but {theirs} in `{variant}`, and the file does not say what a right answer is: check it \
             with `answer = {{ match = \"...\" }}`, or say that any is with `answer = {{ any = true }}`, and they are compared"
        )
    })
}

/// Whether a metric depends on how long operations take.
fn is_timed(name: &MetricName) -> bool {
    matches!(name.key.metric.unit(), Unit::Nanos | Unit::PerSecond) || name.key.metric == Metric::Operations
}

/// Why times of operations are not compared, where not the same share of them found a record, or scans, queries and requests did not find
/// as many: they do other work. Answers that can be compared one by one are compared in that way, queries that differ are warned of.
fn unequal_rows(both @ [(a, baseline), (_, variant)]: [InPhase<'_>; 2], name: &MetricName) -> Option<String> {
    let instance = name.instance.as_deref();
    let timed = is_timed(name);
    let by_time = both.into_iter().any(|(phase, all)| {
        phase.action_of(instance).is_bounded_by_time() || questions::stored_by_speed(all.spec, phase).next().is_some()
    });
    if let Action::Http(_) | Action::Scan(_) | Action::Find(_) = a.action_of(instance) {
        let most = most_rows(both, by_time, name).filter(|_| timed)?;
        // Rows of requests are counted for all of them and for each kind.
        let of_requests = a.action_of(instance).http().is_some();
        let own = instance.filter(|instance| !of_requests || kind_of(instance).is_some());
        let of = |all, instance| per_operation(all, (&name.phase, instance), Metric::Rows).map(|(rows, _)| rows);
        let of_all = |all| if of_requests { of(all, None) } else { None };
        let [ours, theirs] = [baseline, variant].map(|all| of(all, own).or_else(|| of_all(all)));
        let (ours, theirs) = (ours?, theirs?);
        let subject = a.subject_of(instance);
        return ((ours - theirs).abs() > most * ours.max(theirs)).then(|| {
            format!("{subject}: an operation of `{baseline}` found {ours:.1} rows, but one of `{variant}` {theirs:.1}")
        });
    }
    if !timed {
        return None;
    }
    let removes = matches!(a.action_of(instance), Action::Delete(_));
    let misses = |all| per_operation(all, (&name.phase, instance), Metric::Misses).map(|(misses, _)| misses);
    let of_each = [(baseline, misses(baseline)), (variant, misses(variant))];
    if by_time
        && removes
        && let Some((unknown, _)) = of_each.iter().find(|(_, misses)| misses.is_none())
    {
        // One removal that finds nothing may cost a tenth of one that does, and a faster engine has more of them.
        return Some(format!(
            "{}: how many removals of `{unknown}` found a record is not known, and they lasted a given time: bound them by `count`",
            a.subject_of(instance)
        ));
    }
    let [ours, theirs] = of_each.map(|(_, misses)| misses);
    let (ours, theirs) = (ours?, theirs?);
    ((ours - theirs).abs() > MISSES).then(|| {
        let [subject, ours, theirs] = [a.subject_of(instance), percent(ours), percent(theirs)];
        format!(
            "{subject}: {ours} of the operations of `{baseline}` found no record, but {theirs} of those of `{variant}`"
        )
    })
}

/// By which share rows of an operation may differ; `None` where they are compared in no such way: all operations did the same, or their
/// answers are compared one by one.
fn most_rows([(a, baseline), (b, variant)]: [InPhase<'_>; 2], by_time: bool, name: &MetricName) -> Option<f64> {
    let Some((one, other)) = a.action.http().zip(b.action.http()) else {
        // Other queries may find other rows.
        let asked_alike = !questions::ask_other(&a.action, &b.action);
        return (by_time || asked_alike).then_some(ROWS);
    };
    let is_compared = |phase: &PhaseRecord| phase.answer.as_ref().is_none_or(|answer| answer.comparable);
    let one_by_one = || {
        questions::same(baseline.spec, variant.spec, &name.phase)
            && [baseline, variant].iter().all(|all| all.complete(&name.phase).all(is_compared))
    };
    if !by_time && one_by_one() {
        return None;
    }
    if !by_time && [one, other].iter().all(|http| http.warm_up == Nanos::ZERO) {
        return Some(WORK);
    }
    let answers = |all| per_operation(all, (&name.phase, None), Metric::Rows).map(|(_, answers)| answers);
    Some(WORK + noise(answers(baseline)?, answers(variant)?).min(ROWS))
}

/// A count for each operation of a phase, or of an instance in it, over all trials, and the operations.
fn per_operation(
    all: &VariantTrials<'_>,
    (phase, instance): (&str, Option<&str>),
    metric: Metric,
) -> Option<(f64, f64)> {
    let counts = all.complete(phase).filter_map(|phase| {
        let of = |metric| phase.amount_of(instance.unwrap_or(""), metric);
        Some((of(metric)?, of(Metric::Operations)?))
    });
    let (sum, operations) = counts.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (operations > 0.0).then(|| (sum / operations, operations))
}

/// Each of two variants draws as many records as it has time for, and the means over so many operations differ by chance: by a smaller
/// share than this in 95 of 100 cases, where the work of an operation spreads no further than by its mean.
pub(super) fn noise(x: f64, y: f64) -> f64 {
    (2.0 * (1.0 / x + 1.0 / y).sqrt()).min(LARGEST_NOISE)
}
