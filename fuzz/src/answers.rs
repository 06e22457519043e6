//! Fuzzes the load generator's reading of answers: every request of a load ends in exactly one way, whatever the server sends
//! and whenever it closes the connection, and nothing that is no whole answer counts as one.
//!
//! The load is that of a trial with two phases: the first saves values of its answers in all four ways, the second sends them
//! in its requests. The server is a thread that sends the parts of the input, one a request.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use prony_http::{Trial, host};
use prony_model::http::{
    AnswerSpec, ExpectedStatuses, HttpAmount, HttpSpec, Part, RequestKind, SaveSpec, SavedFrom, Template,
};
use prony_model::link::{Link, LinkError, Progress};
use prony_model::protocol::{FromWorker, PhaseReport, ToWorker};
use prony_model::spec::{Action, Limits, Order, PhaseSpec, Subject, TrialSpec};
use prony_model::units::Nanos;

/// Between two answers: a byte that no head contains.
const BETWEEN: u8 = 0x1e;
/// Requests of the first phase, and of the second.
const REQUESTS: [u64; 2] = [4, 2];
/// Where the server sends no more and does not close the connection, a request ends after this.
const TIMEOUT: Nanos = Nanos::from_millis(8);
/// What ends a wait of the server where the client's end is lost.
const LOST: Duration = Duration::from_secs(5);

pub(super) fn run(data: &[u8]) {
    let Some((form, data)) = data.split_first() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    let answers: Vec<&[u8]> = data.split(|byte| *byte == BETWEEN).collect();
    let sent = AtomicU64::new(0);
    let reports = thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &answers, &sent));
        let reports = load(&trial(address, *form));
        // A connection that says this ends the server.
        TcpStream::connect(address).and_then(|mut end| end.write_all(END)).expect("the server accepts connections");
        reports
    });
    for (report, requests) in reports.iter().zip(REQUESTS) {
        assert_eq!(report.operations + report.errors, requests, "{:?}", report.error_texts);
        assert_eq!(report.error_texts.values().sum::<u64>(), report.errors, "{:?}", report.error_texts);
        let answered: u64 = report.requests.iter().flat_map(|requests| requests.statuses.values()).sum();
        assert!(answered >= report.operations, "{:?}", report.requests);
    }
    let whole: u64 = reports.iter().map(|report| report.operations).sum();
    assert!(whole <= sent.into_inner(), "more answers were read than sent");
}

/// The reports of the phases that ran. The second is refused where no value was saved for it, or one that no request can
/// contain.
fn load(spec: &TrialSpec) -> Vec<PhaseReport> {
    let mut runner = Runner { next: 0, reports: Vec::new() };
    let trial = Trial { spec, seed: 1, throughput: Nanos::from_millis(100) };
    if let Err(error) = host(&mut runner, trial, &Progress::default()) {
        let text = error.to_string();
        assert!(runner.reports.len() == 1 && text.starts_with("phase `second`: ") && text.len() < 2_000, "{text}");
    }
    runner.reports
}

/// Requests the phases one after another.
struct Runner {
    next: usize,
    reports: Vec<PhaseReport>,
}

impl Link for Runner {
    fn next(&mut self) -> Result<ToWorker, LinkError> {
        self.next += 1;
        Ok(if self.next > REQUESTS.len() { ToWorker::Stop } else { ToWorker::Phase { index: self.next - 1 } })
    }

    fn send(&mut self, message: FromWorker) -> Result<(), LinkError> {
        if let FromWorker::Ended { report, .. } = message {
            self.reports.push(*report);
        }
        Ok(())
    }
}

/// The bits of `form`: whether the first phase only asks for heads, which of the values it saves, whether it reads bodies, and whether
/// it has sessions of two requests, the second of which uses what the first saved.
fn trial(address: SocketAddr, form: u8) -> TrialSpec {
    let asks = |bit: u8| form >> bit & 1 == 1;
    let (saves, uses) = kinds(form);
    let first = HttpSpec {
        server: format!("http://{address}"),
        kinds: vec![saves.clone()],
        session: false,
        connections: 1,
        threads: 1,
        processors: Vec::new(),
        rate: None,
        think: Nanos::ZERO,
        amount: HttpAmount::Requests(REQUESTS[0]),
        warm_up: Nanos::ZERO,
        timeout: TIMEOUT,
        retry: None,
        order: Order::Record,
        collection: None,
        other_machines: false,
        writes: None,
    };
    let amount = HttpAmount::Requests(REQUESTS[1]);
    let second = HttpSpec { amount, kinds: vec![uses.clone()], ..first.clone() };
    let named = |name: &str, kind: RequestKind| RequestKind { name: Some(name.to_owned()), ..kind };
    let first = match asks(7) {
        true => HttpSpec { kinds: vec![named("saves", saves), named("uses", uses)], session: true, ..first },
        false => first,
    };
    let phase = |(name, http): (&str, HttpSpec)| PhaseSpec {
        name: name.to_owned(),
        timed: true,
        action: Action::Http(Box::new(http)),
        background: None,
        limit: None,
    };
    TrialSpec {
        subject: Subject::Services,
        services: Vec::new(),
        data: Vec::new(),
        phases: [("first", first), ("second", second)].map(phase).into(),
        crashes: Vec::new(),
        limits: Limits::default(),
    }
}

/// The request of which values are saved, and the one that uses them.
fn kinds(form: u8) -> (RequestKind, RequestKind) {
    let asks = |bit: u8| form >> bit & 1 == 1;
    let ways = [
        ("body", SavedFrom::Body),
        ("header", SavedFrom::Header("location".to_owned())),
        ("json", SavedFrom::Json("/id".to_owned())),
        ("pattern", SavedFrom::Pattern("id=([^ ]*)".to_owned())),
    ];
    let ways = (1..).zip(ways).filter(|(bit, _)| asks(*bit)).map(|(_, way)| way);
    let save: BTreeMap<_, _> = ways.map(|(name, from)| (name.to_owned(), SaveSpec { from, each: asks(5) })).collect();
    let saved = save.keys().flat_map(|name| [Part::Text("-".to_owned()), Part::Saved(name.clone())]);
    let path = Template([Part::Text("/".to_owned())].into_iter().chain(saved).collect());
    let first = RequestKind {
        name: None,
        weight: 1.0,
        path: Template(vec![Part::Text("/".to_owned()), Part::Number]),
        method: if asks(0) { "HEAD" } else { "GET" }.to_owned(),
        headers: Vec::new(),
        body: None,
        expect: ExpectedStatuses::default(),
        answer: asks(6).then(|| AnswerSpec {
            matches: Some("a|^$".to_owned()),
            rows: Some("n=([0-9]+)".to_owned()),
            digest: true,
            without: vec!["id=[^ ]*".to_owned()],
        }),
        save,
    };
    let second = RequestKind { path, method: "GET".to_owned(), save: BTreeMap::new(), ..first.clone() };
    (first, second)
}

/// What ends the server in place of a request.
const END: &[u8] = b"END\r\n\r\n";

/// Answers requests with the parts of the input, one connection after another, until it is ended.
fn serve(listener: &TcpListener, answers: &[&[u8]], sent: &AtomicU64) {
    let mut answers = answers.iter().copied().chain(std::iter::repeat(&b""[..]));
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(LOST))).expect("options of a socket");
        while let Some(request) = request(&mut stream) {
            if request == END {
                return;
            }
            sent.fetch_add(1, Ordering::Relaxed);
            if !answer(&mut stream, answers.next().unwrap_or_default()) {
                break;
            }
        }
    }
}

/// The head of the next request; `None` where the client closed the connection.
fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(count) => head.extend_from_slice(&buffer[..count]),
        }
    }
    Some(head)
}

/// Sends an answer, whose first byte says in how many portions and what follows it; whether the connection stays open.
fn answer(stream: &mut TcpStream, answer: &[u8]) -> bool {
    let Some((form, bytes)) = answer.split_first() else { return false };
    let size = bytes.len().div_ceil(usize::from(form >> 2 & 7) + 1).max(1);
    for portion in bytes.chunks(size) {
        // A client that closed the connection is no fault of the server.
        if stream.write_all(portion).is_err() {
            return false;
        }
        thread::yield_now();
    }
    match form & 3 {
        0 | 1 => true,
        2 => false,
        // The client can still be heard.
        _ => stream.shutdown(Shutdown::Write).is_ok(),
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let all = |form: u8, answers: &[(u8, &str)]| {
        let answers = answers.iter().map(|(form, text)| [&[*form], text.as_bytes()].concat());
        [vec![form], answers.collect::<Vec<_>>().join(&BETWEEN)].concat()
    };
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let json = "HTTP/1.1 201 Created\r\nLocation: /a/7\r\nContent-Length: 10\r\n\r\n{\"id\":7.5}";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n4;a=\"b\"\r\nid=9\r\n0\r\nX: 1\r\n\r\n";
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello";
    let until_close = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nuntil the end";
    let hints = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 N\r\n\r\n";
    vec![
        all(0, &[(0, ok), (4, ok), (28, ok), (0, ok), (0, ok), (0, ok)]),
        all(1, &[(0, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"), (0, ok), (0, ok)]),
        all(0b101_1110, &[(0, json), (12, json), (0, ok), (3, ok), (0, chunked)]),
        all(0b010_0010, &[(0, ok), (2, ok), (8, "HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")]),
        all(0b001_0000, &[(0, chunked), (20, chunked), (2, chunked), (3, &chunked[..70])]),
        all(0, &[(2, cut), (3, cut), (2, until_close), (3, until_close), (2, ""), (3, "")]),
        all(0, &[(0, hints), (4, hints), (0, "HTTP/1.1 101 Switching Protocols\r\n\r\n"), (0, "SSH-2.0\r\n")]),
        all(
            0,
            &[
                (0, "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\nContent-Length: 2\r\n\r\nxx"),
                (2, "HTTP/1.1 OK\r\n\r\n"),
            ],
        ),
        all(0b011_1110, &[(0, json), (0, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc too long"), (0, cut)]),
    ]
}
