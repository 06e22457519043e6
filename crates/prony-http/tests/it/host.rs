//! Tests of the host of a trial's load, over the two ends of a socket, against a server of the test's own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::thread::JoinHandle;

use prony_http::{HostError, Trial, host};
use prony_model::http::{
    BodySpec, ExpectedStatuses, HttpAmount, HttpSpec, Part, RequestKind, RequestRate, SaveSpec, SavedFrom, Template,
};
use prony_model::latency::Recorder;
use prony_model::link::{Link, LinkError, Progress};
use prony_model::protocol::{FromWorker, PhaseReport, ToWorker};
use prony_model::random::Stream;
use prony_model::record::LatencyKind;
use prony_model::spec::{Action, Arrivals, Limits, Order, PhaseSpec, Subject, TrialSpec};
use prony_model::units::{Nanos, PerSecond};
use proptest::prelude::*;

use crate::faults::random_act;
use crate::server::{Act, OK, PATIENT, Server};

/// The seed of all trials here.
pub(crate) const SEED: u64 = 7;

/// The host's end of a socket.
struct Line(BufReader<UnixStream>);

impl Link for Line {
    fn next(&mut self) -> Result<ToWorker, LinkError> {
        let mut text = String::new();
        match self.0.read_line(&mut text) {
            Ok(1..) => serde_json::from_str(&text).map_err(|error| LinkError::Broken(error.into())),
            _ => Err(LinkError::Closed),
        }
    }

    fn send(&mut self, message: FromWorker) -> Result<(), LinkError> {
        let text = serde_json::to_string(&message).unwrap();
        writeln!(self.0.get_mut(), "{text}").map_err(|_| LinkError::Closed)
    }
}

/// The runner's end, and a host on a thread.
pub(crate) struct Runner {
    stream: BufReader<UnixStream>,
    host: JoinHandle<Result<(), HostError>>,
}

impl Runner {
    pub(crate) fn new(spec: TrialSpec) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let host = std::thread::spawn(move || {
            let trial = Trial { spec: &spec, seed: SEED, throughput: Nanos::from_millis(100) };
            host(&mut Line(BufReader::new(theirs)), trial, &Progress::default())
        });
        let mut runner = Self { stream: BufReader::new(ours), host };
        assert!(matches!(runner.hear(), Some(FromWorker::Ready { effective: None, .. })));
        runner
    }

    fn hear(&mut self) -> Option<FromWorker> {
        let mut text = String::new();
        match self.stream.read_line(&mut text).unwrap() {
            0 => None,
            _ => Some(serde_json::from_str(&text).unwrap()),
        }
    }

    fn say(&mut self, message: &ToWorker) {
        let text = serde_json::to_string(message).unwrap();
        writeln!(self.stream.get_mut(), "{text}").unwrap();
    }

    /// Runs a phase, whose begin must come before its end; `None` where the host ended.
    pub(crate) fn phase(&mut self, asked: usize) -> Option<PhaseReport> {
        self.say(&ToWorker::Phase { index: asked });
        let FromWorker::Began { index, at: begin } = self.hear()? else { panic!("no begin") };
        let FromWorker::Ended { index: ended, at: end, report } = self.hear()? else { panic!("no end") };
        assert_eq!((index, ended), (asked, asked));
        assert!(begin <= end, "{begin} {end}");
        let mut report = *report;
        if let Some(requests) = report.requests.as_mut().filter(|requests| requests.lingers) {
            let FromWorker::Lingered { index, surplus } = self.hear()? else { panic!("no end of lingering") };
            assert_eq!(index, asked);
            requests.surplus = surplus;
        }
        Some(report)
    }

    pub(crate) fn stop(mut self) -> Result<(), HostError> {
        // A host that failed has closed its end.
        let _ = self.stream.get_mut().write_all(b"{\"do\":\"stop\"}\n");
        self.host.join().unwrap()
    }
}

/// A trial of these phases.
pub(crate) fn trial(phases: Vec<(&str, Action)>) -> TrialSpec {
    let phase = |(name, action): (&str, Action)| PhaseSpec {
        name: name.to_owned(),
        timed: true,
        action,
        background: None,
        limit: None,
    };
    TrialSpec {
        subject: Subject::Services,
        services: Vec::new(),
        data: Vec::new(),
        phases: phases.into_iter().map(phase).collect(),
        limits: Limits::default(),
        crashes: Vec::new(),
    }
}

pub(crate) fn text(text: &str) -> Template {
    Template(vec![Part::Text(text.to_owned())])
}

/// So many requests of a path in a closed loop.
pub(crate) fn requests(server: &Server, path: Template, requests: u64) -> HttpSpec {
    requests_of(&server.address.to_string(), path, requests)
}

/// The same to any address.
pub(crate) fn requests_of(address: &str, path: Template, requests: u64) -> HttpSpec {
    HttpSpec {
        server: format!("http://{address}"),
        kinds: vec![RequestKind {
            name: None,
            weight: 1.0,
            path,
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: None,
            expect: ExpectedStatuses::default(),
            answer: None,
            save: BTreeMap::new(),
        }],
        session: false,
        connections: 4,
        threads: 2,
        processors: Vec::new(),
        rate: None,
        think: Nanos::ZERO,
        amount: HttpAmount::Requests(requests),
        warm_up: Nanos::ZERO,
        timeout: PATIENT,
        retry: None,
        order: Order::Record,
        collection: None,
        other_machines: false,
        writes: None,
    }
}

/// Changes of the only kind of request of a load.
pub(crate) trait With {
    fn with(self, change: impl FnOnce(&mut RequestKind)) -> Self;
}

impl With for HttpSpec {
    fn with(mut self, change: impl FnOnce(&mut RequestKind)) -> Self {
        change(&mut self.kinds[0]);
        self
    }
}

pub(crate) fn http(spec: HttpSpec) -> Action {
    Action::Http(Box::new(spec))
}

/// Each request ended in one way, and all counts and histograms contain the same ones.
pub(crate) fn assert_whole(report: &PhaseReport, requests: u64) {
    let PhaseReport { operations, errors, skipped, .. } = *report;
    assert_eq!(operations + errors + skipped, requests, "{report:#?}");
    assert_eq!(report.error_texts.values().sum::<u64>(), errors, "{:?}", report.error_texts);
    let counted = |text: &str| {
        let texts = report.error_texts.iter().filter(|(key, _)| key.starts_with(text));
        texts.map(|(_, count)| count).sum::<u64>()
    };
    let counts = report.requests.as_ref().unwrap();
    let answered = operations + counted("status ") + counted("no value to save") + counted("wrong answer");
    assert_eq!(counts.statuses.values().sum::<u64>(), answered, "{report:#?}");
    assert_eq!((counts.timeouts, counts.unfinished), (counted("timeout"), counted("unfinished")));
    assert_eq!(report.throughput.as_ref().unwrap().operations.iter().sum::<u64>(), operations);
    for histogram in &report.histograms {
        // What never started has no latency from its real start.
        let failed = if histogram.kind == LatencyKind::Actual { errors } else { errors + skipped };
        assert_eq!((histogram.operation.as_str(), histogram.failed), ("request", failed));
        assert_eq!(Recorder::from_record(histogram).unwrap().succeeded(), operations);
    }
    let kinds: Vec<LatencyKind> = report.histograms.iter().map(|histogram| histogram.kind).collect();
    if report.lag.is_some() {
        assert_eq!(kinds, [LatencyKind::Intended, LatencyKind::Actual]);
    } else {
        assert_eq!((kinds, skipped, report.saturated), (vec![LatencyKind::Service], 0, false));
    }
}

#[test]
fn phases_are_announced_and_reported() {
    let server = Server::new(|asking| {
        assert!(asking.head.starts_with("GET /x/") || asking.body == b"hello", "{}", asking.head);
        Act::text(OK)
    });
    let number = Template(vec![Part::Text("/x/".to_owned()), Part::Number]);
    let post = requests(&server, text("/"), 50).with(|kind| {
        kind.method = "POST".to_owned();
        kind.body = Some(BodySpec::Text(text("hello")));
        kind.headers = vec![("X-A".to_owned(), text("b"))];
    });
    let spec = trial(vec![
        ("read", http(requests(&server, number, 200))),
        ("pause", Action::Pause(Nanos::from_millis(5))),
        ("write", http(post)),
    ]);
    let mut runner = Runner::new(spec);
    let read = runner.phase(0).unwrap();
    assert_whole(&read, 200);
    let counts = read.requests.unwrap();
    assert_eq!((read.operations, counts.paths, counts.bodies), (200, 200, None));
    assert_eq!((counts.statuses, counts.connections), (BTreeMap::from([(200, 200)]), 4));
    assert!(read.notes.is_empty(), "{:?}", read.notes);
    assert!(runner.phase(1).unwrap().time >= Nanos::from_millis(5));
    let write = runner.phase(2).unwrap();
    assert_whole(&write, 50);
    assert_eq!(write.requests.unwrap().bodies, Some(1));
    assert!(write.notes.is_empty(), "that bodies are the same is the guard's to say: {:?}", write.notes);
    runner.stop().unwrap();
}

#[test]
fn runner_that_asks_for_what_is_not_in_the_plan_ends_the_trial() {
    let spec = trial(vec![("write", Action::Verify)]);
    for (index, text) in [(0, "`verify` in phase `write`"), (1, "phase 1")] {
        let mut runner = Runner::new(spec.clone());
        assert_eq!(runner.phase(index), None);
        let error = runner.stop().unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(error.phase, (index == 0).then_some(0));
    }
    // A runner that has ended.
    let Runner { stream, host } = Runner::new(spec);
    drop(stream);
    assert!(host.join().unwrap().is_err());
}

/// Runs a trial of one phase.
fn only(spec: HttpSpec) -> PhaseReport {
    let mut runner = Runner::new(trial(vec![("load", http(spec))]));
    let report = runner.phase(0).unwrap();
    runner.stop().unwrap();
    report
}

fn rate(rate: f64) -> Option<RequestRate> {
    Some(RequestRate::Constant(Arrivals { rate: PerSecond::new(rate).unwrap(), poisson: false }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_request_of_a_phase_ends_in_exactly_one_way(
        seed: u64, number in 1u64..120, connections in 1u32..12, threads in 1u32..4, open: bool, saves: bool,
    ) {
        let stream = Mutex::new(Stream::new(seed));
        let server = Server::new(move |_| random_act(&mut stream.lock().unwrap()));
        let from = SavedFrom::Pattern("(o|c)".to_owned());
        let spec = HttpSpec {
            connections: connections.max(threads),
            threads,
            timeout: Nanos::from_millis(150),
            rate: rate(2_000.0).filter(|_| open),
            ..requests(&server, Template(vec![Part::Text("/".to_owned()), Part::Number]), number)
        };
        let save = BTreeMap::from([("x".to_owned(), SaveSpec { from, each: true })]);
        let report = only(spec.with(|kind| kind.save = save.into_iter().filter(|_| saves).collect()));
        assert_whole(&report, number);
        prop_assert_eq!(report.lag.is_some(), open);
    }
}

#[test]
fn open_loop_that_is_not_sustained_says_so() {
    let server = Server::new(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        Act::text(OK)
    });
    let report = only(HttpSpec {
        rate: rate(1_000.0),
        connections: 2,
        timeout: Nanos::from_millis(400),
        amount: HttpAmount::Duration(Nanos::from_millis(500)),
        ..requests(&server, text("/"), 0)
    });
    assert_whole(&report, 500);
    assert!(report.saturated && report.skipped > 300, "{} {}", report.saturated, report.skipped);
    assert!(report.lag.unwrap() >= Nanos::from_millis(100), "{:?}", report.lag);
    assert!(report.notes.iter().any(|note| note.starts_with("saturated: ")), "{:?}", report.notes);
    assert!(report.time >= Nanos::from_millis(500));
}

#[test]
fn warm_up_is_before_the_phase_and_in_no_figure() {
    let server = Server::new(|_| Act::text(OK));
    let warm_up = Nanos::from_millis(60);
    let spec = HttpSpec { warm_up, ..requests(&server, Template(vec![Part::Text("/".to_owned()), Part::Number]), 200) };
    let mut runner = Runner::new(trial(vec![("load", http(spec))]));
    runner.say(&ToWorker::Phase { index: 0 });
    let asked = std::time::Instant::now();
    let Some(FromWorker::Began { at: began, .. }) = runner.hear() else { panic!("no begin") };
    assert!(asked.elapsed() >= warm_up.to_duration());
    let Some(FromWorker::Ended { at: ended, report, .. }) = runner.hear() else { panic!("no end") };
    runner.stop().unwrap();
    assert_whole(&report, 200);
    assert!(report.time <= ended.since(began), "{} {}", report.time, ended.since(began));
    // Those of the warm-up are counted: they cost the server something.
    assert_eq!((report.requests.unwrap().connections, report.distinct), (4, Some(200)));
}

#[test]
fn answers_that_no_request_asked_for_are_never_expected_ones() {
    // Each second answer comes unasked, after the first one was taken and before the next request.
    let server = Server::new(|_| Act::Late(OK.as_bytes().to_vec(), 10));
    let report = only(HttpSpec { connections: 1, threads: 1, rate: rate(20.0), ..requests(&server, text("/"), 21) });
    assert_whole(&report, 21);
    let texts = &report.error_texts;
    // On a busy machine the unasked answer may be read together with the one before it, which then fails itself.
    let known =
        ["malformed answer: bytes that answer no request", "malformed answer: bytes after the end of the answer"];
    assert!(texts.keys().all(|text| known.iter().any(|known| text.starts_with(known))), "{texts:?}");
    // A connection is closed with the request that finds them, and the next one begins anew.
    let malformed: u64 = texts.values().sum();
    assert!(malformed >= 10 && report.operations + malformed == 21, "{} {texts:?}", report.operations);
    assert_eq!(report.notes, Vec::<String>::new());
}

/// On one of two connections more comes after its only answer, while the load waits for the other.
#[test]
fn more_than_the_last_answer_is_reported() {
    let asked = std::sync::atomic::AtomicU64::new(0);
    let server = Server::new(move |_| {
        if asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            return Act::Late(OK.as_bytes().to_vec(), 10);
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
        Act::text(OK)
    });
    let report = only(HttpSpec { connections: 2, threads: 1, ..requests(&server, text("/"), 2) });
    assert_whole(&report, 2);
    // On a busy machine both are read together, and the request fails itself.
    let surplus = report.requests.unwrap().surplus;
    assert_eq!((surplus.is_some() || report.errors == 1, report.answer), (true, None));
}

/// An answer too many that came right after the next request was sent was its answer, so that each later one was that of another
/// request; the last came after the load, and nothing was said.
#[test]
fn answer_too_many_in_mid_load_is_found_after_it() {
    let asked = std::sync::atomic::AtomicU64::new(0);
    let pause = std::time::Duration::from_millis(20);
    let server = Server::new(move |_| {
        std::thread::sleep(pause);
        // Two answers to the fifth request: the second one comes while the sixth is under way.
        if asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 4 {
            return Act::Late(OK.as_bytes().to_vec(), 10);
        }
        Act::text(OK)
    });
    let report = only(HttpSpec { connections: 1, threads: 1, ..requests(&server, text("/"), 20) });
    assert_whole(&report, 20);
    // On a busy machine both are read together, and a request fails itself.
    assert!(report.requests.unwrap().surplus.is_some() || report.errors > 0, "{:?}", report.error_texts);
}

/// Connections are kept open for a while after a load, which is in no time.
#[test]
fn time_in_which_connections_linger_is_in_no_phase() {
    let server = Server::new(|_| {
        std::thread::sleep(std::time::Duration::from_millis(600));
        Act::text(OK)
    });
    let mut runner = Runner::new(trial(vec![("load", http(requests(&server, text("/"), 1)))]));
    runner.say(&ToWorker::Phase { index: 0 });
    let Some(FromWorker::Began { at: began, .. }) = runner.hear() else { panic!("no begin") };
    let Some(FromWorker::Ended { at: ended, report, .. }) = runner.hear() else { panic!("no end") };
    let Some(FromWorker::Lingered { surplus: None, .. }) = runner.hear() else { panic!("no end of lingering") };
    // As long again as the answer took.
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = Nanos::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
    assert!(now.since(began) >= Nanos::from_millis(1_200), "{began} {now}");
    assert!(report.time <= ended.since(began));
    runner.stop().unwrap();
}

/// Two connections, and four requests that are due at nearly the same time. A closed loop has no request that waits.
#[test]
fn requests_that_wait_for_a_connection_are_counted() {
    let server = Server::new(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        Act::text(OK)
    });
    let spec = HttpSpec { connections: 2, threads: 1, ..requests(&server, text("/"), 4) };
    let open = only(HttpSpec { rate: rate(100_000.0), ..spec.clone() });
    let waited = |report: PhaseReport| report.requests.unwrap().waited_for_connection;
    assert_eq!((waited(open), waited(only(spec))), (Some(2), None));
}

/// The rate of a load's expected answers.
pub(crate) fn rate_of(report: &PhaseReport) -> f64 {
    *report.requests.as_ref().unwrap().rate.measured().unwrap()
}

/// One slow request had all others of its phase divided by its time.
#[test]
fn one_slow_answer_after_the_end_lengthens_no_other() {
    let (begin, is_slow) = (std::sync::OnceLock::new(), std::sync::atomic::AtomicBool::new(true));
    let server = Server::new(move |_| {
        let is_late = begin.get_or_init(std::time::Instant::now).elapsed() > std::time::Duration::from_millis(500);
        if is_late && is_slow.swap(false, std::sync::atomic::Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1_500));
        }
        Act::text(OK)
    });
    // Both connections have their first answers in the warm-up.
    let (warm_up, duration) = (Nanos::from_millis(300), Nanos::from_millis(600));
    let amount = HttpAmount::Duration(duration);
    let report = only(HttpSpec { amount, warm_up, connections: 2, ..requests(&server, text("/"), 0) });
    assert_whole(&report, report.operations);
    assert_eq!(report.time, duration);
    // Of the slow one, of another one that spans the end, and of two that span the begin a part counts, or nothing.
    let counted = rate_of(&report) * duration.as_secs_f64();
    assert!((report.operations as f64 - counted).abs() <= 2.0, "{counted} of {}", report.operations);
}

/// Answers that come after the end of the window count by the share of their time that lies in it.
#[test]
fn rate_of_a_given_time_is_not_above_what_the_server_does() {
    let server = Server::new(|_| {
        std::thread::sleep(std::time::Duration::from_millis(40));
        Act::text(OK)
    });
    let duration = Nanos::from_secs(1);
    let report = only(HttpSpec { amount: HttpAmount::Duration(duration), ..requests(&server, text("/"), 0) });
    assert_whole(&report, report.operations);
    assert!(report.operations >= 4 && report.time == duration, "{} {}", report.operations, report.time);
    let rate = rate_of(&report);
    assert!(rate <= 4.0 / 0.04, "{rate}");
}
