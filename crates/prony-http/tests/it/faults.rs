//! Tests of servers that do not answer as they should: every request ends in exactly one way.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Mutex;

use prony_http::{Asked, Bound, Control, Destination, Failure, Load, Remark};
use prony_model::http::ExpectedStatuses;
use prony_model::outcome::Outcome;
use prony_model::random::Stream;
use prony_model::reading::{Reading, Why};
use prony_model::units::Nanos;
use proptest::prelude::*;

use crate::server::{Act, OK, PATIENT, Server, assert_whole, run, run_until};

const SHORT: Nanos = Nanos::from_millis(200);

fn close(text: &str) -> Act {
    Act::Close(text.as_bytes().to_vec())
}

#[test]
fn each_fault_has_its_kind() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello";
    for (act, failure, timeout) in [
        (close(""), Failure::Closed, PATIENT),
        (close("HTTP/1.1 200 OK\r\nConte"), Failure::Closed, PATIENT),
        (close(half), Failure::Closed, PATIENT),
        (close("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), Failure::Closed, PATIENT),
        (Act::Reset(half.as_bytes().to_vec()), Failure::Reset, PATIENT),
        (Act::Reset(Vec::new()), Failure::Reset, PATIENT),
        (Act::text("hello\r\n\r\n"), Failure::Malformed, PATIENT),
        (Act::text("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ntoo long"), Failure::Malformed, PATIENT),
        (Act::text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n"), Failure::Malformed, PATIENT),
        (Act::Hang(Vec::new()), Failure::Timeout, SHORT),
        (Act::Hang(half.as_bytes().to_vec()), Failure::Timeout, SHORT),
        (Act::Hang(b"HTTP/1.1 200 OK\r\n\r\nno end".to_vec()), Failure::Timeout, SHORT),
        (Act::text("HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\n\r\n"), Failure::Status, PATIENT),
    ] {
        let server = Server::new({
            let act = act.clone();
            move |_| act.clone()
        });
        let bound = Bound::Requests(8);
        let report = run(Asked { bound, timeout, connections: 4, threads: 2, ..Asked::of(&server.url("/")) });
        assert_whole(&report, 8);
        assert_eq!(report.errors.count(failure), 8, "{act:?}: {:?} {:?}", report.errors, report.causes);
    }
}

#[test]
fn refused_connections_are_counted() {
    let server = Server::new(|_| Act::text(OK));
    let load = Load::check(Asked { bound: Bound::Requests(100), threads: 2, ..Asked::of(&server.url("/")) }).unwrap();
    let destination = Destination::find(&load).unwrap();
    drop(server);
    let report = prony_http::run(&load, destination, &Control::new(2)).unwrap();
    assert_whole(&report, 100);
    assert_eq!((report.errors.refused, report.sent.requests, report.connect.samples), (100, 0, 0));
    assert_eq!(report.connect.p50, Reading::Missing(Why::Infinite { failed: 100, of: 100 }));
}

#[test]
fn answer_to_a_request_that_was_not_read_whole_counts() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            // The body is never read: closing makes the kernel reset the connection, after the answer.
            let _ = std::io::Read::read(&mut stream, &mut [0; 100]);
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    let body = Some(vec![b'x'; 20_000_000].into());
    let report = run(Asked {
        bound: Bound::Requests(3),
        connections: 1,
        body,
        expect: ExpectedStatuses(vec![413]),
        timeout: PATIENT,
        ..Asked::of(&url)
    });
    assert_whole(&report, 3);
    assert_eq!(report.ok, 3, "{:?} {:?}", report.errors, report.causes);
}

/// What a server does at random, from a seed.
pub(crate) fn random_act(stream: &mut Stream) -> Act {
    let answers = [
        OK,
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nuntil close",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ntoo long",
        "no answer\r\n\r\n",
        "HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
    ];
    let answer = answers[stream.below(answers.len() as u64) as usize].as_bytes();
    let cut = stream.below(answer.len() as u64 + 1) as usize;
    match stream.below(12) {
        0 => Act::Close(answer[..cut].to_vec()),
        1 => Act::Reset(answer[..cut].to_vec()),
        2 => Act::Close(answer.to_vec()),
        3 if stream.below(4) == 0 => Act::Hang(answer[..cut].to_vec()),
        4 => Act::Send(vec![answer[..cut].to_vec(), answer[cut..].to_vec()]),
        5 => Act::Send(vec![answer.repeat(2)]),
        _ => Act::Send(vec![answer.to_vec()]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_request_ends_in_exactly_one_way(
        seed: u64, requests in 1u64..120, connections in 1u32..12, threads in 1u32..4, open: bool, is_head: bool,
    ) {
        let stream = Mutex::new(Stream::new(seed));
        let server = Server::new(move |_| random_act(&mut stream.lock().unwrap()));
        let mut asked = Asked {
            bound: Bound::Requests(requests),
            connections: connections.max(threads),
            threads,
            timeout: Nanos::from_millis(150),
            method: is_head.then(|| "HEAD".to_owned()),
            ..Asked::of(&server.url("/{i}"))
        };
        if open {
            asked.pace = crate::open_loop::constant(2_000.0);
        }
        let report = run(asked);
        assert_whole(&report, requests);
        prop_assert_eq!(report.errors.tls + report.errors.no_socket + report.errors.unfinished, 0);
        prop_assert!(open || report.errors.not_started == 0);
    }
}

/// Answers so many requests of one connection, and takes no further connections.
fn serve_some(listener: &TcpListener, answers: u64) {
    let (mut stream, _) = listener.accept().unwrap();
    for _ in 0..answers {
        if !matches!(stream.read(&mut [0; 1_000]), Ok(1..)) || stream.write_all(OK.as_bytes()).is_err() {
            return;
        }
    }
    // Another request is read, and not answered.
    let _ = stream.read(&mut [0; 1_000]);
}

#[test]
fn server_that_ends_and_comes_back_is_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        // The connection that is made before the load.
        serve_some(&listener, 0);
        serve_some(&listener, 100);
        drop(listener);
        std::thread::sleep(std::time::Duration::from_millis(5));
        serve_some(&TcpListener::bind(address).unwrap(), 100);
    });
    let bound = Bound::Duration(PATIENT);
    let asked = Asked { bound, connections: 1, timeout: PATIENT, ..Asked::of(&format!("http://{address}/")) };
    let report = run_until(asked, || server.is_finished());
    server.join().unwrap();
    assert_whole(&report, report.requests);
    let errors = report.errors;
    assert_eq!(report.ok, 200, "{errors:?} {:?}", report.causes);
    assert!(errors.closed + errors.reset > 0, "{errors:?}");
    assert_eq!(errors.refused + errors.closed + errors.reset, errors.total(), "{errors:?}");
}

/// A second answer that came after the last request of its connection was in no figure.
#[test]
fn more_than_the_last_answer_is_no_success() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let load = Load::check(Asked { bound: Bound::Requests(2), connections: 2, timeout: PATIENT, ..Asked::of(&url) });
    let load = load.unwrap();
    let destination = Destination::find(&load).unwrap();
    let control = Control::new(1);
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| prony_http::run(&load, destination, &control));
        // The connection that was made before the load.
        listener.accept().unwrap();
        let mut two = [(); 2].map(|()| listener.accept().unwrap().0);
        two.iter_mut().for_each(|stream| assert!(stream.read(&mut [0; 1_000]).unwrap() > 0));
        two[0].write_all(OK.as_bytes()).unwrap();
        while control.progress().ok < 1 {
            std::thread::yield_now();
        }
        two[0].write_all(OK.as_bytes()).unwrap();
        two[1].write_all(OK.as_bytes()).unwrap();
        running.join().unwrap().unwrap()
    });
    assert_whole(&report, 2);
    assert_eq!((report.ok, report.outcome), (2, Outcome::Failed { code: None }));
    assert!(report.remarks.contains(&Remark::Surplus { connections: 1 }), "{:?}", report.remarks);
}
