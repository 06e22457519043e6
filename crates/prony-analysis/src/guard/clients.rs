//! Guard of the metrics `time` and `rate` where variants have different numbers of clients. The gaps in which one client prepares
//! operations are in no timed section; of several clients they are in that of another one, so that `time` grows with the number of
//! clients by itself.

use serde_json::json;

use super::variant_trials::{Compared, VariantTrials, typical};
use super::{Finding, Severity, questions};
use prony_model::metric::{Metric, MetricName};
use prony_model::number;

/// A metric leaves out the gaps of one variant and not those of the other, and that changes their ratio by more than the margin.
pub(crate) fn gaps_differ(
    both @ [baseline, variant]: Compared<'_>,
    metric: &MetricName,
    margin: f64,
) -> Option<Finding> {
    if metric.instance.is_some() || !matches!(metric.key.metric, Metric::Time | Metric::Rate) {
        return None;
    }
    let clients = |of: &VariantTrials<'_>| Some(questions::named(of.spec, &metric.phase)?.action.ops()?.clients());
    let (ours, theirs) = (clients(baseline)?, clients(variant)?);
    if ours == theirs {
        return None;
    }
    let ratio = |of| {
        let [a, b] = both.map(|one| typical(one, (&metric.phase, ""), of).filter(|amount| *amount > 0.0));
        Some(b? / a?)
    };
    let (whole, with_gaps) = [Metric::Makespan, Metric::Wall].into_iter().find_map(|of| Some((of, ratio(of)?)))?;
    let time = ratio(Metric::Time)?;
    if (time / with_gaps).ln().abs() <= margin.ln_1p() {
        return None;
    }
    let (phase, whole, clients) = (&metric.phase, whole.name(), number::count(ours, "client"));
    let message = format!(
        "`{metric}` leaves out the time in which all clients prepare operations, and `{baseline}` has {clients}, but `{variant}` \
         {theirs}: its `time` is {time:.3} times that of the baseline, and its `{whole}` {with_gaps:.3} times"
    );
    let hint = format!("compare `{phase}.{whole}`; of a phase that lasts a given time, `{phase}.operations`");
    let found = Finding::of("gaps_differ", Severity::Warning, message, &hint).in_phase(phase);
    let metric = metric.to_string();
    Some(found.with(json!({ "metric": metric, "clients": [ours, theirs], "time": time, "whole": with_gaps })))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ops, phase, phase_spec, record, spec, variant_trials};
    use super::*;
    use prony_model::spec::{Action, Amount, Ops, TrialSpec};

    /// Three threads took "82 % more time" than one, and 20 % more of the clock on the wall.
    #[test]
    fn time_of_more_clients_is_warned_about_where_gaps_matter() {
        let threads = |threads| TrialSpec {
            phases: vec![phase_spec("q", Action::Get(Ops { threads, ..ops(Amount::Records) }))],
            ..spec("lmdb")
        };
        let ran = |time: f64, wall: f64| record(vec![phase("q", &[(Metric::Time, time), (Metric::Wall, wall)])]);
        let (one, three) = (threads(1), threads(3));
        let found = |name: &str, (a, b): (&TrialSpec, &TrialSpec), time: f64| {
            let (ours, theirs) = (ran(100.0, 160.0), ran(time, 192.0));
            let [ours, theirs] = [variant_trials("one", a, &ours), variant_trials("three", b, &theirs)];
            gaps_differ([&ours, &theirs], &name.parse().unwrap(), 0.03)
        };
        let warned = found("q.time", (&one, &three), 182.0).unwrap();
        assert_eq!((warned.guard.as_str(), warned.severity), ("gaps_differ", Severity::Warning));
        assert!(warned.message.contains("`one` has 1 client, but `three` 3"), "{}", warned.message);
        assert!(warned.message.contains("`time` is 1.820 times") && warned.message.contains("`wall` 1.200 times"));
        assert!(found("q.rate", (&one, &three), 182.0).is_some(), "a rate is by `time`");
        assert_eq!(found("q.wall", (&one, &three), 182.0), None);
        assert_eq!(found("q.time", (&one, &one), 182.0), None);
        assert_eq!(found("q.time", (&one, &three), 121.0), None, "gaps do not matter");
    }
}
