//! Tests which figures of requests are compared, where not as many of them succeeded in two trials of a block.

use prony_model::http::{HttpAmount, RequestKind};
use std::sync::Arc;

use prony_model::record::effective::EffectiveServices;
use prony_model::record::machine::CpuTicks;
use prony_model::record::{Answer, Effective, EffectiveProgram, Moment};

use super::*;

/// A trial that inserts with this method, and then reads.
pub(super) fn served(method: &str, amount: &str) -> TrialSpec {
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
    variants::unequal_offer([&variant_trials("x", spec, x), &variant_trials("y", spec, y)], &name.parse().unwrap())
}

#[test]
fn times_after_unequal_writes_are_not_compared() {
    let (spec, all, few) = (served("POST", "requests = 10"), done(10.0, 10.0), done(8.0, 10.0));
    let why = "10 requests of `insert` succeeded in `x`, but 8 in `y`: other amounts may be stored";
    for name in ["read.time", "read.rate", "read.latency.p50", "read.rss.max"] {
        assert_eq!(unequal(&spec, name, &all, &few).as_deref(), Some(why), "{name}");
        assert_eq!(unequal(&spec, name, &few, &few), None, "{name}: both store as much");
    }
    assert_eq!(unequal(&spec, "read.errors", &all, &few), None, "how requests ended is compared whatever is stored");
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

/// Where a request is repeated, the server may have stored it before.
#[test]
fn nothing_is_compared_after_writes_that_were_repeated() {
    let spec = TrialSpec { services: Vec::new(), ..served("POST", "requests = 10") };
    assert!(unequal(&spec, "read.time", &done(10.0, 10.0), &done(8.0, 10.0)).is_some(), "of a server by url, too");
    let mut repeated = done(10.0, 10.0);
    let readings = repeated.phases[0].readings.get_mut("").unwrap();
    readings.insert(MetricKeyText(MetricKey::amount(Metric::Retries)), Reading::Measured(5.0));
    let why = "0 requests of `insert` were repeated in `x`, but 5 in `y`: other amounts may be stored";
    assert_eq!(unequal(&spec, "read.time", &done(10.0, 10.0), &repeated).as_deref(), Some(why));
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

/// A variant that was to send a hundredth of the requests was called faster.
#[test]
fn rates_of_unequal_plans_of_requests_are_compared_and_times_are_not() {
    let spec = served("POST", "requests = 10");
    let (all, cut) = (done(10.0, 10.0), {
        let mut cut = done(10.0, 10.0);
        cut.phases[0] = phase("insert", &[(Metric::Time, 1e9), (Metric::Operations, 7.0), (Metric::Errors, 0.0)]);
        cut
    });
    let of = |other: &TrialSpec| {
        let (x, y) = (variant_trials("x", &spec, &all), variant_trials("y", other, &cut));
        ["insert.time", "insert.rate"].map(|name| variants::unequal_offer([&x, &y], &name.parse().unwrap()))
    };
    let why = Some("`x` attempted 10 operations, but `y` attempted 7".to_owned());
    assert_eq!(of(&spec), [why.clone(), why.clone()]);
    let mut fewer = spec.clone();
    let Action::Http(http) = &mut fewer.phases[0].action else { panic!("requests") };
    http.amount = HttpAmount::Requests(7);
    assert_eq!(of(&fewer), [why.clone(), None]);
    let other_data = TrialSpec { data: super::spec("lmdb").data, ..spec.clone() };
    assert_eq!(of(&other_data), [why, None]);
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

/// CPU time of services was refused in an open loop for the waits of a store's worker, which they do not have.
#[test]
fn cpu_time_of_services_is_compared_where_as_many_requests_were_answered_at_a_rate() {
    let ran = |ok: f64, cpu: f64| {
        let counts = [(Metric::Operations, ok), (Metric::Errors, 1_000.0 - ok), (Metric::Cpu, cpu)];
        let mut ran = record(vec![phase("insert", &counts), phase("read", &counts)]);
        let of_service = ran.phases[0].readings[""].clone();
        ran.phases[0].readings.insert("api".to_owned(), of_service);
        ran
    };
    for amount in ["duration = \"9 s\", rate = 100", "requests = 1000, rate = 100"] {
        let spec = served("GET", amount);
        for name in ["insert.cpu", "insert.api.cpu"] {
            let of = |ok, cpu| unequal(&spec, name, &ran(1_000.0, 1e9), &ran(ok, cpu));
            assert_eq!((of(1_000.0, 2e9), of(990.0, 2e9)), (None, None), "{name} {amount}");
        }
        let said = unequal(&spec, "insert.wall", &ran(1_000.0, 1e9), &ran(1_000.0, 1e9));
        assert_eq!(said.as_deref(), Some("`insert` starts its operations on a schedule: compare its latencies"));
    }
    let spec = served("GET", "duration = \"9 s\", rate = 100");
    for (ok, cpu) in [(500.0, 0.5e9), (900.0, 0.8e9)] {
        let said = unequal(&spec, "insert.api.cpu", &ran(1_000.0, 1e9), &ran(ok, cpu)).unwrap_or_default();
        assert!(said.contains("`x` did 1000 operations but `y`"), "{said}");
    }
}

/// 58 % were the difference over one connection, the default then, of servers that differ by 5 %.
#[test]
fn requests_that_waited_for_a_connection_are_a_finding() {
    let spec = served("GET", "duration = \"9 s\", rate = 100, connections = 7");
    let found = |waited: Option<f64>, outcome: Outcome| {
        let counts = [(Metric::Ok, 900.0), (Metric::Errors, 50.0), (Metric::Skipped, 50.0)];
        let waited = waited.map(|waited| (Metric::WaitedForConnection, waited));
        let mut ran = record(vec![
            phase("insert", &counts.into_iter().chain(waited).collect::<Vec<_>>()),
            phase("read", &counts),
        ]);
        ran.ending = Ending { outcome, phase: Some("insert".to_owned()), ..ran.ending };
        let findings = crate::guard::requests::check(&spec, &ran);
        findings.map(|finding| (finding.guard, finding.message)).collect::<Vec<_>>()
    };
    let said = |share: &str| {
        let of = "of 1000 requests waited for a connection, since all were in use: latencies and rates are those over at most 7 connections";
        vec![("connections_in_use".to_owned(), format!("{share} {of}"))]
    };
    assert_eq!(found(Some(11.0), Outcome::Ok), said("1.1 %"));
    assert_eq!(found(Some(10.0), Outcome::Ok), [], "a pause");
    assert_eq!(found(Some(1.0), Outcome::Saturated), said("0.1 %"));
    assert_eq!((found(Some(0.0), Outcome::Saturated), found(None, Outcome::Saturated)), (vec![], vec![]));
}

#[test]
fn servers_that_lack_what_their_load_uses_are_named() {
    let spec = |service: &str, load: &str| {
        let server = format!("[[service]]\nname = \"api\"\ncommand = [\"serve\", \"{{port}}\"]\n{service}\n");
        let http = format!("http = {{ service = \"api\", path = \"/\", requests = 9{load} }}\n");
        let raw = prony_experiment::parse(&format!("{server}[[phase]]\nname = \"p\"\n{http}"), "x.toml").unwrap();
        prony_experiment::check(&raw, &Engines, &Default::default()).unwrap().variants()[0].spec.clone()
    };
    // In 2 s, seconds of the servers and of the load, on a machine of two processors.
    let found = |spec: &TrialSpec, cpu: f64, load: f64| {
        let mut ran = record(vec![phase("p", &[(Metric::Cpu, cpu * 1e9), (Metric::Wall, 2e9)])]);
        let key = MetricKeyText(MetricKey::amount(Metric::Cpu));
        ran.phases[0].readings.insert("load".to_owned(), [(key, Reading::Measured(load * 1e9))].into_iter().collect());
        let moment = |seconds: u64| Moment {
            at: Nanos::from_secs(seconds),
            cpu: Reading::Measured(CpuTicks { all: 200 * seconds, ..CpuTicks::default() }),
            ..Moment::default()
        };
        ran.conditions.machine =
            Reading::Measured(Machine { before: moment(10), after: moment(15), ..Machine::default() });
        crate::guard::requests::check(spec, &ran).map(|finding| finding.message).collect::<Vec<_>>()
    };
    let of = |processors: &str| {
        format!(
            "the servers and the load generator used 95 % of the time of the {processors} that they may share, the generator 20 %: what \
             it used, the servers lacked"
        )
    };
    let (all, one) = (spec("", ""), spec("processors = [1]", ", processors = [1]"));
    assert_eq!(found(&all, 3.0, 0.8), [of("2 processors")]);
    assert_eq!(
        (found(&all, 1.5, 0.4), found(&one, 1.5, 0.4)),
        (vec![], vec![of("1 processor")]),
        "another one was idle"
    );
    assert_eq!(found(&all, 3.9, 0.1), [""; 0], "the load used next to nothing");
    assert_eq!(found(&spec("processors = [0]", ", processors = [1]"), 1.9, 1.9), [""; 0], "they share none");
    assert_eq!(found(&spec("processors = [0]", ""), 3.0, 0.8), [of("2 processors")], "the load runs anywhere");
}

#[test]
fn other_mixes_are_compared_by_the_latencies_of_their_kinds_only() {
    let mix = |weights: [f64; 2]| {
        let mut spec = served("GET", "duration = \"1 s\"");
        let Action::Http(http) = &mut spec.phases[1].action else { panic!("requests") };
        let one = http.kinds[0].clone();
        let kind = |(name, weight): (&str, f64)| RequestKind { name: Some(name.to_owned()), weight, ..one.clone() };
        http.kinds = ["a", "b"].into_iter().zip(weights).map(kind).collect();
        spec
    };
    let ran = done(10.0, 10.0);
    let unequal = |x: [f64; 2], y: [f64; 2], name: &str| {
        let (x, y) = (mix(x), mix(y));
        let (x, y) = (variant_trials("x", &x, &ran), variant_trials("y", &y, &ran));
        variants::unequal_offer([&x, &y], &name.parse().unwrap())
    };
    let why = "in `read` they send other mixes of requests: compare the latencies of one kind, such as `read.kind.NAME.latency.p50`";
    for name in ["read.rate", "read.latency.p99", "read.kind.a.rate"] {
        assert_eq!(unequal([9.0, 1.0], [1.0, 1.0], name).as_deref(), Some(why), "{name}");
        assert_eq!(unequal([9.0, 3.0], [3.0, 1.0], name), None, "{name}: the same shares");
    }
    for name in ["read.kind.a.latency.p99", "read.rss.max"] {
        assert_eq!(unequal([9.0, 1.0], [1.0, 1.0], name), None, "{name}");
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

/// A session that creates a record and renames it sent each document twice, and was said to contend for half as many records.
#[test]
fn requests_of_a_session_may_send_the_same_document() {
    let mut spec = served("POST", "requests = 10, body = \"{i}\"");
    let Action::Http(http) = &mut spec.phases[0].action else { panic!("requests") };
    let one = http.kinds[0].clone();
    http.kinds = ["create", "rename"].map(|name| RequestKind { name: Some(name.to_owned()), ..one.clone() }).to_vec();
    let found = |session: bool, distinct: f64| {
        let mut spec = spec.clone();
        let Action::Http(http) = &mut spec.phases[0].action else { panic!("requests") };
        http.session = session;
        let mut ran = record(vec![phase("insert", &[(Metric::Ok, 19.0), (Metric::SentDistinct, distinct)])]);
        for (kind, ok) in [("kind.create", 10.0), ("kind.rename", 9.0)] {
            let key = MetricKeyText(MetricKey::amount(Metric::Ok));
            ran.phases[0].readings.insert(kind.to_owned(), [(key, Reading::Measured(ok))].into_iter().collect());
        }
        crate::guard::requests::check(&spec, &ran).map(|finding| finding.message).collect::<Vec<_>>()
    };
    let said = |ok, distinct| {
        vec![format!("{ok} requests had an expected answer, but the number of distinct bodies sent is {distinct}")]
    };
    assert_eq!((found(true, 10.0), found(true, 9.0)), (vec![], said(10, 9)));
    assert_eq!(found(false, 10.0), said(19, 10), "each request of a mix has a record of its own");
}

/// A server that answers with less does less, and answers more requests in a given time.
#[test]
fn rates_of_answers_with_other_rows_are_not_compared() {
    let spec = served("GET", "duration = \"5 s\", answer = { rows = \"row\" }");
    let ran = |operations: f64, rows: f64| {
        let counts = [(Metric::Time, 1e9), (Metric::Operations, operations), (Metric::Rows, rows)];
        record(vec![phase("insert", &[]), phase("read", &counts)])
    };
    let (ten, five) = (ran(100.0, 1_000.0), ran(300.0, 1_500.0));
    for name in ["read.rate", "read.operations", "read.latency.p50"] {
        let why = unequal(&spec, name, &ten, &five).unwrap_or_default();
        assert!(why.contains("found 10.0 rows, but one of `y` 5.0"), "{name}: {why}");
        assert_eq!(unequal(&spec, name, &ten, &ran(300.0, 3_000.0)), None, "{name}: as many rows in an answer");
    }
    assert_eq!(unequal(&spec, "read.rss.max", &ten, &five), None, "no time");
    let bounded = served("GET", "requests = 100, answer = { rows = \"row\" }");
    assert_eq!(unequal(&bounded, "read.time", &ten, &ran(100.0, 500.0)), None, "the answers themselves are compared");
}

/// In a closed loop it stores as much as fits.
#[test]
fn nothing_is_compared_after_a_warm_up_that_writes() {
    let spec = served("POST", "requests = 10, warm_up = \"1 s\"");
    let why = unequal(&spec, "read.rate", &done(10.0, 10.0), &done(10.0, 10.0)).unwrap_or_default();
    assert!(why.starts_with("how much the warm-up of `insert` stored is not known"), "{why}");
    assert_eq!(unequal(&spec, "insert.rate", &done(10.0, 10.0), &done(10.0, 10.0)), None);
    assert!(!super::super::questions::same(&spec, &spec, "read"));
}

#[test]
fn answers_to_other_requests_need_not_agree() {
    let same = |x: &str, y: &str| super::super::questions::same(&served("GET", x), &served("GET", y), "read");
    let [one, two] = ["threads = 1, connections = 2", "threads = 2, connections = 2"];
    let ordered = |of: &str, order: &str| format!("{of}, requests = 10, order = \"{order}\"");
    assert!(same(&ordered(one, "shuffled"), &ordered(two, "shuffled")));
    assert!(!same(&ordered(one, "uniform"), &ordered(two, "uniform")));
    // Of five requests a thread with three of five connections has three, and with two of four every second one.
    let uniform = |connections: u32, threads: u32| {
        format!("requests = 10, order = \"uniform\", connections = {connections}, threads = {threads}")
    };
    assert!(!same(&uniform(5, 2), &uniform(4, 2)) && !same(&uniform(5, 2), &uniform(7, 2)));
    assert!(same(&uniform(4, 2), &uniform(6, 2)) && same(&uniform(5, 1), &uniform(8, 1)));
    assert!(same(&uniform(5, 2), &uniform(5, 2)));
    // A thread that has gone over its records begins anew with them.
    let over = |of: &str, records: u64| {
        let mut found = TrialSpec { data: spec("lmdb").data, ..served("GET", &ordered(of, "shuffled")) };
        found.data[0].records = records;
        found
    };
    let same_over = |records| super::super::questions::same(&over(one, records), &over(two, records), "read");
    assert!(same_over(10) && !same_over(9));
    assert!(!same("requests = 10", "requests = 20"));
}

/// A warm-up, or a request that failed, leaves other requests in the results of each trial.
#[test]
fn rows_are_compared_for_each_answer_where_answers_cannot_be_compared_one_by_one() {
    let ran = |rows: f64, comparable| {
        let counts = [(Metric::Time, 1e9), (Metric::Operations, 1_000.0), (Metric::Rows, rows)];
        let answer = Answer { rows: Some(rows as u64), digest: format!("rows:{rows}"), comparable };
        record(vec![phase("insert", &[]), PhaseRecord { answer: Some(answer), ..phase("read", &counts) }])
    };
    let exactly = served("GET", "requests = 1_000, answer = { rows = \"row\" }");
    let warmed = served("GET", "requests = 1_000, warm_up = \"1 s\", answer = { rows = \"row\" }");
    for name in ["read.rate", "read.time", "read.latency.p50"] {
        let differ = |spec, rows, comparable| unequal(spec, name, &ran(10_000.0, comparable), &ran(rows, comparable));
        for spec in [&exactly, &warmed] {
            let why = differ(spec, 8_000.0, false).unwrap_or_default();
            assert!(why.contains("found 10.0 rows, but one of `y` 8.0"), "{name}: {why}");
            assert_eq!(differ(spec, 9_950.0, false), None, "{name}");
        }
        assert!(differ(&exactly, 9_800.0, false).is_some(), "{name}: the same requests have the same rows");
        assert_eq!(differ(&warmed, 9_800.0, false), None, "{name}: other requests may have a few rows less");
        assert_eq!(differ(&exactly, 8_000.0, true), None, "{name}: another finding says so");
    }
}

/// Rows are counted for a whole phase.
#[test]
fn latencies_of_kinds_and_steps_are_not_compared_where_answers_have_other_rows() {
    let spec = served("GET", "duration = \"5 s\", answer = { rows = \"row\" }");
    let ran = |rows: f64| {
        let counts = [(Metric::Time, 1e9), (Metric::Operations, 1_000.0), (Metric::Rows, rows)];
        record(vec![phase("insert", &[]), phase("read", &counts)])
    };
    for name in ["read.kind.a.latency.p50", "read.step.2.latency.p99"] {
        let why = unequal(&spec, name, &ran(10_000.0), &ran(1_000.0)).unwrap_or_default();
        assert!(why.contains("found 10.0 rows"), "{name}: {why}");
        assert_eq!(unequal(&spec, name, &ran(10_000.0), &ran(9_950.0)), None, "{name}");
    }
}

#[test]
fn digests_that_say_nothing_are_reported() {
    let spec = served("GET", "requests = 9, answer = { digest = true }");
    let ran = |comparable| {
        let answer = Answer { rows: None, digest: "bodies:1".to_owned(), comparable };
        let counts = [(Metric::Operations, 8.0), (Metric::Errors, 1.0)];
        let read = PhaseRecord { answer: Some(answer), action: "http".to_owned(), ..phase("read", &counts) };
        record(vec![phase("insert", &[]), read])
    };
    let found = |comparable| -> Vec<String> {
        let record = ran(comparable);
        let all = super::super::requests::check(&spec, &record);
        all.filter(|found| found.guard == "answers_not_compared").map(|found| found.message).collect()
    };
    assert_eq!(found(false), ["bodies of answers were digested and are not compared: 1 request failed"]);
    assert_eq!(found(true), Vec::<String>::new());
}

#[test]
fn processes_that_do_not_listen_are_not_the_server() {
    let spec = served("GET", "requests = 9");
    for (listens, expected) in [(Some(false), 1), (Some(true), 0), (None, 0)] {
        let server = EffectiveProgram { program: "api".to_owned(), listens, ..EffectiveProgram::default() };
        let effective =
            Effective::Services(Arc::new(EffectiveServices { services: vec![server], left_behind: BTreeMap::new() }));
        let record = TrialRecord { effective: Some(effective), ..record(Vec::new()) };
        let all = super::super::requests::check(&spec, &record);
        assert_eq!(all.filter(|found| found.guard == "observed_elsewhere").count(), expected, "{listens:?}");
        let trial = TrialRecord { effective: record.effective.clone(), ..done(10.0, 10.0) };
        for (name, is_of_processes) in
            [("read.api.cpu", true), ("read.rss.max", true), ("read.other.cpu", false), ("read.rate", false)]
        {
            let refused = unequal(&spec, name, &trial, &done(10.0, 10.0)).is_some();
            assert_eq!(refused, is_of_processes && expected == 1, "{name} {listens:?}");
        }
    }
}

/// A server that answers with half of the document was called faster, and a gate passed.
#[test]
fn rates_of_answers_with_other_lengths_are_compared_where_the_file_says_what_is_right() {
    let ran = |operations: f64, bytes: f64, errors: f64| {
        let counts = [(Metric::Time, 1e9), (Metric::Operations, operations), (Metric::UserBytes, bytes * operations)];
        let counts = counts.into_iter().chain([(Metric::Errors, errors)]).collect::<Vec<_>>();
        record(vec![phase("insert", &counts), phase("read", &counts)])
    };
    let spec = |method: &str, more: &str| served(method, &format!("duration = \"5 s\"{more}"));
    let (unchecked, whole, half) = (spec("GET", ""), ran(10_000.0, 2_000.0, 0.0), ran(20_000.0, 1_000.0, 0.0));
    for name in ["read.rate", "read.operations", "read.latency.p50", "read.kind.a.latency.p50"] {
        let why = unequal(&unchecked, name, &whole, &half).unwrap_or_default();
        assert!(why.contains("the body of an answer has 2.00 kB in `x`, but 1.00 kB in `y`"), "{name}: {why}");
        let is_none = |x: (f64, f64, f64), y: (f64, f64, f64), what: &str| {
            assert_eq!(unequal(&unchecked, name, &ran(x.0, x.1, x.2), &ran(y.0, y.1, y.2)), None, "{name}: {what}");
        };
        is_none((10_000.0, 2_000.0, 0.0), (20_000.0, 1_900.0, 0.0), "nearly as long");
        is_none((10_000.0, 20.0, 0.0), (20_000.0, 30.0, 0.0), "few bytes");
        is_none((9.0, 2_000.0, 0.0), (9.0, 1_500.0, 0.0), "chance");
        let failed = unequal(&unchecked, name, &ran(10_000.0, 2_000.0, 200.0), &half).unwrap_or_default();
        assert!(failed.contains("the body of an answer has"), "those of errors are not counted: {failed}");
        assert!(unequal(&unchecked, name, &ran(10_000.0, 15.0, 0.0), &ran(20_000.0, 0.0, 0.0)).is_some(), "{name}");
        for answer in ["match = \"name\"", "any = true"] {
            let checked = spec("GET", &format!(", answer = {{ {answer} }}"));
            assert_eq!(unequal(&checked, name, &whole, &half), None, "{name}: both are right");
        }
    }
    let posted = spec("POST", ", body = \"x\"");
    let (longer, shorter) = (ran(10_000.0, 4_300.0, 0.0), ran(20_000.0, 4_000.0, 0.0));
    let why = unequal(&posted, "insert.rate", &longer, &shorter).unwrap_or_default();
    assert!(why.contains("the bodies of a request and its answer have 4.30 kB"), "what was sent is the same: {why}");
    assert_eq!(unequal(&spec("HEAD", ""), "insert.rate", &whole, &half), None, "an answer has no body");
    assert_eq!(unequal(&unchecked, "read.rss.max", &whole, &half), None, "no time");
    let elsewhere = spec("GET", ", headers = { accept-encoding = \"gzip\" }");
    let [x, y] = [variant_trials("x", &unchecked, &whole), variant_trials("y", &elsewhere, &half)];
    assert_eq!(variants::unequal_offer([&x, &y], &"read.rate".parse().unwrap()), None, "they ask for other answers");
}
