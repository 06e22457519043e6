use std::collections::{BTreeMap, BTreeSet};

use prony_boundaries::probe_reports::Threads;
use prony_boundaries::tracker::Tracker;
use prony_model::record::Pressure;
use prony_model::record::ProcessSample;
use prony_os::launch::{Captured, CpuTime, Status};
use prony_os::limits::MemoryEvidence;
use prony_os::sample::parse::GroupCpu;
use prony_runtime::Source;

use super::*;
use crate::watched::replicas::Replicated;

pub(crate) fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

/// A snapshot at which the tree had used `cpu` milliseconds, and as many bytes and faults.
pub(crate) fn snapshot(at: u64, cpu: u64, pids: &[u32]) -> Snapshot {
    let process = |pid: &u32| ProcessSnapshot {
        pid: *pid,
        role: "program".into(),
        sample: ProcessSample {
            at: ms(at),
            on_cpu: Some(ms(cpu)),
            read: Some(Bytes::default()),
            written: Some(Bytes::default()),
            ..ProcessSample::default()
        },
        pss: Reading::Missing(Why::NotApplicable),
        peak: Bytes::from_mib(3),
        peak_reset: true,
    };
    let counters = Counters {
        cpu_user: ms(cpu),
        on_cpu: Reading::Measured(ms(cpu)),
        written: Reading::Measured(Bytes::from_bytes(cpu)),
        minor_faults: cpu,
        ..Counters::default()
    };
    let waited = || Reading::Measured(ms(at / 4));
    Snapshot {
        at: ms(at),
        took: Nanos::ZERO,
        store_took: Nanos::ZERO,
        leaves_replicas_out: false,
        most_running: 2,
        cpu_lacks: Nanos::ZERO,
        processes: pids.iter().map(process).collect(),
        zombies: Vec::new(),
        totals: BTreeMap::from([(String::new(), counters)]),
        group: Reading::Missing(Why::NotApplicable),
        groups: BTreeMap::new(),
        syncs: BTreeMap::new(),
        unread: BTreeMap::new(),
        pressure: Pressure { cpu: waited(), io: waited(), memory: waited() },
        device: Reading::Missing(Why::NotApplicable),
        disk: Reading::Missing(Why::NotApplicable),
        cached: Reading::Missing(Why::NotApplicable),
        unwritten: Reading::Missing(Why::NotApplicable),
    }
}

/// A program of which these snapshots were taken, and which used 1,000 of everything in all.
pub(crate) fn watched(snapshots: Vec<Snapshot>, suspensions: Vec<Suspension>) -> Watched {
    let usage =
        Usage { minor_faults: 1_000, written: Bytes::from_bytes(1_000), peak: Bytes::from_mib(90), ..Usage::default() };
    let memory = MemoryEvidence {
        limit: None,
        peak: Reading::Missing(Why::NotApplicable),
        oom_kills: Reading::Measured(0),
        forks_refused: Reading::Measured(0),
        throttled: Reading::Measured(0),
        limit_reached: Reading::Measured(false),
        host_oom_kills: Reading::Measured(0),
    };
    let ended = End {
        status: Status::Exited(0),
        at: snapshots[snapshots.len() - 1].at,
        killed: None,
        cpu: Reading::Measured(CpuTime { user: ms(1_000), system: Nanos::ZERO }),
        usage: Reading::Measured(usage),
        leftover: 0,
        memory,
        stdout: None,
        stderr: None,
        lost: None,
    };
    Watched {
        services: Default::default(),
        tracker: Tracker::new(&[]),
        begin: vec![],
        end: vec![],
        released: snapshots[0].at,
        executed: snapshots[0].at,
        snapshots,
        ended,
        stopped: None,
        output: [Captured::default(), Captured::default()],
        threads: Threads::default(),
        suspensions,
        replicas: Replicated::default(),
        settled: BTreeMap::new(),
        polls_took: Nanos::ZERO,
        paused: Nanos::ZERO,
        floods: vec![],
        worker: None,
        cut: None,
        executable: None,
    }
}

/// A suspension of one thread from one snapshot to another, where its memory was read.
pub(crate) fn suspension(pid: u32, thread: u32, snapshots: (usize, usize), at: (u64, u64)) -> Suspension {
    let source = Source { pid, thread };
    let mut suspension = Suspension::new(0, source, ms(at.0), ms(at.0), snapshots.0);
    (suspension.after_actions, suspension.read, suspension.until) = (Some(snapshots.1), Some(ms(at.1)), Some(ms(at.1)));
    suspension
}

/// The figures from one snapshot to another.
pub(crate) fn between(watched: &Watched, first: usize, until: usize, series: &[ProcessSeries]) -> Readings {
    let suspended = Suspensions::new(
        watched.suspensions.iter().map(|suspension| (suspension.from, watched.suspension_ended(suspension))).collect(),
    );
    let last = watched.snapshots.len() - 1;
    let (to_the_end, from_the_start) = (until == last, first == 0);
    Span { watched, suspended: &suspended, first, until, at_end: None, to_the_end, from_the_start, late: Nanos::ZERO }
        .readings(series)
}

#[test]
fn cpu_time_lacks_a_tick_of_what_ran_at_boundaries_only() {
    let mut all = watched(
        vec![
            snapshot(0, 0, &[7]),
            snapshot(100, 10, &[7]),
            snapshot(200, 20, &[7]),
            snapshot(300, 30, &[7]),
            snapshot(400, 40, &[]),
        ],
        vec![suspension(7, 0, (2, 3), (200, 300))],
    );
    all.snapshots.iter_mut().zip([1, 4, 8, 16, 32]).for_each(|(snapshot, lacks)| snapshot.cpu_lacks = ms(lacks));
    let none = Suspensions::new(Vec::new());
    let late_error = |first, until, (from_the_start, to_the_end), late| {
        let span =
            Span { watched: &all, suspended: &none, first, until, at_end: None, to_the_end, from_the_start, late };
        span.cpu_error()
    };
    let error = |first, until, ends| late_error(first, until, ends, Nanos::ZERO);
    let of = |over: u64, under: u64| [(Metric::CpuOver, ms(over)), (Metric::CpuUnder, ms(under))];
    assert_eq!(error(1, 2, (false, false)), of(4, 8));
    assert_eq!(error(0, 1, (true, false)), of(0, 4), "nothing had run at the begin");
    assert_eq!(error(1, 4, (false, true)), of(4 + 16 + 20, 8 + 32), "what a suspension used is deducted");
    // Without a group the CPU time before the phase is known in ticks of procfs, that of a thread that runs is not whole.
    assert_eq!(error(3, 4, (false, true)), of(16 + 20, 32));
    let late = |ends| late_error(1, 2, ends, ms(3));
    assert_eq!((late((false, false)), late((false, true))), (of(4 + 6, 8 + 6), of(4 + 20, 8 + 6)));
}

fn get(readings: &Readings, name: &str) -> Reading<f64> {
    readings[&MetricKeyText(name.parse().unwrap())].clone()
}

/// Why each of these is missing, all alike.
#[track_caller]
pub(crate) fn why(readings: &Readings, names: &[&str]) -> String {
    let reasons: BTreeSet<String> = (names.iter())
        .map(|name| match get(readings, name) {
            Reading::Missing(why) => why.to_string(),
            Reading::Measured(value) => panic!("{name} is {value}"),
        })
        .collect();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    reasons.into_iter().next().unwrap()
}

fn series(pid: u32, at: u64) -> ProcessSeries {
    let samples = vec![ProcessSample { at: ms(at), ..ProcessSample::default() }];
    ProcessSeries { pid, role: "program".into(), command: "c".into(), samples }
}

#[test]
fn a_peak_of_another_process_is_not_the_last_phases() {
    let snapshots = || vec![snapshot(0, 0, &[7]), snapshot(100, 50, &[7]), snapshot(300, 60, &[])];
    let one = watched(snapshots(), vec![]);
    let mib = |n: u64| Reading::Measured(bytes(Bytes::from_mib(n)));
    assert_eq!(get(&between(&one, 1, 2, &[series(7, 200)]), "rss.peak"), mib(90), "one process, from its begin on");
    let child = [series(7, 200), series(9, 50)];
    let last = between(&one, 1, 2, &child);
    assert!(why(&last, &["rss.peak"]).contains("even before the phase"), "the child's was before");
    assert_eq!(get(&between(&one, 0, 1, &[series(7, 50)]), "rss.peak"), mib(3), "as a snapshot read it");
    let mut before_execve = series(7, 50);
    before_execve.samples[0].anon = Bytes::from_mib(30);
    assert!(why(&between(&one, 0, 1, &[before_execve]), &["rss.peak"]).contains("executed another program"));
    let mut unseen = watched(snapshots(), vec![]);
    unseen.snapshots[2].totals.get_mut("").unwrap().child_faults = 40;
    let last = between(&unseen, 1, 2, &[series(7, 200)]);
    assert!(why(&last, &["rss.peak"]).contains("ended before they were sampled"), "one came and went");
    assert_eq!(get(&between(&unseen, 0, 1, &[series(7, 50)]), "rss.peak"), mib(3), "its own, read while it lived");
    let mut not_reset = watched(snapshots(), vec![]);
    not_reset.snapshots[1].processes[0].peak_reset = false;
    assert!(why(&between(&not_reset, 1, 2, &[]), &["rss.peak"]).contains("clear_refs"));
}

/// "No samples" was the reason, though `rss.max` of the same phase had some.
#[test]
fn peak_of_a_program_that_ended_before_the_snapshot_is_missing_for_that_reason() {
    let ends_at_a_mark = vec![snapshot(0, 0, &[7]), snapshot(100, 50, &[7]), snapshot(200, 60, &[])];
    let all = watched([ends_at_a_mark, vec![snapshot(201, 60, &[])]].concat(), vec![]);
    let phase = between(&all, 1, 2, &[series(7, 150)]);
    assert!(why(&phase, &["rss.peak"]).contains("ended before its peak could be read"));
}

/// A program of 60 MB executed one of 8 MB, which then had 64.2 MB in the last phase.
#[test]
fn a_peak_from_before_execve_is_not_the_last_phases() {
    let of = |before: u64, inside: u64, reaped: u64| {
        let mut one = watched(
            vec![snapshot(0, 0, &[7]), snapshot(100, 50, &[7]), snapshot(200, 50, &[7]), snapshot(300, 60, &[])],
            vec![],
        );
        one.snapshots[1].processes[0].peak = Bytes::from_mib(before);
        one.ended.usage = one.ended.usage.map(|usage| Usage { peak: Bytes::from_mib(reaped), ..usage });
        let sample = |at, mib| ProcessSample { at: ms(at), anon: Bytes::from_mib(mib), ..ProcessSample::default() };
        let samples = vec![sample(50, 3), sample(250, inside)];
        let series = ProcessSeries { pid: 7, role: "program".into(), command: "c".into(), samples };
        between(&one, 2, 3, &[series])
    };
    let mib = |n: u64| Reading::Measured(bytes(Bytes::from_mib(n)));
    assert!(why(&of(64, 9, 64), &["rss.peak"]).contains("all that the program executed"));
    assert_eq!(get(&of(64, 64, 64), "rss.peak"), mib(64), "a sample of the phase shows as much");
    assert_eq!(get(&of(20, 9, 64), "rss.peak"), mib(64), "it had less before");
    assert_eq!(get(&of(64, 3, 9), "rss.peak"), mib(9), "it had more before, and that was reset");
}

/// A child that came and went between two samples was passed over, though the kernel reported its memory.
#[test]
fn samples_that_show_little_of_the_largest_process_are_no_measure_of_the_tree() {
    let of = |peak: u64, child_faults: u64| {
        let mut one = watched(vec![snapshot(0, 0, &[7]), snapshot(300, 60, &[])], vec![]);
        one.ended.usage = Reading::Measured(Usage { peak: Bytes::from_mib(peak), ..Usage::default() });
        one.snapshots[1].totals.get_mut("").unwrap().child_faults = child_faults;
        let sample = |at| ProcessSample { at: ms(at), anon: Bytes::from_mib(30), ..ProcessSample::default() };
        let samples = (1..30).map(|n| sample(10 * n)).collect();
        let series = ProcessSeries { pid: 7, role: "program".into(), command: "c".into(), samples };
        between(&one, 0, 1, &[series])
    };
    let mib = |n: u64| Reading::Measured(bytes(Bytes::from_mib(n)));
    let reason = why(&of(41, 9), &["anon.max", "anon.mean", "anon.min", "rss.max", "processes.max"]);
    assert!(reason.contains("no sample shows the peak memory"), "{reason}");
    assert_eq!(get(&of(40, 9), "anon.max"), mib(30), "samples show three quarters");
    assert_eq!(get(&of(41, 0), "anon.max"), mib(30), "without children the peak itself is there");
    assert_eq!(get(&of(41, 0), "rss.peak"), mib(41));
    assert_eq!(get(&of(29, 0), "rss.peak"), mib(30), "at least the largest sample");
}

/// The program's end was the snapshot after it, which may come late.
#[test]
fn what_comes_after_the_programs_end_is_no_gap_between_its_samples() {
    let of = |ended: u64| {
        let mut one = watched(vec![snapshot(0, 0, &[7]), snapshot(300, 60, &[])], vec![]);
        one.ended.at = ms(ended);
        let sample = |at| ProcessSample { at: ms(at), anon: Bytes::from_mib(30), ..ProcessSample::default() };
        let samples = (1..=10).map(|n| sample(10 * n)).collect();
        let series = ProcessSeries { pid: 7, role: "program".into(), command: "c".into(), samples };
        get(&between(&one, 0, 1, &[series]), "anon.max")
    };
    assert_eq!(of(105), Reading::Measured(bytes(Bytes::from_mib(30))));
    assert!(matches!(of(290), Reading::Missing(Why::Failed(_))));
}

#[test]
fn suspensions_that_overlap_are_deducted_once() {
    let snapshots = (0..=6).map(|n| snapshot(n * 100, n * 10, &[7])).chain([snapshot(700, 70, &[])]).collect();
    let suspensions = vec![suspension(7, 2, (2, 4), (200, 400)), suspension(7, 1, (1, 3), (100, 300))];
    let all = watched(snapshots, suspensions);
    let readings = between(&all, 0, 6, &[]);
    assert_eq!(get(&readings, "cpu"), Reading::Measured(30e6), "all but what was used from snapshot 1 to snapshot 4");
    assert_eq!(get(&readings, "written"), Reading::Measured(30.0));
    let to_the_end = between(&all, 0, 7, &[]);
    assert_eq!(get(&to_the_end, "cpu"), Reading::Measured(970e6));
    assert_eq!(get(&to_the_end, "faults.minor"), Reading::Measured(970.0));
    let part = between(&all, 3, 6, &[]);
    assert_eq!(get(&part, "written"), Reading::Measured(20.0), "of a hold under way at its begin, the rest");
}

#[test]
fn memory_after_a_suspension_is_of_the_suspended_process() {
    let mut snapshots =
        vec![snapshot(0, 0, &[7, 8]), snapshot(100, 10, &[7, 8]), snapshot(900, 20, &[7, 8, 9]), snapshot(950, 0, &[])];
    for (snapshot, sizes) in snapshots.iter_mut().zip([[10, 10, 0], [80, 30, 0], [50, 200, 70]]) {
        for (process, mib) in snapshot.processes.iter_mut().zip(sizes) {
            process.sample.anon = Bytes::from_mib(mib);
            process.pss = Reading::Measured(Bytes::from_mib(mib));
        }
    }
    let all = watched(snapshots, vec![suspension(7, 0, (1, 2), (100, 900))]);
    let suspended = Suspensions::new(vec![(ms(100), ms(900))]);
    let at_end = Some(&all.suspensions[0]);
    let span = Span {
        watched: &all,
        suspended: &suspended,
        first: 0,
        until: 1,
        late: Nanos::ZERO,
        at_end,
        to_the_end: false,
        from_the_start: true,
    };
    let readings = span.readings(&[]);
    let mib = |n: u64| Reading::Measured(bytes(Bytes::from_mib(n)));
    assert_eq!(get(&readings, "anon.before"), mib(110));
    let names = ["anon.end", "rss.end", "pss.end"];
    assert_eq!(names.map(|name| get(&readings, name)), [80, 80, 80].map(mib), "the child's growth is after the end");
    assert_eq!(get(&readings, "processes.end"), Reading::Measured(2.0), "and so is a new one");
}

#[test]
fn the_machines_waits_continue_in_a_suspension() {
    let snapshots =
        vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(200, 20, &[7]), snapshot(400, 40, &[7])];
    let suspended = watched(snapshots, vec![suspension(7, 0, (1, 2), (100, 200))]);
    let names = ["pressure.cpu", "pressure.io", "pressure.memory"];
    assert!(why(&between(&suspended, 0, 3, &[]), &names).contains("suspended inside the phase"));
    assert_eq!(get(&between(&suspended, 2, 3, &[]), "pressure.cpu"), Reading::Measured(0.25));
}

#[test]
fn counters_of_an_ended_program_are_missing_not_zero() {
    let lost = ["cpu", "cpu.user", "cpu.on", "cpu.wait", "read", "written", "faults.minor", "switches.voluntary"];
    // Its own mark ends the phase, and nothing is left when it is read.
    let snapshots =
        || vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(200, 0, &[]), snapshot(210, 0, &[])];
    let marked = between(&watched(snapshots(), vec![]), 1, 2, &[]);
    assert!(why(&marked, &lost).contains("had ended before its counters could be read at the phase's end"));
    assert!(why(&between(&watched(snapshots(), vec![]), 2, 3, &[]), &lost).contains("at the phase's begin"));
    let whole = between(&watched(snapshots(), vec![]), 0, 3, &[]);
    assert_eq!(get(&whole, "faults.minor"), Reading::Measured(1_000.0), "the kernel reported it at the end");
    // A control group continues to count.
    let mut grouped = watched(snapshots(), vec![]);
    for snapshot in &mut grouped.snapshots {
        let total = Nanos::from_nanos(snapshot.at.as_nanos() / 2);
        snapshot.group = Reading::Measured(GroupCpu { total, user: total, system: Nanos::ZERO });
    }
    let readings = between(&grouped, 1, 2, &[]);
    assert_eq!([get(&readings, "cpu"), get(&readings, "cpu.user")], [50e6, 50e6].map(Reading::Measured));
    assert!(why(&readings, &lost[2..]).contains("had ended"));
}

#[test]
fn what_was_not_read_at_the_begin_is_no_zero() {
    let snapshots = || vec![snapshot(0, 0, &[7]), snapshot(100, 400, &[7]), snapshot(200, 0, &[])];
    let mut hidden = watched(snapshots(), vec![]);
    assert_eq!(get(&between(&hidden, 1, 2, &[]), "written"), Reading::Measured(600.0));
    let refused = Reading::Missing(Why::NotPermitted("`/proc/7/io`".into()));
    hidden.snapshots[1].totals.get_mut("").unwrap().written = refused.clone();
    let readings = between(&hidden, 1, 2, &[]);
    assert_eq!(get(&readings, "written"), refused.map(|bytes: Bytes| bytes.as_bytes() as f64));
    assert_eq!(get(&readings, "faults.minor"), Reading::Measured(600.0));
    let mut first = watched(snapshots(), vec![]);
    first.snapshots[0].processes[0].sample.written = None;
    assert!(why(&between(&first, 0, 2, &[]), &["written"]).contains("before its program began"));
    let mut uncounted = watched(snapshots(), vec![]);
    uncounted.snapshots[1].totals.remove("");
    let missing = ["faults.minor", "switches.forced", "written", "cpu", "cpu.user"];
    assert!(why(&between(&uncounted, 1, 2, &[]), &missing).contains("no counters of the program are known"));
    assert_eq!(get(&between(&uncounted, 0, 2, &[]), "cpu"), Reading::Measured(1e9), "of the whole nothing is needed");
    first.snapshots[0].processes.clear();
    assert_eq!(get(&between(&first, 0, 2, &[]), "written"), Reading::Measured(1_000.0), "light care reads nothing");
}

#[test]
fn control_group_counts_its_replicas_too() {
    let mut all = watched(vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(200, 20, &[])], vec![]);
    let none = Suspensions::new(Vec::new());
    let of_all = |all: &Watched, until| {
        let (to_the_end, late) = (until == 2, Nanos::ZERO);
        let span = Span {
            watched: all,
            suspended: &none,
            first: 0,
            until,
            at_end: None,
            to_the_end,
            from_the_start: true,
            late,
        };
        [Metric::Cpu, Metric::CpuUser, Metric::Written].map(|metric| span.is_of_all(metric))
    };
    assert_eq!(of_all(&all, 1), [false; 3], "no group");
    for snapshot in &mut all.snapshots {
        let total = Nanos::from_nanos(snapshot.at.as_nanos() / 2);
        snapshot.group = Reading::Measured(GroupCpu { total, user: total, system: Nanos::ZERO });
    }
    assert_eq!(of_all(&all, 1), [true, true, false]);
    assert_eq!(of_all(&all, 2), [true, false, false], "user and system come from `wait4` at the end");
    all.ended.cpu = Reading::Missing(Why::NotReached);
    assert_eq!(of_all(&all, 2), [true, true, false]);
}

/// A program that moved its processes out of the control group took 37 times less CPU time.
#[test]
fn cpu_time_of_processes_that_left_the_control_group_is_missing() {
    let of = |counted: u64| {
        let mut left = watched(vec![snapshot(0, 0, &[7]), snapshot(1_500, 0, &[])], vec![]);
        for (snapshot, total) in left.snapshots.iter_mut().zip([0, counted]) {
            let total = ms(total);
            snapshot.group = Reading::Measured(GroupCpu { total, user: total, system: Nanos::ZERO });
        }
        between(&left, 0, 1, &[])
    };
    let all = of(1_000);
    assert_eq!((get(&all, "cpu"), get(&all, "cpu.user")), (Reading::Measured(1e9), Reading::Measured(1e9)));
    assert_eq!(get(&of(950), "cpu"), Reading::Measured(9.5e8), "clocks and ticks differ a little");
    let left = of(5);
    let expected =
        "processes left the control group of the trial, in which 5.00 ms of their 1.000 s of CPU time were counted";
    assert!(why(&left, &["cpu"]).contains(expected), "{}", why(&left, &["cpu"]));
    assert_eq!(get(&left, "cpu.user"), Reading::Measured(1e9));
}

/// 29 % less memory was measured of children that no sample showed.
#[test]
fn memory_of_a_child_that_no_sample_shows_is_known_by_its_peak() {
    let of = |peak: u64, faults: u64| {
        let mut all = watched(
            vec![snapshot(0, 0, &[7]), snapshot(100, 0, &[7]), snapshot(200, 0, &[7]), snapshot(300, 0, &[])],
            vec![],
        );
        all.snapshots[2].totals.get_mut("").unwrap().child_faults = faults;
        all.ended.usage = all.ended.usage.map(|usage| Usage { peak: Bytes::from_mib(peak), ..usage });
        between(&all, 1, 2, &[]).get(&MetricKeyText("rss.unseen".parse().unwrap())).cloned()
    };
    assert_eq!(of(90, 20_000), Some(Reading::Measured(90.0 * 1_048_576.0)));
    assert_eq!((of(90, 0), of(3, 20_000)), (None, None), "no child, and none larger than the samples show");
}

/// The phase in which a program waited for a child had its memory, and not the one in which the child lived.
#[test]
fn peak_of_a_child_is_in_the_phase_in_which_it_ended_too() {
    let mut all = watched(
        vec![snapshot(0, 0, &[7]), snapshot(100, 0, &[7]), snapshot(200, 0, &[7]), snapshot(300, 0, &[7])],
        vec![],
    );
    all.snapshots.push(snapshot(400, 0, &[]));
    for (snapshot, zombies) in all.snapshots.iter_mut().zip([0, 1, 2, 1, 0]) {
        snapshot.zombies = vec!["program".into(); zombies];
    }
    all.snapshots[3].totals.get_mut("").unwrap().child_faults = 20_000;
    all.snapshots[4].totals.get_mut("").unwrap().child_faults = 20_000;
    let unseen =
        |first: usize| between(&all, first, first + 1, &[]).contains_key(&MetricKeyText("rss.unseen".parse().unwrap()));
    assert_eq!([0, 1, 2].map(unseen), [true; 3]);
    all.snapshots[2].zombies.pop();
    let unseen = between(&all, 1, 2, &[]).contains_key(&MetricKeyText("rss.unseen".parse().unwrap()));
    assert!(!unseen, "it had ended before");
}

/// One process that had used 29.9 ms when a phase began, of which procfs shows 10 ms, was said to have left its group.
#[test]
fn ticks_that_procfs_cuts_off_at_the_begin_are_no_processes_that_left_the_control_group() {
    let of = |counted: u64, faults: u64| {
        let mut all = watched(vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(200, 0, &[])], vec![]);
        all.ended.cpu = Reading::Measured(CpuTime { user: ms(43), system: Nanos::ZERO });
        for (snapshot, total) in all.snapshots.iter_mut().zip([0, 29, 29 + counted]) {
            let (total, user) = (ms(total), ms(total / 2));
            snapshot.group = Reading::Measured(GroupCpu { total, user, system: total.since(user) });
            snapshot.totals.get_mut("").unwrap().child_faults = faults;
        }
        between(&all, 1, 2, &[])
    };
    let last = of(14, 0);
    let [cpu, user, system] = ["cpu", "cpu.user", "cpu.system"].map(|name| get(&last, name));
    assert_eq!((cpu, user, system), (Reading::Measured(14e6), Reading::Measured(7e6), Reading::Measured(7e6)));
    assert!(why(&of(2, 0), &["cpu", "cpu.user", "cpu.system"]).contains("left the control group"));
    assert_eq!(
        get(&of(2, 1), "cpu"),
        Reading::Measured(2e6),
        "children that it had waited for are counted in ticks too"
    );
}

/// The kernel counts them for each thread, so that what threads did before they ended in a phase was in the next.
#[test]
fn switches_of_the_last_phase_are_missing_where_threads_had_ended_before() {
    let of = |unread| {
        let mut all = watched(vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(200, 0, &[])], vec![]);
        all.snapshots[1].totals.get_mut("").unwrap().unread_switches = unread;
        ["switches.voluntary", "switches.forced"].map(|name| get(&between(&all, 1, 2, &[]), name))
    };
    assert!(of(0).iter().all(|reading| reading.measured().is_some()));
    assert!(of(2).iter().all(|reading| reading.measured().is_none()));
}
