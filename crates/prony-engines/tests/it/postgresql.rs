//! PostgreSQL servers for the contract suite, started by the tests themselves, and tests of this driver alone.

mod documents;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use prony_engines::answers::Reads;
use prony_engines::documents::Planned;
use prony_engines::driver::{
    Capabilities, Description, Documents, Driver, EngineError, Read, Session, Settings, Store, StoreFault, Table, Then,
    Write,
};
use prony_engines::own_query::OwnQuery;
use prony_engines::postgresql::{Postgresql, PostgresqlStore};
use prony_model::observed::Observed;
use prony_model::record::effective::Setting;
use prony_model::spec::{
    DocumentFile, DocumentSpec, Durability, Encoding, FieldPath, FieldSpec, FieldValue, Filter, Generator, Operand,
    OptionValue, QuerySpec, RowForm, SortKey, StoreSpec, Test,
};
use prony_model::units::{Bytes, Fraction};
use serde_json::Value;

use crate::contract::{fast, opened, plain, scratch};
use crate::server::{Server, are_there};

/// Starts a server in `$1` at port `$2` with `fsync = $3`, as user `nobody` where root runs this, which PostgreSQL refuses;
/// ends it and removes its files when the test that holds the other end of its input has ended, however it does.
const SERVER: &str = r#"
[ "$(id -u)" = 0 ] && as="setpriv --reuid=65534 --regid=65534 --clear-groups" && chown 65534:65534 "$1"
cd "$1" || exit 1
$as initdb -D "$1/data" -U postgres -A trust --no-sync --locale=C -E UTF8 </dev/null >"$1/initdb" 2>&1 || { cat "$1/initdb"; exit 1; }
$as postgres -D "$1/data" -p "$2" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync="$3" \
    -c max_connections=200 </dev/null >"$1/log" 2>&1 &
cat >/dev/null
kill -QUIT $!
wait
rm -rf "$1"
"#;

/// The server whose `fsync` is on, and the other.
static SERVERS: [OnceLock<Server>; 2] = [OnceLock::new(), OnceLock::new()];

/// Whether PostgreSQL is installed.
pub(crate) fn is_there() -> bool {
    are_there(&["postgres", "initdb", "psql"])
}

fn psql(url: impl AsRef<str>, sql: &str) -> Option<String> {
    let output = Command::new("psql").args(["-X", "-q", "-A", "-t", "-d", url.as_ref(), "-c", sql]).output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

fn server(fsync: bool) -> String {
    let url = |port| format!("postgresql://postgres@127.0.0.1:{port}/postgres");
    let is_ready = |port| psql(url(port), "SELECT 1").is_some();
    let words: &[&str] = if fsync { &["on"] } else { &["off"] };
    url(SERVERS[usize::from(fsync)].get_or_init(|| Server::start("postgresql", SERVER, words, is_ready)).port)
}

/// The URL of a schema that belongs to this directory, in a server of this class: the same for all that open it.
fn url(dir: &Path, class: Option<Durability>) -> String {
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    let fsync = class != Some(Durability::None);
    let known = dir.join(format!("url-{fsync}"));
    if let Ok(url) = std::fs::read_to_string(&known) {
        return url;
    }
    let (server, schema) = (server(fsync), format!("s{}", SCHEMAS.fetch_add(1, Ordering::Relaxed)));
    psql(&server, &format!("CREATE SCHEMA {schema}")).unwrap();
    let url = format!("{server}?options=-csearch_path%3D{schema}");
    // Where the directory is none, the driver says so.
    let _ = std::fs::write(known, &url);
    url
}

/// The driver with a server of the tests.
pub(crate) struct Started;

impl Driver for Started {
    type Store = PostgresqlStore;

    fn describe() -> Description {
        Postgresql::describe()
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        Postgresql::check(spec)
    }

    fn capabilities(spec: &StoreSpec) -> Capabilities {
        Postgresql::capabilities(spec)
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<PostgresqlStore, EngineError> {
        let url = Some(spec.url.clone().unwrap_or_else(|| url(dir, spec.durability)));
        Postgresql::open(dir, &StoreSpec { url, ..spec.clone() })
    }

    fn own_query(query: &QuerySpec, document: &DocumentSpec, page: &DocumentSpec, table: &Table) -> Option<OwnQuery> {
        Postgresql::own_query(query, document, page, table)
    }
}

fn put(store: &PostgresqlStore, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
    let mut session = store.session()?;
    let mut txn = session.write()?;
    txn.put(key, value)?;
    txn.commit()
}

fn has(store: &PostgresqlStore, key: &[u8]) -> bool {
    store.session().unwrap().read().unwrap().get(key, |_| ()).unwrap()
}

#[test]
fn trial_begins_with_an_empty_store_and_goes_on_with_its_own() {
    if !is_there() {
        return;
    }
    let (first, second) = (scratch(), scratch());
    let at = StoreSpec { url: Some(url(first.path(), Some(Durability::None))), ..fast::<Started>() };
    let store = opened::<Started>(first.path(), &at).unwrap();
    put(&store, b"a", b"1").unwrap();
    let busy = opened::<Started>(second.path(), &at).map(drop).unwrap_err();
    assert!(prony_engines::timed_loop::chain(&busy).contains("another run uses the table"), "{busy:?}");
    assert!(has(&store, b"a"), "what is refused changes nothing");
    store.close().unwrap();
    let store = opened::<Started>(first.path(), &at).unwrap();
    assert!(has(&store, b"a"), "opened again in the same trial");
    store.close().unwrap();
    let store = opened::<Started>(second.path(), &at).unwrap();
    assert!(!has(&store, b"a"), "of another trial");
    store.close().unwrap();
}

/// The lock was lost with the session that had it, and a run went on although another one might have taken its tables.
#[test]
fn store_is_not_confirmed_once_the_session_with_its_lock_has_ended() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    // A server that ends idle sessions: those of a trial are not among them.
    let at = format!("{}%20-cidle_session_timeout%3D500", url(dir.path(), Some(Durability::None)));
    let store = opened::<Started>(dir.path(), &StoreSpec { url: Some(at), ..fast::<Started>() }).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    store.confirm().unwrap();
    let schema = url(dir.path(), Some(Durability::None)).rsplit_once("%3D").unwrap().1.to_owned();
    let end = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND objid = hashtext('{schema}')::oid"
    );
    assert_eq!(psql(server(false), &end).as_deref(), Some("1"));
    let error = store.confirm().unwrap_err();
    assert!(prony_engines::timed_loop::chain(&error).contains("looking for the lock of the tables"), "{error:?}");
    assert!(!has(&store, b"a"), "other sessions go on");
    store.close().unwrap();
}

#[test]
fn table_that_prony_did_not_make_is_not_touched_and_one_that_was_replaced_is_noticed() {
    if !is_there() {
        return;
    }
    let (first, second) = (scratch(), scratch());
    let at = StoreSpec { url: Some(url(first.path(), Some(Durability::None))), ..fast::<Started>() };
    let sql = |text: &str| psql(at.url.as_deref().unwrap(), text).unwrap_or_else(|| panic!("{text}"));
    sql("CREATE TABLE prony_records(mine text); CREATE TABLE prony_records_kept(mine text)");
    let text = |dir: &Path| prony_engines::timed_loop::chain(&opened::<Started>(dir, &at).map(drop).unwrap_err());
    assert!(text(first.path()).contains("that prony did not make"));
    sql("DROP TABLE prony_records");
    opened::<Started>(first.path(), &at).unwrap().close().unwrap();
    assert_eq!(sql("SELECT count(*) FROM prony_records_kept"), "0", "another table of a similar name");
    sql("CREATE VIEW seen AS SELECT * FROM prony_records");
    assert!(text(second.path()).contains("other objects depend on it"), "nothing else is dropped with it");
    sql("DROP VIEW seen");
    opened::<Started>(second.path(), &at).unwrap().close().unwrap();
    assert!(text(first.path()).contains("was replaced"));
}

/// The first schema of the search path is the one of the table, whatever the others have.
#[test]
fn tables_of_other_schemas_on_the_search_path_are_not_touched() {
    if !is_there() {
        return;
    }
    let (other, own) = (scratch(), scratch());
    let schema = |dir: &Path| url(dir, Some(Durability::None)).rsplit_once("%3D").unwrap().1.to_owned();
    let fast = || fast::<Started>();
    let of_other = opened::<Started>(other.path(), &fast()).unwrap();
    put(&of_other, b"a", b"1").unwrap();
    let both = format!("{},{}", schema(own.path()), schema(other.path()));
    let at = Some(format!("{}?options=-csearch_path%3D{both}", server(false)));
    let store = opened::<Started>(own.path(), &StoreSpec { url: at, ..fast() }).unwrap();
    assert!(!has(&store, b"a"));
    put(&store, b"b", b"2").unwrap();
    assert!(has(&of_other, b"a") && !has(&of_other, b"b"), "another run goes on");
    store.close().unwrap();
    of_other.close().unwrap();
}

#[test]
fn server_has_the_writes_of_an_open_transaction_when_they_are_delivered() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    let store = opened::<Started>(dir.path(), &fast::<Started>()).unwrap();
    let schema = url(dir.path(), Some(Durability::None)).rsplit_once("%3D").unwrap().1.to_owned();
    let locks = format!(
        "SELECT count(*) FROM pg_locks WHERE relation = '{schema}.prony_records'::regclass AND mode = 'RowExclusiveLock'"
    );
    let locks = || psql(server(false), &locks).unwrap();
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    txn.put(b"a", b"1").unwrap();
    assert_eq!(locks(), "0", "collected");
    txn.deliver().unwrap();
    assert_eq!(locks(), "1");
    txn.put(b"b", b"2").unwrap();
    txn.commit().unwrap();
    drop(session);
    assert!(has(&store, b"a") && has(&store, b"b"));
    store.close().unwrap();
}

#[test]
fn transactions_that_only_write_wait_for_each_other_and_those_that_read_conflict() {
    if !is_there() {
        return;
    }
    for (isolation, conflicts) in [("repeatable read", true), ("serializable", true), ("read committed", false)] {
        let dir = scratch();
        let options = [("isolation".to_owned(), OptionValue::Text(isolation.to_owned()))].into();
        let store = opened::<Started>(dir.path(), &StoreSpec { options, ..fast::<Started>() }).unwrap();
        put(&store, b"a", b"0").unwrap();
        let mut session = store.session().unwrap();
        let mut open = session.write().unwrap();
        open.put(b"a", b"1").unwrap();
        open.deliver().unwrap();
        let (blind, reading) = std::thread::scope(|scope| {
            let blind = scope.spawn(|| put(&store, b"a", b"2"));
            let reading = scope.spawn(|| {
                let mut session = store.session()?;
                let mut txn = session.write()?;
                txn.get(b"a", |_| ())?;
                txn.put(b"a", b"3")?;
                txn.commit()
            });
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            let until = Instant::now() + Duration::from_secs(60);
            while psql(server(false), waiting).unwrap().parse::<u32>().unwrap() < 2 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            open.commit().unwrap();
            (blind.join().unwrap(), reading.join().unwrap())
        });
        let conflict = |done: &Result<(), EngineError>| matches!(done, Err(EngineError::Conflict { .. }));
        assert_eq!((conflict(&reading), reading.is_err()), (conflicts, conflicts), "{isolation}: {reading:?}");
        let fails = isolation == "serializable";
        assert_eq!((conflict(&blind), blind.is_err()), (fails, fails), "{isolation}: {blind:?}");
        drop(session);
        store.close().unwrap();
    }
}

#[test]
fn scan_fetches_as_many_rows_as_are_read() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    let store = opened::<Started>(dir.path(), &fast::<Started>()).unwrap();
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    (0..3000_u32).for_each(|n| txn.put(&n.to_be_bytes(), &[7; 100]).unwrap());
    txn.commit().unwrap();
    let at = url(dir.path(), Some(Durability::None));
    // The planner looks at the ends of an index, and fetches the rows there
    // unless their pages are known to be visible to all; VACUUM cannot mark
    // them while a transaction of another test is open.
    let unmarked = "SELECT relpages - relallvisible FROM pg_class WHERE oid = 'prony_records'::regclass";
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        psql(&at, "VACUUM ANALYZE prony_records").unwrap();
        if psql(&at, unmarked).unwrap() == "0" {
            break;
        }
        assert!(Instant::now() < until, "VACUUM marks no page");
        std::thread::sleep(Duration::from_millis(50));
    }
    let fetched = || {
        let sql = "SELECT coalesce(sum(idx_tup_fetch), 0) FROM pg_stat_user_tables WHERE relname = 'prony_records' AND \
                   schemaname = current_schema()";
        psql(&at, sql).unwrap().parse::<u64>().unwrap()
    };
    drop(session);
    // The numbers of a session are there soon after its end.
    let settled = || {
        let (mut before, mut same) = (fetched(), 0);
        while same < 5 {
            std::thread::sleep(Duration::from_millis(50));
            let now = fetched();
            same = if now == before { same + 1 } else { 0 };
            before = now;
        }
        before
    };
    let before = settled();
    let mut session = store.session().unwrap();
    for (rows, from) in [(1_u64, 5_u32), (3, 10), (100, 200), (1024, 0), (1500, 100), (10, 2995)] {
        let (mut found, first) = (Vec::new(), from.to_be_bytes());
        let mut txn = session.read_once().unwrap();
        txn.scan_at_most(&first, rows, |key, _| {
            found.push(u32::from_be_bytes(key.try_into().unwrap()));
            if found.len() as u64 == rows { Then::Break(()) } else { Then::Continue(()) }
        })
        .unwrap();
        txn.finish().unwrap();
        assert_eq!(found, (from..3000).take(rows as usize).collect::<Vec<_>>());
    }
    drop(session);
    let until = Instant::now() + Duration::from_secs(60);
    while settled() == before && Instant::now() < until {}
    assert_eq!(settled() - before, 1 + 3 + 100 + 1024 + 1500 + 5);
    store.close().unwrap();
}

#[test]
fn class_that_the_server_does_not_keep_is_refused() {
    if !is_there() {
        return;
    }
    for (of, class) in [(Durability::None, Durability::Strict), (Durability::Strict, Durability::None)] {
        let dir = scratch();
        let spec = StoreSpec { durability: Some(class), url: Some(url(dir.path(), Some(of))), ..plain::<Started>() };
        let error = opened::<Started>(dir.path(), &spec).map(drop).unwrap_err();
        assert!(matches!(&error, EngineError::Unsupported { what, .. } if what.contains("fsync = ")), "{error:?}");
    }
}

#[test]
fn settings_and_version_are_those_that_the_server_reports() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    let store =
        opened::<Started>(dir.path(), &StoreSpec { durability: Some(Durability::Volatile), ..plain::<Started>() })
            .unwrap();
    let of = |name: &str| match store.in_force().unwrap().read_back.get(name) {
        Some(Setting::Text(value)) => value.clone(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!((of("fsync"), of("synchronous_commit"), of("block_size")), ("on".into(), "off".into(), "8192".into()));
    let version = psql(server(true), "SHOW server_version").unwrap();
    assert_eq!((store.version(), of("server_version")), (Some(version.clone()), version));
    store.close().unwrap();
}

/// The server ends a session: an error of that operation, not a panic or a wait, and the next session works.
#[test]
fn session_that_the_server_ends_is_an_error() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    let store = opened::<Started>(dir.path(), &fast::<Started>()).unwrap();
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    txn.put(b"a", b"1").unwrap();
    assert!(!txn.get(b"b", |_| ()).unwrap());
    // Only this session has a transaction open, in its own schema.
    let schema = url(dir.path(), Some(Durability::None)).rsplit_once("%3D").unwrap().1.to_owned();
    let end = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE relation = '{schema}.prony_records'::regclass AND mode = \
         'RowExclusiveLock'"
    );
    assert_eq!(psql(server(false), &end).as_deref(), Some("1"));
    let error = txn.commit().unwrap_err();
    assert!(matches!(error, EngineError::Engine { .. }), "{error:?}");
    drop(session);
    assert!(!has(&store, b"a"));
    put(&store, b"a", b"2").unwrap();
    assert!(has(&store, b"a"));
    store.close().unwrap();
}

#[test]
fn password_is_asked_for_as_the_server_wants_it() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    let (base, schema) = (server(false), url(dir.path(), Some(Durability::None)));
    // Trust asks for none: what is tested is that a role with one can log in where the server asks.
    let hba = psql(&base, "SHOW hba_file").unwrap();
    let as_root = std::fs::metadata(&hba).is_ok();
    if !as_root {
        println!("SKIPPED: `{hba}` cannot be read");
        return;
    }
    let named = "CREATE ROLE asked LOGIN SUPERUSER PASSWORD 's:e/cret'";
    psql(&base, &format!("{named}; SET password_encryption = md5; {}", named.replace("asked", "hashed"))).unwrap();
    let trust = std::fs::read_to_string(&hba).unwrap();
    std::fs::write(
        &hba,
        format!("host all asked 127.0.0.1/32 scram-sha-256\nhost all hashed 127.0.0.1/32 md5\n{trust}"),
    )
    .unwrap();
    psql(&base, "SELECT pg_reload_conf()").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let with = |user: &str| StoreSpec { url: Some(schema.replacen("postgres@", user, 1)), ..fast::<Started>() };
    for user in ["asked:s%3Ae%2Fcret@", "hashed:s%3Ae%2Fcret@"] {
        let store = opened::<Started>(dir.path(), &with(user)).unwrap();
        put(&store, b"a", b"1").unwrap();
        store.close().unwrap();
    }
    for (user, part) in [("asked:wrong@", "28P01"), ("hashed:wrong@", "28P01"), ("asked@", "asks for a password")] {
        let error = opened::<Started>(dir.path(), &with(user)).map(drop).unwrap_err();
        let text = prony_engines::timed_loop::chain(&error);
        assert!(text.contains(part) && !text.contains("cret"), "{text}");
    }
}
