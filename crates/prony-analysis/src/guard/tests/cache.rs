//! Tests of guards on the page cache.

use prony_model::service::{ReadySign, ReadySpec, ServiceSpec};

use super::*;

#[test]
fn a_cold_store_that_is_warm_is_named() {
    let mut cold = spec("lmdb");
    cold.phases = vec![
        phase_spec("evict", Action::Evict),
        phase_spec("read", Action::Get(ops(Amount::Records))),
        phase_spec("again", Action::Get(ops(Amount::Records))),
    ];
    let cached = |share| {
        let all = [(Metric::Cached, share)];
        record(vec![phase("evict", &all), phase("read", &all), phase("again", &all)])
    };
    let found = trial::cache_state(&cold, &cached(0.4));
    assert_eq!(names(&found), ["cache_not_as_declared"]);
    assert_eq!(found[0].phase.as_deref(), Some("read"), "only the phase after `evict` was declared cold");
    assert!(found[0].message.ends_with("phase: 40 % of them stayed when `evict` evicted them"), "{}", found[0].message);
    assert_eq!(trial::cache_state(&cold, &cached(0.005)), []);
    // The hint was to close the store first, which `evict` does.
    let opened = record(vec![phase("evict", &[(Metric::Cached, 0.0)]), phase("read", &[(Metric::Cached, 0.08)])]);
    let found_of_opened = trial::cache_state(&cold, &opened);
    let message = &found_of_opened[0].message;
    assert!(message.starts_with("declared cold, but 8.0 % of the store's pages"), "{message}");
    assert!(
        message.ends_with("the engine read them when `evict` had evicted them and opened the store again"),
        "{message}"
    );
    assert!(found_of_opened[0].hint.contains("make the store larger"));
    assert_eq!(trial::cache_state(&spec("lmdb"), &cached(0.4)), []);
    // One variant read from memory what the other read from the disk, and had a verdict.
    let mut warm = cached(0.4);
    warm.findings = found;
    let (of_warm, of_cold) = (variant_trials("b", &cold, &warm), cached(0.0));
    let of_cold = variant_trials("a", &cold, &of_cold);
    let unequal = |a, b, metric: &str| variants::unequal_cache([a, b], &metric.parse().unwrap());
    let why = unequal(&of_cold, &of_warm, "read.time").unwrap();
    assert!(why.ends_with("in 1 of 1 trial of `b` and in 0 of 1 trial of `a`"), "{why}");
    assert_eq!(unequal(&of_warm, &of_warm, "read.time"), None, "both are as warm");
    assert_eq!(unequal(&of_cold, &of_warm, "read.rows"), None, "no time");
    let why = unequal(&of_cold, &of_warm, "again.time").unwrap();
    assert!(why.ends_with("of `a`, and 40 % and 0.0 % of it are at that of `again`"), "{why}");
}

/// A cold phase that reads a part of the store leaves the rest on the disk: the next phase was compared with one that reads all
/// from memory.
#[test]
fn phases_after_a_warm_one_are_compared_once_the_cache_is_equal() {
    let mut spec = spec("lmdb");
    let reads = |name| phase_spec(name, Action::Get(ops(Amount::Records)));
    spec.phases = vec![
        reads("before"),
        phase_spec("evict", Action::Evict),
        reads("read"),
        reads("again"),
        phase_spec("evict again", Action::Evict),
        reads("last"),
    ];
    let with = |again: Option<f64>, cached: f64| {
        let at = |name, share| phase(name, &[(Metric::Cached, share)]);
        let again = phase("again", &again.map(|share| (Metric::Cached, share)).into_iter().collect::<Vec<_>>());
        let mut record = record(vec![at("before", 1.0), at("evict", 1.0), at("read", cached), again, at("last", 0.0)]);
        record.findings = trial::cache_state(&spec, &record);
        record
    };
    let unequal = |cold: Option<f64>, warm: Option<f64>, metric: &str| {
        let (cold, warm) = (with(cold, 0.0), with(warm, 0.9));
        let (a, b) = (variant_trials("a", &spec, &cold), variant_trials("b", &spec, &warm));
        variants::unequal_cache([&a, &b], &metric.parse().unwrap())
    };
    assert!(unequal(Some(0.3), Some(1.0), "again.time").is_some());
    assert_eq!(unequal(Some(0.995), Some(1.0), "again.time"), None, "equal by now");
    let why = unequal(None, Some(1.0), "again.time").unwrap();
    assert!(why.ends_with("how much of it is at that of `again` is not known"), "{why}");
    assert_eq!(unequal(Some(0.3), Some(1.0), "before.time"), None);
    assert_eq!(unequal(Some(0.3), Some(1.0), "last.time"), None, "evicted again, this time it worked");
}

#[test]
fn memory_of_a_server_is_not_compared_with_that_of_an_engine_and_its_client() {
    let (inside, mut server) = (spec("lmdb"), spec("postgresql"));
    let Subject::Store(store) = &mut server.subject else { panic!() };
    store.url = Some("postgresql://a@b/c".to_owned());
    let not_started = server.clone();
    let Subject::Program(program) = super::super::program::tests::spec(None, None).subject else { panic!() };
    let ready = ReadySpec { sign: ReadySign::Started, within: Nanos::ZERO };
    server.services.push(ServiceSpec {
        program: *program,
        count: 1,
        after: Vec::new(),
        ready,
        set_up: Default::default(),
        setup: None,
        limits: Limits::default(),
        processors: Vec::new(),
        counters: None,
        running: None,
        user: None,
        data: None,
    });
    let record = record(Vec::new());
    let (a, b) = (variant_trials("a", &inside, &record), variant_trials("b", &server, &record));
    let why = |a, b, metric: &str| variants::client_in_one([a, b], &metric.parse().unwrap());
    let expected = "`put.anon.max` of `b` is that of a server without its client, and `a` works inside its client: compare \
                    `put.all.anon.max`, which has both";
    assert_eq!(why(&a, &b, "put.anon.max").as_deref(), Some(expected));
    assert_eq!(why(&b, &a, "put.cpu").map(|why| why.contains("compare `put.all.cpu`")), Some(true));
    assert_eq!(why(&a, &b, "put.all.cpu"), None, "both have it");
    assert_eq!(why(&a, &b, "put.time"), None, "the client measures it of both");
    // The services of a file run in the trials of every variant.
    let idle = TrialSpec { services: server.services.clone(), ..inside.clone() };
    let c = variant_trials("c", &idle, &record);
    let refused = variants::unequal_offer([&c, &b], &"write.all.anon.max".parse().unwrap()).unwrap();
    assert!(refused.contains("of `c` includes services") && !why(&c, &b, "put.anon.max").unwrap().contains("compare"));
    assert_eq!(why(&a, &b, "put.fsyncs"), None, "a client has none");
    assert_eq!((why(&a, &a, "put.cpu"), why(&b, &b, "put.cpu")), (None, None));
    let other = variant_trials("c", &not_started, &record);
    assert_eq!(why(&a, &other, "put.cpu"), None, "nothing of it is measured, which its readings say");
}

/// SQLite writes nothing where a record holds already what is to be stored, and seemed faster at updates.
#[test]
fn writes_that_one_engine_skips_are_not_compared_with_those_of_another() {
    let [spec, other] = ["sqlite", "lmdb"].map(spec);
    let mut skips = record(vec![phase("run", &[])]);
    let message = "150 of 500 operations stored what the record held already";
    skips.findings = vec![Finding::of("unchanged_writes", Severity::Warning, message.to_owned(), "").in_phase("run")];
    let writes = record(vec![phase("run", &[])]);
    let (a, b) = (variant_trials("a", &spec, &skips), variant_trials("b", &other, &writes));
    let why = |a, b, metric: &str| variants::skipped_in_one([a, b], &metric.parse().unwrap());
    for metric in ["run.time", "run.rate", "run.cpu", "run.fsyncs", "run.written"] {
        assert_eq!(why(&a, &b, metric), Some(format!("in `a`, {message}")), "{metric}");
    }
    assert_eq!((why(&b, &a, "run.time").is_some(), why(&a, &a, "run.time")), (true, None), "both skip as many");
    assert_eq!((why(&a, &b, "run.anon.max"), why(&a, &b, "load.time")), (None, None));
}

/// The sync of a commit was "354 times faster" where the writes before it had changed nothing, and so had nothing to write.
#[test]
fn what_finishes_writes_that_one_engine_skips_is_not_compared() {
    let open = |count| Action::Put(Ops { transaction: Grouping::Open, ..ops(Amount::Count(count)) });
    let phases = [
        ("load", Action::Put(ops(Amount::Records))),
        ("first", open(1)),
        ("commit", Action::Commit),
        ("persist", Action::Persist),
        ("again", open(2)),
        ("more", open(3)),
        ("commit again", Action::Commit),
        ("persist again", Action::Persist),
        ("get", Action::Get(ops(Amount::Records))),
        ("settle", Action::Settle(SettleSpec::default())),
        ("other", open(4)),
        ("last commit", Action::Commit),
        ("last persist", Action::Persist),
    ];
    let names = phases.each_ref().map(|(name, _)| *name);
    let phases: Vec<PhaseSpec> = phases.map(|(name, action)| phase_spec(name, action)).into();
    let [spec, other] = ["sqlite", "lmdb"].map(|engine| TrialSpec { phases: phases.clone(), ..spec(engine) });
    let mut skips = record(Vec::new());
    let message = "2 of 2 operations stored what the record held already";
    skips.findings = vec![Finding::of("unchanged_writes", Severity::Warning, message.to_owned(), "").in_phase("again")];
    let writes = record(Vec::new());
    let (a, b) = (variant_trials("a", &spec, &skips), variant_trials("b", &other, &writes));
    let why = |phase: &str| variants::skipped_in_one([&a, &b], &format!("{phase}.time").parse().unwrap());
    let refused: Vec<&str> = names.into_iter().filter(|name| why(name).is_some()).collect();
    assert_eq!(refused, ["again", "more", "commit again", "persist again", "settle"]);
    assert_eq!(why("commit again"), Some(format!("in `again` of `a`, {message}")));
}
