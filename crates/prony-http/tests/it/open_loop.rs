//! Tests of the open loop against servers whose times are known: what the server itself recorded is the truth, so that a
//! busy machine makes no test fail.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use prony_http::{Asked, Bound, Latency, Loop, Remark};
use prony_model::http::{RateSteps, RequestRate};
use prony_model::outcome::Outcome;
use prony_model::spec::{Arrivals, RateStep};
use prony_model::units::{Nanos, PerSecond};
use rustix::time::{ClockId, clock_gettime};

use crate::server::{Act, OK, PATIENT, Server, assert_whole, run};

pub(crate) fn constant(rate: f64) -> Loop {
    Loop::Open(RequestRate::Constant(Arrivals { rate: PerSecond::new(rate).unwrap(), poisson: false }))
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What the server saw of each request, by its number: when it had the request, and when it was about to answer.
type Times = Arc<Mutex<Vec<(u64, u64, u64)>>>;

fn number(head: &str) -> u64 {
    head.split(['/', ' ']).nth(2).unwrap().parse().unwrap()
}

fn percentile(mut values: Vec<u64>, q: f64) -> f64 {
    values.sort_unstable();
    values[((q * values.len() as f64).ceil() as usize).max(1) - 1] as f64
}

/// A server that answers each request after a delay.
fn delayed(delay: Duration) -> (Server, Times) {
    let times = Times::default();
    let recorded = Arc::clone(&times);
    let server = Server::new(move |asking| {
        let received = now();
        thread::sleep(delay);
        recorded.lock().unwrap().push((number(&asking.head), received, now()));
        Act::text(OK)
    });
    (server, times)
}

/// Whether two times differ by less than 2 %.
fn agree(is: f64, should: f64) -> Result<(), String> {
    if (is / should - 1.0).abs() < 0.02 { Ok(()) } else { Err(format!("{is}, not {should}")) }
}

/// A busy machine delays the client behind what the server recorded, now and then; a wrong figure is wrong each time.
pub(crate) fn in_one_of_ten(mut check: impl FnMut() -> Result<(), String>) {
    let faults: Vec<String> = (0..10).map_while(|_| check().err()).collect();
    assert!(faults.len() < 10, "{faults:#?}");
}

/// The fixture of METHOD 7: a tool that corrects for omitted requests afterwards reports half of the delay and a hundred
/// times as many samples.
#[test]
fn fixed_delay_is_the_median_at_any_rate_and_samples_are_exact() {
    for (rate, poisson, requests) in [(40.0, false, 40), (500.0, false, 400), (500.0, true, 400)] {
        in_one_of_ten(|| {
            let (server, times) = delayed(Duration::from_millis(100));
            let asked = Asked {
                pace: Loop::Open(RequestRate::Constant(Arrivals { rate: PerSecond::new(rate).unwrap(), poisson })),
                bound: Bound::Requests(requests),
                connections: 200,
                timeout: PATIENT,
                ..Asked::of(&server.url("/{i}"))
            };
            let report = run(asked);
            assert_whole(&report, requests);
            assert_eq!(report.ok, requests, "{:?} {:?}", report.errors, report.causes);
            assert_eq!((report.latency.samples, report.first_byte.samples), (requests, requests));
            let times = times.lock().unwrap();
            assert_eq!(times.len() as u64, requests);
            let at_server = percentile(times.iter().map(|(_, received, answered)| answered - received).collect(), 0.5);
            let median = |latency: &Latency| *latency.p50.measured().unwrap();
            let (actual, intended) = (median(report.actual_latency.as_ref().unwrap()), median(&report.latency));
            // The histogram has three digits.
            assert!(actual >= 0.999 * at_server && intended >= 0.999 * actual, "{at_server} {actual} {intended}");
            agree(actual, at_server).and_then(|()| agree(intended, at_server))
        });
    }
}

/// A server that stalls 100 ms every second. Latency from the intended start contains the wait; that from the real start
/// does not, since requests wait for a connection.
#[test]
fn stall_is_in_the_latency_from_the_intended_start() {
    in_one_of_ten(|| {
        let (is, should) = stalled();
        // Two stalls and 40 requests due in each: the slowest of a hundred waited for most of one.
        assert!(should > 70e6, "{should}");
        agree(is, should)
    });
}

/// The 99th percentile as the load generator gives it, and computed from the schedule and the server's own times.
fn stalled() -> (f64, f64) {
    const RATE: f64 = 400.0;
    const REQUESTS: u64 = 1_200;
    let times = Times::default();
    let recorded = Arc::clone(&times);
    let begin = Mutex::new(None);
    let server = Server::new(move |asking| {
        let received = now();
        // One at a time, as a program with one thread answers: a stall delays all requests behind it.
        let mut begin = begin.lock().unwrap();
        let since = now() - *begin.get_or_insert(received);
        if since % 1_000_000_000 < 100_000_000 && since > 1_000_000_000 {
            thread::sleep(Duration::from_nanos(100_000_000 - since % 1_000_000_000));
        }
        recorded.lock().unwrap().push((number(&asking.head), received, now()));
        Act::text(OK)
    });
    let asked = Asked {
        pace: constant(RATE),
        bound: Bound::Requests(REQUESTS),
        connections: 4,
        timeout: PATIENT,
        ..Asked::of(&server.url("/{i}"))
    };
    let report = run(asked);
    assert_whole(&report, REQUESTS);
    assert_eq!(report.ok, REQUESTS, "{:?} {:?}", report.errors, report.causes);
    // The begin of the schedule is not known here; the earliest arrival, less its place in the schedule, is close to it.
    let times = times.lock().unwrap();
    let place = |number: u64| (number as f64 * 1e9 / RATE) as u64;
    let begin = times.iter().map(|(number, received, _)| received - place(*number)).min().unwrap();
    let expected: Vec<u64> = times.iter().map(|(number, _, answered)| answered - begin - place(*number)).collect();
    (*report.latency.p99.measured().unwrap(), percentile(expected, 0.99))
}

#[test]
fn rate_that_is_not_sustained_is_saturated_and_nothing_is_dropped() {
    // Two connections and 20 ms: at most 100 a second.
    let (server, times) = delayed(Duration::from_millis(20));
    let asked = Asked {
        pace: constant(1_000.0),
        bound: Bound::Duration(Nanos::from_millis(500)),
        connections: 2,
        timeout: Nanos::from_millis(400),
        ..Asked::of(&server.url("/{i}"))
    };
    let report = run(asked);
    // The schedule has 500 starts, from 0 to 499 ms.
    assert_whole(&report, 500);
    assert_eq!(report.outcome, Outcome::Saturated);
    // The first two find a connection.
    assert!((400..=498).contains(&report.waited_for_connection.unwrap()), "{:?}", report.waited_for_connection);
    assert!(report.errors.not_started > 300, "{:?}", report.errors);
    assert_eq!(report.errors.not_started + report.errors.timeout, report.errors.total(), "{:?}", report.errors);
    assert!(report.remarks.iter().any(|remark| matches!(remark, Remark::Saturated { .. })));
    // The server may still be busy with the last ones.
    assert!(report.sent.requests >= times.lock().unwrap().len() as u64);
}

/// A server that answers one request after another fell behind while there were connections, so that each request started in
/// time: all answers, most of them after the load, were divided by its duration, which gave the rate that was asked for.
#[test]
fn rate_is_that_of_the_answers_in_time_however_many_connections_are_left() {
    let one_at_a_time = Mutex::new(());
    let server = Server::new(move |_| {
        let _turn = one_at_a_time.lock().unwrap();
        thread::sleep(Duration::from_millis(20));
        Act::text(OK)
    });
    let asked = Asked {
        pace: constant(100.0),
        bound: Bound::Duration(Nanos::from_secs(1)),
        connections: 100,
        timeout: PATIENT,
        ..Asked::of(&server.url("/{i}"))
    };
    let report = run(asked);
    assert_whole(&report, 100);
    assert_eq!((report.ok, report.outcome), (100, Outcome::Saturated));
    // At most 50 of them are answered in a second.
    let rate = *report.rate.measured().unwrap();
    assert!(rate <= 50.0, "{rate}");
}

/// Answers of 500 ms had a rate 23 % lower than answers of 50 ms in a load of 2 s, though both servers answered each request. A step
/// has the answers that came within it: of a server that is slower than it, the rule of saturation may have too few requests to tell.
#[test]
fn rate_that_is_sustained_does_not_depend_on_the_latency() {
    in_one_of_ten(|| {
        let (server, _) = delayed(Duration::from_millis(200));
        let time = Nanos::from_secs(2);
        let rates = [100.0, 200.0].map(|rate| PerSecond::new(rate).unwrap());
        let steps = Loop::Open(RequestRate::Steps(RateSteps::equally_long(&rates, time, false)));
        for (pace, expected) in [(constant(100.0), 100.0), (steps, 150.0)] {
            let asked = Asked {
                pace,
                bound: Bound::Duration(time),
                connections: 200,
                timeout: PATIENT,
                ..Asked::of(&server.url("/{i}"))
            };
            let report = run(asked);
            let first = report.steps.first().map(|step| *step.rate.measured().unwrap());
            if report.outcome != Outcome::Ok
                || report.rate.measured() != Some(&expected)
                || first.is_some_and(|rate| rate > 90.0)
            {
                return Err(format!("{:?}: {:?}, {first:?}", report.outcome, report.rate));
            }
        }
        Ok(())
    });
}

/// Of N requests N - 1 gaps were counted: one request at 1/s was `46.5/s`.
#[test]
fn rate_of_a_number_of_requests_is_not_above_the_schedule() {
    let server = Server::new(|_| Act::text(OK));
    for (rate, requests, threads) in [(10.0, 1, 1), (50.0, 5, 1), (100.0, 21, 3)] {
        for poisson in [false, true] {
            let arrivals = Arrivals { rate: PerSecond::new(rate).unwrap(), poisson };
            let asked = Asked {
                pace: Loop::Open(RequestRate::Constant(arrivals)),
                bound: Bound::Requests(requests),
                timeout: PATIENT,
                threads,
                ..Asked::of(&server.url("/{i}"))
            };
            let report = run(asked);
            assert_whole(&report, requests);
            let found = *report.rate.measured().unwrap();
            assert!(
                found <= requests as f64 / report.window.as_secs_f64() && (poisson || found <= rate),
                "{found} {rate}"
            );
            assert!(poisson || report.window.as_secs_f64() > (requests as f64 / rate) * 0.999, "{}", report.window);
        }
    }
}

#[test]
fn threads_keep_the_schedule_together() {
    let (server, times) = delayed(Duration::ZERO);
    for poisson in [false, true] {
        let asked = Asked {
            pace: Loop::Open(RequestRate::Constant(Arrivals { rate: PerSecond::new(2_000.0).unwrap(), poisson })),
            bound: Bound::Requests(601),
            connections: 60,
            timeout: PATIENT,
            threads: 3,
            ..Asked::of(&server.url("/{i}"))
        };
        assert_whole(&run(asked), 601);
        let mut numbers: Vec<u64> = times.lock().unwrap().drain(..).map(|(number, ..)| number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..601).collect::<Vec<_>>());
    }
}

/// The steps that a server with a known capacity sustains, and those that it does not; what came in each by the server's own account.
#[test]
fn steps_have_figures_of_their_own() {
    in_one_of_ten(|| {
        // Four connections and 20 ms: at most 200 a second.
        let (server, times) = delayed(Duration::from_millis(20));
        let step = |rate: f64, millis| {
            let rate = PerSecond::new(rate).unwrap();
            RateStep { from: rate, to: rate, time: Nanos::from_millis(millis) }
        };
        let steps = RateSteps { steps: vec![step(100.0, 500), step(1_000.0, 300), step(20.0, 2_000)], poisson: false };
        let asked = Asked {
            bound: Bound::Duration(steps.time()),
            pace: Loop::Open(RequestRate::Steps(steps)),
            warm_up: Nanos::from_millis(100),
            connections: 4,
            timeout: PATIENT,
            threads: 2,
            ..Asked::of(&server.url("/{i}"))
        };
        let report = run(asked);
        assert_whole(&report, 50 + 300 + 40);
        assert_eq!(report.steps.iter().map(|step| step.requests).collect::<Vec<_>>(), [50, 300, 40]);
        let of_steps: u64 = report.steps.iter().map(|step| step.ok + step.errors).sum();
        assert_eq!((of_steps, report.outcome), (report.requests, Outcome::Saturated));
        let remark = report.remarks.iter().find(|remark| matches!(remark, Remark::Saturated { .. })).unwrap();
        let Remark::Saturated { steps: named, .. } = remark else { unreachable!() };
        let named: Vec<(u32, f64, f64)> = named.iter().map(|one| (one.step, one.asked, one.reached)).collect();
        let of_second = *report.steps[1].rate.measured().unwrap();
        assert!(named.contains(&(2, 1_000.0, of_second)), "{named:?}");
        assert_eq!(named.len(), report.steps.iter().filter(|step| step.saturated).count());
        assert!(
            report.steps[1].saturated
                && report.steps[1].latency.p50.measured() > report.steps[0].latency.p50.measured()
        );
        let answered: f64 =
            report.steps.iter().map(|step| step.rate.measured().unwrap() * step.time.as_secs_f64()).sum();
        // Answers to the last requests of the warm-up may come in the first step.
        assert!(answered <= 400.5, "{answered}");
        // 200 a second in 300 ms; a server that a busy machine delays answers fewer.
        let times = times.lock().unwrap();
        assert_eq!(times.len(), 10 + 390);
        let answered = *report.steps[1].rate.measured().unwrap();
        if (150.0..205.0).contains(&answered) && !report.steps[0].saturated {
            Ok(())
        } else {
            Err(format!(
                "{:?}",
                report.steps.iter().map(|step| (step.rate.clone(), step.saturated)).collect::<Vec<_>>()
            ))
        }
    });
}

#[test]
fn poisson_ramp_is_the_same_for_the_same_seed() {
    let (server, times) = delayed(Duration::ZERO);
    let rate = |rate| PerSecond::new(rate).unwrap();
    let ramp = RateSteps::ramp(rate(200.0), rate(2_000.0), Nanos::from_millis(500), true);
    let asked = Asked {
        bound: Bound::Duration(ramp.time()),
        pace: Loop::Open(RequestRate::Steps(ramp)),
        connections: 60,
        timeout: PATIENT,
        ..Asked::of(&server.url("/{i}"))
    };
    let due = |seed| {
        let report = run(Asked { seed, ..asked.clone() });
        assert_whole(&report, report.requests);
        report.steps.iter().map(|step| step.requests).collect::<Vec<u64>>()
    };
    let (first, again, other) = (due(5), due(5), due(6));
    assert_eq!((first.len(), &first), (10, &again));
    assert_ne!(first, other);
    // 550 on average, and the last tenth has several times as many as the first.
    assert!(first.iter().sum::<u64>().abs_diff(550) < 120 && first[9] > 2 * first[0], "{first:?}");
    drop(times);
}

/// Each of 300 million requests was taken from the schedule by itself, for seven minutes in which no signal was heard.
#[test]
fn rate_that_no_generator_reaches_ends_with_its_time() {
    let server = Server::new(|_| Act::text(OK));
    let steps = |rates: &[f64], time| {
        let rates: Vec<PerSecond> = rates.iter().map(|rate| PerSecond::new(*rate).unwrap()).collect();
        RequestRate::Steps(RateSteps::equally_long(&rates, time, false))
    };
    let time = Nanos::from_secs(1);
    let constant = RequestRate::Constant(Arrivals { rate: PerSecond::new(1e15).unwrap(), poisson: true });
    for (pace, requests) in [(constant, 1_000_000_000_000_000), (steps(&[10.0, 1e12], time), 500_000_000_005)] {
        let asked = Asked {
            pace: Loop::Open(pace),
            bound: Bound::Duration(time),
            connections: 2,
            threads: 2,
            timeout: Nanos::from_millis(100),
            ..Asked::of(&server.url("/{i}"))
        };
        let report = run(asked);
        assert_eq!(report.requests, requests);
        assert_whole(&report, requests);
        assert_eq!(report.outcome, Outcome::Saturated);
        let of_steps: Vec<u64> = report.steps.iter().map(|step| step.requests).collect();
        assert!(of_steps.is_empty() || of_steps == [5, 500_000_000_000], "{of_steps:?}");
    }
}
