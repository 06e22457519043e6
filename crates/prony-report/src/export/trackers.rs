//! Exports the medians of a run for services that track benchmarks over commits: Bencher's format (BMF,
//! <https://bencher.dev/bmf.json>) and the two of github-action-benchmark.
//!
//! Exported are the metrics that the experiment compares, as they are stored: nanoseconds, bytes, numbers. A tracker shows one
//! number for a commit and cannot show why there is none, so that a number is exported only if every trial of the variant
//! succeeded and has it, and no guard refused to compare it with its baseline. What is left out is returned.

use std::collections::BTreeMap;
use std::io::Write;

use prony_analysis::verdicts::{self, Line, declared, names};
use prony_experiment::design::Variant;
use prony_model::metric::{Better, MetricName};
use prony_model::number::count;
use prony_model::outcome::{Outcome, counted};
use prony_model::reading::Reading;
use prony_model::record::TrialRecord;
use prony_model::units::Unit;
use prony_results::RunData;
use prony_stats::Verdict;
use prony_stats::summary::{median, median_interval};
use serde::Serialize;

use crate::disagreements::disagreeing;
use crate::error::Error;
use crate::variants::trials_of;

/// The level of the intervals.
const LEVEL: f64 = 0.95;

/// Bencher refuses longer names.
const LONGEST: usize = 1024;

/// A format that a tracker of benchmarks reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracker {
    /// Bencher's.
    Bencher,
    /// That of github-action-benchmark for values of which less is better.
    Smaller,
    /// That of github-action-benchmark for values of which more is better.
    Bigger,
}

impl Tracker {
    /// Whether the format has a metric of this kind. Bencher knows no direction; a file of the others has one for all of its
    /// values, so that a value of the other direction would be read the wrong way round.
    const fn takes(self, better: Better) -> bool {
        match self {
            Self::Bencher => true,
            Self::Smaller => matches!(better, Better::Lower),
            Self::Bigger => matches!(better, Better::Higher),
        }
    }
}

/// What was written and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracked {
    /// Numbers that were written.
    pub written: usize,
    /// What was left out, and why; a sentence each.
    pub left_out: Vec<String>,
    /// Whether something was left out because trials failed or answers differ.
    pub failed: bool,
}

/// A median over the trials of a variant.
struct Entry {
    /// The title, the variant and the phase: `Two revisions / code=head / run`.
    place: String,
    metric: MetricName,
    median: f64,
    interval: Option<(f64, f64)>,
    trials: usize,
}

/// A number in Bencher's format.
#[derive(Serialize)]
struct Measure {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

/// A number in the formats of github-action-benchmark.
#[derive(Serialize)]
struct Bench {
    name: String,
    unit: &'static str,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    extra: String,
}

/// Writes the medians of the compared metrics.
///
/// # Errors
/// [`Error::Write`], [`Error::Json`].
pub fn tracked(data: &RunData, tracker: Tracker, out: &mut dyn Write) -> Result<Tracked, Error> {
    let (mut tracked, mut entries) = (Tracked::default(), Vec::new());
    let metrics = declared(&data.experiment);
    for metric in metrics.iter().filter(|metric| !tracker.takes(metric.key.metric.better())) {
        tracked.left_out.push(format!("`{metric}`: {}", not_taken(metric)));
    }
    let wrong = disagreeing(data);
    let lines = verdicts::of(data).lines;
    for phase in &wrong {
        tracked.left_out.push(format!("phase `{phase}`: its variants gave different answers (`answers_differ`)"));
        tracked.failed = true;
    }
    for variant in data.experiment.variants() {
        let trials: Vec<&TrialRecord> = trials_of(data, variant.id).collect();
        let failed: Vec<Outcome> =
            trials.iter().map(|trial| trial.ending.outcome).filter(|outcome| !outcome.is_ok()).collect();
        if !failed.is_empty() || trials.is_empty() {
            let why = match failed.len() {
                0 => "no trial of it ran".to_owned(),
                n => format!("{n} of {} failed: {}", count(trials.len(), "trial"), counted(failed)),
            };
            tracked.left_out.push(format!("`{}`: {why}", name(data, variant)));
            tracked.failed = true;
            continue;
        }
        let can_be = |metric: &&MetricName| tracker.takes(metric.key.metric.better()) && !wrong.contains(&metric.phase);
        for metric in metrics.iter().filter(can_be) {
            if let Some(why) = refusal(&lines, variant, metric) {
                let what = format!("`{metric}` of `{}`", name(data, variant));
                tracked.left_out.push(format!("{what}: not compared with its baseline: {why}"));
            } else if variant.spec.phases.iter().any(|phase| phase.name == metric.phase) {
                match entry(data, variant, &trials, metric) {
                    Ok(entry) => entries.push(entry),
                    Err(why) => tracked.left_out.push(why),
                }
            }
        }
    }
    tracked.written = entries.len();
    match tracker {
        Tracker::Bencher => serde_json::to_writer_pretty(&mut *out, &bencher(entries)),
        Tracker::Smaller | Tracker::Bigger => serde_json::to_writer_pretty(&mut *out, &benches(entries)),
    }
    .map_err(super::not_json)?;
    super::ended(out)?;
    Ok(tracked)
}

/// Why a metric of a variant is not compared, which did other work than its baseline.
fn refusal<'l>(lines: &'l [Line], variant: &Variant, metric: &MetricName) -> Option<&'l str> {
    let own = |line: &&Line| line.pair.variant == variant.id && line.pair.metric == *metric;
    match &lines.iter().find(own)?.comparison.verdict {
        Verdict::Refused { why, .. } => Some(why),
        _ => None,
    }
}

fn not_taken(metric: &MetricName) -> &'static str {
    match metric.key.metric.better() {
        Better::Lower => "less is better",
        Better::Higher => "more is better",
        Better::Neither => "neither less nor more is better",
    }
}

/// By all factors: by those that vary, a variant would have another name where fewer levels run.
fn name(data: &RunData, variant: &Variant) -> String {
    let all: Vec<usize> = (0..data.experiment.factors().len()).collect();
    names::levels(&data.experiment, variant.id, &all)
}

fn entry(data: &RunData, variant: &Variant, trials: &[&TrialRecord], metric: &MetricName) -> Result<Entry, String> {
    let levels = name(data, variant);
    let (mut values, mut missing) = (Vec::new(), Vec::new());
    for trial in trials {
        match trial.figure(metric) {
            Reading::Measured(value) => values.push(value),
            Reading::Missing(why) => missing.push(why),
        }
    }
    let of = if levels.is_empty() { String::new() } else { format!(" of `{levels}`") };
    if let Some(why) = missing.first() {
        return Err(format!("`{metric}`{of}: missing in {} of {}: {why}", missing.len(), count(trials.len(), "trial")));
    }
    let title = data.head.title.as_str();
    let place = [title, &levels, &metric.phase].into_iter().filter(|part| !part.is_empty());
    let place = place.collect::<Vec<_>>().join(" / ");
    if place.chars().count() > LONGEST {
        return Err(format!("`{metric}`{of}: its name is longer than {LONGEST} characters"));
    }
    // JSON has no other numbers.
    let finite = |value: f64| value.is_finite().then_some(value);
    let middle = median(&values).and_then(finite).ok_or_else(|| format!("`{metric}`{of}: not a finite number"))?;
    let interval = median_interval(&values, LEVEL).measured().copied();
    let interval = interval.filter(|(low, high)| low.is_finite() && high.is_finite());
    Ok(Entry { place, metric: metric.clone(), median: middle, interval, trials: values.len() })
}

/// The metric without its phase: `time`, `mongo.cpu`.
fn within_phase(metric: &MetricName) -> String {
    metric.to_string().strip_prefix(&format!("{}.", metric.phase)).map_or_else(|| metric.to_string(), str::to_owned)
}

/// The phase is part of the benchmark's name, since the names of measures are short and each has a unit of its own.
fn bencher(entries: Vec<Entry>) -> BTreeMap<String, BTreeMap<String, Measure>> {
    let mut all: BTreeMap<String, BTreeMap<String, Measure>> = BTreeMap::new();
    for entry in entries {
        let measure = format!("{} ({})", within_phase(&entry.metric), unit(&entry.metric));
        let (low, high) = (entry.interval.map(|(low, _)| low), entry.interval.map(|(_, high)| high));
        let number = Measure { value: entry.median, lower_value: low, upper_value: high };
        all.entry(entry.place).or_default().insert(measure, number);
    }
    all
}

fn benches(entries: Vec<Entry>) -> Vec<Bench> {
    let bench = |entry: Entry| Bench {
        name: format!("{} / {}", entry.place, within_phase(&entry.metric)),
        unit: unit(&entry.metric),
        value: entry.median,
        range: entry.interval.map(|(low, high)| format!("{low} to {high}")),
        extra: format!("median of {}, range: its 95 % interval", count(entry.trials, "trial")),
    };
    entries.into_iter().map(bench).collect()
}

/// The unit of a stored number.
fn unit(metric: &MetricName) -> &'static str {
    match metric.key.metric.unit() {
        Unit::Nanos => "ns",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
        Unit::PerSecond => "per second",
        Unit::Ratio => "ratio",
    }
}
