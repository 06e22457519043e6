//! Metrics in `[compare]` of which trials cannot have a value, as the file shows: a whole run would end without a verdict.

use super::compare::named_metrics;
use crate::design::Variant;
use crate::node::Node;
use crate::problem::Problems;
use prony_model::http::{HttpAmount, HttpSpec, RequestRate};
use prony_model::latency::{highest, samples_needed};
use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::program::{ObserveSpec, ROLES};
use prony_model::spec::{Action, Amount, Ops, PhaseSpec, Sampling, TrialSpec};

/// Why trials of a variant have no value, and what to compare instead.
struct Lack {
    message: String,
    hint: String,
    /// Whether no trial can have one; otherwise most have none.
    is_certain: bool,
}

/// Refuses metrics of which no variant can have a value.
pub(crate) fn faults(compare: Option<&Node>, variants: &[Variant], problems: &mut Problems<'_>) {
    for (node, name) in named_metrics(compare) {
        let found = lacks(variants, &name);
        if found.iter().all(|lack| lack.as_ref().is_some_and(|lack| lack.is_certain))
            && let Some(Some(lack)) = found.into_iter().next()
        {
            problems.fault(&node.span, lack.message, lack.hint);
        }
    }
}

/// Warns of metrics of which some variants can have no value, or probably have none.
pub(crate) fn warnings(compare: Option<&Node>, variants: &[Variant], problems: &mut Problems<'_>) {
    for (node, name) in named_metrics(compare) {
        let found = lacks(variants, &name);
        let (of, all) = (found.iter().flatten().count(), found.len());
        if let Some(lack) = found.into_iter().flatten().next() {
            let some = if of < all { format!(" in {of} of {all} variants") } else { String::new() };
            problems.fault(&node.span, format!("{}{some}", lack.message), lack.hint);
        }
    }
}

/// What each variant that has the phase of a metric lacks.
fn lacks(variants: &[Variant], name: &MetricName) -> Vec<Option<Lack>> {
    let phase = |variant: &Variant| variant.spec.phases.iter().position(|phase| phase.name == name.phase);
    let with_phase = variants.iter().filter_map(|variant| Some((&variant.spec, &variant.spec.phases[phase(variant)?])));
    with_phase.map(|(spec, phase)| of_program(spec, phase, name).or_else(|| too_few(spec, phase, name))).collect()
}

/// What a program lacks at its own end, and what nothing counts in it.
fn of_program(spec: &TrialSpec, phase: &PhaseSpec, name: &MetricName) -> Option<Lack> {
    let (Action::Observe(observe), program) = (&phase.action, spec.subject.program()?) else { return None };
    let is_own = name.instance.as_deref().is_none_or(|instance| ROLES.contains(&instance));
    if !is_own || program.replicas.is_some() {
        return None;
    }
    let key = name.key;
    let instead = |metric, stat| MetricName { key: MetricKey::gauge(metric, stat), ..name.clone() };
    // The heap of a runtime is what the runtime itself reported last.
    let is_of_processes = {
        use Metric::{Anon, File, Processes, Pss, Rss, Shared, Swap, Threads, Vsz};
        matches!(key.metric, Rss | Anon | File | Shared | Pss | Vsz | Swap | Threads | Processes)
    };
    if observe.end.is_none() && !observe.stop && is_of_processes && matches!(key.stat, Some(Stat::End | Stat::Before)) {
        let hint = match key.metric {
            Metric::Rss | Metric::Pss => {
                let (anon, peak) = (instead(Metric::Anon, Stat::Max), instead(Metric::Rss, Stat::Peak));
                format!("compare `{anon}`, or `{peak}` of a single process")
            }
            metric => format!("compare `{}`", instead(metric, Stat::Max)),
        };
        let message = format!("`{name}` is measured only where a process is left when the program has ended");
        return Some(Lack { message, hint, is_certain: false });
    }
    let counts = matches!(key.metric, Metric::Rate | Metric::Operations) || key.metric.is_of_one_operation();
    if !counts || *observe != ObserveSpec::WHOLE {
        return None;
    }
    let time = MetricName { key: MetricKey::amount(Metric::Time), ..name.clone() };
    Some(Lack {
        message: format!("`{name}` is never measured: nothing says what the program's operations are"),
        hint: format!("compare `{time}`, or let `read` in a `[[phase]]` read it from the output"),
        is_certain: true,
    })
}

/// Too few operations for a percentile.
fn too_few(spec: &TrialSpec, phase: &PhaseSpec, name: &MetricName) -> Option<Lack> {
    let metric = name.key.metric;
    let of_connections = Metric::CONNECT.contains(&metric);
    let needed = samples_needed(metric).filter(|_| name.instance.is_none() && !of_connections)?;
    let (most, is_random) = match (phase.action.http(), phase.action.ops()) {
        (Some(http), _) => (requests(spec, http)?, http.rate.as_ref().is_some_and(RequestRate::is_poisson)),
        (None, Some(ops)) => (timed(spec, ops)?, ops.rate.is_some_and(|arrivals| arrivals.poisson)),
        (None, None) => return None,
    };
    if most >= needed as f64 {
        return None;
    }
    let instead = MetricName { key: MetricKey::amount(highest(most)), ..name.clone() };
    let lower = samples_needed(instead.key.metric).is_some_and(|needed| needed as f64 <= most);
    let lower = if lower { format!("compare `{instead}`, or ") } else { String::new() };
    Some(Lack {
        message: format!("`{name}` needs {needed} timed operations in a trial, and `{}` has {most:.0}", phase.name),
        hint: format!("{lower}raise their number to {needed}"),
        is_certain: !is_random || phase.action.duration().is_none(),
    })
}

/// How many requests are sent at most, or on average; `None` where only a trial shows that.
fn requests(spec: &TrialSpec, http: &HttpSpec) -> Option<f64> {
    match (http.amount, &http.rate) {
        (HttpAmount::Requests(count), _) => Some(count as f64),
        (HttpAmount::Records, _) if http.uses_saved() => None,
        (HttpAmount::Records, _) => {
            let data = spec.data.iter().find(|collection| collection.name == http.collection)?;
            Some(data.records as f64 * if http.session { http.kinds.len() as f64 } else { 1.0 })
        }
        (HttpAmount::Duration(time), Some(RequestRate::Constant(arrivals))) => {
            Some((arrivals.rate.get() * time.as_secs_f64()).ceil())
        }
        (HttpAmount::Duration(_), Some(RequestRate::Steps(steps))) => {
            Some(steps.steps.iter().map(|step| step.operations()).sum::<f64>().ceil())
        }
        (HttpAmount::Duration(_), None) => None,
    }
}

/// How many operations of a store are timed at most, or on average; `None` where only a trial shows that.
fn timed(spec: &TrialSpec, ops: &Ops) -> Option<f64> {
    let all = match (ops.amount, ops.rate) {
        _ if ops.replicas.is_some() => return None,
        (Amount::Count(count), _) => count as f64,
        (Amount::Records, _) => spec.collection(ops)?.records as f64,
        (Amount::Duration(time), Some(arrivals)) => arrivals.rate.get() * time.as_secs_f64(),
        (Amount::Duration(_) | Amount::Background, _) => return None,
    };
    match ops.sample {
        Sampling::Every => Some(all.ceil()),
        // Each client begins with one that is timed.
        Sampling::OneIn(every) => Some((all / every.max(1) as f64).ceil() + f64::from(ops.threads)),
        Sampling::None | Sampling::Group(_) => None,
    }
}
