//! Tests of PostgreSQL.

use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use prony_counters::{Numbers, source};
use prony_model::service::CounterSource;

use crate::server::{Server, are_there};
use crate::{read, value};

/// Starts a server in `$1` at port `$2`, as user `nobody` where root runs this, which PostgreSQL refuses; ends it with the test.
const SERVER: &str = r#"
[ "$(id -u)" = 0 ] && as="setpriv --reuid=65534 --regid=65534 --clear-groups" && chown 65534:65534 "$1"
cd "$1" || exit 1
$as initdb -D "$1/data" -U postgres -A trust --no-sync --locale=C -E UTF8 </dev/null >"$1/initdb" 2>&1 || { cat "$1/initdb"; exit 1; }
$as postgres -D "$1/data" -p "$2" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c autovacuum=off \
    -c shared_preload_libraries=pg_stat_statements </dev/null >"$1/log" 2>&1 &
cat >/dev/null
kill -QUIT $!
wait
rm -rf "$1"
"#;

const NAMES: [&str; 4] = ["xact_commit", "tup_inserted", "temp_files", "statements"];

/// A server with databases `bench` and `other`, and roles `app`, which works in `bench`, and `group`, which begins no sessions.
struct Postgresql(Server);

impl Postgresql {
    fn start() -> Self {
        let address = |port| format!("postgresql://postgres@127.0.0.1:{port}/postgres");
        let is_ready = |port| psql(&address(port), "SELECT 1").is_some();
        let server = Self(Server::start("postgresql", SERVER, is_ready));
        for sql in [
            "CREATE DATABASE bench",
            "CREATE DATABASE other",
            "CREATE ROLE app LOGIN",
            "CREATE ROLE \"group\"",
            "CREATE EXTENSION pg_stat_statements",
        ] {
            server.sql("postgres", "postgres", sql);
        }
        server.sql("bench", "postgres", "CREATE TABLE t (n int); GRANT ALL ON t TO app");
        server
    }

    /// Carries out a statement in a session of its own, which reports all that it counted when it ends.
    fn sql(&self, database: &str, role: &str, sql: &str) -> String {
        let address = format!("postgresql://{role}@127.0.0.1:{}/{database}", self.0.port);
        psql(&address, sql).unwrap_or_else(|| panic!("{sql}"))
    }

    /// What a new session of a role reads of `bench`, once all others have ended.
    fn numbers_by(&self, role: &str) -> Numbers {
        let at = format!("host=127.0.0.1 port={} user={role} dbname=bench", self.0.port);
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let names = NAMES.map(str::to_owned).to_vec();
            let numbers = read(&mut *source(&CounterSource::Postgresql(String::new()), &at, names).unwrap());
            if numbers.late.is_none() {
                return numbers;
            }
            assert!(Instant::now() < until, "a session never ended");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What is counted while `app` inserts three rows.
    fn of_three_rows(&self) -> [Result<f64, String>; 4] {
        let before = self.numbers_by("postgres");
        self.sql("bench", "app", "INSERT INTO t VALUES (1), (2), (3)");
        let after = self.numbers_by("postgres");
        NAMES.map(|name| Ok(value(&after, name)? - value(&before, name)?))
    }
}

fn psql(address: &str, sql: &str) -> Option<String> {
    let output = Command::new("psql").args(["-X", "-q", "-A", "-t", "-d", address, "-c", sql]).output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

/// Prony's own session is one of another database and role, and had these settings as the server has them: none of the rows that
/// `app` inserted was a measured zero.
#[test]
fn what_sessions_of_the_database_do_not_count_is_missing() {
    if !are_there(&["postgres", "initdb", "psql"]) {
        return;
    }
    let server = Postgresql::start();
    let [transactions, rows, files, statements] = server.of_three_rows();
    assert!(transactions.unwrap() >= 1.0 && statements.unwrap() >= 1.0);
    assert_eq!((rows, files), (Ok(3.0), Ok(0.0)));
    let inserted =
        || server.sql("bench", "postgres", "SELECT tup_inserted FROM pg_stat_database WHERE datname = 'bench'");
    let before = inserted();
    for (whose, setting, by) in [
        ("DATABASE bench", "track_counts = off", "`track_counts = on` by `ALTER DATABASE`"),
        ("ROLE app", "track_counts = 'f'", "`track_counts = on` by `ALTER ROLE`"),
        ("ROLE app IN DATABASE bench", "TRACK_COUNTS = No", "`track_counts = on` by `ALTER ROLE`"),
        ("ROLE ALL", "track_counts = 0", "`track_counts = on` by `ALTER ROLE ALL`"),
        ("DATABASE bench", "pg_stat_statements.track = none", "`pg_stat_statements.track = top` by `ALTER DATABASE`"),
        (
            "ROLE app",
            "pg_stat_statements.track_utility = off",
            "`pg_stat_statements.track_utility = on` by `ALTER ROLE`",
        ),
        ("ROLE app", "compute_query_id = off", "`compute_query_id = auto` by `ALTER ROLE`"),
    ] {
        server.sql("postgres", "postgres", &format!("ALTER {whose} SET {setting}"));
        let [transactions, rows, files, statements] = server.of_three_rows();
        assert!(transactions.unwrap() >= 1.0, "{whose} {setting}");
        let of_rows = setting.to_lowercase().starts_with("track_counts");
        for (missing, number) in [(of_rows, rows), (of_rows, files), (!of_rows, statements)] {
            assert_eq!(number.is_err(), missing, "{whose} {setting}: {number:?}");
            assert!(number.as_ref().err().is_none_or(|why| why.contains(by)), "{whose} {setting}: {number:?}");
        }
        if of_rows {
            assert_eq!(inserted(), before, "the server itself shows that nothing was inserted");
        } else {
            server.sql("bench", "postgres", "SELECT pg_stat_reset()");
        }
        server.sql("postgres", "postgres", &format!("ALTER {whose} RESET ALL"));
    }
}

#[test]
fn what_sessions_of_the_database_count_is_read_whatever_another_has() {
    if !are_there(&["postgres", "initdb", "psql"]) {
        return;
    }
    let server = Postgresql::start();
    for whose in ["DATABASE other", "ROLE app IN DATABASE other", "ROLE \"group\""] {
        server.sql("postgres", "postgres", &format!("ALTER {whose} SET track_counts = off"));
    }
    assert_eq!(server.of_three_rows()[1], Ok(3.0));
    let by_another_role = value(&server.numbers_by("app"), "tup_inserted");
    assert_eq!(by_another_role, value(&server.numbers_by("postgres"), "tup_inserted"), "settings are no secret");
    // Of the database in which prony's session is.
    server.sql("postgres", "postgres", "ALTER DATABASE postgres SET track_counts = on");
    let why = server.of_three_rows()[1].clone().unwrap_err();
    assert!(why.contains("is not known, since prony's own session has a `track_counts` of its own"), "{why}");
    server.sql("postgres", "postgres", "ALTER DATABASE bench SET track_counts = on");
    assert_eq!(server.of_three_rows()[1], Ok(3.0));
}

/// A database that was made anew has counts of its own, which may be the larger ones.
#[test]
fn another_database_of_the_same_name_is_another_count() {
    if !are_there(&["postgres", "initdb", "psql"]) {
        return;
    }
    let server = Postgresql::start();
    let before = server.numbers_by("postgres");
    server.sql("postgres", "postgres", "DROP DATABASE bench");
    server.sql("postgres", "postgres", "CREATE DATABASE bench");
    let since = |numbers: &Numbers, name: &str| numbers.values[name].measured().unwrap().since.clone();
    let after = server.numbers_by("postgres");
    for name in NAMES {
        assert_ne!(since(&before, name), since(&after, name), "{name}");
    }
}

/// 500 transactions were a measured 1, and the next phase had them.
#[test]
fn transactions_that_sessions_may_still_have_are_missing() {
    if !are_there(&["postgres", "initdb", "psql"]) {
        return;
    }
    let server = Postgresql::start();
    let before = server.numbers_by("postgres");
    let address = format!("postgresql://app@127.0.0.1:{}/bench", server.0.port);
    let mut client = Command::new("psql");
    client.args(["-X", "-q", "-d", &address]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut client = client.spawn().unwrap();
    let statements = "SELECT 1;\n".repeat(50);
    client.stdin.as_mut().unwrap().write_all(statements.as_bytes()).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while value(&server.numbers_by("postgres"), "statements") != value(&before, "statements").map(|count| count + 50.0)
    {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(20));
    }
    let before_its_end = server.numbers_by("postgres");
    assert!(
        value(&before_its_end, "xact_commit").unwrap_err().contains("until a later one touches some"),
        "{before_its_end:?}"
    );
    assert!(value(&before_its_end, "tup_inserted").is_ok(), "{before_its_end:?}");
    drop(client.stdin.take());
    client.wait().unwrap();
    let after = server.numbers_by("postgres");
    let counted = value(&after, "xact_commit").unwrap() - value(&before, "xact_commit").unwrap();
    // A session begins with one of its own.
    assert!((50.0..=51.0).contains(&counted), "{counted}");
}

/// What sessions wrote to the log of all databases is complete once all of them have reported it.
#[test]
fn log_is_complete_once_sessions_of_all_databases_are_idle() {
    if !are_there(&["postgres", "initdb", "psql"]) {
        return;
    }
    let server = Postgresql::start();
    let address = format!("postgresql://postgres@127.0.0.1:{}/other", server.0.port);
    let mut other =
        Command::new("psql").args(["-X", "-q", "-d", &address]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let at = format!("host=127.0.0.1 port={} user=postgres dbname=bench", server.0.port);
    let names = || ["xact_commit", "wal_bytes", "connections"].map(str::to_owned).to_vec();
    let late = || {
        let numbers = read(&mut *source(&CounterSource::Postgresql(String::new()), &at, names()).unwrap());
        numbers.late.map(|late| late.names).unwrap_or_default()
    };
    let until = Instant::now() + Duration::from_secs(60);
    while late() != ["wal_bytes"] {
        assert!(Instant::now() < until, "{:?}", late());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(other.stdin.take());
    other.wait().unwrap();
    while !late().is_empty() {
        assert!(Instant::now() < until, "{:?}", late());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Their state is no longer `idle`, whatever they do.
#[test]
fn sessions_that_do_not_show_their_state_are_not_counted_as_active() {
    if !are_there(&["postgres", "initdb", "psql"]) {
        return;
    }
    let server = Postgresql::start();
    let address = format!("postgresql://postgres@127.0.0.1:{}/bench", server.0.port);
    let mut silent = Command::new("psql");
    silent.env("PGOPTIONS", "-c track_activities=off").args(["-X", "-q", "-d", &address]);
    let mut silent = silent.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let at = format!("host=127.0.0.1 port={} user=postgres dbname=bench", server.0.port);
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let names = ["connections_active".to_owned()].to_vec();
        let numbers = read(&mut *source(&CounterSource::Postgresql(String::new()), &at, names).unwrap());
        let why = value(&numbers, "connections_active").err();
        if why.as_deref().is_some_and(|why| why.contains("track_activities")) {
            break;
        }
        assert!(Instant::now() < until, "{why:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(silent.stdin.take());
    silent.wait().unwrap();
}
