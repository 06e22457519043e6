//! CPU, memory and I/O of a trial's whole process tree over time, with its phases.

use std::collections::BTreeMap;

use prony_model::record::{ProcessSample, ProcessSeries, TrialRecord};
use prony_model::units::Bytes;
use serde::Serialize;

use super::Source;
use super::thin::{Point, largest, rates};
use crate::error::Error;

/// One trial's timeline in equal steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Index of the trial in the run.
    pub trial: usize,
    /// Index of the variant.
    pub variant: usize,
    /// Seconds a step.
    pub step: f64,
    /// Samples of the process tree that it was made from.
    pub samples: usize,
    /// The phases, in seconds since the origin.
    pub phases: Vec<Span>,
    /// By quantity, in the order of [`QUANTITIES`]; each as many values as there are steps.
    pub values: Vec<Vec<Option<f64>>>,
}

/// A phase's time within a trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// Seconds since the origin.
    pub begin: f64,
    /// Seconds since the origin.
    pub end: f64,
    /// `false` for set-up.
    pub timed: bool,
}

/// What a timeline shows: name, title and unit.
pub const QUANTITIES: [(&str, &str, &str); 5] = [
    ("cpu", "CPU of the process tree", "cores"),
    ("anon", "Anonymous memory", "bytes"),
    ("file", "Mapped and other file-backed memory", "bytes"),
    ("read", "Bytes read from the device", "bytes/s"),
    ("written", "Bytes handed to the device", "bytes/s"),
];

/// How a quantity is taken from a sample; `None` where it was not readable.
type Take = fn(&ProcessSample) -> Option<f64>;

const TAKES: [Take; 5] = [
    |s| Some((s.cpu_user + s.cpu_system).as_secs_f64()),
    |s| Some(s.anon.as_bytes() as f64),
    |s| Some(s.file.as_bytes() as f64),
    |s| s.read.map(|b: Bytes| b.as_bytes() as f64),
    |s| s.written.map(|b: Bytes| b.as_bytes() as f64),
];

/// The timeline of a trial in at most `steps` steps; `None` where nothing was sampled.
///
/// # Errors
/// Those of the database.
pub fn timeline(source: Source<'_>, trial: usize, steps: usize) -> Result<Option<Timeline>, Error> {
    let record = &source.data.trials[trial];
    let series = source.database.load_series(source.data.head.id, record.trial.position)?;
    Ok(of_series(record, &series, steps).map(|timeline| Timeline { trial, ..timeline }))
}

fn of_series(record: &TrialRecord, series: &[ProcessSeries], steps: usize) -> Option<Timeline> {
    let instants = || series.iter().flat_map(|s| &s.samples).map(|s| s.at.as_nanos());
    let sampled = (instants().min()?, instants().max()?);
    let phases: Vec<(u64, u64)> =
        record.phases.iter().filter_map(|p| Some((p.begin?.as_nanos(), p.end?.as_nanos()))).collect();
    let origin = phases.iter().map(|p| p.0).min().map_or(sampled.0, |begin| begin.min(sampled.0));
    let end = phases.iter().map(|p| p.1).max().map_or(sampled.1, |end| end.max(sampled.1));
    let span = end.saturating_sub(origin).max(1);
    let samples = instants().count();
    let longest = series.iter().map(|s| s.samples.len()).max().unwrap_or(0);
    let steps = steps.min(longest).max(1);
    let values = TAKES.iter().enumerate().map(|(i, take)| {
        let points = total(series, origin, *take, is_level(i));
        if is_level(i) { largest(&points, span, steps) } else { rates(&points, span, steps) }
    });
    Some(Timeline {
        trial: 0,
        variant: record.trial.variant,
        step: span as f64 / 1e9 / steps as f64,
        samples,
        phases: spans(record, origin),
        values: values.collect(),
    })
}

/// Memory is a level at an instant; the rest are cumulative counters.
const fn is_level(quantity: usize) -> bool {
    matches!(quantity, 1 | 2)
}

fn spans(record: &TrialRecord, origin: u64) -> Vec<Span> {
    let seconds = |at: u64| at.saturating_sub(origin) as f64 / 1e9;
    let span = |phase: &prony_model::record::PhaseRecord| {
        let (begin, end) = (seconds(phase.begin?.as_nanos()), seconds(phase.end?.as_nanos()));
        Some(Span { name: phase.name.clone(), begin, end, timed: phase.timed })
    };
    record.phases.iter().filter_map(span).collect()
}

/// The sum over the processes after each sweep of the sampler. A process that is gone holds no memory, and its
/// counters stay where they were; one that appears later began at zero.
fn total(series: &[ProcessSeries], origin: u64, take: Take, level: bool) -> Vec<Point> {
    let mut events: Vec<(u64, usize, Option<f64>)> = Vec::new();
    for (process, one) in series.iter().enumerate() {
        let read = one.samples.iter().filter_map(|s| Some((s.at.as_nanos() - origin, process, Some(take(s)?))));
        events.extend(read);
        if level && let Some(last) = one.samples.last() {
            // In the sweep after its last sample, which it must not hide.
            events.push((last.at.as_nanos() - origin + SWEEP, process, None));
        }
    }
    events.sort_by_key(|(at, ..)| *at);
    let end = events.iter().rev().find(|e| e.2.is_some()).map_or(0, |e| e.0);
    let mut now: BTreeMap<usize, f64> = BTreeMap::new();
    let mut points: Vec<Point> = Vec::new();
    for (at, process, value) in events.into_iter().filter(|e| e.0 <= end) {
        match value {
            Some(value) => now.insert(process, value),
            None => now.remove(&process),
        };
        // Samples of one sweep are one instant: a later one of it replaces the sum.
        let value = now.values().sum();
        match points.last_mut() {
            Some(last) if at - last.at < SWEEP => last.value = value,
            _ => points.push(Point { at, value }),
        }
    }
    points
}

/// Samples nearer than this belong to one sweep over the tree: 2 ms.
const SWEEP: u64 = 2_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::units::Nanos;

    fn process(pid: u32, from: u64, count: u64, anon: u64) -> ProcessSeries {
        let sample = |i: u64| ProcessSample {
            at: Nanos::from_millis(from + 100 * i),
            cpu_user: Nanos::from_millis(50 * i),
            anon: Bytes::from_bytes(anon),
            ..ProcessSample::default()
        };
        ProcessSeries { pid, role: "w".into(), command: "c".into(), samples: (0..count).map(sample).collect() }
    }

    #[test]
    fn memory_of_processes_is_added_while_they_live() {
        let series = [process(1, 0, 11, 100), process(2, 301, 3, 50)];
        let points = total(&series, 0, TAKES[1], true);
        let values: Vec<f64> = points.iter().map(|p| p.value).collect();
        assert_eq!(values, [[100.0; 3].as_slice(), &[150.0; 3], &[100.0; 6]].concat());
    }

    #[test]
    fn timeline_includes_cpu_of_ended_processes() {
        let series = [process(1, 0, 11, 0), process(2, 0, 3, 0)];
        let points = total(&series, 0, TAKES[0], false);
        assert!((points.last().unwrap().value - 0.6).abs() < 1e-9);
        assert!(points.windows(2).all(|w| w[0].value <= w[1].value));
    }

    #[test]
    fn what_could_not_be_read_has_no_points() {
        assert!(total(&[process(1, 0, 5, 1)], 0, TAKES[3], false).is_empty());
    }
}
