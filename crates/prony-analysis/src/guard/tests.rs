//! Tests each guard with a record that it must report and one that it must not.

mod answers;
mod cache;
mod copies;
mod disturbances;
mod first_trial;
mod idle_services;
mod questions;
mod refusals;
mod requests;
mod statuses;
mod stored;
mod unlike;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::answers::{answered, answers};
use super::variants::{self, VariantTrials};
use super::{Finding, Severity, percent, trial};
use prony_model::catalog::{Capabilities, EngineCatalog, EngineFacts, StoreFault};
use prony_model::http::{ExpectedStatuses, HttpSpec, RequestKind};
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::{Ending, Outcome};
use prony_model::program::{ObserveSpec, Trigger};
use prony_model::reading::{Reading, Why};
use prony_model::record::host::Mount;
use prony_model::record::probe::HeapAbort;
use prony_model::record::{
    Answer, Completion, Conditions, Effective, EffectiveProgram, EffectiveStore, Machine, MetricKeyText, PhaseRecord,
    TrialRecord,
};
use prony_model::spec::{
    Action, Amount, BytesSpec, CollectionSpec, Durability, Grouping, KeySpec, Limits, Ops, Order, PhaseSpec,
    References, Sampling, SettleSpec, Sharing, Sign, Size, StoreSpec, Subject, TrialSpec, ValueSpec, not_settled,
};
use prony_model::trial::{Label, PlannedTrial};
use prony_model::units::{Bytes, Fraction, Nanos};

/// A process that ended at its heap limit.
pub(super) fn heap_abort() -> HeapAbort {
    let missing = || Reading::Missing(Why::NotApplicable);
    HeapAbort {
        pid: 1,
        thread: 0,
        at: Nanos::ZERO,
        what: "heap out of memory".into(),
        used: missing(),
        total: missing(),
        limit: missing(),
        external: missing(),
    }
}

/// An engine that can do everything, under three names.
pub(super) struct Engines;

impl EngineCatalog for Engines {
    fn engines(&self) -> Vec<String> {
        ["memory", "lmdb", "redb"].map(str::to_owned).to_vec()
    }

    fn absent(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn facts(&self, _: &StoreSpec) -> Option<EngineFacts> {
        let can = Capabilities {
            batches: true,
            reads_own_writes: true,
            open_transactions: true,
            ordered: true,
            persistent: true,
            processes: true,
            ..Capabilities::default()
        };
        Some(EngineFacts { can, classes: vec![Durability::Strict, Durability::Volatile] })
    }

    fn check(&self, _: &StoreSpec) -> Vec<StoreFault> {
        Vec::new()
    }
}

pub(super) fn ops(amount: Amount) -> Ops {
    Ops {
        amount,
        transaction: Grouping::Each,
        order: Order::Record,
        replicas: None,
        threads: 1,
        share: Sharing::Equal,
        pause: None,
        rate: None,
        sample: Sampling::None,
        touch: true,
        collection: None,
        references: References::Ignored,
    }
}

pub(super) fn phase_spec(name: &str, action: Action) -> PhaseSpec {
    PhaseSpec { name: name.into(), timed: true, action, background: None, limit: None }
}

pub(super) fn spec(engine: &str) -> TrialSpec {
    TrialSpec {
        services: Vec::new(),
        subject: Subject::Store(StoreSpec::of(engine)),
        data: vec![CollectionSpec {
            name: None,
            records: 1000,
            key: KeySpec::Integer { bytes: 8 },
            value: ValueSpec::Bytes(BytesSpec {
                bytes: Size::Fixed(Bytes::from_bytes(100)),
                compressible: Fraction::default(),
                prefix: Vec::new(),
            }),
        }],
        phases: vec![phase_spec("write", Action::Put(ops(Amount::Records)))],
        limits: Limits::default(),
        crashes: Vec::new(),
    }
}

/// A complete timed phase with these amounts.
pub(super) fn phase(name: &str, amounts: &[(Metric, f64)]) -> PhaseRecord {
    let readings = amounts.iter().map(|(m, v)| (MetricKeyText(MetricKey::amount(*m)), Reading::Measured(*v)));
    PhaseRecord {
        name: name.into(),
        action: "put".into(),
        timed: true,
        completion: Completion::Complete,
        begin: Some(Nanos::ZERO),
        end: Some(Nanos::from_secs(1)),
        readings: BTreeMap::from([(String::new(), readings.collect())]),
        histograms: Vec::new(),
        groups: None,
        throughput: None,
        answer: None,
        errors: BTreeMap::new(),
    }
}

pub(super) fn record(phases: Vec<PhaseRecord>) -> TrialRecord {
    TrialRecord {
        trial: PlannedTrial { block: 0, position: 0, sub_block: 0, variant: 0, label: Label::A, seed: 1 },
        started_unix_ms: 0,
        took: Nanos::from_secs(1),
        ending: Ending { outcome: Outcome::Ok, phase: None, after: Nanos::ZERO, evidence: Vec::new() },
        phases,
        effective: None,
        conditions: Conditions::default(),
        series: Vec::new(),
        sampler_cpu: Reading::Missing(Why::NotApplicable),
        findings: Vec::new(),
    }
}

/// The record of an undisturbed trial without any finding.
pub(super) fn calm() -> TrialRecord {
    let amounts = [
        (Metric::Time, 1e9),
        (Metric::Wall, 1.01e9),
        (Metric::Gap, 0.01e9),
        (Metric::Operations, 1000.0),
        (Metric::Errors, 0.0),
    ];
    record(vec![phase("write", &amounts)])
}

fn names(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|f| f.guard.as_str()).collect()
}

#[test]
fn a_calm_trial_has_no_findings() {
    assert_eq!(trial::check(&spec("lmdb"), &calm(), Nanos::from_nanos(25)), []);
}

#[test]
fn findings_survive_json_and_the_gravest_is_the_greatest() {
    let finding = Finding::of("swapped", Severity::Warning, "4 pages".into(), "more memory").in_phase("write");
    let text = serde_json::to_string(&finding).unwrap();
    assert_eq!(serde_json::from_str::<Finding>(&text).unwrap(), finding);
    assert!(Severity::Refusal > Severity::Warning && Severity::Warning > Severity::Note);
    assert_eq!((percent(0.123), percent(0.0031)), ("12 %".to_owned(), "0.3 %".to_owned()));
}

#[test]
fn reads_that_find_nothing_are_named() {
    let read = |action: &str, rows, done| PhaseRecord {
        action: action.into(),
        ..phase("read", &[(Metric::Rows, rows), (Metric::Operations, done)])
    };
    let found = trial::nothing_found(&read("get", 0.0, 50.0), ("", "get")).unwrap();
    assert_eq!((found.severity, found.message.as_str()), (Severity::Warning, "50 reads found no row at all"));
    assert!(
        trial::nothing_found(&read("http", 0.0, 50.0), ("", "http"))
            .unwrap()
            .message
            .starts_with("50 answers found no row")
    );
    assert_eq!(trial::nothing_found(&read("get", 1.0, 50.0), ("", "get")), None);
    assert_eq!(trial::nothing_found(&read("get", 0.0, 0.0), ("", "get")), None, "nothing was read");
    assert_eq!(
        trial::nothing_found(&read("compute", 0.0, 50.0), ("", "compute")),
        None,
        "a cache that fills misses at first"
    );
}

#[test]
fn work_at_a_close_that_no_phase_times_is_said() {
    let (millis, second) = (Nanos::from_millis, Nanos::from_secs(1));
    let found = trial::untimed_close(millis(80), second).unwrap();
    assert!(found.message.contains("80"), "{}", found.message);
    assert_eq!(trial::untimed_close(millis(40), second), None);
}

#[test]
fn samples_that_were_dropped_are_a_note() {
    let found = trial::samples_thinned(10, 4).unwrap();
    assert_eq!((found.severity, found.message.contains("of 10 a second, 2.5 are left")), (Severity::Note, true));
    assert_eq!(trial::samples_thinned(10, 1), None);
}

#[test]
fn stores_on_a_file_system_in_memory_are_a_warning() {
    let mount = |kind: &str| Mount { kind: kind.to_owned(), point: "/dev/shm".into(), ..Mount::default() };
    let with = |bytes| record(vec![phase("write", &[(Metric::Disk, bytes)])]);
    let found = trial::store_in_memory(&mount("tmpfs"), &with(4096.0)).unwrap();
    assert!(
        found.message.starts_with("the store is on a tmpfs at `/dev/shm`: a sync costs nothing"),
        "{}",
        found.message
    );
    assert_eq!(trial::store_in_memory(&mount("ext4"), &with(4096.0)), None);
    assert_eq!(trial::store_in_memory(&mount("tmpfs"), &with(0.0)), None, "an engine without files");
}

#[test]
fn errors_are_reported_with_the_throughput() {
    let mut failing = phase("write", &[(Metric::Operations, 990.0), (Metric::Errors, 10.0)]);
    failing.errors = [("busy".into(), 3), ("map full".into(), 7)].into();
    let found = trial::errors_present(&failing, "", None).unwrap();
    assert_eq!(found.message, "10 operations failed and 990 succeeded, most often: `map full`");
    assert_eq!((found.phase.as_deref(), found.severity), (Some("write"), Severity::Warning));
    assert_eq!(trial::errors_present(&phase("write", &[(Metric::Errors, 0.0)]), "", None), None);
    failing.errors = [("status 201".into(), 10)].into();
    let spec = requests::served("GET", "requests = 10");
    let http = spec.phases[0].action.http().unwrap();
    let kind = |expect: &[u16]| RequestKind { expect: ExpectedStatuses(expect.to_vec()), ..http.kinds[0].clone() };
    let of_kinds = |kinds| trial::errors_present(&failing, "", Some(&HttpSpec { kinds, ..http.clone() })).unwrap();
    let found = |expect: &[u16]| of_kinds(vec![kind(expect)]);
    let of_two = of_kinds(vec![kind(&[201]), kind(&[])]).message;
    assert!(of_two.ends_with("answered 201, and `expect` of that kind of request does not allow it"), "{of_two}");
    assert!(found(&[200]).message.ends_with("most often: answered 201, and `expect` allows 200"));
    assert!(found(&[]).message.ends_with("`expect` allows 200 to 399"));
    assert!(found(&[200, 202]).hint.contains("add its status to `expect`"));
}

#[test]
fn gaps_count_above_five_percent() {
    let with_gap = |gap| trial::gaps_between_batches(&phase("write", &[(Metric::Gap, gap), (Metric::Wall, 100.0)]));
    assert_eq!(with_gap(5.0), None);
    assert_eq!(with_gap(12.0).unwrap().message, "12 % of the wall time of the phase lies between its timed sections");
    let untimed = PhaseRecord { timed: false, ..phase("write", &[(Metric::Gap, 50.0), (Metric::Wall, 100.0)]) };
    assert_eq!(trial::gaps_between_batches(&untimed), None);
}

#[test]
fn a_phase_must_outlast_its_clock() {
    let lasting = |time| phase("write", &[(Metric::Time, time), (Metric::Operations, 10.0)]);
    let clock = Nanos::from_nanos(30);
    let found = trial::phase_too_short(&lasting(200_000.0), clock).unwrap();
    assert_eq!(found.message, "the phase lasted 200.00 us, less time than 10000 readings of the clock take");
    assert_eq!(trial::phase_too_short(&lasting(300_000.0), clock), None);
    let unfinished = PhaseRecord { completion: Completion::Partial, ..lasting(10.0) };
    assert_eq!(trial::phase_too_short(&unfinished, clock), None);
    assert_eq!(trial::phase_too_short(&phase("close", &[(Metric::Time, 10.0)]), clock), None);
}

fn settle(reading: Reading<f64>) -> PhaseRecord {
    let readings = BTreeMap::from([(MetricKeyText(MetricKey::amount(Metric::SettleTime)), reading)]);
    let readings = BTreeMap::from([(String::new(), readings)]);
    PhaseRecord { action: "settle".into(), readings, ..phase("settle", &[]) }
}

#[test]
fn a_store_that_does_not_settle_is_named() {
    let found = trial::unsettled(&settle(Reading::Missing(Why::NotSettled("within 60 s".into())))).unwrap();
    assert!(found.message.ends_with("not settled within 60 s"), "{}", found.message);
    let program = |reading, completion| PhaseRecord { action: "observe".into(), completion, ..settle(reading) };
    let cap = || Reading::Missing(Why::NotSettled("within 60 s".into()));
    let found = trial::unsettled(&program(cap(), Completion::Complete)).unwrap();
    assert!(found.message.starts_with("the program did not become quiet"), "{}", found.message);
    assert_eq!(trial::unsettled(&program(cap(), Completion::Partial)), None, "it ended first, which is said elsewhere");
    let unclear = Reading::not_supported("others continued while one was suspended");
    assert_eq!(trial::unsettled(&program(unclear, Completion::Complete)), None);
    assert_eq!(trial::unsettled(&settle(Reading::Measured(3e9))), None);
    let dirty = |watched| {
        let mut unsettled = settle(Reading::Measured(3e9));
        let why = not_settled(Sign::Dirty.what(), Nanos::from_secs(watched), Nanos::from_secs(60));
        let key = MetricKeyText(MetricKey::amount(Metric::SettleDirty));
        unsettled.readings.get_mut("").unwrap().insert(key, Reading::Missing(why));
        unsettled
    };
    let found = trial::unsettled(&dirty(60)).unwrap();
    assert_eq!((found.severity, dirty(60).last_sign()), (Severity::Note, Some(Sign::Dirty)));
    assert!(found.message.ends_with("dirty pages of the store"), "{}", found.message);
    assert_eq!(trial::unsettled(&dirty(9)), None, "the phase did not wait for it");
    assert_eq!(trial::unsettled(&phase("write", &[])), None);
}

fn memory(peak: u64, sampled: u64) -> PhaseRecord {
    let mut with = phase("write", &[]);
    let readings = with.readings.get_mut("").unwrap();
    for (stat, mib) in [(Stat::Peak, peak), (Stat::Max, sampled)] {
        let bytes = Bytes::from_mib(mib).as_bytes() as f64;
        readings.insert(MetricKeyText(MetricKey::gauge(Metric::Rss, stat)), Reading::Measured(bytes));
    }
    with
}

#[test]
fn a_peak_between_two_samples_shows() {
    let found = trial::kernel_peak(&memory(300, 200)).unwrap();
    assert!(
        found.message.contains("peaked at 314.6 MB, but the largest sample of it is 209.7 MB"),
        "{}",
        found.message
    );
    assert_eq!(trial::kernel_peak(&memory(205, 200)), None);
    // Small processes: 3 MiB above 10 are within the allowance.
    assert_eq!(trial::kernel_peak(&memory(13, 10)), None);
    assert_eq!(trial::kernel_peak(&phase("write", &[])), None);
}

/// A settle phase's spec is data too: nothing about it may trigger the guards of timed work.
#[test]
fn unreached_phases_yield_no_finding() {
    let within = SettleSpec { quiet: Nanos::from_secs(5), within: Nanos::from_secs(60), ..SettleSpec::default() };
    let mut with_settle = spec("lmdb");
    with_settle.phases.push(phase_spec("settle", Action::Settle(within)));
    let mut trial_record = calm();
    let missing = settle(Reading::Missing(Why::NotReached));
    trial_record.phases.push(PhaseRecord { completion: Completion::NotReached, ..missing });
    assert_eq!(trial::check(&with_settle, &trial_record, Nanos::from_nanos(25)), []);
}

pub(super) fn variant_trials<'a>(name: &str, spec: &'a TrialSpec, trial: &'a TrialRecord) -> VariantTrials<'a> {
    VariantTrials { name: name.to_owned(), spec, trials: vec![trial] }
}

/// A transaction whose commit came in a later phase was called 2.4 times faster, without a word.
#[test]
fn commit_that_one_variant_has_in_a_later_phase_is_a_warning() {
    let of = |transaction| {
        let put = Action::Put(Ops { transaction, ..ops(Amount::Records) });
        TrialSpec { phases: vec![phase_spec("write", put), phase_spec("com", Action::Commit)], ..spec("lmdb") }
    };
    let ran = worked(&[(Metric::Operations, 10.0)]);
    let found = |a: &TrialSpec, b: &TrialSpec| {
        let all = variants::check([&variant_trials("x", a, &ran), &variant_trials("y", b, &ran)]);
        all.into_iter().find(|finding| finding.guard == "commit_apart").map(|finding| finding.message)
    };
    let (single, open) = (of(Grouping::Single), of(Grouping::Open));
    assert!(found(&single, &open).unwrap().starts_with("the transaction of `y` stays open"));
    assert!(found(&open, &single).unwrap().starts_with("the transaction of `x` stays open"));
    assert_eq!((found(&open, &open), found(&single, &single)), (None, None));
}

pub(super) fn worked(amounts: &[(Metric, f64)]) -> TrialRecord {
    record(vec![phase("write", amounts)])
}

#[test]
fn work_that_nothing_explains_is_named() {
    let (a, b) = (worked(&[(Metric::UserBytes, 128e3)]), worked(&[(Metric::UserBytes, 20e3)]));
    let spec = spec("lmdb");
    let found = variants::work_differs([&variant_trials("x", &spec, &a), &variant_trials("y", &spec, &b)]);
    assert_eq!(names(&found), ["work_differs"]);
    assert!(
        found[0].message.contains("user.bytes") && found[0].message.ends_with("a difference of 84 %"),
        "{}",
        found[0].message
    );
    assert_eq!(variants::work_differs([&variant_trials("x", &spec, &a), &variant_trials("y", &spec, &a)]), []);
    let (a, b) = (worked(&[(Metric::Distinct, 500.0)]), worked(&[(Metric::Distinct, 1.0)]));
    let found = variants::work_differs([&variant_trials("x", &spec, &a), &variant_trials("y", &spec, &b)]);
    assert_eq!(names(&found), ["work_differs"], "only a phase bounded by time may touch other keys");
}

/// Rows of another length, of which the background had updated more, were another amount of work of the phase.
#[test]
fn bytes_read_beside_a_background_that_writes_are_not_compared() {
    let of = |background| {
        let get = PhaseSpec { background, ..phase_spec("write", Action::Get(ops(Amount::Records))) };
        let spec = TrialSpec { phases: vec![get], ..spec("lmdb") };
        let (a, b) = (worked(&[(Metric::UserBytes, 128e3)]), worked(&[(Metric::UserBytes, 20e3)]));
        variants::work_differs([&variant_trials("x", &spec, &a), &variant_trials("y", &spec, &b)]).len()
    };
    assert_eq!(of(Some(Action::Update(ops(Amount::Background)))), 0);
    assert_eq!([of(None), of(Some(Action::Get(ops(Amount::Background))))], [1, 1]);
}

#[test]
fn work_that_a_factor_explains_is_not() {
    let (a, b) = (worked(&[(Metric::Transactions, 1000.0)]), worked(&[(Metric::Transactions, 10.0)]));
    let one = spec("lmdb");
    let mut batches = spec("lmdb");
    batches.phases[0].action = Action::Put(Ops { transaction: Grouping::Batch(100), ..ops(Amount::Records) });
    assert_eq!(variants::work_differs([&variant_trials("x", &one, &a), &variant_trials("y", &batches, &b)]), []);
    let (a, b) = (worked(&[(Metric::Fsyncs, 2000.0)]), worked(&[(Metric::Fsyncs, 1000.0)]));
    let other = spec("redb");
    assert_eq!(
        variants::work_differs([&variant_trials("x", &one, &a), &variant_trials("y", &other, &b)]),
        [],
        "another engine syncs otherwise"
    );
    assert_eq!(
        names(&variants::work_differs([&variant_trials("x", &one, &a), &variant_trials("y", &one, &b)])),
        ["work_differs"]
    );
}

/// A call that threw after a part of its work was "5 times faster".
#[test]
fn times_of_calls_are_compared_where_as_many_returned_and_as_many_threw() {
    let mut calls = spec("lmdb");
    let call = || Some(Trigger::Call("a.js#f".into()));
    calls.phases[0].action = Action::Observe(ObserveSpec { begin: call(), end: call(), ..ObserveSpec::WHOLE });
    let done = |ok: f64, threw: f64| worked(&[(Metric::Operations, ok), (Metric::Errors, threw)]);
    let of = |name: &str, other: &TrialRecord| {
        let (one, name) = (done(2.0, 1.0), name.parse().unwrap());
        variants::unequal_offer([&variant_trials("x", &calls, &one), &variant_trials("y", &calls, other)], &name)
    };
    let why = "in `x` 2 calls returned and 1 threw, but in `y` 1 returned and 2 threw";
    assert_eq!(of("write.time", &done(1.0, 2.0)).as_deref(), Some(why), "as many in all");
    assert!(of("write.cpu", &done(3.0, 1.0)).is_some());
    assert_eq!(of("write.time", &done(2.0, 1.0)), None);
    assert_eq!(of("write.rate", &done(1.0, 2.0)).as_deref(), Some(why));
    assert_eq!([of("write.rate", &done(4.0, 2.0)), of("write.latency.p50", &done(1.0, 2.0))], [None, None]);
}

#[test]
fn work_bounded_by_time_is_compared_per_operation() {
    let mut timed = spec("lmdb");
    timed.phases[0].action = Action::Put(ops(Amount::Duration(Nanos::from_secs(1))));
    let done = |n: f64, bytes: f64| worked(&[(Metric::Operations, n), (Metric::UserBytes, n * bytes)]);
    let (fast, slow, odd) = (done(5000.0, 128.0), done(1000.0, 128.0), done(1000.0, 20.0));
    assert_eq!(variants::work_differs([&variant_trials("x", &timed, &fast), &variant_trials("y", &timed, &slow)]), []);
    assert_eq!(
        variants::work_differs([&variant_trials("x", &timed, &fast), &variant_trials("y", &timed, &odd)]).len(),
        1
    );
    let few = |bytes: f64| done(60.0, bytes);
    let found = |a: &TrialRecord, b: &TrialRecord| {
        variants::work_differs([&variant_trials("x", &timed, a), &variant_trials("y", &timed, b)]).len()
    };
    assert_eq!(found(&few(25.0), &few(25.3)), 0, "1.2 % between samples of 60 random records is chance");
    assert_eq!(found(&done(1e6, 25.0), &done(1e6, 25.5)), 1, "of a million it is not");
}

#[test]
fn durability_is_compared_as_it_is_in_force() {
    let promised = |class| TrialRecord { effective: Some(store(class)), ..calm() };
    let (strict, none) = (promised(Durability::Strict), promised(Durability::None));
    let spec = spec("lmdb");
    let found =
        variants::durability_differs([&variant_trials("a", &spec, &strict), &variant_trials("b", &spec, &none)])
            .unwrap();
    assert!(found.message.starts_with("`a` is strict and `b` is none"), "{}", found.message);
    assert_eq!(
        variants::durability_differs([&variant_trials("a", &spec, &strict), &variant_trials("b", &spec, &strict)]),
        None
    );
    assert_eq!(
        variants::durability_differs([&variant_trials("a", &spec, &strict), &variant_trials("b", &spec, &calm())]),
        None
    );
    let all = variants::check([&variant_trials("a", &spec, &strict), &variant_trials("b", &spec, &none)]);
    assert_eq!(names(&all), ["durability_differs"]);
}

/// An engine of which only the durability matters.
pub(super) fn store(durability: Durability) -> Effective {
    Effective::Store(Arc::new(EffectiveStore {
        engine: "x".into(),
        version: "1".into(),
        library: "x 1".into(),
        durability,
        promise: None,
        settings: BTreeMap::new(),
        in_force: None,
        idiom: String::new(),
        services: Vec::new(),
    }))
}
