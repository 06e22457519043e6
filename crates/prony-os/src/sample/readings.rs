//! Computes the operating system's metrics of a phase from its two snapshots and the samples between them. Pure
//! functions.

use std::collections::{BTreeMap, BTreeSet};

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::reading::{Reading, Why};
use prony_model::record::{MetricKeyText, PEAK_SLACK, ProcessSample, ProcessSeries, TICK};
use prony_model::units::{Bytes, Nanos};

use super::counters::Counters;
use super::parse::GroupCpu;
use super::snapshot::{ProcessSnapshot, Snapshot};
use super::sync::SyncCounts;
use super::unread;
use super::unsampled::{Ends, Missed, Sampled};
use crate::cache::Residency;
use crate::why::sampled;

/// Readings by metric.
pub type Readings = BTreeMap<MetricKeyText, Reading<f64>>;

/// A gauge's value in one sample.
type Gauge = fn(&ProcessSample) -> f64;

/// Gauges that every sample holds.
const GAUGES: [(Metric, Gauge); 8] = [
    (Metric::Rss, |sample| bytes(sample.rss())),
    (Metric::Anon, |sample| bytes(sample.anon)),
    (Metric::File, |sample| bytes(sample.file)),
    (Metric::Shared, |sample| bytes(sample.shared)),
    (Metric::Vsz, |sample| bytes(sample.vsz)),
    (Metric::Swap, |sample| bytes(sample.swap)),
    (Metric::Threads, |sample| f64::from(sample.threads)),
    (Metric::Processes, |_| 1.0),
];

fn bytes(amount: Bytes) -> f64 {
    amount.as_bytes() as f64
}

fn nanos(time: Nanos) -> f64 {
    time.as_nanos() as f64
}

/// All metrics of the operating system for the phase between two snapshots: of the whole tree with `role` `""`, or of
/// the processes of one role.
///
/// Amounts are differences of the snapshots' counters. Gauges are sums over processes at each instant; the mean is
/// weighted by time (trapezia between samples). `peak` exists for `rss` only, and only where a single process ran in
/// the phase: the kernel has it for each process, and a sum of peaks at different instants is the peak of nothing.
pub fn phase_readings(begin: &Snapshot, end: &Snapshot, series: &[ProcessSeries], role: &str) -> Readings {
    readings_with_ends(begin, end, series, role, &Ends::new())
}

/// [`phase_readings`] where something is known of processes that ended in the phase. Every role in `ends` ran in it.
pub fn readings_with_ends(
    begin: &Snapshot,
    end: &Snapshot,
    series: &[ProcessSeries],
    role: &str,
    ends: &Ends,
) -> Readings {
    let mut readings = Readings::new();
    amounts(begin, end, role, &mut readings);
    if role.is_empty() {
        machine(begin, end, &mut readings);
    }
    readings.extend(readings_of_roles(begin, end, series, |of| role.is_empty() || of == role, ends));
    unread::mark_of_role(&mut readings, (begin, end), role);
    readings
}

/// Gauges and calls to sync of the processes of some roles, as one: sums at each instant. What samples may have missed is
/// judged role by role. Otherwise as [`readings_with_ends`].
pub fn readings_of_roles(
    begin: &Snapshot,
    end: &Snapshot,
    series: &[ProcessSeries],
    within: impl Fn(&str) -> bool,
    ends: &Ends,
) -> Readings {
    let mut readings = Readings::new();
    syncs(begin, end, &within, &mut readings);
    gauges(begin, end, series, &within, ends, &mut readings);
    if let Some(why) = unread::reason(begin, end, &within) {
        unread::mark(&mut readings, &why, false);
    }
    readings
}

/// How often a call was made.
type Calls = fn(&SyncCounts) -> Reading<u64>;

/// Whether a role is one of the requested roles.
type Within<'a> = &'a dyn Fn(&str) -> bool;

fn put(readings: &mut Readings, metric: Metric, reading: Reading<f64>) {
    readings.insert(MetricKeyText(MetricKey::amount(metric)), reading);
}

fn amounts(begin: &Snapshot, end: &Snapshot, role: &str, readings: &mut Readings) {
    let Some(total) = end.totals.get(role) else { return };
    // A role that appears in the phase had nothing at its begin.
    let used = begin.totals.get(role).map_or_else(|| total.clone(), |begin| total.since(begin));
    let own = |snapshot: &Snapshot| match snapshot.groups.get(role) {
        Some(group) => group.clone(),
        None if role.is_empty() => snapshot.group.clone(),
        None => Reading::Missing(Why::NotApplicable),
    };
    let group = own(end).and(own(begin), GroupCpu::since);
    let late = begin.cpu_lacks + end.cpu_lacks;
    let (left, group) = match group.measured() {
        Some(group) if used.are_more_than(group.total + late) => (Some(group.total), None),
        group => (None, group),
    };
    // The group also counts what no sample observed: children of a parent that ignores SIGCHLD.
    let of_group = group.map(|group| [group.total, group.user, group.system]);
    let incomplete = match group {
        Some(_) if role.is_empty() && end.leaves_replicas_out && used.ignores_children == 0 => None,
        group => {
            let alive = end.processes.iter().filter(|process| role.is_empty() || process.role == role).count() as u64;
            // Of each process ticks are cut off, of user and system time; and clocks are read one after the other.
            let rounded = Nanos::from_nanos(2 * alive * TICK.as_nanos()) + late;
            used.are_incomplete(group.map(|group| (group.total, rounded)))
        }
    };
    let unless_incomplete = |reading| incomplete.clone().map_or(reading, Reading::Missing);
    let by_sum = [used.on_cpu.clone(), Reading::Measured(used.cpu_user), Reading::Measured(used.cpu_system)];
    let by_sum = by_sum.map(|time| unless_incomplete(time.map(nanos)));
    let cpu = match left.zip(used.on_cpu.measured()) {
        // Sums with what only the group counts, as that of replicas, need its figure. One that left the group of its service is counted
        // by itself alone.
        Some((counted, used)) if !end.groups.contains_key(role) => {
            std::array::from_fn(|_| Reading::Missing(left_group(counted, *used)))
        }
        _ => of_group.map_or(by_sum, |times| times.map(|time| Reading::Measured(nanos(time)))),
    };
    for (metric, time) in [Metric::Cpu, Metric::CpuUser, Metric::CpuSystem].into_iter().zip(cpu) {
        put(readings, metric, time);
    }
    let switches = used.switches();
    // What the kernel counts of processes and not of groups.
    for (metric, amount) in [
        (Metric::OnCpu, used.on_cpu.clone().map(nanos)),
        (Metric::CpuWait, used.waited().map(nanos)),
        (Metric::Read, used.read.map(bytes)),
        (Metric::Written, used.written.map(bytes)),
        (Metric::MajorFaults, Reading::Measured(used.major_faults as f64)),
        (Metric::MinorFaults, Reading::Measured(used.minor_faults as f64)),
        (Metric::SwitchesVoluntary, switches.clone().map(|[voluntary, _]| voluntary as f64)),
        (Metric::SwitchesForced, switches.map(|[_, forced]| forced as f64)),
    ] {
        put(readings, metric, unless_incomplete(amount));
    }
}

/// Why CPU time is missing of processes that used so much, of which their control group `counted` no more than this.
pub fn left_group(counted: Nanos, used: Nanos) -> Why {
    let text = format!(
        "processes left the control group of the trial, in which {counted} of their {used} of CPU time were counted: its limits do not \
         hold for them"
    );
    Why::NotSupported(text.into())
}

fn machine(begin: &Snapshot, end: &Snapshot, readings: &mut Readings) {
    let device = end.device.clone().and(begin.device.clone(), |end, begin| end.since(&begin));
    put(readings, Metric::Flushes, device.clone().map(|device| device.flushes as f64));
    put(readings, Metric::DeviceWritten, device.map(|device| bytes(device.written)));
    put(readings, Metric::Disk, end.disk.clone().map(|disk| bytes(disk.blocks)));
    put(readings, Metric::DiskLength, end.disk.clone().map(|disk| bytes(disk.length)));
    let share_cached = |found: Residency| found.share().map_or(Reading::Missing(Why::NotApplicable), Reading::Measured);
    put(readings, Metric::Cached, begin.cached.clone().and_then(share_cached));
    put(readings, Metric::CachedBytes, end.cached.clone().map(|found| bytes(found.bytes())));
    let waited = end.pressure.since(&begin.pressure);
    let wall = end.at.since(begin.at);
    for (metric, time) in
        [(Metric::PressureCpu, waited.cpu), (Metric::PressureIo, waited.io), (Metric::PressureMemory, waited.memory)]
    {
        put(readings, metric, share(time, wall));
    }
}

fn share(time: Reading<Nanos>, wall: Nanos) -> Reading<f64> {
    match time {
        Reading::Measured(_) if wall == Nanos::ZERO => Reading::Missing(Why::TooFew { have: 0, need: 1 }),
        // Totals and the snapshot's instant are read some microseconds apart.
        time => time.map(|time| (nanos(time) / nanos(wall)).min(1.0)),
    }
}

fn syncs(begin: &Snapshot, end: &Snapshot, within: Within<'_>, readings: &mut Readings) {
    let followed = |snapshot: &Snapshot| -> Option<SyncCounts> {
        let of = snapshot.syncs.iter().filter(|(of, _)| within(of)).map(|(_, counts)| counts.clone());
        of.reduce(|a, b| a.plus(&b))
    };
    // A process followed only since the phase began had made no calls before.
    let counts = followed(end).map(|end| followed(begin).map_or(end.clone(), |begin| end.since(&begin)));
    let calls: [(Metric, Calls); 5] = [
        (Metric::Fsyncs, SyncCounts::total),
        (Metric::Fsync, |counts| counts.fsync.clone()),
        (Metric::Fdatasync, |counts| counts.fdatasync.clone()),
        (Metric::Msync, |counts| counts.msync.clone()),
        (Metric::SyncFileRange, |counts| counts.sync_file_range.clone()),
    ];
    for (metric, of) in calls {
        let count = counts.as_ref().map_or(Reading::Missing(Why::NotApplicable), of);
        put(readings, metric, count.map(|count| count as f64));
    }
}

fn gauges(
    begin: &Snapshot,
    end: &Snapshot,
    series: &[ProcessSeries],
    within: Within<'_>,
    ends: &Ends,
    readings: &mut Readings,
) {
    let mut instants: BTreeMap<Nanos, Vec<ProcessSample>> = BTreeMap::new();
    for process in series.iter().filter(|process| within(&process.role)) {
        for sample in process.samples.iter().filter(|sample| begin.at < sample.at && sample.at < end.at) {
            instants.entry(sample.at).or_default().push(*sample);
        }
    }
    for snapshot in [begin, end] {
        let alive = snapshot.processes.iter().filter(|process| within(&process.role));
        instants.insert(snapshot.at, alive.map(|process| process.sample).collect());
    }
    let missed = missed(begin, end, series, within, ends);
    for (metric, value) in GAUGES {
        let sums = instants.iter().map(|(at, alive)| (*at, alive.iter().map(value).sum()));
        // Before its first process and after its last, a role has no memory to report.
        let sums: Vec<(Nanos, f64)> = sums.filter(|(at, _)| !instants[at].is_empty()).collect();
        for (stat, reading) in statistics(&sums, !instants[&end.at].is_empty()) {
            let resident = matches!(metric, Metric::Rss | Metric::Anon | Metric::File | Metric::Shared);
            let suffices = |value: &f64| stat == Stat::End || missed.leaves(*value, resident);
            let sparse = || Reading::failed(missed.why());
            let reading = if reading.measured().is_none_or(suffices) { reading } else { sparse() };
            readings.insert(MetricKeyText(MetricKey::gauge(metric, stat)), reading);
        }
    }
    insert_peak(readings, peak(begin, end, series, within));
    pss(end, within, readings);
    if let Some(why) = huge_pages(begin, end, within) {
        mark_memory(readings, &why);
    }
}

/// Why memory of processes of some roles is missing, if it is: the kernel counts pages of hugetlbfs in none of its kinds (`HugetlbPages`
/// in proc_pid_status(5)), so that a program which uses them would seem to need less.
pub fn huge_pages(begin: &Snapshot, end: &Snapshot, within: impl Fn(&str) -> bool) -> Option<Why> {
    let why = "a process had pages of hugetlbfs (`MAP_HUGETLB`), which the kernel counts in no memory of a process";
    has_grown((begin, end), &within, |total| total.huge).then(|| Why::NotSupported(why.into()))
}

/// Whether a counter of some roles has grown: of each of them, or of all where these were joined under no name.
fn has_grown((begin, end): (&Snapshot, &Snapshot), within: Within<'_>, of: fn(&Counters) -> u64) -> bool {
    let joined = end.totals.keys().all(String::is_empty);
    let sum = |snapshot: &Snapshot| -> u64 {
        let own = snapshot.totals.iter().filter(|(role, _)| role.is_empty() == joined && within(role));
        own.map(|(_, total)| of(total)).sum()
    };
    sum(end) > sum(begin)
}

/// Makes memory missing that lacks pages.
pub(super) fn mark_memory(readings: &mut Readings, why: &Why) {
    let lacks = |metric| matches!(metric, Metric::Rss | Metric::Anon | Metric::File | Metric::Shared | Metric::Pss);
    unread::make_missing(readings, why, lacks);
}

/// What samples may have missed of roles that had ended when the phase did.
fn missed(begin: &Snapshot, end: &Snapshot, series: &[ProcessSeries], within: Within<'_>, ends: &Ends) -> Missed {
    let mut rounds = BTreeSet::from([begin.at, end.at]);
    let mut roles: BTreeMap<&str, Sampled> = ends.keys().map(|role| (role.as_str(), Sampled::default())).collect();
    // The begin counts by the clock of the samples, which leaves out suspensions.
    let at_begin = begin.processes.iter().map(|process| (process.role.as_str(), begin.at, process.sample.rss()));
    let inside = series.iter().flat_map(|process| {
        let samples = process.samples.iter().filter(|sample| begin.at < sample.at && sample.at < end.at);
        samples.map(|sample| (process.role.as_str(), sample.at, sample.rss()))
    });
    for (role, at, rss) in at_begin.chain(inside) {
        rounds.insert(at);
        let sampled = roles.entry(role).or_default();
        sampled.at.insert(at);
        sampled.most = sampled.most.max(rss);
    }
    let alive = |role: &str| end.processes.iter().any(|process| process.role == role);
    let mut missed = Missed::default();
    let ended = roles.iter().filter(|(role, _)| within(role) && !alive(role));
    ended.for_each(|(role, sampled)| missed.add(&rounds, sampled, ends.get(*role)));
    missed
}

fn statistics(sums: &[(Nanos, f64)], alive_at_end: bool) -> [(Stat, Reading<f64>); 5] {
    let values = || sums.iter().map(|(_, value)| *value);
    let last = if alive_at_end {
        sampled(values().next_back())
    } else {
        Reading::failed("no process was alive at the phase's end")
    };
    let no_peak = "the kernel keeps no peak except that of resident memory; its `max` is the largest sample";
    [
        (Stat::Mean, sampled(mean(sums))),
        (Stat::Max, sampled(values().max_by(f64::total_cmp))),
        (Stat::Min, sampled(values().min_by(f64::total_cmp))),
        (Stat::End, last),
        (Stat::Peak, Reading::not_supported(no_peak)),
    ]
}

/// Mean over time, the value changing evenly between samples.
fn mean(sums: &[(Nanos, f64)]) -> Option<f64> {
    let (first, last) = (sums.first()?, sums.last()?);
    let length = nanos(last.0.since(first.0));
    if length == 0.0 {
        return Some(last.1);
    }
    let area: f64 = sums.windows(2).map(|pair| nanos(pair[1].0.since(pair[0].0)) * (pair[0].1 + pair[1].1) / 2.0).sum();
    Some(area / length)
}

/// Adds the kernel's own peak, in bytes, of the only process that ran to the readings of its samples, and makes it at least their
/// largest. Since Linux 6.2 each processor counts pages by itself, and the peak leaves out what they have not yet added up
/// (`get_mm_counter` in include/linux/mm.h); newer kernels add it up for samples. (Of 8 threads with 2 MB each, two processors left
/// out 0.13 MB.)
pub fn insert_peak(readings: &mut Readings, peak: Reading<f64>) {
    let key = |stat| MetricKeyText(MetricKey::gauge(Metric::Rss, stat));
    let largest = readings.get(&key(Stat::Max)).and_then(|largest| largest.measured().copied());
    readings.insert(key(Stat::Peak), peak.map(|peak| largest.map_or(peak, |largest| peak.max(largest))));
}

/// Why there is no peak of a process that samples may show.
pub const ENDED_BEFORE_PEAK: &str =
    "the process ended before its peak could be read at the phase's end; `rss.max` is the largest sample";

/// The kernel's own peak, if one process ran in the phase and still runs at its end.
fn peak(begin: &Snapshot, end: &Snapshot, series: &[ProcessSeries], within: Within<'_>) -> Reading<f64> {
    let in_snapshots = [begin, end].into_iter().flat_map(|snapshot| &snapshot.processes);
    let in_snapshots = in_snapshots.filter(|process| within(&process.role)).map(|process| process.pid);
    let sampled = |process: &&ProcessSeries| {
        within(&process.role) && process.samples.iter().any(|s| begin.at < s.at && s.at < end.at)
    };
    let pids: BTreeSet<u32> = in_snapshots.chain(series.iter().filter(sampled).map(|process| process.pid)).collect();
    let last = end.processes.iter().find(|process| within(&process.role));
    match (pids.len(), last) {
        (0, _) => Reading::Missing(Why::TooFew { have: 0, need: 1 }),
        (1, None) => Reading::failed(ENDED_BEFORE_PEAK),
        (1, Some(_)) if has_grown((begin, end), within, |total| total.child_faults) => Reading::not_supported(
            "the kernel keeps a peak for each process, and one ran in the phase that ended before it was sampled; `rss.max` is the \
             largest sample",
        ),
        (1, Some(process)) => match forgotten(process.peak, (begin.at, end.at), series, process.pid) {
            Some(why) => Reading::Missing(why),
            None => peak_of(begin, process),
        },
        (several, _) => Reading::not_supported(format!(
            "the kernel keeps a peak for each process, and {several} ran in the phase; `rss.max` is the largest \
                 sample of their sum"
        )),
    }
}

/// Why the kernel's peak of a process was not reached in the whole phase, if so: `execve` begins another address space, whose peak it
/// is (`exec_mmap` in fs/exec.c). Then samples of what the process executed before show more.
pub fn forgotten(peak: Bytes, (from, to): (Nanos, Nanos), series: &[ProcessSeries], pid: u32) -> Option<Why> {
    let of = series.iter().filter(|process| process.pid == pid).flat_map(|process| &process.samples);
    let most = of.filter(|sample| from < sample.at && sample.at < to).map(|sample| sample.rss()).max()?;
    let why = "the process executed another program in the phase, and the kernel keeps the peak of that alone; `rss.max` is the \
               largest sample";
    (most > peak + PEAK_SLACK).then(|| Why::NotSupported(why.into()))
}

fn peak_of(begin: &Snapshot, process: &ProcessSnapshot) -> Reading<f64> {
    match begin.processes.iter().find(|earlier| earlier.pid == process.pid) {
        Some(earlier) if !earlier.peak_reset => Reading::Missing(Why::NotPermitted(
            "the peak was not reset at the phase's begin (`clear_refs`), so `VmHWM` includes earlier phases".into(),
        )),
        _ => Reading::Measured(bytes(process.peak)),
    }
}

fn pss(end: &Snapshot, within: Within<'_>, readings: &mut Readings) {
    let alive = end.processes.iter().filter(|process| within(&process.role));
    let sum = alive.map(|process| process.pss.clone().map(bytes)).reduce(|a, b| a.and(b, |a, b| a + b));
    let none_alive = || Reading::failed("no process was alive at the phase's end");
    let key = |stat| MetricKeyText(MetricKey::gauge(Metric::Pss, stat));
    readings.insert(key(Stat::End), sum.unwrap_or_else(none_alive));
    for stat in [Stat::Mean, Stat::Max, Stat::Min, Stat::Peak] {
        let dear =
            "PSS is read at boundaries of phases only: that takes 5 us for each mapped MB and locks the memory map";
        readings.insert(key(stat), Reading::not_supported(dear));
    }
}

#[cfg(test)]
mod tests;
