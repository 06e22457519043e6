//! Metrics of a phase from the numbers that services counted themselves. Pure functions.
//!
//! A total is the difference of two readings of one count: where the server was started anew, its statistics were reset or the
//! connection was lost in between, the difference is of two counts, and missing. A gauge has its value at the end of the phase,
//! and with samples from inside the phase its mean and extremes. The readings before and after it have no part in these: between
//! two phases nothing loads the server.

use std::collections::BTreeMap;

use prony_counters::Number;
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::open_name::{OpenName, scale_of};
use prony_model::reading::{Reading, Why};
use prony_model::record::MetricKeyText;
use prony_model::service::CountersSpec;
use prony_model::units::Nanos;

use crate::figures::readings::{Readings, mean_over_time, set};
use crate::watched::services::{Between, Counts, Values};

/// The metrics of a phase of what one instance counted; `index` is that of the phase, which lasted from and to these instants.
/// `ok` is how many requests were answered as expected, where the phase sends any; `uncounted` why its totals are not those of
/// these requests, if so.
pub(crate) fn readings(
    counts: &Counts,
    index: usize,
    phase: (Nanos, Nanos),
    (ok, uncounted): (Option<f64>, Option<&Why>),
) -> Readings {
    let mut readings = Readings::new();
    let nothing = Between::default();
    let (before, after) = (counts.between.get(index), counts.between.get(index + 1));
    let (begin, end) = (&before.unwrap_or(&nothing).begin, &after.unwrap_or(&nothing).end);
    for name in &counts.spec.totals {
        let total = uncounted.map_or_else(|| difference(name, begin, end), |why| Reading::Missing(why.clone()));
        if counts.spec.operations.as_ref() == Some(name) {
            operations(&total, ok, &mut readings);
        }
        put(&mut readings, name, None, total);
    }
    let inside = after.map(|after| &after.samples[..]).unwrap_or_default();
    let inside: Vec<&(Nanos, Values)> = inside.iter().filter(|(at, _)| (phase.0..=phase.1).contains(at)).collect();
    for name in &counts.spec.gauges {
        let value = |values: &Values| number(values, name).map(|number| number.value);
        let samples: Vec<(Nanos, Reading<f64>)> = inside.iter().map(|(at, values)| (*at, value(values))).collect();
        put(&mut readings, name, Some(Stat::End), value(end));
        statistics(&samples, phase).into_iter().for_each(|(stat, n)| put(&mut readings, name, Some(stat), n));
    }
    readings
}

/// What a total grew by.
fn difference(name: &str, begin: &Values, end: &Values) -> Reading<f64> {
    let (begin, end) = match (number(begin, name), number(end, name)) {
        (Reading::Measured(begin), Reading::Measured(end)) => (begin, end),
        (Reading::Missing(why), _) | (_, Reading::Missing(why)) => return Reading::Missing(why),
    };
    if begin.since != end.since {
        return Reading::failed(format!(
            "`{name}` began anew within the phase: the server was started again, its counters were reset, or the connection \
             to it was lost"
        ));
    }
    if let (true, Some(lost)) = (begin.lost != end.lost, &end.lost) {
        return Reading::failed(format!("`{name}` lost a part of its count within the phase: {}", lost.why));
    }
    if end.value < begin.value {
        return Reading::failed(format!("`{name}` went back from {} to {} in the phase", begin.value, end.value));
    }
    Reading::Measured(end.value - begin.value)
}

fn number(values: &Values, name: &str) -> Reading<Number> {
    values.get(name).cloned().unwrap_or(Reading::Missing(Why::NotReached))
}

/// A total as the operations of its service, and for each request.
fn operations(total: &Reading<f64>, ok: Option<f64>, readings: &mut Readings) {
    set(readings, Metric::Operations, total.clone());
    let per_request = match ok {
        None => return,
        Some(0.0) => Reading::failed("no request was answered as expected"),
        Some(ok) => total.clone().map(|total| total / ok),
    };
    set(readings, Metric::OperationsPerOk, per_request);
}

/// Mean over time, and extremes, of the samples from inside a phase.
fn statistics(samples: &[(Nanos, Reading<f64>)], phase: (Nanos, Nanos)) -> [(Stat, Reading<f64>); 3] {
    let stats = [Stat::Mean, Stat::Max, Stat::Min];
    if samples.is_empty() {
        let why = "it is read once a second, and not in phases that wait for quiet: no reading came in this phase";
        return stats.map(|stat| (stat, Reading::failed(why)));
    }
    let mut known = Vec::new();
    for (at, reading) in samples {
        match reading {
            Reading::Measured(value) => known.push((*at, *value)),
            Reading::Missing(why) => return stats.map(|stat| (stat, Reading::Missing(why.clone()))),
        }
    }
    let values = || known.iter().map(|(_, value)| *value);
    let of = |value: Option<f64>| value.map_or(Reading::Missing(Why::TooFew { have: 0, need: 1 }), Reading::Measured);
    [
        (Stat::Mean, of(mean(&known, phase))),
        (Stat::Max, of(values().max_by(f64::total_cmp))),
        (Stat::Min, of(values().min_by(f64::total_cmp))),
    ]
}

/// Mean over the time of a phase, the value changing evenly between samples. Before the first it is that of the first, and
/// after the last that of the last.
fn mean(known: &[(Nanos, f64)], (begin, end): (Nanos, Nanos)) -> Option<f64> {
    let (first, last) = (known.first()?.1, known.last()?.1);
    let all = [(begin, first)].into_iter().chain(known.iter().copied()).chain([(end, last)]);
    mean_over_time(&all.collect::<Vec<_>>())
}

fn put(readings: &mut Readings, name: &str, stat: Option<Stat>, value: Reading<f64>) {
    // The checker accepts no other names.
    let Some(name) = OpenName::new(name) else { return };
    let key = MetricKey { metric: Metric::Open(name), stat };
    readings.insert(MetricKeyText(key), value.map(|value| value * scale_of(name.unit())));
}

/// The metrics of all instances of a service: sums of what they counted, and of gauges their means and last values. Extremes are
/// not reached at one instant.
pub(crate) fn together(spec: &CountersSpec, instances: &[Readings], ok: Option<f64>) -> Readings {
    let mut sums = BTreeMap::<MetricKeyText, Reading<f64>>::new();
    for (key, reading) in instances.iter().flatten() {
        let sum = match sums.remove(key) {
            Some(sum) => sum.and(reading.clone(), |a, b| a + b),
            None => reading.clone(),
        };
        sums.insert(*key, sum);
    }
    for (key, sum) in &mut sums {
        if matches!(key.0.stat, Some(Stat::Max | Stat::Min)) && sum.measured().is_some() {
            *sum = Reading::not_supported("instances have extremes at different instants, whose sum means nothing");
        }
    }
    let total = sums.get(&MetricKeyText(MetricKey::amount(Metric::Operations))).cloned();
    if let (Some(total), true) = (total, spec.operations.is_some()) {
        operations(&total, ok, &mut sums);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> CountersSpec {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let source = prony_model::service::CounterSource::Redis(String::new());
        let operations = Some("commands".to_owned());
        CountersSpec { source, totals: names(&["commands", "cpu_seconds"]), gauges: names(&["clients"]), operations }
    }

    fn values(numbers: &[(&str, f64)], since: &str) -> Values {
        let number = |value| Reading::Measured(Number { value, since: since.to_owned(), lost: None });
        numbers.iter().map(|(name, value)| ((*name).to_owned(), number(*value))).collect()
    }

    fn between(commands: f64, since: &str) -> Between {
        let all = values(&[("commands", commands), ("cpu_seconds", commands / 100.0), ("clients", 4.0)], since);
        Between { end: all.clone(), begin: all, samples: Vec::new() }
    }

    fn at(n: u64) -> Nanos {
        Nanos::from_secs(n)
    }

    fn of(between: Vec<Between>, ok: Option<f64>) -> Readings {
        readings(&Counts { spec: spec(), between }, 0, (at(10), at(20)), (ok, None))
    }

    fn get(readings: &Readings, key: &str) -> Result<f64, String> {
        match &readings[&MetricKeyText(key.parse().unwrap())] {
            Reading::Measured(value) => Ok(*value),
            Reading::Missing(why) => Err(why.to_string()),
        }
    }

    #[test]
    fn totals_are_differences_and_operations_are_one_of_them() {
        let found = of(vec![between(100.0, "a"), between(400.0, "a")], Some(50.0));
        assert_eq!((get(&found, "commands"), get(&found, "operations")), (Ok(300.0), Ok(300.0)));
        assert_eq!((get(&found, "operations.per.ok"), get(&found, "cpu_seconds")), (Ok(6.0), Ok(3e9)));
        assert!(get(&of(vec![between(1.0, ""), between(2.0, "")], Some(0.0)), "operations.per.ok").is_err());
        assert_eq!(of(vec![between(1.0, ""), between(2.0, "")], None).len(), 2 + 1 + 4, "a phase without requests");
    }

    #[test]
    fn totals_that_include_a_warm_up_are_missing_and_gauges_are_not() {
        let counts = Counts { spec: spec(), between: vec![between(100.0, "a"), between(400.0, "a")] };
        let why = Why::NotSupported("the count includes the warm-up".into());
        let found = readings(&counts, 0, (at(10), at(20)), (Some(50.0), Some(&why)));
        for key in ["commands", "cpu_seconds", "operations", "operations.per.ok"] {
            assert_eq!(get(&found, key), Err(why.to_string()), "{key}");
        }
        assert_eq!(get(&found, "clients.end"), Ok(4.0));
        let both = together(&spec(), &[found.clone(), found], Some(50.0));
        assert_eq!(get(&both, "operations.per.ok"), Err(why.to_string()));
    }

    #[test]
    fn totals_that_began_anew_went_back_or_were_not_read_are_missing() {
        let why = |after| get(&of(vec![between(100.0, "a"), after], Some(1.0)), "operations.per.ok").unwrap_err();
        assert!(why(between(400.0, "b")).contains("began anew"));
        assert!(why(between(99.0, "a")).contains("went back from 100 to 99"));
        assert_eq!(why(Between::default()), "not reached");
        assert_eq!(
            get(&of(vec![between(100.0, "a")], None), "commands").unwrap_err(),
            "not reached",
            "the trial ended"
        );
    }

    #[test]
    fn totals_that_lost_a_part_of_their_count_are_missing() {
        let after = |value, amount: &str| {
            let lost = Some(prony_counters::Lost { amount: amount.to_owned(), why: "raise the limit" });
            let number = Number { value, since: String::new(), lost };
            Values::from([("commands".to_owned(), Reading::Measured(number))])
        };
        let grown = |amount| difference("commands", &after(100.0, "0"), &after(150.0, amount));
        assert_eq!(grown("0"), Reading::Measured(50.0));
        let why = "`commands` lost a part of its count within the phase: raise the limit";
        assert_eq!(grown("1"), Reading::failed(why));
    }

    #[test]
    fn gauges_need_samples_from_inside_the_phase() {
        let mut after = between(400.0, "a");
        let found = of(vec![between(100.0, "a"), after.clone()], None);
        assert_eq!(get(&found, "clients.end"), Ok(4.0));
        assert!(get(&found, "clients.mean").unwrap_err().contains("once a second"));
        let sample = |n: u64, clients| (at(n), values(&[("clients", clients)], "a"));
        after.samples = vec![sample(9, 99.0), sample(15, 8.0), sample(21, 99.0)];
        let found = of(vec![between(100.0, "a"), after.clone()], None);
        let clients = ["mean", "max", "min", "end"].map(|stat| get(&found, &format!("clients.{stat}")));
        // Between two phases there are 4 clients, and other phases are at 9 and at 21.
        assert_eq!(clients, [Ok(8.0), Ok(8.0), Ok(8.0), Ok(4.0)]);
        after.samples.push(sample(17, 16.0));
        let found = of(vec![between(100.0, "a"), after.clone()], None);
        // 8 for 5 s, 12 on average for 2 s, and 16 for 3 s.
        let clients = ["mean", "max", "min"].map(|stat| get(&found, &format!("clients.{stat}")));
        assert_eq!(clients, [Ok(11.2), Ok(16.0), Ok(8.0)]);
        after.samples.push((at(16), Values::from([("clients".to_owned(), Reading::failed("no answer"))])));
        let found = of(vec![between(100.0, "a"), after], None);
        assert_eq!(get(&found, "clients.max"), Err("no answer".to_owned()));
    }

    #[test]
    fn instances_together_have_sums_but_no_extremes() {
        let mut after = between(400.0, "a");
        after.samples = vec![(at(15), values(&[("clients", 8.0)], "a"))];
        let one = of(vec![between(100.0, "a"), after], Some(50.0));
        let both = together(&spec(), &[one.clone(), one.clone()], Some(50.0));
        assert_eq!((get(&both, "commands"), get(&both, "operations.per.ok")), (Ok(600.0), Ok(12.0)));
        assert_eq!((get(&both, "clients.mean"), get(&both, "clients.end")), (Ok(16.0), Ok(8.0)));
        assert!(get(&both, "clients.max").unwrap_err().contains("different instants"));
        let lacking = of(vec![between(100.0, "a")], Some(50.0));
        assert!(get(&together(&spec(), &[one, lacking], Some(50.0)), "operations.per.ok").is_err());
    }
    /// Each instance has its own counts, and a service with several those of all; what was asked of them is divided by the
    /// requests of the load generator, not of a warm-up.
    #[test]
    fn counts_of_each_instance_and_of_a_service_are_those_of_the_phase() {
        use prony_model::protocol::{PhaseReport, RequestsReport};
        use prony_model::spec::{Action, PhaseSpec};
        let counts = |last| Counts { spec: spec(), between: vec![between(100.0, "a"), between(last, "a")] };
        let mut served = crate::watched::services::Served::default();
        for (service, role, last) in [("api", "api", 110.0), ("db", "db.1", 400.0), ("db", "db.2", 200.0)] {
            served.roles.entry(service.to_owned()).or_default().push(role.to_owned());
            served.counts.insert(role.to_owned(), counts(last));
        }
        let action = Action::Pause(Nanos::ZERO);
        let phase = PhaseSpec { name: "p".to_owned(), timed: true, action, background: None, limit: None };
        let requests = Some(RequestsReport::default());
        let report = PhaseReport { operations: 50, requests, ..PhaseReport::default() };
        let counted = |report| crate::figures::services::counted(&served, (0, &phase), (at(10), at(20)), report);
        let found = counted(Some(&report));
        let operations = ["api", "db", "db.1", "db.2"].map(|instance| get(&found[instance], "operations"));
        assert_eq!(operations, [Ok(10.0), Ok(400.0), Ok(300.0), Ok(100.0)]);
        assert_eq!(get(&found["db"], "operations.per.ok"), Ok(8.0));
        let without = counted(None);
        assert!(!without["db"].contains_key(&MetricKeyText("operations.per.ok".parse().unwrap())), "no requests");
    }
}
