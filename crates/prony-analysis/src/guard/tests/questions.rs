//! Tests which answers are compared: those to the same question about the same data.

use prony_model::document::{DocumentSpec, Encoding};
use prony_model::spec::{Filter, FindSpec, MixSpec, MixWeights, QuerySpec, ScanLength, ScanSpec};

use super::*;

#[test]
fn answers_to_different_questions_do_not_differ() {
    let (a, b) = (answered("lines:aa", 10), answered("lines:ab", 10));
    let name = a.phases[0].name.clone();
    let asked = |amount, order, threads| TrialSpec {
        phases: vec![phase_spec(&name, Action::Get(Ops { order, threads, ..ops(amount) }))],
        ..spec("lmdb")
    };
    let differ = |x: &TrialSpec, y: &TrialSpec| {
        variants::answers_differ([&variant_trials("x", x, &a), &variant_trials("y", y, &b)]).len()
    };
    let drawn = asked(Amount::Count(10), Order::Uniform, 1);
    assert_eq!(differ(&drawn, &drawn), 1);
    assert_eq!(differ(&drawn, &asked(Amount::Count(10), Order::Uniform, 4)), 0, "other clients draw other records");
    assert_eq!(differ(&drawn, &asked(Amount::Count(20), Order::Uniform, 1)), 0, "more of them");
    let mut other_data = drawn.clone();
    other_data.data[0].records = 2000;
    assert_eq!(differ(&drawn, &other_data), 0, "other data");
    let scan = |rows: Option<u64>| {
        let length = rows.map(ScanLength::Fixed);
        let ops = Ops { order: Order::Uniform, ..ops(Amount::Count(10)) };
        TrialSpec { phases: vec![phase_spec(&name, Action::Scan(ScanSpec { ops, length }))], ..spec("lmdb") }
    };
    assert_eq!(differ(&drawn, &scan(None)), 0, "another action");
    assert_eq!((differ(&scan(Some(5)), &scan(Some(5))), differ(&scan(Some(5)), &scan(Some(6)))), (1, 0));
    let pass = asked(Amount::Records, Order::Record, 1);
    assert_eq!(differ(&pass, &asked(Amount::Records, Order::Shuffled, 4)), 1, "a pass reads all records");
    let after = |action| {
        let mut spec = pass.clone();
        spec.phases.insert(0, phase_spec("load", action));
        differ(&spec, &spec)
    };
    let for_a_time = || ops(Amount::Duration(Nanos::from_millis(300)));
    assert_eq!(after(Action::Put(for_a_time())), 0, "how much is stored depends on speed");
    assert_eq!(after(Action::Get(for_a_time())), 1, "reading changes nothing");
    assert_eq!(after(Action::Put(ops(Amount::Records))), 1);
}

/// A verified store of 1 thread and one of 4, each right, "differed", since their clients had updated other records.
#[test]
fn answers_after_phases_that_store_other_records_do_not_differ() {
    let (a, b) = (answered("lines:aa", 10), answered("lines:ab", 10));
    let after = |action| TrialSpec {
        phases: vec![phase_spec("load", action), phase_spec(&a.phases[0].name, Action::Verify)],
        ..spec("lmdb")
    };
    let differ = |x: Action, y: Action| {
        let (x, y) = (after(x), after(y));
        variants::answers_differ([&variant_trials("x", &x, &a), &variant_trials("y", &y, &b)]).len()
    };
    let update = |threads| Action::Update(Ops { order: Order::Uniform, threads, ..ops(Amount::Count(10)) });
    assert_eq!(differ(update(4), update(4)), 1, "the same draws");
    assert_eq!(differ(update(1), update(4)), 0, "other clients update other records");
    let put = |threads| Action::Put(Ops { threads, ..ops(Amount::Records) });
    assert_eq!(differ(put(1), put(4)), 1, "each record once, by whatever client");
    assert_eq!(differ(put(1), update(1)), 0, "another action");
    let mix = |threads, delete| {
        let weights = MixWeights { update: 1.0, delete, ..MixWeights::default() };
        let ops = Ops { order: Order::Uniform, threads, ..ops(Amount::Count(10)) };
        Action::Mix(MixSpec { ops, weights, scan_length: ScanLength::Fixed(1) })
    };
    assert_eq!(differ(mix(4, 0.0), mix(4, 0.0)), 1);
    assert_eq!(differ(mix(1, 1.0), mix(1, 1.0)), 1, "one client has one order");
    assert_eq!(differ(mix(4, 1.0), mix(4, 1.0)), 0, "an update and a removal race");
}

/// Updates that check references write one version of a record, others two in turn where they come to it again: right stores "differed".
#[test]
fn answers_after_updates_that_write_other_versions_do_not_differ() {
    let (a, b) = (answered("lines:aa", 10), answered("lines:ab", 10));
    let differ = |references: [References; 2], amount, order| {
        let [x, y] = references.map(|references| {
            let update = Action::Update(Ops { order, references, ..ops(amount) });
            let verify = phase_spec(&a.phases[0].name, Action::Verify);
            TrialSpec { phases: vec![phase_spec("change", update), verify], ..spec("lmdb") }
        });
        variants::answers_differ([&variant_trials("x", &x, &a), &variant_trials("y", &y, &b)]).len()
    };
    let (one, many) = (Amount::Count(10), Amount::Count(1_000_000));
    let apart = [References::Ignored, References::Checked];
    assert_eq!(differ(apart, one, Order::Uniform), 0);
    assert_eq!(differ(apart, many, Order::Shuffled), 0, "more than a pass");
    assert_eq!(differ(apart, one, Order::Shuffled), 1, "it comes to no record twice");
    assert_eq!(differ(apart, Amount::Records, Order::Record), 1);
    assert_eq!(differ([References::Checked, References::Locked], one, Order::Uniform), 1, "both write one version");
    assert_eq!(differ([References::Ignored; 2], one, Order::Uniform), 1);
}

#[test]
fn answers_of_queries_differ_though_documents_are_encoded_differently() {
    let (a, b) = (answered("lines:aa", 10), answered("lines:ab", 10));
    let asked = |encoding, records| {
        let mut spec = spec("lmdb");
        let data = &mut spec.data[0];
        data.records = records;
        data.value = ValueSpec::Document(DocumentSpec { fields: Vec::new(), encoding, file: None });
        let find = FindSpec { ops: ops(Amount::Records), queries: Vec::new() };
        spec.phases = vec![phase_spec(&a.phases[0].name, Action::Find(find))];
        spec
    };
    let plain = asked(Encoding::default(), 10);
    let differ = |other: &TrialSpec| {
        variants::answers_differ([&variant_trials("x", &plain, &a), &variant_trials("y", other, &b)]).len()
    };

    assert_eq!(differ(&asked(Encoding::Json, 10)), 1);
    assert_eq!(differ(&asked(Encoding::default(), 20)), 0, "other documents");
}

#[test]
fn answers_that_cannot_be_compared_do_not_differ() {
    assert_eq!(answers(&answered("lines:aa", 10), &answered("lines:aa", 10)), []);
    assert_eq!(answers(&answered("lines:aa", 10), &answered("bytes:ab", 10)), [], "digests of two kinds");
    let mut timed = answered("lines:ab", 77);
    timed.phases[0].answer.as_mut().unwrap().comparable = false;
    assert_eq!(answers(&answered("lines:aa", 10), &timed), [], "bounded by time");
    let mut elsewhere = answered("lines:ab", 10);
    elsewhere.trial.block = 1;
    assert_eq!(answers(&answered("lines:aa", 10), &elsewhere), [], "another block has other data");
    let mut partial = answered("lines:ab", 10);
    partial.phases[0].completion = Completion::Partial;
    assert_eq!(answers(&answered("lines:aa", 10), &partial), [], "not finished");
    assert_eq!(variants::refusal(&[]), None);
}

/// `limit = 50` was "3.92 times slower" than `limit = 10`, without a word of its rows.
#[test]
fn different_queries_are_named_with_their_rows() {
    let asked = |limit, amount, order| {
        let query = QuerySpec {
            collection: None,
            filter: Filter::All(Vec::new()),
            sort: Vec::new(),
            skip: 0,
            limit: Some(limit),
            select: Vec::new(),
            count: false,
        };
        let find = FindSpec { ops: Ops { order, ..ops(amount) }, queries: vec![query] };
        TrialSpec { phases: vec![phase_spec("q", Action::Find(find))], ..spec("lmdb") }
    };
    let all = |limit| asked(limit, Amount::Records, Order::Record);
    let ran = |rows| record(vec![phase("q", &[(Metric::Rows, rows)])]);
    let found = |(a, rows): (&TrialSpec, f64), (b, other): (&TrialSpec, f64)| {
        let (ours, theirs) = (ran(rows), ran(other));
        variants::check([&variant_trials("lim=10", a, &ours), &variant_trials("lim=50", b, &theirs)])
    };
    let (ten, fifty) = (all(10), all(50));
    let warned = found((&ten, 4_910.0), (&fifty, 22_550.0));
    assert_eq!((names(&warned), warned[0].severity), (vec!["queries_differ"], Severity::Warning));
    let rows = "`lim=10` returned 4910 rows, but `lim=50` returned 22550 rows";
    assert!(warned[0].message.ends_with(rows), "{}", warned[0].message);
    assert_eq!(found((&ten, 4_910.0), (&fifty, 4_910.0)), [], "as many rows");
    assert_eq!(found((&ten, 4_910.0), (&ten, 22_550.0)), [], "one query: the digests of the answers are compared");
    let other = asked(50, Amount::Count(20), Order::Record);
    assert_eq!(found((&ten, 4_910.0), (&other, 22_550.0)), [], "other operations too");
}
