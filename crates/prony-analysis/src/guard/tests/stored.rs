//! Tests of guards on what is stored.

use prony_model::spec::{BACKGROUND, ScanSpec};

use super::*;

/// Times of scans after a put that lasted a given time were compared, on 36 times as many records.
#[test]
fn nothing_is_compared_after_writes_for_a_given_time_that_stored_other_amounts() {
    let after = |actions: Vec<Action>| {
        let phases = ["a", "b", "c"].iter().zip(actions).map(|(name, action)| phase_spec(name, action)).collect();
        TrialSpec { phases, ..spec("lmdb") }
    };
    let (second, all) = (ops(Amount::Duration(Nanos::from_secs(1))), ops(Amount::Records));
    let ran = |stored: f64| {
        let counts = |done| [(Metric::Operations, done), (Metric::Time, 1e9), (Metric::Errors, 0.0)];
        record(vec![phase("a", &counts(stored)), phase("b", &counts(10.0)), phase("c", &counts(stored))])
    };
    let why = |spec: &TrialSpec, name: &str, theirs: f64| {
        let (x, y) = (ran(1000.0), ran(theirs));
        let (x, y) = (variant_trials("x", spec, &x), variant_trials("y", spec, &y));
        variants::unequal_offer([&x, &y], &name.parse().unwrap())
    };
    let inserted = after(vec![Action::Put(second.clone()), Action::Close]);
    let expected = "`a` did as many operations as fitted, 1000 in `x` but 30 in `y`: other amounts are stored";
    for name in ["b.time", "b.rss.max", "a.rss.max", "a.written"] {
        assert_eq!(why(&inserted, name, 30.0).as_deref(), Some(expected), "{name}");
        assert_eq!(why(&inserted, name, 950.0), None, "{name}");
    }
    assert_eq!(why(&inserted, "b.disk", 995.0), None);
    assert!(why(&inserted, "b.disk", 950.0).is_some(), "a store is as large as what it holds");
    for name in ["a.rate", "a.latency.p50", "b.errors"] {
        assert_eq!(why(&inserted, name, 30.0), None, "{name}");
    }
    let overwritten = after(vec![Action::Put(all), Action::Close, Action::Put(second.clone())]);
    assert_eq!(why(&overwritten, "c.rss.max", 30.0), None, "all records were there");
    let updated = after(vec![Action::Update(second), Action::Close]);
    assert_eq!(why(&updated, "b.time", 30.0), None, "no record more");
}

/// A store that did half as many updates in the same time "wrote 30 % less".
#[test]
fn amounts_of_a_given_time_are_compared_only_over_as_many_operations() {
    let with = |amount| TrialSpec { phases: vec![phase_spec("u", Action::Update(ops(amount)))], ..spec("lmdb") };
    let (timed, counted) = (with(Amount::Duration(Nanos::from_secs(1))), with(Amount::Count(10)));
    let ran = |(done, failed, written): (f64, f64, f64)| {
        let counts =
            [(Metric::Operations, done), (Metric::Errors, failed), (Metric::Written, written), (Metric::Time, 1e9)];
        record(vec![phase("u", &counts)])
    };
    let why = |spec: &TrialSpec, name: &str, x, y| {
        let (x, y) = (ran(x), ran(y));
        variants::unequal_offer(
            [&variant_trials("x", spec, &x), &variant_trials("y", spec, &y)],
            &name.parse().unwrap(),
        )
    };
    let (ours, half) = ((1e5, 0.0, 1e9), (5e4, 0.0, 0.7e9));
    let expected = "`u` lasts a given time, in which `x` did 100000 operations but `y` 50000, and more operations are more of \
                    `written`: bound it by `count` or `requests`";
    assert_eq!(why(&timed, "u.written", ours, half).as_deref(), Some(expected));
    assert_eq!(why(&counted, "u.written", ours, half), None, "as many as the file says");
    assert_eq!(why(&timed, "u.rate", ours, half), None, "a rate is for each second");
    assert_eq!(why(&timed, "u.written", ours, (0.98e5, 0.0, 1e9)), None, "as many but for noise");
    assert_eq!(
        why(&timed, "u.written", ours, (0.8e5, 0.0, 0.2e9)),
        None,
        "most of the difference is of each operation"
    );
    assert!(why(&timed, "u.written", ours, (0.8e5, 0.0, 1e9)).is_some(), "no difference would be of each operation");
    assert_eq!(why(&timed, "u.written", ours, (0.5e5, 0.5e5, 0.7e9)), None, "operations that failed were attempted");
    assert_eq!(why(&timed, "u.errors", (1e5, 10.0, 0.0), (2e4, 1e3, 0.0)), None, "many more failed");
    assert!(why(&timed, "u.errors", (1e5, 10.0, 0.0), (2e4, 3.0, 0.0)).is_some(), "fewer failed of fewer");
    assert!(why(&timed, "u.errors", (1e5, 1e3, 0.0), (2e4, 200.0, 0.0)).is_some(), "the same share failed");
    assert_eq!(why(&timed, "u.errors", ours, half), None, "none failed");
    assert_eq!(why(&timed, "u.written", (1e5, 0.0, 1e9), (2e5, 0.0, 0.5e9)), None, "less in spite of more operations");
    assert_eq!(why(&timed, "u.errors", (1e5, 10.0, 0.0), (2e4, 30.0, 0.0)), None, "more failed of fewer");
}

/// Removals that found nothing were 3.9 times faster.
#[test]
fn removals_of_nothing_are_named_and_not_compared() {
    let removing = TrialSpec { phases: vec![phase_spec("d", Action::Delete(ops(Amount::Records)))], ..spec("lmdb") };
    let ran = |misses| {
        let counts = [(Metric::Operations, 10.0), (Metric::Errors, 0.0), (Metric::Misses, misses)];
        record(vec![PhaseRecord { action: "delete".to_owned(), ..phase("d", &counts) }])
    };
    let why = |x: &TrialRecord, y: &TrialRecord| {
        let (x, y) = (variant_trials("x", &removing, x), variant_trials("y", &removing, y));
        variants::unequal_offer([&x, &y], &"d.time".parse().unwrap())
    };
    assert!(why(&ran(0.0), &ran(10.0)).unwrap().contains("found no record"));
    assert_eq!(why(&ran(5.0), &ran(5.0)), None);
    assert_eq!(why(&ran(10.0), &ran(10.0)), None);
    let named = |misses| trial::nothing_found(&ran(misses).phases[0], ("", "delete")).map(|found| found.message);
    assert_eq!(named(10.0).as_deref(), Some("10 removals found no record at all"));
    assert_eq!(named(9.0), None);
}

/// 105,000 puts of 100 records were measured without a word.
#[test]
fn operations_after_the_last_record_are_named() {
    let said = |action: Action, done: f64| {
        let name = action.name().to_owned();
        let spec = TrialSpec { phases: vec![phase_spec("p", action)], ..spec("lmdb") };
        let ran = record(vec![PhaseRecord { action: name, ..phase("p", &[(Metric::Operations, done)]) }]);
        let found = trial::check(&spec, &ran, Nanos::ZERO);
        found.into_iter().find(|finding| finding.guard == "beyond_records").map(|finding| finding.message)
    };
    let records = spec("lmdb").data[0].records as f64;
    let long = || ops(Amount::Duration(Nanos::from_secs(1)));
    for (action, work) in [
        (Action::Put(long()), "5 or more of them replace what the phase itself has stored"),
        (Action::Delete(long()), "5 or more of them remove nothing"),
    ] {
        assert!(said(action.clone(), records + 5.0).is_some_and(|text| text.ends_with(work)), "{work}");
        assert_eq!(said(action, records), None);
    }
    assert_eq!(said(Action::Update(long()), records + 5.0), None, "an update replaces");
    let counted = Action::Put(ops(Amount::Count(1_000_000)));
    assert_eq!(said(counted, records + 5.0), None, "known before the run");
}

/// An engine that had passed over all records overwrote them, which is faster than to insert.
#[test]
fn puts_that_replace_their_own_records_are_not_compared_with_puts_of_new_ones() {
    let of = |phases: Vec<Action>| {
        let names = ["p", "q", "r"].into_iter().zip(phases).map(|(name, action)| phase_spec(name, action));
        TrialSpec { phases: names.collect(), ..spec("lmdb") }
    };
    let for_a_second = || Action::Put(ops(Amount::Duration(Nanos::from_secs(1))));
    let ran = |operations: f64| {
        let counts = [(Metric::Operations, operations), (Metric::Distinct, operations.min(100.0))];
        record(["p", "q", "r"].map(|name| phase(name, &counts)).into())
    };
    let why = |spec: &TrialSpec, operations: [f64; 2], metric: &str| {
        let [x, y] = operations.map(ran);
        let (x, y) = (variant_trials("x", spec, &x), variant_trials("y", spec, &y));
        variants::unequal_offer([&x, &y], &metric.parse().unwrap())
    };
    let puts = of(vec![for_a_second()]);
    assert_eq!(
        why(&puts, [400.0, 90.0], "p.rate").as_deref(),
        Some(
            "`p`: 75 % of the operations of `x` replaced a record that the phase had stored before, but 0.0 % of those of `y`: bound them \
             by `count`"
        )
    );
    assert_eq!(why(&puts, [90.0, 60.0], "p.rate"), None);
    let again = of(vec![Action::Put(ops(Amount::Records)), for_a_second()]);
    assert_eq!(why(&again, [400.0, 90.0], "q.rate"), None, "both replace what the first phase has stored");
    let removed = of(vec![Action::Put(ops(Amount::Records)), Action::Delete(ops(Amount::Records)), for_a_second()]);
    assert!(why(&removed, [400.0, 90.0], "r.rate").is_some(), "nothing is there any more");
}

/// Reads that found nothing, since the file lets one variant remove the records before, were 2.6 times faster; so were scans.
#[test]
fn reads_that_find_less_are_not_compared_whatever_was_stored() {
    let of = |removed: u64, read: Action| {
        let remove = Action::Delete(ops(Amount::Count(removed)));
        TrialSpec { phases: vec![phase_spec("d", remove), phase_spec("r", read)], ..spec("lmdb") }
    };
    let ran = |metric, count| {
        let counts = [(Metric::Operations, 10.0), (Metric::Errors, 0.0), (metric, count)];
        record(vec![phase("d", &[(Metric::Operations, 1.0)]), phase("r", &counts)])
    };
    let why = |read: &Action, metric, counts: [f64; 2]| {
        let (a, b) = (of(1, read.clone()), of(9, read.clone()));
        let (x, y) = (ran(metric, counts[0]), ran(metric, counts[1]));
        let (x, y) = (variant_trials("x", &a, &x), variant_trials("y", &b, &y));
        variants::unequal_offer([&x, &y], &"r.time".parse().unwrap())
    };
    let get = Action::Get(ops(Amount::Count(10)));
    assert!(why(&get, Metric::Misses, [0.0, 9.0]).unwrap().contains("90 % of those of `y`"));
    assert_eq!(why(&get, Metric::Misses, [9.0, 9.0]), None);
    let scan = |length| Action::Scan(ScanSpec { ops: ops(Amount::Count(10)), length });
    let whole = scan(None);
    assert!(why(&whole, Metric::Rows, [100.0, 10.0]).unwrap().contains("found 10.0 rows, but one of `y` 1.0"));
    assert_eq!(why(&whole, Metric::Rows, [100.0, 95.0]), None, "lengths may be drawn at random");
}

/// Where the file asks for other amounts, their memory is what is compared; times are of other work all the same.
#[test]
fn memory_is_compared_where_the_variants_were_to_store_other_amounts() {
    let of = |seconds| {
        let put = Action::Put(ops(Amount::Duration(Nanos::from_secs(seconds))));
        TrialSpec { phases: vec![phase_spec("a", put), phase_spec("b", Action::Close)], ..spec("lmdb") }
    };
    let ran = |stored| record(vec![phase("a", &[(Metric::Operations, stored)]), phase("b", &[(Metric::Time, 1e9)])]);
    let why = |theirs: &TrialSpec, name: &str| {
        let (ours, x, y) = (of(1), ran(100.0), ran(200.0));
        let (x, y) = (variant_trials("x", &ours, &x), variant_trials("y", theirs, &y));
        variants::unequal_offer([&x, &y], &name.parse().unwrap())
    };
    assert!(why(&of(1), "b.rss.max").is_some() && why(&of(2), "b.time").is_some());
    assert_eq!(why(&of(2), "b.rss.max"), None);
}

/// A background stores as much as fits, however many operations the phase itself has.
#[test]
fn nothing_is_compared_after_a_background_that_stored_other_amounts() {
    let read = PhaseSpec {
        background: Some(Action::Put(ops(Amount::Background))),
        ..phase_spec("a", Action::Get(ops(Amount::Records)))
    };
    let spec = TrialSpec { phases: vec![read, phase_spec("b", Action::Close)], ..spec("lmdb") };
    let ran = |stored| {
        let mut ran = record(vec![phase("a", &[(Metric::Operations, 9.0)]), phase("b", &[(Metric::Time, 1e9)])]);
        let stored = [(MetricKeyText(MetricKey::amount(Metric::Operations)), Reading::Measured(stored))];
        ran.phases[0].readings.insert(BACKGROUND.to_owned(), stored.into());
        ran
    };
    let why = |theirs| {
        let (x, y) = (ran(100.0), ran(theirs));
        let (x, y) = (variant_trials("x", &spec, &x), variant_trials("y", &spec, &y));
        variants::unequal_offer([&x, &y], &"b.time".parse().unwrap())
    };
    let found = why(30.0).unwrap();
    assert!(found.starts_with("the background of `a` did as many operations as fitted, 100 in `x` but 30"), "{found}");
    assert_eq!(why(95.0), None);
}
