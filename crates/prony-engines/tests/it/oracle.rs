//! Random transactions on an engine and on the oracle: every answer must be the same.

use prony_engines::driver::{Driver, Read, Session, Store, Write};
use prony_engines::memory::Memory;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::contract::{fast, open, scratch};

#[derive(Clone, Debug)]
enum Op {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Get(Vec<u8>),
    Scan(Vec<u8>, u64),
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<Op>, bool),
    Read(Vec<Op>),
    Reopen,
}

/// Short keys of few different bytes, least and greatest included, so that operations often meet.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 1, b'a', b'b', 254, 255]), 1..4)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (any::<u8>(), 3_000_usize..9_000).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

fn read_op() -> impl Strategy<Value = Op> {
    prop_oneof![key().prop_map(Op::Get), (key(), 0_u64..8).prop_map(|(from, limit)| Op::Scan(from, limit))]
}

fn write_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (key(), value()).prop_map(|(key, value)| Op::Put(key, value)),
        2 => key().prop_map(Op::Delete),
        2 => read_op(),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (prop::collection::vec(write_op(), 0..24), prop::bool::weighted(0.8));
    let step = prop_oneof![
        5 => write.prop_map(|(ops, commit)| Step::Write(ops, commit)),
        3 => prop::collection::vec(read_op(), 1..12).prop_map(Step::Read),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..12)
}

/// The result of an operation: rows, or whether there was one.
type Answer = (Vec<(Vec<u8>, Vec<u8>)>, u64);

fn read<R: Read>(on: &mut R, op: &Op) -> Answer {
    let mut rows = Vec::new();
    let count = match op {
        Op::Get(key) => u64::from(on.get(key, |value| rows.push((key.clone(), value.to_vec()))).unwrap()),
        Op::Scan(from, limit) => {
            crate::contract::scan(on, from, *limit, |key, value| rows.push((key.to_vec(), value.to_vec()))).unwrap();
            rows.len() as u64
        }
        Op::Put(..) | Op::Delete(_) => 0,
    };
    (rows, count)
}

fn write<W: Write>(on: &mut W, op: &Op, reads: bool) -> Answer {
    match op {
        Op::Put(key, value) => on.put(key, value).unwrap(),
        // Not every engine can report whether there was one; the reads detect it.
        Op::Delete(key) => drop(on.delete(key).unwrap()),
        op if reads => return read(on, op),
        Op::Get(_) | Op::Scan(..) => {}
    }
    (Vec::new(), 0)
}

/// Whether the engine has the operation.
fn has(ordered: bool, op: &Op) -> bool {
    ordered || !matches!(op, Op::Scan(..))
}

/// Reads of every key that the steps name, for an engine that cannot list its rows.
fn every_key(steps: &[Step]) -> Step {
    let ops = steps.iter().flat_map(|step| match step {
        Step::Write(ops, _) | Step::Read(ops) => ops.as_slice(),
        Step::Reopen => &[],
    });
    let key = |op: &Op| match op {
        Op::Put(key, _) | Op::Delete(key) | Op::Get(key) | Op::Scan(key, _) => Op::Get(key.clone()),
    };
    Step::Read(ops.map(key).collect())
}

fn run<S: Store>(store: &S, step: &Step, reads: bool) -> Vec<Answer> {
    let mut session = store.session().unwrap();
    match step {
        Step::Reopen => Vec::new(),
        Step::Read(ops) => {
            let mut txn = if ops.len() == 1 { session.read_once() } else { session.read() }.unwrap();
            let answers = ops.iter().map(|op| read(&mut txn, op)).collect();
            txn.finish().unwrap();
            answers
        }
        Step::Write(ops, commit) => {
            let once = *commit && matches!(ops.as_slice(), [Op::Put(..) | Op::Delete(_)]);
            let mut txn = if once { session.write_once() } else { session.write() }.unwrap();
            let answers = ops.iter().map(|op| write(&mut txn, op, reads)).collect();
            if *commit { txn.commit() } else { txn.finish() }.unwrap();
            answers
        }
    }
}

fn agree<D: Driver>(steps: &[Step]) -> Result<(), TestCaseError> {
    let can = D::describe().capabilities;
    let (here, there) = (scratch(), scratch());
    let oracle = open::<Memory>(&there, &fast::<Memory>());
    let mut store = open::<D>(&here, &fast::<D>());
    for step in steps {
        let step = &match step {
            Step::Read(ops) => Step::Read(ops.iter().filter(|op| has(can.ordered, op)).cloned().collect()),
            step => step.clone(),
        };
        if matches!(step, Step::Reopen) {
            if !can.persistent {
                store.persist().unwrap();
            }
            store.close().unwrap();
            store = open::<D>(&here, &fast::<D>());
        }
        prop_assert_eq!(run(&store, step, can.reads_own_writes), run(&oracle, step, can.reads_own_writes));
    }
    let everything = if can.ordered { Step::Read(vec![Op::Scan(vec![0], u64::MAX)]) } else { every_key(steps) };
    prop_assert_eq!(run(&store, &everything, true), run(&oracle, &everything, true));
    store.close().unwrap();
    Ok(())
}

/// Random transactions, some discarded, with the store closed and opened in between.
pub(crate) fn agrees_with_the_oracle<D: Driver>() {
    // Failures are printed with their steps; a file of past ones would be written into the source tree.
    let config = Config { cases: 24, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    TestRunner::new(config).run(&steps(), |steps| agree::<D>(&steps)).unwrap();
}
