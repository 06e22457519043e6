//! The record of a trial. Every table and plot is computed from records.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub mod conditions;
pub mod effective;
pub mod host;
pub mod machine;
pub mod probe;
pub mod process;

pub use conditions::{Conditions, Settled, Spent};
pub use effective::{Effective, EffectiveProgram, EffectiveStore};
pub use host::{Facts, MachineLimits, Mount, Session};
pub use machine::{Change, Machine, Moment, Pressure, Quiesced, ReferenceTimes};
pub use probe::ProbeReport;
pub use process::{Captured, DiskUsage, MemoryEvidence, SettleResult, Status};

use crate::finding::Finding;
use crate::metric::{Metric, MetricKey, MetricName, Stat};
use crate::outcome::{Ending, Outcome};
use crate::reading::{Reading, Why};
use crate::spec::{BACKGROUND, Sign};
use crate::trial::PlannedTrial;
use crate::units::{Bytes, Nanos};

/// How far the kernel's own count of resident memory may be off: what each processor has not yet added up.
pub const PEAK_SLACK: Bytes = Bytes::from_kib(512);

/// Before the texts of errors of a phase's background.
pub const BACKGROUND_ERROR: &str = "background: ";

/// The record of a finished trial. The type parameters are the effective settings and the conditions: an export that
/// gives equal parts of many trials only once uses other types for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRecord<E = Option<Effective>, C = Conditions> {
    /// Which trial of the plan.
    pub trial: PlannedTrial,
    /// Unix time at launch, milliseconds.
    pub started_unix_ms: u64,
    /// From launch to clean-up.
    pub took: Nanos,
    /// How it ended.
    pub ending: Ending,
    /// Every phase of the variant, in order; those not reached too.
    pub phases: Vec<PhaseRecord>,
    /// The effective settings; `None` where the subject ended before they were known.
    pub effective: E,
    /// The state of the machine before and after (METHOD 4.10), and further observations.
    pub conditions: C,
    /// Samples of each process of the tree, for timelines.
    pub series: Vec<ProcessSeries>,
    /// The cost of the sampler: CPU time of its thread over the trial.
    pub sampler_cpu: Reading<Nanos>,
    /// What guards found.
    pub findings: Vec<Finding>,
}

impl TrialRecord {
    /// The effective settings of a store; `None` for a program.
    pub fn store(&self) -> Option<&EffectiveStore> {
        self.effective.as_ref()?.store()
    }

    /// The effective settings and observations of a program; `None` for a store.
    pub fn program(&self) -> Option<&EffectiveProgram> {
        self.effective.as_ref()?.program()
    }

    /// The value of a metric, if it counts, or why there is none. Tables, comparisons, plots and searches get every
    /// value from here. Readings of a phase that is not complete are stored, but do not count.
    pub fn figure(&self, name: &MetricName) -> Reading<f64> {
        let Some(phase) = self.phases.iter().find(|phase| phase.name == name.phase) else {
            return Reading::Missing(Why::NotApplicable);
        };
        if let Some(why) = self.excluded(phase, name.key.metric) {
            return Reading::Missing(why);
        }
        let readings = phase.readings.get(name.instance.as_deref().unwrap_or_default());
        let reading = readings.and_then(|readings| readings.get(&MetricKeyText(name.key)));
        reading.cloned().unwrap_or(Reading::Missing(Why::NotApplicable))
    }

    /// How far the true value may lie below and above [`figure`](Self::figure), in its unit; 0 where nothing else is known.
    ///
    /// The largest sample of memory is a lower bound; the kernel's own peak of resident memory, mapped files included,
    /// shows how much the samples of the phase missed, or that a child was larger than any that they show. The CPU time of
    /// threads that ran at a boundary is known to a scheduler tick ([`Metric::CpuOver`]), of a part of the tree no better than
    /// of the whole; its division, and what ended children used, are counted in ticks of procfs. For `anon.max` the missed
    /// resident memory is an estimate: pages of files may have gone while anonymous memory came. Begin and end of a phase of a
    /// program may have been noticed [`Metric::TimeLag`] late; and the last activity may have been at any time between two polls.
    pub fn uncertainty(&self, name: &MetricName) -> (f64, f64) {
        let of = |key| self.figure(&MetricName { key, ..name.clone() });
        let of_phase = |metric| MetricName { instance: None, key: MetricKey::amount(metric), ..name.clone() };
        let error = |metric| self.figure(&of_phase(metric)).measured().copied().unwrap_or(0.0);
        let settled = self.conditions.settled.get(&name.phase).and_then(|settled| settled.result.as_ref());
        let is_of_settling = |metric| {
            matches!(metric, Metric::SettleTime | Metric::Time) || Sign::ALL.map(Sign::metric).contains(&metric)
        };
        if let Some(settled) = settled.filter(|_| is_of_settling(name.key.metric)) {
            return (settled.step.as_nanos() as f64, 0.0);
        }
        match (name.key.metric, name.key.stat) {
            (Metric::Anon | Metric::Rss, Some(Stat::Max)) => {
                let rss = |stat| of(MetricKey::gauge(Metric::Rss, stat));
                let missed = || Some(rss(Stat::Peak).measured()? - rss(Stat::Max).measured()?);
                let unseen = of(MetricKey::amount(Metric::RssUnseen));
                (0.0, missed().unwrap_or(0.0).max(unseen.measured().copied().unwrap_or(0.0)))
            }
            (Metric::Cpu | Metric::OnCpu | Metric::CpuUser | Metric::CpuSystem, _) => {
                let all =
                    MetricName { instance: None, key: MetricKey::gauge(Metric::Processes, Stat::Max), ..name.clone() };
                let processes = self.figure(&all).measured().map_or(1.0, |count| count.max(1.0));
                // In each process its own time and that of its ended children, in each of which ticks are cut off.
                let in_ticks = match name.key.metric {
                    Metric::Cpu => 0.0,
                    Metric::OnCpu if processes == 1.0 => 0.0,
                    _ => 2.0 * processes * TICK.as_nanos() as f64,
                };
                (error(Metric::CpuOver) + in_ticks, error(Metric::CpuUnder) + in_ticks)
            }
            (Metric::Time | Metric::Wall | Metric::Rate, _) if name.instance.is_none() => {
                let of = |metric| self.figure(&of_phase(metric));
                // What the program reports itself differs, and so does a rate that does not follow from the time.
                let time = if name.key.metric == Metric::Rate { Metric::Time } else { name.key.metric };
                let is_of_boundaries = of(time) == of(Metric::Wall);
                let late = if is_of_boundaries { error(Metric::TimeLag) } else { 0.0 };
                match (name.key.metric, of(Metric::Rate), of(Metric::Operations), of(time)) {
                    (Metric::Rate, Reading::Measured(rate), Reading::Measured(operations), Reading::Measured(time))
                        if rate == operations * 1e9 / time =>
                    {
                        let at = |time: f64| if time > 0.0 { operations * 1e9 / time } else { f64::INFINITY };
                        (rate - at(time + late), at(time - late) - rate)
                    }
                    (Metric::Rate, ..) => (0.0, 0.0),
                    _ => (late, late),
                }
            }
            _ => (0.0, 0.0),
        }
    }

    /// Why the reading of a metric in a phase of the trial does not count; `None` where it does.
    pub fn excluded(&self, phase: &PhaseRecord, metric: Metric) -> Option<Why> {
        let why = |text: &str| Some(Why::DoesNotCount(text.into()));
        match phase.completion {
            _ if self.ending.outcome == Outcome::WrongAnswer => why("the trial gave a wrong answer"),
            completion if completion.counts(metric) => None,
            Completion::Failed => why("too many operations of the phase failed"),
            Completion::Uncounted => Some(phase.uncounted().unwrap_or(Why::NotReached)),
            Completion::AfterFailure => {
                why("too many operations failed in or before the phase, or how many is not known")
            }
            Completion::Complete | Completion::Partial | Completion::NotReached => Some(Why::NotReached),
        }
    }
}

/// In the reason why a number of bytes written is missing that the device shows to be too large.
pub const MORE_THAN_DEVICE: &str = ", but the device wrote only ";

/// Takes away the bytes written of an instance in a variant's phase in all of its trials where those of one are disproved: there
/// the device shows that the kernel's count is far too large, and in the others it is as much too large, though other processes
/// wrote enough to hide it. What a program prints itself is in another instance than what the kernel counted.
pub fn without_disproved(trials: &mut [TrialRecord]) {
    let written = MetricKeyText(MetricKey::amount(Metric::Written));
    let key = |variant, phase: &str, instance: &str| (variant, phase.to_owned(), instance.to_owned());
    let mut disproved: BTreeMap<(usize, String, String), Why> = BTreeMap::new();
    for trial in trials.iter() {
        for phase in &trial.phases {
            for (instance, readings) in &phase.readings {
                let Some(Reading::Missing(Why::NotSupported(why))) = readings.get(&written) else { continue };
                if why.contains(MORE_THAN_DEVICE) {
                    let why = Why::NotSupported(format!("as another trial shows, {why}").into());
                    disproved.entry(key(trial.trial.variant, &phase.name, instance)).or_insert(why);
                }
            }
        }
    }
    for trial in trials.iter_mut().filter(|_| !disproved.is_empty()) {
        for phase in &mut trial.phases {
            for (instance, readings) in &mut phase.readings {
                let why = disproved.get(&key(trial.trial.variant, &phase.name, instance));
                let reading = readings.get_mut(&written).filter(|reading| reading.measured().is_some());
                why.zip(reading).into_iter().for_each(|(why, reading)| *reading = Reading::Missing(why.clone()));
            }
        }
    }
}

/// What was measured in one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseRecord {
    /// The phase's name.
    pub name: String,
    /// What it does: `put`, `get` ...
    pub action: String,
    /// `false` for set-up.
    pub timed: bool,
    /// How far it got.
    pub completion: Completion,
    /// `CLOCK_MONOTONIC` at its begin; `None` where it was not reached.
    pub begin: Option<Nanos>,
    /// `CLOCK_MONOTONIC` at its end, or at the trial's end where it did not end.
    pub end: Option<Nanos>,
    /// Readings of the whole phase (`""`), which are those of what is measured, and of instances.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub readings: BTreeMap<String, BTreeMap<MetricKeyText, Reading<f64>>>,
    /// Latency histograms.
    pub histograms: Vec<HistogramRecord>,
    /// Wall and CPU time of each group of operations, where groups were sampled.
    pub groups: Option<Groups>,
    /// Operations that ended in each interval, for throughput over time.
    pub throughput: Option<Throughput>,
    /// What reads answered.
    pub answer: Option<Answer>,
    /// First few error texts with their counts; those of a background begin with [`BACKGROUND_ERROR`].
    pub errors: BTreeMap<String, u64>,
}

impl PhaseRecord {
    /// A reading of the whole process tree, whether it counts or not: see [`TrialRecord::figure`].
    pub fn reading(&self, key: MetricKey) -> Option<&Reading<f64>> {
        self.reading_of("", key)
    }

    /// A reading of an instance: a role, a replica or the background; `""` is the whole process tree.
    pub fn reading_of(&self, instance: &str, key: MetricKey) -> Option<&Reading<f64>> {
        self.readings.get(instance)?.get(&MetricKeyText(key))
    }

    /// The value of an instance's amount over the phase.
    pub fn amount_of(&self, instance: &str, metric: Metric) -> Option<f64> {
        self.reading_of(instance, MetricKey::amount(metric))?.measured().copied()
    }

    /// The texts of errors of the phase's own operations (`""`), or of those of its background, and how often each occurred.
    pub fn errors_of(&self, instance: &str) -> impl Iterator<Item = (&str, u64)> {
        self.errors.iter().filter_map(move |(text, times)| match text.strip_prefix(BACKGROUND_ERROR) {
            Some(text) => (instance == BACKGROUND).then_some((text, *times)),
            None => instance.is_empty().then_some((text, *times)),
        })
    }

    /// Why it is not known how many of its operations succeeded or failed, although the program should have reported
    /// that.
    pub fn uncounted(&self) -> Option<Why> {
        let missing = |metric: Metric| match self.reading(MetricKey::amount(metric))? {
            Reading::Missing(why) => Some(format!("`{metric}` of the phase is unknown: {why}", metric = metric.name())),
            Reading::Measured(_) => None,
        };
        [Metric::Errors, Metric::Operations].into_iter().find_map(missing).map(|why| Why::DoesNotCount(why.into()))
    }

    /// The first of [`Self::last_signs`].
    pub fn last_sign(&self) -> Option<Sign> {
        self.last_signs().first().copied()
    }

    /// The signs of activity that came last in a phase that waited for quiet, or were still active at its end; none
    /// where nothing was active. Signs that one poll found active came at the same time.
    pub fn last_signs(&self) -> Vec<Sign> {
        let time = |sign: Sign| match self.reading(MetricKey::amount(sign.metric()))? {
            Reading::Measured(time) => Some(*time),
            Reading::Missing(why) => matches!(why, Why::NotSettled(_)).then_some(f64::INFINITY),
        };
        let active = Sign::ALL.into_iter().filter_map(|sign| Some((sign, time(sign)?))).filter(|(_, time)| *time > 0.0);
        let active: Vec<(Sign, f64)> = active.collect();
        let last = active.iter().map(|(_, time)| *time).reduce(f64::max);
        active.into_iter().filter(|(_, time)| Some(*time) == last).map(|(sign, _)| sign).collect()
    }
}

/// A metric key that serialises as its text, so that it can be a JSON key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetricKeyText(pub MetricKey);

impl Serialize for MetricKeyText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for MetricKeyText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for MetricKeyText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "MetricKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A metric; a gauge has its statistic too: `wall`, `rss.max`." })
    }
}

/// How far a phase got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// Its end was reached; if the phase ends with the subject, the trial also succeeded.
    Complete,
    /// Its end was reached, but more of its operations failed than the experiment allows, so that it did not do the
    /// required work.
    Failed,
    /// Its end was reached, but its output lines did not say how many operations succeeded or failed, although they
    /// should have: whether it did the required work is not known.
    Uncounted,
    /// Its end was reached after another phase had begun in which too many operations failed, or may have: it includes that work, or
    /// works on the data that was left.
    AfterFailure,
    /// It began but did not reach its end; its readings are partial.
    Partial,
    /// It never began.
    #[default]
    NotReached,
}

impl Completion {
    /// Whether a metric of a phase with this completion counts. Where too many operations failed, or may have, only the
    /// numbers of operations and errors count, what services counted, and percentiles, in which each failed operation is infinitely slow
    /// (METHOD 8.2).
    pub const fn counts(self, metric: Metric) -> bool {
        match self {
            Self::Complete => true,
            Self::Failed | Self::Uncounted => {
                matches!(
                    metric,
                    Metric::Errors
                        | Metric::Operations
                        | Metric::Ok
                        | Metric::Timeouts
                        | Metric::Retries
                        | Metric::Unfinished
                        | Metric::SentDistinct
                        | Metric::OperationsPerOk
                        | Metric::Open(_)
                ) || metric.percentile().is_some()
            }
            Self::AfterFailure | Self::Partial | Self::NotReached => false,
        }
    }
}

/// A latency histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramRecord {
    /// The operation: `put`, `read`, `update` ...
    pub operation: String,
    /// From which instant the latency is measured.
    pub kind: LatencyKind,
    /// HdrHistogram V2 encoding, nanoseconds, base64 in JSON.
    #[serde(with = "base64_text")]
    #[schemars(with = "String")]
    pub v2: Vec<u8>,
    /// Failed operations, which count as +infinity in percentiles (METHOD 1.4).
    pub failed: u64,
}

/// What a latency is measured from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LatencyKind {
    /// Closed loop: from the start of the operation.
    Service,
    /// Open loop: from the scheduled start.
    Intended,
    /// Open loop: from the real start.
    Actual,
}

/// Wall and CPU time of each group of operations, in order. Of more than two million, one in 2, 4 ... is kept, and the
/// phase's notes say so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Groups {
    /// Operations a group. A last group with fewer is not kept.
    pub operations: u64,
    /// Wall nanoseconds of each group.
    pub wall: Vec<u64>,
    /// CPU nanoseconds of each group: of the whole process where there is one client, else of the client's thread; empty where the
    /// engine is a server.
    pub cpu: Vec<u64>,
}

/// Operations that ended in each interval since the phase's begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Length of an interval.
    pub interval: Nanos,
    /// Operations that ended in each.
    pub operations: Vec<u64>,
}

/// What reads returned, for comparison between variants (METHOD 1.5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Rows returned; `None` where a program reports a digest but no number of rows.
    pub rows: Option<u64>,
    /// Order-independent digest of the rows in hexadecimal, with a prefix that says what was digested: `lines:` for
    /// number, length and eight bytes of each cache line, `lengths:` for number and length, `bytes:` for everything,
    /// `bodies:` for the bodies of answers to requests and the numbers of these, `reported:` for a digest that a program
    /// reports, `rows:` without a digest where only the number of rows is known. Only digests with the same prefix can be compared.
    pub digest: String,
    /// Whether it may be compared: `false` for phases bounded by time.
    pub comparable: bool,
}

/// Samples of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSeries {
    /// Process id.
    pub pid: u32,
    /// `worker`, or a service's or program's role.
    pub role: String,
    /// Command name.
    pub command: String,
    /// In time order.
    pub samples: Vec<ProcessSample>,
}

/// The longest period of the kernel's scheduler tick (CONFIG_HZ is 100 to 1000), and the unit of CPU times in procfs. The
/// kernel adds to the CPU time of a thread that runs without a break only once a tick (`update_curr` in
/// kernel/sched/fair.c), so that the CPU time of another process is exact once its threads sleep or have ended, and up to a
/// tick per running thread too small before.
pub const TICK: Nanos = Nanos::from_millis(10);

/// One process at one instant. Counters are cumulative since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSample {
    /// `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// User CPU time.
    pub cpu_user: Nanos,
    /// System CPU time.
    pub cpu_system: Nanos,
    /// Time on a CPU (the process's CPU clock), where readable; of a running thread it lacks up to [`TICK`].
    pub on_cpu: Option<Nanos>,
    /// Time waiting for a CPU (schedstat of all threads), where readable.
    pub cpu_wait: Option<Nanos>,
    /// Anonymous resident memory.
    pub anon: Bytes,
    /// File-backed resident memory.
    pub file: Bytes,
    /// Shared resident memory.
    pub shared: Bytes,
    /// Address space.
    pub vsz: Bytes,
    /// Swapped out.
    pub swap: Bytes,
    /// Threads.
    pub threads: u32,
    /// Bytes read from the block layer, where readable.
    pub read: Option<Bytes>,
    /// Bytes written to the block layer, where readable.
    pub written: Option<Bytes>,
    /// Page faults without disk.
    pub minor_faults: u64,
    /// Page faults with disk.
    pub major_faults: u64,
    /// Voluntary context switches of all sampled threads.
    pub switches_voluntary: u64,
    /// Involuntary context switches.
    pub switches_forced: u64,
}

impl ProcessSample {
    /// Resident memory in all.
    pub fn rss(&self) -> Bytes {
        self.anon + self.file + self.shared
    }
}

mod base64_text {
    //! Bytes as base64 in JSON.

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn bytes_survive_json() {
            #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
            struct SuspendedThread(#[serde(with = "super")] Vec<u8>);
            let (bytes, text) = (SuspendedThread(b"any carnal pleas".to_vec()), "\"YW55IGNhcm5hbCBwbGVhcw==\"");
            assert_eq!(serde_json::to_string(&bytes).unwrap(), text);
            assert_eq!(serde_json::from_str::<SuspendedThread>(text).unwrap(), bytes);
            assert!(serde_json::from_str::<SuspendedThread>("\"not base64\"").is_err());
        }
    }
}
