//! Figures of the operating system between two snapshots of a trial of a program. Pure.

use std::collections::BTreeMap;

use prony_boundaries::suspending::Suspension;
use prony_boundaries::suspensions::Suspensions;
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::reading::{Reading, Why};
use prony_model::record::{MetricKeyText, PEAK_SLACK, ProcessSeries};
use prony_model::units::{Bytes, Nanos};
use prony_os::launch::{End, Usage};
use prony_os::sample::counters::Counters;
use prony_os::sample::snapshot::ProcessSnapshot;
use prony_os::sample::{Ended, Ends, Processes, Snapshot, phase_readings, readings_with_ends};

use crate::figures::readings::{Readings, set};
use crate::watched::Watched;

/// From one snapshot to another.
pub struct Span<'a> {
    /// All observations of the trial.
    pub watched: &'a Watched,
    /// When the program was suspended.
    pub suspended: &'a Suspensions,
    /// Index of the first snapshot.
    pub first: usize,
    /// Index of the last snapshot.
    pub until: usize,
    /// The suspension at its end.
    pub rest: Option<&'a Suspension>,
    /// It ends with the program, or with a replica that outlived it.
    pub to_the_end: bool,
    /// It begins with the program.
    pub from_the_start: bool,
}

/// Counters of a process, by the files from which they are read while it runs.
const COUNTED: [Metric; 10] = [
    Metric::CpuUser,
    Metric::CpuSystem,
    Metric::OnCpu,
    Metric::CpuWait,
    Metric::Read,
    Metric::Written,
    Metric::MajorFaults,
    Metric::MinorFaults,
    Metric::SwitchesVoluntary,
    Metric::SwitchesForced,
];

/// Everything that adds up over a phase, except times.
pub fn amounts() -> impl Iterator<Item = Metric> {
    [Metric::Cpu].into_iter().chain(COUNTED).chain(Metric::SYNCS)
}

/// Removes figures, if there are any.
pub fn take_away(readings: &mut Readings, metrics: impl IntoIterator<Item = Metric>, why: &Why) {
    for metric in metrics {
        let reading = readings.get_mut(&MetricKeyText(MetricKey::amount(metric)));
        if let Some(reading) = reading.filter(|reading| reading.measured().is_some()) {
            *reading = Reading::Missing(why.clone());
        }
    }
}

impl Span<'_> {
    /// The figures of the operating system.
    pub fn readings(&self, series: &[ProcessSeries]) -> Readings {
        let (mut begin, mut end) =
            (self.watched.snapshots[self.first].clone(), self.watched.snapshots[self.until].clone());
        self.inner_holds().iter().for_each(|(from, to)| begin.credit(from, to));
        if self.from_the_start {
            // A suspended process shares its spawner's memory: none of it is the program's.
            begin.processes.clear();
            begin.at = self.watched.executed.max(begin.at);
        }
        let stopped = self.suspended.between(begin.at, end.at);
        (begin.at, end.at) = (self.suspended.running(begin.at), self.suspended.running(end.at));
        let peak = self.peak(&begin, end.at, series);
        let ends = self.ends(series, peak.measured().is_none());
        let mut readings = readings_with_ends(&begin, &end, series, "", &ends);
        if stopped > Nanos::ZERO {
            let why = Why::NotSupported(
                "the program was suspended inside the phase, and the machine's waits \
                    continued"
                    .into(),
            );
            take_away(&mut readings, [Metric::PressureCpu, Metric::PressureIo, Metric::PressureMemory], &why);
        }
        self.at_rest(&mut readings);
        match self.missing_counters() {
            Some(why) => self.without_counters(&mut readings, &why),
            None if self.to_the_end => self.to_the_very_end(&mut readings),
            None => {}
        }
        readings.insert(MetricKeyText(MetricKey::gauge(Metric::Rss, Stat::Peak)), peak);
        readings
    }

    /// What the kernel told of the program and of its replicas at their ends. Of a store's trial it told this of its worker
    /// only, and not of its services. `several` says whether the program was of several processes.
    fn ends(&self, series: &[ProcessSeries], several: bool) -> Ends {
        let Watched { snapshots, ended, replicas, worker, .. } = self.watched;
        let program = snapshots[0].processes.first().filter(|_| worker.is_none());
        let program = program.and_then(|program| series.iter().find(|process| process.pid == program.pid));
        let inside = |at: &End| at.at > snapshots[self.first].at;
        let began = replicas.all.iter().filter(|ran| ran.before.is_some() && ran.released < snapshots[self.until].at);
        let begins_here = |at: Nanos| at >= snapshots[self.first].at;
        let replicas = began.filter_map(|ran| {
            let end = ran.end().filter(|end| inside(end))?;
            Some((ran.role(), end, begins_here(ran.released)))
        });
        let program = program.map(|program| (program.role.clone(), ended, self.from_the_start && several));
        let suspended = snapshots[0].processes.first().map_or(Bytes::default(), |process| process.peak);
        let known = |end: &End, whole: bool| {
            let peak = end.usage.measured()?.peak;
            let reached = whole && peak > suspended + PEAK_SLACK;
            Some(Ended { at: self.suspended.running(end.at), peak, reached })
        };
        let all = program.into_iter().chain(replicas);
        all.filter_map(|(role, end, whole)| Some((role, known(end, whole)?))).collect()
    }

    /// The snapshots of suspensions inside the span, those that overlap as one: what was used between them is prony's.
    fn inner_holds(&self) -> Vec<(&Snapshot, &Snapshot)> {
        let inside =
            |suspension: &Suspension| Some((suspension.snapshot.max(self.first), suspension.rest?.min(self.until)));
        let mut suspensions: Vec<_> =
            self.watched.suspensions.iter().filter_map(inside).filter(|(from, to)| from < to).collect();
        suspensions.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for (from, to) in suspensions {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        merged.into_iter().map(|(from, to)| (&self.watched.snapshots[from], &self.watched.snapshots[to])).collect()
    }

    /// Why counters are not those of the span's snapshots: no process of the program was left to read them from.
    fn missing_counters(&self) -> Option<Why> {
        let empty = |snapshot: usize| self.watched.snapshots[snapshot].processes.is_empty();
        let which = match (!self.from_the_start && empty(self.first), !self.to_the_end && empty(self.until)) {
            (false, false) => return None,
            (true, _) => "begin",
            (false, true) => "end",
        };
        let text = format!("the program had ended when its counters were to be read at the phase's {which}");
        Some(Why::Failed(text.into()))
    }

    /// A group's counters remain when its processes have ended; all other counters are lost with them.
    fn without_counters(&self, readings: &mut Readings, why: &Why) {
        take_away(readings, COUNTED.into_iter().filter(|metric| !(self.grouped() && of_group(*metric))), why);
        if !self.grouped() {
            take_away(readings, [Metric::Cpu], why);
        }
    }

    /// Whether a control group counted CPU time at both snapshots.
    fn grouped(&self) -> bool {
        [self.first, self.until].iter().all(|snapshot| self.watched.snapshots[*snapshot].group.measured().is_some())
    }

    /// Whether a figure counts all processes of the trial already, replicas among them.
    pub fn is_of_all(&self, metric: Metric) -> bool {
        let parts = !self.to_the_end || self.watched.ended.cpu.measured().is_none();
        self.grouped() && (metric == Metric::Cpu || (parts && of_group(metric)))
    }

    /// Memory at the end is that after what `at_end` asks for, for the suspended process; for others that of the end
    /// itself, since what they allocated meanwhile comes after the phase. The memory before the suspension is recorded
    /// too.
    fn at_rest(&self, readings: &mut Readings) {
        let Some(rest) = self.after_suspension() else { return };
        let before: Vec<_> = readings
            .iter()
            .filter(|(key, _)| key.0.stat == Some(Stat::End))
            .map(|(key, reading)| (MetricKeyText(MetricKey::gauge(key.0.metric, Stat::Before)), reading.clone()))
            .collect();
        readings.extend(before);
        let after = phase_readings(&self.watched.snapshots[self.until], &rest, &[], "");
        readings.extend(after.into_iter().filter(|(key, _)| key.0.stat == Some(Stat::End)));
    }

    /// The snapshot after what `at_end` asks for, with the suspended process as then and the rest as at the phase's
    /// end.
    fn after_suspension(&self) -> Option<Snapshot> {
        let (suspension, rest) = self.rest.and_then(|suspension| Some((suspension, suspension.rest?)))?;
        let mut rest = self.watched.snapshots[rest].clone();
        let was_suspended = |process: &ProcessSnapshot| process.pid == suspension.source.pid;
        rest.processes.retain(was_suspended);
        let end = &self.watched.snapshots[self.until];
        rest.processes.extend(end.processes.iter().filter(|process| !was_suspended(process)).cloned());
        Some(rest)
    }

    /// Figures of each process, of which the whole tree used `cpu`.
    pub fn processes(&self, series: &[ProcessSeries], cpu: &Reading<f64>) -> BTreeMap<String, Readings> {
        let (begin, end) = (&self.watched.snapshots[self.first], &self.watched.snapshots[self.until]);
        let rest = self.after_suspension();
        let at_rest = &rest.as_ref().unwrap_or(end).processes;
        // Until its program is executed a process shares its spawner's memory: none of it is the program's.
        let from = if self.from_the_start { self.watched.executed.max(begin.at) } else { begin.at };
        let between = (self.suspended.running(from), self.suspended.running(end.at));
        let left_out = &self.inner_holds();
        let ends = &self.ends(series, false);
        Processes { begin, end, between, at_rest, left_out, series, ends, cpu }.readings()
    }

    /// Samples miss what a process did between the last one and its end; the kernel's report at its reaping includes
    /// it.
    fn to_the_very_end(&self, readings: &mut Readings) {
        let before = self.before();
        let both = self.watched.ended.usage.clone().and(before.clone(), |all, before| (all, before));
        let count = |of: fn(&Usage) -> u64, at_begin: fn(&Before) -> u64| {
            both.clone().map(|(all, before)| of(&all).saturating_sub(at_begin(&before)) as f64)
        };
        let moved = |of: fn(&Usage) -> Bytes, at_begin: fn(Before) -> Reading<Bytes>| match both.clone() {
            Reading::Measured((all, before)) => {
                at_begin(before).map(|before| (bytes(of(&all)) - bytes(before)).max(0.0))
            }
            Reading::Missing(why) => Reading::Missing(why),
        };
        let amounts = [
            (Metric::MinorFaults, count(|all| all.minor_faults, |before| before.minor_faults)),
            (Metric::MajorFaults, count(|all| all.major_faults, |before| before.major_faults)),
            (Metric::SwitchesVoluntary, count(|all| all.switches_voluntary, |before| before.switches_voluntary)),
            (Metric::SwitchesForced, count(|all| all.switches_forced, |before| before.switches_forced)),
            (Metric::Read, moved(|all| all.read, |before| before.read)),
            (Metric::Written, moved(|all| all.written, |before| before.written)),
        ];
        amounts.into_iter().for_each(|(metric, reading)| set(readings, metric, reading));
        let missing_counters =
            "processes ended after their last sample, so that this would be too low; `cpu` has all CPU time";
        for metric in [Metric::OnCpu, Metric::CpuWait] {
            set(readings, metric, Reading::Missing(Why::NotSupported(missing_counters.into())));
        }
        self.cpu(before, readings);
    }

    /// A group's total includes children that were not waited for; its parts are counted in ticks, those of `wait4` are
    /// not. If there is neither, samples show less than was used.
    fn cpu(&self, before: Reading<Before>, readings: &mut Readings) {
        let (grouped, all) = (self.grouped(), self.watched.ended.cpu.clone());
        if grouped && all.measured().is_none() {
            return;
        }
        let used = all.and(before, |all, Before { cpu: (user, system), .. }| {
            [nanos(all.user.since(user)), nanos(all.system.since(system))]
        });
        set(readings, Metric::CpuUser, used.clone().map(|[user, _]| user));
        set(readings, Metric::CpuSystem, used.clone().map(|[_, system]| system));
        if !grouped {
            set(readings, Metric::Cpu, used.map(|[user, system]| user + system));
        }
    }

    /// What the tree had used at the phase's begin, including what it did before its program was executed. Missing
    /// where none of it was counted at a snapshot, for instance because only its replicas were.
    fn before(&self) -> Reading<Before> {
        let first = self.watched.snapshots[0].processes.first().map(|process| process.sample);
        let suspended = first.unwrap_or_default();
        let uncounted =
            || Reading::Missing(Why::Failed("nothing of the program was counted at the phase's begin".into()));
        let total = |snapshot: &Snapshot| snapshot.totals.get("").cloned().map_or_else(uncounted, Reading::Measured);
        let between = |from: &Snapshot, to: &Snapshot| total(to).and(total(from), |to, from| to.since(&from));
        let used = match self.first {
            0 => Reading::Measured(Counters::default()),
            first => between(&self.watched.snapshots[0], &self.watched.snapshots[first]),
        };
        let used = self
            .inner_holds()
            .into_iter()
            .fold(used, |sum, (from, to)| sum.and(between(from, to), |sum, suspended| sum.plus(&suspended)));
        // The suspended process was not read: it had only waited.
        let moved = |suspended: Option<Bytes>, used: &Reading<Bytes>| match (suspended, first) {
            (None, Some(_)) => Reading::Missing(Why::Failed("what it had moved before it began was not read".into())),
            (suspended, _) => used.clone().map(|used| suspended.unwrap_or_default() + used),
        };
        used.map(|used| Before {
            minor_faults: suspended.minor_faults + used.minor_faults,
            major_faults: suspended.major_faults + used.major_faults,
            switches_voluntary: suspended.switches_voluntary + used.switches_voluntary,
            switches_forced: suspended.switches_forced + used.switches_forced,
            read: moved(suspended.read, &used.read),
            written: moved(suspended.written, &used.written),
            cpu: (suspended.cpu_user + used.cpu_user, suspended.cpu_system + used.cpu_system),
        })
    }
}

pub(super) fn bytes(amount: Bytes) -> f64 {
    amount.as_bytes() as f64
}

fn nanos(time: Nanos) -> f64 {
    time.as_nanos() as f64
}

/// Whether a control group counts it.
const fn of_group(metric: Metric) -> bool {
    matches!(metric, Metric::CpuUser | Metric::CpuSystem)
}

/// Counters at the begin of a phase.
#[derive(Clone)]
struct Before {
    minor_faults: u64,
    major_faults: u64,
    switches_voluntary: u64,
    switches_forced: u64,
    read: Reading<Bytes>,
    written: Reading<Bytes>,
    cpu: (Nanos, Nanos),
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use prony_boundaries::threads::Threads;
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
            processes: pids.iter().map(process).collect(),
            totals: BTreeMap::from([(String::new(), counters)]),
            group: Reading::Missing(Why::NotApplicable),
            syncs: BTreeMap::new(),
            pressure: Pressure { cpu: waited(), io: waited(), memory: waited() },
            device: Reading::Missing(Why::NotApplicable),
            disk: Reading::Missing(Why::NotApplicable),
            cached: Reading::Missing(Why::NotApplicable),
        }
    }

    /// A program of which these snapshots were taken, and which used 1,000 of everything in all.
    pub(crate) fn watched(snapshots: Vec<Snapshot>, suspensions: Vec<Suspension>) -> Watched {
        let usage = Usage {
            minor_faults: 1_000,
            written: Bytes::from_bytes(1_000),
            peak: Bytes::from_mib(90),
            ..Usage::default()
        };
        let memory = MemoryEvidence {
            limit: None,
            peak: Reading::Missing(Why::NotApplicable),
            oom_kills: Reading::Measured(0),
            forks_refused: Reading::Measured(0),
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
            worker: None,
            cut: None,
            executable: None,
        }
    }

    /// A suspension of one thread from one snapshot to another, where its memory was read.
    pub(crate) fn suspension(pid: u32, thread: u32, snapshots: (usize, usize), at: (u64, u64)) -> Suspension {
        let source = Source { pid, thread };
        let mut suspension = Suspension::new(0, source, ms(at.0), ms(at.0), snapshots.0);
        (suspension.rest, suspension.read, suspension.until) = (Some(snapshots.1), Some(ms(at.1)), Some(ms(at.1)));
        suspension
    }

    /// The figures from one snapshot to another.
    fn between(watched: &Watched, first: usize, until: usize, series: &[ProcessSeries]) -> Readings {
        let suspended = Suspensions::new(
            watched
                .suspensions
                .iter()
                .map(|suspension| (suspension.from, watched.suspension_ended(suspension)))
                .collect(),
        );
        let last = watched.snapshots.len() - 1;
        let (to_the_end, from_the_start) = (until == last, first == 0);
        Span { watched, suspended: &suspended, first, until, rest: None, to_the_end, from_the_start }.readings(series)
    }

    fn get(readings: &Readings, name: &str) -> Reading<f64> {
        readings[&MetricKeyText(name.parse().unwrap())].clone()
    }

    /// Why each of these is missing, all alike.
    #[track_caller]
    fn why(readings: &Readings, names: &[&str]) -> String {
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
        assert!(why(&last, &["rss.peak"]).contains("also before the phase"), "the child's was before");
        assert_eq!(get(&between(&one, 0, 1, &[series(7, 50)]), "rss.peak"), mib(3), "as an edge read it");
        let mut unseen = watched(snapshots(), vec![]);
        unseen.snapshots[2].totals.get_mut("").unwrap().child_faults = 40;
        let last = between(&unseen, 1, 2, &[series(7, 200)]);
        assert!(why(&last, &["rss.peak"]).contains("some ended unsampled"), "one came and went");
        assert_eq!(get(&between(&unseen, 0, 1, &[series(7, 50)]), "rss.peak"), mib(3), "its own, read while it lived");
        let mut not_reset = watched(snapshots(), vec![]);
        not_reset.snapshots[1].processes[0].peak_reset = false;
        assert!(why(&between(&not_reset, 1, 2, &[]), &["rss.peak"]).contains("clear_refs"));
    }

    /// A child that came and went between two samples was passed over, though the kernel told of its memory.
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
        assert!(reason.contains("no sample shows the memory"), "{reason}");
        assert_eq!(get(&of(40, 9), "anon.max"), mib(30), "samples show three quarters");
        assert_eq!(get(&of(41, 0), "anon.max"), mib(30), "without children the peak itself is there");
        assert_eq!(get(&of(41, 0), "rss.peak"), mib(41));
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
    fn holds_that_overlap_are_taken_away_once() {
        let snapshots = (0..=6).map(|n| snapshot(n * 100, n * 10, &[7])).chain([snapshot(700, 70, &[])]).collect();
        let suspensions = vec![suspension(7, 2, (2, 4), (200, 400)), suspension(7, 1, (1, 3), (100, 300))];
        let all = watched(snapshots, suspensions);
        let readings = between(&all, 0, 6, &[]);
        assert_eq!(get(&readings, "cpu"), Reading::Measured(30e6), "all but what was used from edge 1 to edge 4");
        assert_eq!(get(&readings, "written"), Reading::Measured(30.0));
        let to_the_end = between(&all, 0, 7, &[]);
        assert_eq!(get(&to_the_end, "cpu"), Reading::Measured(970e6));
        assert_eq!(get(&to_the_end, "faults.minor"), Reading::Measured(970.0));
        let part = between(&all, 3, 6, &[]);
        assert_eq!(get(&part, "written"), Reading::Measured(20.0), "of a hold under way at its begin, the rest");
    }

    #[test]
    fn memory_after_a_suspension_is_of_the_suspended_process() {
        let mut snapshots = vec![
            snapshot(0, 0, &[7, 8]),
            snapshot(100, 10, &[7, 8]),
            snapshot(900, 20, &[7, 8, 9]),
            snapshot(950, 0, &[]),
        ];
        for (snapshot, sizes) in snapshots.iter_mut().zip([[10, 10, 0], [80, 30, 0], [50, 200, 70]]) {
            for (process, mib) in snapshot.processes.iter_mut().zip(sizes) {
                process.sample.anon = Bytes::from_mib(mib);
                process.pss = Reading::Measured(Bytes::from_mib(mib));
            }
        }
        let all = watched(snapshots, vec![suspension(7, 0, (1, 2), (100, 900))]);
        let suspended = Suspensions::new(vec![(ms(100), ms(900))]);
        let rest = Some(&all.suspensions[0]);
        let span = Span {
            watched: &all,
            suspended: &suspended,
            first: 0,
            until: 1,
            rest,
            to_the_end: false,
            from_the_start: true,
        };
        let readings = span.readings(&[]);
        let mib = |n: u64| Reading::Measured(bytes(Bytes::from_mib(n)));
        assert_eq!(get(&readings, "anon.before"), mib(110));
        let names = ["anon.end", "rss.end", "pss.end"];
        assert_eq!(
            names.map(|name| get(&readings, name)),
            [80, 80, 80].map(mib),
            "the child's growth is after the end"
        );
        assert_eq!(get(&readings, "processes.end"), Reading::Measured(2.0), "and so is a new one");
    }

    #[test]
    fn the_machines_waits_do_not_stand_still() {
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
        assert!(why(&marked, &lost).contains("had ended when its counters were to be read at the phase's end"));
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
        assert!(why(&between(&first, 0, 2, &[]), &["written"]).contains("before it began"));
        let mut uncounted = watched(snapshots(), vec![]);
        uncounted.snapshots[1].totals.remove("");
        let missing = ["faults.minor", "switches.forced", "written", "cpu", "cpu.user"];
        assert!(why(&between(&uncounted, 1, 2, &[]), &missing).contains("nothing of the program was counted"));
        assert_eq!(
            get(&between(&uncounted, 0, 2, &[]), "cpu"),
            Reading::Measured(1e9),
            "of the whole nothing is needed"
        );
        first.snapshots[0].processes.clear();
        assert_eq!(
            get(&between(&first, 0, 2, &[]), "written"),
            Reading::Measured(1_000.0),
            "light care looks at nothing"
        );
    }
}
