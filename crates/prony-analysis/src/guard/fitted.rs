//! Guard of amounts over a phase that lasts a given time: a faster variant does more in it, and so has more of them. In an open loop
//! of requests one that is asked for more does, or one whose requests are answered.

use super::statuses;
use super::variant_trials::{InPhase, typical};
use prony_model::metric::{Metric, MetricName};
use prony_model::number::count;
use prony_model::spec::{Action, BACKGROUND};

/// By how much more operations than in the other variant there may be: differences that the default margin takes for none.
const OPERATIONS: f64 = 1.03;

/// The part of the difference, in logarithms, that may come from other numbers of operations: the rest is of each operation. Fewer
/// requests that failed are an answer, unless they are about as many fewer as there were requests.
const PART: f64 = 0.25;
const PART_OF_ENDS: f64 = 0.5;

/// Why an amount is not compared, such as the bytes written, where the variants did other numbers of operations in the time.
pub(super) fn unequal([(a, baseline), (b, variant)]: [InPhase<'_>; 2], name: &MetricName) -> Option<String> {
    let (metric, instance) = (name.key.metric, name.instance.as_deref());
    let is_cpu = metric.is_cpu_time();
    let grows = |action: &Action| {
        let is_open = action.http().is_some() && action.is_open();
        action.is_bounded_by_time() && (metric.grows_with_operations() || is_cpu && is_open)
    };
    if ![a, b].iter().any(|phase| grows(phase.action_of(instance))) {
        return None;
    }
    let own = instance.filter(|instance| *instance == BACKGROUND).unwrap_or("");
    let of = |all, instance, metric| typical(all, (&name.phase, instance), metric);
    // A request that was refused, or never started, costs a service little.
    let failed = |all| of(all, own, Metric::Errors).filter(|_| !is_cpu).unwrap_or(0.0);
    let attempted = |all| Some(of(all, own, Metric::Operations)? + failed(all));
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
        let (phase, key, done) = (&name.phase, name.key, count(ours as u64, "operation"));
        format!(
            "`{phase}` lasts a given time, in which `{baseline}` did {done} but `{variant}` {theirs:.0}, and more operations are more \
             of `{key}`: bound it by `count` or `requests`"
        )
    })
}
