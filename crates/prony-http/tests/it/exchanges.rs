//! Tests of requests and answers that are as HTTP says, in a closed loop.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use prony_http::{Asked, Bound, Control, Destination, Error, Load, Remark};
use prony_model::http::ExpectedStatuses;
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};
use prony_model::units::Nanos;

use crate::server::{Act, OK, PATIENT, Server, assert_whole, run};

fn requests(url: String, requests: u64) -> Asked {
    Asked { bound: Bound::Requests(requests), timeout: PATIENT, ..Asked::of(&url) }
}

#[test]
fn answers_of_every_form_are_whole() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: 1\r\n\r\n";
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
    let in_bytes = Act::Send(OK.bytes().map(|byte| vec![byte]).collect());
    for (act, status, connections) in [
        (Act::text(OK), 200, 3),
        (in_bytes, 200, 3),
        (Act::text(chunked), 200, 3),
        (Act::text(hints), 201, 3),
        (Act::text("HTTP/1.1 204 No Content\r\n\r\n"), 204, 3),
        (Act::text("HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n"), 304, 3),
        // Redirects are not followed.
        (Act::text("HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n"), 302, 3),
        (Act::Close(b"HTTP/1.1 200 OK\r\n\r\nuntil the end".to_vec()), 200, 60),
        (Act::Close(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx".to_vec()), 200, 60),
        (Act::Close(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx".to_vec()), 200, 60),
    ] {
        let server = Server::new({
            let act = act.clone();
            move |_| act.clone()
        });
        let report = run(Asked { connections: 3, threads: 2, ..requests(server.url("/"), 60) });
        assert_whole(&report, 60);
        assert_eq!((report.outcome, report.ok), (Outcome::Ok, 60), "{act:?} {:?} {:?}", report.errors, report.causes);
        assert_eq!(report.statuses.into_iter().collect::<Vec<_>>(), [(status, 60)]);
        assert_eq!(report.connect.samples, connections, "{act:?}");
    }
}

/// A server that closes the connection without saying so again: half of the requests were `closed before a whole answer`.
#[test]
fn connection_ends_with_the_answer_to_a_request_that_says_so() {
    for (field, closes) in [("Connection: keep-alive, Close", true), ("Connection: keep-alive", false)] {
        let server = Server::new(move |asking| {
            assert!(asking.head.contains("\r\nConnection: keep-alive"), "{}", asking.head);
            if closes { Act::Close(OK.as_bytes().to_vec()) } else { Act::text(OK) }
        });
        let headers = vec![field.to_owned()];
        let report = run(Asked { headers, connections: 3, ..requests(server.url("/"), 60) });
        assert_whole(&report, 60);
        assert_eq!((report.ok, report.connect.samples), (60, if closes { 60 } else { 3 }), "{:?}", report.errors);
    }
}

/// The first byte of `103 Early Hints` is none of the answer, which comes 20 ms later at the earliest.
#[test]
fn time_to_first_byte_is_that_of_the_answer() {
    let hint = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
    let server = Server::new(move |_| Act::Early(hint.as_bytes().to_vec(), 20, OK.as_bytes().to_vec()));
    let report = run(Asked { connections: 8, ..requests(server.url("/"), 40) });
    assert_whole(&report, 40);
    assert_eq!(report.ok, 40, "{:?} {:?}", report.errors, report.causes);
    // The histogram has three digits.
    let first_byte = *report.first_byte.p50.measured().unwrap();
    assert!(first_byte >= 0.999 * 20e6, "{first_byte}");
}

#[test]
fn head_has_no_body() {
    let server = Server::new(|asking| {
        assert!(asking.head.starts_with("HEAD /x HTTP/1.1\r\nHost: 127.0.0.1:"), "{}", asking.head);
        Act::text("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")
    });
    let report = run(Asked { method: Some("HEAD".to_owned()), ..requests(server.url("/x"), 20) });
    assert_whole(&report, 20);
    assert_eq!((report.ok, report.sent.distinct_bodies), (20, None));
}

#[test]
fn each_request_has_its_number_once() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let server = Server::new({
        let bodies = Arc::clone(&bodies);
        move |asking| {
            let path = asking.head.split(' ').nth(1).unwrap().to_owned();
            bodies.lock().unwrap().push((path, String::from_utf8(asking.body.clone()).unwrap()));
            Act::text(OK)
        }
    });
    let body = Some(b"{\"id\":{i}}".to_vec().into());
    let asked = Asked { threads: 3, connections: 7, body, ..requests(server.url("/items/{i}"), 500) };
    let report = run(asked.clone());
    assert_whole(&report, 500);
    let received = std::mem::take(&mut *bodies.lock().unwrap());
    let expected: BTreeSet<_> = (0..500).map(|i| (format!("/items/{i}"), format!("{{\"id\":{i}}}"))).collect();
    assert_eq!((received.len(), received.into_iter().collect::<BTreeSet<_>>()), (500, expected));
    assert_eq!(
        (report.method.as_str(), report.sent.distinct_paths, report.sent.distinct_bodies),
        ("POST", 500, Some(500))
    );
    assert!(!report.remarks.iter().any(|remark| matches!(remark, Remark::SameBody { .. })));
    let report = run(Asked { body: Some(b"same".to_vec().into()), ..asked });
    assert_eq!((report.sent.distinct_paths, report.sent.distinct_bodies), (500, Some(1)));
    assert!(report.remarks.contains(&Remark::SameBody { requests: 500, bodies: 1 }), "{:?}", report.remarks);
}

#[test]
fn bodies_larger_than_a_socket_takes_are_sent_and_received_whole() {
    let answer = [b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n".to_vec(), vec![b'x'; 3_000_000]].concat();
    let server = Server::new(move |asking| {
        assert!(asking.body.len() == 4_000_000 && asking.body.iter().all(|byte| *byte == b'y'));
        Act::Send(vec![answer.clone()])
    });
    let report =
        run(Asked { body: Some(vec![b'y'; 4_000_000].into()), connections: 2, ..requests(server.url("/"), 6) });
    assert_whole(&report, 6);
    assert_eq!(report.ok, 6, "{:?} {:?}", report.errors, report.causes);
    assert!(report.received.as_bytes() > 18_000_000 && report.sent.bytes.as_bytes() > 24_000_000);
}

#[test]
fn warm_up_is_in_no_figure() {
    let server = Server::new(|_| Act::text(OK));
    let asked = Asked { warm_up: Nanos::from_millis(30), ..requests(server.url("/"), 200) };
    let report = run(asked);
    assert_whole(&report, 200);
    assert!(report.warm_up_ok > 0 && report.warm_up_failed == 0, "{}", report.warm_up_ok);
    assert_eq!(report.connect.samples, 0, "all connections were opened before");
}

#[test]
fn failed_requests_are_infinite_in_percentiles() {
    let server = Server::new(|asking| {
        let number: u64 = asking.head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        Act::text(if number.is_multiple_of(50) { "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n" } else { OK })
    });
    let report = run(requests(server.url("/{i}"), 1_000));
    assert_whole(&report, 1_000);
    assert_eq!((report.outcome, report.errors.status, report.ok), (Outcome::Failed { code: None }, 20, 980));
    assert!(report.latency.p90.measured().is_some());
    assert_eq!(report.latency.p99, Reading::Missing(Why::Infinite { failed: 20, of: 1_000 }));
    assert_eq!(report.latency.p999, Reading::Missing(Why::TooFew { have: 1_000, need: 10_000 }));
    // What is expected is no error.
    let report = run(Asked { expect: ExpectedStatuses(vec![200, 500]), ..requests(server.url("/{i}"), 1_000) });
    assert_eq!((report.outcome, report.ok), (Outcome::Ok, 1_000));
    let report = run(Asked { expect: ExpectedStatuses(vec![500]), ..requests(server.url("/{i}"), 1_000) });
    assert_eq!(report.errors.status, 980);
}

/// A server that answered nothing was well, since no request began after the warm-up.
#[test]
fn load_that_measured_nothing_is_not_well() {
    let server = Server::new(|_| Act::Hang(Vec::new()));
    let report = run(Asked {
        connections: 2,
        warm_up: Nanos::from_millis(100),
        bound: Bound::Duration(Nanos::from_millis(100)),
        timeout: Nanos::from_secs(2),
        ..Asked::of(&server.url("/"))
    });
    assert_eq!((report.requests, report.outcome), (0, Outcome::Failed { code: None }));
    assert_eq!(report.rate, Reading::Missing(Why::NotReached));
    assert!(report.remarks.contains(&Remark::NothingMeasured), "{:?}", report.remarks);
    assert!(report.remarks.contains(&Remark::WarmUpFailed { failed: 2 }), "{:?}", report.remarks);
}

/// The time in which the last requests failed was left out, so that a server that broke down had a larger rate.
#[test]
fn rate_includes_the_time_of_requests_that_fail() {
    let answered = std::sync::atomic::AtomicU64::new(0);
    let server = Server::new(move |_| match answered.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0..10 => Act::text(OK),
        _ => Act::Hang(Vec::new()),
    });
    let timeout = Nanos::from_millis(500);
    let report = run(Asked { connections: 2, timeout, ..requests(server.url("/"), 12) });
    assert_eq!((report.ok, report.errors.timeout), (10, 2), "{:?}", report.errors);
    assert!(report.window >= timeout, "{}", report.window);
    assert!(report.rate.measured().is_some_and(|rate| *rate <= 20.0), "{:?}", report.rate);
}

#[test]
fn load_that_is_stopped_keeps_its_figures() {
    let server =
        Server::new(|asking| if asking.head.starts_with("GET /hang") { Act::Hang(Vec::new()) } else { Act::text(OK) });
    for (path, unfinished) in [("/", 0), ("/hang", 4)] {
        let asked =
            Asked { connections: 4, bound: Bound::Duration(Nanos::from_secs(3_600)), ..Asked::of(&server.url(path)) };
        let load = Load::check(Asked { timeout: Nanos::from_secs(600), ..asked }).unwrap();
        let destination = Destination::find(&load).unwrap();
        let control = Control::new(1);
        let report = std::thread::scope(|scope| {
            let running = scope.spawn(|| prony_http::run(&load, destination, &control));
            // Until each connection has a request, or requests have ended.
            while control.progress().running < unfinished || (unfinished == 0 && control.progress().ok < 100) {
                std::thread::yield_now();
            }
            control.stop();
            running.join().unwrap().unwrap()
        });
        assert_whole(&report, report.requests);
        assert!(report.interrupted && report.remarks.contains(&Remark::Interrupted));
        // On a busy machine a second may not be enough for an answer.
        assert!(report.errors.unfinished >= unfinished, "{:?}", report.errors);
        assert_eq!(report.errors.total(), report.errors.unfinished);
        assert!(unfinished > 0 || report.ok >= 100);
    }
}

#[test]
fn nothing_is_sent_where_nobody_listens_or_to_another_machine() {
    let closed = {
        let server = Server::new(|_| Act::text(OK));
        server.url("/")
    };
    let load = Load::check(Asked::of(&closed)).unwrap();
    let error = Destination::find(&load).unwrap_err();
    assert!(matches!(error, Error::Connect { .. }) && error.hint().is_some(), "{error}");
    // An address of the network for documentation: nothing answers there.
    let load = Load::check(Asked::of("http://192.0.2.1:9/")).unwrap();
    let error = Destination::find(&load).unwrap_err();
    assert!(matches!(error, Error::OtherMachine { .. }) && error.hint().unwrap().contains("--yes"), "{error}");
}
