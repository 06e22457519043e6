//! Computes the operating system's metrics of a phase from its two snapshots and the samples between them. Pure
//! functions.

use std::collections::{BTreeMap, BTreeSet};

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::reading::{Reading, Why};
use prony_model::record::{MetricKeyText, ProcessSample, ProcessSeries};
use prony_model::units::{Bytes, Nanos};

use super::parse::GroupCpu;
use super::snapshot::{ProcessSnapshot, Snapshot};
use super::sync::SyncCounts;
use super::unsampled::{Ends, Missed, Sampled};

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
    readings
}

/// Whether a role is one of the requested roles.
type Within<'a> = &'a dyn Fn(&str) -> bool;

fn put(readings: &mut Readings, metric: Metric, reading: Reading<f64>) {
    readings.insert(MetricKeyText(MetricKey::amount(metric)), reading);
}

/// What the kernel counts of processes and not of groups.
const NOT_OF_GROUP: [Metric; 8] = [
    Metric::OnCpu,
    Metric::CpuWait,
    Metric::Read,
    Metric::Written,
    Metric::MajorFaults,
    Metric::MinorFaults,
    Metric::SwitchesVoluntary,
    Metric::SwitchesForced,
];

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
    // The group also counts what no sample observed: children of a parent that ignores SIGCHLD.
    let of_group = group.measured().map(|group| [group.total, group.user, group.system].map(Reading::Measured));
    let incomplete = used.are_incomplete(group.measured().map(|group| group.total));
    let by_sum = [used.on_cpu.clone(), Reading::Measured(used.cpu_user), Reading::Measured(used.cpu_system)];
    let cpu = of_group.unwrap_or_else(|| by_sum.map(|time| incomplete.clone().map_or(time, Reading::Missing)));
    for (metric, time) in [Metric::Cpu, Metric::CpuUser, Metric::CpuSystem].into_iter().zip(cpu) {
        put(readings, metric, time.map(nanos));
    }
    if let Some(why) = incomplete {
        NOT_OF_GROUP.into_iter().for_each(|metric| put(readings, metric, Reading::Missing(why.clone())));
        return;
    }
    put(readings, Metric::OnCpu, used.on_cpu.map(nanos));
    put(readings, Metric::CpuWait, used.cpu_wait.map(nanos));
    put(readings, Metric::Read, used.read.map(bytes));
    put(readings, Metric::Written, used.written.map(bytes));
    for (metric, count) in [
        (Metric::MajorFaults, used.major_faults),
        (Metric::MinorFaults, used.minor_faults),
        (Metric::SwitchesVoluntary, used.switches_voluntary),
        (Metric::SwitchesForced, used.switches_forced),
    ] {
        put(readings, metric, Reading::Measured(count as f64));
    }
}

fn machine(begin: &Snapshot, end: &Snapshot, readings: &mut Readings) {
    let device = end.device.clone().and(begin.device.clone(), |end, begin| end.since(&begin));
    put(readings, Metric::Flushes, device.clone().map(|device| device.flushes as f64));
    put(readings, Metric::DeviceWritten, device.map(|device| bytes(device.written)));
    put(readings, Metric::Disk, end.disk.clone().map(|disk| bytes(disk.blocks)));
    put(readings, Metric::DiskLength, end.disk.clone().map(|disk| bytes(disk.length)));
    let cached = match &begin.cached {
        Reading::Measured(found) => found.share().map_or(Reading::Missing(Why::NotApplicable), Reading::Measured),
        Reading::Missing(why) => Reading::Missing(why.clone()),
    };
    put(readings, Metric::Cached, cached);
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
    let Some(counts) = followed(end) else {
        let missing = [Metric::Fsyncs, Metric::Fsync, Metric::Fdatasync, Metric::Msync, Metric::SyncFileRange];
        missing.into_iter().for_each(|metric| put(readings, metric, Reading::Missing(Why::NotApplicable)));
        return;
    };
    // A process followed only since the phase began had made no calls before.
    let counts = followed(begin).map_or(counts.clone(), |begin| counts.since(&begin));
    put(readings, Metric::Fsyncs, counts.total().map(|count| count as f64));
    for (metric, count) in [
        (Metric::Fsync, counts.fsync),
        (Metric::Fdatasync, counts.fdatasync),
        (Metric::Msync, counts.msync),
        (Metric::SyncFileRange, counts.sync_file_range),
    ] {
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
            let sparse = || Reading::Missing(Why::Failed(missed.why().into()));
            let reading = if reading.measured().is_none_or(suffices) { reading } else { sparse() };
            readings.insert(MetricKeyText(MetricKey::gauge(metric, stat)), reading);
        }
    }
    let peak = peak(begin, end, series, within);
    readings.insert(MetricKeyText(MetricKey::gauge(Metric::Rss, Stat::Peak)), peak);
    pss(end, within, readings);
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
    let of = |value: Option<f64>| value.map_or(Reading::Missing(Why::TooFew { have: 0, need: 1 }), Reading::Measured);
    let last = if alive_at_end {
        of(values().next_back())
    } else {
        Reading::Missing(Why::Failed("no process was alive at the phase's end".into()))
    };
    let no_peak = "the kernel keeps no peak except that of resident memory; its `max` is the largest sample";
    [
        (Stat::Mean, of(mean(sums))),
        (Stat::Max, of(values().max_by(f64::total_cmp))),
        (Stat::Min, of(values().min_by(f64::total_cmp))),
        (Stat::End, last),
        (Stat::Peak, Reading::Missing(Why::NotSupported(no_peak.into()))),
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

/// The kernel's exact peak, if one process ran in the phase and still runs at its end.
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
        (1, None) => Reading::Missing(Why::Failed(
            "the process ended before its peak could be read at the phase's end; `rss.max` is the largest sample"
                .into(),
        )),
        (1, Some(process)) => peak_of(begin, process),
        (several, _) => Reading::Missing(Why::NotSupported(
            format!(
                "the kernel keeps a peak for each process, and {several} ran in the phase; `rss.max` is the largest \
                 sample of their sum"
            )
            .into(),
        )),
    }
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
    let none_alive = || Reading::Missing(Why::Failed("no process was alive at the phase's end".into()));
    let key = |stat| MetricKeyText(MetricKey::gauge(Metric::Pss, stat));
    readings.insert(key(Stat::End), sum.unwrap_or_else(none_alive));
    for stat in [Stat::Mean, Stat::Max, Stat::Min, Stat::Peak] {
        let dear =
            "PSS is read at boundaries of phases only: that takes 5 us for each mapped MB and locks the memory map";
        readings.insert(key(stat), Reading::Missing(Why::NotSupported(dear.into())));
    }
}

#[cfg(test)]
mod tests {
    use super::super::unsampled::{Ended, SPARSE, UNSEEN};
    use super::*;
    use crate::cache::DiskUsage;
    use crate::cache::Residency;
    use crate::sample::counters::Counters;
    use crate::sample::device::DeviceCounters;
    use crate::sample::parse::GroupCpu;
    use prony_model::record::Pressure;

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn sample(at: u64, anon: u64) -> ProcessSample {
        let (anon, file) = (Bytes::from_bytes(anon), Bytes::from_bytes(1000));
        ProcessSample { at: ms(at), anon, file, threads: 2, ..ProcessSample::default() }
    }

    fn process(pid: u32, role: &str, at: u64, anon: u64) -> ProcessSnapshot {
        let (pss, peak) = (Reading::Measured(Bytes::from_bytes(anon + 500)), Bytes::from_bytes(9_000));
        ProcessSnapshot { pid, role: role.into(), sample: sample(at, anon), pss, peak, peak_reset: true }
    }

    fn counters(cpu: u64) -> Counters {
        Counters { cpu_user: ms(cpu), on_cpu: Reading::Measured(ms(cpu)), minor_faults: 3 * cpu, ..Counters::default() }
    }

    fn snapshot(at: u64, cpu: u64, processes: Vec<ProcessSnapshot>) -> Snapshot {
        Snapshot {
            at: ms(at),
            took: Nanos::ZERO,
            store_took: Nanos::ZERO,
            most_running: 0,
            cpu_lacks: Nanos::ZERO,
            processes,
            totals: BTreeMap::from([(String::new(), counters(2 * cpu)), ("worker".into(), counters(cpu))]),
            group: Reading::Missing(Why::NotApplicable),
            groups: BTreeMap::new(),
            syncs: BTreeMap::new(),
            pressure: Pressure {
                cpu: Reading::Measured(ms(at / 4)),
                io: Reading::Missing(Why::NotSupported("no PSI".into())),
                memory: Reading::Measured(ms(5 * at)),
            },
            device: Reading::Measured(DeviceCounters { flushes: at, ..DeviceCounters::default() }),
            disk: Reading::Measured(DiskUsage { length: Bytes::from_bytes(at), ..DiskUsage::default() }),
            cached: Reading::Measured(Residency {
                pages: at,
                cached: 1,
                dirty: Reading::Measured(0),
                writeback: Reading::Measured(0),
            }),
            unwritten: Reading::Measured(Bytes::default()),
        }
    }

    fn series(pid: u32, role: &str, samples: &[(u64, u64)]) -> ProcessSeries {
        let samples = samples.iter().map(|(at, anon)| sample(*at, *anon)).collect();
        ProcessSeries { pid, role: role.into(), command: "c".into(), samples }
    }

    fn get<'a>(readings: &'a Readings, key: &str) -> &'a Reading<f64> {
        &readings[&MetricKeyText(key.parse().unwrap())]
    }

    #[track_caller]
    fn is(readings: &Readings, key: &str, expected: f64) {
        let found = get(readings, key).measured().copied().unwrap_or(f64::NAN);
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{key}: {:?}", get(readings, key));
    }

    #[test]
    fn a_gauges_mean_is_weighted_by_time() {
        // 0 at 100 ms, 0 at 200, 4000 at 210, 4000 at 300: the burst of samples must not pull the mean.
        let samples = series(1, "worker", &[(50, 99), (100, 0), (200, 0), (210, 4000), (300, 4000), (400, 7)]);
        let (begin, end) = (
            snapshot(100, 0, vec![process(1, "worker", 100, 0)]),
            snapshot(300, 0, vec![process(1, "worker", 300, 4000)]),
        );
        let readings = phase_readings(&begin, &end, &[samples], "");
        is(&readings, "anon.mean", (10.0 * 2000.0 + 90.0 * 4000.0) / 200.0);
        is(&readings, "anon.max", 4000.0);
        is(&readings, "anon.min", 0.0);
        is(&readings, "anon.end", 4000.0);
        is(&readings, "rss.end", 5000.0);
        is(&readings, "rss.peak", 9000.0);
        is(&readings, "threads.max", 2.0);
    }

    #[test]
    fn several_processes_are_summed_at_each_instant_and_have_no_common_peak() {
        let both = [series(1, "worker", &[(200, 10)]), series(2, "mongo", &[(200, 300), (250, 500)])];
        let at = |at, a, b| snapshot(at, 0, vec![process(1, "worker", at, a), process(2, "mongo", at, b)]);
        let readings = phase_readings(&at(100, 10, 100), &at(300, 20, 200), &both, "");
        is(&readings, "anon.max", 500.0);
        is(&readings, "anon.end", 220.0);
        is(&readings, "pss.end", 1220.0);
        is(&readings, "processes.end", 2.0);
        assert!(matches!(get(&readings, "rss.peak"), Reading::Missing(Why::NotSupported(_))));
        let one = phase_readings(&at(100, 10, 100), &at(300, 20, 200), &both, "mongo");
        is(&one, "rss.peak", 9000.0);
        is(&one, "anon.end", 200.0);
    }

    #[test]
    fn process_sampled_only_between_snapshots_makes_the_peak_missing() {
        let alive = |at| snapshot(at, 0, vec![process(1, "worker", at, 1)]);
        let short = series(9, "worker", &[(150, 700)]);
        let readings = phase_readings(&alive(100), &alive(300), &[short], "");
        assert!(matches!(get(&readings, "rss.peak"), Reading::Missing(Why::NotSupported(_))));
    }

    #[test]
    fn a_peak_that_was_not_reset_belongs_to_earlier_phases() {
        let mut begin = snapshot(100, 0, vec![process(1, "worker", 100, 1)]);
        let end = snapshot(300, 0, vec![process(1, "worker", 300, 1)]);
        begin.processes[0].peak_reset = false;
        let readings = phase_readings(&begin, &end, &[], "");
        assert!(matches!(get(&readings, "rss.peak"), Reading::Missing(Why::NotPermitted(_))));
        begin.processes.clear();
        is(&phase_readings(&begin, &end, &[], ""), "rss.peak", 9000.0);
    }

    #[test]
    fn a_tree_that_ended_has_a_past_and_no_end() {
        let begin = snapshot(100, 10, vec![process(1, "worker", 100, 50)]);
        let end = snapshot(300, 40, vec![]);
        let samples = [(150, 60), (200, 70), (250, 70)];
        let readings = phase_readings(&begin, &end, &[series(1, "worker", &samples)], "");
        is(&readings, "anon.max", 70.0);
        is(&readings, "anon.mean", (50.0 * 55.0 + 50.0 * 65.0 + 50.0 * 70.0) / 150.0);
        is(&readings, "cpu", 60e6);
        for key in ["anon.end", "pss.end", "rss.peak"] {
            assert!(matches!(get(&readings, key), Reading::Missing(Why::Failed(_))), "{key}");
        }
        let nobody = phase_readings(&snapshot(100, 0, vec![]), &snapshot(300, 0, vec![]), &[], "");
        assert_eq!(*get(&nobody, "anon.max"), Reading::Missing(Why::TooFew { have: 0, need: 1 }));
    }

    #[test]
    fn what_ended_has_no_memory_where_its_samples_lie_far_apart() {
        let (begin, end) = (snapshot(100, 0, vec![]), snapshot(300, 0, vec![]));
        let of = |samples: &[(u64, u64)], role: &str| {
            let long = series(2, "site", &[(150, 1), (200, 1), (250, 1)]);
            phase_readings(&begin, &end, &[series(1, "worker", samples), long], role)
        };
        let sparse = Reading::Missing(Why::Failed(SPARSE.into()));
        for samples in [&[(150, 4)][..], &[(150, 4), (200, 9)], &[(101, 4)], &[(110, 4), (150, 5), (180, 6)]] {
            let readings = of(samples, "worker");
            ["anon.max", "anon.mean", "anon.min", "threads.max"]
                .iter()
                .for_each(|key| assert_eq!(*get(&readings, key), sparse));
            assert!(get(&readings, "anon.end") != &sparse && get(&readings, "rss.peak") != &sparse);
        }
        is(&of(&[(150, 4), (200, 9), (250, 9)], "worker"), "anon.max", 9.0);
        // It lived between two rounds of others for 50 ms, of which at most 12.5 are not sampled.
        is(&of(&[(152, 4), (162, 6), (172, 7), (182, 8), (192, 9)], "worker"), "anon.max", 9.0);
        assert_eq!(*get(&of(&[(150, 4)], ""), "anon.max"), sparse, "samples of another process say nothing of it");
        // Between its two runs the process was not found.
        let again: Vec<(u64, u64)> =
            [(101..126), (260..285)].into_iter().flatten().step_by(4).map(|at| (at, at)).collect();
        is(&of(&again, "worker"), "anon.max", 283.0);
        let alive = snapshot(300, 0, vec![process(1, "worker", 300, 7)]);
        is(&phase_readings(&begin, &alive, &[series(1, "worker", &[(101, 4)])], "worker"), "anon.max", 7.0);
    }

    /// The clock of samples leaves suspensions out, and that of a snapshot's processes does not.
    #[test]
    fn the_begin_of_a_phase_after_suspensions_is_no_sample_later_on() {
        let mut begin = snapshot(100, 0, vec![process(1, "main", 100, 5)]);
        let end = snapshot(300, 0, vec![]);
        let samples: Vec<(u64, u64)> = (110..300).step_by(10).map(|at| (at, 5)).collect();
        let of = |begin: &Snapshot| phase_readings(begin, &end, &[series(1, "main", &samples)], "");
        begin.processes[0].sample.at = ms(900);
        is(&of(&begin), "anon.max", 5.0);
    }

    /// A tree's values were measured where any process of it lived at the end, whatever ended unsampled beside that
    /// one.
    #[test]
    fn a_tree_has_no_memory_where_one_of_its_roles_may_have_had_any() {
        let alive = |at| snapshot(at, 0, vec![process(1, "main", at, 4_000)]);
        let sampled = |role: &str, at: &[u64]| series(2, role, &at.iter().map(|at| (*at, 10)).collect::<Vec<_>>());
        let main = || series(1, "main", &[(150, 4_000), (200, 4_000), (250, 4_000)]);
        let of = |child: ProcessSeries, ends: &Ends| {
            readings_with_ends(&alive(100), &alive(300), &[main(), child], "", ends)
        };
        let sparse = Reading::Missing(Why::Failed(SPARSE.into()));
        let unseen = Reading::Missing(Why::Failed(UNSEEN.into()));
        let (unknown, once) = (Ends::new(), || sampled("replica.1", &[150]));
        for key in ["anon.max", "anon.mean", "anon.min", "processes.max"] {
            assert_eq!(*get(&of(once(), &unknown), key), sparse, "{key}");
        }
        is(&of(once(), &unknown), "anon.end", 4_000.0);
        is(&of(sampled("replica.1", &[150, 200, 250]), &unknown), "anon.max", 4_010.0);
        is(&of(sampled("main", &[150]), &unknown), "anon.max", 4_010.0);
        let peak = |role: &str, peak: u64| {
            Ends::from([(role.to_owned(), Ended { at: ms(300), peak: Bytes::from_bytes(peak), reached: true })])
        };
        is(&of(once(), &peak("replica.1", 80)), "anon.max", 4_010.0);
        assert_eq!(*get(&of(once(), &peak("replica.1", 80)), "processes.max"), sparse, "its processes are not known");
        assert_eq!(*get(&of(once(), &peak("replica.1", 90)), "anon.max"), sparse);
        let dense = || sampled("replica.1", &[150, 200, 250]);
        assert_eq!(*get(&of(dense(), &peak("replica.2", 90)), "anon.max"), unseen, "a replica without any sample");
        is(&of(dense(), &peak("replica.2", 70)), "anon.max", 4_010.0);
        is(&of(dense(), &peak("replica.1", 90)), "anon.max", 4_010.0);
    }

    #[test]
    fn amounts_are_differences_of_the_scope() {
        let (begin, end) = (snapshot(100, 10, vec![]), snapshot(300, 40, vec![]));
        let tree = phase_readings(&begin, &end, &[], "");
        is(&tree, "cpu.user", 60e6);
        is(&tree, "faults.minor", 180.0);
        is(&tree, "flushes", 200.0);
        is(&tree, "disk.length", 300.0);
        is(&tree, "cached", 0.01);
        is(&tree, "cached.bytes", rustix::param::page_size() as f64);
        let worker = phase_readings(&begin, &end, &[], "worker");
        is(&worker, "cpu.user", 30e6);
        assert!(!worker.contains_key(&MetricKeyText(MetricKey::amount(Metric::Flushes))), "a device has no role");
        assert!(
            !phase_readings(&begin, &end, &[], "nobody").contains_key(&MetricKeyText(MetricKey::amount(Metric::Cpu)))
        );
    }

    #[test]
    fn group_cpu_takes_precedence_over_process_cpu() {
        let group = |total| GroupCpu { total: ms(total), user: ms(total / 2), system: ms(total / 4) };
        let (mut begin, mut end) = (snapshot(100, 10, vec![]), snapshot(300, 40, vec![]));
        begin.group = Reading::Measured(group(100));
        end.group = Reading::Measured(group(300));
        let tree = phase_readings(&begin, &end, &[], "");
        is(&tree, "cpu", 200e6);
        is(&tree, "cpu.system", 50e6);
        is(&tree, "cpu.on", 60e6);
        is(&phase_readings(&begin, &end, &[], "worker"), "cpu", 30e6);
    }

    /// 4.2 times less CPU time was read of a server whose children nobody waited for, and it was called cheaper.
    #[test]
    fn what_children_used_that_nobody_waits_for_is_counted_by_a_group_only() {
        let (begin, mut end) = (snapshot(100, 10, vec![]), snapshot(300, 40, vec![]));
        end.totals.get_mut("worker").unwrap().ignores_children = 1;
        for key in ["cpu", "cpu.user", "cpu.system", "cpu.on", "cpu.wait", "read", "written", "faults.minor"] {
            let readings = phase_readings(&begin, &end, &[], "worker");
            assert!(matches!(get(&readings, key), Reading::Missing(Why::NotSupported(_))), "{key}");
            assert!(get(&phase_readings(&begin, &end, &[], ""), key).measured().is_some(), "{key}");
        }
        let counts = |mut one: Snapshot, group: GroupCpu| {
            one.groups.insert("worker".to_owned(), Reading::Measured(group));
            one
        };
        let of = |total| {
            let end = counts(end.clone(), GroupCpu { total: ms(total), ..GroupCpu::default() });
            phase_readings(&counts(begin.clone(), GroupCpu::default()), &end, &[], "worker")
        };
        is(&of(90), "cpu", 90e6);
        assert!(
            matches!(get(&of(90), "faults.minor"), Reading::Missing(_)),
            "60 ms are of children that were not read"
        );
        is(&of(30), "cpu", 30e6);
        is(&of(30), "faults.minor", 90.0);
    }

    #[test]
    fn pressure_is_a_share_of_the_phase() {
        let readings = phase_readings(&snapshot(100, 0, vec![]), &snapshot(300, 0, vec![]), &[], "");
        is(&readings, "pressure.cpu", 0.25);
        is(&readings, "pressure.memory", 1.0);
        assert!(matches!(get(&readings, "pressure.io"), Reading::Missing(Why::NotSupported(_))));
        let no_time = phase_readings(&snapshot(100, 0, vec![]), &snapshot(100, 0, vec![]), &[], "");
        assert!(matches!(get(&no_time, "pressure.cpu"), Reading::Missing(Why::TooFew { .. })));
    }

    #[test]
    fn sync_calls_are_missing_where_nobody_was_followed() {
        let counts = |n| {
            let count = Reading::Measured(n);
            SyncCounts { fsync: count.clone(), fdatasync: count.clone(), msync: count.clone(), sync_file_range: count }
        };
        let (mut begin, mut end) = (snapshot(100, 0, vec![]), snapshot(300, 0, vec![]));
        let readings = phase_readings(&begin, &end, &[], "");
        assert_eq!(*get(&readings, "fsyncs"), Reading::Missing(Why::NotApplicable));
        begin.syncs.insert("worker".into(), counts(2));
        end.syncs.insert("worker".into(), counts(5));
        end.syncs.insert("mongo".into(), counts(7));
        let readings = phase_readings(&begin, &end, &[], "");
        is(&readings, "fsync", 10.0);
        is(&readings, "fsyncs", 40.0);
        is(&phase_readings(&begin, &end, &[], "mongo"), "fdatasync", 7.0);
    }

    proptest::proptest! {
        #[test]
        fn a_mean_lies_between_its_samples(values in proptest::collection::vec((1..1000u64, 0..1_000_000u64), 1..40)) {
            let mut at = 0;
            let sums: Vec<_> = values.iter().map(|(step, value)| { at += step; (ms(at), *value as f64) }).collect();
            let all = || sums.iter().map(|(_, value)| *value);
            let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
            let found = mean(&sums).unwrap();
            proptest::prop_assert!(found >= least - 1e-6 && found <= most + 1e-6, "{found} of {least} to {most}");
        }

        /// Two phases side by side sum to the same as one phase over both.
        #[test]
        fn amounts_add_up(cpu in proptest::collection::vec(0..10_000u64, 2)) {
            let snapshots = [snapshot(100, 5, vec![]), snapshot(200, 5 + cpu[0], vec![]), snapshot(300, 5 + cpu[0] + cpu[1], vec![])];
            let of = |a: usize, b: usize| *get(&phase_readings(&snapshots[a], &snapshots[b], &[], ""), "cpu").measured().unwrap();
            proptest::prop_assert_eq!(of(0, 1) + of(1, 2), of(0, 2));
        }
    }
}
