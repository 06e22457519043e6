//! Tests stores of MongoDB, which services of the file start, through the real binary.

use prony_model::metric::{Metric, MetricKey};
use prony_model::outcome::Outcome;
use prony_model::record::{MetricKeyText, TrialRecord};

use crate::bench::{Bench, amount, phase, version};

const SERVER: &str = "[[service]]\nname = \"mongodb\"\n\
    command = [\"mongod\", \"--port\", \"{port}\", \"--bind_ip\", \"127.0.0.1\", \"--dbpath\", \"{data}\"]\n\
    counters = { mongodb = \"127.0.0.1:{port}\" }\n";

const URL: &str = "url = \"mongodb://127.0.0.1:{service.mongodb.port}/db\"";

const DATA: &str = "[data]\nrecords = 300\nencoding = \"json\"\n[data.document]\nid = \"/page/{i}/\"\nstep = { sequence = 0 }\n\
    isOdd = { cycle = [false, true] }\nname = { words = 3 }\n";

const PHASES: &str = "[[phase]]\nname = \"load\"\nput = {}\n\
    [[phase]]\nname = \"each\"\nupdate = { count = 40 }\n\
    [[phase]]\nname = \"read\"\nget = {}\n\
    [[phase]]\nname = \"range\"\nscan = { length = 7, count = 20 }\n\
    [[phase]]\nname = \"ask\"\n[phase.find]\ncount = 20\n[[phase.find.query]]\n\
    where = { isOdd = true, step = { gte = \"{doc.step}\" } }\nsort = [\"step\"]\nlimit = 9\n\
    [[phase]]\nname = \"some\"\ndelete = { count = 10 }\n\
    [[phase]]\nname = \"check\"\nverify = {}\n";

#[test]
fn mongodb_gives_the_answers_of_sqlite_and_counts_what_was_sent() {
    let Some(_) = version("mongod") else { return };
    let bench = Bench::new();
    let levels = format!(
        "[factors.at]\nmongodb = {{ engine = \"mongodb\", {URL} }}\nsqlite = {{ engine = \"sqlite\" }}\n\
         [compare]\nbaseline = {{ at = \"sqlite\" }}\nmetric = \"read.latency.p50\"\nblocks = 1\n"
    );
    let store = "[store]\nuse = \"{at}\"\nindexes = [[\"isOdd\", \"step\"]]\n";
    let data = bench.run(&format!("{levels}{SERVER}{store}{DATA}{PHASES}"));
    let [ours, theirs] = [true, false].map(|is_server| {
        let engine = |trial: &TrialRecord| trial.effective.as_ref().unwrap().store().unwrap().engine.clone();
        data.trials.iter().find(|trial| (engine(trial) == "mongodb") == is_server).unwrap()
    });
    for trial in [ours, theirs] {
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    }
    for name in ["load", "each", "read", "range", "ask", "some"] {
        let of = |trial| (phase(trial, name).answer.clone(), amount(trial, name, Metric::Operations));
        assert_eq!(of(ours), of(theirs), "{name}");
    }
    let checked = |trial| phase(trial, "check").answer.clone().unwrap();
    assert_eq!(checked(ours), checked(theirs));
    let counted = |name: &str, counter: &str| {
        let readings = &phase(ours, name).readings["mongodb"];
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
