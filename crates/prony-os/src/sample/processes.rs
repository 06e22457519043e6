//! Computes the metrics of each process in a phase from the phase's two snapshots and the samples between them. Pure
//! functions.
//!
//! A process that is running at both snapshots has exact CPU time. The metrics of a process that appears only in
//! samples end at its last sample: the kernel adds its later CPU time to its parent, or to no process. The control
//! group has counted that time too. Therefore the tree's CPU time minus that of all processes is reported as a separate
//! value, and never as that of a process.

use std::collections::{BTreeMap, BTreeSet};

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::processes::{NOT_ATTRIBUTED, PART, instances};
use prony_model::reading::{Reading, Why};
use prony_model::record::{MetricKeyText, ProcessSample, ProcessSeries};
use prony_model::units::{Bytes, Nanos};

use super::readings::{Readings, huge_pages, mark_memory};
use super::snapshot::{ProcessSnapshot, Snapshot};
use super::unread;
use super::unsampled::{Ended, Ends, Missed, Sampled};

/// What the processes of a phase are read from.
#[derive(Clone, Copy, Debug)]
pub struct Processes<'a> {
    /// Counters at the phase's begin.
    pub begin: &'a Snapshot,
    /// Counters at its end.
    pub end: &'a Snapshot,
    /// The time between which memory counts, by the clock of `series`.
    pub between: (Nanos, Nanos),
    /// Processes at the phase's end, or after the actions there that precede the reading of memory.
    pub at_end: &'a [ProcessSnapshot],
    /// Snapshots between which nothing counts.
    pub left_out: &'a [(&'a Snapshot, &'a Snapshot)],
    /// Samples of all processes of the trial.
    pub series: &'a [ProcessSeries],
    /// What is known of processes that ended.
    pub ends: &'a Ends,
    /// CPU time of the whole tree in the phase.
    pub cpu: &'a Reading<f64>,
}

/// What one name has in a phase.
#[derive(Default)]
struct Found {
    cpu: f64,
    /// Anonymous and resident memory of all its processes at each instant.
    memory: BTreeMap<Nanos, (u64, u64)>,
    /// How many were sampled.
    count: usize,
    /// Those that lived at the end.
    at_end: Vec<ProcessSnapshot>,
    /// What samples may have missed of the others.
    missed: Missed,
}

impl Processes<'_> {
    /// Metrics by instance, [`NOT_ATTRIBUTED`] included; nothing where one process is the whole tree. A single sampled
    /// process is not the whole if it waited for children between two samples and much CPU time is not its own.
    pub fn readings(&self) -> BTreeMap<String, Readings> {
        let single = self.series.len() < 2;
        if single && !self.waited_for_children() {
            return BTreeMap::new();
        }
        let (from, to) = self.between;
        let samples = self.series.iter().flat_map(|series| &series.samples).map(|sample| sample.at);
        let rounds: BTreeSet<Nanos> = samples.filter(|at| from <= *at && *at <= to).chain([from, to]).collect();
        let mut found: BTreeMap<String, Found> = BTreeMap::new();
        for (at, name) in instances(self.series).into_iter().enumerate() {
            self.add(at, &rounds, found.entry(name).or_default());
        }
        found.retain(|_, found| found.count > 0);
        let attributed: f64 = found.values().map(|found| found.cpu).sum();
        let mut all: BTreeMap<String, Readings> =
            found.into_iter().map(|(name, found)| (name, found.readings())).collect();
        if let Some(why) = huge_pages(self.begin, self.end, |_| true) {
            all.values_mut().for_each(|readings| mark_memory(readings, &why));
        }
        // Clocks of processes are read some microseconds after the group's.
        let rest = self.cpu.clone().map(|cpu| (cpu - attributed).max(0.0));
        let large = rest.clone().and(self.cpu.clone(), |rest, cpu| rest > PART * cpu);
        if single && large != Reading::Measured(true) {
            return BTreeMap::new();
        }
        let key = MetricKeyText(MetricKey::amount(Metric::Cpu));
        all.insert(NOT_ATTRIBUTED.to_owned(), Readings::from([(key, rest)]));
        if let Some(why) = unread::reason(self.begin, self.end, |_| true) {
            all.values_mut().for_each(|readings| unread::mark(readings, &why, false));
        }
        all
    }

    fn waited_for_children(&self) -> bool {
        let faults = |snapshot: &Snapshot| snapshot.totals.get("").map_or(0, |total| total.child_faults);
        faults(self.end) > faults(self.begin)
    }

    fn add(&self, at: usize, rounds: &BTreeSet<Nanos>, found: &mut Found) {
        let series = &self.series[at];
        let (from, to) = self.between;
        let inside: Vec<&ProcessSample> = series.samples.iter().filter(|s| from <= s.at && s.at <= to).collect();
        let at_end = self.of(at, self.at_end, to);
        if inside.is_empty() && at_end.is_none() {
            return;
        }
        found.count += 1;
        if at_end.is_none() {
            let at = inside.iter().map(|sample| sample.at).collect();
            let sampled = Sampled { at, ..Sampled::default() };
            // The role's largest process may be another one.
            let ended = self.ends.get(&series.role).map(|ended| Ended { reached: false, ..*ended });
            found.missed.add(rounds, &sampled, ended.as_ref());
        }
        for sample in inside {
            let sum = found.memory.entry(sample.at).or_default();
            *sum = (sum.0 + sample.anon.as_bytes(), sum.1 + sample.rss().as_bytes());
        }
        found.cpu += self.used(at) as f64;
        found.at_end.extend(at_end.cloned());
    }

    /// CPU time in the phase: from its begin, or that of the process, to its end, or the last sample of the process.
    fn used(&self, at: usize) -> u64 {
        let series = &self.series[at];
        let (from, to) = self.between;
        let before = || series.samples.iter().rfind(|sample| sample.at <= from).map(cpu);
        let until = || series.samples.iter().rfind(|sample| sample.at <= to).map(cpu);
        let snapshot =
            |snapshot: &Snapshot, by| self.of(at, &snapshot.processes, by).map(|process| cpu(&process.sample));
        let begin = snapshot(self.begin, from).or_else(before).unwrap_or_default();
        let end = snapshot(self.end, to).or_else(until).unwrap_or_default();
        let left_out = self.left_out.iter().filter_map(|(begin, end)| Some((snapshot(begin, to)?, snapshot(end, to)?)));
        let left_out: u64 = left_out.map(|(begin, end)| end.saturating_sub(begin)).sum();
        end.saturating_sub(begin).saturating_sub(left_out)
    }

    /// The process of a series among those of a snapshot, whose instant is at most `by`: a pid may be reused by a
    /// process that begins later.
    fn of<'e>(&self, at: usize, processes: &'e [ProcessSnapshot], by: Nanos) -> Option<&'e ProcessSnapshot> {
        let pid = self.series[at].pid;
        let first = |at: usize| self.series[at].samples.first().map(|sample| sample.at);
        let same = (0..self.series.len()).filter(|other| self.series[*other].pid == pid);
        let last =
            same.filter(|other| first(*other).is_some_and(|first| first <= by)).max_by_key(|other| first(*other));
        processes.iter().find(|process| process.pid == pid).filter(|_| last.is_none_or(|last| last == at))
    }
}

fn cpu(sample: &ProcessSample) -> u64 {
    sample.on_cpu.unwrap_or(sample.cpu_user + sample.cpu_system).as_nanos()
}

impl Found {
    fn readings(self) -> Readings {
        let mut readings = Readings::new();
        let mut put = |metric, stat, reading| {
            readings.insert(MetricKeyText(MetricKey { metric, stat }), reading);
        };
        put(Metric::Cpu, None, Reading::Measured(self.cpu));
        let most = |of: fn(&(u64, u64)) -> u64| match self.memory.values().map(of).max() {
            Some(most) if self.missed.leaves(most as f64, true) => Reading::Measured(most as f64),
            Some(_) => Reading::failed(self.missed.why()),
            None => Reading::Missing(Why::TooFew { have: 0, need: 1 }),
        };
        put(Metric::Anon, Some(Stat::Max), most(|sum| sum.0));
        put(Metric::Rss, Some(Stat::Max), most(|sum| sum.1));
        let ended = || Reading::failed("the process had ended before the phase's end");
        let sum = |of: fn(&ProcessSnapshot) -> Reading<Bytes>| {
            let parts = self.at_end.iter().map(|process| of(process).map(|bytes| bytes.as_bytes() as f64));
            parts.reduce(|sum, part| sum.and(part, |sum, part| sum + part)).unwrap_or_else(ended)
        };
        put(Metric::Anon, Some(Stat::End), sum(|process| Reading::Measured(process.sample.anon)));
        put(Metric::Rss, Some(Stat::End), sum(|process| Reading::Measured(process.sample.rss())));
        put(Metric::Pss, Some(Stat::End), sum(|process| process.pss.clone()));
        put(Metric::Processes, Some(Stat::End), Reading::Measured(self.at_end.len() as f64));
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::counters::Counters;
    use crate::sample::unsampled::SPARSE;

    const MIB: f64 = 1_048_576.0;

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn sample(at: u64, cpu: u64, mb: u64) -> ProcessSample {
        let anon = Bytes::from_mib(mb);
        ProcessSample { at: ms(at), on_cpu: Some(ms(cpu)), anon, file: Bytes::from_mib(1), ..ProcessSample::default() }
    }

    fn snapshot(at: u64, processes: &[(u32, u64, u64)]) -> Snapshot {
        let process = |(pid, cpu, mb): &(u32, u64, u64)| ProcessSnapshot {
            pid: *pid,
            role: "site".into(),
            sample: sample(at, *cpu, *mb),
            pss: Reading::Measured(Bytes::from_mib(*mb)),
            peak: Bytes::default(),
            peak_reset: true,
        };
        fn unread<T>() -> Reading<T> {
            Reading::Missing(Why::NotApplicable)
        }
        Snapshot {
            at: ms(at),
            took: Nanos::ZERO,
            store_took: Nanos::ZERO,
            leaves_replicas_out: false,
            most_running: 0,
            cpu_lacks: Nanos::ZERO,
            processes: processes.iter().map(process).collect(),
            zombies: Vec::new(),
            totals: BTreeMap::new(),
            group: unread(),
            groups: BTreeMap::new(),
            syncs: BTreeMap::new(),
            unread: BTreeMap::new(),
            pressure: prony_model::record::Pressure::default(),
            device: unread(),
            disk: unread(),
            cached: unread(),
            unwritten: Reading::Missing(Why::NotApplicable),
        }
    }

    fn series(pid: u32, command: &str, samples: &[(u64, u64, u64)]) -> ProcessSeries {
        let samples = samples.iter().map(|(at, cpu, mb)| sample(*at, *cpu, *mb)).collect();
        ProcessSeries { pid, role: "site".into(), command: command.into(), samples }
    }

    /// Metrics of a phase from 100 to 1,000 ms in which the tree used 900 ms.
    fn readings(begin: &Snapshot, end: &Snapshot, series: &[ProcessSeries]) -> BTreeMap<String, Readings> {
        with_ends(begin, end, series, &Ends::new())
    }

    fn with_ends(
        begin: &Snapshot,
        end: &Snapshot,
        series: &[ProcessSeries],
        ends: &Ends,
    ) -> BTreeMap<String, Readings> {
        let (cpu, between) = (&Reading::Measured(900e6), (begin.at, end.at));
        Processes { begin, end, between, at_end: &end.processes, left_out: &[], series, ends, cpu }.readings()
    }

    #[track_caller]
    fn is(all: &BTreeMap<String, Readings>, instance: &str, key: &str, expected: f64) {
        let found = &all[instance][&MetricKeyText(key.parse().unwrap())];
        assert_eq!(found, &Reading::Measured(expected), "{instance}: {key}");
    }

    #[test]
    fn each_process_has_its_own_figures_and_the_rest_is_not_attributed() {
        let (begin, end) = (snapshot(100, &[(1, 50, 10)]), snapshot(1_000, &[(1, 350, 12), (2, 400, 30)]));
        let sampled = [
            series(1, "node", &[(100, 50, 10), (500, 200, 40), (1_000, 350, 12)]),
            series(2, "node", &[(300, 20, 20), (500, 100, 25), (1_000, 400, 30)]),
            // It ended 80 ms after its last sample.
            series(3, "sh", &[(400, 5, 1), (500, 60, 2)]),
        ];
        let all = readings(&begin, &end, &sampled);
        is(&all, "process.site.node", "cpu", 300e6);
        is(&all, "process.site.node.2", "cpu", 400e6);
        is(&all, "process.site.sh", "cpu", 60e6);
        is(&all, NOT_ATTRIBUTED, "cpu", 140e6);
        is(&all, "process.site.node", "anon.max", f64::from(40 << 20));
        is(&all, "process.site.node.2", "pss.end", f64::from(30 << 20));
        is(&all, "process.site.node.2", "rss.end", f64::from(31 << 20));
        let ended = &all["process.site.sh"][&MetricKeyText("pss.end".parse().unwrap())];
        assert!(matches!(ended, Reading::Missing(Why::Failed(_))), "no zero for a process that has ended: {ended:?}");
    }

    #[test]
    fn a_pid_that_was_given_out_again_is_another_process() {
        let (begin, end) = (snapshot(100, &[(1, 0, 1), (7, 300, 1)]), snapshot(1_000, &[(1, 0, 1), (7, 40, 1)]));
        let sampled = [
            series(1, "sh", &[(100, 0, 1), (1_000, 0, 1)]),
            series(7, "a", &[(50, 200, 1), (100, 300, 1), (200, 350, 1)]),
            series(7, "b", &[(600, 10, 1), (1_000, 40, 1)]),
        ];
        let all = readings(&begin, &end, &sampled);
        is(&all, "process.site.a", "cpu", 50e6);
        is(&all, "process.site.b", "cpu", 40e6);
    }

    #[test]
    fn a_densely_sampled_process_that_ended_has_its_memory_though_its_role_had_a_larger_one() {
        let (begin, end) = (snapshot(100, &[]), snapshot(1_000, &[]));
        let sampled = series(7, "sh", &(150..=950).step_by(50).map(|at| (at, 0, 1)).collect::<Vec<_>>());
        let larger = Ended { at: ms(1_000), peak: Bytes::from_mib(100), reached: true };
        let sampled = [sampled, series(8, "cc", &[(500, 0, 50)])];
        let all = with_ends(&begin, &end, &sampled, &Ends::from([("site".to_owned(), larger)]));
        is(&all, "process.site.sh", "anon.max", MIB);
    }

    /// A name that several processes share was measured where one of them lived at the end.
    #[test]
    fn a_name_has_no_memory_where_one_of_its_processes_was_sampled_sparsely() {
        let (begin, end) = (snapshot(100, &[]), snapshot(1_000, &[(9, 0, 1)]));
        let instants = || (200..=1_000).step_by(100);
        let long = |pid: u32| series(pid, "sh", &instants().map(|at| (at, 0, 1)).collect::<Vec<_>>());
        // From the ninth on they share one name.
        let mut sampled: Vec<ProcessSeries> = (1..=9).map(long).collect();
        is(&readings(&begin, &end, &sampled), "process.site.sh.9+", "anon.max", MIB);
        sampled.push(series(10, "sh", &[(300, 0, 5)]));
        let all = readings(&begin, &end, &sampled);
        let found = &all["process.site.sh.9+"][&MetricKeyText("anon.max".parse().unwrap())];
        assert_eq!(found, &Reading::Missing(Why::Failed(SPARSE.into())));
        is(&all, "process.site.sh.9+", "anon.end", MIB);
    }

    #[test]
    fn suspension_usage_is_deducted_from_processes() {
        let (begin, end) = (snapshot(100, &[(1, 0, 1), (2, 0, 1)]), snapshot(1_000, &[(1, 500, 1), (2, 300, 1)]));
        let (from, to) = (snapshot(300, &[(1, 100, 1), (2, 100, 1)]), snapshot(400, &[(1, 350, 1), (2, 100, 1)]));
        let sampled = [series(1, "node", &[(100, 0, 1)]), series(2, "node", &[(100, 0, 1)])];
        let (cpu, between, left_out) = (&Reading::Measured(550e6), (begin.at, end.at), &[(&from, &to)]);
        let (begin, end, at_end) = (&begin, &end, &end.processes[..]);
        let all =
            Processes { begin, end, between, at_end, left_out, series: &sampled, ends: &Ends::new(), cpu }.readings();
        is(&all, "process.site.node", "cpu", 250e6);
        is(&all, "process.site.node.2", "cpu", 300e6);
        is(&all, NOT_ATTRIBUTED, "cpu", 0.0);
    }

    #[test]
    fn no_process_has_memory_where_one_had_huge_pages() {
        let (begin, mut end) = (snapshot(100, &[(1, 0, 1), (2, 0, 1)]), snapshot(1_000, &[(1, 500, 1), (2, 300, 1)]));
        end.totals.insert("site".to_owned(), Counters { huge: 1, ..Counters::default() });
        let all = readings(&begin, &end, &[series(1, "node", &[(100, 0, 1)]), series(2, "sh", &[(100, 0, 1)])]);
        for key in ["anon.max", "rss.end", "pss.end"] {
            let found = &all["process.site.sh"][&MetricKeyText(key.parse().unwrap())];
            assert!(matches!(found, Reading::Missing(Why::NotSupported(_))), "{key}: {found:?}");
        }
        is(&all, "process.site.sh", "cpu", 300e6);
    }

    #[test]
    fn one_process_is_the_whole_tree() {
        let (begin, end) = (snapshot(100, &[(1, 0, 1)]), snapshot(1_000, &[(1, 900, 1)]));
        assert_eq!(readings(&begin, &end, &[series(1, "worker", &[(100, 0, 1)])]), BTreeMap::new());
    }

    #[test]
    fn children_that_no_sample_saw_are_not_attributed_where_they_used_much() {
        let of = |own: u64, child_faults: u64| {
            let (begin, mut end) = (snapshot(100, &[(1, 0, 1)]), snapshot(1_000, &[(1, own, 1)]));
            end.totals.insert(String::new(), Counters { child_faults, ..Counters::default() });
            readings(&begin, &end, &[series(1, "sh", &[(100, 0, 1)])])
        };
        let all = of(30, 5_000);
        is(&all, "process.site.sh", "cpu", 30e6);
        is(&all, NOT_ATTRIBUTED, "cpu", 870e6);
        assert_eq!(of(850, 5_000), BTreeMap::new(), "6 % are little");
        assert_eq!(of(30, 0), BTreeMap::new(), "without children it is its own end");
    }
}
