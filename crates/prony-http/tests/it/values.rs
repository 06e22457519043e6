//! Tests of what the requests of a trial contain: records, files, and values of earlier answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use prony_model::http::{BodySpec, HttpAmount, HttpSpec, Part, SaveSpec, SavedFrom, Template};
use prony_model::latency::Recorder;
use prony_model::spec::{
    CollectionSpec, DocumentSpec, Encoding, FieldSpec, FieldValue, Generator, KeySpec, Order, TrialSpec, ValueSpec,
};
use prony_model::units::{Fraction, Nanos};
use prony_workload::Records;

use crate::host::{Runner, SEED, With, assert_whole, http, requests, text, trial};
use crate::open_loop::in_one_of_ten;
use crate::server::{Act, OK, Server};

/// What the server was sent: the path and the body of each request.
pub(crate) type Sent = Arc<Mutex<Vec<(String, String)>>>;

pub(crate) fn path_of(head: &str) -> String {
    head.split(' ').nth(1).unwrap().to_owned()
}

/// A server that answers each request by a function of its path and body, and what it was sent.
pub(crate) fn recording(answer: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> (Server, Sent) {
    let sent = Sent::default();
    let recorded = Arc::clone(&sent);
    let server = Server::new(move |asking| {
        let (path, body) = (path_of(&asking.head), String::from_utf8_lossy(&asking.body).into_owned());
        let answer = answer(&path, &body);
        recorded.lock().unwrap().push((path, body));
        Act::text(&answer)
    });
    (server, sent)
}

pub(crate) fn drain(sent: &Sent) -> Vec<(String, String)> {
    std::mem::take(&mut *sent.lock().unwrap())
}

pub(crate) fn collection(name: Option<&str>, records: u64) -> CollectionSpec {
    let field = |name: &str, value| FieldSpec { name: name.to_owned(), value, present: Fraction::new(1.0).unwrap() };
    let fields = vec![
        field("id", Generator::Sequence { start: 100, step: 1 }),
        field("kind", Generator::Cycle(["a b", "c"].map(|text| FieldValue::Text(text.to_owned())).to_vec())),
        field("token", Generator::Uuid),
    ];
    CollectionSpec {
        name: name.map(str::to_owned),
        records,
        key: KeySpec::Integer { bytes: 8 },
        value: ValueSpec::Document(DocumentSpec { fields, encoding: Encoding::Json, file: None }),
    }
}

pub(crate) fn template(parts: &[Part]) -> Template {
    Template(parts.to_vec())
}

pub(crate) fn plain(text: &str) -> Part {
    Part::Text(text.to_owned())
}

pub(crate) fn with_data(spec: TrialSpec, data: Vec<CollectionSpec>) -> TrialSpec {
    TrialSpec { data, ..spec }
}

pub(crate) fn save(name: &str, from: SavedFrom, each: bool) -> BTreeMap<String, SaveSpec> {
    BTreeMap::from([(name.to_owned(), SaveSpec { from, each })])
}

#[test]
fn each_record_is_sent_once_as_its_document() {
    let (server, sent) = recording(|_, _| OK.to_owned());
    let data = collection(Some("schools"), 300);
    let documents: BTreeSet<String> = {
        let records = Records::new(&data, SEED).unwrap();
        (0..300).map(|n| serde_json::to_string(&records.document(n, 0).unwrap()).unwrap()).collect()
    };
    let spec = HttpSpec {
        amount: HttpAmount::Records,
        order: Order::Shuffled,
        collection: Some("schools".to_owned()),
        ..requests(
            &server,
            template(&[plain("/x/"), Part::Number, plain("?k="), Part::Field("kind".parse().unwrap())]),
            0,
        )
    }
    .with(|kind| {
        kind.method = "POST".to_owned();
        kind.body = Some(BodySpec::Document);
    });
    let mut runner = Runner::new(with_data(trial(vec![("insert", http(spec))]), vec![data]));
    let report = runner.phase(0).unwrap();
    runner.stop().unwrap();
    assert_whole(&report, 300);
    let received = drain(&sent);
    assert_eq!(received.iter().map(|(_, body)| body.clone()).collect::<BTreeSet<_>>(), documents);
    for (path, body) in &received {
        let document: FieldValue = serde_json::from_str(body).unwrap();
        let Some(FieldValue::Int(id)) = document.at(&["id"]) else { panic!("{body}") };
        let number = id - 100;
        let kind = if number % 2 == 0 { "a%20b" } else { "c" };
        assert_eq!(*path, format!("/x/{number}?k={kind}"));
    }
    assert!(!received.is_sorted(), "they are shuffled");
    let counts = report.requests.unwrap();
    assert_eq!((report.distinct, counts.bodies, counts.paths), (Some(300), Some(300), 300));
    let bodies: u64 = received.iter().map(|(_, body)| body.len() as u64).sum();
    assert_eq!(report.user_bytes, bodies + 300 * 2);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
}

#[test]
fn orders_draw_records_and_different_ones_are_counted() {
    for order in [Order::Uniform, Order::Zipfian { theta: 0.99 }, Order::Record] {
        let (server, sent) = recording(|_, _| OK.to_owned());
        let spec = HttpSpec { order, ..requests(&server, template(&[plain("/"), Part::Number]), 500) }.with(|kind| {
            kind.method = "POST".to_owned();
            kind.body = Some(BodySpec::Text(template(&[plain("kind "), Part::Field("kind".parse().unwrap())])));
        });
        let mut runner = Runner::new(with_data(trial(vec![("read", http(spec))]), vec![collection(None, 100)]));
        let report = runner.phase(0).unwrap();
        runner.stop().unwrap();
        assert_whole(&report, 500);
        let paths: BTreeSet<String> = drain(&sent).into_iter().map(|(path, _)| path).collect();
        assert!(paths.iter().all(|path| path[1..].parse::<u64>().unwrap() < 100));
        let counts = report.requests.unwrap();
        assert_eq!((report.distinct, counts.paths), (Some(paths.len() as u64), paths.len() as u64), "{order:?}");
        // Different texts are counted, not records.
        assert_eq!(counts.bodies, Some(2));
    }
}

#[test]
fn requests_without_anything_of_a_record_work_on_none() {
    let (server, _sent) = recording(|_, _| OK.to_owned());
    let spec = requests(&server, text("/stats"), 40);
    let mut runner = Runner::new(with_data(trial(vec![("read", http(spec))]), vec![collection(None, 100)]));
    let report = runner.phase(0).unwrap();
    runner.stop().unwrap();
    assert_eq!((report.operations, report.distinct), (40, Some(1)));
}

/// Answers a post of a document by where it was stored, and anything else by its path.
fn store(_: &str, body: &str) -> String {
    match serde_json::from_str::<FieldValue>(body) {
        Ok(document) => {
            let Some(FieldValue::Int(id)) = document.at(&["id"]) else { return OK.to_owned() };
            let body = format!("{{\"data\":{{\"id\":{id}}},\"session\":\"s-1\"}}");
            let head = "HTTP/1.1 201 Created\r\nLocation: /items/";
            format!("{head}{id}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        }
        Err(_) => OK.to_owned(),
    }
}

fn insert(server: &Server, save: BTreeMap<String, SaveSpec>) -> HttpSpec {
    let spec = HttpSpec { amount: HttpAmount::Records, order: Order::Shuffled, ..requests(server, text("/items"), 0) };
    spec.with(|kind| {
        kind.method = "POST".to_owned();
        kind.body = Some(BodySpec::Document);
        kind.save = save;
    })
}

#[test]
fn saved_values_are_used_with_the_record_they_are_of() {
    let (server, sent) = recording(store);
    let mut saves = save("item", SavedFrom::Header("Location".to_owned()), true);
    saves.extend(save("id", SavedFrom::Json("/data/id".to_owned()), true));
    saves.extend(save("session", SavedFrom::Pattern("\"session\":\"([^\"]*)\"".to_owned()), false));
    let read = |order, amount| {
        HttpSpec {
            order,
            amount,
            ..requests(&server, template(&[Part::Saved("item".to_owned()), plain("?n="), Part::Number]), 0)
        }
        .with(|kind| {
            kind.headers = vec![
                ("X-Session".to_owned(), template(&[Part::Saved("session".to_owned())])),
                ("X-Id".to_owned(), template(&[Part::Saved("id".to_owned())])),
            ];
        })
    };
    let put = read(Order::Shuffled, HttpAmount::Records).with(|kind| {
        kind.method = "PUT".to_owned();
        kind.body = Some(BodySpec::Text(template(&[plain("token "), Part::Field("token".parse().unwrap())])));
    });
    let spec = trial(vec![
        ("insert", http(insert(&server, saves))),
        ("read", http(read(Order::Record, HttpAmount::Records))),
        ("draw", http(read(Order::Uniform, HttpAmount::Requests(400)))),
        ("replace", http(put)),
    ]);
    let data = collection(None, 200);
    let records = Records::new(&data, SEED).unwrap();
    let mut runner = Runner::new(with_data(spec, vec![data]));
    assert_whole(&runner.phase(0).unwrap(), 200);
    drain(&sent);
    for (index, distinct) in [(1, Some(200)), (2, None), (3, Some(200))] {
        let report = runner.phase(index).unwrap();
        assert_eq!((report.operations, report.errors), (if index == 2 { 400 } else { 200 }, 0), "{report:#?}");
        let received = drain(&sent);
        let paths: BTreeSet<&String> = received.iter().map(|(path, _)| path).collect();
        assert_eq!(report.distinct, Some(paths.len() as u64));
        assert_eq!(report.requests.unwrap().paths, paths.len() as u64);
        assert!(distinct.is_none_or(|distinct| distinct == paths.len()), "{}", paths.len());
        for (path, body) in &received {
            let (id, number) = path.strip_prefix("/items/").unwrap().split_once("?n=").unwrap();
            let (id, number): (u64, u64) = (id.parse().unwrap(), number.parse().unwrap());
            assert_eq!(id, 100 + number, "the number is that of the record");
            if index == 3 {
                let document = records.document(number, 0).unwrap();
                let Some(FieldValue::Text(token)) = document.at(&["token"]) else { panic!("{document:?}") };
                assert_eq!(*body, format!("token {token}"));
            }
        }
    }
    runner.stop().unwrap();
}

#[test]
fn answers_without_the_value_are_errors_of_their_own_kind() {
    let (server, sent) = recording(|path, _| {
        let number: u64 = path.rsplit('/').next().unwrap().parse().unwrap();
        match number % 5 {
            0 => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nnone.".to_owned(),
            1 => "HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\nid=9".to_owned(),
            _ => {
                let body = format!("id={number}");
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            }
        }
    });
    let first = requests(&server, template(&[plain("/a/"), Part::Number]), 100)
        .with(|kind| kind.save = save("id", SavedFrom::Pattern("id=(\\d+)".to_owned()), true));
    let second = HttpSpec {
        amount: HttpAmount::Records,
        ..requests(&server, template(&[plain("/b/"), Part::Saved("id".to_owned())]), 0)
    };
    let mut runner = Runner::new(trial(vec![("first", http(first)), ("second", http(second))]));
    let report = runner.phase(0).unwrap();
    assert_whole(&report, 100);
    assert_eq!((report.operations, report.errors), (60, 40));
    let texts: Vec<(&str, u64)> = report.error_texts.iter().map(|(text, n)| (text.as_str(), *n)).collect();
    let not_saved = "no value to save in the answer: no value for `id`: the body does not match `id=(\\d+)`";
    assert_eq!(texts, [(not_saved, 20), ("status 500", 20)]);
    assert_eq!(report.requests.unwrap().statuses, BTreeMap::from([(200, 80), (500, 20)]));
    drain(&sent);
    let report = runner.phase(1).unwrap();
    // The server answers the numbers that were saved.
    assert_eq!((report.operations, report.errors), (60, 0), "{:?}", report.error_texts);
    let paths: BTreeSet<String> = drain(&sent).into_iter().map(|(path, _)| path).collect();
    let expected: BTreeSet<String> = (0..100).filter(|n| n % 5 > 1).map(|n| format!("/b/{n}")).collect();
    assert_eq!(paths, expected);
    runner.stop().unwrap();
}

#[test]
fn phase_without_the_value_it_needs_fails_by_name() {
    let (server, _sent) = recording(|_, _| OK.to_owned());
    let first = requests(&server, text("/"), 10)
        .with(|kind| kind.save = save("item", SavedFrom::Header("Location".to_owned()), true));
    // Without the value the path would not begin with a slash either.
    let second = requests(&server, template(&[Part::Saved("item".to_owned())]), 10);
    let mut runner = Runner::new(trial(vec![("first", http(first)), ("second", http(second))]));
    let report = runner.phase(0).unwrap();
    assert_eq!((report.operations, report.errors), (0, 10));
    assert_eq!(runner.phase(1), None);
    let error = runner.stop().unwrap_err();
    assert_eq!(error.phase, Some(1));
    let message = error.to_string();
    assert_eq!(message, "phase `second`: there is no saved value `item`: no answer of an earlier phase gave one");
}

#[test]
fn loads_that_cannot_be_are_refused_with_all_faults() {
    let (server, _sent) = recording(|_, _| OK.to_owned());
    let good = requests(&server, text("/"), 10);
    let field = || template(&[plain("/"), Part::Field("id".parse().unwrap())]);
    for (spec, texts) in [
        (
            HttpSpec { server: "ftp://x".to_owned(), ..good.clone() }.with(|kind| {
                kind.path = text("a b");
            }),
            vec!["ftp", "a space", "begin"],
        ),
        (
            good.clone().with(|kind| {
                kind.path = field();
            }),
            vec!["no collection"],
        ),
        (
            HttpSpec { collection: Some("c".to_owned()), ..good.clone() }.with(|kind| {
                kind.path = field();
            }),
            vec!["no collection `c`"],
        ),
        (HttpSpec { amount: HttpAmount::Records, ..good.clone() }, vec!["no records"]),
        (good.clone().with(|kind| kind.save = save("x", SavedFrom::Pattern("(".to_owned()), true)), vec!["`x`"]),
        (
            HttpSpec { connections: 0, ..good.clone() }.with(|kind| {
                kind.body = Some(BodySpec::File { path: "/nonesuch".to_owned(), fill: BTreeMap::new() });
            }),
            vec!["/nonesuch", "connections"],
        ),
        (
            good.clone().with(|kind| {
                kind.body = Some(BodySpec::File {
                    path: "/proc/version".to_owned(),
                    fill: BTreeMap::from([("CHANGESET".to_owned(), text("1")), (String::new(), text("2"))]),
                });
            }),
            vec!["a text to replace is empty"],
        ),
        (
            good.clone().with(|kind| {
                kind.body = Some(BodySpec::File {
                    path: "Cargo.toml".to_owned(),
                    fill: BTreeMap::from([("NOT THERE".to_owned(), text("1"))]),
                });
            }),
            vec!["does not contain `NOT THERE`"],
        ),
    ] {
        let mut runner = Runner::new(trial(vec![("load", http(spec))]));
        assert_eq!(runner.phase(0), None);
        let message = runner.stop().unwrap_err().to_string();
        for text in texts {
            assert!(message.contains(text) && message.contains("phase `load`: "), "{message:?} has no {text:?}");
        }
    }
    let warm = HttpSpec { amount: HttpAmount::Records, warm_up: Nanos::from_secs(1), ..good };
    let mut runner = Runner::new(with_data(trial(vec![("load", http(warm))]), vec![collection(None, 5)]));
    assert_eq!(runner.phase(0), None);
    assert!(runner.stop().unwrap_err().to_string().contains("warm-up"));
}

#[test]
fn absolute_urls_of_the_same_server_are_paths() {
    let (server, sent) = recording(|_, _| OK.to_owned());
    let url = format!("http://{}/items/5", server.address);
    for (saved, good) in [(url, true), ("http://localhost:1/items/5".to_owned(), false), ("5".to_owned(), false)] {
        let answering = Server::new(move |_| {
            Act::text(&format!("HTTP/1.1 201 C\r\nLocation: {saved}\r\nContent-Length: 0\r\n\r\n"))
        });
        let first = requests(&answering, text("/"), 5)
            .with(|kind| kind.save = save("item", SavedFrom::Header("location".to_owned()), true));
        let second = requests(&server, template(&[Part::Saved("item".to_owned())]), 20);
        let mut runner = Runner::new(trial(vec![("first", http(first)), ("second", http(second))]));
        assert_whole(&runner.phase(0).unwrap(), 5);
        let report = runner.phase(1);
        let ended = runner.stop();
        assert_eq!((report.is_some(), ended.is_ok()), (good, good));
        let received = drain(&sent);
        assert_eq!(received.len(), if good { 20 } else { 0 });
        assert!(received.iter().all(|(path, _)| path == "/items/5"));
    }
}

/// The URL of an answer is its own text in a header field, and a path where it begins one. One value for all requests is
/// encoded as those of each are.
#[test]
fn values_are_written_by_their_place_in_the_request() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&heads);
    let server = Server::new(move |asking| {
        noted.lock().unwrap().push(asking.head.clone());
        Act::text(OK)
    });
    let url = format!("{}#top", server.url("/items/5"));
    let body = format!("{{\"url\":\"{url}\",\"name\":\"a b/c\"}}");
    let answering =
        Server::new(move |_| Act::text(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())));
    let part = |name: &str| Part::Saved(name.to_owned());
    for each in [false, true] {
        let mut saves = save("url", SavedFrom::Json("/url".to_owned()), each);
        saves.extend(save("name", SavedFrom::Json("/name".to_owned()), each));
        let first = requests(&answering, text("/"), 5).with(|kind| kind.save = saves);
        let path = template(&[part("url"), plain("/of/"), part("name")]);
        let second =
            requests(&server, path, 5).with(|kind| kind.headers = vec![("X-Url".to_owned(), template(&[part("url")]))]);
        let mut runner = Runner::new(trial(vec![("first", http(first)), ("second", http(second))]));
        assert_whole(&runner.phase(0).unwrap(), 5);
        let report = runner.phase(1).unwrap();
        assert_whole(&report, 5);
        assert_eq!(report.operations, 5, "{:?}", report.error_texts);
        runner.stop().unwrap();
        for head in heads.lock().unwrap().drain(..) {
            assert!(head.starts_with("GET /items/5/of/a%20b%2Fc HTTP/1.1\r\n"), "{head}");
            assert!(head.contains(&format!("X-Url: {url}")), "{head}");
        }
    }
}

/// After one answer without a value, each later request used values of two records. The kinds of a mix may use those of
/// different ones.
#[test]
fn values_of_one_request_are_of_one_record() {
    let (server, sent) = recording(|path, _| {
        let value = if path == "/b3" { "none" } else { &path[2..] };
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n<{value}>", value.len() + 2)
    });
    let numbered = |name: &str, n| {
        let from = SavedFrom::Pattern("<(\\d+)>".to_owned());
        let path = template(&[plain(&format!("/{name}")), Part::Number]);
        http(requests(&server, path, n).with(|kind| kind.save = save(name, from, true)))
    };
    let part = |name: &str| Part::Saved(name.to_owned());
    let both = HttpSpec {
        amount: HttpAmount::Records,
        ..requests(&server, template(&[plain("/"), part("a"), plain("/"), part("b"), plain("/"), Part::Number]), 0)
    };
    let mut runner = Runner::new(trial(vec![("a", numbered("a", 9)), ("b", numbered("b", 7)), ("both", http(both))]));
    for (index, errors) in [(0, 0), (1, 1)] {
        assert_eq!(runner.phase(index).unwrap().errors, errors);
    }
    drain(&sent);
    let report = runner.phase(2).unwrap();
    runner.stop().unwrap();
    let mut paths: Vec<String> = drain(&sent).into_iter().map(|(path, _)| path).collect();
    paths.sort_unstable();
    assert_eq!(paths, [0, 1, 2, 4, 5, 6].map(|n| format!("/{n}/{n}/{n}")));
    assert!(report.notes.iter().any(|note| note.contains("those of 6 records are used")), "{:?}", report.notes);
}

#[test]
fn lists_of_different_lengths_are_used_up_to_the_shortest() {
    let (server, sent) = recording(|path, _| {
        let body = format!("\"a\\nb{path}\"");
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    });
    let part = |name: &str| Part::Saved(name.to_owned());
    let numbered = |prefix: &str, save, n| {
        requests(&server, template(&[plain(prefix), Part::Number]), n).with(|kind| kind.save = save)
    };
    let pattern = || SavedFrom::Pattern("(/.*)\"".to_owned());
    let mut saves = save("line", SavedFrom::Json(String::new()), true);
    saves.extend(save("a", pattern(), true));
    let both = HttpSpec {
        amount: HttpAmount::Records,
        ..requests(&server, template(&[part("a"), part("b"), plain("?"), Part::Number]), 0)
    };
    let broken = both.clone().with(|kind| {
        kind.headers = vec![("X-A".to_owned(), template(&[part("line")]))];
    });
    let mut runner = Runner::new(trial(vec![
        ("first", http(numbered("/a", saves, 10))),
        ("second", http(numbered("/b", save("b", pattern(), true), 6))),
        ("both", http(both)),
        ("broken", http(broken)),
    ]));
    assert_whole(&runner.phase(0).unwrap(), 10);
    assert_whole(&runner.phase(1).unwrap(), 6);
    drain(&sent);
    let report = runner.phase(2).unwrap();
    assert_whole(&report, 6);
    let mut paths: Vec<String> = drain(&sent).into_iter().map(|(path, _)| path).collect();
    paths.sort_unstable();
    assert_eq!(paths, (0..6).map(|n| format!("/a{n}/b{n}?{n}")).collect::<Vec<_>>());
    assert!(report.notes.iter().any(|note| note.contains("6 to 10 values")), "{:?}", report.notes);
    // A line feed would end the header field.
    assert_eq!(runner.phase(3), None);
    let message = runner.stop().unwrap_err().to_string();
    assert!(message.contains("`broken`") && message.contains("header field `X-A`"), "{message}");
}

/// The text of a request was written after its start, or after that of the one before; both was part of a latency.
#[test]
fn latency_does_not_include_the_time_in_which_a_request_is_made() {
    let data = CollectionSpec {
        value: ValueSpec::Document(DocumentSpec {
            fields: vec![FieldSpec {
                name: "text".to_owned(),
                value: Generator::Words { count: 20_000, vocabulary: 50_000 },
                present: Fraction::new(1.0).unwrap(),
            }],
            encoding: Encoding::Json,
            file: None,
        }),
        ..collection(None, 300)
    };
    let records = Records::new(&data, SEED).unwrap();
    // Some of the requests are made before the load, most of them are not.
    in_one_of_ten(|| {
        let server = Server::new(|_| Act::text(OK));
        let spec = HttpSpec { connections: 1, threads: 1, ..insert(&server, BTreeMap::new()) };
        let mut runner = Runner::new(with_data(trial(vec![("insert", http(spec))]), vec![data.clone()]));
        let report = runner.phase(0).unwrap();
        runner.stop().unwrap();
        assert_whole(&report, 300);
        let begin = std::time::Instant::now();
        let bytes: usize =
            (0..20).map(|n| serde_json::to_string(&records.document(n, 0).unwrap()).unwrap().len()).sum();
        let making = begin.elapsed().as_nanos() as f64 / 20.0;
        assert!(bytes / 20 * 300 > 24 << 20, "{bytes}");
        let latency = Recorder::from_record(&report.histograms[0]).unwrap();
        let latency = *prony_model::latency::percentile(&latency, 0.9).measured().unwrap();
        if latency < making / 2.0 { Ok(()) } else { Err(format!("{latency}, and {making} to make one")) }
    });
}
