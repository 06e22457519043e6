//! Tests that nothing but counts is compared of requests whose answers had other statuses.

use prony_model::open_name::OpenName;

use super::requests::served;
use super::*;

/// A trial whose inserts were answered with these statuses, so many times each.
fn answered(statuses: &[(u16, f64)]) -> TrialRecord {
    let all: f64 = statuses.iter().map(|(_, count)| count).sum();
    let counts = [(Metric::Time, 1e9), (Metric::Operations, all), (Metric::Errors, 0.0)];
    let statuses = statuses.iter().map(|(status, count)| (Metric::Open(OpenName::status(*status).unwrap()), *count));
    let inserts: Vec<(Metric, f64)> = counts.iter().copied().chain(statuses).collect();
    record(vec![phase("insert", &inserts), phase("read", &counts)])
}

fn unequal(spec: &TrialSpec, name: &str, x: &TrialRecord, y: &TrialRecord) -> Option<String> {
    variants::unequal_offer([&variant_trials("x", spec, x), &variant_trials("y", spec, y)], &name.parse().unwrap())
}

const STORED: &[(u16, f64)] = &[(201, 500.0)];
const REDIRECTED: &[(u16, f64)] = &[(302, 490.0), (201, 10.0)];

/// A server that redirected to its login was called 3.7 times as fast as one that stored records.
#[test]
fn times_of_answers_with_other_statuses_are_not_compared() {
    let (spec, stored, redirected) = (served("POST", "requests = 500"), answered(STORED), answered(REDIRECTED));
    let why = "expected answers of `insert` had other statuses: 500 of 201 in `x`, but 490 of 302 and 10 of 201 in `y`";
    for name in ["insert.time", "insert.rate", "insert.latency.p50", "insert.kind.a.latency.p99", "insert.cpu"] {
        assert_eq!(unequal(&spec, name, &stored, &redirected).as_deref(), Some(why), "{name}");
        assert_eq!(unequal(&spec, name, &redirected, &redirected), None, "{name}");
    }
    for name in ["insert.status.201", "insert.ok", "insert.errors", "insert.operations"] {
        assert_eq!(unequal(&spec, name, &stored, &redirected), None, "{name}: what differs");
    }
    let created = answered(&[(200, 500.0)]);
    assert_eq!(unequal(&spec, "insert.rate", &stored, &created), None, "both say that it is done");
    let rarely = answered(&[(201, 497.0), (302, 3.0)]);
    assert_eq!(unequal(&spec, "insert.rate", &stored, &rarely), None);
    let with_errors = answered(&[(201, 500.0), (500, 300.0)]);
    assert_eq!(
        unequal(&spec, "insert.rss.max", &stored, &with_errors),
        None,
        "status 500 is an error, which others report"
    );
}

#[test]
fn statuses_that_differ_by_chance_are_compared() {
    let spec = served("GET", "duration = \"1 s\"");
    let of = |fresh: f64, known: f64| answered(&[(200, fresh), (304, known)]);
    let compared = |x, y| unequal(&spec, "insert.rate", &x, &y).is_none();
    assert!(compared(of(50.0, 50.0), of(55.0, 45.0)));
    assert!(compared(of(500.0, 500.0), of(1_500.0, 1_500.0)), "as large shares");
    assert!(!compared(of(5_000.0, 5_000.0), of(5_500.0, 4_500.0)), "so many answers do not differ by chance");
    assert!(!compared(of(50.0, 50.0), of(90.0, 10.0)));
}

/// A server that queued requests, or sent a part of a page, was compared with one that did all of the work.
#[test]
fn statuses_that_say_something_else_are_classes_of_their_own() {
    let unequal = |method: &str, x: u16, y: u16| {
        let (x, y) = (answered(&[(x, 500.0)]), answered(&[(y, 500.0)]));
        unequal(&served(method, "requests = 500"), "insert.rate", &x, &y).is_some()
    };
    for (method, x, y) in
        [("POST", 201, 202), ("GET", 200, 206), ("GET", 302, 304), ("GET", 200, 204), ("HEAD", 200, 204)]
    {
        assert!(unequal(method, x, y), "{method} {x} {y}");
    }
    for (method, x, y) in [("PUT", 200, 204), ("PUT", 201, 204), ("DELETE", 200, 204), ("POST", 302, 303)] {
        assert!(!unequal(method, x, y), "{method} {x} {y}");
    }
}

/// Of such a phase it is not known which requests were answered with 204.
#[test]
fn answers_without_content_are_compared_where_some_requests_write() {
    let with = |method: &str| {
        let mut spec = served("GET", "requests = 500");
        let Action::Http(http) = &mut spec.phases[0].action else { panic!("requests") };
        let kind = |method: &str| RequestKind {
            name: Some(method.to_owned()),
            method: method.to_owned(),
            ..http.kinds[0].clone()
        };
        http.kinds = vec![kind("GET"), kind(method)];
        spec
    };
    let (full, without) = (answered(&[(200, 500.0)]), answered(&[(200, 250.0), (204, 250.0)]));
    assert_eq!(unequal(&with("DELETE"), "insert.rate", &full, &without), None);
    assert!(unequal(&with("HEAD"), "insert.rate", &full, &without).is_some());
}

#[test]
fn nothing_is_compared_after_writes_whose_answers_had_other_statuses() {
    let (stored, redirected) = (answered(STORED), answered(REDIRECTED));
    for (method, refused) in [("POST", true), ("GET", false)] {
        let spec = served(method, "requests = 500");
        for name in ["read.time", "read.rss.max"] {
            let why = unequal(&spec, name, &stored, &redirected);
            assert_eq!(why.is_some(), refused, "{method} {name}");
            assert!(why.is_none_or(|why| why.ends_with("in `y`: other amounts may be stored")));
        }
        assert_eq!(unequal(&spec, "read.errors", &stored, &redirected), None, "{method}");
    }
}

/// The statuses of such phases differ as their mixes do.
#[test]
fn latencies_of_kinds_are_compared_where_the_mix_differs() {
    let mix = |weight: f64| {
        let mut spec = served("GET", "requests = 500");
        let Action::Http(http) = &mut spec.phases[0].action else { panic!("requests") };
        let kind = |name: &str, weight| RequestKind { name: Some(name.to_owned()), weight, ..http.kinds[0].clone() };
        http.kinds = vec![kind("a", 1.0), kind("b", weight)];
        spec
    };
    let (one, other, x, y) = (mix(1.0), mix(3.0), answered(STORED), answered(REDIRECTED));
    let (x, y) = (variant_trials("x", &one, &x), variant_trials("y", &other, &y));
    assert_eq!(variants::unequal_offer([&x, &y], &"insert.kind.a.latency.p50".parse().unwrap()), None);
}
