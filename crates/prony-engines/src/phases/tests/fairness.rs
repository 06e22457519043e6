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
