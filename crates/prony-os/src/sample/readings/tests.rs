//! Tests of the operating system's metrics, on snapshots and samples that are made up.

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
        leaves_replicas_out: false,
        most_running: 0,
        cpu_lacks: Nanos::ZERO,
        processes,
        zombies: Vec::new(),
        totals: BTreeMap::from([(String::new(), counters(2 * cpu)), ("worker".into(), counters(cpu))]),
        group: Reading::Missing(Why::NotApplicable),
        groups: BTreeMap::new(),
        syncs: BTreeMap::new(),
        unread: BTreeMap::new(),
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
    let (begin, end) =
        (snapshot(100, 0, vec![process(1, "worker", 100, 0)]), snapshot(300, 0, vec![process(1, "worker", 300, 4000)]));
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

/// A server started a program of 24 MB for a request, which no sample showed, and the peak of its service was its own.
#[test]
fn peak_is_missing_where_a_child_was_waited_for_that_no_sample_shows() {
    let at = |at: u64, of_worker: u64, of_mongo: u64| {
        let mut all = snapshot(at, 0, vec![process(1, "worker", at, 1), process(2, "mongo", at, 1)]);
        all.totals.insert("mongo".into(), counters(0));
        for (role, faults) in [("worker", of_worker), ("mongo", of_mongo)] {
            all.totals.get_mut(role).unwrap().child_faults = faults;
        }
        all
    };
    let peak = |end: &Snapshot, role: &str| get(&phase_readings(&at(100, 40, 7), end, &[], role), "rss.peak").clone();
    assert_eq!(peak(&at(300, 40, 7), "worker"), Reading::Measured(9_000.0), "before the phase");
    assert_eq!(peak(&at(300, 40, 8), "worker"), Reading::Measured(9_000.0), "of another role");
    let unseen = peak(&at(300, 41, 7), "worker");
    assert!(
        matches!(&unseen, Reading::Missing(Why::NotSupported(why)) if why.contains("before it was sampled")),
        "{unseen:?}"
    );
    let joined = |end: Snapshot| end.joined(&BTreeSet::from(["worker".to_owned()]), "");
    let all = phase_readings(&joined(at(100, 40, 7)), &joined(at(300, 41, 7)), &[], "");
    assert_eq!(*get(&all, "rss.peak"), unseen, "roles that were joined under no name");
}

/// With them (`glibc.malloc.hugetlb=2`) a program of the same size had next to no memory.
#[test]
fn memory_is_missing_where_a_process_had_huge_pages() {
    let with = |huge: u64, of: u64| {
        let mut all = snapshot(of, of, vec![process(7, "worker", of, 10)]);
        all.totals.get_mut("worker").unwrap().huge = huge;
        all
    };
    let readings = |before: u64, huge: u64| phase_readings(&with(before, 100), &with(huge, 900), &[], "");
    for key in ["anon.end", "rss.max", "shared.mean", "file.end", "pss.end", "rss.peak"] {
        assert!(matches!(get(&readings(2, 2), key), Reading::Measured(_)), "{key}: none in the phase");
        let why = get(&readings(2, 3), key).clone();
        assert!(
            matches!(&why, Reading::Missing(Why::NotSupported(why)) if why.contains("hugetlbfs")),
            "{key}: {why:?}"
        );
    }
    assert!(matches!(get(&readings(2, 3), "vsz.end"), Reading::Measured(_)));
    assert_eq!(huge_pages(&with(0, 1), &with(1, 2), |role| role == "other"), None);
    let joined = |all: Snapshot| all.joined(&BTreeSet::from(["worker".to_owned()]), "");
    assert!(huge_pages(&joined(with(0, 1)), &joined(with(1, 2)), |_| true).is_some());
}

/// `sh -c 'work; exec other'`: the peak was that of `other`.
#[test]
fn peak_is_missing_where_samples_before_execve_exceed_it() {
    let (begin, end) = (snapshot(100, 0, vec![]), snapshot(900, 0, vec![process(7, "worker", 900, 10)]));
    let slack = PEAK_SLACK.as_bytes();
    // Files take 1,000 bytes, and the kernel's peak is 9,000.
    let peak = |at: u64, anon: u64| {
        get(&phase_readings(&begin, &end, &[series(7, "worker", &[(at, anon)])], ""), "rss.peak").clone()
    };
    assert_eq!(peak(500, 8_000), Reading::Measured(9_000.0));
    let counted = Reading::Measured((9_000 + slack) as f64);
    assert_eq!(peak(500, 8_000 + slack), counted, "the kernel counts no closer, and the sample was reached");
    assert!(matches!(peak(500, 8_001 + slack), Reading::Missing(Why::NotSupported(why)) if why.contains("executed")));
    assert_eq!(peak(50, 8_001 + slack), Reading::Measured(9_000.0), "before the phase");
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
    let again: Vec<(u64, u64)> = [(101..126), (260..285)].into_iter().flatten().step_by(4).map(|at| (at, at)).collect();
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
    let of =
        |child: ProcessSeries, ends: &Ends| readings_with_ends(&alive(100), &alive(300), &[main(), child], "", ends);
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
    assert!(!phase_readings(&begin, &end, &[], "nobody").contains_key(&MetricKeyText(MetricKey::amount(Metric::Cpu))));
}

#[test]
fn group_cpu_takes_precedence_over_process_cpu() {
    let group = |total| GroupCpu { total: ms(total), user: ms(total / 2), system: ms(total / 2) };
    let (mut begin, mut end) = (snapshot(100, 10, vec![]), snapshot(300, 40, vec![]));
    begin.group = Reading::Measured(group(100));
    end.group = Reading::Measured(group(176));
    let tree = phase_readings(&begin, &end, &[], "");
    is(&tree, "cpu", 76e6);
    is(&tree, "cpu.system", 38e6);
    is(&tree, "cpu.on", 60e6);
    is(&phase_readings(&begin, &end, &[], "worker"), "cpu", 30e6);
    // Eight orphans had ended; only half of the page faults were counted, and the verdict was "fewer".
    end.group = Reading::Measured(group(300));
    end.cpu_lacks = ms(120);
    is(&phase_readings(&begin, &end, &[], ""), "cpu.on", 60e6);
    end.cpu_lacks = Nanos::ZERO;
    let tree = phase_readings(&begin, &end, &[], "");
    is(&tree, "cpu", 200e6);
    let Reading::Missing(why) = get(&tree, "faults.minor") else { panic!("{tree:?}") };
    assert!(why.to_string().contains("none of the tree waited"), "{why}");
    assert!(get(&tree, "cpu.on").measured().is_none());
    // A service that moved itself into another group had a CPU time of 0.
    for (snapshot, total) in [(&mut begin, 0), (&mut end, 5)] {
        snapshot.groups.insert("worker".to_owned(), Reading::Measured(group(total)));
    }
    is(&phase_readings(&begin, &end, &[], "worker"), "cpu", 30e6);
}

/// A program that wrote itself into another group (`systemd-run --scope`) used no CPU time in each phase that ended before it.
#[test]
fn cpu_time_of_a_tree_that_left_its_group_is_missing() {
    let of = |counted: u64, lacks: u64| {
        let (mut begin, mut end) = (snapshot(100, 0, vec![]), snapshot(900, 100, vec![]));
        end.cpu_lacks = ms(lacks);
        for (snapshot, total) in [(&mut begin, 1), (&mut end, 1 + counted)] {
            let total = ms(total);
            snapshot.group = Reading::Measured(GroupCpu { total, user: total, system: Nanos::ZERO });
        }
        phase_readings(&begin, &end, &[], "")
    };
    let left = of(0, 0);
    for key in ["cpu", "cpu.user", "cpu.system"] {
        let why = get(&left, key).clone();
        let is_left = |why: &str| why.contains("left the control group");
        assert!(matches!(&why, Reading::Missing(Why::NotSupported(why)) if is_left(why)), "{key}: {why:?}");
    }
    is(&left, "faults.minor", 600.0);
    is(&of(190, 0), "cpu", 190e6);
    assert!(get(&of(150, 0), "cpu").measured().is_none());
    // Of threads that run the kernel counts the time once a tick, in the group too.
    is(&of(150, 40), "cpu", 150e6);
}

/// Replicas are in the group of their program, and not in its counters.
#[test]
fn what_a_group_counts_of_roles_that_are_left_out_is_not_lost() {
    let (mut begin, mut end) = (snapshot(100, 10, vec![]), snapshot(300, 40, vec![]));
    for (snapshot, total) in [(&mut begin, 0), (&mut end, 500)] {
        let group = GroupCpu { total: ms(total), ..GroupCpu::default() };
        snapshot.group = Reading::Measured(group);
    }
    let faults = |end: &Snapshot| get(&phase_readings(&begin, end, &[], ""), "faults.minor").measured().copied();
    assert_eq!(faults(&end), None);
    end.leaves_replicas_out = true;
    assert_eq!(faults(&end), Some(180.0));
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
    assert!(matches!(get(&of(90), "faults.minor"), Reading::Missing(_)), "60 ms are of children that were not read");
    is(&of(30), "cpu", 30e6);
    // Children that waited for a disk used none, and what they read was in no counter.
    for key in ["read", "written", "faults.minor"] {
        assert!(matches!(get(&of(30), key), Reading::Missing(_)), "{key}");
    }
}

/// Those of children and threads that had ended before they were read were in none: 1.71 s of 4.57 s.
#[test]
fn waiting_for_a_processor_is_missing_where_threads_or_children_ended() {
    let (begin, mut end) = (snapshot(100, 10, vec![]), snapshot(300, 40, vec![]));
    let wait = |end: &Snapshot| get(&phase_readings(&begin, end, &[], "worker"), "cpu.wait").clone();
    assert_eq!(wait(&end), Reading::Measured(0.0));
    end.totals.get_mut("worker").unwrap().unread_switches = 1;
    assert!(matches!(wait(&end), Reading::Missing(Why::NotSupported(why)) if why.contains("waited for a CPU")));
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
        let [fsync, fdatasync, msync, sync_file_range] = [n; 4].map(Reading::Measured);
        let [sync, syncfs] = [0; 2].map(Reading::Measured);
        SyncCounts { fsync, fdatasync, msync, sync_file_range, sync, syncfs }
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
