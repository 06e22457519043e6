//! Computes the metrics of the language runtimes' heaps in a phase from the reports of probes. Pure functions.
//!
//! A heap is read about ten times a second where the program lets its runtime, and at the snapshots of calls. Where it was
//! not read near an instant, its value there is missing: an old one would pass for a new one.

use std::collections::BTreeMap;

use prony_boundaries::probe_reports::{MOST_SAMPLES, Thread, Threads};
use prony_boundaries::suspensions::Suspensions;
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::reading::{Reading, Why};
use prony_model::record::MetricKeyText;
use prony_model::units::{Bytes, Nanos};
use prony_runtime::{GcFigures, HeapFigures, Role};

use crate::figures::readings::{Readings, set};

/// A value read at most so long before an instant is used for that instant; or a tenth of the phase, if that is longer.
const FRESH: Nanos = Nanos::from_millis(250);

/// How far a reading may lie from an instant of a phase of this length and still be that of the instant.
pub(crate) fn fresh(phase: Nanos) -> Nanos {
    FRESH.max(Nanos::from_nanos(phase.as_nanos() / 10))
}

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

/// The longest time of a span in which no heap of a main thread was read, suspensions excluded. `None` where none was there.
pub(crate) fn longest_gap(threads: &Threads, begin: Nanos, end: Nanos, suspended: &Suspensions) -> Option<Nanos> {
    let main = || threads.all().iter().filter(|thread| thread.outermost && thread.is_there(begin, end));
    let end = end.min(main().map(|thread| thread.ended).max()?);
    let inside = |at: &Nanos| begin <= *at && *at <= end;
    let read = main().flat_map(|thread| &thread.samples).map(|sample| sample.at).filter(inside);
    let mut instants: Vec<Nanos> = read.chain([begin, end]).map(|at| suspended.running(at)).collect();
    instants.sort_unstable();
    instants.windows(2).map(|pair| pair[1].since(pair[0])).max()
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
    put(Stat::End, sum_at(threads, gauge, last, span.fresh()));
    if let Some((before, _)) = span.suspension {
        put(Stat::Before, sum_at(threads, gauge, before, span.fresh()));
    }
    let until = span.suspension.map_or(span.end, |(before, _)| before);
    let full = full(threads, span.begin, until);
    let course = match &full {
        Some(_) => Vec::new(),
        None => within(&course(threads, gauge), span.begin, until, span.fresh()),
    };
    let nothing = || match unknown(threads, gauge).or_else(|| full.clone()) {
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

/// The sum over the threads that live at an instant, each by its last reading.
fn sum_at(threads: &[&Thread], gauge: Gauge, at: Nanos, fresh: Nanos) -> Reading<f64> {
    if let Some(why) = unknown(threads, gauge) {
        return Reading::Missing(why);
    }
    let mut sum = None;
    for thread in threads.iter().filter(|thread| thread.began <= at && at <= thread.ended) {
        let earlier = thread.samples.iter().rev().filter(|sample| sample.at <= at);
        let read = earlier.filter_map(|sample| Some((sample.at, *gauge(&sample.heap).measured()?))).next();
        match read {
            Some((then, value)) if at.since(then) <= fresh => sum = Some(sum.unwrap_or(0.0) + value),
            Some((then, _)) => return Reading::Missing(stale(thread, at.since(then), at)),
            None if thread.cut.is_some_and(|cut| cut <= at) => return Reading::Missing(not_recorded()),
            None => {}
        }
    }
    let nobody = || Reading::failed(format!("{NOBODY} at the phase's end"));
    sum.map_or_else(nobody, Reading::Measured)
}

fn stale(thread: &Thread, age: Nanos, at: Nanos) -> Why {
    if thread.cut.is_some_and(|cut| cut <= at) {
        return not_recorded();
    }
    let who = match thread.role {
        Role::Main => String::new(),
        Role::Child => format!(" of process {}", thread.source.pid),
        Role::Worker => format!(" of worker thread {}", thread.source.thread),
    };
    Why::Failed(
        format!(
            "the heap{who} was last read {age} earlier: the probe reads it at turns of the event loop (Node), garbage \
             collections (Python) and timed calls, and none came since"
        )
        .into(),
    )
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
    let at = |point: &(Nanos, f64)| suspended.running(point.0).as_nanos() as f64;
    let (first, last) = (course.first()?, course.last()?);
    let length = at(last) - at(first);
    if length <= 0.0 {
        return Some(last.1);
    }
    let area: f64 = course.windows(2).map(|pair| (at(&pair[1]) - at(&pair[0])) * (pair[0].1 + pair[1].1) / 2.0).sum();
    Some(area / length)
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

fn loop_delay(threads: &[&Thread], span: Span<'_>) -> Reading<f64> {
    let reported = threads.iter().flat_map(|thread| &thread.delays);
    let inside =
        reported.filter(|(at, _)| span.begin < *at && *at <= span.end).map(|(_, delay)| delay.as_nanos() as f64);
    let none = "the runtime reported no event loop delay in the phase; Node 11.10 and later do";
    inside.max_by(f64::total_cmp).map_or_else(|| Reading::not_supported(none), Reading::Measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::tests::lines::{bye, full, heap, hello, line, threads};

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn finished(lines: &[prony_runtime::ProbeLine], at: u64) -> Threads {
        let mut threads = threads(lines);
        threads.finish(ms(at), &[], &BTreeMap::new());
        threads
    }

    fn read(threads: &Threads, begin: u64, end: u64, suspension: Option<(u64, u64)>) -> BTreeMap<String, Readings> {
        let suspended = Suspensions::new(suspension.map(|(from, to)| (ms(from), ms(to))).into_iter().collect());
        let suspension = suspension.map(|(from, to)| (ms(from), ms(to)));
        readings(
            threads,
            Span { begin: ms(begin), end: ms(end), suspension, suspended: &suspended },
            &Why::NotApplicable,
        )
    }

    fn of(all: &BTreeMap<String, Readings>, instance: &str, name: &str) -> Reading<f64> {
        all[instance][&MetricKeyText(name.parse().unwrap())].clone()
    }

    fn number(all: &BTreeMap<String, Readings>, instance: &str, name: &str) -> f64 {
        *of(all, instance, name).measured().unwrap_or_else(|| panic!("{:?}", of(all, instance, name)))
    }

    #[test]
    fn nothing_said_is_missing_for_its_reason() {
        let all = read(&Threads::default(), 0, 10, None);
        assert_eq!(of(&all, "", "heap.used.end"), Reading::Missing(Why::NotApplicable));
        assert_eq!(of(&all, "", "gc.time"), Reading::Missing(Why::NotApplicable));
    }

    #[test]
    fn a_heap_is_followed_through_the_phase() {
        let beats = (1..=9).map(|n| heap(1, 0, n * 100, "sample", n * 10));
        let lines: Vec<_> =
            [hello(1, 0, 0)].into_iter().chain(beats).chain([heap(1, 0, 950, "exit", 7), bye(1, 0, 951)]).collect();
        let threads = finished(&lines, 990);
        let all = read(&threads, 250, 650, None);
        let values = ["end", "max", "min"].map(|stat| number(&all, "", &format!("heap.used.{stat}")));
        assert_eq!(values, [60.0, 60.0, 20.0], "what held at the begin counts too");
        let mean = number(&all, "", "heap.used.mean");
        assert!((mean - (50.0 * 25.0 + 300.0 * 45.0) / 350.0).abs() < 1e-9, "{mean}");
        assert_eq!(number(&all, "", "heap.total.end"), 120.0);
        assert!(matches!(of(&all, "", "heap.used.peak"), Reading::Missing(Why::NotSupported(_))));
        assert!(
            matches!(of(&all, "", "heap.blocks.end"), Reading::Missing(Why::NotSupported(why)) if why.contains("blocks"))
        );
        let whole = read(&threads, 0, 2_000, None);
        assert_eq!((number(&whole, "", "heap.used.end"), number(&whole, "", "heap.used.min")), (7.0, 7.0));
        assert_eq!(whole.len(), 1, "one thread has no part");
    }

    #[test]
    fn an_old_figure_does_not_pass_for_a_new_one() {
        let threads = finished(&[hello(1, 0, 0), heap(1, 0, 5, "start", 9), heap(1, 0, 3_000, "sample", 90)], 4_000);
        let all = read(&threads, 1_000, 2_000, None);
        let Reading::Missing(Why::Failed(why)) = of(&all, "", "heap.used.end") else { panic!("{all:?}") };
        assert!(why.contains("1.995 s earlier") || why.contains("2.0"), "{why}");
        assert_eq!(of(&all, "", "heap.used.max"), Reading::Missing(Why::TooFew { have: 0, need: 1 }));
    }

    #[test]
    fn discarded_figures_are_not_attributed_to_the_program() {
        let mut threads = full(&[hello(1, 0, 0)]);
        [gc(1_000, 3, 1_000), gc(2_000, 4, 2_000)].iter().for_each(|line| threads.take(line));
        threads.finish(ms(3_000), &[], &BTreeMap::new());
        let all = read(&threads, 500, 2_500, None);
        for name in ["heap.used.end", "heap.used.max", "heap.used.mean", "gc.count"] {
            let reading = of(&all, "", name);
            assert!(
                matches!(&reading, Reading::Missing(Why::NotSupported(why)) if why.contains("200000 heap samples")),
                "{name}: {reading:?}"
            );
        }
        let before = read(&threads, 500, 900, None);
        assert_eq!(of(&before, "", "heap.used.max"), Reading::Missing(Why::TooFew { have: 0, need: 1 }));
    }

    #[test]
    fn the_longest_time_without_a_reading_is_known() {
        let lines = [hello(1, 0, 0), heap(1, 0, 100, "sample", 9), heap(1, 0, 1_400, "sample", 9), bye(1, 0, 1_500)];
        let threads = finished(&lines, 1_600);
        let suspended = Suspensions::new(vec![(ms(500), ms(600))]);
        assert_eq!(longest_gap(&threads, ms(50), ms(1_600), &suspended), Some(ms(1_200)), "it was suspended meanwhile");
        assert_eq!(longest_gap(&threads, ms(200), ms(300), &suspended), Some(ms(100)));
        assert_eq!(longest_gap(&Threads::default(), ms(0), ms(1), &suspended), None);
    }

    #[test]
    fn heaps_are_summed_and_listed_per_role() {
        let lines = [
            hello(1, 0, 0),
            heap(1, 0, 100, "sample", 50),
            hello(1, 3, 110),
            heap(1, 3, 120, "start", 7),
            hello(8, 0, 130),
            heap(8, 0, 140, "start", 5),
            heap(1, 0, 200, "sample", 60),
            bye(8, 0, 205),
            heap(1, 3, 210, "sample", 8),
        ];
        let all = read(&finished(&lines, 300), 90, 230, None);
        let end = |instance| number(&all, instance, "heap.used.end");
        assert_eq!((end(""), end("main"), end("worker")), (68.0, 60.0, 8.0), "the child has ended");
        assert!(matches!(of(&all, "child", "heap.used.end"), Reading::Missing(Why::Failed(_))));
        assert_eq!(number(&all, "child", "heap.used.max"), 5.0);
        assert_eq!(number(&all, "", "heap.used.max"), 72.0);
    }

    /// `node small.js && node big.js` in a shell: the first ends before the second begins.
    #[test]
    fn heap_of_a_process_that_follows_the_first_is_in_the_phase() {
        let rest = r#""probe":"hello","parent":9,"runtime":"node","version":"20.1.0","script":"b.js","unsupported":[]"#;
        let collected = line(2, 0, 650, r#""probe":"gc","points":[[640000000,1,1,1000]]"#);
        let (small, big) = (heap(1, 0, 90, "exit", 5), heap(2, 0, 690, "exit", 300));
        let after = [line(2, 0, 120, rest), heap(2, 0, 400, "sample", 200), collected, big, bye(2, 0, 700)];
        let lines: Vec<_> = [hello(1, 0, 0), small, bye(1, 0, 100)].into_iter().chain(after).collect();
        let threads = finished(&lines, 710);
        let values = |begin, end| {
            let all = read(&threads, begin, end, None);
            ["end", "max"].map(|stat| number(&all, "", &format!("heap.used.{stat}")))
        };
        assert_eq!(values(0, 710), [300.0, 300.0]);
        assert_eq!(values(300, 710), [300.0, 300.0], "a phase after the first process");
        let all = read(&threads, 300, 660, None);
        assert_eq!(number(&all, "", "gc.count"), 1.0);
        let none = read(&threads, 705, 710, None);
        assert_eq!(of(&none, "", "gc.count"), Reading::failed("no probed process was alive in the phase"));
        assert_eq!(longest_gap(&threads, ms(120), ms(710), &Suspensions::default()), Some(ms(290)));
    }

    #[test]
    fn course_is_empty_within_a_span_that_ends_before_it_begins() {
        assert_eq!(within(&[(ms(5), 1.0)], ms(9), ms(3), ms(1)), vec![]);
    }

    #[test]
    fn before_and_after_what_was_asked_for_at_the_end() {
        let suspended =
            line(1, 0, 101, r#""probe":"suspended","call":"p","n":1,"suspension":1,"heap":{"used":90,"total":99}"#);
        let collected = line(1, 0, 150, r#""probe":"collected","took":5,"heap":{"used":20,"total":98}"#);
        let lines = [hello(1, 0, 0), heap(1, 0, 50, "sample", 10), suspended, collected, heap(1, 0, 300, "read", 21)];
        let all = read(&finished(&lines, 400), 40, 100, Some((101, 300)));
        let values = ["before", "end", "max"].map(|stat| number(&all, "", &format!("heap.used.{stat}")));
        assert_eq!(values, [90.0, 21.0, 90.0]);
    }

    /// The counts beside a heap that was read at `at`.
    fn gc(at: u64, count: u64, until: u64) -> prony_runtime::ProbeLine {
        said(at, "sample", count, until)
    }

    fn said(at: u64, why: &str, count: u64, until: u64) -> prony_runtime::ProbeLine {
        let gc =
            format!(r#""gc_count":{count},"gc_time":{},"gc_major":1,"gc_until":{}"#, count * 1_000, until * 1_000_000);
        line(1, 0, at, &format!(r#""probe":"heap","why":"{why}","heap":{{"used":1,{gc}}},"loop_delay_max":{count}"#))
    }

    /// Collections that ended at these instants, numbered from `first`, reported at `at`.
    fn ends(at: u64, first: u64, ends: &[u64]) -> prony_runtime::ProbeLine {
        let point = |(n, end): (u64, &u64)| format!("[{},{n},1,{}]", end * 1_000_000, n * 1_000);
        let points: Vec<String> = (first..).zip(ends).map(point).collect();
        line(1, 0, at, &format!(r#""probe":"gc","points":[{}]"#, points.join(",")))
    }

    fn missing(all: &BTreeMap<String, Readings>) -> String {
        match of(all, "", "gc.count") {
            Reading::Missing(why) => why.to_string(),
            Reading::Measured(count) => panic!("{count}"),
        }
    }

    /// They were those reported within 250 ms of a boundary: a twentieth too many or too few, and none where the program idled.
    #[test]
    fn collections_are_counted_by_the_instant_at_which_each_ended() {
        let lines = [
            hello(1, 0, 0),
            gc(1, 0, 1),
            ends(900, 1, &[100, 209, 211, 300, 895]),
            gc(900, 5, 900),
            gc(3_000, 5, 3_000),
            ends(3_900, 6, &[3_100]),
            said(3_901, "exit", 6, 3_901),
            bye(1, 0, 3_902),
        ];
        let threads = finished(&lines, 4_000);
        let count = |begin, end| number(&read(&threads, begin, end, None), "", "gc.count");
        assert_eq!(
            [(0, 4_000), (210, 300), (210, 299), (301, 894), (896, 3_050), (2_000, 3_100)].map(|(b, e)| count(b, e)),
            [6.0, 2.0, 1.0, 0.0, 0.0, 1.0]
        );
        let all = read(&threads, 210, 990, None);
        assert_eq!((number(&all, "", "gc.time"), number(&all, "", "gc.full")), (3_000.0, 0.0));
        assert_eq!(number(&read(&threads, 0, 4_000, None), "", "loop.delay"), 6.0);
    }

    #[test]
    fn collections_without_instants_are_known_only_where_there_were_none() {
        let threads = finished(&[hello(1, 0, 0), gc(100, 2, 100), gc(200, 5, 200), gc(1_000, 5, 1_000)], 1_300);
        assert_eq!(number(&read(&threads, 100, 200, None), "", "gc.count"), 3.0);
        assert_eq!(number(&read(&threads, 250, 990, None), "", "gc.count"), 0.0, "however long nothing was reported");
        let unclear = missing(&read(&threads, 150, 990, None));
        assert!(unclear.contains("3 garbage collections within 100") && unclear.contains("did not turn"), "{unclear}");
        let late = missing(&read(&threads, 100, 1_290, None));
        assert!(late.contains("known only up to 290"), "{late}");
        let untold = finished(&[hello(1, 0, 0), heap(1, 0, 5, "start", 9)], 90);
        assert!(missing(&read(&untold, 0, 50, None)).contains("no garbage collection was reported yet"));
    }

    #[test]
    fn collections_of_a_thread_that_was_ended_are_not_known_up_to_its_end() {
        let said_so = [said(950, "exit", 2, 950), bye(1, 0, 951)];
        let ended = |last: &[prony_runtime::ProbeLine]| {
            let lines = [hello(1, 0, 0), gc(900, 2, 900)];
            read(&finished(&[&lines[..], last].concat(), 1_000), 0, 1_000, None)
        };
        assert_eq!(number(&ended(&said_so), "", "gc.count"), 2.0);
        // Killed, and terminated by its parent, which reports the end for it.
        for last in [&[][..], &[bye(1, 0, 1_000)]] {
            let why = missing(&ended(last));
            assert!(why.contains("known only up to 100") && why.contains("did not report its end"), "{why}");
        }
        let killed = finished(&[hello(1, 0, 0), gc(900, 2, 900)], 1_000);
        assert_eq!(number(&read(&killed, 0, 900, None), "", "gc.count"), 2.0, "up to its last values they are");
    }

    #[test]
    fn collections_during_a_suspension_are_excluded() {
        let lines = [hello(1, 0, 0), ends(300, 1, &[100, 125, 126, 200]), gc(300, 4, 300)];
        let threads = finished(&lines, 310);
        let suspended = Suspensions::new(vec![(ms(120), ms(130))]);
        let span = Span { begin: ms(0), end: ms(240), suspension: None, suspended: &suspended };
        let all = readings(&threads, span, &Why::NotApplicable);
        assert_eq!(
            (number(&all, "", "gc.count"), number(&all, "", "gc.time")),
            (2.0, 2_000.0),
            "one before and one after"
        );
    }
}
