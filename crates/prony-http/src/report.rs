//! The figures of a load, with their reasons where they are missing.

use std::collections::BTreeMap;

use prony_model::http::RequestRate;
use prony_model::latency::{LatencyError, Recorder};
use prony_model::metric::Metric;
use prony_model::number::count;
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};
use prony_model::record::{HistogramRecord, LatencyKind};
use prony_model::spec::RateStep;
use prony_model::units::{Bytes, Nanos, PerSecond};
use schemars::JsonSchema;
use serde::Serialize;

use crate::asked::{Bound, Loop};
use crate::checked_load::Load;
use crate::failure::Errors;
use crate::ran::Ran;
use crate::remark::{Remark, SaturatedStep};
use crate::step_tally::Part;
use crate::tally::Tally;
use crate::usage::Usage;
use crate::variety::Variety;

/// The operation in histograms.
pub(crate) const REQUEST: &str = "request";

/// A shorter load says nothing about how busy its generator is: much of it is the begin.
const SHORTEST: Nanos = Nanos::from_millis(100);

/// What a load gave. Requests of the warm-up are in [`Report::warm_up_ok`] and [`Report::warm_up_failed`] only.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// The URL.
    pub url: String,
    /// The method.
    pub method: String,
    /// Connections at most.
    pub connections: u32,
    /// The rate of an open loop by its schedule, requests a second, on average where it has steps; absent in a closed loop.
    pub asked_rate: Option<PerSecond>,
    /// The seed of random arrivals, where arrivals are random.
    pub seed: Option<u64>,
    /// `ok`, `failed` where a request failed, `saturated` where a rate was not sustained.
    pub outcome: Outcome,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// Requests of the warm-up with an expected answer.
    pub warm_up_ok: u64,
    /// Requests of the warm-up that failed.
    pub warm_up_failed: u64,
    /// The time in which these requests started, nanoseconds; bounded by requests, the time until the last answer.
    pub window: Nanos,
    /// From when the first request was due to the end of the last one, nanoseconds; the warm-up included.
    pub took: Nanos,
    /// Requests; each is in `ok` or in one count of `errors`.
    pub requests: u64,
    /// Requests with an expected answer.
    pub ok: u64,
    /// The other requests.
    pub errors: Errors,
    /// Attempts that were repeated, by what they ended in; absent where none is to be. Their requests are counted once, by their
    /// last attempts.
    pub retried: Option<Errors>,
    /// Causes of errors in words, with their counts.
    pub causes: BTreeMap<String, u64>,
    /// Whole answers by status, those to attempts that were repeated included.
    pub statuses: BTreeMap<u16, u64>,
    /// Expected answers a second. In a closed loop each counts by the share of its time that lies in the window, without
    /// `rate_leaves_out`, also to requests of the warm-up; it is missing where that is more than half of the window. In an open
    /// loop of a given time that is known to have sustained its rate, those to the requests that were due within it count; in another
    /// one those that came within it, also to requests of the warm-up.
    pub rate: Reading<f64>,
    /// Closed loop that ends at a time: the begin of the window, until nearly all connections of a thread had their first answer,
    /// nanoseconds; of the thread for which that is longest.
    pub rate_leaves_out: Nanos,
    /// Closed loop: from the start of a request. Open loop: from its intended start.
    pub latency: Latency,
    /// Open loop: from the real start of a request.
    pub actual_latency: Option<Latency>,
    /// Open loop: from the intended to the real start of a request.
    pub lag: Option<Latency>,
    /// Open loop: requests that were due while all connections were in use, and waited for one.
    pub waited_for_connection: Option<u64>,
    /// From the real start of a request to the first byte of its answer.
    pub first_byte: Latency,
    /// Time to open a connection, TLS handshake included.
    pub connect: Latency,
    /// The steps of an open loop whose rate changes.
    pub steps: Vec<StepReport>,
    /// What was sent.
    pub sent: Sent,
    /// Bytes of answers, heads included; without TLS's own.
    pub received: Bytes,
    /// What the load generator itself used.
    pub generator: Generator,
    /// What to heed.
    pub remarks: Vec<Remark>,
    /// The latencies, as HdrHistogram.
    pub histograms: Vec<HistogramRecord>,
}

/// A distribution of times, nanoseconds. Failed requests count as infinite, and a percentile needs ten requests beyond it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    /// What it is measured from, where it is a latency.
    pub kind: Option<LatencyKind>,
    /// Successful requests in it.
    pub samples: u64,
    /// Median.
    pub p50: Reading<f64>,
    /// 90th percentile.
    pub p90: Reading<f64>,
    /// 95th percentile.
    pub p95: Reading<f64>,
    /// 99th percentile.
    pub p99: Reading<f64>,
    /// 99.9th percentile.
    pub p999: Reading<f64>,
    /// The longest.
    pub max: Reading<f64>,
}

impl Latency {
    fn of(recorder: &Recorder, kind: Option<LatencyKind>) -> Self {
        let [p50, p90, p95, p99, p999, max] = recorder.metrics(Metric::LATENCY).map(|(_, reading)| reading);
        Self { kind, samples: recorder.succeeded(), p50, p90, p95, p99, p999, max }
    }
}

/// What one step of a schedule gave.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepReport {
    /// The rate at its begin by the schedule.
    pub from: PerSecond,
    /// The rate at its end by the schedule.
    pub to: PerSecond,
    /// How long it lasted, nanoseconds; less than planned where the load was ended in it.
    pub time: Nanos,
    /// Requests that were due in it.
    pub requests: u64,
    /// Those with an expected answer.
    pub ok: u64,
    /// Those that failed.
    pub errors: u64,
    /// Of those that failed, those that were never started.
    pub not_started: u64,
    /// Expected answers a second that came within its time, also to requests that were due before it.
    pub rate: Reading<f64>,
    /// Of the requests that were due in it, from the intended start.
    pub latency: Latency,
    /// Whether its rate was not sustained.
    pub saturated: bool,
}

impl StepReport {
    fn all(load: &Load, ran: &Ran) -> Vec<Self> {
        let Some(steps) = &ran.tally.steps else { return Vec::new() };
        let since = ran.begin + load.asked().warm_up;
        let one = |(number, (asked, of)): (usize, (&RateStep, &Part))| {
            let left = ran.window.since(steps.begin(number).since(since));
            let time = asked.time.min(left);
            // Of a short step too few requests are due to tell, and what one leaves to the next comes in it.
            let counted = Counted { time, ok: of.ok, answers: of.answers, is_sustained: false };
            Self {
                from: asked.from,
                to: asked.to,
                time,
                requests: of.ok + of.failed,
                ok: of.ok,
                errors: of.failed,
                not_started: of.not_started,
                rate: rate(load, ran, &counted),
                latency: Latency::of(&of.latency, Some(LatencyKind::Intended)),
                saturated: ran.is_step_saturated(number, of),
            }
        };
        load.steps().iter().zip(&steps.all).enumerate().map(one).collect()
    }
}

/// What was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sent {
    /// Bytes of requests; without TLS's own.
    pub bytes: Bytes,
    /// Requests of which bytes were sent.
    pub requests: u64,
    /// Distinct paths of these.
    pub distinct_paths: u64,
    /// Distinct bodies of these; absent where requests have no body. More than a million, where their number does not follow from
    /// what they contain, are estimated.
    pub distinct_bodies: Option<u64>,
}

/// What the load generator itself used, between the end of the warm-up and the start of the last request.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Generator {
    /// Threads.
    pub threads: u32,
    /// Processors that they may run on.
    pub processors: u64,
    /// CPU time of the threads, nanoseconds.
    pub cpu: Nanos,
    /// CPU time as a share of that of as many processors as there are threads, or of all there are; missing where all requests
    /// started within 0.1 s.
    pub share: Reading<f64>,
    /// Time in which threads were ready to run and had no processor, as a share of the time of all threads; missing as `share` is.
    pub waited: Reading<f64>,
}

impl Report {
    pub(crate) fn new(load: &Load, ran: &Ran) -> Self {
        let (asked, tally) = (load.asked(), &ran.tally);
        let arrivals = match &asked.pace {
            Loop::Open(arrivals) => Some(arrivals),
            Loop::Closed => None,
        };
        let errors = Errors::of(&tally.failures);
        let requests = tally.ok + tally.failed_requests();
        let is_saturated = ran.is_saturated();
        let whole =
            Counted { time: ran.window, ok: tally.ok, answers: tally.answers, is_sustained: ran.is_sustained(load) };
        let rate = if requests > 0 { rate(load, ran, &whole) } else { Reading::Missing(Why::NotReached) };
        let outcome = match (is_saturated, errors.total()) {
            (true, _) => Outcome::Saturated,
            (false, 0) if requests > 0 && tally.surplus == 0 => Outcome::Ok,
            // Without a request nothing was measured, which is not well.
            (false, _) => Outcome::Failed { code: None },
        };
        let kind = if arrivals.is_some() { LatencyKind::Intended } else { LatencyKind::Service };
        let open = tally.open.as_ref();
        let mut report = Self {
            url: load.url().to_owned(),
            method: load.method().to_owned(),
            connections: asked.connections,
            asked_rate: arrivals.and_then(RequestRate::mean),
            seed: arrivals.filter(|arrivals| arrivals.is_poisson()).map(|_| asked.seed),
            outcome,
            interrupted: ran.interrupted,
            warm_up_ok: tally.warm_up.ok,
            warm_up_failed: tally.warm_up.failed,
            window: ran.window,
            took: ran.took(),
            requests,
            ok: tally.ok,
            errors,
            retried: asked.retry.as_ref().map(|_| Errors::of(&tally.repeated)),
            causes: causes(tally),
            statuses: statuses(tally),
            rate,
            rate_leaves_out: tally.uncounted(),
            latency: Latency::of(&tally.latency, Some(kind)),
            actual_latency: open.map(|open| Latency::of(&open.actual, Some(LatencyKind::Actual))),
            lag: open.map(|open| Latency::of(&open.lag, None)),
            waited_for_connection: open.map(|open| open.waited),
            first_byte: Latency::of(&tally.first_byte, None),
            connect: Latency::of(&tally.connect, None),
            steps: StepReport::all(load, ran),
            sent: Sent {
                bytes: Bytes::from_bytes(tally.sent_bytes),
                requests: tally.sent_requests,
                distinct_paths: tally.paths.count(),
                distinct_bodies: tally.bodies.as_ref().map(Variety::count),
            },
            received: Bytes::from_bytes(tally.received_bytes),
            generator: generator(&ran.usage, asked.threads, ran.processors),
            remarks: Vec::new(),
            // Encoding fails only beyond counts that no load reaches.
            histograms: histograms(tally, kind).unwrap_or_default(),
        };
        report.remarks = report.find_remarks(ran);
        report
    }

    fn find_remarks(&self, ran: &Ran) -> Vec<Remark> {
        let tally = &ran.tally;
        let whole = ran.usage.wall.as_secs_f64() * f64::from(self.generator.threads);
        let making = if whole > 0.0 { tally.making.as_secs_f64() / whole } else { 0.0 };
        let (requests, stalls) = (self.sent.requests, ran.stalls);
        let fewer = |bodies: &&Variety| {
            // An estimate is below the truth in half of all cases.
            let most = bodies.count() as f64 * (1.0 + 4.0 * bodies.relative_error());
            most < requests as f64
        };
        let waited = self.waited_for_connection.filter(|_| self.outcome != Outcome::Saturated).unwrap_or_default();
        let repeated = tally.bodies.as_ref().filter(fewer).map(Variety::count);
        let saturated = self.asked_rate.filter(|_| self.outcome == Outcome::Saturated);
        let number = |reading: &Reading<f64>| reading.measured().copied().unwrap_or_default();
        [
            self.interrupted.then_some(Remark::Interrupted),
            (self.requests == 0).then_some(Remark::NothingMeasured),
            (self.warm_up_failed > 0).then_some(Remark::WarmUpFailed { failed: self.warm_up_failed }),
            saturated.map(|asked| Remark::Saturated {
                asked: asked.get(),
                reached: number(&self.rate),
                steps: self.saturated_steps(),
            }),
            Remark::waited(waited, self.requests, self.connections),
            busy(&ran.usage, &ran.usage_of_steps, (self.generator.threads, ran.processors)),
            Remark::making(making).filter(|_| self.window >= SHORTEST),
            stalls.matter(self.window).then_some(Remark::Stalled { longest: stalls.longest, total: stalls.total }),
            repeated.map(|bodies| Remark::SameBody { requests, bodies }),
            (tally.cut > 0).then_some(Remark::Cut { requests: tally.cut }),
            (tally.surplus > 0).then_some(Remark::Surplus { connections: tally.surplus }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn saturated_steps(&self) -> Vec<SaturatedStep> {
        let saturated = (1..).zip(&self.steps).filter(|(_, step)| step.saturated);
        let one = |(number, step): (u32, &StepReport)| SaturatedStep {
            step: number,
            asked: (step.from.get() + step.to.get()) / 2.0,
            reached: step.rate.measured().copied().unwrap_or_default(),
        };
        saturated.map(one).collect()
    }
}

/// What is counted of all requests, of a kind or of a step, for its rate.
pub(crate) struct Counted {
    pub(crate) time: Nanos,
    /// Expected answers to requests that were due in this time, whenever they came.
    pub(crate) ok: u64,
    /// Expected answers in this time, whatever requests they are to.
    pub(crate) answers: f64,
    /// Whether an open loop is known to have sustained its rate in this time.
    pub(crate) is_sustained: bool,
}

/// Expected answers a second. Of an open loop that falls behind, the answers after its time are those that the server did not give
/// in time. One that keeps up answers as fast as requests are due: without those answers, and without a warm-up,
/// a server that takes 500 ms for each would have a rate 23 % lower than one of 50 ms, in a load of 2 s.
pub(crate) fn rate(load: &Load, ran: &Ran, of: &Counted) -> Reading<f64> {
    if let Some(why) = counts_too_late(load.asked().connections, (ran.tally.uncounted(), ran.window), ran.interrupted) {
        return Reading::Missing(why);
    }
    if of.ok > 0 && of.answers == 0.0 && !load.is_open() {
        let why =
            "all of its answers came in the time that the rate leaves out: lengthen the load, or give it a warm-up";
        return Reading::Missing(Why::Failed(why.into()));
    }
    // A number of requests is over the time until their last answer.
    let is_timed = matches!(load.asked().bound, Bound::Duration(_));
    let answers = if load.is_open() && is_timed && of.is_sustained { of.ok as f64 } else { of.answers };
    match of.time.as_secs_f64() {
        time if time > 0.0 => Reading::Measured(answers / time),
        _ => Reading::Missing(Why::NotReached),
    }
}

/// Why there is no rate where answers count in the second half of the window at most.
fn counts_too_late(connections: u32, (uncounted, window): (Nanos, Nanos), interrupted: bool) -> Option<Why> {
    let hint = if interrupted { "" } else { ": lengthen the load, or give it a warm-up" };
    let why = || {
        let connections = count(connections, "connection");
        format!(
            "nearly all of {connections} had their first answer only after {uncounted}, not in the first half of {window}{hint}"
        )
    };
    (uncounted + uncounted > window).then(|| Why::Failed(why().into()))
}

fn statuses(tally: &Tally) -> BTreeMap<u16, u64> {
    let mut statuses = tally.repeated_statuses.clone();
    for (status, count) in (0..).zip(&tally.statuses).filter(|(_, count)| **count > 0) {
        *statuses.entry(status).or_default() += count;
    }
    statuses
}

fn causes(tally: &Tally) -> BTreeMap<String, u64> {
    let mut causes = BTreeMap::new();
    for ((_, cause), count) in &tally.causes {
        *causes.entry(cause.clone()).or_default() += count;
    }
    causes
}

/// What its threads used between the end of the warm-up and the start of the last request. Where as many requests as there are
/// connections start at once, that is less than a millisecond, all of which is CPU time: no share of the load's time.
fn generator(usage: &Usage, threads: u32, processors: usize) -> Generator {
    let is_short = usage.wall > Nanos::ZERO && usage.wall < SHORTEST;
    let why = || Why::DoesNotCount(format!("all requests started within {}", usage.wall).into());
    let of_load = |share| if is_short { Reading::Missing(why()) } else { share };
    Generator {
        threads,
        processors: processors as u64,
        cpu: usage.cpu,
        share: of_load(usage.share(threads, processors)),
        waited: of_load(usage.waited_share(threads)),
    }
}

/// Whether the load generator may have been the limit, in the whole load or in one of its steps: a mean over steps with few
/// requests and with many hides that of one.
fn busy(all: &Usage, steps: &[Usage], (threads, processors): (u32, usize)) -> Option<Remark> {
    let number = |reading: Reading<f64>| reading.measured().copied().unwrap_or_default();
    let of = |usage: &Usage, step| {
        let mean = (number(usage.share(threads, processors)), number(usage.waited_share(threads)));
        // A thread with more connections than the mean may have no processor left.
        let remark = |(used, waited): (f64, f64)| Remark::generator(used, waited, step);
        remark(mean).or_else(|| remark(usage.of_busiest())).filter(|_| usage.wall >= SHORTEST)
    };
    of(all, None).or_else(|| (1..).zip(steps).find_map(|(number, usage)| of(usage, Some(number))))
}

/// The latencies of requests, from their start or intended start, and in an open loop from their real start too.
///
/// # Errors
/// Where one cannot be encoded.
pub(crate) fn histograms(tally: &Tally, kind: LatencyKind) -> Result<Vec<HistogramRecord>, LatencyError> {
    let actual = tally.open.as_ref().map(|open| (&open.actual, LatencyKind::Actual));
    let recorders = [(&tally.latency, kind)].into_iter().chain(actual);
    recorders.map(|(recorder, kind)| recorder.to_record(REQUEST, kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of 10, 10 and 980 s, the second of which took all of the processor: 2 % of the whole load.
    #[test]
    fn step_that_a_load_generator_limits_is_found_in_a_longer_load() {
        let usage = |wall, cpu, waited| Usage {
            wall: Nanos::from_millis(wall),
            cpu: Nanos::from_millis(cpu),
            waited: Some(Nanos::from_millis(waited)),
            busiest: (Nanos::from_millis(cpu), Nanos::from_millis(waited)),
        };
        let idle = usage(10_000, 100, 0);
        let steps = [idle, usage(10_000, 9_000, 500), usage(980_000, 9_800, 0)];
        let all = usage(1_000_000, 18_900, 500);
        let found = busy(&all, &steps, (1, 2));
        assert_eq!(found, Some(Remark::GeneratorBusy { used: 0.9, waited: 0.05, step: Some(2) }));
        assert_eq!(busy(&all, &[idle, idle], (1, 2)), None);
        let busy_all = busy(&usage(10_000, 9_000, 0), &[usage(10_000, 9_000, 0)], (1, 2));
        assert!(matches!(busy_all, Some(Remark::GeneratorBusy { step: None, .. })));
        assert_eq!(busy(&usage(99, 99, 0), &[usage(99, 99, 0)], (1, 2)), None, "too short to say so");
    }

    #[test]
    fn rate_is_missing_where_first_answers_come_in_the_second_half() {
        let [late, window] = [990, 1_000].map(Nanos::from_millis);
        let why = |interrupted| counts_too_late(200, (late, window), interrupted).unwrap().to_string();
        let late = "nearly all of 200 connections had their first answer only after 990.00 ms, not in the first half of 1.000 s";
        assert_eq!(why(false), format!("{late}: lengthen the load, or give it a warm-up"));
        assert_eq!(why(true), late);
        assert_eq!(counts_too_late(200, (Nanos::from_millis(500), window), false), None);
        assert_eq!(counts_too_late(1, (Nanos::ZERO, Nanos::ZERO), false), None);
    }

    /// Ten connections that sent ten requests at once and waited half a second for the answers: `generator CPU 99.7 %`.
    #[test]
    fn share_of_the_generator_is_missing_where_all_requests_start_at_once() {
        let usage = |micros| Usage {
            wall: Nanos::from_micros(micros),
            cpu: Nanos::from_micros(290),
            waited: Some(Nanos::ZERO),
            busiest: (Nanos::from_micros(290), Nanos::ZERO),
        };
        let short = generator(&usage(300), 1, 2);
        let why = Why::DoesNotCount("all requests started within 300.00 us".into());
        assert_eq!((short.share, short.waited), (Reading::Missing(why.clone()), Reading::Missing(why)));
        assert_eq!(short.cpu, Nanos::from_micros(290));
        let long = generator(&usage(100_000), 1, 2);
        assert_eq!((long.share, long.waited), (Reading::Measured(0.0029), Reading::Measured(0.0)));
        assert_eq!(generator(&Usage::NONE, 1, 2).share, Reading::Missing(Why::NotReached));
    }
}
