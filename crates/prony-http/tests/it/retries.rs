//! Tests of attempts that are repeated: each request is counted once, each attempt is counted, and latencies end with the last.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use prony_http::{Asked, AskedBody, Bound};
use prony_model::http::{HttpSpec, Part, RetrySpec, Template};
use prony_model::outcome::Outcome;
use prony_model::random::Stream;
use prony_model::units::Nanos;
use proptest::prelude::*;

use crate::faults::random_act;
use crate::host::{Runner, http, requests, trial};
use crate::server::{Act, OK, PATIENT, Server, assert_whole, run, run_until};

const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";

fn retry(statuses: &[u16], times: u32) -> RetrySpec {
    RetrySpec { statuses: statuses.to_vec(), timeout: false, connection: false, times, wait: Nanos::ZERO }
}

/// The requests that a server had, by their first line.
type Had = Arc<Mutex<BTreeMap<String, u64>>>;

/// A server that does `first` with the first attempts of each path, and then answers.
fn failing(attempts: u64, first: Act) -> (Server, Had) {
    let had = Had::default();
    let counts = Arc::clone(&had);
    let server = Server::new(move |asking| {
        let line = asking.head.lines().next().unwrap().to_owned();
        let mut counts = counts.lock().unwrap();
        let count = counts.entry(line).or_default();
        *count += 1;
        if *count <= attempts { first.clone() } else { Act::text(OK) }
    });
    (server, had)
}

#[test]
fn requests_that_succeed_at_last_are_ok_and_their_attempts_are_counted() {
    let wait = Nanos::from_millis(20);
    for rate in [None, Some(500.0)] {
        let (server, had) = failing(2, Act::text(BUSY));
        let mut asked = Asked {
            bound: Bound::Requests(60),
            connections: 20,
            threads: 2,
            timeout: PATIENT,
            retry: Some(RetrySpec { wait, ..retry(&[503], 2) }),
            ..Asked::of(&server.url("/{i}"))
        };
        if let Some(rate) = rate {
            asked.pace = crate::open_loop::constant(rate);
        }
        let report = run(asked);
        assert_whole(&report, 60);
        let retried = report.retried.unwrap();
        assert_eq!((report.ok, retried.status, retried.total()), (60, 120, 120));
        assert_eq!(report.statuses, [(200, 60), (503, 120)].into());
        assert_eq!((report.sent.requests, report.sent.distinct_paths), (60, 60));
        assert!(had.lock().unwrap().values().all(|count| *count == 3));
        assert_ne!(report.outcome, Outcome::Failed { code: None });
        // From the start of the first attempt to the end of the last there are two waits. Histograms have three digits.
        let least = report.latency.p50.measured().unwrap() * 1.001;
        assert!(least >= 2.0 * wait.as_nanos() as f64, "{least}");
    }
}

#[test]
fn request_whose_attempts_all_fail_ends_in_what_the_last_one_ended_in() {
    let (server, had) = failing(3, Act::text(BUSY));
    let asked = Asked { bound: Bound::Requests(8), timeout: PATIENT, ..Asked::of(&server.url("/{i}")) };
    let report = run(Asked { retry: Some(retry(&[503], 2)), ..asked.clone() });
    assert_whole(&report, 8);
    assert_eq!((report.errors.status, report.retried.unwrap().status), (8, 16));
    assert!(had.lock().unwrap().values().all(|count| *count == 3));
    // Nothing is repeated without being asked for, and nothing else than what was asked for.
    for retry in [None, Some(RetrySpec { timeout: true, connection: true, ..retry(&[500], 2) })] {
        let (server, had) = failing(3, Act::text(BUSY));
        let report = run(Asked { url: server.url("/{i}"), retry: retry.clone(), ..asked.clone() });
        assert_eq!((report.errors.status, report.retried.map(|retried| retried.total())), (8, retry.map(|_| 0)));
        assert!(had.lock().unwrap().values().all(|count| *count == 1));
    }
}

#[test]
fn timeouts_and_broken_connections_are_repeated() {
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello".to_vec();
    let timeout = Nanos::from_millis(200);
    for (act, timeout) in
        [(Act::Hang(Vec::new()), timeout), (Act::Close(half.clone()), PATIENT), (Act::Reset(half), PATIENT)]
    {
        let is_hang = matches!(act, Act::Hang(_));
        let (server, _) = failing(1, act);
        let spec = RetrySpec { timeout: is_hang, connection: !is_hang, ..retry(&[], 1) };
        let asked =
            Asked { bound: Bound::Requests(4), connections: 4, retry: Some(spec), ..Asked::of(&server.url("/{i}")) };
        let report = run(Asked { timeout, ..asked });
        assert_whole(&report, 4);
        let retried = report.retried.unwrap();
        // On a busy machine a second attempt may time out too.
        assert_eq!((report.ok + report.errors.timeout, retried.total()), (4, 4), "{:?}", report.errors);
        assert_eq!(if is_hang { retried.timeout } else { retried.closed + retried.reset }, 4, "{retried:?}");
    }
}

#[test]
fn body_from_a_file_is_sent_whole_again() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let content: Vec<u8> = (0..3_000_000u32).map(|at| b'a' + (at / 7 % 23) as u8).collect();
    std::fs::write(file.path(), &content).unwrap();
    let attempts = AtomicU64::new(0);
    let server =
        Server::new(move |asking| match (asking.body == content, attempts.fetch_add(1, Ordering::Relaxed) % 2) {
            (true, 0) => Act::text(BUSY),
            (true, _) => Act::text(OK),
            (false, _) => Act::text("HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n"),
        });
    let report = run(Asked {
        bound: Bound::Requests(3),
        connections: 1,
        timeout: PATIENT,
        body: Some(AskedBody::File(file.path().to_owned())),
        retry: Some(retry(&[503], 1)),
        ..Asked::of(&server.url("/"))
    });
    assert_whole(&report, 3);
    assert_eq!((report.ok, report.retried.unwrap().total()), (3, 3), "{:?}", report.statuses);
    assert!(report.sent.bytes.as_bytes() >= 6 * 3_000_000);
}

#[test]
fn requests_that_wait_for_an_attempt_end_when_the_load_is_stopped() {
    let (server, had) = failing(u64::MAX, Act::text(BUSY));
    let spec = RetrySpec { wait: Nanos::from_secs(3_600), ..retry(&[503], 9) };
    let asked = Asked { bound: Bound::Duration(PATIENT), retry: Some(spec), ..Asked::of(&server.url("/{i}")) };
    let report = run_until(Asked { connections: 4, ..asked }, || had.lock().unwrap().len() == 4);
    assert_whole(&report, 4);
    // The answer to the last may not have been read yet.
    assert_eq!((report.errors.status + report.errors.unfinished, report.retried.unwrap().total()), (4, 0));
}

#[test]
fn retries_of_a_phase_are_in_its_report() {
    let (server, _) = failing(1, Act::text(BUSY));
    let path = Template(vec![Part::Text("/".to_owned()), Part::Number]);
    let spec = HttpSpec { retry: Some(retry(&[503], 1)), ..requests(&server, path.clone(), 10) };
    let plain = requests(&server, path, 10);
    let mut hosted = Runner::new(trial(vec![("a", http(spec)), ("b", http(plain))]));
    let report = hosted.phase(0).unwrap();
    assert_eq!((report.operations, report.errors, report.error_texts.len()), (10, 0, 0));
    let counts = report.requests.unwrap();
    assert_eq!((counts.retries, counts.statuses), (Some(10), [(200, 10), (503, 10)].into()));
    assert_eq!(hosted.phase(1).unwrap().requests.unwrap().retries, None);
    hosted.stop().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_request_ends_in_exactly_one_way_after_any_attempts(
        seed: u64, requests in 1u64..80, connections in 1u32..12, times in 1u32..4, wait in 0u64..3,
        timeout: bool, connection: bool, open: bool,
    ) {
        let stream = Mutex::new(Stream::new(seed));
        let had = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&had);
        let server = Server::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            random_act(&mut stream.lock().unwrap())
        });
        let mut asked = Asked {
            bound: Bound::Requests(requests),
            connections,
            timeout: Nanos::from_millis(100),
            retry: Some(RetrySpec { timeout, connection, wait: Nanos::from_millis(wait), ..retry(&[503], times) }),
            ..Asked::of(&server.url("/{i}"))
        };
        if open {
            asked.pace = crate::open_loop::constant(2_000.0);
        }
        let report = run(asked);
        assert_whole(&report, requests);
        let retried = report.retried.unwrap();
        prop_assert!(retried.total() <= requests * u64::from(times));
        let broken = retried.refused + retried.reset + retried.closed;
        prop_assert_eq!(retried.status + retried.timeout + broken, retried.total());
        prop_assert!((timeout || retried.timeout == 0) && (connection || broken == 0));
        prop_assert_eq!(report.statuses.get(&503).copied().unwrap_or_default() >= retried.status, true);
        // The server had no more than all attempts.
        let attempts = requests - report.errors.not_started + retried.total();
        prop_assert!(had.load(Ordering::Relaxed) <= attempts, "{had:?} {attempts}");
    }
}
