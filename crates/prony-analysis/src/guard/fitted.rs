//! Guard of amounts over a phase that lasts a given time: a faster variant does more in it, and so has more of them.

use super::statuses;
use super::variant_trials::{VariantTrials, typical};
use prony_model::metric::{Metric, MetricName};
use prony_model::number::count;
use prony_model::spec::{BACKGROUND, PhaseSpec};

/// By how much more operations than in the other variant there may be: differences that the default margin takes for none.
const OPERATIONS: f64 = 1.03;

/// The part of the difference, in logarithms, that may come from other numbers of operations: the rest is of each operation. Fewer
/// requests that failed are an answer, unless they are about as many fewer as there were requests.
const PART: f64 = 0.25;
const PART_OF_ENDS: f64 = 0.5;

/// Why an amount is not compared, such as the bytes written, where the variants did other numbers of operations in the time.
pub(super) fn unequal(
    phases: [&PhaseSpec; 2],
    baseline: &VariantTrials<'_>,
    variant: &VariantTrials<'_>,
    name: &MetricName,
) -> Option<String> {
    let (metric, instance) = (name.key.metric, name.instance.as_deref());
    if !metric.grows_with_operations() || !phases.iter().any(|phase| phase.action_of(instance).is_bounded_by_time()) {
        return None;
    }
    let own = instance.filter(|instance| *instance == BACKGROUND).unwrap_or("");
    let of = |all, instance, metric| typical(all, (&name.phase, instance), metric);
    let attempted = |all| Some(of(all, own, Metric::Operations)? + of(all, own, Metric::Errors).unwrap_or(0.0));
    let amount = |all| of(all, instance.unwrap_or(""), metric);
    let ((ours, theirs), (x, y)) =
        (attempted(baseline).zip(attempted(variant))?, amount(baseline).zip(amount(variant))?);
    let apart = |a: f64, b: f64| if a == b { 0.0 } else { (a / b).ln() };
    let part = if statuses::is_of_ends(metric) { PART_OF_ENDS } else { PART };
    let (operations, amounts) = (apart(ours, theirs), apart(x, y));
    // More of fewer operations is more of each.
    let is_opposite = operations * amounts < 0.0;
    let (operations, amounts) = (operations.abs(), amounts.abs());
    (!is_opposite && operations > OPERATIONS.ln() && operations >= part * amounts && x.max(y) > 0.0).then(|| {
        format!(
            "`{}` lasts a given time, in which `{}` did {} but `{}` {theirs:.0}, and more operations are more of `{}`: bound it by \
             `count` or `requests`",
            name.phase,
            baseline.name,
            count(ours as u64, "operation"),
            variant.name,
            name.key
        )
    })
}
