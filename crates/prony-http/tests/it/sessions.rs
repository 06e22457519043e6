//! Tests of sessions: requests that one user sends one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use prony_model::http::{AnswerSpec, BodySpec, HttpAmount, HttpSpec, Part, RequestKind, RetrySpec, SavedFrom};
use prony_model::protocol::PhaseReport;
use prony_model::random::Stream;
use prony_model::spec::{CollectionSpec, Order};
use prony_model::units::Nanos;
use proptest::prelude::*;

use crate::faults::random_act;
use crate::host::{Runner, assert_whole, http, requests, text, trial};
use crate::server::{OK, Server};
use crate::values::{Sent, collection, drain, plain, recording, save, template, with_data};

fn answer(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// Creates an item of a number that no other has, which the location says, and answers questions about it by its number.
fn shop(fails: impl Fn(&str, u64) -> bool + Send + Sync + 'static) -> (Server, Sent) {
    let next = Mutex::new(100);
    recording(move |path, _| {
        let mut words = path[1..].split('/');
        match (words.next(), words.next()) {
            (Some("items"), None) => {
                let mut next = next.lock().unwrap();
                *next += 1;
                if fails("create", *next) {
                    return answer("500 No", "", "");
                }
                answer("201 Created", &format!("Location: /items/{next}\r\n"), &format!("{{\"id\":{next}}}"))
            }
            (Some(kind), Some(id)) => match fails(kind, id.split('?').next().unwrap().parse().unwrap()) {
                true => answer("500 No", "", ""),
                false => answer("200 OK", "", &format!("item {id} of {kind}")),
            },
            _ => answer("404 No", "", ""),
        }
    })
}

/// Creates an item, reads it at its location, and buys it by its number.
fn session(server: &Server, amount: u64) -> HttpSpec {
    let single = requests(server, text("/items"), amount);
    let kind = |name: &str, change: &dyn Fn(&mut RequestKind)| {
        let mut kind = RequestKind { name: Some(name.to_owned()), ..single.kinds[0].clone() };
        change(&mut kind);
        kind
    };
    let saved = |name: &str| Part::Saved(name.to_owned());
    let create = kind("create", &|kind| {
        kind.method = "POST".to_owned();
        kind.body = Some(BodySpec::Text(template(&[plain("new "), Part::Number])));
        kind.save = save("item", SavedFrom::Header("location".to_owned()), false);
        kind.save.extend(save("id", SavedFrom::Json("/id".to_owned()), true));
    });
    let read = kind("read", &|kind| {
        kind.path = template(&[saved("item"), plain("?n="), Part::Number]);
        kind.answer = Some(AnswerSpec { rows: Some("item ".to_owned()), ..AnswerSpec::default() });
    });
    let buy = kind("buy", &|kind| {
        (kind.method, kind.path) = ("POST".to_owned(), template(&[plain("/buy/"), saved("id")]));
        kind.body = Some(BodySpec::Text(template(&[plain("buy "), saved("id"), plain(" for "), Part::Number])));
        kind.headers = vec![("X-Item".to_owned(), template(&[saved("item")]))];
    });
    HttpSpec { kinds: vec![create, read, buy], session: true, ..single }
}

fn run(spec: HttpSpec, data: Vec<CollectionSpec>) -> PhaseReport {
    let mut runner = Runner::new(with_data(trial(vec![("visit", http(spec))]), data));
    let report = runner.phase(0).unwrap();
    runner.stop().unwrap();
    report
}

/// Errors of each kind of request, and its answers.
fn parts(report: &PhaseReport) -> BTreeMap<&str, (u64, u64)> {
    let parts = &report.requests.as_ref().unwrap().parts;
    parts.iter().map(|part| (part.name.as_str(), (part.ok, part.errors))).collect()
}

/// The numbers of the sessions that a server received, by the item of each, after it was found out that requests of a session
/// came in their order and name the item which it created.
fn sessions(sent: &Sent) -> BTreeMap<u64, u64> {
    let received = drain(sent);
    let at = |wanted: &str| received.iter().position(|(path, body)| path == wanted || body == wanted);
    let mut numbers = BTreeMap::new();
    for (place, (path, _)) in received.iter().enumerate() {
        let Some((id, number)) = path.strip_prefix("/items/").and_then(|rest| rest.split_once("?n=")) else { continue };
        assert!(at(&format!("new {number}")).unwrap() < place, "{path} is read before it is there");
        let bought = at(&format!("buy {id} for {number}")).unwrap_or_else(|| panic!("{path} is not bought"));
        assert!(place < bought && received[bought].0 == format!("/buy/{id}"), "{path}");
        numbers.insert(id.parse().unwrap(), number.parse().unwrap());
    }
    numbers
}

#[test]
fn session_uses_what_its_own_answers_gave() {
    for (connections, threads, think) in [(1, 1, Nanos::ZERO), (7, 2, Nanos::ZERO), (7, 3, Nanos::from_micros(500))] {
        let (server, sent) = shop(|_, _| false);
        let report = run(HttpSpec { connections, threads, think, ..session(&server, 300) }, Vec::new());
        assert_whole(&report, 300);
        let hundred = (100, 0);
        assert_eq!(
            parts(&report),
            BTreeMap::from([("kind.create", hundred), ("kind.read", hundred), ("kind.buy", hundred)])
        );
        assert_eq!((report.rows, report.distinct), (Some(100), Some(201)), "rows of one kind, paths of all");
        let requests = report.requests.as_ref().unwrap();
        assert_eq!(requests.bodies, Some(200));
        assert_eq!(requests.parts.iter().map(|part| part.rows).collect::<Vec<_>>(), [None, Some(100), None]);
        let numbers: BTreeSet<u64> = sessions(&sent).into_values().collect();
        assert_eq!(numbers, (0..100).collect());
    }
}

#[test]
fn sessions_go_over_records_and_leave_their_values_to_later_phases() {
    let (server, sent) = shop(|_, _| false);
    let visit = HttpSpec { amount: HttpAmount::Records, order: Order::Shuffled, ..session(&server, 0) };
    let later = HttpSpec {
        amount: HttpAmount::Records,
        ..requests(&server, template(&[plain("/later/"), Part::Saved("id".to_owned()), plain("?n="), Part::Number]), 0)
    };
    let phases = vec![("visit", http(visit)), ("later", http(later))];
    let mut runner = Runner::new(with_data(trial(phases), vec![collection(None, 40)]));
    assert_whole(&runner.phase(0).unwrap(), 120);
    let items = sessions(&sent);
    assert_eq!(items.values().copied().collect::<BTreeSet<u64>>(), (0..40).collect());
    assert_whole(&runner.phase(1).unwrap(), 40);
    runner.stop().unwrap();
    for (path, _) in drain(&sent) {
        let (id, number) = path.strip_prefix("/later/").unwrap().split_once("?n=").unwrap();
        assert_eq!(items[&id.parse().unwrap()], number.parse::<u64>().unwrap(), "the record of the session");
    }
}

#[test]
fn values_of_several_kinds_are_one_list() {
    let (server, sent) = recording(|path, _| answer("200 OK", "", path));
    let single = requests(&server, text("/a"), 20);
    let named = |name: &str| {
        let mut kind =
            RequestKind { name: Some(name.to_owned()), path: text(&format!("/{name}")), ..single.kinds[0].clone() };
        kind.save = save("id", SavedFrom::Body, true);
        kind
    };
    let mix = HttpSpec { kinds: vec![named("a"), named("b")], ..single.clone() };
    let later =
        HttpSpec { amount: HttpAmount::Records, ..requests(&server, template(&[Part::Saved("id".to_owned())]), 0) };
    let mut runner = Runner::new(trial(vec![("mix", http(mix)), ("later", http(later))]));
    assert_whole(&runner.phase(0).unwrap(), 20);
    let paths = |sent: &Sent| {
        let mut all: Vec<String> = drain(sent).into_iter().map(|(path, _)| path).collect();
        all.sort_unstable();
        all
    };
    let first = paths(&sent);
    assert!(first.contains(&"/a".to_owned()) && first.contains(&"/b".to_owned()));
    assert_whole(&runner.phase(1).unwrap(), 20);
    assert_eq!(paths(&sent), first);
    runner.stop().unwrap();
}

#[test]
fn rest_of_a_session_with_an_error_is_not_sent_and_counted() {
    let (server, sent) = shop(|kind, id| match kind {
        "create" => id % 10 == 0,
        "items" => id % 10 == 1,
        _ => false,
    });
    let report = run(session(&server, 300), Vec::new());
    assert_whole(&report, 300);
    let expected = [("kind.create", (90, 10)), ("kind.read", (80, 20)), ("kind.buy", (80, 20))];
    assert_eq!(parts(&report), BTreeMap::from(expected));
    let texts = [("not sent after an error in its session", 30), ("status 500", 20)];
    assert_eq!(report.error_texts, texts.map(|(text, count)| (text.to_owned(), count)).into());
    assert_eq!(drain(&sent).len(), 270, "each that was counted as sent, and no other");
    assert_eq!(report.answer.map(|answer| answer.comparable), Some(false));
}

#[test]
fn request_of_a_session_is_repeated_as_it_was() {
    let failed_before = Mutex::new(BTreeSet::new());
    let (server, sent) = shop(move |kind, id| kind == "items" && failed_before.lock().unwrap().insert(id));
    let wait = Nanos::from_millis(1);
    let retry = RetrySpec { statuses: vec![500], timeout: false, connection: false, times: 1, wait };
    let report = run(HttpSpec { retry: Some(retry), ..session(&server, 90) }, Vec::new());
    assert_eq!((report.operations, report.errors, report.requests.unwrap().retries), (90, 0, Some(30)));
    let received = drain(&sent);
    let reads: Vec<&String> = received.iter().map(|(path, _)| path).filter(|path| path.contains("?n=")).collect();
    let different: BTreeSet<&&String> = reads.iter().collect();
    assert_eq!((reads.len(), different.len()), (60, 30));
}

#[test]
fn time_ends_sessions_wherever_they_are() {
    let (server, sent) = shop(|_, _| false);
    let amount = HttpAmount::Duration(Nanos::from_millis(300));
    let (warm_up, think) = (Nanos::from_millis(100), Nanos::from_millis(5));
    let report = run(HttpSpec { amount, warm_up, think, ..session(&server, 0) }, Vec::new());
    assert_whole(&report, report.operations);
    assert!(report.operations > 3 && (drain(&sent).len() as u64) > report.operations, "{}", report.operations);
}

#[test]
fn location_of_another_server_ends_the_session() {
    for (location, good) in [("http://HOST/items/5", true), ("http://localhost:1/items/5", false), ("5", false)] {
        let host = Mutex::new(String::new());
        let host = std::sync::Arc::new(host);
        let known = std::sync::Arc::clone(&host);
        let (server, sent) = recording(move |path, _| match path {
            "/items" => {
                let fields = format!("Location: {}\r\n", location.replace("HOST", &known.lock().unwrap()));
                answer("201 Created", &fields, "{\"id\":5}")
            }
            _ => answer("200 OK", "", "item"),
        });
        *host.lock().unwrap() = server.address.to_string();
        let mut spec = session(&server, 30);
        spec.kinds[2].body = Some(BodySpec::Text(template(&[Part::Saved("item".to_owned())])));
        let report = run(spec, Vec::new());
        assert_whole(&report, 30);
        let received = drain(&sent);
        let whole = received.iter().filter(|(_, body)| *body == format!("http://{}/items/5", server.address)).count();
        assert_eq!(whole, if good { 10 } else { 0 }, "only a path is shorter");
        let paths: Vec<String> = received.into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths.iter().filter(|path| path.starts_with("/items/5?n=")).count(), if good { 10 } else { 0 });
        let errors: BTreeSet<&str> = report.error_texts.keys().map(|text| text.split(':').next().unwrap()).collect();
        let expected: &[&str] =
            if good { &[] } else { &["not sent after an error in its session", "request could not be made"] };
        assert_eq!(errors, expected.iter().copied().collect());
    }
}

#[test]
fn values_that_break_a_header_field_are_not_sent() {
    let (server, sent) = recording(|path, _| match path {
        "/items" => answer("201 Created", "Location: /items/1\r\n", "{\"id\":\"a\\r\\nX-Evil: 1\"}"),
        _ => OK.to_owned(),
    });
    let mut spec = session(&server, 3);
    spec.kinds[2].headers = vec![("X-Id".to_owned(), template(&[Part::Saved("id".to_owned())]))];
    spec.kinds[1].answer = None;
    let report = run(spec, Vec::new());
    assert_eq!((report.operations, report.errors), (2, 1), "{:?}", report.error_texts);
    assert_eq!(drain(&sent).len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_request_of_a_session_ends_in_exactly_one_way(
        seed: u64, number in 1u64..40, connections in 1u32..12, threads in 1u32..4, thinks: bool, repeats: bool,
    ) {
        let stream = Mutex::new(Stream::new(seed));
        let server = Server::new(move |_| random_act(&mut stream.lock().unwrap()));
        let mut spec = session(&server, 3 * number);
        spec.kinds[0].save = save("item", SavedFrom::Pattern("(o|c)".to_owned()), true);
        spec.kinds[0].save.extend(save("id", SavedFrom::Body, false));
        spec.kinds[1].path = template(&[plain("/"), Part::Saved("item".to_owned())]);
        let (timeout, think) = (Nanos::from_millis(150), Nanos::from_micros(if thinks { 300 } else { 0 }));
        let wait = Nanos::from_millis(1);
        let retry = RetrySpec { statuses: vec![500], timeout: true, connection: true, times: 1, wait };
        let (connections, retry) = (connections.max(threads), Some(retry).filter(|_| repeats));
        let report = run(HttpSpec { connections, threads, timeout, think, retry, ..spec }, Vec::new());
        prop_assert_eq!(report.operations + report.errors, 3 * number);
        prop_assert_eq!(report.error_texts.values().sum::<u64>(), report.errors);
        for (kind, (ok, errors)) in parts(&report) {
            prop_assert_eq!(ok + errors, number, "{}", kind);
        }
        let parts = parts(&report);
        let (create, read, buy) = (parts["kind.create"].0, parts["kind.read"].0, parts["kind.buy"].0);
        prop_assert!(create >= read && read >= buy, "{} {} {}", create, read, buy);
    }
}
