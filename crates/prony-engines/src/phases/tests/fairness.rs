//! Tests that engines are asked for the same work in the way that is best for each.

use prony_model::spec::{
    Action, Amount, BytesSpec, Grouping, MixWeights, Ops, Order, Sampling, ScanSpec, Size, StoreSpec, Subject,
    ValueSpec,
};
use prony_model::units::{Bytes, Fraction, Nanos};

use super::fake::{self, ops, plan, reports, run_on};
use super::{N, get, mix, put, scan, succeeded};

/// Whether removals found something is not known of every engine: as misses of a mix they would look like reads that find less.
#[test]
fn misses_of_a_mix_are_those_of_its_reads() {
    let weights = MixWeights { read: 1.0, delete: 1.0, ..MixWeights::default() };
    let with = Ops { amount: Amount::Count(N), sample: Sampling::Every, ..ops(Order::Uniform) };
    let report = reports(&plan(100, [put(), mix(weights, with)])).pop().unwrap();
    let (read, rows, misses) = (succeeded(&report, "read"), report.rows.unwrap(), report.misses.unwrap());
    assert!(rows < read && read < N, "{rows} of {read}");
    assert_eq!(rows + misses, read);
}

/// SQLite writes no page and syncs nothing where a record holds already what is to be stored: a second `put` of a strict store seemed a
/// thousand times faster than that of another engine, and so did updates that came to a record again. Those of one client change it.
#[test]
fn writes_of_what_is_stored_are_counted_where_an_engine_skips_them() {
    let with = |order, count, threads| Ops { amount: Amount::Count(count), threads, ..ops(order) };
    let half = MixWeights { read: 1.0, update: 1.0, ..MixWeights::default() };
    let actions = [
        put(),
        Action::Put(with(Order::Shuffled, 40, 1)),
        Action::Update(with(Order::Shuffled, 100, 3)),
        Action::Update(with(Order::Record, 250, 2)),
        Action::Update(with(Order::Uniform, 250, 2)),
        mix(half, Ops { sample: Sampling::Every, ..with(Order::Uniform, 100, 2) }),
        mix(half, Ops { sample: Sampling::Every, ..with(Order::Uniform, 100, 1) }),
        Action::Update(with(Order::Shuffled, 250, 1)),
        Action::Update(with(Order::Zipfian { theta: 0.99 }, 250, 1)),
        get(Order::Record),
        Action::Verify,
    ];
    let reports = reports(&plan(100, actions));
    let unchanged: Vec<_> = reports.iter().map(|report| report.unchanged).collect();
    let drawn = 250 - reports[4].distinct.unwrap();
    assert!(drawn > 100, "{drawn}");
    assert_eq!(unchanged[..5], [Some(0), Some(40), Some(0), Some(0), Some(drawn)]);
    let updates = |index: usize| succeeded(&reports[index], "update");
    assert!(unchanged[5].unwrap() > 0 && unchanged[5].unwrap() < updates(5), "{:?} of {}", unchanged[5], updates(5));
    assert_eq!(unchanged[6..10], [Some(0), Some(0), Some(0), None]);
    let updated =
        reports[7].operations - reports[7].distinct.unwrap() + reports[8].operations - reports[8].distinct.unwrap();
    assert!(updated > 200, "{updated} updates of one client came to a record again");
    // What they left follows from the seed.
    let verified = reports[10].verified.unwrap();
    assert_eq!((verified.exact, verified.one_of_several, verified.may_be_absent), (100, 0, 0));
}

/// Clients without a share of the records visit those of others: two of them wrote two versions of one record in turn, and `verify` called
/// a right store wrong where the other one was the last.
#[test]
fn clients_that_outnumber_the_records_write_one_version_of_each() {
    for order in [Order::Record, Order::Key, Order::Shuffled] {
        let update = Action::Update(Ops { amount: Amount::Count(201), threads: 4, ..ops(order) });
        let reports = reports(&plan(2, [put(), update, Action::Verify]));
        assert_eq!((reports[1].operations, reports[1].unchanged), (201, Some(199)), "{order:?}");
        let verified = reports[2].verified.unwrap();
        assert_eq!((verified.exact, verified.one_of_several, verified.may_be_absent), (2, 0, 0));
    }
}

/// A single read or write may need no transaction around it.
#[test]
fn operations_in_transactions_of_their_own_are_announced_to_the_engine() {
    let actions = |transaction: Grouping| {
        let with = || Ops { transaction: transaction.clone(), ..ops(Order::Record) };
        let mix = mix(MixWeights { read_modify_write: 1.0, ..MixWeights::default() }, with());
        [Action::Put(with()), Action::Get(with()), mix, Action::Delete(with())]
    };
    let once = |transaction| -> Vec<f64> {
        reports(&plan(10, actions(transaction))).iter().map(|report| report.engine_counters["once"]).collect()
    };
    assert_eq!(once(Grouping::Each), [10.0, 20.0, 20.0, 30.0]);
    assert_eq!(once(Grouping::Batch(2)), [0.0; 4]);
}

/// Some scans of a large store are longer than the phase is to last.
#[test]
fn phase_with_a_duration_begins_with_one_operation() {
    for action in [get(Order::Record), scan(None, 1)] {
        let mut action = action;
        if let Action::Get(ops) | Action::Scan(ScanSpec { ops, .. }) = &mut action {
            ops.amount = Amount::Duration(Nanos::from_nanos(1));
        }
        assert_eq!(reports(&plan(N, [put(), action]))[1].operations, 1);
    }
}

/// SQLite stores rows of 1,000 bytes on 4.6 kB each where the table has no row identifiers.
#[cfg(feature = "sqlite")]
#[test]
fn sqlite_has_a_table_for_the_size_of_the_records() {
    let table = |bytes: u64| {
        let mut plan = fake::plan(10, [put(), Action::Reopen]);
        plan.spec.subject = Subject::Store(StoreSpec::of("sqlite"));
        let size = Size::Fixed(Bytes::from_bytes(bytes));
        plan.spec.data[0].value =
            ValueSpec::Bytes(BytesSpec { bytes: size, compressible: Fraction::default(), prefix: Vec::new() });
        let dir = tempfile::tempdir().unwrap();
        plan.dir = dir.path().to_path_buf();
        let (mut reports, ended) = run_on::<crate::sqlite::Sqlite>(&plan);
        ended.unwrap();
        let in_force = reports.pop().unwrap().effective.unwrap().in_force.unwrap();
        format!("{:?}", in_force.read_back["table"])
    };
    assert!(table(100).contains("WITHOUT ROWID"));
    assert!(!table(1_000).contains("WITHOUT ROWID"));
}
