//! Tests the numbers that services count themselves, through the real binary and real servers: exactly as many as were caused,
//! without those of the reading itself; and missing with a reason where that is not certain.

use std::path::Path;
use std::process::Command;

use prony_model::outcome::Outcome;
use prony_model::reading::Reading;
use prony_model::record::{MetricKeyText, TrialRecord};

use crate::bench::{Bench, phase, version};

/// An HTTP server beside Redis and PostgreSQL: each request to `/redis` is one `PING`, and to `/sql` one transaction of one
/// statement, by one of its connections. `/metrics` counts requests, `/hang` makes it answer nothing there, `/reset` resets.
const SERVER: &str = r#"
const http = require("http"), net = require("net");
const [port, redis, pg] = process.argv.slice(2).map(Number);
let requests = 0, hangs = false, garbage = false;
const sockets = [];
const redisCommand = (text, then) => {
  const socket = net.connect(redis, "127.0.0.1", () => socket.write(text));
  socket.once("data", () => socket.destroy()).once("close", then);
};
// The least of PostgreSQL's protocol: a session of user `postgres`, and simple queries one after another.
const session = () => {
  const socket = net.connect(pg, "127.0.0.1");
  const start = Buffer.from("\0\0\0\0\0\x03\0\0user\0postgres\0database\0app\0\0");
  start.writeInt32BE(start.length);
  socket.write(start);
  const waiting = [];
  let ready = false, rest = Buffer.alloc(0);
  const turn = () => {
    if (!ready || !waiting.length || !waiting[0].text) return;
    const text = Buffer.from(waiting[0].text + "\0"), head = Buffer.alloc(5);
    head.write("Q"); head.writeInt32BE(text.length + 4, 1);
    waiting[0].text = null; ready = false;
    socket.write(Buffer.concat([head, text]));
  };
  socket.on("data", (data) => {
    rest = Buffer.concat([rest, data]);
    while (rest.length >= 5 && rest.length >= rest.readInt32BE(1) + 1) {
      const kind = String.fromCharCode(rest[0]);
      rest = rest.subarray(rest.readInt32BE(1) + 1);
      if (kind !== "Z") continue;
      ready = true;
      if (waiting.length && !waiting[0].text) waiting.shift().then();
      turn();
    }
  });
  return (text, then) => { waiting.push({ text, then }); turn(); };
};
if (pg) for (let i = 0; i < 2; i += 1) sockets.push(session());
const server = http.createServer((request, response) => {
  const done = () => response.end("done\n");
  if (request.url === "/metrics") {
    if (hangs) return;
    return response.end(garbage ? "garbage" : `# TYPE requests_total counter\nrequests_total{a="b"} ${requests}\nopen 3\n`);
  }
  requests += 1;
  if (request.url === "/redis") return redisCommand("PING\r\n", done);
  if (request.url === "/resetredis") return redisCommand("CONFIG RESETSTAT\r\n", done);
  if (request.url === "/shutdown") return redisCommand("SHUTDOWN NOSAVE\r\n", done);
  if (request.url === "/sql") return sockets[requests % 2]("INSERT INTO t VALUES (1)", done);
  if (request.url === "/resetsql") return sockets[0]("SELECT pg_stat_reset()", done);
  if (request.url === "/hang") hangs = true;
  if (request.url === "/garbage") garbage = true;
  if (request.url === "/back") requests = -1000;
  if (request.url === "/slow") return setTimeout(done, 2500);
  done();
});
// Sessions are there before the first reading.
setTimeout(() => server.listen(port, "127.0.0.1"), pg ? 500 : 0);
"#;

/// A folder with the server; `None` where a program is missing, said aloud.
fn bench(programs: &[&str]) -> Option<Bench> {
    programs.iter().try_for_each(|program| version(program).map(drop))?;
    let bench = Bench::new();
    bench.write("server/server.js", SERVER);
    Some(bench)
}

fn api(words: &str, counters: &str) -> String {
    let names = "totals = [\"requests_total\"], gauges = [\"open\"], operations = \"requests_total\"";
    let own = format!("counters = {{ prometheus = \"http://127.0.0.1:{{port}}/metrics\", {names} }}\n");
    format!(
        "[[service]]\nname = \"api\"\ndirectory = \"server\"\ncopy = \"none\"\n\
         command = [\"node\", \"server.js\", \"{{port}}\"{words}]\n{}\n",
        if counters.is_empty() { own } else { counters.to_owned() }
    )
}

fn redis(count: u32, counters: &str) -> String {
    format!(
        "[[service]]\nname = \"redis\"\ncount = {count}\n\
         command = [\"redis-server\", \"--port\", \"{{port}}\", \"--save\", \"\", \"--dir\", \"{{data}}\"]\n\
         counters = {{ redis = \"127.0.0.1:{{port}}\"{counters} }}\n"
    )
}

fn requests(name: &str, path: &str, count: u32) -> String {
    format!("[[phase]]\nname = \"{name}\"\nhttp = {{ service = \"api\", path = \"{path}\", requests = {count} }}\n")
}

/// A metric of an instance in a phase: its value, or why there is none.
fn of(trial: &TrialRecord, name: &str, instance: &str, key: &str) -> Result<f64, String> {
    let readings = &phase(trial, name).readings;
    let found = readings.get(instance).unwrap_or_else(|| panic!("{instance} of {:?}", readings.keys()));
    match found.get(&MetricKeyText(key.parse().unwrap())) {
        Some(Reading::Measured(value)) => Ok(*value),
        Some(Reading::Missing(why)) => Err(why.to_string()),
        None => panic!("{instance} has no `{key}` in `{name}`: {:?}", found.keys()),
    }
}

fn sound(trial: &TrialRecord) {
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
}

/// A reading by a user with a password, and one without.
#[test]
fn redis_that_asks_for_a_password_is_read_with_it() {
    let Some(bench) = bench(&["node", "redis-server"]) else { return };
    let service = |login: &str| {
        let with = redis(1, "").replace("\"--save\"", "\"--requirepass\", \"se cret\", \"--save\"");
        with.replace("redis = \"", &format!("redis = \"redis://{login}"))
    };
    let run = |login: &str| {
        let api = api(", \"{service.redis.port}\"", "").replace("[[service]]\n", "[[service]]\nafter = [\"redis\"]\n");
        let trial = bench.trial(&format!("{}{api}{}", service(login), requests("ask", "/redis", 40)));
        sound(&trial);
        of(&trial, "ask", "redis", "total_commands_processed")
    };
    // A client without a password has its commands refused, which are no processed ones; prony's own are not counted.
    assert_eq!(run(":se%20cret@"), Ok(0.0));
    let why = run("").unwrap_err();
    assert!(why.contains("NOAUTH"), "{why}");
    let why = run(":wrong@").unwrap_err();
    assert!(why.contains("WRONGPASS") && !why.contains("wrong@"), "{why}");
}

#[test]
fn redis_counts_exactly_the_commands_of_its_clients() {
    let Some(bench) = bench(&["node", "redis-server"]) else { return };
    let phases = [
        requests("ask", "/redis", 40),
        requests("idle", "/none", 3),
        requests("slow", "/slow", 1),
        "[[phase]]\nname = \"rest\"\nsettle = { quiet = \"500 ms\", within = \"30 s\" }\n".to_owned(),
        requests("again", "/redis", 7),
    ];
    let api = api(", \"{service.redis.port}\"", "").replace("[[service]]\n", "[[service]]\nafter = [\"redis\"]\n");
    let trial = bench.trial(&format!("{}{api}{}", redis(1, ""), phases.concat()));
    sound(&trial);
    let commands = |name| of(&trial, name, "redis", "total_commands_processed");
    assert_eq!(["ask", "idle", "rest", "again"].map(commands), [Ok(40.0), Ok(0.0), Ok(0.0), Ok(7.0)]);
    assert_eq!(of(&trial, "ask", "redis", "operations.per.ok"), Ok(1.0));
    assert_eq!(of(&trial, "ask", "redis", "total_connections_received"), Ok(40.0), "without that of the reading");
    // The phase is longer than the time between two samples.
    assert_eq!(of(&trial, "slow", "redis", "connected_clients.mean"), Ok(0.0));
    assert!(of(&trial, "slow", "redis", "used_memory.max").unwrap() > 100_000.0);
    assert!(of(&trial, "rest", "redis", "used_memory.mean").unwrap_err().contains("no reading came in this phase"));
    // What the server counts itself is not what prony counted.
    assert_eq!((of(&trial, "ask", "api", "requests_total"), of(&trial, "ask", "", "ok")), (Ok(40.0), Ok(40.0)));
    assert_eq!(of(&trial, "ask", "", "status.200"), Ok(40.0));
    assert_eq!(
        [("timeouts", 0.0), ("unfinished", 0.0), ("sent.distinct", 1.0)]
            .map(|(key, n)| of(&trial, "ask", "", key) == Ok(n)),
        [true; 3]
    );
}

#[test]
fn instances_are_counted_apart_and_together() {
    let Some(bench) = bench(&["node", "redis-server"]) else { return };
    let api = api(", \"{service.redis.2.port}\"", "").replace("[[service]]\n", "[[service]]\nafter = [\"redis\"]\n");
    let trial = bench.trial(&format!("{}{api}{}", redis(2, ""), requests("ask", "/redis", 9)));
    sound(&trial);
    let commands = |instance| of(&trial, "ask", instance, "total_commands_processed");
    assert_eq!(["redis.1", "redis.2", "redis"].map(commands), [Ok(0.0), Ok(9.0), Ok(9.0)]);
    assert_eq!(of(&trial, "ask", "redis", "operations.per.ok"), Ok(1.0));
}

#[test]
fn counts_that_go_back_hang_or_are_garbage_are_missing_for_their_phases_only() {
    let Some(bench) = bench(&["node", "redis-server"]) else { return };
    let phases = [
        requests("before", "/none", 5),
        requests("back", "/back", 1),
        requests("after", "/none", 2),
        requests("reset", "/resetredis", 1),
        requests("garbage", "/garbage", 1),
        requests("hang", "/hang", 1),
        requests("late", "/none", 1),
    ];
    let api = api(", \"{service.redis.port}\"", "").replace("[[service]]\n", "[[service]]\nafter = [\"redis\"]\n");
    let trial = bench.trial(&format!("{}{api}{}", redis(1, ""), phases.concat()));
    sound(&trial);
    let counted = |name| of(&trial, name, "api", "requests_total");
    assert_eq!((counted("before"), counted("after")), (Ok(5.0), Ok(2.0)));
    assert!(counted("back").unwrap_err().contains("went back"), "{:?}", counted("back"));
    assert!(of(&trial, "reset", "redis", "total_commands_processed").is_err());
    assert!(counted("garbage").unwrap_err().contains("the page"));
    assert!(counted("hang").is_err());
    assert!(counted("late").unwrap_err().contains("no whole answer within 5 s"), "{:?}", counted("late"));
    assert_eq!(of(&trial, "late", "redis", "total_commands_processed"), Ok(0.0));
    let found: Vec<&str> = trial
        .findings
        .iter()
        .filter(|found| found.guard == "counters_not_read")
        .filter_map(|found| found.phase.as_deref())
        .collect();
    assert!(["back", "reset", "garbage", "hang", "late"].iter().all(|phase| found.contains(phase)), "{found:?}");
    assert!(!found.contains(&"before") && !found.contains(&"after"), "{found:?}");
}

#[test]
fn totals_of_a_phase_with_a_warm_up_are_missing() {
    let Some(bench) = bench(&["node"]) else { return };
    let warm = requests("warm", "/none", 5).replace("requests = 5", "requests = 5, warm_up = \"50 ms\"");
    let trial = bench.trial(&format!("{}{warm}{}", api("", ""), requests("after", "/none", 4)));
    sound(&trial);
    for key in ["requests_total", "operations", "operations.per.ok"] {
        assert!(of(&trial, "warm", "api", key).unwrap_err().contains("the count includes the warm-up"), "{key}");
        assert!(of(&trial, "after", "api", key).is_ok(), "{key}");
    }
    assert!(of(&trial, "warm", "api", "open.end").is_ok());
}

#[test]
fn command_that_prints_numbers_is_ended_in_time() {
    let Some(bench) = bench(&["node"]) else { return };
    let command =
        |text: &str| format!("counters = {{ command = \"{text}\", totals = [\"n\"], gauges = [\"size_bytes\"] }}");
    let phases = [requests("a", "/none", 1), requests("b", "/none", 2)].concat();
    let grows = command("echo x >> {data}/log; echo n $(wc -l < {data}/log); echo size_bytes $(wc -c < {data}/log)");
    let trial = bench.trial(&format!("{}{phases}", api("", &grows)));
    sound(&trial);
    let of_n = |name| of(&trial, name, "api", "n");
    assert_eq!(["a", "b"].map(of_n), [Ok(1.0), Ok(1.0)], "read once before the first phase and after each");
    assert_eq!(of(&trial, "b", "api", "size_bytes.end"), Ok(6.0));
    for (text, said) in [
        ("sleep 60", "did not end within 5 s"),
        ("echo s3cret >&2; exit 4", "exit code 4"),
        ("echo s3cret", "is no `name value`"),
    ] {
        let trial = bench.trial(&format!("{}{}", api("", &command(text)), requests("a", "/none", 1)));
        sound(&trial);
        let why = of(&trial, "a", "api", "n").unwrap_err();
        assert!(why.contains(said) && !why.contains("s3cret"), "{why}");
    }
}

#[test]
fn service_that_ends_while_it_is_counted_is_the_outcome() {
    let Some(bench) = bench(&["node", "redis-server"]) else { return };
    let api = api(", \"{service.redis.port}\"", "").replace("[[service]]\n", "[[service]]\nafter = [\"redis\"]\n");
    let phases = [requests("a", "/redis", 2), requests("b", "/shutdown", 1), requests("c", "/none", 1)];
    let trial = bench.trial(&format!("{}{api}{}", redis(1, ""), phases.concat()));
    assert!(!trial.ending.outcome.is_ok(), "{:?}", trial.ending);
    assert!(trial.ending.evidence.iter().any(|text| text.contains("service `redis`")), "{:?}", trial.ending);
    assert_eq!(of(&trial, "a", "redis", "total_commands_processed"), Ok(2.0));
    assert!(of(&trial, "b", "redis", "total_commands_processed").is_err());
}

/// The commands of the phase itself are more than those before it, so that the total has grown in spite of the reset.
#[test]
fn totals_of_redis_that_were_reset_are_missing_whatever_they_grew_to() {
    let Some(bench) = bench(&["node", "redis-server"]) else { return };
    let api = api(
        ", \"{service.redis.port}\"",
        "counters = { prometheus = \"http://127.0.0.1:{port}/metrics\", totals = [\"requests_total\"] }",
    )
    .replace("[[service]]\n", "[[service]]\nafter = [\"redis\"]\n");
    let reset = "[[phase]]\nname = \"reset\"\nrun = \"redis-cli -p {service.redis.port} CONFIG RESETSTAT && redis-cli -p \
                 {service.redis.port} -r 500 PING\"\n";
    let phases = [requests("before", "/redis", 5), reset.to_owned(), requests("after", "/redis", 4)].concat();
    let names = ", totals = [\"total_commands_processed\"], gauges = [\"used_memory\"]";
    let trial = bench.trial(&format!("{}{api}{phases}", redis(1, names)));
    sound(&trial);
    let commands = |phase: &str| of(&trial, phase, "redis", "total_commands_processed");
    assert_eq!((commands("before"), commands("after")), (Ok(5.0), Ok(4.0)));
    assert!(commands("reset").unwrap_err().contains("began anew"), "{:?}", commands("reset"));
    assert!(of(&trial, "reset", "redis", "used_memory.end").is_ok());
}

/// PostgreSQL in a cluster of its own, as a user where prony runs as root; `None` where it is missing.
fn postgres(counters: &str) -> String {
    let psql = "\"psql\", \"-X\", \"-q\", \"-h\", \"127.0.0.1\", \"-p\", \"{port}\", \"-U\", \"postgres\"";
    format!(
        "[[service]]\nname = \"pg\"\nuser = \"nobody\"\n\
         prepare = [\"initdb\", \"-D\", \"{{data}}\", \"-U\", \"postgres\", \"-A\", \"trust\", \"--no-sync\", \"--locale=C\"]\n\
         command = [\"postgres\", \"-D\", \"{{data}}\", \"-p\", \"{{port}}\", \"-c\", \"listen_addresses=127.0.0.1\", \"-c\", \"fsync=off\", \
         \"-c\", \"autovacuum=off\", \"-c\", \"unix_socket_directories=\", \"-c\", \"shared_preload_libraries=pg_stat_statements\"]\n\
         ready = {{ command = [{psql}, \"-c\", \"SELECT 1\"] }}\n\
         setup = \"psql -X -q -h 127.0.0.1 -p {{port}} -U postgres -c 'CREATE DATABASE app' -c 'CREATE EXTENSION pg_stat_statements' && \
         psql -X -q -h 127.0.0.1 -p {{port}} -U postgres -d app -c 'CREATE TABLE t (n int)'\"\n\
         counters = {{ postgresql = \"host=127.0.0.1 port={{port}} user=postgres dbname=app\"{counters} }}\n"
    )
}

/// A folder for PostgreSQL, into which its user may go.
fn bench_of_postgres() -> Option<Bench> {
    let bench = bench(&["node", "postgres", "initdb", "psql"])?;
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(bench.dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    Some(bench)
}

#[test]
fn postgresql_counts_exactly_the_transactions_and_statements_of_its_clients() {
    let Some(bench) = bench_of_postgres() else { return };
    let api = api(", \"0\", \"{service.pg.port}\"", "").replace("[[service]]\n", "[[service]]\nafter = [\"pg\"]\n");
    let phases = [
        requests("write", "/sql", 50),
        requests("again", "/sql", 2),
        "[[phase]]\nname = \"rest\"\nsettle = { quiet = \"500 ms\", within = \"30 s\" }\n".to_owned(),
        requests("more", "/sql", 3),
    ];
    let trial = bench.trial(&format!("{}{api}{}", postgres(""), phases.concat()));
    sound(&trial);
    let get = |name, key| of(&trial, name, "pg", key);
    // prony's session is of another database.
    assert_eq!(get("write", "tup_inserted"), Ok(50.0));
    assert_eq!((get("write", "statements"), get("write", "operations.per.ok")), (Ok(50.0), Ok(1.0)));
    assert_eq!((get("write", "temp_bytes"), get("write", "deadlocks")), (Ok(0.0), Ok(0.0)));
    assert!(get("write", "wal_bytes").unwrap() > 50.0 * 20.0);
    assert_eq!((get("write", "connections.end"), get("write", "connections_active.end")), (Ok(2.0), Ok(0.0)));
    assert!(get("write", "size_bytes.end").unwrap() > 1e6);
    // A phase that is followed by one that waits for quiet cannot wait for sessions to report.
    assert!(get("again", "tup_inserted").unwrap_err().contains("waits for quiet begins at once"));
    assert!(get("rest", "tup_inserted").is_err());
    assert_eq!((get("again", "statements"), get("rest", "statements")), (Ok(2.0), Ok(0.0)));
    assert_eq!((get("more", "tup_inserted"), get("more", "statements")), (Ok(3.0), Ok(3.0)));
}

#[test]
fn sessions_that_a_role_may_not_see_are_no_zero() {
    let Some(bench) = bench_of_postgres() else { return };
    let api = api(", \"0\", \"{service.pg.port}\"", "").replace("[[service]]\n", "[[service]]\nafter = [\"pg\"]\n");
    let names = ", totals = [\"xact_commit\", \"statements\"], gauges = [\"connections\", \"connections_active\", \"size_bytes\"]";
    let pg =
        postgres(names).replace("-c 'CREATE DATABASE app'", "-c 'CREATE DATABASE app' -c 'CREATE ROLE reader LOGIN'");
    let pg = pg.replace("user=postgres dbname=app", "user=reader dbname=app");
    let trial = bench.trial(&format!("{pg}{api}{}", requests("write", "/sql", 5)));
    sound(&trial);
    let get = |key| of(&trial, "write", "pg", key);
    for key in ["xact_commit", "connections.end", "connections_active.end"] {
        assert!(get(key).unwrap_err().contains("GRANT pg_read_all_stats"), "{:?}", get(key));
    }
    assert_eq!((get("statements"), get("size_bytes.end").is_ok()), (Ok(5.0), true));
    assert!(trial.findings.iter().any(|found| found.guard == "counters_not_read"));
}

#[test]
fn statistics_of_postgresql_that_were_reset_are_missing() {
    let Some(bench) = bench_of_postgres() else { return };
    let api = api(", \"0\", \"{service.pg.port}\"", "").replace("[[service]]\n", "[[service]]\nafter = [\"pg\"]\n");
    let phases = [requests("reset", "/resetsql", 1), requests("write", "/sql", 4)];
    let trial =
        bench.trial(&format!("{}{api}{}", postgres(", totals = [\"tup_inserted\", \"statements\"]"), phases.concat()));
    sound(&trial);
    assert!(of(&trial, "reset", "pg", "tup_inserted").unwrap_err().contains("began anew"));
    assert_eq!(of(&trial, "write", "pg", "tup_inserted"), Ok(4.0));
}

#[test]
fn numbers_that_postgresql_does_not_count_are_no_zero() {
    let Some(bench) = bench_of_postgres() else { return };
    let api = api(", \"0\", \"{service.pg.port}\"", "").replace("[[service]]\n", "[[service]]\nafter = [\"pg\"]\n");
    let names = ", totals = [\"xact_commit\", \"tup_inserted\", \"blks_hit\", \"statements\"]";
    let run = |settings: [&str; 2]| {
        let options = settings.map(|setting| format!("\"-c\", \"{setting}\", ")).concat();
        let pg = postgres(names).replace("\"-c\", \"fsync=off\", ", &format!("\"-c\", \"fsync=off\", {options}"));
        let trial = bench.trial(&format!("{pg}{api}{}", requests("write", "/sql", 5)));
        sound(&trial);
        ["xact_commit", "tup_inserted", "blks_hit", "statements"].map(|key| of(&trial, "write", "pg", key))
    };
    let [commits, rows, blocks, statements] = run(["track_counts=off", "pg_stat_statements.track=none"]);
    assert!(commits.clone().unwrap_err().contains("until a later one touches some"), "{commits:?}");
    for missing in [rows, blocks] {
        assert!(missing.clone().unwrap_err().contains("`track_counts = on`"), "{missing:?}");
    }
    assert!(statements.clone().unwrap_err().contains("`pg_stat_statements.track = top`"), "{statements:?}");
    let [_, rows, _, statements] = run(["track_counts=on", "pg_stat_statements.track_utility=off"]);
    assert_eq!(rows, Ok(5.0));
    assert!(statements.unwrap_err().contains("`pg_stat_statements.track_utility = on`"));
}

#[test]
fn bodies_that_are_sent_again_are_a_finding() {
    let Some(bench) = bench(&["node"]) else { return };
    let http = |body: &str| {
        format!(
            "[[phase]]\nname = \"post\"\nhttp = {{ service = \"api\", path = \"/\", body = \"{body}\", requests = 8 }}\n"
        )
    };
    for (body, distinct, found) in [("same", 1.0, true), ("body {i}", 8.0, false)] {
        let trial = bench.trial(&format!("{}{}", api("", ""), http(body)));
        sound(&trial);
        assert_eq!(of(&trial, "post", "", "sent.distinct"), Ok(distinct));
        let guards: Vec<&str> = trial.findings.iter().map(|found| found.guard.as_str()).collect();
        assert_eq!(guards.contains(&"repeated_bodies"), found, "{guards:?}");
    }
}

#[test]
fn names_of_counters_are_checked() {
    let bench = Bench::new();
    let service = "[[service]]\nname = \"pg\"\ncommand = \"sleep {port}\"\ncounters = { postgresql = \"host=x user=y\", gauges = [\"connections\"]COUNTERS }\n";
    let rest = "[[phase]]\nname = \"ask\"\nhttp = { service = \"pg\", path = \"/\", requests = \"{n}\" }\n[factors]\nn = [1, 2]\n[compare]\nbaseline = { n = 1 }\nmetric = \"ask.METRIC\"\n";
    for (counters, metric, said) in [
        (", totals = [\"xact_commit\"]", "pg.xact_commit", ""),
        ("", "pg.deadlocks", ""),
        ("", "pg.operations.per.ok", ""),
        ("", "pg.connections.max", ""),
        ("", "status.404", ""),
        (", totals = [\"deadlocks\"]", "pg.xact_commit", "neither a metric nor a counter of service `pg`"),
        (", totals = [\"deadlocks\"]", "pg.operations.per.ok", "nothing counts operations of service `pg`"),
        (", totals = [\"deadlock\"]", "pg.cpu", "did you mean `deadlocks`"),
        (", totals = [\"size_bytes\"]", "pg.cpu", "name it in `gauges`"),
        ("", "pg.connections", "`.max`, `.min` or `.end`"),
        ("", "pg.deadlocks.max", "is a total, which has no statistic"),
        ("", "operations.per.ok", "names no service"),
        ("", "load.xact_commit", "is not a metric"),
        (", redis = \"y\"", "pg.cpu", "postgresql"),
    ] {
        let text = format!("{}{}", service.replace("COUNTERS", counters), rest.replace("METRIC", metric));
        // The order of the file's parts is free, but `[compare]` is no part of a phase.
        bench.write("x.toml", text);
        let output = bench.prony(&["check", "x.toml"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), said.is_empty(), "{counters} {metric}: {stderr}");
        assert!(stderr.contains(said), "{counters} {metric}: {stderr}");
    }
    let service = service
        .replace("postgresql = \"host=x user=y\", gauges = [\"connections\"]COUNTERS", "mongodb = \"x\"COUNTERS");
    for (counters, metric, said) in [
        ("", "pg.operations.per.ok", ""),
        ("", "pg.connections.max", ""),
        (", totals = [\"write_conflict\"]", "pg.cpu", "did you mean `write_conflicts`"),
        (", totals = [\"cache_bytes\"]", "pg.cpu", "`cache_bytes` of MongoDB is no total"),
    ] {
        bench.write("x.toml", format!("{}{}", service.replace("COUNTERS", counters), rest.replace("METRIC", metric)));
        let output = bench.prony(&["check", "x.toml"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), said.is_empty(), "{counters} {metric}: {stderr}");
        assert!(stderr.contains(said), "{counters} {metric}: {stderr}");
    }
}

/// Such a run had no number of the service.
#[test]
fn addresses_of_counters_that_can_never_be_read_are_refused() {
    let bench = Bench::new();
    let rest = "[[phase]]\nname = \"ask\"\nhttp = { service = \"pg\", path = \"/\", requests = 1 }\n";
    let file = |counters: &str| {
        let service =
            format!("[[service]]\nname = \"pg\"\ncommand = \"sleep {{port}}\"\ncounters = {{ {counters} }}\n");
        bench.write("x.toml", service + rest);
        let output = bench.prony(&["check", "x.toml"]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(file("postgresql = \"host=127.0.0.1 port={port} user=x\"").0, Some(0));
    for (counters, said) in [
        ("postgresql = \"nonsense\"", "x.toml:4:"),
        ("postgresql = \"host=127.0.0.1\"", "`postgresql = \"host=127.0.0.1 port={port} user=NAME dbname=NAME\"`"),
        ("redis = \"rediss://x\"", "`redis = \"127.0.0.1:{port}\"`"),
        ("prometheus = \"https://x\", totals = [\"a\"]", "only `http://` is read"),
    ] {
        let (code, stderr) = file(counters);
        assert_eq!(code, Some(2), "{counters}: {stderr}");
        assert!(stderr.contains(said), "{counters}: {stderr}");
    }
}

/// PostgreSQL refuses root, so that its tests need the user; without root the key has no effect.
#[test]
fn commands_of_a_service_run_as_its_user() {
    let Some(bench) = bench(&["node"]) else { return };
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(bench.dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(bench.path("server"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let log = bench.path("log");
    std::fs::write(&log, "").unwrap();
    std::fs::set_permissions(&log, std::fs::Permissions::from_mode(0o666)).unwrap();
    let log = log.display();
    let keys = format!(
        "user = \"nobody\"\nprepare = \"echo prepare $(id -u) >> {log}; touch {{data}}/x\"\nsetup = \"echo setup $(id -u) >> {log}\""
    );
    let service = api("", "counters = { command = \"echo n $(id -u)\", gauges = [\"n\"] }")
        .replace("copy =", &format!("{keys}\ncopy ="));
    let trial = bench.trial(&format!("{service}{}", requests("ask", "/", 1)));
    sound(&trial);
    let me = String::from_utf8(Command::new("id").arg("-u").output().unwrap().stdout).unwrap();
    let expected = if me.trim() == "0" { "65534".to_owned() } else { me.trim().to_owned() };
    let text = std::fs::read_to_string(bench.path("log")).unwrap();
    assert_eq!(text, format!("prepare {expected}\nsetup {expected}\n"));
    assert_eq!(of(&trial, "ask", "api", "n.end"), Ok(expected.parse().unwrap()));
}

/// Of `experiments/document-api`, what is known: an upsert is 5 statements, 6 with the lock, where nothing conflicts.
#[test]
fn document_api_takes_as_many_statements_as_an_upsert_has() {
    let Some(bench) = bench_of_postgres() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let server = root.join("examples/document-api");
    if !server.join("node_modules").is_dir() {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "`npm ci` in `examples/document-api`");
        println!("SKIPPED: `npm ci` was not run in `examples/document-api`");
        return;
    }
    let text = std::fs::read_to_string(root.join("experiments/document-api/document-api.toml")).unwrap();
    let text = text.replace("../../examples/document-api", server.to_str().unwrap()).replace("1_000", "60");
    bench.write("e.toml", text);
    let set = ["--set", "bodies=unique", "--set", "connections=1,10", "--blocks", "1", "--quiet"];
    let output = bench.prony(&[&["run", "e.toml"], &set[..]].concat());
    assert_ne!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let data = bench.data();
    let mut without_lock = 0;
    for trial in &data.trials {
        sound(trial);
        let spec = &data.experiment.variants()[trial.trial.variant].spec;
        let lock = spec.services.iter().find_map(|service| service.program.env.get("LOCK")).unwrap();
        let connections = spec.phases[1].action.http().unwrap().connections;
        let each = ["api", "postgres"].map(|service| of(trial, "insert", service, "operations.per.ok").unwrap());
        match (lock.as_str(), connections) {
            ("off", _) => assert_eq!(each, [5.0, 5.0]),
            (_, 1) => assert_eq!(each, [6.0, 6.0]),
            // The server counts statements that failed too, PostgreSQL those that succeeded.
            _ => assert!(each[0] >= each[1] && each[1] >= 6.0, "{each:?}"),
        }
        without_lock += usize::from(lock == "off");
    }
    assert_eq!((data.trials.len(), without_lock), (6, 2));
}
