//! Random changes of documents in three collections of one store, on an engine and by hand: each collection must hold its own
//! documents and no others, and answer queries as a search by hand.

use std::sync::Arc;

use prony_engines::answers::Reads;
use prony_engines::documents::{Indexes, Planned};
use prony_engines::driver::{Driver, Read, Session, Store, Table, Then, Write};
use prony_model::spec::{Encoding, FieldPath, QuerySpec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::contract::{fast, open, scratch};
use crate::indexes::{Change, MOST, apply, change, index_fields};
use crate::queries::{answer, by_hand, key, query, query_of_an_index};

const COLLECTIONS: usize = 3;

/// The documents by number, of each collection.
type Model = Vec<Vec<Option<Value>>>;

#[derive(Clone, Debug)]
struct Case {
    /// Changes of one transaction each, with the collection of each, and whether it is committed.
    transactions: Vec<(Vec<(usize, Change)>, bool)>,
    indexes: Vec<Vec<Vec<FieldPath>>>,
    queries: Vec<QuerySpec>,
}

fn case() -> impl Strategy<Value = Case> {
    let changes = prop::collection::vec((0..COLLECTIONS, change(true)), 1..40);
    let indexes = prop_oneof![1 => Just(Vec::new()), 2 => index_fields()];
    (
        prop::collection::vec((changes, prop::bool::weighted(0.8)), 1..5),
        prop::collection::vec(indexes, COLLECTIONS),
        prop::collection::vec(prop_oneof![1 => query(), 2 => query_of_an_index()], 1..12),
    )
        .prop_map(|(transactions, indexes, queries)| Case { transactions, indexes, queries })
}

/// The indexes of each collection, possibly none: the keys of all collections follow one another.
fn laid_out(fields: &[Vec<Vec<FieldPath>>], stored_beside: bool) -> Vec<Arc<Indexes>> {
    let (mut next, none) = (1, Vec::new());
    let each = fields.iter().map(|fields| {
        let fields = if stored_beside { fields } else { &none };
        let indexes = Indexes::new(fields, Encoding::MsgPack, |_| true).above(next);
        next = indexes.space().byte().unwrap() + 1;
        Arc::new(indexes)
    });
    each.collect()
}

fn table(number: usize, indexes: &Indexes) -> Table {
    Table { name: Some(format!("c{number}")), byte: indexes.space().byte(), ..Table::default() }
}

fn noted(model: &mut Model, changes: &[(usize, Change)]) {
    for (collection, change) in changes {
        match change {
            Change::Store(number, document) => model[*collection][*number] = Some(document.clone()),
            Change::Remove(number) => model[*collection][*number] = None,
        }
    }
}

/// The keys that a scan of the collection finds.
fn scanned<R: Read>(txn: &mut R, indexes: &Indexes) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let row = |key: &[u8], _: &[u8]| {
        keys.push(key.to_vec());
        Then::Continue(())
    };
    indexes.space().scan(txn, row).unwrap();
    keys
}

fn checked<S: Session>(session: &mut S, indexes: &Arc<Indexes>, stored: &[Option<Value>], queries: &[QuerySpec]) {
    let (numbers, documents): (Vec<usize>, Vec<Value>) =
        stored.iter().enumerate().filter_map(|(number, document)| Some((number, document.clone()?))).unzip();
    let mut txn = session.read().unwrap();
    let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(*number).to_vec()).collect();
    assert_eq!(scanned(&mut txn, indexes), keys);
    let (wanted, found) = indexes.sums(&mut txn).unwrap();
    assert_eq!(wanted, found);
    txn.finish().unwrap();
    for (number, spec) in queries.iter().enumerate() {
        let page = documents.get(number % documents.len().max(1)).cloned().unwrap_or(json!({}));
        let expected = by_hand(spec, &documents, &page);
        let planned = Planned::new(spec.clone(), Encoding::MsgPack, Some(Arc::clone(indexes)));
        let (matched, rows) = answer(session, planned, &page, spec.skip, &mut Reads::default());
        if spec.count {
            assert_eq!(matched, expected.len() as u64, "{spec:?}");
            continue;
        }
        let expected: Vec<_> = expected.into_iter().map(|at| (keys[at].clone(), documents[at].clone())).collect();
        assert_eq!(rows, expected, "{spec:?}");
    }
}

pub(crate) fn collections_in_one_store_stay_apart<D: Driver>() {
    let capabilities = D::describe().capabilities;
    if !capabilities.ordered {
        return;
    }
    // Without it, documents are stored once and stay as they are.
    let replaces = capabilities.reads_own_writes;
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    let result = runner.run(&case(), |case| {
        let all = laid_out(&case.indexes, !capabilities.own_documents);
        let dir = scratch();
        let mut store = open::<D>(&dir, &fast::<D>());
        let tables: Vec<Table> = all.iter().enumerate().map(|(number, indexes)| table(number, indexes)).collect();
        store.set_up_tables(&tables, true).unwrap();
        let mut session = store.session().unwrap();
        let mut model: Model = vec![vec![None; MOST]; COLLECTIONS];
        for (mut changes, commits) in case.transactions {
            if !replaces {
                let mut before = model.clone();
                changes.retain(|(collection, change)| match change {
                    Change::Store(number, _) => before[*collection][*number].replace(json!({})).is_none(),
                    Change::Remove(_) => false,
                });
            }
            let mut txn = session.write().unwrap();
            for (collection, change) in &changes {
                apply(&mut txn, &all[*collection], change, Encoding::MsgPack, replaces);
            }
            if commits {
                txn.commit().unwrap();
                noted(&mut model, &changes);
            } else {
                txn.finish().unwrap();
            }
        }
        for (indexes, stored) in all.iter().zip(&model) {
            checked(&mut session, indexes, stored, &case.queries);
        }
        drop(session);
        store.close().unwrap();
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
