//! What a program's phases left, as records. Pure.

use std::collections::{BTreeMap, BTreeSet};

use prony_core::experiment::program::ProgramSpec;
use prony_core::experiment::spec::PhaseSpec;
use prony_core::metric::{Metric, MetricKey, Stat};
use prony_core::reading::{Reading, Why};
use prony_core::record::{Completion, MetricKeyText, PhaseRecord, ProcessSeries};
use prony_core::units::{Bytes, Nanos};
use prony_probe::launch::Usage;
use prony_probe::sample::{Edge, phase_readings};

use super::watch::Watched;
use crate::runner::assemble::{Readings, not_reached, set};

/// Every phase of the variant.
pub fn records(
    program: &ProgramSpec,
    specs: &[PhaseSpec],
    watched: &Watched,
    series: &[ProcessSeries],
) -> Vec<PhaseRecord> {
    let mut records: Vec<PhaseRecord> =
        specs.iter().enumerate().map(|(index, spec)| record(spec, index, watched, series)).collect();
    for readings in records.iter_mut().filter_map(|record| record.readings.get_mut("")) {
        heaps(program, readings);
    }
    records
}

/// Heaps are asked of the runtime, and nothing asks it yet.
fn heaps(program: &ProgramSpec, readings: &mut Readings) {
    let why = program.runtime.map_or(Why::NotApplicable, |runtime| {
        Why::NotSupported(format!("the heap of `{}` is not read in this version", runtime.name()))
    });
    for metric in [Metric::HeapUsed, Metric::HeapTotal, Metric::External] {
        let key = MetricKeyText(MetricKey::gauge(metric, Stat::End));
        readings.entry(key).or_insert(Reading::Missing(why.clone()));
    }
}

fn record(spec: &PhaseSpec, index: usize, watched: &Watched, series: &[ProcessSeries]) -> PhaseRecord {
    let tracked = &watched.tracker.phases[index];
    let (Some(began), Some(first)) = (tracked.began, watched.begin[index]) else { return not_reached(spec) };
    let last = watched.edges.len() - 1;
    let until = watched.end[index].unwrap_or(last);
    let ended = tracked.ended.unwrap_or(watched.ended.at);
    let span = Span { watched, first, until, to_the_end: until == last, from_the_start: first == 0 };
    let mut readings = span.readings(series);
    let wall = Reading::Measured(nanos(ended.since(began)));
    set(&mut readings, Metric::Wall, wall.clone());
    set(&mut readings, Metric::Time, wall);
    set(&mut readings, Metric::Lag, Reading::Measured(nanos(tracked.lag)));
    for (key, number) in &tracked.told {
        readings.insert(MetricKeyText(*key), Reading::Measured(*number));
    }
    rate(&mut readings);
    PhaseRecord {
        completion: if tracked.ended.is_some() { Completion::Complete } else { Completion::Partial },
        begin: Some(began),
        end: Some(ended),
        readings: BTreeMap::from([(String::new(), readings)]),
        ..not_reached(spec)
    }
}

/// Operations that the program told, a second.
fn rate(readings: &mut Readings) {
    let of = |metric| readings.get(&MetricKeyText(MetricKey::amount(metric)))?.measured().copied();
    if let (Some(operations), Some(time)) = (of(Metric::Operations), of(Metric::Time).filter(|time| *time > 0.0))
        && of(Metric::Rate).is_none()
    {
        set(readings, Metric::Rate, Reading::Measured(operations * 1e9 / time));
    }
}

fn nanos(time: Nanos) -> f64 {
    time.as_nanos() as f64
}

/// From one edge to another.
struct Span<'a> {
    watched: &'a Watched,
    first: usize,
    until: usize,
    /// It ends with the program.
    to_the_end: bool,
    /// It begins with the program.
    from_the_start: bool,
}

/// How far the kernel's own count of resident memory may be off: what each processor has not yet added up.
const PEAK_SLACK: Bytes = Bytes::from_kib(512);

impl Span<'_> {
    fn readings(&self, series: &[ProcessSeries]) -> Readings {
        let (mut begin, end) = (self.watched.edges[self.first].clone(), &self.watched.edges[self.until]);
        if self.from_the_start {
            // What was held is a copy of its supervisor: no memory of the program's.
            begin.processes.clear();
            begin.at = self.watched.executed.max(begin.at);
        }
        let mut readings = phase_readings(&begin, end, series, "");
        if self.to_the_end {
            self.to_the_very_end(&mut readings);
        }
        let peak = self.peak(&begin, series);
        readings.insert(MetricKeyText(MetricKey::gauge(Metric::Rss, Stat::Peak)), peak);
        readings
    }

    /// Samples miss what a process did between the last one and its end; what the kernel told when it was reaped does
    /// not.
    fn to_the_very_end(&self, readings: &mut Readings) {
        let usage = &self.watched.ended.usage;
        let before = self.before();
        let count =
            |of: fn(&Usage) -> u64, before: u64| usage.clone().map(|all| of(&all).saturating_sub(before) as f64);
        let amounts = [
            (Metric::MinorFaults, count(|all| all.minor_faults, before.minor_faults)),
            (Metric::MajorFaults, count(|all| all.major_faults, before.major_faults)),
            (Metric::SwitchesVoluntary, count(|all| all.switches_voluntary, before.switches_voluntary)),
            (Metric::SwitchesForced, count(|all| all.switches_forced, before.switches_forced)),
            (Metric::Read, count(|all| all.read.as_bytes(), before.read.as_bytes())),
            (Metric::Written, count(|all| all.written.as_bytes(), before.written.as_bytes())),
        ];
        amounts.into_iter().for_each(|(metric, reading)| set(readings, metric, reading));
        let gone = "processes took their last figures with them when they ended; `cpu` has all of it";
        for metric in [Metric::OnCpu, Metric::CpuWait] {
            set(readings, metric, Reading::Missing(Why::NotSupported(gone.to_owned())));
        }
        self.cpu(&before, readings);
    }

    /// A group's total holds children that nobody waited for; its parts are counted in ticks, those of `wait4` are not.
    fn cpu(&self, before: &Before, readings: &mut Readings) {
        let Reading::Measured(all) = self.watched.ended.cpu.clone() else { return };
        let (user, system) = (nanos(all.user.since(before.cpu.0)), nanos(all.system.since(before.cpu.1)));
        set(readings, Metric::CpuUser, Reading::Measured(user));
        set(readings, Metric::CpuSystem, Reading::Measured(system));
        if [self.first, self.until].iter().any(|edge| self.watched.edges[*edge].group.measured().is_none()) {
            set(readings, Metric::Cpu, Reading::Measured(user + system));
        }
    }

    /// What the tree had used at the phase's begin, what it did before its program was executed included.
    fn before(&self) -> Before {
        let held = self.watched.edges[0].processes.first().map(|process| process.sample).unwrap_or_default();
        let total = |edge: &Edge| edge.totals.get("").cloned().unwrap_or_default();
        let used = total(&self.watched.edges[self.first]).since(&total(&self.watched.edges[0]));
        let bytes = |reading: &Reading<Bytes>| reading.measured().copied().unwrap_or_default();
        Before {
            minor_faults: held.minor_faults + used.minor_faults,
            major_faults: held.major_faults + used.major_faults,
            switches_voluntary: held.switches_voluntary + used.switches_voluntary,
            switches_forced: held.switches_forced + used.switches_forced,
            read: held.read.unwrap_or_default() + bytes(&used.read),
            written: held.written.unwrap_or_default() + bytes(&used.written),
            cpu: (held.cpu_user + used.cpu_user, held.cpu_system + used.cpu_system),
        }
    }

    /// The kernel's own peak, where one process ran: what it had reached when it was reaped, and at edges before.
    fn peak(&self, begin: &Edge, series: &[ProcessSeries]) -> Reading<f64> {
        let inside = &self.watched.edges[self.first + 1..=self.until];
        let at_edges: Vec<_> = inside.iter().flat_map(|edge| &edge.processes).collect();
        let end = self.watched.edges[self.until].at;
        let sampled = |process: &&ProcessSeries| process.samples.iter().any(|s| begin.at < s.at && s.at < end);
        let pids: BTreeSet<u32> = (at_edges.iter().map(|process| process.pid))
            .chain(begin.processes.iter().map(|process| process.pid))
            .chain(series.iter().filter(sampled).map(|process| process.pid))
            .collect();
        if pids.len() > 1 {
            let n = pids.len();
            let why = format!("the kernel keeps a peak for each process and {n} ran in the phase; see `max`");
            return Reading::Missing(Why::NotSupported(why));
        }
        let reached = at_edges.iter().map(|process| process.peak).max();
        if !self.to_the_end {
            return reached
                .map_or(Reading::Missing(Why::TooFew { have: 0, need: 1 }), |peak| Reading::Measured(bytes(peak)));
        }
        let reaped = match &self.watched.ended.usage {
            Reading::Measured(usage) => usage.peak,
            Reading::Missing(why) => return Reading::Missing(why.clone()),
        };
        let held = self.watched.edges[0].processes.first().map(|process| process.peak);
        match (held.filter(|held| reaped <= *held + PEAK_SLACK), reached) {
            (None, reached) => Reading::Measured(bytes(reached.unwrap_or_default().max(reaped))),
            (Some(held), Some(reached)) if reached > held => Reading::Measured(bytes(reached)),
            (Some(held), _) => Reading::Missing(Why::NotSupported(format!(
                "it is not above the {held} that its process had before the program was executed"
            ))),
        }
    }
}

fn bytes(amount: Bytes) -> f64 {
    amount.as_bytes() as f64
}

/// Counters at the begin of a phase.
struct Before {
    minor_faults: u64,
    major_faults: u64,
    switches_voluntary: u64,
    switches_forced: u64,
    read: Bytes,
    written: Bytes,
    cpu: (Nanos, Nanos),
}
