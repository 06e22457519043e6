//! Tests stores of MongoDB, which services of the file start, through the real binary.

use std::path::{Path, PathBuf};

use prony_model::metric::MetricKey;
use prony_model::record::MetricKeyText;

use crate::bench::{Bench, phase, version};
use crate::server_documents::{DATA, PHASES, answers_as_sqlite};

const SERVER: &str = "[[service]]\nname = \"mongodb\"\n\
    command = [\"mongod\", \"--port\", \"{port}\", \"--bind_ip\", \"127.0.0.1\", \"--dbpath\", \"{data}\"]\n\
    counters = { mongodb = \"127.0.0.1:{port}\" }\n";

const URL: &str = "url = \"mongodb://127.0.0.1:{service.mongodb.port}/db\"";

#[test]
fn mongodb_gives_the_answers_of_sqlite_and_counts_what_was_sent() {
    let Some(_) = version("mongod") else { return };
    let body = format!("{SERVER}{DATA}{PHASES}");
    let ours = answers_as_sqlite(&Bench::new(), "mongodb", URL, "[[\"isOdd\", \"step\"]]", &body);
    let counted = |name: &str, counter: &str| {
        let readings = &phase(&ours, name).readings["mongodb"];
        let key: MetricKey = counter.parse().unwrap();
        readings[&MetricKeyText(key)].measured().copied()
    };
    assert_eq!((counted("load", "updates"), counted("load", "queries")), (Some(300.0), Some(0.0)));
    assert_eq!((counted("read", "queries"), counted("some", "deletes")), (Some(300.0), Some(10.0)));
    let plan = ours.findings.iter().find(|found| found.guard == "query_plan").map(|found| found.message.as_str());
    assert!(plan.is_some_and(|plan| plan.contains("IXSCAN (d.isOdd, d.step)")), "{plan:?}");
}

#[test]
fn several_operations_in_a_transaction_are_refused_before_anything_runs() {
    let bench = Bench::new();
    let store = format!("[store]\nengine = \"mongodb\"\n{URL}\n");
    let phases = PHASES.replace("put = {}", "put = { transaction = { batch = 50 } }");
    bench.write("e.toml", format!("{SERVER}{store}{DATA}{phases}"));
    let output = bench.prony(&["check", "e.toml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("has no transactions of several operations"), "{said}");
}

/// The installed document API, which has MongoDB's own driver.
fn document_api() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let there = root.join("examples/document-api");
    if there.join("node_modules").is_dir() {
        return Some(there);
    }
    assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "`npm ci` in `examples/document-api`");
    println!("SKIPPED: `npm ci` was not run in `examples/document-api`");
    None
}

#[test]
fn mongodb_that_asks_for_a_login_gets_one_from_the_store_and_from_the_counters() {
    let (Some(_), Some(api)) = (version("mongod"), document_api()) else { return };
    let bench = Bench::new();
    let user = format!(
        "const {{ MongoClient }} = require({:?});\n\
         new MongoClient(`mongodb://127.0.0.1:${{process.argv[2]}}/?directConnection=true`).connect().then(async (client) => {{\n  \
         await client.db('admin').command({{ createUser: 'a:b', pwd: 'p@s,s', roles: ['root'] }});\n  await client.close();\n}});\n",
        api.join("node_modules/mongodb")
    );
    bench.write("user.js", user);
    let script = bench.path("user.js");
    let service = SERVER
        .replace("\"{data}\"]", &format!("\"{{data}}\", \"--auth\"]\nsetup = [\"node\", {script:?}, \"{{port}}\"]"))
        .replace("\"127.0.0.1:{port}\"", "\"mongodb://a%3Ab:p%40s%2Cs@127.0.0.1:{port}/admin\"");
    let store = |password: &str| {
        let url = URL.replace("://", &format!("://a%3Ab:{password}@")).replace("/db", "/db?authSource=admin");
        format!("{service}[store]\nengine = \"mongodb\"\n{url}\n{DATA}{PHASES}")
    };
    bench.write("e.toml", store("p%40s%2Cs"));
    let output = bench.prony(&["run", "e.toml", "--blocks", "1", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let trial = &bench.data().trials[0];
    let readings = &phase(trial, "load").readings["mongodb"];
    let [updates, operations] =
        ["updates", "operations"].map(|name| readings[&MetricKeyText(name.parse().unwrap())].measured().copied());
    assert_eq!(updates, Some(300.0));
    assert!(operations.is_some(), "{readings:?}");

    bench.write("e.toml", store("wrong"));
    let output = bench.prony(&["run", "e.toml", "--blocks", "1", "--quiet"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("Authentication failed"), "{said}");
}

/// Of `experiments/document-api/mongodb.toml`, what is known of a server without transactions: an upsert is 3 commands, 4 with the lock.
#[test]
fn document_api_sends_mongodb_as_many_commands_as_an_upsert_has() {
    let (Some(_), Some(api)) = (version("mongod"), document_api()) else { return };
    let bench = Bench::new();
    let text = std::fs::read_to_string(api.join("../../experiments/document-api/mongodb.toml")).unwrap();
    let text = text.replace("../../examples/document-api", api.to_str().unwrap()).replace("1_000", "60");
    bench.write("e.toml", text.replace("TRANSACTIONS = \"on\"", "TRANSACTIONS = \"off\""));
    let output = bench.prony(&["run", "e.toml", "--set", "connections=1,10", "--blocks", "1", "--quiet"]);
    assert_ne!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let data = bench.data();
    for trial in &data.trials {
        let readings = &phase(trial, "insert").readings;
        let count = |service: &str, name: &str| {
            readings[service][&MetricKeyText(name.parse().unwrap())].measured().copied().unwrap()
        };
        let spec = &data.experiment.variants()[trial.trial.variant].spec;
        let lock = spec.services.iter().find_map(|service| service.program.env.get("LOCK")).unwrap();
        let locked = f64::from(u8::from(lock == "on"));
        assert_eq!(count("api", "operations.per.ok"), 3.0 + locked);
        assert_eq!(count("mongodb", "updates"), 60.0 * (1.0 + locked));
    }
    assert_eq!(data.trials.len(), 6);
}
