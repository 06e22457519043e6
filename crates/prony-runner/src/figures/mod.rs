//! Computes the records of a trial's phases. Pure.

pub mod concurrent;
pub mod heaps;
mod peak;
pub mod readings;
pub mod replicas;
pub mod report;
pub mod span;
pub mod suspended;

use std::collections::BTreeMap;

use prony_analysis::conclude::{Observed, Reached};
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::reading::{Reading, Why};
use prony_model::record::{
    Answer, HistogramRecord, LatencyKind, MetricKeyText, PhaseRecord, ProcessSample, ProcessSeries,
};
use prony_model::spec::{PhaseSpec, Sign};
use prony_model::units::Nanos;
use prony_runtime::DETAIL;

use crate::boundaries::calls::Calls;
use crate::boundaries::functions;
use crate::boundaries::settling;
use crate::boundaries::suspending::{MOST_SUSPENSIONS, Suspension};
use crate::boundaries::suspensions::Suspensions;
use crate::boundaries::tracked::Tracked;
use crate::roles::replicas::{Ran, Replicated};
use crate::watched::Watched;
use readings::{Readings, not_reached, rate_of_reported, set};
use span::Span;

/// Every phase of the variant. `silent` is why no probe reported anything, where none did.
pub fn observed(specs: &[PhaseSpec], watched: &Watched, series: &[ProcessSeries], silent: &Why) -> Vec<Observed> {
    let suspended = watched.suspended_times(|_| true);
    let running = series.iter().map(|process| without_holds(process, &suspended)).collect::<Vec<_>>();
    let shared = watched.suspended_times(|suspension| concurrent::went_on(watched, suspension));
    let trial =
        Trial { specs, watched, series: &running, sampled: series, suspended: &suspended, shared: &shared, silent };
    specs.iter().enumerate().map(|(index, spec)| trial.record(spec, index)).collect()
}

/// A process by a clock that stops while the program is suspended, without its samples in that time.
fn without_holds(process: &ProcessSeries, suspended: &Suspensions) -> ProcessSeries {
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
        let asked = functions::observed(spec).is_some_and(|observe| observe.holds() && observe.at_end.is_some());
        let unread = if asked && complete { uncollected(suspension, ended.since(began)) } else { None };
        let rest = suspension.filter(|_| unread.is_none());
        let (from_the_start, to_the_end) = (first == 0, until == last);
        let span = Span { watched, suspended: self.suspended, first, until, rest, to_the_end, from_the_start };
        let took = ended.since(began).since(self.suspended.between(began, ended));
        let late = self.late(tracked, (first, until), (began, ended));
        let (mut readings, mut processes) = self.counted(&span, unread.as_ref(), (tracked, took, late));
        let mut roles = self.times(spec, index, (began, ended, late), &mut readings);
        if !watched.suspensions.is_empty() {
            let over = suspension.and_then(|suspension| suspension.until).unwrap_or(ended).max(ended);
            set(&mut readings, Metric::Suspended, Reading::Measured(nanos(self.suspended.between(began, over))));
        }
        let histograms = tracked.calls.as_ref().map(|all| called(all, spec, (ended, self.suspended), &mut readings));
        if self.shared.between(began, ended) > Nanos::ZERO {
            unclear(&mut readings, tracked.calls.is_none());
            processes.values_mut().for_each(|readings| unclear(readings, false));
        }
        let mut instances = self.heaps(tracked, (began, ended), suspension, unread.as_ref());
        if tracked.least(took) < tracked.lag {
            instances.values_mut().for_each(|heap| without(heap, |_| false, &shorter(took, tracked.lag)));
        }
        let suspended = suspended::inside(self.specs, watched, index).map(suspended::why);
        if let Some(why) = &suspended {
            let parts = processes.values_mut().chain(roles.values_mut()).chain(instances.values_mut());
            parts.chain([&mut readings]).for_each(|readings| without(readings, is_of_boundaries, why));
        }
        let started = self.started_with(index);
        own_account(tracked, started, &mut readings);
        tracked.report.iter().for_each(|report| report::inside(spec, report, &mut readings));
        rate_of_reported(&mut readings);
        instances.entry(String::new()).or_default().extend(readings);
        let pss = &watched.replicas.memory.pss;
        let sampled = replicas::Inputs { snapshots: &watched.snapshots, series: self.sampled, pss };
        instances.extend(replicas::instances(started, sampled));
        instances.extend(processes);
        for (role, readings) in roles {
            instances.entry(role).or_default().extend(readings);
        }
        let phase = PhaseRecord {
            begin: Some(began),
            end: Some(ended),
            readings: instances,
            histograms: histograms.into_iter().flatten().filter(|_| suspended.is_none()).collect(),
            answer: answer(tracked).or_else(|| replicas::answer(started)),
            ..not_reached(spec)
        };
        reported(Observed::new(phase, reached(tracked)), tracked)
    }

    /// The suspension at the end of a phase, which is the snapshot `until`; the last, where there are several.
    fn suspension_at_end(&self, index: usize, until: usize) -> Option<&Suspension> {
        let ends = |one: &&Suspension| one.phase == index && one.end == until && !one.passed;
        self.watched.suspensions.iter().rfind(ends)
    }

    /// Figures of the operating system in a phase, in all and by process. A phase that may have taken less time than
    /// its boundaries were read `late` has none, except those read while the program was suspended at the end.
    fn counted(
        &self,
        span: &Span<'_>,
        unread: Option<&Why>,
        (tracked, took, late): (&Tracked, Nanos, Nanos),
    ) -> (Readings, BTreeMap<String, Readings>) {
        let mut readings = span.readings(self.series);
        unread.iter().for_each(|why| only_before(&mut readings, why));
        let whole = |metric| span.is_of_all(metric);
        let Replicated { all, .. } = &self.watched.replicas;
        replicas::add(&mut readings, all, &self.watched.snapshots, (span.first, span.until), whole);
        let cpu = readings.get(&MetricKeyText(MetricKey::amount(Metric::Cpu)));
        let mut processes = cpu.map(|cpu| span.processes(self.series, cpu)).unwrap_or_default();
        unread.iter().for_each(|why| processes.values_mut().for_each(|found| only_before(found, why)));
        if tracked.least(took) < late {
            let at_rest = |key: MetricKey| span.rest.is_some() && matches!(key.stat, Some(Stat::End | Stat::Before));
            let all = std::iter::once(&mut readings).chain(processes.values_mut());
            all.for_each(|readings| without(readings, at_rest, &shorter(took, late)));
        }
        (readings, processes)
    }

    /// The heap figures of a phase; `unread` is why readings from the suspension at its end do not count.
    fn heaps(
        &self,
        tracked: &Tracked,
        (begin, end): (Nanos, Nanos),
        suspension: Option<&Suspension>,
        unread: Option<&Why>,
    ) -> BTreeMap<String, Readings> {
        if tracked.led {
            return BTreeMap::new();
        }
        let rest = match (suspension, unread) {
            (Some(suspension), Some(_)) => Some((suspension.stopped, suspension.stopped)),
            (suspension, _) => suspension.and_then(|suspension| Some((suspension.stopped, suspension.read?))),
        };
        let span = heaps::Span { begin, end, rest, suspended: self.suspended };
        let mut instances = heaps::readings(&self.watched.threads, span, self.silent);
        instances.values_mut().for_each(|found| unread.iter().for_each(|why| only_before(found, why)));
        instances
    }

    /// How late after its begin or its end the counters of a phase were read, at most; for calls that come often the
    /// last reading may be as much before the end.
    fn late(&self, tracked: &Tracked, snapshots: (usize, usize), at: (Nanos, Nanos)) -> Nanos {
        let apart = |snapshot: usize, at: Nanos| self.watched.snapshots[snapshot].at.as_nanos().abs_diff(at.as_nanos());
        // A worker does nothing between the phases that the runner leads.
        if tracked.led {
            return Nanos::ZERO;
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
            true => Reading::Measured(nanos(took)),
            false => Reading::Missing(unordered(tracked.lag)),
        };
        set(readings, Metric::Wall, wall.clone());
        // The worker reports the time of its phases, and both it and the runner know when they began and ended.
        if !tracked.led {
            set(readings, Metric::Time, wall);
            set(readings, Metric::Lag, Reading::Measured(nanos(late)));
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

/// What is known of a phase's boundaries themselves, whatever happened inside.
const fn is_of_boundaries(key: MetricKey) -> bool {
    matches!(key.metric, Metric::Lag | Metric::Suspended)
}

/// What the program's lines report of a phase, and the replicas that started with it.
fn own_account(tracked: &Tracked, started: &[Ran], readings: &mut Readings) {
    if !started.iter().any(|ran| tracked.is_reported_by(&ran.lines)) {
        readings.extend(tracked.reported().into_iter().map(|(key, reading)| (MetricKeyText(key), reading)));
    }
    if !started.is_empty() {
        replicas::whole(readings, &tracked.lines, started);
    }
}

/// A phase with the figures that its worker measured itself, if it did, without other figures.
fn reported(observed: Observed, tracked: &Tracked) -> Observed {
    let Some(report) = &tracked.report else { return observed };
    let phase = PhaseRecord {
        histograms: report.histograms.clone(),
        groups: report.groups.clone(),
        throughput: report.throughput.clone(),
        answer: report.answer.clone(),
        errors: report.error_texts.clone(),
        ..observed.phase
    };
    Observed { phase, disk_full: report.disk_full, ..observed }
}

/// How far a phase came.
fn reached(tracked: &Tracked) -> Reached {
    match (tracked.is_complete(), tracked.ends_with_subject()) {
        (false, _) => Reached::Begin,
        (true, false) => Reached::OwnEnd,
        (true, true) => Reached::SubjectEnd,
    }
}

/// Why a phase with `at_end` has no memory after that step: it was not read, or too late to be that of the phase.
fn uncollected(suspension: Option<&Suspension>, phase: Nanos) -> Option<Why> {
    let what = "memory was not measured after the action that `at_end` asks for";
    let hint = "`weak = \"clear\"` in `at_end` collects at once";
    let Some(suspension) = suspension else {
        return Some(Why::Failed(
            format!(
                "{what}, and the program was not suspended at the phase's end: it is suspended at most \
             {MOST_SUSPENSIONS} times in a phase, and only at the first {DETAIL} calls of a thread"
            )
            .into(),
        ));
    };
    match (suspension.unread(), suspension.late) {
        (Some(why), _) if suspension.put_off => Some(Why::Failed(format!("{what}: {why}; {hint}").into())),
        (Some(why), _) => Some(Why::Failed(format!("{what}: {why}").into())),
        (None, Some(late)) if late > heaps::fresh(phase) => Some(Why::Failed(
            format!("{what}, and the next turn of the event loop came {late} after the end; {hint}").into(),
        )),
        (None, _) => None,
    }
}

/// What was read at the end of a phase is what was there before a collection that is not the phase's.
fn only_before(readings: &mut Readings, why: &Why) {
    let ends: Vec<MetricKey> = readings.keys().map(|key| key.0).filter(|key| key.stat == Some(Stat::End)).collect();
    for key in ends {
        let reading = readings.insert(MetricKeyText(key), Reading::Missing(why.clone()));
        let before = MetricKey::gauge(key.metric, Stat::Before);
        reading.into_iter().for_each(|reading| drop(readings.insert(MetricKeyText(before), reading)));
    }
}

/// Why a phase has no figure that prony read: it may have been over before its begin was noticed.
fn shorter(took: Nanos, late: Nanos) -> Why {
    Why::Failed(
        format!("the phase took {took} by what was read, and prony may have read that up to {late} late").into(),
    )
}

/// Removes all figures except some.
fn without(readings: &mut Readings, but: impl Fn(MetricKey) -> bool, why: &Why) {
    for (key, reading) in readings.iter_mut() {
        if reading.measured().is_some() && !but(key.0) {
            *reading = Reading::Missing(why.clone());
        }
    }
}

/// Why a phase that ended while its begin was being noticed has no time: it would be 0.
fn unordered(lag: Nanos) -> Why {
    Why::Failed(format!("it had ended when its begin was noticed, which was up to {lag} late").into())
}

/// Takes away what a hold of one thread made of other threads' time; `timed` is whether `time` is the wall's.
fn unclear(readings: &mut Readings, timed: bool) {
    let why = "other threads or processes of the program continued while one was suspended inside the phase, so that \
        this time can neither be left out nor counted";
    let times = [Metric::Wall, Metric::SettleTime].into_iter().chain(Sign::ALL.map(Sign::metric));
    let times = times.chain(timed.then_some(Metric::Time));
    span::take_away(readings, times.chain(span::amounts()), &Why::NotSupported(why.into()));
}

/// The invocations of the phase's function: how many, how long in all, and how they were spread.
fn called(
    calls: &Calls,
    spec: &PhaseSpec,
    (ended, suspended): (Nanos, &Suspensions),
    readings: &mut Readings,
) -> Option<HistogramRecord> {
    let recorder = calls.recorder(&spec.name);
    set(readings, Metric::Time, calls.time(&spec.name, ended, suspended).map(nanos));
    set(readings, Metric::Operations, Reading::Measured(recorder.succeeded() as f64));
    set(readings, Metric::Errors, Reading::Measured(recorder.failed() as f64));
    recorder.metrics().into_iter().for_each(|(metric, reading)| set(readings, metric, reading));
    recorder.to_record("call", LatencyKind::Service).ok()
}

/// What the program reports as its answer: rows, or a digest, or both.
fn answer(tracked: &Tracked) -> Option<Answer> {
    let rows = tracked.lines.reading(MetricKey::amount(Metric::Rows)).and_then(Reading::measured).map(|n| *n as u64);
    let digest = match (tracked.lines.digest(), rows) {
        (Some(digest), _) => format!("reported:{digest}"),
        (None, Some(_)) => "rows:".to_owned(),
        (None, None) => return None,
    };
    Some(Answer { rows, digest, comparable: true })
}

fn nanos(time: Nanos) -> f64 {
    time.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use prony_model::program::{AtEndSpec, ObserveSpec, Trigger};
    use prony_model::spec::{Action, SettleSpec};
    use prony_model::units::{Bytes, Fraction};
    use prony_os::settle::SettleResult;
    use prony_runtime::ProbeLine;

    use super::*;
    use crate::boundaries::functions::Part;
    use crate::boundaries::marks::Mark;
    use crate::boundaries::settling::Settled;
    use crate::boundaries::threads::tests::line as line_of;
    use crate::boundaries::tracked::Happened;
    use crate::boundaries::tracker::Tracker;
    use crate::figures::span::tests::{ms, snapshot, suspension, watched};

    fn spec(name: &str) -> PhaseSpec {
        let mark = || Some(Trigger::Mark(name.into()));
        let observe = ObserveSpec { begin: mark(), end: mark(), read: None, stop: false, at_end: None };
        PhaseSpec { name: name.into(), timed: true, action: Action::Observe(observe), limit: None }
    }

    /// One thread was suspended from 200 to 1,200 ms: inside the first phase and before the second. `other` is what another
    /// process used meanwhile.
    fn records(other: u64) -> Vec<PhaseRecord> {
        let specs = [spec("around"), spec("after")];
        let both = &[7, 8];
        let mut snapshots =
            vec![snapshot(0, 0, both), snapshot(100, 10, both), snapshot(200, 20, both), snapshot(1_200, 22, both)];
        snapshots.extend([snapshot(1_300, 30, both), snapshot(1_400, 40, both), snapshot(1_500, 0, &[])]);
        snapshots[3].processes[1].sample.on_cpu = Some(ms(20 + other));
        let mut watched = watched(snapshots, vec![suspension(7, 0, (2, 3), (200, 1_200))]);
        watched.tracker = Tracker::new(&specs);
        for (text, at) in [("around begin", 100), ("around end", 1_300), ("after begin", 1_300), ("after end", 1_400)] {
            watched.tracker.happened(Happened::Mark(&Mark::parse(text).unwrap()), ms(at), Nanos::ZERO);
        }
        (watched.begin, watched.end) = (vec![Some(1), Some(4)], vec![Some(4), Some(5)]);
        super::observed(&specs, &watched, &[], &Why::NotApplicable).into_iter().map(|one| one.phase).collect()
    }

    /// A phase that began at 100 ms and whose watch began 5 ms later; it ended at 900 ms, or never.
    fn settle_record(result: Option<Reading<Nanos>>) -> Observed {
        let mut spec = spec("settle");
        let Action::Observe(observe) = &mut spec.action else { unreachable!() };
        observe.end = Some(Trigger::Settle(SettleSpec {
            quiet: ms(500),
            within: ms(800),
            cpu: Fraction::default(),
            bytes: Bytes::default(),
            ..SettleSpec::default()
        }));
        let mut watched = watched(
            vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(900, 50, &[7]), snapshot(1_000, 0, &[])],
            vec![],
        );
        watched.tracker = Tracker::new(std::slice::from_ref(&spec));
        watched.tracker.happened(Happened::Mark(&Mark::parse("settle begin").unwrap()), ms(100), Nanos::ZERO);
        (watched.begin, watched.end) = (vec![Some(1)], vec![None]);
        if let Some(time) = result {
            watched.tracker.ended(0, ms(900));
            watched.end = vec![Some(2)];
            let (cpu, written) = (Reading::Measured(ms(40)), Reading::Measured(Bytes::default()));
            let (watched_for, step) = (ms(800), ms(25));
            let signs = BTreeMap::from([(Sign::Dirty, Reading::Measured(ms(600)))]);
            let roles = BTreeMap::from(["a", "b"].map(|role| (role.to_owned(), time.clone())));
            let blind = vec![];
            let result =
                SettleResult { settled: true, time, signs, roles, watched: watched_for, step, cpu, written, blind };
            watched.settled.insert(0, Settled { began: ms(105), result, paused: Suspensions::default() });
        }
        super::observed(&[spec], &watched, &[], &Why::NotApplicable).remove(0)
    }

    #[test]
    fn the_quiet_is_in_no_settle_time() {
        let of = |one: &Observed, metric: Metric| one.phase.reading(MetricKey::amount(metric)).cloned().unwrap();
        let settled = settle_record(Some(Reading::Measured(ms(300))));
        let figures = [Metric::SettleTime, Metric::Time, Metric::SettleDirty, Metric::Wall, Metric::Cpu];
        let figures = figures.map(|metric| of(&settled, metric));
        assert_eq!(figures, [305e6, 305e6, 605e6, 800e6, 40e6].map(Reading::Measured));
        let role = &settled.phase.readings["b"][&MetricKeyText(MetricKey::amount(Metric::SettleCpu))];
        assert_eq!((role, settled.phase.last_sign()), (&Reading::Measured(305e6), Some(Sign::Dirty)));
        let anon = settled.phase.reading(MetricKey::gauge(Metric::Anon, Stat::End));
        assert!(anon.is_some_and(|r| r.measured().is_some()));
        let cap = Reading::Missing(Why::NotSettled("within 800 ms".into()));
        let never = settle_record(Some(Reading::Missing(Why::NotSettled("within 800 ms".into()))));
        assert_eq!((of(&never, Metric::SettleTime), never.reached), (cap, Reached::OwnEnd));
        assert_eq!(of(&never, Metric::Wall), Reading::Measured(800e6));
        let ended = settle_record(None);
        assert_eq!(ended.reached, Reached::Begin);
        assert!(matches!(of(&ended, Metric::Time), Reading::Missing(Why::Failed(why)) if why.contains("ended before")));
    }

    /// The end of an invocation, which has its own time.
    fn ends(at: u64) -> ProbeLine {
        line_of(7, 0, at, r#""probe":"end","call":"p","n":1,"open":0,"ok":true,"took":5"#)
    }

    #[test]
    fn what_ended_before_its_begin_was_noticed_took_no_zero() {
        let mut line = spec("p");
        let Action::Observe(observe) = &mut line.action else { unreachable!() };
        (observe.begin, observe.end) = (Some(Trigger::Line("go".into())), Some(Trigger::Invocation("f".into())));
        let mut watched = watched(vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(120, 50, &[7])], vec![]);
        watched.tracker = Tracker::new(std::slice::from_ref(&line));
        watched.tracker.happened(Happened::Line("go"), ms(100), ms(30));
        watched.tracker.invoked(0, Part::End, &ends(90));
        (watched.begin, watched.end) = (vec![Some(1)], vec![Some(2)]);
        let record = super::observed(&[line], &watched, &[], &Why::NotApplicable).remove(0).phase;
        for metric in [Metric::Wall, Metric::Time] {
            match record.reading(MetricKey::amount(metric)) {
                Some(Reading::Missing(why)) => assert!(why.to_string().contains("up to 30"), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }

    /// A phase that its program began at 100 ms was noticed to end at 150 ms, which may have been `lag` ms earlier.
    fn ended_by_a_line(lag: u64) -> PhaseRecord {
        let spec = spec("p");
        let snapshots =
            vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(150, 50, &[7]), snapshot(500, 0, &[])];
        let mut watched = watched(snapshots, vec![]);
        watched.tracker = Tracker::new(std::slice::from_ref(&spec));
        for (text, at, lag) in [("p begin", 100, 0), ("p end", 150, lag)] {
            watched.tracker.happened(Happened::Mark(&Mark::parse(text).unwrap()), ms(at), ms(lag));
        }
        (watched.begin, watched.end) = (vec![Some(1)], vec![Some(2)]);
        super::observed(&[spec], &watched, &[], &Why::NotApplicable).remove(0).phase
    }

    /// It was measured wherever it seemed longer than the lag: of a phase of 1 ms whose end was read 49 ms late as 50.
    #[test]
    fn phase_that_may_have_been_shorter_than_its_lag_has_no_time() {
        let of = |lag: u64, metric| ended_by_a_line(lag).reading(MetricKey::amount(metric)).cloned().unwrap();
        for metric in [Metric::Wall, Metric::Time, Metric::Cpu] {
            assert!(of(25, metric).measured().is_some(), "{metric:?}");
            assert!(matches!(of(26, metric), Reading::Missing(why) if why.to_string().contains("late")), "{metric:?}");
        }
    }

    /// A line that was read at 110 ms and may be 30 ms older began a phase; what ended it had no part in that.
    fn begun_by_a_line(end: u64) -> PhaseRecord {
        let mut line = spec("p");
        let Action::Observe(observe) = &mut line.action else { unreachable!() };
        (observe.begin, observe.end) = (Some(Trigger::Line("go".into())), Some(Trigger::Invocation("f".into())));
        observe.read = Some(r"(?<operations>\d+)".into());
        let snapshots =
            vec![snapshot(0, 0, &[7]), snapshot(111, 10, &[7]), snapshot(end, 50, &[7]), snapshot(500, 0, &[])];
        let mut watched = watched(snapshots, vec![]);
        watched.tracker = Tracker::new(std::slice::from_ref(&line));
        watched.tracker.happened(Happened::Line("go 5"), ms(110), ms(30));
        watched.tracker.invoked(0, Part::End, &ends(end));
        (watched.begin, watched.end) = (vec![Some(1)], vec![Some(2)]);
        super::observed(&[line], &watched, &[], &Why::NotApplicable).remove(0).phase
    }

    #[test]
    fn phase_shorter_than_its_lag_has_only_reported_figures() {
        let of = |record: &PhaseRecord, metric| record.reading(MetricKey::amount(metric)).cloned().unwrap();
        let long = begun_by_a_line(142);
        assert_eq!(of(&long, Metric::Wall), Reading::Measured(32e6));
        assert_eq!(
            (of(&long, Metric::Cpu), of(&long, Metric::Lag)),
            (Reading::Measured(40e6), Reading::Measured(31e6))
        );
        let short = begun_by_a_line(139);
        let measured = |(key, reading): (&MetricKeyText, &Reading<f64>)| reading.measured().map(|_| key.0.to_string());
        let left: Vec<String> = short.readings[""].iter().filter_map(measured).collect();
        assert_eq!(left, ["operations", "lag"], "its own account, and how late it was read");
        for metric in [Metric::Wall, Metric::Time, Metric::Cpu] {
            assert!(matches!(of(&short, metric), Reading::Missing(why) if why.to_string().contains("late")));
        }
    }

    #[test]
    fn counters_that_were_read_later_than_the_phase_is_long_are_missing_and_its_exact_time_stands() {
        let spec = spec("p");
        let mut watched = watched(
            vec![snapshot(0, 0, &[7]), snapshot(130, 10, &[7]), snapshot(140, 50, &[7]), snapshot(500, 0, &[])],
            vec![],
        );
        watched.tracker = Tracker::new(std::slice::from_ref(&spec));
        for (text, at) in [("p begin", 100), ("p end", 120)] {
            watched.tracker.happened(Happened::Mark(&Mark::parse(text).unwrap()), ms(at), Nanos::ZERO);
        }
        (watched.begin, watched.end) = (vec![Some(1)], vec![Some(2)]);
        let record = super::observed(&[spec], &watched, &[], &Why::NotApplicable).remove(0).phase;
        let of = |metric| record.reading(MetricKey::amount(metric)).cloned().unwrap();
        assert_eq!([of(Metric::Wall), of(Metric::Lag)], [20e6, 30e6].map(Reading::Measured));
        assert!(matches!(of(Metric::Cpu), Reading::Missing(Why::Failed(why)) if why.contains("took 20")));
    }

    fn amounts(record: &PhaseRecord) -> BTreeMap<&'static str, Option<f64>> {
        let metrics = [Metric::Wall, Metric::Time, Metric::Cpu, Metric::Written, Metric::Suspended];
        let of = |metric: Metric| record.reading(MetricKey::amount(metric)).and_then(|found| found.measured().copied());
        metrics.into_iter().map(|metric| (metric.name(), of(metric))).collect()
    }

    #[test]
    fn digest_without_rows_reports_no_row_count() {
        let reported = |line: &str| {
            let mut spec = spec("x");
            let Action::Observe(observe) = &mut spec.action else { unreachable!() };
            *observe =
                ObserveSpec { read: Some(r"(?<rows>\d) rows|digest (?<digest>\w+)".into()), ..ObserveSpec::WHOLE };
            let mut tracker = Tracker::new(&[spec]);
            tracker.start(ms(0));
            line.split(',').for_each(|line| drop(tracker.happened(Happened::Line(line), ms(1), Nanos::ZERO)));
            answer(&tracker.phases[0]).map(|answer| (answer.rows, answer.digest))
        };
        assert_eq!(reported("digest ab"), Some((None, "reported:ab".into())));
        assert_eq!(reported("digest ab,0 rows"), Some((Some(0), "reported:ab".into())), "none is a number");
        assert_eq!(reported("3 rows"), Some((Some(3), "rows:".into())));
        assert_eq!(reported("nothing"), None);
    }

    #[test]
    fn idle_suspension_is_excluded_from_figures() {
        let records = records(1);
        let enclosing = amounts(&records[0]);
        let expected = [("cpu", 18e6), ("held", 1e9), ("time", 200e6), ("wall", 200e6), ("written", 18.0)];
        assert_eq!(enclosing, expected.map(|(name, value)| (name, Some(value))).into());
    }

    #[test]
    fn busy_suspension_makes_figures_of_the_enclosing_phase_missing() {
        let records = records(800);
        let enclosing = amounts(&records[0]);
        let missing: Vec<&str> = enclosing.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| *name).collect();
        assert_eq!(missing, ["cpu", "time", "wall", "written"], "the second of 800 ms of work was left out");
        assert_eq!(enclosing["held"], Some(1e9), "how long it was is known");
        match records[0].reading(MetricKey::amount(Metric::Wall)) {
            Some(Reading::Missing(why)) => {
                assert!(why.to_string().contains("continued while one was suspended"), "{why}")
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(amounts(&records[1])["wall"], Some(100e6), "a phase beside it is as it was");
    }

    /// What was left of a phase that asks for a collection at its end, at 500 ms, in a process with 80 MiB beside another one.
    fn collected(suspension: Option<Suspension>) -> PhaseRecord {
        let mut spec = spec("p");
        let Action::Observe(observe) = &mut spec.action else { unreachable!() };
        let call = || Some(Trigger::Call("a.js#f".into()));
        let at_end = AtEndSpec { collect: true, ..AtEndSpec::default() };
        (observe.begin, observe.end, observe.at_end) = (call(), call(), Some(at_end));
        let both = &[7, 8];
        let mut snapshots =
            vec![snapshot(0, 0, both), snapshot(100, 10, both), snapshot(500, 20, both), snapshot(700, 22, both)];
        snapshots.push(snapshot(900, 0, &[]));
        for snapshot in &mut snapshots[..3] {
            snapshot.processes[0].sample.anon = Bytes::from_mib(80);
        }
        let mut watched = watched(snapshots, suspension.into_iter().collect());
        watched.tracker = Tracker::new(std::slice::from_ref(&spec));
        let call = |at, rest: &str| line_of(7, 0, at, &format!(r#""probe":"{rest},"call":"p","n":1"#));
        watched.tracker.phases[0].called(&call(100, r#"begin","open":0"#));
        watched.tracker.phases[0].called(&call(500, r#"end","open":0,"ok":true,"took":5"#));
        (watched.begin, watched.end) = (vec![Some(1)], vec![Some(2)]);
        let sample = |at| ProcessSample { at: ms(at), ..ProcessSample::default() };
        let series = both.map(|pid| ProcessSeries {
            pid,
            role: "program".into(),
            command: format!("c{pid}"),
            samples: vec![sample(100), sample(500)],
        });
        super::observed(&[spec], &watched, &series, &Why::NotApplicable).remove(0).phase
    }

    #[test]
    fn memory_that_was_not_read_after_its_collection_is_missing_in_all_and_by_process() {
        let get = |record: &PhaseRecord, instance: &str, stat| {
            record.readings[instance][&MetricKeyText(MetricKey::gauge(Metric::Anon, stat))].clone()
        };
        let mib = |n: u64| Reading::Measured(Bytes::from_mib(n).as_bytes() as f64);
        let (whole, own) = ("", "process.program.c7");
        let read = collected(Some(suspension(7, 0, (2, 3), (500, 700))));
        assert_eq!([whole, own].map(|of| get(&read, of, Stat::End)), [mib(0), mib(0)]);
        let unread = |until: Option<u64>, late: Option<u64>| {
            let mut suspension = suspension(7, 0, (2, 3), (500, 700));
            (suspension.rest, suspension.read, suspension.until, suspension.late) =
                (None, None, until.map(ms), late.map(ms));
            (Some(suspension), "the program ended before")
        };
        let at_a_later_turn = unread(Some(700), Some(1));
        for (suspension, why) in
            [unread(Some(700), None), unread(None, None), at_a_later_turn, (None, "it is suspended at most 100 times")]
        {
            let record = collected(suspension);
            for of in [whole, own] {
                match get(&record, of, Stat::End) {
                    Reading::Missing(found) => assert!(found.to_string().contains(why), "{found}"),
                    Reading::Measured(value) => panic!("{of:?}: {value}"),
                }
                assert_eq!(get(&record, of, Stat::Before), mib(80), "{of:?}");
            }
        }
    }

    /// A phase of each kind, as far as it came when the program ended at 900 ms; `own` is whether what ends it happened.
    fn kinds(own: bool) -> Vec<(&'static str, Reached)> {
        let (cpu, bytes) = (Fraction::default(), Bytes::default());
        let settle = SettleSpec { quiet: ms(500), within: ms(800), cpu, bytes, ..SettleSpec::default() };
        let kinds: [(&str, Option<Trigger>, Option<Trigger>); 7] = [
            ("whole", None, None),
            ("line", None, Some(Trigger::Line("done".into()))),
            ("mark", None, Some(Trigger::Mark("mark".into()))),
            ("replicas", None, Some(Trigger::Replicas)),
            ("settle", None, Some(Trigger::Settle(settle))),
            ("invocation", None, Some(Trigger::Invocation("a.js#f".into()))),
            ("call", Some(Trigger::Call("a.js#f".into())), None),
        ];
        let kind = |(name, begin, end): (&'static str, Option<Trigger>, Option<Trigger>)| {
            let mut spec = spec(name);
            let Action::Observe(observe) = &mut spec.action else { unreachable!() };
            (observe.begin, observe.end) = (begin, end);
            let mut watched =
                watched(vec![snapshot(0, 0, &[7]), snapshot(500, 10, &[7]), snapshot(900, 20, &[])], vec![]);
            watched.tracker = Tracker::new(std::slice::from_ref(&spec));
            watched.tracker.start(ms(0));
            let begins = line_of(7, 0, 100, r#""probe":"begin","call":"p","n":1,"open":1"#);
            let ends = ends(500);
            if name == "call" {
                watched.tracker.phases[0].called(&begins);
            }
            match name {
                "line" if own => drop(watched.tracker.happened(Happened::Line("done"), ms(500), Nanos::ZERO)),
                "mark" if own => {
                    let mark = Mark::parse("mark end").unwrap();
                    watched.tracker.happened(Happened::Mark(&mark), ms(500), Nanos::ZERO);
                }
                "settle" if own => drop(watched.tracker.ended(0, ms(500))),
                "invocation" if own => {
                    watched.tracker.invoked(0, Part::End, &ends);
                }
                "call" if own => {
                    watched.tracker.phases[0].called(&ends);
                }
                _ => {}
            }
            let replicas = (own && name == "replicas").then_some(ms(500));
            watched.tracker.finish(ms(900), replicas);
            let ended = watched.tracker.phases[0].is_complete();
            (watched.begin, watched.end) = (vec![Some(0)], vec![ended.then_some(1)]);
            let observed = super::observed(&[spec], &watched, &[], &Why::NotApplicable).remove(0);
            (name, observed.reached)
        };
        kinds.map(kind).into()
    }

    #[test]
    fn what_ends_a_phase_decides_whether_a_failure_takes_its_figures() {
        use Reached::{Begin, OwnEnd, SubjectEnd};
        let expected = |all: [Reached; 7]| -> Vec<(&str, Reached)> {
            ["whole", "line", "mark", "replicas", "settle", "invocation", "call"].into_iter().zip(all).collect()
        };
        assert_eq!(kinds(true), expected([SubjectEnd, OwnEnd, OwnEnd, SubjectEnd, OwnEnd, OwnEnd, SubjectEnd]));
        assert_eq!(kinds(false), expected([SubjectEnd, Begin, Begin, Begin, Begin, Begin, Begin]));
    }
}
