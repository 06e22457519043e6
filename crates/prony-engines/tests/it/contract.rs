//! The contract of every driver, tested for each engine. The random part, against the oracle, is in [`crate::oracle`].

mod transactions;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use prony_engines::driver::{Capabilities, Driver, EngineError, OptionKind, Read, Session, Store, Table, Then, Write};
use prony_model::spec::{Durability, OptionValue, StoreSpec};
use tempfile::TempDir;

pub(crate) use transactions::{
    a_transaction_reads_its_own_writes_or_says_that_it_does_not, conflicting_transactions_are_reported_as_such,
    no_increment_is_lost, readers_see_one_commit_at_a_time, what_is_discarded_or_dropped_is_not_there,
};

/// One test per clause of the contract, in a module named after the engine.
#[macro_export]
macro_rules! contract_suite {
    ($engine:ident, $driver:ty) => {
        $crate::contract_suite!($engine, $driver, true);
    };
    // Of an engine that needs what may be missing, which `$can` says aloud.
    ($engine:ident, $driver:ty, $can:expr) => {
        mod $engine {
            $crate::clauses!($driver, $can;
                it_says_what_it_is
                values_of_every_length_come_back
                keys_of_every_kind_come_back
                scans_begin_at_or_after_their_key
                overwriting_and_removing
                appended_rows_are_rows
                what_is_committed_survives_a_reopening
                what_is_discarded_or_dropped_is_not_there
                a_transaction_reads_its_own_writes_or_says_that_it_does_not
                readers_see_one_commit_at_a_time
                no_increment_is_lost
                conflicting_transactions_are_reported_as_such
                every_class_offered_is_in_force
                classes_that_are_not_offered_are_refused
                options_that_do_not_fit_are_refused
                every_switch_works_on_its_own
                extreme_values_are_refused_or_work
                a_place_where_no_store_can_be_is_an_error
            );

            #[test]
            fn agrees_with_the_oracle() {
                if !$can {
                    return;
                }
                $crate::oracle::agrees_with_the_oracle::<$driver>();
            }

            #[test]
            fn indexes_follow_every_change_and_alter_no_answer() {
                if !$can {
                    return;
                }
                $crate::indexes::indexes_follow_every_change_and_alter_no_answer::<$driver>();
            }

            #[test]
            fn a_killed_writer_leaves_no_entry_behind() {
                if !$can {
                    return;
                }
                let name = concat!(stringify!($engine), "::a_killed_writer_leaves_no_entry_behind");
                $crate::indexes::a_killed_writer_leaves_no_entry_behind::<$driver>(name);
            }

            #[test]
            fn a_killed_writer_leaves_no_reference_to_nothing() {
                if !$can {
                    return;
                }
                let name = concat!(stringify!($engine), "::a_killed_writer_leaves_no_reference_to_nothing");
                $crate::references::a_killed_writer_leaves_no_reference_to_nothing::<$driver>(name);
            }

            #[test]
            fn an_engines_own_queries_find_what_a_search_by_hand_finds() {
                if !$can {
                    return;
                }
                $crate::queries::an_engines_own_queries_find_what_a_search_by_hand_finds::<$driver>();
            }

            #[test]
            fn queries_find_what_a_search_by_hand_finds() {
                if !$can {
                    return;
                }
                $crate::queries::queries_find_what_a_search_by_hand_finds::<$driver>();
            }

            #[test]
            fn collections_in_one_store_stay_apart() {
                if !$can {
                    return;
                }
                $crate::collections::collections_in_one_store_stay_apart::<$driver>();
            }

            #[test]
            fn a_limit_without_a_sort_ends_the_search() {
                if !$can {
                    return;
                }
                $crate::queries::a_limit_without_a_sort_ends_the_search::<$driver>();
            }

            #[test]
            fn a_value_that_is_no_document_is_an_error() {
                if !$can {
                    return;
                }
                $crate::queries::a_value_that_is_no_document_is_an_error::<$driver>();
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! clauses {
    ($driver:ty, $can:expr; $($clause:ident)*) => {
        $(#[test]
        fn $clause() {
            if $can {
                $crate::contract::$clause::<$driver>();
            }
        })*
    };
}

pub(crate) fn scratch() -> TempDir {
    tempfile::Builder::new().prefix("prony-engines-").tempdir().unwrap()
}

/// The engine with its defaults.
pub(crate) fn plain<D: Driver>() -> StoreSpec {
    StoreSpec::of(&D::describe().name)
}

/// The engine with its weakest durability: power failures are not tested here.
pub(crate) fn fast<D: Driver>() -> StoreSpec {
    let weakest = D::describe().promises.iter().map(|promise| promise.class).max();
    StoreSpec { durability: weakest, ..plain::<D>() }
}

/// Opens a store with one collection.
pub(crate) fn opened<D: Driver>(dir: &Path, spec: &StoreSpec) -> Result<D::Store, EngineError> {
    let mut store = D::open(dir, spec)?;
    store.set_up_tables(&[Table::default()], true)?;
    Ok(store)
}

pub(crate) fn open<D: Driver>(dir: &TempDir, spec: &StoreSpec) -> D::Store {
    opened::<D>(dir.path(), spec).unwrap()
}

fn put<S: Store>(store: &S, rows: &[(&[u8], &[u8])]) {
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    for (key, value) in rows {
        txn.put(key, value).unwrap();
    }
    txn.commit().unwrap();
}

/// A server that does not wait for the disk cannot be asked to.
fn persist<D: Driver>(store: &D::Store, class: Durability) {
    match store.persist() {
        Err(EngineError::Unsupported { .. }) if capabilities::<D>().server && class == Durability::None => {}
        persisted => persisted.unwrap(),
    }
}

fn get<S: Store>(store: &S, key: &[u8]) -> Option<Vec<u8>> {
    let mut session = store.session().unwrap();
    let mut txn = session.read().unwrap();
    let value = get_in(&mut txn, key);
    txn.finish().unwrap();
    value
}

fn get_in<R: Read>(txn: &mut R, key: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let there = txn.get(key, |value| found = Some(value.to_vec())).unwrap();
    assert_eq!(there, found.is_some(), "the answer and the visit disagree");
    found
}

/// The first rows of a scan.
pub(crate) fn scan<R: Read>(
    txn: &mut R,
    from: &[u8],
    limit: u64,
    mut row: impl FnMut(&[u8], &[u8]),
) -> Result<(), EngineError> {
    let mut left = Some(limit);
    txn.scan(from, |key, value| {
        left = left.expect("a row after the scan broke off").checked_sub(1);
        if left.is_none() {
            return Then::Break(());
        }
        row(key, value);
        Then::Continue(())
    })
}

fn keys_from<S: Store>(store: &S, from: &[u8], limit: u64) -> Vec<Vec<u8>> {
    let mut session = store.session().unwrap();
    let mut txn = session.read().unwrap();
    let mut keys = Vec::new();
    scan(&mut txn, from, limit, |key, _| keys.push(key.to_vec())).unwrap();
    txn.finish().unwrap();
    keys
}

/// Checks that the store has these keys and none of the `absent` ones; in their order where it has one.
fn assert_keys<D: Driver>(store: &D::Store, expected: &[&[u8]], absent: &[&[u8]]) {
    if capabilities::<D>().ordered {
        assert_eq!(keys_from(store, &[0], u64::MAX), expected);
    }
    assert!(expected.iter().all(|key| get(store, key).is_some()), "a key is missing");
    assert!(absent.iter().all(|key| get(store, key).is_none()), "a key is left");
}

fn capabilities<D: Driver>() -> Capabilities {
    D::describe().capabilities
}

pub(crate) fn it_says_what_it_is<D: Driver>() {
    let engine = D::describe();
    assert!(engine.version.chars().any(|c| c.is_ascii_digit()), "no version: {:?}", engine.version);
    assert!(!engine.library.contains("unknown"));
    assert!(!engine.idiom.is_empty());
    assert_eq!(engine.promises.iter().filter(|promise| promise.default).count(), 1);
    let settings: BTreeSet<_> = engine.promises.iter().map(|promise| &promise.settings).collect();
    assert_eq!(settings.len(), engine.promises.len());
    assert!(!settings.contains(&String::new()));
    let names: BTreeSet<_> = engine.options.iter().map(|option| &option.name).collect();
    assert_eq!(names.len(), engine.options.len());
    assert!(engine.options.iter().all(|option| !option.doc.is_empty() && !option.default.is_empty()));
}

pub(crate) fn values_of_every_length_come_back<D: Driver>() {
    let dir = scratch();
    let store = open::<D>(&dir, &fast::<D>());
    let lengths = [0, 1, 100, 511, 4_096, 40_000, 1_000_000, 5_000_000];
    let value = |length: usize, salt: usize| (0..length).map(|i| (i * 31 + salt + i / 251) as u8).collect::<Vec<u8>>();
    for salt in [1, 2] {
        for length in lengths {
            put(&store, &[(format!("of {length}").as_bytes(), &value(length, salt))]);
        }
        for length in lengths {
            let read = get(&store, format!("of {length}").as_bytes());
            assert!(read == Some(value(length, salt)), "a value of {length} bytes is not what was stored");
        }
    }
    put(&store, &[(b"of 1000000", b"short")]);
    assert_eq!(get(&store, b"of 1000000").as_deref(), Some(b"short".as_slice()));
    store.close().unwrap();
}

pub(crate) fn keys_of_every_kind_come_back<D: Driver>() {
    let dir = scratch();
    let store = open::<D>(&dir, &fast::<D>());
    let longest = capabilities::<D>().max_key.unwrap_or(2_000).min(2_000) as usize;
    let mut keys: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    keys.extend([vec![0, 0], vec![0, 0, 0], vec![255, 255], vec![b'a', 0], vec![b'a', 0, 1], vec![b'k'; longest]]);
    let rows: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (key.as_slice(), key.as_slice())).collect();
    put(&store, &rows);
    for key in &keys {
        assert_eq!(get(&store, key).as_ref(), Some(key));
    }
    keys.sort();
    if capabilities::<D>().ordered {
        assert_eq!(keys_from(&store, &[0], u64::MAX), keys, "keys are not in byte order");
    }
    if let Some(longest) = capabilities::<D>().max_key.filter(|longest| *longest < 100_000) {
        let mut session = store.session().unwrap();
        let mut txn = session.write().unwrap();
        let stored = txn.put(&vec![b'k'; longest as usize + 1], b"v");
        assert!(matches!(stored, Err(EngineError::Engine { .. })), "a key above the limit was taken");
    }
    store.close().unwrap();
}

pub(crate) fn scans_begin_at_or_after_their_key<D: Driver>() {
    let dir = scratch();
    let store = open::<D>(&dir, &fast::<D>());
    if !capabilities::<D>().ordered {
        let mut session = store.session().unwrap();
        let scanned = scan(&mut session.read().unwrap(), b"a", 1, |_, _| ());
        assert!(matches!(scanned, Err(EngineError::Unsupported { .. })), "{scanned:?}");
        return;
    }
    assert_eq!(keys_from(&store, b"a", 10), Vec::<Vec<u8>>::new());
    let names: Vec<String> = (0..100).map(|i| format!("k{:03}", i * 2)).collect();
    let rows: Vec<(&[u8], &[u8])> = names.iter().map(|name| (name.as_bytes(), b"v".as_slice())).collect();
    put(&store, &rows);
    let named = |numbers: &[u32]| numbers.iter().map(|n| format!("k{n:03}").into_bytes()).collect::<Vec<_>>();
    assert_eq!(keys_from(&store, b"k010", 3), named(&[10, 12, 14]));
    assert_eq!(keys_from(&store, b"k011", 3), named(&[12, 14, 16]));
    assert_eq!(keys_from(&store, b"a", 1), named(&[0]));
    assert_eq!(keys_from(&store, b"k196", 10), named(&[196, 198]));
    assert_eq!(keys_from(&store, b"l", 10), named(&[]));
    assert_eq!(keys_from(&store, b"k000", 0), named(&[]));
    assert_eq!(keys_from(&store, b"k000", u64::MAX).len(), 100);
    store.close().unwrap();
}

pub(crate) fn overwriting_and_removing<D: Driver>() {
    let dir = scratch();
    let store = open::<D>(&dir, &fast::<D>());
    put(&store, &[(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]);
    assert_eq!(get(&store, b"a").as_deref(), Some(b"3".as_slice()));
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    assert!(txn.delete(b"a").unwrap(), "there was one to remove");
    txn.delete(b"never there").unwrap();
    txn.commit().unwrap();
    drop(session);
    assert_keys::<D>(&store, &[b"b"], &[b"a", b"never there"]);
    store.close().unwrap();
}

pub(crate) fn appended_rows_are_rows<D: Driver>() {
    let dir = scratch();
    let store = open::<D>(&dir, &fast::<D>());
    put(&store, &[(&0_u64.to_be_bytes(), b"first")]);
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    for number in 1..500_u64 {
        txn.append(&number.to_be_bytes(), &number.to_le_bytes()).unwrap();
    }
    txn.commit().unwrap();
    drop(session);
    let keys: Vec<[u8; 8]> = (0..500_u64).map(u64::to_be_bytes).collect();
    assert_keys::<D>(&store, &keys.iter().map(<[u8; 8]>::as_slice).collect::<Vec<_>>(), &[]);
    assert_eq!(get(&store, &499_u64.to_be_bytes()), Some(499_u64.to_le_bytes().to_vec()));
    store.close().unwrap();
}

pub(crate) fn what_is_committed_survives_a_reopening<D: Driver>() {
    for promise in D::describe().promises {
        let spec = StoreSpec { durability: Some(promise.class), ..plain::<D>() };
        let dir = scratch();
        let store = open::<D>(&dir, &spec);
        put(&store, &[(b"a", b"1")]);
        persist::<D>(&store, promise.class);
        if capabilities::<D>().persistent {
            put(&store, &[(b"b", b"2")]);
        }
        let mut session = store.session().unwrap();
        let mut txn = session.write().unwrap();
        txn.put(b"c", b"3").unwrap();
        drop(txn);
        drop(session);
        store.close().unwrap();
        let store = open::<D>(&dir, &spec);
        let (surviving, absent): (&[&[u8]], &[&[u8]]) =
            if capabilities::<D>().persistent { (&[b"a", b"b"], &[b"c"]) } else { (&[b"a"], &[b"b", b"c"]) };
        assert_keys::<D>(&store, surviving, absent);
        store.close().unwrap();
    }
}

pub(crate) fn every_class_offered_is_in_force<D: Driver>() {
    for promise in D::describe().promises {
        let spec = StoreSpec { durability: Some(promise.class), ..plain::<D>() };
        assert_eq!(D::check(&spec).unwrap().class, promise.class);
        let dir = scratch();
        let store = open::<D>(&dir, &spec);
        assert_eq!(store.in_force().unwrap().durability, promise.class);
        put(&store, &[(b"a", b"1")]);
        persist::<D>(&store, promise.class);
        assert!(store.counters().values().all(|counter| counter.is_finite()));
        store.close().unwrap();
    }
}

pub(crate) fn classes_that_are_not_offered_are_refused<D: Driver>() {
    let offered: Vec<Durability> = D::describe().promises.iter().map(|promise| promise.class).collect();
    for class in Durability::ALL.into_iter().filter(|class| !offered.contains(class)) {
        let spec = StoreSpec { durability: Some(class), ..plain::<D>() };
        let faults = D::check(&spec).unwrap_err();
        assert!(faults.iter().any(|fault| fault.hint.is_some()), "no hint for `{}`", class.name());
        assert!(D::open(scratch().path(), &spec).is_err());
    }
}

pub(crate) fn options_that_do_not_fit_are_refused<D: Driver>() {
    let with = |name: &str, value: OptionValue| StoreSpec {
        options: BTreeMap::from([(name.to_owned(), value)]),
        ..plain::<D>()
    };
    let faults = D::check(&with("no_such_option", OptionValue::Bool(true))).unwrap_err();
    assert_eq!(faults[0].option.as_deref(), Some("no_such_option"));
    for option in D::describe().options {
        let misfit = match option.kind {
            OptionKind::Bool | OptionKind::Bytes => OptionValue::Float(0.5),
            OptionKind::Int { max, .. } => OptionValue::Float(max as f64 + 0.5),
            OptionKind::OneOf(_) => OptionValue::Text("no such word".to_owned()),
        };
        let faults = D::check(&with(&option.name, misfit)).unwrap_err();
        assert_eq!(faults[0].option.as_ref(), Some(&option.name));
    }
}

/// Every value of an option that is a choice, every one that is allowed on its own.
pub(crate) fn every_switch_works_on_its_own<D: Driver>() {
    let mut tried = 0;
    for option in D::describe().options {
        let values = match option.kind {
            OptionKind::Bool => vec![OptionValue::Bool(false), OptionValue::Bool(true)],
            OptionKind::OneOf(words) => words.into_iter().map(OptionValue::Text).collect(),
            OptionKind::Bytes => vec![OptionValue::Text("64 MiB".to_owned())],
            OptionKind::Int { min, .. } => vec![OptionValue::Int(min.max(2))],
        };
        for value in values {
            let spec = StoreSpec { options: BTreeMap::from([(option.name.clone(), value)]), ..plain::<D>() };
            let Ok(settings) = D::check(&spec) else { continue };
            let dir = scratch();
            let store = open::<D>(&dir, &spec);
            assert_eq!(store.in_force().unwrap().durability, settings.class, "{spec:?}");
            put(&store, &[(b"a", b"1")]);
            assert_eq!(get(&store, b"a").as_deref(), Some(b"1".as_slice()), "{spec:?}");
            store.close().unwrap();
            tried += 1;
        }
    }
    assert!(tried > 0 || D::describe().options.is_empty());
}

/// The ends of every range: a fault, an error or a store, never a panic.
pub(crate) fn extreme_values_are_refused_or_work<D: Driver>() {
    for option in D::describe().options {
        let values = match option.kind {
            OptionKind::Bytes => vec![0, 1, 1 << 20],
            OptionKind::Int { min, max } => vec![min, max],
            OptionKind::Bool | OptionKind::OneOf(_) => continue,
        };
        for value in values.into_iter().map(OptionValue::Int) {
            let spec = StoreSpec { options: BTreeMap::from([(option.name.clone(), value)]), ..fast::<D>() };
            let dir = scratch();
            if D::check(&spec).is_err() {
                assert!(D::open(dir.path(), &spec).is_err());
            } else if let Ok(store) = opened::<D>(dir.path(), &spec) {
                put(&store, &[(b"a", b"1"), (b"b", &[7; 20_000])]);
                assert_eq!(get(&store, b"b").map(|value| value.len()), Some(20_000), "{spec:?}");
                store.close().unwrap();
            }
        }
    }
}

pub(crate) fn a_place_where_no_store_can_be_is_an_error<D: Driver>() {
    let dir = scratch();
    let file = dir.path().join("file");
    std::fs::write(&file, "not a directory").unwrap();
    let inside: &Path = &file.join("store");
    // An engine that opens nothing before it writes reports the error when it writes.
    let said = opened::<D>(inside, &plain::<D>()).and_then(|store| store.persist());
    assert!(matches!(said, Err(EngineError::Engine { .. })), "no error for {}", inside.display());
}
