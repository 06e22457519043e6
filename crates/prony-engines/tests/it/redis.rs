//! Servers of Redis for the contract suite, started by the tests themselves, and tests of this driver alone.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use prony_engines::driver::{
    Capabilities, Description, Driver, EngineError, Read, Session, Settings, Store, StoreFault, Write,
};
use prony_engines::redis::{Redis, RedisStore};
use prony_engines::timed_loop::chain;
use prony_model::record::effective::Setting;
use prony_model::spec::{Durability, OptionValue, StoreSpec};

use crate::contract::{fast, opened, plain, scratch};
use crate::server::{Server, are_there};

/// Starts a server in `$1` at port `$2` with the settings that follow; ends it and removes its files when the test that has the
/// other end of its input has ended, however it does. `PRONY_REDIS_SERVER` names another program, such as Valkey's.
const SERVER: &str = r#"
dir=$1 port=$2
shift 2
cd "$dir" || exit 1
"${PRONY_REDIS_SERVER:-redis-server}" --port "$port" --bind 127.0.0.1 --dir "$dir" --databases 10000 "$@" </dev/null >"$dir/log" 2>&1 &
cat >/dev/null
kill -KILL $!
wait
rm -rf "$dir"
"#;

/// A server of Redis.
struct RedisServer(Server);

impl RedisServer {
    fn start(settings: &[&str]) -> Self {
        // What asks for a password is ready too.
        let is_ready = |port| ["+PONG", "-NOAUTH"].iter().any(|said| says(port, 0, "PING").starts_with(said));
        Self(Server::start("redis", SERVER, settings, is_ready))
    }

    fn url(&self, database: u32) -> String {
        format!("redis://127.0.0.1:{}/{database}", self.0.port)
    }

    /// As [`says`].
    fn says(&self, database: u32, command: &str) -> String {
        says(self.0.port, database, command)
    }

    /// A line of `INFO`.
    fn info(&self, section: &str, name: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.0.port)).unwrap();
        stream.write_all(format!("INFO {section}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_default().trim().to_owned()
    }

    /// How often commands of this name were carried out.
    fn calls(&self, command: &str) -> u64 {
        let line = self.info("commandstats", &format!("cmdstat_{command}"));
        line.strip_prefix("calls=").and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
    }
}

/// The first line of the answer to a command, given as its words; nothing where there is no server.
fn says(port: u16, database: u32, command: &str) -> String {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return String::new() };
    stream.write_all(format!("SELECT {database}\r\n{command}\r\n").as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| line.unwrap_or_default());
    lines.nth(1).unwrap_or_default()
}

/// Whether Redis is installed.
pub(crate) fn is_there() -> bool {
    are_there(&["redis-server"])
}

const ALWAYS: [&str; 6] = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""];
const EVERYSEC: [&str; 6] = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""];
const KERNEL: [&str; 6] = ["--appendonly", "yes", "--appendfsync", "no", "--save", ""];
const SNAPSHOTS: [&str; 4] = ["--appendonly", "no", "--save", ""];

/// The server of the tests whose settings are those of the spec, started once.
fn server(spec: &StoreSpec) -> &'static RedisServer {
    static SERVERS: [OnceLock<RedisServer>; 4] = [const { OnceLock::new() }; 4];
    let class = Redis::check(spec).map_or(Durability::Volatile, |settings| settings.class);
    let by_kernel = spec.options.get("appendfsync") == Some(&OptionValue::Text("no".to_owned()));
    let (at, settings): (usize, &[&str]) = match class {
        Durability::Strict => (0, &ALWAYS),
        Durability::Volatile => (1, &SNAPSHOTS),
        _ if by_kernel => (2, &KERNEL),
        _ => (3, &EVERYSEC),
    };
    SERVERS[at].get_or_init(|| RedisServer::start(settings))
}

/// A database that belongs to this directory: the same for all that open it. Each database is used once.
fn database(dir: &Path) -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let known = dir.join("database");
    let number = std::fs::read_to_string(&known).ok().and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Where the directory is none, the driver says so.
        let _ = std::fs::write(known, number.to_string());
        number
    })
}

/// The driver with a server of the tests.
pub(crate) struct Started;

impl Driver for Started {
    type Store = RedisStore;

    fn describe() -> Description {
        Redis::describe()
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        Redis::check(spec)
    }

    fn capabilities(spec: &StoreSpec) -> Capabilities {
        Redis::capabilities(spec)
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<RedisStore, EngineError> {
        let url = Some(spec.url.clone().unwrap_or_else(|| server(spec).url(database(dir))));
        Redis::open(dir, &StoreSpec { url, ..spec.clone() })
    }
}

fn at(server: &RedisServer, database: u32) -> StoreSpec {
    StoreSpec { url: Some(server.url(database)), ..plain::<Started>() }
}

fn put(store: &RedisStore, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
    let mut session = store.session()?;
    let mut txn = session.write()?;
    txn.put(key, value)?;
    txn.commit()
}

fn has(store: &RedisStore, key: &[u8]) -> bool {
    store.session().unwrap().read().unwrap().get(key, |_| ()).unwrap()
}

fn refusal(dir: &Path, spec: &StoreSpec) -> String {
    chain(&opened::<Redis>(dir, spec).map(drop).unwrap_err())
}

#[test]
fn trial_begins_with_an_empty_store_and_goes_on_with_its_own() {
    if !is_there() {
        return;
    }
    let (first, second) = (scratch(), scratch());
    let server = RedisServer::start(&SNAPSHOTS);
    let spec = at(&server, 3);
    let store = opened::<Redis>(first.path(), &spec).unwrap();
    put(&store, b"a", b"1").unwrap();
    let busy = refusal(second.path(), &spec);
    assert!(busy.contains("another run uses database 3"), "{busy}");
    assert!(has(&store, b"a"), "what is refused changes nothing");
    store.close().unwrap();
    let store = opened::<Redis>(first.path(), &spec).unwrap();
    assert!(has(&store, b"a"), "opened again in the same trial");
    store.close().unwrap();
    let store = opened::<Redis>(second.path(), &spec).unwrap();
    assert!(!has(&store, b"a"), "of another trial");
    store.close().unwrap();
    let replaced = refusal(first.path(), &spec);
    assert!(replaced.contains("does not have the store of this trial any more"), "{replaced}");
}

#[test]
fn database_with_foreign_keys_is_not_touched() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    let server = RedisServer::start(&SNAPSHOTS);
    for command in ["SET theirs 1", "LPUSH prony_store theirs"] {
        assert!(!server.says(5, command).starts_with('-'));
        let said = refusal(dir.path(), &at(&server, 5));
        assert!(said.contains("database 5 has keys that prony did not store") && said.contains("hint: "), "{said}");
    }
    assert_eq!(server.says(5, "DBSIZE"), ":2");
    server.says(6, "SET theirs 1");
    let store = opened::<Redis>(dir.path(), &at(&server, 5 + 2)).unwrap();
    put(&store, b"a", b"1").unwrap();
    store.close().unwrap();
    opened::<Redis>(scratch().path(), &at(&server, 7)).unwrap().close().unwrap();
    assert_eq!((server.says(6, "DBSIZE"), server.says(7, "DBSIZE")), (":1".to_owned(), ":1".to_owned()));
}

#[test]
fn record_with_the_key_of_the_mark_is_an_error() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    let store = opened::<Started>(dir.path(), &plain::<Started>()).unwrap();
    assert!(matches!(put(&store, b"prony_store", b"1"), Err(EngineError::Engine { .. })));
    assert!(put(&store, b"prony_stores", b"1").is_ok());
    store.close().unwrap();
}

#[test]
fn class_that_the_server_does_not_have_is_refused() {
    if !is_there() {
        return;
    }
    use Durability::{None as Nothing, Strict, Volatile};
    let with = |class| StoreSpec { durability: Some(class), ..plain::<Started>() };
    let by_kernel = [("appendfsync".to_owned(), OptionValue::Text("no".to_owned()))];
    let by_kernel = StoreSpec { options: by_kernel.into(), ..with(Nothing) };
    let all = [with(Strict), with(Volatile), with(Nothing), by_kernel];
    for (one, of) in all.iter().enumerate() {
        for (other, asked) in all.iter().enumerate().filter(|(other, _)| *other != one) {
            let url = Some(server(of).url(9_000 + (one * 4 + other) as u32));
            let error = opened::<Redis>(scratch().path(), &StoreSpec { url, ..asked.clone() }).map(drop).unwrap_err();
            let named =
                |what: &str| what.contains("the server has appendonly = ") && what.contains("hint: start it with");
            assert!(matches!(&error, EngineError::Unsupported { what, .. } if named(what)), "{error:?}");
        }
    }
}

#[test]
fn server_that_removes_records_or_takes_none_is_refused() {
    if !is_there() {
        return;
    }
    let server = RedisServer::start(&SNAPSHOTS);
    let dir = scratch();
    for (command, part) in [
        ("CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru", "removes records when its memory is full"),
        ("REPLICAOF 127.0.0.1 9", "a replica, which takes no writes"),
    ] {
        assert_eq!(server.says(0, command), "+OK");
        let said = refusal(dir.path(), &at(&server, 0));
        assert!(said.contains(part) && said.contains("hint: "), "{said}");
        for undo in ["REPLICAOF NO ONE", "CONFIG SET maxmemory-policy noeviction maxmemory 0"] {
            assert_eq!(server.says(0, undo), "+OK");
        }
    }
    opened::<Redis>(dir.path(), &at(&server, 0)).unwrap().close().unwrap();
}

#[test]
fn settings_and_version_are_those_that_the_server_reports() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    let spec = StoreSpec { durability: Some(Durability::Strict), ..plain::<Started>() };
    let store = opened::<Started>(dir.path(), &spec).unwrap();
    let in_force = store.in_force().unwrap();
    let of = |name: &str| match in_force.read_back.get(name) {
        Some(Setting::Text(value)) => value.clone(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!((of("appendonly"), of("appendfsync"), of("save")), ("yes".into(), "always".into(), String::new()));
    let valkey = server(&spec).info("server", "valkey_version");
    let own = if valkey.is_empty() { of("redis_version") } else { format!("{valkey} (Valkey)") };
    assert_eq!(store.version(), Some(own));
    assert_eq!(of("redis_version"), server(&spec).info("server", "redis_version"));
    store.close().unwrap();
}

/// What prony asks the server for itself, with a write that is synced, was in the time of `reopen`.
#[test]
fn opening_a_store_that_exists_only_connects() {
    if !is_there() {
        return;
    }
    let server = RedisServer::start(&ALWAYS);
    let (dir, spec) = (scratch(), StoreSpec { durability: Some(Durability::Strict), ..at(&server, 0) });
    opened::<Redis>(dir.path(), &spec).unwrap().close().unwrap();
    let names = ["config", "config|get", "client", "client|id", "watch", "get", "multi", "set", "exec"];
    let counted = || names.map(|command| server.calls(command));
    let before = counted();
    let mut store = Redis::open(dir.path(), &spec).unwrap();
    assert_eq!(counted(), before);
    store.set_up_tables(&[], true).unwrap();
    let after: Vec<u64> = counted().iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(after[4..], [1, 1, 1, 1, 1], "it is found out then whose store it is");
    store.close().unwrap();
}

/// What the server counts is what the driver sent, and nothing else.
#[test]
fn server_counts_the_commands_of_the_transactions() {
    if !is_there() {
        return;
    }
    let server = RedisServer::start(&SNAPSHOTS);
    let dir = scratch();
    let store = opened::<Redis>(dir.path(), &at(&server, 0)).unwrap();
    let counted = || ["set", "mset", "get", "del", "multi", "exec", "discard"].map(|command| server.calls(command));
    let before = counted();
    let mut session = store.session().unwrap();
    for number in 0..40_u32 {
        let mut txn = session.write().unwrap();
        txn.put(&number.to_be_bytes(), b"1").unwrap();
        txn.commit().unwrap();
    }
    for batch in 0..3_u32 {
        let mut txn = session.write().unwrap();
        (0..10_u32).for_each(|number| txn.put(&(batch * 10 + number).to_be_bytes(), b"2").unwrap());
        assert!(txn.delete(&(30 + batch).to_be_bytes()).unwrap());
        txn.commit().unwrap();
    }
    let mut txn = session.write().unwrap();
    (30..33_u32).for_each(|number| txn.put(&number.to_be_bytes(), b"3").unwrap());
    txn.commit().unwrap();
    let mut txn = session.write().unwrap();
    assert!((30..34_u32).all(|number| txn.delete(&number.to_be_bytes()).unwrap()));
    txn.commit().unwrap();
    // Nothing of what is discarded reaches the server unless it is long, and then it is discarded there.
    for length in [10, 300 << 10] {
        let mut txn = session.write().unwrap();
        (0..3_u32).for_each(|number| txn.put(&number.to_be_bytes(), &vec![3; length]).unwrap());
        txn.finish().unwrap();
    }
    session.write().unwrap().commit().unwrap();
    let mut txn = session.read().unwrap();
    let found = (0..40_u32).filter(|number| txn.get(&number.to_be_bytes(), |_| ()).unwrap()).count();
    txn.finish().unwrap();
    assert_eq!(found, 36);
    let done: Vec<u64> = counted().iter().zip(before).map(|(after, before)| after - before).collect();
    // Commands that are queued and discarded are not carried out.
    assert_eq!(done, [40, 3 + 1, 40, 3 + 1, 3 + 1, 3, 1]);
    assert_eq!(server.says(0, "DBSIZE"), ":37", "with the mark");
    store.close().unwrap();
}

#[test]
fn long_transaction_is_one_and_its_error_is_that_of_the_first_command() {
    if !is_there() {
        return;
    }
    let server = RedisServer::start(&SNAPSHOTS);
    let dir = scratch();
    let store = opened::<Redis>(dir.path(), &at(&server, 0)).unwrap();
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    (0..30_u32).for_each(|number| txn.put(&number.to_be_bytes(), &[7; 100_000]).unwrap());
    assert!(!has(&store, &0_u32.to_be_bytes()), "parts that were sent wait for the end");
    txn.commit().unwrap();
    assert!((0..30_u32).all(|number| has(&store, &number.to_be_bytes())));
    assert_eq!((server.calls("multi"), server.calls("exec")), (2, 2), "one of them is that of the opening");
    server.says(0, "CONFIG SET maxmemory 1mb");
    for (puts, length) in [(1, 10), (2, 10), (30, 100_000)] {
        let mut txn = session.write().unwrap();
        let stored = (100..100 + puts).try_for_each(|number: u32| txn.put(&number.to_be_bytes(), &vec![7; length]));
        let ended = stored.and_then(|()| txn.commit());
        assert!(matches!(ended, Err(EngineError::OutOfMemory { .. })), "{puts}: {ended:?}");
    }
    server.says(0, "CONFIG SET maxmemory 0");
    let mut txn = session.write().unwrap();
    txn.put(b"x", b"1").unwrap();
    txn.put(b"y", b"1").unwrap();
    txn.commit().unwrap();
    drop(session);
    assert!(has(&store, b"y") && !has(&store, &100_u32.to_be_bytes()));
    store.close().unwrap();
}

/// What was read and written since is nobody's knowledge: the trial has failed.
#[test]
fn store_that_somebody_empties_is_an_error_at_its_end() {
    if !is_there() {
        return;
    }
    let server = RedisServer::start(&SNAPSHOTS);
    for command in ["FLUSHALL", "SET prony_store other"] {
        let dir = scratch();
        let store = opened::<Redis>(dir.path(), &at(&server, 0)).unwrap();
        put(&store, b"a", b"1").unwrap();
        assert_eq!(server.says(0, command), "+OK");
        let said = format!("{:?}", store.confirm().unwrap_err());
        assert!(said.contains("does not have the store of this trial any more"), "{said}");
        server.says(0, "FLUSHALL");
    }
}

/// The server ends a session: an error of that operation, not a panic or a wait, and the next session works.
#[test]
fn session_that_the_server_ends_is_an_error() {
    if !is_there() {
        return;
    }
    let server = RedisServer::start(&SNAPSHOTS);
    let dir = scratch();
    let store = opened::<Redis>(dir.path(), &at(&server, 0)).unwrap();
    let mut session = store.session().unwrap();
    session.read().unwrap().get(b"a", |_| ()).unwrap();
    server.says(0, "CLIENT KILL TYPE normal");
    for _ in 0..2 {
        let mut txn = session.write().unwrap();
        txn.put(b"a", b"1").unwrap();
        let error = txn.commit().unwrap_err();
        assert!(matches!(error, EngineError::Engine { .. }), "{error:?}");
    }
    drop(session);
    assert!(!has(&store, b"a"));
    put(&store, b"a", b"2").unwrap();
    assert!(has(&store, b"a"));
    store.close().unwrap();
}

#[test]
fn persist_writes_a_snapshot_where_there_is_no_append_only_file() {
    if !is_there() {
        return;
    }
    let server = RedisServer::start(&SNAPSHOTS);
    let dir = scratch();
    let store = opened::<Redis>(dir.path(), &at(&server, 0)).unwrap();
    put(&store, b"a", b"1").unwrap();
    assert_ne!(server.info("persistence", "rdb_changes_since_last_save"), "0");
    store.persist().unwrap();
    assert_eq!(server.info("persistence", "rdb_changes_since_last_save"), "0");
    store.close().unwrap();
    let by_kernel = [("appendfsync".to_owned(), OptionValue::Text("no".to_owned()))].into();
    let store = opened::<Started>(scratch().path(), &StoreSpec { options: by_kernel, ..plain::<Started>() }).unwrap();
    assert!(matches!(store.persist(), Err(EngineError::Unsupported { .. })));
    store.close().unwrap();
    // Redis 7.2 and Valkey can wait for a sync.
    let store = opened::<Started>(scratch().path(), &fast::<Started>()).unwrap();
    put(&store, b"a", b"1").unwrap();
    match store.persist() {
        Err(EngineError::Unsupported { what, .. }) => assert!(what.contains("WAITAOF"), "{what}"),
        persisted => persisted.unwrap(),
    }
    store.close().unwrap();
}

#[test]
fn password_is_that_of_the_url() {
    if !is_there() {
        return;
    }
    let server = RedisServer::start(&[&SNAPSHOTS[..], &["--requirepass", "s:e/cret"]].concat());
    let with = |login: &str| {
        let url = server.url(1).replacen("127.0.0.1", &format!("{login}127.0.0.1"), 1);
        StoreSpec { url: Some(url), ..plain::<Started>() }
    };
    let dir = scratch();
    for login in [":s%3Ae%2Fcret@", "default:s%3Ae%2Fcret@"] {
        let store = opened::<Redis>(dir.path(), &with(login)).unwrap();
        put(&store, b"a", b"1").unwrap();
        store.close().unwrap();
    }
    for (login, part) in [(":wrong@", "WRONGPASS"), ("", "NOAUTH")] {
        let said = refusal(dir.path(), &with(login));
        assert!(said.contains(part) && !said.contains("cret"), "{said}");
    }
}
