//! Tests stores of Redis, which services of the file start, through the real binary.

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::Outcome;
use prony_model::reading::Reading;
use prony_model::record::{MetricKeyText, TrialRecord};
use prony_model::spec::Durability;

use crate::bench::{Bench, amount, phase, version};

/// A service of Redis with these further settings.
fn redis(settings: &str) -> String {
    format!(
        "[[service]]\nname = \"redis\"\n\
         command = [\"redis-server\", \"--port\", \"{{port}}\", \"--bind\", \"127.0.0.1\", \"--dir\", \"{{data}}\", \"--save\", \"\"{settings}]\n"
    )
}

const ALWAYS: &str = ", \"--appendonly\", \"yes\", \"--appendfsync\", \"always\"";

const URL: &str = "url = \"redis://127.0.0.1:{service.redis.port}\"";

const DATA: &str = "[data]\nrecords = 300\nvalue = { bytes = 100 }\n";

const PHASES: &str = "[[phase]]\nname = \"load\"\nput = { transaction = { batch = 50 } }\n\
    [[phase]]\nname = \"each\"\nupdate = { count = 40 }\n\
    [[phase]]\nname = \"read\"\nget = {}\n\
    [[phase]]\nname = \"again\"\nreopen = {}\n\
    [[phase]]\nname = \"mixed\"\nmix = { read = 50, update = 30, insert = 20, count = 200 }\n\
    [[phase]]\nname = \"some\"\ndelete = { count = 10 }\n\
    [[phase]]\nname = \"check\"\nverify = {}\n";

fn of(trial: &TrialRecord, name: &str, instance: &str, key: MetricKey) -> Reading<f64> {
    let readings = &phase(trial, name).readings;
    let found = readings.get(instance).unwrap_or_else(|| panic!("{instance} of {:?}", readings.keys()));
    found[&MetricKeyText(key)].clone()
}

#[test]
fn redis_gives_the_answers_of_the_memory_engine_and_has_the_metrics_of_its_phases() {
    let Some(_) = version("redis-server") else { return };
    let bench = Bench::new();
    let levels = format!(
        "[factors.at]\nredis = {{ engine = \"redis\", {URL} }}\nheap = {{ engine = \"memory\" }}\n\
         [compare]\nbaseline = {{ at = \"heap\" }}\nmetric = \"load.all.cpu\"\nblocks = 1\n"
    );
    // The memory engine keeps nothing when it is closed.
    let phases = PHASES.replace("name = \"again\"\nreopen = {}", "name = \"again\"\npause = \"1 ms\"");
    let data = bench.run(&format!("{levels}{}[store]\nuse = \"{{at}}\"\n{DATA}{phases}", redis("")));
    let [ours, theirs] = [true, false].map(|is_redis| {
        let engine = |trial: &TrialRecord| trial.effective.as_ref().unwrap().store().unwrap().engine.clone();
        data.trials.iter().find(|trial| (engine(trial) == "redis") == is_redis).unwrap()
    });
    for trial in [ours, theirs] {
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    }
    for name in ["load", "each", "read", "mixed", "some"] {
        let of = |trial| (phase(trial, name).answer.clone(), amount(trial, name, Metric::Operations));
        assert_eq!(of(ours), of(theirs), "{name}");
    }
    let checked = |trial| phase(trial, "check").answer.clone().unwrap();
    assert_eq!(checked(ours), checked(theirs));
    let cpu = |instance: &str| *of(ours, "load", instance, MetricKey::amount(Metric::Cpu)).measured().unwrap();
    let [all, own, worker] = ["all", "redis", "worker"].map(cpu);
    assert!(own > 0.0 && worker > 0.0, "{own} {worker}");
    assert!((cpu("") - own).abs() <= 1e-6 * own, "the phase's metrics are the server's");
    assert!((all - own - worker).abs() <= 1e-6 * all, "{all} of {own} and {worker}");
    let anon = |instance: &str| {
        of(ours, "load", instance, MetricKey::gauge(Metric::Anon, Stat::End)).measured().copied().unwrap()
    };
    assert!(anon("all") > anon("redis"), "{} {}", anon("all"), anon("redis"));
    let store = ours.effective.as_ref().unwrap().store().unwrap();
    assert!(store.version.starts_with(|c: char| c.is_ascii_digit()), "{}", store.version);
    assert_eq!((store.durability, store.services.len()), (Durability::Volatile, 1));
}

#[test]
fn strict_redis_syncs_each_commit_once_and_a_server_that_does_not_is_refused() {
    let Some(_) = version("redis-server") else { return };
    let bench = Bench::new();
    let store = format!("[store]\nengine = \"redis\"\ndurability = \"strict\"\n{URL}\n");
    let trial = bench.trial(&format!("{}{store}{DATA}{PHASES}", redis(ALWAYS)));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let syncs = |name: &str, instance: &str| of(&trial, name, instance, MetricKey::amount(Metric::Fsyncs));
    match syncs("each", "") {
        Reading::Measured(count) => {
            assert_eq!((count, syncs("each", "worker")), (40.0, Reading::Measured(0.0)));
            assert_eq!((syncs("load", ""), syncs("some", "")), (Reading::Measured(6.0), Reading::Measured(10.0)));
        }
        Reading::Missing(why) => println!("SKIPPED: {why}"),
    }
    let trial = bench.trial(&format!("{}{store}{DATA}{PHASES}", redis("")));
    assert_eq!(trial.ending.outcome, Outcome::Unsupported, "{:?}", trial.ending);
    let named =
        |text: &String| text.contains("appendonly = no") && text.contains("`--appendonly yes --appendfsync always");
    assert!(trial.ending.evidence.iter().any(named), "{:?}", trial.ending);
}

#[test]
fn what_redis_does_not_have_is_refused_where_it_is_written() {
    let bench = Bench::new();
    let store = "[store]\nengine = \"redis\"\nurl = \"redis://127.0.0.1:6379\"\n";
    let documents = "[data]\nrecords = 10\ndocument = { id = \"x{i}\", city = \"a\" }\n";
    for (data, store, phase, place, said) in [
        (DATA, String::new(), "scan = {}", "scan = {}", "`redis` does not keep keys in order, so it cannot scan"),
        (
            DATA,
            String::new(),
            "compute = { transaction = { batch = 2 } }",
            "{ batch = 2 }",
            "cannot read inside a write transaction",
        ),
        (DATA, String::new(), "put = { transaction = \"open\" }", "\"open\"", "cannot keep a transaction open"),
        (DATA, String::new(), "evict = {}", "evict = {}", "whose memory `evict` cannot empty"),
        (documents, "indexes = [[\"city\"]]\n".to_owned(), "put = {}", "indexes", "so it cannot have indexes"),
        (documents, String::new(), "find = { query = {} }", "find", "answers no queries over documents here"),
        (DATA, "durability = \"relaxed\"\n".to_owned(), "put = {}", "relaxed", "does not offer durability `relaxed`"),
        (
            DATA,
            "durability = \"strict\"\noptions = { appendfsync = \"no\" }\n".to_owned(),
            "put = {}",
            "\"strict\"",
            "the options result in `none`",
        ),
        (
            DATA,
            "options = { appendfsync = \"often\" }\n".to_owned(),
            "put = {}",
            "often",
            "it takes one of `always`, `everysec`, `no`",
        ),
    ] {
        bench.write("e.toml", format!("{store}{data}[[phase]]\nname = \"it\"\n{phase}\n", store = store_of(&store)));
        let output = bench.prony(&["check", "e.toml"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{phase}: {text}");
        let shown = text.lines().any(|line| line.contains(place) && line.contains('|'));
        assert!(text.contains(said) && shown, "{phase}: {text}");
    }
    bench.write("e.toml", format!("{}{DATA}{PHASES}", store.replace("redis://", "http://")));
    let output = bench.prony(&["check", "e.toml"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("the URL does not begin with `redis://`") && text.contains("url = \"http://"), "{text}");
}

/// `[store]` with further lines.
fn store_of(more: &str) -> String {
    format!("[store]\nengine = \"redis\"\nurl = \"redis://127.0.0.1:6379\"\n{more}")
}
