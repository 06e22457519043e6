//! Computes the operating system's metrics between two snapshots of a trial. Pure functions.

use std::collections::BTreeMap;

use prony_boundaries::suspending::Suspension;
use prony_boundaries::suspensions::{Suspensions, merged};
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::reading::{Reading, Why};
use prony_model::record::{MetricKeyText, PEAK_SLACK, ProcessSeries, TICK};
use prony_model::units::{Bytes, Nanos};
use prony_os::launch::{CpuTime, End, Usage};
use prony_os::sample::counters::Counters;
use prony_os::sample::snapshot::ProcessSnapshot;
use prony_os::sample::{Ended, Ends, Processes, Snapshot, insert_peak, phase_readings, readings_with_ends};

use crate::figures::counted::{COUNTED, set_counted, without_unwaited};
use crate::figures::readings::{Readings, set, take_away};
use crate::watched::Watched;
use crate::watched::replicas::counters;

/// From one snapshot to another.
pub(crate) struct Span<'a> {
    /// All observations of the trial.
    pub watched: &'a Watched,
    /// When the program was suspended.
    pub suspended: &'a Suspensions,
    /// Index of the first snapshot.
    pub first: usize,
    /// Index of the last snapshot.
    pub until: usize,
    /// The suspension at its end.
    pub at_end: Option<&'a Suspension>,
    /// It ends with the program, or with a replica that outlived it.
    pub to_the_end: bool,
    /// It begins with the program.
    pub from_the_start: bool,
    /// How late its counters may have been read.
    pub late: Nanos,
}

/// Counters of processes.
fn of_processes() -> impl Iterator<Item = Metric> {
    COUNTED.into_iter().map(|(metric, _)| metric).chain([Metric::OnCpu, Metric::CpuWait])
}

/// Everything that adds up over a phase, except times.
pub fn amounts() -> impl Iterator<Item = Metric> {
    of_processes().chain(Metric::SYNCS)
}

impl Span<'_> {
    /// The operating system's metrics.
    pub(crate) fn readings(&self, series: &[ProcessSeries]) -> Readings {
        let (mut begin, mut end) =
            (self.watched.snapshots[self.first].clone(), self.watched.snapshots[self.until].clone());
        self.inner_suspensions().iter().for_each(|(from, to)| begin.credit(from, to));
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
            let why = "the program was suspended inside the phase, while the machine's pressure counters continued";
            let pressure = [Metric::PressureCpu, Metric::PressureIo, Metric::PressureMemory];
            take_away(&mut readings, pressure, &Why::NotSupported(why.into()));
        }
        self.memory_after_suspension(&mut readings);
        match self.missing_counters() {
            Some(why) => self.without_counters(&mut readings, &why),
            None if self.to_the_end => self.to_the_very_end(&mut readings),
            None => {}
        }
        insert_peak(&mut readings, peak);
        let unseen = self.unseen(series);
        unseen.into_iter().for_each(|amount| set(&mut readings, Metric::RssUnseen, Reading::Measured(bytes(amount))));
        let errors = self.cpu_error().into_iter().filter(|(_, error)| *error > Nanos::ZERO);
        errors.for_each(|(metric, error)| set(&mut readings, metric, Reading::Measured(nanos(error))));
        readings
    }

    /// What ticks of procfs cut off the CPU time at the span's begin, user and system apart, of each process and, where processes have
    /// waited for children, of those: `wait4` has it at the end.
    fn cut_at_begin(&self) -> Nanos {
        if self.from_the_start {
            return Nanos::ZERO;
        }
        let Snapshot { processes, totals, .. } = &self.watched.snapshots[self.first];
        let times = if totals.get("").is_some_and(|all| all.child_faults > 0) { 4 } else { 2 };
        Nanos::from_nanos(times * processes.len() as u64 * TICK.as_nanos())
    }

    /// By how much CPU time may be too large and too small: see [`Snapshot::cpu_lacks`]; and what was used while counters
    /// were read late, which is that of a neighbouring phase or is in none.
    fn cpu_error(&self) -> [(Metric, Nanos); 2] {
        let ungrouped = !self.grouped();
        let error = |snapshot: usize| {
            let Snapshot { most_running, cpu_lacks, processes, .. } = &self.watched.snapshots[snapshot];
            // Without a group, times of replicas are counted in ticks of procfs, user and system apart.
            let in_ticks = ungrouped && !self.watched.replicas.all.is_empty();
            let ticks = if in_ticks { 2 * processes.len() as u64 * TICK.as_nanos() } else { 0 };
            let late = most_running * self.late.as_nanos();
            (*cpu_lacks + Nanos::from_nanos(ticks), Nanos::from_nanos(late))
        };
        let (begin, late_begin) = if self.from_the_start { Default::default() } else { error(self.first) };
        // What outlives the program is still counted by its group.
        let (end, mut late_end) = error(self.until);
        if self.to_the_end {
            late_end = Nanos::ZERO;
        }
        // Of what ran before, `wait4` tells more than ticks of procfs did at the begin.
        let cut = if self.to_the_end && ungrouped { self.cut_at_begin() } else { Nanos::ZERO };
        // What was used during a suspension is deducted.
        let inner = self.inner_suspensions().into_iter();
        let (over, under) =
            inner.fold((begin, end), |(over, under), (from, to)| (over + to.cpu_lacks, under + from.cpu_lacks));
        [(Metric::CpuOver, over + cut + late_end), (Metric::CpuUnder, under + late_begin)]
    }

    /// What the kernel reported of the program and of its replicas when they were reaped; in a store's trial, of its
    /// worker only. `several` says whether the program had several processes.
    pub(crate) fn ends(&self, series: &[ProcessSeries], several: bool) -> Ends {
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
    fn inner_suspensions(&self) -> Vec<(&Snapshot, &Snapshot)> {
        let inside = |suspension: &Suspension| {
            Some((suspension.snapshot.max(self.first), suspension.after_actions?.min(self.until)))
        };
        let suspensions = self.watched.suspensions.iter().filter_map(inside).filter(|(from, to)| from < to);
        let snapshots = |(from, to): (usize, usize)| (&self.watched.snapshots[from], &self.watched.snapshots[to]);
        merged(suspensions.collect()).into_iter().map(snapshots).collect()
    }

    /// Why counters are not those of the span's snapshots: no process of the program was left to read them from.
    fn missing_counters(&self) -> Option<Why> {
        let empty = |snapshot: usize| self.watched.snapshots[snapshot].processes.is_empty();
        let which = match (!self.from_the_start && empty(self.first), !self.to_the_end && empty(self.until)) {
            (false, false) => return None,
            (true, _) => "begin",
            (false, true) => "end",
        };
        let text = format!("the program had ended before its counters could be read at the phase's {which}");
        Some(Why::Failed(text.into()))
    }

    /// A group's counters remain when its processes have ended; all other counters are lost with them.
    fn without_counters(&self, readings: &mut Readings, why: &Why) {
        for metric in self.not_of_group() {
            let reading = readings.get_mut(&MetricKeyText(MetricKey::amount(metric)));
            reading.into_iter().for_each(|reading| *reading = Reading::Missing(why.clone()));
        }
    }

    /// What no control group counts.
    fn not_of_group(&self) -> impl Iterator<Item = Metric> {
        let grouped = self.grouped();
        of_processes().filter(move |metric| !(grouped && (*metric == Metric::Cpu || of_group(*metric))))
    }

    /// Whether a control group counted CPU time at both snapshots.
    fn grouped(&self) -> bool {
        [self.first, self.until].iter().all(|snapshot| self.watched.snapshots[*snapshot].group.measured().is_some())
    }

    /// Whether a metric includes all processes of the trial already, replicas too.
    pub(crate) fn is_of_all(&self, metric: Metric) -> bool {
        self.grouped() && (metric == Metric::Cpu || (!self.has_parts_of_end() && of_group(metric)))
    }

    /// Whether user and system time are those of `wait4`: a group's parts are counted in ticks. At the begin of a later phase so is
    /// what `wait4` will have, and for each process.
    fn has_parts_of_end(&self) -> bool {
        let counted = self.watched.ended.cpu.measured().is_some();
        self.to_the_end && if self.grouped() { self.from_the_start && counted } else { true }
    }

    /// Memory at the end is that after what `at_end` asks for, for the suspended process; for others that of the end
    /// itself, since what they allocated meanwhile comes after the phase. The memory before the suspension is recorded
    /// too.
    fn memory_after_suspension(&self, readings: &mut Readings) {
        let Some(end) = self.after_suspension() else { return };
        let before: Vec<_> = readings
            .iter()
            .filter(|(key, _)| key.0.stat == Some(Stat::End))
            .map(|(key, reading)| (MetricKeyText(MetricKey::gauge(key.0.metric, Stat::Before)), reading.clone()))
            .collect();
        readings.extend(before);
        let after = phase_readings(&self.watched.snapshots[self.until], &end, &[], "");
        readings.extend(after.into_iter().filter(|(key, _)| key.0.stat == Some(Stat::End)));
    }

    /// The snapshot after what `at_end` asks for, with the suspended process as then and the rest as at the phase's
    /// end.
    fn after_suspension(&self) -> Option<Snapshot> {
        let (suspension, after) = self.at_end.and_then(|suspension| Some((suspension, suspension.after_actions?)))?;
        let mut snapshot = self.watched.snapshots[after].clone();
        let was_suspended = |process: &ProcessSnapshot| process.pid == suspension.source.pid;
        snapshot.processes.retain(was_suspended);
        let end = &self.watched.snapshots[self.until];
        snapshot.processes.extend(end.processes.iter().filter(|process| !was_suspended(process)).cloned());
        Some(snapshot)
    }

    /// Why the memory of the suspended process was not found after what `at_end` asks for. It reports the number that it has itself.
    pub(crate) fn suspended_elsewhere(&self) -> Option<Why> {
        let suspension = self.at_end?;
        let mut there = self.watched.snapshots[suspension.after_actions?].processes.iter();
        let why = "memory was not measured after the action of `at_end`: the suspended process has another number outside its PID \
                   namespace";
        (!there.any(|process| process.pid == suspension.source.pid)).then(|| Why::NotSupported(why.into()))
    }

    /// Metrics of each process, of which the whole tree used `cpu`.
    pub(crate) fn processes(&self, series: &[ProcessSeries], cpu: &Reading<f64>) -> BTreeMap<String, Readings> {
        let (begin, end) = (&self.watched.snapshots[self.first], &self.watched.snapshots[self.until]);
        let after = self.after_suspension();
        let at_end = &after.as_ref().unwrap_or(end).processes;
        // Until its program is executed a process shares its spawner's memory: none of it is the program's.
        let from = if self.from_the_start { self.watched.executed.max(begin.at) } else { begin.at };
        let between = (self.suspended.running(from), self.suspended.running(end.at));
        let left_out = &self.inner_suspensions();
        let ends = &self.ends(series, false);
        Processes { begin, end, between, at_end, left_out, series, ends, cpu }.readings()
    }

    /// Samples miss what a process did between the last one and its end; the kernel's report at its reaping includes
    /// it.
    fn to_the_very_end(&self, readings: &mut Readings) {
        let before = self.before();
        let spent = |all: Usage, before: Counters| counters(CpuTime::default(), &all).since(&before);
        let spent = self.watched.ended.usage.clone().and(before.clone(), spent);
        // CPU time comes from elsewhere.
        set_counted(readings, &COUNTED[3..], &spent);
        self.cpu(before, readings);
        // Nor does it include children whose parent ignores SIGCHLD.
        let total = |snapshot: usize| self.watched.snapshots[snapshot].totals.get("");
        let used = total(self.until).map(|all| total(self.first).map_or_else(|| all.clone(), |first| all.since(first)));
        let ignores = used.filter(|used| used.ignores_children > 0);
        if let Some(why) = ignores.and_then(|used| used.are_incomplete(None)) {
            take_away(readings, self.not_of_group(), &why);
        }
    }

    /// A group's total includes children that were not waited for. If there is neither, samples show less than was used.
    fn cpu(&self, before: Reading<Counters>, readings: &mut Readings) {
        let (grouped, all) = (self.grouped(), self.watched.ended.cpu.clone());
        if grouped && all.measured().is_none() {
            return;
        }
        let used = all.and(before, |all, before| {
            [nanos(all.user.since(before.cpu_user)), nanos(all.system.since(before.cpu_system))]
        });
        let has_parts = self.has_parts_of_end();
        if has_parts {
            set(readings, Metric::CpuUser, used.clone().map(|[user, _]| user));
            set(readings, Metric::CpuSystem, used.clone().map(|[_, system]| system));
        }
        if !grouped {
            set(readings, Metric::Cpu, used.map(|[user, system]| user + system));
            return;
        }
        let key = MetricKeyText(MetricKey::amount(Metric::Cpu));
        let cpu = readings.get(&key).and_then(|cpu| cpu.measured().copied());
        let Watched { replicas, snapshots, .. } = self.watched;
        let of_replicas = replicas.all.iter().filter_map(|ran| ran.between(snapshots, self.first, self.until));
        let of_replicas = of_replicas.fold(Reading::Measured(0.0), |sum, one| {
            sum.and(one, |sum, one| sum + nanos(one.cpu_user + one.cpu_system))
        });
        if let Some(((all, [user, system]), of_replicas)) = cpu.zip(used.measured()).zip(of_replicas.measured()) {
            without_unwaited(readings, all - of_replicas, (user + system, self.cut_at_begin()));
        }
        if let (false, Some(Reading::Missing(why))) = (has_parts, readings.get(&key).cloned()) {
            take_away(readings, [Metric::CpuUser, Metric::CpuSystem], &why);
        }
    }

    /// What the tree had used at the phase's begin, including what it did before its program was executed. Missing
    /// where none of it was counted at a snapshot, for instance because only its replicas were.
    fn before(&self) -> Reading<Counters> {
        let first = self.watched.snapshots[0].processes.first().map(|process| process.sample);
        let uncounted = || Reading::failed("no counters of the program are known at the phase's begin");
        let total = |snapshot: &Snapshot| snapshot.totals.get("").cloned().map_or_else(uncounted, Reading::Measured);
        let between = |from: &Snapshot, to: &Snapshot| total(to).and(total(from), |to, from| to.since(&from));
        let used = match self.first {
            0 => Reading::Measured(Counters::default()),
            first => between(&self.watched.snapshots[0], &self.watched.snapshots[first]),
        };
        let used = self
            .inner_suspensions()
            .into_iter()
            .fold(used, |sum, (from, to)| sum.and(between(from, to), |sum, suspended| sum.plus(&suspended)));
        // The suspended process was not read: it had only waited.
        let Some(suspended) = first else { return used };
        let unread = "the bytes that the process read and wrote before its program began are not known";
        let moved = |amount: Option<Bytes>| amount.map_or_else(|| Reading::failed(unread), Reading::Measured);
        let suspended = Counters {
            cpu_user: suspended.cpu_user,
            cpu_system: suspended.cpu_system,
            read: moved(suspended.read),
            written: moved(suspended.written),
            minor_faults: suspended.minor_faults,
            major_faults: suspended.major_faults,
            switches_voluntary: suspended.switches_voluntary,
            switches_forced: suspended.switches_forced,
            ..Counters::default()
        };
        used.map(|used| suspended.plus(&used))
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

#[cfg(test)]
pub(crate) mod tests;
