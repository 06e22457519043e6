//! What `prony exec` says of its commands, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::reading::Reading;
use prony_model::record::{Status, TrialRecord};
use prony_model::units::quantity;
use prony_model::units::{Bytes, Unit};
use prony_runtime::Role;
use prony_stats::summary::{Summary, summary};

use super::timeline::Course;
use prony_report::ended;
use prony_report::screen::one_line;

/// Nanoseconds of CPU below which user and system are not distinguished: by default the kernel divides the exact sum by what
/// each tick of some milliseconds happened to find (`cputime_adjust` in kernel/sched/cputime.c).
const SPLIT: f64 = 50e6;

/// Cores below which the course of CPU is not shown: it would read as a program that used none.
const LEAST_CPU: f64 = 0.01;

/// Figures of one metric over trials, or why there is none.
#[derive(Clone, Debug, PartialEq)]
enum Figure {
    /// With the number of trials that have none of it.
    Known(Summary, u32),
    Unknown(String),
}

/// A unit in which every time is shown, whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TimeUnit {
    /// us, with three significant digits at least.
    Microsecond,
    /// ms, with three significant digits at least.
    Millisecond,
    /// s, with three significant digits at least.
    Second,
    /// min, with three significant digits at least.
    Minute,
    /// h, with three significant digits at least.
    Hour,
}

impl TimeUnit {
    /// A time in this unit, with three significant digits at least: a short one is no zero.
    fn text(self, nanos: f64) -> String {
        let (length, least, name) = match self {
            Self::Microsecond => (1e3, 1, "us"),
            Self::Millisecond => (1e6, 1, "ms"),
            Self::Second => (1e9, 3, "s"),
            Self::Minute => (60e9, 3, "min"),
            Self::Hour => (3600e9, 3, "h"),
        };
        let value = nanos / length;
        let digits = if value > 0.0 { (2.0 - value.log10().floor()).max(0.0) as usize } else { 0 };
        format!("{value:.*} {name}", digits.max(least))
    }
}

/// A value with its unit; a time in the unit that was asked for.
fn text(value: f64, unit: Unit, time: Option<TimeUnit>) -> String {
    match (unit, time) {
        (Unit::Nanos, Some(time)) => time.text(value),
        _ => quantity(value, unit),
    }
}

/// The mean wall time of the trials that ended well, in nanoseconds.
pub fn mean_wall(trials: &[&TrialRecord]) -> Option<f64> {
    match figure(trials, MetricKey::amount(Metric::Wall)) {
        Figure::Known(found, _) => Some(found.mean),
        Figure::Unknown(_) => None,
    }
}

/// Everything said of one command; `syncs` where calls such as `fsync` were counted.
pub fn of(
    label: &str,
    trials: &[&TrialRecord],
    courses: Option<(Course, Course)>,
    syncs: bool,
    time: Option<TimeUnit>,
) -> String {
    let mut out = format!("{label}\n");
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:<10} {}", one_line(&text));
    };
    line("outcome", outcomes(trials));
    if let Some(evidence) = evidence(trials) {
        line("", evidence);
    }
    if let Some(ignored) = ignored(trials) {
        line("", ignored);
    }
    if trials.len() > 1 {
        line(
            "",
            "figures are medians over trials (lowest to highest); memory is the largest sample of each".to_owned(),
        );
    }
    let figure = |key: MetricKey| figure(trials, key);
    let amount = |metric| MetricKey::amount(metric);
    line("wall", with_range(&figure(amount(Metric::Wall)), Unit::Nanos, time));
    line("cpu", cpu(trials, time));
    let largest = |metric| figure(MetricKey::gauge(metric, Stat::Max));
    line("anonymous", with_range(&largest(Metric::Anon), Unit::Bytes, time));
    line("mapped", with_range(&largest(Metric::File), Unit::Bytes, time));
    line("peak", peak(trials, time));
    let io = [Metric::Read, Metric::Written].map(|metric| short(&figure(amount(metric)), Unit::Bytes, time));
    let mut disk = format!("read {}, written {}", io[0], io[1]);
    if syncs {
        disk += &format!(", fsyncs {}", short(&figure(amount(Metric::Fsyncs)), Unit::Count, time));
    }
    line("disk", disk);
    if trials.iter().any(|trial| trial.conditions.probe.is_some()) {
        heaps(trials, time).into_iter().for_each(|(name, text)| line(name, text));
    }
    if let Some((cpu, memory)) = courses {
        if cpu.highest >= LEAST_CPU {
            line("", format!("{}  CPU, at most {:.2} cores", cpu.text, cpu.highest));
        }
        line("", format!("{}  anonymous memory, at most {}", memory.text, Bytes::from_bytes(memory.highest as u64)));
    }
    for finding in findings(trials) {
        line("note", finding);
    }
    out
}

/// CPU time, split where that says something.
fn cpu(trials: &[&TrialRecord], time: Option<TimeUnit>) -> String {
    let of = |metric| figure(trials, MetricKey::amount(metric));
    let all = of(Metric::Cpu);
    let text = with_range(&all, Unit::Nanos, time);
    match all {
        Figure::Known(found, _) if found.median < SPLIT => format!("{text}, too short to tell user from system"),
        _ => {
            let [user, system] =
                [Metric::CpuUser, Metric::CpuSystem].map(|metric| short(&of(metric), Unit::Nanos, time));
            format!("{text}, user {user}, system {system}")
        }
    }
}

/// The kernel's own peak of resident memory; where several processes ran it keeps one for each, so that samples must do.
fn peak(trials: &[&TrialRecord], time: Option<TimeUnit>) -> String {
    let of = |stat| figure(trials, MetricKey::gauge(Metric::Rss, stat));
    match (of(Stat::Peak), of(Stat::Max)) {
        (Figure::Unknown(why), sampled @ Figure::Known(..)) => {
            let sampled = with_range(&sampled, Unit::Bytes, time);
            format!(
                "{sampled} resident by samples, summed over processes, so that shared pages count several times; no peak by the kernel: {why}"
            )
        }
        (exact, _) => with_range(&exact, Unit::Bytes, time),
    }
}

/// What the runtime tells of its heaps, and what asking it took.
fn heaps(trials: &[&TrialRecord], time: Option<TimeUnit>) -> Vec<(&'static str, String)> {
    let gauge = |metric, stat| figure(trials, MetricKey::gauge(metric, stat));
    let largest = gauge(Metric::HeapUsed, Stat::Max);
    let blocks = gauge(Metric::HeapBlocks, Stat::Max);
    let [end, total, external] =
        [(Metric::HeapUsed, Stat::End), (Metric::HeapTotal, Stat::Max), (Metric::External, Stat::Max)]
            .map(|(metric, stat)| short(&gauge(metric, stat), Unit::Bytes, time));
    let heap = match (&largest, &blocks) {
        (Figure::Unknown(_), Figure::Known(..)) => format!("{} blocks", with_range(&blocks, Unit::Count, time)),
        (Figure::Unknown(_), _) => with_range(&gauge(Metric::HeapUsed, Stat::End), Unit::Bytes, time),
        _ => {
            format!("{}, at the end {end}, total {total}, external {external}", with_range(&largest, Unit::Bytes, time))
        }
    };
    let amount = |metric| figure(trials, MetricKey::amount(metric));
    let collections = match amount(Metric::GcCount) {
        unknown @ Figure::Unknown(_) => with_range(&unknown, Unit::Count, time),
        count => {
            format!(
                "{} in {} collections",
                short(&amount(Metric::GcTime), Unit::Nanos, time),
                short(&count, Unit::Count, time)
            )
        }
    };
    let mut lines = vec![("heap", heap), ("gc", collections)];
    let of_role = |role: &Role| {
        let key = MetricKey::gauge(Metric::HeapUsed, Stat::Max);
        let of = |trial: &&TrialRecord| value(trial, Some(role.name()), key)?.measured().copied();
        let values: Vec<f64> = trials.iter().filter_map(of).collect();
        Some(format!("{} {}", role.name(), quantity(summary(&values)?.median, Unit::Bytes)))
    };
    let roles: Vec<String> = Role::ALL.iter().filter_map(of_role).collect();
    if !roles.is_empty() {
        lines.push(("heaps", format!("{}, each at its largest", roles.join(", "))));
    }
    let probes = trials.iter().filter_map(|trial| trial.conditions.probe.as_ref());
    let spoke = probes.filter(|probe| !probe.threads.is_empty());
    let costs: Vec<f64> = spoke.map(|probe| probe.cost.as_nanos() as f64).collect();
    let cost = summary(&costs).map(|found| text(found.median, Unit::Nanos, time));
    lines.extend(cost.map(|cost| ("probe", format!("{cost} by its own account, contained in the figures"))));
    lines
}

/// `10 ok`, `8 ok, 2 timed out in run`.
fn outcomes(trials: &[&TrialRecord]) -> String {
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for trial in trials {
        let place = trial.ending.phase.as_ref().map(|phase| format!(" in {phase}")).unwrap_or_default();
        let kind = format!("{}{place}", trial.ending.outcome);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
}

/// Exit codes beside 0 that were no failure: `exit codes ignored: 3 of 10 ended with 1`.
fn ignored(trials: &[&TrialRecord]) -> Option<String> {
    let ended_well = trials.iter().filter(|trial| trial.ending.outcome.is_ok());
    let mut codes: BTreeMap<i32, usize> = BTreeMap::new();
    for status in ended_well.filter_map(|trial| trial.program()?.status) {
        if let Status::Exited(code @ (..=-1 | 1..)) = status {
            *codes.entry(code).or_default() += 1;
        }
    }
    let of = |(code, times): (&i32, &usize)| format!("{times} of {} ended with {code}", trials.len());
    let texts: Vec<String> = codes.iter().map(of).collect();
    (!texts.is_empty()).then(|| format!("exit codes ignored: {}", texts.join(", ")))
}

/// Of the first trial that did not end well.
fn evidence(trials: &[&TrialRecord]) -> Option<String> {
    trials.iter().find(|trial| !trial.ending.outcome.is_ok()).map(|trial| trial.ending.evidence.join("; "))
}

/// A figure of a trial that counts, or why there is none.
pub fn value(trial: &TrialRecord, instance: Option<&str>, key: MetricKey) -> Option<Reading<f64>> {
    let phase = trial.phases.first()?.name.clone();
    Some(trial.figure(&MetricName { phase, instance: instance.map(str::to_owned), key }))
}

/// Over all trials that have the figure.
fn figure(trials: &[&TrialRecord], key: MetricKey) -> Figure {
    if !trials.is_empty() && trials.iter().all(|trial| !trial.ending.outcome.is_ok()) {
        return Figure::Unknown(ended(trials));
    }
    let readings = trials.iter().filter_map(|trial| Some((trial, value(trial, None, key)?)));
    let readings: Vec<(&&TrialRecord, Reading<f64>)> = readings.collect();
    let values: Vec<f64> = readings.iter().filter_map(|(_, reading)| reading.measured().copied()).collect();
    let why = readings.iter().find_map(|(trial, reading)| match reading {
        Reading::Missing(why) if trial.ending.outcome.is_ok() => Some(why.to_string()),
        _ => None,
    });
    match summary(&values) {
        Some(summary) => Figure::Known(summary, u32::try_from(trials.len() - values.len()).unwrap_or(u32::MAX)),
        None => Figure::Unknown(why.unwrap_or_else(|| "no trial has it".to_owned())),
    }
}

/// `102 ms, 101 ms to 104 ms`.
fn with_range(figure: &Figure, unit: Unit, time: Option<TimeUnit>) -> String {
    match figure {
        Figure::Unknown(why) => format!("- ({why})"),
        Figure::Known(found, 0) if found.n == 1 => text(found.median, unit, time),
        Figure::Known(found, without) => {
            let [median, min, max] = [found.median, found.min, found.max].map(|value| text(value, unit, time));
            let part =
                if *without > 0 { format!(", of {} of {} trials", found.n, found.n + without) } else { String::new() };
            format!("{median} ({min} to {max}{part})")
        }
    }
}

fn short(figure: &Figure, unit: Unit, time: Option<TimeUnit>) -> String {
    match figure {
        Figure::Unknown(_) => "-".to_owned(),
        Figure::Known(found, _) => text(found.median, unit, time),
    }
}

/// Each finding once, with how many trials have it.
fn findings(trials: &[&TrialRecord]) -> Vec<String> {
    let mut found: Vec<(&str, &str, usize)> = Vec::new();
    for finding in trials.iter().flat_map(|trial| &trial.findings) {
        match found.iter_mut().find(|(guard, _, _)| *guard == finding.guard) {
            Some((_, _, count)) => *count += 1,
            None => found.push((&finding.guard, &finding.message, 1)),
        }
    }
    found.into_iter().map(|(_, message, count)| format!("{message} ({count} of {} trials)", trials.len())).collect()
}

#[cfg(test)]
mod tests {
    use prony_model::outcome::Outcome;
    use prony_model::record::Conditions;
    use serde_json::{Value, json};

    use super::*;

    fn trial(outcome: Outcome, phases: &Value) -> TrialRecord {
        serde_json::from_value(json!({
            "trial": { "block": 0, "sub_block": 0, "position": 0, "variant": 0, "label": "a", "seed": 1 },
            "started_unix_ms": 0, "took": 1, "ending": { "outcome": outcome, "phase": null, "after": 1, "evidence": [] },
            "phases": phases, "effective": null, "conditions": Conditions::default(), "series": [],
            "sampler_cpu": { "measured": 0 },
            "findings": []
        }))
        .unwrap()
    }

    #[test]
    fn short_times_are_no_zeros_in_long_units() {
        let shown = |unit: TimeUnit| [5.1e6, 7.26e12, 0.0].map(|nanos| unit.text(nanos));
        assert_eq!(shown(TimeUnit::Hour), ["0.00000142 h", "2.017 h", "0.000 h"]);
        assert_eq!(shown(TimeUnit::Second), ["0.00510 s", "7260.000 s", "0.000 s"]);
        assert_eq!(shown(TimeUnit::Millisecond), ["5.10 ms", "7260000.0 ms", "0.0 ms"]);
    }

    #[test]
    fn a_reason_is_that_of_its_own_trial() {
        let unread = json!([{
            "name": "run", "action": "observe", "timed": true, "completion": "complete", "begin": 0, "end": 1,
            "readings": { "": { "cpu": { "missing": { "failed": "it was not read" } } } }, "histograms": [],
            "groups": null, "throughput": null, "answer": null, "errors": {}
        }]);
        let (none, well) = (trial(Outcome::TimedOut, &json!([])), trial(Outcome::Ok, &unread));
        let Figure::Unknown(why) = figure(&[&none, &well], MetricKey::amount(Metric::Cpu)) else { panic!("a figure") };
        assert!(why.contains("it was not read"), "{why}");
    }
}
