//! The names of metrics: `phase[.instance].metric[.statistic]`, one grammar everywhere.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Metric, Stat};
use crate::open_name::OpenName;
use crate::spelling::nearest;

/// A metric within a phase, with the statistic where it is a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MetricKey {
    /// What is measured.
    pub metric: Metric,
    /// The statistic of a gauge; `None` for amounts.
    pub stat: Option<Stat>,
}

impl MetricKey {
    /// An amount over the phase.
    pub const fn amount(metric: Metric) -> Self {
        Self { metric, stat: None }
    }

    /// A statistic of a gauge.
    pub const fn gauge(metric: Metric, stat: Stat) -> Self {
        Self { metric, stat: Some(stat) }
    }
}

impl fmt::Display for MetricKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.metric.name())?;
        match self.stat {
            Some(stat) => write!(f, ".{}", stat.name()),
            None => Ok(()),
        }
    }
}

/// The full name of a metric: `source.rss.end`, `load.api.0.cpu.user`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetricName {
    /// The phase's name; may hold spaces, no full stop.
    pub phase: String,
    /// The instance within the phase (a worker, a service), where there are several.
    pub instance: Option<String>,
    /// The metric, with its statistic where it is a gauge.
    pub key: MetricKey,
}

/// Why a text is not a metric's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// No phase before the metric.
    #[error("`{0}` names no phase; write `phase.metric`, for example {example}", example = example(.0))]
    NoPhase(String),
    /// No such metric.
    #[error("`{name}` is not a metric; {}", .near.as_ref().map_or_else(|| LISTED.to_owned(), |n| format!("did you mean `{n}`?")))]
    Unknown {
        /// As written.
        name: String,
        /// The nearest known name.
        near: Option<String>,
    },
    /// A statistic on a metric that is not a gauge.
    #[error("`{metric}` is a single number per phase, so that it has no statistic `.{stat}`")]
    NotAGauge {
        /// The metric's name.
        metric: &'static str,
        /// The statistic's name.
        stat: &'static str,
    },
}

impl FromStr for MetricKey {
    type Err = MetricError;

    /// A gauge without a statistic means its value at the phase's end. A name that the catalogue does not list is that of an
    /// open metric.
    fn from_str(text: &str) -> Result<Self, MetricError> {
        match Self::listed(text) {
            Err(MetricError::Unknown { name, near }) => Self::open(text).ok_or(MetricError::Unknown { name, near }),
            found => found,
        }
    }
}

impl MetricKey {
    /// Of the catalogue.
    fn listed(text: &str) -> Result<Self, MetricError> {
        if let Some(metric) = Metric::listed(text) {
            let stat = metric.is_gauge().then_some(Stat::End);
            return Ok(Self { metric, stat });
        }
        let cut = with_statistic(text).and_then(|(head, stat)| Some((Metric::listed(head)?, stat)));
        match cut {
            Some((metric, stat)) if metric.is_gauge() => Ok(Self::gauge(metric, stat)),
            Some((metric, stat)) => Err(MetricError::NotAGauge { metric: metric.name(), stat: stat.name() }),
            None => Err(MetricError::unknown(text)),
        }
    }

    /// Answers by status, or a number of a service: an amount, or with a statistic a gauge.
    fn open(text: &str) -> Option<Self> {
        // What ends in a statistic of what is no metric would be a counter of that name.
        if Stat::named(text).is_some() {
            return None;
        }
        if let Some(name) = OpenName::new(text) {
            return Some(Self::amount(Metric::Open(name)));
        }
        let (head, stat) = with_statistic(text)?;
        let name = OpenName::new(head).filter(|name| name.is_counter())?;
        Some(Self::gauge(Metric::Open(name), stat))
    }
}

/// What precedes the statistic that a text ends in.
fn with_statistic(text: &str) -> Option<(&str, Stat)> {
    let (head, tail) = text.rsplit_once('.')?;
    Some((head, Stat::named(tail)?))
}

/// Where all names are.
const LISTED: &str = "`docs/metrics.md` lists all";

/// Names that other tools give to metrics.
const OTHER_NAMES: [(&str, &str); 22] = [
    ("throughput", "rate"),
    ("ops", "rate"),
    ("qps", "rate"),
    ("rps", "rate"),
    ("tps", "rate"),
    ("p50", "latency.p50"),
    ("p90", "latency.p90"),
    ("p95", "latency.p95"),
    ("p99", "latency.p99"),
    ("p99.9", "latency.p99.9"),
    ("latency", "latency.p50"),
    ("memory", "rss.peak"),
    ("mem", "rss.peak"),
    ("maxrss", "rss.peak"),
    ("duration", "time"),
    ("elapsed", "time"),
    ("runtime", "time"),
    ("real", "time"),
    ("user", "cpu.user"),
    ("sys", "cpu.system"),
    ("system", "cpu.system"),
    ("heap", "heap.used.max"),
];

/// The name here of what another tool calls so.
fn renamed(text: &str) -> Option<&'static str> {
    OTHER_NAMES.iter().find(|(other, _)| *other == text).map(|(_, name)| *name)
}

/// The metric that a text without a phase may mean. A command has ended where levels are read at the phase's end.
fn example(text: &str) -> String {
    let name = renamed(text).unwrap_or(text);
    let counts = |metric: Metric| matches!(metric, Metric::Rate | Metric::Operations) || metric.is_of_one_operation();
    let of_command = match (MetricKey::listed(name), Metric::listed(name)) {
        // Of a command only where its output says what its operations are.
        (Ok(key), _) if counts(key.metric) => return format!("`load.{key}` of a phase `load`"),
        (Ok(MetricKey { stat: Some(_), .. }), Some(Metric::Rss)) => "rss.peak".to_owned(),
        (Ok(MetricKey { stat: Some(_), .. }), Some(metric)) => MetricKey::gauge(metric, Stat::Max).to_string(),
        (Ok(key), _) => key.to_string(),
        (Err(_), _) => Metric::Time.name().to_owned(),
    };
    format!("`run.{of_command}` of a command")
}

impl MetricError {
    /// No metric has this name.
    pub fn unknown(text: &str) -> Self {
        let near = renamed(text).or_else(|| nearest(text, Metric::ALL.iter().map(|metric| metric.name())));
        Self::Unknown { name: text.to_owned(), near: near.map(str::to_owned) }
    }
}

impl FromStr for MetricName {
    type Err = MetricError;

    /// The phase ends at the first full stop; what follows is a metric, or an instance
    /// (which may hold one full stop, as `api.0`) and a metric.
    fn from_str(text: &str) -> Result<Self, MetricError> {
        let Some((phase, rest)) = text.trim().split_once('.') else {
            return Err(MetricError::NoPhase(text.to_owned()));
        };
        let phase = phase.trim();
        if phase.is_empty() {
            return Err(MetricError::NoPhase(text.to_owned()));
        }
        let named = |instance: Option<&str>, key| {
            Ok(Self { phase: phase.to_owned(), instance: instance.map(str::to_owned), key })
        };
        let first = match MetricKey::listed(rest) {
            Ok(key) => return named(None, key),
            Err(MetricError::Unknown { name, near }) => {
                MetricError::Unknown { name, near: near.map(|near| format!("{phase}.{near}")) }
            }
            Err(error) => return Err(error),
        };
        let splits = || rest.match_indices('.').map(|(at, _)| (&rest[..at], &rest[at + 1..]));
        if let Some((instance, key)) = splits().find_map(|(head, tail)| Some((head, MetricKey::listed(tail).ok()?))) {
            return named(Some(instance), key);
        }
        // Answers by status are of the phase, numbers that a service counts are of the service.
        match MetricKey::open(rest) {
            Some(key) if key.metric.counter().is_none() => return named(None, key),
            _ => {}
        }
        // `rss.peek` is a mistake in a statistic and no counter of a service `rss`.
        let counted = |(head, tail)| {
            let key = MetricKey::open(tail).filter(|key| key.metric.counter().is_some())?;
            Metric::listed(head).is_none().then_some((head, key))
        };
        match splits().find_map(counted) {
            Some((instance, key)) => named(Some(instance), key),
            None => Err(first),
        }
    }
}

impl fmt::Display for MetricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.instance {
            Some(instance) => write!(f, "{}.{instance}.{}", self.phase, self.key),
            None => write!(f, "{}.{}", self.phase, self.key),
        }
    }
}

impl Serialize for MetricName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MetricName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_as_itself() {
        for metric in Metric::ALL.iter().copied() {
            let stats: &[Option<Stat>] = if metric.is_gauge() { &Stat::ALL.map(Some) } else { &[None] };
            for stat in stats.iter().copied() {
                for instance in [None, Some("mongo".to_owned()), Some("mongo.0".to_owned())] {
                    let name = MetricName { phase: "page queries".into(), instance, key: MetricKey { metric, stat } };
                    assert_eq!(name.to_string().parse::<MetricName>(), Ok(name));
                }
            }
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            "write.tiem".parse::<MetricName>().unwrap_err().to_string(),
            "`tiem` is not a metric; did you mean `write.time`?"
        );
        assert!(matches!("time".parse::<MetricName>(), Err(MetricError::NoPhase(_))));
        // `throughput` was refused without a hint, and the example of `rss` was `write.time`.
        let said = |text: &str| text.parse::<MetricName>().unwrap_err().to_string();
        assert_eq!(said("load.throughput"), "`throughput` is not a metric; did you mean `load.rate`?");
        assert_eq!(said("load.p99"), "`p99` is not a metric; did you mean `load.latency.p99`?");
        assert_eq!(said("load.quickness"), "`quickness` is not a metric; `docs/metrics.md` lists all");
        for (text, example) in [("rss", "rss.peak"), ("anon", "anon.max"), ("mem", "rss.peak"), ("nosuch", "time")] {
            let hint = format!("names no phase; write `phase.metric`, for example `run.{example}` of a command");
            assert_eq!(said(text), format!("`{text}` {hint}"));
        }
        // The example was refused in turn: nothing says what the operations of a command are.
        for (text, example) in [("rate", "load.rate"), ("p99", "load.latency.p99"), ("qps", "load.rate")] {
            let hint = format!("names no phase; write `phase.metric`, for example `{example}` of a phase `load`");
            assert_eq!(said(text), format!("`{text}` {hint}"));
        }
        for (other, name) in OTHER_NAMES {
            assert!(Metric::listed(other).is_none() && MetricKey::listed(name).is_ok(), "{other}: {name}");
        }
        assert!(matches!("write.time.max".parse::<MetricName>(), Err(MetricError::NotAGauge { .. })));
        assert_eq!("write.rss".parse::<MetricName>().unwrap().to_string(), "write.rss.end");
    }

    #[test]
    fn names_of_no_catalogue_are_of_a_service_or_a_status() {
        let name = |text: &str| text.parse::<MetricName>().unwrap();
        for (text, instance) in [
            ("insert.status.404", None),
            ("insert.pg.xact_commit", Some("pg")),
            ("insert.pg.2.xact_commit", Some("pg.2")),
            ("insert.pg.connections.max", Some("pg")),
            ("insert.pg.operations.per.ok", Some("pg")),
            ("insert.api.heap.used.max", Some("api")),
        ] {
            let name = name(text);
            assert_eq!((name.instance.as_deref(), name.to_string().as_str()), (instance, text));
            assert_eq!(serde_json::from_value::<Metric>(name.key.metric.name().into()).unwrap(), name.key.metric);
        }
        assert_eq!(name("insert.pg.connections.max").key.stat, Some(Stat::Max));
        // A phase has none by itself, and what the catalogue lists is never one.
        for text in
            ["insert.xact_commit", "insert.status.40", "insert.status.404.max", "insert.time.max", "insert.rss.peek"]
        {
            assert!(text.parse::<MetricName>().is_err(), "{text}");
        }
        assert_eq!(name("insert.pg.rate").key.metric, Metric::Rate);
    }
}
