//! Reads `counters` of a service, and finds faults in the names of metrics that are made of them.

use std::collections::BTreeSet;

use super::View;
use super::view::{line, texts};
use crate::grammar;
use crate::node::Node;
use crate::problem::{Problem, Problems, known_hint};
use prony_model::metric::{Metric, MetricError, MetricKey, MetricName, Stat};
use prony_model::service::{
    CounterSource, CountersSpec, MONGODB_GAUGES, MONGODB_OPERATIONS, MONGODB_TOTALS, POSTGRESQL_GAUGES,
    POSTGRESQL_REPORTED, POSTGRESQL_STATEMENTS, REDIS_COMMANDS, REDIS_GAUGES, REDIS_TOTALS, postgresql_transactions,
};

/// A fault, and a hint.
pub(crate) type Fault = (String, Option<String>);

/// The statistics of a gauge.
const STATISTICS: [Stat; 4] = [Stat::Mean, Stat::Max, Stat::Min, Stat::End];

/// The counters of a service whose form was checked.
pub(crate) fn counters(node: &Node, problems: &mut Problems<'_>) -> Option<CountersSpec> {
    let view = View::new(Some(node), &grammar::COUNTERS);
    let text = |key| view.text(key);
    let source = text("postgresql")
        .map(CounterSource::Postgresql)
        .or_else(|| text("redis").map(CounterSource::Redis))
        .or_else(|| text("mongodb").map(CounterSource::Mongodb))
        .or_else(|| text("prometheus").map(CounterSource::Prometheus));
    let source = match source {
        Some(source) => source,
        None => CounterSource::Command(line(view.get("command")?)?),
    };
    let (usual_totals, usual_gauges, usual_operations) = usual(&source);
    let named = |key: &str, usual: Vec<&str>| match view.get(key) {
        Some(node) => texts(Some(node)),
        None => usual.into_iter().map(str::to_owned).collect(),
    };
    // Those of transactions are missing in most phases, as clients keep their sessions.
    let totals = named("totals", usual_totals.into_iter().filter(|name| !postgresql_transactions(name)).collect());
    // Where the file chooses totals without the usual one, it has no operations.
    let usual_operations = usual_operations.filter(|name| totals.iter().any(|total| total == name));
    let operations = view.plain("operations").or(usual_operations).map(str::to_owned);
    let spec = CountersSpec { source, totals, gauges: named("gauges", usual_gauges), operations };
    check(&spec, node, &view, problems);
    Some(spec)
}

/// The names that are read unless the file names others: totals, gauges, operations.
fn usual(source: &CounterSource) -> (Vec<&'static str>, Vec<&'static str>, Option<&'static str>) {
    match source {
        CounterSource::Postgresql(_) => {
            let totals = [POSTGRESQL_STATEMENTS].into_iter().chain(POSTGRESQL_REPORTED).collect();
            (totals, POSTGRESQL_GAUGES.to_vec(), Some(POSTGRESQL_STATEMENTS))
        }
        CounterSource::Redis(_) => (REDIS_TOTALS.to_vec(), REDIS_GAUGES.to_vec(), Some(REDIS_COMMANDS)),
        CounterSource::Mongodb(_) => (MONGODB_TOTALS.to_vec(), MONGODB_GAUGES.to_vec(), Some(MONGODB_OPERATIONS)),
        CounterSource::Prometheus(_) | CounterSource::Command(_) => (Vec::new(), Vec::new(), None),
    }
}

fn check(spec: &CountersSpec, node: &Node, view: &View<'_>, problems: &mut Problems<'_>) {
    if spec.totals.is_empty() && spec.gauges.is_empty() {
        let hint = "write `totals = [\"NAME\"]` for numbers that only grow, `gauges = [\"NAME\"]` for others";
        problems.fault(node, format!("`{}` names no number that is read", spec.source.name()), hint);
    }
    let mut known = BTreeSet::new();
    for (key, names) in [("totals", &spec.totals), ("gauges", &spec.gauges)] {
        for (name, at) in names.iter().zip(view.list_of(key)) {
            if let Some((message, hint)) = fault_of(name, key == "totals", &spec.source, !known.insert(name)) {
                problems.add(Problem::new(at, message).maybe_hint(hint));
            }
        }
    }
    if let (Some(name), Some(at)) = (&spec.operations, view.get("operations"))
        && !spec.totals.contains(name)
    {
        let message = format!("`operations` names `{name}`, which is none of the totals");
        problems.add(Problem::new(at, message).maybe_hint(known_hint(name, spec.totals.iter().map(String::as_str))));
    }
}

/// What is wrong with a name that the file chose.
fn fault_of(name: &str, total: bool, source: &CounterSource, again: bool) -> Option<Fault> {
    if Metric::listed(name).is_some() {
        let hint = "let the server or the command use another name";
        return Some((format!("`{name}` is the name of a metric that prony measures itself"), Some(hint.to_owned())));
    }
    if name.parse::<MetricKey>().ok().and_then(|key| key.metric.counter()) != Some(name) {
        let hint = "a name has letters, digits, `_` and `:`, does not begin with a digit, and is none of a statistic";
        return Some((format!("`{name}` cannot be the name of a metric"), Some(hint.to_owned())));
    }
    if again {
        return Some((format!("`{name}` is named twice"), Some("remove one of them".to_owned())));
    }
    let server = match source {
        CounterSource::Postgresql(_) => "PostgreSQL",
        CounterSource::Mongodb(_) => "MongoDB",
        CounterSource::Redis(_) | CounterSource::Prometheus(_) | CounterSource::Command(_) => return None,
    };
    let (totals, gauges, _) = usual(source);
    let (own, of_further) = if total { (totals, gauges) } else { (gauges, totals) };
    let (what, other) = if total { ("total", "gauges") } else { ("gauge", "totals") };
    if of_further.contains(&name) {
        return Some((format!("`{name}` of {server} is no {what}"), Some(format!("name it in `{other}`"))));
    }
    let message = || format!("prony reads no {what} `{name}` of {server}");
    (!own.contains(&name)).then(|| (message(), known_hint(name, own)))
}

/// The numbers that a service may count, over all variants.
#[derive(Default)]
pub(crate) struct Counted {
    totals: BTreeSet<String>,
    gauges: BTreeSet<String>,
    operations: bool,
}

impl Counted {
    /// Adds those of one variant.
    pub(crate) fn add(&mut self, spec: CountersSpec) {
        self.totals.extend(spec.totals);
        self.gauges.extend(spec.gauges);
        self.operations |= spec.operations.is_some();
    }

    /// The fault of a metric of the service.
    pub(crate) fn fault(&self, name: &MetricName, service: &str) -> Option<Fault> {
        if matches!(name.key.metric, Metric::Operations | Metric::OperationsPerOk) && !self.operations {
            let message = format!("`{name}`: nothing counts operations of service `{service}`");
            let hint = "name one of its `totals` as `operations` in `counters` of the service";
            return Some((message, Some(hint.to_owned())));
        }
        let counter = name.key.metric.counter()?;
        match (self.totals.contains(counter), self.gauges.contains(counter), name.key.stat) {
            (true, _, None) => None,
            (_, true, Some(stat)) if STATISTICS.contains(&stat) => None,
            (_, true, _) => {
                let message = format!("`{name}`: `{counter}` is a gauge, which is measured at several instants");
                Some((message, Some(format!("write `{counter}.mean`, `.max`, `.min` or `.end`"))))
            }
            (true, false, Some(_)) => {
                let message = format!("`{name}`: `{counter}` is a total, which has no statistic");
                Some((message, Some(format!("write `{counter}`"))))
            }
            (false, false, _) if self.totals.is_empty() && self.gauges.is_empty() => Some(unknown(name)),
            (false, false, _) => {
                let message = format!("`{name}`: `{counter}` is neither a metric nor a counter of service `{service}`");
                Some((message, known_hint(counter, self.totals.iter().chain(&self.gauges).map(String::as_str))))
            }
        }
    }
}

/// The fault of a metric that is not of the catalogue where nothing counts it.
pub(crate) fn unknown(name: &MetricName) -> Fault {
    let text = match &name.instance {
        Some(instance) => format!("{instance}.{}", name.key),
        None => name.key.to_string(),
    };
    let error = match MetricError::unknown(&text) {
        MetricError::Unknown { name: text, near } => {
            MetricError::Unknown { name: text, near: near.map(|near| format!("{}.{near}", name.phase)) }
        }
        other => other,
    };
    (error.to_string(), None)
}
