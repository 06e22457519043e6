//! How a program is observed: from which event to which each phase lasts, what is read of its output, and with how much care.

use serde::{Deserialize, Serialize};

use crate::metric::{Metric, MetricKey};
use crate::settle::SettleSpec;
use crate::units::{Nanos, Unit};

/// A phase of a program: from one event to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObserveSpec {
    /// What begins it; `None` is the program's own begin.
    pub begin: Option<Trigger>,
    /// What ends it; `None` is the program's own end.
    pub end: Option<Trigger>,
    /// A pattern whose named groups become readings; the last line within the phase counts.
    pub read: Option<String>,
    /// Ends the program when the phase ends.
    pub stop: bool,
    /// Actions while the program is suspended at the end of the phase, after the function call that ends it.
    pub at_end: Option<AtEndSpec>,
}

impl ObserveSpec {
    /// The whole program.
    pub const WHOLE: Self = Self { begin: None, end: None, read: None, stop: false, at_end: None };

    /// The function whose invocations are the phase.
    pub fn call(&self) -> Option<&str> {
        match &self.begin {
            Some(Trigger::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// When the tree is quiet, where the phase ends then.
    pub const fn settle(&self) -> Option<&SettleSpec> {
        match &self.end {
            Some(Trigger::Settle(settle)) => Some(settle),
            _ => None,
        }
    }

    /// Whether a mark or a function call begins or ends the phase. These arrive on another channel than output lines,
    /// so that the order of a line and a mark is not known.
    pub const fn is_marked(&self) -> bool {
        const fn marked(trigger: Option<&Trigger>) -> bool {
            matches!(trigger, Some(Trigger::Mark(_) | Trigger::Call(_) | Trigger::Invocation(_)))
        }
        marked(self.begin.as_ref()) || marked(self.end.as_ref())
    }

    /// Whether the program is suspended where a call ends the phase.
    pub const fn suspends(&self) -> bool {
        let called = matches!(self.end, Some(Trigger::Call(_) | Trigger::Invocation(_)));
        called && (self.stop || self.at_end.is_some())
    }
}

/// Actions while a program is suspended at the end of a function call, in this order; then its memory is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AtEndSpec {
    /// A full garbage collection is forced.
    pub collect: bool,
    /// How that collection treats objects that are only weakly referenced.
    pub weak: Weak,
    /// prony waits for this time.
    pub wait: Option<Nanos>,
    /// prony waits until the process tree is quiet.
    pub settle: Option<SettleSpec>,
}

crate::words! {
    /// When a forced collection frees the targets of weak references. JavaScript keeps a target that was made weak or
    /// dereferenced until the current job ends, so that a collection inside the job frees none of them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Weak {
        /// At once, inside the job: a program that continues may find a reference empty that was set just before.
        Clear = "clear", "at once, although the program continues";
        /// The program continues to the next turn of its event loop, where it is suspended again and collected.
        #[default]
        Turn = "turn", "at the next turn of the event loop, until which the program continues";
    }
}

/// An event of a running program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// A line of its output or messages that the pattern matches.
    Line(String),
    /// A mark of this name.
    Mark(String),
    /// All invocations of this function, as begin and end of one phase: the first one's begin, the last one's end.
    Call(String),
    /// The last replica of the program has ended.
    Replicas,
    /// One invocation of this function: for a begin the first one's begin, for an end the first end of any that comes
    /// after the phase's begin.
    Invocation(String),
    /// For a begin: the end of the phase of this name; of one with several invocations the first time that none is
    /// under way.
    After(String),
    /// For an end: the process tree has become quiet.
    Settle(SettleSpec),
}

/// The roles of a runtime's threads, as they appear in metric names: the program's first process, other processes of
/// the same runtime, and threads other than a process's main one.
pub const ROLES: [&str; 3] = ["main", "child", "worker"];

/// The named group of `read` that is not a metric: a digest of the program's answer, as text. Programs that are
/// compared must agree on this digest and on the group `rows`.
pub const DIGEST_GROUP: &str = "digest";

/// The meaning of a named group of `read`: `time_ms` is the metric `time`, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupMeaning {
    /// The metric.
    pub key: MetricKey,
    /// The factor that converts the number to the metric's stored unit.
    pub scale: f64,
}

/// The meaning of a group's name; full stops of a metric's name are written as underscores, and times without a unit are
/// seconds. `None` where it names no metric.
pub fn group_meaning(group: &str) -> Option<GroupMeaning> {
    let plain = |name: &str| -> Option<MetricKey> {
        let metric = Metric::ALL.iter().copied().find(|metric| metric.name().replace('.', "_") == name)?;
        name.replace('_', ".").parse().ok().or_else(|| metric.name().parse().ok())
    };
    if let Some(key) = plain(group) {
        let scale = if key.metric.unit() == Unit::Nanos { 1e9 } else { 1.0 };
        return Some(GroupMeaning { key, scale });
    }
    let (name, unit) = group.rsplit_once('_')?;
    let key = plain(name)?;
    let scale = match (key.metric.unit(), unit) {
        (Unit::Nanos, "s") => 1e9,
        (Unit::Nanos, "ms") => 1e6,
        (Unit::Nanos, "us") => 1e3,
        (Unit::Nanos, "ns") | (Unit::Bytes, "b") => 1.0,
        (Unit::Bytes, "kb") => 1e3,
        (Unit::Bytes, "mb") => 1e6,
        (Unit::Bytes, "gb") => 1e9,
        (Unit::Bytes, "kib") => 1024.0,
        (Unit::Bytes, "mib") => 1_048_576.0,
        (Unit::Bytes, "gib") => 1_073_741_824.0,
        _ => return None,
    };
    Some(GroupMeaning { key, scale })
}

crate::words! {
    /// How thoroughly the machine is prepared and measured before and after each trial.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Care {
        /// The machine's limits are measured, memory is touched, reference workloads run and dirty pages are flushed before and after every trial.
        #[default]
        Full = "full",
            "the machine's limits are measured once, dirty pages are flushed before each trial, and reference workloads \
            run before and after it";
        /// None of that: for commands of milliseconds.
        Light = "light",
            "none of these steps, for commands that take milliseconds; finished trials are synced to disk once a second";
    }

    /// What the extra trials of a run profile.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ProfileOf {
        /// Where CPU time is spent.
        Cpu = "cpu",
            "CPU time by function: V8's own profiler for programs with `runtime = \"node\"`, `perf` for everything else";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Stat;

    #[test]
    fn groups_name_metrics_with_their_units() {
        let of = |name: &str| group_meaning(name).map(|meaning| (meaning.key.to_string(), meaning.scale));
        assert_eq!(of("time"), Some(("time".into(), 1e9)));
        assert_eq!(of("time_ms"), Some(("time".into(), 1e6)));
        assert_eq!(of("operations"), Some(("operations".into(), 1.0)));
        assert_eq!(of("cpu_user_s"), Some(("cpu.user".into(), 1e9)));
        assert_eq!(of("latency_p99_9_us"), Some(("latency.p99.9".into(), 1e3)));
        assert_eq!(of("heap_used_mb"), Some(("heap.used.end".into(), 1e6)));
        assert_eq!(group_meaning("heap_used").unwrap().key.stat, Some(Stat::End));
        for wrong in ["", "tiem", "time_mb", "operations_s", "_s"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
