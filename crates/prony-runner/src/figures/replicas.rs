//! Figures of replicas (further copies of the program): of each, of all together, and what they add to a phase's. Pure.

use std::collections::{BTreeMap, BTreeSet};

use prony_boundaries::suspensions::Suspensions;
use prony_boundaries::threads::Threads;
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::program::REPLICAS;
use prony_model::reading::{Reading, Why};
use prony_model::record::{Answer, MetricKeyText, PEAK_SLACK, ProcessSeries};
use prony_model::units::{Bytes, Nanos, Unit};
use prony_os::launch::Usage;
use prony_os::sample::counters::Counters;
use prony_os::sample::{Ended, Ends, Snapshot, phase_readings, readings_of_roles, readings_with_ends};
use prony_runtime::ProbeLine;

use crate::watched::Watched;

use crate::figures::heaps;
use crate::figures::readings::{Readings, rate_of_reported, set};
use crate::watched::replicas::{LargestPss, NEVER_BEGAN, NOT_INHERITED, Ran, ReplicaEnd};

/// A figure of counters.
type Count = fn(&Counters) -> Reading<f64>;

/// What the kernel counts of a process up to its end.
const COUNTED: [(Metric, Count); 9] = [
    (Metric::Cpu, |all| nanos(all.cpu_user + all.cpu_system)),
    (Metric::CpuUser, |all| nanos(all.cpu_user)),
    (Metric::CpuSystem, |all| nanos(all.cpu_system)),
    (Metric::Read, |all| all.read.clone().map(|amount| amount.as_bytes() as f64)),
    (Metric::Written, |all| all.written.clone().map(|amount| amount.as_bytes() as f64)),
    (Metric::MajorFaults, |all| Reading::Measured(all.major_faults as f64)),
    (Metric::MinorFaults, |all| Reading::Measured(all.minor_faults as f64)),
    (Metric::SwitchesVoluntary, |all| Reading::Measured(all.switches_voluntary as f64)),
    (Metric::SwitchesForced, |all| Reading::Measured(all.switches_forced as f64)),
];

fn nanos(time: Nanos) -> Reading<f64> {
    Reading::Measured(time.as_nanos() as f64)
}

/// What was observed beside the replicas.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// Every snapshot of the trial.
    pub snapshots: &'a [Snapshot],
    /// Samples of all processes.
    pub series: &'a [ProcessSeries],
    /// The largest sum of the replicas' proportional set sizes that was read at one instant beside snapshots.
    pub pss: &'a LargestPss,
}

/// Adds observations of replicas to those of the main `role`: their heaps, and aborts at a heap's limit.
pub fn take_in(watched: &mut Watched, role: &str, series: &[ProcessSeries], deaths: &mut Vec<ProbeLine>) {
    let last = |process: &ProcessSeries| Some((process.pid, process.samples.last()?.at));
    let last_sampled: BTreeMap<u32, Nanos> = series.iter().filter_map(last).collect();
    watched.threads.finish(watched.ended.at, deaths, &last_sampled);
    leave_out(&mut watched.snapshots, role, &watched.replicas.all);
    for ran in &mut watched.replicas.all {
        let Some(at) = ran.end().map(|end| end.at) else { continue };
        ran.threads.finish(at, &ran.deaths, &last_sampled);
        // If the program's own probe reported nothing, sums over the replicas would look like those of all.
        if !watched.threads.all().is_empty() {
            watched.threads.join(&ran.threads);
        }
        deaths.extend(ran.deaths.iter().cloned());
    }
}

/// Sets the totals of the whole tree to those of the program only: replicas are added from what the kernel counted up
/// to their very ends.
fn leave_out(snapshots: &mut [Snapshot], program: &str, all: &[Ran]) {
    for snapshot in snapshots {
        if all.iter().any(|ran| snapshot.totals.contains_key(&ran.role())) {
            // If nothing of the program itself was counted, its figures are unknown: no zero replaces them.
            match snapshot.totals.get(program).cloned() {
                Some(own) => snapshot.totals.insert(String::new(), own),
                None => snapshot.totals.remove(""),
            };
        }
    }
}

/// Adds what replicas used between two snapshots to the program's own figures; `whole` says which of those count all
/// processes already.
pub fn add(
    readings: &mut Readings,
    all: &[Ran],
    snapshots: &[Snapshot],
    span: (usize, usize),
    whole: impl Fn(Metric) -> bool,
) {
    let parts: Vec<Reading<Counters>> = all.iter().filter_map(|ran| ran.between(snapshots, span.0, span.1)).collect();
    let n = parts.len();
    let Some(sum) = parts.into_iter().reduce(|sum, part| sum.and(part, |sum, part| sum.plus(&part))) else { return };
    for (metric, count) in COUNTED.into_iter().filter(|(metric, _)| !whole(*metric)) {
        if let Some(own) = readings.get_mut(&MetricKeyText(MetricKey::amount(metric))) {
            *own = own.clone().and(of(&sum, count), |own, more| own + more);
        }
    }
    without_schedule(readings);
    let why = format!("the kernel keeps a peak for each process and {n} replicas ran in the phase; see `max`");
    let peak = MetricKeyText(MetricKey::gauge(Metric::Rss, Stat::Peak));
    readings.insert(peak, Reading::Missing(Why::NotSupported(why.into())));
}

fn of(counters: &Reading<Counters>, count: Count) -> Reading<f64> {
    match counters {
        Reading::Measured(counters) => count(counters),
        Reading::Missing(why) => Reading::Missing(why.clone()),
    }
}

fn without_schedule(readings: &mut Readings) {
    let not_inherited = Why::NotSupported(NOT_INHERITED.into());
    [Metric::OnCpu, Metric::CpuWait]
        .into_iter()
        .for_each(|m| set(readings, m, Reading::Missing(not_inherited.clone())));
}

/// What replicas tell of the phase as a whole: how far apart they were, and sums of what they reported.
pub fn whole(readings: &mut Readings, all: &[Ran]) {
    set(readings, Metric::Makespan, makespan(all));
    set(readings, Metric::Skew, skew(all));
    readings.extend(reported(all));
}

/// When all have begun and when each has ended by itself; or why not, if one has not.
fn ends(all: &[Ran]) -> Reading<Vec<Nanos>> {
    let mut ends = Vec::new();
    for ran in all {
        match &ran.end {
            ReplicaEnd::Ended(_) if ran.before.is_none() => return failed(format!("`{}`: {NEVER_BEGAN}", ran.role())),
            ReplicaEnd::Ended(end) => ends.push(end.at),
            ReplicaEnd::NotBegun(_) => return failed(format!("`{}` could not be executed", ran.role())),
            ReplicaEnd::CutOff(_) => return failed(format!("`{}` had not ended when the program did", ran.role())),
        }
    }
    Reading::Measured(ends)
}

fn failed<T>(why: String) -> Reading<T> {
    Reading::Missing(Why::Failed(why.into()))
}

fn makespan(all: &[Ran]) -> Reading<f64> {
    let first = all.iter().map(|ran| ran.released).min().unwrap_or_default();
    ends(all).map(|ends| ends.into_iter().max().unwrap_or_default().since(first).as_nanos() as f64)
}

fn skew(all: &[Ran]) -> Reading<f64> {
    let between = |ends: Vec<Nanos>| Some(ends.iter().max()?.since(*ends.iter().min()?));
    ends(all).map(|ends| between(ends).unwrap_or_default().as_nanos() as f64)
}

/// Sums of the counts that replicas reported; missing where one of them reported none.
fn reported(all: &[Ran]) -> Readings {
    let is_count = |key: &MetricKey| key.metric.unit() == Unit::Count && !key.metric.is_gauge();
    let mut sums = Readings::new();
    for ran in all {
        for (key, reading) in ran.lines.reported().into_iter().filter(|(key, _)| is_count(key)) {
            let one = match reading {
                Reading::Missing(why) => failed(format!("`{}`: {why}", ran.role())),
                reading => reading,
            };
            let sum = sums.remove(&MetricKeyText(key));
            let sum = sum.map_or(one.clone(), |sum| sum.and(one, |sum, one| sum + one));
            sums.insert(MetricKeyText(key), sum);
        }
    }
    sums
}

/// The joint answer of the replicas: the sum of their rows, and the digest that all of them have. If their digests
/// differ there is none, since the division of the work may differ from trial to trial.
pub fn answer(all: &[Ran]) -> Option<Answer> {
    let rows = reported(all).remove(&MetricKeyText(MetricKey::amount(Metric::Rows)));
    let rows = rows.and_then(|rows| rows.measured().map(|rows| *rows as u64));
    let digests: BTreeSet<Option<&String>> = all.iter().map(|ran| ran.lines.lines.digest()).collect();
    let same = if digests.len() == 1 { digests.into_iter().next().flatten() } else { None };
    let digest = same.map(|digest| format!("reported:{digest}")).or_else(|| rows.map(|_| "rows:".to_owned()))?;
    Some(Answer { rows, digest, comparable: true })
}

/// The figures of each replica, of the roles in it, and of all together.
pub fn instances(all: &[Ran], inputs: Inputs<'_>) -> BTreeMap<String, Readings> {
    let mut found = BTreeMap::new();
    for ran in all.iter().filter(|ran| ran.end().is_some()) {
        for (role, heap) in heaps_of(&ran.threads, ran.released, ended(ran), &ran.silent) {
            let name = if role.is_empty() { ran.role() } else { format!("{}.{role}", ran.role()) };
            found.insert(name, heap);
        }
        found.entry(ran.role()).or_default().extend(one(ran, inputs));
    }
    if !found.is_empty() {
        found.insert(REPLICAS.to_owned(), together(all, inputs));
    }
    found
}

fn ended(ran: &Ran) -> Nanos {
    ran.end().map(|end| end.at).unwrap_or_default()
}

fn heaps_of(threads: &Threads, begin: Nanos, end: Nanos, silent: &Why) -> BTreeMap<String, Readings> {
    heaps::readings(threads, heaps::Span { begin, end, rest: None, suspended: &Suspensions::default() }, silent)
}

fn one(ran: &Ran, inputs: Inputs<'_>) -> Readings {
    let (snapshots, role) = (inputs.snapshots, ran.role());
    let until = ran.until.unwrap_or(snapshots.len() - 1);
    let peak = peak(ran, inputs);
    let ends = known_ends(std::iter::once(ran), peak.measured().is_none());
    let mut readings = readings_with_ends(&snapshots[ran.first], &snapshots[until], inputs.series, &role, &ends);
    at_the_end(ran, inputs, &mut readings);
    let spent = ran.spent();
    COUNTED.into_iter().for_each(|(metric, count)| set(&mut readings, metric, of(&spent, count)));
    without_schedule(&mut readings);
    let wall = match &ran.end {
        ReplicaEnd::Ended(_) if ran.before.is_none() => failed(NEVER_BEGAN.to_owned()),
        ReplicaEnd::Ended(end) => nanos(end.at.since(ran.released)),
        _ => failed("it had not ended when the program did".to_owned()),
    };
    set(&mut readings, Metric::Wall, wall.clone());
    set(&mut readings, Metric::Time, wall);
    readings.insert(MetricKeyText(MetricKey::gauge(Metric::Rss, Stat::Peak)), peak);
    readings.extend(ran.lines.reported().into_iter().map(|(key, reading)| (MetricKeyText(key), reading)));
    rate_of_reported(&mut readings);
    readings
}

/// Memory at the end is that of its last report: it cannot be read after its end.
fn at_the_end(ran: &Ran, inputs: Inputs<'_>, readings: &mut Readings) {
    let alive = |snapshot: &&Snapshot| snapshot.processes.iter().any(|process| process.pid == ran.pid);
    let last = match ran.reported.as_ref().filter(alive).filter(|_| !ran.unread) {
        Some(reported) => phase_readings(&inputs.snapshots[ran.first], reported, inputs.series, &ran.role()),
        None => Readings::new(),
    };
    within(&last, readings);
    let why = unread(ran);
    for (key, reading) in readings.iter_mut().filter(|(key, _)| key.0.stat == Some(Stat::End)) {
        *reading = last.get(key).cloned().unwrap_or_else(|| failed(why.to_owned()));
    }
}

/// A value at the end lies between the minimum and the maximum, which come from samples. Where samples show neither, it is
/// not known what there was before the end.
fn within(last: &Readings, readings: &mut Readings) {
    let ends = last.iter().filter(|(key, _)| key.0.stat == Some(Stat::End) && key.0.metric != Metric::Pss);
    for (key, end) in ends.filter_map(|(key, reading)| Some((key.0.metric, *reading.measured()?))) {
        for (stat, pick) in [(Stat::Min, f64::min as fn(f64, f64) -> f64), (Stat::Max, f64::max)] {
            if let Some(Reading::Measured(value)) = readings.get_mut(&MetricKeyText(MetricKey::gauge(key, stat))) {
                *value = pick(*value, end);
            }
        }
    }
}

/// Why memory at the end was not read.
const fn unread(ran: &Ran) -> &'static str {
    match (&ran.end, ran.unread) {
        (ReplicaEnd::CutOff(_), false) => {
            "it was cut off before it reported anything; its memory is read when a line matches `read`"
        }
        (ReplicaEnd::CutOff(_), true) => "it was cut off before its memory could be read after its last report",
        _ => {
            "it had ended before its memory could be read; that is read when a line matches `read`, while the \
            replica is running"
        }
    }
}

/// The kernel's own peak, where the replica was one process.
fn peak(ran: &Ran, inputs: Inputs<'_>) -> Reading<f64> {
    let (role, usage) = (ran.role(), ran.end().map(|end| end.usage.clone()));
    let in_snapshots =
        || inputs.snapshots.iter().flat_map(|snapshot| &snapshot.processes).filter(|process| process.role == role);
    let sampled = inputs.series.iter().filter(|process| process.role == role).map(|process| process.pid);
    let pids: BTreeSet<u32> = in_snapshots().map(|process| process.pid).chain(sampled).collect();
    if pids.len() > 1 {
        let why = format!("the kernel keeps a peak for each process and {} of the replica ran; see `max`", pids.len());
        return Reading::Missing(Why::NotSupported(why.into()));
    }
    let reaped = match usage.unwrap_or(Reading::Missing(Why::NotReached)) {
        Reading::Measured(usage) => usage.peak,
        Reading::Missing(why) => return Reading::Missing(why),
    };
    let Some((_, Usage { peak: suspended, .. })) = ran.before else { return failed(NEVER_BEGAN.to_owned()) };
    let most = in_snapshots().map(|process| process.peak).fold(reaped, Bytes::max);
    if most <= suspended + PEAK_SLACK {
        let why = format!("the peak is not above the {suspended} that the process had before it executed the program");
        return Reading::Missing(Why::NotSupported(why.into()));
    }
    Reading::Measured(most.as_bytes() as f64)
}

/// All replicas as one: sums at each instant, sums of what they used and reported, and the time from the first one's
/// release to the last one's end.
fn together(all: &[Ran], inputs: Inputs<'_>) -> Readings {
    let roles: BTreeSet<String> = all.iter().map(Ran::role).collect();
    let snapshots = inputs.snapshots;
    let begun = || all.iter().filter(|ran| ran.end().is_some());
    let first = begun().map(|ran| ran.first).min().unwrap_or(0);
    let until = begun().map(|ran| ran.until.unwrap_or(snapshots.len() - 1)).max().unwrap_or(snapshots.len() - 1);
    let released = begun().map(|ran| ran.released).min().unwrap_or_default();
    let silent = begun().map(|ran| ran.silent.clone()).next().unwrap_or(Why::NotReached);
    let mut threads = Threads::default();
    begun().for_each(|ran| threads.join(&ran.threads));
    let over = begun().map(ended).max().unwrap_or_default();
    let mut readings = heaps_of(&threads, released, over, &silent).remove("").unwrap_or_default();
    let (begin, end, ends) = (&snapshots[first], &snapshots[until], known_ends(begun(), true));
    readings.extend(readings_of_roles(begin, end, inputs.series, |role| roles.contains(role), &ends));
    let pss = largest_pss(&snapshots[first..=until], &roles, inputs.pss, begun().count());
    readings.insert(MetricKeyText(MetricKey::gauge(Metric::Pss, Stat::Max)), pss);
    let spent = begun().map(Ran::spent).reduce(|sum, one| sum.and(one, |sum, one| sum.plus(&one)));
    let spent = spent.unwrap_or(Reading::Missing(Why::NotReached));
    COUNTED.into_iter().for_each(|(metric, count)| set(&mut readings, metric, of(&spent, count)));
    without_schedule(&mut readings);
    readings.extend(reported(all));
    let time = makespan(all);
    [Metric::Wall, Metric::Time].into_iter().for_each(|metric| set(&mut readings, metric, time.clone()));
    rate_of_reported(&mut readings);
    readings
}

/// What the kernel told of replicas at their ends; `several` where it is of more than one process.
fn known_ends<'a>(all: impl Iterator<Item = &'a Ran>, several: bool) -> Ends {
    let known = |ran: &Ran| {
        let (end, (_, suspended)) = (ran.end()?, ran.before.as_ref()?);
        let peak = end.usage.measured()?.peak;
        let reached = several && peak > suspended.peak + PEAK_SLACK;
        Some((ran.role(), Ended { at: end.at, peak, reached }))
    };
    all.filter_map(known).collect()
}

/// The largest sum of proportional set sizes of these `roles` at any of these snapshots, or that was `read` beside
/// them. Missing where no reading found all replicas that had `begun`: a sum over some is no maximum of all.
fn largest_pss(snapshots: &[Snapshot], roles: &BTreeSet<String>, read: &LargestPss, begun: usize) -> Reading<f64> {
    let mut largest = read.clone();
    for snapshot in snapshots {
        largest.add(snapshot.processes.iter().filter(|process| roles.contains(&process.role)));
    }
    match largest.sum {
        None => failed("no replica was running at any begin or end of a phase or of another replica".to_owned()),
        Some(Reading::Measured(sum)) if largest.replicas < begun => failed(format!(
            "no reading found all {begun} replicas at once; the largest sum, of at most {} of them, was {sum}",
            largest.replicas
        )),
        Some(sum) => sum.map(|pss| pss.as_bytes() as f64),
    }
}

#[cfg(test)]
mod tests {
    use prony_boundaries::tracked::{Happened, Tracked};
    use prony_boundaries::tracker::Tracker;
    use prony_model::program::ObserveSpec;
    use prony_model::record::ProcessSample;
    use prony_model::spec::{Action, PhaseSpec};
    use prony_os::launch::{Captured, CpuTime};
    use prony_os::sample::snapshot::ProcessSnapshot;

    use super::*;
    use crate::figures::span::tests::{ms, snapshot, watched};
    use crate::watched::replicas::last_end;

    const READ: &str = r"(?<operations>\d+) ops(, (?<rows>\d+) rows)?(, digest (?<digest>\w+))?";

    /// A phase from the program's begin to its end whose `read` was applied to these lines.
    fn heard(read: &str, from: u64, lines: &[&str]) -> Tracked {
        let observe = ObserveSpec { read: Some(read.into()), ..ObserveSpec::WHOLE };
        let phase = PhaseSpec { name: "r".into(), timed: true, action: Action::Observe(observe), limit: None };
        let mut tracker = Tracker::new(&[phase]);
        tracker.start(ms(from));
        lines.iter().for_each(|line| drop(tracker.happened(Happened::Line(line), ms(from), Nanos::ZERO)));
        tracker.phases.remove(0)
    }

    /// A replica that used as many milliseconds of CPU time, faults and bytes as `spent` says, and wrote these lines.
    fn ran(number: u32, (from, to): (u64, u64), spent: u64, lines: &[&str]) -> Ran {
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
            deaths: vec![],
            output: [Captured::default(), Captured::default()],
        }
    }

    /// The same, of which the kernel tells that it had so many bytes at most.
    fn with_peak(mut ran: Ran, peak: u64) -> Ran {
        if let ReplicaEnd::Ended(end) = &mut ran.end {
            end.usage = end.usage.clone().map(|usage| Usage { peak: Bytes::from_bytes(peak), ..usage });
        }
        ran
    }

    fn cut_off(mut ran: Ran) -> Ran {
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
        whole(&mut readings, &all);
        assert_eq!((get(&readings, "makespan"), get(&readings, "skew")), (nanos(ms(800)), nanos(ms(500))));
        let [first, second, mut third] = all;
        third.end = ReplicaEnd::NotBegun("no such file".into());
        assert!(why(makespan(&[first, third])).contains("`replica.3` could not be executed"));
        assert!(why(skew(&[cut_off(second)])).contains("`replica.2` had not ended when the program did"));
    }

    #[test]
    fn what_was_ended_before_it_began_has_no_figure_and_no_zero() {
        let snapshots = [snapshot_of(0, 0, &[]), snapshot_of(300, 9, &[(1, 30)])];
        let all = [ran(1, (50, 200), 80, &[]), Ran { before: None, ..ran(2, (200, 200), 80, &[]) }];
        let found = instances(&all, Inputs { snapshots: &snapshots, series: &[], pss: &LargestPss::default() });
        for name in ["wall", "time", "cpu", "written", "faults.minor", "rss.peak"] {
            assert!(why(get(&found["replica.2"], name)).contains("ended before it began"), "{name}");
        }
        for name in ["wall", "cpu"] {
            assert!(why(get(&found["replicas"], name)).contains("ended before it began"), "{name}");
        }
        assert!(why(makespan(&all)).contains("`replica.2`: it was ended before it began"));
    }

    #[test]
    fn counters_without_a_snapshot_are_missing() {
        let snapshots = [snapshot_of(0, 0, &[]), snapshot_of(100, 5, &[]), snapshot_of(300, 9, &[])];
        let one = ran(1, (50, 200), 80, &[]);
        let cpu =
            |first, until| one.between(&snapshots, first, until).unwrap().map(|all| all.cpu_user.as_nanos() as f64);
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
        whole(&mut readings, &of("12 ops"));
        assert_eq!(get(&readings, "operations"), Reading::Measured(42.0));
        let silent = reported(&of("nothing"));
        assert!(why(get(&silent, "operations")).contains("`replica.2`: no line of the phase reported it"));
    }

    /// Sums of the replicas took the place of what no line of the program reported.
    #[test]
    fn what_the_programs_own_lines_are_to_report_is_never_the_replicas() {
        let of = |read: &str, lines: &[&str]| {
            let (tracked, replicas) = (heard(read, 0, lines), [ran(1, (0, 9), 5, &["30 ops, 4 rows"])]);
            let stand_in = replicas.iter().any(|ran| tracked.is_reported_by(&ran.lines));
            let mut readings = Readings::new();
            crate::figures::own_account(&tracked, &replicas, stand_in, &mut readings);
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
        let snapshots = [
            snapshot_of(0, 0, &[]),
            snapshot_of(100, 5, &[(1, 30)]),
            snapshot_of(300, 9, &[]),
            snapshot_of(400, 9, &[]),
        ];
        let one = ran(1, (50, 200), 80, &[]);
        let cpu = |first, until| one.between(&snapshots, first, until).map(|all| all.map(|all| all.cpu_user));
        assert_eq!(cpu(0, 2), Some(Reading::Measured(ms(80))), "all of it, less what it was held with");
        assert_eq!(cpu(0, 1), Some(Reading::Measured(ms(30))), "as far as it was seen");
        assert_eq!(cpu(1, 2), Some(Reading::Measured(ms(50))), "the rest");
        assert_eq!(cpu(2, 3), None, "it had ended before");
        assert_eq!(ran(2, (350, 360), 1, &[]).between(&snapshots, 0, 2), None, "it had not begun");
    }

    #[test]
    fn a_phase_has_what_they_used_once() {
        let mut snapshots =
            vec![snapshot_of(0, 0, &[]), snapshot_of(100, 5, &[(1, 30)]), snapshot_of(300, 9, &[(1, 60)])];
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
        let sample =
            |(at, anon)| ProcessSample { at: ms(at), anon: Bytes::from_bytes(anon), ..ProcessSample::default() };
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
        assert_eq!(
            (get(first, "anon.end"), get(first, "pss.end")),
            (Reading::Measured(30.0), Reading::Measured(300.0))
        );
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
    }

    /// The samples of one that lived long vouched for one that ended between two of its own.
    #[test]
    fn what_samples_of_one_replica_miss_no_other_one_makes_up_for() {
        let snapshots = [snapshot_of(0, 0, &[]), snapshot_of(300, 9, &[])];
        let all = [ran(1, (10, 290), 80, &[]), ran(2, (100, 160), 8, &[])].map(|ran| with_peak(ran, 40));
        let of = |second: ProcessSeries| {
            // The sampler took no round from 100 to 160.
            let first =
                sampled(101, 1, [20, 40, 60, 80, 90, 100, 160, 180, 200, 220, 240, 260, 280].map(|at| (at, 30)));
            let (series, pss) = ([first, second], &LargestPss::default());
            let found = instances(&all, Inputs { snapshots: &snapshots, series: &series, pss });
            get(&found["replicas"], "anon.max")
        };
        assert_eq!(
            of(sampled(102, 2, [100, 110, 120, 130, 140, 150, 160].map(|at| (at, 20)))),
            Reading::Measured(50.0)
        );
        assert!(why(of(sampled(102, 2, [(100, 20)]))).contains("between two samples"));
    }

    #[test]
    fn additional_readings_count_in_extremes() {
        let snapshots = [snapshot_of(0, 0, &[]), snapshot_of(300, 9, &[])];
        let series = [sampled(101, 1, [50, 100, 150, 200, 250].map(|at| (at, 30)))];
        let all =
            |used| [Ran { reported: Some(snapshot_of(150, 5, &[(1, used)])), ..ran(1, (50, 200), 80, &["5 ops"]) }];
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
        assert!(why(of(20, "pss.max").0).contains("at the boundaries of phases only"));
        let unknown = |series: &[ProcessSeries]| {
            let found = instances(&all(40), Inputs { snapshots: &snapshots, series, pss: &read });
            assert_eq!(get(&found["replica.1"], "anon.end"), Reading::Measured(40.0));
            ["anon.min", "anon.max"].map(|name| why(get(&found["replica.1"], name)))
        };
        let sparse = unknown(&[sampled(101, 1, [(100, 30)])]);
        assert!(sparse.iter().all(|why| why.contains("between two samples")), "one of 30 and one of 40: {sparse:?}");
        let unsampled = unknown(&[]);
        assert!(unsampled.iter().all(|why| why.contains("0 of 1")), "one of 40 at the end: {unsampled:?}");
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
        assert!(reported.contains("no reading found all 2 replicas at once"), "{reported}");
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
        let reported =
            |unread| Ran { reported: Some(snapshots[1].clone()), unread, ..ran(1, (50, 200), 80, &["5 ops"]) };
        let silent = || ran(1, (50, 200), 80, &[]);
        assert_eq!(
            (end(reported(false)), end(cut_off(reported(false)))),
            (Reading::Measured(30.0), Reading::Measured(30.0))
        );
        assert!(why(end(reported(true))).contains("had ended before its memory could be read"));
        assert!(why(end(cut_off(reported(true)))).contains("cut off before its memory could be read after"));
        assert!(why(end(cut_off(silent()))).contains("cut off before it reported anything"), "it had not ended");
        assert!(why(end(silent())).contains("had ended before"));
    }

    #[test]
    fn an_answer_is_that_of_all_of_them() {
        let of = |lines: [&'static str; 2]| answer(&[ran(1, (0, 9), 5, &[lines[0]]), ran(2, (0, 9), 5, &[lines[1]])]);
        let same = of(["1 ops, 4 rows, digest a", "1 ops, 5 rows, digest a"]).unwrap();
        assert_eq!((same.rows, same.digest.as_str()), (Some(9), "reported:a"));
        let shared_out = of(["1 ops, 4 rows, digest a", "1 ops, 5 rows, digest b"]).unwrap();
        assert_eq!((shared_out.rows, shared_out.digest.as_str()), (Some(9), "rows:"), "how it is shared out is chance");
        assert_eq!(of(["1 ops, 4 rows", "1 ops"]), None);
        assert_eq!(answer(&[]), None);
    }
}
