//! Tests that indexes follow every change of their documents, also where the process that writes is killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use prony_engines::answers::Reads;
use prony_engines::documents::{Entries, Indexed, Indexes, Planned};
use prony_engines::driver::{Driver, Read, Session, Store, Then, Write};
use prony_model::spec::{Encoding, FieldPath};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::contract::{fast, open, opened, plain, scratch};
use crate::queries::{answer, by_hand, document, encoded, key, query, query_of_an_index, typed};

/// What a transaction does to a document.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Store(usize, Value),
    Remove(usize),
}

/// Documents are numbered below this.
pub(crate) const MOST: usize = 24;

pub(crate) fn change(lists: bool) -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0..MOST, document(lists)).prop_map(|(number, document)| Change::Store(number, document)),
        1 => (0..MOST).prop_map(Change::Remove),
    ]
}

fn changes(lists: bool) -> impl Strategy<Value = Vec<(Vec<Change>, bool)>> {
    prop::collection::vec((prop::collection::vec(change(lists), 1..24), prop::bool::weighted(0.8)), 1..5)
}

pub(crate) fn index_fields() -> impl Strategy<Value = Vec<Vec<FieldPath>>> {
    let fields = prop::sample::subsequence(vec!["a", "b", "i\"'\\n.c"], 1..=3).prop_shuffle();
    let paths = fields.prop_map(|names| names.iter().map(|name| name.parse().unwrap()).collect());
    prop::collection::vec(paths, 1..4)
}

/// Changes documents in one transaction.
fn changed<S: Session>(
    session: &mut S,
    indexes: &Indexes,
    changes: &[Change],
    encoding: Encoding,
    commits: bool,
    replaces: bool,
) {
    let mut txn = session.write().unwrap();
    for change in changes {
        apply(&mut txn, indexes, change, encoding, replaces);
    }
    if commits { txn.commit().unwrap() } else { txn.finish().unwrap() }
}

/// Changes a document.
pub(crate) fn apply<W: Write>(txn: &mut W, indexes: &Indexes, change: &Change, encoding: Encoding, replaces: bool) {
    let (number, document) = match change {
        Change::Store(number, document) => (*number, Some(document)),
        Change::Remove(number) => (*number, None),
    };
    let mut entries = Entries::default();
    if let Some(document) = document {
        indexes.push_entries(&typed(document.clone()), &key(number), &mut entries);
    }
    let stored = indexes.space().stored(&key(number));
    let indexed = Indexed { indexes, entries: entries.part(0..entries.bytes()), replaces };
    indexed.change(txn, &stored, &mut Reads::default(), |_, _| ()).unwrap();
    match document {
        Some(document) => txn.put(&stored, &encoded(document, encoding)).unwrap(),
        None => drop(txn.delete(&stored).unwrap()),
    }
}

/// Whatever indexes there are, and whatever changed the documents: answers are those without indexes, and no entry is missing or
/// left over.
pub(crate) fn indexes_follow_every_change_and_alter_no_answer<D: Driver>() {
    let capabilities = D::describe().capabilities;
    if !capabilities.ordered {
        return;
    }
    // Without it, documents are stored once and stay as they are.
    let replaces = capabilities.reads_own_writes;
    let of = |lists: bool| (Just(lists), changes(lists));
    let queries = prop::collection::vec(prop_oneof![1 => query(), 4 => query_of_an_index()], 1..32);
    let strategy = (any::<bool>().prop_flat_map(of), index_fields(), queries, any::<bool>());
    // Most on the engine that opens a store at once: what differs from engine to engine is not the planner.
    let cases = if capabilities.persistent { 40 } else { 1_000 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&strategy, |((lists, changes), fields, queries, json)| {
        let encoding = if json { Encoding::Json } else { Encoding::MsgPack };
        let indexes = Arc::new(Indexes::new(&fields, encoding, |_| lists));
        let dir = scratch();
        let store = open::<D>(&dir, &fast::<D>());
        let mut session = store.session().unwrap();
        let mut documents: Vec<Option<Value>> = vec![None; MOST];
        for (mut changes, commits) in changes {
            if !replaces {
                let mut stored: BTreeSet<usize> = (0..MOST).filter(|number| documents[*number].is_some()).collect();
                changes.retain(|change| matches!(change, Change::Store(number, _) if stored.insert(*number)));
            }
            changed(&mut session, &indexes, &changes, encoding, commits, replaces);
            for change in changes.iter().filter(|_| commits) {
                match change {
                    Change::Store(number, document) => documents[*number] = Some(document.clone()),
                    Change::Remove(number) => documents[*number] = None,
                }
            }
        }
        let (numbers, documents): (Vec<usize>, Vec<Value>) =
            documents.into_iter().enumerate().filter_map(|(number, document)| Some((number, document?))).unzip();
        let mut txn = session.read().unwrap();
        let (wanted, stored) = indexes.sums(&mut txn).unwrap();
        txn.finish().unwrap();
        prop_assert_eq!(wanted, stored);
        prop_assert!(wanted.entries >= (fields.len() * documents.len()) as u64);
        for (number, spec) in queries.into_iter().enumerate() {
            let page = documents.get(number % documents.len().max(1)).cloned().unwrap_or(json!({}));
            let expected = by_hand(&spec, &documents, &page);
            let planned = Planned::new(spec.clone(), encoding, Some(Arc::clone(&indexes)));
            let plan = planned.describe();
            let (matched, rows) = answer(&mut session, planned, &page, spec.skip, &mut Reads::default());
            if spec.count {
                prop_assert_eq!((matched, rows.len()), (expected.len() as u64, 0), "{} {:?}", plan, spec);
                continue;
            }
            let row = |at: usize| (key(numbers[at]).to_vec(), documents[at].clone());
            let expected: Vec<_> = expected.into_iter().map(row).collect();
            prop_assert_eq!(rows, expected, "{} {:?}", plan, spec);
        }
        drop(session);
        store.close().unwrap();
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// What a process does that is to be killed, and what must hold then.
pub(crate) trait Killed {
    /// Writes in a transaction of its own, by the number of the round.
    fn write<W: Write>(&self, txn: &mut W, round: usize);

    /// Checks what is stored, if a killed process leaves anything.
    fn check<R: Read>(&self, txn: &mut R);
}

/// Where a process writes that is to be killed.
const STORE: &str = "PRONY_TEST_WRITES_UNTIL_KILLED";

/// Opens a store, and writes transaction after transaction, by the number of the round; never ends.
fn write_until_killed<D: Driver>(dir: &Path, killed: &impl Killed) -> ! {
    let store = opened::<D>(dir, &plain::<D>()).unwrap();
    let mut session = store.session().unwrap();
    for round in 0usize.. {
        let mut txn = session.write().unwrap();
        killed.write(&mut txn, round);
        txn.commit().unwrap();
        if round == 5 {
            std::fs::write(dir.with_extension("ready"), "").unwrap();
        }
    }
    unreachable!("there are more rounds than time")
}

/// Kills a process that writes, some times at different places, and checks what is stored. The test `name` runs this; in a
/// process of its own it is the writer.
pub(crate) fn after_kills<D: Driver>(name: &str, killed: &impl Killed) {
    if let Some(dir) = std::env::var_os(STORE) {
        write_until_killed::<D>(Path::new(&dir), killed);
    }
    let capabilities = D::describe().capabilities;
    if !capabilities.ordered || !capabilities.reads_own_writes || !capabilities.persistent {
        return;
    }
    let scratch = scratch();
    let dir = scratch.path().join("store");
    std::fs::create_dir(&dir).unwrap();
    // A server is started by whoever opens its first store, and ends with that process.
    D::open(&dir, &plain::<D>()).unwrap().close().unwrap();
    for kill in 0..3 {
        let _ = std::fs::remove_file(dir.with_extension("ready"));
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut writer = command.args(["--exact", name]).env(STORE, &dir).stdout(Stdio::null()).spawn().unwrap();
        while !dir.with_extension("ready").exists() {
            assert!(writer.try_wait().unwrap().is_none(), "the writer has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Not always at the same place of a transaction.
        std::thread::sleep(Duration::from_micros(1_700 * kill));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let store = opened::<D>(&dir, &plain::<D>()).unwrap();
        let mut session = store.session().unwrap();
        let mut txn = session.read().unwrap();
        // The memory engine has what it persisted: nothing.
        if D::describe().name != "memory" {
            killed.check(&mut txn);
        }
        txn.finish().unwrap();
        drop(session);
        store.close().unwrap();
    }
}

/// Keys and documents of a collection.
pub(crate) fn rows<R: Read>(txn: &mut R, indexes: &Indexes) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let row = |key: &[u8], value: &[u8]| {
        rows.push((key.to_vec(), value.to_vec()));
        Then::Continue(())
    };
    indexes.space().scan(txn, row).unwrap();
    rows
}

/// Each transaction stores and removes the same documents in two collections.
struct Twice([Indexes; 2]);

impl Killed for Twice {
    fn write<W: Write>(&self, txn: &mut W, round: usize) {
        let change = |at: usize| match (round + at) % 5 {
            0 => Change::Remove(at),
            _ => Change::Store(at, json!({ "a": (round * 7 + at) % 11, "b": [round % 3, at % 2, "x"] })),
        };
        let changes: Vec<Change> = (0..MOST).map(change).collect();
        for (change, indexes) in changes.iter().flat_map(|change| self.0.iter().map(move |one| (change, one))) {
            apply(txn, indexes, change, Encoding::MsgPack, true);
        }
    }

    fn check<R: Read>(&self, txn: &mut R) {
        let mut documents = Vec::new();
        for indexes in &self.0 {
            let (wanted, found) = indexes.sums(txn).unwrap();
            assert_eq!(wanted, found);
            assert!(found.entries > 0);
            documents.push(rows(txn, indexes));
        }
        assert_eq!(documents[0], documents[1], "a transaction changes both collections or none");
    }
}

pub(crate) fn a_killed_writer_leaves_no_entry_behind<D: Driver>(name: &str) {
    let fields = [vec!["a".parse().unwrap(), "b".parse().unwrap()], vec!["b".parse().unwrap()]];
    let of = || Indexes::new(&fields, Encoding::MsgPack, |_| true);
    after_kills::<D>(name, &Twice([of(), of().above(of().space().byte().unwrap() + 1)]));
}
