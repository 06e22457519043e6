//! Computes the records of a trial's phases from what was observed. Pure functions.

mod commands;
pub(crate) mod concurrent;
pub(crate) mod counted;
mod counted_by_services;
pub(crate) mod heaps;
mod peak;
pub mod readings;
pub mod replicas;
pub mod report;
pub(crate) mod services;
pub mod span;
pub(crate) mod suspended;
mod workers;
pub(crate) mod written;

use std::collections::BTreeMap;

use prony_analysis::conclude::{Observed, Reached};
use prony_analysis::guard;
use prony_boundaries::calls::Calls;
use prony_boundaries::limits::Stopped;
use prony_boundaries::phase_state::PhaseState;
use prony_boundaries::suspending::{MOST_SUSPENSIONS, Suspension};
use prony_boundaries::suspensions::Suspensions;
use prony_boundaries::{functions, settling};
use prony_model::http::HttpSpec;
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::program::Trigger;
use prony_model::reading::{Reading, Why};
use prony_model::record::{
    Answer, BACKGROUND_ERROR, HistogramRecord, LatencyKind, MetricKeyText, PhaseRecord, ProcessSample, ProcessSeries,
};
use prony_model::spec::{BACKGROUND, PhaseSpec, Sign};
use prony_model::units::Nanos;
use prony_runtime::{DETAIL, Role};

use crate::watched::Watched;
use crate::watched::replicas::{Ran, Replicated};
use readings::{Readings, nanos, not_reached, rate_of_reported, set, take_away};
use span::Span;

/// Every phase of the variant. `silent` is why no probe reported anything, where none did.
pub fn observed(specs: &[PhaseSpec], watched: &Watched, series: &[ProcessSeries], silent: &Why) -> Vec<Observed> {
    let suspended = watched.suspended_times(|_| true);
    let all = series;
    let (beside, own): (Vec<_>, Vec<_>) = match watched.services.snapshots.is_empty() {
        true => Default::default(),
        false => series.iter().cloned().partition(|process| watched.services.has(&process.role)),
    };
    let series = if beside.is_empty() { series } else { &own };
    let running = series.iter().map(|process| without_suspensions(process, &suspended)).collect::<Vec<_>>();
    let shared = watched.suspended_times(|suspension| concurrent::went_on(watched, suspension));
    let trial = Trial {
        specs,
        watched,
        series: &running,
        sampled: series,
        all,
        suspended: &suspended,
        shared: &shared,
        silent,
    };
    specs.iter().enumerate().map(|(index, spec)| trial.record(spec, index)).collect()
}

/// A process by a clock that stops while the program is suspended, without its samples in that time.
fn without_suspensions(process: &ProcessSeries, suspended: &Suspensions) -> ProcessSeries {
    let shown = process.samples.iter().filter(|sample| !suspended.at(sample.at));
    let samples = shown.map(|sample| ProcessSample { at: suspended.running(sample.at), ..*sample }).collect();
    ProcessSeries { samples, ..process.clone() }
}

/// What all phases of a trial have in common.
struct Trial<'a> {
    specs: &'a [PhaseSpec],
    watched: &'a Watched,
    /// Samples by a clock that stops while the program is suspended.
    series: &'a [ProcessSeries],
    /// The same as they were taken.
    sampled: &'a [ProcessSeries],
    /// These, and the samples of services beside a program.
    all: &'a [ProcessSeries],
    suspended: &'a Suspensions,
    /// When one thread was suspended and other threads continued.
    shared: &'a Suspensions,
    silent: &'a Why,
}

impl Trial<'_> {
    /// The replicas that started with a phase.
    fn started_with(&self, index: usize) -> &[Ran] {
        let Replicated { phase, all, .. } = &self.watched.replicas;
        if *phase == index { all } else { &[] }
    }

    fn record(&self, spec: &PhaseSpec, index: usize) -> Observed {
        let watched = self.watched;
        let tracked = &watched.tracker.phases[index];
        let (Some(began), Some(first)) = (tracked.began, watched.begin[index]) else {
            return Observed::new(not_reached(spec), Reached::Nothing);
        };
        let (complete, last) = (tracked.is_complete(), watched.snapshots.len() - 1);
        let until = watched.end[index].filter(|_| complete).unwrap_or(watched.over().1);
        let ended = tracked.ended.filter(|_| complete).unwrap_or(watched.over().0);
        let suspension = self.suspension_at_end(index, until);
        let asked = functions::observed(spec).is_some_and(|observe| observe.suspends() && observe.at_end.is_some());
        let unread = if asked && complete { uncollected(suspension, ended.since(began)) } else { None };
        let at_end = suspension.filter(|_| unread.is_none());
        let (from_the_start, to_the_end) = (first == 0, until == last || self.outlived(spec, until, ended));
        let late = self.late((spec, tracked), (first, until), (began, ended));
        let span = Span { watched, suspended: self.suspended, first, until, at_end, to_the_end, from_the_start, late };
        let took = ended.since(began).since(self.suspended.between(began, ended));
        let (mut readings, mut processes) = self.counted(&span, unread.as_ref(), (tracked, took, late), index);
        let mut roles = self.times(spec, index, (began, ended, late), &mut readings);
        if !watched.suspensions.is_empty() {
            let over = suspension.and_then(|suspension| suspension.until).unwrap_or(ended).max(ended);
            set(&mut readings, Metric::Suspended, nanos(self.suspended.between(began, over)));
        }
        let histograms = tracked.calls.as_ref().map(|all| self.called(all, ended, &mut readings));
        if self.shared.between(began, ended) > Nanos::ZERO {
            unclear(&mut readings, tracked.calls.is_none());
            processes.values_mut().for_each(|readings| unclear(readings, false));
        }
        let mut instances = self.heaps(tracked, (began, ended), suspension, unread.as_ref());
        if tracked.least(took) < tracked.lag {
            instances.values_mut().for_each(|heap| without(heap, |_| false, &shorter(took, tracked.lag)));
        }
        let ruled_out = self.ruled_out(spec, index);
        if let Some(why) = &ruled_out {
            let parts = processes.values_mut().chain(roles.values_mut()).chain(instances.values_mut());
            parts.chain([&mut readings]).for_each(|readings| without(readings, is_of_boundaries, why));
        }
        let started = self.started_with(index);
        let replicas_report = started.iter().any(|ran| tracked.is_reported_by(&ran.lines));
        own_account(tracked, started, replicas_report, &mut readings);
        tracked.report.iter().for_each(|report| workers::inside(&spec.action, report, &mut readings));
        rate_of_reported(&mut readings);
        let (snapshots, series, pss) = (&watched.snapshots[..], self.sampled, &watched.replicas.pss);
        let inside = &snapshots[first..=until];
        instances.extend(workers::instances(&spec.action, &tracked.parts, inside, series, &mut readings));
        instances.entry(String::new()).or_default().extend(readings);
        instances.extend(replicas::instances(started, replicas::Inputs { snapshots, series, pss }));
        instances.extend(tracked.report.iter().flat_map(|report| workers::of_parts(report)).chain(processes));
        for (role, readings) in roles {
            instances.entry(role).or_default().extend(readings);
        }
        let phase = PhaseRecord {
            begin: Some(began),
            end: Some(ended),
            readings: instances,
            histograms: histograms.into_iter().flatten().filter(|_| ruled_out.is_none()).collect(),
            answer: answer(tracked)
                .or_else(|| replicas::answer(started).filter(|_| replicas_report || !tracked.reads_answer())),
            ..not_reached(spec)
        };
        reported(spec, Observed::new(phase, reached(tracked, watched.stopped)), tracked)
    }

    /// Whether the last replica, which ended the phase, outlived the program: what the kernel counted up to the program's end
    /// is all of it then, and no process is left to read from.
    fn outlived(&self, spec: &PhaseSpec, until: usize, ended: Nanos) -> bool {
        let by_replicas = functions::observed(spec).is_some_and(|observe| observe.end == Some(Trigger::Replicas));
        let mut later = self.watched.snapshots[until..].iter();
        by_replicas && self.watched.ended.at <= ended && later.all(|snapshot| snapshot.processes.is_empty())
    }

    /// Why no measurement in a phase counts as the phase's, if so.
    fn ruled_out(&self, spec: &PhaseSpec, index: usize) -> Option<Why> {
        let threads = &self.watched.threads;
        let suspended = suspended::inside(self.specs, self.watched, index).map(suspended::why);
        let deferred = || functions::deferred(spec, &threads.deferred);
        let lacks = functions::whole(spec).is_some_and(|id| threads.may_lack_calls(&id));
        let deferred = suspended.or_else(|| Some(Why::DoesNotCount(deferred()?.into())));
        deferred.or_else(|| lacks.then(unreported)).or_else(|| self.called_again(spec, index))
    }

    /// Why a phase that begins with the end of a function did not begin there: the end of its first call was taken for the last.
    fn called_again(&self, spec: &PhaseSpec, index: usize) -> Option<Why> {
        let Some(Trigger::After(name)) = &functions::observed(spec)?.begin else { return None };
        let before = &self.watched.tracker.phases[self.specs.iter().position(|spec| spec.name == *name)?];
        let again = before.ended > self.watched.tracker.phases[index].began || before.is_open();
        (before.calls.is_some() && again).then(|| {
            Why::DoesNotCount(format!("`{name}` was called again after this phase had begun with its end").into())
        })
    }

    /// The suspension at the end of a phase, which is the snapshot `until`; the last, where there are several.
    fn suspension_at_end(&self, index: usize, until: usize) -> Option<&Suspension> {
        let ends = |one: &&Suspension| one.phase == index && one.end == until && !one.passed;
        self.watched.suspensions.iter().rfind(ends)
    }

    /// Metrics of the operating system in a phase, in all and by process. A phase that may have taken less time than
    /// its boundaries were read `late` has none, except those read while the program was suspended at the end.
    fn counted(
        &self,
        span: &Span<'_>,
        unread: Option<&Why>,
        (tracked, took, late): (&PhaseState, Nanos, Nanos),
        index: usize,
    ) -> (Readings, BTreeMap<String, Readings>) {
        let services = &self.watched.services;
        if services.are_measured {
            let (from, to) = (&self.watched.snapshots[span.first], &self.watched.snapshots[span.until]);
            let mut instances = services::instances(services, from, to, self.sampled);
            let mut all = services::all(services, from, to, self.sampled);
            let phase = (tracked.began.unwrap_or_default(), tracked.ended.unwrap_or(self.watched.over().0));
            let errors = services::cpu_error((from, to), phase);
            let errors = errors.into_iter().filter(|_| !services.roles.is_empty());
            errors.for_each(|(metric, error)| set(&mut all, metric, nanos(error)));
            if took < late {
                let read = instances.values_mut().chain([&mut all]);
                read.for_each(|found| without(found, |_| false, &shorter(took, late)));
            }
            let command = self.watched.worker.as_ref().and_then(|worker| worker.commands.get(&index));
            if let Some(command) = command {
                // The load generator itself waits meanwhile.
                let inside = &self.watched.snapshots[span.first..=span.until];
                instances.insert(services.client.clone(), commands::readings(command, inside, self.sampled));
            }
            let report = tracked.report.as_deref();
            let counted = services::counted(services, (index, &self.specs[index]), phase, report);
            counted.into_iter().for_each(|(role, own)| instances.entry(role).or_default().extend(own));
            return (all, instances);
        }
        let mut readings = span.readings(self.series);
        let steps = functions::observed(&self.specs[index]).is_some_and(|observe| observe.at_end.is_some());
        let elsewhere = if steps { span.suspended_elsewhere() } else { None };
        let unread = unread.or(elsewhere.as_ref());
        unread.iter().for_each(|why| only_before(&mut readings, why));
        let whole = |metric| span.is_of_all(metric);
        let Replicated { all, .. } = &self.watched.replicas;
        replicas::add(&mut readings, all, &self.watched.snapshots, (span.first, span.until), whole);
        let cpu = readings.get(&MetricKeyText(MetricKey::amount(Metric::Cpu)));
        let mut processes = cpu.map(|cpu| span.processes(self.series, cpu)).unwrap_or_default();
        counted::without_uninherited(&mut readings, &processes);
        unread.iter().for_each(|why| processes.values_mut().for_each(|found| only_before(found, why)));
        if !services.snapshots.is_empty() {
            let (ends, from_the_start) = (&span.ends(self.series, true), span.from_the_start);
            let phase = services::Beside { own: &readings, ends, span: (span.first, span.until), from_the_start };
            processes.extend(services::beside(services, self.all, &phase));
        }
        if tracked.least(took) < late {
            let is_after_suspension =
                |key: MetricKey| span.at_end.is_some() && matches!(key.stat, Some(Stat::End | Stat::Before));
            let all = std::iter::once(&mut readings).chain(processes.values_mut());
            all.for_each(|readings| without(readings, is_after_suspension, &shorter(took, late)));
        }
        (readings, processes)
    }

    /// The invocations of the phase's function: how many, how long in all, and how they were spread.
    fn called(&self, calls: &Calls, ended: Nanos, readings: &mut Readings) -> Option<HistogramRecord> {
        let (recorder, time) = (calls.recorder(), calls.time(ended, (self.suspended, self.shared)));
        set(readings, Metric::Time, time.map(|time| time.as_nanos() as f64));
        set(readings, Metric::Operations, Reading::Measured(recorder.succeeded() as f64));
        set(readings, Metric::Errors, Reading::Measured(recorder.failed() as f64));
        recorder.metrics(Metric::LATENCY).into_iter().for_each(|(metric, reading)| set(readings, metric, reading));
        recorder.to_record("call", LatencyKind::Service).ok()
    }

    /// The heap metrics of a phase; `unread` is why readings from the suspension at its end do not count.
    fn heaps(
        &self,
        tracked: &PhaseState,
        (begin, end): (Nanos, Nanos),
        suspension: Option<&Suspension>,
        unread: Option<&Why>,
    ) -> BTreeMap<String, Readings> {
        if tracked.led {
            return BTreeMap::new();
        }
        let suspension = match (suspension, unread) {
            (Some(suspension), Some(_)) => Some((suspension.stopped, suspension.stopped)),
            (suspension, _) => suspension.and_then(|suspension| Some((suspension.stopped, suspension.read?))),
        };
        let span = heaps::Span { begin, end, suspension, suspended: self.suspended };
        let mut instances = heaps::readings(&self.watched.threads, span, self.silent);
        if let Some(why) = self.without_probe(begin, end) {
            // Reports of processes in PID namespaces are those of one where their numbers are the same.
            let is_known = |process: &ProcessSeries| {
                self.watched.threads.all().iter().any(|thread| thread.source.pid == process.pid)
            };
            let mixed = !self.sampled.iter().any(is_known);
            let sums = instances.iter_mut().filter(|(role, _)| mixed || role.is_empty() || *role == Role::Child.name());
            sums.for_each(|(_, heap)| without(heap, |_| false, &why));
        }
        instances.values_mut().for_each(|found| unread.iter().for_each(|why| only_before(found, why)));
        instances
    }

    /// Why sums of heaps are missing: a process of the runtime was there that reported nothing.
    fn without_probe(&self, begin: Nanos, end: Nanos) -> Option<Why> {
        let threads = self.watched.threads.all();
        let probed: Vec<(u32, &str)> = threads.iter().map(|thread| (thread.source.pid, thread.runtime())).collect();
        let there =
            |process: &&ProcessSeries| process.samples.iter().any(|sample| begin <= sample.at && sample.at <= end);
        let silent = guard::probe::without_probe(self.sampled.iter(), &probed).into_iter().find(there)?;
        let (pid, command) = (silent.pid, &silent.command);
        Some(Why::Failed(
            format!("process {pid} (`{command}`) of the program reported nothing (it loaded no probe, was forked by Python, or is in a PID namespace): its heap is not known").into(),
        ))
    }

    /// How late after its begin or its end the counters of a phase were read, at most; for calls that come often the
    /// last reading may be as much before the end.
    fn late(&self, (spec, tracked): (&PhaseSpec, &PhaseState), snapshots: (usize, usize), at: (Nanos, Nanos)) -> Nanos {
        let apart = |snapshot: usize, at: Nanos| self.watched.snapshots[snapshot].at.as_nanos().abs_diff(at.as_nanos());
        // A worker does nothing between the phases that the runner leads; after a warm-up it goes on while counters are read.
        if tracked.led {
            let warms_up = spec.action.http().is_some_and(HttpSpec::warms_up);
            return if warms_up { Nanos::from_nanos(apart(snapshots.0, at.0)) } else { Nanos::ZERO };
        }
        // A phase that begins or ends with the program is read up to its first or last instruction.
        let begin = if snapshots.0 == 0 { 0 } else { apart(snapshots.0, at.0) };
        let end = if snapshots.1 + 1 == self.watched.snapshots.len() { 0 } else { apart(snapshots.1, at.1) };
        tracked.lag + Nanos::from_nanos(begin.max(end))
    }

    /// How long a phase took, and how long it took to become quiet where it ends with that; the latter of each role too.
    fn times(
        &self,
        spec: &PhaseSpec,
        index: usize,
        (began, ended, late): (Nanos, Nanos, Nanos),
        readings: &mut Readings,
    ) -> BTreeMap<String, Readings> {
        let tracked = &self.watched.tracker.phases[index];
        let took = ended.since(began).since(self.suspended.between(began, ended));
        let wall = match ended > began {
            true if tracked.least(took) < tracked.lag => Reading::Missing(shorter(took, tracked.lag)),
            true => nanos(took),
            false => Reading::Missing(unordered(tracked.lag)),
        };
        set(readings, Metric::Wall, wall.clone());
        // The worker reports the time of its phases, and both it and the runner know when they began and ended.
        if !tracked.led {
            set(readings, Metric::Time, wall);
            set(readings, Metric::Lag, nanos(late));
            if tracked.lag > Nanos::ZERO {
                set(readings, Metric::TimeLag, nanos(tracked.lag));
            }
        }
        let mut of_roles = BTreeMap::new();
        match (spec.action.settle(), self.watched.settled.get(&index)) {
            (None, _) => {}
            (Some(_), Some(found)) => {
                // The runner began the phase, and its watch with it.
                let began = if tracked.led { found.began } else { began };
                readings::settled(&found.result, |time| found.from_begin(time, began, self.suspended), &mut of_roles);
                readings.extend(of_roles.remove("").unwrap_or_default());
            }
            (Some(_), None) if tracked.led => {}
            (Some(settle), None) => {
                let why = settling::ended_first(settle);
                let metrics = [Metric::Time, Metric::SettleTime].into_iter().chain(Sign::ALL.map(Sign::metric));
                metrics.for_each(|metric| set(readings, metric, Reading::Missing(why.clone())));
            }
        }
        of_roles
    }
}

/// Why nothing is known of a function of which a thread or process may have made calls that it never reported: neither how
/// many there were, nor when the last one ended.
fn unreported() -> Why {
    let why = format!(
        "a process or thread that called the function {DETAIL} times or more was ended and may have made calls since it \
         last reported any: let it exit by itself (in Node also by `process.exit()`)"
    );
    Why::Failed(why.into())
}

/// What is known of a phase's boundaries themselves, whatever happened inside.
const fn is_of_boundaries(key: MetricKey) -> bool {
    matches!(key.metric, Metric::Lag | Metric::TimeLag | Metric::Suspended)
}

/// Adds what the program's lines report of a phase, and the replicas that started with it. A metric that the phase's
/// `read` names comes from the program or is missing, unless `replicas_report` it instead.
fn own_account(tracked: &PhaseState, started: &[Ran], replicas_report: bool, readings: &mut Readings) {
    if !started.is_empty() {
        replicas::whole(readings, started, tracked.ended.filter(|_| !tracked.ends_with_program()));
    }
    if !replicas_report {
        readings.extend(tracked.reported().into_iter().map(|(key, reading)| (MetricKeyText(key), reading)));
    }
}

/// A phase with only those metrics that its worker measured itself.
fn reported(spec: &PhaseSpec, observed: Observed, tracked: &PhaseState) -> Observed {
    let Some(report) = &tracked.report else { return observed };
    let (mut histograms, mut errors, mut disk_full) =
        (report.histograms.clone(), report.error_texts.clone(), report.disk_full);
    // Each is distinguished by its name.
    if let Some(background) = &report.background {
        let named = |name: &str| format!("{BACKGROUND} {name}");
        let theirs = background.histograms.iter();
        histograms.extend(theirs.map(|h| HistogramRecord { operation: named(&h.operation), ..h.clone() }));
        errors.extend(background.error_texts.iter().map(|(text, count)| (format!("{BACKGROUND_ERROR}{text}"), *count)));
        disk_full += background.disk_full;
    }
    let mut readings = observed.phase.readings;
    readings.extend(workers::of_background(spec, report));
    let phase = PhaseRecord {
        readings,
        histograms,
        groups: report.groups.clone(),
        throughput: report.throughput.clone(),
        answer: report.answer.clone(),
        errors,
        ..observed.phase
    };
    Observed { phase, disk_full, ..observed }
}

/// How far a phase came. One that was to end with the program has not reached its end where prony stopped the program: its end
/// is that of the kernel's work of ending the processes.
fn reached(tracked: &PhaseState, stopped: Option<Stopped>) -> Reached {
    match (tracked.is_complete(), tracked.ends_with_subject()) {
        (false, _) => Reached::Begin,
        (true, true) if tracked.ends_with_program() && !tracked.led && stopped == Some(Stopped::Asked) => {
            Reached::Begin
        }
        (true, false) => Reached::OwnEnd,
        (true, true) => Reached::SubjectEnd,
    }
}

/// Why a phase with `at_end` has no memory after that step: it was not read, or too late to be that of the phase.
fn uncollected(suspension: Option<&Suspension>, phase: Nanos) -> Option<Why> {
    let hint = "set `weak = \"clear\"` in `at_end` to collect garbage at once";
    let why = match suspension.map(|suspension| (suspension, suspension.unread())) {
        None => format!(
            "the program was not suspended at the phase's end. prony suspends it at most {MOST_SUSPENSIONS} times in a phase, and \
             only at the first {DETAIL} calls of the function in each thread"
        ),
        Some((suspension, Some(why))) if suspension.put_off => format!("{why}; {hint}"),
        Some((_, Some(why))) => why,
        Some((suspension, None)) => {
            let late = suspension.late.filter(|late| *late > heaps::fresh(phase))?;
            format!("the next turn of the event loop came only {late} after the phase's end; {hint}")
        }
    };
    Some(Why::Failed(format!("memory was not measured after the action of `at_end`: {why}").into()))
}

/// Moves values read at the end of a phase to the statistic `before`; `end` is then missing, for the reason `why`.
fn only_before(readings: &mut Readings, why: &Why) {
    let ends: Vec<MetricKey> = readings.keys().map(|key| key.0).filter(|key| key.stat == Some(Stat::End)).collect();
    for key in ends {
        let reading = readings.insert(MetricKeyText(key), Reading::Missing(why.clone()));
        let before = MetricKey::gauge(key.metric, Stat::Before);
        reading.into_iter().for_each(|reading| drop(readings.insert(MetricKeyText(before), reading)));
    }
}

/// Why a phase has no values of counters that prony read: the phase may have been over before its begin was noticed.
fn shorter(took: Nanos, late: Nanos) -> Why {
    Why::Failed(format!("the phase took only {took}, and prony may have read its counters up to {late} late").into())
}

/// Removes all values except those for which `but` is true.
fn without(readings: &mut Readings, but: impl Fn(MetricKey) -> bool, why: &Why) {
    for (key, reading) in readings.iter_mut() {
        if reading.measured().is_some() && !but(key.0) {
            *reading = Reading::Missing(why.clone());
        }
    }
}

/// Why a phase that ended while its begin was being noticed has no time: it would be 0.
fn unordered(lag: Nanos) -> Why {
    Why::Failed(format!("the phase had ended before its begin was noticed, up to {lag} late").into())
}

/// Removes the times and amounts to which the suspension of one thread added work of others; `timed` is whether `time`
/// is wall time.
fn unclear(readings: &mut Readings, timed: bool) {
    let why = "one thread or process of the program was suspended inside the phase while others continued: this time \
        can be neither left out nor counted";
    let times = [Metric::Wall, Metric::SettleTime].into_iter().chain(Sign::ALL.map(Sign::metric));
    let times = times.chain(timed.then_some(Metric::Time));
    take_away(readings, times.chain(span::amounts()), &Why::NotSupported(why.into()));
}

/// What the program reports as its answer: rows, or a digest, or both.
fn answer(tracked: &PhaseState) -> Option<Answer> {
    let rows = tracked.lines.reading(MetricKey::amount(Metric::Rows)).and_then(Reading::measured).map(|n| *n as u64);
    let digest = match (tracked.lines.digest(), rows) {
        (Some(digest), _) => format!("reported:{digest}"),
        (None, Some(_)) => "rows:".to_owned(),
        (None, None) => return None,
    };
    Some(Answer { rows, digest, comparable: true })
}

#[cfg(test)]
pub(crate) mod tests;
