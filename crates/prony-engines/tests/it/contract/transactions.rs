//! Clauses of the contract on transactions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

pub(crate) fn what_is_discarded_or_dropped_is_not_there<D: Driver>() {
    let dir = scratch();
    let store = open::<D>(&dir, &fast::<D>());
    put(&store, &[(b"a", b"1")]);
    let mut session = store.session().unwrap();
    for dropped in [false, true] {
        let mut txn = session.write().unwrap();
        txn.put(b"a", b"2").unwrap();
        txn.put(b"b", b"2").unwrap();
        txn.delete(b"a").unwrap();
        if dropped {
            drop(txn)
        } else {
            txn.finish().unwrap()
        }
        assert_eq!(get_in(&mut session.read().unwrap(), b"a").as_deref(), Some(b"1".as_slice()));
        assert_eq!(get_in(&mut session.read().unwrap(), b"b"), None);
    }
    // The session can still run a transaction that is committed.
    let mut txn = session.write().unwrap();
    txn.put(b"b", b"3").unwrap();
    txn.commit().unwrap();
    drop(session);
    assert_eq!(get(&store, b"b").as_deref(), Some(b"3".as_slice()));
    store.close().unwrap();
}

pub(crate) fn a_transaction_reads_its_own_writes_or_says_that_it_does_not<D: Driver>() {
    let dir = scratch();
    let store = open::<D>(&dir, &fast::<D>());
    put(&store, &[(b"a", b"1"), (b"b", b"1")]);
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    txn.put(b"c", b"2").unwrap();
    txn.delete(b"a").unwrap();
    if capabilities::<D>().reads_own_writes {
        assert_eq!(get_in(&mut txn, b"c").as_deref(), Some(b"2".as_slice()));
        assert_eq!(get_in(&mut txn, b"a"), None);
        let mut keys = Vec::new();
        scan(&mut txn, b"a", 9, |key, _| keys.push(key.to_vec())).unwrap();
        assert_eq!(keys, [b"b".to_vec(), b"c".to_vec()]);
    } else {
        assert!(matches!(txn.get(b"c", |_| {}), Err(EngineError::Unsupported { .. })));
        assert!(matches!(scan(&mut txn, b"a", 9, |_, _| {}), Err(EngineError::Unsupported { .. })));
    }
    txn.commit().unwrap();
    drop(session);
    assert_keys::<D>(&store, &[b"b", b"c"], &[b"a"]);
    store.close().unwrap();
}

const ROWS: u8 = 40;
const COMMITS: u64 = 60;

/// Writes the same number into every row, commit after commit.
fn write_generations<S: Store>(store: &S) {
    let mut session = store.session().unwrap();
    for generation in 1..=COMMITS {
        let mut txn = session.write().unwrap();
        for row in 0..ROWS {
            txn.put(&[row], &generation.to_le_bytes()).unwrap();
        }
        txn.commit().unwrap();
    }
}

/// Reads all rows in one transaction, repeatedly: all have one number, and never an older one.
fn read_generations<S: Store>(store: &S, done: &AtomicBool) -> u64 {
    let mut session = store.session().unwrap();
    let mut latest = 0;
    loop {
        let last = done.load(Ordering::Acquire);
        let mut txn = session.read().unwrap();
        let mut values: BTreeSet<Vec<u8>> = (0..ROWS / 2).filter_map(|row| get_in(&mut txn, &[row])).collect();
        scan(&mut txn, &[ROWS / 2], u64::MAX, |_, value| _ = values.insert(value.to_vec())).unwrap();
        txn.finish().unwrap();
        assert_eq!(values.len(), 1, "a reader saw parts of two commits");
        let number = values.pop_first().and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes).unwrap();
        assert!(number >= latest, "a reader went back from {latest} to {number}");
        latest = number;
        if last {
            return latest;
        }
    }
}

pub(crate) fn readers_see_one_commit_at_a_time<D: Driver>() {
    if !capabilities::<D>().snapshots {
        return;
    }
    let dir = scratch();
    let store = open::<D>(&dir, &fast::<D>());
    let rows: Vec<[u8; 1]> = (0..ROWS).map(|row| [row]).collect();
    let rows: Vec<(&[u8], &[u8])> = rows.iter().map(|row| (row.as_slice(), [0; 8].as_slice())).collect();
    put(&store, &rows);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(|| read_generations(&store, &done))).collect();
        write_generations(&store);
        done.store(true, Ordering::Release);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), COMMITS);
        }
    });
    store.close().unwrap();
}

/// Writers wait for each other, or one of them meets a conflict.
pub(crate) fn no_increment_is_lost<D: Driver>() {
    if !capabilities::<D>().reads_own_writes {
        return;
    }
    fn increment<S: Session>(session: &mut S) -> Result<(), EngineError> {
        let mut txn = session.write()?;
        let mut number = 0;
        txn.get_to_write(b"n", |value| number = u64::from_le_bytes(value.try_into().unwrap()))?;
        txn.put(b"n", &(number + 1).to_le_bytes())?;
        txn.commit()
    }
    let dir = scratch();
    let store = open::<D>(&dir, &fast::<D>());
    put(&store, &[(b"n", &0_u64.to_le_bytes())]);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut session = store.session().unwrap();
                for _ in 0..40 {
                    while let Err(error) = increment(&mut session) {
                        let may_conflict = capabilities::<D>().concurrent_writers;
                        assert!(may_conflict && matches!(error, EngineError::Conflict { .. }), "{error}");
                    }
                }
            });
        }
    });
    assert_eq!(get(&store, b"n"), Some(120_u64.to_le_bytes().to_vec()), "an increment was lost");
    store.close().unwrap();
}

/// Of engines whose write transactions run at the same time.
pub(crate) fn conflicting_transactions_are_reported_as_such<D: Driver>() {
    if !capabilities::<D>().reads_own_writes || !capabilities::<D>().concurrent_writers {
        return;
    }
    let dir = scratch();
    let store = open::<D>(&dir, &fast::<D>());
    let (mut one, mut other) = (store.session().unwrap(), store.session().unwrap());
    let (mut first, mut second) = (one.write().unwrap(), other.write().unwrap());
    // Neither sees what the other stores.
    assert_eq!((get_in(&mut first, b"n"), get_in(&mut second, b"n")), (None, None));
    let stored = first.put(b"n", b"1").and_then(|()| second.put(b"n", b"2"));
    let ended = [first.commit(), stored.and_then(|()| second.commit())];
    let failed: Vec<&EngineError> = ended.iter().filter_map(|ended| ended.as_ref().err()).collect();
    assert!(matches!(failed.as_slice(), [EngineError::Conflict { .. }]), "{failed:?}");
    // What one has read and means to replace has been replaced by the other meanwhile.
    let (mut first, mut second) = (one.write().unwrap(), other.write().unwrap());
    first.get_to_write(b"n", |_| ()).unwrap();
    second.put(b"n", b"3").and_then(|()| second.commit()).unwrap();
    let stored = first.put(b"n", b"4").and_then(|()| first.commit());
    assert!(matches!(stored, Err(EngineError::Conflict { .. })), "{stored:?}");
}
