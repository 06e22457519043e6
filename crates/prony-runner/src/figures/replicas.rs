//! Metrics of replicas (further copies of the program): of each, of all together, and their part in a phase's metrics.
//! Pure functions.

use std::collections::{BTreeMap, BTreeSet};

use prony_boundaries::probe_reports::Threads;
use prony_boundaries::suspensions::Suspensions;
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::program::REPLICAS;
use prony_model::reading::{Reading, Why};
use prony_model::record::{Answer, MetricKeyText, ProcessSeries};
use prony_model::units::{Nanos, Unit};
use prony_os::sample::counters::Counters;
use prony_os::sample::{
    Ends, Snapshot, huge_pages, insert_peak, phase_readings, readings_of_roles, readings_with_ends,
};
use prony_runtime::ProbeLine;

use crate::figures::counted::{COUNTED, counted, known_end, peak_of, set_counted, without_schedule};
use crate::figures::heaps;
use crate::figures::readings::{Readings, as_one, nanos, rate_of_reported, set};
use crate::watched::Watched;
use crate::watched::replicas::{LargestPss, NEVER_BEGAN, Ran, ReplicaEnd};

/// What was observed beside the replicas.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// Every snapshot of the trial.
    pub snapshots: &'a [Snapshot],
    /// Samples of all processes.
    pub series: &'a [ProcessSeries],
    /// The largest sum of the replicas' proportional set sizes that was read at one instant beside snapshots.
    pub pss: &'a LargestPss,
}

/// Adds observations of replicas to those of the main `role`: their heaps, and aborts at a heap's limit.
pub(crate) fn take_in(watched: &mut Watched, role: &str, series: &[ProcessSeries], heap_aborts: &mut Vec<ProbeLine>) {
    let last = |process: &ProcessSeries| Some((process.pid, process.samples.last()?.at));
    let mut last_sampled: BTreeMap<u32, Nanos> = series.iter().filter_map(last).collect();
    // The ends of the processes that prony started are known.
    let program = watched
        .snapshots
        .first()
        .and_then(|first| first.processes.iter().find(|process| ["", role].contains(&process.role.as_str())));
    let replicas = watched.replicas.all.iter().filter_map(|ran| Some((ran.pid, ran.end()?.at)));
    last_sampled.extend(program.map(|process| (process.pid, watched.ended.at)).into_iter().chain(replicas));
    watched.threads.finish(watched.ended.at, heap_aborts, &last_sampled);
    leave_out(&mut watched.snapshots, role, &watched.replicas.all);
    for ran in &mut watched.replicas.all {
        let Some(at) = ran.end().map(|end| end.at) else { continue };
        ran.threads.finish(at, &ran.heap_aborts, &last_sampled);
        // If the program's own probe reported nothing, sums over the replicas would look like those of all.
        if !watched.threads.all().is_empty() {
            watched.threads.join(&ran.threads);
        }
        heap_aborts.extend(ran.heap_aborts.iter().cloned());
    }
}

/// Sets the totals of the whole tree to those of the program only: replicas are added from what the kernel counted up
/// to their very ends.
fn leave_out(snapshots: &mut [Snapshot], program: &str, all: &[Ran]) {
    for snapshot in snapshots {
        if all.iter().any(|ran| snapshot.totals.contains_key(&ran.role())) {
            // If nothing of the program itself was counted, its metrics are unknown: no zero replaces them.
            snapshot.leaves_replicas_out = true;
            match snapshot.totals.get(program).cloned() {
                Some(own) => snapshot.totals.insert(String::new(), own),
                None => snapshot.totals.remove(""),
            };
        }
    }
}

/// Adds what replicas used between two snapshots to the program's own metrics; `whole` says which of those count all
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
            *own = own.clone().and(counted(&sum, count), |own, more| own + more);
        }
    }
    without_schedule(readings);
    let why = format!("the kernel keeps a peak for each process, and {n} replicas ran in the phase; see `rss.max`");
    let peak = MetricKeyText(MetricKey::gauge(Metric::Rss, Stat::Peak));
    readings.insert(peak, Reading::not_supported(why));
}

/// Metrics of all replicas together: how far apart their ends were, and sums of what they reported. Where their phase has `ended`
/// while they went on, it does not contain all of what one of them reported after that, nor the time which that took.
pub fn whole(readings: &mut Readings, all: &[Ran], ended: Option<Nanos>) {
    set(readings, Metric::Makespan, makespan(all));
    set(readings, Metric::Skew, skew(all));
    let mut sums = reported(all);
    let last = |ran: &Ran| ran.lines.lines.last(|key| sums.contains_key(&MetricKeyText(key)));
    if let Some(late) = all.iter().find(|ran| ended.is_some_and(|ended| last(ran) > Some(ended))) {
        let why = format!(
            "`{}` reported after the phase's end, so that this may include later work (a program that writes to a pipe may have to flush \
             each line); see `{REPLICAS}`",
            late.role()
        );
        sums.values_mut().for_each(|sum| *sum = Reading::failed(why.as_str()));
    }
    readings.extend(sums);
}

/// When each replica ended by itself; or why that is not known, if one did not begin or did not end by itself.
fn ends(all: &[Ran]) -> Reading<Vec<Nanos>> {
    let mut ends = Vec::new();
    for ran in all {
        match &ran.end {
            ReplicaEnd::Ended(_) if ran.before.is_none() => {
                return Reading::failed(format!("`{}`: {NEVER_BEGAN}", ran.role()));
            }
            ReplicaEnd::Ended(end) => ends.push(end.at),
            ReplicaEnd::NotBegun(_) => return Reading::failed(format!("`{}` could not be executed", ran.role())),
            ReplicaEnd::CutOff(_) => {
                return Reading::failed(format!("`{}` had not ended when the program ended", ran.role()));
            }
        }
    }
    Reading::Measured(ends)
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
                Reading::Missing(why) => Reading::failed(format!("`{}`: {why}", ran.role())),
                reading => reading,
            };
            let sum = sums.remove(&MetricKeyText(key));
            let sum = sum.map_or(one.clone(), |sum| sum.and(one, |sum, one| sum + one));
            sums.insert(MetricKeyText(key), sum);
        }
    }
    sums
}

/// The joint answer of the replicas: the sum of their rows, and the digest that all of them have. If all have one and these
/// differ, they gave an answer which cannot be compared with another: the division of the work may differ from trial to trial,
/// and does where the number of replicas is another. If one of them has none, it is not known what they answered.
pub fn answer(all: &[Ran]) -> Option<Answer> {
    let rows = reported(all).remove(&MetricKeyText(MetricKey::amount(Metric::Rows)));
    let rows = rows.and_then(|rows| rows.measured().map(|rows| *rows as u64));
    let digests: BTreeSet<Option<&String>> = all.iter().map(|ran| ran.lines.lines.digest()).collect();
    let all_have_one = !digests.is_empty() && !digests.contains(&None);
    let (same, apart) = match digests.len() {
        1 => (digests.into_iter().next().flatten(), false),
        _ => (None, all_have_one),
    };
    let digest = match (same, rows, apart) {
        (Some(digest), ..) => format!("reported:{digest}"),
        (None, _, true) => "parts:".to_owned(),
        (None, Some(_), false) => "rows:".to_owned(),
        (None, None, false) => return None,
    };
    Some(Answer { rows, comparable: rows.is_some() || !apart, digest })
}

/// The metrics of each replica, of the roles in it, and of all replicas together.
pub(crate) fn instances(all: &[Ran], inputs: Inputs<'_>) -> BTreeMap<String, Readings> {
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
    heaps::readings(threads, heaps::Span { begin, end, suspension: None, suspended: &Suspensions::default() }, silent)
}

fn one(ran: &Ran, inputs: Inputs<'_>) -> Readings {
    let (snapshots, role) = (inputs.snapshots, ran.role());
    let until = ran.until.unwrap_or(snapshots.len() - 1);
    let peak = peak(ran, inputs);
    let ends = known_ends(std::iter::once(ran), peak.measured().is_none());
    let mut readings = readings_with_ends(&snapshots[ran.first], &snapshots[until], inputs.series, &role, &ends);
    at_the_end(ran, inputs, &mut readings);
    let spent = ran.spent(snapshots);
    set_counted(&mut readings, &COUNTED, &spent);
    let wall = match &ran.end {
        ReplicaEnd::Ended(_) if ran.before.is_none() => Reading::failed(NEVER_BEGAN),
        ReplicaEnd::Ended(end) => nanos(end.at.since(ran.released)),
        _ => Reading::failed("the replica had not ended when the program ended"),
    };
    set(&mut readings, Metric::Wall, wall.clone());
    set(&mut readings, Metric::Time, wall);
    insert_peak(&mut readings, peak);
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
        *reading = last.get(key).cloned().unwrap_or_else(|| Reading::failed(why));
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
            "the replica was killed before it reported anything; its memory is read when a line matches `read`"
        }
        (ReplicaEnd::CutOff(_), true) => {
            "the replica was killed after its last report, before its memory could be read"
        }
        _ => {
            "the replica had ended before its memory could be read; memory is read when a line matches `read`, while \
             the replica is running"
        }
    }
}

/// The kernel's own peak, where the replica was one process.
fn peak(ran: &Ran, inputs: Inputs<'_>) -> Reading<f64> {
    peak_of("the replica", &ran.role(), (ran.end(), ran.before.as_ref()), (inputs.snapshots, inputs.series))
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
    let pss = inputs.pss.with(&snapshots[first..=until], &roles, begun().count());
    let pss = huge_pages(begin, end, |role| roles.contains(role)).map_or(pss, Reading::Missing);
    let spent = begun().map(|ran| ran.spent(snapshots)).reduce(|sum, one| sum.and(one, |sum, one| sum.plus(&one)));
    let spent = spent.unwrap_or(Reading::Missing(Why::NotReached));
    set_counted(&mut readings, &COUNTED, &spent);
    readings.extend(reported(all));
    as_one(&mut readings, pss, &makespan(all));
    readings
}

/// What the kernel reported of replicas at their ends; `several` says whether of more than one process.
fn known_ends<'a>(all: impl Iterator<Item = &'a Ran>, several: bool) -> Ends {
    all.filter_map(|ran| Some((ran.role(), known_end(ran.before.as_ref(), ran.end()?, several)?))).collect()
}

#[cfg(test)]
pub(crate) mod tests;
