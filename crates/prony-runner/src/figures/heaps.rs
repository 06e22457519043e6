//! Computes the metrics of the language runtimes' heaps in a phase from the reports of probes. Pure functions.
//!
//! A heap is read about ten times a second where the program lets its runtime, and at the snapshots of calls. Where it was
//! not read near an instant, its value there is missing: an old one would pass for a new one.

use std::collections::BTreeMap;

use prony_boundaries::probe_reports::{LoopDelay, MOST_SAMPLES, Thread, Threads};
use prony_boundaries::suspensions::Suspensions;
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::reading::{Reading, Why};
use prony_model::record::MetricKeyText;
use prony_model::units::{Bytes, Nanos};
use prony_runtime::{GcFigures, HeapFigures, Role};

use crate::figures::readings::{Readings, mean_over_time, set};

/// A value read at most so long before an instant is used for that instant; or a tenth of the phase, if that is longer.
const FRESH: Nanos = Nanos::from_millis(250);

/// How far a reading may lie from an instant of a phase of this length and still be that of the instant.
pub(crate) fn fresh(phase: Nanos) -> Nanos {
    FRESH.max(Nanos::from_nanos(phase.as_nanos() / 10))
}

/// Time between samples while Node's event loop turns.
const SAMPLED: Nanos = Nanos::from_millis(100);

/// The resolution of Node's monitor of delays of the event loop, as the probe sets it: a delay may have been so much longer.
const LOOP_DELAY_ERROR: Nanos = Nanos::from_millis(20);

/// Begin of the reason for a metric of which nobody was there.
const NOBODY: &str = "no probed process was alive";

/// Collections that end within such a time may be reported as one.
const JOINED: Nanos = Nanos::from_millis(1);

/// Reads one gauge from the values of a heap.
type Gauge = fn(&HeapFigures) -> Reading<f64>;

/// Gauges of a heap.
const GAUGES: [(Metric, Gauge); 5] = [
    (Metric::HeapUsed, |heap| bytes(&heap.used)),
    (Metric::HeapTotal, |heap| bytes(&heap.total)),
    (Metric::External, |heap| bytes(&heap.external)),
    (Metric::ArrayBuffers, |heap| bytes(&heap.array_buffers)),
    (Metric::HeapBlocks, |heap| heap.blocks.clone().map(|count| count as f64)),
];

/// Amounts of a runtime.
const AMOUNTS: [Metric; 4] = [Metric::GcTime, Metric::GcCount, Metric::GcFull, Metric::LoopDelay];

fn bytes(reading: &Reading<Bytes>) -> Reading<f64> {
    reading.clone().map(|bytes| bytes.as_bytes() as f64)
}

/// The part of a trial for which metrics are requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    /// Its begin.
    pub begin: Nanos,
    /// Its end.
    pub end: Nanos,
    /// If the program was suspended at the end: when that began, and when its memory was read after that.
    pub suspension: Option<(Nanos, Nanos)>,
    /// When the program was suspended.
    pub suspended: &'a Suspensions,
}

/// Metrics of all threads under `""`, and of each role where there are several threads. `silent` is the reason where no
/// probe reported anything.
pub(crate) fn readings(threads: &Threads, span: Span<'_>, silent: &Why) -> BTreeMap<String, Readings> {
    let all: Vec<&Thread> = threads.all().iter().collect();
    if all.is_empty() {
        return BTreeMap::from([(String::new(), missing(silent))]);
    }
    let span = Span { end: threads.end_within(span.begin, span.end, span.fresh()), ..span };
    let mut found = BTreeMap::from([(String::new(), of(&all, span))]);
    if all.len() > 1 {
        for role in Role::ALL {
            let part: Vec<&Thread> = all.iter().copied().filter(|thread| thread.role == role).collect();
            if part.iter().any(|thread| thread.is_there(span.begin, span.end)) {
                found.insert(role.name().to_owned(), of(&part, span));
            }
        }
    }
    found
}

/// The longest time of a span in which the heap of an outermost process that was there was not read, suspensions excluded. Each process is
/// looked at for itself: readings of another say nothing of its heap. `None` where none was there.
pub(crate) fn longest_gap(threads: &Threads, begin: Nanos, end: Nanos, suspended: &Suspensions) -> Option<Nanos> {
    let outermost = threads.all().iter().filter(|thread| thread.outermost && thread.is_there(begin, end));
    let gaps = outermost.filter_map(|thread| {
        let (from, to) = (begin.max(thread.began), end.min(thread.ended));
        let read = thread.samples.iter().map(|sample| sample.at).filter(|at| from <= *at && *at <= to);
        let mut instants: Vec<Nanos> = read.chain([from, to]).map(|at| suspended.running(at)).collect();
        instants.sort_unstable();
        instants.windows(2).map(|pair| pair[1].since(pair[0])).max()
    });
    gaps.max()
}

/// All metrics, missing for one reason.
fn missing(why: &Why) -> Readings {
    let gauges = GAUGES[..3].iter().map(|(metric, _)| MetricKey::gauge(*metric, Stat::End));
    let amounts = AMOUNTS.iter().map(|metric| MetricKey::amount(*metric));
    gauges.chain(amounts).map(|key| (MetricKeyText(key), Reading::Missing(why.clone()))).collect()
}

fn of(threads: &[&Thread], span: Span<'_>) -> Readings {
    let mut readings = Readings::new();
    for (metric, gauge) in GAUGES {
        gauges(threads, span, metric, gauge, &mut readings);
    }
    collections(threads, span, &mut readings);
    set(&mut readings, Metric::LoopDelay, loop_delay(threads, span));
    readings
}

impl Span<'_> {
    fn fresh(&self) -> Nanos {
        fresh(self.end.since(self.begin))
    }
}

fn gauges(threads: &[&Thread], span: Span<'_>, metric: Metric, gauge: Gauge, readings: &mut Readings) {
    let mut put = |stat, reading| drop(readings.insert(MetricKeyText(MetricKey::gauge(metric, stat)), reading));
    let last = span.suspension.map_or(span.end, |(_, after)| after);
    put(Stat::End, sum_at(threads, gauge, (span.begin, last), span.fresh()));
    if let Some((before, _)) = span.suspension {
        put(Stat::Before, sum_at(threads, gauge, (span.begin, before), span.fresh()));
    }
    let until = span.suspension.map_or(span.end, |(before, _)| before);
    let gap = full(threads, span.begin, until).or_else(|| unread_for_long(threads, gauge, Span { end: until, ..span }));
    let course = match &gap {
        Some(_) => Vec::new(),
        None => within(&course(threads, gauge), span.begin, until, span.fresh()),
    };
    let nothing = || match unknown(threads, gauge).or_else(|| gap.clone()) {
        Some(why) => Reading::Missing(why),
        None => Reading::Missing(Why::TooFew { have: 0, need: 1 }),
    };
    let of = |value: Option<f64>| value.map_or_else(nothing, Reading::Measured);
    let values = || course.iter().map(|(_, value)| *value);
    put(Stat::Max, of(values().max_by(f64::total_cmp)));
    put(Stat::Min, of(values().min_by(f64::total_cmp)));
    put(Stat::Mean, of(mean(&course, span.suspended)));
    let no_peak = "a language runtime does not record the peak of its heap; its `max` is the largest sample";
    put(Stat::Peak, Reading::not_supported(no_peak));
}

/// Why reported values between two instants are missing.
fn full(threads: &[&Thread], begin: Nanos, end: Nanos) -> Option<Why> {
    let cut = |thread: &&&Thread| thread.ended >= begin && thread.cut.is_some_and(|cut| cut <= end);
    threads.iter().find(cut).map(|_| not_recorded())
}

fn not_recorded() -> Why {
    Why::NotSupported(
        format!("a trial stores at most {MOST_SAMPLES} heap samples; later samples are counted but not stored").into(),
    )
}

/// Why no thread has a value; `None` if a thread has one, or if none was ever requested.
fn unknown(threads: &[&Thread], gauge: Gauge) -> Option<Why> {
    let mut why = None;
    for sample in threads.iter().flat_map(|thread| &thread.samples) {
        match gauge(&sample.heap) {
            Reading::Measured(_) => return None,
            Reading::Missing(reason) => why = why.or(Some(reason)),
        }
    }
    why
}

/// Whether a thread has such values, as far as it was read, and others of its runtime.
fn has(threads: &[&Thread], thread: &Thread, gauge: Gauge) -> bool {
    let of_runtime = || threads.iter().copied().filter(|other| other.runtime() == thread.runtime());
    unknown(&[thread], gauge).is_none() && unknown(&of_runtime().collect::<Vec<_>>(), gauge).is_none()
}

/// Why values between the begin and the end of a span are missing: a thread that was there was not read yet for longer than a reading
/// may be old, and sums over the others would look like those of all. A forked process of Python is read first when it collects
/// garbage or makes a timed call.
fn unread_for_long(threads: &[&Thread], gauge: Gauge, span: Span<'_>) -> Option<Why> {
    let late = |thread: &&&Thread| {
        let (from, to) = (thread.began.max(span.begin), thread.ended.min(span.end));
        let first = thread.samples.iter().find(|sample| gauge(&sample.heap).measured().is_some());
        let until = first.map_or(to, |sample| sample.at.min(to));
        until.since(from) > span.fresh() && has(threads, thread, gauge)
    };
    threads.iter().find(late).map(|thread| unread(thread))
}

/// The sum over the threads that live at an instant, each by its last reading. One of them must be after the phase's begin: what all
/// heaps were at the begin or before is no result of the phase, however short that was. Other threads may have rested since.
fn sum_at(threads: &[&Thread], gauge: Gauge, (begin, at): (Nanos, Nanos), fresh: Nanos) -> Reading<f64> {
    if let Some(why) = unknown(threads, gauge) {
        return Reading::Missing(why);
    }
    let (mut sum, mut newest): (Option<f64>, Option<(Nanos, &Thread)>) = (None, None);
    for thread in threads.iter().filter(|thread| thread.began <= at && at <= thread.ended) {
        let earlier = thread.samples.iter().rev().filter(|sample| sample.at <= at);
        let read = earlier.filter_map(|sample| Some((sample.at, *gauge(&sample.heap).measured()?))).next();
        match read {
            Some((then, value)) if at.since(then) <= fresh => {
                sum = Some(sum.unwrap_or(0.0) + value);
                newest = newest.filter(|(newest, _)| *newest >= then).or(Some((then, thread)));
            }
            Some((then, _)) => return Reading::Missing(stale(thread, (begin, then, at))),
            None if thread.cut.is_some_and(|cut| cut <= at) => return Reading::Missing(not_recorded()),
            None if has(threads, thread, gauge) => return Reading::Missing(unread(thread)),
            None => {}
        }
    }
    if let Some((then, thread)) = newest.filter(|(then, _)| *then <= begin) {
        return Reading::Missing(stale(thread, (begin, then, at)));
    }
    let nobody = || Reading::failed(format!("{NOBODY} at the phase's end"));
    sum.map_or_else(nobody, Reading::Measured)
}

/// Why the reading of an instant is none of another one in a phase.
fn stale(thread: &Thread, (begin, then, at): (Nanos, Nanos, Nanos)) -> Why {
    if thread.cut.is_some_and(|cut| cut <= at) {
        return not_recorded();
    }
    let (of, age) = (of_whom(thread), at.since(then));
    let since = if then <= begin { "and not within the phase" } else { "and none came since" };
    Why::Failed(
        format!(
            "the heap{of} was last read {age} earlier: the probe reads it at turns of the event loop (Node), garbage \
             collections (Python) and timed calls, at most every 100 ms, {since}; `at_end` of a function reads it at the end"
        )
        .into(),
    )
}

fn unread(thread: &Thread) -> Why {
    let of = of_whom(thread);
    let when = match thread.runtime() {
        "python" => ": the probe reads that of a forked Python process first at a garbage collection or a timed call",
        _ => "",
    };
    Why::Failed(format!("the heap{of} had not been read yet{when}").into())
}

/// The process or thread of a heap, if it is not the program's first process.
fn of_whom(thread: &Thread) -> String {
    match thread.role {
        Role::Main => String::new(),
        Role::Child => format!(" of process {}", thread.source.pid),
        Role::Worker => format!(" of worker thread {}", thread.source.thread),
    }
}

/// The sum over threads after each change of it, while there are any.
fn course(threads: &[&Thread], gauge: Gauge) -> Vec<(Nanos, f64)> {
    let mut changes: Vec<(Nanos, usize, Option<f64>)> = Vec::new();
    for (index, thread) in threads.iter().enumerate() {
        let read = thread.samples.iter().filter(|sample| !sample.suspended);
        changes.extend(read.filter_map(|sample| Some((sample.at, index, Some(*gauge(&sample.heap).measured()?)))));
        changes.push((Nanos::from_nanos(thread.ended.as_nanos().saturating_add(1)), index, None));
    }
    changes.sort_by_key(|change| change.0);
    let (mut values, mut alive, mut sum) = (vec![None; threads.len()], 0, 0.0);
    let step = |(at, index, value): (Nanos, usize, Option<f64>)| {
        let before = std::mem::replace(&mut values[index], value);
        sum += value.unwrap_or(0.0) - before.unwrap_or(0.0);
        alive = alive + usize::from(value.is_some()) - usize::from(before.is_some());
        (alive > 0).then_some((at, sum))
    };
    changes.into_iter().filter_map(step).collect()
}

/// The part of a course between two instants, with the value at the first.
fn within(course: &[(Nanos, f64)], begin: Nanos, end: Nanos, fresh: Nanos) -> Vec<(Nanos, f64)> {
    let first = course.partition_point(|(at, _)| *at < begin);
    let until = course.partition_point(|(at, _)| *at <= end);
    let before = course[..first].last().filter(|(at, _)| begin.since(*at) <= fresh);
    let inside = course.get(first..until).unwrap_or_default();
    before.map(|(_, value)| (begin, *value)).into_iter().chain(inside.iter().copied()).collect()
}

/// Mean over time, changing evenly between samples; the time in which the program was suspended does not count.
fn mean(course: &[(Nanos, f64)], suspended: &Suspensions) -> Option<f64> {
    let running: Vec<(Nanos, f64)> = course.iter().map(|(at, value)| (suspended.running(*at), *value)).collect();
    mean_over_time(&running)
}

/// Collections between begin and end, without those while the program was suspended: some of them were forced there.
fn collections(threads: &[&Thread], span: Span<'_>, readings: &mut Readings) {
    let sum = collected(threads, span);
    let of = |part: fn(&GcFigures) -> u64| sum.clone().map(|gc| part(&gc) as f64);
    set(readings, Metric::GcTime, of(|gc| gc.time.as_nanos()));
    set(readings, Metric::GcCount, of(|gc| gc.count));
    set(readings, Metric::GcFull, of(|gc| gc.major));
}

fn collected(threads: &[&Thread], span: Span<'_>) -> Reading<GcFigures> {
    let there: Vec<_> = threads.iter().filter(|thread| thread.is_there(span.begin, span.end)).collect();
    if there.is_empty() {
        return Reading::failed(format!("{NOBODY} in the phase"));
    }
    let parts = there.into_iter().flat_map(|thread| {
        let collections = Collections::of(thread);
        let suspended = span.suspended.outside(span.begin.max(thread.began), span.end.min(thread.ended));
        suspended
            .into_iter()
            .map(move |(from, to)| collections.at(to).and(collections.at(from), since))
            .collect::<Vec<_>>()
    });
    let none = GcFigures { count: 0, major: 0, time: Nanos::ZERO, until: span.end };
    parts.fold(Reading::Measured(none), |sum, part| {
        sum.and(part, |sum, gc| GcFigures {
            count: sum.count + gc.count,
            major: sum.major + gc.major,
            time: sum.time + gc.time,
            until: sum.until,
        })
    })
}

fn since(end: GcFigures, begin: GcFigures) -> GcFigures {
    GcFigures {
        count: end.count.saturating_sub(begin.count),
        major: end.major.saturating_sub(begin.major),
        time: end.time.since(begin.time),
        until: end.until,
    }
}

/// A thread's garbage collections: the counts at the end of each, and the totals that it reported with its heap.
struct Collections<'t> {
    thread: &'t Thread,
    /// In time order; whether the only collection between an entry and the one before it is its own.
    counts: Vec<(GcFigures, bool)>,
}

impl<'t> Collections<'t> {
    fn of(thread: &'t Thread) -> Self {
        let totals = thread.samples.iter().filter_map(|sample| Some((*sample.heap.gc.measured()?, false)));
        let mut counts: Vec<_> = thread.collections.iter().map(|gc| (*gc, true)).chain(totals).collect();
        counts.sort_by_key(|(gc, single)| (gc.until, gc.count, !single));
        Self { thread, counts }
    }

    /// The counts at an instant; a collection counts at its end.
    fn at(&self, at: Nanos) -> Reading<GcFigures> {
        let next = self.counts.partition_point(|(gc, _)| gc.until <= at);
        let none = GcFigures { count: 0, major: 0, time: Nanos::ZERO, until: self.thread.began };
        let before = next.checked_sub(1).map_or(none, |last| self.counts[last].0);
        let Some((after, single)) = self.counts.get(next) else { return self.last(before, at) };
        let between = after.count.saturating_sub(before.count);
        let apart = after.until.since(before.until);
        if between <= u64::from(*single) || apart <= JOINED || before.until == at {
            return Reading::Measured(before);
        }
        let why =
            format!("when {between} garbage collections within {apart} ran is not known: the event loop did not turn");
        Reading::failed(why)
    }

    /// The counts after the last reported ones: these, where the thread reported them at its end. One that was ended may have
    /// collected since.
    fn last(&self, last: GcFigures, at: Nanos) -> Reading<GcFigures> {
        let reported = !self.counts.is_empty();
        let late = at.since(last.until);
        if reported && (late == Nanos::ZERO || (self.thread.orderly && late <= FRESH)) {
            return Reading::Measured(last);
        }
        if self.thread.cut.is_some_and(|cut| cut <= at) {
            return Reading::Missing(not_recorded());
        }
        if reported {
            let since = if self.thread.orderly {
                "the probe inside the runtime had no opportunity to report since then"
            } else {
                "its process or thread was ended, and did not report its end"
            };
            let why = format!("garbage collections are known only up to {late} earlier: {since}");
            return Reading::failed(why);
        }
        let reason = self.thread.samples.iter().rev().find_map(|sample| match &sample.heap.gc {
            Reading::Missing(why) => Some(why.clone()),
            Reading::Measured(_) => None,
        });
        Reading::Missing(reason.unwrap_or_else(|| Why::Failed("the heap was never read".into())))
    }
}

/// The longest delay of the event loop in the phase. It is reported as the longest of a time, ten times a second: what is reported
/// of a time that reaches beyond the phase may have been outside. The value is known where that is not longer than the delays
/// inside, or not by more than the monitor's own error.
fn loop_delay(threads: &[&Thread], span: Span<'_>) -> Reading<f64> {
    if threads.iter().all(|thread| thread.delays.is_empty()) {
        let why = "the runtime reported no delay of its event loop: Node 11.10 and later do, when the loop turns";
        return Reading::not_supported(why);
    }
    let delays = || threads.iter().flat_map(|thread| &thread.delays);
    let is_inside = |delay: &LoopDelay| span.begin <= delay.since && delay.at <= span.end;
    let inside = delays().filter(|delay| is_inside(delay)).map(|delay| delay.longest).max();
    let crossing = delays().filter(|delay| delay.since < span.end && span.begin < delay.at && !is_inside(delay));
    let unreported = threads.iter().filter_map(|thread| unreported_delay(thread, span));
    let beyond = crossing.map(|delay| delay.longest).chain(unreported).max().unwrap_or_default();
    match inside {
        None => Reading::failed(
            "no report of the event loop's delay lies inside the phase: each is of the last 200 ms, or of the time that the loop took",
        ),
        Some(inside) if beyond.since(inside) > LOOP_DELAY_ERROR => Reading::failed(format!(
            "the event loop was delayed by {beyond} in a time that is only partly inside the phase: the longest delay inside is {inside} \
             or more"
        )),
        Some(inside) => Reading::Measured(inside.as_nanos() as f64),
    }
}

/// How long the event loop of a thread was delayed, at least, at the end of the phase, of which it never reported: the next report
/// was due after a tenth of a second.
fn unreported_delay(thread: &Thread, span: Span<'_>) -> Option<Nanos> {
    let end = span.end.min(thread.ended);
    let last = thread.delays.iter().rev().find(|delay| delay.since < end)?;
    Some(end.since(last.at.max(span.begin)).since(SAMPLED).since(LOOP_DELAY_ERROR))
}

#[cfg(test)]
mod tests;
