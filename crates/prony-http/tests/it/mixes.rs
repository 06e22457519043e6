//! Tests of several kinds of requests in one phase, and of connections that think.

use std::collections::BTreeSet;

use prony_model::http::{BodySpec, ExpectedStatuses, HttpAmount, HttpSpec, Part, RequestKind, RequestRate};
use prony_model::latency::{Recorder, percentile};
use prony_model::reading::Reading;
use prony_model::spec::Arrivals;
use prony_model::units::{Nanos, PerSecond};

use crate::host::{Runner, assert_whole, http, rate_of, requests, text, trial};
use crate::server::{Act, OK, Server};
use crate::values::{drain, plain, recording, template};

/// In a closed and in an open loop: every request is of one kind, and each kind has its own counts and latencies.
#[test]
fn mix_sends_each_kind_by_its_weight_and_accounts_for_it() {
    const ALL: u64 = 2_000;
    for rate in [None, Some(4_000.0)] {
        let (server, sent) = recording(|path, _| match path {
            "/head" => "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n".to_owned(),
            path if path.ends_with('7') => "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
            _ => OK.to_owned(),
        });
        let single = requests(&server, template(&[plain("/read/"), Part::Number]), ALL);
        let arrivals = |rate| Arrivals { rate: PerSecond::new(rate).unwrap(), poisson: false };
        let kind = |name: &str, weight, change: &dyn Fn(&mut RequestKind)| {
            let mut kind = RequestKind { name: Some(name.to_owned()), weight, ..single.kinds[0].clone() };
            change(&mut kind);
            kind
        };
        let write = kind("write", 3.0, &|kind| {
            (kind.method, kind.path) = ("POST".to_owned(), text("/write"));
            kind.body = Some(BodySpec::Text(template(&[plain("body "), Part::Number])));
        });
        let head = kind("head", 1.0, &|kind| (kind.method, kind.path) = ("HEAD".to_owned(), text("/head")));
        let kinds = vec![kind("read", 6.0, &|_| ()), write, head];
        let spec = HttpSpec { kinds, rate: rate.map(|rate| RequestRate::Constant(arrivals(rate))), ..single.clone() };
        let mut runner = Runner::new(trial(vec![("mix", http(spec))]));
        let report = runner.phase(0).unwrap();
        runner.stop().unwrap();
        assert_whole(&report, ALL);
        let received = drain(&sent);
        let sent_to = |begin: &str| received.iter().filter(|(path, _)| path.starts_with(begin)).count() as u64;
        let counts = report.requests.as_ref().unwrap();
        let mut sums = (0, 0);
        for (name, share, begin) in [("read", 0.6, "/read/"), ("write", 0.3, "/write"), ("head", 0.1, "/head")] {
            let part = counts.parts.iter().find(|part| part.name == format!("kind.{name}")).unwrap();
            assert_eq!(part.ok + part.errors, sent_to(begin), "{name}");
            let expected = share * ALL as f64;
            // Five standard deviations; the seed is fixed.
            assert!(((part.ok + part.errors) as f64 - expected).abs() < 5.0 * expected.sqrt(), "{part:?}");
            let failing = received.iter().filter(|(path, _)| path.starts_with(begin) && path.ends_with('7')).count();
            assert_eq!(part.errors, failing as u64, "{name}");
            let latency = Recorder::from_record(&part.latency).unwrap();
            assert_eq!((latency.succeeded(), latency.failed()), (part.ok, part.errors));
            sums = (sums.0 + part.ok, sums.1 + part.errors);
        }
        assert_eq!(sums, (report.operations, report.errors));
        let bodies: BTreeSet<&String> =
            received.iter().filter(|(path, _)| path == "/write").map(|(_, body)| body).collect();
        assert_eq!(counts.bodies, Some(bodies.len() as u64), "only requests with a body");
        let paths: BTreeSet<&String> = received.iter().map(|(path, _)| path).collect();
        assert_eq!(counts.paths, paths.len() as u64);
    }
}

#[test]
fn statuses_are_expected_of_each_kind() {
    let (server, _) = recording(|_, _| "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_owned());
    let single = requests(&server, text("/"), 200);
    let kind = |name: &str, expect: &[u16]| RequestKind {
        name: Some(name.to_owned()),
        expect: ExpectedStatuses(expect.to_vec()),
        ..single.kinds[0].clone()
    };
    let kinds = vec![kind("absent", &[200, 404]), kind("present", &[])];
    let mut runner = Runner::new(trial(vec![("mix", http(HttpSpec { kinds, ..single.clone() }))]));
    let report = runner.phase(0).unwrap();
    runner.stop().unwrap();
    assert_whole(&report, 200);
    let part = |name| report.requests.as_ref().unwrap().parts.iter().find(|part| part.name == name).unwrap();
    let (absent, present) = (part("kind.absent"), part("kind.present"));
    assert!(absent.ok > 0 && absent.errors == 0 && present.ok == 0 && present.errors > 0, "{absent:?} {present:?}");
    assert_eq!(report.error_texts, [("status 404".to_owned(), present.errors)].into());
}

/// The response time law of closed systems: requests a second are the connections over the time that each takes for a request, the
/// answer and the thinking. Whatever the machine does, connections cannot send more.
#[test]
fn connections_think_between_an_answer_and_the_next_request() {
    let (server, sent) = recording(|_, _| OK.to_owned());
    let think = Nanos::from_millis(20);
    let amount = HttpAmount::Duration(Nanos::from_secs(2));
    let spec = HttpSpec { think, amount, connections: 30, ..requests(&server, text("/"), 0) };
    let mut runner = Runner::new(trial(vec![("think", http(spec))]));
    let report = runner.phase(0).unwrap();
    runner.stop().unwrap();
    assert_whole(&report, drain(&sent).len() as u64);
    // 3,000 requests, and five standard deviations.
    let most = 30.0 * 2.0 / think.as_secs_f64();
    assert!((report.operations as f64) < most + 5.0 * most.sqrt(), "{}", report.operations);
    assert!(report.operations > 100, "{}", report.operations);
    let waited = Recorder::from_record(&report.histograms[0]).unwrap();
    // Were the thinking in the latencies too, both together would take more time than the connections have: about 1.7 times as
    // much. The mean of 3,000 times has a standard deviation of 2 %.
    let Reading::Measured(latency) = percentile(&waited, 0.5) else { panic!("too few") };
    let each = latency / 1e9 + think.as_secs_f64();
    assert!(each * report.operations as f64 / 2.0 < 30.0 * 1.15, "{each} {}", report.operations);

    // The first of them come one after another, the last near the end, and nothing of the rate is left out.
    let spec = HttpSpec { think: Nanos::from_secs(1), amount, connections: 30, ..requests(&server, text("/"), 0) };
    let mut runner = Runner::new(trial(vec![("think", http(spec))]));
    let report = runner.phase(0).unwrap();
    runner.stop().unwrap();
    let rate = &report.requests.as_ref().unwrap().rate;
    assert!(rate.measured().is_some_and(|rate| *rate > 0.0), "{rate:?}");
}

/// Also where answers come after the end, to requests of the warm-up, or later than a schedule wants them.
#[test]
fn rates_of_the_kinds_add_up_to_that_of_the_phase() {
    let server = Server::new(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        Act::text(OK)
    });
    let single = requests(&server, text("/"), 60);
    let named = |name: &str| RequestKind { name: Some(name.to_owned()), ..single.kinds[0].clone() };
    let kinds = vec![named("a"), named("b")];
    let (warm_up, second) = (Nanos::from_millis(150), HttpAmount::Duration(Nanos::from_secs(1)));
    let rate = RequestRate::Constant(Arrivals { rate: PerSecond::new(100.0).unwrap(), poisson: false });
    let short = Nanos::from_millis(300);
    for spec in [
        HttpSpec { kinds: kinds.clone(), ..single.clone() },
        HttpSpec { kinds: kinds.clone(), warm_up, ..single.clone() },
        HttpSpec { kinds: kinds.clone(), amount: second, ..single.clone() },
        HttpSpec { kinds: kinds.clone(), amount: second, warm_up, ..single.clone() },
        HttpSpec { kinds, amount: second, rate: Some(rate), timeout: short, ..single.clone() },
    ] {
        let mut runner = Runner::new(trial(vec![("mix", http(spec))]));
        let report = runner.phase(0).unwrap();
        runner.stop().unwrap();
        let parts = &report.requests.as_ref().unwrap().parts;
        let sum: f64 = parts.iter().map(|part| part.rate.measured().unwrap()).sum();
        let of_all = rate_of(&report);
        assert!(parts.len() == 2 && report.operations > 0 && (sum / of_all - 1.0).abs() < 1e-9, "{sum} {of_all}");
    }
}
