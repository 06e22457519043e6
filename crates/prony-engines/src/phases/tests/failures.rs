//! Tests that a failed operation counts as failed everywhere: in counts, histograms, bytes and series (METHOD 1.4).

use prony_model::latency::Recorder;
use prony_model::protocol::PhaseReport;
use prony_model::record::LatencyKind;
use prony_model::spec::{
    Action, Amount, Arrivals, FindSpec, Grouping, MixSpec, MixWeights, Ops, OptionValue, Order, PauseEvery, Sampling,
    ScanLength, ScanSpec,
};
use prony_model::units::{Nanos, PerSecond};

use super::fake::{ops, option, plan, reports, run};
use super::indexed::{documents, queries};

/// Operations of a kind in a phase's histograms: succeeded and failed.
fn counted(report: &PhaseReport, operation: &str, kind: LatencyKind) -> (u64, u64) {
    let of = report.histograms.iter().find(|h| h.operation == operation && h.kind == kind);
    of.map_or((0, 0), |h| {
        let recorder = Recorder::from_record(h).unwrap();
        (recorder.succeeded(), recorder.failed())
    })
}

/// A put of so many records while an option makes some of it fail, and a get of what is left.
fn put_and_get(records: u64, with: Ops, fault: &str, every: i64) -> [PhaseReport; 3] {
    let get = Action::Get(Ops { transaction: Grouping::Batch(50), ..ops(Order::Record) });
    let plan = plan(records, [Action::Put(with), get, Action::Verify]);
    reports(&option(plan, fault, OptionValue::Int(every))).try_into().unwrap()
}

/// Counts, bytes and series agree with the content of the store afterwards.
fn agrees_with_the_store(put: &PhaseReport, get: &PhaseReport, records: u64) {
    assert_eq!(put.operations + put.errors, records);
    assert_eq!(get.rows, Some(put.operations));
    assert_eq!(put.user_bytes, get.user_bytes, "what is read back is what was stored");
    assert_eq!(put.throughput.as_ref().unwrap().operations.iter().sum::<u64>(), put.operations);
}

#[test]
fn failures_are_counted_and_their_transactions_discarded() {
    let batch = Ops { transaction: Grouping::Batch(10), sample: Sampling::Every, ..ops(Order::Shuffled) };
    let [put, get, verify] = put_and_get(1000, batch, "fail_every", 25);
    agrees_with_the_store(&put, &get, 1000);
    assert_eq!(verify.rows, Some(put.operations));
    assert!(put.errors > 40, "one put in 25 fails its whole transaction");
    assert_eq!(counted(&put, "put", LatencyKind::Service), (put.operations, put.errors));
    assert_eq!(counted(&put, "commit", LatencyKind::Service), (put.transactions, 0));
    assert_eq!(put.error_texts, [("`fake` failed while storing a value: the disk is full".to_owned(), 40)].into());
    let verified = verify.verified.unwrap();
    assert_eq!((verified.exact, verified.may_be_absent), (put.operations, put.errors), "it is known which failed");
}

#[test]
fn a_commit_that_fails_takes_its_operations_with_it_whatever_the_size() {
    for size in [1, 10, 256, 700, 2000] {
        let batch = Ops { transaction: Grouping::Batch(size), sample: Sampling::Every, ..ops(Order::Record) };
        let [put, get, verify] = put_and_get(5000, batch, "fail_commit_every", 3);
        agrees_with_the_store(&put, &get, 5000);
        assert_eq!(verify.verified.unwrap().may_be_absent, put.errors, "of {size}");
        let commits = 5000u64.div_ceil(size);
        assert_eq!((put.transactions, commits - put.transactions), (commits - commits / 3, commits / 3), "of {size}");
        assert_eq!(counted(&put, "put", LatencyKind::Service), (put.operations, put.errors), "of {size}");
        assert_eq!(counted(&put, "commit", LatencyKind::Service), (put.transactions, commits / 3), "of {size}");
    }
}

#[test]
fn one_transaction_over_everything_that_fails_leaves_nothing() {
    let single = Ops { transaction: Grouping::Single, sample: Sampling::Every, ..ops(Order::Record) };
    let [put, get, _] = put_and_get(3000, single, "fail_commit_every", 1);
    assert_eq!((put.operations, put.errors, put.user_bytes), (0, 3000, 0));
    agrees_with_the_store(&put, &get, 3000);
    assert_eq!(counted(&put, "put", LatencyKind::Service), (0, 3000));
}

#[test]
fn sampled_operations_of_undone_transactions_failed_too() {
    let batch = Ops { transaction: Grouping::Batch(10), sample: Sampling::OneIn(5), ..ops(Order::Record) };
    let [put, get, _] = put_and_get(1000, batch, "fail_commit_every", 4);
    agrees_with_the_store(&put, &get, 1000);
    assert_eq!(counted(&put, "put", LatencyKind::Service), (150, 50), "every fourth transaction fails");
}

#[test]
fn in_an_open_loop_both_latencies_know_of_failures() {
    let rate = PerSecond::new(1_000_000.0).map(|rate| Arrivals { rate, poisson: false });
    let batch = Ops { transaction: Grouping::Batch(20), rate, ..ops(Order::Record) };
    let [put, get, _] = put_and_get(1000, batch, "fail_commit_every", 5);
    agrees_with_the_store(&put, &get, 1000);
    for kind in [LatencyKind::Intended, LatencyKind::Actual] {
        assert_eq!(counted(&put, "put", kind), (800, 200));
    }
    assert_eq!(counted(&put, "commit", LatencyKind::Actual), (40, 10));
}

/// An engine that stalls until the end of its phase had the latencies of the time before.
#[test]
fn what_an_open_loop_never_started_is_infinitely_slow() {
    let rate = PerSecond::new(1e9).map(|rate| Arrivals { rate, poisson: false });
    let with = Ops { rate, amount: Amount::Duration(Nanos::from_millis(10)), ..ops(Order::Record) };
    let [put] = reports(&plan(1000, [Action::Put(with)])).try_into().unwrap();
    assert_eq!((put.saturated, put.operations + put.skipped), (true, 10_000_000));
    assert_eq!(counted(&put, "put", LatencyKind::Intended), (put.operations, put.skipped));
    assert_eq!(counted(&put, "put", LatencyKind::Actual), (put.operations, 0), "they have no real start");
}

/// As many were counted as are due on average, less those that had started: one late operation gave any number.
#[test]
fn what_was_never_started_is_what_the_random_schedule_had() {
    let due = |pause| {
        let rate = PerSecond::new(10_000.0).map(|rate| Arrivals { rate, poisson: true });
        let amount = Amount::Duration(Nanos::from_millis(100));
        let with = Ops { rate, amount, pause, ..ops(Order::Record) };
        let [put] = reports(&plan(1000, [Action::Put(with)])).try_into().unwrap();
        (put.operations + put.skipped, put.skipped)
    };
    let late = due(Some(PauseEvery { every: 10, time: Nanos::from_millis(200) }));
    assert!(late.1 > 0);
    assert_eq!((late.0, late.0 == 1000), (due(None).0, false), "the mean is 1000");
}

/// Each start that was skipped was drawn inside the phase's time: of 2 s were 222 s. These would take years.
#[test]
fn what_was_never_started_takes_no_time() {
    let amount = Amount::Duration(Nanos::from_millis(30));
    for poisson in [false, true] {
        let rate = PerSecond::new(1e18).map(|rate| Arrivals { rate, poisson });
        let [put] = reports(&plan(1000, [Action::Put(Ops { rate, amount, ..ops(Order::Record) })])).try_into().unwrap();
        assert!(put.saturated && put.skipped > 1_000_000_000_000_000, "{}", put.skipped);
    }
}

#[test]
fn failed_operation_loses_only_itself_in_own_and_shared_transactions() {
    for threads in [1, 3] {
        let each = Ops { threads, sample: Sampling::Every, ..ops(Order::Record) };
        let [put, get, _] = put_and_get(999, each, "fail_every", 9);
        agrees_with_the_store(&put, &get, 999);
        assert_eq!(counted(&put, "put", LatencyKind::Service), (888, 111));
    }
}

#[test]
fn what_compute_stores_counts_where_it_is_stored() {
    for transaction in [Grouping::Each, Grouping::Batch(10)] {
        let with = Ops { transaction, amount: Amount::Records, ..ops(Order::Record) };
        let get = Action::Get(ops(Order::Record));
        let plan = plan(500, [Action::Compute(with), get]);
        let [compute, get] = reports(&option(plan, "fail_every", OptionValue::Int(20))).try_into().unwrap();
        assert_eq!((compute.operations, compute.user_bytes), (get.rows.unwrap(), get.user_bytes));
    }
}

#[test]
fn what_undone_transactions_read_is_no_answer() {
    // The put has committed and put a thousand times; of the mix the 7th transaction fails, or its 5th operation.
    for (fault, every, lost) in [("fail_commit_every", 1007, 10), ("fail_every", 1005, 5)] {
        let mix = MixSpec {
            ops: Ops { transaction: Grouping::Batch(10), ..ops(Order::Record) },
            weights: MixWeights { read_modify_write: 1.0, ..MixWeights::default() },
            scan_length: ScanLength::Fixed(1),
        };
        let plan = plan(1000, [Action::Put(ops(Order::Record)), Action::Mix(mix)]);
        let [_, mixed] = reports(&option(plan, fault, OptionValue::Int(every))).try_into().unwrap();
        assert_eq!((mixed.operations, mixed.errors), (1000 - lost, lost), "{fault}");
        assert_eq!((mixed.rows, mixed.misses), (Some(mixed.operations), Some(0)), "{fault}");
        assert_eq!(mixed.answer.unwrap().rows, Some(mixed.operations), "{fault}");
    }
}

#[test]
fn what_an_operation_saw_before_it_failed_is_no_answer_either() {
    let single = |weights| MixSpec { ops: ops(Order::Record), weights, scan_length: ScanLength::Fixed(1) };
    let modify = || Action::Mix(single(MixWeights { read_modify_write: 1.0, ..MixWeights::default() }));
    // After a thousand puts the 7th commit of the mix fails, or its 5th put, where the read has been done.
    for (fault, every) in [("fail_commit_every", 1007), ("fail_every", 1005)] {
        let plan = || option(plan(1000, [Action::Put(ops(Order::Record)), modify()]), fault, OptionValue::Int(every));
        for (way, ran) in [("in one transaction", run::<true>(&plan())), ("in two", run::<false>(&plan()))] {
            let mixed = &ran.0[1];
            assert_eq!((mixed.operations, mixed.errors), (999, 1), "{fault} {way}");
            assert_eq!((mixed.rows, mixed.misses), (Some(999), Some(0)), "{fault} {way}");
            assert_eq!(mixed.answer.as_ref().unwrap().rows, Some(999), "{fault} {way}");
        }
    }
    let compute = Action::Compute(Ops { amount: Amount::Records, ..ops(Order::Record) });
    for action in [Action::Delete(ops(Order::Record)), compute] {
        let name = action.name();
        let [ended] =
            reports(&option(plan(1000, [action]), "fail_commit_every", OptionValue::Int(4))).try_into().unwrap();
        assert_eq!((ended.operations, ended.errors, ended.misses), (750, 250, Some(750)), "{name}");
    }
}

/// Rows that a read had returned before it failed were in `rows`, the bytes and the digest, and documents in `examined`.
#[test]
fn what_a_read_returned_before_it_failed_is_no_answer_either() {
    let failing = |plan| reports(&option(plan, "fail_read_every", OptionValue::Int(7)));
    for transaction in [Grouping::Each, Grouping::Batch(10)] {
        let with = Ops { transaction, ..ops(Order::Record) };
        let scan = ScanSpec { ops: with.clone(), length: Some(ScanLength::Fixed(1)) };
        let actions = [Action::Put(with.clone()), Action::Get(with.clone()), Action::Scan(scan)];
        let [put, got, scanned] = failing(plan(1001, actions)).try_into().unwrap();
        for read in [&got, &scanned] {
            assert_eq!((read.operations, read.errors, read.misses), (858, 143, Some(0)));
            assert_eq!(read.answer.as_ref().unwrap().rows, Some(858));
            assert!(read.user_bytes < put.user_bytes);
        }
        assert_eq!(scanned.user_bytes, got.user_bytes, "the same ones fail");

        let Action::Find(find) = queries() else { panic!("no queries") };
        let find = Action::Find(FindSpec { ops: Ops { amount: find.ops.amount, ..with.clone() }, ..find });
        let [_, found] = failing(documents(plan(600, [Action::Put(with), find]), &[])).try_into().unwrap();
        assert!(found.errors > 0 && found.operations > 0);
        assert_eq!(found.examined, Some(3 * 600 * found.operations), "three queries each read all documents");
    }
}

#[test]
fn misses_of_undone_transactions_are_no_answer_either() {
    let delete = Ops { transaction: Grouping::Batch(10), ..ops(Order::Record) };
    let plan = plan(1000, [Action::Delete(delete)]);
    let [deleted] = reports(&option(plan, "fail_commit_every", OptionValue::Int(4))).try_into().unwrap();
    assert_eq!((deleted.operations, deleted.errors, deleted.misses), (750, 250, Some(750)));
}

/// `verify` reads each record that did not fail, and would miss it.
#[test]
fn which_records_of_several_threads_failed_is_known() {
    for (order, transaction) in [(Order::Shuffled, Grouping::Each), (Order::Record, Grouping::Batch(300))] {
        let with = Ops { threads: 3, transaction, ..ops(order) };
        let fault = if with.transaction == Grouping::Each { "fail_every" } else { "fail_commit_every" };
        let [put, _, verify] = put_and_get(3000, with, fault, 4);
        let verified = verify.verified.unwrap();
        assert!(put.errors > 0 && put.operations > 0);
        assert_eq!((verified.exact, verified.may_be_absent), (put.operations, put.errors));
    }
}

/// A transaction that meets a newer write fails with all of its operations, and with nothing else.
#[cfg(feature = "rocksdb")]
#[test]
fn conflicts_fail_whole_transactions_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let update = Ops {
        amount: Amount::Count(20_000),
        threads: 4,
        transaction: Grouping::Batch(20),
        sample: Sampling::Every,
        ..ops(Order::Uniform)
    };
    let mut plan = plan(20, [Action::Put(ops(Order::Record)), Action::Update(update), Action::Verify]);
    plan.dir = dir.path().to_owned();
    let prony_model::spec::Subject::Store(store) = &mut plan.spec.subject else { panic!("no store") };
    store.durability = Some(prony_model::spec::Durability::Volatile);
    let (reports, ended) = super::fake::run_on::<crate::rocksdb::RocksDb>(&plan);
    ended.unwrap();
    let update = &reports[1];
    let conflicts = update.conflicts.unwrap();
    println!("{conflicts} conflicts in 1000 transactions");
    assert_eq!((update.operations + update.errors, update.errors), (20_000, 20 * conflicts));
    assert_eq!(update.transactions, 1000 - conflicts);
    let texts = update.error_texts.keys().filter(|text| text.contains("met a conflict with another transaction"));
    assert_eq!(texts.count(), usize::from(conflicts > 0));
    // RocksDB collects a transaction's writes until its commit, so that an update has no latency of its own.
    assert_eq!(counted(update, "update", LatencyKind::Service), (0, 0));
    assert_eq!(reports[0].conflicts, Some(0));
}
