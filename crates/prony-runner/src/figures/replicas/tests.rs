use prony_boundaries::phase_state::{Happened, PhaseState};
use prony_boundaries::tracker::Tracker;
use prony_model::program::{ObserveSpec, Trigger};
use prony_model::record::ProcessSample;
use prony_model::spec::{Action, PhaseSpec};
use prony_model::units::Bytes;
use prony_os::launch::{Captured, CpuTime, Usage};
use prony_os::sample::parse::GroupCpu;
use prony_os::sample::snapshot::ProcessSnapshot;

use super::*;
use crate::figures::span;
use crate::figures::span::tests::{ms, snapshot, watched};
use crate::figures::tests::lines::{heap, hello, line, threads};
use crate::watched::replicas::last_end;

const READ: &str = r"(?<operations>\d+) ops(, (?<rows>\d+) rows)?(, digest (?<digest>\w+))?";

/// A phase from the program's begin to its end whose `read` was applied to these lines.
pub(crate) fn heard(read: &str, from: u64, lines: &[&str]) -> PhaseState {
    let observe = ObserveSpec { read: Some(read.into()), ..ObserveSpec::WHOLE };
    let phase =
        PhaseSpec { name: "r".into(), timed: true, action: Action::Observe(observe), background: None, limit: None };
    let mut tracker = Tracker::new(&[phase]);
    tracker.start(ms(from));
    lines.iter().for_each(|line| drop(tracker.happened(Happened::Line(line), ms(from), Nanos::ZERO)));
    tracker.phases.remove(0)
}

/// A replica that used as many milliseconds of CPU time, faults and bytes as `spent` says, and wrote these lines.
pub(crate) fn ran(number: u32, (from, to): (u64, u64), spent: u64, lines: &[&str]) -> Ran {
    let mut end = watched(vec![snapshot(to, 0, &[])], vec![]).ended;
    let suspended = 7;
    let written = Bytes::from_bytes(spent + suspended);
    let usage = Usage { minor_faults: spent + suspended, written, peak: Bytes::from_mib(40), ..Usage::default() };
    end.cpu = Reading::Measured(CpuTime { user: ms(spent + suspended), system: Nanos::ZERO });
    end.usage = Reading::Measured(usage);
    let before = Usage { minor_faults: suspended, written: Bytes::from_bytes(suspended), ..Usage::default() };
    Ran {
        number,
        pid: 100 + number,
        released: ms(from),
        before: Some((CpuTime { user: ms(suspended), system: Nanos::ZERO }, before)),
        end: ReplicaEnd::Ended(Box::new(end)),
        first: 0,
        until: None,
        reported: None,
        unread: false,
        lines: heard(READ, from, lines),
        marks: 0,
        threads: Threads::default(),
        silent: Why::NotApplicable,
        heap_aborts: vec![],
        output: [Captured::default(), Captured::default()],
    }
}

/// The same, of which the kernel reports that it had so many bytes at most.
fn with_peak(mut ran: Ran, peak: u64) -> Ran {
    if let ReplicaEnd::Ended(end) = &mut ran.end {
        end.usage = end.usage.clone().map(|usage| Usage { peak: Bytes::from_bytes(peak), ..usage });
    }
    ran
}

pub(crate) fn cut_off(mut ran: Ran) -> Ran {
    if let ReplicaEnd::Ended(end) = ran.end {
        ran.end = ReplicaEnd::CutOff(end);
    }
    ran
}

/// A snapshot with a program that had used `own` and replicas that had used so much, each with `own` bytes of PSS.
fn snapshot_of(at: u64, own: u64, replicas: &[(u32, u64)]) -> Snapshot {
    let mut snapshot = snapshot(at, own + replicas.iter().map(|(_, used)| used).sum::<u64>(), &[7]);
    let counters = |used: u64| Counters { cpu_user: ms(used), minor_faults: used, ..Counters::default() };
    snapshot.totals.insert("program".into(), counters(own));
    for (number, used) in replicas {
        let role = format!("replica.{number}");
        snapshot.totals.insert(role.clone(), counters(*used));
        snapshot.processes.push(ProcessSnapshot {
            pid: 100 + number,
            role,
            sample: ProcessSample { at: ms(at), anon: Bytes::from_bytes(*used), ..ProcessSample::default() },
            pss: Reading::Measured(Bytes::from_bytes(10 * used)),
            peak: Bytes::from_mib(50),
            peak_reset: true,
        });
    }
    snapshot
}

fn get(readings: &Readings, name: &str) -> Reading<f64> {
    readings.get(&MetricKeyText(name.parse().unwrap())).cloned().unwrap_or_else(|| panic!("no {name}"))
}

fn why(reading: Reading<f64>) -> String {
    match reading {
        Reading::Missing(why) => why.to_string(),
        Reading::Measured(value) => panic!("{value}"),
    }
}

#[test]
fn the_makespan_is_from_the_first_release_to_the_last_end() {
    let all = [ran(1, (100, 400), 5, &[]), ran(2, (103, 900), 5, &[]), ran(3, (101, 500), 5, &[])];
    let mut readings = Readings::new();
    whole(&mut readings, &all, None);
    assert_eq!((get(&readings, "makespan"), get(&readings, "skew")), (nanos(ms(800)), nanos(ms(500))));
    let [first, second, mut third] = all;
    third.end = ReplicaEnd::NotBegun("no such file".into());
    assert!(why(makespan(&[first, third])).contains("`replica.3` could not be executed"));
    assert!(why(skew(&[cut_off(second)])).contains("`replica.2` had not ended when the program ended"));
}

#[test]
fn what_was_ended_before_it_began_has_no_figure_and_no_zero() {
    let snapshots = [snapshot_of(0, 0, &[]), snapshot_of(300, 9, &[(1, 30)])];
    let all = [ran(1, (50, 200), 80, &[]), Ran { before: None, ..ran(2, (200, 200), 80, &[]) }];
    let found = instances(&all, Inputs { snapshots: &snapshots, series: &[], pss: &LargestPss::default() });
    for name in ["wall", "time", "cpu", "written", "faults.minor", "rss.peak"] {
        assert!(why(get(&found["replica.2"], name)).contains("before it executed its program"), "{name}");
    }
    for name in ["wall", "cpu"] {
        assert!(why(get(&found["replicas"], name)).contains("before it executed its program"), "{name}");
    }
    assert!(why(makespan(&all)).contains("`replica.2`: the replica was ended before it executed its program"));
}

#[test]
fn counters_without_a_snapshot_are_missing() {
    let snapshots = [snapshot_of(0, 0, &[]), snapshot_of(100, 5, &[]), snapshot_of(300, 9, &[])];
    let one = ran(1, (50, 200), 80, &[]);
    let cpu = |first, until| one.between(&snapshots, first, until).unwrap().map(|all| all.cpu_user.as_nanos() as f64);
    assert!(why(cpu(0, 1)).contains("`replica.1` was not running at the phase's begin"));
    assert!(why(cpu(1, 2)).contains("`replica.1` was not running at the phase's begin"));
    assert_eq!(cpu(0, 2), Reading::Measured(80e6), "all of it is known");
    let mut single = vec![snapshot_of(100, 5, &[(1, 30)])];
    single[0].totals.remove("program");
    leave_out(&mut single, "program", &[ran(1, (50, 200), 80, &[])]);
    assert!(!single[0].totals.contains_key(""), "of a program that was not counted nothing is known");
}

#[test]
fn the_last_end_is_known_where_none_was_cut_off() {
    let mut all = vec![ran(1, (100, 400), 5, &[]), ran(2, (103, 900), 5, &[]), ran(3, (101, 500), 5, &[])];
    all[2].end = ReplicaEnd::NotBegun("no such file".into());
    let last = |all: &[Ran]| last_end(all.iter().map(|ran| &ran.end));
    assert_eq!((last(&all), last(&all[2..])), (Some(ms(900)), None));
    all[0] = cut_off(ran(1, (100, 950), 5, &[]));
    assert_eq!(last(&all), None);
}

#[test]
fn replica_reports_are_summed() {
    let of = |second: &'static str| [ran(1, (0, 9), 5, &["30 ops"]), ran(2, (0, 9), 5, &[second])];
    let mut readings = Readings::new();
    whole(&mut readings, &of("12 ops"), None);
    assert_eq!(get(&readings, "operations"), Reading::Measured(42.0));
    let silent = reported(&of("nothing"));
    assert!(why(get(&silent, "operations")).contains("`replica.2`: no line of the phase reported this metric"));
}

/// All operations were divided by the second that the phase lasted: replicas that took 3 s for them had the same rate as those that
/// took 0.3 s.
#[test]
fn what_replicas_did_after_the_end_of_their_phase_is_not_the_phases() {
    let said = |at| Ran { lines: heard(READ, at, &["300 ops, 5 rows"]), ..ran(1, (0, 3_000), 5, &[]) };
    let of = |said_at, end: Option<Trigger>| {
        let observe = ObserveSpec { end, ..ObserveSpec::WHOLE };
        let action = Action::Observe(observe);
        let phase = PhaseSpec { name: "b".into(), timed: true, action, background: None, limit: None };
        let mut tracker = Tracker::new(&[phase]);
        tracker.start(ms(0));
        tracker.happened(Happened::Line("C"), ms(1_000), Nanos::ZERO);
        tracker.finish(ms(3_000), None);
        let mut readings = Readings::new();
        set(&mut readings, Metric::Time, nanos(ms(1_000)));
        crate::figures::own_account(&tracker.phases[0], &[said(500), said(said_at)], false, &mut readings);
        rate_of_reported(&mut readings);
        readings
    };
    let line = || Some(Trigger::Line("^C".into()));
    let late = of(2_900, line());
    for name in ["operations", "rows", "rate"] {
        assert!(why(get(&late, name)).contains("`replica.1` reported after the phase's end"), "{name}");
    }
    assert_eq!(get(&late, "makespan"), nanos(ms(3_000)));
    assert_eq!(get(&of(900, line()), "rate"), Reading::Measured(600.0), "they only ended later");
    assert_eq!(get(&of(2_900, None), "operations"), Reading::Measured(600.0), "it ends with the program");
    let (snapshots, pss) = ([snapshot_of(0, 0, &[]), snapshot_of(3_000, 9, &[])], LargestPss::default());
    let found = instances(&[said(2_900)], Inputs { snapshots: &snapshots, series: &[], pss: &pss });
    assert_eq!(get(&found["replicas"], "rate"), Reading::Measured(100.0));
}

/// Sums of the replicas took the place of what no line of the program reported.
#[test]
fn what_the_programs_own_lines_are_to_report_is_never_the_replicas() {
    let of = |read: &str, lines: &[&str]| {
        let (tracked, replicas) = (heard(read, 0, lines), [ran(1, (0, 9), 5, &["30 ops, 4 rows"])]);
        let replicas_report = replicas.iter().any(|ran| tracked.is_reported_by(&ran.lines));
        let mut readings = Readings::new();
        crate::figures::own_account(&tracked, &replicas, replicas_report, &mut readings);
        ["operations", "rows"].map(|name| get(&readings, name).measured().copied())
    };
    assert_eq!(of(READ, &[]), [Some(30.0), Some(4.0)], "they share the pattern");
    assert_eq!(of(READ, &["7 ops, 1 rows"]), [Some(7.0), Some(1.0)]);
    assert_eq!(of(READ, &["7 ops"]), [Some(7.0), None], "its line did not report its rows");
    assert_eq!(of("did (?<operations>.*)", &["did 7"]), [Some(7.0), Some(4.0)]);
    for lines in [&["did many"][..], &[]] {
        assert_eq!(of("did (?<operations>.*)", lines), [None, Some(4.0)]);
    }
}

#[test]
fn usage_between_snapshots_is_exact_for_an_ended_replica() {
    let snapshots =
        [snapshot_of(0, 0, &[]), snapshot_of(100, 5, &[(1, 30)]), snapshot_of(300, 9, &[]), snapshot_of(400, 9, &[])];
    let one = ran(1, (50, 200), 80, &[]);
    let cpu = |first, until| one.between(&snapshots, first, until).map(|all| all.map(|all| all.cpu_user));
    assert_eq!(cpu(0, 2), Some(Reading::Measured(ms(80))), "all of it, less what it had while suspended");
    assert_eq!(cpu(0, 1), Some(Reading::Measured(ms(30))), "up to its last sample");
    assert_eq!(cpu(1, 2), Some(Reading::Measured(ms(50))), "the rest");
    assert_eq!(cpu(2, 3), None, "it had ended before");
    assert_eq!(ran(2, (350, 360), 1, &[]).between(&snapshots, 0, 2), None, "it had not begun");
}

/// A child burnt 0.2 s in each of two replicas: `replicas.cpu` was a third of what was used, and a gate passed.
#[test]
fn replica_that_ignores_its_children_has_no_figure_that_lacks_theirs() {
    let mut snapshots = vec![snapshot_of(0, 0, &[]), snapshot_of(100, 5, &[(1, 30)]), snapshot_of(300, 9, &[(1, 60)])];
    snapshots[1].totals.get_mut("replica.1").unwrap().ignores_children = 1;
    snapshots[2].totals.get_mut("replica.1").unwrap().ignores_children = 1;
    let all = [ran(1, (50, 200), 80, &[]), ran(2, (50, 200), 80, &[])];
    let found = instances(&all, Inputs { snapshots: &snapshots, series: &[], pss: &LargestPss::default() });
    for name in ["cpu", "cpu.user", "written", "faults.minor"] {
        for instance in ["replica.1", "replicas"] {
            assert!(why(get(&found[instance], name)).contains("ignores SIGCHLD"), "{instance} {name}");
        }
        assert!(get(&found["replica.2"], name).measured().is_some(), "{name}");
    }
    leave_out(&mut snapshots, "program", &all);
    for until in [1, 2] {
        let mut readings = phase_readings(&snapshots[0], &snapshots[until], &[], "");
        add(&mut readings, &all[..1], &snapshots, (0, until), |metric| metric == Metric::Cpu);
        assert!(why(get(&readings, "faults.minor")).contains("ignores SIGCHLD"), "to snapshot {until}");
        assert!(get(&readings, "cpu").measured().is_some(), "the group counts it");
    }
}

#[test]
fn a_phase_has_what_they_used_once() {
    let mut snapshots = vec![snapshot_of(0, 0, &[]), snapshot_of(100, 5, &[(1, 30)]), snapshot_of(300, 9, &[(1, 60)])];
    let all = [ran(1, (50, 200), 80, &[])];
    leave_out(&mut snapshots, "program", &all);
    assert_eq!(snapshots[2].totals[""].minor_faults, 9, "the program's only");
    let own = || phase_readings(&snapshots[0], &snapshots[2], &[], "");
    let mut readings = own();
    add(&mut readings, &all, &snapshots, (0, 2), |_| false);
    assert_eq!(get(&readings, "faults.minor"), Reading::Measured(89.0));
    assert_eq!(get(&readings, "cpu.user"), Reading::Measured(89e6));
    assert!(why(get(&readings, "rss.peak")).contains("1 replicas"));
    assert!(why(get(&readings, "cpu.on")).contains("after their last sample"));
    let mut grouped = own();
    add(&mut grouped, &all, &snapshots, (0, 2), |metric| metric == Metric::CpuUser);
    assert_eq!(get(&grouped, "cpu.user"), Reading::Measured(9e6), "a group has counted them already");
    let mut before = own();
    add(&mut before, &[ran(2, (350, 360), 1, &[])], &snapshots, (0, 2), |_| false);
    assert_eq!(before, own(), "those that ran elsewhere change nothing");
}

/// A replica with so much anonymous memory at so many milliseconds.
fn sampled<const N: usize>(pid: u32, number: u32, samples: [(u64, u64); N]) -> ProcessSeries {
    let sample = |(at, anon)| ProcessSample { at: ms(at), anon: Bytes::from_bytes(anon), ..ProcessSample::default() };
    let (role, samples) = (format!("replica.{number}"), samples.map(sample).to_vec());
    ProcessSeries { pid, role, command: "c".into(), samples }
}

#[test]
fn replica_memory_at_the_end_is_from_its_report() {
    let snapshots = [snapshot_of(0, 0, &[]), snapshot_of(100, 5, &[(1, 30), (2, 40)]), snapshot_of(300, 9, &[])];
    let mut all = [ran(1, (50, 200), 80, &["5 ops"]), ran(2, (50, 250), 8, &["5 ops"])];
    all[0].reported = Some(snapshots[1].clone());
    all[1].reported = Some(snapshots[2].clone());
    let series = [(101, 1, 30), (102, 2, 40)].map(|(pid, number, anon)| {
        let anon = |at| if at == 100 { anon } else { 5 };
        sampled(pid, number, [50, 100, 150, 200, 250].map(|at| (at, anon(at))))
    });
    let found = instances(&all, Inputs { snapshots: &snapshots, series: &series, pss: &LargestPss::default() });
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["replica.1", "replica.2", "replicas"]);
    let first = &found["replica.1"];
    assert_eq!((get(first, "anon.end"), get(first, "pss.end")), (Reading::Measured(30.0), Reading::Measured(300.0)));
    assert_eq!((get(first, "wall"), get(first, "cpu")), (nanos(ms(150)), Reading::Measured(80e6)));
    assert_eq!(
        get(first, "rss.peak"),
        Reading::Measured(50.0 * 1024.0 * 1024.0),
        "larger at a boundary than at its end"
    );
    assert!(why(get(&found["replica.2"], "anon.end")).contains("before its memory could be read"));
    let both = &found["replicas"];
    assert_eq!(get(both, "pss.max"), Reading::Measured(700.0), "of both at one instant");
    assert_eq!((get(both, "time"), get(both, "cpu")), (nanos(ms(200)), Reading::Measured(88e6)));
    assert_eq!(get(both, "rate"), Reading::Measured(50.0));
    assert!(why(get(both, "anon.max")).contains("no sample shows"), "some bytes, and 40 MiB by the kernel");
    let all = all.map(|ran| with_peak(ran, 40));
    let found = instances(&all, Inputs { snapshots: &snapshots, series: &series, pss: &LargestPss::default() });
    assert_eq!(get(&found["replicas"], "anon.max"), Reading::Measured(70.0));
    // The kernel counts pages of hugetlbfs neither in its peak nor in the proportional set size.
    let mut huge = snapshots.to_vec();
    huge.last_mut().unwrap().totals.entry("replica.1".to_owned()).or_default().huge = 1;
    let found = instances(&all, Inputs { snapshots: &huge, series: &series, pss: &LargestPss::default() });
    for (instance, name) in [("replica.1", "rss.peak"), ("replicas", "pss.max"), ("replicas", "anon.max")] {
        assert!(why(get(&found[instance], name)).contains("hugetlbfs"), "{instance} {name}");
    }
    assert!(get(&found["replica.2"], "rss.peak").measured().is_some());
}

/// The samples of one that lived long vouched for one that ended between two of its own.
#[test]
fn what_samples_of_one_replica_miss_no_other_one_makes_up_for() {
    let snapshots = [snapshot_of(0, 0, &[]), snapshot_of(300, 9, &[])];
    let all = [ran(1, (10, 290), 80, &[]), ran(2, (100, 160), 8, &[])].map(|ran| with_peak(ran, 40));
    let of = |second: ProcessSeries| {
        // The sampler took no round from 100 to 160.
        let first = sampled(101, 1, [20, 40, 60, 80, 90, 100, 160, 180, 200, 220, 240, 260, 280].map(|at| (at, 30)));
        let (series, pss) = ([first, second], &LargestPss::default());
        let found = instances(&all, Inputs { snapshots: &snapshots, series: &series, pss });
        get(&found["replicas"], "anon.max")
    };
    assert_eq!(of(sampled(102, 2, [100, 110, 120, 130, 140, 150, 160].map(|at| (at, 20)))), Reading::Measured(50.0));
    assert!(why(of(sampled(102, 2, [(100, 20)]))).contains("lie too far apart"));
}

#[test]
fn additional_readings_count_in_extremes() {
    let snapshots = [snapshot_of(0, 0, &[]), snapshot_of(300, 9, &[])];
    let series = [sampled(101, 1, [50, 100, 150, 200, 250].map(|at| (at, 30)))];
    let all = |used| [Ran { reported: Some(snapshot_of(150, 5, &[(1, used)])), ..ran(1, (50, 200), 80, &["5 ops"]) }];
    let read = LargestPss { sum: Some(Reading::Measured(Bytes::from_bytes(900))), replicas: 1 };
    let of = |used, name| {
        let inputs = Inputs { snapshots: &snapshots, series: &series, pss: &read };
        let found = instances(&all(used), inputs);
        (get(&found["replica.1"], name), get(&found["replicas"], "pss.max"))
    };
    let pss = || Reading::Measured(900.0);
    assert_eq!(of(40, "anon.max"), (Reading::Measured(40.0), pss()));
    assert_eq!(of(20, "anon.min"), (Reading::Measured(20.0), pss()));
    assert_eq!(of(20, "anon.max"), (Reading::Measured(30.0), pss()));
    assert!(why(of(20, "pss.max").0).contains("at boundaries of phases only"));
    let unknown = |series: &[ProcessSeries]| {
        let found = instances(&all(40), Inputs { snapshots: &snapshots, series, pss: &read });
        assert_eq!(get(&found["replica.1"], "anon.end"), Reading::Measured(40.0));
        ["anon.min", "anon.max"].map(|name| why(get(&found["replica.1"], name)))
    };
    let sparse = unknown(&[sampled(101, 1, [(100, 30)])]);
    assert!(sparse.iter().all(|why| why.contains("lie too far apart")), "one of 30 and one of 40: {sparse:?}");
    let unsampled = unknown(&[]);
    assert_eq!(unsampled, ["no samples"; 2], "one of 40 at the end");
}

#[test]
fn a_sum_over_some_replicas_is_no_maximum_of_all() {
    let snapshots = [
        snapshot_of(0, 0, &[]),
        snapshot_of(100, 5, &[(1, 30)]),
        snapshot_of(150, 5, &[(2, 40)]),
        snapshot_of(300, 9, &[]),
    ];
    let all = [ran(1, (50, 120), 80, &[]), ran(2, (50, 250), 8, &[])];
    let of = |read: &LargestPss| {
        get(&instances(&all, Inputs { snapshots: &snapshots, series: &[], pss: read })["replicas"], "pss.max")
    };
    let reported = why(of(&LargestPss::default()));
    assert!(reported.contains("while all 2 replicas ran"), "{reported}");
    let both = LargestPss { sum: Some(Reading::Measured(Bytes::from_bytes(100))), replicas: 2 };
    assert_eq!(of(&both), Reading::Measured(400.0), "the sum of both at any instant was no less than that of one");
}

#[test]
fn memory_of_an_earlier_line_is_not_that_at_the_end() {
    let snapshots = [snapshot_of(0, 0, &[]), snapshot_of(100, 5, &[(1, 30)]), snapshot_of(300, 9, &[])];
    let end = |ran: Ran| {
        get(
            &instances(&[ran], Inputs { snapshots: &snapshots, series: &[], pss: &LargestPss::default() })["replica.1"],
            "anon.end",
        )
    };
    let reported = |unread| Ran { reported: Some(snapshots[1].clone()), unread, ..ran(1, (50, 200), 80, &["5 ops"]) };
    let silent = || ran(1, (50, 200), 80, &[]);
    assert_eq!(
        (end(reported(false)), end(cut_off(reported(false)))),
        (Reading::Measured(30.0), Reading::Measured(30.0))
    );
    assert!(why(end(reported(true))).contains("had ended before its memory could be read"));
    assert!(
        why(end(cut_off(reported(true)))).contains("killed after its last report, before its memory could be read")
    );
    assert!(why(end(cut_off(silent()))).contains("killed before it reported anything"), "it had not ended");
    assert!(why(end(silent())).contains("had ended before"));
}

#[test]
fn an_answer_is_that_of_all_of_them() {
    let of = |lines: [&'static str; 2]| answer(&[ran(1, (0, 9), 5, &[lines[0]]), ran(2, (0, 9), 5, &[lines[1]])]);
    let same = of(["1 ops, 4 rows, digest a", "1 ops, 5 rows, digest a"]).unwrap();
    assert_eq!((same.rows, same.digest.as_str()), (Some(9), "reported:a"));
    let shared_out = of(["1 ops, 4 rows, digest a", "1 ops, 5 rows, digest b"]).unwrap();
    assert_eq!((shared_out.rows, shared_out.digest.as_str()), (Some(9), "parts:"), "how it is shared out is chance");
    assert_eq!(of(["1 ops, 4 rows", "1 ops"]), None);
    let parts = of(["1 ops, digest a", "1 ops, digest b"]).unwrap();
    assert!(
        !parts.comparable && parts.rows.is_none(),
        "each gave one, and another number of replicas others: {parts:?}"
    );
    assert_eq!(of(["1 ops, digest a", "1 ops"]), None, "one gave none");
    assert_eq!(answer(&[]), None);
}

#[test]
fn heap_of_a_replica_is_that_up_to_its_end() {
    let snapshots = [snapshot_of(0, 0, &[]), snapshot_of(300, 9, &[])];
    let mut one = ran(1, (50, 200), 80, &[]);
    one.threads = threads(&[hello(101, 0, 60), heap(101, 0, 100, "sample", 30), heap(101, 0, 190, "sample", 20)]);
    one.threads.finish(ms(200), &[], &BTreeMap::new());
    let found = instances(&[one], Inputs { snapshots: &snapshots, series: &[], pss: &LargestPss::default() });
    for name in ["replica.1", "replicas"] {
        assert_eq!(get(&found[name], "heap.used.end"), Reading::Measured(20.0), "{name}");
        assert_eq!(get(&found[name], "heap.used.max"), Reading::Measured(30.0), "{name}");
    }
}

#[test]
fn observations_of_replicas_join_those_of_the_program() {
    let abort = line(101, 0, 150, r#""probe":"bye""#);
    let taken_in = |own: &[ProbeLine]| {
        let mut one = watched(vec![snapshot_of(0, 0, &[]), snapshot_of(300, 9, &[(1, 60)])], vec![]);
        one.threads = threads(own);
        one.replicas.all = vec![Ran {
            threads: threads(&[hello(101, 0, 60)]),
            heap_aborts: vec![abort.clone()],
            ..ran(1, (50, 200), 80, &[])
        }];
        let mut aborts = Vec::new();
        take_in(&mut one, "program", &[], &mut aborts);
        let ended = one.replicas.all[0].threads.all()[0].ended;
        (one.threads.all().len(), aborts, ended, one.snapshots[1].totals[""].minor_faults)
    };
    assert_eq!(taken_in(&[hello(7, 0, 10)]), (2, vec![abort.clone()], ms(200), 9));
    assert_eq!(taken_in(&[]).0, 0, "a sum over the replicas would look like that of all");
}

/// Two replicas that used 1.4 s were called children that nobody waited for.
#[test]
fn what_replicas_used_is_that_of_no_child_of_the_program() {
    let of = |replicas: Vec<Ran>| {
        let mut all = watched(vec![snapshot(0, 0, &[7]), snapshot(2_000, 0, &[])], vec![]);
        for (snapshot, total) in all.snapshots.iter_mut().zip([0, 2_000]) {
            snapshot.group = Reading::Measured(GroupCpu { total: ms(total), user: ms(total), system: Nanos::ZERO });
        }
        all.replicas.all = replicas;
        span::tests::between(&all, 0, 1, &[])
    };
    assert!(span::tests::why(&of(Vec::new()), &["faults.minor"]).contains("nobody waited for"));
    let with = of(vec![ran(1, (10, 1_900), 1_000, &[])]);
    assert!(get(&with, "faults.minor").measured().is_some());
}
