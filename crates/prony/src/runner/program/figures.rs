//! What a program's phases left, as records. Pure.

use std::collections::BTreeSet;

use prony_core::experiment::spec::PhaseSpec;
use prony_core::metric::{Metric, MetricKey, Stat};
use prony_core::reading::{Reading, Why};
use prony_core::record::{
    Answer, Completion, HistogramRecord, LatencyKind, MetricKeyText, PhaseRecord, ProcessSample, ProcessSeries,
};
use prony_core::units::{Bytes, Nanos};
use prony_probe::launch::Usage;
use prony_probe::sample::{Edge, phase_readings};

use super::calls::Calls;
use super::heaps;
use super::held::HeldTimes;
use super::holds::Hold;
use super::tracker::Tracked;
use super::watch::Watched;
use crate::runner::assemble::{Readings, not_reached, set};

/// When the program was held.
pub fn held_times(watched: &Watched) -> HeldTimes {
    let ended = |hold: &Hold| {
        let thread = watched.threads.all().iter().rev().find(|thread| thread.source == hold.source);
        hold.until.or(thread.map(|thread| thread.ended)).unwrap_or(watched.ended.at)
    };
    HeldTimes::new(watched.holds.iter().map(|hold| (hold.from, ended(hold))).collect())
}

/// Every phase of the variant. `silent` is why no probe spoke, where none did.
pub fn records(specs: &[PhaseSpec], watched: &Watched, series: &[ProcessSeries], silent: &Why) -> Vec<PhaseRecord> {
    let held = held_times(watched);
    let running = series.iter().map(|process| without_holds(process, &held)).collect::<Vec<_>>();
    let trial = Trial { watched, series: &running, held: &held, silent };
    specs.iter().enumerate().map(|(index, spec)| trial.record(spec, index)).collect()
}

/// A process by a clock that stands still while the program is held, without what was seen of it then.
fn without_holds(process: &ProcessSeries, held: &HeldTimes) -> ProcessSeries {
    let shown = process.samples.iter().filter(|sample| !held.at(sample.at));
    let samples = shown.map(|sample| ProcessSample { at: held.running(sample.at), ..*sample }).collect();
    ProcessSeries { samples, ..process.clone() }
}

/// What all phases of a trial have in common.
struct Trial<'a> {
    watched: &'a Watched,
    series: &'a [ProcessSeries],
    held: &'a HeldTimes,
    silent: &'a Why,
}

impl Trial<'_> {
    fn record(&self, spec: &PhaseSpec, index: usize) -> PhaseRecord {
        let watched = self.watched;
        let tracked = &watched.tracker.phases[index];
        let (Some(began), Some(first)) = (tracked.began, watched.begin[index]) else { return not_reached(spec) };
        let last = watched.edges.len() - 1;
        let complete = tracked.is_complete();
        let until = watched.end[index].filter(|_| complete).unwrap_or(last);
        let ended = tracked.ended.filter(|_| complete).unwrap_or(watched.ended.at);
        let rest = watched.holds.iter().rfind(|hold| hold.phase == index && hold.edge == until);
        let to_the_end = until == last;
        let span = Span { watched, held: self.held, first, until, rest, to_the_end, from_the_start: first == 0 };
        let mut readings = span.readings(self.series);
        let wall = Reading::Measured(nanos(ended.since(began).since(self.held.between(began, ended))));
        set(&mut readings, Metric::Wall, wall.clone());
        set(&mut readings, Metric::Time, wall);
        // An edge is taken when its cause was noticed, or some calls before the last.
        let edge =
            if tracked.calls.is_some() { watched.edges[until].at.as_nanos().abs_diff(ended.as_nanos()) } else { 0 };
        set(&mut readings, Metric::Lag, Reading::Measured(nanos(tracked.lag.max(Nanos::from_nanos(edge)))));
        if !watched.holds.is_empty() {
            let over = rest.and_then(|hold| hold.until).unwrap_or(ended).max(ended);
            set(&mut readings, Metric::Held, Reading::Measured(nanos(self.held.between(began, over))));
        }
        let histograms = tracked.calls.as_ref().map(|calls| called(calls, spec, ended, &mut readings));
        for (key, number) in &tracked.told {
            readings.insert(MetricKeyText(*key), Reading::Measured(*number));
        }
        rate(&mut readings);
        let reads = rest.and_then(|hold| Some((hold.stood, hold.read?)));
        let of_heaps = heaps::Span { begin: began, end: ended, rest: reads, held: self.held };
        let mut instances = heaps::readings(&watched.threads, of_heaps, self.silent);
        let whole = instances.entry(String::new()).or_default();
        readings.into_iter().for_each(|(key, reading)| drop(whole.insert(key, reading)));
        PhaseRecord {
            completion: if complete { Completion::Complete } else { Completion::Partial },
            begin: Some(began),
            end: Some(ended),
            readings: instances,
            histograms: histograms.into_iter().flatten().collect(),
            answer: answer(tracked),
            ..not_reached(spec)
        }
    }
}

/// The invocations of the phase's function: how many, how long in all, and how they were spread.
fn called(calls: &Calls, spec: &PhaseSpec, ended: Nanos, readings: &mut Readings) -> Option<HistogramRecord> {
    let recorder = calls.recorder(&spec.name);
    set(readings, Metric::Time, calls.time(&spec.name, ended).map(nanos));
    set(readings, Metric::Operations, Reading::Measured(recorder.succeeded() as f64));
    set(readings, Metric::Errors, Reading::Measured(recorder.failed() as f64));
    recorder.metrics().into_iter().for_each(|(metric, reading)| set(readings, metric, reading));
    recorder.to_record("call", LatencyKind::Service).ok()
}

/// What the program says that it answered: rows, or a digest, or both.
fn answer(tracked: &Tracked) -> Option<Answer> {
    let rows = tracked.told.get(&MetricKey::amount(Metric::Rows)).map(|rows| *rows as u64);
    let digest = match (&tracked.digest, rows) {
        (Some(digest), _) => format!("told:{digest}"),
        (None, Some(_)) => "rows:".to_owned(),
        (None, None) => return None,
    };
    Some(Answer { rows: rows.unwrap_or(0), digest, comparable: true })
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
    held: &'a HeldTimes,
    first: usize,
    until: usize,
    /// The hold at its end.
    rest: Option<&'a Hold>,
    /// It ends with the program.
    to_the_end: bool,
    /// It begins with the program.
    from_the_start: bool,
}

/// How far the kernel's own count of resident memory may be off: what each processor has not yet added up.
const PEAK_SLACK: Bytes = Bytes::from_kib(512);

impl Span<'_> {
    fn readings(&self, series: &[ProcessSeries]) -> Readings {
        let (mut begin, mut end) = (self.watched.edges[self.first].clone(), self.watched.edges[self.until].clone());
        self.inner_holds().for_each(|(from, to)| begin.credit(from, to));
        if self.from_the_start {
            // What was held is a copy of its supervisor: no memory of the program's.
            begin.processes.clear();
            begin.at = self.watched.executed.max(begin.at);
        }
        (begin.at, end.at) = (self.held.running(begin.at), self.held.running(end.at));
        let mut readings = phase_readings(&begin, &end, series, "");
        self.at_rest(&mut readings);
        if self.to_the_end {
            self.to_the_very_end(&mut readings);
        }
        let peak = self.peak(&begin, end.at, series);
        readings.insert(MetricKeyText(MetricKey::gauge(Metric::Rss, Stat::Peak)), peak);
        readings
    }

    /// The edges of holds inside the span: what was used between them is prony's.
    fn inner_holds(&self) -> impl Iterator<Item = (&Edge, &Edge)> {
        let inside = |hold: &&Hold| self.first <= hold.edge && hold.rest.is_some_and(|rest| rest <= self.until);
        let edges = |hold: &Hold| Some((&self.watched.edges[hold.edge], &self.watched.edges[hold.rest?]));
        self.watched.holds.iter().filter(inside).filter_map(edges)
    }

    /// Memory at the end is that after what `at_end` asks for; that before it is kept beside it.
    fn at_rest(&self, readings: &mut Readings) {
        let Some(rest) = self.rest.and_then(|hold| hold.rest) else { return };
        let before: Vec<_> = readings
            .iter()
            .filter(|(key, _)| key.0.stat == Some(Stat::End))
            .map(|(key, reading)| (MetricKeyText(MetricKey::gauge(key.0.metric, Stat::Before)), reading.clone()))
            .collect();
        readings.extend(before);
        let (end, rest) = (&self.watched.edges[self.until], &self.watched.edges[rest]);
        let after = phase_readings(end, rest, &[], "");
        readings.extend(after.into_iter().filter(|(key, _)| key.0.stat == Some(Stat::End)));
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
    /// Where neither is there, samples know less than was used.
    fn cpu(&self, before: &Before, readings: &mut Readings) {
        let grouped = [self.first, self.until].iter().all(|edge| self.watched.edges[*edge].group.measured().is_some());
        let all = match self.watched.ended.cpu.clone() {
            Reading::Measured(all) => all,
            Reading::Missing(_) if grouped => return,
            Reading::Missing(why) => {
                let metrics = [Metric::Cpu, Metric::CpuUser, Metric::CpuSystem];
                metrics.into_iter().for_each(|metric| set(readings, metric, Reading::Missing(why.clone())));
                return;
            }
        };
        let (user, system) = (nanos(all.user.since(before.cpu.0)), nanos(all.system.since(before.cpu.1)));
        set(readings, Metric::CpuUser, Reading::Measured(user));
        set(readings, Metric::CpuSystem, Reading::Measured(system));
        if !grouped {
            set(readings, Metric::Cpu, Reading::Measured(user + system));
        }
    }

    /// What the tree had used at the phase's begin, what it did before its program was executed included.
    fn before(&self) -> Before {
        let held = self.watched.edges[0].processes.first().map(|process| process.sample).unwrap_or_default();
        let total = |edge: &Edge| edge.totals.get("").cloned().unwrap_or_default();
        let used = total(&self.watched.edges[self.first]).since(&total(&self.watched.edges[0]));
        let used = self.inner_holds().fold(used, |sum, (from, to)| sum.plus(&total(to).since(&total(from))));
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
    fn peak(&self, begin: &Edge, end: Nanos, series: &[ProcessSeries]) -> Reading<f64> {
        let inside = &self.watched.edges[self.first + 1..=self.until];
        let at_edges: Vec<_> = inside.iter().flat_map(|edge| &edge.processes).collect();
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
