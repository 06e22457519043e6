//! Shows how CPU use and memory changed during a trial: one line of block characters for each.

use std::collections::BTreeMap;

use prony_model::record::{ProcessSample, ProcessSeries, TICK, TrialRecord};
use prony_model::units::{Bytes, Nanos};

use crate::error::Error;
use prony_report::Remarks;
use prony_results::{Database, RunData};

/// Columns of a course, at most.
const WIDEST: usize = 60;

/// Cores below which the course of CPU is not shown: it would read as a program that used none.
const LEAST_CPU: f64 = 0.01;

/// From nothing to full.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Nanoseconds of a slice, at least: shorter ones show more cores than the machine has.
const SHORTEST: u64 = 5 * TICK.as_nanos();

/// Fewer instants or slices show no course.
const FEWEST: usize = 4;

/// A course as characters, with what its highest stands for.
#[derive(Clone, Debug, PartialEq)]
struct Course {
    /// One character a slice of time.
    text: String,
    /// The highest slice.
    highest: f64,
}

/// The courses of each program since it was released, of the trial whose duration is the middle one of those that ended well.
///
/// # Errors
/// Those of the database.
pub(crate) fn remarks(database: &Database, data: &RunData, width: Option<usize>) -> Result<Remarks, Error> {
    let width = width.map_or(WIDEST, |width| width.saturating_sub(50).clamp(10, WIDEST));
    let experiment = &data.experiment;
    let mut lines = Vec::new();
    for variant in experiment.variants().iter().filter(|variant| variant.spec.subject.program().is_some()) {
        let Some(trial) = median_trial(data, variant.id) else { continue };
        let Some(begin) = trial.phases.iter().filter_map(|phase| phase.begin).min() else { continue };
        let mut series = database.load_series(data.head.id, trial.trial.position)?;
        series.retain(|process| variant.spec.measures(&process.role));
        let Some((cpu, memory)) = of(&series, begin, width) else { continue };
        let whose = match experiment.variants().len() {
            1 => String::new(),
            _ => format!(", `{}`", experiment.labels(variant)),
        };
        if let Some(cpu) = cpu.filter(|cpu| cpu.highest >= LEAST_CPU) {
            lines.push(format!("{}  CPU, at most {:.2} cores{whose}", cpu.text, cpu.highest));
        }
        let most = Bytes::from_bytes(memory.highest as u64);
        lines.push(format!("{}  anonymous memory, at most {most}{whose}", memory.text));
    }
    let mut note = "From the start to the end of the trial whose duration is the median".to_owned();
    if experiment.variants().iter().any(|variant| !variant.spec.services.is_empty()) {
        note.push_str("; without the services beside the program");
    }
    Ok(Remarks { title: "CPU and memory over time", lines, note })
}

fn median_trial(data: &RunData, variant: usize) -> Option<&TrialRecord> {
    let well = |trial: &&TrialRecord| trial.trial.variant == variant && trial.ending.outcome.is_ok();
    let mut sorted: Vec<&TrialRecord> = data.trials.iter().filter(well).collect();
    sorted.sort_by_key(|trial| trial.took);
    sorted.get(sorted.len() / 2).copied()
}

/// CPU in cores and anonymous memory in bytes since a trial's program was released at `begin`; `None` where it was too
/// short to be sampled often enough. Memory of samples up to `begin` is none of the program's.
fn of(series: &[ProcessSeries], begin: Nanos, width: usize) -> Option<(Option<Course>, Course)> {
    let cut = |process: &ProcessSeries| process.samples.partition_point(|sample| sample.at <= begin);
    let mut instants: BTreeMap<Nanos, f64> = BTreeMap::new();
    for sample in series.iter().flat_map(|process| &process.samples[cut(process)..]) {
        *instants.entry(sample.at).or_default() += sample.anon.as_bytes() as f64;
    }
    if instants.len() < FEWEST {
        return None;
    }
    let length = instants.keys().next_back()?.since(begin).as_nanos();
    let slices = |count| Slices { first: begin, length: length.max(1) as f64, count };
    let most = instants.len().min((length / SHORTEST) as usize);
    let of_cpu = (most >= FEWEST).then(|| slices(width.clamp(FEWEST, most)));
    let slices = slices(width.clamp(FEWEST, instants.len()));
    let mut memory: Vec<Option<f64>> = vec![None; slices.count];
    for (at, anon) in &instants {
        let slot = &mut memory[slices.of(*at)];
        *slot = Some(slot.unwrap_or(0.0).max(*anon));
    }
    // Where no sample fell into a slice, memory is what it was.
    let or_before = |before: &mut f64, slot: Option<f64>| {
        *before = slot.unwrap_or(*before);
        Some(*before)
    };
    let memory: Vec<f64> = memory.into_iter().scan(0.0, or_before).collect();
    Some((of_cpu.map(|slices| of_cores(series, begin, &instants, &slices)), course(&memory)))
}

/// The cores that were busy, over slices that are long enough.
fn of_cores(series: &[ProcessSeries], begin: Nanos, instants: &BTreeMap<Nanos, f64>, slices: &Slices) -> Course {
    let mut cpu = vec![0.0; slices.count];
    for process in series {
        let (before, since) = process.samples.split_at(process.samples.partition_point(|sample| sample.at <= begin));
        let Some(one) = since.first() else { continue };
        // Counters begin with the process: one that was not there at the instant before has used all of it since.
        let instant = instants.range(..one.at).next_back().map_or(begin, |(at, _)| *at);
        let from = before.last().map_or_else(
            || ProcessSample { at: instant, ..ProcessSample::default() },
            |known| ProcessSample { at: begin, ..*known },
        );
        slices.spread(&from, one, &mut cpu);
        since.windows(2).for_each(|pair| slices.spread(&pair[0], &pair[1], &mut cpu));
    }
    course(&cpu)
}

struct Slices {
    first: Nanos,
    length: f64,
    count: usize,
}

impl Slices {
    /// A sample stands at the end of its slice.
    fn of(&self, at: Nanos) -> usize {
        (self.place(at).ceil() as usize).clamp(1, self.count) - 1
    }

    /// In slices from the first instant.
    fn place(&self, at: Nanos) -> f64 {
        at.since(self.first).as_nanos() as f64 / self.length * self.count as f64
    }

    /// Adds the cores that were busy between two samples to the slices that lie between them.
    fn spread(&self, from: &ProcessSample, to: &ProcessSample, slices: &mut [f64]) {
        let used = |sample: &ProcessSample| sample.on_cpu.unwrap_or(sample.cpu_user + sample.cpu_system);
        let wall = to.at.since(from.at).as_nanos() as f64;
        if wall == 0.0 {
            return;
        }
        let cores = used(to).since(used(from)).as_nanos() as f64 / wall;
        let (begin, end) = (self.place(from.at), self.place(to.at));
        for (slot, busy) in slices.iter_mut().enumerate() {
            let share = end.min(slot as f64 + 1.0) - begin.max(slot as f64);
            *busy += cores * share.max(0.0);
        }
    }
}

fn course(values: &[f64]) -> Course {
    let highest = values.iter().copied().fold(0.0, f64::max);
    let step = |value: &f64| {
        let level = if highest > 0.0 { value / highest * (STEPS.len() - 1) as f64 } else { 0.0 };
        STEPS[(level.round() as usize).min(STEPS.len() - 1)]
    };
    Course { text: values.iter().map(step).collect(), highest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(samples: &[(u64, u64, u64)]) -> ProcessSeries {
        let sample = |(at, cpu, anon): &(u64, u64, u64)| ProcessSample {
            at: Nanos::from_millis(10 * *at),
            on_cpu: Some(Nanos::from_millis(10 * *cpu)),
            anon: Bytes::from_bytes(*anon),
            ..ProcessSample::default()
        };
        ProcessSeries { pid: 1, role: "x".into(), command: "x".into(), samples: samples.iter().map(sample).collect() }
    }

    fn both(series: &[ProcessSeries], begin: Nanos, width: usize) -> (Course, Course) {
        let (cpu, memory) = of(series, begin, width).unwrap();
        (cpu.unwrap(), memory)
    }

    #[test]
    fn a_short_trial_has_a_course_of_memory_only() {
        let mut short = process(&[(1, 1, 5), (2, 1, 5), (3, 1, 5), (4, 2, 9)]);
        short.samples.iter_mut().for_each(|sample| sample.at = Nanos::from_nanos(sample.at.as_nanos() / 10));
        let (cpu, memory) = of(&[short], Nanos::ZERO, 9).unwrap();
        assert_eq!((cpu, memory.highest), (None, 9.0));
    }

    #[test]
    fn a_burst_and_growth_show_where_they_were() {
        let one = process(&[(0, 0, 0), (10, 10, 100), (20, 20, 200), (30, 20, 300), (40, 20, 700)]);
        let (cpu, memory) = both(&[one], Nanos::ZERO, 4);
        assert_eq!(cpu.text, "██▁▁");
        assert!((cpu.highest - 1.0).abs() < 1e-9);
        assert_eq!((memory.text.as_str(), memory.highest), ("▂▃▄█", 700.0));
    }

    #[test]
    fn processes_add_up_at_each_instant() {
        let flat = || process(&[(10, 10, 5), (20, 20, 5), (30, 30, 5), (40, 40, 5)]);
        let (cpu, memory) = both(&[flat(), flat()], Nanos::ZERO, 9);
        assert_eq!((memory.text.as_str(), memory.highest), ("████", 10.0));
        assert!((cpu.highest - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_slice_without_a_sample_keeps_what_was_there() {
        let one = process(&[(1, 0, 700), (2, 1, 700), (3, 2, 700), (40, 3, 700)]);
        assert_eq!(of(&[one], Nanos::ZERO, 4).unwrap().1.text, "████");
    }

    #[test]
    fn a_glimpse_is_no_course() {
        assert_eq!(of(&[process(&[(0, 0, 5), (10, 10, 5)])], Nanos::ZERO, 9), None);
        assert_eq!(of(&[], Nanos::ZERO, 9), None);
    }

    #[test]
    fn cpu_before_the_first_sample_is_where_it_was_used() {
        let begin = Nanos::from_millis(1_000);
        let one = process(&[(110, 10, 5), (120, 10, 5), (130, 10, 5), (140, 10, 5)]);
        assert_eq!(both(&[one], begin, 4).0, Course { text: "█▁▁▁".into(), highest: 1.0 });
        // Of this one, 30 ms were used before the program was released; a second one began after the second sample.
        let released = process(&[(90, 30, 900), (110, 40, 5), (120, 40, 5), (130, 40, 5), (140, 40, 5)]);
        let later = process(&[(130, 5, 5), (140, 5, 5)]);
        let (cpu, memory) = both(&[released, later], begin, 4);
        assert_eq!((cpu.text.as_str(), memory.highest), ("█▁▅▁", 10.0));
        assert!((cpu.highest - 1.0).abs() < 1e-9);
    }
}
