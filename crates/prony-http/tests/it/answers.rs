//! Tests of what is read of the bodies of answers.

use std::sync::atomic::{AtomicU64, Ordering};

use prony_model::http::{AnswerSpec, HttpAmount, HttpSpec, Part};
use prony_model::latency::{Recorder, percentile};
use prony_model::protocol::PhaseReport;
use prony_model::reading::Reading;
use prony_model::units::Nanos;

use crate::host::{Runner, assert_whole, http, requests, text, trial};
use crate::server::Server;
use crate::values::{plain, recording, template};

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A map of as many nodes as the path says, each with an id that no other answer has, and a value that follows from the path.
fn map() -> Server {
    let ids = AtomicU64::new(0);
    let (server, _) = recording(move |path, _| {
        let number: u64 = path.rsplit('/').next().unwrap().parse().unwrap();
        let node = |n| format!("<node id=\"{}\" v=\"{}\"/>", ids.fetch_add(1, Ordering::Relaxed), number * 100 + n);
        ok(&(0..number % 7).map(node).collect::<String>())
    });
    server
}

fn read(server: &Server, answer: AnswerSpec, change: impl FnOnce(&mut HttpSpec)) -> PhaseReport {
    let mut spec = requests(server, template(&[plain("/map/"), Part::Number]), 70);
    spec.kinds[0].answer = Some(answer);
    change(&mut spec);
    let mut runner = Runner::new(trial(vec![("read", http(spec))]));
    let report = runner.phase(0).unwrap();
    runner.stop().unwrap();
    report
}

#[test]
fn compressed_bodies_are_not_searched() {
    let (server, _) =
        recording(|_, _| "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nrow ".to_owned());
    let rows = AnswerSpec { rows: Some("row".to_owned()), ..AnswerSpec::default() };
    let report = read(&server, rows, |_| ());
    assert_whole(&report, 70);
    let text = "wrong answer: the body is compressed (`Content-Encoding: gzip`), and its text cannot be searched";
    assert_eq!(report.error_texts, [(text.to_owned(), 70)].into());
    let digest = AnswerSpec { digest: true, ..AnswerSpec::default() };
    assert_eq!(read(&server, digest, |_| ()).operations, 70, "a digest is of the bytes");
}

/// With one connection, the requests and the reading of their answers follow one another: both together take no longer than the load.
#[test]
fn time_to_read_an_answer_is_no_latency_of_the_next_request() {
    let body = "abc ".repeat(1 << 18);
    let (server, _) = recording(move |_, _| ok(&body));
    let rows = AnswerSpec { rows: Some("(?i)[a-c]{3}[ ]".to_owned()), ..AnswerSpec::default() };
    let report = read(&server, rows, |spec| {
        spec.kinds[0].path = text("/same");
        (spec.connections, spec.threads, spec.amount) = (1, 1, HttpAmount::Requests(20));
    });
    assert_eq!((report.operations, report.rows), (20, Some(20 << 18)));
    let latency = Recorder::from_record(&report.histograms[0]).unwrap();
    let note = report.notes.iter().find(|note| note.contains("read the bodies of answers for ")).unwrap();
    let share = note.split("answers for ").nth(1).and_then(|rest| rest.split('%').next()).unwrap().trim();
    let reading = share.parse::<f64>().unwrap() / 100.0;
    let Reading::Measured(median) = percentile(&latency, 0.5) else { panic!("too few") };
    let waiting = median * 20.0 / report.time.as_nanos() as f64;
    // A median is no mean.
    assert!(reading > 0.05 && waiting + reading < 1.2, "{waiting} {note}");
}

fn spec(without: &[&str]) -> AnswerSpec {
    AnswerSpec {
        rows: Some("<node ".to_owned()),
        digest: true,
        without: without.iter().map(|&pattern| pattern.to_owned()).collect(),
        ..AnswerSpec::default()
    }
}

#[test]
fn rows_and_digests_are_those_of_the_answers_however_they_were_asked_for() {
    let server = map();
    let ids = ["id=\"[^\"]*\""];
    let one = read(&server, spec(&ids), |spec| (spec.connections, spec.threads) = (1, 1));
    assert_whole(&one, 70);
    // 0 to 6 nodes each, ten times.
    assert_eq!(one.rows, Some(210));
    let answer = one.answer.unwrap();
    assert_eq!((answer.rows, answer.comparable), (Some(210), true));
    for (connections, threads) in [(8, 1), (8, 2)] {
        let many = read(&server, spec(&ids), |spec| (spec.connections, spec.threads) = (connections, threads));
        assert_eq!(many.answer.as_ref(), Some(&answer), "{connections} connections");
    }
    let random = read(&server, spec(&[]), |_| ()).answer.unwrap();
    assert_ne!(random.digest, answer.digest, "ids are no part of it only where they are removed");
    assert_eq!(random.rows, answer.rows);
}

#[test]
fn answers_of_other_requests_are_not_compared() {
    let server = map();
    let timed = read(&server, spec(&[]), |spec| spec.amount = HttpAmount::Duration(Nanos::from_millis(50)));
    assert!(!timed.answer.unwrap().comparable, "a duration sends as many requests as fit into it");
    let warm = read(&server, spec(&[]), |spec| spec.warm_up = Nanos::from_millis(20));
    assert!(!warm.answer.unwrap().comparable, "which requests belong to the warm-up depends on time");
}

#[test]
fn body_that_does_not_match_is_a_wrong_answer() {
    let (server, _) = recording(|path, _| ok(if path.ends_with('3') { "{\"ok\":false}" } else { "{\"ok\":true}" }));
    let answer =
        AnswerSpec { matches: Some("\"ok\":true".to_owned()), rows: Some("true".to_owned()), ..AnswerSpec::default() };
    let report = read(&server, answer, |_| ());
    assert_eq!((report.operations, report.errors, report.rows), (63, 7, Some(63)));
    let (text, count) = report.error_texts.first_key_value().unwrap();
    assert!(text.starts_with("wrong answer: the body does not match") && *count == 7, "{:?}", report.error_texts);
    assert_eq!(report.requests.unwrap().statuses[&200], 70, "the status was as expected");
    assert!(!report.answer.unwrap().comparable, "some requests have no right answer");
}
