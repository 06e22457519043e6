//! Tests of the host of a trial's load, over the two ends of a socket, against a server of the test's own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use prony_http::{HostError, Trial, host};
use prony_model::http::{BodySpec, HttpAmount, HttpSpec, Part, Template};
use prony_model::link::{Link, LinkError, Progress};
use prony_model::protocol::{FromWorker, PhaseReport, ToWorker};
use prony_model::spec::{Action, Limits, Order, PhaseSpec, Subject, TrialSpec};
use prony_model::units::Nanos;

use crate::server::{Act, OK, PATIENT, Server};

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
            let trial = Trial { spec: &spec, seed: 7, throughput: Nanos::from_millis(100) };
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
        Some(*report)
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
    }
}

pub(crate) fn text(text: &str) -> Template {
    Template(vec![Part::Text(text.to_owned())])
}

/// So many requests of a path in a closed loop.
pub(crate) fn requests(server: &Server, path: Template, requests: u64) -> HttpSpec {
    HttpSpec {
        server: format!("http://{}", server.address),
        path,
        method: "GET".to_owned(),
        headers: Vec::new(),
        body: None,
        connections: 4,
        threads: 2,
        rate: None,
        amount: HttpAmount::Requests(requests),
        warm_up: Nanos::ZERO,
        timeout: PATIENT,
        expect: Vec::new(),
        order: Order::Record,
        collection: None,
        save: BTreeMap::new(),
        other_machines: false,
    }
}

pub(crate) fn http(spec: HttpSpec) -> Action {
    Action::Http(Box::new(spec))
}

/// Each request ended in one way.
pub(crate) fn assert_whole(report: &PhaseReport, requests: u64) {
    assert_eq!(report.operations + report.errors + report.skipped, requests, "{report:#?}");
}

#[test]
fn phases_are_announced_and_reported() {
    let server = Server::new(|asking| {
        assert!(asking.head.starts_with("GET /x/") || asking.body == b"hello", "{}", asking.head);
        Act::text(OK)
    });
    let number = Template(vec![Part::Text("/x/".to_owned()), Part::Number]);
    let post = HttpSpec {
        method: "POST".to_owned(),
        body: Some(BodySpec::Text(text("hello"))),
        headers: vec![("X-A".to_owned(), text("b"))],
        ..requests(&server, text("/"), 50)
    };
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
    assert!(write.notes.iter().any(|note| note.contains("same body")), "{:?}", write.notes);
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
