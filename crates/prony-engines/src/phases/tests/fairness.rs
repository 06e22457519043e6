//! Tests that engines are asked for the same work in the way that is best for each.

use prony_model::document::{DocumentSpec, Encoding, FieldSpec, Generator};
use prony_model::protocol::{PhaseReport, Unchanged};
use prony_model::spec::{
    Action, Amount, BytesSpec, Grouping, MixWeights, Ops, OptionValue, Order, Sampling, ScanSpec, Size, StoreSpec,
    Subject, ValueSpec,
};
use prony_model::units::{Bytes, Fraction, Nanos};

use super::fake::{self, ops, option, plan, reports, run_on};
use super::{N, get, mix, put, scan, succeeded};
use crate::phases::Plan;

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

/// The reports of phases in transactions of their own, and how many of each one's writes stored what was stored already, as the engine
/// counted them.
fn equal_writes(plan: &Plan) -> (Vec<PhaseReport>, Vec<u64>) {
    let (reports, mut before) = (reports(plan), 0.0);
    let equal = reports.iter().map(|report| {
        let all = report.engine_counters.get("equal").copied().unwrap_or(before);
        (all - std::mem::replace(&mut before, all)) as u64
    });
    let equal = equal.collect();
    (reports, equal)
}

/// SQLite writes no page and syncs nothing where a record holds already what is to be stored: a second `put` of a strict store seemed a
/// thousand times faster than that of another engine, and so did updates that came to a record again. Those of one client change it.
#[test]
fn writes_of_what_is_stored_are_counted_where_an_engine_skips_them() {
    let with = |order, count, threads| Ops { amount: Amount::Count(count), threads, ..ops(order) };
    let weights = |delete, insert| MixWeights { read: 1.0, update: 2.0, delete, insert, ..MixWeights::default() };
    let actions = [
        Action::Put(with(Order::Record, 30, 1)),
        Action::Put(with(Order::Record, 30, 1)),
        Action::Put(with(Order::Record, 20, 3)),
        put(),
        Action::Update(with(Order::Shuffled, 3, 1)),
        put(),
        Action::Put(with(Order::Uniform, 250, 1)),
        Action::Update(with(Order::Shuffled, 100, 3)),
        Action::Update(with(Order::Record, 250, 2)),
        Action::Update(with(Order::Uniform, 250, 2)),
        mix(weights(0.0, 0.0), with(Order::Uniform, 200, 2)),
        mix(weights(0.0, 1.0), with(Order::Latest { theta: 0.99 }, 300, 1)),
        mix(weights(1.0, 0.0), with(Order::Uniform, 200, 1)),
        Action::Put(with(Order::Uniform, 300, 3)),
        Action::Update(with(Order::Shuffled, 250, 1)),
        Action::Update(with(Order::Zipfian { theta: 0.99 }, 250, 1)),
        Action::Delete(with(Order::Record, 10, 1)),
        put(),
        get(Order::Record),
        Action::Verify,
    ];
    let (reports, equal) = equal_writes(&plan(100, actions));
    let known = |report: &PhaseReport| match report.unchanged {
        Some(Unchanged::Known(count)) => Some(count),
        _ => None,
    };
    let counted: Vec<_> = reports.iter().map(known).collect();
    let wanted: Vec<_> = equal.iter().map(|count| Some(*count)).collect();
    assert_eq!(counted[..16], wanted[..16]);
    assert_eq!(counted[..6], [0, 30, 20, 30, 0, 97].map(Some));
    assert_eq!(counted[7..9], [Some(0), Some(0)], "each record has its client");
    assert!(counted[9].unwrap() > 100 && counted[10].unwrap() > 10, "{counted:?}");
    assert_eq!(counted[11..13], [Some(0), Some(0)], "one client writes two versions in turn");
    assert_eq!(counted[14..], [Some(0), Some(0), None, wanted[17], None, None]);
    // What is left follows from the seed.
    let verified = reports[19].verified.unwrap();
    assert_eq!((verified.one_of_several, verified.may_be_absent), (0, 0));
}

/// Of documents that an update changes only if they have some field, the first eight said that all change; and documents that were not stored
/// counted as unchanged.
#[test]
fn updates_that_change_no_byte_are_counted_record_by_record() {
    let field = |name: &str, value, present| FieldSpec {
        name: name.to_owned(),
        value,
        present: Fraction::new(present).unwrap(),
    };
    let number = || field("n", Generator::Sequence { start: 0, step: 1 }, 1.0);
    let text = Generator::Text { bytes: Size::Fixed(Bytes::from_bytes(20)), compressible: Fraction::default() };
    let with = |count| Ops { amount: Amount::Count(count), ..ops(Order::Record) };
    for fields in [vec![number()], vec![number(), field("note", text, 0.4)]] {
        let often = |threads| Action::Update(Ops { threads, amount: Amount::Count(250), ..ops(Order::Uniform) });
        let mut plan = plan(100, [Action::Put(with(70)), Action::Update(with(100)), often(1), often(2), put()]);
        plan.spec.data[0].value = ValueSpec::Document(DocumentSpec { fields, encoding: Encoding::MsgPack, file: None });
        let (reports, equal) = equal_writes(&plan);
        let counted: Vec<_> = reports.into_iter().map(|report| report.unchanged.unwrap()).collect();
        assert_eq!(counted, equal.iter().map(|count| Unchanged::Known(*count)).collect::<Vec<_>>());
        assert!(equal[1] > 20 && equal[1] <= 70, "{equal:?}");
    }
}

/// An update after a removal writes, and of several clients it is not known which came first; nor what failed has left.
#[test]
fn writes_of_which_it_is_not_known_whether_they_change_anything_are_not_counted() {
    let with = |threads| Ops { amount: Amount::Count(2000), threads, ..ops(Order::Uniform) };
    let both = MixWeights { update: 1.0, delete: 1.0, ..MixWeights::default() };
    let why = |plan: &Plan| match reports(plan).pop().unwrap().unchanged {
        Some(Unchanged::NotKnown(why)) => why,
        other => panic!("{other:?}"),
    };
    let races = why(&plan(100, [put(), mix(both, with(2))]));
    assert_eq!(races, "it is not known which of several clients was the first to update or to remove a record");
    let fails = |every, then| option(plan(100, [put(), then]), "fail_every", OptionValue::Int(every));
    let after = why(&fails(60, put()));
    assert_eq!(after, "what was stored before is not known exactly");
    assert_eq!(why(&fails(150, Action::Put(with(1)))), "some operations failed");
}

/// Clients without a share of the records visit those of others: two of them wrote two versions of one record in turn, and `verify` called
/// a right store wrong where the other one was the last.
#[test]
fn clients_that_outnumber_the_records_write_one_version_of_each() {
    for order in [Order::Record, Order::Key, Order::Shuffled] {
        let update = Action::Update(Ops { amount: Amount::Count(201), threads: 4, ..ops(order) });
        let reports = reports(&plan(2, [put(), update, Action::Verify]));
        assert_eq!((reports[1].operations, &reports[1].unchanged), (201, &Some(Unchanged::Known(199))), "{order:?}");
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
