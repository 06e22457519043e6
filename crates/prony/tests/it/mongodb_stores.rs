//! Tests stores of MongoDB, which services of the file start, through the real binary.

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
