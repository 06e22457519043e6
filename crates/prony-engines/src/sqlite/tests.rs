//! Tests of connections and transactions of SQLite.

use super::*;

fn opened(dir: &Path) -> SqliteStore {
    let spec = StoreSpec { durability: Some(prony_model::spec::Durability::None), ..StoreSpec::of(ENGINE) };
    let mut store = Sqlite::open(dir, &spec).unwrap();
    store.set_up_tables(&[Table::default()], true).unwrap();
    store
}

#[test]
fn single_operations_are_statements_outside_of_a_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let store = opened(dir.path());
    let mut session = store.session().unwrap();
    let mut write = session.write_once().unwrap();
    assert!(write.prepared.borrow_owner().is_autocommit());
    write.put(b"a", b"1").unwrap();
    // Committed with the statement.
    let mut other = store.session().unwrap();
    let mut read = other.read_once().unwrap();
    assert!(read.prepared.borrow_owner().is_autocommit());
    assert!(read.get(b"a", |_| ()).unwrap());
    read.finish().unwrap();
    write.commit().unwrap();
    assert!(!session.write().unwrap().prepared.borrow_owner().is_autocommit());
    assert!(!session.read().unwrap().prepared.borrow_owner().is_autocommit());
}

/// `btreeOverwriteContent` compares what a page has with what is to be written there, so that nothing is left to commit.
#[test]
fn a_write_of_what_is_stored_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = opened(dir.path());
    let mut session = store.session().unwrap();
    let mut log_after = |value: &[u8]| {
        let mut write = session.write().unwrap();
        write.put(b"a", value).unwrap();
        write.commit().unwrap();
        std::fs::metadata(dir.path().join("store.sqlite-wal")).unwrap().len()
    };
    let first = log_after(b"1");
    assert_eq!(log_after(b"1") == first, Sqlite::describe().capabilities.skips_equal);
    assert!(log_after(b"2") > first);
}

/// In SQLite's busy handler a writer sleeps up to 100 ms longer than the other one writes.
#[test]
fn writers_of_one_process_wait_at_a_mutex() {
    let dir = tempfile::tempdir().unwrap();
    let store = opened(dir.path());
    let mut session = store.session().unwrap();
    let is_free = || store.writer.try_lock().is_ok();
    for once in [false, true] {
        let txn = if once { session.write_once() } else { session.write() }.unwrap();
        assert!(!is_free());
        txn.commit().unwrap();
        assert!(is_free());
    }
    let txn = session.write().unwrap();
    txn.finish().unwrap();
    let txn = session.read().unwrap();
    assert!(is_free());
    txn.finish().unwrap();
}

/// What a phase has read is in the page cache of its connection.
#[test]
fn connections_stay_open_for_the_sessions_of_later_phases() {
    let dir = tempfile::tempdir().unwrap();
    let store = opened(dir.path());
    let mark = |session: &SqliteSession<'_>, sql: &str| {
        session.prepared.as_ref().unwrap().borrow_owner().execute_batch(sql).is_ok()
    };
    let first = store.session().unwrap();
    assert!(mark(&first, "CREATE TEMP TABLE mine(x)"));
    let second = store.session().unwrap();
    assert!(!mark(&second, "DROP TABLE temp.mine"));
    drop(second);
    drop(first);
    assert_eq!(store.idle().len(), 2);
    assert!(mark(&store.session().unwrap(), "DROP TABLE temp.mine"));
    store.close().unwrap();
    assert!(!dir.path().join("store.sqlite-wal").exists(), "the last connection removes the log");
}
