//! Tests which figures of requests are compared, where not as many of them succeeded in two trials of a block.

use prony_model::http::{HttpAmount, RequestKind};

use super::*;

/// A trial that inserts with this method, and then reads.
fn served(method: &str, amount: &str) -> TrialSpec {
    let server = "[[service]]\nname = \"api\"\ncommand = [\"serve\", \"{port}\"]\n";
    let phase = |name: &str, method: &str| {
        format!(
            "[[phase]]\nname = \"{name}\"\nhttp = {{ service = \"api\", method = \"{method}\", path = \"/{{i}}\", {amount} }}\n"
        )
    };
    let text = format!("{server}{}{}", phase("insert", method), phase("read", "GET"));
    let raw = prony_experiment::parse(&text, "x.toml").unwrap();
    let experiment = prony_experiment::check(&raw, &Engines, &Default::default()).unwrap();
    experiment.variants()[0].spec.clone()
}

/// A trial in which so many of 10 inserts and of 10 reads succeeded.
fn done(inserts: f64, reads: f64) -> TrialRecord {
    let counts = |done: f64| [(Metric::Time, 1e9), (Metric::Operations, done), (Metric::Errors, 10.0 - done)];
    record(vec![phase("insert", &counts(inserts)), phase("read", &counts(reads))])
}

fn unequal(spec: &TrialSpec, name: &str, x: &TrialRecord, y: &TrialRecord) -> Option<String> {
    variants::unequal_offer(&variant_trials("x", spec, x), &variant_trials("y", spec, y), &name.parse().unwrap())
}

#[test]
fn times_after_unequal_writes_are_not_compared() {
    let (spec, all, few) = (served("POST", "requests = 10"), done(10.0, 10.0), done(8.0, 10.0));
    let why = "10 requests of `insert` succeeded in `x`, but 8 in `y`: the servers store other amounts";
    for name in ["read.time", "read.rate", "read.latency.p50"] {
        assert_eq!(unequal(&spec, name, &all, &few).as_deref(), Some(why), "{name}");
        assert_eq!(unequal(&spec, name, &few, &few), None, "{name}: both store as much");
    }
    assert_eq!(unequal(&spec, "read.rss.max", &all, &few), None, "memory is shown beside what is stored");
    assert_eq!(unequal(&spec, "insert.time", &all, &few), None, "nothing was written before it");
    assert_eq!(unequal(&spec, "read.time", &all, &done(10.0, 7.0)), None, "what the reads themselves did");
}

#[test]
fn requests_that_only_read_store_nothing() {
    for method in ["GET", "get", "HEAD", "OPTIONS"] {
        let spec = served(method, "requests = 10");
        assert_eq!(unequal(&spec, "read.time", &done(10.0, 10.0), &done(8.0, 10.0)), None, "{method}");
    }
    for method in ["PUT", "DELETE", "PATCH"] {
        let spec = served(method, "requests = 10");
        assert!(unequal(&spec, "read.time", &done(10.0, 10.0), &done(8.0, 10.0)).is_some(), "{method}");
    }
}

#[test]
fn state_of_a_server_that_prony_did_not_start_is_not_compared() {
    let spec = TrialSpec { services: Vec::new(), ..served("POST", "requests = 10") };
    assert_eq!(unequal(&spec, "read.time", &done(10.0, 10.0), &done(8.0, 10.0)), None);
}

#[test]
fn as_many_requests_as_planned_must_have_been_attempted() {
    let spec = served("POST", "requests = 10");
    let all = done(10.0, 10.0);
    let mut cut = done(10.0, 10.0);
    let readings = cut.phases[0].readings.get_mut("").unwrap();
    readings.insert(MetricKeyText(MetricKey::amount(Metric::Operations)), Reading::Measured(7.0));
    let why = "`x` attempted 10 operations, but `y` attempted 7";
    for name in ["insert.time", "insert.rate"] {
        assert_eq!(unequal(&spec, name, &all, &cut).as_deref(), Some(why), "{name}");
        assert_eq!(unequal(&spec, name, &all, &done(6.0, 10.0)), None, "{name}: failed requests were attempted too");
    }
    assert_eq!(unequal(&spec, "insert.latency.p50", &all, &cut), None, "of each request");
    let bounded = served("POST", "duration = \"1 s\"");
    assert_eq!(unequal(&bounded, "insert.rate", &all, &cut), None, "as many as fit");
}

/// Different plans are the difference that is measured.
#[test]
fn unequal_plans_of_requests_are_compared() {
    let spec = served("POST", "requests = 10");
    let (all, cut) = (done(10.0, 10.0), {
        let mut cut = done(10.0, 10.0);
        cut.phases[0] = phase("insert", &[(Metric::Time, 1e9), (Metric::Operations, 7.0), (Metric::Errors, 0.0)]);
        cut
    });
    let of = |other: &TrialSpec| {
        let (x, y) = (variant_trials("x", &spec, &all), variant_trials("y", other, &cut));
        variants::unequal_offer(&x, &y, &"insert.time".parse().unwrap())
    };
    assert!(of(&spec).is_some());
    let mut fewer = spec.clone();
    let Action::Http(http) = &mut fewer.phases[0].action else { panic!("requests") };
    http.amount = HttpAmount::Requests(7);
    assert_eq!(of(&fewer), None);
    let other_data = TrialSpec { data: super::spec("lmdb").data, ..spec.clone() };
    assert_eq!(of(&other_data), None);
}

#[test]
fn fewer_bodies_than_requests_are_a_finding() {
    let found = |more: &str, ok: f64, distinct: f64| {
        let spec = served("POST", &format!("requests = 10{more}"));
        let counts = [(Metric::Ok, ok), (Metric::SentDistinct, distinct)];
        let ran = record(vec![phase("insert", &counts), phase("read", &[])]);
        crate::guard::requests::check(&spec, &ran).map(|finding| finding.guard).collect::<Vec<_>>()
    };
    assert_eq!(found(", body = \"x\"", 10.0, 1.0), ["repeated_bodies"]);
    assert_eq!(found(", body = \"{i}\"", 10.0, 10.0), [""; 0]);
    assert_eq!(found(", body = \"{i}\"", 9.0, 10.0), [""; 0], "a request that failed has sent one too");
    assert_eq!(found("", 10.0, 1.0), [""; 0], "requests without a body");
    assert_eq!(found(", body = \"{i}\"", 2_000_000.0, 1_950_000.0), [""; 0], "an estimate may be too low");
}

#[test]
fn servers_that_wait_for_processors_beside_their_load_are_named() {
    let spec = |service: &str, load: &str| {
        let server = format!("[[service]]\nname = \"api\"\ncommand = [\"serve\", \"{{port}}\"]\n{service}\n");
        let http = format!("http = {{ service = \"api\", path = \"/\", requests = 9{load} }}\n");
        let raw = prony_experiment::parse(&format!("{server}[[phase]]\nname = \"p\"\n{http}"), "x.toml").unwrap();
        prony_experiment::check(&raw, &Engines, &Default::default()).unwrap().variants()[0].spec.clone()
    };
    let found = |spec: &TrialSpec, waited: f64, load: f64| {
        let own = [(Metric::Cpu, 1e9), (Metric::CpuWait, waited * 1e9), (Metric::Wall, 2e9)];
        let mut ran = record(vec![phase("p", &own)]);
        let key = MetricKeyText(MetricKey::amount(Metric::Cpu));
        ran.phases[0].readings.insert("load".to_owned(), [(key, Reading::Measured(load * 2e9))].into_iter().collect());
        crate::guard::requests::check(spec, &ran).map(|finding| finding.message).collect::<Vec<_>>()
    };
    let all = spec("", "");
    let message =
        "the servers waited for a processor for 25 % as long as they ran, while the load generator used 40 % of one";
    assert_eq!(found(&all, 0.25, 0.4), [message]);
    assert_eq!((found(&all, 0.05, 0.4), found(&all, 0.25, 0.05)), (vec![], vec![]), "one of the two is idle");
    assert_eq!(found(&all, 0.9, 0.4), [""; 0], "the load did not run for as long as they waited");
    assert_eq!(found(&spec("processors = [0]", ", processors = [1]"), 0.25, 0.4), [""; 0], "they share none");
    for (service, load) in
        [("processors = [0, 1]", ", processors = [1]"), ("processors = [0]", ""), ("", ", processors = [1]")]
    {
        assert_eq!(found(&spec(service, load), 0.25, 0.4), [message], "{service} {load}");
    }
}

#[test]
fn bodies_of_a_mix_are_compared_with_its_requests_that_have_one() {
    let mut spec = served("POST", "requests = 10, body = \"{i}\"");
    let Action::Http(http) = &mut spec.phases[0].action else { panic!("requests") };
    let one = http.kinds[0].clone();
    let write = RequestKind { name: Some("write".to_owned()), ..one.clone() };
    http.kinds = vec![write, RequestKind { name: Some("read".to_owned()), body: None, ..one }];
    let found = |distinct: f64| {
        let mut ran = record(vec![phase("insert", &[(Metric::Ok, 10.0), (Metric::SentDistinct, distinct)])]);
        for (kind, ok) in [("kind.write", 3.0), ("kind.read", 7.0)] {
            let key = MetricKeyText(MetricKey::amount(Metric::Ok));
            ran.phases[0].readings.insert(kind.to_owned(), [(key, Reading::Measured(ok))].into_iter().collect());
        }
        crate::guard::requests::check(&spec, &ran).map(|finding| finding.message).collect::<Vec<_>>()
    };
    assert_eq!(found(3.0), [""; 0]);
    assert_eq!(found(2.0), ["3 requests had an expected answer, but the number of distinct bodies sent is 2"]);
}
